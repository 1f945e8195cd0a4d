package record_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

// What is in a collection, and what visitors see of it.
func TestVisitorRights(t *testing.T) {
	t.Parallel()
	owner, member, folder, tag := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	picked, live, tagged := record.Collection{}, record.Collection{Folder: folder}, record.Collection{Tag: tag}
	file := func(change func(*record.Record)) *record.Record {
		r := &record.Record{Owner: owner, Kind: record.Files}
		change(r)
		return r
	}
	for _, test := range []struct {
		name   string
		c      record.Collection
		item   *record.Record
		picked bool
		in     bool
		why    record.Exclusion
	}{
		{"picked and private", picked, file(func(r *record.Record) {}), true, true, ""},
		{"picked and public", picked, file(func(r *record.Record) { r.Public = true }), true, true, ""},
		{"not picked", picked, file(func(r *record.Record) { r.Public = true }), false, false, ""},
		{"of a member", picked, file(func(r *record.Record) { r.Owner = member }), true, true, ""},
		{"of a member, with a password", picked, file(func(r *record.Record) {
			r.Owner, r.Password = member, "x"
		}), true, true, record.OwnPassword},
		{"a collection", picked, file(func(r *record.Record) { r.Kind = record.Collections }), true, false, ""},
		{"with a password", picked, file(func(r *record.Record) { r.Password = "x" }), true, true, record.OwnPassword},
		{"with a limit", picked, file(func(r *record.Record) { r.Limit = 1 }), true, true, record.OwnLimit},
		{"used up", picked, file(func(r *record.Record) { r.Limit, r.Reached = 1, true }), true, true, record.OwnLimit},
		{"with an end", picked, file(func(r *record.Record) { r.Expires = time.Unix(1<<40, 0) }), true, true, record.OwnEnd},
		{"with all of them", picked, file(func(r *record.Record) {
			r.Password, r.Limit, r.Expires = "x", 1, time.Unix(1, 0)
		}), true, true, record.OwnPassword},
		{"not in it, with a password", picked, file(func(r *record.Record) { r.Password = "x" }), false, false, ""},
		{"in the folder", live, file(func(r *record.Record) { r.Folder = folder }), false, true, ""},
		{"in the folder, of a member", live, file(func(r *record.Record) {
			r.Owner, r.Folder = member, folder
		}), true, false, ""},
		{"in another folder", live, file(func(r *record.Record) { r.Folder = tag }), true, false, ""},
		{"in no folder", live, file(func(r *record.Record) {}), true, false, ""},
		{"with the tag", tagged, file(func(r *record.Record) { r.Tags = []record.ID{member, tag} }), false, true, ""},
		{"with the tag, of a member", tagged, file(func(r *record.Record) {
			r.Owner, r.Tags = member, []record.ID{tag}
		}), true, false, ""},
		{"a note with the tag", tagged, file(func(r *record.Record) {
			r.Kind, r.Tags = record.Notes, []record.ID{tag}
		}), false, true, ""},
		{"a collection with the tag", tagged, file(func(r *record.Record) {
			r.Kind, r.Tags = record.Collections, []record.ID{tag}
		}), false, false, ""},
		{"without the tag", tagged, file(func(r *record.Record) { r.Tags = []record.ID{member} }), true, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := &record.Record{Owner: owner, Kind: record.Collections}
			is.Equal(test.c.Has(c, test.item, test.picked), test.in)
			is.Equal(test.c.Rights(c, test.item, test.picked, record.Asker{Admitted: true}), record.Rights{
				See: test.in && test.why == "", LeftOut: test.why,
			})
			is.Equal(test.c.Rights(c, test.item, test.picked, record.Asker{}), record.Rights{LeftOut: test.why})
		})
	}
}

// What people of the server may do with the items of a collection. Each item is public, private, and left out for
// visitors: it makes no difference to them.
func TestMemberRights(t *testing.T) {
	t.Parallel()
	owner, ann, bob := uuid.New(), uuid.New(), uuid.New()
	nothing := record.Rights{}
	see := record.Rights{See: true}
	change := record.Rights{See: true, Change: true}
	edit := record.Rights{See: true, Change: true, Arrange: true, TakeOut: true}
	live := record.Collection{Folder: uuid.New()}
	for _, test := range []struct {
		name      string
		c         record.Collection
		item, who record.ID
		role      record.Role
		want      record.Rights
	}{
		{"owner, own item", record.Collection{}, owner, owner, record.RoleOwner, record.Rights{
			See: true, Change: true, Arrange: true, TakeOut: true, Own: true,
		}},
		{"owner, item of a member", record.Collection{}, ann, owner, record.RoleOwner, edit},
		{"owner, live", live, owner, owner, record.RoleOwner, record.Rights{See: true, Change: true, Own: true}},
		{"see", record.Collection{}, owner, ann, record.RoleSee, see},
		{"see, item of another member", record.Collection{}, bob, ann, record.RoleSee, see},
		{"see, own item from before", record.Collection{}, ann, ann, record.RoleSee, record.Rights{
			See: true, Change: true, TakeOut: true, Own: true,
		}},
		{"add", record.Collection{}, owner, ann, record.RoleAdd, see},
		{"add, item of another member", record.Collection{}, bob, ann, record.RoleAdd, see},
		{"add, own item", record.Collection{}, ann, ann, record.RoleAdd, record.Rights{
			See: true, Change: true, TakeOut: true, Own: true,
		}},
		{"edit", record.Collection{}, owner, ann, record.RoleEdit, edit},
		{"edit, item of another member", record.Collection{}, bob, ann, record.RoleEdit, edit},
		{"edit, own item", record.Collection{}, ann, ann, record.RoleEdit, record.Rights{
			See: true, Change: true, Arrange: true, TakeOut: true, Own: true,
		}},
		{"edit, live", live, owner, ann, record.RoleEdit, change},
		{"see, live", live, owner, ann, record.RoleSee, see},
		{"nobody", record.Collection{}, owner, ann, "", nothing},
		{"nobody, own item", record.Collection{}, ann, ann, "", nothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := &record.Record{Owner: owner, Kind: record.Collections}
			for _, share := range []record.Share{
				{}, {Public: true}, {Password: "x"}, {Limit: 1}, {Limit: 1, Reached: true}, {Expires: time.Unix(1, 0)},
			} {
				item := &record.Record{Owner: test.item, Kind: record.Files, Folder: test.c.Folder, Share: share}
				got := test.c.Rights(c, item, true, record.Asker{ID: test.who, Role: test.role})
				got.LeftOut = ""
				is.Equal(got, test.want)
				item.Folder = record.ID{}
				is.Equal(test.c.Rights(c, item, false, record.Asker{ID: test.who, Role: test.role}), nothing) // not in it
			}
		})
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	order := []record.Role{"", record.RoleSee, record.RoleAdd, record.RoleEdit, record.RoleOwner}
	for i, a := range order {
		for j, b := range order {
			is.Equal(a.Higher(b), order[max(i, j)])
		}
		is.Equal(a.Adds(), i >= 2)
		is.Equal(a.Edits(), i >= 3)
	}
}
