package history

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// versionRows is the table of earlier texts of notes, snippets and recipes. The Body of a
// row is valid only until the transaction ends.
var versionRows = &table.Table[record.Version]{
	Rows:   versionBucket,
	Key:    (*record.Version).Key,
	Encode: (*record.Version).AppendRow,
	Decode: record.BorrowVersion,
	Bytes: func(v *record.Version, length int) (table.Bucket, []byte, int) {
		return kv.TextSum(record.ID(v.Item[:16]), length)
	},
}

// VersionTable keeps earlier texts. They stay while their record is in the trash, and go
// with it.
var VersionTable = kv.Table{
	Buckets: []table.Bucket{versionBucket},
	Check: kv.CheckRows(versionRows, func(a *kv.Audit, v *record.Version) {
		refersToItem(a, v.Item, "version", v.ID)
	}),
	Refill: kv.RefillRows(versionRows, kv.Mending[record.Version]{Then: func(r *kv.Refill, v *record.Version) error {
		return dropOrphan(r, versionRows, v.Item, v)
	}}),
	Drop: kv.DropRows(versionRows),
	Text: kv.RowText(versionBucket),
}

// A Change says who replaces a text.
type Change struct {
	By   string // names the browser, key or device
	Seen bool   // the writer had read the text
	// Ticker is the account that sets a task of the text and changes nothing else. It is nil for other changes.
	Ticker record.ID
}

// KeepVersion keeps the body that a change replaces. Further changes by the same writer within VersionEvery belong to
// the same version if the writer had seen the body: nothing is lost that nobody has read. So do tasks that one account
// sets within TicksEvery, from any of its devices, as long as nothing but tasks is changed. over is how many more bytes
// the owner has now. They are not charged, or a key could destroy old texts by filling the
// quota. A full disk does not refuse it either: without room, the commit fails and the text
// stays.
func KeepVersion(tx *kv.Tx, r *record.Record, body []byte, c Change) (over int64, err error) {
	kept, err := c.isKept(tx, r)
	if kept || err != nil {
		return 0, err
	}
	before := tx.Text(r.Owner)
	v := &record.Version{
		Item: [record.KeySize]byte(r.Key()), ID: tx.NewID(),
		VersionHead: record.VersionHead{At: tx.Now, By: c.By, Ticker: c.Ticker}, Body: body,
	}
	if err := versionRows.Put(tx.Tx, v); err != nil {
		return 0, err
	}
	if err := thinVersions(tx, r); err != nil {
		return 0, err
	}
	return max(tx.Text(r.Owner)-before, 0), nil
}

// isKept reports whether a version has what the change replaces, as far as it must be kept.
func (c Change) isKept(tx *kv.Tx, r *record.Record) (bool, error) {
	for key, row := range tx.Walk(versionBucket, r.Key(), nil, true) {
		last, err := versionRows.Decode(key, row)
		if err != nil {
			return false, err
		}
		age, ticked := tx.Now.Sub(last.At), last.Ticker != uuid.Nil
		switch {
		case c.Ticker == uuid.Nil:
			return c.Seen && !ticked && last.By == c.By && age < VersionEvery, nil
		case !ticked || age >= TicksEvery:
			return false, nil
		case last.Ticker == c.Ticker:
			return true, nil
		}
	}
	return false, nil
}

