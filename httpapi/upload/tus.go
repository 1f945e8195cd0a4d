package upload

import (
	"crypto/sha1" // #nosec G505 -- tus asks for it; it finds accidents
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
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
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// What is offered of tus, the protocol of resumable uploads
// (https://tus.io/protocols/resumable-upload).

const TusPath = web.ApiPath + "tus"

const tusExtensions = "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination,concatenation"

const tusSending = "creation,creation-with-upload,expiration,checksum,termination,concatenation" // for senders

const tusChecksums = "sha1,sha256"

const TusBody = "application/offset+octet-stream"

// A request notes how far it is after so many bytes or so long, so that a
// server that is killed has lost no more.
const (
	NoteBytes = 32 << 20
	noteTime  = 5 * time.Second
)

// tusArgs are the headers that requests of the protocol have.
var tusArgs = struct{ version, offset, length, concat, sum, override web.Param }{
	version:  web.Param{In: "header", Name: "Tus-Resumable", Doc: "The version of tus; 412 if it is another.", Schema: web.Object{"type": "string", "enum": []string{web.TusVersion}}, Example: web.TusVersion},
	offset:   web.Param{In: "header", Name: "Upload-Offset", Doc: "Where the bytes of the body belong; 409 if that is not where the upload is.", Schema: web.Object{"type": "integer", "minimum": 0}, Example: 1048576},
	length:   web.Param{In: "header", Name: "Upload-Length", Doc: "Bytes of the whole.", Schema: web.Object{"type": "integer", "minimum": 0}, Example: 20971520},
	concat:   web.Param{In: "header", Name: "Upload-Concat", Doc: "partial for a part of a file, which is no file on its own; final; and the addresses of complete parts, separated by blanks, for the file that they make together, which needs no length.", Schema: web.Object{"type": "string"}, Example: "partial"},
	sum:      web.Param{In: "header", Name: "Upload-Checksum", Doc: "Algorithm (" + tusChecksums + ") and checksum of the body in base64; 460, with nothing of the body kept, if it is another.", Schema: web.Object{"type": "string"}, Example: "sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0="},
	override: web.Param{In: "header", Name: "X-HTTP-Method-Override", Doc: "PATCH, DELETE or HEAD.", Schema: web.Object{"type": "string", "enum": []string{"PATCH", "DELETE", "HEAD"}}, Example: "PATCH"},
}

func tusPiece() *web.Content {
	return web.Maybe(&web.Content{Media: TusBody, Schema: web.Object{"type": "string", "format": "binary"}, Example: "…"})
}

// tusMetadata is the header with what is said of an upload.
func tusMetadata(doc, example string) web.Param {
	return web.Param{In: "header", Name: "Upload-Metadata", Doc: "Pairs of a name and a value in base64, separated by commas: " + doc, Schema: web.Object{"type": "string"}, Example: example}
}

const aboutUploadedFile = "The answer's headers X-Kist-Id, X-Kist-Slug and X-Kist-Url name the file once it is made."

// uploadState is what an owner is told about an upload.
var uploadState = web.Named("ResumableUploadAnswer", web.JSONOf(web.Members(web.Object{
	"data": web.Ref("ResumableUpload"),
	"file": web.Object{"allOf": []web.Object{web.Ref("MaybeFile")}, "description": "The file that was made of the upload, once all bytes are there.", "example": nil},
}, "data", "file"), nil))

// tusDescribed is the answer to a question about the protocol.
var tusDescribed = web.Reply{Status: 204, Doc: "In the headers Tus-Version, Tus-Extension, Tus-Max-Size and Tus-Checksum-Algorithm.", Body: nil}

var DescribeTus = web.Operation{
	Tag: "tus", Summary: "Says what is offered of the protocol of resumable uploads.",
	Reply: tusDescribed, Tus: true, Serve: describeTus(tusExtensions),
}

var DescribeTusOfOne = web.Operation{
	Tag: "tus", Summary: "Says what is offered of the protocol of resumable uploads.",
	Reply: tusDescribed, Tus: true, Serve: describeTus(tusExtensions),
}

// tus is an operation of the protocol, which names its version.
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

// describeTus says what is offered of the protocol: these extensions.
func describeTus(extensions string) func(*web.Request) error {
	return func(c *web.Request) error { return respondTusOptions(c, extensions) }
}

func respondTusOptions(c *web.Request, extensions string) error {
	limit := c.Site.MaxUpload
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		set, err := people.Settings(tx)
		if set.MaxUpload > 0 {
			limit = min(limit, set.MaxUpload)
		}
		return err
	}); err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Allow", c.Site.Methods(c.R.URL.Path))
	h.Set("Tus-Version", web.TusVersion)
	h.Set("Tus-Extension", extensions)
	h.Set("Tus-Checksum-Algorithm", tusChecksums)
	h.Set("Tus-Max-Size", strconv.FormatInt(limit, 10))
	c.W.WriteHeader(http.StatusNoContent)
	return nil
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
	s.MaybeNumber("length", &v.Length, 0, math.MaxInt64).Says("Bytes of the whole; null if that is not known yet.", `20971520`)
	s.Number("offset", &v.Offset, 0, math.MaxInt64).Says("Bytes that are there.", `1048576`)
	s.Bool("complete", &v.done).Says("Whether the file has been made of it.", `false`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was begun.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says("When it is forgotten, unless more bytes come.", `"2026-01-03T03:04:05.678Z"`)
}

