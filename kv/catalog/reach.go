package catalog

import (
	"bytes"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/record"
)

// A Way is how an account reaches a record: as its owner, or through a collection.
type Way struct {
	Role       record.Role    // RoleOwner if the record is the account's own; else the one in Collection
	Collection *record.Record // nil if the record is the account's own, or is this collection
	record.Rights
}

// OwnWay is the way of an owner.
var OwnWay = Way{Role: record.RoleOwner, Rights: record.Rights{See: true, Change: true, Arrange: true, TakeOut: true, Own: true}}

// Reach reads the record of the kind with the given id or slug, if it is the account's own or if the account reaches it
// through a collection; by the collection with the highest role, if there are several. Only the slugs of own records
// and of collections are known to the account. The Body is valid until the transaction ends.
func Reach(tx *kv.Tx, user record.ID, k *record.Kind, named string) (*record.Record, Way, error) {
	r, err := Borrow(tx, user, k, named)
	if err == nil {
		return r, OwnWay, nil
	}
	if !kv.Missing(err) {
		return nil, Way{}, err
	}
	if k == record.Collections {
		return reachCollection(tx, user, named)
	}
	id, bad := uuid.Parse(named)
	if bad != nil {
		return nil, Way{}, err
	}
	return reachItem(tx, user, k, id)
}

// reachCollection reads a collection of another that the account is a member of.
func reachCollection(tx *kv.Tx, user record.ID, named string) (*record.Record, Way, error) {
	for m, c := range memberships(tx, user) {
		if c.Slug == named || c.ID.String() == named {
			return c, wayOf(m), nil
		}
	}
	return nil, Way{}, record.NotFound(record.Collections.Name)
}

// reachItem reads an item of another that is in a collection of the account's or in one that it is a member of.
func reachItem(tx *kv.Tx, user record.ID, k *record.Kind, id record.ID) (*record.Record, Way, error) {
	var found *record.Record
	var best Way
	try := func(c *record.Record, role record.Role) error {
		if best.Role.Higher(role) == best.Role {
			return nil
		}
		item, may, err := Through(tx, c, record.Asker{ID: user, Role: role}, id)
		if kv.Missing(err) || err == nil && item.Kind != k {
			return nil
		}
		if err != nil {
			return err
		}
		found, best = item, Way{Role: role, Collection: c, Rights: may}
		return nil
	}

	for m, c := range memberships(tx, user) {
		if err := try(c, m.Role); err != nil {
			return nil, Way{}, err
		}
	}
	for c := range ownShared(tx, user) {
		if err := try(c, record.RoleEdit); err != nil { // no more, of items of members
			return nil, Way{}, err
		}
	}
	if found == nil {
		return nil, Way{}, record.NotFound(k.Name)
	}
	return found, best, nil
}

// ownShared yields the collections of an owner that have members and are not in the trash.
func ownShared(tx *kv.Tx, owner record.ID) iter.Seq[*record.Record] {
	return func(yield func(*record.Record) bool) {
		var last record.ID
		for k := range tx.Walk(membershipBucket, owner[:], nil, false) {
			id := record.ID(k[16:32])
			if id == last {
				continue
			}
			last = id
			key := record.RowKey(owner, record.Collections, id)
			row := tx.Get(kv.RecordBucket, key)
			if row == nil {
				continue
			}
			c, err := record.BorrowRow(key, row)
			if err != nil {
				continue // damaged rows are found by the audit
			}
			if !yield(c) {
				return
			}
		}
	}
}

// Reachable is what others share with an account. Nobody may change it.
type Reachable struct {
	Owners []record.ID // of the items, in ascending order
	items  map[record.ID]sharedItem
	ways   []sharedWay
}

// sharedItem is an item of another, with an index in ways.
type sharedItem struct {
	kind *record.Kind
	slug string
	way  int
}

type sharedWay struct {
	collection *record.Record
	role       record.Role
	owner      record.ID // of the item
}

