package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"kist/blobs/disk/cut"
)

// memory is a folder that knows what a power cut would leave of it.
type memory struct {
	// fail is called before each step and may end it with an error. after is
	// called after each step that changes something. Both run without the lock.
	fail  func(step, name string) error
	after func()
	lazy  bool         // syncing files does nothing
	open  atomic.Int32 // files

	mu     sync.Mutex
	rnd    *rand.Rand
	seen   map[string]*inode // as programs see it
	stable map[string]*inode // as it is after a power cut
	moves  []move            // of names; a power cut keeps or loses each
}

// move gives a file a name, or removes it.
type move struct {
	name string
	to   *inode
}

// inode is a file. Programs see data.
type inode struct {
	data []byte
	cut.File
}

const sector = 512

func newMemory(rnd *rand.Rand) *memory {
	return &memory{rnd: rnd, seen: map[string]*inode{}, stable: map[string]*inode{}}
}

// step is called for every change of the folder.
func (m *memory) step(name, file string, do func()) error {
	if m.fail != nil {
		if err := m.fail(name, file); err != nil {
			return &fs.PathError{Op: name, Path: file, Err: err}
		}
	}
	m.mu.Lock()
	do()
	m.mu.Unlock()
	if m.after != nil && !slices.Contains([]string{"list", "open", "size"}, name) {
		m.after()
	}
	return nil
}

// cut returns what a power cut at this moment may leave.
func (m *memory) cut(rnd *rand.Rand) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := maps.Clone(m.stable)
	for _, move := range m.moves {
		if rnd.IntN(2) == 0 {
			continue
		}
		delete(left, move.name)
		if move.to != nil {
			left[move.name] = move.to
		}
	}
	c := newMemory(rnd)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		b := left[name].Cut(rnd)
		c.stable[name] = &inode{b, cut.Synced(sector, b)}
	}
	c.seen = maps.Clone(c.stable)
	return c
}

// copied returns the folder as programs see it.
func (m *memory) copied() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemory(m.rnd)
	for name, f := range m.seen {
		c.seen[name] = &inode{bytes.Clone(f.data), cut.Synced(sector, f.data)}
	}
	c.stable = maps.Clone(c.seen)
	return c
}

func (m *memory) Names() ([]string, error) {
	var names []string
	err := m.step("list", ".", func() { names = slices.Collect(maps.Keys(m.seen)) })
	return names, err
}

func (m *memory) Open(name string) (File, error) {
	var f *inode
	if err := m.step("open", name, func() { f = m.seen[name] }); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	m.open.Add(1)
	return &memoryFile{m, name, f}, nil
}

func (m *memory) Publish(name string, fill func(io.Writer) error) error {
	var b bytes.Buffer
	f := &inode{File: cut.File{Block: sector}}
	if err := fill(fillWriter{m, name, &b}); err != nil {
		return err
	}
	if err := m.step("sync new", name, func() { f.data, f.File = b.Bytes(), cut.Synced(sector, b.Bytes()) }); err != nil {
		return err
	}
	if err := m.step("link", name, func() {
		m.seen[name] = f
		m.moves = append(m.moves, move{name, f})
	}); err != nil {
		return err
	}
	return m.Sync()
}

func (m *memory) Sync() error {
	return m.step("sync folder", ".", func() { m.stable, m.moves = maps.Clone(m.seen), nil })
}

type fillWriter struct {
	m    *memory
	name string
	b    *bytes.Buffer
}

