package upload

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// What an answer may say of the name becomes one that is safe to save under.
func TestNameOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ disposition, address, want string }{
		{"", "https://example.org/a/b.txt?c=d#e", "b.txt"},
		{"", "https://example.org/a/b/", "b"},
		{"", "https://example.org/", "example.org"},
		{"", "https://example.org", "example.org"},
		{"", "https://example.org/%2e%2e/%2e%2e", "file"},
		{"", "https://example.org/..%2f..%2fetc%2fpasswd", "passwd"},
		{"", "https://example.org/.bashrc", ".bashrc"},
		{"", "https://example.org/" + strings.Repeat("x", 300) + ".tar", strings.Repeat("x", 251) + ".tar"},
		{`attachment; filename="a b.txt"`, "https://example.org/x", "a b.txt"},
		{`attachment; filename="x.txt"; filename*=UTF-8''%e2%82%ac%20rates.txt`, "https://example.org/x", "€ rates.txt"},
		{`inline; filename=plain.txt`, "https://example.org/x", "plain.txt"},
		{`attachment; filename="..\\..\\CON.txt"`, "https://example.org/x", "_CON.txt"},
		{`attachment; filename="/etc/passwd"`, "https://example.org/x", "passwd"},
		{`attachment; filename=""`, "https://example.org/x", "x"},
		{`attachment`, "https://example.org/x", "x"},
		{`"; ;;=`, "https://example.org/x", "x"},
		{`attachment; filename=a b (1).pdf; size=5`, "https://example.org/get.php", "a b (1).pdf"},
		{`attachment;FileName = "a.pdf"; filename="b.pdf"`, "https://example.org/x", "a.pdf"},
		{"attachment; filename=Gr\xc3\xbc\xc3\x9fe.pdf", "https://example.org/x", "Grüße.pdf"},
		{"attachment; filename=\"Gr\xfc\xdfe \x80.pdf\"", "https://example.org/x", "Grüße €.pdf"}, // Windows-1252
		{"attachment; filename=Gr\xfc\xdfe 1.pdf", "https://example.org/x", "Grüße 1.pdf"},
		{`attachment; filename="x.pdf"; filename*=ISO-8859-1'de'Gr%FC%DFe.pdf`, "https://example.org/x", "Grüße.pdf"},
		{`attachment; filename*=windows-1252''%80.txt;size=1`, "https://example.org/x", "€.txt"},
		{`attachment; filename=../a b/../.. `, "https://example.org/x", "file"},
		{`attachment; filename*=Shift_JIS''%83e%83X%83g.txt`, "https://example.org/x", "テスト.txt"},
		{`attachment; filename*=utf-8'en'%e2%82%ac.txt; filename="EUR.txt"`, "https://example.org/x", "€.txt"},
		{`attachment; filename="a; filename*=utf-8''b.txt"`, "https://example.org/x", "a; filename*=utf-8''b.txt"},
		{`attachment; filename*="utf-8''b.txt"`, "https://example.org/x", "b.txt"},
		{`attachment; filename*=klingon''caf%E9.pdf`, "https://example.org/x", "café.pdf"},
		{`attachment; filename="=?UTF-8?B?w5xidW5nLnR4dA==?="`, "https://example.org/x", "Übung.txt"},
		{`attachment; filename="=?iso-8859-1?Q?caf=E9.pdf?="`, "https://example.org/x", "café.pdf"},
		{`attachment; filename="=?klingon?B?eA==?="`, "https://example.org/x", "=?klingon?B?eA==?="},
		{"attachment; filename=\"\xce\xf2\xf7\xb8\xf2.txt\"", "https://example.org/x", "Отчёт.txt"}, // Windows-1251
		{"", "https://example.org/Bilder/Seite.jpg;jsessionid=15?__blob=normal&v=1", "Seite.jpg"},
		{"", "https://example.org/a.jsp;JSESSIONID=0A1B.node1", "a.jsp"},
		{"", "https://example.org/a.pdf;v=1.1;lang=en", "a.pdf"},
		{"", "https://example.org/a;b.txt", "a;b.txt"},
		{"", "https://example.org/a%3Bv=1.txt", "a;v=1.txt"},
		{"", "https://example.org/;jsessionid=15", "example.org"},
		{"", "https://example.org/caf%E9.pdf", "café.pdf"},
		{`attachment; xfilename=a b`, "https://example.org/x", "x"},
	} {
		is := is.New(t)
		u, err := url.Parse(c.address)
		is.NoErr(err)
		header := http.Header{"Content-Disposition": {c.disposition}}
		got, said := nameOf(&http.Response{Header: header, Request: &http.Request{URL: u}})
		is.Equal(got, c.want)
		is.Equal(said, saidName(c.disposition) != "")
	}
}

func FuzzNameOf(f *testing.F) {
	f.Add(`attachment; filename="x.txt"; filename*=UTF-8''%e2%82%ac.txt`, "/a/b.txt")
	f.Add(`attachment; filename*=ISO-8859-1''%ff`, "/..")
	f.Add(`attachment; filename=a b.txt;`, "/")
	f.Add("attachment; filename=\"\xff\x00\r\n\"", "//")
	f.Add(`attachment; filename*0="a"; filename*1="b"`, "\x00")
	f.Fuzz(func(t *testing.T, disposition, path string) {
		name, _ := nameOf(&http.Response{
			Header:  http.Header{"Content-Disposition": {disposition}},
			Request: &http.Request{URL: &url.URL{Scheme: "http", Host: "example.org", Path: path}},
		})
		if clean, _ := record.CleanFileName(name); name == "" || clean != name {
			t.Errorf("%q of %q and %q", name, disposition, path)
		}
	})
}

// TestAddExtension: what programs show by its extension gets one, if its name has none.
func TestAddExtension(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, mimeType, want string }{
		{"640", "image/png", "640.png"},
		{"photo", "image/heic", "photo.heic"},
		{"film", "video/quicktime", "film.mov"},
		{"song", "audio/mpeg", "song.mp3"},
		{"paper", "application/pdf", "paper.pdf"},
		{"a.jpg", "image/png", "a.jpg"},
		{"readme", "text/plain", "readme"},
		{"get", "application/octet-stream", "get"},
		{"raw", "image/x-unheard-of", "raw"},
		{strings.Repeat("x", record.MaxFileName), "image/png", strings.Repeat("x", record.MaxFileName-4) + ".png"},
	} {
		f := &File{Name: c.name, MimeType: c.mimeType}
		f.addExtension()
		if f.Name != c.want {
			t.Errorf("%s as %s: got %s, want %s", c.name, c.mimeType, f.Name, c.want)
		}
	}
}
