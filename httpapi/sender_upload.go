package httpapi

import (
	"bytes"
	"errors"
	"io"

	"kist/blobs"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// sentPath is where resumable uploads of senders are. What follows it is a
// secret of the sender's, which is all that it takes to go on there.
const sentPath = requestsPath + "/tus"

// sentRoutes are the resumable uploads of those who leave files at upload links.
func sentRoutes() []route {
	const begin, at = requestsPath + "/p/{slug}/tus", sentPath + "/{secret}"
	version, offset, length, sum, override := tusArgs.version, tusArgs.offset, tusArgs.length, tusArgs.sum, tusArgs.override
	describe := describeTus(tusSending)
	described := reply{204, "In the headers Tus-Version, Tus-Extension, Tus-Max-Size and Tus-Checksum-Algorithm.", nil}
	item := members(object{
		"itemId": object{"type": "string", "format": "uuid", "description": "Its id."},
		"status": object{"allOf": []object{ref("UploadState")}, "description": "Whether it waits for approval."},
	}, "itemId", "status")
	item["nullable"], item["example"], item["description"] = true, nil, "What was made of the upload, as it was when it came in; null before."
	state := named("SentUploadAnswer", jsonOf(members(object{"data": ref("SentUpload"), "item": item}, "data", "item"), nil))
	about := "The answer's headers X-Kist-Item and X-Kist-Status name the item once it is made, and whether it waits for approval."
	return []route{
		{
			method: "OPTIONS", path: begin, id: "describeSending", tag: "public", summary: "Says what is offered of the protocol of resumable uploads (tus).",
			access: anyone, reply: described, serve: describe,
		},
		{
			method: "POST", path: begin, id: "beginSending", tag: "public",
			summary: "Begins a resumable upload to an upload link, at the secret address in Location; a body is its first bytes. Its place and its bytes are reserved from now on. " + about,
			access:  anyone, args: append([]param{
				version, length, tusArgs.concat, tusMetadata("filename, and the name and the message of the sender.", "filename YS50eHQ=,name Qm9i"), sum, uploadPassword,
			}, captchaArgs...),
			body: tusPiece(), reply: reply{201, "How far it is.", state}, fails: []int{401, 403, 404, 409, 410, 412, 429, 460, 503, 507}, slugs: true, serve: tus(beginSending),
		},
		{
			method: "OPTIONS", path: at, id: "describeSendingOfOne", tag: "public", summary: "Says what is offered of the protocol of resumable uploads (tus).",
			access: anyone, reply: described, serve: describe,
		},
		{
			method: "GET", path: at, id: "readSending", tag: "public",
			summary: "Says how far the upload is and, for a day, what was made of it. HEAD with Tus-Resumable ends a request that is still sending bytes, and answers 423 if it must be asked again later.",
			access:  anyone, reply: reply{200, "How far it is.", state}, fails: []int{403, 404, 409, 410, 412, 413, 415, 423, 429, 503, 507}, serve: senderOperation(readUpload),
		},
		{
			method: "PATCH", path: at, id: "continueSending", tag: "public", summary: "Adds bytes to the upload, and ends another request that does. " + about,
			access: anyone, args: []param{version, offset, length, sum}, body: tusPiece(), reply: reply{204, "How far it is, in Upload-Offset.", nil},
			fails: []int{403, 404, 409, 410, 412, 429, 460, 503, 507}, serve: senderOperation(tus(patchUpload)),
		},
		{
			method: "DELETE", path: at, id: "cancelSending", tag: "public", summary: "Forgets the upload and its bytes, and gives back what was reserved for it.",
			access: anyone, args: []param{version}, reply: reply{204, "Gone.", nil}, fails: []int{404, 409, 410, 412, 503, 507}, serve: senderOperation(tus(cancelUpload)),
		},
		{
			method: "POST", path: at, id: "overrideSending", tag: "public", summary: "Does what X-HTTP-Method-Override says, for clients that can only GET and POST.",
			access: anyone, args: []param{version, override, offset, length, sum}, body: tusPiece(), reply: reply{204, "Done.", nil},
			fails: []int{403, 404, 405, 409, 410, 412, 429, 460, 503, 507}, serve: senderOperation(tus(overrideUpload)),
		},
	}
}

// beginSending creates an upload for a sender. It asks at the start for
// everything that the form asks for.
func beginSending(c *request) error {
	q, err := c.requireOpenRequest(c.arg("slug"))
	if err != nil {
		return err
	}
	b, err := c.readUploadOptions()
	if err != nil {
		return err
	}
	if b.final() {
		return joinSent(c, q, b)
	}
	if b.length < 0 {
		return badTus("The request needs Upload-Length.")
	}
	u := kv.Upload{Length: b.length, Partial: true}
	if !b.partial() {
		if u, err = b.sending(q); err != nil {
			return err
		}
	}
	room, err := c.uploadBudgetAt(q)
	if err == nil {
		err = room.errTooLarge(b.length)
	}
	if err == nil {
		err = c.requireCaptcha(q)
	}
	if err != nil {
		return err
	}
	made, secret, err := c.s.Store.BeginSenderUpload(c.r.Context(), q, u, network(c.addr).String())
	if err != nil {
		return err
	}
	return c.finishBegin(made, b, room, sentPath+"/"+secret)
}

// sending is the upload that a sender's request begins, if what it says of the
// file is good.
func (b *uploadOptions) sending(q *record.Request) (u kv.Upload, err error) {
	form := new(record.SenderForm)
	if err := joinProblems(field.Create(form, b.meta.fields())); err != nil {
		return u, err
	}
	if !q.MayTake(b.meta.fileName()) {
		return u, typeRefused(q)
	}
	return kv.Upload{Length: b.length, Metadata: b.meta.shown(), Name: form.Name, Message: form.Message}, nil
}

// joinSent makes a sender's file of complete parts, which the limits of the link
// hold for as for one that comes in one piece. That its sender is human was shown
// when the parts began. If it fails, the parts are as they were, unless the link
// does not take the type: then they are forgotten.
func joinSent(c *request, q *record.Request, b uploadOptions) error {
	secrets, err := b.parts(sentPath)
	if err != nil {
		return err
	}
	u, err := b.sending(q)
	if err != nil {
		return err
	}
	room, err := c.uploadBudgetAt(q)
	if err != nil {
		return err
	}
	ids, length := make([]record.ID, len(secrets)), int64(0)
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		for i, secret := range secrets {
			part, err := tx.SenderUpload(secret)
			if err != nil {
				return err
			}
			if part.Length > room.file-length {
				return room.errTooLarge(room.file + 1)
			}
			ids[i], length = part.ID, length+part.Length
		}
		return nil
	}); err != nil {
		return err
	}
	release, err := c.s.turns.takeAll(c, ids)
	if err != nil {
		return err
	}
	defer release()
	made, secret, err := c.s.Store.JoinSent(c.r.Context(), q, u, network(c.addr).String(), secrets)
	if err != nil {
		return err
	}
	err = c.finishBegin(made, b, room, sentPath+"/"+secret)
	if e := (*record.Error)(nil); errors.As(err, &e) && e.Code == codeType {
		for _, secret := range secrets {
			c.dropSent(secret)
		}
	}
	return err
}

