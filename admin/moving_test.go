package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/field"
	"kist/kv/kvtest/needs"
	"kist/kv/transfer/format"
)

const bookmarksHTML = `<!DOCTYPE NETSCAPE-Bookmark-file-1>
<DL><p><DT><H3>Reading</H3><DL><p>
<DT><A HREF="https://go.dev/" ADD_DATE="1600000000">Go</A>
<DD>Home of Go
<DT><A HREF="javascript:alert(1)">evil</A>
</DL></DL>
`

var formats = strings.Join(field.Words(format.Formats), ", ")

// What is moved in from elsewhere comes out as an export, and goes into another
// instance, all of it equal: while the server runs, and while it does not.
func TestMoving(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			p.ann()
			if running {
				p.serve()
			}
			p.write("bookmarks.html", bookmarksHTML)
			const refused = "\nSkipped: line 5, evil: The URL must be an absolute http or https address."
			is.Equal(
				p.must("import", "bookmarks.html", "--user", "ann", "--dry-run"),
				"This would import (netscape): 1 bookmark. Of 2 entries, 0 were there already and 1 is skipped."+refused,
			)
			is.Equal(
				p.must("import", "bookmarks.html", "--user", "ann"),
				"Imported (netscape): 1 bookmark. Of 2 entries, 0 were there already and 1 is skipped."+refused,
			)
			r := p.run(bookmarksHTML, "import", "-", "--user", "ann", "--format", "netscape", "--json")
			is.Equal(r.code, 0)
			is.True(strings.Contains(r.out, `"there": 1,`) && strings.Contains(r.out, `"refused": true,`))

			p.write("go.csv", "url,title,tags,mood\nhttps://go.dev/,Other,lang,glad\n")
			const mood = "\nNote: column \"mood\": This is not imported; 1 entry has it."
			is.Equal(
				p.must("import", "go.csv", "--user", "ann", "--update", "--dry-run"),
				"This would import (csv): nothing. Of 1 entry, 1 was there already (1 would be filled in) and 0 are "+
					"skipped.\nNote: line 2, Other: This would be filled in: tag lang."+mood,
			)
			is.Equal(
				p.must("import", "go.csv", "--user", "ann"),
				"Imported (csv): nothing. Of 1 entry, 1 was there already and 0 are skipped."+mood,
			)
			is.Equal(
				p.must("import", "go.csv", "--user", "ann", "--update"),
				"Imported (csv): nothing. Of 1 entry, 1 was there already (1 filled in) and 0 are skipped.\nNote: line 2, "+
					"Other: Filled in: tag lang."+mood,
			)

			is.NoErr(os.MkdirAll(p.path("photos", "summer"), 0o700))
			big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
			is.NoErr(os.WriteFile(p.path("photos", "summer", "big.bin"), big, 0o600))
			p.write("photos/note.md", "# hello")
			is.NoErr(os.Symlink("/etc/passwd", p.path("photos", "secret")))
			is.Equal(
				p.must("import", "photos", "--user", "ann"),
				"Imported (folder): 2 files. Of 3 entries, 0 were there already and 1 is skipped.\nSkipped: secret, secret: It "+
					"is a link or a special file, not a regular file.",
			)

			said := p.must("export", "ann.zip", "--user", "ann")
			is.True(strings.HasPrefix(
				said, "Exported ann to ann.zip: 3 items and the bytes of 2 files (2.1 MB). It was read back and is intact.",
			))
			r = p.run("", "export", "ann.zip", "--user", "ann")
			is.Equal(r, result{1, "", "There is already a file at ann.zip; name another one.\n"}) // nothing is written over
			r = p.run("", "export", "-", "--user", "ann")
			is.Equal(r.code, 0)
			whole, err := os.ReadFile(p.path("ann.zip"))
			is.NoErr(err)
			is.True(r.out == string(whole))

			other := newPlace(t)
			other.ann()
			if running {
				other.serve()
			}
			is.Equal(
				other.must("import", p.path("ann.zip"), "--user", "ann"),
				"Imported (kist): 1 bookmark, 2 files, 1 folder, 2 tags. Of 3 entries, 0 were there already and 0 are skipped.",
			)
			is.Equal(
				other.must("import", p.path("ann.zip"), "--user", "ann"),
				"Imported (kist): nothing. Of 3 entries, 3 were there already and 0 are skipped.",
			)
			other.must("export", "again.zip", "--user", "ann")
			again, err := os.ReadFile(other.path("again.zip"))
			is.NoErr(err)
			is.True(bytes.Equal(again, whole))

			other.write("torn.zip", string(whole[:len(whole)/2]))
			other.write("what.bin", "nothing known")
			for _, c := range []struct {
				args []string
				code int
				err  string
			}{
				{[]string{"import", "bookmarks.html", "--user", "ann"}, 3, "There is no file or folder at bookmarks.html."},
				{
					[]string{"import", "torn.zip", "--user", "nobody"},
					3,
					`There is no user named "nobody"; kist user list shows the names.`,
				},
				{[]string{"import", "torn.zip", "--user", "ann"}, 1, "It is not a complete zip."},
				{
					[]string{"import", "what.bin", "--user", "ann"},
					1,
					"Unknown file format. Known formats: " + formats + ". Most programs can also export bookmarks as HTML: import that.",
				},
				{[]string{"import", "torn.zip", "--user", "ann", "--format", "x"}, 2, "--format must be one of: " + formats + "."},
				{
					[]string{"export", "x.zip", "--user", "nobody"},
					3,
					`There is no user named "nobody"; kist user list shows the names.`,
				},
			} {
				r := other.run("", c.args...)
				is.Equal(strings.TrimSpace(r.err), c.err)
				is.Equal(r.code, c.code)
			}
			left, err := filepath.Glob(other.path("*.part"))
			is.NoErr(err)
			is.Equal(len(left), 0)
		})
	}
}

