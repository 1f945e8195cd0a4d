package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var f figures
	f.gauge("a", "Some.", 1.5e9, "b", "x\"\\\ny", "c", "")
	f.counter("d", "More.", 0)
	is.Equal(
		f.text.String(),
		"# HELP kist_a Some.\n# TYPE kist_a gauge\nkist_a{b=\"x\\\"\\\\\\ny\",c=\"\"} 1.5e+09\n# HELP kist_d More.\n# "+
			"TYPE kist_d counter\nkist_d 0\n",
	)

	m := meter{requests: map[counted]uint64{}}
	for _, took := range []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Hour} {
		m.note(&web.AnswerWriter{Op: "x", Status: 200, Bytes: 5}, took)
	}
	f = figures{}
	m.write(&f)
	for _, line := range []string{
		`kist_http_requests_total{op="x",status="200"} 3`, `kist_http_request_duration_seconds_bucket{le="0.001"} 1`,
		`kist_http_request_duration_seconds_bucket{le="0.005"} 2`, `kist_http_request_duration_seconds_bucket{le="60"} 2`,
		`kist_http_request_duration_seconds_bucket{le="+Inf"} 3`, "kist_http_request_duration_seconds_sum 3600.003", "kist_http_sent_bytes_total 15",
	} {
		is.True(strings.Contains(f.text.String(), line+"\n")) // the figure
	}
}
