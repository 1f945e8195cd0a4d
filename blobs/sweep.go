package blobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// Swept says what a sweep did.
type Swept struct {
	Seen    int   // the blobs that are in the store
	Removed int   // those of them that were unlinked
	Bytes   int64 // the bytes of the content that was unlinked
	Temps   int   // the stale temporary files that were removed
	Foreign int   // the names that are not the store's, which stay
}

// Sweep walks all blobs and removes those that nothing refers to. A blob whose
// file was modified before olderThan is offered to Unlink, with unreferenced
// as the callback; a younger one stays. It also removes temporary files older
// than that which no Stage of this store is using.
//
// The file of a blob is modified when its content is staged and never after,
// also not when equal content is uploaded again or a record goes away. So
// olderThan spares recent uploads; a delay that counts from the removal of the
// last record is for unreferenced to keep.
//
// Sweep holds one ref at a time and waits for nobody, so uploads go on while
// it runs. It ends with the first error, other than a foreign name, and when
// ctx is done; Swept then holds what was done until then.
func (s *Store) Sweep(ctx context.Context, olderThan time.Time, unreferenced func(Ref) (bool, error)) (Swept, error) {
	var swept Swept
	var err error
	swept.Temps, err = s.temps.sweep(s.uploads, func(file fs.FileInfo) bool { return file.ModTime().Before(olderThan) })
	if err != nil {
		return swept, err
	}
	for info, err := range s.All() {
		if cause := context.Cause(ctx); cause != nil {
			return swept, fmt.Errorf("blobs: the sweep was stopped: %w", cause)
		}
		if errors.Is(err, ErrForeign) {
			swept.Foreign++
			continue
		}
		if err != nil {
			return swept, err
		}
		swept.Seen++
		if !info.ModTime.Before(olderThan) {
			continue
		}
		removed, err := s.Unlink(info.Ref, func() (bool, error) { return unreferenced(info.Ref) })
		if err != nil {
			return swept, err
		}
		if removed {
			swept.Removed++
			swept.Bytes += info.Size
		}
	}
	return swept, nil
}

// temps are the files in tempFolder, which have no final name yet.
type temps struct {
	mu   sync.Mutex
	used map[string]struct{} // the names that a Stage is using
}

// claim returns a new name.
func (t *temps) claim() string {
	name := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[name] = struct{}{}
	return name
}

// release ends the use of a name whose file is gone.
func (t *temps) release(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.used, name)
}

func (t *temps) isUsed(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, used := t.used[name]
	return used
}

// sweep removes the files in the temporary folder of a tree that are stale and
// that no Stage is using.
func (t *temps) sweep(in *tree, stale func(fs.FileInfo) bool) (removed int, err error) {
	folder, err := in.openFolder(tempFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("blobs: opening the temporary folder: %w", err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return 0, fmt.Errorf("blobs: listing the temporary folder: %w", err)
	}
	for _, name := range names {
		// A name is claimed before its file exists and is used once, so a
		// file whose name nobody claims now is nobody's for good.
		if t.isUsed(name) {
			continue
		}
		file, err := in.Lstat(tempFolder + "/" + name)
		if err == nil && (file.IsDir() || !stale(file)) {
			continue
		}
		if err == nil {
			err = in.Remove(tempFolder + "/" + name)
		}
		switch {
		case err == nil:
			removed++
		case !errors.Is(err, fs.ErrNotExist):
			return removed, fmt.Errorf("blobs: removing a temporary file: %w", err)
		}
	}
	return removed, nil
}
