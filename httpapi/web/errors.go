package web

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kist/blobs"
	"kist/embed"
	"kist/httpapi/captcha"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// Statuses maps each class of errors to its status (RFC 9110, RFC 4918, RFC 6585).
var Statuses = map[record.Fault]int{
	record.Malformed:    http.StatusBadRequest,
	record.Unauthorized: http.StatusUnauthorized,
	record.Denied:       http.StatusForbidden,
	record.Missing:      http.StatusNotFound,
	record.Taken:        http.StatusConflict,
	record.Gone:         http.StatusGone,
	record.TooLarge:     http.StatusRequestEntityTooLarge,
	record.WrongType:    http.StatusUnsupportedMediaType,
	record.Invalid:      http.StatusUnprocessableEntity,
	record.TooMany:      http.StatusTooManyRequests,
	record.Busy:         http.StatusServiceUnavailable,
	record.Full:         http.StatusInsufficientStorage,
	record.Changed:      http.StatusPreconditionFailed,
}

// StatusChecksum is the status of tus for a wrong checksum. It is not registered.
const StatusChecksum = 460

var (
	ErrMethod       = errors.New("method not allowed")
	ErrInternal     = errors.New("internal")
	ErrMisdirected  = errors.New("misdirected request")
	ErrRange        = errors.New("range not satisfiable")
	ErrPrecondition = errors.New("precondition failed")
)

// unavailableTime is how long clients should wait before they try again after the disk
// or the system has failed.
const unavailableTime = 10 * time.Second

// ClientError turns any error into one for the client, with its status. Errors that
// clients should not see become 500 without details.
func ClientError(err error) (*record.Error, int) {
	if err == nil {
		return nil, 0
	}
	var e *record.Error
	var problems field.Problems
	var malformed field.Malformed
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &e) && Statuses[e.Fault] != 0:
		return e, Statuses[e.Fault]
	case errors.As(err, &problems):
		errors.As(record.Bad(problems), &e)
		return e, http.StatusUnprocessableEntity
	case errors.As(err, &malformed):
		return told(http.StatusBadRequest, "malformed", string(malformed))
	case errors.As(err, &large):
		return told(http.StatusRequestEntityTooLarge, "too_large",
			"The body is larger than "+record.Plural(large.Limit, "byte")+".")
	case errors.Is(err, ErrMethod):
		return told(http.StatusMethodNotAllowed, "method_not_allowed", "This address does not support this method.")
	case errors.Is(err, ErrMisdirected):
		return told(http.StatusMisdirectedRequest, "misdirected",
			"This server does not answer at the address in your request. Its operator sets the address with --base-url.")
	case errors.Is(err, ErrRange):
		return told(http.StatusRequestedRangeNotSatisfiable, "bad_range",
			"The content does not have the requested range.")
	case errors.Is(err, ErrTusVersion):
		return told(http.StatusPreconditionFailed, "tus_version",
			"The request must have Tus-Resumable: "+TusVersion+".")
	case errors.Is(err, ErrTusChecksum):
		return told(StatusChecksum, "checksum_mismatch", "The body does not match its checksum. Nothing was stored.")
	case errors.Is(err, ErrPrecondition):
		return told(http.StatusPreconditionFailed, "precondition_failed",
			"The content has changed: it does not match the request's conditions.")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return told(http.StatusInsufficientStorage, "disk_full", "The server's disk is full. Nothing was stored.")
	case errors.Is(err, blobs.ErrAway):
		return unavailable("store_unreachable",
			"The bytes of this file are in the object store, and the server cannot reach it at the moment.")
	case errors.As(err, new(*blobs.Unwritable)):
		return unavailable("unavailable", "The server cannot write to its folder for files at the moment. "+
			"Nothing was stored. Existing files can be read.")
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, kv.ErrClosed):
		return unavailable("unavailable", "The server cannot use its disk at the moment. Nothing was stored.")
	}
	return told(http.StatusInternalServerError, "internal",
		"Something went wrong on the server. The server's log has details under this request id.")
}

// told is an error for the client, with its status.
func told(status int, code, text string) (*record.Error, int) {
	return &record.Error{Code: code, Text: text}, status
}

// unavailable is an error for the client that may be over soon.
func unavailable(code, text string) (*record.Error, int) {
	return &record.Error{Code: code, Text: text, Retry: unavailableTime}, http.StatusServiceUnavailable
}

// inAPI reports whether a path belongs to the API: all answers there are JSON, errors
// too, and pages of any origin may read them.
func inAPI(path string) bool { return path == "/api" || strings.HasPrefix(path, "/api/") }

// TakesPage reports whether the client is a browser that shows a page. The origin for
// content has no pages and none of the files that they need.
func TakesPage(w *AnswerWriter, r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && !w.Away
}

// errNoFiles is for what says that the disk is full, if that is because of inodes.
var errNoFiles = &record.Error{
	Fault: record.Full, Code: "no_inodes",
	Text: "The server's disk can hold no more files (inodes). Nothing was stored.",
}

