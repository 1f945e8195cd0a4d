package kv

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Relax takes the pages of the working copy that were read out of this
// process's memory. They come back from the system's cache when they are read
// again.
func (s *Store) Relax() error {
	return s.read(func(b *bolt.Tx) error { // while it runs, the map stays where it is
		if _, _, fault := unix.Syscall(unix.SYS_MADVISE, s.bolt.Info().Data, uintptr(b.Size()), unix.MADV_DONTNEED); fault != 0 {
			return fmt.Errorf("cannot give memory back: %w", fault)
		}
		return nil
	})
}
