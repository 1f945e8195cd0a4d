//go:build !unix

package admin

// Private does nothing where files have no mode.
func Private() {}
