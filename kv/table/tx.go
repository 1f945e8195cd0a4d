// Package table keeps typed values in bbolt with their indexes and sums in
// step. All writes of the store pass through Tx, which can take back a part
// of a transaction.
package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"
)

// A Bucket names one key space. Numbers are small, unique and for good: they
// stand for the bucket wherever a change is written down.
type Bucket struct {
	No   byte
	Name string
	// Append says that most keys come after those that are there: pages are
	// then filled up before a new one is begun.
	Append bool
}

// MaxBucket is the largest number of a bucket.
const MaxBucket = 63

// Tx is a bbolt transaction in which every change passes one place, change. It
// keeps what was there before, so that Undo can take back what one of several
// callers in the same transaction did.
type Tx struct {
	bolt    *bolt.Tx
	buckets [MaxBucket + 1]*bolt.Bucket
	cursors [MaxBucket + 1]*bolt.Cursor // of Get: a cursor that is used again allocates nothing
	before  []change
	volume  int              // bytes
	sums    map[sumKey]int64 // what tallies have changed by, not written yet
}

// change is a key, what it held before a write and what after it, nil for
// nothing; or, with a sum, what was added to a tally.
type change struct {
	bucket  Bucket
	key     []byte
	was, is []byte
	sum     int64
}

type sumKey struct {
	bucket Bucket
	key    string
}

// On wraps a transaction that the caller begins and ends.
func On(tx *bolt.Tx) *Tx { return &Tx{bolt: tx} }

// Create makes the buckets that are not there yet.
func Create(tx *bolt.Tx, buckets []Bucket) error {
	for _, b := range buckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(b.Name)); err != nil {
			return fmt.Errorf("bucket %s: %w", b.Name, err)
		}
	}
	return nil
}

// bucket is nil where the store has none of the name, as one that an older
// program wrote: it is empty then.
func (tx *Tx) bucket(b Bucket) *bolt.Bucket {
	if tx.buckets[b.No] == nil {
		tx.buckets[b.No] = tx.bolt.Bucket([]byte(b.Name))
		if b.Append && tx.buckets[b.No] != nil {
			tx.buckets[b.No].FillPercent = 0.9
		}
	}
	return tx.buckets[b.No]
}

// Get is what key holds, nil for nothing. The bytes are valid until the next
// write of the transaction and must not be changed.
func (tx *Tx) Get(b Bucket, key []byte) []byte {
	c := tx.cursors[b.No]
	if c == nil {
		bucket := tx.bucket(b)
		if bucket == nil {
			return nil
		}
		c = bucket.Cursor()
		tx.cursors[b.No] = c
	}
	if k, v := c.Seek(key); bytes.Equal(k, key) {
		return v
	}
	return nil
}

// Put lets key hold value, which the caller must leave alone until the
// transaction ends. An empty value is kept as such.
func (tx *Tx) Put(b Bucket, key, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	return tx.write(b, key, value)
}

// Delete empties key; to do so twice is no error.
func (tx *Tx) Delete(b Bucket, key []byte) error { return tx.write(b, key, nil) }

// write changes what key holds, or empties it if value is nil. A write that
// changes nothing is none.
func (tx *Tx) write(b Bucket, key, value []byte) error {
	old := tx.Get(b, key)
	if old == nil && value == nil || old != nil && value != nil && bytes.Equal(old, value) {
		return nil
	}
	if old != nil {
		old = append([]byte{}, old...) // writes move the pages it lies on
	}
	return tx.change(b, key, value, old)
}

// insert lets a key hold value that is known to hold nothing.
func (tx *Tx) insert(b Bucket, key, value []byte) error { return tx.change(b, key, value, nil) }

// change is the one place that changes the store: it sees the bucket, the key,
// the value or nil for a removal, and what was there.
func (tx *Tx) change(b Bucket, key, value, old []byte) error {
	if err := tx.apply(b, key, value); err != nil {
		return err
	}
	tx.before = append(tx.before, change{bucket: b, key: bytes.Clone(key), was: old, is: value})
	tx.volume += len(key) + len(value)
	return nil
}

func (tx *Tx) apply(b Bucket, key, value []byte) error {
	var err error
	if value == nil {
		err = tx.bucket(b).Delete(key)
	} else {
		err = tx.bucket(b).Put(key, value)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", b.Name, err)
	}
	return nil
}

// Load lets key hold value, or nothing if value is nil, without a look at what
// was there and without a way to take it back. The caller leaves value alone
// until the transaction ends.
func (tx *Tx) Load(b Bucket, key, value []byte) error { return tx.apply(b, key, value) }

// Volume is how many bytes have changed so far, about.
func (tx *Tx) Volume() int { return tx.volume }

