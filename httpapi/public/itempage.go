package public

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kist/embed"
	"kist/httpapi/render"
	"kist/httpapi/web"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// Viewing is an item to show on its page, after access was checked.
type Viewing struct {
	Lang  embed.Lang // of the page; "" is English
	Shown *record.Shown
	Body  record.Body
	Owner people.User
	// Raw shows the content and Download downloads it. Thumb is the absolute address of a
	// small picture for other programs, only if the item is open to everyone. "" means none.
	Raw, Download, Thumb string

	// ThumbWidth and ThumbHeight are the size of Thumb in pixels, or that of a film without one; 0 if it is not known.
	ThumbWidth, ThumbHeight int

	Screen     string                  // a version of a large picture for a screen, or the poster of a film; "" means none
	Icon       string                  // address of the icon of a bookmark's site; "" means none
	Cover      string                  // address of the stored picture of a bookmark's page or of a game; "" means none
	Address    string                  // of the page: absolute, without this visitor's grants
	Open       bool                    // open to everyone: see record.Share.OpenToAll
	Large      bool                    // a picture that may need too much memory in a browser: see tooLarge
	Own        bool                    // the owner looks
	Left       int64                   // views left, for the owner
	Files      map[record.ID]ShownFile // that the text shows to this viewer
	Text       []byte                  // the start of a text file as UTF-8, of at most maxPreview bytes; nil for others
	TextGoesOn bool                    // after Text
}

// maxPreview is how many bytes of a text file are read for its page, and maxCode how many of them the page shows as
// they are. Markdown and tables are shown in full up to maxPreview.
const (
	maxPreview = 64 << 10
	maxCode    = 8 << 10
)

// ItemPage makes the page of an item. Addresses that users entered become links only if they
// are web addresses.
func ItemPage(s *web.Site, v Viewing) (embed.ItemPage, error) {
	v.Lang = cmp.Or(v.Lang, embed.English)
	p := embed.ItemPage{
		Base: s.Prefix(), Origin: s.Content, Address: v.Address, Owner: DisplayName(v.Owner),
		Name: nameOf(v.Lang, &v.Shown.Record, v.Body), Title: titleOf(v.Body),
		Created: v.Shown.Created, Updated: v.Shown.Updated, Expires: v.Shown.Expires,
		Own: v.Own, Left: v.Left, Limit: v.Shown.Limit, Open: v.Open, Logged: v.Shown.Logged,
	}
	// Treat times that differ by less than a second as equal: the item was never changed.
	if p.Updated.Sub(p.Created) < time.Second {
		p.Updated = time.Time{}
	}
	for _, t := range v.Shown.TagList {
		p.Tags = append(p.Tags, embed.Chip{Name: t.Name, Color: t.Color})
	}
	if len(v.Address) <= maxQR {
		code, err := render.QR(v.Address)
		if err != nil {
			return embed.ItemPage{}, err
		}
		p.QR = code
	}
	p.Kind = web.Title(web.ViewOf(v.Shown.Kind, v.Lang).One)
	p.Cover, p.Picture, p.PictureWidth, p.PictureHeight = v.Cover, v.Thumb, v.ThumbWidth, v.ThumbHeight
	var err error
	switch b := v.Body.(type) {
	case *record.File:
		err = filePage(s, &p, b, v)
	case *record.Note:
		p.Raw = v.Raw
		p.Note = &embed.NoteView{Source: linkView(b.SourceURL)}
		p.Note.Body, err = v.prose(s, b.Content)
		p.Note.Titled = titled(string(p.Note.Body), p.Title)
	case *record.Snippet:
		p.Raw, p.Download = v.Raw, v.Download
		p.Snippet, err = s.Renders.Code(b.Content, b.Language, b.Name)
	case *record.Bookmark:
		p.Description = b.Description
		link := linkView(b.URL)
		p.Bookmark, p.Icon = &link, v.Icon
	case *record.Game:
		game := gameView(v.Lang, b, "")
		p.Game = &game
	case *record.Link:
		p.Title = p.Name
		link := linkView(b.URL)
		p.Link = &link
	default:
		err = fieldsPage(s, &p, v)
	}
	if err != nil {
		return embed.ItemPage{}, err
	}
	return p, nil
}

