package upload

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/jobs"
	"kist/kv/record"
)

// TestStoredReceipts: what is stored of an answer to a form's sender keeps its form, so that a later
// version can repeat the answer.
func TestStoredReceipts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const stored = `[{"ID":"01890a5d-ac96-774b-bcce-b302099a8057","State":"pending","Name":"a.txt","Size":3},{"ID":"01890a5d-ac96-774b-bcce-b302099a8058","State":"approved","Name":"b.txt","Size":4}]`
	items := []*record.Item{
		{ID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), State: record.Pending, Name: "a.txt", Size: 3},
		{ID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058"), State: record.Approved, Name: "b.txt", Size: 4},
	}
	b, err := json.Marshal(receiptsOf(items))
	is.NoErr(err)
	is.Equal(string(b), stored)
	back, err := itemsOf(&jobs.IdempotentAnswer{Request: []byte("request"), Body: []byte(stored)}, []byte("request"))
	is.NoErr(err)
	is.Equal(back, items)
	_, err = itemsOf(&jobs.IdempotentAnswer{Request: []byte("request"), Body: []byte(stored)}, []byte("another"))
	is.True(err != nil)
}

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
