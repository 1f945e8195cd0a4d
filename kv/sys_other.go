//go:build !linux

package kv

import (
	"time"
)

// monotonic returns a monotonic clock.
func monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// MostMapped is how many bytes of files long jobs may leave in this process's memory.
const MostMapped = 44 << 20

// SetRelaxed does nothing on this system.
func (s *Store) SetRelaxed() error { return nil }

// FileMemory returns 0: unknown on this system.
func FileMemory() int64 { return 0 }
