package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// outcomes are what became of each item: ok, or the code of its error.
func outcomes(got *answer) string {
	var all []string
	for i := range got.at("data").([]any) {
		if one := fmt.Sprintf("data.%d.", i); got.at(one+"ok") == true {
			all = append(all, "ok")
		} else {
			all = append(all, got.text(one+"code"))
		}
	}
	return strings.Join(all, " ")
}

// Many items of any kind are changed at once, each alone.
func TestBulk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	var ids, ats []string
	for at := range addOfEveryKind(t, a) {
		ids, ats = append(ids, at[strings.LastIndexByte(at, '/')+1:]), append(ats, at)
	}
	list := `["` + strings.Join(ids, `","`) + `"]`
	every := strings.TrimSpace(strings.Repeat("ok ", len(ids)))
	bulk := func(body string) string {
		t.Helper()
		return outcomes(a.post("/api/v1/bulk", strings.ReplaceAll(body, "IDS", list)).want(200))
	}
	is.Equal(bulk(`{"ids":IDS,"set":{"isFavorite":true,"isPublic":true,"addTags":["a","b"]}}`), every)
	is.Equal(bulk(`{"ids":IDS,"set":{"removeTags":["A"]}}`), every)
	for _, at := range ats {
		got := a.get(at).want(200)
		is.Equal(got.at("data.isFavorite"), true)
		is.Equal(got.at("data.isPublic"), true)
		is.Equal(len(got.at("data.tags").([]any)), 1)
	}
	folder := a.post("/api/v1/folders", `{"name":"f"}`).want(201).text("data.id")
	moved := a.post("/api/v1/bulk", strings.ReplaceAll(`{"ids":IDS,"set":{"folderId":"`+folder+`","isFavorite":false}}`, "IDS", list)).want(200)
	for i, at := range ats {
		is.Equal(moved.at(fmt.Sprintf("data.%d.id", i)), ids[i]) // in the order given
		isFile := strings.Contains(at, "/files/")
		is.Equal(moved.at(fmt.Sprintf("data.%d.ok", i)), isFile)
		is.Equal(a.get(at).at("data.isFavorite"), !isFile) // what is refused changes nothing
		if isFile {
			is.Equal(a.get(at).at("data.folder.id"), folder)
			is.Equal(bulk(`{"ids":["`+ids[i]+`"],"set":{"folderId":null}}`), "ok")
			is.Equal(a.get(at).at("data.folder"), nil)
		} else {
			is.Equal(moved.at(fmt.Sprintf("data.%d.code", i)), "invalid_fields")
		}
	}

	is.Equal(bulk(`{"ids":IDS,"action":"trash"}`), every)
	is.Equal(a.get("/api/v1/trash").at("total"), float64(len(ids)))
	is.Equal(bulk(`{"ids":IDS,"action":"trash"}`), strings.ReplaceAll(every, "ok", "not_found"))
	is.Equal(bulk(`{"ids":IDS,"action":"restore"}`), every)
	is.Equal(bulk(`{"ids":IDS,"action":"restore"}`), strings.ReplaceAll(every, "ok", "not_found"))
	is.Equal(a.get("/api/v1/activity").text("data.0.event"), "restored")
	is.Equal(a.get("/api/v1/activity").at("data.0.count"), float64(len(ids)))

	const nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
	is.Equal(bulk(`{"ids":["`+ids[0]+`","`+nobody+`","`+ids[0]+`","`+ids[1]+`"],"set":{"isFavorite":true}}`), "ok not_found ok")
	other := a.addKey(a.addUser("eve", "user"), "all")
	got := a.do(apiRequest{method: "POST", path: "/api/v1/bulk", key: other, json: strings.ReplaceAll(`{"ids":IDS,"action":"trash"}`, "IDS", list)}).want(200)
	is.Equal(outcomes(got), strings.ReplaceAll(every, "ok", "not_found"))
}

// A request that is wrong as a whole changes nothing.
func TestBulkRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id := a.post("/api/v1/notes", `{"content":""}`).want(201).text("data.id")
	for _, body := range []string{
		`{"ids":["ID"]}`, `{"ids":["ID"],"set":{}}`, `{"ids":["ID"],"set":null}`, `{"ids":["ID"],"set":{"isFavorite":true},"action":"trash"}`,
		`{"ids":["ID"],"action":"delete"}`, `{"set":{"isFavorite":true}}`, `{"ids":[],"set":{"isFavorite":true}}`, `{"ids":["x"],"set":{"isFavorite":true}}`,
		`{"ids":["ID"],"set":{"isFavourite":true}}`, `{"ids":["ID"],"set":{"isFavorite":true,"title":"x"}}`, `{"ids":["ID"],"set":{"isFavorite":null}}`,
		`{"ids":["ID"],"set":{"isFavorite":"maybe"}}`, `{"ids":["ID"],"set":{"isFavorite":true,"addTags":[""]}}`, `{"ids":["ID"],"set":[]}`,
	} {
		got := a.do(apiRequest{method: "POST", path: "/api/v1/bulk", json: strings.ReplaceAll(body, "ID\"", id+"\"")})
		if got.status != 422 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	is.True(strings.Contains(a.post("/api/v1/bulk", `{"ids":["`+id+`"],"set":{"titel":"x"}}`).want(422).text("fields.set"), "titel"))
	many := strings.TrimSuffix(strings.Repeat(`"`+id+`",`, 501), ",")
	a.do(apiRequest{method: "POST", path: "/api/v1/bulk", json: `{"ids":[` + many + `],"set":{"isFavorite":true}}`}).want(422)
	is.Equal(a.get("/api/v1/notes/"+id).at("data.isFavorite"), false)
}
