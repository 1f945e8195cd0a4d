// Package catalog keeps records of every kind with their tags, folders and pages, and
// counts their views.
package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// RecordRows is the table of all content.
var RecordRows = &table.Table[record.Record]{
	Rows:   kv.RecordBucket,
	Key:    (*record.Record).Key,
	Encode: func(r *record.Record) ([]byte, error) { return r.AppendRow(nil), nil },
	Decode: record.ParseRow,
	Indexes: []table.Index[record.Record]{
		{Bucket: kv.RecordSlug, Name: "slug", Unique: true, Keys: func(r *record.Record, file func([]byte)) {
			file([]byte(r.Slug))
		}},
		{Bucket: recordFacet, Keys: func(r *record.Record, file func([]byte)) {
			for l := range facetsOf(r) {
				file(append(l.key(r.Owner, r.Kind), r.ID[:]...))
			}
		}},
		{Bucket: recordOrder, Keys: orders},
		{Bucket: recordOrder, Since: photosFormat, Keys: func(r *record.Record, file func([]byte)) {
			if r.Bytes != nil {
				file(takenOrder(r))
			}
		}},
		{Bucket: kv.ChangeBucket, Name: "change", Unique: true, Keys: func(r *record.Record, file func([]byte)) {
			file(binary.BigEndian.AppendUint64(nil, r.Seq))
		}},
		{Bucket: recordEnd, Keys: func(r *record.Record, file func([]byte)) {
			if !r.Expires.IsZero() && !r.Ended {
				file(append(binary.BigEndian.AppendUint64(nil, kv.Signed(r.Expires)), r.Key()...))
			}
		}},
		{Bucket: blobBucket, Keys: func(r *record.Record, file func([]byte)) {
			if r.Bytes != nil {
				file(append(append([]byte{}, r.Bytes.Ref[:]...), r.Key()...))
			}
		}},
	},
	Sums: kv.SumBucket,
	Tally: func(r *record.Record, add func([]byte, int64)) {
		add(kv.OwnedKey(r.Owner, r.Kind.Code), 1)
		for l := range facetsOf(r) {
			add(l.key(r.Owner, r.Kind), 1)
		}
		if r.Bytes != nil {
			add(bytesOf(r.Owner), r.Bytes.Size)
		}
	},
	Bytes: func(r *record.Record, length int) (table.Bucket, []byte, int) { return kv.TextSum(r.Owner, length) },
}

// RecordTable keeps records of all kinds.
var RecordTable = kv.Table{
	Watched: []table.Bucket{kv.RecordBucket, people.UserBucket},
	Changed: sharedCache.Renew,
	Buckets: []table.Bucket{
		kv.RecordBucket, kv.RecordSlug, recordFacet, recordOrder, recordEnd, blobBucket,
		kv.ChangeBucket, kv.SumBucket,
	},
	Check: func(a *kv.Audit) {
		known, keyed := a.Format() >= pagesFormat, a.Format() >= keysFormat
		kv.CheckRows(RecordRows, func(a *kv.Audit, r *record.Record) {
			a.Refers(people.UserBucket, r.Owner[:], r.Kind.Name, r.ID)
			for _, t := range r.Tags {
				a.Refers(tagBucket, kv.OwnedKey(r.Owner, t[:]...), r.Kind.Name, r.ID)
			}
			if id := liveOver(r); id != uuid.Nil && a.Get(tagBucket, kv.OwnedKey(r.Owner, id[:]...)) == nil {
				a.Refers(folderBucket, kv.OwnedKey(r.Owner, id[:]...), r.Kind.Name, r.ID)
			}
			if r.Folder != uuid.Nil {
				a.Refers(folderBucket, kv.OwnedKey(r.Owner, r.Folder[:]...), r.Kind.Name, r.ID)
			}
			a.Owe(recordOrder, 1)
			a.Refers(recordOrder, ViewOrder(r, recordViews(a.Tx, r).total), r.Kind.Name, r.ID)
			if a.Get(ViewBucket, r.ID[:]) != nil {
				a.Owe(ViewBucket, 1)
			}
			if r.Kind == record.Bookmarks && known {
				b, err := bookmark(r)
				p, err2 := PageRows.Get(a.Tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
				if err != nil || err2 != nil || keyed && p.Key != record.PageKey(b.URL) {
					a.Say("bookmark %s: the row of its page is missing or belongs to another page", r.ID)
				}
			}
			if r.Public && r.Reached {
				a.Say("%s %s is public and used up", r.Kind.Name, r.ID)
			}
		})(a)
		for _, k := range a.Walk(kv.ChangeBucket, nil, nil, false) {
			if a.Get(kv.RecordBucket, k) == nil { // marks a removal
				a.Owe(kv.ChangeBucket, 1)
			}
		}
	},
	Refill: refillRecords,
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		return tx.DropKeys(kv.RecordBucket, owner, func(key []byte) error {
			r, err := RecordRows.Get(tx.Tx, key)
			if err != nil {
				return err
			}
			return Remove(tx, r)
		})
	},
	Contents: kv.IndexContents(blobBucket, RecordRows, func(r *record.Record) int64 {
		if r.Bytes == nil {
			return -1
		}
		return r.Bytes.Size
	}, holder),
	Bytes: func(tx *kv.Tx, owner record.ID) (stored, _ int64) { return RecordRows.Sum(tx.Tx, bytesOf(owner)), 0 },
	Text:  kv.RowText(kv.RecordBucket),
	Tick: func(s *kv.Store) {
		tellExpired(s)
		renewOrders(s)
		trashUnshown(s)
	},
	Describe: describeRecord,
}

