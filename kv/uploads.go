package kv

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"kist/kv/record"
	"kist/kv/table"
)

// Bounds of uploads that come in pieces.
const (
	UploadTime = 24 * time.Hour     // that an upload waits for its next bytes, and is remembered when it is complete
	uploadMost = 7 * 24 * time.Hour // from its beginning to its end, whatever comes
	maxUploads = 100                // that an owner may have begun
)

// An Upload is content that comes in pieces, over restarts, and of which a file
// is made at the end. Its bytes, as long as they are not all there, are a part
// of package blobs under its id.
type Upload struct {
	ID    record.ID
	Owner record.ID // who pays: what it may take is counted against their quota from the beginning

	Created time.Time
	Expires time.Time // when it is forgotten
	Length  int64     // in bytes; -1 as long as it is not known
	Offset  int64     // bytes that are on stable storage
	State   []byte    // of their hash

	Metadata string    // as the client sent it, without the password
	Password string    // hash; "" is none
	Slug     string    // kept free for the file; "" has one made
	File     record.ID // that was made of it; zero until then
}

// Done reports whether a file was made of it.
func (u *Upload) Done() bool { return u.File != uuid.Nil }

// reserved is how many bytes are set aside for it.
func (u *Upload) reserved() int64 {
	if u.Done() {
		return 0
	}
	return max(u.Length, u.Offset)
}

// Entries of the sums over uploads.
func reservedOf(owner record.ID) []byte { return pair(owner, 0, 'r') } // bytes that are set aside
func begunOf(owner record.ID) []byte    { return pair(owner, 0, 'p') } // uploads that are not done

// stillToCome is where the bytes that all uploads wait for are summed up.
var stillToCome = reservedOf(uuid.Nil)

var uploads = func() *table.Table[Upload] {
	t := rows(uploadBucket, func(u *Upload) []byte { return pair(u.Owner, u.ID[:]...) },
		table.Index[Upload]{Bucket: uploadSlug, Name: "slug", Unique: true, Keys: func(u *Upload, file func([]byte)) {
			if u.Slug != "" && !u.Done() {
				file([]byte(u.Slug))
			}
		}})
	t.Sums = sumBucket
	t.Tally = func(u *Upload, add func([]byte, int64)) {
		if u.Done() {
			return
		}
		add(begunOf(u.Owner), 1)
		add(reservedOf(u.Owner), u.reserved())
		add(stillToCome, u.reserved()-u.Offset)
	}
	return t
}()

// AddUpload begins an upload and sets aside what it takes of the owner's quota,
// and its slug. It fails with Taken if the slug is in use, with Denied if it
// does not fit the quota or too many have been begun, and with ErrFull while the
// disk has no room.
func (tx *Tx) AddUpload(u Upload) (*Upload, error) {
	if tx.s.room.low.Load() {
		return nil, ErrFull
	}
	if err := tx.owner(u.Owner); err != nil {
		return nil, err
	}
	if uploads.Sum(tx.Tx, begunOf(u.Owner)) >= maxUploads {
		return nil, &record.Error{Fault: record.Denied, Code: "too_many_uploads", Text: "Too many uploads have been begun and not finished. Finish or cancel some; those that nobody goes on with end after 24 hours."}
	}
	if u.Slug != "" && tx.Get(recordSlug, []byte(u.Slug)) != nil {
		return nil, fault(&table.Taken{Index: "slug"}, "item")
	}
	if err := tx.charge(u.Owner, max(u.Length, 0)); err != nil {
		return nil, err
	}
	u.ID, u.Created, u.Expires = tx.NewID(), tx.Now, tx.Now.Add(UploadTime)
	return &u, fault(uploads.Put(tx.Tx, &u), "upload")
}

// Upload reads one of the owner's uploads: Missing if there is none, Gone if it
// waited too long.
func (tx *Tx) Upload(owner, id record.ID) (*Upload, error) {
	u, err := uploads.Get(tx.Tx, pair(owner, id[:]...))
	if err == nil && !tx.Now.Before(u.Expires) {
		return nil, &record.Error{Fault: record.Gone, Code: "upload_expired", Text: "This upload was not gone on with in time; begin it again."}
	}
	return u, fault(err, "upload")
}

// Uploads lists the owner's uploads that are not done, oldest first.
func (tx *Tx) Uploads(owner record.ID) ([]Upload, error) {
	var all []Upload
	for u, err := range uploads.All(tx.Tx, owner[:]) {
		if err != nil {
			return nil, err
		}
		if !u.Done() && tx.Now.Before(u.Expires) {
			all = append(all, *u)
		}
	}
	return all, nil
}

