package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/golang/snappy"
)

// Files of layout 2 are compressed frame by frame, so damage to one frame
// leaves the others readable. Compression is Snappy's block format. A block
// says how long it is when unpacked.
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
		if r.plain, err = unpack(r.plain, nil, body); err != nil {
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

// Pack compresses, one after another, the logs that ended before the state. Each log keeps its name. The new file replaces it
// when complete, so that a reader of the old one can read it to its end. While the journal is held, Pack does nothing. It
// takes a quarter of one core and about a megabyte of memory. It skips logs
// that cannot be read completely.
func (j *Journal) Pack(ctx context.Context, at State) error {
	g, err := j.files.list()
	if err != nil {
		return err
	}
	for i, seq := range g.logs {
		if seq >= at.Seq || i+1 == len(g.logs) {
			break
		}
		if err := j.packLog(ctx, seq, g.logs[i+1]); err != nil && !unusable(err) {
			return fmt.Errorf("cannot compress journal/%s: %w", fileName(logName, seq), err)
		}
	}
	return nil
}

// packLog compresses the log from seq to next, where the next log begins.
func (j *Journal) packLog(ctx context.Context, seq, next uint64) error {
	if !j.held.TryLock() { // a scrub knows the files as they are; the log stays plain until the next call
		return nil
	}
	defer j.held.Unlock()
	name := fileName(logName, seq)
	h, size, err := j.files.measure(name)
	if err != nil {
		return err
	}
	if s, known := j.disk(); h.layout != plainLayout || known && s.Free-s.Reserve < size {
		return nil
	}
	return j.files.folder.Publish(name, func(file io.Writer) error {
		h, w := h, bufio.NewWriterSize(file, writeSize)
		h.layout = layout
		if _, err := w.Write(h.append(nil, logMagic)); err != nil {
			return err
		}
		p := &packer{w: w}
		pace := pacer{started: time.Now()}
		done := Replayed{State: h.State}
		if err := j.files.eachRecord(&done, seq, next, func(r *reader, payload []byte) error {
			if err := record(&done, r, payload, nothing); err != nil {
				return err
			}
			return errors.Join(p.add(payload), pace.wait(ctx, len(payload)))
		}); err != nil {
			return err
		}
		return errors.Join(p.flush(), w.Flush())
	})
}

// packer writes the frames of a log of layout 2.
type packer struct {
	w              io.Writer
	records        []byte // records for the next frame
	last           [stateSize]byte
	packed, backup []byte // reused memory
	frame          []byte
}

// add adds the payload of a record.
func (p *packer) add(payload []byte) error {
	if len(p.records)+len(payload) > packTarget {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if len(payload) > maxPacked {
		p.frame = append(append(p.frame[:0], make([]byte, frameHead)...), payload...)
		err := p.write(plainRecord)
		p.frame = nil // it may be very long
		return err
	}
	p.records = binary.AppendUvarint(p.records, uint64(len(payload)))
	p.records = append(p.records, payload...)
	copy(p.last[:], payload)
	return nil
}

// flush writes the added records in a frame.
func (p *packer) flush() error {
	if len(p.records) == 0 {
		return nil
	}
	var err error
	if p.packed, p.backup, err = pack(p.packed, p.backup, p.records); err != nil {
		return err
	}
	p.frame = append(append(p.frame[:0], make([]byte, frameHead)...), p.last[:]...)
	p.frame = append(p.frame, p.packed...)
	p.records = p.records[:0]
	return p.write(packedRecords)
}

func (p *packer) write(kind byte) error {
	p.frame = append(p.frame, kind)
	_, err := p.w.Write(sealFrame(p.frame))
	return err
}

// pack compresses b into packed. It unpacks that into check and compares,
// because the result replaces an existing file. It returns both for the next
// call.
func pack(packed, check, b []byte) (p, c []byte, err error) {
	packed = snappy.Encode(packed[:cap(packed)], b)
	check, err = snappy.Decode(check[:cap(check)], packed)
	if err != nil || !bytes.Equal(check, b) {
		return nil, nil, errors.Join(errors.New("compressed data does not unpack to the original; does this machine have faulty memory?"), err)
	}
	return packed, check, nil
}

// pacer leaves three quarters of the time to others.
type pacer struct {
	started time.Time // of the current stretch of work
	bytes   int
}

// wait counts work in bytes and sometimes pauses. The error says that the
// context has ended.
func (p *pacer) wait(ctx context.Context, bytes int) error {
	if p.bytes += bytes; p.bytes < 1<<20 {
		return context.Cause(ctx)
	}
	pause := time.NewTimer(3 * time.Since(p.started))
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
	*p = pacer{started: time.Now()}
	return context.Cause(ctx)
}
