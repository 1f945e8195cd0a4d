package blobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"
)

// shelf is a Remote in memory.
type shelf struct {
	mu      sync.Mutex
	objects map[string][]byte
	gets    int                                                    // calls of Get
	answer  func(get int, from int64, b []byte) (io.Reader, error) // nil, or what the nth Get answers
	down    error                                                  // of every call
	heads   func(name string)                                      // nil, or called after the answer of Head is known
}

func newShelf() *shelf { return &shelf{objects: map[string][]byte{}} }

func (m *shelf) set(fn func(*shelf)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn(m)
}

func (m *shelf) has(ref Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[ref.RemoteName()] != nil
}

func (m *shelf) add(b []byte) Ref {
	ref := refOf(b)
	m.set(func(m *shelf) { m.objects[ref.RemoteName()] = append([]byte{}, b...) })
	return ref
}

func (m *shelf) Put(_ context.Context, name string, body io.ReaderAt, size int64) error {
	b, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	m.set(func(m *shelf) { m.objects[name] = b })
	return err
}

func (m *shelf) Get(_ context.Context, name string, from, n int64) (io.ReadCloser, error) {
	m.mu.Lock()
	m.gets++
	b, there, down, get, answer := m.objects[name], m.objects[name] != nil, m.down, m.gets, m.answer
	m.mu.Unlock()
	if down != nil {
		return nil, down
	}
	if !there {
		return nil, fs.ErrNotExist
	}
	b = b[min(from, int64(len(b))):]
	if n >= 0 {
		b = b[:min(n, int64(len(b)))]
	}
	if answer != nil {
		r, err := answer(get, from, b)
		return io.NopCloser(r), err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *shelf) Head(_ context.Context, name string) (Object, error) {
	m.mu.Lock()
	b, there, down, heads := m.objects[name], m.objects[name] != nil, m.down, m.heads
	m.mu.Unlock()
	if heads != nil {
		heads(name)
	}
	if down != nil {
		return Object{}, down
	}
	if !there {
		return Object{}, fs.ErrNotExist
	}
	return Object{Name: name, Size: int64(len(b))}, nil
}

func (m *shelf) Delete(_ context.Context, name string) error {
	m.set(func(m *shelf) { delete(m.objects, name) })
	return nil
}

func (m *shelf) After(_ context.Context, _, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		m.mu.Lock()
		names := slices.Sorted(maps.Keys(m.objects))
		m.mu.Unlock()
		for _, name := range names {
			if name > after && !yield(Object{Name: name}, nil) {
				return
			}
		}
	}
}

var silent = slog.New(slog.DiscardHandler)

// behind puts a shelf behind the store in dir.
func behind(t testing.TB, dir string, m *shelf, limit int64) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.PutBehind(m, limit, func() int64 { return 1 << 40 }, silent)
	s.cache.retry = time.Microsecond
	s.cache.evict() // which counts what there is; contents that come meanwhile may count twice
	return s
}

