package upload_test

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

	"kist/httpapi/apitest"
	"kist/httpapi/outbound"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/people"
)

func TestRemoteUpload(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	a.Fetching(t)
	content := strings.Repeat("kist", 100_000)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/go" {
			http.Redirect(w, r, "/notes/summer%20%C3%A9.txt?token=1", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, content)
	}))
	t.Cleanup(target.Close)
	is.Equal(string(a.Get(apitest.RemoteAt).Want(200).Body), `{"jobs":[]}`)
	a.Post("/api/v1/tags", map[string]any{"name": "kept"}).Want(201)
	tag := a.Get("/api/v1/tags").Text("0.id")
	begun := a.Post(apitest.RemoteAt, map[string]any{
		"url": target.URL + "/go", "description": "from afar", "isPublic": true, "slug": "summer", "folderName": "Afar", "tagIds": []string{tag}, "newTags": []string{"a", "b"},
		"password": "open sesame", "maxViews": 3, "maxViewsAction": "delete", "expiresAt": "2099-01-01T00:00:00Z", "unknown": 1,
	}).Want(202)
	is.Equal(begun.Text("jobs.0.url"), target.URL+"/go")
	is.Equal(begun.At("jobs.0.file"), nil)
	at := apitest.RemoteAt + "/" + begun.Text("jobs.0.id")
	done := a.StateOf(at, "done")
	is.Equal(done.At("data.bytes"), 400_000.0)
	is.Equal(done.At("data.total"), 400_000.0)
	is.Equal(done.At("data.tries"), 1.0)
	is.Equal(done.Text("data.name"), "summer é.txt")
	is.Equal(done.At("data.nextTryAt"), nil)
	is.Equal(done.Text("data.file.slug"), "summer")
	is.Equal(done.Text("data.file.url"), "https://kist.example.org/x/summer")
	file := a.Get("/api/v1/files/summer").Want(200)
	is.Equal(file.Text("data.id"), done.Text("data.file.id"))
	sum := sha256.Sum256([]byte(content))
	is.Equal(file.Text("data.sha256"), hex.EncodeToString(sum[:]))
	is.Equal(file.Text("data.originalName"), "summer é.txt")
	is.Equal(file.Text("data.mimeType"), "text/plain")
	is.Equal(file.Text("data.description"), "from afar")
	is.Equal(file.Text("data.folder.name"), "Afar")
	is.Equal(len(file.At("data.tags").([]any)), 3)
	is.Equal([]any{
		file.At("data.isPublic"), file.At("data.hasPassword"), file.At("data.maxViews"), file.At("data.maxViewsAction"),
		file.At("data.expiresAt"),
	},
		[]any{true, true, 3.0, "delete", "2099-01-01T00:00:00.000Z"})
	is.Equal(a.Visit("/x/summer", "x-share-password", "open sesame").Status, 200)

	// Several at once, newest first; what is over can be forgotten, and its file stays.
	several := a.Post(apitest.RemoteAt, map[string]any{
		"urls":     []string{target.URL + "/one.txt", target.URL + "/"},
		"items":    []any{map[string]any{"url": target.URL + "/three", "name": "third.md"}},
		"isPublic": true,
	}).Want(202)
	for i, name := range []string{"one.txt", "127.0.0.1", "third.md"} { // what is said beside the lists is said of each
		done := a.StateOf(apitest.RemoteAt+"/"+several.Text(fmt.Sprintf("jobs.%d.id", i)), "done")
		is.Equal(done.Text("data.name"), name)
		is.Equal(a.Get("/api/v1/files/"+done.Text("data.file.slug")).At("data.isPublic"), true)
	}
	list := a.Get(apitest.RemoteAt).Want(200)
	is.Equal(len(list.At("jobs").([]any)), 4)
	is.Equal(list.Text("jobs.3.id"), begun.Text("jobs.0.id"))
	a.Delete("/api/v1/files/summer").Want(200)
	is.Equal(a.Get(at).Want(200).At("data.file"), nil)
	a.Delete(at).Want(200)
	a.Get(at).Want(404)
	a.Delete(at).Want(404)
	is.Equal(a.Get("/api/v1/files").At("total"), 3.0)
	a.Delete(apitest.RemoteAt).Want(200)
	is.Equal(string(a.Get(apitest.RemoteAt).Want(200).Body), `{"jobs":[]}`)
	is.Equal(a.Get("/api/v1/files").At("total"), 3.0)
	is.True(!strings.Contains(a.Logged.String(), "token=1"))
	a.Clean()
}

