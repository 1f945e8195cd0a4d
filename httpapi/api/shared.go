package api

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
	"kist/search"
)

// A sharedPage is a page of collections of which some are another's.
type sharedPage struct {
	catalog.Page
	ways map[record.ID]catalog.Way // of those of others
}

// way is how the caller reaches a record of the page.
func (p *sharedPage) way(r *record.Record) catalog.Way {
	if way, other := p.ways[r.ID]; other {
		return way
	}
	return catalog.OwnWay
}

// othersMark begins the cursor of a page that begins among the collections of others. What orders them follows, of the
// last one before the page: it may not be shared any more when the page is asked for.
const othersMark = "others."

// afterOther is the cursor of a page that begins after a collection of another.
func afterOther(r *record.Record) string {
	at := binary.BigEndian.AppendUint64(r.ID[:], uint64(r.Updated.UnixMilli()))
	return othersMark + base64.RawURLEncoding.EncodeToString(append(at, r.Order...))
}

// lastOther is the collection before a page, as far as the cursor without othersMark tells.
func lastOther(cursor string) (*record.Record, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) < 16+8 {
		return nil, web.ErrCursor
	}
	updated := time.UnixMilli(int64(binary.BigEndian.Uint64(b[16:])))
	return &record.Record{ID: record.ID(b), Updated: updated, Order: string(b[16+8:])}, nil
}

// listShared lists the collections that others share with the caller, in the order of q, and then own ones if of says
// so. tagged says that tags are asked for. There are few of others (catalog.MaxMemberships for each owner), so they are
// sorted each time. own lists own ones.
func listShared(
	c *web.Request, tx *kv.Tx, q catalog.Query, text *search.Query, of from, tagged bool,
	own func(catalog.Query) (catalog.Page, error),
) (sharedPage, error) {
	page := sharedPage{ways: map[record.ID]catalog.Way{}}
	var others []*record.Record
	if !tagged && q.Favorite == nil { // which only their owners know
		all, err := othersFor(c, tx, &q, text, page.ways)
		if err != nil {
			return page, err
		}
		others = all
	}
	page.Total = len(others)
	last, among := strings.CutPrefix(q.After, othersMark)
	switch {
	case among:
		before, err := lastOther(last)
		if err != nil {
			return page, err
		}
		for len(others) > 0 && compareOthers(q.Sort, others[0], before) <= 0 {
			others = others[1:]
		}
		q.After = ""
	case q.After != "":
		others = nil
	default:
		skipped := min(q.Offset, len(others))
		others, q.Offset = others[skipped:], q.Offset-skipped
	}
	page.Records = others[:min(len(others), q.Limit)]
	left := q.Limit - len(page.Records)
	if len(page.Records) > 0 {
		page.Next = afterOther(page.Records[len(page.Records)-1])
	}
	if of == fromOthers {
		if len(others) <= q.Limit {
			page.Next = ""
		}
		return page, nil
	}

	q.Limit = max(left, 1) // for the total
	mine, err := own(q)
	if err != nil {
		return page, err
	}
	page.Total += mine.Total
	if left > 0 {
		page.Records, page.Next = append(slices.Clip(page.Records), mine.Records...), mine.Next
	} else if len(others) <= len(page.Records) && mine.Total == 0 {
		page.Next = ""
	}
	return page, nil
}

// othersFor lists the collections of others that match q and the text, in the order of q, and notes the ways to them.
func othersFor(
	c *web.Request, tx *kv.Tx, q *catalog.Query, text *search.Query, ways map[record.ID]catalog.Way,
) (all []*record.Record, err error) {
	shared, err := catalog.SharedWith(tx, c.Owner())
	if err != nil {
		return nil, err
	}
	finder := text.For(c.Owner(), true, catalog.TagNames(tx, c.Owner()))
	finder.Among(othersOf(shared), false)
	for r, way := range catalog.CollectionsOf(tx, c.Owner()) {
		if q.Public != nil && r.Public != *q.Public || r.Updated.Before(q.Since) {
			continue
		}
		if q.Text != "" {
			if _, fits := c.Site.Search.Score(finder, r); !fits {
				continue
			}
		}
		ways[r.ID] = way
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record.Record) int { return compareOthers(q.Sort, a, b) })
	return all, nil
}

// compareOthers orders collections of others. The order by views is that by age: only their owners know the views.
func compareOthers(by catalog.Sort, a, b *record.Record) int {
	age := bytes.Compare(a.ID[:], b.ID[:])
	switch by {
	case catalog.Oldest:
		return age
	case catalog.Updated:
		return cmp.Or(b.Updated.Compare(a.Updated), -age)
	case catalog.Title:
		return cmp.Or(strings.Compare(a.Order, b.Order), age)
	}
	return -age
}
