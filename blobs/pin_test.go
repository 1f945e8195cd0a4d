package blobs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
)

func always() (bool, error) { return true, nil }

func TestPin(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	content := []byte("content")
	_, err := s.pin(refOf(content))
	is.True(errors.Is(err, fs.ErrNotExist))
	is.Equal(len(s.names.held), 0)

	keep(t, s, content).Release()
	pin, err := s.pin(refOf(content))
	is.NoErr(err)
	is.Equal(pin.Ref, refOf(content))
	is.Equal(pin.Size, int64(len(content)))

	removed, err := s.Unlink(pin.Ref, func() (bool, error) {
		t.Error("asked about a blob that is pinned")
		return true, nil
	})
	is.NoErr(err)
	is.True(!removed)

	pin.Release()
	removed, err = s.Unlink(pin.Ref, always)
	is.NoErr(err)
	is.True(removed)
	is.Equal(len(s.names.held), 0)
}

func TestUnlink(t *testing.T) {
	errStore := errors.New("the store is closed")
	for _, tt := range []struct {
		name         string
		there        bool
		unreferenced bool
		err          error
		removed      bool
	}{
		{"unreferenced", true, true, nil, true},
		{"referenced", true, false, nil, false},
		{"unknown", true, true, errStore, false},
		{"missing", false, true, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			s, _ := open(t)
			ref := refOf([]byte("content"))
			if tt.there {
				keep(t, s, []byte("content")).Release()
			}
			removed, err := s.Unlink(ref, func() (bool, error) { return tt.unreferenced, tt.err })
			is.True(errors.Is(err, tt.err))
			is.Equal(removed, tt.removed)
			_, err = s.Stat(ref)
			is.Equal(err == nil, tt.there && !tt.removed)
			is.Equal(len(s.names.held), 0)
		})
	}
}

// A Pin called while an Unlink decides waits and then tells the truth. An
// upload brings the content back. Other content does not wait.
func TestPinWaitsForUnlink(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, _ string) {
		is := is.New(t)
		content := []byte("content")
		ref := refOf(content)
		keep(t, s, content).Release()

		var again, pin *Kept
		var keepErr, pinErr error
		var wg sync.WaitGroup
		removed, err := s.Unlink(ref, func() (bool, error) {
			wg.Go(func() { again, keepErr = tryKeep(s, content) })
			other, err := tryKeep(s, []byte("other content"))
			if err != nil {
				return false, err
			}
			other.Release()
			second, err := s.Unlink(ref, always)
			if err != nil || second {
				t.Error("two at once unlink one blob")
			}
			return true, nil
		})
		is.NoErr(err)
		is.True(removed)
		wg.Wait()
		is.NoErr(keepErr)
		is.NoErr(s.Check(ref)) // the upload came later
		again.Release()

		removed, err = s.Unlink(ref, func() (bool, error) {
			wg.Go(func() { pin, pinErr = s.pin(ref) })
			return true, nil
		})
		is.NoErr(err)
		wg.Wait()
		// A pin is held on an existing blob, or refused.
		if pinErr == nil {
			is.True(!removed)
			pin.Release()
		} else {
			is.True(removed)
			is.True(errors.Is(pinErr, fs.ErrNotExist))
		}
	})
}

// record counts the records that refer to one content.
type record struct {
	sync.Mutex
	content []byte
	number  int
}

// Uploads, second records, removals and sweeps of the same few contents run
// concurrently. Whenever a record refers to a blob, its bytes exist.
func TestNoRecordLosesItsBlob(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		const contents = 6
		records := map[Ref]*record{}
		refs := make([]Ref, contents)
		for i := range refs {
			content := bytes.Repeat(fmt.Appendf(nil, "content %d", i), 500)
			refs[i] = refOf(content)
			records[refs[i]] = &record{content: content}
		}
		pick := func() Ref { return refs[rand.IntN(contents)] }

		var uploads, unlinked atomic.Int64
		upload := func() error {
			uploads.Add(1)
			ref := pick()
			r := records[ref]
			var kept *Kept
			var err error
			if rand.IntN(2) == 0 {
				kept, err = s.pin(ref)
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
			} else {
				kept, err = tryKeep(s, r.content)
			}
			if err != nil {
				return err
			}
			defer kept.Release()
			r.Lock()
			defer r.Unlock()
			r.number++
			return nil
		}
		remove := func() error {
			r := records[pick()]
			r.Lock()
			defer r.Unlock()
			r.number = 0
			return nil
		}
		look := func() error {
			ref := pick()
			r := records[ref]
			r.Lock()
			defer r.Unlock()
			if r.number == 0 {
				return nil
			}
			got, err := read(s, ref)
			if err == nil && !bytes.Equal(got, r.content) {
				err = errors.New("the bytes are wrong")
			}
			if err != nil {
				return fmt.Errorf("a record refers to a blob: %w", err)
			}
			return nil
		}
		unreferenced := func(ref Ref) (bool, error) {
			r := records[ref]
			r.Lock()
			defer r.Unlock()
			return r.number == 0, nil
		}
		unlink := func() error {
			ref := pick()
			removed, err := s.Unlink(ref, func() (bool, error) { return unreferenced(ref) })
			if removed {
				unlinked.Add(1)
			}
			return err
		}
		sweep := func() error {
			swept, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), unreferenced)
			unlinked.Add(int64(swept.Removed))
			return err
		}

		// Normally the first bound ends it. The second is for a scheduler that
		// lets the uploads crowd out everything else.
		goOn := func() bool { return unlinked.Load() < 100 && uploads.Load() < 3_000 && !t.Failed() }
		var workers sync.WaitGroup
		for _, work := range []func() error{upload, upload, upload, remove, look, unlink, sweep} {
			workers.Go(func() {
				for goOn() {
					if err := work(); err != nil {
						t.Error(err)
					}
					runtime.Gosched() // otherwise the spinning goroutines starve the others
				}
			})
		}
		workers.Wait()
		t.Logf("%d uploads, %d removals", uploads.Load(), unlinked.Load())
		is.True(unlinked.Load() > 0)

		is.Equal(len(s.names.held), 0)
		is.Equal(len(s.temps.used), 0)
		for _, r := range records {
			r.number = 0
		}
		is.NoErr(sweep())
		is.Equal(paths(t, dir), []string{})
	})
}
