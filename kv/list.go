package kv

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"

	"github.com/google/uuid"

	"kist/kv/record"
	"kist/kv/table"
)

// Sort is the order of a list.
type Sort string

// The orders. BySize is for files alone.
const (
	Newest  Sort = "newest"
	Oldest  Sort = "oldest"
	Updated Sort = "updated"
	Title   Sort = "title"
	Views   Sort = "views"
	Size    Sort = "size"
)

// Sorts are the orders that lists of a kind have.
func Sorts(k *record.Kind) []Sort {
	all := []Sort{Newest, Oldest, Updated, Title, Views}
	if k == record.Files {
		all = append(all, Size)
	}
	return all
}

// ways says how each order is walked: byte 0 is the order by age.
var ways = map[Sort]struct {
	by   byte
	down bool
}{
	Newest: {0, true}, Oldest: {0, false}, Updated: {byUpdated, true}, Title: {byTitle, false}, Views: {byViews, true}, Size: {bySize, true},
}

// Query says which of an owner's records of a kind to list.
type Query struct {
	Owner            record.ID
	Kind             *record.Kind
	Sort             Sort        // "" is Newest
	Tags             []record.ID // all of them
	Favorite, Public *bool
	Folder           *record.ID // the zero id: in none
	Class            *record.Class
	// Match, if not nil, decides further; Text is what it was made from.
	Match  func(*record.Record) bool
	Text   string
	Limit  int    // records of a page, at least 1
	Offset int    // records to pass over first
	After  string // the Next of an earlier page of the same query
}

// Page is a part of a list.
type Page struct {
	Records []*record.Record
	Total   int    // of the whole list
	Next    string // where the next page starts; "" at the end
}

// List reads a page. It costs what the page and the offset cost, however long
// the list is, if at most one of the filters is given and Match is not;
// otherwise it reads all records that have the rarest of the labels asked for.
// An After that is not from a page of the same query is Malformed.
func (tx *Tx) List(q Query) (Page, error) {
	if q.Sort == "" {
		q.Sort = Newest
	}
	way := ways[q.Sort]
	want, without := q.labels()
	after, err := q.position()
	if err != nil {
		return Page{}, err
	}

	// The source is the primary order, an order of its own, or, if the list is
	// by age, the entries of the rarest label.
	bucket, prefix := recordBucket, pair(q.Owner, q.Kind.Code)
	total := records.Sum(tx.Tx, prefix)
	if way.by != 0 {
		bucket, prefix = recordOrder, append(prefix, way.by)
	} else if l, n := tx.rarest(q, want); n >= 0 {
		bucket, prefix, total = recordLabel, l.key(q.Owner, q.Kind), n
		want = slices.DeleteFunc(want, func(x label) bool { return x == l })
	}
	sift := len(want)+len(without) > 0 || q.Match != nil
	known := true
	switch {
	case !sift:
	case q.Match == nil && len(want)+len(without) == 1 && bucket != recordLabel:
		// One filter alone: its sum is the total.
		if len(want) == 1 {
			total = records.Sum(tx.Tx, want[0].key(q.Owner, q.Kind))
		} else {
			total -= records.Sum(tx.Tx, without[0].key(q.Owner, q.Kind))
		}
	default:
		known = false
	}

	page := Page{Total: int(total), Records: make([]*record.Record, 0, min(q.Limit, 50))}
	var at []byte // place of the last record on the page
	for f, err := range tx.walk(q, bucket, prefix, after, way.down, sift) {
		if err != nil {
			return Page{}, err
		}
		r, place := f.record, f.place
		if sift && !fits(r, want, without, q.Match) {
			continue
		}
		if q.Offset > 0 {
			q.Offset--
			continue
		}
		if len(page.Records) == q.Limit {
			page.Next = q.cursor(at)
			break
		}
		if r == nil {
			if r, err = records.Get(tx.Tx, record.RowKey(q.Owner, q.Kind, record.ID(place[len(place)-16:]))); err != nil {
				return Page{}, fmt.Errorf("list entry %x: %w", place, err)
			}
		}
		page.Records, at = append(page.Records, r), append(at[:0], place...)
	}
	if !known {
		page.Total = 0
		for f, err := range tx.walk(q, bucket, prefix, nil, way.down, true) {
			if err != nil {
				return Page{}, err
			}
			if fits(f.record, want, without, q.Match) {
				page.Total++
			}
		}
	}
	return page, nil
}