// holder describes a record that has content.
func holder(r *record.Record) kv.Holder {
	h := kv.Holder{ID: r.ID, Owner: r.Owner}
	if b, err := r.Decode(); err == nil {
		h.Name = b.Title()
	}
	return h
}

// refillRecords is the Refill of records, of the pages of bookmarks, and of the
// feed of changes.
func refillRecords(r *kv.Refill) error {
	if err := kv.CopyRows(r, RecordRows, kv.Mending[record.Record]{
		Mend: func(r *kv.Refill, v *record.Record) error {
			lost := func(b table.Bucket, id record.ID) bool { return r.Get(b, kv.OwnedKey(v.Owner, id[:]...)) == nil }
			before := len(v.Tags)
			v.Tags = slices.DeleteFunc(v.Tags, func(t record.ID) bool { return lost(tagBucket, t) })
			if n := before - len(v.Tags); n > 0 {
				r.Lost(fmt.Errorf("%s %s: %d of its tags are lost", v.Kind.Name, v.ID, n))
			}
			if v.Folder != uuid.Nil && lost(folderBucket, v.Folder) {
				v.Folder = uuid.Nil
				r.Lost(fmt.Errorf("%s %s: its folder is lost", v.Kind.Name, v.ID))
			}
			if id := liveOver(v); id != uuid.Nil && lost(tagBucket, id) && lost(folderBucket, id) {
				relive(id, uuid.Nil)(v)
				r.Lost(fmt.Errorf("collection %s: the folder or tag that it shows is lost", v.ID))
			}
			return people.StandIn(r, v.Owner)
		},
		Rename: func(r *kv.Refill, v *record.Record) error { // the record that was changed last keeps the slug
			older := v
			if other, err := RecordRows.Find(r.Tx.Tx, kv.RecordSlug, []byte(v.Slug)); err == nil && other.Seq < v.Seq {
				older = other
			}
			before := older.Slug
			older.Slug = NewSlug(r.Tx)
			r.Lost(fmt.Errorf("%s %s: another has its slug %s; it has %s now", older.Kind.Name, older.ID, before, older.Slug))
			if older != v {
				return RecordRows.Put(r.Tx.Tx, older)
			}
			return nil
		},
		Then: func(r *kv.Refill, v *record.Record) error {
			if v.Kind == record.Bookmarks {
				if err := repairPage(r.Before, r.Tx, v); err != nil {
					return err
				}
			}
			if err := RefillViews(r, v.ID); err != nil {
				return err
			}
			return r.Put(recordOrder, ViewOrder(v, recordViews(r.Before, v).total), nil)
		},
	}); err != nil {
		return err
	}

	latest := uint64(0)
	for k, v := range r.Before.Walk(kv.ChangeBucket, nil, nil, false) {
		if len(k) == 8 {
			latest = max(latest, binary.BigEndian.Uint64(k))
		}
		if r.Get(kv.RecordBucket, v) == nil { // marks a removal
			if err := r.Load(kv.ChangeBucket, bytes.Clone(k), bytes.Clone(v)); err != nil {
				return err
			}
		}
	}
	if v := r.Get(workcopy.MetaBucket, kv.MetaSeq); len(v) != 8 || binary.BigEndian.Uint64(v) < latest {
		return r.Put(workcopy.MetaBucket, kv.MetaSeq, binary.BigEndian.AppendUint64(nil, latest))
	}
	return nil
}

