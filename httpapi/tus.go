package httpapi

import (
	"bytes"
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kist/blobs"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// What is offered of tus, the protocol of resumable uploads
// (https://tus.io/protocols/resumable-upload).
const (
	tusPath       = apiPath + "tus"
	tusVersion    = "1.0.0"
	tusExtensions = "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination,concatenation"
	tusSending    = "creation,creation-with-upload,expiration,checksum,termination,concatenation" // for senders
	tusChecksums  = "sha1,sha256"
	tusBody       = "application/offset+octet-stream"
)

// A request notes how far it is after so many bytes or so long, so that a
// server that is killed has lost no more.
const (
	noteBytes = 32 << 20
	noteTime  = 5 * time.Second
)

// tusHeaders are those of tus that a page of another origin may read, and
// tusAsked those that it may send.
const (
	tusHeaders = "Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm, " +
		"Upload-Offset, Upload-Length, Upload-Defer-Length, Upload-Metadata, Upload-Expires, Upload-Concat, X-Kist-Id, X-Kist-Slug, X-Kist-Url, X-Kist-Item, X-Kist-Status"
	tusAsked = "tus-resumable, upload-length, upload-offset, upload-metadata, upload-defer-length, upload-checksum, upload-concat, x-http-method-override"
)

var (
	errTusVersion  = errors.New("not a version of tus that is spoken here")
	errTusChecksum = errors.New("the checksum is that of other bytes")
)

// tusArgs are the headers that requests of the protocol have.
var tusArgs = struct{ version, offset, length, concat, sum, override param }{
	version:  param{"header", "Tus-Resumable", "The version of tus; 412 if it is another.", object{"type": "string", "enum": []string{tusVersion}}, tusVersion},
	offset:   param{"header", "Upload-Offset", "Where the bytes of the body belong; 409 if that is not where the upload is.", object{"type": "integer", "minimum": 0}, 1048576},
	length:   param{"header", "Upload-Length", "Bytes of the whole.", object{"type": "integer", "minimum": 0}, 20971520},
	concat:   param{"header", "Upload-Concat", "partial for a part of a file, which is no file on its own; final; and the addresses of complete parts, separated by blanks, for the file that they make together, which needs no length.", object{"type": "string"}, "partial"},
	sum:      param{"header", "Upload-Checksum", "Algorithm (" + tusChecksums + ") and checksum of the body in base64; 460, with nothing of the body kept, if it is another.", object{"type": "string"}, "sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0="},
	override: param{"header", "X-HTTP-Method-Override", "PATCH, DELETE or HEAD.", object{"type": "string", "enum": []string{"PATCH", "DELETE", "HEAD"}}, "PATCH"},
}

func tusPiece() *content {
	return maybe(&content{media: tusBody, schema: object{"type": "string", "format": "binary"}, example: "…"})
}

// tusMetadata is the header with what is said of an upload.
func tusMetadata(doc, example string) param {
	return param{"header", "Upload-Metadata", "Pairs of a name and a value in base64, separated by commas: " + doc, object{"type": "string"}, example}
}

func tusRoutes() []route {
	state := named("ResumableUploadAnswer", jsonOf(members(object{
		"data": ref("ResumableUpload"),
		"file": object{"allOf": []object{ref("MaybeFile")}, "description": "The file that was made of the upload, once all bytes are there.", "example": nil},
	}, "data", "file"), nil))
	version, offset, length, sum, override := tusArgs.version, tusArgs.offset, tusArgs.length, tusArgs.sum, tusArgs.override
	piece, describe := tusPiece, describeTus(tusExtensions)
	about := "The answer's headers X-Kist-Id, X-Kist-Slug and X-Kist-Url name the file once it is made."
	return []route{
		{
			method: "OPTIONS", path: tusPath, id: "describeTus", tag: "tus", summary: "Says what is offered of the protocol of resumable uploads.",
			access: anyone, reply: reply{204, "In the headers Tus-Version, Tus-Extension, Tus-Max-Size and Tus-Checksum-Algorithm.", nil}, serve: describe,
		},
		{
			method: "OPTIONS", path: tusPath + "/{id}", id: "describeTusOfOne", tag: "tus", summary: "Says what is offered of the protocol of resumable uploads.",
			access: anyone, reply: reply{204, "In the headers Tus-Version, Tus-Extension, Tus-Max-Size and Tus-Checksum-Algorithm.", nil}, serve: describe,
		},
		{
			method: "POST", path: tusPath, id: "beginUpload", tag: "tus",
			summary: "Begins a resumable upload, at the address in Location; a body is its first bytes. " + about,
			access:  uploads, args: []param{
				version, length, tusArgs.concat,
				{"header", "Upload-Defer-Length", "1 in place of Upload-Length, if the length is not known yet.", object{"type": "integer", "enum": []int{1}}, 1},
				tusMetadata("filename, filetype, and the fields of an upload. They are checked now; the slug is kept free.", "filename YS50eHQ=,isPublic dHJ1ZQ=="),
				sum,
			},
			body: piece(), reply: reply{201, "How far it is.", state}, fails: []int{404, 409, 410, 412, 460}, serve: tus(beginUpload),
		},
		{
			method: "GET", path: tusPath, id: "listUploadsBegun", tag: "tus", summary: "Lists the resumable uploads that are not complete.",
			access: reads, args: pageParams(shortSorts), reply: reply{200, "A page of uploads.", listOf("ResumableUpload")}, serve: listUploads,
		},
		{
			method: "GET", path: tusPath + "/{id}", id: "readUpload", tag: "tus",
			summary: "Says how far a resumable upload is, and shows the file that was made of it, for a day. HEAD with Tus-Resumable ends a request that is still sending bytes, and answers 423 if it must be asked again later.",
			access:  uploads, reply: reply{200, "How far it is.", state}, fails: []int{403, 404, 409, 410, 412, 413, 423, 507}, serve: readUpload,
		},
		{
			method: "PATCH", path: tusPath + "/{id}", id: "continueUpload", tag: "tus",
			summary: "Adds bytes to a resumable upload, and ends another request that does. " + about,
			access:  uploads, args: []param{version, offset, length, sum}, body: piece(), reply: reply{204, "How far it is, in Upload-Offset.", nil},
			fails: []int{403, 404, 409, 410, 412, 460}, serve: tus(patchUpload),
		},
		{
			method: "DELETE", path: tusPath + "/{id}", id: "cancelUpload", tag: "tus", summary: "Forgets a resumable upload and its bytes.",
			access: uploads, args: []param{version}, reply: reply{204, "Gone.", nil}, fails: []int{404, 409, 412}, serve: tus(cancelUpload),
		},
		{
			method: "POST", path: tusPath + "/{id}", id: "overrideUpload", tag: "tus", summary: "Does what X-HTTP-Method-Override says, for clients that can only GET and POST.",
			access: uploads, args: []param{version, override, offset, length, sum}, body: piece(), reply: reply{204, "Done.", nil},
			fails: []int{403, 404, 405, 409, 410, 412, 460}, serve: tus(overrideUpload),
		},
	}
}

// tus is an operation of the protocol, which names its version.
func tus(serve func(*request) error) func(*request) error {
	return func(c *request) error {
		h := c.w.Header()
		if c.r.Header.Get("Tus-Resumable") != tusVersion {
			h.Set("Tus-Version", tusVersion)
			return errTusVersion
		}
		h.Set("Cache-Control", "no-store")
		return serve(c)
	}
}

// describeTus says what is offered of the protocol: these extensions.
func describeTus(extensions string) func(*request) error {
	return func(c *request) error { return c.describeTus(extensions) }
}

func (c *request) describeTus(extensions string) error {
	limit := c.s.MaxUpload
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		set, err := tx.Settings()
		if set.MaxUpload > 0 {
			limit = min(limit, set.MaxUpload)
		}
		return err
	}); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Allow", c.s.methods(c.r.URL.Path))
	h.Set("Tus-Version", tusVersion)
	h.Set("Tus-Extension", extensions)
	h.Set("Tus-Checksum-Algorithm", tusChecksums)
	h.Set("Tus-Max-Size", strconv.FormatInt(limit, 10))
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// shownUpload is a resumable upload as its owner sees it.
type shownUpload struct {
	kv.Upload
	name string
	done bool
}

