package httpapi

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"kist/kv"
	"kist/kv/record"
)

// A request is one request on its way to an answer.
type request struct {
	s      *site
	w      *answerWriter
	r      *http.Request
	args   httprouter.Params
	id     string     // of the request
	addr   netip.Addr // of the client
	caller *kv.Caller // nil for a visitor
	held   int64      // bytes of Server.json
	share  *share     // that they are of; nil while there are none

	made int          // the status that the operation answers with
	keep func([]byte) // keeps the body of a good answer; nil if nothing asks for it
}

// answerWriter notes what is answered, for the log, and cuts off clients that
// do not take their answer.
type answerWriter struct {
	http.ResponseWriter
	ctl    *http.ResponseController
	addr   netip.Addr // of the client
	away   bool       // the request came to the origin for content
	plain  bool       // the client would rather have text than JSON, and may
	body   *paced     // of the request; nil if it has none
	id     string     // of the request
	op     string     // that it is for
	status int
	bytes  int64
	caller *kv.Caller
	code   string // of the error answered

	renew    time.Duration // see writeRenew
	extended time.Time     // when the deadline for writing was last set
}

// An answer must be taken at this rate or better, so that a client that reads
// slowly does not hold a connection and an open file for good.
const (
	writeTime  = time.Minute
	writeBytes = 256 << 10
	writeRenew = time.Second // how old a deadline may be until it is set again
)

// extend gives the client writeTime to take what is written next, or writeRenew
// less: to set a deadline costs more than to look at the clock. What was set for
// an answer is gone with it, as net/http sees to, so that each sets its own.
func (w *answerWriter) extend() {
	now := time.Now()
	if now.Sub(w.extended) < w.renew {
		return
	}
	w.extended = now
	_ = w.ctl.SetWriteDeadline(now.Add(writeTime)) // a connection without deadlines has none to keep
}

// A connection is what is known of a connection beyond one request. HTTP/1 has one
// request at a time on a connection; one of HTTP/2 has none, as its requests
// run beside each other.
type connection struct {
	remote string     // as http.Request has it
	addr   netip.Addr // what that says
}

type connectionKey struct{}

// connected gives a new connection what connectionOf finds.
func connected(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, new(connection))
}

