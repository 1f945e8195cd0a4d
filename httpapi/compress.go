package httpapi

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"runtime"
	"strings"
)

// takesGzip reports whether the client takes an answer that is compressed by
// gzip (RFC 9110, section 12.5.3).
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight, weighed := strings.CutPrefix(strings.TrimSpace(weight), "q=")
			return !weighed || strings.Trim(weight, "0.") != ""
		}
	}
	return false
}

// packFrom is the length in bytes from which JSON is compressed. Less fits into
// one packet anyway.
const packFrom = 1 << 10

// packers are the compressors, of which each takes half a megabyte of memory and
// a processor. A nil one is not made yet.
var packers = func() chan *gzip.Writer {
	all := make(chan *gzip.Writer, 2*runtime.GOMAXPROCS(0))
	for range cap(all) {
		all <- nil
	}
	return all
}()

// pack compresses the body of an answer with JSON if it is long enough and the
// client takes that, and says so in h. What an answer has of secrets is made by
// the request that it answers and differs each time, so that lengths tell nothing
// of them.
func pack(h http.Header, r *http.Request, body []byte) []byte {
	if len(body) < packFrom || !takesGzip(r) {
		return body
	}
	w := <-packers
	defer func() { packers <- w }()
	if w == nil {
		w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
	}
	var b bytes.Buffer
	w.Reset(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	h.Set("Content-Encoding", "gzip")
	return b.Bytes()
}
