package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"kist/kv/field"
)

// Bounds of the fields, in characters for one-line text and bytes for long
// text.
const (
	MaxName        = 512
	MaxDescription = 8192
	MaxContent     = 1 << 20
	MaxMediaType   = 255
)

// A Kind is a row of Kinds. It has everything that is specific to one kind of
// content.
type Kind struct {
	Code byte   // as stored; never given to another kind
	Name string // in answers and events
	Path string // the collection, below the API's prefix
	// Shape is the version of the kind's own fields. A row of an older shape is
	// converted to the current one when it is read.
	Shape byte
	// Counter and Limit are what clients call the views and their limit.
	Counter, Limit string
	// MaxBody is the largest JSON body in bytes.
	MaxBody int64
	// New makes an empty body.
	New func() Body

	view View
}

// Body is the part of a record that differs by kind.
type Body interface {
	field.Shaped
	// Title is the heading of a page and the sort key of a list; it may be "". Without a title from its owner it is
	// derived from the content, so it is only for those who may see the content.
	Title() string
	// Named is the title that its owner has given; "" if there is none. It shows nothing of the content.
	Named() string
}

// The kinds of content.
var (
	Files = &Kind{
		Code: 1, Name: "file", Path: "files", Shape: 2, Counter: "views", Limit: "maxViews", MaxBody: 1 << 20,
		New: func() Body { return new(File) }, view: fileView,
	}
	Bookmarks = &Kind{
		Code: 2, Name: "bookmark", Path: "bookmarks", Shape: 2, Counter: "views", Limit: "maxViews", MaxBody: 1 << 20,
		New: func() Body { return new(Bookmark) }, view: bookmarkView,
	}
	Notes = &Kind{
		Code: 3, Name: "note", Path: "notes", Shape: 1, Counter: "views", Limit: "maxViews", MaxBody: 4 << 20,
		New: func() Body { return new(Note) }, view: noteView,
	}
	Snippets = &Kind{
		Code: 4, Name: "snippet", Path: "snippets", Shape: 1, Counter: "views", Limit: "maxViews", MaxBody: 4 << 20,
		New: func() Body { return new(Snippet) }, view: snippetView,
	}
	Recipes = &Kind{
		Code: 5, Name: "recipe", Path: "recipes", Shape: 2, Counter: "views", Limit: "maxViews", MaxBody: 4 << 20,
		New: func() Body { return new(Recipe) }, view: recipeView,
	}
	Games = &Kind{
		Code: 6, Name: "game", Path: "games", Shape: 3, Counter: "views", Limit: "maxViews", MaxBody: 1 << 20,
		New: func() Body { return &Game{Rating: -1, Playtime: -1} }, view: gameView,
	}
	Links = &Kind{
		Code: 7, Name: "shortlink", Path: "shorten", Shape: 1, Counter: "clicks", Limit: "maxClicks", MaxBody: 1 << 20,
		New: func() Body { return new(Link) }, view: linkView,
	}
	Collections = &Kind{
		Code: 8, Name: "collection", Path: "collections", Shape: 1, Counter: "views", Limit: "maxViews", MaxBody: 1 << 20,
		New: func() Body { return &Collection{Sort: Manual, Download: true} }, view: collectionView,
	}
)

// Kinds lists every kind, Files first, each at the place of its Code. A new kind is one
// struct with a Fields method and one row at the end. Its view may be empty: names, labels and
// controls then follow from its fields.
var Kinds = []*Kind{Files, Bookmarks, Notes, Snippets, Recipes, Games, Links, Collections}

// Versioned reports whether earlier texts of records of the kind are kept.
func (k *Kind) Versioned() bool { return k == Notes || k == Snippets || k == Recipes }

// KindOf returns the kind stored as code, or nil.
func KindOf(code byte) *Kind {
	if code == 0 || int(code) > len(Kinds) {
		return nil
	}
	return Kinds[code-1]
}

// File is the data of a file apart from its bytes. The server sets all of it except
// the description and the name.
type File struct {
	OriginalName, MimeType, SHA256, Description string
	Size                                        int64
	Uploader                                    string // who sent it to an upload link, as the sender said; "" for others
}

