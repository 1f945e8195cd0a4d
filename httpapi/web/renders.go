package web

import (
	"cmp"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"html/template"
	"strings"
	"sync"
	"time"

	"kist/blobs/flight"
	"kist/embed"
	"kist/httpapi/limit"
	"kist/httpapi/render"
)

// Renders makes HTML of texts, a few at a time, and caches it, so that a page that many
// people open costs little. The key is the text itself, so a changed text is a new entry.
type Renders struct {
	turns flight.Turns
	made  flight.Group[[sha256.Size]byte, embed.CodeView]

	mu    sync.Mutex
	kept  map[[sha256.Size]byte]*list.Element
	used  list.List // of *rendered, the latest used first
	bytes int
}

// NewRenders makes an empty Renders.
func NewRenders() *Renders {
	return &Renders{turns: make(flight.Turns, rendersAtOnce), kept: map[[sha256.Size]byte]*list.Element{}}
}

type keptRender struct {
	key   [sha256.Size]byte
	view  embed.CodeView
	until time.Time
}

// keyOf is a digest of the parts. Each part follows its length, so that different lists of
// parts have different digests.
func keyOf(parts ...string) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	h.Sum(key[:0])
	return key
}

// Markdown renders a text. A blank text gives "".
func (r *Renders) Markdown(text string) (template.HTML, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	v, err := r.get(keyOf("markdown", text), func() (v embed.CodeView, err error) {
		v.Body, err = render.Markdown([]byte(text))
		return v, err
	})
	return v.Body, err
}

// Handbook renders a page of the handbook.
func (r *Renders) Handbook(text string) (template.HTML, error) {
	v, err := r.get(keyOf("handbook", text), func() (v embed.CodeView, err error) {
		v.Body, err = render.Wrapped([]byte(text))
		return v, err
	})
	return v.Body, err
}

// Code renders code.
func (r *Renders) Code(text, language, filename string) (*embed.CodeView, error) {
	v, err := r.get(keyOf("code", language, filename, text), func() (embed.CodeView, error) {
		code, err := render.Code(text, language, filename)
		return embed.CodeView{Body: code.HTML, Language: cmp.Or(code.Language, language), Lines: code.Lines}, err
	})
	return &v, err
}

// SetTask is [render.SetTask], when it is its turn. It fails with errBusy if that takes longer than limit.MemoryWait, or
// reading the text too long.
func (r *Renders) SetTask(src string, line int, task string, done bool) (out string, found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit.MemoryWait)
	defer cancel()
	if r.turns.Take(ctx) != nil {
		return "", false, errBusy
	}
	defer r.turns.Give()
	out, found, err = render.SetTask(src, line, task, done)
	if errors.Is(err, render.ErrLate) {
		return "", false, errBusy
	}
	return out, found, err
}

// get returns the cached view, or calls fresh and caches its result. It fails with
// errBusy if fresh could not start within limit.MemoryWait.
func (r *Renders) get(key [sha256.Size]byte, fresh func() (embed.CodeView, error)) (embed.CodeView, error) {
	if v, ok := r.find(key); ok {
		return v, nil
	}
	return r.made.Do(context.Background(), key, func(ctx context.Context) (embed.CodeView, error) {
		ctx, cancel := context.WithTimeout(ctx, limit.MemoryWait)
		defer cancel()
		if r.turns.Take(ctx) != nil {
			return embed.CodeView{}, errBusy
		}
		defer r.turns.Give()
		v, err := fresh()
		if err != nil {
			return v, err
		}
		r.put(key, v)
		return v, nil
	})
}

// find returns the cached view.
func (r *Renders) find(key [sha256.Size]byte) (v embed.CodeView, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.kept[key]
	if e == nil {
		return v, false
	}
	one := e.Value.(*keptRender)
	if !time.Now().Before(one.until) {
		r.drop(e)
		return v, false
	}
	r.used.MoveToFront(e)
	return one.view, true
}

func (r *Renders) put(key [sha256.Size]byte, v embed.CodeView) {
	if len(v.Body) > rendersLong {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[key] != nil {
		return
	}
	r.kept[key] = r.used.PushFront(&keptRender{key, v, time.Now().Add(rendersKept)})
	for r.bytes += cost(v); r.bytes > rendersBytes; {
		r.drop(r.used.Back())
	}
}

func (r *Renders) drop(e *list.Element) {
	one := r.used.Remove(e).(*keptRender)
	delete(r.kept, one.key)
	r.bytes -= cost(one.view)
}

// cost is about the memory of a cached view, in bytes.
func cost(v embed.CodeView) int { return len(v.Body) + len(v.Language) + 512 }

const (
	rendersAtOnce = 2                // pages that are rendered at the same time
	rendersBytes  = 16 << 20         // of cached HTML
	rendersLong   = rendersBytes / 4 // longer HTML is not cached
	rendersKept   = 10 * time.Minute // then a text that took too long, and is shown as plain text, gets another try
)
