package sealed

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"

	"kist/blobs"
)

// memory is a remote.
type memory struct {
	objects map[string][]byte
	lists   int
	fail    func(verb, name string) error // nil, or fails a call that has no effect then
	puts    [][]byte                      // what each put has sent, those that failed included
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

func (m *memory) failing(verb, name string) error {
	if m.fail == nil {
		return nil
	}
	return m.fail(verb, name)
}

func (m *memory) Put(_ context.Context, name string, body io.ReaderAt, size int64) error {
	b, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	m.puts = append(m.puts, b)
	if err != nil {
		return err
	}
	if err := m.failing("put", name); err != nil {
		return err
	}
	if m.objects[name] != nil {
		return fs.ErrExist
	}
	m.objects[name] = b
	return nil
}

func (m *memory) Get(_ context.Context, name string, from, n int64) (io.ReadCloser, error) {
	b, there := m.objects[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	b = b[min(from, int64(len(b))):]
	if n >= 0 {
		b = b[:min(n, int64(len(b)))]
	}
	return io.NopCloser(iotest.DataErrReader(bytes.NewReader(b))), m.failing("get", name)
}

func (m *memory) Head(_ context.Context, name string) (blobs.Object, error) {
	b, there := m.objects[name]
	if !there {
		return blobs.Object{}, fs.ErrNotExist
	}
	return blobs.Object{Name: name, Size: int64(len(b))}, nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	delete(m.objects, name)
	return nil
}

func (m *memory) After(_ context.Context, prefix, after string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		m.lists++
		for _, name := range slices.Sorted(maps.Keys(m.objects)) {
			if !strings.HasPrefix(name, prefix) || name <= after {
				continue
			}
			if err := m.failing("list", name); err != nil {
				yield(blobs.Object{}, err)
				return
			}
			if !yield(blobs.Object{Name: name, Size: int64(len(m.objects[name]))}, nil) {
				return
			}
		}
	}
}

func testKey(t testing.TB, seed byte) *Key {
	t.Helper()
	k, err := NewKey(Secret{seed})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func opened(t testing.TB, m *memory) *Remote {
	t.Helper()
	r, _ := New(testKey(t, 1), m)
	return r.(*Remote)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func put(t testing.TB, r blobs.Remote, name string, b []byte) {
	t.Helper()
	if err := r.Put(t.Context(), name, bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
}

func get(r blobs.Remote, name string, from, n int64) ([]byte, error) {
	in, err := r.Get(context.Background(), name, from, n)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}

// putContent puts a content under its hash.
func putContent(t testing.TB, r blobs.Remote, b []byte) string {
	t.Helper()
	name := blobs.Ref(sha256.Sum256(b)).RemoteName()
	put(t, r, name, b)
	return name
}

// Sizes on both sides of each boundary.
var sizes = []int{
	0, 1, 15, 16, 17, 1000, chunkBytes - 1, chunkBytes, chunkBytes + 1, 2*chunkBytes - 1,
	2 * chunkBytes, 3*chunkBytes + 7, 1<<20 + 5,
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for _, size := range sizes {
		for _, kind := range []string{"log", "content"} {
			t.Run(fmt.Sprintf("%s of %d bytes", kind, size), func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				m := newMemory()
				r := opened(t, m)
				b := random(size)
				name := "snap/0000000000000001"
				if kind == "content" {
					name = putContent(t, r, b)
				} else {
					put(t, r, name, b)
				}
				o, err := r.Head(t.Context(), name)
				is.NoErr(err)
				is.Equal(o, blobs.Object{Name: name, Size: int64(size)})
				is.Equal(int64(len(m.objects[r.inner(name)])), SizeOf(int64(size)))
				for _, from := range slices.Concat(sizes, []int{size}) {
					for _, n := range append([]int{-1}, sizes...) {
						if from > size {
							continue
						}
						want := b[from:]
						if n >= 0 {
							want = want[:min(n, len(want))]
						}
						if from == size && n < 0 && from > 0 && from%chunkBytes == 0 {
							continue // nobody asks for nothing, and it cannot be told from a cut
						}
						got, err := get(r, name, int64(from), int64(n))
						is.NoErr(err)
						is.True(bytes.Equal(got, want))
					}
				}
			})
		}
	}
}

// Each size of a sealed object belongs to one size, and others to none.
func TestSizes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	sealed := map[int64]int64{}
	for _, n := range sizes {
		for d := -20; d <= 20; d++ {
			if n+d >= 0 {
				sealed[SizeOf(int64(n+d))] = int64(n + d)
			}
		}
	}
	for n, size := range sealed {
		is.Equal(plainSize(n), size)
	}
	for _, n := range []int{
		0, headBytes, headBytes + tagBytes - 1, headBytes + sealedMost + 1, headBytes + sealedMost + tagBytes,
	} {
		is.Equal(plainSize(int64(n)), int64(-1))
	}
}

// Somebody who has the store can change it in these ways, and no reader takes it.
func TestAlteredIsRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	r := opened(t, m)
	small, large := random(40), random(3*chunkBytes)
	put(t, r, "log/0000000000000001", small)
	put(t, r, "log/0000000000000002", random(40))
	put(t, r, "snap/0000000000000001", large)
	content := putContent(t, r, small)
	empty := putContent(t, r, nil)
	other := putContent(t, r, random(40))
	whole := maps.Clone(m.objects)

	refused := func(what, name string) {
		t.Helper()
		for _, n := range []int64{-1, 1 << 30} {
			_, err := get(r, name, 0, n)
			if !errors.Is(err, blobs.ErrDamaged) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", what, err)
			}
		}
		m.objects = maps.Clone(whole)
	}
	for _, name := range []string{"log/0000000000000001", content, empty} {
		in := r.inner(name)
		for i := range whole[in] {
			for bit := range 8 {
				m.objects[in] = bytes.Clone(whole[in])
				m.objects[in][i] ^= 1 << bit
				refused(fmt.Sprintf("bit %d of byte %d", bit, i), name)
			}
		}
		for n := range whole[in] {
			m.objects[in] = whole[in][:n]
			refused(fmt.Sprintf("cut to %d bytes", n), name)
		}
		for _, more := range []string{"x", strings.Repeat("x", tagBytes), string(whole[in])} {
			m.objects[in] = append(bytes.Clone(whole[in]), more...)
			refused("extended", name)
		}
	}

	in := r.inner("snap/0000000000000001")
	for n := range 3 {
		for _, d := range []int{-1, 0, 1} {
			m.objects[in] = whole[in][:headBytes+n*sealedMost+d]
			refused(fmt.Sprintf("cut near package %d", n), "snap/0000000000000001")
		}
		swapped := bytes.Clone(whole[in])
		a, b := headBytes+n*sealedMost, headBytes+(n+1)%3*sealedMost
		copy(swapped[a:a+sealedMost], whole[in][b:])
		copy(swapped[b:b+sealedMost], whole[in][a:])
		m.objects[in] = swapped
		refused("packages swapped", "snap/0000000000000001")
		m.objects[in] = append(bytes.Clone(whole[in]), whole[in][a:a+sealedMost]...)
		refused("a package again", "snap/0000000000000001")
	}

	for _, pair := range [][2]string{
		{"log/0000000000000001", "log/0000000000000002"},
		{"log/0000000000000001", content},
		{content, other},
		{"snap/0000000000000001", "log/0000000000000001"},
		{"log/0000000000000002", metaName},
	} {
		m.objects[r.inner(pair[1])] = whole[r.inner(pair[0])]
		refused("replayed", pair[1])
	}
	got, err := get(r, content, 0, -1) // the control
	is.NoErr(err)
	is.Equal(got, small)

	_, err = get(opened(t, m), content, 0, -1)
	is.NoErr(err)
	foreign := &Remote{gate: newGate(func(context.Context) error { return nil }), to: m, key: testKey(t, 2)}
	_, err = get(foreign, "log/0000000000000001", 0, -1)
	is.True(errors.Is(err, ErrAltered))
	_, err = get(foreign, content, 0, -1)
	is.True(errors.Is(err, fs.ErrNotExist)) // another name
}

