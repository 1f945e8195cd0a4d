package kvtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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

// derive files the entries of the rows of a table and adds up their tallies.
func derive[T any](tx *kv.Tx, t *table.Table[T], file func(table.Bucket, []byte, []byte), sums map[string]int64) error {
	for v, err := range t.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		for _, ix := range t.Indexes {
			var to []byte
			if ix.Unique {
				to = t.Key(v)
			}
			ix.Keys(v, func(e []byte) { file(ix.Bucket, e, to) })
		}
		if t.Tally != nil {
			t.Tally(v, func(k []byte, n int64) { sums[string(k)] += n })
		}
	}
	return nil
}

// Audit is the audit of the store. It also derives all derived entries from the rows
// itself and reports where the store differs.
func Audit(tx *kv.Tx) error {
	var errs []error
	tx.Audit(func(err error) { errs = append(errs, err) })
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	want := map[string]string{}
	file := func(b table.Bucket, k, v []byte) { want[fmt.Sprintf("%s %x", b.Name, k)] = string(v) }
	sums := map[string]int64{}
	ids, refs, marked := map[record.ID]bool{}, map[[32]byte]bool{}, map[*record.Kind]int{}
	for r, err := range catalog.RecordRows.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		ids[r.ID] = true
		marked[r.Kind]++
		file(Bucket("record.order"), catalog.ViewOrder(r, Viewed(tx, r)[0]), nil)
		if r.Bytes != nil {
			refs[r.Bytes.Ref] = true
		}
		if r.Public && r.Reached {
			say("%s is public and used up", r.ID)
		}
	}
	for t, err := range catalog.TrashRows.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		if ids[t.ID] {
			say("%s is in the trash and in use", t.ID)
		}
		ids[t.ID] = true
		if t.Bytes != nil {
			refs[t.Bytes.Ref] = true
		}
	}
	qs, err3 := kv.Collect(inbox.RequestRows, tx, nil)
	for i := range qs {
		ids[qs[i].ID] = true
		file(Bucket("record.slug"), []byte(qs[i].Slug), keyOfRequest(qs[i].Owner, qs[i].ID))
	}
	for i, err := range inbox.ItemRows.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		if pending := i.State == inbox.Pending; pending {
			refs[i.Ref] = true
		} else if i.Ref != [32]byte{} {
			say("%s is %s and has content", i.ID, i.State)
		}
		if (i.State == inbox.Approved) != (i.File != uuid.Nil && i.FileSlug != "") || (i.State == inbox.Pending) != i.Decided.IsZero() {
			say("%s is %s and half so", i.ID, i.State)
		}
	}
	begun, err4 := kv.Collect(inbox.UploadRows, tx, nil)
	for i := range begun {
		u := &begun[i]
		if u.BySender() {
			file(Bucket("upload.secret"), u.Secret[:], kv.OwnedKey(u.Owner, u.ID[:]...))
		}
		if u.Done() || u.Into != uuid.Nil {
			continue
		}
		if u.Slug != "" {
			file(Bucket("upload.slug"), []byte(u.Slug), kv.OwnedKey(u.Owner, u.ID[:]...))
		}
		if u.BySender() {
			to, by := byte('t'), byte('v')
			if u.Partial {
				to, by = 'w', 'x'
			}
			sums[string(kv.OwnedKey(u.Owner, append([]byte{0, to}, u.Request[:]...)...))]++
			sums[string(kv.OwnedKey(u.Owner, slices.Concat([]byte{0, by}, u.Request[:], u.From[:])...))]++
			sums[string(kv.OwnedKey(u.Owner, append([]byte{0, 'u'}, u.Request[:]...)...))] += u.Length
			sums[string(kv.OwnedKey(uuid.Nil, 0, 'u'))] += u.Length - u.Offset
		} else {
			sums[string(kv.OwnedKey(u.Owner, 0, 'p'))]++
		}
		sums[string(kv.OwnedKey(u.Owner, 0, 'r'))] += max(u.Length, u.Offset)
		sums[string(kv.OwnedKey(uuid.Nil, 0, 'r'))] += max(u.Length-u.Offset, 0)
	}
	fetched, err5 := kv.Collect(jobs.FetchRows, tx, nil)
	for i := range fetched {
		f := &fetched[i]
		part, at := byte('o'), f.Ended
		switch f.State {
		case jobs.FetchWaits:
			part, at = 'w', f.Due
		case jobs.FetchRuns:
			part, at = 'r', f.Created
			sums[string(kv.OwnedKey(f.Owner, 0, 'g'))] += max(f.Total, f.Bytes)
			sums[string(kv.OwnedKey(uuid.Nil, 0, 'g'))] += max(f.Total-f.Bytes, 0)
		}
		if part != 'o' && f.Slug != "" {
			file(Bucket("upload.slug"), []byte(f.Slug), kv.OwnedKey(f.Owner, f.ID[:]...))
		}
		if (part == 'o') != f.Due.IsZero() && part != 'r' || (part == 'o') == f.Ended.IsZero() {
			say("remote upload %s is %s, due %s and ended %s", f.ID, f.State, f.Due, f.Ended)
		}
		file(Bucket("fetch.line"), slices.Concat([]byte{part}, f.Owner[:], binary.BigEndian.AppendUint64(nil, kv.Signed(at)), f.ID[:]), nil)
	}
	known := 0
	for p, err := range catalog.PageRows.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		known++
		r, err := catalog.Owned(tx, p.Owner, record.Bookmarks, p.ID)
		if err != nil {
			return err
		}
		body, err := r.Decode()
		if err != nil {
			return err
		}
		b := body.(*record.Bookmark)
		if p.Key != record.PageKey(b.URL) {
			say("the page of %s is another one", p.ID)
		}
	}
	if n := marked[record.Bookmarks]; n != known {
		say("%d bookmarks have %d pages", n, known)
	}
	errs = append(
		errs, derive(tx, catalog.RecordRows, file, sums), derive(tx, inbox.ItemRows, file, sums), derive(tx, catalog.PageRows, file, sums),
		derive(tx, people.ActivityRows, file, sums), derive(tx, history.VisitRows, file, sums), derive(tx, history.VisitLogRows, file, sums),
		derive(tx, catalog.TrashRows, file, sums), derive(tx, catalog.MemberRows, file, sums), derive(tx, people.KeyRows, file, sums),
		derive(tx, catalog.TagRows, file, sums), derive(tx, catalog.FolderRows, file, sums),
	)
	for k, n := range sums {
		if n != 0 {
			file(Bucket("sum"), []byte(k), binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
	}
	us, err := people.Users(tx)
	for i := range us {
		file(Bucket("user.name"), []byte(record.Fold(us[i].Name)), us[i].ID[:])
	}
	ds, err2 := kv.Collect(jobs.DeliveryRows, tx, nil)
	lines, queued, notices := map[string]bool{}, map[string]int64{}, 0
	for i := range ds {
		d := &ds[i]
		told := string(slices.Concat(d.Owner[:], []byte{'n'}, d.ID[:]))
		queued[told]++
		if queued[told] == 1 {
			notices++
		}
		if d.State != jobs.DeliveryWaits {
			file(Bucket("delivery.log"), slices.Concat(d.Hook[:], []byte{0}, binary.BigEndian.AppendUint64(nil, kv.Signed(d.Noted)), d.ID[:]), nil)
			queued[string(kv.OwnedKey(d.Hook, 'l'))]++
			queued[string(kv.OwnedKey(d.Hook, 'L'))] += d.Size
			continue
		}
		queued[string(kv.OwnedKey(d.Hook, 'w'))]++
		queued[string(kv.OwnedKey(d.Hook, 'W'))] += d.Size
		file(Bucket("delivery.log"), slices.Concat(d.Hook[:], []byte{2}, binary.BigEndian.AppendUint64(nil, kv.Signed(d.At)), d.ID[:]), nil)
		if !d.Noted.IsZero() {
			file(Bucket("delivery.log"), slices.Concat(d.Hook[:], []byte{1}, binary.BigEndian.AppendUint64(nil, kv.Signed(d.Noted)), d.ID[:]), nil)
		}
		line := slices.Concat(d.Hook[:], d.Subject[:])
		file(Bucket("delivery.line"), append(line, d.ID[:]...), nil)
		if first := !lines[string(line)]; first == d.Due.IsZero() { // ids are in order
			say("delivery %s: first of its subject %t, and due %s", d.ID, first, d.Due)
		}
		lines[string(line)] = true
		if !d.Due.IsZero() {
			file(Bucket("delivery.due"), slices.Concat(d.Owner[:], d.Hook[:], binary.BigEndian.AppendUint64(nil, kv.Signed(d.Due)), d.ID[:], d.Subject[:]), nil)
		}
	}
	for key, n := range queued {
		file(Bucket("delivery.sum"), []byte(key), binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	if n := tx.Count(Bucket("notice")); n != notices {
		say("%d notices, and %d are told", n, notices)
	}
	for k := range tx.Walk(Bucket("view"), nil, nil, false) {
		if !ids[record.ID(k)] {
			say("views of %x, which is not there", k)
		}
	}
	for k := range tx.Walk(Bucket("blob.loose"), nil, nil, false) {
		if refs[[32]byte(k)] {
			say("content %x is loose and referred to", k)
		}
	}
	derived := []table.Bucket{Bucket("member.order"), Bucket("upload.slug"), Bucket("upload.secret"), Bucket("fetch.line"), Bucket("page.due"), Bucket("history.index"), Bucket("record.end"), Bucket("record.slug"), Bucket("record.label"), Bucket("record.order"), Bucket("sum"), Bucket("blob"), Bucket("item.state"), Bucket("item.blob"), Bucket("user.name"), Bucket("key.digest"), Bucket("tag.name"), Bucket("folder.name"), Bucket("delivery.line"), Bucket("delivery.due"), Bucket("delivery.log"), Bucket("delivery.sum"), Bucket("trash.line"), Bucket("trash.blob"), Bucket("trash.version")}
	n := 0
	for _, b := range derived {
		for k, v := range tx.Walk(b, nil, nil, false) {
			n++
			if w, ok := want[fmt.Sprintf("%s %x", b.Name, k)]; !ok || w != string(v) {
				say("%s %x=%x is stale", b.Name, k, v)
			}
		}
	}
	for k, v := range tx.Walk(Bucket("change"), nil, nil, false) {
		if w, ok := want[fmt.Sprintf("%s %x", Bucket("change").Name, k)]; ok && w == string(v) {
			n++
		} else if ok || tx.Get(Bucket("record"), v) != nil {
			say("change %x=%x is stale", k, v)
		}
	}
	if n != len(want) {
		say("%d derived entries, want %d", n, len(want))
	}
	return errors.Join(append(errs, err, err2, err3, err4, err5)...)
}
