package record_test

import (
	"testing"
	"time"

	"kist/kv/record"
)

func TestIn(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		-time.Second:                  "in 1 second",
		0:                             "in 1 second",
		time.Millisecond:              "in 1 second",
		time.Second:                   "in 1 second",
		time.Second + 1:               "in 2 seconds",
		89 * time.Second:              "in 89 seconds",
		90 * time.Second:              "in 2 minutes",
		120 * time.Second:             "in 2 minutes",
		121 * time.Second:             "in 3 minutes",
		90*time.Minute - time.Second:  "in 90 minutes",
		90 * time.Minute:              "in 2 hours",
		2 * time.Hour:                 "in 2 hours",
		2*time.Hour + time.Second:     "in 3 hours",
		14*24*time.Hour - time.Second: "in 336 hours",
	} {
		if got := record.In(wait); got != want {
			t.Errorf("%v: %q, want %q", wait, got, want)
		}
	}
}
