package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/journal"
)

// A snapshot that is damaged where it begins is given up before anything was
// written, and the next one is begun with at once.
func TestBuilderBeginsAnew(t *testing.T) {
	is := is.New(t)
	b := &builder{buckets: layout, path: filepath.Join(t.TempDir(), "kist.db")}
	ended := make(chan error, 1)
	go func() {
		var err error
		for range 10 {
			if err == nil {
				err = b.start()
			}
		}
		if err == nil {
			err = b.finish()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		is.NoErr(err)
		is.NoErr(b.close())
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}

// A repair is advised against damage alone: it mends neither a disk nor a system
// that fails.
func TestRefusal(t *testing.T) {
	t.Parallel()
	damage := &journal.Damaged{Name: "log-0", At: 5, Why: "w"}
	of := func(err error) error { return &fs.PathError{Op: "read", Path: "log-0", Err: err} }
	for _, row := range []struct {
		err    error
		repair bool
		says   string
	}{
		{damage, true, "verify --repair"},
		{&journal.Missing{Name: "log-0", Because: "b"}, true, "verify --repair"},
		{&journal.Irregular{Name: "log-0"}, true, "verify --repair"},
		{fmt.Errorf("no snapshot can be read: %w", errors.Join(of(syscall.EIO), damage)), true, "verify --repair"},
		{inconsistent("the digest differs"), true, "verify --repair"},
		{fmt.Errorf("cannot read: %w: %w", journal.ErrRead, of(syscall.EIO)), false, "The disk or the system has failed"},
		{fmt.Errorf("cannot open: %w", of(syscall.EMFILE)), false, "The disk or the system has failed"},
		{of(syscall.ENOMEM), false, "The disk or the system has failed"},
		{of(syscall.EACCES), false, "Let the user who runs kist"},
		{of(syscall.EROFS), false, "Let the user who runs kist"},
		{of(syscall.ENOSPC), false, "Make room"},
		{of(syscall.EDQUOT), false, "Make room"},
		{&newer{99}, false, "install the version"},
	} {
		t.Run(row.err.Error(), func(t *testing.T) {
			is := is.New(t)
			err := refusal(row.err)
			is.True(errors.Is(err, row.err))
			is.Equal(strings.Contains(err.Error(), "repair"), row.repair)
			is.True(strings.Contains(err.Error(), row.says))
		})
	}
}
