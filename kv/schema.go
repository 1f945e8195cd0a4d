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

// Touched is an item that a lost commit has changed.
type Touched struct {
	ID   record.ID `json:"id"`
	Kind string    `json:"kind,omitempty"`
	Name string    `json:"name,omitempty"`
	Why  string    `json:"why"`
}

// The buckets. Their numbers and names are for good; kv/DESIGN.md has what each holds.
var (
	RecordBucket  = table.Bucket{No: 6, Name: "record", Append: true}
	RecordSlug    = table.Bucket{No: 7, Name: "record.slug"}
	SumBucket     = table.Bucket{No: 10, Name: "sum"}
	ChangeBucket  = table.Bucket{No: 12, Name: "change", Append: true}
	RequestBucket = table.Bucket{No: 31, Name: "request"}
)

// Keys of workcopy.MetaBucket.
var (
	MetaInstant   = []byte("instant")  // uint64, milliseconds: the latest transaction's
	metaMonotonic = []byte("steady")   // uint64, milliseconds: the clock of retries, where it was ahead of the instant
	metaDoubt     = []byte("doubt")    // while the wall clock is doubted: what it shows, and for how long it has; both uint64, milliseconds
	metaTried     = []byte("tried")    // any bytes, 8 but for a moment: written to find out whether the disk works again
	metaLast      = []byte("last")     // the latest id
	MetaSeq       = []byte("seq")      // uint64: the latest number of the feed of changes
	MetaTrimmed   = []byte("trimmed")  // uint64: the last mark of a removal that was taken out of the feed
	MetaSettings  = []byte("settings") // JSON
	MetaClaim     = []byte("claim")    // SHA-256 of the claim token
	MetaSecret    = []byte("secret")   // 32 random bytes
	MetaOrphans   = []byte("orphans")  // there: contents without a record are kept
	MetaTry       = []byte("try ")     // begins the keys of wrong tries: see people.Tries
	metaText      = []byte("text ")    // begins the keys of the sums of text: see Tx.Text
	MetaTexts     = []byte("texts")    // what MetaSeq and MetaInstant were when the sums of text were right
)

// A Schema says what a store holds.
type Schema struct {
	// Tables are in the order in which a repair refills them: a table comes after
	// those that its rows refer to. What an owner has is deleted in the reverse
	// order.
	Tables []Table

	// Migrations bring the store from one format to the next, each under the number
	// of the format that it starts from.
	Migrations [workcopy.Format]Migration
}

// A Migration changes the data of a store from one format to the next.
type Migration func(*Tx) error

// Buckets are those of all tables.
func (schema *Schema) Buckets() *table.Buckets {
	all := new(table.Buckets)
	for _, t := range schema.Tables {
		for _, b := range t.Buckets {
			all[b.No] = b
		}
	}
	return all
}

// A Table is a row of the schema. It says everything that the store does with
// the rows of one table on its own account. A function that is nil has nothing
// to do.
type Table struct {
	// Buckets are that of the rows, which is the first, and those of what is derived
	// from them. Each bucket belongs to one table.
	Buckets []table.Bucket

	// Paid are those of Buckets whose keys begin with the id of an owner, who pays
	// for what is written to them: see Options.WritesPerHour.
	Paid []table.Bucket

	// Drop deletes some of what an owner has, so much that others are not kept
	// waiting, and says whether that was all.
	Drop func(tx *Tx, owner record.ID) (done bool, err error)

	// Contents says which contents the rows refer to; nil if they refer to none.
	Contents *ContentIndex

	// Bytes is how much content of an owner's counts against the quota: what is
	// stored, and what is reserved for content that is on its way.
	Bytes func(tx *Tx, owner record.ID) (stored, reserved int64)

	// Text adds up the bytes of text that owners have in the rows: see Tx.Text.
	Text func(tx *Tx, add func(owner record.ID, n int64))

	// Redate takes times that have not come yet out of the rows, and returns how
	// many rows it changed: see Store.ResetClock.
	Redate func(*Redate) (n int, err error)

	// Load reads at a start what the store keeps of the rows in memory.
	Load func(*Store, *table.Tx)

	// Watched are buckets. Changed is called after a commit that has changed one of
	// them, before that is acknowledged.
	Watched []table.Bucket
	Changed func(*Store)

	// Flush takes what was counted in memory and returns what writes it, nil if there
	// is nothing, and what puts it back if it cannot be written.
	Flush func(*Store) (write func(*Tx) error, giveBack func())

	// Tick does what becomes due with time. It is called every second.
	Tick func(*Store)

	// Describe tells people which item a row is, in a report of a repair; row is nil
	// if the row is gone.
	Describe func(key, row []byte) (t Touched, found bool)

	// Check reports what is wrong with the rows and with what is derived from them.
	Check func(*Audit)

	// Refill copies the rows into the empty store of a repair, and derives the rest.
	Refill func(*Refill) error
}

