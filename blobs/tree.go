package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"

	"kist/blobs/disk"
)

// steps takes the steps that change the disk.
type steps struct {
	// hook, when a test sets it, runs before each step. An error it returns is
	// the outcome of the step.
	hook func(step string) error
	// about, when a test sets it, is told the path before some steps.
	about func(path string)
}

// on is do for a step whose path the callers do not show.
func (s *steps) on(path, step string, act func() error) error {
	if s.about != nil {
		s.about(path)
	}
	return s.do(step, act)
}

func (s *steps) do(step string, act func() error) error {
	if s.hook != nil {
		if err := s.hook(step); err != nil {
			return err
		}
	}
	return act()
}

// A tree is one of the two folders of a store. It remembers which folders in it
// are durable.
type tree struct {
	*os.Root
	steps    *steps
	syncStep string // the name of the step that syncs the folder itself

	making  sync.Mutex // held to make a folder
	durable sync.Map   // the names of folders in it that are on stable storage
}

func (t *tree) makeFolder(name string) error {
	t.making.Lock()
	defer t.making.Unlock()
	_, err := t.mkdir(name)
	return err
}

// makeDurable makes a folder in the tree unless it exists. It returns only when
// the folder's name is durable, whichever upload made the folder.
func (t *tree) makeDurable(name string) error {
	t.making.Lock()
	defer t.making.Unlock()
	made, err := t.mkdir(name)
	if made {
		t.durable.Delete(name) // somebody removed the previous one
	}
	if err != nil || t.isDurable(name) {
		return err
	}
	if err := t.syncFolder(".", t.syncStep); err != nil {
		return err
	}
	t.setDurable(name)
	return nil
}

// mkdir makes a folder and reports whether it was missing.
func (t *tree) mkdir(name string) (made bool, err error) {
	err = t.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (t *tree) isDurable(name string) bool {
	_, durable := t.durable.Load(name)
	return durable
}

func (t *tree) setDurable(name string) { t.durable.Store(name, true) }

// openFolder opens a folder in the tree. It refuses a symbolic link in its place.
func (t *tree) openFolder(name string) (*os.File, error) {
	info, err := t.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errForeign(name)
	}
	return t.Open(name)
}

// folderFor opens the folder that holds ref. It makes the folder when it is
// missing, and returns only when the folder's name is durable.
func (t *tree) folderFor(ref Ref) (*os.File, error) {
	name := ref.folder()
	if t.isDurable(name) {
		folder, err := t.openFolder(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return folder, err
		}
	}
	if err := t.makeDurable(name); err != nil {
		return nil, err
	}
	return t.openFolder(name)
}

// syncFolder makes the names in a folder durable, as the given step.
func (t *tree) syncFolder(name, step string) error {
	folder, err := t.openFolder(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	return t.steps.on(name, step, func() error { return disk.SyncFolder(folder) })
}

// list returns the entries of a folder in the order of their names.
func (t *tree) list(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.FS(), name)
	if err != nil {
		return nil, fmt.Errorf("blobs: listing a folder: %w", err)
	}
	return entries, nil
}

// describe returns the Info of the file with the given path, in the folder of
// the refs that begin with b.
func (t *tree) describe(b byte, name string) (Info, error) {
	ref, err := ParseRef(path.Base(name))
	if err != nil || ref[0] != b {
		return Info{}, errForeign(name)
	}
	file, err := t.Lstat(name)
	if err != nil {
		return Info{}, fmt.Errorf("blobs: examining a blob: %w", err)
	}
	if !file.Mode().IsRegular() {
		return Info{}, errForeign(name)
	}
	return Info{Ref: ref, Size: file.Size(), ModTime: file.ModTime()}, nil
}

func errForeign(name string) error { return fmt.Errorf("blobs: %q: %w", name, ErrForeign) }
