package ops

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/tables"
)

// The journal of a backup is read back before the backup counts: one that
// cannot be read, or that holds another state than was written, makes none.
func TestBackupIsReadBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	j := Job{Dir: dir, Stderr: io.Discard, Log: slog.New(slog.DiscardHandler)}
	commit := func(name string) {
		s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: j.Log})
		is.NoErr(err)
		is.NoErr(s.Update(func(tx *kv.Tx) error {
			_, err := people.AddUser(tx, people.User{Name: name, Quota: -1})
			return err
		}))
		is.NoErr(s.Close())
	}
	freeze := func() *snapshot {
		b, err := j.freeze(dir, t.TempDir())
		is.NoErr(err)
		t.Cleanup(b.close)
		return b
	}
	commit("ann")
	former := freeze()
	commit("bob")
	for name, harm := range map[string]func(log []byte) []byte{
		"damaged": func(log []byte) []byte { log[len(log)/2] ^= 1; return log },
		"an earlier state": func([]byte) []byte {
			log, err := os.ReadFile(filepath.Join(former.scratch, "journal", former.parts[len(former.parts)-1].Name))
			is.NoErr(err)
			return log
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			to := t.TempDir()
			is.NoErr(freeze().toTar(filepath.Join(to, "copy.tar")))
			before, err := os.ReadFile(filepath.Join(to, "copy.tar"))
			is.NoErr(err)

			b := freeze()
			path := filepath.Join(b.scratch, "journal", b.parts[len(b.parts)-1].Name)
			log, err := os.ReadFile(path)
			is.NoErr(err)
			log = harm(log)
			b.parts[len(b.parts)-1].Size = int64(len(log)) // as the tar says it
			is.NoErr(os.WriteFile(path, log, 0o600))
			is.NoErr(os.Mkdir(filepath.Join(to, "copy"), 0o700))
			for _, err := range []error{b.toFolder(filepath.Join(to, "copy")), b.toTar(filepath.Join(to, "copy.tar"))} {
				if err == nil || !strings.Contains(err.Error(), "journal") {
					t.Errorf("not found: %v", err)
				}
			}
			after, err := os.ReadFile(filepath.Join(to, "copy.tar"))
			is.NoErr(err)
			is.Equal(string(after), string(before)) // the one that was there stays
		})
	}
}
