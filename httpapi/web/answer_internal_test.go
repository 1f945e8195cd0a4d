package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/matryer/is"
)

// Answers of any length are whole, compressed or not, also while another one is made.
func TestRespond(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := &Site{Limits: limits()}
	for _, n := range []int{0, 1, packFrom - 1, packFrom, 1 << 20, PageBytes, 2 * largestKept} {
		want := bytes.Repeat([]byte{byte('a' + n%26)}, n)
		for _, packed := range []bool{false, true} {
			c, w := visitorFrom(s, "GET", 1)
			if packed {
				c.R.Header.Set("Accept-Encoding", "gzip")
			}
			is.NoErr(c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
				inner, _ := visitorFrom(s, "POST", 2)
				err := inner.Respond(http.StatusOK, func(dst []byte) ([]byte, error) { return append(dst, "other"...), nil })
				inner.ReleaseMemory()
				return append(dst, want...), err
			}))
			is.Equal(c.held.Bytes(), int64(w.Body.Len()))
			c.ReleaseMemory()
			body := io.Reader(w.Body)
			if packed && n >= packFrom {
				is.Equal(w.Header().Get("Content-Encoding"), "gzip")
				z, err := gzip.NewReader(body)
				is.NoErr(err)
				body = z
			}
			got, err := io.ReadAll(body)
			is.NoErr(err)
			is.True(bytes.Equal(got, want))
		}
	}
}
