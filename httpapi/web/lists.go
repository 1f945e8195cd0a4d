package web

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
)

// Bounds of a page.
const (
	DefaultPage = 50
	MaxPage     = 500
	PageBytes   = 4 << 20 // of JSON; a page ends before a record that would exceed this, but not before its first
	MaxOffset   = 10_000_000
)

// Arguments are the query parameters of an address and the problems found in them.
type Arguments struct {
	url.Values
	bad []string
}

// Refuse notes a problem; why begins with the name of the parameter.
func (a *Arguments) Refuse(why string) { a.bad = append(a.bad, why) }

func (a *Arguments) Number(name string, minimum, limit, otherwise int) int {
	t := a.Get(name)
	if t == "" {
		return otherwise
	}
	n, err := strconv.Atoi(t)
	if err != nil || n < minimum || n > limit {
		a.Refuse(name + " must be a whole number from " + strconv.Itoa(minimum) + " to " + strconv.Itoa(limit))
	}
	return n
}

// Flag reads a yes or no in the words that people use in addresses. It returns nil if
// the parameter is absent.
func (a *Arguments) Flag(name string) *bool {
	b := false
	switch strings.ToLower(a.Get(name)) {
	case "":
		return nil
	case "true", "1", "yes", "on":
		b = true
	case "false", "0", "no", "off":
	default:
		a.Refuse(name + " must be true or false")
	}
	return &b
}

// Page reads the parameters that every list has.
func (a *Arguments) Page(sorts []catalog.Sort) Page {
	p := Page{
		Limit: a.Number("limit", 1, MaxPage, DefaultPage), Offset: a.Number("offset", 0, MaxOffset, 0),
		Cursor: a.Get("cursor"), Sort: catalog.Sort(a.Get("sort")),
	}
	if p.Cursor != "" && a.Get("offset") != "" {
		a.Refuse("offset cannot be used together with cursor")
	}
	if p.Sort != "" && !slices.Contains(sorts, p.Sort) {
		a.Refuse("sort must be one of: " + Join(sorts))
	}
	p.Sort = cmp.Or(p.Sort, catalog.Newest)
	return p
}

// Err is an error that names all problems.
func (a *Arguments) Err() error {
	if len(a.bad) == 0 {
		return nil
	}
	return &record.Error{
		Fault: record.Malformed, Code: "bad_query",
		Text: "The parameter " + strings.Join(a.bad, "; the parameter ") + ".",
	}
}

func Join[T ~string](words []T) string {
	return strings.Join(field.Words(words), ", ")
}

// Page is the requested part of a list.
type Page struct {
	Limit, Offset int
	Cursor        string
	Sort          catalog.Sort
}

// ShortSorts are the orders of lists that are short enough to read whole: folders, keys
// and users.
var ShortSorts = []catalog.Sort{catalog.Newest, catalog.Oldest, catalog.Title}

// AnswerList answers a page of a short list. place returns the id and name of an entry.
// show is called only for the entries on the page.
func AnswerList[T any, S field.Shaped](
	c *Request,
	all func(*kv.Tx) ([]T, error),
	place func(*T) (record.ID, string),
	show func(*kv.Tx, *T) (S, error),
) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := Arguments{Values: values}
	p := args.Page(ShortSorts)
	if err := args.Err(); err != nil {
		return err
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		var order []placed
		var shown []S
		var total int
		if err := c.Site.Store.View(func(tx *kv.Tx) error {
			things, err := all(tx)
			if err != nil {
				return err
			}
			total = len(things)
			order, err = pick(p, c.R.URL.Path, total, func(no int) (record.ID, string) { return place(&things[no]) })
			if err != nil {
				return err
			}
			for i := range order[:min(len(order), p.Limit)] {
				v, err := show(tx, &things[order[i].no])
				if err != nil {
					return err
				}
				shown = append(shown, v)
			}
			return nil
		}); err != nil {
			return dst, err
		}
		dst, n := AppendPage(append(dst, `{"data":`...), shown, p.Limit)
		next := ""
		if n < len(order) {
			next = p.Write(c.R.URL.Path, order[n-1].at)
		}
		return AppendEnd(dst, total, next), nil
	})
}

// PageFull reports whether a page ends before its next entry. bytes is the size of the
// page with that entry, n the number of entries without it.
func PageFull(bytes, n int) bool { return bytes > PageBytes && n > 0 }

