package api_test

import (
	"archive/zip"
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/people"
)

// a household: ann owns a collection, and the others have a part in it, or none.
type household struct {
	*apitest.App
	keys       map[string]string // by role; "" is a visitor, "nobody" an account without a part in it
	ids        map[string]string // of the accounts
	collection string
}

func newHousehold(t *testing.T) *household {
	t.Helper()
	h := &household{App: apitest.Start(t), keys: map[string]string{}, ids: map[string]string{}}
	h.keys["owner"] = h.Key
	for _, role := range []string{"see", "add", "edit", "nobody"} {
		u := h.AddUser("person-"+role, people.Member)
		h.keys[role], h.ids[role] = h.AddKey(u, people.ScopeAll), u.ID.String()
	}
	h.collection = h.Post("/api/v1/collections", map[string]any{"title": "Board", "slug": "board"}).Want(201).Text("data.id")
	for _, role := range []string{"see", "add", "edit"} {
		h.As("owner", "PUT", "/api/v1/collections/"+h.collection+"/members/"+h.ids[role], `{"role":"`+role+`"}`).Want(200)
	}
	return h
}

// As sends a request as one of the household.
func (h *household) As(role, method, path, body string) *apitest.Answer {
	raw := !strings.HasPrefix(path, "/api/")
	return h.Do(apitest.Request{
		Method: method, Path: path, Key: h.keys[role], Anyone: h.keys[role] == "", JSON: body, Raw: raw,
	})
}

