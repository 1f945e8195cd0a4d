package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
	"kist/search"
)

// searchWait is how long a request waits for the index to be ready and near
// the store's latest change, and how long a search may read records through
// when it is not.
const searchWait = time.Second

// enough is how many results are not filled up with what fits but for a typing
// error.
const enough = 20

// maxTail is how many changes the index may lack that are read instead.
const maxTail = 1000

// indexLookup asks the index, and what it lacks, at the transaction's instant. There
// are no hits without an error when the index cannot be asked: then records
// are to be read through.
type indexLookup func(*search.Finder) (*search.Hits, error)

var noIndex indexLookup = func(*search.Finder) (*search.Hits, error) { return nil, search.ErrUnusable }

// viewWithIndex runs fn in a View of the store. If it asks, the index is as it was
// before that began, and the changes since then are added from the feed, so
// that whatever was written before the request is found. fn may run a second
// time, without the index, if its first error is ErrUnusable.
func (c *request) viewWithIndex(asks bool, fn func(*kv.Tx, indexLookup) error) error {
	err := c.viewWithRecentIndex(asks, fn)
	if err != nil && c.r.Context().Err() != nil {
		// The client has gone, as those do that ask with every letter typed.
		panic(http.ErrAbortHandler)
	}
	return err
}

// viewWithRecentIndex is looking, for a client that waits for the answer.
func (c *request) viewWithRecentIndex(asks bool, fn func(*kv.Tx, indexLookup) error) error {
	without := func() error {
		return c.s.Store.View(func(tx *kv.Tx) error { return fn(tx, noIndex) })
	}
	if !asks {
		return without()
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), searchWait)
	defer cancel()
	for ctx.Err() == nil {
		place, far, err := c.viewAtIndex(ctx, fn)
		switch {
		case errors.Is(err, search.ErrUnusable):
			return without()
		case !far:
			return err
		}
		c.s.Search.Hurry(ctx, place)
	}
	return without()
}

// viewAtIndex runs fn with the index as it is now, and says which place that has
// reached. far says that it is too far from the latest change for fn to run.
func (c *request) viewAtIndex(ctx context.Context, fn func(*kv.Tx, indexLookup) error) (place uint64, far bool, err error) {
	view, ok := c.s.Search.View(ctx)
	if !ok {
		return 0, false, search.ErrUnusable
	}
	defer view.Close()
	err = c.s.Store.View(func(tx *kv.Tx) error {
		tail, err := tx.Changes(view.Place(), maxTail)
		if err != nil {
			return err
		}
		if n := len(tail); n > 0 {
			more, err := tx.Changes(tail[n-1].Seq, 1)
			if far = len(more) > 0; err != nil || far {
				return err
			}
		}
		return fn(tx, func(f *search.Finder) (*search.Hits, error) { return view.Find(c.r.Context(), f, tail) })
	})
	return view.Place(), far, err
}

// list reads a page of records that fit what is looked for. Typing errors are
// allowed for when nothing is found without: a list is not in the order of how
// well its records fit.
func (c *request) list(tx *kv.Tx, q kv.Query, text *search.Query, look indexLookup) (kv.Page, error) {
	if q.Text == "" {
		return tx.List(q)
	}
	var page kv.Page
	var err error
	for _, strict := range []bool{true, false} {
		one := *text
		one.Narrow(q.Kind, nil)
		finder := one.For(q.Owner, strict, tx.TagNames(q.Owner))
		hits, unusable := look(finder)
		switch {
		case unusable == nil:
			q.Among, q.Match = hits.IDs(), nil
		case errors.Is(unusable, search.ErrUnusable):
			q.Among = nil
			q.Match = func(r *record.Record) bool {
				_, ok := c.s.Search.Score(finder, r)
				return ok && c.r.Context().Err() == nil
			}
		default:
			return page, unusable
		}
		if page, err = tx.List(q); err != nil || page.Total > 0 || !text.MayErr() {
			break
		}
	}
	if gone := c.r.Context().Err(); gone != nil {
		return page, gone
	}
	return page, err
}

// searchParams are the parameters of the search.
func searchParams() []param {
	text := object{"type": "string"}
	return []param{
		{"query", "q", "What to look for: words, of which the beginnings are enough, \"words in a row\", tag:x, kind:note, is:public, is:private, is:favorite; a minus in front of any of these excludes.", object{"type": "string", "maxLength": search.MaxText}, "summer tag:travel"},
		{"query", "kind", "One kind alone, by its name or that of its list.", text, "note"},
		{"query", "tag", "Name of a tag; repeat it to ask for several at once.", object{"type": "array", "items": text}, []string{"travel"}},
		{"query", "limit", "Results of a page.", object{"type": "integer", "minimum": 1, "maximum": maxPage, "default": defaultPage}, 20},
		{"query", "cursor", "nextCursor of the page before.", text, "AQ"},
	}
}

