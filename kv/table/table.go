package table

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrMissing says that the table has no row with the key.
var ErrMissing = errors.New("no such row")

// Taken says which unique index already has another row under a key of the new
// one.
type Taken struct{ Index string }

func (t *Taken) Error() string { return t.Index + " is taken" }

// An Index files rows under further keys. An entry of a unique index leads to
// one row and holds its primary key. The key of an entry of a plain index must
// contain the row's primary key; such an entry has no value.
type Index[T any] struct {
	Bucket Bucket
	Name   string // in Taken
	Unique bool
	Since  uint32 // the format of the data from which on there are entries
	Keys   func(v *T, file func(entry []byte))
}

// A Table keeps values of T in one bucket and keeps its indexes and tallies in
// step. A tally is a sum over all rows, by key. An index entry that does not
// change is not written.
type Table[T any] struct {
	Rows    Bucket
	Key     func(v *T) []byte
	Encode  func(v *T) ([]byte, error)
	Decode  func(key, row []byte) (*T, error) // copies what it keeps
	Indexes []Index[T]
	Sums    Bucket
	Tally   func(v *T, add func(key []byte, n int64)) // may be nil
	// Bytes says how many bytes a row counts for, given its stored length, and
	// under which key they are summed. The key must not change while the row
	// exists. Bytes may be nil.
	Bytes func(v *T, length int) (b Bucket, sum []byte, n int)
}

// Get reads the row at key; ErrMissing if there is no such row.
func (t *Table[T]) Get(tx *Tx, key []byte) (*T, error) {
	row := tx.Get(t.Rows, key)
	if row == nil {
		return nil, ErrMissing
	}
	return t.Decode(key, row)
}

// Find reads the row that a unique index leads to.
func (t *Table[T]) Find(tx *Tx, index Bucket, entry []byte) (*T, error) {
	key := tx.Get(index, entry)
	if key == nil {
		return nil, ErrMissing
	}
	return t.Get(tx, key)
}

// Put writes v and replaces the row with its key, if any. If a unique entry
// belongs to another row, Put fails with Taken and changes nothing.
func (t *Table[T]) Put(tx *Tx, v *T) error {
	key := t.Key(v)
	old, err := t.Get(tx, key)
	if err != nil && !errors.Is(err, ErrMissing) {
		return err
	}
	before := t.length(tx, key)
	row, err := t.Encode(v)
	if err != nil {
		return fmt.Errorf("%s: encode: %w", t.Rows.Name, err)
	}
	oldEntries, newEntries := make([][][]byte, len(t.Indexes)), make([][][]byte, len(t.Indexes))
	for i, ix := range t.Indexes {
		oldEntries[i], newEntries[i] = entries(ix, old), entries(ix, v)
		if !ix.Unique {
			continue
		}
		for _, e := range newEntries[i] {
			if owner := tx.Get(ix.Bucket, e); owner != nil && !bytes.Equal(owner, key) {
				return &Taken{ix.Name}
			}
		}
	}
	for i, ix := range t.Indexes {
		if err := refile(tx, ix.Bucket, ix.Unique, key, oldEntries[i], newEntries[i]); err != nil {
			return err
		}
	}
	t.count(tx, old, v)
	t.measure(tx, old, before, v, len(row))
	if old == nil {
		return tx.insert(t.Rows, key, row)
	}
	return tx.Put(t.Rows, key, row)
}

// Delete removes the row at key and returns it; ErrMissing if there is no such
// row.
func (t *Table[T]) Delete(tx *Tx, key []byte) (*T, error) {
	old, err := t.Get(tx, key)
	if err != nil {
		return nil, err
	}
	for _, ix := range t.Indexes {
		if err := refile(tx, ix.Bucket, ix.Unique, key, entries(ix, old), nil); err != nil {
			return nil, err
		}
	}
	t.count(tx, old, nil)
	t.measure(tx, old, t.length(tx, key), nil, 0)
	return old, tx.Delete(t.Rows, key)
}

func entries[T any](ix Index[T], v *T) [][]byte {
	if v == nil {
		return nil
	}
	all := make([][]byte, 0, 4)
	ix.Keys(v, func(e []byte) { all = append(all, e) })
	return all
}

func refile(tx *Tx, b Bucket, unique bool, key []byte, before, got [][]byte) error {
	for _, e := range before {
		if !contains(got, e) {
			if err := tx.Delete(b, e); err != nil {
				return err
			}
		}
	}
	held := []byte{}
	if unique {
		held = key
	}
	for _, e := range got {
		if !contains(before, e) {
			// The row is missing: a unique entry was looked up, or a plain one
			// names a row that was not filed under it.
			if err := tx.insert(b, e, held); err != nil {
				return err
			}
		}
	}
	return nil
}

func contains(all [][]byte, e []byte) bool {
	for _, x := range all {
		if bytes.Equal(x, e) {
			return true
		}
	}
	return false
}

// sum is the change of a tally under one key.
type sum struct {
	key []byte
	n   int64
}

func (t *Table[T]) count(tx *Tx, old, v *T) {
	if t.Tally == nil {
		return
	}
	sums := make([]sum, 0, 8)
	add := func(key []byte, n int64) {
		for i := range sums {
			if bytes.Equal(sums[i].key, key) {
				sums[i].n += n
				return
			}
		}
		sums = append(sums, sum{key, n})
	}
	if old != nil {
		t.Tally(old, func(key []byte, n int64) { add(key, -n) })
	}
	if v != nil {
		t.Tally(v, add)
	}
	for _, s := range sums {
		if s.n != 0 {
			tx.add(t.Sums, s.key, s.n)
		}
	}
}

// length is the length of the stored row at key, if it counts.
func (t *Table[T]) length(tx *Tx, key []byte) int {
	if t.Bytes == nil {
		return 0
	}
	return len(tx.Get(t.Rows, key))
}

// measure counts the bytes of v and removes those of old; either may be nil.
func (t *Table[T]) measure(tx *Tx, old *T, before int, v *T, is int) {
	if t.Bytes == nil {
		return
	}
	var b Bucket
	var sum []byte
	less, more := 0, 0
	if old != nil {
		b, sum, less = t.Bytes(old, before)
	}
	if v != nil {
		b, sum, more = t.Bytes(v, is)
	}
	if more != less {
		tx.add(b, sum, int64(more-less))
	}
}

// Sum is the tally under key; 0 if no row adds to it.
func (t *Table[T]) Sum(tx *Tx, key []byte) int64 { return tx.Sum(t.Sums, key) }

// All walks the rows whose key begins with prefix, in the order of their keys.
func (t *Table[T]) All(tx *Tx, prefix []byte) func(yield func(*T, error) bool) {
	return func(yield func(*T, error) bool) {
		for key, row := range tx.Walk(t.Rows, prefix, nil, false) {
			if !yield(t.Decode(key, row)) {
				return
			}
		}
	}
}
