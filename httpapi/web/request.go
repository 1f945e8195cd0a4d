package web

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
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// A Request is one request on its way to an answer.
type Request struct {
	Site   *Site
	W      *AnswerWriter
	R      *http.Request
	Args   httprouter.Params
	ID     string         // of the request
	Addr   netip.Addr     // of the client
	Caller *people.Caller // nil for a visitor
	held   int64          // bytes of Server.json
	share  *share         // that they are of; nil while there are none

	Made int          // the status that the operation answers with
	Keep func([]byte) // keeps the body of a good answer; nil if nothing asks for it
}

// AnswerWriter notes what is answered, for the log, and cuts off clients that
// do not take their answer.
type AnswerWriter struct {
	http.ResponseWriter
	Ctl    *http.ResponseController
	Addr   netip.Addr // of the client
	Away   bool       // the request came to the origin for content
	Plain  bool       // the client would rather have text than JSON, and may
	Body   *paced     // of the request; nil if it has none
	Id     string     // of the request
	Op     string     // that it is for
	Status int
	Bytes  int64
	Caller *people.Caller
	// Account is the name of the account that the operator acts for.
	Account string
	Code    string // of the error answered

	Renew    time.Duration // see writeRenew
	extended time.Time     // when the deadline for writing was last set
}

// An answer must be taken at this rate or better, so that a client that reads
// slowly does not hold a connection and an open file for good.
const (
	writeTime  = time.Minute
	writeBytes = 256 << 10
	WriteRenew = time.Second // how old a deadline may be until it is set again
)

// Extend gives the client writeTime to take what is written next, or writeRenew
// less: to set a deadline costs more than to look at the clock. What was set for
// an answer is gone with it, as net/http sees to, so that each sets its own.
func (w *AnswerWriter) Extend() {
	now := time.Now()
	if now.Sub(w.extended) < w.Renew {
		return
	}
	w.extended = now
	_ = w.Ctl.SetWriteDeadline(now.Add(writeTime)) // a connection without deadlines has none to keep
}

// A connection is what is known of a connection beyond one request. HTTP/1 has one
// request at a time on a connection; one of HTTP/2 has none, as its requests
// run beside each other.
type connection struct {
	remote string     // as http.Request has it
	addr   netip.Addr // what that says
}

type connectionKey struct{}

