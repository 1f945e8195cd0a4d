package blobs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"kist/blobs/disk"
)

// SmallContent is how many bytes a content may have that KeepLater names before
// it is on stable storage.
const SmallContent = 16 << 10

// These bound what KeepLater leaves to Settle.
const (
	maxHeld     = 1024             // contents in memory, from StageSmall until Release
	maxLater    = 16384            // named blobs that are not on stable storage
	settleAt    = 4096             // so many of them are settled at once,
	settleAfter = 10 * time.Second // and fewer after this time
	settleAll   = 64               // so many of them are settled by one sync of the file system
)

// later knows the blobs that have their name and are not on stable storage yet.
// One goroutine settles them; it runs as long as there are any.
type later struct {
	top *os.File // the store's folder; nil if KeepLater is Keep

	all     int                  // settleAll, except in tests
	syncAll func(*os.File) error // disk.SyncAll, except in tests

	settling sync.Mutex // held while blobs are synced

	mu      sync.Mutex
	refs    map[Ref]struct{} // not being synced now
	syncing int              // being synced now
	held    int              // see maxHeld
	running bool
	over    bool
	wake    chan struct{}
	end     chan struct{}
	work    sync.WaitGroup
}

// StageSmall is Stage for content that is probably small. It makes no file as
// long as the content has at most SmallContent bytes. Then KeepLater does not
// wait for the disk.
func (s *Store) StageSmall() (*Stage, error) {
	if !s.later.hold() {
		return s.Stage()
	}
	return &Stage{store: s, hash: newSums(), held: []byte{}}, nil
}

// spill moves the content from memory to a file.
func (st *Stage) spill() error {
	defer st.letGo()
	if err := st.open(); err != nil {
		return err
	}
	err := st.store.steps.do("write", func() error { _, err := st.file.Write(st.held); return err })
	if err != nil {
		st.err = st.store.failing.wrap(st.folder(), "writing staged content", err)
	}
	return st.err
}

// letGo forgets the content in memory.
func (st *Stage) letGo() {
	if st.held != nil {
		st.held = nil
		st.store.later.letGo()
	}
}

// KeepLater is Keep for a caller whose record reaches stable storage together
// with Kept.Bytes. Unless these are nil, the blob has its name and is complete,
// and nothing of it may be on stable storage until a Settle that begins after
// KeepLater has returned. After a power cut the blob may be missing, or have
// wrong bytes under its name. Then the caller calls Redo with Kept.Bytes before
// anybody reads the blob. The caller must not release Kept before it has the
// bytes.
//
// KeepLater is the same as Keep for all but new small content from StageSmall,
// or if too many blobs wait for Settle.
func (st *Stage) KeepLater() (*Kept, error) {
	s := st.store
	if st.err != nil || st.held == nil {
		return st.Keep()
	}
	ref := st.Ref()
	kept := s.names.pin(ref)
	if !s.nameLater(ref, st.held) {
		kept.Release()
		return st.Keep()
	}
	kept.Size, kept.Bytes, kept.store = st.size, st.held, s
	unpin := kept.release
	kept.release = sync.OnceFunc(func() { unpin(); s.later.letGo() })
	st.held, st.err = nil, errKept
	return s.handOver(kept)
}

// nameLater makes the blob without a sync and reports whether it did. It does
// not if the name is taken, because only Keep may decide which bytes are right.
func (s *Store) nameLater(ref Ref, b []byte) bool {
	if s.later.top == nil || !s.root.isDurable(ref.folder()) || s.Damaged.Err(ref) != nil || s.later.full() {
		return false
	}
	if s.steps.do("name", func() error { return disk.WriteNew(s.later.top, ref.folder(), ref.String(), b) }) != nil {
		return false // Keep reports what is wrong
	}
	s.cache.grow(int64(len(b)))
	s.later.add(ref, s)
	return true
}

// Settle puts on stable storage what KeepLater and Redo have named before the
// call. What cannot be synced is tried again by the next call.
func (k *Kept) Settle() error { return k.store.Settle() }

// Settle is Kept.Settle for the whole store.
func (s *Store) Settle() error {
	l := &s.later
	l.settling.Lock()
	defer l.settling.Unlock()
	refs := l.take()
	if len(refs) == 0 {
		return nil
	}
	left, err := s.settle(refs)
	l.giveBack(left)
	if err != nil {
		return s.failing.wrap(s.root, "syncing small content", err)
	}
	s.failing.note(s.root, nil)
	return nil
}

// settle syncs blobs and their folders. It returns those that it could not sync.
func (s *Store) settle(refs map[Ref]struct{}) (left map[Ref]struct{}, err error) {
	all := errors.ErrUnsupported
	if len(refs) >= s.later.all && s.later.top != nil {
		// One sync costs a thirtieth of the CPU time of a thousand. But it waits
		// for what other programs have written, too.
		all = s.steps.do("sync all", func() error { return s.later.syncAll(s.later.top) })
		if all == nil {
			return nil, nil
		}
	}

	left = map[Ref]struct{}{}
	folders := map[string]error{}
	for ref := range refs {
		failed := all // if the system does not tell which writes failed, each may be one
		if errors.Is(all, errors.ErrUnsupported) {
			failed = s.syncBlob(ref)
		} else if _, gone := s.Stat(ref); errors.Is(gone, fs.ErrNotExist) {
			failed = gone
		}
		if errors.Is(failed, fs.ErrNotExist) {
			continue // it was unlinked
		}
		if failed != nil { // later syncs skip the bytes that this one lost
			failed = s.rewrite(ref)
		}
		if failed != nil {
			left[ref], err = struct{}{}, errors.Join(err, failed)
			continue
		}
		folders[ref.folder()] = nil
	}

	for name := range folders {
		failed := s.root.syncFolder(name, "sync folder")
		if failed != nil {
			folders[name], err = failed, errors.Join(err, failed)
		}
	}
	for ref := range refs {
		if folders[ref.folder()] != nil {
			left[ref] = struct{}{}
		}
	}
	return left, err
}