// thinVersions deletes the versions of a record that KeepVersions does not keep.
func thinVersions(tx *kv.Tx, r *record.Record) error {
	var keys [][]byte
	var all []VersionAge
	for key, row := range tx.Walk(versionBucket, r.Key(), nil, true) {
		v, err := versionRows.Decode(key, row)
		if err != nil {
			return err
		}
		keys, all = append(keys, bytes.Clone(key)), append(all, VersionAge{At: v.At, Size: len(row)})
	}
	for i, keep := range KeepVersions(all, tx.Now) {
		if !keep {
			if _, err := versionRows.Delete(tx.Tx, keys[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Versions lists the earlier texts of a record, latest first, without their bodies.
func Versions(tx *kv.Tx, r *record.Record) (all []record.Version, err error) {
	var ages []VersionAge
	for key, row := range tx.Walk(versionBucket, r.Key(), nil, true) {
		v, err := versionRows.Decode(key, row)
		if err != nil {
			return nil, err
		}
		ages = append(ages, VersionAge{At: v.At, Size: len(row)})
		v.Size, v.Body = int64(len(v.Body)), nil
		all = append(all, *v)
	}
	kept := all[:0]
	for i, keep := range KeepVersions(ages, tx.Now) { // those that the next change deletes
		if keep {
			kept = append(kept, all[i])
		}
	}
	return kept, nil
}

// HasVersions reports whether there are earlier texts of a record.
func HasVersions(tx *kv.Tx, r *record.Record) bool {
	if r.Kind.Versioned() {
		for range tx.Walk(versionBucket, r.Key(), nil, false) {
			return true
		}
	}
	return false
}

// AddVersion adds an earlier text that was kept elsewhere, unless the record has it
// already. It fails as catalog.Add does.
func AddVersion(tx *kv.Tx, r *record.Record, head record.VersionHead, body []byte) error {
	if tx.DiskFull() {
		return kv.ErrFull
	}
	if head.At.After(tx.Now) {
		head.At = tx.Now
	}
	var last record.ID
	for key, row := range tx.Walk(versionBucket, r.Key(), nil, false) {
		v, err := versionRows.Decode(key, row)
		if err != nil {
			return err
		}
		if v.At.Equal(head.At) {
			last = v.ID
			if bytes.Equal(v.Body, body) {
				return nil
			}
		}
	}
	v := &record.Version{Item: [record.KeySize]byte(r.Key()), ID: kv.IdAt(head.At, last), VersionHead: head, Body: body}
	if err := versionRows.Put(tx.Tx, v); err != nil {
		return err
	}
	if err := thinVersions(tx, r); err != nil {
		return err
	}
	return people.Charge(tx, r.Owner, 0)
}

// Version reads an earlier text of a record.
func Version(tx *kv.Tx, r *record.Record, id record.ID) (*record.Version, error) {
	v, err := versionRows.Get(tx.Tx, append(r.Key(), id[:]...))
	if err != nil {
		return nil, kv.UserError(err, "version")
	}
	v.Size, v.Body = int64(len(v.Body)), bytes.Clone(v.Body)
	return v, nil
}

// Bounds of the versions of a record.
const (
	VersionEvery    = 5 * time.Minute // changes by the same within this time are one
	TicksEvery      = time.Hour       // tasks that one account sets within this time are one
	MaxVersions     = 200
	MaxVersionBytes = 16 << 20
)

// VersionAge is what decides whether a version is kept.
type VersionAge struct {
	At   time.Time
	Size int // of its row
}

// KeepVersions says which versions of a record are kept; all has them latest first. Kept
// are all of the last 24 hours, the latest of each day for 30 days, and the latest of each
// month before, up to MaxVersions and MaxVersionBytes. Days and months are those of UTC.
func KeepVersions(all []VersionAge, now time.Time) []bool {
	keep := make([]bool, len(all))
	var later time.Time
	n, size := 0, 0
	for i, v := range all {
		at := v.At.UTC()
		age := now.Sub(at)
		sameMonth := i > 0 && at.Year() == later.Year() && at.Month() == later.Month()
		switch {
		case age < 24*time.Hour:
			keep[i] = true
		case age < 30*24*time.Hour:
			keep[i] = !sameMonth || at.Day() != later.Day()
		default:
			keep[i] = !sameMonth
		}
		later = at
		if !keep[i] {
			continue
		}
		n, size = n+1, size+v.Size
		if n > MaxVersions || size > MaxVersionBytes {
			return append(keep[:i:i], make([]bool, len(all)-i)...)
		}
	}
	return keep
}
