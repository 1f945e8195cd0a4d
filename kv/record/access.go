package record

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"kist/kv/field"
)

// Role is what somebody may do in a collection; "" for a visitor.
type Role string

// The roles. Each may do what the one before may.
const (
	RoleSee   Role = "see"
	RoleAdd   Role = "add"  // puts own items in, if the collection is not live
	RoleEdit  Role = "edit" // changes the words of all items, arranges them and takes them out
	RoleOwner Role = "owner"
)

// MemberRoles lists the roles that an owner gives to others.
var MemberRoles = []Role{RoleSee, RoleAdd, RoleEdit}

// Adds reports whether the role may put own items into a collection.
func (r Role) Adds() bool { return r == RoleAdd || r.Edits() }

// Edits reports whether the role may change what others have put into a collection.
func (r Role) Edits() bool { return r == RoleEdit || r == RoleOwner }

// Higher is the one of two roles that may do more.
func (r Role) Higher(other Role) Role {
	order := []Role{"", RoleSee, RoleAdd, RoleEdit, RoleOwner}
	return order[max(slices.Index(order, r), slices.Index(order, other))]
}

// Asker is who asks for an item of a collection.
type Asker struct {
	ID   ID   // of the account; zero for a visitor
	Role Role // in the collection

	// Admitted says that the collection is open to a visitor: it is public, has not ended, and the visitor has met
	// its password and its limit. A role needs none of this.
	Admitted bool
}

// Rights are what somebody may do with an item through a collection. The zero Rights are those of nobody.
type Rights struct {
	See     bool // read it, and its bytes as visitors get them
	Change  bool // its words
	Arrange bool // put it before another item
	TakeOut bool // of the collection
	Own     bool // it is the asker's: everything, and the stored bytes

	// LeftOut is why visitors of the collection do not see the item; "" if they do.
	LeftOut Exclusion
}

// Has reports whether an item is in a collection. picked says that the collection has a row for it; that of an item of
// a member goes when the member leaves. A folder and a tag hold only items of the collection's owner.
func (b *Collection) Has(c, item *Record, picked bool) bool {
	switch {
	case item.Kind == Collections:
		return false
	case b.Folder != uuid.Nil:
		return item.Owner == c.Owner && item.Kind == Files && item.Folder == b.Folder
	case b.Tag != uuid.Nil:
		return item.Owner == c.Owner && slices.Contains(item.Tags, b.Tag)
	}
	return picked
}

// Rights is the rule about what somebody may do with an item through a collection. Lists, search, bytes, thumbnails,
// zips, pages and the API ask it. The item's own visibility does not matter. Its own password, limit and end keep
// visitors out, because a collection must not get around them, and nobody else.
func (b *Collection) Rights(c, item *Record, picked bool, who Asker) Rights {
	if !b.Has(c, item, picked) {
		return Rights{}
	}
	may := Rights{LeftOut: item.exclusion()}
	if who.Role == "" {
		may.See = who.Admitted && may.LeftOut == ""
		return may
	}
	may.See = true
	may.Own = who.ID == item.Owner
	may.Change = may.Own || who.Role.Edits()
	may.Arrange = who.Role.Edits() && !b.Live()
	may.TakeOut = may.Change && !b.Live()
	return may
}

// MayOpen is the rule about a file that a record shows: who may see the record may see the file through it. It must be
// the same owner's. Its own password, limit and end keep visitors out, as in a collection, and nobody else. shown is what
// r.Shows returns.
func (r *Record) MayOpen(shown []ID, file *Record, who Asker) bool {
	if file.Kind != Files || file.Owner != r.Owner || !slices.Contains(shown, file.ID) {
		return false
	}
	return who.Role != "" || who.Admitted && file.exclusion() == ""
}

// Words are the fields of a kind that a member with the role edit may change: what people read in it, and the order and
// the cover of a collection. Addresses are not among them: others follow them in the owner's name, and the server
// fetches some. Neither are files: who sees the text would see them.
func Words(k *Kind) []string {
	words := []string{"keepVersion"}
	if k == Collections {
		return append(words, "cover", "sort")
	}
	for _, f := range field.Of(k.New()).Fields() {
		address := f.Name == "url" || strings.HasSuffix(f.Name, "Url") || strings.HasSuffix(f.Name, "Id")
		if f.Name != "" && !address && f.Traits&field.ReadOnly == 0 {
			words = append(words, f.Name)
		}
	}
	return words
}

// exclusion is the condition of the item's own that a collection must not get around.
func (r *Record) exclusion() Exclusion {
	switch {
	case r.Password != "":
		return OwnPassword
	case r.Limit > 0:
		return OwnLimit
	case !r.Expires.IsZero():
		return OwnEnd
	}
	return ""
}
