// Package admin is the command line of kist: the commands, and the one handler
// behind them. A command reaches the handler over the socket of the running
// server, or in process on the opened store when no server runs; it cannot
// tell the two apart.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"kist/admin/console"
	"kist/admin/ops"
	"kist/embed"
	"kist/kv"
	"kist/kv/record"
)

// maxBody is how much a command may send, in bytes of JSON.
const maxBody = 64 << 10

// User is an account as the commands show it.
type User struct {
	ID          record.ID   `json:"id"`
	Name        string      `json:"username"`
	DisplayName string      `json:"displayName"`
	Role        record.Role `json:"role"`
	Disabled    bool        `json:"disabled"`
	TokensOff   bool        `json:"apiTokensDisabled"`
	Quota       *int64      `json:"quotaBytes"` // null: the instance's default
	Created     time.Time   `json:"createdAt"`
	Revoked     []string    `json:"revoked,omitempty"` // names of the keys that a new password has revoked
}

// Account is an account with how much it keeps.
type Account struct {
	User
	Items int64 `json:"items"`
	Bytes int64 `json:"bytes"` // of files, those that wait for approval too
}

// Key is an API key as the commands show it.
type Key struct {
	ID       record.ID      `json:"id"`
	Name     string         `json:"name"`
	User     string         `json:"username"`
	Scopes   []record.Scope `json:"scopes"`
	Disabled bool           `json:"disabled"`
	Created  time.Time      `json:"createdAt"`
	Expires  *time.Time     `json:"expiresAt"`
	LastUsed *time.Time     `json:"lastUsedAt"`
}

// NewKey is a key just made, with its secret, which is shown this once.
type NewKey struct {
	Data   Key    `json:"data"`
	Secret string `json:"key"`
}

// Tokens says where API keys are turned off.
type Tokens struct {
	Disabled bool     `json:"disabled"` // for everyone
	Users    []string `json:"disabledUsers"`
}

// A Target is where a webhook sends events.
type Target struct {
	User, Name, URL string
	Failures        int // in a row
	Error           string
	Paused          time.Time // zero: it is not
}

// The bodies of requests. A nil field is left as it is.
type (
	newUser struct {
		Name, DisplayName, Password string
		Admin                       bool
	}
	userEdit struct {
		Password  *string
		Revoke    string // with a password, which keys to revoke: devices, all or none
		Role      *record.Role
		Disabled  *bool
		TokensOff *bool
	}
	newKey struct {
		User, Name string
		Scopes     []record.Scope
		Expires    time.Time
	}
	setTokens struct {
		User     string // "": everyone
		Disabled bool
	}
	collect struct{ Now bool }
	nothing struct{}
)

// collected is what a sweep did, and what it could not do.
type collected struct {
	ops.Swept
	Problem string `json:"error,omitempty"`
}

type verbs struct {
	store     *kv.Store
	passwords *kv.Passwords
	sweep     func(ctx context.Context, now bool) (ops.Swept, error)
	index     IndexFunc
	contents  Contents
}