// Who may do what with the items of a shared collection, in each state that an item may have. No answer to somebody else
// than the owner has what is the owner's alone.
func TestMemberMatrix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHousehold(t)
	items := map[string]string{}
	for name, more := range map[string]string{
		"private": ``, "public": `,"isPublic":true`, "locked": `,"isPublic":true,"password":"pass word"`,
		"limited": `,"isPublic":true,"maxViews":3`, "ended": `,"isPublic":true,"expiresAt":"2999-01-01T00:00:00Z"`,
		"trashed": ``,
	} {
		items[name] = h.Note("words of "+name, `,"slug":"hidden-slug-`+name+`","tags":["hidden-tag"],"isFavorite":true`+more)
	}
	other := h.Note("in another collection", ``)
	for _, id := range items {
		h.As("owner", "POST", "/api/v1/collections/"+h.collection+"/items", `{"add":["`+id+`"]}`).Want(200)
	}
	h.Delete("/api/v1/notes/" + items["trashed"]).Want(200)

	for role := range h.keys {
		member := role == "see" || role == "add" || role == "edit"
		hidden := func(got *apitest.Answer) {
			t.Helper()
			if member && strings.Contains(string(got.Body), "hidden-") {
				t.Errorf("%s is told what is the owner's alone: %s", role, got.Body)
			}
		}
		list := h.As(role, "GET", "/api/v1/collections/"+h.collection+"/items", "")
		if member || role == "owner" {
			is.Equal(list.Want(200).At("total"), 5.0)
			hidden(list)
			c := h.As(role, "GET", "/api/v1/collections/"+h.collection, "").Want(200)
			is.Equal(c.Text("data.slug"), "board")
			is.Equal(c.Text("data.members.2.name"), "person-edit")
			if member {
				is.Equal(c.Text("data.role"), role)
				is.Equal(c.At("data.isFavorite"), nil)
				is.Equal(h.As(role, "GET", "/api/v1/collections?from=others", "").Want(200).IDs(), []string{h.collection})
				is.Equal(h.As(role, "GET", "/api/v1/collections", "").Want(200).At("total"), 0.0)
			}
		} else {
			want := map[string]int{"nobody": 404, "": 401}[role]
			is.Equal(list.Status, want)
		}
		for name, id := range items {
			try := func(method, path, body string, want int) {
				t.Helper()
				got := h.As(role, method, path, body)
				if got.Status != want {
					t.Errorf("%s, %s: %s %s answers %d, want %d: %s", role, name, method, path, got.Status, want, got.Body)
				}
				hidden(got)
				if want == 403 {
					is.Equal(got.Code(), "not_owner")
				}
			}
			at := "/api/v1/notes/" + id
			reads, changes, others := 404, 404, 404 // others: what only the owner may do
			switch {
			case role == "":
				reads, changes, others = 401, 401, 401
			case name == "trashed", role == "nobody":
			case role == "edit":
				reads, changes, others = 200, 200, 403
			case member:
				reads, changes, others = 200, 403, 403
			default:
				reads, changes, others = 200, 200, 200
			}
			try("GET", at, "", reads)
			try("PATCH", at, `{"content":"words of `+name+` by `+role+`"}`, changes)
			ticks := changes
			if ticks == 200 {
				ticks = 409 // there is no such task
			}
			try("POST", at+"/ticks", `{"line":1,"text":"none","done":true}`, ticks)
			for _, set := range []string{
				`{"slug":"hidden-slug-` + name + `"}`, `{"isPublic":false}`, `{"password":null}`, `{"maxViews":null}`,
				`{"expiresAt":null}`, `{"tags":["hidden-tag"]}`, `{"addTags":["hidden-tag"]}`, `{"isFavorite":true}`, `{"logVisits":false}`,
				`{"content":"x","isPublic":false}`,
			} {
				if role != "owner" {
					try("PATCH", at, set, others)
				}
			}
			if role != "owner" {
				try("DELETE", at, "", others)
				try("DELETE", at+"?permanent=true", "", others)
			}
			try("GET", at+"/versions", "", others)
			try("GET", at+"/visits", "", others)

			public := 404 // the collection is private
			if reads == 200 {
				public = 200
			}
			if role == "owner" && (name == "locked" || name == "limited" || name == "ended") {
				public = 404 // the owner sees there what visitors see
			}
			try("GET", "/v/board/"+id, "", public)
			try("GET", "/x/board/"+id, "", public)
			if member { // at its own address a member is a visitor
				is.Equal(h.As(role, "GET", "/v/hidden-slug-"+name, "").Status, map[string]int{
					"private": 404, "public": 200, "locked": 401, "limited": 200, "ended": 200, "trashed": 404,
				}[name])
			}
		}
		if role != "owner" {
			try := h.As(role, "GET", "/api/v1/notes/"+other, "")
			is.True(try.Status == 404 || try.Status == 401)
		}
	}
	is.Equal(h.Get("/api/v1/collections/"+h.collection).At("data.views"), 0.0) // people of the house are no visitors

	for _, role := range []string{"see", "add", "edit"} {
		h.As("owner", "DELETE", "/api/v1/collections/"+h.collection+"/members/"+h.ids[role], "").Want(200)
		h.As(role, "GET", "/api/v1/collections/"+h.collection, "").Want(404)
		h.As(role, "GET", "/api/v1/notes/"+items["private"], "").Want(404)
		h.As(role, "GET", "/v/board", "").Want(404)
		h.As(role, "GET", "/x/board.zip", "").Want(404)
		h.As(role, "GET", "/x/board/"+items["private"], "").Want(404)
	}
}