// A part of an object that was cut at the end of a package is not taken for its end.
func TestPartOfACutObject(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	r := opened(t, m)
	b := random(3 * chunkBytes)
	name := putContent(t, r, b)
	in := r.inner(name)
	m.objects[in] = m.objects[in][:headBytes+2*sealedMost]
	got, err := get(r, name, 10, 2*chunkBytes)
	is.True(errors.Is(err, ErrAltered))
	is.True(bytes.Equal(got, b[10:2*chunkBytes]))
	got, err = get(r, name, 10, chunkBytes) // the control: what was asked for is there
	is.NoErr(err)
	is.True(bytes.Equal(got, b[10:10+chunkBytes]))
}

// An answer that is cut off by the network is no damage, since another one may be whole.
func TestCutAnswerIsNoDamage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	k := testKey(t, 1)
	var b bytes.Buffer
	w, err := k.NewWriter(&b)
	is.NoErr(err)
	_, err = w.Write(random(3 * chunkBytes))
	is.NoErr(errors.Join(err, w.Close()))
	for _, n := range []int{1, headBytes, headBytes + 5, headBytes + sealedMost, headBytes + sealedMost + 1, b.Len()} {
		cut := io.MultiReader(bytes.NewReader(b.Bytes()[:n]), iotest.ErrReader(io.ErrUnexpectedEOF))
		r, err := k.NewReader(cut)
		if err == nil {
			_, err = io.ReadAll(r)
		}
		is.True(errors.Is(err, io.ErrUnexpectedEOF))
		is.True(!errors.Is(err, blobs.ErrDamaged))
	}
}

