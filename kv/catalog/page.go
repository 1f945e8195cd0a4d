package catalog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// PageRows is the table of the pages that bookmarks lead to: each bookmark has one
// row.
var PageRows = &table.Table[record.Page]{
	Rows:   pageBucket,
	Key:    func(p *record.Page) []byte { return kv.OwnedKey(p.Owner, p.ID[:]...) },
	Encode: func(p *record.Page) ([]byte, error) { return json.Marshal(p) },
	Decode: func(key, row []byte) (*record.Page, error) {
		if len(key) != 32 {
			return nil, errors.New("the key is damaged")
		}
		p := &record.Page{Owner: record.ID(key[:16]), ID: record.ID(key[16:])}
		return p, json.Unmarshal(row, p)
	},
	Indexes: []table.Index[record.Page]{
		{Bucket: pageDue, Keys: func(p *record.Page, file func([]byte)) {
			what := lookCheck
			if p.Fill {
				what = lookFill
			}
			key := append(binary.BigEndian.AppendUint64(make([]byte, 0, pageDueSize), kv.Signed(p.Due)), what)
			key = binary.BigEndian.AppendUint64(key, p.Host)
			file(append(append(key, p.Owner[:]...), p.ID[:]...))
		}},
		{Bucket: recordFacet, Keys: func(p *record.Page, file func([]byte)) {
			for _, l := range pageFacets(p) {
				file(append(l.key(p.Owner, record.Bookmarks), p.ID[:]...))
			}
		}},
	},
	Sums: kv.SumBucket,
	Tally: func(p *record.Page, add func([]byte, int64)) {
		for _, l := range pageFacets(p) {
			add(l.key(p.Owner, record.Bookmarks), 1)
		}
	},
}

// PageTable has no Refill: pages are copied with their bookmarks.
var PageTable = kv.Table{
	Buckets: []table.Bucket{pageBucket, pageDue},
	Check: kv.CheckRows(PageRows, func(a *kv.Audit, p *record.Page) {
		a.Refers(kv.RecordBucket, record.RowKey(p.Owner, record.Bookmarks, p.ID), "page", p.ID)
	}),
}

// pageFacets are the facets that a page gives its bookmark.
func pageFacets(p *record.Page) []facet {
	all := []facet{{samePage, p.Key}}
	if p.State == record.Unreachable {
		all = append(all, facet{what: isUnreachable})
	}
	return all
}

// The kinds of check in an entry of pageDue. The bytes are stored.
const (
	lookFill  byte = 'f'
	lookCheck byte = 'c'
)

// pageDueSize is the length of a key of pageDue: when, what, host, owner, id.
const pageDueSize = 8 + 1 + 8 + 16 + 16

// addPage adds the page of a new bookmark. If past is set (an import) and the
// bookmark has a title, the page is checked on the normal schedule instead of at once.
func addPage(tx *kv.Tx, r *record.Record, f *record.Form, past bool) error {
	b, ok := f.Body.(*record.Bookmark)
	if !ok {
		return nil
	}
	p := record.NewPage(r.Owner, r.ID, b.URL, tx.Store().MonotonicNow())
	if past && b.Name != "" {
		p.Settle(p.Due)
	}
	people.PagesDue.Raise(tx)
	return PageRows.Put(tx.Tx, p)
}

