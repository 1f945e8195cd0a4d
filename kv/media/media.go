// Package media determines what kind of bytes a file holds. It is pure: the
// caller passes the bytes and names.
package media

import (
	"bytes"
	"mime"
	"net/http"
	"path"
	"strings"

	"kist/kv/record"
)

// byExtension is the media type of files that cannot be recognised by their
// bytes.
var byExtension = map[string]string{
	".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".log": "text/plain", ".csv": "text/csv",
	".tsv": "text/tab-separated-values", ".svg": "image/svg+xml", ".xml": "text/xml",
	".html": "text/html", ".htm": "text/html",
	".xhtml": "application/xhtml+xml", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
	".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
	".sh": "application/x-sh", ".ics": "text/calendar", ".vcf": "text/vcard",
	".srt": "application/x-subrip", ".vtt": "text/vtt",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".odt":  "application/vnd.oasis.opendocument.text", ".ods": "application/vnd.oasis.opendocument.spreadsheet",
	".epub": "application/epub+zip", ".jar": "application/java-archive", ".apk": "application/vnd.android.package-archive",
	".7z": "application/x-7z-compressed", ".tar": "application/x-tar", ".zst": "application/zstd",
	".xz": "application/x-xz", ".bz2": "application/x-bzip2", ".iso": "application/x-iso9660-image",
	".mkv": "video/x-matroska", ".mov": "video/quicktime", ".m4v": "video/mp4", ".mp4": "video/mp4",
	".m4a": "audio/mp4", ".mp3": "audio/mpeg", ".flac": "audio/flac", ".opus": "audio/ogg", ".aac": "audio/aac",
	".avif": "image/avif", ".heic": "image/heic", ".heif": "image/heif", ".jxl": "image/jxl",
	".tif": "image/tiff", ".tiff": "image/tiff", ".psd": "image/vnd.adobe.photoshop",
	".stl": "model/stl", ".3mf": "model/3mf", ".wasm": "application/wasm", ".sqlite": "application/vnd.sqlite3",
	".mht": "multipart/related", ".mhtml": "multipart/related",
}

// Of determines a file's type: from its bytes if they tell, else from its name,
// else from the client's type if that has the form of a media type. The result
// never repeats unchecked input and has no parameters. The first Sniffed bytes
// are enough.
func Of(claimed, name string, head []byte) string {
	seen, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	svg := isSVG(head)
	if svg {
		seen = "text/xml" // a comment at its beginning makes it look like HTML
	}
	if t := byExtension[strings.ToLower(path.Ext(name))]; t != "" && narrows(t, seen) {
		return t
	}
	if t, _, err := mime.ParseMediaType(claimed); err == nil && len(t) <= 127 && strings.Count(t, "/") == 1 &&
		t != "application/octet-stream" && t != "text/plain" && narrows(t, seen) {
		return t
	}
	if svg {
		return "image/svg+xml"
	}
	return seen
}

// Sniffed is how many bytes at the beginning tell a file's type. WHATWG MIME
// Sniffing, section 5.2, asks for at least as many.
const Sniffed = 512

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

// narrows reports whether bytes that look like seen can be of the type. Bytes
// that look like text are not a picture, and other bytes are not text. Bytes
// that look like HTML are never a type that a browser shows.
func narrows(media, seen string) bool {
	class := record.ClassOf(media)
	textual := class == record.Text || media == "image/svg+xml" ||
		strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+json")
	switch seen {
	case "text/plain", "text/xml":
		return textual || class == record.Other
	case "text/html":
		return textual && !Inline(media)
	case "application/zip":
		return class == record.Other && !textual
	case "application/ogg", "video/mp4", "video/webm": // containers
		return class == record.Audio || class == record.Video
	case "application/octet-stream":
		return !textual
	}
	return false
}

// isSVG reports whether the document that begins with head is an SVG document.
func isSVG(head []byte) bool {
	text := bytes.TrimPrefix(head, []byte("\ufeff"))
	for found := true; found; {
		text = bytes.TrimLeft(text, " \t\r\n")
		end := ""
		switch {
		case bytes.HasPrefix(text, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(text, []byte("<?xml")):
			end = "?>"
		case bytes.HasPrefix(text, []byte("<!DOCTYPE svg")):
			end = ">"
		default:
			return bytes.HasPrefix(text, []byte("<svg")) && len(text) > 4 && bytes.IndexByte([]byte(" \t\r\n/>"), text[4]) >= 0
		}
		_, text, found = bytes.Cut(text, []byte(end))
	}
	return false
}
