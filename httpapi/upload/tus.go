package upload

import (
	"crypto/sha1" // #nosec G505 -- tus requires it; it detects accidental errors
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/blobs"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// The supported parts of tus, the protocol for resumable uploads
// (https://tus.io/protocols/resumable-upload).

const TusPath = web.APIPath + "tus"

const tusExtensions = "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination"

const tusSending = "creation,creation-with-upload,expiration,checksum,termination" // for senders

const tusChecksums = "sha1,sha256"

const TusBody = "application/offset+octet-stream"

// A request stores its progress after this many bytes or this time, so that a killed server loses no
// more than that.
const (
	NoteBytes = 32 << 20
	noteTime  = 5 * time.Second
)

var tusArgs = struct{ version, offset, length, sum, override web.Param }{
	version: web.Param{
		In: "header", Name: "Tus-Resumable", Doc: "The version of tus. Another version gives 412.",
		Schema: web.Object{"type": "string", "enum": []string{web.TusVersion}},
	},
	offset: web.Param{
		In: "header", Name: "Upload-Offset",
		Doc:    "Offset of the body's first byte. If the upload is at another offset, the answer is 409.",
		Schema: web.Object{"type": "integer", "minimum": 0},
	},
	length: web.Param{
		In: "header", Name: "Upload-Length", Doc: "Total bytes.", Schema: web.Object{"type": "integer", "minimum": 0},
	},
	sum: web.Param{
		In: "header", Name: "Upload-Checksum",
		Doc: "Algorithm (" + tusChecksums + ") and checksum of the body in base64. If it does not match, the answer is " +
			"460 and nothing is stored.",
		Schema: web.Object{"type": "string"},
	},
	override: web.Param{
		In: "header", Name: "X-HTTP-Method-Override", Doc: "PATCH, DELETE or HEAD.",
		Schema: web.Object{"type": "string", "enum": []string{"PATCH", "DELETE", "HEAD"}},
	},
}

// tusPiece is a body with bytes of an upload.
var tusPiece = &web.Content{Media: TusBody, Optional: true}

func tusMetadata(doc string) web.Param {
	return web.Param{
		In: "header", Name: "Upload-Metadata", Doc: "Pairs of a name and a value in base64, separated by commas: " + doc,
		Schema: web.Object{"type": "string"},
	}
}

// ofTusState are the headers that tell the state of an upload; those of a complete one differ.
func ofTusState(complete ...string) []string {
	return append(complete, "Upload-Offset", "Upload-Length", "Upload-Defer-Length", "Upload-Metadata", "Upload-Expires")
}

var (
	ofOwnUpload  = ofTusState("X-Kist-Id", "X-Kist-Slug", "X-Kist-Url")
	ofSentUpload = ofTusState("X-Kist-Item", "X-Kist-Status", "X-Kist-Take-Back")
	ofTus        = []string{"Tus-Version", "Tus-Extension", "Tus-Max-Size", "Tus-Checksum-Algorithm"}
)

const aboutUploadedFile = "When the upload is complete, the headers X-Kist-Id, X-Kist-Slug and X-Kist-Url of the " +
	"answer have the file's id, slug and address."

// tusDescribed is the answer that describes the protocol.
var tusDescribed = web.Reply{
	Status: 204, Doc: "In the headers Tus-Version, Tus-Extension, Tus-Max-Size and Tus-Checksum-Algorithm.", Body: nil,
}

var DescribeTus = web.Operation{
	Headers: ofTus,
	Tag:     "tus", Summary: "Describes the supported parts of the protocol for resumable uploads.",
	Reply: tusDescribed, Tus: true, Serve: describeTus(tusExtensions),
}

// tus wraps an operation of the protocol: it checks the version.
func tus(serve func(*web.Request) error) func(*web.Request) error {
	return func(c *web.Request) error {
		h := c.W.Header()
		if c.R.Header.Get("Tus-Resumable") != web.TusVersion {
			h.Set("Tus-Version", web.TusVersion)
			return web.ErrTusVersion
		}
		h.Set("Cache-Control", "no-store")
		return serve(c)
	}
}

// describeTus describes the supported protocol with these extensions.
func describeTus(extensions string) func(*web.Request) error {
	return func(c *web.Request) error {
		limit := c.Site.MaxUpload
		if err := c.Site.Store.View(func(tx *kv.Tx) error {
			set, err := people.ReadSettings(tx)
			limit = set.Largest(limit)
			return err
		}); err != nil {
			return err
		}
		h := c.W.Header()
		allowed := c.Site.Methods(c.R.URL.Path)
		h.Set("Allow", allowed)
		if strings.Contains(allowed, http.MethodPatch) {
			h.Set("Accept-Patch", TusBody)
		}
		h.Set("Tus-Version", web.TusVersion)
		h.Set("Tus-Extension", extensions)
		h.Set("Tus-Checksum-Algorithm", tusChecksums)
		h.Set("Tus-Max-Size", strconv.FormatInt(limit, 10))
		c.W.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// ShownUpload is a resumable upload as its owner sees it.
type ShownUpload struct {
	inbox.Upload
	name string
	done bool
}

func (v *ShownUpload) Fields(s *field.Set) {
	if !v.BySender() {
		s.ID("id", &v.ID, field.Always).Says("Id of the upload, the end of its address.", web.SampleID)
	}
	s.Text("filename", &v.name, record.MaxFileName).Says("Name of the file, as it was uploaded.", `"holiday.mp4"`)
	s.MaybeNumber("length", &v.Length, 0, math.MaxInt64).Says("Total bytes; null while unknown.", `20971520`)
	s.Number("offset", &v.Offset, 0, math.MaxInt64).Says("Bytes received.", `1048576`)
	s.Bool("complete", &v.done).Says("Whether the upload has become a file.", `false`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the upload was started.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says(
		"When the upload is removed if no more bytes arrive.", `"2026-01-03T03:04:05.678Z"`,
	)
}

func showUpload(u *inbox.Upload) *ShownUpload {
	v := &ShownUpload{Upload: *u, name: u.FileName, done: u.Done()}
	if meta, err := parseMetadata(u.Metadata); err == nil && !v.done {
		v.name = meta.fileName()
	}
	return v
}

var ListUploadsBegun = web.Operation{
	Tag: "tus", Summary: "Lists incomplete resumable uploads.",
	Args:  web.PageParams(web.ShortSorts),
	Reply: web.Reply{Status: 200, Doc: "A page of uploads.", Body: web.ListOf("ResumableUpload")},
	Tus:   true,
	Serve: listUploadsBegun,
}

func listUploadsBegun(c *web.Request) error {
	return web.AnswerList(c, func(tx *kv.Tx) ([]inbox.Upload, error) { return inbox.Uploads(tx, c.Owner()) },
		func(u *inbox.Upload) (record.ID, string) { return u.ID, showUpload(u).name },
		func(_ *kv.Tx, u *inbox.Upload) (*ShownUpload, error) { return showUpload(u), nil })
}

// findUpload reads the upload in the path: the caller's own, or that of a sender who knows its
// secret.
func findUpload(c *web.Request) (u *inbox.Upload, err error) {
	if secret := c.Arg("secret"); secret != "" {
		err = c.Site.Store.View(func(tx *kv.Tx) error { u, err = inbox.SenderUpload(tx, secret); return err })
		return u, err
	}
	id, err := c.IDArg("upload")
	if err != nil {
		return nil, err
	}
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		u, err = inbox.FindUpload(tx, c.Owner(), id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !maySee(c, u.By) {
		return nil, record.NotFound("upload")
	}
	return u, nil
}

// maySee reports whether the caller may see an upload or remote upload that the credential by
// started. A credential with the scope read sees all of its owner, others see only their own.
func maySee(c *web.Request, by record.ID) bool {
	return c.Caller.Key.Allows(people.ScopeRead) || by == c.Caller.Key.ID
}

func setUploadHeaders(c *web.Request, u *inbox.Upload) error {
	h := c.W.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	if u.Length < 0 {
		h.Set("Upload-Defer-Length", "1")
	} else {
		h.Set("Upload-Length", strconv.FormatInt(u.Length, 10))
	}
	if u.Metadata != "" {
		h.Set("Upload-Metadata", u.Metadata)
	}
	if !u.Done() {
		h.Set("Upload-Expires", u.Expires.UTC().Format(http.TimeFormat))
		return nil
	}
	if u.BySender() {
		h.Set("X-Kist-Item", u.Item.String())
		h.Set("X-Kist-Status", string(u.Arrived))
		h.Set("X-Kist-Take-Back", sentSecret(c, u.Sent()))
		return nil
	}
	err := c.Site.Store.View(func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, u.Owner, record.Files, u.File.String())
		if err != nil {
			return err
		}
		v := record.Shown{Record: *r, Base: c.Site.Base}
		h.Set("X-Kist-Id", r.ID.String())
		h.Set("X-Kist-Slug", r.Slug)
		h.Set("X-Kist-Url", strings.Trim(string(v.AppendURL(nil)), `"`))
		return nil
	})
	if kv.Missing(err) { // the file was deleted
		return nil
	}
	return err
}

// answerUpload answers with the upload and its file, if there is one; for a sender, with its item.
func answerUpload(c *web.Request, status int, u *inbox.Upload) error {
	if err := setUploadHeaders(c, u); err != nil {
		return err
	}
	if u.BySender() {
		return respondSenderUpload(c, status, u)
	}
	return c.Respond(status, func(dst []byte) ([]byte, error) {
		dst = field.AppendJSON(append(dst, `{"data":`...), showUpload(u))
		dst = append(dst, `,"file":`...)
		err := record.NotFound("file")
		if u.Done() {
			err = c.Site.Store.View(func(tx *kv.Tx) error {
				r, err := catalog.Record(tx, u.Owner, record.Files, u.File.String())
				if err != nil {
					return err
				}
				dst, err = c.Site.Show(tx, dst, r)
				return err
			})
		}
		if kv.Missing(err) {
			dst, err = append(dst, "null"...), nil
		}
		return append(dst, '}'), err
	})
}

var ReadUpload = web.Operation{
	Headers: ofOwnUpload,
	Tag:     "tus",
	Summary: "Shows the state of a resumable upload and, for a day, the resulting file. HEAD with Tus-Resumable ends a " +
		"request that is still sending bytes. 423 means that the client must ask again later.",
	Reply: web.Reply{Status: 200, Doc: "The state of the upload.", Body: web.DataOf("ResumableUpload")},
	Fails: []int{403, 404, 409, 410, 412, 413, 423, 507}, Tus: true,
	Serve: readUpload,
}

var ReadSending = web.Operation{
	Headers: ofSentUpload,
	Tag:     "public",
	Summary: "Shows the state of the upload and, for a day, the resulting item. HEAD with Tus-Resumable ends a request " +
		"that is still sending bytes. 423 means that the client must ask again later.",
	Reply: web.Reply{Status: 200, Doc: "The state of the upload.", Body: web.DataOf("SentUpload")},
	Fails: []int{403, 404, 409, 410, 412, 413, 415, 423, 429, 503, 507},
	Tus:   true, Serve: SenderOperation(readUpload),
}

// readUpload shows an upload. With HEAD and the version of tus, a client finds out where to
// continue: this ends the previous request and completes unfinished work. HEAD without the version
// is GET without the body.
func readUpload(c *web.Request) error {
	if c.R.Method == http.MethodHead && c.R.Header.Get("Tus-Resumable") != "" {
		return tus(headUpload)(c)
	}
	u, err := findUpload(c)
	if err != nil {
		return err
	}
	return answerUpload(c, http.StatusOK, u)
}

func headUpload(c *web.Request) error {
	return respondSettled(c, func(u *inbox.Upload) error { return answerUpload(c, http.StatusOK, u) })
}

// respondSettled locks the upload, completes unfinished work and then answers.
func respondSettled(c *web.Request, answer func(*inbox.Upload) error) error {
	u, release, err := lockUpload(c)
	if err != nil {
		return err
	}
	defer release()
	if err := repairOffset(c, u); err != nil {
		return err
	}
	return answer(u)
}

var OverrideUpload = web.Operation{
	Headers: ofOwnUpload,
	Tag:     "tus", Summary: "Runs the method in X-HTTP-Method-Override. It is for clients with GET and POST alone.",
	Args: []web.Param{tusArgs.version, tusArgs.override, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece,
	Reply: web.Reply{Status: 204, Doc: "Done.", Body: nil}, Fails: []int{403, 404, 405, 409, 410, 412, 460}, Tus: true, Serve: tus(overrideUpload),
}

var OverrideSending = web.Operation{
	Headers: ofSentUpload,
	Tag:     "public", Summary: "Runs the method in X-HTTP-Method-Override. It is for clients with GET and POST alone.",
	Args: []web.Param{tusArgs.version, tusArgs.override, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece,
	Reply: web.Reply{Status: 204, Doc: "Done.", Body: nil}, Fails: []int{
		403, 404, 405, 409, 410, 412, 429, 460, 503, 507,
	}, Tus: true,
	Serve: SenderOperation(tus(overrideUpload)),
}

func overrideUpload(c *web.Request) error {
	switch strings.ToUpper(c.R.Header.Get("X-Http-Method-Override")) {
	case http.MethodPatch:
		return continueUpload(c)
	case http.MethodDelete:
		return cancelUpload(c)
	case http.MethodHead:
		return respondSettled(c, func(u *inbox.Upload) error { return respondOffset(c, u) })
	}
	c.W.Header().Set("Allow", c.Site.Methods(c.R.URL.Path))
	return web.ErrMethod
}

// respondOffset answers with the state of the upload, without a body.
func respondOffset(c *web.Request, u *inbox.Upload) error {
	if err := setUploadHeaders(c, u); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

var CancelUpload = web.Operation{
	Tag: "tus", Summary: "Removes a resumable upload and its bytes.",
	Args: []web.Param{tusArgs.version}, Reply: web.Reply{Status: 204, Doc: "Removed.", Body: nil}, Fails: []int{404, 409, 412}, Tus: true,
	Serve: tus(cancelUpload),
}

var CancelSending = web.Operation{
	Tag: "public", Summary: "Removes the upload and its bytes, and releases its reservation.",
	Args: []web.Param{tusArgs.version}, Reply: web.Reply{Status: 204, Doc: "Removed.", Body: nil}, Fails: []int{404, 409, 410, 412, 503, 507}, Tus: true,
	Serve: SenderOperation(tus(cancelUpload)),
}

func cancelUpload(c *web.Request) error {
	u, release, err := lockUpload(c)
	if err != nil {
		return err
	}
	defer release()
	if u.Done() {
		return &record.Error{
			Fault: record.Taken, Code: "upload_complete", Text: "The upload is complete and cannot be cancelled.",
		}
	}
	if err := forgetUpload(c, u); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

func forgetUpload(c *web.Request, u *inbox.Upload) error {
	if err := c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.RemoveUpload(tx, u.Owner, u.ID) }); err != nil {
		return err
	}
	removePart(c, u)
	return nil
}

func removePart(c *web.Request, u *inbox.Upload) {
	if err := c.Site.Blobs.Parts.Drop(u.ID.String()); err != nil {
		c.Site.Log.Warn("cannot remove the bytes of an upload; the sweep will remove them", "error", err)
	}
}

// uploadOptions are the options of a request that starts an upload.
type uploadOptions struct {
	length int64 // -1 if unknown
	meta   metadata
	piece  bool // the body has the first bytes
	sum    *checksum
}

func readUploadOptions(c *web.Request) (b uploadOptions, err error) {
	b.length, err = lengthOf(c)
	if err != nil {
		return b, err
	}
	if b.length >= 0 && c.R.Header.Get("Upload-Defer-Length") != "" {
		return b, badTus("Upload-Length and Upload-Defer-Length cannot be used together.")
	}
	if c.R.Header.Get("Upload-Concat") != "" {
		return b, badTus("This server does not join uploads. Send the file as one upload, without Upload-Concat.")
	}
	b.meta, err = parseMetadata(strings.Join(c.R.Header.Values("Upload-Metadata"), ","))
	if err != nil {
		return b, err
	}
	b.piece = c.R.ContentLength != 0
	if b.piece {
		if err := isPiece(c); err != nil {
			return b, err
		}
	}
	b.sum, err = readChecksum(c)
	return b, err
}

var BeginUpload = web.Operation{
	Headers: append([]string{"Location"}, ofOwnUpload...),
	Tag:     "tus", Summary: "Starts a resumable upload. Location has its address. A body has the first bytes. " + aboutUploadedFile,
	Args: []web.Param{
		tusArgs.version, tusArgs.length,
		{
			In: "header", Name: "Upload-Defer-Length", Doc: "1 instead of Upload-Length, if the length is still unknown.",
			Schema: web.Object{"type": "integer", "enum": []int{1}},
		},
		tusMetadata(
			"filename, filetype, and the fields of an upload. They are checked now, and the slug is reserved.",
		),
		tusArgs.sum, web.IdempotencyArg,
	},
	Body:  tusPiece,
	Reply: web.Reply{Status: 201, Doc: "The state of the upload.", Body: web.DataOf("ResumableUpload")},
	Fails: []int{404, 409, 410, 412, 460}, Tus: true,
	Serve: tus(beginUpload),
}

// beginUpload starts an upload. A repetition with the same Idempotency-Key gets the upload that the
// first request started, with its present offset: its own bytes are not read.
func beginUpload(c *web.Request) error {
	key, err := web.IdempotencyKey(c.R)
	if err != nil {
		return err
	}
	b, err := readUploadOptions(c)
	if err != nil {
		return err
	}
	u := &inbox.Upload{Owner: c.Owner(), By: c.Caller.Key.ID, Length: b.length}
	if u.Length < 0 && c.R.Header.Get("Upload-Defer-Length") != "1" {
		return badTus("The request needs Upload-Length, or Upload-Defer-Length: 1.")
	}
	form, problems := b.meta.form()
	unknown := c.RefuseUnknown(record.Upload{Form: form}, b.meta.fields(), ownMetadata...)
	if err := web.JoinProblems(unknown, problems, form.CheckNew(c.Site.Store.Now())); err != nil {
		return err
	}
	request := b.fingerprint(c, key)
	var earlier find
	repeat := func() error { return repeatBegin(c, ownAddress, earlier) }
	if key != "" {
		earlier = func(tx *kv.Tx) (*inbox.Upload, error) { return begunBefore(tx, c, key, request) }
		if err := repeat(); !kv.Missing(err) { // before the limits, which the upload has already passed
			return err
		}
	}
	budget, err := BudgetOf(c.Site, c.Owner())
	if err != nil {
		return err
	}
	if err := budget.ErrTooLarge(max(u.Length, 0)); err != nil {
		return err
	}
	u.Password, err = c.Hash(form.Password)
	if err != nil {
		return err
	}
	u.Metadata, u.Slug = b.meta.shown(), form.Slug
	var begun *inbox.Upload
	err = c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		if earlier != nil {
			_, err := earlier(tx)
			if err == nil {
				return inbox.ErrBegun
			}
			if !kv.Missing(err) {
				return err
			}
		}
		begun, err = inbox.AddUpload(tx, *u)
		if err != nil || earlier == nil {
			return err
		}
		return jobs.SaveIdempotentAnswer(
			tx, c.Owner(), key, jobs.IdempotentAnswer{Request: request, Body: []byte(begun.ID.String())},
		)
	})
	if errors.Is(err, inbox.ErrBegun) { // a request at the same time was faster
		return orBusy(repeat())
	}
	if err != nil {
		return err
	}
	return finishBegin(c, begun, b, budget, ownAddress(begun), earlier)
}

func ownAddress(u *inbox.Upload) string { return TusPath + "/" + u.ID.String() }

// find reads the upload that repetitions of a request with an Idempotency-Key get. It fails with
// Missing if no request began one, or if it was removed. It is nil for a request without a key.
type find func(*kv.Tx) (*inbox.Upload, error)

// fingerprint identifies the request.
func (b *uploadOptions) fingerprint(c *web.Request, key string) []byte {
	return Fingerprint(c, key, nil, field.Object{
		"length": strconv.FormatInt(b.length, 10), "metadata": strings.Join(c.R.Header.Values("Upload-Metadata"), ","),
	})
}

// repeatBegin answers a repeated request with the upload that the first one started. If the first
// one still runs, it ends and its bytes are kept. The error is Missing if the upload is gone.
func repeatBegin(c *web.Request, addressOf func(*inbox.Upload) string, earlier find) error {
	var u *inbox.Upload
	read := func(tx *kv.Tx) (err error) { u, err = earlier(tx); return err }
	if err := c.Site.Store.View(read); err != nil {
		return err
	}
	_, release, err := c.Site.UploadLocks.Take(c, u.ID)
	if err != nil {
		return err
	}
	defer release()
	if err := c.Site.Store.View(read); err != nil {
		return orBusy(err)
	}
	if err := repairOffset(c, u); err != nil {
		return orBusy(err)
	}
	c.W.Header().Set("Location", c.Site.Prefix()+addressOf(u))
	return answerUpload(c, http.StatusCreated, u)
}

// begunBefore finds the upload that an earlier request with the Idempotency-Key started. It fails
// with Missing if there was none or the upload is gone.
func begunBefore(tx *kv.Tx, c *web.Request, key string, request []byte) (*inbox.Upload, error) {
	earlier, err := jobs.FindAnswer(tx, c.Owner(), key)
	if err != nil {
		return nil, err
	}
	id, err := earlier.For(request)
	if err != nil {
		return nil, err
	}
	began, err := uuid.ParseBytes(id)
	if err != nil {
		return nil, err
	}
	u, err := current(inbox.FindUpload(tx, c.Owner(), began))
	if err != nil {
		return nil, err
	}
	if !maySee(c, u.By) {
		return nil, record.NotFound("upload")
	}
	return u, nil
}

// finishBegin receives the first bytes of a new upload and answers with its address. If anything
// fails, it removes the upload, because the client does not have the address yet. But if a
// repetition can find the upload, it stays while it has bytes or a repetition is waiting for it.
func finishBegin(c *web.Request, u *inbox.Upload, b uploadOptions, budget *Budget, at string, again find) error {
	t, release, err := c.Site.UploadLocks.Take(c, u.ID)
	if err != nil {
		if again == nil {
			discardBegun(c, u)
		}
		return err
	}
	defer release()
	u, err = takeFirstPiece(c, u, b, budget, t, again)
	if err != nil && again == nil {
		discardBegun(c, u)
		return err
	}
	if err != nil {
		if !isFinal(err) && (t.Over.Load() || u.Offset > 0) {
			return err
		}
		discardBegun(c, u)
		return orBusy(err)
	}
	c.W.Header().Set("Location", c.Site.Prefix()+at)
	return answerUpload(c, http.StatusCreated, u)
}

// takeFirstPiece receives the bytes that came with the request for a new upload, unless a repetition was faster. It
// returns the upload as it is afterwards, also with an error.
func takeFirstPiece(
	c *web.Request, u *inbox.Upload, b uploadOptions, budget *Budget, t *web.UploadLock, again find,
) (*inbox.Upload, error) {
	late := false // a repetition was faster
	if again != nil {
		var now *inbox.Upload
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) { now, err = again(tx); return err }); err != nil {
			return u, err
		}
		late = now.ID != u.ID || now.Done() || now.Offset != u.Offset
		u = now
	}
	if b.piece && !late {
		if err := takePiece(c, u, budget, b.sum, t); err != nil {
			return u, err
		}
	}
	return u, repairOffset(c, u)
}

// isFinal reports whether an upload cannot be continued after the error: it is gone, or its link does not accept it.
func isFinal(err error) bool {
	e, ok := errors.AsType[*record.Error](err)
	return ok && (e.Fault == record.Missing || e.Fault == record.Gone || e.Code == codeType)
}

// discardBegun removes an upload whose address the client does not have.
func discardBegun(c *web.Request, u *inbox.Upload) {
	if err := forgetUpload(c, u); err != nil && !kv.Missing(err) {
		c.Site.Log.Warn("cannot remove an upload that did not start; the sweep will remove it", "error", err)
	}
}

// orBusy is the error for a request with an Idempotency-Key whose upload was removed meanwhile: the
// client does not know about it, and has to send its request again.
func orBusy(err error) error {
	if kv.Missing(err) {
		return &record.Error{
			Fault: record.Busy, Code: "upload_busy",
			Text: "An earlier request for this upload has just ended. Send this one again.", Retry: time.Second,
		}
	}
	return err
}

// current hides an upload that has expired: a repetition starts another one.
func current(u *inbox.Upload, err error) (*inbox.Upload, error) {
	if e, ok := errors.AsType[*record.Error](err); ok && e.Code == inbox.CodeExpired {
		return nil, record.NotFound("upload")
	}
	return u, err
}

var ContinueUpload = web.Operation{
	Headers: ofOwnUpload,
	Tag:     "tus", Summary: "Adds bytes to a resumable upload. This ends another request that adds bytes to it. " + aboutUploadedFile,
	Args: []web.Param{tusArgs.version, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece,
	Reply: web.Reply{Status: 204, Doc: "The new offset, in Upload-Offset.", Body: nil},
	Fails: []int{403, 404, 409, 410, 412, 460}, Tus: true,
	Serve: tus(continueUpload),
}

var ContinueSending = web.Operation{
	Headers: ofSentUpload,
	Tag:     "public", Summary: "Adds bytes to the upload. This ends another request that adds bytes to it. " + aboutSentItem,
	Args: []web.Param{tusArgs.version, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece,
	Reply: web.Reply{Status: 204, Doc: "The new offset, in Upload-Offset.", Body: nil},
	Fails: []int{403, 404, 409, 410, 412, 429, 460, 503, 507},
	Tus:   true, Serve: SenderOperation(tus(continueUpload)),
}

func continueUpload(c *web.Request) error {
	if err := isPiece(c); err != nil {
		return err
	}
	at, err := number(c.R.Header.Values("Upload-Offset"))
	if err != nil || at < 0 {
		return badTus("The request needs Upload-Offset, a whole number.")
	}
	length, err := lengthOf(c)
	if err != nil {
		return err
	}
	sum, err := readChecksum(c)
	if err != nil {
		return err
	}
	u, t, release, err := lockWithBody(c)
	if err != nil {
		return err
	}
	defer release()
	if err := repairOffset(c, u); err != nil {
		return err
	}
	if at != u.Offset {
		return withOffset(
			c, u,
			&record.Error{
				Fault: record.Taken, Code: "offset_mismatch",
				Text: "The upload is at " + strconv.FormatInt(u.Offset, 10) + ", not at " + strconv.FormatInt(at, 10) + ".",
			},
		)
	}
	budget := new(Budget) // a sender's is not asked: only its known length limits it
	if !u.BySender() {
		budget, err = BudgetOf(c.Site, c.Owner())
		if err != nil {
			return err
		}
	}
	switch {
	case length < 0 || length == u.Length:
	case u.Length >= 0:
		return badTus("The upload already has another length.")
	default:
		if length < u.Offset {
			return badTus("The upload already has more bytes.")
		}
		if length > budget.File {
			return budget.ErrTooLarge(length)
		}
		u.Length = length
		if err := c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) }); err != nil {
			return err
		}
	}
	if u.Done() {
		if c.R.ContentLength == 0 { // repeated, because the answer was lost
			return respondOffset(c, u)
		}
		return errPastEnd(u, budget)
	}
	if err := takePiece(c, u, budget, sum, t); err != nil {
		return err
	}
	if err := repairOffset(c, u); err != nil {
		return err
	}
	return respondOffset(c, u)
}