// maxQR is the longest address that is shown as a QR code. Phones cannot read the fine
// code of a longer one from a screen.
const maxQR = 300

func DisplayName(u people.User) string {
	return cmp.Or(u.DisplayName, u.Name)
}

// fieldsPage shows the fields of a kind in the order and under the labels of its
// form.
func fieldsPage(s *web.Site, p *embed.ItemPage, v Viewing) error {
	view := web.ViewOf(v.Shown.Kind, v.Lang)
	values, err := field.Parse(field.AppendJSON(nil, v.Body))
	if err != nil {
		return err
	}
	p.Fields = new(embed.FieldsView)
	for _, in := range view.Inputs {
		text, _ := values[in.Name].(string)
		switch value := values[in.Name].(type) {
		case json.Number:
			text = value.String()
		case bool:
			text = v.Lang.T(map[bool]string{true: "page.yes", false: "page.no"}[value])
		}
		if strings.TrimSpace(text) == "" || text == p.Title || in.Name == "imageUrl" { // the page shows the picture
			continue
		}
		f := p.Fields
		passage := embed.Passage{Name: in.Name, Label: in.Label}
		switch {
		case in.Name == "description":
			p.Description = text
		case in.Type == "url":
			f.Links = append(f.Links, embed.NamedLink{Label: in.Label, LinkView: linkView(text)})
		case in.Type == "choice":
			f.Facts = append(f.Facts, embed.Fact{Label: in.Label, Value: in.Choices.Words(text)})
		case in.Type == "time":
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return err
			}
			f.Facts = append(f.Facts, embed.Fact{Label: in.Label, Value: v.Lang.Time(at)})
		case in.Type != "text":
			f.Facts = append(f.Facts, embed.Fact{Label: in.Label, Value: text})
		case in.Code:
			passage.Code, err = s.Renders.Code(text, "", p.Title)
			if err != nil {
				return err
			}
			f.Passages = append(f.Passages, passage)
		case in.MaxLength > record.MaxDescription:
			passage.Body, err = v.prose(s, text)
			if err != nil {
				return err
			}
			f.Passages = append(f.Passages, passage)
		default:
			passage.Plain = text
			f.Passages = append(f.Passages, passage)
		}
	}
	return nil
}

func filePage(s *web.Site, p *embed.ItemPage, b *record.File, v Viewing) error {
	p.Kind, p.Description, p.Raw, p.Download = mediaName(v.Lang, b.MimeType, b.OriginalName), b.Description, v.Raw, v.Download
	f := &embed.FileView{
		Size: v.Lang.Size(b.Size), Bytes: v.Lang.T("format.bytes", "n", b.Size), Type: b.MimeType, SHA256: b.SHA256,
	}
	p.File = f
	class := record.ClassOf(b.MimeType)
	switch {
	case v.Text != nil:
		if err := textPage(s, f, b, v); err != nil {
			return err
		}
	case class == record.Image && v.Screen != "":
		f.Show = embed.ShowImage
	case v.Raw == "" || !media.Inline(b.MimeType):
	case class == record.Image && !v.Large:
		f.Show = embed.ShowImage
	case class == record.Video:
		f.Show = embed.ShowVideo
	case class == record.Audio:
		f.Show = embed.ShowAudio
	case class == record.PDF:
		f.Show = embed.ShowPDF
	}
	if !media.Inline(b.MimeType) {
		p.Raw = "" // browsers would download it, like the other button
	}
	if f.Show == embed.ShowImage || f.Show == embed.ShowVideo {
		f.Screen = v.Screen
	}
	if v.Open && f.Show == embed.ShowVideo {
		p.Video = s.Base + "/x/" + url.PathEscape(v.Shown.Slug)
	}
	if p.Description == "" {
		p.About = p.Kind + ", " + f.Size
	}
	return nil
}

