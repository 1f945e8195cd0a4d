package format

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"kist/kv/field"
	"kist/kv/record"
)

// A tree is a format in JSON with nested objects: folders in folders, and
// bookmarks as the leaves. A folder's name may come after its children. So the
// source is read twice: for the names of the folders, and for the bookmarks.
type tree struct {
	// branch reports whether a member holds objects of the tree: one, or a list.
	branch func(member string) bool
	// folder returns the name of a folder, "" if it has no meaning.
	folder func(e *entry, n *node) string
	// row makes a row of an object without children; an object with nothing to
	// keep is not an entry.
	row func(at string, e *entry, n *node) Row
}

// Bounds of a tree.
const (
	maxTreeDepth = 500
	maxTreeNames = 20_000 // folders remembered by name
)

// node is an object of a tree.
type node struct {
	number    int     // in the order in which objects begin
	ancestors []*node // the outermost first
	key       string  // the member of the parent that it is in
	holds     bool    // it has a member that holds objects

	raw []byte // its other members, as in the source
}

// walk is one pass through a tree.
type walk struct {
	tree
	d      *json.Decoder
	limit  *gauge
	n      int
	held   int // bytes of the open objects
	stray  func(member string)
	leave  func(n *node) bool // called at the end of each object
	passed []*node
}

// read reads the source in the format.
func (t tree) read(s Source) Rows {
	left := notRead("member")
	return left.after(func(yield func(Row, error) bool) {
		names, beyond, err := t.names(s, left)
		if err != nil && !errors.As(err, new(Unreadable)) { // the second pass reports an Unreadable
			yield(Row{}, err)
			return
		}

		count, more := 0, true
		err = t.walk(s.text(), left.add, func(n *node) bool {
			if n.holds {
				return true
			}
			row := t.leaf(fmt.Sprintf("entry %d", count+1), n, names, left)
			if row.Kind == nil && row.Refused == "" {
				return true
			}
			count++
			more = yield(row, nil)
			return more
		})
		if !more {
			return
		}

		note := fmt.Sprintf("Only the first %d folders became tags; %d did not.", maxTreeNames, beyond)
		if beyond > 0 && !yield(Row{At: "folders", Whole: true, Notes: []string{note}}, nil) {
			return
		}
		if err != nil {
			yield(Row{}, err)
		}
	})
}

// names reads the names of the folders, by their numbers. beyond is how many there are that it does
// not keep.
func (t tree) names(s Source, left *unread) (names map[int]string, beyond int, err error) {
	names = map[int]string{}
	err = t.walk(s.text(), func(string) {}, func(n *node) bool {
		if !n.holds {
			return true
		}
		e, err := n.entry(left, "folder.")
		if err != nil { // its name is lost
			left.add("folder")
			return true
		}
		if n.number == 0 {
			e.path = "document."
		}
		name := record.Cut(clean(t.folder(e, n)), record.MaxTag+1)
		e.done()
		switch {
		case name == "":
		case len(names) == maxTreeNames:
			beyond++
		default:
			names[n.number] = name
		}
		return true
	})
	return names, beyond, err
}

// leaf makes a row of an object without children, with the names of the folders around it as tags.
// It makes an empty row of an object that has nothing to keep.
func (t tree) leaf(at string, n *node, names map[int]string, left *unread) Row {
	e, err := n.entry(left, "")
	if err != nil {
		return Row{At: at, Refused: forEntry(err)}
	}
	row := t.row(at, e, n)
	switch {
	case row.Refused != "":
		return row
	case row.Kind == nil:
		e.path = "folder." // an empty folder, or a separator
		e.done()
		return row
	}
	b := &builder{row}
	for _, above := range n.ancestors {
		b.tags(names[above.number])
	}
	e.done()
	return b.Row
}

// entry returns the object without its children.
func (n *node) entry(left *unread, path string) (*entry, error) {
	o, err := field.Parse(append(append([]byte{'{'}, n.raw...), '}'))
	return &entry{o: o, unread: left, path: path}, err
}

// walk reads a source. It calls leave at the end of each object, inner ones
// first, and stray for a value that should be an object but isn't.
func (t tree) walk(r io.Reader, stray func(string), leave func(*node) bool) error {
	w := &walk{tree: t, limit: &gauge{r: bufio.NewReader(r), most: MaxEntry, left: MaxEntry}, stray: stray, leave: leave}
	w.d = json.NewDecoder(w.limit)
	if t, err := w.d.Token(); err != nil || t != json.Delim('{') {
		return broken(err, "it is not a JSON object")
	}
	if err := w.object(""); !errors.Is(err, errStop) {
		return err
	}
	return nil
}

// room sets how many bytes the next value may have.
func (w *walk) room() { w.limit.left = MaxEntry - w.held }

// object reads an object after its brace.
func (w *walk) object(key string) error {
	if len(w.passed) == maxTreeDepth {
		return unreadable("Its folders are nested deeper than %d levels.", maxTreeDepth)
	}
	n := &node{number: w.n, ancestors: w.passed, key: key}
	w.n++
	w.passed = append(w.passed, n)
	for w.d.More() {
		w.room()
		t, err := w.d.Token()
		if err != nil {
			return broken(err, "")
		}
		name, _ := t.(string)
		if err := w.value(n, name); err != nil {
			return broken(err, "")
		}
	}
	if _, err := w.d.Token(); err != nil {
		return broken(err, "")
	}
	w.passed = w.passed[:len(w.passed)-1]
	n.ancestors = w.passed
	w.held -= len(n.raw)
	if !w.leave(n) {
		return errStop
	}
	return nil
}

