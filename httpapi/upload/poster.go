package upload

import (
	"bytes"
	"errors"

	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

var SetPoster = web.Operation{
	Tag: "files", Summary: "Gives a film, or a picture that the server cannot decode, a small version. The body is a JPEG, " +
		"PNG, GIF or WebP of at most 512 KiB, best with 1600 pixels at the longer edge. It is kept with the other small " +
		"versions and may get lost.",
	Body: &web.Content{Media: "application/octet-stream"}, Reply: web.DoneReply, Fails: []int{404}, Serve: setPoster,
}

func setPoster(c *web.Request) error {
	picture, err := c.ReadBody(thumb.MaxPoster)
	if err != nil {
		return err
	}
	var r *record.Record
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		r, err = catalog.ReachOwn(tx, c.Owner(), record.Files, c.Arg("slug"))
		if err != nil {
			return err
		}
		r.Body = bytes.Clone(r.Body)
		return nil
	}); err != nil {
		return err
	}
	b, err := r.Decode()
	if err != nil {
		return err
	}
	switch record.ClassOf(b.(*record.File).MimeType) { // the kind is asked for
	case record.Video, record.Image:
	default:
		return record.Bad(map[string]string{"slug": "must be that of a film or a picture"})
	}
	err = c.Site.Thumbs.SetPoster(c.R.Context(), c.Owner(), r.ID, picture)
	if errors.Is(err, thumb.ErrNone) {
		return &record.Error{
			Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be a picture: JPEG, PNG, GIF or WebP.",
		}
	}
	if err != nil {
		return err
	}
	return c.RespondOK()
}
