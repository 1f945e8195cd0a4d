package httpapi

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

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// code is the code of an error answered in the API.
func (g *answer) code() string {
	g.app.Helper()
	return g.text("code")
}

func withHeader(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
	}
	return h
}

func TestDoorCredentials(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	other := a.addKey(a.user, people.ScopeAll)
	for name, c := range map[string]struct {
		header http.Header
		status int
		code   string
	}{
		"x-api-key":                   {withHeader("X-Api-Key", a.key), 200, ""},
		"ApiKey":                      {withHeader("Authorization", "ApiKey "+a.key), 200, ""},
		"Bearer":                      {withHeader("Authorization", "Bearer "+a.key), 200, ""},
		"lower case":                  {withHeader("Authorization", "apikey "+a.key), 200, ""},
		"upper case":                  {withHeader("Authorization", "BEARER "+a.key), 200, ""},
		"spaces":                      {withHeader("Authorization", "  ApiKey \t  "+a.key+"  "), 200, ""},
		"tab":                         {withHeader("Authorization", "Bearer\t"+a.key), 200, ""},
		"spaces in x-api-key":         {withHeader("X-Api-Key", "  "+a.key+"\t"), 200, ""},
		"the same twice":              {withHeader("X-Api-Key", a.key, "X-Api-Key", a.key), 200, ""},
		"the same in both":            {withHeader("X-Api-Key", a.key, "Authorization", "Bearer "+a.key), 200, ""},
		"beside an empty one":         {withHeader("X-Api-Key", "", "Authorization", "Bearer "+a.key), 200, ""},
		"before an empty one":         {withHeader("X-Api-Key", a.key, "Authorization", "Bearer "), 200, ""},
		"beside Basic":                {withHeader("X-Api-Key", a.key, "Authorization", "Basic YTpi"), 200, ""},
		"two good ones":               {withHeader("X-Api-Key", a.key, "Authorization", "Bearer "+other), 400, "conflicting_credentials"},
		"two in one header":           {withHeader("X-Api-Key", a.key, "X-Api-Key", other), 400, "conflicting_credentials"},
		"two schemes":                 {withHeader("Authorization", "ApiKey "+a.key, "Authorization", "Bearer "+other), 400, "conflicting_credentials"},
		"good, bad, good":             {withHeader("X-Api-Key", a.key, "X-Api-Key", "kist_bad", "Authorization", "Bearer "+a.key), 400, "conflicting_credentials"},
		"none":                        {nil, 401, "no_credential"},
		"empty":                       {withHeader("X-Api-Key", ""), 401, "no_credential"},
		"Basic":                       {withHeader("Authorization", "Basic "+a.key), 401, "no_credential"},
		"no scheme":                   {withHeader("Authorization", a.key), 401, "no_credential"},
		"unknown":                     {withHeader("X-Api-Key", "kist_unknown"), 401, "unknown_key"},
		"a prefix of a good one":      {withHeader("X-Api-Key", a.key[:len(a.key)-1]), 401, "unknown_key"},
		"longer than a good one":      {withHeader("X-Api-Key", a.key+"x"), 401, "unknown_key"},
		"another case of a good one":  {withHeader("X-Api-Key", strings.ToUpper(a.key)), 401, "unknown_key"},
		"very long":                   {withHeader("X-Api-Key", strings.Repeat("k", 20_000)), 401, "unknown_key"},
		"two joined by a comma":       {withHeader("X-Api-Key", a.key+", "+other), 401, "unknown_key"},
		"the digest instead":          {withHeader("X-Api-Key", strings.Repeat("0", 64)), 401, "unknown_key"},
		"bytes that are not UTF-8":    {withHeader("X-Api-Key", "\xff\xfe"), 401, "unknown_key"},
		"a name that is not a header": {withHeader("X-Apikey", a.key), 401, "no_credential"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got := a.do(apiRequest{method: "GET", path: "/api/v1/me", anyone: true, header: c.header})
			is.Equal(got.status, c.status)
			if c.code != "" {
				is.Equal(got.code(), c.code)
			}
			is.Equal(got.header.Get("WWW-Authenticate") != "", c.status == 401) // a challenge comes with 401 alone
		})
	}
	// In the address a key is no key.
	is.Equal(a.visit("/api/v1/me?x-api-key="+a.key+"&api_key="+a.key).status, 401)
}

