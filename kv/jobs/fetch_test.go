package jobs_test

import (
	"testing"
	"time"

	"kist/kv/jobs"

	"github.com/matryer/is"
)

// The consequences of a failed try.
func TestFetchFailed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steady := now.Add(time.Hour)
	for _, c := range []struct {
		name   string
		tries  int
		passes bool
		asked  time.Duration
		wait   time.Duration // 0: it has failed
	}{
		{"first", 1, true, 0, 10 * time.Second},
		{"second", 2, true, 0, time.Minute},
		{"third", 3, true, 0, 5 * time.Minute},
		{"fourth", 4, true, 0, 30 * time.Minute},
		{"fifth", 5, true, 0, 0},
		{"for good", 1, false, 0, 0},
		{"asked for more", 1, true, 40 * time.Second, 40 * time.Second},
		{"asked for less", 2, true, time.Second, time.Minute},
		{"asked for a day", 1, true, 24 * time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			f := jobs.Fetch{State: jobs.FetchRuns, Tries: c.tries, Total: 100, Bytes: 7}
			is.Equal(f.Reserved(), int64(100))
			f.Failed("why", c.passes, c.asked, now, steady)
			is.Equal(f.Problem, "why")
			is.Equal(f.Reserved(), int64(0))
			is.Equal(f.Over(), c.wait == 0)
			if c.wait == 0 {
				is.Equal(f.State, jobs.FetchFailed)
				is.Equal(f.Ended, now)
				is.True(f.Due.IsZero())
				f.Again(steady)
				is.Equal(f, jobs.Fetch{State: jobs.FetchWaits, Due: steady, Total: -1})
				return
			}
			is.Equal(f.State, jobs.FetchWaits)
			is.Equal(f.Due, steady.Add(c.wait))
			is.True(f.Ended.IsZero())
		})
	}
}
