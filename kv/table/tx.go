// Package table keeps typed values in bbolt with their indexes and sums in
// step. All writes of the store pass through Tx, which can undo a part of a
// transaction.
package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"
)

// A Bucket names one key space. Its number is small and unique and never
// changes, because recorded changes identify the bucket by it.
type Bucket struct {
	No   byte
	Name string
	// Append says that most new keys come after the existing ones: pages are
	// then filled before a new one is started.
	Append bool
}

// MaxBucket is the largest number of a bucket.
const MaxBucket = 79

// Buckets are the buckets of a store, each at its number. A number that is not in
// use has a bucket without a name.
type Buckets [MaxBucket + 1]Bucket

// Find returns the bucket with a number that was read from a file.
func (all *Buckets) Find(number byte) (b Bucket, found bool) {
	if int(number) < len(all) {
		b = all[number]
	}
	return b, b.Name != ""
}

// All yields the buckets by number.
func (all *Buckets) All() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		for _, b := range all {
			if b.Name != "" && !yield(b) {
				return
			}
		}
	}
}

// Tx is a view of a bbolt transaction and of layers of changes that bbolt does
// not have yet. A writer's changes go to the newest layer and pass through
// write. It keeps the previous values, so that Undo can revert what one of
// several callers in the same transaction did.
type Tx struct {
	bolt    *bolt.Tx
	layers  []*Mem               // newest first
	version uint64               // changes of later versions in layers are not seen
	writes  bool                 // to layers[0]
	opened  []opened             // the buckets that were needed so far
	places  [MaxBucket + 1]uint8 // of each bucket in opened, counted from 1; 0 if it is not there
	first   [6]opened            // room for opened: most transactions need no more
	before  []change
	volume  int              // bytes
	sums    map[sumKey]int64 // changes of tallies that are not written yet
}

// opened is a bucket of bbolt; it is nil if the store does not have it, for instance
// because an older program wrote it, and counts as empty then.
type opened struct {
	bucket *bolt.Bucket
	get    *bolt.Cursor // of Get: a reused cursor allocates nothing
}

// change is a key with its values before and after a write, nil for no value.
// With a sum it is a number that was added to a tally.
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

// errReadOnly says that a transaction that only reads was asked to write.
var errReadOnly = errors.New("the transaction is read-only")

// On returns a view of a bbolt transaction, which the caller begins and ends, and
// of the changes up to version in layers, the newest layer first.
func On(tx *bolt.Tx, version uint64, layers ...*Mem) *Tx {
	t := &Tx{bolt: tx, version: version, layers: layers}
	t.opened = t.first[:0]
	return t
}

// Write is like On, and the view can be changed. Its changes go to the first layer
// under the version. They are committed when the caller shows them to others by
// giving them this version; until then Undo can revert them.
func Write(tx *bolt.Tx, version uint64, layers ...*Mem) *Tx {
	t := On(tx, version, layers...)
	t.writes = true
	return t
}

// Spare is memory for the list of changes of a transaction.
type Spare []change

// maxSpare is the maximum number of changes whose memory is kept.
const maxSpare = 16 << 10

// Reuse lets the transaction list its changes in the memory of an earlier one.
func (tx *Tx) Reuse(s Spare) { tx.before = s }

// Spare returns the memory of a transaction that has ended.
func (tx *Tx) Spare() Spare {
	if cap(tx.before) > maxSpare {
		return nil
	}
	clear(tx.before)
	return Spare(tx.before[:0])
}

// Create makes the buckets that do not exist yet.
func Create(tx *bolt.Tx, buckets *Buckets) error {
	for b := range buckets.All() {
		if _, err := tx.CreateBucketIfNotExists([]byte(b.Name)); err != nil {
			return fmt.Errorf("bucket %s: %w", b.Name, err)
		}
	}
	return nil
}

func (tx *Tx) open(b Bucket) *opened {
	if tx.places[b.No] == 0 {
		tx.opened = append(tx.opened, opened{bucket: tx.bolt.Bucket([]byte(b.Name))})
		tx.places[b.No] = uint8(len(tx.opened))
	}
	return &tx.opened[tx.places[b.No]-1]
}

// Get returns the value of key, nil if there is none. The bytes are valid until
// the transaction ends and must not be changed.
func (tx *Tx) Get(b Bucket, key []byte) []byte {
	for _, m := range tx.layers {
		if l := &m.lists[b.No]; !l.empty() {
			if value, found := l.get(key, tx.version); found {
				return value
			}
		}
	}
	at := tx.open(b)
	if at.bucket == nil {
		return nil
	}
	if at.get == nil {
		at.get = at.bucket.Cursor()
	}
	if k, v := at.get.Seek(key); bytes.Equal(k, key) {
		return v
	}
	return nil
}

// Put sets the value of key. The caller must not change value until the
// transaction ends. An empty value is kept as such.
func (tx *Tx) Put(b Bucket, key, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	return tx.write(b, key, value)
}

// Delete removes key. Deleting a missing key is no error.
func (tx *Tx) Delete(b Bucket, key []byte) error { return tx.write(b, key, nil) }

