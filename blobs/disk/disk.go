// Package disk has the steps that bring files and their names to stable
// storage. Systems differ in these steps.
package disk

// Room is the space of a file system.
type Room struct {
	Free, Total      uint64 // in bytes
	FreeFiles, Files uint64 // number of files; both are 0 if there is no bound
}