// What is said beside the files is said of each that does not say otherwise.
func TestRemoteUploadShares(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path)
	}))
	t.Cleanup(target.Close)
	for _, tt := range []struct {
		name, body string
		locked     []bool
		says       []string
	}{
		{
			"items",
			`{"items":[{"url":"T/a"},{"url":"T/b","description":"own","isPublic":false,"password":null}],"password":"secret","description":"all","isPublic":true}`,
			[]bool{true, true},
			[]string{"all", "own"},
		},
		{"one item", `{"items":{"url":"T/a"},"password":"secret","description":"all"}`, []bool{true}, []string{"all"}},
		{"one address", `{"urls":"T/a","password":"secret"}`, []bool{true}, []string{""}},
		{
			"addresses", `{"urls":["T/a","T/b"],"url":"T/c","password":"secret"}`,
			[]bool{true, true, true},
			[]string{"", "", ""},
		},
		{
			"an item's own password", `{"items":[{"url":"T/a","password":""}],"password":"secret"}`, []bool{false}, []string{""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			a.Fetching(t)
			jobs := a.Do(apitest.Request{
				Method: "POST", Path: apitest.RemoteAt, JSON: strings.ReplaceAll(tt.body, "T/", target.URL+"/"), Raw: true,
			}).Want(202).At("jobs").([]any)
			is.Equal(len(jobs), len(tt.locked))
			for i, job := range jobs {
				done := a.StateOf(apitest.RemoteAt+"/"+job.(map[string]any)["id"].(string), "done")
				f := a.Get("/api/v1/files/" + done.Text("data.file.id")).Want(200)
				is.Equal(f.At("data.hasPassword"), tt.locked[i])
				is.Equal(f.Text("data.description"), tt.says[i])
			}
		})
	}
}

