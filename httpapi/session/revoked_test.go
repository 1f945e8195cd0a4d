package session_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/upload"
	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// revocations are the ways to take a key from a user who has one.
var revocations = map[string]struct {
	do   func(a *apitest.App, user, key string)
	code string
}{
	"key removed": {func(a *apitest.App, _, key string) { a.Delete("/api/v1/keys/" + key).Want(200) }, "unknown_key"},
	"key disabled": {func(a *apitest.App, _, key string) {
		a.Patch("/api/v1/keys/"+key, `{"disabled":true}`).Want(200)
	}, "key_disabled"},
	"account disabled": {func(a *apitest.App, user, _ string) {
		a.Patch("/api/v1/admin/users/"+user, `{"disabled":true}`).Want(200)
	}, "user_disabled"},
}

// twoKeys are keys of a new user: one to work with, one to revoke it with, and the
// id of the first.
func twoKeys(a *apitest.App) (u *people.User, works, other *apitest.App, id string) {
	a.Helper()
	u = a.AddUser("ben", people.Admin)
	works = a.As(a.AddKey(u, people.ScopeAll))
	var all []people.Key
	a.NoErr(a.Server.Store.View(func(tx *kv.Tx) (err error) { all, err = people.Keys(tx, u.ID); return err }))
	return u, works, a.As(a.AddKey(u, people.ScopeAdmin)), all[0].ID.String()
}

// allButLast sends a request without the last byte of its body. last sends that
// too, and returns the status and the code of the answer.
func allButLast(a *apitest.App, method, path, body string, header http.Header) (last func() (int, string)) {
	a.Helper()
	r, w := io.Pipe()
	a.Cleanup(func() { _ = w.Close() })
	req, err := http.NewRequestWithContext(a.Context(), method, a.URL+path, r)
	a.NoErr(err)
	req.ContentLength, req.Header = int64(len(body)), header
	req.Header.Set("X-Api-Key", a.Key)
	type reply struct {
		status int
		code   string
	}
	replied := make(chan reply, 1)
	go func() {
		res, err := apitest.Plain.Do(req)
		if err != nil {
			replied <- reply{0, err.Error()}
			return
		}
		defer res.Body.Close()
		var said struct{ Code string }
		_ = json.NewDecoder(res.Body).Decode(&said) // a success has none
		replied <- reply{res.StatusCode, said.Code}
	}()
	_, err = io.WriteString(w, body[:len(body)-1])
	a.NoErr(err)
	return func() (int, string) {
		_, _ = io.WriteString(w, body[len(body)-1:]) // the server may have answered already
		_ = w.Close()
		got := <-replied
		return got.status, got.code
	}
}

// whileAsked sends a request with all but the last byte of its body as soon as the server asks for the body, so that
// the caller is known by then.
func whileAsked(a *apitest.App, method, path, body string, header http.Header) (last func() (int, string)) {
	header.Set("Expect", "100-continue")
	return allButLast(a, method, path, body, header)
}

