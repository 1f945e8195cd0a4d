package format

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/kv/field"
	"kist/kv/record"
)

func source(data string) Source { return Source{R: strings.NewReader(data), Size: int64(len(data))} }

// told is a row as text.
func told(r Row) string {
	if r.Refused != "" {
		return fmt.Sprintf("%s: %q refused: %s", r.At, r.Name, r.Refused)
	}
	if r.Label != nil {
		return fmt.Sprintf("%s: label %+v", r.At, *r.Label)
	}
	if r.Whole {
		return fmt.Sprintf("%s: %s", r.At, strings.Join(r.Notes, " "))
	}
	fields, _ := json.Marshal(r.Fields)
	out := fmt.Sprintf("%s: %s %s", r.At, r.Kind.Name, fields)
	if !r.Past.Created.IsZero() {
		out += " " + r.Past.Created.Format(time.RFC3339)
	}
	if r.Past.Views > 0 {
		out += fmt.Sprintf(" %d views", r.Past.Views)
	}
	if r.Folder != "" {
		out += " in " + r.Folder
	}
	if r.Open != nil {
		b := ""
		if f, err := r.Open(); err == nil {
			all, _ := io.ReadAll(io.LimitReader(f, 1<<20))
			b = string(all)
			_ = f.Close()
		}
		out += fmt.Sprintf(" %q", b)
	}
	for _, n := range r.Notes {
		out += " (" + n + ")"
	}
	return out
}

func rowsOf(f Format, s Source) []string {
	var out []string
	for row, err := range Read(f, s) {
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		out = append(out, told(row))
	}
	return out
}

const netscapeSample = "\ufeff<!DOCTYPE NETSCAPE-Bookmark-file-1>\n" + `<!-- This is an automatically generated file. -->
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks</H1>
<DL><p>
    <DT><H3 ADD_DATE="1" PERSONAL_TOOLBAR_FOLDER="true">Bookmarks bar</H3>
    <DL><p>
        <DT><A HREF="https://go.dev/" ADD_DATE="1700000000" LAST_MODIFIED="1700000100" ICON="data:image/png;base64,AAAA">The Go &amp; language</A>
        <DT><H3>Work, home</H3>
        <DL><p>
            <DT><H3>Deep</H3>
            <DL><p>
                <DT><A HREF="https://example.org/a?b=1&amp;c=2" TAGS="one,two,One" TOREAD="1" PRIVATE="0">A</A>
                <DD>First line<br>second &lt;b&gt;[linkding-notes]A note[/linkding-notes]
            </DL><p>
            <DT><A HREF="javascript:alert(1)">Evil</A>
        </DL><p>
        <DT><A HREF="https://example.org/archived" PRIVATE="1" TAGS="linkding:archived" ADD_DATE="1700000000000">
        </A>
    </DL><p>
    <HR>
    <DT><A>No address</A>
</DL>
`

const linkdingSample = `{"count":2,"next":"https://x/?offset=100","previous":null,"results":[
 {"id":1,"url":"https://example.com","title":"","description":"About","notes":"More","website_title":"Its title","is_archived":true,"unread":true,"shared":false,"tag_names":["tag1","tag 2"],"date_added":"2020-09-26T09:46:23.006313Z","date_modified":"2020-09-26T16:01:14.275335Z"},
 {"id":2,"url":"https://example.org","title":"T","title":"twice"},
 7
]}`

const karakeepSample = `{"bookmarks":[
 {"createdAt":1700000000,"title":"A link","tags":["x"],"lists":["l1"],"content":{"type":"link","url":"https://example.org","imageUrl":"asset-id"},"note":"my note","archived":true,"favourited":true},
 {"createdAt":1700000001,"title":null,"tags":[],"content":{"type":"text","text":"some *text*"},"note":null},
 {"createdAt":1700000002,"title":"A picture","tags":[],"content":{"type":"asset","assetId":"a"},"note":null},
 {"createdAt":1700000003,"title":"Old","tags":[],"content":null,"note":null}
],"lists":[{"id":"l1","name":"Reading","description":null,"icon":"📚","type":"manual","query":null,"parentId":null}]}`

const pocketSample = "title,url,time_added,tags,status\n" +
	"\"Hello, \"\"world\"\"\",https://example.com/a,1700000000,a|b c,unread\n" +
	"https://example.com/b,https://example.com/b,1700000001,,archive\n" +
	"short\n"

