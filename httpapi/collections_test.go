package httpapi

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
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

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// collect makes a public collection of items with these slugs or ids and returns its id.
func (a *app) collect(slug string, more string, items ...string) string {
	a.Helper()
	list := strings.Join(items, `","`)
	if list != "" {
		list = `"` + list + `"`
	}
	return a.post("/api/v1/collections", `{"title":"All of it","slug":"`+slug+`","isPublic":true,"source":{"items":[`+list+`]}`+more+`}`).want(201).text("data.id")
}

func (a *app) note(text, more string) string {
	a.Helper()
	return a.post("/api/v1/notes", `{"content":"`+text+`"`+more+`}`).want(201).text("data.id")
}

func TestCollections(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	one, two, three := a.note("one", ""), a.note("two", `,"maxViews":2`), a.note("three", `,"tags":["sea"]`)
	id := a.collect("all", "", one, two)
	at := "/api/v1/collections/" + id
	got := a.get(at).want(200)
	is.Equal(got.at("data.itemCount"), 1.0)
	is.Equal(got.at("data.leftOut"), 1.0)
	is.Equal(got.at("data.sort"), "manual")
	is.Equal(got.at("data.source"), map[string]any{"folderId": nil, "tag": nil})
	is.True(strings.HasSuffix(got.text("data.url"), "/v/all"))
	is.True(strings.HasSuffix(got.text("data.zipUrl"), "/x/all.zip"))
	is.Equal(a.patch(at, `{"allowDownload":false}`).want(200).at("data.zipUrl"), nil)

	list := a.get(at + "/items").want(200)
	is.Equal(list.ids(), []string{one, two})
	is.Equal(list.at("leftOut"), []any{map[string]any{"id": two, "reason": "limit"}})
	is.Equal(a.post(at+"/items", `{"add":["`+three+`","`+one+`"],"remove":["`+two+`"]}`).want(200).at("data.itemCount"), 2.0)
	is.Equal(a.get(at+"/items").want(200).ids(), []string{one, three})
	a.patch(at+"/items/"+three, `{"before":"`+one+`"}`).want(200)
	first := a.get(at + "/items?limit=1").want(200)
	is.Equal(first.ids(), []string{three})
	is.Equal(a.get(at+"/items?limit=1&cursor="+first.text("nextCursor")).want(200).ids(), []string{one})
	a.patch(at+"/items/"+three, `{"before":null}`).want(200)
	is.Equal(a.get(at+"/items").want(200).ids(), []string{one, three})
	a.patch(at+"/items/"+two, `{"before":null}`).want(404)
	a.patch(at+"/items/"+one, `{"before":"`+two+`"}`).want(422)
	a.post(at+"/items", `{"add":["`+id+`"]}`).want(422)
	a.get(at + "/items?cursor=AQ").want(400)
	a.post("/api/v1/collections", `{"title":"x","source":{"tag":"sea","items":["`+one+`"]}}`).want(422)

	live := a.post("/api/v1/collections", `{"title":"live","source":{"tag":"sea"}}`).want(201)
	is.Equal(live.at("data.itemCount"), 1.0)
	is.Equal(live.at("data.source.tag"), "sea")
	a.post("/api/v1/collections/"+live.text("data.id")+"/items", `{"add":["`+one+`"]}`).want(409)
	is.Equal(a.patch("/api/v1/collections/"+live.text("data.id"), `{"source":{"items":["`+one+`"]}}`).want(200).at("data.source.tag"), nil)

	bob := a.addKey(a.addUser("bob", people.Member), people.ScopeAll)
	a.do(apiRequest{method: "GET", path: at + "/items", key: bob}).want(404)
	a.do(apiRequest{method: "POST", path: at + "/items", key: bob, json: `{"add":[]}`}).want(404)
	a.delete(at).want(200)
	a.get("/api/v1/notes/" + one).want(200) // the items stay
}