func (b *File) Fields(f *field.Set) {
	f.Ruled("originalName", &b.OriginalName, CleanFileName, "", MaxFileName, field.Filled).
		Says("The file's name; path parts and control characters are removed.", `"holiday.jpg"`)
	f.Text("mimeType", &b.MimeType, MaxMediaType, field.ReadOnly).
		Says("The media type, worked out from the bytes and the name.", `"image/jpeg"`)
	f.Number("size", &b.Size, 0, 1<<53, field.ReadOnly).Says("Size in bytes.", `48213`)
	f.Text("sha256", &b.SHA256, 64, field.ReadOnly).
		Says("SHA-256 of the content in lower-case hexadecimal.",
			`"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`)
	f.Text("description", &b.Description, MaxDescription).Says("Free text.", `"Beach at noon"`)
	f.Text(uploaderName, &b.Uploader, MaxName, field.ReadOnly).
		Says("Name that its sender gave at an upload link. It is empty for other files and for readers who are not the owner.",
			`"Bob"`)
}

const uploaderName = "uploaderName"

// HasUploader reports whether the stored fields of a file name who sent it, without reading them.
func (r *Record) HasUploader() bool {
	// A quote in a text follows a backslash, so no text contains this.
	_, name, named := bytes.Cut(r.Body, []byte(`,"`+uploaderName+`":"`))
	return named && !bytes.HasPrefix(name, []byte{'"'})
}

func (b *File) Title() string { return b.OriginalName }
func (b *File) Named() string { return b.OriginalName }

// Bookmark is a saved address.
type Bookmark struct{ URL, Name, Description, ImageURL string }

func (b *Bookmark) Fields(f *field.Set) {
	f.URL("url", &b.URL, field.Required, field.Filled).
		Says("The page: an absolute http or https address.", `"https://go.dev/"`)
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName).Says("Title of the page.", `"The Go language"`)
	f.Text("description", &b.Description, MaxDescription).Says("Free text.", `"Language home"`)
	f.URL("imageUrl", &b.ImageURL).
		Says("Address of a picture of the page; filled in from the page while link checks are on.",
			`"https://go.dev/images/logo.svg"`)
}

func (b *Bookmark) Title() string { return cmp.Or(b.Name, b.URL) }
func (b *Bookmark) Named() string { return strings.TrimSpace(b.Name) }

// Note is text in Markdown.
type Note struct{ Name, Content, SourceURL string }

func (b *Note) Fields(f *field.Set) {
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName).Says("Title of the note.", `"Groceries"`)
	f.LongText("content", &b.Content, MaxContent, field.Required).
		Says("The text, in Markdown; may be empty.", `"- milk\n- bread"`)
	f.Text("sourceUrl", &b.SourceURL, field.MaxURL).
		Says("Where the text comes from; any text is kept as it is.", `"https://example.org/article"`)
}

// Title is the title, the one that front matter names, or the first line of the text. A picture in it is the words that
// stand for it.
func (b *Note) Title() string {
	if b.Name != "" {
		return b.Name
	}
	properties, text := FrontMatter(b.Content)
	for _, p := range properties {
		if p.Key == "title" && len(p.Values) == 1 {
			return firstLine(p.Values[0])
		}
	}
	return firstLine(withoutPictures(text))
}

func (b *Note) Named() string { return strings.TrimSpace(b.Name) }

// Snippet is code or plain text.
type Snippet struct{ Name, Content, Language string }

func (b *Snippet) Fields(f *field.Set) {
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName).Says("Title of the snippet.", `"Hello"`)
	f.LongText("content", &b.Content, MaxContent, field.Required).
		Says("The code or text; may be empty.", `"fmt.Println(\"hello\")"`)
	f.Text("language", &b.Language, 64).
		Says("Language for highlighting; without one, pages guess it from the text.", `"go"`)
}

func (b *Snippet) Title() string {
	if b.Name != "" {
		return b.Name
	}
	return firstLine(b.Content)
}

func (b *Snippet) Named() string { return strings.TrimSpace(b.Name) }

// Recipe is what to cook.
type Recipe struct {
	Name, Description, Ingredients, Instructions, ImageURL string
	Photo                                                  ID
}

