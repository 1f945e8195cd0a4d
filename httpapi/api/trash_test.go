package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/history"
	"kist/kv/people"
	"kist/kv/record"
)

// column lists a member of every entry of a list.
func column(g *apitest.Answer, name string) (all []string) {
	for i := range g.At("data").([]any) {
		all = append(all, fmt.Sprint(g.At(fmt.Sprintf("data.%d.%s", i, name))))
	}
	return all
}

// Every kind goes into the trash when it is deleted, is gone from everywhere, and comes
// back with everything.
func TestTrash(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Upload(
		map[string]string{"isPublic": "true", "slug": "file", "folderName": "F", "newTags": "x"},
		apitest.File("a.txt", "text/plain", "hello"),
	).Want(201)
	for path, body := range map[string]string{
		"bookmarks": `{"url":"https://example.org/","title":"A bookmark"`, "notes": `{"content":"c","title":"A note"`, "snippets": `{"content":"c","title":"A snippet"`,
		"recipes": `{"title":"A recipe"`, "games": `{"title":"A game"`, "shorten": `{"originalUrl":"https://example.org/","description":"A link"`,
		"collections": `{"title":"A collection"`,
	} {
		a.Post("/api/v1/"+path, body+`,"slug":"my-`+path+`","isPublic":true,"tags":["x"]}`).Want(201)
	}
	a.Visit("/v/my-notes").Want(200)
	is.NoErr(a.Server.Store.Flush())
	before := a.State()
	var ids []string
	for _, k := range record.Kinds {
		id := a.Get("/api/v1/" + k.Path).Want(200).Text("data.0.id")
		ids = append(ids, id)
		a.Clock.Advance(time.Second)
		a.Delete("/api/v1/" + k.Path + "/" + id).Want(200)
		is.Equal(a.Get("/api/v1/"+k.Path).Want(200).At("total"), 0.0)
		a.Get("/api/v1/" + k.Path + "/" + id).Want(404)
	}
	for _, path := range []string{"/v/file", "/x/file", "/v/my-notes", "/s/my-shorten", "/v/my-bookmarks"} {
		a.Visit(path).Want(404)
	}
	is.Equal(a.Get("/api/v1/search?q=note").Want(200).At("total"), 0.0)
	got := a.Get("/api/v1/trash").Want(200)
	is.Equal(
		column(got, "title"),
		[]string{"A collection", "A link", "A game", "A recipe", "A snippet", "A note", "A bookmark", "a.txt"},
	)
	is.Equal(got.Text("data.7.slug"), "file")
	is.Equal(got.Text("data.7.deletedBy"), "test")
	is.True(got.At("data.7.size").(float64) > 5)
	deleted, err := time.Parse(time.RFC3339, got.Text("data.7.deletedAt"))
	is.NoErr(err)
	purged, err := time.Parse(time.RFC3339, got.Text("data.7.purgedAt"))
	is.NoErr(err)
	is.Equal(purged.Sub(deleted), people.DefaultTrashDays*24*time.Hour)
	is.Equal(column(a.Get("/api/v1/trash?kind=notes").Want(200), "title"), []string{"A note"})
	is.Equal(column(a.Get("/api/v1/trash?q=LINK").Want(200), "title"), []string{"A link"})

	var paged []string
	for cursor, n := "", 0; n < 10; n++ {
		page := a.Get("/api/v1/trash?limit=2&cursor=" + cursor).Want(200)
		is.Equal(page.At("total"), 8.0)
		paged = append(paged, column(page, "id")...)
		if page.At("nextCursor") == nil {
			break
		}
		cursor = page.Text("nextCursor")
		is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/api/v1/trash?q=x&cursor=" + cursor, Raw: true}).Status, 400)
	}
	is.Equal(paged, column(got, "id"))

	back := a.Post(
		"/api/v1/trash/restore", map[string]any{"ids": append([]string{"01890a5d-ac96-774b-bcce-b302099a8057"}, ids...)},
	).Want(200)
	is.Equal(column(back, "id"), ids)
	is.Equal(column(back, "formerSlug")[0], "<nil>")
	is.Equal(a.State(), before)
	a.Visit("/v/file").Want(200)
	is.Equal(a.Get("/api/v1/search?q=note").Want(200).At("total"), 1.0)
	is.Equal(a.Get("/api/v1/trash").Want(200).At("total"), 0.0)
	row := a.Get("/api/v1/activity").Want(200)
	is.Equal(row.Text(latest(row)+"event"), "restored")
	is.Equal(row.At(latest(row)+"count"), 8.0)
	a.Post("/api/v1/trash/restore", map[string]any{"ids": ids[:1]}).Want(404)
	a.Do(apitest.Request{Method: "POST", Path: "/api/v1/trash/restore", JSON: `{"ids":[]}`, Raw: true}).Want(422)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/trash?kind=x", Raw: true}).Want(400)
}

// A slug that somebody else has taken is replaced, and the answer says so.
func TestRestoreWithoutSlug(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id := a.Post("/api/v1/notes", `{"content":"c","slug":"n"}`).Want(201).Text("data.id")
	a.Delete("/api/v1/notes/n").Want(200)
	a.Post("/api/v1/notes", `{"content":"d","slug":"n"}`).Want(201)
	got := a.Post("/api/v1/trash/restore", map[string]any{"ids": []string{id}}).Want(200)
	is.Equal(got.Text("data.0.formerSlug"), "n")
	is.True(got.Text("data.0.slug") != "n")
	is.Equal(a.Get("/api/v1/notes/"+got.Text("data.0.slug")).Want(200).At("data.content"), "c")
	row := a.Get("/api/v1/activity").Want(200)
	is.Equal(row.Text(latest(row)+"subjectId"), id)
}

