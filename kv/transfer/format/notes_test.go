package format

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

var vaultSample = zipped(
	"Trip.md", "---\ntitle: \"The trip\"\ntags: [travel, '2024']\ncreated: 2020-01-02 03:04:05Z\nupdated: 2020-01-03T03:04:05Z\nsource: https://example.org\nmood: glad\n---\n\n# Day one\n",
	"work/List.md", "---\ntags:\n  - a b\n  - \"#c\"\ndate: soon\n---\ntext\r\n",
	"work/deep/Head.markdown", "\ufeff# A heading #\n\nText with [a file](../../x.png).\n",
	"Plain.md", "no front matter\n---\ntags: no\n---\n",
	"Open.md", "---\ntitle: never closed\n",
	"Old.md", "Gr\xfc\xdfe aus K\xf6ln",
	"x.png", "hello", ".obsidian/app.json", "{}", ".obsidian/themes/a.css", "x",
	"work/.trash/Old.md", "x", "work/.a", "x",
)

var keepSample = zipped(
	"Takeout/Keep/List.json", `{"color":"DEFAULT","isTrashed":false,"isPinned":true,"isArchived":true,"title":"To buy","listContent":[{"textHtml":"<p>milk</p>","text":"milk","isChecked":true},{"text":"bread\nrolls","isChecked":false}],`+
		`"labels":[{"name":"Home"}],"createdTimestampUsec":1577934245000000,"userEditedTimestampUsec":1577934246000000}`,
	"Takeout/Keep/Text.json", `{"color":"RED","title":"","textContent":"hello\nworld","textContentHtml":"<p>hello</p>","attachments":[{"filePath":"a.png","mimetype":"image/png"}],`+
		`"annotations":[{"title":"Go","url":"https://go.dev","source":"WEBLINK"}],"userEditedTimestampUsec":1577934246000000}`,
	"Takeout/Keep/Gone.json", `{"title":"Gone","isTrashed":true,"textContent":"x","userEditedTimestampUsec":1577934245000000}`,
	"Takeout/Keep/Bad.json", `[]`,
	"Takeout/Keep/List.html", "<p>", "Takeout/Keep/Labels.txt", "Home", "Takeout/Keep/a.png", "hello",
)

// TestNotes: a folder of Markdown and Google Keep become notes, and nothing beside them is lost
// without a word.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format Format
		data   string
		want   []string
	}{
		{Markdown, vaultSample, []string{
			`Trip.md: note {"content":"---\ntitle: \"The trip\"\ntags: [travel, '2024']\ncreated: 2020-01-02 03:04:05Z\nupdated: 2020-01-03T03:04:05Z\nsource: https://example.org\nmood: glad\n---\n\n# Day one\n",` +
				`"sourceUrl":"https://example.org","tags":["travel","2024"],"title":"The trip"} 2020-01-02T03:04:05Z`,
			`work/List.md: note {"content":"---\ntags:\n  - a b\n  - \"#c\"\ndate: soon\n---\ntext\n","tags":["a b","c","work"],"title":"List"} 2023-11-14T22:13:20Z`,
			`work/deep/Head.markdown: note {"content":"# A heading #\n\nText with [a file](../../x.png).\n","tags":["work","deep"],"title":"A heading"} 2023-11-14T22:13:20Z`,
			`Plain.md: note {"content":"no front matter\n---\ntags: no\n---\n","title":"Plain"} 2023-11-14T22:13:20Z`,
			`Open.md: note {"content":"---\ntitle: never closed\n","title":"Open"} 2023-11-14T22:13:20Z`,
			`Old.md: note {"content":"Grüße aus Köln","title":"Old"} 2023-11-14T22:13:20Z (It does not say in which encoding it is. It was read as windows-1252: ` +
				`look whether its letters are right. If not, convert it to UTF-8.)`,
			`x.png: file {"originalName":"x.png"} 2023-11-14T22:13:20Z "hello"`,
			`file "work/.a": ` + once,
			`files: Beside the notes there are other files: 1. They stay files, and links to them in the notes are not changed.`,
			`folder ".obsidian/": ` + many(2),
			`folder "work/.trash/": ` + once,
		}},
		{Keep, keepSample, []string{
			`Takeout/Keep/List.json: note {"content":"- [x] milk\n- [ ] bread rolls","isFavorite":true,"tags":["Home","archived"],"title":"To buy"} 2020-01-02T03:04:05Z`,
			`Takeout/Keep/Text.json: note {"content":"hello\nworld\n\nGo\n\nhttps://go.dev"} 2020-01-02T03:04:06Z (It had the file a.png, which is not part of the note here.)`,
			`Takeout/Keep/Gone.json: "Gone" refused: It is in the trash of Keep.`,
			`Takeout/Keep/Bad.json: file {"originalName":"Bad.json"} 2023-11-14T22:13:20Z in Takeout/Keep "[]"`,
			`Takeout/Keep/a.png: file {"originalName":"a.png"} 2023-11-14T22:13:20Z in Takeout/Keep "hello"`,
			`file "*.html": ` + once, `file "Labels.txt": ` + once, `member "color": ` + once,
		}},
	} {
		is := is.New(t)
		found, err := Detect(source(c.data))
		is.NoErr(err)
		is.Equal(found, c.format)
		got := rowsOf(c.format, source(c.data))
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", c.format, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	is := is.New(t)
	long := rowsOf(Markdown, source(zipped("Long.md", strings.Repeat("x", record.MaxContent+1))))
	is.Equal(len(long), 1)
	is.True(strings.HasPrefix(long[0], `Long.md: file {"originalName":"Long.md"}`))
	is.True(strings.HasSuffix(long[0], `xxx" (It is longer than 1048576 bytes, so it stays a file.)`))
}

// TestCensus: a folder is one of notes if most of its files are, or a program for notes wrote it.
func TestCensus(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]Format{
		"a.md":                               Markdown,
		"a.md b/c.MD d.jpg":                  Markdown,
		"a.md b.jpg":                         Folder,
		"README.md a.jpg b.jpg":              Folder,
		"a.md .git/x .git/y .git/z":          Markdown,
		".obsidian/x a.md b.png c.png d.png": Markdown,
		"a.md _resources/b.png _resources/c": Markdown,
		".obsidian/x a.png":                  Folder,
		"Takeout/Keep/a.json":                Keep,
		"Keep/a.json Keep/b.png":             Keep,
		"a.json":                             Folder,
		"":                                   Folder,
	} {
		var c Census
		for _, name := range strings.Fields(names) {
			c.Add(name)
		}
		is.New(t).Equal(c.Format(), want)
	}
}

func FuzzMarkdown(f *testing.F) {
	fuzz(
		f, Markdown, vaultSample, zipped("a.md", "---\n- x\n[]: [\n---"), tarred(tar.Header{Name: "a/b.md"}),
		zipped(".x/y", "", "/.md", "---\ntags: [\n---\n"),
	)
}

func FuzzKeep(f *testing.F) {
	fuzz(f, Keep, keepSample, zipped("a.json", `{"listContent":[{}],"labels":[{"name":1}],"attachments":[{"filePath":"\n"}]}`), tarred(tar.Header{Name: "a.json"}))
}
