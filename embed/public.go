package embed

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"
)

// ItemPage shows a shared item of any kind. At most one of File, Note, Snippet, Bookmark, Game, Link and Fields is
// set; the other fields are common to all kinds. Empty fields are left out.
//
// All fields may come from strangers, except those of type [template.HTML]. Addresses may be relative to the page.
type ItemPage struct {
	Base    string
	Origin  string // the origin of content if it differs from the page's: "https://content.example.org"
	Address string // absolute address of the page

	Name        string // for the window and link previews; it shows nothing of the content
	Title       string // the heading
	Kind        string // for people: "Note", "JPEG picture"
	Description string // plain text
	Owner       string // as the owner wants to be called
	Tags        []Chip
	Created     time.Time
	Updated     time.Time
	Expires     time.Time

	// Own is set when the owner looks. Only the owner is shown the views: Left of Limit, unless Limit is 0.
	Own         bool
	Left, Limit int64

	Logged bool // the owner sees each visit

	// Open is set for items that anyone may see at any time. Their name and picture may appear elsewhere.
	Open    bool
	Picture string // absolute address of a picture of the item
	Video   string // address of the film itself, whose frames have the shape of Picture

	PictureWidth, PictureHeight int // in pixels; 0 if they are not known

	About string // what the item is, for link previews of an item without a description

	Raw      string // address of the unchanged content
	Download string // address that downloads it
	QR       template.HTML
	Icon     string // address of a small picture beside the title, which may not exist
	Cover    string // address of a picture above the title; "" means none

	File     *FileView
	Note     *NoteView
	Snippet  *CodeView
	Bookmark *LinkView
	Game     *GameView
	Link     *LinkView
	Fields   *FieldsView

	Among *AmongView // the collection through which it is seen
}

// AmongView leads from an item of a collection to those before and after it. The item is number N of Of.
type AmongView struct {
	Title, Address string // of the collection
	N, Of          int
	Previous, Next string   // addresses; "" at the ends
	Preload        []string // addresses of the pictures before and after it
}

// OnStage reports whether the item is a picture or a film of a collection, which is shown on a dark page.
func (p ItemPage) OnStage() bool {
	return p.Among != nil && p.File != nil && (p.File.Show == ShowImage || p.File.Show == ShowVideo)
}

// CollectionPage shows a page of a collection as a board: pictures and films in rows, the rest as cards. Its owner, its
// members and visitors see the same; those inside also see who shares it.
type CollectionPage struct {
	Base    string
	Origin  string // as in ItemPage
	Address string // absolute

	Title, Description string
	Owner              string
	Members            []Face // for those inside, the owner first; empty if nobody else is
	Expires            time.Time
	Count, Bytes       int64 // of all items
	Zip                string
	Add                string   // where visitors send what is to go into it; "" if they cannot
	Picture            string   // absolute address of the cover, for link previews
	Cover              []string // addresses of the pictures above the title

	Own         bool
	Left, Limit int64
	Logged      bool
	Open        bool
	InApp       bool   // the app shows it, and adds what can be done
	Can         string // in the app: what that depends on, so that another page is another one
	Arrange     string // where the app has it, for those inside

	Pictures       []Tile
	Cards          []Tile
	Parts          []Part // the cards
	Page, Pages    int
	Previous, Next string

	LeftOut int    // items that visitors do not see, for the owner
	Reasons []Fact // the first of them, and why
}

// A Part is a section of a board. One without a title has no heading.
type Part struct {
	Title string
	Tiles []Tile
}

// A Face is the initial of a person. The style sheet has the hues 0 to 11.
type Face struct {
	Name, Initial string
	Hue           int
}

// A Tile is an item of a collection.
type Tile struct {
	ID      string // in the app
	Address string
	Title   string
	Kind    string // for people
	Look    string // a kind of records, or "picture" for a picture or a film
	By      string // who put it in or sent it, if not the owner of the collection
	Hidden  string // why visitors do not see it, for those inside

	Picture string // address of a small picture; "" if it has none
	Shape   int    // of the picture, for the style sheet: a width of 1.05^Shape heights
	Film    bool
	Size    int64 // of a file; 0 for others

	Lines  []Line // of a note or a snippet
	Host   string // where a bookmark or a short link leads
	Letter string // in place of a picture
	Hue    int    // as in Face
}

