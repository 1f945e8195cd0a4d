package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
	"kist/kv/record"
)

// records of every kind, by the path of the kind, with a change of each.
var recordsOfKinds = map[string][2]string{
	"bookmarks":   {`{"url":"https://example.org/","title":"a"}`, `{"title":"b"}`},
	"notes":       {`{"title":"a","content":"one"}`, `{"content":"two"}`},
	"snippets":    {`{"title":"a","content":"one"}`, `{"language":"go"}`},
	"recipes":     {`{"title":"a","ingredients":"- 1 egg"}`, `{"ingredients":"- 2 eggs"}`},
	"games":       {`{"title":"a"}`, `{"rating":9}`},
	"shorten":     {`{"originalUrl":"https://example.org/"}`, `{"description":"b"}`},
	"collections": {`{"title":"a"}`, `{"sort":"title"}`},
}

// addOfEveryKind makes a record of every kind and returns their addresses and tags.
func addOfEveryKind(t *testing.T, a *apitest.App) map[string]*apitest.Answer {
	t.Helper()
	all := map[string]*apitest.Answer{}
	for _, k := range record.Kinds {
		made := a.Upload(map[string]string{"name": "a.txt"}, apitest.File("a.txt", "text/plain", "one")).Want(201)
		path := "id"
		if k != record.Files {
			made, path = a.Post("/api/v1/"+k.Path, recordsOfKinds[k.Path][0]).Want(201), "data.id"
		}
		all["/api/v1/"+k.Path+"/"+made.Text(path)] = made
	}
	return all
}

// changeOf is a change of the record at an address.
func changeOf(at string) string {
	if change, ok := recordsOfKinds[strings.Split(at, "/")[3]]; ok {
		return change[1]
	}
	return `{"description":"b"}`
}

// Every answer with a record has its entity tag. It changes with each change of the record, and of
// the names that it shows, but not when the record is opened.
func TestEntityTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for at, made := range addOfEveryKind(t, a) {
		tag := made.Header.Get("Etag")
		is.True(len(tag) == 18 && tag[0] == '"')
		unchanged := func(because string) {
			t.Helper()
			if got := a.Get(at).Want(200).Header.Get("Etag"); got != tag {
				t.Errorf("%s: another tag because %s", at, because)
			}
			for _, held := range []string{tag, "W/" + tag, `"x", ` + tag, "*", strings.TrimSuffix(tag, `"`) + `-gzip"`} {
				got := a.Do(apitest.Request{Method: "GET", Path: at, Header: apitest.WithHeader("If-None-Match", held)}).Want(304)
				is.Equal(len(got.Body), 0)
			}
			a.Do(apitest.Request{Method: "GET", Path: at, Header: apitest.WithHeader("If-None-Match", `"x"`)}).Want(200)
		}
		changed := func(got *apitest.Answer) {
			t.Helper()
			now := a.Get(at).Want(200).Header.Get("Etag")
			if now == tag || now == "" || got.Header.Get("Etag") != "" && got.Header.Get("Etag") != now {
				t.Errorf("%s: the tag was %s and is %s; the change said %s: %s", at, tag, now, got.Header.Get("Etag"), got.Body)
			}
			tag = now
		}
		unchanged("it was read")
		changed(a.Patch(at, changeOf(at)).Want(200))
		changed(a.Patch(at, `{}`).Want(200)) // updatedAt
		changed(a.Patch(at, `{"isPublic":true,"tags":["red"]}`).Want(200))
		changed(a.Patch(at, `{"password":"long enough"}`).Want(200))
		changed(a.Patch(at, `{"password":"another one"}`).Want(200)) // shows nothing
		changed(a.Patch(at, `{"password":"","isFavorite":true}`).Want(200))
		red := a.Get("/api/v1/tags").Want(200).Text("0.id")
		changed(a.Patch("/api/v1/tags/"+red, `{"name":"blue"}`).Want(200))
		changed(a.Delete("/api/v1/tags/" + red).Want(200))
		slug := a.Get(at).Text("data.slug")
		for _, public := range []string{"/v/", "/x/", "/s/", "/"} {
			a.Visit(public + slug)
		}
		unchanged("it was opened")
		if strings.Contains(at, "/files/") {
			changed(a.Patch(at, `{"folderName":"here"}`).Want(200))
			folder := a.Get(at).Text("data.folder.id")
			changed(a.Patch("/api/v1/folders/"+folder, `{"name":"there"}`).Want(200))
		}
	}
}

