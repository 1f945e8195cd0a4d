package web_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/record"
)

func TestRequestsThatCannotBeRead(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	a.Post("/api/v1/notes", `{"content":"there","tags":["t"]}`).Want(201)
	deep := func(n int) string {
		return `{"content":"x","more":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	json := func(more ...string) http.Header {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	for name, q := range map[string]struct {
		body   string
		header http.Header
		status int
		code   string
	}{
		"no body":                {"", json(), 400, "malformed"},
		"white space":            {" \n", json(), 400, "malformed"},
		"cut off":                {`{"content":"x"`, json(), 400, "malformed"},
		"text":                   {`content=x`, json(), 400, "malformed"},
		"array":                  {`[{"content":"x"}]`, json(), 400, "malformed"},
		"string":                 {`"x"`, json(), 400, "malformed"},
		"null":                   {`null`, json(), 400, "malformed"},
		"trailing object":        {`{"content":"x"}{"content":"y"}`, json(), 400, "malformed"},
		"trailing word":          {`{"content":"x"} x`, json(), 400, "malformed"},
		"trailing NUL":           {"{\"content\":\"x\"}\x00", json(), 400, "malformed"},
		"comma at the end":       {`{"content":"x",}`, json(), 400, "malformed"},
		"comment":                {`{"content":"x"/**/}`, json(), 400, "malformed"},
		"byte order mark":        {"\ufeff" + `{"content":"x"}`, json(), 400, "malformed"},
		"duplicate":              {`{"content":"x","content":"x"}`, json(), 400, "malformed"},
		"duplicate of unknown":   {`{"content":"x","a":1,"a":1}`, json(), 400, "malformed"},
		"duplicate by escape":    {`{"content":"x","c\u006fntent":"x"}`, json(), 400, "malformed"},
		"duplicate inside":       {`{"content":"x","a":{"b":1,"b":2}}`, json(), 400, "malformed"},
		"33 levels":              {deep(32), json(), 400, "malformed"},
		"100000 levels":          {deep(100_000), json(), 400, "malformed"},
		"invalid UTF-8":          {"{\"content\":\"\xff\"}", json(), 400, "malformed"},
		"invalid UTF-8 in name":  {"{\"content\":\"x\",\"\xc3\x28\":1}", json(), 400, "malformed"},
		"encoded surrogate":      {"{\"content\":\"\xed\xa0\x80\"}", json(), 400, "malformed"},
		"half a surrogate pair":  {`{"content":"\ud83d"}`, json(), 400, "malformed"},
		"bare control character": {"{\"content\":\"a\nb\"}", json(), 400, "malformed"},
		"UTF-16":                 {"\xff\xfe{\x00}\x00", json(), 400, "malformed"},
		"NUL":                    {`{"content":"a\u0000b"}`, json(), 422, "invalid_fields"},

		"no type":   {`{"content":"x"}`, http.Header{"Content-Type": nil}, 415, "unsupported_media_type"},
		"text type": {`{"content":"x"}`, json("Content-Type", "text/plain"), 415, "unsupported_media_type"},
		"form type": {
			`{"content":"x"}`, json("Content-Type", "application/x-www-form-urlencoded"), 415, "unsupported_media_type",
		},
		"multipart type": {
			`{"content":"x"}`, json("Content-Type", "multipart/form-data; boundary=x"), 415, "unsupported_media_type",
		},
		"type that only ends": {
			`{"content":"x"}`, json("Content-Type", "application/problem+json"), 415, "unsupported_media_type",
		},
		"type that begins": {`{"content":"x"}`, json("Content-Type", "application/json5"), 415, "unsupported_media_type"},
		"broken type": {
			`{"content":"x"}`, json("Content-Type", "application/json; charset"), 415, "unsupported_media_type",
		},
		"other charset": {
			`{"content":"x"}`, json("Content-Type", "application/json; charset=utf-16"), 415, "unsupported_media_type",
		},
		"gzip":          {"\x1f\x8b\x08", json("Content-Encoding", "gzip"), 415, "unsupported_encoding"},
		"deflate":       {"x", json("Content-Encoding", "deflate"), 415, "unsupported_encoding"},
		"two encodings": {"x", json("Content-Encoding", "gzip, identity"), 415, "unsupported_encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			id := a.Get("/api/v1/notes").IDs()[0]
			for _, at := range []apitest.Request{
				{Method: "POST", Path: "/api/v1/notes"}, {Method: "PATCH", Path: "/api/v1/notes/" + id},
			} {
				at.Body, at.Header, at.Raw = strings.NewReader(q.body), q.header, true
				is.Equal(a.Refused(at, q.status).Text("code"), q.code)
			}
		})
	}
	is.Equal(a.Get("/api/v1/notes").At("total"), 1.0)

	for name, q := range map[string]apitest.Request{
		"32 levels": {JSON: deep(31)},
		"charset": {
			JSON: `{"content":"x"}`, Header: json("Content-Type", "application/json; charset=UTF-8"),
		},
		"type in capitals":   {JSON: `{"content":"x"}`, Header: json("Content-Type", "Application/JSON")},
		"identity":           {JSON: `{"content":"x"}`, Header: json("Content-Encoding", "identity")},
		"white space around": {JSON: " {\"content\":\"x\"}\r\n"},
		"surrogate pair":     {JSON: `{"content":"\ud83d\ude00"}`},
		"unknown members": {
			JSON: `{"content":"x","CONTENT":5,"userId":"1","views":9,"id":"x","kind":"file","createdAt":"x","hasPassword":true,"owner":{"a":[]},"":0}`,
			Raw:  true,
		},
		"null is absent": {
			JSON: `{"content":"x","title":null,"slug":null,"isPublic":null,"isFavorite":null,"password":null,"tags":null,"maxViews":null,"maxViewsAction":null,"expiresAt":null,"sourceUrl":null}`,
		},
		"lenient scalars": {
			JSON: `{"content":"x","isPublic":"true","isFavorite":"false","maxViews":"12"}`, Raw: true,
		},
		"members in another order":   {JSON: `{"tags":["a"],"content":"x"}`},
		"escapes":                    {JSON: `{"content":"\u0041\t\r\n\"\\\/\b\f\u2028"}`},
		"many unknown members":       {JSON: `{"content":"x"` + strings.Repeat(`,"`, 0) + `,"a":1,"b":2}`},
		"name that only looks alike": {JSON: `{"content":"x","content ":"y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			q.Method, q.Path = "POST", "/api/v1/notes"
			got := a.Do(q).Want(201)
			is.Equal(got.At("data.views"), 0.0) // the server's own members cannot be given
			is.Equal(got.Text("data.kind"), "note")
			a.Delete("/api/v1/notes/" + got.Text("data.id")).Want(200)
		})
	}
}

func TestLenientScalars(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/games", Raw: true,
		JSON: `{"title":"Go","isPublic":"true","isFavorite":"true","rating":"7","playtimeMinutes":"60.0","maxViews":"1e2"}`,
	}).Want(201)
	is.Equal(got.At("data.isPublic"), true)
	is.Equal(got.At("data.isFavorite"), true)
	is.Equal(got.At("data.rating"), 7.0)
	is.Equal(got.At("data.playtimeMinutes"), 60.0)
	is.Equal(got.At("data.maxViews"), 100.0)
	got = a.Do(apitest.Request{
		Method: "PATCH", Path: "/api/v1/games/" + got.Text("data.id"), Raw: true, JSON: `{"isPublic":"false","rating":"0"}`,
	}).Want(200)
	is.Equal(got.At("data.isPublic"), false)
	is.Equal(got.At("data.rating"), 0.0)
}

// pad is the body with white space to a length, so that nothing but its size
// can be wrong with it.
func pad(body string, size int) string { return body + strings.Repeat(" ", size-len(body)) }

// TestBodyLimits sends bodies of the limit and of one byte more, with a
// Content-Length and without.
func TestBodyLimits(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	for k, body := range apitest.Whole {
		size := 1 << 20
		if k == record.Notes || k == record.Snippets || k == record.Recipes {
			size = 4 << 20
		}
		id := a.Made("/api/v1/"+k.Path, body)
		for _, at := range []apitest.Request{
			{Method: "POST", Path: "/api/v1/" + k.Path}, {Method: "PATCH", Path: "/api/v1/" + k.Path + "/" + id},
		} {
			at.Header, at.Raw = http.Header{"Content-Type": {"application/json"}}, true
			hidden := func(n int) io.Reader { return io.MultiReader(strings.NewReader(pad(body, n))) } // its length
			if at.Method == "POST" {
				at.Body = hidden(size + 1)
				is.Equal(a.Refused(at, 413).Text("code"), "too_large")
			}
			if k == record.Links || k == record.Notes && at.Method == "PATCH" {
				at.Body = hidden(size)
				is.True(a.Do(at).Status < 300)
				at.Body = strings.NewReader(pad(body, size+1))
				is.Equal(a.Refused(at, 413).Text("code"), "too_large")
			}
		}
	}
	for _, at := range []apitest.Request{
		{Method: "POST", Path: "/api/v1/tags"},
		{Method: "POST", Path: "/api/v1/folders"},
		{Method: "POST", Path: "/api/v1/keys"},
		{Method: "PATCH", Path: "/api/v1/me"},
		{Method: "PATCH", Path: "/api/v1/admin/settings"},
		{Method: "POST", Path: "/api/v1/admin/users"},
	} {
		at.Header, at.Raw = http.Header{"Content-Type": {"application/json"}}, true
		at.Body = io.MultiReader(strings.NewReader(pad(`{"name":"n"}`, 1<<20+1)))
		a.Refused(at, 413)
	}
	// A body without end is not read to its end.
	a.Refused(apitest.Request{
		Method: "POST", Path: "/api/v1/notes", Raw: true, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.MultiReader(strings.NewReader(`{"content":"`), endless('x')),
	}, 413)
}

type endless byte

func (e endless) Read(b []byte) (int, error) {
	return copy(b, bytes.Repeat([]byte{byte(e)}, len(b))), nil
}

func TestOneAnswerNamesEveryBadField(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	common := `"slug":"a/b","isPublic":"yes","isFavorite":1,"password":5,"tags":[""],"%s":0,"maxViewsAction":"burn","expiresAt":"tomorrow"`
	names := func(k *record.Kind, own ...string) []string {
		all := append(own, "slug", "isPublic", "isFavorite", "password", "tags", k.Limit, "maxViewsAction", "expiresAt")
		slices.Sort(all)
		return all
	}
	for k, own := range map[*record.Kind]struct {
		body  string
		names []string
	}{
		record.Bookmarks: {
			`"url":"x","title":1,"description":[],"imageUrl":"y"`, []string{"url", "title", "description", "imageUrl"},
		},
		record.Notes:    {`"title":{},"content":1,"sourceUrl":false`, []string{"title", "content", "sourceUrl"}},
		record.Snippets: {`"title":{},"content":1,"language":2`, []string{"title", "content", "language"}},
		record.Recipes: {
			`"title":"","description":1,"ingredients":2,"instructions":3,"imageUrl":"x"`,
			[]string{"title", "description", "ingredients", "instructions", "imageUrl"},
		},
		record.Games: {
			`"title":" ","platform":1,"status":"done","rating":11,"playtimeMinutes":-1,"coverUrl":"x","storeUrl":"javascript:1","notes":1`,
			[]string{"title", "platform", "status", "rating", "playtimeMinutes", "coverUrl", "storeUrl", "notes"},
		},
		record.Links: {`"originalUrl":"ftp://x","description":1`, []string{"originalUrl", "description"}},
	} {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			id := a.Made("/api/v1/"+k.Path, apitest.Whole[k])
			body := "{" + own.body + "," + strings.Replace(common, "%s", k.Limit, 1) + "}"
			for _, q := range []apitest.Request{
				{Method: "POST", Path: "/api/v1/" + k.Path}, {Method: "PATCH", Path: "/api/v1/" + k.Path + "/" + id},
			} {
				q.JSON = body
				got := a.Refused(q, 422)
				is.Equal(got.Fields(), names(k, own.names...))
				is.Equal(got.Text("code"), "invalid_fields")
				// The sentence calls each of them by a name of its own and tells what is
				// wrong with it.
				clauses, named := strings.Split(strings.TrimSuffix(got.Text("error"), "."), "; "), map[string]bool{}
				is.Equal(len(clauses), len(got.Fields()))
				for i, field := range got.Fields() {
					phrase, ok := strings.CutSuffix(strings.ToLower(clauses[i]), " "+strings.ToLower(got.Text("fields."+field)))
					is.True(ok && strings.HasPrefix(phrase, "the ") && !named[phrase])
					named[phrase] = true
				}
			}
		})
	}
	t.Run("shared rules and rules of the form together", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		post := func(path, body string) []string {
			return a.Refused(apitest.Request{Method: "POST", Path: "/api/v1/" + path, JSON: body}, 422).Fields()
		}
		is.Equal(post("notes", `{"expiresAt":"2001-01-01T00:00:00Z"}`), []string{"content", "expiresAt"})
		is.Equal(post("tags", `{"color":"red"}`), []string{"color", "name"})
		is.Equal(post("folders", `{"color":"red","name":""}`), []string{"color", "name"})
		is.Equal(
			post("keys", `{"scopes":["root"],"expiresAt":"2001-01-01T00:00:00Z"}`), []string{"expiresAt", "name", "scopes"},
		)
		is.Equal(post("admin/users", `{"username":"-","password":"short","role":"root","disabled":5,"quotaBytes":-1}`),
			[]string{"disabled", "password", "quotaBytes", "role", "username"})
		is.Equal(
			a.Refused(
				apitest.Request{Method: "PATCH", Path: "/api/v1/me", JSON: `{"displayName":5,"password":"short"}`}, 422,
			).Fields(),
			[]string{"displayName", "password"},
		)
		is.Equal(a.Refused(
			apitest.Request{
				Method: "PATCH", Path: "/api/v1/admin/settings",
				JSON: `{"apiTokensDisabled":5,"defaultQuotaBytes":0,"maxUploadBytes":1.5}`,
			},
			422,
		).Fields(),
			[]string{"apiTokensDisabled", "defaultQuotaBytes", "maxUploadBytes"})
	})
	is.True(a.Sound())
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, path := range []string{"/api/v1/notes", "/api/v1/notes/none", "/api/v1/nothing", "/healthz", "/x/none"} {
		for _, id := range []string{"a", "abc-123_X.y", strings.Repeat("z", 64)} {
			is.Equal(
				a.Do(apitest.Request{
					Method: "GET", Path: path, Header: http.Header{"X-Request-Id": {id}},
				}).Header.Get("X-Request-Id"),
				id,
			)
			is.True(strings.Contains(a.Logged.String(), `"requestId":"`+id+`"`))
		}
		for _, id := range []string{"", strings.Repeat("z", 65), "a b", "a\"b", "<x>", "é", "a,b", "a\tb"} {
			got := a.Do(apitest.Request{
				Method: "GET", Path: path, Header: http.Header{"X-Request-Id": {id}},
			}).Header.Get("X-Request-Id")
			is.True(got != id && got != "")
			is.True(strings.Contains(a.Logged.String(), `"requestId":"`+got+`"`))
		}
	}
	one, two := a.Get("/api/v1/notes").Header.Get("X-Request-Id"), a.Get("/api/v1/notes").Header.Get("X-Request-Id")
	is.True(one != two)
}