// Mark is the point in the transaction that Undo goes back to. Two equal
// marks have no change between them.
func (tx *Tx) Mark() int { return len(tx.before) }

// Undo takes back every change since the mark. When it fails, the whole
// transaction must be rolled back.
func (tx *Tx) Undo(mark int) error {
	var errs []error
	for i := len(tx.before) - 1; i >= mark; i-- {
		c := tx.before[i]
		if c.sum != 0 {
			tx.sums[sumKey{c.bucket, string(c.key)}] -= c.sum
			continue
		}
		errs = append(errs, tx.apply(c.bucket, c.key, c.was))
	}
	tx.before = tx.before[:mark]
	return errors.Join(errs...)
}

// Changes hands over what has changed so far, in order: the bucket's number,
// the key, what it held and what it holds, nil for nothing. A key that changed
// twice is there twice. It is due after Flush.
func (tx *Tx) Changes() iter.Seq2[Entry, []byte] {
	return func(yield func(got Entry, old []byte) bool) {
		for _, c := range tx.before {
			if c.sum == 0 && !yield(Entry{c.bucket.No, c.key, c.is}, c.was) {
				return
			}
		}
	}
}

// An Entry is what a key of a bucket holds, nil for nothing.
type Entry struct {
	Bucket     byte
	Key, Value []byte
}

// add changes a tally by n, which is not 0. It is written by Flush: many rows
// of one transaction add to the same few tallies.
func (tx *Tx) add(b Bucket, key []byte, n int64) {
	if tx.sums == nil {
		tx.sums = map[sumKey]int64{}
	}
	tx.sums[sumKey{b, string(key)}] += n
	tx.before = append(tx.before, change{bucket: b, key: bytes.Clone(key), sum: n})
}

// Sum is a tally as of now; 0 where nothing adds to it.
func (tx *Tx) Sum(b Bucket, key []byte) int64 {
	n := tx.sums[sumKey{b, string(key)}]
	if v := tx.Get(b, key); len(v) == 8 {
		n += int64(binary.BigEndian.Uint64(v))
	}
	return n
}

// Flush writes the tallies. It is due once, before the commit; what it writes
// cannot be taken back by Undo.
func (tx *Tx) Flush() error {
	for at, by := range tx.sums {
		if by == 0 {
			continue
		}
		key := []byte(at.key)
		n := tx.Sum(at.bucket, key)
		tx.sums[at] = 0
		var err error
		if n == 0 {
			err = tx.Delete(at.bucket, key)
		} else {
			err = tx.Put(at.bucket, key, binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Walk yields the keys that begin with prefix and what they hold, up or down
// in byte order, from the one next to prefix+after on, or from the end of the
// range if after is nil. What it yields is valid until the next write; the
// transaction must not be written to on the way.
func (tx *Tx) Walk(b Bucket, prefix, after []byte, down bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		bucket := tx.bucket(b)
		if bucket == nil {
			return
		}
		c := bucket.Cursor()
		var k, v []byte
		from := append(bytes.Clone(prefix), after...)
		if down && after == nil {
			from = past(from)
		}
		switch {
		case !down:
			if k, v = c.Seek(from); after != nil && bytes.Equal(k, from) {
				k, v = c.Next()
			}
		case from == nil:
			k, v = tx.last(b, c)
		default:
			if k, _ = c.Seek(from); k == nil {
				k, v = tx.last(b, c)
			} else {
				k, v = tx.previous(b, c, k)
			}
		}
		for k != nil && bytes.HasPrefix(k, prefix) && yield(k, v) {
			if down {
				k, v = tx.previous(b, c, k)
			} else {
				k, v = c.Next()
			}
		}
	}
}

// past makes key the first one past all that begin with it; nil if there is
// none.
func past(key []byte) []byte {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i]++; key[i] != 0 {
			return key[:i+1]
		}
	}
	return nil
}

// last moves the cursor to the last key. The cursor's own Last never returns
// where deletions of the same transaction have emptied every page.
func (tx *Tx) last(b Bucket, c *bolt.Cursor) (k, v []byte) {
	if first, _ := c.First(); first == nil {
		return nil, nil
	}
	return c.Last()
}

// previous moves the cursor back from the key at, where it is. The cursor's
// own Prev gives nil not only at the beginning but at every page that
// deletions of the same transaction have emptied; called again, it goes on.
func (tx *Tx) previous(b Bucket, c *bolt.Cursor, at []byte) (k, v []byte) {
	if k, v = c.Prev(); k != nil || !tx.bolt.Writable() {
		return k, v
	}
	if first, _ := tx.bucket(b).Cursor().First(); bytes.Equal(first, at) {
		return nil, nil
	}
	for k == nil {
		k, v = c.Prev()
	}
	return k, v
}
