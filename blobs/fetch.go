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

	"kist/blobs/flight"
)

// A fetch reads a content from the object store into a staged file, which becomes the
// blob when all of it has come and is right. There is one at a time for a content.
type fetch struct {
	flight.Flight // its callers wait for it or read from it
	cache         *cache
	ref           Ref
	must          bool // also if there is no room for it

	files sync.RWMutex // held for reading to read file
	file  *os.File     // has the bytes that have come; nil when it does not have a place for them any more

	mu      sync.Mutex
	moved   *sync.Cond // one of the following has changed, or it has ended
	size    int64      // -1 while it is not known
	begun   bool       // the object store has answered
	written int64      // bytes that have come
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

// errCrowd says that too many read from the object store.
var errCrowd = fmt.Errorf("blobs: too many are being read: %w", ErrAway)

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

// get is Store.Get for a content that the disk does not have; here says why.
func (c *cache) get(ref Ref, here error) (f *os.File, err error) {
	c.misses.Add(1)
	for range fetchTries { // it may be evicted at once
		if err := c.whole(ref, -1, true); err != nil {
			return nil, worse(here, err)
		}
		f, here = c.store.getHere(ref)
		if !elsewhere(here) {
			break
		}
	}
	return f, here
}

// whole fetches a content and waits until it is on the disk.
func (c *cache) whole(ref Ref, size int64, must bool) error {
	for {
		f, err := c.join(ref, size, must)
		if err != nil {
			return err
		}
		err = f.Wait(context.Background())
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
		if err != nil {
			return false, err
		}
		if int64(len(b)) < limit && Ref(sha256.Sum256(b)) != ref {
			return false, io.ErrUnexpectedEOF // or it is damaged
		}
		return false, nil
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
	r, err := c.sendKept(ref, size)
	if errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*Unwritable)) {
		return c.pass(ref, size)
	}
	if err != nil {
		return nil, worse(here, err)
	}
	return r, nil
}

// sendKept is send for a content that is kept on the disk.
func (c *cache) sendKept(ref Ref, size int64) (io.ReadSeekCloser, error) {
	if c.store.failing.failed(c.store.root) || c.store.failing.failed(c.store.uploads) {
		return nil, errNoRoom
	}
	if size <= provenFirst {
		return nil, c.whole(ref, size, false)
	}

	f, err := c.join(ref, size, false)
	if err != nil {
		return nil, err
	}
	if err := f.begins(); err != nil {
		f.leave()
		return nil, err
	}
	return &arriving{cache: c, ref: ref, size: size, from: f}, nil
}

// pass returns a reader that keeps nothing on the disk.
func (c *cache) pass(ref Ref, size int64) (io.ReadSeekCloser, error) {
	a := &arriving{cache: c, ref: ref, size: size, hash: sha256.New()}
	if !a.takeDirect() {
		return nil, errCrowd
	}
	there, err := c.remote.Head(c.ctx, ref.RemoteName())
	if err != nil {
		_ = a.Close()
		return nil, away(err)
	}
	if there.Size != size {
		_ = a.Close()
		return nil, wrongSize(ref, there.Size, size)
	}
	return a, nil
}

func wrongSize(ref Ref, got, want int64) error {
	return fmt.Errorf("blobs: the object store has %d bytes of %s in place of %d: %w", got, ref, want, ErrDamaged)
}

// away wraps an error of the object store.
func away(err error) error {
	if err == nil || elsewhere(err) || errors.Is(err, ErrAway) || errors.Is(err, syscall.ENOSPC) ||
		errors.As(err, new(*Unwritable)) {
		return err
	}
	return fmt.Errorf("blobs: %w: %w", ErrAway, err)
}

// heal fetches a content that is damaged on the disk, if the others leave room.
func (c *cache) heal(ref Ref) {
	if len(c.pulls) == maxPulls {
		return // Send fetches it, or the next round of the scrubber
	}
	f, err := c.join(ref, -1, false)
	if err != nil {
		return // as above
	}
	f.Stay()
	f.Leave()
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
	if f := c.fetches[ref]; f != nil && f.Join() {
		return f, nil
	}
	f := &fetch{cache: c, ref: ref, size: size, must: must}
	f.moved = sync.NewCond(&f.mu)
	ctx := f.Begin(c.ctx)
	c.fetches[ref] = f
	c.work.Go(func() { f.run(ctx) })
	return f, nil
}

