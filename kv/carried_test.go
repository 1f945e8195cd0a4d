package kv_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// contentIn opens the blobs of a store, with all their folders.
func contentIn(t *testing.T, dir string) *blobs.Store {
	t.Helper()
	is := is.New(t)
	for i := range 256 {
		is.NoErr(os.MkdirAll(filepath.Join(dir, "blobs", fmt.Sprintf("%02x", i)), 0o700))
	}
	content, err := blobs.OpenIn(dir)
	is.NoErr(err)
	return content
}

// store makes a file with the content, as an upload does.
func storeSmall(t *testing.T, s *kv.Store, content *blobs.Store, owner record.ID, b []byte) (carried bool, err error) {
	t.Helper()
	is := is.New(t)
	st, err := content.StageSmall()
	is.NoErr(err)
	_, err = st.Write(b)
	is.NoErr(err)
	kept, err := st.KeepLater()
	is.NoErr(err)
	defer kept.Release()
	f := kvtest.Form(t, record.Files, `{}`)
	return kept.Bytes != nil, s.Update(func(tx *kv.Tx) error {
		tx.Carry(kept)
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: owner, Kind: record.Files, Form: f, Content: &record.Content{Ref: kept.Ref, Size: kept.Size},
		})
		return err
	})
}

// carriedIn returns what the journal carries since its newest snapshot.
func carriedIn(t *testing.T, dir string) map[[32]byte]bool {
	t.Helper()
	is := is.New(t)
	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	is.NoErr(err)
	defer j.Close()
	done, err := j.Replay(func() error { return nil }, func([]journal.Op) error { return nil })
	is.NoErr(err)
	all := map[[32]byte]bool{}
	is.NoErr(j.Records(done.Snapshot, workcopy.Carried(func(ref [32]byte, b []byte) error {
		is.Equal(sha256.Sum256(b), ref)
		all[ref] = true
		return nil
	})))
	return all
}

// spoil leaves of the file what a power cut may leave of one that was not synced.
func spoil(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		switch rand.IntN(4) {
		case 0:
			err = os.Remove(path)
		case 1:
			err = os.WriteFile(path, make([]byte, len(b)), 0o600)
		case 2:
			err = os.Truncate(path, int64(rand.IntN(len(b)+1)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// After a power cut at any moment every file has its bytes: those that a snapshot
// does not cover come from the journal.
func TestCarriedContents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	content := contentIn(t, dir)
	defer content.Close()
	var all [][]byte
	for i := range 40 {
		b := bytes.Repeat([]byte{byte(i)}, i*400)
		carried, err := storeSmall(t, s, content, u.ID, b)
		is.NoErr(err)
		is.True(carried)
		all = append(all, b)
		if i == 20 {
			is.NoErr(s.Compact())
			is.Equal(len(carriedIn(t, dir)), 0) // the snapshot does not have them, and all are synced
		}
		if i%8 != 7 {
			continue
		}
		left := kvtest.LeftOf(t, s)
		is.NoErr(os.CopyFS(filepath.Join(left, "blobs"), os.DirFS(filepath.Join(dir, "blobs"))))
		for ref := range carriedIn(t, left) {
			spoil(t, filepath.Join(left, "blobs", blobs.Ref(ref).String()[:2], blobs.Ref(ref).String()))
		}
		again := kvtest.OpenAt(t, left, nil)
		is.NoErr(again.Close())
		has, err := blobs.Read(filepath.Join(left, "blobs"))
		is.NoErr(err)
		for _, b := range all {
			is.NoErr(has.Check(sha256.Sum256(b)))
		}
		is.NoErr(has.Close())
		_, err = os.Lstat(filepath.Join(left, "journal", journal.CarriedName))
		is.True(errors.Is(err, fs.ErrNotExist)) // after a clean stop an older program may continue
	}
	kvtest.View(t, s, kvtest.Audit)
}

// Only what gets its record is carried.
func TestCarriedWithItsRecord(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.Opened(t, dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	u := kvtest.User(t, s, "ann")
	content := contentIn(t, dir)
	defer content.Close()
	_, err := storeSmall(t, s, content, record.ID{1}, []byte("of nobody"))
	is.True(err != nil)
	is.Equal(len(carriedIn(t, dir)), 0)
	const n = 6
	for i := range n {
		_, err = storeSmall(t, s, content, u.ID, bytes.Repeat([]byte{byte(i)}, blobs.SmallContent))
		is.NoErr(err)
	}
	is.Equal(len(carriedIn(t, dir)), n)
}

// If the files cannot be synced, there is no new snapshot, and the stop is not clean.
func TestCarriedUnsettled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.NoErr(err)
	u := kvtest.User(t, s, "ann")
	content := contentIn(t, dir)
	b := []byte("in the way")
	_, err = storeSmall(t, s, content, u.ID, b)
	is.NoErr(err)
	ref := blobs.Ref(sha256.Sum256(b)).String()
	path := filepath.Join(dir, "blobs", ref[:2], ref)
	is.NoErr(os.Remove(path))
	is.NoErr(os.Mkdir(path, 0o700)) // this cannot be synced as a blob
	is.True(errors.Is(s.Compact(), blobs.ErrDamaged))
	is.True(errors.Is(content.Close(), blobs.ErrDamaged))
	is.True(s.Close() != nil)
	_, err = os.Lstat(filepath.Join(dir, "CLEAN"))
	is.True(errors.Is(err, fs.ErrNotExist))

	kvtest.OpenAt(t, dir, nil)
	got, err := os.ReadFile(path)
	is.NoErr(err)
	is.Equal(got, b)
}
