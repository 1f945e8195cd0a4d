package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// TagRows is the table of tags.
var TagRows = func() *table.Table[record.Tag] {
	all := kv.JsonTable(tagBucket, func(t *record.Tag) []byte { return kv.OwnedKey(t.Owner, t.ID[:]...) },
		table.Index[record.Tag]{Bucket: tagName, Name: "tag", Unique: true, Keys: func(t *record.Tag, file func([]byte)) {
			file(kv.OwnedNameKey(t.Owner, t.Name))
		}})
	all.Bytes = func(t *record.Tag, length int) (table.Bucket, []byte, int) { return kv.TextSum(t.Owner, length) }
	return all
}()

// FolderRows is the table of folders.
var FolderRows = func() *table.Table[record.Folder] {
	all := kv.JsonTable(folderBucket, func(f *record.Folder) []byte { return kv.OwnedKey(f.Owner, f.ID[:]...) },
		table.Index[record.Folder]{Bucket: folderName, Name: "folder", Unique: true, Keys: func(f *record.Folder, file func([]byte)) {
			file(kv.OwnedNameKey(f.Owner, f.Name))
		}})
	all.Bytes = func(f *record.Folder, length int) (table.Bucket, []byte, int) { return kv.TextSum(f.Owner, length) }
	return all
}()

// TagTable keeps tags.
var TagTable = kv.Table{
	Buckets: []table.Bucket{tagBucket, tagName},
	Check:   people.CheckOwned(TagRows, "tag"),
	Refill: kv.RefillRows(TagRows, kv.Mending[record.Tag]{
		Mend:   func(r *kv.Refill, t *record.Tag) error { return people.StandIn(r, t.Owner) },
		Rename: func(r *kv.Refill, t *record.Tag) error { return r.Rename(&t.Name, "tag", t.ID) },
	}),
	Drop: kv.DropRows(TagRows),
	Text: kv.RowText(tagBucket),
}

// FolderTable keeps folders.
var FolderTable = kv.Table{
	Buckets: []table.Bucket{folderBucket, folderName},
	Check:   people.CheckOwned(FolderRows, "folder"),
	Refill: kv.RefillRows(FolderRows, kv.Mending[record.Folder]{
		Mend:   func(r *kv.Refill, f *record.Folder) error { return people.StandIn(r, f.Owner) },
		Rename: func(r *kv.Refill, f *record.Folder) error { return r.Rename(&f.Name, "folder", f.ID) },
	}),
	Drop: kv.DropRows(FolderRows),
	Text: kv.RowText(folderBucket),
}

// Tags lists the owner's tags, oldest first.
func Tags(tx *kv.Tx, owner record.ID) ([]record.Tag, error) { return kv.Collect(TagRows, tx, owner[:]) }

// tagCache caches tags by id.
var tagCache kv.Cache[sync.Map]

// tag reads a tag of a record. Views share cached tags until a commit changes a tag.
func tag(tx *kv.Tx, owner, id record.ID) (record.Tag, error) {
	kept := tagCache.In(tx)
	if kept != nil {
		if t, ok := kept.Load(id); ok {
			return t.(record.Tag), nil //nolint:errcheck // every value is a tag
		}
	}
	t, err := Tag(tx, owner, id)
	if err != nil {
		return record.Tag{}, err
	}
	if kept != nil {
		kept.Store(id, *t)
	}
	return *t, nil
}

// Tag reads one of the owner's tags.
func Tag(tx *kv.Tx, owner, id record.ID) (*record.Tag, error) {
	t, err := TagRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return t, kv.UserError(err, "tag")
}

// TagNamed reads the owner's tag with the name, ignoring case.
func TagNamed(tx *kv.Tx, owner record.ID, name string) (*record.Tag, error) {
	t, err := TagRows.Find(tx.Tx, tagName, kv.OwnedNameKey(owner, name))
	return t, kv.UserError(err, "tag")
}

// TagNames yields the ids and names of the owner's tags, in the order of the names.
// The names are folded by record.Fold.
func TagNames(tx *kv.Tx, owner record.ID) iter.Seq2[record.ID, string] {
	return func(yield func(record.ID, string) bool) {
		for k, v := range tx.Walk(tagName, owner[:], nil, false) {
			if len(v) == 2*len(owner) && !yield(record.ID(v[len(owner):]), string(k[len(owner):])) {
				return
			}
		}
	}
}

