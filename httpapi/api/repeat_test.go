package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/jobs"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// TestCreatesAreRepeatable: with an Idempotency-Key, a creation that is sent twice
// is made once, and is answered alike.
func TestCreatesAreRepeatable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, body, other string
		status            int
	}{
		{"notes", `{"content":"a"}`, `{"content":"b"}`, 201},
		{"bookmarks", `{"url":"https://go.dev/"}`, `{"url":"https://go.dev/doc"}`, 201},
		{"shorten", `{"originalUrl":"https://go.dev/"}`, `{"originalUrl":"https://go.dev/doc"}`, 201},
		{"tags", `{"name":"a"}`, `{"name":"b"}`, 201},
		{"folders", `{"name":"a"}`, `{"name":"b"}`, 201},
		{"upload-requests", `{"title":"a"}`, `{"title":"b"}`, 201},
		{"integrations/webhooks", `{"url":"https://example.org/a"}`, `{"url":"https://example.org/b"}`, 201},
		{"remote-upload", `{"url":"https://example.org/a"}`, `{"url":"https://example.org/b"}`, 202},
		{
			"admin/users", `{"username":"bob","password":"correct horse battery"}`,
			`{"username":"eve","password":"correct horse battery"}`, 201,
		},
	} {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			send := func(body, key string) *apitest.Answer {
				return a.Do(apitest.Request{
					Method: "POST", Path: web.APIPath + tt.path, JSON: body, Header: http.Header{"Idempotency-Key": {key}},
				})
			}
			first := send(tt.body, "one").Want(tt.status)
			again := send(tt.body, "one").Want(tt.status)
			is.Equal(string(again.Body), string(first.Body))
			is.Equal(send(tt.other, "one").Want(422).Text("code"), "idempotency_mismatch")
			is.True(string(send(tt.other, "two").Want(tt.status).Body) != string(first.Body))
			send(tt.other, strings.Repeat("k", 256)).Want(400)
		})
	}
}

