package httpapi

import (
	"bytes"
	"io"
	"net/http"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
)

// Repeatable reports whether the operation creates something from a JSON body for a known
// caller.
func (r *Route) Repeatable() bool {
	creates := r.Reply.Status == http.StatusCreated || r.Reply.Status == http.StatusAccepted
	return r.Method == http.MethodPost && creates &&
		r.Body != nil && r.Body.Media == web.JSONType && !r.Access.Open
}

// maxRepeated is the maximum body of a repeatable request, in bytes: that of the longest
// text.
const maxRepeated = 4 << 20

// idempotent gives a request with an Idempotency-Key the answer of an earlier request with the
// same key, and has the answer of a new one kept: see Request.Create. A second request at the
// same time waits for the first.
func (s *Server) idempotent(once string, serve func(*web.Request) error) func(*web.Request) error {
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
		c.Repeat = &web.Repeat{Key: key, Request: upload.Fingerprint(c, key, nil, said), Once: once}
		earlier, err := upload.LoadIdempotentAnswer(c, key)
		if err == nil {
			return c.RespondEarlier(earlier)
		}
		if !kv.Missing(err) {
			return err
		}
		c.R.Body = io.NopCloser(bytes.NewReader(body))
		return serve(c)
	}
}
