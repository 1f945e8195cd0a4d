package datadir

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Place distinguishes a folder from its copies, whatever is in it. It stays the same when the
// folder is moved within its file system. It is "" if the file system does not say when the
// folder was made.
func Place(dir string) (string, error) {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_INO|unix.STATX_BTIME, &s)
	if errors.Is(err, unix.ENOSYS) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", dir, err)
	}
	if s.Mask&unix.STATX_BTIME == 0 {
		return "", nil
	}
	return fmt.Sprintf("%x-%x-%x", s.Ino, s.Btime.Sec, s.Btime.Nsec), nil
}

// Identify returns the identity of the file at the path.
func Identify(path string) (Identity, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return Identity{}, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	//nolint:unconvert // types differ between machines
	return Identity{uint64(s.Dev), uint64(s.Ino), s.Ctim.Nano(), s.Size}, nil
}