// When too many answers are kept, a request with a new key changes nothing. One without a key works.
func TestRepeatsAreBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	key := func(name string) http.Header { return http.Header{"Idempotency-Key": {name}} }
	send := func(name string) *apitest.Answer {
		return a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"a"}`, Header: key(name)})
	}
	first := send("one").Want(201)
	fill := func() {
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			return jobs.SaveIdempotentAnswer(tx, a.User.ID, rand.Text(), jobs.IdempotentAnswer{Body: make([]byte, 24<<20)})
		}))
	}
	fill()
	is.Equal(a.Leave(slug, key("two"), nil, apitest.File("a", "", "x")).Want(403).Text("code"), "too_many_answers")
	a.Leave(slug, nil, nil, apitest.File("a", "", "x")).Want(201)
	send("three").Want(201)
	fill()
	is.Equal(send("four").Want(403).Text("code"), "too_many_answers")
	is.Equal(a.Get("/api/v1/notes").At("total"), 2.0)
	is.Equal(string(send("one").Want(201).Body), string(first.Body))
	a.Post("/api/v1/notes", `{"content":"a"}`).Want(201)
}

// TestRepeatsAtOnce: of many at the same time one makes something.
func TestRepeatsAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"a"}`, Header: http.Header{"Idempotency-Key": {"one"}},
			}).Want(201)
		})
	}
	wait.Wait()
	is.Equal(a.Get("/api/v1/notes").At("total"), 1.0)

	text := func() string {
		r := apitest.Request{
			Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"b"}`,
			Header: http.Header{"Idempotency-Key": {"two"}, "Accept": {"text/plain"}},
		}
		return string(a.Do(r).Want(201).Body)
	}
	is.Equal(text(), text())
	is.Equal(a.Get("/api/v1/notes").At("total"), 2.0)
	a.Post("/api/v1/notes", `{"content":"a"}`).Want(201) // the key's absence changes nothing
	a.Post("/api/v1/notes", `{"content":"a"}`).Want(201)
	is.Equal(a.Get("/api/v1/notes").At("total"), 4.0)
}

// A creation and the answer that is kept for repeats are one commit, so no crash can come between
// them. This holds for all operations that create from JSON.
func TestCreatesAreOneCommit(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"bookmarks": `{"url":"https://go.dev/"}`, "notes": `{"content":"a"}`, "snippets": `{"content":"a"}`,
		"recipes": `{"title":"a"}`, "shorten": `{"originalUrl":"https://go.dev/"}`, "games": `{"title":"a"}`,
		"collections": `{"title":"a","source":{"items":[]}}`, "folders": `{"name":"a"}`, "keys": `{"name":"a"}`,
		"setups": `{"program":"shell"}`, "admin/users": `{"username":"bob","password":"correct horse battery"}`,
		"integrations/webhooks": `{"url":"https://example.org/a"}`, "upload-requests": `{"title":"a"}`,
		"remote-upload":     `{"url":"https://example.org/a"}`,
		"admin/invitations": `{}`,
		"me/passkeys":       "", // see TestRepeatsOfSecrets
	}
	for _, r := range apitest.Start(t).Server.Routes() {
		if !r.Repeatable() {
			continue
		}
		path := strings.TrimPrefix(r.Path, web.APIPath)
		body, known := bodies[path]
		if strings.HasSuffix(path, "tags") {
			body, known = `{"name":"a"}`, true
		}
		if !known {
			t.Errorf("%s: no body for a test", path)
		}
		if body == "" {
			continue
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			a := apitest.StartAt(t, dir)
			a.User = a.AddUser("ann", people.Admin)
			a.Key = a.AddKey(a.User, people.ScopeAdmin)
			q := apitest.Request{Method: "POST", Path: r.Path, JSON: body, Header: http.Header{"Idempotency-Key": {"one"}}}
			first := a.Do(q).Want(r.Reply.Status)
			a.Stop()

			j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
			is.NoErr(err)
			defer j.Close()
			var with []byte // the buckets that the record with the answer changes
			is.NoErr(j.Records(0, func(ops []journal.Op) error {
				var all []byte
				for _, op := range ops {
					all = append(all, op.Bucket)
				}
				if slices.Contains(all, kvtest.Bucket("answer").No) {
					with = all
				}
				return nil
			}))
			is.True(slices.ContainsFunc(with, func(no byte) bool {
				return no != kvtest.Bucket("answer").No && no != workcopy.MetaBucket.No
			}))

			key := a.Key
			a = apitest.StartAt(t, dir)
			a.Key = key
			if r.Once != "" {
				is.Equal(a.Do(q).Want(409).Code(), "answered_before")
				return
			}
			is.Equal(string(a.Do(q).Want(r.Reply.Status).Body), string(first.Body))
		})
	}
}

// startShipped starts a server that keeps a copy in an object store, and how another server takes that over: what the
// first one stores then is on its disk, and it says that it is not.
func startShipped(t *testing.T) (a *apitest.App, takeOver func()) {
	t.Helper()
	is := is.New(t)
	remote := &shelf{objects: map[string][]byte{}}
	stored := func(dir string, takeOver bool) (*kv.Store, error) {
		s, err := kv.Open(dir, kv.Options{
			Schema: tables.All, Log: kvtest.Quiet, Space: kvtest.SmallDisk,
			Ship: ship.New(ship.Options{
				Remote: remote, Address: "s3://test/kist", Sync: true, TakeOver: takeOver, Log: kvtest.Quiet,
			}),
		})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = s.Close() })
		add := func(tx *kv.Tx) error {
			_, err := people.AddUser(tx, people.User{Name: strings.ToLower(rand.Text()), Quota: -1})
			return err
		}
		for s.Update(add) != nil { // it cannot store anything before it is the writer
			runtime.Gosched()
		}
		return s, nil
	}
	first, err := stored(filepath.Join(t.TempDir(), "data"), false)
	is.NoErr(err)
	a = apitest.Start(t, func(c *web.Config) { is.NoErr(c.Store.Close()); c.Store = first })
	return a, func() {
		for opened := error(kv.ErrClosed); opened != nil; { // the first one may store something meanwhile
			place := t.TempDir()
			got, err := ship.Fetch(t.Context(), remote, time.Time{}, workcopy.Format, place)
			is.NoErr(err)
			is.NoErr(datadir.WriteInstance(place, got.Instance))
			is.NoErr(got.Claim(place))
			_, opened = stored(place, true)
		}
	}
}

// A creation that is on the disk although its answer was an error, because another server took the
// object store over, is not made again by a repeat.
func TestRepeatOfUnsureCreate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a, takeOver := startShipped(t)
	q := apitest.Request{
		Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"a"}`, Header: http.Header{"Idempotency-Key": {"one"}},
	}

	takeOver()
	is.Equal(a.Do(q).Want(503).Code(), "not_the_writer")
	is.Equal(a.Get("/api/v1/notes").At("total"), 1.0)
	again := a.Do(q).Want(201)
	is.Equal(again.At("data.id"), a.Get("/api/v1/notes").At("data.0.id"))
	is.Equal(a.Get("/api/v1/notes").At("total"), 1.0)
}