func withOffset(c *web.Request, u *inbox.Upload, err error) error {
	c.W.Header().Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	return err
}

func badTus(text string) error {
	return &record.Error{Fault: record.Malformed, Code: "malformed", Text: text}
}

// lengthOf is Upload-Length; -1 if it is absent.
func lengthOf(c *web.Request) (int64, error) {
	all := c.R.Header.Values("Upload-Length")
	if len(all) == 0 {
		return -1, nil
	}
	n, err := number(all)
	if errors.Is(err, strconv.ErrRange) { // too large for everybody; n is the largest number
		return n, nil
	}
	if err != nil {
		return 0, badTus("Upload-Length must be a whole number that is not negative.")
	}
	return n, nil
}

// number reads a header with a single value of decimal digits.
func number(values []string) (int64, error) {
	if len(values) != 1 || values[0] == "" || strings.Trim(values[0], "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(values[0], 10, 64)
}

// isPiece refuses a body that is not bytes of an upload.
func isPiece(c *web.Request) error {
	media, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if enc := c.R.Header.Get("Content-Encoding"); err != nil || media != TusBody ||
		enc != "" && !strings.EqualFold(enc, "identity") {
		if c.R.Method == http.MethodPatch {
			c.W.Header().Set("Accept-Patch", TusBody)
		}
		return &record.Error{
			Fault: record.WrongType, Code: "unsupported_media_type",
			Text: "The body must be bytes of the upload, with the Content-Type " + TusBody + ".",
		}
	}
	return nil
}

// checksum is the expected checksum of the body; nil if the client sends none.
type checksum struct {
	hash.Hash
	want []byte
}

func readChecksum(c *web.Request) (*checksum, error) {
	text := c.R.Header.Get("Upload-Checksum")
	if text == "" {
		return nil, nil //nolint:nilnil // the checksum is optional
	}
	name, value, _ := strings.Cut(text, " ")
	sum := new(checksum)
	switch name {
	case "sha1":
		sum.Hash = sha1.New() // #nosec G401 -- see above
	case "sha256":
		sum.Hash = sha256.New()
	default:
		return nil, badTus("Upload-Checksum must be of one of these algorithms: " + tusChecksums + ".")
	}
	var err error
	sum.want, err = base64.StdEncoding.DecodeString(value)
	if err != nil || len(sum.want) != sum.Size() {
		return nil, badTus("Upload-Checksum must have a " + name + " checksum in base64.")
	}
	return sum, nil
}

// openPart opens the bytes of an upload at its offset. If some are missing, such as in a copy of the
// data directory, the upload starts from scratch.
func openPart(c *web.Request, u *inbox.Upload) (*blobs.Stage, error) {
	st, err := c.Site.Blobs.Resume(u.ID.String(), u.Offset, u.State)
	if !errors.Is(err, blobs.ErrPartLost) {
		return st, err
	}
	if err := restartUpload(c, u); err != nil {
		return nil, err
	}
	return c.Site.Blobs.Resume(u.ID.String(), 0, nil)
}

func restartUpload(c *web.Request, u *inbox.Upload) error {
	c.Site.Log.Warn("the bytes of an upload are missing; it starts from scratch", "id", u.ID.String(), "bytes", u.Offset)
	u.Offset, u.State = 0, nil
	return c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })
}

