package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// Footnotes are at the end of the page. No text is lost, and no link leads nowhere.
func TestFootnotes(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		text string
	}{
		"one word":       {"A claim.[^1]\n\n[^1]: Hearsay", "A claim.1\n\n\nHearsay\u00a0↩︎\n\n"},
		"an address":     {"a[^src]\n\n[^src]: https://x.example/", "a1\n\n\nhttps://x.example/\u00a0↩︎\n\n"},
		"a file":         {"a[^src]\n\n[^src]: notes.txt", "a1\n\n\nnotes.txt\u00a0↩︎\n\n"},
		"in their order": {"a[^b] b[^a]\n\n[^a]: A\n[^b]: B", "a1 b2\n\n\nB\u00a0↩︎\n\n\nA\u00a0↩︎\n\n"},
		"twice":          {"a[^1] b[^1]\n\n[^1]: A", "a1 b1\n\n\nA\u00a0↩︎\u00a0↩︎\n\n"},
		"paragraphs":     {"a[^1]\n\n[^1]: A\n\n    B", "a1\n\n\nA\nB\u00a0↩︎\n\n"},
		"unused":         {"a\n\n[^1]: A", "a\n\n\nA\n\n"},
		"unused, empty":  {"a\n\n[^1]:", "a\n\n\n\n"},
		"the same name":  {"a[^1]\n\n[^1]: A\n[^1]: B", "a1\n\n\nA\u00a0↩︎\n\n\nB\n\n"},
		"unknown":        {"a[^1]", "a[^1]\n"},
		"of each other":  {"a[^1]\n\n[^1]: A[^2]\n[^2]: B", "a1\n\n\nA2\u00a0↩︎\n\n\nB\u00a0↩︎\n\n"},
		"in a quote":     {"> a[^1]\n>\n> [^1]: A", "\na1\n\n\n\nA\u00a0↩︎\n\n"},
		"a real link":    {"[a] [^1]\n\n[a]: /b\n[^1]: A", "a 1\n\n\nA\u00a0↩︎\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			out, err := Markdown([]byte(c.in))
			is.NoErr(err)
			is.Equal(check(string(out)), "")
			got := strings.NewReplacer("\n\n\n\n", "\n\n\n").Replace(textOf(string(out)))
			is.Equal(strings.Fields(got), strings.Fields(c.text))
			for _, found := range href.FindAllStringSubmatch(string(out), -1) {
				if id, ok := strings.CutPrefix(found[1], "#"); ok {
					is.True(strings.Contains(string(out), `id="`+id+`"`))
				} else {
					is.True(strings.HasPrefix(id, "https://") || id == "/b")
				}
			}
		})
	}
}

func TestFootnotesWithoutEnd(t *testing.T) {
	is := is.New(t)
	var b strings.Builder
	for i := range maxFootnotes + 1 {
		fmt.Fprintf(&b, "[^%d]: word\n", i)
	}
	out, err := Markdown([]byte(b.String()))
	is.NoErr(err)
	is.True(strings.HasPrefix(string(out), `<pre class="plain"`)) // and no word is missing
}