// A shelf is an object store in memory.
type shelf struct {
	blobs.Remote
	mu      sync.Mutex
	objects map[string][]byte
}

func (s *shelf) Put(_ context.Context, name string, body io.ReaderAt, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[name]; taken {
		return fs.ErrExist
	}
	b, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	s.objects[name] = b
	return err
}

func (s *shelf) Get(_ context.Context, name string, from, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, there := s.objects[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	if n < 0 {
		n = int64(len(b))
	}
	return io.NopCloser(io.NewSectionReader(bytes.NewReader(b), from, n)), nil
}

func (s *shelf) Head(_ context.Context, name string) (blobs.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, there := s.objects[name]
	if !there {
		return blobs.Object{}, fs.ErrNotExist
	}
	return blobs.Object{Name: name, Size: int64(len(b)), ModTime: time.Now()}, nil
}

func (s *shelf) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return nil
}

func (s *shelf) After(_ context.Context, prefix, after string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(s.objects)) {
			if !strings.HasPrefix(name, prefix) || name <= after {
				continue
			}
			if !yield(blobs.Object{Name: name, Size: int64(len(s.objects[name])), ModTime: time.Now()}, nil) {
				return
			}
		}
	}
}

// Of clients that race with few keys, all get the answer to the one creation of each key, also
// after a stop of the server.
func TestRepeatsOfRacingClients(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	a := apitest.StartAt(t, dir)
	a.User = a.AddUser("ann", people.Admin)
	a.Key = a.AddKey(a.User, people.ScopeAdmin)
	kinds := []string{
		`notes {"content":"a"}`, `shorten {"originalUrl":"https://go.dev/"}`, `tags {"name":"a"}`, `keys {"name":"a"}`,
		`notes {"content":"b","slug":"taken"}`, `notes {"content":"c","slug":"taken"}`, // one of them is refused
	}
	const clients, keys = 8, 3
	var mu sync.Mutex
	answers := map[string]map[any]bool{} // by kind and key
	ask := func(kind, key string) {
		path, body, _ := strings.Cut(kind, " ")
		got := a.Do(apitest.Request{
			Method: "POST", Path: web.APIPath + path, JSON: body, Header: http.Header{"Idempotency-Key": {key + kind}},
		})
		var id any
		switch {
		case got.Status == 201:
			id = got.At("data.id")
		case got.Code() == "answered_before":
			id = got.At("id")
		default:
			id = got.Code()
		}
		mu.Lock()
		defer mu.Unlock()
		if answers[kind+key] == nil {
			answers[kind+key] = map[any]bool{}
		}
		answers[kind+key][id] = true
	}
	race := func() {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for j := range len(kinds) * keys {
					n := (i + j) % (len(kinds) * keys)
					ask(kinds[n%len(kinds)], strconv.Itoa(n/len(kinds)))
				}
			})
		}
		all.Wait()
	}
	race()
	key := a.Key
	a.Stop()
	a = apitest.StartAt(t, dir)
	a.Key = key
	race()
	is.Equal(len(answers), len(kinds)*keys)
	for of, got := range answers {
		if len(got) != 1 {
			t.Errorf("%s: %v", of, got)
		}
	}
	is.Equal(a.Get("/api/v1/notes").At("total"), 4.0)
	is.Equal(a.Get("/api/v1/shorten").At("total"), 3.0)
	is.Equal(a.Get("/api/v1/keys").At("total"), 4.0) // with the one of the test
}