// fetched reads a content as a visitor does.
func fetched(s *Store, ref Ref, size int) ([]byte, error) {
	r, err := s.Send(ref, int64(size))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// staged counts files in the folder for staged content.
func staged(t *testing.T, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, tempFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

var errDown = errors.New("the store is down")

// A content that is only in the object store is read whole, or visibly cut short; and
// it gets on the disk whole and right, or not at all.
func TestFetch(t *testing.T) {
	t.Parallel()
	cut := func(n int) func(int, int64, []byte) (io.Reader, error) {
		return func(_ int, _ int64, b []byte) (io.Reader, error) { return bytes.NewReader(b[:min(n, len(b))]), nil }
	}
	for _, tt := range []struct {
		name   string
		answer func(get int, from int64, b []byte) (io.Reader, error)
		change func(m *shelf, name string)
		err    error
	}{
		{"as it should be", nil, nil, nil},
		{"cut off after a third, each time", func(_ int, _ int64, b []byte) (io.Reader, error) {
			return bytes.NewReader(b[:(len(b)+2)/3]), nil
		}, nil, nil},
		{"an error in the middle, twice", func(get int, _ int64, b []byte) (io.Reader, error) {
			if get <= 2 {
				return io.MultiReader(bytes.NewReader(b[:len(b)/2]), iotest.ErrReader(errDown)), nil
			}
			return bytes.NewReader(b), nil
		}, nil, nil},
		{"no answer at first", func(get int, _ int64, b []byte) (io.Reader, error) {
			if get <= 3 {
				return nil, errDown
			}
			return bytes.NewReader(b), nil
		}, nil, nil},
		{"never an answer", func(int, int64, []byte) (io.Reader, error) { return nil, errDown }, nil, ErrAway},
		{"only the first half", func(_ int, from int64, b []byte) (io.Reader, error) {
			if from > 0 {
				return nil, errDown
			}
			return bytes.NewReader(b[:len(b)/2]), nil
		}, nil, ErrAway},
		{"nothing in any answer", cut(0), nil, ErrAway},
		{"a wrong byte", nil, func(m *shelf, name string) { m.objects[name][0] ^= 1 }, ErrDamaged},
		{"a wrong last byte", nil, func(m *shelf, name string) { b := m.objects[name]; b[len(b)-1] ^= 1 }, ErrDamaged},
		{"too short", nil, func(m *shelf, name string) { m.objects[name] = m.objects[name][1:] }, ErrDamaged},
		{"missing", nil, func(m *shelf, name string) { delete(m.objects, name) }, fs.ErrNotExist},
	} {
		for _, size := range []int{1000, provenFirst + 1<<20 + 8} {
			for _, limit := range []int64{0, 64 << 20, 500} { // the last one has no room for it
				t.Run(fmt.Sprint(tt.name, " ", size, " ", limit), func(t *testing.T) {
					t.Parallel()
					is := is.New(t)
					dir := filepath.Join(t.TempDir(), "blobs")
					m := newShelf()
					b := random(1, size)
					ref := m.add(b)
					m.answer = tt.answer
					if tt.change != nil {
						tt.change(m, ref.RemoteName())
					}
					s := behind(t, dir, m, limit)
					got, err := fetched(s, ref, size)
					if tt.err == nil {
						is.NoErr(err)
						is.True(bytes.Equal(got, b))
					} else {
						is.True(errors.Is(err, tt.err))
						is.True(len(got) < size) // the visitor notices
					}
					is.NoErr(s.Close())
					info, err := s.reopened(t, dir).Stat(ref)
					is.Equal(err == nil, tt.err == nil && limit != 500)
					is.True(err != nil || info.Size == int64(size))
					is.Equal(staged(t, dir), 0)
				})
			}
		}
	}
}

// reopened opens the store without an object store.
func (s *Store) reopened(t *testing.T, dir string) *Store {
	t.Helper()
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

// All ways to read reach what is only in the object store.
func TestReadElsewhere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 0)
	var refs []Ref
	for seed := range uint64(5) {
		refs = append(refs, m.add(random(seed, 1000)))
	}
	head, err := s.Head(refs[0], 10)
	is.NoErr(err)
	is.Equal(head, random(0, 1000)[:10])
	head, err = s.Head(refs[0], 1001)
	is.NoErr(err)
	is.Equal(head, random(0, 1000))
	_, err = s.Stat(refs[0])
	is.True(errors.Is(err, fs.ErrNotExist)) // nothing was kept
	is.NoErr(s.Sound(refs[0]))
	is.Equal(m.gets, 2)

	f, err := s.Get(refs[1])
	is.NoErr(err)
	is.NoErr(CheckBytes(refs[1], f))
	is.NoErr(f.Close())
	is.NoErr(s.Prove(refs[2]))
	r, err := s.SendPart(refs[3], 1000)
	is.NoErr(err)
	is.NoErr(CheckBytes(refs[3], r))
	is.NoErr(r.Close())
	for _, ref := range refs[1:4] {
		_, err := s.Stat(ref)
		is.NoErr(err)
	}
	is.True(errors.Is(s.Check(refs[4]), fs.ErrNotExist)) // it reads the disk
	st, ok := s.CacheStatus()
	is.True(ok)
	is.Equal(st.Fetched, int64(10+1000+3*1000))
	is.Equal(st.Here, int64(3*1000))

	m.set(func(m *shelf) { m.down = errDown })
	_, err = s.Get(refs[4])
	is.True(errors.Is(err, ErrAway))
	_, err = s.Head(refs[4], 10)
	is.True(errors.Is(err, ErrAway))
	is.True(errors.Is(s.Sound(refs[4]), ErrAway))
	is.NoErr(s.Sound(refs[3]))
}

// A gate holds answers back after some bytes.
type gate struct {
	r    io.Reader
	left int64
	open chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	if g.left == 0 {
		<-g.open
		return g.r.Read(p)
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.left)])
	g.left -= int64(n)
	return n, err
}

