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
		for _, c := range [][2]string{{"", "a"}, {"text/html", "a.html"}, {"image/png", "a.png"}, {"image/svg+xml", "a.svg"}, {"application/pdf", "a.txt"}, {"text/plain", "a.md"}, {"a/b; c=d", "a.mp4"}} {
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
		for _, page := range []string{"<!doctype html ", "<!doctype html>", "<html ", "<html>", "<script>", "<script ", "<iframe ", "<body>", "<!-- "} {
			if bytes.HasPrefix(lower, []byte(page)) {
				is.True(!Inline(got) || isSVG(head) && (got == "image/svg+xml" || got == "text/plain"))
			}
		}
		if Inline(got) && strings.HasPrefix(got, "text/") {
			is.Equal(got, "text/plain")
		}
	})
}
