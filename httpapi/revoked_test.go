package httpapi

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

	"kist/httpapi/upload"
	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// revocations are the ways to take a key from a user who has one.
var revocations = map[string]struct {
	do   func(a *app, user, key string)
	code string
}{
	"key removed":      {func(a *app, _, key string) { a.delete("/api/v1/keys/" + key).want(200) }, "unknown_key"},
	"key disabled":     {func(a *app, _, key string) { a.patch("/api/v1/keys/"+key, `{"disabled":true}`).want(200) }, "key_disabled"},
	"account disabled": {func(a *app, user, _ string) { a.patch("/api/v1/admin/users/"+user, `{"disabled":true}`).want(200) }, "user_disabled"},
}

// twoKeys are keys of a new user: one to work with, one to revoke it with, and the
// id of the first.
func (a *app) twoKeys() (u *people.User, works, other *app, id string) {
	a.Helper()
	u = a.addUser("ben", people.Admin)
	works = a.as(a.addKey(u, people.ScopeAll))
	var all []people.Key
	a.fatal(a.server.Store.View(func(tx *kv.Tx) (err error) { all, err = people.Keys(tx, u.ID); return err }))
	return u, works, a.as(a.addKey(u, people.ScopeAdmin)), all[0].ID.String()
}

// allButLast sends a request without the last byte of its body. last sends that
// too, and returns the status and the code of the answer.
func (a *app) allButLast(method, path, body string, header http.Header) (last func() (int, string)) {
	a.Helper()
	r, w := io.Pipe()
	a.Cleanup(func() { _ = w.Close() })
	req, err := http.NewRequestWithContext(a.Context(), method, a.url+path, r)
	a.fatal(err)
	req.ContentLength, req.Header = int64(len(body)), header
	req.Header.Set("X-Api-Key", a.key)
	type reply struct {
		status int
		code   string
	}
	replied := make(chan reply, 1)
	go func() {
		res, err := plain.Do(req)
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
	a.fatal(err)
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
			a := start(t)
			u, works, other, id := a.twoKeys()
			q := works.uploadRequest(nil, file{"a.bin", "", content})
			body, err := io.ReadAll(q.body)
			is.NoErr(err)
			last := works.allButLast(q.method, q.path, string(body), q.header)
			eventually(t, "the upload is not being taken", func() bool { return len(a.staged()) > 0 })
			if of.code == "user_disabled" {
				other = a
			}
			of.do(other, u.ID.String(), id)
			status, code := last()
			is.Equal(status, 401)
			is.Equal(code, of.code)
			a.filesOf(u, 0)
			is.Equal(len(a.blobNames()), 0)
			eventually(t, "a temporary file is left", func() bool { return len(a.staged()) == 0 })
		})
		t.Run("tus, "+name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			u, works, other, id := a.twoKeys()
			at := works.begin(len(content))
			last := works.allButLast("PATCH", at, content, withHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0"))
			part := filepath.Join(a.server.Store.Dir(), "cache", "uploads", "parts", at[len(upload.TusPath)+1:])
			eventually(t, "the piece is not being taken", func() bool { info, err := os.Stat(part); return err == nil && info.Size() > 0 })
			if of.code == "user_disabled" {
				other = a
			}
			of.do(other, u.ID.String(), id)
			status, code := last()
			is.Equal(status, 401)
			is.Equal(code, of.code)
			a.filesOf(u, 0)
			if of.code != "user_disabled" { // the upload is still its owner's
				other.piece(at, 0, content).want(204)
				a.filesOf(u, 1)
			}
		})
	}
}

// filesOf looks how many files a user has.
func (a *app) filesOf(u *people.User, n int64) {
	a.Helper()
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
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
			a := start(t)
			_, works, other, id := a.twoKeys()
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
			runs := works.remote(map[string]any{"url": target.URL + "/runs"})
			stop := a.fetching(t)
			is.Equal(<-asked, "/runs")
			revocations[name].do(other, "", id)
			close(on)
			const revoked = "The API key or browser that asked for this was revoked, turned off or signed out. Try again to fetch it in your own name."
			is.Equal(other.stateOf(runs, "failed").text("data.error"), revoked)
			stop()

			// One that had not begun.
			waits := other.remote(map[string]any{"url": target.URL + "/waits"})
			a.fatal(a.server.Store.Update(func(tx *kv.Tx) error { // as if the revoked key had asked
				u, err := people.UserNamed(tx, "ben")
				if err != nil {
					return err
				}
				was := uuid.MustParse(waits[len(remoteAt)+1:])
				if err := jobs.CancelFetch(tx, u.ID, was); err != nil {
					return err
				}
				return jobs.RetryFetch(tx, u.ID, was, uuid.MustParse(id))
			}))
			a.fetching(t)
			is.Equal(other.stateOf(waits, "failed").text("data.error"), revoked)
			is.Equal(len(asked), 0)
			for _, at := range []string{runs, waits} {
				other.patch(at, map[string]any{"action": "retry"}).want(200)
				other.stateOf(at, "done")
			}
			is.Equal(len(asked), 2)
			a.clean()
		})
	}
}

// What was asked for in a browser is fetched after its user has signed out, signed in again or set
// a new password there. It is not fetched after somebody has revoked the session.
func TestFetchAfterSession(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		end   func(a *app, cookie, other string)
		state string
	}{
		"signed out":      {func(a *app, cookie, _ string) { a.do(as(cookie, "POST", "/api/v1/auth/logout", nil)).want(200) }, "done"},
		"signed in again": {func(a *app, cookie, _ string) { a.login("", "ann", "correct horse", "Cookie", cookie).want(200) }, "done"},
		"new password": {func(a *app, cookie, _ string) {
			a.do(as(cookie, "PATCH", "/api/v1/me", `{"password":"staple battery","currentPassword":"correct horse"}`)).want(200)
		}, "done"},
		"new password elsewhere": {func(a *app, _, other string) {
			a.do(as(other, "PATCH", "/api/v1/me", `{"password":"staple battery","currentPassword":"correct horse"}`)).want(200)
		}, "failed"},
		"revoked": {func(a *app, _, other string) { a.do(as(other, "DELETE", "/api/v1/me/sessions", nil)).want(200) }, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			a.withPassword(a.user, "correct horse")
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") }))
			t.Cleanup(target.Close)
			cookie, other := a.enter("ann", "correct horse"), a.enter("ann", "correct horse")
			at := remoteAt + "/" + a.do(as(cookie, "POST", remoteAt, map[string]any{"url": target.URL + "/a"})).want(202).text("jobs.0.id")
			row.end(a, cookie, other)
			a.fetching(t)
			got := a.stateOf(at, row.state).text("data.error")
			is.Equal(strings.Contains(got, "was revoked, turned off or signed out"), row.state == "failed")
		})
	}
}
