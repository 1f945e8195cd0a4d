package catalog

import (
	"bytes"
	"sync"
	"sync/atomic"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// Bounds of the cached records in bytes: in all, and for each.
const (
	maxShared    = 2 << 20
	maxSharedOne = 8 << 10
	sharedOver   = 1 << 10 // roughly what a record takes in addition to its body
)

// shared caches records by slug, as of the last commit that changed a record or an
// account. Views change neither, so a popular record is read only once.
type shared struct {
	bySlug sync.Map // of *record.Record
	size   atomic.Int64
}

var sharedCache kv.Cache[shared]

// Shared reads the committed record with the given slug, no matter who owns it. It
// fails with Missing if the owner's account is disabled. The caller may set the
// record's fields, but must not change what they point to. The Body of a record that is
// longer than most, and than what is cached, is not read, so that it takes no time and no
// memory: it is nil, and long is its length.
func Shared(s *kv.Store, slug string, most int) (r *record.Record, long int, err error) {
	kept := sharedCache.Of(s) // before the transaction begins
	if v, ok := kept.bySlug.Load(slug); ok {
		r := *v.(*record.Record) //nolint:errcheck // every value is a record
		return &r, 0, nil
	}
	var size int64
	err = s.View(func(tx *kv.Tx) (err error) {
		key := tx.Get(kv.RecordSlug, []byte(slug))
		row := tx.Get(kv.RecordBucket, key)
		if row == nil {
			return record.ErrMissing
		}
		r, err = record.BorrowRow(key, row)
		if err != nil {
			return err
		}
		size = int64(len(r.Body)) + sharedOver
		if len(r.Body) <= most || size <= maxSharedOne {
			r.Body = bytes.Clone(r.Body)
		} else {
			long, r.Body = len(r.Body), nil
		}

		disabled, err := people.Disabled(tx, r.Owner)
		if err != nil {
			return err
		}
		if disabled {
			return record.ErrMissing
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if size <= maxSharedOne {
		if kept.size.Add(size) > maxShared {
			sharedCache.Replace(s, kept)
			return r, 0, nil
		}
		owned := *r
		kept.bySlug.Store(r.Slug, &owned)
	}
	return r, long, nil
}
