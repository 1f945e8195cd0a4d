package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

func TestDoorCredentials(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	other := a.AddKey(a.User, people.ScopeAll)
	for name, c := range map[string]struct {
		header http.Header
		status int
		code   string
	}{
		"x-api-key":           {apitest.WithHeader("X-Api-Key", a.Key), 200, ""},
		"ApiKey":              {apitest.WithHeader("Authorization", "ApiKey "+a.Key), 200, ""},
		"Bearer":              {apitest.WithHeader("Authorization", "Bearer "+a.Key), 200, ""},
		"lower case":          {apitest.WithHeader("Authorization", "apikey "+a.Key), 200, ""},
		"upper case":          {apitest.WithHeader("Authorization", "BEARER "+a.Key), 200, ""},
		"spaces":              {apitest.WithHeader("Authorization", "  ApiKey \t  "+a.Key+"  "), 200, ""},
		"tab":                 {apitest.WithHeader("Authorization", "Bearer\t"+a.Key), 200, ""},
		"spaces in x-api-key": {apitest.WithHeader("X-Api-Key", "  "+a.Key+"\t"), 200, ""},
		"the same twice":      {apitest.WithHeader("X-Api-Key", a.Key, "X-Api-Key", a.Key), 200, ""},
		"the same in both":    {apitest.WithHeader("X-Api-Key", a.Key, "Authorization", "Bearer "+a.Key), 200, ""},
		"beside an empty one": {apitest.WithHeader("X-Api-Key", "", "Authorization", "Bearer "+a.Key), 200, ""},
		"before an empty one": {apitest.WithHeader("X-Api-Key", a.Key, "Authorization", "Bearer "), 200, ""},
		"beside Basic":        {apitest.WithHeader("X-Api-Key", a.Key, "Authorization", "Basic YTpi"), 200, ""},
		"two good ones": {
			apitest.WithHeader("X-Api-Key", a.Key, "Authorization", "Bearer "+other), 400, "conflicting_credentials",
		},
		"two in one header": {
			apitest.WithHeader("X-Api-Key", a.Key, "X-Api-Key", other), 400, "conflicting_credentials",
		},
		"two schemes": {
			apitest.WithHeader("Authorization", "ApiKey "+a.Key, "Authorization", "Bearer "+other), 400,
			"conflicting_credentials",
		},
		"good, bad, good": {
			apitest.WithHeader("X-Api-Key", a.Key, "X-Api-Key", "kist_bad", "Authorization", "Bearer "+a.Key), 400,
			"conflicting_credentials",
		},
		"none":                        {nil, 401, "no_credential"},
		"empty":                       {apitest.WithHeader("X-Api-Key", ""), 401, "no_credential"},
		"Basic":                       {apitest.WithHeader("Authorization", "Basic "+a.Key), 401, "no_credential"},
		"no scheme":                   {apitest.WithHeader("Authorization", a.Key), 401, "no_credential"},
		"unknown":                     {apitest.WithHeader("X-Api-Key", "kist_unknown"), 401, "unknown_key"},
		"a prefix of a good one":      {apitest.WithHeader("X-Api-Key", a.Key[:len(a.Key)-1]), 401, "unknown_key"},
		"longer than a good one":      {apitest.WithHeader("X-Api-Key", a.Key+"x"), 401, "unknown_key"},
		"another case of a good one":  {apitest.WithHeader("X-Api-Key", strings.ToUpper(a.Key)), 401, "unknown_key"},
		"very long":                   {apitest.WithHeader("X-Api-Key", strings.Repeat("k", 20_000)), 401, "unknown_key"},
		"two joined by a comma":       {apitest.WithHeader("X-Api-Key", a.Key+", "+other), 401, "unknown_key"},
		"the digest instead":          {apitest.WithHeader("X-Api-Key", strings.Repeat("0", 64)), 401, "unknown_key"},
		"bytes that are not UTF-8":    {apitest.WithHeader("X-Api-Key", "\xff\xfe"), 401, "unknown_key"},
		"a name that is not a header": {apitest.WithHeader("X-Apikey", a.Key), 401, "no_credential"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got := a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Anyone: true, Header: c.header})
			is.Equal(got.Status, c.status)
			if c.code != "" {
				is.Equal(got.Code(), c.code)
			}
			is.Equal(got.Header.Get("WWW-Authenticate") != "", c.status == 401) // a challenge comes with 401 alone
		})
	}
	// In the address a key is no key.
	is.Equal(a.Visit("/api/v1/me?x-api-key="+a.Key+"&api_key="+a.Key).Status, 401)
}

