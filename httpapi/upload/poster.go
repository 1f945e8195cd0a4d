package upload

import (
	"bytes"
	"encoding/hex"
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
	Args: []web.Param{{
		In: "query", Name: "sha256",
		Doc:    "Digest of the bytes that the picture shows. If the file has others, the answer is 409 (changed_elsewhere).",
		Schema: web.Object{"type": "string"},
	}},
	Body: &web.Content{Media: "application/octet-stream"}, Reply: web.DoneReply, Fails: []int{404, 409}, Serve: setPoster,
}

var errOtherBytes = &record.Error{
	Fault: record.Taken, Code: "changed_elsewhere", Text: "The picture is not of the bytes that the file has now.",
}

func setPoster(c *web.Request) error {
	picture, err := c.ReadBody(thumb.MaxPoster)
	if err != nil {
		return err
	}
	query, err := c.Query()
	if err != nil {
		return err
	}
	r, err := ownFile(c)
	if err != nil {
		return err
	}
	if of := query.Get("sha256"); of != "" && of != hex.EncodeToString(r.Bytes.Ref[:]) {
		return errOtherBytes
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
	err = c.Site.Thumbs.SetPoster(c.R.Context(), c.Owner(), r.ID, picture, func() error {
		now, err := ownFile(c)
		if err != nil {
			return err
		}
		if now.Bytes.Ref != r.Bytes.Ref { // a replacement removed the poster before this one was there
			return errOtherBytes
		}
		return nil
	})
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

// ownFile reads the file of the request, which must be the caller's.
func ownFile(c *web.Request) (r *record.Record, err error) {
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		r, err = catalog.ReachOwn(tx, c.Owner(), record.Files, c.Arg("slug"))
		if err != nil {
			return err
		}
		r.Body = bytes.Clone(r.Body)
		return nil
	})
	return r, err
}
