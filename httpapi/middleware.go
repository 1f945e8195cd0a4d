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
		aw := &web.AnswerWriter{
			ResponseWriter: w, Ctl: http.NewResponseController(w), Conn: web.ConnectionOf(r),
			Addr: s.Client(r), Away: s.AtContent(r), Renew: s.Renew,
		}
		release, crowded := s.admit(aw, r)
		if r.ContentLength != 0 {
			aw.Body = web.Pace(aw.Ctl, r)
			r = r.WithContext(r.Context()) // net/http looks at the body of its own request
			r.Body = aw.Body
			aw.Extend() // reading the body may send "100 Continue"
		}

		id := r.Header.Get("X-Request-Id")
		if !web.SaneID(id) {
			id = web.NewID()
		}
		aw.ID = id

		h := w.Header()
		h["X-Request-Id"] = []string{id}
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
		s.WarnProxyMismatch(r)
		preflight := !aw.Away && web.CrossOrigin(h, r)

		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
				s.Log.Error("panic", "requestId", id, "panic", p, "stack", string(debug.Stack()))
				if aw.Status == 0 {
					s.Fail(aw, r, id, web.ErrInternal)
					p = nil
				}
			}
			took := time.Since(start)
			s.meter.note(aw, took)
			s.LogLine(aw, r, id, took)
			if release != nil {
				release()
			}
			if p != nil {
				// The client must not mistake a partial answer for a complete one.
				panic(http.ErrAbortHandler)
			}
			aw.Linger(r)
		}()

		switch {
		case crowded != nil:
			aw.LeaveBody()
			s.Fail(aw, r, id, crowded)
		case !s.AnswersFor(r) && !web.IsProbe(r.URL.Path):
			s.Fail(aw, r, id, web.ErrMisdirected)
		case preflight:
			aw.WriteHeader(http.StatusNoContent)
		case web.HidesPath(r.URL):
			s.Fail(aw, r, id, record.NotFound("address"))
		case len(r.URL.RawQuery) > web.MaxQuery:
			s.Fail(aw, r, id, &record.Error{Fault: record.Malformed, Code: "bad_query", Text: "The query is too long."})
		default:
			next.ServeHTTP(aw, r)
		}
	})
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
