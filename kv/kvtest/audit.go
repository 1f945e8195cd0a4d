package kvtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// Audit is the audit of the store. It also derives all derived entries from the rows
// itself and reports where the store differs.
func Audit(tx *kv.Tx) error {
	a := &audit{
		tx: tx, want: map[string]string{}, sums: map[string]int64{},
		ids: map[record.ID]bool{}, refs: map[[32]byte]bool{},
	}
	tx.Audit(func(err error) { a.wrong = append(a.wrong, err) })
	for _, step := range []func() error{
		a.records, a.trash, a.requests, a.items, a.uploads, a.fetches, a.pages,
		a.tables, a.users, a.deliveries, a.views, a.looseContents, a.compare,
	} {
		if err := step(); err != nil {
			return errors.Join(append(a.wrong, err)...)
		}
	}
	return errors.Join(a.wrong...)
}

// An audit derives what the store should have from the rows. Each step but the last adds a table.
type audit struct {
	tx    *kv.Tx
	wrong []error

	want map[string]string // the derived entries, by bucket and key
	sums map[string]int64
	ids  map[record.ID]bool // of what may have views
	refs map[[32]byte]bool  // contents in use

	bookmarks int
}

func (a *audit) say(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Errorf(format, args...))
}

// file adds an entry that the store should have.
func (a *audit) file(bucket string, key, value []byte) {
	a.want[entryName(bucket, key)] = string(value)
}

func entryName(bucket string, key []byte) string { return fmt.Sprintf("%s %x", bucket, key) }

// sortable is an instant in a key.
func sortable(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, kv.Signed(t)) }

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func (a *audit) records() error {
	for r, err := range catalog.RecordRows.All(a.tx.Tx, nil) {
		if err != nil {
			return err
		}
		a.ids[r.ID] = true
		if r.Kind == record.Bookmarks {
			a.bookmarks++
		}
		a.file("record.order", catalog.ViewOrder(r, Viewed(a.tx, r)[0]), nil)
		if r.Bytes != nil {
			a.refs[r.Bytes.Ref] = true
		}
		if r.Public && r.Reached {
			a.say("%s is public and used up", r.ID)
		}
	}
	return nil
}

func (a *audit) trash() error {
	for t, err := range catalog.TrashRows.All(a.tx.Tx, nil) {
		if err != nil {
			return err
		}
		if a.ids[t.ID] {
			a.say("%s is in the trash and in use", t.ID)
		}
		a.ids[t.ID] = true
		if t.Bytes != nil {
			a.refs[t.Bytes.Ref] = true
		}
	}
	return nil
}

func (a *audit) requests() error {
	all, err := kv.Collect(inbox.RequestRows, a.tx, nil)
	if err != nil {
		return err
	}
	for _, q := range all {
		a.ids[q.ID] = true
		a.file("record.slug", []byte(q.Slug), keyOfRequest(q.Owner, q.ID))
	}
	return nil
}

func (a *audit) items() error {
	for i, err := range inbox.ItemRows.All(a.tx.Tx, nil) {
		if err != nil {
			return err
		}
		pending, approved := i.State == inbox.Pending, i.State == inbox.Approved
		switch {
		case pending:
			a.refs[i.Ref] = true
		case i.Ref != [32]byte{}:
			a.say("%s is %s and has content", i.ID, i.State)
		}
		if approved != (i.File != uuid.Nil && i.FileSlug != "") || pending != i.Decided.IsZero() {
			a.say("%s is %s and half so", i.ID, i.State)
		}
	}
	return nil
}

