package sealed

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"kist/blobs"
)

// The names of a sealed store: everything but the meta is in a folder of its own, so that Encrypt can
// make it beside a plain one.
const (
	metaName      = "meta"
	folder        = "sealed/"
	contentPrefix = "blobs/"
	logPrefix     = "log/"
)

// A Remote is a blobs.Remote whose objects are sealed before they reach another one. Before its first
// request it makes sure that the other one has no plain store, and no store of another key.
type Remote struct {
	*gate
	to   blobs.Remote
	key  *Key
	most int // how many contents of a list are sorted at once

	mu      sync.Mutex
	pending []pending // large objects whose put has failed, the oldest first
}

// pending is a put that is made again with the same salt, so that the parts which are there count.
type pending struct {
	name string
	body io.ReaderAt
	size int64
	salt [saltBytes]byte
}

const maxPending = 16

// New returns a Remote. Other addresses of the same store are in endpoints; it returns one for each.
func New(key *Key, to blobs.Remote, endpoints ...blobs.Remote) (r blobs.Remote, all []blobs.Remote) {
	g := newGate(func(ctx context.Context) error { return checkSealed(ctx, to, key) })
	for _, end := range endpoints {
		all = append(all, &Remote{gate: g, to: end, key: key, most: listedAtOnce})
	}
	return &Remote{gate: g, to: to, key: key, most: listedAtOnce}, all
}

// inner is the name of a sealed object.
func (r *Remote) inner(name string) string { return r.key.inner(name) }

func (k *Key) inner(name string) string {
	if name == metaName {
		return metaName
	}
	ref, ok := parseContent(name)
	if !ok {
		return folder + name
	}
	return folder + blobs.Ref(k.hide(ref)).RemoteName()
}

// outer is the name of an object from that of the sealed one. ok is false if that has no such name.
func (r *Remote) outer(name string) (_ string, ok bool) {
	name, ok = strings.CutPrefix(name, folder)
	if !ok {
		return "", false
	}
	if !strings.HasPrefix(name, contentPrefix) {
		return name, true
	}
	ref, ok := parseContent(name)
	return blobs.Ref(r.key.reveal(ref)).RemoteName(), ok
}

// parseContent reads the name of a content.
func parseContent(name string) (ref blobs.Ref, ok bool) {
	if !strings.HasPrefix(name, contentPrefix) {
		return ref, false
	}
	ref, err := blobs.ParseRef(name[strings.LastIndexByte(name, '/')+1:])
	return ref, err == nil && ref.RemoteName() == name
}

func randomSalt() (salt [saltBytes]byte) {
	_, _ = rand.Read(salt[:]) // it cannot fail
	return salt
}

// inMemory is up to how many bytes an object is sealed at once.
const inMemory = 1 << 20

// Put is described at blobs.Remote.
func (r *Remote) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := r.pass(ctx); err != nil {
		return err
	}
	salt := r.saltFor(name, body, size)
	s, err := r.key.sealing(salt, name, body, size)
	if err != nil {
		return err
	}

	from, n := io.ReaderAt(s), SizeOf(size)
	if size <= inMemory {
		b := make([]byte, n)
		if _, err := s.ReadAt(b, 0); err != nil {
			return err
		}
		from = bytes.NewReader(b)
	}
	err = r.to.Put(ctx, r.inner(name), from, n)
	if size > blobs.MaxExact {
		r.note(pending{name, body, size, salt}, err != nil && !errors.Is(err, fs.ErrExist))
	}
	return r.taken(ctx, name, err)
}

// saltFor returns the salt of an object. It is random, but for a content, and for a put that is made again.
func (r *Remote) saltFor(name string, body io.ReaderAt, size int64) [saltBytes]byte {
	if _, ok := parseContent(name); ok {
		return r.key.contentSalt(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pending {
		if p.name == name && p.size == size && same(p.body, body) {
			return p.salt
		}
	}
	return randomSalt()
}

// same reports whether two bodies are one.
func same(a, b io.ReaderAt) bool { return reflect.TypeOf(a).Comparable() && a == b }

// note keeps a put that has failed, and forgets one that has not.
func (r *Remote) note(p pending, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = slices.DeleteFunc(r.pending, func(old pending) bool { return old.name == p.name })
	if !failed {
		return
	}
	if len(r.pending) == maxPending {
		r.pending = slices.Delete(r.pending, 0, 1)
	}
	r.pending = append(r.pending, p)
}

// Get is described at blobs.Remote.
func (r *Remote) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if err := r.pass(ctx); err != nil {
		return nil, err
	}
	return r.get(ctx, name, from, n)
}

// get is Get without the gate.
func (r *Remote) get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if n == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	first := from / chunkBytes
	salt, known := [saltBytes]byte{}, false
	if _, ok := parseContent(name); ok {
		salt, known = r.key.contentSalt(name), true
	}
	if first > 0 && !known {
		b, err := r.readHead(ctx, name)
		if err != nil {
			return nil, err
		}
		salt, err = r.key.readHead(b)
		if err != nil {
			return nil, describe(name, err)
		}
	}

	at, length := int64(headBytes)+first*sealedMost, int64(-1)
	if first == 0 {
		at = 0
	}
	if n > 0 {
		length = int64(headBytes) + ((from+n-1)/chunkBytes+1)*sealedMost - at
	}
	in, err := r.to.Get(ctx, r.inner(name), at, length)
	if err != nil {
		return nil, err
	}
	o := &opening{
		from: bufio.NewReaderSize(in, sealedMost), close: in.Close,
		number: first, skip: from % chunkBytes, left: n, cut: n > 0,
	}
	if first == 0 {
		salt, err = r.openHead(o.from, name, salt, known)
	}
	if err == nil {
		o.aead, err = r.key.aead(salt, name)
	}
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	return &named{o, name}, nil
}

