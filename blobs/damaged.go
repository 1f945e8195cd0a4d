package blobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"kist/blobs/disk"
)

// damagedFolder is the folder, below the store's folder, with an empty file for
// each blob whose bytes are known to be wrong. The file has the ref as its
// name.
const damagedFolder = "damaged"

// A Damage is a blob in quarantine: its bytes do not hash to its ref, or cannot
// be read.
type Damage struct {
	Ref   Ref
	Found time.Time
}

// A Quarantine knows the damaged blobs. Its mutex is held while a marker is
// made or removed, so that memory and disk agree.
type Quarantine struct {
	root    *tree
	reading bool      // the store changes nothing on disk
	forget  func(Ref) // drops the memory of the blob's right bytes
	heal    func(Ref) // nil, or fetches the right bytes from the object store

	mu       sync.RWMutex
	found    map[Ref]time.Time
	onDamage func(Ref, error) // nil, or called for each blob that is newly found to be damaged
}

// OnDamage sets a function that is called once, with the reason, for each blob
// that is found to be damaged from then on.
func (q *Quarantine) OnDamage(tell func(Ref, error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.onDamage = tell
}

// List returns the blobs in quarantine in the order of their refs.
func (q *Quarantine) List() []Damage {
	q.mu.RLock()
	defer q.mu.RUnlock()
	all := make([]Damage, 0, len(q.found))
	for ref, found := range q.found {
		all = append(all, Damage{ref, found})
	}
	slices.SortFunc(all, func(a, b Damage) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
	return all
}

// Err returns ErrDamaged if the blob is in quarantine.
func (q *Quarantine) Err(ref Ref) error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if _, got := q.found[ref]; got {
		return fmt.Errorf("blobs: the bytes of %s: %w", ref, ErrDamaged)
	}
	return nil
}

// load reads the markers. It ignores the marker of a blob that no longer
// exists.
func (q *Quarantine) load() error {
	q.found = map[Ref]time.Time{}
	folder, err := q.root.Lstat(damagedFolder)
	// All reports a damagedFolder that is not a folder.
	if errors.Is(err, fs.ErrNotExist) || err == nil && !folder.IsDir() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("blobs: finding the markers of damaged blobs: %w", err)
	}
	markers, err := q.root.list(damagedFolder)
	if err != nil {
		return err
	}
	for _, m := range markers {
		ref, err := ParseRef(m.Name())
		if err != nil {
			continue
		}
		if _, err := q.root.Lstat(ref.path()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		info, err := m.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("blobs: reading the marker of a damaged blob: %w", err)
		}
		q.found[ref] = info.ModTime()
	}
	return nil
}

// add puts a blob in quarantine for the given reason. The bytes stay where they
// are. If f is no longer the file under the blob's name, the blob was replaced
// while f was read, and nothing happens. f is nil if the blob could not be
// opened as a file.
//
// A marker that cannot be written does not stop the quarantine in this process.
func (q *Quarantine) add(ref Ref, f *os.File, reason error) {
	q.mu.Lock()
	_, known := q.found[ref]
	if known || !q.isCurrent(ref, f) {
		q.mu.Unlock()
		return
	}
	q.found[ref] = time.Now()
	q.forget(ref)
	var err error
	if !q.reading {
		err = q.mark(ref)
	}
	tell := q.onDamage
	q.mu.Unlock()

	if tell != nil {
		tell(ref, errors.Join(reason, err))
	}
	if q.heal != nil {
		q.heal(ref)
	}
}

// isCurrent reports whether f is the file under the blob's name. With f nil, it
// reports whether the name exists and is not a regular file.
func (q *Quarantine) isCurrent(ref Ref, f *os.File) bool {
	now, err := q.root.Lstat(ref.path())
	if f == nil {
		return err == nil && !now.Mode().IsRegular()
	}
	before, err2 := f.Stat()
	return err == nil && err2 == nil && os.SameFile(before, now)
}

