package render

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/matryer/is"
)

var update = flag.Bool("update", false, "write grammars.zip anew from the module chroma")

// The file of grammars is of the version of the module that is used, and knows
// the same languages.
func TestGrammars(t *testing.T) {
	is := is.New(t)
	if *update {
		is.NoErr(os.WriteFile("grammars.zip", writeGrammars(t), 0o644))
		return
	}
	const hint = "grammars.zip is not of the chroma in go.mod: go test ./httpapi/render -run TestGrammars -update"
	l, err := grammars()
	is.NoErr(err)
	version, err := fs.ReadFile(l.files, versionPath)
	is.NoErr(err)
	if string(version) != chromaVersion(t) {
		t.Fatal(hint)
	}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		c := lexer.Config()
		g := l.byName[strings.ToLower(c.Name)]
		if g == nil {
			t.Log("not there:", c.Name)
			continue
		}
		if g.rules == nil && g.Name == c.Name && !slices.Equal(g.Files, patterns(c)) {
			t.Fatal(hint)
		}
	}
	is.True(len(l.all) > 280)
}

const versionPath = "VERSION"

// chromaVersion is the version in go.mod.
func chromaVersion(t *testing.T) string {
	t.Helper()
	file, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`alecthomas/chroma/v2 (v\S+)`).FindSubmatch(file)
	if found == nil {
		t.Fatal("chroma is not in go.mod")
	}
	return string(found[1])
}

func patterns(c *chroma.Config) []string {
	return append(slices.Clone(c.Filenames), c.AliasFilenames...)
}

var states = regexp.MustCompile(`(?s)    <state name="[^"]*"(?:/>|>.*?</state>)\n`)

// writeGrammars makes the file. The same grammars make the same bytes.
func writeGrammars(t *testing.T) []byte {
	t.Helper()
	is := is.New(t)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	add := func(name string, data []byte) {
		w, err := z.Create(name)
		is.NoErr(err)
		_, err = w.Write(data)
		is.NoErr(err)
	}
	all := slices.Clone(lexers.GlobalLexerRegistry.Lexers)
	slices.SortFunc(all, func(a, b chroma.Lexer) int { return cmp.Compare(a.Config().Name, b.Config().Name) })
	var index []grammar
	for _, lexer := range all {
		regex, ok := lexer.(*chroma.RegexLexer)
		if !ok {
			continue // made of other lexers, in Go
		}
		data, err := chroma.Marshal(regex)
		if errors.Is(err, chroma.ErrNotSerialisable) {
			continue
		}
		is.NoErr(err)
		// chroma writes the states in no order.
		var sorted []string
		sorted = append(sorted, states.FindAllString(string(data), -1)...)
		slices.Sort(sorted)
		n := 0
		data = states.ReplaceAllFunc(data, func([]byte) []byte { n++; return []byte(sorted[n-1]) })
		c := regex.Config()
		g := grammar{
			Name: c.Name, Aliases: c.Aliases, Files: patterns(c),
			Priority: cmp.Or(c.Priority, 1), Path: url.PathEscape(c.Name) + ".xml",
		}
		index = append(index, g)
		add(g.Path, data)
	}
	data, err := json.Marshal(index)
	is.NoErr(err)
	add(indexPath, data)
	add(versionPath, []byte(chromaVersion(t)))
	//nolint:gosec // the directory of a module of ours
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/alecthomas/chroma/v2").Output()
	is.NoErr(err)
	licence, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "COPYING"))
	is.NoErr(err)
	add("COPYING", licence)
	is.NoErr(z.Close())
	return out.Bytes()
}

// sampleCode has a bit of what many languages have.
const sampleCode = "/* a */ \"b\\n${c}\" 'd' `e`\n# f\n<g h=\"i\">&amp;</g> {{ j | k }} (l [m]) 0x1F 3.14 := => @n $o %p \t\u00e9\U0001f600\n\n"

// Every grammar can be read, and uses only what there is.
func TestEveryGrammarReads(t *testing.T) {
	l, err := grammars()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range l.all {
		t.Run(g.Name, func(t *testing.T) {
			is := is.New(t)
			if g.Name == "JSONata" || g.Name == "Jungle" {
				return // TestGrammarsThatNeverEnd
			}
			tokens, err := g.tokens(sampleCode, time.Now().Add(time.Minute))
			is.NoErr(err)
			is.Equal(join(tokens), sampleCode)
		})
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ language, filename, want string }{
		{"go", "", "Go"},
		{"Go", "", "Go"},
		{"golang", "", "Go"},
		{"py", "", "Python"},
		{"python", "", "Python"},
		{"c++", "", "C++"},
		{"C#", "", "C#"},
		{"js", "", "JavaScript"},
		{"ts", "", "TypeScript"},
		{"tsx", "", "TypeScript"},
		{"sh", "", "Bash"},
		{"shell", "", "Bash"},
		{"yml", "", "YAML"},
		{"dockerfile", "", "Docker"},
		{"nginx", "", "Nginx configuration file"},
		{"rs", "", "Rust"},
		{".rs", "", "Rust"},
		{"md", "", "Markdown"},
		{"http", "", "HTTP"},
		{"", "main.go", "Go"},
		{"", "a/b/MAIN.GO", "Go"},
		{"", "Dockerfile", "Docker"},
		{"", "x.html", "HTML"},
		{"", "x.json", "JSON"},
		{"", "x.toml", "TOML"},
		{"", "Makefile", "Makefile"},
		{"", "x.h", "C"},
		{"", "x.ts", "TypeScript"},
		{"", "x.sql", "MySQL"},
		{"no such language", "x.css", "CSS"},
		{"", "notes.md", "Markdown"},
		{"", "x.service", "SYSTEMD"},
		{"", "x.py", "Python"},
		{"", "", ""},
		{"no such language", "", ""},
		{"", "x.nothing", ""},
		{"[", "[", ""},
		{"*", "*", ""},
	} {
		g, err := find(c.language, c.filename)
		got := ""
		if err == nil {
			got = g.Name
		}
		if got != c.want || err != nil && !errors.Is(err, errUnknown) {
			t.Errorf("%q %q: %q, not %q (%v)", c.language, c.filename, got, c.want, err)
		}
	}
}
