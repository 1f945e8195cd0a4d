package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	bolt "go.etcd.io/bbolt"

	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/table"
)

// An Inspection is what the journal of a data directory holds, read into a
// working copy of its own. The directory itself is not changed, and a server
// may be running on it: what was acknowledged before Inspect began is seen.
type Inspection struct {
	journal.Replayed
	Entries int // keys of the store
	s       *Store
	path    string
}

// Inspect reads the journal of the data directory dir, the parts that a start
// would not need included, and writes a working copy into the folder scratch.
// read is told how many more bytes were read, problem what is wrong. The error
// is for what makes it impossible to go on; for a damaged journal the
// Inspection has what can be read.
func Inspect(dir, scratch string, read func(int64), problem func(error)) (*Inspection, error) {
	j, err := journal.Read(filepath.Join(dir, "journal"), Format)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &record.Error{Fault: record.Missing, Code: "not_found", Text: "There is no journal in " + dir + "."}
	}
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if empty, err := j.Empty(); err != nil || empty {
		return nil, errors.Join(err, fmt.Errorf("journal/ is empty in %s", dir))
	}
	told := map[string]bool{}
	once := func(err error) {
		if !told[err.Error()] {
			told[err.Error()] = true
			problem(err)
		}
	}
	if err := j.Check(read, once); err != nil {
		return nil, err
	}
	i := &Inspection{path: filepath.Join(scratch, "kist.db")}
	i.Replayed, i.Entries, err = rebuild(j, i.path, true, nil)
	whole := err == nil
	switch {
	case whole:
	case harmed(err):
		once(err)
	case noRoom(err):
		return nil, errors.Join(fmt.Errorf("there is no room left in %s, into which the journal is read (%w); make room there, or name another folder with --scratch", scratch, err), remove(i.path))
	default: // a newer format, or a failure of the system
		return nil, errors.Join(err, remove(i.path))
	}
	if whole {
		if err := lastRecord(dir, i.Replayed); err != nil {
			once(err)
		}
	}
	if clean, proven := readProof(dir); proven && whole && i.Seq < clean.Seq && clean.here(dir) {
		once(fmt.Errorf("journal/%s is damaged: it ends at record %d, and the last stop was at %d", clean.Log, i.Seq, clean.Seq))
	}
	db, err := openCopy(i.path)
	if err != nil {
		return nil, err
	}
	i.s = &Store{dir: dir, bolt: db, now: time.Now}
	i.s.callers.Store(new(sync.Map))
	i.s.tags.Store(new(sync.Map))
	if whole { // otherwise the secret may be among what cannot be read
		if err := i.s.belongs(db); err != nil {
			once(err)
		}
	}
	return i, nil
}

// View runs fn on what was read.
func (i *Inspection) View(fn func(*Tx) error) error { return i.s.View(fn) }

// Close removes the working copy.
func (i *Inspection) Close() error { return errors.Join(i.s.bolt.Close(), remove(i.path)) }

