package public_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

func TestCollections(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	one, two, three := a.Note("one", ""), a.Note("two", `,"maxViews":2`), a.Note("three", `,"tags":["sea"]`)
	id := a.Collect("all", "", one, two)
	at := "/api/v1/collections/" + id
	got := a.Get(at).Want(200)
	is.Equal(got.At("data.itemCount"), 1.0)
	is.Equal(got.At("data.leftOut"), 1.0)
	is.Equal(got.At("data.sort"), "manual")
	is.Equal(got.At("data.source"), map[string]any{"folderId": nil, "tag": nil})
	is.True(strings.HasSuffix(got.Text("data.url"), "/v/all"))
	is.True(strings.HasSuffix(got.Text("data.zipUrl"), "/x/all.zip"))
	is.Equal(a.Patch(at, `{"allowDownload":false}`).Want(200).At("data.zipUrl"), nil)

	list := a.Get(at + "/items").Want(200)
	is.Equal(list.IDs(), []string{one, two})
	is.Equal(list.At("leftOut"), []any{map[string]any{"id": two, "reason": "limit"}})
	is.Equal(
		a.Post(at+"/items", `{"add":["`+three+`","`+one+`"],"remove":["`+two+`"]}`).Want(200).At("data.itemCount"), 2.0,
	)
	is.Equal(a.Get(at+"/items").Want(200).IDs(), []string{one, three})
	a.Patch(at+"/items/"+three, `{"before":"`+one+`"}`).Want(200)
	first := a.Get(at + "/items?limit=1").Want(200)
	is.Equal(first.IDs(), []string{three})
	is.Equal(a.Get(at+"/items?limit=1&cursor="+first.Text("nextCursor")).Want(200).IDs(), []string{one})
	a.Patch(at+"/items/"+three, `{"before":null}`).Want(200)
	is.Equal(a.Get(at+"/items").Want(200).IDs(), []string{one, three})
	a.Patch(at+"/items/"+two, `{"before":null}`).Want(404)
	a.Patch(at+"/items/"+one, `{"before":"`+two+`"}`).Want(422)
	a.Post(at+"/items", `{"add":["`+id+`"]}`).Want(422)
	a.Get(at + "/items?cursor=AQ").Want(400)
	a.Post("/api/v1/collections", `{"title":"x","source":{"tag":"sea","items":["`+one+`"]}}`).Want(422)

	live := a.Post("/api/v1/collections", `{"title":"live","source":{"tag":"sea"}}`).Want(201)
	is.Equal(live.At("data.itemCount"), 1.0)
	is.Equal(live.At("data.source.tag"), "sea")
	a.Post("/api/v1/collections/"+live.Text("data.id")+"/items", `{"add":["`+one+`"]}`).Want(409)
	is.Equal(
		a.Patch(
			"/api/v1/collections/"+live.Text("data.id"), `{"source":{"items":["`+one+`"]}}`,
		).Want(200).At("data.source.tag"),
		nil,
	)

	bob := a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll)
	a.Do(apitest.Request{Method: "GET", Path: at + "/items", Key: bob}).Want(404)
	a.Do(apitest.Request{Method: "POST", Path: at + "/items", Key: bob, JSON: `{"add":[]}`}).Want(404)
	a.Delete(at).Want(200)
	a.Get("/api/v1/notes/" + one).Want(200) // the items stay
}

// covered makes a record of a kind whose picture is on another server and has been fetched. It returns the record's id, the
// address of that server, and what that server is asked for from then on.
func covered(a *apitest.App, kind, field string) (id, address string, asked chan string) {
	a.Helper()
	var b bytes.Buffer
	a.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 600, 400))))
	asked = make(chan string, 10)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		_, _ = w.Write(b.Bytes())
	}))
	a.Cleanup(site.Close)
	ctx, stop := context.WithCancel(a.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.Server.Pictures.Run(ctx) }()
	defer func() { stop(); <-done }()
	got := a.Post("/api/v1/"+kind, map[string]any{"title": "own", field: site.URL + "/" + kind + ".png"}).Want(201)
	for at := "/t/" + got.Text("data.slug"); a.Get(at).Status != 200; {
		select {
		case <-a.Context().Done():
			a.Fatal("the picture is not stored")
		case <-time.After(5 * time.Millisecond):
		}
	}
	<-asked
	return got.Text("data.id"), site.URL, asked
}