// Connected gives a new connection what connectionOf finds.
func Connected(ctx context.Context, _ net.Conn) context.Context {
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

func (w *AnswerWriter) WriteHeader(status int) {
	if w.Status == 0 && status >= 200 {
		w.Status = status
		if w.Body != nil {
			w.Body.rest()
		}
		w.Extend()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *AnswerWriter) Write(p []byte) (total int, err error) {
	if w.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	for {
		n, err := w.ResponseWriter.Write(p[:min(len(p), writeBytes)]) // #nosec G705 -- what may be in it is up to the caller, who sets its type and policy
		w.Bytes += int64(n)
		total += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
		w.Extend()
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
func (w *AnswerWriter) ReadFrom(r io.Reader) (total int64, err error) {
	if w.Status == 0 {
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
		w.Bytes += n
		total += n
		if err != nil || piece.N > 0 { // failed, or at the end of r
			return total, err
		}
		w.Extend()
	}
	return total, nil
}

// Unwrap lets http.ResponseController reach the connection.
func (w *AnswerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Values of headers that every answer has. They are put in the map as they are,
// which spares an allocation each; nobody writes into them.
var (
	HeadNoSniff    = []string{"nosniff"}
	HeadNoReferrer = []string{"no-referrer"}
	HeadNoStore    = []string{"no-store"}
	headJSON       = []string{JsonType}
	headVary       = []string{"Origin, Accept-Encoding"}
	headSameOrigin = []string{"same-origin"}
	// Pages use the clipboard, the share sheet and full screen, which are theirs
	// unless it is taken away, and nothing of this.
	headPermissions = []string{"accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()"}
)

// maxLogged is how much of a path is logged, in bytes.
const maxLogged = 512

// LogLine writes one line for the request. It holds no header, body or query,
// and nothing of a path that may be a secret.
func (s *Site) LogLine(w *AnswerWriter, r *http.Request, id string, took time.Duration) {
	client := "local" // a unix socket's peer has no address
	if w.Addr.IsValid() {
		client = w.Addr.String()
	}
	level := slog.LevelInfo
	if (w.Op == "health" || w.Op == "ready") && w.Status == http.StatusOK {
		level = slog.LevelDebug // asked every few seconds, for ever
	}
	attrs := append(
		make([]slog.Attr, 0, 12),
		slog.String("method", CutTo(r.Method, 32)), slog.String("path", loggable(r.URL.Path)), slog.Int("status", w.Status),
		slog.Int64("bytes", w.Bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.String("client", client), slog.String("requestId", id),
	)
	if w.Op != "" {
		attrs = append(attrs, slog.String("op", w.Op))
	}
	if w.Caller != nil {
		attrs = append(attrs, slog.String("user", w.Caller.User.Name))
		if w.Caller.Key.ID != (record.ID{}) { // the operator has none
			attrs = append(attrs, slog.String("key", w.Caller.Key.ID.String()))
		}
	}
	if w.Account != "" {
		attrs = append(attrs, slog.String("account", CutTo(w.Account, 64)))
	}
	if w.Code != "" {
		attrs = append(attrs, slog.String("code", w.Code))
	}
	s.Access.LogAttrs(r.Context(), level, "request", attrs...)
}

// secretPaths are those whose ends are secrets.
var secretPaths = []string{claimPath, DeletionPath, SentPath + "/"}

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
	if i := strings.Index(path, people.KeyPrefix); i >= 0 {
		path = path[:i+len(people.KeyPrefix)] + "…"
	}
	return CutTo(path, maxLogged)
}

func CutTo(t string, limit int) string {
	if len(t) > limit {
		return t[:limit] + "…"
	}
	return t
}

// SaneID reports whether a client's request id may be used and logged.
func SaneID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	return strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// NewID makes a request id. It names a line of the log and is no secret: the
// runtime's own generator, which no two processes share, does without a system
// call.
func NewID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())  // #nosec G404 -- names a request, no secret
	binary.BigEndian.PutUint64(b[8:], rand.Uint64()) // #nosec G404 -- names a request, no secret
	return hex.EncodeToString(b[:12])
}

// CrossOrigin lets pages of any origin call the API with a key (CORS, Fetch
// standard), never with cookies. It reports whether the request is a
// pre-flight, which is answered by these headers alone.
func CrossOrigin(h http.Header, r *http.Request) (preflight bool) {
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

// Client is the address of the client: the connection's peer, or, behind
// trusted proxies, the last address in X-Forwarded-For that is not one of
// them. A peer without an address (a unix socket) counts as a trusted proxy
// when there are any.
func (s *Site) Client(r *http.Request) netip.Addr {
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
		if addr = hop.Unmap().WithZone(""); !s.Trusts(addr) {
			break
		}
	}
	return addr
}

// host is the host that the client asked for: the request's own, or, behind a
// trusted proxy that puts another in its place, the last in X-Forwarded-Host.
func (s *Site) host(r *http.Request) string {
	if _, proxy := s.peer(r); proxy {
		if last := lastValue(r.Header, "X-Forwarded-Host"); last != "" {
			return last
		}
	}
	return r.Host
}

// peer is the address of the connection's other end, and whether that is a
// trusted proxy.
func (s *Site) peer(r *http.Request) (addr netip.Addr, proxy bool) {
	if l := connectionOf(r); l != nil {
		if l.remote != r.RemoteAddr {
			l.remote, l.addr = r.RemoteAddr, parsePeer(r.RemoteAddr)
		}
		addr = l.addr
	} else {
		addr = parsePeer(r.RemoteAddr)
	}
	return addr, len(s.TrustedProxies) > 0 && (!addr.IsValid() || s.Trusts(addr))
}

func parsePeer(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap().WithZone("")
}

func (s *Site) Trusts(a netip.Addr) bool {
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

// Authorize lets the caller through a door or says why not. Where anyone may go, a
// credential that cannot be used shuts nobody out: it makes a visitor.
func (c *Request) Authorize(d Access) error {
	if d.Operator {
		return record.NotFound("address")
	}
	if d.Open && (!d.optional || c.AtContentOrigin()) {
		return nil
	}
	caller, err := c.authenticate()
	if d.Open && err == errNoCredential { //nolint:errorlint // it is this very one: most visitors
		return nil
	}
	if _, status := ClientError(err); d.Open && status == http.StatusUnauthorized {
		return nil
	}
	if err != nil {
		return err
	}
	if caller.Key.Session && !safe(c.R.Method) {
		if err := c.SameOrigin(); err != nil {
			return err
		}
	}
	c.Caller = caller
	switch {
	case d.Open, d.AnyKey && !d.Admin, caller.Key.Session && (d.Session || d.Browser):
	case d.Browser:
		return &record.Error{Fault: record.Denied, Code: "session_needed", Text: "Only a user who is signed in may do this, not an API key."}
	case !d.AnyKey && !caller.Key.Allows(d.Scope):
		return &record.Error{Fault: record.Denied, Code: "scope_missing", Text: "This API key does not have the scope " + string(d.Scope) + "."}
	case d.Admin && caller.User.Role != record.Admin:
		return &record.Error{Fault: record.Denied, Code: "not_admin", Text: "Only an administrator may do this."}
	}
	return nil
}

var errNoCredential = &record.Error{
	Fault: record.Unauthorized, Code: "no_credential", Text: "This needs an API key, in the header x-api-key, or a browser that is signed in.",
}

// authenticate tells who calls: by an API key, which decides if there is one, else
// by a session.
func (c *Request) authenticate() (*people.Caller, error) {
	key, err := credential(c.R.Header)
	if err != nil {
		return nil, err
	}
	if key != "" {
		return people.Authenticate(c.Site.Store, key)
	}
	if secret := c.Session(); secret != "" {
		return people.AuthenticateSession(c.Site.Store, secret)
	}
	return nil, errNoCredential
}

// safe reports whether a method changes nothing (RFC 9110, section 9.2.1).
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// Owns reports whether the caller may see everything of r.
func (c *Request) Owns(r *record.Record) bool { return c.Caller != nil && owns(c.Caller, r) }

func owns(caller *people.Caller, r *record.Record) bool {
	return caller.User.ID == r.Owner && caller.Key.Allows(record.ScopeRead)
}

// UpdateAsCaller is Store.Update for the end of a request that may have taken long.
// It refuses a caller whose credential was revoked in the meantime.
func (c *Request) UpdateAsCaller(fn func(*kv.Tx) error) error {
	return c.Site.Store.Update(func(tx *kv.Tx) error {
		if err := people.CheckNotRevoked(tx, &c.Caller.Key); err != nil {
			return err
		}
		return fn(tx)
	})
}

func (c *Request) Owner() record.ID { return c.Caller.User.ID }

// Arg is a segment of the path.
func (c *Request) Arg(name string) string { return c.Args.ByName(name) }

// SessionCookie names the cookie of a browser that is signed in: see siteCookie.
const SessionCookie = "kist_session"

// Session is the secret in the request's cookie; "" if there is none.
func (c *Request) Session() string {
	cookie, err := c.R.Cookie(c.SiteCookie(SessionCookie))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// SameOrigin refuses what another site has a browser send, where the browser
// would add a cookie on its own or keep one (the standard library's
// CrossOriginProtection: Sec-Fetch-Site, else Origin).
func (c *Request) SameOrigin() error {
	if err := c.Site.CrossOrigin.Check(c.R); err != nil {
		return &record.Error{Fault: record.Denied, Code: "cross_origin", Text: "The request comes from another site."}
	}
	return nil
}
