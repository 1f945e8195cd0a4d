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
	"syscall"
)

// memory is a folder that knows what a power cut would leave of it.
type memory struct {
	// fail is asked before each step and may end it with an error; after is
	// called behind each that changes something. Both run without the lock.
	fail  func(step, name string) error
	after func()
	lazy  bool // syncing files does nothing

	mu     sync.Mutex
	rnd    *rand.Rand
	seen   map[string]*inode // by programs
	stable map[string]*inode // after a power cut
	moves  []move            // of names, that a power cut leaves or does not
}

// move gives a name to a file, or takes it away from any.
type move struct {
	name string
	to   *inode
}

// inode is a file. Programs see data. Stable storage has disk, and in place of
// each block that is dirty perhaps one of its later versions.
type inode struct {
	data, disk []byte
	dirty      map[int][][]byte
	sizes      []int // that it has had since it was synced
}

const sector = 512

func newMemory(rnd *rand.Rand) *memory {
	return &memory{rnd: rnd, seen: map[string]*inode{}, stable: map[string]*inode{}}
}

// step is what every change of the folder comes through.
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

// cut is what a power cut at this moment may leave.
func (m *memory) cut(rnd *rand.Rand) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := maps.Clone(m.stable)
	for _, move := range m.moves {
		if rnd.IntN(2) == 0 {
			continue
		}
		if delete(left, move.name); move.to != nil {
			left[move.name] = move.to
		}
	}
	c := newMemory(rnd)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		b := left[name].cut(rnd)
		c.stable[name] = &inode{data: b, disk: bytes.Clone(b), dirty: map[int][][]byte{}}
	}
	c.seen = maps.Clone(c.stable)
	return c
}

// copied is the folder as programs see it.
func (m *memory) copied() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemory(m.rnd)
	for name, f := range m.seen {
		c.seen[name] = &inode{data: bytes.Clone(f.data), disk: bytes.Clone(f.data), dirty: map[int][][]byte{}}
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
	return &memoryFile{m, name, f}, nil
}

func (m *memory) Publish(name string, fill func(io.Writer) error) error {
	var b bytes.Buffer
	f := &inode{dirty: map[int][][]byte{}}
	if err := fill(fillWriter{m, name, &b}); err != nil {
		return err
	}
	if err := m.step("sync new", name, func() { f.data, f.disk = b.Bytes(), bytes.Clone(b.Bytes()) }); err != nil {
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
		if _, found = m.seen[name]; found {
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

func (f *memoryFile) Close() error { return nil }

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

// WriteAt writes in several steps, each of which may fail for want of room.
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
	err := f.m.step("sync", f.name, f.sync)
	if errors.Is(err, syscall.EIO) {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		f.forget(f.m.rnd)
	}
	return err
}

// block is what programs see of a block.
func (f *inode) block(n int) []byte {
	return f.data[min(n*sector, len(f.data)):min((n+1)*sector, len(f.data))]
}

func (f *inode) touch(from, to int) {
	for n := from / sector; n*sector < to; n++ {
		f.dirty[n] = append(f.dirty[n], bytes.Clone(f.block(n)))
	}
	f.sizes = append(f.sizes, len(f.data))
}

func (f *inode) write(at int, b []byte) {
	if end := at + len(b); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	copy(f.data[at:], b)
	f.touch(at, at+len(b))
}

func (f *inode) truncate(size int) {
	if size > len(f.data) {
		f.data = append(f.data, make([]byte, size-len(f.data))...)
	}
	f.data = f.data[:size:size]
	f.touch(size, size+1)
}

// sized is a copy of b with that size; what is new in it is zero.
func sized(b []byte, size int) []byte {
	c := make([]byte, size)
	copy(c, b)
	return c
}

// put makes a version of a block part of what is on the disk.
func put(disk []byte, n int, version []byte) {
	if n*sector >= len(disk) {
		return
	}
	b := disk[n*sector : min((n+1)*sector, len(disk))]
	clear(b[copy(b, version):])
}

func (f *inode) sync() {
	f.disk = sized(f.disk, len(f.data))
	for n := range f.dirty {
		put(f.disk, n, f.block(n))
	}
	f.dirty, f.sizes = map[int][][]byte{}, nil
}

// forget is a sync that fails the way of Linux: what could not be written
// counts as written from then on.
func (f *inode) forget(rnd *rand.Rand) {
	f.disk = f.cut(rnd)
	f.dirty, f.sizes = map[int][][]byte{}, []int{len(f.data)}
}

// cut is what a power cut may leave of the file.
func (f *inode) cut(rnd *rand.Rand) []byte {
	size := len(f.disk)
	if n := rnd.IntN(len(f.sizes) + 1); n > 0 {
		size = f.sizes[n-1]
	}
	b := sized(f.disk, size)
	for _, n := range slices.Sorted(maps.Keys(f.dirty)) {
		versions := f.dirty[n]
		if v := rnd.IntN(2 * len(versions)); v < len(versions) {
			put(b, n, versions[v])
		}
	}
	return b
}

// book is what a store holds: bucket and key to value.
type book struct {
	State
	entries map[string]string
}

// with is the book after one more record with the changes.
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

// set makes a change and returns what was there before.
func (b book) set(op Op) (old []byte) {
	k := string(append([]byte{op.Bucket}, op.Key...))
	if v, found := b.entries[k]; found {
		old = []byte(v)
	}
	if delete(b.entries, k); op.Value != nil {
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

// replay is what the journal holds. That it has the digest it says is part of
// its being read without an error.
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
		return b, done, fmt.Errorf("record %d says that the digest is %016x, and what there is has %016x", b.Seq, uint64(b.Digest), uint64(digest))
	}
	return b, done, nil
}

// problems is what Check finds.
func problems(j *Journal) error {
	var all error
	return errors.Join(j.Check(func(int64) {}, func(err error) { all = errors.Join(all, err) }), all)
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