// Who gets what through a collection: every visitor, state of the collection, state of the
// item and address. Nothing of a private item leaves in any other way.
func TestCollectionMatrix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	photo := a.Upload(nil, apitest.File("secret-name.png", "image/png", apitest.Picture(t))).Want(201)
	game, shop, asked := covered(a, "games", "coverUrl")
	recipe, kitchen, askedToo := covered(a, "recipes", "imageUrl")
	named := func(got *apitest.Answer) bool { // whether a page names another server
		return bytes.Contains(got.Body, []byte(shop)) || bytes.Contains(got.Body, []byte(kitchen))
	}
	items := map[string]string{
		"private game": game, "private recipe": recipe,
		"private file": photo.Text("id"), "private note": a.Note(
			"private", `,"slug":"own-slug","tags":["own-tag"]`,
		), "public note": a.Note("public", `,"isPublic":true`),
		"password": a.Note(
			"x", `,"isPublic":true,"password":"pass word"`,
		), "limit": a.Note("x", `,"isPublic":true,"maxViews":5`), "end": a.Note(
			"x", `,"isPublic":true,"expiresAt":"2999-01-01T00:00:00Z"`,
		),
		"not in it": a.Note("x", `,"isPublic":true`), "in the trash": a.Note("x", `,"isPublic":true`),
	}
	seen := map[string]bool{
		"private file": true, "private note": true, "public note": true, "private game": true, "private recipe": true,
	}
	var ids []string
	for name, id := range items {
		if name != "not in it" {
			ids = append(ids, id)
		}
	}
	states := map[string]struct {
		more                     string
		stranger, knowing, owner int
	}{
		"open": {"", 200, 200, 200}, "private": {`,"maxViews":null`, 404, 404, 200}, "locked": {
			`,"password":"open sesame"`, 401, 200, 200,
		},
		"spent": {`,"maxViews":1`, 410, 410, 200}, "ended": {
			`,"expiresAt":"` + a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"`, 410, 410, 200,
		},
	}
	made := map[string]string{}
	for state, s := range states {
		made[state] = a.Collect(state, s.more, ids...)
	}
	a.Patch("/api/v1/collections/"+made["private"], `{"isPublic":false}`).Want(200)
	a.Visit("/v/spent").Want(200)
	a.Delete("/api/v1/notes/" + items["in the trash"]).Want(200)
	a.Clock.Advance(2 * time.Hour)
	for state, s := range states {
		for visitor, want := range map[string]int{"stranger": s.stranger, "knowing": s.knowing, "owner": s.owner} {
			ask := func(path string) *apitest.Answer {
				q := apitest.Request{Method: "GET", Path: path, Anyone: visitor != "owner", Raw: true, Header: http.Header{}}
				if visitor == "knowing" {
					q.Header.Set("X-Share-Password", "open sesame")
				}
				return a.Do(q)
			}
			check := func(path string, want int) *apitest.Answer {
				t.Helper()
				got := ask(path)
				if got.Status != want {
					t.Errorf("%s, %s: %s answers %d, want %d", state, visitor, path, got.Status, want)
				}
				return got
			}
			page := check("/v/"+state, want)
			zipped := check("/x/"+state+".zip", want)
			for name, id := range items {
				one := want
				if want == 200 && !seen[name] {
					one = 404
				}
				drawn := name == "private game" || name == "private recipe"
				for _, at := range []string{"/v/", "/x/"} {
					want := one
					if at == "/x/" && drawn && one == 200 {
						want = 404 // they have no bytes of their own
					}
					got := check(at+state+"/"+id, want)
					is.True(!strings.Contains(string(got.Body), "own-slug") && !strings.Contains(string(got.Body), "own-tag"))
				}
				if drawn || name == "private file" {
					check("/t/"+state+"/"+id, one)
				}
				if drawn {
					got := check("/v/"+state+"/"+id, one)
					is.Equal(strings.Contains(string(got.Body), `<img src="/t/`+state+"/"+id+`?size=picture"`), one == 200)
					is.True(!named(got))
				}
				if want == 200 && visitor != "owner" {
					is.Equal(strings.Contains(string(page.Body), id), seen[name])
					is.True(!named(page))
					is.Equal(strings.Contains(string(page.Body), `<img src="/t/`+state+"/"+id+`?size=picture"`), drawn)
				}
				check("/x/"+state+".zip?items="+id, one)
			}
			if want == 200 {
				is.Equal(strings.Count(string(zipped.Body), "PK\x01\x02"), 5)
			}
		}
	}
	is.Equal(len(asked)+len(askedToo), 0) // visitors have nothing fetched
	// Access ends with the next request.
	open := "/v/open/" + items["private note"]
	a.Visit(open).Want(200)
	col := made["open"]
	a.Post("/api/v1/collections/"+col+"/items", `{"remove":["`+items["private note"]+`"]}`).Want(200)
	a.Visit(open).Want(404)
	a.Visit("/v/open/" + items["public note"]).Want(200)
	a.Patch("/api/v1/notes/"+items["public note"], `{"password":"now locked"}`).Want(200)
	a.Visit("/v/open/" + items["public note"]).Want(404)
	a.Visit("/x/open/" + items["private file"]).Want(200)
	a.Delete("/api/v1/collections/" + col).Want(200)
	a.Visit("/x/open/" + items["private file"]).Want(404)
	is.Equal(a.Get("/api/v1/notes/own-slug").Want(200).At("data.views"), 0.0)
}

