package blobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// A fetch reads a content from the object store into a staged file, which becomes the
// blob when all of it has come and is right. There is one at a time for a content.
type fetch struct {
	cache *cache
	ref   Ref
	must  bool // also if there is no room for it
	ctx   context.Context
	end   context.CancelFunc

	files sync.RWMutex // held for reading to read file
	file  *os.File     // has the bytes that have come

	mu      sync.Mutex
	moved   *sync.Cond // one of the following has changed
	size    int64      // -1 while it is not known
	begun   bool       // the object store has answered
	written int64      // bytes that have come
	done    bool
	err     error // why it is done without the blob
	users   int   // who wait for it or read from it
}

// Bounds of a fetch.
const (
	fetchTries = 5
	fetchRetry = 100 * time.Millisecond // doubled after each try
	fetchNear  = 4 << 20                // so far behind what has come, a reader waits
	lingering  = 30 * time.Second       // that a fetch goes on without users
	almost     = 64 << 20               // or if no more than this is left
)

// errNoRoom says that a content may not be put on the disk.
var errNoRoom = fmt.Errorf("there is no room for a file from the object store: %w", syscall.ENOSPC)

// elsewhere reports whether the object store may help.
func elsewhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged)
}

// worse is the error for a content that could be got neither from the disk nor from
// the object store.
func worse(here, there error) error {
	if errors.Is(here, ErrDamaged) {
		return errors.Join(here, there)
	}
	return there
}

// get is Store.Get after the disk was asked.
func (c *cache) get(ref Ref, f *os.File, err error) (*os.File, error) {
	if !elsewhere(err) {
		c.hit(ref)
		return f, err
	}
	c.misses.Add(1)
	for range fetchTries { // it may be evicted at once
		if failed := c.whole(ref, -1, true); failed != nil {
			return nil, worse(err, failed)
		}
		if f, err = getHere(c.store, ref); !elsewhere(err) {
			break
		}
	}
	return f, err
}

// whole fetches a content and waits until it is on the disk.
func (c *cache) whole(ref Ref, size int64, must bool) error {
	for {
		f, err := c.join(ref, size, must)
		if err != nil {
			return err
		}
		err = f.wait(false)
		f.leave()
		if !must || f.must || err != errNoRoom { //nolint:errorlint // never wrapped
			return err
		}
	}
}

// head is Store.Head for a content that the disk does not have.
func (c *cache) head(ref Ref, limit int64, here error) (b []byte, err error) {
	c.misses.Add(1)
	err = c.again(c.ctx, func() (bool, error) {
		r, err := c.remote.Get(c.ctx, ref.RemoteName(), 0, limit)
		if err != nil {
			return false, err
		}
		defer r.Close()
		b, err = io.ReadAll(io.LimitReader(r, limit))
		c.fetched.Add(int64(len(b)))
		if err == nil && int64(len(b)) < limit && Ref(sha256.Sum256(b)) != ref {
			err = io.ErrUnexpectedEOF // or it is damaged
		}
		return false, err
	})
	if err != nil {
		return nil, worse(here, err)
	}
	return b, nil
}

// send is Store.Send for a content that the disk does not have. The blob is on the
// disk if it returns neither a reader nor an error.
func (c *cache) send(ref Ref, size int64, here error) (io.ReadSeekCloser, error) {
	c.misses.Add(1)
	var err error
	switch {
	case c.store.failing.failed(c.store.root) || c.store.failing.failed(c.store.uploads):
		err = errNoRoom
	case size <= provenFirst:
		if err = c.whole(ref, size, false); err == nil {
			return nil, nil
		}
	default:
		var f *fetch
		if f, err = c.join(ref, size, false); err != nil {
			break
		}
		if err = f.wait(true); err == nil {
			return &arriving{cache: c, ref: ref, size: size, from: f}, nil
		}
		f.leave()
	}
	if errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*Unwritable)) {
		return c.pass(ref, size)
	}
	return nil, worse(here, err)
}

