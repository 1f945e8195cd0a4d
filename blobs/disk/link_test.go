//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// What a link that fails says of the file system, and what of the one file.
func TestLinkErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err           error
		none, tooMany bool
	}{
		{syscall.EPERM, true, false}, // Linux on FAT
		{syscall.ENOTSUP, true, false},
		{syscall.EOPNOTSUPP, true, false},
		{syscall.ENOSYS, true, false},
		{syscall.EXDEV, true, false},
		{syscall.EMLINK, false, true},
		{syscall.EACCES, false, false},
		{syscall.EIO, false, false},
		{syscall.ENOSPC, false, false},
		{syscall.EDQUOT, false, false},
		{syscall.EROFS, false, false},
		{syscall.ESTALE, false, false},
		{fs.ErrNotExist, false, false},
		{errors.New("other"), false, false},
	} {
		err := &os.LinkError{Op: "link", Old: "a", New: "b", Err: c.err}
		if NoLinks(err) != c.none || TooManyLinks(err) != c.tooMany {
			t.Errorf("%v: no links %v, too many %v", c.err, NoLinks(err), TooManyLinks(err))
		}
	}
}