// covered makes a record of a kind whose picture is on another server and has been fetched. It returns the record's id, the
// address of that server, and what that server is asked for from then on.
func (a *app) covered(kind, field string) (id, address string, asked chan string) {
	a.Helper()
	var b bytes.Buffer
	a.fatal(png.Encode(&b, image.NewGray(image.Rect(0, 0, 600, 400))))
	asked = make(chan string, 10)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		_, _ = w.Write(b.Bytes())
	}))
	a.Cleanup(site.Close)
	ctx, stop := context.WithCancel(a.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.server.Pictures.Run(ctx) }()
	defer func() { stop(); <-done }()
	got := a.post("/api/v1/"+kind, map[string]any{"title": "own", field: site.URL + "/" + kind + ".png"}).want(201)
	for at := "/t/" + got.text("data.slug"); a.get(at).status != 200; {
		select {
		case <-a.Context().Done():
			a.Fatal("the picture is not stored")
		case <-time.After(5 * time.Millisecond):
		}
	}
	<-asked
	return got.text("data.id"), site.URL, asked
}

// Who gets what through a collection: every visitor, state of the collection, state of the
// item and address. Nothing of a private item leaves in any other way.
func TestCollectionMatrix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	photo := a.upload(nil, file{"secret-name.png", "image/png", picture(t)}).want(201)
	game, shop, asked := a.covered("games", "coverUrl")
	recipe, kitchen, askedToo := a.covered("recipes", "imageUrl")
	named := func(got *answer) bool { // whether a page names another server
		return bytes.Contains(got.body, []byte(shop)) || bytes.Contains(got.body, []byte(kitchen))
	}
	items := map[string]string{
		"private game": game, "private recipe": recipe,
		"private file": photo.text("id"), "private note": a.note("private", `,"slug":"own-slug","tags":["own-tag"]`), "public note": a.note("public", `,"isPublic":true`),
		"password": a.note("x", `,"isPublic":true,"password":"pass word"`), "limit": a.note("x", `,"isPublic":true,"maxViews":5`), "end": a.note("x", `,"isPublic":true,"expiresAt":"2999-01-01T00:00:00Z"`),
		"not in it": a.note("x", `,"isPublic":true`), "in the trash": a.note("x", `,"isPublic":true`),
	}
	seen := map[string]bool{"private file": true, "private note": true, "public note": true, "private game": true, "private recipe": true}
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
		"open": {"", 200, 200, 200}, "private": {`,"maxViews":null`, 404, 404, 200}, "locked": {`,"password":"open sesame"`, 401, 200, 200},
		"spent": {`,"maxViews":1`, 410, 410, 200}, "ended": {`,"expiresAt":"` + a.clock.now().Add(time.Hour).UTC().Format(time.RFC3339) + `"`, 410, 410, 200},
	}
	made := map[string]string{}
	for state, s := range states {
		made[state] = a.collect(state, s.more, ids...)
	}
	a.patch("/api/v1/collections/"+made["private"], `{"isPublic":false}`).want(200)
	a.visit("/v/spent").want(200)
	a.delete("/api/v1/notes/" + items["in the trash"]).want(200)
	a.clock.advance(2 * time.Hour)
	for state, s := range states {
		for visitor, want := range map[string]int{"stranger": s.stranger, "knowing": s.knowing, "owner": s.owner} {
			ask := func(path string) *answer {
				q := apiRequest{method: "GET", path: path, anyone: visitor != "owner", raw: true, header: http.Header{}}
				if visitor == "knowing" {
					q.header.Set("X-Share-Password", "open sesame")
				}
				return a.do(q)
			}
			check := func(path string, want int) *answer {
				t.Helper()
				got := ask(path)
				if got.status != want {
					t.Errorf("%s, %s: %s answers %d, want %d", state, visitor, path, got.status, want)
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
					is.True(!strings.Contains(string(got.body), "own-slug") && !strings.Contains(string(got.body), "own-tag"))
				}
				if drawn || name == "private file" {
					check("/t/"+state+"/"+id, one)
				}
				if drawn {
					got := check("/v/"+state+"/"+id, one)
					is.Equal(strings.Contains(string(got.body), `<img src="/t/`+state+"/"+id+`?size=picture"`), one == 200)
					is.True(!named(got))
				}
				if want == 200 && visitor != "owner" {
					is.Equal(strings.Contains(string(page.body), id), seen[name])
					is.True(!named(page))
					is.Equal(strings.Contains(string(page.body), `<img src="/t/`+state+"/"+id+`?size=picture"`), drawn)
				}
				check("/x/"+state+".zip?items="+id, one)
			}
			if want == 200 {
				is.Equal(strings.Count(string(zipped.body), "PK\x01\x02"), 5)
			}
		}
	}
	is.Equal(len(asked)+len(askedToo), 0) // visitors have nothing fetched
	// Access ends with the next request.
	open := "/v/open/" + items["private note"]
	a.visit(open).want(200)
	col := made["open"]
	a.post("/api/v1/collections/"+col+"/items", `{"remove":["`+items["private note"]+`"]}`).want(200)
	a.visit(open).want(404)
	a.visit("/v/open/" + items["public note"]).want(200)
	a.patch("/api/v1/notes/"+items["public note"], `{"password":"now locked"}`).want(200)
	a.visit("/v/open/" + items["public note"]).want(404)
	a.visit("/x/open/" + items["private file"]).want(200)
	a.delete("/api/v1/collections/" + col).want(200)
	a.visit("/x/open/" + items["private file"]).want(404)
	is.Equal(a.get("/api/v1/notes/own-slug").want(200).at("data.views"), 0.0)
}