// syncBlob syncs the bytes of a blob.
func (s *Store) syncBlob(ref Ref) error {
	f, err := s.openBlob(ref)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.steps.on(ref.path(), "sync blob", f.Sync)
}

// syncSmall syncs the bytes of a blob of the given size if KeepLater may have
// made it, in this process or an earlier one.
func (s *Store) syncSmall(ref Ref, size int64) error {
	if size > SmallContent {
		return nil
	}
	return s.syncBlob(ref)
}

// rewrite replaces a small blob by a new file with the same bytes.
func (s *Store) rewrite(ref Ref) error {
	b, err := s.Head(ref, SmallContent+1)
	if err != nil {
		return err
	}
	if Ref(sha256.Sum256(b)) != ref {
		return fmt.Errorf("blobs: the bytes of %s were lost: %w", ref, ErrDamaged)
	}
	st, err := s.Stage()
	if err != nil {
		return err
	}
	defer st.Drop() //nolint:errcheck // the next sweep removes what is left
	if _, err := st.Write(b); err != nil {
		return err
	}
	folder, err := s.root.folderFor(ref)
	if err != nil {
		return err
	}
	defer folder.Close()
	return st.publish(ref, folder)
}

// Redo makes the blob with these bytes, which a record has and which may not be
// on stable storage: see KeepLater. It replaces wrong bytes. A Settle after it
// puts the blob on stable storage.
func (s *Store) Redo(ref Ref, b []byte) error {
	if Ref(sha256.Sum256(b)) != ref {
		return fmt.Errorf("blobs: the bytes for %s are others: %w", ref, ErrDamaged)
	}
	if s.later.full() {
		if err := s.Settle(); err != nil {
			return err
		}
	}
	if s.nameLater(ref, b) {
		return nil
	}
	if s.touch(ref, b) == nil {
		s.later.add(ref, s)
		return nil
	}
	st, err := s.Stage()
	if err != nil {
		return err
	}
	defer st.Drop() //nolint:errcheck // the next sweep removes what is left
	if _, err := st.Write(b); err != nil {
		return err
	}
	kept, err := st.Keep()
	if err != nil {
		return err
	}
	kept.Release()
	return nil
}

// touch writes the bytes of a blob again, if they are right. A process that was
// killed may have failed to sync them, and later syncs skip what that one lost.
func (s *Store) touch(ref Ref, b []byte) error {
	if err := s.Damaged.Err(ref); err != nil {
		return err
	}
	info, err := s.Stat(ref)
	if err != nil {
		return err
	}
	f, err := s.root.OpenFile(ref.path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	got := make([]byte, len(b))
	if _, err := f.ReadAt(got, 0); err != nil || info.Size != int64(len(b)) || !bytes.Equal(got, b) {
		return errors.Join(ErrDamaged, err)
	}
	_, err = f.WriteAt(b, 0)
	return err
}

// hold reports whether one more content may be in memory.
func (l *later) hold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.top == nil || l.held == maxHeld {
		return false
	}
	l.held++
	return true
}

func (l *later) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
}

// full reports whether no more blobs may wait for Settle.
func (l *later) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over || len(l.refs)+l.syncing >= maxLater
}

// add notes a blob that has its name now.
func (l *later) add(ref Ref, s *Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(ref)
	if !l.running && !l.over {
		l.running = true
		l.work.Go(func() { l.run(s) })
	}
	if len(l.refs) == settleAt {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// take returns the blobs that wait to be synced. giveBack returns those that
// could not be. A blob that is made again meanwhile waits again.
func (l *later) take() map[Ref]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	refs := l.refs
	l.refs, l.syncing = nil, len(refs)
	return refs
}

func (l *later) giveBack(left map[Ref]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ref := range left {
		l.note(ref)
	}
	l.syncing = 0
}

func (l *later) note(ref Ref) {
	if l.refs == nil {
		l.refs = map[Ref]struct{}{}
	}
	l.refs[ref] = struct{}{}
}

// run settles until nothing is left.
func (l *later) run(s *Store) {
	wait := time.NewTimer(settleAfter)
	defer wait.Stop()
	for {
		select {
		case <-l.end:
			return
		case <-l.wake:
		case <-wait.C:
		}
		wait.Reset(settleAfter)
		_ = s.Settle() // OnFailure reports it; it is tried again
		l.mu.Lock()
		l.running = len(l.refs) > 0
		goOn := l.running
		l.mu.Unlock()
		if !goOn {
			return
		}
	}
}

// stop ends the goroutine. Nothing is named later from now on.
func (l *later) stop() {
	l.mu.Lock()
	if !l.over {
		l.over = true
		close(l.end)
	}
	l.mu.Unlock()
	l.work.Wait()
}
