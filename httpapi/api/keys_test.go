package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// TestScopes sends every operation with keys of every scope. A scope that is
// missing is never a 401: clients erase their key on that.
func TestScopes(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	fill := strings.NewReplacer("{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
	scopes := []people.Scope{people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAll, people.ScopeAdmin}
	keys := map[string]string{}
	for _, s := range scopes {
		keys["ann "+string(s)], keys["bob "+string(s)] = a.AddKey(a.User, s), a.AddKey(bob, s)
	}
	for _, r := range a.Server.Routes() {
		if !strings.HasPrefix(r.Path, "/api/v1/") || r.Access.Open || r.Access.Browser {
			continue
		}
		if r.ID == "revokeDevice" { // takes a device's own key alone: see TestDeviceRevoke
			continue
		}
		q := apitest.Request{Method: r.Method, Path: fill.Replace(r.Path), Raw: true}
		if r.Body != nil && r.Body.Media == web.JSONType {
			q.JSON = "{}"
		}
		allowed := map[string]bool{"ann admin": true}
		switch {
		case r.Path == "/api/v1/keys/current": // any key
			for name := range keys {
				allowed[name] = true
			}
		case strings.HasPrefix(r.Path, "/api/v1/admin/"), strings.HasPrefix(r.Path, "/api/v1/keys"), r.Path == "/api/v1/setups", r.Path == "/api/v1/activity", strings.HasPrefix(r.Path, "/api/v1/me/sessions"), strings.HasPrefix(r.Path, "/api/v1/me/identities"):
		case r.Path == "/api/v1/remote-upload" && r.Method == "GET": // a key check
			for name := range keys {
				allowed[name] = true
			}
		case r.ID == "createWebhook", r.ID == "editWebhook", // or read and write together: see TestWebhookScopes
			r.Path == "/api/v1/export", strings.HasPrefix(r.Path, "/api/v1/import"), // everything that there is
			strings.HasPrefix(r.Path, "/api/v1/trash") && r.Method == "DELETE":
			allowed = map[string]bool{"ann admin": true, "bob admin": true, "ann all": true, "bob all": true}
		case r.Method == "GET" && r.Path != "/api/v1/tus/{id}" && r.Path != "/api/v1/remote-upload/{id}":
			allowed = map[string]bool{
				"ann admin": true, "bob admin": true, "ann all": true, "bob all": true, "ann read": true, "bob read": true,
			}
		case r.Path == "/api/v1/upload", r.Path == "/api/v1/upload/{name}", strings.HasPrefix(r.Path, "/api/v1/tus"), strings.HasPrefix(r.Path, "/api/v1/remote-upload") && (r.Method != "DELETE" || r.Path != "/api/v1/remote-upload"):
			allowed = map[string]bool{
				"ann admin": true, "bob admin": true, "ann all": true, "bob all": true, "ann write": true, "bob write": true, "ann upload": true, "bob upload": true,
			}
		default:
			allowed = map[string]bool{
				"ann admin": true, "bob admin": true, "ann all": true, "bob all": true, "ann write": true, "bob write": true,
			}
		}
		for name, key := range keys {
			q.Key = key
			got := a.Do(q)
			if allowed[name] {
				is.True(got.Status != 401 && got.Status != 403) // the scope suffices
				continue
			}
			is.Equal(got.Status, 403)
			is.True(slices.Contains([]string{"scope_missing", "not_admin"}, got.Text("code")))
		}
		q.Key, q.Anyone = "", true
		is.Equal(a.Do(q).Text("code"), "no_credential")
		q.Key = "kist_unknown"
		is.Equal(a.Do(q).Text("code"), "unknown_key")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Post(
		"/api/v1/keys", `{"name":"  my\tlaptop ","scopes":["read","upload"],"expiresAt":"2099-01-01T00:00:00Z"}`,
	).Want(201)
	secret, id := made.Text("key"), made.Text("data.id")
	is.True(strings.HasPrefix(secret, "kist_") && len(secret) == 48)
	is.Equal(made.Text("data.name"), "my laptop")
	is.Equal(fmt.Sprint(made.At("data.scopes")), "[read upload]")
	is.Equal(made.Text("data.expiresAt"), "2099-01-01T00:00:00.000Z")
	is.Equal(made.At("data.lastUsedAt"), nil)
	is.Equal(made.At("data.disabled"), false)

	// The secret is shown this once.
	for _, got := range []*apitest.Answer{
		a.Get("/api/v1/keys").Want(200), a.Patch("/api/v1/keys/"+id, `{"name":"other"}`).Want(200), a.Get("/api/v1/me"), a.Get("/api/v1/admin/users"),
	} {
		is.True(!strings.Contains(string(got.Body), secret) && !strings.Contains(string(got.Body), secret[5:]))
	}
	is.True(!strings.Contains(a.Logged.String(), secret))

	k := a.As(secret)
	k.Get("/api/v1/notes").Want(200)
	k.Post("/api/v1/notes", `{"content":"x"}`).Want(403)
	k.Upload(nil, apitest.File("a.txt", "", "x")).Want(201)

	a.Patch("/api/v1/keys/"+id, `{"disabled":true}`).Want(200)
	is.Equal(k.Get("/api/v1/notes").Want(401).Text("code"), "key_disabled")
	is.Equal(a.Patch("/api/v1/keys/"+id, `{"disabled":false}`).Want(200).Text("data.name"), "other")
	k.Get("/api/v1/notes").Want(200)
	// What a key may do is set for good when it is made.
	a.Patch("/api/v1/keys/"+id, `{"scopes":["admin"],"expiresAt":null}`).Want(200)
	k.Post("/api/v1/notes", `{"content":"x"}`).Want(403)

	a.Delete("/api/v1/keys/" + id).Want(200)
	is.Equal(k.Get("/api/v1/notes").Want(401).Text("code"), "unknown_key")
	a.Delete("/api/v1/keys/" + id).Want(404)
	a.Patch("/api/v1/keys/"+id, `{"name":"x"}`).Want(404)

	is.Equal(fmt.Sprint(a.Post("/api/v1/keys", `{"name":"n"}`).Want(201).At("data.scopes")), "[all]")
	for body, field := range map[string]string{
		`{}`: "name", `{"name":""}`: "name", `{"name":" "}`: "name", `{"name":null}`: "name", `{"name":"` + chars(513) + `"}`: "name", `{"name":"a\u0000"}`: "name",
		`{"name":"n","scopes":[]}`: "scopes", `{"name":"n","scopes":["root"]}`: "scopes", `{"name":"n","scopes":["all","read","write","upload","admin","all"]}`: "scopes",
		`{"name":"n","scopes":"` + chars(1) + `"}`: "scopes", `{"name":"n","expiresAt":"2001-01-01T00:00:00Z"}`: "expiresAt", `{"name":"n","expiresAt":"x"}`: "expiresAt",
	} {
		is.Equal(a.Post("/api/v1/keys", body).Want(422).Fields(), []string{field})
	}
	is.Equal(a.Get("/api/v1/keys").At("total"), 2.0)
}

func TestKeyExpiry(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := a.Clock.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	made := a.Post("/api/v1/keys", map[string]any{"name": "n", "expiresAt": at}).Want(201)
	k := a.As(made.Text("key"))
	k.Get("/api/v1/notes").Want(200)
	a.Clock.Advance(time.Hour)
	is.Equal(k.Get("/api/v1/notes").Want(401).Text("code"), "key_expired")
	a.Get("/api/v1/notes").Want(200)
}

// TestOthers sends one user's ids and slugs with another's key: every answer
// is that to an unknown one.
func TestOthers(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	bob := a.As(a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll))
	eve := a.As(a.AddKey(a.AddUser("eve", people.Admin), people.ScopeAdmin))
	const unknown = "01890a5d-ac96-774b-bcce-b302099a8057"
	type item struct{ path, id, unknown string }
	var items []item
	for k, body := range apitest.Whole {
		create := apitest.Parse(t, body)
		create["isPublic"], create["tags"] = true, []any{"mine"}
		made := a.Post("/api/v1/"+k.Path, create).Want(201)
		items = append(items, item{k.Path, made.Text("data.id"), unknown}, item{k.Path, made.Text("data.slug"), "unknown"})
	}
	up := a.Upload(map[string]string{"folderName": "Mine", "isPublic": "true"}, apitest.File("a.txt", "", "x")).Want(201)
	items = append(items, item{"files", up.Text("id"), unknown}, item{"files", up.Text("slug"), "unknown"})
	tag, folder := a.Get("/api/v1/tags").Text("0.id"), up.Text("folder.id")
	items = append(items, item{"tags", tag, unknown}, item{"folders", folder, unknown})
	before := a.State()
	same := func(x, y *apitest.Answer) {
		t.Helper()
		is.Equal(x.Status, y.Status)
		strip := func(g *apitest.Answer) string {
			return strings.ReplaceAll(string(g.Body), g.Header.Get("X-Request-Id"), "")
		}
		is.Equal(strip(x), strip(y))
		for _, name := range []string{"Content-Length", "Content-Type", "Cache-Control"} {
			is.Equal(x.Header.Get(name), y.Header.Get(name))
		}
	}
	for _, other := range []*apitest.App{bob, eve} {
		for _, it := range items {
			try := func(method, after string, body any) {
				t.Helper()
				of := func(id string) *apitest.Answer {
					return other.Do(apitest.Request{Method: method, Path: "/api/v1/" + it.path + "/" + id + after, JSON: body})
				}
				x := of(it.id).Want(404)
				same(x, of(it.unknown))
				same(x, of(strings.ToUpper(it.id)))
			}
			if it.path == "tags" {
				try("POST", "/merge", `{"into":"01890a5d-ac96-774b-bcce-b302099a8058"}`)
			} else if it.path != "folders" {
				try("GET", "", nil)
			}
			try("PATCH", "", `{}`)
			try("DELETE", "", nil)
		}
		// Nor can they be named in a body or a query.
		own := other.Made("/api/v1/tags", `{"name":"own"}`)
		id := other.Upload(nil, apitest.File("b.txt", "", "y")).Want(201).Text("id")
		same(
			other.Post("/api/v1/tags/"+own+"/merge", `{"into":"`+tag+`"}`).Want(422),
			other.Post("/api/v1/tags/"+own+"/merge", `{"into":"`+unknown+`"}`),
		)
		for _, name := range []string{"folderId", "addTagIds"} {
			var mine, none any = folder, unknown
			if name == "addTagIds" {
				mine, none = []any{tag}, []any{unknown}
			}
			same(
				other.Patch("/api/v1/files/"+id, map[string]any{name: mine}).Want(422),
				other.Patch("/api/v1/files/"+id, map[string]any{name: none}),
			)
		}
		same(other.Get("/api/v1/files?folder="+folder).Want(200), other.Get("/api/v1/files?folder="+unknown))
		same(other.Get("/api/v1/notes?tag=mine").Want(200), other.Get("/api/v1/notes?tag=none"))
		for k := range apitest.Whole {
			is.Equal(other.Get("/api/v1/"+k.Path).At("total"), 0.0)
		}
		is.Equal(other.Get("/api/v1/files").IDs(), []string{id})
		is.Equal(other.Tags(), []string{"own"})
		is.Equal(other.Get("/api/v1/folders").At("total"), 0.0)
	}
	is.Equal(a.State(), before)
	// An administrator's keys are not another administrator's.
	key := a.Made("/api/v1/keys", `{"name":"n"}`)
	same(eve.Patch("/api/v1/keys/"+key, `{}`).Want(404), eve.Patch("/api/v1/keys/"+unknown, `{}`))
	same(eve.Delete("/api/v1/keys/"+key).Want(404), eve.Delete("/api/v1/keys/"+unknown))
	// The same slug of another kind is not that kind's.
	note := a.Post("/api/v1/notes", `{"content":"x","slug":"just-a-note"}`).Want(201).Text("data.id")
	for _, k := range record.Kinds {
		if k != record.Notes {
			a.Get("/api/v1/" + k.Path + "/just-a-note").Want(404)
			a.Get("/api/v1/" + k.Path + "/" + note).Want(404)
			a.Delete("/api/v1/" + k.Path + "/just-a-note").Want(404)
		}
	}
	a.Get("/api/v1/notes/just-a-note").Want(200)
	a.Get("/api/v1/notes/" + strings.ToUpper(note)).Want(200)
}
