package journal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// failures makes each kind of step fail a planned number of times.
type failures map[string]int

func (f failures) next(step, _ string) error {
	if f[step] == 0 {
		return nil
	}
	f[step]--
	if step == "write" {
		return syscall.ENOSPC
	}
	return syscall.EIO
}

// A failed Append has not happened, and the next one works when the disk does.
// Nothing else is written until its bytes are cut off.
func TestAppendFails(t *testing.T) {
	for name, test := range map[string]struct {
		fail  failures
		tries int // that fail
	}{
		"write":                     {failures{"write": 1}, 1},
		"write twice":               {failures{"write": 2}, 2},
		"sync":                      {failures{"sync": 1}, 1},
		"write and truncate":        {failures{"write": 1, "truncate": 1}, 1},
		"truncate for long":         {failures{"write": 1, "truncate": 5}, 5},
		"sync and truncate":         {failures{"sync": 1, "truncate": 3}, 3},
		"sync, and behind truncate": {failures{"sync": 3}, 2},
		"everything":                {failures{"write": 2, "sync": 4, "truncate": 3}, 8},
	} {
		for _, recent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, recent %v", name, recent), func(t *testing.T) {
				appendFails(t, maps.Clone(test.fail), test.tries, recent)
			})
		}
	}
}

func appendFails(t *testing.T, fail failures, tries int, recent bool) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 50)))
	j, b := opened(t, m)
	if !recent {
		j.OnDisk(noRoom)
	}
	b = add(t, j, b, "one")
	is.Equal(j.recent != nil, recent)
	_, size := j.End()
	log, before := j.name, maps.Clone(fail)
	m.fail = fail.next
	failed := 0
	for {
		next, err := try(j, b, "two")
		if err == nil {
			b = next
			break
		}
		failed++
		name, end := j.End()
		want := size
		if name != log {
			want = headerSize
		}
		is.Equal(end, want)
		is.True(errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EIO))
		for range 10 { // at most the failed record exists
			is.True(holds(t, m.cut(m.rnd)).Seq-b.Seq <= 1)
		}
		if !j.dirty {
			is.True(holds(t, m.cut(m.rnd)).is(b))
			is.Equal(int64(len(m.seen[j.name].data)), want)
		}
	}
	is.Equal(failed, tries)
	if fail["sync"] < before["sync"] && !recent { // nothing was added to the log that failed
		is.True(j.name != log)
		is.Equal(int64(len(m.seen[log].data)), size)
	} else {
		is.Equal(j.name, log)
	}
	for range 10 {
		is.True(holds(t, m.cut(m.rnd)).is(b))
	}
	b = add(t, j, b, "three")
	is.True(holds(t, m.cut(m.rnd)).is(b))
}

// If a sync fails before the log has a record, another log of the same name
// follows. If that fails again, yet another one follows.
func TestSyncFailsAgain(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 54)))
	j, b := opened(t, m)
	j.OnDisk(noRoom)
	m.fail = failures{"sync": 6}.next
	first := j.log
	for {
		next, err := try(j, b, "one")
		if err == nil {
			b = next
			break
		}
		is.True(errors.Is(err, syscall.EIO))
	}
	is.True(j.log != first)
	for range 10 {
		is.True(holds(t, m.cut(m.rnd)).is(b))
	}
	m.fail = failures{"sync": 1, "sync new": 2, "link": 1}.next
	tries := 0
	for before := b; b.is(before); tries++ {
		if next, err := try(j, b, "two"); err == nil {
			b = next
		}
		left := holds(t, m.cut(m.rnd))
		is.True(left.is(b) || left.is(before))
	}
	is.Equal(tries, 5)
	b = add(t, j, b, "three")
	is.True(holds(t, m.cut(m.rnd)).is(b))
}

// A long record for which the space is too small leaves no bytes.
func TestAppendWithoutRoom(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 51)))
	j, b := opened(t, m)
	b = add(t, j, b, "one")
	_, size := j.End()
	parts := 0
	m.fail = func(step, _ string) error {
		if step == "write" {
			parts++
			if parts == 5 {
				return syscall.ENOSPC
			}
		}
		return nil
	}
	var r Record
	next := b.with(&r, []Op{{1, []byte("long"), make([]byte, 50_000)}})
	is.True(errors.Is(j.Append(&r, next.State), syscall.ENOSPC))
	is.Equal(int64(len(m.seen[j.name].data)), size)
	is.True(holds(t, m.cut(m.rnd)).is(b))

	is.NoErr(j.Append(&r, next.State)) // the same record again
	is.True(holds(t, m.cut(m.rnd)).is(next))
}

// Resume continues at a clean stop and nowhere else.
func TestResume(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 53)))
	j, b := opened(t, m)
	b = add(t, j, b, "one")
	name, size := j.End()
	is.NoErr(j.Close())
	resume := func(at State, name string, size int64) (*Journal, error) {
		j, err := New(m, format)
		is.NoErr(err)
		return j, j.Resume(at, name, size)
	}
	for _, test := range []struct {
		at   State
		name string
		size int64
	}{{b.State, fileName(logName, 1), size}, {b.State, name, size + 1}, {b.State, name, size - 1}} {
		_, err := resume(test.at, test.name, test.size)
		is.True(errors.Is(err, ErrOther))
	}
	j, err := resume(b.State, name, size)
	is.NoErr(err)
	b = add(t, j, b, "two")
	is.True(holds(t, m.cut(m.rnd)).is(b))
	is.NoErr(j.Begin(b.State))
	_, err = resume(b.State, name, size)
	is.True(errors.Is(err, ErrOther))
}
