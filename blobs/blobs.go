// Package blobs keeps content on disk. Each content is stored once, in a file
// named by its SHA-256. The package knows bytes and their names. It knows
// nothing about the records that refer to them.
//
// New content goes through a [Stage]: write to it, then call [Stage.Keep]. When
// Keep returns, the bytes and their name are on stable storage. The [Kept] it
// returns pins them: the sweep leaves them alone until [Kept.Release]. The
// order that loses nothing is
//
//	stage, Keep, commit the record that refers to the blob, Release
//
// A crash in between leaves a blob without a record, which [Store.Sweep]
// removes. It never leaves a record without its blob.
//
// For small content the caller may use [Store.StageSmall] and [Stage.KeepLater].
// Then the bytes reach stable storage with the record, and the file later.
//
// A kept file is immutable: it is never written to again. Its name can only be
// removed, or moved atomically to a new file with the same content. The second
// happens when the content is uploaded again and the bytes on disk are damaged
// or too many to read.
//
// Every error wraps its cause, so callers can test it with errors.Is(err,
// fs.ErrNotExist) or errors.Is(err, syscall.ENOSPC).
package blobs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"kist/blobs/disk"
)

var (
	// ErrDamaged says that the file under a ref's name does not hold that
	// content: it has other bytes, or it is not a regular file.
	ErrDamaged = errors.New("damaged")

	// ErrForeign says that a name in the store's folder is not one that the
	// store makes, or is not the kind of file the store makes. The store never
	// follows, reads or removes such a file.
	ErrForeign = errors.New("not a file of this store")
)

// rereadLimit is the size in bytes up to which Keep reads an existing copy and
// uses it if it is right. Keep replaces a larger copy without reading it.
// Reading saves writing, but the caller waits meanwhile. On a slow disk,
// reading more than this would outlast the patience of a client or a proxy.
const rereadLimit = 256 << 20

// tempFolder is the folder, below the folder for uploads, for files that have
// no final name yet.
const tempFolder = "tmp"

// uploadsFolder is the folder for uploads below the cache of a data directory.
const uploadsFolder = "uploads"

// A Store is a folder of blobs. Its methods may be called by any number of
// goroutines at once. One process at a time may have a folder open.
type Store struct {
	root    *tree
	uploads *tree // has tempFolder and partFolder; the same as root if they are in the store's folder
	steps   *steps

	Damaged *Quarantine // the blobs whose bytes are known to be wrong
	Parts   *Parts      // unfinished content that arrives in pieces

	// OnKeep is nil, or called by Keep, KeepLater and Adopt with each content, pinned, and its
	// size in bytes before they return. They fail with its error; the content may stay until the next
	// sweep. It must be set before more than one goroutine uses the store.
	OnKeep func(ref Ref, size int64) error

	// unnamed says that the file system can stage content in files without a
	// name. A crash cannot leave such a file behind.
	unnamed bool

	// reread is rereadLimit, except in tests.
	reread int64

	later   later
	small   smallCache
	proven  proven
	checks  checks
	failing failing
	cache   *cache // nil without an object store
	reading bool   // the store changes nothing on disk
	names   nameLocks
	temps   temps
}

func newStore(root *os.Root, reading bool) *Store {
	steps := &steps{}
	t := &tree{Root: root, steps: steps, syncStep: "sync top"}
	s := &Store{
		root:    t,
		uploads: t,
		steps:   steps,
		Damaged: &Quarantine{root: t, reading: reading},
		Parts:   &Parts{uploads: t},
		reread:  rereadLimit,
		reading: reading,
		names:   nameLocks{held: map[Ref]*nameLock{}},
		temps:   temps{used: map[string]struct{}{}},
	}
	s.Damaged.forget = s.forget
	s.checks.check = s.CheckThrough
	s.later.all, s.later.syncAll = settleAll, disk.SyncAll
	s.later.wake, s.later.end = make(chan struct{}, 1), make(chan struct{})
	return s
}

// forget drops the memory of a blob that was removed or is damaged.
func (s *Store) forget(ref Ref) {
	s.small.forget(ref)
	s.proven.forget(ref)
}

// handOver returns a content when the function OnKeep of the store has seen it.
func (s *Store) handOver(kept *Kept) (*Kept, error) {
	if s.OnKeep != nil {
		if err := s.OnKeep(kept.Ref, kept.Size); err != nil {
			kept.Release()
			return nil, err
		}
	}
	return kept, nil
}

