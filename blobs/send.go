package blobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"kist/blobs/flight"
)

// provenFirst is the size in bytes up to which a blob is hashed before its
// first byte is sent. A larger one is hashed while it is sent.
const provenFirst = 8 << 20

// ProvenForPart is the size in bytes up to which SendPart hashes a blob before a
// part of it is sent. That takes some seconds of reading at most.
const ProvenForPart = 256 << 20

// maxProven bounds how many blobs a process remembers as hashed; an entry
// takes about 100 bytes.
const maxProven = 1 << 15

// settled is how old a modification time must be to prove that the file was not
// written to since. File systems keep times in steps of some milliseconds.
const settled = time.Second

// A proof is the state of a file whose bytes were read and were right.
type proof struct {
	size, changed int64 // modification time in nanoseconds
}

// proven remembers the blobs that this process has hashed.
type proven struct {
	mu   sync.Mutex
	seen map[Ref]proof

	readings flight.Group[reading, struct{}]
}

// A reading is that of a file which claims to be a blob.
type reading struct {
	ref Ref
	proof
}

func proofOf(info fs.FileInfo) proof { return proof{info.Size(), info.ModTime().UnixNano()} }

func (p *proven) has(ref Ref, info fs.FileInfo) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, got := p.seen[ref]
	return got && seen == proofOf(info)
}

// observed is the state of a file at an instant.
type observed struct {
	fs.FileInfo
	at time.Time
}

func observe(f *os.File) (observed, error) {
	info, err := f.Stat()
	return observed{info, time.Now()}, err
}

// add remembers a blob and drops another one if the map is full. info is the
// state of the file before it was read, so a later write shows as a difference.
func (p *proven) add(ref Ref, info observed) {
	if info.at.Sub(info.ModTime()).Abs() < settled {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[Ref]proof{}
	}
	for old := range p.seen { // in random order, since any will do
		if len(p.seen) < maxProven {
			break
		}
		delete(p.seen, old)
	}
	p.seen[ref] = proofOf(info)
}

func (p *proven) forget(ref Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, ref)
}

// Send opens a blob of the given size for a caller that passes its bytes on.
// Everything that leaves the process is opened by Send, so that wrong bytes
// never leave as a complete content:
//
//   - A blob that this process has hashed is returned as a bare file or from
//     memory.
//   - Another blob of up to 8 MiB is hashed by Send.
//   - A larger one is hashed while it is read from its beginning. If the hash
//     is wrong, the read that would reach the end fails with ErrDamaged, so the
//     last bytes are missing from what was sent. A blob that is read from
//     elsewhere, or not to the end, is checked in the background.
//
// The error is fs.ErrNotExist when the blob does not exist. It is ErrDamaged
// when the blob is in quarantine, when Send puts it there, or when it has
// another size.
//
// With an object store, a blob that is missing or damaged here is fetched. One of
// up to 8 MiB is on the disk when Send returns. A larger one is read while it
// comes, and its last byte only after the hash was right. A reader that is ahead of
// what has come reads from the object store itself. The error is ErrAway if the
// object store does not answer.
func (s *Store) Send(ref Ref, size int64) (io.ReadSeekCloser, error) {
	if b := s.Small(ref, size); b != nil {
		s.cache.hit(ref)
		return memory{bytes.NewReader(b)}, nil
	}

	f, err := s.getHere(ref)
	if errors.Is(err, ErrDamaged) && s.Damaged.Err(ref) == nil { // it is not a regular file
		s.Damaged.add(ref, nil, err)
	}
	if s.cache != nil && elsewhere(err) {
		r, failed := s.cache.send(ref, size, err)
		if r != nil || failed != nil {
			return r, failed
		}
		f, err = s.getHere(ref)
		if elsewhere(err) { // it was evicted at once
			f, err = s.Get(ref)
		}
	} else {
		s.cache.hit(ref)
	}
	if err != nil {
		return nil, err
	}

	r, err := s.provenOrProving(ref, f, size)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("blobs: opening %s to send it: %w", ref, err)
	}
	return r, nil
}

