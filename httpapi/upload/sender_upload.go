package upload

import (
	"bytes"
	"errors"
	"io"

	"kist/httpapi/limit"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/media"
)

const aboutSentItem = "When the upload is complete, the headers X-Kist-Item, X-Kist-Status and X-Kist-Take-Back of " +
	"the answer have the id of the item, its status and the secret to take it back."

var DescribeSending = web.Operation{
	Headers: ofTus,
	Tag:     "public", Summary: "Describes the supported parts of the protocol for resumable uploads (tus).",
	Reply: tusDescribed, Tus: true, Serve: describeTus(tusSending),
}

// sendingKey is the header that makes repeats of a request of BeginSending safe.
var sendingKey = web.Param{
	In: "header", Name: "Idempotency-Key",
	Doc: "If the same request comes again from the same network, it gets the upload that the first one started, as " +
		"long as that exists. Each upload needs its own key, which nobody can guess, such as a random UUID.",
	Schema: web.Object{"type": "string", "maxLength": 255},
}

var BeginSending = web.Operation{
	Headers: append([]string{"Location"}, ofSentUpload...),
	Tag:     "public",
	Summary: "Starts a resumable upload to an upload link. Location has its secret address. A body has the first " +
		"bytes. Its place and its bytes are reserved from now on. " + aboutSentItem,
	Args: append([]web.Param{
		tusArgs.version, tusArgs.length, tusMetadata(
			"filename, and the sender's name and message.",
		), tusArgs.sum, uploadPassword, sendingKey,
	}, captchaArgs...),
	Body: tusPiece, Reply: web.Reply{Status: 201, Doc: "The state of the upload.", Body: web.DataOf("SentUpload")},
	Fails: []int{401, 403, 404, 409, 410, 412, 429, 460, 503, 507}, Slugs: true, Tus: true, Serve: tus(beginSending),
}

// beginSending starts a sender's upload. It checks everything at the start that the form also
// checks.
func beginSending(c *web.Request) error {
	q, err := requireOpenRequest(c, c.Arg("slug"))
	if err != nil {
		return err
	}
	b, err := readUploadOptions(c)
	if err != nil {
		return err
	}
	if b.length < 0 {
		return badTus("The request needs Upload-Length.")
	}
	u, err := b.sending(c, q)
	if err != nil {
		return err
	}
	from := limit.Network(c.Addr).String()
	secret, err := b.repeatable(c, q, from)
	if err != nil {
		return err
	}
	if secret != "" { // before the limits and the captcha, which the upload has passed
		if err := repeatSending(c, secret); !kv.Missing(err) {
			return err
		}
	}
	budget, err := uploadBudgetAt(c, q)
	if err != nil {
		return err
	}
	if err := budget.ErrTooLarge(b.length); err != nil {
		return err
	}
	if err := session.RequireCaptcha(c, q); err != nil {
		return err
	}
	made, at, err := inbox.BeginSenderUpload(c.Site.Store, c.R.Context(), q, u, from, secret)
	if errors.Is(err, inbox.ErrBegun) { // a request at the same time was faster
		return orBusy(repeatSending(c, secret))
	}
	if err != nil {
		return err
	}
	var again find
	if secret != "" {
		again = sentAt(secret)
	}
	return finishBegin(c, made, b, budget, web.SentPath+"/"+at, again)
}

func sentAt(secret string) find {
	return func(tx *kv.Tx) (*inbox.Upload, error) { return current(inbox.SenderUpload(tx, secret)) }
}

// repeatable returns the secret of the upload that every repetition of the request starts; "" if
// it has no Idempotency-Key.
func (b *uploadOptions) repeatable(c *web.Request, q *inbox.Request, from string) (string, error) {
	key, err := web.IdempotencyKey(c.R)
	if key == "" || err != nil {
		return "", err
	}
	return inbox.SenderKey(c.Site.Store, q, from, "tus "+string(b.fingerprint(c, key)))
}

