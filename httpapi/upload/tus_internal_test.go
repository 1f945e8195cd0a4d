package upload

import (
	"bytes"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

// FuzzMetadata: what is read of Upload-Metadata is what its shown form says,
// but for the password.
func FuzzMetadata(f *testing.F) {
	for _, text := range []string{
		"", " ", "filename YS50eHQ=", "filename YS50eHQ=,isPublic dHJ1ZQ==", "a", "a ", "a,b", "a YQ==, b YQ==", "a YQ==,a YQ==", ",", "a  YQ==", "a YQ", "a YQ=\n=",
		"é YQ==", "a\tYQ==", "password c2VjcmV0", "password c2VjcmV0,filename AA==", "filename //79", "slug Li4=", "a YQ== YQ==", "Filename YQ==,filename YQ==",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		is := is.New(t)
		all, err := parseMetadata(text)
		if err != nil {
			_, status := web.ClientError(err)
			is.Equal(status, 400)
			return
		}
		form, _ := all.form()
		is.True(form != nil)
		name := all.fileName()
		is.True(name != "" && !strings.ContainsAny(name, "/\\\x00"))
		again, err := parseMetadata(all.shown())
		is.NoErr(err)
		is.True(!bytes.ContainsAny([]byte(all.shown()), "\r\n\x00"))
		is.Equal(again.text("password"), "")
		for _, d := range all {
			if d.name != "password" {
				is.Equal(again.text(d.name), d.value)
			}
		}
		is.Equal(again.shown(), all.shown())
	})
}
