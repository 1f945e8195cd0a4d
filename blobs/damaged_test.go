package blobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"kist/kv/kvtest/needs"

	"github.com/matryer/is"
)

// random returns content that differs for each seed.
func random(seed uint64, size int) []byte {
	b := make([]byte, size)
	rnd := rand.New(rand.NewPCG(seed, 7))
	for i := 0; i+8 <= size; i += 8 {
		n := rnd.Uint64()
		for j := range 8 {
			b[i+j] = byte(n >> (8 * j))
		}
	}
	return b
}

// flip changes one bit of a blob on the disk and gives the file an old time.
func flip(t testing.TB, dir string, ref Ref, at int64) {
	t.Helper()
	is := is.New(t)
	name := filepath.Join(dir, ref.path())
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	is.NoErr(err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	is.NoErr(err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], at)
	is.NoErr(err)
	is.NoErr(os.Chtimes(name, time.Time{}, time.Now().Add(-time.Duration(1+rand.IntN(1e6))*time.Minute)))
}

// sent returns the bytes of a blob that Send lets out, and whether there was no
// error.
func sent(s *Store, ref Ref, size int) (b []byte, whole bool, err error) {
	r, err := s.Send(ref, int64(size))
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	b, err = io.ReadAll(r)
	return b, err == nil, err
}

// Wherever a bit is flipped, and however large the blob: Send never returns all
// of it, the blob is in quarantine from then on, and uploading the content
// again heals it.
func TestWrongBytesAreNotSent(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for i, size := range []int{
		1, 100, 4096, maxSmall, maxSmall + 1, 1 << 20, provenFirst - 1, provenFirst, provenFirst + 1, 9 << 20,
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			is := is.New(t)
			s, dir := open(t)
			content := random(uint64(i), size)
			ref := refOf(content)
			for _, at := range []int{0, size / 2, size - 1} {
				var told []Ref
				s.Damaged.OnDamage(func(ref Ref, err error) {
					is.True(errors.Is(err, ErrDamaged))
					told = append(told, ref)
				})
				keep(t, s, content).Release()
				for range 3 { // into memory, and hashed
					b, whole, err := sent(s, ref, size)
					is.NoErr(err)
					is.True(whole && bytes.Equal(b, content))
				}
				s.small.forget(ref) // the memory would hide the disk
				flip(t, dir, ref, int64(at))
				for range 4 {
					b, whole, err := sent(s, ref, size)
					is.True(errors.Is(err, ErrDamaged))
					is.True(!whole && len(b) < size)
				}
				is.Equal(told, []Ref{ref}) // once
				is.Equal(len(s.Damaged.List()), 1)
				_, err := s.Get(ref)
				is.True(errors.Is(err, ErrDamaged))
				_, err = s.Head(ref, 1)
				is.True(errors.Is(err, ErrDamaged))
				is.Equal(s.Small(ref, int64(size)), nil)
				is.True(errors.Is(s.Prove(ref), ErrDamaged))
				info, err := s.Stat(ref) // the bytes stay
				is.NoErr(err)
				is.Equal(info.Size, int64(size))
				for _, err := range s.All() {
					is.NoErr(err)
				}

				keep(t, s, content).Release()
				is.Equal(len(s.Damaged.List()), 0)
				is.Equal(paths(t, dir), []string{ref.path()})
				b, whole, err := sent(s, ref, size)
				is.NoErr(err)
				is.True(whole && bytes.Equal(b, content))
			}
		})
	}
}

// A part of a large blob is sent before it is known to be right. Sending it
// starts a background check.
func TestRangesAreChecked(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	size := provenFirst + 12345
	content := random(1, size)
	ref := refOf(content)
	for _, read := range []func(r io.ReadSeeker) error{
		func(r io.ReadSeeker) error { // a range
			if _, err := r.Seek(500, io.SeekStart); err != nil {
				return err
			}
			b := make([]byte, 100)
			_, err := io.ReadFull(r, b)
			is.True(bytes.Equal(b, content[500:600]))
			return err
		},
		func(r io.ReadSeeker) error { // the client disconnects
			_, err := io.CopyN(io.Discard, r, 1000)
			return err
		},
		func(r io.ReadSeeker) error { // everything, from the second byte on, and the first byte last
			_, err := r.Seek(1, io.SeekStart)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			return err
		},
	} {
		found := make(chan Ref, 1)
		s.Damaged.OnDamage(func(ref Ref, _ error) { found <- ref })
		keep(t, s, content).Release()
		flip(t, dir, ref, int64(size-1))
		r, err := s.Send(ref, int64(size))
		is.NoErr(err)
		is.NoErr(read(r))
		is.NoErr(r.Close())
		select {
		case got := <-found:
			is.Equal(got, ref)
		case <-time.After(time.Minute):
			t.Fatal("it was not checked")
		}
		is.True(errors.Is(s.Damaged.Err(ref), ErrDamaged))
	}
	// Many requests cause one check for each blob.
	for range 2 * maxQueued {
		s.CheckSoon(ref)
	}
	for i := range 2 * maxQueued {
		s.CheckSoon(Ref{byte(i), byte(i >> 8)})
	}
	is.True(len(s.checks.queue) <= maxQueued)
	is.NoErr(s.Close())
	s.CheckSoon(ref) // after Close nothing happens
}

