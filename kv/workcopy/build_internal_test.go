package workcopy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv/journal"
	"kist/kv/kvtest/needs"
	"kist/kv/table"
)

// built returns the contents of a built file, by bucket and key.
func built(t *testing.T, b *Builder) map[string]string {
	t.Helper()
	is := is.New(t)
	got := map[string]string{}
	is.NoErr(b.db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		for op := range Everything(table.On(tx, 0), layout) {
			got[string(append([]byte{op.Bucket}, op.Key...))] = string(op.Value)
		}
		return nil
	}))
	return got
}

// layout has the buckets that these tests write to.
var layout = &table.Buckets{
	1: {No: 1, Name: "one"}, 6: {No: 6, Name: "six"}, 7: {No: 7, Name: "seven"}, 9: {No: 9, Name: "nine"},
	50: {No: 50, Name: "fifty"}, 51: {No: 51, Name: "fifty-one"},
}

// A builder keeps the last change of each key, however little it sorts at once, and
// does not keep references to its input.
func TestBuilderModel(t *testing.T) {
	t.Parallel()
	numbers := []byte{1, 6, 7, 9, 50, 51}
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			rnd := rand.New(rand.NewPCG(seed, 7))
			path := filepath.Join(t.TempDir(), "kist.db")
			b := &Builder{Buckets: layout, Path: path, sort: []int{1, 50, 400, 5000, sortBytes}[seed%5]}
			written, of := 0, 0
			b.tell = func(n, total int) {
				is.True(n >= written && n <= total)
				written, of = n, total
			}
			is.NoErr(b.Start())
			if seed%3 == 0 { // a snapshot that turns out to be damaged half way
				is.NoErr(b.Apply([]journal.Op{{Bucket: 1, Key: []byte("gone"), Value: make([]byte, 1000)}}))
				is.NoErr(b.Start())
			}
			want := map[string]string{}
			add := func(number byte, key, value []byte) {
				memory := append(bytes.Clone(key), value...)
				op := journal.Op{Bucket: number, Key: memory[:len(key)], Value: memory[len(key):]}
				at := string(append([]byte{number}, key...))
				if value == nil {
					op.Value = nil
					delete(want, at)
				} else {
					want[at] = string(value)
				}
				is.NoErr(b.Apply([]journal.Op{op}))
				for i := range memory {
					memory[i] = 'x'
				}
			}
			if seed%2 == 0 { // a snapshot: everything in its order
				for _, number := range numbers {
					for n := range rnd.IntN(100) {
						add(number, fmt.Appendf(nil, "key %04d", n), bytes.Repeat([]byte("s"), rnd.IntN(80)))
					}
				}
			}
			for range rnd.IntN(2000) {
				key := fmt.Appendf(nil, "key %04d", rnd.IntN(150))
				if rnd.IntN(10) == 0 {
					key = key[:1+rnd.IntN(len(key))]
				}
				var value []byte
				switch rnd.IntN(8) {
				case 0, 1:
				case 2:
					value = []byte{}
				case 3:
					value = bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(20_000))
				default:
					value = bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(60))
				}
				add(numbers[rnd.IntN(len(numbers))], key, value)
			}
			is.NoErr(b.Finish())
			is.Equal(built(t, b), want)
			is.True(written == of)
			is.NoErr(b.Close())
			left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
			is.NoErr(err)
			is.Equal(left, []string{path}) // no runs
		})
	}
}

// Full pages, and memory that does not grow with what is built.
func TestBuilderPacks(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	b := &Builder{Buckets: layout, Path: filepath.Join(t.TempDir(), "kist.db")}
	is.NoErr(b.Start())
	const n, value = 400_000, 100
	rnd := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	op := []journal.Op{{Bucket: 6, Key: make([]byte, 33), Value: bytes.Repeat([]byte("v"), value)}}
	for range n {
		for i := 25; i < 33; i++ {
			op[0].Key[i] = byte(rnd.Uint32())
		}
		is.NoErr(b.Apply(op))
	}
	is.True(len(b.runs) > 3)
	is.NoErr(b.Finish())
	runtime.ReadMemStats(&after)
	info, err := os.Stat(b.Path)
	is.NoErr(err)
	raw := int64(n * (33 + value + 16)) // 16 bytes of bbolt's for each
	t.Logf(
		"%.2f of the least size; %d MiB of heap taken from the system", float64(info.Size())/float64(raw),
		(after.HeapSys-before.HeapSys)>>20,
	)
	is.True(info.Size() < raw*115/100)
	is.True(after.HeapSys-before.HeapSys < 64<<20)
	_, entries, err := ContentDigest(b.db, layout)
	is.NoErr(err)
	is.Equal(entries, n)
	is.NoErr(b.Close())
}

