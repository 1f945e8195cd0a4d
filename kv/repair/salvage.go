// Package repair makes a new journal from the readable parts of a damaged one.
package repair

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// RepairOptions configure Repair.
type RepairOptions struct {
	Schema *kv.Schema // defines what is stored; required
	DryRun bool       // change nothing
	// Unproven uses a fully readable working copy even if no digest proves it.
	Unproven bool
	// Scratch is the folder where a dry run works and removes the remains of killed
	// ones; the system's folder for temporary files if empty.
	Scratch string
	// Look is called at the end of a dry run with the report and a folder that has the
	// new journal, and in contents the small files that a repair would write to blobs.
	Look func(r *Repaired, rebuilt string) error

	// For tests.
	env     []string           // further environment variables of the process that reads the working copy
	timeout time.Duration      // for reading the working copy; 0 means the default
	step    func(string) error // called before each step that changes the data directory
}

// Repaired reports what a repair did or would do.
type Repaired struct {
	From    string         `json:"from"`    // the source of the new journal
	Seq     uint64         `json:"seq"`     // the last commit in the new journal
	Missing uint64         `json:"missing"` // number of lost commits
	Gaps    []journal.Span `json:"gaps"`    // which commits are lost
	// Partial says that an unknown amount of further data is lost.
	Partial bool     `json:"partial"`
	Damage  []string `json:"damage"` // what is damaged, missing or not a file
	// Touched are items that lost commits changed or made, at most mostTouched;
	// TouchedTotal is how many are known.
	Touched      []kv.Touched `json:"touched"`
	TouchedTotal int          `json:"touchedTotal"`
	Changes      uint64       `json:"changes"` // how many changes of items the lost commits made at most
	Lost         []string     `json:"lost"`    // what could not be copied, and the changes made because of that
	Unknown      []string     `json:"unknown"` // what cannot be known
	Aside        string       `json:"aside,omitempty"`
	// Earlier are the folders of earlier repairs that lost something. The file
	// report.json in each says what was lost.
	Earlier []string `json:"earlier,omitempty"`
}

const mostTouched = 100

// Whole reports whether nothing was lost in this repair or in an earlier one whose
// folder still exists.
func (r *Repaired) Whole() bool { return r.complete() && len(r.Earlier) == 0 }

// complete reports whether this repair lost nothing.
func (r *Repaired) complete() bool { return r.Missing == 0 && !r.Partial && len(r.Lost) == 0 }

// reportName is the file beside the replaced files that holds the repair's Repaired as
// JSON. A repair may be killed before anyone has read its output.
const reportName = "report.json"

// Repair rebuilds the journal of a data directory from the best source: the working
// copy if its digest proves its state, or else the newest whole snapshot. To that it
// adds every later record that is whole, whatever is damaged before it. It derives
// indexes and counters from the rows again and keeps the replaced files in a separate
// folder. The next repair redoes or finishes an interrupted one. No store may be open
// on the directory.
func Repair(dir string, o RepairOptions) (_ *Repaired, err error) {
	if err := workcopy.Readable(dir); err != nil {
		return nil, err
	}
	release, err := hold(dir, o.DryRun)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()

	if err := putBack(dir, o.DryRun); err != nil {
		return nil, err
	}
	if o.DryRun {
		return o.dryRun(dir)
	}
	now := time.Now().UTC().Format(datadir.RepairTime)
	scratch := filepath.Join(dir, datadir.RepairPrefix+now)
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	r, err := o.build(dir, scratch)
	if err != nil {
		return r, errors.Join(err, os.RemoveAll(scratch))
	}
	r.Aside = datadir.AsidePrefix + now
	if err := redo(dir, filepath.Join(scratch, "contents")); err != nil {
		return r, errors.Join(err, os.RemoveAll(scratch))
	}
	if err := o.replace(dir, scratch, r); err != nil {
		return nil, err
	}
	return r, nil
}

