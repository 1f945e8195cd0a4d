package api_test

import (
	"archive/zip"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/api"
	"kist/httpapi/apitest"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/transfer"
)

func TestImport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	dry := a.MovedIn(a.MoveIn(map[string]string{"dryRun": "true"}, "bookmarks.html", apitest.BrowserBookmarks))
	is.Equal(dry.At("data.made.bookmark"), 1.0)
	is.Equal(a.Get("/api/v1/bookmarks").At("total"), 0.0)
	for i, want := range []any{1.0, nil} {
		done := a.MovedIn(a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks))
		is.Equal(done.Text("data.state"), "done")
		is.Equal(done.Text("data.format"), "netscape")
		is.Equal(done.At("data.made.bookmark"), want)
		is.Equal(done.At("data.there"), float64(i))
		is.Equal(done.At("data.refused"), 1.0)
		is.Equal(
			done.At("data.remarks").([]any)[0],
			map[string]any{
				"at": "line 4", "name": "evil", "refused": true, "text": "The URL must be an absolute http or https address.",
			},
		)
		is.Equal(done.At("data.progress"), 100.0)
	}
	list := a.Get("/api/v1/import").Want(200)
	is.Equal(list.At("total"), 3.0)
	kept := a.Get("/api/v1/bookmarks?tag=reading").Want(200)
	is.Equal(kept.At("total"), 1.0)
	for _, err := range a.Server.Blobs.All() {
		t.Error("the file was kept", err)
	}

	failed := a.MovedIn(a.MoveIn(
		map[string]string{"format": "linkding"}, "x.json", `{"results":[{"url":"https://kept.test"},`,
	))
	is.Equal(failed.Text("data.state"), "failed")
	is.Equal(failed.Text("data.error"), "It is not complete JSON: it ends too early.")
	is.Equal(failed.At("data.made.bookmark"), 1.0)

	a.MoveIn(nil, "what.bin", "nothing known").Want(422)
	a.MoveIn(map[string]string{"format": "nonsense"}, "x", "x").Want(422)
	q := a.UploadRequest(map[string]string{"format": "kist"})
	q.Path, q.Raw = "/api/v1/import", true
	a.Do(q).Want(422)
	a.Get("/api/v1/import/" + uuid.NewString()).Want(404)
	a.Get("/api/v1/import/x").Want(404)
	for range 12 { // the last ten are remembered
		a.MovedIn(a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks))
	}
	is.Equal(a.Get("/api/v1/import").Want(200).At("total"), 10.0)
}

// An update fills in what is there already; its progress stays within bounds, also of
// a source that is read twice.
func TestImportUpdate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/bookmarks", `{"url":"https://go.dev","title":"Mine"}`).Want(201)
	const list = `{"bookmarks":[{"createdAt":1700000000,"title":"Go","tags":["x"],"content":{"type":"link","url":"https://go.dev/"},"note":"About","unknown":1}],"lists":[]}`
	for _, dry := range []string{"true", "false"} {
		done := a.MovedIn(a.MoveIn(map[string]string{"update": "true", "dryRun": dry}, "karakeep.json", list))
		is.Equal(done.Text("data.format"), "karakeep")
		is.Equal(done.At("data.there"), 1.0)
		is.Equal(done.At("data.updated"), 1.0)
		is.Equal(done.At("data.progress"), 100.0)
		is.Equal(len(done.At("data.remarks").([]any)), 2)
		is.Equal(
			done.Text("data.remarks.0.text"),
			map[string]string{
				"true": "This would be filled in: description, tag x.", "false": "Filled in: description, tag x.",
			}[dry],
		)
		is.Equal(done.Text("data.remarks.1.at"), `member "unknown"`)
	}
	is.Equal(a.Get("/api/v1/bookmarks?tag=x").Want(200).Text("data.0.title"), "Mine")
	one := &worker.RunningImport{Size: 10}
	one.Read.Store(1000)
	is.Equal(api.ShowRunning(one).Progress, int64(99))
}

// Imports are their owner's alone, one at a time, and need a key that may do
// everything.
func TestImportWhose(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	done := a.MovedIn(a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks))
	at := "/api/v1/import/" + done.Text("data.id")
	ben := a.AddUser("ben", people.Member)
	key := a.AddKey(ben, people.ScopeAll)
	a.Do(apitest.Request{Method: "GET", Path: at, Key: key}).Want(404)
	a.Do(apitest.Request{Method: "DELETE", Path: at, Key: key}).Want(404)
	a.Do(apitest.Request{Method: "DELETE", Path: at}).Want(200)
	for _, scope := range []people.Scope{people.ScopeRead, people.ScopeWrite, people.ScopeUpload} {
		key := a.AddKey(a.User, scope)
		a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks, key).Want(403)
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/export", Key: key}).Want(403)
	}
	is.NoErr(a.Server.Imports.Claim(a.User.ID))
	is.Equal(a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks).Want(409).Text("code"), "import_running")
	a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks, key).Want(202) // ben's is another matter
	a.Server.Imports.Free(a.User.ID)
	is.NoErr(people.RemoveUser(a.Server.Store, ben.ID, "root")) // with all that is remembered of his
	a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error { tx.Audit(func(err error) { t.Error(err) }); return nil }))
}

