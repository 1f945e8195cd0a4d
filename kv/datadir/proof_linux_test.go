package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
)

// The proof of a clean stop is about this working copy and this folder.
func TestProof(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := directory(t)
	path, copied := filepath.Join(dir, CleanName), filepath.Join(dir, "cache", "kist.db")
	_, ok := ReadProof(dir)
	is.True(!ok)
	at := journal.State{Seq: 7, Digest: 8}
	is.NoErr(Certify(dir, at, "log-1", 9))
	p, ok := ReadProof(dir)
	is.True(ok)
	is.Equal(p.State(), at)
	is.Equal(p.Log, "log-1")
	is.Equal(p.LogSize, int64(9))
	is.True(p.Holds(copied))
	is.True(p.Here(dir))

	other := directory(t)
	is.True(!p.Holds(filepath.Join(other, "cache", "kist.db")))
	is.True(!p.Holds(filepath.Join(other, "none")))
	is.True(!p.Here(other))
	is.True(!p.Here(t.TempDir()))
	is.NoErr(os.WriteFile(copied, []byte("longer than it was"), 0o600))
	is.True(!p.Holds(copied))
	is.NoErr(os.WriteFile(filepath.Join(dir, "journal", "log-2"), nil, 0o600))
	is.True(p.Here(dir)) // whatever changes in it

	text, err := os.ReadFile(path)
	is.NoErr(err)
	for _, bad := range []string{"", string(text[1:]), string(text[:len(text)-2]), "[]\n" + LineSum("[]") + "\n"} {
		is.NoErr(os.WriteFile(path, []byte(bad), 0o600))
		_, ok := ReadProof(dir)
		is.True(!ok)
	}
	is.NoErr(DropProof(dir))
	_, err = os.Lstat(path)
	is.True(errors.Is(err, fs.ErrNotExist))
	is.NoErr(DropProof(dir)) // nothing to remove

	is.NoErr(os.Remove(filepath.Join(dir, "journal", "log-2")))
	is.NoErr(os.Remove(filepath.Join(dir, "journal")))
	is.True(Certify(dir, at, "log-1", 9) != nil)
	is.NoErr(os.Remove(copied))
	is.True(Certify(dir, at, "log-1", 9) != nil)
	_, err = os.Lstat(path)
	is.True(errors.Is(err, fs.ErrNotExist))
}
