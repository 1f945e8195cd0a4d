package console

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Progress shows how far long work is. On a terminal it is one line that is
// overwritten; elsewhere it is a plain line every few seconds. A Progress is for
// one goroutine at a time.
type Progress struct {
	Total int64              // how much work there is; 0 if that is not known
	Unit  func(int64) string // writes an amount of work; Bytes unless it is changed

	w        io.Writer
	terminal bool
	what     string
	done     int64
	started  time.Time
	said     time.Time
}

// How often progress is shown.
const (
	sayTerminal = 200 * time.Millisecond
	sayPlain    = 10 * time.Second
	longest     = 30 * 24 * time.Hour // a longer time left is not shown: it comes from a slow first moment
)

// NewProgress starts to show on w the work that what names, of total bytes.
func NewProgress(w io.Writer, what string, total int64) *Progress {
	f, ok := w.(*os.File)
	now := time.Now()
	return &Progress{
		Total: total, Unit: Bytes, w: w, terminal: ok && term.IsTerminal(int(f.Fd())),
		what: what, started: now, said: now,
	}
}

// Add says that n more are done.
func (p *Progress) Add(n int64) {
	p.done += n
	every := sayPlain
	if p.terminal {
		every = sayTerminal
	}
	if now := time.Now(); now.Sub(p.said) >= every {
		p.said = now
		p.say(now)
	}
}

// Reach says that n are done in all.
func (p *Progress) Reach(n int64) { p.Add(n - p.done) }

func (p *Progress) say(now time.Time) {
	rate := float64(p.done) / max(now.Sub(p.started).Seconds(), 0.001)
	text := fmt.Sprintf("%s: %s, %s/s", p.what, p.Unit(p.done), p.Unit(int64(rate)))
	if p.Total > 0 {
		text = fmt.Sprintf("%s: %s of %s (%d %%), %s/s", p.what, p.Unit(p.done), p.Unit(p.Total),
			min(100, p.done*100/p.Total), p.Unit(int64(rate)))
		if left := float64(p.Total-p.done) / rate; left > 0 && left < longest.Seconds() {
			text += ", " + time.Duration(left*float64(time.Second)).Round(time.Second).String() + " left"
		}
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r%s\x1b[K", text)
		return
	}
	fmt.Fprintln(p.w, text)
}

// End clears the line.
func (p *Progress) End() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Write adds the length of b.
func (p *Progress) Write(b []byte) (int, error) {
	p.Add(int64(len(b)))
	return len(b), nil
}
