package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// Touched is an item that a lost commit changed.
type Touched struct {
	ID   record.ID `json:"id"`
	Kind string    `json:"kind,omitempty"`
	Name string    `json:"name,omitempty"`
	Why  string    `json:"why"`
}

// The buckets. Their numbers and names never change; kv/DESIGN.md says what each holds.
var (
	RecordBucket  = table.Bucket{No: 6, Name: "record", Append: true}
	RecordSlug    = table.Bucket{No: 7, Name: "record.slug"}
	SumBucket     = table.Bucket{No: 10, Name: "sum"}
	ChangeBucket  = table.Bucket{No: 12, Name: "change", Append: true}
	RequestBucket = table.Bucket{No: 31, Name: "request"}
)

// Keys of workcopy.MetaBucket.
var (
	MetaInstant   = []byte("instant") // uint64, milliseconds: the instant of the latest transaction
	metaMonotonic = []byte("steady")  // uint64, milliseconds: the retry clock, if it was ahead of the instant
	// While the wall clock is doubted: what it shows, and how long the doubt has lasted;
	// both uint64, milliseconds.
	metaDoubt    = []byte("doubt")
	metaTried    = []byte("tried")    // any bytes, usually 8: written to test whether the disk works again
	metaLast     = []byte("last")     // the latest id
	MetaSeq      = []byte("seq")      // uint64: the latest number of the feed of changes
	MetaTrimmed  = []byte("trimmed")  // uint64: the latest removal mark that was taken out of the feed
	MetaSettings = []byte("settings") // JSON
	MetaClaim    = []byte("claim")    // SHA-256 of the claim token
	MetaSecret   = []byte("secret")   // 32 random bytes
	MetaOrphans  = []byte("orphans")  // if present, contents without a record are kept
	MetaTry      = []byte("try ")     // prefix of the keys of wrong tries: see people.Tries
	metaText     = []byte("text ")    // prefix of the keys of the sums of text: see Tx.Text
	MetaTexts    = []byte("texts")    // the values of MetaSeq and MetaInstant when the sums of text were right
)

// A Schema defines what a store holds.
type Schema struct {
	// Tables are in the order in which a repair refills them: each table comes after
	// those that its rows refer to. An owner's rows are deleted in the reverse order.
	Tables []Table

	// Migrations bring the store from one format to the next. The index is the format
	// that the steps start from. New tables that start empty need no step.
	Migrations [workcopy.Format][]Migration
}

// A Migration is a step from one format to the next.
type Migration func(*Tx) error

// Buckets returns the buckets of all tables.
func (schema *Schema) Buckets() *table.Buckets {
	all := new(table.Buckets)
	for _, t := range schema.Tables {
		for _, b := range t.Buckets {
			all[b.No] = b
		}
	}
	return all
}

// A Table is one entry of the schema. It says everything that the store itself does
// with the rows of one table. A nil function does nothing.
type Table struct {
	// Buckets are the bucket of the rows, which comes first, and the buckets derived
	// from them. Each bucket belongs to one table.
	Buckets []table.Bucket

	// Drop deletes some of an owner's rows, few enough to keep nobody else waiting,
	// and reports whether none are left.
	Drop func(tx *Tx, owner record.ID) (done bool, err error)

	// Contents says which contents the rows refer to; nil if they refer to none.
	Contents *ContentIndex

	// Bytes returns how much of an owner's content counts against the quota: stored
	// bytes, and bytes reserved for content that is still arriving.
	Bytes func(tx *Tx, owner record.ID) (stored, reserved int64)

	// Promised returns how many of the reserved bytes are for what others send to the
	// owner. They do not keep the owner from storing something.
	Promised func(tx *Tx, owner record.ID) int64

	// Text adds up the bytes of text that owners have in the rows: see Tx.Text.
	Text func(tx *Tx, add func(owner record.ID, n int64))

	// Load fills the store's in-memory state from the rows at a start.
	Load func(*Store, *table.Tx)

	// Changed is called after a commit that changed one of the Watched buckets, before
	// the commit is acknowledged.
	Watched []table.Bucket
	Changed func(*Store)

	// Flush takes the counts from memory. It returns a function that writes them, nil
	// if there are none, and one that puts them back if the write fails.
	Flush func(*Store) (write func(*Tx) error, giveBack func())

	// Tick does what becomes due over time. It is called every second.
	Tick func(*Store)

	// Describe says which item a row is, for the report of a repair; row is nil if the
	// row is gone.
	Describe func(key, row []byte) (t Touched, found bool)

	// Check reports problems in the rows and in everything derived from them.
	Check func(*Audit)

	// Refill copies the rows into the empty store of a repair and derives the rest.
	Refill func(*Refill) error
}

