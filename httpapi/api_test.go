package httpapi

import (
	"testing"

	"github.com/matryer/is"
)

func TestEveryKind(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for path, body := range map[string]string{
		"bookmarks": `{"url":"https://go.dev","tags":["Go"],"isPublic":true}`,
		"notes":     `{"content":"","tags":["go","x"],"isPublic":true}`,
		"snippets":  `{"content":"x := 1","language":"go","isPublic":true}`,
		"recipes":   `{"title":"Soup","isPublic":true}`,
		"games":     `{"title":"Go","rating":9,"status":"playing","isPublic":true}`,
		"shorten":   `{"originalUrl":"https://example.org/a","isPublic":true,"maxClicks":2}`,
	} {
		made := a.post("/api/v1/"+path, body).want(201)
		id, slug := made.text("data.id"), made.text("data.slug")
		a.get("/api/v1/" + path + "/" + id).want(200)
		is.Equal(a.get("/api/v1/"+path).want(200).at("total"), 1.0)
		a.patch("/api/v1/"+path+"/"+slug, `{"isFavorite":true,"tags":["z"]}`).want(200)
		a.do(apiRequest{method: "POST", path: "/api/v1/" + path + "/p/" + slug, anyone: true, json: "{}"}).want(200)
		is.Equal(a.delete("/api/v1/"+path+"/"+id).want(200).at("ok"), true)
		a.get("/api/v1/" + path + "/" + id).want(404)
	}
}

func TestUploadAndRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	made := a.upload(map[string]string{"isPublic": "true", "newTags": "a,b", "folderName": "F"}, file{"a b.txt", "application/octet-stream", "hello"}).want(201)
	slug := made.text("slug")
	is.Equal(made.text("url"), "https://kist.example.org/x/"+slug)
	is.Equal(made.text("mimeType"), "text/plain")
	got := a.visit("/x/" + slug).want(200)
	is.Equal(string(got.body), "hello")
	got = a.visit("/x/"+slug+".txt", "Range", "bytes=1-2").want(206)
	is.Equal(string(got.body), "el")
	is.Equal(a.get("/api/v1/files?folder=F&tag=A&type=text").want(200).at("total"), 1.0)
	a.patch("/api/v1/files/"+slug, `{"newSlug":"neu","folderId":null,"originalName":"../x.md"}`).want(200)
	a.visit("/x/neu").want(200)
	a.delete("/api/v1/files/neu").want(200)
	a.visit("/x/neu").want(404)
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/shorten", `{"originalUrl":"https://example.org/a","slug":"go","isPublic":true,"maxClicks":2,"url":"https://example.org/a"}`).want(201)
	is.Equal(a.visit("/s/go").want(302).header.Get("Location"), "https://example.org/a")
	a.visit("/s/go").want(302)
	a.visit("/s/go").want(410)
	is.Equal(a.get("/api/v1/shorten/go").want(200).at("data.clicks"), 2.0)
}
