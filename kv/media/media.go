// Package media determines what kind of bytes a file holds, and reads texts in any charset. It is pure: the
// caller passes the bytes and names.
package media

import (
	"bytes"
	"mime"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"kist/kv/record"
)

// Sniffed is how many bytes at the beginning tell a file's type. WHATWG MIME Sniffing, section 5.2, asks for at least
// 1445. Two frames of MP3 and the licences before SVG documents take more.
const Sniffed = 4 << 10

const octets = "application/octet-stream"

// Of determines a file's type. The bytes decide. Where they leave it open, as in a text or in a container of sound or
// film, the name does, and then the client's type if that has the form of a media type. The result never repeats
// unchecked input and has no parameters. The first Sniffed bytes are enough.
func Of(claimed, name string, head []byte) string {
	seen := look(head)
	if t := OfName(name); t != "" && fits(t, seen, head) {
		return t
	}
	t, _, err := mime.ParseMediaType(claimed)
	wellFormed := err == nil && len(t) <= 127 && strings.Count(t, "/") == 1
	t = Canonical(t)
	if wellFormed && t != octets && t != plainText && fits(t, seen, head) {
		return t
	}
	return seen
}

// Recorded is Of for a file whose type was determined before, under a name that it may not have any more. It is that
// type if the bytes can be of it.
func Recorded(before string, head []byte) string {
	if t := Canonical(before); t == plainText && fits(t, look(head), head) {
		return t
	}
	return Of(before, "", head)
}

// Shrinks reports whether the server can draw small versions of pictures of the type.
func Shrinks(media string) bool {
	switch media {
	case "image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp", "image/tiff":
		return true
	}
	return false
}

// Inline reports whether a browser may show bytes of the type; other types are
// saved.
func Inline(media string) bool { return inline[media] }

var inline = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/bmp": true,
	"image/svg+xml": true, "image/x-icon": true, "image/vnd.microsoft.icon": true,
	"video/mp4": true, "video/webm": true, "video/ogg": true, "video/quicktime": true,
	"audio/mpeg": true, "audio/ogg": true, "audio/wav": true, "audio/wave": true, "audio/flac": true,
	"audio/mp4": true, "audio/webm": true, "audio/aac": true,
	"text/plain": true, "application/pdf": true,
}

const (
	plainText = "text/plain"
	htmlText  = "text/html"
	svgImage  = "image/svg+xml"
)

// look is the type that the bytes tell, as far as they do.
func look(head []byte) string {
	if text, ok := asText(head); ok {
		return lookAtText(text)
	}
	if bytes.HasPrefix(bytes.TrimLeft(head, blanks), []byte("%PDF-")) {
		return "application/pdf"
	}
	if t := signed(head); t != "" {
		return t
	}
	seen, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	if seen == plainText { // a byte order mark, and no text after it
		return octets
	}
	return seen
}

const blanks = " \t\r\n\f\x00"

// lookAtText is the type of a text in UTF-8, or in an older charset.
func lookAtText(text []byte) string {
	if svgDocument.Match(text) {
		return svgImage
	}
	text = bytes.TrimLeft(text, blanks)
	seen, _, _ := mime.ParseMediaType(http.DetectContentType(text))
	switch seen {
	case "application/pdf", "application/postscript", htmlText, "text/xml":
		return seen
	}
	return plainText // which may begin with BM, ID3 and other letters that also begin files of bytes
}

// svgDocument is the beginning of an SVG document: its element, after comments, instructions and a document type.
var svgDocument = regexp.MustCompile(
	`^(?s)(?:\s|<!--.*?-->|<\?.*?\?>|<!DOCTYPE\s[^\[>]*(?:\[.*?\]\s*)?>)*<(?:[\w.-]+:)?svg[\s/>]`)

// fits reports whether bytes that look like seen can be of the type. Where bytes tell a type, no other fits, except
// those that the same container or the same kind of text may hold. Bytes that look like HTML are never a type that a
// browser shows, except as plain text.
func fits(media, seen string, head []byte) bool {
	if Canonical(media) == Canonical(seen) || slices.Contains(within[seen], media) {
		return true
	}
	textual := isTextual(media)
	other := record.ClassOf(media) == record.Other && !textual
	switch seen {
	case plainText:
		return textual && media != svgImage || other
	case "text/xml", svgImage:
		return textual || other
	case htmlText:
		return textual && (!Inline(media) || media == plainText)
	case "application/zip":
		return other
	case octets:
		switch record.ClassOf(media) {
		case record.Image:
			return hasWeakSign(media, head)
		case record.PDF:
			return bytes.Contains(head[:min(len(head), maxBeforePDF)], []byte("%PDF-"))
		case record.Audio, record.Video:
			return !recognised[Canonical(media)] || hasWeakSign(media, head)
		}
		return other || textual && mostlyText(head)
	}
	return false
}

// maxBeforePDF is how many bytes readers of PDF skip before its beginning.
const maxBeforePDF = 1 << 10

// isTextual reports whether the type is one of texts.
func isTextual(media string) bool {
	return record.ClassOf(media) == record.Text || strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+json")
}

// mostlyText reports whether the bytes are a text with a few characters that texts do not have, such as a log into
// which a program has written a NUL.
func mostlyText(head []byte) bool {
	_, ok := Text(head, len(head) >= Sniffed)
	return ok
}

// OfName is the type that the extension of a name stands for; "" if it is unknown.
func OfName(name string) string {
	return byExtension[strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))]
}

// Matches reports whether a file of the type, which Of has determined, is what the extension of its name says. A film
// may be in another container of films, and a picture in another format of pixels, as programs often name them wrongly.
// A name whose extension is unknown says nothing.
func Matches(name, mediaType string) bool {
	said := OfName(name)
	if said == "" || said == mediaType {
		return true
	}
	top, _, _ := strings.Cut(said, "/")
	got, _, _ := strings.Cut(mediaType, "/")
	switch top {
	case "audio", "video":
		return got == "audio" || got == "video"
	case "image":
		return got == "image" && said != svgImage && mediaType != svgImage
	}
	return false
}

// Extension is the usual extension of the files of a type, with its dot; "" if there is none.
func Extension(media string) string { return usualExtension[Canonical(media)] }

// Canonical is the name of a type among those that mean the same, in lower case and without parameters.
func Canonical(media string) string {
	media, _, _ = strings.Cut(media, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if same := aliases[media]; same != "" {
		return same
	}
	return media
}