// result is one thing that was found, as the search shows it.
type result struct {
	record.Shown
	search.Highlight
	whole []byte // the record as its list shows it, in brief
}

// Fields is the shape of a result, which is the same for all kinds.
func (v *result) Fields(s *field.Set) {
	s.Shown("kind", schemaOfKind, func(dst []byte) []byte {
		return field.AppendString(dst, v.Kind.Name)
	}).Says("What it is.", `"note"`)
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Its id.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.Text("slug", &v.Slug, record.MaxSlug, field.ReadOnly).Says("Its public identifier.", `"summer-24"`)
	s.LongText("title", &v.Highlight.Title, field.MaxURL, field.ReadOnly).
		Says("Its title; the name of a file; without one, what it begins with.", `"Summer"`)
	s.Shown("highlight", schemaOfHighlight, func(dst []byte) []byte {
		return field.AppendJSON(dst, &highlight{&v.Highlight})
	}).Says("Where the words are: plain text, and ranges [start, end) in it in UTF-16 code units, in order.",
		`{"title":[[0,6]],"text":"A summer by the sea","ranges":[[2,8]]}`)
	s.Shown("tags", schemaOfNames, v.AppendTagNames).
		Says("Names of its tags.", `["travel"]`)
	s.Shown("url", field.Schema{Type: "string", Format: "uri"}, v.AppendURL).
		Says("Where others reach it.", `"https://kist.example.org/v/summer-24"`)
	s.Bool("isPublic", &v.Public, field.ReadOnly).Says("Whether others can see it.", `true`)
	s.Bool("isFavorite", &v.Favorite, field.ReadOnly).Says("Whether it is a favourite.", `false`)
	s.Time("createdAt", &v.Created, field.ReadOnly, field.Always).Says("When it was made.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("updatedAt", &v.Updated, field.ReadOnly, field.Always).Says("When its owner last changed it.", `"2026-01-02T03:04:05.678Z"`)
	s.Shown("record", field.Schema{Type: "object", Free: true}, func(dst []byte) []byte { return append(dst, v.whole...) }).
		Says("The record as the list of its kind shows it, with brief=true.", `{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}`)
}

// The schemas of members of a result. A result is bound for each record that is
// found.
var (
	schemaOfKind      = field.Schema{Type: "string", Enum: kindNames()}
	schemaOfMarks     = field.Schema{Type: "array", Items: &field.Schema{Type: "array", Items: &field.Schema{Type: "integer"}}}
	schemaOfHighlight = field.ObjectOf(&highlight{new(search.Highlight)})
	schemaOfNames     = field.Schema{Type: "array", Items: &field.Schema{Type: "string"}}
)

// highlight is the part of a result that says where the words are.
type highlight struct{ *search.Highlight }

func (h *highlight) Fields(s *field.Set) {
	s.Shown("title", schemaOfMarks, func(dst []byte) []byte { return appendMarks(dst, h.TitleMarks) }).Says("In the title.", `[[0,6]]`)
	s.LongText("text", &h.Text, record.MaxContent, field.ReadOnly).Says("An excerpt of the rest.", `"A summer by the sea"`)
	s.Shown("ranges", schemaOfMarks, func(dst []byte) []byte { return appendMarks(dst, h.TextMarks) }).Says("In the text.", `[[2,8]]`)
}

func resultsOf() *content {
	return named("SearchResultList", jsonOf(members(object{
		"data":       allOf("SearchResult"),
		"total":      wholeTotal,
		"nextCursor": nextCursor,
		"incomplete": object{"type": "boolean", "description": "Whether there may be more: the index is being made, and not all records could be read in time."},
		"tookMs":     object{"type": "number", "description": "How long it took, in milliseconds.", "example": 1.25},
	}, "data", "total", "nextCursor", "incomplete", "tookMs"), nil))
}

func appendMarks(dst []byte, marks []search.Range) []byte {
	dst = append(dst, '[')
	for i, m := range marks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, '['), int64(m[0]), 10)
		dst = append(strconv.AppendInt(append(dst, ','), int64(m[1]), 10), ']')
	}
	return append(dst, ']')
}