// Moving leaves nothing behind: what is verified afterwards is whole.
func TestMovingVerified(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	p.write("a.csv", "title,url\nA,https://a.test\n")
	s := p.serve()
	p.must("import", "a.csv", "--user", "ann")
	p.must("export", "a.zip", "--user", "ann")
	s.kill()
	<-s.done
	p.must("import", "a.zip", "--user", "ann")
	p.must("verify")
	entries, err := os.ReadDir(p.data("cache"))
	is.NoErr(err)
	for _, e := range entries {
		is.True(!strings.HasPrefix(e.Name(), "export-"))
	}
}

// A program that uses the socket on its own, without the command, is told which
// formats there are.
func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.ann()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.data("kist.sock"))
	}}}
	const list = "url,title\nhttps://go.dev/"
	for ask, c := range map[string]struct {
		text, want string
		status     int
	}{
		"format=other":  {list, `"fields":{"format":"must be one of: ` + formats + `"}`, http.StatusUnprocessableEntity},
		"format=pocket": {list, `"made":{"bookmark":1}`, http.StatusOK},
		"":              {list, `"format":"csv"`, http.StatusOK},
		"dryRun=true":   {"nothing known", `"code":"not_importable"`, http.StatusUnprocessableEntity}, // no fault of the server
		"format=kist":   {"nothing known", `"error":"It is not a complete zip."`, http.StatusUnprocessableEntity},
	} {
		res, err := client.Post("http://kist/import?user=ann&"+ask, "", strings.NewReader(c.text+ask+",Go\n"))
		is.NoErr(err)
		body, err := io.ReadAll(res.Body)
		is.NoErr(err)
		res.Body.Close()
		is.Equal(res.StatusCode, c.status)
		if !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %s", ask, body)
		}
	}
}

// The temporary file of an export takes no name that the user may have given to a file.
func TestExportBeside(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	p.write("ann.zip.part", "mine")
	p.must("export", "ann.zip", "--user", "ann")
	mine, err := os.ReadFile(p.path("ann.zip.part"))
	is.NoErr(err)
	is.Equal(string(mine), "mine")
	info, err := os.Stat(p.path("ann.zip"))
	is.NoErr(err)
	is.Equal(info.Mode(), fs.FileMode(0o600))
	is.Equal(p.run("", "export", "none/ann.zip", "--user", "ann").code, 1)
	entries, err := os.ReadDir(p.dir)
	is.NoErr(err)
	is.Equal(len(entries), 3) // and the data
}

// Earlier texts of an item do not count as items.
func TestExportCountsItems(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.ann()
	key := s.must("key", "create", "--user", "ann", "--name", "test")
	id := s.post("/api/v1/notes", key, "application/json", strings.NewReader(`{"content":"one"}`))
	s.send(http.MethodPatch, "/api/v1/notes/"+id, key, "application/json", strings.NewReader(`{"content":"two"}`))
	is.True(strings.HasPrefix(s.must("export", "ann.zip", "--user", "ann"), "Exported ann to ann.zip: 1 item and "))
	zip, err := os.ReadFile(s.path("ann.zip"))
	is.NoErr(err)
	is.True(bytes.Contains(zip, []byte("versions.jsonl")))
}

// Bookmarks leave for other programs, in the form that the name of the file or the flag says.
func TestExportBookmarks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	p.write("in.html", bookmarksHTML)
	p.must("import", "in.html", "--user", "ann")
	for args, begins := range map[string]string{
		"out.html": "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n", "out.json": `{"bookmarks":[`, "out.txt --format json": `{"bookmarks":[`,
	} {
		named := strings.Fields(args)
		said := p.must(append([]string{"export", "--user", "ann"}, named...)...)
		is.Equal(said, "Exported 1 bookmark of ann to "+named[0]+", for other programs.")
		text, err := os.ReadFile(p.path(named[0]))
		is.NoErr(err)
		is.True(strings.HasPrefix(string(text), begins) && strings.Contains(string(text), "Home of Go"))
	}
	is.True(strings.HasPrefix(p.run("", "export", "-", "--user", "ann", "--format", "html").out, "<!DOCTYPE NETSCAPE"))
	wrong := p.run("", "export", "x.csv", "--user", "ann", "--format", "csv")
	is.Equal([]any{wrong.code, wrong.err}, []any{2, "--format must be one of: zip, html, json.\n"})
}

// A folder of notes becomes notes, and other folders become files, unless the flag says otherwise.
func TestImportNotes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	is.NoErr(os.MkdirAll(p.path("vault", "travel"), 0o700))
	p.write("vault/travel/Trip.md", "---\ntags: [x]\n---\n# Day one\n")
	past := time.Now().Add(-time.Hour) // a note is not from the future, even if the clock is set back now
	is.NoErr(os.Chtimes(p.path("vault/travel/Trip.md"), past, past))
	is.Equal(
		p.must("import", "vault", "--user", "ann", "--dry-run", "--format", "folder"),
		"This would import (folder): 1 file. Of 1 entry, 0 were there already and 0 are skipped.",
	)
	for _, report := range []string{
		"Imported (markdown): 1 note. Of 1 entry, 0 were there already and 0 are skipped.",
		"Imported (markdown): nothing. Of 1 entry, 1 was there already and 0 are skipped.",
	} {
		is.Equal(p.must("import", "vault", "--user", "ann"), report)
	}
	is.Equal(p.run("", "import", "vault", "--user", "ann", "--format", "csv").code, 2)
}
