//go:build !unix

package httpapi_test

func smallWindow(uintptr) {}
