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
	"os"
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
	"kist/kv/catalog"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
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
	_, isSealed := remote.(*sealed.Remote)
	s := ship.New(ship.Options{
		Remote: remote, Sync: true, Sealed: isSealed, Log: kvtest.Quiet, Address: "s3://test/kist",
	})
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

// encryptFor is encrypt with a data directory. It returns what is printed, too.
func encryptFor(t *testing.T, dir string, b *bucket, key *sealed.Key) (*Encrypted, string, error) {
	t.Helper()
	var printed strings.Builder
	j := Job{Dir: dir, Stderr: &printed, Log: kvtest.Quiet}
	done, err := j.Encrypt(t.Context(), b, key, "s3://test/kist", false)
	return done, printed.String(), err
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

// watched is a bucket that tells of each change, and ends to work after some.
type watched struct {
	*bucket
	changed func()

	turn sync.Mutex // held during a change and what it is followed by
	left int        // changes until it ends; -1 for none
}

func (w *watched) change(fn func() error) error {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.left == 0 {
		return &blobs.Unfit{Text: "the process was killed"}
	}
	if w.left > 0 {
		w.left--
	}
	err := fn()
	w.changed()
	return err
}

func (w *watched) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return w.change(func() error { return w.bucket.Put(ctx, name, body, size) })
}

func (w *watched) Delete(ctx context.Context, name string) error {
	return w.change(func() error { return w.bucket.Delete(ctx, name) })
}

// texts are the values of all records that a restore gives.
func texts(t *testing.T, r blobs.Remote) string {
	t.Helper()
	var all strings.Builder
	got, err := ship.Rehearse(t.Context(), r, workcopy.Format, func() error { return nil }, func(ops []journal.Op) error {
		for _, op := range ops {
			all.Write(op.Value)
		}
		return nil
	})
	if err != nil || ship.Gives(got, nil) != "everything" {
		t.Fatal(ship.Gives(got, err))
	}
	return all.String()
}

