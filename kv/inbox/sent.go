package inbox

import (
	"bytes"
	"time"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// TakeBackTime is how long after its receipt a sender may see a file and take it back.
const TakeBackTime = time.Hour

// Sent names a file that a sender has left.
type Sent struct{ Owner, Request, Item record.ID }

// NotSent is the answer for a file that was never sent, or that is not there any more.
var NotSent = record.NotFound("file")

var (
	errLate = &record.Error{
		Fault: record.Gone, Code: "too_late",
		Text: "A file can be taken back for an hour. Ask the person whom you sent it to.",
	}
	errDeclined = &record.Error{
		Fault: record.Taken, Code: "already_decided",
		Text: "This file was declined, so there is nothing to take back.",
	}
)

// SentItem reads a file for its sender. The error is NotSent if it was taken back, if its request is gone, if the owner
// has deleted what it became, and while the owner's account is disabled; and Gone after TakeBackTime.
func SentItem(tx *kv.Tx, s Sent) (*Item, error) {
	i, err := ReadItem(tx, s.Owner, s.Request, s.Item)
	if kv.Missing(err) {
		return nil, NotSent
	}
	if err != nil {
		return nil, err
	}
	disabled, err := people.Disabled(tx, s.Owner)
	if err != nil {
		return nil, err
	}
	switch {
	case disabled:
		return nil, NotSent
	case !tx.Now.Before(i.Created.Add(TakeBackTime)):
		return nil, errLate
	case i.State == Approved && tx.Get(kv.RecordBucket, record.RowKey(i.Owner, record.Files, i.File)) == nil:
		return nil, NotSent
	}
	return i, nil
}

// TakeBack undoes the sending of a file: it counts no more, and the owner's activity tells of it. One that waits is
// gone. One that has become a file of the owner's goes to the trash. It fails as SentItem does, and with Taken if the
// owner has declined it.
func TakeBack(tx *kv.Tx, s Sent) error {
	i, err := SentItem(tx, s)
	if err != nil {
		return err
	}
	if i.State == Rejected {
		return errDeclined
	}
	q, err := ReadRequest(tx, i.Owner, i.Request)
	if err != nil {
		return err
	}
	told := people.Activity{Owner: q.Owner, Event: people.FileTakenBack, Name: q.Title, Item: q.ID}
	if err := people.Note(tx, told); err != nil {
		return err
	}

	if _, err := ItemRows.Delete(tx.Tx, ItemRows.Key(i)); err != nil {
		return err
	}
	if err := dropSender(tx, i); err != nil {
		return err
	}
	if i.State == Pending {
		return catalog.MarkUnreferenced(tx, i.Ref)
	}
	r, err := catalog.Record(tx, i.Owner, record.Files, i.File.String())
	if err != nil {
		return err
	}
	by := "sender"
	if i.Sender != "" {
		by += ": " + i.Sender
	}
	return catalog.TakeBack(tx, r, by)
}

// dropSender deletes the row of SenderTable for an item, if there is one.
func dropSender(tx *kv.Tx, i *Item) error {
	for k := range tx.Walk(senderBucket, itemKey(i.Owner, i.Request), nil, false) {
		if bytes.HasSuffix(k, i.ID[:]) {
			return tx.Delete(senderBucket, bytes.Clone(k))
		}
	}
	return nil
}