// dryRun makes the new journal in a temporary folder, where Look may look at it.
func (o *RepairOptions) dryRun(dir string) (r *Repaired, err error) {
	work, err := disk.NewScratch(cmp.Or(o.Scratch, os.TempDir()), datadir.DryPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot make a temporary folder (%w); name another folder with --scratch", err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()

	r, err = o.build(dir, work.Path)
	if err != nil || o.Look == nil {
		return r, err
	}
	return r, o.Look(r, work.Path)
}

// saveCarried writes the contents that the journal carries to a folder, also those whose
// files in blobs/ are right: only the system's cache may have them.
func saveCarried(folder string, survey *journal.Survey) error {
	var to *blobs.Store
	err := survey.Records(workcopy.Carried(func(ref [32]byte, b []byte) (err error) {
		if to == nil {
			to, err = blobs.Open(folder)
			if err != nil {
				return err
			}
		}
		return to.Redo(ref, b)
	}))
	if to != nil {
		err = errors.Join(err, to.Close())
	}
	return err
}

// redo puts what saveCarried has written into blobs/ and syncs it.
func redo(dir, folder string) error {
	from, err := blobs.Read(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := blobs.OpenIn(dir)
	if err != nil {
		return err
	}
	return errors.Join(redoAll(from, to), to.Close())
}

func redoAll(from, to *blobs.Store) error {
	for info, err := range from.All() {
		if err != nil {
			return err
		}
		b, err := from.Head(info.Ref, blobs.SmallContent)
		if err != nil {
			return err
		}
		if err := to.Redo(info.Ref, b); err != nil {
			return err
		}
	}
	return nil
}

// lossyRepairs lists the folders of repairs that lost something.
func lossyRepairs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), datadir.AsidePrefix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), reportName))
		if errors.Is(err, fs.ErrNotExist) {
			continue // an earlier version made the folder
		}
		var r Repaired
		if err != nil || json.Unmarshal(text, &r) != nil || !r.complete() { // an unreadable report may be about a loss
			all = append(all, e.Name())
		}
	}
	return all, nil
}

// writeReport writes the report beside the replaced files and syncs it.
func writeReport(folder string, r *Repaired) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, reportName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// hold keeps others out of the data directory. If dry is true, it leaves the lock file
// as it is.
func hold(dir string, dry bool) (release func() error, err error) {
	path := filepath.Join(dir, "LOCK")
	if !dry {
		l, err := datadir.Acquire(path)
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return func() error { return nil }, nil // no server runs on a file system that is not writable
	}
	if err != nil {
		return nil, err
	}
	if err := disk.TryLock(f); err != nil {
		pid := datadir.Holder(f)
		if err := f.Close(); err != nil {
			return nil, err
		}
		return nil, &datadir.InUse{PID: pid}
	}
	return f.Close, nil
}

// build makes the new journal in the folder scratch.
func (o *RepairOptions) build(dir, scratch string) (_ *Repaired, err error) {
	b := &rebuild{RepairOptions: o, dir: dir, scratch: scratch, copied: filepath.Join(scratch, "copy")}
	b.report = &Repaired{
		Gaps: []journal.Span{}, Damage: []string{}, Touched: []kv.Touched{}, Lost: []string{}, Unknown: []string{},
	}
	b.report.Earlier, err = lossyRepairs(dir)
	if err != nil {
		return nil, err
	}

	if err := b.readCopy(); err != nil {
		return nil, err
	}
	j, err := b.openJournal()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := b.look(j); err != nil {
		return nil, err
	}

	if err := b.choose(); err != nil {
		return nil, err
	}
	s, err := b.salvage()
	if err != nil {
		return nil, err
	}
	if err := b.judge(s); err != nil {
		return nil, err
	}

	if err := saveCarried(filepath.Join(scratch, "contents"), b.survey); err != nil {
		return nil, err
	}
	return b.report, b.rewrite(s)
}

