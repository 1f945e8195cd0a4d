package kv

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
	bolt "go.etcd.io/bbolt"

	"kist/blobs/disk"
	"kist/kv/journal"
	"kist/kv/table"
)

// mapSize is how much address space the working copy has from the start. A map
// that grows has to wait for all readers, a snapshot in the background among
// them, and they for it; address space is free.
func mapSize() int {
	if bits.UintSize == 64 && runtime.GOOS != "windows" { // where the file would be made as long
		return 8 << 30
	}
	return 256 << 20
}

// openCopy opens a bbolt file. It is a working copy: what makes commits durable
// is the journal.
func openCopy(path string) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout: time.Second, FreelistType: bolt.FreelistMapType, InitialMmapSize: mapSize(), NoSync: true, NoGrowSync: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	return db, nil
}

// load opens the working copy: as it is if a clean stop left it so and nothing
// has touched it since, and rebuilt from the journal otherwise. A copy that
// is not proven whole is never opened: torn ones panic, hang, or look empty.
func (s *Store) load() error {
	cache := filepath.Join(s.dir, "cache")
	path := filepath.Join(cache, "kist.db")
	fresh, err := s.journal.Empty()
	if err != nil {
		return err
	}
	if fresh {
		if err := s.unused(); err != nil {
			return err
		}
		// Before there is a working copy: one without a journal is refused.
		if err := s.journal.Begin(s.state); err != nil {
			return err
		}
	}
	if err := makeCache(cache); err != nil {
		return err
	}
	// An earlier start may have been killed.
	if err := errors.Join(remove(path+".new"), remove(path+".new"+runsSuffix)); err != nil {
		return fmt.Errorf("cannot remove an unfinished working copy: %w", err)
	}
	clean, certified := readProof(s.dir)
	proven := certified && clean.holds(path)
	if proven && s.journal.Resume(clean.state(), clean.Log, clean.LogSize) == nil {
		if s.bolt, err = openCopy(path); err == nil {
			s.state = clean.state()
			return errors.Join(current(s.bolt), s.belongs(s.bolt))
		}
		s.log.Warn("the working copy cannot be opened; it is rebuilt", "error", err)
	}

	begun := time.Now()
	var progress func(share float64)
	if !fresh && s.rebuilding != nil {
		if progress, err = s.rebuilding(); err != nil {
			return err
		}
	}
	done, entries, err := rebuild(s.journal, path+".new", s.buckets, false, progress)
	if noRoom(err) && remove(filepath.Join(cache, ballastName)) == nil {
		done, entries, err = rebuild(s.journal, path+".new", s.buckets, false, progress)
	}
	if err != nil {
		if proven && harmed(err) {
			if healed, failed := s.restart(path, clean, nil, err); healed || failed != nil {
				return failed
			}
		}
		return refusal(err)
	}
	secret, err := s.examine(path + ".new")
	if err != nil {
		return errors.Join(err, remove(path+".new"))
	}
	switch {
	case !certified || done.Seq >= clean.Seq:
	case !clean.here(s.dir):
		// A copy may read the journal, and then the proof of a later stop. One
		// that was cut short looks the same.
		s.log.Warn("this copy of the data has what there was when its journal was read; a stop that came later had more",
			"commits", done.Seq, "atTheStop", clean.Seq)
	default:
		harm := inconsistent(fmt.Sprintf("journal/%s is damaged: it ends at record %d, and the last stop was at %d", clean.Log, done.Seq, clean.Seq))
		if proven {
			if healed, failed := s.restart(path, clean, secret, harm); healed || failed != nil {
				return errors.Join(failed, remove(path+".new"))
			}
		}
		return errors.Join(refusal(harm), remove(path+".new"))
	}
	if harm := lastRecord(s.dir, s.buckets, done); harm != nil {
		return errors.Join(fmt.Errorf("%w. Nothing was changed. Run kist verify --repair, which loses nothing", harm), remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("cannot put the new working copy in place: %w", err)
	}
	if s.bolt, err = openCopy(path); err != nil {
		return err
	}
	s.state = done.State
	if !fresh {
		s.log.Info("the store was rebuilt from the journal, as the last stop was not a clean one or the data was copied",
			"records", entries, "snapshot", done.Snapshot, "commits", done.Records, "cut", done.Cut, "took", time.Since(begun).Round(time.Millisecond))
		for _, bad := range done.Bad {
			s.log.Warn("a snapshot is damaged; an older one and the logs after it were used", "error", bad)
		}
		s.gen.due = true
		debug.FreeOSMemory() // sorting took more than serving does
	}
	return s.journal.Begin(s.state)
}

// refusal is the error of a start that cannot read the journal. It says what to
// do about that; a repair is advised against damage and nothing else.
func refusal(err error) error {
	switch {
	case errors.As(err, new(*newer)):
		return err
	case noRoom(err):
		return fmt.Errorf("the working copy cannot be rebuilt from the journal, as the disk is full (%w). Nothing was changed. Make room, then start again", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w. Nothing was changed. Let the user who runs kist read and write the data directory, then start again", err)
	case isDamage(err):
		return fmt.Errorf("%w. Nothing was changed. Restore a backup, or run kist verify --repair to go on with what can be read", err)
	}
	return fmt.Errorf("%w. Nothing was changed. The disk or the system has failed, and the data may be sound: the system's log says more. Start again when it works; if the disk is broken, restore a backup to another one", err)
}

// examine looks at a working copy before it takes the place of the one that is
// there: that one may be all that is left of another instance. It returns the
// store's secret, nil if there is none.
func (s *Store) examine(path string) (secret []byte, err error) {
	db, err := openCopy(path)
	if err != nil {
		return nil, err
	}
	secret, err = secretOf(db)
	return secret, errors.Join(err, s.belongs(db), db.Close())
}

// lastRecord is the damage to the last record of the journal if the working copy
// in the data directory shows that there is some: it is what the record leads
// to, so the record was whole when it was written. Otherwise the record is one
// that a crash cut short, which was never acknowledged.
func lastRecord(dir string, buckets *table.Buckets, done journal.Replayed) error {
	if done.Torn == nil {
		return nil
	}
	// What cannot be read shows nothing.
	if digest, err := copyDigest(filepath.Join(dir, "cache", "kist.db"), buckets); err != nil || digest != done.Torn.To.Digest {
		return nil
	}
	return fmt.Errorf("%w; cache/kist.db has what that held", &done.Torn.Damaged)
}

// makeCache makes the folder of derived files, marked as such for programs
// that make backups (https://bford.info/cachedir/).
func makeCache(dir string) error {
	if err := disk.MakeFolder(dir); err != nil {
		return fmt.Errorf("cannot make the cache directory: %w", err)
	}
	tag := filepath.Join(dir, "CACHEDIR.TAG")
	if _, err := os.Lstat(tag); err == nil {
		return nil
	}
	if err := os.WriteFile(tag, []byte("Signature: 8a477f597d28d172789f06886806bc55\n# What is in here is derived from journal and blobs; it may be deleted while kist does not run.\n"), 0o600); err != nil {
		return fmt.Errorf("cannot make the cache directory: %w", err)
	}
	return nil
}

// unused refuses a data directory without a journal that has held data: to
// begin an empty one there would lose what can still be saved.
func (s *Store) unused() error {
	if all, err := interrupted(s.dir); err != nil || len(all) > 0 {
		return errors.Join(err, fmt.Errorf("journal/ is empty or missing in %s, as a repair was interrupted. Nothing was changed. Run kist verify --repair again", s.dir))
	}
	if _, err := os.Lstat(filepath.Join(s.dir, InstanceName)); err == nil {
		return fmt.Errorf("journal/ is empty or missing in %s, but the file %s says that there were records. Nothing was changed. Put journal/ back from a backup or from another copy, or run kist verify --repair if cache/kist.db is there; to start from scratch, use another data directory", s.dir, InstanceName)
	}
	for _, name := range []string{"cache/kist.db", cleanName} {
		if info, err := os.Lstat(filepath.Join(s.dir, name)); err == nil && info.Size() > 0 {
			return fmt.Errorf("journal/ is empty or missing in %s, but %s is there. Nothing was changed. Put journal/ back from a backup, or run kist verify --repair to make it from the working copy", s.dir, name)
		}
	}
	folders, err := os.ReadDir(filepath.Join(s.dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range folders {
		if f.IsDir() && len(f.Name()) == 2 {
			return fmt.Errorf("journal/ is empty or missing in %s, but blobs/ has content. Nothing was changed. Put journal/ back from a backup, or move blobs/ away to start from scratch", s.dir)
		}
	}
	return err
}

// current refuses a store of a newer format.
func current(db *bolt.DB) error {
	return db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(metaBucket.Name))
		if b == nil {
			return nil
		}
		if v := b.Get(metaFormat); len(v) == 4 && binary.BigEndian.Uint32(v) > Format {
			return &newer{binary.BigEndian.Uint32(v)}
		}
		return nil
	})
}

// newer says that the store has a format that this program does not know.
type newer struct{ format uint32 }

func (e *newer) Error() string {
	return fmt.Sprintf("the data directory has format %d; this version of kist reads formats up to %d: install the version that wrote it or a newer one (nothing was changed)", e.format, Format)
}

// inconsistent says that the journal can be read, and that what it holds cannot
// be right.
type inconsistent string

func (e inconsistent) Error() string { return string(e) }

// isDamage reports whether the error is about the data in the journal and not
// about the disk or the system: a repair may help.
func isDamage(err error) bool { return journal.IsDamage(err) || errors.As(err, new(inconsistent)) }

// harmed reports whether the error says that a part of the journal is damaged,
// or that the disk cannot read it.
func harmed(err error) bool { return isDamage(err) || errors.Is(err, journal.ErrRead) }

// rebuild makes a working copy from the journal, in place of anything that
// has the path. When it fails there is no such file, unless what can be read
// of a damaged journal is wanted. tell is told how far it is, from 0 to 1; it
// may be nil.
func rebuild(j *journal.Journal, path string, buckets *table.Buckets, damaged bool, tell func(share float64)) (_ journal.Replayed, entries int, err error) {
	b := &builder{path: path, buckets: buckets}
	if tell != nil {
		const reading = 0.4 // of the whole time
		total, err := j.Ahead()
		if err != nil {
			return journal.Replayed{}, 0, err
		}
		var read int64
		j.Watch(func(n int64) {
			read += n
			tell(reading * float64(min(read, total)) / float64(max(total, 1)))
		})
		defer j.Watch(nil)
		b.tell = func(n, of int) { tell(reading + (1-reading)*float64(n)/float64(of)) }
	}
	done, err := j.Replay(b.start, b.apply)
	damaged = damaged && (err == nil || harmed(err))
	if err == nil || damaged && b.db != nil {
		if failed := b.finish(); failed != nil {
			return done, 0, errors.Join(failed, b.drop())
		}
	}
	if err == nil {
		err = current(b.db)
	}
	if err == nil {
		var digest journal.Digest
		if digest, entries, err = contentDigest(b.db, buckets); err == nil && digest != done.Digest {
			err = inconsistent(fmt.Sprintf("the journal is damaged: what it holds has the digest %016x, and should have %016x", uint64(digest), uint64(done.Digest)))
		}
	}
	if err != nil && !damaged {
		return done, 0, errors.Join(err, b.drop())
	}
	return done, entries, errors.Join(err, b.close())
}

// remove removes a file; that there is none is no error.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// contentDigest is the digest of everything in a working copy.
func contentDigest(db *bolt.DB, buckets *table.Buckets) (digest journal.Digest, entries int, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		var scratch []byte
		for op := range everything(tx, buckets) {
			scratch = digest.Add(op, scratch)
			entries++
		}
		return nil
	})
	return digest, entries, err
}

