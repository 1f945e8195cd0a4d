package catalog

import (
	"cmp"
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
		left--
		if left == 0 {
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
			left--
			if left < 0 {
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
		if _, err := Tag(tx, owner, id); err != nil {
			return err
		}
		if into == uuid.Nil {
			return nil
		}
		if _, missing := Tag(tx, owner, into); missing != nil {
			return record.Bad(map[string]string{"into": "names a tag that you do not have"})
		}
		return nil
	}
	nothing := func(*kv.Tx) error { return nil }
	if err := retag(s, owner, facet{showsAll, id}, check, relive(id, into), nothing); err != nil {
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
func retag(
	s *kv.Store, owner record.ID, l facet,
	check func(*kv.Tx) error, change func(*record.Record), end func(*kv.Tx) error,
) error {
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
			if len(some) == kv.RemoveBatch {
				return nil
			}
			done = true
			return end(tx)
		})
		if err != nil || done {
			return err
		}
	}
}
