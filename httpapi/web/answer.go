package web

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// The buffers that answers are built in. They wait in two pools for another
// answer, until the garbage collector empties the pools.
const (
	firstBuffer = 8 << 10
	keptBuffer  = 1 << 20                 // the largest that a small buffer may grow to and still be kept
	largeBuffer = PageBytes + PageBytes/4 // the one length of the large ones: a page, and what is around its records
)

var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, 0, firstBuffer); return &b }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
)

// GrowAnswer makes room for n more bytes in the answer. An answer that outgrows
// the small buffers moves into a large one. Memory for an answer beyond
// largeBuffer is not kept.
func GrowAnswer(dst []byte, n int) []byte {
	size := len(dst) + n
	if size <= max(cap(dst), keptBuffer) || size > largeBuffer {
		return slices.Grow(dst, n)
	}
	return append(largeBuffers.Get().(*[largeBuffer]byte)[:0], dst...)
}

// GrowPage makes room in the answer for the rest of a page, whose records begin at
// first, once that is a long one.
func GrowPage(dst []byte, first int) []byte {
	if len(dst) <= keptBuffer/2 {
		return dst
	}
	return GrowAnswer(dst, max(0, first+PageBytes-len(dst)))
}

// keepLarge lets another answer have the buffer, if it is a large one.
func keepLarge(b []byte) {
	if cap(b) == largeBuffer {
		largeBuffers.Put((*[largeBuffer]byte)(b[:largeBuffer]))
	}
}

// Respond answers with JSON that write appends to what it is given.
func (c *Request) Respond(status int, write func(dst []byte) ([]byte, error)) error {
	small := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(small)
	b, err := write((*small)[:0])
	defer keepLarge(b)
	if cap(b) <= keptBuffer {
		*small = b // which may have grown
	}
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
	body := pack(h, c.R, b)
	if tag != "" && h.Get("Content-Encoding") != "" {
		h.Set("Etag", packedTag(tag))
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.W.WriteHeader(status)
	_, _ = c.W.Write(body) // the client may be gone; what was done stays done
	return nil
}