// Members add what is theirs, take it out again, and leave with it.
func TestMembersAdd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHousehold(t)
	at := "/api/v1/collections/" + h.collection
	note := func(role string) string {
		return h.As(role, "POST", "/api/v1/notes", `{"title":"of `+role+`","content":"x"}`).Want(201).Text("data.id")
	}
	own, added := note("owner"), note("add")
	h.As("owner", "POST", at+"/items", `{"add":["`+own+`"]}`).Want(200)
	is.Equal(h.As("see", "POST", at+"/items", `{"add":["`+note("see")+`"]}`).Want(403).Code(), "not_owner")
	h.As("add", "POST", at+"/items", `{"add":["`+added+`"]}`).Want(200)
	h.As("add", "POST", at+"/items", `{"add":["`+note("owner")+`"]}`).Want(422) // another's
	is.Equal(h.As("add", "POST", at+"/items", `{"remove":["`+own+`"]}`).Want(403).Code(), "not_owner")
	is.Equal(h.As("add", "PATCH", at+"/items/"+added, `{"before":"`+own+`"}`).Want(403).Code(), "not_owner")
	h.As("edit", "PATCH", at+"/items/"+added, `{"before":"`+own+`"}`).Want(200)
	is.Equal(h.As("see", "GET", at+"/items", "").Want(200).IDs(), []string{added, own})

	// The owner of the collection may change the words of what a member put in, and no more.
	got := h.As("owner", "GET", "/api/v1/notes/"+added, "").Want(200)
	is.Equal(got.Text("data.role"), "edit")
	is.Equal(got.Text("data.owner.name"), "person-add")
	is.Equal(got.At("data.slug"), nil)
	is.Equal(got.Text("data.url"), "https://kist.example.org/v/board/"+added)
	h.As("owner", "PATCH", "/api/v1/notes/"+added, `{"title":"changed"}`).Want(200)
	is.Equal(h.As("owner", "PATCH", "/api/v1/notes/"+added, `{"isPublic":true}`).Want(403).Code(), "not_owner")
	versions := h.As("add", "GET", "/api/v1/notes/"+added+"/versions", "").Want(200)
	is.True(strings.HasPrefix(versions.Text("data.0.by"), "ann · "))
	h.Get("/v/board/" + added).Want(200)
	h.NoErr(h.Server.Store.View(func(tx *kv.Tx) error {
		p, err := people.ActivityOf(tx, h.UserNamed("person-add").ID, nil, 50)
		is.True(slices.ContainsFunc(p.Rows, func(a people.Activity) bool { return a.Event == people.ItemEdited && a.By == "ann" }))
		return err
	}))

	// The export of an owner has no item of a member, and is whole.
	exported := h.Do(apitest.Request{Method: "GET", Path: "/api/v1/export", Raw: true}).Want(200).Body
	z, err := zip.NewReader(bytes.NewReader(exported), int64(len(exported)))
	is.NoErr(err)
	texts := ""
	for _, f := range z.File {
		r, err := f.Open()
		is.NoErr(err)
		text, err := io.ReadAll(r)
		is.NoErr(err)
		texts += string(text)
	}
	is.True(strings.Contains(texts, "of owner"))
	is.True(!strings.Contains(texts, `"changed"`))

	// Who may see a collection changes nothing of it by asking for nothing.
	before := h.Get(at).Text("data.updatedAt")
	h.As("see", "POST", at+"/items", `{}`).Want(200)
	h.As("see", "POST", at+"/items", `{"remove":["`+note("see")+`"]}`).Want(200)
	is.Equal(h.Get(at).Text("data.updatedAt"), before)

	// The order and the cover are an editor's, the name is the owner's. Addresses are their owner's.
	h.As("edit", "PATCH", at, `{"sort":"title"}`).Want(200)
	h.As("edit", "PATCH", at, `{"sort":"manual"}`).Want(200)
	is.Equal(h.As("edit", "PATCH", at, `{"title":"x"}`).Want(403).Code(), "not_owner")
	is.Equal(h.As("add", "PATCH", at, `{"sort":"title"}`).Want(403).Code(), "not_owner")
	page := h.As("owner", "POST", "/api/v1/bookmarks", `{"url":"https://example.org/","title":"page"}`).Want(201).Text("data.id")
	h.As("owner", "POST", at+"/items", `{"add":["`+page+`"]}`).Want(200)
	h.As("edit", "PATCH", "/api/v1/bookmarks/"+page, `{"title":"a page"}`).Want(200)
	h.As("edit", "PATCH", "/api/v1/bookmarks/"+page, `{"url":"https://example.com/"}`).Want(403)
	h.As("owner", "POST", at+"/items", `{"remove":["`+page+`"]}`).Want(200)

	// A collection that shows a tag takes nothing.
	live := h.Post("/api/v1/collections", map[string]any{"title": "Live", "source": map[string]any{"tag": h.tag("live")}}).
		Want(201).Text("data.id")
	h.As("owner", "PUT", "/api/v1/collections/"+live+"/members/"+h.ids["add"], `{"role":"add"}`).Want(200)
	is.Equal(h.As("add", "POST", "/api/v1/collections/"+live+"/items", `{"add":["`+added+`"]}`).Want(409).Code(), "live_collection")
	is.Equal(h.As("add", "GET", "/api/v1/collections/"+live, "").Want(200).At("data.source"), nil)

	h.As("add", "DELETE", at+"/members/"+h.ids["edit"], "").Want(403)
	h.As("add", "DELETE", at+"/members/"+h.ids["add"], "").Want(200)
	is.Equal(h.As("see", "GET", at+"/items", "").Want(200).IDs(), []string{own})
	h.As("owner", "GET", "/api/v1/notes/"+added, "").Want(404)
	h.As("add", "GET", "/api/v1/notes/"+added, "").Want(200)
}

