package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"kist/httpapi/outbound"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// CanonicalHost is a host with its port as origins compare them (RFC 6454,
// section 4): in lower case, without a port that is the scheme's own.
func CanonicalHost(scheme, host string) string {
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), port), ":")
}

// AtContent reports whether a request came to the origin for content, if there
// is one apart.
func (s *Site) AtContent(r *http.Request) bool {
	return s.Content != "" && CanonicalHost(s.ContentScheme, s.host(r)) == s.ContentHost
}

// AtContentOrigin reports whether the call came to the origin for content, if there is
// one apart. Nothing but content is there, and nobody is known there but by
// grants.
func (c *Request) AtContentOrigin() bool { return c.W.Away }

// DeletionPath begins deletion addresses, by which anyone who has one deletes the
// one item that it was made for: a program that cannot send a request of its
// own opens it in a browser. The address is told once, to who makes the item,
// and holds for as long as the item is there. Its first segment is no slug.
const DeletionPath = "/share/delete/"

// Owns reports whether the credential of the id can be used now and may see
// everything of r.
func (s *Site) Owns(id record.ID, r *record.Record) bool {
	caller, err := people.Recognize(s.Store, r.Owner, id)
	return err == nil && owns(caller, r)
}

// partOfPage reports whether a page can have content of the type for its
// script (WHATWG MIME Sniffing, section 4.6) or style sheet.
func partOfPage(media string) bool {
	_, sub, _ := strings.Cut(media, "/")
	switch sub = strings.TrimPrefix(sub, "x-"); sub {
	case "ecmascript", "jscript", "livescript", "css":
		return true
	}
	return strings.HasPrefix(sub, "javascript")
}

// ASCIIURL escapes what may not stand in a header.
func ASCIIURL(t string) string {
	if !strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return t
	}
	var b strings.Builder
	for i := range len(t) {
		if t[i] <= ' ' || t[i] >= 0x7f {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(t[i])|0x100, 16)[1:]))
		} else {
			b.WriteByte(t[i])
		}
	}
	return b.String()
}

// CodeDamaged is the code of errors that say that stored bytes are damaged.
const CodeDamaged = "content_damaged"

// unchanged reports whether the answer will be 304 (RFC 9110, section
// 13.1.2): none of the bytes leave.
func unchanged(r *http.Request, tag string) bool {
	for t := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}

// Every stored byte is hostile: scripts never run, not even by opening it.
// Viewers of PDF refuse the sandbox.
const (
	policyBytes = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; media-src 'self'; sandbox"
	policyPDF   = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; object-src 'self'; plugin-types application/pdf"
)

// SetContentHeaders sets the headers that stored bytes are answered with, on every
// status. Pages of other origins may embed what is open: to everyone, or at
// the origin for content, where the address itself says who may have it.
func SetContentHeaders(h http.Header, mimeType, name string, save, open bool) {
	policy := policyBytes
	if mimeType == "application/pdf" {
		policy = policyPDF
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if open {
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	how := "attachment"
	if media.Inline(mimeType) && !save {
		how = "inline"
	}
	if partOfPage(mimeType) {
		mimeType = "text/plain" // the policies of pages let them have scripts and styles of this origin
	}
	if strings.HasPrefix(mimeType, "text/") {
		mimeType += "; charset=utf-8"
	}
	h.Set("Content-Type", mimeType)
	if name != "" {
		h.Set("Content-Disposition", Disposition(how, name))
	}
}

// Disposition names a file (RFC 6266; the extended form is RFC 8187).
func Disposition(how, name string) string {
	var plain, extended strings.Builder
	same := true
	for _, r := range name {
		switch {
		case r >= utf8.RuneSelf || r < ' ' || r == 0x7f:
			plain.WriteByte('_')
			same = false
		case r == '"' || r == '\\' || r == '%' || r == '/':
			plain.WriteByte('_') // readers disagree on escapes, and some take a path
			same = false
		default:
			plain.WriteRune(r)
		}
	}
	if same {
		return how + `; filename="` + plain.String() + `"`
	}
	for i := range len(name) {
		b := name[i]
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0 {
			extended.WriteByte(b)
		} else {
			extended.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(b)|0x100, 16)[1:]))
		}
	}
	return how + `; filename="` + plain.String() + `"; filename*=UTF-8''` + extended.String()
}

// RefusedTarget says why the server may not call an address, as far as that can be
// seen; it completes the sentence "<name> …".
func RefusedTarget(client *outbound.Client, address string) string {
	var refused *outbound.Refused
	if u, err := url.Parse(address); address == "" || err != nil || !errors.As(client.Check(u), &refused) {
		return ""
	}
	text := strings.TrimSuffix(refused.Error(), ".")
	return "must be an address that the server may call: " + strings.ToLower(text[:1]) + text[1:]
}
