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
// in every document. Pairs that are in many documents themselves are terms;
// there are too many others for that, so several of these have one term, and
// places tell which of them it is. Which words and pairs are frequent is found
// out as documents come, and told by the index itself: see frequent.

// Bounds of pairs.
const (
	sampleSize  = 500     // documents that are looked at to find what is frequent
	sampleEvery = 4       // samples' worth of documents between two samples
	newShare    = 5       // what is in a fifth of these begins a new generation,
	wordShare   = 8       // which takes in all words that are in an eighth
	pairShare   = 32      // and pairs that are in a 32nd
	maxFrequent = 2048    // words and pairs
	maxSampled  = 1 << 14 // words that are counted at a time, and pairs
	maxPaired   = 4096    // terms of a field: longer documents have no pairs
	shortPaired = 256     // terms of a field, up to which the term of a rare pair is one of few
	lastOfThem  = 255     // generations
	fewForPairs = 2       // times that a word was seen before its pairs are counted
)

// frequent are the words of whose pairs documents have terms, and the pairs
// that have terms of their own. It only grows while an index lives: what is in
// it counts in documents of its generation and later ones. It is not changed
// once it is made.
type frequent struct {
	since  map[string]byte              // by word or pair, from 1 on
	latest byte                         // the generation of documents that are made now
	pairs  map[string]map[string]string // the pairs of since by their first word and by their second; of each word there is a map
}

// A field of pairs has three kinds of terms: a frequent pair; a class of rare
// ones; and a word on its own, which is more than once in that document's field.
func pair(a, b string) string { return a + " " + b }

// class is the term of a rare pair, of which a long field has more than a short
// one.
func class(a, b string, long bool) string {
	n := uint32(2166136261) // FNV-1a
	for _, w := range [...]string{a, " ", b} {
		for i := range len(w) {
			n = (n ^ uint32(w[i])) * 16777619
		}
	}
	if n ^= n >> 16; long {
		return string([]byte{1, byte(n), byte(n>>8) & 0x0f})
	}
	return string([]byte{0, byte(n)})
}

// of is the first generation that has all the words and pairs; false if there
// is none.
func (f *frequent) of(all ...string) (byte, bool) {
	first := byte(0)
	for _, w := range all {
		g := f.since[w]
		if g == 0 {
			return 0, false
		}
		first = max(first, g)
	}
	return first, true
}

// with is the list with a new generation.
func (f *frequent) with(words []string) *frequent {
	more := &frequent{since: maps.Clone(f.since), latest: f.latest + 1}
	if more.since == nil {
		more.since = map[string]byte{}
	}
	for _, w := range words {
		more.since[w] = more.latest
	}
	more.pairs = map[string]map[string]string{}
	for w := range more.since {
		if !strings.Contains(w, " ") {
			more.pairs[w] = map[string]string{}
		}
	}
	for p := range more.since {
		if a, b, ok := strings.Cut(p, " "); ok && more.pairs[a] != nil {
			more.pairs[a][b] = p
		}
	}
	return more
}

// frequentKey is where the index keeps the list: generations are lines, and
// what is new in each is parted by tabs, as no word has one.
var frequentKey = []byte("frequent")

func (f *frequent) encode() []byte {
	lines := make([]string, f.latest)
	for _, w := range slices.Sorted(maps.Keys(f.since)) {
		lines[f.since[w]-1] += w + "\t"
	}
	return []byte(strings.Join(lines, "\n"))
}

func decodeFrequent(text []byte) (*frequent, error) {
	f := new(frequent)
	if len(text) == 0 {
		return f, nil
	}
	for l := range strings.SplitSeq(string(text), "\n") {
		if f.latest == lastOfThem {
			return nil, errDamaged
		}
		f = f.with(strings.FieldsFunc(l, func(r rune) bool { return r == '\t' }))
	}
	return f, nil
}

// frequentOf reads the list of a snapshot.
func frequentOf(s *scorch.IndexSnapshot) (*frequent, error) {
	text, err := s.GetInternal(frequentKey)
	if err != nil {
		return nil, err
	}
	return decodeFrequent(text)
}

