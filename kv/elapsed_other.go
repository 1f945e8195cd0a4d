//go:build !linux

package kv

import "time"

// monotonic returns a clock that nobody sets.
func monotonic() func() time.Duration {
	begun := time.Now()
	return func() time.Duration { return time.Since(begun) }
}
