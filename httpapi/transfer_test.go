package httpapi

import (
	"archive/zip"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/api"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/transfer"
)

const browserBookmarks = `<!DOCTYPE NETSCAPE-Bookmark-file-1>
<DL><DT><H3>Reading</H3><DL>
<DT><A HREF="https://go.dev/" ADD_DATE="1600000000">Go</A>
<DT><A HREF="javascript:alert(1)">evil</A></DL></DL>`

// runImport sends a file to be imported, with another key if one is named.
func (a *app) moveIn(fields map[string]string, name, content string, key ...string) *answer {
	a.Helper()
	q := a.uploadRequest(fields, file{name, "", content})
	q.path = "/api/v1/import"
	if len(key) > 0 {
		q.key = key[0]
	}
	return a.do(q)
}

// movedIn waits for the end of the import that was answered with.
func (a *app) movedIn(begun *answer) *answer {
	a.Helper()
	var now *answer
	eventually(a.TB, "the import does not end", func() bool {
		now = a.get("/api/v1/import/" + begun.want(202).text("data.id")).want(200)
		return now.text("data.state") != "running"
	})
	return now
}

func TestImport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	dry := a.movedIn(a.moveIn(map[string]string{"dryRun": "true"}, "bookmarks.html", browserBookmarks))
	is.Equal(dry.at("data.made.bookmark"), 1.0)
	is.Equal(a.get("/api/v1/bookmarks").at("total"), 0.0)
	for i, want := range []any{1.0, nil} {
		done := a.movedIn(a.moveIn(nil, "bookmarks.html", browserBookmarks))
		is.Equal(done.text("data.state"), "done")
		is.Equal(done.text("data.format"), "netscape")
		is.Equal(done.at("data.made.bookmark"), want)
		is.Equal(done.at("data.there"), float64(i))
		is.Equal(done.at("data.refused"), 1.0)
		is.Equal(done.at("data.remarks").([]any)[0], map[string]any{"at": "line 4", "name": "evil", "refused": true, "text": "The URL must be an absolute http or https address."})
		is.Equal(done.at("data.progress"), 100.0)
	}
	list := a.get("/api/v1/import").want(200)
	is.Equal(list.at("total"), 3.0)
	kept := a.get("/api/v1/bookmarks?tag=reading").want(200)
	is.Equal(kept.at("total"), 1.0)
	for _, err := range a.server.Blobs.All() {
		t.Error("the file was kept", err)
	}

	failed := a.movedIn(a.moveIn(map[string]string{"format": "linkding"}, "x.json", `{"results":[{"url":"https://kept.test"},`))
	is.Equal(failed.text("data.state"), "failed")
	is.Equal(failed.text("data.error"), "It is not complete JSON: it ends too early.")
	is.Equal(failed.at("data.made.bookmark"), 1.0)

	a.moveIn(nil, "what.bin", "nothing known").want(422)
	a.moveIn(map[string]string{"format": "nonsense"}, "x", "x").want(422)
	q := a.uploadRequest(map[string]string{"format": "kist"})
	q.path, q.raw = "/api/v1/import", true
	a.do(q).want(422)
	a.get("/api/v1/import/" + uuid.NewString()).want(404)
	a.get("/api/v1/import/x").want(404)
	for range 12 { // the last ten are remembered
		a.movedIn(a.moveIn(nil, "bookmarks.html", browserBookmarks))
	}
	is.Equal(a.get("/api/v1/import").want(200).at("total"), 10.0)
}

// An update fills in what is there already; its progress stays within bounds, also of
// a source that is read twice.
func TestImportUpdate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/bookmarks", `{"url":"https://go.dev","title":"Mine"}`).want(201)
	const list = `{"bookmarks":[{"createdAt":1700000000,"title":"Go","tags":["x"],"content":{"type":"link","url":"https://go.dev/"},"note":"About","unknown":1}],"lists":[]}`
	for _, dry := range []string{"true", "false"} {
		done := a.movedIn(a.moveIn(map[string]string{"update": "true", "dryRun": dry}, "karakeep.json", list))
		is.Equal(done.text("data.format"), "karakeep")
		is.Equal(done.at("data.there"), 1.0)
		is.Equal(done.at("data.updated"), 1.0)
		is.Equal(done.at("data.progress"), 100.0)
		is.Equal(len(done.at("data.remarks").([]any)), 2)
		is.Equal(done.text("data.remarks.0.text"), map[string]string{"true": "This would be filled in: description, tag x.", "false": "Filled in: description, tag x."}[dry])
		is.Equal(done.text("data.remarks.1.at"), `member "unknown"`)
	}
	is.Equal(a.get("/api/v1/bookmarks?tag=x").want(200).text("data.0.title"), "Mine")
	one := &worker.RunningImport{Size: 10}
	one.Read.Store(1000)
	is.Equal(api.ShowRunning(one).Progress, int64(99))
}

