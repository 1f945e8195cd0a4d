package public

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/google/uuid"

	"kist/embed"
	"kist/httpapi/render"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// A ShownFile is a file that a text shows, as its page has it.
type ShownFile struct {
	Media  record.Class
	Name   string
	Raw    string // address of the bytes
	Screen string // of a version for a screen, or of the poster of a film; "" for none
}

// addFiles adds the files that the item shows and that this viewer may open. at is the end of the item's address, under
// the conditions of r.
func (v *Viewing) addFiles(c *web.Request, r, item *record.Record, who viewer, at string) error {
	var found []*record.Record
	err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		found, err = catalog.ShownFiles(tx, item, who.asker())
		for _, f := range found {
			f.Body = bytes.Clone(f.Body)
		}
		return err
	})
	if err != nil {
		return err
	}

	v.Files = map[record.ID]ShownFile{}
	for _, f := range found {
		body, err := f.Decode()
		if err != nil {
			return err
		}
		b := body.(*record.File) // the kind says so
		shown := ShownFile{Media: record.ClassOf(b.MimeType), Name: b.OriginalName}
		below := at + "/" + f.ID.String()
		shown.Raw, _, err = rawAddresses(c, r, below, who)
		if err != nil {
			return err
		}
		if Shrinks(b.MimeType) || shown.Media == record.Video && hasThumb(c, f, b.MimeType) {
			shown.Screen = c.Site.Prefix() + "/t/" + below + "?" + sizeParam + "=screen"
		}
		v.Files[f.ID] = shown
	}
	return nil
}

// prose renders a text with the files that it shows.
func (v *Viewing) prose(s *web.Site, text string) (template.HTML, error) {
	page, err := s.Renders.Markdown(text)
	if err != nil || !strings.Contains(text, record.FileScheme) {
		return page, err
	}
	return render.Place(page, func(id record.ID, words string) template.HTML {
		f, there := v.Files[id]
		if !there {
			return embed.GoneFile(v.Lang)
		}
		return embed.ShowFile(embed.InText{
			Raw: f.Raw, Screen: f.Screen, Words: words, Name: f.Name,
			Image: f.Media == record.Image, Film: f.Media == record.Video, Sound: f.Media == record.Audio,
		})
	}), nil
}

// PreviewFiles puts the caller's own files into a rendered text that is not stored. Words stand for others.
func PreviewFiles(c *web.Request, page template.HTML) (shown template.HTML, err error) {
	shown = render.Place(page, func(id record.ID, words string) template.HTML {
		var f *record.Record
		e := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			f, err = catalog.Record(tx, c.Owner(), record.Files, id.String())
			return err
		})
		if e != nil {
			if !kv.Missing(e) {
				err = e
			}
			return template.HTML(template.HTMLEscapeString(words)) // #nosec G203 -- it is escaped
		}
		body, e := f.Decode()
		if e != nil {
			err = e
			return ""
		}
		b := body.(*record.File) // the kind says so
		of := embed.InText{Raw: c.Site.Prefix() + "/x/" + f.Slug, Words: words, Name: b.OriginalName}
		switch record.ClassOf(b.MimeType) {
		case record.Image:
			of.Image = true
		case record.Video:
			of.Film = true
		case record.Audio:
			of.Sound = true
		}
		if Shrinks(b.MimeType) {
			of.Screen = c.Site.Prefix() + "/t/" + f.Slug + "?" + sizeParam + "=screen"
		}
		return embed.ShowFile(of)
	})
	return shown, err
}

// ownPicture is the file that is the picture of an item, if there is one that the viewer may open; otherwise the item.
func ownPicture(c *web.Request, item *record.Record, who viewer) (*record.Record, error) {
	if item.Kind != record.Recipes && item.Kind != record.Games {
		return item, nil
	}
	head, err := item.Head()
	if err != nil {
		return nil, err
	}
	id := record.PictureOf(head)
	if id == uuid.Nil {
		return item, nil
	}
	picture := item
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		f, err := catalog.ShownFile(tx, item, who.asker(), id)
		if err != nil {
			return err
		}
		f.Body = bytes.Clone(f.Body)
		picture = f
		return nil
	})
	if kv.Missing(err) {
		return item, nil
	}
	return picture, err
}
