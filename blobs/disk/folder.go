package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Folder is an open folder whose files appear only when complete. Files have
// mode 0600 and new folders 0700, whatever the umask. No symbolic link is
// followed out of the folder.
type Folder struct {
	root  *os.Root
	aside string // see Aside
}

// unfinished begins the names of incomplete files. OpenFolder removes those
// that a crash left behind.
const unfinished = ".new-"

// OpenFolder opens the folder, which it makes when it is missing; its parent
// must exist. One process at a time may have it open.
func OpenFolder(path string) (*Folder, error) {
	if err := MakeFolder(path); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	f := &Folder{root: root}
	names, err := f.Names()
	for _, name := range names {
		if strings.HasPrefix(name, unfinished) {
			err = errors.Join(err, root.Remove(name))
		}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

// ReadFolder opens an existing folder for reading and changes nothing in it.
func ReadFolder(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Folder{root: root}, nil
}

// MakeFolder makes the folder if it is missing, and makes its name durable.
func MakeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(filepath.Clean(path)))
	if err != nil {
		return err
	}
	defer parent.Close()
	return SyncFolder(parent)
}

// Aside sets another folder for unfinished files, so that no name vanishes from
// this folder while it is being copied. The other folder is not used while it
// is missing or on another file system. OpenFolder removes what a crash leaves
// in it.
func (f *Folder) Aside(path string) { f.aside = path }

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Names lists the names in the folder, in no order.
func (f *Folder) Names() ([]string, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// Open opens the file for reading and writing. The error is fs.ErrNotExist if
// the file does not exist.
func (f *Folder) Open(name string) (*os.File, error) {
	return f.root.OpenFile(name, os.O_RDWR, 0)
}

// Read opens the file for reading.
func (f *Folder) Read(name string) (*os.File, error) { return f.root.Open(name) }

// Lstat describes the file without following a symbolic link.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) { return f.root.Lstat(name) }

// ReadLinked opens the target of a symbolic link in the folder for reading. The
// target may be outside the folder. The error is fs.ErrInvalid if it is not a
// regular file.
func (f *Folder) ReadLinked(name string) (*os.File, error) {
	path := filepath.Join(f.root.Name(), name)
	// Opening a pipe would wait for its other end.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return os.Open(path)
}

// Remove removes the file. The removal is not synced: a crash may bring the
// file back.
func (f *Folder) Remove(name string) error { return f.root.Remove(name) }

// Sync makes the names in the folder durable.
func (f *Folder) Sync() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return SyncFolder(dir)
}

// Publish creates or replaces the named file with the bytes that fill writes.
// When it returns, the bytes and the name are on stable storage; until then
// nobody sees a part of the file. fill may be called twice. If the system can
// do so and the name is free, the file has no name while it is written. So a
// crash leaves nothing behind, and no copy of the folder sees a name that
// vanishes. After an error the name may already exist. Its file is then
// complete, and may or may not survive a crash.
func (f *Folder) Publish(name string, fill func(io.Writer) error) error {
	err := f.publish(name, fill)
	if err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	return f.Sync()
}

func (f *Folder) publish(name string, fill func(io.Writer) error) error {
	if _, err := f.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		done, err := f.linkNew(name, fill)
		if done || err != nil {
			return err
		}
	}
	return f.rename(name, fill)
}

// Create is Publish for a source that can be read only once.
func (f *Folder) Create(name string, r io.Reader) error {
	here := Folder{root: f.root} // rename may fill a second file after one aside
	if err := here.rename(name, func(w io.Writer) error { _, err := io.Copy(w, r); return err }); err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	return f.Sync()
}

// rename writes the file under a temporary name first.
func (f *Folder) rename(name string, fill func(io.Writer) error) error {
	if f.aside != "" {
		done, err := f.renameFrom(f.aside, name, fill)
		if done || err != nil {
			return err
		}
	}
	temp := unfinished + rand.Text()
	file, err := f.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := finish(file, fill); err != nil {
		return errors.Join(err, f.root.Remove(temp))
	}
	if err := f.root.Rename(temp, name); err != nil {
		return errors.Join(err, f.root.Remove(temp))
	}
	return nil
}

// renameFrom writes the file in another folder first. done is false, and
// nothing has happened, if that folder cannot be used.
func (f *Folder) renameFrom(aside, name string, fill func(io.Writer) error) (done bool, err error) {
	temp := filepath.Join(aside, unfinished+rand.Text())
	file, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, nil //nolint:nilerr // the folder itself is used, and reports the error
	}
	if err := finish(file, fill); err != nil {
		return false, errors.Join(err, os.Remove(temp))
	}
	if os.Rename(temp, filepath.Join(f.root.Name(), name)) != nil { // aside is on another file system
		return false, os.Remove(temp)
	}
	return true, nil
}

// finish fills a new file, syncs it and closes it.
func finish(file *os.File, fill func(io.Writer) error) error {
	if err := fill(&early{file: file}); err != nil {
		return errors.Join(err, file.Close())
	}
	return errors.Join(file.Sync(), file.Close())
}

// linkNew is publish with a file that has no name at first. done is false, and
// nothing has happened, if the system does not support such files.
func (f *Folder) linkNew(name string, fill func(io.Writer) error) (done bool, err error) {
	file, err := CreateUnnamed(f.root)
	if err != nil {
		return false, nil //nolint:nilerr // rename finds out whether the folder can be written to
	}
	defer file.Close()
	dir, err := f.root.Open(".")
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if !linkable() {
		return false, nil
	}

	if err := fill(&early{file: file}); err != nil {
		return false, err
	}
	if err := file.Sync(); err != nil {
		return false, err
	}
	// Some layered file systems create such files and cannot name them.
	return LinkUnnamed(file, dir, name) == nil, nil
}

// early makes the system start writing to disk early. The final sync then has
// little left to do, and syncs of other files do not wait for it.
type early struct {
	file             *os.File
	written, started int64
}

// WriteBack is the number of bytes that justify a system call.
const WriteBack = 8 << 20

func (e *early) Write(p []byte) (int, error) {
	n, err := e.file.Write(p)
	e.written += int64(n)
	if ready := e.written - e.started; ready >= WriteBack {
		StartWriteBack(e.file, e.started, ready)
		e.started = e.written
	}
	return n, err
}

// linkable reports whether /proc has the names that LinkUnnamed needs.
func linkable() bool {
	_, err := os.Lstat("/proc/self/fd")
	return err == nil
}
