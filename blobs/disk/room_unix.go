//go:build linux || darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// Space returns the size of the file system that holds path, and how much of it
// this process may still use.
func Space(path string) (Room, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Room{}, err
	}
	//nolint:unconvert // the types of fields differ between systems
	size := uint64(s.Bsize)
	//nolint:unconvert // as above
	return Room{
		Free: uint64(s.Bavail) * size, Total: uint64(s.Blocks) * size,
		FreeFiles: uint64(s.Ffree), Files: uint64(s.Files),
	}, nil
}
