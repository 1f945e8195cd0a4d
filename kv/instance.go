package kv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"kist/blobs/disk"
	"kist/kv/journal"
)

// InstanceName is the file in the data directory that says which instance it
// belongs to. It is outside journal/, so that a copy whose journal is missing
// is never taken for a new data directory.
const InstanceName = "INSTANCE"

// instanceFormat is the version of that file.
const instanceFormat = 1

// instanceFile is what the file holds, as one line of JSON.
type instanceFile struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"` // as Origin returns it
}

// instanceOf is the public name of the instance that has the secret.
func instanceOf(secret []byte) string {
	digest := sha256.Sum256(append([]byte("kist instance "), secret...))
	return hex.EncodeToString(digest[:8])
}

// InstanceText is what the file INSTANCE of the instance holds.
func InstanceText(instance string) ([]byte, error) {
	text, err := json.Marshal(instanceFile{instanceFormat, instance})
	return append(text, '\n'), err
}

// WriteInstance names the instance, as Origin returns it, in the file INSTANCE
// of the data directory. The file is on stable storage when it returns.
func WriteInstance(dir, instance string) error {
	if named, err := readInstance(dir); err == nil && named == instance {
		return nil
	}
	text, err := InstanceText(instance)
	if err != nil {
		return err
	}
	f, err := disk.ReadFolder(dir)
	if err != nil {
		return err
	}
	f.Aside(filepath.Join(dir, "cache"))
	err = f.Publish(InstanceName, func(w io.Writer) error { _, err := w.Write(text); return err })
	return errors.Join(err, f.Close())
}

// readInstance is the instance that the file INSTANCE names, "" if the file
// cannot be understood. The error is fs.ErrNotExist if there is no such file.
func readInstance(dir string) (string, error) {
	path := filepath.Join(dir, InstanceName)
	text, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		return "", &irregular{path}
	}
	if err != nil {
		return "", err
	}
	var got instanceFile
	if json.Unmarshal(text, &got) != nil || got.Format < 1 {
		return "", nil
	}
	if got.Format > instanceFormat {
		return "", fmt.Errorf("the file %s in the data directory has format %d; this version of kist reads formats up to %d: install the version that wrote it or a newer one (nothing was changed)", InstanceName, got.Format, instanceFormat)
	}
	return got.Instance, nil
}

// irregular is the error of something that should be a file and is none.
type irregular struct{ path string }

func (e *irregular) Error() string { return e.path + " is not a file; remove it and try again" }

// belongs refuses a journal of another instance than the file INSTANCE names:
// two data directories were mixed up, and which of them is wanted is for the
// owner to say. db is a working copy of the journal. A store that has no secret
// yet belongs nowhere.
func (s *Store) belongs(db *bolt.DB) error {
	secret, err := secretOf(db)
	if err != nil {
		return err
	}
	named, err := readInstance(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // keepInstance writes it
	case err != nil:
		return err
	case secret == nil:
		return fmt.Errorf("journal/ has no records in %s, but the file %s says that there were some. Nothing was removed. Put journal/ back from a backup or from another copy; to start from scratch, use another data directory", s.dir, InstanceName)
	case named != "" && named != instanceOf(secret):
		return fmt.Errorf("journal/ in %s is of instance %s, but the file %s names instance %s: two data directories were mixed. Nothing was removed. Restore a backup into an empty directory; or, if journal/ and blobs/ are the ones you want, remove %[3]s and start again", s.dir, instanceOf(secret), InstanceName, named)
	}
	return nil
}

// keepInstance writes the file INSTANCE if it is missing or cannot be
// understood. The store has its secret.
func (s *Store) keepInstance() error {
	named, err := readInstance(s.dir)
	if err == nil && named != "" || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		s.log.Warn("the file " + InstanceName + " could not be understood; it is written again")
	}
	secret, err := secretOf(s.bolt)
	if err == nil {
		err = WriteInstance(s.dir, instanceOf(secret))
	}
	if err != nil {
		return fmt.Errorf("cannot write the file %s: %w", InstanceName, err)
	}
	return nil
}

// Instance is the instance that was read, as Origin returns it.
func (i *Inspection) Instance() (string, error) {
	secret, err := secretOf(i.s.bolt)
	return instanceOf(secret), err
}

// secretOf is the secret of the store in a working copy, nil if it has none yet.
func secretOf(db *bolt.DB) (secret []byte, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(metaBucket.Name)); b != nil {
			secret = bytes.Clone(b.Get(metaSecret))
		}
		return nil
	})
	return secret, err
}

// Readable reports whether this version of kist can read the data directory:
// the error is about data of a newer version, and nothing has been changed,
// created or locked. What else may be wrong is for others to find.
func Readable(dir string) error {
	j, err := journal.Read(filepath.Join(dir, "journal"), Format)
	if err == nil {
		err = j.Close()
	}
	if errors.As(err, new(*journal.Newer)) {
		return err
	}
	_, err = readInstance(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*irregular)) {
		return nil
	}
	return err
}
