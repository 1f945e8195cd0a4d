package kv

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns a clock that nobody sets. It goes on while the machine is
// suspended, as time.Since does not (clock_gettime(2), CLOCK_BOOTTIME).
func monotonic() func() time.Duration {
	begun := time.Now()
	return func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			return time.Since(begun)
		}
		return time.Duration(t.Nano())
	}
}
