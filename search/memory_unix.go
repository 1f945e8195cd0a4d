//go:build unix

package search

import "golang.org/x/sys/unix"

// release takes the pages of a file that is mapped into memory out of the
// process. They come back from the system's cache when they are read.
func release(mapped []byte) {
	if len(mapped) > 0 {
		_ = unix.Madvise(mapped, unix.MADV_DONTNEED) // advice
	}
}