// begins waits until bytes begin to come.
func (f *fetch) begins() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.begun && !f.Ended() {
		f.moved.Wait()
	}
	if f.Ended() {
		return f.Wait(context.Background())
	}
	return nil
}

// reaches waits until the byte at a place has come, and returns how many can be read then. It returns at if the fetch
// is far behind and the caller may read elsewhere, or if it has ended.
func (f *fetch) reaches(at int64, elsewhere func() bool) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.Ended() {
		there := min(f.written, f.size-1) // the last one comes when all were right
		if at < there {
			return there
		}
		if at > f.written+fetchNear && elsewhere() {
			return at
		}
		f.moved.Wait()
	}
	return at
}

// leave ends a use. Without others, the fetch goes on for a while.
func (f *fetch) leave() {
	if f.Ended() {
		f.Leave()
		return
	}
	time.AfterFunc(lingering, func() { f.Leave() })
}

// run fetches the content.
func (f *fetch) run(ctx context.Context) {
	c := f.cache
	err := f.fetch(ctx)

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

	f.End(away(err))
	f.mu.Lock()
	f.moved.Broadcast()
	f.mu.Unlock()
	if err != nil && c.ctx.Err() == nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, context.Canceled) {
		c.log.Warn("a file could not be fetched from the object store", "sha256", f.ref.String(), "error", err)
	}
}

func (f *fetch) fetch(ctx context.Context) error {
	c := f.cache
	if err := f.start(ctx); err != nil {
		return err
	}
	defer c.pulls.Give()
	if f.size < 0 {
		if err := f.ask(ctx); err != nil {
			return err
		}
	}

	arrived := func() {}
	if c.room(f.size) {
		arrived = sync.OnceFunc(func() { c.coming.Add(-f.size) })
	} else if !f.must || c.full(f.size) {
		return errNoRoom
	}
	defer arrived()

	st, err := c.store.Stage()
	if err != nil {
		return err
	}
	defer st.Drop() //nolint:errcheck // the next sweep removes what is left
	f.readFrom(st.file)
	err = f.pull(ctx, st)
	f.readFrom(nil) // the file is closed with the stage
	if err != nil {
		return err
	}

	arrived() // counted twice, it would be evicted for itself
	kept, err := st.keepHere()
	if err != nil {
		return err
	}
	kept.Release()
	c.touch(f.ref)
	return nil
}

