package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/outbound"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
)

const remoteAt = "/api/v1/remote-upload"

// fetching runs the work on remote uploads until stop, or the end of the test.
func (a *app) fetching(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { a.server.Fetches.Run(ctx) })
	stop = func() { cancel(); work.Wait() }
	t.Cleanup(stop)
	return stop
}

// remote asks for a file and returns the path of the job.
func (a *app) remote(body any) string {
	a.Helper()
	return remoteAt + "/" + a.post(remoteAt, body).want(202).text("jobs.0.id")
}

// stateOf waits for a job to be in a state.
func (a *app) stateOf(at, state string) (now *answer) {
	a.Helper()
	eventually(a.TB, "it never is "+state, func() bool {
		now = a.get(at).want(200)
		return now.text("data.state") == state
	})
	return now
}

// clean looks whether the store is whole, nothing is reserved, and no content
// is there without a file.
func (a *app) clean() {
	a.Helper()
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
		use, err := people.UsageOf(tx, a.user)
		if use.Begun != 0 || inbox.ReservedBytes(tx) != 0 {
			a.Errorf("%d bytes are reserved, %d are still to come", use.Begun, inbox.ReservedBytes(tx))
		}
		tx.Audit(func(err error) { a.Error(err) })
		return err
	}))
	for one, err := range a.server.Blobs.All() {
		a.fatal(err)
		if loose, err := catalog.ContentUnknown(a.server.Store, one.Ref); err != nil || loose {
			a.Errorf("content is left without a file: %v", err)
		}
	}
}

func TestRemoteUpload(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	a.fetching(t)
	content := strings.Repeat("kist", 100_000)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/go" {
			http.Redirect(w, r, "/notes/summer%20%C3%A9.txt?token=1", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, content)
	}))
	t.Cleanup(target.Close)
	is.Equal(string(a.get(remoteAt).want(200).body), `{"jobs":[]}`)
	a.post("/api/v1/tags", map[string]any{"name": "kept"}).want(201)
	tag := a.get("/api/v1/tags").text("0.id")
	begun := a.post(remoteAt, map[string]any{
		"url": target.URL + "/go", "description": "from afar", "isPublic": true, "slug": "summer", "folderName": "Afar", "tagIds": []string{tag}, "newTags": []string{"a", "b"},
		"password": "open sesame", "maxViews": 3, "maxViewsAction": "delete", "expiresAt": "2099-01-01T00:00:00Z", "unknown": 1,
	}).want(202)
	is.Equal(begun.text("jobs.0.url"), target.URL+"/go")
	is.Equal(begun.at("jobs.0.file"), nil)
	at := remoteAt + "/" + begun.text("jobs.0.id")
	done := a.stateOf(at, "done")
	is.Equal(done.at("data.bytes"), 400_000.0)
	is.Equal(done.at("data.total"), 400_000.0)
	is.Equal(done.at("data.tries"), 1.0)
	is.Equal(done.text("data.name"), "summer é.txt")
	is.Equal(done.at("data.nextTryAt"), nil)
	is.Equal(done.text("data.file.slug"), "summer")
	is.Equal(done.text("data.file.url"), "https://kist.example.org/x/summer")
	file := a.get("/api/v1/files/summer").want(200)
	is.Equal(file.text("data.id"), done.text("data.file.id"))
	sum := sha256.Sum256([]byte(content))
	is.Equal(file.text("data.sha256"), hex.EncodeToString(sum[:]))
	is.Equal(file.text("data.originalName"), "summer é.txt")
	is.Equal(file.text("data.mimeType"), "text/plain")
	is.Equal(file.text("data.description"), "from afar")
	is.Equal(file.text("data.folder.name"), "Afar")
	is.Equal(len(file.at("data.tags").([]any)), 3)
	is.Equal([]any{file.at("data.isPublic"), file.at("data.hasPassword"), file.at("data.maxViews"), file.at("data.maxViewsAction"), file.at("data.expiresAt")},
		[]any{true, true, 3.0, "delete", "2099-01-01T00:00:00.000Z"})
	is.Equal(a.visit("/x/summer", "x-share-password", "open sesame").status, 200)

	// Several at once, newest first; what is over can be forgotten, and its file stays.
	several := a.post(remoteAt, map[string]any{
		"urls":     []string{target.URL + "/one.txt", target.URL + "/"},
		"items":    []any{map[string]any{"url": target.URL + "/three", "name": "third.md"}},
		"isPublic": true,
	}).want(202)
	for i, name := range []string{"one.txt", "127.0.0.1", "third.md"} { // what is said beside the lists is said of each
		done := a.stateOf(remoteAt+"/"+several.text(fmt.Sprintf("jobs.%d.id", i)), "done")
		is.Equal(done.text("data.name"), name)
		is.Equal(a.get("/api/v1/files/"+done.text("data.file.slug")).at("data.isPublic"), true)
	}
	list := a.get(remoteAt).want(200)
	is.Equal(len(list.at("jobs").([]any)), 4)
	is.Equal(list.text("jobs.3.id"), begun.text("jobs.0.id"))
	a.delete("/api/v1/files/summer").want(200)
	is.Equal(a.get(at).want(200).at("data.file"), nil)
	a.delete(at).want(200)
	a.get(at).want(404)
	a.delete(at).want(404)
	is.Equal(a.get("/api/v1/files").at("total"), 3.0)
	a.delete(remoteAt).want(200)
	is.Equal(string(a.get(remoteAt).want(200).body), `{"jobs":[]}`)
	is.Equal(a.get("/api/v1/files").at("total"), 3.0)
	is.True(!strings.Contains(a.log.String(), "token=1"))
	a.clean()
}

