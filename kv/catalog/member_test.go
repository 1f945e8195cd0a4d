package catalog_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

var shareSeed = flag.Uint64("share-seed", 7, "of the history of shared collections")

// The model of a household: who has what, and who has a part in which collection.
type (
	houseItem struct {
		id      record.ID
		owner   int
		tagged  bool
		trashed bool
		shut    bool // has a limit, so visitors of a collection do not see it
	}
	houseCollection struct {
		id      record.ID
		owner   int
		live    bool // shows what has the owner's tag
		trashed bool
		roles   map[int]record.Role
		picks   []*houseItem
	}
	house struct {
		t           *testing.T
		rnd         *rand.Rand
		s           *kv.Store
		people      []*people.User
		disabled    map[int]bool
		gone        map[int]bool
		items       []*houseItem
		collections []*houseCollection
	}
)

// in says which items a collection has.
func (h *house) in(c *houseCollection) (all []*houseItem) {
	of := c.picks
	if c.live {
		of = nil
		for _, x := range h.items {
			if x.owner == c.owner && x.tagged {
				of = append(of, x)
			}
		}
	}
	for _, x := range of {
		if !x.trashed && (x.owner == c.owner || !h.disabled[x.owner]) {
			all = append(all, x)
		}
	}
	return all
}

// role is the highest role by which a person reaches an item: "" if not at all.
func (h *house) role(who int, x *houseItem) record.Role {
	best := record.Role("")
	if x.trashed {
		return ""
	}
	if who == x.owner {
		return record.RoleOwner
	}
	for _, c := range h.collections {
		if c.trashed || !slices.Contains(h.in(c), x) {
			continue
		}
		if c.owner == who {
			best = best.Higher(record.RoleEdit)
		} else if !h.disabled[c.owner] {
			best = best.Higher(c.roles[who])
		}
	}
	return best
}

// update runs fn on a collection that is not in the trash.
func (h *house) update(c *houseCollection, fn func(tx *kv.Tx, r *record.Record) error) error {
	return h.s.Update(func(tx *kv.Tx) error {
		r, err := catalog.Owned(tx, h.people[c.owner].ID, record.Collections, c.id)
		if err != nil {
			return err
		}
		return fn(tx, r)
	})
}

func (h *house) someone() int {
	for {
		if i := h.rnd.IntN(len(h.people)); !h.gone[i] {
			return i
		}
	}
}

// step does one thing of a household.
func (h *house) step(is *is.I) {
	is.Helper()
	c := h.collections[h.rnd.IntN(len(h.collections))]
	who := h.someone()
	if h.gone[c.owner] {
		return
	}
	by := h.people[c.owner].Name
	switch what := h.rnd.IntN(20); {
	case what < 4 && !c.trashed: // shares with somebody
		role := record.MemberRoles[h.rnd.IntN(3)]
		err := h.update(c, func(tx *kv.Tx, r *record.Record) error {
			return catalog.Invite(tx, r, h.people[who].ID, role, by)
		})
		is.Equal(err == nil, who != c.owner)
		if err == nil {
			c.roles[who] = role
		}
	case what < 6 && !c.trashed: // ends that
		err := h.update(c, func(tx *kv.Tx, r *record.Record) error {
			return catalog.Part(tx, r, h.people[who].ID, by)
		})
		is.Equal(err == nil, c.roles[who] != "")
		delete(c.roles, who)
		if who != c.owner {
			c.picks = slices.DeleteFunc(c.picks, func(x *houseItem) bool { return x.owner == who })
		}
	case what < 11 && !c.trashed: // puts something in
		x := h.items[h.rnd.IntN(len(h.items))]
		role := c.roles[who]
		if who == c.owner {
			role = record.RoleOwner
		}
		err := h.update(c, func(tx *kv.Tx, r *record.Record) error {
			return catalog.Pick(tx, r, record.Asker{ID: h.people[who].ID, Role: role}, []string{x.id.String()}, nil)
		})
		there := slices.Contains(c.picks, x)
		is.Equal(err == nil, !c.live && role.Adds() && (there || x.owner == who && !x.trashed))
		if err == nil && !there {
			c.picks = append(c.picks, x)
		}
	case what < 13 && !c.trashed: // takes something out
		x := h.items[h.rnd.IntN(len(h.items))]
		role := c.roles[who]
		if who == c.owner {
			role = record.RoleOwner
		}
		err := h.update(c, func(tx *kv.Tx, r *record.Record) error {
			return catalog.Pick(tx, r, record.Asker{ID: h.people[who].ID, Role: role}, nil, []string{x.id.String()})
		})
		there := slices.Contains(c.picks, x)
		is.Equal(err == nil, !c.live && (!there || role.Edits() || role != "" && x.owner == who))
		if err == nil && there {
			c.picks = slices.DeleteFunc(c.picks, func(y *houseItem) bool { return y == x })
		}
	case what < 16: // an item goes to the trash or comes back
		x := h.items[h.rnd.IntN(len(h.items))]
		if h.gone[x.owner] {
			return
		}
		is.NoErr(h.turn(h.people[x.owner].ID, record.Notes, x.id, x.trashed))
		x.trashed = !x.trashed
	case what < 17: // a collection
		is.NoErr(h.turn(h.people[c.owner].ID, record.Collections, c.id, c.trashed))
		c.trashed = !c.trashed
	case what < 19: // an account is disabled or enabled
		h.disabled[who] = !h.disabled[who]
		is.NoErr(h.s.Update(func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, h.people[who].ID)
			if err != nil {
				return err
			}
			u.Disabled = h.disabled[who]
			return people.SaveUser(tx, u)
		}))
	case h.rnd.IntN(8) == 0 && len(h.gone) < 2: // an account ends
		is.NoErr(people.RemoveUser(h.s, h.people[who].ID, "admin"))
		h.gone[who] = true
		of := func(x *houseItem) bool { return x.owner == who }
		h.items = slices.DeleteFunc(h.items, of)
		for _, c := range h.collections {
			delete(c.roles, who)
			c.picks = slices.DeleteFunc(c.picks, of)
			if c.owner == who {
				c.roles, c.picks = nil, nil
			}
		}
	}
}

