package httpapi_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// operate sends a request to a handler of the operator.
func operate(t *testing.T, h http.Handler, method, target, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(method, target, w.Code, w.Body, err)
	}
	return w.Code, got
}

// The operator manages accounts, settings and keys with no key, and the log names
// both the operator and the account.
func TestOperator(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	op := a.Server.Operator(nil)
	status, got := operate(t, op, "POST", "/api/v1/admin/users", `{"username":"bob","password":"correct horse"}`)
	is.Equal(status, 201)
	bob := got["data"].(map[string]any)["id"].(string)
	status, got = operate(t, op, "GET", "/api/v1/admin/users?sort=oldest", "")
	is.Equal(status, 200)
	is.Equal(got["total"], 2.0)
	status, got = operate(t, op, "GET", "/api/v1/me?user=BOB", "")
	is.Equal(status, 200)
	is.Equal(got["data"].(map[string]any)["id"], bob)

	status, got = operate(t, op, "POST", "/api/v1/keys?user=bob", `{"name":"laptop","scopes":["read"]}`)
	is.Equal(status, 201)
	key := got["key"].(string)
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}).Text("data.username"), "bob")
	id := got["data"].(map[string]any)["id"].(string)
	status, _ = operate(t, op, "DELETE", "/api/v1/keys/"+id+"?user=ann", "") // it is not hers
	is.Equal(status, 404)
	status, _ = operate(t, op, "DELETE", "/api/v1/keys/"+id+"?user=bob", "")
	is.Equal(status, 200)
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}).Status, 401)
	status, _ = operate(t, op, "PATCH", "/api/v1/admin/settings", `{"apiTokensDisabled":true}`)
	is.Equal(status, 200)
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me"}).Code(), "api_tokens_disabled")

	status, got = operate(t, op, "POST", "/api/v1/admin/users", `{"username":"no way","password":"x"}`)
	is.Equal(status, 422) // the rules of the API's own form
	is.Equal(len(got["fields"].(map[string]any)), 2)
	for _, target := range []string{"/api/v1/keys?user=carol", "/api/v1/keys?user=", "/api/v1/keys"} {
		status, got = operate(t, op, "GET", target, "")
		is.Equal(status, 404)
		is.True(strings.Contains(got["error"].(string), "kist user list shows the names"))
	}
	log := a.Logged.String()
	is.True(strings.Contains(log, `"op":"createKey","user":"operator","account":"bob"`))
	is.True(!strings.Contains(log, key))
}

// The operator's handler serves nothing but its own rows, and says all of an error.
func TestOperatorErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	op := a.Server.Operator(nil)
	for _, target := range []string{
		"GET /", "GET /healthz", "GET /api/v1/files", "POST /api/v1/auth/login", "PUT /api/v1/me", "GET /api/v1/export",
	} {
		method, path, _ := strings.Cut(target, " ")
		status, got := operate(t, op, method, path, "{}")
		is.Equal(status, 400)
		is.Equal(got["code"], "unknown_command")
	}
	for _, id := range slices.Concat(httpapi.InstanceOps, httpapi.AccountOps) {
		// a row of the table
		is.True(slices.ContainsFunc(a.Server.Routes(), func(r httpapi.Route) bool { return r.ID == id }))
	}
	is.NoErr(a.Server.Store.Close())
	status, got := operate(t, op, "GET", "/api/v1/admin/users", "")
	is.Equal(status, 503)
	is.Equal(got["error"], "the store is closed")
}