// facet is a property of records by which an index can filter a list.
type facet struct {
	what byte
	id   record.ID
}

// The kinds of facets. The bytes are stored.
const (
	isPublic   = 'p'
	isFavorite = 'f'
	hasTag     = 't' // id is the tag
	inFolder   = 'd' // id is the folder
	unfiled    = 'u'
	ofClass    = 'c' // the first byte of id is the class
	showsAll   = 'l' // of collections; id is the folder or the tag whose items they have
	isAttached = 'a' // of files
	showsFile  = 'm' // of notes, recipes and games; id is the file

	// Of bookmarks, from their pages.
	samePage      = 's' // id is the key of the page
	isUnreachable = 'x'
)

// facetsOf yields the facets of a record.
func facetsOf(r *record.Record) iter.Seq[facet] {
	return func(yield func(facet) bool) {
		if r.Public && !yield(facet{what: isPublic}) {
			return
		}
		if r.Favorite && !yield(facet{what: isFavorite}) {
			return
		}
		for _, t := range r.Tags {
			if !yield(facet{hasTag, t}) {
				return
			}
		}
		for _, id := range r.Shows() {
			if !yield(facet{showsFile, id}) {
				return
			}
		}
		switch {
		case r.Attached:
			yield(attached)
			return
		case r.Folder != uuid.Nil:
			if !yield(facet{inFolder, r.Folder}) {
				return
			}
		case r.Kind == record.Files:
			if !yield(facet{what: unfiled}) {
				return
			}
		}
		if r.Bytes != nil && !yield(facet{ofClass, record.ID{byte(r.Bytes.Class)}}) {
			return
		}
		if id := liveOver(r); id != uuid.Nil {
			yield(facet{showsAll, id})
		}
	}
}

// liveOver is the folder or the tag whose items a collection has; zero for others.
func liveOver(r *record.Record) record.ID {
	if r.Kind != record.Collections {
		return uuid.Nil
	}
	b, err := r.Decode()
	if err != nil {
		return uuid.Nil
	}
	c := b.(*record.Collection) // the kind says so
	if c.Folder != uuid.Nil {
		return c.Folder
	}
	return c.Tag
}

// key is the prefix of the facet's entries, with capacity for a record's id.
func (l facet) key(owner record.ID, k *record.Kind) []byte {
	key := append(make([]byte, 0, labelSize+16), owner[:]...)
	return append(append(key, k.Code, l.what), l.id[:]...)
}

// labelSize is the length of a facet's key: owner, kind, what, id.
const labelSize = 16 + 1 + 1 + 16

// The orders of a list other than by age. The bytes are stored.
const (
	byUpdated = 'u'
	byTitle   = 't'
	bySize    = 's'
	byViews   = 'v'
	byTaken   = 'k'
)

// photosFormat is the first format in which files are in the order of when they were taken.
const photosFormat = 8

// ordered is the prefix of r's entry in an order, with capacity for size bytes and
// the id.
func ordered(r *record.Record, by byte, size int) []byte {
	key := append(make([]byte, 0, 16+1+1+size+16), r.Owner[:]...)
	return append(key, r.Kind.Code, by)
}

// orders files a record in the orders but that by views, which changes without it.
func orders(r *record.Record, file func([]byte)) {
	file(numbered(r, byUpdated, uint64(r.Updated.UnixMilli())))
	file(append(append(append(ordered(r, byTitle, len(r.Order)+1), r.Order...), 0), r.ID[:]...))
	if r.Bytes != nil {
		file(numbered(r, bySize, uint64(r.Bytes.Size)))
	}
}

// takenOrder is the entry of a file in the order of when it was taken, or, if that is not known, created. Times before
// 1970 come first.
func takenOrder(r *record.Record) []byte {
	at := r.Bytes.Photo.Taken
	if at.IsZero() {
		at = r.Created
	}
	return numbered(r, byTaken, kv.Signed(at))
}

