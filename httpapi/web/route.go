package web

import (
	"net/http"
	"strconv"
	"strings"

	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
)

// IdempotencyKey is the key of the request; "" if it has none.
func (c *Request) IdempotencyKey() (string, error) {
	key := c.R.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return "", &record.Error{Fault: record.Malformed, Code: "bad_idempotency_key", Text: "The Idempotency-Key is longer than 255 bytes."}
	}
	return key, nil
}

// IdempotencyArg is the header that makes repeats of a request safe.
var IdempotencyArg = Param{
	In: "header", Name: "Idempotency-Key",
	Doc:     "The same request repeated within 24 hours is answered as the first time; another one with the same key is refused (422, idempotency_mismatch).",
	Schema:  Object{"type": "string", "maxLength": 255},
	Example: "3f1c9b1e",
}

const RequestsPath = ApiPath + "upload-requests"

// An Operation is a handler and what the OpenAPI document says about it. It
// stands beside the handler; the table of routes says where it is served, and
// to whom.
type Operation struct {
	Tag, Summary    string
	Args            []Param // beside those of the path, which are texts
	Body            *Content
	Reply           Reply
	Fails           []int     // statuses beside those that the door and the body bring
	Slugs           bool      // which visitors could guess
	Plain           *TextForm // how it answers as text to a client that would rather have that; nil if it does not
	AtContentOrigin bool      // served at the origin for content too, where nothing else is
	Tus             bool      // of the protocol tus, whose version every answer names
	Serve           func(*Request) error
}

// By is the operation with its handler, which belongs to a server.
func (o Operation) By(serve func(*Request) error) Operation {
	o.Serve = serve
	return o
}

// TextForm is what an answer has as text, with an example.
type TextForm struct{ Doc, Example string }

var BareAddress = &TextForm{"the bare address, one in a line", "https://kist.example.org/v/summer-24\n"}

// Access says who may call.
type Access struct {
	Open     bool         // anyone
	optional bool         // with open: who brings a good credential is known by it
	AnyKey   bool         // any API key that is good, whatever its scope
	Scope    record.Scope // that an API key needs
	Admin    bool         // the user must be an administrator

	Browser bool // a session is needed, no API key will do
	Session bool // a session will do in place of the scope and the role

	Operator bool // only a command of the operator; the network has no such row and refuses it
}

var (
	Anyone     = Access{Open: true}
	Visitors   = Access{Open: true, optional: true}
	Holders    = Access{AnyKey: true}
	Watches    = Access{AnyKey: true, Admin: true}
	Reads      = Access{Scope: record.ScopeRead}
	Writes     = Access{Scope: record.ScopeWrite}
	Uploads    = Access{Scope: record.ScopeUpload}
	Wholes     = Access{Scope: record.ScopeAll}
	Manages    = Access{Scope: record.ScopeAdmin, Admin: true}
	OwnAccount = Access{Scope: record.ScopeAdmin, Admin: true, Session: true}
	Browsers   = Access{Browser: true}
	Operators  = Access{Operator: true}
)

func Title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

var SharePassword = []Param{{"header", "x-share-password", "Password of the item, if it has one.", Object{"type": "string", "maxLength": field.MaxSecret}, "open sesame"}, ProofArg}

var IfNoneMatch = Param{"header", "If-None-Match", "Entity tags that the client has; 304 if one is the content's.", Object{"type": "string"}, `"9f86d081884c7d65"`}

// Conditional are what an answer with bytes heeds of RFC 9110, sections 13 and
// 14.
var Conditional = []Param{
	{"header", "Range", "The bytes to answer, one range or several; more than 16 are answered with all.", Object{"type": "string"}, "bytes=0-1023"},
	{"header", "If-Range", "Entity tag for which the ranges hold; all bytes are answered if the content has another.", Object{"type": "string"}, `"9f86d081884c7d65"`},
	{"header", "If-Match", "Entity tags of which the content must have one; 412 otherwise.", Object{"type": "string"}, `"9f86d081884c7d65"`},
	IfNoneMatch,
	{"header", "If-Modified-Since", "Of no effect, for content has no date; If-None-Match has.", Object{"type": "string"}, "Thu, 01 Jan 2026 00:00:00 GMT"},
}

// PageParams are the parameters of every list.
func PageParams(sorts []catalog.Sort) []Param {
	return []Param{
		{"query", "limit", "Records of a page, which ends sooner at 4 MiB: go on with nextCursor.", Object{"type": "integer", "minimum": 1, "maximum": MaxPage, "default": DefaultPage}, 50},
		{"query", "offset", "Records to pass over; not together with cursor.", Object{"type": "integer", "minimum": 0, "maximum": MaxOffset}, 0},
		{"query", "cursor", "nextCursor of the page before.", Object{"type": "string"}, "AQ"},
		{"query", "sort", "The order; newest if absent.", enumOf(field.Words(sorts), false), "newest"},
	}
}

// UnlessUnchanged answers with the body, or with 304 if the client has what
// the entity tag is of.
func (c *Request) UnlessUnchanged(tag string, body func() []byte) error {
	h := c.W.Header()
	h.Set("Etag", tag)
	if unchanged(c.R, tag) {
		h.Del("Content-Type")
		c.W.WriteHeader(http.StatusNotModified)
		return nil
	}
	content := body()
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = c.W.Write(content) // the client may be gone
	return nil
}

// SentPath is where resumable uploads of senders are. What follows it is a
// secret of the sender's, which is all that it takes to go on there.
const SentPath = RequestsPath + "/tus"
