// Package render turns what people wrote into HTML: Markdown, code, and addresses as QR codes.
//
// The input is hostile, the output is safe: it has only elements that the package writes itself, no
// attribute that runs or styles anything, and no address that makes a browser send a request to another
// origin without a click. Every function returns within a bounded time for any input, and leaves nothing
// running.
package render

import (
	"html/template"
	"strings"
	"unicode/utf8"
)

// clean normalises text: valid UTF-8, lines that end in LF, and no NUL, which HTML cannot contain.
func clean(text string) string {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\ufffd"), "\ufffd")
	}
	if strings.IndexByte(text, '\r') >= 0 {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	}
	return text
}

var escaper = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;", `"`, "&#34;", `'`, "&#39;")

func escape(text string) string { return escaper.Replace(text) }

// plain shows text unformatted, with its line breaks.
func plain(text string) template.HTML {
	return template.HTML(`<pre class="plain" dir="auto">` + escape(text) + "</pre>\n") // #nosec G203 -- all of it is escaped
}