// AppendPage appends a page of at most limit entries and returns how many it has.
func AppendPage[T field.Shaped](dst []byte, all []T, limit int) ([]byte, int) {
	dst = append(dst, '[')
	first, n := len(dst), 0
	for ; n < min(len(all), limit); n++ {
		before := len(dst)
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = field.AppendJSON(dst, all[n])
		if PageFull(len(dst)-first, n) {
			dst = dst[:before]
			break
		}
	}
	return append(dst, ']'), n
}

// RespondWhole answers with a list that has no pages; it puts before and after around the
// entries.
func RespondWhole[T field.Shaped](c *Request, all []T, before, after string) error {
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		return append(AppendAll(append(dst, before...), all), after...), nil
	})
}

// AppendEnd ends the answer of a list after its data.
func AppendEnd(dst []byte, total int, next string) []byte {
	dst = strconv.AppendInt(append(dst, `,"total":`...), int64(total), 10)
	dst = append(dst, `,"nextCursor":`...)
	if next == "" {
		return append(dst, "null}"...)
	}
	return append(field.AppendString(dst, next), '}')
}

// maxPlace limits the name in a cursor in bytes, to keep cursors short. Names with a
// longer common beginning are sorted by age.
const maxPlace = 48

// A placed is the number of an entry of a list, and its place there.
type placed struct {
	at []byte
	no int
}

// pick returns the rest of the named list of n entries from where the page begins. A cursor holds the
// place of an entry and not the number of entries before it, so additions and removals
// between two pages do not disturb the reader. It is not generic: sorting is much code, for each type again.
func pick(p Page, list string, n int, place func(no int) (record.ID, string)) ([]placed, error) {
	after, err := p.Position(list)
	if err != nil {
		return nil, err
	}
	order := make([]placed, n)
	for i := range order {
		id, name := place(i)
		order[i].no = i
		if p.Sort == catalog.Title {
			name = record.Fold(name)
			order[i].at = append([]byte(name[:min(len(name), maxPlace)]), 0)
		}
		order[i].at = append(order[i].at, id[:]...)
	}
	compare := func(x, y []byte) int {
		if p.Sort == catalog.Oldest || p.Sort == catalog.Title {
			return bytes.Compare(x, y)
		}
		return bytes.Compare(y, x)
	}
	slices.SortFunc(order, func(x, y placed) int { return compare(x.at, y.at) })
	if len(after) > 0 {
		order = slices.DeleteFunc(order, func(x placed) bool { return compare(x.at, after) <= 0 })
	}
	return order[min(p.Offset, len(order)):], nil
}

const CursorVersion = 1

// mark is the beginning of all cursors of the list in this order.
func (p *Page) mark(list string) []byte {
	h := fnv.New64a()
	_, _ = io.WriteString(h, list+" "+string(p.Sort)) // cannot fail
	return h.Sum([]byte{CursorVersion})
}

func (p *Page) Write(list string, place []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(p.mark(list), place...))
}

// Position reads the cursor. An empty place is the start of the list.
func (p *Page) Position(list string) (place []byte, err error) {
	if p.Cursor == "" {
		return []byte{}, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(p.Cursor)
	place, ok := bytes.CutPrefix(b, p.mark(list))
	if err != nil || !ok || len(place) < len(record.ID{}) || len(place) > maxPlace+1+len(record.ID{}) {
		return nil, ErrCursor
	}
	return place, nil
}

var ErrCursor = &record.Error{Fault: record.Malformed, Code: "bad_cursor", Text: "The cursor is not one of this list."}

// PageParams are the parameters of every list.
func PageParams(sorts []catalog.Sort) []Param {
	return []Param{
		{
			"query", "limit", "Maximum number of records on a page. A page also ends at 4 MiB. Continue with nextCursor.",
			Object{"type": "integer", "minimum": 1, "maximum": MaxPage, "default": DefaultPage},
		},
		{
			"query", "offset", "Number of records to skip; not together with cursor.",
			Object{"type": "integer", "minimum": 0, "maximum": MaxOffset},
		},
		{"query", "cursor", "nextCursor of the previous page.", Object{"type": "string"}},
		{"query", "sort", "The order; default newest.", EnumOf(field.Words(sorts), false)},
	}
}
