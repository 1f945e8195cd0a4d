package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/workcopy"
)

// Errors advise a repair only for damage: it fixes neither a failing disk nor a
// failing system.
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
		{workcopy.Inconsistent("the digest differs"), true, "verify --repair"},
		{fmt.Errorf("cannot read: %w: %w", journal.ErrRead, of(syscall.EIO)), false, "The disk or the system has failed"},
		{fmt.Errorf("cannot open: %w", of(syscall.EMFILE)), false, "The disk or the system has failed"},
		{of(syscall.ENOMEM), false, "The disk or the system has failed"},
		{of(syscall.EACCES), false, "Let the user who runs kist"},
		{of(syscall.EROFS), false, "Let the user who runs kist"},
		{of(syscall.ENOSPC), false, "Make room"},
		{of(syscall.EDQUOT), false, "Make room"},
		{&workcopy.Newer{Format: 99}, false, "install the version"},
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
