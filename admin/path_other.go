//go:build !linux

package admin

import "fmt"

// shortPath refuses paths that are too long for the address of a socket; only
// Linux has a way around.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) > maxSocketPath {
		return "", nil, fmt.Errorf("the path %s is longer than the %d bytes that a socket may have here; choose a shorter one", path, maxSocketPath)
	}
	return path, func() {}, nil
}
