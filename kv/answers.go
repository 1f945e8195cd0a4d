package kv

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"kist/kv/record"
)

// answerFor is how long an answer is kept for a repeated request.
const answerFor = 24 * time.Hour

type answer struct {
	Expires time.Time
	Body    []byte
}

func answerKey(owner record.ID, key string) []byte {
	digest := sha256.Sum256([]byte(key))
	return pair(owner, digest[:]...)
}

// Answer is what the owner's request with the idempotency key was answered in
// the last 24 hours; Missing if it was not.
func (tx *Tx) Answer(owner record.ID, key string) ([]byte, error) {
	missing := record.NotFound("answer")
	v := tx.Get(answerBucket, answerKey(owner, key))
	if v == nil {
		return nil, missing
	}
	var a answer
	if err := json.Unmarshal(v, &a); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if !tx.Now.Before(a.Expires) {
		return nil, missing
	}
	return a.Body, nil
}

// Answered keeps the answer to a request with an idempotency key.
func (tx *Tx) Answered(owner record.ID, key string, body []byte) error {
	if err := tx.owner(owner); err != nil {
		return err
	}
	v, err := json.Marshal(answer{tx.Now.Add(answerFor), body})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return tx.Put(answerBucket, answerKey(owner, key), v)
}

// DropAnswers forgets the answers whose time is over.
func (tx *Tx) DropAnswers() error {
	var old [][]byte
	for k, v := range tx.Walk(answerBucket, nil, nil, false) {
		var a answer
		if json.Unmarshal(v, &a) != nil || !tx.Now.Before(a.Expires) {
			old = append(old, append([]byte{}, k...))
		}
	}
	for _, k := range old {
		if err := tx.Delete(answerBucket, k); err != nil {
			return err
		}
	}
	return nil
}