// Handler answers what the commands ask. It checks no credential: anyone who may
// call it is an administrator of the instance, so it belongs on the socket of
// Listen and nowhere else.
// about tells of the server; nil if none runs.
func Handler(store *kv.Store, passwords *kv.Passwords, sweep func(context.Context, bool) (ops.Swept, error), index IndexFunc, about func() About, contents Contents) http.Handler {
	v := verbs{store, passwords, sweep, index, contents}
	mux := http.NewServeMux()
	mux.Handle("GET /users", verb(v.users))
	mux.Handle("POST /users", verb(v.addUser))
	mux.Handle("GET /users/{name}", verb(v.user))
	mux.Handle("PATCH /users/{name}", verb(v.editUser))
	mux.Handle("DELETE /users/{name}", verb(v.removeUser))
	mux.Handle("GET /keys", verb(v.keys))
	mux.Handle("POST /keys", verb(v.addKey))
	mux.Handle("DELETE /keys/{id}", verb(v.removeKey))
	mux.Handle("GET /tokens", verb(v.tokens))
	mux.Handle("PUT /tokens", verb(v.setTokens))
	mux.Handle("GET /webhooks", verb(v.webhooks))
	mux.Handle("GET /copy", verb(v.checkCopy))
	mux.Handle("GET /index", verb(v.indexState))
	mux.Handle("POST /index", verb(v.reindex))
	if about != nil {
		mux.Handle("GET /about", verb(func(*http.Request, nothing) (About, error) { return about(), nil }))
	}
	mux.Handle("POST /clock", verb(func(*http.Request, nothing) (kv.ClockReset, error) { return v.store.ResetClock() }))
	mux.Handle("POST /gc", verb(v.collect))
	mux.Handle("POST /scrub", verb(v.scrub))
	mux.HandleFunc("POST /import", func(w http.ResponseWriter, r *http.Request) {
		out, err := v.moveIn(r)
		answerWith(w, out, err)
	})
	mux.HandleFunc("GET /export", v.moveOut)
	mux.HandleFunc("GET /contents", v.listContents)
	mux.HandleFunc("POST /contents", func(w http.ResponseWriter, r *http.Request) {
		out, err := v.putContents(r)
		answerWith(w, out, err)
	})
	mux.Handle("/", verb(func(*http.Request, nothing) (nothing, error) {
		return nothing{}, errors.New("the running server does not know this command; use the kist binary of the server's version")
	}))
	return mux
}

// failure is an error on its way over the socket.
type failure struct {
	Fault  record.Fault      `json:"fault"` // 0: not an error of the caller's
	Code   string            `json:"code"`
	Text   string            `json:"error"`
	Fields map[string]string `json:"fields,omitempty"`
}

// verb makes a handler of a function from a JSON body to an answer. Unlike
// the public API it tells every error in full: its callers own the data.
func verb[In, Out any](fn func(*http.Request, In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in In
		var out Out
		err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in)
		if err == nil || errors.Is(err, io.EOF) {
			out, err = fn(r, in)
		}
		answerWith(w, out, err)
	})
}

// answerWith answers with what a verb found, or with its error.
func answerWith(w http.ResponseWriter, out any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		f := failure{Text: err.Error()}
		if e, ok := errors.AsType[*record.Error](err); ok {
			status = http.StatusUnprocessableEntity
			f = failure{e.Fault, e.Code, e.Text, e.Fields}
		}
		out = f
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(out); err != nil {
		slog.Debug("an admin command went away before its answer", "error", err)
	}
}

// view and update run fn in a transaction and return what it made.
func view[T any](v verbs, fn func(*kv.Tx) (T, error)) (out T, err error) {
	err = v.store.View(func(tx *kv.Tx) (err error) { out, err = fn(tx); return err })
	return out, err
}

func update[T any](v verbs, fn func(*kv.Tx) (T, error)) (out T, err error) {
	err = v.store.Update(func(tx *kv.Tx) (err error) { out, err = fn(tx); return err })
	return out, err
}

func (v verbs) users(_ *http.Request, _ nothing) ([]User, error) {
	return view(v, func(tx *kv.Tx) ([]User, error) {
		all, err := tx.Users()
		shown := make([]User, len(all))
		for i := range all {
			shown[i] = showUser(&all[i])
		}
		return shown, err
	})
}

// webhooks lists where events go, and no secret.
func (v verbs) webhooks(*http.Request, nothing) ([]Target, error) {
	return view(v, func(tx *kv.Tx) ([]Target, error) {
		all := []Target{}
		users, err := tx.Users()
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			hooks, err := tx.Webhooks(u.ID)
			if err != nil {
				return nil, err
			}
			for _, h := range hooks {
				if h.Enabled {
					all = append(all, Target{u.Name, h.Name, h.URL, h.Failures, h.LastError, h.Paused})
				}
			}
		}
		return all, nil
	})
}