// Audit looks whether every row can be read, every entry that is derived from
// rows is there with the right value, and no other; and whether everything
// that is referred to is there.
func (tx *Tx) Audit(problem func(error)) error {
	say := func(format string, args ...any) { problem(fmt.Errorf(format, args...)) }
	there := func(b table.Bucket, key []byte, from string, id record.ID) {
		if tx.Get(b, key) == nil {
			say("%s %s refers to %s %x, which is not there", from, id, b.Name, key)
		}
	}
	owed := map[table.Bucket]int{}
	add := func(more map[table.Bucket]int) {
		for b, n := range more {
			owed[b] += n
		}
	}
	add(users.Check(tx.Tx, func(*record.User) {}, problem))
	add(keys.Check(tx.Tx, func(k *record.Key) { there(userBucket, k.Owner[:], "key", k.ID) }, problem))
	add(tags.Check(tx.Tx, func(t *record.Tag) { there(userBucket, t.Owner[:], "tag", t.ID) }, problem))
	add(folders.Check(tx.Tx, func(f *record.Folder) { there(userBucket, f.Owner[:], "folder", f.ID) }, problem))
	add(hooks.Check(tx.Tx, func(h *record.Webhook) { there(userBucket, h.Owner[:], "webhook", h.ID) }, problem))
	add(devices.Check(tx.Tx, func(*record.Device) {}, problem))
	add(uploads.Check(tx.Tx, func(u *Upload) {
		there(userBucket, u.Owner[:], "upload", u.ID)
		if u.BySender() {
			there(requestBucket, requestKey(u.Owner, u.Request), "upload", u.ID)
		}
	}, problem))
	add(fetches.Check(tx.Tx, func(f *record.Fetch) { there(userBucket, f.Owner[:], "remote upload", f.ID) }, problem))
	add(imports.Check(tx.Tx, func(i *record.Import) {
		there(userBucket, i.Owner[:], "import", i.ID)
		there(importRemarks, ownedKey(i.Owner, i.ID[:]...), "import", i.ID)
		owed[importRemarks]++
	}, problem))
	known := tx.format() >= pagesFormat
	add(pages.Check(tx.Tx, func(p *record.Page) {
		there(recordBucket, record.RowKey(p.Owner, record.Bookmarks, p.ID), "page", p.ID)
	}, problem))
	add(deliveries.Check(tx.Tx, func(d *record.Delivery) {
		there(hookBucket, ownedKey(d.Owner, d.Hook[:]...), "delivery", d.ID)
		there(noticeBucket, noticeKey(d), "delivery", d.ID)
		if tx.misplaced(d) {
			say("delivery %s is due, and another one about the same comes first; or it is not, and comes first", d.ID)
		}
	}, problem))
	for k, v := range tx.Walk(noticeBucket, nil, nil, false) {
		if err := json.Unmarshal(v, new(record.Notice)); err != nil {
			say("%s %x cannot be read: %w", noticeBucket.Name, k, err)
		}
		if len(k) != 32 || deliveries.Sum(tx.Tx, telling(record.ID(k[:16]), record.ID(k[16:]))) == 0 {
			say("%s %x is told by no delivery", noticeBucket.Name, k)
		}
	}
	counted := 0
	add(records.Check(tx.Tx, func(r *record.Record) {
		there(userBucket, r.Owner[:], r.Kind.Name, r.ID)
		for _, t := range r.Tags {
			there(tagBucket, ownedKey(r.Owner, t[:]...), r.Kind.Name, r.ID)
		}
		if r.Folder != uuid.Nil {
			there(folderBucket, ownedKey(r.Owner, r.Folder[:]...), r.Kind.Name, r.ID)
		}
		owed[recordOrder]++
		there(recordOrder, viewOrder(r, tx.views(r).total), r.Kind.Name, r.ID)
		if tx.Get(viewBucket, r.ID[:]) != nil {
			counted++
		}
		if r.Kind == record.Bookmarks && known {
			b, err := bookmark(r)
			p, err2 := pages.Get(tx.Tx, ownedKey(r.Owner, r.ID[:]...))
			if err != nil || err2 != nil || p.Key != record.PageKey(b.URL) {
				say("bookmark %s: what is known of its page is of another one, or is not there", r.ID)
			}
		}
		if r.Public && r.Reached {
			say("%s %s is public and used up", r.Kind.Name, r.ID)
		}
		if r.Bytes != nil && tx.Get(unreferencedBucket, r.Bytes.Ref[:]) != nil {
			say("%s %s has content that is marked as nobody's", r.Kind.Name, r.ID)
		}
	}, problem))
	tx.checkTexts(problem)
	add(requests.Check(tx.Tx, func(q *record.Request) {
		there(userBucket, q.Owner[:], "upload request", q.ID)
		if tx.Get(viewBucket, q.ID[:]) != nil {
			counted++
		}
	}, problem))
	add(items.Check(tx.Tx, func(i *record.Item) {
		there(requestBucket, requestKey(i.Owner, i.Request), "upload", i.ID)
		if i.State == record.Pending && tx.Get(unreferencedBucket, i.Ref[:]) != nil {
			say("upload %s has content that is marked as nobody's", i.ID)
		}
	}, problem))
	for _, k := range tx.Walk(changeBucket, nil, nil, false) {
		if tx.Get(recordBucket, k) == nil {
			owed[changeBucket]++ // the mark of a removal
		}
	}
	for b, n := range owed {
		if got := tx.Count(b); got != n {
			say("%s has %d entries and should have %d", b.Name, got, n)
		}
	}
	if n := tx.Count(viewBucket); n != counted {
		say("%d counters of views belong to no item", n-counted)
	}
	for k, v := range tx.Walk(metaBucket, metaTry, nil, false) {
		if _, _, ok := readTryRow(k, v, tx.Now); !ok {
			say("%s %x cannot be read", metaBucket.Name, k)
		}
	}
	for k := range tx.Walk(answerBucket, nil, nil, false) {
		there(userBucket, k[:16], "answer of", record.ID(k[:16]))
	}
	for k := range tx.Walk(senderBucket, nil, nil, false) {
		there(requestBucket, requestKey(record.ID(k[:16]), record.ID(k[16:32])), "sender of", record.ID(k[16:32]))
	}
	return nil
}

