package admin_test

import (
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestExtension(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	out := p.must("extension", "ext")
	is.True(strings.HasPrefix(out, "The extension is in ext. "))
	manifest, err := os.ReadFile(p.path("ext", "manifest.json"))
	is.NoErr(err)
	_, err = os.Stat(p.path("ext", "icons", "128.png"))
	is.NoErr(err)
	_, err = os.Stat(p.data())
	is.True(os.IsNotExist(err)) // it needs no data directory, and makes none

	// A folder with the extension in it is brought up to date.
	p.write("ext/background.js", "old")
	p.write("ext/mine.txt", "kept")
	is.Equal(p.must("--json", "extension", "ext")[:1], "{")
	now, err := os.ReadFile(p.path("ext", "background.js"))
	is.NoErr(err)
	is.True(string(now) != "old")
	mine, err := os.ReadFile(p.path("ext", "mine.txt"))
	is.NoErr(err)
	is.Equal(string(mine), "kept")

	// Anything else is left as it is.
	for name, text := range map[string]string{
		"diary.txt":     "dear",
		"manifest.json": `{"manifest_version":3,"name":"kist"}`,
	} {
		dir := "other-" + name
		is.NoErr(os.Mkdir(p.path(dir), 0o700))
		p.write(dir+"/"+name, text)
		got := p.run("", "extension", dir)
		is.Equal(got.code, 1)
		is.True(strings.Contains(got.err, "is not empty, and what is in it is not the extension of kist"))
		entries, err := os.ReadDir(p.path(dir))
		is.NoErr(err)
		is.Equal(len(entries), 1)
		left, err := os.ReadFile(p.path(dir, name))
		is.NoErr(err)
		is.Equal(string(left), text)
	}
	is.NoErr(os.Mkdir(p.path("empty"), 0o700))
	p.must("extension", "empty")
	again, err := os.ReadFile(p.path("empty", "manifest.json"))
	is.NoErr(err)
	is.Equal(string(again), string(manifest))
	p.write("file", "x")
	is.Equal(p.run("", "extension", "file").code, 1)
	is.Equal(p.run("", "extension").code, 2)
}
