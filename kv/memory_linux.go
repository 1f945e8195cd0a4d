package kv

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Relax takes the pages of the working copy that were read out of this
// process's memory. They come back from the system's cache when they are read
// again.
func (s *Store) Relax() error {
	err := s.bolt.View(func(b *bolt.Tx) error { // while it runs, the map stays where it is
		if _, _, fault := unix.Syscall(unix.SYS_MADVISE, s.bolt.Info().Data, uintptr(b.Size()), unix.MADV_DONTNEED); fault != 0 {
			return fmt.Errorf("cannot give memory back: %w", fault)
		}
		return nil
	})
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}
