package ops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"sync"
	"time"

	"kist/blobs"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/ship"
)

// Times of the sweep.
const (
	sweepEvery = time.Hour
	// missingEvery is the number of sweeps after which missing content is looked for.
	missingEvery = 24
	// orphanAge spares content whose record may still come. Pins do so too; the
	// age is for content without a known pin.
	orphanAge = 24 * time.Hour
	// orphanAgeNow is the same for a sweep that a person asked for.
	orphanAgeNow = time.Hour
	// sweepBatch bounds the contents of one transaction.
	sweepBatch = 200
)

// A Sweeper removes content from the disk that no record has any more.
type Sweeper struct {
	Store *kv.Store
	Blobs *blobs.Store
	// Remote may have contents that are not on the disk. It may be nil.
	Remote blobs.Remote
	Delay  time.Duration // how long content stays after its last record
	Log    *slog.Logger
	// Thumbs removes the thumbnails of contents that are not known and returns
	// how many. It is nil in a process that keeps none.
	Thumbs func(known func(blobs.Ref) (bool, error)) (removed int, err error)
	// Posters removes the posters of files that are not known. It may be nil like
	// Thumbs.
	Posters func(known func(owner, file record.ID) (bool, error)) (removed int, err error)
	// Icons removes the icons of sites that are not among the used ones. It may
	// be nil like Thumbs.
	Icons func(used func() ([]record.ID, error)) (removed int, err error)

	mu     sync.Mutex
	absent []blobs.Ref // the first contents that the latest check did not find
	files  int         // the records that have such contents
	looked time.Time
}

// Absent returns what the latest check for missing content found: the first contents
// that records have and that are not on the disk, how many records have such
// contents, and when the check was.
func (s *Sweeper) Absent() (refs []blobs.Ref, files int, looked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.absent, s.files, s.looked
}

// Swept says what a sweep did.
type Swept struct {
	Blobs  int   `json:"blobs"`          // removed contents
	Bytes  int64 `json:"bytes"`          // of the removed contents
	Temps  int   `json:"temporaryFiles"` // left by uploads, and removed
	Failed int   `json:"failed"`         // contents that could not be removed
	Thumbs int   `json:"thumbnails"`     // of contents or films that no record has
	Icons  int   `json:"icons"`          // of sites that no bookmark leads to
}

// Bounds of what is reported about missing contents.
const (
	maxLogged = 20   // named in the log
	maxAbsent = 1000 // returned by Absent
)

