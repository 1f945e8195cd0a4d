package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"kist/kv/record"
	"kist/kv/table"
)

// The buckets. Numbers and names are for good; DESIGN.md has what each holds.
var (
	metaBucket         = table.Bucket{No: 1, Name: "meta"}
	userBucket         = table.Bucket{No: 2, Name: "user"}
	userName           = table.Bucket{No: 3, Name: "user.name"}
	keyBucket          = table.Bucket{No: 4, Name: "key"}
	keyDigest          = table.Bucket{No: 5, Name: "key.digest"}
	recordBucket       = table.Bucket{No: 6, Name: "record", Append: true}
	recordSlug         = table.Bucket{No: 7, Name: "record.slug"}
	recordFacet        = table.Bucket{No: 8, Name: "record.label"}
	recordOrder        = table.Bucket{No: 9, Name: "record.order"}
	sumBucket          = table.Bucket{No: 10, Name: "sum"}
	viewBucket         = table.Bucket{No: 11, Name: "view"}
	changeBucket       = table.Bucket{No: 12, Name: "change", Append: true}
	tagBucket          = table.Bucket{No: 13, Name: "tag"}
	tagName            = table.Bucket{No: 14, Name: "tag.name"}
	folderBucket       = table.Bucket{No: 15, Name: "folder"}
	folderName         = table.Bucket{No: 16, Name: "folder.name"}
	blobBucket         = table.Bucket{No: 17, Name: "blob"}
	unreferencedBucket = table.Bucket{No: 18, Name: "blob.loose"}
	hookBucket         = table.Bucket{No: 19, Name: "webhook"}
	deliveryBucket     = table.Bucket{No: 20, Name: "delivery"}
	answerBucket       = table.Bucket{No: 21, Name: "answer"}
	recordEnd          = table.Bucket{No: 22, Name: "record.end"}
	deviceBucket       = table.Bucket{No: 23, Name: "device"}
	deviceCode         = table.Bucket{No: 24, Name: "device.code"}
	spentBucket        = table.Bucket{No: 25, Name: "spent"}
	noticeBucket       = table.Bucket{No: 26, Name: "notice", Append: true}
	deliveryLine       = table.Bucket{No: 27, Name: "delivery.line"}
	deliveryDue        = table.Bucket{No: 28, Name: "delivery.due"}
	deliveryLog        = table.Bucket{No: 29, Name: "delivery.log"}
	deliverySum        = table.Bucket{No: 30, Name: "delivery.sum"}
	requestBucket      = table.Bucket{No: 31, Name: "request"}
	itemBucket         = table.Bucket{No: 32, Name: "item"}
	itemState          = table.Bucket{No: 33, Name: "item.state"}
	itemBlob           = table.Bucket{No: 34, Name: "item.blob"}
	senderBucket       = table.Bucket{No: 35, Name: "sender"}
	uploadBucket       = table.Bucket{No: 40, Name: "upload"}
	uploadSlug         = table.Bucket{No: 41, Name: "upload.slug"}
	uploadSecret       = table.Bucket{No: 42, Name: "upload.secret"}
	importBucket       = table.Bucket{No: 43, Name: "import"}
	importRemarks      = table.Bucket{No: 44, Name: "import.remarks"}
	fetchBucket        = table.Bucket{No: 46, Name: "fetch"}
	fetchLine          = table.Bucket{No: 47, Name: "fetch.line"}
	pageBucket         = table.Bucket{No: 50, Name: "page"}
	pageDue            = table.Bucket{No: 51, Name: "page.due"}
)

// Keys of the meta bucket.
var (
	metaFormat    = []byte("format")   // uint32
	metaInstant   = []byte("instant")  // uint64, milliseconds: the latest transaction's
	metaMonotonic = []byte("steady")   // uint64, milliseconds: the clock of retries, where it was ahead of the instant
	metaDoubt     = []byte("doubt")    // while the wall clock is doubted: what it shows, and for how long it has; both uint64, milliseconds
	metaTried     = []byte("tried")    // any bytes, 8 but for a moment: written to find out whether the disk works again
	metaLast      = []byte("last")     // the latest id
	metaSeq       = []byte("seq")      // uint64: the latest number of the feed of changes
	metaTrimmed   = []byte("trimmed")  // uint64: the last mark of a removal that was taken out of the feed
	metaSettings  = []byte("settings") // JSON
	metaClaim     = []byte("claim")    // SHA-256 of the claim token
	metaSecret    = []byte("secret")   // 32 random bytes
	metaOrphans   = []byte("orphans")  // there: contents without a record are kept
	metaTry       = []byte("try ")     // begins the keys of wrong tries: see Tries
	metaText      = []byte("text ")    // begins the keys of the sums of text: see text.go
	metaTexts     = []byte("texts")    // what metaSeq and metaInstant were when the sums of text were right
)

