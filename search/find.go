package search

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"
	"github.com/blevesearch/vellum"
	"github.com/blevesearch/vellum/levenshtein"

	"kist/kv"
	"kist/kv/record"
)

// The fields of the index. Changing them, their content or how words are cut requires a new
// mappingVersion.
const (
	titleField = "t"
	textField  = "b"
	slugField  = "s" // the link name, which only the owner finds
	ownerField = "o"
	kindField  = "k"
	tagField   = "g" // the tags and the folder
	flagField  = "f"

	mappingVersion = 6
)

// A View is the index at one moment. It must be closed.
type View struct {
	x    *Index
	snap *scorch.IndexSnapshot
	at   uint64
}

// Place is the place in the feed of changes that the index has reached.
func (v *View) Place() uint64 { return v.at }

// Close releases the view.
func (v *View) Close() {
	_ = v.snap.Close() // counts references; an error is repeated when the index is closed
	v.x.mu.RUnlock()
}

// Find runs the query. tail are the changes after Place, which the index lacks: their records are
// matched in their current state. The error is ErrUnusable, which means that the index is being rebuilt
// and the caller has to read the records, or ctx's.
func (v *View) Find(ctx context.Context, f *Finder, tail []kv.Change) (h *Hits, err error) {
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
	if f.nothing {
		return h, nil
	}

	var newer []string // their documents are outdated
	for i := range tail {
		c := &tail[i]
		if c.Owner != f.owner && f.others == nil {
			continue
		}
		newer = append(newer, docID(c.Kind, c.ID))
		if c.Record == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if score, ok, err := f.score(c.Record, v.x.content); err == nil && ok { // an unreadable row counts as missing
			h.loose = append(h.loose, Hit{c.Kind, c.ID, score})
		}
	}
	h.sort()

	for _, s := range v.snap.Segments() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := lookup{ctx: ctx, f: f, seg: s.Segment(), fields: map[string]segment.TermDictionary{}}
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
		o, err := v.x.orderOf(s.Segment())
		if err != nil {
			return nil, err
		}
		e.onlyShared(o, scores)
		h.parts = append(h.parts, found{o, scores})
	}
	return h, nil
}

// ErrUnusable says that the index cannot be used.
var ErrUnusable = errors.New("the search index cannot be used")

// lookup evaluates a query in a segment.
type lookup struct {
	ctx context.Context
	f   *Finder
	seg segment.Segment
	all *roaring.Bitmap // the documents that may match

	others *roaring.Bitmap // those that are not the owner's; nil if the search has only the owner's
	shown  *roaring.Bitmap // those of others that have what is shared with the owner as a whole
	err    error

	// What was read last, whose memory is used again.
	fields   map[string]segment.TermDictionary
	list     segment.PostingsList
	iterator segment.PostingsIterator
	few      roaring.Bitmap // see documents
	dense    []uint64       // see anyOf
}

func (e *lookup) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// dictionary has the terms of a field; nil after an error.
func (e *lookup) dictionary(field string) segment.TermDictionary {
	if e.err != nil {
		return nil
	}
	if d := e.fields[field]; d != nil {
		return d
	}
	d, err := e.seg.Dictionary(field)
	if err != nil {
		e.fail(err)
		return nil
	}
	e.fields[field] = d
	return d
}

// postings is how the library reads the documents with a term.
type postings interface {
	segment.PostingsIterator
	segment.OptimizablePostingsIterator
}

// read begins to read the documents with a term, with its positions in them if they are asked for. The result is valid
// until the next call; it is nil after an error.
func (e *lookup) read(field, term string, positions bool) postings {
	d := e.dictionary(field)
	if d == nil {
		return nil
	}
	list, err := d.PostingsList([]byte(term), nil, e.list)
	if err != nil {
		e.fail(err)
		return nil
	}
	e.list, e.iterator = list, list.Iterator(positions, false, positions, e.iterator)
	all, ok := e.iterator.(postings)
	if !ok {
		e.fail(fmt.Errorf("%w: unexpected type of postings", errDamaged))
		return nil
	}
	return all
}

// documents are those with a term. They may be memory of the index: they must not be changed, and are valid until the
// next call.
func (e *lookup) documents(field, term string) *roaring.Bitmap {
	e.few.Clear()
	all := e.read(field, term, false)
	if all == nil {
		return &e.few
	}
	if doc, only := all.DocNum1Hit(); only {
		e.few.Add(uint32(doc))
		return &e.few
	}
	if b := all.ActualBitmap(); b != nil {
		return b
	}
	return &e.few // none
}

// with are the documents of e.all with the term.
func (e *lookup) with(field, term string) *roaring.Bitmap {
	return roaring.And(e.documents(field, term), e.all)
}