// nameOf is what an item is called where its content is not shown: in link previews, titles of windows and questions.
// Without a title from its owner it is "Untitled note", and for a short link its slug.
func nameOf(l embed.Lang, r *record.Record, b record.Body) string {
	name := b.Named()
	if name == "" && r.Kind == record.Links {
		name = r.Slug
	}
	return cmp.Or(name, l.T("kind.untitled", "kind", web.ViewOf(r.Kind, l).One))
}

// titleOf is the title of a record, for those who see its content. One that comes from the text of a note has no number signs of a heading.
func titleOf(b record.Body) string {
	if n, ok := b.(*record.Note); ok && n.Name == "" {
		if heading := strings.TrimLeft(n.Title(), "#"); strings.HasPrefix(heading, " ") {
			return strings.TrimSpace(heading)
		}
	}
	return b.Title()
}

// plainHeading is a heading without markup at the beginning of a rendered text.
var plainHeading = regexp.MustCompile(`^<h[1-6][^>]*>([^<]*)</h[1-6]>`)

// titled reports whether a rendered text begins with its title as a heading. A title that was taken from the text may end in
// number signs.
func titled(body, title string) bool {
	found := plainHeading.FindStringSubmatch(body)
	return found != nil && html.UnescapeString(found[1]) == strings.Trim(title, "# ")
}

// textPage shows the start of a text file: rendered if it is Markdown, as a table if it has comma-separated values, and
// otherwise as it is.
func textPage(s *web.Site, f *embed.FileView, b *record.File, v Viewing) (err error) {
	shown := func(most int) (string, bool) {
		text := v.Text[:min(len(v.Text), most)]
		cut := v.TextGoesOn || len(text) < len(v.Text)
		if cut {
			text = WholeLines(text)
		}
		return string(text), cut
	}
	f.Show = embed.ShowText
	text, cut := shown(maxPreview)
	switch ofName := media.OfName(b.OriginalName); cmp.Or(ofName, b.MimeType) { // its name may be newer
	case "text/markdown":
		f.Show, f.Cut = embed.ShowProse, cut
		f.Prose, err = s.Renders.Markdown(text)
		return err
	case "text/csv", "text/tab-separated-values":
		if rows, more, ok := tableOf(text, ofName == "text/tab-separated-values"); ok {
			f.Show, f.Rows, f.Cut = embed.ShowTable, rows, cut || more
			return nil
		}
	}
	text, cut = shown(maxCode)
	f.Text, err = s.Renders.Code(text, "", b.OriginalName)
	if err != nil {
		return err
	}
	f.Text.Cut = cut
	return nil
}

// The most rows and columns of a table that a page shows.
const (
	maxRows    = 200
	maxColumns = 40
)

// tableOf reads comma-separated values (RFC 4180), or values that are separated otherwise: see media.Separator. more is
// set if it leaves out rows or columns. ok is false if the text is not a table.
func tableOf(text string, tabs bool) (rows [][]string, more, ok bool) {
	separator, text := media.Separator(text)
	if tabs {
		separator = '\t'
	}
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = separator, -1, true
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, more, len(rows) > 0
		}
		if err != nil {
			return nil, false, false
		}
		if len(rows) == maxRows {
			return rows, true, true
		}
		more = more || len(row) > maxColumns
		rows = append(rows, row[:min(len(row), maxColumns)])
	}
}