const shlinkSample = `"createdAt","title","shortUrl","domain","shortCode","longUrl","tags","visits"` + "\n" +
	`"2023-01-02T03:04:05+01:00","A title","https://s.test/abc","s.test","abc","https://example.org/long","a|b","12"` + "\n" +
	`"","","https://s.test/def","","","https://example.org/other","","0"` + "\n"

func zipped(entries ...string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		w, _ := z.CreateHeader(&zip.FileHeader{Name: entries[i], Modified: time.Unix(1700000000, 0)})
		_, _ = io.WriteString(w, entries[i+1])
	}
	_ = z.Close()
	return b.String()
}

func tarred(headers ...tar.Header) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Size = int64(len(h.Name))
		}
		h.Mode, h.ModTime = 0o600, time.Unix(1700000000, 0)
		_ = w.WriteHeader(&h)
		if h.Size > 0 {
			_, _ = io.WriteString(w, h.Name)
		}
	}
	_ = w.Close()
	return b.String()
}

var tarSample = tarred(tar.Header{Name: "./a.txt"}, tar.Header{Name: "sub/", Typeflag: tar.TypeDir}, tar.Header{Name: "sub/deep/b.txt"},
	tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, tar.Header{Name: "../../etc/c.txt"})

var hello = [32]byte{
	0x2c, 0xf2, 0x4d, 0xba, 0x5f, 0xb0, 0xa3, 0x0e, 0x26, 0xe8, 0x3b, 0x2a, 0xc5, 0xb9, 0xe2, 0x9e, 0x1b, 0x16, 0x1e, 0x5c,
	0x1f, 0xa7, 0x42, 0x5e, 0x73, 0x04, 0x33, 0x62, 0x93, 0x8b, 0x98, 0x24,
}

var kistSample = zipped(
	ManifestName, `{"format":"kist","version":1,"user":"ann"}`,
	TagsName, "{\"name\":\"t\",\"color\":\"#102030\"}\n{\"name\":\"\"}\nnonsense\n",
	FoldersName, "{\"name\":\"f\"}",
	"notes.jsonl", `{"slug":"n","content":"hello","createdAt":"2023-01-02T03:04:05.678Z","views":3,"viewsOfLimit":"x"}`+"\n"+`{"slug":"n2","content":"hello","views":3}`+"\n",
	"files.jsonl", `{"slug":"a","originalName":"a.txt","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","folderName":"f"}`+"\n"+`{"slug":"b","originalName":"b","sha256":"00"}`+"\n"+
		`{"slug":"c","originalName":"c","sha256":"3cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}`+"\n",
	BlobName(hello), "hello",
)

