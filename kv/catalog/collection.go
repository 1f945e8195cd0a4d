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
	Owner, Item, Collection record.ID    // the owner is that of the item
	Kind                    *record.Kind // of the item
	Rank                    uint64       // the place in the collection
	Of                      record.ID    // the owner of the collection
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
		row := append(binary.BigEndian.AppendUint64(nil, m.Rank), m.Kind.Code)
		if m.Of != m.Owner {
			row = append(row, m.Of[:]...)
		}
		return row, nil
	},
	Decode: func(key, row []byte) (*PickedItem, error) {
		if len(key) != 48 || len(row) != 9 && len(row) != 9+16 || record.KindOf(row[8]) == nil {
			return nil, errors.New("the row of an item of a collection is damaged")
		}
		m := &PickedItem{
			record.ID(key[:16]), record.ID(key[16:32]), record.ID(key[32:]),
			record.KindOf(row[8]), binary.BigEndian.Uint64(row), record.ID(key[:16]),
		}
		if len(row) > 9 {
			m.Of = record.ID(row[9:])
		}
		return m, nil
	},
	Indexes: []table.Index[PickedItem]{{Bucket: pickOrder, Keys: func(m *PickedItem, file func([]byte)) {
		entry := binary.BigEndian.AppendUint64(slices.Concat(m.Of[:], m.Collection[:]), m.Rank)
		entry = append(entry, m.Item[:]...)
		if m.Of != m.Owner {
			entry = append(entry, m.Owner[:]...)
		}
		file(entry)
	}}},
	Bytes: func(m *PickedItem, _ int) (table.Bucket, []byte, int) { return kv.TextSum(m.Owner, pickBytes) },
}

// PickTable keeps the items in collections.
var PickTable = kv.Table{
	Watched: []table.Bucket{kv.RecordBucket, pickBucket, people.UserBucket},
	Changed: itemsCache.Renew,
	Buckets: []table.Bucket{pickBucket, pickOrder},
	Check: kv.CheckRows(PickRows, func(a *kv.Audit, m *PickedItem) {
		a.Refers(people.UserBucket, m.Owner[:], "collected item", m.Item)
		a.Refers(people.UserBucket, m.Of[:], "collected item", m.Item)
	}),
	Refill: kv.RefillRows(PickRows, kv.Mending[PickedItem]{
		Mend: func(r *kv.Refill, m *PickedItem) error {
			if err := people.StandIn(r, m.Of); err != nil {
				return err
			}
			return people.StandIn(r, m.Owner)
		},
	}),
	Drop: kv.DropRows(PickRows),
	Text: func(tx *kv.Tx, add func(record.ID, int64)) {
		for k := range tx.Walk(pickBucket, nil, nil, false) {
			add(record.ID(k[:16]), pickBytes)
		}
	},
}

// pickPlace is where a row of the order says that an item is.
type pickPlace struct {
	rank  uint64
	item  record.ID
	owner record.ID // of the item
}

// key is the key of the row of the item.
func (at pickPlace) key(r *record.Record) []byte { return pickKey(r, at.owner, at.item) }

// order yields the places in a collection, from after on.
func order(tx *kv.Tx, r *record.Record, after []byte, down bool) func(func(pickPlace) bool) {
	return func(yield func(pickPlace) bool) {
		for k := range tx.Walk(pickOrder, kv.OwnedKey(r.Owner, r.ID[:]...), after, down) {
			at := pickPlace{binary.BigEndian.Uint64(k[32:]), record.ID(k[40:56]), r.Owner}
			if len(k) > 56 {
				at.owner = record.ID(k[56:])
			}
			if !yield(at) {
				return
			}
		}
	}
}

func pickKey(r *record.Record, owner, item record.ID) []byte {
	return slices.Concat(owner[:], item[:], r.ID[:])
}

