package kv

import (
	"encoding/binary"
	"time"
)

// Referenced reports whether a record has the content.
func (tx *Tx) Referenced(ref [32]byte) bool {
	for range tx.Walk(blobBucket, ref[:], nil, false) {
		return true
	}
	return false
}

// Loose reports whether the content may be unlinked: no record has it, and
// none has had it since the given instant.
func (tx *Tx) Loose(ref [32]byte, since time.Time) bool {
	if tx.Referenced(ref) {
		return false
	}
	at := tx.Get(looseBucket, ref[:])
	return len(at) != 8 || int64(binary.BigEndian.Uint64(at)) <= since.UnixMilli()
}

// LooseRefs lists up to most contents that no record has had since the given
// instant.
func (tx *Tx) LooseRefs(since time.Time, most int) [][32]byte {
	var refs [][32]byte
	for ref, at := range tx.Walk(looseBucket, nil, nil, false) {
		if len(refs) == most {
			break
		}
		if len(at) == 8 && int64(binary.BigEndian.Uint64(at)) <= since.UnixMilli() {
			refs = append(refs, [32]byte(ref))
		}
	}
	return refs
}

// Unlinked notes that the content is gone from the disk.
func (tx *Tx) Unlinked(ref [32]byte) error { return tx.Delete(looseBucket, ref[:]) }
