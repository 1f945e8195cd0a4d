package kv

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns a monotonic clock. Unlike time.Since, it keeps running while the
// machine is suspended (clock_gettime(2), CLOCK_BOOTTIME).
func monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			return time.Since(start)
		}
		return time.Duration(t.Nano())
	}
}
