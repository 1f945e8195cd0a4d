package kv

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/google/uuid"

	"kist/kv/record"
	"kist/kv/table"
)

var tags = func() *table.Table[record.Tag] {
	all := jsonTable(tagBucket, func(t *record.Tag) []byte { return ownedKey(t.Owner, t.ID[:]...) },
		table.Index[record.Tag]{Bucket: tagName, Name: "tag", Unique: true, Keys: func(t *record.Tag, file func([]byte)) {
			file(ownedNameKey(t.Owner, t.Name))
		}})
	all.Bytes = func(t *record.Tag, length int) (table.Bucket, []byte, int) { return textSum(t.Owner, length) }
	return all
}()

var folders = jsonTable(folderBucket, func(f *record.Folder) []byte { return ownedKey(f.Owner, f.ID[:]...) },
	table.Index[record.Folder]{Bucket: folderName, Name: "folder", Unique: true, Keys: func(f *record.Folder, file func([]byte)) {
		file(ownedNameKey(f.Owner, f.Name))
	}})

var tagTable = Table{
	Buckets: []table.Bucket{tagBucket, tagName},
	Check:   checkOwned(tags, "tag"),
	Refill: refillRows(tags, mending[record.Tag]{
		mend:   func(r *Refill, t *record.Tag) error { return standIn(r, t.Owner) },
		rename: func(r *Refill, t *record.Tag) error { return r.rename(&t.Name, "tag", t.ID) },
	}),
	Paid: []table.Bucket{tagBucket, tagName},
	Drop: dropRows(tags),
	Text: rowText(tagBucket),
}

var folderTable = Table{
	Buckets: []table.Bucket{folderBucket, folderName},
	Check:   checkOwned(folders, "folder"),
	Refill: refillRows(folders, mending[record.Folder]{
		mend:   func(r *Refill, f *record.Folder) error { return standIn(r, f.Owner) },
		rename: func(r *Refill, f *record.Folder) error { return r.rename(&f.Name, "folder", f.ID) },
	}),
	Paid: []table.Bucket{folderBucket, folderName},
	Drop: dropRows(folders),
}

// Tags lists the owner's tags, oldest first.
func (tx *Tx) Tags(owner record.ID) ([]record.Tag, error) { return collect(tags, tx, owner[:]) }

// tag reads a tag that a record has. A View takes it from what earlier ones
// read, until a commit changes a tag.
func (tx *Tx) tag(owner, id record.ID) (record.Tag, error) {
	if tx.known != nil {
		if t, ok := tx.known.Load(id); ok {
			return t.(record.Tag), nil //nolint:errcheck // nothing else is in it
		}
	}
	t, err := tx.Tag(owner, id)
	if err != nil {
		return record.Tag{}, err
	}
	if tx.known != nil {
		tx.known.Store(id, *t)
	}
	return *t, nil
}

// Tag reads one of the owner's tags.
func (tx *Tx) Tag(owner, id record.ID) (*record.Tag, error) {
	t, err := tags.Get(tx.Tx, ownedKey(owner, id[:]...))
	return t, userError(err, "tag")
}

// TagNamed reads the owner's tag with the name, in any case.
func (tx *Tx) TagNamed(owner record.ID, name string) (*record.Tag, error) {
	t, err := tags.Find(tx.Tx, tagName, ownedNameKey(owner, name))
	return t, userError(err, "tag")
}

// TagNames yields the ids of the owner's tags and their names, folded as
// record.Fold does, in the order of the names.
func (tx *Tx) TagNames(owner record.ID) iter.Seq2[record.ID, string] {
	return func(yield func(record.ID, string) bool) {
		for k, v := range tx.Walk(tagName, owner[:], nil, false) {
			if len(v) == 2*len(owner) && !yield(record.ID(v[len(owner):]), string(k[len(owner):])) {
				return
			}
		}
	}
}

// AddTag makes a tag; Taken if the owner has one of that name, Denied if it does
// not fit the owner's quota.
func (tx *Tx) AddTag(owner record.ID, name, color string) (*record.Tag, error) {
	before := tx.text(owner)
	t, err := tx.makeTag(owner, name, color)
	if err != nil {
		return nil, err
	}
	return t, tx.chargeText(owner, before)
}

// makeTag is AddTag of a tag whose text is charged with the record that it is for.
func (tx *Tx) makeTag(owner record.ID, name, color string) (*record.Tag, error) {
	if err := tx.requireOwner(owner); err != nil {
		return nil, err
	}
	if color == "" {
		color = record.DefaultColor
	}
	t := &record.Tag{ID: tx.NewID(), Owner: owner, Name: name, Color: color, Created: tx.Now}
	return t, userError(tags.Put(tx.Tx, t), "tag")
}

// SaveTag changes a tag, which must have been read in the same transaction.
// Records name it by id, so that a new name shows on all of them at once. It fails
// as AddTag does.
func (tx *Tx) SaveTag(t *record.Tag) error {
	before := tx.text(t.Owner)
	tx.renamed = true
	if err := tags.Put(tx.Tx, t); err != nil {
		return userError(err, "tag")
	}
	return tx.chargeText(t.Owner, before)
}