// A Line is a line of text. That of a task has a checkbox.
type Line struct {
	Text       string
	Task, Done bool
}

// Policy implements [Page].
func (p CollectionPage) Policy() string { return ItemPage{Origin: p.Origin}.Policy() }

// A Chip is a tag. The colour is #rrggbb.
type Chip struct{ Name, Color string }

// FileView is a file and how to show it.
type FileView struct {
	Size   string // for people: "4.1 MB"
	Bytes  string // exactly, for people: "4,123,456 bytes"
	Type   string // the media type
	SHA256 string
	Show   Show
	Text   *CodeView     // for ShowText
	Prose  template.HTML // for ShowProse
	Rows   [][]string    // for ShowTable; the first is the header
	Cut    bool          // only the beginning is shown, of ShowProse and ShowTable
	Screen string        // address of a smaller version, for ShowImage, or of the poster, for ShowVideo; "" means none
}

// Show is how a page shows a file.
type Show string

// The ways to show a file; "" does not show it.
const (
	ShowImage Show = "image"
	ShowVideo Show = "video"
	ShowAudio Show = "audio"
	ShowPDF   Show = "pdf"
	ShowText  Show = "text"
	ShowProse Show = "prose"
	ShowTable Show = "table"
)

// NoteView is a note.
type NoteView struct {
	Body   template.HTML
	Titled bool     // Body begins with the title as a heading, which is left out on screens
	Source LinkView // where it comes from
}

// InText is a file that a text shows.
type InText struct {
	Raw    string // address of the bytes
	Screen string // of a version for a screen, or of the poster of a film; "" for none
	Words  string // that stand for it
	Name   string // of the file

	Image, Film, Sound bool
}

// ShowFile is a picture, a player, or a link to another file.
func ShowFile(f InText) template.HTML {
	raw, words := template.HTMLEscapeString(f.Raw), template.HTMLEscapeString(cmp.Or(f.Words, f.Name))
	show := `<a href="` + raw + `">` + words + `</a>`
	switch {
	case f.Image:
		show = `<a class="picture" href="` + raw + `"><img src="` + template.HTMLEscapeString(cmp.Or(f.Screen, f.Raw)) +
			`" alt="` + words + `" loading="lazy"></a>`
	case f.Film:
		poster := ""
		if f.Screen != "" {
			poster = ` poster="` + template.HTMLEscapeString(f.Screen) + `"`
		}
		show = `<video src="` + raw + `"` + poster + ` controls preload="metadata" aria-label="` + words + `"></video>`
	case f.Sound:
		show = `<audio src="` + raw + `" controls preload="metadata" aria-label="` + words + `"></audio>`
	}
	return template.HTML(show) // #nosec G203 -- all of it is escaped
}

// GoneFile stands for a file that a text shows and that is not there for this viewer.
func GoneFile(l Lang) template.HTML {
	return `<em class="gone">` + l.HTML("page.pictureGone") + `</em>`
}

// CodeView is code or text with numbered lines.
type CodeView struct {
	Body     template.HTML
	Language string
	Lines    int
	Cut      bool // only the beginning is shown
}

// FieldsView shows the fields of a kind under their labels.
type FieldsView struct {
	Facts    []Fact
	Passages []Passage
	Links    []NamedLink
}

// A Fact is a short value.
type Fact struct{ Label, Value string }

// A Passage is a text of several lines: Plain, Body or Code.
type Passage struct {
	Name, Label string
	Plain       string
	Body        template.HTML
	Code        *CodeView
}

// A NamedLink is an address with what it is for.
type NamedLink struct {
	Label string
	LinkView
}

