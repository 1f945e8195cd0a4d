package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestStarting(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := &Starting{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	progress, err := s.Rebuild()
	is.NoErr(err)
	address := s.front.Addr().String()
	ask := func(path string) (int, http.Header, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
		is.NoErr(err)
		res, err := http.DefaultClient.Do(req)
		is.NoErr(err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		is.NoErr(err)
		return res.StatusCode, res.Header, string(body)
	}
	status, _, body := ask("/healthz")
	is.Equal(status, 200)
	is.Equal(body, "ok\n")
	for share, want := range map[float64]string{0: "0 %", 0.409: "40 %", 1: "100 %"} {
		progress(share)
		for _, path := range []string{"/readyz", "/", "/api/v1/notes"} {
			status, header, body := ask(path)
			is.Equal(status, 503)
			is.True(header.Get("Retry-After") != "")
			is.Equal(body, "Starting: reading the journal, "+want+" done.\n")
		}
	}

	// After 503 a client of the tus protocol would begin its upload again.
	for _, with := range []struct {
		method, version string
		status          int
	}{{"HEAD", "1.0.0", 423}, {"HEAD", "", 503}, {"PATCH", "1.0.0", 503}} {
		req, err := http.NewRequestWithContext(t.Context(), with.method, "http://"+address+"/api/v1/tus/x", http.NoBody)
		is.NoErr(err)
		req.Header.Set("Tus-Resumable", with.version)
		res, err := http.DefaultClient.Do(req)
		is.NoErr(err)
		is.NoErr(res.Body.Close())
		is.Equal(res.StatusCode, with.status)
		is.True(res.Header.Get("Retry-After") != "")
	}

	// The address is in use: a second server says so at once.
	_, err = (&Starting{Listen: address, Log: s.Log}).Rebuild()
	is.True(strings.Contains(fmt.Sprint(err), "end what uses it"))

	// The same listener serves the ready server.
	front, err := s.End()
	is.NoErr(err)
	is.Equal(front.Addr().String(), address)
	is.NoErr(s.Close()) // nothing is left to close
	ready := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan error, 1)
	go func() { served <- ready.Serve(front) }()
	status, _, _ = ask("/readyz")
	is.Equal(status, 404)
	is.NoErr(ready.Close())
	is.Equal(<-served, http.ErrServerClosed)

	// A start that fails gives the address back.
	s = &Starting{Listen: address, Log: s.Log}
	_, err = s.Rebuild()
	is.NoErr(err)
	is.NoErr(s.Close())
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	is.NoErr(err)
	is.NoErr(l.Close())

	// Without a rebuild it listens at the end.
	s = &Starting{Listen: address, Log: s.Log}
	front, err = s.End()
	is.NoErr(err)
	is.NoErr(front.Close())
}
