package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
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
	a := apitest.Start(t)
	for k, body := range full {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			path := "/api/v1/" + k.Path
			path += "/" + a.Made(path, body+rest(k, "full-"+k.Name))
			before := a.Get(path).Want(200).Object("data")
			is.Equal(before["hasPassword"], true)
			for name, value := range map[string]any{
				"isPublic": false, "isFavorite": false, "tags": []any{"c"}, k.Limit: nil, "maxViewsAction": nil, "expiresAt": nil, "slug": "other-" + k.Name, "password": nil,
			} {
				got := a.Patch(path, map[string]any{name: value}).Want(200).Object("data")
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
	is.True(a.Sound())
}

// TestPatchWithTheAnswer sends whole answered records back.
func TestPatchWithTheAnswer(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	check := func(t *testing.T, a *apitest.App, path string) {
		is := is.New(t)
		before := a.Get(path).Want(200).Object("data")
		tags := a.Get("/api/v1/tags").Body
		a.Clock.Advance(time.Second)
		got := a.Do(apitest.Request{Method: "PATCH", Path: path, JSON: before, Raw: true}).Want(200).Object("data")
		is.True(got["updatedAt"].(string) > before["updatedAt"].(string))
		delete(got, "updatedAt")
		delete(before, "updatedAt")
		is.Equal(got, before)
		is.Equal(a.Get("/api/v1/tags").Body, tags)
	}
	for k, body := range full {
		t.Run(k.Name, func(t *testing.T) {
			a := a.With(t)
			for _, body := range []string{apitest.Whole[k], body + rest(k, "back-"+k.Name)} {
				path := "/api/v1/" + k.Path
				check(t, a, path+"/"+a.Made(path, body))
			}
		})
	}
	t.Run("file", func(t *testing.T) {
		a := a.With(t)
		made := a.Upload(
			map[string]string{"newTags": "x,y", "folderName": "F", "maxViews": "3", "password": "p", "isPublic": "true"},
			apitest.File("ü.txt", "", "hello"),
		).Want(201)
		check(t, a, "/api/v1/files/"+made.Text("id"))
		made = a.Upload(nil, apitest.File("b.txt", "", "hello")).Want(201)
		check(t, a, "/api/v1/files/"+made.Text("slug"))
	})
	t.Run("account, settings, tag, folder and key", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		paths := []string{
			"admin/settings", "tags/" + a.Made("/api/v1/tags", `{"name":"whole"}`), "folders/" + a.Made("/api/v1/folders", `{"name":"whole"}`),
			"keys/" + a.Made("/api/v1/keys", `{"name":"whole"}`), "me", "admin/users/" + a.User.ID.String(),
		}
		for _, path := range paths {
			got := a.Patch("/api/v1/"+path, `{}`).Want(200).Object("data")
			is.Equal(
				a.Do(apitest.Request{Method: "PATCH", Path: "/api/v1/" + path, JSON: got, Raw: true}).Want(200).Object("data"), got,
			)
		}
	})
	is.True(a.Sound())
}

// TestReadOnlyMembers sends what only the server sets.
func TestReadOnlyMembers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	own := map[string]any{
		"id": "01890a5d-ac96-774b-bcce-b302099a8057", "kind": "file", "hasPassword": true, "views": 9, "clicks": 9, "createdAt": "2001-01-01T00:00:00.000Z",
		"updatedAt": "2001-01-01T00:00:00.000Z", "owner": bob.ID.String(), "userId": bob.ID.String(), "shareUrl": "https://evil.example", "viewUrl": "x",
		"size": 1, "sha256": "x", "mimeType": "text/html", "folder": map[string]any{"id": "x"}, "reached": true,
	}
	for k, body := range apitest.Whole {
		create := maps.Clone(own)
		maps.Copy(create, apitest.Parse(t, body))
		made := a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/" + k.Path, JSON: create, Raw: true,
		}).Want(201).Object("data")
		is.True(made["id"] != own["id"])
		is.Equal(made["kind"], k.Name)
		is.Equal(made["hasPassword"], false)
		is.Equal(fmt.Sprint(made[k.Counter]), "0")
		is.True(made["createdAt"].(string) > "2020")
		got := a.Do(apitest.Request{
			Method: "PATCH", Path: "/api/v1/" + k.Path + "/" + made["id"].(string), JSON: own, Raw: true,
		}).Want(200).Object("data")
		delete(got, "updatedAt")
		delete(made, "updatedAt")
		is.Equal(got, made)
	}
	made := a.Upload(nil, apitest.File("a.txt", "", "hello")).Want(201)
	got := a.Do(apitest.Request{
		Method: "PATCH", Path: "/api/v1/files/" + made.Text("id"), JSON: own, Raw: true,
	}).Want(200).Object("data")
	is.Equal(got["mimeType"], made.At("mimeType"))
	is.Equal(fmt.Sprint(got["size"]), "5")
	is.Equal(got["sha256"], made.At("sha256"))
}

