package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
	"kist/search"
)

// searchWait is how long a request waits for the index to be ready and close to the store's
// latest change, and how long a search may read records if it is not.
const searchWait = time.Second

// enough is the number of results from which a search does not add results with typing
// errors.
const enough = 20

// maxTail is how many changes that the index lacks are read directly.
const maxTail = 1000

// IndexLookup searches the index and the changes that it lacks, at the transaction's instant.
// If the index cannot be used, the error is search.ErrUnusable and the caller has to read the
// records.
type IndexLookup func(*search.Finder) (*search.Hits, error)

var noIndex IndexLookup = func(*search.Finder) (*search.Hits, error) { return nil, search.ErrUnusable }

// ViewWithIndex runs fn in a View of the store. If asks is set, fn can use the index as it was
// before that View began. Later changes are added from the feed, so that everything written
// before the request is found. If the index is not ready or too far behind, or fn returns
// ErrUnusable, fn runs without the index. It waits for nothing: see takeTurn.
func ViewWithIndex(c *web.Request, asks bool, fn func(*kv.Tx, IndexLookup) error) error {
	err := error(search.ErrUnusable)
	if asks {
		err = viewAtIndex(c, fn)
	}
	if errors.Is(err, search.ErrUnusable) {
		err = c.Site.Store.View(func(tx *kv.Tx) error { return fn(tx, noIndex) })
	}
	if err != nil && c.R.Context().Err() != nil {
		// The client is gone: some send a request for every typed letter and cancel it.
		panic(http.ErrAbortHandler)
	}
	return err
}

// viewAtIndex runs fn with the current index.
func viewAtIndex(c *web.Request, fn func(*kv.Tx, IndexLookup) error) error {
	view, ok := c.Site.Search.View()
	if !ok {
		return search.ErrUnusable
	}
	defer view.Close()
	return c.Site.Store.View(func(tx *kv.Tx) error {
		tail, more, err := tailAfter(tx, view.Place())
		if err != nil {
			return err
		}
		if more {
			return search.ErrUnusable
		}
		return fn(tx, func(f *search.Finder) (*search.Hits, error) { return view.Find(c.R.Context(), f, tail) })
	})
}

// tailAfter reads the changes after a place of the index. more means that there are too many to read them directly.
func tailAfter(tx *kv.Tx, place uint64) (tail []kv.Change, more bool, err error) {
	tail, err = tx.Changes(place, maxTail)
	if err != nil || len(tail) == 0 {
		return nil, false, err
	}
	rest, err := tx.Changes(tail[len(tail)-1].Seq, 1)
	return tail, len(rest) > 0, err
}

// takeTurn waits for the index, and until this search may run. The caller calls done when it has read what it needs,
// before it sends that, and may call it again. All waiting comes before an answer is made, because others need the
// places and the memory for that.
func takeTurn(c *web.Request) (done func(), err error) {
	if err := awaitIndex(c); err != nil {
		return nil, err
	}
	done, err = c.Site.Search.Turn(c.R.Context())
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	return sync.OnceFunc(done), nil
}

// awaitIndex waits until the index is open and close to the store's latest change, but only for searchWait.
func awaitIndex(c *web.Request) error {
	ctx, cancel := context.WithTimeout(c.R.Context(), searchWait)
	defer cancel()
	for {
		s, late := c.Site.Search.Await(ctx, func(s search.State) bool { return s.Phase != search.Opening })
		if late != nil || s.Phase != search.Ready {
			return nil
		}
		far := false
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			_, far, err = tailAfter(tx, s.Place)
			return err
		}); err != nil {
			return err
		}
		if !far || ctx.Err() != nil {
			return nil
		}
		c.Site.Search.Hurry(ctx, s.Place)
	}
}

// list reads a page of matching records. It allows typing errors only if nothing is found
// without them, because a list is not sorted by how well its records match.
func list(c *web.Request, tx *kv.Tx, q catalog.Query, text *search.Query, look IndexLookup) (catalog.Page, error) {
	if q.Text == "" {
		return catalog.List(tx, q)
	}
	var page catalog.Page
	var err error
	for _, strict := range []bool{true, false} {
		one := *text
		one.Narrow(q.Kind, nil)
		finder := one.For(q.Owner, strict, catalog.TagNames(tx, q.Owner))
		hits, unusable := look(finder)
		switch {
		case unusable == nil:
			q.Among, q.Match = hits.IDs(), nil
		case errors.Is(unusable, search.ErrUnusable):
			q.Among = nil
			q.Match = func(r *record.Record) bool {
				_, ok := c.Site.Search.Score(finder, r)
				return ok && c.R.Context().Err() == nil
			}
		default:
			return page, unusable
		}
		page, err = catalog.List(tx, q)
		if err != nil || page.Total > 0 || !text.MayErr() {
			break
		}
	}
	if gone := c.R.Context().Err(); gone != nil {
		return page, gone
	}
	return page, err
}

