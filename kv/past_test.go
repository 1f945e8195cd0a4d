package kv_test

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// A creation time after the transaction becomes now, and no record was changed before
// it was created.
func TestRestoredTimes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	now := c.Now().UTC()
	before, earlier, ahead := now.Add(-time.Hour), now.Add(-2*time.Hour), now.Add(time.Hour)
	for name, row := range map[string]struct{ created, updated, wantCreated, wantUpdated time.Time }{
		"as it was":              {earlier, before, earlier, before},
		"never changed":          {before, before, before, before},
		"nothing is known":       {time.Time{}, time.Time{}, now, now},
		"changed before made":    {before, earlier, before, before},
		"no change is known":     {before, time.Time{}, before, before},
		"changed in the future":  {before, ahead, before, now},
		"made in the future":     {ahead, before, now, now},
		"all of it lies ahead":   {ahead, ahead.Add(time.Hour), now, now},
		"changed at this moment": {before, now, before, now},
	} {
		var r *record.Record
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			r, err = catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"c"}`), Past: &record.Past{
					Created: row.created, Updated: row.updated,
				},
			})
			return err
		})
		if !r.Created.Equal(row.wantCreated) || !r.Updated.Equal(row.wantUpdated) {
			t.Errorf("%s: made at %v and changed at %v", name, r.Created, r.Updated)
		}
	}
	is.NoErr(s.View(kvtest.Audit))
}
