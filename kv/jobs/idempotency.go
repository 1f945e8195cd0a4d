package jobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// answerFor is how long an answer is kept for a repeated request.
const answerFor = 24 * time.Hour

// maxAnswers is how many bytes of an owner's answers are kept. Requests with new keys are refused
// beyond it, so that those answered before can be repeated.
const maxAnswers = 64 << 20

// answerSizes are the bytes of the answers of each owner. They are added up from the rows after a
// start and after each sweep. Until the next sweep they can be too high, because of transactions
// that failed.
type answerSizes struct {
	mu sync.Mutex
	of map[record.ID]int
}

var answersKept kv.Slot[answerSizes]

// add adds bytes to those of the owner and returns the sum.
func (a *answerSizes) add(tx *kv.Tx, owner record.ID, bytes int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum, known := a.of[owner]
	if !known {
		for k, v := range tx.Walk(answerBucket, owner[:], nil, false) {
			sum += len(k) + len(v)
		}
	}
	if a.of == nil {
		a.of = map[record.ID]int{}
	}
	a.of[owner] = sum + bytes
	return sum + bytes
}

// AnswerTable keeps answers, to give a repeated request the same one again.
var AnswerTable = kv.Table{
	Buckets: []table.Bucket{answerBucket},
	Check: func(a *kv.Audit) {
		for k := range a.Walk(answerBucket, nil, nil, false) {
			a.Refers(people.UserBucket, k[:16], "answer of", record.ID(k[:16]))
		}
	},
	Refill: func(r *kv.Refill) error {
		return r.Copy(answerBucket, func(k []byte) bool { return len(k) >= 16 && r.Get(people.UserBucket, k[:16]) != nil })
	},
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		return tx.DropKeys(answerBucket, owner, func(key []byte) error { return tx.Delete(answerBucket, key) })
	},
}

// An IdempotentAnswer is the answer to a request with an idempotency key.
type IdempotentAnswer struct {
	Request []byte `json:"Request"` // fingerprint of the request
	Body    []byte `json:"Body"`
}

// For returns the body if request is the one that was answered. A different request
// must not be mistaken for it and fails with Invalid.
func (a *IdempotentAnswer) For(request []byte) ([]byte, error) {
	if !bytes.Equal(a.Request, request) {
		return nil, &record.Error{
			Fault: record.Invalid, Code: "idempotency_mismatch",
			Text:   "This Idempotency-Key belongs to another request. Nothing was stored.",
			Fields: map[string]string{"Idempotency-Key": "belongs to another request"},
		}
	}
	return a.Body, nil
}

// A StoredAnswer is a row of AnswerTable.
type StoredAnswer struct {
	Expires time.Time `json:"Expires"`
	IdempotentAnswer
}

func answerKey(owner record.ID, key string) []byte {
	digest := sha256.Sum256([]byte(key))
	return kv.OwnedKey(owner, digest[:]...)
}

// FindAnswer finds the answer given in the last 24 hours to the owner's request with
// the idempotency key. It fails with Missing if no answer is kept, and with Denied if
// there is also no room to keep another.
func FindAnswer(tx *kv.Tx, owner record.ID, key string) (*IdempotentAnswer, error) {
	return findAnswer(tx, owner, key, maxAnswers)
}

// FindSenderAnswer is FindAnswer for the request of a sender to the owner. Answers to
// senders leave half of the room to the owner.
func FindSenderAnswer(tx *kv.Tx, owner record.ID, key string) (*IdempotentAnswer, error) {
	return findAnswer(tx, owner, key, maxAnswers/2)
}

func findAnswer(tx *kv.Tx, owner record.ID, key string, room int) (*IdempotentAnswer, error) {
	if v := tx.Get(answerBucket, answerKey(owner, key)); v != nil {
		var a StoredAnswer
		if err := json.Unmarshal(v, &a); err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
		if tx.Now.Before(a.Expires) {
			return &a.IdempotentAnswer, nil
		}
	}
	if answersKept.Of(tx.Store()).add(tx, owner, 0) >= room {
		return nil, &record.Error{
			Fault: record.Denied, Code: "too_many_answers",
			Text: "Too many answers to requests with an Idempotency-Key are kept: " + strconv.Itoa(room>>20) + " MiB. " +
				"Nothing was stored. Send the request without this header, or try again tomorrow.",
		}
	}
	return nil, record.NotFound("answer")
}

// AnswerOnce gives the answer of the owner's earlier request with the idempotency key, or makes
// one and keeps it. It fails as FindAnswer and For do, and as make does.
func AnswerOnce(tx *kv.Tx, owner record.ID, key string, request []byte, make func() ([]byte, error)) ([]byte, error) {
	earlier, err := FindAnswer(tx, owner, key)
	if err == nil {
		return earlier.For(request)
	}
	if !kv.Missing(err) {
		return nil, err
	}

	body, err := make()
	if err != nil {
		return nil, err
	}
	return body, SaveIdempotentAnswer(tx, owner, key, IdempotentAnswer{Request: request, Body: body})
}

// SaveIdempotentAnswer keeps the answer to a request with an idempotency key.
func SaveIdempotentAnswer(tx *kv.Tx, owner record.ID, key string, a IdempotentAnswer) error {
	if err := people.RequireOwner(tx, owner); err != nil {
		return err
	}
	v, err := json.Marshal(StoredAnswer{tx.Now.Add(answerFor), a})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	k := answerKey(owner, key)
	answersKept.Of(tx.Store()).add(tx, owner, len(k)+len(v)) // before Put, which Walk would count
	return tx.Put(answerBucket, k, v)
}

// DropIdempotentAnswers deletes expired answers. It reads them before the transactions that
// delete them, because all of them together are long.
func DropIdempotentAnswers(s *kv.Store) error {
	var after []byte
	for {
		var old [][]byte
		if err := s.View(func(tx *kv.Tx) error {
			for k, v := range tx.Walk(answerBucket, nil, after, false) {
				if expired(tx, v) {
					old = append(old, bytes.Clone(k))
				}
				if len(old) == kv.RemoveBatch {
					break
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if len(old) == 0 {
			break
		}
		if err := s.Update(func(tx *kv.Tx) error {
			for _, k := range old {
				if v := tx.Get(answerBucket, k); v == nil || !expired(tx, v) {
					continue // replaced since
				}
				if err := tx.Delete(answerBucket, k); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		after = old[len(old)-1]
	}
	kept := answersKept.Of(s)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.of = nil
	return nil
}

// expired reports whether the answer in a row has expired. It is also true for a row that cannot be read.
func expired(tx *kv.Tx, row []byte) bool {
	var a struct{ Expires time.Time }
	return json.Unmarshal(row, &a) != nil || !tx.Now.Before(a.Expires)
}