// missing notes and logs records without their bytes. They come from a copy that was
// made during their upload. They answer 404 until the same file is uploaded again.
func (s *Sweeper) missing(ctx context.Context) error {
	var all *listing
	if s.Remote != nil {
		all = list(ctx, s.Remote)
		defer all.close()
	}

	n := 0
	var refs []blobs.Ref
	for ref, err := range contents(s.Store) {
		if err != nil || ctx.Err() != nil {
			return err
		}
		if _, err := s.Blobs.Stat(ref); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if all != nil {
			_, err := all.find(ref)
			if err == nil {
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if len(refs) < maxAbsent {
			refs = append(refs, ref)
		}
		if err := s.Store.View(func(tx *kv.Tx) error {
			for _, r := range tx.Having(ref) {
				n++
				if n <= maxLogged {
					s.Log.Warn("a file is without its bytes and is skipped",
						"id", r.ID.String(), "name", r.Name, "sha256", ref.String())
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if n > maxLogged {
		s.Log.Warn("more files are without their bytes; kist verify lists them", "files", n)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent, s.files, s.looked = refs, n, time.Now()
	return nil
}

// contents yields the contents that records have, in order. It reads some of them in
// each transaction.
func contents(store *kv.Store) iter.Seq2[blobs.Ref, error] {
	return func(yield func(blobs.Ref, error) bool) {
		for last := []byte(nil); ; {
			var page []blobs.Ref
			err := store.View(func(tx *kv.Tx) error {
				for ref := range tx.ContentsAfter(last) {
					page = append(page, ref)
					if len(page) == listedAtOnce {
						break
					}
				}
				return nil
			})
			if err != nil {
				yield(blobs.Ref{}, err)
				return
			}
			for _, ref := range page {
				if !yield(ref, nil) {
					return
				}
				last = ref[:]
			}
			if len(page) < listedAtOnce {
				return
			}
		}
	}
}

// Shipped says which contents a store and its records have.
func Shipped(store *kv.Store, content *blobs.Store) ship.Contents {
	return ship.Contents{
		Store: content, Here: contents(store),
		Unknown: func(ref [32]byte) (bool, error) { return catalog.ContentUnknown(store, ref) },
	}
}

// Hourly sweeps at once and every hour until ctx ends. It looks for missing content
// at once and every day.
func (s *Sweeper) Hourly(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%missingEvery == 0 {
			if err := s.missing(ctx); err != nil {
				s.Log.Error("cannot find out whether content is missing", "error", err)
			}
		}
		swept, err := s.Sweep(ctx, false)
		if err != nil && ctx.Err() == nil {
			s.Log.Error("the sweep has failed; it is tried again in an hour", "error", err)
		}
		if swept != (Swept{}) {
			s.Log.Info("swept", "blobs", swept.Blobs, "bytes", swept.Bytes, "temporary", swept.Temps,
				"failed", swept.Failed, "thumbnails", swept.Thumbs, "icons", swept.Icons)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sweep unlinks contents that no record has had for the delay and contents that a
// crash left without any record. It removes, without a delay, the thumbnails of
// contents that no record has and the icons of sites that no bookmark leads to. It
// ends abandoned uploads and drops expired rows, such as kept answers and sessions.
// With now it waits for no delay. Contents that an upload in progress has pinned
// stay, and so do contents that were staged within the last hour and never had a
// record.
//
// Sweep logs contents that cannot be removed and goes on with the others. The error
// then says so when everything else is done. Swept says what was done in any case.
func (s *Sweeper) Sweep(ctx context.Context, now bool) (Swept, error) {
	delay, age := s.Delay, max(orphanAge, s.Delay)
	if now {
		delay, age = 0, orphanAgeNow
	}
	at := s.Store.Now()
	var failed []error // each step is taken, whatever the others came to
	if now {           // a person decided it
		failed = append(failed, s.Store.Update(catalog.FreeOrphans))
	}

	w := sweep{Sweeper: s, stay: map[blobs.Ref]bool{}}
	failed = append(failed, w.orphans(ctx, at.Add(-age)))
	w.since = s.Store.Now().Add(-delay)
	failed = append(failed, w.loose(ctx), w.thumbs(ctx), w.posters(ctx), w.icons(ctx), w.parts())
	if cause := context.Cause(ctx); cause != nil {
		return w.swept, fmt.Errorf("the sweep was cut short: %w", cause)
	}

	failed = append(failed, jobs.DropIdempotentAnswers(s.Store))
	for _, drop := range []func(*kv.Tx) error{
		people.DropSessions, people.DropInvitations, catalog.DropSpent, inbox.DropSenders,
	} {
		failed = append(failed, s.Store.Update(drop))
	}
	if w.failed != nil {
		failed = append(failed, fmt.Errorf("blobs that cannot be unlinked: %d, the first for this reason: %w",
			w.swept.Failed, w.failed))
	}
	return w.swept, errors.Join(failed...)
}

// Within returns Sweep, but one that also ends when ctx does.
func (s *Sweeper) Within(ctx context.Context) func(ctx context.Context, now bool) (Swept, error) {
	return func(call context.Context, now bool) (Swept, error) {
		call, end := context.WithCancel(call)
		defer end()
		defer context.AfterFunc(ctx, end)()
		return s.Sweep(call, now)
	}
}

type sweep struct {
	*Sweeper
	since  time.Time          // contents without a record since then may go
	stay   map[blobs.Ref]bool // contents that could not be removed
	swept  Swept
	failed error // the first failure to remove a content
}

// free reports whether the content may go.
func (w *sweep) free(ref blobs.Ref) (got bool, err error) {
	err = w.Store.View(func(tx *kv.Tx) error { got = catalog.Unreferenced(tx, ref, w.since); return nil })
	return got, err
}

// loose unlinks contents that records have had, batch by batch.
func (w *sweep) loose(ctx context.Context) error {
	for {
		var refs []blobs.Ref
		if err := w.Store.View(func(tx *kv.Tx) error {
			for _, ref := range catalog.UnreferencedRefs(tx, w.since, len(w.stay)+sweepBatch) {
				if !w.stay[ref] {
					refs = append(refs, ref)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if len(refs) == 0 {
			return nil
		}
		var gone []blobs.Ref
		for _, ref := range refs {
			if err := context.Cause(ctx); err != nil {
				return errors.Join(err, w.note(gone))
			}
			if w.unlink(ref) {
				gone = append(gone, ref)
			} else {
				w.stay[ref] = true
			}
		}
		if err := w.note(gone); err != nil {
			return err
		}
	}
}

// thumbs removes the thumbnails of contents that no record has.
func (w *sweep) thumbs(ctx context.Context) (err error) {
	if w.Thumbs == nil {
		return nil
	}
	w.swept.Thumbs, err = w.Thumbs(func(ref blobs.Ref) (got bool, err error) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		err = w.Store.View(func(tx *kv.Tx) error { got = catalog.Referenced(tx, ref); return nil })
		return got, err
	})
	return err
}

// posters removes the posters of films that are gone.
func (w *sweep) posters(ctx context.Context) error {
	if w.Posters == nil {
		return nil
	}
	n, err := w.Posters(func(owner, file record.ID) (got bool, err error) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		err = w.Store.View(func(tx *kv.Tx) error {
			_, err := catalog.Owned(tx, owner, record.Files, file)
			got = err == nil
			if kv.Missing(err) {
				return nil
			}
			return err
		})
		return got, err
	})
	w.swept.Thumbs += n
	return err
}

// icons removes the icons of sites that no bookmark leads to.
func (w *sweep) icons(ctx context.Context) (err error) {
	if w.Icons == nil {
		return nil
	}
	w.swept.Icons, err = w.Icons(func() ([]record.ID, error) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		return catalog.Icons(w.Store)
	})
	return err
}

// orphans notes in the store the contents that no record has ever had, so that they
// are removed after the same delay as others. It also removes temporary files. The
// age of a file is not enough to remove it: a journal that was restored from an old
// backup knows nothing of later files.
func (w *sweep) orphans(ctx context.Context, olderThan time.Time) error {
	var refs [][32]byte
	found, err := w.Blobs.Sweep(ctx, olderThan, func(ref blobs.Ref) (bool, error) {
		refs = append(refs, ref)
		return false, nil
	})
	w.swept.Temps = found.Temps
	if err != nil {
		return err
	}
	for len(refs) > 0 && ctx.Err() == nil {
		n := min(len(refs), sweepBatch)
		if err := w.Store.Update(func(tx *kv.Tx) error { return catalog.NoteOrphans(tx, refs[:n]) }); err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

// parts drops expired uploads, remote ones too, and removes bytes that no upload
// waits for. An upload is noted before its first byte is stored.
func (w *sweep) parts() error {
	if err := w.Store.Update(func(tx *kv.Tx) error {
		if err := inbox.DropUploads(tx); err != nil {
			return err
		}
		return jobs.DropFetches(tx)
	}); err != nil {
		return err
	}
	names, err := w.Blobs.Parts.Names()
	if err != nil || len(names) == 0 {
		return err
	}
	var awaited map[string]bool
	if err := w.Store.View(func(tx *kv.Tx) (err error) {
		awaited, err = inbox.OpenUploads(tx)
		return err
	}); err != nil {
		return err
	}

	var failed []error
	for _, name := range names {
		if awaited[name] {
			continue
		}
		if err := w.Blobs.Parts.Drop(name); err != nil {
			failed = append(failed, err)
			continue
		}
		w.swept.Temps++
	}
	return errors.Join(failed...)
}

// unlink removes the content if nothing needs it, and reports whether it is gone.
func (w *sweep) unlink(ref blobs.Ref) (gone bool) {
	info, err := w.Blobs.Stat(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return true // it was removed before a crash
	}
	if err != nil {
		w.fail(ref, err)
		return false
	}
	removed, err := w.Blobs.Unlink(ref, func() (bool, error) { return w.free(ref) })
	if err != nil {
		w.fail(ref, err)
		return removed
	}
	if removed {
		w.swept.Blobs++
		w.swept.Bytes += info.Size
	}
	return removed
}

// fail notes that the content could not be removed.
func (w *sweep) fail(ref blobs.Ref, err error) {
	w.Log.Error("a blob cannot be unlinked; the next sweep tries again", "sha256", ref, "error", err)
	w.swept.Failed++
	if w.failed == nil {
		w.failed = err
	}
}

// note records in the store that the contents are gone.
func (w *sweep) note(gone []blobs.Ref) error {
	if len(gone) == 0 {
		return nil
	}
	return w.Store.Update(func(tx *kv.Tx) error {
		for _, ref := range gone {
			if !catalog.Unreferenced(tx, ref, w.since) {
				continue // a record has it again, or had it a moment ago
			}
			if err := catalog.Unlinked(tx, ref); err != nil {
				return err
			}
		}
		return nil
	})
}
