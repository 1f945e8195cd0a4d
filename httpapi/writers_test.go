package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

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
func addOfEveryKind(t *testing.T, a *app) map[string]*answer {
	t.Helper()
	all := map[string]*answer{}
	for _, k := range record.Kinds {
		made := a.upload(map[string]string{"name": "a.txt"}, file{"a.txt", "text/plain", "one"}).want(201)
		path := "id"
		if k != record.Files {
			made, path = a.post("/api/v1/"+k.Path, recordsOfKinds[k.Path][0]).want(201), "data.id"
		}
		all["/api/v1/"+k.Path+"/"+made.text(path)] = made
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
	a := start(t)
	for at, made := range addOfEveryKind(t, a) {
		tag := made.header.Get("Etag")
		is.True(len(tag) == 18 && tag[0] == '"')
		unchanged := func(because string) {
			t.Helper()
			if got := a.get(at).want(200).header.Get("Etag"); got != tag {
				t.Errorf("%s: another tag because %s", at, because)
			}
			for _, held := range []string{tag, "W/" + tag, `"x", ` + tag, "*", strings.TrimSuffix(tag, `"`) + `-gzip"`} {
				got := a.do(apiRequest{method: "GET", path: at, header: withHeader("If-None-Match", held)}).want(304)
				is.Equal(len(got.body), 0)
			}
			a.do(apiRequest{method: "GET", path: at, header: withHeader("If-None-Match", `"x"`)}).want(200)
		}
		changed := func(got *answer) {
			t.Helper()
			now := a.get(at).want(200).header.Get("Etag")
			if now == tag || now == "" || got.header.Get("Etag") != "" && got.header.Get("Etag") != now {
				t.Errorf("%s: the tag was %s and is %s; the change said %s: %s", at, tag, now, got.header.Get("Etag"), got.body)
			}
			tag = now
		}
		unchanged("it was read")
		changed(a.patch(at, changeOf(at)).want(200))
		changed(a.patch(at, `{}`).want(200)) // updatedAt
		changed(a.patch(at, `{"isPublic":true,"tags":["red"]}`).want(200))
		changed(a.patch(at, `{"password":"long enough"}`).want(200))
		changed(a.patch(at, `{"password":"another one"}`).want(200)) // shows nothing
		changed(a.patch(at, `{"password":"","isFavorite":true}`).want(200))
		red := a.get("/api/v1/tags").want(200).text("0.id")
		changed(a.patch("/api/v1/tags/"+red, `{"name":"blue"}`).want(200))
		changed(a.delete("/api/v1/tags/" + red).want(200))
		slug := a.get(at).text("data.slug")
		for _, public := range []string{"/v/", "/x/", "/s/", "/"} {
			a.visit(public + slug)
		}
		unchanged("it was opened")
		if strings.Contains(at, "/files/") {
			changed(a.patch(at, `{"folderName":"here"}`).want(200))
			folder := a.get(at).text("data.folder.id")
			changed(a.patch("/api/v1/folders/"+folder, `{"name":"there"}`).want(200))
		}
	}
}

// A change that names another tag than the present one is refused, with the present record.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	writeOnly := a.addKey(a.user, people.ScopeWrite)
	for at, made := range addOfEveryKind(t, a) {
		stale := made.header.Get("Etag")
		tag := a.patch(at, changeOf(at)).want(200).header.Get("Etag")
		before := a.get(at).at("data")
		refused := func(q apiRequest) {
			t.Helper()
			for _, named := range []string{stale, `"x"`, stale + `, "y"`, "", "x"} {
				q.header = withHeader("If-Match", named)
				got := a.do(q).want(412)
				is.Equal(got.text("code"), "changed_elsewhere")
				is.Equal(got.header.Get("Etag"), tag)
				is.Equal(got.at("data"), before)
			}
			q.key = writeOnly
			got := a.do(q).want(412)
			is.Equal(got.at("data"), nil)
			is.Equal(got.header.Get("Etag"), "")
			is.Equal(a.get(at).at("data"), before)
		}
		refused(apiRequest{method: "PATCH", path: at, json: `{"isFavorite":true}`})
		refused(apiRequest{method: "DELETE", path: at})
		for _, form := range []string{"T", "WEAK", `"x", T`, "*", "PACKED"} {
			named := strings.NewReplacer("T", tag, "WEAK", "W/"+tag, "PACKED", strings.TrimSuffix(tag, `"`)+`-gzip"`).Replace(form)
			tag = a.do(apiRequest{method: "PATCH", path: at, json: `{}`, header: withHeader("If-Match", named)}).want(200).header.Get("Etag")
		}
		a.do(apiRequest{method: "DELETE", path: at, header: withHeader("If-Match", tag)}).want(200)
		a.do(apiRequest{method: "DELETE", path: at, header: withHeader("If-Match", "*")}).want(404)
	}
}

