package admin

import (
	"os"
	"runtime/debug"
)

// limitMemory has the garbage collector work harder before the memory that
// this process may use is gone. The rest is for what the runtime does not
// count and for the system's cache of files, without which every read of the
// store waits for the disk. GOMEMLIMIT, if it is set, stands.
func limitMemory() {
	bytes, limited, ok := memory()
	if !ok || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	share := bytes / 2 // of a machine, which others use too
	if limited {
		share = bytes / 8 * 5
	}
	debug.SetMemoryLimit(share)
}
