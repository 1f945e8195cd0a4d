package journal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
)

// generationsOf makes n generations of some records each. The last one has only
// a log.
func generationsOf(t *testing.T, m *memory, n int) (*Journal, book) {
	t.Helper()
	j, b := opened(t, m)
	clock := time.UnixMilli(1_700_000_000_000)
	j.now = func() time.Time { return clock }
	for range n - 1 {
		for range 3 {
			b = add(t, j, b, "key "+string(rune('a'+b.Seq%16)))
		}
		clock = clock.Add(time.Hour)
		is.New(t).NoErr(j.Begin(b.State))
		is.New(t).NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	}
	for range 3 {
		b = add(t, j, b, "key "+string(rune('a'+b.Seq%16)))
	}
	return j, b
}

// Check reports missing logs that Replay needs.
func TestCheckFindsMissing(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 6)))
	j, _ := generationsOf(t, m, 3)
	is.NoErr(problems(j))
	is.NoErr(m.Remove(fileName(logName, 6)))
	var missing *Missing
	is.True(errors.As(problems(j), &missing))
	is.Equal(missing.Name, fileName(logName, 6))

	m = newMemory(m.rnd)
	j, b := opened(t, m)
	b = add(t, j, b, "one")
	is.NoErr(j.Begin(b.State))
	is.NoErr(m.Remove(fileName(logName, 0)))
	is.True(errors.As(problems(j), &missing))
	is.True(strings.HasPrefix(missing.Name, snapName))
}

// An unreadable file is found like a damaged one, and the previous snapshot
// replaces a bad one.
func TestUnreadable(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 7)))
	_, b := generationsOf(t, m, 4)
	m.fail = func(step, name string) error {
		if step == "read" && (name == fileName(snapName, 9) || name == fileName(snapName, 3)) {
			return syscall.EIO
		}
		return nil
	}
	j, err := New(m, format)
	is.NoErr(err)
	got, done, err := replay(j)
	is.NoErr(err)
	is.True(got.is(b))
	is.Equal(done.Snapshot, uint64(6))
	is.Equal(len(done.Bad), 1)
	found := problems(j).Error()
	is.True(strings.Contains(found, fileName(snapName, 9)))
	is.True(strings.Contains(found, fileName(snapName, 3)))

	m.fail = func(step, name string) error {
		if step == "read" && name == fileName(logName, 9) {
			return syscall.EIO
		}
		return nil
	}
	j, err = New(m, format)
	is.NoErr(err)
	_, _, err = replay(j)
	is.True(errors.Is(err, syscall.EIO))
	is.True(strings.Contains(err.Error(), fileName(logName, 9)))
	is.True(strings.Contains(problems(j).Error(), fileName(logName, 9)))
}

// Later layouts are distinguished from damage, wherever they occur.
func TestCheckNewerLayout(t *testing.T) {
	is := is.New(t)
	for _, name := range []string{fileName(logName, 0), fileName(snapName, 3), fileName(logName, 6)} {
		m := newMemory(rand.New(rand.NewPCG(1, 8)))
		j, _ := generationsOf(t, m, 3)
		m.seen[name].data[11] = 77
		m.seen[name].data[headerSize-1]++ // a head with only one wrong number would be damaged
		err := problems(j)
		var newer *Newer
		is.True(errors.As(err, &newer))
		is.Equal(newer.Name, name)
		is.Equal(newer.Layout, uint32(77))
		_, err = New(m, format)
		is.True(errors.As(err, &newer))
	}
}

// Damage to files that no start needs is reported separately.
func TestCheckSuperseded(t *testing.T) {
	t.Parallel()
	for name, superseded := range map[string]bool{
		fileName(snapName, 3): true, fileName(snapName, 6): true, fileName(snapName, 9): false, fileName(logName, 3): true, fileName(logName, 9): false,
	} {
		is := is.New(t)
		m := newMemory(rand.New(rand.NewPCG(1, 18)))
		j, _ := generationsOf(t, m, 4)
		withoutRecent(m).seen[name].data[headerSize+20]++
		var all []error
		is.NoErr(j.Check(func(int64) {}, func(err error) { all = append(all, err) }))
		is.True(len(all) > 0)
		for _, err := range all {
			is.Equal(errors.As(err, new(*Superseded)), superseded)
			is.True(strings.Contains(err.Error(), name))
		}
	}
}

// A file of a known layout in which only the number of the layout is damaged
// counts as damaged, not as a later version.
func TestCheckDamagedLayout(t *testing.T) {
	t.Parallel()
	for n := uint32(plainLayout); n <= layout; n++ {
		is := is.New(t)
		head := header{n, format, State{}, 7}.append(nil, logMagic)
		_, err := parseHeader(head, logMagic)
		is.NoErr(err)
		head[11] = 77
		_, err = parseHeader(head, logMagic)
		is.True(errors.Is(err, errFrame))
	}
}