// What is said beside the files is said of each that does not say otherwise.
func TestRemoteUploadShares(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	t.Cleanup(target.Close)
	for _, tt := range []struct {
		name, body string
		locked     []bool
		says       []string
	}{
		{"items", `{"items":[{"url":"T/a"},{"url":"T/b","description":"own","isPublic":false,"password":null}],"password":"secret","description":"all","isPublic":true}`, []bool{true, true}, []string{"all", "own"}},
		{"one item", `{"items":{"url":"T/a"},"password":"secret","description":"all"}`, []bool{true}, []string{"all"}},
		{"one address", `{"urls":"T/a","password":"secret"}`, []bool{true}, []string{""}},
		{"addresses", `{"urls":["T/a","T/b"],"url":"T/c","password":"secret"}`, []bool{true, true, true}, []string{"", "", ""}},
		{"an item's own password", `{"items":[{"url":"T/a","password":""}],"password":"secret"}`, []bool{false}, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			a.fetching(t)
			jobs := a.do(apiRequest{method: "POST", path: remoteAt, json: strings.ReplaceAll(tt.body, "T/", target.URL+"/"), raw: true}).want(202).at("jobs").([]any)
			is.Equal(len(jobs), len(tt.locked))
			for i, job := range jobs {
				done := a.stateOf(remoteAt+"/"+job.(map[string]any)["id"].(string), "done")
				f := a.get("/api/v1/files/" + done.text("data.file.id")).want(200)
				is.Equal(f.at("data.hasPassword"), tt.locked[i])
				is.Equal(f.text("data.description"), tt.says[i])
			}
		})
	}
}