// searchAll looks for records of every kind.
func searchAll(c *request) error {
	begun := time.Now()
	values, err := c.query()
	if err != nil {
		return err
	}
	args := arguments{Values: values}
	limit := args.number("limit", 1, maxPage, defaultPage)
	var kind *record.Kind
	if t := args.Get("kind"); t != "" {
		if kind = search.KindNamed(t); kind == nil {
			args.refuse("kind must be one of: " + join(kindNames()))
		}
	}
	if err := args.err(); err != nil {
		return err
	}
	text, err := search.Parse(args.Get("q"))
	if err != nil {
		return err
	}
	tags := tagNames(values)
	text.Narrow(kind, tags)
	print := searchPrint(args.Get("q"), kind, tags)
	after, err := readHit(args.Get("cursor"), print)
	if err != nil {
		return err
	}
	return c.respondLarge(http.StatusOK, pageBytes, func(dst []byte) ([]byte, error) {
		err := c.viewWithIndex(true, func(tx *kv.Tx, look indexLookup) error {
			finder := text.For(c.owner(), true, tx.TagNames(c.owner()))
			hits, complete, err := c.hits(tx, finder, kind, look)
			if err == nil && complete && text.MayErr() && hits.Total() < enough {
				finder = text.For(c.owner(), false, tx.TagNames(c.owner()))
				hits, complete, err = c.hits(tx, finder, kind, look)
			}
			if err != nil {
				return err
			}
			total := hits.Total()
			page := hits.Page(after, limit+1)
			next := ""
			if len(page) > limit {
				page = page[:limit]
				next = writeHit(print, page[limit-1])
			}
			dst = append(dst, `{"data":[`...)
			first := len(dst)
			for i, h := range page {
				if err := c.r.Context().Err(); err != nil {
					return err
				}
				r, err := tx.Owned(c.owner(), h.Kind, h.ID)
				if missing(err) { // the store decides
					total--
					continue
				}
				if err != nil {
					return err
				}
				if len(dst) > first {
					dst = append(dst, ',')
				}
				before := len(dst)
				if dst, err = c.showResult(tx, dst, finder, r); err != nil {
					return err
				}
				if pageFull(len(dst)-first, before-first) {
					dst, next = bytes.TrimSuffix(dst[:before], []byte(",")), writeHit(print, page[i-1])
					break
				}
			}
			dst = strconv.AppendBool(append(dst, `],"incomplete":`...), !complete)
			took := float64(time.Since(begun).Microseconds()) / 1000
			dst = strconv.AppendFloat(append(dst, `,"tookMs":`...), took, 'f', 3, 64)
			dst = appendEnd(dst, total, next)
			return nil
		})
		return dst, err
	})
}

// hits asks the index, or reads records through for a while.
func (c *request) hits(tx *kv.Tx, f *search.Finder, kind *record.Kind, look indexLookup) (*search.Hits, bool, error) {
	hits, err := look(f)
	if !errors.Is(err, search.ErrUnusable) {
		return hits, true, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), searchWait)
	defer cancel()
	hits, complete := c.s.Search.Scan(ctx, f, everything(tx, c.owner(), kind))
	return hits, complete, c.r.Context().Err()
}

// everything yields the owner's records of a kind, or of all if that is nil.
func everything(tx *kv.Tx, owner record.ID, kind *record.Kind) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		for _, k := range record.Kinds {
			if kind != nil && k != kind {
				continue
			}
			for r, err := range tx.Newest(owner, k) {
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

func (c *request) showResult(tx *kv.Tx, dst []byte, f *search.Finder, r *record.Record) ([]byte, error) {
	h, err := c.s.Search.Highlight(f, r)
	if err != nil {
		return dst, err
	}
	brief, err := r.Brief()
	if err != nil {
		return dst, err
	}
	v := result{Highlight: h}
	if v.whole, err = c.s.show(tx, nil, brief); err != nil {
		return dst, err
	}
	if err := tx.Show(r, &v.Shown); err != nil {
		return dst, err
	}
	v.Base = c.s.Base
	return field.AppendJSON(dst, &v), nil
}

func kindNames() []string {
	var all []string
	for _, k := range record.Kinds {
		all = append(all, k.Name)
	}
	return all
}

// searchPrint tells searches apart whose cursors are not interchangeable.
func searchPrint(text string, kind *record.Kind, tags []string) []byte {
	h := fnv.New64a()
	name := ""
	if kind != nil {
		name = kind.Name
	}
	_, _ = io.WriteString(h, "search\x00"+strings.TrimSpace(text)+"\x00"+name+"\x00"+strings.Join(tags, "\x00")) // cannot fail
	return h.Sum([]byte{cursorVersion})
}

// hitSize is the length of a hit in a cursor: score, id.
const hitSize = 4 + 16

func writeHit(print []byte, h search.Hit) string {
	b := binary.BigEndian.AppendUint32(bytes.Clone(print), uint32(h.Score))
	return base64.RawURLEncoding.EncodeToString(append(b, h.ID[:]...))
}

// readHit reads a cursor: the last hit of the page before, nil at the start.
func readHit(cursor string, print []byte) (*search.Hit, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	at, ok := bytes.CutPrefix(b, print)
	if err != nil || !ok || len(at) != hitSize {
		return nil, errCursor
	}
	return &search.Hit{Score: int(binary.BigEndian.Uint32(at)), ID: record.ID(at[4:])}, nil
}
