package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

// answers reports whether a request on the connection is answered.
func answers(conn net.Conn) bool {
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

// TestConnections: one network has so many connections and no more, all
// together have a limit too, and one that ends makes room for another.
func TestConnections(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		config func(*web.Config)
		most   int
	}{
		"of one address": {func(*web.Config) {}, networkConnections},
		"of all":         {func(c *web.Config) { c.MaxConnections = 7 }, 7},
		"of a proxy":     {func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, 150},
		"of a proxy in all": {func(c *web.Config) {
			c.TrustedProxies, c.MaxConnections = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, 120
		}, 120},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t, row.config)
			addr, stop, _ := a.serve(itself, time.Minute)
			defer func() { is.NoErr(stop()) }()
			var open []net.Conn
			for range row.most {
				conn, err := net.Dial("tcp", addr)
				is.NoErr(err)
				defer conn.Close()
				is.True(answers(conn))
				open = append(open, conn)
			}
			if row.most == 150 {
				return
			}
			more := func() bool {
				conn, err := net.Dial("tcp", addr)
				is.NoErr(err)
				defer conn.Close()
				return answers(conn)
			}
			if row.most != networkConnections { // the limit of all: those that are idle make room
				conn, err := net.Dial("tcp", addr)
				is.NoErr(err)
				defer conn.Close()
				is.True(answers(conn))
				open = append(open, conn)
				is.True(answers(open[1]))
				is.True(!answers(open[0])) // it was idle for the longest time
				open = open[1:]
				for _, conn := range open {
					_, err := io.WriteString(conn, "POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n")
					is.NoErr(err)
				}
				eventually(t, "the requests do not begin", func() bool {
					c := &a.server.connections
					c.Lock()
					defer c.Unlock()
					return len(c.idle) == 0
				})
				is.True(!more())
				_, err = io.WriteString(open[0], "{}")
				is.NoErr(err)
				res, err := http.ReadResponse(bufio.NewReader(open[0]), nil)
				is.NoErr(err)
				is.Equal(res.StatusCode, http.StatusUnprocessableEntity)
				return
			}
			is.True(!more())
			is.True(answers(open[0])) // those that are there go on
			is.NoErr(open[1].Close())
			for deadline := time.Now().Add(30 * time.Second); !more(); {
				is.True(time.Now().Before(deadline))
			}
		})
	}
}