// write sets the value of key, or removes key if value is nil. It ignores a
// write that changes nothing.
func (tx *Tx) write(b Bucket, key, value []byte) error {
	old := tx.Get(b, key)
	if old == nil && value == nil || old != nil && value != nil && bytes.Equal(old, value) {
		return nil
	}
	return tx.change(b, key, value, old)
}

// insert sets the value of a key that is known to be missing.
func (tx *Tx) insert(b Bucket, key, value []byte) error { return tx.change(b, key, value, nil) }

// change is the one place that changes the store. It sees the bucket, the key,
// the value (nil for a removal) and the previous value.
func (tx *Tx) change(b Bucket, key, value, old []byte) error {
	kept, err := tx.apply(b, key, value)
	if err != nil {
		return err
	}
	tx.before = append(tx.before, change{bucket: b, key: kept, was: old, is: value})
	tx.volume += len(key) + len(value)
	return nil
}

// apply sets or removes a key and returns a copy of it.
func (tx *Tx) apply(b Bucket, key, value []byte) (kept []byte, err error) {
	if !tx.writes {
		return nil, errReadOnly
	}
	if len(key) == 0 || len(key) > bolt.MaxKeySize {
		return nil, fmt.Errorf("bucket %s: a key of %d bytes cannot be stored", b.Name, len(key))
	}
	return tx.layers[0].set(b.No, key, tx.version, value), nil
}

// Load sets the value of key, or removes key if value is nil. It does not read
// the previous value, and Undo cannot revert it.
func (tx *Tx) Load(b Bucket, key, value []byte) error {
	_, err := tx.apply(b, key, value)
	return err
}

// Volume is about how many bytes have changed so far.
func (tx *Tx) Volume() int { return tx.volume }

// Mark is the point in the transaction to which Undo returns. Two equal marks
// have no change between them.
func (tx *Tx) Mark() int { return len(tx.before) }

// Undo reverts every change since the mark. If it fails, the whole transaction
// must be rolled back.
func (tx *Tx) Undo(mark int) error {
	var errs []error
	for i := len(tx.before) - 1; i >= mark; i-- {
		c := tx.before[i]
		if c.sum != 0 {
			tx.sums[sumKey{c.bucket, string(c.key)}] -= c.sum
			continue
		}
		errs = append(errs, tx.Load(c.bucket, c.key, c.was))
	}
	clear(tx.before[mark:]) // see Spare
	tx.before = tx.before[:mark]
	return errors.Join(errs...)
}

// Changes yields the changes so far, in order: the bucket's number, the key,
// the value before and the value after, nil for no value. A key that changed
// twice appears twice. Call it after Flush.
func (tx *Tx) Changes() iter.Seq2[Entry, []byte] {
	return func(yield func(got Entry, old []byte) bool) {
		for _, c := range tx.before {
			if c.sum == 0 && !yield(Entry{c.bucket.No, c.key, c.is}, c.was) {
				return
			}
		}
	}
}

// An Entry is the value of a key of a bucket, nil for no value.
type Entry struct {
	Bucket     byte
	Key, Value []byte
}

// add adds n, which is not 0, to a tally. Flush writes the sum, because many
// rows of one transaction add to the same few tallies.
func (tx *Tx) add(b Bucket, key []byte, n int64) {
	if tx.sums == nil {
		tx.sums = map[sumKey]int64{}
	}
	tx.sums[sumKey{b, string(key)}] += n
	tx.before = append(tx.before, change{bucket: b, key: bytes.Clone(key), sum: n})
}

// Sum is the current tally; 0 if nothing adds to it.
func (tx *Tx) Sum(b Bucket, key []byte) int64 {
	n := tx.sums[sumKey{b, string(key)}]
	if v := tx.Get(b, key); len(v) == 8 {
		n += int64(binary.BigEndian.Uint64(v))
	}
	return n
}

// Flush writes the tallies. Call it once, before the commit. Undo cannot revert
// its writes.
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

// Walk yields the keys that begin with prefix and their values, up or down in
// byte order. It starts after prefix+after, or at the end of the range if after
// is nil. The yielded bytes are valid until the transaction ends. The caller must
// not write to the transaction during the walk.
func (tx *Tx) Walk(b Bucket, prefix, after []byte, down bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		bucket := tx.open(b).bucket
		if bucket == nil {
			return
		}
		c := cursor{version: tx.version, down: down, bolt: bucket.Cursor()}
		for _, m := range tx.layers {
			if l := &m.lists[b.No]; !l.empty() {
				c.lists = append(c.lists, l)
			}
		}
		c.nodes = make([]*node, len(c.lists))
		from := append(bytes.Clone(prefix), after...)
		if down && after == nil {
			from = past(from)
		}
		c.seek(from)
		k, v := c.next()
		if !down && after != nil && bytes.Equal(k, from) {
			k, v = c.next()
		}
		for ; k != nil && bytes.HasPrefix(k, prefix) && yield(k, v); k, v = c.next() {
		}
	}
}

// past makes key the first key after all that begin with it; nil if there is no
// such key.
func past(key []byte) []byte {
	for i := len(key) - 1; i >= 0; i-- {
		key[i]++
		if key[i] != 0 {
			return key[:i+1]
		}
	}
	return nil
}
