//go:build !unix

package search

// release does nothing on other systems.
func release([]byte) {}