// takePiece receives the bytes of the body. If the connection breaks, the received bytes are kept,
// unless there is a checksum, which is that of the whole body.
func takePiece(c *web.Request, u *inbox.Upload, m *Budget, sum *checksum, t *web.UploadLock) error {
	left := min(m.File-u.Offset, m.Left)
	if u.Length >= 0 {
		left = u.Length - u.Offset
	}
	if left < 0 || c.R.ContentLength > left {
		return errPastEnd(u, m)
	}
	if c.Site.Store.FreeForContent() == 0 {
		return kv.ErrFull
	}
	u.MovedTo = min(u.MovedTo, u.Offset) // bytes that were lost count again
	if err := keepFromSweep(c, u, u.Offset); err != nil {
		return err
	}
	st, err := openPart(c, u)
	if err != nil {
		return err
	}
	defer func() {
		if err := st.Drop(); err != nil {
			c.Site.Log.Warn("cannot close the bytes of an upload", "error", err)
		}
	}()
	body := &readErrors{r: c.R.Body}
	in := io.Reader(body)
	if u.BySender() {
		in, err = checkHead(c, u, in)
		if err != nil {
			return err
		}
	}
	if sum != nil {
		in = io.TeeReader(in, sum)
	}
	for ended := false; !ended; {
		some := &piece{r: in, left: min(NoteBytes, left), until: time.Now().Add(noteTime)}
		n, err := st.ReadFrom(some)
		left -= n
		if err != nil && body.err == nil {
			return err // an error of the disk, not of the client
		}
		ended = err != nil || some.ended
		if left == 0 && !ended {
			if more, err := body.Read(make([]byte, 1)); more > 0 {
				return errPastEnd(u, m)
			} else if err == io.EOF { // readers return it bare
				ended = true
			}
		}
		if sum != nil && (!ended || body.err != nil) {
			if err := keepFromSweep(c, u, st.Size()); err != nil {
				return err
			}
			continue
		}
		if sum != nil && string(sum.Sum(nil)) != string(sum.want) {
			return withOffset(c, u, web.ErrTusChecksum)
		}
		if err := saveOffset(c, u, st); err != nil {
			return err
		}
		if c.Site.Store.FreeForContent() == 0 && !ended {
			return kv.ErrFull
		}
	}
	switch {
	case body.err == nil:
		return nil
	case t.Over.Load():
		return &record.Error{Fault: record.Taken, Code: "upload_taken_over", Text: "Another request continues this upload."}
	}
	return web.BodyError(body.err)
}

