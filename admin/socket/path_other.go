//go:build !linux

package socket

import "fmt"

// shortPath refuses a path that is too long for the address of a socket. Only
// Linux has a way around that.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) > maxSocketPath {
		return "", nil, fmt.Errorf("the path %s is longer than the %d bytes that a socket may have here; "+
			"choose a shorter one", path, maxSocketPath)
	}
	return path, func() {}, nil
}