// Info describes one blob.
type Info struct {
	Ref     Ref
	Size    int64     // in bytes
	ModTime time.Time // when its last byte was staged, by the file system's clock
}

// Open opens the store in dir, which it creates with mode 0700 when it is
// missing; its parent must exist. Open removes temporary files that a crash
// left behind. Files the store makes have mode 0600 and folders 0700, unless the
// umask takes away more, or the disk keeps no modes, as network shares do. Dir itself may be a
// symbolic link; the store follows no other link.
//
// Unfinished uploads are kept in dir as well; OpenIn keeps them elsewhere.
func Open(dir string) (*Store, error) { return openStore(dir, "") }

// OpenIn opens the store of an existing data directory, like Open. The store is
// the folder blobs. Unfinished uploads are in cache/uploads, because only names
// in cache may vanish while the directory is copied. If blobs and cache are on
// different file systems, unfinished uploads are in blobs.
func OpenIn(data string) (*Store, error) {
	return openStore(filepath.Join(data, "blobs"), filepath.Join(data, "cache"))
}

// openStore is Open. Unless cache is empty, the folder for uploads is in it.
func openStore(dir, cache string) (*Store, error) {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("blobs: creating the folder: %w", err)
	}
	parent, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return nil, fmt.Errorf("blobs: opening the parent folder: %w", err)
	}
	err = disk.SyncFolder(parent)
	_ = parent.Close()
	if err != nil {
		return nil, fmt.Errorf("blobs: syncing the parent folder: %w", err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("blobs: opening the folder: %w", err)
	}
	s := newStore(root, false)
	if err := s.start(cache); err != nil {
		_ = s.closeFolders()
		return nil, err
	}
	return s, nil
}

// start opens the folder for uploads, unless cache is empty, removes what a crash left, and finds out
// what the file system can do.
func (s *Store) start(cache string) error {
	if cache != "" {
		if err := s.openUploads(cache, disk.CanMove); err != nil {
			return err
		}
	}
	if err := s.recover(); err != nil {
		return err
	}
	if err := s.Damaged.load(); err != nil {
		return err
	}

	s.unnamed = s.canLink()
	if !s.unnamed {
		return nil
	}
	top, err := s.root.Open(".")
	if err != nil {
		return fmt.Errorf("blobs: opening the folder: %w", err)
	}
	s.later.top = top
	return nil
}

// Read opens an existing store for reading. It changes nothing, and another
// process may have the store open. The error is fs.ErrNotExist if there is no
// store.
func Read(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("blobs: opening the folder: %w", err)
	}
	s := newStore(root, true)
	if err := s.Damaged.load(); err != nil {
		_ = root.Close()
		return nil, err
	}
	return s, nil
}

// openUploads opens the folder for uploads below the cache, if files can be
// moved from there to the store's folder, as canMove says.
func (s *Store) openUploads(cache string, canMove func(from, to *os.File) bool) error {
	dir := filepath.Join(cache, uploadsFolder)
	for _, folder := range []string{cache, dir} {
		if err := disk.MakeFolder(folder); err != nil {
			return fmt.Errorf("blobs: creating the folder for uploads: %w", err)
		}
	}

	uploads, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("blobs: opening the folder for uploads: %w", err)
	}
	from, err := uploads.Open(".")
	if err != nil {
		return errors.Join(fmt.Errorf("blobs: opening the folder for uploads: %w", err), uploads.Close())
	}
	defer from.Close()
	to, err := s.root.Open(".")
	if err != nil {
		return errors.Join(fmt.Errorf("blobs: opening the folder: %w", err), uploads.Close())
	}
	defer to.Close()
	if !canMove(from, to) {
		return uploads.Close()
	}

	s.uploads = &tree{Root: uploads, steps: s.steps, syncStep: "sync uploads"}
	s.Parts.uploads = s.uploads
	// A process may have died after making these folders and before syncing
	// them.
	if err := syncBoth(cache, from); err != nil {
		return fmt.Errorf("blobs: syncing the folder for uploads: %w", err)
	}
	return s.moveIn()
}

