package disk

import (
	"errors"
	"runtime"
	"syscall"
)

// Errors of Windows that syscall has no names for on other systems.
const (
	windowsInvalidFunction = syscall.Errno(1)
	windowsOtherDisk       = syscall.Errno(17)
	windowsTooManyLinks    = syscall.Errno(1142)
)

// NoLinks reports whether an error of os.Link says that no file can be linked there: the file system
// has no hard links, or the two names are on different ones.
func NoLinks(err error) bool {
	if runtime.GOOS == "windows" && (errors.Is(err, windowsInvalidFunction) || errors.Is(err, windowsOtherDisk)) {
		return true
	}
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EXDEV)
}

// TooManyLinks reports whether an error of os.Link says that this one file can have no more names.
func TooManyLinks(err error) bool {
	return errors.Is(err, syscall.EMLINK) || runtime.GOOS == "windows" && errors.Is(err, windowsTooManyLinks)
}
