package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kist/kv/catalog"
	"kist/kv/field"
)

const RequestsPath = APIPath + "upload-requests"

// An Operation is a handler with its description for the OpenAPI document. It is declared
// next to the handler. The table of routes says at which path it is served, and to whom.
type Operation struct {
	Tag, Summary    string
	Args            []Param // in addition to those of the path, which are texts
	Body            *Content
	Reply           Reply
	Fails           []int     // statuses in addition to those of the access and the body
	Slugs           bool      // visitors could guess the slugs in its path
	Plain           *TextForm // its answer for clients that prefer text; nil if it has none
	AtContentOrigin bool      // also served at the origin for content
	Deprecated      bool      // kept for clients that use it; another operation does the same
	Tus             bool      // part of the tus protocol: every answer has its version
	Once            string    // what it makes, if the answer has secrets, which are never stored
	Serve           func(*Request) error
}

// By returns the operation with its handler, for handlers that are methods of a server.
func (o Operation) By(serve func(*Request) error) Operation {
	o.Serve = serve
	return o
}

// Conditional returns the operation with If-Match: it changes a record only if that is as its caller
// has seen it.
func (o Operation) Conditional() Operation {
	o.Args = append(slices.Clone(o.Args), IfMatch)
	o.Fails = append(slices.Clone(o.Fails), http.StatusPreconditionFailed)
	return o
}

// ForVisitors returns the operation for a path with slugs that visitors could guess.
func (o Operation) ForVisitors() Operation {
	o.Tag, o.Slugs = "public", true
	return o
}

// PageOp is an operation that the document leaves out: a page or a file for one.
func PageOp(serve func(*Request) error, fails ...int) Operation {
	return Operation{Reply: Reply{Status: http.StatusOK}, Fails: fails, Serve: serve}
}

// FormOp receives the form of a page and answers with the status.
func FormOp(status int, serve func(*Request) error, fails ...int) Operation {
	return Operation{Body: FormBody, Reply: Reply{Status: status}, Fails: fails, Serve: serve}
}

// ReadOp answers with the thing that has the named schema.
func ReadOp(tag, summary, doc, name string, serve func(*Request) error, fails ...int) Operation {
	return Operation{Tag: tag, Summary: summary, Reply: Reply{http.StatusOK, doc, DataOf(name)}, Fails: fails, Serve: serve}
}

// ListOp answers with a page of a short list of things that have the named schema.
func ListOp(tag, summary, doc, name string, serve func(*Request) error) Operation {
	return Operation{Tag: tag, Summary: summary, Args: PageParams(ShortSorts), Reply: Reply{http.StatusOK, doc, ListOf(name)}, Serve: serve}
}

// CreateOp makes a thing that has the named schema. That of its body ends in Create.
func CreateOp(tag, summary, doc, name string, serve func(*Request) error, fails ...int) Operation {
	return Operation{Tag: tag, Summary: summary, Body: BodyOf(name + "Create"), Reply: Reply{http.StatusCreated, doc, DataOf(name)}, Fails: fails, Serve: serve}
}

// EditOp changes a thing that has the named schema. That of its body ends in Edit.
func EditOp(tag, summary, doc, name string, serve func(*Request) error, fails ...int) Operation {
	return Operation{Tag: tag, Summary: summary, Body: BodyOf(name + "Edit"), Reply: Reply{http.StatusOK, doc, DataOf(name)}, Fails: fails, Serve: serve}
}

// DoneOp does something and answers only that it is done.
func DoneOp(tag, summary string, serve func(*Request) error, fails ...int) Operation {
	return Operation{Tag: tag, Summary: summary, Reply: DoneReply, Fails: fails, Serve: serve}
}

// TextForm describes an answer in plain text.
type TextForm struct{ Doc, Example string }

var BareAddress = &TextForm{"only the address, one per line", "https://kist.example.org/v/summer-24\n"}

func Title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

var SharePassword = []Param{{"header", "x-share-password", "Password of the item, if it has one.", Object{"type": "string", "maxLength": field.MaxSecret}, "open sesame"}, ProofArg}

var IfNoneMatch = Param{"header", "If-None-Match", "Entity tags that the client has. The answer is 304 if the content has one of them.", Object{"type": "string"}, `"9f86d081884c7d65"`}

// Conditional are the parameters of operations that answer with bytes (RFC 9110, sections
// 13 and 14).
var Conditional = []Param{
	{"header", "Range", "One range of bytes or several. More than 16 ranges are ignored.", Object{"type": "string"}, "bytes=0-1023"},
	{"header", "If-Range", "Entity tag of the content that Range refers to. If the content has another, the answer has all bytes.", Object{"type": "string"}, `"9f86d081884c7d65"`},
	{"header", "If-Match", "The content must have one of these entity tags, otherwise the answer is 412.", Object{"type": "string"}, `"9f86d081884c7d65"`},
	IfNoneMatch,
	{"header", "If-Modified-Since", "Ignored, because content has no date. Use If-None-Match.", Object{"type": "string"}, "Thu, 01 Jan 2026 00:00:00 GMT"},
}

// PageParams are the parameters of every list.
func PageParams(sorts []catalog.Sort) []Param {
	return []Param{
		{"query", "limit", "Maximum number of records on a page. A page also ends at 4 MiB. Continue with nextCursor.", Object{"type": "integer", "minimum": 1, "maximum": MaxPage, "default": DefaultPage}, 50},
		{"query", "offset", "Number of records to skip; not together with cursor.", Object{"type": "integer", "minimum": 0, "maximum": MaxOffset}, 0},
		{"query", "cursor", "nextCursor of the previous page.", Object{"type": "string"}, "AQ"},
		{"query", "sort", "The order; default newest.", EnumOf(field.Words(sorts), false), "newest"},
	}
}

// UnlessUnchanged answers with the body, or with 304 if the client already has the content
// with this entity tag.
func (c *Request) UnlessUnchanged(tag string, body func() []byte) error {
	h := c.W.Header()
	h.Set("Etag", tag)
	if c.has(tag) {
		return c.respondUnchanged()
	}
	content := body()
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = c.W.Write(content) // the client may be gone
	return nil
}

// SentPath is the path of senders' resumable uploads. It is followed by a secret, which is
// all that is needed to continue the upload.
const SentPath = RequestsPath + "/tus"
