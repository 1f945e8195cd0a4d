package workcopy

import (
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Relax drops the pages of the working copy that b reads from this process's memory.
// bbolt does not move the map during the transaction.
func Relax(b *bolt.Tx) error {
	data, size := b.DB().Info().Data, uintptr(b.Size())
	if _, _, fault := unix.Syscall(unix.SYS_MADVISE, data, size, unix.MADV_DONTNEED); fault != 0 {
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
