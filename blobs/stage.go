package blobs

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"kist/blobs/disk"
)

// copyBuffer is the unit in which content is read and written. The parts of a
// multipart form arrive in pieces of 4 KiB at most. Gathering them saves most
// of the system calls.
type copyBuffer [256 << 10]byte

var copyBuffers = sync.Pool{New: func() any { return new(copyBuffer) }}

// A Stage takes in content that has no name yet and hashes it on the way. It
// ends with Keep or Drop. A caller stages, defers Drop, writes, and keeps:
//
//	stage, err := store.Stage()
//	…
//	defer stage.Drop()
//	io.Copy(stage, body)
//	kept, err := stage.Keep()
//	…
//	defer kept.Release()
//
// A Stage that failed once fails from then on with the same error, and leaves
// nothing on disk after Drop. One goroutine at a time may use it.
type Stage struct {
	store    *Store
	file     *os.File // nil while the content is in memory: see StageSmall
	held     []byte   // the content then
	temp     string   // the file's name in tempFolder, empty if it has none
	part     string   // the file's name in partFolder, for content that arrives in pieces
	hash     *sums
	size     int64
	flushing int64 // how many bytes the system was told to start writing to disk
	err      error // what every further call returns
}

var (
	errKept    = errors.New("blobs: the stage is already kept")
	errDropped = errors.New("blobs: the stage is already dropped")
)

// Stage begins to take in new content.
func (s *Store) Stage() (*Stage, error) {
	st := &Stage{store: s, hash: newSums()}
	return st, st.open()
}

// open makes the file of the stage.
func (st *Stage) open() error {
	open := st.openNamed
	if st.store.unnamed {
		open = st.openUnnamed
	}
	err := st.store.steps.do("create", open)
	if err != nil {
		_ = st.discard()
		st.err = st.store.failing.wrap(st.folder(), "staging content", err)
	}
	return st.err
}

// canLink reports whether content can be staged in a file without a name and
// get a name later. Not every file system can do both. The second also needs
// /proc, which not every system has.
func (s *Store) canLink() bool {
	st := &Stage{store: s}
	defer st.discard()
	return st.openUnnamed() == nil && st.linkTemp() == nil
}

func (st *Stage) openUnnamed() (err error) {
	st.file, err = disk.CreateUnnamed(st.store.root.Root)
	return err
}

