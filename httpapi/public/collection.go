package public

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"kist/embed"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// Everything below a collection's address is seen under the collection's conditions: who may see it, its password,
// its limit and its end. So one view of the collection covers all of it. Of the item, visitors get what is in it, but
// not its slug, tags, folder or views.

// pageItems is how many items a page of a collection shows.
const pageItems = 200

var (
	ViewCollectionItem      = web.PageOp(viewCollectionItem, 401, 404, 410, 429, 503).ForVisitors().Found(findsThrough)
	ReadCollectionItem      = ReadRaw.By(readCollectionItem).Found(findsThrough)
	ReadCollectionThumbnail = ReadThumbnail.By(readCollectionThumbnail)
)

// through finds the item in the path as the viewer of the collection r gets it.
func through(c *web.Request, r *record.Record, who viewer) (*record.Record, error) {
	id, err := uuid.Parse(c.Arg("item"))
	if err != nil {
		return nil, record.ErrMissing
	}
	return readLong(c, func(tx *kv.Tx) (*record.Record, error) {
		item, may, err := catalog.Through(tx, r, who.asker(), id)
		if err == nil && may.Own && who.role == record.RoleOwner && may.LeftOut != "" {
			return nil, record.ErrMissing // the owner has it at its own address, and sees here what visitors see
		}
		return item, err
	})
}

// viewCollectionItem shows an item of a collection, with links to those before and after it.
func viewCollectionItem(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), record.Collections)
	if err != nil {
		return RefuseItem(c, r, err)
	}
	return viewAs(c, r, who, func() (embed.Page, error) {
		item, err := through(c, r, who)
		if err != nil {
			return nil, err
		}
		body, all, err := readCollection(c, r)
		if err != nil {
			return nil, err
		}
		v, err := viewing(c, r, item, who)
		if err != nil {
			return nil, err
		}
		v.Shown.TagList, v.Shown.Share = nil, record.Share{Slug: addressOf(r, item), Expires: r.Expires, Logged: r.Logged}
		if !body.Download {
			v.Download = ""
		}
		p, err := ItemPage(c.Site, v)
		if err != nil {
			return nil, err
		}
		seen := shownTo(who, all)
		at := slices.IndexFunc(seen, func(m catalog.Item) bool { return m.ID == item.ID })
		if at < 0 { // its owner looks at an item that visitors do not see
			seen = all.All
			at = slices.IndexFunc(seen, func(m catalog.Item) bool { return m.ID == item.ID })
		}
		address := func(i int) string {
			if i < 0 || i >= len(seen) {
				return ""
			}
			return c.Site.Prefix() + "/v/" + url.PathEscape(r.Slug) + "/" + seen[i].ID.String()
		}
		p.Among = &embed.AmongView{
			Title: body.Name, Address: c.Site.Prefix() + "/v/" + url.PathEscape(r.Slug), N: at + 1, Of: len(seen),
			Previous: address(at - 1), Next: address(at + 1),
		}
		if n := at / pageItems; n > 0 {
			p.Among.Address += "?page=" + strconv.Itoa(n+1)
		}
		return p, nil
	})
}

// shownTo are the items of a collection for a viewer. Members see all of them; the owner sees what visitors see.
func shownTo(who viewer, all *catalog.Items) []catalog.Item {
	if who.inside() && who.role != record.RoleOwner {
		return all.All
	}
	return all.Visible
}

// readCollectionItem answers with the bytes of an item of a collection.
func readCollectionItem(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), record.Collections)
	if err != nil {
		return refuseRaw(c, r, err)
	}
	item, err := through(c, r, who)
	if err != nil {
		return err
	}
	return rawAs(c, r, item, who)
}

// readCollectionThumbnail answers with the small version of a picture in a collection, or the picture of another item.
func readCollectionThumbnail(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), record.Collections)
	if err != nil {
		return err
	}
	return thumbnailAs(c, r, who, func() (*record.Record, error) { return through(c, r, who) })
}

// readCollection reads a collection's own fields and its items.
func readCollection(c *web.Request, r *record.Record) (*record.Collection, *catalog.Items, error) {
	body, err := r.Decode()
	if err != nil {
		return nil, nil, err
	}
	var all *catalog.Items
	err = c.Site.Store.View(func(tx *kv.Tx) error { all, err = catalog.ItemsOf(tx, r); return err })
	return body.(*record.Collection), all, err // the kind says so
}

