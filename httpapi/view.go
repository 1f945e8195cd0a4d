package httpapi

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
	"slices"
	"time"

	"kist/blobs"
	"kist/embed"
	"kist/httpapi/thumb"
	"kist/kv"
	"kist/kv/record"
)

// viewPage shows an item to anyone who may see it. The address may carry an
// extension, as those at the origin for content do that lead here.
func viewPage(c *request) error {
	r, owned, err := c.sharedFile(c.arg("slug"), record.Kinds...)
	return c.view(r, owned, err)
}

// view shows what was found, if it was. It is a view like any other, and the
// page's own fetch of the bytes belongs to it.
func (c *request) view(r *record.Record, owned bool, found error) error {
	if found == errLocked { //nolint:errorlint // it is this very one
		return c.respondPage(http.StatusUnauthorized, c.locked(r.Slug, "", embed.Problem{}))
	}
	if found != nil {
		return found
	}
	counts := !owned && c.r.Method != http.MethodHead && r.Kind != record.Links && !c.granted(toRead, r)
	if counts && c.isPrefetchOrPreview() {
		if r.Limit == 0 {
			counts = false
		} else if !c.isPreview() {
			return errAhead
		} else {
			return c.card(r)
		}
	}
	v, err := c.viewing(r, owned)
	if err != nil {
		return err
	}
	page, err := c.s.itemPage(v)
	if err != nil {
		return err
	}
	if counts {
		if err := c.s.Store.Seen(r); err != nil {
			return err
		}
		if err := c.setGrantCookie(toRead, r); err != nil {
			return err
		}
	}
	return c.respondPage(http.StatusOK, page)
}

// viewing gathers what the page of an item shows.
func (c *request) viewing(r *record.Record, owned bool) (viewing, error) {
	body, err := r.Decode()
	if err != nil {
		return viewing{}, err
	}
	v := viewing{Shown: new(record.Shown), Body: body, Own: owned, Address: c.s.Base + "/v/" + r.Slug}
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		u, err := tx.User(r.Owner)
		if err != nil {
			return err
		}
		v.Owner = *u
		v.Shown.Base = c.s.Base
		return tx.Show(r, v.Shown)
	}); err != nil {
		return v, err
	}
	v.Open = openToAll(r)
	v.Left = r.Limit - v.Shown.Views
	switch b := body.(type) {
	case *record.File:
		// Known before a view is counted.
		if err := c.checkIntact(r, owned); err != nil {
			return v, err
		}
		if v.Raw, v.Download, err = c.rawAddresses(r, owned); err != nil {
			return v, err
		}
		v.Large = c.tooLarge(r, b.MimeType)
		if v.Open && c.hasThumb(r, b.MimeType) {
			v.Thumb = c.s.Base + "/t/" + url.PathEscape(r.Slug)
		}
		if record.ClassOf(b.MimeType) == record.Text {
			v.Text, err = c.beginning(r, owned)
		}
	case *record.Note, *record.Snippet:
		v.Raw, v.Download, err = c.rawAddresses(r, owned)
	case *record.Bookmark:
		if v.Shown.Page.Icon != (record.ID{}) {
			v.Icon = c.s.prefix() + "/t/" + url.PathEscape(r.Slug)
		}
	case *record.Link:
		if r.Limit > 0 && !owned { // where it leads is told with a click alone
			b.URL = ""
		}
	}
	return v, err
}

// rawAddresses are where the page finds the bytes of its item: with a grant,
// so that they belong to the page's view.
func (c *request) rawAddresses(r *record.Record, owned bool) (raw, save string, err error) {
	at := c.s.prefix() + "/x/" + url.PathEscape(r.Slug)
	q := url.Values{}
	if c.s.Content != "" {
		at = c.s.Content + "/x/" + url.PathEscape(r.Slug)
	}
	rights, err := c.contentGrants(r, owned, true)
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

// checkIntact returns the error of a file whose bytes are damaged, as far as content
// finds out. Bytes that are missing are the business of those who ask for them.
func (c *request) checkIntact(r *record.Record, owned bool) error {
	f, err := c.openContent(r, owned)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// beginning is the start of a text file.
func (c *request) beginning(r *record.Record, owned bool) ([]byte, error) {
	f, err := c.openContent(r, owned)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxPreview))
}

// locked asks for the password of an item, and says where the right one leads:
// see leads.
func (c *request) locked(slug, then string, p embed.Problem) embed.Page {
	c.w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	return embed.LockedPage{
		Base: c.s.prefix(), Action: leads[""] + url.PathEscape(slug), Then: then, Leaves: then == thenLink, Button: "Unlock", Problem: p,
	}
}

// leads are the addresses of an item that the form of its locked page leads on
// to, by what the form says.
var leads = map[string]string{"": "/v/", thenLink: "/s/", thenContent: "/x/"}

const (
	thenLink    = "link"
	thenContent = "content"
)