func searchParams() []web.Param {
	text := web.Object{"type": "string"}
	return []web.Param{
		{
			In: "query", Name: "q",
			Doc: "Words or their beginnings, \"words in a row\", tag:x, kind:note, is:public, is:private, is:favorite. A " +
				"minus before any of these excludes it.",
			Schema: web.Object{"type": "string", "maxLength": search.MaxText},
		},
		fromParam("items"),
		{In: "query", Name: "kind", Doc: "Only this kind, by its name or that of its list.", Schema: text},
		{
			In: "query", Name: "tag", Doc: "Name of a tag. Repeat it for several tags; all must match.",
			Schema: web.Object{"type": "array", "items": text},
		},
		{
			In: "query", Name: "tags", Doc: "Names of tags, separated by commas; all must match.", Schema: text,
		},
		{
			In: "query", Name: "limit", Doc: "Maximum number of results on a page.",
			Schema: web.Object{"type": "integer", "minimum": 1, "maximum": web.MaxPage, "default": web.DefaultPage},
		},
		{In: "query", Name: "cursor", Doc: "nextCursor of the previous page.", Schema: text},
	}
}

// Result is a search result.
type Result struct {
	record.Shown
	search.Highlight
	whole []byte // the record as in a list with brief
}

// Fields is the shape of a result, the same for all kinds.
func (v *Result) Fields(s *field.Set) {
	s.Shown("kind", schemaOfKind, func(dst []byte) []byte {
		return field.AppendString(dst, v.Kind.Name)
	}).Says("The kind of the record.", `"note"`)
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Its id.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	v.own(s, "slug", "string", func(dst []byte) []byte { return field.AppendString(dst, v.Slug) }).
		Says("Its public identifier; null if it is another's.", `"summer-24"`)
	s.LongText("title", &v.Highlight.Title, field.MaxURL, field.ReadOnly).
		Says("Its title or file name; without one, the beginning of its text.", `"Summer"`)
	s.Shown("highlight", schemaOfHighlight, func(dst []byte) []byte {
		return field.AppendJSON(dst, &highlight{&v.Highlight})
	}).Says("Where the words are: plain text, and ranges [start, end) of UTF-16 code units in it, in order.",
		`{"title":[[0,6]],"text":"A summer by the sea","ranges":[[2,8]]}`)
	s.Shown("tags", schemaOfNames, v.AppendTagNames).
		Says("Names of its tags.", `["travel"]`)
	s.Shown("url", field.Schema{Type: "string", Format: "uri"}, v.AppendURL).
		Says("Address for others.", `"https://kist.example.org/v/summer-24"`)
	v.own(s, "isPublic", "boolean", func(dst []byte) []byte { return strconv.AppendBool(dst, v.Public) }).
		Says("Whether others can see it; null if it is another's.", `true`)
	v.own(s, "isFavorite", "boolean", func(dst []byte) []byte { return strconv.AppendBool(dst, v.Favorite) }).
		Says("Whether it is a favourite; null if it is another's.", `false`)
	s.Time("createdAt", &v.Created, field.ReadOnly, field.Always).Says(
		"When it was created.", `"2026-01-02T03:04:05.678Z"`,
	)
	s.Time("updatedAt", &v.Updated, field.ReadOnly, field.Always).Says(
		"When its owner last changed it.", `"2026-01-02T03:04:05.678Z"`,
	)
	s.Shown("record", field.Schema{Type: "object", Free: true}, func(dst []byte) []byte {
		return append(dst, v.whole...)
	}).
		Says("The record as in the list of its kind with brief=true.", `{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}`)
}

// own binds what only the owner of a record may know.
func (v *Result) own(s *field.Set, name, kind string, show func([]byte) []byte) *field.Field {
	return s.Shown(name, field.Schema{Type: kind, Nullable: true}, func(dst []byte) []byte {
		if v.ByMember {
			return append(dst, "null"...)
		}
		return show(dst)
	})
}

// The schemas of a result's members, made once because every found record needs them.
var (
	schemaOfKind  = field.Schema{Type: "string", Enum: web.KindNames()}
	schemaOfMarks = field.Schema{
		Type: "array", Items: &field.Schema{Type: "array", Items: &field.Schema{Type: "integer"}},
	}
	schemaOfHighlight = field.ObjectOf(&highlight{new(search.Highlight)})
	schemaOfNames     = field.Schema{Type: "array", Items: &field.Schema{Type: "string"}}
)