// connectionOf is the request's connection, or nil.
func connectionOf(r *http.Request) *connection {
	if r.ProtoMajor != 1 {
		return nil
	}
	l, _ := r.Context().Value(connectionKey{}).(*connection)
	return l
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		if w.body != nil {
			w.body.rest()
		}
		w.extend()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(p []byte) (total int, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	for {
		n, err := w.ResponseWriter.Write(p[:min(len(p), writeBytes)]) // #nosec G705 -- what may be in it is up to the caller, who sets its type and policy
		w.bytes += int64(n)
		total += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
		w.extend()
	}
}

// inMemory is what is written as it is, where others are copied by way of a
// buffer.
type inMemory interface {
	io.WriterTo
	Len() int
}

// ReadFrom lets the connection copy a file on its own (sendfile), which it
// does for a file and for a limited part of one.
func (w *answerWriter) ReadFrom(r io.Reader) (total int64, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	whole, ok := r.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	if m, ok := whole.R.(inMemory); ok && whole.N >= int64(m.Len()) {
		return m.WriteTo(w)
	}
	for whole.N > 0 {
		piece := &io.LimitedReader{R: whole.R, N: min(whole.N, writeBytes)}
		n, err := io.Copy(w.ResponseWriter, piece)
		whole.N -= n
		w.bytes += n
		total += n
		if err != nil || piece.N > 0 { // failed, or at the end of r
			return total, err
		}
		w.extend()
	}
	return total, nil
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Values of headers that every answer has. They are put in the map as they are,
// which spares an allocation each; nobody writes into them.
var (
	headNoSniff    = []string{"nosniff"}
	headNoReferrer = []string{"no-referrer"}
	headNoStore    = []string{"no-store"}
	headJSON       = []string{jsonType}
	headVary       = []string{"Origin, Accept-Encoding"}
	headSameOrigin = []string{"same-origin"}
	// Pages use the clipboard, the share sheet and full screen, which are theirs
	// unless it is taken away, and nothing of this.
	headPermissions = []string{"accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()"}
)

// middleware is what every request passes: the client's address, the request id,
// cross-origin headers, and one line in the log at the end.
func (s *Server) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		s.running.Add(1)
		defer s.running.Done()
		s.serving.Add(1)
		defer s.serving.Add(-1)
		aw := &answerWriter{ResponseWriter: w, ctl: http.NewResponseController(w), addr: s.client(r), away: s.atContent(r), renew: s.renew}
		if r.ContentLength != 0 {
			aw.body = pace(aw.ctl, r)
			r = r.WithContext(r.Context()) // net/http looks at the body of its own
			r.Body = aw.body
			aw.extend() // for "100 Continue", which reading the body may send
		}
		id := r.Header.Get("X-Request-Id")
		if !saneID(id) {
			id = newID()
		}
		aw.id = id
		h := w.Header()
		h["X-Request-Id"] = []string{id}
		h["X-Content-Type-Options"] = headNoSniff
		h["Referrer-Policy"] = headNoReferrer
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// It may have had a Content-Length too, of which net/http keeps
			// nothing, and a proxy that went by that holds what follows for
			// another request (RFC 9112, section 6.1).
			h.Set("Connection", "close")
		}
		if s.base.Scheme == "https" && s.byHTTPS(r) {
			h["Strict-Transport-Security"] = hsts
		}
		s.warnProxyMismatch(r)
		preflight := !aw.away && crossOrigin(h, r)
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
				s.Log.Error("panic", "requestId", id, "panic", p, "stack", string(debug.Stack()))
				if aw.status == 0 {
					s.fail(aw, r, id, errInternal)
					p = nil
				}
			}
			took := time.Since(start)
			s.meter.note(aw, took)
			s.logLine(aw, r, id, took)
			if p != nil {
				// The client must not take half an answer for a whole one.
				panic(http.ErrAbortHandler)
			}
		}()
		switch {
		case !s.answersFor(r) && !isProbe(r.URL.Path):
			s.fail(aw, r, id, errMisdirected)
		case preflight:
			aw.WriteHeader(http.StatusNoContent)
		case hidesPath(r.URL):
			s.fail(aw, r, id, record.NotFound("address"))
		case len(r.URL.RawQuery) > maxQuery:
			s.fail(aw, r, id, &record.Error{Fault: record.Malformed, Code: "bad_query", Text: "The query is too long."})
		default:
			next.ServeHTTP(aw, r)
		}
	})
}

// serveOperation answers a request for an operation by a function that answers or fails.
func (s *Server) serveOperation(w http.ResponseWriter, r *http.Request, op string, args httprouter.Params, fn func(*request) error) {
	aw := w.(*answerWriter) // around made it
	aw.op = op
	c := &request{s: s.site, w: aw, r: r, args: args, id: aw.id, addr: aw.addr}
	defer c.releaseJSON()
	err := fn(c)
	aw.caller = c.caller
	if err != nil {
		s.fail(aw, r, c.id, err)
	}
}

// maxLogged is how much of a path is logged, in bytes.
const maxLogged = 512

