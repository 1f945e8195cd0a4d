package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/people"
)

// No operation for a known caller takes a parameter that its row does not declare.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	for _, r := range a.Server.Routes() {
		if !strings.HasPrefix(r.Path, web.APIPath) || r.Access.Open || r.Access.Operator || r.Access.Browser {
			continue
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		got := a.Do(apitest.Request{
			Method: r.Method, Path: path + "?favourite=true", Raw: true, Header: apitest.WithHeader("Tus-Resumable", "1.0.0"),
		})
		if got.Status != 400 || !strings.Contains(string(got.Body), "favourite") {
			t.Errorf("%s %s: %d %s", r.Method, path, got.Status, apitest.CutText(got.Body))
		}
	}
	for _, open := range []string{"/api/v1/openapi?x=1", "/api/v1/captcha/challenge?x=1", "/about?utm_source=x"} {
		a.Do(apitest.Request{Method: "GET", Path: open, Anyone: true}).Want(200)
	}
	for _, kept := range []string{"limit=1&offset=1", "limit=1", "favorite=1", "public=false"} {
		a.Get("/api/v1/notes?" + kept).Want(200)
	}
	for _, whole := range []string{"tags", "note-tags", "folders", "keys"} {
		a.Get("/api/v1/" + whole + "?limit=500&offset=0").Want(200)
	}
}

func TestListFiltersByMemberNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", `{"content":"a","isPublic":true}`).Want(201)
	a.Post("/api/v1/notes", `{"content":"b","isFavorite":true}`).Want(201)
	for query, want := range map[string]float64{
		"isPublic=true": 1, "isPublic=false": 1, "isFavorite=1": 1, "isPublic=true&isFavorite=true": 0,
		"isPublic=true&public=true": 1,
	} {
		got := a.Get("/api/v1/notes?" + query).Want(200)
		is.Equal(got.At("total"), want)
		is.Equal(len(got.At("data").([]any)), int(want))
	}
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes?isPublic=maybe", Raw: true}).Want(400)
}

func TestUpdatedSince(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	first := a.Post("/api/v1/notes", `{"content":"a"}`).Want(201)
	at, err := time.Parse(time.RFC3339, first.Text("data.updatedAt"))
	is.NoErr(err)
	since := func(at time.Time) string {
		return "/api/v1/notes?updatedSince=" + at.Format("2006-01-02T15:04:05.000Z")
	}
	for _, sort := range []string{"", "&sort=oldest", "&sort=updated", "&sort=title", "&limit=1", "&q=a"} {
		is.Equal(a.Get(since(at)+sort).Want(200).At("total"), float64(1)) // the time itself counts
		is.Equal(a.Get(since(at.Add(time.Millisecond))+sort).Want(200).At("total"), float64(0))
	}
	for text, want := range map[string]float64{
		at.Format("20060102T150405.000Z"):                                              1,
		at.Format("2006-01-02"):                                                        1,
		at.AddDate(0, 0, 1).Format("2006-01-02"):                                       0,
		at.Add(-time.Minute).Format("2006-01-02T15:04Z"):                               1,
		at.In(time.FixedZone("", -7*3600)).Format("2006-01-02T15:04:05.000-0700"):      1,
		at.In(time.FixedZone("", 5*3600+1800)).Format("2006-01-02T15:04:05.000Z07:00"): 1,
	} {
		path := "/api/v1/notes?updatedSince=" + url.QueryEscape(text)
		if got := a.Do(apitest.Request{Method: "GET", Path: path, Raw: true}); got.At("total") != want {
			t.Errorf("%s: %d %s", text, got.Status, apitest.CutText(got.Body))
		}
	}
	for _, text := range []string{"yesterday", "2026-01-31T12:00:00", "1893456000", "2026-02-30"} {
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes?updatedSince=" + text, Raw: true}).Want(400)
	}
}

// A client may ask to be refused rather than misunderstood.
func TestStrictMembers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	send := func(prefer, method, path, body string) *apitest.Answer {
		t.Helper()
		return a.Do(apitest.Request{
			Method: method, Path: path, JSON: body, Raw: true, Header: apitest.WithHeader("Prefer", prefer),
		})
	}
	const misspelt = `{"content":"","expiresIn":3600,"titel":"x"}`
	for _, prefer := range []string{"handling=strict", `respond-async, Handling="STRICT"; x=1`} {
		got := send(prefer, "POST", "/api/v1/notes", misspelt).Want(422)
		is.Equal(got.At("fields"), map[string]any{"expiresIn": "is not known here", "titel": "is not known here"})
	}
	for _, prefer := range []string{"", "handling=lenient", "return=minimal"} {
		send(prefer, "POST", "/api/v1/notes", misspelt).Want(201)
	}
	send("handling=strict", "POST", "/api/v1/collections", `{"title":"a","source":{"folder":"x"}}`).Want(422)
	at := "/api/v1/notes/" + send(
		"handling=strict", "POST", "/api/v1/notes", `{"content":"","tags":["a"]}`,
	).Want(201).Text("data.id")
	send("handling=strict", "PATCH", at, `{"newSlug":"x"}`).Want(422)
	send("handling=strict", "PATCH", at, `{"slug":"some-slug","addTags":["b"],"keepVersion":true}`).Want(200)
	send("handling=strict", "POST", "/api/v1/tags", `{"name":"c","colour":"#fff"}`).Want(422)
}

