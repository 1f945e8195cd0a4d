package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

const (
	shownA = "kist:01890a5d-ac96-774b-bcce-b302099a8057"
	shownB = "kist:01890a5d-ac96-774b-bcce-b302099a8058"
)

// In these texts, A stands for an address that is replaced, and B for one that stays.
var placedTexts = []string{
	"![a](A)", "![](A) and ![b](A)", "![a]( <A> )", "![a](A \"title (x)\")", "![a\nb](A)", "[![a](A)](https://x.org)",
	"![a [b] c](A)", "![a \\] c](A)", "> ![a](A)", "- ![a](A)", "1. x\n\n   ![a](A)", "- x\n\n    ![a](A)", "# ![a](A)",
	"| ![a](A) |\n|---|", "text\n    ![a](A)", "![x]\n\n[x]: A\n", "![x]\n\n[x]: <A> \"t\"\n", "\u00fc![a](A)",
	"`![a](B)`", "`` ` ![a](B) ``", "`x\n![a](B)`", "```\n![a](B)\n```\n![a](A)",
	"~~~ md\n![a](B)\n```\n![a](B)\n~~~~\n![a](A)",
	"    ![a](B)", "\t![a](B)", "x\n\n    ![a](B)\n\n    ![a](B)\n![a](A)", "> ```\n> ![a](B)\n> ```",
	"> ```\n> ![a](B)\n\n![a](A)",
	"- ```\n  ![a](B)\n  ```\n  ![a](A)", "- x\n\n      ![a](B)", "- ```\n  ![a](B)\n![a](A)", "```\n![a](B)",
	"- x\n```\n![a](B)\n```",
	"`![a](A)", "``![a](A)`", "\\`![a](A)`", "![a](B", "B", "![a]B", "[x] B", "![a](B x)", "![a](<B)",
	"!\\[a](B)", "x [x]: B",
	"![a](Bz)", "- a\n  - b\n\n  c\n\n    ![a](A)", "* x\n\n  ```\n  ![a](B)\n  ```\n\n  ![a](A)\n", "``` `x`\n![a](A)",
}

func TestPlaceShown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, text := range placedTexts {
		with := func(a string) string { return strings.NewReplacer("A", a, "B", shownB).Replace(text) }
		place := func(whole bool) string {
			b := record.PlaceShown(&record.Note{Content: with(shownA)}, func(id record.ID) record.Placed {
				is.Equal(id, uuid.MustParse(shownA[5:]))
				return record.Placed{Text: "c%20d.png", Whole: whole}
			})
			return b.(*record.Note).Content
		}
		if got := place(false); got != with("c%20d.png") {
			t.Errorf("%q became %q", text, got)
		}
		if got := place(true); strings.Contains(got, shownA) || !strings.Contains(text, "A") && got != with("") {
			t.Errorf("%q without its pictures became %q", text, got)
		}
	}
	whole := func(text string) string {
		b := record.PlaceShown(&record.Note{Content: strings.ReplaceAll(text, "A", shownA)}, func(record.ID) record.Placed {
			return record.Placed{Text: "*gone*", Whole: true}
		})
		return b.(*record.Note).Content
	}
	is.Equal(whole("x ![a](A \"t\") [b](A) y"), "x *gone* *gone* y")
	is.Equal(whole("![x][y]\n\n[y]: A\n"), "![x][y]\n\n[y]: <>\n")
	is.Equal(whole("[![a](A)](https://x.org)"), "[*gone*](https://x.org)")
}

func TestRenameShown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	one, two := uuid.New(), uuid.New()
	other := func(id record.ID) record.ID {
		if id == one {
			return two
		}
		return id
	}
	of := func(id record.ID) []record.Body {
		text := fmt.Sprintf("![](kist:%s)", id)
		return []record.Body{
			&record.Note{Content: text}, &record.Game{Cover: id},
			&record.Recipe{Description: text, Ingredients: text, Instructions: text, Photo: id},
		}
	}
	for i, b := range of(one) {
		is.Equal(record.RenameShown(b, other), of(two)[i])
		is.Equal(b, of(one)[i]) // it was not changed
	}
	gone := &record.Note{Content: "![](kist:" + strings.ToUpper(shownA[5:]) + ")"}
	is.True(record.RenameShown(gone, other) == record.Body(gone)) // its letters too
	same := &record.Note{Content: "no pictures"}
	is.True(record.RenameShown(same, other) == record.Body(same))
}

// The worst texts take no longer than others: with time that grows as the square of their length, each would take
// minutes.
func TestPlaceShownHostile(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		"[", "![](" + shownA, "![](" + shownA + " \"", "`", "` ``", "[](", "]( ", "> ", "- ", "```\n", "\\", "- - ",
		"![](" + shownA + ")",
	} {
		text := shownA + strings.Repeat(part, record.MaxContent/len(part))
		record.PlaceShown(&record.Note{Content: text}, func(record.ID) record.Placed { return record.Placed{} })
	}
}
