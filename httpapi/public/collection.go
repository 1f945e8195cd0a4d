package public

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"kist/embed"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// Everything below a collection's address is seen under the collection's conditions: who may see it, its password,
// its limit and its end. So one view of the collection covers all of it. Of the item, visitors get what is in it, but
// not its slug, tags, folder or views.

// pageItems is how many items a page of a collection shows.
const pageItems = 100

var (
	ViewCollectionItem      = web.PageOp(viewCollectionItem, 401, 404, 410, 429, 503).ForVisitors().Found(findsThrough)
	ReadCollectionItem      = ReadRaw.By(readCollectionItem).Found(findsThrough)
	ReadCollectionThumbnail = ReadThumbnail.By(readCollectionThumbnail)
	ReadShownFile           = ReadRaw.By(readShownFile).Found(findsThrough)
	ReadShownThumbnail      = ReadThumbnail.By(readShownThumbnail)
)

// holders are the kinds below whose addresses other items stand: those of a collection, and the files that a text shows.
var holders = []*record.Kind{record.Collections, record.Notes, record.Recipes, record.Games}

// through finds the item in the path as the viewer of r gets it: an item of the collection r, a file that the text r
// shows, or, if the path has a third part, a file that an item of the collection shows.
func through(c *web.Request, r *record.Record, who viewer) (*record.Record, error) {
	item, err := within(c, r, who, c.Arg("item"))
	if err != nil || c.Arg("file") == "" {
		return item, err
	}
	return within(c, item, who, c.Arg("file"))
}

// within finds what stands below the address of r.
func within(c *web.Request, r *record.Record, who viewer, named string) (*record.Record, error) {
	id, err := uuid.Parse(named)
	if err != nil {
		return nil, record.ErrMissing
	}
	return readLong(c, func(tx *kv.Tx) (*record.Record, error) {
		if r.Kind != record.Collections {
			return catalog.ShownFile(tx, r, who.asker(), id)
		}
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
		for _, i := range []int{at + 1, at - 1} {
			if i < 0 || i >= len(seen) || seen[i].Class != record.Image {
				continue
			}
			picture, err := stagePicture(c, r, seen[i], who)
			if err != nil {
				return nil, err
			}
			// The address with a grant is another one on each page, so a browser would load it twice.
			if !strings.Contains(picture, "?"+grantParam+"=") {
				p.Among.Preload = append(p.Among.Preload, picture)
			}
		}
		if n := at / pageItems; n > 0 {
			p.Among.Address += "?page=" + strconv.Itoa(n+1)
		}
		return p, nil
	})
}

// stagePicture is the address of the picture that the page of an item shows, so that a browser has it before the page.
func stagePicture(c *web.Request, r *record.Record, m catalog.Item, who viewer) (string, error) {
	at := url.PathEscape(r.Slug) + "/" + m.ID.String()
	if m.Size >= largePicture {
		return c.Site.Prefix() + "/t/" + at + "?" + sizeParam + "=screen", nil
	}
	raw, _, err := rawAddresses(c, r, at, who)
	return raw, err
}

// shownTo are the items of a collection for a viewer. Members see all of them; the owner sees what visitors see.
func shownTo(who viewer, all *catalog.Items) []catalog.Item {
	if who.inside() && who.role != record.RoleOwner {
		return all.All
	}
	return all.Visible
}

// readCollectionItem answers with the bytes of an item of a collection, or of a file that a text shows.
func readCollectionItem(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), holders...)
	if err != nil {
		return refuseRaw(c, r, err)
	}
	item, err := through(c, r, who)
	if err != nil {
		return err
	}
	return rawAs(c, r, item, who)
}

// readShownFile answers with the bytes of a file that an item of a collection shows.
func readShownFile(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), record.Collections)
	if err != nil {
		return refuseRaw(c, r, err)
	}
	file, err := through(c, r, who)
	if err != nil {
		return err
	}
	return rawAs(c, r, file, who)
}

// readShownThumbnail answers with its small version.
func readShownThumbnail(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), record.Collections)
	if err != nil {
		return err
	}
	return thumbnailAs(c, r, who, func() (*record.Record, error) { return through(c, r, who) })
}

// readCollectionThumbnail answers with the small version of a picture in a collection, or the picture of another item.
func readCollectionThumbnail(c *web.Request) error {
	r, who, err := shared(c, c.Arg("slug"), holders...)
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