// Fail answers with an error: JSON in the API unless the client prefers text, a page
// for browsers elsewhere, otherwise a sentence.
func (s *Site) Fail(w *AnswerWriter, r *http.Request, id string, err error) {
	e, status := ClientError(err)
	if e.Code == kv.ErrFull.Code && s.Store.NoFiles() {
		e = errNoFiles // there may be bytes
	}
	if status == http.StatusInternalServerError {
		s.Log.Error("request failed", "requestId", id, "error", err)
	}
	if w.Status != 0 { // the answer has begun: cut it off
		s.Log.Debug("answer cut off", "requestId", id, "error", err)
		panic(http.ErrAbortHandler)
	}
	w.Code = e.Code

	h := w.Header()
	ClearContentHeaders(h)
	if status != http.StatusRequestedRangeNotSatisfiable {
		h.Del("Content-Range")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin") // the item may no longer be open
	SetRetry(h, e)
	status = tusStatus(r, status)
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `ApiKey realm="kist"`)
	}

	var body []byte
	switch {
	case inAPI(r.URL.Path) && !w.Plain:
		h.Set("Content-Type", JSONType)
		var more []byte
		var detailed interface{ members() []byte }
		if errors.As(err, &detailed) {
			more = slices.Concat([]byte{','}, detailed.members())
		}
		body = errorAnswer(e, id, more)
	case TakesPage(w, r) && !w.Plain && status != http.StatusMisdirectedRequest: // a page could not load its files
		m, err := makePage(r, langOf(w.Caller, r), s.errorPage(langOf(w.Caller, r), e, status))
		if err != nil {
			s.Log.Error("page not rendered", "error", err)
		}
		m.setHeaders(h)
		body = m.body
	default:
		SetContentHeaders(h, "text/plain", UTF8, "", false, false)
		body = []byte(e.Text + "\n")
		if proof, ok := errors.AsType[*ProofNeeded](err); ok {
			body = slices.Concat(body, []byte{'{'}, proof.members(), []byte("}\n"))
		}
	}

	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// errorPage is the page that tells a browser of an error.
func (s *Site) errorPage(l embed.Lang, e *record.Error, status int) embed.MessagePage {
	page := embed.MessagePage{
		Base: s.Prefix(), Title: http.StatusText(status), Text: ErrorText(e, l), Home: status == http.StatusNotFound,
	}
	if e.Text == record.ErrMissing.Error() || e.Text == record.NotFound("address").Error() {
		page.Text = l.T("status.missing")
	}
	if e.Code == CodeDamaged {
		page.Title = l.T("status.damaged")
	} else if key := titles[status]; key != "" {
		page.Title = l.T(key)
	}
	return page
}

// tusStatus turns temporary failures into 423 for a tus client that asks for the offset.
// After most other statuses, clients start a new upload instead of asking again.
func tusStatus(r *http.Request, status int) int {
	if r.Method == http.MethodHead && r.Header.Get("Tus-Resumable") != "" {
		switch status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
			return http.StatusLocked
		}
	}
	return status
}

// SetRetry sets Retry-After, rounded up to whole seconds. Every error that may be over later has it: clients that do
// not find it try again at once.
func SetRetry(h http.Header, e *record.Error) {
	wait := e.Retry
	if wait <= 0 && (e.Fault == record.TooMany || e.Fault == record.Busy) {
		wait = unavailableTime
	}
	if wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
}

// ClearContentHeaders removes headers about content that is not sent after all.
func ClearContentHeaders(h http.Header) {
	for _, name := range []string{
		"Content-Length", "Content-Disposition", "Etag", "Last-Modified", "Content-Encoding", "Accept-Ranges",
	} {
		h.Del(name)
	}
}

// titles are the keys of the titles of error pages.
var titles = map[int]string{
	http.StatusNotFound:            "status.404",
	http.StatusGone:                "status.410",
	http.StatusUnauthorized:        "status.401",
	http.StatusTooManyRequests:     "status.429",
	http.StatusInternalServerError: "status.500",
}

// errorAnswer is the API's error answer, with more members.
func errorAnswer(e *record.Error, id string, more []byte) []byte {
	dst := field.AppendString([]byte(`{"error":`), e.Text)
	dst = field.AppendString(append(dst, `,"code":`...), e.Code)
	if len(e.Fields) > 0 {
		text := func(dst []byte, name string) []byte { return field.AppendString(dst, e.Fields[name]) }
		dst = field.AppendMembers(append(dst, `,"fields":`...), SortedKeys(e.Fields), text)
	}
	dst = field.AppendString(append(append(dst, more...), `,"requestId":`...), id)
	return append(dst, '}')
}

// ProofNeeded is an error that asks for a proof of work. The answer has the challenge.
type ProofNeeded struct {
	Err       record.Error
	Challenge captcha.Challenge
}

// members is the member captcha of an answer in JSON.
func (e *ProofNeeded) members() []byte {
	b, _ := json.Marshal(e.Challenge) // texts and numbers: it cannot fail
	return slices.Concat([]byte(`"captcha":{"provider":"pow","challenge":`), b, []byte{'}'})
}

func (e *ProofNeeded) Error() string { return e.Err.Text }

func (e *ProofNeeded) Unwrap() error { return &e.Err }

// StepNeeded is the error after the right password of an account with a second step. The
// answer has its fields.
type StepNeeded struct {
	Ticket  string          `json:"ticket"`
	Methods []string        `json:"methods"`           // names of the members that can answer it
	Options json.RawMessage `json:"passkey,omitempty"` // for navigator.credentials.get
}

var errStepNeeded = &record.Error{
	Fault: record.Unauthorized, Code: "second_factor_required",
	Text: "The password is right. This account also needs a code or a passkey.",
}

func (e *StepNeeded) members() []byte {
	b, _ := json.Marshal(e) // texts and JSON: it cannot fail
	return b[1 : len(b)-1]
}

func (e *StepNeeded) Error() string { return errStepNeeded.Text }

func (e *StepNeeded) Unwrap() error { return errStepNeeded }

// ProofArg is the header of a proof of work.
var ProofArg = Param{
	"header", "x-captcha-token",
	"The solution of the challenge, if the last answer was 400 with the code captcha_required and a challenge; " +
		"ALTCHA's payload in base64. It is valid once.",
	Object{"type": "string", "maxLength": captcha.MaxCaptcha},
}

// CodeDamaged is the error code for damaged stored bytes.
const CodeDamaged = "content_damaged"
