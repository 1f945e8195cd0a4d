//go:build unix

package admin

import "golang.org/x/sys/unix"

// Private makes every file that this process makes from now on its user's own.
func Private() { unix.Umask(0o077) }
