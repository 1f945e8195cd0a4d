package catalog

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// Sort is the order of a list.
type Sort string

// The orders. Only files have Size and Taken.
const (
	Newest  Sort = "newest"
	Oldest  Sort = "oldest"
	Updated Sort = "updated"
	Title   Sort = "title"
	Views   Sort = "views"
	Size    Sort = "size"
	Taken   Sort = "taken"    // of files, the latest first; by their creation if that is not known
	Rating  Sort = "rating"   // of games, best first
	Played  Sort = "playtime" // of games, longest first
)

// Sorts are the orders that lists of a kind have.
func Sorts(k *record.Kind) []Sort {
	all := []Sort{Newest, Oldest, Updated, Title, Views}
	if k == record.Files {
		all = append(all, Size, Taken)
	}
	if k == record.Games {
		all = append(all, Rating, Played)
	}
	return all
}

// ways says how each order is walked; 0 in by means the order by age.
var ways = map[Sort]struct {
	by   byte
	down bool
}{
	Newest: {0, true}, Oldest: {0, false}, Updated: {byUpdated, true}, Title: {byTitle, false},
	Views: {byViews, true}, Size: {bySize, true}, Taken: {byTaken, true}, Rating: {0, true}, Played: {0, true},
}

// gameOrders are the orders without an index: the list is sorted each time.
var gameOrders = map[Sort]func(*record.Game) int64{
	Rating: func(b *record.Game) int64 { return b.Rating },
	Played: func(b *record.Game) int64 { return b.Playtime },
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
	Attached         bool              // files that belong to texts too
	Status           record.GameStatus // only games; "" is any
	Unreachable      *bool             // only bookmarks whose page is, or is not, unreachable
	Page             *record.ID        // only bookmarks of the page with this key
	Since            time.Time         // only records that were changed then or later
	// Match, if not nil, is a further filter. If Among is not nil, only its records
	// may be listed. It holds ids of the owner's records of the kind, in ascending
	// order. Missing ones may be counted in the total but are skipped. Text is the
	// search that both were made from.
	Match  func(*record.Record) bool
	Among  []record.ID
	Text   string
	Limit  int    // records per page, at least 1
	Most   int    // bytes per page, about; the first record may be longer; 0: no limit
	Brief  bool   // cut long texts (record.Brief)
	Offset int    // records to skip first
	After  string // Next of an earlier page of the same query
}

// Page is a part of a list.
type Page struct {
	Records []*record.Record
	Total   int    // of the whole list
	Next    string // where the next page starts; "" at the end
}

// rowSize is roughly how many bytes a record takes in addition to its body.
const rowSize = 1 << 10

// List reads a page. It fails with Malformed if After is not from a page of the same
// query. The bodies of the records are valid only during the transaction.
//
// Without filters, or by age with one facet (a tag, a folder, a class, favourite,
// public, unfiled), the cost depends on the page only, not on the offset or the length
// of the list, but for the first deep offset: see ranks. By views, and with facets of
// bookmarked pages, it depends on the offset too. The orders and the status of games
// read all games of the owner. With several filters it walks all entries of the rarest
// facet, to get the total. In other orders, and for records that are not favourite or
// not public, it walks the list until the page is full. With Among and by age, the cost
// depends on the length of Among, and with Since on the number of records that were
// changed since; in other orders it walks the list, too. It reads only the rows of the
// page, unless Match needs more.
func List(tx *kv.Tx, q Query) (Page, error) {
	if q.Sort == "" {
		q.Sort = Newest
	}
	after, err := q.position()
	if err != nil {
		return Page{}, err
	}
	if !q.Since.IsZero() && q.Among == nil {
		q.Among = changedSince(tx, &q)
	}

	from, err := openList(tx, &q)
	if err != nil {
		return Page{}, err
	}
	q.matchMore()
	total, known := from.total()
	plain := known && len(from.tests) == 0 && !from.among && from.sorted == nil
	if plain && after == nil {
		if q.Offset > 0 && q.Offset >= int(total) {
			return Page{Total: int(total), Records: []*record.Record{}}, nil
		}
		after, q.Offset = from.skip(q.Offset, int(total), from.down)
	}

	page := Page{Total: int(total)}
	page.Records, page.Next, err = from.page(after)
	if err != nil {
		return Page{}, err
	}
	if !known {
		page.Total, err = from.length()
		if err != nil {
			return Page{}, err
		}
	}
	return page, nil
}