// What is wrong with a request is said at once, by the numbers of the entries,
// and nothing of it is queued.
func TestRemoteUploadRefuses(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t, func(c *web.Config) { c.Outbound = outbound.New(outbound.Options{}) })
	const fine = "https://example.org/a"
	many := func(n int) []string { return slices.Repeat([]string{fine}, n) }
	secrets := make([]any, upload.MaxSecrets+1)
	for i := range secrets {
		secrets[i] = map[string]any{"url": fine, "password": fmt.Sprint("secret ", i)}
	}
	bad := make([]any, upload.MaxReported+2)
	for i := range bad {
		bad[i] = map[string]any{}
	}
	for _, c := range []struct {
		body any
		want map[string]any
	}{
		{`{}`, map[string]any{"url": "is required, unless there are urls or items"}},
		{`{"urls":[],"items":null}`, map[string]any{"url": "is required, unless there are urls or items"}},
		{`{"url":"ftp://example.org/a","isPublic":"yes"}`, map[string]any{"url": "must be an absolute http or https address", "isPublic": "must be true or false"}},
		{`{"url":""}`, map[string]any{"url": "must not be empty"}},
		{`{"url":5}`, map[string]any{"url": "must be text"}},
		{`{"url":"http://127.0.0.1/"}`, map[string]any{"url": "must be an address that the server may call: the host 127.0.0.1 has the address 127.0.0.1, which is the server itself; an administrator can allow it with --allow-outbound 127.0.0.1"}},
		{`{"url":"http://u:p@example.org/"}`, map[string]any{"url": "must not carry a user name or a password"}},
		{`{"urls":7,"items":"https://example.org/a"}`, map[string]any{"urls": "must be a list", "items": "must be a list"}},
		{`{"items":{"slug":"one"}}`, map[string]any{"items": "has a bad entry: number 1: url is required"}},
		{`{"items":[{"url":"https://example.org/a"},{"url":"https://example.org/b","maxViews":0}],"maxViews":-1}`, map[string]any{
			"items": "has a bad entry: number 2: maxViews must be a whole number from 1 to 2147483647", "maxViews": "must be a whole number from 1 to 2147483647",
		}},
		{`{"urls":["https://example.org/a","nonsense",null,7],"maxViews":0}`, map[string]any{
			"maxViews": "must be a whole number from 1 to 2147483647",
			"urls":     "has a bad entry: number 2 must be an absolute http or https address; number 3 is required; number 4 must be text",
		}},
		{`{"items":[{"url":"https://example.org/a"},{"slug":"api"},{"url":"https://example.org/a","expiresAt":"2020-01-01T00:00:00Z"}]}`, map[string]any{
			"items": "has a bad entry: number 2: slug is an address of the site itself; choose another, such as my-api; url is required; number 3: expiresAt must be in the future",
		}},
		{`{"items":[{"url":"https://example.org/a"},"https://example.org/a"]}`, map[string]any{"items": "has a bad entry: number 2 must be an object"}},
		{`{"urls":["https://example.org/a","https://example.org/b"],"slug":"one","name":"x"}`, map[string]any{"slug": "can be given to one file only; use items", "name": "can be given to one file only; use items"}},
		{map[string]any{"urls": many(101)}, map[string]any{"urls": "must have at most 100 entries"}},
		{map[string]any{"items": bad}, map[string]any{"items": "has a bad entry: " + strings.Join(slices.Repeat([]string{"number X: url is required"}, upload.MaxReported), "; ") + "; and 2 more"}},
		{map[string]any{"items": secrets}, map[string]any{"password": "must not be more than 10 different ones"}},
	} {
		got := a.do(apiRequest{method: "POST", path: remoteAt, json: c.body, raw: true}).want(422).at("fields")
		for n := 1; n <= upload.MaxReported; n++ {
			if t, ok := c.want["items"].(string); ok {
				c.want["items"] = strings.Replace(t, "number X", fmt.Sprint("number ", n), 1)
			}
		}
		is.Equal(got, c.want)
	}
	a.do(apiRequest{method: "POST", path: remoteAt, json: `[]`, raw: true}).want(400)
	a.post("/api/v1/notes", map[string]any{"content": "c", "slug": "mine"}).want(201)
	is.Equal(a.post(remoteAt, map[string]any{"items": []any{map[string]any{"url": fine}, map[string]any{"url": fine, "slug": "mine"}}}).want(409).text("code"), "slug_taken")
	is.Equal(string(a.get(remoteAt).body), `{"jobs":[]}`) // all or none
	is.Equal(len(a.post(remoteAt, map[string]any{"urls": many(100)}).want(202).at("jobs").([]any)), 100)
	is.Equal(a.post(remoteAt, map[string]any{"url": fine}).want(403).text("code"), "too_many_remote_uploads")
	at := remoteAt + "/" + a.get(remoteAt).text("jobs.0.id")
	a.do(apiRequest{method: "PATCH", path: at, json: `{"action":"explode"}`, raw: true}).want(422)
	a.do(apiRequest{method: "PATCH", path: at, json: `{}`, raw: true}).want(422)
	is.Equal(a.patch(at, map[string]any{"action": "retry"}).want(409).text("code"), "remote_upload_not_failed")
	a.patch(remoteAt+"/"+uuid.NewString(), map[string]any{"action": "retry"}).want(404)
	a.get(remoteAt + "/x").want(404)

	// They are their owner's alone.
	ben := a.addUser("ben", people.Member)
	key := a.addKey(ben, people.ScopeAll)
	is.Equal(string(a.do(apiRequest{method: "GET", path: remoteAt, key: key}).want(200).body), `{"jobs":[]}`)
	a.do(apiRequest{method: "GET", path: at, key: key}).want(404)
	a.do(apiRequest{method: "DELETE", path: at, key: key}).want(404)
	a.do(apiRequest{method: "PATCH", path: at, key: key, json: `{"action":"cancel"}`}).want(404)
	// A key that may only upload sees no list, nor what another key asked for.
	key = a.addKey(a.user, people.ScopeUpload)
	is.Equal(string(a.do(apiRequest{method: "GET", path: remoteAt, key: key}).want(200).body), `{"jobs":[]}`)
	a.do(apiRequest{method: "GET", path: at, key: key}).want(404)
}

