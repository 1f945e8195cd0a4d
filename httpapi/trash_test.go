package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/history"
	"kist/kv/people"
	"kist/kv/record"
)

// column lists a member of every entry of a list.
func (g *answer) column(name string) (all []string) {
	for i := range g.at("data").([]any) {
		all = append(all, fmt.Sprint(g.at(fmt.Sprintf("data.%d.%s", i, name))))
	}
	return all
}

// Every kind goes into the trash when it is deleted, is gone from everywhere, and comes
// back with everything.
func TestTrash(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.upload(map[string]string{"isPublic": "true", "slug": "file", "folderName": "F", "newTags": "x"}, file{"a.txt", "text/plain", "hello"}).want(201)
	for path, body := range map[string]string{
		"bookmarks": `{"url":"https://example.org/","title":"A bookmark"`, "notes": `{"content":"c","title":"A note"`, "snippets": `{"content":"c","title":"A snippet"`,
		"recipes": `{"title":"A recipe"`, "games": `{"title":"A game"`, "shorten": `{"originalUrl":"https://example.org/","description":"A link"`,
		"collections": `{"title":"A collection"`,
	} {
		a.post("/api/v1/"+path, body+`,"slug":"my-`+path+`","isPublic":true,"tags":["x"]}`).want(201)
	}
	a.visit("/v/my-notes").want(200)
	is.NoErr(a.server.Store.Flush())
	before := a.state()
	var ids []string
	for _, k := range record.Kinds {
		id := a.get("/api/v1/" + k.Path).want(200).text("data.0.id")
		ids = append(ids, id)
		a.clock.advance(time.Second)
		a.delete("/api/v1/" + k.Path + "/" + id).want(200)
		is.Equal(a.get("/api/v1/"+k.Path).want(200).at("total"), 0.0)
		a.get("/api/v1/" + k.Path + "/" + id).want(404)
	}
	for _, path := range []string{"/v/file", "/x/file", "/v/my-notes", "/s/my-shorten", "/v/my-bookmarks"} {
		a.visit(path).want(404)
	}
	is.Equal(a.get("/api/v1/search?q=note").want(200).at("total"), 0.0)
	got := a.get("/api/v1/trash").want(200)
	is.Equal(got.column("title"), []string{"A collection", "A link", "A game", "A recipe", "A snippet", "A note", "A bookmark", "a.txt"})
	is.Equal(got.text("data.7.slug"), "file")
	is.Equal(got.text("data.7.deletedBy"), "test")
	is.True(got.at("data.7.size").(float64) > 5)
	deleted, err := time.Parse(time.RFC3339, got.text("data.7.deletedAt"))
	is.NoErr(err)
	purged, err := time.Parse(time.RFC3339, got.text("data.7.purgedAt"))
	is.NoErr(err)
	is.Equal(purged.Sub(deleted), people.DefaultTrashDays*24*time.Hour)
	is.Equal(a.get("/api/v1/trash?kind=notes").want(200).column("title"), []string{"A note"})
	is.Equal(a.get("/api/v1/trash?q=LINK").want(200).column("title"), []string{"A link"})

	var paged []string
	for cursor, n := "", 0; n < 10; n++ {
		page := a.get("/api/v1/trash?limit=2&cursor=" + cursor).want(200)
		is.Equal(page.at("total"), 8.0)
		paged = append(paged, page.column("id")...)
		if page.at("nextCursor") == nil {
			break
		}
		cursor = page.text("nextCursor")
		is.Equal(a.do(apiRequest{method: "GET", path: "/api/v1/trash?q=x&cursor=" + cursor, raw: true}).status, 400)
	}
	is.Equal(paged, got.column("id"))

	back := a.post("/api/v1/trash/restore", map[string]any{"ids": append([]string{"01890a5d-ac96-774b-bcce-b302099a8057"}, ids...)}).want(200)
	is.Equal(back.column("id"), ids)
	is.Equal(back.column("formerSlug")[0], "<nil>")
	is.Equal(a.state(), before)
	a.visit("/v/file").want(200)
	is.Equal(a.get("/api/v1/search?q=note").want(200).at("total"), 1.0)
	is.Equal(a.get("/api/v1/trash").want(200).at("total"), 0.0)
	row := a.get("/api/v1/activity").want(200)
	is.Equal(row.text(latest(row)+"event"), "restored")
	is.Equal(row.at(latest(row)+"count"), 8.0)
	a.post("/api/v1/trash/restore", map[string]any{"ids": ids[:1]}).want(404)
	a.do(apiRequest{method: "POST", path: "/api/v1/trash/restore", json: `{"ids":[]}`, raw: true}).want(422)
	a.do(apiRequest{method: "GET", path: "/api/v1/trash?kind=x", raw: true}).want(400)
}

// A slug that somebody else has taken is replaced, and the answer says so.
func TestRestoreWithoutSlug(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id := a.post("/api/v1/notes", `{"content":"c","slug":"n"}`).want(201).text("data.id")
	a.delete("/api/v1/notes/n").want(200)
	a.post("/api/v1/notes", `{"content":"d","slug":"n"}`).want(201)
	got := a.post("/api/v1/trash/restore", map[string]any{"ids": []string{id}}).want(200)
	is.Equal(got.text("data.0.formerSlug"), "n")
	is.True(got.text("data.0.slug") != "n")
	is.Equal(a.get("/api/v1/notes/"+got.text("data.0.slug")).want(200).at("data.content"), "c")
	row := a.get("/api/v1/activity").want(200)
	is.Equal(row.text(latest(row)+"subjectId"), id)
}