func (v verbs) user(r *http.Request, _ nothing) (Account, error) {
	return view(v, func(tx *kv.Tx) (Account, error) {
		u, err := named(tx, r.PathValue("name"))
		if err != nil {
			return Account{}, err
		}
		kept, err := tx.Usage(u)
		if err != nil {
			return Account{}, err
		}
		out := Account{User: showUser(u), Bytes: kept.Bytes}
		for _, n := range kept.Count {
			out.Items += n
		}
		return out, nil
	})
}

func (v verbs) addUser(r *http.Request, in newUser) (User, error) {
	bad := map[string]string{}
	name, err := record.CleanUserName(in.Name)
	if err != nil {
		bad["username"] = err.Error()
	}
	display, err := record.CleanName(in.DisplayName)
	if err != nil {
		bad["displayName"] = err.Error()
	}
	if err := record.CheckPassword(in.Password, name, embed.CommonPassword); err != nil {
		bad["password"] = err.Error()
	}
	if err := record.Bad(bad); err != nil {
		return User{}, err
	}
	hash, err := v.passwords.Hash(r.Context(), "", in.Password)
	if err != nil {
		return User{}, err
	}
	role := record.Member
	if in.Admin {
		role = record.Admin
	}
	return update(v, func(tx *kv.Tx) (User, error) {
		u, err := tx.AddUser(record.User{Name: name, DisplayName: display, Role: role, Quota: -1, Password: hash})
		if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Taken {
			e.Text = fmt.Sprintf("There is a user named %q already; choose another name.", name)
		}
		if err != nil {
			return User{}, err
		}
		return showUser(u), nil
	})
}

func (v verbs) editUser(r *http.Request, in userEdit) (User, error) {
	hash := ""
	if in.Password != nil {
		err := record.CheckPassword(*in.Password, r.PathValue("name"), embed.CommonPassword)
		if err != nil {
			return User{}, record.Bad(map[string]string{"password": err.Error()})
		}
		if hash, err = v.passwords.Hash(r.Context(), "", *in.Password); err != nil {
			return User{}, err
		}
	}
	if in.Role != nil && !slices.Contains(record.Roles, *in.Role) {
		return User{}, record.Bad(map[string]string{"role": "must be one of: admin, user"})
	}
	return update(v, func(tx *kv.Tx) (User, error) {
		u, err := named(tx, r.PathValue("name"))
		if err != nil {
			return User{}, err
		}
		var names []string
		if in.Password != nil {
			u.Password = hash
			gone, err := tx.Revoke(u.ID, func(k *record.Key) bool { return in.Revoke == "all" || in.Revoke == "devices" && k.Device != "" })
			if err != nil {
				return User{}, err
			}
			for _, k := range gone {
				names = append(names, k.Name)
			}
		}
		if in.Role != nil {
			u.Role = *in.Role
		}
		if in.Disabled != nil {
			u.Disabled = *in.Disabled
		}
		if in.TokensOff != nil {
			u.TokensOff = *in.TokensOff
		}
		shown := showUser(u)
		shown.Revoked = names
		return shown, tx.SaveUser(u)
	})
}

// removeUser answers with what the account kept.
func (v verbs) removeUser(r *http.Request, in nothing) (Account, error) {
	u, err := v.user(r, in)
	if err != nil {
		return Account{}, err
	}
	return u, v.store.RemoveUser(u.ID)
}

func (v verbs) keys(r *http.Request, _ nothing) ([]Key, error) {
	return view(v, func(tx *kv.Tx) ([]Key, error) {
		users, err := tx.Users()
		if err != nil {
			return nil, err
		}
		names := map[record.ID]string{}
		for _, u := range users {
			names[u.ID] = u.Name
		}
		var all []record.Key
		if name := r.URL.Query().Get("user"); name != "" {
			u, err := named(tx, name)
			if err != nil {
				return nil, err
			}
			all, err = tx.Keys(u.ID)
			if err != nil {
				return nil, err
			}
		} else if all, err = tx.AllKeys(); err != nil {
			return nil, err
		}
		shown := make([]Key, len(all))
		for i := range all {
			shown[i] = showKey(&all[i], names[all[i].Owner])
		}
		return shown, nil
	})
}

