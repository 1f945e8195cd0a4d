package web

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/record"
)

// A Repeat is a request with an Idempotency-Key. Its answer is kept for repeats of it.
type Repeat struct {
	Key     string
	Request []byte // the fingerprint of the request
	Once    string // see Operation
}

// What operations make whose answer has secrets.
const (
	MadeKey     = "key"
	MadePasskey = "passkey"

	MadeInvitation = "invitation"
)

// Created is what an operation has made.
type Created struct {
	ID     record.ID                        // needed only by operations whose answer has secrets
	Append func(dst []byte) ([]byte, error) // appends the answer; called once
}

// Create runs the transaction of an operation that makes something, and answers. The answer to a
// request with an Idempotency-Key is stored in the same transaction: it is kept if and only if
// the thing was made, whatever happens next.
func (c *Request) Create(add func(*kv.Tx) (Created, error)) error {
	var made Created
	if c.Repeat == nil {
		if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
			made, err = add(tx)
			return err
		}); err != nil {
			return err
		}
		return c.respondCreated(made.Append)
	}

	var body []byte
	if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		body, err = jobs.AnswerOnce(tx, c.Owner(), c.Repeat.Key, c.Repeat.Request, func() ([]byte, error) {
			made, err = add(tx)
			if err != nil {
				return nil, err
			}
			if c.Repeat.Once != "" {
				return []byte(made.ID.String()), nil
			}
			return made.Append(nil)
		})
		return err
	}); err != nil {
		return err
	}
	if made.Append == nil {
		return c.respondAgain(body) // a request at the same time was faster
	}
	if c.Repeat.Once != "" {
		return c.respondCreated(made.Append)
	}
	return c.respondBody(body)
}

// RespondEarlier gives the answer to an earlier request again if this is a repeat of it.
func (c *Request) RespondEarlier(earlier *jobs.IdempotentAnswer) error {
	body, err := earlier.For(c.Repeat.Request)
	if err != nil {
		return err
	}
	return c.respondAgain(body)
}

func (c *Request) respondAgain(body []byte) error {
	if c.Repeat.Once != "" {
		id, _ := uuid.ParseBytes(body) // versions before this one stored none
		return &AnsweredBefore{ID: id, Kind: c.Repeat.Once}
	}
	return c.respondBody(body)
}

func (c *Request) respondBody(body []byte) error {
	return c.respondCreated(func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
}

// respondCreated answers with text if the client prefers that and the operation has it.
func (c *Request) respondCreated(write func(dst []byte) ([]byte, error)) error {
	if !c.W.Plain {
		return c.Respond(c.Status, func(dst []byte) ([]byte, error) {
			start := len(dst)
			dst, err := write(dst)
			c.locate(dst[min(start, len(dst)):])
			return dst, err
		})
	}
	text, err := write(nil)
	if err != nil {
		return err
	}
	return c.RespondText(string(text))
}

// locate gives the answer the address of the one thing that was made (RFC 9110, section 10.2.2).
// The answer begins with the thing, and the thing with its id.
func (c *Request) locate(body []byte) {
	before, after, found := bytes.Cut(body, []byte(`"id":"`))
	id, _, ended := bytes.Cut(after, []byte{'"'})
	if c.At == "" || !found || !ended || bytes.ContainsRune(before, '[') {
		return
	}
	c.W.Header()["Location"] = []string{c.Site.Prefix() + c.At + "/" + string(id)}
}

// AnsweredBefore is the error for the repeat of a request whose answer had secrets. The answer
// has its fields, so that a client that lost the secrets can revoke what was made.
type AnsweredBefore struct {
	ID   record.ID
	Kind string // what was made
}

func (e *AnsweredBefore) Error() string { return e.Unwrap().Error() }

func (e *AnsweredBefore) Unwrap() error {
	return &record.Error{
		Fault: record.Taken, Code: "answered_before",
		Text: "This request was answered before, and made one " + e.Kind + ". " +
			"The answer had secrets, which are shown only once. " +
			"If they are lost, remove the " + e.Kind + " and make another one.",
	}
}

func (e *AnsweredBefore) members() []byte {
	dst := field.AppendString([]byte(`"kind":`), e.Kind)
	if e.ID == uuid.Nil {
		return dst
	}
	return field.AppendString(append(dst, `,"id":`...), e.ID.String())
}

// IdempotencyKey is the key of the request; "" if it has none.
func IdempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return "", &record.Error{
			Fault: record.Malformed, Code: "bad_idempotency_key", Text: "The Idempotency-Key is longer than 255 bytes.",
		}
	}
	return key, nil
}

// IdempotencyArg is the header that makes repeats of a request safe.
var IdempotencyArg = Param{
	In: "header", Name: "Idempotency-Key",
	Doc: "If the same request is repeated within 24 hours, it gets the same answer, also after a crash of the server. " +
		"If the answer had secrets, which are shown only once, it gets 409 (answered_before) with the id of what was made. " +
		"A different request with the same key is refused (422, idempotency_mismatch).",
	Schema: Object{"type": "string", "maxLength": 255},
}

// repeatGuards lets one request with the same Idempotency-Key run at a time.
type repeatGuards struct {
	of handOvers[string, struct{}]
}

// repeatTime is how long a request waits for an earlier one with the same key.
const repeatTime = 10 * time.Second

// Enter waits until no other request with the key runs, for ten seconds at most. The caller calls
// leave at its end.
func (all *repeatGuards) Enter(c *Request, key string) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(c.R.Context(), repeatTime)
	defer cancel()
	leave, err = all.of.take(ctx, key, struct{}{}, nil)
	if err != nil {
		return nil, &record.Error{
			Fault: record.Busy, Code: "busy", Retry: time.Second,
			Text: "Another request with this Idempotency-Key is in progress.",
		}
	}
	return leave, nil
}