// AddTag creates a tag; Taken if the owner has one of that name, Denied if there are
// MaxOwnTags or it does not fit the owner's quota.
func AddTag(tx *kv.Tx, owner record.ID, name, color string) (*record.Tag, error) {
	before := tx.Text(owner)
	if tx.Get(tagName, kv.OwnedNameKey(owner, name)) == nil && tagsLeft(tx, owner) == 0 {
		return nil, errTooManyTags
	}
	t, err := makeTag(tx, owner, name, color)
	if err != nil {
		return nil, err
	}
	return t, people.ChargeText(tx, owner, before)
}

var errTooManyTags = kv.TooMany("tags", "too_many_tags", record.MaxOwnTags)

// tagsLeft is how many more tags the owner may have. It walks over all of their names.
func tagsLeft(tx *kv.Tx, owner record.ID) int {
	left := record.MaxOwnTags
	for range tx.Walk(tagName, owner[:], nil, false) {
		if left--; left == 0 {
			break
		}
	}
	return left
}

// makeTag is AddTag without the bound and the charge: its text is charged with that of its
// record.
func makeTag(tx *kv.Tx, owner record.ID, name, color string) (*record.Tag, error) {
	if err := people.RequireOwner(tx, owner); err != nil {
		return nil, err
	}
	t := &record.Tag{ID: tx.NewID(), Owner: owner, Name: name, Color: cmp.Or(color, record.ColorOf(name)), Created: tx.Now}
	return t, kv.UserError(TagRows.Put(tx.Tx, t), "tag")
}

// SaveTag changes a tag, which must have been read in the same transaction.
// Records refer to it by id, so a new name shows on all of them at once. It fails as
// AddTag does.
func SaveTag(tx *kv.Tx, t *record.Tag) error {
	before := tx.Text(t.Owner)
	tagCache.Drop(tx)
	if err := TagRows.Put(tx.Tx, t); err != nil {
		return kv.UserError(err, "tag")
	}
	return people.ChargeText(tx, t.Owner, before)
}

