package httpapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

// dialAs dials from an address of 127.0.0.0/8, all of which are this machine's on Linux.
func dialAs(c, d int) net.Dialer {
	return net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(c), byte(d))}}
}

// TestStrangersDialAgain: the owner signs in, each time, from a new address too, while sixty
// strangers hold all the connections that they can get and dial again when they are cut off.
func TestStrangersDialAgain(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"silent":       "",
		"slow heads":   "G",
		"stalled body": begins + "\r\n",
		"idle":         "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"slow answers": strings.Repeat("GET /api/v1/openapi HTTP/1.1\r\nHost: localhost\r\n\r\n", 64),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t, func(c *web.Config) { c.MaxConnections = 100 })
			a.WithPassword(a.User, "correct horse")
			addr, stop, _ := serve(a, itself, time.Millisecond)
			t.Cleanup(func() { is.NoErr(stop()) })
			ctx, end := context.WithCancel(t.Context())
			var strangers, begun sync.WaitGroup
			for stranger := range 60 {
				begun.Add(5)
				strangers.Go(func() {
					from := dialAs(1, stranger)
					for n := 0; ctx.Err() == nil; n++ {
						var open []net.Conn
						for range 5 {
							conn, err := from.DialContext(ctx, "tcp", addr)
							if err == nil {
								open = append(open, conn)
								_, _ = io.WriteString(conn, says) // may be cut off already
							}
							if n == 0 {
								begun.Done()
							}
						}
						for _, conn := range open { // until it is cut off
							stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
							_, _ = conn.Read(make([]byte, 1))
							stop()
							_ = conn.Close()
						}
					}
				})
			}
			begun.Wait()

			for n := range 20 {
				from := dialAs(2, n)
				owner := &http.Client{Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true}}
				res, err := owner.Post(
					"http://"+addr+"/api/v1/auth/login", web.JSONType,
					strings.NewReader(`{"username":"ann","password":"correct horse"}`),
				)
				is.NoErr(err)
				is.NoErr(res.Body.Close())
				is.Equal(res.StatusCode, http.StatusOK)
			}
			end()
			strangers.Wait()
		})
	}
}
