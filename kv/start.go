package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// belongs refuses a journal that belongs to another instance than the file INSTANCE
// names. Two data directories were mixed up then, and the owner has to say which one
// is wanted. secret is that of the store in the journal. A store without a secret belongs
// to no instance.
func belongs(dir string, secret []byte) error {
	named, err := datadir.ReadInstance(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // keepInstance writes it
	case err != nil:
		return err
	case secret == nil:
		return fmt.Errorf("journal/ has no records in %s, but the file %s says that there were some. "+
			"Nothing was removed. Put journal/ back from a backup or from another copy; "+
			"to start from scratch, use another data directory", dir, datadir.InstanceName)
	case named != "" && named != datadir.InstanceOf(secret):
		return fmt.Errorf("journal/ in %s belongs to instance %s, but the file %s names instance %s: "+
			"two data directories were mixed. Nothing was removed. Restore a backup into an empty directory; "+
			"or, if journal/ and blobs/ are the ones you want, remove %[3]s and start again",
			dir, datadir.InstanceOf(secret), datadir.InstanceName, named)
	}
	return nil
}

// copyBelongs is belongs for a working copy of the journal.
func copyBelongs(dir string, db *bolt.DB) error {
	secret, err := secretOf(db)
	if err != nil {
		return err
	}
	return belongs(dir, secret)
}

// fits returns an error if the data directory cannot go on with a working copy: it has a newer
// format, or belongs to another instance.
func fits(dir string, db *bolt.DB) error {
	if err := workcopy.Current(db); err != nil {
		return err
	}
	return copyBelongs(dir, db)
}

// keepInstance writes the file INSTANCE if it is missing or cannot be parsed. The
// store must have its secret.
func (s *Store) keepInstance() error {
	named, err := datadir.ReadInstance(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case named != "":
		return nil
	default:
		s.log.Warn("the file " + datadir.InstanceName + " cannot be parsed; writing it again")
	}

	if err := s.writeInstance(); err != nil {
		return fmt.Errorf("cannot write the file %s: %w", datadir.InstanceName, err)
	}
	return nil
}

func (s *Store) writeInstance() error {
	secret, err := s.Secret() // the commit that made it may be in memory only
	if err != nil {
		return err
	}
	return datadir.WriteInstance(s.dir, datadir.InstanceOf(secret[:]))
}

// Instance returns the instance of the inspected journal, as Origin does.
func (i *Inspection) Instance() (string, error) {
	secret, err := secretOf(i.s.bolt)
	return datadir.InstanceOf(secret), err
}

// Newest returns when the latest change in the inspected journal was made; zero if there is none.
func (i *Inspection) Newest() (at time.Time, err error) {
	err = i.View(func(tx *Tx) error {
		if v := tx.Get(workcopy.MetaBucket, MetaInstant); len(v) == 8 {
			at = time.UnixMilli(int64(binary.BigEndian.Uint64(v)))
		}
		return nil
	})
	return at, err
}

// secretOf returns the secret of the store in a working copy; nil if it has none yet.
func secretOf(db *bolt.DB) (secret []byte, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(workcopy.MetaBucket.Name)); b != nil {
			secret = bytes.Clone(b.Get(MetaSecret))
		}
		return nil
	})
	return secret, err
}

