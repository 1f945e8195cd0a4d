package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
)

// An Op is one change of the store. It sets Key of Bucket to Value, or removes
// the key if Value is nil. Bucket is at most 127.
type Op struct {
	Bucket     byte
	Key, Value []byte
}

// removal marks the bucket of an Op that removes the key.
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

// parseOps reads the ops that append wrote and appends them to ops. The result
// shares b's memory.
func parseOps(ops []Op, b []byte) ([]Op, error) {
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
		op.Key = text()
		if op.Key == nil {
			return nil, errOps
		}
		if !gone {
			op.Value = text()
			if op.Value == nil {
				return nil, errOps
			}
		}
		ops = append(ops, op)
	}
	return ops, nil
}

var errOps = fmt.Errorf("%w: its changes are invalid", errFrame)

// A Digest is the sum, modulo 2^64, of the xxHash64 of every (bucket, key,
// value) in the store. It detects accidents, not forgery.
type Digest uint64

// add adds an entry, given its encoding in a record.
func (d *Digest) add(encoded []byte) { *d += Digest(xxhash.Sum64(encoded)) }

// Add adds an entry to the digest. It returns scratch for the next call.
func (d *Digest) Add(op Op, scratch []byte) []byte {
	scratch = op.append(scratch[:0])
	d.add(scratch)
	return scratch
}

// A Record holds the changes of one commit.
type Record struct {
	buf     []byte
	scratch []byte
	digest  Digest
}

// frameHead is the size of a frame's head: the length and the CRC-32C of the
// payload, four bytes each. A record's payload begins with its State.
const (
	frameHead = 8
	stateSize = 16
)

// Reset empties the record; digest is that of the store now.
func (r *Record) Reset(digest Digest) {
	const keep = 4 << 20 // bytes; a large record must not hold its memory permanently
	if cap(r.buf) > keep {
		r.buf = nil
	}
	r.buf = append(r.buf[:0], make([]byte, frameHead+stateSize)...)
	r.digest = digest
}

// Add adds a change to the record; old is the previous value, or nil if the key
// had none.
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

// Digest is the store's digest after the changes added so far.
func (r *Record) Digest() Digest { return r.digest }

// seal completes the frame.
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

// MaxRecord is the maximum length of a record in bytes. It ensures that the
// length of a record, and of a snapshot's frame with one of its values, fits
// its field and any system's int.
const MaxRecord = 1 << 30

// errFrame says that there is no whole frame at this place.
var errFrame = fmt.Errorf("no whole record")

// ErrRead says that existing bytes of a journal file could not be read: the
// disk or the system has failed.
var ErrRead = errors.New("reading")

// reader reads a file's frames.
type reader struct {
	file   io.ReaderAt
	at     int64 // where the next frame begins
	size   int64
	buf    []byte // the file from at on; the end of mem
	mem    []byte // reused for every frame
	list   []Op   // reused for the ops of every frame
	onRead func(bytes int64)

	kind  frameKind
	plain []byte // reused for every unpacked frame
	rest  []byte // unpacked records of the frame before at that were not returned yet
	last  []byte // the State after rest
}

// How many bytes are read at once: at the beginning of a file, where often only
// the header is needed, and later.
const (
	aheadFirst = 4 << 10
	ahead      = 512 << 10
)

// A reader reuses its memory for the next frame, up to these bounds.
const (
	keepBytes = 1 << 20
	keepOps   = 64 << 10
)

