package search

import (
	"math/bits"
	"slices"

	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// places are the positions of words in documents, one number for each document.
type places struct {
	lists   [][]uint32 // of the documents whose positions no number holds
	a, b, c []uint32   // memory of after
}

// A place is where words are in a document: what pack made of the positions, or inList and an index of places.lists, or
// 0 if they are nowhere.
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
	p.a, p.b = p.positions(before, p.a[:0]), p.positions(here, p.b[:0])
	p.c = follow(p.c[:0], p.a, p.b)
	return p.make(p.c)
}

// read is where a word is in a document.
func (p *places) read(in segment.Posting) place {
	locations := in.Locations()
	if len(locations) == 0 {
		return place(in.Frequency())
	}

	p.a = p.a[:0]
	for _, at := range locations {
		p.a = append(p.a, uint32(at.Pos())-1)
	}
	return p.make(p.a)
}

// follow appends the places of here that come directly after one of before. All ascend.
func follow(to, before, here []uint32) []uint32 {
	i, j := 0, 0
	for i < len(before) && j < len(here) {
		switch after := before[i] + 1; {
		case after < here[j]:
			i++
		case after > here[j]:
			j++
		default:
			to = append(to, after)
			i++
			j++
		}
	}
	return to
}

// firstMany is the first number that stands for several positions: the lower ones stand for one, which they exceed by
// 1.
const firstMany = 1 << 18

// pack makes one number of ascending positions; false if it cannot. The library keeps it as the frequency of the word,
// which takes a byte or two instead of eight for a list of positions, and much less time to read.
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