// Another machine's server writes to the store while it is encrypted, between all changes of the command, which is cut
// short after each. What the server has acknowledged is in the encrypted store in the end, also if it runs on: it stops
// to acknowledge changes before they would be lost.
func TestEncryptUnderAWriter(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	key := keyOf(t, 1)
	for _, runsOn := range []bool{false, true} {
		steps := 0
		for ended := false; !ended; steps++ {
			b, dir, _ := stored(t)
			plain, _ := sealed.Plain(b)
			store, s, err := shipping(t, dir, plain)
			is.NoErr(err)
			s.Await()
			owner := kvtest.User(t, store, "bob").ID
			var acknowledged []string
			stopped := false
			note := func() {
				text := fmt.Sprintf("note %d of the server", len(acknowledged))
				err := store.Update(func(tx *kv.Tx) error {
					_, err := catalog.Add(tx, catalog.Draft{
						Owner: owner, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"`+text+`"}`),
					})
					return err
				})
				stopped = stopped || err != nil
				if err == nil {
					acknowledged = append(acknowledged, text)
				}
			}

			w := &watched{bucket: b, left: steps, changed: func() {
				if !stopped {
					note()
				}
			}}
			j := Job{Scratch: t.TempDir(), Stderr: io.Discard, Log: kvtest.Quiet}
			_, err = j.Encrypt(t.Context(), w, key, "s3://test/kist", false)
			ended = err == nil
			if !stopped {
				note()
			}
			if !runsOn {
				is.NoErr(store.Close())
			}
			_, err = encrypt(t, b, key, false)
			if err != nil {
				is.True(runsOn && strings.Contains(err.Error(), "server still writes"))
			}
			if runsOn {
				note()
				is.NoErr(store.Close())
				_, err = encrypt(t, b, key, false)
			}
			is.NoErr(err)

			with, _ := sealed.New(key, b)
			got := texts(t, with)
			for _, text := range acknowledged {
				if !strings.Contains(got, text) {
					t.Fatalf("cut after %d changes: %q is lost", steps, text)
				}
			}
			is.Equal(b.plainNames(), nil)
		}
		is.True(steps > 20)
		t.Logf("%d cuts", steps)
	}
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

// An operator who puts a plain store in the place of an encrypted one does not get it encrypted: the data directory
// knows that its store was. Without the data directory, a store that was encrypted and has plain objects beside that
// is refused.
func TestEncryptRefusesAReplacedStore(t *testing.T) {
	t.Parallel()
	key := keyOf(t, 1)
	before, dir, _ := stored(t)
	b := before.copied()
	_, err := encrypt(t, b, key, false)
	if err != nil {
		t.Fatal(err)
	}
	with, _ := sealed.New(key, b)
	store, s, err := shipping(t, dir, with)
	if err != nil {
		t.Fatal(err)
	}
	s.Await()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	foreign, other, _ := stored(t)
	half := foreign.copied()
	half.left = 15 // some way into the encryption
	_, _ = encrypt(t, half, key, false)
	half.left = -1

	mixed := func(plain *bucket) *bucket {
		m := b.copied()
		maps.Copy(m.objects, plain.objects)
		return m
	}
	const known = "This store was encrypted and has been replaced by a plain one. Do not encrypt it"
	const mix = "do not encrypt them"
	for _, c := range []struct {
		name string
		b    *bucket
		dir  string
		says string // by the command; "" if it encrypts
	}{
		{"the owner's, of before", before.copied(), dir, known},
		{"a foreign one", foreign.copied(), dir, known},
		{"a half encrypted one", half, dir, known},
		{"plain objects beside it", mixed(foreign), dir, known},
		{"plain objects beside it, and a new machine", mixed(foreign), filepath.Join(t.TempDir(), "none"), mix},
		{"the owner's, of before, beside it, and a new machine", mixed(before), filepath.Join(t.TempDir(), "none"), mix},
		{"another instance", before.copied(), other, "belongs to instance"},
		{"its own directory", foreign.copied(), other, ""},
		{"none here, and no scratch", foreign.copied(), filepath.Join(t.TempDir(), "none"), "with --scratch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			was := c.b.copied()
			if c.says == known { // the server does not advise to encrypt it
				with, _ := sealed.New(key, c.b)
				_, _, err := shipping(t, dir, with)
				is.True(err != nil && strings.Contains(err.Error(), known))
				plain, _ := sealed.Plain(c.b)
				_, _, err = shipping(t, dir, plain)
				is.True(err != nil && strings.Contains(err.Error(), "add --store-key-file"))
			}
			_, printed, err := encryptFor(t, c.dir, c.b, key)
			if c.says == "" {
				is.NoErr(err)
				is.True(strings.Contains(printed, "has the data of instance "))
				is.True(strings.Contains(printed, "the last change at "))
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
			is.Equal(c.b.objects, was.objects)
		})
	}
}

// The address may be used without encryption no more, also if nothing is there.
func TestSealedStoreStaysSealed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	empty := func() *bucket { return &bucket{objects: map[string][]byte{}, left: -1} }
	with, _ := sealed.New(keyOf(t, 1), empty())
	store, s, err := shipping(t, dir, with)
	is.NoErr(err)
	s.Await()
	is.NoErr(store.Close())

	b := empty()
	plain, _ := sealed.Plain(b)
	_, _, err = shipping(t, dir, plain)
	is.True(err != nil && strings.Contains(err.Error(), "add --store-key-file"))
	is.Equal(len(b.objects), 0)
	with, _ = sealed.New(keyOf(t, 1), b) // an empty one is filled again
	store, s, err = shipping(t, dir, with)
	is.NoErr(err)
	s.Await()
	is.NoErr(store.Close())
	is.Equal(b.plainNames(), nil)
}

// Once all is encrypted and read back, a run that goes on takes nothing but contents from what is not encrypted.
func TestEncryptGoesOnWithItsOwn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	key := keyOf(t, 1)
	whole, _, want := stored(t)
	done := func() *bucket { // cut short at the beginning of the removal
		for left := 1; ; left++ {
			b := whole.copied()
			b.left = left
			_, err := encrypt(t, b, key, false)
			b.left = -1
			is.True(err != nil)
			state, err := sealed.Look(t.Context(), b, key)
			is.NoErr(err)
			if state.Done {
				return b
			}
		}
	}
	foreign, _, _ := stored(t)
	late := "log/00000000000000ff"

	b := done()
	b.objects[late] = foreign.objects["log/0000000000000001"]
	_, err := encrypt(t, b, key, false)
	is.True(err != nil && strings.Contains(err.Error(), late+" was put into the object store while it was encrypted"))
	with := sealed.Beside(key, b)
	_, err = with.Head(t.Context(), late)
	is.True(errors.Is(err, fs.ErrNotExist))
	delete(b.objects, late)
	_, err = encrypt(t, b, key, false)
	is.NoErr(err)
	is.Equal(state(t, with), want)
	is.Equal(b.plainNames(), nil)

	b = done() // the mark of the key is right, and nothing else
	b.objects["meta"] = append(bytes.Clone(b.objects["meta"][:48]), b.objects["sealed/moving"][48:]...)
	before := b.copied()
	_, err = encrypt(t, b, key, false)
	is.True(err != nil && strings.Contains(err.Error(), "has not made what is there"))
	is.Equal(b.objects, before.objects)
}

// What a run keeps on the disk is in the data directory, where the next one finds it, and not in a folder for
// everybody.
func TestEncryptScratch(t *testing.T) {
	is := is.New(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	b, dir, _ := stored(t)
	left := filepath.Join(dir, "cache", "scratch-left")
	is.NoErr(os.MkdirAll(left, 0o700))
	is.NoErr(os.WriteFile(filepath.Join(left, "owner"), nil, 0o600))
	_, _, err := encryptFor(t, dir, b, keyOf(t, 1))
	is.NoErr(err)
	all, err := filepath.Glob(filepath.Join(dir, "cache", "scratch-*"))
	is.NoErr(err)
	is.Equal(all, nil)
}

// After the store was closed for servers, the advice about damage is one that can be followed.
func TestEncryptDamagedLate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	key := keyOf(t, 1)
	b, _, want := stored(t)
	b.left = 7 // five contents, what keeps servers off, the fence
	_, err := encrypt(t, b, key, false)
	is.True(err != nil)
	b.left = -1
	is.True(b.objects["sealed/moving"] != nil)
	bad := []byte("marker of a late one")
	b.objects[hashed(bad).RemoteName()] = bytes.ToUpper(bad)
	_, err = encrypt(t, b, key, false)
	is.True(err != nil && strings.Contains(err.Error(), "again with --leave-damaged"))
	is.True(!strings.Contains(err.Error(), "without --store-key-file"))
	_, err = encrypt(t, b, key, true)
	is.NoErr(err)
	with, _ := sealed.New(key, b)
	is.Equal(state(t, with), want)
}
