package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/people"
	"kist/kv/record"
)

// full is a create of each kind with everything said.
var full = map[*record.Kind]string{
	record.Bookmarks: `{"url":"HTTPS://Go.dev/a?b=ä","title":"T","description":"D","imageUrl":"https://go.dev/i.png"`,
	record.Notes:     `{"title":"T","content":"- a\n\u2028<b>","sourceUrl":"chrome://newtab"`,
	record.Snippets:  `{"title":"T","content":"x := \"1\"","language":"go"`,
	record.Recipes:   `{"title":"T","description":"D","ingredients":"I","instructions":"S","imageUrl":"https://example.org/p.jpg"`,
	record.Games:     `{"title":"T","platform":"P","status":"playing","rating":0,"playtimeMinutes":0,"coverUrl":"https://e.org/c","storeUrl":"https://e.org/s","notes":"N"`,
	record.Links:     `{"originalUrl":"https://example.org/a","description":"D"`,
}

// rest completes full.
func rest(k *record.Kind, slug string) string {
	return `,"slug":"` + slug + `","isPublic":true,"isFavorite":true,"password":"open sesame","tags":["B","a"],"` + k.Limit +
		`":5,"maxViewsAction":"delete","expiresAt":"2099-01-02T03:04:05.678Z"}`
}

// TestPatchKeepsWhatIsAbsent changes one field at a time and looks at all
// others.
func TestPatchKeepsWhatIsAbsent(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	for k, body := range full {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			a := a.with(t)
			path := "/api/v1/" + k.Path
			path += "/" + a.made(path, body+rest(k, "full-"+k.Name))
			before := a.get(path).want(200).object("data")
			is.Equal(before["hasPassword"], true)
			for name, value := range map[string]any{
				"isPublic": false, "isFavorite": false, "tags": []any{"c"}, k.Limit: nil, "maxViewsAction": nil, "expiresAt": nil, "slug": "other-" + k.Name, "password": nil,
			} {
				got := a.patch(path, map[string]any{name: value}).want(200).object("data")
				if name == "password" {
					name, value = "hasPassword", false
				}
				before[name] = value
				if name == "slug" {
					for _, at := range []string{"url", "shareUrl"} {
						if u, ok := before[at].(string); ok && strings.HasPrefix(u, "https://kist.example.org/") {
							before[at] = strings.Replace(u, "full-", "other-", 1)
						}
					}
				}
				before["updatedAt"] = got["updatedAt"]
				is.Equal(got, before)
			}
		})
	}
	is.True(a.sound())
}

// TestPatchWithTheAnswer sends whole answered records back.
func TestPatchWithTheAnswer(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	check := func(t *testing.T, a *app, path string) {
		is := is.New(t)
		before := a.get(path).want(200).object("data")
		tags := a.get("/api/v1/tags").body
		a.clock.advance(time.Second)
		got := a.do(apiRequest{method: "PATCH", path: path, json: before, raw: true}).want(200).object("data")
		is.True(got["updatedAt"].(string) > before["updatedAt"].(string))
		delete(got, "updatedAt")
		delete(before, "updatedAt")
		is.Equal(got, before)
		is.Equal(a.get("/api/v1/tags").body, tags)
	}
	for k, body := range full {
		t.Run(k.Name, func(t *testing.T) {
			a := a.with(t)
			for _, body := range []string{whole[k], body + rest(k, "back-"+k.Name)} {
				path := "/api/v1/" + k.Path
				check(t, a, path+"/"+a.made(path, body))
			}
		})
	}
	t.Run("file", func(t *testing.T) {
		a := a.with(t)
		made := a.upload(map[string]string{"newTags": "x,y", "folderName": "F", "maxViews": "3", "password": "p", "isPublic": "true"}, file{"ü.txt", "", "hello"}).want(201)
		check(t, a, "/api/v1/files/"+made.text("id"))
		made = a.upload(nil, file{"b.txt", "", "hello"}).want(201)
		check(t, a, "/api/v1/files/"+made.text("slug"))
	})
	t.Run("account, settings, tag, folder and key", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		paths := []string{
			"admin/settings", "tags/" + a.made("/api/v1/tags", `{"name":"whole"}`), "folders/" + a.made("/api/v1/folders", `{"name":"whole"}`),
			"keys/" + a.made("/api/v1/keys", `{"name":"whole"}`), "me", "admin/users/" + a.user.ID.String(),
		}
		for _, path := range paths {
			got := a.patch("/api/v1/"+path, `{}`).want(200).object("data")
			is.Equal(a.do(apiRequest{method: "PATCH", path: "/api/v1/" + path, json: got, raw: true}).want(200).object("data"), got)
		}
	})
	is.True(a.sound())
}