// pickOf reads the row of an item in a collection; Missing if it was not picked. The item belongs to the owner of the
// collection or to a member.
func pickOf(tx *kv.Tx, r *record.Record, item record.ID) (*PickedItem, error) {
	m, err := PickRows.Get(tx.Tx, pickKey(r, r.Owner, item))
	if errors.Is(err, table.ErrMissing) {
		for member := range memberIDs(tx, r) {
			m, err = PickRows.Get(tx.Tx, pickKey(r, member, item))
			if !errors.Is(err, table.ErrMissing) {
				break
			}
		}
	}
	return m, kv.UserError(err, "item")
}

// dropPicks deletes the rows of a record that is removed for good: those of its items,
// or those of the collections that it is in.
func dropPicks(tx *kv.Tx, r *record.Record) error {
	var keys [][]byte
	if r.Kind == record.Collections {
		for at := range order(tx, r, nil, false) {
			keys = append(keys, at.key(r))
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

// pick adds items of an owner to the end of a collection, except those that it has already. others are the owners of
// the items that are not that owner's. added is how many it did not have.
func pick(
	tx *kv.Tx, r *record.Record, owner record.ID, ids []string, name string, others map[record.ID]record.ID,
) (added int, err error) {
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
			return added, err
		}
		if tx.Get(kv.RecordBucket, record.RowKey(owner, record.Collections, id)) != nil {
			return added, record.Bad(map[string]string{name: "names a collection, which cannot be in a collection: " + text})
		}
		of, isOther := others[id]
		if !isOther {
			of = owner
		}
		k = ofAnyKind(tx, of, id, k)
		if k == nil {
			return added, record.Bad(map[string]string{name: "names an item that you do not have: " + text})
		}
		n++
		if n > record.MaxPicked {
			text := fmt.Sprintf("The collection has %d items already, and more are not possible. Take out some first.",
				record.MaxPicked)
			return added, &record.Error{Fault: record.Denied, Code: "too_many_items", Text: text}
		}
		if err := PickRows.Put(tx.Tx, &PickedItem{of, id, r.ID, k, rank, r.Owner}); err != nil {
			return added, err
		}
		rank += rankGap
		added++
	}
	return added, nil
}

// setSource makes the choice in a form that of the collection. Naming items replaces
// those that it had. Items of members stay if they are named.
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
	others := map[record.ID]record.ID{}
	if b.Live() || f.Source.Items != nil {
		var err error
		others, err = dropForChoice(tx, r)
		if err != nil {
			return err
		}
	}
	_, err := pick(tx, r, r.Owner, f.Source.Items, "source", others)
	return err
}