// A visitor's view of a collection covers everything in it, and a limit is exact.
func TestCollectionViews(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	file := a.Upload(nil, apitest.File("a.png", "image/png", apitest.Picture(t))).Want(201).Text("id")
	note := a.Note("x", "")
	id := a.Collect("all", `,"maxViews":2`, file, note)
	views := func() any { return a.Get("/api/v1/collections/" + id).Want(200).At("data.views") }
	a.Visit("/t/all/" + file).Want(404) // no byte before the view
	for i, paths := range [][]string{
		{"/v/all", "/v/all/" + note, "/x/all/" + file, "/t/all/" + file, "/x/all.zip"},
		{"/x/all.zip", "/v/all", "/x/all/" + note},
	} {
		g := a.Guest()
		for _, path := range paths {
			is.Equal(g.See("GET", path).Status, 200)
			is.Equal(views(), float64(i+1))
		}
	}
	is.Equal(a.Guest().See("GET", "/v/all").Status, 410)
	is.Equal(a.Guest().See("GET", "/x/all/"+file).Status, 410)
	is.Equal(views(), 2.0)
	is.Equal(a.Get("/api/v1/notes/"+note).Want(200).At("data.views"), 0.0)
}

// Only the owner of a collection gets the notes and tags of its bookmarks, also after a tag has another name.
func TestZipOfBookmarks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	tag := a.Post("/api/v1/tags", `{"name":"mine"}`).Want(201).Text("data.id")
	id := a.Post("/api/v1/bookmarks", map[string]any{
		"url": "https://go.dev/", "title": "Go", "description": "my note", "tags": []string{"mine"}, "isPublic": true,
	}).Want(201).Text("data.id")
	slug := a.Post("/api/v1/collections", map[string]any{
		"title": "all", "isPublic": true, "source": map[string]any{"items": []string{id}},
	}).Want(201).Text("data.slug")
	at := "/x/" + slug + ".zip"
	page := func(out []byte) string {
		z, err := zip.NewReader(bytes.NewReader(out), int64(len(out)))
		is.NoErr(err)
		text, err := fs.ReadFile(z, "bookmarks.html")
		is.NoErr(err)
		return string(text)
	}
	visitor := page(a.Guest().See("GET", at).Body)
	is.True(strings.Contains(visitor, ">Go</A>") && !strings.Contains(visitor, "mine") && !strings.Contains(visitor, "my note"))
	mine := page(a.Get(at).Want(200).Body)
	is.True(strings.Contains(mine, ` TAGS="mine">Go</A>`+"\n<DD>my note\n"))
	a.Patch("/api/v1/tags/"+tag, map[string]any{"name": "renamed"}).Want(200)
	is.True(strings.Contains(page(a.Get(at).Want(200).Body), ` TAGS="renamed"`))
	is.Equal(page(a.Guest().See("GET", at).Body), visitor)
}

