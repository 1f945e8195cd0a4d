package public

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"kist/blobs"
	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/session"
	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

var ViewItem = web.PageOp(viewItem, 401, 404, 410, 429, 503).ForVisitors().Found(finds(record.Kinds...))

// viewItem shows an item to anyone who may see it. The address may have an extension, because
// addresses at the origin for content that redirect here may have one.
func viewItem(c *web.Request) error {
	r, who, err := sharedFile(c, c.Arg("slug"), record.Kinds...)
	if err != nil {
		return RefuseItem(c, r, err)
	}
	return View(c, r, who)
}

// View shows an item to a caller who may see it. Showing the page is a view.
// The page's own requests for the bytes belong to the same view.
func View(c *web.Request, r *record.Record, who viewer) error {
	return viewAs(c, r, who, func() (embed.Page, error) {
		if r.Kind == record.Collections {
			return collectionPage(c, r, who)
		}
		v, err := viewing(c, r, r, who)
		if err != nil {
			return nil, err
		}
		return ItemPage(c.Site, v)
	})
}

// viewAs shows a page under the conditions of r, the item or collection that was found.
func viewAs(c *web.Request, r *record.Record, who viewer, make func() (embed.Page, error)) error {
	counts, err := countsPage(c, r, who)
	if r.Kind == record.Links { // its page says where it leads; to follow it counts
		counts, err = false, nil
	}
	if err == errCard { //nolint:errorlint // never wrapped
		return card(c, r)
	}
	if err != nil {
		return err
	}
	page, err := make()
	if err != nil {
		return err
	}
	made, err := c.MakePage(page) // before the view is counted, because there may be no memory for it
	if err != nil {
		return err
	}
	if counts {
		if err := see(c, r, history.VisitPage); err != nil {
			return err
		}
		if err := SetGrantCookie(c, grant.ToRead, r); err != nil {
			return err
		}
	}
	return made.Send(c.W, http.StatusOK)
}

// addressOf is the end of the addresses of an item that is seen under the conditions of r.
func addressOf(r, item *record.Record) string {
	at := url.PathEscape(r.Slug)
	if r != item {
		at += "/" + item.ID.String()
	}
	return at
}

// largePicture is the size in bytes from which a page shows a smaller version of a photo first.
const largePicture = 2_000_000

// viewing collects what the page of an item shows. r has the conditions: it is the item itself, or the collection
// through which it is seen.
func viewing(c *web.Request, r, item *record.Record, who viewer) (Viewing, error) {
	body, err := item.Decode()
	if err != nil {
		return Viewing{}, err
	}
	at := addressOf(r, item)
	v := Viewing{
		Lang: c.Lang(), Shown: &record.Shown{Visitor: r != item}, Body: body, Own: who.owns(item) && r == item,
		Address: c.Site.Base + "/v/" + at,
	}
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, r.Owner)
		if err != nil {
			return err
		}
		v.Owner = *u
		v.Shown.Base = c.Site.Base
		return catalog.Show(tx, item, v.Shown)
	}); err != nil {
		return v, err
	}
	v.Open = r.OpenToAll()
	v.Left = r.Limit - v.Shown.Used
	if err := v.addFiles(c, r, item, who, at); err != nil {
		return v, err
	}
	address, by := pictureOf(body)
	_, got := c.Site.Pictures.Get(address)
	own := false
	err = c.Site.Store.View(func(tx *kv.Tx) (err error) {
		own, err = catalog.HasOwnPicture(tx, item, body, who.asker(), hasPoster(c.Site))
		return err
	})
	if err != nil {
		return v, err
	}
	// The page of an item with a limit is within its view, which the picture needs.
	if own || got && (r.Limit == 0 || who.inside() || r != item) {
		v.Cover = "/t/" + at + "?" + sizeParam + "=picture"
		if v.Open {
			v.Thumb = c.Site.Base + v.Cover
		}
		v.Cover = c.Site.Prefix() + v.Cover
	} else if who.owns(item) && address != "" {
		if err := wantPicture(c, item, address, by); err != nil {
			return v, err
		}
	}
	switch b := body.(type) {
	case *record.File:
		// Check this before a view is counted.
		if err := checkIntact(c, r, item, b, who); err != nil {
			return v, err
		}
		v.Raw, v.Download, err = rawAddresses(c, r, at, who)
		if err != nil {
			return v, err
		}
		v.Large = tooLarge(c, item, b.MimeType)
		if v.Open && hasThumb(c, item, b.MimeType) {
			v.Thumb = c.Site.Base + "/t/" + at + "?" + sizeParam + "=card"
			v.ThumbWidth, v.ThumbHeight = cardSize(c, item, b.MimeType)
		} else if v.Open && record.ClassOf(b.MimeType) == record.Video {
			v.ThumbWidth, v.ThumbHeight = filmSize(c, item)
		}
		if record.ClassOf(b.MimeType) == record.Video && hasThumb(c, item, b.MimeType) {
			v.Screen = c.Site.Prefix() + "/t/" + at
		}
		if record.ClassOf(b.MimeType) == record.Text {
			v.Text, v.TextGoesOn, err = beginning(c, r, item, b.MimeType, who)
		}
		large := b.MimeType == "image/jpeg" && b.Size > largePicture && !v.Large
		if large || isShownSmall(b.MimeType) && hasThumb(c, item, b.MimeType) {
			v.Screen = c.Site.Prefix() + "/t/" + at + "?" + sizeParam + "=screen"
		}
	case *record.Note, *record.Snippet:
		v.Raw, v.Download, err = rawAddresses(c, r, at, who)
	case *record.Bookmark:
		if v.Shown.Page.Icon != (record.ID{}) {
			v.Icon = c.Site.Prefix() + "/t/" + at
		}
	case *record.Link:
		if item.Limit > 0 && !who.owns(item) { // the target is shown only in exchange for a click
			b.URL = ""
		}
	}
	return v, err
}

