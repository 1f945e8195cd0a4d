package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// idempotent is the header that makes repeats of a request safe.
var idempotent = param{
	"header", "Idempotency-Key",
	"The same request repeated within 24 hours is answered as the first time; another one with the same key is refused (422, idempotency_mismatch).",
	object{"type": "string", "maxLength": 255},
	"3f1c9b1e",
}

// idempotencyKey is the key of the request; "" if it has none.
func (c *request) idempotencyKey() (string, error) {
	key := c.r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return "", &record.Error{Fault: record.Malformed, Code: "bad_idempotency_key", Text: "The Idempotency-Key is longer than 255 bytes."}
	}
	return key, nil
}

// repeatable reports whether the operation makes something out of a JSON body
// for a caller who is known, and does not answer with an API key: answers are
// kept for repeats, and secrets of keys are not kept at all.
func (r *route) repeatable() bool {
	return r.method == http.MethodPost && (r.reply.status == http.StatusCreated || r.reply.status == http.StatusAccepted) &&
		r.body != nil && r.body.media == jsonType && !r.access.open && r.id != "createKey" && r.id != "createSetup"
}

// maxRepeated bounds the body of a request that can be repeated in bytes: that of
// the longest text.
const maxRepeated = 4 << 20

// idempotent answers a request with an Idempotency-Key like the one before it with the
// same key. Of two at the same time the second waits for the first. The answer is
// kept after what the request does is done, so that a crash in between leaves the
// repeat to be done again.
func (s *Server) idempotent(serve func(*request) error) func(*request) error {
	return func(c *request) error {
		key, err := c.idempotencyKey()
		if err != nil {
			return err
		}
		if key == "" {
			return serve(c)
		}
		body, err := c.readBody(maxRepeated)
		if err != nil {
			return err
		}
		leave, err := s.repeats.enter(c, c.owner().String()+" "+key)
		if err != nil {
			return err
		}
		defer leave()
		said := field.Object{"body": string(body), "type": c.r.Header.Get("Content-Type")}
		if c.w.plain {
			said["plain"] = "true"
		}
		request := c.fingerprint(key, nil, said)
		earlier, err := c.answered(key)
		if err == nil {
			again, err := earlier.For(request)
			if err != nil {
				return err
			}
			if c.w.plain {
				return c.respondText(strings.TrimSuffix(string(again), "\n"))
			}
			return c.respondJSON(c.made, again)
		}
		if !missing(err) {
			return err
		}
		c.r.Body = io.NopCloser(bytes.NewReader(body))
		c.keep = func(answer []byte) {
			if err := s.Store.Update(func(tx *kv.Tx) error {
				return tx.SaveIdempotentAnswer(c.owner(), key, kv.IdempotentAnswer{Request: request, Body: bytes.Clone(answer)})
			}); err != nil {
				s.Log.Warn("an answer is not kept for repeats", "requestId", c.id, "error", err)
			}
		}
		return serve(c)
	}
}

// repeatGuards lets one request with an Idempotency-Key of a user at a time go on.
type repeatGuards struct {
	mu sync.Mutex
	of map[string]chan struct{}
}

// repeatTime is how long a request waits for the one before with the same key.
const repeatTime = 10 * time.Second

func (all *repeatGuards) enter(c *request, key string) (leave func(), err error) {
	end := time.NewTimer(repeatTime)
	defer end.Stop()
	for {
		all.mu.Lock()
		before := all.of[key]
		if before == nil {
			if all.of == nil {
				all.of = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			all.of[key] = mine
			all.mu.Unlock()
			return func() {
				all.mu.Lock()
				delete(all.of, key)
				all.mu.Unlock()
				close(mine)
			}, nil
		}
		all.mu.Unlock()
		select {
		case <-before:
			continue
		case <-end.C:
		case <-c.r.Context().Done():
		}
		return nil, &record.Error{Fault: record.Busy, Code: "busy", Text: "Another request with this Idempotency-Key is under way.", Retry: time.Second}
	}
}
