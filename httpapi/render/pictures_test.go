package render

import (
	"html/template"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// Only a picture with the id of a file leaves a mark, and no text can make one.
func TestPlace(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for src, want := range map[string]string{
		"![a <b> & c](kist:" + id + ")":                                   `[a  & c]`,
		"![](kist:" + strings.ToUpper(id) + ")":                           `[]`,
		"a ![b](kist:" + id + " \"c\") d ![e](kist:" + id + ")":           `a [b] d [e]`,
		"[![a](kist:" + id + ")](https://example.org)":                    "",
		"[a](kist:" + id + ")":                                            "",
		"![a](kist:" + id + "0)":                                          "",
		"![a](kist:x)":                                                    "",
		"`![a](kist:" + id + ")`":                                         "",
		`<span class="file" data-file="` + id + `">a</span>`:              "",
		"```html\n<span class=\"file\" data-file=\"" + id + "\">a</span>": "",
		"![<span class=\"file\" data-file=\"x\">](kist:" + id + ")":       `[]`,
	} {
		is := is.New(t)
		page, err := Markdown([]byte(src))
		is.NoErr(err)
		is.Equal(check(string(page)), "")
		n := 0
		got := Place(page, func(found record.ID, words string) template.HTML {
			n++
			is.Equal(found.String(), id)
			return template.HTML("[" + words + "]")
		})
		is.Equal(n, strings.Count(want, "[")) // src
		if want != "" {
			if !strings.Contains(string(got), want) {
				t.Errorf("%q: %q", src, got)
			}
		}
	}
}

// A text shows a file in the first record.MaxShown places, however often it names it.
func TestPlaceIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	page, err := Markdown([]byte(strings.Repeat("![a](kist:01890a5d-ac96-774b-bcce-b302099a8057)\n", 3*record.MaxShown)))
	is.NoErr(err)
	n := 0
	got := Place(page, func(record.ID, string) template.HTML {
		n++
		return "[shown]"
	})
	is.Equal(n, record.MaxShown)
	is.Equal(strings.Count(string(got), "[shown]"), record.MaxShown)
	is.True(!strings.Contains(string(got), "data-file"))
}
