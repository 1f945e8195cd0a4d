package record_test

import (
	"testing"
	"time"

	"kist/kv/record"

	"github.com/matryer/is"
)

func TestCheckEnd(t *testing.T) {
	is := is.New(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	is.NoErr(record.CheckEnd(time.Time{}, now))
	is.NoErr(record.CheckEnd(now.Add(time.Millisecond), now))
	is.True(record.CheckEnd(now, now) != nil)
	is.True(record.CheckEnd(now.Add(-time.Hour), now) != nil)
}