// What is wrong with a request is said at once, by the numbers of the entries,
// and nothing of it is queued.
func TestRemoteUploadRefuses(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t, func(c *web.Config) { c.Outbound = outbound.New(outbound.Options{}) })
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
		{
			`{"url":"ftp://example.org/a","isPublic":"yes"}`,
			map[string]any{"url": "must be an absolute http or https address", "isPublic": "must be true or false"},
		},
		{`{"url":""}`, map[string]any{"url": "must not be empty"}},
		{`{"url":5}`, map[string]any{"url": "must be text"}},
		{
			`{"url":"http://127.0.0.1/"}`,
			map[string]any{
				"url": "must be an address that the server may call: the host 127.0.0.1 has the address 127.0.0.1, which is the " +
					"server itself; an administrator can allow it with --allow-outbound 127.0.0.1",
			},
		},
		{`{"url":"http://u:p@example.org/"}`, map[string]any{"url": "must not carry a user name or a password"}},
		{`{"urls":7,"items":"https://example.org/a"}`, map[string]any{"urls": "must be a list", "items": "must be a list"}},
		{`{"items":{"slug":"one"}}`, map[string]any{"items": "has a bad entry: number 1: url is required"}},
		{`{"items":[{"url":"https://example.org/a"},{"url":"https://example.org/b","maxViews":0}],"maxViews":-1}`, map[string]any{
			"items": "has a bad entry: number 2: maxViews must be a whole number from 1 to 2147483647", "maxViews": "must be a whole number from 1 to 2147483647",
		}},
		{`{"urls":["https://example.org/a","nonsense",null,7],"maxViews":0}`, map[string]any{
			"maxViews": "must be a whole number from 1 to 2147483647",
			"urls": "has a bad entry: number 2 must be an absolute http or https address; number 3 is required; number 4 " +
				"must be text",
		}},
		{`{"items":[{"url":"https://example.org/a"},{"slug":"api"},{"url":"https://example.org/a","expiresAt":"2020-01-01T00:00:00Z"}]}`, map[string]any{
			"items": "has a bad entry: number 2: slug is an address of the site itself; choose another, such as my-api; url " +
				"is required; number 3: expiresAt must be in the future",
		}},
		{
			`{"items":[{"url":"https://example.org/a"},"https://example.org/a"]}`,
			map[string]any{"items": "has a bad entry: number 2 must be an object"},
		},
		{
			`{"urls":["https://example.org/a","https://example.org/b"],"slug":"one","name":"x"}`,
			map[string]any{
				"slug": "can be given to one file only; use items", "name": "can be given to one file only; use items",
			},
		},
		{map[string]any{"urls": many(101)}, map[string]any{"urls": "must have at most 100 entries"}},
		{
			map[string]any{"items": bad},
			map[string]any{
				"items": "has a bad entry: " + strings.Join(
					slices.Repeat([]string{"number X: url is required"}, upload.MaxReported), "; ",
				) + "; and 2 more",
			},
		},
		{map[string]any{"items": secrets}, map[string]any{"password": "must not be more than 10 different ones"}},
	} {
		got := a.Do(apitest.Request{Method: "POST", Path: apitest.RemoteAt, JSON: c.body, Raw: true}).Want(422).At("fields")
		for n := 1; n <= upload.MaxReported; n++ {
			if t, ok := c.want["items"].(string); ok {
				c.want["items"] = strings.Replace(t, "number X", fmt.Sprint("number ", n), 1)
			}
		}
		is.Equal(got, c.want)
	}
	a.Do(apitest.Request{Method: "POST", Path: apitest.RemoteAt, JSON: `[]`, Raw: true}).Want(400)
	a.Post("/api/v1/notes", map[string]any{"content": "c", "slug": "mine"}).Want(201)
	is.Equal(
		a.Post(
			apitest.RemoteAt,
			map[string]any{"items": []any{map[string]any{"url": fine}, map[string]any{"url": fine, "slug": "mine"}}},
		).Want(409).Text("code"),
		"slug_taken",
	)
	is.Equal(string(a.Get(apitest.RemoteAt).Body), `{"jobs":[]}`) // all or none
	is.Equal(len(a.Post(apitest.RemoteAt, map[string]any{"urls": many(100)}).Want(202).At("jobs").([]any)), 100)
	is.Equal(a.Post(apitest.RemoteAt, map[string]any{"url": fine}).Want(403).Text("code"), "too_many_remote_uploads")
	at := apitest.RemoteAt + "/" + a.Get(apitest.RemoteAt).Text("jobs.0.id")
	a.Do(apitest.Request{Method: "PATCH", Path: at, JSON: `{"action":"explode"}`, Raw: true}).Want(422)
	a.Do(apitest.Request{Method: "PATCH", Path: at, JSON: `{}`, Raw: true}).Want(422)
	is.Equal(a.Patch(at, map[string]any{"action": "retry"}).Want(409).Text("code"), "remote_upload_not_failed")
	a.Patch(apitest.RemoteAt+"/"+uuid.NewString(), map[string]any{"action": "retry"}).Want(404)
	a.Get(apitest.RemoteAt + "/x").Want(404)

	// They are their owner's alone.
	ben := a.AddUser("ben", people.Member)
	key := a.AddKey(ben, people.ScopeAll)
	is.Equal(string(a.Do(apitest.Request{Method: "GET", Path: apitest.RemoteAt, Key: key}).Want(200).Body), `{"jobs":[]}`)
	a.Do(apitest.Request{Method: "GET", Path: at, Key: key}).Want(404)
	a.Do(apitest.Request{Method: "DELETE", Path: at, Key: key}).Want(404)
	a.Do(apitest.Request{Method: "PATCH", Path: at, Key: key, JSON: `{"action":"cancel"}`}).Want(404)
	// A key that may only upload sees no list, nor what another key asked for.
	key = a.AddKey(a.User, people.ScopeUpload)
	is.Equal(string(a.Do(apitest.Request{Method: "GET", Path: apitest.RemoteAt, Key: key}).Want(200).Body), `{"jobs":[]}`)
	a.Do(apitest.Request{Method: "GET", Path: at, Key: key}).Want(404)
}