// card tells a fetcher of link previews what the item is called and shows
// nothing of it, nor where a short link leads.
func (c *request) card(r *record.Record) error {
	b, err := r.Decode()
	if err != nil {
		return err
	}
	var u *record.User
	if err := c.s.Store.View(func(tx *kv.Tx) (err error) { u, err = tx.User(r.Owner); return err }); err != nil {
		return err
	}
	page := embed.CardPage{Base: c.s.prefix(), Address: c.s.Base + "/v/" + r.Slug, Title: b.Title(), Owner: displayName(*u), Kind: kindName(r.Kind)}
	if link, ok := b.(*record.Link); ok {
		page.Address = c.s.Base + "/s/" + r.Slug
		if link.Description == "" {
			page.Title = r.Slug
		}
	}
	return c.respondPage(http.StatusOK, page)
}

// unlocked takes the form of a locked item's page. A right password is kept in
// a cookie, for that item alone.
func unlocked(c *request) error {
	values, err := c.readForm()
	if err != nil {
		return err
	}
	c.readProofField(values)
	slug, then := c.arg("slug"), values.Get("then")
	if leads[then] == "" {
		then = ""
	}
	c.r.Header.Set("X-Share-Password", values.Get("password"))
	r, owned, err := c.find(slug, record.Kinds)
	if err == nil && values.Get("password") == "" && r.Password != "" && !owned {
		return c.respondPage(http.StatusUnauthorized, c.locked(slug, then, embed.Problem{Text: "Type the password."}))
	}
	if err = c.unlock(r, owned, err); err != nil {
		return c.problem(err, func(p embed.Problem) embed.Page { return c.locked(slug, then, p) })
	}
	if r.Password != "" {
		if err := c.setGrantCookie(toUnlock, r); err != nil {
			return err
		}
	}
	return c.redirect(leads[then] + url.PathEscape(slug))
}

// thumbnail answers with a small picture of a picture, or the icon of a
// bookmark's site. It is no view, so an item with a limit has one only for those
// who have paid.
func thumbnail(c *request) error {
	r, owned, err := c.sharedFile(c.arg("slug"), record.Files, record.Bookmarks)
	if err != nil {
		return err
	}
	if r.Limit > 0 && !owned && !c.granted(toRead, r) {
		return record.ErrMissing
	}
	if r.Kind == record.Bookmarks {
		return c.icon(r, owned)
	}
	if c.s.Content != "" && !c.atContentOrigin() {
		return c.redirectToContent(r, owned, "/t/")
	}
	return c.thumb(r, owned)
}

// How many games a public list shows, and how many of the user's public ones
// are looked at for that: some have a password, a limit, or have expired.
const (
	maxGames       = maxPage
	maxGamesLooked = 20 * maxPage
)

// gameList is the public list of a user's games, of those that came last.
func gameList(c *request) error {
	owner, games, more, err := c.games(c.arg("username"))
	if err == nil && len(games) == 0 {
		err = record.ErrMissing // whether there is such a user is nobody's business
	}
	if missing(err) {
		return record.NotFound("list")
	}
	if err != nil {
		return err
	}
	p := c.s.gamesPage(owner, c.s.Base+"/g/"+url.PathEscape(owner.Name), games)
	if more {
		p.Most = len(games)
	}
	return c.respondPage(http.StatusOK, p)
}

