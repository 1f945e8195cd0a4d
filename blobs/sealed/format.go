// Package sealed encrypts what an object store gets, and the streams of kist backup. A Remote of it
// is a blobs.Remote in front of another one. DESIGN.md has the format and what it protects from.
package sealed

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"kist/blobs"
)

// The form of a sealed object: a head, and chunks. DESIGN.md describes it.
const (
	magic      = "kistseal"
	layout     = 1
	saltBytes  = 32
	headBytes  = len(magic) + 4 + idBytes + saltBytes
	chunkBytes = 64 << 10
	tagBytes   = 16
	sealedMost = chunkBytes + tagBytes // of a chunk
)

// ErrAltered says that sealed bytes are not what this key has sealed under their name: they were changed,
// cut, extended or moved, or are no sealed bytes. It is a blobs.ErrDamaged.
var ErrAltered = fmt.Errorf("it was altered, cut or moved there: %w", blobs.ErrDamaged)

// An OtherKey says that bytes were sealed with another key.
type OtherKey struct{ There, Here string }

func (e *OtherKey) Error() string {
	return fmt.Sprintf("it is encrypted with the key %s, and the key file has the key %s", e.There, e.Here)
}

// SizeOf is how many bytes n bytes have when they are sealed.
func SizeOf(n int64) int64 {
	chunks := max(1, (n+chunkBytes-1)/chunkBytes)
	return int64(headBytes) + n + chunks*tagBytes
}

// plainSize is how many bytes are sealed in n bytes; -1 if n is not the size of a sealed object.
func plainSize(n int64) int64 {
	n -= int64(headBytes)
	whole, rest := n/sealedMost, n%sealedMost
	size := whole*chunkBytes + rest - tagBytes
	switch {
	case n < tagBytes:
		return -1
	case rest == 0:
		return whole * chunkBytes
	case rest < tagBytes || rest == tagBytes && whole > 0:
		return -1
	}
	return size
}

// head returns the head of an object.
func (k *Key) head(salt [saltBytes]byte) []byte {
	b := append(make([]byte, 0, headBytes), magic...)
	b = binary.BigEndian.AppendUint32(b, layout)
	b = append(b, k.id[:]...)
	return append(b, salt[:]...)
}

// readHead returns the salt in the head of an object.
func (k *Key) readHead(b []byte) (salt [saltBytes]byte, err error) {
	if len(b) < headBytes || string(b[:len(magic)]) != magic {
		return salt, ErrAltered
	}
	b = b[len(magic):]
	if n := binary.BigEndian.Uint32(b); n != layout {
		return salt, fmt.Errorf("%w: this version of kist does not know the layout %d", ErrAltered, n)
	}
	b = b[4:]
	if !bytes.Equal(b[:idBytes], k.id[:]) {
		return salt, &OtherKey{fmt.Sprintf("%x", b[:idBytes]), k.ID()}
	}
	return [saltBytes]byte(b[idBytes:]), nil
}

// aead returns what seals and opens the chunks of an object.
func (k *Key) aead(salt [saltBytes]byte, name string) (cipher.AEAD, error) {
	key, err := k.object(salt, name)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a cipher: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("cannot make a cipher: %w", err)
	}
	return gcm, nil
}

// nonceBytes is the size of a nonce: the number of the chunk, and whether it is the last one.
const nonceBytes = 12

func nonce(chunk int64, last bool) (b [nonceBytes]byte) {
	binary.BigEndian.PutUint64(b[3:], uint64(chunk))
	if last {
		b[nonceBytes-1] = 1
	}
	return b
}

// sealing is an object that is being put. Any number of goroutines may read it at once, from any place.
type sealing struct {
	// Set once.
	head []byte
	aead cipher.AEAD
	body io.ReaderAt
	size int64 // of body

	mu     sync.Mutex
	recent []chunk // the last used at the end
}

// chunk is a sealed chunk.
type chunk struct {
	number int64
	b      []byte
}

// keptChunks is how many chunks are kept: each part of a large object is read in small pieces, and four of
// them are put at once.
const keptChunks = 6

// sealing returns the sealed form of the first size bytes of body.
func (k *Key) sealing(salt [saltBytes]byte, name string, body io.ReaderAt, size int64) (*sealing, error) {
	aead, err := k.aead(salt, name)
	if err != nil {
		return nil, err
	}
	return &sealing{head: k.head(salt), aead: aead, body: body, size: size}, nil
}

// ReadAt reads from the sealed form.
func (s *sealing) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		from := at + int64(n)
		if from < int64(len(s.head)) {
			n += copy(p[n:], s.head[from:])
			continue
		}
		from -= int64(len(s.head))
		b, err := s.chunk(from / sealedMost)
		if err != nil {
			return n, err
		}
		within := from % sealedMost
		if within >= int64(len(b)) {
			return n, io.EOF
		}
		n += copy(p[n:], b[within:])
	}
	return n, nil
}

