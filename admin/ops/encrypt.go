package ops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"kist/admin/console"
	"kist/blobs"
	"kist/blobs/sealed"
	"kist/kv/datadir"
	"kist/kv/record"
	"kist/kv/ship"
)

// Encrypted is what Encrypt did.
type Encrypted struct {
	Store   string `json:"store"`
	Copied  int    `json:"copied"`  // objects that were encrypted by this run
	Bytes   int64  `json:"bytes"`   // of these, before that
	Checked int    `json:"checked"` // objects that were read back
	Removed int    `json:"removed"` // objects that were not encrypted
	Already bool   `json:"already"` // nothing was left to do
}

// encryption is one run of Encrypt.
type encryption struct {
	Job
	from    blobs.Remote   // the plain store
	to      *sealed.Remote // the encrypted one
	key     *sealed.Key
	scratch *blobs.Store // for contents on their way
	dir     string       // for other objects on their way
	damaged bool         // contents that are damaged stay behind

	mu     sync.Mutex // guards what follows
	result Encrypted
	bad    []blobs.Ref // contents that are damaged
}

// Encrypt makes an encrypted store of a plain one at the same place, and removes the plain one when all of the
// encrypted one was read back. It may end at any moment: the next call goes on. A server that still writes
// there stops. With damaged, contents that are damaged in the plain store are left behind; else they end it before
// anything changes for a server. DESIGN.md of blobs/sealed has the steps.
func (j Job) Encrypt(
	ctx context.Context, store blobs.Remote, key *sealed.Key, address string, damaged bool,
) (*Encrypted, error) {
	state, err := sealed.Look(ctx, store, key)
	if bare(err) && wasSealed(j.Dir, address) {
		return nil, errors.New(ship.Replaced(address))
	}
	if err != nil {
		return nil, err
	}
	e := &encryption{Job: j, from: store, to: sealed.Beside(key, store), key: key, damaged: damaged}
	e.result.Store = address
	switch {
	case !state.Plain && state.Sealed:
		e.result.Already = true
		return &e.result, nil
	case !state.Plain:
		return nil, fmt.Errorf("there is no data of kist at %s; to begin with an encrypted store, "+
			"start kist serve with --store and --store-key-file", address)
	}

	if err := e.introduce(ctx, state); err != nil {
		return nil, err
	}

	there, err := HasData(j.Dir)
	if err != nil {
		return nil, err
	}
	if !there && j.Scratch == "" {
		return nil, noScratch(j.Dir)
	}
	work, err := newScratch(j.Scratch, within(j.Dir))
	if err != nil {
		return nil, err
	}
	defer work.Close() //nolint:errcheck // the next run removes what is left
	e.dir = work.Path
	e.scratch, err = blobs.Open(filepath.Join(e.dir, "blobs"))
	if err != nil {
		return nil, err
	}
	defer e.scratch.Close()

	if state.Done {
		err = e.resume(ctx)
	} else {
		err = e.move(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &e.result, e.remove(ctx)
}

// introduce says whose data is there. It fails if that is not the data of the data directory, or replaces
// an encrypted store.
func (e *encryption) introduce(ctx context.Context, state sealed.State) error {
	if wasSealed(e.Dir, e.result.Store) {
		return errors.New(ship.Replaced(e.result.Store))
	}
	from := e.from
	if state.Done {
		from = e.to
	}
	instance, last, err := ship.Latest(ctx, from)
	if errors.Is(err, fs.ErrNotExist) { // meta alone was there, and a run has ended while it replaced that
		return nil
	}
	if err != nil {
		return err
	}
	here, err := datadir.ReadInstance(e.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if here != "" && here != instance {
		return fmt.Errorf("%s has the data of instance %s, and the data directory %s belongs to instance %s; "+
			"look at --store, and name the data directory of that data with --data-dir, or an empty one if it is lost",
			e.result.Store, instance, e.Dir, here)
	}

	when := "no change yet"
	if !last.IsZero() {
		when = "the last change at " + last.UTC().Format(time.RFC3339)
	}
	_, err = fmt.Fprintf(e.Stderr, "%s has the data of instance %s, with %s. If you do not know it, stop this command.\n",
		e.result.Store, instance, when)
	return err
}

// errWritten says that somebody undoes what the command does.
var errWritten = errors.New("a server still writes to the object store; stop it, and run this command again")

// bare reports whether an error says that what is there is not encrypted, or not all of it.
func bare(err error) bool {
	unfit := (*blobs.Unfit)(nil)
	return errors.As(err, &unfit) && unfit.Bare
}

// wasSealed reports whether the data directory has an encrypted store at the address.
func wasSealed(dir, address string) bool {
	there, err := ship.SealedIn(dir)
	return err == nil && there != "" && there == strings.TrimRight(address, "/")
}

// resume goes on where an earlier run has ended while it removed the plain store. All of that was read back then,
// so only contents are copied, whose names are their hashes: somebody may have put other objects there since.
func (e *encryption) resume(ctx context.Context) error {
	_, err := readSmall(ctx, e.to, ship.MetaName)
	if err != nil {
		return fmt.Errorf("this command has not made what is there: %w", err)
	}
	e.damaged = true // they were left behind then
	return e.contents(ctx)
}

// move makes the encrypted store, checks it, and lets it be the store.
func (e *encryption) move(ctx context.Context) error {
	// Contents take longest, and a server may run meanwhile.
	if err := e.contents(ctx); err != nil {
		return err
	}
	meta, err := e.close(ctx)
	if err != nil {
		return err
	}
	if err := e.copyRest(ctx); err != nil {
		return err
	}

	if err := ship.Again(ctx, func() error { return e.from.Delete(ctx, ship.MetaName) }); err != nil {
		return err
	}
	if err := put(ctx, e.to, ship.MetaName, meta); err != nil {
		return err
	}
	state, err := sealed.Look(ctx, e.from, e.key)
	if err != nil {
		return err
	}
	if !state.Done {
		return errWritten
	}
	return nil
}

// copyRest copies what came since the last step, and all but the contents, and reads everything back.
func (e *encryption) copyRest(ctx context.Context) error {
	if err := e.contents(ctx); err != nil {
		return err
	}
	for _, prefix := range ship.Prefixes() {
		if prefix == ship.ContentPrefix {
			continue
		}
		if err := e.copyAll(ctx, prefix); err != nil {
			return err
		}
	}
	return e.check(ctx)
}

// put puts a small object, which may be there.
func put(ctx context.Context, to blobs.Remote, name string, b []byte) error {
	err := ship.Again(ctx, func() error { return to.Put(ctx, name, bytes.NewReader(b), int64(len(b))) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// close keeps servers off the plain store, and returns its meta. The object that does so has a copy of that: a
// run that ends between its removal and the end of the next step must not lose it.
func (e *encryption) close(ctx context.Context) (meta []byte, err error) {
	meta, err = readSmall(ctx, e.to, sealed.Moving)
	if errors.Is(err, fs.ErrNotExist) {
		meta, err = readSmall(ctx, e.from, ship.MetaName)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the object meta is missing in the object store; start the server without --store-key-file, " +
			"which puts it there again, stop it, and run this command again")
	}
	if err != nil {
		return nil, err
	}
	if err := put(ctx, e.to, sealed.Moving, meta); err != nil {
		return nil, err
	}
	return meta, ship.Fence(ctx, e.from)
}

// readSmall returns a small object.
func readSmall(ctx context.Context, from blobs.Remote, name string) (b []byte, err error) {
	const most = 1 << 20
	err = ship.Again(ctx, func() error {
		r, err := from.Get(ctx, name, 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		b, err = io.ReadAll(io.LimitReader(r, most))
		return err
	})
	return b, err
}

// atOnce is how many objects are read and written at the same time.
const atOnce = 8

// each calls fn with the objects of a prefix, several at the same time, until a call fails.
func each(ctx context.Context, remote blobs.Remote, prefix string, fn func(context.Context, blobs.Object) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan blobs.Object)
	var work sync.WaitGroup
	for range atOnce {
		work.Go(func() {
			for o := range next {
				if err := fn(ctx, o); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := walk(ctx, remote, prefix, func(o blobs.Object) {
		select {
		case next <- o:
		case <-ctx.Done():
		}
	})
	close(next)
	work.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// walk calls fn with the objects of a prefix. It goes on where a failure has ended the list.
func walk(ctx context.Context, remote blobs.Remote, prefix string, fn func(blobs.Object)) error {
	at := ""
	return ship.Again(ctx, func() error {
		for o, err := range remote.After(ctx, prefix, at) {
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			at = o.Name
			fn(o)
		}
		return nil
	})
}

// shared returns a writer that counts what several goroutines write to it.
func (e *encryption) shared(what string) (w io.Writer, end func()) {
	p := e.progress(what, 0)
	return &sharedWriter{to: p}, p.End
}

type sharedWriter struct {
	mu sync.Mutex // guards to
	to io.Writer
}

// Write writes to the one below, one at a time.
func (w *sharedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// contents copies the contents that the encrypted store lacks.
func (e *encryption) contents(ctx context.Context) error {
	p, end := e.shared("Encrypting the files")
	defer end()
	e.bad = nil
	err := each(ctx, e.from, ship.ContentPrefix, func(ctx context.Context, o blobs.Object) error {
		err := e.content(ctx, o, p)
		if err != nil {
			return fmt.Errorf("%s could not be encrypted: %w", o.Name, err)
		}
		return nil
	})
	if err != nil || len(e.bad) == 0 || e.damaged {
		return err
	}
	advice := "start the server without --store-key-file, which sends it again within a day if it has it, or " +
		"leave damaged files behind with --leave-damaged"
	_, err = e.head(ctx, sealed.Moving)
	open := errors.Is(err, fs.ErrNotExist)
	if err != nil && !open {
		return err
	}
	if !open { // no server starts any more
		advice = "run this command again with --leave-damaged, and start the server with --store-key-file then, " +
			"which sends it again within a day if it has it"
	}
	return fmt.Errorf("%s in the object store %s damaged, such as the one with the SHA-256 %s; %s. Nothing was removed",
		record.Plural(len(e.bad), "file"), console.Word(len(e.bad) == 1, "is", "are"), e.bad[0], advice)
}

// content copies a content.
func (e *encryption) content(ctx context.Context, o blobs.Object, p io.Writer) error {
	ref, ok := refOf(o.Name)
	if !ok {
		return nil // not kist's
	}
	there, err := e.head(ctx, o.Name)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return err
	}
	if !absent && there.Size == o.Size {
		return nil
	}
	if !absent {
		if err := ship.Again(ctx, func() error { return e.to.Delete(ctx, o.Name) }); err != nil {
			return err
		}
	}

	err = fetchContent(ctx, e.from, e.scratch, ref, p)
	if errors.Is(err, blobs.ErrDamaged) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.bad = append(e.bad, ref)
		return nil
	}
	if err != nil {
		return err
	}
	f, err := e.scratch.Get(ref)
	if err != nil {
		return err
	}
	defer f.Close()
	err = e.put(ctx, o.Name, f, o.Size)
	_, failed := e.scratch.Unlink(ref, func() (bool, error) { return true, nil })
	return errors.Join(err, failed)
}

// refOf reads the name of a content.
func refOf(name string) (ref blobs.Ref, ok bool) {
	ref, err := blobs.ParseRef(name[strings.LastIndexByte(name, '/')+1:])
	return ref, err == nil && ref.RemoteName() == name
}

// head describes an object of the encrypted store.
func (e *encryption) head(ctx context.Context, name string) (o blobs.Object, err error) {
	err = ship.Again(ctx, func() (err error) {
		o, err = e.to.Head(ctx, name)
		return err
	})
	return o, err
}

// put puts an object into the encrypted store.
func (e *encryption) put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	err := ship.Again(ctx, func() error { return e.to.Put(ctx, name, body, size) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.result.Copied++
	e.result.Bytes += size
	return nil
}

// copyAll copies the objects of a prefix that the encrypted store lacks.
func (e *encryption) copyAll(ctx context.Context, prefix string) error {
	p, end := e.shared("Encrypting the records")
	defer end()
	return each(ctx, e.from, prefix, func(ctx context.Context, o blobs.Object) error {
		if prefix == ship.LogPrefix && o.Size == int64(len(e.key.Tombstone())) { // no slot is so small
			return nil
		}
		there, err := e.head(ctx, o.Name)
		if err == nil && there.Size == o.Size {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, size, err := e.fetch(ctx, o.Name, p)
		if err != nil {
			return err
		}
		defer f.Close()
		return e.put(ctx, o.Name, f, size)
	})
}

// fetch reads a plain object into a file without a name.
func (e *encryption) fetch(ctx context.Context, name string, p io.Writer) (f *os.File, size int64, err error) {
	f, err = os.CreateTemp(e.dir, "")
	if err != nil {
		return nil, 0, err
	}
	_ = os.Remove(f.Name()) // where that fails, the folder is removed later
	err = ship.Again(ctx, func() error {
		r, err := e.from.Get(ctx, name, 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = f.Seek(0, io.SeekStart)
		if err != nil {
			return err
		}
		size, err = io.Copy(f, io.TeeReader(r, p))
		return err
	})
	if err != nil {
		_ = f.Close() // it is not needed
		return nil, 0, err
	}
	return f, size, nil
}

// check reads back all of the encrypted store and compares it with the plain one.
func (e *encryption) check(ctx context.Context) error {
	p, end := e.shared("Reading back")
	defer end()
	for _, prefix := range ship.Prefixes() {
		err := each(ctx, e.from, prefix, func(ctx context.Context, o blobs.Object) error {
			_, isContent := refOf(o.Name)
			if prefix == ship.ContentPrefix && !isContent ||
				prefix == ship.LogPrefix && o.Size == int64(len(e.key.Tombstone())) {
				return nil
			}
			return e.compare(ctx, o, prefix, p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compare reads an object back.
func (e *encryption) compare(ctx context.Context, o blobs.Object, prefix string, p io.Writer) error {
	got, err := sum(ctx, e.to, o.Name, p)
	ref, _ := refOf(o.Name)
	if errors.Is(err, fs.ErrNotExist) && prefix == ship.ContentPrefix && e.leaves(ref) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s could not be read back: %w", o.Name, err)
	}
	want := [sha256.Size]byte(ref)
	if prefix != ship.ContentPrefix {
		want, err = sum(ctx, e.from, o.Name, io.Discard)
		if err != nil {
			return err
		}
	}
	if got != want {
		return fmt.Errorf("%s was read back with other bytes; nothing was removed. Run this command again", o.Name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.result.Checked++
	return nil
}

// leaves reports whether a content stays behind because it is damaged.
func (e *encryption) leaves(ref blobs.Ref) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.damaged && slices.Contains(e.bad, ref)
}

// sum returns the SHA-256 of an object. seen gets its bytes, too.
func sum(ctx context.Context, from blobs.Remote, name string, seen io.Writer) (got [sha256.Size]byte, err error) {
	err = ship.Again(ctx, func() error {
		r, err := from.Get(ctx, name, 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		h := sha256.New()
		_, err = io.Copy(io.MultiWriter(h, seen), r)
		h.Sum(got[:0])
		return err
	})
	return got, err
}

// remove removes the plain store. Slots go last: as long as there is one, no server starts.
func (e *encryption) remove(ctx context.Context) error {
	p := e.progress("Removing what is not encrypted", 0)
	defer p.End()
	last := "" // the fence
	err := walk(ctx, e.to, ship.LogPrefix, func(o blobs.Object) { last = o.Name })
	if err != nil {
		return err
	}
	for _, prefix := range append([]string{ship.RacePrefix}, ship.Prefixes()...) {
		err := each(ctx, e.from, prefix, func(ctx context.Context, o blobs.Object) error {
			if o.Name == last {
				return nil
			}
			return e.removeOne(ctx, o)
		})
		if err != nil {
			return err
		}
	}
	if last != "" {
		if err := e.bury(ctx, last); err != nil {
			return err
		}
	}
	return ship.Again(ctx, func() error { return e.to.Delete(ctx, sealed.Moving) })
}

// bury puts a tombstone in the place of the fence: a server that has slept since would put its next slot there.
func (e *encryption) bury(ctx context.Context, name string) error {
	there, err := readSmall(ctx, e.from, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if sealed.IsSealed(there) {
		return nil
	}
	if err := ship.Again(ctx, func() error { return e.from.Delete(ctx, name) }); err != nil {
		return err
	}
	if err := put(ctx, e.from, name, e.key.Tombstone()); err != nil {
		return err
	}
	there, err = readSmall(ctx, e.from, name)
	if err != nil {
		return err
	}
	if !sealed.IsSealed(there) {
		return errWritten
	}
	return nil
}

// removeOne removes a plain object that has been copied. One that has not was put there meanwhile.
func (e *encryption) removeOne(ctx context.Context, o blobs.Object) error {
	ref, content := refOf(o.Name)
	_, err := e.head(ctx, o.Name)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(o.Name, ship.RacePrefix) && !(content && e.leaves(ref)) {
		return fmt.Errorf("%s was put into the object store while it was encrypted; stop the server that still writes "+
			"there, and run this command again. If there is none, somebody else has put it there: "+
			"it was not encrypted; let the operator of the object store remove it", o.Name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := ship.Again(ctx, func() error { return e.from.Delete(ctx, o.Name) }); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.result.Removed++
	return nil
}
