package catalog

import (
	"errors"

	"kist/kv"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// The earlier bytes of a file are rows of the trash: they are kept as long as what was deleted, count in the same
// way, and can become files of their own. Removal.Of names their file.

// versionKey is the key of a version of a file in trashVersion. Without an id it is the prefix of all of them.
func versionKey(owner, of record.ID, id ...byte) []byte {
	return kv.OwnedKey(owner, append(of[:], id...)...)
}

// Replace gives a file other bytes under the same link, with their name and type from b. Its description stays. by
// names the browser, key or device that sent them. The former bytes go to the trash as a version of the file; while
// the trash is off, they are gone. Bytes that the file has already make no version. Replace fails with Denied if this
// does not fit the owner's quota, and with ErrFull while the disk is full.
func Replace(tx *kv.Tx, r *record.Record, b *record.File, content *record.Content, by string) error {
	if tx.DiskFull() {
		return kv.ErrFull
	}
	if err := checkRecordBound(tx, r.Owner); err != nil {
		return err
	}
	before := people.ChargedBytes(tx, r.Owner)

	if err := replace(tx, r, b, content, by); err != nil {
		return err
	}
	if people.ChargedBytes(tx, r.Owner) > before {
		return people.Charge(tx, r.Owner, 0)
	}
	return nil
}

// RestoreFileVersion is Replace with the bytes, the name and the type of a version of the file, which the trash then
// no longer has. Both count already, so the quota does not refuse it.
func RestoreFileVersion(tx *kv.Tx, r *record.Record, id record.ID, by string) error {
	t, err := fileVersion(tx, r, id)
	if err != nil {
		return err
	}
	b, err := t.Decode()
	if err != nil {
		return err
	}
	if _, err := TrashRows.Delete(tx.Tx, t.Key()); err != nil {
		return err
	}
	return replace(tx, r, b.(*record.File), t.Bytes, by) // the kind says so
}

// replace is Replace without the quota.
func replace(tx *kv.Tx, r *record.Record, b *record.File, content *record.Content, by string) error {
	now, err := r.Decode()
	if err != nil {
		return err
	}
	set, err := people.ReadSettings(tx)
	if err != nil {
		return err
	}
	former := r.Bytes.Ref
	changes := content.Ref != former
	if changes && set.TrashDays > 0 {
		if err := keepFileVersion(tx, r, by); err != nil {
			return err
		}
	}

	if !changes {
		same := *content
		same.Photo = r.Bytes.Photo
		if r.Bytes.Metadata.Rules < photoRules {
			same.Photo.FillIn(content.Photo)
		}
		content = &same
	}
	next := *b
	was := now.(*record.File) // the kind says so
	next.Description, next.Uploader = was.Description, was.Uploader
	r.Bytes, r.Updated = content, tx.Now
	r.SetBody(&next)
	if err := save(tx, r); err != nil {
		return err
	}
	if changes {
		if err := tx.Delete(UnreferencedBucket, content.Ref[:]); err != nil {
			return err
		}
		if err := letGo(tx, former); err != nil {
			return err
		}
		if content.Metadata.Rules < photoRules {
			unexamined.Raise(tx)
		}
	}
	return emit(tx, jobs.Edited(r.Kind), r)
}

// keepFileVersion puts the present bytes of a file into the trash, as a version of it. Beyond history.MaxVersions,
// the oldest version is deleted.
func keepFileVersion(tx *kv.Tx, r *record.Record, by string) error {
	t := &record.Trashed{Record: *r, Removal: record.Removal{At: tx.Now, By: by, Of: r.ID}}
	t.ID, t.Seq, t.Share = tx.NewID(), 0, record.Share{Slug: NewSlug(tx)}
	if err := TrashRows.Put(tx.Tx, t); err != nil {
		return err
	}
	all := fileVersionKeys(tx, r)
	for _, key := range all[:max(0, len(all)-history.MaxVersions)] {
		if err := purge(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// fileVersionKeys are the keys in the trash of the versions of a record, the oldest first. Only files have any.
func fileVersionKeys(tx *kv.Tx, r *record.Record) (keys [][]byte) {
	prefix := versionKey(r.Owner, r.ID)
	for key := range tx.Walk(trashVersion, prefix, nil, false) {
		keys = append(keys, record.RowKey(r.Owner, record.Files, record.ID(key[len(prefix):])))
	}
	return keys
}

// FileVersions lists the earlier bytes of a file, latest first.
func FileVersions(tx *kv.Tx, r *record.Record) ([]record.Version, error) {
	keys := fileVersionKeys(tx, r)
	all := make([]record.Version, len(keys))
	for i, key := range keys {
		t, err := TrashRows.Get(tx.Tx, key)
		if err != nil {
			return nil, err
		}
		all[len(keys)-1-i] = versionOf(t)
	}
	return all, nil
}

// FileVersion reads what is known about earlier bytes of a file.
func FileVersion(tx *kv.Tx, r *record.Record, id record.ID) (*record.Version, error) {
	t, err := fileVersion(tx, r, id)
	if err != nil {
		return nil, err
	}
	v := versionOf(t)
	v.Body = t.Body
	return &v, nil
}

func versionOf(t *record.Trashed) record.Version {
	return record.Version{ID: t.ID, VersionHead: record.VersionHead{At: t.At, By: t.By}, Size: t.Bytes.Size}
}

// fileVersion reads earlier bytes of a file from the trash.
func fileVersion(tx *kv.Tx, r *record.Record, id record.ID) (*record.Trashed, error) {
	t, err := TrashRows.Get(tx.Tx, record.RowKey(r.Owner, record.Files, id))
	if errors.Is(err, table.ErrMissing) {
		return nil, record.NotFound("version")
	}
	if err != nil {
		return nil, err
	}
	if t.Of != r.ID {
		return nil, record.NotFound("version")
	}
	return t, nil
}

// letGo marks content that a record no longer has, unless something else uses it.
func letGo(tx *kv.Tx, ref [32]byte) error {
	if err := MarkUnreferenced(tx, ref); err != nil {
		return err
	}
	return dropCRCs(tx, ref)
}