// An import that the server's end cuts short says so, and may be run again.
func TestImportCutShort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for range worker.ImportsAtOnce { // so that it waits
		is.True(a.Server.Imports.Turns.Try())
	}
	begun := a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks).Want(202)
	at := "/api/v1/import/" + begun.Text("data.id")
	is.Equal(a.Get(at).Text("data.state"), "running")
	is.Equal(a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks).Want(409).Text("code"), "import_running")
	a.Do(apitest.Request{Method: "DELETE", Path: at}).Want(200)
	apitest.Eventually(t, "it is not stopped", func() bool { return a.Get(at).Text("data.state") == "stopped" })
	second := a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks).Want(202)
	a.Server.Imports.End()
	is.Equal(a.Get("/api/v1/import/"+second.Text("data.id")).Text("data.state"), "stopped")
	a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks).Want(503)

	// A kill leaves it running by the store alone.
	var left *transfer.ImportRun
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		left, err = transfer.AddImport(tx, a.User.ID, "x", transfer.Moved{Remarks: []transfer.Remark{}})
		return err
	}))
	got := a.Get("/api/v1/import/" + left.ID.String()).Want(200)
	is.Equal(got.Text("data.state"), "stopped")
	is.Equal(
		got.Text("data.error"),
		"The server was stopped during the import. Imported items stay. To continue, import the file again.",
	)
	for _, err := range a.Server.Blobs.All() {
		t.Error("the file was kept", err)
	}
}

// Bookmarks leave for other programs with their notes and tags, and nothing else does.
func TestExportOfBookmarks(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	a.Post("/api/v1/bookmarks", map[string]any{
		"url": "https://go.dev/", "title": "Go <1>", "description": "A note", "tags": []string{"x"},
	}).Want(201)
	a.Post("/api/v1/notes", map[string]any{"content": "secret"}).Want(201)
	for query, want := range map[string][3]string{
		"html": {"text/html; charset=utf-8", ` TAGS="x">Go &lt;1&gt;</A>` + "\n<DD>A note\n", `"bookmarks-ann-2`},
		"json": {"application/json", `"title":"Go \u003c1\u003e","tags":["x"],`, `"bookmarks-ann-2`},
		"zip":  {"application/zip", "PK", `"kist-ann-2`},
	} {
		is := is.New(t)
		out := a.Get("/api/v1/export?format=" + query).Want(200)
		is.Equal(out.Header.Get("Content-Type"), want[0])
		is.True(strings.Contains(string(out.Body), want[1]))
		is.True(strings.HasPrefix(out.Header.Get("Content-Disposition"), "attachment; filename="+want[2]))
		is.True(query == "zip" || !strings.Contains(string(out.Body), "secret"))
	}
	a.Get("/api/v1/export?format=csv").Want(400)
}

// An export over the API is imported into another account of another server.
func TestExport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Upload(
		map[string]string{"slug": "one", "password": "open sesame"}, apitest.File("a.txt", "text/plain", "hello"),
	).Want(201)
	a.Post("/api/v1/notes", map[string]any{"content": "a note", "tags": []string{"x"}}).Want(201)
	head := a.Do(apitest.Request{Method: "HEAD", Path: "/api/v1/export"}).Want(200)
	is.Equal(len(head.Body), 0)
	out := a.Get("/api/v1/export").Want(200)
	is.Equal(out.Header.Get("Content-Type"), "application/zip")
	is.Equal(out.Header.Get("Cache-Control"), "private, no-store")
	is.True(strings.HasPrefix(out.Header.Get("Content-Disposition"), `attachment; filename="kist-ann-2`))
	_, err := zip.NewReader(bytes.NewReader(out.Body), int64(len(out.Body)))
	is.NoErr(err)

	b := apitest.Start(t)
	done := b.MovedIn(b.MoveIn(nil, "kist.zip", string(out.Body)))
	is.Equal(done.Text("data.state"), "done")
	for _, kind := range []string{"file", "note", "tag"} {
		is.Equal(done.At("data.made."+kind), 1.0)
	}
	is.True(bytes.Equal(b.Get("/api/v1/export").Want(200).Body, out.Body))
	is.Equal(b.Get("/api/v1/files/one").Want(200).At("data.hasPassword"), true)

	// One export of each account runs, and not too many of all.
	is.NoErr(b.Server.Imports.BeginExport(b.User.ID))
	is.Equal(b.Get("/api/v1/export").Want(http.StatusServiceUnavailable).Header.Get("Retry-After"), "10")
	bob := b.As(b.AddKey(b.AddUser("bob", people.Member), people.ScopeAll))
	bob.Get("/api/v1/export").Want(200)
	for range worker.ExportsAtOnce - 1 {
		is.NoErr(b.Server.Imports.BeginExport(uuid.New()))
	}
	is.Equal(bob.Get("/api/v1/export").Want(http.StatusServiceUnavailable).Header.Get("Retry-After"), "10")
	b.Server.Imports.EndExport(b.User.ID)
	b.Get("/api/v1/export").Want(200)
}