// SaveUpload notes how far an upload is that is not done; its time begins anew.
// It fails with Missing if there is no such upload any more and with Denied if
// what it takes has grown over the owner's quota.
func (tx *Tx) SaveUpload(u *Upload) error {
	was, err := uploads.Get(tx.Tx, pair(u.Owner, u.ID[:]...))
	if err != nil {
		return fault(err, "upload")
	}
	if was.Done() {
		return record.NotFound("upload")
	}
	if more := u.reserved() - was.reserved(); more > 0 {
		if err := tx.charge(u.Owner, more); err != nil {
			return err
		}
	}
	u.Expires = tx.Now.Add(UploadTime)
	if last := u.Created.Add(uploadMost); u.Expires.After(last) {
		u.Expires = last
	}
	return uploads.Put(tx.Tx, u)
}

// FinishUpload makes the file of an upload whose content is complete, as Add
// does, out of the form that was good when it began: a folder and tags that are
// gone meanwhile are left out, and an end that has passed is kept. The upload
// is remembered for a while, so that a client that missed the answer finds out.
func (tx *Tx) FinishUpload(u *Upload, f *record.Form, content *record.Content) (*record.Record, error) {
	if tx.s.room.low.Load() {
		return nil, ErrFull
	}
	was, err := uploads.Delete(tx.Tx, pair(u.Owner, u.ID[:]...)) // frees what was set aside
	if err != nil {
		return nil, fault(err, "upload")
	}
	if was.Done() {
		return nil, record.NotFound("upload")
	}
	r, err := tx.addAwaited(u.Owner, f, content, was.Password)
	if err != nil {
		return nil, err
	}
	u.File, u.Expires = r.ID, tx.Now.Add(UploadTime)
	u.Metadata, u.Password, u.State, u.Slug = "", "", nil, ""
	return r, uploads.Put(tx.Tx, u)
}

// addAwaited makes a file, as Add does, of a form that was good a while ago: a
// folder and tags that are gone meanwhile are left out, and an end that has
// passed is kept.
func (tx *Tx) addAwaited(owner record.ID, f *record.Form, content *record.Content, password string) (*record.Record, error) {
	if f.Folder != uuid.Nil && tx.Get(folderBucket, pair(owner, f.Folder[:]...)) == nil {
		f.Folder = uuid.Nil
	}
	there := f.AddTags[:0]
	for _, t := range f.AddTags {
		if id := uuid.MustParse(t); tx.Get(tagBucket, pair(owner, id[:]...)) != nil {
			there = append(there, t)
		}
	}
	f.AddTags = there
	if err := tx.charge(owner, content.Size); err != nil {
		return nil, err
	}
	return tx.addChecked(owner, record.Files, f, content, password)
}

// RemoveUpload forgets an upload. Its bytes are for the caller to remove.
func (tx *Tx) RemoveUpload(owner, id record.ID) error {
	_, err := uploads.Delete(tx.Tx, pair(owner, id[:]...))
	return fault(err, "upload")
}

// DropUploads forgets the uploads whose time is over.
func (tx *Tx) DropUploads() error {
	var over [][]byte
	for key, row := range tx.Walk(uploadBucket, nil, nil, false) {
		u, err := uploads.Decode(key, row)
		if err != nil {
			return err
		}
		if !tx.Now.Before(u.Expires) {
			over = append(over, bytes.Clone(key))
		}
	}
	for _, key := range over {
		if _, err := uploads.Delete(tx.Tx, key); err != nil {
			return err
		}
	}
	return nil
}

// AwaitedUploads are the ids of all uploads that are not done: they have bytes.
func (tx *Tx) AwaitedUploads() (map[string]bool, error) {
	all := map[string]bool{}
	for u, err := range uploads.All(tx.Tx, nil) {
		if err != nil {
			return nil, err
		}
		if !u.Done() {
			all[u.ID.String()] = true
		}
	}
	return all, nil
}

// StillToCome is how many bytes the uploads that have been begun wait for,
// remote ones too, of all owners; their place on the disk is promised.
func (tx *Tx) StillToCome() int64 {
	return uploads.Sum(tx.Tx, stillToCome) + fetches.Sum(tx.Tx, stillToFetch)
}

// setAside is how many bytes are set aside for uploads of the owner that are
// not complete, remote ones too.
func (tx *Tx) setAside(owner record.ID) int64 {
	return uploads.Sum(tx.Tx, reservedOf(owner)) + fetches.Sum(tx.Tx, fetchingOf(owner))
}
