package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// A principal is a caller, with the properties of its credential.
type principal struct {
	name    string
	header  []string
	broken  bool // there is no valid credential
	session bool
	foreign bool // the request is sent by another site's page
	twice   bool // there are two credentials that differ
	admin   bool // the user is an administrator
	scopes  []people.Scope
}

// principals makes one of each kind.
func principals(a *apitest.App) []principal {
	a.Helper()
	bob, off, mute := a.AddUser("bob", people.Member), a.AddUser("off", people.Member), a.AddUser("mute", people.Member)
	var all []principal
	key := func(name string, u *people.User, change func(*principal, *people.Key), scopes ...people.Scope) record.ID {
		k := people.Key{Owner: u.ID, Name: "test", Scopes: scopes}
		p := principal{name: name, admin: u.Role == people.Admin, scopes: scopes}
		if change != nil {
			change(&p, &k)
		}
		var made *people.Key
		var secret string
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) { made, secret, err = people.AddKey(tx, k); return err }))
		p.header = append(p.header, "X-Api-Key", secret)
		all = append(all, p)
		return made.ID
	}
	// Each session is of another user, as one may end the others of its own.
	session := func(name string, u *people.User, change func(*principal)) {
		p := principal{name: name, session: true, admin: u.Role == people.Admin, scopes: []people.Scope{people.ScopeAdmin}}
		var secret string
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
			_, secret, err = people.AddSession(tx, u.ID, "test", "192.0.2.1", tx.Now)
			return err
		}))
		p.header = []string{"Cookie", a.SessionCookie() + "=" + secret, "Sec-Fetch-Site", "same-origin"}
		if change != nil {
			change(&p)
		}
		all = append(all, p)
	}
	broken := func(p *principal, _ *people.Key) { p.broken = true }

	all = append(
		all,
		principal{name: "nobody", broken: true},
		principal{
			name: "unknown key", broken: true, header: []string{"X-Api-Key", people.KeyPrefix + strings.Repeat("A", 43)},
		},
		principal{name: "no key at all", broken: true, header: []string{"Authorization", "Bearer x"}},
		principal{
			name: "unknown session", broken: true,
			header: []string{"Cookie", a.SessionCookie() + "=" + people.KeyPrefix + strings.Repeat("A", 43)},
		},
	)
	key("expired key", bob, func(p *principal, k *people.Key) {
		p.broken, k.Expires = true, a.Clock.Now().Add(time.Second)
	}, people.ScopeAdmin)
	key("disabled key", bob, func(p *principal, k *people.Key) { p.broken, k.Disabled = true, true }, people.ScopeAdmin)
	key("key of a disabled user", off, broken, people.ScopeAdmin)
	session("session of a disabled user", off, func(p *principal) { p.broken = true })
	key("key of a user whose keys are off", mute, broken, people.ScopeAdmin)
	session("session of a user whose keys are off", mute, nil)
	for _, scopes := range [][]people.Scope{
		{people.ScopeRead}, {people.ScopeWrite}, {people.ScopeUpload}, {people.ScopeAll}, {people.ScopeAdmin}, {people.ScopeRead, people.ScopeWrite},
	} {
		key(fmt.Sprint("user's key for ", scopes), bob, nil, scopes...)
		key(fmt.Sprint("administrator's key for ", scopes), a.User, nil, scopes...)
	}
	key("device key", bob, func(_ *principal, k *people.Key) {
		k.Device, k.Slides, k.Expires = "swush-cli", people.SlideTime, a.Clock.Now().Add(people.SlideTime)
	}, people.ScopeRead, people.ScopeWrite, people.ScopeUpload)
	session("user's session", a.AddUser("cleo", people.Member), nil)
	session("administrator's session", a.AddUser("dan", people.Admin), nil)
	session("session, from another site", a.AddUser("fay", people.Admin), func(p *principal) {
		p.foreign, p.header[3] = true, "cross-site"
	})
	session("session beside an unknown key", a.AddUser("eve", people.Admin), func(p *principal) {
		p.broken, p.header = true, append(p.header, "X-Api-Key", people.KeyPrefix+strings.Repeat("A", 43))
	})
	gone := key("revoked key", bob, broken, people.ScopeAdmin)
	key("two keys", a.User, func(p *principal, _ *people.Key) {
		p.twice, p.header = true, []string{"Authorization", "ApiKey " + a.AddKey(a.User, people.ScopeAdmin)}
	}, people.ScopeAdmin)

	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error { return people.RemoveKey(tx, bob.ID, gone) }))
	a.Clock.Advance(2 * time.Second)
	a.Patch("/api/v1/admin/users/"+off.ID.String(), `{"disabled":true}`).Want(200)
	a.Patch("/api/v1/admin/users/"+mute.ID.String(), `{"apiTokensDisabled":true}`).Want(200)
	return all
}

// An operation is a row of the served document.
type operation struct{ method, path, needs string }

