// Package worker knows which remote uploads and imports are being worked on.
package worker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"kist/kv"
	"kist/kv/record"
)

const FetchesOfOwner = 2 // at once, so that slow servers do not keep others waiting

// Fetcher is the work on remote uploads that is under way.
type Fetcher struct {
	Wake chan struct{} // something may be due
	Mu   sync.Mutex
	Out  map[record.ID]*Fetching
	Last map[record.ID]int // which of all that were begun was the latest of an owner
	n    int               // how many were begun
}

// Fetching is a try under way.
type Fetching struct {
	owner record.ID
	Stop  context.CancelFunc
	Bytes atomic.Int64 // that came in
}

func (f *Fetcher) Ready() {
	f.Wake = make(chan struct{}, 1)
	f.Out, f.Last = map[record.ID]*Fetching{}, map[record.ID]int{}
}

// Rescan has the queue looked at.
func (f *Fetcher) Rescan() {
	select {
	case f.Wake <- struct{}{}:
	default: // it is known already
	}
}

// Running is the try of a remote upload that is under way, or nil.
func (f *Fetcher) Running(id record.ID) *Fetching {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.Out[id]
}

// Cancel ends the try of a remote upload, if one is under way. What is written
// down of it must say before that nobody waits for it.
func (f *Fetcher) Cancel(id record.ID) {
	if at := f.Running(id); at != nil {
		at.Stop()
	}
}

// Begin takes the first of those found whose owner's latest try was begun
// longest ago, of owners that have room for one; ok is false if there is none.
func (f *Fetcher) Begin(found []kv.DueFetch, at *Fetching) (one kv.DueFetch, rest []kv.DueFetch, ok bool) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	begun := map[record.ID]int{}
	for _, other := range f.Out {
		begun[other.owner]++
	}
	rest = slices.DeleteFunc(found, func(o kv.DueFetch) bool { return begun[o.Owner] >= FetchesOfOwner })
	if len(rest) == 0 {
		return one, nil, false
	}
	one = slices.MinFunc(rest, func(a, b kv.DueFetch) int { return cmp.Compare(f.Last[a.Owner], f.Last[b.Owner]) })
	at.owner = one.Owner
	f.n++
	f.Last[one.Owner], f.Out[one.ID] = f.n, at
	return one, slices.DeleteFunc(rest, func(o kv.DueFetch) bool { return o == one }), true
}

func (f *Fetcher) End(id record.ID) {
	f.Mu.Lock()
	delete(f.Out, id)
	f.Mu.Unlock()
	f.Rescan()
}
