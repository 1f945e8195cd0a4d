package render

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/matryer/is"
)

// repeat is most of n bytes of text.
func repeat(text string, n int) string { return strings.Repeat(text, n/len(text)) }

// Texts that make the parsers slow, nest deep or give long output.
func worst(n int) map[string]string {
	var stairs, ticks, refs, notes strings.Builder
	for i := 0; stairs.Len() < n-4096; i++ {
		stairs.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	for i := 1; ticks.Len() < n-4096; i++ {
		ticks.WriteString(strings.Repeat("`", i) + "a")
	}
	for i := 0; refs.Len() < n; i++ {
		fmt.Fprintf(&refs, "[a%d]: /u\n", i)
	}
	for i := range maxFootnotes {
		fmt.Fprintf(&notes, "[^%d]: a\n", maxFootnotes-i)
	}
	for i := 0; notes.Len() < n; i++ {
		fmt.Fprintf(&notes, "[^%d] ", i%maxFootnotes)
	}
	all := map[string]string{
		"stairs": stairs.String(), "ticks": ticks.String(), "references": refs.String(),
		"quote lines": repeat(strings.Repeat("> ", 300)+"a\n", n),
		"table":       repeat("|a", n/2) + "\n" + repeat("|-", n/2) + "\n",
		"wide table":  "|" + strings.Repeat("a|", 1000) + "\n|" + strings.Repeat("-|", 1000) + "\n" + repeat("|\n", n),
		"rows":        "|a|b|\n|-|-|\n" + repeat("|a|b|\n", n),
		"space":       repeat(" ", n) + "a", "mail": repeat("a", n) + "@", "open": "[a](" + repeat("(", n),
		"one footnote":     "[^1]: a\n\n" + repeat("[^1]", n),
		"footnotes":        notes.String(),
		"images in a link": "[" + repeat("![a](b)", n) + "](c)",
		"code":             repeat("```json\n[1,2]\n```\n", n),
		"ref bomb":         "[a]: /" + strings.Repeat("u", n/2) + "\n\n" + repeat("[a] ", n/2),
	}
	for _, part := range []string{
		">", "- ", "[", "![", "[a](", "]", "*a **b ", "*a_ ", "*", "_a*b ", "<", "<a ", "<!--", "<?", "<![CDATA[", "www.a.b ", "http://", "a@b.c ", "a.",
		"~a~~", "# a\n", "&amp", "\\[", "\t>", "[[]", "[a][", "1) ", "a\n", "a\n-\n", "```\n", "<a b='", "[a](b 'c ", "<b>", "[a]:\n", "> - ", "- a\nb\n", "-\n",
		"\n", "*a* ", "[a](b) ", "~~~\n", "- [ ] a\n", "a|b\n", ":-:|", "\u202e", "&#0;", "\xff",
		"http://", "http://a/)", "http://a ", "://", "http://a&", "https://é", "[^1]", "[^1]: a\n", "[^1]: ", "> [!a]\n", "**、", "、**a**", "<!--", "---\na: b\n", "www.a.b/é",
	} {
		all[part] = repeat(part, n)
	}
	return all
}

// A shorter time than pages have, so that the tests do not take long; and what
// it may take in the end.
const (
	limit = 40 * time.Millisecond
	most  = 3 * time.Second
)

// ends fails the test if work with a deadline takes longer than most each time:
// once may be the fault of a machine that does other things too.
func ends(t *testing.T, work func(deadline time.Time)) {
	t.Helper()
	for range 4 {
		start := time.Now()
		work(start.Add(limit))
		took := time.Since(start)
		if took < most {
			return
		}
		t.Log("took", took)
	}
	t.Error("does not end in time")
}

func TestMarkdownIsBounded(t *testing.T) {
	for name, text := range worst(maxMarkdown - 4096) {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var out []byte
			var err error
			ends(t, func(deadline time.Time) { out, err = markdown(converter(), []byte(text), 0, deadline) })
			runtime.ReadMemStats(&after)
			t.Log(len(out)>>10, "KiB", (after.TotalAlloc-before.TotalAlloc)>>20, "MiB", err)
			is.True(err == nil || errors.Is(err, errGivenUp))
			is.Equal(check(string(out)), "")
			is.True(len(out) < 32*maxMarkdown)
		})
	}
}

// Two of chroma's grammars go round in circles on this text, which no limit on
// one regular expression sees.
func TestGrammarsThatNeverEnd(t *testing.T) {
	for _, name := range []string{"JSONata", "Jungle"} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			var tokens []chroma.Token
			var language string
			var err error
			ends(t, func(deadline time.Time) { tokens, language, err = highlight(sampleCode, name, "", deadline) })
			is.NoErr(err)
			is.Equal(language, "")
			is.Equal(join(tokens), sampleCode)
		})
	}
}

func TestCodeIsBounded(t *testing.T) {
	parts := []string{
		"(", "((a", "{", "\"", "'", "`", "/*", "<", "<a ", "<!--", "\\", "a", "a ", "\n", "$(", "${", "{{", "0", "0x", "# ",
		"a.", "->", "é", "\t", "<<A\n", "if (", "[[", "@a",
	}
	languages := []string{
		"go", "python", "js", "ts", "bash", "html", "php", "c++", "java", "yaml", "json", "sql", "ruby", "perl", "rust",
		"markdown", "css", "docker", "make", "latex",
	}
	// Every language, every part, but not each of one with each of the others.
	for i, part := range parts {
		for j := range 3 {
			language := languages[(i*3+j)%len(languages)]
			t.Run(fmt.Sprintf("%s %q", language, part), func(t *testing.T) {
				is := is.New(t)
				text := repeat(part, maxCode)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				var tokens []chroma.Token
				var name string
				var err error
				ends(t, func(deadline time.Time) { tokens, name, err = highlight(text, language, "", deadline) })
				runtime.ReadMemStats(&after)
				is.NoErr(err)
				t.Log(name, (after.TotalAlloc-before.TotalAlloc)>>20, "MiB")
				is.Equal(join(tokens), text)
			})
		}
	}
}

func join(tokens []chroma.Token) string {
	var all strings.Builder
	for _, t := range tokens {
		all.WriteString(t.Value)
	}
	return all.String()
}

// What cannot get its turn in time is shown all the same.
func TestCodeDoesNotWaitForLong(t *testing.T) {
	is := is.New(t)
	is.NoErr(turn.Take(t.Context()))
	defer turn.Give()
	code, err := Code("package a\n", "go", "")
	is.NoErr(err)
	is.Equal(code.Language, "")
	is.Equal(textOf(string(code.HTML)), "package a\n")
}