// TestTakenSlugs: slugs are one namespace, and a refused request leaves
// nothing behind.
func TestTakenSlugs(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	bob := a.As(a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll))
	a.Upload(map[string]string{"slug": "taken"}, apitest.File("a.txt", "", "x")).Want(201)
	bob.Post("/api/v1/notes", `{"content":"x","slug":"bobs"}`).Want(201)
	for k, body := range apitest.Whole {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			path := "/api/v1/" + k.Path
			id := a.Made(path, body)
			for _, slug := range []string{"taken", "bobs"} {
				create := apitest.Parse(t, body)
				create["slug"], create["tags"] = slug, []any{"left", "over"}
				is.Equal(a.Refused(apitest.Request{Method: "POST", Path: path, JSON: create}, 409).Text("code"), "slug_taken")
				is.Equal(
					a.Refused(apitest.Request{Method: "PATCH", Path: path + "/" + id, JSON: create}, 409).Text("code"), "slug_taken",
				)
			}
			is.Equal(a.Tags(), []string{})
			// Case counts, an item's own slug is free to it, and a slug is free
			// again when its item has another or is gone.
			a.Patch(path+"/"+id, `{"slug":"Taken"}`).Want(200)
			a.Patch(path+"/"+id, `{"slug":"Taken"}`).Want(200)
			a.Patch(path+"/"+id, `{"slug":"again"}`).Want(200)
			a.Get(path + "/Taken").Want(404)
			a.Get(path + "/again").Want(200)
			a.Delete(path + "/again").Want(200)
			a.Get(path + "/again").Want(404)
		})
	}
	t.Run("file", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		q := a.UploadRequest(
			map[string]string{"slug": "bobs", "newTags": "left,over", "folderName": "Left"}, apitest.File("b.txt", "", "x"),
		)
		is.Equal(a.Refused(q, 409).Text("code"), "slug_taken")
		id := a.Upload(nil, apitest.File("c.txt", "", "x")).Want(201).Text("id")
		is.Equal(
			a.Refused(
				apitest.Request{
					Method: "PATCH", Path: "/api/v1/files/" + id, JSON: `{"newSlug":"taken","folderName":"Left","tags":["left"]}`,
				},
				409,
			).Text("code"),
			"slug_taken",
		)
		is.Equal(a.Get("/api/v1/folders").At("total"), 0.0)
	})
	is.True(a.Sound())
}