func (w fillWriter) Write(p []byte) (int, error) {
	if err := w.m.step("fill", w.name, func() { w.b.Write(p) }); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (m *memory) Remove(name string) error {
	found := false
	err := m.step("remove", name, func() {
		_, found = m.seen[name]
		if found {
			delete(m.seen, name)
			m.moves = append(m.moves, move{name: name})
		}
	})
	if err == nil && !found {
		err = &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	return err
}

func (m *memory) Close() error { return nil }

type memoryFile struct {
	m    *memory
	name string
	*inode
}

func (f *memoryFile) Close() error { f.m.open.Add(-1); return nil }

func (f *memoryFile) Size() (size int64, err error) {
	err = f.m.step("size", f.name, func() { size = int64(len(f.data)) })
	return size, err
}

func (f *memoryFile) ReadAt(b []byte, off int64) (n int, err error) {
	if f.m.fail != nil {
		if err := f.m.fail("read", f.name); err != nil {
			return 0, err
		}
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if off < int64(len(f.data)) {
		n = copy(b, f.data[off:])
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

// WriteAt writes in several steps. Each may fail for lack of space.
func (f *memoryFile) WriteAt(b []byte, off int64) (int, error) {
	for done := 0; done < len(b); {
		part := b[done:min(done+2048, len(b))]
		at := int(off) + done
		if err := f.m.step("write", f.name, func() { f.write(at, part) }); err != nil {
			return done, err
		}
		done += len(part)
	}
	return len(b), nil
}

func (f *memoryFile) Truncate(size int64) error {
	return f.m.step("truncate", f.name, func() { f.truncate(int(size)) })
}

func (f *memoryFile) Datasync() error {
	if f.m.lazy {
		return nil
	}
	err := f.m.step("sync", f.name, func() { f.Sync(f.data) })
	if errors.Is(err, syscall.EIO) {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		f.Forget(f.data, f.m.rnd)
	}
	return err
}

func (f *inode) write(at int, b []byte) {
	if end := at + len(b); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	copy(f.data[at:], b)
	f.Changed(f.data, at, at+len(b))
}

func (f *inode) truncate(size int) {
	if size > len(f.data) {
		f.data = append(f.data, make([]byte, size-len(f.data))...)
	}
	f.data = f.data[:size:size]
	f.Changed(f.data, size, size+1)
}

// book is the content of a store: bucket and key to value.
type book struct {
	State
	entries map[string]string
}

// with returns the book after one more record with the changes.
func (b book) with(r *Record, ops []Op) book {
	next := book{State{Seq: b.Seq + 1}, maps.Clone(b.entries)}
	if next.entries == nil {
		next.entries = map[string]string{}
	}
	r.Reset(b.Digest)
	for _, op := range ops {
		r.Add(op, next.set(op))
	}
	next.Digest = r.Digest()
	return next
}

// set makes a change and returns the previous value.
func (b book) set(op Op) (old []byte) {
	k := string(append([]byte{op.Bucket}, op.Key...))
	if v, found := b.entries[k]; found {
		old = []byte(v)
	}
	delete(b.entries, k)
	if op.Value != nil {
		b.entries[k] = string(op.Value)
	}
	return old
}

func (b book) all() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for k, v := range b.entries {
			if !yield(Op{k[0], []byte(k[1:]), []byte(v)}) {
				return
			}
		}
	}
}

func (b book) is(other book) bool {
	return b.State == other.State && maps.Equal(b.entries, other.entries)
}

// replay returns the content of the journal. Reading it without an error
// includes a check of the digest.
func replay(j *Journal) (book, Replayed, error) {
	var b book
	done, err := j.Replay(func() error { b.entries = map[string]string{}; return nil }, func(ops []Op) error {
		for _, op := range ops {
			b.set(op)
		}
		return nil
	})
	b.State = done.State
	if err != nil {
		return b, done, err
	}
	var digest Digest
	var scratch []byte
	for op := range b.all() {
		scratch = digest.Add(op, scratch)
	}
	if digest != b.Digest {
		return b, done, fmt.Errorf(
			"record %d says that the digest is %016x, and what there is has %016x", b.Seq, uint64(b.Digest), uint64(digest),
		)
	}
	return b, done, nil
}

// problems returns what Check finds, without what recent mends.
func problems(j *Journal) error {
	var all error
	return errors.Join(j.Check(func(int64) {}, func(err error) {
		if !errors.As(err, new(*Mended)) {
			all = errors.Join(all, err)
		}
	}), all)
}

// someOps are changes of a store with few keys, values of all lengths.
func someOps(rnd *rand.Rand) []Op {
	ops := make([]Op, 1+rnd.IntN(6))
	for i := range ops {
		ops[i] = Op{Bucket: byte(rnd.IntN(3)), Key: fmt.Appendf(nil, "key %d", rnd.IntN(12))}
		if rnd.IntN(4) > 0 {
			ops[i].Value = someBytes(rnd, []int{0, 5, 60, 700, 3000}[rnd.IntN(5)])
		}
	}
	return ops
}

func someBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rnd.Uint64())
	}
	return b[:n]
}

// Small enough to be filled often.
func init() { recentSize = 6 << 10 }

// withoutRecent removes recent, for tests of what the logs
// alone hold.
func withoutRecent(m *memory) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, RecentName)
	return m
}

// noRoom makes a journal do without recent.
func noRoom() (Space, error) { return Space{}, nil }
