package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// TestScopes sends every operation with keys of every scope. A scope that is
// missing is never a 401: clients erase their key on that.
func TestScopes(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	bob := a.addUser("bob", people.Member)
	fill := strings.NewReplacer("{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
	scopes := []people.Scope{people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAll, people.ScopeAdmin}
	keys := map[string]string{}
	for _, s := range scopes {
		keys["ann "+string(s)], keys["bob "+string(s)] = a.addKey(a.user, s), a.addKey(bob, s)
	}
	for _, r := range a.server.Routes() {
		if !strings.HasPrefix(r.Path, "/api/v1/") || r.Access.Open || r.Access.Browser {
			continue
		}
		if r.ID == "revokeDevice" { // takes a device's own key alone: see TestDeviceRevoke
			continue
		}
		q := apiRequest{method: r.Method, path: fill.Replace(r.Path), raw: true}
		if r.Body != nil && r.Body.Media == web.JSONType {
			q.json = "{}"
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
			allowed = map[string]bool{"ann admin": true, "bob admin": true, "ann all": true, "bob all": true, "ann read": true, "bob read": true}
		case r.Path == "/api/v1/upload", strings.HasPrefix(r.Path, "/api/v1/tus"), strings.HasPrefix(r.Path, "/api/v1/remote-upload") && (r.Method != "DELETE" || r.Path != "/api/v1/remote-upload"):
			allowed = map[string]bool{
				"ann admin": true, "bob admin": true, "ann all": true, "bob all": true, "ann write": true, "bob write": true, "ann upload": true, "bob upload": true,
			}
		default:
			allowed = map[string]bool{"ann admin": true, "bob admin": true, "ann all": true, "bob all": true, "ann write": true, "bob write": true}
		}
		for name, key := range keys {
			q.key = key
			got := a.do(q)
			if allowed[name] {
				is.True(got.status != 401 && got.status != 403) // the scope suffices
				continue
			}
			is.Equal(got.status, 403)
			is.True(slices.Contains([]string{"scope_missing", "not_admin"}, got.text("code")))
		}
		q.key, q.anyone = "", true
		is.Equal(a.do(q).text("code"), "no_credential")
		q.key = "kist_unknown"
		is.Equal(a.do(q).text("code"), "unknown_key")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	made := a.post("/api/v1/keys", `{"name":"  my\tlaptop ","scopes":["read","upload"],"expiresAt":"2099-01-01T00:00:00Z"}`).want(201)
	secret, id := made.text("key"), made.text("data.id")
	is.True(strings.HasPrefix(secret, "kist_") && len(secret) == 48)
	is.Equal(made.text("data.name"), "my laptop")
	is.Equal(fmt.Sprint(made.at("data.scopes")), "[read upload]")
	is.Equal(made.text("data.expiresAt"), "2099-01-01T00:00:00.000Z")
	is.Equal(made.at("data.lastUsedAt"), nil)
	is.Equal(made.at("data.disabled"), false)

	// The secret is shown this once.
	for _, got := range []*answer{
		a.get("/api/v1/keys").want(200), a.patch("/api/v1/keys/"+id, `{"name":"other"}`).want(200), a.get("/api/v1/me"), a.get("/api/v1/admin/users"),
	} {
		is.True(!strings.Contains(string(got.body), secret) && !strings.Contains(string(got.body), secret[5:]))
	}
	is.True(!strings.Contains(a.log.String(), secret))

	k := a.as(secret)
	k.get("/api/v1/notes").want(200)
	k.post("/api/v1/notes", `{"content":"x"}`).want(403)
	k.upload(nil, file{"a.txt", "", "x"}).want(201)

	a.patch("/api/v1/keys/"+id, `{"disabled":true}`).want(200)
	is.Equal(k.get("/api/v1/notes").want(401).text("code"), "key_disabled")
	is.Equal(a.patch("/api/v1/keys/"+id, `{"disabled":false}`).want(200).text("data.name"), "other")
	k.get("/api/v1/notes").want(200)
	// What a key may do is set for good when it is made.
	a.patch("/api/v1/keys/"+id, `{"scopes":["admin"],"expiresAt":null}`).want(200)
	k.post("/api/v1/notes", `{"content":"x"}`).want(403)

	a.delete("/api/v1/keys/" + id).want(200)
	is.Equal(k.get("/api/v1/notes").want(401).text("code"), "unknown_key")
	a.delete("/api/v1/keys/" + id).want(404)
	a.patch("/api/v1/keys/"+id, `{"name":"x"}`).want(404)

	is.Equal(fmt.Sprint(a.post("/api/v1/keys", `{"name":"n"}`).want(201).at("data.scopes")), "[all]")
	for body, field := range map[string]string{
		`{}`: "name", `{"name":""}`: "name", `{"name":" "}`: "name", `{"name":null}`: "name", `{"name":"` + chars(513) + `"}`: "name", `{"name":"a\u0000"}`: "name",
		`{"name":"n","scopes":[]}`: "scopes", `{"name":"n","scopes":["root"]}`: "scopes", `{"name":"n","scopes":["all","read","write","upload","admin","all"]}`: "scopes",
		`{"name":"n","scopes":"` + chars(1) + `"}`: "scopes", `{"name":"n","expiresAt":"2001-01-01T00:00:00Z"}`: "expiresAt", `{"name":"n","expiresAt":"x"}`: "expiresAt",
	} {
		is.Equal(a.post("/api/v1/keys", body).want(422).fields(), []string{field})
	}
	is.Equal(a.get("/api/v1/keys").at("total"), 2.0)
}

func TestKeyExpiry(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := a.clock.now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	made := a.post("/api/v1/keys", map[string]any{"name": "n", "expiresAt": at}).want(201)
	k := a.as(made.text("key"))
	k.get("/api/v1/notes").want(200)
	a.clock.advance(time.Hour)
	is.Equal(k.get("/api/v1/notes").want(401).text("code"), "key_expired")
	a.get("/api/v1/notes").want(200)
}

// TestMe changes the own account. The password of the user is set by the
// administrator first.
func TestMe(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	id := a.made("/api/v1/admin/users", `{"username":"Bob","password":"first pass","role":"user"}`)
	bob := a.as(a.addKey(&people.User{ID: record.ID(mustID(t, id))}, people.ScopeAll))
	got := bob.get("/api/v1/me").want(200)
	is.Equal(got.text("data.username"), "Bob")
	is.Equal(got.at("data.quotaBytes"), nil)
	is.Equal(got.at("data.usedBytes"), 0.0)
	bob.upload(nil, file{"a.txt", "", "hello"}).want(201)
	kept := bob.get("/api/v1/me").want(200)
	is.True(kept.at("data.textBytes").(float64) > 0)
	is.Equal(kept.at("data.usedBytes"), 5+kept.at("data.textBytes").(float64))
	is.Equal(bob.get("/api/v1/me").at("data.counts.file"), 1.0)

	is.Equal(bob.patch("/api/v1/me", `{"displayName":"  Bob \t B. "}`).want(200).text("data.displayName"), "Bob B.")
	// Nothing else of an account is the user's to change.
	got = bob.do(apiRequest{method: "PATCH", path: "/api/v1/me", json: `{"role":"admin","quotaBytes":1,"username":"root","disabled":true,"apiTokensDisabled":true}`, raw: true}).want(200)
	is.Equal(got.text("data.role"), "user")
	is.Equal(got.text("data.username"), "Bob")
	is.Equal(got.text("data.displayName"), "Bob B.")
	is.Equal(got.at("data.disabled"), false)

	change := func(now, next string) *answer {
		return bob.patch("/api/v1/me", map[string]any{"currentPassword": now, "password": next})
	}
	is.Equal(change("wrong", "second pass").want(422).fields(), []string{"currentPassword"})
	is.Equal(bob.patch("/api/v1/me", `{"password":"second pass"}`).want(422).fields(), []string{"currentPassword"})
	is.Equal(change("first pass", "short").want(422).fields(), []string{"password"})
	is.Equal(change("first pass", "").want(422).fields(), []string{"password"})
	is.Equal(bob.patch("/api/v1/me", `{"currentPassword":"first pass","password":null}`).want(422).fields(), []string{"password"})
	change("first pass", "second pass").want(200)
	is.Equal(change("first pass", "third pass").want(422).fields(), []string{"currentPassword"})
	change("second pass", strings.Repeat("correct horse ba", 64)).want(200)
	is.Equal(bob.get("/api/v1/me").text("data.displayName"), "Bob B.")
	// Wrong ones cannot be tried without end.
	for change("wrong", "fourth pass").status != 429 {
		if strings.Count(a.log.String(), `"status":422`) > 40 {
			t.Fatal("wrong passwords are taken without end")
		}
	}
	is.True(change("wrong", "fourth pass").want(429).header.Get("Retry-After") != "")
}

func mustID(t *testing.T, text string) [16]byte {
	t.Helper()
	var id record.ID
	if err := id.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestUsers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	made := a.post("/api/v1/admin/users", `{"username":"Bob","password":"long enough","quotaBytes":10}`).want(201)
	id := made.text("data.id")
	is.Equal(made.text("data.role"), "user")
	is.Equal(made.at("data.quotaBytes"), 10.0)
	is.True(!strings.Contains(string(made.body), "password"))
	path := "/api/v1/admin/users/" + id
	is.Equal(a.get(path).want(200).object("data"), made.object("data"))
	is.Equal(a.get("/api/v1/admin/users").want(200).at("total"), 2.0)

	is.Equal(a.post("/api/v1/admin/users", `{"username":"bOB","password":"long enough"}`).want(409).text("code"), "username_taken")
	is.Equal(a.patch(path, `{"username":"ANN"}`).want(409).text("code"), "username_taken")
	is.Equal(a.patch(path, `{"username":"BOB"}`).want(200).text("data.username"), "BOB")
	for body, field := range map[string]string{
		`{"username":"x"}`: "password", `{"password":"long enough"}`: "username", `{"username":"","password":"long enough"}`: "username",
		`{"username":"` + strings.Repeat("u", 65) + `","password":"long enough"}`: "username", `{"username":"a b","password":"long enough"}`: "username",
		`{"username":"é","password":"long enough"}`: "username", `{"username":"x","password":"7 bytes"}`: "password", `{"username":"x","password":""}`: "password",
		`{"username":"x","password":"` + strings.Repeat("p", 1025) + `"}`: "password", `{"username":"x","password":"long enough","role":"root"}`: "role",
		`{"username":"x","password":"long enough","quotaBytes":-1}`: "quotaBytes", `{"username":"x","password":"long enough","quotaBytes":9007199254740993}`: "quotaBytes",
	} {
		is.Equal(a.post("/api/v1/admin/users", body).want(422).fields(), []string{field})
	}
	is.Equal(a.get("/api/v1/admin/users").want(200).at("total"), 2.0)
	for _, body := range []string{`{"role":null}`, `{"role":""}`, `{"disabled":null}`, `{"username":null}`, `{"username":" "}`, `{"password":null}`, `{"password":""}`, `{"quotaBytes":-1}`} {
		a.patch(path, body).want(422)
	}

	// A user, or their keys, are turned off from the next request on.
	bob := a.as(a.addKey(&people.User{ID: record.ID(mustID(t, id))}, people.ScopeAll))
	bob.get("/api/v1/me").want(200)
	a.patch(path, `{"apiTokensDisabled":true}`).want(200)
	is.Equal(bob.get("/api/v1/me").want(401).text("code"), "api_tokens_disabled")
	a.patch(path, `{"apiTokensDisabled":false,"disabled":true}`).want(200)
	is.Equal(bob.get("/api/v1/me").want(401).text("code"), "user_disabled")
	a.patch(path, `{"disabled":false}`).want(200)
	bob.get("/api/v1/me").want(200)

	// A quota holds from the next upload on; null is the instance's.
	bob.upload(nil, file{"a", "", "0123456789"}).want(201)
	is.Equal(bob.refused(bob.uploadRequest(nil, file{"b", "", "x"}), 403).text("code"), "quota_exceeded")
	a.patch(path, `{"quotaBytes":null}`).want(200)
	bob.upload(nil, file{"b", "", "x"}).want(201)
	a.patch("/api/v1/admin/settings", `{"defaultQuotaBytes":11}`).want(200)
	is.Equal(bob.get("/api/v1/me").at("data.quotaEffectiveBytes"), 11.0)
	bob.refused(bob.uploadRequest(nil, file{"c", "", "x"}), 403)
	a.patch(path, `{"quotaBytes":0}`).want(200)
	bob.upload(nil, file{"c", "", "x"}).want(201)

	stats := a.get("/api/v1/admin/stats").want(200)
	is.Equal(stats.at("data.users"), 2.0)
	is.Equal(stats.at("data.bytes"), 12.0)
	is.Equal(stats.at("data.counts.file"), 3.0)

	a.delete(path).want(200)
	is.Equal(bob.get("/api/v1/me").want(401).text("code"), "unknown_key")
	a.get(path).want(404)
	a.delete(path).want(404)
	is.Equal(a.get("/api/v1/admin/stats").at("data.bytes"), 0.0)
}

// TestLastAdministrator: there is always one who can act.
func TestLastAdministrator(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	me := "/api/v1/admin/users/" + a.user.ID.String()
	refused := func() {
		t.Helper()
		for _, body := range []string{`{"role":"user"}`, `{"disabled":true}`, `{"role":"user","displayName":"x"}`} {
			is.Equal(a.patch(me, body).want(409).text("code"), "last_admin")
		}
		is.Equal(a.delete(me).want(409).text("code"), "last_admin")
		is.Equal(a.get(me).want(200).text("data.displayName"), "")
		is.Equal(a.get(me).at("data.disabled"), false)
	}
	refused()
	a.addUser("bob", people.Member)
	other := a.addUser("eve", people.Admin)
	a.patch("/api/v1/admin/users/"+other.ID.String(), `{"disabled":true}`).want(200)
	refused()
	a.patch("/api/v1/admin/users/"+other.ID.String(), `{"disabled":false}`).want(200)
	a.patch(me, `{"role":"user"}`).want(200)
	is.Equal(a.get(me).want(403).text("code"), "not_admin") // at once
}

func TestSettings(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.get("/api/v1/admin/settings").want(200)
	is.Equal(got.at("data.apiTokensDisabled"), false)
	is.Equal(got.at("data.defaultQuotaBytes"), nil)
	is.Equal(got.at("data.maxUploadBytes"), nil)
	a.patch("/api/v1/admin/settings", `{"maxUploadBytes":4}`).want(200)
	is.Equal(a.get("/api/v1/admin/settings").at("data.maxUploadBytes"), 4.0)
	a.upload(nil, file{"a", "", "1234"}).want(201)
	a.refused(a.uploadRequest(nil, file{"a", "", "12345"}), 413)
	is.Equal(a.patch("/api/v1/admin/settings", `{"maxUploadBytes":null}`).want(200).at("data.maxUploadBytes"), nil)
	a.upload(nil, file{"a", "", "12345"}).want(201)
	for _, body := range []string{`{"maxUploadBytes":0}`, `{"maxUploadBytes":-1}`, `{"defaultQuotaBytes":"x"}`, `{"apiTokensDisabled":null}`, `{"apiTokensDisabled":"no"}`} {
		a.patch("/api/v1/admin/settings", body).want(422)
	}
	// Turned off for all, keys are refused from the next request on; nothing
	// that needs no key is.
	a.patch("/api/v1/admin/settings", `{"apiTokensDisabled":true}`).want(200)
	is.Equal(a.get("/api/v1/notes").want(401).text("code"), "api_tokens_disabled")
	is.Equal(a.get("/api/v1/admin/settings").want(401).text("code"), "api_tokens_disabled")
	a.visit("/api/v1/openapi").want(200)
	a.do(apiRequest{method: "GET", path: "/healthz", anyone: true, header: http.Header{}}).want(200)
}

// TestOthers sends one user's ids and slugs with another's key: every answer
// is that to an unknown one.
func TestOthers(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	bob := a.as(a.addKey(a.addUser("bob", people.Member), people.ScopeAll))
	eve := a.as(a.addKey(a.addUser("eve", people.Admin), people.ScopeAdmin))
	const unknown = "01890a5d-ac96-774b-bcce-b302099a8057"
	type item struct{ path, id, unknown string }
	var items []item
	for k, body := range whole {
		create := parse(t, body)
		create["isPublic"], create["tags"] = true, []any{"mine"}
		made := a.post("/api/v1/"+k.Path, create).want(201)
		items = append(items, item{k.Path, made.text("data.id"), unknown}, item{k.Path, made.text("data.slug"), "unknown"})
	}
	up := a.upload(map[string]string{"folderName": "Mine", "isPublic": "true"}, file{"a.txt", "", "x"}).want(201)
	items = append(items, item{"files", up.text("id"), unknown}, item{"files", up.text("slug"), "unknown"})
	tag, folder := a.get("/api/v1/tags").text("0.id"), up.text("folder.id")
	items = append(items, item{"tags", tag, unknown}, item{"folders", folder, unknown})
	before := a.state()
	same := func(x, y *answer) {
		t.Helper()
		is.Equal(x.status, y.status)
		strip := func(g *answer) string {
			return strings.ReplaceAll(string(g.body), g.header.Get("X-Request-Id"), "")
		}
		is.Equal(strip(x), strip(y))
		for _, name := range []string{"Content-Length", "Content-Type", "Cache-Control"} {
			is.Equal(x.header.Get(name), y.header.Get(name))
		}
	}
	for _, other := range []*app{bob, eve} {
		for _, it := range items {
			try := func(method, after string, body any) {
				t.Helper()
				of := func(id string) *answer {
					return other.do(apiRequest{method: method, path: "/api/v1/" + it.path + "/" + id + after, json: body})
				}
				x := of(it.id).want(404)
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
		own := other.made("/api/v1/tags", `{"name":"own"}`)
		id := other.upload(nil, file{"b.txt", "", "y"}).want(201).text("id")
		same(other.post("/api/v1/tags/"+own+"/merge", `{"into":"`+tag+`"}`).want(422), other.post("/api/v1/tags/"+own+"/merge", `{"into":"`+unknown+`"}`))
		for _, name := range []string{"folderId", "addTagIds"} {
			var mine, none any = folder, unknown
			if name == "addTagIds" {
				mine, none = []any{tag}, []any{unknown}
			}
			same(other.patch("/api/v1/files/"+id, map[string]any{name: mine}).want(422), other.patch("/api/v1/files/"+id, map[string]any{name: none}))
		}
		same(other.get("/api/v1/files?folder="+folder).want(200), other.get("/api/v1/files?folder="+unknown))
		same(other.get("/api/v1/notes?tag=mine").want(200), other.get("/api/v1/notes?tag=none"))
		for k := range whole {
			is.Equal(other.get("/api/v1/"+k.Path).at("total"), 0.0)
		}
		is.Equal(other.get("/api/v1/files").ids(), []string{id})
		is.Equal(other.tags(), []string{"own"})
		is.Equal(other.get("/api/v1/folders").at("total"), 0.0)
	}
	is.Equal(a.state(), before)
	// An administrator's keys are not another administrator's.
	key := a.made("/api/v1/keys", `{"name":"n"}`)
	same(eve.patch("/api/v1/keys/"+key, `{}`).want(404), eve.patch("/api/v1/keys/"+unknown, `{}`))
	same(eve.delete("/api/v1/keys/"+key).want(404), eve.delete("/api/v1/keys/"+unknown))
	// The same slug of another kind is not that kind's.
	note := a.post("/api/v1/notes", `{"content":"x","slug":"just-a-note"}`).want(201).text("data.id")
	for _, k := range record.Kinds {
		if k != record.Notes {
			a.get("/api/v1/" + k.Path + "/just-a-note").want(404)
			a.get("/api/v1/" + k.Path + "/" + note).want(404)
			a.delete("/api/v1/" + k.Path + "/just-a-note").want(404)
		}
	}
	a.get("/api/v1/notes/just-a-note").want(200)
	a.get("/api/v1/notes/" + strings.ToUpper(note)).want(200)
}