// What is queued is what was understood, not how it was written: a small
// request leaves no large rows.
func TestRemoteUploadKeeps(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	blank := strings.Repeat(" ", 100_000)
	for body, want := range map[string]string{
		`{"isPublic":"true","maxViews":"3","maxViewsAction":"delete","description":"","name":"","slug":"","folderName":null,"expiresAt":"2099-01-01T02:00:00+02:00"}`: `{"description":"","expiresAt":"2099-01-01T00:00:00.000Z","isPublic":true,"maxViews":3,"maxViewsAction":"delete","name":"","slug":""}`,
		`{"newTags":["` + blank + `x"],"tagIds":"[]"}`:         `{"newTags":["x"],"tagIds":[]}`,
		`{"newTags":"a` + blank + `, b","folderName":" F  g"}`: `{"folderName":"F g","newTags":["a","b"]}`,
	} {
		a.Do(apitest.Request{
			Method: "POST", Path: apitest.RemoteAt, JSON: `{"url":"https://example.org/",` + body[1:], Raw: true,
		}).Want(202)
		is.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
			all, err := jobs.Fetches(tx, a.User.ID)
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
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = math.MaxInt64 })
	a.Fetching(t)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "content")
	}))
	t.Cleanup(target.Close)
	is.Equal(a.StateOf(a.Remote(map[string]any{"url": target.URL}), "done").At("data.bytes"), 7.0)
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
		{name: "the largest", serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20))
		}, state: "done"},
		{name: "a byte more", serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20+1))
		}, state: "failed", why: tooLarge},
		{
			name: "says it is longer than any", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc"),
			state: "waiting", why: "The other server cannot be reached: ",
		},
		{
			name: "negative", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc"), state: "waiting",
			why: "The other server cannot be reached: ",
		},
		{
			name: "shorter than it says", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), state: "waiting",
			why: "The connection broke off after 3 bytes.",
		},
		{name: "longer than it says", serve: raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"), state: "done"},
		{
			name:  "breaks off in a chunk",
			serve: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n5\r\nab"), state: "waiting",
			why: "The connection broke off after 7 bytes.",
		},
		{
			name: "chunks that are none", serve: raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabcde"),
			state: "waiting", why: "The connection broke off after 0 bytes.",
		},
		{
			name: "no HTTP", serve: raw("SSH-2.0-OpenSSH_9.9\r\n"), state: "waiting",
			why: "The other server cannot be reached: ",
		},
		{name: "nothing", serve: raw(""), state: "waiting", why: "The other server closed the connection without an answer."},
		{
			name: "a head without end", serve: raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10)), state: "waiting",
			why: "The other server cannot be reached: ",
		},
		{name: "204", serve: status(204), state: "failed", why: "The other server has no content there (204)."},
		{name: "206", serve: status(206), state: "failed", why: "The other server answered 206 Partial Content."},
		{name: "304", serve: status(304), state: "failed", why: "The other server answered 304 Not Modified."},
		{name: "404", serve: status(404), state: "failed", why: "The other server answered 404 Not Found."},
		{name: "599", serve: status(599), state: "waiting", why: "The other server answered 599."},
		{name: "to itself", serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, state: "failed", why: "The address has more than 10 redirects."},
		{
			name: "inside", serve: status(302, "Location", "http://127.0.0.1:1/"), state: "failed",
			why: "The host 127.0.0.1 has the address 127.0.0.1, which is the server itself",
		},
		{
			name: "to the metadata", serve: status(302, "Location", "http://169.254.169.254/latest/"), state: "failed",
			why: "The host 169.254.169.254 has the address",
		},
		{
			name: "to a file", serve: status(302, "Location", "file:///etc/passwd"), state: "failed",
			why: "The host  is not an http or https address.",
		},
		{
			name: "to nowhere", serve: status(302, "Location", "http://nowhere.example/"), state: "waiting",
			why: "The other server cannot be reached: the host nowhere.example cannot be found",
		},
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
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by[r.URL.EscapedPath()](w, r)
	}))
	t.Cleanup(target.Close)
	u, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	a := apitest.Start(t, func(c *web.Config) {
		c.MaxUpload = 1 << 20
		c.Outbound = farAway(t)
	})
	a.Fetching(t)
	for _, h := range all {
		t.Run(h.name, func(t *testing.T) {
			is := is.New(t)
			at := a.Remote(map[string]any{"url": "http://hostile.example:" + u.Port() + "/" + url.PathEscape(h.name)})
			var now *apitest.Answer
			apitest.Eventually(t, "it does not end", func() bool {
				now = a.Get(at).Want(200)
				return now.Text("data.state") != "running" && now.At("data.tries") == 1.0
			})
			is.Equal(now.Text("data.state"), h.state)
			is.True(strings.HasPrefix(now.Text("data.error"), h.why) && (h.why == "") == (now.Text("data.error") == ""))
			is.Equal(now.At("data.file") != nil, h.state == "done")
			is.Equal(now.At("data.nextTryAt") != nil, h.state == "waiting")
			if h.name == "packed" { // unchanged
				file := a.Get("/api/v1/files/" + now.Text("data.file.slug"))
				is.Equal(file.Text("data.mimeType"), "application/x-gzip")
				is.Equal(file.At("data.size"), 14.0)
			}
			a.Delete(at).Want(200)
		})
	}
	a.Clean()
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
	a := apitest.Start(t)
	a.Fetching(t)
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
	before := a.Clock.Now()
	at := a.Remote(map[string]any{"url": target.URL + "/a.txt", "slug": "mine"})
	for n, wait := range []time.Duration{10 * time.Second, 10 * time.Minute, 5 * time.Minute, 30 * time.Minute} {
		var now *apitest.Answer
		apitest.Eventually(t, "it does not wait", func() bool {
			now = a.Get(at)
			return now.Text("data.state") == "waiting" && now.At("data.tries") == float64(n+1)
		})
		is.Equal(now.Text("data.error"), "The other server answered 503 Service Unavailable.")
		due, err := time.Parse(time.RFC3339, now.Text("data.nextTryAt"))
		is.NoErr(err)
		failed := due.Add(-wait) // however long this machine took to ask
		is.True(failed.After(before.Add(-5*time.Second)) && failed.Before(a.Clock.Now().Add(5*time.Second)))
		a.Post("/api/v1/notes", map[string]any{"content": "c", "slug": "mine"}).Want(409) // it is kept free
		a.Clock.Advance(max(0, due.Sub(a.Clock.Now())-6*time.Second))
		a.Server.Fetches.Rescan()
		is.True(a.Get(at).Text("data.state") == "waiting" || !a.Clock.Now().Before(due))
		before = a.Clock.Now()
		a.Clock.Advance(12 * time.Second)
		a.Server.Fetches.Rescan()
	}
	now := a.StateOf(at, "failed")
	is.Equal(now.At("data.tries"), 5.0)
	is.Equal(now.At("data.nextTryAt"), nil)
	is.Equal(asked.Load(), int64(5))
	well.Store(true)
	a.Patch(at, map[string]any{"action": "retry"}).Want(200)
	is.Equal(a.StateOf(at, "done").At("data.tries"), 1.0)
	a.Clean()
}

