package api

import (
	"cmp"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// Person is what others on the server see of an account.
type Person struct{ people.User }

func (p *Person) Fields(s *field.Set) {
	s.ID("id", &p.ID, field.ReadOnly, field.Always).Says("Id of the user.", web.SampleID)
	s.Text("name", &p.Name, 64, field.ReadOnly).Says("Name that the user signs in with.", `"ann"`)
	s.Text("displayName", &p.DisplayName, record.MaxName, field.ReadOnly).Says("Display name.", `"Ann"`)
}

var ListPeople = web.ListOp(
	"account", "Lists the people of this server. Disabled accounts and people who hide themselves are not in it. If the "+
		"setting listPeople is off, only administrators see the list (403, people_not_listed).",
	"A page of people.", "Person", listPeople,
)

func listPeople(c *web.Request) error {
	return web.AnswerList(c,
		func(tx *kv.Tx) ([]people.User, error) { return people.ListPeople(tx, &c.Caller.User) },
		func(u *people.User) (record.ID, string) { return u.ID, cmp.Or(u.DisplayName, u.Name) },
		func(_ *kv.Tx, u *people.User) (*Person, error) { return &Person{*u}, nil })
}
