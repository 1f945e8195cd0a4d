package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"kist/kv/record"
)

// maxFolders is how deep folders may be nested; deeper ones give no tags.
const maxFolders = 64

// Tags for properties that kist has no field for.
const (
	tagUnread   = "unread"
	tagArchived = "archived"
)

// netscape reads bookmarks in HTML: nested lists (DL) of entries (DT). An entry
// is a folder (H3) or a bookmark (A), with a description (DD) after it. Only
// lists are ever closed, and every program adds attributes. A description may
// have markup, of which the text is kept: only the DT of the next entry, and
// the beginning or the end of a DL end it.
func netscape(s Source) Rows {
	left := notRead("attribute")
	return left.after(func(yield func(Row, error) bool) {
		in := &bookmarks{z: html.NewTokenizer(s.text()), line: 1, yield: yield, left: left}
		in.z.SetMaxBuf(MaxEntry)
		in.read()
	})
}

// folderOf is a folder. A folder without a name gives no tag.
type folderOf struct {
	name string
	list bool // a list of Pocket or Instapaper, which gives the reading state
}

// description is the state within a DD.
type description struct {
	lists  int    // that began in it
	link   string // the address of the open link
	linked int    // where the text of the link begins
	ends   bool   // there was a DT: it ends if an entry comes before any text
}

type bookmarks struct {
	z     *html.Tokenizer
	line  int
	yield func(Row, error) bool
	left  *unread

	folders []folderOf // the folders around the entry, which become tags
	deeper  int        // lists beyond maxFolders
	next    folderOf   // the folder of the next list

	now         *builder // the current bookmark
	extra       []string // its tags
	text        *strings.Builder
	title, more strings.Builder // texts of the bookmark
	heading     strings.Builder
	inner       description
	about       strings.Builder // the description of a folder, which is not read
	plain       bool            // the heading is one that browsers create
}