// No part of a damaged blob is sent, whether the part itself is right or wrong,
// unless the blob is too large to be read first.
func TestPartIsProven(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	for _, size := range []int{100, provenFirst, provenFirst + 12345} {
		content := random(1, size)
		ref := refOf(content)
		keep(t, s, content).Release()
		r, err := s.SendPart(ref, int64(size))
		is.NoErr(err)
		b, err := io.ReadAll(r)
		is.NoErr(err)
		is.True(bytes.Equal(b, content))
		is.NoErr(r.Close())
		flip(t, dir, ref, int64(size/2))
		s.small.forget(ref)
		_, err = s.SendPart(ref, int64(size))
		is.True(errors.Is(err, ErrDamaged))
	}
	_, err := s.SendPart(Ref{1}, provenFirst+1)
	is.True(errors.Is(err, fs.ErrNotExist))
}

// A blob whose size differs from its record is not sent.
func TestSendSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	for _, size := range []int{1000, provenFirst + 1} {
		content := random(2, size)
		ref := refOf(content)
		keep(t, s, content).Release()
		for _, other := range []int{0, size - 1, size + 1, 2 * provenFirst} {
			_, _, err := sent(s, ref, other)
			is.True(errors.Is(err, ErrDamaged))
			is.NoErr(s.Damaged.Err(ref)) // the bytes are right
		}
		found := make(chan error, 1)
		s.Damaged.OnDamage(func(_ Ref, err error) { found <- err })
		is.NoErr(os.Truncate(filepath.Join(dir, ref.path()), int64(size/2)))
		_, _, err := sent(s, ref, size)
		is.True(errors.Is(err, ErrDamaged))
		select { // the check runs in the background if the blob is large
		case err := <-found:
			is.True(errors.Is(err, ErrDamaged))
			is.True(!strings.Contains(err.Error(), "marking")) // writing the marker did not fail
		case <-time.After(time.Minute):
			t.Fatal("it was not checked")
		}
	}
	s.Damaged.OnDamage(nil)
	_, _, err := sent(s, Ref{1}, 1)
	is.True(errors.Is(err, fs.ErrNotExist))
	link := Ref{2}
	is.NoErr(os.MkdirAll(filepath.Join(dir, link.path()), 0o700))
	_, _, err = sent(s, link, 1)
	is.True(errors.Is(err, ErrDamaged))
	is.True(errors.Is(s.Damaged.Err(link), ErrDamaged))
}

// Damage is listed in the order of the refs.
func TestDamagedOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	for i := range 20 {
		kept := keep(t, s, random(uint64(i), 100))
		kept.Release()
		flip(t, dir, kept.Ref, 7)
		is.True(errors.Is(s.Check(kept.Ref), ErrDamaged))
	}
	all := s.Damaged.List()
	is.Equal(len(all), 20)
	is.True(slices.IsSortedFunc(all, func(a, b Damage) int { return bytes.Compare(a.Ref[:], b.Ref[:]) }))
}

// Folders with foreign names, and files in place of the store's folders, are
// foreign.
func TestForeignFolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	keep(t, s, []byte("one")).Release()
	names := []string{"AB", "0", "000", "g0", partFolder, damagedFolder}
	for i, name := range names {
		path := filepath.Join(dir, name)
		is.NoErr(os.RemoveAll(path))
		if i < 4 {
			is.NoErr(os.Mkdir(path, 0o700))
		} else {
			is.NoErr(os.WriteFile(path, nil, 0o600))
		}
	}
	found, blobs := 0, 0
	for _, err := range s.All() {
		if err == nil {
			blobs++
			continue
		}
		is.True(errors.Is(err, ErrForeign))
		found++
	}
	is.Equal(found, len(names))
	is.Equal(blobs, 1)
}

// The memory of hashed blobs is bounded and has the latest one.
func TestProvenIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	name := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(name, nil, 0o600))
	is.NoErr(os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour)))
	f, err := os.Open(name)
	is.NoErr(err)
	defer f.Close()
	info, err := observe(f)
	is.NoErr(err)
	var p proven
	for i := range maxProven + 100 {
		ref := Ref{byte(i), byte(i >> 8), byte(i >> 16)}
		p.add(ref, info)
		is.True(p.has(ref, info))
	}
	is.Equal(len(p.seen), maxProven)
}