// turnPage has a changed bookmark's page checked if the bookmark leads elsewhere now
// or has lost its title.
func turnPage(tx *kv.Tx, r *record.Record, before, got *record.Bookmark) error {
	p, err := PageRows.Get(tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
	if err != nil {
		return kv.UserError(err, "bookmark")
	}
	switch {
	case p.Key != record.PageKey(got.URL):
		p = record.NewPage(r.Owner, r.ID, got.URL, tx.Store().MonotonicNow())
	case got.Name == "" && before.Name != "":
		p.Refill(tx.Store().MonotonicNow())
	default:
		return nil
	}
	people.PagesDue.Raise(tx)
	return PageRows.Put(tx.Tx, p)
}

// bookmark is the body of a record that is a bookmark.
func bookmark(r *record.Record) (*record.Bookmark, error) {
	b, err := r.Decode()
	if err != nil {
		return nil, err
	}
	return b.(*record.Bookmark), nil
}

// bookmarked reads the bookmark that leads to a page.
func bookmarked(tx *kv.Tx, p *record.Page) (*record.Record, *record.Bookmark, error) {
	r, err := Owned(tx, p.Owner, record.Bookmarks, p.ID)
	if err != nil {
		return nil, nil, err
	}
	b, err := bookmark(r)
	return r, b, err
}

// FillPages adds a page for each bookmark of a store of format 1. It writes each
// bucket in the order of its keys: see builder.flush.
func FillPages(tx *kv.Tx) error {
	all, err := people.Users(tx)
	if err != nil {
		return err
	}
	due, sums := tx.Store().MonotonicNow(), map[string]int64{}
	filed := map[table.Bucket]map[string][]byte{}
	file := func(b table.Bucket, key, value []byte) {
		if filed[b] == nil {
			filed[b] = map[string][]byte{}
		}
		filed[b][string(key)] = value
	}
	for i := range all {
		for r, err := range NewestFirst(tx, all[i].ID, record.Bookmarks) {
			if err != nil {
				return err
			}
			b, err := bookmark(r)
			if err != nil {
				return err
			}
			p := record.NewPage(r.Owner, r.ID, b.URL, due)
			if tx.Get(pageBucket, PageRows.Key(p)) != nil {
				continue
			}
			if b.Name != "" {
				p.Settle(due)
			}
			row, err := PageRows.Encode(p)
			if err != nil {
				return err
			}
			file(pageBucket, PageRows.Key(p), row)
			for _, ix := range PageRows.Indexes {
				ix.Keys(p, func(entry []byte) { file(ix.Bucket, entry, nil) })
			}
			PageRows.Tally(p, func(key []byte, n int64) { sums[string(key)] += n })
		}
	}
	for key, n := range sums {
		n += PageRows.Sum(tx.Tx, []byte(key))
		file(kv.SumBucket, []byte(key), binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	for b, entries := range filed {
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if err := tx.Put(b, []byte(key), entries[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// RekeyPages gives the pages of a store of format 5 their present keys. The rule for the same page had fewer cases.
func RekeyPages(tx *kv.Tx) error {
	var former [][]byte
	for key := range tx.Walk(pageBucket, nil, nil, false) {
		p, b, err := pageAt(tx, key)
		if err == nil && p.Key != record.PageKey(b.URL) { // damaged ones are for a repair
			former = append(former, slices.Clone(key))
		}
	}
	for _, key := range former {
		p, b, err := pageAt(tx, key)
		if err != nil {
			return err
		}
		p.Key = record.PageKey(b.URL)
		if err := PageRows.Put(tx.Tx, p); err != nil {
			return err
		}
	}
	return nil
}

// pageAt reads a page and its bookmark.
func pageAt(tx *kv.Tx, key []byte) (*record.Page, *record.Bookmark, error) {
	p, err := PageRows.Get(tx.Tx, key)
	if err != nil {
		return nil, nil, err
	}
	_, b, err := bookmarked(tx, p)
	return p, b, err
}

// The first format in which each bookmark has a page, and that in which its key is by the present rule.
const (
	pagesFormat = 2
	keysFormat  = 6
)

// repairPage copies the page of a bookmark. If the row cannot be read, the page is
// checked again.
func repairPage(before, tx *kv.Tx, r *record.Record) error {
	address := ""
	if b, err := bookmark(r); err == nil {
		address = b.URL
	}
	p, err := PageRows.Get(before.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
	if err != nil || p.Key != record.PageKey(address) {
		p = record.NewPage(r.Owner, r.ID, address, r.Updated)
	}
	return PageRows.Put(tx.Tx, p)
}

// maxSame is how many bookmarks of one page SamePages lists.
const maxSame = 10

// SamePage reads the owner's oldest bookmark of the page at an address; Missing if
// there is none.
func SamePage(tx *kv.Tx, owner record.ID, address string) (*record.Record, error) {
	all, err := samePages(tx, owner, address, record.ID{}, 1)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, record.NotFound("bookmark")
	}
	return all[0], nil
}

// SamePages lists the owner's ten oldest bookmarks of the page at an address, without
// the one whose id is other.
func SamePages(tx *kv.Tx, owner record.ID, address string, other record.ID) ([]*record.Record, error) {
	return samePages(tx, owner, address, other, maxSame)
}

// samePages looks for the page by each spelling of its host.
func samePages(tx *kv.Tx, owner record.ID, address string, other record.ID, most int) ([]*record.Record, error) {
	var all []*record.Record
	for _, spelled := range record.Spellings(address) {
		l := facet{samePage, record.PageKey(spelled)}
		for k := range tx.Walk(recordFacet, l.key(owner, record.Bookmarks), nil, false) {
			if len(all) == most {
				return all, nil
			}
			id := record.ID(k[labelSize:])
			if id == other {
				continue
			}
			r, err := Owned(tx, owner, record.Bookmarks, id)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// PageCheckDue delivers a value when a page may have become due, or the settings have
// changed, since the last receive. It is for one reader.
func PageCheckDue(s *kv.Store) <-chan struct{} { return people.PagesDue.Of(s) }

// A DuePage names a page that is due for a check.
type DuePage struct {
	Owner, ID record.ID // of the bookmark
	Host      uint64    // see record.Page
	Fill      bool      // the bookmark lacks something that the page may provide
}

// maxDuePages is how many pages DuePages offers at most.
const maxDuePages = 20_000

// DuePages calls take with the pages that are due, until take returns false. The last
// to become due come first, because the user who has just saved a bookmark is waiting.
// wait is how long until the next page is due, if nothing changes. It is 0 if there is
// none or if link checks are turned off.
func DuePages(tx *kv.Tx, take func(DuePage) (more bool)) (wait time.Duration, err error) {
	set, err := people.ReadSettings(tx)
	if err != nil || !set.LinkChecks {
		return 0, err
	}
	now := tx.Store().MonotonicNow()
	next := binary.BigEndian.AppendUint64(nil, kv.Signed(now.Add(time.Millisecond)))
	n := 0
	for k := range tx.Walk(pageDue, nil, next, true) {
		n++
		if n > maxDuePages || !take(DuePage{
			Owner: record.ID(k[17:]), ID: record.ID(k[33:]), Host: binary.BigEndian.Uint64(k[9:]), Fill: k[8] == lookFill,
		}) {
			break
		}
	}
	for k := range tx.Walk(pageDue, nil, next[:8:8], false) {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(k) ^ 1<<63)).Sub(now), nil
	}
	return 0, nil
}

// LoadDuePage reads a page and the bookmark that leads to it; Missing if either is
// gone. idle says that the owner is disabled and the page must not be fetched.
func LoadDuePage(tx *kv.Tx, t DuePage) (p *record.Page, b *record.Bookmark, idle bool, err error) {
	p, err = PageRows.Get(tx.Tx, kv.OwnedKey(t.Owner, t.ID[:]...))
	if err != nil {
		return nil, nil, false, kv.UserError(err, "bookmark")
	}
	_, b, err = bookmarked(tx, p)
	if err != nil {
		return nil, nil, false, err
	}
	idle, err = people.Disabled(tx, t.Owner)
	return p, b, idle, err
}

// PostponePage postpones a page to its next scheduled check.
func PostponePage(tx *kv.Tx, t DuePage) error {
	p, err := PageRows.Get(tx.Tx, kv.OwnedKey(t.Owner, t.ID[:]...))
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	p.Postpone(tx.Store().MonotonicNow())
	return PageRows.Put(tx.Tx, p)
}

// PageIcon is the site whose icon a bookmark shows; zero if it has none.
func PageIcon(tx *kv.Tx, r *record.Record) (record.ID, error) {
	p, err := PageRows.Get(tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
	if errors.Is(err, table.ErrMissing) {
		return record.ID{}, nil
	}
	if err != nil {
		return record.ID{}, err
	}
	return p.Icon, nil
}

// RecheckPage makes the page of a bookmark due at once, unless link checks are turned
// off.
func RecheckPage(tx *kv.Tx, r *record.Record) error {
	set, err := people.ReadSettings(tx)
	if err != nil || !set.LinkChecks {
		return err
	}
	p, err := PageRows.Get(tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	now := tx.Store().MonotonicNow()
	if !p.Due.After(now) {
		return nil
	}
	p.Due = now
	people.PagesDue.Raise(tx)
	return PageRows.Put(tx.Tx, p)
}

// RefillPage has the page of a bookmark read at once, for what the bookmark lacks.
func RefillPage(tx *kv.Tx, r *record.Record) error {
	p, err := PageRows.Get(tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil || p.Fill {
		return err
	}
	p.Refill(tx.Store().MonotonicNow())
	people.PagesDue.Raise(tx)
	return PageRows.Put(tx.Tx, p)
}

// pagesAtOnce is how many pages a transaction of Icons reads.
const pagesAtOnce = 1000

// Icons lists the sites whose icons bookmarks show, each once. It reads all pages in
// several transactions, so it may or may not see changes made while it runs.
func Icons(s *kv.Store) ([]record.ID, error) {
	sites := map[record.ID]bool{}
	var after []byte
	for n := pagesAtOnce; n == pagesAtOnce; {
		if err := s.View(func(tx *kv.Tx) error {
			n = 0
			for k, row := range tx.Walk(pageBucket, nil, after, false) {
				// A damaged row has no icon: it can be fetched again.
				if p, err := PageRows.Decode(k, row); err == nil && p.Icon != (record.ID{}) {
					sites[p.Icon] = true
				}
				n++
				if n == pagesAtOnce {
					after = bytes.Clone(k)
					break
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Keys(sites)), nil
}

// SavePageCheck stores the result of checking the page before. It fills in what the
// bookmark lacks now and keeps everything that its owner wrote. That doesn't count as
// an edit: updatedAt stays. Text that does not fit the quota or the disk is left out,
// and the page is fetched again later. If the bookmark is gone or leads elsewhere by
// now, nothing is written.
func SavePageCheck(tx *kv.Tx, before *record.Page, l record.Look) error {
	p, err := PageRows.Get(tx.Tx, PageRows.Key(before))
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil || p.Key != before.Key {
		return err
	}
	r, b, err := bookmarked(tx, p)
	if err != nil {
		return err
	}

	filled := *r
	fill := p.Fill && l.Read && b.Take(l)
	if fill {
		filled.SetBody(b)
		err := people.Charge(tx, r.Owner, int64(len(filled.AppendRow(nil))-len(r.AppendRow(nil))))
		var limit *record.Error
		switch {
		case tx.DiskFull(), errors.As(err, &limit) && limit.Code == "quota_exceeded":
			fill, l.Read = false, false // later
		case err != nil:
			return err
		}
	}

	gone := p.Record(l, tx.Store().MonotonicNow())
	if err := PageRows.Put(tx.Tx, p); err != nil {
		return err
	}
	if fill {
		r = &filled
		if err := save(tx, r); err != nil {
			return err
		}
		if err := emit(tx, jobs.Edited(r.Kind), r); err != nil {
			return err
		}
	}
	if gone {
		return emit(tx, jobs.PageGone, r)
	}
	return nil
}