func showUpload(u *inbox.Upload) *ShownUpload {
	v := &ShownUpload{Upload: *u, name: u.FileName, done: u.Done()}
	if meta, err := parseMetadata(u.Metadata); err == nil && !v.done {
		v.name = meta.fileName()
	}
	return v
}

var ListUploadsBegun = web.Operation{
	Tag: "tus", Summary: "Lists the resumable uploads that are not complete.",
	Args: web.PageParams(web.ShortSorts), Reply: web.Reply{Status: 200, Doc: "A page of uploads.", Body: web.ListOf("ResumableUpload")}, Tus: true,
	Serve: listUploadsBegun,
}

func listUploadsBegun(c *web.Request) error {
	return web.AnswerList(c, func(tx *kv.Tx) ([]inbox.Upload, error) { return inbox.Uploads(tx, c.Owner()) },
		func(u *inbox.Upload) (record.ID, string) { return u.ID, showUpload(u).name },
		func(_ *kv.Tx, u *inbox.Upload) (*ShownUpload, error) { return showUpload(u), nil })
}

// findUpload reads the upload that the address names: the caller's own, or the one of
// a sender who knows its secret.
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
	if err == nil && !maySee(c, u.By) {
		return nil, record.NotFound("upload")
	}
	return u, err
}

// maySee reports whether the caller may know of an upload or a remote upload that
// the credential began: one that may read sees all of its owner, others see
// their own.
func maySee(c *web.Request, by record.ID) bool {
	return c.Caller.Key.Allows(record.ScopeRead) || by == c.Caller.Key.ID
}

// setUploadHeaders sets the headers that tell how far the upload is.
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
	switch {
	case u.Partial:
		h.Set("Upload-Concat", "partial")
	case u.Parts != nil && u.BySender(): // the store does not know the secret addresses of its parts
		h.Set("Upload-Concat", "final;")
	case u.Parts != nil:
		all := make([]string, len(u.Parts))
		for i, id := range u.Parts {
			all[i] = c.Site.Prefix() + TusPath + "/" + id.String()
		}
		h.Set("Upload-Concat", "final;"+strings.Join(all, " "))
	}
	if !u.Done() {
		h.Set("Upload-Expires", u.Expires.UTC().Format(http.TimeFormat))
		return nil
	}
	if u.BySender() {
		h.Set("X-Kist-Item", u.Item.String())
		h.Set("X-Kist-Status", string(u.Arrived))
		return nil
	}
	err := c.Site.Store.View(func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, u.Owner, record.Files, u.File.String())
		if err == nil {
			v := record.Shown{Record: *r, Base: c.Site.Base}
			h.Set("X-Kist-Id", r.ID.String())
			h.Set("X-Kist-Slug", r.Slug)
			h.Set("X-Kist-Url", strings.Trim(string(v.AppendURL(nil)), `"`))
		}
		return err
	})
	if web.IsMissing(err) { // it was deleted since
		return nil
	}
	return err
}

