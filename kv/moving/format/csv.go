package format

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"unicode"

	"kist/kv/record"
)

// column is the name of a column as it is compared: its letters in lower case.
func column(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// ofColumns makes rows of the lines of a CSV file (RFC 4180), whose first names
// the columns. The separator is a comma, or a semicolon where the first line
// has that and no comma.
func ofColumns(r io.Reader, needed string, row func(at string, cell func(column string) string) Row) Rows {
	return func(yield func(Row, error) bool) {
		limit := &gauge{r: skipBOM(r), left: MaxEntry}
		in := csv.NewReader(limit)
		in.FieldsPerRecord, in.LazyQuotes, in.ReuseRecord = -1, true, true
		buffered := limit.r.(interface{ Peek(int) ([]byte, error) })
		head, _ := buffered.Peek(4096)
		if line, _, _ := bytes.Cut(head, []byte("\n")); bytes.ContainsRune(line, ';') && !bytes.ContainsRune(line, ',') {
			in.Comma = ';'
		}
		columns := map[string]int{}
		for {
			limit.left = MaxEntry
			cells, err := in.Read()
			if errors.Is(err, io.EOF) {
				if len(columns) == 0 {
					yield(Row{}, unreadable("It is empty."))
				}
				return
			}
			var bad *csv.ParseError
			if errors.As(err, &bad) {
				err = unreadable("It is no CSV: %v.", bad)
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			if len(columns) == 0 {
				for i, name := range cells {
					columns[column(name)] = i
				}
				if _, ok := columns[needed]; !ok {
					yield(Row{}, unreadable("The first line does not name a column %q.", needed))
					return
				}
				continue
			}
			line, _ := in.FieldPos(0)
			if !yield(row(fmt.Sprintf("line %d", line), func(name string) string {
				if i, ok := columns[name]; ok && i < len(cells) {
					return strings.Clone(cells[i]) // the reader uses it again
				}
				return ""
			}), nil) {
				return
			}
		}
	}
}

// listed splits the tags of a cell.
func listed(cell string) []string {
	if strings.Contains(cell, "|") {
		return strings.Split(cell, "|")
	}
	return strings.Split(cell, ",")
}

// pocket reads the CSV of Pocket's export, or the zip that it came in.
func pocket(s Source) Rows {
	if isZip(s) {
		return eachCSV(s, func(r io.Reader) Rows { return pocketCSV(r) })
	}
	return pocketCSV(s.stream())
}

func pocketCSV(r io.Reader) Rows {
	return ofColumns(r, "url", func(at string, cell func(string) string) Row {
		b := build(record.Bookmarks, at)
		if title := cell("title"); title != cell("url") { // which Pocket puts in place of none
			b.title(title)
		}
		b.address("url", cell("url"))
		b.tags(listed(cell("tags"))...)
		switch cell("status") {
		case "unread":
			b.tags(tagUnread)
		case "archive":
			b.tags(tagArchived)
		}
		b.Past.Created = seconds(cell("timeadded"))
		return b.Row
	})
}

// shlink reads the CSV of Shlink's web client. Short links are public there, and
// of no use otherwise.
func shlink(r io.Reader) Rows {
	return ofColumns(r, "longurl", func(at string, cell func(string) string) Row {
		b := build(record.Links, at)
		slug := or(cell("shortcode"), path.Base(cell("shorturl")))
		if slug = clean(slug); slug != "." && slug != "/" {
			b.Name = slug
			b.Fields["slug"] = slug
		}
		b.address("originalUrl", clean(cell("longurl")))
		b.text("description", cell("title"), record.MaxDescription)
		b.Fields["isPublic"] = true
		b.tags(listed(cell("tags"))...)
		b.Past.Created = date(cell("createdat"))
		if n, err := strconv.ParseInt(cell("visits"), 10, 64); err == nil && n > 0 {
			b.Past.Views = min(n, math.MaxInt32)
		}
		return b.Row
	})
}
