package public

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"kist/blobs"
	"kist/embed"
	"kist/httpapi/render"
	"kist/httpapi/session"
	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// ReadBoard answers its owner and its members with the page of a collection, for the app, which adds what they may do.
// The page has every item, also those that visitors do not see. Others have to sign in.
var ReadBoard = web.PageOp(readBoard, 303, 304, 404, 503)

func readBoard(c *web.Request) error {
	if c.Caller == nil || !c.Caller.Key.Allows(people.ScopeRead) {
		return session.Redirect(c, "/login?next="+url.QueryEscape("/collections/"+c.Arg("id")))
	}
	var r *record.Record
	var who viewer
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		found, way, err := catalog.Reach(tx, c.Owner(), record.Collections, c.Arg("id"))
		if err != nil {
			return err
		}
		r, who = found, viewer{c.Owner(), way.Role}
		r.Body = bytes.Clone(r.Body)
		return nil
	}); err != nil {
		return err
	}
	p, err := makeBoard(c, r, who, true)
	if err != nil {
		return err
	}
	page, err := c.MakePage(p)
	if err != nil {
		return err
	}
	return page.SendIfChanged(c)
}

// collectionPage shows a page of a collection at its address.
func collectionPage(c *web.Request, r *record.Record, who viewer) (embed.Page, error) {
	return makeBoard(c, r, who, false)
}

// A board is a page of a collection while it is made.
type board struct {
	c      *web.Request
	r      *record.Record
	body   *record.Collection
	who    viewer
	inApp  bool
	people map[record.ID]string // how those who put something in want to be called
	page   embed.CollectionPage

	// What takes time is done when the transaction has ended: the bytes of pictures, whose size is read, and the texts
	// of notes, by the place of their tiles.
	pictures map[int]blobs.Ref
	notes    map[int]string
}

// makeBoard makes a page of a collection. In the app it has every item and says which one is which.
func makeBoard(c *web.Request, r *record.Record, who viewer, inApp bool) (*embed.CollectionPage, error) {
	query, err := c.Query()
	if err != nil {
		return nil, err
	}
	body, all, err := readCollection(c, r)
	if err != nil {
		return nil, err
	}
	seen := shownTo(who, all)
	if inApp {
		seen = all.All
	}
	pages := max(1, (len(seen)+pageItems-1)/pageItems)
	n, err := strconv.Atoi(cmp.Or(query.Get("page"), "1"))
	if err != nil || n < 1 || n > pages {
		return nil, record.ErrMissing
	}

	b := board{
		c: c, r: r, body: body, who: who, inApp: inApp, people: map[record.ID]string{}, pictures: map[int]blobs.Ref{},
		notes: map[int]string{},
		page: embed.CollectionPage{
			Base: c.Site.Prefix(), Origin: c.Site.Content, Address: c.Site.Base + "/v/" + r.Slug,
			Title: body.Name, Description: body.Description, Expires: r.Expires, Own: who.role == record.RoleOwner,
			Limit: r.Limit, Open: r.OpenToAll(), Logged: r.Logged, Count: all.Items, Bytes: all.Bytes,
			Page: n, Pages: pages, InApp: inApp,
		},
	}
	if err := c.Site.Store.View(b.findRequest); err != nil {
		return nil, err
	}
	if len(seen) != len(all.Visible) {
		b.page.Count, b.page.Bytes = int64(len(seen)), 0
		for _, m := range seen {
			b.page.Bytes += m.Size
		}
	}
	if who.inside() {
		b.page.Arrange = c.Site.Prefix() + "/collections/" + r.ID.String()
	}
	at := c.Site.Prefix() + "/v/" + url.PathEscape(r.Slug)
	if inApp {
		b.page.Can = fmt.Sprintf("%s %s %t", who.role, body.Sort, body.Download)
		at = b.page.Arrange + "/board"
	}
	if n > 1 {
		b.page.Previous = at + "?page=" + strconv.Itoa(n-1)
	}
	if n < pages {
		b.page.Next = at + "?page=" + strconv.Itoa(n+1)
	}
	if body.Download && len(seen) > 0 && !inApp {
		_, b.page.Zip, err = rawAddresses(c, r, url.PathEscape(r.Slug)+".zip", who)
		if err != nil {
			return nil, err
		}
	}
	b.cover(seen)
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		return b.fill(tx, seen[(n-1)*pageItems:min(n*pageItems, len(seen))], all)
	}); err != nil {
		return nil, err
	}
	b.measure()
	for i, text := range b.notes {
		b.page.Cards[i].Lines = excerptOf(text, b.page.Cards[i].Title)
	}
	b.page.Parts = b.parts()
	return &b.page, nil
}