// holdTime is the minimum time until an upload expires while its bytes arrive.
const holdTime = time.Hour

// keepFromSweep extends the time of an upload whose progress is not stored yet. It also notes
// how far the bytes of a sender have come, so that the upload keeps its place.
func keepFromSweep(c *web.Request, u *inbox.Upload, size int64) error {
	now := c.Site.Store.Now()
	if !u.Move(size, now) && u.Expires.Sub(now) >= holdTime {
		return nil
	}
	return c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })
}

// errPastEnd is the error for too many bytes.
func errPastEnd(u *inbox.Upload, m *Budget) error {
	if u.Length >= 0 {
		return &record.Error{
			Fault: record.TooLarge, Code: "too_large",
			Text: "The body goes beyond the length of the upload, " + record.Plural(u.Length, "byte") + ".",
		}
	}
	if m.Left < m.File-u.Offset {
		return m.ErrTooLarge(m.Left + 1)
	}
	return m.ErrTooLarge(m.File + 1)
}

// saveOffset makes the written bytes durable, then stores the new offset.
func saveOffset(c *web.Request, u *inbox.Upload, st *blobs.Stage) error {
	if st.Size() == u.Offset {
		return nil
	}
	size, state, err := st.Sync()
	if err != nil {
		return err
	}
	before := *u
	u.Offset, u.State = size, state
	update := c.UpdateAsCaller
	if u.BySender() {
		update = c.Site.Store.Update
	}
	if err := update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) }); err != nil {
		*u = before
		return err
	}
	return nil
}