const once = "This is not imported; 1 entry has it."

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format Format
		data   string
		want   []string
	}{
		{Netscape, netscapeSample, []string{
			`line 9: bookmark {"title":"The Go \u0026 language","url":"https://go.dev/"} 2023-11-14T22:13:20Z`,
			`line 14: bookmark {"description":"First line\nsecond \u003cb\u003e\n\nA note","isPublic":true,"tags":["Work home","Deep","one","two","unread"],"title":"A","url":"https://example.org/a?b=1\u0026c=2"}`,
			`line 17: bookmark {"tags":["Work home"],"title":"Evil","url":"javascript:alert(1)"}`,
			`line 19: bookmark {"tags":["archived"],"url":"https://example.org/archived"} 2023-11-14T22:13:20Z`,
			`line 23: bookmark {"title":"No address","url":""}`,
			`attribute "folder.add_date": ` + once,
			`attribute "icon": ` + once,
		}},
		{Linkding, linkdingSample, []string{
			`the whole: This is one page of several: ask linkding's API with a larger limit, or import its HTML export.`,
			`entry 1: bookmark {"description":"About\n\nMore","tags":["tag1","tag 2","unread","archived"],"title":"Its title","url":"https://example.com"} 2020-09-26T09:46:23Z`,
			`entry 2: "" refused: The entry names "title" twice.`,
			`entry 3: "" refused: The entry must be a JSON object.`,
			`member "id": ` + once,
		}},
		{
			Linkding, ` [{"url":"https://a.test","tag_names":[]}]`,
			[]string{
				`entry 1: bookmark {"description":"","url":"https://a.test"}`[:0] + `entry 1: bookmark {"url":"https://a.test"}`,
			},
		},
		{Linkding, `{"results":[{"url":"https://a.test"`, []string{"error: It is not complete JSON: it ends too early."}},
		{
			Linkding, `{"results":[{"url":"https://a.test"},}`,
			[]string{
				`entry 1: bookmark {"url":"https://a.test"}`,
				"error: It is not valid JSON: invalid character '}' looking for beginning of value (byte 34).",
			},
		},
		{
			Linkding, `{"other":[{"a":[1,2]}],"more":{}}`,
			[]string{`member "document.other": ` + once, `error: It cannot be read: there is no list "results" in it.`},
		},
		{Karakeep, karakeepSample, []string{
			`entry 1: bookmark {"description":"my note","isFavorite":true,"tags":["x","Reading","archived"],"title":"A link","url":"https://example.org"} 2023-11-14T22:13:20Z`,
			`entry 2: note {"content":"some *text*"} 2023-11-14T22:13:21Z`,
			`entry 3: "A picture" refused: It is a file that was uploaded, and the export does not have its bytes.`,
			`entry 4: "Old" refused: It is a file that was uploaded, and the export does not have its bytes.`,
			`member "lists.icon": ` + once,
			`member "lists.type": ` + once,
			`member "content.imageUrl": ` + once,
		}},
		{Pocket, pocketSample, []string{
			`line 2: bookmark {"tags":["a","b c","unread"],"title":"Hello, \"world\"","url":"https://example.com/a"} 2023-11-14T22:13:20Z`,
			`line 3: bookmark {"tags":["archived"],"url":"https://example.com/b"} 2023-11-14T22:13:21Z`,
			`line 4: bookmark {"title":"short","url":""}`,
		}},
		{Pocket, zipped(
			"part_000000.csv", "title,url\nA,https://a.test", "part_000001.csv", "url\nhttps://b.test\n", "readme", "x",
		), []string{
			`part_000000.csv, line 2: bookmark {"title":"A","url":"https://a.test"}`,
			`part_000001.csv, line 2: bookmark {"url":"https://b.test"}`,
		}},
		{Pocket, "", []string{"error: It is empty."}},
		{Pocket, "a,b\n1,2\n", []string{`error: The first line does not name a column "url".`}},
		{Shlink, shlinkSample, []string{
			`line 2: shortlink {"description":"A title","isPublic":true,"originalUrl":"https://example.org/long","slug":"abc","tags":["a","b"]} 2023-01-02T02:04:05Z 12 views`,
			`line 3: shortlink {"isPublic":true,"originalUrl":"https://example.org/other","slug":"def"}`,
			`column "shortUrl": ` + once,
			`column "domain": ` + once,
		}},
		{Shlink, "Long URL;Tags;Short code;Title\nhttps://a.test;x;code;T\n", []string{
			`line 2: shortlink {"description":"T","isPublic":true,"originalUrl":"https://a.test","slug":"code","tags":["x"]}`,
		}},
		{Folder, tarSample, []string{
			`a.txt: file {"originalName":"a.txt"} 2023-11-14T22:13:20Z "./a.txt"`,
			`sub/deep/b.txt: file {"originalName":"b.txt"} 2023-11-14T22:13:20Z in sub/deep "sub/deep/b.txt"`,
			`link: "link" refused: It is a link or a special file, not a regular file.`,
			`etc/c.txt: file {"originalName":"c.txt"} 2023-11-14T22:13:20Z in etc "../../etc/c.txt"`,
		}},
		{
			Folder, zipped("x/", "", `x\y/../../z.txt`, "z"),
			[]string{`x/y/z.txt: file {"originalName":"z.txt"} 2023-11-14T22:13:20Z in x/y "z"`},
		},
		{Folder, "no tar at all" + strings.Repeat("x", 600), []string{"error: It is not a complete tar."}},
		{Kist, kistSample, []string{
			`tags.jsonl, line 1: label {Folder:false Name:t Color:#102030}`,
			`tags.jsonl, line 2: "" refused: The name must not be empty.`,
			`tags.jsonl, line 3: "" refused: The entry is not valid JSON: the character 'o' is not allowed there (byte 2).`,
			`folders.jsonl, line 1: label {Folder:true Name:f Color:}`,
			`files.jsonl, line 1: file {"folderName":"f","originalName":"a.txt","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","slug":"a"} in f "hello"`,
			`files.jsonl, line 2: "b" refused: It does not name the file's bytes.`,
			`files.jsonl, line 3: "c" refused: Its bytes are not in the export.`,
			`notes.jsonl, line 1: "n" refused: The field viewsOfLimit must be a whole number from 0 to 9007199254740992.`,
			`notes.jsonl, line 2: note {"content":"hello","slug":"n2","views":3} 3 views`,
		}},
		{
			Kist, zipped(ManifestName, `{"format":"kist","version":2}`),
			[]string{"error: It is an export of version 2, and this kist reads up to 1; use a newer kist."},
		},
		{Kist, zipped("a", "b"), []string{"error: It is not an export of kist: kist.json is not in it."}},
		{
			Kist, zipped(ManifestName, `{"format":"kist","version":1}`, "a", "", "a", ""),
			[]string{`error: "a" is in it twice.`},
		},
		{Kist, "PK\x03\x04", []string{"error: It is not a complete zip."}},
	} {
		is := is.New(t)
		got := rowsOf(c.format, source(c.data))
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", c.format, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if len(c.want) > 1 && !strings.Contains(c.data, `{"other"`) {
			found, err := Detect(source(c.data))
			is.NoErr(err)
			is.Equal(found, c.format)
		}
	}
}

