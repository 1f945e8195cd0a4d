package catalog

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// A Way is how an account reaches a record: as its owner, or through a collection.
type Way struct {
	Role       record.Role    // RoleOwner if the record is the account's own; else the one in Collection
	Collection *record.Record // nil if the record is the account's own, or is this collection
	record.Rights
}

// OwnWay is the way of an owner.
var OwnWay = Way{
	Role: record.RoleOwner, Rights: record.Rights{See: true, Change: true, Arrange: true, TakeOut: true, Own: true},
}

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

// ReachOwn is Reach for what only an owner may do. The error is Denied if the account reaches the record through a
// collection. The Body is valid until the transaction ends.
func ReachOwn(tx *kv.Tx, user record.ID, k *record.Kind, named string) (*record.Record, error) {
	r, way, err := Reach(tx, user, k, named)
	if err == nil && !way.Own {
		return nil, ErrNotOwner
	}
	return r, err
}

// ErrNotOwner refuses somebody who is not the owner.
var ErrNotOwner = record.NotTheOwner("Only its owner can do this.")

// reachCollection reads a collection of another that the account is a member of.
func reachCollection(tx *kv.Tx, user record.ID, named string) (*record.Record, Way, error) {
	for m, c := range memberships(tx, user) {
		if c.Slug == named || c.ID.String() == named {
			return c, wayOf(m.Role), nil
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

// Reachable is what others share with an account, as of the transaction in which it was made. Nobody may change it.
type Reachable struct {
	Owners []record.ID // of the items
	Within []record.ID // the folders and tags that collections show

	user   record.ID
	ways   []sharedWay // the highest role first
	picked *pickedOf
}

// sharedWay is a collection with items of others.
type sharedWay struct {
	collection *record.Record
	shows      *record.Collection // its body
	role       record.Role
}

// pickedOf are the items of others that were picked for collections.
type pickedOf struct {
	collections []record.ID // those with picked items, in the order of the ways
	items       map[record.ID]pickedPlace
	owners      []record.ID
}

// pickedPlace is where a picked item is: the index of the owner, and of the first of the collections that have it.
type pickedPlace struct{ owner, collection int }

// keptPicked caches what was picked for collections that are shared with accounts until an item is picked or taken out.
type keptPicked struct {
	by sync.Map // record.ID of the account: *pickedOf
	n  atomic.Int64
}

// maxKeptPicked bounds the cached items of all accounts, at about 50 bytes each, and the picked items of others that an
// account finds. More are found in their collections alone.
const maxKeptPicked = 200_000

var pickedItems kv.Cache[keptPicked]

// SharedWith says which items of others an account reaches through collections. It costs some microseconds for each
// collection, and less for each picked item, unless none was picked or taken out since. What is in a folder or a
// tag that a collection shows costs nothing.
func SharedWith(tx *kv.Tx, user record.ID) (*Reachable, error) {
	s := &Reachable{user: user}
	byRole := map[record.Role][]sharedWay{}
	add := func(c *record.Record, role record.Role) error {
		of := *c
		of.Body = bytes.Clone(c.Body)
		body, err := of.Decode()
		if err != nil {
			return err
		}
		byRole[role] = append(byRole[role], sharedWay{&of, body.(*record.Collection), role}) // the kind says so
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

	s.ways = slices.Concat(byRole[record.RoleEdit], byRole[record.RoleAdd], byRole[record.RoleSee])
	for _, w := range s.ways {
		s.addOwner(w.collection.Owner)
		if w.shows.Live() && w.collection.Owner != user {
			s.Within = append(s.Within, cmp.Or(w.shows.Folder, w.shows.Tag))
		}
	}
	s.picked = pickedFor(tx, s)
	for _, owner := range s.picked.owners {
		disabled, err := people.Disabled(tx, owner)
		if err != nil {
			return nil, err
		}
		if !disabled {
			s.addOwner(owner)
		}
	}
	return s, nil
}

func (s *Reachable) addOwner(id record.ID) {
	if id != s.user && !slices.Contains(s.Owners, id) {
		s.Owners = append(s.Owners, id)
	}
}

// pickedFor lists what others have picked for the collections of s.
func pickedFor(tx *kv.Tx, s *Reachable) *pickedOf {
	all := &pickedOf{items: map[record.ID]pickedPlace{}}
	var ways []sharedWay
	for _, w := range s.ways {
		if !w.shows.Live() {
			ways, all.collections = append(ways, w), append(all.collections, w.collection.ID)
		}
	}
	kept := pickedItems.In(tx)
	if kept != nil {
		v, there := kept.by.Load(s.user)
		if there && slices.Equal(v.(*pickedOf).collections, all.collections) { //nolint:errcheck // every value has this type
			return v.(*pickedOf) //nolint:errcheck // likewise
		}
	}

	numbers := map[record.ID]int{} // of the owners
	for i, w := range ways {
		for at := range order(tx, w.collection, nil, false) {
			if _, there := all.items[at.item]; there || at.owner == s.user {
				continue
			}
			if len(all.items) == maxKeptPicked {
				break
			}
			n, there := numbers[at.owner]
			if !there {
				n = len(all.owners)
				numbers[at.owner], all.owners = n, append(all.owners, at.owner)
			}
			all.items[at.item] = pickedPlace{n, i}
		}
	}
	if size := int64(len(all.items)) + 1; kept != nil {
		if kept.n.Add(size) > maxKeptPicked {
			pickedItems.Replace(tx.Store(), kept)
		} else {
			kept.by.Store(s.user, all)
		}
	}
	return all
}

// Has reports whether an item was picked for a collection, or is a collection that another shares.
func (s *Reachable) Has(id record.ID) bool {
	_, there := s.picked.items[id]
	return there || s.collection(id) != nil
}

// collection finds a collection of another.
func (s *Reachable) collection(id record.ID) *sharedWay {
	i := slices.IndexFunc(s.ways, func(w sharedWay) bool { return w.collection.ID == id && w.collection.Owner != s.user })
	if i < 0 {
		return nil
	}
	return &s.ways[i]
}

// All yields everything that others share, each once, and errors.
func (s *Reachable) All(tx *kv.Tx) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		for i, w := range s.ways {
			if w.collection.Owner != s.user && !yield(w.collection, nil) {
				return
			}
			items, err := ItemsOf(tx, w.collection)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range items.All {
				if m.Owner == s.user {
					continue
				}
				r, way, err := s.Read(tx, m.Kind, m.ID)
				if err == nil && way.Collection != s.ways[i].collection {
					continue // it was yielded before
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

// Read reads what another shares, with the way to it of the highest role; the error is Missing if it is not shared. The
// Body is valid until the transaction ends.
func (s *Reachable) Read(tx *kv.Tx, k *record.Kind, id record.ID) (*record.Record, Way, error) {
	if k == record.Collections {
		w := s.collection(id)
		if w == nil {
			return nil, Way{}, record.NotFound(k.Name)
		}
		return w.collection, wayOf(w.role), nil
	}

	at, isPicked := s.picked.items[id]
	for _, owner := range s.Owners {
		key := record.RowKey(owner, k, id)
		row := tx.Get(kv.RecordBucket, key)
		if row == nil {
			continue
		}
		r, err := record.BorrowRow(key, row)
		if err != nil {
			return nil, Way{}, err
		}
		is := isPicked && owner == s.picked.owners[at.owner]
		for _, w := range s.ways {
			here := is && w.collection.ID == s.picked.collections[at.collection]
			may := w.shows.Rights(w.collection, r, here, record.Asker{ID: s.user, Role: w.role})
			if may.See {
				return r, Way{Role: w.role, Collection: w.collection, Rights: may}, nil
			}
		}
	}
	return nil, Way{}, record.NotFound(k.Name)
}

// CollectionsOf yields the collections of others that an account is a member of, with the ways to them. Their Bodies are
// valid until the transaction ends.
func CollectionsOf(tx *kv.Tx, user record.ID) iter.Seq2[*record.Record, Way] {
	return func(yield func(*record.Record, Way) bool) {
		for m, c := range memberships(tx, user) {
			if !yield(c, wayOf(m.Role)) {
				return
			}
		}
	}
}

// wayOf is the way of a member to the collection itself.
func wayOf(role record.Role) Way {
	edits := role.Edits()
	return Way{Role: role, Rights: record.Rights{See: true, Change: edits, Arrange: edits}}
}
