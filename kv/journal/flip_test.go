package journal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// worn is a journal of several generations with slack of every kind after the
// newest record of a log that another continues; no record there was
// acknowledged. before is its state one record ago.
func worn(t *testing.T) (m *memory, now, before book) {
	t.Helper()
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(1, 40))
	m = newMemory(rnd)
	j, b := opened(t, m)
	var r Record
	put := func(n int) {
		for range n {
			before = b
			b = b.with(&r, someOps(rnd))
			is.NoErr(j.Append(&r, b.State))
		}
	}
	for i := range 4 {
		put(5)
		if i == 2 {
			log := m.seen[j.name]
			log.data = append(log.data, someBytes(rnd, 50)...)
			j, b = opened(t, m)
			put(5)
		}
		is.NoErr(j.Begin(b.State))
		is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
		if i == 1 { // some logs are compressed and others are not
			is.NoErr(compress(j, b.State))
		}
	}
	put(3)
	is.NoErr(j.Begin(b.State)) // its snapshot does not exist yet
	put(3)
	is.True(holds(t, m).is(b))
	return m, b, before
}

// A wrong byte never leads to another state. It is not needed, or an error
// names the file. Only in the last record it may look like the result of a
// crash. Check finds each wrong byte that belongs to the journal.
func TestFlippedBytes(t *testing.T) {
	m, now, before := worn(t)
	names := slices.Sorted(maps.Keys(withoutRecent(m.copied()).seen))
	newest := newestLog(m)
	flips, right, cut, refused := 0, 0, 0, 0
	for _, name := range names {
		marks, end := frames(t, m.seen[name].data)
		size := len(m.seen[name].data)
		var places []int
		for at := range headerSize {
			places = append(places, at)
		}
		for i, at := range marks {
			for n := range frameHead + stateSize + 1 {
				places = append(places, at+n)
			}
			next := end
			if i+1 < len(marks) {
				next = marks[i+1]
			}
			for range 10 {
				places = append(places, at+frameHead+m.rnd.IntN(next-at-frameHead))
			}
			places = append(places, next-1)
		}
		for at := end; at < size; at += 7 {
			places = append(places, at)
		}
		if !*long {
			m.rnd.Shuffle(len(places), func(i, k int) { places[i], places[k] = places[k], places[i] })
			places = places[:min(len(places), 40)]
		}
		for _, at := range places {
			if at >= size {
				continue
			}
			flips++
			c := withoutRecent(m.copied())
			c.seen[name].data[at] ^= 1 << m.rnd.IntN(8)
			last := name == newest && at >= marks[len(marks)-1]
			what := fmt.Sprintf("%s, byte %d of %d", name, at, size)

			j, err := New(c, format)
			var found error
			var got book
			if err == nil {
				found = problems(j)
				got, _, err = replay(j)
			} else {
				found = err
			}
			switch {
			case err != nil:
				refused++
				if !strings.Contains(err.Error(), name) {
					t.Fatalf("%s: the error does not say where: %v", what, err)
				}
			case got.is(now):
				right++
			case last && got.is(before):
				cut++
			default:
				t.Fatalf("%s: another state: %v in place of %v", what, got.State, now.State)
			}
			if slack := at >= end; !last && !slack && (found == nil || !strings.Contains(found.Error(), name)) {
				t.Fatalf("%s: not found by Check: %v", what, found)
			} else if slack && found != nil {
				t.Fatalf("%s: %v", what, found)
			}
		}
	}
	t.Logf("%d flips: %d not needed, %d in the last record, %d refused", flips, right, cut, refused)
	is := is.New(t)
	is.True(right > 100)
	is.True(cut > 3)
	is.True(refused > 50)
}

func newestLog(m *memory) string {
	name := ""
	for other := range m.seen {
		if strings.HasPrefix(other, logName) && other != RecentName {
			name = max(name, other)
		}
	}
	return name
}

// frames returns where the frames of a file begin and where the last ends.
func frames(t *testing.T, b []byte) (marks []int, end int) {
	t.Helper()
	r := &reader{file: bytes.NewReader(b), at: headerSize, size: int64(len(b))}
	for {
		at := int(r.at)
		if _, err := r.frame(); err != nil {
			return marks, at
		}
		marks = append(marks, at)
	}
}

// A missing file is not needed, or an error names it. One exception is the
// newest log: nothing can tell that it is missing until its snapshot exists.
func TestMissingFiles(t *testing.T) {
	is := is.New(t)
	m, now, _ := worn(t)
	names := slices.Sorted(maps.Keys(m.seen))
	refused := 0
	for _, name := range names {
		if name == newestLog(m) {
			continue
		}
		c := m.copied()
		delete(c.seen, name)
		j, err := New(c, format)
		is.NoErr(err)
		got, _, err := replay(j)
		if err == nil {
			is.True(got.is(now))
			continue
		}
		refused++
		is.True(errors.As(err, new(*Missing)))
		is.True(strings.Contains(err.Error(), name))
		is.True(errors.As(problems(j), new(*Missing)))
	}
	is.Equal(refused, 1) // the log of the newest snapshot

	// With its snapshot it is missed as well.
	j, b := opened(t, m)
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	name, _ := j.End()
	delete(m.seen, name)
	_, _, err := replay(j)
	var missing *Missing
	is.True(errors.As(err, &missing))
	is.Equal(missing.Name, name)

	// Without any snapshot the logs must go back to the beginning.
	for name := range m.seen {
		if strings.HasPrefix(name, snapName) {
			delete(m.seen, name)
		}
	}
	delete(m.seen, fileName(logName, 0))
	_, _, err = replay(j)
	is.True(errors.As(err, &missing))
}

// A snapshot outside of a folder is read like one in it, and no wrong byte is accepted.
func TestReadSnapshot(t *testing.T) {
	is := is.New(t)
	m, b, _ := worn(t)
	j, _ := opened(t, m)
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	file := m.seen[SnapshotName(b.Seq)].data
	read := func(file []byte, format uint32) (n int, err error) {
		at, err := ReadSnapshot(bytes.NewReader(file), int64(len(file)), b.Seq, format, func(ops []Op) error {
			n += len(ops)
			return nil
		})
		is.Equal(err == nil, at == b.State)
		return n, err
	}
	n, err := read(file, format)
	is.NoErr(err)
	is.True(n > 0)
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 1
		_, err := read(bad, format)
		is.True(IsDamage(err) || errors.As(err, new(*Newer)))
	}
	_, err = read(file[:len(file)-1], format)
	is.True(IsDamage(err))
	_, err = read(file, format-1)
	is.True(errors.As(err, new(*Newer)))
}