// A visitor's view of a collection covers everything in it, and a limit is exact.
func TestCollectionViews(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	file := a.upload(nil, file{"a.png", "image/png", picture(t)}).want(201).text("id")
	note := a.note("x", "")
	id := a.collect("all", `,"maxViews":2`, file, note)
	views := func() any { return a.get("/api/v1/collections/" + id).want(200).at("data.views") }
	a.visit("/t/all/" + file).want(404) // no byte before the view
	for i, paths := range [][]string{{"/v/all", "/v/all/" + note, "/x/all/" + file, "/t/all/" + file, "/x/all.zip"}, {"/x/all.zip", "/v/all", "/x/all/" + note}} {
		g := a.guest()
		for _, path := range paths {
			is.Equal(g.see("GET", path).status, 200)
			is.Equal(views(), float64(i+1))
		}
	}
	is.Equal(a.guest().see("GET", "/v/all").status, 410)
	is.Equal(a.guest().see("GET", "/x/all/"+file).status, 410)
	is.Equal(views(), 2.0)
	is.Equal(a.get("/api/v1/notes/"+note).want(200).at("data.views"), 0.0)
}

// A zip that is cut anywhere goes on with the same bytes, also after a restart, and every
// program can read it.
func TestCollectionZip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	a := startAt(t, dir)
	a.user = a.addUser("ann", people.Admin)
	a.key = a.addKey(a.user, people.ScopeAdmin)
	rnd := rand.New(rand.NewPCG(7, 8))
	want := map[string]string{"Note.md": "# hello", "code.py": "print()", "bookmarks.html": "https://go.dev/", "Cake.md": "# Cake"}
	var ids []string
	for i := range 4 {
		content := make([]byte, 20_000*i)
		for j := range content {
			content[j] = byte(rnd.Uint32())
		}
		ids = append(ids, a.upload(nil, file{"con.bin", "application/octet-stream", string(content)}).want(201).text("id"))
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
		ids = append(ids, a.post("/api/v1/"+path, body).want(201).text("data.id"))
	}
	id := a.collect("all", "", ids...)
	head := a.visit("/x/all.zip")
	whole, tag := head.want(200).body, head.header.Get("Etag")
	is.Equal(head.header.Get("Content-Length"), fmt.Sprint(len(whole)))
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
			a.stop()
			user, key := a.user, a.key
			a = startAt(t, dir)
			a.user, a.key = user, key
		}
		cut := rnd.IntN(len(whole))
		rest := a.visit("/x/all.zip", "Range", fmt.Sprintf("bytes=%d-", cut), "If-Range", tag).want(206)
		is.True(bytes.Equal(rest.body, whole[cut:]))
	}
	a.visit("/x/all.zip", "Range", fmt.Sprintf("bytes=%d-", len(whole))).want(416)
	a.visit("/x/all.zip", "If-None-Match", tag).want(304)
	a.post("/api/v1/collections/"+id+"/items", `{"remove":["`+ids[0]+`"]}`).want(200)
	is.True(len(a.visit("/x/all.zip", "Range", "bytes=5-", "If-Range", tag).want(200).body) < len(whole)) // changed: from the start
	one := a.visit("/x/all.zip?items=" + ids[1] + "," + ids[2]).want(200)
	is.Equal(strings.Count(string(one.body), "PK\x01\x02"), 2)
	a.patch("/api/v1/collections/all", `{"allowDownload":false}`).want(200)
	a.visit("/x/all.zip").want(404)
	is.True(!strings.Contains(string(a.visit("/v/all").want(200).body), ".zip"))
}

