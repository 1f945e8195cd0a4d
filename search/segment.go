package search

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"

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

// chunks are numbers about the documents of a term, by ranges of documents.
type chunks struct {
	ends  []uint64
	begin int // in the file
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

// enter is the place in the file where a chunk begins.
func (c *chunks) enter(n uint64) int {
	if n == 0 || c.ends == nil {
		return c.begin
	}
	return c.begin + int(c.ends[n-1])
}

// places are the positions of words in documents, one number for each document.
type places struct {
	lists   [][]uint32 // of the documents whose positions no number holds
	a, b, c []uint32   // memory of after
}

// A place is where words are in a document: what pack made of the positions, or inList and an index of places.lists, or 0 if
// they are nowhere.
type place uint64

const inList place = 1 << 63

func (p *places) make(positions []uint32) place {
	if len(positions) == 0 {
		return 0
	}
	if packed, ok := pack(positions); ok {
		return place(packed)
	}
	p.lists = append(p.lists, slices.Clone(positions))
	return inList | place(len(p.lists)-1)
}

func (p *places) positions(at place, to []uint32) []uint32 {
	switch {
	case at == 0:
		return to
	case at&inList != 0:
		return append(to, p.lists[at&^inList]...)
	}
	return unpack(uint64(at), to)
}

// after are the positions of here that come directly after one of before.
func (p *places) after(before, here place) place {
	if before == 0 || before < firstMany && here < firstMany { // at most one position each
		if before == 0 || here != before+1 {
			return 0
		}
		return here
	}
	p.c = p.c[:0]
	if a, ok := before.bits(); ok {
		if b, ok := here.bits(); ok {
			for all := a << 1 & b; all != 0; all &= all - 1 {
				p.c = append(p.c, uint32(bits.TrailingZeros64(all)))
			}
			return p.make(p.c)
		}
	}
	p.a, p.b = p.positions(before, p.a[:0]), p.positions(here, p.b[:0])
	p.c = follow(p.c, p.a, p.b)
	return p.make(p.c)
}

// bits has a bit for each position; false if one is above 63.
func (at place) bits() (all uint64, ok bool) {
	if at < firstMany {
		return 1 << (at - 1), at <= 64
	}
	if at&inList != 0 {
		return 0, false
	}
	rest := uint64(at - firstMany)
	width := rest&15 + 1
	rest >>= 4
	last := -1
	for ; rest > 1 && last < 64; rest >>= width {
		last += int(rest&(1<<width-1)) + 1
		all |= 1 << last
	}
	return all, last < 64
}

// of calls each with the places of a term in those of docs that have it. i is an index of docs. at is the term's value in its
// dictionary, of has its documents. Both lists of documents ascend.
func (p *places) of(d *dictionaries, at uint64, of *roaring.Bitmap, docs []uint32, each func(i int, at place)) {
	i := 0
	if at&zapOneHit != 0 {
		if i, ok := slices.BinarySearch(docs, of.Minimum()); ok {
			each(i, 1)
		}
		return
	}
	r := d.at(at)
	freqs, lists := d.chunks(r.number()), d.chunks(r.number())
	size, end := uint32(d.size/(of.GetCardinality()/1024+1)), uint32(0) // documents in a chunk, and the end of the present one
	file, freqAt, listAt := d.file, 0, 0
	var some [256]uint32
	for all := of.ManyIterator(); ; {
		n := all.NextMany(some[:])
		if n == 0 {
			return
		}
		for _, doc := range some[:n] {
			if i < len(docs) && docs[i] < doc {
				if i++; i < len(docs) && docs[i] < doc {
					next, _ := slices.BinarySearch(docs[i:], doc)
					i += next
				}
			}
			if i == len(docs) {
				return
			}
			if doc >= end {
				chunk := doc / size
				end = (chunk + 1) * size
				freqAt, listAt = freqs.enter(uint64(chunk)), lists.enter(uint64(chunk))
			}
			if docs[i] >= end {
				continue // in another chunk
			}
			freq := uint64(file[freqAt])
			if freq < 0x80 {
				freqAt++
			} else {
				freq = number(file, &freqAt)
			}
			if freq > 1 { // followed by a norm
				for file[freqAt] >= 0x80 {
					freqAt++
				}
				freqAt++
			}
			at := place(freq >> 1)
			if freq&1 != 0 {
				size := int(number(file, &listAt))
				if docs[i] == doc {
					at = p.make(positionsIn(file[listAt:][:size], p.a[:0]))
				}
				listAt += size
			}
			if docs[i] == doc {
				each(i, at)
				i++
			}
		}
	}
}

// positionsIn appends the positions in a list of the library.
func positionsIn(list reader, to []uint32) []uint32 {
	for len(list) > 0 {
		list.number() // field
		to = append(to, uint32(list.number())-1)
		list.number() // start
		list.number() // end
		list.number() // number of positions in arrays: none
	}
	return to
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