// Contents yields each content that records or pending uploads have, once, in
// the order of their refs, and its size in bytes.
func (tx *Tx) Contents() iter.Seq2[[32]byte, int64] { return tx.ContentsAfter(nil) }

// ContentsAfter is Contents of the refs that come after one; of all if that is
// nil.
func (tx *Tx) ContentsAfter(ref []byte) iter.Seq2[[32]byte, int64] {
	return func(yield func([32]byte, int64) bool) {
		first := func(b table.Bucket, past []byte) []byte {
			for k := range tx.Walk(b, nil, past, false) {
				if len(k) >= 32 {
					return bytes.Clone(k)
				}
			}
			return nil
		}
		past, more := following(ref)
		file, item := first(blobBucket, past), first(itemBlob, past)
		for more && (file != nil || item != nil) {
			key := file
			if key == nil || item != nil && bytes.Compare(item[:32], key[:32]) < 0 {
				key = item
			}
			at := [32]byte(key)
			size, known := int64(0), false // Audit tells of rows that cannot be read
			if file != nil && [32]byte(file) == at {
				if r, err := records.Get(tx.Tx, file[32:]); err == nil && r.Bytes != nil {
					size, known = r.Bytes.Size, true
				}
			} else if i, err := items.Get(tx.Tx, item[32:]); err == nil {
				size, known = i.Size, true
			}
			if known && !yield(at, size) {
				return
			}
			past, more = following(at[:])
			if file != nil && [32]byte(file) == at {
				file = first(blobBucket, past)
			}
			if item != nil && [32]byte(item) == at {
				item = first(itemBlob, past)
			}
		}
	}
}

// following is the ref after one; there is none after the last.
func following(ref []byte) (next []byte, found bool) {
	next = bytes.Clone(ref)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next, true
		}
	}
	return next, ref == nil
}

// A Holder is a file, or an upload that waits for approval.
type Holder struct {
	ID    record.ID
	Name  string // empty if it cannot be read
	Owner record.ID
}

// Having lists what has the content.
func (tx *Tx) Having(ref [32]byte) []Holder {
	var all []Holder
	for k := range tx.Walk(blobBucket, ref[:], nil, false) {
		if r, err := records.Get(tx.Tx, k[32:]); err == nil {
			name := ""
			if b, err := r.Decode(); err == nil {
				name = b.Title()
			}
			all = append(all, Holder{r.ID, name, r.Owner})
		}
	}
	for k := range tx.Walk(itemBlob, ref[:], nil, false) {
		if i, err := items.Get(tx.Tx, k[32:]); err == nil {
			all = append(all, Holder{i.ID, i.Name, i.Owner})
		}
	}
	return all
}

// Holders is which files, and uploads that wait for approval, have which
// content, by bucket and key: what a journal holds tells it to Begin and Note
// when they are given to its Replay. It takes about 200 bytes of memory a file.
type Holders map[string]struct{}

// Begin forgets what was noted.
func (h Holders) Begin() error { clear(h); return nil }

// Note takes up the next of what a journal holds.
func (h Holders) Note(ops []journal.Op) error {
	for _, op := range ops {
		if op.Bucket != blobBucket.No && op.Bucket != itemBlob.No || len(op.Key) < 32 {
			continue
		}
		key := string(append([]byte{op.Bucket}, op.Key...))
		if op.Value == nil {
			delete(h, key)
		} else {
			h[key] = struct{}{}
		}
	}
	return nil
}

// Refs yields the content of each holder, in no order; one that several have
// comes several times.
func (h Holders) Refs() iter.Seq[[32]byte] {
	return func(yield func([32]byte) bool) {
		for key := range h {
			if !yield([32]byte([]byte(key[1:]))) {
				return
			}
		}
	}
}

