package format

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"path"
	"strings"

	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// entries yields the objects of a list. The list is the document, or the member
// of that name if the document is an object. other receives each other member
// of the document; its value is a json.Delim if it is a list or an object that
// is not empty. An entry that is not a valid object comes with the reason.
func entries(
	r io.Reader, name string,
	other func(member string, value any), each func(n int, o field.Object, wrong error) bool,
) error {
	start := bufio.NewReader(r)
	in := &document{limit: &gauge{r: start, most: MaxEntry, left: MaxEntry}}
	in.d = json.NewDecoder(in.limit)
	first, err := firstByte(start)
	if err != nil {
		return broken(err, "")
	}
	if first == '[' {
		return in.list(each)
	}

	if t, err := in.d.Token(); err != nil || t != json.Delim('{') {
		return broken(err, "it is not a JSON object")
	}
	found := false
	for in.d.More() {
		t, err := in.token()
		if err != nil {
			return broken(err, "")
		}
		member, _ := t.(string)
		if member == name && !found {
			found = true
			if err := in.list(each); err != nil {
				return err
			}
			continue
		}
		if err := in.pass(func(value any) { other(member, value) }); err != nil {
			return broken(err, "")
		}
	}
	if _, err := in.d.Token(); err != nil {
		return broken(err, "")
	}
	if !found {
		return unreadable("It cannot be read: there is no list %q in it.", name)
	}
	return nil
}

// A document is JSON that is read value by value, of at most MaxEntry bytes each.
type document struct {
	d     *json.Decoder
	limit *gauge
}

// token reads a token, which may have MaxEntry bytes.
func (in *document) token() (json.Token, error) {
	in.limit.left = MaxEntry
	return in.d.Token()
}

// list reads the list of entries.
func (in *document) list(each func(n int, o field.Object, wrong error) bool) error {
	if t, err := in.d.Token(); err != nil || t != json.Delim('[') {
		return broken(err, "there is no list of entries")
	}
	for n := 1; in.d.More(); n++ {
		var raw json.RawMessage
		in.limit.left = MaxEntry
		if err := in.d.Decode(&raw); err != nil {
			return broken(err, "")
		}
		o, err := field.Parse(raw)
		if !each(n, o, err) {
			return errStop
		}
	}
	_, err := in.d.Token()
	return broken(err, "")
}

// pass skips a value. tell gets its first token, or nil for an empty list or object.
func (in *document) pass(tell func(value any)) error {
	t, err := in.token()
	if err != nil {
		return err
	}
	if _, opens := t.(json.Delim); opens && !in.d.More() {
		tell(nil)
	} else {
		tell(t)
	}
	for depth := nesting(t); depth > 0; depth += nesting(t) {
		t, err = in.token()
		if err != nil {
			return err
		}
	}
	return nil
}

// errStop ends the reading because the caller wants no more rows.
var errStop = errors.New("stop")

func firstByte(r io.ByteScanner) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return b, r.UnreadByte()
	}
}

// broken returns the error for JSON that cannot be read further; nil for nil.
func broken(err error, why string) error {
	var known Unreadable
	var syntax *json.SyntaxError
	switch {
	case err == nil && why == "":
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return unreadable("It is not complete JSON: it ends too early.")
	case errors.As(err, &syntax):
		return unreadable("It is not valid JSON: %v (byte %d).", syntax, syntax.Offset)
	case err != nil:
		return err
	}
	return unreadable("It cannot be read: %s.", why)
}

// ofList makes rows from the entries of a list in JSON. other may make a row
// from a member of the document, and reports whether it knows the member; nil
// knows none.
func ofList(
	r io.Reader, name string, left *unread,
	other func(member string, value any) (row *Row, known bool), row func(at string, e *entry) Row,
) Rows {
	return func(yield func(Row, error) bool) {
		more := true
		err := entries(r, name, func(member string, value any) {
			var extra *Row
			known := false
			if other != nil {
				extra, known = other(member, value)
			}
			if !known && says(value) {
				left.add("document." + member)
			}
			if extra != nil && more {
				more = yield(*extra, nil)
			}
		}, func(n int, o field.Object, wrong error) bool {
			if !more {
				return false
			}
			at := fmt.Sprintf("entry %d", n)
			if wrong != nil {
				more = yield(Row{At: at, Refused: forEntry(wrong)}, nil)
				return more
			}
			e := &entry{o: o, unread: left}
			made := row(at, e)
			if made.Refused == "" { // the refusal has its own row
				e.done()
			}
			more = yield(made, nil)
			return more
		})
		if err != nil && more && !errors.Is(err, errStop) {
			yield(Row{}, err)
		}
	}
}

