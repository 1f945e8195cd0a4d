package kv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"kist/kv/record"
	"kist/kv/table"
)

// records is the table of all content.
var records = &table.Table[record.Record]{
	Rows:   recordBucket,
	Key:    (*record.Record).Key,
	Encode: func(r *record.Record) ([]byte, error) { return r.AppendRow(nil), nil },
	Decode: record.ParseRow,
	Indexes: []table.Index[record.Record]{
		{Bucket: recordSlug, Name: "slug", Unique: true, Keys: func(r *record.Record, file func([]byte)) {
			file([]byte(r.Slug))
		}},
		{Bucket: recordLabel, Keys: func(r *record.Record, file func([]byte)) {
			for _, l := range labels(r) {
				file(append(l.key(r.Owner, r.Kind), r.ID[:]...))
			}
		}},
		{Bucket: recordOrder, Keys: func(r *record.Record, file func([]byte)) {
			file(order(r, byUpdated, binary.BigEndian.AppendUint64(nil, uint64(r.Updated.UnixMilli()))))
			file(order(r, byTitle, append([]byte(r.Order), 0)))
			if r.Bytes != nil {
				file(order(r, bySize, binary.BigEndian.AppendUint64(nil, uint64(r.Bytes.Size))))
			}
		}},
		{Bucket: changeBucket, Name: "change", Unique: true, Keys: func(r *record.Record, file func([]byte)) {
			file(binary.BigEndian.AppendUint64(nil, r.Seq))
		}},
		{Bucket: blobBucket, Keys: func(r *record.Record, file func([]byte)) {
			if r.Bytes != nil {
				file(append(append([]byte{}, r.Bytes.Ref[:]...), r.Key()...))
			}
		}},
	},
	Sums: sumBucket,
	Tally: func(r *record.Record, add func([]byte, int64)) {
		add(pair(r.Owner, r.Kind.Code), 1)
		for _, l := range labels(r) {
			add(l.key(r.Owner, r.Kind), 1)
		}
		if r.Bytes != nil {
			add(bytesOf(r.Owner), r.Bytes.Size)
		}
	},
}

// label is something that a list can be narrowed to by walking an index.
type label struct {
	what byte
	id   record.ID
}

// What a label says of a record. The bytes are stored.
const (
	isPublic   = 'p'
	isFavorite = 'f'
	hasTag     = 't' // and which
	inFolder   = 'd' // and which
	unfiled    = 'u'
	ofClass    = 'c' // and which, in the first byte of the id
)

func labels(r *record.Record) []label {
	all := make([]label, 0, 4+len(r.Tags))
	if r.Public {
		all = append(all, label{what: isPublic})
	}
	if r.Favorite {
		all = append(all, label{what: isFavorite})
	}
	for _, t := range r.Tags {
		all = append(all, label{hasTag, t})
	}
	switch {
	case r.Folder != uuid.Nil:
		all = append(all, label{inFolder, r.Folder})
	case r.Kind == record.Files:
		all = append(all, label{what: unfiled})
	}
	if r.Bytes != nil {
		all = append(all, label{ofClass, record.ID{byte(r.Bytes.Class)}})
	}
	return all
}

func (l label) key(owner record.ID, k *record.Kind) []byte {
	return append(pair(owner, k.Code, l.what), l.id[:]...)
}

// The orders of a list other than by age. The bytes are stored.
const (
	byUpdated = 'u'
	byTitle   = 't'
	bySize    = 's'
	byViews   = 'v'
)

func order(r *record.Record, by byte, at []byte) []byte {
	return append(append(pair(r.Owner, r.Kind.Code, by), at...), r.ID[:]...)
}

