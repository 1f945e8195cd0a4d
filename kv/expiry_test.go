package kv

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv/record"
)

// An end is told once, when it is there; a new end is told again, one that is
// taken away is not; and telling changes nothing that visitors see.
func TestEnds(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, t.TempDir(), c.now)
	u := user(t, s, "ann")
	var h record.Webhook
	update(t, s, func(tx *Tx) (err error) {
		h, err = tx.AddWebhook(record.Webhook{Owner: u.ID, Events: []record.Event{record.ItemExpired}, Enabled: true})
		return err
	})
	told := func() int {
		tick(s)
		n := 0
		view(t, s, func(tx *Tx) error {
			n = len(deliveriesOf(t, tx, h.ID))
			return audit(tx)
		})
		return n
	}
	at := func(d time.Duration) string { return c.now().Add(d).UTC().Format(time.RFC3339) }
	r := add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","isPublic":true,"expiresAt":%q}`, at(time.Hour)))
	taken := add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","expiresAt":%q}`, at(time.Hour)))
	add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	edit(t, s, taken, `{"expiresAt":null}`)
	is.Equal(told(), 0)
	c.add(time.Hour)
	is.Equal(told(), 1)
	is.Equal(told(), 1)
	view(t, s, func(tx *Tx) error {
		r, err := tx.Slug(r.Slug)
		is.NoErr(err)
		var e *record.Error
		is.True(errors.As(r.Open(tx.Now), &e))
		is.Equal(e.Code, "expired")
		return nil
	})
	edit(t, s, r, `{"title":"other"}`)
	is.Equal(told(), 1)
	edit(t, s, r, fmt.Sprintf(`{"expiresAt":%q}`, at(time.Minute)))
	is.Equal(told(), 1)
	c.add(time.Hour)
	is.Equal(told(), 2)

	for range 2*endBatch + 10 {
		add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","expiresAt":%q}`, at(time.Minute)))
	}
	c.add(time.Minute)
	is.Equal(told(), 2+2*endBatch+10)
}

// An end that cannot be recorded leaves nothing behind, does not delay the ends
// after it, and is told once it can be recorded.
func TestEndThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClock()
	s := openAt(t, t.TempDir(), c.now)
	u := user(t, s, "ann")
	h := hookFor(t, s, u.ID, record.ItemExpired)
	end := func(after time.Duration) *record.Record {
		return add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","expiresAt":%q}`, c.now().Add(after).UTC().Format(time.RFC3339)))
	}
	first, second := end(time.Minute), end(2*time.Minute)
	slugOf := func(r *record.Record, key []byte) { // files the slug of a record under a key
		is.NoErr(StoreBolt(s).Update(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(bucket("record.slug").Name)).Put([]byte(r.Slug), key)
		}))
	}
	told := func() (subjects []record.ID) {
		tick(s)
		view(t, s, func(tx *Tx) error {
			all := deliveriesOf(t, tx, h.ID)
			for _, d := range all {
				subjects = append(subjects, d.Subject)
			}
			is.Equal(tx.Count(bucket("notice")), len(all))
			is.Equal(tx.Queued(h.ID), int64(len(all)))
			return nil
		})
		return subjects
	}
	c.add(time.Hour)
	slugOf(first, second.Key())
	is.Equal(told(), []record.ID{second.ID})
	slugOf(first, first.Key())
	is.Equal(told(), []record.ID{second.ID, first.ID})
	view(t, s, audit)
}

// However long the records are and however many webhooks there are, each event
// is written once, and no transaction grows without bounds.
func TestLongEnds(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, t.TempDir(), c.now)
	u := user(t, s, "ann")
	var hs []record.Webhook
	for range 5 {
		hs = append(hs, hookFor(t, s, u.ID, record.ItemExpired))
	}
	const maxVolume = 8 << 20 // of a commit
	const n, size = 12, maxVolume / 8
	content := strings.Repeat("x", size)
	for range n {
		add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":%q,"expiresAt":%q}`, content, c.now().Add(time.Minute).UTC().Format(time.RFC3339)))
	}
	c.add(time.Hour)
	before := commits(t, s)
	tick(s)
	is.True(commits(t, s)-before >= n*size/maxVolume)
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.Count(bucket("notice")), n)
		is.Equal(tx.Queued(hs[4].ID), int64(n))
		return audit(tx)
	})
	for _, h := range hs[1:] {
		is.NoErr(s.RemoveWebhook(u.ID, h.ID))
	}
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.Count(bucket("notice")), n) // the one that is left needs them
		return audit(tx)
	})
	is.NoErr(s.RemoveWebhook(u.ID, hs[0].ID))
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.Count(bucket("notice")), 0)
		return audit(tx)
	})
}
