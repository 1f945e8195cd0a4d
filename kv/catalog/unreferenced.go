package catalog

import (
	"bytes"
	"encoding/binary"
	"time"

	"kist/kv"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// UnreferencedTable keeps the contents that no record uses any more.
var UnreferencedTable = kv.Table{
	Buckets: []table.Bucket{UnreferencedBucket},
	Check: func(a *kv.Audit) {
		for ref := range a.Walk(UnreferencedBucket, nil, nil, false) {
			if len(ref) == 32 && Referenced(a.Tx, [32]byte(ref)) {
				a.Say("content %x is in use and marked as unreferenced", ref)
			}
		}
	},
	Refill: func(r *kv.Refill) error {
		return r.Copy(UnreferencedBucket, func(ref []byte) bool { return len(ref) == 32 && !Referenced(r.Tx, [32]byte(ref)) })
	},
}

// Referenced reports whether a record or an item that waits for approval uses the
// content.
func Referenced(tx *kv.Tx, ref [32]byte) bool {
	for _, ix := range tx.Schema().Contents() {
		for range tx.Walk(ix.Bucket, ref[:], nil, false) {
			return true
		}
	}
	return false
}

// MarkUnreferenced marks the content as unreferenced, unless something still uses it.
func MarkUnreferenced(tx *kv.Tx, ref [32]byte) error {
	if Referenced(tx, ref) {
		return nil
	}
	return tx.Put(UnreferencedBucket, bytes.Clone(ref[:]), tx.Instant())
}

// Unreferenced reports whether the content may be unlinked: nothing uses it, and it
// was marked no later than the given instant. Unmarked content stays: the store may
// have lost only the record.
func Unreferenced(tx *kv.Tx, ref [32]byte, since time.Time) bool {
	if Referenced(tx, ref) {
		return false
	}
	at := tx.Get(UnreferencedBucket, ref[:])
	return len(at) == 8 && int64(binary.BigEndian.Uint64(at)) <= since.UnixMilli()
}

// UnreferencedRefs lists up to limit contents that were marked as unreferenced no
// later than the given instant.
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

// Unlinked records that the content is gone from the disk.
func Unlinked(tx *kv.Tx, ref [32]byte) error { return tx.Delete(UnreferencedBucket, ref[:]) }

// NoteOrphans marks the contents that nothing uses as unreferenced from now on. It
// leaves earlier marks as they are, and does nothing while orphans are to be kept.
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

// FreeOrphans stops keeping contents without a record. A repair that lost records
// starts keeping them.
func FreeOrphans(tx *kv.Tx) error { return tx.Delete(workcopy.MetaBucket, kv.MetaOrphans) }

// NeverReferenced reports whether, as far as is known, no record has ever used the
// content: it came with an upload that did not become a record. While orphans are to
// be kept it is always false.
func NeverReferenced(tx *kv.Tx, ref [32]byte) bool {
	return !Referenced(tx, ref) && tx.Get(UnreferencedBucket, ref[:]) == nil &&
		tx.Get(workcopy.MetaBucket, kv.MetaOrphans) == nil
}

// ContentUnknown is NeverReferenced in a transaction of its own, for blobs.Store.Unlink.
func ContentUnknown(s *kv.Store, ref [32]byte) (unknown bool, err error) {
	err = s.View(func(tx *kv.Tx) error { unknown = NeverReferenced(tx, ref); return nil })
	return unknown, err
}
