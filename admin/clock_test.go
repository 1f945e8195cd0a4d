package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/tables"
)

// A store that a clock of the far future has spoiled is found by doctor and
// repaired by it, whether the server runs or not.
func TestResetClock(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"running": true, "stopped": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := newPlace(t)
			p.ann()
			store, err := kv.Open(p.data(), kv.Options{Schema: tables.All, Now: func() time.Time { return time.Date(2099, 5, 6, 0, 0, 0, 0, time.UTC) }})
			is.NoErr(err)
			is.NoErr(store.Close())
			s := p.serve()
			r := s.run("", "doctor")
			is.True(strings.Contains(r.out, "problem  clock: the store has seen a time "))
			is.True(strings.Contains(r.out, "kist doctor --reset-clock"))
			if !running {
				s.stop()
			}
			out := s.must("doctor", "--reset-clock")
			is.True(strings.Contains(out, "The store's time is "+time.Now().Format("2006-01-02")))
			is.True(strings.Contains(out, "it was 2099-05-06"))
			if !running {
				s = p.serve()
			}
			is.True(strings.Contains(s.run("", "doctor").out, "ok       clock: "))
		})
	}
}
