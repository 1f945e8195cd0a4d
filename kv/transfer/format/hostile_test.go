package format

import (
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// Entries that are made to take much memory take little more than their bytes. Other tests do
// not run at the same time.
func TestMemoryOfHostileEntries(t *testing.T) {
	const most = 192 << 20 // with what is garbage at once
	fill := func(one string, size int) string { return strings.Repeat(one, (size-1<<10)/len(one)) }
	many := func(one string) string { return fill(one, MaxEntry) }
	line := func(one string) string { return fill(one, maxLine) }
	page := func(attribute string) string {
		return "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><DT><A HREF=\"https://example.org\" " + attribute + ">x</A>\n</DL>\n"
	}
	for _, row := range []struct {
		name   string
		format Format
		text   string
	}{
		{"tags of a page", Netscape, page(`TAGS="` + many("a,") + `"`)},
		{"one long tag of a page", Netscape, page(`TAGS="` + many("a") + `"`)},
		{"attributes of a page", Netscape, page(many("a "))},
		{"columns", CSV, "url,title" + line(",") + "\nhttps://example.org\n"},
		{"named columns", CSV, "url,title" + line(",a") + "\nhttps://example.org\n"},
		{"cells", CSV, "url,title\nhttps://example.org" + line(",") + "\n"},
		{"cells after a stray quote", CSV, "url,title\nhttps://example.org,a\"" + line(",") + "\n"},
		{"tags of a line", CSV, "url,tags\nhttps://example.org,\"" + line("a,") + "\"\n"},
		{"tags of a line in JSON", CSV, "url,tags\nhttps://example.org,\"[" + line(`"""",`) + "\"\"\"\"]\"\n"},
		{"folders of a line", CSV, "url,folder\nhttps://example.org," + line("a / ") + "\n"},
		{"long title", CSV, "url,title\nhttps://example.org," + line("a") + "\n"},
		{"a long line", CSV, "url,title\nhttps://example.org," + many(",") + "\n"},
		{"tags of an entry", Wallabag, `[{"url":"https://example.org","title":"x","tags":[` + many(`"",`) + `""]}]`},
		{"lists of an entry", Wallabag, `[{"url":"https://example.org","title":"x","other":[` + many(`[],`) + `[]]}]`},
		{"members of an entry", Wallabag, `[{"url":"https://example.org","title":"x"` + many(`,"a":{}`) + `}]`},
		{"parts of a recipe", Mealie, `{"name":"x","recipeIngredient":[` + many(`"a",`) + `""]}`},
		{"words of an ingredient", Mealie, `{"name":"x","recipeIngredient":["` + many("a ") + `"]}`},
		{"words of a title", Mealie, `{"name":"` + many("a ") + `","recipeIngredient":["a"]}`},
		{"steps of a recipe", Paprika, `{"name":"x","directions":"` + many(`a\n`) + `"}`},
		{"empty steps of a recipe", Paprika, `{"name":"x","directions":"` + many(`\n`) + `"}`},
		{"shelves of a game", Grouvee, "name,shelves\nx,\"{" + line(`""a"":{},`) + "\"\"b\"\":1}\"\n"},
		{"entries", Wallabag, "[" + many("[],") + "[]]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			rows, refused := 0, error(nil)
			for r, err := range Read(row.format, Source{R: strings.NewReader(row.text), Size: int64(len(row.text))}) {
				if err != nil {
					refused = err
					break
				}
				if !r.Whole {
					rows++
				}
			}
			runtime.ReadMemStats(&after)
			t.Logf("%d MiB, %d records, %v", (after.TotalAlloc-before.TotalAlloc)>>20, rows, refused)
			is.True(after.TotalAlloc-before.TotalAlloc < most)
			is.True(rows == 1 || refused != nil)
		})
	}
}