// everything yields all that the store holds.
func everything(tx *bolt.Tx, buckets *table.Buckets) func(func(journal.Op) bool) {
	return func(yield func(journal.Op) bool) {
		for b := range buckets.All() {
			bucket := tx.Bucket([]byte(b.Name))
			if bucket == nil {
				continue
			}
			c := bucket.Cursor()
			for k, v := c.First(); k != nil; k, v = c.Next() {
				if !yield(journal.Op{Bucket: b.No, Key: k, Value: v}) {
					return
				}
			}
		}
	}
}

// cleanName is the file that proves a clean stop.
const cleanName = "CLEAN"

// proof says what the working copy and the journal were like when the store
// was closed. Copies of the file, and the file when it was written to, have
// another inode or another time of change.
type proof struct {
	identity
	Seq     uint64         `json:"seq"`
	Digest  journal.Digest `json:"digest"`
	Log     string         `json:"log"`
	LogSize int64          `json:"logSize"`

	// The folder of the journal.
	JournalDevice uint64 `json:"journalDevice"`
	JournalInode  uint64 `json:"journalInode"`
}

// identity tells a file from its copies.
type identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Change int64  `json:"ctime"` // in nanoseconds since 1970
	Size   int64  `json:"size"`
}

func (p proof) state() journal.State { return journal.State{Seq: p.Seq, Digest: p.Digest} }