func (b *Recipe) Fields(f *field.Set) {
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName, field.Required, field.Filled).
		Says("Name of the dish.", `"Pancakes"`)
	f.ID("photoId", &b.Photo).Says("File of one's own that is the photo; it goes before imageUrl.", `null`)
	f.Text("description", &b.Description, MaxDescription).Says("Free text.", `"For four"`)
	f.LongText("ingredients", &b.Ingredients, MaxContent).Says("Ingredients, in Markdown.", `"- 2 eggs\n- 250 ml milk"`)
	f.LongText("instructions", &b.Instructions, MaxContent).Says("Steps, in Markdown.", `"1. Whisk\n2. Fry"`)
	f.URL("imageUrl", &b.ImageURL).Says("Address of a photo of the dish. That of an image of one's own on this server becomes photoId.", `"https://example.org/pancakes.jpg"`)
}

func (b *Recipe) Title() string { return b.Name }
func (b *Recipe) Named() string { return b.Name }

// GameStatus is a player's progress in a game.
type GameStatus string

// The states of a game.
var GameStatuses = []GameStatus{"wishlist", "backlog", "playing", "finished", "dropped"}

// Game is an entry of a game list. Rating and Playtime are -1 if not given.
type Game struct {
	Name, Platform, CoverURL, StoreURL, Notes string
	Status                                    GameStatus
	Rating, Playtime                          int64
	Cover                                     ID
}

func (b *Game) Fields(f *field.Set) {
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName, field.Required, field.Filled).
		Says("Name of the game.", `"Outer Wilds"`)
	f.Text("platform", &b.Platform, MaxName).Says("What it is played on.", `"Steam Deck"`)
	field.MaybeChoice(f, "status", &b.Status, GameStatuses).Says("Progress in the game.", `"playing"`)
	f.MaybeNumber("rating", &b.Rating, 0, 10).Says("0 (worst) to 10 (best).", `9`)
	f.MaybeNumber("playtimeMinutes", &b.Playtime, 0, field.MaxCount).Says("Time played, in minutes.", `1260`)
	f.URL("coverUrl", &b.CoverURL).Says("Address of the cover picture. That of an image of one's own on this server becomes coverId.", `"https://example.org/cover.jpg"`)
	f.ID("coverId", &b.Cover).Says("File of one's own that is the cover; it goes before coverUrl.", `null`)
	f.URL("storeUrl", &b.StoreURL).Says("Address of the shop page.", `"https://example.org/outer-wilds"`)
	f.Text("notes", &b.Notes, MaxDescription).Says("Free text.", `"No spoilers"`)
}

func (b *Game) Title() string { return b.Name }
func (b *Game) Named() string { return b.Name }

// Link is a short link.
type Link struct{ URL, Description string }

func (b *Link) Fields(f *field.Set) {
	f.URL("originalUrl", &b.URL, field.Required, field.Filled).
		Says("The target: an absolute http or https address.", `"https://example.org/a/long/path"`)
	f.Text("description", &b.Description, MaxDescription).Says("Free text.", `"Tickets"`)
}

func (b *Link) Title() string { return cmp.Or(b.Named(), b.URL) }
func (b *Link) Named() string { return strings.TrimSpace(printable(b.Description)) }

// Arrangement is the order of a collection.
type Arrangement string

// The orders. Nobody arranges the items of a folder or a tag: there Manual means
// NewestFirst.
const (
	NewestFirst Arrangement = "newest"
	OldestFirst Arrangement = "oldest"
	ByTitle     Arrangement = "title"
	Manual      Arrangement = "manual"
)

// Arrangements lists the orders.
var Arrangements = []Arrangement{Manual, NewestFirst, OldestFirst, ByTitle}

// Bounds of a collection: an owner can pick MaxPicked items. Of a folder or a tag, the newest
// MaxLive are shown.
const (
	MaxPicked = 5000
	MaxLive   = 20_000
)

// A Collection is many items behind one link. They are those in a folder, or those with
// a tag, or those that its owner picked, which the store keeps apart from it.
type Collection struct {
	Name, Description string
	Cover             ID
	Sort              Arrangement
	Download          bool
	Folder, Tag       ID // one of them at most
	ShowNames         bool
	Request           ID // the upload request that last named the collection; see inbox.RequestOf
}

func (b *Collection) Fields(f *field.Set) {
	b.shared(f)
	f.ID("folderId", &b.Folder, field.ReadOnly)
	f.ID("tagId", &b.Tag, field.ReadOnly)
	f.ID("requestId", &b.Request, field.ReadOnly)
}

