package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// Retention of old generations. A copy of a running store's folder that takes
// at most Keep never misses a listed file that it needs, unless more than
// keepBudget was written meanwhile. Retention says how long a copy may take.
// The oldest files, which the copy does not need, may vanish before it reads
// them.
const (
	Keep = 72 * time.Hour
	// keepShare is the share of the free space, a tenth, for generations that
	// are kept only for their age. If that is less, minBudget and four times
	// the size of the newest generation is the bound.
	keepShare = 10
	minBudget = 1 << 30
	// minKept is how many generations stay whatever their age and size.
	minKept = 3
)

// Space is the space on the disk of the journal, in bytes.
type Space struct {
	Free    int64
	Reserve int64 // how much of it old generations must leave free
}

// OnDisk sets the function that reports the space on the journal's disk.
func (j *Journal) OnDisk(space func() (Space, error)) { j.space = space }

// disk returns the space on the disk, and whether it is known.
func (j *Journal) disk() (Space, bool) {
	if j.space == nil {
		return Space{}, false
	}
	s, err := j.space()
	return s, err == nil
}

// keepBudget is how many bytes the generations that are kept only for their age
// may have. They have aged bytes now, and the newest generation has newest
// bytes.
func keepBudget(aged, newest int64, s Space, known bool) int64 {
	minimum := minBudget + 4*newest
	if !known {
		return minimum
	}
	free := s.Free + aged // the free space without them
	return max(0, min(max(free/keepShare, minimum), free-s.Reserve))
}

// A generation is a snapshot, or the empty store, and the logs up to the next
// one.
type generation struct {
	seq     uint64
	created time.Time
	size    int64 // in bytes
}

// Hold keeps all files in place until release is called.
func (j *Journal) Hold() (release func()) {
	j.held.RLock()
	return j.held.RUnlock
}

// Prune removes generations that are no longer needed, unless somebody holds
// the files. Call it after writing a snapshot.
func (j *Journal) Prune() error {
	if !j.held.TryLock() {
		return nil
	}
	defer j.held.Unlock()
	g, err := j.files.list()
	if err != nil || len(g.snaps) == 0 {
		return err
	}
	all := j.files.generations(g)
	if len(all) == 0 {
		return nil
	}
	s, known := j.disk()
	floor := all[outdated(all, j.now(), keepBudget(aged(all), all[len(all)-1].size, s, known))].seq
	former, err := j.files.former(g)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Remove the oldest first and one by one, so that a crash leaves no gap.
	snaps, _ := slices.BinarySearch(g.snaps, floor)
	logs, _ := slices.BinarySearch(g.logs, floor)
	logs = j.unwanted(g.logs, logs)
	for _, name := range slices.Concat(g.names(snapName, g.snaps[:snaps]), g.names(logName, g.logs[:logs])) {
		if name == former.Name {
			continue // it is kept for longer
		}
		if _, err := j.files.header(name); errors.As(err, new(*Irregular)) {
			continue // it is foreign, and may not be removable
		}
		if err := j.files.folder.Remove(name); err != nil {
			return fmt.Errorf("cannot remove old parts of the journal: %w", err)
		}
		if err := j.files.folder.Sync(); err != nil {
			return fmt.Errorf("cannot remove old parts of the journal: %w", err)
		}
	}
	if former.Name == "" {
		return nil
	}
	return j.pruneFormer(former, floor)
}

// generations returns the generations, oldest first. A file that cannot be read
// must not count as one of the last, and must not keep the others permanently. The
// former state is none of them once its logs are gone.
func (s *files) generations(g generations) []generation {
	var all []generation
	if slices.Contains(g.logs, 0) && !slices.Contains(g.snaps, 0) {
		if h, _, err := s.measure(fileName(logName, 0)); err == nil {
			all = append(all, generation{0, time.UnixMilli(h.created), 0})
		}
	}
	for _, seq := range g.snaps {
		if g.apart(seq) {
			continue
		}
		if h, size, err := s.measure(fileName(snapName, seq)); err == nil {
			all = append(all, generation{seq, time.UnixMilli(h.created), size})
		}
	}
	for _, seq := range g.logs {
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].seq > seq {
				continue
			}
			if _, size, err := s.measure(fileName(logName, seq)); err == nil {
				all[i].size += size
			}
			break
		}
	}
	return all
}

// measure returns the head of a file and its size in bytes.
func (s *files) measure(name string) (header, int64, error) {
	f, r, h, err := s.open(name)
	if err != nil {
		return h, 0, err
	}
	return h, r.size, f.Close()
}

// aged is the size in bytes of the generations that are kept only for their
// age.
func aged(all []generation) int64 {
	size := int64(0)
	for _, g := range all[:max(0, len(all)-minKept)] {
		size += g.size
	}
	return size
}

// outdated is how many of the generations, oldest first, are no longer needed
// at the instant now. Those that are kept only for their age may have budget
// bytes.
func outdated(all []generation, now time.Time, budget int64) int {
	size := aged(all)
	n := 0
	for ; n < len(all)-minKept; n++ {
		// Copies that began before the next generation was made need it.
		if now.Sub(all[n+1].created) < Keep && size <= budget {
			break
		}
		size -= all[n].size
	}
	return n
}

// A Retention says how long a copy of the running store's folder may take.
type Retention struct {
	PerHour int64         // recent growth of the journal in bytes per hour
	For     time.Duration // how long a copy may take at that rate; at most Keep
}

// Retention computes the retention from the existing generations.
func (j *Journal) Retention() (Retention, error) {
	g, err := j.files.list()
	if err != nil {
		return Retention{}, err
	}
	s, known := j.disk()
	return retention(j.files.generations(g), j.now(), s, known), nil
}

func retention(all []generation, now time.Time, s Space, known bool) Retention {
	if len(all) == 0 {
		return Retention{For: Keep}
	}
	size := int64(0)
	for _, g := range all {
		size += g.size
	}
	since := max(now.Sub(all[0].created), time.Hour)
	r := Retention{PerHour: int64(float64(size) / since.Hours()), For: Keep}
	budget := keepBudget(aged(all), all[len(all)-1].size, s, known)
	if hours := float64(budget) / float64(max(r.PerHour, 1)); hours < Keep.Hours() {
		r.For = time.Duration(hours * float64(time.Hour))
	}
	return r
}
