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

// A Folder is an open folder whose files appear whole. Files have mode 0600
// and new folders 0700, whatever the umask. No symbolic link is followed out
// of the folder.
type Folder struct {
	root  *os.Root
	aside string // see Aside
}

// unfinished begins the names of files that are not whole yet. OpenFolder
// removes those that a crash left behind.
const unfinished = ".new-"

// OpenFolder opens the folder, which is made when it is missing; its parent
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

// ReadFolder opens a folder that is there, for reading: nothing in it is
// changed.
func ReadFolder(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Folder{root: root}, nil
}

// MakeFolder makes the folder if it is missing and its name durable.
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
	return errors.Join(os.Chmod(path, 0o700), SyncFolder(parent)) // #nosec G302 -- a folder, for its owner alone
}

// Aside names another folder in which unfinished files may lie, so that no
// name ever vanishes from this one while it is being copied. It is not used as
// long as it is missing or on another file system. OpenFolder removes what a
// crash leaves in it.
func (f *Folder) Aside(path string) { f.aside = path }

// Close ends the use of the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Names lists what is in the folder, in no order.
func (f *Folder) Names() ([]string, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// Open opens the file for reading and writing; the error is fs.ErrNotExist if
// there is none.
func (f *Folder) Open(name string) (*os.File, error) {
	return f.root.OpenFile(name, os.O_RDWR, 0)
}

// Read opens the file for reading.
func (f *Folder) Read(name string) (*os.File, error) { return f.root.Open(name) }

// Lstat describes the file without following a symbolic link.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) { return f.root.Lstat(name) }

// ReadLinked opens the regular file that a symbolic link in the folder leads to,
// outside the folder too, for reading. The error is fs.ErrInvalid if it leads to
// anything else.
func (f *Folder) ReadLinked(name string) (*os.File, error) {
	path := filepath.Join(f.root.Name(), name)
	// Opening a pipe would wait for its other end.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return os.Open(path)
}

// Remove removes the file. That is not synced: a crash may bring it back.
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

// Publish gives the name to a new file that has what fill writes. When it
// returns, bytes and name are on stable storage; until then nobody sees a part
// of it. A file that had the name is replaced. fill may be called twice. Where
// the system can and the name is free, the file has none before, so that a
// crash leaves nothing behind and no copy of the folder meets a name that
// vanishes. An error may come when the name is given already: what has it then
// is whole, and may or may not be there after a crash.
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

// Create is Publish for what can be read but once.
func (f *Folder) Create(name string, r io.Reader) error {
	here := Folder{root: f.root} // rename may fill a second file after one aside
	if err := here.rename(name, func(w io.Writer) error { _, err := io.Copy(w, r); return err }); err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	return f.Sync()
}

// rename makes the file under a name of its own first.
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
	err = finish(file, fill)
	if err == nil {
		err = f.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, f.root.Remove(temp))
	}
	return nil
}

// renameFrom makes the file in another folder first. It is not done, and
// nothing has happened, if that folder cannot be used.
func (f *Folder) renameFrom(aside, name string, fill func(io.Writer) error) (done bool, err error) {
	temp := filepath.Join(aside, unfinished+rand.Text())
	file, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, nil //nolint:nilerr // the folder itself is used, and says what is wrong
	}
	if err := finish(file, fill); err != nil {
		return false, errors.Join(err, os.Remove(temp))
	}
	if os.Rename(temp, filepath.Join(f.root.Name(), name)) != nil { // another file system
		return false, os.Remove(temp)
	}
	return true, nil
}

// finish fills a new file, brings it to stable storage and closes it.
func finish(file *os.File, fill func(io.Writer) error) error {
	return errors.Join(file.Chmod(0o600), fill(&early{file: file}), file.Sync(), file.Close())
}

// linkNew is publish by way of a file without a name. It is not done, and
// nothing has happened, where the system has no such files.
func (f *Folder) linkNew(name string, fill func(io.Writer) error) (done bool, err error) {
	file, err := CreateUnnamed(f.root)
	if err != nil {
		return false, nil //nolint:nilerr // the other way finds out whether the folder can be written to
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
	if err := errors.Join(file.Chmod(0o600), fill(&early{file: file})); err != nil {
		return false, err
	}
	if err := file.Sync(); err != nil {
		return false, err
	}
	// Some layered file systems make such files and cannot name them.
	return LinkUnnamed(file, dir, name) == nil, nil
}

// early has the system start to write to disk early, so that the sync finds
// little left to do and those of other files do not wait for it.
type early struct {
	file           *os.File
	written, begun int64
}

// WriteBack is the number of bytes after which that is worth a system call.
const WriteBack = 8 << 20

func (e *early) Write(p []byte) (int, error) {
	n, err := e.file.Write(p)
	e.written += int64(n)
	if ready := e.written - e.begun; ready >= WriteBack {
		StartWriteBack(e.file, e.begun, ready)
		e.begun = e.written
	}
	return n, err
}

// linkable reports whether LinkUnnamed has the names of open files that it
// takes.
func linkable() bool {
	_, err := os.Lstat("/proc/self/fd")
	return err == nil
}
