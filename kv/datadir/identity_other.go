//go:build !linux

package datadir

import "errors"

// Identify is not supported here, so every start rebuilds the working copy.
func Identify(string) (Identity, error) { return Identity{}, errors.ErrUnsupported }

// Place is not known here.
func Place(string) (string, error) { return "", nil }