func (v *shownUpload) Fields(s *field.Set) {
	if !v.BySender() {
		s.ID("id", &v.ID, field.Always).Says("Id of the upload, the end of its address.", sampleID)
	}
	s.Text("filename", &v.name, record.MaxFileName).Says("Name of the file, as it was uploaded.", `"holiday.mp4"`)
	s.MaybeNumber("length", &v.Length, 0, math.MaxInt64).Says("Bytes of the whole; null if that is not known yet.", `20971520`)
	s.Number("offset", &v.Offset, 0, math.MaxInt64).Says("Bytes that are there.", `1048576`)
	s.Bool("complete", &v.done).Says("Whether the file has been made of it.", `false`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was begun.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says("When it is forgotten, unless more bytes come.", `"2026-01-03T03:04:05.678Z"`)
}

func showUpload(u *kv.Upload) *shownUpload {
	v := &shownUpload{Upload: *u, name: u.FileName, done: u.Done()}
	if meta, err := parseMetadata(u.Metadata); err == nil && !v.done {
		v.name = meta.fileName()
	}
	return v
}

func listUploads(c *request) error {
	return answerList(c, func(tx *kv.Tx) ([]kv.Upload, error) { return tx.Uploads(c.owner()) },
		func(u *kv.Upload) (record.ID, string) { return u.ID, showUpload(u).name },
		func(_ *kv.Tx, u *kv.Upload) (*shownUpload, error) { return showUpload(u), nil })
}

// findUpload reads the upload that the address names: the caller's own, or the one of
// a sender who knows its secret.
func (c *request) findUpload() (u *kv.Upload, err error) {
	if secret := c.arg("secret"); secret != "" {
		err = c.s.Store.View(func(tx *kv.Tx) error { u, err = tx.SenderUpload(secret); return err })
		return u, err
	}
	id, err := c.uuid("upload")
	if err != nil {
		return nil, err
	}
	err = c.s.Store.View(func(tx *kv.Tx) error {
		u, err = tx.Upload(c.owner(), id)
		return err
	})
	if err == nil && !c.maySee(u.By) {
		return nil, record.NotFound("upload")
	}
	return u, err
}

// maySee reports whether the caller may know of an upload or a remote upload that
// the credential began: one that may read sees all of its owner, others see
// their own.
func (c *request) maySee(by record.ID) bool {
	return c.caller.Key.Allows(record.ScopeRead) || by == c.caller.Key.ID
}

// setUploadHeaders sets the headers that tell how far the upload is.
func (c *request) setUploadHeaders(u *kv.Upload) error {
	h := c.w.Header()
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
			all[i] = c.s.prefix() + tusPath + "/" + id.String()
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
	err := c.s.Store.View(func(tx *kv.Tx) error {
		r, err := tx.Record(u.Owner, record.Files, u.File.String())
		if err == nil {
			v := record.Shown{Record: *r, Base: c.s.Base}
			h.Set("X-Kist-Id", r.ID.String())
			h.Set("X-Kist-Slug", r.Slug)
			h.Set("X-Kist-Url", strings.Trim(string(v.AppendURL(nil)), `"`))
		}
		return err
	})
	if missing(err) { // it was deleted since
		return nil
	}
	return err
}

// answerUpload answers the upload and, if there is one, its file; a sender's with
// what it was made.
func (c *request) answerUpload(status int, u *kv.Upload) error {
	if err := c.setUploadHeaders(u); err != nil {
		return err
	}
	if u.BySender() {
		return c.respondSenderUpload(status, u)
	}
	return c.respond(status, func(dst []byte) ([]byte, error) {
		dst = field.AppendJSON(append(dst, `{"data":`...), showUpload(u))
		dst = append(dst, `,"file":`...)
		err := record.NotFound("file")
		if u.Done() {
			err = c.s.Store.View(func(tx *kv.Tx) error {
				r, err := tx.Record(u.Owner, record.Files, u.File.String())
				if err == nil {
					dst, err = c.s.show(tx, dst, r)
				}
				return err
			})
		}
		if missing(err) {
			dst, err = append(dst, "null"...), nil
		}
		return append(dst, '}'), err
	})
}

// readUpload looks at an upload. HEAD with the version of tus is how a client
// finds out where to go on: it ends the request that went before, and leaves
// nothing undone. HEAD without it is GET without the body.
func readUpload(c *request) error {
	if c.r.Method == http.MethodHead && c.r.Header.Get("Tus-Resumable") != "" {
		return tus(headUpload)(c)
	}
	u, err := c.findUpload()
	if err != nil {
		return err
	}
	return c.answerUpload(http.StatusOK, u)
}

func headUpload(c *request) error {
	return c.respondSettled(func(u *kv.Upload) error { return c.answerUpload(http.StatusOK, u) })
}

// respondSettled gives the answer for an upload whose turn it is and of which nothing
// is left undone.
func (c *request) respondSettled(answer func(*kv.Upload) error) error {
	u, release, err := c.lockUpload()
	if err != nil {
		return err
	}
	defer release()
	if err := c.repairOffset(u); err != nil {
		return err
	}
	return answer(u)
}

func overrideUpload(c *request) error {
	switch strings.ToUpper(c.r.Header.Get("X-Http-Method-Override")) {
	case http.MethodPatch:
		return patchUpload(c)
	case http.MethodDelete:
		return cancelUpload(c)
	case http.MethodHead:
		return c.respondSettled(func(u *kv.Upload) error { return c.respondOffset(u) })
	}
	c.w.Header().Set("Allow", c.s.methods(c.r.URL.Path))
	return errMethod
}

// respondOffset answers without a body how far the upload is.
func (c *request) respondOffset(u *kv.Upload) error {
	if err := c.setUploadHeaders(u); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func cancelUpload(c *request) error {
	u, release, err := c.lockUpload()
	if err != nil {
		return err
	}
	defer release()
	if u.Done() || u.Joined() {
		return &record.Error{Fault: record.Taken, Code: "upload_complete", Text: "The upload is complete; it cannot be cancelled."}
	}
	if err := c.forgetUpload(u); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *request) forgetUpload(u *kv.Upload) error {
	if err := c.s.Store.Update(func(tx *kv.Tx) error { return tx.RemoveUpload(u.Owner, u.ID) }); err != nil {
		return err
	}
	c.removePart(u)
	return nil
}

// removePart removes the bytes of an upload that nobody waits for.
func (c *request) removePart(u *kv.Upload) {
	if err := c.s.Blobs.DropPart(u.ID.String()); err != nil {
		c.s.Log.Warn("the bytes of an upload are left to the sweep", "error", err)
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

func (c *request) readUploadOptions() (b uploadOptions, err error) {
	if b.length, err = c.lengthOf(); err != nil {
		return b, err
	}
	if b.length >= 0 && c.r.Header.Get("Upload-Defer-Length") != "" {
		return b, badTus("Upload-Length and Upload-Defer-Length exclude each other.")
	}
	if b.concat = strings.TrimSpace(c.r.Header.Get("Upload-Concat")); b.concat != "" && b.concat != "partial" && !strings.HasPrefix(b.concat, "final;") {
		return b, badTus("Upload-Concat must be partial, or final; and addresses.")
	}
	if b.meta, err = parseMetadata(strings.Join(c.r.Header.Values("Upload-Metadata"), ",")); err != nil {
		return b, err
	}
	if b.piece = c.r.ContentLength != 0; b.piece {
		if err := c.isPiece(); err != nil {
			return b, err
		}
	}
	b.sum, err = c.checksum()
	return b, err
}

// partial reports whether a part of a file begins.
func (b *uploadOptions) partial() bool { return b.concat == "partial" }

// final reports whether a file is made of parts.
func (b *uploadOptions) final() bool { return b.concat != "" && !b.partial() }

// maxJoined is how many parts an upload may be made of.
const maxJoined = 50

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
	case len(all) == 0 || len(all) > maxJoined:
		return nil, badTus("Upload-Concat must name 1 to " + strconv.Itoa(maxJoined) + " partial uploads.")
	case b.length >= 0 || b.piece:
		return nil, badTus("An upload that is made of others has neither a length nor bytes of its own.")
	}
	return all, nil
}

// beginUpload makes an upload of the caller's.
func beginUpload(c *request) error {
	b, err := c.readUploadOptions()
	if err != nil {
		return err
	}
	if b.final() {
		return joinUploads(c, b)
	}
	u := &kv.Upload{Owner: c.owner(), By: c.caller.Key.ID, Length: b.length, Partial: b.partial()}
	if u.Length < 0 && c.r.Header.Get("Upload-Defer-Length") != "1" {
		return badTus("The request needs Upload-Length, or Upload-Defer-Length: 1.")
	}
	form, problems := b.meta.form()
	if u.Partial { // the whole has the metadata
		form, problems = record.NewForm(record.Files), nil
	}
	if err := joinProblems(problems, form.CheckNew(c.s.Store.Now())); err != nil {
		return err
	}
	room, err := c.s.uploadBudget(c.owner())
	if err == nil {
		err = room.errTooLarge(max(u.Length, 0))
	}
	if err != nil {
		return err
	}
	if u.Password, err = c.hash(form.Password); err != nil {
		return err
	}
	u.Metadata, u.Slug = b.meta.shown(), form.Slug
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) { u, err = tx.AddUpload(*u); return err }); err != nil {
		return err
	}
	return c.finishBegin(u, b, room, tusPath+"/"+u.ID.String())
}

