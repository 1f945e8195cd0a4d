package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"
	"github.com/blevesearch/vellum"
	"github.com/blevesearch/vellum/levenshtein"

	"kist/kv/record"
)

// The fields of the index. A change of them, of what is in them or of words
// is a new mappingVersion.
const (
	titleField = "t"
	textField  = "b"
	ownerField = "o"
	kindField  = "k"
	tagField   = "g"
	flagField  = "f"

	mappingVersion = 3
)

// A Hit is a record that was found.
type Hit struct {
	Kind  *record.Kind
	ID    record.ID
	Score int
}

// before reports whether the hit comes before another in an answer: the better
// one first, then the newer.
func (h *Hit) before(x *Hit) bool {
	return h.Score > x.Score || h.Score == x.Score && bytes.Compare(h.ID[:], x.ID[:]) > 0
}

// Hits is what a query finds. It holds as long as the View that it is from.
type Hits struct {
	parts []found
	loose []Hit // from outside the index, best first
}

// found are the hits within a segment, by score.
type found struct {
	order  *order
	scores map[int]*roaring.Bitmap
}

// Total is how many there are.
func (h *Hits) Total() int {
	n := len(h.loose)
	for _, p := range h.parts {
		for _, b := range p.scores {
			n += int(b.GetCardinality())
		}
	}
	return n
}

