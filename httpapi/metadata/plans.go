package metadata

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"kist/blobs"
	"kist/blobs/flight"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// Rules is the version of the rules by which plans are made. If the rules change what a clean file has, or what is found
// out about a photo, raise it: then all files are examined again, and visitors get other entity tags.
const Rules = 4

// ahead is how far the clock of a camera may be before that of the server.
const ahead = 24 * time.Hour

// Bounds of the plans in memory.
const (
	maxKept  = 1000     // plans
	maxBytes = 16 << 20 // of all of them; one of maxPieces takes 5 MB
	atOnce   = 2        // are made
)

// Plans makes plans for contents, each once, and keeps those that were used last.
type Plans struct {
	store *kv.Store
	blobs *blobs.Store
	log   *slog.Logger
	made  flight.Group[planKey, *planned]

	mu    sync.Mutex
	kept  map[planKey]*list.Element // of *planned
	order list.List                 // used last first
	bytes int
}

type planKey struct {
	ref       blobs.Ref
	mediaType string
}

// planned is what is known about a content: its plan, or why it has none.
type planned struct {
	planKey
	plan *Plan
	err  error
}

// NewPlans makes an empty Plans.
func NewPlans(s *kv.Store, b *blobs.Store, log *slog.Logger) *Plans {
	p := &Plans{store: s, blobs: b, log: log, kept: map[planKey]*list.Element{}}
	p.made.Turns = make(flight.Turns, atOnce)
	return p
}

// Of returns the plan of a content. Its errors are those of Clean, of blobs.Store.Get, and of ctx while it waits.
func (p *Plans) Of(ctx context.Context, ref blobs.Ref, mediaType string) (*Plan, error) {
	key := planKey{ref, mediaType}
	if v := p.find(key); v != nil {
		return v.plan, v.err
	}
	v, err := p.made.Do(ctx, key, func(context.Context) (*planned, error) {
		if v := p.find(key); v != nil { // made meanwhile
			return v, nil
		}
		plan, err := p.make(key)
		if err != nil && !errors.Is(err, ErrKept) && !errors.Is(err, ErrNone) && !errors.Is(err, ErrUnreadable) {
			return nil, err
		}
		v := &planned{key, plan, err}
		p.keep(v)
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	return v.plan, v.err
}

// find returns what is kept about a content, or nil.
func (p *Plans) find(key planKey) *planned {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.kept[key]
	if e == nil {
		return nil
	}
	p.order.MoveToFront(e)
	return e.Value.(*planned)
}

// keep keeps what was found out, and forgets what was not used for longest if that is too much.
func (p *Plans) keep(v *planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[v.planKey] = p.order.PushFront(v)
	p.bytes += v.plan.memory()
	for p.order.Len() > maxKept || p.bytes > maxBytes {
		old := p.order.Remove(p.order.Back()).(*planned)
		delete(p.kept, old.planKey)
		p.bytes -= old.plan.memory()
	}
}

func (p *Plans) make(key planKey) (plan *Plan, err error) {
	defer func() {
		if r := recover(); r != nil { // foreign bytes must not end a request, or keep others waiting
			p.log.Error("cannot read the metadata of a file", "content", key.ref, "error", r)
			plan, err = nil, unreadable("%v", r)
		}
	}()
	f, err := p.blobs.Get(key.ref)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return Clean(f, info.Size(), key.mediaType)
}

// Close waits for the plans that are being made. From then on, no other is made.
func (p *Plans) Close() { p.made.Close() }

// A Finding is what a content says about its making.
type Finding struct {
	record.Metadata
	Photo record.Photo
}

// Examine finds out about the metadata of a content. Its errors are those of Of, except of Clean.
func (p *Plans) Examine(ctx context.Context, ref blobs.Ref, mediaType string) (Finding, error) {
	m := Finding{Metadata: record.Metadata{Rules: Rules}}
	plan, err := p.Of(ctx, ref, mediaType)
	switch {
	case err == nil && len(plan.Found) == 0, errors.Is(err, ErrNone):
		m.State = record.MetadataNone
	case err == nil:
		m.State, m.Size = record.MetadataRemovable, plan.size
	case errors.Is(err, ErrKept):
		m.State = record.MetadataKept
	case errors.Is(err, ErrUnreadable):
		m.State = record.MetadataUnreadable
	default:
		return Finding{}, err
	}
	if plan == nil {
		return m, nil
	}
	m.Found, m.Photo = record.FoundOf(plan.Found), plan.Photo
	if m.Photo.Taken.After(p.store.Now().Add(ahead)) {
		m.Photo.Taken = time.Time{}
	}
	return m, nil
}

// examineFile examines the content of a record of a file.
func (p *Plans) examineFile(ctx context.Context, r *record.Record) (Finding, error) {
	b, err := r.Decode()
	if err != nil {
		return Finding{}, err
	}
	return p.Examine(ctx, r.Bytes.Ref, b.(*record.File).MimeType)
}

// Bounds of a step of Run, and the pause after an error.
const (
	examinedAtOnce = 50
	again          = time.Minute
)

// Run examines files that were not examined when they were added, until ctx ends.
func (p *Plans) Run(ctx context.Context) {
	at := uint64(0)
	for {
		more, err := p.step(ctx, &at)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.log.Error("cannot examine the metadata of files", "error", err)
		case more:
			continue
		}
		var pause <-chan time.Time
		if err != nil {
			pause = time.After(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-catalog.UnexaminedAdded(p.store):
		case <-pause:
		}
	}
}

// step examines some files from a place in the feed of changes on, and moves the place.
func (p *Plans) step(ctx context.Context, at *uint64) (more bool, err error) {
	var files []*record.Record
	next := *at
	if err := p.store.View(func(tx *kv.Tx) error {
		files, next = catalog.Unexamined(tx, *at, examinedAtOnce, Rules)
		return nil
	}); err != nil {
		return false, err
	}
	found := make([]Finding, len(files))
	for i, r := range files {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		found[i], err = p.examineFile(ctx, r)
		if err != nil { // its bytes are missing or damaged, which others report
			p.log.Debug("cannot examine the metadata of a file", "id", r.ID.String(), "error", err)
		}
	}
	if len(files) > 0 {
		if err := p.store.Update(func(tx *kv.Tx) error {
			for i, r := range files {
				if found[i].State == record.NotExamined {
					continue
				}
				if err := catalog.Examined(tx, r, found[i].Metadata, found[i].Photo); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return false, err
		}
	}
	more = next > *at
	*at = next
	return more, nil
}
