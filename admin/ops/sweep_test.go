package ops_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/admin/ops"
	"kist/blobs"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
)

// However many have to stay, those after them are reached.
func TestSweepBeyondABatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	store, err := kv.Open(dir, kv.Options{Schema: tables.All})
	is.NoErr(err)
	defer store.Close()
	content, err := blobs.Open(filepath.Join(dir, "blobs"))
	is.NoErr(err)
	defer content.Close()

	last := blobs.Ref{0xff}
	refs := []blobs.Ref{last}
	for i := range 250 {
		ref := blobs.Ref{1, byte(i)}
		refs = append(refs, ref)
		is.NoErr(os.MkdirAll(filepath.Join(dir, "blobs", "01", ref.String()), 0o700)) // cannot be removed as a blob
	}
	is.NoErr(os.MkdirAll(filepath.Join(dir, "blobs", "ff"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "blobs", "ff", last.String()), []byte("last"), 0o600))
	is.NoErr(store.Update(func(tx *kv.Tx) error {
		u, err := people.AddUser(tx, people.User{Name: "ann", Role: people.Admin, Quota: -1})
		for i := 0; err == nil && i < len(refs); i++ {
			form := record.NewForm(record.Files)
			form.Body.(*record.File).OriginalName = "x"
			var r *record.Record
			r, err = catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Files, Form: form, Content: &record.Content{Ref: refs[i], Size: 4},
			})
			if err == nil {
				err = catalog.Remove(tx, r)
			}
		}
		return err
	}))

	s := &ops.Sweeper{Store: store, Blobs: content, Log: slog.New(slog.DiscardHandler)}
	swept, err := s.Sweep(t.Context(), false)
	is.True(err != nil && len(err.Error()) < 1000) // one sentence, however many there are
	is.Equal(swept, ops.Swept{Blobs: 1, Bytes: 4, Failed: 250})
	left := 0
	is.NoErr(store.View(func(tx *kv.Tx) error { left = len(catalog.UnreferencedRefs(tx, store.Now(), 1000)); return nil }))
	is.Equal(left, 250)
}