// sort brings the loose hits into their order.
func (h *Hits) sort() *Hits {
	slices.SortFunc(h.loose, func(a, b Hit) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	return h
}

// Page lists up to limit hits that come after a hit, or the first ones if that
// is nil: the better before the worse, the newer before the older.
func (h *Hits) Page(after *Hit, limit int) []Hit {
	scores := map[int]bool{}
	for _, p := range h.parts {
		for s := range p.scores {
			scores[s] = true
		}
	}
	for _, l := range h.loose {
		scores[l.Score] = true
	}
	var page []Hit
	down := slices.SortedFunc(maps.Keys(scores), func(a, b int) int { return cmp.Compare(b, a) })
	for _, s := range down {
		if len(page) >= limit {
			break
		}
		if after != nil && s > after.Score {
			continue
		}
		// The newest of each part, of which the newest of all are some.
		var some []Hit
		for _, p := range h.parts {
			if b := p.scores[s]; b != nil {
				some = p.order.newest(some, b, s, after, limit-len(page))
			}
		}
		for _, l := range h.loose {
			if l.Score == s && (after == nil || after.before(&l)) {
				some = append(some, l)
			}
		}
		slices.SortFunc(some, func(a, b Hit) int { return bytes.Compare(b.ID[:], a.ID[:]) })
		page = append(page, some[:min(len(some), limit-len(page))]...)
	}
	return page
}

// IDs lists all hits by their ids, in ascending order.
func (h *Hits) IDs() []record.ID {
	ids := make([]record.ID, 0, h.Total())
	for _, l := range h.loose {
		ids = append(ids, l.ID)
	}
	runs := 0
	for _, p := range h.parts {
		all := union(p.scores)
		if all == nil {
			continue
		}
		runs++
		ids = p.order.ascending(ids, all)
	}
	if runs > 1 || len(h.loose) > 0 {
		slices.SortFunc(ids, func(a, b record.ID) int { return bytes.Compare(a[:], b[:]) })
	}
	return ids
}

func union(scores map[int]*roaring.Bitmap) *roaring.Bitmap {
	var all *roaring.Bitmap
	for _, b := range scores {
		if all == nil {
			all = b
		} else {
			all = roaring.Or(all, b)
		}
	}
	return all
}

// order is the ids of a segment's documents. Segments never change, so it is
// made once for each.
type order struct {
	ids  []record.ID // by document
	kind []byte      // by document
	down []uint32    // documents, the newest first
	rank []uint32    // where a document stands in down
}

func newOrder(s segment.Segment) (*order, error) {
	n := s.Count()
	o := &order{ids: make([]record.ID, n), kind: make([]byte, n), down: make([]uint32, n), rank: make([]uint32, n)}
	for i := range n {
		id, err := s.DocID(i)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if len(id) != docIDSize || record.KindOf(id[0]) == nil {
			return nil, fmt.Errorf("document %d: %w", i, errDamaged)
		}
		o.kind[i], o.ids[i], o.down[i] = id[0], record.ID(id[1:]), uint32(i)
	}
	slices.SortFunc(o.down, func(a, b uint32) int { return bytes.Compare(o.ids[b][:], o.ids[a][:]) })
	for at, doc := range o.down {
		o.rank[doc] = uint32(at)
	}
	return o, nil
}

// docIDSize is the length of a document's id: kind, id.
const docIDSize = 1 + 16

func docID(k *record.Kind, id record.ID) string {
	return string(append([]byte{k.Code}, id[:]...))
}

// newest appends up to limit of the documents in b, the newest first, of those
// that come after a hit.
func (o *order) newest(to []Hit, b *roaring.Bitmap, score int, after *Hit, limit int) []Hit {
	from := 0
	if after != nil && after.Score == score {
		at, there := slices.BinarySearchFunc(o.down, after.ID, func(doc uint32, id record.ID) int { return bytes.Compare(id[:], o.ids[doc][:]) })
		if from = at; there {
			from++
		}
	}
	add := func(doc uint32) { to = append(to, Hit{record.KindOf(o.kind[doc]), o.ids[doc], score}) }
	// Few are sorted; of many the newest are soon met.
	if n := b.GetCardinality(); n < uint64(len(o.down))/64+uint64(limit) {
		ranks := make([]uint32, 0, n)
		for it := b.Iterator(); it.HasNext(); {
			if at := o.rank[it.Next()]; int(at) >= from {
				ranks = append(ranks, at)
			}
		}
		slices.Sort(ranks)
		for _, at := range ranks[:min(len(ranks), limit)] {
			add(o.down[at])
		}
		return to
	}
	for _, doc := range o.down[from:] {
		if limit == 0 {
			break
		}
		if b.Contains(doc) {
			add(doc)
			limit--
		}
	}
	return to
}

// ascending appends the ids of the documents in b in their order.
func (o *order) ascending(to []record.ID, b *roaring.Bitmap) []record.ID {
	n := b.GetCardinality()
	if n > uint64(len(o.down))/16 { // to look through all is faster than to sort many
		for _, doc := range slices.Backward(o.down) {
			if b.Contains(doc) {
				to = append(to, o.ids[doc])
			}
		}
		return to
	}
	ranks := make([]uint32, 0, n)
	for it := b.Iterator(); it.HasNext(); {
		ranks = append(ranks, o.rank[it.Next()])
	}
	slices.Sort(ranks)
	for i := range ranks {
		to = append(to, o.ids[o.down[ranks[len(ranks)-1-i]]])
	}
	return to
}

// A View is the index as it is at one moment. It must be closed.
type View struct {
	x    *Index
	snap *scorch.IndexSnapshot
	at   uint64
}

// Place is the place in the feed of changes that the index has reached.
func (v *View) Place() uint64 { return v.at }

// Close gives the view back.
func (v *View) Close() {
	_ = v.snap.Close() // counts down; what it could not close is closed with the index
	v.x.mu.RUnlock()
}

// Find looks the query up. tail are the changes after Place, which the index
// does not have yet: of these records, what is found is what they are now.
// An error is ErrUnusable: the index is rebuilt, and the records have to be
// read through; or that of ctx.
func (v *View) Find(ctx context.Context, f *Finder, tail []record.Change) (h *Hits, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
		if err != nil && ctx.Err() == nil {
			v.x.markDamaged(err)
			err = fmt.Errorf("%w: %w", ErrUnusable, err)
		}
	}()
	h = new(Hits)
	if f.q.nothing {
		return h, nil
	}
	var newer []string // their documents count no more
	for i := range tail {
		c := &tail[i]
		if c.Owner != f.owner {
			continue
		}
		newer = append(newer, docID(c.Kind, c.ID))
		if c.Record == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if score, ok, err := f.score(c.Record, v.x.content); err == nil && ok { // a row that cannot be read is not there
			h.loose = append(h.loose, Hit{c.Kind, c.ID, score})
		}
	}
	h.sort()
	for _, s := range v.snap.Segments() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := lookup{ctx: ctx, f: f, seg: s.Segment()}
		if err := e.base(s.Deleted(), newer); err != nil {
			return nil, err
		}
		scores, err := e.scores()
		if err != nil {
			return nil, err
		}
		if len(scores) == 0 {
			continue
		}
		o, err := v.x.orderOf(s)
		if err != nil {
			return nil, err
		}
		h.parts = append(h.parts, found{o, scores})
	}
	return h, nil
}

