package allowance

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// An allowance drains evenly, is refused at its limit, and lets safer changes go an eighth beyond it.
func TestAllowance(t *testing.T) {
	t.Parallel()
	start := time.Unix(1e9, 0)
	ann, bob := record.ID{1}, record.ID{2}
	for _, row := range []struct {
		name       string
		bytes      []int // a minute apart
		after      time.Duration
		wait, safe time.Duration
	}{
		{"nothing", nil, 0, 0, 0},
		{"below", []int{3599}, 0, 0, 0},
		{"at the limit", []int{3600}, 0, time.Second, 0},
		{"a second later", []int{3600}, time.Second, 0, 0},
		{"above", []int{3700}, 0, 100 * time.Second, 0},
		{"an eighth above", []int{4050}, 0, 450 * time.Second, 450 * time.Second},
		{"drained", []int{4050}, 450*time.Second + time.Millisecond, 0, 0},
		{"drained to nothing", []int{3600, 0, 3599}, 2*time.Hour + 120*time.Second, 0, 0},
		{"several", []int{2000, 2000}, 60 * time.Second, 340 * time.Second, 0},
		{"the clock was set back", []int{3700}, -time.Hour, 100 * time.Second, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := Allowance{PerHour: 3600}
			for i, n := range row.bytes {
				a.Add(ann, n, start.Add(time.Duration(i)*time.Minute))
			}
			now := start.Add(row.after)
			is.Equal(a.Wait(ann, now, false).Round(time.Second), row.wait)
			is.Equal(a.Wait(ann, now, true).Round(time.Second), row.safe)
			is.Equal(a.Wait(bob, now, false), time.Duration(0))
			is.Equal(a.Wait(Senders(ann), now, false), time.Duration(0))
		})
	}
}

// An allowance of nothing is no limit.
func TestNoAllowance(t *testing.T) {
	t.Parallel()
	a, ann := Allowance{}, record.ID{1}
	a.Add(ann, 1<<40, time.Unix(1e9, 0))
	is.New(t).Equal(a.Wait(ann, time.Unix(1e9, 0), false), time.Duration(0))
}

// The payer for senders is another one for each owner, and no owner.
func TestSenders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ann, bob := record.ID{1}, record.ID{2}
	is.True(Senders(ann) != ann)
	is.True(Senders(ann) != Senders(bob))
	is.Equal(Senders(ann), Senders(ann))
}
