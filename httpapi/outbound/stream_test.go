package outbound

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// piped is a client whose one server is serve, at the other end of a pipe. The
// test ends when that has.
func piped(t *testing.T, serve func(net.Conn)) *Client {
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	return New(Options{
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.43.8")}, nil
		},
		Own: func() ([]net.Addr, error) { return nil, nil },
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			work.Go(func() {
				defer far.Close()
				if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
					serve(far)
				}
			})
			return near, nil
		},
	})
}

// A body may take as long as it likes, as long as it comes in; one that does
// not, or a head, ends the request.
func TestStreamPace(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 327680\r\n\r\n"
	piece := strings.Repeat("x", 32<<10)
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		slow  bool
		took  time.Duration
	}{
		{"at the pace", func(c net.Conn) {
			fmt.Fprint(c, head)
			for range 10 {
				time.Sleep(29 * time.Second)
				fmt.Fprint(c, piece)
			}
		}, false, 290 * time.Second},
		{"no head", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, true, headTime},
		{"a head without end", func(c net.Conn) {
			_, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			for n := 0; err == nil; n++ {
				time.Sleep(time.Second)
				_, err = fmt.Fprintf(c, "X-%d: y\r\n", n)
			}
		}, true, headTime},
		{"no body", func(c net.Conn) {
			fmt.Fprint(c, head)
			_, _ = io.Copy(io.Discard, c)
		}, true, paceTime},
		{"a trickle", func(c net.Conn) {
			_, err := fmt.Fprint(c, head)
			for err == nil {
				time.Sleep(time.Second)
				_, err = fmt.Fprint(c, "x")
			}
		}, true, paceTime},
		{"a body that stops", func(c net.Conn) {
			fmt.Fprint(c, head+piece+piece)
			_, _ = io.Copy(io.Discard, c)
		}, true, paceTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				begun := time.Now()
				res, err := piped(t, c.serve).Stream(t.Context(), "http://x.example/a", 0)
				var n int64
				if err == nil {
					n, err = io.Copy(io.Discard, res.Body)
					is.NoErr(res.Body.Close())
				}
				is.Equal(errors.Is(err, ErrSlow), c.slow)
				is.Equal(err != nil, c.slow)
				is.Equal(time.Since(begun), c.took)
				is.True(c.slow || n == 327680)
			})
		})
	}
}

// The reader's own time between reads does not count.
func TestStreamWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		c := piped(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd") })
		res, err := c.Stream(t.Context(), "http://x.example/a", 0)
		is.NoErr(err)
		for range 4 {
			time.Sleep(time.Hour)
			_, err := io.ReadFull(res.Body, make([]byte, 1))
			is.NoErr(err)
		}
		is.NoErr(res.Body.Close())
	})
}

// It asks for bytes as they are, unpacks none, and ends with its context.
func TestStream(t *testing.T) {
	is := is.New(t)
	var asked http.Header
	port, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "packed")
	})
	c := New(Options{Allow: allow(t, "127.0.0.0/8")})
	res, err := c.Stream(t.Context(), "http://127.0.0.1:"+port+"/", 0)
	is.NoErr(err)
	body, err := io.ReadAll(res.Body)
	is.NoErr(err)
	is.NoErr(res.Body.Close())
	is.Equal(string(body), "packed")
	is.Equal(asked.Get("Accept-Encoding"), "identity")
	_, err = New(Options{}).Stream(t.Context(), "http://127.0.0.1:"+port+"/", 0)
	is.True(refusedBy(err) != nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Stream(ctx, "http://127.0.0.1:"+port+"/", 0)
	is.True(errors.Is(err, context.Canceled) && !errors.Is(err, ErrSlow))
}
