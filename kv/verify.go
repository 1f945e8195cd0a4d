package kv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/blobs"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// An Inspection is the contents of a data directory's journal, read into a separate
// working copy. The directory itself is not changed, and a server may be running on
// it. An Inspection sees everything acknowledged before Inspect began.
type Inspection struct {
	journal.Replayed
	Entries int // number of keys in the store
	s       *Store
	path    string
}

// Inspect reads the whole journal of the data directory dir, including parts that a
// start would not need, and writes a working copy into the folder scratch. It calls
// read with the number of further bytes read, and problem with each problem. It fails
// only if it cannot continue. For a damaged journal the Inspection has everything
// readable.
func (schema *Schema) Inspect(dir, scratch string, read func(int64), problem func(error)) (*Inspection, error) {
	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
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
	i.Replayed, i.Entries, err = workcopy.Rebuild(j, i.path, schema.Buckets(), true, nil)
	whole := err == nil
	switch {
	case whole:
	case workcopy.Harmed(err):
		once(err)
	case workcopy.NoRoom(err):
		full := fmt.Errorf("there is no room left in %s to read the journal (%w); "+
			"make room there, or name another folder with --scratch", scratch, err)
		return nil, errors.Join(full, workcopy.Remove(i.path))
	default: // a newer format, or a failure of the system
		return nil, errors.Join(err, workcopy.Remove(i.path))
	}

	if whole {
		if err := lastRecord(dir, schema.Buckets(), i.Replayed); err != nil {
			once(err)
		}
	}
	if clean, proven := datadir.ReadProof(dir); proven && whole && i.Seq < clean.Seq && clean.Here(dir) {
		once(fmt.Errorf("journal/%s is damaged: it ends at record %d, and the last stop was at %d",
			clean.Log, i.Seq, clean.Seq))
	}

	db, err := workcopy.OpenCopy(i.path)
	if err != nil {
		return nil, err
	}
	i.s = &Store{dir: dir, schema: schema}
	i.s.bolt = db
	i.s.clock.now = time.Now
	i.s.behind.start(i.s)
	if whole { // otherwise the secret may be in an unreadable part
		if err := copyBelongs(i.s.dir, db); err != nil {
			once(err)
		}
	}
	return i, nil
}

// View runs fn on the inspected data.
func (i *Inspection) View(fn func(*Tx) error) error { return i.s.View(fn) }

// Close removes the working copy.
func (i *Inspection) Close() error {
	return errors.Join(i.s.bolt.Close(), workcopy.Remove(i.path))
}

// An Audit is the argument of a table's Check function.
type Audit struct {
	*Tx
	Problem func(error)
	Owed    map[table.Bucket]int // how many entries each bucket should have
}

// Say reports a problem.
func (a *Audit) Say(format string, args ...any) { a.Problem(fmt.Errorf(format, args...)) }

// Refers reports a problem if the target of a row's reference does not exist.
func (a *Audit) Refers(b table.Bucket, key []byte, from string, id record.ID) {
	if a.Get(b, key) == nil {
		a.Say("%s %s refers to %s %x, which is not there", from, id, b.Name, key)
	}
}

// Owe notes that a bucket should have n more entries.
func (a *Audit) Owe(b table.Bucket, n int) { a.Owed[b] += n }

// CheckRows is the Check function of a table. It calls each, if not nil, with every
// readable row.
func CheckRows[T any](t *table.Table[T], each func(*Audit, *T)) func(*Audit) {
	return func(a *Audit) {
		for b, n := range t.Check(a.Tx.Tx, a.Format(), func(v *T) {
			if each != nil {
				each(a, v)
			}
		}, a.Problem) {
			a.Owe(b, n)
		}
	}
}

