package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// Membership says that a person has a part in a collection of another.
type Membership struct {
	Owner      record.ID   `json:"Owner"` // of the collection
	Collection record.ID   `json:"Collection"`
	User       record.ID   `json:"User"`
	Role       record.Role `json:"Role"`
	Since      time.Time   `json:"Since"`
}

// How many members a collection has, and in how many collections of one owner a person is: nobody keeps others from
// sharing with the person.
const (
	MaxMembers     = 50
	MaxMemberships = 200
)

// MembershipRows is the table of the members of collections. A row stays while the collection is in the trash, and goes
// when it is removed for good.
var MembershipRows = kv.JsonTable(
	membershipBucket,
	func(m *Membership) []byte { return slices.Concat(m.Owner[:], m.Collection[:], m.User[:]) },
	table.Index[Membership]{Bucket: membershipUser, Keys: func(m *Membership, file func([]byte)) {
		file(slices.Concat(m.User[:], m.Owner[:], m.Collection[:]))
	}},
)

// MembershipTable keeps the members of collections.
var MembershipTable = kv.Table{
	Watched: []table.Bucket{pickBucket}, // members find what others pick
	Changed: pickedItems.Renew,
	Buckets: []table.Bucket{membershipBucket, membershipUser},
	Check: kv.CheckRows(MembershipRows, func(a *kv.Audit, m *Membership) {
		a.Refers(people.UserBucket, m.Owner[:], "membership", m.Collection)
		a.Refers(people.UserBucket, m.User[:], "membership", m.Collection)
	}),
	Refill: kv.RefillRows(MembershipRows, kv.Mending[Membership]{Mend: func(r *kv.Refill, m *Membership) error {
		if err := people.StandIn(r, m.Owner); err != nil {
			return err
		}
		return people.StandIn(r, m.User)
	}}),
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		done, err := kv.DropRows(MembershipRows)(tx, owner)
		if err != nil || !done {
			return false, err
		}
		return tx.DropKeys(membershipUser, owner, func(key []byte) error {
			_, err := MembershipRows.Delete(tx.Tx, rowOfUser(key))
			return err
		})
	},
}

// rowOfUser is the key of the row of an entry in the index by user.
func rowOfUser(entry []byte) []byte { return slices.Concat(entry[16:], entry[:16]) }

// memberIDs yields the members of a collection.
func memberIDs(tx *kv.Tx, c *record.Record) iter.Seq[record.ID] {
	return func(yield func(record.ID) bool) {
		for k := range tx.Walk(membershipBucket, kv.OwnedKey(c.Owner, c.ID[:]...), nil, false) {
			if !yield(record.ID(k[32:])) {
				return
			}
		}
	}
}

// Members lists the members of a collection with their names, the oldest account first.
func Members(tx *kv.Tx, c *record.Record) (all []record.Member, err error) {
	for m, err := range MembershipRows.All(tx.Tx, kv.OwnedKey(c.Owner, c.ID[:]...)) {
		if err != nil {
			return nil, err
		}
		p, err := people.PersonOf(tx, m.User)
		if err != nil {
			return nil, err
		}
		all = append(all, record.Member{Person: p, Role: m.Role, Since: m.Since})
	}
	return all, nil
}