// TestDoorNextRequest turns credentials off in every way and back on; each
// holds from the next request on, also for keys that were in use.
func TestDoorNextRequest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	key := a.AddKey(bob, people.ScopeAll)
	me := func() *apitest.Answer { return a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}) }
	refused := func(code string) {
		t.Helper()
		is.Equal(me().Want(401).Code(), code)
	}
	me().Want(200)

	user := "/api/v1/admin/users/" + bob.ID.String()
	a.Patch(user, `{"apiTokensDisabled":true}`).Want(200)
	refused("api_tokens_disabled")
	a.Patch(user, `{"apiTokensDisabled":false}`).Want(200)
	me().Want(200)
	a.Patch(user, `{"disabled":true}`).Want(200)
	refused("user_disabled")
	a.Patch(user, `{"disabled":false}`).Want(200)
	me().Want(200)

	settings := func(off bool) {
		is.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			set, err := people.ReadSettings(tx)
			if err != nil {
				return err
			}
			set.TokensOff = off
			return people.SetSettings(tx, set)
		}))
	}
	settings(true)
	refused("api_tokens_disabled")
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me"}).Want(401) // administrators' keys too
	settings(false)
	me().Want(200)

	edit := func(change func(*people.Key)) {
		is.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			keys, err := people.Keys(tx, bob.ID)
			if err != nil {
				return err
			}
			change(&keys[0])
			return people.SaveKey(tx, &keys[0])
		}))
	}
	edit(func(k *people.Key) { k.Disabled = true })
	refused("key_disabled")
	edit(func(k *people.Key) { k.Disabled = false })
	me().Want(200)
	edit(func(k *people.Key) { k.Scopes = []people.Scope{people.ScopeUpload} })
	is.Equal(me().Want(403).Code(), "scope_missing")
	edit(func(k *people.Key) {
		k.Scopes, k.Expires = []people.Scope{people.ScopeAll}, a.Server.Store.Now().Add(time.Hour)
	})
	me().Want(200)
	a.Clock.Advance(time.Hour)
	refused("key_expired")
	edit(func(k *people.Key) { k.Expires = time.Time{} })
	me().Want(200)

	// A former administrator keeps the key but not the access to admin routes.
	eve := a.AddUser("eve", people.Admin)
	admin := a.AddKey(eve, people.ScopeAdmin)
	stats := func() *apitest.Answer {
		return a.Do(apitest.Request{Method: "GET", Path: "/api/v1/admin/stats", Key: admin})
	}
	stats().Want(200)
	a.Patch("/api/v1/admin/users/"+eve.ID.String(), `{"role":"user"}`).Want(200)
	is.Equal(stats().Want(403).Code(), "not_admin")

	a.Delete(user).Want(200)
	refused("unknown_key")
}