// findRequest finds where visitors add to the collection, if its upload request is open.
func (b *board) findRequest(tx *kv.Tx) error {
	q, err := inbox.RequestOf(tx, b.r, b.body)
	if err != nil || q == nil || q.Open(tx.Now) != nil {
		return err
	}
	b.page.Add = b.c.Site.Prefix() + "/up/" + url.PathEscape(q.Slug)
	return nil
}

// mosaic is how many pictures stand for a collection whose cover nobody has chosen.
const mosaic = 4

// cover sets the pictures above the title: the chosen one, or the first ones.
func (b *board) cover(seen []catalog.Item) {
	chosen := coverOf(b.body, seen)
	if chosen == uuid.Nil {
		return
	}
	if b.page.Open {
		b.page.Picture = b.c.Site.Base + "/t/" + url.PathEscape(b.r.Slug) + "/" + chosen.String()
	}
	if b.page.Page > 1 {
		return
	}
	first := []record.ID{chosen}
	if chosen != b.body.Cover {
		first = nil
		for _, m := range seen {
			if m.Class == record.Image && len(first) < mosaic {
				first = append(first, m.ID)
			}
		}
		if len(first) < mosaic {
			first = first[:1]
		}
	}
	for _, id := range first {
		address := b.small(id)
		if len(first) == 1 {
			address += "?" + sizeParam + "=card"
		}
		b.page.Cover = append(b.page.Cover, address)
	}
}

// small is the address of the small version of an item's picture.
func (b *board) small(id record.ID) string {
	return b.c.Site.Prefix() + "/t/" + url.PathEscape(b.r.Slug) + "/" + id.String()
}

// fill adds what stands in the store: the owner, the members, the items and what visitors do not see.
func (b *board) fill(tx *kv.Tx, items []catalog.Item, all *catalog.Items) error {
	owner, err := b.nameOf(tx, b.r.Owner)
	if err != nil {
		return err
	}
	b.page.Owner, b.page.Left = owner, b.r.Limit-catalog.Used(tx, b.r)
	if b.who.inside() {
		if err := b.addMembers(tx); err != nil {
			return err
		}
	}
	for _, m := range all.All {
		if b.who.role != record.RoleOwner || m.LeftOut == "" {
			continue
		}
		b.page.LeftOut++
		if len(b.page.Reasons) == pageItems || b.inApp { // there each item says it
			continue
		}
		head, err := headOf(tx, m)
		if err != nil {
			return err
		}
		b.page.Reasons = append(b.page.Reasons, embed.Fact{Label: titleOf(head), Value: reason(b.c.Lang(), m.LeftOut)})
	}

	for _, m := range items {
		item, err := catalog.Borrow(tx, m.Owner, m.Kind, m.ID.String())
		if kv.Missing(err) { // removed just now
			continue
		}
		if err != nil {
			return err
		}
		if err := b.add(tx, m, item); err != nil {
			return err
		}
	}
	return nil
}

// nameOf is how an account wants to be called.
func (b *board) nameOf(tx *kv.Tx, id record.ID) (string, error) {
	name, known := b.people[id]
	if known {
		return name, nil
	}
	u, err := people.ReadUser(tx, id)
	if err != nil {
		return "", err
	}
	b.people[id] = DisplayName(*u)
	return b.people[id], nil
}

