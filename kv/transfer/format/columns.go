package format

import (
	"archive/zip"
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// column is the form in which names of columns are compared: the letters of the
// name in lower case.
func column(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// csvLine is a line of a CSV file. It remembers which cells were read.
type csvLine struct {
	columns map[string]int // index by the compared form of the name
	names   []string       // names of the columns, as in the file
	cells   []string       // reused for the next line by the reader
	read    []bool
}

// cell returns the first of the given columns that is not empty. The others
// count as not read.
func (l *csvLine) cell(columns ...string) string {
	for _, name := range columns {
		if i, ok := l.columns[name]; ok && i < len(l.cells) && strings.TrimSpace(l.cells[i]) != "" {
			l.read[i] = true
			return strings.Clone(l.cells[i])
		}
	}
	return ""
}

// when reads an instant like cell. A cell with another form counts as not read.
func (l *csvLine) when(columns ...string) time.Time {
	for _, name := range columns {
		if text := l.cell(name); text != "" {
			at := date(text)
			l.read[l.columns[name]] = !at.IsZero()
			return at
		}
	}
	return time.Time{}
}

// yes reads a word for yes or no. Another word counts as not read.
func (l *csvLine) yes(columns ...string) bool {
	for _, name := range columns {
		switch strings.ToLower(strings.TrimSpace(l.cell(name))) {
		case "":
			continue
		case "1", "true", "yes":
			return true
		case "0", "false", "no":
			return false
		}
		l.read[l.columns[name]] = false
	}
	return false
}

// has reports whether there is a column with the name.
func (l *csvLine) has(name string) bool {
	_, ok := l.columns[name]
	return ok
}

// says reports whether a cell has a value that is not a word for no, and leaves
// it unread.
func (l *csvLine) says(name string) bool {
	i, ok := l.columns[name]
	if !ok || i >= len(l.cells) {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(l.cells[i])) {
	case "", "0", "false", "no", "null":
		return false
	}
	return true
}

// entry is the line as an object, with the names of the columns in lower case. Its
// cells count as read here.
func (l *csvLine) entry(left *unread) *entry {
	o := field.Object{}
	for i, cell := range l.cells {
		if i < len(l.names) && strings.TrimSpace(cell) != "" {
			o[strings.ToLower(strings.TrimSpace(l.names[i]))] = strings.Clone(cell)
			l.read[i] = true
		}
	}
	return &entry{o: o, unread: left}
}

// done counts the cells that were not read.
func (l *csvLine) done(left *unread) {
	for i, cell := range l.cells {
		if i < len(l.read) && l.read[i] || strings.TrimSpace(cell) == "" {
			continue
		}
		if i < len(l.names) && strings.TrimSpace(l.names[i]) != "" {
			left.add(l.names[i])
		} else {
			left.add(strconv.Itoa(i + 1)) // a column without a name
		}
	}
}

// ofColumns makes rows from the lines of a CSV file (RFC 4180). The first line
// names the columns. media.Separator tells what separates them.
func ofColumns(r io.Reader, needed []string, left *unread, row func(at string, l *csvLine) Row) Rows {
	return func(yield func(Row, error) bool) {
		buffered := bufio.NewReader(r)
		limit := &gauge{r: buffered, most: maxLine, left: maxLine}
		in := csv.NewReader(limit)
		in.FieldsPerRecord, in.LazyQuotes, in.ReuseRecord = -1, true, true
		head, _ := buffered.Peek(4096)
		separator, rest := media.Separator(string(head))
		in.Comma = separator
		_, _ = buffered.Discard(len(head) - len(rest)) // they are buffered
		var l *csvLine
		for {
			limit.left = maxLine
			cells, err := in.Read()
			if errors.Is(err, io.EOF) {
				if l == nil {
					yield(Row{}, unreadable("It is empty."))
				}
				return
			}
			if bad, ok := errors.AsType[*csv.ParseError](err); ok {
				err = unreadable("It is not valid CSV: %v.", bad)
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			if len(cells) > maxCells {
				yield(Row{}, unreadable("A line has more than %d columns.", maxCells))
				return
			}
			if l == nil {
				l = &csvLine{columns: map[string]int{}, read: make([]bool, len(cells))}
				for i, name := range cells {
					l.names = append(l.names, strings.Clone(name))
					if _, twice := l.columns[column(name)]; !twice {
						l.columns[column(name)] = i
					}
				}
				if !slices.ContainsFunc(needed, l.has) {
					yield(Row{}, unreadable("The first line does not name a column %q.", needed[0]))
					return
				}
				continue
			}
			l.cells = cells
			clear(l.read)
			at, _ := in.FieldPos(0)
			made := row(fmt.Sprintf("line %d", at), l)
			l.done(left)
			if !yield(made, nil) {
				return
			}
		}
	}
}

// splitTags splits the tags of a cell: a list in JSON, or separated by | or
// commas.
func splitTags(cell string) []string {
	if names, ok := jsonTags(cell); ok {
		return names
	}
	if strings.Contains(cell, "|") {
		return strings.SplitN(cell, "|", maxNames)
	}
	return strings.SplitN(cell, ",", maxNames)
}

// jsonTags reads a list in JSON.
func jsonTags(cell string) (names []string, ok bool) {
	in := json.NewDecoder(strings.NewReader(cell))
	if t, err := in.Token(); err != nil || t != json.Delim('[') {
		return nil, false
	}
	for in.More() && len(names) < maxNames {
		var name string
		if in.Decode(&name) != nil {
			return nil, false
		}
		names = append(names, name)
	}
	if len(names) == maxNames {
		return names, true
	}
	_, err := in.Token()
	return names, err == nil && !in.More()
}

// linksIn reads bookmarks in CSV, or Pocket's zip of such files. It reads the
// files of all programs by the names of their columns, so that a known column
// is read wherever it occurs.
func linksIn(s Source) Rows {
	left := notRead("column")
	if isZip(s) {
		return left.after(inZip(s, func(z *zip.Reader) Rows {
			return eachPart(z, pocketPart, func(r io.Reader) Rows { return links(r, left) })
		}))
	}
	return left.after(links(s.text(), left))
}

func links(r io.Reader, left *unread) Rows {
	return ofColumns(r, []string{"url"}, left, func(at string, l *csvLine) Row {
		b := build(record.Bookmarks, at)
		url := l.cell("url")
		if title := l.cell("title", "name"); title != url { // Pocket writes the address in place of a missing title
			b.title(title)
		}
		b.address("url", url)
		b.text("description", join(
			l.cell("excerpt"), l.cell("description"), l.cell("summary"), l.cell("selection"),
			l.cell("note"), l.cell("notes"), l.cell("highlights"),
		), record.MaxDescription)
		if cover := l.cell("cover", "image", "thumbnail"); cover != "" && !b.picture(cover) {
			b.note("The address of the picture cannot be kept: %s", shown(cover))
		}
		folder := strings.TrimSpace(l.cell("folder", "collection"))
		switch strings.ToLower(folder) {
		case "unsorted": // Raindrop's word for no folder
		case "unread", "archive", "starred": // Instapaper's words for no folder
			b.state(folder)
		default:
			b.tags(strings.SplitN(folder, " / ", maxNames)...)
		}
		b.tags(splitTags(l.cell("tags", "labels"))...)
		if state := l.cell("status", "state"); state != "" && !b.state(state) {
			b.note("The state %q is not imported.", shown(state))
		}
		b.set("isFavorite", l.yes("favorite", "favourite", "starred"))
		b.Past.Created = l.when("created", "timeadded", "timestamp", "createdat", "dateadded", "savedat", "added", "date")
		b.Past.Updated = l.when("updated", "updatedat", "modified", "lastupdate")
		return b.Row
	})
}

// state sets what a read-later program says about the state of a page. It
// reports false for an unknown state.
func (b *builder) state(name string) bool {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "unread":
		b.tags(tagUnread)
	case "archive", "archived":
		b.tags(tagArchived)
	case "starred", "favorite", "favourite":
		b.Fields["isFavorite"] = true
	case "", "read", "active", "succeeded":
	default:
		return false
	}
	return true
}