// value reads the value of a member.
func (w *walk) value(n *node, name string) error {
	if w.branch(name) {
		return w.objects(n, name)
	}
	var raw json.RawMessage
	if err := w.d.Decode(&raw); err != nil {
		return err
	}
	w.member(n, name, raw)
	return nil
}

// member saves a member of an object.
func (w *walk) member(n *node, name string, raw []byte) {
	before := len(n.raw)
	if before > 0 {
		n.raw = append(n.raw, ',')
	}
	n.raw = field.AppendString(n.raw, name)
	n.raw = append(append(n.raw, ':'), raw...)
	w.held += len(n.raw) - before
}

// objects reads the member of n that holds objects: one, or a list.
func (w *walk) objects(n *node, name string) error {
	t, err := w.d.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		n.holds = true
		return w.object(name)
	case json.Delim('['):
		n.holds = true
	default:
		raw, err := json.Marshal(t)
		if err != nil {
			return err
		}
		w.member(n, name, raw)
		return nil
	}
	for w.d.More() {
		w.room()
		t, err := w.d.Token()
		if err != nil {
			return err
		}
		if t == json.Delim('{') {
			if err := w.object(name); err != nil {
				return err
			}
			continue
		}
		for depth := nesting(t); depth > 0; depth += nesting(t) {
			w.room()
			t, err = w.d.Token()
			if err != nil {
				return err
			}
		}
		w.stray(name)
	}
	_, err = w.d.Token()
	return err
}

// nesting is 1 for a token that opens a list or an object, -1 for one that closes it.
func nesting(t json.Token) int {
	switch t {
	case json.Delim('{'), json.Delim('['):
		return 1
	case json.Delim('}'), json.Delim(']'):
		return -1
	}
	return 0
}

// firefox is the JSON of a bookmark backup of Firefox.
var firefox = tree{
	branch: func(member string) bool { return member == "children" },
	folder: func(e *entry, _ *node) string {
		e.text("type")
		e.number("typeCode")
		name := e.text("title")
		if e.text("root") != "" { // folders that Firefox creates have no meaning
			return ""
		}
		return name
	},
	row: func(at string, e *entry, _ *node) Row {
		e.number("typeCode")
		if kind := e.text("type"); kind != "text/x-moz-place" {
			return Row{}
		}
		b := build(record.Bookmarks, at)
		b.title(e.text("title"))
		b.address("url", e.text("uri"))
		for _, a := range e.objects("annos") { // older versions have these
			if text(a.o, "name") == "bookmarkProperties/description" {
				a.text("name")
				b.text("description", a.text("value"), record.MaxDescription)
			}
		}
		b.tags(strings.Split(e.text("tags"), ",")...)
		b.Past.Created, b.Past.Updated = e.when("dateAdded"), e.when("lastModified")
		return b.Row
	},
}

// chrome is the file in which Chrome keeps bookmarks.
var chrome = tree{
	branch: func(member string) bool { return member != "meta_info" },
	folder: func(e *entry, n *node) string {
		e.text("type")
		name := e.text("name")
		if len(n.ancestors) <= 2 { // folders that Chrome creates have no meaning
			return ""
		}
		return name
	},
	row: func(at string, e *entry, _ *node) Row {
		if e.text("type") != "url" {
			return Row{}
		}
		b := build(record.Bookmarks, at)
		b.title(e.text("name"))
		b.address("url", e.text("url"))
		if since, err := strconv.ParseInt(text(e.o, "date_added"), 10, 64); err == nil && since > 0 {
			b.Past.Created = since1601(since)
		}
		for _, name := range []string{"date_added", "date_last_used"} {
			if t := text(e.o, name); t == "0" || name == "date_added" && !b.Past.Created.IsZero() {
				e.text(name)
			}
		}
		return b.Row
	},
}

// since1601 converts microseconds since 1601, as Windows counts them; zero if the
// instant is before 1970 or after 9999.
func since1601(n int64) time.Time {
	const between = 11_644_473_600 // seconds from 1601 to 1970
	at := time.UnixMicro(n - between*1e6).UTC()
	if at.Year() <= 1970 || at.Year() >= 10_000 {
		return time.Time{}
	}
	return at.Truncate(time.Millisecond)
}

// linkwarden is the JSON that Linkwarden exports: an account with collections
// and their links. Pinned links are listed once more.
var linkwarden = tree{
	branch: func(member string) bool {
		return member == "collections" || member == "links" || member == "pinnedLinks"
	},
	folder: func(e *entry, n *node) string {
		if n.key != "collections" { // the account
			return ""
		}
		return e.text("name")
	},
	row: func(at string, e *entry, n *node) Row {
		if n.key != "links" && n.key != "pinnedLinks" {
			return Row{}
		}
		name := e.text("name")
		address := e.text("url")
		if kind := text(e.o, "type"); address == "" && kind != "" && kind != "url" {
			return Row{At: at, Name: clean(name), Refused: noBytes}
		}
		e.text("type")
		b := build(record.Bookmarks, at)
		b.title(name)
		b.address("url", address)
		b.text("description", e.text("description"), record.MaxDescription)
		for _, t := range e.objects("tags") {
			b.tags(t.text("name"))
		}
		b.set("isFavorite", n.key == "pinnedLinks")
		b.Past.Created = e.when("importDate")
		if b.Past.Created.IsZero() {
			b.Past.Created = e.when("createdAt")
		}
		b.Past.Updated = e.when("updatedAt")
		return b.Row
	},
}
