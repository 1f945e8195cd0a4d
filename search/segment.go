package search

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
	segment "github.com/blevesearch/scorch_segment_api/v2"
	"github.com/blevesearch/vellum"
)

// What is known about the files of the library, as its zap.md describes them.
const (
	zapVersion   = 17
	zapFooter    = 4 + 8 + 8 + 8 + 4 + 4 + 4 // length of a name, documents, two places, chunk mode, version, checksum
	zapChunkMode = 1026                      // see chunkSize
	zapOneHit    = 1 << 63                   // the value of a term that is in one document only, at position 0
)

// dictionaries are the terms of a segment. They read its file in place: finding a term, its documents and its positions
// with the library takes several times as long.
type dictionaries struct {
	file   []byte
	size   uint64 // documents
	fields map[string]*vellum.FST
}

func openDictionaries(s segment.Segment) (*dictionaries, error) {
	d := &dictionaries{size: s.Count(), fields: map[string]*vellum.FST{}}
	switch s := s.(type) {
	case interface{ Data() []byte }:
		d.file = s.Data()
	case io.WriterTo: // not yet a file
		var b bytes.Buffer
		if _, err := s.WriteTo(&b); err != nil {
			return nil, err
		}
		d.file = b.Bytes()
	}
	if len(d.file) < zapFooter {
		return nil, errDamaged
	}
	footer := d.file[len(d.file)-zapFooter:]
	if mode, version := binary.BigEndian.Uint32(footer[28:]), binary.BigEndian.Uint32(footer[32:]); mode != zapChunkMode || version != zapVersion {
		return nil, fmt.Errorf("%w: version %d of a segment", errDamaged, version)
	}
	fields := d.at(binary.BigEndian.Uint64(footer[20:]))
	for range fields.number() {
		field := d.at(binary.BigEndian.Uint64(fields.next(8)))
		name := string(field.next(field.number()))
		field.number() // options
		for range field.number() {
			if section := field.next(10); section[0] == 0 && section[1] == 0 { // of terms
				terms := d.at(binary.BigEndian.Uint64(section[2:]))
				terms.number()
				terms.number()
				terms = d.at(terms.number())
				fst, err := vellum.Load(terms.next(terms.number()))
				if err != nil {
					return nil, fmt.Errorf("%w: terms: %w", errDamaged, err)
				}
				d.fields[name] = fst
			}
		}
	}
	return d, nil
}

// at reads the file from a place.
func (d *dictionaries) at(place uint64) reader { return d.file[place:] }

// A reader is the rest of a file.
type reader []byte

func (r *reader) number() uint64 {
	at := 0
	v := number(*r, &at)
	*r = (*r)[at:]
	return v
}

func (r *reader) next(n uint64) []byte {
	b := (*r)[:n]
	*r = (*r)[n:]
	return b
}

// documents reads the documents of a term into a bitmap, which is valid until the next call. at is the term's value in its
// dictionary.
func (d *dictionaries) documents(at uint64, into *roaring.Bitmap) error {
	if at&zapOneHit != 0 {
		into.Clear()
		into.Add(uint32(at & (1<<31 - 1)))
		return nil
	}
	r := d.at(at)
	r.number()
	r.number()
	_, err := into.FromBuffer(r.next(r.number()))
	return err
}

// A positionReader reads the positions of a term, in ascending order of documents.
type positionReader struct {
	docs        roaring.ManyIntIterable
	some        [256]uint32 // the next documents of docs
	next, n     int         // in some
	file        []byte
	size, end   uint64 // documents in a chunk, and the end of the present one
	freqs, locs chunks
}

// chunks are numbers about the documents of a term, by ranges of documents.
type chunks struct {
	ends  []uint64
	begin int // in the file
	at    int
}

func (d *dictionaries) chunks(at uint64) (c chunks) {
	if at == 0 {
		return c // nothing is stored
	}
	r := d.at(at)
	c.ends = make([]uint64, r.number())
	for i := range c.ends {
		c.ends[i] = r.number()
	}
	c.begin = len(d.file) - len(r)
	return c
}

