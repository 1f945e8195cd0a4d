package web

import (
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/kv/people"
	"kist/kv/record"
)

// maxLogged is how much of a path is logged, in bytes.
const maxLogged = 512

// secretPaths are prefixes of paths that end in a secret.
var secretPaths = []string{claimPath, ResetPath, JoinPath, DeletionPath, SentPath + "/", TakeBackPath}

var slashes = regexp.MustCompile(`/+`)

// loggable is a path without secrets: the token of a claim link, an invitation or a deletion address and
// the secret of a sender's upload, in any case and at any place, and misplaced API keys. It
// also leaves out whatever is as long as a secret, because an address may be mistyped.
func loggable(path string) string {
	if strings.Contains(path, "//") {
		path = slashes.ReplaceAllString(path, "/")
	}
	for _, before := range secretPaths {
		for i := 0; i+len(before) < len(path); i++ {
			if path[i] == '/' && strings.EqualFold(path[i:i+len(before)], before) {
				path = path[:i+len(before)] + "…"
				break
			}
		}
	}
	if i := strings.Index(path, people.KeyPrefix); i >= 0 {
		path = path[:i+len(people.KeyPrefix)] + "…"
	}
	return CutTo(withoutTokens(path), maxLogged)
}

// shortestToken is less than the length of any secret. No slug that the server makes is as long.
const shortestToken = 32

// withoutTokens is a path without what is as long as a secret. Ids stay.
func withoutTokens(path string) string {
	var out []byte
	begun, done := 0, 0
	for i := 0; i <= len(path); i++ {
		if i < len(path) && inToken(path[i]) {
			continue
		}
		if word := path[begun:i]; len(word) >= shortestToken && !isID(word) {
			out = append(append(out, path[done:begun]...), "…"...)
			done = i
		}
		begun = i + 1
	}
	if out == nil {
		return path
	}
	return string(append(out, path[done:]...))
}

func inToken(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}

func isID(word string) bool {
	_, err := uuid.Parse(word)
	return err == nil && len(word) == 36
}

// quiet are the operations of monitors, which ask every few seconds, and of kist doctor, which asks many times at once.
var quiet = []string{"health", "ready", "probe", "probeBody"}

// LogLine writes one line about the request. It contains no header, body or query, and
// no part of the path that may be a secret.
func (s *Site) LogLine(w *AnswerWriter, r *http.Request, id string, took time.Duration) {
	client := "local" // a unix socket's peer has no address
	if w.Addr.IsValid() {
		client = w.Addr.String()
	}
	level := slog.LevelInfo
	if slices.Contains(quiet, w.Op) && w.Status == http.StatusOK {
		level = slog.LevelDebug
	}
	attrs := append(
		make([]slog.Attr, 0, 12),
		slog.String("method", CutTo(r.Method, 32)), slog.String("path", loggable(r.URL.Path)), slog.Int("status", w.Status),
		slog.Int64("bytes", w.Bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.String("client", client), slog.String("requestId", id),
	)
	if w.Op != "" {
		attrs = append(attrs, slog.String("op", w.Op))
	}
	if w.Caller != nil {
		attrs = append(attrs, slog.String("user", w.Caller.User.Name))
		if w.Caller.Key.ID != (record.ID{}) { // the operator has none
			attrs = append(attrs, slog.String("key", w.Caller.Key.ID.String()))
		}
	}
	if w.Account != "" {
		attrs = append(attrs, slog.String("account", CutTo(w.Account, 64)))
	}
	if w.Code != "" {
		attrs = append(attrs, slog.String("code", w.Code))
	}
	// Not Logger.LogAttrs: it looks up which line of the program called it, which no
	// handler writes.
	if h := s.Access.Handler(); h.Enabled(r.Context(), level) {
		line := slog.NewRecord(time.Now(), level, "request", 0)
		line.AddAttrs(attrs...)
		_ = h.Handle(r.Context(), line) // as Logger does
	}
}