// syncBoth syncs the cache and then the folder for uploads in it.
func syncBoth(cache string, uploads *os.File) error {
	above, err := os.Open(cache)
	if err != nil {
		return err
	}
	defer above.Close()
	if err := disk.SyncFolder(above); err != nil {
		return err
	}
	return disk.SyncFolder(uploads)
}

// moveIn moves unfinished uploads from the store's folder, where earlier
// versions kept them, to the folder for uploads.
func (s *Store) moveIn() error {
	if _, err := s.temps.sweep(s.root, func(fs.FileInfo) bool { return true }); err != nil {
		return err
	}
	_ = s.root.Remove(tempFolder) // fails if the folder is missing or has foreign files

	old, err := s.root.openFolder(partFolder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrForeign) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("blobs: opening the folder of parts: %w", err)
	}
	defer old.Close()
	if err := s.uploads.makeDurable(partFolder); err != nil {
		return fmt.Errorf("blobs: creating the folder of parts: %w", err)
	}
	to, err := s.uploads.openFolder(partFolder)
	if err != nil {
		return fmt.Errorf("blobs: opening the folder of parts: %w", err)
	}
	defer to.Close()

	// A part that cannot be moved does not stop the others.
	names, err := old.Readdirnames(-1)
	for _, name := range names {
		if _, taken := s.uploads.Lstat(partFolder + "/" + name); partName(name) && errors.Is(taken, fs.ErrNotExist) {
			err = errors.Join(err, disk.Rename(old, name, to, name))
		}
	}
	err = errors.Join(err, disk.SyncFolder(to), disk.SyncFolder(old))
	if err != nil {
		return fmt.Errorf("blobs: moving parts: %w", err)
	}
	_ = s.root.Remove(partFolder) // as above
	return nil
}

// recover removes files that a crash left in the temporary folder. It makes the
// names of the existing folders durable.
func (s *Store) recover() error {
	if _, err := s.temps.sweep(s.uploads, func(fs.FileInfo) bool { return true }); err != nil {
		return err
	}
	if _, err := s.uploads.Lstat(partFolder); err == nil {
		s.uploads.setDurable(partFolder) // the sync below, or in openUploads, makes it true
	}

	top, err := s.root.openFolder(".")
	if err != nil {
		return fmt.Errorf("blobs: opening the folder: %w", err)
	}
	defer top.Close()
	names, err := top.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("blobs: listing the folder: %w", err)
	}
	if err := disk.SyncFolder(top); err != nil {
		return fmt.Errorf("blobs: syncing the folder: %w", err)
	}
	for _, name := range names {
		if _, ok := parseFolder(name); ok || name == damagedFolder {
			s.root.setDurable(name)
		}
	}
	return nil
}

// Close settles what KeepLater has left, closes the store and waits for its
// background work to end. Files that Get returned stay readable.
func (s *Store) Close() error {
	s.cache.stop()
	s.checks.stop()
	s.later.stop()
	err := s.Settle()
	if failed := s.closeFolders(); failed != nil {
		err = errors.Join(err, fmt.Errorf("blobs: closing the folder: %w", failed))
	}
	return err
}

func (s *Store) closeFolders() error {
	if s.later.top != nil {
		_ = s.later.top.Close() // it was only read
	}
	if s.uploads == s.root {
		return s.root.Close()
	}
	return errors.Join(s.root.Close(), s.uploads.Close())
}

// Get opens the blob for reading. The error is fs.ErrNotExist when the blob
// does not exist. It is ErrDamaged when the blob is in quarantine or is not a
// regular file. Get does not check the bytes: use Send for content that is sent
// to others. An open file stays readable to its end after the blob is unlinked.
//
// With an object store, Get fetches a blob that is missing or damaged here, and
// waits until all of it has come. The error is ErrAway if that is not possible.
func (s *Store) Get(ref Ref) (*os.File, error) {
	f, err := s.getHere(ref)
	if s.cache == nil {
		return f, err
	}
	if !elsewhere(err) {
		s.cache.hit(ref)
		return f, err
	}
	return s.cache.get(ref, err)
}

// getHere is Get for the disk alone.
func (s *Store) getHere(ref Ref) (*os.File, error) {
	if err := s.Damaged.Err(ref); err != nil {
		if _, gone := s.Stat(ref); errors.Is(gone, fs.ErrNotExist) {
			return nil, gone
		}
		return nil, err
	}
	return s.openBlob(ref)
}

