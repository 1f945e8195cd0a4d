package kv

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// Whatever an owner may have is bounded, and deleting makes room again.
func TestBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), clock.now)
	SetBounds(s, 5, 3)
	ann, bob := user(t, s, "ann"), user(t, s, "bob")
	makes := map[string]func(tx *Tx, i int, owner record.ID) error{
		"too_many_keys": func(tx *Tx, _ int, owner record.ID) error {
			_, _, err := tx.AddKey(record.Key{Owner: owner, Scopes: []record.Scope{record.ScopeAll}})
			return err
		},
		"too_many_folders": func(tx *Tx, i int, owner record.ID) error {
			_, err := tx.AddFolder(owner, fmt.Sprint(i), "")
			return err
		},
		"too_many_requests": func(tx *Tx, i int, owner record.ID) error {
			_, err := tx.AddRequest(owner, &record.RequestForm{Request: record.NewRequest()}, "")
			return err
		},
	}
	for want, one := range makes {
		for i := range 5 {
			update(t, s, func(tx *Tx) error { return one(tx, i, ann.ID) })
		}
		err := s.Update(func(tx *Tx) error { return one(tx, 5, ann.ID) })
		is.Equal(code(err), want)
		update(t, s, func(tx *Tx) error { return one(tx, 5, bob.ID) })
	}
	var first *record.Record
	for range 3 {
		first = add(t, s, ann.ID, record.Notes, `{"content":"c"}`)
	}
	another := func() error {
		return s.Update(func(tx *Tx) error {
			_, err := tx.Add(ann.ID, record.Snippets, form(t, record.Snippets, `{"content":"c"}`), nil, "")
			return err
		})
	}
	is.Equal(code(another()), "too_many_items")
	update(t, s, func(tx *Tx) error { return tx.Remove(first) })
	is.NoErr(another())

	// One more session ends the one that was used longest ago.
	var secrets []string
	for range 6 {
		clock.add(time.Minute)
		update(t, s, func(tx *Tx) error {
			_, secret, err := tx.AddSession(ann.ID, "", "")
			secrets = append(secrets, secret)
			return err
		})
	}
	_, err := s.AuthenticateSession(secrets[0])
	is.Equal(code(err), "session_ended")
	for _, secret := range secrets[1:] {
		_, err := s.AuthenticateSession(secret)
		is.NoErr(err)
	}
}

// An owner has so much written in an hour, and others are not held up.
func TestWritesPerHour(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := newClock()
	s := opened(t, filepath.Join(t.TempDir(), "data"), Options{Schema: All, Now: clock.now, Log: quiet, WritesPerHour: 100_000})
	ann, bob := user(t, s, "ann"), user(t, s, "bob")
	text := fmt.Sprintf(`{"content":"%020000d"}`, 0)
	write := func(owner record.ID) error {
		return s.Update(func(tx *Tx) error {
			_, err := tx.Add(owner, record.Notes, form(t, record.Notes, text), nil, "")
			return err
		})
	}
	n := 0
	var err error
	for ; err == nil && n < 20; n++ {
		err = write(ann.ID)
	}
	is.True(n == 5 || n == 6) // 20 kB each, and what belongs to it
	is.Equal(code(err), "too_many_writes")
	is.NoErr(write(bob.ID))
	var e *record.Error
	is.True(errors.As(err, &e))
	clock.add(e.Retry - time.Second)
	is.Equal(code(write(ann.ID)), "too_many_writes")
	clock.add(time.Minute)
	is.NoErr(write(ann.ID))
}