// A Schema says what a store holds.
type Schema struct {
	// Tables are in the order in which a repair refills them: a table comes after
	// those that its rows refer to. What an owner has is deleted in the reverse
	// order.
	Tables []Table

	// Migrations bring the store from one format to the next, each under the number
	// of the format that it starts from.
	Migrations [Format]Migration
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

	// Text adds up the bytes of text that owners have in the rows: see text.go.
	Text func(tx *Tx, add func(owner record.ID, n int64))

	// Redate takes times that have not come yet out of the rows, and returns how
	// many rows it changed: see Store.ResetClock.
	Redate func(*Redate) (n int, err error)

	// Load reads at a start what the store keeps of the rows in memory.
	Load func(*Store, *table.Tx)

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

// described are the Describe of all tables that have one, by the number of the
// bucket with their rows.
func (schema *Schema) described() map[byte]func(key, row []byte) (Touched, bool) {
	all := map[byte]func(key, row []byte) (Touched, bool){}
	for _, t := range schema.Tables {
		if t.Describe != nil {
			all[t.Buckets[0].No] = t.Describe
		}
	}
	return all
}

// removeBatch bounds the rows of one transaction in work that touches many.
const removeBatch = 200

// drop deletes some of what an owner has, in the reverse order of the tables. The
// transaction in which it is done sees that nothing is left: a request of the
// owner's may still be under way.
func (tx *Tx) drop(owner record.ID) (done bool, err error) {
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

// dropRows is the Drop of a table whose keys begin with the id of an owner.
func dropRows[T any](t *table.Table[T]) func(*Tx, record.ID) (bool, error) {
	return func(tx *Tx, owner record.ID) (bool, error) {
		return tx.dropKeys(t.Rows, owner, func(key []byte) error {
			_, err := t.Delete(tx.Tx, key)
			return err
		})
	}
}

// dropKeys calls each with up to removeBatch keys that begin with the id of an
// owner, and says whether there are no more.
func (tx *Tx) dropKeys(b table.Bucket, owner record.ID, each func(key []byte) error) (done bool, err error) {
	var some [][]byte
	for k := range tx.Walk(b, owner[:], nil, false) {
		if some = append(some, bytes.Clone(k)); len(some) == removeBatch {
			break
		}
	}
	for _, k := range some {
		if err := each(k); err != nil {
			return false, err
		}
	}
	return len(some) < removeBatch, nil
}

// metaTable is what the store keeps of itself. The sums of text are derived from rows.
var metaTable = Table{
	Buckets: []table.Bucket{metaBucket},
	Refill: func(r *Refill) error {
		return r.copy(metaBucket, func(k []byte) bool { return !bytes.HasPrefix(k, metaText) })
	},
}

// jsonTable is a table whose values are kept as JSON.
func jsonTable[T any](b table.Bucket, key func(*T) []byte, indexes ...table.Index[T]) *table.Table[T] {
	return &table.Table[T]{
		Rows: b, Key: key, Indexes: indexes,
		Encode: func(v *T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(_, row []byte) (*T, error) {
			v := new(T)
			return v, json.Unmarshal(row, v)
		},
	}
}

// ownedKey is the key of something that belongs to an owner.
func ownedKey(owner record.ID, rest ...byte) []byte {
	return append(append(make([]byte, 0, 16+len(rest)), owner[:]...), rest...)
}

func ownedNameKey(owner record.ID, name string) []byte {
	return ownedKey(owner, []byte(record.Fold(name))...)
}

// format is the version of the data format of the store.
func (tx *Tx) format() uint32 {
	if v := tx.Get(metaBucket, metaFormat); len(v) == 4 {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// signed is an instant in milliseconds such that those before 1970 sort first.
func signed(t time.Time) uint64 { return uint64(t.UnixMilli()) ^ 1<<63 }

// findDue finds what is due in an index of groups: an entry is prefix, a group
// (size bytes), a time, and the rest. Of each group it finds those that are due
// for longest, as many as room says; a negative room skips the group. parse makes
// a result of an entry, and says whether to skip it. wait is how long until the
// next one is due, 0 if none waits for its time. What it costs goes by the
// number of groups and of what it finds, not by what is queued.
func findDue[T any](tx *Tx, b table.Bucket, prefix []byte, size int, room func(group []byte) (int, error), parse func(group, rest []byte) (T, bool)) (found []T, wait time.Duration, err error) {
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