// openList chooses where a list comes from: the table itself or the index of another order. For a list
// by age it may also be Among or the entries of the rarest facet.
func openList(tx *kv.Tx, q *Query) (*source, error) {
	way := ways[q.Sort]
	want, without := q.facets()
	if RecordRows.Sum(tx.Tx, attached.key(q.Owner, q.Kind)) == 0 {
		without = slices.DeleteFunc(without, func(x facet) bool { return x == attached })
	}
	from := &source{
		tx: tx, q: q, down: way.down,
		bucket: kv.RecordBucket, prefix: kv.OwnedKey(q.Owner, q.Kind.Code),
	}
	from.entries = RecordRows.Sum(tx.Tx, from.prefix)

	switch value := gameOrders[q.Sort]; {
	case value != nil:
		sorted, err := sortGames(tx, from.prefix, value)
		if err != nil {
			return nil, err
		}
		from.bucket, from.sorted = recordOrder, sorted
	case way.by != 0:
		from.bucket, from.prefix = recordOrder, append(from.prefix, way.by)
	case q.Among != nil:
		from.among = true
	default:
		if l, n := rarest(tx, *q, want); n >= 0 {
			from.bucket, from.prefix, from.entries = recordFacet, l.key(q.Owner, q.Kind), n
			want = slices.DeleteFunc(want, func(x facet) bool { return x == l })
		}
	}
	from.keep(want, without)
	return from, nil
}

// attached is the facet of files that belong to texts. They do not have those of their class and of no folder.
var attached = facet{what: isAttached}

// unfiled reports whether only files in no folder are asked for.
func (q *Query) unfiled() bool { return q.Folder != nil && *q.Folder == uuid.Nil }

// matchMore makes Match check Status, Since, and what attached files have no facets for.
func (q *Query) matchMore() {
	if more := q.Match; q.Status != "" {
		q.Match = func(r *record.Record) bool {
			b, err := r.Decode()
			g, ok := b.(*record.Game)
			return err == nil && ok && g.Status == q.Status && (more == nil || more(r))
		}
	}
	if more := q.Match; q.Attached && (q.Class != nil || q.unfiled()) {
		q.Match = func(r *record.Record) bool {
			return (q.Class == nil || r.Bytes != nil && r.Bytes.Class == *q.Class) &&
				(!q.unfiled() || r.Folder == uuid.Nil) && (more == nil || more(r))
		}
	}
	if more := q.Match; !q.Since.IsZero() {
		q.Match = func(r *record.Record) bool { return !r.Updated.Before(q.Since) && (more == nil || more(r)) }
	}
}

// total returns the length of the list, which is not always known without reading the entries.
func (s *source) total() (n int64, known bool) {
	switch {
	case s.q.Match != nil:
		return s.entries, false
	case s.q.Among != nil && len(s.tests) == 0:
		return int64(len(s.q.Among)), true
	case s.q.Among != nil:
		return s.entries, false
	case len(s.tests) == 0:
		return s.entries, true
	case len(s.tests) == 1 && s.bucket != recordFacet:
		// A single filter: its sum is the total.
		only := s.tests[0]
		n := RecordRows.Sum(s.tx.Tx, only.key[:labelSize])
		if only.has {
			return n, true
		}
		return s.entries - n, true
	}
	return s.entries, false
}

// page reads the records of a page after a position, and returns the cursor of the next one, ""
// at the end.
func (s *source) page(after []byte) (records []*record.Record, next string, err error) {
	q := s.q
	records = make([]*record.Record, 0, min(q.Limit, 50))
	skipped, size := 0, 0
	var at []byte // position of the last record on the page
	for k, v := range s.walk(after, s.down) {
		r, ok, err := s.fits(k, v)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			continue
		}
		if skipped < q.Offset {
			skipped++
			continue
		}
		if len(records) == q.Limit {
			return records, q.cursor(at), nil
		}

		if r == nil {
			r, err = s.read(k, v)
			if err != nil {
				return nil, "", err
			}
		}
		if q.Brief {
			r, err = r.Brief()
			if err != nil {
				return nil, "", err
			}
		}
		size += len(r.Body) + rowSize
		if q.Most > 0 && size > q.Most && len(records) > 0 {
			return records, q.cursor(at), nil
		}
		records, at = append(records, r), append(at[:0], k[len(s.prefix):]...)
	}
	return records, "", nil
}

