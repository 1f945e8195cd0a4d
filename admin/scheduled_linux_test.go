package admin_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/s3/s3test"
	"kist/kv/kvtest/needs"
)

// nightsAgo gives the newest backup of a folder the name of one that was made some nights ago.
func (p *place) nightsAgo(folder string, n int) {
	p.t.Helper()
	name := time.Now().UTC().AddDate(0, 0, -n).Format("2006-01-02T15-04-05Z")
	if err := os.Rename(p.scheduled(folder)[0].Path, filepath.Join(folder, name)); err != nil {
		p.t.Fatal(err)
	}
}

// traced is a copy of the place whose commands run under strace with these arguments.
func (p *place) traced(args ...string) *place {
	p.t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		p.t.Fatal(err)
	}
	q := *p
	q.within = func(cmd *exec.Cmd) {
		args := append([]string{"strace", "-D", "-f", "-o", "/dev/null"}, args...) // the process is that of the server
		cmd.Args = append(append(args, cmd.Path), cmd.Args[1:]...)
		cmd.Path = strace
	}
	return &q
}

// untilRead waits until the first backup by schedule is made and was read.
func (s *server) untilRead() {
	s.t.Helper()
	s.until("the backup is made", func() bool { return strings.Contains(s.log.String(), "all of a backup was read") })
}

// oneMore makes one more backup, as soon as none is being made.
func (p *place) oneMore(folder string) {
	p.t.Helper()
	p.until("one more backup is made", func() bool { return p.run("", "backup", folder).code == 0 })
}

// names are the names in a folder.
func names(t *testing.T, folder string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// A server is killed at each kind of change that a backup by schedule makes to the disk, the first one and a later one,
// which removes the oldest. The backups of before are as they were, all that are listed are whole, and the next run
// makes a good one and clears up.
func TestKillDuringScheduledBackup(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "kills during a backup", "strace")
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := s.inhabit()
	s.stop()
	folder, before := p.path("backup"), p.path("before")
	p.must("backup", "init", before)
	for _, ago := range []int{3, 2} {
		p.must("backup", before)
		p.nightsAgo(before, ago)
	}
	old := names(t, before) // the mark, and the two
	is.Equal(len(old), 3)
	s = p.serve()
	s.upload(key, "later.txt", strings.Repeat("later", 100_000))
	want := s.everything(key)
	s.stop()

	flags := []string{"--backup-to", folder, "--backup-keep", "2d"}
	killed := 0
	for _, call := range []string{"mkdirat", "linkat", "renameat", "unlinkat", "fsync", "fdatasync", "fchmod"} {
		for _, first := range []bool{true, false} {
			for n, step := 1, 1; ; n, step = n+step, n {
				is.NoErr(os.RemoveAll(folder))
				is.NoErr(exec.Command("cp", "-a", before, folder).Run())
				kept := old
				if first {
					kept = old[:1]
					for _, name := range old[1:] {
						is.NoErr(os.RemoveAll(filepath.Join(folder, name)))
					}
				}
				is.NoErr(errors.Join(os.RemoveAll(p.data("BACKUP")), os.RemoveAll(p.data("BACKUP-MADE"))))

				cut := fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, n)
				s := p.traced("-e", "trace="+call, "-e", cut).start(flags...)
				hit := false
				p.until("the backup is made, or the server is killed", func() bool {
					select {
					case <-s.done:
						hit = true
					default:
					}
					log := s.log.String()
					return hit || strings.Contains(log, "an old backup was removed") ||
						first && strings.Contains(log, "all of a backup was read")
				})
				if strings.Contains(s.log.String(), "Operation not permitted") {
					needs.Lacks(t, "kills during a backup", "strace may not trace here")
				}
				if !hit {
					s.kill()
				}
				all := p.scheduled(folder)
				for _, b := range all {
					is.True(b.OK)
					p.must("verify", b.Path)
				}
				for i, name := range kept[1:] {
					if i == 0 && !p.exists(filepath.Join(folder, name)) {
						is.Equal(len(all), 2) // the oldest may be gone, since there are two newer ones
						continue
					}
					is.Equal(bare(t, filepath.Join(folder, name)), bare(t, filepath.Join(before, name)))
				}

				s = p.serve(flags...)
				p.oneMore(folder)
				s.stop()
				is.Equal(len(names(t, folder)), min(3, len(kept)+1))
				newest := p.scheduled(folder)[0]
				is.True(newest.OK)
				p.must("verify", newest.Path)
				if !hit {
					break
				}
				killed++
			}
		}
	}
	t.Logf("%d kills", killed)
	is.True(killed > 30)

	q := newPlace(t)
	q.addr = p.addr
	q.must("restore", p.scheduled(folder)[0].Path)
	s = q.serve()
	is.True(maps.Equal(s.everything(key), want))
	s.stop()
}

// bare is what a backup holds, by the names in it.
func bare(t *testing.T, backup string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for path, text := range tree(t, backup) {
		all[strings.TrimPrefix(path, backup)] = text
	}
	return all
}

