package kv

import (
	"encoding/binary"
	"fmt"

	"kist/kv/record"
	"kist/kv/table"
)

// collect reads all rows below a prefix.
func collect[T any](t *table.Table[T], tx *Tx, prefix []byte) ([]T, error) {
	all := []T{}
	for v, err := range t.All(tx.Tx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Rows.Name, err)
		}
		all = append(all, *v)
	}
	return all, nil
}

// A Change is a place in the feed of changes: the record with the key was
// written, or taken away if it is not there any more.
type Change struct {
	Seq   uint64
	Owner record.ID
	Kind  *record.Kind
	ID    record.ID
}

// Changes lists up to most changes after the place since, in order. Each
// record that is there occurs once, at the place of its latest change.
func (tx *Tx) Changes(since uint64, most int) ([]Change, error) {
	var all []Change
	for k, v := range tx.Walk(changeBucket, nil, binary.BigEndian.AppendUint64(nil, since), false) {
		if len(all) == most {
			break
		}
		if len(k) != 8 || len(v) != record.KeySize || record.KindOf(v[16]) == nil {
			return nil, fmt.Errorf("change %x: damaged", k)
		}
		all = append(all, Change{binary.BigEndian.Uint64(k), record.ID(v[:16]), record.KindOf(v[16]), record.ID(v[17:])})
	}
	return all, nil
}