func (a *audit) uploads() error {
	all, err := kv.Collect(inbox.UploadRows, a.tx, nil)
	if err != nil {
		return err
	}
	for i := range all {
		u := &all[i]
		key := kv.OwnedKey(u.Owner, u.ID[:]...)
		if u.BySender() {
			a.file("upload.secret", u.Secret[:], key)
		}
		if u.Done() || u.Into != uuid.Nil {
			continue
		}
		if u.Slug != "" {
			a.file("upload.slug", []byte(u.Slug), key)
		}
		if u.BySender() {
			to, by := byte('t'), byte('v')
			if u.Partial {
				to, by = 'w', 'x'
			}
			a.sums[string(kv.OwnedKey(u.Owner, append([]byte{0, to}, u.Request[:]...)...))]++
			a.sums[string(kv.OwnedKey(u.Owner, slices.Concat([]byte{0, by}, u.Request[:], u.From[:])...))]++
			a.sums[string(kv.OwnedKey(u.Owner, append([]byte{0, 'u'}, u.Request[:]...)...))] += u.Length
			a.sums[string(kv.OwnedKey(uuid.Nil, 0, 'u'))] += u.Length - u.Offset
		} else {
			a.sums[string(kv.OwnedKey(u.Owner, 0, 'p'))]++
		}
		a.sums[string(kv.OwnedKey(u.Owner, 0, 'r'))] += max(u.Length, u.Offset)
		a.sums[string(kv.OwnedKey(uuid.Nil, 0, 'r'))] += max(u.Length-u.Offset, 0)
	}
	return nil
}

func (a *audit) fetches() error {
	all, err := kv.Collect(jobs.FetchRows, a.tx, nil)
	if err != nil {
		return err
	}
	for i := range all {
		f := &all[i]
		part, at := byte('o'), f.Ended
		switch f.State {
		case jobs.FetchWaits:
			part, at = 'w', f.Due
		case jobs.FetchRuns:
			part, at = 'r', f.Created
			a.sums[string(kv.OwnedKey(f.Owner, 0, 'g'))] += max(f.Total, f.Bytes)
			a.sums[string(kv.OwnedKey(uuid.Nil, 0, 'g'))] += max(f.Total-f.Bytes, 0)
		}
		if part != 'o' && f.Slug != "" {
			a.file("upload.slug", []byte(f.Slug), kv.OwnedKey(f.Owner, f.ID[:]...))
		}
		if (part == 'o') != f.Due.IsZero() && part != 'r' || (part == 'o') == f.Ended.IsZero() {
			a.say("remote upload %s is %s, due %s and ended %s", f.ID, f.State, f.Due, f.Ended)
		}
		a.file("fetch.line", slices.Concat([]byte{part}, f.Owner[:], sortable(at), f.ID[:]), nil)
	}
	return nil
}

func (a *audit) pages() error {
	known := 0
	for p, err := range catalog.PageRows.All(a.tx.Tx, nil) {
		if err != nil {
			return err
		}
		known++
		r, err := catalog.Owned(a.tx, p.Owner, record.Bookmarks, p.ID)
		if err != nil {
			return err
		}
		body, err := r.Decode()
		if err != nil {
			return err
		}
		if p.Key != record.PageKey(body.(*record.Bookmark).URL) {
			a.say("the page of %s is another one", p.ID)
		}
	}
	if a.bookmarks != known {
		a.say("%d bookmarks have %d pages", a.bookmarks, known)
	}
	return nil
}

// tables adds what the definitions of the tables derive.
func (a *audit) tables() error {
	for _, err := range []error{
		derive(a, catalog.RecordRows), derive(a, inbox.ItemRows), derive(a, catalog.PageRows),
		derive(a, people.ActivityRows), derive(a, history.VisitRows), derive(a, history.VisitLogRows),
		derive(a, catalog.TrashRows), derive(a, catalog.PickRows), derive(a, catalog.MembershipRows), derive(a, people.KeyRows),
		derive(a, catalog.TagRows), derive(a, catalog.FolderRows),
	} {
		if err != nil {
			return err
		}
	}
	for k, n := range a.sums {
		if n != 0 {
			a.file("sum", []byte(k), number(n))
		}
	}
	return nil
}

// derive files the entries of the rows of a table and adds up their tallies.
func derive[T any](a *audit, t *table.Table[T]) error {
	for v, err := range t.All(a.tx.Tx, nil) {
		if err != nil {
			return err
		}
		for _, ix := range t.Indexes {
			var to []byte
			if ix.Unique {
				to = t.Key(v)
			}
			ix.Keys(v, func(e []byte) { a.file(ix.Bucket.Name, e, to) })
		}
		if t.Tally != nil {
			t.Tally(v, func(k []byte, n int64) { a.sums[string(k)] += n })
		}
	}
	return nil
}

