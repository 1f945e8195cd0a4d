package ship_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/ship"
	"kist/kv/workcopy"
)

// What the operator of an encrypted store can make of its objects, without the key: a restore gives a state that there
// was, and says so if it is not the latest that it can know of. Only if the newest changes are gone, or all is as it
// was earlier, it says nothing.
func TestOperatorOfAnEncryptedStore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	over := func(to blobs.Remote) blobs.Remote { return encrypted(t, to) }
	p := pruningOver(t, 0, over)
	known := map[journal.State]bool{}
	commit := func() {
		p.clock.Add(time.Second)
		is.NoErr(tried(p.store))
		at, err := kv.State(p.store)
		is.NoErr(err)
		known[at] = true
	}
	for range 12 {
		commit()
	}
	p.snapshot()
	earlier := p.m.copied()
	for range 12 {
		commit()
	}
	is.NoErr(ship.Merge(t.Context(), p.remote(p.m)))
	p.snapshot()
	for range 3 {
		commit()
	}
	last, err := kv.State(p.store)
	is.NoErr(err)

	other := pruningOver(t, 0, over) // another instance, with the same key against all advice
	for range 30 {
		is.NoErr(tried(other.store))
	}
	other.snapshot()

	logs, snaps := p.m.names("sealed/log/"), p.m.names("sealed/snap/")
	newest := logs[len(logs)-1]
	single := func(n int) string { return fmt.Sprintf("sealed/log/%016x", n) }
	for _, c := range []struct {
		name      string
		unnoticed bool // a restore may take it for everything, and for a state that there was
		do        func(m *memory)
	}{
		{"two slots swapped", false, func(m *memory) {
			a, b := logs[len(logs)-2], newest
			m.objects[a], m.objects[b] = m.objects[b], m.objects[a]
		}},
		{"all slots moved on", false, func(m *memory) {
			for i := len(logs) - 1; i > 0; i-- {
				m.objects[logs[i]] = m.objects[logs[i-1]]
			}
		}},
		{"a slot as the next one", false, func(m *memory) { m.objects[single(200)] = m.objects[newest] }},
		{"a merged object under another range", false, func(m *memory) {
			for _, name := range logs {
				if strings.Contains(name, "-") {
					m.objects["sealed/log/0000000000000001-00000000000000ff"] = m.objects[name]
				}
			}
		}},
		{"snapshots swapped", false, func(m *memory) {
			m.objects[snaps[0]], m.objects[snaps[1]] = m.objects[snaps[1]], m.objects[snaps[0]]
		}},
		{"a snapshot as a later one", false, func(m *memory) {
			m.objects["sealed/snap/00000000000000ff"] = m.objects[snaps[1]]
		}},
		{"a slot as a snapshot", false, func(m *memory) { m.objects[snaps[1]] = m.objects[newest] }},
		{"a snapshot as meta", false, func(m *memory) { m.objects["meta"] = m.objects[snaps[1]] }},
		{"a mark of nothing", false, func(m *memory) {
			m.objects["sealed/from/00000000000000ff-00000000000000ff"] = []byte("kist\n")
		}},
		{"a mark that is empty", false, func(m *memory) {
			m.objects["sealed/from/00000000000000ff-00000000000000ff"] = []byte{}
		}},
		{"another object as a mark", false, func(m *memory) {
			m.objects["sealed/from/00000000000000ff-00000000000000ff"] = m.objects[newest]
		}},
		{"a mark of another instance", false, func(m *memory) {
			m.objects["sealed/from/00000000000000ff-00000000000000ff"] = other.m.objects["meta"]
		}},
		{"race keys", false, func(m *memory) {
			for i := range 100 {
				m.objects[fmt.Sprintf("sealed/race/%d", i)] = m.objects[newest]
			}
		}},
		{"names that are none", false, func(m *memory) {
			for _, name := range []string{"log/", "log/zz", "snap/", "from/-", "from/x", "blobs/ab/cd", "x", "log/0-1"} {
				m.objects["sealed/"+name] = []byte("x")
			}
		}},
		{"the newest slot is cut", false, func(m *memory) { m.objects[newest] = m.objects[newest][:70] }},
		{"the newest slot is longer", false, func(m *memory) { m.objects[newest] = append(m.objects[newest], 0) }},
		{"the slots of another instance", false, func(m *memory) {
			for _, name := range logs {
				if b := other.m.objects[name]; b != nil {
					m.objects[name] = b
				}
			}
		}},
		{"the next slot of another instance", false, func(m *memory) {
			names := other.m.names("sealed/log/")
			m.objects[names[len(names)-1]] = other.m.objects[names[len(names)-1]]
		}},
		{"meta of another instance", false, func(m *memory) { m.objects["meta"] = other.m.objects["meta"] }},
		{"the snapshot of another instance", false, func(m *memory) {
			for _, name := range other.m.names("sealed/snap/") {
				m.objects[name] = other.m.objects[name]
			}
		}},
		{"the newest slots are gone", true, func(m *memory) { delete(m.objects, newest) }},
		{"all as it was earlier", true, func(m *memory) { m.objects = earlier.copied().objects }},
	} {
		m := p.m.copied()
		c.do(m)
		got, err := rehearsed(t, p.remote(m))
		if err != nil {
			if !ship.IsDamage(err) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		silent := ship.Gives(got, nil) == "everything" && got.State != last
		if !known[got.State] && got.State != last || silent != c.unnoticed {
			t.Errorf("%s: %s, at %d of %d", c.name, ship.Gives(got, nil), got.State.Seq, last.Seq)
		}
	}
}

