package api_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// TestAnswersAreStored: what the answer to a creation or a change shows is what
// is read afterwards. The transaction that writes a thing also shows it.
func TestAnswersAreStored(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path   string
		bare         bool // the list is not under a name
		create, edit string
	}{
		{"tag", "tags", true, `{"name":"Travel "}`, `{"name":"trips","color":"#ABCDEF"}`},
		{"folder", "folders", false, `{"name":"Holidays","color":"#abcdef"}`, `{"name":"Trips","color":null}`},
		{
			"key", "keys", false, `{"name":"laptop","scopes":["read","write","read"],"expiresAt":"2090-01-02T03:04:05.678912Z"}`,
			`{"name":"desk","disabled":true}`,
		},
		{
			"user", "admin/users", false,
			`{"username":"Bob","password":"correct horse battery","displayName":" B ","quotaBytes":5}`,
			`{"displayName":"Robert","disabled":true,"quotaBytes":null}`,
		},
		{
			"webhook", "integrations/webhooks", false,
			`{"url":"https://example.org/a","events":["note.created"],"secret":"a secret of mine"}`,
			`{"name":"h","enabled":false,"events":["*"],"secret":""}`,
		},
		{
			"upload request", "upload-requests", false,
			`{"title":"Photos","password":"open sesame","expiresAt":"2090-01-02T03:04:05.678912Z","maxUploads":7}`,
			`{"title":"Films","password":null,"brandColor":"#ABCDEF","isActive":false}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			a.Key = a.AddKey(a.User, people.ScopeAdmin)
			at := "/api/v1/" + tt.path
			stored := func(id string) any { // as the list shows it
				got := a.Get(at).Want(200)
				if tt.bare {
					got = &apitest.Answer{App: a, Body: append(append([]byte(`{"data":`), got.Body...), '}')}
				}
				for _, v := range got.At("data").([]any) {
					if v.(map[string]any)["id"] == id {
						return v
					}
				}
				return nil
			}
			made := a.Post(at, tt.create).Want(201)
			id := made.Text("data.id")
			is.Equal(made.At("data"), stored(id)) // made
			edited := a.Patch(at+"/"+id, tt.edit).Want(200)
			is.Equal(edited.At("data"), stored(id)) // changed
			is.True(edited.At("data.id") == id)
			a.Delete(at + "/" + id).Want(200)
			is.Equal(stored(id), nil)
			a.Delete(at + "/" + id).Want(404)
		})
	}
}

// TestLinksToEachOther: of two short links that lead to each other and are made
// at the same time, one is refused. The transaction that adds one looks where
// it leads.
func TestLinksToEachOther(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for i := range 40 {
		var made atomic.Int32
		var both sync.WaitGroup
		for _, from := range []string{"a", "b"} {
			to := map[string]string{"a": "b", "b": "a"}[from]
			both.Go(func() {
				got := a.Post(
					"/api/v1/shorten",
					fmt.Sprintf(`{"originalUrl":"%s/s/%s-%d","slug":"%s-%d","isPublic":true}`, a.Server.Base, to, i, from, i),
				)
				if got.Status == 201 {
					made.Add(1)
				} else if got.Status != 422 {
					t.Errorf("status %d", got.Status)
				}
			})
		}
		both.Wait()
		is.Equal(made.Load(), int32(1))
	}
}
