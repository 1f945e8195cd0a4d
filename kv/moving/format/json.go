package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"kist/kv/field"
	"kist/kv/record"
)

// entries yields the objects of the list that is the document, or that the
// document, an object, has under the name; other gets its other members that are
// no lists and objects.
// An entry that is no object that kist reads is yielded as what is wrong with
// it.
func entries(r io.Reader, name string, other func(member string, value any), each func(n int, o field.Object, wrong error) bool) error {
	limit := &gauge{r: skipBOM(r), left: MaxEntry}
	d := json.NewDecoder(limit)
	list := func() error {
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return broken(err, "there is no list of entries")
		}
		for n := 1; d.More(); n++ {
			var raw json.RawMessage
			limit.left = MaxEntry
			if err := d.Decode(&raw); err != nil {
				return broken(err, "")
			}
			o, err := field.Parse(raw)
			if !each(n, o, err) {
				return errStop
			}
		}
		_, err := d.Token()
		return broken(err, "")
	}
	if first, err := firstByte(limit.r.(io.ByteScanner)); err != nil {
		return broken(err, "")
	} else if first == '[' {
		return list()
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return broken(err, "it is no JSON object")
	}
	found := false
	for d.More() {
		limit.left = MaxEntry
		t, err := d.Token()
		if err != nil {
			return broken(err, "")
		}
		member, _ := t.(string)
		if member == name && !found {
			found = true
			if err := list(); err != nil {
				return err
			}
			continue
		}
		for depth := 0; ; {
			limit.left = MaxEntry
			t, err := d.Token()
			if err != nil {
				return broken(err, "")
			}
			switch t {
			case json.Delim('{'), json.Delim('['):
				depth++
			case json.Delim('}'), json.Delim(']'):
				depth--
			default:
				if depth == 0 {
					other(member, t)
				}
			}
			if depth == 0 {
				break
			}
		}
	}
	if _, err := d.Token(); err != nil {
		return broken(err, "")
	}
	if !found {
		return unreadable("It cannot be read: there is no list %q in it.", name)
	}
	return nil
}

// errStop ends the reading because nobody asks for more.
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

// broken is the error of JSON that cannot be read further; nil for none.
func broken(err error, why string) error {
	var known Unreadable
	var syntax *json.SyntaxError
	switch {
	case err == nil && why == "":
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return unreadable("It is no whole JSON: it ends too early.")
	case errors.As(err, &syntax):
		return unreadable("It is no JSON: %v (byte %d).", syntax, syntax.Offset)
	case err != nil:
		return err
	}
	return unreadable("It cannot be read: %s.", why)
}

// ofList makes rows of the entries of a list in JSON.
func ofList(r io.Reader, name string, other func(string, any) *Row, row func(at string, o field.Object) Row) Rows {
	return func(yield func(Row, error) bool) {
		more := true
		err := entries(r, name, func(member string, value any) {
			if extra := other(member, value); extra != nil && more {
				more = yield(*extra, nil)
			}
		}, func(n int, o field.Object, wrong error) bool {
			if !more {
				return false
			}
			at := fmt.Sprintf("entry %d", n)
			if wrong != nil {
				more = yield(Row{At: at, Refused: forEntry(wrong)}, nil)
			} else {
				more = yield(row(at, o), nil)
			}
			return more
		})
		if err != nil && more && !errors.Is(err, errStop) {
			yield(Row{}, err)
		}
	}
}

// Members of an entry, which may be missing or of another type.
func text(o field.Object, name string) string { t, _ := o[name].(string); return t }
func yes(o field.Object, name string) bool    { b, _ := o[name].(bool); return b }

func number(o field.Object, name string) string {
	n, _ := o[name].(json.Number)
	whole, _, _ := strings.Cut(n.String(), ".")
	return whole
}

func texts(o field.Object, name string) []string {
	list, _ := o[name].([]any)
	var all []string
	for _, v := range list {
		if t, ok := v.(string); ok {
			all = append(all, t)
		}
	}
	return all
}

