package kv

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identify says which file the path leads to.
func identify(path string) (identity, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return identity{}, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	return identity{uint64(s.Dev), uint64(s.Ino), s.Ctim.Nano(), s.Size}, nil //nolint:unconvert // types differ between machines
}
