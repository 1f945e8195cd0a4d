//go:build !linux

package blobs

import (
	"errors"
	"os"
)

// createUnnamed is not to be had here; content is staged under a name.
func createUnnamed(*os.Root) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(_, _ *os.File, _ string) error { return errors.ErrUnsupported }

func startWriteBack(*os.File, int64, int64) {}
