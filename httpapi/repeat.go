package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/record"
)

// Repeatable reports whether the operation creates something from a JSON body for a known
// caller.
func (r *Route) Repeatable() bool {
	return r.Method == http.MethodPost && (r.Reply.Status == http.StatusCreated || r.Reply.Status == http.StatusAccepted) &&
		r.Body != nil && r.Body.Media == web.JSONType && !r.Access.Open
}

// maxRepeated is the maximum body of a repeatable request, in bytes: that of the longest
// text.
const maxRepeated = 4 << 20

var errAnsweredBefore = &record.Error{
	Fault: record.Taken, Code: "answered_before",
	Text: "This request was answered before. The answer had secrets, which are shown only once.",
}

// idempotent gives a request with an Idempotency-Key the answer of an earlier request with
// the same key. A second request at the same time waits for the first. The answer is stored
// after the operation has committed, so after a crash in between, a repeat runs again. With
// once, only that there was an answer is stored, and a repeat is refused.
func (s *Server) idempotent(once bool, serve func(*web.Request) error) func(*web.Request) error {
	return func(c *web.Request) error {
		key, err := web.IdempotencyKey(c.R)
		if err != nil {
			return err
		}
		if key == "" {
			return serve(c)
		}
		body, err := c.ReadBody(maxRepeated)
		if err != nil {
			return err
		}
		leave, err := s.Repeats.Enter(c, c.Owner().String()+" "+key)
		if err != nil {
			return err
		}
		defer leave()
		said := field.Object{"body": string(body), "type": c.R.Header.Get("Content-Type")}
		if c.W.Plain {
			said["plain"] = "true"
		}
		request := upload.Fingerprint(c, key, nil, said)
		earlier, err := upload.LoadIdempotentAnswer(c, key)
		if err == nil {
			again, err := earlier.For(request)
			if err == nil && once {
				err = errAnsweredBefore
			}
			if err != nil {
				return err
			}
			if c.W.Plain {
				return c.RespondText(strings.TrimSuffix(string(again), "\n"))
			}
			return c.RespondJSON(c.Made, again)
		}
		if !kv.Missing(err) {
			return err
		}
		c.R.Body = io.NopCloser(bytes.NewReader(body))
		c.Keep = func(answer []byte) {
			if once {
				answer = nil
			}
			if err := s.Store.Update(func(tx *kv.Tx) error {
				return jobs.SaveIdempotentAnswer(tx, c.Owner(), key, jobs.IdempotentAnswer{Request: request, Body: bytes.Clone(answer)})
			}); err != nil {
				s.Log.Warn("cannot store an answer for repeats", "requestId", c.ID, "error", err)
			}
		}
		return serve(c)
	}
}