// TestReadOnlyMembers sends what only the server sets.
func TestReadOnlyMembers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	own := map[string]any{
		"id": "01890a5d-ac96-774b-bcce-b302099a8057", "kind": "file", "hasPassword": true, "views": 9, "clicks": 9, "createdAt": "2001-01-01T00:00:00.000Z",
		"updatedAt": "2001-01-01T00:00:00.000Z", "owner": bob.ID.String(), "userId": bob.ID.String(), "shareUrl": "https://evil.example", "viewUrl": "x",
		"size": 1, "sha256": "x", "mimeType": "text/html", "folder": map[string]any{"id": "x"}, "reached": true,
	}
	for k, body := range whole {
		create := maps.Clone(own)
		maps.Copy(create, parse(t, body))
		made := a.do(apiRequest{method: "POST", path: "/api/v1/" + k.Path, json: create, raw: true}).want(201).object("data")
		is.True(made["id"] != own["id"])
		is.Equal(made["kind"], k.Name)
		is.Equal(made["hasPassword"], false)
		is.Equal(fmt.Sprint(made[k.Counter]), "0")
		is.True(made["createdAt"].(string) > "2020")
		got := a.do(apiRequest{method: "PATCH", path: "/api/v1/" + k.Path + "/" + made["id"].(string), json: own, raw: true}).want(200).object("data")
		delete(got, "updatedAt")
		delete(made, "updatedAt")
		is.Equal(got, made)
	}
	made := a.upload(nil, file{"a.txt", "", "hello"}).want(201)
	got := a.do(apiRequest{method: "PATCH", path: "/api/v1/files/" + made.text("id"), json: own, raw: true}).want(200).object("data")
	is.Equal(got["mimeType"], made.at("mimeType"))
	is.Equal(fmt.Sprint(got["size"]), "5")
	is.Equal(got["sha256"], made.at("sha256"))
}

// TestTakenSlugs: slugs are one namespace, and a refused request leaves
// nothing behind.
func TestTakenSlugs(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	bob := a.as(a.addKey(a.addUser("bob", people.Member), people.ScopeAll))
	a.upload(map[string]string{"slug": "taken"}, file{"a.txt", "", "x"}).want(201)
	bob.post("/api/v1/notes", `{"content":"x","slug":"bobs"}`).want(201)
	for k, body := range whole {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			a := a.with(t)
			path := "/api/v1/" + k.Path
			id := a.made(path, body)
			for _, slug := range []string{"taken", "bobs"} {
				create := parse(t, body)
				create["slug"], create["tags"] = slug, []any{"left", "over"}
				is.Equal(a.refused(apiRequest{method: "POST", path: path, json: create}, 409).text("code"), "slug_taken")
				is.Equal(a.refused(apiRequest{method: "PATCH", path: path + "/" + id, json: create}, 409).text("code"), "slug_taken")
			}
			is.Equal(a.tags(), []string{})
			// Case counts, an item's own slug is free to it, and a slug is free
			// again when its item has another or is gone.
			a.patch(path+"/"+id, `{"slug":"Taken"}`).want(200)
			a.patch(path+"/"+id, `{"slug":"Taken"}`).want(200)
			a.patch(path+"/"+id, `{"slug":"again"}`).want(200)
			a.get(path + "/Taken").want(404)
			a.get(path + "/again").want(200)
			a.delete(path + "/again").want(200)
			a.get(path + "/again").want(404)
		})
	}
	t.Run("file", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		q := a.uploadRequest(map[string]string{"slug": "bobs", "newTags": "left,over", "folderName": "Left"}, file{"b.txt", "", "x"})
		is.Equal(a.refused(q, 409).text("code"), "slug_taken")
		id := a.upload(nil, file{"c.txt", "", "x"}).want(201).text("id")
		is.Equal(a.refused(apiRequest{method: "PATCH", path: "/api/v1/files/" + id, json: `{"newSlug":"taken","folderName":"Left","tags":["left"]}`}, 409).text("code"), "slug_taken")
		is.Equal(a.get("/api/v1/folders").at("total"), 0.0)
	})
	is.True(a.sound())
}

func TestGeneratedSlugs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	seen := map[string]bool{}
	for range 20 {
		slug := a.post("/api/v1/notes", `{"content":"x"}`).want(201).text("data.slug")
		is.Equal(len(slug), 10)
		is.Equal(strings.Trim(slug, "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"), "")
		is.True(!seen[slug])
		seen[slug] = true
	}
}