// A key that is revoked while the body of its request arrives changes nothing.
func TestRevokedWhileAsking(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	note := a.Post("/api/v1/notes", `{"content":"as it was"}`).Want(201)
	tag := a.Post("/api/v1/tags", `{"name":"sea"}`).Want(201).Text("data.id")
	other := a.Post("/api/v1/tags", `{"name":"shore"}`).Want(201).Text("data.id")
	sharedFile := a.UploadRequest(nil, apitest.File(
		"bookmarks.html", "text/html",
		`<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><p><DT><A HREF="https://example.org/">Sea</A></DL><p>`,
	))
	content, err := io.ReadAll(sharedFile.Body)
	is.NoErr(err)
	sharedText := a.UploadRequest(map[string]string{"text": "b"})
	text, err := io.ReadAll(sharedText.Body)
	is.NoErr(err)
	all := func() (lists string) {
		for _, list := range []string{"notes", "files", "tags", "upload-requests", "admin/settings", "import"} {
			lists += string(a.Get("/api/v1/" + list).Want(200).Body)
		}
		return lists
	}
	json := func() http.Header { return apitest.WithHeader("Content-Type", "application/json") }
	for name, of := range map[string]struct {
		method, path, body string
		header             func() http.Header
	}{
		"make": {"POST", "/api/v1/notes", `{"content":"new"}`, json},
		"make once": {"POST", "/api/v1/notes", `{"content":"new"}`, func() http.Header {
			h := json()
			h.Set("Idempotency-Key", "one")
			return h
		}},
		"edit":             {"PATCH", "/api/v1/notes/" + note.Text("data.id"), `{"content":"other"}`, json},
		"make a tag":       {"POST", "/api/v1/tags", `{"name":"land"}`, json},
		"edit a tag":       {"PATCH", "/api/v1/tags/" + tag, `{"name":"land"}`, json},
		"merge a tag":      {"POST", "/api/v1/tags/" + tag + "/merge", `{"into":"` + other + `"}`, json},
		"many":             {"POST", "/api/v1/bulk", `{"action":"trash","ids":["` + note.Text("data.id") + `"]}`, json},
		"restore":          {"POST", "/api/v1/trash/restore", `{"ids":["` + note.Text("data.id") + `"]}`, json},
		"share a text":     {"POST", "/share", string(text), sharedText.Header.Clone},
		"share a file":     {"POST", "/share", string(content), sharedFile.Header.Clone},
		"import":           {"POST", "/api/v1/import", string(content), sharedFile.Header.Clone},
		"settings":         {"PATCH", "/api/v1/admin/settings", `{"linkChecks":false}`, json},
		"a link to upload": {"POST", "/api/v1/upload-requests", `{"title":"Photos"}`, json},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			made := a.Post("/api/v1/keys", `{"name":"works","scopes":["all","admin"]}`).Want(201)
			works := a.As(made.Text("key"))
			before := all()
			last := whileAsked(works, of.method, of.path, of.body, of.header())
			a.Delete("/api/v1/keys/" + made.Text("data.id")).Want(200)
			status, code := last()
			is.Equal(status, 401)
			if of.path != "/share" { // that answers with a page
				is.Equal(code, "unknown_key")
			}
			is.Equal(all(), before)
		})
	}
}

// A key that is revoked while it uploads makes no file.
func TestRevokedWhileUploading(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789", 40_000)
	for name, of := range revocations {
		t.Run("form, "+name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			u, works, other, id := twoKeys(a)
			q := works.UploadRequest(nil, apitest.File("a.bin", "", content))
			body, err := io.ReadAll(q.Body)
			is.NoErr(err)
			last := allButLast(works, q.Method, q.Path, string(body), q.Header)
			apitest.Eventually(t, "the upload is not being taken", func() bool { return len(a.Staged()) > 0 })
			if of.code == "user_disabled" {
				other = a
			}
			of.do(other, u.ID.String(), id)
			status, code := last()
			is.Equal(status, 401)
			is.Equal(code, of.code)
			filesOf(a, u, 0)
			is.Equal(len(a.BlobNames()), 0)
			apitest.Eventually(t, "a temporary file is left", func() bool { return len(a.Staged()) == 0 })
		})
		t.Run("tus, "+name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			u, works, other, id := twoKeys(a)
			at := works.Begin(len(content))
			last := allButLast(
				works, "PATCH", at, content,
				apitest.WithHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0"),
			)
			part := filepath.Join(a.Server.Store.Dir(), "cache", "uploads", "parts", at[len(upload.TusPath)+1:])
			apitest.Eventually(t, "the piece is not being taken", func() bool {
				info, err := os.Stat(part)
				return err == nil && info.Size() > 0
			})
			if of.code == "user_disabled" {
				other = a
			}
			of.do(other, u.ID.String(), id)
			status, code := last()
			is.Equal(status, 401)
			is.Equal(code, of.code)
			filesOf(a, u, 0)
			if of.code != "user_disabled" { // the upload is still its owner's
				other.Piece(at, 0, content).Want(204)
				filesOf(a, u, 1)
			}
		})
	}
}

