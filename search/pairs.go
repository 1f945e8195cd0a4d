package search

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/vellum"
)

// Of words that are in many documents, the pairs that stand next to each other
// are indexed too, so that a phrase of them is found without the places of each
// in every document. Which words these are is found out as documents come, and
// told by the index itself: see frequent.

// Bounds of pairs.
const (
	sampleSize    = 500     // documents that are looked at to find frequent words
	newShare      = 8       // a word that is in an eighth of these begins a new generation,
	frequentShare = 16      // which takes in all that are in a 16th
	maxFrequent   = 2048    // words
	maxSampled    = 1 << 14 // words that are counted at a time
	maxPaired     = 4096    // terms of a field: longer documents have no pairs
)

// frequent are the words of whose pairs documents have terms. It only grows
// while an index lives: a word has pairs in documents of its generation and
// later ones. It is not changed once it is made.
type frequent struct {
	since  map[string]byte // by word, from 1 on
	latest byte            // the generation of documents that are made now
}

// pair is the term for two words in a row. A word by itself, in a field of
// pairs, says that it is in that document's field more than once.
func pair(a, b string) string { return a + " " + b }

// of is the first generation that has pairs of all the words; false if there is
// none.
func (f *frequent) of(words ...string) (byte, bool) {
	first := byte(0)
	for _, w := range words {
		g := f.since[w]
		if g == 0 {
			return 0, false
		}
		first = max(first, g)
	}
	return first, true
}

// with is the list with a new generation of words.
func (f *frequent) with(words []string) *frequent {
	more := &frequent{since: maps.Clone(f.since), latest: f.latest + 1}
	if more.since == nil {
		more.since = map[string]byte{}
	}
	for _, w := range words {
		more.since[w] = more.latest
	}
	return more
}

// frequentKey is where the index keeps the list: generations are lines, and
// their words are parted by spaces, as no word has one.
var frequentKey = []byte("frequent")

func (f *frequent) encode() []byte {
	lines := make([]string, f.latest)
	for _, w := range slices.Sorted(maps.Keys(f.since)) {
		lines[f.since[w]-1] += w + " "
	}
	return []byte(strings.Join(lines, "\n"))
}

func decodeFrequent(text []byte) (*frequent, error) {
	f := new(frequent)
	if len(text) == 0 {
		return f, nil
	}
	for l := range strings.SplitSeq(string(text), "\n") {
		if f.latest == lastGeneration {
			return nil, errDamaged
		}
		f = f.with(strings.Fields(l))
	}
	return f, nil
}

const lastGeneration = 255

// frequentOf reads the list of a snapshot.
func frequentOf(s *scorch.IndexSnapshot) (*frequent, error) {
	text, err := s.GetInternal(frequentKey)
	if err != nil {
		return nil, err
	}
	return decodeFrequent(text)
}

// sample counts in how many documents words are.
type sample struct {
	docs int
	in   map[string]int
}

func (s *sample) add(d *row) {
	if s.in == nil {
		s.in = map[string]int{}
	}
	s.docs++
	for _, l := range d.lines {
		for w := range l.terms {
			if n, counted := s.in[w]; counted {
				s.in[w] = n + 1
			} else if len(s.in) < maxSampled {
				s.in[strings.Clone(w)] = 1 // of the word alone, not of all the text
			}
		}
	}
}

// beyond is what the list becomes by the sample: the same if that has nothing
// new.
func (s *sample) beyond(f *frequent) *frequent {
	if f.latest == lastGeneration {
		return f
	}
	var words []string
	shifted := false
	for w, n := range s.in {
		if f.since[w] == 0 && n*frequentShare >= s.docs {
			words = append(words, w)
			shifted = shifted || n*newShare >= s.docs
		}
	}
	if !shifted {
		return f
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(s.in[b], s.in[a]), cmp.Compare(a, b)) })
	if words = words[:min(len(words), maxFrequent-len(f.since))]; len(words) == 0 {
		return f
	}
	return f.with(words)
}

// pairs adds the pairs of frequent words to a document.
func (r *row) pairs(f *frequent) {
	if f.latest == 0 || slices.ContainsFunc(r.lines[:], func(l written) bool { return len(l.line) > maxPaired }) {
		return
	}
	r.words(generationField, string([]byte{f.latest}))
	for _, l := range r.lines {
		var terms []string
		before := false
		for at, w := range l.line {
			is := f.since[w] != 0
			if is && before {
				terms = append(terms, pair(l.line[at-1], w))
			}
			if is && l.terms[w].Frequency() > 1 {
				terms = append(terms, w)
			}
			before = is
		}
		r.words(pairsOf[l.field], terms...)
	}
}

// paired are the documents in which words are paired if they are there, and
// next to each other; nil if that is known of none.
func (e *lookup) paired(words ...string) *roaring.Bitmap {
	first, ok := e.frequent.of(words...)
	if !ok {
		return nil
	}
	b := e.since[first]
	if b == nil {
		b = e.anyOf(generationField, new(vellum.AlwaysMatch), []byte{first}, nil)
		if e.since == nil {
			e.since = map[byte]*roaring.Bitmap{}
		}
		e.since[first] = b
	}
	if b.IsEmpty() {
		return nil
	}
	return b
}

// apart takes those out of some documents that have two words, but nowhere next
// to each other, as far as pairs tell.
func (e *lookup) apart(field, a, b string, some *roaring.Bitmap) *roaring.Bitmap {
	known := e.paired(a, b)
	if known == nil {
		return some
	}
	return roaring.AndNot(some, roaring.AndNot(known, e.postings(pairsOf[field], pair(a, b))))
}
