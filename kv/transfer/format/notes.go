package format

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// A file is a file in a zip, a tar or a directory.
type file struct {
	name    string
	mode    fs.FileMode
	changed time.Time
	open    func() (io.ReadCloser, error)
}

func (f *file) row() Row { return fileRow(f.name, f.mode, f.changed, f.open) }

// Census counts the files of a folder by their names, to detect what it is.
type Census struct {
	all, notes   int
	vault, keeps bool
}

// Add adds a file of the folder.
func (c *Census) Add(name string) {
	name = strings.ReplaceAll(name, `\`, "/")
	way := strings.Split(name, "/")
	c.vault = c.vault || slices.Contains(way, ".obsidian") || slices.Contains(way, "_resources")
	if hiddenAt(way) >= 0 {
		return
	}
	c.all++
	if isMarkdown(name) {
		c.notes++
	}
	dir := path.Base(path.Dir(name))
	c.keeps = c.keeps || path.Ext(name) == ".json" && dir == "Keep"
}

// Format is the format of the folder: Keep, Markdown if it is a vault of Obsidian, an
// export of Joplin, or more than half of its files are Markdown, or else Folder.
func (c *Census) Format() Format {
	switch {
	case c.keeps:
		return Keep
	case c.notes > 0 && (c.vault || 2*c.notes > c.all):
		return Markdown
	}
	return Folder
}

// hiddenAt is the index of the first part of a path that is hidden, such as .obsidian or .git; -1 if none is.
func hiddenAt(way []string) int {
	return slices.IndexFunc(way, func(part string) bool { return len(part) > 1 && part[0] == '.' && part != ".." })
}

func isMarkdown(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".md" || ext == ".markdown"
}

// Stream reads the files of a folder in a tar that can be read once.
func Stream(f Format, r io.Reader) Rows {
	switch f {
	case Markdown:
		return markdownIn(tarFiles(r))
	case Keep:
		return keepIn(tarFiles(r))
	}
	return Tar(r)
}

// ofFiles makes a reader of the files in a zip or a tar.
func ofFiles(read func(iter.Seq2[file, error]) Rows) func(Source) Rows {
	return func(s Source) Rows {
		if !isZip(s) {
			return read(tarFiles(s.stream()))
		}
		return inZip(s, func(z *zip.Reader) Rows { return read(zipFiles(z)) })
	}
}

// markdownIn reads notes in Markdown. Other files beside them stay files.
func markdownIn(files iter.Seq2[file, error]) Rows {
	left, single, beside := notRead("folder"), notRead("file"), 0
	return left.after(func(yield func(Row, error) bool) {
		for f, err := range files {
			if err != nil {
				yield(Row{}, err)
				return
			}
			way := strings.Split(strings.ReplaceAll(strings.TrimPrefix(f.name, "./"), `\`, "/"), "/")
			at := hiddenAt(way)
			switch {
			case at == len(way)-1:
				single.add(strings.Join(way, "/"))
				continue
			case at >= 0:
				left.add(strings.Join(way[:at+1], "/") + "/")
				continue
			}
			row := f.row()
			if row.Refused == "" && isMarkdown(f.name) {
				row = noteRow(&f, row)
			} else if row.Refused == "" {
				beside++
			}
			if !yield(row, nil) {
				return
			}
		}
		if !single.tell(yield) || beside == 0 {
			return
		}
		note := fmt.Sprintf("Beside the notes there are other files: %d. They stay files, and links to them in the "+
			"notes are not changed.", beside)
		yield(Row{At: "files", Whole: true, Notes: []string{note}}, nil)
	})
}

// noteRow makes a note of a file in Markdown. One that is too long stays a file.
func noteRow(f *file, asFile Row) Row {
	text, rest, err := content(f, record.MaxContent)
	if err != nil {
		return Row{At: asFile.At, Name: asFile.Name, Refused: "Its bytes are damaged."}
	}
	if rest != nil {
		return tooLong(asFile, rest)
	}
	stored := text
	b := build(record.Notes, asFile.At)
	charset, err := media.CharsetOf(bytes.NewReader(text), "")
	if err == nil {
		text, err = io.ReadAll(charset.NewReader(bytes.NewReader(text)))
	}
	if err != nil {
		return Row{At: asFile.At, Name: asFile.Name, Refused: "Its bytes are damaged."}
	}
	if note := ofCharset(charset); note != "" {
		b.note("%s", note)
	}
	all := strings.TrimPrefix(strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\x00", ""), "\ufeff")
	if len(all) > record.MaxContent {
		return tooLong(asFile, io.NopCloser(bytes.NewReader(stored)))
	}

	properties, body := record.FrontMatter(all)
	head := frontOf(properties)
	b.title(or(head.one("title"), or(heading(body), strings.TrimSuffix(asFile.Name, path.Ext(asFile.Name)))))
	for _, key := range []string{"tags", "tag", "keywords", "categories"} {
		b.tags(head.list(key)...)
	}
	b.tags(strings.Split(asFile.Folder, "/")...)
	b.text("sourceUrl", head.one("source", "url"), field.MaxURL)
	b.Past.Created = head.when("created", "date", "date created", "created_at", "createdat")
	b.Past.Updated = head.when("updated", "modified", "date modified", "updated_at", "updatedat", "lastmod")
	if b.Past.Created.IsZero() {
		b.Past.Created = asFile.Past.Created
	}
	b.Fields["content"] = all
	return b.Row
}

// tooLong is the row of a file that cannot become a note.
func tooLong(asFile Row, bytes io.ReadCloser) Row {
	note := fmt.Sprintf("It is longer than %d bytes, so it stays a file.", record.MaxContent)
	asFile.Notes = append(asFile.Notes, note)
	return kept(asFile, bytes)
}

// kept is the row of a file whose bytes have been looked at.
func kept(asFile Row, bytes io.ReadCloser) Row {
	asFile.Open = func() (io.ReadCloser, error) { return bytes, nil }
	return asFile
}

// content reads at most limit bytes of a file. If it is longer, rest is all of it.
func content(f *file, limit int64) (text []byte, rest io.ReadCloser, err error) {
	r, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, joined{io.MultiReader(bytes.NewReader(text), r), r}, nil
	}
	return text, nil, errors.Join(err, r.Close())
}

type joined struct {
	io.Reader
	io.Closer
}

// heading is the heading that a text begins with; "" if it begins with none.
func heading(text string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(text, "\n "), "\n")
	title, found := strings.CutPrefix(first, "# ")
	if !found {
		return ""
	}
	title = strings.TrimSpace(title)
	open := strings.TrimRight(title, "#") // CommonMark: signs that close it are after a blank
	if strings.HasSuffix(open, " ") || open == "" {
		return strings.TrimSpace(open)
	}
	return title
}

// A front is the front matter of a note, by its keys in lower case. It stays in the
// note, where it is shown, so what is not read is not lost.
type front map[string][]string

func frontOf(all []record.Property) front {
	head := front{}
	for _, p := range all {
		key := strings.ToLower(p.Key)
		head[key] = append(head[key], p.Values...)
	}
	return head
}

// one is the only value of the first of the keys that has one.
func (h front) one(keys ...string) string {
	for _, key := range keys {
		if len(h[key]) == 1 {
			return h[key][0]
		}
	}
	return ""
}

// list are the values of a key. A single value may be a list in brackets, or have
// commas between its parts.
func (h front) list(key string) (names []string) {
	values := h[key]
	if len(values) == 1 {
		values = strings.SplitN(strings.Trim(values[0], "[] "), ",", maxNames)
	}
	for _, name := range values {
		names = append(names, strings.Trim(strings.TrimSpace(name), "#\"'"))
	}
	return names
}

// when is the date in the first of the keys that has one.
func (h front) when(keys ...string) time.Time {
	for _, key := range keys {
		at := date(h.one(key))
		if !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// keepIn reads the notes of Google Keep in a Takeout: JSON with the pictures beside it. Other files stay files, but in
// the folder Keep those that say the same once more are left out.
func keepIn(files iter.Seq2[file, error]) Rows {
	left, others := notRead("member"), notRead("file")
	return left.after(func(yield func(Row, error) bool) {
		for f, err := range files {
			if err != nil {
				yield(Row{}, err)
				return
			}
			row := f.row()
			ext, ofKeep := strings.ToLower(path.Ext(f.name)), path.Base(path.Dir(f.name)) == "Keep"
			switch {
			case ext == ".json" && row.Refused == "":
				row = keepFile(&f, row, left)
			case ext == ".html" && ofKeep:
				others.add("*.html")
				continue
			case ext == ".txt" && ofKeep:
				others.add(path.Base(f.name))
				continue
			}
			if !yield(row, nil) {
				return
			}
		}
		others.tell(yield)
	})
}

// keepFile makes a note of a file in JSON, if it is one of Keep.
func keepFile(f *file, asFile Row, left *unread) Row {
	text, rest, err := content(f, MaxEntry)
	if rest != nil {
		return kept(asFile, rest)
	}
	if err != nil {
		return Row{At: asFile.At, Name: asFile.Name, Refused: "Its bytes are damaged."}
	}
	o, err := field.Parse(text)
	if err != nil || o["userEditedTimestampUsec"] == nil {
		return kept(asFile, io.NopCloser(bytes.NewReader(text)))
	}
	e := &entry{o: o, unread: left}
	row := keepRow(asFile.At, e)
	if row.Refused == "" {
		e.done()
	}
	return row
}

func keepRow(at string, e *entry) Row {
	b := build(record.Notes, at)
	b.title(e.text("title"))
	if e.yes("isTrashed") {
		return Row{At: at, Name: b.Name, Refused: "It is in the trash of Keep."}
	}
	e.text("textContentHtml") // the same text once more
	var list strings.Builder
	for _, i := range e.objects("listContent") {
		i.text("textHtml")
		mark := " "
		if i.yes("isChecked") {
			mark = "x"
		}
		list.WriteString("- [" + mark + "] " + oneLine(i.text("text")) + "\n")
	}
	var pages []string
	for _, a := range e.objects("annotations") {
		a.text("source")
		pages = append(pages, join(a.text("title"), a.text("description"), a.text("url")))
	}
	said := join(e.text("textContent"), list.String(), join(pages...))
	if len(said) > record.MaxContent {
		return Row{At: at, Name: b.Name, Refused: fmt.Sprintf("It is longer than %d bytes.", record.MaxContent)}
	}
	b.Fields["content"] = said
	if b.Name == "" {
		b.Name, _, _ = strings.Cut(said, "\n")
	}
	for _, l := range e.objects("labels") {
		b.tags(l.text("name"))
	}
	b.mark(e, "isArchived", tagArchived)
	b.set("isFavorite", e.yes("isPinned"))
	if e.o["color"] == "DEFAULT" {
		e.text("color")
	}
	for _, a := range e.objects("attachments") {
		a.text("mimetype")
		b.note("It had the file %s, which is not part of the note here.", shown(clean(a.text("filePath"))))
	}
	b.Past.Created = e.when("createdTimestampUsec")
	b.Past.Updated = e.when("userEditedTimestampUsec")
	if b.Past.Created.IsZero() {
		b.Past.Created = b.Past.Updated
	}
	return b.Row
}
