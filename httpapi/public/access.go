package public

import (
	"bytes"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// shared finds the item with the slug and checks access: its owner and the members of a collection may always have it,
// anyone else if it is open and the password, if any, is right. The item must be of one of the kinds.
func shared(c *web.Request, slug string, kinds ...*record.Kind) (r *record.Record, who viewer, err error) {
	r, who, err = Find(c, slug, kinds)
	if err != nil {
		return r, who, NotOpen(c, err)
	}
	return r, who, Unlock(c, r, who)
}

// sharedFile is shared for addresses that may have an extension after the slug. A slug that
// contains the extension comes first. It looks for both before it checks a password, because
// that takes time and counts as a guess.
func sharedFile(c *web.Request, name string, kinds ...*record.Kind) (r *record.Record, who viewer, err error) {
	r, who, err = findFile(c, name, kinds)
	if err != nil {
		return r, who, NotOpen(c, err)
	}
	return r, who, Unlock(c, r, who)
}

// findFile is Find for addresses that may have an extension after the slug.
func findFile(c *web.Request, name string, kinds []*record.Kind) (r *record.Record, who viewer, err error) {
	r, who, err = Find(c, name, kinds)
	if ext := path.Ext(name); kv.Missing(err) && ext != "" && ext != name {
		r, who, err = Find(c, strings.TrimSuffix(name, ext), kinds)
	}
	return r, who, err
}

// Find is shared without the check of the password. Whether the conditions of an item let a visitor in is decided by
// record.Share.Open, and for items of a collection by record.Collection.Rights.
func Find(c *web.Request, slug string, kinds []*record.Kind) (r *record.Record, who viewer, err error) {
	// The text of an item that is closed is not read: the time must not tell how long it is.
	for most := shortText; ; {
		r, long, err := catalog.Shared(c.Site.Store, slug, most)
		if err != nil {
			return nil, viewer{}, err
		}
		who, closed := seen(c, r, kinds)
		if closed != nil {
			r.Body = nil
			return r, who, closed
		}
		if r.Body != nil {
			return r, who, nil
		}
		if err := holdText(c, long); err != nil {
			return nil, viewer{}, err
		}
		most = long
	}
}

// shortText is the longest record for which no memory is held while its page is made.
const shortText = 32 << 10

// holdText holds the memory for a long record, before it is read: for its row, its text, that as HTML, which may be
// many times as long for the first half megabyte, and the page. It is not more than one stranger gets.
func holdText(c *web.Request, length int) error {
	n := int64(length)
	return c.Hold(min(4*n+16*min(n, 512<<10), limit.LongOfStranger))
}

// readLong reads a record with find, in a transaction, and holds the memory for a long one first.
func readLong(c *web.Request, find func(*kv.Tx) (*record.Record, error)) (r *record.Record, err error) {
	for most := shortText; ; {
		long := 0
		if err := c.Site.Store.View(func(tx *kv.Tx) error {
			r, err = find(tx)
			if err != nil {
				return err
			}
			if len(r.Body) > most {
				long = len(r.Body)
				return nil
			}
			r.Body = bytes.Clone(r.Body)
			return nil
		}); err != nil {
			return nil, err
		}
		if long == 0 {
			return r, nil
		}
		if err := holdText(c, long); err != nil {
			return nil, err
		}
		most = long
	}
}

// A viewer is who looks at an item or a collection at its address. The zero viewer is a visitor.
type viewer struct {
	account record.ID
	role    record.Role // of the account; "" for a visitor
}

// inside reports whether the conditions for visitors do not bind: the viewer is the owner, or a member of the collection.
func (who viewer) inside() bool { return who.role != "" }

// owns reports whether the viewer owns an item that is seen at the address. The owner of a collection does not own what
// members put into it.
func (who viewer) owns(item *record.Record) bool { return who.inside() && who.account == item.Owner }

// asker is the viewer for the rule about the items of a collection whose conditions the viewer meets.
func (who viewer) asker() record.Asker {
	return record.Asker{ID: who.account, Role: who.role, Admitted: true}
}

// seen says who the caller is to the item, or why the caller may not see it, except for its password.
func seen(c *web.Request, r *record.Record, kinds []*record.Kind) (viewer, error) {
	now := c.Site.Store.Now()
	if !slices.Contains(kinds, r.Kind) {
		return viewer{}, record.ErrMissing
	}
	who, err := insider(c, r)
	switch {
	case err != nil, who.inside():
		return who, err
	case r.Reached && !r.Expired(now) && (Granted(c, grant.ToRead, r) || resumes(c, r)):
		return viewer{}, nil // the visitor of the last view may continue reading
	}
	return viewer{}, r.Open(now)
}

// insider is the caller as the owner of an item or as a member of a collection; the zero viewer for everybody else.
func insider(c *web.Request, r *record.Record) (viewer, error) {
	switch {
	case c.Owns(r):
		return viewer{r.Owner, record.RoleOwner}, nil
	case c.AtContentOrigin():
		return insiderByGrant(c, r)
	case r.Kind != record.Collections || c.Caller == nil || !c.Caller.Key.Allows(people.ScopeRead):
		return viewer{}, nil
	}
	return memberOf(c, r, c.Caller.User.ID)
}

// insiderByGrant is the insider whom a grant of the request names, at the origin for content. A grant that no longer
// counts is ignored.
func insiderByGrant(c *web.Request, r *record.Record) (viewer, error) {
	now := c.Site.Store.Now()
	for text, visitor := range grantsInRequest(c, grant.ToEnter, r.Slug) {
		text, _, _ = strings.Cut(text, ".")
		_, by, holds := c.Site.Grants.Holds(text, grant.ToEnter, r, now, visitor)
		if !holds && visitor != "" && roams(r) {
			_, by, holds = c.Site.Grants.Holds(text, grant.ToEnter, r, now, anywhere)
		}
		if !holds {
			continue
		}
		who, err := insiderWith(c, by, r)
		if err != nil || who.inside() {
			return who, err
		}
	}
	return viewer{}, nil
}

// insiderWith is the insider with a credential, as it is now.
func insiderWith(c *web.Request, by grant.Credential, r *record.Record) (viewer, error) {
	caller, err := people.Recognize(c.Site.Store, by.Account, by.ID)
	if err != nil || !caller.Key.Allows(people.ScopeRead) {
		return viewer{}, nil //nolint:nilerr // the credential was revoked
	}
	if by.Account == r.Owner {
		return viewer{r.Owner, record.RoleOwner}, nil
	}
	if r.Kind != record.Collections {
		return viewer{}, nil
	}
	return memberOf(c, r, by.Account)
}

// memberOf is an account as a member of a collection; the zero viewer if it has no part in it.
func memberOf(c *web.Request, r *record.Record, account record.ID) (who viewer, err error) {
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		role, err := catalog.RoleIn(tx, r, account)
		if role != "" {
			who = viewer{account, role}
		}
		return err
	})
	return who, err
}