// dropForChoice deletes the rows of a collection's items before others are chosen. It returns the owners of those that
// are members'. Items of members that are in the trash, or whose owner's account is disabled, stay: nobody who chooses
// sees them.
func dropForChoice(tx *kv.Tx, r *record.Record) (map[record.ID]record.ID, error) {
	others, keys := map[record.ID]record.ID{}, [][]byte{}
	for at := range order(tx, r, nil, false) {
		if at.owner != r.Owner {
			_, err := presentIn(tx, r, at.owner, at.item)
			if kv.Missing(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			others[at.item] = at.owner
		}
		keys = append(keys, at.key(r))
	}
	for _, key := range keys {
		if _, err := PickRows.Delete(tx.Tx, key); err != nil {
			return nil, err
		}
	}
	return others, nil
}

// Pick takes items out of a collection and adds items of the asker's to its end. r must have been read in the same
// transaction. It fails as Save does, and with Denied if the asker may not take one of the items out, or add any.
func Pick(tx *kv.Tx, r *record.Record, who record.Asker, add, remove []string) error {
	b, err := picked(r)
	if err != nil {
		return err
	}
	if len(add) > 0 && !who.Role.Adds() {
		return record.NotTheOwner("You can see this collection, but not add to it.", "add")
	}
	changes := 0
	for _, text := range remove {
		m, err := pickOf(tx, r, uuid.MustParse(text))
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		item := &record.Record{ID: m.Item, Owner: m.Owner, Kind: m.Kind} // no more is asked for
		if !b.Rights(r, item, true, who).TakeOut {
			return record.NotTheOwner("You can take out only what you put into this collection.", "remove")
		}
		if _, err := PickRows.Delete(tx.Tx, pickKey(r, m.Owner, m.Item)); err != nil {
			return err
		}
		changes++
	}
	if len(add) > 0 && tx.DiskFull() {
		return kv.ErrFull
	}
	added, err := pick(tx, r, who.ID, add, "add", nil)
	if err != nil {
		return err
	}
	if changes+added == 0 {
		return nil
	}
	if added > 0 {
		if err := people.Charge(tx, who.ID, 0); err != nil {
			return err
		}
	}
	if added > 0 && who.Role != record.RoleOwner {
		if err := tellAdded(tx, r, who.ID); err != nil {
			return err
		}
	}
	return touch(tx, r)
}

// tellAdded tells the owner of a collection and the member that the member has added to it.
func tellAdded(tx *kv.Tx, r *record.Record, member record.ID) error {
	u, err := people.ReadUser(tx, member)
	if err != nil {
		return err
	}
	if err := tellMember(tx, r, r.Owner, people.CollectionAdded, u.Name); err != nil {
		return err
	}
	if err := tellMember(tx, r, member, people.CollectionAdded, ""); err != nil {
		return err
	}
	return emit(tx, jobs.CollectionAdded, r)
}

// picked is the body of a collection whose items are picked. The error is Taken if it shows a folder or a tag.
func picked(r *record.Record) (*record.Collection, error) {
	body, err := r.Decode()
	if err != nil {
		return nil, err
	}
	b := body.(*record.Collection) // the kind says so
	if b.Live() {
		return nil, &record.Error{
			Fault: record.Taken, Code: "live_collection",
			Text: "This collection shows a folder or a tag, so its items cannot be picked. Change its source first.",
		}
	}
	return b, nil
}

// Move puts an item of a collection before another one, or at the end if before is zero. The error is Denied if the
// asker may not.
func Move(tx *kv.Tx, r *record.Record, who record.Asker, item, before record.ID) error {
	b, err := picked(r)
	if err != nil {
		return err
	}
	m, err := pickOf(tx, r, item)
	if err != nil {
		return err
	}
	if !b.Rights(r, &record.Record{ID: m.Item, Owner: m.Owner, Kind: m.Kind}, true, who).Arrange {
		return record.NotTheOwner("You cannot arrange this collection.", "before")
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
		m, err := PickRows.Get(tx.Tx, at.key(r))
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
	Owner   record.ID
	ID      record.ID
	Slug    string
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
	Pictures     []record.ID // of Visible; see record.Inside
}

// keptItems caches the items of collections until a record changes.
type keptItems struct {
	by sync.Map // listKey: *Items
	n  atomic.Int64
}

// maxKeptItems bounds the cached items of all collections, at about 100 bytes each.
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

	all.Pictures, err = g.pictures()
	if err != nil {
		return nil, err
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
			if err := g.add(g.r.Owner, k, record.ID(e[len(prefix):])); err != nil {
				return err
			}
		}
	}
	return nil
}

// picked adds the items that the owner and members have picked, but for those of members whose account is disabled.
func (g *gathering) picked() error {
	for at := range order(g.tx, g.r, nil, false) {
		m, err := PickRows.Get(g.tx.Tx, at.key(g.r))
		if err != nil {
			return err
		}
		away, err := isAway(g.tx, g.r, m.Owner)
		if err != nil {
			return err
		}
		if away {
			continue
		}
		if err := g.add(m.Owner, m.Kind, at.item); err != nil {
			return err
		}
	}
	return nil
}

