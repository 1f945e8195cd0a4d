package web

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"kist/kv/media"
)

// partOfPage reports whether a page could use content of the type as a script (WHATWG
// MIME Sniffing, section 4.6) or style sheet.
func partOfPage(media string) bool {
	_, sub, _ := strings.Cut(media, "/")
	sub = strings.TrimPrefix(sub, "x-")
	switch sub {
	case "ecmascript", "jscript", "livescript", "css":
		return true
	}
	return strings.HasPrefix(sub, "javascript")
}

// UTF8 is the charset of texts that the server itself has written.
const UTF8 = "utf-8"

// SetContentHeaders sets the headers for stored bytes, whatever the status; the middleware has
// added nosniff. open lets pages of other origins embed the content: if everyone may see it, or
// at the origin for content, where the address itself proves access. charset is that of a text; "" if it is unknown.
func SetContentHeaders(h http.Header, mimeType, charset, name string, save, open bool) {
	policy := policyBytes
	if mimeType == "application/pdf" {
		policy = policyPDF
	}
	h.Set("Content-Security-Policy", policy)
	h["X-Robots-Tag"] = headNoIndex // pages say it in their head
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
	if strings.HasPrefix(mimeType, "text/") && charset != "" {
		mimeType += "; charset=" + charset
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
