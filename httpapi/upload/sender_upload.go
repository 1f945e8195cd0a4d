package upload

import (
	"bytes"
	"errors"
	"io"

	"kist/blobs"
	"kist/httpapi/grant"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/media"
	"kist/kv/record"
)

const aboutSentItem = "The answer's headers X-Kist-Item and X-Kist-Status name the item once it is made, and whether it waits for approval."

// senderUploadState is what a sender is told about an upload.
var senderUploadState = web.Named("SentUploadAnswer", web.JSONOf(web.Members(web.Object{
	"data": web.Ref("SentUpload"),
	"item": web.Object{
		"type": "object", "required": []string{"itemId", "status"}, "nullable": true, "example": nil,
		"description": "What was made of the upload, as it was when it came in; null before.",
		"properties": web.Object{
			"itemId": web.Object{"type": "string", "format": "uuid", "description": "Its id."},
			"status": web.Object{"allOf": []web.Object{web.Ref("UploadState")}, "description": "Whether it waits for approval."},
		},
	},
}, "data", "item"), nil))

var DescribeSending = web.Operation{
	Tag: "public", Summary: "Says what is offered of the protocol of resumable uploads (tus).",
	Reply: tusDescribed, Tus: true, Serve: describeTus(tusSending),
}

var DescribeSendingOfOne = web.Operation{
	Tag: "public", Summary: "Says what is offered of the protocol of resumable uploads (tus).",
	Reply: tusDescribed, Tus: true, Serve: describeTus(tusSending),
}

var BeginSending = web.Operation{
	Tag:     "public",
	Summary: "Begins a resumable upload to an upload link, at the secret address in Location; a body is its first bytes. Its place and its bytes are reserved from now on. " + aboutSentItem,
	Args: append([]web.Param{
		tusArgs.version, tusArgs.length, tusArgs.concat, tusMetadata("filename, and the name and the message of the sender.", "filename YS50eHQ=,name Qm9i"), tusArgs.sum, uploadPassword,
	}, captchaArgs...),
	Body: tusPiece(), Reply: web.Reply{Status: 201, Doc: "How far it is.", Body: senderUploadState},
	Fails: []int{401, 403, 404, 409, 410, 412, 429, 460, 503, 507}, Slugs: true, Tus: true, Serve: tus(beginSending),
}

// beginSending creates an upload for a sender. It asks at the start for
// everything that the form asks for.
func beginSending(c *web.Request) error {
	q, err := requireOpenRequest(c, c.Arg("slug"))
	if err != nil {
		return err
	}
	b, err := readUploadOptions(c)
	if err != nil {
		return err
	}
	if b.final() {
		return joinSent(c, q, b)
	}
	if b.length < 0 {
		return badTus("The request needs Upload-Length.")
	}
	u := inbox.Upload{Length: b.length, Partial: true}
	if !b.partial() {
		if u, err = b.sending(q); err != nil {
			return err
		}
	}
	room, err := uploadBudgetAt(c, q)
	if err == nil {
		err = room.ErrTooLarge(b.length)
	}
	if err == nil {
		err = session.RequireCaptcha(c, q)
	}
	if err != nil {
		return err
	}
	made, secret, err := inbox.BeginSenderUpload(c.Site.Store, c.R.Context(), q, u, grant.Network(c.Addr).String())
	if err != nil {
		return err
	}
	return finishBegin(c, made, b, room, web.SentPath+"/"+secret)
}

// sending is the upload that a sender's request begins, if what it says of the
// file is good.
func (b *uploadOptions) sending(q *record.Request) (u inbox.Upload, err error) {
	form := new(record.SenderForm)
	if err := web.JoinProblems(field.Create(form, b.meta.fields())); err != nil {
		return u, err
	}
	if !q.MayTake(b.meta.fileName()) {
		return u, typeRefused(q)
	}
	return inbox.Upload{Length: b.length, Metadata: b.meta.shown(), Name: form.Name, Message: form.Message}, nil
}

// joinSent makes a sender's file of complete parts, which the limits of the link
// hold for as for one that comes in one piece. That its sender is human was shown
// when the parts began. If it fails, the parts are as they were, unless the link
// does not take the type: then they are forgotten.
func joinSent(c *web.Request, q *record.Request, b uploadOptions) error {
	secrets, err := b.parts(web.SentPath)
	if err != nil {
		return err
	}
	u, err := b.sending(q)
	if err != nil {
		return err
	}
	room, err := uploadBudgetAt(c, q)
	if err != nil {
		return err
	}
	ids, length := make([]record.ID, len(secrets)), int64(0)
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		for i, secret := range secrets {
			part, err := inbox.SenderUpload(tx, secret)
			if err != nil {
				return err
			}
			if part.Length > room.File-length {
				return room.ErrTooLarge(room.File + 1)
			}
			ids[i], length = part.ID, length+part.Length
		}
		return nil
	}); err != nil {
		return err
	}
	release, err := c.Site.UploadTurns.TakeAll(c, ids)
	if err != nil {
		return err
	}
	defer release()
	made, secret, err := inbox.JoinSent(c.Site.Store, c.R.Context(), q, u, grant.Network(c.Addr).String(), secrets)
	if err != nil {
		return err
	}
	err = finishBegin(c, made, b, room, web.SentPath+"/"+secret)
	if e := (*record.Error)(nil); errors.As(err, &e) && e.Code == codeType {
		for _, secret := range secrets {
			dropSent(c, secret)
		}
	}
	return err
}