// TestMethods asks every path for every method it does not have.
func TestMethods(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	fill := strings.NewReplacer(
		"{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057", "{token}", "none", "{name}", "none",
	)
	known := map[string][]string{}
	patterns := map[string][]string{} // by path
	for _, r := range a.Server.Routes() {
		path := fill.Replace(r.Path)
		patterns[path] = append(patterns[path], r.Path)
		known[path] = append(known[path], r.Method)
		if r.Method == "GET" {
			known[path] = append(known[path], "HEAD")
		}
	}
	is.True(len(known) > 40)
	for path, methods := range known {
		// Where several patterns match a path, their methods add up.
		for other, more := range known {
			if slices.ContainsFunc(patterns[other], func(p string) bool {
				return apitest.Matches(p, path, map[string]string{})
			}) {
				methods = append(methods, more...)
			}
		}
		methods = append(methods, "OPTIONS")
		slices.Sort(methods)
		methods = slices.Compact(methods)
		for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} {
			if slices.Contains(methods, m) {
				continue
			}
			got := a.Do(apitest.Request{Method: m, Path: path, Raw: true}).Want(405)
			allow := strings.Split(got.Header.Get("Allow"), ", ")
			slices.Sort(allow)
			is.Equal(allow, methods)
		}
		got := a.Do(apitest.Request{Method: "OPTIONS", Path: path, Raw: true}).Want(204)
		is.True(got.Header.Get("Allow") != "")
	}
}

