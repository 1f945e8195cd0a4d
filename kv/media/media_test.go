package media

import (
	"bytes"
	"mime"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// FuzzMediaType: the type is well formed and without parameters. Bytes that a
// browser would run as a page never get a type that it shows, except SVG, which
// the sandbox contains.
func FuzzMediaType(f *testing.F) {
	for _, head := range []string{
		"", "hello", "<html>", "<!-- a --><svg>", "<!-- a --><p>", "<?xml version=\"1.0\"?><svg ", "<svg", "<svgx>", "\ufeff<svg>", "GIF89a<script>", "%PDF-<html>",
		"PK\x03\x04", "\x89PNG\r\n\x1a\n", "OggS\x00", "\x1a\x45\xdf\xa3", "\x00", "\xff\xfe<\x00", "<!DOCTYPE svg><svg>", "<?xml?>", "<!--",
	} {
		for _, c := range [][2]string{
			{"", "a"},
			{"text/html", "a.html"},
			{"image/png", "a.png"},
			{"image/svg+xml", "a.svg"},
			{"application/pdf", "a.txt"},
			{"text/plain", "a.md"},
			{"a/b; c=d", "a.mp4"},
		} {
			f.Add(c[0], c[1], []byte(head))
		}
	}
	f.Fuzz(func(t *testing.T, claimed, name string, head []byte) {
		is := is.New(t)
		got := Of(claimed, name, head[:min(len(head), Sniffed)])
		parsed, params, err := mime.ParseMediaType(got)
		is.NoErr(err)
		is.Equal(parsed, got) // lower case, nothing around it
		is.Equal(len(params), 0)
		is.True(len(got) <= 127 && strings.Count(got, "/") == 1)
		lower := bytes.ToLower(bytes.TrimLeft(head, " \t\r\n\f"))
		for _, page := range []string{
			"<!doctype html ", "<!doctype html>", "<html ", "<html>", "<script>", "<script ", "<iframe ", "<body>", "<!-- ",
		} {
			if bytes.HasPrefix(lower, []byte(page)) {
				is.True(!Inline(got) || isSVG(head) && (got == "image/svg+xml" || got == "text/plain"))
			}
		}
		if Inline(got) && strings.HasPrefix(got, "text/") {
			is.Equal(got, "text/plain")
		}
	})
}

// TestOf: the bytes come first, then the name, then the client's type.
func TestOf(t *testing.T) {
	t.Parallel()
	const mp4 = "\x00\x00\x00\x10ftypmp42\x00\x00\x00\x00"
	longest := "text/" + strings.Repeat("x", 122)
	for _, c := range []struct{ claimed, name, head, want string }{
		{"", "a", "", "text/plain"},
		{"", "A.MD", "# a", "text/markdown"},
		{"", "a.md", "PK\x03\x04", "application/zip"},
		{"", "a.svg", "PK\x03\x04", "application/zip"},
		{"", "a.docx", "PK\x03\x04", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		{"application/atom+xml", "a", "PK\x03\x04", "application/zip"},
		{"application/ld+json", "a", "PK\x03\x04", "application/zip"},
		{"", "a.mov", mp4, "video/quicktime"},
		{"", "a.md", mp4, "video/mp4"},
		{"audio/mp4", "a", mp4, "audio/mp4"},
		{"", "a.txt", "\x00\x01", "application/octet-stream"},
		{"", "a.iso", "\x00\x01", "application/x-iso9660-image"},
		{"", "a.iso", "hello", "application/x-iso9660-image"},
		{"", "a.md", "<html>", "text/markdown"},
		{"", "a.txt", "<html>", "text/html"},
		{"application/pdf", "a", "<html>", "text/html"},
		{"application/pdf", "a", "hello", "text/plain"},
		{"image/png", "a", "hello", "text/plain"},
		{"image/png", "a", "%PDF-1.7", "application/pdf"},
		{"text/x-thing; charset=utf-8", "a", "hello", "text/x-thing"},
		{"text/x-thing", "a.md", "hello", "text/markdown"},
		{"application/octet-stream", "a", "hello", "text/plain"},
		{"text/plain", "a", "<?xml version=\"1.0\"?>", "text/xml"},
		{"thing", "a", "hello", "text/plain"},
		{longest, "a", "hello", longest},
		{longest + "x", "a", "hello", "text/plain"},
		{"", "a", "<svg/>", "image/svg+xml"},
		{"", "a", "\ufeff <?xml version=\"1.0\"?>\n<!-- a -->\t<!DOCTYPE svg>\r\n<svg ", "image/svg+xml"},
		{"", "a.xml", "<!-- a --><svg>", "text/xml"},
		{"", "a", "<svgx>", "text/plain"},
		{"", "a", "<svg", "text/plain"},
		{"", "a", "<!-- a", "text/html"},
		{"", "a", "<!-- a --><p>", "text/html"},
	} {
		if got := Of(c.claimed, c.name, []byte(c.head)); got != c.want {
			t.Errorf("%q, %q, %q: got %s, want %s", c.claimed, c.name, c.head, got, c.want)
		}
	}
}
