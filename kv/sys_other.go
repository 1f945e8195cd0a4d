//go:build !linux

package kv

import (
	"time"
)

// monotonic returns a clock that nobody sets.
func monotonic() func() time.Duration {
	begun := time.Now()
	return func() time.Duration { return time.Since(begun) }
}

// MostMapped is how many bytes of files long work leaves in this process's
// memory.
const MostMapped = 44 << 20

// SetRelaxed does nothing where the system is not told.
func (s *Store) SetRelaxed() error { return nil }

// FileMemory is 0: nobody can tell.
func FileMemory() int64 { return 0 }