// What is queued is what was understood, not how it was written: a small
// request leaves no large rows.
func TestRemoteUploadKeeps(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	blank := strings.Repeat(" ", 100_000)
	for body, want := range map[string]string{
		`{"isPublic":"true","maxViews":"3","maxViewsAction":"delete","description":"","name":"","slug":"","folderName":null,"expiresAt":"2099-01-01T02:00:00+02:00"}`: `{"description":"","expiresAt":"2099-01-01T00:00:00.000Z","isPublic":true,"maxViews":3,"maxViewsAction":"delete","name":"","slug":""}`,
		`{"newTags":["` + blank + `x"],"tagIds":"[]"}`:         `{"newTags":["x"],"tagIds":[]}`,
		`{"newTags":"a` + blank + `, b","folderName":" F  g"}`: `{"folderName":"F g","newTags":["a","b"]}`,
	} {
		a.do(apiRequest{method: "POST", path: remoteAt, json: `{"url":"https://example.org/",` + body[1:], raw: true}).want(202)
		is.NoErr(a.server.Store.View(func(tx *kv.Tx) error {
			all, err := jobs.Fetches(tx, a.user.ID)
			is.Equal(all[len(all)-1].Fields, want)
			_, bad := upload.FetchForm(want)
			is.NoErr(bad)
			return err
		}))
	}
}

// The largest bound that there can be is none.
func TestRemoteUploadUnbounded(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t, func(c *web.Config) { c.MaxUpload = math.MaxInt64 })
	a.fetching(t)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") }))
	t.Cleanup(target.Close)
	is.Equal(a.stateOf(a.remote(map[string]any{"url": target.URL}), "done").at("data.bytes"), 7.0)
}

// badServer is how a server of these tests answers one request.
type badServer struct {
	name  string
	serve http.HandlerFunc
	state string // that it leads to at once
	why   string // that the job says begins so
}