// TestWhatClientsRead holds what existing clients depend on.
func TestWhatClientsRead(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t)
	t.Run("creates have data.id, data.url and url", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		for k, body := range whole {
			got := a.post("/api/v1/"+k.Path, body).want(201)
			is.True(idForm.MatchString(got.text("data.id")))
			at := map[*record.Kind]string{record.Links: "/s/"}[k]
			if at == "" {
				at = "/v/"
			}
			is.Equal(got.text("url"), "https://kist.example.org"+at+got.text("data.slug"))
			if k == record.Bookmarks {
				is.Equal(got.text("data.url"), "https://go.dev") // the page that is kept
				is.Equal(got.text("data.shareUrl"), got.text("url"))
			} else {
				is.Equal(got.text("data.url"), got.text("url"))
			}
			list := a.get("/api/v1/" + k.Path).want(200)
			is.Equal(list.text("data.0.id"), got.text("data.id"))
			is.Equal(list.text("data.0.url"), got.text("data.url"))
		}
	})
	t.Run("uploads are flat with url and slug", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		got := a.upload(nil, file{"a.png", "application/octet-stream", "\x89PNG\r\n\x1a\n"}).want(201)
		is.Equal(got.text("url"), "https://kist.example.org/x/"+got.text("slug"))
		is.Equal(got.text("viewUrl"), "https://kist.example.org/v/"+got.text("slug"))
		is.Equal(got.text("mimeType"), "image/png")
		is.Equal(got.at("isPublic"), false)
		is.Equal(a.get("/api/v1/upload").text("data.0.url"), got.text("url"))
		is.Equal(a.get("/api/v1/upload").body, a.get("/api/v1/files").body)
		many := a.upload(nil, file{"a.txt", "", "1"}, file{"b.txt", "", "2"}).want(201)
		is.Equal(many.text("files.1.originalName"), "b.txt")
		is.True(many.text("files.0.url") != many.text("files.1.url"))
	})
	t.Run("short links ignore a url of the target", func(t *testing.T) {
		is := is.New(t)
		got := a.with(t).post("/api/v1/shorten", `{"originalUrl":"https://example.org/a","url":"https://example.org/a"}`).want(201)
		is.Equal(got.text("data.originalUrl"), "https://example.org/a")
		is.Equal(got.text("url"), "https://kist.example.org/s/"+got.text("data.slug"))
	})
	t.Run("notes keep any source and empty content", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		for _, source := range []string{"", "chrome://newtab/", "about:blank", "moz-extension://1/x.html"} {
			got := a.post("/api/v1/notes", map[string]any{"content": "", "title": "", "sourceUrl": source, "tags": nil, "slug": nil, "password": nil, "maxViews": nil}).want(201)
			is.Equal(got.text("data.sourceUrl"), source)
			is.Equal(got.text("data.content"), "")
		}
		is.Equal(a.post("/api/v1/snippets", `{"content":"","language":"","title":null}`).want(201).text("data.content"), "")
	})
	t.Run("a title is never overwritten", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		is.Equal(a.post("/api/v1/bookmarks", `{"url":"https://go.dev","title":"Mine"}`).want(201).text("data.title"), "Mine")
		is.Equal(a.post("/api/v1/bookmarks", `{"url":"https://go.dev"}`).want(201).text("data.title"), "")
	})
	t.Run("tags are a bare array", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		a.post("/api/v1/notes", `{"content":"x","tags":["one"]}`).want(201)
		got := a.get("/api/v1/tags").want(200)
		is.True(strings.HasPrefix(string(got.body), "["))
		for _, name := range []string{"id", "name", "color", "count", "counts"} {
			_, there := got.object("0")[name]
			is.True(there)
		}
		for _, k := range record.Kinds {
			_, there := got.object("0.counts")[k.Name]
			is.True(there)
		}
	})
	t.Run("the check of a key", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		is.Equal(fmt.Sprint(a.get("/api/v1/remote-upload").want(200).at("jobs")), "[]")
		a.do(apiRequest{method: "GET", path: "/api/v1/remote-upload", key: "kist_wrong"}).want(401)
		a.do(apiRequest{method: "GET", path: "/api/v1/remote-upload", anyone: true}).want(401)
	})
	t.Run("every origin", func(t *testing.T) {
		is := is.New(t)
		a := a.with(t)
		for _, origin := range []string{"chrome-extension://abc", "moz-extension://0-1", "https://evil.example", "null"} {
			got := a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{"content":"x"}`, header: http.Header{"Origin": {origin}}}).want(201)
			is.Equal(got.header.Get("Access-Control-Allow-Origin"), "*")
			is.Equal(got.header.Get("Access-Control-Allow-Credentials"), "")
		}
	})
	t.Run("the schema needs no key", func(t *testing.T) {
		is := is.New(t)
		got := a.with(t).visit("/api/v1/openapi").want(200)
		is.Equal(got.text("openapi"), "3.0.3")
		is.Equal(got.text("servers.0.url"), "https://kist.example.org")
		is.Equal(got.text("components.securitySchemes.ApiKeyAuth.name"), "x-api-key")
	})
	is.True(a.sound())
}
