package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
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

// begins is a request whose body does not come.
const begins = "POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\n" +
	"Content-Type: application/json\r\nContent-Length: 2\r\n"

// TestConnections: one network has so many connections and no more, all
// together have a limit too, and one that ends makes room for another.
func TestConnections(t *testing.T) {
	t.Parallel()
	behind := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, row := range map[string]struct {
		config func(*web.Config)
		most   int
	}{
		"of one address":    {func(*web.Config) {}, limit.OfNetwork},
		"of all":            {func(c *web.Config) { c.MaxConnections = 7 }, 7},
		"of a proxy":        {func(c *web.Config) { c.TrustedProxies = behind }, 150},
		"of a proxy in all": {func(c *web.Config) { c.TrustedProxies, c.MaxConnections = behind, 120 }, 120},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t, row.config)
			addr, stop, _ := serve(a, itself, time.Minute)
			t.Cleanup(func() { is.NoErr(stop()) })
			dial := func() net.Conn {
				conn, err := net.Dial("tcp", addr)
				is.NoErr(err)
				t.Cleanup(func() { _ = conn.Close() })
				return conn
			}
			var open []net.Conn
			for range row.most {
				conn := dial()
				is.True(answers(conn))
				open = append(open, conn)
				apitest.Eventually(t, "the connection is not idle", func() bool { // so that the first is idle longest
					connections, _ := a.Server.Working()
					return connections == 0
				})
			}
			if row.most == 150 {
				return
			}

			conn := dial() // the one that is idle for the longest time makes room
			is.True(answers(conn))
			open = append(open, conn)
			is.True(answers(open[1]))
			is.True(!answers(open[0]))
			open = open[1:]

			for _, conn := range open {
				_, err := io.WriteString(conn, begins+"\r\n")
				is.NoErr(err)
			}
			apitest.Eventually(t, "the requests do not begin", func() bool {
				connections, _ := a.Server.Working()
				return connections == row.most
			})
			is.True(!answers(dial()))

			_, err := io.WriteString(open[0], "{}") // those that are there go on
			is.NoErr(err)
			res, err := http.ReadResponse(bufio.NewReader(open[0]), nil)
			is.NoErr(err)
			is.Equal(res.StatusCode, http.StatusUnprocessableEntity)
			is.NoErr(open[1].Close())
			apitest.Eventually(t, "there is no room", func() bool { return answers(dial()) })
		})
	}
}

// TestCrowdBehindProxy: requests count for the clients that a trusted proxy names. One client
// cannot take all places, and many cannot keep another one out.
func TestCrowdBehindProxy(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ most, clients, each, working int }{
		"one client":   {2000, 1, 150, limit.OfNetwork},
		"many clients": {200, 60, 5, 180},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t, func(c *web.Config) {
				c.MaxConnections, c.TrustedProxies = row.most, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			})
			addr, stop, _ := serve(a, itself, time.Minute)
			t.Cleanup(func() { is.NoErr(stop()) })
			from := func(client int, request string) *bufio.Reader {
				conn, err := net.Dial("tcp", addr)
				is.NoErr(err)
				t.Cleanup(func() { _ = conn.Close() })
				_, err = fmt.Fprintf(conn, request, netip.AddrFrom4([4]byte{192, 0, 2, byte(client)}))
				is.NoErr(err)
				return bufio.NewReader(conn)
			}
			for range row.each {
				for client := range row.clients {
					from(client, begins+"X-Forwarded-For: %s\r\n\r\n")
				}
			}
			apitest.Eventually(t, "the requests do not begin", func() bool {
				_, requests := a.Server.Working()
				return requests == row.working
			})
			if row.clients == 1 { // the next one is refused without waiting for its body
				refused := from(0, begins+"X-Forwarded-For: %s\r\n\r\n")
				res, err := http.ReadResponse(refused, nil)
				is.NoErr(err)
				is.Equal(res.StatusCode, http.StatusTooManyRequests)
				is.Equal(res.Header.Get("Retry-After"), "1")
				is.True(res.Close)
			}

			for range 20 {
				answer := from(100, "GET /api/v1/captcha/challenge HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: %s\r\n\r\n")
				res, err := http.ReadResponse(answer, nil)
				is.NoErr(err)
				is.Equal(res.StatusCode, http.StatusOK)
			}
		})
	}
}