// answerUpload answers the upload and, if there is one, its file; a sender's with
// what it was made.
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
				if err == nil {
					dst, err = c.Site.Show(tx, dst, r)
				}
				return err
			})
		}
		if web.IsMissing(err) {
			dst, err = append(dst, "null"...), nil
		}
		return append(dst, '}'), err
	})
}

var ReadUpload = web.Operation{
	Tag:     "tus",
	Summary: "Says how far a resumable upload is, and shows the file that was made of it, for a day. HEAD with Tus-Resumable ends a request that is still sending bytes, and answers 423 if it must be asked again later.",
	Reply:   web.Reply{Status: 200, Doc: "How far it is.", Body: uploadState}, Fails: []int{403, 404, 409, 410, 412, 413, 423, 507}, Tus: true,
	Serve: readUpload,
}

var ReadSending = web.Operation{
	Tag:     "public",
	Summary: "Says how far the upload is and, for a day, what was made of it. HEAD with Tus-Resumable ends a request that is still sending bytes, and answers 423 if it must be asked again later.",
	Reply:   web.Reply{Status: 200, Doc: "How far it is.", Body: senderUploadState}, Fails: []int{403, 404, 409, 410, 412, 413, 415, 423, 429, 503, 507},
	Tus: true, Serve: SenderOperation(readUpload),
}

// readUpload looks at an upload. HEAD with the version of tus is how a client
// finds out where to go on: it ends the request that went before, and leaves
// nothing undone. HEAD without it is GET without the body.
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

// respondSettled gives the answer for an upload whose turn it is and of which nothing
// is left undone.
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
	Tag: "tus", Summary: "Does what X-HTTP-Method-Override says, for clients that can only GET and POST.",
	Args: []web.Param{tusArgs.version, tusArgs.override, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece(),
	Reply: web.Reply{Status: 204, Doc: "Done.", Body: nil}, Fails: []int{403, 404, 405, 409, 410, 412, 460}, Tus: true, Serve: tus(overrideUpload),
}