// pass returns a reader that keeps nothing on the disk.
func (c *cache) pass(ref Ref, size int64) (io.ReadSeekCloser, error) {
	a := &arriving{cache: c, ref: ref, size: size, hash: sha256.New()}
	if !a.takeDirect() {
		return nil, fmt.Errorf("blobs: too many are being read: %w", ErrAway)
	}
	there, err := c.remote.Head(c.ctx, ref.RemoteName())
	if err == nil && there.Size != size {
		err = fmt.Errorf("blobs: the object store has %d bytes of %s in place of %d: %w", there.Size, ref, size, ErrDamaged)
	}
	if err != nil {
		_ = a.Close()
		return nil, away(err)
	}
	return a, nil
}

// away wraps an error of the object store.
func away(err error) error {
	if err == nil || elsewhere(err) || errors.Is(err, ErrAway) || errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*Unwritable)) {
		return err
	}
	return fmt.Errorf("blobs: %w: %w", ErrAway, err)
}

// heal fetches a content that is damaged on the disk, if the others leave room.
func (c *cache) heal(ref Ref) {
	if len(c.pulls) == maxPulls {
		return // Send fetches it, or the next round of the scrubber
	}
	if f, err := c.join(ref, -1, false); err == nil {
		f.leave()
	}
}

// join begins to fetch a content, or joins who fetch it already. The caller calls
// leave when it does not need the fetch any more.
func (c *cache) join(ref Ref, size int64, must bool) (*fetch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, away(c.ctx.Err())
	}
	if at, bad := c.bad[ref]; bad {
		if time.Since(at) < badFor {
			return nil, fmt.Errorf("blobs: the object store has wrong bytes of %s: %w", ref, ErrDamaged)
		}
		delete(c.bad, ref)
	}
	if f := c.fetches[ref]; f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.ctx.Err() == nil { // else leave has ended it
			f.users++
			return f, nil
		}
	}
	f := &fetch{cache: c, ref: ref, size: size, must: must, users: 1}
	f.moved = sync.NewCond(&f.mu)
	f.ctx, f.end = context.WithCancel(c.ctx)
	c.fetches[ref] = f
	c.work.Go(f.run)
	return f, nil
}

// wait waits until the fetch is done, or only until bytes begin to come.
func (f *fetch) wait(begun bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.done && !(begun && f.begun) {
		f.moved.Wait()
	}
	return f.err
}

// leave ends a use. Without users the fetch ends after a while.
func (f *fetch) leave() {
	f.mu.Lock()
	f.users--
	last, done, far := f.users == 0, f.done, f.size-f.written > almost
	f.mu.Unlock()
	switch {
	case last && done:
		f.close()
	case last && far:
		time.AfterFunc(lingering, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.users == 0 && f.size-f.written > almost {
				f.end()
			}
		})
	}
}

// close closes the file when nobody can read it any more.
func (f *fetch) close() {
	f.files.Lock()
	defer f.files.Unlock()
	if f.file != nil {
		_ = f.file.Close() // it was only read, or is not wanted
		f.file = nil
	}
}

// run fetches the content.
func (f *fetch) run() {
	c := f.cache
	defer f.end()
	err := f.fetch()
	c.mu.Lock()
	if c.fetches[f.ref] == f {
		delete(c.fetches, f.ref) // before others see that it is done, and fetch again
	}
	if errors.Is(err, ErrDamaged) {
		for old := range c.bad { // in random order, since any will do
			if len(c.bad) < maxBad {
				break
			}
			delete(c.bad, old)
		}
		c.bad[f.ref] = time.Now()
	}
	c.mu.Unlock()
	f.mu.Lock()
	f.done, f.err = true, away(err)
	unused := f.users == 0
	f.mu.Unlock()
	f.moved.Broadcast()
	if unused {
		f.close()
	}
	if err != nil && c.ctx.Err() == nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, context.Canceled) {
		c.log.Warn("a file could not be fetched from the object store", "sha256", f.ref.String(), "error", err)
	}
}