// load opens the working copy. It uses the existing copy if a clean stop proves it
// whole and nothing has touched it since; otherwise it rebuilds the copy from the
// journal. An unproven copy is never opened: torn ones panic, hang, or look empty.
func (s *Store) load() error {
	path := filepath.Join(s.dir, "cache", "kist.db")
	made := path + ".new"
	fresh, err := s.beginFirst()
	if err != nil {
		return err
	}
	if err := makeCache(filepath.Dir(path)); err != nil {
		return err
	}
	// An earlier start may have been killed. All of cache/ may be removed while no server runs, so
	// it does not matter what has the names.
	if err := errors.Join(os.RemoveAll(made), os.RemoveAll(made+workcopy.RunsSuffix)); err != nil {
		return fmt.Errorf("cannot remove an unfinished working copy: %w", err)
	}

	stop := stopped{path: path}
	stop.Proof, stop.certified = datadir.ReadProof(s.dir)
	stop.proven = stop.certified && stop.Holds(path)
	if opened, err := s.resume(stop); opened || err != nil {
		return err
	}

	start := time.Now()
	var progress func(share float64)
	if !fresh && s.rebuilding != nil {
		progress, err = s.rebuilding()
		if err != nil {
			return err
		}
	}
	done, entries, err := s.rebuild(stop, made, progress)
	switch {
	case workcopy.Harmed(err):
		return s.heal(stop, nil, err)
	case err != nil:
		return refusal(err)
	}

	secret, err := examine(s.dir, made)
	if err != nil {
		return errors.Join(err, workcopy.Remove(made))
	}
	if harm := s.shortened(stop, done); harm != nil {
		return errors.Join(s.heal(stop, secret, harm), workcopy.Remove(made))
	}
	if harm := lastRecord(s.dir, s.buckets, done); harm != nil {
		harm = fmt.Errorf("%w. Nothing was changed. Run kist verify --repair, which loses nothing", harm)
		return errors.Join(harm, workcopy.Remove(made))
	}
	if err := s.inRoom(func() error { return s.redo(done.Snapshot) }, nil); err != nil {
		return errors.Join(err, workcopy.Remove(made))
	}

	if err := replaceCopy(made, path); err != nil {
		return fmt.Errorf("cannot put the new working copy in place: %w", err)
	}
	db, err := workcopy.OpenCopy(path)
	if err != nil {
		return err
	}
	s.bolt = db
	s.state = done.State
	if !fresh {
		s.log.Info("the store was rebuilt from the journal, because the last stop was not clean or the data was copied",
			"records", entries, "snapshot", done.Snapshot, "commits", done.Records, "cut", done.Cut,
			"took", time.Since(start).Round(time.Millisecond))
		for _, bad := range done.Bad {
			s.log.Warn("a snapshot is damaged; an older one and the logs after it were used", "error", bad)
		}
		s.gen.due = true
		debug.FreeOSMemory() // sorting takes more memory than serving
	}
	return s.inRoom(func() error { return s.journal.Begin(s.state) }, nil)
}

// beginFirst begins a journal if the data directory is new, and reports whether it is.
func (s *Store) beginFirst() (fresh bool, err error) {
	fresh, err = s.journal.Empty()
	if err != nil || !fresh {
		return false, err
	}
	if err := Unused(s.dir); err != nil {
		return false, err
	}
	// The journal must exist before the working copy, which is refused without one.
	return true, s.journal.Begin(s.state)
}

// stopped is what a start knows about the last stop.
type stopped struct {
	datadir.Proof
	path      string // of the working copy
	certified bool   // the stop was clean and left the proof
	proven    bool   // the working copy is as the proof says
}

// resume opens the working copy if the last stop proves it and the journal goes on from there. It
// returns false if the copy must be rebuilt.
func (s *Store) resume(stop stopped) (opened bool, err error) {
	if !stop.proven || s.journal.Resume(stop.State(), stop.Log, stop.LogSize) != nil {
		return false, nil
	}
	db, err := workcopy.OpenCopy(stop.path)
	if err != nil {
		s.log.Warn("the working copy cannot be opened; rebuilding it", "error", err)
		return false, nil
	}
	s.bolt = db
	s.state = stop.State()
	return true, fits(s.dir, db)
}

// rebuild makes a working copy from the journal.
func (s *Store) rebuild(stop stopped, to string, progress func(share float64)) (
	done journal.Replayed, entries int, err error,
) {
	err = s.inRoom(func() error {
		var err error
		done, entries, err = workcopy.Rebuild(s.journal, to, s.buckets, false, progress)
		return err
	}, func() (bool, error) { return s.giveUpCopy(stop.Proof, stop.certified) })
	return done, entries, err
}

// shortened returns an error if the journal ends before the last stop. In a copy of the data
// directory it may.
func (s *Store) shortened(stop stopped, done journal.Replayed) error {
	if !stop.certified || done.Seq >= stop.Seq {
		return nil
	}
	if !stop.Here(s.dir) {
		// The journal may have been copied before the proof of a later stop. A copy
		// that was cut short looks the same.
		s.log.Warn("this copy of the data ends when its journal was read; a later stop had more commits",
			"commits", done.Seq, "atTheStop", stop.Seq)
		return nil
	}
	return workcopy.Inconsistent(fmt.Sprintf("journal/%s is damaged: it ends at record %d, "+
		"and the last stop was at %d", stop.Log, done.Seq, stop.Seq))
}

// heal opens the working copy in place of a damaged journal, if the last stop proves it whole.
// Otherwise its error says what to do about the damage. secret is the journal's, nil if unknown.
func (s *Store) heal(stop stopped, secret []byte, damage error) error {
	if stop.proven {
		if healed, err := s.restart(stop.path, stop.Proof, secret, damage); healed || err != nil {
			return err
		}
	}
	return refusal(damage)
}

