package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
)

// A Tail that is read at random times, while logs begin, are compressed and are cut
// back after failures, passes exactly the acknowledged records as Append wrote them.
func TestTail(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			rnd := rand.New(rand.NewPCG(seed, 90))
			m := newMemory(rnd)
			j, b := opened(t, m)
			tail, err := j.Tail(b.State)
			is.NoErr(err)
			fail := failures{}
			m.fail = fail.next
			var r Record
			var wrote, read [][]byte
			states := []State{b.State}
			take := func(f Framed) (bool, error) { read = append(read, bytes.Clone(f.Frame)); return rnd.IntN(50) > 0, nil }
			for range 200 {
				switch rnd.IntN(12) {
				case 0:
					_ = j.Begin(b.State)
				case 1:
					_ = compress(j, b.State)
				case 2:
					fail["write"], fail["sync"], fail["truncate"] = rnd.IntN(2), rnd.IntN(2), rnd.IntN(2)
				case 3:
					is.NoErr(tail.Read(b.Seq, take))
				case 4: // another one, from a state in the past
					is.NoErr(tail.Close())
					from := states[rnd.IntN(len(read)+1)]
					tail, err = j.Tail(from)
					is.NoErr(err)
					read = read[:from.Seq]
				default:
					ops := someOps(rnd)
					next := b.with(&r, ops)
					if j.Append(&r, next.State) == nil {
						b = next
						wrote = append(wrote, bytes.Clone(r.buf))
						states = append(states, b.State)
					}
				}
			}
			for tail.at != b.State {
				is.NoErr(tail.Read(b.Seq, take))
			}
			is.Equal(len(read), len(wrote))
			is.True(slices.EqualFunc(read, wrote, bytes.Equal))
			is.NoErr(tail.Close())

			all := bytes.Join(wrote, nil)
			at, err := Frames(all, State{}, func(Framed) (bool, error) { return true, nil })
			is.NoErr(err)
			is.Equal(at, b.State)
			for range 20 { // any flipped bit is found
				bad := bytes.Clone(all)
				bad[rnd.IntN(len(bad))] ^= 1 << rnd.IntN(8)
				at, err := Frames(bad, State{}, func(Framed) (bool, error) { return true, nil })
				is.True(err != nil && at.Seq < b.Seq)
			}
			half := len(wrote) / 2
			at, err = Frames(all, State{}, func(f Framed) (bool, error) { return f.To.Seq < uint64(half), nil })
			is.NoErr(err)
			is.Equal(at, states[half])

			name, head := LogHead(State{}, format, time.UnixMilli(1))
			copied := newMemory(rnd)
			copied.seen[name] = &inode{data: append(head, all...)}
			is.True(holds(t, copied).is(b)) // a log of these frames is a journal
		})
	}
}

// A Tail says so if its records are gone, or were never there.
func TestTailOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 91)))
	j, b := generationsOf(t, m, 3)
	other := b.State
	other.Digest++
	_, err := j.Tail(other)
	is.True(errors.Is(err, ErrOther))
	delete(m.seen, fileName(logName, 0))
	_, err = j.Tail(State{})
	is.True(errors.As(err, new(*Missing)))
	tail, err := j.Tail(b.State) // the control
	is.NoErr(err)
	is.NoErr(tail.Close())
}

// Prune keeps the records that KeepFrom names, unless they take too much space.
func TestKeepFrom(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from uint64
		free int64
		gone bool // the log 0
	}{
		"not called":     {1 << 62, 1 << 40, true},
		"the first":      {0, 1 << 40, false},
		"within the log": {1, 1 << 40, false},
		"the last":       {40, 1 << 40, true},
		"no space":       {0, 1 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMemory(rand.New(rand.NewPCG(1, 92)))
			j, _ := generationsOf(t, m, 8)
			j.OnDisk(func() (Space, error) { return Space{Free: test.free}, nil })
			j.SetClock(func() time.Time { return time.Now().Add(1000 * time.Hour) })
			if test.from < 1<<62 {
				j.KeepFrom(test.from)
			}
			is.NoErr(j.Prune())
			is.Equal(m.seen[fileName(logName, 0)] == nil, test.gone)
			tail, err := j.Tail(State{})
			is.Equal(err != nil, test.gone)
			if err == nil {
				is.NoErr(tail.Close())
			}
		})
	}
}

// OpenNewest skips damaged snapshots.
func TestOpenNewest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 93)))
	j, b := generationsOf(t, m, 3)
	newest := slices.Max(slices.Collect(func(yield func(string) bool) {
		for name := range m.seen {
			if len(name) == len(snapName)+16 && name[:len(snapName)] == snapName {
				yield(name)
			}
		}
	}))
	s, err := j.Newest(0)
	is.NoErr(err)
	is.Equal(SnapshotName(s.Seq), newest)
	_, err = j.Newest(s.Seq)
	is.True(errors.Is(err, fs.ErrNotExist))
	m.seen[newest].data[100] ^= 1
	older, err := j.Newest(0)
	is.NoErr(err)
	is.True(older.Seq < s.Seq)
	is.True(b.Seq > 0)
}

// What follows the last acknowledged record of a log is never passed: neither a record
// that could not be retracted, nor one that a power cut has torn.
func TestTailAtTheEndOfALog(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(is *is.I, m *memory, j *Journal, b book) (*Journal, book){
		"retracted": func(is *is.I, m *memory, j *Journal, b book) (*Journal, book) {
			fail := failures{"sync": 1, "truncate": 1}
			m.fail = fail.next
			_, err := try(j, b, "retracted")
			is.True(err != nil)
			is.Equal(fail["truncate"], 0)
			return j, b
		},
		"torn": func(is *is.I, m *memory, j *Journal, b book) (*Journal, book) {
			is.NoErr(j.Close())
			f := m.seen[fileName(logName, 0)]
			f.data = append(f.data, "a torn record"...)
			next, err := New(m, format)
			is.NoErr(err)
			next.OnDisk(noRoom)
			_, done, err := replay(next)
			is.NoErr(err)
			is.True(done.Cut > 0)
			return next, b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMemory(rand.New(rand.NewPCG(1, 94)))
			j, b := opened(t, m)
			j.OnDisk(noRoom)
			var states []State
			for _, text := range []string{"one", "two"} {
				b = add(t, j, b, text)
				states = append(states, b.State)
			}
			before, err := j.Tail(State{})
			is.NoErr(err)
			is.NoErr(before.Read(b.Seq, func(Framed) (bool, error) { return true, nil }))
			j, b = harm(is, m, j, b)
			is.NoErr(j.Begin(b.State))
			for _, text := range []string{"three", "four"} {
				b = add(t, j, b, text)
				states = append(states, b.State)
			}
			whole, err := j.Tail(State{})
			is.NoErr(err)
			for tail, want := range map[*Tail][]State{whole: states, before: states[2:]} {
				var got []State
				is.NoErr(tail.Read(b.Seq, func(f Framed) (bool, error) { got = append(got, f.To); return true, nil }))
				is.Equal(got, want)
				is.NoErr(tail.Close())
			}
			delete(m.seen, fileName(logName, 2))
			tail, err := j.Tail(State{})
			is.NoErr(err)
			is.True(tail.Read(b.Seq, func(Framed) (bool, error) { return true, nil }) != nil)
		})
	}
}
