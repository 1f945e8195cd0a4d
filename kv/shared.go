package kv

import (
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
func (s *Store) Shared(slug string) (*record.Record, error) {
	kept := s.shared.Load() // before the transaction begins
	if v, ok := kept.bySlug.Load(slug); ok {
		r := *v.(*record.Record) //nolint:errcheck // nothing else is in it
		return &r, nil
	}
	var r *record.Record
	err := s.View(func(tx *Tx) (err error) {
		if r, err = tx.Slug(slug); err != nil {
			return err
		}
		shut, err := tx.Disabled(r.Owner)
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
			s.shared.CompareAndSwap(kept, new(shared)) // starts again
			return r, nil
		}
		owned := *r
		kept.bySlug.Store(r.Slug, &owned)
	}
	return r, nil
}