// text returns a text member of an object, "" if it is missing or not text.
func text(o field.Object, name string) string { t, _ := o[name].(string); return t }

// number returns the whole part of a member that is a number.
func number(o field.Object, name string) string {
	n, _ := o[name].(json.Number)
	whole, _, _ := strings.Cut(n.String(), ".")
	return whole
}

// linkding reads the answer of linkding's API, GET /api/bookmarks/, or the list
// in it.
func linkding(s Source) Rows {
	page := func(member string, value any) (*Row, bool) {
		if member == "next" && value != nil {
			note := "This is one page of several: ask linkding's API with a larger limit, or import its HTML export."
			return &Row{At: "the whole", Whole: true, Notes: []string{note}}, true
		}
		return nil, member == "count" || member == "next" || member == "previous"
	}
	left := notRead("member")
	return left.after(ofList(s.text(), "results", left, page, func(at string, e *entry) Row {
		b := build(record.Bookmarks, at)
		b.title(e.first("title", "website_title"))
		b.address("url", e.text("url"))
		b.text("description", join(e.first("description", "website_description"), e.text("notes")), record.MaxDescription)
		b.pictureOf(e, "preview_image_url")
		b.set("isPublic", e.yes("shared"))
		b.tags(e.texts("tag_names")...)
		b.mark(e, "unread", tagUnread)
		b.mark(e, "is_archived", tagArchived)
		b.Past.Created, b.Past.Updated = e.when("date_added"), e.when("date_modified")
		return b.Row
	}))
}

func or(a, b string) string {
	if clean(a) != "" {
		return a
	}
	return b
}

// picture sets the address of a bookmark's picture. It reports false if the
// text is not an address.
func (b *builder) picture(address string) bool {
	at, err := field.CleanURL(strings.TrimSpace(address))
	if err != nil {
		return false
	}
	b.Fields["imageUrl"] = at
	return true
}

// pictureOf reads the address of a picture from the first of the members that
// has one. Text that is not an address counts as not read.
func (b *builder) pictureOf(e *entry, names ...string) {
	for _, name := range names {
		if t, _ := e.o[name].(string); t != "" && b.picture(t) {
			e.text(name)
			return
		}
	}
}

// maxLists is how many of Karakeep's lists are remembered by name.
const maxLists = 10_000

// karakeep reads the export of Karakeep. Its lists become tags. They come after
// the bookmarks that are on them.
func karakeep(s Source) Rows {
	left := notRead("member")
	return left.after(func(yield func(Row, error) bool) {
		lists := map[string]string{}
		err := entries(s.text(), "lists", func(string, any) {}, func(_ int, o field.Object, wrong error) bool {
			if wrong == nil && len(lists) < maxLists {
				e := &entry{o: o, unread: left, path: "lists."}
				lists[e.text("id")] = record.Cut(e.text("name"), record.MaxTag+1)
				e.done()
			}
			return true
		})
		var cut Unreadable
		if err != nil && !errors.As(err, &cut) { // older exports have no lists; a broken one is reported below
			yield(Row{}, err)
			return
		}
		known := func(member string, _ any) (*Row, bool) { return nil, member == "lists" }
		ofList(s.text(), "bookmarks", left, known, func(at string, e *entry) Row {
			return karakeepRow(at, e, lists)
		})(yield)
	})
}

func karakeepRow(at string, e *entry, lists map[string]string) Row {
	content := e.object("content")
	var b *builder
	switch content.text("type") {
	case "link":
		b = build(record.Bookmarks, at)
		b.title(e.first("title"))
		b.address("url", content.text("url"))
		all := join(e.text("description"), content.text("description"), e.text("summary"), e.text("note"))
		b.text("description", all, record.MaxDescription)
		b.pictureOf(e, "imageUrl")
		if b.Fields["imageUrl"] == nil {
			b.pictureOf(content, "imageUrl")
		}
	case "text":
		b = build(record.Notes, at)
		b.title(e.first("title"))
		body := join(content.text("text"), e.text("note"))
		b.Fields["content"] = body
		if source := content.text("sourceUrl"); source != "" {
			b.text("sourceUrl", source, field.MaxURL)
		}
		if b.Name == "" {
			b.Name, _, _ = strings.Cut(body, "\n")
		}
	default:
		return Row{At: at, Name: clean(e.text("title")), Refused: noBytes}
	}
	b.set("isFavorite", e.yes("favourited"))
	b.tags(e.texts("tags")...)
	for _, id := range e.texts("lists") {
		b.tags(lists[id])
	}
	b.mark(e, "archived", tagArchived)
	b.Past.Created = e.when("createdAt")
	return b.Row
}

