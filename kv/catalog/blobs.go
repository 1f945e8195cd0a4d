package catalog

import (
	"bytes"
	"encoding/binary"
	"time"

	"kist/kv"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// UnreferencedTable keeps which contents no record has any more.
var UnreferencedTable = kv.Table{
	Buckets: []table.Bucket{UnreferencedBucket},
	Refill:  func(r *kv.Refill) error { return r.Copy(UnreferencedBucket, nil) },
	Redate:  kv.RedateInstants(UnreferencedBucket),
}

// Referenced reports whether a record has the content, or an item that waits
// for approval.
func Referenced(tx *kv.Tx, ref [32]byte) bool {
	for _, ix := range tx.Schema().Contents() {
		for range tx.Walk(ix.Bucket, ref[:], nil, false) {
			return true
		}
	}
	return false
}

// MarkUnreferenced notes that the content has lost what had it, unless something else
// has it.
func MarkUnreferenced(tx *kv.Tx, ref [32]byte) error {
	if Referenced(tx, ref) {
		return nil
	}
	return tx.Put(UnreferencedBucket, bytes.Clone(ref[:]), tx.Instant())
}

// Unreferenced reports whether the content may be unlinked: no record has it, and it
// was noted not later than the given instant that none has. What was never
// noted stays: the store may have lost the record, and the content not.
func Unreferenced(tx *kv.Tx, ref [32]byte, since time.Time) bool {
	if Referenced(tx, ref) {
		return false
	}
	at := tx.Get(UnreferencedBucket, ref[:])
	return len(at) == 8 && int64(binary.BigEndian.Uint64(at)) <= since.UnixMilli()
}

// UnreferencedRefs lists up to limit contents that no record has had since the given
// instant.
func UnreferencedRefs(tx *kv.Tx, since time.Time, limit int) [][32]byte {
	var refs [][32]byte
	for ref, at := range tx.Walk(UnreferencedBucket, nil, nil, false) {
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
func Unlinked(tx *kv.Tx, ref [32]byte) error { return tx.Delete(UnreferencedBucket, ref[:]) }

// NoteOrphans notes that no record has the contents, from now on, unless that
// was noted before. It does nothing while orphans are to be kept.
func NoteOrphans(tx *kv.Tx, refs [][32]byte) error {
	if tx.Get(workcopy.MetaBucket, kv.MetaOrphans) != nil {
		return nil
	}
	for _, ref := range refs {
		if Referenced(tx, ref) || tx.Get(UnreferencedBucket, ref[:]) != nil {
			continue
		}
		if err := tx.Put(UnreferencedBucket, append([]byte{}, ref[:]...), tx.Instant()); err != nil {
			return err
		}
	}
	return nil
}

// FreeOrphans ends that contents without a record are kept, as they are after
// a repair that has lost records.
func FreeOrphans(tx *kv.Tx) error { return tx.Delete(workcopy.MetaBucket, kv.MetaOrphans) }

// NeverReferenced reports whether no record has or has had the content, as far as is
// known: it came with an upload that got no record. While orphans are to be
// kept nothing is.
func NeverReferenced(tx *kv.Tx, ref [32]byte) bool {
	return !Referenced(tx, ref) && tx.Get(UnreferencedBucket, ref[:]) == nil && tx.Get(workcopy.MetaBucket, kv.MetaOrphans) == nil
}

// ContentUnknown is NeverReferenced in a transaction of its own, as blobs.Store.Unlink asks.
func ContentUnknown(s *kv.Store, ref [32]byte) (unknown bool, err error) {
	err = s.View(func(tx *kv.Tx) error { unknown = NeverReferenced(tx, ref); return nil })
	return unknown, err
}
