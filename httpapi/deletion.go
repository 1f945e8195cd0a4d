package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"kist/embed"
	"kist/kv"
	"kist/kv/record"
)

// deletionPath begins deletion addresses, by which anyone who has one deletes the
// one item that it was made for: a program that cannot send a request of its
// own opens it in a browser. The address is told once, to who makes the item,
// and holds for as long as the item is there. Its first segment is no slug.
const deletionPath = "/share/delete/"

// A deletion token is the key of the record's row and a MAC of it.
const deletionMAC = 16

func (g *grants) deletionMAC(key []byte) []byte {
	h := hmac.New(sha256.New, g.deletion[:])
	h.Write(key)
	return h.Sum(nil)[:deletionMAC]
}

func (g *grants) deletionToken(r *record.Record) string {
	key := r.Key()
	return grantText.EncodeToString(append(key, g.deletionMAC(key)...))
}

// deletable finds what a deletion token is for; Missing if it is for nothing,
// or if the owner's account is shut, Gone if that was removed.
func (s *site) deletable(tx *kv.Tx, token string) (*record.Record, error) {
	b, err := grantText.DecodeString(token)
	if err != nil || len(b) != record.KeySize+deletionMAC {
		return nil, record.ErrMissing
	}
	key, mac := b[:record.KeySize], b[record.KeySize:]
	owner, kind, id := record.SplitKey(key)
	if subtle.ConstantTimeCompare(mac, s.grants.deletionMAC(key)) != 1 || kind == nil {
		return nil, record.ErrMissing
	}
	shut, err := tx.Disabled(owner)
	if shut {
		err = record.ErrMissing
	}
	if err != nil {
		return nil, err
	}
	r, err := tx.Owned(owner, kind, id)
	if missing(err) {
		return nil, errDeleted
	}
	return r, err
}

var errDeleted = &record.Error{Fault: record.Gone, Code: "deleted", Text: "This was deleted already."}

// calledBy is the name that an item was given, or else its slug: nothing of
// its content, which stands in for titles elsewhere.
func calledBy(r *record.Record) (string, error) {
	b, err := r.Decode()
	if err != nil {
		return "", err
	}
	name := ""
	switch b := b.(type) {
	case *record.Bookmark:
		name = b.Name
	case *record.Note:
		name = b.Name
	case *record.Snippet:
		name = b.Name
	case *record.Link:
		name = b.Description
	default:
		name = b.Title()
	}
	if name == "" {
		name = r.Slug
	}
	return name, nil
}

// askDeletion asks before it deletes, so that a program that merely looks at
// the address deletes nothing.
func askDeletion(c *request) error {
	page := embed.DeletePage{Base: c.s.prefix()}
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		r, err := c.s.deletable(tx, c.arg("token"))
		if err != nil {
			return err
		}
		page.Kind = title(kindName(r.Kind))
		page.Title, err = calledBy(r)
		return err
	}); err != nil {
		return err
	}
	return c.respondPage(http.StatusOK, page)
}

// kindName is a kind in words.
func kindName(k *record.Kind) string {
	if k == record.Links {
		return "short link"
	}
	return k.Name
}

// deleteByAddress deletes what the address is for.
func deleteByAddress(c *request) error {
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		r, err := c.s.deletable(tx, c.arg("token"))
		if err != nil {
			return err
		}
		return tx.Remove(r)
	}); err != nil {
		return err
	}
	return c.respondPage(http.StatusOK, embed.MessagePage{Base: c.s.prefix(), Title: "Deleted", Text: "It is gone for good."})
}

// deletionRoutes are the pages of deletion addresses.
func deletionRoutes() []route {
	const at = deletionPath + "{token}"
	return []route{
		{
			method: "GET", path: at, id: "askDeletion", tag: "public", summary: "The page of a deletion address, which asks whether the item is to be deleted.",
			access: anyone, reply: reply{200, "The page.", pageOf()}, fails: []int{404, 410, 429}, slugs: true, serve: askDeletion,
		},
		{
			method: "POST", path: at, id: "deleteByAddress", tag: "public", summary: "Deletes the item of a deletion address.",
			access: anyone, reply: reply{200, "The page that says so.", pageOf()}, fails: []int{404, 410, 429, 503, 507}, slugs: true, serve: deleteByAddress,
		},
	}
}
