// Package archive makes a zip of contents whose sizes are known, without compression. The
// zip does not exist anywhere: each of its bytes is computed when it is read, so reading
// may start and continue at any byte. The format is that of PKWARE's APPNOTE 6.3.
package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"
)

// An Entry is a file in the zip.
type Entry struct {
	Name     string // see Names
	Modified time.Time
	Size     int64
	Content  [32]byte // equal for equal bytes
	// CRC returns the CRC-32 (IEEE) of the bytes. It is called when a part of the zip is
	// read that has it.
	CRC  func() (uint32, error)
	Open func() (io.ReadSeekCloser, error)
}

// Archive reads the zip. It is not safe for concurrent use.
type Archive struct {
	entries []Entry
	start   []int64 // of each entry, and of the directory
	central []int64 // of each entry in the directory, and of the end
	tail    []byte
	at      int64

	open   io.ReadSeekCloser // the content of entries[opened]
	opened int
	openAt int64
}

// Fields of 32 and 16 bits with these values refer to one of zip64.
const (
	max32 = 1<<32 - 1
	max16 = 1<<16 - 1
)

const (
	localSize   = 30
	centralSize = 46
	timeSize    = 9 // extended timestamp: tag, length, flags, seconds
	flagUTF8    = 1 << 11
)

// New lays out a zip of the entries.
func New(entries []Entry) *Archive {
	a := &Archive{
		entries: entries, start: make([]int64, len(entries)+1), central: make([]int64, len(entries)+1), opened: -1,
	}
	for i := range entries {
		a.start[i+1] = a.start[i] + int64(len(a.local(i, 0))) + entries[i].Size
	}
	a.central[0] = a.start[len(entries)]
	for i := range entries {
		a.central[i+1] = a.central[i] + int64(len(a.directory(i, 0)))
	}
	a.tail = a.end()
	return a
}

// Size is the size of the zip in bytes.
func (a *Archive) Size() int64 { return a.central[len(a.entries)] + int64(len(a.tail)) }

// Tag is equal for zips with the same bytes.
func (a *Archive) Tag() [32]byte {
	h := sha256.New()
	for i := range a.entries {
		e := &a.entries[i]
		fmt.Fprintf(h, "%d %d %x %q\n", e.Size, e.Modified.Unix(), e.Content, e.Name)
	}
	return [32]byte(h.Sum(nil))
}

// dosTime is an instant in UTC as MS-DOS has it, in steps of two seconds from 1980 on.
func dosTime(t time.Time) (clock, day uint16) {
	t = t.UTC()
	if t.Year() < 1980 {
		return 0, 1<<5 | 1
	}
	year := min(t.Year()-1980, 127)
	return uint16(t.Hour()<<11 | t.Minute()<<5 | t.Second()/2), uint16(year<<9 | int(t.Month())<<5 | t.Day())
}

// common appends the fields that both headers of an entry have: from the version that is
// needed to the lengths of the name and of the extra fields.
func (e *Entry) common(dst []byte, crc uint32, extra int) []byte {
	le := binary.LittleEndian
	version := uint16(20)
	if e.Size >= max32 {
		version = 45
	}
	clock, day := dosTime(e.Modified)
	dst = le.AppendUint16(le.AppendUint16(le.AppendUint16(dst, version), flagUTF8), 0) // stored
	dst = le.AppendUint32(le.AppendUint16(le.AppendUint16(dst, clock), day), crc)
	size := uint32(min(e.Size, max32))
	dst = le.AppendUint32(le.AppendUint32(dst, size), size)
	return le.AppendUint16(le.AppendUint16(dst, uint16(len(e.Name))), uint16(extra))
}

// modified appends the time of change to the second.
func (e *Entry) modified(dst []byte) []byte {
	le := binary.LittleEndian
	return le.AppendUint32(append(le.AppendUint16(append(dst, "UT"...), 5), 1), uint32(e.Modified.Unix()))
}

// local is the header before the bytes of an entry.
func (a *Archive) local(i int, crc uint32) []byte {
	le, e := binary.LittleEndian, &a.entries[i]
	large := []byte(nil)
	if e.Size >= max32 {
		large = le.AppendUint64(le.AppendUint64(le.AppendUint16([]byte{1, 0}, 16), uint64(e.Size)), uint64(e.Size))
	}
	dst := append(make([]byte, 0, localSize+len(e.Name)+timeSize+len(large)), "PK\x03\x04"...)
	dst = append(e.common(dst, crc, timeSize+len(large)), e.Name...)
	return append(e.modified(dst), large...)
}