// dropPartialRune removes an incomplete character at the end.
func dropPartialRune(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if end := text[len(text)-i:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// WholeLines removes the last line, which may be incomplete, unless it is the only line.
func WholeLines(text []byte) []byte {
	if end := bytes.LastIndexByte(text, '\n'); end > 0 {
		return text[:end+1]
	}
	return dropPartialRune(text)
}

// linkView shows an address. Only web addresses have a host, and pages link only to those.
func linkView(address string) embed.LinkView {
	v := embed.LinkView{Address: address}
	u, err := field.ParseURL(address)
	if err == nil && (strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https")) {
		v.Host = u.Hostname()
	}
	return v
}

func gameView(l embed.Lang, b *record.Game, address string) embed.GameView {
	v := embed.GameView{
		Title: b.Name, Address: address, Platform: b.Platform, Status: statusName(l, b.Status), Notes: b.Notes,
		Store: linkView(b.StoreURL),
	}
	if b.Rating >= 0 {
		v.Rating = l.T("games.rating", "n", b.Rating)
	}
	if b.Playtime >= 0 {
		v.Played = playtime(b.Playtime)
	}
	return v
}

// statusName is the status of a game in words; "" if it has none.
func statusName(l embed.Lang, status record.GameStatus) string {
	if status == "" {
		return ""
	}
	view := web.ViewOf(record.Games, l)
	return view.Input("status").Choices.Words(string(status))
}

func playtime(minutes int64) string {
	h, m := minutes/60, minutes%60
	switch {
	case h == 0:
		return strconv.FormatInt(m, 10) + " min"
	case m == 0 || h >= 100:
		return strconv.FormatInt(h, 10) + " h"
	}
	return fmt.Sprintf("%d h %d min", h, m)
}

// A ListedGame is a public game and the address of its page.
type ListedGame struct {
	Game    *record.Game
	Address string
}

// GamesPage makes the page of a user's public games. Games with the same status keep the
// given order.
func GamesPage(s *web.Site, l embed.Lang, owner people.User, address string, games []ListedGame) embed.GamesPage {
	p := embed.GamesPage{Base: s.Prefix(), Address: address, Owner: DisplayName(owner)}
	// Games that are being played come first: visitors ask about those.
	for _, status := range []record.GameStatus{"playing", "finished", "backlog", "wishlist", "dropped", ""} {
		g := embed.GameGroup{Name: statusName(l, status)}
		if status == "" {
			g.Name = l.T("games.others")
		}
		for _, game := range games {
			if game.Game.Status == status {
				g.Games = append(g.Games, gameView(l, game.Game, game.Address))
			}
		}
		if len(g.Games) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	return p
}

// formatNames are the names of formats that people do not know by their media types.
var formatNames = map[string]string{
	"audio/mpeg": "MP3", "audio/mp4": "M4A", "audio/wave": "WAV", "audio/x-ms-wma": "WMA", "video/x-ms-wmv": "WMV",
	"video/quicktime": "QuickTime", "video/x-matroska": "Matroska", "audio/x-matroska": "Matroska", "video/mp2t": "MPEG",
	"image/vnd.microsoft.icon": "Icon", "image/x-icon": "Icon",
}

// mediaName is a name for the type of a file.
func mediaName(l embed.Lang, mimeType, name string) string {
	_, sub, _ := strings.Cut(mimeType, "/")
	sub = strings.ToUpper(strings.TrimSuffix(strings.TrimPrefix(sub, "x-"), "+xml"))
	if other := formatNames[mimeType]; other != "" {
		sub = other
	}
	known := media.Inline(mimeType) || len(sub) <= len("QuickTime")
	switch class := record.ClassOf(mimeType); {
	case class == record.PDF:
		return l.T("media.pdf")
	case class == record.Text:
		return l.T("media.text")
	case class == record.Image && known:
		return l.T("media.imageOf", "type", sub)
	case class == record.Image:
		return l.T("media.image")
	case class == record.Video && known:
		return l.T("media.videoOf", "type", sub)
	case class == record.Video:
		return l.T("media.video")
	case class == record.Audio && known:
		return l.T("media.audioOf", "type", sub)
	case class == record.Audio:
		return l.T("media.audio")
	}
	ext := strings.ToUpper(strings.TrimPrefix(path.Ext(name), "."))
	plain := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	if ext == "" || len(ext) > 5 || slices.ContainsFunc([]rune(ext), plain) {
		return l.T("media.file")
	}
	return l.T("media.fileOf", "type", ext)
}
