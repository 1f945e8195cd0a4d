package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
)

// An Op is one change of the store: Key of Bucket holds Value from now on, or
// nothing if Value is nil. Bucket is at most 127.
type Op struct {
	Bucket     byte
	Key, Value []byte
}

// removal marks the bucket of an Op that empties the key.
const removal = 0x80

func (op Op) append(b []byte) []byte {
	if op.Value == nil {
		b = append(b, op.Bucket|removal)
		b = binary.AppendUvarint(b, uint64(len(op.Key)))
		return append(b, op.Key...)
	}
	b = append(b, op.Bucket)
	b = binary.AppendUvarint(b, uint64(len(op.Key)))
	b = append(b, op.Key...)
	b = binary.AppendUvarint(b, uint64(len(op.Value)))
	return append(b, op.Value...)
}

// parseOps reads what append wrote; the result shares b's memory.
func parseOps(b []byte) ([]Op, error) {
	var ops []Op
	text := func() []byte {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return nil
		}
		t := b[w : w+int(n) : w+int(n)]
		b = b[w+int(n):]
		return t
	}
	for len(b) > 0 {
		op := Op{Bucket: b[0] &^ removal}
		gone := b[0]&removal != 0
		b = b[1:]
		if op.Key = text(); op.Key == nil {
			return nil, errOps
		}
		if !gone {
			if op.Value = text(); op.Value == nil {
				return nil, errOps
			}
		}
		ops = append(ops, op)
	}
	return ops, nil
}

var errOps = fmt.Errorf("%w: the changes in it make no sense", errFrame)

// A Digest is the sum, modulo 2^64, of the xxHash64 of every (bucket, key,
// value) that the store holds. It finds accidents, not forgery.
type Digest uint64

// add counts an entry in, given its encoding in a record.
func (d *Digest) add(encoded []byte) { *d += Digest(xxhash.Sum64(encoded)) }

// Add counts an entry in.
func (d *Digest) Add(op Op, scratch []byte) []byte {
	scratch = op.append(scratch[:0])
	d.add(scratch)
	return scratch
}

// A Record is what one commit changes.
type Record struct {
	buf     []byte
	scratch []byte
	digest  Digest
}

// frameHead is what is before the payload of a frame: length and CRC-32C of
// the payload, four bytes each. A record's payload begins with its State.
const (
	frameHead = 8
	stateSize = 16
)

// Reset empties the record; digest is that of the store as it is.
func (r *Record) Reset(digest Digest) {
	const keep = 4 << 20 // bytes: one large record must not hold memory for good
	if cap(r.buf) > keep {
		r.buf = nil
	}
	r.buf = append(r.buf[:0], make([]byte, frameHead+stateSize)...)
	r.digest = digest
}

// Add adds a change to the record; old is what the key held, nil for nothing.
func (r *Record) Add(op Op, old []byte) {
	start := len(r.buf)
	r.buf = op.append(r.buf)
	if op.Value != nil {
		r.digest.add(r.buf[start:])
	}
	if old != nil {
		r.scratch = Op{op.Bucket, op.Key, old}.append(r.scratch[:0])
		r.digest -= Digest(xxhash.Sum64(r.scratch))
	}
}

// Digest is that of the store after the changes added so far.
func (r *Record) Digest() Digest { return r.digest }

// seal makes the frame complete.
func (r *Record) seal(to State) []byte {
	binary.BigEndian.PutUint64(r.buf[frameHead:], to.Seq)
	binary.BigEndian.PutUint64(r.buf[frameHead+8:], uint64(to.Digest))
	return sealFrame(r.buf)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealFrame fills in the head of a frame.
func sealFrame(b []byte) []byte {
	payload := b[frameHead:]
	binary.BigEndian.PutUint32(b, uint32(len(payload)))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(payload, castagnoli))
	return b
}

// MaxRecord is how long a record may be, in bytes: so that its length, and that
// of a snapshot's frame with a value of it, fits its head and any system's int.
const MaxRecord = 1 << 30

// errFrame says that no whole frame is there.
var errFrame = fmt.Errorf("no whole record")

// errRead says that bytes that should be there could not be read.
var errRead = errors.New("reading")

// reader reads a file's frames.
type reader struct {
	file io.ReaderAt
	at   int64 // where the next frame begins
	size int64
	buf  []byte // of the file, from at on
}

