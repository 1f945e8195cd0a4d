package blobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestSweep(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		limit := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		put := func(content string, age time.Duration) *Kept {
			kept := keep(t, s, []byte(content))
			at := limit.Add(-age)
			is.NoErr(os.Chtimes(filepath.Join(dir, kept.Ref.path()), at, at))
			return kept
		}
		old := put("old and unreferenced", time.Hour)
		old.Release()
		referenced := put("old and referenced", time.Hour)
		referenced.Release()
		pinned := put("old and pinned", time.Hour)
		young := put("young", -time.Hour)
		young.Release()
		atLimit := put("at the limit", 0)
		atLimit.Release()
		is.NoErr(os.WriteFile(filepath.Join(dir, "README"), nil, 0o600))

		asked := map[Ref]bool{}
		swept, err := s.Sweep(t.Context(), limit, func(ref Ref) (bool, error) {
			asked[ref] = true
			return ref != referenced.Ref, nil
		})
		is.NoErr(err)
		is.Equal(swept, Swept{Seen: 5, Removed: 1, Bytes: old.Size, Foreign: 1})
		is.Equal(asked, map[Ref]bool{old.Ref: true, referenced.Ref: true})

		pinned.Release()
		swept, err = s.Sweep(t.Context(), limit.Add(2*time.Hour), func(Ref) (bool, error) { return true, nil })
		is.NoErr(err)
		is.Equal(
			swept, Swept{Seen: 4, Removed: 4, Bytes: referenced.Size + pinned.Size + young.Size + atLimit.Size, Foreign: 1},
		)
		is.Equal(paths(t, dir), []string{"README"})
	})
}

func TestSweepStops(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	const blobs = 10
	for i := range blobs {
		keep(t, s, fmt.Append(nil, i)).Release()
	}
	future := time.Now().Add(time.Hour)

	errStore := errors.New("the store is closed")
	asked := 0
	swept, err := s.Sweep(t.Context(), future, func(Ref) (bool, error) {
		asked++
		if asked == 4 {
			return true, errStore
		}
		return true, nil
	})
	is.True(errors.Is(err, errStore))
	is.Equal(swept.Removed, 3) // an unknown answer removes nothing

	ctx, cancel := context.WithCancel(t.Context())
	swept, err = s.Sweep(ctx, future, func(Ref) (bool, error) {
		cancel()
		return true, nil
	})
	is.True(errors.Is(err, context.Canceled))
	is.Equal(swept.Removed, 1)

	swept, err = s.Sweep(t.Context(), future, func(Ref) (bool, error) { return true, nil })
	is.NoErr(err)
	is.Equal(swept.Removed, blobs-4)
}

func TestSweepOfTemporaryFiles(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	s.unnamed = false
	stage, err := s.Stage()
	is.NoErr(err)
	defer stage.Drop()
	_, err = stage.Write([]byte("slow upload"))
	is.NoErr(err)

	limit := time.Now().Add(time.Hour) // later than any file of this test
	stale, fresh := filepath.Join(dir, "tmp", "STALE"), filepath.Join(dir, "tmp", "FRESH")
	is.NoErr(os.WriteFile(stale, nil, 0o600))
	is.NoErr(os.WriteFile(fresh, nil, 0o600))
	is.NoErr(os.Chtimes(fresh, limit, limit))

	swept, err := s.Sweep(t.Context(), limit, func(Ref) (bool, error) { return true, nil })
	is.NoErr(err)
	is.Equal(swept, Swept{Temps: 1})
	left := paths(t, dir)
	slices.Sort(left)
	want := []string{"tmp/FRESH", "tmp/" + stage.temp}
	slices.Sort(want)
	is.Equal(left, want)

	kept, err := stage.Keep() // an upload in progress is not disturbed
	is.NoErr(err)
	defer kept.Release()
	is.NoErr(s.Check(kept.Ref))
}
