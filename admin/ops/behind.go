package ops

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// Left is a change that a rollback leaves behind.
type Left struct {
	What string    `json:"change"` // "added", "changed" or "deleted"
	Kind string    `json:"kind"`   // of an item, or "settings", or one of otherKinds
	ID   record.ID `json:"id,omitzero"`
	Name string    `json:"name"`
	User string    `json:"user"`        // whose it is
	At   time.Time `json:"at,omitzero"` // of the latest change; absent if it is not known
}

// The values of Left.What.
const (
	added   = "added"
	changed = "changed"
	deleted = "deleted"
)

// behind calls left with what the state now has and before has not, or otherwise.
func behind(before, now *kv.Inspection, left func(Left) error) error {
	return before.View(func(old *kv.Tx) error {
		return now.View(func(tx *kv.Tx) error {
			d := difference{old: old, now: tx, left: left, users: map[record.ID]string{}}
			if v := old.Get(workcopy.MetaBucket, kv.MetaSeq); len(v) == 8 {
				d.seq = binary.BigEndian.Uint64(v)
			}
			for _, find := range []func() error{d.settings, d.items, d.removed, d.trashed, d.others} {
				if err := find(); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// difference compares two states of a store.
type difference struct {
	old, now *kv.Tx
	seq      uint64 // the place in the feed of changes that old has reached
	left     func(Left) error
	users    map[record.ID]string // names of accounts
}

func (d *difference) settings() error {
	if bytes.Equal(d.old.Get(workcopy.MetaBucket, kv.MetaSettings), d.now.Get(workcopy.MetaBucket, kv.MetaSettings)) {
		return nil
	}
	return d.left(Left{What: changed, Kind: "settings"})
}

// items finds the records that were added or changed.
func (d *difference) items() error {
	for k, v := range d.now.Walk(kv.RecordBucket, nil, nil, false) {
		r, err := record.BorrowRow(k, v)
		if err != nil || r.Seq <= d.seq {
			continue // verify reports rows that cannot be read
		}
		one := Left{What: added, At: r.Created}
		if has(d.old, k) {
			one.What, one.At = changed, r.Updated
		}
		if err := d.leave(one, r); err != nil {
			return err
		}
	}
	return nil
}

// removed finds the records that were deleted.
func (d *difference) removed() error {
	for k, v := range d.old.Walk(kv.RecordBucket, nil, nil, false) {
		if d.now.Get(kv.RecordBucket, k) != nil {
			continue
		}
		r, err := record.BorrowRow(k, v)
		if err != nil {
			continue
		}
		one := Left{What: deleted}
		if t, err := catalog.TrashRows.Get(d.now.Tx, k); err == nil {
			one.At = t.At
		}
		if err := d.leave(one, r); err != nil {
			return err
		}
	}
	return nil
}

// trashed finds what was added and deleted, and what was deleted for good.
func (d *difference) trashed() error {
	for _, pass := range []struct {
		in, other *kv.Tx
		what      string
	}{{d.now, d.old, added}, {d.old, d.now, deleted}} {
		for k, v := range pass.in.Walk(catalog.TrashRows.Rows, nil, nil, false) {
			t, err := record.ParseTrashed(k, v)
			if err != nil || t.Of != uuid.Nil || has(pass.other, k) {
				continue
			}
			one := Left{What: pass.what}
			if pass.what == added {
				one.At = t.At
			}
			if err := d.leave(one, &t.Record); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether a state has a record, in use or deleted.
func has(tx *kv.Tx, key []byte) bool {
	return tx.Get(kv.RecordBucket, key) != nil || tx.Get(catalog.TrashRows.Rows, key) != nil
}

// leave completes what is said about a record.
func (d *difference) leave(one Left, r *record.Record) error {
	one.Kind, one.ID, one.User = r.Kind.Name, r.ID, d.user(r.Owner)
	if body, err := r.Decode(); err == nil {
		one.Name = body.Title()
	}
	one.At = one.At.UTC()
	return d.left(one)
}

// otherKinds are the rows besides records, in the order in which they are told. Rows that change
// with use are compared by their keys alone.
var otherKinds = []struct {
	kind, bucket string
	keysOnly     bool
}{
	{"account", "user", false},
	{"upload link", "request", false},
	{"tag", "tag", false},
	{"folder", "folder", false},
	{"received file", "item", false},
	{"key", "key", true},
	{"webhook", "webhook", true},
}

// others finds the other rows that were added, changed or deleted.
func (d *difference) others() error {
	buckets := map[string]table.Bucket{}
	for b := range tables.All.Buckets().All() {
		buckets[b.Name] = b
	}
	for _, o := range otherKinds {
		b := buckets[o.bucket]
		for k, v := range d.now.Walk(b, nil, nil, false) {
			was := d.old.Get(b, k)
			if was != nil && (o.keysOnly || bytes.Equal(was, v)) {
				continue
			}
			what := changed
			if was == nil {
				what = added
			}
			if err := d.other(what, o.kind, v); err != nil {
				return err
			}
		}
		for k, v := range d.old.Walk(b, nil, nil, false) {
			if d.now.Get(b, k) != nil {
				continue
			}
			if err := d.other(deleted, o.kind, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// other tells of a row that is stored as JSON.
func (d *difference) other(what, kind string, row []byte) error {
	var v struct {
		ID, Owner        record.ID
		Name, Title      string
		Session          bool
		Created, Updated time.Time
	}
	if json.Unmarshal(row, &v) != nil || v.Session {
		return nil //nolint:nilerr // verify reports rows that cannot be read
	}
	one := Left{What: what, Kind: kind, ID: v.ID, Name: cmp.Or(v.Name, v.Title), User: d.user(v.Owner)}
	switch {
	case what == added:
		one.At = v.Created.UTC()
	case what == changed:
		one.At = v.Updated.UTC()
	}
	return d.left(one)
}

// user is the name of an account, in the present or the former state.
func (d *difference) user(id record.ID) string {
	name, known := d.users[id]
	if known || id == uuid.Nil {
		return name
	}
	var u struct{ Name string }
	row := d.now.Get(people.UserBucket, id[:])
	if row == nil {
		row = d.old.Get(people.UserBucket, id[:])
	}
	_ = json.Unmarshal(row, &u) // without a name otherwise
	d.users[id] = u.Name
	return u.Name
}
