package journal

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/matryer/is"
)

// changed is a journal whose data changed its format after the first generation, with n
// generations after that, an hour apart. before is the state at the change.
func changed(t *testing.T, m *memory, n int) (j *Journal, before, now book) {
	t.Helper()
	is := is.New(t)
	j, b := opened(t, m)
	clock := time.UnixMilli(1_700_000_000_000)
	j.now = func() time.Time { return clock }
	for range 3 {
		b = add(t, j, b, "old "+string(rune('a'+b.Seq)))
	}
	before = b
	j.files.format++
	is.NoErr(j.Begin(b.State))
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	for range n {
		for range 3 {
			b = add(t, j, b, "new "+string(rune('a'+b.Seq%16)))
		}
		clock = clock.Add(time.Hour)
		is.NoErr(j.Begin(b.State))
		is.NoErr(j.Snapshot(t.Context(), b.State, format+1, b.all()))
	}
	return j, before, add(t, j, b, "last")
}

// The state before a change of format stays for FormerKeep, beyond all other generations, and
// goes earlier only if the disk is short of space.
func TestPruneKeepsFormer(t *testing.T) {
	t.Parallel()
	const g = 1 << 30
	for name, row := range map[string]struct {
		after time.Duration
		space Space
		kept  bool
	}{
		"young":                {time.Hour, Space{100 * g, g}, true},
		"older than the rest":  {80 * 24 * time.Hour, Space{100 * g, g}, true},
		"as old as it may get": {FormerKeep, Space{100 * g, g}, false},
		"the disk is short":    {time.Hour, Space{g - 1, g}, false},
		"just the reserve":     {80 * 24 * time.Hour, Space{g, g}, true},
		"the clock went back":  {-1000 * time.Hour, Space{100 * g, g}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMemory(rand.New(rand.NewPCG(1, 91)))
			j, before, now := changed(t, m, 5)
			f, err := j.Former()
			is.NoErr(err)
			is.Equal(f.State, before.State)
			is.Equal(f.Format, uint32(format))
			clock := f.At.Add(row.after)
			j.now = func() time.Time { return clock }
			j.OnDisk(func() (Space, error) { return row.space, nil })
			is.NoErr(j.Prune())
			is.NoErr(j.Prune())
			_, err = j.Former()
			is.Equal(errors.Is(err, fs.ErrNotExist), !row.kept)
			if err == nil {
				is.Equal(f.Until(), f.At.Add(FormerKeep))
			}

			// It counts neither for a start nor for a check, a survey or the time that copies have.
			again, err := New(m, j.files.format)
			is.NoErr(err)
			got, _, err := replay(again)
			is.NoErr(err)
			is.True(got.is(now))
			is.NoErr(problems(again))
			s, err := again.Survey(0, func(int64) {})
			is.NoErr(err)
			is.Equal(s.Harm, nil)
			listed, err := j.files.list()
			is.NoErr(err)
			for _, one := range j.files.generations(listed) {
				is.True(one.seq >= listed.logs[0])
			}
		})
	}
}

// A crash in the middle of Prune leaves the former state, or all is as it was.
func TestPruneKeepsFormerHalf(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 92)))
	j, before, now := changed(t, m, 6)
	clock := j.now().Add(1000 * time.Hour)
	j.now = func() time.Time { return clock }
	looked := 0
	m.after = func() {
		left := m.cut(m.rnd)
		looked++
		again, err := New(left, j.files.format)
		is.NoErr(err)
		got, _, err := replay(again)
		is.NoErr(err)
		is.True(got.is(now))
		f, err := again.Former()
		is.NoErr(err)
		is.Equal(f.State, before.State)
	}
	is.NoErr(j.Prune())
	is.True(looked > 6)
}

// Without newer snapshots that are whole, the former state is not taken for the present one.
func TestFormerIsNotThePresent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 93)))
	j, _, _ := changed(t, m, 4)
	clock := j.now().Add(1000 * time.Hour)
	j.now = func() time.Time { return clock }
	is.NoErr(j.Prune())
	g, err := j.files.list()
	is.NoErr(err)
	is.True(g.apart(g.snaps[0]))
	for _, seq := range g.snaps[1:] {
		m.seen[fileName(snapName, seq)].data[headerSize+frameHead+3]++
	}
	again, err := New(m, j.files.format)
	is.NoErr(err)
	_, _, err = replay(again)
	is.True(IsDamage(err))
	s, err := again.Survey(0, func(int64) {})
	is.NoErr(err)
	is.True(len(s.Harm) > 0)
}

// A copy of the former state is a journal that a program of the former format continues. A
// damaged one is refused.
func TestCopyFormer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 94)))
	j, before, _ := changed(t, m, 5)
	f, err := j.Former()
	is.NoErr(err)
	to := newMemory(rand.New(rand.NewPCG(1, 95)))
	is.NoErr(j.copyFormer(f, to))
	old, err := New(to, format)
	is.NoErr(err)
	b, _, err := replay(old)
	is.NoErr(err)
	is.True(b.is(before))
	is.NoErr(old.Begin(b.State))
	b = add(t, old, b, "more")
	is.NoErr(old.Close())
	is.True(holds(t, to).is(b))

	m.seen[f.Name].data[headerSize+frameHead+3]++
	is.True(IsDamage(j.copyFormer(f, newMemory(rand.New(rand.NewPCG(1, 96))))))
}

// There is no former state in a journal that has had one format only, or whose newest log has an
// older one: what it has is the present then.
func TestNoFormer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 97)))
	j, _ := generationsOf(t, m, 4)
	_, err := j.Former()
	is.True(errors.Is(err, fs.ErrNotExist))
	newer, err := New(m, format+1)
	is.NoErr(err)
	_, err = newer.Former()
	is.True(errors.Is(err, fs.ErrNotExist))
	none, err := New(newMemory(m.rnd), format)
	is.NoErr(err)
	_, err = none.Former()
	is.True(errors.Is(err, fs.ErrNotExist))
}
