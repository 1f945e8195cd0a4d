package scrub

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
)

// scrubber returns one for the test, with a rate in bytes per second.
func scrubber(s *blobs.Store, dir string, rate int64) *Scrubber {
	return &Scrubber{
		Store: s, Dir: filepath.Join(filepath.Dir(dir), "scrub"), Log: slog.New(slog.DiscardHandler), every: scrubEvery,
		rate: rate,
	}
}

func open(t testing.TB) (*blobs.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blobs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

// random returns content that differs for each seed.
func random(seed uint64, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b) // never fails
	return b
}

func keep(t testing.TB, s *blobs.Store, b []byte) *blobs.Kept {
	t.Helper()
	stage, err := s.Stage()
	if err == nil {
		_, err = stage.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept, err := stage.Keep()
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// pathOf is the file of a blob.
func pathOf(dir string, ref blobs.Ref) string {
	return filepath.Join(dir, ref.String()[:2], ref.String())
}

// flip changes a byte of a blob on the disk and gives the file an old time.
func flip(t testing.TB, dir string, ref blobs.Ref, at int64) {
	t.Helper()
	is := is.New(t)
	b, err := os.ReadFile(pathOf(dir, ref))
	is.NoErr(err)
	b[at] ^= 4
	is.NoErr(os.WriteFile(pathOf(dir, ref), b, 0o600))
	old := time.Now().Add(-time.Hour)
	is.NoErr(os.Chtimes(pathOf(dir, ref), old, old))
}

// keepSome keeps some blobs and returns their refs in order.
func keepSome(t *testing.T, s *blobs.Store, n, size int) []blobs.Ref {
	var refs []blobs.Ref
	for i := range n {
		k := keep(t, s, random(uint64(i), size))
		k.Release()
		refs = append(refs, k.Ref)
	}
	slices.SortFunc(refs, func(a, b blobs.Ref) int { return slices.Compare(a[:], b[:]) })
	return refs
}

// A round finds damaged blobs and blobs that were healed by hand. It takes the
// time that its rate allows, and the next begins after a week.
func TestScrub(t *testing.T) {
	s, dir := open(t)
	refs := keepSome(t, s, 20, 100_000)
	flip(t, dir, refs[3], 5)
	flip(t, dir, refs[19], 99_999)
	var mu sync.Mutex
	var told []blobs.Ref
	s.Damaged.OnDamage(func(ref blobs.Ref, _ error) { mu.Lock(); defer mu.Unlock(); told = append(told, ref) })
	heard := func() []blobs.Ref { mu.Lock(); defer mu.Unlock(); return slices.Clone(told) }
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		sc := scrubber(s, dir, 100_000)
		begun := time.Now()
		running.Go(func() { sc.Run(ctx) })
		time.Sleep(15 * time.Second)
		synctest.Wait()
		is.True(sc.Finished().IsZero()) // 2 MB at 0.1 MB/s
		time.Sleep(15 * time.Second)
		synctest.Wait()
		is.True(sc.Finished().Sub(begun) >= 20*time.Second)
		is.Equal(heard(), []blobs.Ref{refs[3], refs[19]})
		is.Equal(len(s.Damaged.List()), 2)

		// Nothing happens for a week. Then the scrubber sees a blob that was
		// put back by hand, and finds a newly damaged one.
		is.NoErr(os.WriteFile(pathOf(dir, refs[3]), contentOf(refs[3], 20, 100_000), 0o600))
		flip(t, dir, refs[7], 1)
		time.Sleep(scrubEvery - time.Minute)
		synctest.Wait()
		is.Equal(len(heard()), 2)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		is.Equal(heard(), []blobs.Ref{refs[3], refs[19], refs[7]})
		is.True(s.Damaged.Err(refs[3]) == nil)
		is.True(sc.Finished().Sub(begun) > scrubEvery)
		cancel()
		running.Wait()
	})
}

