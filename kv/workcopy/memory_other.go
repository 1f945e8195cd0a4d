//go:build !linux

package workcopy

import bolt "go.etcd.io/bbolt"

// Relax does nothing on this system.
func Relax(*bolt.Tx) error { return nil }

// FileMemory returns 0: unknown on this system.
func FileMemory() int64 { return 0 }