func viewOrder(r *record.Record, n int64) []byte {
	return order(r, byViews, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// bytesOf is where the size of an owner's files is summed up. Kind 0 is none.
func bytesOf(owner record.ID) []byte { return pair(owner, 0, 'b') }

// Add makes a record out of a form: the row, its indexes and counters, the
// mark in the feed of changes and the deliveries. bytes is for files, nil
// otherwise; password is the hash of the form's password. It fails with Taken
// if the slug is in use, with Denied if the file does not fit the owner's
// quota, and with Invalid if the form does not hold at this instant.
func (tx *Tx) Add(owner record.ID, k *record.Kind, f *record.Form, bytes *record.Content, password string) (*record.Record, error) {
	if err := f.CheckNew(tx.Now); err != nil {
		return nil, err
	}
	r := &record.Record{ID: tx.NewID(), Owner: owner, Kind: k, Created: tx.Now, Updated: tx.Now, Bytes: bytes}
	f.Fill(r)
	r.Password = password
	if r.Slug == "" {
		r.Slug = tx.newSlug()
	}
	if err := tx.fileUnder(r, f); err != nil {
		return nil, err
	}
	if bytes != nil {
		if err := tx.charge(owner, bytes.Size); err != nil {
			return nil, err
		}
		if err := tx.Delete(looseBucket, bytes.Ref[:]); err != nil {
			return nil, err
		}
	}
	if err := tx.Put(recordOrder, viewOrder(r, 0), nil); err != nil {
		return nil, err
	}
	if err := tx.save(r); err != nil {
		return nil, err
	}
	return r, tx.emit(k.Created(), r)
}

// newSlug makes a slug that is free.
func (tx *Tx) newSlug() string {
	for {
		if s := record.NewSlug(random); tx.Get(recordSlug, []byte(s)) == nil {
			return s
		}
	}
}

// charge refuses what would take the owner's files over their quota.
func (tx *Tx) charge(owner record.ID, size int64) error {
	u, err := tx.User(owner)
	if err != nil {
		return err
	}
	quota, err := tx.quota(u)
	if err != nil || quota == 0 || records.Sum(tx.Tx, bytesOf(owner))+size <= quota {
		return err
	}
	return &record.Error{Fault: record.Denied, Code: "quota_exceeded", Text: fmt.Sprintf("This does not fit your storage quota of %d bytes.", quota)}
}

// fileUnder gives the record the tags and the folder that the form names, and
// makes those that are only named.
func (tx *Tx) fileUnder(r *record.Record, f *record.Form) error {
	bad := map[string]string{}
	if f.Tags != nil {
		ids, err := tx.tagIDs(r.Owner, f.Tags)
		if err != nil {
			return err
		}
		r.Tags = ids
	}
	more, err := tx.tagIDs(r.Owner, f.NewTags)
	if err != nil {
		return err
	}
	for _, t := range f.AddTags {
		id := uuid.MustParse(t)
		if tx.Get(tagBucket, pair(r.Owner, id[:]...)) == nil {
			bad["addTagIds"] = "names a tag that you do not have"
		}
		more = append(more, id)
	}
	drop := map[record.ID]bool{}
	for _, t := range f.DropTags {
		drop[uuid.MustParse(t)] = true
	}
	var kept []record.ID
	for _, id := range append(append([]record.ID{}, r.Tags...), more...) {
		if !drop[id] {
			drop[id] = true
			kept = append(kept, id)
		}
	}
	if r.Tags = kept; len(kept) > record.MaxTags {
		bad["tags"] = fmt.Sprintf("must be at most %d", record.MaxTags)
	}
	switch {
	case f.FolderName != "":
		r.Folder, err = tx.folderID(r.Owner, f.FolderName)
	case f.Folder != uuid.Nil && f.Folder != r.Folder && tx.Get(folderBucket, pair(r.Owner, f.Folder[:]...)) == nil:
		bad["folderId"] = "names a folder that you do not have"
	default:
		r.Folder = f.Folder
	}
	return errors.Join(err, record.Bad(bad))
}

// Save changes a record as a form says; password is the hash of the form's
// password, if it says one. It fails as Add does.
func (tx *Tx) Save(r *record.Record, f *record.Form, password string) error {
	if f.Password.Said {
		r.Password = password
	}
	restart := f.Fill(r)
	if err := tx.fileUnder(r, f); err != nil {
		return err
	}
	if restart {
		was := tx.views(r)
		if err := tx.setViews(r, was, views{was.total, 0}); err != nil {
			return err
		}
	}
	r.Updated = tx.Now
	if err := tx.save(r); err != nil {
		return err
	}
	return tx.emit(r.Kind.Edited(), r)
}

// save writes the row, at a new place in the feed of changes.
func (tx *Tx) save(r *record.Record) error {
	seq, err := tx.nextSeq()
	if err != nil {
		return err
	}
	r.Seq = seq
	return fault(records.Put(tx.Tx, r), "item")
}

func (tx *Tx) nextSeq() (uint64, error) {
	var seq uint64
	if v := tx.Get(metaBucket, metaSeq); len(v) == 8 {
		seq = binary.BigEndian.Uint64(v)
	}
	seq++
	return seq, tx.Put(metaBucket, metaSeq, binary.BigEndian.AppendUint64(nil, seq))
}

// Remove takes a record away for good. Its bytes, if no other record has the
// same, are unlinked by a later sweep. In the feed of changes a mark stays
// that leads to nothing.
func (tx *Tx) Remove(r *record.Record) error {
	if err := tx.emit(r.Kind.Removed(), r); err != nil {
		return err
	}
	n := tx.views(r).total
	if _, err := records.Delete(tx.Tx, r.Key()); err != nil {
		return fault(err, "item")
	}
	seq, err := tx.nextSeq()
	if err != nil {
		return err
	}
	err = errors.Join(
		tx.Delete(recordOrder, viewOrder(r, n)),
		tx.Delete(viewBucket, r.ID[:]),
		tx.Put(changeBucket, binary.BigEndian.AppendUint64(nil, seq), r.Key()),
	)
	if r.Bytes != nil && !tx.Referenced(r.Bytes.Ref) {
		err = errors.Join(err, tx.Put(looseBucket, r.Bytes.Ref[:], binary.BigEndian.AppendUint64(nil, uint64(tx.Now.UnixMilli()))))
	}
	return err
}

// Record reads the owner's record of the kind with the given id or slug.
func (tx *Tx) Record(owner record.ID, k *record.Kind, idOrSlug string) (*record.Record, error) {
	if id, err := uuid.Parse(idOrSlug); err == nil {
		r, err := records.Get(tx.Tx, record.RowKey(owner, k, id))
		return r, fault(err, k.Name)
	}
	r, err := tx.Slug(idOrSlug)
	if err == nil && (r.Owner != owner || r.Kind != k) {
		return nil, record.NotFound(k.Name)
	}
	return r, err
}

// Slug reads the record with the given slug, whoever owns it.
func (tx *Tx) Slug(slug string) (*record.Record, error) {
	if slug == "" {
		return nil, record.ErrMissing
	}
	r, err := records.Find(tx.Tx, recordSlug, []byte(slug))
	if errors.Is(err, table.ErrMissing) {
		return nil, record.ErrMissing
	}
	return r, err
}

// Show fills v with the record and what belongs to it.
func (tx *Tx) Show(r *record.Record, v *record.Shown) error {
	v.Record, v.Views = *r, tx.views(r).total
	v.TagList = v.TagList[:0]
	for _, id := range r.Tags {
		t, err := tx.tag(r.Owner, id)
		if err != nil {
			return err
		}
		v.TagList = append(v.TagList, t)
	}
	v.FolderName = ""
	if r.Folder != uuid.Nil {
		f, err := tx.Folder(r.Owner, r.Folder)
		if err != nil {
			return err
		}
		v.FolderName = f.Name
	}
	return nil
}
