package kv

import (
	"bytes"
	"encoding/binary"
	"time"

	"kist/kv/table"
)

var unreferencedTable = Table{
	Buckets: []table.Bucket{unreferencedBucket},
	Refill:  func(r *Refill) error { return r.copy(unreferencedBucket, nil) },
	Redate:  redateInstants(unreferencedBucket),
}

// Referenced reports whether a record has the content, or an item that waits
// for approval.
func (tx *Tx) Referenced(ref [32]byte) bool {
	for _, ix := range tx.s.schema.contents() {
		for range tx.Walk(ix.Bucket, ref[:], nil, false) {
			return true
		}
	}
	return false
}

// markUnreferenced notes that the content has lost what had it, unless something else
// has it.
func (tx *Tx) markUnreferenced(ref [32]byte) error {
	if tx.Referenced(ref) {
		return nil
	}
	return tx.Put(unreferencedBucket, bytes.Clone(ref[:]), tx.instant())
}

// Unreferenced reports whether the content may be unlinked: no record has it, and it
// was noted not later than the given instant that none has. What was never
// noted stays: the store may have lost the record, and the content not.
func (tx *Tx) Unreferenced(ref [32]byte, since time.Time) bool {
	if tx.Referenced(ref) {
		return false
	}
	at := tx.Get(unreferencedBucket, ref[:])
	return len(at) == 8 && int64(binary.BigEndian.Uint64(at)) <= since.UnixMilli()
}

// UnreferencedRefs lists up to limit contents that no record has had since the given
// instant.
func (tx *Tx) UnreferencedRefs(since time.Time, limit int) [][32]byte {
	var refs [][32]byte
	for ref, at := range tx.Walk(unreferencedBucket, nil, nil, false) {
		if len(refs) == limit {
			break
		}
		if len(at) == 8 && int64(binary.BigEndian.Uint64(at)) <= since.UnixMilli() {
			refs = append(refs, [32]byte(ref))
		}
	}
	return refs
}

// Unlinked notes that the content is gone from the disk.
func (tx *Tx) Unlinked(ref [32]byte) error { return tx.Delete(unreferencedBucket, ref[:]) }

// NoteOrphans notes that no record has the contents, from now on, unless that
// was noted before. It does nothing while orphans are to be kept.
func (tx *Tx) NoteOrphans(refs [][32]byte) error {
	if tx.Get(metaBucket, metaOrphans) != nil {
		return nil
	}
	for _, ref := range refs {
		if tx.Referenced(ref) || tx.Get(unreferencedBucket, ref[:]) != nil {
			continue
		}
		if err := tx.Put(unreferencedBucket, append([]byte{}, ref[:]...), tx.instant()); err != nil {
			return err
		}
	}
	return nil
}

// FreeOrphans ends that contents without a record are kept, as they are after
// a repair that has lost records.
func (tx *Tx) FreeOrphans() error { return tx.Delete(metaBucket, metaOrphans) }

// NeverReferenced reports whether no record has or has had the content, as far as is
// known: it came with an upload that got no record. While orphans are to be
// kept nothing is.
func (tx *Tx) NeverReferenced(ref [32]byte) bool {
	return !tx.Referenced(ref) && tx.Get(unreferencedBucket, ref[:]) == nil && tx.Get(metaBucket, metaOrphans) == nil
}

// NeverReferenced is Tx.Unknown in a transaction of its own, as blobs.Store.Unlink asks.
func (s *Store) NeverReferenced(ref [32]byte) (unknown bool, err error) {
	err = s.View(func(tx *Tx) error { unknown = tx.NeverReferenced(ref); return nil })
	return unknown, err
}