// All who want a file proven at the same time get the result of one reading.
func TestProvenOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		info, err := os.Stat(t.TempDir())
		is.NoErr(err)
		var p proven
		gate, results, read := make(chan struct{}), make(chan error), 0
		for range 3 {
			go func() { results <- p.once(Ref{1}, info, func() error { read++; <-gate; return ErrDamaged }) }()
			synctest.Wait()
		}
		close(gate)
		for range 3 {
			is.True(errors.Is(<-results, ErrDamaged))
		}
		is.Equal(read, 1)
		is.NoErr(p.once(Ref{1}, info, func() error { return nil })) // it is read again
	})
}

// The quarantine outlives the process, readers see it, and it ends when the
// right bytes are put back by hand and read.
func TestQuarantineLasts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	content := random(3, 5000)
	ref := keep(t, s, content)
	ref.Release()
	flip(t, dir, ref.Ref, 7)
	is.True(errors.Is(s.Check(ref.Ref), ErrDamaged))
	found := s.Damaged.List()
	is.NoErr(s.Close())

	for _, open := range []func(string) (*Store, error){Read, Open, Read, Open} {
		s, err := open(dir)
		is.NoErr(err)
		is.Equal(len(s.Damaged.List()), 1)
		is.Equal(s.Damaged.List()[0].Ref, ref.Ref)
		is.True(s.Damaged.List()[0].Found.Sub(found[0].Found).Abs() < time.Minute)
		_, err = s.Get(ref.Ref)
		is.True(errors.Is(err, ErrDamaged))
		is.True(errors.Is(s.Check(ref.Ref), ErrDamaged))
		is.NoErr(s.Close())
	}
	is.NoErr(os.WriteFile(filepath.Join(dir, ref.Ref.path()), content, 0o600))
	s, err := Read(dir)
	is.NoErr(err)
	is.NoErr(s.Check(ref.Ref))
	_, err = s.Get(ref.Ref)
	is.NoErr(err)
	is.NoErr(s.Close())
	is.Equal(len(paths(t, dir)), 2) // a reader changes nothing
	s, err = Open(dir)
	is.NoErr(err)
	is.NoErr(s.Check(ref.Ref))
	is.Equal(paths(t, dir), []string{ref.Ref.path()})

	// The marker is removed with the blob, no matter who removes it.
	flip(t, dir, ref.Ref, 8)
	is.True(errors.Is(s.Check(ref.Ref), ErrDamaged))
	gone, err := s.Unlink(ref.Ref, always)
	is.NoErr(err)
	is.True(gone)
	is.Equal(paths(t, dir), []string{})
	is.Equal(len(s.Damaged.List()), 0)
	keep(t, s, content).Release()
	flip(t, dir, ref.Ref, 8)
	is.True(errors.Is(s.Check(ref.Ref), ErrDamaged))
	is.NoErr(os.Remove(filepath.Join(dir, ref.Ref.path())))
	_, err = s.Get(ref.Ref)
	is.True(errors.Is(err, fs.ErrNotExist))
	is.NoErr(s.Close())
	s, err = Open(dir)
	is.NoErr(err)
	is.Equal(len(s.Damaged.List()), 0)
	is.NoErr(s.Close())
}

// A permanent error of the disk counts as damage. A temporary one does not, and
// neither does any other error.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		errs    []error // of one reading after another
		damaged bool
		want    error
	}{
		{"none", []error{nil}, false, nil},
		{"passes", []error{syscall.EIO, nil}, false, nil},
		{"stays", []error{syscall.EIO, syscall.EIO}, true, ErrDamaged},
		{"another", []error{syscall.EINTR}, false, syscall.EINTR},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			s, _ := open(t)
			kept := keep(t, s, random(4, 3000))
			kept.Release()
			n := 0
			err := s.CheckThrough(kept.Ref, func(r io.Reader) io.Reader {
				n++
				if tt.errs[n-1] == nil {
					return r
				}
				return io.MultiReader(io.LimitReader(r, 100), iotest.ErrReader(tt.errs[n-1]))
			})
			is.Equal(n, len(tt.errs))
			is.True(errors.Is(err, tt.want))
			is.Equal(s.Damaged.Err(kept.Ref) != nil, tt.damaged)
		})
	}
}