// rawAddresses are the addresses of the item's bytes for its page. They have a grant, so that
// they belong to the page's view.
func rawAddresses(c *web.Request, r *record.Record, at string, who viewer) (raw, save string, err error) {
	q := url.Values{}
	at = "/x/" + at
	if c.Site.Content != "" {
		at = c.Site.Content + at
	} else {
		at = c.Site.Prefix() + at
	}
	rights, err := contentGrants(c, r, who, true)
	if err != nil {
		return "", "", err
	}
	if len(rights) > 0 {
		q[grantParam] = rights
	}
	raw = at
	if len(q) > 0 {
		raw += "?" + q.Encode()
	}
	q.Set(saveParam, "1")
	return raw, at + "?" + q.Encode(), nil
}

// checkIntact returns an error if the bytes of a file are known to be damaged. Missing bytes
// are not an error here; requests for the bytes report them. If b is about other bytes than
// those that the visitor gets, it is changed.
func checkIntact(c *web.Request, r, item *record.Record, b *record.File, who viewer) error {
	f, of, err := openContent(c, r, item, b.MimeType, who)
	if kv.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if of.Clean {
		b.Size, b.SHA256 = of.Size, ""
	}
	return f.Close()
}

// beginning is the start of a text file as UTF-8, and whether the file goes on; nil if the bytes are not a text.
func beginning(
	c *web.Request, r, item *record.Record, mimeType string, who viewer,
) (text []byte, goesOn bool, err error) {
	f, of, err := openContent(c, r, item, mimeType, who)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	start, err := io.ReadAll(io.LimitReader(f, maxPreview))
	if err != nil {
		return nil, false, err
	}
	goesOn = int64(len(start)) < of.Size
	plain, ok := media.Text(start, goesOn)
	if !ok {
		return nil, false, nil
	}
	return []byte(plain), goesOn, nil
}

// locked is the page that asks for the password of an item. then says where the right password
// leads: see leads.
func locked(c *web.Request, slug, then string, p embed.Problem) embed.Page {
	c.W.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	return embed.LockedPage{
		Base: c.Site.Prefix(), Action: leads[""] + url.PathEscape(slug), Then: then, Leaves: then == thenLink, Button: c.Lang().T("locked.unlock"), Problem: p,
	}
}

// leads maps the field then of a locked page's form to the item's address to go to.
var leads = map[string]string{"": "/v/", thenLink: "/s/", thenContent: "/x/"}

const (
	thenLink    = "link"
	thenContent = "content"
)

