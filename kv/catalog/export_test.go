package catalog

import (
	"bytes"
	"errors"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// The declarations below give external tests access to internals.

const (
	EndBatch     = endBatch
	MaxSame      = maxSame
	MaxShared    = maxShared
	MaxSharedOne = maxSharedOne
	PagesAtOnce  = pagesAtOnce
	SharedOver   = sharedOver
)

var (
	Bookmark   = bookmark
	FlushViews = flushViews
)

// SharedSize is how many bytes of records are cached by slug.
func SharedSize(s *kv.Store) int64 { return sharedCache.Of(s).size.Load() }

// SkipBy says how many entries a page of the list walks to get to its offset.
func SkipBy(tx *kv.Tx, q Query) int {
	from := source{tx: tx, q: &q, bucket: kv.RecordBucket, prefix: kv.OwnedKey(q.Owner, q.Kind.Code)}
	total := RecordRows.Sum(tx.Tx, from.prefix)
	way := ways[q.Sort]
	if way.by != 0 {
		from.bucket, from.prefix = recordOrder, append(from.prefix, way.by)
	}
	_, left := from.skip(q.Offset, int(total), way.down)
	return left
}

// RankStep is the least number of entries between two positions in memory.
const RankStep = rankStep

// Bounds of visits in memory.
const (
	MaxHosts = maxHosts
	MaxLog   = maxLog
)

// PendingVisits is what waits for the next flush.
func PendingVisits(s *kv.Store) (days, hosts, log int) {
	c := pendingViews.Of(s)
	c.Lock()
	defer c.Unlock()
	for _, d := range c.days {
		hosts += len(d.Hosts)
	}
	return len(c.days), hosts, len(c.log)
}

// RenewOrders renews the orders of the records with the keys, and returns how many of them it could not read.
func RenewOrders(s *kv.Store, tx *kv.Tx, keys ...[]byte) (failed int, err error) {
	work := reordering{failed: map[record.ID]bool{}}
	err = work.renew(s, tx, keys)
	return len(work.failed), err
}

// DropShows makes the store like one of a format that did not know which texts show files.
func DropShows(tx *kv.Tx) error {
	drop := func(b table.Bucket, key []byte) error { return tx.Delete(b, bytes.Clone(key)) }
	for r, err := range RecordRows.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		for _, id := range r.Shows() {
			label := facet{showsFile, id}.key(r.Owner, r.Kind)
			if err := errors.Join(drop(kv.SumBucket, label), drop(recordFacet, append(label, r.ID[:]...))); err != nil {
				return err
			}
		}
	}
	for t, err := range TrashRows.All(tx.Tx, nil) {
		if err != nil {
			return err
		}
		for _, id := range t.Shows() {
			if err := drop(kv.SumBucket, trashShown(t.Owner, id)); err != nil {
				return err
			}
		}
	}
	return nil
}
