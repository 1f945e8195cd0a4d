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

// Swept is the result of a sweep.
type Swept struct {
	Seen    int   // blobs in the store
	Removed int   // blobs that were unlinked
	Bytes   int64 // size of the blobs that were unlinked
	Temps   int   // stale temporary files that were removed
	Foreign int   // foreign names, which stay
}

// Sweep walks all blobs and removes those that nothing refers to; which those are, and
// when the server sweeps, is decided by Sweeper in admin/ops/sweep.go. It offers a
// blob whose file was modified before olderThan to Unlink, with unreferenced as
// the callback; a younger one stays. It also removes temporary files older than
// olderThan that no Stage of this store is using.
//
// The file of a blob is modified when its content is staged and never after
// that. Uploading equal content again does not modify it, nor does deleting a
// record. So olderThan protects recent uploads. If there is a delay after the
// removal of the last record, unreferenced must enforce it.
//
// Sweep holds one ref at a time and waits for nobody, so uploads continue while
// it runs. It ends with the first error, except for a foreign name, and when
// ctx is done. Swept then holds what was done until then.
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
	used map[string]struct{} // names that a Stage is using
}

func (t *temps) claim() string {
	name := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[name] = struct{}{}
	return name
}

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

// sweep removes the stale files in a tree's temporary folder that no Stage is
// using.
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
		// A name is claimed before its file exists and is used once. So nobody
		// will ever use a file whose name is not claimed now.
		if t.isUsed(name) {
			continue
		}
		done, err := removeStale(in, tempFolder+"/"+name, stale)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("blobs: removing a temporary file: %w", err)
		}
		if done {
			removed++
		}
	}
	return removed, nil
}

// removeStale removes a file if it is stale.
func removeStale(in *tree, name string, stale func(fs.FileInfo) bool) (removed bool, err error) {
	file, err := in.Lstat(name)
	if err != nil || file.IsDir() || !stale(file) {
		return false, err
	}
	err = in.Remove(name)
	return err == nil, err
}