// turn moves a record to the trash or takes it back.
func (h *house) turn(owner record.ID, k *record.Kind, id record.ID, back bool) error {
	return h.s.Update(func(tx *kv.Tx) error {
		if back {
			t, err := catalog.Trashed(tx, owner, id)
			if err != nil {
				return err
			}
			_, err = catalog.Untrash(tx, t)
			return err
		}
		r, err := catalog.Owned(tx, owner, k, id)
		if err != nil {
			return err
		}
		return catalog.Trash(tx, r, "test")
	})
}

// check compares what everybody reaches, item by item and as a whole, in a View and in an Update.
func (h *house) check(is *is.I) {
	is.Helper()
	look := func(tx *kv.Tx) error {
		for who, u := range h.people {
			if h.gone[who] {
				continue
			}
			all, err := catalog.SharedWith(tx, u.ID)
			is.NoErr(err)
			reached := map[record.ID]bool{}
			for _, x := range h.items {
				want := h.role(who, x)
				r, way, err := catalog.Reach(tx, u.ID, record.Notes, x.id.String())
				is.Equal(err == nil, want != "")
				is.Equal(way.Role, want)
				is.Equal(way.Own, want == record.RoleOwner)
				other, same, missing := all.Read(tx, record.Notes, x.id)
				is.Equal(missing == nil, want != "" && who != x.owner)
				if err != nil {
					is.True(kv.Missing(err))
					continue
				}
				is.Equal(r.ID, x.id)
				if who == x.owner {
					continue
				}
				is.Equal(other.ID, x.id)
				is.Equal(same.Role, want)
				reached[x.id] = true
			}
			for r, err := range all.All(tx) {
				is.NoErr(err)
				is.True(r.Kind == record.Collections || reached[r.ID])
				delete(reached, r.ID)
			}
			is.Equal(len(reached), 0)
		}
		for _, c := range h.collections {
			if c.trashed || h.gone[c.owner] {
				continue
			}
			r, err := catalog.Owned(tx, h.people[c.owner].ID, record.Collections, c.id)
			is.NoErr(err)
			got, err := catalog.ItemsOf(tx, r)
			is.NoErr(err)
			want := map[record.ID]bool{}
			for _, x := range h.in(c) {
				want[x.id] = true
				_, may, err := catalog.Through(tx, r, record.Asker{Admitted: true}, x.id)
				is.Equal(err == nil, !x.shut)
				is.Equal(may.See, !x.shut)
			}
			is.Equal(len(got.All), len(want))
			for _, x := range got.All {
				is.True(want[x.ID])
			}
			for who, u := range h.people {
				if h.gone[who] {
					continue
				}
				role, err := catalog.RoleIn(tx, r, u.ID)
				is.NoErr(err)
				switch {
				case who == c.owner:
					is.Equal(role, record.RoleOwner)
				case h.disabled[c.owner]:
					is.Equal(role, record.Role(""))
				default:
					is.Equal(role, c.roles[who])
				}
			}
		}
		return kvtest.Audit(tx)
	}
	kvtest.View(h.t, h.s, look)
	kvtest.Update(h.t, h.s, look)
}

// Random histories of a household: two of them own most, and all share, leave, add, take out, delete, restore, and
// their accounts come and go. Everybody reaches what the model says, also after a restart.
func TestHousehold(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := &house{
		t: t, rnd: rand.New(rand.NewPCG(*shareSeed, 1)), disabled: map[int]bool{}, gone: map[int]bool{},
	}
	dir := filepath.Join(t.TempDir(), "data")
	h.s = kvtest.OpenAt(t, dir, nil)
	kvtest.User(t, h.s, "admin") // who is never disabled
	for i := range 5 {
		h.people = append(h.people, kvtest.User(t, h.s, fmt.Sprintf("person-%d", i)))
	}
	for i := range 24 {
		x := &houseItem{owner: i % 5 % 3, tagged: i%2 == 0, shut: i%7 == 0}
		text := fmt.Sprintf(`{"content":"note %d"`, i)
		if x.tagged {
			text += `,"tags":["shown"]`
		}
		if x.shut {
			text += `,"maxViews":3`
		}
		x.id = kvtest.Add(t, h.s, h.people[x.owner].ID, record.Notes, text+"}").ID
		h.items = append(h.items, x)
	}
	for i := range 6 {
		c := &houseCollection{owner: i % 2, live: i == 5, roles: map[int]record.Role{}}
		text := `{"title":"together"}`
		if c.live {
			text = `{"title":"together","source":{"tag":"shown"}}`
		}
		c.id = kvtest.Add(t, h.s, h.people[c.owner].ID, record.Collections, text).ID
		h.collections = append(h.collections, c)
	}
	for i := range 400 {
		h.step(is)
		if i%10 == 0 {
			h.check(is)
		}
	}
	h.check(is)
	is.NoErr(h.s.Close())
	h.s = kvtest.OpenAt(t, dir, nil)
	h.check(is)
}

