package public_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// TestDeletionAddress: anyone who has it can delete the one item, by a button and once;
// nothing is told of the item but its name, and nothing of what is not there.
func TestDeletionAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	visit := func(path string) *apitest.Answer { return a.Visit(path, "Accept", "text/html") }
	press := func(path string) *apitest.Answer {
		return a.Do(apitest.Request{Method: "POST", Path: path, Anyone: true})
	}

	made := a.Post(
		"/api/v1/notes", `{"title":"Where <gold> is","content":"under the oak","password":"12345678"}`,
	).Want(201)
	at := a.Path(made.Text("deletionUrl"))
	page := visit(at).Want(200)
	is.True(bytes.Contains(page.Body, []byte("Where &lt;gold&gt; is")))
	is.True(!bytes.Contains(page.Body, []byte("oak")))
	is.Equal(page.Header.Get("Cache-Control"), "no-store")
	a.Do(apitest.Request{Method: "HEAD", Path: at, Anyone: true}).Want(200)
	a.Visit(at, "Sec-Purpose", "prefetch").Want(200)
	a.Patch("/api/v1/notes/"+made.Text("data.id"), `{"slug":"moved"}`).Want(200)
	is.True(!strings.Contains(string(a.Get("/api/v1/notes/moved").Want(200).Body), "deletionUrl"))
	is.True(!strings.Contains(string(a.Get("/api/v1/notes").Want(200).Body), "deletionUrl"))
	press(at).Want(200)
	a.Get("/api/v1/notes/moved").Want(404)
	visit(at).Want(410)
	press(at).Want(410)

	// Names that are the content are not told.
	for path, body := range map[string]string{
		"notes": `{"content":"concealed"}`, "snippets": `{"content":"concealed"}`, "bookmarks": `{"url":"https://concealed.example"}`, "shorten": `{"originalUrl":"https://concealed.example"}`,
	} {
		made := a.Post("/api/v1/"+path, body).Want(201)
		page := visit(a.Path(made.Text("deletionUrl"))).Want(200)
		is.True(!bytes.Contains(page.Body, []byte("concealed")))
		is.True(bytes.Contains(page.Body, []byte(made.Text("data.slug"))))
	}

	// No token is made of another, and all that are none look alike.
	one, two := a.Upload(
		map[string]string{}, apitest.File("a.txt", "", "a"),
	).Want(201), a.Upload(nil, apitest.File("b.txt", "", "b"), apitest.File("c.txt", "", "c")).Want(201)
	token := func(address string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(a.Path(address), web.DeletionPath))
		a.NoErr(err)
		return b
	}
	first, second := token(one.Text("deletionUrl")), token(two.Text("files.1.deletionUrl"))
	mixed := append(bytes.Clone(first[:len(first)-grant.DeletionMAC]), second[len(second)-grant.DeletionMAC:]...)
	kind := bytes.Clone(first)
	kind[16] = 99
	none := visit(web.DeletionPath + "none").Want(404)
	for _, wrong := range [][]byte{
		mixed, kind, first[:len(first)-1], append(bytes.Clone(first), 0), first[:len(first)-grant.DeletionMAC], {},
	} {
		at := web.DeletionPath + base64.RawURLEncoding.EncodeToString(wrong)
		if len(wrong) > 0 {
			is.Equal(visit(at).Want(404).Body, none.Body)
		}
		press(at).Want(404)
	}
	a.Get("/api/v1/files/" + one.Text("id")).Want(200)

	// A shut account's things stay.
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		u := a.User
		if _, err := people.AddUser(tx, people.User{Name: "other", Role: people.Admin, Quota: -1}); err != nil {
			return err
		}
		u.Disabled = true
		return people.SaveUser(tx, u)
	}))
	press(a.Path(one.Text("deletionUrl"))).Want(404)
	is.True(!strings.Contains(a.Logged.String(), a.Path(made.Text("deletionUrl"))[len(web.DeletionPath):]))

	for i := range limit.MaxMisses {
		visit(web.DeletionPath + "guess" + strings.Repeat("x", i))
	}
	visit(web.DeletionPath + "one-more").Want(429)
}
