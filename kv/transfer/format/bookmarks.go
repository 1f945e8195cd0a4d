package format

import (
	"cmp"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"

	"kist/kv/field"
	"kist/kv/record"
)

// A Bookmark is a bookmark on its way to other programs.
type Bookmark struct {
	URL, Title, Description, Picture string
	Tags                             []string
	Created, Updated                 time.Time
	Public, Favorite                 bool
}

// BookmarkOf is a bookmark with what other programs know of one.
func BookmarkOf(v *record.Shown, b *record.Bookmark) Bookmark {
	out := Bookmark{
		URL: b.URL, Title: b.Named(), Description: b.Description, Picture: b.ImageURL,
		Created: v.Created, Updated: v.Updated, Public: v.Public, Favorite: v.Favorite,
	}
	for _, t := range v.TagList {
		out.Tags = append(out.Tags, t.Name)
	}
	return out
}

// The beginning and the end of a file of bookmarks in HTML.
const (
	NetscapeBegin = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<META HTTP-EQUIV=\"Content-Type\" CONTENT=\"text/html; " +
		"charset=UTF-8\">\n<TITLE>Bookmarks</TITLE>\n<H1>Bookmarks</H1>\n<DL><p>\n"
	NetscapeEnd = "</DL><p>\n"
)

// AppendNetscape appends a bookmark as browsers, linkding and others read it in
// HTML. A bookmark without a title is called by its address. The attributes for
// the picture and the favourite are those of Raindrop.
func AppendNetscape(dst []byte, b *Bookmark) []byte {
	attribute := func(name, value string) {
		dst = append(append(append(dst, ' '), name...), `="`...)
		dst = append(append(dst, html.EscapeString(value)...), '"')
	}
	dst = append(dst, "<DT><A"...)
	attribute("HREF", b.URL)
	attribute("ADD_DATE", strconv.FormatInt(b.Created.Unix(), 10))
	if !b.Updated.IsZero() {
		attribute("LAST_MODIFIED", strconv.FormatInt(b.Updated.Unix(), 10))
	}
	if b.Public {
		attribute("PRIVATE", "0")
	} else {
		attribute("PRIVATE", "1")
	}
	if slices.Contains(b.Tags, tagUnread) {
		attribute("TOREAD", "1")
	}
	if len(b.Tags) > 0 {
		attribute("TAGS", strings.Join(b.Tags, ","))
	}
	if b.Picture != "" {
		attribute("DATA-COVER", b.Picture)
	}
	if b.Favorite {
		attribute("DATA-IMPORTANT", "true")
	}
	dst = append(append(append(dst, '>'), html.EscapeString(cmp.Or(b.Title, b.URL))...), "</A>\n"...)
	if b.Description == "" {
		return dst
	}
	return append(append(append(dst, "<DD>"...), html.EscapeString(b.Description)...), '\n')
}

// The beginning and the end of a file of bookmarks in JSON.
const (
	JSONBegin = `{"bookmarks":[`
	JSONEnd   = "\n]}\n"
)

// AppendJSON appends a bookmark as Karakeep reads it.
func AppendJSON(dst []byte, b *Bookmark, first bool) []byte {
	if !first {
		dst = append(dst, ',')
	}
	dst = append(dst, "\n"+`{"createdAt":`...)
	dst = strconv.AppendInt(dst, b.Created.Unix(), 10)
	dst = append(dst, `,"title":`...)
	if b.Title == "" {
		dst = append(dst, "null"...)
	} else {
		dst = field.AppendString(dst, b.Title)
	}
	dst = append(dst, `,"tags":`...)
	dst = field.AppendList(dst, b.Tags, field.AppendString)
	dst = field.AppendString(append(dst, `,"content":{"type":"link","url":`...), b.URL)
	dst = append(dst, `},"note":`...)
	if b.Description == "" {
		dst = append(dst, "null"...)
	} else {
		dst = field.AppendString(dst, b.Description)
	}
	dst = strconv.AppendBool(append(dst, `,"archived":`...), slices.Contains(b.Tags, tagArchived))
	dst = strconv.AppendBool(append(dst, `,"favourited":`...), b.Favorite)
	if b.Picture != "" {
		dst = field.AppendString(append(dst, `,"imageUrl":`...), b.Picture)
	}
	return append(dst, '}')
}
