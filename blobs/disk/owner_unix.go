//go:build unix

package disk

import (
	"os"
	"syscall"
)

// Owner returns the numbers of the user and the group that something belongs to. ok is false if that
// is not known here.
func Owner(path string) (uid, gid int, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(s.Uid), int(s.Gid), true
}
