package format

import (
	"bufio"
	"math"
	"path"
	"strconv"
	"strings"

	"kist/kv/record"
)

// Names of columns in lists of short links, in the form of column. The first
// that has a value is read.
var (
	linkTargets = []string{"longurl", "target", "originalurl", "destinationurl", "destination", "url"}
	linkSlugs   = []string{"shortcode", "keyword", "slug", "address", "alias"}
	linkShorts  = []string{"shorturl", "custombitlink", "bitlink", "shortlink", "link"}
	linkClicks  = []string{"visits", "clicks", "visitcount", "engagements", "totalclicks"}
	linkTitles  = []string{"title", "metatitle", "description"}
	linkDates   = []string{"createdat", "datecreated", "timestamp", "created", "creationdate", "createddate"}
	linkGuards  = []string{
		"password", "expirein", "expiresat", "expiry", "validsince", "validuntil", "maxvisits", "banned",
	}
)

// shortLink is a short link of another program.
type shortLink struct {
	slug    string // or its short address
	target  string
	about   string
	tags    []string
	clicks  string // "" if the source does not count them
	guarded bool   // it had a password, an end or a limit
	past    record.Past
}

// row makes a row of a short link. A short link is public there, and a private
// one would be useless, but one that was guarded does not become open to all.
func (l shortLink) row(at string) Row {
	b := build(record.Links, at)
	slug := clean(l.slug)
	if strings.Contains(slug, "/") {
		slug = path.Base(slug)
	}
	if slug != "" && slug != "." && slug != "/" {
		b.Name = slug
		b.Fields["slug"] = slug
	}
	b.address("originalUrl", clean(l.target))
	b.text("description", l.about, record.MaxDescription)
	b.tags(l.tags...)
	b.Past = l.past
	n, err := strconv.ParseInt(l.clicks, 10, 64)
	switch {
	case err == nil && n > 0:
		b.Past.Views = min(n, math.MaxInt32)
	case err != nil && l.clicks != "":
		b.note("The visits %q are not a number.", shown(l.clicks))
	}
	if l.guarded {
		b.note("It had a password, an end or a limit there, which is not imported. So it is private.")
		return b.Row
	}
	b.Fields["isPublic"] = true
	return b.Row
}

// shortLinks reads the short links of YOURLS, Kutt, Bitly, Shlink and others: CSV
// by the names of its columns, or the JSON that their APIs answer.
func shortLinks(s Source) Rows {
	first, _ := firstByte(bufio.NewReader(s.text()))
	switch first {
	case '{':
		return linkTree.read(s)
	case '[':
		left := notRead("member")
		return left.after(ofList(s.text(), "links", left, nil, linkOfEntry))
	}
	left := notRead("column")
	return left.after(ofColumns(s.text(), linkTargets, left, linkOfLine))
}

func linkOfLine(at string, l *csvLine) Row {
	one := shortLink{slug: l.cell(linkSlugs...)}
	if clean(one.slug) == "" {
		one.slug = l.cell(linkShorts...)
	}
	one.target = l.cell(linkTargets...)
	one.about = l.cell(linkTitles...)
	one.tags = splitTags(l.cell("tags"))
	one.clicks = strings.TrimSpace(l.cell(linkClicks...))
	one.past.Created = l.when(linkDates...)
	one.past.Updated = l.when("updatedat")
	for _, name := range linkGuards {
		one.guarded = one.guarded || l.says(name)
	}
	return one.row(at)
}

// linkTree is the JSON of an API: lists of links, maybe in an object that says
// which page it is. YOURLS numbers its links.
var linkTree = tree{
	branch: func(member string) bool {
		switch member {
		case "shortUrls", "data", "links":
			return true
		}
		return strings.HasPrefix(member, "link_")
	},
	folder: func(e *entry, _ *node) string {
		for _, name := range []string{"limit", "skip", "total", "statusCode"} {
			e.number(name)
		}
		e.text("message")
		return ""
	},
	row: func(at string, e *entry, n *node) Row {
		if n.number == 0 || n.key == "shortUrls" { // an empty list
			return Row{}
		}
		return linkOfEntry(at, e)
	},
}

func linkOfEntry(at string, e *entry) Row {
	one := shortLink{slug: e.first("shortCode", "keyword", "address")}
	custom := e.texts("custom_bitlinks")
	if len(custom) > 0 {
		one.slug = custom[0]
	}
	if one.slug == "" {
		one.slug = e.first("shorturl", "shortUrl", "link")
	}
	one.target = e.first("longUrl", "long_url", "target", "url")
	one.about = e.first("title", "description", "meta_title")
	one.tags = e.texts("tags")
	one.clicks = e.number("visit_count")
	visits := e.object("visitsSummary")
	if total := visits.number("total"); total != "" {
		one.clicks = total
	}
	if t, ok := e.o["clicks"].(string); ok {
		one.clicks = t
		e.text("clicks")
	}
	one.past.Created = e.when("dateCreated", "created_at", "timestamp")
	one.past.Updated = e.when("updated_at")
	limits := e.object("meta")
	for name, value := range limits.o {
		one.guarded = one.guarded || name != "title" && says(value)
	}
	for _, name := range []string{"password", "expire_in", "banned"} {
		one.guarded = one.guarded || says(e.o[name])
	}
	row := one.row(at)
	if len(custom) > 1 {
		row.Notes = append(row.Notes, "Only one of its short addresses is kept.")
	}
	return row
}