// CheckCopy looks at the working copy of the running store: whether its pages
// are sound and it holds what the journal says.
func (s *Store) CheckCopy(problem func(error)) error {
	var at journal.State
	var tx *bolt.Tx
	if err := s.between(func() (err error) {
		at = s.state
		tx, err = s.bolt.Begin(false)
		return err
	}); err != nil {
		return err
	}
	err := checkCopy(tx, at, problem)
	return errors.Join(err, tx.Rollback())
}

func checkCopy(tx *bolt.Tx, at journal.State, problem func(error)) error {
	sound := true
	for err := range tx.Check() {
		sound = false
		problem(fmt.Errorf("cache/kist.db: %w", err))
	}
	if !sound {
		return nil
	}
	var digest journal.Digest
	var scratch []byte
	for op := range everything(tx) {
		scratch = digest.Add(op, scratch)
	}
	if digest != at.Digest {
		problem(fmt.Errorf("cache/kist.db has the digest %016x, and should have %016x", uint64(digest), uint64(at.Digest)))
	}
	return nil
}

// rederive copies the rows of a store into an empty one, and what is derived
// from them is worked out again.
func rederive(from, to *bolt.DB, lost func(error)) error {
	return from.View(func(old *bolt.Tx) error {
		b, err := to.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = b.Rollback() }() // after a commit there is nothing to roll back
		if err := table.Create(b, buckets); err != nil {
			return err
		}
		before, tx := &Tx{Tx: table.On(old)}, &Tx{Tx: table.On(b)}
		renew := func() error {
			if err := tx.Flush(); err != nil {
				return err
			}
			if err := b.Commit(); err != nil {
				return err
			}
			if b, err = to.Begin(true); err != nil {
				return err
			}
			tx.Tx = table.On(b)
			return nil
		}
		for _, raw := range []table.Bucket{metaBucket, unreferencedBucket, answerBucket, spentBucket, senderBucket, importRemarks} {
			for k, v := range before.Walk(raw, nil, nil, false) {
				if raw == metaBucket && bytes.HasPrefix(k, metaText) { // derived from rows
					continue
				}
				if err := tx.Load(raw, bytes.Clone(k), bytes.Clone(v)); err != nil {
					return err
				}
			}
		}
		err = errors.Join(
			refill(users, before, tx, lost, renew, nil), refill(keys, before, tx, lost, renew, nil), refill(tags, before, tx, lost, renew, nil),
			refill(folders, before, tx, lost, renew, nil), refill(hooks, before, tx, lost, renew, nil), refill(devices, before, tx, lost, renew, nil),
			refill(fetches, before, tx, lost, renew, nil),
			refill(imports, before, tx, lost, renew, nil),
			refill(deliveries, before, tx, lost, renew, func(d *record.Delivery) error {
				notice := before.Get(noticeBucket, noticeKey(d))
				if notice == nil || tx.Get(hookBucket, ownedKey(d.Owner, d.Hook[:]...)) == nil {
					lost(fmt.Errorf("delivery %s: its webhook, or what it tells, is not there", d.ID))
					_, err := deliveries.Delete(tx.Tx, ownedKey(d.Hook, d.ID[:]...))
					return err
				}
				return tx.Put(noticeBucket, noticeKey(d), bytes.Clone(notice))
			}),
			realign(tx, renew),
			refill(records, before, tx, lost, renew, func(r *record.Record) error {
				if r.Bytes != nil {
					if err := tx.Delete(unreferencedBucket, r.Bytes.Ref[:]); err != nil {
						return err
					}
				}
				if n := before.Get(viewBucket, r.ID[:]); n != nil {
					if err := tx.Put(viewBucket, append([]byte{}, r.ID[:]...), bytes.Clone(n)); err != nil {
						return err
					}
				}
				if r.Kind == record.Bookmarks {
					if err := repairPage(before, tx, r); err != nil {
						return err
					}
				}
				return tx.Put(recordOrder, viewOrder(r, before.views(r).total), nil)
			}),
			refill(requests, before, tx, lost, renew, func(q *record.Request) error {
				if n := before.Get(viewBucket, q.ID[:]); n != nil {
					return tx.Put(viewBucket, bytes.Clone(q.ID[:]), bytes.Clone(n))
				}
				return nil
			}),
			refill(items, before, tx, lost, renew, func(i *record.Item) error {
				if i.State != record.Pending {
					return nil
				}
				return tx.Delete(unreferencedBucket, bytes.Clone(i.Ref[:]))
			}),
			refill(uploads, before, tx, lost, renew, func(u *Upload) error {
				if !u.BySender() || tx.Get(requestBucket, requestKey(u.Owner, u.Request)) != nil {
					return nil
				}
				lost(fmt.Errorf("upload %s: its upload request is not there", u.ID))
				_, err := uploads.Delete(tx.Tx, uploads.Key(u))
				return err
			}),
		)
		latest := uint64(0)
		for k, v := range before.Walk(changeBucket, nil, nil, false) {
			if len(k) == 8 {
				latest = max(latest, binary.BigEndian.Uint64(k))
			}
			if tx.Get(recordBucket, v) == nil { // the mark of a removal
				err = errors.Join(err, tx.Load(changeBucket, bytes.Clone(k), bytes.Clone(v)))
			}
		}
		if v := tx.Get(metaBucket, metaSeq); len(v) != 8 || binary.BigEndian.Uint64(v) < latest {
			err = errors.Join(err, tx.Put(metaBucket, metaSeq, binary.BigEndian.AppendUint64(nil, latest)))
		}
		if v := tx.Get(metaBucket, metaSeq); v != nil {
			err = errors.Join(err, tx.Put(metaBucket, metaTexts, textsMark(v, tx.Get(metaBucket, metaInstant))))
		}
		if err = errors.Join(err, markAllUnreferenced(tx), tx.Flush()); err != nil {
			return err
		}
		return b.Commit()
	})
}