// Every door for fields keeps the rule, and says that it did.
func TestStrictForms(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	_, link := a.Ask(map[string]any{"title": "Photos", "requiresApproval": false})
	file := a.Upload(nil, apitest.Part{Name: "a.txt", Content: "a"}).Want(201).Text("slug")
	sending := web.RequestsPath + "/p/" + link
	form := func(method, path string, colour bool) apitest.Request {
		fields := map[string]string{}
		if colour {
			fields["colour"] = "red"
		}
		q := a.UploadRequest(fields, apitest.Part{Name: "b.html", Content: "<DL><p></DL>"})
		q.Method, q.Path, q.Anyone = method, path, strings.HasPrefix(path, sending)
		return q
	}
	tus := func(_, path string, colour bool) apitest.Request {
		metadata := "filename YS50eHQ=,filetype YQ=="
		if colour {
			metadata += ",colour cmVk"
		}
		return apitest.Request{Method: "POST", Path: path, Anyone: strings.HasPrefix(path, sending), Header: http.Header{
			"Tus-Resumable": {"1.0.0"}, "Upload-Length": {"1"}, "Upload-Metadata": {metadata},
		}}
	}
	remote := func(body string) func(_, path string, colour bool) apitest.Request {
		return func(_, path string, colour bool) apitest.Request {
			more := ""
			if colour {
				more = `,"colour":"red"`
			}
			return apitest.Request{Method: "POST", Path: path, JSON: strings.Replace(body, "MORE", more, 1)}
		}
	}

	for _, door := range []struct {
		method, path string
		request      func(method, path string, colour bool) apitest.Request
		field        string // that has the problem
	}{
		{"POST", "/api/v1/upload", form, "colour"},
		{"POST", "/api/v1/import", form, "colour"},
		{"PUT", "/api/v1/files/" + file + "/content", form, "colour"},
		{"POST", sending + "/files", form, "colour"},
		{"POST", "/api/v1/tus", tus, "colour"},
		{"POST", sending + "/tus", tus, "colour"},
		{"POST", "/api/v1/remote-upload", remote(`{"url":"https://example.org/a"MORE}`), "colour"},
		{"POST", "/api/v1/remote-upload", remote(`{"urls":["https://example.org/a"]MORE}`), "colour"},
		{"POST", "/api/v1/remote-upload", remote(`{"items":[{"url":"https://example.org/a"MORE}]}`), "items"},
	} {
		for _, prefer := range []string{"handling=strict", "handling=lenient"} {
			for _, colour := range []bool{true, false} {
				q := door.request(door.method, door.path, colour)
				if q.Header == nil {
					q.Header = http.Header{}
				}
				q.Header.Set("Prefer", prefer)
				q.Raw = true
				got, applied := a.Do(q), ""
				strict := prefer == "handling=strict"
				if strict {
					applied = prefer
				}
				refused := got.Status == 422 && strings.Contains(got.Text("fields."+door.field), "is not known here")
				if refused != (strict && colour) || !refused && got.Status >= 300 && got.Text("code") != "import_running" {
					t.Errorf("%s, %s, colour %v: %d %s", door.path, prefer, colour, got.Status, apitest.CutText(got.Body))
				}
				if said := got.Header.Get("Preference-Applied"); said != applied {
					t.Errorf("%s, %s: Preference-Applied is %q", door.path, prefer, said)
				}
			}
		}
	}
}

// Addresses that take any parameter refuse unknown ones for a client that asks for it.
func TestStrictParameters(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	for _, path := range []string{
		"/api/v1/openapi?x=1", "/api/v1/captcha/challenge?x=1", "/api/v1/tags?limit=5", "/api/v1/notes?x=1",
	} {
		got := a.Do(apitest.Request{Method: "GET", Path: path, Raw: true, Header: apitest.WithHeader("Prefer", "handling=strict")})
		if got.Status != 400 || !strings.Contains(got.Text("error"), "is not known here") {
			t.Errorf("%s: %d %s", path, got.Status, apitest.CutText(got.Body))
		}
	}
	about := apitest.Request{Method: "GET", Path: "/about?x=1", Header: apitest.WithHeader("Prefer", "handling=strict")}
	if applied := a.Do(about).Want(200).Header.Get("Preference-Applied"); applied != "" {
		t.Errorf("a page applied %q", applied)
	}
}

// A limit under the name that another kind has for it is refused: ignored, it would be none.
func TestLimitsOfOtherKinds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Post("/api/v1/shorten", `{"originalUrl":"https://example.org/","maxViews":3}`).Want(422)
	is.True(strings.Contains(got.Text("fields.maxViews"), "use maxClicks"))
	a.Post("/api/v1/shorten", `{"originalUrl":"https://example.org/","maxViews":"3"}`)
	id := a.Post(
		"/api/v1/shorten", `{"originalUrl":"https://example.org/","maxViews":null,"maxClicks":3}`,
	).Want(201).Text("data.id")
	a.Patch("/api/v1/shorten/"+id, `{"maxViews":3}`).Want(422)
	a.Patch("/api/v1/shorten/"+id, `{"maxViews":null}`).Want(200)
	is.Equal(a.Get("/api/v1/shorten/"+id).At("data.maxClicks"), float64(3))
	a.Post("/api/v1/notes", `{"content":"","maxClicks":3}`).Want(422)
}

// Any key can ask what it is.
func TestCurrentKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, scope := range []people.Scope{
		people.ScopeUpload, people.ScopeWrite, people.ScopeRead, people.ScopeAll, people.ScopeAdmin,
	} {
		got := a.Do(apitest.Request{Method: "GET", Path: "/api/v1/keys/current", Key: a.AddKey(a.User, scope)}).Want(200)
		is.Equal(got.Text("data.name"), "test")
		is.Equal(got.At("data.scopes"), []any{string(scope)})
		is.Equal(got.At("data.expiresAt"), nil)
		is.Equal(got.Text("data.username"), a.User.Name)
	}
	a.Do(apitest.Request{Method: http.MethodGet, Path: "/api/v1/keys/current", Anyone: true}).Want(401)
}