var OverrideSending = web.Operation{
	Tag: "public", Summary: "Does what X-HTTP-Method-Override says, for clients that can only GET and POST.",
	Args: []web.Param{tusArgs.version, tusArgs.override, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece(),
	Reply: web.Reply{Status: 204, Doc: "Done.", Body: nil}, Fails: []int{403, 404, 405, 409, 410, 412, 429, 460, 503, 507}, Tus: true,
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

// respondOffset answers without a body how far the upload is.
func respondOffset(c *web.Request, u *inbox.Upload) error {
	if err := setUploadHeaders(c, u); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

var CancelUpload = web.Operation{
	Tag: "tus", Summary: "Forgets a resumable upload and its bytes.",
	Args: []web.Param{tusArgs.version}, Reply: web.Reply{Status: 204, Doc: "Gone.", Body: nil}, Fails: []int{404, 409, 412}, Tus: true,
	Serve: tus(cancelUpload),
}

var CancelSending = web.Operation{
	Tag: "public", Summary: "Forgets the upload and its bytes, and gives back what was reserved for it.",
	Args: []web.Param{tusArgs.version}, Reply: web.Reply{Status: 204, Doc: "Gone.", Body: nil}, Fails: []int{404, 409, 410, 412, 503, 507}, Tus: true,
	Serve: SenderOperation(tus(cancelUpload)),
}

func cancelUpload(c *web.Request) error {
	u, release, err := lockUpload(c)
	if err != nil {
		return err
	}
	defer release()
	if u.Done() || u.Joined() {
		return &record.Error{Fault: record.Taken, Code: "upload_complete", Text: "The upload is complete; it cannot be cancelled."}
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

// removePart removes the bytes of an upload that nobody waits for.
func removePart(c *web.Request, u *inbox.Upload) {
	if err := c.Site.Blobs.Parts.Drop(u.ID.String()); err != nil {
		c.Site.Log.Warn("the bytes of an upload are left to the sweep", "error", err)
	}
}

// uploadOptions is what a request says that begins an upload.
type uploadOptions struct {
	length int64 // -1 if it is not known
	meta   metadata
	concat string // Upload-Concat
	piece  bool   // its body is the first bytes
	sum    *checksum
}

func readUploadOptions(c *web.Request) (b uploadOptions, err error) {
	if b.length, err = lengthOf(c); err != nil {
		return b, err
	}
	if b.length >= 0 && c.R.Header.Get("Upload-Defer-Length") != "" {
		return b, badTus("Upload-Length and Upload-Defer-Length exclude each other.")
	}
	if b.concat = strings.TrimSpace(c.R.Header.Get("Upload-Concat")); b.concat != "" && b.concat != "partial" && !strings.HasPrefix(b.concat, "final;") {
		return b, badTus("Upload-Concat must be partial, or final; and addresses.")
	}
	if b.meta, err = parseMetadata(strings.Join(c.R.Header.Values("Upload-Metadata"), ",")); err != nil {
		return b, err
	}
	if b.piece = c.R.ContentLength != 0; b.piece {
		if err := isPiece(c); err != nil {
			return b, err
		}
	}
	b.sum, err = readChecksum(c)
	return b, err
}

// partial reports whether a part of a file begins.
func (b *uploadOptions) partial() bool { return b.concat == "partial" }

// final reports whether a file is made of parts.
func (b *uploadOptions) final() bool { return b.concat != "" && !b.partial() }

// MaxJoined is how many parts an upload may be made of.
const MaxJoined = 50

// parts are the ends of the addresses of the parts that a file is made of, which
// are below a path.
func (b *uploadOptions) parts(below string) ([]string, error) {
	var all []string
	for at := range strings.FieldsSeq(strings.TrimPrefix(b.concat, "final;")) {
		where, err := url.Parse(at)
		if err != nil {
			return nil, badTus("Upload-Concat names no addresses of uploads.")
		}
		end := path.Base(where.Path)
		if !strings.HasSuffix(path.Dir(where.Path), below) || slices.Contains(all, end) {
			return nil, badTus("Upload-Concat must name addresses of partial uploads, each once.")
		}
		all = append(all, end)
	}
	switch {
	case len(all) == 0 || len(all) > MaxJoined:
		return nil, badTus("Upload-Concat must name 1 to " + strconv.Itoa(MaxJoined) + " partial uploads.")
	case b.length >= 0 || b.piece:
		return nil, badTus("An upload that is made of others has neither a length nor bytes of its own.")
	}
	return all, nil
}

var BeginUpload = web.Operation{
	Tag: "tus", Summary: "Begins a resumable upload, at the address in Location; a body is its first bytes. " + aboutUploadedFile,
	Args: []web.Param{
		tusArgs.version, tusArgs.length, tusArgs.concat,
		{In: "header", Name: "Upload-Defer-Length", Doc: "1 in place of Upload-Length, if the length is not known yet.", Schema: web.Object{"type": "integer", "enum": []int{1}}, Example: 1},
		tusMetadata("filename, filetype, and the fields of an upload. They are checked now; the slug is kept free.", "filename YS50eHQ=,isPublic dHJ1ZQ=="),
		tusArgs.sum,
	},
	Body: tusPiece(), Reply: web.Reply{Status: 201, Doc: "How far it is.", Body: uploadState}, Fails: []int{404, 409, 410, 412, 460}, Tus: true,
	Serve: tus(beginUpload),
}

// beginUpload makes an upload of the caller's.
func beginUpload(c *web.Request) error {
	b, err := readUploadOptions(c)
	if err != nil {
		return err
	}
	if b.final() {
		return joinUploads(c, b)
	}
	u := &inbox.Upload{Owner: c.Owner(), By: c.Caller.Key.ID, Length: b.length, Partial: b.partial()}
	if u.Length < 0 && c.R.Header.Get("Upload-Defer-Length") != "1" {
		return badTus("The request needs Upload-Length, or Upload-Defer-Length: 1.")
	}
	form, problems := b.meta.form()
	if u.Partial { // the whole has the metadata
		form, problems = record.NewForm(record.Files), nil
	}
	if err := web.JoinProblems(problems, form.CheckNew(c.Site.Store.Now())); err != nil {
		return err
	}
	room, err := BudgetOf(c.Site, c.Owner())
	if err == nil {
		err = room.ErrTooLarge(max(u.Length, 0))
	}
	if err != nil {
		return err
	}
	if u.Password, err = c.Hash(form.Password); err != nil {
		return err
	}
	u.Metadata, u.Slug = b.meta.shown(), form.Slug
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) { u, err = inbox.AddUpload(tx, *u); return err }); err != nil {
		return err
	}
	return finishBegin(c, u, b, room, TusPath+"/"+u.ID.String())
}

// joinUploads makes an upload of complete parts, and its file. If that fails, the
// parts are as they were. Asked again after it succeeded, it answers as it did.
func joinUploads(c *web.Request, b uploadOptions) error {
	u := &inbox.Upload{Owner: c.Owner(), By: c.Caller.Key.ID}
	ends, err := b.parts(TusPath)
	if err != nil {
		return err
	}
	for _, end := range ends {
		id, err := uuid.Parse(end)
		if err != nil || slices.Contains(u.Parts, id) {
			return badTus("Upload-Concat must name addresses of partial uploads, each once.")
		}
		u.Parts = append(u.Parts, id)
	}
	form, problems := b.meta.form()
	if err := web.JoinProblems(problems, form.CheckNew(c.Site.Store.Now())); err != nil {
		return err
	}
	release, err := c.Site.UploadTurns.TakeAll(c, u.Parts)
	if err != nil {
		return err
	}
	defer release()
	room, err := BudgetOf(c.Site, c.Owner())
	if err != nil {
		return err
	}
	if u.Password, err = c.Hash(form.Password); err != nil {
		return err
	}
	u.Metadata, u.Slug = b.meta.shown(), form.Slug
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		for _, id := range u.Parts {
			if part, err := inbox.FindUpload(tx, c.Owner(), id); err != nil {
				return err
			} else if !maySee(c, part.By) {
				return record.NotFound("upload")
			}
		}
		if u, err = inbox.JoinUploads(tx, *u); err == nil && !u.Done() && u.Length > room.File {
			err = room.ErrTooLarge(u.Length)
		}
		if err == nil && !u.Done() && u.Length > room.Disk {
			err = kv.ErrFull
		}
		return err
	}); err != nil {
		return err
	}
	return finishBegin(c, u, b, room, TusPath+"/"+u.ID.String())
}

// join copies the parts of an upload one behind the other. What was copied
// before is kept.
func join(c *web.Request, u *inbox.Upload) error {
	var parts []*inbox.Upload
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) { parts, err = inbox.PartsOfUpload(tx, u); return err }); err != nil {
		return err
	}
	st, err := openPart(c, u)
	if err != nil {
		return err
	}
	defer st.Drop() //nolint:errcheck // after Sync there is nothing to lose
	behind := int64(0)
	for _, part := range parts {
		if err := copyPart(c, u, part, st, behind); err != nil {
			return err
		}
		behind += part.Length
	}
	if u.Offset != u.Length {
		return badTus("The parts have another length than before.")
	}
	if err := st.Drop(); err != nil {
		return err
	}
	if err := finishUpload(c, u); err != nil {
		return err
	}
	for _, part := range parts {
		removePart(c, part)
	}
	return nil
}