// Audit checks that every row can be read, that the entries derived from rows are
// complete and correct with no others, and that every reference has a target.
func (tx *Tx) Audit(problem func(error)) {
	a := &Audit{tx, problem, map[table.Bucket]int{}}
	for _, t := range tx.s.schema.Tables {
		if t.Check != nil {
			t.Check(a)
		}
	}
	tx.checkTexts(problem)
	for b, n := range a.Owed {
		if got := tx.Count(b); got != n {
			a.Say("%s has %d entries and should have %d", b.Name, got, n)
		}
	}
}

// A ContentIndex finds the rows of a table by their contents.
type ContentIndex struct {
	Bucket table.Bucket // its keys are the SHA-256 of a content and the key of a row
	// Size returns how many bytes of content the row with the key has. Holder
	// describes the row to users. They find nothing in an unreadable row.
	Size   func(tx *Tx, key []byte) (size int64, found bool)
	Holder func(tx *Tx, key []byte) (h Holder, found bool)
}

// IndexContents returns the ContentIndex of a table. size returns less than 0 for a
// row without content.
func IndexContents[T any](
	b table.Bucket, t *table.Table[T], size func(*T) int64, holder func(*T) Holder,
) *ContentIndex {
	return &ContentIndex{
		Bucket: b,
		Size: func(tx *Tx, key []byte) (n int64, found bool) {
			v, err := t.Get(tx.Tx, key)
			if err != nil {
				return 0, false
			}
			return size(v), size(v) >= 0
		},
		Holder: func(tx *Tx, key []byte) (h Holder, found bool) {
			v, err := t.Get(tx.Tx, key)
			if err != nil {
				return h, false
			}
			return holder(v), true
		},
	}
}

// Contents returns the ContentIndexes of all tables.
func (schema *Schema) Contents() (all []*ContentIndex) {
	for _, t := range schema.Tables {
		if t.Contents != nil {
			all = append(all, t.Contents)
		}
	}
	return all
}

// indexed says which buckets are those of ContentIndexes.
func (schema *Schema) indexed() (of [table.MaxBucket + 1]bool) {
	for _, ix := range schema.Contents() {
		of[ix.Bucket.No] = true
	}
	return of
}

// Refers returns a function that finds the content that an operation adds a reference to.
func (schema *Schema) Refers() func(journal.Op) (ref blobs.Ref, adds bool) {
	of := schema.indexed()
	return func(op journal.Op) (ref blobs.Ref, adds bool) {
		adds = op.Value != nil && int(op.Bucket) < len(of) && of[op.Bucket] && copy(ref[:], op.Key) == len(ref)
		return ref, adds
	}
}

// Contents yields each content of records and pending uploads once, in the order of
// their refs, with its size in bytes.
func (tx *Tx) Contents() iter.Seq2[[32]byte, int64] { return tx.ContentsAfter(nil) }

// ContentsAfter is Contents for the refs after ref; for all if ref is nil.
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
		all := tx.s.schema.Contents()
		heads := make([][]byte, len(all)) // the next key of each
		for i, ix := range all {
			heads[i] = first(ix.Bucket, past)
		}
		for more {
			next := -1
			for i, k := range heads {
				if k != nil && (next < 0 || bytes.Compare(k[:32], heads[next][:32]) < 0) {
					next = i
				}
			}
			if next < 0 {
				return
			}
			at := [32]byte(heads[next])
			if size, found := all[next].Size(tx, heads[next][32:]); found && !yield(at, size) { // Audit reports unreadable rows
				return
			}
			past, more = following(at[:])
			for i, k := range heads {
				if k != nil && [32]byte(k) == at {
					heads[i] = first(all[i].Bucket, past)
				}
			}
		}
	}
}

// following returns the ref after ref. found is false after the last one.
func following(ref []byte) (next []byte, found bool) {
	next = bytes.Clone(ref)
	for i := len(next) - 1; i >= 0; i-- {
		next[i]++
		if next[i] != 0 {
			return next, true
		}
	}
	return next, ref == nil
}

// A Holder is a file, or an upload waiting for approval.
type Holder struct {
	ID    record.ID
	Name  string // empty if it cannot be read
	Owner record.ID
}