func TestGeneratedSlugs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	seen := map[string]bool{}
	for range 20 {
		slug := a.Post("/api/v1/notes", `{"content":"x"}`).Want(201).Text("data.slug")
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
	a := apitest.Start(t)
	t.Run("creates have data.id, data.url and url", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		for k, body := range apitest.Whole {
			got := a.Post("/api/v1/"+k.Path, body).Want(201)
			is.True(apitest.IdForm.MatchString(got.Text("data.id")))
			at := map[*record.Kind]string{record.Links: "/s/"}[k]
			if at == "" {
				at = "/v/"
			}
			is.Equal(got.Text("url"), "https://kist.example.org"+at+got.Text("data.slug"))
			if k == record.Bookmarks {
				is.Equal(got.Text("data.url"), "https://go.dev") // the page that is kept
			} else {
				is.Equal(got.Text("data.url"), got.Text("url"))
			}
			is.Equal(got.Text("data.shareUrl"), "https://kist.example.org/v/"+got.Text("data.slug")) // the page of every kind
			list := a.Get("/api/v1/" + k.Path).Want(200)
			is.Equal(list.Text("data.0.id"), got.Text("data.id"))
			is.Equal(list.Text("data.0.url"), got.Text("data.url"))
		}
	})
	t.Run("uploads are flat with url and slug", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		got := a.Upload(nil, apitest.File("a.png", "application/octet-stream", "\x89PNG\r\n\x1a\n")).Want(201)
		is.Equal(got.Text("url"), "https://kist.example.org/x/"+got.Text("slug"))
		is.Equal(got.Text("viewUrl"), "https://kist.example.org/v/"+got.Text("slug"))
		is.Equal(got.Text("shareUrl"), got.Text("viewUrl"))
		is.Equal(got.Text("mimeType"), "image/png")
		is.Equal(got.At("isPublic"), false)
		is.Equal(a.Get("/api/v1/upload").Text("data.0.url"), got.Text("url"))
		is.Equal(a.Get("/api/v1/upload").Body, a.Get("/api/v1/files").Body)
		many := a.Upload(nil, apitest.File("a.txt", "", "1"), apitest.File("b.txt", "", "2")).Want(201)
		is.Equal(many.Text("files.1.originalName"), "b.txt")
		is.True(many.Text("files.0.url") != many.Text("files.1.url"))
	})
	t.Run("short links ignore a url of the target", func(t *testing.T) {
		is := is.New(t)
		got := a.With(t).Post(
			"/api/v1/shorten", `{"originalUrl":"https://example.org/a","url":"https://example.org/a"}`,
		).Want(201)
		is.Equal(got.Text("data.originalUrl"), "https://example.org/a")
		is.Equal(got.Text("url"), "https://kist.example.org/s/"+got.Text("data.slug"))
	})
	t.Run("notes keep any source and empty content", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		for _, source := range []string{"", "chrome://newtab/", "about:blank", "moz-extension://1/x.html"} {
			got := a.Post(
				"/api/v1/notes",
				map[string]any{
					"content": "", "title": "", "sourceUrl": source, "tags": nil, "slug": nil, "password": nil, "maxViews": nil,
				},
			).Want(201)
			is.Equal(got.Text("data.sourceUrl"), source)
			is.Equal(got.Text("data.content"), "")
		}
		is.Equal(a.Post("/api/v1/snippets", `{"content":"","language":"","title":null}`).Want(201).Text("data.content"), "")
	})
	t.Run("a title is never overwritten", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		is.Equal(a.Post("/api/v1/bookmarks", `{"url":"https://go.dev","title":"Mine"}`).Want(201).Text("data.title"), "Mine")
		is.Equal(a.Post("/api/v1/bookmarks", `{"url":"https://go.dev"}`).Want(201).Text("data.title"), "")
	})
	t.Run("tags are a bare array", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		a.Post("/api/v1/notes", `{"content":"x","tags":["one"]}`).Want(201)
		got := a.Get("/api/v1/tags").Want(200)
		is.True(strings.HasPrefix(string(got.Body), "["))
		for _, name := range []string{"id", "name", "color", "count", "counts"} {
			_, there := got.Object("0")[name]
			is.True(there)
		}
		for _, k := range record.Kinds {
			_, there := got.Object("0.counts")[k.Name]
			is.True(there)
		}
	})
	t.Run("the check of a key", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		is.Equal(fmt.Sprint(a.Get("/api/v1/remote-upload").Want(200).At("jobs")), "[]")
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/remote-upload", Key: "kist_wrong"}).Want(401)
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/remote-upload", Anyone: true}).Want(401)
	})
	t.Run("every origin", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		for _, origin := range []string{"chrome-extension://abc", "moz-extension://0-1", "https://evil.example", "null"} {
			got := a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"x"}`, Header: http.Header{"Origin": {origin}},
			}).Want(201)
			is.Equal(got.Header.Get("Access-Control-Allow-Origin"), "*")
			is.Equal(got.Header.Get("Access-Control-Allow-Credentials"), "")
		}
	})
	t.Run("the schema needs no key", func(t *testing.T) {
		is := is.New(t)
		got := a.With(t).Visit("/api/v1/openapi").Want(200)
		is.Equal(got.Text("openapi"), "3.0.3")
		is.Equal(got.Text("servers.0.url"), "https://kist.example.org")
		is.Equal(got.Text("components.securitySchemes.ApiKeyAuth.name"), "x-api-key")
	})
	is.True(a.Sound())
}
