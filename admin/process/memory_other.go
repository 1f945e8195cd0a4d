//go:build !linux

package process

// memory is not known on this system.
func memory() (bytes int64, limited, ok bool) { return 0, false, false }