// Whatever the other server does, it ends well or in a sentence, and leaves
// nothing behind.
func TestRemoteUploadHostile(t *testing.T) {
	t.Parallel()
	raw := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, answer)
		}
	}
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	const tooLarge = "The file is larger than 1048576 bytes."
	all := []badServer{
		{name: "endless", serve: endless, state: "failed", why: tooLarge},
		{name: "endless without chunks", serve: func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, err = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\n")
			for piece := make([]byte, 64<<10); err == nil; {
				_, err = conn.Write(piece)
			}
		}, state: "failed", why: tooLarge},
		{name: "says it is too long", serve: status(200, "Content-Length", "1048577"), state: "failed", why: tooLarge},
		{name: "the largest", serve: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }, state: "done"},
		{name: "a byte more", serve: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20+1)) }, state: "failed", why: tooLarge},
		{name: "says it is longer than any", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc"), state: "waiting", why: "The other server cannot be reached: "},
		{name: "negative", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc"), state: "waiting", why: "The other server cannot be reached: "},
		{name: "shorter than it says", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), state: "waiting", why: "The connection broke off after 3 bytes."},
		{name: "longer than it says", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"), state: "done"},
		{name: "breaks off in a chunk", serve: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n5\r\nab"), state: "waiting", why: "The connection broke off after 7 bytes."},
		{name: "chunks that are none", serve: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabcde"), state: "waiting", why: "The connection broke off after 0 bytes."},
		{name: "no HTTP", serve: raw("SSH-2.0-OpenSSH_9.9\r\n"), state: "waiting", why: "The other server cannot be reached: "},
		{name: "nothing", serve: raw(""), state: "waiting", why: "The other server closed the connection without an answer."},
		{name: "a head without end", serve: raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10)), state: "waiting", why: "The other server cannot be reached: "},
		{name: "204", serve: status(204), state: "failed", why: "The other server has no content there (204)."},
		{name: "206", serve: status(206), state: "failed", why: "The other server answered 206 Partial Content."},
		{name: "304", serve: status(304), state: "failed", why: "The other server answered 304 Not Modified."},
		{name: "404", serve: status(404), state: "failed", why: "The other server answered 404 Not Found."},
		{name: "599", serve: status(599), state: "waiting", why: "The other server answered 599."},
		{name: "to itself", serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, state: "failed", why: "The address has more than 10 redirects."},
		{name: "inside", serve: status(302, "Location", "http://127.0.0.1:1/"), state: "failed", why: "The host 127.0.0.1 has the address 127.0.0.1, which is the server itself"},
		{name: "to the metadata", serve: status(302, "Location", "http://169.254.169.254/latest/"), state: "failed", why: "The host 169.254.169.254 has the address"},
		{name: "to a file", serve: status(302, "Location", "file:///etc/passwd"), state: "failed", why: "The host  is not an http or https address."},
		{name: "to nowhere", serve: status(302, "Location", "http://nowhere.example/"), state: "waiting", why: "The other server cannot be reached: the host nowhere.example cannot be found"},
		{name: "packed", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03bomb"))
		}, state: "done"},
		{name: "empty", serve: status(200), state: "done"},
	}
	by := map[string]http.HandlerFunc{}
	for _, h := range all {
		by["/"+url.PathEscape(h.name)] = h.serve
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { by[r.URL.EscapedPath()](w, r) }))
	t.Cleanup(target.Close)
	u, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, func(c *web.Config) {
		c.MaxUpload = 1 << 20
		c.Outbound = farAway(t)
	})
	a.fetching(t)
	for _, h := range all {
		t.Run(h.name, func(t *testing.T) {
			is := is.New(t)
			at := a.remote(map[string]any{"url": "http://hostile.example:" + u.Port() + "/" + url.PathEscape(h.name)})
			var now *answer
			eventually(t, "it does not end", func() bool {
				now = a.get(at).want(200)
				return now.text("data.state") != "running" && now.at("data.tries") == 1.0
			})
			is.Equal(now.text("data.state"), h.state)
			is.True(strings.HasPrefix(now.text("data.error"), h.why) && (h.why == "") == (now.text("data.error") == ""))
			is.Equal(now.at("data.file") != nil, h.state == "done")
			is.Equal(now.at("data.nextTryAt") != nil, h.state == "waiting")
			if h.name == "packed" { // unchanged
				file := a.get("/api/v1/files/" + now.text("data.file.slug"))
				is.Equal(file.text("data.mimeType"), "application/x-gzip")
				is.Equal(file.at("data.size"), 14.0)
			}
			a.delete(at).want(200)
		})
	}
	a.clean()
}

// farAway reaches the server of a test under a name, and nothing else on this machine.
func farAway(t testing.TB) *outbound.Client {
	t.Helper()
	var named outbound.Allowed
	if err := named.UnmarshalText([]byte("hostile.example")); err != nil {
		t.Fatal(err)
	}
	return outbound.New(outbound.Options{Allow: []outbound.Allowed{named}, Lookup: lookupOf("hostile.example")})
}

// What may pass is tried five times, later each time or when the other server
// wants it, and then given up; it can be tried again by hand.
func TestRemoteUploadRetries(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	a.fetching(t)
	var asked atomic.Int64
	var well atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := asked.Add(1); n == 2 {
			w.Header().Set("Retry-After", "600")
		}
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(target.Close)
	before := a.clock.now()
	at := a.remote(map[string]any{"url": target.URL + "/a.txt", "slug": "mine"})
	for n, wait := range []time.Duration{10 * time.Second, 10 * time.Minute, 5 * time.Minute, 30 * time.Minute} {
		var now *answer
		eventually(t, "it does not wait", func() bool {
			now = a.get(at)
			return now.text("data.state") == "waiting" && now.at("data.tries") == float64(n+1)
		})
		is.Equal(now.text("data.error"), "The other server answered 503 Service Unavailable.")
		due, err := time.Parse(time.RFC3339, now.text("data.nextTryAt"))
		is.NoErr(err)
		failed := due.Add(-wait) // however long this machine took to ask
		is.True(failed.After(before.Add(-5*time.Second)) && failed.Before(a.clock.now().Add(5*time.Second)))
		a.post("/api/v1/notes", map[string]any{"content": "c", "slug": "mine"}).want(409) // it is kept free
		a.clock.advance(max(0, due.Sub(a.clock.now())-6*time.Second))
		a.server.Fetches.Rescan()
		is.True(a.get(at).text("data.state") == "waiting" || !a.clock.now().Before(due))
		before = a.clock.now()
		a.clock.advance(12 * time.Second)
		a.server.Fetches.Rescan()
	}
	now := a.stateOf(at, "failed")
	is.Equal(now.at("data.tries"), 5.0)
	is.Equal(now.at("data.nextTryAt"), nil)
	is.Equal(asked.Load(), int64(5))
	well.Store(true)
	a.patch(at, map[string]any{"action": "retry"}).want(200)
	is.Equal(a.stateOf(at, "done").at("data.tries"), 1.0)
	a.clean()
}

