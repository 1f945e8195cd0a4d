package search

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"kist/kv/record"
)

// A Hit is a found record.
type Hit struct {
	Kind  *record.Kind
	ID    record.ID
	Score int
}

// compare orders hits as in an answer: the better one first, then the newer.
func (h Hit) compare(x Hit) int {
	return cmp.Or(cmp.Compare(x.Score, h.Score), bytes.Compare(x.ID[:], h.ID[:]))
}

// Hits are the results of a query. They are valid as long as their View.
type Hits struct {
	parts []found
	loose []Hit // from outside the index, best first
}

// found are the hits in a segment, by score.
type found struct {
	order  *order
	scores map[int]*roaring.Bitmap
}

// Total is the number of hits.
func (h *Hits) Total() int {
	n := len(h.loose)
	for _, p := range h.parts {
		for _, b := range p.scores {
			n += int(b.GetCardinality())
		}
	}
	return n
}

func (h *Hits) sort() *Hits {
	slices.SortFunc(h.loose, Hit.compare)
	return h
}

// Page lists up to limit hits after a hit, or the first ones if after is nil: better before worse,
// newer before older.
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
		// The newest of each part include the newest of all.
		var some []Hit
		for _, p := range h.parts {
			if b := p.scores[s]; b != nil {
				some = p.order.newest(some, b, s, after, limit-len(page))
			}
		}
		for _, l := range h.loose {
			if l.Score == s && (after == nil || after.compare(l) < 0) {
				some = append(some, l)
			}
		}
		slices.SortFunc(some, Hit.compare)
		page = append(page, some[:min(len(some), limit-len(page))]...)
	}
	return page
}

// IDs lists the ids of all hits in ascending order.
func (h *Hits) IDs() []record.ID {
	ids := make([]record.ID, 0, h.Total())
	for _, l := range h.loose {
		ids = append(ids, l.ID)
	}
	for _, p := range h.parts {
		ids = p.order.ascending(ids, union(p.scores))
	}
	if len(h.parts) > 1 || len(h.loose) > 0 {
		slices.SortFunc(ids, func(a, b record.ID) int { return bytes.Compare(a[:], b[:]) })
	}
	return ids
}

func union(scores map[int]*roaring.Bitmap) *roaring.Bitmap {
	return roaring.FastOr(slices.Collect(maps.Values(scores))...)
}

// order has the ids of a segment's documents. Segments never change, so it is made once for each.
type order struct {
	ids  []record.ID // by document
	kind []byte      // by document
	down []uint32    // documents, newest first
	rank []uint32    // the index of a document in down
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

// docIDSize is the length of a document's id: kind and id.
const docIDSize = 1 + 16

func docID(k *record.Kind, id record.ID) string {
	return string(append([]byte{k.Code}, id[:]...))
}

// newest appends up to limit documents of b that come after a hit, newest first.
func (o *order) newest(to []Hit, b *roaring.Bitmap, score int, after *Hit, limit int) []Hit {
	from := 0
	if after != nil && after.Score == score {
		at, there := slices.BinarySearchFunc(o.down, after.ID, func(doc uint32, id record.ID) int {
			return bytes.Compare(id[:], o.ids[doc][:])
		})
		from = at
		if there {
			from++
		}
	}

	add := func(doc uint32) { to = append(to, Hit{record.KindOf(o.kind[doc]), o.ids[doc], score}) }
	// If there are few, sort them. If there are many, the newest are found quickly.
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

// ascending appends the ids of the documents in b in ascending order.
func (o *order) ascending(to []record.ID, b *roaring.Bitmap) []record.ID {
	n := b.GetCardinality()
	if n > uint64(len(o.down))/16 { // looking at all is faster than sorting many
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