// Many visitors of a content cause one request. One who is far ahead of it does not
// wait.
func TestOneFetch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	const size = 20 << 20
	b := random(1, size)
	ref := m.add(b)
	open := make(chan struct{})
	m.answer = func(_ int, from int64, b []byte) (io.Reader, error) {
		if from == 0 {
			return &gate{bytes.NewReader(b), 1 << 20, open}, nil
		}
		return bytes.NewReader(b), nil
	}
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 64<<20)
	r, err := s.SendPart(ref, size)
	is.NoErr(err)
	got := make([]byte, 1<<20)
	_, err = io.ReadFull(r, got)
	is.NoErr(err)
	is.True(bytes.Equal(got, b[:1<<20]))
	is.Equal(m.gets, 1)
	_, err = r.Seek(-100, io.SeekEnd)
	is.NoErr(err)
	got, err = io.ReadAll(r)
	is.NoErr(err)
	is.True(bytes.Equal(got, b[size-100:]))
	is.Equal(m.gets, 2)
	_, err = r.Seek(1<<20-5, io.SeekStart)
	is.NoErr(err)
	var work sync.WaitGroup
	for range 5 {
		work.Go(func() {
			got, err := fetched(s, ref, size)
			is.NoErr(err)
			is.True(bytes.Equal(got, b))
		})
	}
	close(open)
	got, err = io.ReadAll(r)
	is.NoErr(err)
	is.True(bytes.Equal(got, b[1<<20-5:]))
	is.NoErr(r.Close())
	work.Wait()
	is.Equal(m.gets, 2)
	is.Equal(len(s.cache.fetches), 0)
	is.Equal(len(s.cache.direct), 0)
}

// Large contents that come slowly do not keep a visitor from another one.
func TestFetchBesideOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	open := make(chan struct{})
	m.answer = func(_ int, _ int64, b []byte) (io.Reader, error) {
		if len(b) > provenFirst {
			return &gate{bytes.NewReader(b), 1000, open}, nil
		}
		return bytes.NewReader(b), nil
	}
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 0)
	for i := range maxPulls {
		r, err := s.Send(m.add(random(uint64(i), provenFirst+1)), provenFirst+1)
		is.NoErr(err)
		defer r.Close()
	}
	defer close(open)
	b := random(100, 1000)
	got, err := fetched(s, m.add(b), len(b))
	is.NoErr(err)
	is.True(bytes.Equal(got, b))
}

// A store that is closed in the middle of a fetch leaves nothing.
func TestCloseFetch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	const size = 20 << 20
	ref := m.add(random(1, size))
	open := make(chan struct{})
	m.answer = func(_ int, _ int64, b []byte) (io.Reader, error) {
		return &gate{bytes.NewReader(b), 1 << 20, open}, nil
	}
	dir := filepath.Join(t.TempDir(), "blobs")
	s := behind(t, dir, m, 0)
	r, err := s.Send(ref, size)
	is.NoErr(err)
	_, err = io.ReadFull(r, make([]byte, 1<<20))
	is.NoErr(err)
	s.cache.end() // an HTTP client's reads would end, too
	close(open)
	is.NoErr(s.Close())
	_, err = io.ReadAll(r)
	is.True(err != nil)
	is.NoErr(r.Close())
	is.Equal(staged(t, dir), 0)
	_, err = s.reopened(t, dir).Stat(ref)
	is.True(errors.Is(err, fs.ErrNotExist))
}

// What is damaged on the disk is fetched again, however it is found.
func TestHeal(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(s *Store, ref Ref) error{
		"check": func(s *Store, ref Ref) error { _ = s.Check(ref); return nil },
		"send": func(s *Store, ref Ref) error {
			b, err := fetched(s, ref, 1000)
			if err == nil && refOf(b) != ref {
				err = errors.New("wrong bytes were sent")
			}
			return err
		},
		"get": func(s *Store, ref Ref) error {
			_ = s.Check(ref)
			f, err := s.Get(ref)
			if err == nil {
				err = errors.Join(CheckBytes(ref, f), f.Close())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "blobs")
			m := newShelf()
			s := behind(t, dir, m, 0)
			b := random(1, 1000)
			keep(t, s, b).Release()
			flip(t, dir, refOf(b), 7)
			m.add(b)
			err := find(s, refOf(b))
			is.True(err == nil || errors.Is(err, ErrDamaged) && name == "send") // the one who finds it may come too early
			for fetching := true; fetching; runtime.Gosched() {
				s.cache.mu.Lock()
				fetching = len(s.cache.fetches) > 0
				s.cache.mu.Unlock()
			}
			is.NoErr(s.Close())
			again := s.reopened(t, dir)
			is.NoErr(again.Check(refOf(b)))
			is.Equal(len(again.Damaged.List()), 0)
		})
	}
}

