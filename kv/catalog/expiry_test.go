package catalog_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// An expiry is reported once, when it comes. A new expiry is reported again, a removed
// one is not. Reporting changes nothing that visitors see.
func TestEnds(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	var h jobs.Webhook
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		h, err = jobs.AddWebhook(tx, jobs.Webhook{Owner: u.ID, Events: []jobs.Event{jobs.ItemExpired}, Enabled: true})
		return err
	})
	told := func() int {
		kvtest.Tick(s)
		n := 0
		kvtest.View(t, s, func(tx *kv.Tx) error {
			n = len(kvtest.DeliveriesOf(t, tx, h.ID))
			return kvtest.Audit(tx)
		})
		return n
	}
	at := func(d time.Duration) string { return c.Now().Add(d).UTC().Format(time.RFC3339) }
	r := kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","isPublic":true,"expiresAt":%q}`, at(time.Hour)))
	taken := kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","expiresAt":%q}`, at(time.Hour)))
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	kvtest.Edit(t, s, taken, `{"expiresAt":null}`)
	is.Equal(told(), 0)
	c.Add(time.Hour)
	is.Equal(told(), 1)
	is.Equal(told(), 1)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Slug(tx, r.Slug)
		is.NoErr(err)
		var e *record.Error
		is.True(errors.As(r.Open(tx.Now), &e))
		is.Equal(e.Code, "expired")
		return nil
	})
	kvtest.Edit(t, s, r, `{"title":"other"}`)
	is.Equal(told(), 1)
	kvtest.Edit(t, s, r, fmt.Sprintf(`{"expiresAt":%q}`, at(time.Minute)))
	is.Equal(told(), 1)
	c.Add(time.Hour)
	is.Equal(told(), 2)

	for range 2*catalog.EndBatch + 10 {
		kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","expiresAt":%q}`, at(time.Minute)))
	}
	c.Add(time.Minute)
	is.Equal(told(), 2+2*catalog.EndBatch+10)
}
