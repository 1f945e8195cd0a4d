package httpapi

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/record"
)

// maxRepeated bounds the body of a request that can be repeated in bytes: that of
// the longest text.
const maxRepeated = 4 << 20

// idempotent answers a request with an Idempotency-Key like the one before it with the
// same key. Of two at the same time the second waits for the first. The answer is
// kept after what the request does is done, so that a crash in between leaves the
// repeat to be done again.
func (s *Server) idempotent(serve func(*web.Request) error) func(*web.Request) error {
	return func(c *web.Request) error {
		key, err := c.IdempotencyKey()
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
		leave, err := s.repeats.enter(c, c.Owner().String()+" "+key)
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
			if err != nil {
				return err
			}
			if c.W.Plain {
				return c.RespondText(strings.TrimSuffix(string(again), "\n"))
			}
			return c.RespondJSON(c.Made, again)
		}
		if !web.IsMissing(err) {
			return err
		}
		c.R.Body = io.NopCloser(bytes.NewReader(body))
		c.Keep = func(answer []byte) {
			if err := s.Store.Update(func(tx *kv.Tx) error {
				return jobs.SaveIdempotentAnswer(tx, c.Owner(), key, jobs.IdempotentAnswer{Request: request, Body: bytes.Clone(answer)})
			}); err != nil {
				s.Log.Warn("an answer is not kept for repeats", "requestId", c.ID, "error", err)
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

func (all *repeatGuards) enter(c *web.Request, key string) (leave func(), err error) {
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
		case <-c.R.Context().Done():
		}
		return nil, &record.Error{Fault: record.Busy, Code: "busy", Text: "Another request with this Idempotency-Key is under way.", Retry: time.Second}
	}
}
