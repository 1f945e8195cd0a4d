//go:build !unix

package httpapi

func smallWindow(uintptr) {}
