package embed

import (
	"html/template"
	"strings"
	"time"
)

// ItemPage shows a shared item of any kind. At most one of File, Note, Snippet, Bookmark, Game, Link and Fields is
// set; the rest is common to all. Whatever is empty is left out.
//
// Everything but the fields of type [template.HTML] may come from strangers. Addresses may be relative to the page.
type ItemPage struct {
	Base    string
	Origin  string // where content is served from if that is not the page's origin: "https://content.example.org"
	Address string // absolute address of the page

	Title       string
	Kind        string // a word for it: "Note", "JPEG picture"
	Description string // plain text
	Owner       string // as the owner wants to be called
	Tags        []Chip
	Created     time.Time
	Updated     time.Time
	Expires     time.Time

	// Own is set when the owner looks, who alone is told of the views: Left of Limit, unless that is 0.
	Own         bool
	Left, Limit int64

	// Open is for items that anyone may see at any time, whose title and picture may show up elsewhere.
	Open    bool
	Picture string // absolute address of a picture of the item

	Raw      string // address of the content as it is
	Download string // address that saves it
	QR       template.HTML
	Icon     string // address of a small picture beside the title, which may fail to be there

	File     *FileView
	Note     *NoteView
	Snippet  *CodeView
	Bookmark *LinkView
	Game     *GameView
	Link     *LinkView
	Fields   *FieldsView
}

// A Chip is a tag. The colour is #rrggbb.
type Chip struct{ Name, Color string }

// FileView is a file and how to show it.
type FileView struct {
	Size   string // for people: "4.1 MB"
	Bytes  string // exactly
	Type   string // the media type
	SHA256 string
	Show   Show
	Text   *CodeView // for ShowText
}

// Show is how a page shows a file.
type Show string

// The ways to show a file; "" shows none of it.
const (
	ShowImage Show = "image"
	ShowVideo Show = "video"
	ShowAudio Show = "audio"
	ShowPDF   Show = "pdf"
	ShowText  Show = "text"
)

// NoteView is a note.
type NoteView struct {
	Body   template.HTML
	Source LinkView // where it comes from
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

// LinkView is an address of the web. Without a Host it is shown as text that leads nowhere.
type LinkView struct{ Address, Host string }

// GameView is an entry of a list of games.
type GameView struct {
	Title, Address           string
	Platform, Status, Rating string
	Played, Notes            string
	Store                    LinkView
	Cover                    LinkView
}

// LockedPage asks for the password of an item and tells nothing of it. The form is posted to the path Action, below
// Base, with the field password and, unless it is empty, the field then.
type LockedPage struct {
	Base    string
	Action  string
	Then    string
	Leaves  bool   // the form leads to another site in the end
	Button  string // what it says
	Problem Problem
}

// CardPage is what a program that looks for a preview of a link gets in place of the item: no content, nothing counted.
type CardPage struct {
	Base    string
	Address string
	Title   string // "" where that is not for everyone
	Owner   string
	Kind    string
}

// GamesPage is someone's public list of games.
type GamesPage struct {
	Base    string
	Address string
	Owner   string
	Groups  []GameGroup
	Most    int // how many are shown, if there may be more; 0 if these are all
}

// GameGroup are the games of a status, such as "Playing".
type GameGroup struct {
	Name  string
	Games []GameView
}

// policyShared adds a script of ours to policyPage, and content in pictures, players and frames.
const policyShared = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:%; media-src 'self'%; " +
	"frame-src 'self'%; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// Policy implements [Page]. An origin that is none is left out.
func (p ItemPage) Policy() string {
	origin := ""
	if IsOrigin(p.Origin) {
		origin = " " + p.Origin
	}
	return strings.ReplaceAll(policyShared, "%", origin)
}

// IsOrigin reports whether text is the scheme, host and port of an address and nothing that could end a part of a
// policy.
func IsOrigin(text string) bool {
	host, ok := strings.CutPrefix(text, "https://")
	if !ok {
		host, ok = strings.CutPrefix(text, "http://")
	}
	return ok && host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-:[]", r)
	})
}

// Policy implements [Page]. It rules where a form's redirects lead, too.
func (p LockedPage) Policy() string {
	if p.Leaves {
		return strings.Replace(p.Problem.policy(), "form-action 'self'", "form-action 'self' http: https:", 1)
	}
	return p.Problem.policy()
}

// Policy implements [Page].
func (CardPage) Policy() string { return policyPage }

// Policy implements [Page].
func (GamesPage) Policy() string { return policyPage }

func (ItemPage) file() string   { return "item.html" }
func (LockedPage) file() string { return "locked.html" }
func (CardPage) file() string   { return "card.html" }
func (GamesPage) file() string  { return "games.html" }

// Wide reports whether the page shows what wants more room than a column of text.
func (p ItemPage) Wide() bool {
	return p.Snippet != nil || p.File != nil && (p.File.Show == ShowText || p.File.Show == ShowPDF)
}

// Summary is the beginning of the description, in one line, for cards in other programs.
func (p ItemPage) Summary() string {
	words := strings.Fields(p.Description)
	const most = 200
	text := strings.Join(words[:min(len(words), most)], " ")
	for i := range text {
		if i >= most {
			return text[:i] + "…"
		}
	}
	return text
}

// Dot is the tag's colour if it is one. It is drawn by an attribute of SVG: a style would need a wider policy.
func (c Chip) Dot() string {
	if len(c.Color) != 7 || c.Color[0] != '#' || strings.Trim(c.Color[1:], "0123456789abcdefABCDEF") != "" {
		return ""
	}
	return c.Color
}

// date and instant are for people and for programs.
func date(t time.Time) string    { return t.UTC().Format("2 January 2006") }
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
