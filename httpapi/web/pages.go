package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"kist/blobs/flight"
	"kist/embed"
	"kist/httpapi/render"
	"kist/kv/people"
	"kist/kv/record"
)

// Lang is the language for the client: the one that the caller has chosen, otherwise the one
// that the browser prefers.
func (c *Request) Lang() embed.Lang { return langOf(c.Caller, c.R) }

func langOf(caller *people.Caller, r *http.Request) embed.Lang {
	if caller != nil && caller.User.Language != "" {
		return embed.Lang(caller.User.Language)
	}
	return embed.Preferred(r.Header.Get("Accept-Language"))
}

// ViewOf is the view of a kind in a language.
func ViewOf(k *record.Kind, l embed.Lang) record.View {
	return k.View().Translated(func(key, english string) string {
		if key = "kinds." + k.Name + "." + key; l.Has(key) {
			return l.T(key)
		}
		return english
	})
}

// ErrorText is the text of an error for a page. The API's errors are always in English.
func ErrorText(e *record.Error, l embed.Lang) string {
	if key := "errors." + e.Code; l.Has(key) {
		return l.T(key, "when", l.Wait(e.Retry))
	}
	return e.Text
}

// Views is the list of the kinds' views in a language, as JSON. Callers must not change it.
func Views(l embed.Lang) []byte { return views()[l] }

var views = sync.OnceValue(func() map[embed.Lang][]byte {
	all := make(map[embed.Lang][]byte)
	for _, l := range embed.Langs() {
		list := make([]record.View, len(record.Kinds))
		for i, k := range record.Kinds {
			list[i] = ViewOf(k, l)
		}
		all[l], _ = json.Marshal(list) // texts and numbers: it cannot fail
	}
	return all
})

// Prefix is the path below which the server's addresses are, escaped: "" or "/kist".
func (s *Site) Prefix() string {
	u, err := url.Parse(s.Base)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.EscapedPath(), "/")
}

// TakesGzip reports whether the client accepts an answer compressed by gzip (RFC 9110,
// section 12.5.3).
func TakesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight, weighed := strings.CutPrefix(strings.TrimSpace(weight), "q=")
			return !weighed || strings.Trim(weight, "0.") != ""
		}
	}
	return false
}

// packFrom is the minimum length of JSON to compress, in bytes. A shorter answer fits into
// one packet anyway.
const packFrom = 1 << 10

// packers are compressors of one level. Each takes about a megabyte of memory and a processor. A
// nil entry has not been made yet.
type packers struct {
	level int
	all   chan *gzip.Writer
}

var (
	fast     = newPackers(gzip.BestSpeed)          // for JSON
	thorough = newPackers(gzip.DefaultCompression) // for pages
)

func newPackers(level int) packers {
	p := packers{level, make(chan *gzip.Writer, 2*runtime.GOMAXPROCS(0))}
	for range cap(p.all) {
		p.all <- nil
	}
	return p
}

// pack compresses a body.
func (p packers) pack(body []byte) []byte {
	w := <-p.all
	defer func() { p.all <- w }()
	if w == nil {
		w, _ = gzip.NewWriterLevel(nil, p.level) // fails only for an invalid level
	}
	var b bytes.Buffer
	w.Reset(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return bytes.Clone(b.Bytes())
}

const (
	rendersAtOnce = 2                // pages that are rendered at the same time
	rendersBytes  = 16 << 20         // of cached HTML
	rendersLong   = rendersBytes / 4 // longer HTML is not cached
	rendersKept   = 10 * time.Minute // then a text that took too long, and is shown as plain text, gets another try
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

// get returns the cached view, or calls fresh and caches its result. It fails with
// errBusy if fresh could not start within memoryWait.
func (r *Renders) get(key [sha256.Size]byte, fresh func() (embed.CodeView, error)) (embed.CodeView, error) {
	if v, ok := r.find(key); ok {
		return v, nil
	}
	return r.made.Do(context.Background(), key, func(ctx context.Context) (embed.CodeView, error) {
		ctx, cancel := context.WithTimeout(ctx, memoryWait)
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
