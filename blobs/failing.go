package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
)

// Unwritable says that the disk or the system refused to write new content.
type Unwritable struct {
	Folder string // where it should have been written
	Err    error
}

func (e *Unwritable) Error() string { return fmt.Sprintf("cannot write to %s: %v", e.Folder, e.Err) }

func (e *Unwritable) Unwrap() error { return e.Err }

// failing knows the folders whose latest write failed.
type failing struct {
	mu sync.Mutex
	in map[string]bool
	// notify is nil, or called with the error when writing begins to fail, and
	// with nil when it works again.
	notify func(error)
}

// OnFailure sets a function that is called with an Unwritable when content can
// no longer be written, and with nil when it can be written again. Call
// OnFailure before more than one goroutine uses the store.
func (s *Store) OnFailure(tell func(error)) { s.failing.notify = tell }

// wrap wraps the error of a step that writes content to folder. It records the
// failure if the disk or the system caused it.
func (f *failing) wrap(folder *tree, doing string, err error) error {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, fs.ErrPermission} {
		if errors.Is(err, cause) {
			err = &Unwritable{folder.Name(), err}
			f.note(folder, err)
			break
		}
	}
	return fmt.Errorf("blobs: %s: %w", doing, err)
}

// note records the outcome of writing to a folder; err is nil on success.
func (f *failing) note(folder *tree, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.in[folder.Name()] == (err != nil) {
		return
	}
	if err != nil {
		if f.in == nil {
			f.in = map[string]bool{}
		}
		f.in[folder.Name()] = true
	} else {
		delete(f.in, folder.Name())
		if len(f.in) > 0 {
			return // another folder still fails
		}
	}
	if f.notify != nil {
		f.notify(err)
	}
}

func (f *failing) failed(folder *tree) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.in[folder.Name()]
}

// tryBytes is how much Try writes to a folder after a failure. A smaller write
// might fit into the rest of a quota.
const tryBytes = 64 << 10

// tryPart is the name of a part that exists only while Try writes it.
const tryPart = "00000000-0000-0000-0000-000000000000"

// Try reports why content cannot be written; nil if it can. It writes a byte
// and leaves no trace of it. To a folder that failed it writes more and syncs
// that, so that it does not report success too early.
func (s *Store) Try() error {
	inRoot, inUploads := s.failing.failed(s.root), s.failing.failed(s.uploads)
	err := s.tryRoot(inRoot)
	// The file system may not support files without a name.
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EISDIR) {
		return err
	}
	if inUploads || !s.unnamed {
		if err := s.tryUploads(inUploads); err != nil {
			return err
		}
	}

	if inRoot {
		s.failing.note(s.root, nil)
	}
	if inUploads {
		s.failing.note(s.uploads, nil)
	}
	return nil
}

// tryRoot writes to the folder of finished content.
func (s *Store) tryRoot(thoroughly bool) error {
	stage := s.Stage
	if !s.unnamed { // Stage does not write to this folder
		stage = s.stageInRoot
	}
	st, err := stage()
	if err != nil {
		return err
	}
	return st.try(thoroughly)
}

// tryUploads writes to the folder for uploads.
func (s *Store) tryUploads(thoroughly bool) error {
	st, err := s.Resume(tryPart, 0, nil)
	if err != nil {
		return err
	}
	return errors.Join(st.try(thoroughly), s.Parts.Drop(tryPart))
}

// try writes a byte and drops the stage. Thoroughly means more bytes, and a sync.
func (st *Stage) try(thoroughly bool) (err error) {
	defer func() { err = errors.Join(err, st.Drop()) }()
	n := 1
	if thoroughly {
		n = tryBytes
	}
	_, err = st.Write(make([]byte, n))
	if err != nil || !thoroughly {
		return err
	}
	if err := st.store.steps.do("sync file", st.file.Sync); err != nil {
		return st.store.failing.wrap(st.folder(), "trying the disk", err)
	}
	return nil
}

// stageInRoot stages content in a file without a name in the store's folder. It
// does so even where such a file cannot be given a name later.
func (s *Store) stageInRoot() (*Stage, error) {
	st := &Stage{store: s, hash: newSums()}
	if err := s.steps.do("create", st.openUnnamed); err != nil {
		return nil, s.failing.wrap(s.root, "trying the disk", err)
	}
	return st, nil
}

// folder is the folder that has the stage's file.
func (st *Stage) folder() *tree {
	if st.part != "" || !st.store.unnamed {
		return st.store.uploads
	}
	return st.store.root
}
