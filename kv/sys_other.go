//go:build !linux

package kv

import (
	"time"

	bolt "go.etcd.io/bbolt"
)

// monotonic returns a monotonic clock.
func monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// MostMapped is how many bytes of files long jobs may leave in this process's memory.
const MostMapped = 44 << 20

// relax does nothing on this system.
func relax(*bolt.Tx) error { return nil }

// FileMemory returns 0: unknown on this system.
func FileMemory() int64 { return 0 }