func (f *fetch) fetch() error {
	c := f.cache
	if err := f.start(); err != nil {
		return err
	}
	defer func() { <-c.pulls }()
	if f.size < 0 {
		var there Object
		if err := c.again(f.ctx, func() (_ bool, err error) { there, err = c.remote.Head(f.ctx, f.ref.RemoteName()); return false, err }); err != nil {
			return err
		}
		f.mu.Lock()
		f.size = there.Size
		f.mu.Unlock()
	}
	if c.room(f.size) {
		defer c.coming.Add(-f.size)
	} else if !f.must || c.full(f.size) {
		return errNoRoom
	}
	st, err := c.store.Stage()
	if err != nil {
		return err
	}
	defer st.Drop() //nolint:errcheck // the next sweep removes what is left
	f.files.Lock()
	f.file = st.file
	f.files.Unlock()
	if err := f.pull(st); err != nil {
		f.files.Lock() // the file is closed with the stage
		f.file = nil
		f.files.Unlock()
		return err
	}
	return f.keep(st)
}

// start waits until the fetch may run. Others may take long: after a while a visitor gets
// a content that is not kept.
func (f *fetch) start() error {
	select {
	case f.cache.pulls <- struct{}{}:
		return nil
	default:
	}
	var late <-chan time.Time
	if !f.must {
		late = time.After(10 * f.cache.retry)
	}
	select {
	case f.cache.pulls <- struct{}{}:
		return nil
	case <-late:
		return errNoRoom
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
}

// pull reads the content into the stage. It continues where an answer was cut off.
func (f *fetch) pull(st *Stage) error {
	c := f.cache
	buf := copyBuffers.Get().(*copyBuffer)
	defer copyBuffers.Put(buf)
	err := c.again(f.ctx, func() (further bool, err error) {
		before := st.Size()
		r, err := c.remote.Get(f.ctx, f.ref.RemoteName(), before, f.size-before)
		if err != nil {
			return false, err
		}
		defer r.Close()
		f.move(before)
		for st.Size() < f.size && err == nil {
			var n int
			n, err = r.Read(buf[:min(int64(len(buf)), f.size-st.Size())])
			c.fetched.Add(int64(n))
			if _, failed := st.Write(buf[:n]); failed != nil {
				return false, failed
			}
			f.move(st.Size())
		}
		if st.Size() == f.size {
			err = nil
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return st.Size() > before, err
	})
	if err == nil && st.Ref() != f.ref {
		return fmt.Errorf("blobs: the bytes of %s in the object store hash to %s: %w", f.ref, st.Ref(), ErrDamaged)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && f.ctx.Err() == nil {
		if there, failed := c.remote.Head(f.ctx, f.ref.RemoteName()); failed == nil && there.Size != f.size {
			err = fmt.Errorf("blobs: the object store has %d bytes of %s in place of %d: %w", there.Size, f.ref, f.size, ErrDamaged)
		}
	}
	return err
}

// move tells the readers how much has come.
func (f *fetch) move(written int64) {
	f.mu.Lock()
	f.begun, f.written = true, written
	f.mu.Unlock()
	f.moved.Broadcast()
}

// keep makes the staged bytes the blob. Readers wait meanwhile.
func (f *fetch) keep(st *Stage) error {
	f.files.Lock()
	defer f.files.Unlock()
	f.file = nil
	kept, err := st.keepHere()
	if err != nil {
		return err
	}
	defer kept.Release()
	f.cache.touch(f.ref)
	f.file, err = getHere(f.cache.store, f.ref)
	return err
}

// again calls fn up to five times until it succeeds, or more often while it gets
// further. It does not try again if there is no such object or the disk fails.
func (c *cache) again(ctx context.Context, fn func() (further bool, err error)) error {
	for try := 1; ; try++ {
		further, err := fn()
		if further {
			try = 1
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*Unwritable)) || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		if try == fetchTries {
			return away(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.retry << try):
		}
	}
}

// arriving reads a content that is coming from the object store. It returns the last
// byte only after the hash of all of them was right, if it has returned the others in
// order.
type arriving struct {
	cache *cache
	ref   Ref
	size  int64
	at    int64  // where the next read begins
	from  *fetch // nil if nothing is kept on the disk; then hash is not nil

	slot   bool          // of cache.direct
	stream io.ReadCloser // from the object store; may be nil
	next   int64         // where stream is
	hash   hash.Hash     // of the first hashed bytes
	hashed int64
}

func (a *arriving) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += a.at
	case io.SeekEnd:
		offset += a.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("blobs: seeking in %s: %w", a.ref, fs.ErrInvalid)
	}
	a.at = offset
	return offset, nil
}

