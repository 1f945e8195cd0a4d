package jobs_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/record"
)

func TestCleanEvent(t *testing.T) {
	is := is.New(t)
	all := jobs.Events()
	is.Equal(len(all), 4*len(record.Kinds)+11)
	for _, e := range append(all, "*") {
		got, err := jobs.CleanEvent(string(e))
		is.NoErr(err)
		is.Equal(got, string(e))
	}
	is.True(slices.Contains(all, "file.uploaded"))
	for _, bad := range []string{"", "file.created", "note.*", "NOTE.CREATED", " *"} {
		_, err := jobs.CleanEvent(bad)
		is.True(strings.Contains(err.Error(), "must be one of: file.uploaded, file.updated"))
	}
}

func TestCheckSecret(t *testing.T) {
	is := is.New(t)
	of := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for text, want := range map[string]bool{
		"x": true, "any text": true, of(24): true, of(64): true, of(32): true,
		of(23): false, of(65): false, "whsec_": false, "whsec_not base64 at all!": false, "whsec_" + strings.Repeat("A", 33): false,
	} {
		if got := jobs.CheckSecret(text); (got == nil) != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	is.Equal(jobs.SecretKey(of(24)), make([]byte, 24))
	is.Equal(jobs.SecretKey("text"), []byte("text"))
}

// The previous secret signs for another day; a removed one no longer signs.
func TestSecretOverlap(t *testing.T) {
	is := is.New(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var h jobs.Webhook
	is.Equal(h.Secrets(now), nil)
	h.SetSecret("a", now)
	is.Equal(h.Secrets(now), []string{"a"})
	h.SetSecret("b", now)
	is.Equal(h.Secrets(now), []string{"b", "a"})
	h.SetSecret("b", now.Add(time.Hour)) // no change
	is.Equal(h.Secrets(now.Add(24*time.Hour-time.Second)), []string{"b", "a"})
	is.Equal(h.Secrets(now.Add(24*time.Hour)), []string{"b"})
	h.Forget(now.Add(24*time.Hour - time.Second))
	is.Equal(h.Former, "a")
	h.Record(jobs.Try{}, now.Add(24*time.Hour), now)
	is.Equal(h.Former, "")
	is.True(h.FormerEnds.IsZero())
	h.SetSecret("c", now)
	is.Equal(h.Secrets(now), []string{"c", "b"})
	h.SetSecret("", now)
	is.Equal(h.Secrets(now), nil)
	h.SetSecret("d", now)
	is.Equal(h.Secrets(now), []string{"d"})
}

func TestWants(t *testing.T) {
	is := is.New(t)
	w := jobs.Webhook{Enabled: true, Events: []jobs.Event{"note.created"}}
	is.True(w.Wants("note.created"))
	is.True(!w.Wants("note.updated"))
	w.Events = []jobs.Event{"*"}
	is.True(w.Wants("note.updated"))
	w.Enabled = false
	is.True(!w.Wants("note.updated"))
}

// A delivery that succeeds ends the count of failures and a pause.
func TestWebhookRecovers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &jobs.Webhook{}
	w.Record(jobs.Try{Status: 500, Error: "It failed."}, now, now)
	w.Record(jobs.Try{Status: 500, Error: "It failed."}, now.Add(time.Minute), now.Add(time.Minute))
	is.Equal(w.Failures, 2)
	is.True(w.Failing.Equal(now))
	w.Paused = now
	w.Record(jobs.Try{Status: 200}, now.Add(2*time.Minute), now.Add(2*time.Minute))
	is.Equal(w.Failures, 0)
	is.True(w.Failing.IsZero() && w.Paused.IsZero())
	is.True(w.LastDelivered.Equal(now.Add(2 * time.Minute)))
}

// An interrupted removal leaves a working queue.
func TestRemovalCutShort(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"one"}`)
	kvtest.Edit(t, s, r, `{"content":"two"}`)
	kvtest.Edit(t, s, r, `{"content":"three"}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		done, err := jobs.DropWebhook(tx, u.ID, h.ID, 2)
		is.True(!done)
		return err
	})
	found, _ := kvtest.Due(t, s)
	is.Equal(len(found), 1)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(jobs.Queued(tx, h.ID), int64(1))
		return kvtest.Audit(tx)
	})
}

func TestWebhookBounds(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	var h jobs.Webhook
	for range jobs.MaxWebhooks {
		h = kvtest.HookFor(t, s, u.ID)
	}
	err := s.Update(func(tx *kv.Tx) error { _, err := jobs.AddWebhook(tx, jobs.Webhook{Owner: u.ID}); return err })
	is.Equal(kvtest.Code(err), "too_many_webhooks")
	is.NoErr(jobs.RemoveWebhook(s, u.ID, h.ID))
	kvtest.HookFor(t, s, u.ID)
	// Results for deleted deliveries are ignored.
	p := jobs.Place{Owner: u.ID, Hook: h.ID, ID: record.ID{1}}
	kvtest.Tried(t, s, p, "no")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return jobs.Tested(tx, p, jobs.WebhookTest, tx.Now, jobs.Notice{}, jobs.Try{})
	})), "not_found")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return jobs.Redeliver(tx, p) })), "not_found")
}
