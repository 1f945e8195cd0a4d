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

// CanonicalHost is a host with its port as origins compare them (RFC 6454, section 4):
// in lower case, without the scheme's default port.
func CanonicalHost(scheme, host string) string {
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), port), ":")
}

// AtContent reports whether a request came to the separate origin for content, if the
// server has one.
func (s *Site) AtContent(r *http.Request) bool {
	return s.Content != "" && CanonicalHost(s.ContentScheme, s.host(r)) == s.ContentHost
}

// AtContentOrigin reports whether the request came to the separate origin for content,
// if the server has one. That origin serves only content, and only grants identify
// visitors there.
func (c *Request) AtContentOrigin() bool { return c.W.Away }

// DeletionPath is the prefix of deletion addresses. Anyone who has such an address can
// delete its one item, for as long as the item exists: a program that cannot send a
// request opens the address in a browser. Only the answer to the creation of the item
// has the address. The first segment of the path is not a valid slug.
const DeletionPath = "/share/delete/"

// Owns reports whether the credential with the id is valid now and may see everything
// in r.
func (s *Site) Owns(id record.ID, r *record.Record) bool {
	caller, err := people.Recognize(s.Store, r.Owner, id)
	return err == nil && owns(caller, r)
}

// partOfPage reports whether a page could use content of the type as a script (WHATWG
// MIME Sniffing, section 4.6) or style sheet.
func partOfPage(media string) bool {
	_, sub, _ := strings.Cut(media, "/")
	switch sub = strings.TrimPrefix(sub, "x-"); sub {
	case "ecmascript", "jscript", "livescript", "css":
		return true
	}
	return strings.HasPrefix(sub, "javascript")
}

// ASCIIURL escapes the characters that a header may not contain.
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

// CodeDamaged is the error code for damaged stored bytes.
const CodeDamaged = "content_damaged"

// All stored bytes are treated as hostile: no script in them ever runs, even if the user
// opens the file itself. The middleware adds nosniff to each answer. PDF viewers do not work in the sandbox.
const (
	policyBytes = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; media-src 'self'; sandbox"
	policyPDF   = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; object-src 'self'; plugin-types application/pdf"
)

// SetContentHeaders sets the headers for stored bytes, whatever the status. open lets
// pages of other origins embed the content: if everyone may see it, or at the origin for
// content, where the address itself proves access.
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
		mimeType = "text/plain" // the policies of pages allow scripts and styles of this origin
	}
	if strings.HasPrefix(mimeType, "text/") {
		mimeType += "; charset=utf-8"
	}
	h.Set("Content-Type", mimeType)
	if name != "" {
		h.Set("Content-Disposition", Disposition(how, name))
	}
}

// Disposition is the header Content-Disposition with a file name (RFC 6266, RFC 8187).
func Disposition(how, name string) string {
	var plain, extended strings.Builder
	same := true
	for _, r := range name {
		switch {
		case r >= utf8.RuneSelf || r < ' ' || r == 0x7f:
			plain.WriteByte('_')
			same = false
		case r == '"' || r == '\\' || r == '%' || r == '/':
			plain.WriteByte('_') // clients disagree on escapes, and some accept a path
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
// known in advance. It completes the sentence "<name> …".
func RefusedTarget(client *outbound.Client, address string) string {
	var refused *outbound.Refused
	if u, err := url.Parse(address); address == "" || err != nil || !errors.As(client.Check(u), &refused) {
		return ""
	}
	text := strings.TrimSuffix(refused.Error(), ".")
	return "must be an address that the server may call: " + strings.ToLower(text[:1]) + text[1:]
}