// senderOperation is an operation at the address of a sender's upload. One that cannot be
// finished, since the link takes no files any more or none of the type, is
// forgotten, which gives back what was reserved for it.
func senderOperation(serve func(*request) error) func(*request) error {
	return func(c *request) error {
		var found bool
		if err := c.s.Store.View(func(tx *kv.Tx) (err error) {
			found, err = tx.HasSenderUpload(c.arg("secret"))
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
		c.dropSent(c.arg("secret"))
		return err
	}
}

// dropSent forgets a sender's upload that cannot be finished.
func (c *request) dropSent(secret string) {
	var all []*kv.Upload
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) { all, err = tx.DropSenderUpload(secret); return err }); err != nil && !missing(err) {
		c.s.Log.Warn("an upload that cannot be finished is left to the sweep", "error", err)
		return
	}
	for _, u := range all {
		c.removePart(u)
	}
}

// respondSenderUpload answers how far a sender's upload is, and what was made of it.
func (c *request) respondSenderUpload(status int, u *kv.Upload) error {
	return c.respond(status, func(dst []byte) ([]byte, error) {
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
func (c *request) requestOf(u *kv.Upload) (q *record.Request, err error) {
	err = c.s.Store.View(func(tx *kv.Tx) error { q, err = tx.Request(u.Owner, u.Request); return err })
	return q, err
}

// headTaken reads the beginning of a sender's upload, as far as it is not there
// yet, and fails if the link does not take what it is: before it is written, and
// before the rest is read. What it returns reads all of in.
func (c *request) headTaken(u *kv.Upload, in io.Reader) (io.Reader, error) {
	whole := min(media.Sniffed, u.Length)
	if u.Partial || u.Offset >= whole {
		return in, nil // the type of a part is that of nothing
	}
	q, err := c.requestOf(u)
	if err != nil || len(q.Types) == 0 {
		return in, err
	}
	head, err := c.s.Blobs.PartHead(u.ID.String(), u.Offset)
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
func (c *request) finishSenderUpload(u *kv.Upload, kept *blobs.Kept) error {
	refused := false
	defer func() {
		if refused {
			c.s.releasePins([]*blobs.Kept{kept}, false)
		} else {
			kept.Release()
		}
	}()
	meta, err := parseMetadata(u.Metadata)
	if err != nil {
		return err
	}
	head, err := c.s.head(kept.Ref)
	if err != nil {
		return err
	}
	q, err := c.requestOf(u)
	if err != nil {
		return err
	}
	one := kv.Received{Name: meta.fileName(), Ref: kept.Ref, Size: kept.Size}
	one.MimeType = media.Of("", one.Name, head)
	if refused = !q.Takes(one.Name, one.MimeType); refused {
		return typeRefused(q)
	}
	done := *u
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		_, err := tx.ReceiveUpload(&done, one)
		return err
	}); err != nil {
		return err
	}
	*u = done
	c.removePart(u) // of content that was there already
	return nil
}