// piece reads up to left bytes, until a time.
type piece struct {
	r     io.Reader
	left  int64
	until time.Time
	ended bool // r was read to its end
}

func (p *piece) Read(b []byte) (int, error) {
	if p.left == 0 || !time.Now().Before(p.until) {
		return 0, io.EOF
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	p.ended = err == io.EOF // readers return it bare
	return n, err
}

// repairOffset makes the offset of an upload match the stored bytes. If its bytes are missing, the upload starts from
// scratch. If all are there, it becomes a file, which may have failed before.
func repairOffset(c *web.Request, u *inbox.Upload) error {
	switch {
	case u.Done():
		return nil
	case u.Offset == u.Length:
		return finishUpload(c, u)
	}
	st, err := openPart(c, u)
	if err != nil {
		return err
	}
	return st.Drop()
}

// finishUpload makes the file of a complete upload: first the content, then the record. If the record
// fails, the content stays for another attempt.
func finishUpload(c *web.Request, u *inbox.Upload) error {
	meta, err := parseMetadata(u.Metadata)
	if err != nil {
		return err
	}
	kept, err := completeContent(c, u)
	if errors.Is(err, fs.ErrNotExist) {
		return restartUpload(c, u)
	}
	if err != nil {
		return err
	}
	in := NewIntake(c.Site)
	in.Strangers, in.Stays = u.BySender(), true
	defer in.Close()
	one := &File{Name: meta.fileName(), Claimed: meta.text("filetype")}
	in.Adopt(one, kept)
	if u.BySender() {
		if err := in.Keep(c.R.Context()); err != nil {
			return err
		}
		return finishSenderUpload(c, u, in)
	}

	form, problems := meta.form()
	if problems != nil {
		return problems
	}
	in.NameFirst(form)
	if err := in.Keep(c.R.Context()); err != nil {
		return err
	}
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		if err := in.Carry(tx); err != nil {
			return err
		}
		return inbox.FinishUpload(tx, u, one.Form(form), one.Content())
	}); err != nil {
		u.File = uuid.Nil
		return err
	}
	removePart(c, u) // still there if the content existed already
	return nil
}

