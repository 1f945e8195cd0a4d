package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/golang/snappy"
)

// Files of layout 2 are compressed frame by frame, so damage to one frame
// leaves the others readable. Compression is Snappy's block format. A block
// says how long it is when unpacked. Snapshots are written so. Former versions
// also compressed logs that had ended.
const (
	packTarget = 64 << 10 // bytes of records or entries that are compressed together
	maxPacked  = 1 << 20  // a longer record or entry is not compressed
)

// The last byte of a frame in a log of layout 2 says what follows the State.
// The State is the one after the last record in the frame.
const (
	plainRecord   = 0 // the changes of one record
	packedRecords = 1 // compressed; for each record, the length of its payload (uvarint) and the payload
)

// frameKind says what the frames of a file hold.
type frameKind int

const (
	plainFrames    frameKind = iota // uncompressed payloads
	packedLog                       // of a log of layout 2
	packedSnapshot                  // of a snapshot of layout 2
)

// next returns the payload of the next record of a log, or of the next frame of
// a snapshot with its entries uncompressed. It is valid until the next call.
// The error is io.EOF at the end of the file, errFrame if there is no whole
// frame, or the file's own.
func (r *reader) next() ([]byte, error) {
	if len(r.rest) > 0 {
		return r.shift()
	}
	payload, err := r.frame()
	if err != nil || r.kind == plainFrames {
		return payload, err
	}
	if r.kind == packedSnapshot {
		if payload[0] != packedFrame {
			return payload, nil
		}
		r.plain, err = unpack(r.plain, []byte{entriesFrame}, payload[1:])
		return r.plain, err
	}

	if len(payload) <= stateSize {
		return nil, fmt.Errorf("%w: it is too short", errFrame)
	}
	last, body := payload[:stateSize], payload[stateSize:len(payload)-1]
	switch payload[len(payload)-1] {
	case plainRecord:
		return payload[:len(payload)-1], nil
	case packedRecords:
		r.plain, err = unpack(r.plain, nil, body)
		if err != nil {
			return nil, err
		}
		r.rest, r.last = r.plain, last
		return r.shift()
	}
	return nil, fmt.Errorf("%w: it is of an unknown kind", errFrame)
}

// shift returns the next of the unpacked records.
func (r *reader) shift() ([]byte, error) {
	n, w := binary.Uvarint(r.rest)
	if w <= 0 || n < stateSize || n > uint64(len(r.rest)-w) {
		r.rest = nil
		return nil, fmt.Errorf("%w: its records are invalid", errFrame)
	}
	payload := r.rest[w : w+int(n) : w+int(n)]
	r.rest = r.rest[w+int(n):]
	if len(r.rest) == 0 && !bytes.Equal(payload[:stateSize], r.last) {
		return nil, fmt.Errorf("%w: it does not end with the record that it names", errFrame)
	}
	return payload, nil
}

// unpack returns prefix followed by the unpacked bytes. It reuses b if they
// fit.
func unpack(b, prefix, packed []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(packed)
	if err != nil || n < 1 || n > maxPacked+binary.MaxVarintLen64 {
		return b[:0], fmt.Errorf("%w: its length when unpacked is out of range", errFrame)
	}
	b = slices.Grow(b[:0], len(prefix)+n)[:len(prefix)+n]
	copy(b, prefix)
	if _, err := snappy.Decode(b[len(prefix):], packed); err != nil {
		return b[:0], fmt.Errorf("%w: it cannot be unpacked", errFrame)
	}
	return b, nil
}

// pack compresses b into packed. It unpacks that into check and compares,
// because the result replaces an existing file. It returns both for the next
// call.
func pack(packed, check, b []byte) (p, c []byte, err error) {
	packed = snappy.Encode(packed[:cap(packed)], b)
	check, err = snappy.Decode(check[:cap(check)], packed)
	if err != nil || !bytes.Equal(check, b) {
		wrong := errors.New("compressed data does not unpack to the original; does this machine have faulty memory?")
		return nil, nil, errors.Join(wrong, err)
	}
	return packed, check, nil
}
