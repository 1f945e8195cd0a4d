package catalog

import (
	"bytes"
	"encoding/binary"

	"kist/blobs"
	"kist/kv"
	"kist/kv/table"
)

// CRCTable keeps the CRC-32 of contents, so that a zip can have it before their bytes. A repair starts it empty.
var CRCTable = kv.Table{Buckets: []table.Bucket{crcBucket}}

// A CRCKey identifies bytes: a content, or what the rules with this number leave of it.
type CRCKey struct {
	Ref   [32]byte
	Rules byte // 0 for the content itself
}

func (k CRCKey) bytes() []byte { return append(k.Ref[:], k.Rules) }

// CRC is the CRC-32 of the bytes, if it is known.
func CRC(tx *kv.Tx, key CRCKey) (sum uint32, known bool) {
	if v := tx.Get(crcBucket, key.bytes()); len(v) == 4 {
		return binary.BigEndian.Uint32(v), true
	}
	return 0, false
}

// KeepCRCs keeps CRC-32s.
func KeepCRCs(tx *kv.Tx, sums map[CRCKey]uint32) error {
	for key, sum := range sums {
		if err := tx.Put(crcBucket, key.bytes(), binary.BigEndian.AppendUint32(nil, sum)); err != nil {
			return err
		}
	}
	return nil
}

// summedFrom is the size in bytes of a content from which its CRC-32 is kept when it is added. A shorter one is soon
// read, and a row more would make its upload a tenth slower.
const summedFrom = 64 << 10

// KeepCRCOf keeps the CRC-32 of a new content, unless it is short. The transaction that gives the
// content its record may call it.
func KeepCRCOf(tx *kv.Tx, k *blobs.Kept) error {
	if !k.Summed || k.Size < summedFrom {
		return nil
	}
	return KeepCRCs(tx, map[CRCKey]uint32{{Ref: k.Ref}: k.CRC})
}

// dropCRCs deletes what is kept about a content. Other records with it compute it again.
func dropCRCs(tx *kv.Tx, ref [32]byte) error {
	var keys [][]byte
	for k := range tx.Walk(crcBucket, ref[:], nil, false) {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := tx.Delete(crcBucket, k); err != nil {
			return err
		}
	}
	return nil
}