// RoleIn is what an account may do in a collection; "" if it has no part in it. A member of somebody whose account is
// disabled has none.
func RoleIn(tx *kv.Tx, c *record.Record, user record.ID) (record.Role, error) {
	if user == c.Owner {
		return record.RoleOwner, nil
	}
	m, err := MembershipRows.Get(tx.Tx, slices.Concat(c.Owner[:], c.ID[:], user[:]))
	if errors.Is(err, table.ErrMissing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	disabled, err := people.Disabled(tx, c.Owner)
	if err != nil || disabled {
		return "", err
	}
	return m.Role, nil
}

// isAway reports whether the items of an owner are not in a collection for now, because the account is disabled. Those
// of the collection's own owner are always there, because the caller has checked that account.
func isAway(tx *kv.Tx, c *record.Record, owner record.ID) (bool, error) {
	if owner == c.Owner {
		return false, nil
	}
	return people.Disabled(tx, owner)
}

// Invite makes a person a member of a collection, or gives a member another role. by is the name of who does it. The
// collection must have been read in the same transaction.
func Invite(tx *kv.Tx, c *record.Record, user record.ID, role record.Role, by string) error {
	if user == c.Owner {
		return record.Bad(map[string]string{"userId": "is the owner of the collection"})
	}
	if err := people.RequireOwner(tx, user); err != nil {
		return err
	}
	key := slices.Concat(c.Owner[:], c.ID[:], user[:])
	m, err := MembershipRows.Get(tx.Tx, key)
	switch {
	case errors.Is(err, table.ErrMissing):
		if err := checkMemberBounds(tx, c, user); err != nil {
			return err
		}
		m = &Membership{Owner: c.Owner, Collection: c.ID, User: user, Since: tx.Now}
	case err != nil:
		return err
	case m.Role == role:
		return nil
	}
	isNew := m.Role == ""
	m.Role = role
	if err := MembershipRows.Put(tx.Tx, m); err != nil {
		return err
	}
	if isNew {
		if err := tellMember(tx, c, user, people.CollectionShared, by); err != nil {
			return err
		}
		if err := note(tx, people.CollectionShared, c); err != nil {
			return err
		}
		if err := emit(tx, jobs.CollectionShared, c); err != nil {
			return err
		}
	}
	return touch(tx, c)
}

const codeFull = "too_many_members"

// isFull reports whether a person was not made a member because of a bound.
func isFull(err error) bool {
	e, ok := errors.AsType[*record.Error](err)
	return ok && e.Code == codeFull
}

func checkMemberBounds(tx *kv.Tx, c *record.Record, user record.ID) error {
	n := 0
	for range memberIDs(tx, c) {
		n++
	}
	if n >= MaxMembers {
		return &record.Error{
			Fault: record.Denied, Code: codeFull,
			Text: fmt.Sprintf("A collection has at most %d members.", MaxMembers),
		}
	}
	n = 0
	for range tx.Walk(membershipUser, slices.Concat(user[:], c.Owner[:]), nil, false) {
		n++
	}
	if n >= MaxMemberships {
		return &record.Error{
			Fault: record.Denied, Code: codeFull,
			Text: fmt.Sprintf("This person is in %d of your collections already, and more are not possible.", MaxMemberships),
		}
	}
	return nil
}

// Part ends the part that a person has in a collection. What the person put into it leaves with them. The collection
// must have been read in the same transaction; the error is Missing if the person is no member.
func Part(tx *kv.Tx, c *record.Record, user record.ID, by string) error {
	_, err := MembershipRows.Delete(tx.Tx, slices.Concat(c.Owner[:], c.ID[:], user[:]))
	if err != nil {
		return kv.UserError(err, "member")
	}
	var own [][]byte
	for at := range order(tx, c, nil, false) {
		if at.owner == user {
			own = append(own, at.key(c))
		}
	}
	for _, key := range own {
		if _, err := PickRows.Delete(tx.Tx, key); err != nil {
			return err
		}
	}
	if err := tellMember(tx, c, user, people.CollectionLeft, by); err != nil {
		return err
	}
	return touch(tx, c)
}

// tellMember adds an event of a collection to the activity of one of its members.
func tellMember(tx *kv.Tx, c *record.Record, member record.ID, e people.ActivityEvent, by string) error {
	b, err := c.Decode()
	if err != nil {
		return err
	}
	return people.Note(tx, people.Activity{
		Owner: member, Event: e, Name: b.Title(), Kind: c.Kind.Name, Item: c.ID, By: by,
	})
}

// NoteEdit tells the owner of an item that somebody else changes it. by is the username.
func NoteEdit(tx *kv.Tx, r *record.Record, by string) error {
	b, err := r.Decode()
	if err != nil {
		return err
	}
	return people.Note(tx, people.Activity{
		Owner: r.Owner, Event: people.ItemEdited, Name: b.Title(), Kind: r.Kind.Name, Item: r.ID, By: by,
	})
}

// tellMembers tells every member of a collection; a record of another kind has none.
func tellMembers(tx *kv.Tx, c *record.Record, e people.ActivityEvent, by string) error {
	for member := range memberIDs(tx, c) {
		if err := tellMember(tx, c, member, e, by); err != nil {
			return err
		}
	}
	return nil
}

// dropMemberships deletes the members of a collection that is removed for good.
func dropMemberships(tx *kv.Tx, c *record.Record) error {
	if c.Kind != record.Collections {
		return nil
	}
	var keys [][]byte
	for k := range tx.Walk(membershipBucket, kv.OwnedKey(c.Owner, c.ID[:]...), nil, false) {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if _, err := MembershipRows.Delete(tx.Tx, k); err != nil {
			return err
		}
	}
	return nil
}

// memberships yields the collections of others that a person is a member of and that are there: not in the trash, and
// their owner's account is not disabled. The Body of a collection is valid until the transaction ends.
func memberships(tx *kv.Tx, user record.ID) iter.Seq2[*Membership, *record.Record] {
	return func(yield func(*Membership, *record.Record) bool) {
		for entry := range tx.Walk(membershipUser, user[:], nil, false) {
			m, err := MembershipRows.Get(tx.Tx, rowOfUser(entry))
			if err != nil {
				continue // damaged rows are found by the audit
			}
			c, err := sharedCollection(tx, m)
			if err != nil {
				continue
			}
			if !yield(m, c) {
				return
			}
		}
	}
}

// sharedCollection reads the collection of a membership; ErrMissing if it is not there.
func sharedCollection(tx *kv.Tx, m *Membership) (*record.Record, error) {
	key := record.RowKey(m.Owner, record.Collections, m.Collection)
	row := tx.Get(kv.RecordBucket, key)
	if row == nil {
		return nil, record.ErrMissing
	}
	disabled, err := people.Disabled(tx, m.Owner)
	if err != nil {
		return nil, err
	}
	if disabled {
		return nil, record.ErrMissing
	}
	return record.BorrowRow(key, row)
}