// A change that names another tag than the present one is refused, with the present record.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	writeOnly := a.AddKey(a.User, people.ScopeWrite)
	for at, made := range addOfEveryKind(t, a) {
		stale := made.Header.Get("Etag")
		tag := a.Patch(at, changeOf(at)).Want(200).Header.Get("Etag")
		before := a.Get(at).At("data")
		refused := func(q apitest.Request) {
			t.Helper()
			for _, named := range []string{stale, `"x"`, stale + `, "y"`, "", "x"} {
				q.Header = apitest.WithHeader("If-Match", named)
				got := a.Do(q).Want(412)
				is.Equal(got.Text("code"), "changed_elsewhere")
				is.Equal(got.Header.Get("Etag"), tag)
				is.Equal(got.At("data"), before)
			}
			q.Key = writeOnly
			got := a.Do(q).Want(412)
			is.Equal(got.At("data"), nil)
			is.Equal(got.Header.Get("Etag"), "")
			is.Equal(a.Get(at).At("data"), before)
		}
		refused(apitest.Request{Method: "PATCH", Path: at, JSON: `{"isFavorite":true}`})
		refused(apitest.Request{Method: "DELETE", Path: at})
		for _, form := range []string{"T", "WEAK", `"x", T`, "*", "PACKED"} {
			named := strings.NewReplacer(
				"T", tag, "WEAK", "W/"+tag, "PACKED", strings.TrimSuffix(tag, `"`)+`-gzip"`,
			).Replace(form)
			tag = a.Do(apitest.Request{
				Method: "PATCH", Path: at, JSON: `{}`, Header: apitest.WithHeader("If-Match", named),
			}).Want(200).Header.Get("Etag")
		}
		a.Do(apitest.Request{Method: "DELETE", Path: at, Header: apitest.WithHeader("If-Match", tag)}).Want(200)
		a.Do(apitest.Request{Method: "DELETE", Path: at, Header: apitest.WithHeader("If-Match", "*")}).Want(404)
	}
}

// Of many writers who have read the same text, one succeeds.
func TestIfMatchRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Post("/api/v1/notes", `{"content":"start"}`).Want(201)
	at, tag := "/api/v1/notes/"+made.Text("data.id"), made.Header.Get("Etag")
	statuses := make(chan int)
	const writers = 8
	for i := range writers {
		go func() {
			statuses <- a.Do(apitest.Request{
				Method: "PATCH", Path: at, JSON: fmt.Sprintf(`{"content":"writer %d"}`, i),
				Header: apitest.WithHeader("If-Match", tag),
			}).Status
		}()
	}
	got := map[int]int{}
	for range writers {
		got[<-statuses]++
	}
	is.Equal(got, map[int]int{200: 1, 412: writers - 1})
}