// length reads all entries and counts those that belong to the list.
func (s *source) length() (n int, err error) {
	for k, v := range s.walk(nil, s.down) {
		_, ok, err := s.fits(k, v)
		if err != nil {
			return 0, err
		}
		if ok {
			n++
		}
	}
	return n, nil
}

// changedSince returns the ids of the records that were changed at q.Since or later, in
// ascending order. It costs as much as there are such records.
func changedSince(tx *kv.Tx, q *Query) []record.ID {
	all := []record.ID{}
	prefix := append(kv.OwnedKey(q.Owner, q.Kind.Code), byUpdated)
	for k := range tx.Walk(recordOrder, prefix, nil, true) {
		if int64(binary.BigEndian.Uint64(k[len(prefix):])) < q.Since.UnixMilli() {
			break
		}
		all = append(all, record.ID(k[len(k)-16:]))
	}
	slices.SortFunc(all, func(a, b record.ID) int { return bytes.Compare(a[:], b[:]) })
	return all
}

// source is where a list comes from, and the filters still to apply.
type source struct {
	tx      *kv.Tx
	q       *Query
	down    bool
	bucket  table.Bucket
	prefix  []byte
	entries int64    // how many there are, before the filters
	among   bool     // read only the records in Among
	sorted  [][]byte // entries of an order without an index
	tests   []test
}

// walk yields the entries of the source after a position.
func (s *source) walk(after []byte, down bool) iter.Seq2[[]byte, []byte] {
	if s.sorted != nil {
		return func(yield func([]byte, []byte) bool) {
			for _, k := range slices.Backward(s.sorted) {
				if (after == nil || bytes.Compare(k[len(s.prefix):], after) < 0) && !yield(k, nil) {
					return
				}
			}
		}
	}
	if !s.among {
		return s.tx.Walk(s.bucket, s.prefix, after, down)
	}
	return func(yield func([]byte, []byte) bool) {
		all := s.q.Among
		if len(after) >= len(record.ID{}) {
			at, found := place(all, after)
			if down {
				all = all[:at]
			} else if found {
				all = all[at+1:]
			} else {
				all = all[at:]
			}
		}
		key := append(bytes.Clone(s.prefix), make([]byte, len(record.ID{}))...)
		for i := range all {
			id := &all[i]
			if down {
				id = &all[len(all)-1-i]
			}
			copy(key[len(s.prefix):], id[:])
			if row := s.tx.Get(s.bucket, key); row != nil && !yield(key, row) {
				return
			}
		}
	}
}

// sortGames makes the entries of an order of games, as an index would have them: the prefix,
// the value and the id.
func sortGames(tx *kv.Tx, prefix []byte, value func(*record.Game) int64) ([][]byte, error) {
	entries := [][]byte{}
	for k, v := range tx.Walk(kv.RecordBucket, prefix, nil, false) {
		r, err := record.BorrowRow(k, v)
		if err != nil {
			return nil, err
		}
		b, err := r.Decode()
		if err != nil {
			return nil, err
		}
		entry := append(make([]byte, 0, len(k)+8), prefix...)
		entry = binary.BigEndian.AppendUint64(entry, uint64(value(b.(*record.Game))+1)) // -1 is none
		entries = append(entries, append(entry, r.ID[:]...))
	}
	slices.SortFunc(entries, bytes.Compare)
	return entries, nil
}

// place is the position of an id in a sorted list, and whether the list has it.
func place(all []record.ID, id []byte) (int, bool) {
	return slices.BinarySearchFunc(all, id[:len(record.ID{})], func(x record.ID, id []byte) int {
		return bytes.Compare(x[:], id)
	})
}

