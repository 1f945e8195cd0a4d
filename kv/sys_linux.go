package kv

import (
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
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

// MostMapped is how many bytes of files, including the program itself, long jobs may
// leave in this process's memory.
const MostMapped = 44 << 20

// relax drops the pages of the working copy that b reads from this process's memory.
// bbolt does not move the map during the transaction.
func relax(b *bolt.Tx) error {
	if _, _, fault := unix.Syscall(unix.SYS_MADVISE, b.DB().Info().Data, uintptr(b.Size()), unix.MADV_DONTNEED); fault != 0 {
		return fmt.Errorf("cannot release memory: %w", fault)
	}
	return nil
}

// FileMemory returns how many bytes of files, including the program itself, are in
// this process's memory; 0 if unknown.
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