// addMembers adds those who share the collection, its owner first. Whose account is disabled is not there.
func (b *board) addMembers(tx *kv.Tx) error {
	members, err := catalog.Members(tx, b.r)
	if err != nil {
		return err
	}
	for _, m := range members {
		disabled, err := people.Disabled(tx, m.ID)
		if err != nil {
			return err
		}
		if disabled {
			continue
		}
		if b.page.Members == nil {
			b.page.Members = []embed.Face{faceOf(b.page.Owner)}
		}
		b.page.Members = append(b.page.Members, faceOf(cmp.Or(m.DisplayName, m.Name)))
	}
	return nil
}

// add adds a tile for an item.
func (b *board) add(tx *kv.Tx, m catalog.Item, item *record.Record) error {
	head, err := item.Head()
	if err != nil {
		return err
	}
	l := b.c.Lang()
	t := embed.Tile{
		Address: b.c.Site.Prefix() + "/v/" + url.PathEscape(b.r.Slug) + "/" + m.ID.String(),
		Title:   titleOf(head), Look: m.Kind.Name, Kind: web.Title(web.ViewOf(m.Kind, l).One), Size: m.Size,
		Film: m.Class == record.Video,
	}
	if b.inApp {
		t.ID = m.ID.String()
	}
	// Why visitors do not see an item is known to those whose conditions these are.
	if m.LeftOut != "" && (b.who.role == record.RoleOwner || b.who.owns(item)) {
		t.Hidden = reason(l, m.LeftOut)
	}
	if b.who.inside() && m.Owner != b.r.Owner {
		t.By, err = b.nameOf(tx, m.Owner)
		if err != nil {
			return err
		}
	}
	pictured, err := catalog.HasOwnPicture(tx, item, head, b.who.asker(), hasPoster(b.c.Site))
	if err != nil {
		return err
	}
	b.describe(&t, m, item, head, pictured)
	if t.Look == pictureLook {
		b.page.Pictures = append(b.page.Pictures, t)
	} else {
		b.page.Cards = append(b.page.Cards, t)
	}
	return nil
}

// pictureLook is how a picture or a film looks, which has no frame.
const pictureLook = "picture"

// The lines of a note or a snippet on its card.
const cardLines = 8

// describe adds what a tile says about an item beside its title. pictured says whether it has a picture of its own.
func (b *board) describe(t *embed.Tile, m catalog.Item, item *record.Record, head record.Body, pictured bool) {
	l := b.c.Lang()
	// What is not there yet counts as a wrong address for visitors.
	address, _ := pictureOf(head)
	if pictured || address != "" && (b.who.inside() || b.c.Site.Pictures.Has(address)) {
		t.Picture = b.small(m.ID) + "?" + sizeParam + "=picture"
	}
	switch head := head.(type) {
	case *record.File:
		if b.body.ShowNames && item.Owner == b.r.Owner {
			t.By = head.Uploader
		}
		t.Kind = mediaName(l, head.MimeType, t.Title)
		t.Letter = extensionOf(head.OriginalName)
		if media.Shrinks(head.MimeType) {
			t.Picture, t.Look = b.small(m.ID), pictureLook
			b.pictures[len(b.page.Pictures)] = item.Bytes.Ref
			break
		}
		if t.Film {
			t.Look, t.Shape = pictureLook, unknownShape
		}
		if !t.Film && m.Class != record.Image {
			break
		}
		poster, err := b.c.Site.Thumbs.Poster(item.Owner, item.ID, thumb.Tile)
		if err != nil {
			break // nobody has sent one
		}
		t.Look, t.Picture, t.Shape = pictureLook, b.small(m.ID), shapeOf(poster.Width, poster.Height)
	case *record.Note:
		b.notes[len(b.page.Cards)] = head.Content
	case *record.Snippet:
		for line := range strings.Lines(head.Content) {
			if len(t.Lines) < cardLines {
				t.Lines = append(t.Lines, embed.Line{Text: record.Cut(strings.TrimRight(line, "\r\n"), 120)})
			}
		}
	case *record.Bookmark:
		t.Host = strings.TrimPrefix(linkView(head.URL).Host, "www.")
		t.Letter = firstLetter(t.Host)
	case *record.Link:
		t.Host = strings.TrimPrefix(linkView(head.URL).Host, "www.")
		t.Letter = firstLetter(t.Host)
	default:
		t.Letter = firstLetter(t.Title)
	}
	t.Hue = hueOf(cmp.Or(t.Host, t.Title))
}

