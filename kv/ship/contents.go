package ship

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"

	"kist/blobs"
)

// storedContents are the contents in the store, as far as they are known, and a way to put
// more.
type storedContents struct {
	// Set once.
	remote blobs.Remote
	dir    string // the data directory
	log    *slog.Logger
	large  chan struct{} // has a value for each large content that is being put
	// request calls a function until its request succeeds: see Shipper.request.
	request func(context.Context, func() error) error

	mu     sync.Mutex
	width  int                    // how many may be put at the same time
	blobs  *blobs.Store           // nil until the first content is put
	bytes  int64                  // put by this process
	known  map[blobs.Ref]struct{} // are in the store
	doomed map[blobs.Ref]struct{} // that Prune may remove
}

// sent is how many bytes were put by this process.
func (c *storedContents) sent() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *storedContents) close() error {
	if c.blobs == nil {
		return nil
	}
	return c.blobs.Close()
}

// open opens the contents. The error is fs.ErrNotExist if there is no folder.
func (c *storedContents) open() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blobs == nil {
		c.blobs, err = blobs.Read(filepath.Join(c.dir, "blobs"))
	}
	return err
}

// putAll puts all contents that the store lacks.
func (c *storedContents) putAll(ctx context.Context) error {
	if err := c.open(); absent(err) { // nothing was uploaded yet
		return nil
	} else if err != nil {
		return err
	}
	return c.putLacking(ctx, c.blobs.All())
}

// putLacking puts the contents that the store lacks. Both lists have the same order.
func (c *storedContents) putLacking(ctx context.Context, here iter.Seq2[blobs.Info, error]) error {
	next, stop := iter.Pull2(c.remote.After(ctx, "blobs/", ""))
	defer stop()

	there, err, more := next()
	var refs []blobs.Ref
	for info, failed := range here {
		if errors.Is(failed, blobs.ErrForeign) {
			continue
		}
		if failed != nil {
			return failed
		}
		for more && err == nil && there.Name < info.Ref.RemoteName() {
			there, err, more = next()
		}
		if err != nil {
			return err
		}
		if more && there.Name == info.Ref.RemoteName() {
			continue
		}
		refs = append(refs, info.Ref)
		if len(refs) == 1000 {
			if err := c.put(ctx, refs); err != nil {
				return err
			}
			refs = refs[:0]
		}
	}
	return c.put(ctx, refs)
}

// put puts the contents that the store may lack.
func (c *storedContents) put(ctx context.Context, refs []blobs.Ref) error {
	var all []blobs.Ref
	wanted := map[blobs.Ref]bool{}
	c.mu.Lock()
	for _, ref := range refs {
		if _, known := c.known[ref]; !known && !wanted[ref] {
			wanted[ref] = true
			all = append(all, ref)
		}
	}
	c.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	if err := c.open(); err != nil {
		return err
	}

	for len(all) > 0 {
		c.mu.Lock()
		some := all[:min(len(all), c.width)]
		c.mu.Unlock()
		err := together(ctx, len(some), len(some), func(ctx context.Context, i int) error {
			err := c.putOne(ctx, some[i])
			if err == errNotHere { //nolint:errorlint // never wrapped
				return nil
			}
			if err != nil {
				return err
			}
			c.setKnown(some[i])
			return nil
		})
		c.widen(err == nil)
		if err != nil {
			return err
		}
		all = all[len(some):]
	}
	return nil
}

// widen lets more contents be put at the same time, or after a failure only a few.
func (c *storedContents) widen(well bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !well {
		c.width = atOnce
		return
	}
	c.width = min(2*c.width, smallAtOnce)
}

// setKnown notes that a content is in the store.
func (c *storedContents) setKnown(ref blobs.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.known { // in random order, since any will do
		if len(c.known) < maxKnown {
			break
		}
		delete(c.known, old)
	}
	c.known[ref] = struct{}{}
}

// askFirst is from how many bytes on a content is looked for before it is sent.
const askFirst = 256 << 10

// errNotHere says that a content is missing or damaged here.
var errNotHere = errors.New("the content cannot be read")

// putOne puts a content unless it is there. It fails with errNotHere for one that is
// missing or damaged here, which the history does without: no restart could bring it back.
func (c *storedContents) putOne(ctx context.Context, ref blobs.Ref) error {
	f, err := c.blobs.Get(ref)
	if absent(err) || errors.Is(err, blobs.ErrDamaged) {
		return c.find(ctx, ref)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}

	if info.Size() >= askFirst {
		select {
		case c.large <- struct{}{}:
			defer func() { <-c.large }()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := c.head(ctx, ref); !absent(err) {
			return err
		}
	}
	err = blobs.CheckBytes(ref, f)
	if errors.Is(err, blobs.ErrDamaged) {
		return c.find(ctx, ref)
	}
	if err != nil {
		return err
	}

	err = c.request(ctx, func() error { return c.remote.Put(ctx, ref.RemoteName(), f, info.Size()) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += info.Size()
	return nil
}

// find looks for a content in the store that cannot be read here. It may have
// been evicted.
func (c *storedContents) find(ctx context.Context, ref blobs.Ref) error {
	err := c.head(ctx, ref)
	if absent(err) {
		c.log.Warn("a file cannot be shipped to the object store, because its bytes are missing or damaged here",
			"sha256", ref.String())
		return errNotHere
	}
	return err
}

// head returns fs.ErrNotExist if the store lacks a content.
func (c *storedContents) head(ctx context.Context, ref blobs.Ref) error {
	return Again(ctx, func() error {
		_, err := c.remote.Head(ctx, ref.RemoteName())
		return err
	})
}

// doom notes the contents that may be removed, unless they are spared.
func (c *storedContents) doom(refs []blobs.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doomed = map[blobs.Ref]struct{}{}
	for _, ref := range refs {
		c.doomed[ref] = struct{}{}
	}
}

// spare notes that a content must stay.
func (c *storedContents) spare(ref blobs.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.doomed, ref)
}

func (c *storedContents) isDoomed(ref blobs.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, is := c.doomed[ref]
	return is
}

// forget forgets that a content is in the store.
func (c *storedContents) forget(ref blobs.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, ref)
}
