package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

var tagPaths = []string{"tags", "bookmark-tags", "note-tags", "snippet-tags", "recipe-tags", "shortlink-tags"}

// TestTagsAreOneStore makes tags under each of their names and looks under all others. What changes them has one name.
func TestTagsAreOneStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for i, at := range tagPaths {
		name := fmt.Sprint("Tag ", i)
		id := a.made("/api/v1/"+at, map[string]any{"name": name, "color": "#abc"})
		other := tagPaths[(i+1)%len(tagPaths)]
		is.Equal(a.post("/api/v1/"+other, map[string]any{"name": strings.ToUpper(name)}).want(409).text("code"), "tag_taken")
		is.Equal(a.patch("/api/v1/tags/"+id, `{"color":"123456"}`).want(200).text("data.name"), name)
		first := a.get("/api/v1/tags").want(200).body
		for _, at := range tagPaths {
			is.Equal(a.get("/api/v1/"+at).want(200).body, first)
		}
		last := a.made("/api/v1/"+other, `{"name":"last"}`)
		is.Equal(a.post("/api/v1/tags/"+id+"/merge", `{"into":"`+last+`"}`).want(200).text("data.id"), last)
		a.delete("/api/v1/tags/" + last).want(200)
		is.Equal(string(a.get("/api/v1/"+other).want(200).body), "[]")
	}
}

func TestTagNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	made := a.post("/api/v1/tags", `{"name":"  Straße \t und\u2003Weg "}`).want(201)
	is.Equal(made.text("data.name"), "Straße und Weg")
	is.Equal(made.text("data.color"), record.ColorOf("straße und weg"))
	is.Equal(made.at("data.count"), 0.0)
	id := made.text("data.id")
	for _, same := range []string{"straße und weg", "STRASSE UND WEG", "Straße  und Weg", "Strasse Und Weg"} {
		a.refused(apiRequest{method: "POST", path: "/api/v1/tags", json: map[string]any{"name": same}}, 409)
		got := a.post("/api/v1/notes", map[string]any{"content": "x", "tags": []string{same, "straße und weg"}}).want(201)
		is.Equal(fmt.Sprint(got.at("data.tags")), "[Straße und Weg]") // as first written, once
	}
	is.Equal(a.tags(), []string{"Straße und Weg"})
	// É as one character and as two are one name.
	a.post("/api/v1/notes", `{"content":"x","tags":["Caf\u00e9","CAFE\u0301"]}`).want(201)
	is.Equal(a.tags(), []string{"Café", "Straße und Weg"})

	for _, bad := range []any{"", " ", "\u2003", chars(65), "a,b", "a\x00", "a\x07", "a\u202eb", 5, true, []any{"a"}, nil} {
		is.Equal(a.refused(apiRequest{method: "POST", path: "/api/v1/tags", json: map[string]any{"name": bad}}, 422).fields(), []string{"name"})
		is.Equal(a.refused(apiRequest{method: "PATCH", path: "/api/v1/tags/" + id, json: map[string]any{"name": bad}}, 422).fields(), []string{"name"})
	}
	a.made("/api/v1/tags", map[string]any{"name": chars(64)})
	is.Equal(a.refused(apiRequest{method: "PATCH", path: "/api/v1/tags/" + id, json: `{"name":"café"}`}, 409).text("code"), "tag_taken")
	is.Equal(a.patch("/api/v1/tags/"+id, `{"name":"strasse und WEG"}`).want(200).text("data.name"), "strasse und WEG") // its own name in another case
}

