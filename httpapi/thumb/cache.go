package thumb

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"kist/blobs"
)

// A cache stores one file for each content, named by its ref, in a folder named by the first two digits of the ref:
//
//	 0  8  magic, which contains the version of the format
//	 8  1  type: a reason why there is no thumbnail, JPEG, PNG
//	 9  3  zero
//	12  2  width
//	14  2  height
//	16  4  length of the payload
//	20  4  CRC-32C of the ref, the 20 bytes before and the payload
//	24     payload
//
// Files appear complete and are not synced. After a power cut, an incomplete file fails its checksum. A file that
// is not in this format counts as missing and is replaced. A version that can make more thumbnails must use another
// magic, so that the reasons of the previous version are forgotten.
//
// The folder is opened again each time, which takes a few microseconds, because it may have been removed.
type cache struct {
	dir     string
	writing sync.Mutex // held while there is an unfinished file
}

const (
	magic      = "kistthm1"
	headSize   = 24
	maxPayload = 2 << 20 // larger thumbnails are refused; a PNG of 480 by 480 pixels takes at most 1 MiB
	maxReason  = 200     // bytes

	// unfinished begins the names of incomplete files.
	unfinished = ".new-"
)

// Types of cache files.
const (
	isReason = iota
	isJPEG
	isPNG
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An entry is what is known about a content: its thumbnail, or a refusal.
type entry struct {
	thumb *Thumb
	err   error
}

func folderOf(ref blobs.Ref) string { return ref.String()[:2] }

func pathOf(ref blobs.Ref) string { return folderOf(ref) + "/" + ref.String() }

// open creates the folder if it is missing and removes unfinished files.
func (c *cache) open() error {
	root, err := c.folder()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return c.tidy(root)
}

func (c *cache) folder() (*os.Root, error) {
	if err := os.Mkdir(c.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.OpenRoot(c.dir)
}

// tidy removes files that a crash left unfinished.
func (c *cache) tidy(root *os.Root) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	names, err := list(root, ".")
	for _, name := range names {
		if strings.HasPrefix(name, unfinished) {
			err = errors.Join(err, root.Remove(name))
		}
	}
	return err
}

func list(root *os.Root, name string) ([]string, error) {
	dir, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// get reports whether the content has an entry. An unreadable entry counts as missing.
func (c *cache) get(ref blobs.Ref) (entry, bool) {
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return entry{}, false
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(pathOf(ref))
	if err != nil || !info.Mode().IsRegular() || info.Size() > headSize+maxPayload {
		return entry{}, false
	}
	file, err := root.Open(pathOf(ref))
	if err != nil {
		return entry{}, false
	}
	defer file.Close()
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return entry{}, false
	}
	return parse(ref, data)
}

// age is the age of the content's entry, if it has one. A file from the future, caused by a wrong clock, counts as
// infinitely old.
func (c *cache) age(ref blobs.Ref) (time.Duration, bool) {
	info, err := os.Lstat(filepath.Join(c.dir, pathOf(ref)))
	if err != nil {
		return 0, false
	}
	if age := time.Since(info.ModTime()); age > -time.Minute {
		return age, true
	}
	return math.MaxInt64, true
}

func sum(ref blobs.Ref, data []byte) uint32 {
	s := crc32.Checksum(ref[:], castagnoli)
	s = crc32.Update(s, castagnoli, data[:20])
	return crc32.Update(s, castagnoli, data[headSize:])
}

func parse(ref blobs.Ref, data []byte) (entry, bool) {
	if len(data) < headSize || string(data[:8]) != magic ||
		int64(binary.LittleEndian.Uint32(data[16:])) != int64(len(data)-headSize) ||
		binary.LittleEndian.Uint32(data[20:]) != sum(ref, data) {
		return entry{}, false
	}
	t := &Thumb{
		Bytes: data[headSize:],
		Width: int(binary.LittleEndian.Uint16(data[12:])), Height: int(binary.LittleEndian.Uint16(data[14:])),
	}
	switch data[8] {
	case isReason:
		return entry{err: &refusal{string(t.Bytes)}}, true
	case isJPEG:
		t.Type = "image/jpeg"
	case isPNG:
		t.Type = "image/png"
	default:
		return entry{}, false
	}
	return entry{thumb: t}, true
}

// format is the inverse of parse.
func format(ref blobs.Ref, e entry) []byte {
	data := make([]byte, headSize)
	copy(data, magic)
	var why *refusal
	if errors.As(e.err, &why) {
		data = append(data, why.why[:min(len(why.why), maxReason)]...)
	} else {
		data[8] = isJPEG
		if e.thumb.Type == "image/png" {
			data[8] = isPNG
		}
		binary.LittleEndian.PutUint16(data[12:], uint16(e.thumb.Width))
		binary.LittleEndian.PutUint16(data[14:], uint16(e.thumb.Height))
		data = append(data, e.thumb.Bytes...)
	}
	binary.LittleEndian.PutUint32(data[16:], uint32(len(data)-headSize))
	binary.LittleEndian.PutUint32(data[20:], sum(ref, data))
	return data
}

// put stores the entry and replaces whatever has its name.
func (c *cache) put(ref blobs.Ref, e entry) error {
	root, err := c.folder()
	if err != nil {
		return fmt.Errorf("thumb: opening the cache: %w", err)
	}
	defer func() { _ = root.Close() }()
	c.writing.Lock()
	defer c.writing.Unlock()
	temp := unfinished + rand.Text()
	if err := write(root, temp, ref, e); err != nil {
		if gone := root.Remove(temp); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return fmt.Errorf("thumb: storing a thumbnail: %w", err)
	}
	return nil
}

// write writes the entry to a temporary file and gives it its name.
func write(root *os.Root, temp string, ref blobs.Ref, e entry) error {
	if err := root.WriteFile(temp, format(ref, e), 0o600); err != nil {
		return err
	}
	return place(root, temp, ref)
}

// remove removes the entry of a content, if it has one.
func (c *cache) remove(ref blobs.Ref) error {
	root, err := c.folder()
	if err != nil {
		return fmt.Errorf("thumb: opening the cache: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := root.Remove(pathOf(ref)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("thumb: removing a thumbnail: %w", err)
	}
	return nil
}

// place renames the file to the name for the ref, and removes what is in the way.
func place(root *os.Root, temp string, ref blobs.Ref) error {
	folder, path := folderOf(ref), pathOf(ref)
	err := root.Rename(temp, path)
	if err == nil {
		return nil
	}
	if info, err := root.Lstat(folder); err == nil && !info.IsDir() {
		if err := root.Remove(folder); err != nil {
			return err
		}
	} else if info, err := root.Lstat(path); err == nil && info.IsDir() {
		if err := root.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return root.Rename(temp, path)
}

// Sweep removes the entries of contents that known does not know, and unfinished files. It continues after a file that
// cannot be removed, and stops when known fails. It does not touch files that the cache does not make.
func (m *Maker) Sweep(known func(blobs.Ref) (bool, error)) (removed int, err error) {
	for i := range m.caches {
		n, failed := m.caches[i].sweep(known)
		removed += n
		if failed != nil {
			return removed, failed
		}
	}
	return removed, nil
}

func (c *cache) sweep(known func(blobs.Ref) (bool, error)) (removed int, err error) {
	root, err := c.folder()
	if err != nil {
		return 0, fmt.Errorf("thumb: opening the cache: %w", err)
	}
	defer func() { _ = root.Close() }()
	failed := c.tidy(root)
	folders, err := list(root, ".")
	if err != nil {
		return 0, fmt.Errorf("thumb: listing the cache: %w", err)
	}
	for _, folder := range folders {
		if info, err := root.Lstat(folder); err != nil || !info.IsDir() {
			continue
		}
		names, err := list(root, folder)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		for _, name := range names {
			ref, err := blobs.ParseRef(name)
			if err != nil || folderOf(ref) != folder {
				continue
			}
			got, err := known(ref)
			if err != nil {
				return removed, err
			}
			if got {
				continue
			}
			switch err := root.Remove(filepath.Join(folder, name)); {
			case err == nil:
				removed++
			case !errors.Is(err, fs.ErrNotExist):
				failed = errors.Join(failed, err)
			}
		}
	}
	if failed != nil {
		return removed, fmt.Errorf("thumb: sweeping the cache: %w", failed)
	}
	return removed, nil
}