// The cache agrees with a model of it, whatever happens in which order.
func TestCacheModel(t *testing.T) {
	t.Parallel()
	runs := uint64(8)
	if *long {
		runs = 500
	}
	for seed := range runs {
		cacheModel(t, seed)
	}
}

func cacheModel(t *testing.T, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	is := is.New(t)
	dir := filepath.Join(tempDir(t), "blobs")
	m := newShelf()
	const limit = 10_000
	s := behind(t, dir, m, limit)
	contents := make([][]byte, 20)
	for i := range contents {
		contents[i] = random(uint64(i), 500+rnd.IntN(3000))
	}
	type known struct {
		here bool
		used int  // when
		kept bool // it was not in the object store, so that the cache has tried others first
	}
	model := map[Ref]*known{}
	clock, evicted := 0, 0
	onDisk := func() (all map[Ref]int64, total int64) {
		all = map[Ref]int64{}
		for info, err := range s.All() {
			is.NoErr(err)
			all[info.Ref] = info.Size
			total += info.Size
		}
		return all, total
	}
	for step := range 150 {
		b := contents[rnd.IntN(len(contents))]
		ref := refOf(b)
		if model[ref] == nil {
			model[ref] = &known{}
		}
		k := model[ref]
		exists := k.here || m.has(ref)
		clock++
		what := rnd.IntN(10)
		switch {
		case what < 5: // read
			before, _ := s.CacheStatus()
			got, err := fetched(s, ref, len(b))
			after, _ := s.CacheStatus()
			is.Equal(err == nil, exists) // seed, step
			if exists {
				is.True(bytes.Equal(got, b))
				is.Equal(after.Hits-before.Hits == 1, k.here)
				is.Equal(after.Misses-before.Misses == 1, !k.here)
				k.used, k.kept = clock, false
			}
		case what < 7: // upload
			s.cache.evicting.Lock() // what evicts in the background waits for the touch
			keep(t, s, b).Release()
			s.cache.touch(ref) // files have the time of a coarse clock
			s.cache.evicting.Unlock()
			k.here, k.used, k.kept = true, clock, false
			if rnd.IntN(3) > 0 {
				m.add(b)
			}
		case what < 8: // ship
			if k.here {
				m.add(b)
			}
		case what < 9: // remove, here or there
			if rnd.IntN(2) == 0 {
				_, err := s.Unlink(ref, always)
				is.NoErr(err)
				k.here = false
			} else if k.here { // it is never the last copy
				is.NoErr(m.Delete(t.Context(), ref.RemoteName()))
			}
		case rnd.IntN(4) == 0: // a crash: what is known in memory is lost, a fetch under way too
			other := contents[rnd.IntN(len(contents))]
			if f, err := s.cache.join(refOf(other), -1, true); err == nil {
				f.Leave()
			}
			s.cache.stop()
			_ = s.closeFolders()
			s = behind(t, dir, m, limit)
			all, _ := onDisk()
			for ref, k := range model { // in the order in which they will be evicted
				_, k.here = all[ref]
				k.used = 0
			}
			for _, ref := range slices.SortedFunc(maps.Keys(all), func(a, b Ref) int { return bytes.Compare(a[:], b[:]) }) {
				clock++
				s.cache.touch(ref)
				if model[ref] == nil {
					model[ref] = &known{}
				}
				model[ref].here, model[ref].used = true, clock
			}
		}
		s.cache.evicting.Lock()
		s.cache.rest = time.Time{}
		s.cache.evicting.Unlock()
		fits := s.cache.evict()
		all, total := onDisk()
		is.Equal(total, s.cache.here.Load())
		is.Equal(fits, total <= limit)
		var newest int // of those that were evicted
		for ref, k := range model {
			if _, there := all[ref]; k.here && !there {
				is.True(m.has(ref)) // else its last copy is gone
				evicted++
				newest = max(newest, k.used)
			}
		}
		for ref, k := range model {
			_, there := all[ref]
			if there && k.here && k.used < newest {
				is.True(k.kept || !m.has(ref)) // else it should have gone first
			}
			k.here, k.kept = there, there && (k.kept || !m.has(ref))
		}
		if !fits {
			for ref := range all {
				is.True(!m.has(ref)) // else it should have been evicted
			}
		}
		if t.Failed() {
			t.Fatal("seed", seed, "step", step)
		}
	}
	is.True(evicted > 10) // seed
	is.NoErr(s.Close())
}

