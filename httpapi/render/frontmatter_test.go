package render

import (
	"strings"
	"testing"

	"github.com/matryer/is"
)

// YAML at the beginning is a table; what only looks like it stays what it is.
func TestFrontMatter(t *testing.T) {
	table := func(rows ...string) string {
		var b strings.Builder
		b.WriteString("<table class=\"front\">\n<tbody>\n")
		for i := 0; i < len(rows); i += 2 {
			b.WriteString(`<tr><th scope="row">` + rows[i] + "</th><td>" + rows[i+1] + "</td></tr>\n")
		}
		return b.String() + "</tbody>\n</table>\n"
	}
	for in, want := range map[string]string{
		"---\ntitle: The trip\ntags: [a, b]\n---\n\nx":   table("title", "The trip", "tags", "[a, b]") + "<p>x</p>\n",
		"---\r\ntitle: \"a: b\"\r\n---\r\nc":             table("title", "a: b") + "<p>c</p>\n",
		"\ufeff---\ntitle: 'a'\n...\nb":                  table("title", "a") + "<p>b</p>\n",
		"---\ntags:\n  - a\n  - b\nx: 1\n---\n":          table("tags", "a<br>b", "x", "1"),
		"---\ntags:\n- a\n- \"b\"\n---\n":                table("tags", "a<br>b"),
		"---\ntext: |\n  a\n  b\n---\n":                  table("text", "a<br>b"),
		"---\n# a comment\nempty:\n\n\"key\": v\n---\nb": table("empty", "", "key", "v") + "<p>b</p>\n",
		"---\na: <b>\n---\n":                             table("a", "&lt;b&gt;"),
		"---\nÜber mich: ja\n--- \n":                     table("Über mich", "ja"),
		"---\ndate: 2026-03-26\n---":                     table("date", "2026-03-26"),
		"---\nJust a heading\n---\n":                     "<hr>\n<h2 id=\"h-just-a-heading\">Just a heading</h2>\n",
		"---\n---\na":                                    "<hr>\n<hr>\n<p>a</p>\n",
		"---\na: b\n\nno end":                            "<hr>\n<p>a: b</p>\n<p>no end</p>\n",
		"a\n\n---\nb: c\n---":                            "<p>a</p>\n<hr>\n<h2 id=\"h-b-c\">b: c</h2>\n",
		"---\nhttp://[a\n---\n":                          "<hr>\n<h2 id=\"h-httpa\">http://[a</h2>\n",
		"---":                                            "<hr>\n",
	} {
		t.Run(in, func(t *testing.T) {
			is := is.New(t)
			out, err := Markdown([]byte(in))
			is.NoErr(err)
			is.Equal(string(out), want)
			is.Equal(check(string(out)), "")
		})
	}
}
