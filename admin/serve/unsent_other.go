//go:build !linux && !darwin

package serve

import "syscall"

// boundUnsent does nothing where the system has no such bound.
func boundUnsent(_, _ string, _ syscall.RawConn) error { return nil }