// finds is the rule of web.Operation.Finds for addresses of items of the kinds, which may have an extension.
func finds(kinds ...*record.Kind) func(*web.Request) error {
	return func(c *web.Request) error {
		_, _, err := findFile(c, c.Arg("slug"), kinds)
		return err
	}
}

// findsThrough is it for an item of a collection. Without the password of the collection nobody learns what is in it.
func findsThrough(c *web.Request) error {
	r, who, err := Find(c, c.Arg("slug"), holders)
	if err != nil || !opened(c, r, who) {
		return err
	}
	_, err = through(c, r, who)
	return err
}

var errLocked = &record.Error{
	Fault: record.Unauthorized, Code: "password_required",
	Text: "This item needs a password in the header x-share-password.",
}

// Unlock checks the visitor's password for an item that Find found.
func Unlock(c *web.Request, r *record.Record, who viewer) error {
	if opened(c, r, who) {
		return nil
	}
	password := c.R.Header.Get("X-Share-Password")
	if password == "" {
		return errLocked
	}
	return CheckItemPassword(c, r.ID.String(), r.Password, password, true)
}

// opened reports whether the visitor needs no password for an item, or has typed it before.
func opened(c *web.Request, r *record.Record, who viewer) bool {
	return who.inside() || r.Password == "" || Granted(c, grant.ToUnlock, r) || Granted(c, grant.ToRead, r)
}

// NotOpen takes an error of Find and returns it. A password for a missing item costs the same work as one for an
// item that is there.
func NotOpen(c *web.Request, err error) error {
	password := c.R.Header.Get("X-Share-Password")
	if kv.Missing(err) && password != "" {
		_ = CheckItemPassword(c, "missing", "", password, false)
	}
	return err
}

// refuse answers a visitor who may not have r: with the page that asks for its password if err says that it is
// needed, and else with err. After the password, the page leads on to then, a key of leads.
func refuse(c *web.Request, r *record.Record, then string, err error) error {
	if err != errLocked { //nolint:errorlint // never wrapped
		return err
	}
	return c.RespondPage(http.StatusUnauthorized, locked(c, r.Slug, then, embed.Problem{}))
}

// RefuseItem answers a visitor who may not see the page of r: with the page that asks for its password if err says
// that it is needed, and else with err.
func RefuseItem(c *web.Request, r *record.Record, err error) error { return refuse(c, r, "", err) }

// CheckItemPassword checks a password for an item against a hash. It may come from a header. proves is Guess.Proves.
func CheckItemPassword(c *web.Request, item, hash, password string, proves bool) error {
	meant := meanings(password)
	if len(meant) == 0 { // no password is longer, so this is no guess
		return errWrong
	}
	right, err := session.CheckPassword(
		c, session.Guess{At: item, Hash: hash, Password: meant[0], Or: meant[1:], Proves: proves},
	)
	if err != nil {
		return err
	}
	if !right {
		return errWrong
	}
	return nil
}

// PasswordHeader says how a header has a password, for readers of the document.
const PasswordHeader = "It is in UTF-8 or ISO 8859-1, or it is UTF-8 that is percent-encoded, " +
	"as encodeURIComponent does it."

// MaxPasswordHeader is how long the longest password is when it is percent-encoded.
const MaxPasswordHeader = 3 * field.MaxSecret

// meanings are the passwords that a header may mean: what it says in UTF-8, or in ISO 8859-1 as browsers send it
// (Fetch standard, "isomorphic encode"), and that percent-decoded, because they can send no other letters. Too long
// ones are left out.
func meanings(header string) (all []string) {
	if len(header) > MaxPasswordHeader {
		return nil
	}
	if !utf8.ValidString(header) {
		latin1 := make([]rune, len(header))
		for i := range len(header) {
			latin1[i] = rune(header[i])
		}
		header = string(latin1)
	}
	if len(header) <= field.MaxSecret {
		all = append(all, header)
	}
	plain, err := url.PathUnescape(header)
	if err == nil && plain != header && utf8.ValidString(plain) && len(plain) <= field.MaxSecret {
		all = append(all, plain)
	}
	return all
}

var errWrong = &record.Error{Fault: record.Unauthorized, Code: "wrong_password", Text: "The password is wrong."}
