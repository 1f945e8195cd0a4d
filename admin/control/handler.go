// Package control is how the commands of kist reach a data directory: the client that
// asks httpapi's handler for the operator, over the admin socket of the running server
// or in the process of the command if no server runs, and the commands that this
// handler serves beside the API. A command need not know which of the two ways it goes.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"kist/admin/ops"
	"kist/blobs"
	"kist/kv"
	"kist/kv/record"
	"kist/search"
)

// maxBody is how many bytes of JSON a command may send.
const maxBody = 64 << 10

// Nothing is the body or the answer of a request that needs none.
type Nothing struct{}

// A Backend is what the handler works on.
type Backend struct {
	Store    *kv.Store
	Sweep    func(ctx context.Context, now bool) (ops.Swept, error)
	Index    func() (*search.Index, error)                   // returns the running search index
	Contents func(fn func(content *blobs.Store) error) error // runs fn while the stored files are open
	About    func() About                                    // what the server knows about itself; nil if no server runs
	Compare  func(context.Context) error                     // compares the object store; nil without a server
	BackUp   func(context.Context) (*ops.BackedUp, error)    // makes a backup of the schedule now; nil without a schedule
	SignIn   func(context.Context) SignInHealth              // asks the issuer of OpenID Connect; nil without an issuer
}

// handler has a method for each command.
type handler struct{ Backend }

// Commands are functions that answer requests of commands, by method and path. An
// error is the caller's to send.
type Commands map[string]func(http.ResponseWriter, *http.Request) error

// NewCommands returns the commands that are no operations of the API. They check no
// credentials.
func NewCommands(b Backend) Commands {
	v := handler{b}
	all := Commands{
		"GET /copy":    verb(v.checkCopy),
		"GET /index":   verb(v.indexState),
		"POST /index":  verb(v.reindex),
		"POST /gc":     verb(v.sweep),
		"POST /scrub":  verb(v.scrub),
		"POST /link":   verb(v.link),
		"POST /unlink": verb(v.unlink),
		"POST /import": func(w http.ResponseWriter, r *http.Request) error {
			out, err := v.importRecords(r)
			if err != nil {
				return err
			}
			return answerWith(w, out)
		},
		"GET /export":   v.exportRecords,
		"GET /contents": v.listContents,
		"POST /contents": func(w http.ResponseWriter, r *http.Request) error {
			out, err := v.putContents(r)
			if err != nil {
				return err
			}
			return answerWith(w, out)
		},
	}
	if b.SignIn != nil {
		all["POST /signin"] = verb(func(r *http.Request, _ Nothing) (SignInHealth, error) {
			return b.SignIn(r.Context()), nil
		})
	}
	if b.BackUp != nil {
		all["POST /backup"] = verb(v.backUp)
	}
	if b.Compare != nil {
		all["POST /store"] = verb(func(r *http.Request, _ Nothing) (Nothing, error) {
			if err := b.Compare(r.Context()); err != nil { // the operator is told all of it
				return Nothing{}, &record.Error{Fault: record.Busy, Code: "not_compared", Text: err.Error()}
			}
			return Nothing{}, nil
		})
	}
	if b.About != nil {
		all["GET /about"] = verb(v.about)
	}
	return all
}

// A Made is what came of a backup of the schedule.
type Made struct {
	*ops.BackedUp        // nil if none was made
	Problem       string `json:"problem,omitempty"` // why none was made, or what is wrong with it
}

// backUp makes a backup of the schedule.
func (v handler) backUp(r *http.Request, _ Nothing) (Made, error) {
	done, err := v.BackUp(r.Context())
	if err != nil { // the operator is told all of it
		return Made{done, err.Error()}, nil
	}
	return Made{BackedUp: done}, nil
}

// Serve starts to answer the requests of commands on l. stop ends that: it lets
// running requests go on for at most grace and then cuts them off.
func Serve(l net.Listener, handler http.Handler, log *slog.Logger) (stop func(grace time.Duration) error) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	var work sync.WaitGroup
	work.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin socket has ended", "error", err)
		}
	})
	return func(grace time.Duration) (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			err = server.Close()
		}
		work.Wait()
		return err
	}
}

// verb makes a command of a function from a JSON body to an answer.
func verb[In, Out any](fn func(*http.Request, In) (Out, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in In
		err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		out, err := fn(r, in)
		if err != nil {
			return err
		}
		return answerWith(w, out)
	}
}

// answerWith writes an answer.
func answerWith(w http.ResponseWriter, out any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(out)
}

// view runs fn in a transaction and returns its result.
func view[T any](v handler, fn func(*kv.Tx) (T, error)) (out T, err error) {
	err = v.Store.View(func(tx *kv.Tx) (err error) { out, err = fn(tx); return err })
	return out, err
}