// games are the latest games of the user of the name that are open to all, and
// whether there may be more. They are read a page at a time: a long look would
// keep the store from using its space again.
func (c *request) games(name string) (owner record.User, games []listedGame, more bool, err error) {
	yes := true
	q := kv.Query{Kind: record.Games, Public: &yes, Limit: maxPage}
	for looked := 0; looked < maxGamesLooked; looked += q.Limit {
		if err := c.s.Store.View(func(tx *kv.Tx) error {
			u, err := tx.UserNamed(name)
			if err != nil {
				return err
			}
			if u.Disabled {
				return record.ErrMissing
			}
			owner, q.Owner = *u, u.ID
			list, err := tx.List(q)
			if err != nil {
				return err
			}
			q.After = list.Next
			for _, r := range list.Records {
				if !openToAll(r) || r.Open(tx.Now) != nil {
					continue
				}
				if more = len(games) == maxGames; more {
					return nil
				}
				b, err := r.Decode()
				if err != nil {
					return err
				}
				games = append(games, listedGame{b.(*record.Game), c.s.prefix() + "/v/" + url.PathEscape(r.Slug)}) // the kind is asked for
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

// thumb answers with the small picture of a file's content.
func (c *request) thumb(r *record.Record, owned bool) error {
	if err := c.s.Blobs.Quarantined(r.Bytes.Ref); err != nil {
		return c.unreadable(r.ID, owned, err)
	}
	t, err := c.picture(c.r.Context(), r)
	switch {
	case errors.Is(err, blobs.ErrDamaged), errors.Is(err, fs.ErrNotExist):
		return c.unreadable(r.ID, owned, err)
	case errors.Is(err, thumb.ErrNone):
		return record.ErrMissing
	case errors.Is(err, thumb.ErrBusy):
		return &record.Error{Fault: record.Busy, Code: "busy", Text: "Too many pictures are being made small; try again in a moment.", Retry: time.Second}
	case err != nil:
		return err
	}
	return c.small(r, t, caching(r))
}

// picture makes the thumbnail of a file's content, or has it from the cache. The
// maker checks the bytes that it makes one of.
func (c *request) picture(ctx context.Context, r *record.Record) (*thumb.Thumb, error) {
	t, err := c.s.Thumbs.Get(ctx, r.Bytes.Ref, func() (*os.File, error) { return c.s.Blobs.Get(r.Bytes.Ref) })
	if errors.Is(err, blobs.ErrDamaged) {
		c.s.Blobs.CheckSoon(r.Bytes.Ref)
	}
	return t, err
}

// small answers with a small picture, which belongs to a record.
func (c *request) small(r *record.Record, t *thumb.Thumb, caching string) error {
	h := c.w.Header()
	hostile(h, t.Type, "", false, openToAll(r) || c.atContentOrigin())
	h.Set("Etag", etag(r, sha256.Sum256(t.Bytes)))
	h.Set("Cache-Control", caching)
	size := int64(len(t.Bytes))
	return c.sendContent(bytes.NewReader(t.Bytes), size, func(status int) error { return c.countView(r, true, status, size) })
}

// icon answers with the icon of a bookmark's site. It was drawn by this server
// and needs no other origin. If it was there and is not any more, it is got
// again.
func (c *request) icon(r *record.Record, owned bool) error {
	if c.atContentOrigin() {
		return record.ErrMissing
	}
	var site record.ID
	if err := c.s.Store.View(func(tx *kv.Tx) (err error) { site, err = tx.PageIcon(r); return err }); err != nil {
		return err
	}
	if site == (record.ID{}) {
		return record.ErrMissing
	}
	t, got := c.s.Icons.Get(site)
	if !got {
		if c.s.Icons.Missed(site) {
			if err := c.s.Store.Update(func(tx *kv.Tx) error { return tx.RecheckPage(r) }); err != nil {
				c.s.Log.Error("a lost icon will be got at the next look at the page", "requestId", c.id, "id", r.ID.String(), "error", err)
			}
		}
		return record.ErrMissing
	}
	if owned { // a list asks for many, and all that it tells is the site
		return c.small(r, t, "private, no-cache")
	}
	return c.small(r, t, caching(r))
}

// thumbWait is how long a page waits for the thumbnail that it names.
const thumbWait = time.Second

// hasThumb reports whether a picture has a thumbnail. One that takes long to
// make is taken for made.
func (c *request) hasThumb(r *record.Record, media string) bool {
	if !shrinks(media) {
		return false
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), thumbWait)
	defer cancel()
	_, err := c.picture(ctx, r)
	return !errors.Is(err, thumb.ErrNone)
}

// tooLarge reports whether a picture is too large for the server to make a
// thumbnail of it, and so for a page to show it unasked.
func (c *request) tooLarge(r *record.Record, media string) bool {
	if !shrinks(media) {
		return false
	}
	f, err := c.s.Blobs.Get(r.Bytes.Ref)
	if err != nil {
		return false // which those find out who ask for the bytes
	}
	defer f.Close()
	return thumb.TooLarge(f)
}

// shrinks reports whether there are thumbnails of files of the media type.
func shrinks(media string) bool {
	switch media {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return true
	}
	return false
}

// caching is the rule of how long an answer with an item may be kept: what can
// be taken back is asked for again each time.
func caching(r *record.Record) string {
	if r.Limit > 0 || r.Password != "" || !r.Public || !r.Expires.IsZero() {
		return "private, no-store"
	}
	return "private, no-cache"
}

// viewRoutes are the pages of shared items.
func viewRoutes() []route {
	page := reply{200, "The page.", pageOf()}
	return []route{
		{
			method: "GET", path: "/v/{slug}", id: "viewItem", tag: "public", summary: "The page of a shared item.",
			access: visitors, args: sharePassword, reply: page, fails: []int{401, 404, 410, 429, 503}, slugs: true, serve: viewPage,
		},
		{
			method: "POST", path: "/v/{slug}", id: "unlockItem", tag: "public", summary: "Takes the form of a locked item's page.",
			access: visitors, body: formBody, reply: reply{303, "On to the item.", nil}, fails: []int{400, 401, 404, 410, 413, 415, 429, 503}, slugs: true, serve: unlocked,
		},
		{
			method: "GET", path: "/t/{slug}", id: "readThumbnail", tag: "public", summary: "A small picture: of a shared picture, 480 pixels at most, or the icon of the site that a shared bookmark leads to, 64 at most.",
			access: visitors, args: slices.Concat(sharePassword, conditional), reply: reply{200, "The picture.", bytesOf()}, fails: []int{206, 302, 304, 401, 404, 410, 412, 416, 429, 503}, atContentOrigin: true, slugs: true, serve: thumbnail,
		},
		{
			method: "GET", path: "/g/{username}", id: "viewGames", tag: "public", summary: "The public games of a user.",
			access: visitors, reply: page, fails: []int{404, 429, 503}, slugs: true, serve: gameList,
		},
	}
}