// latest is the path of the newest row of an activity log, but for the one that says
// that the key was used, which is written within a second of the first request.
func latest(log *apitest.Answer) string {
	return fmt.Sprintf("data.%d.", slices.IndexFunc(column(log, "event"), func(event string) bool {
		return event != "key_used"
	}))
}

// A key with the scope write can destroy nothing.
func TestTrashScopes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	writer := a.As(a.AddKey(a.User, people.ScopeRead, people.ScopeWrite))
	all := a.As(a.AddKey(a.User, people.ScopeAll))
	made := func() string { return a.Post("/api/v1/notes", `{"content":"c"}`).Want(201).Text("data.id") }
	id := made()
	writer.Delete("/api/v1/notes/" + id + "?permanent=true").Want(403)
	writer.Delete("/api/v1/notes/" + id).Want(200)
	writer.Delete("/api/v1/trash").Want(403)
	writer.Delete("/api/v1/trash/" + id).Want(403)
	writer.Post("/api/v1/trash/restore", map[string]any{"ids": []string{id}}).Want(200)
	all.Delete("/api/v1/notes/" + id + "?permanent=true").Want(200)
	all.Delete("/api/v1/trash/" + id).Want(404)
	id, other := made(), made()
	all.Delete("/api/v1/notes/" + id).Want(200)
	all.Delete("/api/v1/notes/" + other).Want(200)
	all.Delete("/api/v1/trash/" + id).Want(200)
	is.Equal(a.Get("/api/v1/trash").Want(200).At("total"), 1.0)
	bob := a.As(a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll))
	bob.Delete("/api/v1/trash/" + other).Want(404)
	bob.Post("/api/v1/trash/restore", map[string]any{"ids": []string{other}}).Want(404)
	bob.Delete("/api/v1/trash").Want(200)
	is.Equal(a.Get("/api/v1/trash").Want(200).At("total"), 1.0)
	all.Delete("/api/v1/trash").Want(200)
	is.Equal(a.Get("/api/v1/trash").Want(200).At("total"), 0.0)
	a.Do(apitest.Request{Method: "DELETE", Path: "/api/v1/notes/x?permanent=maybe", Raw: true}).Want(400)
}

// Without a trash, and at its limit, an item goes for good. A deletion link uses the trash.
func TestTrashIsLeftOut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	is.Equal(a.Get("/api/v1/admin/settings").Want(200).At("data.trashDays"), 30.0)
	link := a.Post("/api/v1/notes", `{"content":"c"}`).Want(201).Text("deletionUrl")
	at := link[strings.Index(link, "/share/"):]
	a.Do(apitest.Request{Method: "POST", Path: at, Anyone: true}).Want(200)
	is.Equal(a.Get("/api/v1/trash").Want(200).Text("data.0.deletedBy"), "")
	a.Do(apitest.Request{Method: "POST", Path: at, Anyone: true, Raw: true}).Want(http.StatusGone)
	a.Post("/api/v1/notes", `{"content":"c","slug":"n","isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`).Want(201)
	a.Visit("/v/n").Want(200)
	is.Equal(a.Get("/api/v1/trash").Want(200).At("total"), 1.0)
	a.Patch("/api/v1/admin/settings", `{"trashDays":0}`).Want(200)
	a.Delete("/api/v1/notes/" + a.Post("/api/v1/notes", `{"content":"c"}`).Want(201).Text("data.id")).Want(200)
	is.True(a.Get("/api/v1/trash").Want(200).At("total").(float64) <= 1) // the one before, which is emptied soon
	a.Do(apitest.Request{Method: "PATCH", Path: "/api/v1/admin/settings", JSON: `{"trashDays":-1}`, Raw: true}).Want(422)
}

// A text can be read and restored as it was before each change.
func TestVersions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for path, body := range map[string][2]string{
		"notes": {`"content":"one"`, `"content":"two"`}, "snippets": {`"content":"one"`, `"content":"two"`},
		"recipes": {`"title":"one"`, `"title":"two"`},
	} {
		at := "/api/v1/" + path + "/" + a.Post("/api/v1/"+path, "{"+body[0]+"}").Want(201).Text("data.id")
		is.Equal(a.Get(at+"/versions").Want(200).At("total"), 0.0)
		a.Patch(at, `{"isFavorite":true}`).Want(200)
		a.Patch(at, "{"+body[1]+"}").Want(200)
		list := a.Get(at + "/versions").Want(200)
		is.Equal(column(list, "by"), []string{"test"})
		one := a.Get(at + "/versions/" + list.Text("data.0.id")).Want(200)
		is.True(strings.Contains(string(one.Body), body[0]))
		is.Equal(one.At("data.size"), list.At("data.0.size"))
		a.Clock.Advance(history.VersionEvery)
		restored := a.Post(at+"/versions/"+list.Text("data.0.id")+"/restore", "").Want(200)
		is.True(strings.Contains(string(restored.Body), body[0]))
		is.Equal(restored.At("data.isFavorite"), true)
		list = a.Get(at + "/versions").Want(200)
		is.Equal(list.At("total"), 2.0) // the text that was replaced became one
		is.True(strings.Contains(string(a.Get(at+"/versions/"+list.Text("data.0.id")).Want(200).Body), body[1]))

		bob := a.As(a.AddKey(a.AddUser(path, people.Member), people.ScopeAll))
		bob.Get(at + "/versions").Want(404)
		bob.Get(at + "/versions/" + list.Text("data.0.id")).Want(404)
		bob.Post(at+"/versions/"+list.Text("data.0.id")+"/restore", "").Want(404)
		a.Get(at + "/versions/x").Want(404)
		a.Post(at+"/versions/01890a5d-ac96-774b-bcce-b302099a8057/restore", "").Want(404)
	}
}