// The errors name the file and the problem.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"journal/log-1 is damaged at byte 7 (why)": &Damaged{Name: "log-1", At: 7, Why: "why"},
		"journal/log-1 is damaged at byte 7 (why); two records are lost": &Damaged{
			Name: "log-1", At: 7, Why: "why", Lost: "two records are lost",
		},
		"journal/log-1 is missing: it is needed":       &Missing{"log-1", "it is needed"},
		"journal/log-1 is a symbolic link, not a file": &Irregular{"log-1", fs.ModeSymlink},
		"journal/log-1 is a directory, not a file":     &Irregular{"log-1", fs.ModeDir},
		"journal/log-1 is not a regular file":          &Irregular{"log-1", fs.ModeSocket},
	} {
		is.New(t).Equal(err.Error(), want)
	}
}

// Files says how much a snapshot holds, compressed or not.
func TestFilesSayTheirSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 17)))
	j, b := opened(t, m)
	for range 3 {
		b = add(t, j, b, "key "+string(rune('a'+b.Seq)))
	}
	is.NoErr(j.Begin(b.State))
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	parts, err := j.Files()
	is.NoErr(err)
	raw := 0
	for k, v := range b.entries {
		raw += len(k) - 1 + len(v) + opOverhead // the key begins with its bucket
	}
	is.Equal(parts[0].Raw, int64(raw))

	is.NoErr(compress(j, b.State))
	delete(m.seen, fileName(snapName, b.Seq))
	parts, err = j.Files()
	is.NoErr(err)
	is.Equal(parts[0].Name, fileName(logName, 0)) // it is compressed
	is.Equal(parts[0].Raw, packedShare*parts[0].Size)
	is.Equal(parts[1].Raw, parts[1].Size)
}

// A snapshot is whole only if nothing follows its end.
func TestSnapshotWithMoreBehind(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 83)))
	j, _ := generationsOf(t, m, 2)
	is.NoErr(problems(j))
	snap := m.seen[fileName(snapName, 3)]
	snap.data = append(snap.data, 0)
	var damage *Damaged
	is.True(errors.As(problems(j), &damage))
	is.Equal(damage.Name, fileName(snapName, 3))
	is.True(strings.Contains(damage.Why, "it does not end where it should"))
}

// Files returns what a copy needs: no unreadable snapshot, and all logs from
// the readable one on.
func TestFilesOfDamaged(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 9)))
	j, b := generationsOf(t, m, 4)
	parts, err := j.Files()
	is.NoErr(err)
	is.Equal(parts[0].Name, fileName(snapName, 9))
	is.Equal(len(parts), 2)
	is.True(holds(t, copyOf(t, j, parts)).is(b))

	m.seen[fileName(snapName, 9)].data[headerSize+20]++
	parts, err = j.Files()
	is.NoErr(err)
	is.Equal(parts[0].Name, fileName(snapName, 6))
	is.True(holds(t, copyOf(t, j, parts)).is(b))

	is.NoErr(m.Remove(fileName(logName, 6)))
	_, err = j.Files()
	is.True(errors.As(err, new(*Missing)))

	m = newMemory(m.rnd)
	j, _ = generationsOf(t, m, 4)
	parts, err = j.Files()
	is.NoErr(err)
	m.seen[fileName(logName, 9)].data = m.seen[fileName(logName, 9)].data[:50]
	err = j.Copy(io.Discard, parts[1])
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
}

// copyOf is a folder with the output of Copy for the parts.
func copyOf(t *testing.T, j *Journal, parts []Part) *memory {
	t.Helper()
	m := newMemory(nil)
	for _, p := range parts {
		var b bytes.Buffer
		is.New(t).NoErr(j.Copy(&b, p))
		is.New(t).Equal(int64(b.Len()), p.Size)
		m.seen[p.Name] = &inode{data: b.Bytes()}
	}
	return m
}

// An error of the receiver of a journal's content belongs to the receiver, and
// says nothing about the file that is being read.
func TestReplayToFullDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 80)))
	j, b := opened(t, m)
	b = add(t, j, b, "one")
	full := func([]Op) error { return syscall.ENOSPC }
	_, err := j.Replay(func() error { return nil }, full)
	is.Equal(err.Error(), syscall.ENOSPC.Error())
	is.True(errors.Is(err, syscall.ENOSPC) && !IsDamage(err))
	is.NoErr(j.Begin(b.State))
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	_, err = j.Replay(func() error { return nil }, full)
	is.True(errors.Is(err, syscall.ENOSPC) && !IsDamage(err))
}
