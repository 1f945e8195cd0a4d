package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// A small disk of its own.
func mountSmall(t *testing.T, dir, size string) {
	t.Helper()
	if err := syscall.Mount(
		"kist-test", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0700,size="+size,
	); err != nil {
		t.Log(err)
		needs.LeaveOut(t, "small and read-only disks", "this user may not mount one")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
			t.Errorf("the small disk is in use: %v", err)
		}
	})
}

// fill takes all the space of the folder's disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		for b := make([]byte, size); ; {
			if _, err := f.Write(b); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A full disk refuses what is new, with 507. All else goes on, and when there
// is room again, so does that, on its own. Nothing acknowledged is lost, be the
// server killed on the full disk or started on it.
func TestFullDisk(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	disk := t.TempDir()
	mountSmall(t, disk, "64m")
	p := &place{t: t, dir: disk, addr: freeAddr(t), env: manyVisitors}
	s := p.serve()
	p.ann()
	l := newLoad(t, p, p.must("key", "create", "--user", "ann", "--name", "load"), 4)
	stop := l.run()
	l.untilDone(400)
	stop()
	check := func() {
		t.Helper()
		all := l.mark()
		o := l.observe(s.addr)
		l.check(o, all, all)
		l.content(s.addr, o, mark{}, false)
		if t.Failed() {
			t.FailNow()
		}
	}
	status := func(method, path string, body string) (int, string) {
		t.Helper()
		code, b, err := l.call(
			http.DefaultClient, method, "/api/v1/"+path,
			map[string]string{"X-Api-Key": l.key, "Content-Type": "application/json"}, []byte(body),
		)
		is.NoErr(err)
		return code, string(b)
	}
	full := func() {
		t.Helper()
		p.until("new records are refused", func() bool {
			code, b := status("POST", "notes", `{"slug":"no-room","title":"one note more","content":"c"}`)
			switch {
			case code == 507 && strings.Contains(b, `"disk_full"`):
				return true
			case code == 201: // the reserve was not touched yet
				code, b = status("DELETE", "notes/no-room?permanent=true", "")
				if code == 200 {
					return false
				}
			}
			t.Fatalf("%d %s", code, b)
			return false
		})
	}
	for round := range times(2, 10) {
		p.until("there is ballast", func() bool { // what is removed takes room at first
			_, err := os.Stat(p.data("cache", "ballast"))
			return err == nil
		})
		fill(t, filepath.Join(disk, "filler"))
		remove := func(n int) {
			t.Helper()
			i := slices.IndexFunc(slices.Concat(l.clients[n%len(l.clients):], l.clients), func(c *client) bool {
				return len(c.live()) > 0
			})
			if i < 0 {
				t.Fatal("nothing is left to remove")
			}
			c := l.clients[(n+i)%len(l.clients)]
			th := c.live()[0]
			if !c.remove(http.DefaultClient, th) {
				t.FailNow()
			}
		}
		for n := range 3 { // the first to find the disk full
			remove(n)
		}
		full()
		upload := "--b\r\nContent-Disposition: form-data; name=\"file\"; " +
			"filename=\"f\"\r\n\r\n" + strings.Repeat("x", 3<<20) + "\r\n--b--\r\n"
		code, b, err := l.call(
			http.DefaultClient, "POST", "/api/v1/upload",
			map[string]string{"X-Api-Key": l.key, "Content-Type": "multipart/form-data; boundary=b"}, []byte(upload),
		)
		is.NoErr(err)
		if code != 507 {
			t.Errorf("upload: %d %s", code, b)
		}
		check() // reads go on
		for n := range 20 {
			remove(n)
		}
		l.drain() // and so do views, which are counted
		fill(t, filepath.Join(disk, "filler"))
		full()
		check()

		if round%2 == 1 { // a start on the full disk works
			s.kill()
			fill(t, filepath.Join(disk, "filler"))
			s = p.serve()
			check()
			s.kill()
		}
		is.NoErr(os.Remove(filepath.Join(disk, "filler")))
		if round%2 == 1 {
			s = p.serve()
		}
		p.until("there is room again", func() bool {
			code, _ := status("POST", "notes", `{"slug":"room","title":"room","content":"c"}`)
			return code == 201
		})
		code, _ = status("DELETE", "notes/room?permanent=true", "")
		is.Equal(code, 200)
		stop := l.run()
		l.untilDone(100)
		stop()
		check()
	}
	s.kill()
	s = p.serve()
	check()
	s.stop()
}