// tag makes a tag by making a note with it.
func (h *household) tag(name string) string {
	h.Note("with the tag", `,"tags":["`+name+`"]`)
	return name
}

// Whom a collection is shared with: people that are there, and by its owner alone.
func TestSetMember(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHousehold(t)
	at := "/api/v1/collections/" + h.collection + "/members/"
	me := h.Get("/api/v1/me").Want(200).Text("data.id")
	h.As("owner", "PUT", at+me, `{"role":"see"}`).Want(422)
	h.As("owner", "PUT", at+"01890a5d-ac96-774b-bcce-b302099a8057", `{"role":"see"}`).Want(404)
	h.As("owner", "PUT", at+"nobody", `{"role":"see"}`).Want(404)
	h.As("owner", "PUT", at+h.ids["see"], `{"role":"owner"}`).Want(422)
	h.As("owner", "PUT", at+h.ids["see"], `{}`).Want(422)
	is.Equal(h.As("edit", "PUT", at+h.ids["nobody"], `{"role":"see"}`).Want(403).Code(), "not_owner")
	h.As("nobody", "PUT", at+h.ids["nobody"], `{"role":"see"}`).Want(404)
	h.As("owner", "PUT", at+h.ids["see"], `{"role":"edit"}`).Want(200)
	is.Equal(h.As("see", "GET", "/api/v1/collections/"+h.collection, "").Want(200).Text("data.role"), "edit")
	h.As("owner", "DELETE", at+h.ids["nobody"], "").Want(404)

	u := h.UserNamed("person-nobody")
	h.Disable(u)
	h.As("owner", "PUT", at+h.ids["nobody"], `{"role":"see"}`).Want(404)
	h.Disable(h.UserNamed("person-edit"))
	h.As("owner", "GET", "/api/v1/collections/"+h.collection, "").Want(200)
}