// collectionPage shows a page of a collection: first pictures and films, then the rest as a list.
func collectionPage(c *web.Request, r *record.Record, who viewer) (embed.Page, error) {
	query, err := c.Query()
	if err != nil {
		return nil, err
	}
	body, all, err := readCollection(c, r)
	if err != nil {
		return nil, err
	}
	at := c.Site.Prefix() + "/v/" + url.PathEscape(r.Slug)
	p := embed.CollectionPage{
		Base: c.Site.Prefix(), Origin: c.Site.Content, Address: c.Site.Base + "/v/" + r.Slug, Title: body.Name, Description: body.Description,
		Expires: r.Expires, Own: who.role == record.RoleOwner, Limit: r.Limit, Open: r.OpenToAll(), Logged: r.Logged, Count: all.Items, Bytes: all.Bytes,
	}
	seen := shownTo(who, all)
	pages := max(1, (len(seen)+pageItems-1)/pageItems)
	n, err := strconv.Atoi(cmp.Or(query.Get("page"), "1"))
	if err != nil || n < 1 || n > pages {
		return nil, record.ErrMissing
	}
	link := func(n int) string {
		if n < 1 || n > pages {
			return ""
		}
		return at + "?page=" + strconv.Itoa(n)
	}
	p.Page, p.Pages, p.Previous, p.Next = n, pages, link(n-1), link(n+1)
	if body.Download && len(seen) > 0 {
		_, p.Zip, err = rawAddresses(c, r, url.PathEscape(r.Slug)+".zip", who)
		if err != nil {
			return nil, err
		}
	}
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, r.Owner)
		if err != nil {
			return err
		}
		p.Owner, p.Left = DisplayName(*u), r.Limit-catalog.Used(tx, r)
		if who.role == record.RoleOwner {
			for _, m := range all.All {
				if m.LeftOut == "" {
					continue
				}
				p.LeftOut++
				if len(p.Reasons) < pageItems {
					b, err := headOf(tx, m)
					if err != nil {
						return err
					}
					p.Reasons = append(p.Reasons, embed.Fact{Label: titleOf(b), Value: reason(c.Lang(), m.LeftOut)})
				}
			}
		}
		for _, m := range seen[(n-1)*pageItems : min(n*pageItems, len(seen))] {
			b, err := headOf(tx, m)
			if kv.Missing(err) { // removed just now
				continue
			}
			if err != nil {
				return err
			}
			t := embed.Tile{
				Address: at + "/" + m.ID.String(), Title: titleOf(b), Kind: web.Title(web.ViewOf(m.Kind, c.Lang()).One),
				Size: m.Size, Film: m.Class == record.Video,
			}
			small := c.Site.Prefix() + "/t/" + url.PathEscape(r.Slug) + "/" + m.ID.String()
			f, isFile := b.(*record.File)
			if isFile {
				t.Kind = mediaName(c.Lang(), f.MimeType, t.Title)
			}
			if isFile && Shrinks(f.MimeType) {
				t.Picture = small
			}
			if t.Picture != "" || t.Film {
				p.Tiles = append(p.Tiles, t)
				continue
			}
			// Only its owner asks for one that is not there yet, and has it fetched.
			address, _ := pictureOf(b)
			own := who.inside() && who.account == m.Owner
			if address != "" && (own || c.Site.Pictures.Has(address)) {
				t.Picture = small + "?" + sizeParam + "=picture"
			}
			p.Rows = append(p.Rows, t)
		}
		return nil
	})
	if cover := coverOf(body, seen); err == nil && p.Open && cover != uuid.Nil {
		p.Picture = c.Site.Base + "/t/" + url.PathEscape(r.Slug) + "/" + cover.String()
	}
	return p, err
}

// coverOf is the item whose picture stands for the collection, if visitors see it, or else the first picture.
func coverOf(b *record.Collection, seen []catalog.Item) (id record.ID) {
	for _, m := range seen {
		if m.Class == record.Image && (id == uuid.Nil || m.ID == b.Cover) {
			id = m.ID
		}
	}
	return id
}

// reason says why visitors do not see an item.
func reason(l embed.Lang, why record.Exclusion) string {
	switch why {
	case record.OwnPassword:
		return l.T("collection.password")
	case record.OwnLimit:
		return l.T("collection.limit")
	}
	return l.T("collection.end")
}

// headOf reads the head of an item, for lists.
func headOf(tx *kv.Tx, m catalog.Item) (record.Body, error) {
	item, err := catalog.Borrow(tx, m.Owner, m.Kind, m.ID.String())
	if err != nil {
		return nil, err
	}
	return item.Head()
}