// rebuild is one call of build. Each step sets what the steps after it use.
type rebuild struct {
	*RepairOptions
	dir, scratch string
	report       *Repaired

	// Set by readCopy.
	copied    string         // a journal with what could be read of the working copy
	digest    journal.Digest // of the working copy
	torn      error          // why the working copy cannot be read in full; nil if it can
	clean     datadir.Proof  // of the last stop
	certified bool           // there is one

	// Set by look.
	survey *journal.Survey // of the journal

	// Set by choose.
	from   *uint64 // the commit of the working copy that the new journal begins with; nil for none
	proven bool    // a digest proves that

	// Set by salvage and judge.
	done journal.Salvaged
	last uint64 // the last commit that there was, as far as is known
}

// unknown notes something that cannot be known.
func (b *rebuild) unknown(format string, args ...any) {
	b.report.Unknown = append(b.report.Unknown, fmt.Sprintf(format, args...))
}

// readCopy reads the working copy and the proof of the last stop.
func (b *rebuild) readCopy() error {
	reader := workcopy.CopyReader{Buckets: b.Schema.Buckets(), Env: b.env, Timeout: b.timeout}
	b.digest, b.torn = reader.Read(filepath.Join(b.dir, "cache", "kist.db"), b.copied)
	if workcopy.NoRoom(b.torn) { // going on without the copy might lose more than necessary
		return fmt.Errorf("%w. Nothing was changed. Make room there, "+
			"or name another folder with --scratch for a dry run", b.torn)
	}
	b.clean, b.certified = datadir.ReadProof(b.dir)
	return nil
}

// openJournal opens the journal. Without one it opens an empty folder, which means the same.
func (b *rebuild) openJournal() (*journal.Journal, error) {
	j, err := journal.Read(filepath.Join(b.dir, "journal"), workcopy.Format)
	if !errors.Is(err, fs.ErrNotExist) {
		return j, err
	}
	none := filepath.Join(b.scratch, "none")
	if err := os.Mkdir(none, 0o700); err != nil {
		return nil, err
	}
	return journal.Read(none, workcopy.Format)
}

// look finds out what the journal has, and reports its damage.
func (b *rebuild) look(j *journal.Journal) error {
	empty, err := j.Empty()
	if err != nil {
		return err
	}
	b.survey, err = j.Survey(b.digest, func(int64) {})
	if err != nil {
		return err
	}

	r := b.report
	for _, harm := range b.survey.Harm {
		r.Damage = append(r.Damage, harm.Error())
	}
	if b.survey.More > 0 {
		r.Damage = append(r.Damage, fmt.Sprintf("… and %d more places", b.survey.More))
	}
	if empty {
		r.Damage = append(r.Damage, "journal/ is empty or missing")
	}
	if b.torn != nil && !errors.Is(b.torn, fs.ErrNotExist) {
		r.Damage = append(r.Damage, b.torn.Error())
	}
	return nil
}

// choose decides what the new journal begins with: the working copy, or what the old journal has.
func (b *rebuild) choose() error {
	if b.torn == nil {
		b.placeCopy()
	}
	if base, whole := b.survey.Best(); b.from != nil && whole && base > *b.from {
		b.from = nil
	}
	if b.from != nil || b.survey.Last() > 0 {
		return nil
	}
	if b.torn == nil {
		return errors.New("nothing in journal/ can be read. cache/kist.db can be read in full, " +
			"but nothing proves that it is whole or the latest state; to make the journal from it, " +
			"run kist verify --repair --unproven-copy, or restore a backup (nothing was changed)")
	}
	return errors.New("nothing can be read in journal/ or in the working copy; " +
		"restore a backup (nothing was changed)")
}

// placeCopy finds the commit of a working copy that can be read in full.
func (b *rebuild) placeCopy() {
	like := b.survey.Like
	// CLEAN is removed before the next record is written. A journal with more
	// records is from another time or another store.
	if b.certified && b.clean.Digest == b.digest && b.survey.Last() <= b.clean.Seq {
		like = append(like, b.clean.Seq)
	}
	switch {
	case len(like) > 0:
		at := slices.Max(like)
		b.from, b.proven = &at, true
	case b.Unproven:
		at := max(b.survey.Reached, b.survey.Last(), 1)
		b.from = &at
		b.unknown("the working copy was used as you asked, " +
			"although nothing proves that it is whole or the latest state")
	}
}