// copyPart copies the part that begins behind so many bytes, as far as that was
// not done before.
func copyPart(c *web.Request, u, part *inbox.Upload, st *blobs.Stage, behind int64) error {
	done := max(0, u.Offset-behind)
	if done >= part.Length {
		return nil
	}
	f, err := c.Site.Blobs.Parts.Open(part.ID.String(), part.Length)
	if errors.Is(err, blobs.ErrPartLost) {
		return &record.Error{Fault: record.Gone, Code: "upload_expired", Text: "The bytes of a partial upload are lost; send it again."}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(done, io.SeekStart); err != nil {
		return err
	}
	for left := part.Length - done; left > 0; {
		if err := c.R.Context().Err(); err != nil { // nobody waits for it any more
			return web.BodyError(err)
		}
		if c.Site.Store.FreeForContent() == 0 {
			return kv.ErrFull
		}
		n, err := st.ReadFrom(io.LimitReader(f, min(left, NoteBytes)))
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		left -= n
		if err := saveOffset(c, u, st); err != nil {
			return err
		}
	}
	return nil
}

// finishBegin takes the first bytes of an upload that was made and answers with its
// address. Whatever goes wrong leaves nothing: the client does not have the
// address yet.
func finishBegin(c *web.Request, u *inbox.Upload, b uploadOptions, room *UploadBudget, at string) error {
	t, release, err := c.Site.UploadTurns.Take(c, u.ID)
	if err == nil {
		defer release()
	}
	if err == nil && b.piece {
		err = takePiece(c, u, room, b.sum, t)
	}
	if err == nil {
		err = repairOffset(c, u)
	}
	if err != nil {
		if e := forgetUpload(c, u); e != nil && !web.IsMissing(e) {
			c.Site.Log.Warn("an upload that did not begin is left to the sweep", "error", e)
		}
		return err
	}
	c.W.Header().Set("Location", c.Site.Prefix()+at)
	return answerUpload(c, http.StatusCreated, u)
}

var ContinueUpload = web.Operation{
	Tag: "tus", Summary: "Adds bytes to a resumable upload, and ends another request that does. " + aboutUploadedFile,
	Args: []web.Param{tusArgs.version, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece(),
	Reply: web.Reply{Status: 204, Doc: "How far it is, in Upload-Offset.", Body: nil}, Fails: []int{403, 404, 409, 410, 412, 460}, Tus: true,
	Serve: tus(continueUpload),
}

var ContinueSending = web.Operation{
	Tag: "public", Summary: "Adds bytes to the upload, and ends another request that does. " + aboutSentItem,
	Args: []web.Param{tusArgs.version, tusArgs.offset, tusArgs.length, tusArgs.sum}, Body: tusPiece(),
	Reply: web.Reply{Status: 204, Doc: "How far it is, in Upload-Offset.", Body: nil}, Fails: []int{403, 404, 409, 410, 412, 429, 460, 503, 507},
	Tus: true, Serve: SenderOperation(tus(continueUpload)),
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
	if u.Parts != nil {
		return &record.Error{Fault: record.Denied, Code: "upload_is_final", Text: "This upload is made of others; it takes no bytes of its own."}
	}
	if err := repairOffset(c, u); err != nil {
		return err
	}
	if at != u.Offset {
		return withOffset(c, u, &record.Error{Fault: record.Taken, Code: "offset_mismatch", Text: "The upload is at " + strconv.FormatInt(u.Offset, 10) + ", not at " + strconv.FormatInt(at, 10) + "."})
	}
	room := new(UploadBudget)
	if !u.BySender() { // the length of a sender's is known: nothing else bounds it
		if room, err = BudgetOf(c.Site, c.Owner()); err != nil {
			return err
		}
	}
	switch {
	case length < 0 || length == u.Length:
	case u.Length >= 0:
		return badTus("The length of the upload is known already, and is another.")
	default:
		if length < u.Offset {
			return badTus("The upload has more bytes already.")
		}
		if length > room.File {
			return room.ErrTooLarge(length)
		}
		u.Length = length
		if err := c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) }); err != nil {
			return err
		}
	}
	if u.Done() || u.Joined() {
		if c.R.ContentLength == 0 { // sent again, for the answer was lost
			return respondOffset(c, u)
		}
		return errPastEnd(c, u, room)
	}
	if err := takePiece(c, u, room, sum, t); err != nil {
		return err
	}
	if err := repairOffset(c, u); err != nil {
		return err
	}
	return respondOffset(c, u)
}

