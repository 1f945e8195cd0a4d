//go:build !linux

package disk

import (
	"errors"
	"os"
)

// CreateUnnamed is not supported here; content is staged under a name.
func CreateUnnamed(*os.Root) (*os.File, error) { return nil, errors.ErrUnsupported }

// LinkUnnamed is not supported here.
func LinkUnnamed(_, _ *os.File, _ string) error { return errors.ErrUnsupported }

// WriteNew is not supported here.
func WriteNew(*os.File, string, string, []byte) error { return errors.ErrUnsupported }

// SyncAll is not supported here.
func SyncAll(*os.File) error { return errors.ErrUnsupported }

// Missing reports false here.
func Missing(*os.File, string) bool { return false }

// StartWriteBack does nothing here.
func StartWriteBack(*os.File, int64, int64) {}