// A command without a server has the same handler on a store alone.
func TestOperatorAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	quiet := slog.New(slog.DiscardHandler)
	deleted := a.Post("/api/v1/notes", `{"content":"c"}`).Want(201).Text("data.id")
	a.Delete("/api/v1/notes/" + deleted).Want(200)
	op := httpapi.Operator(
		web.Config{Store: a.Server.Store, Passwords: apitest.CheapPasswords(), Log: quiet, Access: quiet}, nil,
	)
	fill := strings.NewReplacer("{id}", a.User.ID.String())
	for _, r := range a.Server.Routes() {
		if r.ID == "removeUser" || !slices.Contains(httpapi.InstanceOps, r.ID) && !slices.Contains(httpapi.AccountOps, r.ID) {
			continue
		}
		body := map[string]string{
			"createUser": `{"username":"bob","password":"correct horse"}`, "createKey": `{"name":"laptop"}`, "createInvitation": `{}`,
			"restoreTrash": `{"ids":["` + deleted + `"]}`, "editUser": `{"password":"another horse"}`, "editSettings": `{"linkChecks":false}`,
		}[r.ID]
		status, got := operate(t, op, r.Method, fill.Replace(r.Path)+"?user=ann", body)
		if want := r.Reply.Status; status != want && r.ID != "removeKey" || r.ID == "removeKey" && status != 404 {
			t.Errorf("%s: %d %v", r.ID, status, got)
		}
	}
	status, _ := operate(t, op, "DELETE", "/api/v1/admin/users/"+a.User.ID.String(), "")
	is.Equal(status, 409) // the last administrator
}

// None of the operator's power is on the network: there, a caller is who the
// credential says, and the name in the request changes nothing.
func TestOperatorIsNotOnTheNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	key := a.AddKey(bob, people.ScopeAdmin)
	fill := strings.NewReplacer("{id}", a.User.ID.String())
	rows := 0
	for _, r := range a.Server.Routes() {
		if !slices.Contains(httpapi.InstanceOps, r.ID) && !slices.Contains(httpapi.AccountOps, r.ID) {
			continue
		}
		rows++
		for _, name := range []string{"ann", "operator", ""} {
			// the network refuses the parameter user: see TestUnknownParameters
			q := apitest.Request{Method: r.Method, Path: fill.Replace(r.Path), Raw: true}
			q.Header = http.Header{"X-Kist-User": {name}, "X-Forwarded-For": {"@"}}
			if r.Body != nil {
				q.JSON = "{}"
			}
			q.Anyone = true
			is.Equal(a.Do(q).Status, 401)
			q.Anyone, q.Key = false, key
			got := a.Do(q)
			switch r.ID {
			case "readMe":
				is.Equal(got.Text("data.username"), "bob")
			case "listWebhooks", "listTrash", "emptyTrash": // bob's own
				is.Equal(got.Status, 200)
			case "restoreTrash":
				is.Equal(got.Status, 422)
			default:
				is.Equal(got.Status, 403)
			}
		}
	}
	is.Equal(rows, len(httpapi.InstanceOps)+len(httpapi.AccountOps))
}

// Commands that are no operations of the API are rows of the operator alone: the
// network has no such address, and its check refuses them to everyone.
func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	ran := 0
	commands := map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /gc": func(w http.ResponseWriter, _ *http.Request) error {
			ran++
			_, err := w.Write([]byte("{}"))
			return err
		},
		"GET /copy": func(http.ResponseWriter, *http.Request) error { return errors.New("the copy is not there") },
		"GET /contents": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write([]byte(`{"half`))
			return errors.Join(err, errors.New("the disk is gone"))
		},
	}
	op := a.Server.Operator(commands)
	status, _ := operate(t, op, "POST", "/gc", "{}")
	is.Equal(status, 200)
	is.Equal(ran, 1)
	is.True(strings.Contains(a.Logged.String(), `"op":"postGc","user":"operator"`))
	status, got := operate(t, op, "GET", "/copy", "")
	is.Equal(status, 500)
	is.Equal(got["error"], "the copy is not there") // all of it
	func() {
		defer func() { is.Equal(recover(), http.ErrAbortHandler) }() // half an answer is cut off
		op.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/contents", http.NoBody))
	}()
	for name := range commands {
		method, path, _ := strings.Cut(name, " ")
		for _, at := range []string{path, "/api/v1" + path, "/api/v1/admin" + path} {
			q := apitest.Request{Method: method, Path: at, Raw: true} // by an administrator's key
			if got := a.Do(q).Status; got != 404 && got != 405 {
				t.Errorf("%s %s: %d", method, at, got)
			}
		}
	}
	is.Equal(ran, 1)
	for _, r := range a.Server.Routes() {
		is.True(!r.Access.Operator)
	}
	r := httptest.NewRequest("POST", "/gc", http.NoBody)
	r.Header.Set("X-Api-Key", a.Key)
	is.True(kv.Missing(session.Authorize(&web.Request{Site: a.Server.Site, R: r}, web.Operators)))
}