// A zip that is cut anywhere goes on with the same bytes, also after a restart, and every
// program can read it.
func TestCollectionZip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	a := apitest.StartAt(t, dir)
	a.User = a.AddUser("ann", people.Admin)
	a.Key = a.AddKey(a.User, people.ScopeAdmin)
	rnd := rand.New(rand.NewPCG(7, 8))
	want := map[string]string{
		"Note.md": "# hello", "code.py": "print()", "bookmarks.html": "https://go.dev/", "Cake.md": "# Cake",
	}
	var ids []string
	for i := range 4 {
		content := make([]byte, 20_000*i)
		for j := range content {
			content[j] = byte(rnd.Uint32())
		}
		ids = append(
			ids, a.Upload(nil, apitest.File("con.bin", "application/octet-stream", string(content))).Want(201).Text("id"),
		)
		name := "_con.bin"
		if i > 0 {
			name = fmt.Sprintf("_con (%d).bin", i+1)
		}
		want[name] = string(content)
	}
	for path, body := range map[string]string{
		"notes": `{"title":"Note","content":"# hello"}`, "snippets": `{"title":"code","language":"python","content":"print()"}`, "recipes": `{"title":"Cake","ingredients":"- flour"}`,
		"bookmarks": `{"url":"https://go.dev/"}`, "shorten": `{"originalUrl":"https://example.org/"}`,
	} {
		ids = append(ids, a.Post("/api/v1/"+path, body).Want(201).Text("data.id"))
	}
	id := a.Collect("all", "", ids...)
	head := a.Visit("/x/all.zip")
	whole, tag := head.Want(200).Body, head.Header.Get("Etag")
	is.Equal(head.Header.Get("Content-Length"), fmt.Sprint(len(whole)))
	is.True(strings.HasPrefix(tag, `"`))
	z, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	is.NoErr(err)
	is.Equal(len(z.File), len(want))
	for _, f := range z.File {
		r, err := f.Open()
		is.NoErr(err)
		got, err := io.ReadAll(r)
		is.NoErr(err)
		text, ok := want[f.Name]
		is.True(ok && strings.Contains(string(got), text)) // every name once, with its bytes
		delete(want, f.Name)
	}
	if unzip, err := exec.LookPath("unzip"); err == nil {
		path := filepath.Join(t.TempDir(), "all.zip")
		is.NoErr(os.WriteFile(path, whole, 0o600))
		out, err := exec.Command(unzip, "-tq", path).CombinedOutput()
		t.Log(string(out))
		is.NoErr(err)
	}
	for i := range 50 {
		if i == 25 {
			a.Stop()
			user, key := a.User, a.Key
			a = apitest.StartAt(t, dir)
			a.User, a.Key = user, key
		}
		cut := rnd.IntN(len(whole))
		rest := a.Visit("/x/all.zip", "Range", fmt.Sprintf("bytes=%d-", cut), "If-Range", tag).Want(206)
		is.True(bytes.Equal(rest.Body, whole[cut:]))
	}
	a.Visit("/x/all.zip", "Range", fmt.Sprintf("bytes=%d-", len(whole))).Want(416)
	a.Visit("/x/all.zip", "If-None-Match", tag).Want(304)
	a.Post("/api/v1/collections/"+id+"/items", `{"remove":["`+ids[0]+`"]}`).Want(200)
	// changed: from the start
	is.True(len(a.Visit("/x/all.zip", "Range", "bytes=5-", "If-Range", tag).Want(200).Body) < len(whole))
	one := a.Visit("/x/all.zip?items=" + ids[1] + "," + ids[2]).Want(200)
	is.Equal(strings.Count(string(one.Body), "PK\x01\x02"), 2)
	a.Patch("/api/v1/collections/all", `{"allowDownload":false}`).Want(200)
	a.Visit("/x/all.zip").Want(404)
	is.True(!strings.Contains(string(a.Visit("/v/all").Want(200).Body), ".zip"))
}