func (in *bookmarks) read() {
	for {
		kind := in.z.Next()
		start := in.line
		in.line += bytes.Count(in.z.Raw(), []byte{'\n'})
		switch kind {
		case html.ErrorToken:
			err := in.z.Err()
			if errors.Is(err, html.ErrBufferExceeded) {
				err = unreadable("The entry on line %d is longer than %d bytes.", in.line, MaxEntry)
			}
			if in.flush() && err != io.EOF { //nolint:errorlint // the tokenizer returns it bare
				in.yield(Row{}, err)
			}
			return
		case html.TextToken:
			if in.text != nil && in.text.Len() < MaxEntry {
				in.write(html.UnescapeString(string(in.z.Raw())))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attributes := in.z.TagName()
			in.z.NextIsNotRawText() // a <title> in a description is not the beginning of a document
			if !in.open(atom.Lookup(name), attributes, start) {
				return
			}
		case html.EndTagToken:
			name, _ := in.z.TagName()
			if !in.close(atom.Lookup(name)) {
				return
			}
		}
	}
}

func (in *bookmarks) write(text string) {
	if in.inner.ends && strings.TrimSpace(text) != "" {
		in.inner.ends = false
	}
	in.text.WriteString(text)
}

// describes reports whether the text is a description.
func (in *bookmarks) describes() bool {
	return in.text != nil && (in.text == &in.more || in.text == &in.about)
}

// markup reads a start tag in a description. It reports false if the tag ends
// the description.
func (in *bookmarks) markup(tag atom.Atom, attributes bool) bool {
	switch tag {
	case atom.Dl:
		return false
	case atom.A, atom.H1, atom.H3:
		if in.inner.ends {
			return false
		}
	}
	switch tag {
	case atom.A:
		in.link(attributes)
	case atom.Dt:
		in.inner.ends = true
		in.text.WriteByte('\n')
	case atom.Ul, atom.Ol:
		in.inner.lists++
		in.text.WriteByte('\n')
	case atom.Br, atom.P, atom.Div, atom.Li, atom.Hr, atom.Dd, atom.Tr, atom.Blockquote,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		in.text.WriteByte('\n')
	}
	return true
}

// link begins a link in a description.
func (in *bookmarks) link(attributes bool) {
	in.inner.link, in.inner.linked = "", in.text.Len()
	for attributes {
		var key, value []byte
		key, value, attributes = in.z.TagAttr()
		if string(key) == "href" {
			in.inner.link = clean(string(value))
		}
	}
}

// unlink ends a link in a description with its address, unless that is its text.
func (in *bookmarks) unlink() {
	link := in.inner.link
	says := strings.Contains(in.text.String()[in.inner.linked:], link)
	if !says && in.text.Len() < MaxEntry {
		in.text.WriteString(" (" + link + ")")
	}
	in.inner.link = ""
}

func (in *bookmarks) open(tag atom.Atom, attributes bool, line int) bool {
	if in.describes() && in.markup(tag, attributes) {
		return true
	}
	switch tag {
	case atom.Dl, atom.Ul, atom.Ol:
		if !in.flush() {
			return false
		}
		if tag == atom.Dl && in.next.list {
			in.next = folderOf{} // the title of the page
		}
		if len(in.folders) == maxFolders {
			in.deeper++
		} else {
			in.folders = append(in.folders, in.next)
		}
		in.next = folderOf{}
	case atom.Dt, atom.Li, atom.Hr:
		return in.flush()
	case atom.H1, atom.H3:
		if !in.flush() {
			return false
		}
		in.heading.Reset()
		in.text, in.plain = &in.heading, false
		for attributes {
			var key, value []byte
			key, value, attributes = in.z.TagAttr()
			switch string(key) { // the roots that browsers create have no meaning
			case "personal_toolbar_folder", "unfiled_bookmarks_folder":
				in.plain = in.plain || string(value) == "true"
			default:
				if len(value) > 0 {
					in.left.add("folder." + string(key))
				}
			}
		}
	case atom.A:
		if !in.flush() {
			return false
		}
		in.begin(attributes, line)
	case atom.Dd:
		if in.now != nil {
			in.text = &in.more
		} else {
			in.about.Reset()
			in.text = &in.about
		}
	}
	return true
}

// begin starts a bookmark with the data of its attributes.
func (in *bookmarks) begin(attributes bool, line int) {
	b := build(record.Bookmarks, fmt.Sprintf("line %d", line))
	in.now, in.extra = b, nil
	in.title.Reset()
	in.more.Reset()
	in.text = &in.title
	b.address("url", "")
	for attributes {
		var key, raw []byte
		key, raw, attributes = in.z.TagAttr()
		value := string(raw)
		switch string(key) {
		case "href":
			b.address("url", clean(value))
		case "add_date", "time_added":
			b.Past.Created = seconds(value)
			if b.Past.Created.IsZero() && value != "0" && value != "" {
				in.left.add(string(key))
			}
		case "last_modified":
			b.Past.Updated = seconds(value)
			if b.Past.Updated.IsZero() && value != "0" && value != "" {
				in.left.add(string(key))
			}
		case "private":
			if value == "0" {
				b.Fields["isPublic"] = true
			}
		case "unread", "toread":
			if value == "1" {
				in.extra = append(in.extra, tagUnread)
			}
		case "tags":
			for _, tag := range strings.SplitN(value, ",", maxNames) {
				switch strings.TrimSpace(tag) {
				case "linkding:archived", "linkding:bookmarks.archived":
					tag = tagArchived
				}
				in.extra = append(in.extra, tag)
			}
		case "data-cover": // Raindrop's
			if value != "" && !b.picture(value) {
				in.left.add(string(key))
			}
		case "data-important":
			b.set("isFavorite", value == "true")
		default:
			if value != "" {
				in.left.add(string(key))
			}
		}
	}
}

func (in *bookmarks) close(tag atom.Atom) bool {
	if in.describes() {
		switch {
		case tag == atom.A:
			in.unlink()
			return true
		case (tag == atom.Ul || tag == atom.Ol) && in.inner.lists > 0:
			in.inner.lists--
			in.text.WriteByte('\n')
			return true
		}
	}
	switch tag {
	case atom.H1, atom.H3:
		if in.text == &in.heading {
			in.text = nil
			in.next = (folderOf{clean(in.heading.String()), tag == atom.H1})
			if in.plain {
				in.next = folderOf{}
			}
		}
	case atom.A:
		in.text = nil
	case atom.Dl, atom.Ul, atom.Ol:
		if !in.flush() {
			return false
		}
		switch {
		case in.deeper > 0:
			in.deeper--
		case len(in.folders) > 0:
			in.folders = in.folders[:len(in.folders)-1]
		}
	}
	return true
}

// linkding's notes are in the description, between marks.
const notesBegin, notesEnd = "[linkding-notes]", "[/linkding-notes]"

func (in *bookmarks) flush() bool {
	if in.text == &in.about && clean(in.about.String()) != "" {
		in.left.add("folder.description")
	}
	in.text, in.inner = nil, description{}
	b := in.now
	if b == nil {
		return true
	}
	in.now = nil
	title := clean(in.title.String())
	if title != b.Fields["url"] { // some programs write the address in place of a missing title
		b.title(title)
	}
	about, rest, found := strings.Cut(in.more.String(), notesBegin)
	if found {
		notes, after, _ := strings.Cut(rest, notesEnd)
		about = join(about, notes, after)
	}
	b.text("description", about, record.MaxDescription)
	for _, folder := range in.folders {
		if !folder.list || !b.state(strings.TrimPrefix(folder.name, "Read ")) { // "Read Archive" is Pocket's
			b.tags(folder.name)
		}
	}
	b.tags(in.extra...)
	return in.yield(b.Row, nil)
}
