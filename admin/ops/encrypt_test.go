package ops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/blobs/sealed"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// bucket is a blobs.Remote in memory. It ends to work after some changes.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	left    int // changes until it ends; -1 for none
}

func (b *bucket) change(fn func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return &blobs.Unfit{Text: "the process was killed"} // it is not tried again
	}
	if b.left > 0 {
		b.left--
	}
	return fn()
}

func (b *bucket) Put(_ context.Context, name string, body io.ReaderAt, size int64) error {
	return b.change(func() (err error) {
		if b.objects[name] != nil {
			return fs.ErrExist
		}
		b.objects[name], err = io.ReadAll(io.NewSectionReader(body, 0, size))
		return err
	})
}

func (b *bucket) Get(_ context.Context, name string, from, n int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got, there := b.objects[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	got = got[min(from, int64(len(got))):]
	if n >= 0 {
		got = got[:min(n, int64(len(got)))]
	}
	return io.NopCloser(bytes.NewReader(got)), nil
}

func (b *bucket) Head(_ context.Context, name string) (o blobs.Object, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got, there := b.objects[name]
	if !there {
		return o, fs.ErrNotExist
	}
	return blobs.Object{Name: name, Size: int64(len(got)), ModTime: time.Now()}, nil
}

func (b *bucket) Delete(_ context.Context, name string) error {
	return b.change(func() error {
		delete(b.objects, name)
		return nil
	})
}

func (b *bucket) After(_ context.Context, prefix, after string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		b.mu.Lock()
		names := slices.Sorted(maps.Keys(b.objects))
		b.mu.Unlock()
		for _, name := range names {
			o, err := b.Head(context.Background(), name)
			if err == nil && strings.HasPrefix(name, prefix) && name > after && !yield(o, nil) {
				return
			}
		}
	}
}

func (b *bucket) copied() *bucket { return &bucket{objects: maps.Clone(b.objects), left: -1} }

// plainNames are the objects that are not encrypted.
func (b *bucket) plainNames() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(b.objects)) {
		if !sealed.IsSealed(b.objects[name]) {
			all = append(all, name)
		}
	}
	return all
}

func hashed(b []byte) blobs.Ref { return sha256.Sum256(b) }

// shipping is a store that ships to the remote.
func shipping(t *testing.T, dir string, remote blobs.Remote) (*kv.Store, *ship.Shipper, error) {
	t.Helper()
	s := ship.New(ship.Options{Remote: remote, Sync: true, Log: kvtest.Quiet, Address: "s3://test/kist"})
	store, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Ship: s})
	return store, s, err
}