// withOffset tells with an error where the upload is.
func withOffset(c *web.Request, u *inbox.Upload, err error) error {
	c.W.Header().Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	return err
}

func badTus(text string) error {
	return &record.Error{Fault: record.Malformed, Code: "malformed", Text: text}
}

// lengthOf is Upload-Length, -1 if it is not there.
func lengthOf(c *web.Request) (int64, error) {
	all := c.R.Header.Values("Upload-Length")
	if len(all) == 0 {
		return -1, nil
	}
	n, err := number(all)
	if err != nil {
		return 0, badTus("Upload-Length must be a whole number, not negative.")
	}
	return n, nil
}

// number reads the one value of a header, of decimal digits alone.
func number(values []string) (int64, error) {
	if len(values) != 1 || values[0] == "" || strings.Trim(values[0], "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(values[0], 10, 64)
}

// isPiece refuses a body that is not bytes of an upload.
func isPiece(c *web.Request) error {
	media, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if enc := c.R.Header.Get("Content-Encoding"); err != nil || media != TusBody || enc != "" && !strings.EqualFold(enc, "identity") {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be bytes of the upload, with the Content-Type " + TusBody + "."}
	}
	return nil
}

// checksum is what the body is to have; nil if the client does not say.
type checksum struct {
	hash.Hash
	want []byte
}

func readChecksum(c *web.Request) (*checksum, error) {
	text := c.R.Header.Get("Upload-Checksum")
	if text == "" {
		return nil, nil //nolint:nilnil // no checksum is a good answer
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
	if sum.want, err = base64.StdEncoding.DecodeString(value); err != nil || len(sum.want) != sum.Size() {
		return nil, badTus("Upload-Checksum has no " + name + " in base64.")
	}
	return sum, nil
}

// openPart opens the bytes of an upload at its offset. If they are not all there,
// as in a copy of the data directory, the upload starts again.
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
	c.Site.Log.Warn("an upload is without its bytes and starts again", "id", u.ID.String(), "bytes", u.Offset)
	u.Offset, u.State = 0, nil
	return c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })
}

