// Package repair makes a journal of what can be read of a damaged one.
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

	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// RepairOptions are what Repair may be told.
type RepairOptions struct {
	Schema *kv.Schema // what is stored; required
	DryRun bool       // change nothing
	// Unproven takes the working copy though no digest proves it, where that
	// can be read in full.
	Unproven bool
	// Scratch is where a dry run works, and where it removes what killed ones
	// have left; the system's folder for temporary files if empty.
	Scratch string

	env     []string           // more of the environment of the process that reads the working copy; for tests
	timeout time.Duration      // of reading the working copy; 0 is the usual one
	step    func(string) error // called before each step that changes the data directory; for tests
}

// Repaired says what a repair has done, or would do.
type Repaired struct {
	From    string         `json:"from"`    // what the new journal was made of
	Seq     uint64         `json:"seq"`     // of the last commit that is in it
	Missing uint64         `json:"missing"` // commits that are lost
	Gaps    []journal.Span `json:"gaps"`    // which
	// Partial says that more is lost and nobody knows how much.
	Partial bool     `json:"partial"`
	Damage  []string `json:"damage"` // what is damaged, missing or no file
	// Touched are items that lost commits have changed or made, at most
	// mostTouched; TouchedTotal is how many are known.
	Touched      []kv.Touched `json:"touched"`
	TouchedTotal int          `json:"touchedTotal"`
	Changes      uint64       `json:"changes"` // of items, that the lost commits made, at most
	Lost         []string     `json:"lost"`    // what could not be brought over, and what was changed for that
	Unknown      []string     `json:"unknown"` // what cannot be known
	Aside        string       `json:"aside,omitempty"`
	// Earlier are the folders of earlier repairs that lost something. The file
	// report.json in each says what.
	Earlier []string `json:"earlier,omitempty"`
}

const mostTouched = 100

// Whole reports whether nothing was lost, neither by this repair nor by an
// earlier one whose folder is still there.
func (r *Repaired) Whole() bool { return r.complete() && len(r.Earlier) == 0 }

// complete reports whether this repair lost nothing.
func (r *Repaired) complete() bool { return r.Missing == 0 && !r.Partial && len(r.Lost) == 0 }

// reportName is the file among what a repair has replaced that holds its
// Repaired as JSON. A repair may be killed before anyone has read what it says.
const reportName = "report.json"

// Repair rebuilds the journal of a data directory from the best that there
// is: the working copy, if its digest proves what it is, or the newest whole
// snapshot; and every record after that which is whole, whatever is damaged
// before it. Indexes and counters are worked out again from the rows. What is
// replaced is kept in a folder of its own. A repair that is interrupted is
// done over by the next one. No store may be open on the directory.
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
		work, err := disk.NewScratch(cmp.Or(o.Scratch, os.TempDir()), datadir.DryPrefix)
		if err != nil {
			return nil, fmt.Errorf("cannot make a temporary folder (%w); name another folder with --scratch", err)
		}
		r, err := o.build(dir, work.Path)
		return r, errors.Join(err, work.Close())
	}
	now := time.Now().UTC().Format(datadir.RepairTime)
	scratch := filepath.Join(dir, datadir.RepairPrefix+now)
	if err = os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	r, err := o.build(dir, scratch)
	if err != nil {
		return r, errors.Join(err, os.RemoveAll(scratch))
	}
	r.Aside = datadir.AsidePrefix + now
	if err := o.replace(dir, scratch, r); err != nil {
		return nil, err
	}
	return r, nil
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
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil || !r.complete() { // a report that cannot be read may tell of a loss
			all = append(all, e.Name())
		}
	}
	return all, nil
}

// writeReport writes what the repair did among what it replaces, and syncs it.
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

