package web

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/google/uuid"

	"kist/kv/people"
	"kist/kv/record"
)

// A Request is a request that is being answered.
type Request struct {
	Site   *Site
	W      *AnswerWriter
	R      *http.Request
	Args   httprouter.Params
	ID     string         // of the request
	Addr   netip.Addr     // of the client
	Caller *people.Caller // nil for a visitor
	held   holds          // of Site.Memory

	Status int     // that the operation answers with
	Repeat *Repeat // nil without an Idempotency-Key
}

// AnswerWriter notes what is answered, for the log, and cuts off clients that do not read
// their answer.
type AnswerWriter struct {
	http.ResponseWriter
	Ctl    *http.ResponseController
	Conn   net.Conn   // of HTTP/1; nil if there are other requests on it
	Addr   netip.Addr // of the client
	Away   bool       // the request came to the origin for content
	Plain  bool       // the client prefers text to JSON and the operation has it
	Body   *paced     // of the request; nil if it has none
	ID     string     // of the request
	Op     string     // operationId
	Status int
	Bytes  int64
	Caller *people.Caller
	// Account is the name of the account that the operator acts for.
	Account string
	Code    string // of the error answered

	Renew    time.Duration // see WriteRenew
	extended time.Time     // when the deadline for writing was last set
}

// A client must read an answer at least at this rate, so that it cannot hold a connection
// and an open file forever.
const (
	writeTime  = 2 * time.Minute
	writeBytes = 128 << 10
	WriteRenew = time.Second // how old a deadline may be before it is set again
)

// Extend gives the client writeTime for the next write, or up to WriteRenew less, because
// setting a deadline costs more than reading the clock. net/http removes the deadline after
// each answer, so each answer sets its own.
func (w *AnswerWriter) Extend() {
	now := time.Now()
	if now.Sub(w.extended) < w.Renew {
		return
	}
	w.extended = now
	_ = w.Ctl.SetWriteDeadline(now.Add(writeTime)) // fails only if the connection has no deadlines
}

// A connection caches what is known about a connection between requests. It is used only
// for HTTP/1, where requests follow each other. Those of HTTP/2 run at the same time.
type connection struct {
	conn   net.Conn
	remote string     // as http.Request has it
	addr   netip.Addr // remote, parsed
}

type connectionKey struct{}

// Connected prepares a new connection for connectionOf.
func Connected(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{conn: conn})
}

// connectionOf is the request's connection, or nil.
func connectionOf(r *http.Request) *connection {
	if r.ProtoMajor != 1 {
		return nil
	}
	l, _ := r.Context().Value(connectionKey{}).(*connection)
	return l
}

// ConnectionOf is the connection that the request has for itself, or nil.
func ConnectionOf(r *http.Request) net.Conn {
	if l := connectionOf(r); l != nil {
		return l.conn
	}
	return nil
}

// Cut ends the request from another goroutine. The handler must not have returned yet.
func (w *AnswerWriter) Cut() {
	if w.Conn != nil {
		CloseAtOnce(w.Conn)
		return
	}
	_ = w.Ctl.SetWriteDeadline(time.Unix(1, 0)) // resets the stream of HTTP/2
}

// CloseAtOnce closes a connection without the farewell of TLS, for which it could wait.
func CloseAtOnce(conn net.Conn) {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	_ = conn.Close()
}

// LeaveBody has the answer sent without reading what is left of the body, which the client
// could send slowly. The connection ends with the answer.
func (w *AnswerWriter) LeaveBody() {
	w.Header().Set("Connection", "close")
	if w.Body != nil {
		w.Body.cut()
	}
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
		n, err := w.ResponseWriter.Write(p[:min(len(p), writeBytes)]) // #nosec G705 -- the caller sets its type and policy
		w.Bytes += int64(n)
		total += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
		w.Extend()
	}
}

// inMemory is content that can be written directly, without a copy through a buffer.
type inMemory interface {
	io.WriterTo
	Len() int
}

// ReadFrom lets the connection copy a file, or a limited part of one, in the kernel
// (sendfile).
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

