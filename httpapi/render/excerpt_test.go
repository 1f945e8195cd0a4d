package render

import (
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestExcerpt(t *testing.T) {
	t.Parallel()
	line := func(text string) Line { return Line{Text: text} }
	for about, of := range map[string]struct {
		src  string
		want []Line
	}{
		"nothing":    {"", nil},
		"paragraphs": {"One\ntwo\n\nThree", []Line{line("One two"), line("Three")}},
		"marks":      {"# A **b** _c_ `d`\n> [e](https://f.example) ![g](h.png)", []Line{line("A b c d"), line("e g")}},
		"tasks": {"- [ ] Milk\n- [x] Eggs\n- Bread", []Line{
			{Text: "Milk", Task: true}, {Text: "Eggs", Task: true, Done: true}, line("Bread"),
		}},
		"front matter":    {"---\ntitle: T\n---\nText", []Line{line("Text")}},
		"code":            {"```go\nfunc a() {\n}\n```", []Line{line("func a() {")}},
		"HTML":            {"<div>no</div>\n\nYes <b>bold</b>", []Line{line("Yes bold")}},
		"table":           {"|a|b|\n|-|-|\n|c|d|", []Line{line("a"), line("b"), line("c"), line("d")}},
		"an address":      {"See https://kist.example", []Line{line("See https://kist.example")}},
		"many lines":      {strings.Repeat("a\n\n", 50), []Line{line("a"), line("a"), line("a"), line("a"), line("a"), line("a")}},
		"one long line":   {strings.Repeat("é", 5000), []Line{line(strings.Repeat("é", excerptLine))}},
		"an entity":       {"Fish &amp; chips", []Line{line("Fish & chips")}},
		"an escaped mark": {`\*no\*`, []Line{line("*no*")}},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			is.New(t).Equal(Excerpt(of.src, 6), of.want)
		})
	}
}
