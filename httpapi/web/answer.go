package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"kist/embed"
)

// largestKept is the largest buffer that is kept for another answer: a page of a list and what is around
// its records.
const largestKept = PageBytes + PageBytes/4

// largestSent is the largest buffer that an answer is sent from. While a client reads, others make their answers
// in buffers of their own, so larger ones would add up.
const largestSent = 64 << 10

// smallRest is how much of a buffer may always be unused while an answer is sent from it. A connection has more.
const smallRest = 4 << 10

// answerBuffers are what answers are made in. They wait for another answer until the garbage collector empties
// the pool.
var answerBuffers = sync.Pool{New: func() any { return new([]byte) }}

// withBuffer runs make, which appends to an empty buffer, and use with the result. If use keeps the result, the
// buffer is returned, and the caller puts it back; otherwise it is nil.
func withBuffer(make func(dst []byte) ([]byte, error), use func([]byte) (keeps bool)) (*[]byte, error) {
	buffer := answerBuffers.Get().(*[]byte)
	b, err := make((*buffer)[:0])
	if cap(b) <= largestKept {
		*buffer = b // which may have grown
	}
	if err != nil {
		answerBuffers.Put(buffer)
		return nil, err
	}

	keeps := use(b)
	if keeps {
		return buffer, nil
	}
	answerBuffers.Put(buffer)
	return nil, nil
}

// Respond answers with JSON that write appends to what it is given. The request holds the answer while it is
// sent. write waits for nobody. If the request changes nothing, write may be called again: see Request.hold.
func (c *Request) Respond(status int, write func(dst []byte) ([]byte, error)) error {
	packed := false
	var buffer *[]byte // that the answer is sent from
	defer func() {
		if buffer != nil {
			answerBuffers.Put(buffer)
		}
	}()
	body, err := c.hold(func() (body []byte, err error) {
		buffer, err = withBuffer(write, func(b []byte) (keeps bool) {
			packed = len(b) >= packFrom && TakesGzip(c.R)
			if packed {
				body = fast.pack(b)
				return false
			}
			fills := cap(b)-len(b) <= max(len(b)/2, smallRest) // what is behind it is not counted
			if fills && cap(b) <= largestSent && c.TryHold(int64(len(b))-c.held.Bytes()) {
				body = b
				return true
			}
			body = slices.Clone(b)
			return false
		})
		return body, err
	})
	if err != nil {
		return err
	}
	h := c.W.Header()
	h["Cache-Control"] = HeadNoStore
	tag := h.Get("Etag")
	if tag != "" && status == http.StatusOK && c.has(tag) {
		return c.respondUnchanged()
	}
	h["Content-Type"] = headJSON
	if packed {
		h.Set("Content-Encoding", "gzip")
	}
	if tag != "" && packed {
		h.Set("Etag", packedTag(tag))
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.W.WriteHeader(status)
	_, _ = c.W.Write(body) // the client may be gone; what was done stays done
	return nil
}

// A MadePage is an HTML page that can be sent.
type MadePage struct {
	body   []byte
	packed bool
	policy string
}

// MakePage makes an HTML page, which the request then holds.
func (c *Request) MakePage(p embed.Page) (m *MadePage, err error) {
	_, err = c.hold(func() ([]byte, error) {
		m, err = makePage(c.R, c.Lang(), p)
		return m.body, err
	})
	return m, err
}

// makePage makes an HTML page. It compresses the page if the client accepts that. Grants in pages differ each time.
func makePage(r *http.Request, l embed.Lang, p embed.Page) (*MadePage, error) {
	m := &MadePage{packed: TakesGzip(r), policy: p.Policy()}
	_, err := withBuffer(func(dst []byte) ([]byte, error) {
		b := bytes.NewBuffer(dst)
		err := embed.Render(b, l, p)
		return b.Bytes(), err
	}, func(b []byte) (keeps bool) {
		if m.packed {
			m.body = thorough.pack(b)
		} else {
			m.body = slices.Clone(b)
		}
		return false
	})
	return m, err
}

// Send answers with the page.
func (m *MadePage) Send(w http.ResponseWriter, status int) error {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	m.setHeaders(h)
	w.WriteHeader(status)
	_, _ = w.Write(m.body) // the client may be gone
	return nil
}

// SendIfChanged answers with the page and its entity tag, or says that the client has it already.
func (m *MadePage) SendIfChanged(c *Request) error {
	m.setHeaders(c.W.Header())
	c.W.Header().Set("Cache-Control", "no-store") // only a script of the app keeps it
	sum := sha256.Sum256(m.body)
	return c.UnlessUnchanged(`"`+hex.EncodeToString(sum[:10])+`"`, func() []byte { return m.body })
}

func (m *MadePage) setHeaders(h http.Header) {
	h.Add("Vary", "Accept-Encoding, Accept-Language, Cookie")
	if m.packed {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", htmlType)
	h.Set("Content-Security-Policy", m.policy)
	h["Cross-Origin-Opener-Policy"] = headSameOrigin
	h["Permissions-Policy"] = headPermissions
	h.Set("Content-Length", strconv.Itoa(len(m.body)))
}

// RespondPage answers with an HTML page.
func (c *Request) RespondPage(status int, p embed.Page) error {
	page, err := c.MakePage(p)
	if err != nil {
		return err
	}
	return page.Send(c.W, status)
}
