package admin

import (
	"io"
	"sync"
	"time"
)

// How long, and how many bytes of, lines of the access log may wait.
const (
	logWait  = 200 * time.Millisecond
	logBytes = 32 << 10
)

// A logWriter writes lines of the log. Those that come by way of Write are
// written at once, after all that came before them. Those that come by way of
// late wait for others: a busy server would otherwise spend as much on writing
// its log as on its answers. Lines are never reordered, and after Close none
// wait. A process that is killed loses the late lines of the last moment and no
// other.
type logWriter struct {
	to io.Writer

	mu      sync.Mutex
	waiting []byte // late lines
	closed  bool

	some  chan struct{} // lines wait
	close chan struct{}
	ended sync.WaitGroup
}

func newLogWriter(to io.Writer) *logWriter {
	w := &logWriter{to: to, some: make(chan struct{}, 1), close: make(chan struct{})}
	w.ended.Go(w.run)
	return w
}

// run writes what has waited long enough.
func (w *logWriter) run() {
	for {
		select {
		case <-w.some:
		case <-w.close:
			return
		}
		select {
		case <-time.After(logWait):
		case <-w.close:
			return
		}
		w.mu.Lock()
		w.flush()
		w.mu.Unlock()
	}
}

// flush writes the lines that wait. The caller has the lock.
func (w *logWriter) flush() {
	if len(w.waiting) > 0 {
		_, _ = w.to.Write(w.waiting) // there is nowhere to say that the log cannot be written
		w.waiting = w.waiting[:0]
	}
}

// Write writes a line, and what waits.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	return w.to.Write(line)
}

// Close writes what waits. What comes afterwards does not wait.
func (w *logWriter) Close() {
	close(w.close)
	w.ended.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	w.closed = true
}

// late is the way in for lines that may wait.
func (w *logWriter) late() io.Writer { return lateWriter{w} }

type lateWriter struct{ *logWriter }

func (w lateWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, line...)
	switch {
	case w.closed || len(w.waiting) >= logBytes:
		w.flush()
	default:
		select {
		case w.some <- struct{}{}:
		default: // it is known already
		}
	}
	return len(line), nil
}
