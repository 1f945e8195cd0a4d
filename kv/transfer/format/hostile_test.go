package format

import (
	"bytes"
	"encoding/csv"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"
)

// Entries that are made to take much memory take little more than their bytes. Other tests do
// not run at the same time.
func TestMemoryOfHostileEntries(t *testing.T) {
	const most = 256 << 20 // with what is garbage at once
	many := func(one string) string { return strings.Repeat(one, (MaxEntry-1<<10)/len(one)) }
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
		{"columns", CSV, "url,title" + many(",") + "\nhttps://example.org\n"},
		{"named columns", CSV, "url,title" + many(",a") + "\nhttps://example.org\n"},
		{"cells", CSV, "url,title\nhttps://example.org" + many(",") + "\n"},
		{"cells after a stray quote", CSV, "url,title\nhttps://example.org,a\"" + many(",") + "\n"},
		{"tags of a line", CSV, "url,tags\nhttps://example.org,\"" + many("a,") + "\"\n"},
		{"tags of a line in JSON", CSV, "url,tags\nhttps://example.org,\"[" + many(`"""",`) + "\"\"\"\"]\"\n"},
		{"folders of a line", CSV, "url,folder\nhttps://example.org," + many("a / ") + "\n"},
		{"long title", CSV, "url,title\nhttps://example.org," + many("a") + "\n"},
		{"tags of an entry", Wallabag, `[{"url":"https://example.org","title":"x","tags":[` + many(`"",`) + `""]}]`},
		{"lists of an entry", Wallabag, `[{"url":"https://example.org","title":"x","other":[` + many(`[],`) + `[]]}]`},
		{"members of an entry", Wallabag, `[{"url":"https://example.org","title":"x"` + many(`,"a":{}`) + `}]`},
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

// cellGauge counts the cells of lines as encoding/csv finds them.
func TestCellGauge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	few := 0
	for range 60_000 {
		text := make([]byte, random.IntN(24))
		for i := range text {
			text[i] = `a",;`[random.IntN(4)]
			if random.IntN(5) == 0 {
				text[i] = "\r\n"[random.IntN(2)]
			}
		}
		in := csv.NewReader(bytes.NewReader(text))
		in.FieldsPerRecord, in.LazyQuotes = -1, true
		most := 0
		for cells, err := in.Read(); err == nil; cells, err = in.Read() {
			most = max(most, len(cells))
		}
		if most == 0 {
			continue
		}
		for _, limit := range []int{most - 1, most} {
			_, err := io.ReadAll(&cellGauge{r: iotest.OneByteReader(bytes.NewReader(text)), comma: ',', most: limit})
			if (err == nil) != (limit == most) {
				t.Fatalf("%q has %d cells; with a limit of %d: %v", text, most, limit, err)
			}
		}
		few++
	}
	is.New(t).True(few > 30_000)
}
