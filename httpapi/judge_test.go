package httpapi_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

// TestJudge: the judge finds the errors that it must find.
func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		good = `{"data":{"id":"01890a5d-ac96-774b-bcce-b302099a8057","name":"a","color":"#AABBCC","createdAt":"2026-01-02T03:04:05.678Z","count":1,"counts":{"note":1}}}`
		path = web.APIPath + "tags"
	)
	for _, tt := range []struct{ name, body, want string }{
		{"good", good, ""},
		{"null", strings.Replace(good, `"name":"a"`, `"name":null`, 1), "got null, want string"},
		{"no id", strings.Replace(good, `"01890a5d-ac96-774b-bcce-b302099a8057"`, `null`, 1), "got null, want string"},
		{"bad id", strings.Replace(good, `01890a5d-`, ``, 1), "not valid uuid"},
		{"bad time", strings.Replace(good, `T03:04`, ` 03:04`, 1), "not valid date-time"},
		{"missing", strings.Replace(good, `"count":1,`, ``, 1), "missing property"},
		{"unknown", strings.Replace(good, `"count":1,`, `"count":1,"x":1,`, 1), "additional properties 'x' not allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			j, err := apitest.TheJudge()
			is.NoErr(err)
			err = j.Answer("POST", path, &apitest.Answer{Status: 201, Body: []byte(tt.body)})
			if tt.want == "" {
				is.NoErr(err)
				return
			}
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), tt.want))
		})
	}
}
