// Package httpapi serves kist over HTTP: the API, the raw addresses of shared
// items and the pages around them.
package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/julienschmidt/httprouter"

	"kist/blobs"
	"kist/embed"
	"kist/httpapi/linkcheck"
	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/httpapi/webhook"
	"kist/kv"
	"kist/search"
)

// Config is what a Server is made of. All but Scrubbed, Absent, Content, Captcha,
// AnyHost, TrustedProxies, MaxConnections, Metrics and Access is required.
type Config struct {
	Store     *kv.Store
	Blobs     *blobs.Store
	Passwords *kv.Passwords
	Thumbs    *thumb.Maker
	Icons     *thumb.Icons
	// Outbound sends the requests that go to addresses which people name.
	Outbound *outbound.Client
	// Search finds records. While it does not run, they are read through.
	Search *search.Index
	// Scrubbed is when all stored files were last checked; zero if never.
	Scrubbed func() time.Time
	// Absent is the first contents that records have and that the latest look
	// did not find on the disk, how many records have such contents, and when
	// the look was.
	Absent func() (refs []blobs.Ref, files int, looked time.Time)
	// Base is the absolute address under which visitors reach the server,
	// without a slash at the end. Every generated address begins with it.
	Base string
	// Content is another origin from which stored bytes are served and nothing
	// else, as ContentOrigin returns it; "" is Base's.
	Content string
	// MaxUpload bounds one file in bytes.
	MaxUpload int64
	// Captcha holds while the settings name no provider; zero is CaptchaPow.
	Captcha Captcha
	// AnyHost takes requests for whatever Host. Otherwise those for a name that
	// is neither in Base nor in Content are refused.
	AnyHost bool
	// TrustedProxies may say who the client is (X-Forwarded-For), and under
	// which scheme and host it asked (X-Forwarded-Proto, X-Forwarded-Host).
	TrustedProxies []netip.Prefix
	// MaxConnections bounds the connections at one time; 0 is MaxConnections.
	MaxConnections int
	// Metrics turns /metrics on.
	Metrics bool
	Version string // of the program
	Log     *slog.Logger
	// Access takes a line for each request; Log if nil.
	Access *slog.Logger
}

// site is what the handlers of all rooms share.
type site struct {
	Config
	shown    shownPool // for owners
	shared   shownPool // for visitors
	renders  renders
	turns    uploadLocks // on resumable uploads
	webhooks *webhook.Sender
	movers   imports
	fetcher  fetcher
	grants   *grants
	captcha  *captcha
	json     *budget

	crossOrigin *http.CrossOriginProtection

	base                       *url.URL // Base
	contentScheme, contentHost string   // of Content
	baseName, contentName      string   // their host names: see hostName

	toldProto, toldHost atomic.Bool // see compare

	renew   time.Duration            // writeRenew, but for tests
	running sync.WaitGroup           // requests, and what they have begun
	methods func(path string) string // Server.allowed
}

// Server is the handler of the whole site.
type Server struct {
	*site
	routes    []route
	routers   []*httprouter.Router // that hold the routes: see mount
	handler   http.Handler
	schema    func() (*served, error)        // made when first asked for
	extension func() (*embed.Archive, error) // made when first asked for
	misses    slugProbes
	repeats   repeatGuards
	probe     probe
	links     *linkcheck.Checker
	meter     *meter // nil while /metrics is off

	readiness readiness
	crowd     connectionCounts
	serving   atomic.Int64 // requests
}

// Busy reports whether a request is being answered.
func (s *Server) Busy() bool { return s.serving.Load() > 0 }

// New makes a server.
func New(c Config) (*Server, error) {
	s := &Server{
		site:  &site{Config: c, renew: writeRenew, json: newBudget(), webhooks: webhook.New(c.Store, c.Outbound, c.Base, c.Log)},
		links: linkcheck.New(c.Store, c.Outbound, c.Icons, c.Log),
	}
	s.methods = s.allowed
	if s.Access == nil {
		s.Access = s.Log
	}
	if s.MaxConnections == 0 {
		s.MaxConnections = MaxConnections
	}
	s.crowd.from = map[netip.Prefix]int{}
	s.readiness.turn = make(chan struct{}, 1)
	s.movers.begin()
	s.fetcher.ready()
	s.routes = s.table()
	secret, err := c.Store.Secret()
	if err == nil {
		s.grants, err = newGrants(secret)
	}
	if err != nil {
		return nil, err
	}
	s.captcha = newCaptcha()
	s.crossOrigin = http.NewCrossOriginProtection()
	s.base, err = url.Parse(c.Base)
	if err == nil { // a proxy may change the Host that Origin is held against
		err = s.crossOrigin.AddTrustedOrigin(s.base.Scheme + "://" + s.base.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("the base address: %w", err)
	}
	s.baseName = hostName(s.base.Host)
	if c.Content != "" {
		u, err := url.Parse(c.Content)
		if err != nil {
			return nil, fmt.Errorf("the address for content: %w", err)
		}
		s.contentScheme, s.contentHost = u.Scheme, u.Host
		s.contentName = hostName(u.Host)
	}
	if c.Metrics {
		s.meter = newMeter(s)
	}
	s.schema = sync.OnceValues(func() (*served, error) { return serveDocument(c.Base) })
	s.extension = sync.OnceValues(func() (*embed.Archive, error) { return embed.ExtensionZip(c.Base) })
	s.handler = s.mount()
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, s.atRoot(r))
}

// atRoot is a request without the path of the base address, which proxies take
// off as a rule. Where none does, and at the address that the server listens at,
// links with it work all the same.
func (s *Server) atRoot(r *http.Request) *http.Request {
	prefix := strings.TrimSuffix(s.base.Path, "/")
	rest, ok := strings.CutPrefix(r.URL.Path, prefix+"/")
	if prefix == "" || !ok || s.allowed(r.URL.Path) != "" {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = "/"+rest, strings.TrimPrefix(u.RawPath, s.base.EscapedPath())
	short := *r
	short.URL = &u
	return &short
}

// Limits of connections (RFC 9110 leaves them to the server): a client gets
// five seconds for the head of a request, of at most 32 KiB, and a minute
// between two requests. Bodies are paced in body.go.
const (
	headTime  = 5 * time.Second
	idleTime  = time.Minute
	headBytes = 32 << 10
)

// Serve answers requests on the listener, delivers to webhooks, fetches remote
// uploads and looks at the pages of bookmarks, until ctx ends. It then takes no new ones, lets those under way finish for up to grace,
// and returns when all are done. With a TLS configuration it speaks HTTPS.
func (s *Server) Serve(ctx context.Context, l net.Listener, t *tls.Config, grace time.Duration) error {
	srv := &http.Server{
		Handler: s, TLSConfig: t,
		ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes,
		DisableGeneralOptionsHandler: true,
		ConnContext:                  connected,
		ConnState:                    s.limitConnections,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	defer s.movers.end()
	work.Go(func() { s.webhooks.Run(ctx) })
	work.Go(func() { s.fetchQueued(ctx) })
	work.Go(func() { s.links.Run(ctx) })
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
	s.running.Wait()
	return err
}
