package sealed

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"strings"
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

// taken returns the error of a put. If another server was faster with a slot, or with meta, it may use another key, or
// none: both have found nothing when they looked.
func (g *gate) taken(ctx context.Context, name string, err error) error {
	if !errors.Is(err, fs.ErrExist) || name != metaName && !strings.HasPrefix(name, logPrefix) {
		return err
	}
	unfit := (*blobs.Unfit)(nil)
	if errors.As(g.check(ctx), &unfit) {
		return unfit
	}
	return err
}

// Sentences about a store that does not fit the key. They say what to do.
const (
	isSealed = "what is in the object store at this prefix is encrypted; " +
		"add --store-key-file with the key file. If the file is lost, kist store key FILE --from-words " +
		"makes it again from the words of its recovery sheet"
	isPlain = "what is in the object store at this prefix is not encrypted; if it ever was, somebody has replaced it: " +
		"do not use it. Else stop the server and run kist store encrypt with the same --store and --store-key-file, " +
		"which encrypts it, or leave out --store-key-file"
	isHalf = "what is in the object store at this prefix is not wholly encrypted yet; run kist store encrypt " +
		"with the same --store and --store-key-file once more: it goes on where it stopped"
	isMixed = "what is in the object store at this prefix was encrypted, and somebody has put objects beside it that " +
		"are not; do not encrypt them, and use another prefix, or let the operator of the object store " +
		"put back what was there"
)

// checkSealed fails if the remote has a plain store, or one of another key.
func checkSealed(ctx context.Context, in blobs.Remote, key *Key) error {
	state, err := Look(ctx, in, key)
	if err != nil {
		return err
	}
	switch {
	case state.Plain && (state.Sealed || state.Done):
		return &blobs.Unfit{Text: isHalf, Bare: true}
	case state.Plain:
		return &blobs.Unfit{Text: isPlain, Bare: true}
	}
	return nil
}

// checkPlain fails if the remote has a sealed store.
func checkPlain(ctx context.Context, in blobs.Remote) error {
	meta, _, err := readMeta(ctx, in)
	if err != nil {
		return err
	}
	has, err := firstAfter(ctx, in, folder, behindContents)
	if err != nil {
		return err
	}
	if has != "" || meta == sealedMeta {
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

// A State is what a remote has.
type State struct {
	Plain  bool // a plain store, or a part of one
	Sealed bool // sealed objects
	Done   bool // the meta is sealed: the plain store is not needed any more
}

// Look returns what the remote has. It fails if what is sealed there was sealed with another key, and if plain
// objects are beside a sealed store though nothing is being encrypted. What is damaged is for those who read it:
// two objects must say that the key is another one, if there are two.
func Look(ctx context.Context, in blobs.Remote, key *Key) (s State, err error) {
	kind, head, err := readMeta(ctx, in)
	if err != nil {
		return s, err
	}
	slots, err := plainSlots(ctx, in)
	if err != nil {
		return s, err
	}
	first, err := firstOf(ctx, in, folder)
	if err != nil {
		return s, err
	}
	used, err := firstAfter(ctx, in, folder, behindContents)
	if err != nil {
		return s, err
	}
	moving, err := firstOf(ctx, in, folder+Moving)
	if err != nil {
		return s, err
	}
	s = State{
		Sealed: first != "", Done: kind == sealedMeta,
		Plain: slots || moving != "" || kind == plainMeta && used == "",
	}
	if slots && moving == "" && (used != "" || s.Done) {
		slots, err = plainSlots(ctx, in) // an encryption may have ended meanwhile
		if err != nil {
			return s, err
		}
		if slots {
			return s, &blobs.Unfit{Text: isMixed, Bare: true}
		}
		s.Plain = false
	}

	var heads [][]byte
	if kind == sealedMeta {
		heads = append(heads, head)
	}
	if s.Sealed {
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

// plainSlots reports whether the remote has plain slots. The first object of the log may be a Tombstone.
func plainSlots(ctx context.Context, in blobs.Remote) (bool, error) {
	name, err := firstOf(ctx, in, logPrefix)
	if err != nil || name == "" {
		return false, err
	}
	head, err := readStart(ctx, in, name, int64(headBytes))
	if errors.Is(err, fs.ErrNotExist) { // it was removed a moment ago
		return true, nil
	}
	return !IsSealed(head), err
}

// Tombstone is what stays under the name of the last plain slot, so that a server which has slept since puts none
// there. It says nothing.
func (k *Key) Tombstone() []byte { return k.head(randomSalt()) }

// firstOf returns the first name with a prefix; "" without one.
func firstOf(ctx context.Context, in blobs.Remote, prefix string) (string, error) {
	return firstAfter(ctx, in, prefix, "")
}

// firstAfter returns the first name with a prefix that comes after a name; "" without one.
func firstAfter(ctx context.Context, in blobs.Remote, prefix, name string) (string, error) {
	for o, err := range in.After(ctx, prefix, name) {
		return o.Name, err
	}
	return "", nil
}

// behindContents comes after the names of sealed contents, and before other sealed names. Contents may be there
// while the plain store is still in use: see Beside.
const behindContents = folder + "blobs0"

// Beside returns a Remote for the encrypted store that is being made beside a plain one. It may have contents
// while servers use the plain one. Once it has anything else, none starts on the plain one.
func Beside(key *Key, to blobs.Remote) *Remote {
	g := newGate(func(ctx context.Context) error { return nil })
	return &Remote{gate: g, to: to, key: key, most: listedAtOnce}
}

// Moving is the name of an object that keeps servers off a plain store which is becoming an encrypted one.
const Moving = "moving"

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
	return r.taken(ctx, name, r.to.Put(ctx, name, body, size)) // it may be a Tombstone
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