// filesOf looks how many files a user has.
func filesOf(a *apitest.App, u *people.User, n int64) {
	a.Helper()
	a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
		use, err := people.UsageOf(tx, u)
		if got := use.Count[record.Files.Name]; got != n {
			a.Errorf("there are %d files, not %d", got, n)
		}
		return err
	}))
}

// What a revoked key has asked for is fetched no more: what runs ends without a
// file, and what waits is not asked for. Its owner can try it again.
func TestRevokedWhileFetching(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"key removed", "key disabled"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			_, works, other, id := twoKeys(a)
			on := make(chan struct{})
			asked := make(chan string, 10)
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.URL.Path
				if r.URL.Path == "/runs" {
					http.NewResponseController(w).Flush()
					select {
					case <-on:
					case <-r.Context().Done():
					}
				}
				_, _ = io.WriteString(w, "content")
			}))
			t.Cleanup(target.Close)
			runs := works.Remote(map[string]any{"url": target.URL + "/runs"})
			stop := a.Fetching(t)
			is.Equal(<-asked, "/runs")
			revocations[name].do(other, "", id)
			close(on)
			const revoked = "The API key or browser that asked for this was revoked, turned off or signed out. Try again to " +
				"fetch it in your own name."
			is.Equal(other.StateOf(runs, "failed").Text("data.error"), revoked)
			stop()

			// One that had not begun.
			waits := other.Remote(map[string]any{"url": target.URL + "/waits"})
			a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error { // as if the revoked key had asked
				u, err := people.UserNamed(tx, "ben")
				if err != nil {
					return err
				}
				was := uuid.MustParse(waits[len(apitest.RemoteAt)+1:])
				if err := jobs.CancelFetch(tx, u.ID, was); err != nil {
					return err
				}
				return jobs.RetryFetch(tx, u.ID, was, uuid.MustParse(id))
			}))
			a.Fetching(t)
			is.Equal(other.StateOf(waits, "failed").Text("data.error"), revoked)
			is.Equal(len(asked), 0)
			for _, at := range []string{runs, waits} {
				other.Patch(at, map[string]any{"action": "retry"}).Want(200)
				other.StateOf(at, "done")
			}
			is.Equal(len(asked), 2)
			a.Clean()
		})
	}
}

// What was asked for in a browser is fetched after its user has signed out, signed in again or set
// a new password there. It is not fetched after somebody has revoked the session.
func TestFetchAfterSession(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		end   func(a *apitest.App, cookie, other string)
		state string
	}{
		"signed out": {func(a *apitest.App, cookie, _ string) {
			a.Do(apitest.As(cookie, "POST", "/api/v1/auth/logout", nil)).Want(200)
		}, "done"},
		"signed in again": {func(a *apitest.App, cookie, _ string) {
			apitest.Login(a, "", "ann", "correct horse", "Cookie", cookie).Want(200)
		}, "done"},
		"new password": {func(a *apitest.App, cookie, _ string) {
			a.Do(apitest.As(
				cookie, "PATCH", "/api/v1/me", `{"password":"staple battery","currentPassword":"correct horse"}`,
			)).Want(200)
		}, "done"},
		"new password elsewhere": {func(a *apitest.App, _, other string) {
			a.Do(apitest.As(
				other, "PATCH", "/api/v1/me", `{"password":"staple battery","currentPassword":"correct horse"}`,
			)).Want(200)
		}, "failed"},
		"revoked": {func(a *apitest.App, _, other string) {
			a.Do(apitest.As(other, "DELETE", "/api/v1/me/sessions", nil)).Want(200)
		}, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			a.WithPassword(a.User, "correct horse")
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "content")
			}))
			t.Cleanup(target.Close)
			cookie, other := a.Enter("ann", "correct horse"), a.Enter("ann", "correct horse")
			at := apitest.RemoteAt + "/" + a.Do(apitest.As(
				cookie, "POST", apitest.RemoteAt, map[string]any{"url": target.URL + "/a"},
			)).Want(202).Text("jobs.0.id")
			row.end(a, cookie, other)
			a.Fetching(t)
			got := a.StateOf(at, row.state).Text("data.error")
			is.Equal(strings.Contains(got, "was revoked, turned off or signed out"), row.state == "failed")
		})
	}
}