// ErrUnusable says that the index cannot answer.
var ErrUnusable = errors.New("the search index cannot be used")

// lookup evaluates a query within a segment. The bitmaps that it reads are the
// index's own memory: they are not changed.
type lookup struct {
	ctx   context.Context
	f     *Finder
	seg   segment.Segment
	dicts map[string]segment.TermDictionary
	all   *roaring.Bitmap // that may be found
	err   error
}

func (e *lookup) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *lookup) dict(field string) segment.TermDictionary {
	d, ok := e.dicts[field]
	if !ok {
		var err error
		if d, err = e.seg.Dictionary(field); err != nil {
			e.fail(err)
		}
		if e.dicts == nil {
			e.dicts = map[string]segment.TermDictionary{}
		}
		e.dicts[field] = d
	}
	return d
}

// postings are those of e.all that have the term.
func (e *lookup) postings(field, term string) *roaring.Bitmap {
	out := roaring.New()
	if d := e.dict(field); d != nil {
		e.addTerm(out, d, []byte(term), nil)
		out.And(e.all)
	}
	return out
}

// addTerm adds the documents with the term.
func (e *lookup) addTerm(to *roaring.Bitmap, d segment.TermDictionary, term []byte, again segment.PostingsList) segment.PostingsList {
	p, err := d.PostingsList(term, nil, again)
	if err != nil {
		e.fail(err)
		return again
	}
	p.(interface{ OrInto(*roaring.Bitmap) }).OrInto(to) //nolint:errcheck // all versions of zap have it; a panic is recovered
	return p
}

// terms yields the terms of a field that the automaton takes, from one up to,
// but not including, another.
func (e *lookup) terms(field string, a segment.Automaton, from, to []byte, yield func(d segment.TermDictionary, term string)) {
	d := e.dict(field)
	if d == nil {
		return
	}
	it := d.AutomatonIterator(a, from, to)
	if x, ok := d.(interface {
		AutomatonIteratorOmitCount(segment.Automaton, []byte, []byte) segment.DictionaryIterator
	}); ok {
		it = x.AutomatonIteratorOmitCount(a, from, to)
	}
	for {
		entry, err := it.Next()
		if err != nil {
			e.fail(err)
			return
		}
		if entry == nil {
			return
		}
		yield(d, entry.Term)
	}
}

// anyOf are those of e.all that have one of the terms that the automaton takes.
func (e *lookup) anyOf(field string, a segment.Automaton, from, to []byte) *roaring.Bitmap {
	out := roaring.New()
	var again segment.PostingsList
	e.terms(field, a, from, to, func(d segment.TermDictionary, term string) {
		again = e.addTerm(out, d, []byte(term), again)
	})
	out.And(e.all)
	return out
}

// prefixEnd is the first key after all that begin with a prefix.
func prefixEnd(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}

// base finds what may be found at all: the owner's documents that are there,
// of which nothing newer is known, and that the filters let through.
func (e *lookup) base(deleted *roaring.Bitmap, newer []string) error {
	e.all = roaring.New()
	if d := e.dict(ownerField); d != nil {
		e.addTerm(e.all, d, e.f.owner[:], nil)
	}
	if deleted != nil {
		e.all.AndNot(deleted)
	}
	if len(newer) > 0 && !e.all.IsEmpty() {
		old, err := e.seg.DocNumbers(newer)
		if err != nil {
			return err
		}
		e.all.AndNot(old)
	}
	for _, x := range e.f.filters {
		if e.all.IsEmpty() {
			break
		}
		var b *roaring.Bitmap
		switch {
		case x.kind != nil:
			b = e.postings(kindField, string(x.kind.Code))
		case x.flag != 0:
			b = e.postings(flagField, string(x.flag))
		case x.id != record.ID{}:
			b = e.postings(tagField, string(x.id[:]))
		default:
			b = roaring.New() // there is no such tag
		}
		if x.not {
			e.all.AndNot(b)
		} else {
			e.all.And(b)
		}
	}
	return e.err
}