// A put that is made again sends the same bytes, so that the parts which are there count. Two puts of other
// objects never have the same salt.
func TestPutsAgainAreTheSame(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	r := opened(t, m)
	is.NoErr(r.pass(t.Context()))
	failing := errors.New("no")
	m.fail = func(verb, _ string) error {
		if verb == "put" {
			return failing
		}
		return nil
	}
	large := bytes.NewReader(make([]byte, blobs.MaxExact+1))
	again := func(name string, body *bytes.Reader) bool {
		m.puts = nil
		for range 2 {
			is.Equal(r.Put(t.Context(), name, body, body.Size()), failing)
		}
		return bytes.Equal(m.puts[0], m.puts[1])
	}
	is.True(again("snap/0000000000000001", large))
	is.True(again(blobs.Ref(sha256.Sum256([]byte("x"))).RemoteName(), bytes.NewReader([]byte("x"))))
	is.True(!again("log/0000000000000001", bytes.NewReader([]byte("x")))) // one request: nothing is there
	m.fail, m.puts = nil, nil
	put(t, r, "snap/0000000000000001", []byte("other bytes"))
	is.Equal(len(r.pending), 1) // only a large one is kept
	is.NoErr(r.Delete(t.Context(), "snap/0000000000000001"))
	is.NoErr(r.Put(t.Context(), "snap/0000000000000001", large, large.Size()))
	is.Equal(len(r.pending), 0)
}

// Any number of readers may read what is being put, at any place.
func TestSealedFormIsTheSameFromAnyPlace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	k := testKey(t, 1)
	b := random(40*chunkBytes + 3)
	s, err := k.sealing(randomSalt(), "snap/1", bytes.NewReader(b), int64(len(b)))
	is.NoErr(err)
	size := SizeOf(int64(len(b)))
	whole, err := io.ReadAll(io.NewSectionReader(s, 0, size))
	is.NoErr(err)
	is.Equal(int64(len(whole)), size)
	done := make(chan bool)
	for i := range 4 {
		go func() {
			rnd := mrand.New(mrand.NewPCG(1, uint64(i)))
			good := true
			for range 200 {
				from := rnd.Int64N(size)
				p := make([]byte, min(rnd.Int64N(3*chunkBytes), size-from))
				n, err := s.ReadAt(p, from)
				good = good && n == len(p) && err == nil && bytes.Equal(p, whole[from:from+int64(n)])
			}
			done <- good
		}()
	}
	for range 4 {
		is.True(<-done)
	}
	n, err := s.ReadAt(make([]byte, 10), size-4)
	is.Equal(n, 4)
	is.Equal(err, io.EOF)
}

// Contents are listed in the order of their names, whatever the order of the sealed names, and in any number
// of steps.
func TestListIsInOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	r := opened(t, m)
	r.most = 7
	var want []string
	for i := range 50 {
		want = append(want, putContent(t, r, fmt.Append(nil, i)))
	}
	put(t, r, "log/0000000000000002", nil)
	put(t, r, "log/0000000000000001", nil)
	put(t, r, metaName, nil)
	m.objects["sealed/blobs/zz/foreign"] = []byte("x")
	slices.Sort(want)
	names := func(prefix, after string) (all []string) {
		for o, err := range r.After(t.Context(), prefix, after) {
			is.NoErr(err)
			all = append(all, o.Name)
		}
		return all
	}
	is.Equal(names("blobs/", ""), want)
	is.Equal(names("blobs/", want[20]), want[21:])
	is.Equal(names("log/", ""), []string{"log/0000000000000001", "log/0000000000000002"})
	is.Equal(names("log/", "log/0000000000000001"), []string{"log/0000000000000002"})

	// The list goes on where a failure has ended it, unless it comes no further.
	r.most = 100
	failed, down := map[string]bool{}, false
	last := slices.Sorted(maps.Keys(m.objects))[30]
	m.fail = func(verb, name string) error {
		again := failed[name]
		failed[name] = true
		if verb == "list" && (!again && len(failed)%10 == 5 || down && name == last) {
			return errCut
		}
		return nil
	}
	m.lists = 0
	is.Equal(names("blobs/", ""), want)
	is.True(m.lists > 3)
	down = true
	var errs []error
	for _, err := range r.After(t.Context(), "blobs/", "") {
		errs = append(errs, err)
	}
	is.Equal(errs, []error{errCut})
}