// A text that a change replaced is kept unless the writer had seen it.
func TestVersionsOfWriters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Post("/api/v1/notes", `{"content":"start"}`).Want(201)
	at, tag := "/api/v1/notes/"+made.Text("data.id"), made.Header.Get("Etag")
	versions := func() (all string) {
		t.Helper()
		list := a.Get(at + "/versions").Want(200)
		for i := range list.At("data").([]any) {
			all += a.Get(at+"/versions/"+list.Text(fmt.Sprintf("data.%d.id", i))).Want(200).Text("data.content") + " "
		}
		return all
	}
	for _, step := range []struct {
		body  string
		named bool
		want  string
	}{
		{`{"content":"a"}`, true, "start "},
		{`{"content":"b"}`, true, "start "}, // a was seen
		{`{"content":"c"}`, false, "b start "},
		{`{"content":"d"}`, false, "c b start "},
		{`{"content":"e"}`, true, "c b start "},
		{`{"content":"f","keepVersion":true}`, true, "e c b start "},
		{`{"title":"t","keepVersion":true}`, true, "f e c b start "},
		{`{"isFavorite":true}`, false, "f e c b start "},
	} {
		q := apitest.Request{Method: "PATCH", Path: at, JSON: step.body}
		if step.named {
			q.Header = apitest.WithHeader("If-Match", tag)
		}
		tag = a.Do(q).Want(200).Header.Get("Etag")
		is.Equal(versions(), step.want)
	}
	oldest := at + "/versions/" + a.Get(at+"/versions").Text("data.4.id") + "/restore"
	a.Do(apitest.Request{
		Method: "POST", Path: oldest, Header: apitest.WithHeader("If-Match", made.Header.Get("Etag")),
	}).Want(412)
	a.Do(apitest.Request{Method: "POST", Path: oldest, Header: apitest.WithHeader("If-Match", tag)}).Want(200)
	is.Equal(versions(), "f f e c b start ") // restoring loses nothing
}

// Tags can be added to and taken from a record of any kind by name.
func TestAddTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for at := range addOfEveryKind(t, a) {
		names := func(body string) string {
			t.Helper()
			got := a.Patch(at, body).Want(200)
			var all []string
			for _, tag := range got.At("data.tags").([]any) {
				if of, ok := tag.(map[string]any); ok {
					tag = of["name"]
				}
				all = append(all, tag.(string))
			}
			return strings.Join(all, " ")
		}
		is.Equal(names(`{"tags":["a","b"]}`), "a b")
		is.Equal(names(`{"addTags":["c","A"]}`), "a b c")
		is.Equal(names(`{"removeTags":["B","none"],"addTags":["d"]}`), "a c d")
		is.Equal(names(`{"tags":["x","y"],"removeTags":["x"],"addTags":["z"]}`), "y z")
		is.Equal(names(`{"removeTags":null,"addTags":null}`), "y z")
		is.Equal(names(`{"addTags":["both"],"removeTags":["both"]}`), "y z")
		a.Patch(at, `{"removeTags":[1]}`).Want(422)
	}
	is.True(!strings.Contains(string(a.Get("/api/v1/tags").Want(200).Body), `"none"`)) // removing makes none
}

// Files take a new slug under both names, but not two.
func TestFileSlug(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := "/api/v1/files/" + a.Upload(nil, apitest.File("a.txt", "text/plain", "one")).Want(201).Text("id")
	is.Equal(a.Patch(at, `{"slug":"first"}`).Want(200).Text("data.slug"), "first")
	is.Equal(a.Patch(at, `{"newSlug":"second"}`).Want(200).Text("data.slug"), "second")
	is.Equal(a.Patch(at, `{"slug":null}`).Want(200).Text("data.slug"), "second")
	a.Patch(at, `{"slug":"x","newSlug":"y"}`).Want(422)
	a.Patch(at, `{"slug":"not a slug"}`).Want(422)
}

// Pages of other origins may use entity tags.
func TestEntityTagsCrossOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Do(apitest.Request{
		Method: http.MethodOptions, Path: "/api/v1/notes/x", Anyone: true,
		Header: apitest.WithHeader("Origin", "null", "Access-Control-Request-Method", "PUT"),
	}).Want(204)
	for _, name := range []string{"if-match", "if-none-match", "prefer"} {
		is.True(strings.Contains(got.Header.Get("Access-Control-Allow-Headers"), name))
	}
	is.True(strings.Contains(got.Header.Get("Access-Control-Allow-Methods"), "PUT"))
	is.True(strings.Contains(
		a.Do(apitest.Request{
			Method: "GET", Path: "/api/v1/notes", Header: apitest.WithHeader("Origin", "null"),
		}).Header.Get("Access-Control-Expose-Headers"),
		"ETag",
	))
}
