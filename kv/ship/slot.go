// Package ship keeps a copy of a store's history in an object store: the records of
// the journal in numbered slots, snapshots, and the contents that they refer to. There
// is one writer at a time. DESIGN.md describes the objects.
package ship

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"kist/kv/journal"
)

// A Slot is a piece of the history. It never changes. A slot without records that has
// a higher epoch than the one before is a fence: its writer has taken over.
type Slot struct {
	Number        uint64
	Format        uint32  // of the data
	Instance      [8]byte // of the store
	Writer        [8]byte // says which data directory wrote it
	Process       [8]byte // says which start of a server wrote it
	Epoch         uint64  // how often writers have begun
	Before, After journal.State
	URL           string  // of the writer, for visitors
	Times         []int64 // of each record, in milliseconds since 1970
	Frames        []byte  // the records as in a log of layout 1
}

// The head of a slot. DESIGN.md has it as a table.
const (
	slotMagic  = "kistslot"
	slotLayout = 1
	slotHead   = 144
	maxURL     = 2048
	sumAt      = 24 // of the SHA-256
)

var errSlot = errors.New("it is not a whole slot")

// encode returns the bytes of the slot.
func (s *Slot) encode() []byte {
	b := make([]byte, 0, slotHead+len(s.URL)+8*len(s.Times)+len(s.Frames))
	b = append(b, slotMagic...)
	b = binary.BigEndian.AppendUint32(b, slotLayout)
	b = binary.BigEndian.AppendUint32(b, s.Format)
	b = binary.BigEndian.AppendUint64(b, 0) // the length
	b = append(b, make([]byte, sha256.Size)...)
	b = binary.BigEndian.AppendUint64(b, s.Number)
	b = append(append(b, s.Instance[:]...), s.Writer[:]...)
	for _, n := range []uint64{
		s.Epoch, s.Before.Seq, uint64(s.Before.Digest), s.After.Seq, uint64(s.After.Digest),
		0, // not used any more
	} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.URL)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Times)))
	b = append(b, s.Process[:]...)
	b = append(b, s.URL...)
	for _, t := range s.Times {
		b = binary.BigEndian.AppendUint64(b, uint64(t))
	}
	b = append(b, s.Frames...)
	binary.BigEndian.PutUint64(b[16:], uint64(len(b)))
	sum := sha256.Sum256(b)
	copy(b[sumAt:], sum[:])
	return b
}

// parseHead returns the part of a slot that its head has, and its length in bytes.
func parseHead(b []byte) (*Slot, int64, error) {
	if len(b) < slotHead || string(b[:8]) != slotMagic {
		return nil, 0, errSlot
	}
	if n := binary.BigEndian.Uint32(b[8:]); n > slotLayout {
		return nil, 0, fmt.Errorf("it has layout %d; this version of kist reads up to %d: "+
			"install the version that wrote it or a newer one", n, slotLayout)
	}
	size := binary.BigEndian.Uint64(b[16:])
	if size < slotHead || size > journal.MaxRecord {
		return nil, 0, errSlot
	}
	n := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	return &Slot{
		Format: binary.BigEndian.Uint32(b[12:]), Number: n(56), Epoch: n(80),
		Instance: [8]byte(b[64:]), Writer: [8]byte(b[72:]), Process: [8]byte(b[136:]),
		Before: journal.State{Seq: n(88), Digest: journal.Digest(n(96))},
		After:  journal.State{Seq: n(104), Digest: journal.Digest(n(112))},
	}, int64(size), nil
}

// parseSlot returns the first slot in b and what follows it. It checks the sum and the
// records. The slot shares the memory of b.
func parseSlot(b []byte) (s *Slot, rest []byte, err error) {
	s, size, err := parseHead(b)
	if err != nil {
		return nil, nil, err
	}
	if size > int64(len(b)) {
		return nil, nil, errSlot
	}

	b, rest = b[:size:size], b[size:]
	h := sha256.New()
	h.Write(b[:sumAt])
	h.Write(make([]byte, sha256.Size))
	h.Write(b[sumAt+sha256.Size:])
	if [sha256.Size]byte(h.Sum(nil)) != [sha256.Size]byte(b[sumAt:]) {
		return nil, nil, fmt.Errorf("%w: its checksum differs", errSlot)
	}

	url, times := binary.BigEndian.Uint32(b[128:]), binary.BigEndian.Uint32(b[132:])
	if url > maxURL || int64(url)+8*int64(times) > size-slotHead || uint64(times) != s.After.Seq-s.Before.Seq {
		return nil, nil, errSlot
	}
	b = b[slotHead:]
	s.URL, b = string(b[:url]), b[url:]
	for range times {
		s.Times = append(s.Times, int64(binary.BigEndian.Uint64(b)))
		b = b[8:]
	}
	s.Frames = b
	after, err := journal.Frames(s.Frames, s.Before, func(journal.Framed) (bool, error) { return true, nil })
	if err != nil {
		return s, rest, err
	}
	if after != s.After {
		return s, rest, errSlot
	}
	return s, rest, nil
}

// The names of objects.
const (
	metaName   = "meta"
	logPrefix  = "log/"
	snapPrefix = "snap/"
	markPrefix = "from/"
	racePrefix = "race/"
)

func slotName(n uint64) string { return fmt.Sprintf("%s%016x", logPrefix, n) }

// mergedName is the name of an object that has several slots, one after another.
func mergedName(first, last uint64) string { return fmt.Sprintf("%s-%016x", slotName(first), last) }

func snapName(seq uint64) string { return fmt.Sprintf("%s%016x", snapPrefix, seq) }
