package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"kist/kv/field"
	"kist/kv/record"
	"kist/kv/table"
)

// clock is a wall clock that tests set.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time      { return time.UnixMilli(c.ms.Load()) }
func (c *clock) add(d time.Duration) { c.ms.Add(d.Milliseconds()) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// openAt opens a store that is closed with the test.
func openAt(t testing.TB, dir string, now func() time.Time) *Store {
	t.Helper()
	return opened(t, dir, Options{Schema: All, Now: now, Log: quiet})
}

func opened(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func open(t testing.TB) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "data"), nil)
}

// copyOf opens a copy of the store's journal as it is on the disk now: what a
// process that is killed at this moment leaves behind.
func copyOf(t testing.TB, s *Store) *Store {
	t.Helper()
	return openAt(t, leftOf(t, s), s.Now)
}

// leftOf is copyOf, not opened yet.
func leftOf(t testing.TB, s *Store) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	from, to := filepath.Join(s.Dir(), "journal"), filepath.Join(dir, "journal")
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), ".new-") {
			continue // not finished; it may be gone by now
		}
		if e.IsDir() { // in the place of a file, as some tests have it
			if err := os.CopyFS(filepath.Join(to, e.Name()), os.DirFS(filepath.Join(from, e.Name()))); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// update and view end the test when the transaction fails.
func update(t testing.TB, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func view(t testing.TB, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.View(fn); err != nil {
		t.Fatal(err)
	}
}

// form reads JSON into the form of a new record.
func form(t testing.TB, k *record.Kind, text string) *record.Form {
	t.Helper()
	f := record.NewForm(k)
	var shape field.Shaped = f
	if k == record.Files {
		shape = record.Upload{Form: f}
	}
	in, err := field.Parse([]byte(text))
	if err == nil {
		err = field.Create(shape, in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// patch reads JSON into the form of a stored record.
func patch(r *record.Record, text string) (*record.Form, error) {
	f, err := r.Form()
	if err != nil {
		return nil, err
	}
	var shape field.Shaped = f
	if r.Kind == record.Files {
		shape = record.FileEdit{Form: f}
	}
	in, err := field.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	return f, field.Patch(shape, in)
}

// user makes an administrator.
func user(t testing.TB, s *Store, name string) *record.User {
	t.Helper()
	var u *record.User
	update(t, s, func(tx *Tx) (err error) {
		u, err = tx.AddUser(record.User{Name: name, Role: record.Admin, Quota: -1})
		return err
	})
	return u
}

// textNow is the text that counts against the owner's quota now.
func textNow(t testing.TB, s *Store, owner record.ID) (n int64) {
	t.Helper()
	view(t, s, func(tx *Tx) error { n = tx.text(owner); return nil })
	return n
}

// add makes a record.
func add(t testing.TB, s *Store, owner record.ID, k *record.Kind, text string) *record.Record {
	t.Helper()
	f := form(t, k, text)
	var r *record.Record
	update(t, s, func(tx *Tx) (err error) {
		r, err = tx.Add(owner, k, f, content(k, 0, 0), "")
		return err
	})
	return r
}

// content is bytes for a file, nil for other kinds.
func content(k *record.Kind, ref byte, size int64) *record.Content {
	if k != record.Files {
		return nil
	}
	return &record.Content{Ref: [32]byte{ref}, Size: size}
}

func asError(err error, e **record.Error) bool { return errors.As(err, e) }

func code(err error) string {
	var e *record.Error
	if asError(err, &e) {
		return e.Code
	}
	return ""
}

// commits is how many commits the journal has.
func commits(t testing.TB, s *Store) int {
	t.Helper()
	_, n, err := Origin(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// tick does what becomes due with time.
func tick(s *Store) {
	for _, row := range All.Tables {
		if row.Tick != nil {
			row.Tick(s)
		}
	}
}

// viewed is the stored counter of a record: all views, and those against its limit.
func viewed(tx *Tx, r *record.Record) (n [2]int64) {
	if row := tx.Get(bucket("view"), r.ID[:]); len(row) == 16 {
		n = [2]int64{int64(binary.BigEndian.Uint64(row)), int64(binary.BigEndian.Uint64(row[8:]))}
	}
	return n
}

// keyOfRequest is the key of an upload request.
func keyOfRequest(owner, id record.ID) []byte { return slices.Concat(owner[:], []byte{0}, id[:]) }

// bucket finds a bucket by its name.
func bucket(name string) table.Bucket {
	for b := range All.Buckets().All() {
		if b.Name == name {
			return b
		}
	}
	panic("there is no bucket " + name)
}

// dump is everything in the store, by bucket and key.
func dump(tx *Tx) map[string]string {
	out := map[string]string{}
	for b := range All.Buckets().All() {
		for k, v := range tx.Walk(b, nil, nil, false) {
			out[fmt.Sprintf("%s %x", b.Name, k)] = string(v)
		}
	}
	return out
}

// audit derives from the rows everything that is derived from rows and says
// where the store differs, and what refers to something that is not there.
func audit(tx *Tx) error {
	var errs []error
	if err := tx.Audit(func(err error) { errs = append(errs, err) }); err != nil {
		return err
	}
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	want := map[string]string{}
	file := func(b table.Bucket, k, v []byte) { want[fmt.Sprintf("%s %x", b.Name, k)] = string(v) }
	sums := map[string]int64{}
	there := func(b table.Bucket, key []byte, from any) {
		if tx.Get(b, key) == nil {
			say("%v refers to %s %x, which is not there", from, b.Name, key)
		}
	}
	ids, refs, marked := map[record.ID]bool{}, map[[32]byte]bool{}, map[*record.Kind]int{}
	for r, err := range records.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		ids[r.ID] = true
		marked[r.Kind]++
		for _, ix := range records.Indexes {
			ix.Keys(r, func(e []byte) {
				if ix.Unique {
					file(ix.Bucket, e, r.Key())
				} else {
					file(ix.Bucket, e, nil)
				}
			})
		}
		file(bucket("record.order"), viewOrder(r, viewed(tx, r)[0]), nil)
		records.Tally(r, func(k []byte, n int64) { sums[string(k)] += n })
		there(bucket("user"), r.Owner[:], r.ID)
		for _, t := range r.Tags {
			there(bucket("tag"), ownedKey(r.Owner, t[:]...), r.ID)
		}
		if r.Folder != uuid.Nil {
			there(bucket("folder"), ownedKey(r.Owner, r.Folder[:]...), r.ID)
		}
		if r.Bytes != nil {
			refs[r.Bytes.Ref] = true
		}
		if r.Public && r.Reached {
			say("%s is public and used up", r.ID)
		}
	}
	qs, err7 := collect(requests, tx, nil)
	for i := range qs {
		ids[qs[i].ID] = true
		file(bucket("record.slug"), []byte(qs[i].Slug), keyOfRequest(qs[i].Owner, qs[i].ID))
		there(bucket("user"), qs[i].Owner[:], qs[i].ID)
	}
	for i, err := range items.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		there(bucket("request"), keyOfRequest(i.Owner, i.Request), i.ID)
		for _, ix := range items.Indexes {
			ix.Keys(i, func(e []byte) { file(ix.Bucket, e, nil) })
		}
		items.Tally(i, func(k []byte, n int64) { sums[string(k)] += n })
		if pending := i.State == record.Pending; pending {
			refs[i.Ref] = true
		} else if i.Ref != [32]byte{} {
			say("%s is %s and has content", i.ID, i.State)
		}
		if (i.State == record.Approved) != (i.File != uuid.Nil && i.FileSlug != "") || (i.State == record.Pending) != i.Decided.IsZero() {
			say("%s is %s and half so", i.ID, i.State)
		}
	}
	for k := range tx.Walk(bucket("sender"), nil, nil, false) {
		there(bucket("request"), keyOfRequest(record.ID(k[:16]), record.ID(k[16:32])), "a sender")
	}
	begun, err8 := collect(uploads, tx, nil)
	for i := range begun {
		u := &begun[i]
		there(bucket("user"), u.Owner[:], u.ID)
		if u.BySender() {
			there(bucket("request"), keyOfRequest(u.Owner, u.Request), u.ID)
			file(bucket("upload.secret"), u.Secret[:], ownedKey(u.Owner, u.ID[:]...))
		}
		if u.Done() || u.Joined() {
			continue
		}
		if u.Slug != "" {
			file(bucket("upload.slug"), []byte(u.Slug), ownedKey(u.Owner, u.ID[:]...))
		}
		if u.BySender() {
			to, by := byte('t'), byte('v')
			if u.Partial {
				to, by = 'w', 'x'
			}
			sums[string(ownedKey(u.Owner, append([]byte{0, to}, u.Request[:]...)...))]++
			sums[string(ownedKey(u.Owner, slices.Concat([]byte{0, by}, u.Request[:], u.From[:])...))]++
			sums[string(ownedKey(u.Owner, append([]byte{0, 'u'}, u.Request[:]...)...))] += u.Length
			sums[string(ownedKey(uuid.Nil, 0, 'u'))] += u.Length - u.Offset
		} else {
			sums[string(ownedKey(u.Owner, 0, 'p'))]++
		}
		sums[string(ownedKey(u.Owner, 0, 'r'))] += max(u.Length, u.Offset)
		sums[string(ownedKey(uuid.Nil, 0, 'r'))] += max(u.Length-u.Offset, 0)
	}
	fetched, err9 := collect(fetches, tx, nil)
	for i := range fetched {
		f := &fetched[i]
		there(bucket("user"), f.Owner[:], f.ID)
		part, at := byte('o'), f.Ended
		switch f.State {
		case record.FetchWaits:
			part, at = 'w', f.Due
		case record.FetchRuns:
			part, at = 'r', f.Created
			sums[string(ownedKey(f.Owner, 0, 'g'))] += max(f.Total, f.Bytes)
			sums[string(ownedKey(uuid.Nil, 0, 'g'))] += max(f.Total-f.Bytes, 0)
		}
		if part != 'o' && f.Slug != "" {
			file(bucket("upload.slug"), []byte(f.Slug), ownedKey(f.Owner, f.ID[:]...))
		}
		if (part == 'o') != f.Due.IsZero() && part != 'r' || (part == 'o') == f.Ended.IsZero() {
			say("remote upload %s is %s, due %s and ended %s", f.ID, f.State, f.Due, f.Ended)
		}
		file(bucket("fetch.line"), slices.Concat([]byte{part}, f.Owner[:], binary.BigEndian.AppendUint64(nil, signed(at)), f.ID[:]), nil)
	}
	known := 0
	for p, err := range pages.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		known++
		r, err := tx.Owned(p.Owner, record.Bookmarks, p.ID)
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
		for _, ix := range pages.Indexes {
			ix.Keys(p, func(e []byte) { file(ix.Bucket, e, nil) })
		}
		pages.Tally(p, func(k []byte, n int64) { sums[string(k)] += n })
	}
	if n := marked[record.Bookmarks]; n != known {
		say("%d bookmarks have %d pages", n, known)
	}
	for k, n := range sums {
		if n != 0 {
			file(bucket("sum"), []byte(k), binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
	}
	us, err := tx.Users()
	for i := range us {
		file(bucket("user.name"), []byte(record.Fold(us[i].Name)), us[i].ID[:])
	}
	ks, err2 := collect(keys, tx, nil)
	for i := range ks {
		file(bucket("key.digest"), ks[i].Digest[:], ownedKey(ks[i].Owner, ks[i].ID[:]...))
		there(bucket("user"), ks[i].Owner[:], ks[i].ID)
	}
	ts, err3 := collect(tags, tx, nil)
	for i := range ts {
		file(bucket("tag.name"), ownedNameKey(ts[i].Owner, ts[i].Name), ownedKey(ts[i].Owner, ts[i].ID[:]...))
		there(bucket("user"), ts[i].Owner[:], ts[i].ID)
	}
	fs, err4 := collect(folders, tx, nil)
	for i := range fs {
		file(bucket("folder.name"), ownedNameKey(fs[i].Owner, fs[i].Name), ownedKey(fs[i].Owner, fs[i].ID[:]...))
		there(bucket("user"), fs[i].Owner[:], fs[i].ID)
	}
	hs, err5 := collect(hooks, tx, nil)
	for i := range hs {
		there(bucket("user"), hs[i].Owner[:], hs[i].ID)
	}
	ds, err6 := collect(deliveries, tx, nil)
	lines, queued, notices := map[string]bool{}, map[string]int64{}, 0
	for i := range ds {
		d := &ds[i]
		there(bucket("webhook"), ownedKey(d.Owner, d.Hook[:]...), d.ID)
		there(bucket("notice"), ownedKey(d.Owner, d.ID[:]...), d.ID)
		told := string(slices.Concat(d.Owner[:], []byte{'n'}, d.ID[:]))
		if queued[told]++; queued[told] == 1 {
			notices++
		}
		if d.State != record.Waiting {
			file(bucket("delivery.log"), slices.Concat(d.Hook[:], []byte{0}, binary.BigEndian.AppendUint64(nil, signed(d.Noted)), d.ID[:]), nil)
			queued[string(ownedKey(d.Hook, 'l'))]++
			queued[string(ownedKey(d.Hook, 'L'))] += d.Size
			continue
		}
		queued[string(ownedKey(d.Hook, 'w'))]++
		queued[string(ownedKey(d.Hook, 'W'))] += d.Size
		file(bucket("delivery.log"), slices.Concat(d.Hook[:], []byte{2}, binary.BigEndian.AppendUint64(nil, signed(d.At)), d.ID[:]), nil)
		if !d.Noted.IsZero() {
			file(bucket("delivery.log"), slices.Concat(d.Hook[:], []byte{1}, binary.BigEndian.AppendUint64(nil, signed(d.Noted)), d.ID[:]), nil)
		}
		line := slices.Concat(d.Hook[:], d.Subject[:])
		file(bucket("delivery.line"), append(line, d.ID[:]...), nil)
		if first := !lines[string(line)]; first == d.Due.IsZero() { // ids are in order
			say("delivery %s: first of its subject %t, and due %s", d.ID, first, d.Due)
		}
		lines[string(line)] = true
		if !d.Due.IsZero() {
			file(bucket("delivery.due"), slices.Concat(d.Owner[:], d.Hook[:], binary.BigEndian.AppendUint64(nil, signed(d.Due)), d.ID[:], d.Subject[:]), nil)
		}
	}
	for key, n := range queued {
		file(bucket("delivery.sum"), []byte(key), binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	if n := tx.Count(bucket("notice")); n != notices {
		say("%d notices, and %d are told", n, notices)
	}
	for k := range tx.Walk(bucket("view"), nil, nil, false) {
		if !ids[record.ID(k)] {
			say("views of %x, which is not there", k)
		}
	}
	for k := range tx.Walk(bucket("blob.loose"), nil, nil, false) {
		if refs[[32]byte(k)] {
			say("content %x is loose and referred to", k)
		}
	}
	for k := range tx.Walk(bucket("answer"), nil, nil, false) {
		there(bucket("user"), k[:16], "an answer")
	}
	derived := []table.Bucket{bucket("upload.slug"), bucket("upload.secret"), bucket("fetch.line"), bucket("page.due"), bucket("record.end"), bucket("record.slug"), bucket("record.label"), bucket("record.order"), bucket("sum"), bucket("blob"), bucket("item.state"), bucket("item.blob"), bucket("user.name"), bucket("key.digest"), bucket("tag.name"), bucket("folder.name"), bucket("delivery.line"), bucket("delivery.due"), bucket("delivery.log"), bucket("delivery.sum")}
	n := 0
	for _, b := range derived {
		for k, v := range tx.Walk(b, nil, nil, false) {
			n++
			if w, ok := want[fmt.Sprintf("%s %x", b.Name, k)]; !ok || w != string(v) {
				say("%s %x=%x is stale", b.Name, k, v)
			}
		}
	}
	for k, v := range tx.Walk(bucket("change"), nil, nil, false) {
		if w, ok := want[fmt.Sprintf("%s %x", bucket("change").Name, k)]; ok && w == string(v) {
			n++
		} else if ok || tx.Get(bucket("record"), v) != nil {
			say("change %x=%x is stale", k, v)
		}
	}
	if n != len(want) {
		say("%d derived entries, want %d", n, len(want))
	}
	return errors.Join(append(errs, err, err2, err3, err4, err5, err6, err7, err8, err9)...)
}

// leftOver finds what names the account, the marks in the feed of changes
// aside.
func leftOver(tx *Tx, id record.ID) []string {
	var out []string
	for b := range All.Buckets().All() {
		for k, v := range tx.Walk(b, nil, nil, false) {
			if b != bucket("change") && (bytes.Contains(k, id[:]) || bytes.Contains(v, id[:]) || bytes.Contains(v, []byte(id.String()))) {
				out = append(out, fmt.Sprintf("%s %x", b.Name, k))
			}
		}
	}
	slices.Sort(out)
	return out
}

// deliveriesOf lists all deliveries of a webhook, oldest first.
func deliveriesOf(t testing.TB, tx *Tx, hook record.ID) []record.Delivery {
	t.Helper()
	all, err := collect(deliveries, tx, hook[:])
	if err != nil {
		t.Fatal(err)
	}
	return all
}
