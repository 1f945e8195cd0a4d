package worker

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"kist/blobs/flight"
	"kist/httpapi/limit"
	"kist/kv"
	"kist/kv/record"
	"kist/kv/transfer"
)

// How many imports and exports run at the same time. Other imports wait; other exports are
// told to try again.
const (
	ImportsAtOnce = 2
	ExportsAtOnce = 4

	exportWait = 10 * time.Second // before another attempt
)

// Imports are the running imports, at most one per owner.
type Imports struct {
	mu      sync.Mutex
	running map[record.ID]*RunningImport // by owner; nil while it is being received
	ended   bool
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	Turns   flight.Turns // to read a source
	exports *limit.AtOnce[record.ID]
}

// Begin prepares the imports. End ends them.
func (m *Imports) Begin() {
	m.running = map[record.ID]*RunningImport{}
	m.exports = &limit.AtOnce[record.ID]{All: ExportsAtOnce, Each: 1}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.Turns = make(flight.Turns, ImportsAtOnce)
}

// End stops the imports and returns when the state of all is stored.
func (m *Imports) End() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
}

// Claim reserves the owner's only slot.
func (m *Imports) Claim(owner record.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return kv.ErrClosed
	}
	if _, busy := m.running[owner]; busy {
		return &record.Error{
			Fault: record.Taken, Code: "import_running",
			Text: "One of your imports is running. Wait until it is done, or stop it.",
		}
	}
	m.running[owner] = nil
	return nil
}

// Free releases the owner's slot.
func (m *Imports) Free(owner record.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, owner)
}

// BeginExport reserves one of the slots for exports, of which an owner gets one. EndExport releases it.
func (m *Imports) BeginExport(owner record.ID) error {
	err := m.exports.Take(owner, 1)
	if err == nil {
		return nil
	}
	text := "Too many exports are running. Try again in a moment."
	if errors.Is(err, limit.ErrEach) {
		text = "One of your exports is running. Wait until it is done."
	}
	return &record.Error{Fault: record.Busy, Code: "busy", Text: text, Retry: exportWait}
}

func (m *Imports) EndExport(owner record.ID) { m.exports.Give(owner, 1) }

// Of is the owner's running import with the id, or nil.
func (m *Imports) Of(owner, id record.ID) *RunningImport {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.running[owner]; one != nil && one.Now.ID == id {
		return one
	}
	return nil
}

// RunningImport is a running import.
type RunningImport struct {
	Mu   sync.Mutex
	Now  transfer.ImportRun
	Read atomic.Int64 // bytes of the source
	Size int64        // total bytes to read
	Fill bool         // fill in existing items
	Stop context.CancelFunc
}

// Counting counts the bytes read from a source.
type Counting struct {
	io.ReaderAt
	N *atomic.Int64
}

func (c Counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.N.Add(int64(n))
	return n, err
}

// Tell updates the progress of the import.
func (m *RunningImport) Tell(r *transfer.Moved) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Now.Moved = *r
	m.Now.Moved.Made = maps.Clone(r.Made)
}

// Run works on an import in the background. It returns false if the server is stopping.
func (m *Imports) Run(one *RunningImport, work func(context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return false
	}
	ctx, cancel := context.WithCancel(m.ctx)
	one.Stop = cancel
	m.running[one.Now.Owner] = one
	m.work.Go(func() {
		defer m.Free(one.Now.Owner)
		defer cancel()
		work(ctx)
	})
	return true
}