func contentOf(ref blobs.Ref, n, size int) []byte {
	for i := range n {
		if b := random(uint64(i), size); sha256.Sum256(b) == ref {
			return b
		}
	}
	return nil
}

// An interrupted round continues where it was, in another process too. A
// finished round does not begin again at each start.
func TestScrubResumes(t *testing.T) {
	s, dir := open(t)
	keepSome(t, s, 30, 50_000)
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		read, starts := 0, 0
		for last := ""; ; starts++ {
			is.True(starts < 100)
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			sc := scrubber(s, dir, 100_000)
			sc.Run(ctx)
			cancel()
			is.True(sc.at.After > last || sc.at.After == last && !sc.Finished().IsZero())
			for info := range s.After(last) {
				if info.Ref.String() <= sc.at.After {
					read++
				}
			}
			last = sc.at.After
			if !sc.Finished().IsZero() {
				break
			}
		}
		is.Equal(read, 30)
		is.True(starts > 2)

		before := scrubber(s, dir, 100_000)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		before.Run(ctx)
		cancel()
		is.True(time.Since(before.at.Begun) > time.Hour) // it is still the first round

		// Unreadable progress is ignored.
		is.NoErr(os.WriteFile(filepath.Join(before.Dir, scrubFile), []byte(`{"after":"../x"}`), 0o600))
		again := scrubber(s, dir, 100_000)
		ctx, cancel = context.WithTimeout(context.Background(), time.Hour)
		again.Run(ctx)
		cancel()
		is.True(time.Since(again.Finished()) < time.Hour)
	})
}

// A round that ended while the clock was ahead does not stop the next one from
// continuing at a start.
func TestScrubAfterWrongClock(t *testing.T) {
	s, dir := open(t)
	refs := keepSome(t, s, 10, 50_000)
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		sc := scrubber(s, dir, 100_000)
		is.NoErr(os.MkdirAll(sc.Dir, 0o700))
		now := time.Now().UTC()
		b, err := json.Marshal(progress{Begun: now, After: refs[4].String(), Finished: now.Add(73 * 365 * 24 * time.Hour)})
		is.NoErr(err)
		is.NoErr(os.WriteFile(filepath.Join(sc.Dir, scrubFile), b, 0o600))
		flip(t, dir, refs[2], 0) // read already
		flip(t, dir, refs[7], 0)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		sc.Run(ctx)
		is.Equal(len(s.Damaged.List()), 1)
		is.True(s.Damaged.Err(refs[7]) != nil)
		is.True(time.Since(sc.Finished()) <= time.Hour)
	})
}

// A busy server has the machine for most of the time, and the round continues.
func TestScrubYields(t *testing.T) {
	s, dir := open(t)
	keepSome(t, s, 10, 100_000)
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		took := func(busy bool) time.Duration {
			sc := scrubber(s, dir, 1<<20)
			sc.Busy = func() bool { return busy }
			is.NoErr(os.RemoveAll(sc.Dir))
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			begun := time.Now()
			sc.Run(ctx)
			return sc.Finished().Sub(begun)
		}
		idle, busy := took(false), took(true)
		is.True(idle >= time.Second/2 && idle < 3*time.Second)
		is.True(busy > 8*idle && busy < 12*idle)
	})
}

// The cost of the scrub for writers: see DESIGN.md.
func BenchmarkKeepWhileScrubbed(b *testing.B) {
	for _, scrubbed := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "scrubbed"}[scrubbed], func(b *testing.B) {
			s, dir := open(b)
			for i := range 200 {
				keep(b, s, random(uint64(i), 1<<20)).Release()
			}
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			if scrubbed {
				sc := scrubber(s, dir, scrubRate)
				sc.every = time.Nanosecond
				sc.Busy = func() bool { return true } // as if requests were being answered
				running.Go(func() { sc.Run(ctx) })
			}
			b.ResetTimer()
			for i := range b.N {
				keep(b, s, random(uint64(i+1000), 4096)).Release()
			}
			b.StopTimer()
			cancel()
			running.Wait()
		})
	}
}