// Having lists the holders of the content.
func (tx *Tx) Having(ref [32]byte) []Holder {
	var all []Holder
	for _, ix := range tx.s.schema.Contents() {
		for k := range tx.Walk(ix.Bucket, ref[:], nil, false) {
			if h, found := ix.Holder(tx, k[32:]); found {
				all = append(all, h)
			}
		}
	}
	return all
}

// Holders tracks which files and uploads waiting for approval have which content, by
// bucket and key. Pass Begin and Note to Replay of a journal. It takes about 200 bytes
// of memory for each file.
type Holders struct {
	of   [table.MaxBucket + 1]bool // the buckets of all ContentIndexes
	rows map[string]struct{}
}

// Holders returns an empty Holders, to follow a journal from its beginning.
func (schema *Schema) Holders() *Holders {
	return &Holders{schema.indexed(), map[string]struct{}{}}
}

// Begin forgets what was noted.
func (h *Holders) Begin() error { clear(h.rows); return nil }

// Note takes the next operations of the journal.
func (h *Holders) Note(ops []journal.Op) error {
	for _, op := range ops {
		if int(op.Bucket) >= len(h.of) || !h.of[op.Bucket] || len(op.Key) < 32 {
			continue
		}
		key := string(append([]byte{op.Bucket}, op.Key...))
		if op.Value == nil {
			delete(h.rows, key)
		} else {
			h.rows[key] = struct{}{}
		}
	}
	return nil
}

// Len returns how many holders there are.
func (h *Holders) Len() int { return len(h.rows) }

// Refs yields the content of each holder in no particular order. It yields a content
// once for each of its holders.
func (h *Holders) Refs() iter.Seq[[32]byte] {
	return func(yield func([32]byte) bool) {
		for key := range h.rows {
			if !yield([32]byte([]byte(key[1:]))) {
				return
			}
		}
	}
}

// CheckCopy checks the working copy of the running store: whether its pages are sound
// and its contents are those of the journal. While it looks at the pages, commits stay
// in memory; writers wait if there are too many.
func (s *Store) CheckCopy(problem func(error)) error {
	var at journal.State
	var tx, writer *bolt.Tx
	err := s.between(func() (err error) {
		if err := s.behind.drain(); err != nil {
			return err
		}
		at = s.state
		tx, err = s.bolt.Begin(false)
		if err != nil {
			return err
		}
		writer, err = s.bolt.Begin(true) // bbolt's check must not run beside a writer
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return nil
	})
	if err != nil {
		return err
	}

	sound := true
	for err := range writer.Check() {
		sound = false
		problem(fmt.Errorf("cache/kist.db: %w", err))
	}
	if err := writer.Rollback(); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if sound {
		checkContents(tx, s.buckets, at, problem)
	}
	return tx.Rollback()
}

func checkContents(tx *bolt.Tx, buckets *table.Buckets, at journal.State, problem func(error)) {
	var digest journal.Digest
	var scratch []byte
	for op := range workcopy.Everything(table.On(tx, 0), buckets) {
		scratch = digest.Add(op, scratch)
	}
	if digest != at.Digest {
		problem(fmt.Errorf("cache/kist.db has the digest %016x but should have %016x", uint64(digest), uint64(at.Digest)))
	}
}

// Origin returns the instance that a journal belongs to and its last record. A store,
// its copies and anything restored from them have the same instance.
func Origin(dir string) (instance string, seq uint64, err error) {
	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	if err != nil {
		return "", 0, err
	}
	var secret []byte
	done, err := j.Replay(func() error { secret = nil; return nil }, func(ops []journal.Op) error {
		for _, op := range ops {
			if op.Bucket == workcopy.MetaBucket.No && bytes.Equal(op.Key, MetaSecret) {
				secret = bytes.Clone(op.Value)
			}
		}
		return nil
	})
	return datadir.InstanceOf(secret), done.Seq, errors.Join(err, j.Close())
}
