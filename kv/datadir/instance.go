// Package datadir reads and writes the small files of a data directory: the lock, the
// instance, the proof of a clean stop and the folders of repairs.
package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"kist/blobs/disk"
)

// InstanceName is the file that names the instance of the data directory. It is
// outside journal/, so that a copy without its journal is never taken for a new data
// directory.
const InstanceName = "INSTANCE"

// StandbyName is a file that versions before this one wrote to the data directory of a standby,
// which only followed another server's data. Such a directory may lack changes and files.
const StandbyName = "STANDBY"

// instanceFormat is the version of the file INSTANCE.
const instanceFormat = 1

// InstanceFile is the content of the file, one line of JSON.
type InstanceFile struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"` // as kv.Origin returns it
}

// InstanceOf returns the public name of the instance with the secret.
func InstanceOf(secret []byte) string {
	digest := sha256.Sum256(append([]byte("kist instance "), secret...))
	return hex.EncodeToString(digest[:8])
}

// InstanceText returns the text of the file INSTANCE.
func InstanceText(instance string) ([]byte, error) {
	text, err := json.Marshal(InstanceFile{instanceFormat, instance})
	return append(text, '\n'), err
}

// WriteInstance writes the instance, as kv.Origin returns it, to the file INSTANCE of
// the data directory. The file is on stable storage when it returns.
func WriteInstance(dir, instance string) error {
	if named, err := ReadInstance(dir); err == nil && named == instance {
		return nil
	}
	text, err := InstanceText(instance)
	if err != nil {
		return err
	}
	return WriteFile(dir, InstanceName, text)
}

// WriteFile writes a file of the data directory. It replaces a former one at once, and is
// on stable storage when it returns.
func WriteFile(dir, name string, b []byte) error {
	f, err := disk.ReadFolder(dir)
	if err != nil {
		return err
	}
	f.Aside(filepath.Join(dir, "cache"))
	err = f.Publish(name, func(w io.Writer) error { _, err := w.Write(b); return err })
	return errors.Join(err, f.Close())
}

// ReadInstance returns the instance that the file INSTANCE names, "" if the file cannot
// be parsed. The error is fs.ErrNotExist if there is no such file.
func ReadInstance(dir string) (string, error) {
	path := filepath.Join(dir, InstanceName)
	text, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		return "", &Irregular{path}
	}
	if err != nil {
		return "", err
	}
	var got InstanceFile
	if json.Unmarshal(text, &got) != nil || got.Format < 1 {
		return "", nil
	}
	if got.Format > instanceFormat {
		return "", fmt.Errorf("the file %s in the data directory has format %d; this version of kist reads formats "+
			"up to %d: install the version that wrote it or a newer one (nothing was changed)",
			InstanceName, got.Format, instanceFormat)
	}
	return got.Instance, nil
}

// Irregular is the error for something that should be a file but is not.
type Irregular struct{ path string }

func (e *Irregular) Error() string { return e.path + " is not a file; remove it and try again" }
