package people_test

import (
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// TestFindPerson: who finds whom on a server that lists people, and on one that does not.
func TestFindPerson(t *testing.T) {
	t.Parallel()
	s := kvtest.Open(t)
	all := map[string]*people.User{"nobody": {ID: record.ID{1}}}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for _, u := range []people.User{
			{Name: "root", Role: people.Admin},
			{Name: "ann", Role: people.Member},
			{Name: "ben", Role: people.Member},
			{Name: "hidden", Role: people.Member, Hidden: true},
			{Name: "disabled", Role: people.Member, Disabled: true},
			{Name: "both", Role: people.Member, Hidden: true, Disabled: true},
			{Name: "chief", Role: people.Admin, Hidden: true},
		} {
			made, err := people.AddUser(tx, u)
			if err != nil {
				return err
			}
			all[u.Name] = made
		}
		return nil
	})
	const found, missing, unlisted = "", "not_found", "people_not_listed"
	for _, row := range []struct{ by, other, listed, closed string }{
		{"ann", "ben", found, unlisted},
		{"ann", "root", found, unlisted},
		{"ann", "ann", found, unlisted},
		{"ann", "hidden", missing, unlisted},
		{"ann", "chief", missing, unlisted},
		{"ann", "disabled", missing, unlisted},
		{"ann", "both", missing, unlisted},
		{"ann", "nobody", missing, unlisted},
		{"hidden", "ann", found, unlisted},
		{"hidden", "hidden", missing, unlisted},
		{"root", "ben", found, found},
		{"root", "hidden", found, found},
		{"root", "disabled", found, found},
		{"root", "both", found, found},
		{"root", "nobody", missing, missing},
		{"chief", "hidden", found, found},
	} {
		for _, closed := range []bool{false, true} {
			want := row.listed
			if closed {
				want = row.closed
			}
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				set, err := people.ReadSettings(tx)
				set.PeopleUnlisted = closed
				if err != nil {
					return err
				}
				return people.SetSettings(tx, set)
			})
			kvtest.View(t, s, func(tx *kv.Tx) error {
				u, err := people.FindPerson(tx, all[row.by], all[row.other].ID)
				if got := kvtest.Code(err); got != want || err == nil && u.Name != row.other {
					t.Errorf("%s finds %s, closed %v: %q, want %q", row.by, row.other, closed, got, want)
				}
				return nil
			})
		}
	}
}

// TestListPeople: hidden and disabled people are in nobody's list.
func TestListPeople(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	root, ann := &people.User{Role: people.Admin}, &people.User{Role: people.Member}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for _, u := range []people.User{
			{Name: "a", Role: people.Admin},
			{Name: "b", Role: people.Member},
			{Name: "c", Role: people.Member, Hidden: true},
			{Name: "d", Role: people.Member, Disabled: true},
		} {
			if _, err := people.AddUser(tx, u); err != nil {
				return err
			}
		}
		return nil
	})
	names := func(by *people.User) (all, code string) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			list, err := people.ListPeople(tx, by)
			for _, u := range list {
				all += u.Name
			}
			code = kvtest.Code(err)
			return nil
		})
		return all, code
	}
	for _, by := range []*people.User{root, ann} {
		all, code := names(by)
		is.Equal(all, "ab")
		is.Equal(code, "")
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		return people.SetSettings(tx, people.Settings{PeopleUnlisted: true})
	})
	all, _ := names(root)
	is.Equal(all, "ab")
	all, code := names(ann)
	is.Equal(all, "")
	is.Equal(code, "people_not_listed")
}
