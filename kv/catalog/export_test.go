package catalog

import "kist/kv"

// The declarations below give external tests access to internals.

const (
	EndBatch     = endBatch
	MaxSame      = maxSame
	MaxShared    = maxShared
	MaxSharedOne = maxSharedOne
	PagesAtOnce  = pagesAtOnce
	SharedOver   = sharedOver
)

var Bookmark = bookmark

// SharedSize is how many bytes of records are cached by slug.
func SharedSize(s *kv.Store) int64 { return sharedCache.Of(s).size.Load() }
