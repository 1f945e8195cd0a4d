package public

import (
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/embed"
	"kist/kv/record"
)

func TestWords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for media, want := range map[string]string{
		"video/mpeg": "MPEG video", "audio/wave": "WAV audio", "video/x-ms-wmv": "WMV video", "image/heic": "HEIC picture",
		"image/jpeg": "JPEG picture", "image/svg+xml": "SVG picture", "audio/mpeg": "MP3 audio", "application/pdf": "PDF document",
		"image/vnd.adobe.photoshop": "Picture", "video/x-matroska": "Matroska video", "text/x-c": "Text file", "application/zip": "ZIP file", "": "ZIP file",
	} {
		is.Equal(mediaName(embed.English, media, "a.zip"), want)
	}
	is.Equal(mediaName(embed.English, "", "a"), "File")
	is.Equal(mediaName(embed.English, "", `a."><`), "File")
	is.Equal(playtime(0), "0 min")
	is.Equal(playtime(65), "1 h 5 min")
	is.Equal(playtime(120), "2 h")
}

// A title that comes from a note's text is the text of a heading. One that somebody typed is kept.
func TestTitleOf(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(titleOf(&record.Note{Content: "\n## Groceries\n- milk"}), "Groceries")
	is.Equal(titleOf(&record.Note{Content: "###"}), "###")
	is.Equal(titleOf(&record.Note{Content: "#1 priority"}), "#1 priority")
	is.Equal(titleOf(&record.Note{Name: "# 1", Content: "x"}), "# 1")
	is.Equal(titleOf(&record.Snippet{Content: "# a script"}), "# a script")
}

func TestTables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		tabs bool
		want [][]string
		more bool
	}{
		"commas":     {text: "a,b\n1,\"two, three\"\n", want: [][]string{{"a", "b"}, {"1", "two, three"}}},
		"semicolons": {text: "a;b\n1,5;2\n", want: [][]string{{"a", "b"}, {"1,5", "2"}}},
		"tabs":       {text: "a\tb\n1\t2\n", tabs: true, want: [][]string{{"a", "b"}, {"1", "2"}}},
		"a mark":     {text: "\ufeffa,b\n", want: [][]string{{"a", "b"}}},
		"uneven":     {text: "a,b\n1\n1,2,3\n", want: [][]string{{"a", "b"}, {"1"}, {"1", "2", "3"}}},
		"quotes":     {text: "a\"b,c\n", want: [][]string{{"a\"b", "c"}}},
		"wide": {
			text: strings.Repeat("x,", maxColumns) + "x\n", want: [][]string{slices.Repeat([]string{"x"}, maxColumns)},
			more: true,
		},
		"long": {text: strings.Repeat("x\n", maxRows+1), want: slices.Repeat([][]string{{"x"}}, maxRows), more: true},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			rows, more, ok := tableOf(c.text, c.tabs)
			is.True(ok)
			is.Equal(rows, c.want)
			is.Equal(more, c.more)
		})
	}
	_, _, ok := tableOf("", false)
	is.New(t).True(!ok)
}

// The card of a note without a title does not say its first line twice, however long that is.
func TestExcerptOf(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	long := strings.TrimSpace(strings.Repeat("word ", 60))
	for content, title := range map[string]string{long + "\n\nThen rain.": long, "Boats\n\nThen rain.": "Boats"} {
		is.Equal(excerptOf(content, title), []embed.Line{{Text: "Then rain."}})
	}
	is.Equal(excerptOf("Boats\n\nThen rain.", "Boats in May"), []embed.Line{{Text: "Boats"}, {Text: "Then rain."}})
}
