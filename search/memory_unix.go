//go:build unix

package search

import "golang.org/x/sys/unix"

// release removes the pages of a mapped file from the process. They come back from the system's cache when they are
// read.
func release(mapped []byte) {
	if len(mapped) > 0 {
		_ = unix.Madvise(mapped, unix.MADV_DONTNEED) // advice
	}
}