// openHead reads the head of an object, whose salt may be known.
func (r *Remote) openHead(
	in io.Reader, name string, want [saltBytes]byte, known bool,
) (salt [saltBytes]byte, err error) {
	b := make([]byte, headBytes)
	n, err := fill(in, b)
	if err != nil && !errors.Is(err, io.EOF) {
		return salt, err
	}
	salt, err = r.key.readHead(b[:n])
	if err == nil && known && salt != want {
		err = ErrAltered
	}
	return salt, describe(name, err)
}

// readHead returns the bytes of the head of an object.
func (r *Remote) readHead(ctx context.Context, name string) ([]byte, error) {
	return readStart(ctx, r.to, r.inner(name), int64(headBytes))
}

// readStart returns the first n bytes of an object.
func readStart(ctx context.Context, from blobs.Remote, name string, n int64) ([]byte, error) {
	in, err := from.Get(ctx, name, 0, n)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, n))
}

// describe names the object in an error about sealed bytes. The store was found to have this key before anything is
// read from it, so the mark of another key was altered.
func describe(name string, err error) error {
	if errors.As(err, new(*OtherKey)) {
		err = ErrAltered
	}
	if errors.Is(err, ErrAltered) {
		return fmt.Errorf("%s in the object store cannot be decrypted: %w", name, err)
	}
	return err
}

// named names the object in the errors of a reader.
type named struct {
	*opening
	name string
}

func (n *named) Read(p []byte) (int, error) {
	m, err := n.opening.Read(p)
	return m, describe(n.name, err)
}

// Head is described at blobs.Remote. The size is -1 if that of the sealed object cannot be right.
func (r *Remote) Head(ctx context.Context, name string) (o blobs.Object, err error) {
	if err := r.pass(ctx); err != nil {
		return o, err
	}
	o, err = r.to.Head(ctx, r.inner(name))
	if err != nil {
		return o, err
	}
	o.Name, o.Size = name, plainSize(o.Size)
	return o, nil
}

// Delete is described at blobs.Remote.
func (r *Remote) Delete(ctx context.Context, name string) error {
	if err := r.pass(ctx); err != nil {
		return err
	}
	return r.to.Delete(ctx, r.inner(name))
}

// After is described at blobs.Remote. The sealed names of contents have another order. So it reads the
// list of contents once for each listedAtOnce of them.
func (r *Remote) After(ctx context.Context, prefix, name string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		if err := r.pass(ctx); err != nil {
			yield(blobs.Object{}, err)
			return
		}
		if strings.HasPrefix(prefix, contentPrefix) {
			r.contents(ctx, prefix, name, yield)
			return
		}
		after := ""
		if name != "" {
			after = r.inner(name)
		}
		for o, err := range r.to.After(ctx, folder+prefix, after) {
			if err != nil {
				yield(o, err)
				return
			}
			outer, ok := r.outer(o.Name)
			if !ok {
				continue
			}
			o.Name, o.Size = outer, plainSize(o.Size)
			if !yield(o, nil) {
				return
			}
		}
	}
}

// content is a content in a list.
type content struct {
	ref  blobs.Ref
	size int64
	made int64 // in nanoseconds since 1970
}

func (c content) object() blobs.Object {
	return blobs.Object{Name: c.ref.RemoteName(), Size: c.size, ModTime: time.Unix(0, c.made)}
}

// listedAtOnce is how many contents of a list are in memory, twice. Each has 48 bytes.
const listedAtOnce = 128 << 10

// contents yields the contents in the order of their names.
func (r *Remote) contents(ctx context.Context, prefix, name string, yield func(blobs.Object, error) bool) {
	for most := r.most; ; {
		page, err := r.page(ctx, prefix, name, most)
		if err != nil {
			yield(blobs.Object{}, err)
			return
		}
		for _, c := range page {
			name = c.ref.RemoteName()
			if !yield(c.object(), nil) {
				return
			}
		}
		if len(page) < most {
			return
		}
	}
}

// page returns the first contents after a name, most at most. It goes on where a failure has ended the
// list, as long as it comes further.
func (r *Remote) page(ctx context.Context, prefix, name string, most int) (page []content, err error) {
	order := func(a, b content) int { return bytes.Compare(a.ref[:], b.ref[:]) }
	keep := func() {
		slices.SortFunc(page, order)
		page = page[:min(len(page), most)]
	}
	for at, further := "", true; further; {
		further, err = false, nil
		for o, failed := range r.to.After(ctx, folder+contentPrefix, at) {
			err = failed
			if err != nil {
				break
			}
			at, further = o.Name, true
			outer, ok := r.outer(o.Name)
			if !ok || outer <= name || !strings.HasPrefix(outer, prefix) {
				continue
			}
			ref, _ := parseContent(outer)
			page = append(page, content{ref, plainSize(o.Size), o.ModTime.UnixNano()})
			if len(page) == 2*most {
				keep()
			}
		}
		if err == nil {
			break
		}
	}
	keep()
	return page, err
}