// Eviction never takes the last copy, while contents are uploaded, shipped, removed
// from both places, and read.
func TestEvictRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	s := behind(t, filepath.Join(tempDir(t), "blobs"), m, 4000)
	contents := make([][]byte, 6)
	records := make([]atomic.Int32, len(contents)) // how many records have the content
	for i := range contents {
		contents[i] = random(uint64(i), 1000+i)
	}
	var work sync.WaitGroup
	var stop atomic.Bool
	for g := range 4 {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 5))
			for range 150 {
				i := rnd.IntN(len(contents))
				ref := refOf(contents[i])
				kept := keep(t, s, contents[i])
				records[i].Add(1)
				kept.Release()
				if f, err := s.getHere(ref); err == nil { // ship it
					_ = m.Put(t.Context(), ref.RemoteName(), f, int64(len(contents[i])))
					_ = f.Close()
				} else {
					is.True(m.has(ref)) // it was evicted
				}
				b, err := fetched(s, ref, len(contents[i]))
				is.NoErr(err)
				is.True(bytes.Equal(b, contents[i]))
				records[i].Add(-1)
				_, err = s.Unlink(ref, func() (bool, error) { return records[i].Load() == 0, nil })
				is.NoErr(err)
				_, err = s.Alone(ref, func() error { // remove it from the object store
					if _, err := s.Stat(ref); err == nil || records[i].Load() > 0 {
						return nil
					}
					return m.Delete(t.Context(), ref.RemoteName())
				})
				is.NoErr(err)
			}
		})
	}
	var evictor sync.WaitGroup
	evictor.Go(func() {
		for !stop.Load() {
			s.cache.evicting.Lock()
			s.cache.rest = time.Time{}
			s.cache.evicting.Unlock()
			s.cache.evict()
		}
	})
	work.Wait()
	stop.Store(true)
	evictor.Wait()
	is.NoErr(s.Close())
}

// Eviction makes room for a tenth of the limit, so that it need not run for each content.
func TestEvictSome(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 1000)
	is.True(s.cache.evict()) // which counts what there is
	for i := range 11 {
		b := random(uint64(i), 100)
		keep(t, s, b).Release()
		m.add(b)
	}
	s.cache.evicting.Lock() // run evicts too, and finds that a content is not in the object store yet
	s.cache.rest = time.Time{}
	s.cache.evicting.Unlock()
	is.True(s.cache.evict())
	is.Equal(s.cache.here.Load(), int64(900))
}

// What ends with its last bytes, not after them, is complete. Nothing more is asked for.
func TestFetchAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	m.answer = func(_ int, _ int64, b []byte) (io.Reader, error) {
		return iotest.DataErrReader(bytes.NewReader(b)), nil
	}
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 0)
	b := random(1, 100)
	got, err := fetched(s, m.add(b), len(b))
	is.NoErr(err)
	is.True(bytes.Equal(got, b))
	is.Equal(m.gets, 1)
}

// While the object store is asked about a content, and the content is then removed from the disk,
// nobody removes it from the object store.
func TestEvictAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 1500)
	is.True(s.cache.evict()) // which counts what there is
	b := random(1, 1000)
	keep(t, s, b).Release()
	ref := m.add(b)
	remove := func() error { return m.Delete(t.Context(), ref.RemoteName()) }
	var asked atomic.Bool
	m.set(func(m *shelf) {
		m.heads = func(string) {
			asked.Store(true)
			alone, err := s.Alone(ref, remove)
			is.NoErr(err)
			is.True(!alone)
		}
	})
	s.cache.coming.Add(1000) // which are not there yet
	is.True(s.cache.evict())
	is.True(asked.Load())
	is.True(m.has(ref))
	_, err := s.Stat(ref)
	is.True(errors.Is(err, fs.ErrNotExist))
	alone, err := s.Alone(ref, remove) // the control
	is.NoErr(err)
	is.True(alone && !m.has(ref))
}

