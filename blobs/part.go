package blobs

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strings"

	"kist/blobs/disk"
)

// partFolder is the folder, below the folder for uploads, for unfinished
// content that arrives in pieces. Its files outlive the process.
const partFolder = "parts"

// ErrPartLost says that bytes of a part are missing, for instance because the
// data directory was restored or copied without them. The part must start
// again.
var ErrPartLost = errors.New("bytes of the part are missing")

// Resume continues content that arrives in pieces, perhaps over many days and
// restarts. The caller chooses name, from lower-case hex digits and hyphens.
// size and state are the results of Sync after the previous piece. At the
// beginning they are 0 and nil, and Resume makes the file. Bytes beyond size
// were never acknowledged and are cut off. The error is ErrPartLost if there
// are fewer than size bytes or the state is invalid.
//
// Written bytes are not permanent before Sync. Drop leaves the part as the last
// Sync left it. Keep ends the part, but a failed Keep does not. Only one
// goroutine at a time may have a part open.
func (s *Store) Resume(name string, size int64, state []byte) (*Stage, error) {
	h, err := restored(size, state)
	if err != nil {
		return nil, err
	}
	if !partName(name) {
		return nil, errForeign(partFolder + "/" + name)
	}
	st := &Stage{store: s, part: name, hash: h, size: size, flushing: size}
	if err := s.steps.do("open part", st.openPart); err != nil {
		_ = st.discard()
		return nil, s.failing.wrap(st.folder(), "opening a part", err)
	}
	return st, nil
}

// sums computes the hash and the CRC-32 (IEEE) of what is written to it.
type sums struct {
	hash.Hash // SHA-256
	crc       uint32
	summed    bool // crc is that of all bytes
}

func newSums() *sums { return &sums{Hash: sha256.New(), summed: true} }

func (s *sums) Write(p []byte) (int, error) {
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p)
	return s.Hash.Write(p)
}

// state is the state of the hash, and after it the CRC-32 if that is known.
func (s *sums) state() ([]byte, error) {
	b, err := s.Hash.(encoding.BinaryMarshaler).MarshalBinary() //nolint:errcheck // package sha256 promises it
	if err != nil || !s.summed {
		return b, err
	}
	return binary.BigEndian.AppendUint32(b, s.crc), nil
}

// restored returns the sums of the first size bytes from their saved state. Earlier versions saved no CRC-32.
func restored(size int64, state []byte) (*sums, error) {
	s := newSums()
	if size == 0 {
		return s, nil
	}
	h := s.Hash.(encoding.BinaryUnmarshaler) //nolint:errcheck // package sha256 promises it
	err := h.UnmarshalBinary(state)
	s.summed = err != nil && len(state) > 4
	if s.summed {
		end := len(state) - 4
		s.crc, err = binary.BigEndian.Uint32(state[end:]), h.UnmarshalBinary(state[:end])
	}
	if err != nil {
		return nil, fmt.Errorf("blobs: the state of a part: %w (%w)", ErrPartLost, err)
	}
	return s, nil
}

// partName reports whether name is allowed for a part.
func partName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "0123456789abcdef-") == ""
}

func (st *Stage) openPart() error {
	s, name := st.store, partFolder+"/"+st.part
	if st.size == 0 {
		if err := s.uploads.makeDurable(partFolder); err != nil {
			return err
		}
	}
	info, err := s.uploads.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && st.size == 0:
		st.file, err = s.uploads.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return s.uploads.syncFolder(partFolder, "sync parts")
	case errors.Is(err, fs.ErrNotExist):
		return ErrPartLost
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errForeign(name)
	case info.Size() < st.size:
		return ErrPartLost
	}

	st.file, err = s.uploads.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if info.Size() > st.size {
		if err := st.file.Truncate(st.size); err != nil {
			return err
		}
	}
	if st.size == 0 {
		// The process that made the file may have failed before its name was
		// durable.
		if err := s.uploads.syncFolder(partFolder, "sync parts"); err != nil {
			return err
		}
	}
	_, err = st.file.Seek(st.size, 0)
	return err
}

// Sync puts the bytes written so far on stable storage. With the size and the
// state that it returns, Resume continues from here without reading the bytes
// again, even in another process.
func (st *Stage) Sync() (size int64, state []byte, err error) {
	if st.err != nil {
		return 0, nil, st.err
	}
	if err := st.store.steps.do("sync part", func() error { return disk.Datasync(st.file) }); err != nil {
		// The system may have dropped pages that it could not write.
		st.err = st.store.failing.wrap(st.folder(), "syncing a part", err)
		return 0, nil, st.err
	}
	state, err = st.hash.state()
	return st.size, state, err
}

// Adopt pins the content of a complete part whose Keep may have succeeded
// without a record, in this process or an earlier one. The error is
// fs.ErrNotExist if the blob is missing or damaged. Like Keep, it leaves the
// blob's name on stable storage, and may wait for the callback of an Unlink.
func (s *Store) Adopt(size int64, state []byte) (*Kept, error) {
	h, err := restored(size, state)
	if err != nil {
		return nil, err
	}
	kept, err := s.pin(Ref(h.Sum(nil)))
	if err != nil {
		return nil, err
	}
	kept.CRC, kept.Summed = h.crc, h.summed
	if err := s.adopt(kept, size); err != nil {
		kept.Release()
		return nil, err
	}
	return s.handOver(kept)
}

// adopt checks a pinned content of the given size, and puts its name on stable storage.
func (s *Store) adopt(kept *Kept, size int64) error {
	if s.Damaged.Err(kept.Ref) != nil {
		// Keep may have written the right bytes and not removed the marker.
		err := s.Check(kept.Ref)
		if errors.Is(err, ErrDamaged) {
			return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
		}
		if err != nil {
			return err
		}
	}
	if kept.Size != size {
		return fmt.Errorf("blobs: %s has another size: %w", kept.Ref, fs.ErrNotExist)
	}

	if err := s.syncSmall(kept.Ref, size); err != nil {
		return err
	}
	folder, err := s.root.folderFor(kept.Ref)
	if err != nil {
		return err
	}
	defer folder.Close()
	return s.steps.do("sync folder", func() error { return disk.SyncFolder(folder) })
}

// Parts holds unfinished content that arrives in pieces.
type Parts struct {
	uploads *tree // has partFolder
}

// Head reads the first size bytes of a part; ErrPartLost if it has fewer.
func (p *Parts) Head(name string, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	if !partName(name) {
		return nil, errForeign(partFolder + "/" + name)
	}
	f, err := p.uploads.Open(partFolder + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrPartLost
	}
	if err != nil {
		return nil, fmt.Errorf("blobs: opening a part: %w", err)
	}
	defer f.Close()

	head := make([]byte, size)
	_, err = io.ReadFull(f, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // ReadFull returns them bare
		return nil, ErrPartLost
	}
	if err != nil {
		return nil, fmt.Errorf("blobs: reading a part: %w", err)
	}
	return head, nil
}

// Drop removes the bytes of a part, if any. A Stage that has the part open then
// writes bytes that are lost.
func (p *Parts) Drop(name string) error {
	if !partName(name) {
		return errForeign(partFolder + "/" + name)
	}
	err := p.uploads.Remove(partFolder + "/" + name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("blobs: removing a part: %w", err)
	}
	return nil
}

// Names lists the parts that have bytes. It ignores foreign files.
func (p *Parts) Names() ([]string, error) {
	entries, err := p.uploads.list(partFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if partName(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}
