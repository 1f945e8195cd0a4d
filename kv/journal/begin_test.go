package journal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

const format = 3 // of the data in these tests

// opened returns a journal in the folder that was replayed and is in use.
func opened(t *testing.T, f Folder) (*Journal, book) {
	t.Helper()
	is := is.New(t)
	j, err := New(f, format)
	is.NoErr(err)
	b, _, err := replay(j)
	is.NoErr(err)
	is.NoErr(j.Begin(b.State))
	return j, b
}

// holds returns the content of the folder.
func holds(t *testing.T, f Folder) book {
	t.Helper()
	is := is.New(t)
	j, err := New(f, format)
	is.NoErr(err)
	b, _, err := replay(j)
	is.NoErr(err)
	is.NoErr(problems(j))
	return b
}

// add appends a record that sets a key.
func add(t *testing.T, j *Journal, b book, key string) book {
	t.Helper()
	next, err := try(j, b, key)
	is.New(t).NoErr(err)
	return next
}

func try(j *Journal, b book, key string) (book, error) {
	var r Record
	next := b.with(&r, []Op{{1, []byte(key), []byte("value of " + key)}})
	return next, j.Append(&r, next.State)
}

// A process that dies in Append may leave a record that is readable and not on
// stable storage. Later records must not be lost with it, whether its sync did
// not begin or failed.
func TestRecordReadAfterCrashIsKept(t *testing.T) {
	for _, cause := range []error{errGone, syscall.EIO} {
		for seed := range uint64(20) {
			is := is.New(t)
			rnd := rand.New(rand.NewPCG(seed, 2))
			m := newMemory(rnd)
			j, b := opened(t, m)
			b = add(t, j, b, "one")
			m.fail = failing(cause, "sync", "truncate")
			_, err := try(j, b, "two")
			is.True(errors.Is(err, cause))
			m.fail = nil

			j, b = opened(t, m)
			is.Equal(b.Seq, uint64(2))
			b = add(t, j, b, "three")
			is.True(holds(t, m.cut(rnd)).is(b))
		}
	}
}

// errGone is the outcome of steps after the end of a process.
var errGone = errors.New("the process is gone")

// failing makes some kinds of steps fail.
func failing(err error, steps ...string) func(string, string) error {
	return func(step, _ string) error {
		if slices.Contains(steps, step) {
			return err
		}
		return nil
	}
}

// Begin may fail when its log already exists. Nothing may be written to the old
// log after that, because Replay continues where the new one begins.
func TestBeginFailsHalfWay(t *testing.T) {
	for _, step := range []string{"fill", "sync new", "link", "sync folder", "open"} {
		t.Run(step, func(t *testing.T) {
			is := is.New(t)
			rnd := rand.New(rand.NewPCG(1, 3))
			m := newMemory(rnd)
			j, b := opened(t, m)
			b = add(t, j, b, "one")
			m.fail = failing(syscall.EMFILE, step)
			is.True(errors.Is(j.Begin(b.State), syscall.EMFILE))
			next, err := try(j, b, "two")
			if there := m.seen[fileName(logName, b.Seq)] != nil; there {
				is.True(errors.Is(err, syscall.EMFILE))
			} else {
				is.NoErr(err) // the previous log continues
				b = next
			}
			is.True(holds(t, m.copied()).is(b))
			m.fail = failing(syscall.EMFILE, "sync folder", "list")
			if next, err := try(j, b, "three"); err == nil {
				b = next
			}
			m.fail = nil
			is.True(holds(t, m.copied()).is(b))
			for range 10 {
				b = add(t, j, b, "four")
				is.True(holds(t, m.copied()).is(b))
				is.True(holds(t, m.cut(rnd)).is(b))
			}
			is.NoErr(j.Begin(b.State))
			b = add(t, j, b, "five")
			is.True(holds(t, m.cut(rnd)).is(b))
		})
	}
}

// A log without records whose head has an older format is replaced: new records
// have the present format.
func TestBeginInNewerFormat(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 4)))
	j, b := opened(t, m)
	name, size := j.End()
	is.NoErr(j.Close())
	j, err := New(m, format+1)
	is.NoErr(err)
	is.NoErr(j.Resume(b.State, name, size))
	is.NoErr(j.Begin(b.State))
	add(t, j, b, "one")
	_, err = New(m, format)
	var newer *Newer
	is.True(errors.As(err, &newer))
	is.Equal(newer.Name, name)
}