// salvage copies what can be read, from the chosen beginning on, and says what that was.
func (b *rebuild) salvage() (*salvager, error) {
	buckets := b.Schema.Buckets()
	s := &salvager{
		b:      &workcopy.Builder{Path: filepath.Join(b.scratch, "old.db"), Buckets: buckets},
		schema: b.Schema, described: b.Schema.Described(),
	}
	if b.from != nil {
		s.copied = b.copied
	}
	done, err := b.fill(s)
	if err != nil {
		return nil, err
	}
	b.done = done

	r := b.report
	r.Seq, r.From = done.Seq, "the working copy"
	switch {
	case b.from == nil && done.Base == 0:
		r.From = "the logs"
	case b.from == nil:
		r.From = fmt.Sprintf("the snapshot of commit %d and the logs", done.Base)
	case done.Seq > *b.from:
		r.From = fmt.Sprintf("the working copy of commit %d and the logs", *b.from)
	}
	return s, nil
}

// fill writes into the builder of s what can be read, and closes it.
func (b *rebuild) fill(s *salvager) (done journal.Salvaged, err error) {
	defer func() { err = errors.Join(err, s.b.Close()) }()

	done, err = b.survey.Salvage(b.from, s)
	if err != nil {
		return done, err
	}
	return done, s.b.Finish()
}

// judge reports what is lost, and what nobody can know.
func (b *rebuild) judge(s *salvager) error {
	r, done := b.report, b.done
	r.Partial = done.Partial || b.from != nil && !b.proven
	if len(done.Gaps) == 0 && !done.Partial && (b.from == nil || b.proven) {
		has, err := digestOf(s.b.Path, s.b.Buckets)
		if err != nil {
			return err
		}
		if has != done.Digest {
			r.Partial = true
			b.unknown("every commit up to %d could be read, but the result has the digest %016x and the last commit "+
				"says %016x: an unknown part was lost or changed, which no checksum shows",
				done.Seq, uint64(has), uint64(done.Digest))
		}
	}
	if done.Partial {
		b.unknown("no snapshot is whole: data in the damaged parts that did not change later is lost, " +
			"and it is not known what it was")
	}

	b.judgeEnd()
	for _, g := range r.Gaps {
		r.Missing += g.Last - g.First + 1
	}
	if r.Missing > 0 || r.Partial {
		b.unknown("items that only the missing commits made or removed cannot be named; items that they removed are back")
	}
	return nil
}

// judgeEnd reports the gaps, and what may have followed the last commit that can be read.
func (b *rebuild) judgeEnd() {
	r, done, clean, survey := b.report, b.done, b.clean, b.survey
	r.Gaps = append(r.Gaps, done.Gaps...)
	b.last = done.Seq
	if b.certified && clean.Seq > b.last {
		if clean.Here(b.dir) {
			r.Gaps = append(r.Gaps, journal.Span{First: b.last + 1, Last: clean.Seq})
			b.last = clean.Seq
		} else {
			b.unknown("CLEAN records %d commits: it was copied later than the journal, "+
				"or the end of the journal is lost", clean.Seq)
		}
	}
	if survey.Blind && !(b.certified && clean.Digest == b.digest && clean.Seq == done.Seq) {
		r.Partial = true
		b.unknown("the newest log is missing, or nothing in it can be read: how many commits it had is not known")
	}
	for _, name := range survey.Unplaced {
		// A working copy in the state of the last commit shows that there was no later
		// commit.
		if b.from == nil || !b.proven || done.Seq != *b.from {
			r.Partial = true
		}
		b.unknown("nothing in journal/%s can be read, and nothing else shows commits after %d: "+
			"either the file is not part of the journal, or its contents are lost", name, survey.Reached)
	}
	if survey.Tail > 0 && done.Seq <= survey.Last() {
		b.unknown("the last %d bytes of the newest log are not a whole commit: either a crash cut short a commit "+
			"that was never acknowledged, or the last commit is damaged; both look the same", survey.Tail)
	}
}

