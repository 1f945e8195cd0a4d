package catalog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// PickedItem says that an item was put into a collection, and where.
type PickedItem struct {
	Owner, Item, Collection record.ID
	Kind                    *record.Kind // of the item
	Rank                    uint64       // the place in the collection
}

// Ranks leave room for items that are put between two others.
const (
	firstRank = 1 << 62
	rankGap   = 1 << 32
)

// pickBytes is how many bytes of text a pick counts for in the quota: its row and its
// entry in the order.
const pickBytes = 128

// PickRows is the table of the items in collections that were picked. Its rows stay
// while the item or the collection is elsewhere, and go when either is removed for good.
var PickRows = &table.Table[PickedItem]{
	Rows: pickBucket,
	Key:  func(m *PickedItem) []byte { return slices.Concat(m.Owner[:], m.Item[:], m.Collection[:]) },
	Encode: func(m *PickedItem) ([]byte, error) {
		return append(binary.BigEndian.AppendUint64(nil, m.Rank), m.Kind.Code), nil
	},
	Decode: func(key, row []byte) (*PickedItem, error) {
		if len(key) != 48 || len(row) != 9 || record.KindOf(row[8]) == nil {
			return nil, errors.New("the row of an item of a collection is damaged")
		}
		return &PickedItem{
			record.ID(key[:16]), record.ID(key[16:32]), record.ID(key[32:]),
			record.KindOf(row[8]), binary.BigEndian.Uint64(row),
		}, nil
	},
	Indexes: []table.Index[PickedItem]{{Bucket: pickOrder, Keys: func(m *PickedItem, file func([]byte)) {
		file(append(binary.BigEndian.AppendUint64(slices.Concat(m.Owner[:], m.Collection[:]), m.Rank), m.Item[:]...))
	}}},
	Bytes: func(m *PickedItem, _ int) (table.Bucket, []byte, int) { return kv.TextSum(m.Owner, pickBytes) },
}

// PickTable keeps the items in collections.
var PickTable = kv.Table{
	Watched: []table.Bucket{kv.RecordBucket, pickBucket},
	Changed: itemsCache.Renew,
	Buckets: []table.Bucket{pickBucket, pickOrder},
	Check: kv.CheckRows(PickRows, func(a *kv.Audit, m *PickedItem) {
		a.Refers(people.UserBucket, m.Owner[:], "collected item", m.Item)
	}),
	Refill: kv.RefillRows(PickRows, kv.Mending[PickedItem]{
		Mend: func(r *kv.Refill, m *PickedItem) error { return people.StandIn(r, m.Owner) },
	}),
	Drop: kv.DropRows(PickRows),
	Text: func(tx *kv.Tx, add func(record.ID, int64)) {
		for k := range tx.Walk(pickBucket, nil, nil, false) {
			add(record.ID(k[:16]), pickBytes)
		}
	},
}

// place is where a row of the order says that an item is.
type pickPlace struct {
	rank uint64
	item record.ID
}

// order yields the places in a collection, from after on.
func order(tx *kv.Tx, r *record.Record, after []byte, down bool) func(func(pickPlace) bool) {
	return func(yield func(pickPlace) bool) {
		for k := range tx.Walk(pickOrder, kv.OwnedKey(r.Owner, r.ID[:]...), after, down) {
			if !yield(pickPlace{binary.BigEndian.Uint64(k[32:]), record.ID(k[40:])}) {
				return
			}
		}
	}
}

func pickKey(r *record.Record, item record.ID) []byte {
	return slices.Concat(r.Owner[:], item[:], r.ID[:])
}

// pickOf reads the row of an item in a collection; Missing if it was not picked.
func pickOf(tx *kv.Tx, r *record.Record, item record.ID) (*PickedItem, error) {
	m, err := PickRows.Get(tx.Tx, pickKey(r, item))
	return m, kv.UserError(err, "item")
}

// dropPicks deletes the rows of a record that is removed for good: those of its items,
// or those of the collections that it is in.
func dropPicks(tx *kv.Tx, r *record.Record) error {
	var keys [][]byte
	if r.Kind == record.Collections {
		for at := range order(tx, r, nil, false) {
			keys = append(keys, pickKey(r, at.item))
		}
	} else {
		for k := range tx.Walk(pickBucket, kv.OwnedKey(r.Owner, r.ID[:]...), nil, false) {
			keys = append(keys, bytes.Clone(k))
		}
	}
	for _, k := range keys {
		if _, err := PickRows.Delete(tx.Tx, k); err != nil {
			return err
		}
	}
	return nil
}