// Described returns the Describe functions of all tables that have one, by the number
// of the bucket with their rows.
func (schema *Schema) Described() map[byte]func(key, row []byte) (Touched, bool) {
	all := map[byte]func(key, row []byte) (Touched, bool){}
	for _, t := range schema.Tables {
		if t.Describe != nil {
			all[t.Buckets[0].No] = t.Describe
		}
	}
	return all
}

// RemoveBatch bounds the rows that one transaction of a large job touches.
const RemoveBatch = 200

// Drop deletes some of an owner's rows, in the reverse order of the tables. done means
// that this transaction leaves nothing of the owner. What earlier transactions saw does
// not count, because a request of the owner may still be under way.
func (tx *Tx) Drop(owner record.ID) (done bool, err error) {
	for _, t := range slices.Backward(tx.s.schema.Tables) {
		if t.Drop == nil {
			continue
		}
		if done, err := t.Drop(tx, owner); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// DropRows is the Drop function of a table whose keys begin with the id of an owner.
func DropRows[T any](t *table.Table[T]) func(*Tx, record.ID) (bool, error) {
	return func(tx *Tx, owner record.ID) (bool, error) {
		return tx.DropKeys(t.Rows, owner, func(key []byte) error {
			_, err := t.Delete(tx.Tx, key)
			return err
		})
	}
}

// DropKeys calls each with up to RemoveBatch keys that begin with the id of an owner,
// and reports whether there are no more.
func (tx *Tx) DropKeys(b table.Bucket, owner record.ID, each func(key []byte) error) (done bool, err error) {
	var some [][]byte
	for k := range tx.Walk(b, owner[:], nil, false) {
		some = append(some, bytes.Clone(k))
		if len(some) == RemoveBatch {
			break
		}
	}
	for _, k := range some {
		if err := each(k); err != nil {
			return false, err
		}
	}
	return len(some) < RemoveBatch, nil
}

// MetaTable holds the store's own data. The sums of text in it are derived from rows.
var MetaTable = Table{
	Buckets: []table.Bucket{workcopy.MetaBucket},
	Refill: func(r *Refill) error {
		return r.Copy(workcopy.MetaBucket, func(k []byte) bool { return !bytes.HasPrefix(k, metaText) })
	},
}

// JsonTable is a table whose values are stored as JSON.
func JsonTable[T any](b table.Bucket, key func(*T) []byte, indexes ...table.Index[T]) *table.Table[T] {
	return &table.Table[T]{
		Rows: b, Key: key, Indexes: indexes,
		Encode: func(v *T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(_, row []byte) (*T, error) {
			v := new(T)
			return v, json.Unmarshal(row, v)
		},
	}
}

// OwnedKey returns the key of something that belongs to an owner.
func OwnedKey(owner record.ID, rest ...byte) []byte {
	return append(append(make([]byte, 0, 16+len(rest)), owner[:]...), rest...)
}

// OwnedNameKey returns the key of something stored under its name, which ignores case.
func OwnedNameKey(owner record.ID, name string) []byte {
	return OwnedKey(owner, []byte(record.Fold(name))...)
}

// Format returns the version of the store's data format.
func (tx *Tx) Format() uint32 {
	if v := tx.Get(workcopy.MetaBucket, workcopy.MetaFormat); len(v) == 4 {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// Signed returns an instant in milliseconds, encoded so that instants before 1970 sort
// first.
func Signed(t time.Time) uint64 { return uint64(t.UnixMilli()) ^ 1<<63 }