// SenderOperation is an operation at the address of a sender's upload. One that cannot be
// finished, since the link takes no files any more or none of the type, is
// forgotten, which gives back what was reserved for it.
func SenderOperation(serve func(*web.Request) error) func(*web.Request) error {
	return func(c *web.Request) error {
		var found bool
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			found, err = inbox.HasSenderUpload(tx, c.Arg("secret"))
			return err
		}); err != nil {
			return err
		}
		err := serve(c)
		var e *record.Error
		// What was not there before may be an upload that another request begins now.
		if !found || !errors.As(err, &e) || e.Fault != record.Missing && e.Fault != record.Gone && e.Code != codeType {
			return err
		}
		dropSent(c, c.Arg("secret"))
		return err
	}
}

// dropSent forgets a sender's upload that cannot be finished.
func dropSent(c *web.Request, secret string) {
	var all []*inbox.Upload
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) { all, err = inbox.DropSenderUpload(tx, secret); return err }); err != nil && !web.IsMissing(err) {
		c.Site.Log.Warn("an upload that cannot be finished is left to the sweep", "error", err)
		return
	}
	for _, u := range all {
		removePart(c, u)
	}
}

// respondSenderUpload answers how far a sender's upload is, and what was made of it.
func respondSenderUpload(c *web.Request, status int, u *inbox.Upload) error {
	return c.Respond(status, func(dst []byte) ([]byte, error) {
		dst = field.AppendJSON(append(dst, `{"data":`...), showUpload(u))
		if !u.Done() {
			return append(dst, `,"item":null}`...), nil
		}
		dst = field.AppendString(append(dst, `,"item":{"itemId":`...), u.Item.String())
		dst = field.AppendString(append(dst, `,"status":`...), string(u.Arrived))
		return append(dst, "}}"...), nil
	})
}

// requestOf is the upload request that a sender's upload is for.
func requestOf(c *web.Request, u *inbox.Upload) (q *record.Request, err error) {
	err = c.Site.Store.View(func(tx *kv.Tx) error { q, err = inbox.Request(tx, u.Owner, u.Request); return err })
	return q, err
}

// headTaken reads the beginning of a sender's upload, as far as it is not there
// yet, and fails if the link does not take what it is: before it is written, and
// before the rest is read. What it returns reads all of in.
func headTaken(c *web.Request, u *inbox.Upload, in io.Reader) (io.Reader, error) {
	whole := min(media.Sniffed, u.Length)
	if u.Partial || u.Offset >= whole {
		return in, nil // the type of a part is that of nothing
	}
	q, err := requestOf(c, u)
	if err != nil || len(q.Types) == 0 {
		return in, err
	}
	head, err := c.Site.Blobs.Parts.Head(u.ID.String(), u.Offset)
	if err != nil {
		return nil, err
	}
	had := len(head)
	more, _ := io.ReadAll(io.LimitReader(in, whole-u.Offset)) // why it ended is told again by the next read
	if head = append(head, more...); int64(len(head)) == whole {
		meta, err := parseMetadata(u.Metadata)
		if err != nil {
			return nil, err
		}
		if name := meta.fileName(); !q.Takes(name, media.Of("", name, head)) {
			return nil, typeRefused(q)
		}
	}
	return io.MultiReader(bytes.NewReader(head[had:]), in), nil
}

// finishSenderUpload makes an item of a sender's upload that has all its bytes, as finish
// makes a file.
func finishSenderUpload(c *web.Request, u *inbox.Upload, kept *blobs.Kept) error {
	refused := false
	defer func() {
		if refused {
			ReleasePins(c.Site, []*blobs.Kept{kept}, false)
		} else {
			kept.Release()
		}
	}()
	meta, err := parseMetadata(u.Metadata)
	if err != nil {
		return err
	}
	head, err := head(c.Site, kept.Ref)
	if err != nil {
		return err
	}
	q, err := requestOf(c, u)
	if err != nil {
		return err
	}
	one := inbox.Received{Name: meta.fileName(), Ref: kept.Ref, Size: kept.Size}
	one.MimeType = media.Of("", one.Name, head)
	if refused = !q.Takes(one.Name, one.MimeType); refused {
		return typeRefused(q)
	}
	done := *u
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		_, err := inbox.ReceiveUpload(tx, &done, one)
		return err
	}); err != nil {
		return err
	}
	*u = done
	removePart(c, u) // of content that was there already
	return nil
}