// completeContent makes a blob of the bytes of an upload, unless that was already done.
func completeContent(c *web.Request, u *inbox.Upload) (*blobs.Kept, error) {
	st, err := c.Site.Blobs.Resume(u.ID.String(), u.Offset, u.State)
	if errors.Is(err, blobs.ErrPartLost) {
		return c.Site.Blobs.Adopt(u.Offset, u.State)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Drop() }() // does nothing after Keep
	return st.Keep()
}

// lockWithBody locks the upload in the path and reads it.
func lockWithBody(c *web.Request) (u *inbox.Upload, t *web.UploadLock, release func(), err error) {
	u, err = findUpload(c) // do not wait for an upload that does not exist
	if err != nil {
		return nil, nil, nil, err
	}
	t, release, err = c.Site.UploadLocks.Take(c, u.ID)
	if err != nil {
		return nil, nil, nil, err
	}
	u, err = findUpload(c)
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	return u, t, release, nil
}

// lockUpload is lockWithBody for a request without a body.
func lockUpload(c *web.Request) (*inbox.Upload, func(), error) {
	u, _, release, err := lockWithBody(c)
	return u, release, err
}

// metadata is the content of Upload-Metadata.
type metadata []metadatum

type metadatum struct{ name, value string }

// parseMetadata reads pairs of a name and a value in base64, separated by commas. A value may be
// missing. A name may occur only once.
func parseMetadata(text string) (metadata, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var all metadata
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(text, ",") {
		name, coded, _ := strings.Cut(strings.TrimSpace(pair), " ")
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, badTus("Upload-Metadata must be pairs of a name and a value in base64, separated by commas.")
		}
		value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(coded))
		if err != nil {
			return nil, badTus("Upload-Metadata: the value of " + strconv.Quote(shorten(name)) + " is not base64.")
		}
		if seen[name] {
			return nil, badTus("Upload-Metadata names " + strconv.Quote(shorten(name)) + " twice.")
		}
		seen[name] = true
		all = append(all, metadatum{name, string(value)})
	}
	return all, nil
}

