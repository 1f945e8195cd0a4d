package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/record"
)

var tagPaths = []string{"tags", "bookmark-tags", "note-tags", "snippet-tags", "recipe-tags", "shortlink-tags"}

// TestTagsAreOneStore makes tags under each of their names and looks under all others. What changes them has one name.
func TestTagsAreOneStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for i, at := range tagPaths {
		name := fmt.Sprint("Tag ", i)
		id := a.Made("/api/v1/"+at, map[string]any{"name": name, "color": "#abc"})
		other := tagPaths[(i+1)%len(tagPaths)]
		is.Equal(a.Post("/api/v1/"+other, map[string]any{"name": strings.ToUpper(name)}).Want(409).Text("code"), "tag_taken")
		is.Equal(a.Patch("/api/v1/tags/"+id, `{"color":"123456"}`).Want(200).Text("data.name"), name)
		first := a.Get("/api/v1/tags").Want(200).Body
		for _, at := range tagPaths {
			is.Equal(a.Get("/api/v1/"+at).Want(200).Body, first)
		}
		last := a.Made("/api/v1/"+other, `{"name":"last"}`)
		is.Equal(a.Post("/api/v1/tags/"+id+"/merge", `{"into":"`+last+`"}`).Want(200).Text("data.id"), last)
		a.Delete("/api/v1/tags/" + last).Want(200)
		is.Equal(string(a.Get("/api/v1/"+other).Want(200).Body), "[]")
	}
}

func TestTagNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Post("/api/v1/tags", `{"name":"  Straße \t und\u2003Weg "}`).Want(201)
	is.Equal(made.Text("data.name"), "Straße und Weg")
	is.Equal(made.Text("data.color"), record.ColorOf("straße und weg"))
	is.Equal(made.At("data.count"), 0.0)
	id := made.Text("data.id")
	for _, same := range []string{"straße und weg", "STRASSE UND WEG", "Straße  und Weg", "Strasse Und Weg"} {
		a.Refused(apitest.Request{Method: "POST", Path: "/api/v1/tags", JSON: map[string]any{"name": same}}, 409)
		got := a.Post("/api/v1/notes", map[string]any{"content": "x", "tags": []string{same, "straße und weg"}}).Want(201)
		is.Equal(fmt.Sprint(got.At("data.tags")), "[Straße und Weg]") // as first written, once
	}
	is.Equal(a.Tags(), []string{"Straße und Weg"})
	// É as one character and as two are one name.
	a.Post("/api/v1/notes", `{"content":"x","tags":["Caf\u00e9","CAFE\u0301"]}`).Want(201)
	is.Equal(a.Tags(), []string{"Café", "Straße und Weg"})

	for _, bad := range []any{
		"", " ", "\u2003", chars(65), "a,b", "a\x00", "a\x07", "a\u202eb", 5, true, []any{"a"}, nil,
	} {
		is.Equal(
			a.Refused(apitest.Request{Method: "POST", Path: "/api/v1/tags", JSON: map[string]any{"name": bad}}, 422).Fields(),
			[]string{"name"},
		)
		is.Equal(
			a.Refused(
				apitest.Request{Method: "PATCH", Path: "/api/v1/tags/" + id, JSON: map[string]any{"name": bad}}, 422,
			).Fields(),
			[]string{"name"},
		)
	}
	a.Made("/api/v1/tags", map[string]any{"name": chars(64)})
	is.Equal(
		a.Refused(apitest.Request{Method: "PATCH", Path: "/api/v1/tags/" + id, JSON: `{"name":"café"}`}, 409).Text("code"),
		"tag_taken",
	)
	// its own name in another case
	is.Equal(a.Patch("/api/v1/tags/"+id, `{"name":"strasse und WEG"}`).Want(200).Text("data.name"), "strasse und WEG")
}

