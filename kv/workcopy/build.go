package workcopy

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"kist/blobs/disk"
	"kist/kv/journal"
	"kist/kv/table"
)

// These bound the memory of a builder, in bytes of keys and values.
const (
	sortBytes  = 8 << 20 // sorted at once
	batchBytes = 2 << 20 // in a bbolt transaction; its dirty pages take as much again
	mergeBytes = 4 << 20 // read ahead, for all runs together
)

// RunsSuffix is the end of the name of the file in which a builder sorts.
const RunsSuffix = ".runs"

// A Builder writes the contents of a journal into a new bbolt file. It takes changes
// in any order and uses bounded memory, by an external merge sort. It sorts changes in
// memory, a part at a time, and writes each part to a file of sorted runs. Finish
// merges the runs: the last change of a key wins, and removals vanish. Finish then
// fills bbolt in the order of its keys, so that its pages are full.
type Builder struct {
	Path    string
	Buckets *table.Buckets
	sort    int             // bytes sorted at once; sortBytes if 0
	tell    func(n, of int) // Finish reports n of so many bytes written; may be nil

	db   *bolt.DB
	part part
	file *os.File // the runs; nil if none were written
	end  int64    // of file
	size int      // bytes of keys and values in it
	runs []extent // oldest first
	last []byte   // the last key of the last run
}

// An extent is the place of a run in the file. A run is changes in the order of their
// keys, each key once.
type extent struct{ from, to int64 }

// Start begins a new file. It replaces any existing file at the path.
func (b *Builder) Start() error {
	if err := b.drop(); err != nil {
		return err
	}
	db, err := OpenCopy(b.Path)
	if err != nil {
		return err
	}
	b.db = db
	if b.sort == 0 {
		b.sort = sortBytes
	}
	return b.db.Update(func(tx *bolt.Tx) error { return table.Create(tx, b.Buckets) })
}

