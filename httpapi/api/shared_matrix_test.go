package api_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// itemStates are the states of the items of the matrix, as members of a new record. One is put in by a member.
var itemStates = map[string]string{
	"private": ``, "public": `,"isPublic":true`, "locked": `,"isPublic":true,"password":"pass word"`,
	"limited": `,"isPublic":true,"maxViews":3`, "ended": `,"isPublic":true,"expiresAt":"2999-01-01T00:00:00Z"`,
	"trashed": ``, "member's": ``,
}

// elsewhere are the beginnings of addresses with arguments that name neither an item nor a collection of this matrix.
var elsewhere = []string{
	"/healthz/", "/static/", "/claim/", "/login/", "/g/", "/up/", "/share/", "/help/", "/join/",
	"/api/v1/admin/", "/api/v1/keys/", "/api/v1/me/", "/api/v1/folders/", "/api/v1/import/", "/api/v1/integrations/",
	"/api/v1/tags/", "/api/v1/tus/", "/api/v1/upload-requests/", "/api/v1/upload/", "/api/v1/remote-upload/",
}

// matrixItem is an item of the matrix.
type matrixItem struct {
	kind            *record.Kind
	state, id, slug string
}

// text is a member of the item's words, as a change by a caller.
func (x *matrixItem) text(caller string) string {
	words := record.Words(x.kind)
	for _, name := range []string{"description", "content", "title", "notes"} {
		if slices.Contains(words, name) {
			return `{"` + name + `":"words by ` + caller + `"}`
		}
	}
	return `{}`
}

// matrixItems makes an item of each kind in each state, and puts it into the collection. What is its owner's alone
// begins with hidden-.
func (h *household) matrixItems() (all []*matrixItem) {
	for _, k := range record.Kinds {
		if k == record.Collections {
			continue
		}
		for _, state := range slices.Sorted(maps.Keys(itemStates)) {
			x := &matrixItem{kind: k, state: state, slug: strings.ReplaceAll("hidden-"+k.Name+"-"+state, "'", "")}
			owner := "owner"
			if state == "member's" {
				owner = "add"
			}
			rest := `"slug":"` + x.slug + `","tags":["hidden-tag"],"isFavorite":true` + itemStates[state] + `}`
			if k == record.Links {
				rest = strings.Replace(rest, "maxViews", "maxClicks", 1)
			}
			if k == record.Files {
				q := h.UploadRequest(map[string]string{"folderName": "hidden-folder"}, apitest.File("a.txt", "text/plain", "words"))
				q.Key = h.keys[owner]
				x.id = h.Do(q).Want(201).Text("id")
				h.As(owner, "PATCH", "/api/v1/files/"+x.id, "{"+rest).Want(200)
			} else {
				x.id = h.As(owner, "POST", web.APIPath+k.Path, map[*record.Kind]string{
					record.Bookmarks: `{"url":"https://example.org/",`, record.Links: `{"originalUrl":"https://example.org/",`,
					record.Games: `{"title":"words",`, record.Recipes: `{"title":"words",`,
					record.Notes: `{"content":"words",`, record.Snippets: `{"content":"words",`,
				}[k]+rest).Want(201).Text("data.id")
			}
			h.As(owner, "POST", "/api/v1/collections/"+h.collection+"/items", `{"add":["`+x.id+`"]}`).Want(200)
			if state == "trashed" {
				h.As(owner, "DELETE", web.APIPath+k.Path+"/"+x.id, "").Want(200)
			}
			all = append(all, x)
		}
	}
	return all
}

// level is the highest role by which a caller reaches the item: "" if not at all.
func (x *matrixItem) level(caller string) record.Role {
	switch {
	case x.state == "trashed":
		return ""
	case caller == "owner" && x.state == "member's":
		return record.RoleEdit
	case caller == "owner", caller == "add" && x.state == "member's":
		return record.RoleOwner
	case caller == "write":
		return record.RoleEdit
	case slices.Contains(record.MemberRoles, record.Role(caller)):
		return record.Role(caller)
	}
	return ""
}

// due is what an operation of an item answers to a caller: 0 for anything that does not refuse. rest is the path after
// the id.
func (x *matrixItem) due(method, rest, caller string) int {
	level := x.level(caller)
	if strings.Contains(rest, "/versions/") && level == record.RoleOwner {
		return 404 // there is none
	}
	reads, words := method == "GET" && rest == "", method == "PATCH" || rest == "/ticks"
	switch {
	case caller == "":
		return 401
	case caller == "write" && method == "GET":
		return 403 // the key may not read
	case level == "":
		return 404
	case level == record.RoleOwner, reads, words && level.Edits():
		return 0
	}
	return 403
}

// kept are the rows that a refused request leaves as they are.
func (h *household) kept() map[string]string {
	var all map[string]string
	h.NoErr(h.Server.Store.View(func(tx *kv.Tx) error { all = kvtest.Dump(tx); return nil }))
	maps.DeleteFunc(all, func(name, _ string) bool {
		bucket, _, _ := strings.Cut(name, " ")
		return !slices.ContainsFunc([]string{
			"record", "member", "folder", "tag", "trash", "version", "blob", "notice", "user", "page",
		}, func(kept string) bool { return strings.HasPrefix(bucket, kept) })
	})
	return all
}