// The quota holds for what is fetched too, be its length known or not, and for
// others while it is on its way.
func TestRemoteUploadQuota(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	a.fetching(t)
	a.patch("/api/v1/admin/settings", map[string]any{"defaultQuotaBytes": 100_000}).want(200)
	go1 := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/known":
			w.Header().Set("Content-Length", "100001")
		case "/unknown":
			http.NewResponseController(w).Flush()
			_, _ = w.Write(make([]byte, 100_001))
		case "/held":
			w.Header().Set("Content-Length", "60000")
			http.NewResponseController(w).Flush()
			<-go1
			_, _ = w.Write(make([]byte, 60_000))
		}
	}))
	t.Cleanup(target.Close)
	release := sync.OnceFunc(func() { close(go1) })
	t.Cleanup(release)
	const full = "This does not fit your storage quota of 100000 bytes."
	for _, name := range []string{"/known", "/unknown"} {
		is.Equal(a.stateOf(a.remote(map[string]any{"url": target.URL + name}), "failed").text("data.error"), full)
	}
	at := a.remote(map[string]any{"url": target.URL + "/held"})
	eventually(t, "its length is not known", func() bool { return a.get(at).at("data.total") == 60000.0 })
	is.Equal(a.upload(nil, file{"a", "", strings.Repeat("x", 40_001)}).want(403).text("code"), "quota_exceeded")
	a.upload(nil, file{"a", "", strings.Repeat("x", 38_000)}).want(201) // the remote uploads take some, too
	release()
	a.stateOf(at, "done")
	a.clean()
}

// A transfer that is cancelled, or removed, ends at once and leaves nothing. So
// does one when the server is stopped, which goes on later.
func TestRemoteUploadCutShort(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	stop := a.fetching(t)
	var free atomic.Bool
	over := make(chan struct{}, 10)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 1000))
		http.NewResponseController(w).Flush()
		if free.Load() {
			return
		}
		<-r.Context().Done()
		over <- struct{}{}
	}))
	t.Cleanup(target.Close)
	ended := func() {
		t.Helper()
		select {
		case <-over:
		case <-time.After(10 * time.Second):
			t.Fatal("the transfer goes on")
		}
	}
	under := func() string {
		at := a.remote(map[string]any{"url": target.URL + "/a.txt", "slug": "mine"})
		eventually(t, "nothing comes in", func() bool { return a.get(at).at("data.bytes") == 1000.0 })
		return at
	}
	at := under()
	is.Equal(a.patch(at, map[string]any{"action": "cancel"}).want(200).text("data.state"), "cancelled")
	ended()
	is.Equal(a.patch(at, map[string]any{"action": "cancel"}).want(409).text("code"), "remote_upload_over")
	a.clean()
	second := under() // the slug is free again
	a.patch(at, map[string]any{"action": "retry"}).want(409)
	a.delete(second).want(200)
	ended()
	a.patch(at, map[string]any{"action": "retry"}).want(200)
	eventually(t, "nothing comes in", func() bool { return a.get(at).at("data.bytes") == 1000.0 })
	stop()
	ended()
	now := a.get(at)
	is.Equal(now.text("data.state"), "waiting")
	is.Equal(now.at("data.tries"), 0.0)
	a.clean()
	free.Store(true)
	a.fetching(t)
	is.Equal(a.stateOf(at, "done").at("data.bytes"), 1000.0)
	is.Equal(a.get("/api/v1/files").at("total"), 1.0)
	a.clean()
}

