package kv

import (
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
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

// MostMapped is how many bytes of files long work leaves in this process's
// memory, the program itself among them.
const MostMapped = 44 << 20

// SetRelaxed takes the pages of the working copy that were read out of this
// process's memory. They come back from the system's cache when they are read
// again.
func (s *Store) SetRelaxed() error {
	return s.read(func(b *bolt.Tx) error { // while it runs, the map stays where it is
		if _, _, fault := unix.Syscall(unix.SYS_MADVISE, s.bolt.Info().Data, uintptr(b.Size()), unix.MADV_DONTNEED); fault != 0 {
			return fmt.Errorf("cannot give memory back: %w", fault)
		}
		return nil
	})
}

// FileMemory is how many bytes of files this process has in its memory, the
// program itself among them; 0 if nobody can tell.
func FileMemory() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64 // in pages: proc(5)
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return 0
	}
	return shared * int64(os.Getpagesize())
}