// ownMetadata are the metadata that every tus client sends about its file.
var ownMetadata = []string{"filename", "filetype"}

func (m metadata) text(name string) string {
	for _, d := range m {
		if d.name == name {
			return d.value
		}
	}
	return ""
}

func (m metadata) fileName() string {
	return media.FileName(m.text("filename"))
}

// ofSender is the part that is kept of a sender's upload: known names with values that are not long.
// The form has the sender's name and message.
func (m metadata) ofSender(form *inbox.SenderForm) (kept metadata) {
	for _, d := range m {
		switch d.name {
		case "filename":
			if len(d.value) > record.MaxFileName {
				d.value = m.fileName()
			}
		case "filetype":
			if len(d.value) > record.MaxFileName {
				continue
			}
		case "name":
			d.value = form.Name // without spaces around it
		case "message": // as long as the form allows
		default:
			continue
		}
		kept = append(kept, d)
	}
	return kept
}

// shown is the metadata as a header, without the password.
func (m metadata) shown() string {
	var pairs []string
	for _, d := range m {
		if d.name != "password" {
			pairs = append(pairs, strings.TrimSuffix(d.name+" "+base64.StdEncoding.EncodeToString([]byte(d.value)), " "))
		}
	}
	return strings.Join(pairs, ",")
}

// form is the form of the file, with an error if it has problems.
func (m metadata) form() (*record.Form, error) {
	form := record.NewForm(record.Files)
	return form, field.Create(record.Upload{Form: form}, m.fields())
}

func (m metadata) fields() field.Object {
	in := field.Object{}
	for _, d := range m {
		in[d.name] = d.value
	}
	return in
}