// The address of a collection's zip belongs to the collection: no other item gets it as a slug.
func TestCollectionZipSlug(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.As(a.AddKey(a.AddUser("bob", people.Member), people.ScopeRead, people.ScopeWrite))
	make := func(a *apitest.App, kind, slug string) *apitest.Answer {
		return a.Post("/api/v1/"+kind, map[string]any{"title": "x", "content": "x", "slug": slug})
	}
	make(a, "collections", "holiday").Want(201)
	is.Equal(make(bob, "notes", "holiday.zip").Want(409).Text("code"), "slug_taken")
	at := "/api/v1/notes/" + make(bob, "notes", "other.zip").Want(201).Text("data.id")
	is.Equal(bob.Patch(at, map[string]any{"slug": "holiday.zip"}).Want(409).Text("code"), "slug_taken")
	is.Equal(make(a, "collections", "other").Want(409).Text("code"), "slug_taken")
	make(a, "notes", "story").Want(201)
	make(bob, "notes", "story.zip").Want(201) // a note has no zip
	bob.Patch(at, map[string]any{"title": "y"}).Want(200)

	begin := func(slug string) *apitest.Answer {
		return bob.SendTusBy(
			false, "POST", "/api/v1/tus", "", "Upload-Length", "3", "Upload-Metadata",
			apitest.Meta("filename", "x.zip", "slug", slug),
		)
	}
	is.Equal(begin("holiday.zip").Want(409).Text("code"), "slug_taken") // before its bytes are sent
	begin("later.zip").Want(201)
	is.Equal(make(a, "collections", "later").Want(409).Text("code"), "slug_taken")

	is.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error { // an item from before this rule
		r, err := catalog.Slug(tx, "story.zip")
		if err != nil {
			return err
		}
		r.Slug, r.Public = "holiday.zip", true
		return catalog.RecordRows.Put(tx.Tx, r)
	}))
	a.Visit("/x/holiday.zip").Want(200) // the collection is not public
	a.Patch("/api/v1/collections/holiday", map[string]any{"isPublic": true}).Want(200)
	a.Visit("/x/holiday.zip").Want(404) // the collection is empty

	bob.Delete(at).Want(200) // to the trash
	make(a, "collections", "other").Want(201)
	bob.Post("/api/v1/trash/restore", map[string]any{"ids": []string{strings.TrimPrefix(at, "/api/v1/notes/")}}).Want(200)
	is.True(bob.Get(at).Want(200).Text("data.slug") != "other.zip")
}

// What asks for no bytes of a zip reads no texts: not the head, not a tag that still holds, and not a byte of another
// entry. A changed text is read again.
func TestCollectionZipReadsLittle(t *testing.T) { // not parallel: it measures
	is := is.New(t)
	a := apitest.Start(t)
	var ids []string
	picture := a.Upload(nil, apitest.File("a.png", "image/png", "picture")).Want(201).Text("id")
	for i := range 20 {
		ids = append(ids, a.Note(fmt.Sprint(i, " ![](kist:", picture, ") ", strings.Repeat("x", 500_000)), ""))
	}
	a.Collect("all", "", ids...)
	tag := a.Visit("/x/all.zip", "Range", "bytes=0-0").Want(206).Header.Get("Etag")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		a.Send("HEAD", "/x/all.zip").Want(200)
		a.Visit("/x/all.zip", "If-None-Match", tag).Want(304)
		a.Visit("/x/all.zip", "Range", "bytes=0-0").Want(206)
	}
	runtime.ReadMemStats(&after)
	is.True(after.TotalAlloc-before.TotalAlloc < 9*2<<20) // all of the texts have 10 MB
	a.Patch("/api/v1/notes/"+ids[3], `{"isFavorite":true}`).Want(200)
	is.Equal(a.Send("HEAD", "/x/all.zip").Want(200).Header.Get("Etag"), tag) // the same bytes
	a.Patch("/api/v1/notes/"+ids[3], `{"content":"new"}`).Want(200)
	is.True(a.Send("HEAD", "/x/all.zip").Want(200).Header.Get("Etag") != tag)
	is.True(bytes.Contains(a.Visit("/x/all.zip").Want(200).Body, []byte("new.md")))
}

// The CRC-32 of a content that is not short is known as soon as it is a file, however it came, and a zip has it.
func TestUploadKeepsCRC(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Fetching(t)
	long := func(c string) string { return strings.Repeat(c, 1<<20) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, long("f"))
	}))
	t.Cleanup(server.Close)
	known := func(content string) bool {
		t.Helper()
		var sum uint32
		var known bool
		a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
			sum, known = catalog.CRC(tx, catalog.CRCKey{Ref: apitest.RefOf(content)})
			return nil
		}))
		is.True(!known || sum == crc32.ChecksumIEEE([]byte(content)))
		return known
	}
	a.Upload(
		nil, apitest.File("a", "", long("a")), apitest.File("b", "", long("b")), apitest.File("short", "", "short"),
	).Want(201)
	at := a.Begin(1<<20, "filename", "tus")
	a.Piece(at, 0, long("t")[:500_000]).Want(204)
	a.Piece(at, 500_000, long("t")[500_000:]).Want(204)
	a.StateOf(a.Remote(map[string]any{"url": server.URL}), "done")
	for _, c := range []string{long("a"), long("b"), long("t"), long("f")} {
		is.True(known(c))
	}
	is.True(!known("short"))
}

