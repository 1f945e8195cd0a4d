package kv

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

// Ids of one earlier millisecond sort in the order of their making.
func TestIDsOfThePast(t *testing.T) {
	is := is.New(t)
	at := time.Date(2020, 1, 2, 3, 4, 5, 678e6, time.UTC)
	last := idAt(at, record.ID{})
	for range 1000 {
		next := idAt(at, last)
		is.True(string(next[:]) > string(last[:]))
		is.Equal(next.Version(), uuid.Version(7))
		is.Equal(next.Variant(), uuid.RFC4122)
		sec, nsec := next.Time().UnixTime()
		is.True(time.Unix(sec, nsec).Equal(at))
		last = next
	}
	is.True(string(last[:]) < string(func() []byte { id := idAt(at.Add(time.Millisecond), last); return id[:] }()))
	full := idAt(at, record.ID{}) // the last one of its millisecond: those after it go on in the next
	copy(full[6:], "\x7f\xff\xbf\xff\xff\xff\xff\xff\xff\xff")
	next := idAt(at, full)
	is.True(string(next[:]) > string(full[:]))
	is.Equal(next.Version(), uuid.Version(7))
	sec, nsec := next.Time().UnixTime()
	is.True(time.Unix(sec, nsec).Equal(at.Add(time.Millisecond)))
	old := idAt(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), record.ID{})
	is.Equal(old.Version(), uuid.Version(7))
}

// A past that lies ahead of the transaction is now, and nothing was changed
// before it was made.
func TestRestoredTimes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClock()
	s := openAt(t, t.TempDir(), c.now)
	u := user(t, s, "ann")
	now := c.now().UTC()
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
		update(t, s, func(tx *Tx) (err error) {
			r, err = tx.Restore(u.ID, record.Notes, form(t, record.Notes, `{"content":"c"}`), nil, record.Past{Created: row.created, Updated: row.updated}, record.ID{})
			return err
		})
		if !r.Created.Equal(row.wantCreated) || !r.Updated.Equal(row.wantUpdated) {
			t.Errorf("%s: made at %v and changed at %v", name, r.Created, r.Updated)
		}
	}
	is.NoErr(s.View(audit))
}
