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

// maxFolders is how deep folders may lie in one another; those below give no
// tags.
const maxFolders = 64

// Tags that stand for what kist has no field for.
const (
	tagUnread   = "unread"
	tagArchived = "archived"
)

// netscape reads bookmarks in HTML: nested lists (DL) of entries (DT) that are
// folders (H3) or bookmarks (A), with a description (DD) after them. Nothing is
// ever closed but lists, and every program adds attributes.
func netscape(r io.Reader) Rows {
	return func(yield func(Row, error) bool) {
		in := &bookmarks{z: html.NewTokenizer(skipBOM(r)), line: 1, yield: yield}
		in.z.SetMaxBuf(MaxEntry)
		in.read()
	}
}

type bookmarks struct {
	z     *html.Tokenizer
	line  int
	yield func(Row, error) bool

	folders []string // names that become tags; "" gives none
	deeper  int      // lists beyond maxFolders
	next    string   // the folder that the next list belongs to

	now         *builder // the bookmark that is read
	extra       []string // tags of it
	text        *strings.Builder
	title, more strings.Builder // texts of the bookmark
	heading     strings.Builder
	plain       bool // the heading is one that browsers make
}

func (in *bookmarks) read() {
	for {
		kind := in.z.Next()
		begun := in.line
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
				in.text.WriteString(html.UnescapeString(string(in.z.Raw())))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attributes := in.z.TagName()
			if !in.open(atom.Lookup(name), attributes, begun) {
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

func (in *bookmarks) open(tag atom.Atom, attributes bool, line int) bool {
	switch tag {
	case atom.Dl, atom.Ul:
		if !in.flush() {
			return false
		}
		if len(in.folders) == maxFolders {
			in.deeper++
		} else {
			in.folders = append(in.folders, in.next)
		}
		in.next = ""
	case atom.Dt, atom.Li, atom.Hr:
		return in.flush()
	case atom.H3:
		if !in.flush() {
			return false
		}
		in.heading.Reset()
		in.text, in.plain = &in.heading, false
		for attributes {
			var key, value []byte
			key, value, attributes = in.z.TagAttr()
			switch string(key) { // the roots that browsers make say nothing
			case "personal_toolbar_folder", "unfiled_bookmarks_folder":
				in.plain = in.plain || string(value) == "true"
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
		}
	case atom.Br:
		if in.text == &in.more {
			in.more.WriteByte('\n')
		}
	}
	return true
}

// begin begins a bookmark with what its attributes say.
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
		case "last_modified":
			b.Past.Updated = seconds(value)
		case "private":
			if value == "0" {
				b.Fields["isPublic"] = true
			}
		case "toread":
			if value == "1" {
				in.extra = append(in.extra, tagUnread)
			}
		case "tags":
			for tag := range strings.SplitSeq(value, ",") {
				switch strings.TrimSpace(tag) {
				case "linkding:archived", "linkding:bookmarks.archived":
					tag = tagArchived
				}
				in.extra = append(in.extra, tag)
			}
		}
	}
}

func (in *bookmarks) close(tag atom.Atom) bool {
	switch tag {
	case atom.H3:
		if in.text == &in.heading {
			in.text = nil
			if in.next = clean(in.heading.String()); in.plain {
				in.next = ""
			}
		}
	case atom.A:
		in.text = nil
	case atom.Dl, atom.Ul:
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

// linkding's notes stand in the description, between marks.
const notesBegin, notesEnd = "[linkding-notes]", "[/linkding-notes]"

// flush yields the bookmark that was read.
func (in *bookmarks) flush() bool {
	in.text = nil
	b := in.now
	if b == nil {
		return true
	}
	in.now = nil
	b.title(in.title.String())
	about, rest, found := strings.Cut(in.more.String(), notesBegin)
	if found {
		notes, after, _ := strings.Cut(rest, notesEnd)
		about = join(about, notes, after)
	}
	b.text("description", about, record.MaxDescription)
	b.tags(in.folders...)
	b.tags(in.extra...)
	return in.yield(b.Row, nil)
}
