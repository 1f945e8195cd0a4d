package web

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// appendTagged appends the record as JSON and returns its strong entity tag (RFC 9110, section
// 8.8.3). The tag changes with everything that the answer shows, except counters, and with every
// change of the record, because some, such as another password, show nothing.
func (v *ShownRecord) appendTagged(dst []byte) (json []byte, tag string) {
	v.digest.Reset()
	json = v.set.AppendDigested(dst, &v.digest)
	sum := binary.BigEndian.AppendUint64(make([]byte, 0, 8), v.Seq)
	_, _ = v.digest.Write(sum) // never fails
	text := append(make([]byte, 0, 18), '"')
	text = hex.AppendEncode(text, binary.BigEndian.AppendUint64(sum[:0], v.digest.Sum64()))
	return json, string(append(text, '"'))
}

// packedTag is the tag of a compressed answer.
func packedTag(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` }

// names reports whether a tag that a client sent is this one. Proxies that compress answers make
// tags weak, and a client that has such a tag has read the same record.
func names(sent, tag string) bool {
	sent = strings.TrimPrefix(strings.TrimSpace(sent), "W/")
	return sent == tag || sent == packedTag(tag)
}

// listed returns the tag in the lists of tags that a client sent which names this one, or "*"
// if that is all there is; otherwise "".
func listed(lists []string, tag string) (found string) {
	for sent := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		sent = strings.TrimSpace(sent)
		if names(sent, tag) {
			return sent
		}
		if sent == "*" {
			found = sent
		}
	}
	return found
}

// has reports whether the client has the content with this tag already (RFC 9110, section
// 13.1.2).
func (c *Request) has(tag string) bool {
	lists := c.R.Header["If-None-Match"]
	return len(lists) > 0 && Safe(c.R.Method) && listed(lists, tag) != ""
}

// respondUnchanged answers that the client has the content already.
func (c *Request) respondUnchanged() error {
	c.W.Header().Del("Content-Type")
	c.W.WriteHeader(http.StatusNotModified)
	return nil
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

// IfNoneMatch is the parameter of operations whose answers have an entity tag.
var IfNoneMatch = Param{
	"header", "If-None-Match",
	"Entity tags that the client has. The answer is 304 if the content has one of them.",
	Object{"type": "string"},
}

// Conditional are the parameters of operations that answer with bytes (RFC 9110, sections
// 13 and 14).
var Conditional = []Param{
	{
		"header", "Range", "One range of bytes or several. More than 16 ranges are ignored.",
		Object{"type": "string"},
	},
	{
		"header", "If-Range",
		"Entity tag of the content that Range refers to. If the content has another, the answer has all bytes.",
		Object{"type": "string"},
	},
	{
		"header", "If-Match", "The content must have one of these entity tags, otherwise the answer is 412.",
		Object{"type": "string"},
	},
	IfNoneMatch,
	{
		"header", "If-Modified-Since", "Ignored, because content has no date. Use If-None-Match.",
		Object{"type": "string"},
	},
}

// ifMatch is the parameter of operations that change a record.
var ifMatch = Param{
	"header", "If-Match",
	"Entity tags of the record that the client has seen. If it has another one now, nothing is changed, " +
		"and the answer is 412 (changed_elsewhere) with the present record in data, if the caller may read it.",
	Object{"type": "string"},
}

var errChanged = &record.Error{
	Fault: record.Changed, Code: "changed_elsewhere",
	Text: "It was changed elsewhere since you have read it. Nothing was changed.",
}

// Expect refuses a change of the record, in the transaction of the change, if the request has
// If-Match and the record has another entity tag now. seen is whether it has named the present
// one: then the caller knows what the change replaces.
func (c *Request) Expect(tx *kv.Tx, r *record.Record, way catalog.Way) (seen bool, err error) {
	lists := c.R.Header["If-Match"]
	if len(lists) == 0 {
		return false, nil
	}
	v, err := c.Site.ReadAs(tx, r, way)
	if err != nil {
		return false, err
	}
	defer v.Release()
	_, tag := v.appendTagged(nil)
	found := listed(lists, tag)
	if found == "" {
		return false, errChanged
	}
	return found != "*", nil
}

// Find finds the record that a request is about, and how the caller reaches it.
type Find func(*kv.Tx) (*record.Record, catalog.Way, error)

// RespondRecord answers with the record that find returns, as the caller sees it, after the
// beginning of a JSON object that it closes. The answer has its entity tag.
func (c *Request) RespondRecord(status int, before string, find Find) error {
	return c.Respond(status, func(dst []byte) ([]byte, error) {
		err := c.Site.Store.View(func(tx *kv.Tx) error {
			r, way, err := find(tx)
			if err != nil {
				return err
			}
			v, err := c.Site.ReadAs(tx, r, way)
			if err != nil {
				return err
			}
			defer v.Release()
			dst = c.AppendOne(append(dst, before...), v)
			return nil
		})
		return append(dst, '}'), err
	})
}

// AppendOne appends the record that the answer is about, and gives the answer its entity tag.
func (c *Request) AppendOne(dst []byte, v *ShownRecord) []byte {
	dst, tag := v.appendTagged(dst)
	c.W.Header()["Etag"] = []string{tag}
	return dst
}

// FailChange answers a change that failed. If Expect refused it, the answer has the record that
// find returns, if the caller may read it.
func (c *Request) FailChange(err error, find Find) error {
	if !errors.Is(err, errChanged) || !c.Caller.Key.Allows(people.ScopeRead) {
		return err
	}
	c.W.Code = errChanged.Code
	whole := string(errorAnswer(errChanged, c.ID, nil))
	return c.RespondRecord(http.StatusPreconditionFailed, strings.TrimSuffix(whole, "}")+`,"data":`, find)
}