// A check that reads the old bytes while the right ones replace them does not
// put the right ones in quarantine.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	content := random(5, 3000)
	kept := keep(t, s, content)
	kept.Release()
	flip(t, dir, kept.Ref, 100)
	err := s.CheckThrough(kept.Ref, func(r io.Reader) io.Reader {
		keep(t, s, content).Release()
		return r
	})
	is.True(errors.Is(err, ErrDamaged)) // about the bytes that were read
	is.Equal(len(s.Damaged.List()), 0)
	is.NoErr(s.Check(kept.Ref))
}

// Checks, downloads, uploads and removals of damaged contents run concurrently.
// At the end, each blob is in quarantine, is right, or is found to be wrong.
func TestQuarantineRaces(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	s.Damaged.OnDamage(func(Ref, error) {})
	contents := [][]byte{random(1, 10), random(2, 5000), random(3, 200_000)}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 40 {
				c := contents[rnd.IntN(len(contents))]
				ref := refOf(c)
				switch rnd.IntN(5) {
				case 0:
					kept, err := tryKeep(s, c)
					if err != nil {
						t.Error(err)
						return
					}
					kept.Release()
				case 1: // replaced as a file, by wrong bytes
					name := filepath.Join(t.TempDir(), "wrong")
					err := os.WriteFile(name, append(bytes.Clone(c[1:]), c[0]+1), 0o600)
					if err == nil {
						err = os.Rename(name, filepath.Join(dir, ref.path()))
					}
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Error(err)
					}
				case 2:
					_ = s.Check(ref)
				case 3:
					b, whole, _ := sent(s, ref, len(c))
					if whole && !bytes.Equal(b, c) {
						t.Error("wrong bytes were sent")
					}
				case 4:
					if _, err := s.Unlink(ref, always); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for _, c := range contents {
		keep(t, s, c).Release()
	}
	is.Equal(len(s.Damaged.List()), 0)
	for _, c := range contents {
		is.NoErr(s.Check(refOf(c)))
	}
}

// The marker of a damaged blob is removed after the right bytes and their name
// are on stable storage. Otherwise a power cut could leave wrong bytes without
// it.
func TestOrderOfHealing(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		content := random(6, 3000)
		kept := keep(t, s, content)
		kept.Release()
		flip(t, dir, kept.Ref, 100)
		is.True(errors.Is(s.Check(kept.Ref), ErrDamaged))
		steps := recordSteps(s)
		keep(t, s, content).Release()
		got := steps()
		is.Equal(got[len(got)-3:], []string{"sync folder", "unmark", "sync damaged"})
		is.True(slices.Index(got, "sync file") < slices.Index(got, "rename") && slices.Contains(got, "rename"))

		// The folder's name is durable before wrong bytes count as marked.
		flip(t, dir, kept.Ref, 100)
		is.True(errors.Is(s.Check(kept.Ref), ErrDamaged))
		is.Equal(steps(), []string{"mark", "sync damaged"})
		is.NoErr(os.RemoveAll(filepath.Join(dir, damagedFolder)))
		s.Damaged.found = map[Ref]time.Time{}
		is.True(errors.Is(s.Check(kept.Ref), ErrDamaged))
		is.True(strings.HasPrefix(strings.Join(steps(), ","), "sync top,mark"))
	})
}

// atEnd calls do at the end of r.
type atEnd struct {
	r  io.Reader
	do func()
}

func (a *atEnd) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if errors.Is(err, io.EOF) && a.do != nil {
		a.do()
		a.do = nil
	}
	return n, err
}

// A file that is written to while it is read does not count as hashed, however
// long reading takes.
func TestWrittenWhileRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := open(t)
	k := keep(t, s, random(1, 1000))
	k.Release()
	path := filepath.Join(dir, k.Ref.path())
	touch := func(ago time.Duration) {
		is.NoErr(os.Chtimes(path, time.Time{}, time.Now().Add(-ago)))
	}
	touch(time.Hour)
	is.NoErr(s.CheckThrough(k.Ref, func(r io.Reader) io.Reader {
		return &atEnd{r, func() { flip(t, dir, k.Ref, 5); touch(time.Minute) }}
	}))
	_, err := s.Send(k.Ref, 1000)
	is.True(errors.Is(err, ErrDamaged))
}

// A blob that is removed while it is read is not damaged.
func TestScrubVanished(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, _ := open(t)
	kept := keep(t, s, random(1, 1000))
	kept.Release()
	err := s.CheckThrough(kept.Ref, func(r io.Reader) io.Reader {
		removed, err := s.Unlink(kept.Ref, always)
		is.NoErr(err)
		is.True(removed)
		return io.LimitReader(r, 10)
	})
	is.True(errors.Is(err, ErrDamaged)) // about the bytes that were read
	is.Equal(len(s.Damaged.List()), 0)
}
