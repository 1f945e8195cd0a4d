package datadir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Identify returns the identity of the file at the path.
func Identify(path string) (Identity, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return Identity{}, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	return Identity{uint64(s.Dev), uint64(s.Ino), s.Ctim.Nano(), s.Size}, nil //nolint:unconvert // types differ between machines
}
