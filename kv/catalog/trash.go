package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// TrashRows is the table of deleted records that can be restored. A row has the key that
// the record had.
var TrashRows = &table.Table[record.Trashed]{
	Rows:   history.TrashBucket,
	Key:    func(t *record.Trashed) []byte { return t.Key() },
	Encode: (*record.Trashed).AppendRow,
	Decode: record.ParseTrashed,
	Indexes: []table.Index[record.Trashed]{
		{Bucket: trashLine, Keys: func(t *record.Trashed, file func([]byte)) {
			file(append(binary.BigEndian.AppendUint64(kv.OwnedKey(t.Owner), kv.Signed(t.At)), t.Key()[16:]...))
		}},
		{Bucket: people.HistoryIndex, Keys: func(t *record.Trashed, file func([]byte)) {
			file(people.AgeKey(people.AgedTrash, t.At, t.Key()))
		}},
		{Bucket: trashBlob, Keys: func(t *record.Trashed, file func([]byte)) {
			if t.Bytes != nil {
				file(append(bytes.Clone(t.Bytes.Ref[:]), t.Key()...))
			}
		}},
		{Bucket: trashVersion, Keys: func(t *record.Trashed, file func([]byte)) {
			if t.Of != uuid.Nil {
				file(versionKey(t.Owner, t.Of, t.ID[:]...))
			}
		}},
	},
	Sums: kv.SumBucket,
	Tally: func(t *record.Trashed, add func([]byte, int64)) {
		add(trashSum(t.Owner, t.Kind), 1)
		if t.Bytes != nil {
			add(trashBytes(t.Owner), t.Bytes.Size)
		}
		for _, id := range t.Shows() {
			add(trashShown(t.Owner, id), 1)
		}
	},
	Bytes: func(t *record.Trashed, length int) (table.Bucket, []byte, int) { return kv.TextSum(t.Owner, length) },
}

// trashSum is the key of the number of an owner's records of a kind in the trash, trashBytes that of the total size of
// the files, and trashShown that of the number of records that show a file.
func trashSum(owner record.ID, k *record.Kind) []byte { return kv.OwnedKey(owner, 0, 'd', k.Code) }

func trashBytes(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'D') }

func trashShown(owner, file record.ID) []byte { return append(kv.OwnedKey(owner, 0, 'm'), file[:]...) }

// TrashTable keeps deleted records and earlier bytes of files until they are purged. Counters of
// views, visits and earlier texts stay in their own tables.
var TrashTable = kv.Table{
	Buckets: []table.Bucket{history.TrashBucket, trashLine, trashBlob, trashVersion},
	Check: kv.CheckRows(TrashRows, func(a *kv.Audit, t *record.Trashed) {
		a.Refers(people.UserBucket, t.Owner[:], "deleted "+t.Kind.Name, t.ID)
		if a.Get(kv.RecordBucket, t.Key()) != nil {
			a.Say("%s %s is in the trash and in use", t.Kind.Name, t.ID)
		}
		if a.Get(ViewBucket, t.ID[:]) != nil {
			a.Owe(ViewBucket, 1)
		}
	}),
	Refill: kv.RefillRows(TrashRows, kv.Mending[record.Trashed]{
		Mend: func(r *kv.Refill, t *record.Trashed) error { return people.StandIn(r, t.Owner) },
		Then: func(r *kv.Refill, t *record.Trashed) error {
			if r.Get(kv.RecordBucket, t.Key()) != nil { // the commit that restored it is only partly known
				return history.DropRow(TrashRows)(r.Tx, t.Key())
			}
			return RefillViews(r, t.ID)
		},
	}),
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		return tx.DropKeys(history.TrashBucket, owner, func(key []byte) error { return purge(tx, key) })
	},
	Contents: kv.IndexContents(trashBlob, TrashRows, func(t *record.Trashed) int64 {
		if t.Bytes == nil {
			return -1
		}
		return t.Bytes.Size
	}, func(t *record.Trashed) kv.Holder { return holder(&t.Record) }),
	Bytes: func(tx *kv.Tx, owner record.ID) (stored, _ int64) { return TrashRows.Sum(tx.Tx, trashBytes(owner)), 0 },
	Text:  kv.RowText(history.TrashBucket),
	Tick:  purgeAged,
}

// purgeAged is the Tick of the trash.
func purgeAged(s *kv.Store) {
	set := people.Settings{}
	if err := s.View(func(tx *kv.Tx) (err error) { set, err = people.ReadSettings(tx); return err }); err != nil {
		s.Log().Error("cannot empty the trash; will retry", "error", err)
		return
	}
	people.DropAged(s, people.AgedTrash, time.Duration(set.TrashDays)*24*time.Hour, purge)
}