// sample counts in how many documents words and pairs are, of those that may
// have pairs.
type sample struct {
	docs  int
	words wordCounts
	pairs wordCounts // of words that were often enough so far
}

// wordCounts says in how many documents words are. A count stands apart: to assign
// to a word again would keep the text that the word was last met in.
type wordCounts map[string]*int

func (t wordCounts) of(w string) int {
	if n := t[w]; n != nil {
		return *n
	}
	return 0
}

// add counts a word once more; false if there is no room for another one.
func (t wordCounts) add(w string) bool {
	n := t[w]
	if n == nil {
		if len(t) == maxSampled {
			return false
		}
		n = new(int)
		t[strings.Clone(w)] = n
	}
	*n++
	return true
}

func (s *sample) add(d *row) {
	if d.long() {
		return
	}
	if s.words == nil {
		s.words, s.pairs = wordCounts{}, wordCounts{}
	}
	s.docs++
	met := map[string]bool{} // words and pairs that are counted of this document
	count := func(in wordCounts, w string) { met[w] = met[w] || in.add(w) }
	for _, l := range d.lines {
		for w := range l.terms {
			count(s.words, w)
		}
		before := false
		for at, w := range l.line {
			n := s.words.of(w)
			got := n >= fewForPairs && n*wordShare >= s.docs
			if got && before {
				count(s.pairs, pair(l.line[at-1], w))
			}
			before = got
		}
	}
}

// beyond is what the list becomes by the sample: the same if that has nothing
// new.
func (s *sample) beyond(f *frequent) *frequent {
	if f.latest == lastOfThem {
		return f
	}
	var words []string
	shifted := false
	take := func(in wordCounts, share int) {
		for w, n := range in {
			if f.since[w] == 0 && *n*share >= s.docs {
				words = append(words, w)
				shifted = shifted || *n*newShare >= s.docs
			}
		}
	}
	take(s.words, wordShare)
	take(s.pairs, pairShare)
	if !shifted {
		return f
	}
	slices.SortFunc(words, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.words.of(b)+s.pairs.of(b), s.words.of(a)+s.pairs.of(a)), cmp.Compare(a, b))
	})
	if words = words[:min(len(words), maxFrequent-len(f.since))]; len(words) == 0 {
		return f
	}
	return f.with(words)
}

// long reports whether a document has no pairs, as there would be too many.
func (r *row) long() bool {
	return slices.ContainsFunc(r.lines[:], func(l written) bool { return len(l.line) > maxPaired })
}

// pairs adds the pairs of frequent words to a document.
func (r *row) pairs(f *frequent) {
	if f.latest == 0 || r.long() {
		return
	}
	r.words(generationField, string([]byte{f.latest}))
	for _, l := range r.lines {
		var terms []string
		var before map[string]string
		for at, w := range l.line {
			got := f.pairs[w]
			if got != nil && before != nil {
				p, owned := before[w]
				if !owned {
					p = class(l.line[at-1], w, len(l.line) > shortPaired)
				}
				terms = append(terms, p)
			}
			if got != nil && l.terms[w].Frequency() > 1 {
				terms = append(terms, w)
			}
			before = got
		}
		r.words(pairsOf[l.field], terms...)
	}
}

// counted are the documents in which all the words and pairs count as frequent;
// nil if there are none.
func (e *lookup) counted(all ...string) *roaring.Bitmap {
	first, ok := e.frequent.of(all...)
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
	known := e.counted(a, b)
	if known == nil {
		return some
	}
	p := pair(a, b)
	maybe := e.postings(pairsOf[field], class(a, b, false))
	maybe.Or(e.postings(pairsOf[field], class(a, b, true)))
	if owned := e.counted(a, b, p); owned != nil {
		maybe.AndNot(owned)
	}
	maybe.Or(e.postings(pairsOf[field], p))
	return roaring.AndNot(some, roaring.AndNot(known, maybe))
}
