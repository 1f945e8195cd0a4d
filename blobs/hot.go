package blobs

import (
	"crypto/sha256"
	"io"
	"sync"
)

// Bounds of what is kept in memory, in bytes: of each blob and of all.
const (
	hotOne = 128 << 10
	hotAll = 8 << 20
)

// smallCache are small blobs that were asked for again within a short time: opening,
// describing and closing a file takes longer than sending it. A ref names its
// content for good, so that what is kept cannot be out of date; whether it may
// be seen is for those who ask.
type smallCache struct {
	mu    sync.Mutex
	kept  map[Ref][]byte
	size  int
	asked [1024]Ref // what was asked for recently, each in its one place
}

// Small returns the content of a blob of the given size, which must not be
// written into, if it is kept in memory; nil if it is not, which says nothing
// of whether there is such a blob. It begins to keep a small one when that is
// asked for the second time.
func (s *Store) Small(ref Ref, size int64) []byte {
	if size <= 0 || size > hotOne {
		return nil
	}
	h := &s.hot
	h.mu.Lock()
	b, asked := h.kept[ref], &h.asked[(int(ref[0])<<8|int(ref[1]))%len(s.hot.asked)]
	again := *asked == ref
	*asked = ref
	h.mu.Unlock()
	if b != nil || !again {
		return b
	}
	return s.loadSmall(ref, size)
}

// loadSmall reads a blob and keeps it, if it is what its name says. If it is not,
// the blob goes into quarantine.
func (s *Store) loadSmall(ref Ref, size int64) []byte {
	f, err := s.Get(ref)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil || Ref(sha256.Sum256(b)) != ref {
		_ = s.prove(ref, f, nil) // Send meets the outcome
		return nil
	}
	s.retain(ref, b)
	return b
}

// retain keeps what was read of a blob, unless that was unlinked or found to be
// damaged meanwhile: forget may have come before.
func (s *Store) retain(ref Ref, b []byte) {
	s.hot.add(ref, b)
	if _, err := s.Stat(ref); err != nil || s.Damaged.Err(ref) != nil {
		s.hot.forget(ref)
	}
}

// add keeps a blob, in the place of others if need be.
func (h *smallCache) add(ref Ref, b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept[ref] != nil {
		return // somebody was faster
	}
	for old, content := range h.kept { // in no order: any will do
		if h.size+len(b) <= hotAll {
			break
		}
		delete(h.kept, old)
		h.size -= len(content)
	}
	if h.kept == nil {
		h.kept = map[Ref][]byte{}
	}
	h.kept[ref] = b
	h.size += len(b)
}

// forget drops a blob that is unlinked or damaged.
func (h *smallCache) forget(ref Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size -= len(h.kept[ref])
	delete(h.kept, ref)
}
