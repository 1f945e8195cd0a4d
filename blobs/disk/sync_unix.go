//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder makes the names in the folder durable. Some network file systems
// have no such operation; a name there is as durable as the server makes it.
func SyncFolder(folder *os.File) error {
	err := folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