// Two of an owner are fetched at once, and owners take turns: one with much in
// line, or with servers that never end, does not keep another waiting.
func TestRemoteUploadTurns(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	begun, end := make(chan string, 40), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- r.URL.Path
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(target.Close)
	queue := func(name, key string, n int) {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(target.URL, "/", name, i))
		}
		a.do(apiRequest{method: "POST", path: remoteAt, key: key, json: map[string]any{"urls": all}}).want(202)
	}
	key := func(name string) string { return a.addKey(a.addUser(name, people.Member), people.ScopeAll) }
	next := func(n int) (of string) {
		t.Helper()
		for range n {
			select {
			case path := <-begun:
				of += path[1:2]
			case <-time.After(10 * time.Second):
				t.Fatal("nothing is begun")
			}
		}
		return of
	}
	running := func() (n int) {
		a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
			users, err := people.Users(tx)
			for _, u := range users {
				all, fail := jobs.Fetches(tx, u.ID)
				err = errors.Join(err, fail)
				for _, f := range all {
					if f.State == jobs.FetchRuns {
						n++
					}
				}
			}
			return err
		}))
		return n
	}
	queue("a", a.key, 6)
	a.fetching(t)
	is.Equal(next(upload.FetchesOfOwner), "aa")
	is.Equal(running(), upload.FetchesOfOwner)
	ben := key("ben")
	queue("b", ben, 1) // at once, though nothing of ann's ends
	is.Equal(next(1), "b")
	for _, name := range []string{"c", "d", "e"} {
		queue(name, key(name), 3)
	}
	of := next(upload.FetchesAtOnce - 3)
	is.Equal(strings.Count(of, "c"), 2)
	is.Equal(running(), upload.FetchesAtOnce)
	queue("b", ben, 1)
	end <- struct{}{}
	is.Equal(next(1), "e") // its owner had none yet
	end <- struct{}{}
	is.True(strings.Contains("ab", next(1))) // whose turn was longest ago, of those with room
	is.Equal(running(), upload.FetchesAtOnce)
	close(end)
	next(6 + 2 + 9 - upload.FetchesAtOnce - 2)
	eventually(t, "they are not done", func() bool { return a.get("/api/v1/files").at("total") == 6.0 && running() == 0 })
	a.clean()
}

// What is under way when its owner's account is shut goes back in line, and on
// when it is open again.
func TestRemoteUploadOfShutAccount(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]int{"while it comes in": upload.NoteBytes + 1, "at its end": 1000} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			t.Parallel()
			a := start(t)
			ben := a.addUser("ben", people.Member)
			key := a.addKey(ben, people.ScopeAll)
			a.fetching(t)
			on := make(chan struct{})
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				<-on
				_, _ = w.Write(make([]byte, piece))
				if piece > upload.NoteBytes {
					<-r.Context().Done() // it would never end
				}
			}))
			t.Cleanup(target.Close)
			id := a.do(apiRequest{method: "POST", path: remoteAt, key: key, json: map[string]any{"url": target.URL + "/a.bin"}}).want(202).text("jobs.0.id")
			fetch := func() (f *jobs.Fetch) {
				a.fatal(a.server.Store.View(func(tx *kv.Tx) (err error) { f, err = jobs.ReadFetch(tx, ben.ID, uuid.MustParse(id)); return err }))
				return f
			}
			eventually(t, "it does not run", func() bool { return fetch().State == jobs.FetchRuns })
			a.patch("/api/v1/admin/users/"+ben.ID.String(), map[string]any{"disabled": true}).want(200)
			close(on)
			eventually(t, "it goes on", func() bool { return fetch().State == jobs.FetchWaits })
			is.Equal(fetch().Tries, 0)
			a.clean()
			if piece > upload.NoteBytes {
				return
			}
			a.patch("/api/v1/admin/users/"+ben.ID.String(), map[string]any{"disabled": false}).want(200)
			a.server.Fetches.Rescan()
			eventually(t, "it does not go on", func() bool { return fetch().State == jobs.FetchDone })
		})
	}
}

// lookupOf finds this machine under a name, and nothing under another.
func lookupOf(name string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != name {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
}