// refillBatch is how many rows go into a transaction: bbolt's cost grows with
// the square of what is added to a page in one.
const refillBatch = 1000

// refill puts the rows of a table that can be read into an empty one. renew
// ends the transaction and begins another.
func refill[T any](t *table.Table[T], before, tx *Tx, lost func(error), renew func() error, also func(*T) error) error {
	n := 0
	for v, err := range t.All(before.Tx, nil) {
		if n++; n%refillBatch == 0 {
			if err := renew(); err != nil {
				return err
			}
		}
		if err != nil {
			lost(fmt.Errorf("%s: a row cannot be read: %w", t.Rows.Name, err))
			continue
		}
		if err := mend(tx, v, lost); err != nil {
			return err
		}
		err := t.Put(tx.Tx, v)
		if errors.As(err, new(*table.Taken)) {
			renamed, failed := rename(tx, v, lost)
			if failed != nil {
				return failed
			}
			if renamed {
				err = t.Put(tx.Tx, v)
			}
		}
		if errors.As(err, new(*table.Taken)) {
			lost(fmt.Errorf("%s: a row has the name of another: %w", t.Rows.Name, err))
			continue
		}
		if err == nil && also != nil {
			err = also(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// realign makes due the first delivery of each subject, and no other: those
// before it may be lost.
func realign(tx *Tx, renew func() error) error {
	var wrong [][]byte
	for d, err := range deliveries.All(tx.Tx, nil) {
		if err == nil && tx.misplaced(d) {
			wrong = append(wrong, deliveries.Key(d))
		}
	}
	for i, key := range wrong {
		d, err := deliveries.Get(tx.Tx, key)
		if err != nil {
			return err
		}
		if d.Due.IsZero() {
			d.Due = d.At
		} else {
			d.Due = time.Time{}
		}
		if err := deliveries.Put(tx.Tx, d); err != nil {
			return err
		}
		if i%refillBatch == refillBatch-1 {
			if err := renew(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Origin says which store a journal is of, and how far it goes. The instance
// is the same for a store, its copies and what is restored of them.
func Origin(dir string) (instance string, seq uint64, err error) {
	j, err := journal.Read(filepath.Join(dir, "journal"), Format)
	if err != nil {
		return "", 0, err
	}
	var secret []byte
	done, err := j.Replay(func() error { secret = nil; return nil }, func(ops []journal.Op) error {
		for _, op := range ops {
			if op.Bucket == metaBucket.No && bytes.Equal(op.Key, metaSecret) {
				secret = bytes.Clone(op.Value)
			}
		}
		return nil
	})
	return instanceOf(secret), done.Seq, errors.Join(err, j.Close())
}