// digestOf returns the digest of everything in a bbolt file.
func digestOf(path string, buckets *table.Buckets) (journal.Digest, error) {
	db, err := workcopy.OpenCopy(path)
	if err != nil {
		return 0, err
	}
	digest, _, err := workcopy.ContentDigest(db, buckets)
	return digest, errors.Join(err, db.Close())
}

// rewrite copies the salvaged rows, derives the rest, and writes the result as a
// journal, whose first record follows the last commit that there was.
func (b *rebuild) rewrite(s *salvager) (err error) {
	r := b.report
	from, err := workcopy.OpenCopy(s.b.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	db, err := workcopy.OpenCopy(filepath.Join(b.scratch, "new.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := s.schema.Rederive(from, db, func(err error) { r.Lost = append(r.Lost, err.Error()) }); err != nil {
		return err
	}

	for _, f := range s.feed {
		r.Changes += f.Last - f.First + 1
	}
	if err := s.name(db, r); err != nil {
		return err
	}
	if b.torn == nil && b.from == nil && !b.proven {
		if err := s.compare(db, b.copied, r); err != nil {
			return err
		}
	}
	if !r.complete() {
		if err := db.Update(func(tx *bolt.Tx) error { return markUndecided(tx, r.Missing) }); err != nil {
			return err
		}
	}

	digest, _, err := workcopy.ContentDigest(db, s.b.Buckets)
	if err != nil {
		return err
	}
	if err := db.Sync(); err != nil {
		return err
	}
	at := journal.State{Seq: b.last + 1, Digest: digest}
	return db.View(func(tx *bolt.Tx) error {
		return workcopy.WriteJournal(filepath.Join(b.scratch, "journal"), tx, s.b.Buckets, at)
	})
}

// markUndecided prepares a store that has lost commits. Contents without a record are
// kept, because their records may be in the old journal. All readers of the feed start
// again, because some of its numbers are lost.
func markUndecided(b *bolt.Tx, missing uint64) error {
	meta := b.Bucket([]byte(workcopy.MetaBucket.Name))
	seq := uint64(0)
	if v := meta.Get(kv.MetaSeq); len(v) == 8 {
		seq = binary.BigEndian.Uint64(v)
	}
	seq += (missing + 1) * 1 << 16
	now := binary.BigEndian.AppendUint64(nil, seq)
	for _, row := range []struct{ key, value []byte }{
		{kv.MetaOrphans, []byte{1}},
		{kv.MetaSeq, now},
		{kv.MetaTexts, kv.TextsMark(now, meta.Get(kv.MetaInstant))},
		{kv.MetaTrimmed, now},
	} {
		if err := meta.Put(row.key, row.value); err != nil {
			return err
		}
	}
	return nil
}

// salvager passes the output of Salvage to a builder and notes what later records show
// about missing ones.
type salvager struct {
	b      *workcopy.Builder
	copied string // the journal of the working copy to begin with; "" for none

	latest  uint64         // latest known number in the feed
	gap     bool           // records are missing before the next one
	feed    []journal.Span // feed numbers given by missing records
	touched map[string]bool

	schema    *kv.Schema
	described map[byte]func(key, row []byte) (kv.Touched, bool) // see Schema.Described
}

func (s *salvager) Start() error {
	s.touched = map[string]bool{}
	if err := s.b.Start(); err != nil || s.copied == "" {
		return err
	}
	j, err := journal.Read(s.copied, workcopy.Format)
	if err != nil {
		return err
	}
	_, err = j.Replay(func() error { return nil }, s.Entries)
	return errors.Join(err, j.Close())
}

func (s *salvager) Entries(ops []journal.Op) error {
	for _, op := range ops {
		s.note(op)
	}
	return s.b.Apply(ops)
}

// note updates the latest number in the feed.
func (s *salvager) note(op journal.Op) {
	if op.Bucket == workcopy.MetaBucket.No && bytes.Equal(op.Key, kv.MetaSeq) && len(op.Value) == 8 {
		s.latest = max(s.latest, binary.BigEndian.Uint64(op.Value))
	}
}

func (s *salvager) Gap(journal.Span) error {
	s.gap = true
	return nil
}

func (s *salvager) Record(_ uint64, ops []journal.Op) error {
	first := uint64(0) // the lowest feed number in this record
	for _, op := range ops {
		if op.Bucket == kv.ChangeBucket.No && op.Value != nil && len(op.Key) == 8 {
			if n := binary.BigEndian.Uint64(op.Key); first == 0 || n < first {
				first = n
			}
		}
	}
	if s.gap && first > 0 {
		if first > s.latest+1 {
			s.feed = append(s.feed, journal.Span{First: s.latest + 1, Last: first - 1})
		}
		s.gap = false
	}
	// When an item changes again, its previous feed number is removed. If a missing
	// record gave that number, the missing record had changed the item.
	for _, op := range ops {
		removes := op.Bucket == kv.ChangeBucket.No && op.Value == nil && len(op.Key) == 8
		if !removes || !s.missing(binary.BigEndian.Uint64(op.Key)) {
			continue
		}
		for _, put := range ops {
			if put.Bucket == kv.ChangeBucket.No && put.Value != nil && len(s.touched) < 100*mostTouched {
				s.touched[string(put.Value)] = true
			}
		}
	}
	for _, op := range ops {
		s.note(op)
	}
	return s.b.Apply(ops)
}

func (s *salvager) missing(n uint64) bool {
	for _, f := range s.feed {
		if n >= f.First && n <= f.Last {
			return true
		}
	}
	return false
}

// tell adds an item to the report.
func (r *Repaired) tell(t kv.Touched) {
	r.TouchedTotal++
	if len(r.Touched) < mostTouched {
		r.Touched = append(r.Touched, t)
	}
}

// name reports which items missing commits changed, as far as later commits show it.
func (s *salvager) name(db *bolt.DB, r *Repaired) error {
	return db.View(func(b *bolt.Tx) error {
		for bucket, describe := range s.described {
			rows := b.Bucket([]byte(s.b.Buckets[bucket].Name))
			for _, key := range slices.Sorted(maps.Keys(s.touched)) {
				if t, ok := describe([]byte(key), rows.Get([]byte(key))); ok {
					t.Why = "a missing commit changed it and a later one changed it again; " +
						"it is as the later one left it, or was removed"
					r.tell(t)
				}
			}
		}
		return nil
	})
}

// compare reports which items differ in a working copy that is readable but unproven.
func (s *salvager) compare(db *bolt.DB, copied string, r *Repaired) error {
	j, err := journal.Read(copied, workcopy.Format)
	if err != nil {
		return err
	}
	more := 0
	_, err = j.Replay(func() error { return nil }, func(ops []journal.Op) error {
		return db.View(func(b *bolt.Tx) error {
			for _, op := range ops {
				describe := s.described[op.Bucket]
				if describe == nil {
					continue
				}
				rows := b.Bucket([]byte(s.b.Buckets[op.Bucket].Name))
				if bytes.Equal(rows.Get(op.Key), op.Value) {
					continue
				}
				if t, ok := describe(op.Key, op.Value); ok {
					t.Why = "it differs in the working copy, which nothing proves, or exists only there"
					r.tell(t)
					more++
				}
			}
			return nil
		})
	})
	if more > 0 {
		r.Unknown = append(r.Unknown, fmt.Sprintf("cache/kist.db could be read, and %d items differ in it; "+
			"nothing proves that it is right. To use it instead of the journal, "+
			"run kist verify --repair --unproven-copy", more))
	}
	return errors.Join(err, j.Close())
}

// replaced lists the files that a repair puts aside.
var replaced = []string{"journal", datadir.CleanName, datadir.InstanceName, filepath.Join("cache", "kist.db")}

// replace puts the old files aside and the new journal in place. After a crash,
// putBack undoes or finishes it: until the new journal has its name, everything goes
// back; after that, only the folder of old files still has to get its name.
func (o *RepairOptions) replace(dir, scratch string, r *Repaired) error {
	step := func(what string, do func() error) error {
		if o.step != nil {
			if err := o.step(what); err != nil {
				return err
			}
		}
		if err := do(); err != nil {
			return errors.Join(err, putBack(dir, false))
		}
		return nil
	}

	old := filepath.Join(scratch, "old")
	if err := step("make the folder", func() error { return disk.MakeFolder(old) }); err != nil {
		return err
	}
	if err := step("write the report", func() error { return writeReport(old, r) }); err != nil {
		return err
	}
	for _, name := range replaced {
		if err := step("put aside "+name, func() error {
			err := move(filepath.Join(dir, name), filepath.Join(old, filepath.Base(name)))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	if err := step("put the new journal in place", func() error {
		if err := syncFolder(old); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(scratch, "journal"), filepath.Join(dir, "journal")); err != nil {
			return err
		}
		return syncFolder(dir)
	}); err != nil {
		return err
	}
	return step("name the folder of old files", func() error { return finishRepair(dir, scratch, r.Aside) })
}

// finishRepair gives the folder of old files its name.
func finishRepair(dir, scratch, aside string) error {
	if err := os.Rename(filepath.Join(scratch, "old"), filepath.Join(dir, aside)); err != nil {
		return err
	}
	return errors.Join(syncFolder(dir), os.RemoveAll(scratch))
}

func syncFolder(path string) error {
	f, err := disk.ReadFolder(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// putBack undoes a repair that was interrupted before the new journal had its name,
// and finishes one that was interrupted later.
func putBack(dir string, dry bool) error {
	all, err := datadir.Interrupted(dir)
	if err != nil {
		return err
	}
	for _, scratch := range all {
		old := filepath.Join(scratch, "old")
		_, errOld := os.Lstat(old)
		_, errNew := os.Lstat(filepath.Join(scratch, "journal"))
		switch {
		case dry && errOld == nil:
			return fmt.Errorf("a repair was interrupted in %s; run kist verify --repair without --dry-run to complete it", dir)
		case dry:
			continue
		case errOld == nil && errNew != nil: // the new journal is in place
			aside := datadir.AsidePrefix + strings.TrimPrefix(filepath.Base(scratch), datadir.RepairPrefix)
			if err := finishRepair(dir, scratch, aside); err != nil {
				return err
			}
			continue
		case errOld == nil:
			// The report is about a repair that did not happen.
			if err := workcopy.Remove(filepath.Join(old, reportName)); err != nil {
				return err
			}
			for _, name := range replaced {
				if err := returnMapped(filepath.Join(old, filepath.Base(name)), filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			left, err := os.ReadDir(old)
			if err != nil {
				return err
			}
			if len(left) > 0 { // other files have taken the names: keep these
				aside := datadir.AsidePrefix + strings.TrimPrefix(filepath.Base(scratch), datadir.RepairPrefix)
				if err := finishRepair(dir, scratch, aside); err != nil {
					return err
				}
				continue
			}
		}
		if err := errors.Join(syncFolder(dir), os.RemoveAll(scratch)); err != nil {
			return err
		}
	}
	return nil
}

// returnMapped renames a file or folder back to its place, unless something other than
// an empty folder is there.
func returnMapped(from, to string) error {
	if info, err := os.Lstat(to); err == nil && info.IsDir() {
		_ = os.Remove(to) // fails if it is not empty
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return err // nil if something is there
	}
	if err := move(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// move renames a file or folder. It copies a file that has to go to another file
// system, because cache/ may be on one.
func move(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()

	folder, err := disk.ReadFolder(filepath.Dir(to))
	if err != nil {
		return err
	}
	if err := errors.Join(folder.Create(filepath.Base(to), f), folder.Close()); err != nil {
		return err
	}
	return os.Remove(from)
}
