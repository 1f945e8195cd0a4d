package kv_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// An expiry that cannot be recorded leaves nothing behind, does not delay later ones,
// and is announced once it can be recorded.
func TestEndThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, jobs.ItemExpired)
	end := func(after time.Duration) *record.Record {
		return kvtest.Add(
			t, s, u.ID, record.Notes,
			fmt.Sprintf(`{"content":"c","expiresAt":%q}`, c.Now().Add(after).UTC().Format(time.RFC3339)),
		)
	}
	first, second := end(time.Minute), end(2*time.Minute)
	slugOf := func(r *record.Record, key []byte) { // files the slug of a record under a key
		is.NoErr(kv.StoreBolt(s).Update(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(kvtest.Bucket("record.slug").Name)).Put([]byte(r.Slug), key)
		}))
	}
	told := func() (subjects []record.ID) {
		kvtest.Tick(s)
		kvtest.View(t, s, func(tx *kv.Tx) error {
			all := kvtest.DeliveriesOf(t, tx, h.ID)
			for _, d := range all {
				subjects = append(subjects, d.Subject)
			}
			is.Equal(tx.Count(kvtest.Bucket("notice")), len(all))
			is.Equal(jobs.Queued(tx, h.ID), int64(len(all)))
			return nil
		})
		return subjects
	}
	c.Add(time.Hour)
	slugOf(first, second.Key())
	is.Equal(told(), []record.ID{second.ID})
	slugOf(first, first.Key())
	is.Equal(told(), []record.ID{second.ID, first.ID})
	kvtest.View(t, s, kvtest.Audit)
}

// However long the records are and however many webhooks there are, each event
// is written once, and no transaction grows without bounds.
func TestLongEnds(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	var hs []jobs.Webhook
	for range 5 {
		hs = append(hs, kvtest.HookFor(t, s, u.ID, jobs.ItemExpired))
	}
	const maxVolume = 8 << 20 // of a commit
	const n, size = 12, maxVolume / 8
	content := strings.Repeat("x", size)
	for range n {
		kvtest.Add(
			t, s, u.ID, record.Notes,
			fmt.Sprintf(`{"content":%q,"expiresAt":%q}`, content, c.Now().Add(time.Minute).UTC().Format(time.RFC3339)),
		)
	}
	c.Add(time.Hour)
	before := kvtest.Commits(t, s)
	kvtest.Tick(s)
	is.True(kvtest.Commits(t, s)-before >= n*size/maxVolume)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("notice")), n)
		is.Equal(jobs.Queued(tx, hs[4].ID), int64(n))
		return kvtest.Audit(tx)
	})
	for _, h := range hs[1:] {
		is.NoErr(jobs.RemoveWebhook(s, u.ID, h.ID))
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("notice")), n) // the one that is left needs them
		return kvtest.Audit(tx)
	})
	is.NoErr(jobs.RemoveWebhook(s, u.ID, hs[0].ID))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("notice")), 0)
		return kvtest.Audit(tx)
	})
}