// tagIDs finds the owner's tags with the given names and creates the missing ones.
func tagIDs(tx *kv.Tx, owner record.ID, names []string) ([]record.ID, error) {
	var ids []record.ID
	left := -1 // not known yet
	for _, name := range names {
		var id record.ID
		if key := tx.Get(tagName, kv.OwnedNameKey(owner, name)); key != nil {
			id = record.ID(key[len(owner):])
		} else {
			if left < 0 {
				left = tagsLeft(tx, owner)
			}
			if left--; left < 0 {
				return nil, errTooManyTags
			}
			t, err := makeTag(tx, owner, name, "")
			if err != nil {
				return nil, err
			}
			id = t.ID
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// TagCounts counts the records that have the tag, by kind.
func TagCounts(tx *kv.Tx, t *record.Tag) map[string]int64 {
	counts := map[string]int64{}
	for _, k := range record.Kinds {
		counts[k.Name] = RecordRows.Sum(tx.Tx, facet{hasTag, t.ID}.key(t.Owner, k))
	}
	return counts
}

// RemoveTag removes a tag from all records, in several transactions, and then deletes
// it. If into is another tag of the owner's, the records get that one instead: the
// two are merged.
func RemoveTag(s *kv.Store, owner, id, into record.ID) error {
	if id == into {
		return record.Bad(map[string]string{"into": "must be another tag"})
	}
	check := func(tx *kv.Tx) error {
		_, err := Tag(tx, owner, id)
		if err == nil && into != uuid.Nil {
			if _, missing := Tag(tx, owner, into); missing != nil {
				err = record.Bad(map[string]string{"into": "names a tag that you do not have"})
			}
		}
		return err
	}
	if err := retag(s, owner, facet{showsAll, id}, check, relive(id, into), func(*kv.Tx) error { return nil }); err != nil {
		return err
	}
	return retag(s, owner, facet{hasTag, id}, check, func(r *record.Record) {
		if i := slices.Index(r.Tags, into); into != uuid.Nil && i < 0 {
			r.Tags[slices.Index(r.Tags, id)] = into
		} else {
			r.Tags = slices.DeleteFunc(r.Tags, func(t record.ID) bool { return t == id })
		}
	}, func(tx *kv.Tx) error {
		_, err := TagRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
		return kv.UserError(err, "tag")
	})
}

// relive gives collections over a folder or a tag another one. If that is zero, they have
// no items until their owner picks some.
func relive(id, into record.ID) func(*record.Record) {
	return func(r *record.Record) {
		b, err := r.Decode()
		if err != nil { // a damaged row has no facet
			return
		}
		c := b.(*record.Collection) // nothing else has the facet
		if c.Folder == id {
			c.Folder = into
		} else {
			c.Tag = into
		}
		r.SetBody(c)
	}
}

// retag changes every record that has the facet, one batch per transaction. The
// transaction that finds no more of them also calls end.
func retag(s *kv.Store, owner record.ID, l facet, check func(*kv.Tx) error, change func(*record.Record), end func(*kv.Tx) error) error {
	for {
		done := false
		err := s.Update(func(tx *kv.Tx) error {
			if err := check(tx); err != nil {
				return err
			}
			var some []*record.Record
			for _, k := range record.Kinds {
				prefix := l.key(owner, k)
				for e := range tx.Walk(recordFacet, prefix, nil, false) {
					if len(some) == kv.RemoveBatch {
						break
					}
					r, err := RecordRows.Get(tx.Tx, record.RowKey(owner, k, record.ID(e[len(prefix):])))
					if err != nil {
						return fmt.Errorf("facet %x: %w", e, err)
					}
					some = append(some, r)
				}
			}
			for _, r := range some {
				change(r)
				if err := save(tx, r); err != nil {
					return err
				}
			}
			if done = len(some) < kv.RemoveBatch; done {
				return end(tx)
			}
			return nil
		})
		if err != nil || done {
			return err
		}
	}
}

// Folders lists the owner's folders, oldest first.
func Folders(tx *kv.Tx, owner record.ID) ([]record.Folder, error) {
	return kv.Collect(FolderRows, tx, owner[:])
}

// Folder reads one of the owner's folders.
func Folder(tx *kv.Tx, owner, id record.ID) (*record.Folder, error) {
	f, err := FolderRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return f, kv.UserError(err, "folder")
}

// FolderNamed reads the owner's folder with the name, ignoring case.
func FolderNamed(tx *kv.Tx, owner record.ID, name string) (*record.Folder, error) {
	f, err := FolderRows.Find(tx.Tx, folderName, kv.OwnedNameKey(owner, name))
	return f, kv.UserError(err, "folder")
}

// AddFolder creates a folder; Taken if the owner has one of that name.
func AddFolder(tx *kv.Tx, owner record.ID, name, color string) (*record.Folder, error) {
	before := tx.Text(owner)
	f, err := addFolder(tx, owner, name, color)
	if err != nil {
		return nil, err
	}
	return f, people.ChargeText(tx, owner, before)
}

// addFolder is AddFolder without the charge.
func addFolder(tx *kv.Tx, owner record.ID, name, color string) (*record.Folder, error) {
	if err := people.RequireOwner(tx, owner); err != nil {
		return nil, err
	}
	if tx.Get(folderName, kv.OwnedNameKey(owner, name)) == nil {
		if err := tx.CheckBound(folderBucket, owner, "folders", "too_many_folders"); err != nil {
			return nil, err
		}
	}
	f := &record.Folder{ID: tx.NewID(), Owner: owner, Name: name, Color: cmp.Or(color, record.ColorOf(name)), Created: tx.Now}
	return f, kv.UserError(FolderRows.Put(tx.Tx, f), "folder")
}

// SaveFolder changes a folder, which must have been read in the same
// transaction.
func SaveFolder(tx *kv.Tx, f *record.Folder) error {
	before := tx.Text(f.Owner)
	if err := FolderRows.Put(tx.Tx, f); err != nil {
		return kv.UserError(err, "folder")
	}
	return people.ChargeText(tx, f.Owner, before)
}

// folderID finds or creates a folder for a file. Its own few bytes are not charged: the
// file was, when it began to arrive, and must not be refused at its end.
func folderID(tx *kv.Tx, owner record.ID, name string) (record.ID, error) {
	f, err := FolderRows.Find(tx.Tx, folderName, kv.OwnedNameKey(owner, name))
	if errors.Is(err, table.ErrMissing) {
		f, err = addFolder(tx, owner, name, "")
	}
	if err != nil {
		return uuid.Nil, err
	}
	return f.ID, nil
}

// FolderCount counts the files in the folder.
func FolderCount(tx *kv.Tx, f *record.Folder) int64 {
	return RecordRows.Sum(tx.Tx, facet{inFolder, f.ID}.key(f.Owner, record.Files))
}

// RemoveFolder deletes a folder. Its files stay, in no folder.
func RemoveFolder(s *kv.Store, owner, id record.ID) error {
	check := func(tx *kv.Tx) error {
		_, err := Folder(tx, owner, id)
		return err
	}
	if err := retag(s, owner, facet{showsAll, id}, check, relive(id, uuid.Nil), func(*kv.Tx) error { return nil }); err != nil {
		return err
	}
	return retag(s, owner, facet{inFolder, id}, check, func(r *record.Record) { r.Folder = uuid.Nil }, func(tx *kv.Tx) error {
		_, err := FolderRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
		return kv.UserError(err, "folder")
	})
}