// TestRepeatsOfSecrets: a creation whose answer has secrets is made once, and its answer is
// not kept, so a repeat gets none.
func TestRepeatsOfSecrets(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
	ask := a.Do(apitest.As(cookie, "POST", "/api/v1/me/passkeys/options", nil)).Want(200)
	passkey := map[string]any{
		"name": "phone", "ticket": ask.Text("ticket"),
		"passkey": apitest.NewSoftKey(a).Create(a, ask.At("passkey").(map[string]any)),
	}
	for path, body := range map[string]any{
		"keys": map[string]any{"name": "laptop"}, "setups": map[string]any{"program": "shell"}, "me/passkeys": passkey,
	} {
		send := func(body any) *apitest.Answer {
			r := apitest.As(cookie, "POST", web.APIPath+path, body)
			r.Header.Set("Idempotency-Key", path)
			return a.Do(r)
		}
		made := send(body).Want(201)
		id := made.At("data." + map[bool]string{true: "key.id", false: "id"}[path == "setups"])
		again := send(body).Want(409)
		is.Equal(again.Code(), "answered_before")
		is.Equal(again.At("id"), id)
		is.Equal(again.At("kind"), map[bool]string{true: "passkey", false: "key"}[path == "me/passkeys"])
		is.Equal(send(map[string]any{"name": "other"}).Want(422).Code(), "idempotency_mismatch")
		a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
			kept, err := jobs.FindAnswer(tx, a.User.ID, path)
			is.NoErr(err)
			is.Equal(string(kept.Body), id) // nothing secret
			return nil
		}))
	}
	is.Equal(a.Get("/api/v1/keys").At("total"), 3.0) // with the one of the test
}

// TestRepeatedImport: an import that is sent twice runs once.
func TestRepeatedImport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	send := func(content string) *apitest.Answer {
		q := a.UploadRequest(nil, apitest.File("bookmarks.html", "", content))
		q.Path = "/api/v1/import"
		q.Header.Set("Idempotency-Key", "one")
		return a.Do(q)
	}
	first := send(apitest.BrowserBookmarks).Want(202)
	is.Equal(string(send(apitest.BrowserBookmarks).Want(202).Body), string(first.Body)) // while it runs, too
	a.MovedIn(first)
	is.Equal(string(send(apitest.BrowserBookmarks).Want(202).Body), string(first.Body))
	is.Equal(send(apitest.BrowserBookmarks+" ").Want(422).Code(), "idempotency_mismatch")
	is.Equal(a.Get("/api/v1/import").At("total"), 1.0)
}

// TestEveryCreationTakesAKey: all of them are repeatable, but those of tus, which are
// continued, and a backup: a second one is refused while one is being made.
func TestEveryCreationTakesAKey(t *testing.T) {
	t.Parallel()
	n := 0
	for _, r := range apitest.Start(t).Server.Routes() {
		if r.Method != "POST" || r.Reply.Status != 201 && r.Reply.Status != 202 || r.Access.Open || r.Tus || r.ID == "makeBackup" {
			continue
		}
		n++
		if !slices.ContainsFunc(r.Args, func(p web.Param) bool { return p.Name == "Idempotency-Key" }) {
			t.Errorf("%s %s takes no Idempotency-Key", r.Method, r.Path)
		}
	}
	if n < 20 {
		t.Errorf("there are %d creations", n)
	}
}