// logLine writes one line for the request. It holds no header, body or query,
// and nothing of a path that may be a secret.
func (s *site) logLine(w *answerWriter, r *http.Request, id string, took time.Duration) {
	client := "local" // a unix socket's peer has no address
	if w.addr.IsValid() {
		client = w.addr.String()
	}
	level := slog.LevelInfo
	if (w.op == "health" || w.op == "ready") && w.status == http.StatusOK {
		level = slog.LevelDebug // asked every few seconds, for ever
	}
	attrs := append(
		make([]slog.Attr, 0, 11),
		slog.String("method", cutTo(r.Method, 32)), slog.String("path", loggable(r.URL.Path)), slog.Int("status", w.status),
		slog.Int64("bytes", w.bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.String("client", client), slog.String("requestId", id),
	)
	if w.op != "" {
		attrs = append(attrs, slog.String("op", w.op))
	}
	if w.caller != nil {
		attrs = append(attrs, slog.String("user", w.caller.User.Name), slog.String("key", w.caller.Key.ID.String()))
	}
	if w.code != "" {
		attrs = append(attrs, slog.String("code", w.code))
	}
	s.Access.LogAttrs(r.Context(), level, "request", attrs...)
}

// secretPaths are those whose ends are secrets.
var secretPaths = []string{claimPath, deletionPath, sentPath + "/"}

// loggable is a path without the token of a claim link or a deletion address or
// the secret of a sender's upload, wherever and however that stands in it, and
// without API keys that went astray.
func loggable(path string) string {
	for _, before := range secretPaths {
		for i := 0; i+len(before) < len(path); i++ {
			if path[i] == '/' && strings.EqualFold(path[i:i+len(before)], before) {
				path = path[:i+len(before)] + "…"
				break
			}
		}
	}
	if i := strings.Index(path, kv.KeyPrefix); i >= 0 {
		path = path[:i+len(kv.KeyPrefix)] + "…"
	}
	return cutTo(path, maxLogged)
}

func cutTo(t string, limit int) string {
	if len(t) > limit {
		return t[:limit] + "…"
	}
	return t
}

// saneID reports whether a client's request id may be used and logged.
func saneID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	return strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// newID makes a request id. It names a line of the log and is no secret: the
// runtime's own generator, which no two processes share, does without a system
// call.
func newID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())  // #nosec G404 -- names a request, no secret
	binary.BigEndian.PutUint64(b[8:], rand.Uint64()) // #nosec G404 -- names a request, no secret
	return hex.EncodeToString(b[:12])
}

// crossOrigin lets pages of any origin call the API with a key (CORS, Fetch
// standard), never with cookies. It reports whether the request is a
// pre-flight, which is answered by these headers alone.
func crossOrigin(h http.Header, r *http.Request) (preflight bool) {
	if !inAPI(r.URL.Path) {
		return false
	}
	h["Vary"] = headVary
	// Requests by CORS, as below, are not subject to it (Fetch standard, section
	// 3.7): it keeps answers out of other sites' pages that embed them.
	h["Cross-Origin-Resource-Policy"] = headSameOrigin
	if r.Header.Get("Origin") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Location, "+tusHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "content-type, x-api-key, authorization, x-upload-password, x-share-password, "+
		"x-captcha-token, x-captcha-pass, idempotency-key, x-request-id, "+tusAsked)
	h.Set("Access-Control-Max-Age", "86400")
	return true
}

// client is the address of the client: the connection's peer, or, behind
// trusted proxies, the last address in X-Forwarded-For that is not one of
// them. A peer without an address (a unix socket) counts as a trusted proxy
// when there are any.
func (s *site) client(r *http.Request) netip.Addr {
	addr, proxy := s.peer(r)
	if !proxy {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break // what lies beyond is not to be believed
		}
		if addr = hop.Unmap().WithZone(""); !s.trusts(addr) {
			break
		}
	}
	return addr
}

// host is the host that the client asked for: the request's own, or, behind a
// trusted proxy that puts another in its place, the last in X-Forwarded-Host.
func (s *site) host(r *http.Request) string {
	if _, proxy := s.peer(r); proxy {
		if last := lastValue(r.Header, "X-Forwarded-Host"); last != "" {
			return last
		}
	}
	return r.Host
}

// peer is the address of the connection's other end, and whether that is a
// trusted proxy.
func (s *site) peer(r *http.Request) (addr netip.Addr, proxy bool) {
	if l := connectionOf(r); l != nil {
		if l.remote != r.RemoteAddr {
			l.remote, l.addr = r.RemoteAddr, parsePeer(r.RemoteAddr)
		}
		addr = l.addr
	} else {
		addr = parsePeer(r.RemoteAddr)
	}
	return addr, len(s.TrustedProxies) > 0 && (!addr.IsValid() || s.trusts(addr))
}

