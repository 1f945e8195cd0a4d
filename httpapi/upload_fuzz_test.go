package httpapi

import (
	"bytes"
	"mime"
	"mime/multipart"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv/record"
)

// FuzzMultipart: whatever the body, the answer is no 500, and an upload that
// is refused leaves nothing.
func FuzzMultipart(f *testing.F) {
	for _, body := range []string{
		aFile + "--b--\n", aFile, "", "--b--\n", "--b", aFile + aFile + "--b--", "preamble\n" + aFile + aField("slug", "s") + "--b--\nepilogue",
		aField("tagIds", "[") + aFile + "--b--\n", aField("", "x") + aFile + "--b--\n", aFile + aField("maxViews", "1e2") + "--b--\n",
		"--b\nContent-Disposition: form-data; name=file; filename*=UTF-8''%ff\nContent-Type: \xff\nContent-Transfer-Encoding: base64\n\n\x00\n--b--\n",
		"--b\nContent-Disposition: form-data; name=\"file\"\n\n\n--b--\n", "--b\n\n\n--b--\n", "--b \t\n\n--b--\n", aFile + "--bb\n\n--b--\n", "--b\nA\n\n--b--",
		aField("password", "x") + aFile + aField("expiresAt", "2130-02-30T00:00:00Z") + "--b--\n", strings.Repeat("--b\n\n\n", 101) + "--b--\n",
	} {
		f.Add("b", []byte(strings.ReplaceAll(body, "\n", "\r\n")))
		f.Add("b", []byte(body))
	}
	f.Add("", []byte("--\r\n\r\n----\r\n"))
	f.Add("-", []byte("---\r\n\r\n-----\r\n"))
	server := start(f)
	f.Fuzz(func(t *testing.T, boundary string, body []byte) {
		is := is.New(t)
		a := *server
		a.TB = t
		before := len(a.blobNames())
		r := httptest.NewRequest("POST", "/api/v1/upload", bytes.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("X-Api-Key", a.key)
		r.Header["Content-Type"] = []string{mime.FormatMediaType("multipart/form-data", map[string]string{"boundary": boundary})}
		w := httptest.NewRecorder()
		a.server.ServeHTTP(w, r)
		is.True(w.Code == 201 || w.Code >= 400 && w.Code < 500)
		is.Equal(len(a.staged()), 0)
		if w.Code != 201 {
			is.Equal(len(a.blobNames()), before)
		}
	})
}

// FuzzFileName: the name of a part's file is safe to save under, and the
// header it is later sent in says that name.
func FuzzFileName(f *testing.F) {
	for _, name := range []string{
		"a.txt", "", ".", "..", "../../a", `..\a`, "a%22b", "%0d%0a", "%0D%0ASet-Cookie: a=b", "CON", "com1.txt", "\u202egnp.exe", "e\u0301", "日本", "\xff",
		strings.Repeat("x", 300) + ".tar.gz", strings.Repeat("é", 200), "a;b=c", `a\"b`, "a\x00b", "a\r\nb", "  a  ", "a.", "100%", "%41", "*", "a'b", "nul .txt", "\u2028", "a/\u200f",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		is := is.New(t)
		name := upload.FileName(&multipart.Part{Header: textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + sent + `"`}}})
		is.True(name != "" && name != "." && name != ".." && len(name) <= record.MaxFileName)
		is.True(utf8.ValidString(name) && !strings.ContainsAny(name, "/\\") && !strings.ContainsFunc(name, unicode.IsControl))
		is.True(!strings.ContainsAny(name, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029"))
		isDisposition(t, "attachment", name)
	})
}

// FuzzDisposition: any name gives one line that readers of the header
// understand, and that says the name if it is text.
func FuzzDisposition(f *testing.F) {
	for _, name := range []string{"a.txt", "", "\r\n", "a\"b", `a\b`, "%41", "日本", "\xff", "\x00\x7f\u0080", "a;b", "a'b", "a*b", strings.Repeat("é", 1000), "\u202e", " a ", "\t"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		isDisposition(t, "inline", name)
	})
}

func isDisposition(t *testing.T, how, name string) {
	t.Helper()
	is := is.New(t)
	header := web.Disposition(how, name)
	for i := range len(header) {
		is.True(header[i] >= ' ' && header[i] < 0x7f) // one line of ASCII
	}
	got, params, err := mime.ParseMediaType(header)
	is.NoErr(err)
	is.Equal(got, how)
	is.True(len(params) == 1)
	if utf8.ValidString(name) {
		is.Equal(params["filename"], name)
	}
	// A reader that knows only the plain form gets no path and no escape.
	plain, _, _ := strings.Cut(header, "; filename*=")
	_, params, err = mime.ParseMediaType(plain)
	is.NoErr(err)
	is.True(!strings.ContainsAny(params["filename"], `"\%`))
	is.Equal(utf8.RuneCountInString(params["filename"]), utf8.RuneCountInString(name))
}