// paid are the Paid buckets of all tables, by number.
func (schema *Schema) paid() (all [table.MaxBucket + 1]bool) {
	for _, t := range schema.Tables {
		for _, b := range t.Paid {
			all[b.No] = true
		}
	}
	return all
}

// Described are the Describe of all tables that have one, by the number of the
// bucket with their rows.
func (schema *Schema) Described() map[byte]func(key, row []byte) (Touched, bool) {
	all := map[byte]func(key, row []byte) (Touched, bool){}
	for _, t := range schema.Tables {
		if t.Describe != nil {
			all[t.Buckets[0].No] = t.Describe
		}
	}
	return all
}

// RemoveBatch bounds the rows of one transaction in work that touches many.
const RemoveBatch = 200

// Drop deletes some of what an owner has, in the reverse order of the tables. The
// transaction in which it is done sees that nothing is left: a request of the
// owner's may still be under way.
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

// DropRows is the Drop of a table whose keys begin with the id of an owner.
func DropRows[T any](t *table.Table[T]) func(*Tx, record.ID) (bool, error) {
	return func(tx *Tx, owner record.ID) (bool, error) {
		return tx.DropKeys(t.Rows, owner, func(key []byte) error {
			_, err := t.Delete(tx.Tx, key)
			return err
		})
	}
}

// DropKeys calls each with up to removeBatch keys that begin with the id of an
// owner, and says whether there are no more.
func (tx *Tx) DropKeys(b table.Bucket, owner record.ID, each func(key []byte) error) (done bool, err error) {
	var some [][]byte
	for k := range tx.Walk(b, owner[:], nil, false) {
		if some = append(some, bytes.Clone(k)); len(some) == RemoveBatch {
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

// MetaTable is what the store keeps of itself. The sums of text are derived from rows.
var MetaTable = Table{
	Buckets: []table.Bucket{workcopy.MetaBucket},
	Refill: func(r *Refill) error {
		return r.Copy(workcopy.MetaBucket, func(k []byte) bool { return !bytes.HasPrefix(k, metaText) })
	},
}

// JsonTable is a table whose values are kept as JSON.
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

// OwnedKey is the key of something that belongs to an owner.
func OwnedKey(owner record.ID, rest ...byte) []byte {
	return append(append(make([]byte, 0, 16+len(rest)), owner[:]...), rest...)
}

// OwnedNameKey is the key of something that is filed under its name, in any case.
func OwnedNameKey(owner record.ID, name string) []byte {
	return OwnedKey(owner, []byte(record.Fold(name))...)
}

// Format is the version of the data format of the store.
func (tx *Tx) Format() uint32 {
	if v := tx.Get(workcopy.MetaBucket, workcopy.MetaFormat); len(v) == 4 {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// Signed is an instant in milliseconds such that those before 1970 sort first.
func Signed(t time.Time) uint64 { return uint64(t.UnixMilli()) ^ 1<<63 }

// FindDue finds what is due in an index of groups: an entry is prefix, a group
// (size bytes), a time, and the rest. Of each group it finds those that are due
// for longest, as many as room says; a negative room skips the group. parse makes
// a result of an entry, and says whether to skip it. wait is how long until the
// next one is due, 0 if none waits for its time. What it costs goes by the
// number of groups and of what it finds, not by what is queued.
func FindDue[T any](tx *Tx, b table.Bucket, prefix []byte, size int, room func(group []byte) (int, error), parse func(group, rest []byte) (T, bool)) (found []T, wait time.Duration, err error) {
	now := tx.s.MonotonicNow().UnixMilli()
	for after := []byte(nil); ; {
		var group []byte
		for k := range tx.Walk(b, prefix, after, false) {
			group = slices.Clone(k[len(prefix):][:size])
			break
		}
		if group == nil {
			return found, wait, nil
		}
		after = append(slices.Clone(group), 0xff) // past all times
		n, err := room(group)
		if err != nil {
			return nil, 0, err
		}
		if n < 0 {
			continue
		}
		for k := range tx.Walk(b, slices.Concat(prefix, group), nil, false) {
			k = k[len(prefix)+size:]
			one, skip := parse(group, k[8:])
			if skip {
				continue
			}
			if left := int64(binary.BigEndian.Uint64(k)^1<<63) - now; left > 0 {
				if d := time.Duration(left) * time.Millisecond; wait == 0 || d < wait {
					wait = d
				}
				break
			}
			if n == 0 {
				break
			}
			n--
			found = append(found, one)
		}
	}
}