func repeatSending(c *web.Request, secret string) error {
	return repeatBegin(c, func(*inbox.Upload) string { return web.SentPath + "/" + secret }, sentAt(secret))
}

// sending is the upload that a sender's request starts, if its metadata are valid.
func (b *uploadOptions) sending(c *web.Request, q *inbox.Request) (u inbox.Upload, err error) {
	form := new(inbox.SenderForm)
	fields := b.meta.fields()
	if err := web.JoinProblems(c.RefuseUnknown(form, fields, ownMetadata...), field.Create(form, fields)); err != nil {
		return u, err
	}
	if err := q.CheckSender(form); err != nil {
		return u, err
	}
	if !q.MayTake(b.meta.fileName()) {
		return u, typeRefused(q)
	}
	return inbox.Upload{
		Length: b.length, Metadata: b.meta.ofSender(form).shown(), Name: form.Name, Message: form.Message,
	}, nil
}

// SenderOperation wraps an operation at the address of a sender's upload. It removes an upload that
// cannot be completed because the link no longer accepts files or the type. This releases its
// reservation.
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
		// If it did not exist before, another request may just be starting it.
		if found && isFinal(err) {
			dropSent(c, c.Arg("secret"))
		}
		return err
	}
}

func dropSent(c *web.Request, secret string) {
	var u *inbox.Upload
	err := c.Site.Store.Update(func(tx *kv.Tx) (err error) { u, err = inbox.DropSenderUpload(tx, secret); return err })
	if kv.Missing(err) {
		return
	}
	if err != nil {
		c.Site.Log.Warn("cannot remove an upload that cannot be completed; the sweep will remove it", "error", err)
		return
	}
	removePart(c, u)
}

// respondSenderUpload answers with the state of a sender's upload and the resulting item.
func respondSenderUpload(c *web.Request, status int, u *inbox.Upload) error {
	return c.Respond(status, func(dst []byte) ([]byte, error) {
		dst = field.AppendJSON(append(dst, `{"data":`...), showUpload(u))
		if !u.Done() {
			return append(dst, `,"item":null}`...), nil
		}
		dst = field.AppendString(append(dst, `,"item":{"itemId":`...), u.Item.String())
		dst = field.AppendString(append(dst, `,"status":`...), string(u.Arrived))
		dst = field.AppendString(append(dst, `,"takeBack":`...), sentSecret(c, u.Sent()))
		return append(dst, "}}"...), nil
	})
}

func requestOf(c *web.Request, u *inbox.Upload) (q *inbox.Request, err error) {
	err = c.Site.Store.View(func(tx *kv.Tx) error { q, err = inbox.ReadRequest(tx, u.Owner, u.Request); return err })
	return q, err
}

// checkHead reads the first bytes of a sender's upload, unless they were received earlier. It fails
// if the link does not accept their type, before anything is written and before the rest is read.
// The returned reader has all of in.
func checkHead(c *web.Request, u *inbox.Upload, in io.Reader) (io.Reader, error) {
	whole := min(media.Sniffed, u.Length)
	if u.Offset >= whole {
		return in, nil
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
	more, _ := io.ReadAll(io.LimitReader(in, whole-u.Offset)) // the next read repeats an error
	head = append(head, more...)
	if int64(len(head)) == whole {
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

// finishSenderUpload makes an item of a complete sender's upload, as finishUpload makes a file.
func finishSenderUpload(c *web.Request, u *inbox.Upload, in *Intake) error {
	q, err := requestOf(c, u)
	if err != nil {
		return err
	}
	one := in.Files[0].Received()
	if !q.Takes(one.Name, one.MimeType) {
		in.Stays = false // it is of no use to another attempt
		return typeRefused(q)
	}
	// Nothing is carried, because the bytes are durable already and no quota counts an item that waits.
	done := *u
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		return inbox.ReceiveUpload(tx, &done, one)
	}); err != nil {
		return err
	}
	*u = done
	removePart(c, u) // still there if the content existed already
	return nil
}