// test is the key of a facet's entry, with room for a record's id in its last 16
// bytes, and whether the entry must exist.
type test struct {
	key []byte
	has bool
}

func (s *source) keep(want, without []facet) {
	for _, l := range want {
		s.tests = append(s.tests, test{append(l.key(s.q.Owner, s.q.Kind), make([]byte, 16)...), true})
	}
	for _, l := range without {
		s.tests = append(s.tests, test{append(l.key(s.q.Owner, s.q.Kind), make([]byte, 16)...), false})
	}
}

// fits reports whether the record of an entry belongs to the list. It also returns
// the record if it had to read it.
func (s *source) fits(k, v []byte) (*record.Record, bool, error) {
	for _, t := range s.tests {
		copy(t.key[labelSize:], k[len(k)-16:])
		if (s.tx.Get(recordFacet, t.key) != nil) != t.has {
			return nil, false, nil
		}
	}
	if s.q.Among != nil && !s.among {
		if _, ok := place(s.q.Among, k[len(k)-16:]); !ok {
			return nil, false, nil
		}
	}
	if s.q.Match == nil {
		return nil, true, nil
	}
	r, err := s.read(k, v)
	if err != nil {
		return nil, false, err
	}
	return r, s.q.Match(r), nil
}

// read reads the record of an entry.
func (s *source) read(k, v []byte) (*record.Record, error) {
	if s.bucket != kv.RecordBucket {
		entry := k
		k = record.RowKey(s.q.Owner, s.q.Kind, record.ID(k[len(k)-16:]))
		v = s.tx.Get(kv.RecordBucket, k)
		if v == nil {
			return nil, fmt.Errorf("list entry %x: %w", entry, table.ErrMissing)
		}
	}
	return record.BorrowRow(k, v)
}

// facets splits the filters into facets that records must and must not have.
func (q *Query) facets() (want, without []facet) {
	for _, t := range q.Tags {
		if l := (facet{hasTag, t}); !slices.Contains(want, l) {
			want = append(want, l)
		}
	}
	flag := func(b *bool, l facet) {
		switch {
		case b == nil:
		case *b:
			want = append(want, l)
		default:
			without = append(without, l)
		}
	}
	flag(q.Favorite, facet{what: isFavorite})
	flag(q.Public, facet{what: isPublic})
	flag(q.Unreachable, facet{what: isUnreachable})
	if q.Page != nil {
		want = append(want, facet{samePage, *q.Page})
	}
	if q.Folder != nil && !q.unfiled() {
		want = append(want, facet{inFolder, *q.Folder})
	}
	if q.Attached {
		return want, without
	}
	listed := len(want)
	if q.unfiled() {
		want = append(want, facet{what: unfiled})
	}
	if q.Class != nil {
		want = append(want, facet{ofClass, record.ID{byte(*q.Class)}})
	}
	if q.Kind == record.Files && len(want) == listed {
		without = append(without, attached)
	}
	return want, without
}

// rarest is the facet that the fewest records have; n is -1 if all is empty.
func rarest(tx *kv.Tx, q Query, all []facet) (rare facet, n int64) {
	n = -1
	for _, l := range all {
		if m := RecordRows.Sum(tx.Tx, l.key(q.Owner, q.Kind)); n < 0 || m < n {
			rare, n = l, m
		}
	}
	return rare, n
}

const cursorVersion = 1

// fingerprint identifies a query, so that a cursor is only used with its own query.
func (q *Query) fingerprint() []byte {
	h := fnv.New64a()
	want, without := q.facets()
	if q.Attached {
		fmt.Fprint(h, "attached", q.Class != nil, q.unfiled())
	}
	fmt.Fprint(h, q.Kind.Code, q.Sort, want, without, q.Text, q.Status, q.Since.UnixNano())
	return h.Sum(nil)
}

// cursor encodes a position: version, fingerprint of the query, position.
func (q *Query) cursor(place []byte) string {
	b := append([]byte{cursorVersion}, q.fingerprint()...)
	return base64.RawURLEncoding.EncodeToString(append(b, place...))
}

// maxCursor is the longest cursor in bytes. The longest position is a title with
// its id.
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