func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, path := range []string{
		"/api/v1/", "/api/v1/nothing", "/api/v1/notes/", "/api/v1/notes/a/b", "/api/v1/notes/a/b/c", "/api/v1/Notes", "/api/v1//notes",
		"/api/v1/notes/%2e%2e", "/api/v1/notes/a%2Fb", "/api/v1/tags/merge", "/api/v1/admin", "/api/v1/game-tags",
	} {
		for _, m := range []string{"GET", "POST", "DELETE"} {
			got := a.Do(apitest.Request{Method: m, Path: path, Raw: true})
			is.True(got.Status == 404 || got.Status == 405)
			is.Equal(got.Header.Get("Content-Type"), "application/json")
		}
		a.Do(apitest.Request{Method: "GET", Path: path, Anyone: true, Raw: true})
	}
	is.Equal(a.Get("/api/v1/nothing").Want(404).Text("code"), "not_found")
	// The document says the same of a thing that is not there.
	for _, id := range []string{
		"%00", "%ff", strings.Repeat("a", 8000), "-", ".", "..a", "%E2%80%AE", "01890a5d",
		"{01890a5d-ac96-774b-bcce-b302099a8057}",
	} {
		for _, path := range []string{"notes/", "files/", "shorten/"} {
			is.Equal(a.Get("/api/v1/"+path+id).Want(404).Text("code"), "not_found")
		}
		is.Equal(a.Delete("/api/v1/tags/"+id).Want(404).Text("code"), "not_found")
		is.Equal(a.Patch("/api/v1/folders/"+id, `{}`).Want(404).Text("code"), "not_found")
	}
}

