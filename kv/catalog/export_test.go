package catalog

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
