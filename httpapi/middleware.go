package httpapi

import (
	"net/http"
	"runtime/debug"
	"time"

	"github.com/julienschmidt/httprouter"

	"kist/httpapi/web"
	"kist/kv/record"
)

// middleware does what every request needs: the client's address, the request id,
// cross-origin headers, and a log line at the end.
func (s *Server) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		s.Running.Add(1)
		defer s.Running.Done()
		s.serving.Add(1)
		defer s.serving.Add(-1)

		aw := s.newAnswer(w, r)
		release, crowded := s.admit(aw, r)
		if r.ContentLength != 0 {
			r = pace(aw, r)
		}
		s.setHeaders(aw, r)
		s.WarnProxyMismatch(r)
		preflight := !aw.Away && web.CrossOrigin(aw.Header(), r)

		defer func() {
			cut := s.answerPanic(aw, r, recover())
			took := time.Since(start)
			s.meter.note(aw, took)
			s.LogLine(aw, r, aw.ID, took)
			if release != nil {
				release()
			}
			if cut {
				// The client must not mistake a partial answer for a complete one.
				panic(http.ErrAbortHandler)
			}
			aw.Linger(r)
		}()

		switch {
		case crowded != nil:
			aw.LeaveBody()
			s.Fail(aw, r, aw.ID, crowded)
		case !s.AnswersFor(r) && !web.IsProbe(r.URL.Path):
			s.Fail(aw, r, aw.ID, web.ErrMisdirected)
		case preflight:
			aw.WriteHeader(http.StatusNoContent)
		case web.HidesPath(r.URL):
			s.Fail(aw, r, aw.ID, record.NotFound("address"))
		case len(r.URL.RawQuery) > web.MaxQuery:
			tooLong := &record.Error{Fault: record.Malformed, Code: "bad_query", Text: "The query is too long."}
			s.Fail(aw, r, aw.ID, tooLong)
		default:
			next.ServeHTTP(aw, r)
		}
	})
}

// newAnswer is the answer to a request, with the request's id: the client's if it is sane, or a new one.
func (s *Server) newAnswer(w http.ResponseWriter, r *http.Request) *web.AnswerWriter {
	id := r.Header.Get("X-Request-Id")
	if !web.SaneID(id) {
		id = web.NewID()
	}
	return &web.AnswerWriter{
		ResponseWriter: w, Ctl: http.NewResponseController(w), Conn: web.ConnectionOf(r), ID: id,
		Addr: s.Client(r), Away: s.AtContent(r), Renew: s.Renew,
	}
}

// pace returns the request with a body that must come at a minimum speed.
func pace(aw *web.AnswerWriter, r *http.Request) *http.Request {
	aw.Body = web.Pace(aw.Ctl, r)
	r = r.WithContext(r.Context()) // net/http looks at the body of its own request
	r.Body = aw.Body
	aw.Extend() // reading the body may send "100 Continue"
	return r
}

// setHeaders sets the headers that every answer has.
func (s *Server) setHeaders(aw *web.AnswerWriter, r *http.Request) {
	h := aw.Header()
	h["X-Request-Id"] = []string{aw.ID}
	h["X-Content-Type-Options"] = web.HeadNoSniff
	h["Referrer-Policy"] = web.HeadNoReferrer
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// The request may also have had a Content-Length, which net/http drops. A proxy
		// that used it would take the following bytes for another request (RFC 9112,
		// section 6.1).
		h.Set("Connection", "close")
	}
	if s.BaseURL.Scheme == "https" && s.ByHTTPS(r) {
		h["Strict-Transport-Security"] = web.HSTS
	}
}

// answerPanic logs what a handler panicked with, if it did, and answers if nothing was sent yet. cut reports whether
// the connection has to be cut instead.
func (s *Server) answerPanic(aw *web.AnswerWriter, r *http.Request, p any) (cut bool) {
	if p == nil {
		return false
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		return true
	}
	s.Log.Error("panic", "requestId", aw.ID, "panic", p, "stack", string(debug.Stack()))
	if aw.Status != 0 {
		return true
	}
	s.Fail(aw, r, aw.ID, web.ErrInternal)
	return false
}

// serveOperation answers a request with fn, or with the error that it returns.
func (s *Server) serveOperation(
	w http.ResponseWriter, r *http.Request, op string, args httprouter.Params, fn func(*web.Request) error,
) {
	aw := w.(*web.AnswerWriter) // made by middleware
	aw.Op = op
	c := &web.Request{Site: s.Site, W: aw, R: r, Args: args, ID: aw.ID, Addr: aw.Addr}
	defer c.ReleaseMemory()
	err := fn(c)
	aw.Caller = c.Caller
	if err != nil {
		s.Fail(aw, r, c.ID, err)
	}
}