// card shows what the item is called, but no content and no target of a short link, and a button that shows the item.
func card(c *web.Request, r *record.Record) error {
	b, err := r.Decode()
	if err != nil {
		return err
	}
	var u *people.User
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		u, err = people.ReadUser(tx, r.Owner)
		return err
	}); err != nil {
		return err
	}
	page := embed.CardPage{
		Base: c.Site.Prefix(), Address: c.Site.Base + "/v/" + r.Slug, Title: nameOf(c.Lang(), r, b),
		Action: leads[""] + url.PathEscape(r.Slug), Owner: DisplayName(*u), Kind: web.ViewOf(r.Kind, c.Lang()).One,
	}
	if r.Kind == record.Links {
		page.Leaves = true
		page.Address = c.Site.Base + "/s/" + r.Slug
	}
	return c.RespondPage(http.StatusOK, page)
}

var UnlockItem = web.FormOp(303, unlockItem, 200, 302, 400, 401, 403, 404, 410, 413, 415, 429, 503).ForVisitors()

// unlockItem receives the form of a locked item's page. After the right password it sets a
// cookie, only for that item. It also receives the form of a card, which shows the item or follows the short link.
func unlockItem(c *web.Request) error {
	values, err := session.ReadForm(c)
	if err != nil {
		return err
	}
	session.ReadProofField(c, values)
	slug, then := c.Arg("slug"), values.Get("then")
	if leads[then] == "" {
		then = ""
	}
	c.R.Header.Set("X-Share-Password", values.Get("password"))
	problem := func(err error) error {
		return session.Problem(c, err, func(p embed.Problem) embed.Page { return locked(c, slug, then, p) })
	}
	r, who, err := Find(c, slug, record.Kinds)
	if err != nil {
		return problem(NotOpen(c, err))
	}
	if values.Get("password") == "" && !opened(c, r, who) {
		return c.RespondPage(http.StatusUnauthorized, locked(c, slug, then, embed.Problem{Text: c.Lang().T("locked.type")}))
	}
	if err := Unlock(c, r, who); err != nil {
		return problem(err)
	}
	if values.Has("show") { // else any site could use up the views
		if err := c.SameOrigin(); err != nil {
			return problem(err)
		}
	}
	switch values.Get("show") {
	case "page":
		return View(c, r, who)
	case "link":
		if r.Kind == record.Links {
			return RedirectLink(c, r, who)
		}
	}
	if r.Password != "" {
		if err := SetGrantCookie(c, grant.ToUnlock, r); err != nil {
			return err
		}
	}
	return session.Redirect(c, leads[then]+url.PathEscape(slug))
}

var ReadThumbnail = web.Operation{
	Tag: "public", Reply: web.Reply{Status: 200}, Fails: []int{204, 206, 302, 304, 401, 404, 410, 412, 416, 429, 503},
	Slugs: true, AtContentOrigin: true, Serve: readThumbnail,
}

// readThumbnail answers with a small version of a picture, or the icon of a bookmark's site, or the
// picture of its page, the cover of a game, or the photo of a recipe.
// This is not a view, so an item with a limit has one only for visitors whose view was counted.
func readThumbnail(c *web.Request) error {
	r, who, err := sharedFile(c, c.Arg("slug"), record.Files, record.Bookmarks, record.Games, record.Recipes)
	if err != nil {
		return err
	}
	return thumbnailAs(c, r, who, func() (*record.Record, error) { return r, nil })
}

// thumbnailAs answers with the small version of what find finds, under the conditions of r.
func thumbnailAs(c *web.Request, r *record.Record, who viewer, find func() (*record.Record, error)) error {
	if r.Limit > 0 && !who.inside() && !Granted(c, grant.ToRead, r) {
		return record.ErrMissing
	}
	item, err := find()
	if err != nil {
		return err
	}
	switch {
	case item.Kind == record.Games, item.Kind == record.Recipes:
		return picturing(c, r, item, who)
	case item.Kind == record.Bookmarks && c.R.URL.Query().Get(sizeParam) == "picture":
		return cover(c, r, item, who)
	case item.Kind == record.Bookmarks:
		return icon(c, r, item, who)
	case item.Bytes == nil:
		return record.ErrMissing
	case c.Site.Content != "" && !c.AtContentOrigin():
		return redirectToContent(c, r, who, "/t/")
	}
	err = respondThumb(c, r, item, who)
	switch {
	case errors.Is(err, thumb.ErrNone) && who.inside():
		c.W.WriteHeader(http.StatusNoContent) // rows of films ask; this is no failure
		return nil
	case errors.Is(err, thumb.ErrNone):
		return record.ErrMissing
	}
	return err
}

