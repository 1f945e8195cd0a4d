package ship_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/ship"
	"kist/kv/workcopy"
)

// harmed calls fn with copies of a remote in which one object is missing or damaged.
func harmed(m *memory, names []string, fn func(what string, bad *memory)) {
	for _, name := range names {
		gone := m.copied()
		delete(gone.objects, name)
		fn(name+" is gone", gone)
		for _, at := range []int{0, 9, 20, 60, len(m.objects[name]) / 2, len(m.objects[name]) - 1} {
			if at >= len(m.objects[name]) {
				continue
			}
			flipped := m.copied()
			flipped.objects[name][at] ^= 4
			fn(fmt.Sprintf("%s has another byte %d", name, at), flipped)
		}
	}
}

// rehearsed is what ship.Rehearse says without a caller.
func rehearsed(t *testing.T, m blobs.Remote) (*ship.Fetched, error) {
	return ship.Rehearse(t.Context(), m, workcopy.Format, func() error {
		return nil
	}, func([]journal.Op) error { return nil })
}

// Whatever object is missing or damaged, a restore gives a state that there was, and Rehearse
// says the same as the restore. Only the newest slot can be missing unnoticed.
func TestEachObjectHarmed(t *testing.T) {
	t.Parallel()
	inEachStore(t, eachObjectHarmed)
}

func eachObjectHarmed(t *testing.T, in string, over func(blobs.Remote) blobs.Remote) {
	is := is.New(t)
	p := pruningOver(t, 0, over)
	states := map[journal.State]map[string]string{}
	note := func() {
		at, err := kv.State(p.store)
		is.NoErr(err)
		states[at] = kvtest.ContentOf(p.t, p.store)
	}
	note()
	for round := range 3 {
		for range 9 {
			p.clock.Add(time.Second)
			is.NoErr(tried(p.store))
			note()
		}
		switch round {
		case 0:
			p.snapshot()
		case 1:
			is.NoErr(ship.Merge(t.Context(), p.remote(p.m)))
		}
	}
	last, err := kv.State(p.store)
	is.NoErr(err)
	m := p.m.copied()
	is.Equal(len(m.names(in+"snap/")), 2)
	names := slices.Concat(m.names(in+"log/"), m.names(in+"snap/"), m.names("meta"))
	newest := m.names(in + "log/")[len(m.names(in+"log/"))-1]
	everything, less, nothing := 0, 0, 0
	harmed(m, names, func(what string, bad *memory) {
		got, err := rehearsed(t, p.remote(bad))
		back, fetched, failed := restored(t, p.remote(bad), time.Time{})
		if (err == nil) != (failed == nil) || err != nil && err.Error() != failed.Error() {
			t.Fatalf("%s: %v, and a restore: %v", what, err, failed)
		}
		if err != nil {
			is.True(ship.IsDamage(err))
			nothing++
			return
		}
		if ship.Gives(got, nil) != ship.Gives(fetched, nil) || got.State != fetched.State {
			t.Fatalf("%s: %s, and a restore: %s", what, ship.Gives(got, nil), ship.Gives(fetched, nil))
		}
		want, known := states[got.State]
		if !known || differing(kvtest.ContentOf(t, back), want) != "" {
			t.Fatalf("%s: a restore gives a state that there never was", what)
		}
		is.NoErr(back.Close())
		complete := got.State == last
		if (ship.Gives(got, nil) == "everything") != complete && what != newest+" is gone" {
			t.Fatalf("%s: %s, and the state is complete: %v", what, ship.Gives(got, nil), complete)
		}
		if complete {
			everything++
		} else {
			less++
		}
	})
	is.True(everything > 0 && less > 0)
	is.Equal(nothing, 0) // there are two snapshots

	delete(m.objects, m.names(in + "snap/")[1])
	harmed(m, m.names(in+"snap/"), func(what string, bad *memory) {
		_, err := rehearsed(t, p.remote(bad))
		_, _, failed := restored(t, p.remote(bad), time.Time{})
		is.True(ship.IsDamage(err))
		is.Equal(err.Error(), failed.Error())
		is.True(strings.HasPrefix(ship.Gives(nil, err), "nothing: "))
	})
}