// hold keeps others out of the data directory. Without a trace, it leaves the
// lock file as it is.
func hold(dir string, trace bool) (release func() error, err error) {
	path := filepath.Join(dir, "LOCK")
	if !trace {
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
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) { // a file system that cannot be written to has no server on it
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	if err := disk.TryLock(f); err != nil {
		pid := datadir.Holder(f)
		if err := errors.Join(f.Close()); err != nil {
			return nil, err
		}
		return nil, &datadir.InUse{PID: pid}
	}
	return f.Close, nil
}

// build makes the new journal in the folder scratch.
func (o *RepairOptions) build(dir, scratch string) (_ *Repaired, err error) {
	r := &Repaired{Gaps: []journal.Span{}, Damage: []string{}, Touched: []kv.Touched{}, Lost: []string{}, Unknown: []string{}}
	if r.Earlier, err = lossyRepairs(dir); err != nil {
		return nil, err
	}
	copied := filepath.Join(scratch, "copy")
	reader := workcopy.CopyReader{Buckets: o.Schema.Buckets(), Env: o.env, Timeout: o.timeout}
	digest, torn := reader.Read(filepath.Join(dir, "cache", "kist.db"), copied)
	if workcopy.NoRoom(torn) { // without it more might be lost than has to be
		return nil, fmt.Errorf("%w. Nothing was changed. Make room there, or name another folder with --scratch for a dry run", torn)
	}
	clean, certified := datadir.ReadProof(dir)

	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	if errors.Is(err, fs.ErrNotExist) { // an empty one says as much
		err = os.Mkdir(filepath.Join(scratch, "none"), 0o700)
		if err == nil {
			j, err = journal.Read(filepath.Join(scratch, "none"), workcopy.Format)
		}
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	empty, err := j.Empty()
	if err != nil {
		return nil, err
	}
	survey, err := j.Survey(digest, func(int64) {})
	if err != nil {
		return nil, err
	}
	for _, harm := range survey.Harm {
		r.Damage = append(r.Damage, harm.Error())
	}
	if survey.More > 0 {
		r.Damage = append(r.Damage, fmt.Sprintf("… and %d more places", survey.More))
	}
	if empty {
		r.Damage = append(r.Damage, "journal/ is empty or missing")
	}

	// Where in the history the working copy is.
	var from *uint64
	proven := false
	if torn == nil {
		like := survey.Like
		// CLEAN goes before the first record that comes after it: a journal that
		// has more is of another time, or of another store.
		if certified && clean.Digest == digest && survey.Last() <= clean.Seq {
			like = append(like, clean.Seq)
		}
		if len(like) > 0 {
			at := slices.Max(like)
			from, proven = &at, true
		} else if o.Unproven {
			at := max(survey.Reached, survey.Last(), 1)
			from = &at
			r.Unknown = append(r.Unknown, "the working copy was taken as you asked, though nothing proves that it is the latest, or whole")
		}
	} else if !errors.Is(torn, fs.ErrNotExist) {
		r.Damage = append(r.Damage, torn.Error())
	}
	if base, whole := survey.Best(); from != nil && whole && base > *from {
		from = nil
	}
	if from == nil && survey.Last() == 0 {
		switch {
		case torn == nil:
			return nil, errors.New("nothing can be read of journal/. cache/kist.db can be read in full, but nothing proves that it is the latest state, or whole; to make the journal from it, run kist verify --repair --unproven-copy, or restore a backup (nothing was changed)")
		default:
			return nil, errors.New("nothing can be read of journal/, nor of the working copy; restore a backup (nothing was changed)")
		}
	}

	s := &salvager{b: &workcopy.Builder{Path: filepath.Join(scratch, "old.db"), Buckets: o.Schema.Buckets()}, schema: o.Schema, described: o.Schema.Described()}
	if from != nil {
		s.copied = copied
	}
	done, err := survey.Salvage(from, s)
	if err == nil {
		err = s.b.Finish()
	}
	if err = errors.Join(err, s.b.Close()); err != nil {
		return nil, err
	}
	r.From = "the working copy"
	switch {
	case from == nil && done.Base == 0:
		r.From = "the logs"
	case from == nil:
		r.From = fmt.Sprintf("the snapshot of commit %d and the logs", done.Base)
	case done.Seq > *from:
		r.From = fmt.Sprintf("the working copy, which is of commit %d, and the logs", *from)
	}
	r.Seq, r.Partial = done.Seq, done.Partial || from != nil && !proven
	if len(done.Gaps) == 0 && !done.Partial && (from == nil || proven) {
		has, err := digestOf(s.b.Path, s.b.Buckets)
		if err != nil {
			return nil, err
		}
		if has != done.Digest {
			r.Partial = true
			r.Unknown = append(r.Unknown, fmt.Sprintf("every commit up to %d could be read, but what they lead to has the digest %016x, and the last one says %016x: something was lost or changed that no checksum shows, and nobody knows what it was", done.Seq, uint64(has), uint64(done.Digest)))
		}
	}
	if done.Partial {
		r.Unknown = append(r.Unknown, "no snapshot is whole: what was in its damaged parts and was not changed later is lost, and nobody knows what it was")
	}
	r.Gaps = append(r.Gaps, done.Gaps...)
	last := done.Seq
	if certified && clean.Seq > last {
		if clean.Here(dir) {
			r.Gaps = append(r.Gaps, journal.Span{First: last + 1, Last: clean.Seq})
			last = clean.Seq
		} else {
			r.Unknown = append(r.Unknown, fmt.Sprintf("CLEAN tells of %d commits: it was copied later than the journal, or the end of the journal is lost", clean.Seq))
		}
	}
	if survey.Blind && !(certified && clean.Digest == digest && clean.Seq == done.Seq) {
		r.Partial = true
		r.Unknown = append(r.Unknown, "the newest log is missing, or nothing in it can be read: how many commits it had is not known")
	}
	for _, name := range survey.Unplaced {
		// A working copy that is as the last commit left it shows that there was no
		// later one.
		if from == nil || !proven || done.Seq != *from {
			r.Partial = true
		}
		r.Unknown = append(r.Unknown, fmt.Sprintf("nothing in journal/%s can be read, and nothing else tells of commits after %d: either it is no file of the journal, or what it held is lost", name, survey.Reached))
	}
	if survey.Tail > 0 && done.Seq <= survey.Last() {
		r.Unknown = append(r.Unknown, fmt.Sprintf("the last %d bytes of the newest log are no whole commit: a crash leaves that of one that was never acknowledged, and damage to the last one looks the same", survey.Tail))
	}
	for _, g := range r.Gaps {
		r.Missing += g.Last - g.First + 1
	}
	if r.Missing > 0 || r.Partial {
		r.Unknown = append(r.Unknown, "items that were made or removed by missing commits, and that nothing later tells of, cannot be named; what was removed by them is back")
	}
	return r, o.rewrite(dir, scratch, last+1, s, r, torn == nil && from == nil && !proven, copied)
}

// digestOf is the digest of everything in a bbolt file.
func digestOf(path string, buckets *table.Buckets) (journal.Digest, error) {
	db, err := workcopy.OpenCopy(path)
	if err != nil {
		return 0, err
	}
	digest, _, err := workcopy.ContentDigest(db, buckets)
	return digest, errors.Join(err, db.Close())
}

// rewrite copies the rows of what was salvaged, works out the rest, and writes
// that as a journal. seq is the number of its first record.
func (o *RepairOptions) rewrite(dir, scratch string, seq uint64, s *salvager, r *Repaired, compare bool, copied string) (err error) {
	from, err := workcopy.OpenCopy(s.b.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	db, err := workcopy.OpenCopy(filepath.Join(scratch, "new.db"))
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
	if compare {
		if err := s.compare(db, copied, r); err != nil {
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
	return db.View(func(tx *bolt.Tx) error {
		return workcopy.WriteJournal(filepath.Join(scratch, "journal"), tx, s.b.Buckets, journal.State{Seq: seq, Digest: digest})
	})
}

// markUndecided notes in a store that has lost commits that contents without a
// record are kept, as their records may be in the old journal; and it makes all
// readers of the feed start again, as numbers of it are lost.
func markUndecided(b *bolt.Tx, missing uint64) error {
	meta := b.Bucket([]byte(workcopy.MetaBucket.Name))
	seq := uint64(0)
	if v := meta.Get(kv.MetaSeq); len(v) == 8 {
		seq = binary.BigEndian.Uint64(v)
	}
	seq += (missing + 1) * 1 << 16
	now := binary.BigEndian.AppendUint64(nil, seq)
	return errors.Join(meta.Put(kv.MetaOrphans, []byte{1}), meta.Put(kv.MetaSeq, now), meta.Put(kv.MetaTexts, kv.TextsMark(now, meta.Get(kv.MetaInstant))), meta.Put(kv.MetaTrimmed, now))
}

// salvager takes what Salvage hands over to a builder, and notes what later
// records tell of those that are missing.
type salvager struct {
	b      *workcopy.Builder
	copied string // the journal of the working copy that it begins with; "" for none

	latest  uint64         // number of the feed that is known
	gap     bool           // records are missing before the next one
	feed    []journal.Span // numbers of the feed that missing records have given
	touched map[string]bool

	schema    *kv.Schema
	described map[byte]func(key, row []byte) (kv.Touched, bool) // see Schema.described
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

// note takes up the latest number of the feed.
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
	first := uint64(0) // the lowest number of the feed that this record gives
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
	// A number of a missing record is taken away when its item changes again.
	for _, op := range ops {
		if op.Bucket != kv.ChangeBucket.No || op.Value != nil || len(op.Key) != 8 || !s.missing(binary.BigEndian.Uint64(op.Key)) {
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
	if r.TouchedTotal++; len(r.Touched) < mostTouched {
		r.Touched = append(r.Touched, t)
	}
}

// name tells which items missing commits have changed, as far as later ones
// show it.
func (s *salvager) name(db *bolt.DB, r *Repaired) error {
	return db.View(func(b *bolt.Tx) error {
		for bucket, describe := range s.described {
			rows := b.Bucket([]byte(s.b.Buckets[bucket].Name))
			for _, key := range slices.Sorted(maps.Keys(s.touched)) {
				if t, ok := describe([]byte(key), rows.Get([]byte(key))); ok {
					t.Why = "a missing commit changed it, and so did a later one; it is as the later one left it, or was removed"
					r.tell(t)
				}
			}
		}
		return nil
	})
}

// compare tells which items are otherwise in a working copy that could be read
// and that nothing proves.
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
				if describe == nil || bytes.Equal(b.Bucket([]byte(s.b.Buckets[op.Bucket].Name)).Get(op.Key), op.Value) {
					continue
				}
				if t, ok := describe(op.Key, op.Value); ok {
					t.Why = "it is otherwise, or only, in the working copy, which nothing proves"
					r.tell(t)
					more++
				}
			}
			return nil
		})
	})
	if more > 0 {
		r.Unknown = append(r.Unknown, fmt.Sprintf("cache/kist.db could be read and has %d items otherwise; nothing proves that it is right. To take it in place of the journal, run kist verify --repair --unproven-copy", more))
	}
	return errors.Join(err, j.Close())
}

// replaced is what a repair puts aside.
var replaced = []string{"journal", datadir.CleanName, datadir.InstanceName, filepath.Join("cache", "kist.db")}

// replace puts the new journal in the place of the old one and that aside. A
// crash on the way leaves what putBack understands: until the new journal has
// its name, everything goes back; after that, all that is left is to give the
// folder of old files its name.
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
		return errors.Join(syncFolder(old), os.Rename(filepath.Join(scratch, "journal"), filepath.Join(dir, "journal")), syncFolder(dir))
	}); err != nil {
		return err
	}
	return step("name what is aside", func() error { return finishRepair(dir, scratch, r.Aside) })
}

// finishRepair gives what was put aside its name.
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

// putBack undoes a repair that was interrupted before the new journal had its
// name, and finishes one that was interrupted after that.
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
			return fmt.Errorf("a repair was interrupted in %s; run kist verify --repair without --dry-run to do it over", dir)
		case dry:
			continue
		case errOld == nil && errNew != nil: // the new journal is in place
			aside := datadir.AsidePrefix + strings.TrimPrefix(filepath.Base(scratch), datadir.RepairPrefix)
			if err := finishRepair(dir, scratch, aside); err != nil {
				return err
			}
			continue
		case errOld == nil:
			if err := workcopy.Remove(filepath.Join(old, reportName)); err != nil { // what it tells of did not happen
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
			if len(left) > 0 { // others have taken the places: keep it
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

// returnMapped renames a file or folder to where it was, unless something is there
// that is more than an empty folder.
func returnMapped(from, to string) error {
	info, err := os.Lstat(to)
	if err == nil && info.IsDir() {
		_ = os.Remove(to) // fails if it is not empty
		_, err = os.Lstat(to)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := move(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// move renames a file or folder. A file is copied if it has to go to another
// file system, as cache/ may be on one.
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
