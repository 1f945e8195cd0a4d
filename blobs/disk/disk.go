// Package disk has the steps that bring files and their names to stable
// storage. Systems differ in these steps.
package disk

// Room is the space of a file system.
type Room struct {
	Free, Total      uint64 // in bytes
	FreeFiles, Files uint64 // number of files; both are 0 if there is no bound
}

// fewFiles is how many files a file system must still be able to hold: a stored file, a log and
// a part of the search index each need a few for a moment.
const fewFiles = 32

// NoFiles reports whether the file system can hold no more files (inodes), or next to none.
func (r Room) NoFiles() bool { return r.Files > 0 && r.FreeFiles < min(fewFiles, r.Files/50) }