// highlight is the part of a result with the places of the words.
type highlight struct{ *search.Highlight }

func (h *highlight) Fields(s *field.Set) {
	s.Shown("title", schemaOfMarks, func(dst []byte) []byte {
		return appendMarks(dst, h.TitleMarks)
	}).Says("Ranges in the title.", `[[0,6]]`)
	s.LongText("text", &h.Text, record.MaxContent, field.ReadOnly).Says("An excerpt of the rest.", `"A summer by the sea"`)
	s.Shown("ranges", schemaOfMarks, func(dst []byte) []byte {
		return appendMarks(dst, h.TextMarks)
	}).Says("Ranges in the text.", `[[2,8]]`)
}

func appendMarks(dst []byte, marks []search.Range) []byte {
	return field.AppendList(dst, marks, func(dst []byte, m search.Range) []byte {
		return fmt.Appendf(dst, "[%d,%d]", m[0], m[1])
	})
}

var Search = web.Operation{
	Tag: "search", Summary: "Searches records of all kinds. The best matches come first, and the newest among equals.",
	Args: searchParams(),
	Reply: web.Reply{
		Status: 200,
		Doc:    "A page of results. incomplete means that the index is being built and not all records could be read.",
		Body:   web.ListOf("SearchResult"),
	},
	Serve: searchAll,
}

func searchAll(c *web.Request) error {
	begun := time.Now()
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := web.Arguments{Values: values}
	limit := args.Number("limit", 1, web.MaxPage, web.DefaultPage)
	var kind *record.Kind
	if t := args.Get("kind"); t != "" {
		kind = search.KindNamed(t)
		if kind == nil {
			args.Refuse("kind must be one of: " + web.Join(web.KindNames()))
		}
	}
	from := fromArg(&args)
	if err := args.Err(); err != nil {
		return err
	}
	text, err := search.Parse(args.Get("q"))
	if err != nil {
		return err
	}
	tags := tagNames(values)
	text.Narrow(kind, tags)
	print := searchPrint(args.Get("q")+"\x00"+string(from), kind, tags)
	after, err := readHit(args.Get("cursor"), print)
	if err != nil {
		return err
	}
	done, err := takeTurn(c)
	if err != nil {
		return err
	}
	defer done()
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		defer done()
		err := ViewWithIndex(c, true, func(tx *kv.Tx, look IndexLookup) error {
			shared, err := sharedFrom(tx, c.Owner(), from)
			if err != nil {
				return err
			}
			find := func(strict bool) (*search.Finder, *search.Hits, bool, error) {
				finder := text.For(c.Owner(), strict, catalog.TagNames(tx, c.Owner()))
				if shared != nil {
					finder.Among(othersOf(shared), from == fromAll)
				}
				hits, complete, err := searchHits(c, tx, finder, kind, look, shared)
				return finder, hits, complete, err
			}
			finder, hits, complete, err := find(true)
			if err == nil && complete && text.MayErr() && hits.Total() < enough {
				finder, hits, complete, err = find(false)
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
				if err := c.R.Context().Err(); err != nil {
					return err
				}
				r, way, err := found(tx, c.Owner(), h, shared)
				if kv.Missing(err) { // the index may be outdated
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
				dst, err = showResult(c, tx, dst, finder, r, way)
				if err != nil {
					return err
				}
				if web.PageFull(len(dst)-first, before-first) {
					dst, next = bytes.TrimSuffix(dst[:before], []byte(",")), writeHit(print, page[i-1])
					break
				}
			}
			dst = strconv.AppendBool(append(dst, `],"incomplete":`...), !complete)
			took := float64(time.Since(begun).Microseconds()) / 1000
			dst = strconv.AppendFloat(append(dst, `,"tookMs":`...), took, 'f', 3, 64)
			dst = web.AppendEnd(dst, total, next)
			return nil
		})
		return dst, err
	})
}

// searchHits searches the index, or reads records for a limited time.
func searchHits(
	c *web.Request, tx *kv.Tx, f *search.Finder, kind *record.Kind, look IndexLookup, shared *catalog.Reachable,
) (*search.Hits, bool, error) {
	hits, err := look(f)
	if !errors.Is(err, search.ErrUnusable) {
		return hits, true, err
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), searchWait)
	defer cancel()
	hits, complete := c.Site.Search.Scan(ctx, f, everything(tx, c.Owner(), kind, shared))
	return hits, complete, c.R.Context().Err()
}