// Contents that a record carries are told from other data of the store.
func TestCarried(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	key := append([]byte("content "), bytes.Repeat([]byte{7}, 32)...)
	var got []string
	is.NoErr(Carried(func(ref [32]byte, b []byte) error {
		is.Equal(ref[:], key[8:])
		got = append(got, string(b))
		return nil
	})([]journal.Op{
		{Bucket: 1, Key: key, Value: []byte("carried")},
		{Bucket: 1, Key: key}, // its removal
		{Bucket: 2, Key: key, Value: []byte("another bucket")},
		{Bucket: 1, Key: key[:39], Value: []byte("too short")},
		{Bucket: 1, Key: append(bytes.Clone(key), 7), Value: []byte("too long")},
		{Bucket: 1, Key: bytes.Repeat([]byte{7}, 40), Value: []byte("another key")},
		{Bucket: 1, Key: key, Value: []byte{}},
	}))
	is.Equal(got, []string{"carried", ""})
}

// A builder stays within its memory bounds, however large single changes are and
// however many runs there are, and releases the memory of one large change.
func TestBuilderBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const sort = 10_000
	b := &Builder{Buckets: layout, Path: filepath.Join(t.TempDir(), "kist.db"), sort: sort}
	is.NoErr(b.Start())
	const large = batchBytes + 1
	for n := range 200 {
		size := 1000
		if n%50 == 0 {
			size = large
		}
		is.NoErr(b.Apply([]journal.Op{{Bucket: 1, Key: fmt.Appendf(nil, "%03d", 200-n), Value: make([]byte, size)}}))
		is.True(len(b.part.mem) < sort)
		if len(b.part.mem) == 0 { // it was just written
			is.True(cap(b.part.mem) <= 2*sort)
		}
	}
	is.True(len(b.runs) > 15)
	is.NoErr(b.Finish())
	is.Equal(cap(b.part.mem)+cap(b.part.items), 0)
	is.NoErr(b.Close())

	// A reader of a run releases the memory of a large value at the next value.
	values := []int{large, 10, 10}
	var run []byte
	for i, n := range values {
		run = append(binary.AppendUvarint(append(run, 0, 1, byte('a'+i)), uint64(n)+1), make([]byte, n)...)
	}
	f := &runReader{r: bufio.NewReader(bytes.NewReader(run))}
	var at stream
	for _, n := range values {
		more, err := f.step(&at)
		is.NoErr(err)
		is.True(more)
		is.Equal(len(at.value), n)
		is.True(n == large || cap(f.value) <= batchBytes)
	}

	// A transaction ends as soon as it has batchBytes.
	db, err := OpenCopy(filepath.Join(t.TempDir(), "kist.db"))
	is.NoErr(err)
	is.NoErr(db.Update(func(tx *bolt.Tx) error { return table.Create(tx, layout) }))
	out := batch{db: db, buckets: layout}
	commits := 0
	for n := range 100 {
		is.NoErr(out.put(fmt.Appendf([]byte{1}, "%03d", n), make([]byte, batchBytes/10)))
		is.True(out.bytes < batchBytes)
		is.True(cap(out.values) <= batchBytes)
		if out.tx == nil {
			commits++
		}
	}
	is.Equal(commits, 10)
	is.NoErr(out.flush())
	is.NoErr(db.Close())
}

// A build that fails on a full disk, while sorting or while writing the working copy,
// leaves nothing behind.
func TestBuilderOnFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /dev/full")
	}
	is := is.New(t)
	b := &Builder{Buckets: layout, Path: filepath.Join(t.TempDir(), "kist.db"), sort: 1000}
	is.NoErr(b.Start())
	is.NoErr(os.Symlink("/dev/full", b.Path+RunsSuffix))
	var err error
	for n := 0; n < 100 && err == nil; n++ {
		err = b.Apply([]journal.Op{{Bucket: 1, Key: fmt.Appendf(nil, "%d", n), Value: make([]byte, 100)}})
	}
	is.True(err != nil)
	t.Log(err)
	is.NoErr(b.drop())
	left, err := os.ReadDir(filepath.Dir(b.Path))
	is.NoErr(err)
	is.Equal(len(left), 0)
}