// Of many writers who have read the same text, one succeeds.
func TestIfMatchRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	made := a.post("/api/v1/notes", `{"content":"start"}`).want(201)
	at, tag := "/api/v1/notes/"+made.text("data.id"), made.header.Get("Etag")
	statuses := make(chan int)
	const writers = 8
	for i := range writers {
		go func() {
			statuses <- a.do(apiRequest{method: "PATCH", path: at, json: fmt.Sprintf(`{"content":"writer %d"}`, i), header: withHeader("If-Match", tag)}).status
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
	a := start(t)
	made := a.post("/api/v1/notes", `{"content":"start"}`).want(201)
	at, tag := "/api/v1/notes/"+made.text("data.id"), made.header.Get("Etag")
	versions := func() (all string) {
		t.Helper()
		list := a.get(at + "/versions").want(200)
		for i := range list.at("data").([]any) {
			all += a.get(at+"/versions/"+list.text(fmt.Sprintf("data.%d.id", i))).want(200).text("data.content") + " "
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
		q := apiRequest{method: "PATCH", path: at, json: step.body}
		if step.named {
			q.header = withHeader("If-Match", tag)
		}
		tag = a.do(q).want(200).header.Get("Etag")
		is.Equal(versions(), step.want)
	}
	oldest := at + "/versions/" + a.get(at+"/versions").text("data.4.id") + "/restore"
	a.do(apiRequest{method: "POST", path: oldest, header: withHeader("If-Match", made.header.Get("Etag"))}).want(412)
	a.do(apiRequest{method: "POST", path: oldest, header: withHeader("If-Match", tag)}).want(200)
	is.Equal(versions(), "f f e c b start ") // restoring loses nothing
}

// Tags can be added to and taken from a record of any kind by name.
func TestAddTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for at := range addOfEveryKind(t, a) {
		names := func(body string) string {
			t.Helper()
			got := a.patch(at, body).want(200)
			var all []string
			for _, tag := range got.at("data.tags").([]any) {
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
		a.patch(at, `{"removeTags":[1]}`).want(422)
	}
	is.True(!strings.Contains(string(a.get("/api/v1/tags").want(200).body), `"none"`)) // removing makes none
}

// Files take a new slug under both names, but not two.
func TestFileSlug(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := "/api/v1/files/" + a.upload(nil, file{"a.txt", "text/plain", "one"}).want(201).text("id")
	is.Equal(a.patch(at, `{"slug":"first"}`).want(200).text("data.slug"), "first")
	is.Equal(a.patch(at, `{"newSlug":"second"}`).want(200).text("data.slug"), "second")
	is.Equal(a.patch(at, `{"slug":null}`).want(200).text("data.slug"), "second")
	a.patch(at, `{"slug":"x","newSlug":"y"}`).want(422)
	a.patch(at, `{"slug":"not a slug"}`).want(422)
}

// Pages of other origins may use entity tags.
func TestEntityTagsCrossOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.do(apiRequest{method: http.MethodOptions, path: "/api/v1/notes/x", anyone: true, header: withHeader("Origin", "null", "Access-Control-Request-Method", "PUT")}).want(204)
	for _, name := range []string{"if-match", "if-none-match", "prefer"} {
		is.True(strings.Contains(got.header.Get("Access-Control-Allow-Headers"), name))
	}
	is.True(strings.Contains(got.header.Get("Access-Control-Allow-Methods"), "PUT"))
	is.True(strings.Contains(a.do(apiRequest{method: "GET", path: "/api/v1/notes", header: withHeader("Origin", "null")}).header.Get("Access-Control-Expose-Headers"), "ETag"))
}