// holds reports whether the working copy is the one of the proof.
func (p proof) holds(path string) bool {
	got, err := identify(path)
	return err == nil && got == p.identity
}

// here reports whether the journal is in the very folder that the proof tells
// of and not in a copy of it, whatever was done in it since.
func (p proof) here(dir string) bool {
	got, err := identify(filepath.Join(dir, "journal"))
	return err == nil && got.Device == p.JournalDevice && got.Inode == p.JournalInode
}

// readProof reads the proof that is there, if there is one.
func readProof(dir string) (proof, bool) {
	var p proof
	text, err := os.ReadFile(filepath.Join(dir, cleanName))
	if err != nil {
		return p, false
	}
	line, sum, _ := strings.Cut(string(text), "\n")
	if strings.TrimSpace(sum) != lineSum(line) || json.Unmarshal([]byte(line), &p) != nil {
		return p, false
	}
	return p, true
}

func lineSum(line string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(line)) }

// certify writes the proof; everything is closed and on the disk. Where files
// cannot be told from their copies there is none.
func (s *Store) certify(log string, size int64) error {
	got, err := identify(filepath.Join(s.dir, "cache", "kist.db"))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	of, err := identify(filepath.Join(s.dir, "journal"))
	if err != nil {
		return err
	}
	line, err := json.Marshal(proof{got, s.state.Seq, s.state.Digest, log, size, of.Device, of.Inode})
	if err != nil {
		return err
	}
	dir, err := disk.ReadFolder(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Publish(cleanName, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n%s\n", line, lineSum(string(line)))
		return err
	})
}

// unproven takes the proof away, before the first write.
func (s *Store) unproven() error {
	if err := remove(filepath.Join(s.dir, cleanName)); err != nil {
		return fmt.Errorf("cannot write to the data directory: %w", err)
	}
	dir, err := disk.ReadFolder(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// logger is where background work reports.
func (o Options) logger() *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}