// frame returns the payload of the next frame, valid until the next call. The
// error is io.EOF at the end of the file, errFrame if there is no whole frame,
// or the file's own.
func (r *reader) frame() ([]byte, error) {
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
	if n > keepBytes {
		// Check the sum in pieces first: a wrong length must not allocate
		// memory.
		got, err := r.sum(r.at+frameHead, n)
		if err != nil {
			return nil, err
		}
		if got != sum {
			return nil, fmt.Errorf("%w: its checksum differs", errFrame)
		}
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

// ops reads the ops of a payload. They are valid until the next call of next or
// ops.
func (r *reader) ops(payload []byte) ([]Op, error) {
	if cap(r.list) > keepOps {
		r.list = nil
	}
	list, err := parseOps(r.list[:0], payload)
	if err != nil {
		return nil, err
	}
	r.list = list
	return list, nil
}

// peek returns the next n bytes, valid until the next call.
func (r *reader) peek(n int) ([]byte, error) {
	if len(r.buf) >= n {
		return r.buf[:n:n], nil
	}
	if int64(n) > r.size-r.at {
		return nil, fmt.Errorf("%w: the file ends within it", errFrame)
	}

	more := int64(ahead)
	if r.at == 0 {
		more = aheadFirst
	}
	want := int(min(max(int64(n), more), r.size-r.at))
	mem := r.mem
	if want > cap(mem) || cap(mem) > keepBytes && want <= keepBytes {
		mem = make([]byte, want)
	}
	mem = mem[:want]
	have := copy(mem, r.buf)
	r.buf, r.mem = mem[:have], mem
	if m, err := r.file.ReadAt(mem[have:], r.at+int64(have)); m < want-have {
		return nil, fmt.Errorf("%w: %w", ErrRead, err)
	}
	if r.onRead != nil {
		r.onRead(int64(want - have))
	}
	r.buf = mem
	return r.buf[:n:n], nil
}

// sum returns the CRC-32C of n bytes of the file. It reads them in pieces.
func (r *reader) sum(at, n int64) (uint32, error) {
	h := crc32.New(castagnoli)
	if m, err := io.Copy(h, io.NewSectionReader(r.file, at, n)); m < n {
		return 0, fmt.Errorf("%w: %w", ErrRead, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return h.Sum32(), nil
}

// resync searches from a bad frame on for a whole record that comes after seq.
// Such a record was acknowledged, because records are written one after
// another. A frame whose content is bad can itself be such a record. Older
// records may be remains of a removed log on the disk.
func (r *reader) resync(seq uint64) (at int64, found bool) {
	const near = 1 << 20 // how far a record's number may be above seq
	return r.find(r.at, func(first []byte) bool { return claims(first, seq, seq+near) })
}

// layout is the newest version of the formats in this file; its files are
// compressed. plainLayout is the version before, without compression.
const (
	layout      = 2
	plainLayout = 1
)

// Each file begins with one of these, in eight bytes.
const (
	logMagic  = "kist-log"
	snapMagic = "kistsnap"
)

// header is the beginning of a file.
type header struct {
	layout, format uint32
	State
	created int64 // wall clock, in milliseconds since 1970
}

const headerSize = 44

func (h header) append(b []byte, magic string) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, h.layout)
	b = binary.BigEndian.AppendUint32(b, h.format)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Digest))
	b = binary.BigEndian.AppendUint64(b, uint64(h.created))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// layoutOf is the known layout with which the checksum of a head is right,
// whatever layout the head has; 0 if it is right with none.
func layoutOf(b []byte) uint32 {
	before := [headerSize - 4]byte(b)
	for n := uint32(plainLayout); n <= layout; n++ {
		binary.BigEndian.PutUint32(before[8:], n)
		if crc32.Checksum(before[:], castagnoli) == binary.BigEndian.Uint32(b[headerSize-4:]) {
			return n
		}
	}
	return 0
}

func parseHeader(b []byte, magic string) (header, error) {
	switch {
	case len(b) < headerSize:
		return header{}, fmt.Errorf("%w: the file ends within its head", errFrame)
	case string(b[:8]) != magic:
		return header{}, fmt.Errorf("%w: it does not begin like a file of the journal", errFrame)
	case binary.BigEndian.Uint32(b[8:]) > layout && layoutOf(b) == 0:
		return header{layout: binary.BigEndian.Uint32(b[8:])}, nil // the rest is unknown
	case crc32.Checksum(b[:headerSize-4], castagnoli) != binary.BigEndian.Uint32(b[headerSize-4:]):
		return header{}, fmt.Errorf("%w: the checksum of its head differs", errFrame)
	}
	return header{
		binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]),
		State{binary.BigEndian.Uint64(b[16:]), Digest(binary.BigEndian.Uint64(b[24:]))},
		int64(binary.BigEndian.Uint64(b[32:])),
	}, nil
}