// terms calls each with the terms t of a field that a accepts, or all if a is nil, for from ≤ t < to.
func (e *lookup) terms(field string, a segment.Automaton, from, to []byte, each func(term string)) {
	d := e.dictionary(field)
	if d == nil {
		return
	}
	for it := d.AutomatonIterator(a, from, to); e.err == nil; {
		next, err := it.Next()
		if err != nil {
			e.fail(err)
			return
		}
		if next == nil {
			return
		}
		each(next.Term)
	}
}

// sparse is the number of documents up to which roaring keeps a bitmap as a list. Above it, it keeps bits.
const sparse = 4096

// anyOf are the documents of e.all with one of the terms that the automaton accepts. There may be thousands of them,
// most of them in few documents.
func (e *lookup) anyOf(field string, a segment.Automaton, from, to []byte) *roaring.Bitmap {
	many := roaring.New()
	clear(e.dense)
	e.terms(field, a, from, to, func(term string) {
		docs := e.documents(field, term)
		if docs.GetCardinality() > sparse {
			many.Or(docs)
			return
		}
		if e.dense == nil {
			e.dense = make([]uint64, e.seg.Count()/64+1)
		}
		docs.WriteDenseTo(e.dense)
	})
	out := roaring.FromDense(e.dense, true)
	out.Or(many)
	out.And(e.all)
	return out
}

// prefixEnd is the first key after all keys with a prefix.
func prefixEnd(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		b[i]++
		if b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}

// base finds the documents that may match: the owner's existing documents that are not outdated and that pass
// the filters.
func (e *lookup) base(deleted *roaring.Bitmap, newer []string) error {
	e.all = roaring.New()
	if !e.f.notOwn {
		e.all.Or(e.documents(ownerField, string(e.f.owner[:])))
	}
	if e.f.others != nil {
		e.others = roaring.New()
		for _, owner := range e.f.others.Owners {
			e.others.Or(e.documents(ownerField, string(owner[:])))
		}
		e.shown = roaring.New()
		for _, id := range e.f.others.Within {
			e.shown.Or(e.documents(tagField, string(id[:])))
		}
		e.shown.AndNot(e.documents(kindField, string(record.Collections.Code)))
		e.all.Or(e.others)
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
			b = e.with(kindField, string(x.kind.Code))
		case x.flag != 0:
			b = e.with(flagField, string(x.flag))
		case x.id != record.ID{}:
			b = e.with(tagField, string(x.id[:]))
		default:
			b = roaring.New() // the tag does not exist
		}
		if x.kind == nil && e.others != nil {
			b = roaring.AndNot(b, e.others) // flags and tags are the owner's
		}
		if x.not {
			e.all.AndNot(b)
		} else {
			e.all.And(b)
		}
	}
	return e.err
}

// onlyShared takes documents of others out of the scores that are not shared with the person who searches.
func (e *lookup) onlyShared(o *order, scores map[int]*roaring.Bitmap) {
	if e.others == nil {
		return
	}
	for score, b := range scores {
		out := roaring.New()
		of := roaring.And(b, e.others)
		of.AndNot(e.shown)
		for it := of.Iterator(); it.HasNext(); {
			if doc := it.Next(); !e.f.others.Has(o.ids[doc]) {
				out.Add(doc)
			}
		}
		scores[score] = roaring.AndNot(b, out)
	}
}