// chunk returns a sealed chunk; none if it is behind the last one.
func (s *sealing) chunk(number int64) ([]byte, error) {
	last := max(0, (s.size-1)/chunkBytes)
	if number > last {
		return nil, nil
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.recent, func(c chunk) bool { return c.number == number })
	if i >= 0 {
		found := s.recent[i]
		s.recent = append(slices.Delete(s.recent, i, i+1), found)
		s.mu.Unlock()
		return found.b, nil
	}
	s.mu.Unlock()

	size := min(chunkBytes, s.size-number*chunkBytes)
	plain := make([]byte, size, size+tagBytes)
	n, err := s.body.ReadAt(plain, number*chunkBytes)
	if n < len(plain) {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	at := nonce(number, number == last)
	b := s.aead.Seal(plain[:0], at[:], plain, nil)

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recent) == keptChunks {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.recent = append(s.recent, chunk{number, b})
	return b, nil
}

// opening reads what is sealed. It returns only bytes that were sealed with the key under the name.
type opening struct {
	aead   cipher.AEAD
	from   *bufio.Reader
	close  func() error
	number int64 // of the next chunk
	skip   int64 // bytes of it that are not wanted
	left   int64 // bytes that are wanted; all if less than 0
	// cut says that from may end with a chunk that is not the last one, because only a part was asked for.
	cut bool

	buf   [sealedMost]byte
	plain []byte // not read yet
	end   error  // what follows plain; nil for another chunk
}

// Read reads the opened bytes.
func (o *opening) Read(p []byte) (n int, err error) {
	for len(o.plain) == 0 {
		if o.left == 0 {
			return 0, io.EOF
		}
		if o.end != nil {
			return 0, o.end
		}
		o.next()
	}
	n = copy(p, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// next opens the next chunk.
func (o *opening) next() {
	n, err := fill(o.from, o.buf[:])
	more := false
	if err == nil {
		_, err = o.from.Peek(1)
		more = err == nil
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		o.end = err
		return
	case n == 0 && o.cut && o.number > 0: // a part behind the end was asked for
		o.end = io.EOF
		return
	case n < tagBytes || n == tagBytes && o.number > 0:
		o.end = ErrAltered
		return
	}

	plain, last, err := o.open(o.buf[:n], more)
	switch {
	case err != nil:
		o.end = ErrAltered
		return
	case last:
		o.end = io.EOF
	case !more: // of the part that was asked for
		o.end = errShort
	}
	o.number++
	plain = plain[min(o.skip, int64(len(plain))):]
	o.skip = 0
	if o.left >= 0 {
		plain = plain[:min(o.left, int64(len(plain)))]
		o.left -= int64(len(plain))
	}
	o.plain = plain
}

// fill reads until b is full. Unlike io.ReadFull it returns the error of the reader, which may have been
// cut off, and io.EOF only at its end.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	if n == len(b) {
		err = nil
	}
	return n, err
}

// errShort ends a part that is shorter than what was asked for, though the object goes on.
var errShort = fmt.Errorf("a part ends too early: %w", ErrAltered)

// open opens a chunk in its place. more says that something follows, so it is not the last one. A whole
// chunk at the end of a part may be the last one or not.
func (o *opening) open(b []byte, more bool) (plain []byte, last bool, err error) {
	whole := len(b) == sealedMost
	if whole && !more && o.cut {
		at := nonce(o.number, false)
		plain, err := o.aead.Open(nil, at[:], b, nil)
		if err == nil {
			return plain, false, nil
		}
	}
	last = !more
	at := nonce(o.number, last)
	plain, err = o.aead.Open(b[:0], at[:], b, nil)
	return plain, last, err
}

// Close ends the reading.
func (o *opening) Close() error { return o.close() }

// streamName is the name under which a stream is sealed. No object has it.
const streamName = "stream"

// NewWriter returns a writer that seals what is written to it. Close ends the stream, and leaves w open: a
// stream without an end is refused.
func (k *Key) NewWriter(w io.Writer) (io.WriteCloser, error) {
	salt := randomSalt()
	aead, err := k.aead(salt, streamName)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(k.head(salt)); err != nil {
		return nil, err
	}
	return &writer{to: w, aead: aead, buf: make([]byte, 0, sealedMost)}, nil
}

type writer struct {
	to     io.Writer
	aead   cipher.AEAD
	number int64
	buf    []byte // of the next chunk
}

// Write seals the bytes.
func (w *writer) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if len(w.buf) == chunkBytes { // something follows
			if err := w.flush(false); err != nil {
				return n, err
			}
		}
		m := min(len(p)-n, chunkBytes-len(w.buf))
		w.buf = append(w.buf, p[n:n+m]...)
		n += m
	}
	return n, nil
}

func (w *writer) flush(last bool) error {
	at := nonce(w.number, last)
	b := w.aead.Seal(w.buf[:0], at[:], w.buf, nil)
	_, err := w.to.Write(b)
	w.number++
	w.buf = w.buf[:0]
	return err
}

// Close writes the last chunk.
func (w *writer) Close() error { return w.flush(true) }

// NewReader returns a reader of a stream that NewWriter has made. It returns only bytes that were sealed,
// and its last read fails if the stream was cut or extended.
func (k *Key) NewReader(r io.Reader) (io.Reader, error) {
	b := make([]byte, headBytes)
	n, err := fill(r, b)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	salt, err := k.readHead(b[:n])
	if err != nil {
		return nil, err
	}
	aead, err := k.aead(salt, streamName)
	if err != nil {
		return nil, err
	}
	return &opening{aead: aead, from: bufio.NewReaderSize(r, sealedMost), left: -1}, nil
}

// IsSealed reports whether bytes begin like sealed ones.
func IsSealed(b []byte) bool { return bytes.HasPrefix(b, []byte(magic)) }

// SealedPrefix is how many bytes IsSealed needs.
const SealedPrefix = len(magic)