// A store that encrypts may list other sizes than a question for one object gives. Nothing is removed for that, and
// nothing that was evicted while the comparison confirmed that this is the writer.
func TestCompareOfOtherSizes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, 0)
	ref := p.add(1)
	p.m.padded = 16
	removed := 0
	p.removes = func(string) { removed++ }
	is.NoErr(p.ship.Compare(t.Context(), p.contents()))
	is.Equal(removed, 0)

	p.m.set(func(verb, name string) error {
		if verb == "put" && strings.HasPrefix(name, "log/") {
			_ = os.Remove(filepath.Join(p.dir, ref.RemoteName())) // as an eviction does
		}
		return nil
	}, nil)
	p.m.mu.Lock()
	p.m.objects[ref.RemoteName()] = append(p.m.objects[ref.RemoteName()], 0)
	p.m.mu.Unlock()
	is.NoErr(p.ship.Compare(t.Context(), p.contents()))
	is.Equal(removed, 0)
	_, err := os.Stat(filepath.Join(p.dir, ref.RemoteName()))
	is.True(os.IsNotExist(err)) // so that was tried
}

// A running server puts again what is missing or damaged, so that a restore gives
// everything.
func TestCompareHeals(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	inEachStore(t, compareHeals)
}

func compareHeals(t *testing.T, in string, over func(blobs.Remote) blobs.Remote) {
	is := is.New(t)
	p := pruningOver(t, 0, over)
	ref := p.add(1)
	for range 5 {
		is.NoErr(tried(p.store))
	}
	is.NoErr(p.ship.Compare(t.Context(), p.contents()))
	is.Equal(p.ship.Status().Lacks, "")
	is.Equal(p.ship.Status().Healed, "") // the control
	whole := func(what string) {
		t.Helper()
		if err := p.ship.Compare(t.Context(), p.contents()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		is.Equal(p.ship.Status().Lacks, "")
		got, err := rehearsed(t, p.remote(p.m.copied()))
		is.NoErr(err)
		at, err := kv.State(p.store)
		is.NoErr(err)
		is.Equal(ship.Gives(got, nil), "everything")
		if len(got.Bad) > 0 || got.State != at {
			t.Fatalf("%s: not all is there", what)
		}
		is.NoErr(p.lacks(p.m.copied(), past{want: kvtest.ContentOf(t, p.store), refs: p.refs(p.store)}))
	}
	names := slices.Concat(p.m.names(in+"log/"), p.m.names(in+"snap/"), p.m.names("meta"))
	harmed(p.m.copied(), names, func(what string, bad *memory) {
		p.m.mu.Lock()
		for _, name := range names { // only the harm of this round
			if b, there := bad.objects[name]; there {
				p.m.objects[name] = b
			} else {
				delete(p.m.objects, name)
			}
		}
		p.m.mu.Unlock()
		whole(what)
	})

	old := time.Now().Add(-2 * time.Hour)
	is.NoErr(os.Chtimes(filepath.Join(p.dir, ref.RemoteName()), old, old)) // a younger one may be on its way
	name := p.m.names(in + "blobs/")[0]
	p.m.mu.Lock()
	p.m.objects[name] = p.m.objects[name][:3]
	p.m.mu.Unlock()
	whole("a file is shorter")
	p.m.mu.Lock()
	delete(p.m.objects, name)
	p.m.mu.Unlock()
	whole("a file is missing")
}

// A start whose newest slot is damaged, and one without any, goes on.
func TestStartAfterDamage(t *testing.T) {
	t.Parallel()
	inEachStore(t, startAfterDamage)
}

func startAfterDamage(t *testing.T, in string, over func(blobs.Remote) blobs.Remote) {
	for _, harm := range []func(m *memory, log []string){
		func(m *memory, log []string) { m.objects[log[len(log)-1]][20] ^= 1 },
		func(m *memory, log []string) { m.objects[log[len(log)-1]][0] ^= 1 },
		func(m *memory, log []string) { delete(m.objects, log[len(log)-1]) },
		func(m *memory, log []string) {
			for _, name := range log {
				delete(m.objects, name)
			}
		},
		func(m *memory, _ []string) { m.objects["meta"][5] ^= 1 },
		func(m *memory, _ []string) { m.objects["meta"][20] ^= 1 },
	} {
		is := is.New(t)
		p := pruningOver(t, 0, over)
		for range 5 {
			is.NoErr(tried(p.store))
		}
		p.close()
		harm(p.m, p.m.names(in+"log/"))
		p.open()
		is.NoErr(tried(p.store))
		is.NoErr(p.ship.Compare(t.Context(), p.contents()))
		got, err := rehearsed(t, p.remote(p.m))
		is.NoErr(err)
		at, err := kv.State(p.store)
		is.NoErr(err)
		is.Equal(got.State, at)
		is.Equal(ship.Gives(got, nil), "everything")
	}
}
