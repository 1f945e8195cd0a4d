package journal

import (
	"fmt"
	"slices"
	"time"
)

// Retention of old generations. A copy of a running store's folder that takes
// no longer than Keep never misses a file that it needs of those it has listed,
// unless more than keepMost was written meanwhile. The oldest, which it does
// not need, may go before it comes to them.
const (
	Keep = 72 * time.Hour
	// keepMost is how many bytes the generations may have that are kept for
	// their age alone, besides four times the newest one's.
	keepMost = 1 << 30
	// keepLeast is how many stay whatever their age and size.
	keepLeast = 3
)

// A generation is a snapshot, or the empty store, and the logs from there to
// the next one.
type generation struct {
	seq  uint64
	made time.Time
	size int64 // in bytes
}

// Hold keeps all files in place until release is called.
func (j *Journal) Hold() (release func()) {
	j.held.RLock()
	return j.held.RUnlock
}

// Prune removes generations that are not needed any more, unless somebody
// holds the files; it is due when a snapshot was written.
func (j *Journal) Prune() error {
	if !j.held.TryLock() {
		return nil
	}
	defer j.held.Unlock()
	g, err := j.list()
	if err != nil || len(g.snaps) == 0 {
		return err
	}
	// What cannot be read must not count as one of the last, nor keep the others
	// for good.
	var all []generation
	if slices.Contains(g.logs, 0) && g.snaps[0] != 0 {
		if h, _, err := j.measure(fileName(logName, 0)); err == nil {
			all = append(all, generation{0, time.UnixMilli(h.made), 0})
		}
	}
	for _, seq := range g.snaps {
		if h, size, err := j.measure(fileName(snapName, seq)); err == nil {
			all = append(all, generation{seq, time.UnixMilli(h.made), size})
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, seq := range g.logs {
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].seq > seq {
				continue
			}
			if _, size, err := j.measure(fileName(logName, seq)); err == nil {
				all[i].size += size
			}
			break
		}
	}
	floor := all[outdated(all, j.now())].seq
	// Oldest first and one by one, so that what a crash leaves has no gap.
	snaps, _ := slices.BinarySearch(g.snaps, floor)
	logs, _ := slices.BinarySearch(g.logs, floor)
	for _, name := range slices.Concat(g.names(snapName, g.snaps[:snaps]), g.names(logName, g.logs[:logs])) {
		if err := j.folder.Remove(name); err != nil {
			return fmt.Errorf("cannot remove old parts of the journal: %w", err)
		}
		if err := j.folder.Sync(); err != nil {
			return fmt.Errorf("cannot remove old parts of the journal: %w", err)
		}
	}
	return nil
}

// measure is the head of a file and its size in bytes.
func (j *Journal) measure(name string) (header, int64, error) {
	f, r, h, err := j.open(name)
	if err != nil {
		return h, 0, err
	}
	return h, r.size, f.Close()
}

// outdated is how many of the generations, oldest first, are not needed any
// more at the instant now.
func outdated(all []generation, now time.Time) int {
	most := keepMost + 4*all[len(all)-1].size
	for _, g := range all {
		most -= g.size
	}
	n := 0
	for ; n < len(all)-keepLeast; n++ {
		// It is needed by copies that began before the one after it was made.
		if now.Sub(all[n+1].made) < Keep && most >= 0 {
			break
		}
		most += all[n].size
	}
	return n
}