// add adds an item, unless it does not exist or is not in the collection.
func (g *gathering) add(owner record.ID, k *record.Kind, id record.ID) error {
	key := record.RowKey(owner, k, id)
	row := g.tx.Get(kv.RecordBucket, key)
	if row == nil {
		return nil
	}
	item, err := record.BorrowRow(key, row)
	if err != nil {
		return err
	}
	if !g.of.Has(g.r, item, true) {
		return nil
	}

	why := g.of.Rights(g.r, item, true, record.Asker{Admitted: true}).LeftOut
	m := Item{Owner: owner, ID: id, Slug: strings.Clone(item.Slug), Kind: k, LeftOut: why}
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

// mostHeads is how many games and recipes are read to find pictures.
const mostHeads = 24

// pictures are the items whose pictures stand for the collection: its cover, and then the first ones.
func (g *gathering) pictures() ([]record.ID, error) {
	var all []record.ID
	heads := 0
	for _, m := range g.all.Visible {
		isPictured := m.Class == record.Image
		if m.Kind == record.Games || m.Kind == record.Recipes {
			heads++
			if heads > mostHeads {
				continue
			}
			var err error
			isPictured, err = g.isPictured(m)
			if err != nil {
				return nil, err
			}
		}
		switch {
		case !isPictured:
		case m.ID == g.of.Cover:
			all = slices.Insert(all, 0, m.ID)
			all = all[:min(len(all), record.MostPictures)]
		case len(all) < record.MostPictures:
			all = append(all, m.ID)
		}
	}
	return all, nil
}

// isPictured reports whether a game or a recipe has a picture for visitors.
func (g *gathering) isPictured(m Item) (bool, error) {
	key := record.RowKey(m.Owner, m.Kind, m.ID)
	item, err := record.BorrowRow(key, g.tx.Get(kv.RecordBucket, key))
	if err != nil {
		return false, err
	}
	body, err := item.Head()
	if err != nil {
		return false, err
	}
	switch b := body.(type) {
	case *record.Game:
		if b.CoverURL != "" {
			return true, nil
		}
	case *record.Recipe:
		if b.ImageURL != "" {
			return true, nil
		}
	}
	return HasOwnPicture(g.tx, item, body, record.Asker{Admitted: true}, func(*record.Record) bool { return false })
}

// Through reads an item of a collection, with what the asker may do with it. The error is ErrMissing for what is not in
// the collection, what the asker may not see, and what does not exist. The item's Body is valid until the transaction
// ends.
func Through(tx *kv.Tx, c *record.Record, who record.Asker, id record.ID) (*record.Record, record.Rights, error) {
	body, err := c.Decode()
	if err != nil {
		return nil, record.Rights{}, err
	}
	b := body.(*record.Collection) // the kind says so
	owner, isPicked := c.Owner, false
	if !b.Live() {
		m, err := pickOf(tx, c, id)
		if err != nil {
			return nil, record.Rights{}, missing(err)
		}
		owner, isPicked = m.Owner, true
	}
	item, err := presentIn(tx, c, owner, id)
	if err != nil {
		return nil, record.Rights{}, err
	}
	may := b.Rights(c, item, isPicked, who)
	if !may.See {
		return nil, record.Rights{}, record.ErrMissing
	}
	return item, may, nil
}

// missing makes the error of a row that is not there that of an item.
func missing(err error) error {
	if kv.Missing(err) {
		return record.ErrMissing
	}
	return err
}

// presentIn reads an item of an owner for a collection. The error is ErrMissing if it does not exist, or if the account
// of its owner is disabled.
func presentIn(tx *kv.Tx, c *record.Record, owner, id record.ID) (*record.Record, error) {
	k := ofAnyKind(tx, owner, id, record.Files)
	if k == nil {
		return nil, record.ErrMissing
	}
	away, err := isAway(tx, c, owner)
	if err != nil {
		return nil, err
	}
	if away {
		return nil, record.ErrMissing
	}
	key := record.RowKey(owner, k, id)
	return record.BorrowRow(key, tx.Get(kv.RecordBucket, key))
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
		Inside: record.Inside{
			Items: all.Items, Bytes: all.Bytes, LeftOut: int64(len(all.All)) - all.Items, Pictures: all.Pictures,
		},
	}
	if !v.Visitor {
		v.Collected.Members, err = Members(tx, r)
		if err != nil {
			return err
		}
	} else if !slices.ContainsFunc(all.Visible, func(m Item) bool { return m.ID == v.Collected.Cover }) {
		v.Collected.Cover = uuid.Nil
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
