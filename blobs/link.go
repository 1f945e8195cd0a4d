package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Link gives the store a content of n bytes that another store has, as a second name of the same
// file. It reads nothing. The error is fs.ErrNotExist if the other store has no such content of
// that size, or has it in quarantine; fs.ErrExist if this store has another file under the name;
// disk.NoLinks and disk.TooManyLinks tell what those of the file system mean. The name is on stable
// storage after SyncNames.
func (s *Store) Link(ref Ref, n int64, from *Store) error {
	info, err := from.Stat(ref)
	if err != nil {
		return err
	}
	if info.Size != n || from.Damaged.Err(ref) != nil {
		return fmt.Errorf("blobs: linking %s: %w", ref, fs.ErrNotExist)
	}
	if err := s.root.makeFolder(ref.folder()); err != nil {
		return err
	}

	name := filepath.FromSlash(ref.path())
	there, here := filepath.Join(from.root.Name(), name), filepath.Join(s.root.Name(), name)
	err = s.steps.on(here, "link", func() error { return os.Link(there, here) })
	if errors.Is(err, fs.ErrExist) && sameFile(there, here) {
		return nil
	}
	return err
}

func sameFile(one, other string) bool {
	a, err := os.Lstat(one)
	if err != nil {
		return false
	}
	b, err := os.Lstat(other)
	return err == nil && os.SameFile(a, b)
}

// SyncNames makes the names of all contents durable.
func (s *Store) SyncNames() error {
	entries, err := s.root.list(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := parseFolder(e.Name()); !ok {
			continue
		}
		if err := s.root.syncFolder(e.Name(), "sync folder"); err != nil {
			return err
		}
	}
	return s.root.syncFolder(".", s.root.syncStep)
}