func TestDetectNothing(t *testing.T) {
	for _, data := range []string{"", "hello", "{}", "[]", "%PDF-1.7", "a,b,c\n1,2,3"} {
		is := is.New(t)
		_, err := Detect(source(data))
		var why Unreadable
		is.True(errors.As(err, &why)) // for people
	}
}

// A line of an export has everything of a record that ids elsewhere do not change, and it is read
// back.
func TestKistLines(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	file := &record.Shown{Record: record.Record{
		Kind: record.Files, Created: at, Updated: at.Add(time.Hour), KeepMetadata: true, Attached: true,
		Bytes: &record.Content{Photo: record.Photo{Taken: at.Add(-time.Hour), Camera: "Cam1"}},
		Share: record.Share{
			Slug: "a", Favorite: true, Password: "$argon2id$hash", Public: true, Limit: 9, AtLimit: record.Delete,
			Expires: at.Add(2 * time.Hour), Logged: true, Reached: true,
		},
	}, Views: 7, FolderName: "f", TagList: []record.Tag{{Name: "sea"}}}
	file.SetBody(&record.File{
		OriginalName: "a.txt", Description: "d", MimeType: "text/plain", Size: 5, SHA256: hex.EncodeToString(hello[:]),
		Uploader: "Bob",
	})
	note := &record.Shown{
		Record: record.Record{Kind: record.Notes, Created: at, Updated: at, Share: record.Share{Slug: "n"}},
	}
	note.SetBody(&record.Note{Content: "new"})
	old := &record.Version{
		VersionHead: record.VersionHead{At: at.Add(-time.Hour), By: "phone"},
		Body:        field.AppendJSON(nil, &record.Note{Content: "old"}),
	}
	lines := map[string]string{
		KindName(record.Files): string(AppendRecord(nil, file, 4, new(Carried))),
		KindName(record.Notes): string(AppendRecord(nil, note, 0, new(Carried))),
		VersionsName:           string(AppendVersion(nil, &note.Record, old)),
	}
	for name, want := range map[string]string{
		KindName(record.Files): `{"slug":"a","originalName":"a.txt","mimeType":"text/plain","size":5,"sha256":"` + hex.EncodeToString(hello[:]) + `","description":"d","uploaderName":"Bob","isPublic":true,"isFavorite":true,"tags":["sea"],` +
			`"maxViews":9,"maxViewsAction":"delete","expiresAt":"2026-01-02T05:04:05.678Z","logVisits":true,"stripMetadata":false,"id":"43c38590-0f71-8222-b322-ce52c214f9e1","folderName":"f","attach":true,"takenAt":"2026-01-02T02:04:05.678Z",` +
			`"createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T04:04:05.678Z","passwordHash":"$argon2id$hash","views":7,"viewsOfLimit":4,"limitReached":true}`,
		KindName(record.Notes): `{"slug":"n","title":"","content":"new","sourceUrl":"","isPublic":false,"isFavorite":false,"tags":[],"maxViews":null,"maxViewsAction":null,"expiresAt":null,` +
			`"createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T03:04:05.678Z","passwordHash":"","views":0,"viewsOfLimit":0,"limitReached":false}`,
		VersionsName: `{"kind":"note","slug":"n","at":"2026-01-02T02:04:05.678Z","by":"phone","title":"","content":"old","sourceUrl":""}`,
	} {
		is.Equal(lines[name], want+"\n")
	}
	data := []string{ManifestName, string(AppendManifest(nil, "ann")), BlobName(hello), "hello"}
	for name, line := range lines {
		data = append(data, name, line)
	}
	var rows []Row
	for row, err := range Read(Kist, source(zipped(data...))) {
		is.NoErr(err)
		is.Equal(row.Refused, "")
		is.True(!row.Whole) // it reads every member
		rows = append(rows, row)
	}
	is.Equal(len(rows), 3)
	is.Equal(
		rows[0].Past,
		record.Past{
			Created: at, Updated: at.Add(time.Hour), Taken: at.Add(-time.Hour), Password: "$argon2id$hash",
			Views: 7, Used: 4, Reached: true,
		},
	)
	is.Equal(rows[0].Folder, "f")
	is.Equal(rows[0].FileID, FileID("a"))
	is.True(rows[0].Attached)
	is.Equal(
		[]any{rows[0].Fields["stripMetadata"], rows[0].Fields["isPublic"], rows[0].Fields["logVisits"]},
		[]any{false, true, true},
	)
	is.Equal(rows[1].Name, "n")
	is.Equal(rows[2].Version, &Version{"n", old.VersionHead, old.Body})
}