// joinUploads makes an upload of complete parts, and its file. If that fails, the
// parts are as they were. Asked again after it succeeded, it answers as it did.
func joinUploads(c *request, b uploadOptions) error {
	u := &kv.Upload{Owner: c.owner(), By: c.caller.Key.ID}
	ends, err := b.parts(tusPath)
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
	if err := joinProblems(problems, form.CheckNew(c.s.Store.Now())); err != nil {
		return err
	}
	release, err := c.s.turns.takeAll(c, u.Parts)
	if err != nil {
		return err
	}
	defer release()
	room, err := c.s.uploadBudget(c.owner())
	if err != nil {
		return err
	}
	if u.Password, err = c.hash(form.Password); err != nil {
		return err
	}
	u.Metadata, u.Slug = b.meta.shown(), form.Slug
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		for _, id := range u.Parts {
			if part, err := tx.Upload(c.owner(), id); err != nil {
				return err
			} else if !c.maySee(part.By) {
				return record.NotFound("upload")
			}
		}
		if u, err = tx.JoinUploads(*u); err == nil && !u.Done() && u.Length > room.file {
			err = room.errTooLarge(u.Length)
		}
		if err == nil && !u.Done() && u.Length > room.disk {
			err = kv.ErrFull
		}
		return err
	}); err != nil {
		return err
	}
	return c.finishBegin(u, b, room, tusPath+"/"+u.ID.String())
}