func (a *audit) users() error {
	all, err := people.Users(a.tx)
	if err != nil {
		return err
	}
	for i := range all {
		a.file("user.name", []byte(record.Fold(all[i].Name)), all[i].ID[:])
	}
	return nil
}

func (a *audit) deliveries() error {
	all, err := kv.Collect(jobs.DeliveryRows, a.tx, nil)
	if err != nil {
		return err
	}
	lines, queued, notices := map[string]bool{}, map[string]int64{}, 0
	for i := range all {
		d := &all[i]
		told := string(slices.Concat(d.Owner[:], []byte{'n'}, d.ID[:]))
		queued[told]++
		if queued[told] == 1 {
			notices++
		}
		if d.State != jobs.DeliveryWaits {
			a.file("delivery.log", slices.Concat(d.Hook[:], []byte{0}, sortable(d.Noted), d.ID[:]), nil)
			queued[string(kv.OwnedKey(d.Hook, 'l'))]++
			queued[string(kv.OwnedKey(d.Hook, 'L'))] += d.Size
			continue
		}

		queued[string(kv.OwnedKey(d.Hook, 'w'))]++
		queued[string(kv.OwnedKey(d.Hook, 'W'))] += d.Size
		a.file("delivery.log", slices.Concat(d.Hook[:], []byte{2}, sortable(d.At), d.ID[:]), nil)
		if !d.Noted.IsZero() {
			a.file("delivery.log", slices.Concat(d.Hook[:], []byte{1}, sortable(d.Noted), d.ID[:]), nil)
		}
		line := slices.Concat(d.Hook[:], d.Subject[:])
		a.file("delivery.line", append(line, d.ID[:]...), nil)
		if first := !lines[string(line)]; first == d.Due.IsZero() { // ids are in order
			a.say("delivery %s: first of its subject %t, and due %s", d.ID, first, d.Due)
		}
		lines[string(line)] = true
		if !d.Due.IsZero() {
			a.file("delivery.due", slices.Concat(d.Owner[:], d.Hook[:], sortable(d.Due), d.ID[:], d.Subject[:]), nil)
		}
	}

	for key, n := range queued {
		a.file("delivery.sum", []byte(key), number(n))
	}
	if n := a.tx.Count(Bucket("notice")); n != notices {
		a.say("%d notices, and %d are told", n, notices)
	}
	return nil
}

func (a *audit) views() error {
	for k := range a.tx.Walk(Bucket("view"), nil, nil, false) {
		if !a.ids[record.ID(k)] {
			a.say("views of %x, which is not there", k)
		}
	}
	return nil
}

func (a *audit) looseContents() error {
	for k := range a.tx.Walk(Bucket("blob.loose"), nil, nil, false) {
		if a.refs[[32]byte(k)] {
			a.say("content %x is loose and referred to", k)
		}
	}
	return nil
}

// derived are the buckets whose entries the steps know, all of them.
var derived = []string{
	"member.order", "membership.user", "upload.slug", "upload.secret", "fetch.line", "page.due", "history.index",
	"record.end", "record.slug", "record.label", "record.order", "sum", "blob", "item.state", "item.blob",
	"user.name", "key.digest", "tag.name", "folder.name",
	"delivery.line", "delivery.due", "delivery.log", "delivery.sum",
	"trash.line", "trash.blob", "trash.version",
}

// compare reports where the store differs from what the steps have derived. The feed of changes has
// marks of removals as well.
func (a *audit) compare() error {
	n, records := 0, Bucket("record")
	for _, name := range derived {
		for k, v := range a.tx.Walk(Bucket(name), nil, nil, false) {
			n++
			if w, ok := a.want[entryName(name, k)]; !ok || w != string(v) {
				a.say("%s %x=%x is stale", name, k, v)
			}
		}
	}
	for k, v := range a.tx.Walk(Bucket("change"), nil, nil, false) {
		w, ok := a.want[entryName("change", k)]
		switch {
		case ok && w == string(v):
			n++
		case ok || a.tx.Get(records, v) != nil:
			a.say("change %x=%x is stale", k, v)
		}
	}
	if n != len(a.want) {
		a.say("%d derived entries, want %d", n, len(a.want))
	}
	return nil
}