// mark makes the marker of a blob and makes its name durable.
func (q *Quarantine) mark(ref Ref) error {
	if err := q.root.makeDurable(damagedFolder); err != nil {
		return fmt.Errorf("blobs: making the folder of markers: %w", err)
	}
	err := q.root.steps.do("mark", func() error {
		f, err := q.root.OpenFile(damagedFolder+"/"+ref.String(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		return fmt.Errorf("blobs: marking a blob as damaged: %w", err)
	}
	if err := q.root.syncFolder(damagedFolder, "sync damaged"); err != nil {
		return fmt.Errorf("blobs: marking a blob as damaged: %w", err)
	}
	return nil
}

// release ends the quarantine of a blob that is gone, or whose right bytes are
// on stable storage under its name. It removes the marker only after the bytes
// are in place.
func (q *Quarantine) release(ref Ref) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unmark(ref)
}

// unmark is release for a caller that holds the mutex.
func (q *Quarantine) unmark(ref Ref) error {
	if _, got := q.found[ref]; !got {
		return nil
	}
	if !q.reading {
		err := q.removeMarker(ref)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("blobs: removing the marker of a damaged blob: %w", err)
		}
	}
	delete(q.found, ref)
	return nil
}

// removeMarker removes the marker of a blob and makes that durable.
func (q *Quarantine) removeMarker(ref Ref) error {
	err := q.root.steps.do("unmark", func() error { return q.root.Remove(damagedFolder + "/" + ref.String()) })
	if err != nil {
		return err
	}
	return q.root.syncFolder(damagedFolder, "sync damaged")
}

// end ends the quarantine of a blob, if any. The bytes of the open file were
// read and are right, so somebody has put the right bytes back.
func (q *Quarantine) end(ref Ref, f *os.File) error {
	if q.Err(ref) == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isCurrent(ref, f) {
		return nil
	}
	if !q.reading { // the person who put the bytes back may not have synced them
		folder, err := q.root.folderFor(ref)
		if err != nil {
			return err
		}
		defer folder.Close()
		if err := q.root.steps.do("sync file", f.Sync); err != nil {
			return fmt.Errorf("blobs: syncing a blob that was damaged: %w", err)
		}
		if err := q.root.steps.do("sync folder", func() error { return disk.SyncFolder(folder) }); err != nil {
			return fmt.Errorf("blobs: syncing a blob that was damaged: %w", err)
		}
	}
	return q.unmark(ref)
}

// Check reads the blob, also one in quarantine, to its end. The error is
// ErrDamaged when the bytes do not hash to the ref or when the disk fails twice
// to read them; the blob is then in quarantine. Right bytes end a quarantine.
// The error is fs.ErrNotExist when the blob does not exist, and another one
// when the blob cannot be opened.
func (s *Store) Check(ref Ref) error { return s.CheckThrough(ref, nil) }

// CheckThrough is Check. Unless through is nil, it wraps the file before the hash
// reads it.
func (s *Store) CheckThrough(ref Ref, through func(io.Reader) io.Reader) error {
	f, err := s.openBlob(ref)
	if errors.Is(err, ErrDamaged) { // it is not a regular file
		s.Damaged.add(ref, nil, err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return s.prove(ref, f, through)
}

// prove is CheckThrough for an open file. It leaves f at its end.
func (s *Store) prove(ref Ref, f *os.File, through func(io.Reader) io.Reader) error {
	before, err := observe(f)
	if err != nil {
		return fmt.Errorf("blobs: examining a blob: %w", err)
	}
	for range 2 { // a disk error may be temporary
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("blobs: reading a blob: %w", err)
		}
		r := io.Reader(f)
		if through != nil {
			r = through(r)
		}
		err = CheckBytes(ref, r)
		if !errors.Is(err, syscall.EIO) {
			break
		}
	}

	if errors.Is(err, syscall.EIO) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if errors.Is(err, ErrDamaged) {
		s.Damaged.add(ref, f, err)
	}
	if err != nil {
		return err
	}
	s.proven.add(ref, before)
	return s.Damaged.end(ref, f)
}

// maxQueued bounds the queue of the background check. The weekly check reads
// the blobs that do not fit.
const maxQueued = 256

// checks are the blobs waiting for the background check. One goroutine checks
// them; it ends when the queue is empty.
type checks struct {
	check func(Ref, func(io.Reader) io.Reader) error // Store.CheckThrough

	mu      sync.Mutex
	queue   []Ref // without duplicates; the first is being checked
	over    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

// CheckSoon has a blob checked in the background, one at a time. Close stops
// the check and waits for it.
func (s *Store) CheckSoon(ref Ref) { s.checks.add(ref) }

// add queues a blob. It starts the goroutine if it is not running.
func (c *checks) add(ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over == nil {
		c.over, c.end = context.WithCancel(context.Background())
	}
	if c.over.Err() != nil || len(c.queue) >= maxQueued || slices.Contains(c.queue, ref) {
		return
	}
	c.queue = append(c.queue, ref)
	if len(c.queue) == 1 {
		c.running.Go(c.run)
	}
}

func (c *checks) run() {
	for {
		c.mu.Lock()
		ref := c.queue[0]
		c.mu.Unlock()
		// Quarantine.add reports damage. A blob that is gone needs no check,
		// and the weekly check reports a blob that cannot be opened.
		_ = c.check(ref, func(r io.Reader) io.Reader { return contextReader{c.over, r} })
		c.mu.Lock()
		c.queue = c.queue[1:]
		last := len(c.queue) == 0
		c.mu.Unlock()
		if last {
			return
		}
	}
}

func (c *checks) stop() {
	c.mu.Lock()
	if c.over == nil {
		c.over, c.end = context.WithCancel(context.Background())
	}
	c.end()
	c.mu.Unlock()
	c.running.Wait()
}

// contextReader is a reader that fails once the context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (u contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
