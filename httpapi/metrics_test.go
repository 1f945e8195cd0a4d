package httpapi

import (
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/record"
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

	narrow := a.addKey(a.user, record.ScopeUpload)
	text := string(a.do(apiRequest{method: "GET", path: "/metrics", key: narrow}).want(200).body)
	for _, line := range []string{
		`kist_build_info{version="1.2.3"} 1`, "kist_users 1", `kist_records{kind="file"} 1`, `kist_records{kind="note"} 1`, `kist_records{kind="game"} 0`,
		"kist_stored_bytes 7", "kist_uploads_pending 0", "kist_webhook_deliveries_waiting 0", "kist_journal_damaged 0", "kist_collected 1",
		`kist_http_requests_total{op="readRaw",status="200"} 1`, `kist_http_requests_total{op="readRaw",status="404"} 1`, "kist_http_request_duration_seconds_count 4",
	} {
		is.True(strings.Contains(text, line+"\n")) // the figure
	}
	for line := range strings.Lines(text) {
		is.True(regexp.MustCompile(`^(# (HELP|TYPE) )?kist_`).MatchString(line)) // every name begins so
	}

	bob := a.addUser("bob", record.Member)
	a.do(apiRequest{method: "GET", path: "/metrics", key: a.addKey(bob, record.ScopeAll)}).want(403)
	a.do(apiRequest{method: "GET", path: "/metrics", anyone: true}).want(401)
}