// A search finds what others share, and nothing that is their owner's alone: neither by link name, nor by tag or flag,
// nor by their absence. With the index and without it the answers are the same.
func TestSearchShared(t *testing.T) {
	t.Parallel()
	h := newHousehold(t)
	h.Patch("/api/v1/collections/"+h.collection, `{"slug":"savanna"}`).Want(200)
	shared := h.Note("zebra crossing", `,"slug":"giraffe-slug","tags":["elephant"],"isPublic":true,"isFavorite":true`)
	h.Note("zebra alone", ``)
	h.As("owner", "POST", "/api/v1/collections/"+h.collection+"/items", `{"add":["`+shared+`"]}`).Want(200)
	own := h.As("see", "POST", "/api/v1/notes", `{"content":"zebra of my own","tags":["elephant"]}`).Want(201).Text("data.id")
	check := func(t *testing.T) {
		t.Helper()
		for _, c := range []struct {
			query string
			want  []string
		}{
			{"q=zebra", []string{own}},
			{"q=zebra&from=others", []string{shared}},
			{"q=zebra&from=all", []string{own, shared}},
			{"q=zebr&from=others", []string{shared}},
			{"q=zebar&from=others", []string{shared}},
			{"q=giraffe&from=all", nil},
			{"q=giraf&from=others", nil},
			{"q=giraffa&from=others", nil},
			{"q=zebra+-giraffe&from=others", []string{shared}},
			{"q=zebra+-crossing&from=others", nil},
			{"q=elephant&from=all", []string{own}},
			{"q=zebra+-elephant&from=others", []string{shared}},
			{"q=zebra+tag:elephant&from=all", []string{own}},
			{"q=zebra+is:public&from=all", nil},
			{"q=zebra+-is:public&from=all", []string{own, shared}},
			{"q=zebra+is:favorite&from=others", nil},
			{"q=zebra+kind:note&from=others", []string{shared}},
			{"q=zebra+kind:file&from=others", nil},
			{"from=others", []string{shared, h.collection}},
			{"q=board", nil},
			{"q=board&from=all", []string{h.collection}},
			{"q=board+kind:collection&from=others", []string{h.collection}},
			{"q=savanna&from=others", nil}, // nor a collection by its link name
		} {
			got := h.As("see", "GET", "/api/v1/search?"+c.query, "").Want(200)
			is := is.New(t)
			is.Equal(strings.Join(got.IDs(), " "), strings.Join(c.want, " ")) // c.query
			is.Equal(got.At("total"), float64(len(c.want)))
			is.True(!strings.Contains(strings.ReplaceAll(string(got.Body), own, ""), "giraffe"))
			if slices.Equal(got.IDs(), []string{h.collection}) {
				is.Equal(got.Text("data.0.url"), "https://kist.example.org/v/savanna")
				is.Equal(got.Text("data.0.record.role"), "see")
			}
		}
	}
	check(t)
	end := h.Indexed()
	defer end()
	check(t)
	h.As("owner", "DELETE", "/api/v1/collections/"+h.collection+"/members/"+h.ids["see"], "").Want(200)
	is.New(t).Equal(h.As("see", "GET", "/api/v1/search?q=zebra&from=others", "").Want(200).At("total"), 0.0)
	is.New(t).Equal(h.As("see", "GET", "/api/v1/search?q=board&from=others", "").Want(200).At("total"), 0.0)
}

// Collections of others come before own ones, and pages of them are whole.
func TestListSharedCollections(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHousehold(t)
	var want []string
	for _, title := range []string{"A", "C", "B"} {
		id := h.Post("/api/v1/collections", map[string]any{"title": title}).Want(201).Text("data.id")
		h.As("owner", "PUT", "/api/v1/collections/"+id+"/members/"+h.ids["see"], `{"role":"see"}`).Want(200)
	}
	for _, title := range []string{"mine 1", "mine 2"} {
		h.As("see", "POST", "/api/v1/collections", `{"title":"`+title+`"}`).Want(201)
	}
	want = []string{"A", "B", "Board", "C", "mine 1", "mine 2"}
	for limit := 1; limit < 8; limit++ {
		var got []string
		next := ""
		for range 10 {
			page := h.As("see", "GET", "/api/v1/collections?from=all&sort=title&limit="+string(rune('0'+limit))+"&cursor="+next, "").Want(200)
			is.Equal(page.At("total"), 6.0)
			all, _ := page.At("data").([]any)
			for _, c := range all {
				got = append(got, c.(map[string]any)["title"].(string))
			}
			next, _ = page.At("nextCursor").(string)
			if next == "" {
				break
			}
		}
		is.Equal(got, want)
	}
	is.Equal(h.As("see", "GET", "/api/v1/collections?from=others&q=boa", "").Want(200).At("total"), 1.0)

	// A page goes on where it was, also when the last collection of the one before is no longer shared.
	for _, sort := range []string{"newest", "oldest", "updated", "title"} {
		at := "/api/v1/collections?from=all&limit=1&sort=" + sort
		first := h.As("see", "GET", at, "").Want(200)
		second := h.As("see", "GET", at+"&cursor="+first.Text("nextCursor"), "").Want(200)
		h.As("see", "DELETE", "/api/v1/collections/"+first.IDs()[0]+"/members/"+h.ids["see"], "").Want(200)
		is.Equal(h.As("see", "GET", at+"&cursor="+first.Text("nextCursor"), "").Want(200).IDs(), second.IDs())
	}
	h.As("see", "GET", "/api/v1/collections?from=all&cursor=others.x", "").Want(400)
	is.Equal(h.As("see", "GET", "/api/v1/collections?from=others&tag=x", "").Want(200).At("total"), 0.0)
	h.As("see", "GET", "/api/v1/collections?from=nobody", "").Want(400)
}

