package admin

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress says on standard error how far long work is: on a terminal in one
// line that is written over, elsewhere in a plain line now and then.
type progress struct {
	w        io.Writer
	terminal bool
	what     string
	total    int64 // bytes, or what unit counts; 0 if not known
	done     int64
	unit     func(int64) string
	begun    time.Time
	said     time.Time
}

// How often progress is said.
const (
	sayTerminal = 200 * time.Millisecond
	sayPlain    = 10 * time.Second
	longest     = 30 * 24 * time.Hour // of the time left that is said: more is no more than a slow first moment
)

// progress begins to tell of work on total bytes.
func (c *Call) progress(what string, total int64) *progress {
	f, ok := c.Stderr.(*os.File)
	now := time.Now()
	return &progress{w: c.Stderr, terminal: ok && term.IsTerminal(int(f.Fd())), what: what, total: total, unit: size, begun: now, said: now}
}

// add says that n more bytes are done.
func (p *progress) add(n int64) {
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

func (p *progress) say(now time.Time) {
	rate := float64(p.done) / max(now.Sub(p.begun).Seconds(), 0.001)
	text := fmt.Sprintf("%s: %s, %s/s", p.what, p.unit(p.done), p.unit(int64(rate)))
	if p.total > 0 {
		text = fmt.Sprintf("%s: %s of %s (%d %%), %s/s", p.what, p.unit(p.done), p.unit(p.total), min(100, p.done*100/p.total), p.unit(int64(rate)))
		if left := float64(p.total-p.done) / rate; left > 0 && left < longest.Seconds() {
			text += ", " + time.Duration(left*float64(time.Second)).Round(time.Second).String() + " left"
		}
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r%s\x1b[K", text)
		return
	}
	fmt.Fprintln(p.w, text)
}

// end clears the line.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Write counts what passes.
func (p *progress) Write(b []byte) (int, error) {
	p.add(int64(len(b)))
	return len(b), nil
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n), "KMGTPE"
	i := -1
	for value >= unit && i < len(names)-1 {
		value /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", value, names[i])
}
