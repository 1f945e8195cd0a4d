//go:build unix

package process

import "golang.org/x/sys/unix"

// Private makes files that this process creates from now on accessible to its
// user only.
func Private() { unix.Umask(0o077) }