// The CRC-32 of a large content that a sender left is kept before the zip is sent, so that requests beside it do not
// read the content too.
func TestZipKeepsCRCAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"requiresApproval": false})
	content := strings.Repeat("0123456789abcdef", 1<<20+1)
	a.Leave(slug, nil, nil, apitest.File("long.bin", "", content)).Want(201)
	a.Collect("all", "", a.Get("/api/v1/files").Want(200).Text("data.0.id"))
	key := catalog.CRCKey{Ref: apitest.RefOf(content)}
	known := func() (known bool) {
		a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error { _, known = catalog.CRC(tx, key); return nil }))
		return known
	}
	is.True(!known())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+"/x/all.zip", nil)
	is.NoErr(err)
	res, err := apitest.Plain.Do(req)
	is.NoErr(err)
	defer res.Body.Close()
	is.Equal(res.StatusCode, http.StatusOK)
	_, err = io.ReadFull(res.Body, make([]byte, 100)) // the rest is not read
	is.NoErr(err)
	is.True(known())
}

// A zip whose bytes turn out to be lost or damaged costs no view, and the next one has the rest.
func TestCollectionZipLost(t *testing.T) {
	t.Parallel()
	original, _ := apitest.Photo(t, "all.jpg") // whose clean bytes have another CRC
	for name, lose := range map[string]func(a *apitest.App){
		"damaged": func(a *apitest.App) { a.Flip(original) },
		"missing": func(a *apitest.App) {
			ref := apitest.RefOf(original).String()
			a.NoErr(os.Remove(filepath.Join(a.Server.Store.Dir(), "blobs", ref[:2], ref)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			photo := a.Upload(nil, apitest.File("a.jpg", "image/jpeg", original)).Want(201).Text("id")
			id := a.Collect("all", `,"maxViews":1`, photo, a.Note("hello", ""))
			a.Send("HEAD", "/x/all.zip").Want(200)
			lose(a)
			if name == "damaged" {
				busy := a.Guest().See("GET", "/x/all.zip").Want(503)
				is.Equal(busy.Header.Get("Retry-After"), "1")
				is.Equal(a.Get("/api/v1/collections/"+id).Want(200).At("data.views"), 0.0)
			}
			rest := a.Guest().See("GET", "/x/all.zip").Want(200)
			is.Equal(strings.Count(string(rest.Body), "PK\x01\x02"), 1)
			is.True(bytes.Contains(rest.Body, []byte("hello.md")))
			is.Equal(a.Get("/api/v1/collections/"+id).Want(200).At("data.views"), 1.0)
		})
	}
}

// BenchmarkCollection shows the first page of a collection of 5000 pictures of 1 MiB, and
// sends its zip. All have the same bytes, so that the disk does not matter.
func BenchmarkCollection(b *testing.B) {
	a := apitest.Start(b)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	first := a.Upload(
		map[string]string{"folderName": "sea"}, apitest.File("0.jpg", "image/jpeg", string(content)),
	).Want(201)
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, a.User.ID, record.Files, first.Text("id"))
		if err != nil {
			return err
		}
		for range record.MaxPicked - 1 {
			form, err := r.Form()
			if err != nil {
				return err
			}
			form.Slug = ""
			if _, err := catalog.Add(tx, catalog.Draft{
				Owner: a.User.ID, Kind: record.Files, Form: form, Content: r.Bytes,
			}); err != nil {
				return err
			}
		}
		return nil
	}))
	a.Post(
		"/api/v1/collections",
		`{"title":"All","slug":"all","isPublic":true,"source":{"folderId":"`+first.Text("folder.id")+`"}}`,
	).Want(201)
	read := func(b *testing.B, path string) int64 {
		got, err := http.Get(a.URL + path)
		a.NoErr(err)
		defer got.Body.Close()
		n, err := io.Copy(io.Discard, got.Body)
		a.NoErr(err)
		return n
	}
	b.Run("page", func(b *testing.B) {
		for range b.N {
			read(b, "/v/all")
		}
	})
	b.Run("page after a change", func(b *testing.B) {
		for range b.N {
			a.Patch("/api/v1/files/"+first.Text("id"), `{"description":"x"}`).Want(200)
			read(b, "/v/all")
		}
	})
	b.Run("head of the zip", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			a.Send("HEAD", "/x/all.zip").Want(200)
		}
	})
	b.Run("zip", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			b.SetBytes(read(b, "/x/all.zip"))
		}
	})
}