// scores finds what fits all clauses, by score.
func (e *lookup) scores() (map[int]*roaring.Bitmap, error) {
	for i := range e.f.q.not {
		if e.all.IsEmpty() {
			break
		}
		for _, b := range e.levels(1, i) {
			e.all = roaring.AndNot(e.all, b)
		}
	}
	if e.all.IsEmpty() || e.err != nil {
		return nil, e.err
	}
	scores := map[int]*roaring.Bitmap{0: e.all}
	for i := range e.f.q.must {
		next := map[int]*roaring.Bitmap{}
		for level, fit := range e.levels(0, i) {
			for s, b := range scores {
				b = roaring.And(b, fit)
				if b.IsEmpty() {
					continue
				}
				if before := next[s+level]; before != nil {
					before.Or(b)
				} else {
					next[s+level] = b
				}
			}
		}
		if scores = next; len(scores) == 0 || e.err != nil {
			break
		}
		e.all = union(scores)
	}
	return scores, e.err
}

// levels finds the documents that fit a clause of q.must (0) or q.not (1), by
// their best level.
func (e *lookup) levels(of, i int) map[int]*roaring.Bitmap {
	c := &[2][]clause{e.f.q.must, e.f.q.not}[of][i]
	tags := &e.f.words[of][i]
	title, titleBegun := e.field(titleField, c)
	text, textBegun := e.field(textField, c)
	levels := map[int]*roaring.Bitmap{}
	var done *roaring.Bitmap
	take := func(level int, some ...*roaring.Bitmap) {
		b := roaring.New()
		for _, x := range some {
			if x != nil {
				b.Or(x)
			}
		}
		if done != nil {
			b.AndNot(done)
		}
		if b.IsEmpty() {
			return
		}
		if levels[level] = b; done == nil {
			done = b
		} else {
			done = roaring.Or(done, b)
		}
	}
	take(titleLevel, title, e.tagged(tags[exactly]))
	take(titlePrefixLevel, titleBegun, e.tagged(tags[begun]))
	take(textLevel, text)
	take(textPrefixLevel, textBegun)
	if c.fuzzy && !e.f.strict {
		take(titleErrorLevel, e.misspelt(titleField, c.parts[0].term), e.tagged(tags[misspelt]))
		take(textErrorLevel, e.misspelt(textField, c.parts[0].term))
	}
	return levels
}

// tagged are those of e.all that have one of the tags.
func (e *lookup) tagged(ids map[record.ID]bool) *roaring.Bitmap {
	out := roaring.New()
	if len(ids) == 0 {
		return out
	}
	if d := e.dict(tagField); d != nil {
		for id := range ids {
			e.addTerm(out, d, id[:], nil)
		}
	}
	out.And(e.all)
	return out
}

// field finds a clause in a field: as it stands, and with its last part as the
// beginning of a word.
func (e *lookup) field(field string, c *clause) (exact, begun *roaring.Bitmap) {
	last := c.parts[len(c.parts)-1]
	if len(c.parts) > 1 {
		return e.phrase(field, c)
	}
	exact = e.postings(field, last.term)
	if last.prefix {
		begun = e.anyOf(field, new(vellum.AlwaysMatch), []byte(last.term), prefixEnd(last.term))
	}
	return exact, begun
}

// errorAutomata makes the automata that take a word with one typing error.
var errorAutomata = sync.OnceValues(func() (*levenshtein.LevenshteinAutomatonBuilder, error) {
	return levenshtein.NewLevenshteinAutomatonBuilder(1, true)
})

// automaton takes a word with one typing error, or without one.
func (f *Finder) automaton(term string) (segment.Automaton, error) {
	if a := f.automata[term]; a != nil {
		return a, nil
	}
	all, err := errorAutomata()
	if err != nil {
		return nil, err
	}
	a, err := all.BuildDfa(term, 1)
	if err != nil {
		return nil, err
	}
	if f.automata == nil {
		f.automata = map[string]segment.Automaton{}
	}
	f.automata[term] = a
	return a, nil
}

