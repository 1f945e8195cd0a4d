//go:build !linux && !darwin && !freebsd

package disk

import "errors"

// Space is not supported here: the error is errors.ErrUnsupported.
func Space(string) (Room, error) { return Room{}, errors.ErrUnsupported }
