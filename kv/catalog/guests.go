package catalog

import (
	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/record"
)

// Uncollected is why a received file is not in the collection of its upload request; "" if it is, or if the request has
// none.
type Uncollected string

// The reasons.
const (
	CollectionFull Uncollected = "full" // it has record.MaxPicked items
	CollectionGone Uncollected = "gone" // it was deleted, or shows a folder or a tag now
)

// UncollectedReasons lists the reasons.
var UncollectedReasons = []Uncollected{CollectionFull, CollectionGone}

// SetRequest makes an upload request the one whose files go into a collection, and returns the one that was it before.
// The error is Invalid if the owner has no such collection, or if it shows a folder or a tag.
func SetRequest(tx *kv.Tx, owner, collection, request record.ID) (former record.ID, err error) {
	r, err := Record(tx, owner, record.Collections, collection.String())
	if kv.Missing(err) {
		return former, record.Bad(map[string]string{"collectionId": "names a collection that you do not have"})
	}
	if err != nil {
		return former, err
	}
	body, err := r.Decode()
	if err != nil {
		return former, err
	}
	b := body.(*record.Collection) // the kind says so
	if b.Live() {
		text := "names a collection that shows a folder or a tag; only one whose items are picked can receive files"
		return former, record.Bad(map[string]string{"collectionId": text})
	}
	former = b.Request
	if former == request {
		return former, nil
	}
	b.Request = request
	r.SetBody(b)
	return former, touch(tx, r)
}

// ClearRequest takes an upload request away from a collection, if it has it and exists.
func ClearRequest(tx *kv.Tx, owner, collection, request record.ID) error {
	r, err := Record(tx, owner, record.Collections, collection.String())
	if kv.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	body, err := r.Decode()
	if err != nil {
		return err
	}
	b := body.(*record.Collection) // the kind says so
	if b.Request != request {
		return nil
	}
	b.Request = uuid.Nil
	r.SetBody(b)
	return touch(tx, r)
}

// Collect puts received files at the end of a collection of their owner, in this order, as far as they have room. It
// says how many of them it put, and why not the others. It is no reason to refuse the files.
func Collect(tx *kv.Tx, owner, collection record.ID, files []record.ID) (put int, why Uncollected, err error) {
	r, err := Record(tx, owner, record.Collections, collection.String())
	if kv.Missing(err) {
		return 0, CollectionGone, nil
	}
	if err != nil {
		return 0, "", err
	}
	body, err := r.Decode()
	if err != nil {
		return 0, "", err
	}
	if body.(*record.Collection).Live() { // the kind says so
		return 0, CollectionGone, nil
	}

	rank, n := uint64(firstRank), 0
	for at := range order(tx, r, nil, true) {
		rank = max(rank, at.rank+rankGap)
		if n == record.MaxPicked {
			break
		}
		n++
	}
	put = min(len(files), record.MaxPicked-n)
	for _, id := range files[:put] {
		if err := PickRows.Put(tx.Tx, &PickedItem{owner, id, r.ID, record.Files, rank, owner}); err != nil {
			return 0, "", err
		}
		rank += rankGap
	}
	if put < len(files) {
		why = CollectionFull
	}
	if put == 0 {
		return 0, why, nil
	}
	return put, why, touch(tx, r)
}

// TakeBack moves a file to its owner's trash because its sender wants it back. It is in no collection any more, even if
// the owner restores it. by names the sender.
func TakeBack(tx *kv.Tx, r *record.Record, by string) error {
	if err := dropPicks(tx, r); err != nil {
		return err
	}
	return Trash(tx, r, by)
}
