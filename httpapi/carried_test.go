package httpapi

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/workcopy"
)

// Whichever way small content arrives: if its file is not synced, the journal carries it.
func TestSmallContentIsCarried(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.fetching(t)
	// The folder of the first content is new, so its file is synced.
	a.upload(nil, file{"first.txt", "", "first"}).want(201)
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
		j, err := journal.Read(filepath.Join(a.server.Store.Dir(), "journal"), workcopy.Format)
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
	a.upload(nil, file{"a.txt", "", one}, file{"b.txt", "", two}).want(201)
	carried("an upload", one, two)

	c := next()
	a.do(a.shareSheet(nil, file{"a.txt", "text/plain", c})).want(303)
	carried("a share sheet", c)

	for _, approval := range []bool{false, true} {
		c = next()
		_, slug := a.ask(map[string]any{"requiresApproval": approval})
		a.leave(slug, nil, nil, file{"a.txt", "", c}).want(201)
		carried("an upload link", c)
	}

	c = next()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c) }))
	t.Cleanup(target.Close)
	a.stateOf(a.remote(map[string]any{"url": target.URL}), "done")
	carried("a remote upload", c)

	// One that the store has is synced, and not carried again.
	last := next()
	a.upload(nil, file{"a.txt", "", last}).want(201)
	a.fatal(a.server.Store.Compact())
	a.upload(nil, file{"b.txt", "", last}).want(201)
	a.clean()
}