var errCut = errors.New("the network was cut")

// Names are a permutation, and one bit of a ref changes about half of the name.
func TestNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	k, other := testKey(t, 1), testKey(t, 2)
	differ := 0
	for range 100 {
		ref := [32]byte(random(32))
		is.Equal(k.reveal(k.hide(ref)), ref)
		is.True(k.hide(ref) != other.hide(ref))
		near := ref
		near[31] ^= 1
		a, b := k.hide(ref), k.hide(near)
		for i := range a {
			for d := a[i] ^ b[i]; d != 0; d &= d - 1 {
				differ++
			}
		}
	}
	is.True(differ > 100*100 && differ < 100*156)
}

// Nothing of an object is in the store: neither bytes nor name nor hash.
func TestNothingIsReadable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	r := opened(t, m)
	b := []byte("a secret that somebody has written down")
	name := putContent(t, r, b)
	put(t, r, "log/0000000000000001", b)
	put(t, r, metaName, b)
	sum := sha256.Sum256(b)
	marks := []string{
		string(b), string(sum[:]), hex.EncodeToString(sum[:])[:16], hex.EncodeToString(b), name,
		base64.StdEncoding.EncodeToString(sum[:])[:16], base64.StdEncoding.EncodeToString(b)[:16],
	}
	for inner, sealed := range m.objects {
		for _, mark := range marks {
			is.True(!strings.Contains(inner+"\n"+string(sealed), mark))
		}
	}
	is.Equal(len(m.objects), 3)
}

// A store is used by those who have its key, and by nobody else.
func TestStoreFitsTheKey(t *testing.T) {
	t.Parallel()
	const slot = "log/0000000000000001"
	mine, theirs := testKey(t, 1), testKey(t, 2)
	sealedWith := func(k *Key) *memory {
		m := newMemory()
		r, _ := New(k, m)
		put(t, r, slot, []byte("slot"))
		put(t, r, metaName, []byte("meta"))
		return m
	}
	plainStore := func(names ...string) *memory {
		m := newMemory()
		for _, name := range names {
			put(t, m, name, []byte("{}"))
		}
		return m
	}
	without := func(m *memory, name string) *memory {
		delete(m.objects, name)
		return m
	}
	both := sealedWith(mine)
	put(t, both, slot, []byte("plain"))
	half := sealedWith(mine)
	put(t, half, slot, []byte("plain"))
	put(t, Beside(mine, half), Moving, []byte("meta"))
	for _, c := range []struct {
		name        string
		m           *memory
		with, plain string // what a request with the key, and without one, says; "" if it passes
	}{
		{"empty", newMemory(), "", ""},
		{"plain", plainStore(metaName, slot), "kist store encrypt", ""},
		{"plain without its meta", plainStore(slot), "kist store encrypt", ""},
		{"plain without slots", plainStore(metaName), "kist store encrypt", ""},
		{"encrypted", sealedWith(mine), "", "--store-key-file"},
		{"encrypted without its meta", without(sealedWith(mine), metaName), "", "--store-key-file"},
		{"encrypted without slots", without(sealedWith(mine), folder+slot), "", "--store-key-file"},
		{"with another key", sealedWith(theirs), "name the right key file", "--store-key-file"},
		{"with another key, without its meta", without(sealedWith(theirs), metaName), "the right key", "--store-key-file"},
		{"half", half, "once more", "--store-key-file"},
		{"plain objects beside it", both, "do not encrypt them", "--store-key-file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			_, with := New(mine, c.m, c.m)
			_, none := Plain(c.m, c.m)
			before := maps.Clone(c.m.objects)
			for i, r := range []blobs.Remote{with[0], none[0]} {
				want := []string{c.with, c.plain}[i]
				_, headErr := r.Head(t.Context(), "snap/1")
				_, getErr := r.Get(t.Context(), "snap/1", 0, -1)
				var listErr error
				for _, err := range r.After(t.Context(), "snap/", "") {
					listErr = err
				}
				for _, err := range []error{headErr, getErr, listErr} {
					unfit := (*blobs.Unfit)(nil)
					is.Equal(errors.As(err, &unfit), want != "")
					is.True(want == "" || strings.Contains(err.Error(), want))
				}
				if want == "" {
					continue
				}
				for _, err := range []error{
					r.Put(t.Context(), "snap/1", strings.NewReader("x"), 1), r.Delete(t.Context(), metaName),
				} {
					is.True(errors.As(err, new(*blobs.Unfit)))
				}
			}
			is.Equal(len(c.m.objects), len(before))
		})
	}
}

