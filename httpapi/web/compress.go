package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"runtime"
	"strings"
)

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

var (
	fast     = newPackers(gzip.BestSpeed)          // for JSON
	thorough = newPackers(gzip.DefaultCompression) // for pages
)