// The webhooks of an owner are told when a collection is shared and when a member adds to it, with the collection as the
// owner sees it. Those of a member are told nothing.
func TestWebhooksOfShared(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHousehold(t)
	h.RunDeliveries(t)
	address, got := h.Receiver(t, 200)
	hook := `{"url":"` + address + `","events":["collection.shared","collection.item_added"]}`
	h.As("owner", "POST", apitest.HooksAt, hook).Want(201)
	h.As("add", "POST", apitest.HooksAt, hook).Want(201)

	at := "/api/v1/collections/" + h.collection
	h.As("owner", "PUT", at+"/members/"+h.ids["nobody"], `{"role":"see"}`).Want(200)
	d := apitest.Next(t, got)
	is.Equal(d.Event, "collection.shared")
	is.Equal(d.Data(t)["id"], h.collection)
	h.As("owner", "PUT", at+"/members/"+h.ids["nobody"], `{"role":"edit"}`).Want(200) // another role is not news

	note := h.As("add", "POST", "/api/v1/notes", `{"content":"words","slug":"hidden-slug","tags":["hidden-tag"]}`).Want(201)
	h.As("add", "POST", at+"/items", `{"add":["`+note.Text("data.id")+`"]}`).Want(200)
	d = apitest.Next(t, got)
	is.Equal(d.Event, "collection.item_added")
	is.Equal(d.Data(t)["id"], h.collection)
	is.True(!strings.Contains(string(d.Body), "hidden-"))
	select {
	case d := <-got:
		t.Errorf("a second delivery of %s", d.Event)
	default:
	}
}

// A page of items goes on where it was when the last item of the one before has left meanwhile.
func TestItemsAfterOneLeft(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHousehold(t)
	at := "/api/v1/collections/" + h.collection + "/items"
	var all []string
	for _, role := range []string{"owner", "add", "owner", "owner"} {
		id := h.As(role, "POST", "/api/v1/notes", `{"content":"of `+role+`"}`).Want(201).Text("data.id")
		h.As(role, "POST", at, `{"add":["`+id+`"]}`).Want(200)
		all = append(all, id)
	}
	first := h.As("see", "GET", at+"?limit=2", "").Want(200)
	is.Equal(first.IDs(), all[:2])
	h.As("add", "DELETE", "/api/v1/collections/"+h.collection+"/members/"+h.ids["add"], "").Want(200)
	next := at + "?limit=2&cursor=" + first.Text("nextCursor")
	is.Equal(h.As("see", "GET", next, "").Want(200).IDs(), all[2:])
	h.As("owner", "DELETE", "/api/v1/collections/"+h.collection+"/members/"+h.ids["see"], "").Want(200)
	h.As("see", "GET", next, "").Want(404)
}