// join copies the parts of an upload one behind the other. What was copied
// before is kept.
func (c *request) join(u *kv.Upload) error {
	var parts []*kv.Upload
	if err := c.s.Store.View(func(tx *kv.Tx) (err error) { parts, err = tx.PartsOfUpload(u); return err }); err != nil {
		return err
	}
	st, err := c.openPart(u)
	if err != nil {
		return err
	}
	defer st.Drop() //nolint:errcheck // after Sync there is nothing to lose
	behind := int64(0)
	for _, part := range parts {
		if err := c.copyPart(u, part, st, behind); err != nil {
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
	if err := c.finishUpload(u); err != nil {
		return err
	}
	for _, part := range parts {
		c.removePart(part)
	}
	return nil
}

// copyPart copies the part that begins behind so many bytes, as far as that was
// not done before.
func (c *request) copyPart(u, part *kv.Upload, st *blobs.Stage, behind int64) error {
	done := max(0, u.Offset-behind)
	if done >= part.Length {
		return nil
	}
	f, err := c.s.Blobs.OpenPart(part.ID.String(), part.Length)
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
		if err := c.r.Context().Err(); err != nil { // nobody waits for it any more
			return bodyError(err)
		}
		if c.s.Store.FreeForContent() == 0 {
			return kv.ErrFull
		}
		n, err := st.ReadFrom(io.LimitReader(f, min(left, noteBytes)))
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		left -= n
		if err := c.saveOffset(u, st); err != nil {
			return err
		}
	}
	return nil
}

// finishBegin takes the first bytes of an upload that was made and answers with its
// address. Whatever goes wrong leaves nothing: the client does not have the
// address yet.
func (c *request) finishBegin(u *kv.Upload, b uploadOptions, room *uploadBudget, at string) error {
	t, release, err := c.s.turns.take(c, u.ID)
	if err == nil {
		defer release()
	}
	if err == nil && b.piece {
		err = c.takePiece(u, room, b.sum, t)
	}
	if err == nil {
		err = c.repairOffset(u)
	}
	if err != nil {
		if e := c.forgetUpload(u); e != nil && !missing(e) {
			c.s.Log.Warn("an upload that did not begin is left to the sweep", "error", e)
		}
		return err
	}
	c.w.Header().Set("Location", c.s.prefix()+at)
	return c.answerUpload(http.StatusCreated, u)
}

func patchUpload(c *request) error {
	if err := c.isPiece(); err != nil {
		return err
	}
	at, err := number(c.r.Header.Values("Upload-Offset"))
	if err != nil || at < 0 {
		return badTus("The request needs Upload-Offset, a whole number.")
	}
	length, err := c.lengthOf()
	if err != nil {
		return err
	}
	sum, err := c.checksum()
	if err != nil {
		return err
	}
	u, t, release, err := c.lockWithBody()
	if err != nil {
		return err
	}
	defer release()
	if u.Parts != nil {
		return &record.Error{Fault: record.Denied, Code: "upload_is_final", Text: "This upload is made of others; it takes no bytes of its own."}
	}
	if err := c.repairOffset(u); err != nil {
		return err
	}
	if at != u.Offset {
		return c.withOffset(u, &record.Error{Fault: record.Taken, Code: "offset_mismatch", Text: "The upload is at " + strconv.FormatInt(u.Offset, 10) + ", not at " + strconv.FormatInt(at, 10) + "."})
	}
	room := new(uploadBudget)
	if !u.BySender() { // the length of a sender's is known: nothing else bounds it
		if room, err = c.s.uploadBudget(c.owner()); err != nil {
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
		if length > room.file {
			return room.errTooLarge(length)
		}
		u.Length = length
		if err := c.s.Store.Update(func(tx *kv.Tx) error { return tx.SaveUpload(u) }); err != nil {
			return err
		}
	}
	if u.Done() || u.Joined() {
		if c.r.ContentLength == 0 { // sent again, for the answer was lost
			return c.respondOffset(u)
		}
		return c.errPastEnd(u, room)
	}
	if err := c.takePiece(u, room, sum, t); err != nil {
		return err
	}
	if err := c.repairOffset(u); err != nil {
		return err
	}
	return c.respondOffset(u)
}

// withOffset tells with an error where the upload is.
func (c *request) withOffset(u *kv.Upload, err error) error {
	c.w.Header().Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	return err
}

func badTus(text string) error {
	return &record.Error{Fault: record.Malformed, Code: "malformed", Text: text}
}

// lengthOf is Upload-Length, -1 if it is not there.
func (c *request) lengthOf() (int64, error) {
	all := c.r.Header.Values("Upload-Length")
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
func (c *request) isPiece() error {
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if enc := c.r.Header.Get("Content-Encoding"); err != nil || media != tusBody || enc != "" && !strings.EqualFold(enc, "identity") {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be bytes of the upload, with the Content-Type " + tusBody + "."}
	}
	return nil
}

// checksum is what the body is to have; nil if the client does not say.
type checksum struct {
	hash.Hash
	want []byte
}

func (c *request) checksum() (*checksum, error) {
	text := c.r.Header.Get("Upload-Checksum")
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
func (c *request) openPart(u *kv.Upload) (*blobs.Stage, error) {
	st, err := c.s.Blobs.Resume(u.ID.String(), u.Offset, u.State)
	if !errors.Is(err, blobs.ErrPartLost) {
		return st, err
	}
	if err := c.restartUpload(u); err != nil {
		return nil, err
	}
	return c.s.Blobs.Resume(u.ID.String(), 0, nil)
}

func (c *request) restartUpload(u *kv.Upload) error {
	c.s.Log.Warn("an upload is without its bytes and starts again", "id", u.ID.String(), "bytes", u.Offset)
	u.Offset, u.State = 0, nil
	return c.s.Store.Update(func(tx *kv.Tx) error { return tx.SaveUpload(u) })
}

// takePiece takes the bytes of the body. What came in is kept when the connection
// breaks, unless it has a checksum, which is that of the whole.
func (c *request) takePiece(u *kv.Upload, m *uploadBudget, sum *checksum, t *uploadLock) error {
	left := min(m.file-u.Offset, m.left)
	if u.Length >= 0 {
		left = u.Length - u.Offset
	}
	if left < 0 || c.r.ContentLength > left {
		return c.errPastEnd(u, m)
	}
	if c.s.Store.FreeForContent() == 0 {
		return kv.ErrFull
	}
	if err := c.keepFromSweep(u); err != nil {
		return err
	}
	st, err := c.openPart(u)
	if err != nil {
		return err
	}
	defer func() {
		if err := st.Drop(); err != nil {
			c.s.Log.Warn("the bytes of an upload were not closed", "error", err)
		}
	}()
	body := &readErrors{r: c.r.Body}
	in := io.Reader(body)
	if u.BySender() {
		if in, err = c.headTaken(u, in); err != nil {
			return err
		}
	}
	if sum != nil {
		in = io.TeeReader(in, sum)
	}
	for ended := false; !ended; {
		some := &piece{r: in, left: min(noteBytes, left), until: time.Now().Add(noteTime)}
		n, err := st.ReadFrom(some)
		left -= n
		if err != nil && body.err == nil {
			return err // the disk's fault, not the client's
		}
		ended = err != nil || some.ended
		if left == 0 && !ended {
			if more, err := body.Read(make([]byte, 1)); more > 0 {
				return c.errPastEnd(u, m)
			} else if err == io.EOF { // readers return it bare
				ended = true
			}
		}
		if sum != nil && (!ended || body.err != nil) {
			if err := c.keepFromSweep(u); err != nil {
				return err
			}
			continue
		}
		if sum != nil && string(sum.Sum(nil)) != string(sum.want) {
			return c.withOffset(u, errTusChecksum)
		}
		if err := c.saveOffset(u, st); err != nil {
			return err
		}
		if c.s.Store.FreeForContent() == 0 && !ended {
			return kv.ErrFull
		}
	}
	switch {
	case body.err == nil:
		return nil
	case t.over.Load():
		return &record.Error{Fault: record.Taken, Code: "upload_taken_over", Text: "Another request goes on with this upload."}
	}
	return bodyError(body.err)
}

// holdTime is what an upload has left at least while bytes of it come in.
const holdTime = time.Hour

// keepFromSweep lets the sweep leave an upload alone of which nothing new is noted yet.
func (c *request) keepFromSweep(u *kv.Upload) error {
	if u.Expires.Sub(c.s.Store.Now()) >= holdTime {
		return nil
	}
	return c.s.Store.Update(func(tx *kv.Tx) error { return tx.SaveUpload(u) })
}

// errPastEnd is the error of more bytes than there may be.
func (c *request) errPastEnd(u *kv.Upload, m *uploadBudget) error {
	if u.Length >= 0 {
		return &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The body goes beyond the length of the upload, " + strconv.FormatInt(u.Length, 10) + " bytes."}
	}
	if m.left < m.file-u.Offset {
		return m.errTooLarge(m.left + 1)
	}
	return m.errTooLarge(m.file + 1)
}

// saveOffset makes durable what was written, and that it was.
func (c *request) saveOffset(u *kv.Upload, st *blobs.Stage) error {
	if st.Size() == u.Offset {
		return nil
	}
	size, state, err := st.Sync()
	if err != nil {
		return err
	}
	before := *u
	u.Offset, u.State = size, state
	update := c.updateAsCaller
	if u.BySender() {
		update = c.s.Store.Update
	}
	if err := update(func(tx *kv.Tx) error { return tx.SaveUpload(u) }); err != nil {
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
func (c *request) repairOffset(u *kv.Upload) error {
	switch {
	case u.Done(), u.Joined():
		return nil
	case u.Parts != nil && u.Offset < u.Length:
		return c.join(u)
	case u.Offset == u.Length && !u.Partial:
		return c.finishUpload(u)
	}
	st, err := c.openPart(u)
	if err != nil {
		return err
	}
	return st.Drop()
}

// finishUpload makes the file of an upload that has all its bytes: the content first,
// the record second. If the second fails the content stays for another try.
func (c *request) finishUpload(u *kv.Upload) error {
	kept, err := c.completeContent(u)
	if errors.Is(err, fs.ErrNotExist) {
		return c.restartUpload(u)
	}
	if err != nil {
		return err
	}
	if u.BySender() {
		return c.finishSenderUpload(u, kept)
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
	head, err := c.s.head(kept.Ref)
	if err != nil {
		return err
	}
	one := fileForm(form, part{name: meta.fileName(), claimed: meta.text("filetype"), head: head}, kept, true)
	if err := c.updateAsCaller(func(tx *kv.Tx) error {
		_, err := tx.FinishUpload(u, one, &record.Content{Ref: kept.Ref, Size: kept.Size})
		return err
	}); err != nil {
		u.File = uuid.Nil
		return err
	}
	c.removePart(u) // of content that was there already
	return nil
}

// completeContent makes a blob of the bytes of an upload, unless that was done before.
func (c *request) completeContent(u *kv.Upload) (*blobs.Kept, error) {
	st, err := c.s.Blobs.Resume(u.ID.String(), u.Offset, u.State)
	if errors.Is(err, blobs.ErrPartLost) {
		return c.s.Blobs.Adopt(u.Offset, u.State)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Drop() }() // after Keep there is nothing to do
	return st.Keep()
}

// head is the beginning of a content.
func (s *site) head(ref blobs.Ref) ([]byte, error) {
	f, err := s.Blobs.Get(ref)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, media.Sniffed))
}

// uploadLocks lets one request at a time work on an upload. The last that comes is
// the one whose client is there: it ends the one before, which may be waiting
// for a connection that is dead.
type uploadLocks struct {
	mu sync.Mutex
	of map[record.ID]*uploadLock
}

type uploadLock struct {
	call *request
	over atomic.Bool // another request waits
	done chan struct{}
}

// lockTime is how long a request waits for the one before, which has to write
// down what it has.
const lockTime = 30 * time.Second

// take waits for the caller's turn, until release is called.
func (all *uploadLocks) take(c *request, id record.ID) (mine *uploadLock, release func(), err error) {
	mine = &uploadLock{call: c, done: make(chan struct{})}
	end := time.NewTimer(lockTime)
	defer end.Stop()
	for {
		all.mu.Lock()
		before := all.of[id]
		if before == nil {
			if all.of == nil {
				all.of = map[record.ID]*uploadLock{}
			}
			all.of[id] = mine
			all.mu.Unlock()
			return mine, func() {
				all.mu.Lock()
				delete(all.of, id)
				all.mu.Unlock()
				close(mine.done)
			}, nil
		}
		before.over.Store(true)
		if before.call.w.body != nil {
			before.call.w.body.cut() // while its connection is that of no other request
		}
		all.mu.Unlock()
		select {
		case <-before.done:
		case <-c.r.Context().Done():
			return nil, nil, &record.Error{Fault: record.Busy, Code: "upload_busy", Text: "Another request works on this upload.", Retry: time.Second}
		case <-end.C:
			return nil, nil, &record.Error{Fault: record.Busy, Code: "upload_busy", Text: "Another request works on this upload.", Retry: lockTime}
		}
	}
}

// takeAll waits for the caller's turn on all of the uploads.
func (all *uploadLocks) takeAll(c *request, ids []record.ID) (release func(), err error) {
	var taken []func()
	release = func() {
		for _, release := range taken {
			release()
		}
	}
	// In an order that all agree on, so that nobody waits for one another.
	for _, id := range slices.SortedFunc(slices.Values(ids), func(a, b record.ID) int { return bytes.Compare(a[:], b[:]) }) {
		_, one, err := all.take(c, id)
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, one)
	}
	return release, nil
}

// lockWithBody waits for the caller's turn on the upload that the address names, and
// reads it.
func (c *request) lockWithBody() (u *kv.Upload, t *uploadLock, release func(), err error) {
	u, err = c.findUpload() // nobody waits for what is not there
	if err != nil {
		return nil, nil, nil, err
	}
	if t, release, err = c.s.turns.take(c, u.ID); err != nil {
		return nil, nil, nil, err
	}
	if u, err = c.findUpload(); err != nil {
		release()
		return nil, nil, nil, err
	}
	return u, t, release, nil
}

// lockUpload is lockWithBody of a request without a body.
func (c *request) lockUpload() (*kv.Upload, func(), error) {
	u, _, release, err := c.lockWithBody()
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
