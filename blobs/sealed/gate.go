package sealed

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"sync/atomic"

	"kist/blobs"
)

// A gate lets requests pass after a check has succeeded once.
type gate struct {
	// Set once.
	check func(context.Context) error
	turn  chan struct{} // has a value while the check runs

	open atomic.Bool
}

func newGate(check func(context.Context) error) *gate {
	return &gate{check: check, turn: make(chan struct{}, 1)}
}

func (g *gate) pass(ctx context.Context) error {
	if g.open.Load() {
		return nil
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if g.open.Load() {
		return nil
	}
	err := g.check(ctx)
	g.open.Store(err == nil)
	return err
}

// Sentences about a store that does not fit the key. They say what to do.
const (
	isSealed = "what is in the object store at this prefix is encrypted; " +
		"add --store-key-file with the key file. If the file is lost, kist store key FILE --from-words " +
		"makes it again from the words of its recovery sheet"
	isPlain = "what is in the object store at this prefix is not encrypted; stop the server and run " +
		"kist store encrypt with the same --store and --store-key-file, which encrypts it, or leave out --store-key-file"
	isHalf = "what is in the object store at this prefix is not wholly encrypted yet; run kist store encrypt " +
		"with the same --store and --store-key-file once more: it goes on where it stopped"
)

// checkSealed fails if the remote has a plain store, or one of another key.
func checkSealed(ctx context.Context, in blobs.Remote, key *Key) error {
	state, err := look(ctx, in, key)
	if err != nil {
		return err
	}
	switch {
	case state.plain && (state.sealed || state.meta == sealedMeta):
		return &blobs.Unfit{Text: isHalf}
	case state.plain:
		return &blobs.Unfit{Text: isPlain}
	}
	return nil
}

// checkPlain fails if the remote has a sealed store.
func checkPlain(ctx context.Context, in blobs.Remote) error {
	meta, _, err := readMeta(ctx, in)
	if err != nil {
		return err
	}
	has, err := some(ctx, in, folder)
	if err != nil {
		return err
	}
	if has || meta == sealedMeta {
		return &blobs.Unfit{Text: isSealed}
	}
	return nil
}

// What the meta of a store is.
type metaKind int

const (
	noMeta metaKind = iota
	plainMeta
	sealedMeta
)

// state is what a remote has.
type state struct {
	meta   metaKind
	plain  bool // plain slots, or the meta of a plain store
	sealed bool // objects in the folder
}

// look returns what the remote has. It fails if what is sealed there was sealed with another key. What is
// damaged is for those who read it: two objects must say that the key is another one, if there are two.
func look(ctx context.Context, in blobs.Remote, key *Key) (s state, err error) {
	kind, head, err := readMeta(ctx, in)
	if err != nil {
		return s, err
	}
	slots, err := some(ctx, in, logPrefix)
	if err != nil {
		return s, err
	}
	first, err := firstOf(ctx, in, folder)
	if err != nil {
		return s, err
	}
	s = state{meta: kind, sealed: first != "", plain: slots || kind == plainMeta && first == ""}

	var heads [][]byte
	if kind == sealedMeta {
		heads = append(heads, head)
	}
	if s.sealed {
		head, err = readStart(ctx, in, first, int64(headBytes))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
		heads = append(heads, head)
	}
	other := (*OtherKey)(nil)
	for _, head := range heads {
		_, err := key.readHead(head)
		if !errors.As(err, &other) {
			return s, nil
		}
	}
	if other != nil {
		return s, &blobs.Unfit{Text: "what is in the object store at this prefix is encrypted with the key " +
			other.There + ", and the key file has the key " + other.Here +
			"; name the right key file with --store-key-file, or use another prefix"}
	}
	return s, nil
}

// readMeta returns the kind of the meta of a remote, and its first bytes.
func readMeta(ctx context.Context, in blobs.Remote) (kind metaKind, head []byte, err error) {
	head, err = readStart(ctx, in, metaName, int64(headBytes))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noMeta, nil, nil
	case err != nil:
		return noMeta, nil, err
	case IsSealed(head):
		return sealedMeta, head, nil
	}
	return plainMeta, head, nil
}

// some reports whether the remote has an object with a prefix.
func some(ctx context.Context, in blobs.Remote, prefix string) (bool, error) {
	name, err := firstOf(ctx, in, prefix)
	return name != "", err
}

// firstOf returns the first name with a prefix; "" if there is none.
func firstOf(ctx context.Context, in blobs.Remote, prefix string) (string, error) {
	for o, err := range in.After(ctx, prefix, "") {
		return o.Name, err
	}
	return "", nil
}

// plain is a remote that must not be a sealed store.
type plain struct {
	*gate
	to blobs.Remote
}

// Plain returns a remote that refuses each request if the other one has a sealed store, and a remote for
// each other address of it.
func Plain(to blobs.Remote, endpoints ...blobs.Remote) (r blobs.Remote, all []blobs.Remote) {
	g := newGate(func(ctx context.Context) error { return checkPlain(ctx, to) })
	for _, end := range endpoints {
		all = append(all, &plain{g, end})
	}
	return &plain{g, to}, all
}

// Put is described at blobs.Remote.
func (r *plain) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := r.pass(ctx); err != nil {
		return err
	}
	return r.to.Put(ctx, name, body, size)
}

// Get is described at blobs.Remote.
func (r *plain) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if err := r.pass(ctx); err != nil {
		return nil, err
	}
	return r.to.Get(ctx, name, from, n)
}

// Head is described at blobs.Remote.
func (r *plain) Head(ctx context.Context, name string) (blobs.Object, error) {
	if err := r.pass(ctx); err != nil {
		return blobs.Object{}, err
	}
	return r.to.Head(ctx, name)
}

// Delete is described at blobs.Remote.
func (r *plain) Delete(ctx context.Context, name string) error {
	if err := r.pass(ctx); err != nil {
		return err
	}
	return r.to.Delete(ctx, name)
}

// After is described at blobs.Remote.
func (r *plain) After(ctx context.Context, prefix, name string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		if err := r.pass(ctx); err != nil {
			yield(blobs.Object{}, err)
			return
		}
		for o, err := range r.to.After(ctx, prefix, name) {
			if !yield(o, err) {
				return
			}
		}
	}
}
