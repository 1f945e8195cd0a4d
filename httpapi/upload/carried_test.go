package upload_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/journal"
	"kist/kv/workcopy"
)

// Whichever way small content arrives: if its file is not synced, the journal carries it.
func TestSmallContentIsCarried(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Fetching(t)
	// The folder of the first content is new, so its file is synced.
	a.Upload(nil, apitest.File("first.txt", "", "first")).Want(201)
	var contents []string
	for i := 0; len(contents) < 7; i++ {
		if c := fmt.Sprintf("content %d", i); sha256.Sum256([]byte(c))[0] == sha256.Sum256([]byte("first"))[0] {
			contents = append(contents, c)
		}
	}
	next := func() string {
		c := contents[0]
		contents = contents[1:]
		return c
	}
	carried := func(what string, all ...string) {
		t.Helper()
		has := map[[32]byte]bool{}
		j, err := journal.Read(filepath.Join(a.Server.Store.Dir(), "journal"), workcopy.Format)
		is.NoErr(err)
		is.NoErr(j.Records(0, workcopy.Carried(func(ref [32]byte, _ []byte) error { has[ref] = true; return nil })))
		is.NoErr(j.Close())
		for _, c := range all {
			if !has[sha256.Sum256([]byte(c))] {
				t.Errorf("%s: %q is not in the journal", what, c)
			}
		}
	}

	one, two := next(), next()
	a.Upload(nil, apitest.File("a.txt", "", one), apitest.File("b.txt", "", two)).Want(201)
	carried("an upload", one, two)

	c := next()
	a.Do(a.ShareSheet(nil, apitest.File("a.txt", "text/plain", c))).Want(303)
	carried("a share sheet", c)

	for _, approval := range []bool{false, true} {
		c = next()
		_, slug := a.Ask(map[string]any{"requiresApproval": approval})
		a.Leave(slug, nil, nil, apitest.File("a.txt", "", c)).Want(201)
		carried("an upload link", c)
	}

	c = next()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, c)
	}))
	t.Cleanup(target.Close)
	a.StateOf(a.Remote(map[string]any{"url": target.URL}), "done")
	carried("a remote upload", c)

	// One that the store has is synced, and not carried again.
	last := next()
	a.Upload(nil, apitest.File("a.txt", "", last)).Want(201)
	a.NoErr(a.Server.Store.Compact())
	a.Upload(nil, apitest.File("b.txt", "", last)).Want(201)
	a.Clean()
}
