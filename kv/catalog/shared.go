package catalog

import (
	"sync"
	"sync/atomic"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// Bounds of the records that are kept, in bytes: of all, and of each.
const (
	maxShared    = 2 << 20
	maxSharedOne = 8 << 10
	sharedOver   = 1 << 10 // what a record takes beside its body, about
)

// shared are records by slug, as of the last commit that changed a record or an
// account. Views change neither, so that what is asked for again and again is
// read once.
type shared struct {
	bySlug sync.Map // of *record.Record
	size   atomic.Int64
}

var sharedCache kv.Cache[shared]

// Shared reads the record with the given slug, no matter who owns it, unless the
// owner's account is shut: that shares nothing. It is what is committed; the
// caller may set its fields, but must not write into what they point to.
func Shared(s *kv.Store, slug string) (*record.Record, error) {
	kept := sharedCache.Of(s) // before the transaction begins
	if v, ok := kept.bySlug.Load(slug); ok {
		r := *v.(*record.Record) //nolint:errcheck // nothing else is in it
		return &r, nil
	}
	var r *record.Record
	err := s.View(func(tx *kv.Tx) (err error) {
		if r, err = Slug(tx, slug); err != nil {
			return err
		}
		shut, err := people.Disabled(tx, r.Owner)
		if shut {
			return record.ErrMissing
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if size := int64(len(r.Body)) + sharedOver; size <= maxSharedOne {
		if kept.size.Add(size) > maxShared {
			sharedCache.Replace(s, kept)
			return r, nil
		}
		owned := *r
		kept.bySlug.Store(r.Slug, &owned)
	}
	return r, nil
}