// TestTagsOfRecords: a new name shows on all records, counts follow, and a
// tag that goes leaves the records.
func TestTagsOfRecords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for k, body := range apitest.Whole {
		create := apitest.Parse(t, body)
		create["tags"] = []any{"One", "two"}
		a.Post("/api/v1/"+k.Path, create).Want(201)
	}
	up := a.Upload(map[string]string{"newTags": "one, Two", "slug": "f"}, apitest.File("a.txt", "", "x")).Want(201)
	is.Equal(fmt.Sprint(up.Text("tags.0.name"), up.Text("tags.1.name")), "Onetwo")
	tag := func(name string) map[string]any {
		t.Helper()
		all := a.Get("/api/v1/tags").Want(200)
		for i := range 2 {
			if o := all.Object(fmt.Sprint(i)); o["name"] == name {
				return o
			}
		}
		t.Fatalf("no tag %s", name)
		return nil
	}
	shows := func(want ...string) {
		t.Helper()
		for k := range apitest.Whole {
			is.Equal(fmt.Sprint(a.Get("/api/v1/"+k.Path).At("data.0.tags")), fmt.Sprint(want))
		}
		var names []string
		for i := range want {
			names = append(names, a.Get("/api/v1/files/f").Text(fmt.Sprint("data.tags.", i, ".name")))
		}
		is.Equal(names, append([]string(nil), want...))
	}
	one, two := tag("One"), tag("two")
	n := len(record.Kinds)
	is.Equal(fmt.Sprint(one["count"]), fmt.Sprint(n))
	for _, k := range record.Kinds {
		is.Equal(fmt.Sprint(one["counts"].(map[string]any)[k.Name]), "1")
	}
	got := a.Patch("/api/v1/tags/"+one["id"].(string), `{"name":"Uno","color":"#010203"}`).Want(200)
	is.Equal(got.At("data.count"), float64(n))
	shows("Uno", "two")
	is.Equal(a.Get("/api/v1/files/f").Text("data.tags.0.color"), "#010203")
	is.Equal(a.Get("/api/v1/notes?tag=uno").At("total"), 1.0)
	is.Equal(a.Get("/api/v1/notes?tag=one").At("total"), 0.0)

	// Merged, a record has the other tag once.
	a.Post("/api/v1/notes", `{"content":"x","tags":["two"]}`).Want(201)
	got = a.Post("/api/v1/tags/"+two["id"].(string)+"/merge", `{"into":"`+one["id"].(string)+`"}`).Want(200)
	is.Equal(got.At("data.count"), float64(n+1))
	is.Equal(got.At("data.counts.note"), 2.0)
	shows("Uno")
	is.Equal(a.Tags(), []string{"Uno"})
	a.Patch("/api/v1/tags/"+two["id"].(string), `{}`).Want(404)

	a.Patch("/api/v1/notes/"+a.Get("/api/v1/notes").IDs()[0], `{"tags":[]}`).Want(200)
	is.Equal(fmt.Sprint(tag("Uno")["count"]), fmt.Sprint(n))
	a.Delete("/api/v1/files/f").Want(200)
	is.Equal(fmt.Sprint(tag("Uno")["count"]), fmt.Sprint(n-1))
	a.Upload(map[string]string{"newTags": "Uno", "slug": "f"}, apitest.File("a.txt", "", "x")).Want(201)

	a.Delete("/api/v1/tags/" + one["id"].(string)).Want(200)
	a.Delete("/api/v1/tags/" + one["id"].(string)).Want(404)
	is.Equal(a.Tags(), []string{})
	is.Equal(a.Get("/api/v1/notes").At("total"), 2.0) // what had it stays
	a.Delete("/api/v1/notes/" + a.Get("/api/v1/notes").IDs()[0]).Want(200)
	is.Equal(fmt.Sprint(a.Get("/api/v1/files/f").At("data.tags")), "[]")
}

func TestBadMerges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", `{"content":"x","tags":["one"]}`).Want(201)
	id := a.Get("/api/v1/tags").Text("0.id")
	for _, body := range []string{
		`{}`, `{"into":null}`, `{"into":""}`, `{"into":5}`, `{"into":"one"}`, `{"into":"` + id + `"}`, `{"into":"01890a5d-ac96-774b-bcce-b302099a8057"}`,
		`{"into":"00000000-0000-0000-0000-000000000000"}`, `{"into":["` + id + `"]}`,
	} {
		is.Equal(
			a.Refused(apitest.Request{Method: "POST", Path: "/api/v1/tags/" + id + "/merge", JSON: body}, 422).Fields(),
			[]string{"into"},
		)
	}
	a.Refused(
		apitest.Request{
			Method: "POST", Path: "/api/v1/tags/01890a5d-ac96-774b-bcce-b302099a8057/merge", JSON: `{"into":"` + id + `"}`,
		},
		404,
	)
}

func TestFolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Post("/api/v1/folders", `{"name":"  Holi \t days ","color":"abc"}`).Want(201)
	id := made.Text("data.id")
	is.Equal(made.Text("data.name"), "Holi days")
	is.Equal(made.Text("data.color"), "#AABBCC")
	is.Equal(made.At("data.count"), 0.0)
	a.Refused(apitest.Request{Method: "POST", Path: "/api/v1/folders", JSON: `{"name":"HOLI DAYS"}`}, 409)
	for _, bad := range []any{"", " ", chars(513), "a\x00", "a\x07", 5, true, nil} {
		is.Equal(
			a.Refused(apitest.Request{Method: "POST", Path: "/api/v1/folders", JSON: map[string]any{"name": bad}}, 422).Fields(),
			[]string{"name"},
		)
		is.Equal(
			a.Refused(
				apitest.Request{Method: "PATCH", Path: "/api/v1/folders/" + id, JSON: map[string]any{"name": bad}}, 422,
			).Fields(),
			[]string{"name"},
		)
	}
	up := a.Upload(map[string]string{"folderId": id}, apitest.File("a.txt", "", "x")).Want(201)
	is.Equal(up.Text("folder.name"), "Holi days")
	is.Equal(
		a.Upload(map[string]string{"folderName": "holi  DAYS"}, apitest.File("b.txt", "", "x")).Want(201).Text("folder.id"),
		id,
	)
	other := a.Upload(map[string]string{"folderName": "New"}, apitest.File("c.txt", "", "x")).Want(201).Text("folder.id")
	is.Equal(a.Get("/api/v1/folders").At("total"), 2.0)
	is.Equal(a.Get("/api/v1/folders").At("data.1.count"), 2.0)
	is.Equal(a.Patch("/api/v1/folders/"+id, `{"name":"Trips"}`).Want(200).At("data.count"), 2.0)
	is.Equal(
		a.Refused(apitest.Request{Method: "PATCH", Path: "/api/v1/folders/" + id, JSON: `{"name":"new"}`}, 409).Text("code"),
		"folder_taken",
	)
	path := "/api/v1/files/" + up.Text("id")
	is.Equal(a.Get(path).Text("data.folder.name"), "Trips")
	is.Equal(a.Patch(path, `{"folderId":"`+other+`"}`).Want(200).Text("data.folder.name"), "New")
	is.Equal(a.Patch(path, `{"description":"d"}`).Want(200).Text("data.folder.name"), "New") // absent keeps
	is.Equal(a.Patch(path, `{"folderId":null}`).Want(200).At("data.folder"), nil)
	is.Equal(a.Patch(path, `{"folderName":"trips"}`).Want(200).Text("data.folder.id"), id)
	a.Delete("/api/v1/folders/" + id).Want(200)
	a.Delete("/api/v1/folders/" + id).Want(404)
	is.Equal(a.Get(path).At("data.folder"), nil) // its files stay
	is.Equal(a.Get("/api/v1/files").At("total"), 3.0)
	is.Equal(a.Get("/api/v1/files?folder=unfiled").At("total"), 2.0)
	// A name that looks like an id is a name all the same.
	named := a.Made("/api/v1/folders", `{"name":"01890a5dac96774bbcceb302099a8057"}`)
	a.Upload(map[string]string{"folderId": named}, apitest.File("d.txt", "", "x")).Want(201)
	is.Equal(a.Get("/api/v1/files?folder=01890a5dac96774bbcceb302099a8057").At("total"), 1.0)
}

// TestTagsOfFiles: a file's tags are changed by id, by name, or as a whole.
func TestTagsOfFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	x, y := a.Made("/api/v1/tags", `{"name":"x"}`), a.Made("/api/v1/tags", `{"name":"y"}`)
	up := a.Upload(
		map[string]string{"tagIds": `["` + x + `"]`, "newTags": "Z, ,X"}, apitest.File("a.txt", "", "x"),
	).Want(201)
	path := "/api/v1/files/" + up.Text("id")
	names := func(g *apitest.Answer) (all []string) {
		for _, tag := range g.At("data.tags").([]any) {
			all = append(all, tag.(map[string]any)["name"].(string))
		}
		return all
	}
	is.Equal(names(a.Get(path)), []string{"Z", "x"})
	is.Equal(
		names(a.Patch(path, map[string]any{"addTagIds": []string{strings.ToUpper(y), x}}).Want(200)), []string{"Z", "x", "y"},
	)
	is.Equal(names(a.Patch(path, map[string]any{"removeTagIds": []string{x}}).Want(200)), []string{"Z", "y"})
	is.Equal(
		names(a.Patch(path, map[string]any{"addTagIds": []string{x}, "removeTagIds": []string{y, x}}).Want(200)),
		[]string{"Z"},
	)
	is.Equal(names(a.Patch(path, `{"tags":["new","Y"]}`).Want(200)), []string{"new", "y"})
	is.Equal(
		names(a.Do(apitest.Request{Method: "PATCH", Path: path, Raw: true, JSON: `{"tags":[{"name":"x"},"z"]}`}).Want(200)),
		[]string{"x", "Z"},
	)
	for _, bad := range []string{`[{}]`, `[{"name":5}]`, `[{"name":""}]`, `[["x"]]`, `[null]`} {
		is.Equal(
			a.Refused(apitest.Request{Method: "PATCH", Path: path, JSON: `{"tags":` + bad + `}`}, 422).Fields(),
			[]string{"tags"},
		)
	}
	is.Equal(names(a.Patch(path, `{"tags":null}`).Want(200)), nil)
}