// Apply takes the next changes of the journal.
func (b *Builder) Apply(ops []journal.Op) error {
	for _, op := range ops {
		if _, found := b.Buckets.Find(op.Bucket); !found {
			return Inconsistent(fmt.Sprintf("the journal has a bucket of number %d, "+
				"which this version of kist does not know", op.Bucket))
		}
		if carries(op) {
			continue
		}
		b.part.add(op)
		if len(b.part.mem) >= b.sort {
			if err := b.spill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// spill writes the part in memory to the file of runs as a new run. A part whose keys
// follow those of the last run extends that run, as the parts of a snapshot do.
func (b *Builder) spill() error {
	b.part.order()
	if b.file == nil {
		file, err := os.OpenFile(b.Path+RunsSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("cannot sort the journal: %w", err)
		}
		b.file = file
	}
	if room, err := disk.Space(filepath.Dir(b.Path)); err == nil && room.Free < uint64(len(b.part.mem)) {
		return fmt.Errorf("cannot sort the journal: %w", syscall.ENOSPC)
	}

	from := b.end
	w := bufio.NewWriterSize(io.NewOffsetWriter(b.file, from), 256<<10)
	goesOn := len(b.runs) > 0 && bytes.Compare(b.part.key(0), b.last) > 0
	if !goesOn {
		b.last = b.last[:0]
	}
	var head []byte
	for i := range b.part.items {
		if b.part.outdone(i) {
			continue
		}
		key, value := b.part.key(i), b.part.value(i)
		shared := 0
		for shared < min(len(key), len(b.last)) && key[shared] == b.last[shared] {
			shared++
		}
		head = binary.AppendUvarint(head[:0], uint64(shared))
		head = binary.AppendUvarint(head, uint64(len(key)-shared))
		head = append(head, key[shared:]...)
		if value == nil {
			head = binary.AppendUvarint(head, 0)
		} else {
			head = binary.AppendUvarint(head, uint64(len(value))+1)
		}
		if _, err := w.Write(head); err != nil {
			return fmt.Errorf("cannot sort the journal: %w", err)
		}
		if _, err := w.Write(value); err != nil {
			return fmt.Errorf("cannot sort the journal: %w", err)
		}
		b.end += int64(len(head) + len(value))
		b.size += len(key) + len(value)
		b.last = append(b.last[:0], key...)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("cannot sort the journal: %w", err)
	}

	if goesOn {
		b.runs[len(b.runs)-1].to = b.end
	} else {
		b.runs = append(b.runs, extent{from, b.end})
	}
	b.part.reset(b.sort)
	return nil
}

// Finish writes all applied changes into the bbolt file.
func (b *Builder) Finish() error {
	all, err := b.streams()
	if err != nil {
		return err
	}
	total := b.size
	for i := range b.part.items {
		if !b.part.outdone(i) {
			total += len(b.part.key(i)) + len(b.part.value(i))
		}
	}
	out := batch{db: b.db, buckets: b.Buckets}
	defer out.giveUp()
	var last []byte
	read := 0
	for len(all) > 0 {
		s := all[0]
		if !bytes.Equal(s.key, last) { // the newest change of the key comes first
			last = append(last[:0], s.key...)
			if s.value != nil {
				if err := out.put(s.key, s.value); err != nil {
					return err
				}
			}
		}
		read += len(s.key) + len(s.value)
		if b.tell != nil {
			b.tell(read, total)
		}
		more, err := s.next()
		if err != nil {
			return fmt.Errorf("cannot sort the journal: %w", err)
		}
		if more {
			heap.Fix(&all, 0)
		} else {
			heap.Pop(&all)
		}
	}
	if err := out.flush(); err != nil {
		return err
	}
	b.part = part{}
	return b.dropRuns()
}

// streams returns the runs and the part in memory, each at its first key.
func (b *Builder) streams() (merge, error) {
	var all merge
	for i, r := range b.runs {
		ahead := min(max(mergeBytes/len(b.runs), 4<<10), 256<<10)
		f := &runReader{r: bufio.NewReaderSize(io.NewSectionReader(b.file, r.from, r.to-r.from), ahead)}
		all = append(all, &stream{age: i, step: f.step})
	}
	b.part.order()
	all = append(all, &stream{age: len(b.runs), step: b.part.step})
	for i := 0; i < len(all); {
		more, err := all[i].next()
		if err != nil {
			return nil, fmt.Errorf("cannot sort the journal: %w", err)
		}
		if more {
			i++
		} else {
			all = slices.Delete(all, i, i+1)
		}
	}
	heap.Init(&all)
	return all, nil
}

// Close closes the bbolt file and leaves it in place.
func (b *Builder) Close() error {
	err := b.dropRuns()
	if b.db != nil {
		err = errors.Join(err, b.db.Close())
	}
	b.db, b.part = nil, part{}
	return err
}

// drop closes and removes the files.
func (b *Builder) drop() error {
	err := errors.Join(b.Close(), Remove(b.Path))
	*b = Builder{Path: b.Path, Buckets: b.Buckets, sort: b.sort, tell: b.tell}
	return err
}

func (b *Builder) dropRuns() error {
	var err error
	if b.file != nil {
		err = b.file.Close()
	}
	b.file, b.runs, b.end, b.size = nil, nil, 0, 0
	return errors.Join(err, Remove(b.Path+RunsSuffix))
}

// A part is the changes in memory. Each key has the number of its bucket in front, so
// that changes sort by bucket and then by key.
type part struct {
	mem   []byte
	items []item
	at    int // position of step
}

// item is a change: where its key begins in memory, and the lengths of the key and of
// the value after it; -1 is a removal.
type item struct {
	at         uint32
	key, value int32
}

func (p *part) add(op journal.Op) {
	it := item{uint32(len(p.mem)), int32(len(op.Key)) + 1, int32(len(op.Value))}
	if op.Value == nil {
		it.value = -1
	}
	p.mem = append(append(append(p.mem, op.Bucket), op.Key...), op.Value...)
	p.items = append(p.items, it)
}

func (p *part) key(i int) []byte { return p.keyOf(p.items[i]) }

func (p *part) keyOf(it item) []byte {
	end := it.at + uint32(it.key)
	return p.mem[it.at:end:end]
}

// value is nil for a removal.
func (p *part) value(i int) []byte {
	it := p.items[i]
	if it.value < 0 {
		return nil
	}
	from := it.at + uint32(it.key)
	return p.mem[from : from+uint32(it.value)]
}

// order sorts the changes by key, and changes of the same key by age.
func (p *part) order() {
	compare := func(x, y item) int { return bytes.Compare(p.keyOf(x), p.keyOf(y)) }
	if !slices.IsSortedFunc(p.items, compare) {
		slices.SortStableFunc(p.items, compare)
	}
}

// outdone reports whether a later change of the same key follows.
func (p *part) outdone(i int) bool {
	return i+1 < len(p.items) && bytes.Equal(p.key(i), p.key(i+1))
}

// reset empties the part. It releases memory that one large change needed.
func (p *part) reset(limit int) {
	if cap(p.mem) > 2*limit {
		p.mem = nil
	}
	p.mem, p.items = p.mem[:0], p.items[:0]
}

func (p *part) step(s *stream) (bool, error) {
	for p.at < len(p.items) && p.outdone(p.at) {
		p.at++
	}
	if p.at == len(p.items) {
		return false, nil
	}
	s.key, s.value = p.key(p.at), p.value(p.at)
	p.at++
	return true, nil
}

// A stream yields changes in the order of their keys, each key once.
type stream struct {
	key, value []byte // of the current change; valid until the next step
	age        int    // larger is newer
	step       func(*stream) (bool, error)
}

func (s *stream) next() (more bool, err error) { return s.step(s) }

// merge is a heap of streams. The first has the smallest key, and is the newest of
// those with the same key.
type merge []*stream

func (m merge) Len() int { return len(m) }

func (m merge) Swap(i, k int) { m[i], m[k] = m[k], m[i] }

func (m merge) Less(i, k int) bool {
	if c := bytes.Compare(m[i].key, m[k].key); c != 0 {
		return c < 0
	}
	return m[i].age > m[k].age
}

func (m *merge) Push(s any) { *m = append(*m, s.(*stream)) }

func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// runReader reads a run.
type runReader struct {
	r          *bufio.Reader
	key, value []byte
}

func (f *runReader) step(s *stream) (bool, error) {
	shared, err := binary.ReadUvarint(f.r)
	if err == io.EOF { //nolint:errorlint // the end of the run, between two changes
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := binary.ReadUvarint(f.r)
	if err != nil {
		return false, err
	}
	f.key, err = f.fill(f.key, int(shared), int(n))
	if err != nil {
		return false, err
	}
	s.key, s.value = f.key, nil

	n, err = binary.ReadUvarint(f.r)
	if err != nil {
		return false, err
	}
	if n == 0 { // a removal
		return true, nil
	}
	if cap(f.value) > batchBytes {
		f.value = nil // releases the memory of one large value
	}
	f.value, err = f.fill(f.value, 0, int(n-1))
	if err != nil {
		return false, err
	}
	s.value = f.value
	if s.value == nil {
		s.value = []byte{}
	}
	return true, nil
}

// fill reads n bytes and puts them after the first keep bytes of b.
func (f *runReader) fill(b []byte, keep, n int) ([]byte, error) {
	b = slices.Grow(b[:keep], n)[:keep+n]
	_, err := io.ReadFull(f.r, b[keep:])
	return b, err
}

// A batch fills a bbolt file with keys in order, one transaction at a time.
type batch struct {
	db      *bolt.DB
	buckets *table.Buckets
	tx      *bolt.Tx
	number  byte
	bucket  *bolt.Bucket
	values  []byte // bbolt reads them when the transaction is committed
	bytes   int
}

// put adds a key, which begins with the number of its bucket.
func (o *batch) put(key, value []byte) error {
	if o.tx == nil {
		tx, err := o.db.Begin(true)
		if err != nil {
			return fmt.Errorf("cannot write the working copy: %w", err)
		}
		o.tx, o.number = tx, 0
	}
	if o.number != key[0] {
		o.number, o.bucket = key[0], o.tx.Bucket([]byte(o.buckets[key[0]].Name))
		o.bucket.FillPercent = 1 // every key comes after the existing ones
	}
	switch at := len(o.values); {
	case at+len(value) <= cap(o.values):
		o.values = append(o.values, value...)
		value = o.values[at:]
	default:
		value = bytes.Clone(value)
	}
	if err := o.bucket.Put(key[1:], value); err != nil {
		return fmt.Errorf("cannot write the working copy: bucket %s: %w", o.buckets[key[0]].Name, err)
	}
	o.bytes += len(key) + len(value)
	if o.bytes < batchBytes {
		return nil
	}
	return o.flush()
}

// flush commits the current transaction.
func (o *batch) flush() error {
	if o.tx == nil {
		return nil
	}
	if err := o.tx.Commit(); err != nil {
		return fmt.Errorf("cannot write the working copy: %w", err)
	}
	if o.values == nil {
		o.values = make([]byte, 0, batchBytes)
	}
	o.tx, o.bytes, o.values = nil, 0, o.values[:0]
	return nil
}

// giveUp rolls back the current transaction, if there is one.
func (o *batch) giveUp() {
	if o.tx != nil {
		_ = o.tx.Rollback() // its changes are not needed
	}
}