// On a disk that has neither hard links nor modes, as USB sticks have, each backup is a whole copy, and the log says
// both.
func TestBackupsOnExFAT(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	const what = "disks without links and modes"
	missing := needs.Missing("mkfs.exfat", "mount.exfat-fuse", "losetup")
	if missing != "" {
		needs.LeaveOut(t, what, missing+" is not installed")
	}
	is := is.New(t)
	p := newPlace(t)
	disk, image := p.path("stick"), p.path("image")
	is.NoErr(os.Mkdir(disk, 0o700))
	p.write("image", "")
	is.NoErr(os.Truncate(image, 64<<20))
	is.NoErr(exec.Command("mkfs.exfat", image).Run())
	device, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		needs.LeaveOut(t, what, "this user may not make a disk of a file")
	}
	loop := strings.TrimSpace(string(device))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", loop).Run() })
	said, err := exec.Command("mount.exfat-fuse", loop, disk).CombinedOutput()
	if err != nil {
		needs.LeaveOut(t, what, "this user may not mount one: "+string(said))
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })

	s := p.serve()
	key := s.inhabit()
	want := s.everything(key)
	s.stop()
	folder := filepath.Join(disk, "kist")
	p.must("backup", "init", folder)
	s = p.serve("--backup-to", folder)
	s.untilRead()
	p.nightsAgo(folder, 1)
	p.oneMore(folder)
	s.stop()
	is.True(strings.Contains(s.log.String(), "file modes are not kept in the folder for backups"))
	is.True(strings.Contains(s.log.String(), "has no hard links: each backup takes the space of all files"))

	all := p.scheduled(folder)
	is.Equal(len(all), 2)
	for _, b := range all {
		is.True(b.OK)
		q := newPlace(t)
		q.addr = p.addr
		q.must("restore", b.Path)
		s := q.serve()
		is.True(maps.Equal(s.everything(key), want))
		s.stop()
	}
}

// A disk with the backups that is nearly full: those beyond the kept ones go before the new one, the oldest first. If
// that is not enough, the new one is not begun, the last good one stays, and Admin says how much is missing.
func TestBackupsOnNearlyFullDisk(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	folder := p.path("disk")
	is.NoErr(os.Mkdir(folder, 0o700))
	mountSmall(t, folder, "32m")
	p.must("backup", "init", folder)
	s := p.serve()
	key := s.inhabit()
	for n, ago := range []int{4, 3, 2} {
		id := s.upload(key, "large.bin", strings.Repeat(fmt.Sprint(n), 7<<20))
		p.must("backup", folder)
		p.nightsAgo(folder, ago)
		s.send("DELETE", "/api/v1/files/"+id+"?permanent=true", key, "", nil)
		p.must("gc", "--now")
	}
	s.upload(key, "large.bin", strings.Repeat("9", 20<<20))
	want := s.everything(key)
	s.stop()
	old := names(t, folder)

	// All three are kept, and the new one does not fit.
	s = p.serve("--backup-to", folder)
	p.until("the backup has failed", func() bool { return strings.Contains(s.log.String(), "the backup has failed") })
	is.Equal(names(t, folder), old)
	admin := p.must("key", "create", "--user", "ann", "--name", "admin", "--scope", "admin")
	status, told := p.get("/api/v1/admin/health", admin)
	is.Equal(status, 200)
	is.True(strings.Contains(told, "or keep fewer backups with --backup-keep"))
	status, _ = p.get("/readyz", "")
	is.Equal(status, 200)
	s.stop()

	// One is kept: the two oldest go before the new one, and then the third, which has what the new one lacks.
	s = p.serve("--backup-to", folder, "--backup-keep", "1d")
	p.until("there is one backup, a new one", func() bool {
		all := p.scheduled(folder)
		return len(all) == 1 && filepath.Base(all[0].Path) != old[len(old)-1]
	})
	removed := strings.Index(s.log.String(), "an old backup was removed")
	made := strings.Index(s.log.String(), `msg="backed up"`)
	is.True(removed >= 0 && removed < made)
	s.stop()

	// Nothing fits any more, and only the last good one is there.
	s = p.serve()
	s.upload(key, "larger.bin", strings.Repeat("8", 20<<20))
	s.stop()
	p.nightsAgo(folder, 2)
	old = names(t, folder)
	s = p.serve("--backup-to", folder, "--backup-keep", "1d")
	p.until("the backup has failed", func() bool { return strings.Contains(s.log.String(), "the backup has failed") })
	s.stop()
	is.Equal(names(t, folder), old)
	q := newPlace(t)
	q.addr = p.addr
	q.must("restore", p.scheduled(folder)[0].Path)
	s = q.serve()
	is.True(maps.Equal(s.everything(key), want))
	s.stop()
}

// Files that are only in the object store are in the backups by schedule too. They can be restored where there is no
// object store, also if that is encrypted.
func TestBackupsOfRemoteFiles(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	needs.Programs(t, "object stores", "versitygw")
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprint("encrypted ", sealed), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := storing(t, "", s3test.New(t).Start())
			if sealed {
				p.sheetOf("store.key")
				p.env = append(p.env, "KIST_STORE_KEY_FILE="+p.path("store.key"))
			}
			s := p.serve("--store-mode", "sync")
			key := s.inhabit()
			s.upload(key, "large.bin", strings.Repeat("0123456789abcdef", 1<<20))
			want := s.everything(key)
			s.stop()
			is.NoErr(os.RemoveAll(p.data()))

			p = p.fetched()
			local := len(tree(t, p.data("blobs")))
			folder := p.path("backup")
			p.must("backup", "init", folder)
			s = p.serve("--backup-to", folder)
			s.untilRead()
			p.nightsAgo(folder, 1)
			s.upload(key, "later.txt", "later")
			p.oneMore(folder) // most is linked
			is.True(len(tree(t, p.data("blobs"))) <= local+1)
			later := s.everything(key)
			s.stop()

			all := p.scheduled(folder)
			is.Equal(len(all), 2)
			for i, b := range all {
				is.True(b.OK)
				q := newPlace(t)
				q.addr = p.addr
				q.must("restore", b.Path)
				q.must("verify")
				s := q.serve()
				is.True(maps.Equal(s.everything(key), []map[string]string{later, want}[i]))
				s.stop()
			}
		})
	}
}