// An entry is known by its title, or else by its address.
func TestNameOfEntry(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, first := range []string{"", "A title"} {
		b := build(record.Bookmarks, "line 1")
		b.title(first)
		b.address("url", " https://example.org/ ")
		is.Equal(b.Fields["url"], "https://example.org/")
		is.Equal(b.Name, cmp.Or(first, "https://example.org/"))
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2023-01-02T03:04:05+01:00":      "2023-01-02T02:04:05Z",
		" 2023-01-02T03:04:05+0100\n":    "2023-01-02T02:04:05Z",
		"\t2023-01-02 03:04:05 ":         "2023-01-02T03:04:05Z",
		" 2023-01-02":                    "2023-01-02T00:00:00Z",
		"2023-01-02T03:04:05.678901234Z": "2023-01-02T03:04:05.678Z",
		" 1700000000 ":                   "2023-11-14T22:13:20Z",
		"68719476736":                    "4147-08-20T07:32:16Z",
		"68719476737":                    "1972-03-06T08:44:36Z", // as milliseconds
		"1700000000123":                  "2023-11-14T22:13:20Z",
		"1700000000123456":               "2023-11-14T22:13:20Z",
		"1970-06-01":                     "",
		"1971-01-01":                     "1971-01-01T00:00:00Z",
		"9999-12-31":                     "9999-12-31T00:00:00Z",
		"0":                              "",
		"1":                              "1970-01-01T00:00:01Z",
		"-5":                             "",
		"2023-13-02":                     "",
		"soon":                           "",
		"":                               "",
	} {
		got := ""
		if at := date(text); !at.IsZero() {
			got = at.Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A value that is too long for its field is cut, and the row says so.
func TestFitted(t *testing.T) {
	is := is.New(t)
	b := build(record.Bookmarks, "line 1")
	b.title(strings.Repeat("é", 600) + "\x00")
	b.text("description", "a\x00\xff", 10)
	b.tags(strings.Repeat("t", 70), " a,b\n c ", "\x01", "A B C")
	is.Equal(utf8.RuneCountInString(b.Fields["title"].(string)), record.MaxName)
	is.Equal(b.Fields["description"], "a\uFFFD")
	is.Equal(b.Fields["tags"], []any{strings.Repeat("t", 64), "a b c"})
	is.Equal(
		b.Notes,
		[]string{"The title was cut to 512 characters.", "The tag “tttttttttttttttttttt…” was cut to 64 characters."},
	)
	for i := range 100 {
		b.tags(fmt.Sprint("tag", i))
	}
	is.Equal(len(b.Fields["tags"].([]any)), record.MaxTags)
	form := record.NewForm(record.Bookmarks)
	b.address("url", "https://example.org")
	is.NoErr(field.Create(form, b.Fields)) // it fits
}

// An entry that is too long ends the reading or is refused; it is never in
// A line of CSV has a limited number of columns and of bytes.
func TestLargestLine(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cells := func(n int) Source { return source("url\nhttps://example.org" + strings.Repeat(",", n-1) + "\n") }
	is.Equal(len(rowsOf(CSV, cells(maxCells))), 1)
	is.Equal(rowsOf(CSV, cells(maxCells+1)), []string{"error: A line has more than 10000 columns."})
	long := source("url\n\"" + strings.Repeat("a", maxLine+8192) + "\"\n")
	is.Equal(rowsOf(CSV, long), []string{"error: An entry is longer than 1048576 bytes."})
}

// A source that is too large is refused before it is read. Files and exports of kist may be of any size.
func TestLargestSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format Format
		text   string
		size   int64
		want   string
	}{
		{Netscape, "<DL></DL>", maxText + 1, "It is larger than 256 MiB; split it."},
		{CSV, "url", maxText + 1, "It is larger than 256 MiB; split it."},
		{Linkding, "[]", maxText + 1, "It is larger than 256 MiB; split it."},
		{Omnivore, "PK", maxText, "It is not a complete zip."},
		{Omnivore, "PK", maxText + 1, "It is larger than 256 MiB; split it."},
		{Kist, "PK", maxText + 1, "It is not a complete zip."},
	} {
		for _, err := range Read(c.format, Source{R: strings.NewReader(c.text), Size: c.size}) {
			if err == nil || err.Error() != c.want {
				t.Errorf("%s of %d bytes: %v", c.format, c.size, err)
			}
		}
	}
}

// memory as a whole.
func TestLongEntries(t *testing.T) {
	is := is.New(t)
	long := strings.Repeat("x", MaxEntry+1<<20)
	is.Equal(len(rowsOf(Pocket, source("url\n\""+long+"\"\n"))), 1)
	is.Equal(rowsOf(Linkding, source(`[{"url":"`+long+`"}]`)), []string{"error: An entry is longer than 16777216 bytes."})
	is.Equal(
		rowsOf(Netscape, source(`<DL><DT><A HREF="`+long+`">x</A></DL>`)),
		[]string{"error: The entry on line 1 is longer than 16777216 bytes."},
	)
	got := rowsOf(
		Kist, source(zipped(ManifestName, `{"format":"kist","version":1}`, "notes.jsonl", long+"\n{\"content\":\"a\"}")),
	)
	is.Equal(
		got,
		[]string{
			`notes.jsonl, line 1: "" refused: It is longer than 16777216 bytes.`, `notes.jsonl, line 2: note {"content":"a"}`,
		},
	)
	is.Equal(
		len(rowsOf(Netscape, source(strings.Repeat("<DL><DT><H3>f</H3>", 1000)+`<DT><A HREF="https://a.test">x</A>`))), 1,
	)
}

// A zip whose directory is far too large is refused before it is read.
func TestZipDirectory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := &budget{ReaderAt: strings.NewReader(kistSample), left: 10, over: errDirectory}
	_, err := zip.NewReader(b, int64(len(kistSample)))
	var why Unreadable
	is.True(errors.As(err, &why))

	const entry = 46 // bytes in the directory for an empty file, without its name
	for _, c := range []struct {
		first    string
		operator bool
		length   int // of the other names
		files    int
		want     error
	}{
		{"a", false, 4, maxDirectory/(entry+4) - 10_000, nil},
		{"a", false, 4, maxDirectory/(entry+4) + 10_000, errDirectory},
		{"a", true, 4, maxDirectory/(entry+4) + 10_000, errDirectory},
		{ManifestName, false, 70, maxDirectory/(entry+70) - 10_000, nil},
		{ManifestName, false, 70, maxDirectory/(entry+70) + 10_000, errFiles},
		{ManifestName, true, 70, maxDirectory/(entry+70) + 10_000, nil},
		{ManifestName, true, 60_000, maxOwnDirectory/(entry+60_000) + 100, errFiles},
	} {
		var data bytes.Buffer
		w := zip.NewWriter(&data)
		_, err := w.CreateRaw(&zip.FileHeader{Name: c.first})
		is.NoErr(err)
		for i := range c.files {
			_, err := w.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%0*x", c.length, i)})
			is.NoErr(err)
		}
		is.NoErr(w.Close())
		_, err = openZip(Source{R: bytes.NewReader(data.Bytes()), Size: int64(data.Len()), Operator: c.operator})
		is.Equal(err, c.want)
	}
}