// Of two servers that find nothing and begin at the same time with other keys, or none, one is stopped, and says why.
func TestTwoBeginWithOtherKeys(t *testing.T) {
	t.Parallel()
	const slot = "log/0000000000000001"
	key := func(seed byte) func(*memory) blobs.Remote {
		return func(m *memory) blobs.Remote { r, _ := New(testKey(t, seed), m); return r }
	}
	none := func(m *memory) blobs.Remote { r, _ := Plain(m); return r }
	for _, c := range []struct {
		name          string
		first, second func(*memory) blobs.Remote
		says          string
	}{
		{"two keys", key(1), key(2), "name the right key file"},
		{"a key and none", key(1), none, "add --store-key-file"},
		{"none and a key", none, key(1), "not encrypted"},
		{"the same key", key(1), key(1), ""},
		{"no key", none, none, ""},
	} {
		for _, name := range []string{metaName, slot} {
			is := is.New(t)
			m := newMemory()
			first, second := c.first(m), c.second(m)
			for _, r := range []blobs.Remote{first, second} {
				_, err := r.Head(t.Context(), metaName)
				is.True(errors.Is(err, fs.ErrNotExist))
			}
			put(t, first, metaName, []byte("meta"))
			put(t, first, slot, []byte("slot"))
			before := maps.Clone(m.objects)
			err := second.Put(t.Context(), metaName, strings.NewReader("other"), 5)
			if name == slot && (c.says == "" || c.name == "two keys") {
				err = second.Put(t.Context(), slot, strings.NewReader("other"), 5)
			}
			if c.says == "" {
				is.True(errors.Is(err, fs.ErrExist))
			} else if !errors.As(err, new(*blobs.Unfit)) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			is.Equal(m.objects, before)
		}
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	k := testKey(t, 1)
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			b := random(size)
			var out bytes.Buffer
			w, err := k.NewWriter(&out)
			is.NoErr(err)
			_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{bytes.NewReader(b)}, make([]byte, 1000))
			is.NoErr(errors.Join(err, w.Close()))
			is.Equal(int64(out.Len()), SizeOf(int64(size)))
			is.True(IsSealed(out.Bytes()))
			read := func(b []byte) ([]byte, error) {
				r, err := k.NewReader(iotest.OneByteReader(bytes.NewReader(b)))
				if err != nil {
					return nil, err
				}
				return io.ReadAll(r)
			}
			got, err := read(out.Bytes())
			is.NoErr(err)
			is.True(bytes.Equal(got, b))
			for _, cut := range []int{0, 1, headBytes, out.Len() / 2, out.Len() - 1} {
				_, err := read(out.Bytes()[:cut])
				is.True(errors.Is(err, ErrAltered))
			}
			_, err = read(append(out.Bytes(), 0))
			is.True(errors.Is(err, ErrAltered))
		})
	}
}

func FuzzOpen(f *testing.F) {
	k, err := NewKey(Secret{1})
	if err != nil {
		f.Fatal(err)
	}
	for _, size := range []int{0, 10, chunkBytes, chunkBytes + 1} {
		var b bytes.Buffer
		w, err := k.NewWriter(&b)
		if err != nil {
			f.Fatal(err)
		}
		_, err = w.Write(make([]byte, size))
		if err := errors.Join(err, w.Close()); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()-1])
	}
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := k.NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		got, err := io.ReadAll(r)
		if err == nil && SizeOf(int64(len(got))) != int64(len(b)) {
			t.Fatalf("%d bytes of %d", len(got), len(b))
		}
		m := newMemory()
		m.objects[folder+"log/0000000000000001"] = b
		open := &Remote{gate: newGate(func(context.Context) error { return nil }), to: m, key: k}
		_, err = get(open, "log/0000000000000001", 0, -1)
		if err == nil { // a stream is no object
			t.Fatal("a forged object was taken")
		}
	})
}