// purge deletes the record at key in the trash for good. A version may have gone with its file already.
func purge(tx *kv.Tx, key []byte) error {
	t, err := TrashRows.Get(tx.Tx, key)
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	return Remove(tx, &t.Record)
}

// Trash moves a record to the trash. by names the browser, key or device that asked for it.
// While the trash is off, it is Remove.
func Trash(tx *kv.Tx, r *record.Record, by string) error {
	set, err := people.ReadSettings(tx)
	if err != nil {
		return err
	}
	if set.TrashDays == 0 {
		return Remove(tx, r)
	}
	t, err := takeOut(tx, r)
	if err != nil {
		return err
	}
	t.By = by
	err = TrashRows.Put(tx.Tx, t)
	if err != nil {
		return err
	}
	return detach(tx, r, func(f *record.Record) error { return Trash(tx, f, by) })
}

// Trashed reads the owner's record with the id from the trash.
func Trashed(tx *kv.Tx, owner, id record.ID) (*record.Trashed, error) {
	for _, k := range record.Kinds {
		if key := record.RowKey(owner, k, id); tx.Get(history.TrashBucket, key) != nil {
			return TrashRows.Get(tx.Tx, key)
		}
	}
	return nil, record.NotFound("item")
}

// Untrash restores a record from the trash as it was. Tags and a folder that were deleted
// since are left out. It gets another slug if its own was given away.
func Untrash(tx *kv.Tx, t *record.Trashed) (*record.Record, error) {
	if tx.DiskFull() {
		return nil, kv.ErrFull
	}
	if _, err := TrashRows.Delete(tx.Tx, t.Key()); err != nil {
		return nil, kv.UserError(err, "item")
	}
	if err := tx.Delete(kv.ChangeBucket, binary.BigEndian.AppendUint64(nil, t.Seq)); err != nil {
		return nil, err
	}
	r := t.Record
	gone := func(b table.Bucket, id record.ID) bool { return tx.Get(b, kv.OwnedKey(r.Owner, id[:]...)) == nil }
	r.Tags = slices.DeleteFunc(r.Tags, func(id record.ID) bool { return gone(tagBucket, id) })
	if r.Folder != uuid.Nil && tx.Get(folderBucket, kv.OwnedKey(r.Owner, r.Folder[:]...)) == nil {
		r.Folder = uuid.Nil
	}
	if over := liveOver(&r); over != uuid.Nil && gone(folderBucket, over) && gone(tagBucket, over) {
		relive(over, uuid.Nil)(&r)
	}
	if slugTaken(tx, []byte(r.Slug)) || ZipTaken(tx, r.Kind, r.Slug) {
		r.Slug = NewSlug(tx)
	}
	if r.Expired(tx.Now) {
		r.EndDeletes = false // who restores it wants to keep it
	}
	if r.Attached && !shows(tx, r.Owner, r.ID) {
		r.Updated = tx.Now // a day for somebody to show it
	}
	if err := r.Reorder(); err != nil { // it may be from a former version
		return nil, err
	}
	if err := save(tx, &r); err != nil {
		return nil, err
	}
	if err := tx.Put(recordOrder, ViewOrder(&r, recordViews(tx, &r).total), nil); err != nil {
		return nil, err
	}
	if r.Bytes != nil && r.Bytes.Metadata.Rules < photoRules { // it was in the trash when others were examined
		unexamined.Raise(tx)
	}
	if t.Page != nil {
		b, err := bookmark(&r)
		if err != nil {
			return nil, err
		}
		t.Page.Owner, t.Page.ID, t.Page.Key = r.Owner, r.ID, record.PageKey(b.URL) // it may be from a former version
		people.PagesDue.Raise(tx)
		if err := PageRows.Put(tx.Tx, t.Page); err != nil {
			return nil, err
		}
	}
	return &r, emit(tx, jobs.Restored(r.Kind), &r)
}

// Restored is a record that was in the trash. Former is the slug that it had there.
type Restored struct {
	*record.Record
	Former string
}

// trashBatch is how many records one transaction restores or purges at most.
const trashBatch = 50