// ofAnyKind finds an item of the owner's by its id, and tries the kind of an earlier one
// first. A collection cannot be an item.
func ofAnyKind(tx *kv.Tx, owner, id record.ID, first *record.Kind) *record.Kind {
	for i := range record.Kinds {
		k := record.Kinds[(int(first.Code)-1+i)%len(record.Kinds)]
		if k != record.Collections && tx.Get(kv.RecordBucket, record.RowKey(owner, k, id)) != nil {
			return k
		}
	}
	return nil
}

// pick adds items to the end of a collection, except those that it has already.
func pick(tx *kv.Tx, r *record.Record, ids []string, name string) error {
	rank, n := uint64(firstRank), 0
	for at := range order(tx, r, nil, true) {
		rank = max(rank, at.rank+rankGap)
		if n == record.MaxPicked {
			break
		}
		n++
	}

	k := record.Files
	for _, text := range ids {
		id := uuid.MustParse(text)
		_, err := pickOf(tx, r, id)
		if err == nil {
			continue
		}
		if !kv.Missing(err) {
			return err
		}
		if tx.Get(kv.RecordBucket, record.RowKey(r.Owner, record.Collections, id)) != nil {
			return record.Bad(map[string]string{name: "names a collection, which cannot be in a collection: " + text})
		}
		k = ofAnyKind(tx, r.Owner, id, k)
		if k == nil {
			return record.Bad(map[string]string{name: "names an item that you do not have: " + text})
		}
		n++
		if n > record.MaxPicked {
			text := fmt.Sprintf("The collection has %d items already, and more are not possible. Take out some first.",
				record.MaxPicked)
			return &record.Error{Fault: record.Denied, Code: "too_many_items", Text: text}
		}
		if err := PickRows.Put(tx.Tx, &PickedItem{r.Owner, id, r.ID, k, rank}); err != nil {
			return err
		}
		rank += rankGap
	}
	return nil
}

// setSource makes the choice in a form that of the collection. Naming items replaces
// those that it had.
func setSource(tx *kv.Tx, r *record.Record, f *record.Form) error {
	b, ok := f.Body.(*record.Collection)
	if !ok || !f.Sourced {
		return nil
	}
	b.Folder, b.Tag = f.Source.Folder, uuid.Nil
	if b.Folder != uuid.Nil && tx.Get(folderBucket, kv.OwnedKey(r.Owner, b.Folder[:]...)) == nil {
		return record.Bad(map[string]string{"source": "names a folder that you do not have"})
	}
	if f.Source.Tag != "" {
		t, err := TagNamed(tx, r.Owner, f.Source.Tag)
		if kv.Missing(err) {
			return record.Bad(map[string]string{"source": "names a tag that you do not have"})
		}
		if err != nil {
			return err
		}
		b.Tag = t.ID
	}
	r.SetBody(b)
	if b.Live() || f.Source.Items != nil {
		if err := dropPicks(tx, r); err != nil {
			return err
		}
	}
	return pick(tx, r, f.Source.Items, "source")
}

// Pick takes items out of a collection and adds others to its end. r must have been read
// in the same transaction. It fails as Save does.
func Pick(tx *kv.Tx, r *record.Record, add, remove []string) error {
	for _, text := range remove {
		_, err := PickRows.Delete(tx.Tx, pickKey(r, uuid.MustParse(text)))
		if err != nil && !errors.Is(err, table.ErrMissing) {
			return err
		}
	}
	if len(add) > 0 && tx.DiskFull() {
		return kv.ErrFull
	}
	if err := pick(tx, r, add, "add"); err != nil {
		return err
	}
	if len(add) > 0 {
		if err := people.Charge(tx, r.Owner, 0); err != nil {
			return err
		}
	}
	return touch(tx, r)
}

