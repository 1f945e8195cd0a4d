package public

import (
	"bytes"
	"errors"
	"html/template"
	"net/url"
	"path"
	"slices"
	"strings"

	"kist/embed"
	"kist/httpapi/render"
	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/media"
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
		shown := ShownFile{Name: b.OriginalName}
		below := at + "/" + f.ID.String()
		shown.Raw, _, err = rawAddresses(c, r, below, who)
		if err != nil {
			return err
		}
		var small bool
		shown.Media, small = inText(c, f, b.MimeType)
		if small {
			shown.Screen = c.Site.Prefix() + "/t/" + below + "?" + sizeParam + "=screen"
		}
		v.Files[f.ID] = shown
	}
	return nil
}

// inText is what a file is in a text, and whether it has a small version there. What a browser cannot show is a link.
func inText(c *web.Request, f *record.Record, mimeType string) (class record.Class, small bool) {
	class = record.ClassOf(mimeType)
	unshown := class == record.Image && !media.Inline(mimeType)
	small = media.Shrinks(mimeType) || (unshown || class == record.Video) && hasThumb(c, f, mimeType)
	if unshown && !small {
		return record.Other, false
	}
	return class, small
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
		class, small := inText(c, f, b.MimeType)
		of := embed.InText{
			Raw: c.Site.Prefix() + "/x/" + f.Slug, Words: words, Name: b.OriginalName,
			Image: class == record.Image, Film: class == record.Video, Sound: class == record.Audio,
		}
		if small {
			of.Screen = c.Site.Prefix() + "/t/" + f.Slug + "?" + sizeParam + "=screen"
		}
		return embed.ShowFile(of)
	})
	return shown, err
}

// ownPicture is [catalog.OwnPicture] for a viewer. The error is Missing for other kinds, too.
func ownPicture(c *web.Request, item *record.Record, body record.Body, who viewer) (f *record.Record, err error) {
	if record.PictureOf(body) == (record.ID{}) {
		return nil, record.NotFound(record.Files.Name)
	}
	err = c.Site.Store.View(func(tx *kv.Tx) (err error) {
		f, err = catalog.OwnPicture(tx, item, body, who.asker(), hasPoster(c.Site))
		if err != nil {
			return err
		}
		f.Body = bytes.Clone(f.Body)
		return nil
	})
	return f, err
}

// PictureAddress is the address of the picture of a recipe or a game; "" if it has none.
func PictureAddress(b record.Body) string {
	address, _ := pictureOf(b)
	return address
}

// TakeOwnPicture makes the address in the own fields of a recipe or a game the id of a file, if it is that of an image
// which the owner has on this server. An id that was given too comes before it. beforeID and before are the present id
// and address.
func TakeOwnPicture(
	s *web.Site, tx *kv.Tx, owner record.ID, b record.Body, beforeID record.ID, before string,
) error {
	var address *string
	var id *record.ID
	switch b := b.(type) {
	case *record.Recipe:
		address, id = &b.ImageURL, &b.Photo
	case *record.Game:
		address, id = &b.CoverURL, &b.Cover
	default:
		return nil
	}
	name := fileAt(s, *address)
	if name == "" || *address == before {
		return nil
	}
	f, err := catalog.Borrow(tx, owner, record.Files, name)
	if ext := path.Ext(name); kv.Missing(err) && ext != "" {
		f, err = catalog.Borrow(tx, owner, record.Files, strings.TrimSuffix(name, ext))
	}
	if kv.Missing(err) {
		return nil
	}
	if err != nil || f.Bytes.Class != record.Image {
		return err
	}
	*address = ""
	if *id == beforeID {
		*id = f.ID
	}
	return nil
}

// fileAt is the slug or the id of a file at an address of this server: of its page, its bytes or its small version, on
// its own or through a text or a collection. It is "" for other addresses.
func fileAt(s *web.Site, address string) string {
	at := pathAt(s.BaseURL, address)
	if at == "" && s.Content != "" {
		content, err := url.Parse(s.Content)
		if err != nil {
			return ""
		}
		at = pathAt(content, address)
	}
	where, name, below := strings.Cut(at, "/")
	if !below {
		return where // as /v/ has it
	}
	if !slices.Contains([]string{"v", "x", "t", "files"}, where) {
		return ""
	}
	return path.Base(name)
}

// hasPoster reports whether somebody has sent a small version of a file.
func hasPoster(s *web.Site) func(*record.Record) bool {
	return func(f *record.Record) bool {
		_, err := s.Thumbs.Poster(f.Owner, f.ID, thumb.Tile)
		return err == nil
	}
}

// respondOwnPicture answers with the small version of a file that is the picture of an item, or with the file itself
// if a browser shows what the server cannot draw. It does not count as a view of r, whose conditions apply.
func respondOwnPicture(c *web.Request, r, f *record.Record, who viewer) error {
	err := respondThumb(c, r, f, who)
	if !errors.Is(err, thumb.ErrNone) {
		return err
	}
	body, err := f.Decode()
	if err != nil {
		return err
	}
	kind := body.(*record.File).MimeType // the kind says so
	if !media.Inline(kind) || tooLarge(c, f, kind) {
		return thumb.ErrNone
	}
	content, of, err := openContent(c, r, f, kind, who)
	if err != nil {
		return err
	}
	defer content.Close()
	h := c.W.Header()
	web.SetContentHeaders(h, kind, "", "", false, r.OpenToAll() || c.AtContentOrigin())
	h.Set("Etag", etag(r, of.Digest))
	h.Set("Cache-Control", caching(r))
	return SendContent(c, content, of.Size, func(status int) error { return Refusal(c, status, of.Size) })
}
