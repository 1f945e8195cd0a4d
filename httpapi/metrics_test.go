package httpapi

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/people"
)

// The figures are for administrators, by a key of whatever scope.
func TestMetrics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.get("/metrics").want(404) // off

	a = start(t, func(c *web.Config) { c.Metrics, c.Version = true, "1.2.3" })
	a.upload(map[string]string{"isPublic": "true", "slug": "seven"}, file{"a.txt", "", "1234567"}).want(201)
	a.post("/api/v1/notes", `{"content":"a"}`).want(201)
	a.get("/x/seven").want(200)
	a.get("/x/missing").want(404)

	narrow := a.addKey(a.user, people.ScopeUpload)
	text := string(a.do(apiRequest{method: "GET", path: "/metrics", key: narrow}).want(200).body)
	for _, line := range []string{
		`kist_build_info{version="1.2.3"} 1`, "kist_users 1", `kist_records{kind="file"} 1`, `kist_records{kind="note"} 1`, `kist_records{kind="game"} 0`,
		"kist_stored_bytes 7", "kist_uploads_pending 0", "kist_webhook_deliveries_waiting 0", "kist_journal_damaged 0", "kist_writable 1", "kist_collected 1",
		`kist_http_requests_total{op="readRaw",status="200"} 1`, `kist_http_requests_total{op="readRaw",status="404"} 1`, "kist_http_request_duration_seconds_count 4",
		`kist_http_request_duration_seconds_bucket{le="+Inf"} 4`, "# TYPE kist_http_request_duration_seconds histogram",
	} {
		is.True(strings.Contains(text, line+"\n")) // the figure
	}
	for line := range strings.Lines(text) {
		is.True(regexp.MustCompile(`^(# (HELP|TYPE) )?kist_`).MatchString(line)) // every name begins so
	}

	bob := a.addUser("bob", people.Member)
	a.do(apiRequest{method: "GET", path: "/metrics", key: a.addKey(bob, people.ScopeAll)}).want(403)
	a.do(apiRequest{method: "GET", path: "/metrics", anyone: true}).want(401)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var f figures
	f.gauge("a", "Some.", 1.5e9, "b", "x\"\\\ny", "c", "")
	f.counter("d", "More.", 0)
	is.Equal(f.text.String(), "# HELP kist_a Some.\n# TYPE kist_a gauge\nkist_a{b=\"x\\\"\\\\\\ny\",c=\"\"} 1.5e+09\n# HELP kist_d More.\n# TYPE kist_d counter\nkist_d 0\n")

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