// picturing answers with the picture of a recipe or a game: its own file, or that of its address.
func picturing(c *web.Request, r, item *record.Record, who viewer) error {
	head, err := item.Head()
	if err != nil {
		return err
	}
	file, err := ownPicture(c, item, head, who)
	if kv.Missing(err) {
		return cover(c, r, item, who)
	}
	if err != nil {
		return err
	}
	if c.Site.Content != "" && !c.AtContentOrigin() {
		return redirectToContent(c, r, who, "/t/")
	}
	err = respondOwnPicture(c, r, file, who)
	if errors.Is(err, thumb.ErrNone) {
		return cover(c, r, item, who)
	}
	return err
}

// How many games a public list shows, and how many of the user's public games are examined for
// it. Some have a password or a limit, or have expired.
const (
	MaxGames       = web.MaxPage
	maxGamesLooked = 20 * web.MaxPage
	gameOver       = 256       // what a game takes on the page beside its fields, about
	maxGamesBytes  = 768 << 10 // of all that are shown, as they are stored; as HTML they are at most five times as long
)

var ViewGames = web.PageOp(viewGames, 404, 429, 503).ForVisitors().Found(findsGames)

// findsGames fails with Missing if the user has no games that are open to all.
func findsGames(c *web.Request) error {
	_, games, _, err := games(c, c.Arg("username"))
	if err != nil {
		return err
	}
	if len(games) == 0 {
		return record.ErrMissing
	}
	return nil
}

// viewGames shows the newest public games of a user.
func viewGames(c *web.Request) error {
	owner, games, more, err := games(c, c.Arg("username"))
	if kv.Missing(err) {
		return record.NotFound("list")
	}
	if err != nil {
		return err
	}
	if len(games) == 0 { // do not reveal whether the user exists
		return record.NotFound("list")
	}
	p := GamesPage(c.Site, c.Lang(), owner, c.Site.Base+"/g/"+url.PathEscape(owner.Name), games)
	if more {
		p.Most = len(games)
	}
	return c.RespondPage(http.StatusOK, p)
}

// games returns the newest games of the named user that are open to all, and whether there may
// be more. It reads them page by page, because a long read transaction would keep the store
// from reusing its space.
func games(c *web.Request, name string) (owner people.User, games []ListedGame, more bool, err error) {
	yes := true
	q := catalog.Query{Kind: record.Games, Public: &yes, Limit: web.MaxPage}
	left := maxGamesBytes
	for looked := 0; looked < maxGamesLooked && c.R.Context().Err() == nil; looked += q.Limit {
		if err := c.Site.Store.View(func(tx *kv.Tx) error {
			u, err := people.UserNamed(tx, name)
			if err != nil {
				return err
			}
			if u.Disabled {
				return record.ErrMissing
			}
			owner, q.Owner = *u, u.ID
			list, err := catalog.List(tx, q)
			if err != nil {
				return err
			}
			q.After = list.Next
			for _, r := range list.Records {
				if !r.OpenToAll() || r.Open(tx.Now) != nil {
					continue
				}
				left -= len(r.Body) + gameOver
				more = len(games) == MaxGames || left < 0
				if more {
					return nil
				}
				b, err := r.Decode()
				if err != nil {
					return err
				}
				// the kind is asked for
				games = append(games, ListedGame{b.(*record.Game), c.Site.Prefix() + "/v/" + url.PathEscape(r.Slug)})
			}
			return nil
		}); err != nil {
			return owner, nil, false, err
		}
		if more || q.After == "" {
			return owner, games, more, nil
		}
	}
	return owner, games, true, nil
}

