// Package disk holds the steps by which files and their names reach stable
// storage, where systems differ in them.
package disk

// Room is the space of a file system.
type Room struct {
	Free, Total      uint64 // in bytes
	FreeFiles, Files uint64 // how many files; both 0 where there is no bound
}