// directory is the header of an entry in the directory.
func (a *Archive) directory(i int, crc uint32) []byte {
	le, e := binary.LittleEndian, &a.entries[i]
	var large []byte
	if e.Size >= max32 {
		large = le.AppendUint64(le.AppendUint64(large, uint64(e.Size)), uint64(e.Size))
	}
	if a.start[i] >= max32 {
		large = le.AppendUint64(large, uint64(a.start[i]))
	}
	version := uint16(3<<8 | 20) // made on Unix, which gives the entry a mode
	if len(large) > 0 {
		version = 3<<8 | 45
		large = append(le.AppendUint16([]byte{1, 0}, uint16(len(large))), large...)
	}
	dst := append(make([]byte, 0, centralSize+len(e.Name)+timeSize+len(large)), "PK\x01\x02"...)
	dst = e.common(le.AppendUint16(dst, version), crc, timeSize+len(large))
	dst = append(dst, make([]byte, 6)...) // comment, disk, internal attributes
	dst = le.AppendUint32(dst, 0o100644<<16)
	dst = append(le.AppendUint32(dst, uint32(min(a.start[i], max32))), e.Name...)
	return append(e.modified(dst), large...)
}

// end is what follows the entries of the directory.
func (a *Archive) end() []byte {
	le := binary.LittleEndian
	n, at := uint64(len(a.entries)), uint64(a.central[0])
	after := uint64(a.central[len(a.entries)])
	size := after - at
	var dst []byte
	if n >= max16 || size >= max32 || at >= max32 {
		dst = le.AppendUint64(append(dst, "PK\x06\x06"...), 44)
		dst = le.AppendUint16(le.AppendUint16(dst, 3<<8|45), 45)
		dst = append(dst, make([]byte, 8)...) // disks
		for _, v := range []uint64{n, n, size, at} {
			dst = le.AppendUint64(dst, v)
		}
		dst = append(append(dst, "PK\x06\x07"...), 0, 0, 0, 0)
		dst = le.AppendUint32(le.AppendUint64(dst, after), 1)
	}
	dst = append(append(dst, "PK\x05\x06"...), 0, 0, 0, 0)
	for range 2 {
		dst = le.AppendUint16(dst, uint16(min(n, max16)))
	}
	dst = le.AppendUint32(le.AppendUint32(dst, uint32(min(size, max32))), uint32(min(at, max32)))
	return append(dst, 0, 0) // comment
}

// Read implements [io.Reader].
func (a *Archive) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	for n < len(p) && a.at < a.Size() {
		more, err := a.piece(p[n:])
		n, a.at = n+more, a.at+int64(more)
		if err != nil {
			return n, err
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// piece reads from one part of the zip.
func (a *Archive) piece(p []byte) (int, error) {
	last := len(a.entries)
	header := func(starts []int64, make func(int, uint32) []byte) (i int, at int64, text []byte, err error) {
		i = sort.Search(last, func(i int) bool { return starts[i+1] > a.at })
		at = a.at - starts[i]
		text = make(i, 0)
		if at >= int64(len(text)) {
			return i, at, text, nil
		}
		crc, err := a.entries[i].CRC()
		if err != nil {
			return i, at, text, err
		}
		return i, at, make(i, crc), nil
	}
	switch {
	case a.at >= a.central[last]:
		return copy(p, a.tail[a.at-a.central[last]:]), nil
	case a.at >= a.start[last]:
		_, at, text, err := header(a.central, a.directory)
		if err != nil {
			return 0, err
		}
		return copy(p, text[at:]), nil
	}
	i, at, text, err := header(a.start, a.local)
	if err != nil {
		return 0, err
	}
	if at < int64(len(text)) {
		return copy(p, text[at:]), nil
	}
	return a.content(i, at-int64(len(text)), p)
}

// Ready prepares the next read: it finds out the CRC and opens the content that this read needs, and fails if the
// read would.
func (a *Archive) Ready() error {
	if a.at >= a.Size() {
		return nil
	}
	if _, err := a.piece(make([]byte, 1)); err != nil || a.at >= a.central[0] {
		return err
	}
	return a.reach(sort.Search(len(a.entries), func(i int) bool { return a.start[i+1] > a.at }))
}

// reach opens the content of an entry.
func (a *Archive) reach(i int) error {
	if a.opened == i {
		return nil
	}
	if err := a.Close(); err != nil {
		return err
	}
	f, err := a.entries[i].Open()
	if err != nil {
		return err
	}
	a.open, a.opened, a.openAt = f, i, 0
	return nil
}

// content reads from the content of an entry.
func (a *Archive) content(i int, at int64, p []byte) (int, error) {
	if err := a.reach(i); err != nil {
		return 0, err
	}
	if a.openAt != at {
		if _, err := a.open.Seek(at, io.SeekStart); err != nil {
			return 0, err
		}
		a.openAt = at
	}
	n, err := a.open.Read(p[:min(int64(len(p)), a.entries[i].Size-at)])
	a.openAt += int64(n)
	switch {
	case n > 0 && errors.Is(err, io.EOF):
		err = nil
	case n == 0 && (err == nil || errors.Is(err, io.EOF)):
		err = io.ErrUnexpectedEOF // the content is shorter than it was
	}
	return n, err
}

// Seek implements [io.Seeker].
func (a *Archive) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += a.at
	case io.SeekEnd:
		offset += a.Size()
	}
	if offset < 0 {
		return 0, errors.New("archive: a place before the beginning")
	}
	a.at = offset
	return offset, nil
}

// Close closes the content that was read last.
func (a *Archive) Close() error {
	if a.opened < 0 {
		return nil
	}
	a.opened = -1
	return a.open.Close()
}
