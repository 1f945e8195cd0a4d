//go:build !linux

package disk

import "os"

// Datasync makes the bytes of the file durable.
func Datasync(file *os.File) error { return file.Sync() }