// misspelt are those of e.all that have the word with a typing error, or
// without one.
func (e *lookup) misspelt(field, term string) *roaring.Bitmap {
	a, err := e.f.automaton(term)
	if err != nil {
		e.fail(err)
		return roaring.New()
	}
	_, first := utf8.DecodeRuneInString(term)
	return e.anyOf(field, a, []byte(term[:first]), prefixEnd(term[:first]))
}

// phrase finds several words in a row by their positions, which it reads only
// in documents that have all of the words.
func (e *lookup) phrase(field string, c *clause) (exact, begun *roaring.Bitmap) {
	exact, begun = roaring.New(), roaring.New()
	d := e.dict(field)
	if d == nil {
		return exact, begun
	}
	head, last := c.parts[:len(c.parts)-1], c.parts[len(c.parts)-1]
	some := e.all
	for _, p := range head {
		if some = roaring.And(some, e.postings(field, p.term)); some.IsEmpty() {
			return exact, begun
		}
	}

	type ending struct {
		term string
		to   *roaring.Bitmap
	}
	var endings []ending
	complete := roaring.New() // documents that have all of head and one of endings
	add := func(term string, to *roaring.Bitmap) {
		if docs := roaring.And(some, e.postings(field, term)); !docs.IsEmpty() {
			complete.Or(docs)
			endings = append(endings, ending{term, to})
		}
	}
	add(last.term, exact)
	if last.prefix {
		e.terms(field, new(vellum.AlwaysMatch), []byte(last.term), prefixEnd(last.term), func(_ segment.TermDictionary, term string) { add(term, begun) })
	}
	if len(endings) == 0 {
		return exact, begun
	}

	docs := complete.ToArray()
	var ends [][]uint64 // where the row so far ends, by document, in the order of docs
	for i, p := range head {
		next := make([][]uint64, len(docs))
		e.positions(d, p.term, complete, docs, func(at int, pos uint64) {
			if i == 0 || within(ends[at], pos-1) {
				next[at] = append(next[at], pos)
			}
		})
		ends = next
	}
	for _, x := range endings {
		e.positions(d, x.term, complete, docs, func(at int, pos uint64) {
			if within(ends[at], pos-1) {
				x.to.Add(docs[at])
			}
		})
	}
	return exact, begun
}

// within reports whether the place is one of those, which are in their order.
// There may be as many as words in a text.
func within(places []uint64, place uint64) bool {
	_, got := slices.BinarySearch(places, place)
	return got
}

// positions yields where the term stands in those of some that have it, from
// the beginning of each on. docs is a list that has all of some; at counts
// within it.
func (e *lookup) positions(d segment.TermDictionary, term string, some *roaring.Bitmap, docs []uint32, yield func(at int, pos uint64)) {
	p, err := d.PostingsList([]byte(term), nil, nil)
	if err != nil {
		e.fail(err)
		return
	}
	with := roaring.New()
	p.(interface{ OrInto(*roaring.Bitmap) }).OrInto(with) //nolint:errcheck // as in addTerm
	if with.And(some); with.IsEmpty() {
		return
	}
	it := p.Iterator(true, true, true, nil)
	if x, ok := it.(segment.OptimizablePostingsIterator); ok {
		x.ReplaceActual(with)
	}
	at := 0
	for {
		posting, err := it.Next()
		if err = cmp.Or(err, e.ctx.Err()); err != nil {
			e.fail(err)
			return
		}
		if posting == nil {
			return
		}
		doc := uint32(posting.Number())
		for at < len(docs) && docs[at] < doc {
			at++
		}
		if at == len(docs) || docs[at] != doc {
			continue
		}
		for _, l := range posting.Locations() {
			yield(at, l.Pos())
		}
	}
}

// placeOf reads the place in the feed that a snapshot has reached.
func placeOf(s *scorch.IndexSnapshot) uint64 {
	if b, err := s.GetInternal(placeKey); err == nil && len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

var placeKey = []byte("place")