// scores finds the documents that match all clauses, by score.
func (e *lookup) scores() (map[int]*roaring.Bitmap, error) {
	for i := range e.f.not {
		if e.all.IsEmpty() {
			break
		}
		for _, b := range e.levels(&e.f.not[i]) {
			e.all = roaring.AndNot(e.all, b)
		}
	}
	if e.all.IsEmpty() || e.err != nil {
		return nil, e.err
	}

	scores := map[int]*roaring.Bitmap{0: e.all}
	for i := range e.f.must {
		next := map[int]*roaring.Bitmap{}
		for level, fit := range e.levels(&e.f.must[i]) {
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
		scores = next
		if len(scores) == 0 || e.err != nil {
			break
		}
		e.all = union(scores)
	}
	return scores, e.err
}

// levels finds the documents that match a clause, by their best level. The levels are in match.go.
func (e *lookup) levels(c *resolvedClause) map[int]*roaring.Bitmap {
	title, titleBegun := e.field(titleField, &c.clause)
	text, textBegun := e.field(textField, &c.clause)
	slug, slugBegun := e.field(slugField, &c.clause)
	levels := map[int]*roaring.Bitmap{}
	done := roaring.New()
	own := func(b *roaring.Bitmap) *roaring.Bitmap {
		if e.others != nil {
			b.AndNot(e.others)
		}
		return b
	}
	take := func(level int, some ...*roaring.Bitmap) {
		b := roaring.FastOr(some...)
		b.AndNot(done)
		if !b.IsEmpty() {
			levels[level] = b
			done.Or(b)
		}
	}

	take(titleLevel, title, e.tagged(c.tags[exactly]))
	take(titlePrefixLevel, titleBegun, e.tagged(c.tags[begun]))
	take(textLevel, text, own(slug))
	take(textPrefixLevel, textBegun, own(slugBegun))
	if c.fuzzy && !e.f.strict {
		take(titleErrorLevel, e.misspelt(titleField, c.parts[0].term), e.tagged(c.tags[misspelt]))
		take(textErrorLevel, e.misspelt(textField, c.parts[0].term), own(e.misspelt(slugField, c.parts[0].term)))
	}
	return levels
}

// tagged are the documents of e.all with one of the tags.
func (e *lookup) tagged(ids map[record.ID]bool) *roaring.Bitmap {
	out := roaring.New()
	if len(ids) == 0 {
		return out
	}
	for id := range ids {
		out.Or(e.documents(tagField, string(id[:])))
	}
	out.And(e.all)
	return out
}

// field finds a clause in a field: exactly, and with its last part as the beginning of a word.
func (e *lookup) field(field string, c *clause) (exact, begun *roaring.Bitmap) {
	last := c.parts[len(c.parts)-1]
	if len(c.parts) > 1 {
		return e.phrase(field, c)
	}
	exact, begun = e.with(field, last.term), roaring.New()
	if last.prefix {
		begun = e.anyOf(field, nil, []byte(last.term), prefixEnd(last.term))
	}
	return exact, begun
}

// errorAutomata makes automata that accept a word with one typing error.
var errorAutomata = sync.OnceValues(func() (*levenshtein.LevenshteinAutomatonBuilder, error) {
	return levenshtein.NewLevenshteinAutomatonBuilder(1, true)
})

// automaton accepts a word with at most one typing error.
func (f *Finder) automaton(term string) (vellum.Automaton, error) {
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
	f.automata[term] = a
	return a, nil
}

// misspelt are the documents of e.all that have the word with at most one typing error.
func (e *lookup) misspelt(field, term string) *roaring.Bitmap {
	a, err := e.f.automaton(term)
	if err != nil {
		e.fail(err)
		return roaring.New()
	}
	_, first := utf8.DecodeRuneInString(term)
	return e.anyOf(field, a, []byte(term[:first]), prefixEnd(term[:first]))
}

// phrase finds several words in a row by their positions. It reads positions only in documents that have all
// the words.
func (e *lookup) phrase(field string, c *clause) (exact, begun *roaring.Bitmap) {
	exact, begun = roaring.New(), roaring.New()
	head, last := c.parts[:len(c.parts)-1], c.parts[len(c.parts)-1]
	some := e.all
	for _, p := range head {
		some = roaring.And(some, e.documents(field, p.term))
		if some.IsEmpty() {
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
		if docs := roaring.And(some, e.documents(field, term)); !docs.IsEmpty() {
			complete.Or(docs)
			endings = append(endings, ending{term, to})
		}
	}
	add(last.term, exact)
	if last.prefix {
		e.terms(field, nil, []byte(last.term), prefixEnd(last.term), func(term string) { add(term, begun) })
	}

	docs := complete.ToArray()
	before := make([]place, len(docs)) // where the words so far end, by document
	here := make([]place, len(docs))
	var p places
	for i, part := range head {
		clear(here)
		e.places(&p, field, part.term, complete, docs, func(doc int, at place) { here[doc] = at })
		if i == 0 {
			before, here = here, before
			continue
		}
		for doc := range docs {
			before[doc] = p.after(before[doc], here[doc])
		}
	}

	var hits []uint32
	for _, x := range endings {
		hits = hits[:0]
		e.places(&p, field, x.term, complete, docs, func(doc int, at place) {
			if p.after(before[doc], at) != 0 {
				hits = append(hits, docs[doc])
			}
		})
		x.to.AddMany(hits)
	}
	return exact, begun
}

// places calls each with where the term is, for every one of docs that has it. in has the same documents as docs, and
// doc is an index of docs.
func (e *lookup) places(
	p *places, field, term string, in *roaring.Bitmap, docs []uint32, each func(doc int, at place),
) {
	if err := e.ctx.Err(); err != nil {
		e.fail(err)
	}
	all := e.read(field, term, true)
	if all == nil {
		return
	}
	if b := all.ActualBitmap(); b != nil && b.GetCardinality() > in.GetCardinality() {
		all.ReplaceActual(roaring.And(b, in)) // the library skips the others
	}

	for at := 0; ; {
		next, err := all.Next()
		if err != nil {
			e.fail(err)
			return
		}
		if next == nil {
			return
		}
		skipped, there := slices.BinarySearch(docs[at:], uint32(next.Number()))
		at += skipped
		if there {
			each(at, p.read(next))
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
