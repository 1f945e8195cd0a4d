package httpapi

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"html/template"
	"strings"
	"sync"
	"time"

	"kist/embed"
	"kist/httpapi/render"
)

const (
	rendersAtOnce = 2                // of all pages
	rendersBytes  = 16 << 20         // of HTML that is kept
	rendersLong   = rendersBytes / 4 // what is longer is not kept
	rendersKept   = 10 * time.Minute // a text that took too long is plain then, and may fare better later
)

// renders makes HTML of texts, a few at a time, and keeps it, so that a page
// that many people open costs little. The key is the text itself: what was
// changed is another text. The zero value is ready for use.
type renders struct {
	mu    sync.Mutex
	turns chan struct{}
	kept  map[[sha256.Size]byte]*list.Element
	used  list.List // of *rendered, the latest used first
	bytes int
}

type keptRender struct {
	key   [sha256.Size]byte
	view  embed.CodeView
	until time.Time
}

// keyOf is a digest of the parts. Each has its length before it, so that no two
// lists of parts look alike.
func keyOf(parts ...string) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	h.Sum(key[:0])
	return key
}

// markdown renders a text; nothing stays nothing.
func (r *renders) markdown(text string) (template.HTML, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	v, err := r.get(keyOf("markdown", text), func() (v embed.CodeView, err error) {
		v.Body, err = render.Markdown([]byte(text))
		return v, err
	})
	return v.Body, err
}

// handbook renders a page of the handbook.
func (r *renders) handbook(text string) (template.HTML, error) {
	v, err := r.get(keyOf("handbook", text), func() (v embed.CodeView, err error) {
		v.Body, err = render.Wrapped([]byte(text))
		return v, err
	})
	return v.Body, err
}

// code renders code.
func (r *renders) code(text, language, filename string) (*embed.CodeView, error) {
	v, err := r.get(keyOf("code", language, filename, text), func() (embed.CodeView, error) {
		code, err := render.Code(text, language, filename)
		name := code.Language
		if name == "" {
			name = language
		}
		return embed.CodeView{Body: code.HTML, Language: name, Lines: code.Lines}, err
	})
	return &v, err
}

// get is what is kept under the key, or what fresh makes, which is kept then.
// It fails with errCrowded if there is no turn for fresh within jsonWait.
func (r *renders) get(key [sha256.Size]byte, fresh func() (embed.CodeView, error)) (embed.CodeView, error) {
	v, turns, ok := r.find(key)
	if ok {
		return v, nil
	}
	wait := time.NewTimer(jsonWait)
	defer wait.Stop()
	select {
	case turns <- struct{}{}:
	case <-wait.C:
		return embed.CodeView{}, errCrowded
	}
	defer func() { <-turns }()
	if v, _, ok := r.find(key); ok { // made while this one waited
		return v, nil
	}
	v, err := fresh()
	if err == nil {
		r.put(key, v)
	}
	return v, err
}

// find is what is kept under the key, and the turns to take if nothing is.
func (r *renders) find(key [sha256.Size]byte) (v embed.CodeView, turns chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns == nil {
		r.turns = make(chan struct{}, rendersAtOnce)
		r.kept = map[[sha256.Size]byte]*list.Element{}
	}
	e := r.kept[key]
	if e == nil {
		return v, r.turns, false
	}
	one := e.Value.(*keptRender)
	if !time.Now().Before(one.until) {
		r.drop(e)
		return v, r.turns, false
	}
	r.used.MoveToFront(e)
	return one.view, r.turns, true
}

func (r *renders) put(key [sha256.Size]byte, v embed.CodeView) {
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

func (r *renders) drop(e *list.Element) {
	one := r.used.Remove(e).(*keptRender)
	delete(r.kept, one.key)
	r.bytes -= cost(one.view)
}

// cost is about what is held for a view.
func cost(v embed.CodeView) int { return len(v.Body) + len(v.Language) + 512 }