// Move puts an item of a collection before another one, or at the end if before is zero.
func Move(tx *kv.Tx, r *record.Record, item, before record.ID) error {
	m, err := pickOf(tx, r, item)
	if err != nil {
		return err
	}
	to := uint64(0)
	if before == uuid.Nil {
		for at := range order(tx, r, nil, true) {
			to = at.rank + rankGap
			break
		}
	} else {
		next, err := pickOf(tx, r, before)
		if kv.Missing(err) {
			return record.Bad(map[string]string{"before": "names an item that is not in the collection"})
		}
		if err != nil {
			return err
		}
		if before == item {
			return nil
		}
		to = between(tx, r, next)
		if to == 0 { // no room: space out all of them
			if err := spaceOut(tx, r); err != nil {
				return err
			}
			next, err = pickOf(tx, r, before)
			if err != nil {
				return err
			}
			to = between(tx, r, next)
		}
	}
	m.Rank = to
	if err := PickRows.Put(tx.Tx, m); err != nil {
		return err
	}
	return touch(tx, r)
}

// between is a rank before that of next and after the one before it; 0 if no rank is free.
func between(tx *kv.Tx, r *record.Record, next *PickedItem) uint64 {
	previous := next.Rank - min(next.Rank, 2*rankGap)
	after := append(binary.BigEndian.AppendUint64(nil, next.Rank), next.Item[:]...)
	for at := range order(tx, r, after, true) {
		previous = at.rank
		break
	}
	if middle := previous + (next.Rank-previous)/2; middle > previous && middle < next.Rank {
		return middle
	}
	return 0
}

// spaceOut gives the items of a collection ranks with gaps between them.
func spaceOut(tx *kv.Tx, r *record.Record) error {
	for i, at := range slices.Collect(order(tx, r, nil, false)) {
		m, err := pickOf(tx, r, at.item)
		if err != nil {
			return err
		}
		m.Rank = firstRank + uint64(i)*rankGap
		if err := PickRows.Put(tx.Tx, m); err != nil {
			return err
		}
	}
	return nil
}

// touch records a change of a collection's items as one of the collection.
func touch(tx *kv.Tx, r *record.Record) error {
	r.Updated = tx.Now
	if err := save(tx, r); err != nil {
		return err
	}
	return emit(tx, jobs.Edited(r.Kind), r)
}

// An Item is an item of a collection.
type Item struct {
	ID      record.ID
	Kind    *record.Kind
	Class   record.Class
	Size    int64
	LeftOut record.Exclusion // why visitors do not see it; "" if they do
}

// Items are the items of a collection that exist, in its order, and what visitors see
// of them. Nobody may change them.
type Items struct {
	All          []Item
	Visible      []Item // those that visitors see
	Items, Bytes int64
}

// keptItems caches the items of collections until a record changes.
type keptItems struct {
	by sync.Map // listKey: *Items
	n  atomic.Int64
}

// maxKeptItems bounds the cached items of all collections, at about 50 bytes each.
const maxKeptItems = 50_000

var itemsCache kv.Cache[keptItems]

// listKey is the list of a collection as a caller knows it: the caller may have read the
// collection before the transaction.
type listKey struct {
	id, folder, tag record.ID
	order           record.Arrangement
}

// ItemsOf reads the items of a collection. It costs some microseconds for each, unless
// no record has changed since.
func ItemsOf(tx *kv.Tx, r *record.Record) (*Items, error) {
	body, err := r.Decode()
	if err != nil {
		return nil, err
	}
	b := body.(*record.Collection) // the kind says so
	key := listKey{r.ID, b.Folder, b.Tag, b.Order()}
	kept := itemsCache.In(tx)
	if kept != nil {
		if v, ok := kept.by.Load(key); ok {
			return v.(*Items), nil //nolint:errcheck // every value has this type
		}
	}

	g := gathering{tx: tx, r: r, of: b, all: new(Items), titles: map[record.ID]string{}}
	if b.Live() {
		err = g.live()
	} else {
		err = g.picked()
	}
	if err != nil {
		return nil, err
	}
	g.sort()
	all := g.all
	all.Visible = all.All
	if int64(len(all.All)) > all.Items {
		all.Visible = slices.DeleteFunc(slices.Clone(all.All), func(x Item) bool { return x.LeftOut != "" })
	}

	if size := int64(len(all.All)) + 1; kept != nil && size <= maxKeptItems/2 {
		if kept.n.Add(size) > maxKeptItems {
			itemsCache.Replace(tx.Store(), kept)
		} else {
			kept.by.Store(key, all)
		}
	}
	return all, nil
}