// takePiece takes the bytes of the body. What came in is kept when the connection
// breaks, unless it has a checksum, which is that of the whole.
func takePiece(c *web.Request, u *inbox.Upload, m *UploadBudget, sum *checksum, t *web.UploadLock) error {
	left := min(m.File-u.Offset, m.Left)
	if u.Length >= 0 {
		left = u.Length - u.Offset
	}
	if left < 0 || c.R.ContentLength > left {
		return errPastEnd(c, u, m)
	}
	if c.Site.Store.FreeForContent() == 0 {
		return kv.ErrFull
	}
	if err := keepFromSweep(c, u); err != nil {
		return err
	}
	st, err := openPart(c, u)
	if err != nil {
		return err
	}
	defer func() {
		if err := st.Drop(); err != nil {
			c.Site.Log.Warn("the bytes of an upload were not closed", "error", err)
		}
	}()
	body := &readErrors{r: c.R.Body}
	in := io.Reader(body)
	if u.BySender() {
		if in, err = headTaken(c, u, in); err != nil {
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
			return err // the disk's fault, not the client's
		}
		ended = err != nil || some.ended
		if left == 0 && !ended {
			if more, err := body.Read(make([]byte, 1)); more > 0 {
				return errPastEnd(c, u, m)
			} else if err == io.EOF { // readers return it bare
				ended = true
			}
		}
		if sum != nil && (!ended || body.err != nil) {
			if err := keepFromSweep(c, u); err != nil {
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
		return &record.Error{Fault: record.Taken, Code: "upload_taken_over", Text: "Another request goes on with this upload."}
	}
	return web.BodyError(body.err)
}

// holdTime is what an upload has left at least while bytes of it come in.
const holdTime = time.Hour

// keepFromSweep lets the sweep leave an upload alone of which nothing new is noted yet.
func keepFromSweep(c *web.Request, u *inbox.Upload) error {
	if u.Expires.Sub(c.Site.Store.Now()) >= holdTime {
		return nil
	}
	return c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })
}

// errPastEnd is the error of more bytes than there may be.
func errPastEnd(c *web.Request, u *inbox.Upload, m *UploadBudget) error {
	if u.Length >= 0 {
		return &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The body goes beyond the length of the upload, " + strconv.FormatInt(u.Length, 10) + " bytes."}
	}
	if m.Left < m.File-u.Offset {
		return m.ErrTooLarge(m.Left + 1)
	}
	return m.ErrTooLarge(m.File + 1)
}