// respondThumb answers with the small version of a picture, under the conditions of r. The error is thumb.ErrNone for a
// file without a small version.
func respondThumb(c *web.Request, r, item *record.Record, who viewer) error {
	if err := c.Site.Blobs.Damaged.Err(item.Bytes.Ref); err != nil {
		return Unreadable(c, item.ID, who.owns(item), err)
	}
	size, err := thumbSize(c)
	if err != nil {
		return err
	}
	t, err := picture(c, c.R.Context(), item, size)
	switch {
	case errors.Is(err, blobs.ErrDamaged), errors.Is(err, fs.ErrNotExist):
		return Unreadable(c, item.ID, who.owns(item), err)
	case errors.Is(err, thumb.ErrBusy):
		return &record.Error{
			Fault: record.Busy, Code: "busy", Text: "The server is busy with other pictures. Try again in a moment.",
			Retry: time.Second,
		}
	case err != nil:
		return err
	}
	return small(c, r, t, caching(r))
}

// sizeParam asks for a thumbnail of another size: small, row, screen or card; or for the picture of a bookmark's page.
const sizeParam = "size"

// thumbSize is the size of a thumbnail that a request asks for.
func thumbSize(c *web.Request) (thumb.Size, error) {
	q, err := c.Query()
	if err != nil {
		return 0, err
	}
	switch q.Get(sizeParam) {
	case "small":
		return thumb.Small, nil
	case "row":
		return thumb.Row, nil
	case "screen":
		return thumb.Screen, nil
	case "card", "picture":
		return thumb.Card, nil
	}
	return thumb.Tile, nil
}

// picture makes the thumbnail of a file, or takes it or a poster from the cache. The maker checks the
// bytes that it reads.
func picture(c *web.Request, ctx context.Context, r *record.Record, size thumb.Size) (*thumb.Thumb, error) {
	t, err := c.Site.Thumbs.Get(ctx, r.Bytes.Ref, size, func() (*os.File, error) { return c.Site.Blobs.Get(r.Bytes.Ref) })
	switch {
	case errors.Is(err, blobs.ErrDamaged):
		c.Site.Blobs.CheckSoon(r.Bytes.Ref)
	case errors.Is(err, thumb.ErrNone):
		return c.Site.Thumbs.Poster(r.Owner, r.ID, size)
	}
	return t, err
}

// small answers with the thumbnail or icon of a record, which is no view.
func small(c *web.Request, r *record.Record, t *thumb.Thumb, caching string) error {
	h := c.W.Header()
	web.SetContentHeaders(h, t.Type, "", "", false, r.OpenToAll() || c.AtContentOrigin())
	h.Set("Etag", etag(r, sha256.Sum256(t.Bytes)))
	h.Set("Cache-Control", caching)
	size := int64(len(t.Bytes))
	if err := c.Hold(size); err != nil {
		return err
	}
	return SendContent(c, bytes.NewReader(t.Bytes), size, func(status int) error { return Refusal(c, status, size) })
}

// icon answers with the icon of a bookmark's site, under the conditions of r. This server has drawn it, so it needs no
// separate origin. If the icon was lost, it is fetched again.
func icon(c *web.Request, r, item *record.Record, who viewer) error {
	if c.AtContentOrigin() {
		return record.ErrMissing
	}
	var site record.ID
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		site, err = catalog.PageIcon(tx, item)
		return err
	}); err != nil {
		return err
	}
	if site == (record.ID{}) {
		return record.ErrMissing
	}
	t, got := c.Site.Icons.Get(site)
	if !got {
		if who.owns(item) && c.Site.Icons.Missed(site) {
			if err := c.Site.Store.Update(func(tx *kv.Tx) error { return catalog.RecheckPage(tx, item) }); err != nil {
				c.Site.Log.Error(
					"a lost icon is not fetched before the next check of the page", "requestId", c.ID, "id", item.ID.String(), "error",
					err,
				)
			}
		}
		return record.ErrMissing
	}
	if who.inside() { // lists load many, and an icon reveals only the site
		return small(c, r, t, "private, no-cache")
	}
	return small(c, r, t, caching(r))
}