// TestDoorNextRequest turns credentials off in every way and back on; each
// holds from the next request on, also for keys that were in use.
func TestDoorNextRequest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	key := a.addKey(bob, people.ScopeAll)
	me := func() *answer { return a.do(apiRequest{method: "GET", path: "/api/v1/me", key: key}) }
	refused := func(code string) {
		t.Helper()
		is.Equal(me().want(401).code(), code)
	}
	me().want(200)

	user := "/api/v1/admin/users/" + bob.ID.String()
	a.patch(user, `{"apiTokensDisabled":true}`).want(200)
	refused("api_tokens_disabled")
	a.patch(user, `{"apiTokensDisabled":false}`).want(200)
	me().want(200)
	a.patch(user, `{"disabled":true}`).want(200)
	refused("user_disabled")
	a.patch(user, `{"disabled":false}`).want(200)
	me().want(200)

	settings := func(off bool) {
		is.NoErr(a.server.Store.Update(func(tx *kv.Tx) error {
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
	a.do(apiRequest{method: "GET", path: "/api/v1/me"}).want(401) // administrators' keys too
	settings(false)
	me().want(200)

	edit := func(change func(*people.Key)) {
		is.NoErr(a.server.Store.Update(func(tx *kv.Tx) error {
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
	me().want(200)
	edit(func(k *people.Key) { k.Scopes = []people.Scope{people.ScopeUpload} })
	is.Equal(me().want(403).code(), "scope_missing")
	edit(func(k *people.Key) {
		k.Scopes, k.Expires = []people.Scope{people.ScopeAll}, a.server.Store.Now().Add(time.Hour)
	})
	me().want(200)
	a.clock.advance(time.Hour)
	refused("key_expired")
	edit(func(k *people.Key) { k.Expires = time.Time{} })
	me().want(200)

	// A former administrator keeps the key but not the access to admin routes.
	eve := a.addUser("eve", people.Admin)
	admin := a.addKey(eve, people.ScopeAdmin)
	stats := func() *answer { return a.do(apiRequest{method: "GET", path: "/api/v1/admin/stats", key: admin}) }
	stats().want(200)
	a.patch("/api/v1/admin/users/"+eve.ID.String(), `{"role":"user"}`).want(200)
	is.Equal(stats().want(403).code(), "not_admin")

	a.delete(user).want(200)
	refused("unknown_key")
}

// TestDoorScopes tries every scope at every route of the table. What a route
// needs is worked out from the method and path alone.
func TestDoorScopes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	const anyScope, browserAlone people.Scope = "any", "browser"
	opens := map[people.Scope][]people.Scope{ // by what is needed
		people.ScopeRead:   {people.ScopeRead, people.ScopeAll, people.ScopeAdmin},
		people.ScopeWrite:  {people.ScopeWrite, people.ScopeAll, people.ScopeAdmin},
		people.ScopeUpload: {people.ScopeUpload, people.ScopeWrite, people.ScopeAll, people.ScopeAdmin},
		people.ScopeAdmin:  {people.ScopeAdmin},
		people.ScopeAll:    {people.ScopeAll, people.ScopeAdmin},
		anyScope:           {people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAll, people.ScopeAdmin},
	}
	need := func(r Route) people.Scope {
		p := strings.TrimPrefix(r.Path, "/api/v1/")
		switch {
		case p == "keys/current":
			return anyScope
		case r.Method+" "+r.Path == "POST /device", r.Path == "/login/confirm", p == "auth/device/verify", p == "auth/device/revoke":
			return browserAlone // the last, what was connected with a code alone: see TestDeviceRevoke
		case p == "auth/confirm", p == "me/security", p == "me/codes", p == "me/recovery-codes", strings.HasPrefix(p, "me/passkeys"), r.Method+" "+p == "POST me/identities":
			return browserAlone // how the account signs in
		case strings.HasPrefix(p, "auth/"), strings.HasPrefix(p, "captcha/"), p == r.Path, p == "openapi", p == "reference", strings.Contains(p, "/p/{slug}"), p == "upload-requests/tus/{secret}":
			return ""
		case strings.HasPrefix(p, "admin/"), p == "keys", p == "setups", p == "activity", strings.HasPrefix(p, "keys/"), strings.HasPrefix(p, "me/sessions"), strings.HasPrefix(p, "me/identities"):
			return people.ScopeAdmin
		case strings.HasPrefix(p, "integrations/webhooks") && (r.ID == "createWebhook" || r.ID == "editWebhook"):
			return people.ScopeAll // or read and write together: see TestWebhookScopes
		case p == "export", p == "import", strings.HasPrefix(p, "import/"), strings.HasPrefix(p, "trash") && r.Method == "DELETE":
			return people.ScopeAll
		case p == "remote-upload" && r.Method == "GET":
			return anyScope
		case r.Method == "OPTIONS":
			return ""
		case p == "remote-upload" && r.Method == "POST", p == "remote-upload/{id}":
			return people.ScopeUpload
		case r.Method == "GET" && p != "tus/{id}":
			return people.ScopeRead
		case p == "upload", p == "tus", p == "tus/{id}":
			return people.ScopeUpload
		}
		return people.ScopeWrite
	}
	bob := a.addUser("bob", people.Member)
	for _, scope := range []people.Scope{people.ScopeAll, people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAdmin} {
		admins, members := a.addKey(a.user, scope), a.addKey(bob, scope)
		for _, r := range a.server.Routes() {
			path := strings.NewReplacer("{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057", "{token}", "none", "{name}", "none").Replace(r.Path)
			try := func(key string) (status int, code string) {
				q := apiRequest{method: r.Method, path: path, key: key, anyone: key == "", raw: true}
				if r.Method != "GET" && r.Method != "DELETE" {
					q.json = "{"
				}
				got := a.do(q)
				var e struct{ Code string }
				_ = json.Unmarshal(got.body, &e) // some are no JSON
				return got.status, e.Code
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
	is.True(len(a.server.Routes()) > 60) // the table was walked
}

// TestDoorBadKeyAtOpenRoutes: a key that cannot be used shuts nobody out of
// what is open to everyone.
func TestDoorBadKeyAtOpenRoutes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	key := a.addKey(bob, people.ScopeAll)
	for _, slug := range []string{"open", "hidden"} {
		a.do(apiRequest{method: "POST", path: "/api/v1/notes", key: key, json: map[string]any{"content": "x", "slug": slug, "isPublic": slug == "open"}}).want(201)
	}
	a.do(apiRequest{method: "GET", path: "/x/hidden", key: key}).want(200) // to its owner
	a.patch("/api/v1/admin/users/"+bob.ID.String(), `{"apiTokensDisabled":true}`).want(200)
	page := regexp.MustCompile(`/static/[^"]+`).FindString(string(a.visit("/claim/none", "Accept", "text/html").want(404).body))
	for _, bad := range []http.Header{withHeader("X-Api-Key", "kist_bad"), withHeader("X-Api-Key", key), withHeader("Authorization", "Bearer x")} {
		for path, status := range map[string]int{
			"/healthz": 200, "/api/v1/openapi": 200, "/api/v1/reference": 200, page: 200, "/claim/none": 404,
			"/x/open": 200, "/x/hidden": 404, "/s/none": 404,
		} {
			is.Equal(a.do(apiRequest{method: "GET", path: path, anyone: true, header: bad}).status, status)
		}
		is.Equal(a.do(apiRequest{method: "POST", path: "/api/v1/notes/p/open", anyone: true, header: bad, json: "{}"}).status, 200)
		is.Equal(a.do(apiRequest{method: "POST", path: "/api/v1/notes/p/hidden", anyone: true, header: bad, json: "{}"}).status, 404)
	}
	// Where a credential is looked at, two are still refused.
	a.visit("/x/open", "X-Api-Key", a.key, "Authorization", "Bearer kist_bad").want(400)
	a.visit("/healthz", "X-Api-Key", a.key, "Authorization", "Bearer kist_bad").want(200)
	// Browsers and proxies send Basic on their own account.
	a.visit("/x/open", "Authorization", "Basic YTpi").want(200)
	a.visit("/x/open", "Authorization", "Digest username=\"a\"").want(200)
}

func TestDoorCrossOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for _, origin := range []string{"chrome-extension://abcdefghijklmnopabcdefghijklmnop", "moz-extension://0d8b2a3c-5c3e-4d2f-9d51-0123456789ab", "null", "https://example.org"} {
		t.Run(origin, func(t *testing.T) {
			is := is.New(t)
			for _, method := range []string{"GET", "POST", "PATCH", "DELETE"} {
				got := a.do(apiRequest{method: "OPTIONS", path: "/api/v1/notes/x", anyone: true, header: withHeader(
					"Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "x-api-key,content-type")})
				is.Equal(got.status, 204)
				is.Equal(got.header.Get("Access-Control-Allow-Origin"), "*")
				is.True(strings.Contains(got.header.Get("Access-Control-Allow-Methods"), method))
				is.Equal(got.header.Get("Access-Control-Allow-Credentials"), "")
				allowed := strings.Split(got.header.Get("Access-Control-Allow-Headers"), ", ")
				for _, name := range strings.Split("content-type, x-api-key, authorization, x-upload-password, x-share-password, x-captcha-token, x-captcha-pass, idempotency-key, "+
					"tus-resumable, upload-length, upload-offset, upload-metadata, upload-checksum", ", ") {
					is.True(slices.Contains(allowed, name)) // the header may be sent
				}
				is.True(!slices.Contains(allowed, "*"))
			}
			for _, q := range []apiRequest{
				{method: "GET", path: "/api/v1/me"},
				{method: "POST", path: "/api/v1/notes", json: `{"content":"x"}`},
				{method: "GET", path: "/api/v1/me", anyone: true},            // 401
				{method: "GET", path: "/api/v1/nothing", anyone: true},       // 404
				{method: "PUT", path: "/api/v1/me", anyone: true},            // 405
				{method: "POST", path: "/api/v1/notes", json: `{`},           // 400
				{method: "OPTIONS", path: "/api/v1/notes", anyone: true},     // no pre-flight
				{method: "DELETE", path: "/api/v1/notes/none", anyone: true}, // 401
			} {
				q.header, q.raw = withHeader("Origin", origin), true
				got := a.do(q)
				is.Equal(got.header.Get("Access-Control-Allow-Origin"), "*") // errors too: a page must be able to read them
				is.Equal(got.header.Get("Access-Control-Allow-Credentials"), "")
				is.Equal(got.header.Get("Vary"), "Origin, Accept-Encoding")
			}
		})
	}
	is.Equal(a.get("/api/v1/me").header.Get("Access-Control-Allow-Origin"), "")
	is.Equal(a.visit("/healthz", "Origin", "null").header.Get("Access-Control-Allow-Origin"), "")
	is.Equal(a.do(apiRequest{method: "OPTIONS", path: "/x/none", anyone: true, header: withHeader("Origin", "null", "Access-Control-Request-Method", "GET")}).header.Get("Access-Control-Allow-Origin"), "")
}

func TestDoorRequestID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for id, taken := range map[string]bool{
		"abc-DEF_1.2": true, strings.Repeat("a", 64): true,
		strings.Repeat("a", 65): false, "": false, "a b": false, "a\"b": false, "ä": false, "a{b": false, "<script>": false, "a\x1b[31m": false, "a/b": false,
	} {
		r := httptest.NewRequest("GET", "/api/v1/nothing", nil)
		r.Host = "localhost"
		r.Header["X-Request-Id"] = []string{id}
		w := httptest.NewRecorder()
		a.server.ServeHTTP(w, r)
		got := w.Header().Get("X-Request-Id")
		is.Equal(got == id, taken)
		is.True(web.SaneID(got))
		var e struct{ RequestID string }
		is.NoErr(json.Unmarshal(w.Body.Bytes(), &e))
		is.Equal(e.RequestID, got)
		is.True(strings.Contains(a.log.String(), `"requestId":"`+got+`"`))
	}
	one := a.visit("/healthz").header.Get("X-Request-Id")
	is.True(a.visit("/healthz").header.Get("X-Request-Id") != one)
}

// lines are those of the log since mark.
func (a *app) lines(mark int) []string {
	return strings.Split(strings.TrimSuffix(a.log.String()[mark:], "\n"), "\n")
}

// TestDoorLog: one line a request, in which no secret of a request stands,
// wherever in the request it was.
func TestDoorLog(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/notes", `{"content":"x","slug":"locked","isPublic":true,"password":"SECRET-pass"}`).want(201)
	const token = "kist_SECRETkeySECRETkeySECRETkeySECRETkeySECRE"
	mark := len(a.log.String())
	requests := []apiRequest{
		{method: "GET", path: "/api/v1/me", key: token},
		{method: "GET", path: "/api/v1/files/" + token, key: token},
		{method: "GET", path: "/x/" + token + ".txt", anyone: true},
		{method: "GET", path: "/x/locked?password=SECRET-query&key=" + token, anyone: true},
		{method: "GET", path: "/x/locked", anyone: true, header: withHeader("X-Share-Password", "SECRET-guess")},
		{method: "GET", path: "/x/locked", anyone: true, header: withHeader("X-Share-Password", "SECRET-pass")},
		{method: "POST", path: "/api/v1/notes/p/locked", anyone: true, json: `{"password":"SECRET-body"}`},
		{method: "POST", path: "/api/v1/notes", json: `{"content":"SECRET-content","password":"SECRET-new","sourceUrl":"SECRET-url"}`},
		{method: "POST", path: "/api/v1/notes", json: `{"SECRET-broken"`},
		{method: "GET", path: "/claim/SECRET-token", anyone: true},
		{method: "HEAD", path: "/claim/SECRET-token", anyone: true},
		{method: "PUT", path: "/claim/SECRET-token", anyone: true},
		{method: "OPTIONS", path: "/claim/SECRET-token", anyone: true},
		{method: "GET", path: "/claim/SECRET-token/", anyone: true},
		{method: "GET", path: "/claim/a/SECRET-token", anyone: true},
		{method: "GET", path: "/kist/claim/SECRET-token", anyone: true},
		{method: "GET", path: "/Claim/SECRET-token", anyone: true},
		{method: "GET", path: "//claim//SECRET-token", anyone: true},
		{method: "GET", path: "/%63laim/SECRET-token", anyone: true},
		{method: "GET", path: "/claim/SECRET-token?" + strings.Repeat("a", web.MaxQuery+1), anyone: true},
		{method: "POST", path: "/claim/SECRET-token", anyone: true, body: strings.NewReader("username=a&password=SECRET-form"), header: withHeader("Content-Type", "application/x-www-form-urlencoded")},
		{method: "PATCH", path: "/api/v1/me", json: `{"password":"SECRET-123456","currentPassword":"SECRET-123457"}`},
	}
	for _, name := range []string{"Authorization", "Cookie", "Referer", "User-Agent", "Origin", "Idempotency-Key", "X-Upload-Password", "X-Forwarded-For", "Accept", "Range", "If-None-Match", "Sec-Purpose", "X-Anything"} {
		requests = append(requests, apiRequest{method: "GET", path: "/x/locked", anyone: true, header: withHeader(name, "Bearer SECRET-header")})
	}
	for _, q := range requests {
		q.raw = true
		a.do(q)
	}
	up := a.uploadRequest(map[string]string{"password": "SECRET-field", "description": "SECRET-text", "slug": "!SECRET"}, file{"SECRET-name.txt", "text/SECRET-type", "SECRET-bytes"})
	up.raw = true
	a.do(up)

	lines := a.lines(mark)
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
		is.True(l.Method != "" && l.Path != "" && l.Client == "127.0.0.1" && l.RequestID != "" && l.Status >= 200 && l.Ms != nil && l.Bytes != nil)
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
	a := start(t)
	mark := len(a.log.String())
	paths := []string{"/x/a%0d%0a%7B%22level%22:%22ERROR%22%7D", "/x/%1b%5B31mred", "/x/%00", "/x/%ff%fe", "/x/%e2%80%ae", "/" + strings.Repeat("y", 20_000)}
	for _, path := range paths {
		a.do(apiRequest{method: "GET", path: path, anyone: true, raw: true})
	}
	lines := a.lines(mark)
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
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32")}
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
			for _, h := range []string{"X-Real-Ip", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip", "X-Client-Ip", "X-Forwarded-Host"} {
				r.Header.Set(h, "9.9.9.9")
			}
			is.Equal(s.Client(r).String(), c.want)
		})
	}
	// Addresses are made of the base, whatever the request says.
	a := start(t, func(c *web.Config) { c.TrustedProxies, c.AnyHost = proxies, true })
	made := a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{"content":"x"}`, header: withHeader(
		"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "ftp", "Forwarded", "host=evil.example", "X-Forwarded-For", "1.1.1.1")}).want(201)
	is.True(strings.HasPrefix(made.text("url"), "https://kist.example.org/"))
	is.True(strings.Contains(a.log.String(), `"client":"1.1.1.1"`))
}

// TestDoorOddRequests sends what routers and muxes stumble over.
func TestDoorOddRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
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
		a.server.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.target, w.Code, c.status)
		}
		if c.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.target)
		}
		is.Equal(strings.HasPrefix(c.target, "/api"), c.status != 204 && w.Header().Get("Content-Type") == "application/json") // errors of the API are JSON
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
		a := start(t, func(c *web.Config) { c.Base = base })
		is.Equal(a.visit("/").want(303).header.Get("Location"), prefix+"/login?next=%2F")
		got := a.browse("/").want(200)
		is.Equal(got.header.Get("Content-Type"), "text/html; charset=utf-8")
		is.True(strings.HasPrefix(got.header.Get("Content-Security-Policy"), "default-src 'none'"))
		page := string(got.body)
		is.True(strings.Contains(page, `href="`+prefix+`/api/v1/reference"`))
		is.True(strings.Contains(page, `href="`+prefix+`/"`))
		is.True(strings.Contains(page, `href="`+prefix+`/static/`))
		is.Equal(len(a.do(apiRequest{method: "HEAD", path: "/"}).want(200).body), 0)
	}
}

func TestDoorQueryBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	get := func(query string) int {
		return a.do(apiRequest{method: "GET", path: "/api/v1/notes?" + query, raw: true}).status
	}
	is.Equal(get("tag="+strings.Repeat("a", web.MaxQuery-4)), 200)
	is.Equal(get("tag="+strings.Repeat("a", web.MaxQuery-3)), 400)
	is.Equal(get(strings.Repeat("&", web.MaxArgs)), 400)
	is.Equal(get("a=%zz"), 400)
	r := httptest.NewRequest("GET", "/api/v1/notes?"+strings.Repeat("a=b&", 1_000_000), nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	a.server.ServeHTTP(w, r)
	is.Equal(w.Code, 400)
}