// everything yields the owner's records of a kind, or of all kinds if kind is nil, and those that are shared with the
// owner.
func everything(
	tx *kv.Tx, owner record.ID, kind *record.Kind, shared *catalog.Reachable,
) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		for _, k := range record.Kinds {
			if kind != nil && k != kind {
				continue
			}
			for r, err := range catalog.NewestFirst(tx, owner, k) {
				if !yield(r, err) {
					return
				}
			}
		}
		if shared == nil {
			return
		}
		for r, err := range shared.All(tx) {
			if !yield(r, err) {
				return
			}
		}
	}
}

// from says whose records a list or a search has.
type from string

const (
	fromMine   from = "mine"
	fromOthers from = "others"
	fromAll    from = "all"
)

var allFrom = []from{fromMine, fromOthers, fromAll}

// fromArg reads the parameter from.
func fromArg(args *web.Arguments) from {
	f := from(cmp.Or(args.Get("from"), string(fromMine)))
	if !slices.Contains(allFrom, f) {
		args.Refuse("from must be one of: " + web.Join(field.Words(allFrom)))
	}
	return f
}

// fromParam describes the parameter from; what are the things.
func fromParam(what string) web.Param {
	return web.Param{
		In: "query", Name: "from",
		Doc:    "mine: your own " + what + ". others: those that others share with you. all: both.",
		Schema: web.Object{"type": "string", "enum": field.Words(allFrom), "default": fromMine},
	}
}

// sharedFrom is what others share with the owner, if it is asked for.
func sharedFrom(tx *kv.Tx, owner record.ID, f from) (*catalog.Reachable, error) {
	if f == fromMine {
		return nil, nil //nolint:nilnil // it is not asked for
	}
	return catalog.SharedWith(tx, owner)
}

// othersOf makes what is shared the others of a search.
func othersOf(shared *catalog.Reachable) *search.Others {
	return &search.Others{Owners: shared.Owners, Within: shared.Within, Has: shared.Has}
}

// found reads a record that the index has found.
func found(tx *kv.Tx, owner record.ID, h search.Hit, shared *catalog.Reachable) (*record.Record, catalog.Way, error) {
	r, err := catalog.Owned(tx, owner, h.Kind, h.ID)
	if shared != nil && kv.Missing(err) {
		return shared.Read(tx, h.Kind, h.ID)
	}
	return r, catalog.OwnWay, err
}

func showResult(
	c *web.Request, tx *kv.Tx, dst []byte, f *search.Finder, r *record.Record, way catalog.Way,
) ([]byte, error) {
	h, err := c.Site.Search.Highlight(f, r)
	if err != nil {
		return dst, err
	}
	brief, err := r.Brief()
	if err != nil {
		return dst, err
	}
	v := Result{Highlight: h}
	v.whole, err = c.Site.ShowAs(tx, nil, brief, way)
	if err != nil {
		return dst, err
	}
	if err := catalog.Show(tx, r, &v.Shown); err != nil {
		return dst, err
	}
	v.Base, v.ByMember = c.Site.Base, !way.Own
	if v.ByMember {
		v.TagList = nil
	}
	if way.Collection != nil {
		v.Reader.Through = way.Collection.Slug
	}
	return field.AppendJSON(dst, &v), nil
}

// searchPrint identifies searches whose cursors are interchangeable.
func searchPrint(text string, kind *record.Kind, tags []string) []byte {
	h := fnv.New64a()
	name := ""
	if kind != nil {
		name = kind.Name
	}
	// cannot fail
	_, _ = io.WriteString(h, "search\x00"+strings.TrimSpace(text)+"\x00"+name+"\x00"+strings.Join(tags, "\x00"))
	return h.Sum([]byte{web.CursorVersion})
}

// hitSize is the length of a hit in a cursor: score and id.
const hitSize = 4 + 16

func writeHit(print []byte, h search.Hit) string {
	b := binary.BigEndian.AppendUint32(bytes.Clone(print), uint32(h.Score))
	return base64.RawURLEncoding.EncodeToString(append(b, h.ID[:]...))
}

// readHit reads a cursor: the last hit of the previous page, nil at the start.
func readHit(cursor string, print []byte) (*search.Hit, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	at, ok := bytes.CutPrefix(b, print)
	if err != nil || !ok || len(at) != hitSize {
		return nil, web.ErrCursor
	}
	return &search.Hit{Score: int(binary.BigEndian.Uint32(at)), ID: record.ID(at[4:])}, nil
}