// The quota holds for what is fetched too, be its length known or not, and for
// others while it is on its way.
func TestRemoteUploadQuota(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	a.Fetching(t)
	a.Patch("/api/v1/admin/settings", map[string]any{"defaultQuotaBytes": 100_000}).Want(200)
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
		is.Equal(a.StateOf(a.Remote(map[string]any{"url": target.URL + name}), "failed").Text("data.error"), full)
	}
	at := a.Remote(map[string]any{"url": target.URL + "/held"})
	apitest.Eventually(t, "its length is not known", func() bool { return a.Get(at).At("data.total") == 60000.0 })
	is.Equal(a.Upload(nil, apitest.File("a", "", strings.Repeat("x", 40_001))).Want(403).Text("code"), "quota_exceeded")
	a.Upload(nil, apitest.File("a", "", strings.Repeat("x", 38_000))).Want(201) // the remote uploads take some, too
	release()
	a.StateOf(at, "done")
	a.Clean()
}

// A transfer that is cancelled, or removed, ends at once and leaves nothing. So
// does one when the server is stopped, which goes on later.
func TestRemoteUploadCutShort(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	stop := a.Fetching(t)
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
		at := a.Remote(map[string]any{"url": target.URL + "/a.txt", "slug": "mine"})
		apitest.Eventually(t, "nothing comes in", func() bool { return a.Get(at).At("data.bytes") == 1000.0 })
		return at
	}
	at := under()
	is.Equal(a.Patch(at, map[string]any{"action": "cancel"}).Want(200).Text("data.state"), "cancelled")
	ended()
	is.Equal(a.Patch(at, map[string]any{"action": "cancel"}).Want(409).Text("code"), "remote_upload_over")
	a.Clean()
	second := under() // the slug is free again
	a.Patch(at, map[string]any{"action": "retry"}).Want(409)
	a.Delete(second).Want(200)
	ended()
	a.Patch(at, map[string]any{"action": "retry"}).Want(200)
	apitest.Eventually(t, "nothing comes in", func() bool { return a.Get(at).At("data.bytes") == 1000.0 })
	stop()
	ended()
	now := a.Get(at)
	is.Equal(now.Text("data.state"), "waiting")
	is.Equal(now.At("data.tries"), 0.0)
	a.Clean()
	free.Store(true)
	a.Fetching(t)
	is.Equal(a.StateOf(at, "done").At("data.bytes"), 1000.0)
	is.Equal(a.Get("/api/v1/files").At("total"), 1.0)
	a.Clean()
}