func (a *arriving) Read(p []byte) (n int, err error) {
	if a.at >= a.size {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	p = p[:min(int64(len(p)), a.size-a.at)]
	if a.from == nil || a.stream != nil && a.next == a.at {
		n, err = a.readDirect(p)
	} else if n, err = a.readHere(p); n == 0 && err == nil {
		n, err = a.readDirect(p)
	}
	a.at += int64(n)
	return n, away(err)
}

// readHere reads what has come, and waits if it is near. It reads nothing if it is
// not.
func (a *arriving) readHere(p []byte) (int, error) {
	f := a.from
	f.mu.Lock()
	for {
		whole := f.done && f.err == nil
		there := f.written
		if !whole { // it may be wrong
			there = min(there, f.size-1)
		}
		if a.at < there {
			p = p[:min(int64(len(p)), there-a.at)]
			break
		}
		if f.done {
			f.mu.Unlock()
			return 0, f.err
		}
		if a.at > f.written+fetchNear && a.takeDirect() {
			f.mu.Unlock()
			return 0, nil
		}
		f.moved.Wait()
	}
	f.mu.Unlock()
	f.files.RLock()
	defer f.files.RUnlock()
	if f.file == nil { // it is failing
		return 0, cmp.Or(f.wait(false), ErrAway)
	}
	n, err := f.file.ReadAt(p, a.at)
	if n > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (a *arriving) takeDirect() bool {
	if a.slot {
		return true
	}
	select {
	case a.cache.direct <- struct{}{}:
		a.slot = true
	default:
	}
	return a.slot
}

// readDirect reads from an answer of the object store that begins at a.at.
func (a *arriving) readDirect(p []byte) (n int, err error) {
	err = a.cache.again(a.cache.ctx, func() (bool, error) {
		if a.stream != nil && a.next != a.at {
			a.drop()
		}
		if a.stream == nil {
			if a.stream, err = a.cache.remote.Get(a.cache.ctx, a.ref.RemoteName(), a.at, a.size-a.at); err != nil {
				a.stream = nil
				return false, err
			}
			a.next = a.at
		}
		n, err = a.stream.Read(p)
		if n > 0 {
			a.next += int64(n)
			a.cache.fetched.Add(int64(n))
			return true, nil
		}
		a.drop()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return false, err
	})
	if err != nil || a.hash == nil || a.at != a.hashed {
		return n, err
	}
	a.hash.Write(p[:n])
	if a.hashed += int64(n); a.hashed == a.size && Ref(a.hash.Sum(nil)) != a.ref {
		return 0, fmt.Errorf("blobs: the bytes of %s in the object store are others: %w", a.ref, ErrDamaged)
	}
	return n, nil
}

func (a *arriving) drop() {
	if a.stream != nil {
		_ = a.stream.Close() // it was only read
		a.stream = nil
	}
}

func (a *arriving) Close() error {
	a.drop()
	if a.slot {
		<-a.cache.direct
		a.slot = false
	}
	if a.from != nil {
		a.from.leave()
		a.from = nil
		a.size = 0
	}
	return nil
}
