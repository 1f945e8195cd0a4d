package standby

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"sync"
	"time"

	"kist/admin/ops"
	"kist/blobs"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// apply brings a record to the data directory. Contents that it carries come first.
func (s *Standby) apply(ctx context.Context, f journal.Framed) error {
	var settle func() error
	if err := workcopy.Carried(func(ref [32]byte, b []byte) error {
		settle = s.content.Settle
		return s.content.Redo(ref, b)
	})(f.Ops); err != nil {
		return err
	}
	for _, op := range f.Ops {
		ref, refers := refers(op)
		switch {
		case op.Value == nil:
		case op.Bucket == workcopy.MetaBucket.No && bytes.Equal(op.Key, kv.MetaTrimmed) && len(op.Value) == 8:
			// The writer forgets removals that its index has. This one must have them first.
			within, cancel := context.WithTimeout(ctx, hurryMost)
			s.index.Hurry(within, binary.BigEndian.Uint64(op.Value)-1)
			cancel()
		case s.o.FetchAll && refers:
			s.wanted.add(ref)
		}
	}
	return kv.Apply(s.store, f, settle)
}

// refers finds the content that an operation adds a reference to.
var refers = tables.All.Refers()

// wanted are the contents that the latest records refer to, or all if there are too
// many.
type wanted struct {
	more  chan struct{}
	mu    sync.Mutex
	refs  []blobs.Ref
	all   bool
	taken bool // what was wanted is being fetched
}

const (
	maxWanted   = 10_000
	wantedAgain = 10 * time.Second // after a failure
)

func (w *wanted) add(ref blobs.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refs = append(w.refs, ref); len(w.refs) > maxWanted {
		w.refs, w.all = nil, true
	}
}

// wantAll forgets what was wanted, and wants everything.
func (w *wanted) wantAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refs, w.all = nil, true
}

func (w *wanted) take() (refs []blobs.Ref, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	refs, all = w.refs, w.all
	w.refs, w.all, w.taken = nil, false, true
	return refs, all
}

// done says that what was taken is here, or wanted again.
func (w *wanted) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = false
}

// any reports whether contents are missing here.
func (w *wanted) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all || w.taken || len(w.refs) > 0
}

func (w *wanted) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// fetchContents fetches the contents that are missing here until ctx ends.
func (s *Standby) fetchContents(ctx context.Context, store *kv.Store, content *blobs.Store) {
	for failed := false; ; {
		err := s.fetchWanted(ctx, store, content)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		if err != nil {
			if !failed {
				s.o.Log.Error("cannot fetch files from the object store; trying again", "error", err)
			}
			s.wanted.wantAll()
			again = time.After(wantedAgain)
		}
		failed = err != nil
		s.wanted.done()
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-s.wanted.more:
		}
	}
}

func (s *Standby) fetchWanted(ctx context.Context, store *kv.Store, content *blobs.Store) error {
	refs, all := s.wanted.take()
	if !all {
		return s.fetch(ctx, content, refs)
	}
	for ref, err := range ops.Contents(store) {
		if err == nil {
			err = s.fetch(ctx, content, []blobs.Ref{ref})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetch makes sure that contents are here.
func (s *Standby) fetch(ctx context.Context, content *blobs.Store, refs []blobs.Ref) error {
	for _, ref := range refs {
		if _, err := content.Stat(ref); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		f, err := content.Get(ref)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			err = f.Close()
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, blobs.ErrDamaged):
			s.o.Log.Warn("the bytes of a file are missing or damaged in the object store", "sha256", ref.String())
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
