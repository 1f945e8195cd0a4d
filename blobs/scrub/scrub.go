// Package scrub reads all blobs of a store, slowly, once a week.
package scrub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"kist/blobs"
	"kist/blobs/disk"
)

// Defaults of a Scrubber.
const (
	scrubEvery = 7 * 24 * time.Hour
	scrubRate  = 20 << 20 // bytes per second
)

const (
	scrubTick = 50 * time.Millisecond
	scrubSave = time.Minute // how often the progress is saved
	scrubFile = "progress"
	// scrubBlob is what opening a blob costs, in bytes.
	scrubBlob = 16 << 10
	// scrubSkip is how many ticks in a row the scrubber leaves to a busy
	// server.
	scrubSkip = 9
)

// A Scrubber reads all blobs of a store, slowly, once a week. A blob whose
// bytes are damaged goes into quarantine (see Store.Check).
//
// It saves its progress on disk, so that it continues there after a restart.
type Scrubber struct {
	Store *blobs.Store
	Dir   string // the folder for the progress, made when it is missing; its parent must exist
	// Busy says whether others need the machine more, which makes the scrubber ten times as slow. Nil means never.
	Busy func() bool
	Log  *slog.Logger

	every time.Duration // scrubEvery, except in tests
	rate  int64         // scrubRate, except in tests

	mu   sync.Mutex
	at   progress
	last time.Time // when at was last saved
}

// progress is the saved state of a round.
type progress struct {
	Begun    time.Time `json:"begun"`    // of the latest round
	After    string    `json:"after"`    // the last ref that was checked
	Damaged  int       `json:"damaged"`  // blobs found damaged in this round
	Finished time.Time `json:"finished"` // the end of the latest complete round; before Begun during a round
}

// Finished is when the latest complete round ended; zero if none has.
func (s *Scrubber) Finished() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.Finished
}

// Run reads all blobs once a week until ctx ends. It reads the blobs in
// quarantine first: somebody may have put the right bytes back.
func (s *Scrubber) Run(ctx context.Context) {
	if s.every == 0 {
		s.every, s.rate = scrubEvery, scrubRate
	}
	folder, err := disk.OpenFolder(s.Dir)
	if err != nil {
		s.Log.Error("stored files are not checked: the progress cannot be saved", "error", err)
		return
	}
	defer folder.Close()
	s.load(folder)
	for {
		if err := s.pause(ctx); err != nil {
			return
		}
		err := s.round(ctx, folder)
		if e := s.save(folder); e != nil {
			s.Log.Warn("the progress of checking the stored files was not saved", "error", e)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.Log.Error("the check of the stored files failed; it continues in an hour", "error", err)
			if wait(ctx, time.Hour) != nil {
				return
			}
		}
	}
}

// load reads the progress that the previous process saved. Without it a new
// round begins.
func (s *Scrubber) load(folder *disk.Folder) {
	f, err := folder.Read(scrubFile)
	if err != nil {
		return
	}
	defer f.Close()
	at, err := readProgress(f)
	if err != nil {
		s.Log.Warn("the progress of checking the stored files cannot be read; the check starts again", "error", err)
		return
	}

	// A time in the future comes from a wrong clock. It must not make an
	// unfinished round look finished.
	now := time.Now().UTC()
	if at.Begun.After(now) {
		at.Begun = now
	}
	if at.Finished.After(now) {
		at.Finished = time.Time{}
	}
	s.mu.Lock()
	s.at = at
	s.mu.Unlock()
}

// readProgress reads what save has written.
func readProgress(r io.Reader) (progress, error) {
	b, err := io.ReadAll(io.LimitReader(r, 4096))
	if err != nil {
		return progress{}, err
	}
	var at progress
	if err := json.Unmarshal(b, &at); err != nil {
		return progress{}, err
	}
	if at.After != "" {
		if _, err := blobs.ParseRef(at.After); err != nil {
			return progress{}, err
		}
	}
	return at, nil
}

func (s *Scrubber) save(folder *disk.Folder) error {
	s.last = time.Now()
	b, err := json.Marshal(s.at)
	if err != nil {
		return err
	}
	return folder.Publish(scrubFile, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// pause waits until a round is due, and begins it. It does not wait if a round
// is unfinished.
func (s *Scrubber) pause(ctx context.Context) error {
	if s.at.Begun.After(s.at.Finished) {
		return nil
	}
	if !s.at.Begun.IsZero() {
		if err := wait(ctx, min(s.every, time.Until(s.at.Begun.Add(s.every)))); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = progress{Begun: time.Now().UTC(), Finished: s.at.Finished}
	return ctx.Err()
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// round reads the blobs that this round has not read yet.
func (s *Scrubber) round(ctx context.Context, folder *disk.Folder) error {
	tick := time.NewTicker(scrubTick)
	defer tick.Stop()
	p := &pacer{ctx: ctx, tick: tick.C, rate: s.rate, busy: s.Busy}
	check := func(ref blobs.Ref) error {
		if err := p.take(scrubBlob); err != nil {
			return err
		}
		return s.Store.CheckThrough(ref, p.through)
	}
	for _, d := range s.Store.Damaged.List() {
		if err := check(d.Ref); ctx.Err() != nil {
			return err
		}
	}

	var first error // the first error about a blob that is not known to be damaged
	unread := 0
	note := func(err error) {
		if !errors.Is(err, fs.ErrNotExist) {
			unread++
			first = cmp.Or(first, err)
		}
	}
	for info, err := range s.Store.After(s.at.After) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, blobs.ErrForeign) {
			continue // verify reports it
		}
		if err != nil {
			note(err)
			continue
		}

		err = check(info.Ref)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, blobs.ErrDamaged):
			s.at.Damaged++
		case err != nil:
			note(err)
		}
		s.at.After = info.Ref.String()
		if time.Since(s.last) > scrubSave {
			if err := s.save(folder); err != nil {
				return err
			}
		}
	}

	s.mu.Lock()
	s.at.Finished = time.Now().UTC()
	s.mu.Unlock()
	if first != nil {
		s.Log.Error("some stored files could not be checked; the next attempt is in a week",
			"files", unread, "begun", s.at.Begun, "damaged", s.at.Damaged, "error", first)
		return nil
	}
	s.Log.Info("all stored files were checked", "begun", s.at.Begun, "damaged", s.at.Damaged)
	return nil
}

// A pacer limits how many bytes may pass in a second.
type pacer struct {
	ctx  context.Context
	tick <-chan time.Time
	rate int64
	busy func() bool
	left int64 // bytes that may pass before the next tick
}

// take waits until bytes may pass, and counts n of them.
func (p *pacer) take(n int64) error {
	for skipped := 0; p.left <= 0; {
		select {
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		case <-p.tick:
		}
		if p.busy != nil && p.busy() && skipped < scrubSkip {
			skipped++
			continue
		}
		skipped = 0
		p.left += max(1, p.rate*int64(scrubTick)/int64(time.Second))
	}
	p.left -= n
	return nil
}

// through returns a reader of r that keeps the pace.
func (p *pacer) through(r io.Reader) io.Reader { return pacedReader{p, r} }

type pacedReader struct {
	p *pacer
	r io.Reader
}

func (r pacedReader) Read(b []byte) (int, error) {
	if err := r.p.take(0); err != nil {
		return 0, err
	}
	n, err := r.r.Read(b)
	r.p.left -= int64(n)
	return n, err
}