// linkding reads what linkding's API answers with: GET /api/bookmarks/, or the
// list in it.
func linkding(s Source) Rows {
	page := func(member string, value any) *Row {
		if member == "next" && value != nil {
			return &Row{At: "the whole", Notes: []string{"This is one page of several: ask linkding's API with a larger limit, or import its HTML export."}}
		}
		return nil
	}
	return ofList(s.stream(), "results", page, func(at string, o field.Object) Row {
		b := build(record.Bookmarks, at)
		b.title(or(text(o, "title"), text(o, "website_title")))
		b.address("url", text(o, "url"))
		b.text("description", join(or(text(o, "description"), text(o, "website_description")), text(o, "notes")), record.MaxDescription)
		b.picture(text(o, "preview_image_url"))
		if yes(o, "shared") {
			b.Fields["isPublic"] = true
		}
		b.tags(texts(o, "tag_names")...)
		if yes(o, "unread") {
			b.tags(tagUnread)
		}
		if yes(o, "is_archived") {
			b.tags(tagArchived)
		}
		b.Past.Created, b.Past.Updated = date(text(o, "date_added")), date(text(o, "date_modified"))
		return b.Row
	})
}

func or(a, b string) string {
	if clean(a) != "" {
		return a
	}
	return b
}

// picture sets the address of a bookmark's picture, if it is one.
func (b *builder) picture(address string) {
	if at, err := field.CleanURL(address); err == nil {
		b.Fields["imageUrl"] = at
	}
}

// maxLists is how many of Karakeep's lists are known by name.
const maxLists = 10_000

// karakeep reads the export of Karakeep. Its lists, which stand after the
// bookmarks that are on them, become tags.
func karakeep(s Source) Rows {
	return func(yield func(Row, error) bool) {
		lists := map[string]string{}
		err := entries(s.stream(), "lists", func(string, any) {}, func(_ int, o field.Object, wrong error) bool {
			if wrong == nil && len(lists) < maxLists {
				lists[text(o, "id")] = text(o, "name")
			}
			return true
		})
		var cut Unreadable
		if err != nil && !errors.As(err, &cut) { // older exports have none; what is broken shows below
			yield(Row{}, err)
			return
		}
		for row, err := range ofList(s.stream(), "bookmarks", func(string, any) *Row { return nil }, func(at string, o field.Object) Row {
			return karakeepRow(at, o, lists)
		}) {
			if !yield(row, err) {
				return
			}
		}
	}
}

func karakeepRow(at string, o field.Object, lists map[string]string) Row {
	content, _ := o["content"].(field.Object)
	var b *builder
	switch kind := text(content, "type"); kind {
	case "link":
		b = build(record.Bookmarks, at)
		b.title(text(o, "title"))
		b.address("url", text(content, "url"))
		b.text("description", join(or(text(o, "description"), text(content, "description")), text(o, "summary"), text(o, "note")), record.MaxDescription)
		b.picture(or(text(o, "imageUrl"), text(content, "imageUrl")))
	case "text":
		b = build(record.Notes, at)
		b.title(text(o, "title"))
		body := join(text(content, "text"), text(o, "note"))
		b.Fields["content"] = body
		if b.Name == "" {
			b.Name, _, _ = strings.Cut(body, "\n")
		}
	default:
		return Row{At: at, Name: clean(text(o, "title")), Refused: "It is a file that was uploaded, and the export does not have its bytes."}
	}
	if yes(o, "favourited") {
		b.Fields["isFavorite"] = true
	}
	b.tags(texts(o, "tags")...)
	for _, id := range texts(o, "lists") {
		b.tags(lists[id])
	}
	if yes(o, "archived") {
		b.tags(tagArchived)
	}
	b.Past.Created = seconds(number(o, "createdAt"))
	return b.Row
}
