package web

import (
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"time"

	"kist/kv/people"
)

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
		p = p[n:]
		if err != nil || len(p) == 0 {
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