// LinkView is a web address. Without a Host it is shown as text without a link.
type LinkView struct{ Address, Host string }

// GameView is an entry of a list of games.
type GameView struct {
	Title, Address           string
	Platform, Status, Rating string
	Played, Notes            string
	Store                    LinkView
}

// LockedPage asks for the password of an item and shows nothing about it. The form is posted to Action, a path below
// Base, with the field password and, unless it is empty, the field then.
type LockedPage struct {
	Base    string
	Action  string
	Then    string
	Leaves  bool   // the form ends in a redirect to another site
	Button  string // the label of the button
	Problem Problem
}

// CardPage is what programs get instead of an item with a limit, unless a person has them open it. It has no content,
// and nothing is counted. A person can show the item: the form is posted to Action, a path below Base, with the field
// show.
type CardPage struct {
	formPage
	Base    string
	Address string
	Action  string
	Leaves  bool   // the form ends in a redirect to another site
	Title   string // "" if not everyone may see it
	Owner   string
	Kind    string
}

// GamesPage is someone's public list of games.
type GamesPage struct {
	formPage
	Base    string
	Address string
	Owner   string
	Groups  []GameGroup
	Most    int // how many are shown, if there may be more; 0 if all are shown
}

// GameGroup has the games of a status, such as "Playing".
type GameGroup struct {
	Name  string
	Games []GameView
}

// policyShared is policyPage with a script from this server, and content in pictures, players and frames.
const policyShared = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:%; " +
	"media-src 'self'%; frame-src 'self'%; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// Policy implements [Page]. It leaves out an invalid origin.
func (p ItemPage) Policy() string {
	origin := ""
	if IsOrigin(p.Origin) {
		origin = " " + p.Origin
	}
	return strings.ReplaceAll(policyShared, "%", origin)
}

// IsOrigin reports whether text is only the scheme, host and port of an address, and cannot end a part of a policy.
func IsOrigin(text string) bool {
	host, ok := strings.CutPrefix(text, "https://")
	if !ok {
		host, ok = strings.CutPrefix(text, "http://")
	}
	return ok && host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-:[]", r)
	})
}

// Policy implements [Page]. form-action also applies to the redirects after a form.
func (p LockedPage) Policy() string { return mayLeave(p.Problem.policy(), p.Leaves) }

// Policy implements [Page].
func (p CardPage) Policy() string { return mayLeave(p.formPage.Policy(), p.Leaves) }

// mayLeave is the policy of a page whose form ends in a redirect to another site, if it leaves this one.
func mayLeave(policy string, leaves bool) string {
	if !leaves {
		return policy
	}
	return strings.Replace(policy, "form-action 'self'", "form-action 'self' http: https:", 1)
}

func (ItemPage) file() string       { return "item.html" }
func (LockedPage) file() string     { return "locked.html" }
func (CollectionPage) file() string { return "collection.html" }
func (CardPage) file() string       { return "card.html" }
func (GamesPage) file() string      { return "games.html" }

// Wide reports whether the page needs more space than a column of text.
func (p ItemPage) Wide() bool {
	if p.File == nil {
		return p.Snippet != nil
	}
	return p.Snippet != nil || slices.Contains([]Show{ShowImage, ShowText, ShowPDF, ShowTable}, p.File.Show)
}

// Summary is the beginning of the description in one line, for cards in other programs.
func (p ItemPage) Summary() string {
	words := strings.Fields(cmp.Or(p.Description, p.About))
	const maxLength = 200
	text := strings.Join(words[:min(len(words), maxLength)], " ")
	for i := range text {
		if i >= maxLength {
			return text[:i] + "…"
		}
	}
	return text
}

// Dot is the tag's colour if it is valid, or "". An SVG attribute draws it, because a style would need a wider policy.
func (c Chip) Dot() string {
	if len(c.Color) != 7 || c.Color[0] != '#' || strings.Trim(c.Color[1:], "0123456789abcdefABCDEF") != "" {
		return ""
	}
	return c.Color
}

// instant formats a time for programs.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
