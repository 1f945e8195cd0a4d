package api

import (
	"github.com/google/uuid"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// MemberForm is what a member of a collection may do.
type MemberForm struct{ Role record.Role }

func (f *MemberForm) Fields(s *field.Set) {
	field.Choice(s, "role", &f.Role, record.MemberRoles, field.Required).Says(
		"see: read all of it. add: also put own items in and take them out. edit: also change the words of everything in "+
			"it, arrange it, and take out what others put in.", `"add"`,
	)
}

var SetCollectionMember = web.Operation{
	Tag: "collections", Summary: "Shares a collection with a person, or gives a member another role.",
	Body:  web.BodyOf("CollectionMember"),
	Reply: web.Reply{Status: 200, Doc: "The collection.", Body: web.DataOf("Collection")},
	Fails: []int{403, 404, 409}, Serve: setCollectionMember,
}

func setCollectionMember(c *web.Request) error {
	form := new(MemberForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	user, err := memberArg(c)
	if err != nil {
		return err
	}
	return change(c, record.Collections, c.Arg("id"), func(tx *kv.Tx, r *record.Record, way catalog.Way, _ bool) error {
		if !way.Own {
			return catalog.ErrNotOwner
		}
		is, err := catalog.RoleIn(tx, r, user)
		if err != nil {
			return err
		}
		if is == "" {
			u, err := people.FindPerson(tx, &c.Caller.User, user)
			if err != nil {
				return err
			}
			if u.Disabled {
				return record.NotFound("person")
			}
		}
		return catalog.Invite(tx, r, user, form.Role, c.Caller.User.Name)
	})
}

var RemoveCollectionMember = web.DoneOp(
	"collections", "Ends a person's part in a collection. Members leave it so. What they put into it leaves with them.",
	removeCollectionMember, 403, 404,
)

func removeCollectionMember(c *web.Request) error {
	user, err := memberArg(c)
	if err != nil {
		return err
	}
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		r, way, err := catalog.Reach(tx, c.Owner(), record.Collections, c.Arg("id"))
		if err != nil {
			return err
		}
		if !way.Own && user != c.Owner() {
			return catalog.ErrNotOwner
		}
		return catalog.Part(tx, r, user, c.Caller.User.Name)
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

// memberArg is the id of the person in the path.
func memberArg(c *web.Request) (record.ID, error) {
	id, err := uuid.Parse(c.Arg("userId"))
	if err != nil {
		return id, record.NotFound("person")
	}
	return id, nil
}