func keyOf(t *testing.T, seed byte) *sealed.Key {
	t.Helper()
	key, err := sealed.NewKey(sealed.Secret{seed})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// stored is a bucket with a plain store that has files, and the data directory of its writer.
func stored(t *testing.T) (b *bucket, dir string, want journal.State) {
	t.Helper()
	b, dir = &bucket{objects: map[string][]byte{}, left: -1}, filepath.Join(t.TempDir(), "data")
	plain, _ := sealed.Plain(b)
	store, s, err := shipping(t, dir, plain)
	if err != nil {
		t.Fatal(err)
	}
	s.Await()
	owner := kvtest.User(t, store, "ann").ID
	for i := range 4 {
		kvtest.Add(t, store, owner, record.Notes, fmt.Sprintf(`{"content":"marker %d"}`, i))
	}
	for i := range 5 {
		body := fmt.Appendf(nil, "marker of content %d", i)
		if err := put(t.Context(), b, hashed(body).RemoteName(), body); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return b, dir, state(t, b)
}

func encrypt(t *testing.T, b *bucket, key *sealed.Key, damaged bool) (*Encrypted, error) {
	t.Helper()
	j := Job{Scratch: t.TempDir(), Stderr: io.Discard, Log: kvtest.Quiet}
	return j.Encrypt(t.Context(), b, key, "s3://test/kist", damaged)
}

// state is what a restore gives.
func state(t *testing.T, r blobs.Remote) journal.State {
	t.Helper()
	nothing := func([]journal.Op) error { return nil }
	got, err := ship.Rehearse(t.Context(), r, workcopy.Format, func() error { return nil }, nothing)
	if err != nil || ship.Gives(got, nil) != "everything" {
		t.Fatal(ship.Gives(got, err))
	}
	return got.State
}

// Wherever the encryption of a store is cut short, nothing is lost, no server starts in the wrong way, and the next
// run ends it. Then nothing in clear is left, and the server goes on with the key.
func TestEncryptCutShort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	key := keyOf(t, 1)
	whole, dir, want := stored(t)
	steps := 0
	for ended := false; !ended; steps++ {
		b := whole.copied()
		b.left = steps
		_, err := encrypt(t, b, key, false)
		ended = err == nil
		b.left = -1
		if ended {
			break
		}
		plain, _ := sealed.Plain(b)
		with, _ := sealed.New(key, b)
		var open blobs.Remote // to what there is
		for _, r := range []blobs.Remote{plain, with} {
			_, err := r.Head(t.Context(), "meta")
			if err == nil {
				open = r
			}
			is.True(err == nil || errors.As(err, new(*blobs.Unfit)) || errors.Is(err, fs.ErrNotExist))
		}
		if open != nil {
			is.Equal(state(t, open), want)
		}

		_, err = encrypt(t, b, key, false)
		is.NoErr(err)
		if len(b.plainNames()) > 0 {
			t.Fatalf("after %d changes %v are left", steps, b.plainNames())
		}
		is.Equal(state(t, with), want)
		names := 0
		for o, err := range with.After(t.Context(), "blobs/", "") {
			is.NoErr(err)
			names++
			is.True(strings.HasPrefix(o.Name, "blobs/"))
		}
		is.Equal(names, 5)
		_, err = with.Head(t.Context(), sealed.Moving)
		is.True(errors.Is(err, fs.ErrNotExist))
	}
	is.True(steps > 20)

	b := whole.copied()
	_, err := encrypt(t, b, key, false)
	is.NoErr(err)
	done, err := encrypt(t, b, key, false)
	is.NoErr(err)
	is.True(done.Already)
	_, err = encrypt(t, b, keyOf(t, 2), false)
	is.True(err != nil && strings.Contains(err.Error(), "name the right key file"))
	_, err = encrypt(t, &bucket{objects: map[string][]byte{}, left: -1}, key, false)
	is.True(err != nil && strings.Contains(err.Error(), "there is no data of kist"))
	for _, body := range b.objects {
		is.True(!bytes.Contains(body, []byte("marker")))
	}

	plain, _ := sealed.Plain(b)
	_, _, err = shipping(t, dir, plain)
	is.True(err != nil && strings.Contains(err.Error(), "add --store-key-file"))
	with, _ := sealed.New(key, b)
	store, s, err := shipping(t, dir, with)
	is.NoErr(err)
	s.Await()
	kvtest.User(t, store, "bob")
	is.NoErr(store.Close())
	is.True(state(t, with).Seq > want.Seq)
}

// A server that runs while its store is encrypted stops storing, and says why.
func TestEncryptStopsTheServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b, dir, _ := stored(t)
	plain, _ := sealed.Plain(b)
	store, s, err := shipping(t, dir, plain)
	is.NoErr(err)
	s.Await()
	_, err = encrypt(t, b, keyOf(t, 1), false)
	is.NoErr(err)
	err = store.Update(func(tx *kv.Tx) error { return tx.Put(workcopy.MetaBucket, []byte("tried"), []byte("x")) })
	is.True(err != nil)
	is.True(strings.Contains(s.Status().Failure.Error(), "add --store-key-file"))
	is.NoErr(store.Close())
	is.Equal(b.plainNames(), nil)
}

// Damaged contents stop the encryption before anything changes for a server, unless they are left behind.
func TestEncryptDamaged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b, _, want := stored(t)
	bad := hashed([]byte("marker of content 0"))
	b.objects[bad.RemoteName()] = []byte("Marker of content 0")
	before := b.copied()
	_, err := encrypt(t, b, keyOf(t, 1), false)
	is.True(err != nil && strings.Contains(err.Error(), bad.String()) && strings.Contains(err.Error(), "--leave-damaged"))
	for name := range before.objects {
		is.Equal(b.objects[name], before.objects[name])
	}
	plain, _ := sealed.Plain(b)
	is.Equal(state(t, plain), want)
	_, err = encrypt(t, b, keyOf(t, 1), true)
	is.NoErr(err)
	is.Equal(b.plainNames(), nil)
	with, _ := sealed.New(keyOf(t, 1), b)
	is.Equal(state(t, with), want)
	_, err = with.Head(t.Context(), bad.RemoteName())
	is.True(errors.Is(err, fs.ErrNotExist))
}
