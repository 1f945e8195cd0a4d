package catalog

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"

	"kist/kv"
	"kist/kv/record"
)

// A page at a deep offset does not walk all entries before it. ranks keeps the position
// of every few hundredth entry of a source, and how many entries are in between. They
// are counted when a deep page is first asked for. Later pages bring the counts up to
// date from the feed of changes.

const (
	rankStep  = 256  // entries between two positions; up to twice as many after additions
	rankParts = 1024 // a source with more parts than about this has longer ones
	rankDeep  = 2 * rankStep
	rankFeed  = 4096 // after more changes than this, everything is counted again
	rankMost  = 32   // sources in memory, each of at most about 200 KiB
)

// ranks keeps counted sources by bucket and prefix.
type ranks struct {
	mu sync.Mutex
	of map[string]*ranked
}

var rankCache kv.Cache[ranks]

// ranked is a counted source as of a place in the feed of changes.
type ranked struct {
	mu    sync.Mutex
	place uint64
	parts []rankPart // at least one, unless nothing is counted yet
}

// A rankPart has the entries after the end of the part before it.
type rankPart struct {
	end []byte // the position where it ends; nil for the last part
	n   int
}

// ranked returns the counts of the source, or nil if it has none: in an Update, or if
// its entries change without a change in the feed.
func (s *source) ranked() *ranked {
	switch {
	case s.bucket == recordOrder && s.prefix[len(s.prefix)-1] == byViews:
		return nil
	case s.bucket == recordFacet && slices.Contains([]byte{samePage, isUnreachable}, s.prefix[len(s.prefix)-17]):
		return nil
	}
	all := rankCache.In(s.tx)
	if all == nil {
		return nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	key := s.bucket.Name + string(s.prefix)
	r := all.of[key]
	if r == nil {
		if all.of == nil || len(all.of) == rankMost {
			all.of = map[string]*ranked{}
		}
		r = &ranked{}
		all.of[key] = r
	}
	return r
}

// skip returns a position from which a walk has to skip only few entries to get to the
// offset, and how many. The position is nil for the start. total is the number of
// entries of the source, and more than offset.
func (s *source) skip(offset, total int, down bool) (after []byte, left int) {
	if offset < rankDeep {
		return nil, offset
	}
	r := s.ranked()
	if r == nil {
		return nil, offset
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.follow(s, total) {
		return nil, offset
	}
	left = offset
	if !down {
		for i := 0; r.parts[i].n <= left; i++ {
			after, left = r.parts[i].end, left-r.parts[i].n
		}
		return after, left
	}
	for i := len(r.parts) - 1; r.parts[i].n <= left; i-- {
		left -= r.parts[i].n
		after = append(bytes.Clone(r.parts[i-1].end), 0) // a walk down begins before this
	}
	return after, left
}

// follow brings the counts up to date with the transaction. It returns false if they
// are of a later one, or if the entries do not add up to the total.
func (r *ranked) follow(s *source, total int) bool {
	latest := s.tx.Latest()
	if r.parts != nil && latest < r.place {
		return false
	}
	if r.parts == nil || latest != r.place && !r.recount(s, total) {
		r.parts = s.count(nil, nil, total)
	}
	r.place = latest
	return r.sum() == total
}

func (r *ranked) sum() int {
	n := 0
	for _, p := range r.parts {
		n += p.n
	}
	return n
}

// recount counts those parts again in which changed records are now. Any other part can
// only have lost entries, so all counts are right if they add up to the total: also if
// records left an order where their position was not known, or marks of removals are
// gone from the feed. Otherwise, or if too much has changed, recount returns false.
func (r *ranked) recount(s *source, total int) bool {
	changed, seen := map[int]bool{}, 0
	owned := kv.OwnedKey(s.q.Owner, s.q.Kind.Code)
	for _, key := range s.tx.Walk(kv.ChangeBucket, nil, binary.BigEndian.AppendUint64(nil, r.place), false) {
		seen++
		if seen > rankFeed {
			return false
		}
		if !bytes.HasPrefix(key, owned) {
			continue
		}
		if err := s.positions(key, func(at []byte) { changed[r.part(at)] = true }); err != nil {
			return false
		}
	}
	if len(changed) > max(4, len(r.parts)/4) || len(r.parts) > 2*rankParts {
		return false
	}
	parts := make([]rankPart, 0, len(r.parts)+len(changed))
	var from []byte
	for i, p := range r.parts {
		if !changed[i] {
			parts = append(parts, p)
		} else {
			parts = append(parts, s.count(from, p.end, total)...)
		}
		from = p.end
	}
	r.parts = parts
	return r.sum() == total
}

// positions calls found with the position that the record with the key has in the
// source, if it is there at all. By age, that is also the position of one that is gone.
func (s *source) positions(key []byte, found func(at []byte)) error {
	if s.bucket != recordOrder {
		found(key[record.KeySize-len(record.ID{}):])
		return nil
	}
	row := s.tx.Get(kv.RecordBucket, key)
	if row == nil {
		return nil
	}
	r, err := record.BorrowRow(key, row)
	if err != nil {
		return err
	}
	orders(r, func(entry []byte) {
		if at, ok := bytes.CutPrefix(entry, s.prefix); ok {
			found(at)
		}
	})
	return nil
}

// part is the index of the part that has the position.
func (r *ranked) part(at []byte) int {
	last := len(r.parts) - 1
	i, _ := slices.BinarySearchFunc(r.parts[:last], at, func(p rankPart, at []byte) int {
		return bytes.Compare(p.end, at)
	})
	return i
}

// count counts the entries after the position from, up to and including the position
// end, and splits them into parts. nil is the start or the end of the source.
func (s *source) count(from, end []byte, total int) []rankPart {
	step := max(rankStep, total/rankParts)
	var parts []rankPart
	var mark []byte // the position of the entry number step
	n := 0
	for k := range s.tx.Walk(s.bucket, s.prefix, from, false) {
		at := k[len(s.prefix):]
		if end != nil && bytes.Compare(at, end) > 0 {
			break
		}
		n++
		switch n {
		case step:
			mark = bytes.Clone(at)
		case 2 * step:
			parts = append(parts, rankPart{mark, step})
			mark, n = bytes.Clone(at), step
		}
	}
	return append(parts, rankPart{end, n})
}
