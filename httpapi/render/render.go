// Package render turns what people wrote into HTML for the pages that show it:
// Markdown, code, and addresses as QR codes.
//
// What comes in is hostile, what comes out is not: no element but those that
// the package writes itself, no attribute that runs or styles anything, no
// address that makes a browser ask another origin without a click. Every
// function returns within a bounded time, whatever it is given, and leaves
// nothing running.
package render

import (
	"html/template"
	"strings"
	"unicode/utf8"
)

// clean makes text that every step agrees on: valid UTF-8, lines that end in
// LF, no NUL, which HTML has no way to write.
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

// plain is text as it is, line breaks and all.
func plain(text string) template.HTML {
	return template.HTML(`<pre class="plain" dir="auto">` + escape(text) + "</pre>\n") // #nosec G203 -- all of it is escaped
}
