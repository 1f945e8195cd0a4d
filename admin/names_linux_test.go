package admin_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"kist/kv/kvtest/needs"
)

// While a server runs, names come and go in cache/ alone: copying tools
// complain of each one that vanishes. What comes and goes is looked at as the
// system tells it.
func TestNamesStay(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s, l := crowded(t, 4)
	stop := l.run()
	l.untilDone(200)
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	is.NoErr(err)
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	watched := map[int32]string{}
	is.NoErr(filepath.WalkDir(s.data(), func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.data(), path)
		if err != nil || !d.IsDir() {
			return err
		}
		if rel == "cache" {
			return fs.SkipDir
		}
		id, err := unix.InotifyAddWatch(fd, path, unix.IN_DELETE|unix.IN_MOVED_FROM)
		watched[int32(id)] = rel
		return err
	}))
	l.untilDone(400)
	s.must("verify")
	s.must("backup", "copy")
	s.must("key", "list")
	s.must("gc")
	is.True(s.run("", "doctor").code != 1)
	l.untilDone(100)
	stop()
	b := make([]byte, 64<<10)
	n, err := unix.Read(fd, b)
	if !errors.Is(err, unix.EAGAIN) {
		is.NoErr(err)
		for b = b[:n]; len(b) >= unix.SizeofInotifyEvent; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&b[0])) // as inotify(7) has it
			end := unix.SizeofInotifyEvent + int(e.Len)
			t.Errorf(
				"%s has vanished", filepath.Join(watched[e.Wd], string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00"))),
			)
			b = b[end:]
		}
	}
	is.True(len(watched) > 3)

	// The watch sees what it is to see.
	is.NoErr(os.WriteFile(s.data("x"), nil, 0o600))
	is.NoErr(os.Remove(s.data("x")))
	n, err = unix.Read(fd, make([]byte, 1<<10))
	is.NoErr(err)
	is.True(n > 0)
	s.stop()
}
