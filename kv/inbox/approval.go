package inbox

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// What happens to a file that came in through an upload link: it waits in the queue or
// becomes a file at once, and its owner decides.

// A Received is a file that came in. Its content is stored and pinned.
type Received struct {
	Name, MimeType string
	Ref            [32]byte
	Size           int64
}

// Receive adds the files that a sender left to the queue, and makes them the owner's
// files at once if the request needs no approval. It replaces the reservation with
// the actual counts. It fails as Reserve does, but not because the owner's text has
// grown since.
func Receive(tx *kv.Tx, r *Reservation, f *SenderForm, came []Received) ([]*Item, error) {
	promises.Of(tx.Store()).drop(r) // from here on the files count as received, or not at all
	size := int64(0)
	for _, c := range came {
		size += c.Size
	}
	q, room, err := checkReservation(tx, r, people.ContentBytes, int64(len(came)), size, size)
	if err == ErrWait || err == nil && room < size { //nolint:errorlint // exactly this value
		err = ErrNoRoom
	}
	if err != nil {
		return nil, err
	}
	var all []*Item
	for _, c := range came {
		i := &Item{
			ID: tx.NewID(), Owner: q.Owner, Request: q.ID, State: Pending, Name: c.Name, MimeType: c.MimeType, Size: c.Size,
			Ref: c.Ref, Sender: f.Name, Message: f.Message, Created: tx.Now,
		}
		if q.Approval {
			if err := tx.Delete(catalog.UnreferencedBucket, bytes.Clone(c.Ref[:])); err != nil {
				return nil, err
			}
		} else if err := approve(tx, q, i, &Decision{}); err != nil {
			return nil, err
		}
		if err := ItemRows.Put(tx.Tx, i); err != nil {
			return nil, err
		}
		if err := errors.Join(
			emitItem(tx, jobs.UploadReceived, i),
			people.Note(tx, people.Activity{Owner: q.Owner, Event: people.FileReceived, Name: q.Title, Item: q.ID}),
		); err != nil {
			return nil, err
		}
		if q.PerSender > 0 {
			key := append(itemKey(q.Owner, q.ID, r.sender[:]...), i.ID[:]...)
			if err := tx.Put(senderBucket, key, tx.Instant()); err != nil {
				return nil, err
			}
		}
		all = append(all, i)
	}
	return all, nil
}

// approve turns an item into one of the owner's files.
func approve(tx *kv.Tx, q *Request, i *Item, d *Decision) error {
	f := record.NewForm(record.Files)
	f.Public, f.Tags, f.FolderName = d.Public, d.Tags, d.FolderName
	f.FolderName = cmp.Or(f.FolderName, q.FolderName)
	f.Body = &record.File{OriginalName: i.Name, MimeType: i.MimeType, SHA256: hex.EncodeToString(i.Ref[:]), Size: i.Size}
	content := &record.Content{Ref: i.Ref, Size: i.Size}
	if err := i.Decide(Approved, tx.Now); err != nil {
		return err
	}
	r, err := catalog.AddCharged(tx, i.Owner, record.Files, f, content, "") // its bytes were charged when it came in
	if err != nil {
		return err
	}
	i.File, i.FileSlug = r.ID, r.Slug
	return nil
}

// Item reads an item of the owner's queue.
func ReadItem(tx *kv.Tx, owner, request, id record.ID) (*Item, error) {
	i, err := ItemRows.Get(tx.Tx, itemKey(owner, request, id[:]...))
	return i, kv.UserError(err, "upload")
}

// DecideAll makes the same decision for several pending items of one request: for all
// of them, or for none if one is missing or already decided.
func DecideAll(tx *kv.Tx, owner, request record.ID, ids []record.ID, d *Decision) ([]*Item, error) {
	all := make([]*Item, 0, len(ids))
	for _, id := range ids {
		i, err := Decide(tx, owner, request, id, d)
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

// Decide approves or rejects a pending item; Taken if it was decided. An approved item
// becomes a file. A rejected item keeps only its row, and a later sweep unlinks its
// content unless a file also uses it.
func Decide(tx *kv.Tx, owner, request, id record.ID, d *Decision) (*Item, error) {
	i, err := ReadItem(tx, owner, request, id)
	if err != nil {
		return nil, err
	}
	event, ref := jobs.UploadRejected, i.Ref
	if d.Approves() {
		event = jobs.UploadApproved
		q, err := ReadRequest(tx, owner, request)
		if err == nil {
			err = approve(tx, q, i, d)
		}
		if err != nil {
			return nil, err
		}
	} else if err := i.Decide(Rejected, tx.Now); err != nil {
		return nil, err
	}
	if err := ItemRows.Put(tx.Tx, i); err != nil {
		return nil, err
	}
	if !d.Approves() {
		if err := catalog.MarkUnreferenced(tx, ref); err != nil {
			return nil, err
		}
	}
	return i, emitItem(tx, event, i)
}

// emitItem sends an event about an item, as the queue shows it, to the owner's webhooks.
func emitItem(tx *kv.Tx, e jobs.Event, i *Item) error {
	return jobs.Emit(tx, i.Owner, e, i.ID, jobs.Notice{Title: i.Name, Path: "/upload-requests", Data: field.AppendJSON(nil, i)})
}