// wallabag reads the JSON that wallabag exports: a list of pages with their
// annotations. It does not read the saved text of a page.
func wallabag(s Source) Rows {
	left := notRead("member")
	return left.after(ofList(s.text(), "entries", left, nil, func(at string, e *entry) Row {
		b := build(record.Bookmarks, at)
		b.title(html.UnescapeString(e.text("title"))) // it is stored as HTML
		b.address("url", e.text("url"))
		var said []string
		for _, a := range e.objects("annotations") {
			said = append(said, quoted(a.text("quote")), a.text("text"))
		}
		b.text("description", join(said...), record.MaxDescription)
		b.pictureOf(e, "preview_picture")
		b.tags(e.texts("tags")...)
		for _, t := range e.objects("tags") { // the form of the API
			b.tags(t.text("label"))
		}
		b.mark(e, "is_archived", tagArchived)
		b.set("isFavorite", e.yes("is_starred"))
		b.Past.Created, b.Past.Updated = e.when("created_at"), e.when("updated_at")
		return b.Row
	}))
}

// quoted is text as Markdown quotes it.
func quoted(t string) string {
	t = clean(t)
	if t == "" {
		return ""
	}
	return "> " + strings.ReplaceAll(t, "\n", "\n> ")
}

// omnivoreRow reads a page of Omnivore. Highlights are passages that people
// marked.
func omnivoreRow(at string, e *entry, highlights func(slug string) string) Row {
	b := build(record.Bookmarks, at)
	b.title(e.text("title"))
	b.address("url", e.text("url"))
	about := []string{e.text("description")}
	if highlights != nil {
		about = append(about, highlights(text(e.o, "slug")))
	}
	b.text("description", join(about...), record.MaxDescription)
	b.pictureOf(e, "thumbnail")
	b.tags(e.texts("labels")...)
	if state, _ := e.o["state"].(string); b.state(state) {
		e.text("state")
	}
	b.Past.Created, b.Past.Updated = e.when("savedAt"), e.when("updatedAt")
	return b.Row
}

// omnivore reads the zip that Omnivore exports, or one of the lists in it. It
// does not read the saved text of a page.
func omnivore(s Source) Rows {
	left := notRead("member")
	list := func(r io.Reader, highlights func(string) string) Rows {
		return ofList(r, "entries", left, nil, func(at string, e *entry) Row { return omnivoreRow(at, e, highlights) })
	}
	if !isZip(s) {
		return left.after(list(s.text(), nil))
	}
	return left.after(func(yield func(Row, error) bool) {
		z, err := openZip(s)
		if err != nil {
			yield(Row{}, err)
			return
		}
		marked := map[string]*zip.File{}
		files := notRead("folder")
		for _, f := range z.File {
			switch dir, name := path.Split(f.Name); {
			case f.FileInfo().IsDir(), omnivorePart(f):
			case dir == "highlights/" && strings.HasSuffix(name, ".md"):
				marked[strings.TrimSuffix(name, ".md")] = f
			default:
				files.add(dir)
			}
		}
		highlights := func(slug string) string {
			f := marked[slug]
			delete(marked, slug)
			if f == nil {
				return ""
			}
			r, err := f.Open()
			if err != nil {
				return ""
			}
			defer r.Close()
			marks, _ := io.ReadAll(io.LimitReader(r, 4*record.MaxDescription+1)) // longer text is cut later
			charset, err := media.CharsetOf(bytes.NewReader(marks), "")
			if err != nil {
				return ""
			}
			text, _ := io.ReadAll(charset.NewReader(bytes.NewReader(marks)))
			return string(text)
		}
		for row, err := range eachPart(z, omnivorePart, func(r io.Reader) Rows { return list(r, highlights) }) {
			if !yield(row, err) || err != nil {
				return
			}
		}
		for range marked { // highlights of pages that no list has
			files.add("highlights/")
		}
		files.tell(yield)
	})
}
