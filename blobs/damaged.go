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

// damagedFolder holds, below the store's folder, an empty file for each blob
// whose bytes are known to be wrong. The file has the ref as its name.
const damagedFolder = "damaged"

// A Damage is a blob in quarantine: its bytes were read and do not hash to its
// ref, or cannot be read.
type Damage struct {
	Ref   Ref
	Found time.Time
}

// A quarantine knows the blobs that are damaged. Its mutex is held while a
// marker is made or removed, so that memory and disk agree.
type quarantine struct {
	mu    sync.RWMutex
	found map[Ref]time.Time
	tell  func(Ref, error) // nil, or is called for each blob that is newly found to be damaged
}

// OnDamage sets a function that is called once for each blob that is found to
// be damaged from then on, with the reason.
func (s *Store) OnDamage(tell func(Ref, error)) {
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	s.damaged.tell = tell
}

// Damaged lists the blobs in quarantine in the order of their refs.
func (s *Store) Damaged() []Damage {
	s.damaged.mu.RLock()
	defer s.damaged.mu.RUnlock()
	all := make([]Damage, 0, len(s.damaged.found))
	for ref, found := range s.damaged.found {
		all = append(all, Damage{ref, found})
	}
	slices.SortFunc(all, func(a, b Damage) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
	return all
}

// Quarantined returns ErrDamaged if the blob is in quarantine.
func (s *Store) Quarantined(ref Ref) error {
	s.damaged.mu.RLock()
	defer s.damaged.mu.RUnlock()
	if _, got := s.damaged.found[ref]; got {
		return fmt.Errorf("blobs: the bytes of %s: %w", ref, ErrDamaged)
	}
	return nil
}

// loadDamaged reads the markers. The marker of a blob that is gone does not
// count.
func (s *Store) loadDamaged() error {
	s.damaged.found = map[Ref]time.Time{}
	folder, err := s.root.Lstat(damagedFolder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !folder.IsDir() { // All tells of the latter
		return nil
	}
	if err != nil {
		return fmt.Errorf("blobs: looking for the markers of damaged blobs: %w", err)
	}
	markers, err := s.list(damagedFolder)
	if err != nil {
		return err
	}
	for _, m := range markers {
		ref, err := ParseRef(m.Name())
		if err != nil {
			continue
		}
		if _, err := s.root.Lstat(ref.path()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		info, err := m.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("blobs: reading the marker of a damaged blob: %w", err)
		}
		s.damaged.found[ref] = info.ModTime()
	}
	return nil
}

// quarantineBlob puts a blob in quarantine for the given reason. The bytes stay where
// they are. If f is not the file that has the blob's name now, the blob was
// replaced while f was read, and nothing happens. f is nil if the blob could
// not be opened as a file.
//
// A marker that cannot be written does not stop the quarantine in this process.
func (s *Store) quarantineBlob(ref Ref, f *os.File, reason error) {
	q := &s.damaged
	q.mu.Lock()
	_, known := q.found[ref]
	if known || !s.isCurrent(ref, f) {
		q.mu.Unlock()
		return
	}
	q.found[ref] = time.Now()
	s.hot.forget(ref)
	s.proven.forget(ref)
	var err error
	if !s.reading {
		err = s.mark(ref)
	}
	tell := q.tell
	q.mu.Unlock()
	if tell != nil {
		tell(ref, errors.Join(reason, err))
	}
}

// isCurrent reports whether f is the file under the blob's name; with f nil,
// whether something is there that cannot be opened as a blob.
func (s *Store) isCurrent(ref Ref, f *os.File) bool {
	now, err := s.root.Lstat(ref.path())
	if f == nil {
		return err == nil && !now.Mode().IsRegular()
	}
	before, err2 := f.Stat()
	return err == nil && err2 == nil && os.SameFile(before, now)
}

// mark makes the marker of a blob and its name durable.
func (s *Store) mark(ref Ref) error {
	if err := s.needFolder(s.root, damagedFolder, &s.durableDamaged); err != nil {
		return fmt.Errorf("blobs: making the folder of markers: %w", err)
	}
	err := s.do("mark", func() error {
		f, err := s.root.OpenFile(damagedFolder+"/"+ref.String(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err == nil {
		err = s.syncDamaged()
	}
	if err != nil {
		return fmt.Errorf("blobs: marking a blob as damaged: %w", err)
	}
	return nil
}

func (s *Store) syncDamaged() error {
	folder, err := s.openFolder(damagedFolder)
	if err != nil {
		return err
	}
	defer folder.Close()
	return s.do("sync damaged", func() error { return disk.SyncFolder(folder) })
}

// release ends the quarantine of a blob whose right bytes are on stable storage
// under its name, or which is gone. The marker goes after the bytes came, never
// before.
func (s *Store) release(ref Ref) error {
	q := &s.damaged
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.unmark(ref)
}

// unmark is release for those who hold the quarantine.
func (s *Store) unmark(ref Ref) error {
	if _, got := s.damaged.found[ref]; !got {
		return nil
	}
	if !s.reading {
		err := s.do("unmark", func() error { return s.root.Remove(damagedFolder + "/" + ref.String()) })
		if err == nil {
			err = s.syncDamaged()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("blobs: removing the marker of a damaged blob: %w", err)
		}
	}
	delete(s.damaged.found, ref)
	return nil
}

// markProven notes that the bytes of the open file were read and are right; info is
// what the file was before they were read. If the blob was in quarantine,
// somebody has put the right bytes back, and it ends.
func (s *Store) markProven(ref Ref, f *os.File, info observed) error {
	s.proven.add(ref, info)
	if s.Quarantined(ref) == nil {
		return nil
	}
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	if !s.isCurrent(ref, f) {
		return nil
	}
	if !s.reading { // who put the bytes back may not have synced them
		folder, err := s.folderFor(ref)
		if err != nil {
			return err
		}
		err = errors.Join(s.do("sync file", f.Sync), s.do("sync folder", func() error { return disk.SyncFolder(folder) }), folder.Close())
		if err != nil {
			return fmt.Errorf("blobs: syncing a blob that was damaged: %w", err)
		}
	}
	return s.unmark(ref)
}

// Check reads the blob to its end, also one in quarantine. The error is
// ErrDamaged when the bytes do not hash to the ref or when the disk twice fails
// to read them; the blob is then in quarantine. Right bytes end a quarantine.
// The error is fs.ErrNotExist when there is no such blob, and another one when
// the blob cannot be opened.
func (s *Store) Check(ref Ref) error { return s.check(ref, nil) }

// check is Check; through, unless it is nil, is between the file and the hash.
func (s *Store) check(ref Ref, through func(io.Reader) io.Reader) error {
	f, err := s.openBlob(ref)
	if errors.Is(err, ErrDamaged) { // it is no regular file
		s.quarantineBlob(ref, nil, err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return s.prove(ref, f, through)
}

// prove is check for a blob that is open. It leaves f at its end.
func (s *Store) prove(ref Ref, f *os.File, through func(io.Reader) io.Reader) error {
	before, err := observe(f)
	if err != nil {
		return fmt.Errorf("blobs: looking at a blob: %w", err)
	}
	for range 2 { // an error of the disk may pass
		if _, err = f.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("blobs: reading a blob: %w", err)
		}
		r := io.Reader(f)
		if through != nil {
			r = through(r)
		}
		if err = CheckBytes(ref, r); !errors.Is(err, syscall.EIO) {
			break
		}
	}
	if err == nil {
		return s.markProven(ref, f, before)
	}
	if errors.Is(err, syscall.EIO) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if errors.Is(err, ErrDamaged) {
		s.quarantineBlob(ref, f, err)
	}
	return err
}

// mostQueued bounds the blobs that wait for the background check. What finds no
// place is left to the weekly one.
const mostQueued = 256

// checks are the blobs that are to be checked in the background, by one
// goroutine that lives as long as there are some.
type checks struct {
	mu      sync.Mutex
	queue   []Ref // each once; the first is being checked
	over    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

// CheckSoon has a blob checked in the background, one at a time. Close ends
// that and waits for it.
func (s *Store) CheckSoon(ref Ref) {
	c := &s.checks
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over == nil {
		c.over, c.end = context.WithCancel(context.Background())
	}
	if c.over.Err() != nil || len(c.queue) >= mostQueued || slices.Contains(c.queue, ref) {
		return
	}
	c.queue = append(c.queue, ref)
	if len(c.queue) == 1 {
		c.running.Go(s.checkQueued)
	}
}

func (s *Store) checkQueued() {
	c := &s.checks
	for {
		c.mu.Lock()
		ref := c.queue[0]
		c.mu.Unlock()
		// Damage is told by condemn; a blob that is gone needs no check, and
		// the weekly check tells of what cannot be opened.
		_ = s.check(ref, func(r io.Reader) io.Reader { return contextReader{c.over, r} })
		c.mu.Lock()
		c.queue = c.queue[1:]
		last := len(c.queue) == 0
		c.mu.Unlock()
		if last {
			return
		}
	}
}

// stop ends the background check for good.
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