// tagIDs finds the owner's tags of the given names and makes those that are
// not there.
func (tx *Tx) tagIDs(owner record.ID, names []string) ([]record.ID, error) {
	var ids []record.ID
	for _, name := range names {
		var id record.ID
		if key := tx.Get(tagName, ownedNameKey(owner, name)); key != nil {
			id = record.ID(key[len(owner):])
		} else {
			t, err := tx.makeTag(owner, name, "")
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
func (tx *Tx) TagCounts(t *record.Tag) map[string]int64 {
	counts := map[string]int64{}
	for _, k := range record.Kinds {
		counts[k.Name] = records.Sum(tx.Tx, facet{hasTag, t.ID}.key(t.Owner, k))
	}
	return counts
}

// RemoveTag takes a tag off all records, in several transactions, and then
// away. Given another tag of the owner's, those records get that one in its
// place: the two are merged.
func (s *Store) RemoveTag(owner, id, into record.ID) error {
	if id == into {
		return record.Bad(map[string]string{"into": "must be another tag"})
	}
	check := func(tx *Tx) error {
		_, err := tx.Tag(owner, id)
		if err == nil && into != uuid.Nil {
			if _, missing := tx.Tag(owner, into); missing != nil {
				err = record.Bad(map[string]string{"into": "names a tag that you do not have"})
			}
		}
		return err
	}
	return s.retag(owner, facet{hasTag, id}, check, func(r *record.Record) {
		if i := slices.Index(r.Tags, into); into != uuid.Nil && i < 0 {
			r.Tags[slices.Index(r.Tags, id)] = into
		} else {
			r.Tags = slices.DeleteFunc(r.Tags, func(t record.ID) bool { return t == id })
		}
	}, func(tx *Tx) error {
		_, err := tags.Delete(tx.Tx, ownedKey(owner, id[:]...))
		return userError(err, "tag")
	})
}

// retag changes every record that has the label, a batch at a time, and
// ends with the transaction that finds none left.
func (s *Store) retag(owner record.ID, l facet, check func(*Tx) error, change func(*record.Record), end func(*Tx) error) error {
	for {
		done := false
		err := s.Update(func(tx *Tx) error {
			if err := check(tx); err != nil {
				return err
			}
			var some []*record.Record
			for _, k := range record.Kinds {
				prefix := l.key(owner, k)
				for e := range tx.Walk(recordFacet, prefix, nil, false) {
					if len(some) == removeBatch {
						break
					}
					r, err := records.Get(tx.Tx, record.RowKey(owner, k, record.ID(e[len(prefix):])))
					if err != nil {
						return fmt.Errorf("label %x: %w", e, err)
					}
					some = append(some, r)
				}
			}
			for _, r := range some {
				change(r)
				if err := tx.save(r); err != nil {
					return err
				}
			}
			if done = len(some) < removeBatch; done {
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
func (tx *Tx) Folders(owner record.ID) ([]record.Folder, error) {
	return collect(folders, tx, owner[:])
}

// Folder reads one of the owner's folders.
func (tx *Tx) Folder(owner, id record.ID) (*record.Folder, error) {
	f, err := folders.Get(tx.Tx, ownedKey(owner, id[:]...))
	return f, userError(err, "folder")
}

// FolderNamed reads the owner's folder with the name, in any case.
func (tx *Tx) FolderNamed(owner record.ID, name string) (*record.Folder, error) {
	f, err := folders.Find(tx.Tx, folderName, ownedNameKey(owner, name))
	return f, userError(err, "folder")
}

// AddFolder makes a folder; Taken if the owner has one of that name.
func (tx *Tx) AddFolder(owner record.ID, name, color string) (*record.Folder, error) {
	if err := tx.requireOwner(owner); err != nil {
		return nil, err
	}
	if tx.Get(folderName, ownedNameKey(owner, name)) == nil {
		if err := tx.checkBound(folderBucket, owner, "folders", "folders"); err != nil {
			return nil, err
		}
	}
	if color == "" {
		color = record.DefaultColor
	}
	f := &record.Folder{ID: tx.NewID(), Owner: owner, Name: name, Color: color, Created: tx.Now}
	return f, userError(folders.Put(tx.Tx, f), "folder")
}

// SaveFolder changes a folder, which must have been read in the same
// transaction.
func (tx *Tx) SaveFolder(f *record.Folder) error { return userError(folders.Put(tx.Tx, f), "folder") }

func (tx *Tx) folderID(owner record.ID, name string) (record.ID, error) {
	f, err := folders.Find(tx.Tx, folderName, ownedNameKey(owner, name))
	if errors.Is(err, table.ErrMissing) {
		f, err = tx.AddFolder(owner, name, "")
	}
	if err != nil {
		return uuid.Nil, err
	}
	return f.ID, nil
}

// FolderCount counts the files in the folder.
func (tx *Tx) FolderCount(f *record.Folder) int64 {
	return records.Sum(tx.Tx, facet{inFolder, f.ID}.key(f.Owner, record.Files))
}

// RemoveFolder takes a folder away. Its files stay, in no folder.
func (s *Store) RemoveFolder(owner, id record.ID) error {
	check := func(tx *Tx) error {
		_, err := tx.Folder(owner, id)
		return err
	}
	return s.retag(owner, facet{inFolder, id}, check, func(r *record.Record) { r.Folder = uuid.Nil }, func(tx *Tx) error {
		_, err := folders.Delete(tx.Tx, ownedKey(owner, id[:]...))
		return userError(err, "folder")
	})
}