// latest is the path of the newest row of an activity log, but for the one that says
// that the key was used, which is written within a second of the first request.
func latest(log *answer) string {
	return fmt.Sprintf("data.%d.", slices.IndexFunc(log.column("event"), func(event string) bool { return event != "key_used" }))
}

// A key with the scope write can destroy nothing.
func TestTrashScopes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	writer := a.as(a.addKey(a.user, people.ScopeRead, people.ScopeWrite))
	all := a.as(a.addKey(a.user, people.ScopeAll))
	made := func() string { return a.post("/api/v1/notes", `{"content":"c"}`).want(201).text("data.id") }
	id := made()
	writer.delete("/api/v1/notes/" + id + "?permanent=true").want(403)
	writer.delete("/api/v1/notes/" + id).want(200)
	writer.delete("/api/v1/trash").want(403)
	writer.delete("/api/v1/trash/" + id).want(403)
	writer.post("/api/v1/trash/restore", map[string]any{"ids": []string{id}}).want(200)
	all.delete("/api/v1/notes/" + id + "?permanent=true").want(200)
	all.delete("/api/v1/trash/" + id).want(404)
	id, other := made(), made()
	all.delete("/api/v1/notes/" + id).want(200)
	all.delete("/api/v1/notes/" + other).want(200)
	all.delete("/api/v1/trash/" + id).want(200)
	is.Equal(a.get("/api/v1/trash").want(200).at("total"), 1.0)
	bob := a.as(a.addKey(a.addUser("bob", people.Member), people.ScopeAll))
	bob.delete("/api/v1/trash/" + other).want(404)
	bob.post("/api/v1/trash/restore", map[string]any{"ids": []string{other}}).want(404)
	bob.delete("/api/v1/trash").want(200)
	is.Equal(a.get("/api/v1/trash").want(200).at("total"), 1.0)
	all.delete("/api/v1/trash").want(200)
	is.Equal(a.get("/api/v1/trash").want(200).at("total"), 0.0)
	a.do(apiRequest{method: "DELETE", path: "/api/v1/notes/x?permanent=maybe", raw: true}).want(400)
}

// Without a trash, and at its limit, an item goes for good. A deletion link uses the trash.
func TestTrashIsLeftOut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	is.Equal(a.get("/api/v1/admin/settings").want(200).at("data.trashDays"), 30.0)
	link := a.post("/api/v1/notes", `{"content":"c"}`).want(201).text("deletionUrl")
	at := link[strings.Index(link, "/share/"):]
	a.do(apiRequest{method: "POST", path: at, anyone: true}).want(200)
	is.Equal(a.get("/api/v1/trash").want(200).text("data.0.deletedBy"), "")
	a.do(apiRequest{method: "POST", path: at, anyone: true, raw: true}).want(http.StatusGone)
	a.post("/api/v1/notes", `{"content":"c","slug":"n","isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`).want(201)
	a.visit("/v/n").want(200)
	is.Equal(a.get("/api/v1/trash").want(200).at("total"), 1.0)
	a.patch("/api/v1/admin/settings", `{"trashDays":0}`).want(200)
	a.delete("/api/v1/notes/" + a.post("/api/v1/notes", `{"content":"c"}`).want(201).text("data.id")).want(200)
	is.True(a.get("/api/v1/trash").want(200).at("total").(float64) <= 1) // the one before, which is emptied soon
	a.do(apiRequest{method: "PATCH", path: "/api/v1/admin/settings", json: `{"trashDays":-1}`, raw: true}).want(422)
}

// A text can be read and restored as it was before each change.
func TestVersions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for path, body := range map[string][2]string{"notes": {`"content":"one"`, `"content":"two"`}, "snippets": {`"content":"one"`, `"content":"two"`}, "recipes": {`"title":"one"`, `"title":"two"`}} {
		at := "/api/v1/" + path + "/" + a.post("/api/v1/"+path, "{"+body[0]+"}").want(201).text("data.id")
		is.Equal(a.get(at+"/versions").want(200).at("total"), 0.0)
		a.patch(at, `{"isFavorite":true}`).want(200)
		a.patch(at, "{"+body[1]+"}").want(200)
		list := a.get(at + "/versions").want(200)
		is.Equal(list.column("by"), []string{"test"})
		one := a.get(at + "/versions/" + list.text("data.0.id")).want(200)
		is.True(strings.Contains(string(one.body), body[0]))
		is.Equal(one.at("data.size"), list.at("data.0.size"))
		a.clock.advance(history.VersionEvery)
		restored := a.post(at+"/versions/"+list.text("data.0.id")+"/restore", "").want(200)
		is.True(strings.Contains(string(restored.body), body[0]))
		is.Equal(restored.at("data.isFavorite"), true)
		list = a.get(at + "/versions").want(200)
		is.Equal(list.at("total"), 2.0) // the text that was replaced became one
		is.True(strings.Contains(string(a.get(at+"/versions/"+list.text("data.0.id")).want(200).body), body[1]))

		bob := a.as(a.addKey(a.addUser(path, people.Member), people.ScopeAll))
		bob.get(at + "/versions").want(404)
		bob.get(at + "/versions/" + list.text("data.0.id")).want(404)
		bob.post(at+"/versions/"+list.text("data.0.id")+"/restore", "").want(404)
		a.get(at + "/versions/x").want(404)
		a.post(at+"/versions/01890a5d-ac96-774b-bcce-b302099a8057/restore", "").want(404)
	}
}