// The address of a collection's zip belongs to the collection: no other item gets it as a slug.
func TestCollectionZipSlug(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.as(a.addKey(a.addUser("bob", people.Member), people.ScopeRead, people.ScopeWrite))
	make := func(a *app, kind, slug string) *answer {
		return a.post("/api/v1/"+kind, map[string]any{"title": "x", "content": "x", "slug": slug})
	}
	make(a, "collections", "holiday").want(201)
	is.Equal(make(bob, "notes", "holiday.zip").want(409).text("code"), "slug_taken")
	at := "/api/v1/notes/" + make(bob, "notes", "other.zip").want(201).text("data.id")
	is.Equal(bob.patch(at, map[string]any{"slug": "holiday.zip"}).want(409).text("code"), "slug_taken")
	is.Equal(make(a, "collections", "other").want(409).text("code"), "slug_taken")
	make(a, "notes", "story").want(201)
	make(bob, "notes", "story.zip").want(201) // a note has no zip
	bob.patch(at, map[string]any{"title": "y"}).want(200)

	begin := func(slug string) *answer {
		return bob.tusBy(false, "POST", "/api/v1/tus", "", "Upload-Length", "3", "Upload-Metadata", meta("filename", "x.zip", "slug", slug))
	}
	is.Equal(begin("holiday.zip").want(409).text("code"), "slug_taken") // before its bytes are sent
	begin("later.zip").want(201)
	is.Equal(make(a, "collections", "later").want(409).text("code"), "slug_taken")

	is.NoErr(a.server.Store.Update(func(tx *kv.Tx) error { // an item from before this rule
		r, err := catalog.Slug(tx, "story.zip")
		if err != nil {
			return err
		}
		r.Slug, r.Public = "holiday.zip", true
		return catalog.RecordRows.Put(tx.Tx, r)
	}))
	a.visit("/x/holiday.zip").want(200) // the collection is not public
	a.patch("/api/v1/collections/holiday", map[string]any{"isPublic": true}).want(200)
	a.visit("/x/holiday.zip").want(404) // the collection is empty

	bob.delete(at).want(200) // to the trash
	make(a, "collections", "other").want(201)
	bob.post("/api/v1/trash/restore", map[string]any{"ids": []string{strings.TrimPrefix(at, "/api/v1/notes/")}}).want(200)
	is.True(bob.get(at).want(200).text("data.slug") != "other.zip")
}

// What asks for no bytes of a zip reads no texts: not the head, not a tag that still holds, and not a byte of another
// entry. A changed text is read again.
func TestCollectionZipReadsLittle(t *testing.T) { // not parallel: it measures
	is := is.New(t)
	a := start(t)
	var ids []string
	for i := range 20 {
		ids = append(ids, a.note(fmt.Sprint(i, strings.Repeat("x", 500_000)), ""))
	}
	a.collect("all", "", ids...)
	tag := a.visit("/x/all.zip", "Range", "bytes=0-0").want(206).header.Get("Etag")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		a.send("HEAD", "/x/all.zip").want(200)
		a.visit("/x/all.zip", "If-None-Match", tag).want(304)
		a.visit("/x/all.zip", "Range", "bytes=0-0").want(206)
	}
	runtime.ReadMemStats(&after)
	is.True(after.TotalAlloc-before.TotalAlloc < 9*2<<20) // all of the texts have 10 MB
	a.patch("/api/v1/notes/"+ids[3], `{"isFavorite":true}`).want(200)
	is.Equal(a.send("HEAD", "/x/all.zip").want(200).header.Get("Etag"), tag) // the same bytes
	a.patch("/api/v1/notes/"+ids[3], `{"content":"new"}`).want(200)
	is.True(a.send("HEAD", "/x/all.zip").want(200).header.Get("Etag") != tag)
	is.True(bytes.Contains(a.visit("/x/all.zip").want(200).body, []byte("new.md")))
}