// A complete upload whose record was not committed is found after its content was
// evicted.
func TestAdoptEvicted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 1500)
	b := random(1, 1000)
	st, err := s.Resume(partID, 0, nil)
	is.NoErr(err)
	_, err = st.Write(b)
	is.NoErr(err)
	size, state, err := st.Sync()
	is.NoErr(err)
	kept, err := st.Keep()
	is.NoErr(err)
	kept.Release()
	ref := m.add(b)
	s.cache.coming.Add(1000)
	is.True(s.cache.evict())
	s.cache.coming.Add(-1000)
	_, err = s.Stat(ref)
	is.True(errors.Is(err, fs.ErrNotExist))

	kept, err = s.Adopt(size, state)
	is.NoErr(err)
	is.Equal(kept.Ref, ref)
	is.Equal(kept.Size, size)
	s.cache.coming.Add(1000)
	is.True(!s.cache.evict()) // it is pinned
	s.cache.coming.Add(-1000)
	is.NoErr(s.Check(ref))
	kept.Release()
	is.Equal(len(s.names.held), 0)

	m.set(func(m *shelf) { m.down = errDown })
	is.NoErr(s.root.Remove(ref.path()))
	_, err = s.Adopt(size, state)
	is.True(errors.Is(err, ErrAway)) // which passes: the upload need not start again
	m.set(func(m *shelf) { m.down, m.objects = nil, map[string][]byte{} })
	_, err = s.Adopt(size, state)
	is.True(errors.Is(err, fs.ErrNotExist))
	is.Equal(len(s.names.held), 0)
}

// A visitor who comes when a fetch without users is ended gets the content from a new
// one.
func TestEndedFetch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	const size = almost + 2<<20
	b := make([]byte, size)
	ref := m.add(b)
	open := make(chan struct{})
	m.answer = func(get int, _ int64, b []byte) (io.Reader, error) {
		if get == 1 { // until the request is ended
			return io.MultiReader(&gate{bytes.NewReader(b[:1<<20]), 1 << 20, open}, iotest.ErrReader(context.Canceled)), nil
		}
		return bytes.NewReader(b), nil
	}
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, 128<<20)
	r, err := s.Send(ref, size)
	is.NoErr(err)
	_, err = io.ReadFull(r, make([]byte, 1000))
	is.NoErr(err)
	s.cache.mu.Lock()
	old := s.cache.fetches[ref]
	s.cache.mu.Unlock()
	is.True(old.Join())
	is.NoErr(r.Close())
	is.True(!old.Leave()) // for a while, r still counts
	is.True(old.Leave())  // as its timer does

	r, err = s.Send(ref, size)
	is.NoErr(err)
	close(open)
	_, err = io.CopyN(io.Discard, r, size)
	is.NoErr(err)
	is.NoErr(r.Close())
	is.True(errors.Is(old.Wait(t.Context()), context.Canceled))
	is.NoErr(s.Close())
	is.Equal(len(s.cache.fetches), 0)
}

// Fetches that wait for the object store to evict others do not keep a visitor from
// another content.
func TestFetchBesideEviction(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newShelf()
	const size, limit = 1000, 100 << 10
	s := behind(t, filepath.Join(t.TempDir(), "blobs"), m, limit)
	old := map[string]bool{}
	for i := range uint64(limit / size) {
		b := random(i, size)
		keep(t, s, b).Release()
		old[m.add(b).RemoteName()] = true
	}
	open := make(chan struct{})
	m.set(func(m *shelf) {
		m.heads = func(name string) {
			if old[name] {
				<-open
			}
		}
	})
	var waiting sync.WaitGroup
	for i := range maxPulls {
		b := random(uint64(1000+i), 4*size)
		ref := m.add(b)
		waiting.Go(func() {
			got, err := fetched(s, ref, len(b))
			is.NoErr(err)
			is.True(bytes.Equal(got, b))
		})
	}
	for len(s.cache.pulls) < maxPulls {
		runtime.Gosched()
	}
	b := random(2000, size)
	got, err := fetched(s, m.add(b), len(b))
	is.NoErr(err)
	is.True(bytes.Equal(got, b))
	close(open)
	waiting.Wait()
	is.True(s.cache.here.Load() <= limit)
}
