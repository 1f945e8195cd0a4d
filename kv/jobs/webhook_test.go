package jobs_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"kist/kv/jobs"
	"kist/kv/record"

	"github.com/matryer/is"
)

func TestCleanEvent(t *testing.T) {
	is := is.New(t)
	all := jobs.Events()
	is.Equal(len(all), 4*len(record.Kinds)+8)
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
