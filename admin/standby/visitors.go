package standby

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"kist/kv/record"
)

// ServeHTTP answers visitors: /healthz with 200, /readyz with 503, /metrics if it is on,
// and everything else by a redirect to the server that is followed. Nothing that counts
// is served.
func (s *Standby) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	st := s.Status()
	switch to := st.Slot.URL; {
	case r.URL.Path == "/healthz":
		_, _ = io.WriteString(w, "ok\n") // the client may be gone
	case r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusServiceUnavailable)
		text := st.describe()
		if s.wanted.any() {
			text += "fetching files\n"
		}
		_, _ = io.WriteString(w, text)
	case r.URL.Path == "/metrics" && s.o.Metrics != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		s.metrics(w, r, st)
	case to == "" || to == s.o.Ship.URL:
		h.Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "This server is a standby.\n")
	default:
		to += "/" + strings.TrimLeft(r.URL.EscapedPath(), "/")
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		h.Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// metrics answers with the figures, if the data directory is open: it has the keys.
func (s *Standby) metrics(w http.ResponseWriter, r *http.Request, st Status) {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.open == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "This standby has no data yet.\n")
		return
	}
	s.o.Metrics(w, r, *s.open, st)
}

// describe says how far the standby is, for people and programs: "standby", and a line
// for each figure.
func (st Status) describe() string {
	text := "standby\n"
	if !st.Seen.IsZero() {
		text += fmt.Sprintf("slot %d\ncommits %d\nsilent %.1f s\n", st.Slot.Number, st.Slot.After.Seq, time.Since(st.Seen).Seconds())
	}
	if st.Failure != nil {
		text += "failing\n" // the log says why; visitors must not see the address of the object store
	}
	return text
}

// Commands answers admin commands: all that a standby can do is to take over.
func (s *Standby) Commands() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := error(&record.Error{Fault: record.Busy, Code: "standby", Text: "This server is a standby. Run this where the server is that it follows, or run kist promote first."})
		if r.Method == http.MethodPost && r.URL.Path == "/promote" {
			err = s.Promote(r.Context())
		}
		w.Header().Set("Content-Type", "application/json")
		if err == nil {
			_, _ = io.WriteString(w, "{}\n")
			return
		}
		e := &record.Error{Code: "not_promoted", Text: err.Error()}
		_ = errors.As(err, &e)
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": e.Text, "code": e.Code})
	})
}
