package public

import (
	"cmp"
	"crypto/subtle"
	"net/http"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// deletable finds the item of a deletion token. It returns Missing if the token is invalid
// or the owner's account is disabled, and Gone if the item was removed.
func deletable(s *web.Site, tx *kv.Tx, token string) (*record.Record, error) {
	b, err := grant.GrantText.DecodeString(token)
	if err != nil || len(b) != record.KeySize+grant.DeletionMAC {
		return nil, record.ErrMissing
	}
	key, mac := b[:record.KeySize], b[record.KeySize:]
	owner, kind, id := record.SplitKey(key)
	if subtle.ConstantTimeCompare(mac, s.Grants.DeletionMAC(key)) != 1 || kind == nil {
		return nil, record.ErrMissing
	}
	shut, err := people.Disabled(tx, owner)
	if shut {
		err = record.ErrMissing
	}
	if err != nil {
		return nil, err
	}
	r, err := catalog.Owned(tx, owner, kind, id)
	if kv.Missing(err) {
		return nil, errDeleted
	}
	return r, err
}

var errDeleted = &record.Error{Fault: record.Gone, Code: "deleted", Text: "This was already deleted."}

var AskDeletion = web.PageOp(askDeletion, 404, 410, 429).ForVisitors()

// askDeletion asks before it deletes, so that a program that only fetches the address
// deletes nothing.
func askDeletion(c *web.Request) error {
	page := embed.DeletePage{Base: c.Site.Prefix()}
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		r, err := deletable(c.Site, tx, c.Arg("token"))
		if err != nil {
			return err
		}
		b, err := r.Decode()
		if err != nil {
			return err
		}
		page.Kind, page.Title = web.Title(web.ViewOf(r.Kind, c.Lang()).One), cmp.Or(b.Named(), r.Slug)
		return nil
	}); err != nil {
		return err
	}
	return c.RespondPage(http.StatusOK, page)
}

var DeleteByAddress = web.PageOp(deleteByAddress, 404, 410, 429, 503, 507).ForVisitors()

// deleteByAddress moves the item of the address to the trash.
func deleteByAddress(c *web.Request) error {
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		r, err := deletable(c.Site, tx, c.Arg("token"))
		if err != nil {
			return err
		}
		return catalog.Trash(tx, r, "")
	}); err != nil {
		return err
	}
	return c.RespondPage(
		http.StatusOK,
		embed.MessagePage{Base: c.Site.Prefix(), Title: c.Lang().T("delete.deleted"), Text: c.Lang().T("delete.done")},
	)
}