// A page for visitors names no picture that is not there yet: each request for one would
// count as a wrong address, and many of those shut a visitor out.
func TestCollectionWithoutPictures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id := a.Post(
		"/api/v1/recipes", `{"title":"Soup","isPublic":true,"imageUrl":"https://example.org/soup.jpg"}`,
	).Want(201).Text("data.id")
	a.Collect("food", "", id)
	page := string(a.Visit("/v/food").Want(200).Body)
	is.True(strings.Contains(page, "Soup"))
	is.True(!strings.Contains(page, "size=picture"))
}

// TestCollectionPictures: up to four items that have a picture and that visitors see stand for a collection, its cover
// first, and their pictures open through it.
func TestCollectionPictures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	photo := func(name, more string) string {
		t.Helper()
		got := a.Upload(nil, apitest.File(name, "image/jpeg", apitest.JpegOf(40, 30, color.White)+name)).Want(201)
		id := got.Text("id")
		if more != "" {
			a.Patch("/api/v1/files/"+got.Text("slug"), more).Want(200)
		}
		return id
	}
	made := func(path, body string) string { return a.Post("/api/v1/"+path, body).Want(201).Text("data.id") }
	note, one, locked := a.Note("one", ""), photo("one.jpg", ""), photo("locked.jpg", `{"maxViews":3}`)
	soup := made("recipes", `{"title":"Soup","imageUrl":"https://example.org/soup.jpg"}`)
	plain := made("recipes", `{"title":"Bread"}`)
	game := made("games", `{"title":"Chess","coverUrl":"https://example.org/chess.jpg"}`)
	two, three := photo("two.jpg", ""), photo("three.jpg", "")

	for _, test := range []struct {
		name        string
		items, want []string
		cover       string
	}{
		{"nothing", nil, nil, ""},
		{"no pictures", []string{note, plain}, nil, ""},
		{"not what visitors do not see", []string{locked, one}, []string{one}, ""},
		{"four of five", []string{note, one, plain, soup, game, two, three}, []string{one, soup, game, two}, ""},
		{"the cover first", []string{one, soup, game, two, three}, []string{three, one, soup, game}, three},
		{"a recipe as cover", []string{one, soup}, []string{soup, one}, soup},
	} {
		source, _ := json.Marshal(map[string]any{"title": test.name, "source": map[string]any{"items": test.items}})
		id := made("collections", string(source))
		at := "/api/v1/collections/" + id
		if test.cover != "" {
			a.Patch(at, `{"cover":"`+test.cover+`"}`).Want(200)
		}
		got := a.Get(at).Want(200)
		want := []any{}
		for _, id := range test.want {
			want = append(want, id)
		}
		is.Equal(got.At("data.pictures"), want) // test.name
		for _, id := range test.want {
			if id == one || id == two || id == three {
				a.Get("/t/" + got.Text("data.slug") + "/" + id).Want(200)
			}
		}
	}
}

// TestCoverThatVisitorsDoNotSee: a cover with a limit of its own is known to the owner alone.
func TestCoverThatVisitorsDoNotSee(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	file := a.Upload(nil, apitest.File("a.jpg", "image/jpeg", apitest.JpegOf(40, 30, color.White))).Want(201)
	made := a.Post("/api/v1/collections", `{"title":"Album","isPublic":true,"source":{"items":["`+file.Text("id")+`"]}}`).Want(201)
	at := "/api/v1/collections/" + made.Text("data.id")
	a.Patch(at, `{"cover":"`+file.Text("id")+`"}`).Want(200)
	asked := func() any {
		return a.Send("POST", "/api/v1/collections/p/"+made.Text("data.slug")).Want(200).At("data.cover")
	}
	is.Equal(asked(), file.Text("id"))

	a.Patch("/api/v1/files/"+file.Text("slug"), `{"maxViews":3}`).Want(200)
	is.Equal(asked(), nil)
	is.Equal(a.Get(at).Want(200).At("data.cover"), file.Text("id"))
}
