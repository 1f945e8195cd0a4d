package blobs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
)

// Unwritable says that the disk or the system refused to write new content.
type Unwritable struct {
	Folder string // that was to hold it
	Err    error
}

func (e *Unwritable) Error() string { return fmt.Sprintf("cannot write to %s: %v", e.Folder, e.Err) }

func (e *Unwritable) Unwrap() error { return e.Err }

// failing knows the folders to which content could not be written the last time.
type failing struct {
	mu sync.Mutex
	in map[string]bool
	// tell is nil, or is called with the error when writing begins to fail, and
	// with nil when it works again.
	tell func(error)
}

// OnFailure sets a function that is called when content can no longer be
// written, with an Unwritable, and when it can be written again, with nil. It is
// set before the store is used by more than one goroutine.
func (s *Store) OnFailure(tell func(error)) { s.failing.tell = tell }

// wrap wraps the error of a step that writes content, and notes it if it
// is the disk's or the system's. folder is where the step wrote.
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

// note takes up whether content could be written to a folder; err is nil if it
// could.
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
	} else if delete(f.in, folder.Name()); len(f.in) > 0 {
		return // another folder still fails
	}
	if f.tell != nil {
		f.tell(err)
	}
}

// failed reports whether content could not be written to the folder.
func (f *failing) failed(folder *tree) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.in[folder.Name()]
}

// tryBytes is how much Try writes after content could not be written. Less
// might fit into what is left of a quota.
const tryBytes = 64 << 10

// tryPart is the name of a part that is there only while Try writes it.
const tryPart = "00000000-0000-0000-0000-000000000000"

// Try reports why content cannot be written; nil if it can. It writes a byte and
// leaves no trace of it. To a folder that failed it writes more and brings that
// to the disk, so that it does not take the disk for sound too early.
func (s *Store) Try() error {
	inRoot, inUploads := s.failing.failed(s.root), s.failing.failed(s.uploads)
	stage := s.Stage
	if !s.unnamed { // Stage writes elsewhere than to the folder that content ends up in
		stage = s.stageInRoot
	}
	st, err := stage()
	if err == nil {
		err = st.try(inRoot)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EISDIR) { // there may be no files without a name
		return err
	}
	if inUploads || !s.unnamed {
		if st, err = s.Resume(tryPart, 0, nil); err == nil {
			err = errors.Join(st.try(inUploads), s.Parts.Drop(tryPart))
		}
		if err != nil {
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

// try writes some bytes, which need not be kept, and drops the stage.
func (st *Stage) try(thoroughly bool) error {
	n := 1
	if thoroughly {
		n = tryBytes
	}
	_, err := st.Write(make([]byte, n))
	if err == nil && thoroughly {
		if err = st.store.steps.do("sync file", st.file.Sync); err != nil {
			err = st.store.failing.wrap(st.folder(), "trying the disk", err)
		}
	}
	return errors.Join(err, st.Drop())
}

// stageInRoot begins to take in content in a file without a name in the store's
// folder, also where such a file cannot be given one later.
func (s *Store) stageInRoot() (*Stage, error) {
	st := &Stage{store: s, hash: sha256.New()}
	if err := s.steps.do("create", st.openUnnamed); err != nil {
		return nil, s.failing.wrap(s.root, "trying the disk", err)
	}
	return st, nil
}

// folder is the one that the stage's file is in.
func (st *Stage) folder() *tree {
	if st.part != "" || !st.store.unnamed {
		return st.store.uploads
	}
	return st.store.root
}
