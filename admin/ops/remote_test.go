package ops

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/blobs/s3/s3test"
	"kist/kv"
	"kist/kv/ship"
	"kist/kv/tables"
)

// changing is a remote that calls fn before each list of the slots but the first.
type changing struct {
	blobs.Remote
	lists int
	fn    func()
}

func (l *changing) After(ctx context.Context, prefix, name string) iter.Seq2[blobs.Object, error] {
	if prefix == "log/" {
		l.lists++
		if l.lists > 1 {
			l.fn()
		}
	}
	return l.Remote.After(ctx, prefix, name)
}

// A warning calls fn.
type warning struct {
	slog.Handler
	fn func()
}

func (w warning) Enabled(context.Context, slog.Level) bool { return true }

func (w warning) Handle(context.Context, slog.Record) error { w.fn(); return nil }

// What was fetched counts only if it has the state that the slots promise. A torn end of
// the newest log is not reported as damage.
func TestFetchedIsConfirmed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	remote := s3test.Open(t, s3test.Options("kist", s3test.New(t).Start()))
	quiet := slog.New(slog.DiscardHandler)
	store, err := kv.Open(filepath.Join(t.TempDir(), "data"), kv.Options{
		Schema: tables.All, Log: quiet, Ship: ship.New(ship.Options{Remote: remote, Sync: true, Log: quiet}),
	})
	is.NoErr(err)
	is.NoErr(store.Update(func(tx *kv.Tx) error { return tx.Put(kv.SumBucket, []byte("key"), []byte("value")) }))
	is.NoErr(store.Close())
	bad := strings.NewReader("no snapshot") // it makes a warning
	is.NoErr(remote.Put(t.Context(), "snap/00000000ffffffff", bad, bad.Size()))

	for _, torn := range []bool{false, true} {
		dir := t.TempDir()
		cuts := 0
		cut := func() {
			logs, _ := filepath.Glob(filepath.Join(dir, "*", "journal", "log-*"))
			if !torn || len(logs) == 0 {
				return
			}
			name := slices.Max(logs)
			info, err := os.Stat(name)
			is.NoErr(err)
			is.NoErr(os.Truncate(name, info.Size()-1))
			cuts++
		}
		j := Job{Dir: dir, Stderr: io.Discard, Log: slog.New(warning{fn: cut})}
		_, _, err := j.Fetch(t.Context(), remote, "", time.Time{}, true)
		is.Equal(err != nil && strings.Contains(err.Error(), "the object store promises record"), torn)
		is.Equal(cuts > 0, torn)

		dir, cuts = t.TempDir(), 0
		j = Job{Scratch: dir, Stderr: io.Discard, Log: quiet}
		v, err := j.VerifyRemote(t.Context(), &changing{Remote: remote, fn: cut}, false)
		is.NoErr(err)
		is.Equal(strings.Contains(strings.Join(v.Problems, "\n"), "the object store promises record"), torn)
		is.Equal(cuts > 0, torn)
	}
}

// flaky is a remote whose lists fail after each object, twice.
type flaky struct {
	blobs.Remote
	lists int
	fails int // in a row
}

func (f *flaky) After(_ context.Context, _, name string) iter.Seq2[blobs.Object, error] {
	f.lists++
	return func(yield func(blobs.Object, error) bool) {
		for i := range byte(5) {
			o := blobs.Object{Name: blobs.Ref{i + 1}.RemoteName(), Size: int64(i)}
			if o.Name <= name {
				continue
			}
			f.fails++
			if f.fails%3 != 0 {
				yield(blobs.Object{}, errors.New("cut"))
				return
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// A list of contents goes on where it was cut off.
func TestListingGoesOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := &flaky{}
	all := list(t.Context(), f)
	defer all.close()
	for i := range byte(7) {
		o, err := all.find(blobs.Ref{i})
		if i == 0 || i == 6 {
			is.True(errors.Is(err, fs.ErrNotExist))
			continue
		}
		is.NoErr(err)
		is.Equal(o.Size, int64(i)-1)
	}
	is.Equal(f.fails, 15)
	is.Equal(f.lists, 11)
}