// provenOrProving returns the open file of a blob when it was hashed, or a reader that hashes it.
func (s *Store) provenOrProving(ref Ref, f *os.File, size int64) (io.ReadSeekCloser, error) {
	info, err := observe(f)
	if err != nil {
		return nil, err
	}
	switch {
	case s.proven.has(ref, info):
	case info.Size() == size && size > provenFirst:
		return &unproven{store: s, ref: ref, file: f, opened: info, size: size, hash: sha256.New()}, nil
	case info.Size() <= provenFirst && size <= provenFirst:
		if err := s.proven.once(ref, info.FileInfo, func() error { return s.prove(ref, f, nil) }); err != nil {
			return nil, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	default:
		s.CheckSoon(ref)
	}
	if info.Size() != size {
		return nil, fmt.Errorf("%d bytes in place of %d: %w", info.Size(), size, ErrDamaged)
	}
	return f, nil
}

// SendPart is Send for a caller that passes on a part of a blob. Nobody can
// tell that a part is wrong, so SendPart hashes a blob of up to 256 MiB before
// it returns. A part of a larger one may carry wrong bytes until the background
// check reads the blob.
func (s *Store) SendPart(ref Ref, size int64) (io.ReadSeekCloser, error) {
	if size > provenFirst && size <= ProvenForPart { // Send hashes smaller ones
		if err := s.proveHere(ref); err != nil && (s.cache == nil || !elsewhere(err)) {
			return nil, fmt.Errorf("blobs: opening %s to send a part of it: %w", ref, err)
		}
	}
	return s.Send(ref, size)
}

// Prove ensures that this process has hashed the blob, and reads it if
// necessary. The errors are those of Check.
func (s *Store) Prove(ref Ref) error {
	err := s.proveHere(ref)
	if s.cache == nil || !elsewhere(err) {
		return err
	}
	f, err := s.Get(ref)
	if err != nil {
		return err
	}
	_ = f.Close() // Get was called to fetch the blob
	return s.proveHere(ref)
}

func (s *Store) proveHere(ref Ref) error {
	f, err := s.getHere(ref)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("blobs: examining a blob: %w", err)
	}
	if s.proven.has(ref, info) {
		return nil
	}
	return s.proven.once(ref, info, func() error { return s.prove(ref, f, nil) })
}

// once calls prove for a file. If another call is reading the same file, once
// waits for it and returns its error.
func (p *proven) once(ref Ref, info fs.FileInfo, prove func() error) error {
	_, err := p.readings.Do(context.Background(), reading{ref, proofOf(info)}, func(context.Context) (struct{}, error) {
		return struct{}{}, prove()
	})
	return err
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// unproven is a large blob that is hashed while it is sent.
type unproven struct {
	store   *Store
	ref     Ref
	file    *os.File
	opened  observed // when it was opened
	size    int64
	at      int64     // where the next read begins
	hash    hash.Hash // of the first hashed bytes
	hashed  int64     // how many bytes are hashed
	pending bool      // bytes were returned and the hash is not complete yet
}

func (u *unproven) Seek(offset int64, whence int) (int64, error) {
	at, err := u.file.Seek(offset, whence)
	if err != nil {
		return at, err
	}
	u.at = at
	return at, nil
}

func (u *unproven) Read(p []byte) (int, error) {
	if u.at >= u.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), u.size-u.at)]
	if u.at != u.hashed && !u.pending {
		u.store.CheckSoon(u.ref)
	}

	n, err := u.file.Read(p)
	if errors.Is(err, syscall.EIO) {
		u.store.CheckSoon(u.ref)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, err
	}

	if u.at == u.hashed {
		u.hash.Write(p[:n])
		u.hashed += int64(n)
		if u.hashed == u.size {
			if err := u.decide(); err != nil {
				return 0, err
			}
		}
	}
	u.pending = u.hashed < u.size
	u.at += int64(n)
	return n, nil
}

// decide compares the hash of all bytes with the ref.
func (u *unproven) decide() error {
	if got := Ref(u.hash.Sum(nil)); got != u.ref {
		err := fmt.Errorf("blobs: the bytes of %s hash to %s: %w", u.ref, got, ErrDamaged)
		u.store.Damaged.add(u.ref, u.file, err)
		return err
	}
	u.store.proven.add(u.ref, u.opened)
	return u.store.Damaged.end(u.ref, u.file)
}

func (u *unproven) Close() error {
	if u.pending {
		u.store.CheckSoon(u.ref)
	}
	return u.file.Close()
}