// ghost lists a mark that is not there.
type ghost struct{ *memory }

func (g ghost) After(ctx context.Context, prefix, after string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		if prefix == "sealed/from/" && !yield(blobs.Object{Name: "sealed/from/00000000000000ff-00000000000000ff"}, nil) {
			return
		}
		for o, err := range g.memory.After(ctx, prefix, after) {
			if !yield(o, err) {
				return
			}
		}
	}
}

// A mark that is damaged hides nothing, and the next removal of old history mends it. One that a writer has put is
// found beside those of others.
func TestMarksOfOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruningOver(t, time.Hour, func(to blobs.Remote) blobs.Remote { return encrypted(t, to) })
	for range 3 {
		p.pass(time.Hour)
		is.NoErr(p.prune())
	}
	marks := p.m.names("sealed/from/")
	is.Equal(len(marks), 1)
	at, err := kv.State(p.store)
	is.NoErr(err)
	for _, c := range []struct {
		name string
		do   func(m *memory)
		says string
	}{
		{"its own", func(*memory) {}, "everything"},
		{"a forged one beside it", func(m *memory) {
			m.objects["sealed/from/00000000000000ff-00000000000000ff"] = nil
		}, "everything"},
		{"a copy of it as a later one", func(m *memory) {
			m.objects["sealed/from/00000000000000ff-00000000000000ff"] = m.objects[marks[0]]
		}, "everything"},
		{"it is damaged", func(m *memory) { m.objects[marks[0]][60] ^= 1 }, "everything"},
	} {
		m := p.m.copied()
		c.do(m)
		got, err := rehearsed(t, p.remote(m))
		if err != nil || ship.Gives(got, nil) != c.says || got.State != at {
			t.Errorf("%s: %s", c.name, ship.Gives(got, err))
		}
	}

	got, err := rehearsed(t, p.remote(ghost{p.m.copied()}))
	is.NoErr(err)
	is.Equal(got.State, at)

	p.m.mu.Lock()
	p.m.objects[marks[0]][60] ^= 1
	p.m.mu.Unlock()
	p.pass(time.Hour)
	is.NoErr(p.prune())
	whole := 0
	_, err = ship.Check(t.Context(), p.remote(p.m), workcopy.Format, instanceOf(t, p.dir), func(error) { whole++ })
	is.NoErr(err)
	is.Equal(whole, 0)
	is.True(len(p.m.names("sealed/from/")) >= 1)
}

// The machine that wrote an encrypted store notices that all of it is as it was earlier: at its next start it puts
// there again what is missing, and while it runs, within a day.
func TestOperatorGoesBack(t *testing.T) {
	t.Parallel()
	over := func(to blobs.Remote) blobs.Remote { return encrypted(t, to) }
	for _, running := range []bool{false, true} {
		is := is.New(t)
		p := pruningOver(t, 0, over)
		ref := p.add(1)
		for range 5 {
			is.NoErr(tried(p.store))
		}
		earlier := p.m.copied()
		later := p.add(2)
		for range 5 {
			is.NoErr(tried(p.store))
		}
		hours := time.Now().Add(-2 * time.Hour) // so that it counts as sent
		is.NoErr(os.Chtimes(filepath.Join(p.dir, later.RemoteName()), hours, hours))
		if !running {
			p.close()
		}
		p.m.mu.Lock()
		p.m.objects, p.m.made = earlier.objects, earlier.made
		p.m.mu.Unlock()
		if !running {
			p.open()
		}
		is.NoErr(tried(p.store))
		is.NoErr(p.ship.Compare(t.Context(), p.contents()))
		is.NoErr(p.ship.Compare(t.Context(), p.contents())) // the first one puts a snapshot
		at, err := kv.State(p.store)
		is.NoErr(err)
		got, err := rehearsed(t, p.remote(p.m))
		is.NoErr(err)
		is.Equal(ship.Gives(got, nil), "everything")
		is.Equal(got.State, at)
		for _, r := range []blobs.Ref{ref, later} {
			_, err := p.remote(p.m).Head(t.Context(), r.RemoteName())
			is.NoErr(err)
		}
	}
}