// TestDoorScopes tries every scope at every route of the table. What a route
// needs is worked out from the method and path alone.
func TestDoorScopes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const anyScope, browserAlone people.Scope = "any", "browser"
	opens := map[people.Scope][]people.Scope{ // by what is needed
		people.ScopeRead:   {people.ScopeRead, people.ScopeAll, people.ScopeAdmin},
		people.ScopeWrite:  {people.ScopeWrite, people.ScopeAll, people.ScopeAdmin},
		people.ScopeUpload: {people.ScopeUpload, people.ScopeWrite, people.ScopeAll, people.ScopeAdmin},
		people.ScopeAdmin:  {people.ScopeAdmin},
		people.ScopeAll:    {people.ScopeAll, people.ScopeAdmin},
		anyScope:           {people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAll, people.ScopeAdmin},
	}
	need := func(r httpapi.Route) people.Scope {
		p := strings.TrimPrefix(r.Path, "/api/v1/")
		switch {
		case p == "keys/current":
			return anyScope
		case r.Method+" "+r.Path == "POST /device", r.Path == "/login/confirm", p == "auth/device/verify", p == "auth/device/revoke":
			return browserAlone // the last, what was connected with a code alone: see TestDeviceRevoke
		case p == "auth/confirm", p == "me/security", p == "me/codes", p == "me/recovery-codes", strings.HasPrefix(p, "me/passkeys"), r.Method+" "+p == "POST me/identities":
			return browserAlone // how the account signs in
		case strings.HasPrefix(p, "auth/"), strings.HasPrefix(p, "captcha/"), p == r.Path, p == "openapi", p == "reference", strings.Contains(p, "/p/{slug}"), p == "upload-requests/tus/{secret}", strings.HasPrefix(p, "upload-requests/sent"):
			return ""
		case strings.HasPrefix(p, "admin/"), p == "keys", p == "setups", p == "activity", strings.HasPrefix(p, "keys/"), strings.HasPrefix(p, "me/sessions"), strings.HasPrefix(p, "me/identities"):
			return people.ScopeAdmin
		case strings.HasPrefix(p, "integrations/webhooks") && (r.ID == "createWebhook" || r.ID == "editWebhook"):
			return people.ScopeAll // or read and write together: see TestWebhookScopes
		case p == "export", p == "import", strings.HasPrefix(p, "import/"), strings.HasPrefix(p, "trash") &&
			r.Method == "DELETE":
			return people.ScopeAll
		case p == "remote-upload" && r.Method == "GET":
			return anyScope
		case r.Method == "OPTIONS":
			return ""
		case p == "remote-upload" && r.Method == "POST", p == "remote-upload/{id}":
			return people.ScopeUpload
		case r.Method == "GET" && p != "tus/{id}":
			return people.ScopeRead
		case p == "upload", p == "upload/{name}", p == "tus", p == "tus/{id}":
			return people.ScopeUpload
		}
		return people.ScopeWrite
	}
	bob := a.AddUser("bob", people.Member)
	for _, scope := range []people.Scope{
		people.ScopeAll, people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAdmin,
	} {
		admins, members := a.AddKey(a.User, scope), a.AddKey(bob, scope)
		for _, r := range a.Server.Routes() {
			path := strings.NewReplacer(
				"{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057", "{token}", "none", "{name}", "none",
			).Replace(r.Path)
			try := func(key string) (status int, code string) {
				q := apitest.Request{Method: r.Method, Path: path, Key: key, Anyone: key == "", Raw: true}
				if r.Method != "GET" && r.Method != "DELETE" {
					q.JSON = "{"
				}
				got := a.Do(q)
				var e struct{ Code string }
				_ = json.Unmarshal(got.Body, &e) // some are no JSON
				return got.Status, e.Code
			}
			at := fmt.Sprintf("%s key at %s %s", scope, r.Method, r.Path)
			needed := need(r)
			if r.Path == "/metrics" { // whatever the scope, of an administrator; it is off
				for key, want := range map[string]int{"": 401, admins: 404, members: 403} {
					if status, _ := try(key); status != want {
						t.Errorf("%s: %d", at, status)
					}
				}
				continue
			}
			if needed == browserAlone {
				for key, want := range map[string]int{"": 401, admins: 403, members: 403} {
					if status, _ := try(key); status != want {
						t.Errorf("%s: %d", at, status)
					}
				}
				continue
			}
			if needed == "" {
				if !r.Access.Open {
					t.Errorf("%s: the door is not open", at)
				}
				if status, code := try(members); status == 403 || status == 401 {
					t.Errorf("%s: %d %s", at, status, code)
				}
				if scope == people.ScopeAll {
					if status, _ := try(""); status == 401 || status == 403 {
						t.Errorf("a visitor at %s %s: %d", r.Method, r.Path, status)
					}
				}
				continue
			}
			want := "scope_missing"
			if slices.Contains(opens[needed], scope) {
				want = ""
			}
			status, code := try(admins)
			if (code == "scope_missing") != (want != "") || status == 401 || want == "" && status == 403 {
				t.Errorf("%s: %d %s", at, status, code)
			}
			if needed == people.ScopeAdmin && want == "" {
				want = "not_admin"
			}
			status, code = try(members)
			if want != "" && (status != 403 || code != want) || want == "" && (status == 403 || status == 401) {
				t.Errorf("%s, of a member: %d %s", at, status, code)
			}
			if scope == people.ScopeAll {
				if status, code := try(""); status != 401 || code != "no_credential" {
					t.Errorf("a visitor at %s %s: %d %s", r.Method, r.Path, status, code)
				}
			}
		}
	}
	is.True(len(a.Server.Routes()) > 60) // the table was walked
}

