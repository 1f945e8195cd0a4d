package blobs

import (
	"crypto/sha256"
	"io"
	"sync"
)

// Bounds of the small blobs kept in memory, in bytes: for each blob and for
// all.
const (
	maxSmall      = 128 << 10
	maxSmallTotal = 8 << 20
)

// smallCache holds small blobs that were requested twice within a short time.
// Opening, describing and closing a file takes longer than sending it. A ref
// always names the same content, so a cached blob cannot be out of date. The
// caller decides whether somebody may see it.
type smallCache struct {
	mu    sync.Mutex
	kept  map[Ref][]byte
	size  int
	asked [1024]Ref // recent requests, each in the one place that its ref allows
}

// Small returns the content of a blob of the given size if it is in memory; the
// caller must not modify it. Nil does not mean that the blob does not exist.
// Small begins to keep a small blob when it is requested for the second time.
func (s *Store) Small(ref Ref, size int64) []byte {
	if size <= 0 || size > maxSmall {
		return nil
	}
	h := &s.small
	h.mu.Lock()
	b, asked := h.kept[ref], &h.asked[(int(ref[0])<<8|int(ref[1]))%len(s.small.asked)]
	again := *asked == ref
	*asked = ref
	h.mu.Unlock()
	if b != nil || !again {
		return b
	}
	return s.loadSmall(ref, size)
}

// loadSmall reads a blob and keeps it if its bytes hash to its ref. Otherwise
// the blob goes into quarantine.
func (s *Store) loadSmall(ref Ref, size int64) []byte {
	f, err := s.getHere(ref)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil || Ref(sha256.Sum256(b)) != ref {
		_ = s.prove(ref, f, nil) // Send reports the outcome
		return nil
	}
	s.retain(ref, b)
	return b
}

// retain keeps the bytes of a blob, unless the blob was unlinked or found to be
// damaged while it was read: forget may have run before.
func (s *Store) retain(ref Ref, b []byte) {
	s.small.add(ref, b)
	if _, err := s.Stat(ref); err != nil || s.Damaged.Err(ref) != nil {
		s.small.forget(ref)
	}
}

// add keeps a blob and drops others if the space is needed.
func (h *smallCache) add(ref Ref, b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept[ref] != nil {
		return // another request added it first
	}
	for old, content := range h.kept { // in random order, since any will do
		if h.size+len(b) <= maxSmallTotal {
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

// forget drops a blob that was unlinked or is damaged.
func (h *smallCache) forget(ref Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size -= len(h.kept[ref])
	delete(h.kept, ref)
}