// shared binds the fields that visitors see too.
func (b *Collection) shared(f *field.Set) {
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName, field.Required, field.Filled).
		Says("Title of the collection.", `"Summer 2024"`)
	f.Text("description", &b.Description, MaxDescription).Says("Free text.", `"Two weeks by the sea"`)
	f.ID("cover", &b.Cover).
		Says("Item whose picture stands for the collection; null is the first picture.",
			`"01890a5d-ac96-774b-bcce-b302099a8057"`)
	field.Choice(f, "sort", &b.Sort, Arrangements).
		Says("Order of the items; manual is the order in which they were put.", `"manual"`)
	f.Bool("allowDownload", &b.Download).
		Says("Whether visitors are offered downloads. Anyone who can see an item can save it.", `true`)
	f.Bool("showNames", &b.ShowNames).
		Says("Whether the names that senders gave are shown with what they sent.", `false`)
}

func (b *Collection) Title() string { return b.Name }
func (b *Collection) Named() string { return b.Name }

// Live reports whether the collection has the items of a folder or a tag.
func (b *Collection) Live() bool { return b.Folder != ID{} || b.Tag != ID{} }

// Order is the order in which the collection shows its items.
func (b *Collection) Order() Arrangement {
	if b.Live() && b.Sort == Manual {
		return NewestFirst
	}
	return b.Sort
}

// A Source is a caller's choice of a collection's items: a folder, a tag, or these items
// in this order. Items is nil if the caller names none.
type Source struct {
	Folder ID
	Tag    string
	Items  []string // ids
}

func (v *Source) Fields(s *field.Set) {
	s.ID("folderId", &v.Folder).Says("What is in this folder, now and later.", `null`)
	s.Ruled("tag", &v.Tag, CleanTag, "", MaxTag).Says("What has the tag with this name, now and later.", `null`)
	s.IDs("items", &v.Items, MaxPicked).Says("These items, in this order.", `["01890a5d-ac96-774b-bcce-b302099a8057"]`)
}

// check says what is wrong with the choice.
func (v *Source) check() error {
	n := 0
	for _, named := range []bool{v.Folder != ID{}, v.Tag != "", len(v.Items) > 0} {
		if named {
			n++
		}
	}
	if n > 1 {
		return errors.New("must be a folder, a tag or items, not several of them")
	}
	return nil
}

// briefChars is how much of a long text a list needs, in characters.
const briefChars = 300

// maxBriefFront is the maximum number of bytes of front matter, which may have the title, before the shortened text.
const maxBriefFront = 2000

// Brief is the record with its long texts shortened, for long lists.
func (r *Record) Brief() (*Record, error) {
	b, err := r.Decode()
	if err != nil {
		return nil, err
	}
	switch b := b.(type) {
	case *Note:
		_, text := FrontMatter(b.Content)
		front := b.Content[:len(b.Content)-len(text)]
		if len(front) > maxBriefFront {
			front = ""
		}
		b.Content = front + Cut(text, briefChars)
	case *Snippet:
		b.Content = Cut(b.Content, briefChars)
	case *Recipe:
		b.Ingredients, b.Instructions = Cut(b.Ingredients, briefChars), Cut(b.Instructions, briefChars)
	default:
		return r, nil
	}
	short := *r
	short.SetBody(b)
	return &short, nil
}

// headBytes is how much of a stored record is read for its Head. All that comes before a text that can be
// longer fits.
const headBytes = 64 << 10

// Head reads what is in lists for visitors: its title, the type of a file, and the address of its
// picture. Other fields are empty or cut, because reading them takes long. A title that is made from a text is
// found in its beginning.
func (r *Record) Head() (Body, error) {
	b := r.Kind.New()
	last := ""
	switch b.(type) {
	case *Note, *Snippet:
		last = "content"
	case *Recipe:
		last = "photoId"
	case *Game:
		last = "coverId"
	default:
		return r.Decode()
	}
	if err := field.LoadStart(b, r.Body, last, headBytes); err != nil {
		return nil, fmt.Errorf("record %s: %w", r.ID, err)
	}
	if recipe, ok := b.(*Recipe); ok {
		recipe.ImageURL = field.LastText(r.Body, "imageUrl", headBytes)
	}
	return b, nil
}

// firstLine is the first line of text with a visible character, as a title. It
// is cut to MaxName characters.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(printable(line))
		if line != "" {
			return Cut(line, MaxName)
		}
	}
	return ""
}

// Cut shortens text to limit characters.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		if n == limit {
			return text[:i]
		}
		n++
	}
	return text
}
