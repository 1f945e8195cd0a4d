//go:build !linux

package kv

import "time"

// monotonic returns a monotonic clock.
func monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