// A collection has so many members, and a person is in so many collections.
func TestMemberBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann")
	c := kvtest.Add(t, s, owner.ID, record.Collections, `{"title":"all"}`)
	invite := func(c *record.Record, user record.ID) error {
		return change(s, c, func(tx *kv.Tx, r *record.Record) error {
			return catalog.Invite(tx, r, user, record.RoleSee, "ann")
		})
	}
	for i := range catalog.MaxMembers {
		is.NoErr(invite(c, kvtest.User(t, s, fmt.Sprintf("member-%d", i)).ID))
	}
	late := kvtest.User(t, s, "late")
	is.Equal(kvtest.Code(invite(c, late.ID)), "too_many_members")
	is.Equal(kvtest.Code(invite(c, uuid.New())), "not_found")
	for range catalog.MaxMemberships {
		is.NoErr(invite(kvtest.Add(t, s, owner.ID, record.Collections, `{"title":"one"}`), late.ID))
	}
	is.Equal(kvtest.Code(invite(kvtest.Add(t, s, owner.ID, record.Collections, `{"title":"more"}`), late.ID)), "too_many_members")
}

// A new choice of items keeps those of members that it names, and a collection that becomes public tells its members.
func TestChoiceOfOwnerAmongMembers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	own := kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"of ann"}`)
	kept := kvtest.Add(t, s, bob.ID, record.Notes, `{"content":"kept"}`)
	left := kvtest.Add(t, s, bob.ID, record.Notes, `{"content":"left"}`)
	c := kvtest.Add(t, s, ann.ID, record.Collections, `{"title":"both"}`)
	is.NoErr(change(s, c, func(tx *kv.Tx, r *record.Record) error {
		if err := catalog.Invite(tx, r, bob.ID, record.RoleAdd, "ann"); err != nil {
			return err
		}
		return catalog.Pick(tx, r, record.Asker{ID: bob.ID, Role: record.RoleAdd}, []string{kept.ID.String(), left.ID.String()}, nil)
	}))
	kvtest.Edit(t, s, c, `{"source":{"items":["`+own.ID.String()+`","`+kept.ID.String()+`"]},"isPublic":true}`)
	is.Equal(members(t, s, c), []string{own.ID.String(), kept.ID.String()})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		p, err := people.ActivityOf(tx, bob.ID, nil, 10)
		is.NoErr(err)
		is.Equal(p.Rows[0].Event, people.CollectionPublished)
		is.Equal(p.Rows[0].Name, "both")
		return nil
	})
}

// Nobody fills the activity of another by sharing and parting, by adding and taking out, or by changing words, whether
// with one thing or with many.
func TestActivityByOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	own := kvtest.Add(t, s, bob.ID, record.Notes, `{"content":"of bob"}`)
	rows := func(of *people.User) (all []people.Activity, more int64) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			p, err := people.ActivityOf(tx, of.ID, nil, 1000)
			all = p.Rows
			return err
		})
		for _, a := range all {
			more += a.More + 1
		}
		return all, more
	}
	share := func(r *record.Record) {
		is.NoErr(change(s, r, func(tx *kv.Tx, r *record.Record) error {
			return catalog.Invite(tx, r, bob.ID, record.RoleSee, "ann")
		}))
	}
	part := func(r *record.Record) {
		is.NoErr(change(s, r, func(tx *kv.Tx, r *record.Record) error { return catalog.Part(tx, r, bob.ID, "ann") }))
	}
	one := kvtest.Add(t, s, ann.ID, record.Collections, `{"title":"one"}`)
	for range 100 {
		share(one)
		part(one)
	}
	all, more := rows(bob)
	is.Equal(len(all), 2)
	is.Equal(more, int64(200))
	is.Equal(all[0].Event, people.CollectionLeft) // the latest comes first
	is.Equal(all[0].Item, one.ID)

	for range 100 {
		r := kvtest.Add(t, s, ann.ID, record.Collections, `{"title":"more"}`)
		share(r)
		part(r)
		kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.NoteEdit(tx, own, "ann") })
	}
	all, more = rows(bob)
	is.True(len(all) <= 51)
	is.Equal(more, int64(500))

	c.Add(time.Hour)
	share(one)
	later, _ := rows(bob)
	is.Equal(len(later), len(all)+1) // what is old stays
}
