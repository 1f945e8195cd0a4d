package apitest

import (
	"mime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

func IsDisposition(t *testing.T, how, name string) {
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
