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
