package httpapi_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/people"
)

// The figures are for administrators, by a key of whatever scope.
func TestMetrics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Get("/metrics").Want(404) // off

	a = apitest.Start(t, func(c *web.Config) { c.Metrics, c.Version = true, "1.2.3" })
	a.Upload(map[string]string{"isPublic": "true", "slug": "seven"}, apitest.File("a.txt", "", "1234567")).Want(201)
	a.Post("/api/v1/notes", `{"content":"a"}`).Want(201)
	a.Get("/x/seven").Want(200)
	a.Get("/x/missing").Want(404)

	narrow := a.AddKey(a.User, people.ScopeUpload)
	text := string(a.Do(apitest.Request{Method: "GET", Path: "/metrics", Key: narrow}).Want(200).Body)
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

	bob := a.AddUser("bob", people.Member)
	a.Do(apitest.Request{Method: "GET", Path: "/metrics", Key: a.AddKey(bob, people.ScopeAll)}).Want(403)
	a.Do(apitest.Request{Method: "GET", Path: "/metrics", Anyone: true}).Want(401)
}
