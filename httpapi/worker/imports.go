package worker

import (
	"context"
	"io"
	"maps"
	"sync"
	"sync/atomic"

	"kist/kv"
	"kist/kv/record"
)

// How many imports, and how many exports, are worked on at once; others wait,
// and are told to come back.
const (
	ImportsAtOnce = 2
	ExportsAtOnce = 2
)

// Imports are the imports under way, one of an owner at most.
type Imports struct {
	mu       sync.Mutex
	running  map[record.ID]*RunningImport // by owner; nil: it is received
	ended    bool
	ctx      context.Context
	stop     context.CancelFunc
	work     sync.WaitGroup
	Imports  chan struct{}
	Exporter chan struct{}
}

// Begin readies the movers. They end with end.
func (m *Imports) Begin() {
	m.running = map[record.ID]*RunningImport{}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.Imports, m.Exporter = make(chan struct{}, ImportsAtOnce), make(chan struct{}, ExportsAtOnce)
}

// End stops the imports and returns when all are written down.
func (m *Imports) End() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
}

// Claim keeps the owner's turn.
func (m *Imports) Claim(owner record.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return kv.ErrClosed
	}
	if _, busy := m.running[owner]; busy {
		return &record.Error{Fault: record.Taken, Code: "import_running", Text: "An import of yours is under way; wait until it is done, or stop it."}
	}
	m.running[owner] = nil
	return nil
}

// Free gives the owner's turn back.
func (m *Imports) Free(owner record.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, owner)
}

// Of is the owner's import that runs, or nil.
func (m *Imports) Of(owner, id record.ID) *RunningImport {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.running[owner]; one != nil && one.Now.ID == id {
		return one
	}
	return nil
}

// RunningImport is an import under way.
type RunningImport struct {
	Mu   sync.Mutex
	Now  record.Import
	Read atomic.Int64 // bytes of the source
	Size int64        // bytes that are read in all
	Fill bool         // what is there already is filled in
	Stop context.CancelFunc
}

// Counting counts what is read of a source.
type Counting struct {
	io.ReaderAt
	N *atomic.Int64
}

func (c Counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.N.Add(int64(n))
	return n, err
}

// Tell notes how far the import is.
func (m *RunningImport) Tell(r *record.Moved) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Now.Moved = *r
	m.Now.Moved.Made = maps.Clone(r.Made)
}

// Run works on an import in the background. It reports false if the server is ending.
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
