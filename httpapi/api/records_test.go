package api_test

import (
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

func TestEveryKind(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for path, body := range map[string]string{
		"bookmarks": `{"url":"https://go.dev","tags":["Go"],"isPublic":true}`,
		"notes":     `{"content":"","tags":["go","x"],"isPublic":true}`,
		"snippets":  `{"content":"x := 1","language":"go","isPublic":true}`,
		"recipes":   `{"title":"Soup","isPublic":true}`,
		"games":     `{"title":"Go","rating":9,"status":"playing","isPublic":true}`,
		"shorten":   `{"originalUrl":"https://example.org/a","isPublic":true,"maxClicks":2}`,
	} {
		made := a.Post("/api/v1/"+path, body).Want(201)
		id, slug := made.Text("data.id"), made.Text("data.slug")
		a.Get("/api/v1/" + path + "/" + id).Want(200)
		is.Equal(a.Get("/api/v1/"+path).Want(200).At("total"), 1.0)
		a.Patch("/api/v1/"+path+"/"+slug, `{"isFavorite":true,"tags":["z"]}`).Want(200)
		a.Do(apitest.Request{Method: "POST", Path: "/api/v1/" + path + "/p/" + slug, Anyone: true, JSON: "{}"}).Want(200)
		is.Equal(a.Delete("/api/v1/"+path+"/"+id).Want(200).At("ok"), true)
		a.Get("/api/v1/" + path + "/" + id).Want(404)
	}
}

func TestUploadAndRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Upload(
		map[string]string{"isPublic": "true", "newTags": "a,b", "folderName": "F"},
		apitest.File("a b.txt", "application/octet-stream", "hello"),
	).Want(201)
	slug := made.Text("slug")
	is.Equal(made.Text("url"), "https://kist.example.org/x/"+slug)
	is.Equal(made.Text("mimeType"), "text/plain")
	got := a.Visit("/x/" + slug).Want(200)
	is.Equal(string(got.Body), "hello")
	got = a.Visit("/x/"+slug+".txt", "Range", "bytes=1-2").Want(206)
	is.Equal(string(got.Body), "el")
	is.Equal(a.Get("/api/v1/files?folder=F&tag=A&type=text").Want(200).At("total"), 1.0)
	a.Patch("/api/v1/files/"+slug, `{"newSlug":"neu","folderId":null,"originalName":"../x.md"}`).Want(200)
	a.Visit("/x/neu").Want(200)
	a.Delete("/api/v1/files/neu").Want(200)
	a.Visit("/x/neu").Want(404)
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post(
		"/api/v1/shorten",
		`{"originalUrl":"https://example.org/a","slug":"go","isPublic":true,"maxClicks":2,"url":"https://example.org/a"}`,
	).Want(201)
	is.Equal(a.Visit("/s/go").Want(302).Header.Get("Location"), "https://example.org/a")
	a.Visit("/s/go").Want(302)
	a.Visit("/s/go").Want(410)
	is.Equal(a.Get("/api/v1/shorten/go").Want(200).At("data.clicks"), 2.0)
}