// The CRC-32 of a content that is not short is known as soon as it is a file, however it came, and a zip has it.
func TestUploadKeepsCRC(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.fetching(t)
	long := func(c string) string { return strings.Repeat(c, 1<<20) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long("f")) }))
	t.Cleanup(server.Close)
	known := func(content string) bool {
		t.Helper()
		var sum uint32
		var known bool
		a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
			sum, known = catalog.CRC(tx, catalog.CRCKey{Ref: refOf(content)})
			return nil
		}))
		is.True(!known || sum == crc32.ChecksumIEEE([]byte(content)))
		return known
	}
	a.upload(nil, file{"a", "", long("a")}, file{"b", "", long("b")}, file{"short", "", "short"}).want(201)
	at := a.begin(1<<20, "filename", "tus")
	a.piece(at, 0, long("t")[:500_000]).want(204)
	a.piece(at, 500_000, long("t")[500_000:]).want(204)
	a.stateOf(a.remote(map[string]any{"url": server.URL}), "done")
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
	a := start(t)
	_, slug := a.ask(map[string]any{"requiresApproval": false})
	content := strings.Repeat("0123456789abcdef", 1<<20+1)
	a.leave(slug, nil, nil, file{"long.bin", "", content}).want(201)
	a.collect("all", "", a.get("/api/v1/files").want(200).text("data.0.id"))
	key := catalog.CRCKey{Ref: refOf(content)}
	known := func() (known bool) {
		a.fatal(a.server.Store.View(func(tx *kv.Tx) error { _, known = catalog.CRC(tx, key); return nil }))
		return known
	}
	is.True(!known())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/x/all.zip", nil)
	is.NoErr(err)
	res, err := plain.Do(req)
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
	original, _ := photo(t, "all.jpg") // whose clean bytes have another CRC
	for name, lose := range map[string]func(a *app){
		"damaged": func(a *app) { a.flip(original) },
		"missing": func(a *app) {
			ref := refOf(original).String()
			a.fatal(os.Remove(filepath.Join(a.server.Store.Dir(), "blobs", ref[:2], ref)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			photo := a.upload(nil, file{"a.jpg", "image/jpeg", original}).want(201).text("id")
			id := a.collect("all", `,"maxViews":1`, photo, a.note("hello", ""))
			a.send("HEAD", "/x/all.zip").want(200)
			lose(a)
			if name == "damaged" {
				busy := a.guest().see("GET", "/x/all.zip").want(503)
				is.Equal(busy.header.Get("Retry-After"), "1")
				is.Equal(a.get("/api/v1/collections/"+id).want(200).at("data.views"), 0.0)
			}
			rest := a.guest().see("GET", "/x/all.zip").want(200)
			is.Equal(strings.Count(string(rest.body), "PK\x01\x02"), 1)
			is.True(bytes.Contains(rest.body, []byte("hello.md")))
			is.Equal(a.get("/api/v1/collections/"+id).want(200).at("data.views"), 1.0)
		})
	}
}

// BenchmarkCollection shows the first page of a collection of 5000 pictures of 1 MiB, and
// sends its zip. All have the same bytes, so that the disk does not matter.
func BenchmarkCollection(b *testing.B) {
	a := start(b)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	first := a.upload(map[string]string{"folderName": "sea"}, file{"0.jpg", "image/jpeg", string(content)}).want(201)
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, a.user.ID, record.Files, first.text("id"))
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
				Owner: a.user.ID, Kind: record.Files, Form: form, Content: r.Bytes,
			}); err != nil {
				return err
			}
		}
		return nil
	}))
	a.post("/api/v1/collections", `{"title":"All","slug":"all","isPublic":true,"source":{"folderId":"`+first.text("folder.id")+`"}}`).want(201)
	read := func(b *testing.B, path string) int64 {
		got, err := http.Get(a.url + path)
		a.fatal(err)
		defer got.Body.Close()
		n, err := io.Copy(io.Discard, got.Body)
		a.fatal(err)
		return n
	}
	b.Run("page", func(b *testing.B) {
		for range b.N {
			read(b, "/v/all")
		}
	})
	b.Run("page after a change", func(b *testing.B) {
		for range b.N {
			a.patch("/api/v1/files/"+first.text("id"), `{"description":"x"}`).want(200)
			read(b, "/v/all")
		}
	})
	b.Run("head of the zip", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			a.send("HEAD", "/x/all.zip").want(200)
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
	a := start(t)
	id := a.post("/api/v1/recipes", `{"title":"Soup","isPublic":true,"imageUrl":"https://example.org/soup.jpg"}`).want(201).text("data.id")
	a.collect("food", "", id)
	page := string(a.visit("/v/food").want(200).body)
	is.True(strings.Contains(page, "Soup"))
	is.True(!strings.Contains(page, "size=picture"))
}
