package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// outcomes are what became of each item: ok, or the code of its error.
func outcomes(got *apitest.Answer) string {
	var all []string
	for i := range got.At("data").([]any) {
		if one := fmt.Sprintf("data.%d.", i); got.At(one+"ok") == true {
			all = append(all, "ok")
		} else {
			all = append(all, got.Text(one+"code"))
		}
	}
	return strings.Join(all, " ")
}

// Many items of any kind are changed at once, each alone.
func TestBulk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	var ids, ats []string
	for at := range addOfEveryKind(t, a) {
		ids, ats = append(ids, at[strings.LastIndexByte(at, '/')+1:]), append(ats, at)
	}
	list := `["` + strings.Join(ids, `","`) + `"]`
	every := strings.TrimSpace(strings.Repeat("ok ", len(ids)))
	bulk := func(body string) string {
		t.Helper()
		return outcomes(a.Post("/api/v1/bulk", strings.ReplaceAll(body, "IDS", list)).Want(200))
	}
	is.Equal(bulk(`{"ids":IDS,"set":{"isFavorite":true,"isPublic":true,"addTags":["a","b"]}}`), every)
	is.Equal(bulk(`{"ids":IDS,"set":{"removeTags":["A"]}}`), every)
	for _, at := range ats {
		got := a.Get(at).Want(200)
		is.Equal(got.At("data.isFavorite"), true)
		is.Equal(got.At("data.isPublic"), true)
		is.Equal(len(got.At("data.tags").([]any)), 1)
	}
	folder := a.Post("/api/v1/folders", `{"name":"f"}`).Want(201).Text("data.id")
	moved := a.Post(
		"/api/v1/bulk", strings.ReplaceAll(`{"ids":IDS,"set":{"folderId":"`+folder+`","isFavorite":false}}`, "IDS", list),
	).Want(200)
	for i, at := range ats {
		is.Equal(moved.At(fmt.Sprintf("data.%d.id", i)), ids[i]) // in the order given
		isFile := strings.Contains(at, "/files/")
		is.Equal(moved.At(fmt.Sprintf("data.%d.ok", i)), isFile)
		is.Equal(a.Get(at).At("data.isFavorite"), !isFile) // what is refused changes nothing
		if isFile {
			is.Equal(a.Get(at).At("data.folder.id"), folder)
			is.Equal(bulk(`{"ids":["`+ids[i]+`"],"set":{"folderId":null}}`), "ok")
			is.Equal(a.Get(at).At("data.folder"), nil)
		} else {
			is.Equal(moved.At(fmt.Sprintf("data.%d.code", i)), "invalid_fields")
		}
	}

	is.NoErr(a.Server.Store.Flush()) // the first use of the key is noted before what follows
	is.Equal(bulk(`{"ids":IDS,"action":"trash"}`), every)
	is.Equal(a.Get("/api/v1/trash").At("total"), float64(len(ids)))
	is.Equal(bulk(`{"ids":IDS,"action":"trash"}`), strings.ReplaceAll(every, "ok", "not_found"))
	is.Equal(bulk(`{"ids":IDS,"action":"restore"}`), every)
	is.Equal(bulk(`{"ids":IDS,"action":"restore"}`), strings.ReplaceAll(every, "ok", "not_found"))
	is.Equal(a.Get("/api/v1/activity").Text("data.0.event"), "restored")
	is.Equal(a.Get("/api/v1/activity").At("data.0.count"), float64(len(ids)))

	const nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
	is.Equal(
		bulk(`{"ids":["`+ids[0]+`","`+nobody+`","`+ids[0]+`","`+ids[1]+`"],"set":{"isFavorite":true}}`), "ok not_found ok",
	)
	other := a.AddKey(a.AddUser("eve", "user"), "all")
	got := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/bulk", Key: other,
		JSON: strings.ReplaceAll(`{"ids":IDS,"action":"trash"}`, "IDS", list),
	}).Want(200)
	is.Equal(outcomes(got), strings.ReplaceAll(every, "ok", "not_found"))
}

// A request that is wrong as a whole changes nothing.
func TestBulkRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id := a.Post("/api/v1/notes", `{"content":""}`).Want(201).Text("data.id")
	for _, body := range []string{
		`{"ids":["ID"]}`, `{"ids":["ID"],"set":{}}`, `{"ids":["ID"],"set":null}`, `{"ids":["ID"],"set":{"isFavorite":true},"action":"trash"}`,
		`{"ids":["ID"],"action":"delete"}`, `{"set":{"isFavorite":true}}`, `{"ids":[],"set":{"isFavorite":true}}`, `{"ids":["x"],"set":{"isFavorite":true}}`,
		`{"ids":["ID"],"set":{"isFavourite":true}}`, `{"ids":["ID"],"set":{"isFavorite":true,"title":"x"}}`, `{"ids":["ID"],"set":{"isFavorite":null}}`,
		`{"ids":["ID"],"set":{"isFavorite":"maybe"}}`, `{"ids":["ID"],"set":{"isFavorite":true,"addTags":[""]}}`, `{"ids":["ID"],"set":[]}`,
	} {
		got := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/bulk", JSON: strings.ReplaceAll(body, "ID\"", id+"\"")})
		if got.Status != 422 {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
	is.True(strings.Contains(
		a.Post("/api/v1/bulk", `{"ids":["`+id+`"],"set":{"titel":"x"}}`).Want(422).Text("fields.set"), "titel",
	))
	many := strings.TrimSuffix(strings.Repeat(`"`+id+`",`, 501), ",")
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/bulk", JSON: `{"ids":[` + many + `],"set":{"isFavorite":true}}`,
	}).Want(422)
	is.Equal(a.Get("/api/v1/notes/"+id).At("data.isFavorite"), false)
}
