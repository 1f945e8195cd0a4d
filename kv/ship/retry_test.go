package ship_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/ship"
)

// withFiles returns a store of which n files wait to be shipped.
func withFiles(t *testing.T, remote blobs.Remote, n int) (*kv.Store, *ship.Shipper) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	store, s := opened(t, dir, ship.Options{Remote: remote}, nil)
	ready(t, store)
	content, err := blobs.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = content.Close() })
	for i := range n {
		kept, err := stage(t, content, 100+i).Keep()
		if err != nil {
			t.Fatal(err)
		}
		err = refer(store, kept.Ref)
		kept.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
	return store, s
}

// A store that refuses every twelfth request gets everything. Only a request that failed is
// made again.
func TestSomeRequestsFail(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} { // the answer, not the request
		t.Run(fmt.Sprintf("lost answers %v", lost), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMemory()
			requests, failed := 0, map[string]int{}
			fault := func(verb, name string) error {
				if verb != "put" || !strings.HasPrefix(name, "blobs/") && !strings.HasPrefix(name, "log/") {
					return nil
				}
				requests++
				if requests%12 != 0 {
					return nil
				}
				failed[name]++
				return errCut
			}
			m.before = fault
			if lost {
				m.before, m.after = nil, fault
			}
			store, s := withFiles(t, m, 60)
			is.NoErr(store.Close())
			st := s.Status()
			is.Equal(st.Records, uint64(0))
			is.Equal(len(m.names("blobs/")), 60)
			m.mu.Lock()
			defer m.mu.Unlock()
			is.True(requests >= 60)                  // one may have failed twice
			is.Equal(st.Errors, uint64(requests/12)) // no attempt of the whole has failed
			puts := map[string]int{}
			for _, name := range m.puts {
				puts[name]++
			}
			for name, n := range puts {
				is.Equal(n, 1) // none is put twice
				delete(failed, name)
			}
			is.Equal(len(failed), 0)
		})
	}
}

// waiting is a remote whose puts of files wait until many do.
type waiting struct {
	*memory
	mu   sync.Mutex
	n    int
	most int
	all  chan struct{}
}

func (w *waiting) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if strings.HasPrefix(name, "blobs/") {
		w.mu.Lock()
		w.n++
		if w.n == w.most {
			close(w.all)
		}
		w.mu.Unlock()
		select {
		case <-w.all:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.memory.Put(ctx, name, body, size)
}

// Small files go to the store at the same time, so that one that takes long for each
// request keeps up: 90 at once are 60 a second if each takes 1.5 seconds.
func TestManyFilesAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	w := &waiting{memory: newMemory(), most: 90, all: make(chan struct{})}
	dir := filepath.Join(t.TempDir(), "data")
	is.NoErr(kvtest.OpenAt(t, dir, nil).Close())
	content, err := blobs.Open(filepath.Join(dir, "blobs"))
	is.NoErr(err)
	defer content.Close()
	for i := range w.most {
		kept, err := stage(t, content, 100+i).Keep()
		is.NoErr(err)
		kept.Release()
	}
	store, s := opened(t, dir, ship.Options{Remote: w}, nil)
	until(t, "all files wait", func() bool { return s.Status().Complete })
	is.Equal(len(w.names("blobs/")), w.most)
	is.NoErr(store.Close())
}