// openBlob is Get without the check for quarantine.
func (s *Store) openBlob(ref Ref) (*os.File, error) {
	if _, err := s.Stat(ref); err != nil {
		return nil, err
	}
	f, err := s.root.Open(ref.path())
	if err != nil {
		return nil, fmt.Errorf("blobs: opening a blob: %w", err)
	}
	return f, nil
}

// Head reads up to limit bytes from the beginning of a blob. If it is in the object
// store only, Head fetches no more than that, and keeps nothing.
func (s *Store) Head(ref Ref, limit int64) ([]byte, error) {
	f, err := s.getHere(ref)
	if s.cache != nil && elsewhere(err) {
		return s.cache.head(ref, limit, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// Stat describes the blob on the disk, also one in quarantine, without opening
// it. The error is fs.ErrNotExist when the blob is not there, and ErrDamaged when
// it is not a regular file.
func (s *Store) Stat(ref Ref) (Info, error) {
	folder, err := s.root.Lstat(ref.folder())
	if err != nil {
		return Info{}, fmt.Errorf("blobs: finding a blob: %w", err)
	}
	if !folder.IsDir() {
		return Info{}, fmt.Errorf("blobs: %s is not a folder: %w", ref.folder(), ErrDamaged)
	}
	file, err := s.root.Lstat(ref.path())
	if err != nil {
		return Info{}, fmt.Errorf("blobs: finding a blob: %w", err)
	}
	if !file.Mode().IsRegular() {
		return Info{}, fmt.Errorf("blobs: %s is not a regular file: %w", ref.path(), ErrDamaged)
	}
	return Info{Ref: ref, Size: file.Size(), ModTime: file.ModTime()}, nil
}

// CheckBytes reads r to its end. The error is ErrDamaged when the bytes do not
// hash to the ref, and r's own when reading fails.
func CheckBytes(ref Ref, r io.Reader) error {
	buf := copyBuffers.Get().(*copyBuffer)
	defer copyBuffers.Put(buf)
	h := sha256.New()
	// The wrapper hides (*os.File).WriteTo, which would use a small buffer.
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{r}, buf[:]); err != nil {
		return fmt.Errorf("blobs: reading a blob: %w", err)
	}
	if got := Ref(h.Sum(nil)); got != ref {
		return fmt.Errorf("blobs: the bytes of %s hash to %s: %w", ref, got, ErrDamaged)
	}
	return nil
}

// All lists the blobs in the order of their refs. A blob that is kept or
// unlinked while the listing runs may be in it or not; every other blob is.
//
// An error comes with a zero Info and concerns one name or one folder, so the
// caller may continue. It is ErrForeign for a name the store did not make, such
// as a symbolic link. It is the file system's own when a folder or a file
// cannot be examined. All skips the folders of temporary files, of parts, and
// of the markers of damaged blobs.
func (s *Store) All() iter.Seq2[Info, error] { return s.After("") }

// After is All for the blobs whose refs, as text, come after last. An empty
// last comes before the first blob.
func (s *Store) After(last string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		folders, err := s.root.list(".")
		if err != nil {
			yield(Info{}, err)
			return
		}
		for _, folder := range folders {
			b, ok := parseFolder(folder.Name())
			switch {
			case folder.IsDir() && slices.Contains([]string{tempFolder, partFolder, damagedFolder}, folder.Name()):
				continue
			case !ok || !folder.IsDir():
				if !yield(Info{}, errForeign(folder.Name())) {
					return
				}
				continue
			case last != "" && folder.Name() < last[:2]:
				continue
			}
			files, err := s.root.list(folder.Name())
			if err != nil && !yield(Info{}, err) {
				return
			}
			for _, file := range files {
				if last != "" && file.Name() <= last {
					continue
				}
				info, err := s.root.describe(b, path.Join(folder.Name(), file.Name()))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if !yield(info, err) {
					return
				}
			}
		}
	}
}

// parseFolder returns the first byte of the refs in the folder with that name.
func parseFolder(name string) (b byte, ok bool) {
	bytes, err := hex.DecodeString(name)
	if err != nil || len(bytes) != 1 || hex.EncodeToString(bytes) != name {
		return 0, false
	}
	return bytes[0], true
}
