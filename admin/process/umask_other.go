//go:build !unix

package process

// Private does nothing, because files have no mode here.
func Private() {}