// Linger sends the answer and then reads what still comes of the body, within bounds, so that the client can
// read the answer. HTTP/2 needs none of it: its streams end without their connection.
func (w *AnswerWriter) Linger(r *http.Request) {
	if w.Body == nil || !w.Body.unread() || w.Status == 0 || r.ProtoMajor != 1 {
		return
	}
	if err := w.Ctl.Flush(); err != nil {
		return
	}
	w.Body.linger()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *AnswerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Header values of every answer. They are put into the map directly, which saves an
// allocation each. Nobody changes them.
var (
	HeadNoSniff    = []string{"nosniff"}
	HeadNoReferrer = []string{"no-referrer"}
	HeadNoStore    = []string{"no-store"}
	headJSON       = []string{JSONType}
	headVary       = []string{"Origin, Accept-Encoding"}
	headSameOrigin = []string{"same-origin"}
	// Pages use the clipboard, the share sheet and full screen, which are allowed
	// by default, and none of these.
	headPermissions = []string{"accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()"}
)

// maxLogged is how much of a path is logged, in bytes.
const maxLogged = 512

// LogLine writes one line about the request. It contains no header, body or query, and
// no part of the path that may be a secret.
func (s *Site) LogLine(w *AnswerWriter, r *http.Request, id string, took time.Duration) {
	client := "local" // a unix socket's peer has no address
	if w.Addr.IsValid() {
		client = w.Addr.String()
	}
	level := slog.LevelInfo
	if (w.Op == "health" || w.Op == "ready") && w.Status == http.StatusOK {
		level = slog.LevelDebug // monitors ask every few seconds
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
	// Not Logger.LogAttrs: it looks up which line of the program called it, which no
	// handler writes.
	if h := s.Access.Handler(); h.Enabled(r.Context(), level) {
		line := slog.NewRecord(time.Now(), level, "request", 0)
		line.AddAttrs(attrs...)
		_ = h.Handle(r.Context(), line) // as Logger does
	}
}

// DeletionPath is the prefix of deletion addresses. Anyone who has such an address can
// delete its one item, for as long as the item exists: a program that cannot send a
// request opens the address in a browser. Only the answer to the creation of the item
// has the address. The first segment of the path is not a valid slug.
const DeletionPath = "/share/delete/"

const RequestsPath = APIPath + "upload-requests"

// SentPath is the path of senders' resumable uploads. It is followed by a secret, which is
// all that is needed to continue the upload.
const SentPath = RequestsPath + "/tus"

// secretPaths are prefixes of paths that end in a secret.
var secretPaths = []string{claimPath, ResetPath, DeletionPath, SentPath + "/"}

var slashes = regexp.MustCompile(`/+`)

// loggable is a path without secrets: the token of a claim link or a deletion address and
// the secret of a sender's upload, in any case and at any place, and misplaced API keys. It
// also leaves out whatever is as long as a secret, because an address may be mistyped.
func loggable(path string) string {
	if strings.Contains(path, "//") {
		path = slashes.ReplaceAllString(path, "/")
	}
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
	return CutTo(withoutTokens(path), maxLogged)
}

// shortestToken is less than the length of any secret. No slug that the server makes is as long.
const shortestToken = 32

// withoutTokens is a path without what is as long as a secret. Ids stay.
func withoutTokens(path string) string {
	var out []byte
	begun, done := 0, 0
	for i := 0; i <= len(path); i++ {
		if i < len(path) && inToken(path[i]) {
			continue
		}
		if word := path[begun:i]; len(word) >= shortestToken && !isID(word) {
			out = append(append(out, path[done:begun]...), "…"...)
			done = i
		}
		begun = i + 1
	}
	if out == nil {
		return path
	}
	return string(append(out, path[done:]...))
}

func inToken(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}

func isID(word string) bool {
	_, err := uuid.Parse(word)
	return err == nil && len(word) == 36
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

// NewID makes a request id. It identifies a line of the log and is not a secret. The
// runtime's generator is different in each process and needs no system call.
func NewID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())  // #nosec G404 -- names a request, no secret
	binary.BigEndian.PutUint64(b[8:], rand.Uint64()) // #nosec G404 -- names a request, no secret
	return hex.EncodeToString(b[:12])
}

// CrossOrigin lets pages of any origin call the API with a key (CORS, Fetch standard),
// never with cookies. It reports whether the request is a pre-flight, which is answered
// with these headers alone.
func CrossOrigin(h http.Header, r *http.Request) (preflight bool) {
	if !inAPI(r.URL.Path) {
		return false
	}
	h["Vary"] = headVary
	// CORS requests, as below, are not subject to it (Fetch standard, section 3.7). It
	// stops pages of other sites from embedding answers.
	h["Cross-Origin-Resource-Policy"] = headSameOrigin
	if r.Header.Get("Origin") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Location, ETag, "+tusHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "content-type, x-api-key, authorization, x-upload-password, x-share-password, "+
		"x-captcha-token, x-captcha-pass, idempotency-key, if-match, if-none-match, prefer, x-request-id, "+tusAsked)
	h.Set("Access-Control-Max-Age", "86400")
	return true
}

// Client is the address of the client: the connection's peer, or, behind trusted proxies,
// the last address in X-Forwarded-For that is not one of them. A peer without an address
// (a unix socket) counts as a trusted proxy if there are any.
func (s *Site) Client(r *http.Request) netip.Addr {
	addr, proxy := s.peer(r)
	if !proxy {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break // earlier entries cannot be trusted
		}
		if addr = hop.Unmap().WithZone(""); !s.Trusts(addr) {
			break
		}
	}
	return addr
}

// host is the host that the client asked for: the request's Host, or the last value of
// X-Forwarded-Host if a trusted proxy sets it.
func (s *Site) host(r *http.Request) string {
	if _, proxy := s.peer(r); proxy {
		if last := lastValue(r.Header, "X-Forwarded-Host"); last != "" {
			return last
		}
	}
	return r.Host
}

// peer is the address of the connection's other end. proxy says whether it is a trusted
// proxy.
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
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (c *Request) Owner() record.ID { return c.Caller.User.ID }

// Arg is a segment of the path.
func (c *Request) Arg(name string) string { return c.Args.ByName(name) }