// Every operation that takes an item or a collection, as every caller, with items in every state. The operations are
// those of the server, so that a new one is tried as well. What is refused changes nothing, and no answer to anybody
// else has what is the owner's alone.
func TestEveryOperationOfShared(t *testing.T) {
	t.Parallel()
	h := newHousehold(t)
	edit := h.UserNamed("person-edit")
	h.keys["write"] = h.AddKey(edit, people.ScopeWrite)
	former := h.AddUser("person-former", people.Member)
	h.keys["former"] = h.AddKey(former, people.ScopeAll)
	at := "/api/v1/collections/" + h.collection
	h.As("owner", "PUT", at+"/members/"+former.ID.String(), `{"role":"edit"}`).Want(200)
	items := h.matrixItems()
	h.As("former", "DELETE", at+"/members/"+former.ID.String(), "").Want(200)
	inside := func(caller string) bool { return caller != "" && caller != "nobody" && caller != "former" }
	callers := slices.Sorted(maps.Keys(h.keys))

	type attempt struct {
		caller, method, path, body string
		want                       int
		item                       *matrixItem
		changes                    bool
	}
	var attempts []attempt
	try := func(a attempt) { attempts = append(attempts, a) }
	tried := 0
	for _, r := range h.Server.Routes() {
		if !strings.Contains(r.Path, "{") || r.Method == "OPTIONS" {
			continue
		}
		tried++
		for _, caller := range callers {
			asOwner := caller == "owner"
			switch {
			case strings.HasPrefix(r.Path, "/api/v1/trash/"):
				for _, x := range items {
					if !asOwner && caller != "add" { // each a member's own trash
						want := 404
						switch caller {
						case "":
							want = 401
						case "write":
							want = 403 // the key may not delete
						}
						try(attempt{caller: caller, method: r.Method, path: "/api/v1/trash/" + x.id, want: want})
					}
				}
			case strings.HasPrefix(r.Path, "/api/v1/collections/{id}"):
				rest := strings.TrimPrefix(r.Path, "/api/v1/collections/{id}")
				x := items[0]
				bodies := map[string]string{
					"PATCH": `{"title":"x"}`, "PATCH/items/{itemId}": `{"before":null}`, "POST/items": `{"remove":["` + x.id + `"]}`,
					"PUT/members/{userId}": `{"role":"see"}`,
				}
				a := attempt{caller: caller, method: r.Method, body: bodies[r.Method+rest], want: 403}
				a.path = at + strings.NewReplacer("{itemId}", x.id, "{userId}", h.ids["see"]).Replace(rest)
				switch {
				case asOwner:
					continue // may do all of it
				case caller == "":
					a.want = 401
				case caller == "write" && r.Method == "GET":
				case !inside(caller):
					a.want = 404
				case r.Method == "GET" && rest != "/visits":
					a.want = 0
				case strings.HasPrefix(rest, "/items") && (caller == "edit" || caller == "write"):
					a.want = 0
					if r.Method != "GET" {
						continue // arranges, and takes the item out
					}
				case r.Method == "DELETE" && strings.HasPrefix(rest, "/members") && caller == "see":
					continue // leaves
				}
				try(a)
			case r.Method == "POST" && r.Path == "/v/{slug}": // a form with a password
			case strings.HasPrefix(r.Path, "/api/v1/") && strings.Contains(r.Path, "/p/{slug}"), r.Path == "/{slug}",
				r.Path == "/x/{slug}", r.Path == "/v/{slug}", r.Path == "/s/{slug}", r.Path == "/t/{slug}":
				for _, x := range items { // at its own address a member is a visitor
					if x.state == "private" && x.level(caller) != record.RoleOwner &&
						(!strings.HasPrefix(r.Path, "/api/") || strings.HasPrefix(r.Path, web.APIPath+x.kind.Path+"/")) {
						try(attempt{caller: caller, method: r.Method, path: strings.Replace(r.Path, "{slug}", x.slug, 1), want: 404})
					}
				}
			case strings.HasSuffix(r.Path, "/{slug}/{item}"):
				for _, x := range items {
					want := 404
					if inside(caller) && caller != "write" && x.level(caller) != "" {
						want = 0
					}
					if asOwner && (x.state == "locked" || x.state == "limited" || x.state == "ended") {
						want = 404 // the owner sees there what visitors see
					}
					try(attempt{
						caller: caller, method: r.Method, want: want,
						path: strings.NewReplacer("{slug}", "board", "{item}", x.id).Replace(r.Path),
					})
				}
			case slices.ContainsFunc(elsewhere, func(at string) bool { return strings.HasPrefix(r.Path, at) }):
			case !strings.HasPrefix(r.Path, "/api/"): // a page of the app
				for _, x := range items {
					if x.state == "private" {
						try(attempt{caller: caller, method: r.Method, path: r.Path[:strings.Index(r.Path, "{")] + x.id})
					}
				}
			default:
				known := false
				for _, x := range items {
					rest, of := strings.CutPrefix(r.Path, web.APIPath+x.kind.Path+"/{id}")
					if x.kind == record.Files {
						rest, of = strings.CutPrefix(r.Path, web.APIPath+"files/{slug}")
					}
					if !of {
						continue
					}
					known = true
					rest = strings.Replace(rest, "{version}", "01890a5d-ac96-774b-bcce-b302099a8057", 1)
					a := attempt{
						caller: caller, method: r.Method, path: web.APIPath + x.kind.Path + "/" + x.id + rest,
						want: x.due(r.Method, rest, caller), item: x,
					}
					switch {
					case a.want == 0 && r.Method != "GET" && (r.Method != "PATCH" || x.level(caller) == record.RoleOwner):
						continue // owners may do all of it
					case r.Method == "PATCH":
						a.body, a.changes = x.text(caller), a.want == 0
					case rest == "/ticks":
						a.body = `{"line":1,"text":"none","done":true}`
					case r.Method != "GET" && r.Method != "DELETE":
						a.body = "{}"
					}
					try(a)
					if r.Method == "PATCH" && a.want != 0 || x.level(caller) == record.RoleEdit && r.Method == "PATCH" {
						want := a.want
						if want == 0 {
							want = 403
						}
						for _, set := range []string{
							`"slug":"hidden-other"`, `"isPublic":true`, `"password":null`, `"maxViews":null`, `"expiresAt":null`,
							`"tags":[]`, `"addTags":["x"]`, `"isFavorite":false`, `"logVisits":true`,
						} {
							try(attempt{caller: caller, method: r.Method, path: a.path, want: want, body: `{` + set + `}`, item: x})
						}
					}
				}
				if !known {
					t.Fatalf("%s %s has an argument that the matrix does not know", r.Method, r.Path)
				}
			}
		}
	}
	var ids []string
	for _, x := range items {
		ids = append(ids, x.id)
	}
	all := `["` + strings.Join(ids, `","`) + `"]`
	for _, caller := range callers {
		if caller == "" || caller == "owner" || caller == "add" {
			continue
		}
		for _, do := range []string{
			`"action":"trash"`, `"action":"restore"`, `"set":{"isPublic":true}`, `"set":{"addTags":["x"]}`,
		} {
			try(attempt{caller: caller, method: "POST", path: "/api/v1/bulk", body: `{"ids":` + all + `,` + do + `}`})
		}
		try(attempt{caller: caller, method: "POST", path: "/api/v1/trash/restore", body: `{"ids":` + all + `}`})
		try(attempt{caller: caller, method: "GET", path: "/api/v1/search?from=all"})
		try(attempt{caller: caller, method: "GET", path: "/api/v1/export"})
	}

	is := is.New(t)
	before := h.kept()
	send := func(n int, a attempt) {
		q := apitest.Request{
			Method: a.method, Path: a.path, Key: h.keys[a.caller], Anyone: a.caller == "", Raw: true,
			Header: apitest.WithHeader("X-Real-Ip", fmt.Sprintf("10.%d.%d.1", n/250, n%250)),
		}
		if a.body != "" {
			q.JSON = a.body
		}
		got := h.Do(q)
		refused := got.Status == 401 || got.Status == 403 || got.Status == 404
		wrong := got.Status >= 500 || got.Status == 429
		if a.want == 0 {
			wrong = wrong || refused && a.item != nil
		} else {
			wrong = wrong || got.Status != a.want
		}
		if wrong {
			t.Errorf("%s: %s %s %s answers %d, want %d: %.300s",
				a.caller, a.method, a.path, a.body, got.Status, a.want, got.Body)
		}
		told := strings.Contains(strings.ReplaceAll(string(got.Body), a.path, ""), "hidden-")
		if told && a.caller != "owner" && a.caller != "add" {
			t.Errorf("%s: %s %s tells what is the owner's alone: %.500s", a.caller, a.method, a.path, got.Body)
		}
	}
	for n, a := range attempts {
		if !a.changes {
			send(n, a)
		}
	}
	after := h.kept()
	for name, row := range before {
		if after[name] != row {
			t.Errorf("something that was refused changed %s", name)
		}
	}
	is.Equal(len(after), len(before))
	for n, a := range attempts {
		if !a.changes {
			continue
		}
		send(n, a)
		owner := "owner"
		if a.item.state == "member's" {
			owner = "add"
		}
		got := h.As(owner, "GET", web.APIPath+a.item.kind.Path+"/"+a.item.id, "").Want(200)
		if !strings.Contains(string(got.Body), "words by "+a.caller) {
			t.Errorf("%s: %s %s changed nothing: %s", a.caller, a.path, a.body, got.Body)
		}
	}
	t.Logf("%d operations with arguments, %d requests", tried, len(attempts))
}
