package blobs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
)

// A small blob that is requested again is kept in memory until it is unlinked,
// if its bytes are right.
func TestSmall(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	content := []byte("asked for again")
	kept := keep(t, s, content)
	kept.Release()
	is.Equal(s.Small(kept.Ref, kept.Size), nil)
	is.Equal(s.Small(kept.Ref, kept.Size), content)
	other := keep(t, s, []byte("another"))
	other.Release()
	is.Equal(s.Small(other.Ref, other.Size), nil)
	is.Equal(string(s.Small(other.Ref, other.Size)), "another")
	is.Equal(len(s.small.kept), 2) // there is space, so none is dropped
	is.NoErr(os.Remove(filepath.Join(dir, other.Ref.path())))
	s.small.forget(other.Ref)
	is.NoErr(os.Remove(filepath.Join(dir, kept.Ref.path())))
	is.Equal(s.Small(kept.Ref, kept.Size), content)
	kept = keep(t, s, content)
	kept.Release()
	_, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), func(Ref) (bool, error) { return true, nil })
	is.NoErr(err)
	is.Equal(s.Small(kept.Ref, kept.Size), nil)
	s.retain(kept.Ref, content) // it was read before it was unlinked
	is.Equal(s.Small(kept.Ref, kept.Size), nil)
	is.Equal(s.small.size, 0)

	damaged := keep(t, s, []byte("right"))
	damaged.Release()
	path := filepath.Join(dir, damaged.Ref.path())
	is.NoErr(os.Chmod(path, 0o600))
	is.NoErr(os.WriteFile(path, []byte("wrong"), 0o600))
	for _, ref := range []Ref{damaged.Ref, {1}} { // one damaged, one missing
		for range 3 {
			is.Equal(s.Small(ref, 5), nil)
		}
	}
	large := keep(t, s, make([]byte, maxSmall+1))
	large.Release()
	empty := keep(t, s, nil)
	empty.Release()
	for _, k := range []*Kept{large, empty} {
		for range 3 {
			is.Equal(s.Small(k.Ref, k.Size), nil)
		}
	}
}

// However much is requested, and by however many goroutines, the memory is
// bounded and its content right.
func TestSmallBounds(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	const n = 2 * maxSmallTotal / maxSmall
	var all [n]*Kept
	content := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), maxSmall/8) }
	for i := range all {
		all[i] = keep(t, s, content(i))
		all[i].Release()
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i, k := range all {
				for range 3 {
					if b := s.Small(k.Ref, k.Size); b != nil && !bytes.Equal(b, content(i)) {
						t.Error("wrong bytes")
					}
				}
			}
		})
	}
	readers.Wait()
	sum := 0
	for _, b := range s.small.kept {
		sum += len(b)
	}
	is.Equal(sum, s.small.size)
	is.True(sum > 0 && sum <= maxSmallTotal)
}
