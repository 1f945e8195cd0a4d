package upload_test

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

	"kist/httpapi/apitest"
	"kist/httpapi/upload"
	"kist/kv/record"
)

// FuzzMultipart: whatever the body, the answer is no 500, and an upload that
// is refused leaves nothing.
func FuzzMultipart(f *testing.F) {
	for _, body := range []string{
		apitest.FilePart + "--b--\n", apitest.FilePart, "", "--b--\n", "--b", apitest.FilePart + apitest.FilePart + "--b--", "preamble\n" + apitest.FilePart + aField("slug", "s") + "--b--\nepilogue",
		aField("tagIds", "[") + apitest.FilePart + "--b--\n", aField("", "x") + apitest.FilePart + "--b--\n", apitest.FilePart + aField("maxViews", "1e2") + "--b--\n",
		"--b\nContent-Disposition: form-data; name=file; filename*=UTF-8''%ff\nContent-Type: " +
			"\xff\nContent-Transfer-Encoding: base64\n\n\x00\n--b--\n",
		"--b\nContent-Disposition: form-data; " +
			"name=\"file\"\n\n\n--b--\n", "--b\n\n\n--b--\n", "--b \t\n\n--b--\n", apitest.FilePart + "--bb\n\n--b--\n", "--b\nA\n\n--b--",
		aField("password", "x") + apitest.FilePart + aField("expiresAt", "2130-02-30T00:00:00Z") + "--b--\n", strings.Repeat("--b\n\n\n", 101) + "--b--\n",
	} {
		f.Add("b", []byte(strings.ReplaceAll(body, "\n", "\r\n")))
		f.Add("b", []byte(body))
	}
	f.Add("", []byte("--\r\n\r\n----\r\n"))
	f.Add("-", []byte("---\r\n\r\n-----\r\n"))
	server := apitest.Start(f)
	f.Fuzz(func(t *testing.T, boundary string, body []byte) {
		is := is.New(t)
		a := *server
		a.TB = t
		before := len(a.BlobNames())
		r := httptest.NewRequest("POST", "/api/v1/upload", bytes.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("X-Api-Key", a.Key)
		r.Header["Content-Type"] = []string{
			mime.FormatMediaType("multipart/form-data", map[string]string{"boundary": boundary}),
		}
		w := httptest.NewRecorder()
		a.Server.ServeHTTP(w, r)
		is.True(w.Code == 201 || w.Code >= 400 && w.Code < 500)
		is.Equal(len(a.Staged()), 0)
		if w.Code != 201 {
			is.Equal(len(a.BlobNames()), before)
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
		name := upload.FileName(&multipart.Part{
			Header: textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + sent + `"`}},
		})
		is.True(name != "" && name != "." && name != ".." && len(name) <= record.MaxFileName)
		is.True(utf8.ValidString(name) && !strings.ContainsAny(name, "/\\") && !strings.ContainsFunc(name, unicode.IsControl))
		is.True(!strings.ContainsAny(
			name, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029",
		))
		apitest.IsDisposition(t, "attachment", name)
	})
}

// FuzzDisposition: any name gives one line that readers of the header
// understand, and that says the name if it is text.
func FuzzDisposition(f *testing.F) {
	for _, name := range []string{
		"a.txt", "", "\r\n", "a\"b", `a\b`, "%41", "日本", "\xff", "\x00\x7f\u0080", "a;b", "a'b", "a*b",
		strings.Repeat("é", 1000), "\u202e", " a ", "\t",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		apitest.IsDisposition(t, "inline", name)
	})
}
