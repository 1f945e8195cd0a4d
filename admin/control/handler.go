// Package control is how the commands of kist reach a data directory: a handler that
// answers them over the admin socket of the running server, or in the process of the
// command if no server runs, and the client that asks it. A command cannot tell the
// two apart.
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
	API      http.Handler // the rows of httpapi for the operator
	Store    *kv.Store
	Sweep    func(ctx context.Context, now bool) (ops.Swept, error)
	Index    func() (*search.Index, error)                   // returns the running search index
	Contents func(fn func(content *blobs.Store) error) error // runs fn while the stored files are open
	About    func() About                                    // what the server knows about itself; nil if no server runs
}

// handler has a method for each request.
type handler struct{ Backend }

// Handler answers the requests of commands. It checks no credentials: anyone who can
// reach it is an administrator of the instance. So it belongs on the socket of
// socket.Listen and nowhere else.
func Handler(b Backend) http.Handler {
	v := handler{b}
	mux := http.NewServeMux()
	mux.Handle("/api/", b.API)
	mux.Handle("GET /copy", verb(v.checkCopy))
	mux.Handle("GET /index", verb(v.indexState))
	mux.Handle("POST /index", verb(v.reindex))
	if b.About != nil {
		mux.Handle("GET /about", verb(v.about))
	}
	mux.Handle("POST /clock", verb(func(*http.Request, Nothing) (kv.ClockReset, error) { return v.Store.ResetClock() }))
	mux.Handle("POST /gc", verb(v.sweep))
	mux.Handle("POST /scrub", verb(v.scrub))
	mux.HandleFunc("POST /import", func(w http.ResponseWriter, r *http.Request) {
		out, err := v.importRecords(r)
		answerWith(w, out, err)
	})
	mux.HandleFunc("GET /export", v.exportRecords)
	mux.HandleFunc("GET /contents", v.listContents)
	mux.HandleFunc("POST /contents", func(w http.ResponseWriter, r *http.Request) {
		out, err := v.putContents(r)
		answerWith(w, out, err)
	})
	mux.Handle("/", verb(func(*http.Request, Nothing) (Nothing, error) {
		return Nothing{}, errors.New("the running server does not know this command; use the kist binary of the server's version")
	}))
	return mux
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

// failure is an error as it is sent over the socket.
type failure struct {
	Fault  record.Fault      `json:"fault"` // 0 unless it is the caller's error
	Code   string            `json:"code"`
	Text   string            `json:"error"`
	Fields map[string]string `json:"fields,omitempty"`
}

// verb makes a handler of a function from a JSON body to an answer. Unlike the
// public API, it sends every error in full, because its callers own the data.
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

// answerWith writes the answer of a verb, or its error.
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

// view runs fn in a transaction and returns its result.
func view[T any](v handler, fn func(*kv.Tx) (T, error)) (out T, err error) {
	err = v.Store.View(func(tx *kv.Tx) (err error) { out, err = fn(tx); return err })
	return out, err
}