// TestTagsOfRecords: a new name shows on all records, counts follow, and a
// tag that goes leaves the records.
func TestTagsOfRecords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for k, body := range whole {
		create := parse(t, body)
		create["tags"] = []any{"One", "two"}
		a.post("/api/v1/"+k.Path, create).want(201)
	}
	up := a.upload(map[string]string{"newTags": "one, Two", "slug": "f"}, file{"a.txt", "", "x"}).want(201)
	is.Equal(fmt.Sprint(up.text("tags.0.name"), up.text("tags.1.name")), "Onetwo")
	tag := func(name string) map[string]any {
		t.Helper()
		all := a.get("/api/v1/tags").want(200)
		for i := range 2 {
			if o := all.object(fmt.Sprint(i)); o["name"] == name {
				return o
			}
		}
		t.Fatalf("no tag %s", name)
		return nil
	}
	shows := func(want ...string) {
		t.Helper()
		for k := range whole {
			is.Equal(fmt.Sprint(a.get("/api/v1/"+k.Path).at("data.0.tags")), fmt.Sprint(want))
		}
		var names []string
		for i := range want {
			names = append(names, a.get("/api/v1/files/f").text(fmt.Sprint("data.tags.", i, ".name")))
		}
		is.Equal(names, append([]string(nil), want...))
	}
	one, two := tag("One"), tag("two")
	n := len(record.Kinds)
	is.Equal(fmt.Sprint(one["count"]), fmt.Sprint(n))
	for _, k := range record.Kinds {
		is.Equal(fmt.Sprint(one["counts"].(map[string]any)[k.Name]), "1")
	}
	got := a.patch("/api/v1/tags/"+one["id"].(string), `{"name":"Uno","color":"#010203"}`).want(200)
	is.Equal(got.at("data.count"), float64(n))
	shows("Uno", "two")
	is.Equal(a.get("/api/v1/files/f").text("data.tags.0.color"), "#010203")
	is.Equal(a.get("/api/v1/notes?tag=uno").at("total"), 1.0)
	is.Equal(a.get("/api/v1/notes?tag=one").at("total"), 0.0)

	// Merged, a record has the other tag once.
	a.post("/api/v1/notes", `{"content":"x","tags":["two"]}`).want(201)
	got = a.post("/api/v1/tags/"+two["id"].(string)+"/merge", `{"into":"`+one["id"].(string)+`"}`).want(200)
	is.Equal(got.at("data.count"), float64(n+1))
	is.Equal(got.at("data.counts.note"), 2.0)
	shows("Uno")
	is.Equal(a.tags(), []string{"Uno"})
	a.patch("/api/v1/tags/"+two["id"].(string), `{}`).want(404)

	a.patch("/api/v1/notes/"+a.get("/api/v1/notes").ids()[0], `{"tags":[]}`).want(200)
	is.Equal(fmt.Sprint(tag("Uno")["count"]), fmt.Sprint(n))
	a.delete("/api/v1/files/f").want(200)
	is.Equal(fmt.Sprint(tag("Uno")["count"]), fmt.Sprint(n-1))
	a.upload(map[string]string{"newTags": "Uno", "slug": "f"}, file{"a.txt", "", "x"}).want(201)

	a.delete("/api/v1/tags/" + one["id"].(string)).want(200)
	a.delete("/api/v1/tags/" + one["id"].(string)).want(404)
	is.Equal(a.tags(), []string{})
	is.Equal(a.get("/api/v1/notes").at("total"), 2.0) // what had it stays
	a.delete("/api/v1/notes/" + a.get("/api/v1/notes").ids()[0]).want(200)
	is.Equal(fmt.Sprint(a.get("/api/v1/files/f").at("data.tags")), "[]")
}

func TestBadMerges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/notes", `{"content":"x","tags":["one"]}`).want(201)
	id := a.get("/api/v1/tags").text("0.id")
	for _, body := range []string{
		`{}`, `{"into":null}`, `{"into":""}`, `{"into":5}`, `{"into":"one"}`, `{"into":"` + id + `"}`, `{"into":"01890a5d-ac96-774b-bcce-b302099a8057"}`,
		`{"into":"00000000-0000-0000-0000-000000000000"}`, `{"into":["` + id + `"]}`,
	} {
		is.Equal(a.refused(apiRequest{method: "POST", path: "/api/v1/tags/" + id + "/merge", json: body}, 422).fields(), []string{"into"})
	}
	a.refused(apiRequest{method: "POST", path: "/api/v1/tags/01890a5d-ac96-774b-bcce-b302099a8057/merge", json: `{"into":"` + id + `"}`}, 404)
}

func TestFolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	made := a.post("/api/v1/folders", `{"name":"  Holi \t days ","color":"abc"}`).want(201)
	id := made.text("data.id")
	is.Equal(made.text("data.name"), "Holi days")
	is.Equal(made.text("data.color"), "#AABBCC")
	is.Equal(made.at("data.count"), 0.0)
	a.refused(apiRequest{method: "POST", path: "/api/v1/folders", json: `{"name":"HOLI DAYS"}`}, 409)
	for _, bad := range []any{"", " ", chars(513), "a\x00", "a\x07", 5, true, nil} {
		is.Equal(a.refused(apiRequest{method: "POST", path: "/api/v1/folders", json: map[string]any{"name": bad}}, 422).fields(), []string{"name"})
		is.Equal(a.refused(apiRequest{method: "PATCH", path: "/api/v1/folders/" + id, json: map[string]any{"name": bad}}, 422).fields(), []string{"name"})
	}
	up := a.upload(map[string]string{"folderId": id}, file{"a.txt", "", "x"}).want(201)
	is.Equal(up.text("folder.name"), "Holi days")
	is.Equal(a.upload(map[string]string{"folderName": "holi  DAYS"}, file{"b.txt", "", "x"}).want(201).text("folder.id"), id)
	other := a.upload(map[string]string{"folderName": "New"}, file{"c.txt", "", "x"}).want(201).text("folder.id")
	is.Equal(a.get("/api/v1/folders").at("total"), 2.0)
	is.Equal(a.get("/api/v1/folders").at("data.1.count"), 2.0)
	is.Equal(a.patch("/api/v1/folders/"+id, `{"name":"Trips"}`).want(200).at("data.count"), 2.0)
	is.Equal(a.refused(apiRequest{method: "PATCH", path: "/api/v1/folders/" + id, json: `{"name":"new"}`}, 409).text("code"), "folder_taken")
	path := "/api/v1/files/" + up.text("id")
	is.Equal(a.get(path).text("data.folder.name"), "Trips")
	is.Equal(a.patch(path, `{"folderId":"`+other+`"}`).want(200).text("data.folder.name"), "New")
	is.Equal(a.patch(path, `{"description":"d"}`).want(200).text("data.folder.name"), "New") // absent keeps
	is.Equal(a.patch(path, `{"folderId":null}`).want(200).at("data.folder"), nil)
	is.Equal(a.patch(path, `{"folderName":"trips"}`).want(200).text("data.folder.id"), id)
	a.delete("/api/v1/folders/" + id).want(200)
	a.delete("/api/v1/folders/" + id).want(404)
	is.Equal(a.get(path).at("data.folder"), nil) // its files stay
	is.Equal(a.get("/api/v1/files").at("total"), 3.0)
	is.Equal(a.get("/api/v1/files?folder=unfiled").at("total"), 2.0)
	// A name that looks like an id is a name all the same.
	named := a.made("/api/v1/folders", `{"name":"01890a5dac96774bbcceb302099a8057"}`)
	a.upload(map[string]string{"folderId": named}, file{"d.txt", "", "x"}).want(201)
	is.Equal(a.get("/api/v1/files?folder=01890a5dac96774bbcceb302099a8057").at("total"), 1.0)
}

// TestTagsOfFiles: a file's tags are changed by id, by name, or as a whole.
func TestTagsOfFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	x, y := a.made("/api/v1/tags", `{"name":"x"}`), a.made("/api/v1/tags", `{"name":"y"}`)
	up := a.upload(map[string]string{"tagIds": `["` + x + `"]`, "newTags": "Z, ,X"}, file{"a.txt", "", "x"}).want(201)
	path := "/api/v1/files/" + up.text("id")
	names := func(g *answer) (all []string) {
		for _, tag := range g.at("data.tags").([]any) {
			all = append(all, tag.(map[string]any)["name"].(string))
		}
		return all
	}
	is.Equal(names(a.get(path)), []string{"Z", "x"})
	is.Equal(names(a.patch(path, map[string]any{"addTagIds": []string{strings.ToUpper(y), x}}).want(200)), []string{"Z", "x", "y"})
	is.Equal(names(a.patch(path, map[string]any{"removeTagIds": []string{x}}).want(200)), []string{"Z", "y"})
	is.Equal(names(a.patch(path, map[string]any{"addTagIds": []string{x}, "removeTagIds": []string{y, x}}).want(200)), []string{"Z"})
	is.Equal(names(a.patch(path, `{"tags":["new","Y"]}`).want(200)), []string{"new", "y"})
	is.Equal(names(a.do(apiRequest{method: "PATCH", path: path, raw: true, json: `{"tags":[{"name":"x"},"z"]}`}).want(200)), []string{"x", "Z"})
	for _, bad := range []string{`[{}]`, `[{"name":5}]`, `[{"name":""}]`, `[["x"]]`, `[null]`} {
		is.Equal(a.refused(apiRequest{method: "PATCH", path: path, json: `{"tags":` + bad + `}`}, 422).fields(), []string{"tags"})
	}
	is.Equal(names(a.patch(path, `{"tags":null}`).want(200)), nil)
}
