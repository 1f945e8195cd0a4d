package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/people"
)

// No operation for a known caller takes a parameter that its row does not declare.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	a := start(t)
	for _, r := range a.server.Routes() {
		if !strings.HasPrefix(r.Path, web.APIPath) || r.Access.Open || r.Access.Operator || r.Access.Browser {
			continue
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		got := a.do(apiRequest{method: r.Method, path: path + "?favourite=true", raw: true, header: withHeader("Tus-Resumable", "1.0.0")})
		if got.status != 400 || !strings.Contains(string(got.body), "favourite") {
			t.Errorf("%s %s: %d %s", r.Method, path, got.status, cutText(got.body))
		}
	}
	for _, open := range []string{"/api/v1/openapi?x=1", "/api/v1/captcha/challenge?x=1", "/about?utm_source=x"} {
		a.do(apiRequest{method: "GET", path: open, anyone: true}).want(200)
	}
	for _, kept := range []string{"limit=1&offset=1", "limit=1", "favorite=1", "public=false"} {
		a.get("/api/v1/notes?" + kept).want(200)
	}
	for _, whole := range []string{"tags", "note-tags", "folders", "keys"} {
		a.get("/api/v1/" + whole + "?limit=500&offset=0").want(200)
	}
}

func TestListFiltersByMemberNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/notes", `{"content":"a","isPublic":true}`).want(201)
	a.post("/api/v1/notes", `{"content":"b","isFavorite":true}`).want(201)
	for query, want := range map[string]float64{"isPublic=true": 1, "isPublic=false": 1, "isFavorite=1": 1, "isPublic=true&isFavorite=true": 0, "isPublic=true&public=true": 1} {
		got := a.get("/api/v1/notes?" + query).want(200)
		is.Equal(got.at("total"), want)
		is.Equal(len(got.at("data").([]any)), int(want))
	}
	a.do(apiRequest{method: "GET", path: "/api/v1/notes?isPublic=maybe", raw: true}).want(400)
}

func TestUpdatedSince(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	first := a.post("/api/v1/notes", `{"content":"a"}`).want(201)
	at, err := time.Parse(time.RFC3339, first.text("data.updatedAt"))
	is.NoErr(err)
	since := func(at time.Time) string {
		return "/api/v1/notes?updatedSince=" + at.Format("2006-01-02T15:04:05.000Z")
	}
	for _, sort := range []string{"", "&sort=oldest", "&sort=updated", "&sort=title", "&limit=1", "&q=a"} {
		is.Equal(a.get(since(at)+sort).want(200).at("total"), float64(1)) // the time itself counts
		is.Equal(a.get(since(at.Add(time.Millisecond))+sort).want(200).at("total"), float64(0))
	}
	a.do(apiRequest{method: "GET", path: "/api/v1/notes?updatedSince=yesterday", raw: true}).want(400)
}

// A client may ask to be refused rather than misunderstood.
func TestStrictMembers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	send := func(prefer, method, path, body string) *answer {
		t.Helper()
		return a.do(apiRequest{method: method, path: path, json: body, raw: true, header: withHeader("Prefer", prefer)})
	}
	const misspelt = `{"content":"","expiresIn":3600,"titel":"x"}`
	for _, prefer := range []string{"handling=strict", `respond-async, Handling="STRICT"; x=1`} {
		got := send(prefer, "POST", "/api/v1/notes", misspelt).want(422)
		is.Equal(got.at("fields"), map[string]any{"expiresIn": "is not known here", "titel": "is not known here"})
	}
	for _, prefer := range []string{"", "handling=lenient", "return=minimal"} {
		send(prefer, "POST", "/api/v1/notes", misspelt).want(201)
	}
	send("handling=strict", "POST", "/api/v1/collections", `{"title":"a","source":{"folder":"x"}}`).want(422)
	at := "/api/v1/notes/" + send("handling=strict", "POST", "/api/v1/notes", `{"content":"","tags":["a"]}`).want(201).text("data.id")
	send("handling=strict", "PATCH", at, `{"newSlug":"x"}`).want(422)
	send("handling=strict", "PATCH", at, `{"slug":"some-slug","addTags":["b"],"keepVersion":true}`).want(200)
	send("handling=strict", "POST", "/api/v1/tags", `{"name":"c","colour":"#fff"}`).want(422)
}

// A limit under the name that another kind has for it is refused: ignored, it would be none.
func TestLimitsOfOtherKinds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.post("/api/v1/shorten", `{"originalUrl":"https://example.org/","maxViews":3}`).want(422)
	is.True(strings.Contains(got.text("fields.maxViews"), "use maxClicks"))
	a.post("/api/v1/shorten", `{"originalUrl":"https://example.org/","maxViews":"3"}`)
	id := a.post("/api/v1/shorten", `{"originalUrl":"https://example.org/","maxViews":null,"maxClicks":3}`).want(201).text("data.id")
	a.patch("/api/v1/shorten/"+id, `{"maxViews":3}`).want(422)
	a.patch("/api/v1/shorten/"+id, `{"maxViews":null}`).want(200)
	is.Equal(a.get("/api/v1/shorten/"+id).at("data.maxClicks"), float64(3))
	a.post("/api/v1/notes", `{"content":"","maxClicks":3}`).want(422)
}

// Any key can ask what it is.
func TestCurrentKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for _, scope := range []people.Scope{people.ScopeUpload, people.ScopeWrite, people.ScopeRead, people.ScopeAll, people.ScopeAdmin} {
		got := a.do(apiRequest{method: "GET", path: "/api/v1/keys/current", key: a.addKey(a.user, scope)}).want(200)
		is.Equal(got.text("data.name"), "test")
		is.Equal(got.at("data.scopes"), []any{string(scope)})
		is.Equal(got.at("data.expiresAt"), nil)
		is.Equal(got.text("data.username"), a.user.Name)
	}
	a.do(apiRequest{method: http.MethodGet, path: "/api/v1/keys/current", anyone: true}).want(401)
}