func (c *chunks) enter(n uint64) {
	if c.at = c.begin; n > 0 && c.ends != nil {
		c.at += int(c.ends[n-1])
	}
}

// positionsOf reads the positions of a term. docs are its documents.
func (d *dictionaries) positionsOf(at uint64, docs *roaring.Bitmap) *positionReader {
	p := &positionReader{docs: docs.ManyIterator()}
	if at&zapOneHit != 0 {
		return p
	}
	r := d.at(at)
	p.file = d.file
	p.size = d.size / (docs.GetCardinality()/1024 + 1)
	p.freqs = d.chunks(r.number())
	p.locs = d.chunks(r.number())
	return p
}

// in appends the positions in a document, later than that of the last call. more is false after the last document with the
// term.
func (p *positionReader) in(doc uint32, to []uint32) (_ []uint32, more bool) {
	for {
		if p.next == p.n {
			if p.next, p.n = 0, p.docs.NextMany(p.some[:]); p.n == 0 {
				return to, false
			}
		}
		at := p.some[p.next]
		if at > doc {
			return to, true
		}
		p.next++
		if p.file == nil { // in one document only
			if at == doc {
				to = append(to, 0)
			}
			return to, true
		}
		if uint64(at) >= p.end {
			chunk := uint64(at) / p.size
			p.end = (chunk + 1) * p.size
			p.freqs.enter(chunk)
			p.locs.enter(chunk)
		}
		if uint64(doc) >= p.end {
			continue // in another chunk
		}
		freq := number(p.file, &p.freqs.at)
		if freq > 1 {
			number(p.file, &p.freqs.at) // norm
		}
		if freq&1 != 0 {
			n := int(number(p.file, &p.locs.at))
			list := reader(p.file[p.locs.at:][:n])
			p.locs.at += n
			for at == doc && len(list) > 0 {
				list.number() // field
				to = append(to, uint32(list.number())-1)
				list.number() // start
				list.number() // end
				list.number() // number of positions in arrays: none
			}
		} else if at == doc {
			to = unpack(freq>>1, to)
		}
		if at == doc {
			return to, true
		}
	}
}

// number reads a number from the file and moves at behind it.
func number(file []byte, at *int) uint64 {
	v := uint64(file[*at])
	*at++
	if v < 0x80 {
		return v
	}
	v &= 0x7f
	for shift := 7; ; shift += 7 {
		b := uint64(file[*at])
		*at++
		v |= b & 0x7f << shift
		if b < 0x80 {
			return v
		}
	}
}

// firstMany is the first number that stands for several positions: the lower ones stand for one, which they exceed by 1.
const firstMany = 1 << 18

// pack makes one number of ascending positions; false if it cannot. The library keeps it as the frequency of the word, which
// takes a byte or two instead of eight for a list of positions, and much less time to read.
func pack(positions []uint32) (freq int, ok bool) {
	if len(positions) == 1 && positions[0]+1 < firstMany {
		return int(positions[0]) + 1, true
	}
	// From the lowest bit: width-1 of a number in 4 bits, the first position, the distances less 1, and a 1.
	greatest := positions[0]
	for i, p := range positions[1:] {
		greatest = max(greatest, p-positions[i]-1)
	}
	width := max(1, bits.Len32(greatest))
	if width > 16 || len(positions)*width > bits.UintSize-8 {
		return 0, false
	}
	freq = 1
	for i := len(positions) - 1; i > 0; i-- {
		freq = freq<<width | int(positions[i]-positions[i-1]-1)
	}
	freq = freq<<width | int(positions[0])
	return firstMany + (freq<<4 | (width - 1)), true
}

// unpack appends the positions of which pack made a number.
func unpack(freq uint64, to []uint32) []uint32 {
	if freq < firstMany {
		return append(to, uint32(freq)-1)
	}
	freq -= firstMany
	width := freq&15 + 1
	freq >>= 4
	for at := uint32(0); freq > 1; freq >>= width {
		at += uint32(freq & (1<<width - 1))
		to = append(to, at)
		at++
	}
	return to
}
