package web

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"kist/kv/field"
	"kist/kv/record"
)

// Types of bodies.
const (
	JSONType  = "application/json"
	mergeType = "application/merge-patch+json" // RFC 7396, which every PATCH with JSON follows
	htmlType  = "text/html; charset=utf-8"
	TextType  = "text/plain; charset=utf-8"
)

const (
	APIPath   = "/api/v1/"
	claimPath = "/claim/"
	ResetPath = "/login/reset/" // followed by the secret of a link that sets a password
	JoinPath  = "/join/"        // followed by the secret of an invitation
	MaxQuery  = 8 << 10         // bytes of a query
	MaxArgs   = 100             // parameters of a query
	SmallBody = 1 << 20         // bytes of a JSON body unless the route says otherwise
)

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A body must arrive at least at this rate, measured over this time. Otherwise the
// connection is cut, so that slow senders do not hold the server.
const (
	PaceTime  = 30 * time.Second
	PaceBytes = 32 << 10
)

// restBytes is how much of an unread body is read before the answer. Of a longer body,
// the rest is read after the answer: see linger.
const restBytes = 256 << 10

// How much of the rest of a body is read after the answer, for how long, and how long
// the client may send nothing meanwhile.
const (
	lingerBytes   = 256 << 20
	lingerTime    = time.Minute
	lingerSilence = 5 * time.Second
)

// paced is the body of a request. It extends the read deadline while bytes keep
// arriving. Every body is wrapped from the beginning, even if its handler does not
// read it, because net/http reads what the handler leaves.
type paced struct {
	body   io.ReadCloser
	ctl    *http.ResponseController
	left   int64 // bytes still to come; negative if unknown
	due    int64 // bytes until the deadline moves on
	begun  bool
	ended  bool
	over   atomic.Bool // reading was cut
	expect bool        // the client sends nothing until the body is read
}

// Pace makes the body of a request paced.
func Pace(ctl *http.ResponseController, r *http.Request) *paced {
	p := &paced{body: r.Body, ctl: ctl, left: r.ContentLength, expect: r.Header.Get("Expect") != ""}
	p.extend()
	return p
}

func (p *paced) extend() {
	p.due = PaceBytes
	_ = p.ctl.SetReadDeadline(time.Now().Add(PaceTime)) // fails only if the connection has no deadlines
	if p.over.Load() {
		_ = p.ctl.SetReadDeadline(time.Now())
	}
}

// cut ends reading, from another goroutine: a read that waits for bytes fails.
func (p *paced) cut() {
	p.over.Store(true)
	_ = p.ctl.SetReadDeadline(time.Now())
}

func (p *paced) Read(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		p.extend() // the client does not pay for the server's time
	}
	n, err := p.body.Read(b)
	p.left -= int64(n)
	p.due -= int64(n)
	if p.due <= 0 {
		p.extend()
	}
	if err != nil {
		p.ended = true
	}
	if err == io.EOF {
		_ = p.ctl.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (p *paced) Close() error { return p.body.Close() }

// rest reads what is left of the body, because many clients read the answer only
// after they have sent everything.
func (p *paced) rest() {
	switch {
	case p.ended, p.left > restBytes:
		return
	case p.expect && !p.begun: // nothing will come, so net/http must not wait for it
		_ = p.ctl.SetReadDeadline(time.Now())
		return
	}
	_, _ = io.CopyN(io.Discard, p, restBytes) // the answer is the same if this fails
}

// unread reports whether something may still come of the body.
func (p *paced) unread() bool {
	return !p.ended && p.left != 0 && !p.over.Load() && (p.begun || !p.expect)
}

// linger reads and discards what still comes of the body, within bounds, after the answer was
// sent. A connection of HTTP/1 that is closed with unread bytes is reset. The client, or the
// proxy before it, then loses the answer (RFC 9112, section 9.6).
func (p *paced) linger() {
	end := time.Now().Add(lingerTime)
	buffer := make([]byte, 32<<10)
	for left := lingerBytes; left > 0 && !p.over.Load(); {
		deadline := time.Now().Add(lingerSilence)
		if deadline.After(end) {
			deadline = end
		}
		if err := p.ctl.SetReadDeadline(deadline); err != nil {
			return
		}
		n, err := p.body.Read(buffer)
		if err != nil {
			return
		}
		left -= n
	}
}

// LimitBody is the request's body with a limit. Reading beyond it fails with
// http.MaxBytesError.
func (c *Request) LimitBody(limit int64) io.ReadCloser {
	return http.MaxBytesReader(c.W.ResponseWriter, c.R.Body, limit)
}

// RefuseCompressed fails if the body is compressed.
func (c *Request) RefuseCompressed() error {
	if enc := c.R.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_encoding", Text: "The body must not be compressed."}
	}
	return nil
}

// ReadObject reads the body as a JSON object of at most limit bytes. It leaves out
// members that shape does not have, or refuses them if the client prefers that; a nil shape
// keeps all.
func (c *Request) ReadObject(limit int64, shape field.Shaped) (field.Object, error) {
	if err := c.RefuseCompressed(); err != nil {
		return nil, err
	}
	if !TakesAsJSON(c.R) {
		if c.R.Method == http.MethodPatch {
			c.W.Header().Set("Accept-Patch", AcceptPatch)
		}
		return nil, &record.Error{
			Fault: record.WrongType, Code: "unsupported_media_type",
			Text: "The body must be JSON, with the Content-Type application/json.",
		}
	}
	data, err := c.ReadBody(limit)
	if err != nil {
		return nil, err
	}
	if shape == nil {
		return field.Parse(data)
	}
	if !c.Strict() {
		return field.ParseFor(shape, data)
	}

	in, err := field.Parse(data)
	if err != nil {
		return nil, err
	}
	return in, JoinProblems(c.RefuseUnknown(shape, in))
}

