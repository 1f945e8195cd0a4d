package catalog

import (
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

// Shared reads the record with the given slug, no matter who owns it, unless the
// owner's account is shut: that shares nothing. It is what is committed; the
// caller may set its fields, but must not write into what they point to.
func Shared(s *kv.Store, slug string) (*record.Record, error) {
	kept := s.Shared.Load() // before the transaction begins
	if v, ok := kept.BySlug.Load(slug); ok {
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
		if kept.Size.Add(size) > maxShared {
			s.Shared.CompareAndSwap(kept, new(kv.Shared)) // starts again
			return r, nil
		}
		owned := *r
		kept.BySlug.Store(r.Slug, &owned)
	}
	return r, nil
}
