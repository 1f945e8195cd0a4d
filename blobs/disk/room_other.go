//go:build !linux && !darwin && !freebsd

package disk

import "errors"

// Space is not to be had here: the error is errors.ErrUnsupported.
func Space(string) (Room, error) { return Room{}, errors.ErrUnsupported }