// Two of an owner are fetched at once, and owners take turns: one with much in
// line, or with servers that never end, does not keep another waiting.
func TestRemoteUploadTurns(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
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
		a.Do(apitest.Request{Method: "POST", Path: apitest.RemoteAt, Key: key, JSON: map[string]any{"urls": all}}).Want(202)
	}
	key := func(name string) string { return a.AddKey(a.AddUser(name, people.Member), people.ScopeAll) }
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
		a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
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
	queue("a", a.Key, 6)
	a.Fetching(t)
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
	apitest.Eventually(t, "they are not done", func() bool {
		return a.Get("/api/v1/files").At("total") == 6.0 && running() == 0
	})
	a.Clean()
}

// What is under way when its owner's account is shut goes back in line, and on
// when it is open again.
func TestRemoteUploadOfShutAccount(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]int{"while it comes in": upload.NoteBytes + 1, "at its end": 1000} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			t.Parallel()
			a := apitest.Start(t)
			ben := a.AddUser("ben", people.Member)
			key := a.AddKey(ben, people.ScopeAll)
			a.Fetching(t)
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
			id := a.Do(apitest.Request{
				Method: "POST", Path: apitest.RemoteAt, Key: key, JSON: map[string]any{"url": target.URL + "/a.bin"},
			}).Want(202).Text("jobs.0.id")
			fetch := func() (f *jobs.Fetch) {
				a.NoErr(a.Server.Store.View(func(tx *kv.Tx) (err error) {
					f, err = jobs.ReadFetch(tx, ben.ID, uuid.MustParse(id))
					return err
				}))
				return f
			}
			apitest.Eventually(t, "it does not run", func() bool { return fetch().State == jobs.FetchRuns })
			a.Patch("/api/v1/admin/users/"+ben.ID.String(), map[string]any{"disabled": true}).Want(200)
			close(on)
			apitest.Eventually(t, "it goes on", func() bool { return fetch().State == jobs.FetchWaits })
			is.Equal(fetch().Tries, 0)
			a.Clean()
			if piece > upload.NoteBytes {
				return
			}
			a.Patch("/api/v1/admin/users/"+ben.ID.String(), map[string]any{"disabled": false}).Want(200)
			a.Server.Fetches.Rescan()
			apitest.Eventually(t, "it does not go on", func() bool { return fetch().State == jobs.FetchDone })
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