// TestDoorBadKeyAtOpenRoutes: a key that cannot be used shuts nobody out of
// what is open to everyone.
func TestDoorBadKeyAtOpenRoutes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	key := a.AddKey(bob, people.ScopeAll)
	for _, slug := range []string{"open", "hidden"} {
		a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/notes", Key: key,
			JSON: map[string]any{"content": "x", "slug": slug, "isPublic": slug == "open"},
		}).Want(201)
	}
	a.Do(apitest.Request{Method: "GET", Path: "/x/hidden", Key: key}).Want(200) // to its owner
	a.Patch("/api/v1/admin/users/"+bob.ID.String(), `{"apiTokensDisabled":true}`).Want(200)
	page := regexp.MustCompile(`/static/[^"]+`).FindString(string(a.Visit("/claim/none", "Accept", "text/html").Want(404).Body))
	for _, bad := range []http.Header{
		apitest.WithHeader("X-Api-Key", "kist_bad"), apitest.WithHeader("X-Api-Key", key),
		apitest.WithHeader("Authorization", "Bearer x"),
	} {
		for path, status := range map[string]int{
			"/healthz": 200, "/api/v1/openapi": 200, "/api/v1/reference": 200, page: 200, "/claim/none": 404,
			"/x/open": 200, "/x/hidden": 404, "/s/none": 404,
		} {
			is.Equal(a.Do(apitest.Request{Method: "GET", Path: path, Anyone: true, Header: bad}).Status, status)
		}
		is.Equal(
			a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes/p/open", Anyone: true, Header: bad, JSON: "{}"}).Status,
			200,
		)
		is.Equal(
			a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes/p/hidden", Anyone: true, Header: bad, JSON: "{}"}).Status,
			404,
		)
	}
	// Where a credential is looked at, two are still refused.
	a.Visit("/x/open", "X-Api-Key", a.Key, "Authorization", "Bearer kist_bad").Want(400)
	a.Visit("/healthz", "X-Api-Key", a.Key, "Authorization", "Bearer kist_bad").Want(200)
	// Browsers and proxies send Basic on their own account.
	a.Visit("/x/open", "Authorization", "Basic YTpi").Want(200)
	a.Visit("/x/open", "Authorization", "Digest username=\"a\"").Want(200)
}

func TestDoorCrossOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, origin := range []string{
		"chrome-extension://abcdefghijklmnopabcdefghijklmnop", "moz-extension://0d8b2a3c-5c3e-4d2f-9d51-0123456789ab", "null",
		"https://example.org",
	} {
		t.Run(origin, func(t *testing.T) {
			is := is.New(t)
			for _, method := range []string{"GET", "POST", "PATCH", "DELETE"} {
				got := a.Do(apitest.Request{Method: "OPTIONS", Path: "/api/v1/notes/x", Anyone: true, Header: apitest.WithHeader(
					"Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "x-api-key,content-type")})
				is.Equal(got.Status, 204)
				is.Equal(got.Header.Get("Access-Control-Allow-Origin"), "*")
				is.True(strings.Contains(got.Header.Get("Access-Control-Allow-Methods"), method))
				is.Equal(got.Header.Get("Access-Control-Allow-Credentials"), "")
				allowed := strings.Split(got.Header.Get("Access-Control-Allow-Headers"), ", ")
				for _, name := range strings.Split("content-type, x-api-key, authorization, x-upload-password, "+
					"x-share-password, x-captcha-token, x-captcha-pass, idempotency-key, "+
					"tus-resumable, upload-length, upload-offset, upload-metadata, upload-checksum", ", ") {
					is.True(slices.Contains(allowed, name)) // the header may be sent
				}
				is.True(!slices.Contains(allowed, "*"))
			}
			for _, q := range []apitest.Request{
				{Method: "GET", Path: "/api/v1/me"},
				{Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"x"}`},
				{Method: "GET", Path: "/api/v1/me", Anyone: true},            // 401
				{Method: "GET", Path: "/api/v1/nothing", Anyone: true},       // 404
				{Method: "PUT", Path: "/api/v1/me", Anyone: true},            // 405
				{Method: "POST", Path: "/api/v1/notes", JSON: `{`},           // 400
				{Method: "OPTIONS", Path: "/api/v1/notes", Anyone: true},     // no pre-flight
				{Method: "DELETE", Path: "/api/v1/notes/none", Anyone: true}, // 401
			} {
				q.Header, q.Raw = apitest.WithHeader("Origin", origin), true
				got := a.Do(q)
				is.Equal(got.Header.Get("Access-Control-Allow-Origin"), "*") // errors too: a page must be able to read them
				is.Equal(got.Header.Get("Access-Control-Allow-Credentials"), "")
				is.Equal(got.Header.Get("Vary"), "Origin, Accept-Encoding")
			}
		})
	}
	is.Equal(a.Get("/api/v1/me").Header.Get("Access-Control-Allow-Origin"), "")
	is.Equal(a.Visit("/healthz", "Origin", "null").Header.Get("Access-Control-Allow-Origin"), "")
	is.Equal(
		a.Do(apitest.Request{
			Method: "OPTIONS", Path: "/x/none", Anyone: true,
			Header: apitest.WithHeader("Origin", "null", "Access-Control-Request-Method", "GET"),
		}).Header.Get("Access-Control-Allow-Origin"),
		"",
	)
}

func TestDoorRequestID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for id, taken := range map[string]bool{
		"abc-DEF_1.2": true, strings.Repeat("a", 64): true,
		strings.Repeat("a", 65): false, "": false, "a b": false, "a\"b": false, "ä": false, "a{b": false, "<script>": false, "a\x1b[31m": false, "a/b": false,
	} {
		r := httptest.NewRequest("GET", "/api/v1/nothing", nil)
		r.Host = "localhost"
		r.Header["X-Request-Id"] = []string{id}
		w := httptest.NewRecorder()
		a.Server.ServeHTTP(w, r)
		got := w.Header().Get("X-Request-Id")
		is.Equal(got == id, taken)
		is.True(web.SaneID(got))
		var e struct{ RequestID string }
		is.NoErr(json.Unmarshal(w.Body.Bytes(), &e))
		is.Equal(e.RequestID, got)
		is.True(strings.Contains(a.Logged.String(), `"requestId":"`+got+`"`))
	}
	one := a.Visit("/healthz").Header.Get("X-Request-Id")
	is.True(a.Visit("/healthz").Header.Get("X-Request-Id") != one)
}

// TestDoorLog: one line a request, in which no secret of a request stands,
// wherever in the request it was.
func TestDoorLog(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", `{"content":"x","slug":"locked","isPublic":true,"password":"SECRET-pass"}`).Want(201)
	const token = "kist_SECRETkeySECRETkeySECRETkeySECRETkeySECRE"
	mark := len(a.Logged.String())
	requests := []apitest.Request{
		{Method: "GET", Path: "/api/v1/me", Key: token},
		{Method: "GET", Path: "/api/v1/files/" + token, Key: token},
		{Method: "GET", Path: "/x/" + token + ".txt", Anyone: true},
		{Method: "GET", Path: "/x/locked?password=SECRET-query&key=" + token, Anyone: true},
		{Method: "GET", Path: "/x/locked", Anyone: true, Header: apitest.WithHeader("X-Share-Password", "SECRET-guess")},
		{Method: "GET", Path: "/x/locked", Anyone: true, Header: apitest.WithHeader("X-Share-Password", "SECRET-pass")},
		{Method: "POST", Path: "/api/v1/notes/p/locked", Anyone: true, JSON: `{"password":"SECRET-body"}`},
		{
			Method: "POST", Path: "/api/v1/notes",
			JSON: `{"content":"SECRET-content","password":"SECRET-new","sourceUrl":"SECRET-url"}`,
		},
		{Method: "POST", Path: "/api/v1/notes", JSON: `{"SECRET-broken"`},
		{Method: "GET", Path: "/claim/SECRET-token", Anyone: true},
		{Method: "HEAD", Path: "/claim/SECRET-token", Anyone: true},
		{Method: "PUT", Path: "/claim/SECRET-token", Anyone: true},
		{Method: "OPTIONS", Path: "/claim/SECRET-token", Anyone: true},
		{Method: "GET", Path: "/claim/SECRET-token/", Anyone: true},
		{Method: "GET", Path: "/claim/a/SECRET-token", Anyone: true},
		{Method: "GET", Path: "/kist/claim/SECRET-token", Anyone: true},
		{Method: "GET", Path: "/Claim/SECRET-token", Anyone: true},
		{Method: "GET", Path: "//claim//SECRET-token", Anyone: true},
		{Method: "GET", Path: "/%63laim/SECRET-token", Anyone: true},
		{Method: "GET", Path: "/claim/SECRET-token?" + strings.Repeat("a", web.MaxQuery+1), Anyone: true},
		{
			Method: "POST", Path: "/claim/SECRET-token", Anyone: true,
			Body:   strings.NewReader("username=a&password=SECRET-form"),
			Header: apitest.WithHeader("Content-Type", "application/x-www-form-urlencoded"),
		},
		{Method: "PATCH", Path: "/api/v1/me", JSON: `{"password":"SECRET-123456","currentPassword":"SECRET-123457"}`},
	}
	for _, name := range []string{
		"Authorization", "Cookie", "Referer", "User-Agent", "Origin", "Idempotency-Key", "X-Upload-Password",
		"X-Forwarded-For", "Accept", "Range", "If-None-Match", "Sec-Purpose", "X-Anything",
	} {
		requests = append(
			requests,
			apitest.Request{
				Method: "GET", Path: "/x/locked", Anyone: true, Header: apitest.WithHeader(name, "Bearer SECRET-header"),
			},
		)
	}
	for _, q := range requests {
		q.Raw = true
		a.Do(q)
	}
	up := a.UploadRequest(
		map[string]string{"password": "SECRET-field", "description": "SECRET-text", "slug": "!SECRET"},
		apitest.File("SECRET-name.txt", "text/SECRET-type", "SECRET-bytes"),
	)
	up.Raw = true
	a.Do(up)

	lines := a.Lines(mark)
	is.Equal(len(lines), len(requests)+1) // one line a request
	for _, line := range lines {
		var l struct {
			Level, Msg, Method, Path, Client, RequestID string
			Status                                      int
			Ms                                          *float64
			Bytes                                       *int
		}
		is.NoErr(json.Unmarshal([]byte(line), &l))
		is.Equal(l.Msg, "request")
		is.True(l.Method != "" && l.Path != "" && l.Client == "127.0.0.1" && l.RequestID != "" && l.Status >= 200 &&
			l.Ms != nil && l.Bytes != nil)
		if strings.Contains(line, "SECRET") {
			t.Errorf("a secret is in the log: %s", line)
		}
	}
}

// TestDoorLogEscapes: nothing of a request can end the line, forge one, or
// reach the terminal of its reader.
func TestDoorLogEscapes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	mark := len(a.Logged.String())
	paths := []string{
		"/x/a%0d%0a%7B%22level%22:%22ERROR%22%7D", "/x/%1b%5B31mred", "/x/%00", "/x/%ff%fe", "/x/%e2%80%ae",
		"/" + strings.Repeat("y", 20_000),
	}
	for _, path := range paths {
		a.Do(apitest.Request{Method: "GET", Path: path, Anyone: true, Raw: true})
	}
	lines := a.Lines(mark)
	is.Equal(len(lines), len(paths))
	for _, line := range lines {
		is.True(json.Valid([]byte(line)))
		is.True(!strings.ContainsAny(line, "\x1b\x00\r"))
		is.True(len(line) < 2000) // a long path does not fill the disk
	}
}

func TestDoorClientAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	proxies := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32"),
	}
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		peer    string
		forward []string
		want    string
	}{
		"no proxies":               {nil, "203.0.113.9:1", []string{"1.1.1.1"}, "203.0.113.9"},
		"no proxies, loopback":     {nil, "127.0.0.1:1", []string{"1.1.1.1"}, "127.0.0.1"},
		"not a proxy":              {proxies, "203.0.113.9:1", []string{"1.1.1.1"}, "203.0.113.9"},
		"one":                      {proxies, "10.0.0.1:1", []string{"1.1.1.1"}, "1.1.1.1"},
		"spoofed on the left":      {proxies, "10.0.0.1:1", []string{"9.9.9.9, 1.1.1.1"}, "1.1.1.1"},
		"spoofed in a line before": {proxies, "10.0.0.1:1", []string{"9.9.9.9", "1.1.1.1"}, "1.1.1.1"},
		"two proxies":              {proxies, "10.0.0.1:1", []string{"9.9.9.9,1.1.1.1, 10.2.3.4 ,10.0.0.2"}, "1.1.1.1"},
		"all are proxies":          {proxies, "10.0.0.1:1", []string{"10.9.9.9, 10.0.0.2"}, "10.9.9.9"},
		"no header":                {proxies, "10.0.0.1:1", nil, "10.0.0.1"},
		"empty":                    {proxies, "10.0.0.1:1", []string{""}, "10.0.0.1"},
		"rubbish":                  {proxies, "10.0.0.1:1", []string{"1.1.1.1, unknown"}, "10.0.0.1"},
		"rubbish behind a proxy":   {proxies, "10.0.0.1:1", []string{"1.1.1.1, <b>, 10.0.0.2"}, "10.0.0.2"},
		"IPv6":                     {proxies, "[fd00::1]:1", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv4 in IPv6":             {proxies, "[::ffff:10.0.0.1]:1", []string{"::ffff:1.1.1.1"}, "1.1.1.1"},
		"a zone is no part of it":  {proxies, "[fd00::1%eth0]:1", []string{"fd00::2%x, 2001:db8::1%y"}, "2001:db8::1"},
		"a proxy with a zone":      {proxies, "[fd00::1%eth0]:1", []string{"1.1.1.1, fd00::2%evil"}, "1.1.1.1"},
		"a socket":                 {proxies, "@", []string{"9.9.9.9, 1.1.1.1"}, "1.1.1.1"},
		"a socket, no proxies":     {nil, "@", []string{"1.1.1.1"}, "invalid IP"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := &web.Site{Config: web.Config{TrustedProxies: c.trusted}}
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.peer
			r.Header["X-Forwarded-For"] = c.forward
			for _, h := range []string{
				"X-Real-Ip", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip", "X-Client-Ip", "X-Forwarded-Host",
			} {
				r.Header.Set(h, "9.9.9.9")
			}
			is.Equal(s.Client(r).String(), c.want)
		})
	}
	// Addresses are made of the base, whatever the request says.
	a := apitest.Start(t, func(c *web.Config) { c.TrustedProxies, c.AnyHost = proxies, true })
	made := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"x"}`, Header: apitest.WithHeader(
		"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "ftp", "Forwarded", "host=evil.example", "X-Forwarded-For", "1.1.1.1")}).Want(201)
	is.True(strings.HasPrefix(made.Text("url"), "https://kist.example.org/"))
	is.True(strings.Contains(a.Logged.String(), `"client":"1.1.1.1"`))
}

// TestDoorOddRequests sends what routers and muxes stumble over.
func TestDoorOddRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "http://kist.example.org", 404},
		{"GET", "/", 303},
		{"POST", "/", 405},
		{"GET", "//", 404},
		{"GET", "/x/", 404},
		{"GET", "/x//", 404},
		{"GET", "/x/a/b", 404},
		{"GET", "/x/..", 404},
		{"GET", "/x/.", 404},
		{"GET", "/x/%2e%2e%2fetc%2fpasswd", 404},
		{"GET", "/../../etc/passwd", 404},
		{"GET", "/static/..%2fembed.go", 404},
		{"GET", "/static/../openapi.json", 404},
		{"GET", "/x/%00", 404},
		{"GET", "/x/%ff", 404},
		{"GET", "/x/.txt", 404},
		{"GET", "/x/a.", 404},
		{"GET", "/x/" + strings.Repeat("a", 8000), 404},
		{"OPTIONS", "*", 404},
		{"CONNECT", "/x/a", 405},
		{"TRACE", "/x/a", 405},
		{"get", "/x/a", 405},
		{"POST", "/x/a", 405},
		{"PUT", "/s/a", 405},
		{"OPTIONS", "/x/a", 204},
		{"GET", "/api", 404},
		{"GET", "/api/v1", 404},
		{"GET", "/api/v2/me", 404},
		{"GET", "/api/v1/", 404},
		{"POST", "/api/v1/openapi", 405},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Host = "localhost"
		if err := setTarget(r, c.target); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		a.Server.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.target, w.Code, c.status)
		}
		if c.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.target)
		}
		// errors of the API are JSON
		is.Equal(strings.HasPrefix(c.target, "/api"), c.status != 204 && w.Header().Get("Content-Type") == "application/json")
	}
}

func setTarget(r *http.Request, target string) error {
	u, err := r.URL.Parse(target)
	if target == "*" {
		u.Path = "*"
	}
	if err == nil && strings.HasPrefix(target, "//") {
		u.Host, u.Path = "", target
	}
	if strings.Contains(target, "..") { // Parse resolves it away
		u.Path = strings.NewReplacer("%2e", ".", "%2f", "/").Replace(target)
	}
	r.URL, r.RequestURI = u, target
	return err
}

// TestDoorHome: the address that the pages' logo leads to is the app for who is
// signed in, and leads to the sign-in otherwise, also below a prefix.
func TestDoorHome(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for base, prefix := range map[string]string{"https://kist.example.org": "", "https://example.org/kist": "/kist"} {
		a := apitest.Start(t, func(c *web.Config) { c.Base = base })
		is.Equal(a.Visit("/").Want(303).Header.Get("Location"), prefix+"/login?next=%2F")
		got := browse(a, "/").Want(200)
		is.Equal(got.Header.Get("Content-Type"), "text/html; charset=utf-8")
		is.True(strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "default-src 'none'"))
		page := string(got.Body)
		is.True(strings.Contains(page, `href="`+prefix+`/api/v1/reference"`))
		is.True(strings.Contains(page, `href="`+prefix+`/"`))
		is.True(strings.Contains(page, `href="`+prefix+`/static/`))
		is.Equal(len(a.Do(apitest.Request{Method: "HEAD", Path: "/"}).Want(200).Body), 0)
	}
}

func TestDoorQueryBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	get := func(query string) int {
		return a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes?" + query, Raw: true}).Status
	}
	is.Equal(get("tag="+strings.Repeat("a", web.MaxQuery-4)), 200)
	is.Equal(get("tag="+strings.Repeat("a", web.MaxQuery-3)), 400)
	is.Equal(get(strings.Repeat("&", web.MaxArgs)), 400)
	is.Equal(get("a=%zz"), 400)
	r := httptest.NewRequest("GET", "/api/v1/notes?"+strings.Repeat("a=b&", 1_000_000), nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	a.Server.ServeHTTP(w, r)
	is.Equal(w.Code, 400)
}