func parsePeer(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap().WithZone("")
}

func (s *site) trusts(a netip.Addr) bool {
	for _, p := range s.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// credential is the API key of a request; "" if there is none. Two different
// ones are refused, so that no reader of the request can take another for the
// caller than kist does.
func credential(h http.Header) (string, error) {
	var key string
	differ := false
	found := func(v string) {
		if v = strings.TrimSpace(v); v == "" { // a header without a value is none
			return
		}
		differ = differ || key != "" && v != key
		key = v
	}
	for _, v := range h["X-Api-Key"] {
		found(v)
	}
	for _, v := range h["Authorization"] {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(v, "\t", " ")), " ")
		if strings.EqualFold(scheme, "ApiKey") || strings.EqualFold(scheme, "Bearer") {
			found(rest)
		}
	}
	if differ {
		return "", &record.Error{Fault: record.Malformed, Code: "conflicting_credentials", Text: "The request carries two different credentials."}
	}
	return key, nil
}

// authorize lets the caller through a door or says why not. Where anyone may go, a
// credential that cannot be used shuts nobody out: it makes a visitor.
func (c *request) authorize(d access) error {
	if d.open && (!d.optional || c.atContentOrigin()) {
		return nil
	}
	caller, err := c.authenticate()
	if d.open && err == errNoCredential { //nolint:errorlint // it is this very one: most visitors
		return nil
	}
	if _, status := clientError(err); d.open && status == http.StatusUnauthorized {
		return nil
	}
	if err != nil {
		return err
	}
	if caller.Key.Session && !safe(c.r.Method) {
		if err := c.sameOrigin(); err != nil {
			return err
		}
	}
	c.caller = caller
	switch {
	case d.open, d.anyKey && !d.admin, caller.Key.Session && (d.session || d.browser):
	case d.browser:
		return &record.Error{Fault: record.Denied, Code: "session_needed", Text: "Only a user who is signed in may do this, not an API key."}
	case !d.anyKey && !caller.Key.Allows(d.scope):
		return &record.Error{Fault: record.Denied, Code: "scope_missing", Text: "This API key does not have the scope " + string(d.scope) + "."}
	case d.admin && caller.User.Role != record.Admin:
		return &record.Error{Fault: record.Denied, Code: "not_admin", Text: "Only an administrator may do this."}
	}
	return nil
}

var errNoCredential = &record.Error{
	Fault: record.Unauthorized, Code: "no_credential", Text: "This needs an API key, in the header x-api-key, or a browser that is signed in.",
}

// authenticate tells who calls: by an API key, which decides if there is one, else
// by a session.
func (c *request) authenticate() (*kv.Caller, error) {
	key, err := credential(c.r.Header)
	if err != nil {
		return nil, err
	}
	if key != "" {
		return c.s.Store.Authenticate(key)
	}
	if secret := c.session(); secret != "" {
		return c.s.Store.AuthenticateSession(secret)
	}
	return nil, errNoCredential
}

// safe reports whether a method changes nothing (RFC 9110, section 9.2.1).
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// owns reports whether the caller may see everything of r.
func (c *request) owns(r *record.Record) bool { return c.caller != nil && owns(c.caller, r) }

func owns(caller *kv.Caller, r *record.Record) bool {
	return caller.User.ID == r.Owner && caller.Key.Allows(record.ScopeRead)
}

// updateAsCaller is Store.Update for the end of a request that may have taken long.
// It refuses a caller whose credential was revoked in the meantime.
func (c *request) updateAsCaller(fn func(*kv.Tx) error) error {
	return c.s.Store.Update(func(tx *kv.Tx) error {
		if err := tx.CheckNotRevoked(&c.caller.Key); err != nil {
			return err
		}
		return fn(tx)
	})
}

func (c *request) owner() record.ID { return c.caller.User.ID }

// arg is a segment of the path.
func (c *request) arg(name string) string { return c.args.ByName(name) }