// ask asks the object store for the size of the content.
func (f *fetch) ask(ctx context.Context) error {
	var there Object
	err := f.cache.again(ctx, func() (_ bool, err error) {
		there, err = f.cache.remote.Head(ctx, f.ref.RemoteName())
		return false, err
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.size = there.Size
	f.mu.Unlock()
	return nil
}

// readFrom changes the file that has the bytes which have come.
func (f *fetch) readFrom(file *os.File) {
	f.files.Lock()
	defer f.files.Unlock()
	f.file = file
}

// start waits until the fetch may run. Others may take long: after a while a visitor gets
// a content that is not kept.
func (f *fetch) start(ctx context.Context) error {
	if f.cache.pulls.Try() {
		return nil
	}
	if f.must {
		return f.cache.pulls.Take(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, 10*f.cache.retry)
	defer cancel()
	if f.cache.pulls.Take(soon) != nil {
		return cmp.Or(ctx.Err(), errNoRoom)
	}
	return nil
}

// pull reads the content into the stage. It continues where an answer was cut off.
func (f *fetch) pull(ctx context.Context, st *Stage) error {
	c := f.cache
	buf := copyBuffers.Get().(*copyBuffer)
	defer copyBuffers.Put(buf)
	err := c.again(ctx, func() (further bool, err error) { return f.pullOnce(ctx, st, buf) })
	if err == nil && st.Ref() != f.ref {
		return fmt.Errorf("blobs: the bytes of %s in the object store hash to %s: %w", f.ref, st.Ref(), ErrDamaged)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return err
	}

	there, failed := c.remote.Head(ctx, f.ref.RemoteName())
	if failed == nil && there.Size != f.size {
		return wrongSize(f.ref, there.Size, f.size)
	}
	return err
}

// pullOnce reads one answer of the object store into the stage, from where the stage ends. further
// says whether it read anything.
func (f *fetch) pullOnce(ctx context.Context, st *Stage, buf *copyBuffer) (further bool, err error) {
	before := st.Size()
	r, err := f.cache.remote.Get(ctx, f.ref.RemoteName(), before, f.size-before)
	if err != nil {
		return false, err
	}
	defer r.Close()

	f.move(before)
	for st.Size() < f.size {
		n, err := r.Read(buf[:min(int64(len(buf)), f.size-st.Size())])
		f.cache.fetched.Add(int64(n))
		if _, failed := st.Write(buf[:n]); failed != nil {
			return false, failed
		}
		f.move(st.Size())
		if st.Size() == f.size {
			break // whatever comes with the last byte
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return st.Size() > before, err
		}
	}
	return st.Size() > before, nil
}

// move tells the readers how much has come.
func (f *fetch) move(written int64) {
	if f.size-written <= almost {
		f.Stay()
	}
	f.mu.Lock()
	f.begun, f.written = true, written
	f.mu.Unlock()
	f.moved.Broadcast()
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

	file   *os.File      // the blob, after it was fetched; may be nil
	turn   bool          // of cache.direct
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
	direct := a.from == nil || a.stream != nil && a.next == a.at
	if !direct {
		n, err = a.readHere(p)
		direct = n == 0 && err == nil
	}
	if direct {
		n, err = a.readDirect(p)
	}
	a.at += int64(n)
	return n, away(err)
}

// readHere reads what has come, and waits if it is near. It reads nothing if it is
// not.
func (a *arriving) readHere(p []byte) (int, error) {
	f := a.from
	there := f.reaches(a.at, a.takeDirect)
	if there > a.at {
		f.files.RLock()
		defer f.files.RUnlock()
		if f.file != nil {
			return f.file.ReadAt(p[:min(int64(len(p)), there-a.at)], a.at)
		}
	} else if !f.Ended() {
		return 0, nil
	}
	if err := f.Wait(context.Background()); err != nil {
		return 0, err
	}
	return a.readWhole(p)
}

// readWhole reads from the blob. It reads nothing if that was evicted at once.
func (a *arriving) readWhole(p []byte) (int, error) {
	if a.file == nil {
		file, err := a.cache.store.getHere(a.ref)
		if elsewhere(err) && a.takeDirect() {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		a.file = file
	}
	n, err := a.file.ReadAt(p, a.at)
	if n > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		return 0, io.ErrUnexpectedEOF
	}
	return 0, err
}

func (a *arriving) takeDirect() bool {
	a.turn = a.turn || a.cache.direct.Try()
	return a.turn
}

// readDirect reads from an answer of the object store that begins at a.at.
func (a *arriving) readDirect(p []byte) (n int, err error) {
	err = a.cache.again(a.cache.ctx, func() (bool, error) {
		if a.stream != nil && a.next != a.at {
			a.drop()
		}
		if a.stream == nil {
			stream, err := a.cache.remote.Get(a.cache.ctx, a.ref.RemoteName(), a.at, a.size-a.at)
			if err != nil {
				return false, err
			}
			a.stream, a.next = stream, a.at
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
	a.hashed += int64(n)
	if a.hashed == a.size && Ref(a.hash.Sum(nil)) != a.ref {
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
	if a.file != nil {
		_ = a.file.Close() // it was only read
		a.file = nil
	}
	if a.turn {
		a.cache.direct.Give()
		a.turn = false
	}
	if a.from != nil {
		a.from.leave()
		a.from = nil
		a.size = 0
	}
	return nil
}