// Imports are their owner's alone, one at a time, and need a key that may do
// everything.
func TestImportWhose(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	done := a.movedIn(a.moveIn(nil, "bookmarks.html", browserBookmarks))
	at := "/api/v1/import/" + done.text("data.id")
	ben := a.addUser("ben", people.Member)
	key := a.addKey(ben, people.ScopeAll)
	a.do(apiRequest{method: "GET", path: at, key: key}).want(404)
	a.do(apiRequest{method: "DELETE", path: at, key: key}).want(404)
	a.do(apiRequest{method: "DELETE", path: at}).want(200)
	for _, scope := range []people.Scope{people.ScopeRead, people.ScopeWrite, people.ScopeUpload} {
		key := a.addKey(a.user, scope)
		a.moveIn(nil, "bookmarks.html", browserBookmarks, key).want(403)
		a.do(apiRequest{method: "GET", path: "/api/v1/export", key: key}).want(403)
	}
	is.NoErr(a.server.Imports.Claim(a.user.ID))
	is.Equal(a.moveIn(nil, "bookmarks.html", browserBookmarks).want(409).text("code"), "import_running")
	a.moveIn(nil, "bookmarks.html", browserBookmarks, key).want(202) // ben's is another matter
	a.server.Imports.Free(a.user.ID)
	is.NoErr(people.RemoveUser(a.server.Store, ben.ID, "root")) // with all that is remembered of his
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error { tx.Audit(func(err error) { t.Error(err) }); return nil }))
}

// An import that the server's end cuts short says so, and may be run again.
func TestImportCutShort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for range worker.ImportsAtOnce { // so that it waits
		is.True(a.server.Imports.Turns.Try())
	}
	begun := a.moveIn(nil, "bookmarks.html", browserBookmarks).want(202)
	at := "/api/v1/import/" + begun.text("data.id")
	is.Equal(a.get(at).text("data.state"), "running")
	is.Equal(a.moveIn(nil, "bookmarks.html", browserBookmarks).want(409).text("code"), "import_running")
	a.do(apiRequest{method: "DELETE", path: at}).want(200)
	eventually(t, "it is not stopped", func() bool { return a.get(at).text("data.state") == "stopped" })
	second := a.moveIn(nil, "bookmarks.html", browserBookmarks).want(202)
	a.server.Imports.End()
	is.Equal(a.get("/api/v1/import/"+second.text("data.id")).text("data.state"), "stopped")
	a.moveIn(nil, "bookmarks.html", browserBookmarks).want(503)

	// A kill leaves it running by the store alone.
	var left *transfer.ImportRun
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) (err error) {
		left, err = transfer.AddImport(tx, a.user.ID, "x", transfer.Moved{Remarks: []transfer.Remark{}})
		return err
	}))
	got := a.get("/api/v1/import/" + left.ID.String()).want(200)
	is.Equal(got.text("data.state"), "stopped")
	is.Equal(got.text("data.error"), "The server was stopped during the import. Imported items stay. To continue, import the file again.")
	for _, err := range a.server.Blobs.All() {
		t.Error("the file was kept", err)
	}
}

// An export over the API is imported into another account of another server.
func TestExport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.upload(map[string]string{"slug": "one", "password": "open sesame"}, file{"a.txt", "text/plain", "hello"}).want(201)
	a.post("/api/v1/notes", map[string]any{"content": "a note", "tags": []string{"x"}}).want(201)
	head := a.do(apiRequest{method: "HEAD", path: "/api/v1/export"}).want(200)
	is.Equal(len(head.body), 0)
	out := a.get("/api/v1/export").want(200)
	is.Equal(out.header.Get("Content-Type"), "application/zip")
	is.Equal(out.header.Get("Cache-Control"), "private, no-store")
	is.True(strings.HasPrefix(out.header.Get("Content-Disposition"), `attachment; filename="kist-ann-2`))
	_, err := zip.NewReader(bytes.NewReader(out.body), int64(len(out.body)))
	is.NoErr(err)

	b := start(t)
	done := b.movedIn(b.moveIn(nil, "kist.zip", string(out.body)))
	is.Equal(done.text("data.state"), "done")
	for _, kind := range []string{"file", "note", "tag"} {
		is.Equal(done.at("data.made."+kind), 1.0)
	}
	is.True(bytes.Equal(b.get("/api/v1/export").want(200).body, out.body))
	is.Equal(b.get("/api/v1/files/one").want(200).at("data.hasPassword"), true)

	// One export of each account runs, and not too many of all.
	is.NoErr(b.server.Imports.BeginExport(b.user.ID))
	is.Equal(b.get("/api/v1/export").want(http.StatusServiceUnavailable).header.Get("Retry-After"), "10")
	bob := b.as(b.addKey(b.addUser("bob", people.Member), people.ScopeAll))
	bob.get("/api/v1/export").want(200)
	for range worker.ExportsAtOnce - 1 {
		is.NoErr(b.server.Imports.BeginExport(uuid.New()))
	}
	is.Equal(bob.get("/api/v1/export").want(http.StatusServiceUnavailable).header.Get("Retry-After"), "10")
	b.server.Imports.EndExport(b.user.ID)
	b.get("/api/v1/export").want(200)
}
