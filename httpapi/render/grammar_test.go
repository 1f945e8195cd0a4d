package render

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// sampleCode has a bit of what many languages have.
const sampleCode = "/* a */ \"b\\n${c}\" 'd' `e`\n# f\n<g h=\"i\">&amp;</g> {{ j | k }} (l [m]) 0x1F 3.14 := => @n " +
	"$o %p \t\u00e9\U0001f600\n\n"

// Every grammar can be read, and uses only what there is.
func TestEveryGrammarReads(t *testing.T) {
	needs.Time(t)
	all := grammars().all
	if len(all) < 280 {
		t.Fatal(len(all), "grammars")
	}
	// A rule of these is a Go function; they are shown without colours.
	plain := []string{"Go", "Haxe", "Raku", "reStructuredText"}
	for _, g := range all {
		t.Run(g.Name, func(t *testing.T) {
			is := is.New(t)
			if g.lexer != nil && slices.Contains(plain, g.Name) {
				_, err := g.tokens(sampleCode, time.Now().Add(time.Minute))
				is.True(errors.Is(err, errGivenUp))
				return
			}
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
