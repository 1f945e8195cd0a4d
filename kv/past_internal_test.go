package kv

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

// Ids of one earlier millisecond sort in the order in which they are made.
func TestIDsOfThePast(t *testing.T) {
	is := is.New(t)
	at := time.Date(2020, 1, 2, 3, 4, 5, 678e6, time.UTC)
	last := IdAt(at, record.ID{})
	for range 1000 {
		next := IdAt(at, last)
		is.True(string(next[:]) > string(last[:]))
		is.Equal(next.Version(), uuid.Version(7))
		is.Equal(next.Variant(), uuid.RFC4122)
		sec, nsec := next.Time().UnixTime()
		is.True(time.Unix(sec, nsec).Equal(at))
		last = next
	}
	is.True(string(last[:]) < string(func() []byte { id := IdAt(at.Add(time.Millisecond), last); return id[:] }()))
	full := IdAt(at, record.ID{}) // the last one of its millisecond: those after it go on in the next
	copy(full[6:], "\x7f\xff\xbf\xff\xff\xff\xff\xff\xff\xff")
	next := IdAt(at, full)
	is.True(string(next[:]) > string(full[:]))
	is.Equal(next.Version(), uuid.Version(7))
	sec, nsec := next.Time().UnixTime()
	is.True(time.Unix(sec, nsec).Equal(at.Add(time.Millisecond)))
	old := IdAt(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), record.ID{})
	is.Equal(old.Version(), uuid.Version(7))
}
