package admin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// found asks the search of the running server, by titles.
func (p *place) found(key, q string) string {
	p.t.Helper()
	status, body := p.get("/api/v1/search?q="+q, key)
	var answer struct {
		Data []struct{ Title string }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
		p.t.Fatalf("%d %s", status, body)
	}
	var all []string
	for _, d := range answer.Data {
		all = append(all, d.Title)
	}
	return strings.Join(all, "|")
}

// The index is rebuilt live and offline, and again on its own after it was
// killed, damaged or deleted; what was written is found all the while.
func TestReindex(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	p.upload(key, "harbour.txt", "the lighthouse keeper")
	is.Equal(p.found(key, "lighthouse"), "harbour.txt")
	said := regexp.MustCompile(`^Indexed 1 record in [0-9.]+m?s\.$`)
	is.True(said.MatchString(p.must("reindex")))
	is.Equal(p.found(key, "lighthouse"), "harbour.txt")
	s.stop()
	is.True(said.MatchString(p.must("reindex")))
	is.True(p.exists(p.data("cache", "index", "proof.json"))) // it can be taken up

	s = p.serve()
	p.upload(key, "second.txt", "another lighthouse")
	is.Equal(p.found(key, "lighthouse"), "second.txt|harbour.txt")
	s.kill()
	s = p.serve()
	is.Equal(p.found(key, "lighthouse"), "second.txt|harbour.txt")
	s.stop()
	is.NoErr(os.WriteFile(p.data("cache", "index", "scorch", "root.bolt"), []byte(strings.Repeat("damaged", 5000)), 0o600))
	s = p.serve()
	is.Equal(p.found(key, "lighthouse"), "second.txt|harbour.txt")
	s.stop()
	is.NoErr(os.RemoveAll(p.data("cache", "index")))
	s = p.serve()
	is.Equal(p.found(key, "lighthouse"), "second.txt|harbour.txt")
	s.stop()
	r := newPlace(t).run("", "reindex")
	is.Equal(r.code, 3) // nothing there
}

// A large import without a server leaves an index that the next server uses as it is.
func TestImportSettles(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	key := p.key()
	var rows strings.Builder
	rows.WriteString("url,title\n")
	for i := range 20_000 {
		fmt.Fprintf(&rows, "https://host%d.test/%d,A page of number %d\n", i%977, i, i)
	}
	p.write("pages.csv", rows.String())

	p.must("import", "pages.csv", "--user", "ann", "--dry-run")
	is.True(!p.exists(p.data("cache", "index")))

	p.must("import", "pages.csv", "--user", "ann")
	is.True(p.exists(p.data("cache", "index", "proof.json")))

	s := p.serve()
	is.Equal(p.found(key, "12345"), "A page of number 12345")
	s.stop()
	is.True(!strings.Contains(s.log.String(), "rebuilt"))
}
