package backups

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"kist/admin/ops"
	"kist/blobs/disk"
)

// full is how much a disk of a test has free, by the name of the folder that is asked about.
func (p *place) full(free map[string]uint64) func(string) (disk.Room, error) {
	return func(path string) (disk.Room, error) {
		for part, n := range free {
			if strings.HasSuffix(path, part) {
				return disk.Room{Free: n, Total: 1 << 40}, nil
			}
		}
		return disk.Room{Free: 1 << 30, Total: 1 << 40}, nil
	}
}

// A backup that the disk has no room for is refused before anything is copied. What the former backup
// has, and what a stopped run has copied, needs no room again.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	large := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	p.put(large)
	night := func(free uint64) error {
		o := p.options()
		o.Job.Space = p.full(map[string]uint64{makingName: free})
		return New(o).once(t.Context())
	}

	err := night(3 << 20)
	var none *ops.NoRoom
	p.True(errors.As(err, &none))
	p.True(none.Need > 4<<20 && none.Need < 6<<20)
	p.True(strings.Contains(err.Error(), "--backup-keep"))
	p.Equal(p.names(), []string{markName})

	p.NoErr(night(8 << 20))
	p.NoErr(p.night(t.Context(), nil))
	p.put("one more")
	p.now = p.now.Add(24 * time.Hour)
	p.NoErr(night(3 << 20)) // the large one is linked
	p.Equal(len(p.list()), 3)
}

// Where no file can be linked, the room for all of them is needed.
func TestNoRoomForCopies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.NoErr(p.night(t.Context(), nil))
	job := p.options().Job
	asked := false
	job.Space = func(string) (disk.Room, error) {
		asked = true
		return disk.Room{Free: 0, Total: 1 << 40}, nil
	}
	_, err := job.BackupAfter(p.list()[0].Path, p.folder+"/x", false)
	p.True(asked && errors.As(err, new(*ops.NoRoom)))
	_, err = os.Stat(p.folder + "/x")
	p.True(errors.Is(err, os.ErrNotExist))
}
