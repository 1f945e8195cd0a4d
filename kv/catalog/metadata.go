package catalog

import (
	"encoding/binary"
	"errors"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// unexamined signals that a file was added whose metadata nobody has looked for.
var unexamined kv.Signal

// UnexaminedAdded delivers a value when Unexamined may list more files. It is for one reader.
func UnexaminedAdded(s *kv.Store) <-chan struct{} { return unexamined.Of(s) }

// maxUnexamined bounds the entries of the feed that Unexamined reads.
const maxUnexamined = 10_000

// Unexamined lists up to limit files whose metadata nobody has looked for by the rules, from the feed of changes after
// the place since. next is how far it read.
func Unexamined(tx *kv.Tx, since uint64, limit int, rules byte) (all []*record.Record, next uint64) {
	n := 0
	for k, v := range tx.Walk(kv.ChangeBucket, nil, binary.BigEndian.AppendUint64(nil, since), false) {
		n++
		if n > maxUnexamined || len(all) == limit {
			break
		}
		next = binary.BigEndian.Uint64(k)
		if _, kind, _ := record.SplitKey(v); kind != record.Files {
			continue
		}
		if r, err := RecordRows.Get(tx.Tx, v); err == nil && r.Bytes != nil && r.Bytes.Metadata.Rules != rules {
			all = append(all, r)
		}
	}
	return all, max(next, since)
}

// photoRules are the first rules by which it was found out how a picture was made.
const photoRules = 4

// Examined stores what is known about the metadata of a file's content, and how it was made. What the owner has set
// or cleared stays. It is no change of the file.
func Examined(tx *kv.Tx, r *record.Record, m record.Metadata, p record.Photo) error {
	now, err := RecordRows.Get(tx.Tx, r.Key())
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil || now.Bytes == nil || now.Bytes.Ref != r.Bytes.Ref {
		return err
	}
	if now.Bytes.Metadata.Rules < photoRules {
		now.Bytes.Photo.FillIn(p)
	}
	now.Bytes.Metadata = m
	return RecordRows.Put(tx.Tx, now)
}