// found is a record at its place in a source.
type found struct {
	record *record.Record // nil if it was not asked for
	place  []byte         // valid until the next step
}

// walk yields the records of a source from the place after on.
func (tx *Tx) walk(q Query, b table.Bucket, prefix, after []byte, down, read bool) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		for k, v := range tx.Walk(b, prefix, after, down) {
			var r *record.Record
			var err error
			switch {
			case !read:
			case b == recordBucket:
				r, err = record.ParseRow(k, v)
			default:
				r, err = records.Get(tx.Tx, record.RowKey(q.Owner, q.Kind, record.ID(k[len(k)-16:])))
			}
			if !yield(found{r, k[len(prefix):]}, err) {
				return
			}
		}
	}
}

// labels splits the filters into labels that records must and must not have.
func (q *Query) labels() (want, without []label) {
	for _, t := range q.Tags {
		if l := (label{hasTag, t}); !slices.Contains(want, l) {
			want = append(want, l)
		}
	}
	flag := func(b *bool, l label) {
		switch {
		case b == nil:
		case *b:
			want = append(want, l)
		default:
			without = append(without, l)
		}
	}
	flag(q.Favorite, label{what: isFavorite})
	flag(q.Public, label{what: isPublic})
	switch {
	case q.Folder == nil:
	case *q.Folder == uuid.Nil:
		want = append(want, label{what: unfiled})
	default:
		want = append(want, label{inFolder, *q.Folder})
	}
	if q.Class != nil {
		want = append(want, label{ofClass, record.ID{byte(*q.Class)}})
	}
	return want, without
}

// rarest is the label that fewest records have; n is -1 if there is none.
func (tx *Tx) rarest(q Query, all []label) (rare label, n int64) {
	n = -1
	for _, l := range all {
		if m := records.Sum(tx.Tx, l.key(q.Owner, q.Kind)); n < 0 || m < n {
			rare, n = l, m
		}
	}
	return rare, n
}

func fits(r *record.Record, want, without []label, match func(*record.Record) bool) bool {
	has := labels(r)
	for _, l := range want {
		if !slices.Contains(has, l) {
			return false
		}
	}
	for _, l := range without {
		if slices.Contains(has, l) {
			return false
		}
	}
	return match == nil || match(r)
}

const cursorVersion = 1

// fingerprint tells queries apart whose places are not interchangeable.
func (q *Query) fingerprint() []byte {
	h := fnv.New64a()
	want, without := q.labels()
	fmt.Fprint(h, q.Kind.Code, q.Sort, want, without, q.Text)
	return h.Sum(nil)
}

// cursor writes a place down: version, fingerprint of the query, place.
func (q *Query) cursor(place []byte) string {
	b := append([]byte{cursorVersion}, q.fingerprint()...)
	return base64.RawURLEncoding.EncodeToString(append(b, place...))
}

// maxCursor is the longest cursor in bytes: a title with its id is the
// longest place.
const maxCursor = 200

// position reads a cursor; nil for the start.
func (q *Query) position() ([]byte, error) {
	if q.After == "" {
		return nil, nil
	}
	bad := &record.Error{Fault: record.Malformed, Code: "bad_cursor", Text: "The cursor is not one of this list."}
	if len(q.After) > maxCursor {
		return nil, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.After)
	if err != nil || len(b) < 9+16 || b[0] != cursorVersion || string(b[1:9]) != string(q.fingerprint()) {
		return nil, bad
	}
	return b[9:], nil
}