// longLine is the length from which the first line of an excerpt may be the beginning of a title.
const longLine = 100

// excerptOf is the beginning of a note, without the line that is its title, or the beginning of that.
func excerptOf(content, title string) (lines []embed.Line) {
	for i, line := range render.Excerpt(content, cardLines+1) {
		isTitle := line.Text == title || len(line.Text) >= longLine && strings.HasPrefix(title, line.Text)
		if i == 0 && isTitle || len(lines) == cardLines {
			continue
		}
		lines = append(lines, embed.Line{Text: line.Text, Task: line.Task, Done: line.Done})
	}
	return lines
}

// measure finds the shapes of the pictures, from the headers of the files that are on this disk.
func (b *board) measure() {
	for i, ref := range b.pictures {
		width, height := b.c.Site.Thumbs.Measure(ref, func() (*os.File, error) {
			if _, err := b.c.Site.Blobs.Stat(ref); err != nil {
				return nil, err
			}
			return b.c.Site.Blobs.Get(ref)
		})
		b.page.Pictures[i].Shape = shapeOf(width, height)
	}
}

// longBoard is how many items a page shows without sections.
const longBoard = 24

// parts are the cards: all of them, or those of each kind if there is more than one and the page is long.
func (b *board) parts() (parts []embed.Part) {
	looks := map[string]bool{}
	for _, t := range b.page.Cards {
		looks[t.Look] = true
	}
	kinds := len(looks)
	if len(b.page.Pictures) > 0 {
		kinds++
	}
	if kinds < 2 || len(b.page.Pictures)+len(b.page.Cards) <= longBoard {
		return []embed.Part{{Tiles: b.page.Cards}}
	}
	for _, k := range record.Kinds {
		if !looks[k.Name] {
			continue
		}
		p := embed.Part{Title: web.ViewOf(k, b.c.Lang()).Many}
		for _, t := range b.page.Cards {
			if t.Look == k.Name {
				p.Tiles = append(p.Tiles, t)
			}
		}
		parts = append(parts, p)
	}
	return parts
}

// The shapes of pictures for the style sheet: shape n is a width of 1.05^n heights. Wider and higher pictures are cut.
const (
	shapeStep       = 1.05
	tallest, widest = -18, 24
	unknownShape    = 6 // 4:3
)

// shapeOf is the shape of a picture of this size.
func shapeOf(width, height int) int {
	if width <= 0 || height <= 0 {
		return unknownShape
	}
	n := math.Log(float64(width)/float64(height)) / math.Log(shapeStep)
	return min(max(int(math.Round(n)), tallest), widest)
}

// hues is how many colours the style sheet has for what has no picture.
const hues = 12

// hueOf is the colour for a name: the one that it has in the app, where hueOf of tiles.js chooses it.
func hueOf(name string) int {
	degrees := 7
	for _, r := range name {
		degrees = (degrees*31 + int(r)) % 360
	}
	return degrees * hues / 360
}

// faceOf is the initial of a person in the person's colour.
func faceOf(name string) embed.Face {
	return embed.Face{Name: name, Initial: firstLetter(name), Hue: hueOf(name)}
}

// firstLetter is the first letter or digit of a text, as a capital; "" for a text without them.
func firstLetter(text string) string {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return string(unicode.ToUpper(r))
		}
	}
	return ""
}

// extensionOf is the end of a file name that tells its type: "PDF"; "" if it has none or a long one.
func extensionOf(name string) string {
	ext := strings.ToUpper(strings.TrimPrefix(path.Ext(name), "."))
	mark := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	if len(ext) > 4 || strings.ContainsFunc(ext, mark) {
		return ""
	}
	return ext
}