func TestAnswersAreNotCached(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id := a.Made("/api/v1/notes", `{"content":"x"}`)
	for _, path := range []string{"notes", "notes/" + id, "tags", "me", "keys", "notes/none", "admin/stats"} {
		got := a.Get("/api/v1/" + path)
		is.Equal(got.Header.Get("Content-Type"), "application/json")
		is.Equal(got.Header.Get("Cache-Control"), "no-store")
		is.Equal(got.Header.Get("X-Content-Type-Options"), "nosniff")
		head := a.Do(apitest.Request{Method: "HEAD", Path: "/api/v1/" + path})
		is.Equal(head.Status, got.Status)
		is.Equal(len(head.Body), 0)
		if got.Status != 200 {
			continue
		}
		// Answers that count requests may get longer from one to the next.
		length, later := head.Header.Get("Content-Length"), a.Get("/api/v1/"+path)
		is.True(length == got.Header.Get("Content-Length") || length == later.Header.Get("Content-Length"))
	}
}

// TestNobodyWaitsForOthers: while a page, a file to fetch and a webhook's
// target hang, what their owner asks for is answered. Clients give up after
// ten seconds; here they hang until it is all done.
func TestNobodyWaitsForOthers(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	asked := make(chan string, 100)
	site := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- r.URL.Path
		<-r.Context().Done()
	}))
	t.Cleanup(site.Close) // after the workers have let go
	a.Looking()
	a.Fetching(t)
	a.RunDeliveries(t)
	a.Post(apitest.HooksAt, map[string]any{"url": site.URL + "/hook"}).Want(201)
	page := a.Made("/api/v1/bookmarks", map[string]any{"url": site.URL + "/page"})
	job := a.Remote(map[string]any{"url": site.URL + "/file"})
	hang := map[string]bool{}
	for len(hang) < 3 {
		select {
		case path := <-asked:
			hang[path] = true
		case <-time.After(10 * time.Second):
			t.Fatalf("only %v are asked", hang)
		}
	}
	begun := time.Now()
	a.Patch("/api/v1/bookmarks/"+page, map[string]any{"url": site.URL + "/other"}).Want(200)
	a.Get("/api/v1/bookmarks/" + page).Want(200)
	a.Made("/api/v1/bookmarks", map[string]any{"url": site.URL + "/third"})
	a.Delete("/api/v1/bookmarks/" + page).Want(200)
	a.Made("/api/v1/notes", `{"content":"x"}`)
	a.Upload(nil, apitest.File("a.txt", "", "x")).Want(201)
	a.Post("/api/v1/shorten", map[string]any{"originalUrl": site.URL + "/long"}).Want(201)
	is.Equal(a.Get(job).Want(200).Text("data.state"), "running")
	a.Remote(map[string]any{"url": site.URL + "/file"})
	a.Get(apitest.RemoteAt).Want(200)
	a.Delete(job).Want(200)
	a.Get(apitest.HooksAt).Want(200)
	is.True(time.Since(begun) < 8*time.Second)
}
