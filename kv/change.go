package kv

import "kist/kv/record"

// A Change is a place in the feed of changes, where the record was last written
// or was removed.
type Change struct {
	Seq    uint64
	Owner  record.ID
	Kind   *record.Kind
	ID     record.ID
	Record *record.Record // nil: it was removed
}