// saveOffset makes durable what was written, and that it was.
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

// piece reads up to left bytes, and not for longer than until.
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

// repairOffset leaves an upload such that its offset is true: whose bytes are gone
// starts again, and of one that has all of them the file is made, which may have
// failed before.
func repairOffset(c *web.Request, u *inbox.Upload) error {
	switch {
	case u.Done(), u.Joined():
		return nil
	case u.Parts != nil && u.Offset < u.Length:
		return join(c, u)
	case u.Offset == u.Length && !u.Partial:
		return finishUpload(c, u)
	}
	st, err := openPart(c, u)
	if err != nil {
		return err
	}
	return st.Drop()
}

// finishUpload makes the file of an upload that has all its bytes: the content first,
// the record second. If the second fails the content stays for another try.
func finishUpload(c *web.Request, u *inbox.Upload) error {
	kept, err := completeContent(c, u)
	if errors.Is(err, fs.ErrNotExist) {
		return restartUpload(c, u)
	}
	if err != nil {
		return err
	}
	if u.BySender() {
		return finishSenderUpload(c, u, kept)
	}
	defer kept.Release()
	meta, err := parseMetadata(u.Metadata)
	if err != nil {
		return err
	}
	form, problems := meta.form()
	if problems != nil {
		return problems
	}
	head, err := head(c.Site, kept.Ref)
	if err != nil {
		return err
	}
	one := fileForm(form, Part{Name: meta.fileName(), claimed: meta.text("filetype"), Head: head}, kept, true)
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		_, err := inbox.FinishUpload(tx, u, one, &record.Content{Ref: kept.Ref, Size: kept.Size})
		return err
	}); err != nil {
		u.File = uuid.Nil
		return err
	}
	removePart(c, u) // of content that was there already
	return nil
}

// completeContent makes a blob of the bytes of an upload, unless that was done before.
func completeContent(c *web.Request, u *inbox.Upload) (*blobs.Kept, error) {
	st, err := c.Site.Blobs.Resume(u.ID.String(), u.Offset, u.State)
	if errors.Is(err, blobs.ErrPartLost) {
		return c.Site.Blobs.Adopt(u.Offset, u.State)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Drop() }() // after Keep there is nothing to do
	return st.Keep()
}

// head is the beginning of a content.
func head(s *web.Site, ref blobs.Ref) ([]byte, error) {
	f, err := s.Blobs.Get(ref)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, media.Sniffed))
}

// lockWithBody waits for the caller's turn on the upload that the address names, and
// reads it.
func lockWithBody(c *web.Request) (u *inbox.Upload, t *web.UploadLock, release func(), err error) {
	u, err = findUpload(c) // nobody waits for what is not there
	if err != nil {
		return nil, nil, nil, err
	}
	if t, release, err = c.Site.UploadTurns.Take(c, u.ID); err != nil {
		return nil, nil, nil, err
	}
	if u, err = findUpload(c); err != nil {
		release()
		return nil, nil, nil, err
	}
	return u, t, release, nil
}

// lockUpload is lockWithBody of a request without a body.
func lockUpload(c *web.Request) (*inbox.Upload, func(), error) {
	u, _, release, err := lockWithBody(c)
	return u, release, err
}

// metadata is what Upload-Metadata says.
type metadata []metadatum

type metadatum struct{ name, value string }

// parseMetadata reads pairs of a name and a value in base64, separated by
// commas. A value may be missing, a name is there once.
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

func (m metadata) text(name string) string {
	for _, d := range m {
		if d.name == name {
			return d.value
		}
	}
	return ""
}

func (m metadata) fileName() string {
	name, _ := record.CleanFileName(m.text("filename")) // never fails
	return name
}

// shown is the metadata in the form of the header, without the password.
func (m metadata) shown() string {
	var pairs []string
	for _, d := range m {
		if d.name != "password" {
			pairs = append(pairs, strings.TrimSuffix(d.name+" "+base64.StdEncoding.EncodeToString([]byte(d.value)), " "))
		}
	}
	return strings.Join(pairs, ",")
}

// form is the form of the file, and what is wrong with it.
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
