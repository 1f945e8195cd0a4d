package table

import (
	"bytes"
	"fmt"
)

// Check reads every row. It calls each with each readable row, and problem with
// each error in the rows, their index entries and their tallies. It returns how
// many entries of the table each bucket should have. Additional entries belong
// to no row, unless something else wrote them. format is that of the data.
func (t *Table[T]) Check(tx *Tx, format uint32, each func(*T), problem func(error)) map[Bucket]int {
	expected := map[Bucket]int{}
	sums := map[string]int64{}
	for key, row := range tx.Walk(t.Rows, nil, nil, false) {
		v, err := t.Decode(key, row)
		if err != nil {
			problem(fmt.Errorf("%s %x cannot be read: %w", t.Rows.Name, key, err))
			continue
		}
		if !bytes.Equal(t.Key(v), key) {
			problem(fmt.Errorf("%s %x holds a row of another key", t.Rows.Name, key))
		}
		for _, ix := range t.Indexes {
			var held []byte
			if ix.Unique {
				held = key
			}
			if format < ix.Since {
				continue
			}
			for _, e := range entries(ix, v) {
				expected[ix.Bucket]++
				if at := tx.Get(ix.Bucket, e); at == nil || !bytes.Equal(at, held) {
					problem(fmt.Errorf("%s %x is missing in the index %s at %x", t.Rows.Name, key, ix.Bucket.Name, e))
				}
			}
		}
		if t.Tally != nil {
			t.Tally(v, func(key []byte, n int64) { sums[string(key)] += n })
		}
		each(v)
	}
	for key, n := range sums {
		if n == 0 {
			continue
		}
		expected[t.Sums]++
		if got := tx.Sum(t.Sums, []byte(key)); got != n {
			problem(fmt.Errorf("%s %x is %d and should be %d", t.Sums.Name, key, got, n))
		}
	}
	return expected
}

// Count is how many keys the bucket has.
func (tx *Tx) Count(b Bucket) int {
	n := 0
	for range tx.Walk(b, nil, nil, false) {
		n++
	}
	return n
}
