//go:build !unix

package disk

import "os"

// SyncFolder does nothing: this system has no way to sync a folder. Its file
// system logs changes of names on its own.
func SyncFolder(*os.File) error { return nil }