// A gathering is a collection whose items are being read.
type gathering struct {
	tx     *kv.Tx
	r      *record.Record
	of     *record.Collection // the body of r
	all    *Items
	titles map[record.ID]string // what sort needs
}

// live adds the items of a collection over a folder or a tag.
func (g *gathering) live() error {
	l := facet{inFolder, g.of.Folder}
	if g.of.Tag != uuid.Nil {
		l = facet{hasTag, g.of.Tag}
	}
	for _, k := range record.Kinds {
		prefix := l.key(g.r.Owner, k)
		for e := range g.tx.Walk(recordFacet, prefix, nil, true) {
			if len(g.all.All) == record.MaxLive {
				break
			}
			if err := g.add(k, record.ID(e[len(prefix):])); err != nil {
				return err
			}
		}
	}
	return nil
}

// picked adds the items that the owner has picked.
func (g *gathering) picked() error {
	for at := range order(g.tx, g.r, nil, false) {
		m, err := pickOf(g.tx, g.r, at.item)
		if err != nil {
			return err
		}
		if err := g.add(m.Kind, at.item); err != nil {
			return err
		}
	}
	return nil
}

// add adds an item, unless it does not exist or is not in the collection.
func (g *gathering) add(k *record.Kind, id record.ID) error {
	key := record.RowKey(g.r.Owner, k, id)
	row := g.tx.Get(kv.RecordBucket, key)
	if row == nil {
		return nil
	}
	item, err := record.BorrowRow(key, row)
	if err != nil {
		return err
	}
	in, why := g.of.Through(g.r, item, true)
	if !in {
		return nil
	}

	m := Item{ID: id, Kind: k, LeftOut: why}
	if item.Bytes != nil {
		m.Size, m.Class = item.Bytes.Size, item.Bytes.Class
	}
	if why == "" {
		g.all.Items, g.all.Bytes = g.all.Items+1, g.all.Bytes+m.Size
	}
	if g.of.Order() == record.ByTitle {
		g.titles[id] = strings.Clone(item.Order)
	}
	g.all.All = append(g.all.All, m)
	return nil
}

// sort puts the items into the order that the collection asks for.
func (g *gathering) sort() {
	age := func(x, y Item) int { return bytes.Compare(x.ID[:], y.ID[:]) }
	switch g.of.Order() {
	case record.NewestFirst:
		slices.SortFunc(g.all.All, func(x, y Item) int { return age(y, x) })
	case record.OldestFirst:
		slices.SortFunc(g.all.All, age)
	case record.ByTitle:
		slices.SortFunc(g.all.All, func(x, y Item) int {
			return cmp.Or(strings.Compare(g.titles[x.ID], g.titles[y.ID]), age(x, y))
		})
	}
}

// Through reads an item as visitors of the collection get it. The error is ErrMissing for
// what is not in the collection, is left out, or does not exist. The item's Body is valid
// until the transaction ends.
func Through(tx *kv.Tx, c *record.Record, id record.ID) (*record.Record, error) {
	body, err := c.Decode()
	if err != nil {
		return nil, err
	}
	k := ofAnyKind(tx, c.Owner, id, record.Files)
	if k == nil {
		return nil, record.ErrMissing
	}
	key := record.RowKey(c.Owner, k, id)
	item, err := record.BorrowRow(key, tx.Get(kv.RecordBucket, key))
	if err != nil {
		return nil, err
	}
	_, err = pickOf(tx, c, id)
	if err != nil && !kv.Missing(err) {
		return nil, err
	}
	picked := err == nil
	if in, why := body.(*record.Collection).Through(c, item, picked); !in || why != "" {
		return nil, record.ErrMissing
	}
	return item, nil
}

// collected fills in what the store knows about a collection.
func collected(tx *kv.Tx, r *record.Record, v *record.Shown) error {
	body, err := r.Decode()
	if err != nil {
		return err
	}
	all, err := ItemsOf(tx, r)
	if err != nil {
		return err
	}
	v.Collected = record.Collected{
		Collection: *body.(*record.Collection),
		Inside:     record.Inside{Items: all.Items, Bytes: all.Bytes, LeftOut: int64(len(all.All)) - all.Items},
	}
	if v.Collected.Tag == uuid.Nil {
		return nil
	}
	t, err := tag(tx, r.Owner, v.Collected.Tag)
	if kv.Missing(err) {
		return nil
	}
	v.Collected.TagName = t.Name
	return err
}