// What is read at once, in bytes: at the beginning of a file, of which often
// the header alone is wanted, and then.
const (
	aheadFirst = 4 << 10
	ahead      = 1 << 20
)

// next is the payload of the next frame, in memory that is not used again.
// The error is io.EOF at the end of the file, errFrame where no whole frame
// is, or the file's own.
func (r *reader) next() ([]byte, error) {
	if r.at == r.size {
		return nil, io.EOF
	}
	head, err := r.peek(frameHead)
	if err != nil {
		return nil, err
	}
	n, sum := int64(binary.BigEndian.Uint32(head)), binary.BigEndian.Uint32(head[4:])
	if n == 0 || n > min(math.MaxInt32-frameHead, r.size-r.at-frameHead) {
		return nil, fmt.Errorf("%w: its length is out of range", errFrame)
	}
	frame, err := r.peek(frameHead + int(n))
	if err != nil {
		return nil, err
	}
	payload := frame[frameHead:]
	if crc32.Checksum(payload, castagnoli) != sum {
		return nil, fmt.Errorf("%w: its checksum differs", errFrame)
	}
	r.at += int64(len(frame))
	r.buf = r.buf[len(frame):]
	return payload, nil
}

// peek is the next n bytes.
func (r *reader) peek(n int) ([]byte, error) {
	if len(r.buf) < n {
		if int64(n) > r.size-r.at {
			return nil, fmt.Errorf("%w: the file ends within it", errFrame)
		}
		more := int64(ahead)
		if r.at == 0 {
			more = aheadFirst
		}
		b := make([]byte, min(max(int64(n), more), r.size-r.at))
		have := copy(b, r.buf)
		if m, err := r.file.ReadAt(b[have:], r.at+int64(have)); m < len(b)-have {
			return nil, fmt.Errorf("%w: %w", errRead, err)
		}
		r.buf = b
	}
	return r.buf[:n:n], nil
}

// resync looks from a bad frame on for a whole record that comes after seq: one
// that was acknowledged, as they are written one after another. A frame that is
// bad for what it says is such a record itself. Older ones may be what the disk
// has kept of a log that was removed.
func (r *reader) resync(seq uint64) (at int64, found bool) {
	const near = 1 << 20 // records; numbers that a file may have after seq
	b := make([]byte, r.size-r.at)
	if n, _ := r.file.ReadAt(b, r.at); n < len(b) {
		b = b[:n]
	}
	for o := 0; o+frameHead+stateSize <= len(b); o++ {
		if n := binary.BigEndian.Uint64(b[o+frameHead:]); n <= seq || n-seq > near {
			continue
		}
		n := int(binary.BigEndian.Uint32(b[o:]))
		if n < stateSize || n > len(b)-o-frameHead {
			continue
		}
		if crc32.Checksum(b[o+frameHead:o+frameHead+n], castagnoli) == binary.BigEndian.Uint32(b[o+4:]) {
			return r.at + int64(o), true
		}
	}
	return 0, false
}

// layout is the version of the formats in this file.
const layout = 1

// Magics begin the files, in eight bytes.
const (
	logMagic  = "kist-log"
	snapMagic = "kistsnap"
)

// header begins a file.
type header struct {
	layout, format uint32
	State
	made int64 // when, by the wall clock, in milliseconds since 1970
}

const headerSize = 44

func (h header) append(b []byte, magic string) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, h.layout)
	b = binary.BigEndian.AppendUint32(b, h.format)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Digest))
	b = binary.BigEndian.AppendUint64(b, uint64(h.made))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func parseHeader(b []byte, magic string) (header, error) {
	switch {
	case len(b) < headerSize:
		return header{}, fmt.Errorf("%w: the file ends within its head", errFrame)
	case string(b[:8]) != magic:
		return header{}, fmt.Errorf("%w: it does not begin like a file of the journal", errFrame)
	case binary.BigEndian.Uint32(b[8:]) > layout:
		return header{layout: binary.BigEndian.Uint32(b[8:])}, nil // what comes after is not known
	case crc32.Checksum(b[:headerSize-4], castagnoli) != binary.BigEndian.Uint32(b[headerSize-4:]):
		return header{}, fmt.Errorf("%w: the checksum of its head differs", errFrame)
	}
	return header{
		binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]),
		State{binary.BigEndian.Uint64(b[16:]), Digest(binary.BigEndian.Uint64(b[24:]))},
		int64(binary.BigEndian.Uint64(b[32:])),
	}, nil
}
