package admin

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
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

// A textHandler writes what a [slog.TextHandler] writes, and does so faster for
// records of texts and numbers, as there is one for every request: the time is
// worked out once a second, and nothing is allocated. All others it leaves to
// that.
type textHandler struct {
	*slog.TextHandler
	to     io.Writer
	second *atomic.Pointer[secondText]
}

// secondText is how the times within one second are written.
type secondText struct {
	unix          int64
	zone          *time.Location
	before, after string // of the milliseconds
}

func newTextHandler(to io.Writer, o *slog.HandlerOptions) slog.Handler {
	return textHandler{slog.NewTextHandler(to, o), to, new(atomic.Pointer[secondText])}
}

var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// Handle writes a record.
func (h textHandler) Handle(ctx context.Context, r slog.Record) error {
	buf := lineBuffers.Get().(*[]byte)
	defer lineBuffers.Put(buf)
	b := append((*buf)[:0], "time="...)
	b = h.appendTime(b, r.Time)
	b = append(append(b, " level="...), r.Level.String()...)
	b = appendText(append(b, " msg="...), r.Message)
	plain := !r.Time.IsZero()
	r.Attrs(func(a slog.Attr) bool {
		b = append(appendText(append(b, ' '), a.Key), '=')
		switch v := a.Value; v.Kind() {
		case slog.KindString:
			b = appendText(b, v.String())
		case slog.KindInt64:
			b = strconv.AppendInt(b, v.Int64(), 10)
		case slog.KindFloat64:
			b = strconv.AppendFloat(b, v.Float64(), 'g', -1, 64)
		default:
			plain = false
		}
		return plain
	})
	*buf = b
	if !plain {
		return h.TextHandler.Handle(ctx, r)
	}
	_, err := h.to.Write(append(b, '\n'))
	return err
}

// appendTime writes a time as RFC 3339 has it, with milliseconds.
func (h textHandler) appendTime(b []byte, t time.Time) []byte {
	s := h.second.Load()
	if s == nil || s.unix != t.Unix() || s.zone != t.Location() {
		text := t.Truncate(time.Second).Format("2006-01-02T15:04:05.000Z07:00")
		const at = len("2006-01-02T15:04:05.")
		s = &secondText{t.Unix(), t.Location(), text[:at], text[at+3:]}
		h.second.Store(s)
	}
	ms := t.Nanosecond() / 1e6
	b = append(append(b, s.before...), byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
	return append(b, s.after...)
}

// appendText writes text as it is where that leaves no doubt, else quoted.
func appendText(b []byte, text string) []byte {
	quoted := text == ""
	for i := 0; i < len(text) && !quoted; {
		c := text[i]
		if c < utf8.RuneSelf {
			quoted = c <= ' ' || c == '=' || c == '"'
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		quoted = r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r)
		i += size
	}
	if quoted {
		return strconv.AppendQuote(b, text)
	}
	return append(b, text...)
}