// operations reads the rows of the document that the server serves.
func operations(a *apitest.App) (all []operation) {
	a.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	a.NoErr(json.Unmarshal(a.Get("/api/v1/openapi").Want(200).Body, &doc))
	for path, item := range doc.Paths {
		for method, raw := range item {
			var op struct{ Description string }
			method = strings.ToUpper(method)
			if method != "PARAMETERS" {
				a.NoErr(json.Unmarshal(raw, &op))
				needs := op.Description[strings.LastIndex(op.Description, "\n")+1:]
				all = append(all, operation{method, path, strings.TrimSuffix(needs, recentDoc)})
			}
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return all
}

// covers has the scopes that each scope includes.
var covers = map[people.Scope][]people.Scope{
	people.ScopeRead:   {people.ScopeRead},
	people.ScopeWrite:  {people.ScopeWrite, people.ScopeUpload},
	people.ScopeUpload: {people.ScopeUpload},
	people.ScopeAll:    {people.ScopeAll, people.ScopeRead, people.ScopeWrite, people.ScopeUpload},
	people.ScopeAdmin:  {people.ScopeAdmin, people.ScopeAll, people.ScopeRead, people.ScopeWrite, people.ScopeUpload},
}

var neededScope = regexp.MustCompile(`^An API key needs the scope (\w+)\.$`)

// due is the rule: what an operation answers to a principal. 0 is anything that
// does not refuse the caller.
func due(op operation, p principal) int {
	safe := op.method == http.MethodGet || op.method == http.MethodOptions || op.method == http.MethodHead
	switch {
	case op.needs == "No credential is needed.":
		return 0
	case p.twice:
		return http.StatusBadRequest
	case p.broken:
		return http.StatusUnauthorized
	case p.foreign && !safe:
		return http.StatusForbidden
	}
	may := false
	switch scope := neededScope.FindStringSubmatch(op.needs); {
	case scope != nil:
		may = slices.ContainsFunc(p.scopes, func(s people.Scope) bool {
			return slices.Contains(covers[s], people.Scope(scope[1]))
		})
		may = may && (p.admin || !strings.HasPrefix(op.path, "/api/v1/admin/"))
	case op.needs == "An API key needs the scopes write and read.":
		holds := func(need people.Scope) bool {
			return slices.ContainsFunc(p.scopes, func(s people.Scope) bool { return slices.Contains(covers[s], need) })
		}
		may = holds(people.ScopeWrite) && holds(people.ScopeRead)
	case op.needs == "Any API key will do.":
		may = true
	case op.needs == "Only for a browser that is signed in.":
		may = p.session
	case strings.HasPrefix(op.needs, "For a browser that is signed in; an API key needs the scope admin"):
		may = p.session || p.admin && slices.Contains(p.scopes, people.ScopeAdmin)
	default:
		panic("the rule does not know: " + op.needs)
	}
	if !may {
		return http.StatusForbidden
	}
	return 0
}

// refusals are the codes of answers that refuse the caller, whatever is asked.
var refusals = []string{"no_credential", "unknown_key", "session_needed", "scope_missing", "not_admin"}

// TestAuthorisation asks for every operation of the served document as every
// kind of caller.
func TestAuthorisation(t *testing.T) {
	t.Parallel()
	ops := operations(apitest.Start(t))
	if len(ops) < 150 {
		t.Fatalf("the document has %d operations", len(ops))
	}
	// These end credentials, so that each has a server of its own.
	ends := []string{"/api/v1/auth/logout", "/api/v1/me/sessions", "/api/v1/auth/device/revoke"}
	rest := slices.DeleteFunc(slices.Clone(ops), func(op operation) bool { return slices.Contains(ends, op.path) })
	t.Run("most", func(t *testing.T) {
		t.Parallel()
		a := apitest.Start(t)
		verdicts(a, rest, principals(a))
	})
	for _, op := range ops {
		if !slices.Contains(ends, op.path) {
			continue
		}
		t.Run(op.method+" "+op.path, func(t *testing.T) {
			t.Parallel()
			a := apitest.Start(t)
			verdicts(a, []operation{op}, principals(a))
		})
	}
}

// judge sends each operation as each principal.
func verdicts(a *apitest.App, ops []operation, callers []principal) {
	a.Helper()
	is := is.New(a.TB.(*testing.T))
	args := regexp.MustCompile(`\{\w+\}`)
	for i, op := range ops {
		path := args.ReplaceAllString(op.path, "01890000-0000-7000-8000-000000000000") // of nothing
		for j, p := range callers {
			from := fmt.Sprintf("10.%d.%d.1", i, j) // limits of visitors are no matter here
			got := a.From(from, op.method, path, "kist.example.org", false, "", p.header...)
			body, err := io.ReadAll(got.Body)
			is.NoErr(err)
			var e struct{ Code string }
			_ = json.Unmarshal(body, &e) // a success may be of any form
			want := due(op, p)
			refused := got.StatusCode == http.StatusUnauthorized || slices.Contains(refusals, e.Code)
			if want == 0 && refused || want != 0 && got.StatusCode != want || got.StatusCode >= 500 {
				a.Errorf(
					"%s %s as %s: status %d %s, want %d (%s)", op.method, op.path, p.name, got.StatusCode, e.Code, want, op.needs,
				)
			}
		}
	}
}