// replaceCopy puts a new working copy in place. A folder that has its name is removed.
func replaceCopy(from, to string) error {
	if info, err := os.Lstat(to); err == nil && info.IsDir() {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	return os.Rename(from, to)
}

// redo writes the contents that the journal carries to their files, because the last
// process may not have synced these. A new snapshot makes the next start skip them.
func (s *Store) redo(from uint64) error {
	var to *blobs.Store
	err := s.journal.Records(from, workcopy.Carried(func(ref [32]byte, b []byte) (err error) {
		if to == nil {
			to, err = blobs.OpenIn(s.dir)
			if err != nil {
				return err
			}
		}
		return to.Redo(ref, b)
	}))
	if to != nil {
		err = errors.Join(err, to.Close()) // which syncs them
	}
	if err != nil {
		return fmt.Errorf("cannot write the small files that the journal has: %w", err)
	}
	return nil
}

// refusal is the error of a start that cannot read the journal. It says what to do;
// it advises a repair only for damage.
func refusal(err error) error {
	switch {
	case errors.As(err, new(*workcopy.Newer)):
		return err
	case workcopy.NoRoom(err):
		return fmt.Errorf("the working copy cannot be rebuilt from the journal, as the disk is full (%w). "+
			"The data was not changed. Make room, then start again", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w. Nothing was changed. "+
			"Let the user who runs kist read and write the data directory, then start again", err)
	case workcopy.IsDamage(err):
		return fmt.Errorf("%w. Nothing was changed. "+
			"Restore a backup, or run kist verify --repair to go on with what can be read", err)
	}
	return fmt.Errorf("%w. Nothing was changed. The disk or the system has failed; the data may be intact. "+
		"See the system's log. Start again when it works; if the disk is broken, restore a backup to another one", err)
}

// examine checks a new working copy before it replaces the existing one, which may be
// all that is left of another instance. It returns the store's secret, nil if there is
// none.
func examine(dir string, path string) (secret []byte, err error) {
	db, err := workcopy.OpenCopy(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	secret, err = secretOf(db)
	if err != nil {
		return nil, err
	}
	return secret, belongs(dir, secret)
}

// lastRecord returns an error if the last record of the journal is damaged. The
// working copy in the data directory shows damage if it has the digest that the record
// leads to: then the record was whole when it was written. Otherwise a crash cut the
// record short, and it was never acknowledged.
func lastRecord(dir string, buckets *table.Buckets, done journal.Replayed) error {
	if done.Torn == nil {
		return nil
	}
	// An unreadable working copy shows nothing.
	digest, err := workcopy.CopyDigest(filepath.Join(dir, "cache", "kist.db"), buckets)
	if err != nil || digest != done.Torn.To.Digest {
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("%w; cache/kist.db has the lost data", &done.Torn.Damaged)
}

// cacheTag is what backup programs look for in a folder of derived files
// (https://bford.info/cachedir/).
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n" +
	"# What is in here is derived from journal and blobs; it may be deleted while kist does not run.\n"

// makeCache makes the folder of derived files and marks it for backup programs.
func makeCache(dir string) error {
	if err := disk.MakeFolder(dir); err != nil {
		return fmt.Errorf("cannot make the cache directory: %w", err)
	}
	tag := filepath.Join(dir, "CACHEDIR.TAG")
	if _, err := os.Lstat(tag); err == nil {
		return nil
	}
	if err := os.WriteFile(tag, []byte(cacheTag), 0o600); err != nil {
		return fmt.Errorf("cannot make the cache directory: %w", err)
	}
	return nil
}

// Unused refuses a data directory that held data but has no journal: a new empty
// journal would lose what can still be saved.
func Unused(dir string) error {
	if all, err := datadir.Interrupted(dir); err != nil || len(all) > 0 {
		return errors.Join(err, fmt.Errorf("journal/ is empty or missing in %s, because a repair was interrupted. "+
			"Nothing was changed. Run kist verify --repair again", dir))
	}
	if _, err := os.Lstat(filepath.Join(dir, datadir.InstanceName)); err == nil {
		return fmt.Errorf("journal/ is empty or missing in %s, but the file %s says that there were records. "+
			"Nothing was changed. Put journal/ back from a backup or from another copy, or run kist verify --repair "+
			"if cache/kist.db is there; to start from scratch, use another data directory", dir, datadir.InstanceName)
	}
	for _, name := range []string{"cache/kist.db", datadir.CleanName} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Size() > 0 {
			return fmt.Errorf("journal/ is empty or missing in %s, but %s is there. Nothing was changed. "+
				"Put journal/ back from a backup, or run kist verify --repair to make it from the working copy", dir, name)
		}
	}
	folders, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range folders {
		if f.IsDir() && len(f.Name()) == 2 {
			return fmt.Errorf("journal/ is empty or missing in %s, but blobs/ has content. Nothing was changed. "+
				"Put journal/ back from a backup, or move blobs/ away to start from scratch", dir)
		}
	}
	return err
}
