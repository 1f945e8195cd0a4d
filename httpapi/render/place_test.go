package render

import (
	"fmt"
	"html/template"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kist/kv/record"
)

// Those who move texts and those who show them find the same addresses, but for one in a hundred of texts that mix
// lists, quotes and code at random.
func TestPlacesAgree(t *testing.T) {
	t.Parallel()
	const texts = 5000
	differ := 0
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[rnd.IntN(len(all))] }
	for range texts {
		var text strings.Builder
		for n := range 1 + rnd.IntN(6) {
			text.WriteString(pick("", "", "", "", "  ", "    ", "      ", "- ", "- ", "1. ", "> ", "> - ", "\t", "  - ", "> > "))
			id := fmt.Sprintf("kist:01890a5d-ac96-774b-bcce-%012d", n)
			text.WriteString(strings.ReplaceAll(pick(
				"", "", "", "```", "```", "~~~", "````", "x", "![a](K)", "![a](K)", "![a](K)", "![a](K \"t\") x",
				"`x", "`![a](K)`", "``![a](K)`", "# ![a](K)", "![x `](K)",
				"**![a](<K>)**", "x ![a [b] c]( K )", "---", "``` go", "` x ![b](K)",
			), "K", id))
			text.WriteString("\n")
		}
		source := text.String()
		page, err := Markdown([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		var shown, placed []string
		Place(page, func(id record.ID, _ string) (none template.HTML) {
			shown = append(shown, id.String())
			return none
		})
		record.PlaceShown(&record.Note{Content: source}, func(id record.ID) record.Placed {
			placed = append(placed, id.String())
			return record.Placed{}
		})
		slices.Sort(shown)
		slices.Sort(placed)
		if !slices.Equal(shown, placed) {
			differ++
			t.Logf("%q shows %v, placed %v", source, shown, placed)
		}
	}
	if differ > texts/100 {
		t.Errorf("%d of %d differ", differ, texts)
	}
}