func (v verbs) addKey(_ *http.Request, in newKey) (NewKey, error) {
	bad := map[string]string{}
	label, err := record.CleanName(in.Name)
	if err != nil {
		bad["name"] = err.Error()
	} else if label == "" {
		bad["name"] = "must not be empty"
	}
	for _, s := range in.Scopes {
		if _, err := record.CleanScope(string(s)); err != nil {
			bad["scope"] = err.Error()
		}
	}
	if err := record.Bad(bad); err != nil {
		return NewKey{}, err
	}
	return update(v, func(tx *kv.Tx) (NewKey, error) {
		u, err := named(tx, in.User)
		if err != nil {
			return NewKey{}, err
		}
		k, secret, err := tx.AddKey(record.Key{Owner: u.ID, Name: label, Scopes: in.Scopes, Expires: in.Expires})
		if err != nil {
			return NewKey{}, err
		}
		return NewKey{showKey(k, u.Name), secret}, nil
	})
}

func (v verbs) removeKey(r *http.Request, _ nothing) (Key, error) {
	text := r.PathValue("id")
	missing := &record.Error{Fault: record.Missing, Code: "not_found", Text: fmt.Sprintf("There is no key with the id %q; kist key list shows the ids.", text)}
	id, err := uuid.Parse(text)
	if err != nil {
		return Key{}, missing
	}
	return update(v, func(tx *kv.Tx) (Key, error) {
		all, err := tx.AllKeys()
		if err != nil {
			return Key{}, err
		}
		for _, k := range all {
			if k.ID != id {
				continue
			}
			u, err := tx.User(k.Owner)
			if err != nil {
				return Key{}, err
			}
			return showKey(&k, u.Name), tx.RemoveKey(k.Owner, k.ID)
		}
		return Key{}, missing
	})
}

func (v verbs) tokens(r *http.Request, _ nothing) (Tokens, error) {
	return view(v, func(tx *kv.Tx) (Tokens, error) { return tokens(tx, r.URL.Query().Get("user")) })
}

func (v verbs) setTokens(_ *http.Request, in setTokens) (Tokens, error) {
	return update(v, func(tx *kv.Tx) (Tokens, error) {
		if in.User != "" {
			u, err := named(tx, in.User)
			if err != nil {
				return Tokens{}, err
			}
			u.TokensOff = in.Disabled
			if err := tx.SaveUser(u); err != nil {
				return Tokens{}, err
			}
			return tokens(tx, u.Name)
		}
		set, err := tx.Settings()
		if err != nil {
			return Tokens{}, err
		}
		set.TokensOff = in.Disabled
		if err := tx.SetSettings(set); err != nil {
			return Tokens{}, err
		}
		return tokens(tx, "")
	})
}

func (v verbs) collect(r *http.Request, in collect) (collected, error) {
	swept, err := v.sweep(r.Context(), in.Now)
	if err != nil && swept != (ops.Swept{}) {
		return collected{swept, err.Error()}, nil // what was done is told as well
	}
	return collected{Swept: swept}, err
}

// tokens says where API keys are off, looking at one user or at all.
func tokens(tx *kv.Tx, user string) (Tokens, error) {
	set, err := tx.Settings()
	if err != nil {
		return Tokens{}, err
	}
	t := Tokens{Disabled: set.TokensOff, Users: []string{}}
	users, err := tx.Users()
	if user != "" {
		u, missing := named(tx, user)
		if missing != nil {
			return Tokens{}, missing
		}
		users = []record.User{*u}
	}
	for _, u := range users {
		if u.TokensOff {
			t.Users = append(t.Users, u.Name)
		}
	}
	return t, err
}

