// Package httpapi serves kist over HTTP: the API, shared items and their bytes, and the
// pages.
package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/julienschmidt/httprouter"

	"kist/blobs/flight"
	"kist/embed"
	"kist/httpapi/archive"
	"kist/httpapi/captcha"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/linkcheck"
	"kist/httpapi/metadata"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/httpapi/webhook"
	"kist/kv/people"
	"kist/kv/record"
)

// Server is the handler of the whole site.
type Server struct {
	*web.Site
	routes    []Route
	routers   []*httprouter.Router // hold the routes: see mount
	handler   http.Handler
	schema    func() (*served, error)        // made on first use
	extension func() (*embed.Archive, error) // made on first use
	probe     probe
	backups   flight.Turns       // to write a backup
	Links     *linkcheck.Checker // Serve runs it
	meter     *meter             // nil while /metrics is off

	readiness readiness

	connections *limit.Places[net.Conn]
	requests    *limit.Places[*web.AnswerWriter] // in progress
	serving     atomic.Int64                     // requests
}

// Busy reports whether any request is in progress.
func (s *Server) Busy() bool { return s.serving.Load() > 0 }

// New makes a server.
func New(c web.Config) (*Server, error) {
	s := &Server{
		Site: &web.Site{
			Config: c, Renew: web.WriteRenew, Renders: web.NewRenders(), Zips: archive.NewZips(),
			Webhooks:   webhook.New(c.Store, c.Outbound, c.Base, c.Log),
			Plans:      metadata.NewPlans(c.Store, c.Blobs, c.Log),
			Challenges: captcha.NewIssuer(),
		},
		Links:   linkcheck.New(c.Store, c.Outbound, c.Icons, c.Log),
		backups: make(flight.Turns, 1),
	}
	if s.Access == nil {
		s.Access = s.Log
	}
	if c.Metrics {
		s.meter = &meter{requests: map[counted]uint64{}}
	}
	s.MaxConnections = cmp.Or(s.MaxConnections, limit.MaxConnections)
	s.connections = limit.ForConnections(s.MaxConnections, web.CloseAtOnce)
	s.requests = limit.ForRequests(s.MaxConnections, (*web.AnswerWriter).Cut)
	s.Limits = limit.New(s.familiar)

	pictures, err := c.Thumbs.Pictures(filepath.Join(c.Store.Dir(), "cache", "pictures"))
	if err != nil {
		return nil, err
	}
	s.Pictures = linkcheck.NewPictures(c.Outbound, pictures, c.Log)
	if err := s.setKeys(); err != nil {
		return nil, err
	}
	if err := s.setAddresses(); err != nil {
		return nil, err
	}
	in := people.Ways{
		NoPasswords: c.NoPasswords, Passkeys: session.PasskeysAt(s.BaseURL), Proxy: c.AuthHeader != "",
	}
	if c.OIDC != nil {
		in.Issuer = c.OIDC.Issuer
	}
	people.SetWays(c.Store, in)

	s.Imports.Begin()
	s.Fetches = upload.NewFetches(s.Site)
	s.Methods = s.allowed
	s.routes = s.table()
	s.schema = sync.OnceValues(func() (*served, error) { return serveDocument(c.Base, c.Version) })
	s.extension = sync.OnceValues(func() (*embed.Archive, error) {
		return embed.ExtensionZip(c.Base, record.Views())
	})
	s.handler = s.mount()
	return s, nil
}

// setKeys makes what signs and seals: grants with the secret of the store, tickets with one of the process.
func (s *Server) setKeys() error {
	secret, err := s.Store.Secret()
	if err != nil {
		return err
	}
	s.Grants, err = grant.NewSigner(secret)
	if err != nil {
		return err
	}
	s.Tickets, err = grant.NewTickets()
	return err
}

// setAddresses reads the addresses of the server.
func (s *Server) setAddresses() error {
	base, err := url.Parse(s.Base)
	if err != nil {
		return fmt.Errorf("the base address: %w", err)
	}
	s.BaseURL, s.BaseName = base, web.HostName(base.Host)
	s.CrossOrigin = http.NewCrossOriginProtection()
	// A proxy may change the Host that Origin is compared with.
	if err := s.CrossOrigin.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
		return fmt.Errorf("the base address: %w", err)
	}

	if s.Content == "" {
		return nil
	}
	content, err := url.Parse(s.Content)
	if err != nil {
		return fmt.Errorf("the address for content: %w", err)
	}
	s.ContentScheme, s.ContentHost, s.ContentName = content.Scheme, content.Host, web.HostName(content.Host)
	return nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, s.atRoot(r))
}

// atRoot removes the path of the base address from a request. Most proxies remove it, but
// some do not, and it is there at the server's own address. Links with it work everywhere.
func (s *Server) atRoot(r *http.Request) *http.Request {
	prefix := strings.TrimSuffix(s.BaseURL.Path, "/")
	rest, ok := strings.CutPrefix(r.URL.Path, prefix+"/")
	if prefix == "" || !ok || s.allowed(r.URL.Path) != "" {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = "/"+rest, strings.TrimPrefix(u.RawPath, s.BaseURL.EscapedPath())
	short := *r
	short.URL = &u
	return &short
}

// Limits of connections (RFC 9110 leaves them to the server). A client has five seconds for
// the head of a request, which may have 32 KiB, and a minute between two requests. Pace limits
// the time for bodies.
const (
	headTime  = 5 * time.Second
	idleTime  = time.Minute
	headBytes = 32 << 10
)

// Serve answers requests on the listener, delivers to webhooks, fetches remote uploads, checks
// bookmarked pages, fetches pictures and examines the metadata of files until ctx ends. Then it
// accepts no more requests, lets running ones finish for up to grace, and returns. With a TLS
// configuration it serves HTTPS.
func (s *Server) Serve(ctx context.Context, l net.Listener, t *tls.Config, grace time.Duration) error {
	srv := &http.Server{
		Handler: s, TLSConfig: t,
		ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes,
		DisableGeneralOptionsHandler: true,
		ConnContext:                  web.Connected,
		ConnState:                    s.limitConnections,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: streams},
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}

	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	defer s.Imports.End()
	defer s.Plans.Close()
	work.Go(func() { s.Webhooks.Run(ctx) })
	work.Go(func() { s.Fetches.Run(ctx) })
	work.Go(func() { s.Links.Run(ctx) })
	work.Go(func() { s.Plans.Run(ctx) })
	work.Go(func() { s.Pictures.Run(ctx) })

	failed := make(chan error, 1)
	go func() {
		if t != nil {
			failed <- srv.ServeTLS(l, "", "")
		} else {
			failed <- srv.Serve(l)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}

	s.readiness.stopping.Store(true)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(end)
	if errors.Is(err, context.DeadlineExceeded) {
		s.Log.Warn("requests were cut off", "after", grace)
		err = srv.Close()
	}
	if e := <-failed; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	s.Running.Wait()
	return err
}