// FileTaken puts the files of a store of format 7 in the order of when they were taken.
func FileTaken(tx *kv.Tx) error {
	for key, row := range tx.Walk(kv.RecordBucket, nil, nil, false) {
		_, kind, _ := record.SplitKey(key)
		if kind != record.Files {
			continue
		}
		r, err := record.BorrowRow(key, row)
		if err != nil || r.Bytes == nil { // damaged ones are for a repair
			continue
		}
		err = tx.Put(recordOrder, takenOrder(r), nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// FileShows files the texts of a store of format 7 under the files that they seem to show: an address that now is one
// of a file was only words then.
func FileShows(tx *kv.Tx) error {
	sums := map[string]int64{}
	for key, row := range tx.Walk(kv.RecordBucket, nil, nil, false) {
		r, err := record.BorrowRow(key, row)
		if err != nil { // damaged ones are for a repair
			continue
		}
		for _, id := range r.Shows() {
			label := facet{showsFile, id}.key(r.Owner, r.Kind)
			sums[string(label)]++
			err = tx.Put(recordFacet, append(label, r.ID[:]...), nil)
			if err != nil {
				return err
			}
		}
	}
	for t, err := range TrashRows.All(tx.Tx, nil) {
		if err != nil {
			continue
		}
		for _, id := range t.Shows() {
			sums[string(trashShown(t.Owner, id))]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		err := tx.Put(kv.SumBucket, []byte(key), binary.BigEndian.AppendUint64(nil, uint64(sums[key])))
		if err != nil {
			return err
		}
	}
	return nil
}

func numbered(r *record.Record, by byte, n uint64) []byte {
	return append(binary.BigEndian.AppendUint64(ordered(r, by, 8), n), r.ID[:]...)
}

// ViewOrder is the key under which a record with n views is filed by views.
func ViewOrder(r *record.Record, n int64) []byte { return numbered(r, byViews, uint64(n)) }

// bytesOf is the key of the total size of an owner's files. Kind 0 is not a kind of
// record.
func bytesOf(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'b') }

// A Draft is what becomes a record.
type Draft struct {
	Owner    record.ID
	Kind     *record.Kind
	Form     *record.Form
	Content  *record.Content // of a file, nil otherwise
	Password string          // the hash of the form's password; "" for none

	// Charged says that the content was charged to the owner's quota when it came in.
	Charged bool

	// Begun says that the form was checked when the upload began, which reserved what it could. A folder or tags that
	// were deleted since are left out, and an expiry that has passed is kept.
	Begun bool

	// Past is what a record has behind it that was kept elsewhere, or here before; nil for a new one. It may have
	// expired already, which is not reported again. Its password stands for Draft.Password. Times in the future
	// become now. Its id is made from its time of creation, so that lists by age show it in its place. If that is the
	// millisecond of the record with the id After, it gets the next id.
	Past  *record.Past
	After record.ID
}

// Add creates the record of a draft: the row, its indexes and counters, the entry in the feed of changes and the
// deliveries. It fails with Taken if the slug is in use, with Denied if a file's content or another record's text does
// not fit the owner's quota, with Invalid if the form is not valid at this instant, and with ErrFull while the disk is
// full.
func Add(tx *kv.Tx, d Draft) (*record.Record, error) {
	if tx.DiskFull() {
		return nil, kv.ErrFull
	}
	if err := d.check(tx); err != nil {
		return nil, err
	}
	if err := people.RequireOwner(tx, d.Owner); err != nil {
		return nil, err
	}
	if err := checkRecordBound(tx, d.Owner); err != nil {
		return nil, err
	}
	if err := d.charge(tx); err != nil {
		return nil, err
	}

	r := d.dated(tx)
	if err := d.store(tx, r); err != nil {
		return nil, err
	}
	if d.Content == nil { // its text counts now
		if err := people.Charge(tx, d.Owner, 0); err != nil {
			return nil, err
		}
	}

	if r.Public && d.Past == nil { // imported items are one entry together
		if err := note(tx, people.ItemShared, r); err != nil {
			return nil, err
		}
	}
	return r, emit(tx, jobs.Created(r.Kind), r)
}

// check says what is wrong with the draft now. What was checked when an upload began is brought up to date instead.
func (d *Draft) check(tx *kv.Tx) error {
	switch {
	case d.Past != nil:
		if d.Past.Password != "" && !people.ValidHash(d.Past.Password) {
			return record.Bad(map[string]string{"passwordHash": "is not one that kist makes"})
		}
		return nil
	case d.Begun:
		d.leaveOutLabels(tx)
		return nil
	}
	var problems field.Problems
	if err := d.Form.CheckNew(tx.Now); errors.As(err, &problems) {
		return record.Bad(problems)
	} else if err != nil {
		return err
	}
	return nil
}

// leaveOutLabels takes a folder and tags that are gone out of the form.
func (d *Draft) leaveOutLabels(tx *kv.Tx) {
	f := d.Form
	if f.Folder != uuid.Nil && tx.Get(folderBucket, kv.OwnedKey(d.Owner, f.Folder[:]...)) == nil {
		f.Folder = uuid.Nil
	}
	f.AddTags = slices.DeleteFunc(f.AddTags, func(t string) bool {
		id := uuid.MustParse(t)
		return tx.Get(tagBucket, kv.OwnedKey(d.Owner, id[:]...)) == nil
	})
}

// charge charges the content to the owner's quota.
func (d *Draft) charge(tx *kv.Tx) error {
	switch {
	case d.Content == nil || d.Charged:
		return nil
	case d.Begun:
		return people.ChargeAwaited(tx, d.Owner, d.Content.Size)
	}
	return people.Charge(tx, d.Owner, d.Content.Size)
}

// dated returns the record with its id and its times, and nothing of the form.
func (d *Draft) dated(tx *kv.Tx) *record.Record {
	r := &record.Record{Owner: d.Owner, Kind: d.Kind, Created: tx.Now, Updated: tx.Now, Bytes: d.Content}
	if d.Past == nil {
		r.ID = tx.NewID()
		return r
	}
	if c := d.Past.Created; !c.IsZero() && c.Before(tx.Now) {
		r.Created = c
	}
	r.Updated = kv.Later(r.Created, d.Past.Updated)
	if r.Updated.After(tx.Now) {
		r.Updated = tx.Now
	}

	if !r.Created.Before(tx.Now) {
		r.ID = tx.NewID()
		return r
	}
	r.ID = kv.IdAt(r.Created, d.After)
	for tx.Get(kv.RecordBucket, r.Key()) != nil {
		r.ID = kv.IdAt(r.Created, r.ID)
	}
	return r
}

// store fills the record in and writes it with what stands beside it.
func (d *Draft) store(tx *kv.Tx, r *record.Record) error {
	d.Form.Fill(r)
	r.Password = d.Password
	if p := d.Past; p != nil {
		if r.Bytes != nil && !p.Taken.IsZero() {
			r.Bytes.Photo.Taken = p.Taken
		}
		r.Password = p.Password
		r.Ended = r.Expired(tx.Now)
		r.Reached = p.Reached && r.Limit > 0 && !r.Public
	}
	if r.Slug == "" {
		r.Slug = NewSlug(tx)
	}
	if err := fileUnder(tx, r, d.Form); err != nil {
		return err
	}
	if err := setSource(tx, r, d.Form); err != nil {
		return err
	}
	if err := save(tx, r); err != nil {
		return err
	}

	if r.Bytes != nil {
		if err := tx.Delete(UnreferencedBucket, r.Bytes.Ref[:]); err != nil {
			return err
		}
		if r.Bytes.Metadata.Rules < photoRules {
			unexamined.Raise(tx)
		}
	}
	if err := addPage(tx, r, d.Form, d.Past != nil); err != nil {
		return err
	}
	if err := tx.Put(recordOrder, ViewOrder(r, 0), nil); err != nil {
		return err
	}
	if p := d.Past; p != nil && (p.Views > 0 || p.Used > 0) {
		return setViews(tx, r, views{}, views{p.Views, min(p.Used, r.Limit)})
	}
	return nil
}

// NewSlug makes a slug that is free.
func NewSlug(tx *kv.Tx) string {
	for {
		s := record.NewSlug(kv.Random)
		if !slugTaken(tx, []byte(s)) {
			return s
		}
	}
}

// slugTaken reports whether a record or an unfinished upload has the slug.
func slugTaken(tx *kv.Tx, slug []byte) bool {
	return tx.Get(kv.RecordSlug, slug) != nil || tx.Get(jobs.UploadSlug, slug) != nil
}

// fileUnder gives the record the form's tags and folder, and creates those that the
// form gives by name and that do not exist yet.
func fileUnder(tx *kv.Tx, r *record.Record, f *record.Form) error {
	bad := map[string]string{}
	if f.Tags != nil {
		ids, err := tagIDs(tx, r.Owner, f.Tags)
		if err != nil {
			return err
		}
		r.Tags = ids
	}
	more, err := tagIDs(tx, r.Owner, f.NewTags)
	if err != nil {
		return err
	}
	for _, t := range f.AddTags {
		id := uuid.MustParse(t)
		if tx.Get(tagBucket, kv.OwnedKey(r.Owner, id[:]...)) == nil {
			name := "addTagIds"
			if r.Seq == 0 { // an upload
				name = "tagIds"
			}
			bad[name] = "names a tag that you do not have"
		}
		more = append(more, id)
	}

	drop := map[record.ID]bool{}
	for _, t := range f.DropTags {
		drop[uuid.MustParse(t)] = true
	}
	for _, name := range f.OldTags {
		if key := tx.Get(tagName, kv.OwnedNameKey(r.Owner, name)); key != nil {
			drop[record.ID(key[len(r.Owner):])] = true
		}
	}
	var kept []record.ID
	for _, id := range append(append([]record.ID{}, r.Tags...), more...) {
		if !drop[id] {
			drop[id] = true
			kept = append(kept, id)
		}
	}
	r.Tags = kept
	if len(kept) > record.MaxTags {
		bad["tags"] = fmt.Sprintf("must have at most %d entries", record.MaxTags)
	}

	switch {
	case r.Attached: // it is where its texts are
		r.Folder = uuid.Nil
	case f.FolderName != "":
		r.Folder, err = folderID(tx, r.Owner, f.FolderName)
		if err != nil {
			return err
		}
	case f.Folder != uuid.Nil && f.Folder != r.Folder && tx.Get(folderBucket, kv.OwnedKey(r.Owner, f.Folder[:]...)) == nil:
		bad["folderId"] = "names a folder that you do not have"
	default:
		r.Folder = f.Folder
	}
	return record.Bad(bad)
}

// Save changes a record according to a form; password is the hash of the form's
// password, if it has one. r must have been read in the same transaction. It fails
// as Add does.
func Save(tx *kv.Tx, r *record.Record, f *record.Form, password string) error {
	if f.Password.Said {
		r.Password = password
	}
	before := new(record.Bookmark)
	if r.Kind == record.Bookmarks {
		var err error
		before, err = bookmark(r)
		if err != nil {
			return err
		}
	}

	old, private := r.Body, !r.Public
	restart := f.Fill(r)
	grew := len(r.Body) > len(old)
	if grew && tx.DiskFull() {
		return kv.ErrFull
	}
	if r.Public && private {
		if err := note(tx, people.ItemShared, r); err != nil {
			return err
		}
		if err := tellMembers(tx, r, people.CollectionPublished, ""); err != nil {
			return err
		}
	}
	kept := int64(0)
	if r.Kind.Versioned() && !bytes.Equal(r.Body, old) {
		var err error
		change := history.Change{By: f.By, Seen: f.Seen && !f.KeepVersion, Ticker: f.Ticker}
		kept, err = history.KeepVersion(tx, r, old, change)
		if err != nil {
			return err
		}
	}

	text := tx.Text(r.Owner)
	if err := fileUnder(tx, r, f); err != nil {
		return err
	}
	if err := setSource(tx, r, f); err != nil {
		return err
	}
	grew = grew || tx.Text(r.Owner) > text // because of new tags or items
	if restart {
		seen := recordViews(tx, r)
		if err := setViews(tx, r, seen, views{seen.total, 0}); err != nil {
			return err
		}
	}

	r.Updated = tx.Now
	if err := save(tx, r); err != nil {
		return err
	}
	if grew {
		if err := people.Charge(tx, r.Owner, -kept); err != nil {
			return err
		}
	}
	if got, ok := f.Body.(*record.Bookmark); ok {
		if err := turnPage(tx, r, before, got); err != nil {
			return err
		}
	}
	return emit(tx, jobs.Edited(r.Kind), r)
}

// save writes the row and moves it to the end of the feed of changes.
func save(tx *kv.Tx, r *record.Record) error {
	if err := SlugFree(tx, r.Slug); err != nil {
		return err
	}
	if tx.Get(kv.RecordSlug, []byte(r.Slug)) == nil && ZipTaken(tx, r.Kind, r.Slug) {
		return kv.UserError(&table.Taken{Index: "slug"}, "item")
	}
	before, err := shownBefore(tx, r)
	if err != nil {
		return err
	}
	r.Seq = tx.NextSeq()
	err = RecordRows.Put(tx.Tx, r)
	if err != nil {
		return kv.UserError(err, "item")
	}
	return attach(tx, r, before)
}

// ZipTaken reports whether the slug is taken for a record of the kind because the address of
// a collection's zip has ".zip" after the slug.
func ZipTaken(tx *kv.Tx, k *record.Kind, slug string) bool {
	if k == record.Collections && slugTaken(tx, []byte(slug+".zip")) {
		return true
	}
	of, zip := strings.CutSuffix(slug, ".zip")
	if !zip || tx.Get(kv.RecordSlug, []byte(of)) == nil {
		return false
	}
	c, err := Slug(tx, of)
	return err != nil || c.Kind == record.Collections
}

// SlugFree fails with Taken if the slug is reserved for the file of an unfinished
// upload.
func SlugFree(tx *kv.Tx, slug string) error {
	if tx.Get(jobs.UploadSlug, []byte(slug)) != nil {
		return kv.UserError(&table.Taken{Index: "slug"}, "item")
	}
	return nil
}

// Remove deletes a record for good, with everything that belongs to it. The record may be
// in the trash. A later sweep unlinks its content unless another record uses it.
func Remove(tx *kv.Tx, r *record.Record) error {
	_, err := TrashRows.Delete(tx.Tx, r.Key())
	if errors.Is(err, table.ErrMissing) {
		_, err = takeOut(tx, r)
		if err != nil {
			return err
		}
		err = detach(tx, r, func(f *record.Record) error {
			if TrashRows.Sum(tx.Tx, trashShown(f.Owner, f.ID)) > 0 { // who restores that record wants the file back
				return Trash(tx, f, "")
			}
			return Remove(tx, f)
		})
	}
	if err != nil {
		return err
	}

	if err := tx.Delete(ViewBucket, r.ID[:]); err != nil {
		return err
	}
	if err := history.Drop(tx, r); err != nil {
		return err
	}
	if err := dropPicks(tx, r); err != nil {
		return err
	}
	if err := dropMemberships(tx, r); err != nil {
		return err
	}
	if err := tx.Delete(spentBucket, r.ID[:]); err != nil { // DropSpent need not delete it any more
		return err
	}

	if r.Bytes == nil {
		return nil
	}
	for _, key := range fileVersionKeys(tx, r) {
		if err := purge(tx, key); err != nil {
			return err
		}
	}
	return letGo(tx, r.Bytes.Ref)
}

// takeOut removes the row of a record and everything derived from it, and returns what the
// trash needs. The feed of changes keeps an entry whose record is missing.
func takeOut(tx *kv.Tx, r *record.Record) (*record.Trashed, error) {
	if err := emit(tx, jobs.Removed(r.Kind), r); err != nil {
		return nil, err
	}
	got, err := RecordRows.Delete(tx.Tx, r.Key())
	if err != nil {
		return nil, kv.UserError(err, "item")
	}
	got.Seq = tx.NextSeq()
	if err := tx.Delete(recordOrder, ViewOrder(r, recordViews(tx, r).total)); err != nil {
		return nil, err
	}
	if err := tx.Put(kv.ChangeBucket, binary.BigEndian.AppendUint64(nil, got.Seq), r.Key()); err != nil {
		return nil, err
	}

	t := &record.Trashed{Record: *got, Removal: record.Removal{At: tx.Now}}
	if r.Kind == record.Bookmarks {
		t.Page, err = PageRows.Delete(tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Record reads the owner's record of the kind with the given id or slug.
func Record(tx *kv.Tx, owner record.ID, k *record.Kind, idOrSlug string) (*record.Record, error) {
	r, err := Borrow(tx, owner, k, idOrSlug)
	if err != nil {
		return nil, err
	}
	r.Body = bytes.Clone(r.Body)
	return r, nil
}

// Borrow is Record for a record that is only read: its Body is valid until the
// transaction ends.
func Borrow(tx *kv.Tx, owner record.ID, k *record.Kind, idOrSlug string) (*record.Record, error) {
	var key []byte
	if id, err := uuid.Parse(idOrSlug); err == nil {
		key = record.RowKey(owner, k, id)
	} else {
		key = tx.Get(kv.RecordSlug, []byte(idOrSlug))
		if !bytes.HasPrefix(key, kv.OwnedKey(owner, k.Code)) {
			return nil, record.NotFound(k.Name) // same answer if another owner has it
		}
	}
	row := tx.Get(kv.RecordBucket, key)
	if row == nil {
		return nil, record.NotFound(k.Name)
	}
	return record.BorrowRow(key, row)
}

// Owned reads the owner's record of the kind with the given id.
func Owned(tx *kv.Tx, owner record.ID, k *record.Kind, id record.ID) (*record.Record, error) {
	r, err := RecordRows.Get(tx.Tx, record.RowKey(owner, k, id))
	return r, kv.UserError(err, k.Name)
}

// NewestFirst yields the owner's records of the kind, newest first.
func NewestFirst(tx *kv.Tx, owner record.ID, k *record.Kind) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		for key, row := range tx.Walk(kv.RecordBucket, kv.OwnedKey(owner, k.Code), nil, true) {
			if !yield(record.ParseRow(key, row)) {
				return
			}
		}
	}
}

// Slug reads the record with the given slug, no matter who owns it.
func Slug(tx *kv.Tx, slug string) (*record.Record, error) {
	if slug == "" {
		return nil, record.ErrMissing
	}
	r, err := RecordRows.Find(tx.Tx, kv.RecordSlug, []byte(slug))
	if errors.Is(err, table.ErrMissing) {
		return nil, record.ErrMissing
	}
	return r, err
}

// Show fills v with the record, its tags, folder, page and views. r may have been
// read in an earlier transaction: a tag or a folder deleted since is left out.
func Show(tx *kv.Tx, r *record.Record, v *record.Shown) error {
	seen := recordViews(tx, r)
	v.Record, v.Views, v.Used = *r, seen.total, seen.used
	v.TagList = v.TagList[:0]
	for _, id := range r.Tags {
		t, err := tag(tx, r.Owner, id)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		v.TagList = append(v.TagList, t)
	}

	v.Page = record.Page{}
	if r.Kind == record.Bookmarks && !v.Visitor {
		p, err := PageRows.Get(tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
		switch {
		case errors.Is(err, table.ErrMissing):
		case err != nil:
			return err
		default:
			v.Page = *p
		}
	}
	if r.Kind == record.Collections {
		if err := collected(tx, r, v); err != nil {
			return err
		}
	}
	v.NeverStrip = false
	if r.Bytes != nil && r.Bytes.Metadata.State == record.MetadataRemovable && !v.Visitor {
		set, err := people.ReadSettings(tx)
		if err != nil {
			return err
		}
		v.NeverStrip = set.KeepMetadata
	}

	v.FolderName = ""
	if r.Folder == uuid.Nil {
		return nil
	}
	f, err := Folder(tx, r.Owner, r.Folder)
	switch {
	case kv.Missing(err):
		v.Folder = uuid.Nil
	case err != nil:
		return err
	default:
		v.FolderName = f.Name
	}
	return nil
}

// checkRecordBound refuses a record beyond the bound for each owner.
func checkRecordBound(tx *kv.Tx, owner record.ID) error {
	n := TrashCount(tx, owner, nil)
	for _, k := range record.Kinds {
		n += RecordRows.Sum(tx.Tx, kv.OwnedKey(owner, k.Code))
	}
	if limit := tx.Bounds().Records; n >= limit {
		return kv.TooMany("items", "too_many_items", limit)
	}
	return nil
}

// emit adds a delivery for each of the owner's webhooks that wants the event, with
// the record as it is now.
func emit(tx *kv.Tx, e jobs.Event, r *record.Record) error {
	var v record.Shown
	return jobs.Deliver(tx, r.Owner, e, r.ID, func() (jobs.Notice, error) {
		if err := Show(tx, r, &v); err != nil {
			return jobs.Notice{}, err
		}
		return jobs.NoticeOf(&v), nil
	})
}

// note adds an event of a record to its owner's activity.
func note(tx *kv.Tx, e people.ActivityEvent, r *record.Record) error {
	b, err := r.Decode()
	if err != nil {
		return err
	}
	return people.Note(tx, people.Activity{Owner: r.Owner, Event: e, Name: b.Title(), Kind: r.Kind.Name, Item: r.ID})
}

// describeRecord describes an item from its key and its row.
func describeRecord(key, row []byte) (kv.Touched, bool) {
	if len(key) != record.KeySize {
		return kv.Touched{}, false
	}
	t := kv.Touched{ID: record.ID(key[17:33])}
	if rec, err := RecordRows.Decode(key, row); row != nil && err == nil {
		t.Kind = rec.Kind.Name
		if body, err := rec.Decode(); err == nil {
			t.Name = body.Title()
		}
	}
	return t, true
}