// openNamed opens the staged file under its own name in the temporary folder.
// It makes the folder when it is missing.
func (st *Stage) openNamed() error {
	return st.inTemp(func(name string) (err error) {
		st.file, err = st.store.uploads.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
}

// linkTemp gives a file without a name a name in the temporary folder.
func (st *Stage) linkTemp() error {
	return st.inTemp(func(string) error {
		folder, err := st.store.uploads.openFolder(tempFolder)
		if err != nil {
			return err
		}
		defer folder.Close()
		return disk.LinkUnnamed(st.file, folder, st.temp)
	})
}

// inTemp claims a new name in the temporary folder and calls create, which puts
// a file there; path is below the folder for uploads.
func (st *Stage) inTemp(create func(path string) error) error {
	s := st.store
	st.temp = s.temps.claim()
	err := create(tempFolder + "/" + st.temp)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.uploads.makeFolder(tempFolder); err != nil {
		return err
	}
	return create(tempFolder + "/" + st.temp)
}

// Size is the number of bytes written so far.
func (st *Stage) Size() int64 { return st.size }

// Ref is the hash of the content written so far.
func (st *Stage) Ref() Ref { return Ref(st.hash.Sum(nil)) }

// Write adds p to the content.
func (st *Stage) Write(p []byte) (int, error) {
	n, err := st.write(p)
	_, _ = st.hash.Write(p[:n])
	return n, err
}

// write is Write without the hash.
func (st *Stage) write(p []byte) (int, error) {
	if st.err != nil || len(p) == 0 {
		return 0, st.err
	}
	if st.file == nil {
		if st.size+int64(len(p)) <= SmallContent {
			st.held = append(st.held, p...)
			st.size += int64(len(p))
			return len(p), nil
		}
		if err := st.spill(); err != nil {
			return 0, err
		}
	}
	var n int
	err := st.store.steps.do("write", func() (err error) {
		n, err = st.file.Write(p)
		return err
	})
	st.size += int64(n)
	if err != nil {
		st.err = st.store.failing.wrap(st.folder(), "writing staged content", err)
		return n, st.err
	}
	if ready := st.size - st.flushing; ready >= disk.WriteBack {
		disk.StartWriteBack(st.file, st.flushing, ready)
		st.flushing = st.size
	}
	return n, nil
}

// ReadFrom writes and hashes the first inline bytes on the caller's goroutine.
// Beyond that it reads, writes and hashes at the same time, with up to
// moreBuffers buffers; three are enough if r is slow. A disk that makes writers
// wait then delays neither the connection nor the hash.
const (
	inline      = 1 << 20
	moreBuffers = 8
)

// ReadFrom adds everything that r has to the content, in large pieces. It
// returns an error of r, io.ErrUnexpectedEOF included, unchanged; that error
// does not make the stage fail.
func (st *Stage) ReadFrom(r io.Reader) (total int64, err error) {
	before := st.size
	err = st.readAll(r)
	if err == io.EOF { // readers return it unwrapped
		err = nil
	}
	return st.size - before, err
}

// readAll is ReadFrom. The error is io.EOF at the end of r.
func (st *Stage) readAll(r io.Reader) error {
	if err := st.readInline(r); err != nil {
		return err
	}
	return st.readConcurrently(r)
}

// readInline is readAll for the first inline bytes.
func (st *Stage) readInline(r io.Reader) error {
	buf := copyBuffers.Get().(*copyBuffer)
	defer copyBuffers.Put(buf)
	for end := st.size + inline; st.size < end; {
		n, err := buf.fill(r)
		if _, failed := st.Write(buf[:n]); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readConcurrently is readAll beyond inline. It returns only when everything is
// written and hashed. The error is io.EOF at the end of r.
func (st *Stage) readConcurrently(r io.Reader) (err error) {
	type filled struct {
		b *copyBuffer
		n int
	}
	full, written := make(chan filled, moreBuffers), make(chan filled, moreBuffers)
	free := make(chan *copyBuffer, moreBuffers)
	var failed atomic.Bool
	var work sync.WaitGroup

	work.Go(func() {
		defer close(written)
		for f := range full {
			f.n, _ = st.write(f.b[:f.n])
			failed.Store(st.err != nil)
			written <- f
		}
	})
	work.Go(func() {
		defer close(free)
		for f := range written {
			_, _ = st.hash.Write(f.b[:f.n])
			free <- f.b
		}
	})

	for taken := 0; err == nil && !failed.Load(); {
		if len(free) == 0 && taken < moreBuffers {
			taken++
			free <- copyBuffers.Get().(*copyBuffer)
		}
		f := filled{b: <-free}
		f.n, err = f.b.fill(r)
		full <- f
	}

	close(full)
	work.Wait()
	for b := range free {
		copyBuffers.Put(b)
	}
	if st.err != nil {
		return st.err
	}
	return err
}

// fill is not io.ReadFull, which reports a short read with the same error that a
// reader uses for a truncated source.
func (b *copyBuffer) fill(r io.Reader) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// Drop discards the content. It does nothing after Keep or an earlier Drop.
func (st *Stage) Drop() error {
	if st.err == errKept || st.err == errDropped {
		return nil
	}
	st.err = errDropped
	if err := st.discard(); err != nil {
		return fmt.Errorf("blobs: dropping staged content: %w", err)
	}
	return nil
}

// discard closes the file and removes its name in the temporary folder, if any.
// A part keeps its name: a failure does not lose the bytes that arrived.
func (st *Stage) discard() error {
	st.letGo()
	if st.file != nil {
		// The bytes are either synced by now or not wanted.
		_ = st.file.Close()
	}
	if st.temp == "" {
		return nil
	}
	err := st.store.uploads.Remove(tempFolder + "/" + st.temp)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	st.released()
	return err
}

// released records that the stage has no name in the temporary folder any more.
func (st *Stage) released() {
	st.store.temps.release(st.temp)
	st.temp = ""
}

// Keep makes the content durable under its name and pins it. When it returns
// without an error,
//
//  1. the bytes were synced, then
//  2. the file got its name, then
//  3. the folder that holds the name was synced, and the folder above it if the
//     folder was new,
//
// so the caller may commit and acknowledge a record that refers to the blob.
// The caller releases the pin when the commit has succeeded or failed.
//
// Equal content is stored once. Keep first reads an existing copy of up to 256
// MiB. If its bytes are right, Keep uses the copy and still syncs the folder,
// since another upload may only just have named it. It also syncs a copy that
// KeepLater may have made. If the bytes are wrong, or
// the copy is larger or in quarantine, the staged bytes replace it atomically.
// A quarantine ends after that. So the right bytes are under the name when Keep
// returns, and uploading damaged content again repairs it.
//
// When Keep fails, the stage is dropped and nothing is pinned. The bytes of a
// part stay, and Resume continues with them. If syncing the folder failed, the
// complete blob may already have its name; the sweep removes it.
//
// Keep may wait for the callback of an Unlink of the same content. So the
// caller must not hold anything that the callback waits for, such as a write
// transaction.
func (st *Stage) Keep() (*Kept, error) {
	kept, err := st.keepHere()
	if err != nil {
		return nil, err
	}
	return st.store.handOver(kept)
}

// keepHere is Keep for a content that the object store has already.
func (st *Stage) keepHere() (*Kept, error) {
	if st.err == nil && st.file == nil {
		st.err = st.spill()
	}
	if st.err != nil {
		return nil, st.err
	}
	ref := Ref(st.hash.Sum(nil))
	kept := st.store.names.pin(ref)
	kept.Size, kept.CRC, kept.Summed = st.size, st.hash.crc, st.hash.summed

	if err := st.keep(ref); err != nil {
		kept.Release()
		st.err = st.store.failing.wrap(st.store.root, "keeping staged content", err)
		// The sweep or Open removes what cannot be removed now.
		_ = st.discard()
		return nil, st.err
	}
	st.err = errKept
	st.store.failing.note(st.store.root, nil)
	return kept, nil
}

func (st *Stage) keep(ref Ref) error {
	s := st.store
	folder, err := s.root.folderFor(ref)
	if err != nil {
		return err
	}
	defer folder.Close()
	if !disk.Missing(folder, ref.String()) && st.matches(ref) && s.syncSmall(ref, st.size) == nil {
		_ = st.discard() // the sweep removes a file that stays
	} else if err := st.publish(ref, folder); err != nil {
		return err
	}
	if err := s.steps.do("sync folder", func() error { return disk.SyncFolder(folder) }); err != nil {
		return err
	}
	return s.Damaged.release(ref)
}

// matches reports whether the file under ref has the staged bytes. It reads both,
// because comparing costs less than hashing the copy.
func (st *Stage) matches(ref Ref) bool {
	info, err := st.store.Stat(ref)
	if err != nil || info.Size != st.size || st.size > st.store.reread {
		return false
	}
	copied, err := st.store.getHere(ref)
	if err != nil {
		return false
	}
	defer copied.Close()

	a, b := copyBuffers.Get().(*copyBuffer), copyBuffers.Get().(*copyBuffer)
	defer copyBuffers.Put(a)
	defer copyBuffers.Put(b)
	for at := int64(0); at < st.size; at += int64(len(a)) {
		n := min(st.size-at, int64(len(a)))
		if _, err := st.file.ReadAt(a[:n], at); err != nil {
			return false
		}
		if _, err := copied.ReadAt(b[:n], at); err != nil || !bytes.Equal(a[:n], b[:n]) {
			return false
		}
	}
	return true
}

// publish syncs the staged file and renames it to ref, replacing any file with
// that name.
func (st *Stage) publish(ref Ref, folder *os.File) error {
	s := st.store
	if err := s.steps.do("sync file", st.file.Sync); err != nil {
		return err
	}
	if st.temp == "" && st.part == "" {
		err := s.steps.do("link", func() error { return disk.LinkUnnamed(st.file, folder, ref.String()) })
		if err == nil {
			s.cache.grow(st.size)
			return st.discard()
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A link cannot replace an existing name, but a rename can. The name
		// belongs to a damaged copy, or to one that another upload just linked.
		if err := s.steps.do("link temp", st.linkTemp); err != nil {
			return err
		}
	}

	// Some systems cannot rename an open file.
	_ = st.file.Close()
	in, name := tempFolder, st.temp
	if st.part != "" {
		in, name = partFolder, st.part
	}
	from, err := s.uploads.openFolder(in)
	if err != nil {
		return err
	}
	defer from.Close()

	rename := func() error { return disk.Rename(from, name, folder, ref.String()) }
	err = s.steps.do("rename", rename)
	if errors.Is(err, syscall.EISDIR) {
		aside := ref.path() + "-folder-" + rand.Text() // All lists it as foreign
		if err := s.root.Rename(ref.path(), aside); err != nil {
			return err
		}
		err = s.steps.do("rename", rename)
	}
	if err != nil {
		return err
	}
	s.cache.grow(st.size)
	st.released()
	return nil
}
