package catalog

import "kist/kv"

// What follows lets the tests outside of the package reach into it.

const (
	EndBatch     = endBatch
	MaxSame      = maxSame
	MaxShared    = maxShared
	MaxSharedOne = maxSharedOne
	PagesAtOnce  = pagesAtOnce
	SharedOver   = sharedOver
)

var Bookmark = bookmark

// SharedSize is how many bytes of records are kept by slug.
func SharedSize(s *kv.Store) int64 { return sharedCache.Of(s).size.Load() }