// A server that was killed starts on a disk that can hold no more files.
func TestStartWithoutInodes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	disk := t.TempDir()
	mountSmall(t, disk, "64m,nr_inodes=300")
	p := &place{t: t, dir: disk, addr: freeAddr(t), env: manyVisitors}
	s := p.serve()
	p.ann()
	l := newLoad(t, p, p.must("key", "create", "--user", "ann", "--name", "load"), 1)
	stop := l.run()
	l.untilDone(20)
	stop()
	s.kill()
	for n := 0; ; n++ {
		f, err := os.Create(filepath.Join(disk, fmt.Sprint("filler ", n)))
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		is.NoErr(err)
		is.NoErr(f.Close())
	}
	s = p.serve()
	all := l.mark()
	o := l.observe(s.addr)
	l.check(o, all, all)
	s.stop()
}

// Doctor tells of a disk that has no room, and of one that can hold no more
// files.
func TestDoctorOnAFullDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	disk := t.TempDir()
	mountSmall(t, disk, "64m,nr_inodes=400")
	p := &place{t: t, dir: disk, addr: freeAddr(t)}
	p.ann()
	is.Equal(p.run("", "doctor").code, 0)
	for n := 0; ; n++ {
		f, err := os.Create(filepath.Join(disk, fmt.Sprint("filler ", n)))
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		is.NoErr(err)
		is.NoErr(f.Close())
	}
	r := p.run("", "doctor")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "problem  disk: only 0 more files can be made (inodes)\n         → "))
	is.True(strings.Contains(r.out, "ok       disk: "))
	fill(t, filepath.Join(disk, "filler 0"))
	r = p.run("", "doctor")
	is.Equal(r.code, 4)
	is.True(strings.Contains(
		r.out, "problem  disk: 0 B of 67.1 MB are free; no uploads are taken below 4.2 MB\n         → make room",
	))
}

// A dry run reads a data directory that cannot be written to.
func TestDryRunOnReadOnlyDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	disk := t.TempDir()
	mountSmall(t, disk, "64m")
	p := &place{t: t, dir: disk, addr: freeAddr(t)}
	s := p.serve()
	p.ann()
	s.kill()
	is.NoErr(syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	r := p.run("", "verify", "--repair", "--dry-run")
	is.Equal(r.err, "")
	is.Equal(r.code, 0)
	is.True(strings.Contains(r.out, "no commit is lost"))
	is.NoErr(syscall.Mount("", disk, "", syscall.MS_REMOUNT, ""))
}

// A cache that cannot be written to is not taken for damage: neither a backup
// nor a repair would help.
func TestStartOnReadOnlyCache(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	s.kill()
	cache := p.data("cache")
	is.NoErr(os.RemoveAll(cache))
	is.NoErr(os.Mkdir(cache, 0o700))
	mountSmall(t, cache, "1m")
	is.NoErr(os.WriteFile(filepath.Join(cache, "CACHEDIR.TAG"), nil, 0o600))
	is.NoErr(syscall.Mount("", cache, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	s = p.start()
	is.Equal(s.end(), 1)
	is.True(strings.Contains(s.log.String(), "read-only file system"))
	is.True(!strings.Contains(s.log.String(), "repair"))
}

// A scratch folder without room ends a verification with an error of its own. It
// is not taken for damage of what was read.
func TestVerifyWithFullScratch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	s.stop()
	scratch := t.TempDir()
	mountSmall(t, scratch, "16k")
	r := p.run("", "verify", "--scratch", scratch)
	is.Equal(r.code, 1)
	is.Equal(r.out, "")
	is.True(strings.Contains(r.err, scratch))
	is.True(strings.Contains(r.err, "no space left on device") || strings.Contains(r.err, "make room there"))
	is.True(!strings.Contains(r.err, "repair"))
	left, err := filepath.Glob(filepath.Join(scratch, ".kist-scratch-*"))
	is.NoErr(err)
	is.Equal(len(left), 0)
}
