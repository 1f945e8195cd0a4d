//go:build !linux

package admin

// memory is not known here.
func memory() (bytes int64, limited, ok bool) { return 0, false, false }