// named reads the account with the name; the error says where to look.
func named(tx *kv.Tx, name string) (*record.User, error) {
	u, err := tx.UserNamed(name)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Missing {
		e.Text = fmt.Sprintf("There is no user named %q; kist user list shows the names.", name)
	}
	return u, err
}

func showUser(u *record.User) User {
	shown := User{
		ID: u.ID, Name: u.Name, DisplayName: u.DisplayName, Role: u.Role,
		Disabled: u.Disabled, TokensOff: u.TokensOff, Created: u.Created,
	}
	if u.Quota >= 0 {
		shown.Quota = &u.Quota
	}
	return shown
}

func showKey(k *record.Key, user string) Key {
	shown := Key{ID: k.ID, Name: k.Name, User: user, Scopes: k.Scopes, Disabled: k.Disabled, Created: k.Created}
	if !k.Expires.IsZero() {
		shown.Expires = &k.Expires
	}
	if !k.LastUsed.IsZero() {
		shown.LastUsed = &k.LastUsed
	}
	return shown
}

// A client asks the handler, wherever that runs.
type client struct {
	http     http.Client
	close    func() error
	progress *console.Progress // of what send sends
}

// call sends JSON and reads the answer.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot encode the request: %w", err)
	}
	return c.send(ctx, method, path, strings.NewReader(string(body)), out)
}

// send sends a body and reads the answer.
func (c *client) send(ctx context.Context, method, path string, body io.Reader, out any) error {
	if f, ok := body.(*os.File); ok && c.progress != nil {
		body = counted{f, c.progress}
	} else if c.progress != nil {
		body = io.TeeReader(body, c.progress)
	}
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("cannot read the server's answer: %w", err)
	}
	return nil
}

// counted is a file that tells how far it was read.
type counted struct {
	*os.File
	progress *console.Progress
}

func (f counted) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.progress.Add(int64(n))
	return n, err
}

func (f counted) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.progress.Add(int64(n))
	return n, err
}

// Close leaves the file to the one who opened it.
func (f counted) Close() error { return nil }

// do sends a request; a failed response becomes an error.
func (c *client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://kist"+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the server went away before it answered; whether it did what was asked is not known: %w", err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	var f failure
	if err := json.NewDecoder(res.Body).Decode(&f); err != nil {
		return nil, fmt.Errorf("cannot read the server's answer (%s): %w", res.Status, err)
	}
	if f.Fault == 0 {
		return nil, errors.New(f.Text)
	}
	return nil, &record.Error{Fault: f.Fault, Code: f.Code, Text: f.Text, Fields: f.Fields}
}

// inProcess carries requests to a handler in the same process.
type inProcess struct{ handler http.Handler }

// RoundTrip answers as soon as the handler does. The handler ends before the
// body's Close returns.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	from, to := io.Pipe()
	a := &answer{to: to, header: http.Header{}, begun: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer func() {
			a.WriteHeader(http.StatusOK)
			var err error
			if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
				err = http.ErrAbortHandler
			} else if p != nil {
				panic(p)
			}
			_ = to.CloseWithError(err) // never fails
		}()
		p.handler.ServeHTTP(a, r)
	}()
	<-a.begun
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Header: a.header, Request: r,
		Body: answerBody{from, a.done}, ContentLength: -1,
	}, nil
}

// answer is a ResponseWriter whose body is a pipe.
type answer struct {
	to          *io.PipeWriter
	header      http.Header
	status      int
	once        sync.Once
	begun, done chan struct{}
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.once.Do(func() { a.status = status; close(a.begun) })
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.to.Write(p)
}

// answerBody is the other end of an answer.
type answerBody struct {
	*io.PipeReader
	done chan struct{}
}

func (b answerBody) Close() error {
	err := b.PipeReader.Close()
	<-b.done
	return err
}