// UntrashAll restores the owner's records with these ids, in several transactions, and
// returns them in this order. Those that are not in the trash are left out.
func UntrashAll(s *kv.Store, owner record.ID, ids []record.ID) ([]Restored, error) {
	var all []Restored
	for len(ids) > 0 {
		var some []Restored
		var done int
		if err := s.Update(func(tx *kv.Tx) error {
			for begun := tx.Volume(); done < min(len(ids), trashBatch) && tx.Volume()-begun < kv.MaxVolume; done++ {
				t, err := Trashed(tx, owner, ids[done])
				if kv.Missing(err) {
					continue
				}
				if err != nil {
					return err
				}
				former := t.Slug
				r, err := Untrash(tx, t)
				if err != nil {
					return err
				}
				some = append(some, Restored{r, former})
			}
			return noteRestored(tx, some)
		}); err != nil {
			return all, err
		}
		for _, r := range some {
			r.Body = nil // it is not needed, and there may be thousands
			all = append(all, r)
		}
		ids = ids[done:]
	}
	return all, nil
}

// noteRestored adds records that were restored together to the activity of their owner,
// as one entry.
func noteRestored(tx *kv.Tx, all []Restored) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return note(tx, people.ItemRestored, all[0].Record)
	}
	return people.Note(tx, people.Activity{Owner: all[0].Owner, Event: people.ItemRestored, More: int64(len(all) - 1)})
}

// EmptyTrash deletes everything in the owner's trash for good, in several transactions.
// It leaves what was deleted after it began.
func EmptyTrash(s *kv.Store, owner record.ID) error {
	begun := s.Now()
	for done := false; !done; {
		if err := s.Update(func(tx *kv.Tx) error {
			var keys [][]byte
			for k := range tx.Walk(trashLine, owner[:], nil, false) {
				if len(keys) == trashBatch || binary.BigEndian.Uint64(k[len(owner):]) > kv.Signed(begun) {
					break
				}
				keys = append(keys, kv.OwnedKey(owner, k[len(owner)+8:]...))
			}
			done = len(keys) == 0
			for _, key := range keys {
				if err := purge(tx, key); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// TrashCount is how many of the owner's records of a kind are in the trash; of all kinds
// if k is nil.
func TrashCount(tx *kv.Tx, owner record.ID, k *record.Kind) (n int64) {
	for _, each := range record.Kinds {
		if k == nil || k == each {
			n += TrashRows.Sum(tx.Tx, trashSum(owner, each))
		}
	}
	return n
}

// A TrashPage is a part of the trash, the latest deletion first.
type TrashPage struct {
	Items []TrashItem
	Total int64
}

// A TrashItem is a record in the trash, without its body.
type TrashItem struct {
	record.Trashed
	Title string
	Size  int64  // what it counts against the quota
	Place []byte // in the trash
}

// ListTrash reads up to limit of the owner's deleted records of a kind, or of all kinds if
// k is nil, whose titles contain text. It begins after the place after, or with the latest
// deletion if that is nil. With a text it reads the whole trash, to get the total.
func ListTrash(tx *kv.Tx, owner record.ID, k *record.Kind, text string, after []byte, limit int) (TrashPage, error) {
	text = record.Fold(text)
	read := func(place []byte) (item TrashItem, fits bool, err error) {
		key := kv.OwnedKey(owner, place[8:]...)
		length := len(tx.Get(history.TrashBucket, key))
		t, err := TrashRows.Get(tx.Tx, key)
		if err != nil {
			return item, false, err
		}
		b, err := t.Decode()
		if err != nil {
			return item, false, err
		}
		item = TrashItem{Trashed: *t, Title: b.Title(), Size: int64(length)}
		item.Page = nil // it can be long
		item.Body = nil
		if t.Bytes != nil {
			item.Size += t.Bytes.Size
		}
		return item, strings.Contains(record.Fold(item.Title), text), nil
	}

	p := TrashPage{Total: TrashCount(tx, owner, k)}
	for key := range tx.Walk(trashLine, owner[:], after, true) {
		if len(p.Items) == limit {
			break
		}
		place := key[len(owner):]
		if k != nil && place[8] != k.Code {
			continue
		}
		item, fits, err := read(place)
		if err != nil {
			return p, err
		}
		if fits {
			item.Place = bytes.Clone(place)
			p.Items = append(p.Items, item)
		}
	}
	if text == "" {
		return p, nil
	}
	p.Total = 0
	for key := range tx.Walk(trashLine, owner[:], nil, true) {
		if place := key[len(owner):]; k == nil || place[8] == k.Code {
			_, fits, err := read(place)
			if err != nil {
				return p, err
			}
			if fits {
				p.Total++
			}
		}
	}
	return p, nil
}