func fuzz(f *testing.F, format Format, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		is := is.New(t)
		rows, failed := 0, false
		for row, err := range Read(format, Source{R: bytes.NewReader(data), Size: int64(len(data))}) {
			is.True(!failed) // nothing follows an error
			if err != nil {
				var why Unreadable
				is.True(errors.As(err, &why)) // for people
				failed = true
				continue
			}
			rows++
			is.True(row.At != "")
			is.True(!row.Whole || row.Kind == nil && row.Refused == "" && len(row.Notes) == 1)
			said := row.Refused != "" || row.Label != nil || row.Kind != nil || len(row.Notes) > 0
			is.True(said)
			is.True(row.Refused == "" || row.Kind == nil && row.Open == nil)
			if row.Kind == nil {
				continue
			}
			is.True(row.Kind == record.Files == (row.Open != nil))
			is.True(row.Past.Created.IsZero() || row.Past.Created.Year() < 10_000)
			_ = field.Create(record.NewForm(row.Kind), row.Fields) // does not panic
			if row.Open != nil {
				if r, err := row.Open(); err == nil {
					_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
					_ = r.Close()
				}
			}
		}
		is.True(rows <= len(data)+1+2*maxUnread)
		_, _ = Detect(Source{R: bytes.NewReader(data), Size: int64(len(data))})
	})
}

