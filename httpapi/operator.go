package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// operator answers the commands of the operator, who owns the data directory. It
// checks no credentials, so it belongs on the admin socket or in the process of a
// command, and nowhere else. It serves rows of the table as the network does, but
// without checks of the host and the origin and without limits of rate and time,
// and its errors say everything.
type operator struct{ *web.Site }

// Operator returns the handler for the commands of the operator. It has rows for
// more, which are functions by method and path. The network does not reach it.
func (s *Server) Operator(more map[string]func(http.ResponseWriter, *http.Request) error) http.Handler {
	return (&operator{s.Site}).mount(more)
}

// Operator returns the handler for the commands of the operator on a store that no
// server has open. Of the configuration it needs Store, Passwords, Log and Access.
func Operator(c web.Config, more map[string]func(http.ResponseWriter, *http.Request) error) http.Handler {
	nobody := func(netip.Prefix) bool { return false } // every caller is the operator
	return (&operator{&web.Site{Config: c, Limits: limit.New(nobody)}}).mount(more)
}

// The operations that the operator may call: those of the instance, and those of an
// account, which the parameter user names.
var (
	instanceOps = []string{
		"listUsers", "createUser", "readUser", "editUser", "removeUser", "resetUser", "readSettings", "editSettings",
	}
	accountOps = []string{
		"readMe", "createInvitation", "listKeys", "createKey", "removeKey", "listWebhooks", "listTrash", "restoreTrash", "emptyTrash",
	}
)

// operatorName names the operator in the log.
const operatorName = "operator"

// mount returns a handler of the operator's rows.
func (o *operator) mount(more map[string]func(http.ResponseWriter, *http.Request) error) http.Handler {
	var rows []Route
	for name, serve := range more {
		method, path, _ := strings.Cut(name, " ")
		rows = append(rows, Route{method, path, strings.ToLower(method) + web.Title(path[1:]), web.Operators, web.Operation{
			Serve: func(c *web.Request) error { return serve(c.W, c.R) },
		}})
	}
	for _, r := range new(Server).operations() {
		if slices.Contains(instanceOps, r.ID) || slices.Contains(accountOps, r.ID) {
			rows = append(rows, r)
		}
	}
	nothing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.serve(w, r, "", nil, func(*web.Request) error {
			return &record.Error{
				Fault: record.Malformed, Code: "unknown_command",
				Text: "The running server does not know this command; use the kist binary of the server's version.",
			}
		})
	})
	return spread(rows, o.handle, nothing)[0]
}

func (o *operator) handle(row Route) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, args httprouter.Params) {
		o.serve(w, r, row.ID, args, func(c *web.Request) error {
			c.Status = row.Reply.Status
			u := &people.User{Name: operatorName}
			if slices.Contains(accountOps, row.ID) {
				c.W.Account = r.URL.Query().Get("user")
				account, err := o.account(c.W.Account)
				if err != nil {
					return err
				}
				u = account
			}
			c.Caller = &people.Caller{
				User: *u, Key: people.Key{Owner: u.ID, Scopes: []people.Scope{people.ScopeAdmin}},
			}
			c.Caller.User.Role = people.Admin // whatever the account's own
			return row.Serve(c)
		})
	}
}

// account is the account that a command names.
func (o *operator) account(name string) (u *people.User, err error) {
	err = o.Store.View(func(tx *kv.Tx) (err error) { u, err = people.UserNamed(tx, name); return err })
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Missing {
		e.Text = fmt.Sprintf("There is no user named %q; kist user list shows the names.", name)
	}
	return u, err
}

// withoutDeadlines hides the connection of an answer, so that a command may take as
// long as it needs.
type withoutDeadlines struct{ http.ResponseWriter }

// serve answers a request by a function that answers or fails.
func (o *operator) serve(
	w http.ResponseWriter, r *http.Request, op string, args httprouter.Params, fn func(*web.Request) error,
) {
	start := time.Now()
	w = withoutDeadlines{w}
	aw := &web.AnswerWriter{ResponseWriter: w, Ctl: http.NewResponseController(w), ID: web.NewID(), Op: op}
	aw.Caller = &people.Caller{User: people.User{Name: operatorName}}
	defer func() {
		if r.Method != http.MethodGet || aw.Status != http.StatusOK { // commands ask over and over how far something is
			o.LogLine(aw, r, aw.ID, time.Since(start))
		}
	}()
	c := &web.Request{Site: o.Site, W: aw, R: r, Args: args, ID: aw.ID}
	defer c.ReleaseMemory()
	if err := fn(c); err != nil {
		o.fail(aw, err)
	}
}

// fail answers with an error. Unlike the network, the operator sees all of it.
func (o *operator) fail(w *web.AnswerWriter, err error) {
	if w.Status != 0 {
		panic(http.ErrAbortHandler) // the command must not take half an answer for a whole one
	}
	e, status := web.ClientError(err)
	inner := status > http.StatusInternalServerError && !errors.As(err, new(*record.Error))
	if status == http.StatusInternalServerError || inner {
		e = &record.Error{Code: e.Code, Text: err.Error()}
	}
	w.Code = e.Code
	body, err := json.Marshal(map[string]any{"error": e.Text, "code": e.Code, "fields": e.Fields, "requestId": w.ID})
	if err != nil { // texts cannot fail
		panic(err)
	}
	web.ClearContentHeaders(w.Header())
	w.Header().Set("Content-Type", web.JSONType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the command may be gone
}