// RefuseUnknown refuses members of the input that shape does not take, if the client prefers that
// to having them ignored. The caller uses those in except for itself. The error is for JoinProblems.
func (c *Request) RefuseUnknown(shape field.Shaped, in field.Object, except ...string) error {
	if !c.Strict() {
		return nil
	}
	bad := field.Problems{}
	for _, name := range field.Unknown(shape, in) {
		if !slices.Contains(except, name) {
			bad[CutTo(name, 64)] = "is not known here"
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return bad
}

// AcceptPatch are the types of bodies that PATCH takes where it takes JSON (RFC 5789, section 3.1).
const AcceptPatch = JSONType + ", " + mergeType

// TakesAsJSON reports whether the Content-Type of the request says that its body is JSON that an operation takes.
func TakesAsJSON(r *http.Request) bool {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return false
	}
	return media == JSONType || media == mergeType && r.Method == http.MethodPatch
}

// BodyError is the error for a body that could not be read completely.
func BodyError(err error) error {
	if _, status := ClientError(err); status != http.StatusInternalServerError {
		return err
	}
	return &record.Error{Fault: record.Malformed, Code: "body_cut_off", Text: "The body ended early or could not be read."}
}

// DecodeNew reads the body into a new value.
func (c *Request) DecodeNew(v field.Shaped) error {
	in, err := c.ReadObject(SmallBody, v)
	if err != nil {
		return err
	}
	return field.Create(v, in)
}

// DecodePatch reads the body of a patch, which a transaction then applies to the
// stored value. It first applies the patch to blank, an empty value of the same shape,
// to find all problems, so that a bad request takes no time in a write transaction.
func (c *Request) DecodePatch(blank field.Shaped) (field.Object, error) {
	in, err := c.ReadObject(SmallBody, blank)
	if err != nil {
		return nil, err
	}
	return in, field.Patch(blank, in)
}

// JoinProblems joins the problems that several checks of one input found, so that one
// answer names every bad field.
func JoinProblems(errs ...error) error {
	all := field.Problems{}
	for _, err := range errs {
		var found field.Problems
		if err != nil && !errors.As(err, &found) {
			return err
		}
		maps.Copy(all, found)
	}
	return record.Bad(all)
}

// Query reads the parameters of the address.
func (c *Request) Query() (url.Values, error) {
	bad := &record.Error{Fault: record.Malformed, Code: "bad_query", Text: "The query of the address cannot be read."}
	if strings.Count(c.R.URL.RawQuery, "&") >= MaxArgs {
		return nil, bad
	}
	q, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return nil, bad
	}
	for name, values := range q {
		if !utf8.ValidString(name) || slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			return nil, bad
		}
	}
	return q, nil
}

// CheckQuery refuses parameters of the address that are not among those of the operation.
func (c *Request) CheckQuery(known []Param) error {
	if c.R.URL.RawQuery == "" {
		return nil
	}
	q, err := c.Query()
	if err != nil {
		return err
	}
	var args Arguments
	for _, name := range SortedKeys(q) {
		// Programs send these with every list, also with those that are sent whole.
		if c.R.Method == http.MethodGet && (name == "limit" || name == "offset") && !c.Strict() {
			continue
		}
		if !slices.ContainsFunc(known, func(p Param) bool { return p.In == "query" && p.Name == name }) {
			args.Refuse(CutTo(strconv.Quote(name), 64) + " is not known here")
		}
	}
	return args.Err()
}

// Strict reports whether the client asks to be refused rather than to have a part of its request
// ignored (RFC 7240, section 4.4).
func (c *Request) Strict() bool {
	for preference := range strings.SplitSeq(strings.Join(c.R.Header["Prefer"], ","), ",") {
		name, _, _ := strings.Cut(preference, ";")
		name, value, _ := strings.Cut(name, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if strings.EqualFold(strings.TrimSpace(name), "handling") && strings.EqualFold(value, "strict") {
			return true
		}
	}
	return false
}

// RespondJSON answers with JSON that is there already.
func (c *Request) RespondJSON(status int, body []byte) error {
	return c.Respond(status, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
}

// RespondValue answers with v as encoding/json writes it.
func (c *Request) RespondValue(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.RespondJSON(status, body)
}

// RespondData answers {"data": v}.
func (c *Request) RespondData(status int, v field.Shaped) error {
	return c.Respond(status, func(dst []byte) ([]byte, error) {
		dst = field.AppendJSON(append(dst, `{"data":`...), v)
		return append(dst, '}'), nil
	})
}

func AppendAll[T field.Shaped](dst []byte, all []T) []byte {
	return field.AppendList(dst, all, func(dst []byte, v T) []byte { return field.AppendJSON(dst, v) })
}

// RespondOK answers {"ok": true}.
func (c *Request) RespondOK() error { return c.RespondJSON(http.StatusOK, []byte(`{"ok":true}`)) }