func FuzzNetscape(f *testing.F) {
	fuzz(
		f, Netscape, netscapeSample, "<a href=x>", "<dl><h3>a<dl><a href='https://a'>b<dd>c", "<h3><dd><br></h3></dl></dl>",
		"<ul><li><a href=\"https://a\" time_added=\"1\" tags=\"a,b\">x</a>",
		"<a href=https://a\xff>\x00</a><dd>[linkding-notes]",
	)
}

func FuzzLinkding(f *testing.F) {
	fuzz(
		f, Linkding, linkdingSample, "[", "[{}]", `{"results":[{"url":1,"tag_names":[1,"a"]}]}`, `{"results":{}}`,
		`{"a":[[[]]],"results":[]}`, `{"results":[],"results":[]}`, "[{\"url\":\"\\ud800\"}]",
	)
}

func FuzzKarakeep(f *testing.F) {
	fuzz(
		f, Karakeep, karakeepSample, `{"lists":[{"id":"a"}],"bookmarks":[{"lists":["a"],"content":{"type":"text"}}]}`,
		`{"bookmarks":[{"content":[]}]}`, "{}", `{"bookmarks":[{"createdAt":1e300,"content":{"type":"link"}}]}`,
	)
}

func FuzzPocket(f *testing.F) {
	fuzz(
		f, Pocket, pocketSample, "url\n\"", "url;title\na;b", "\ufeffurl\r\nhttps://a\r\n", "url,url\na,b\n\n\n\"\"\"",
		zipped("part_0.csv", pocketSample), zipped("part_0.csv", ""),
	)
}

func FuzzShlink(f *testing.F) {
	fuzz(f, Shlink, shlinkSample, "longurl;visits\nx;-1\n", "longUrl,shortUrl\na,/\n", "longurl\n")
}

func FuzzFolder(f *testing.F) {
	fuzz(
		f, Folder, tarSample, zipped("a/b", "c"), tarred(tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "b"}),
		tarSample[:700], zipped("..", "x", "con", "y", "\xff\x00", "z"),
	)
}

func FuzzKist(f *testing.F) {
	fuzz(
		f, Kist, kistSample, zipped(ManifestName, `{"format":"kist","version":1}`, "games.jsonl", "{}\n\n[]\n"),
		kistSample[:len(kistSample)-30],
	)
}

// TestSeparators: lists are read whatever separates their cells, as spreadsheets write them.
func TestSeparators(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"url,title\nhttps://a.test,\"A, b\"\n", "url;title\r\nhttps://a.test;A, b\r\n", "url\ttitle\nhttps://a.test\tA, b\n",
		"url|title\nhttps://a.test|A, b\n", "sep=;\r\nurl;title\r\nhttps://a.test;A, b\r\n",
		"\ufeffsep=\t\nurl\ttitle\nhttps://a.test\tA, b\n", "\"url\";\"title\"\n\"https://a.test\";\"A, b\"\n",
	} {
		is := is.New(t)
		f, err := Detect(source(text))
		is.NoErr(err)
		is.Equal(f, CSV) // what the text is
		n := 0
		for row, err := range Read(f, source(text)) {
			is.NoErr(err)
			is.Equal(row.Fields["url"], "https://a.test")
			is.Equal(row.Fields["title"], "A, b")
			n++
		}
		is.Equal(n, 1)
	}
}