// cover answers with the picture of a bookmark's page, the cover of a game or the photo of a recipe, as this server has
// drawn it, under the conditions of r. Nobody waits for another server: one that is missing is fetched later, if its
// owner asks.
func cover(c *web.Request, r, item *record.Record, who viewer) error {
	if c.AtContentOrigin() {
		return record.ErrMissing
	}
	body, err := item.Head()
	if err != nil {
		return err
	}
	address, by := pictureOf(body)
	if t, got := c.Site.Pictures.Get(address); got {
		if who.inside() {
			return small(c, r, t, "private, no-cache")
		}
		return small(c, r, t, caching(r))
	}
	if who.owns(item) {
		if err := wantPicture(c, item, address, by); err != nil {
			return err
		}
	}
	return record.ErrMissing
}

// pictureOf is the address of the picture of a bookmark's page, a game or a recipe, and the address that has named it.
func pictureOf(body record.Body) (address, by string) {
	switch b := body.(type) {
	case *record.Bookmark:
		return b.ImageURL, b.URL
	case *record.Game:
		return b.CoverURL, b.CoverURL
	case *record.Recipe:
		return b.ImageURL, b.ImageURL
	}
	return "", ""
}

// wantPicture has the picture at an address fetched later. That of a bookmark's page is fetched only if pages are checked;
// that of a game or a recipe is what its owner has entered.
func wantPicture(c *web.Request, r *record.Record, address, by string) error {
	var set people.Settings
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		set, err = people.ReadSettings(tx)
		return err
	}); err != nil {
		return err
	}
	u, err := url.Parse(by)
	switch {
	case err != nil, by == "", r.Kind == record.Bookmarks && !set.LinkChecks:
	case address != "":
		c.Site.Pictures.Want(address, u.Hostname())
	case c.Site.Pictures.WantsPage(by):
		return c.Site.Store.Update(func(tx *kv.Tx) error { return catalog.RefillPage(tx, r) })
	}
	return nil
}

// thumbWait is how long a page waits for its thumbnail.
const thumbWait = time.Second

// hasThumb reports whether a picture has a thumbnail. It assumes so if making one takes long.
func hasThumb(c *web.Request, r *record.Record, mediaType string) bool {
	if !media.Shrinks(mediaType) {
		_, err := c.Site.Thumbs.Poster(r.Owner, r.ID, thumb.Tile)
		return err == nil
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), thumbWait)
	defer cancel()
	_, err := picture(c, ctx, r, thumb.Card)
	return !errors.Is(err, thumb.ErrNone)
}

// cardSize is the size in pixels of the picture of a file in link previews, if the file hasThumb; zero if it is
// unknown.
func cardSize(c *web.Request, r *record.Record, mediaType string) (width, height int) {
	if !media.Shrinks(mediaType) {
		t, err := c.Site.Thumbs.Poster(r.Owner, r.ID, thumb.Card)
		if err != nil {
			return 0, 0
		}
		return t.Width, t.Height
	}
	f, err := c.Site.Blobs.Get(r.Bytes.Ref)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	width, height, err = thumb.Fitted(f, thumb.Card)
	if err != nil {
		return 0, 0
	}
	return width, height
}

// filmSize is the size in pixels of a film that has no picture for link previews; zero if its file does not tell, or is
// not on the disk.
func filmSize(c *web.Request, r *record.Record) (width, height int) {
	info, err := c.Site.Blobs.Stat(r.Bytes.Ref)
	if err != nil {
		return 0, 0
	}
	f, err := c.Site.Blobs.Get(r.Bytes.Ref)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	return media.FilmSize(f, info.Size)
}

// tooLarge reports whether a picture is too large for a thumbnail, and therefore too large to
// show on a page.
func tooLarge(c *web.Request, r *record.Record, mediaType string) bool {
	if !media.Shrinks(mediaType) {
		return false
	}
	f, err := c.Site.Blobs.Get(r.Bytes.Ref)
	if err != nil {
		return false // a request for the bytes will report it
	}
	defer f.Close()
	return thumb.TooLarge(f)
}

// isShownSmall reports whether pages show a smaller version of such pictures, because browsers cannot show them.
func isShownSmall(mediaType string) bool {
	return record.ClassOf(mediaType) == record.Image && !media.Inline(mediaType)
}

// caching is the Cache-Control value for an item. Whatever the owner can withdraw must be
// requested each time.
func caching(r *record.Record) string {
	if r.Limit > 0 || r.Password != "" || !r.Public || !r.Expires.IsZero() {
		return "private, no-store"
	}
	return "private, no-cache"
}