// Has reports whether an item is shared.
func (s *Reachable) Has(id record.ID) bool {
	_, there := s.items[id]
	return there
}

// All yields the shared items with their link names, which the account may not know.
func (s *Reachable) All(yield func(k *record.Kind, id record.ID, slug string) bool) {
	for id, x := range s.items {
		if !yield(x.kind, id, x.slug) {
			return
		}
	}
}

// keptShared caches what is shared with accounts until a record, a collection or an account changes.
type keptShared struct {
	by sync.Map // record.ID of the account: *Reachable
	n  atomic.Int64
}

// maxKeptShared bounds the cached items of all accounts, at about 100 bytes each.
const maxKeptShared = 100_000

var sharedItems kv.Cache[keptShared]

// SharedWith lists the items of others that an account reaches through collections. It costs some microseconds for each,
// unless no record has changed since.
func SharedWith(tx *kv.Tx, user record.ID) (*Reachable, error) {
	kept := sharedItems.In(tx)
	if kept != nil {
		if v, ok := kept.by.Load(user); ok {
			return v.(*Reachable), nil //nolint:errcheck // every value has this type
		}
	}
	s := &Reachable{items: map[record.ID]sharedItem{}}
	add := func(c *record.Record, role record.Role) error {
		all, err := ItemsOf(tx, c)
		if err != nil {
			return err
		}
		at := map[record.ID]int{} // ways by owner
		for _, m := range all.All {
			if m.Owner == user {
				continue
			}
			if x, there := s.items[m.ID]; there && s.ways[x.way].role.Higher(role) == s.ways[x.way].role {
				continue
			}
			i, there := at[m.Owner]
			if !there {
				i = len(s.ways)
				at[m.Owner] = i
				of := *c
				of.Body = bytes.Clone(c.Body)
				s.ways = append(s.ways, sharedWay{&of, role, m.Owner})
			}
			s.items[m.ID] = sharedItem{m.Kind, m.Slug, i}
		}
		return nil
	}
	for m, c := range memberships(tx, user) {
		if err := add(c, m.Role); err != nil {
			return nil, err
		}
	}
	for c := range ownShared(tx, user) {
		if err := add(c, record.RoleEdit); err != nil {
			return nil, err
		}
	}
	for _, w := range s.ways {
		s.Owners = append(s.Owners, w.owner)
	}
	slices.SortFunc(s.Owners, func(a, b record.ID) int { return bytes.Compare(a[:], b[:]) })
	s.Owners = slices.Compact(s.Owners)

	if size := int64(len(s.items)) + 1; kept != nil && size <= maxKeptShared/2 {
		if kept.n.Add(size) > maxKeptShared {
			sharedItems.Replace(tx.Store(), kept)
		} else {
			kept.by.Store(user, s)
		}
	}
	return s, nil
}

// Read reads a shared item with the way to it; the error is Missing if it is not shared.
func (s *Reachable) Read(tx *kv.Tx, user record.ID, k *record.Kind, id record.ID) (*record.Record, Way, error) {
	x, there := s.items[id]
	if !there {
		return nil, Way{}, record.NotFound(k.Name)
	}
	w := s.ways[x.way]
	item, may, err := Through(tx, w.collection, record.Asker{ID: user, Role: w.role}, id)
	return item, Way{Role: w.role, Collection: w.collection, Rights: may}, err
}

// CollectionsOf yields the collections of others that an account is a member of, with the ways to them. Their Bodies are
// valid until the transaction ends.
func CollectionsOf(tx *kv.Tx, user record.ID) iter.Seq2[*record.Record, Way] {
	return func(yield func(*record.Record, Way) bool) {
		for m, c := range memberships(tx, user) {
			if !yield(c, wayOf(m)) {
				return
			}
		}
	}
}

// wayOf is the way of a member to the collection itself.
func wayOf(m *Membership) Way {
	edits := m.Role.Edits()
	return Way{Role: m.Role, Rights: record.Rights{See: true, Change: edits, Arrange: edits}}
}
