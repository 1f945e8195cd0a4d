// Package public serves visitors: shared items, their pages and bytes, short links, and the
// grants for views and passwords.
package public

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kist/blobs"
	"kist/httpapi/archive"
	"kist/httpapi/grant"
	"kist/httpapi/metadata"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

var ReadRaw = web.Operation{
	Tag: "public", Reply: web.Reply{Status: 200}, Fails: []int{206, 302, 304, 401, 404, 410, 412, 416, 429, 503},
	Slugs: true, AtContentOrigin: true, Serve: readRaw,
}.Found(finds(rawKinds...))

// rawKinds have bytes at an address. Those of a collection are its zip.
var rawKinds = []*record.Kind{record.Files, record.Notes, record.Snippets, record.Collections}

// readRaw answers with the bytes of a file, or the text of a note or snippet. The address may
// have an extension after the slug. The zip of a collection comes before an item that has got its
// address as a slug from an earlier version.
func readRaw(c *web.Request) error {
	var r *record.Record
	var who viewer
	err := record.ErrMissing
	if of, zip := strings.CutSuffix(c.Arg("slug"), ".zip"); zip {
		r, who, err = Find(c, of, []*record.Kind{record.Collections})
	}
	switch {
	case kv.Missing(err):
		r, who, err = sharedFile(c, c.Arg("slug"), rawKinds...)
	case err == nil:
		err = Unlock(c, r, who)
	}
	if kv.Missing(err) {
		if p, gone := RemovedFileAt(c, c.Arg("slug")); gone == nil {
			if c.Site.Content != "" && !c.AtContentOrigin() {
				return redirectToRemovedFile(c, p)
			}
			return sendRemovedFile(c, p)
		}
	}
	if err != nil {
		return refuseRaw(c, r, err)
	}
	return rawAs(c, r, r, who)
}

// refuseRaw is RefuseItem for the bytes of r. A client that takes no pages gets the error.
func refuseRaw(c *web.Request, r *record.Record, err error) error {
	if !web.TakesPage(c.W, c.R) {
		return err
	}
	then := thenContent
	if r != nil && r.Kind == record.Collections {
		then = ""
	}
	return refuse(c, r, then, err)
}

// rawAs answers with the bytes of an item. The password, limit and grants of r apply.
func rawAs(c *web.Request, r, item *record.Record, who viewer) error {
	if c.Site.Content != "" && !c.AtContentOrigin() {
		return redirectToContent(c, r, who, "/x/")
	}
	if item.Kind == record.Collections {
		return sendZip(c, r, who)
	}
	body, err := item.Decode()
	if err != nil {
		return err
	}
	mimeType, charset, name := "text/plain", web.UTF8, ""
	var digest [sha256.Size]byte
	var content io.ReadSeeker
	var size int64
	switch b := body.(type) {
	case *record.File:
		// Opened before the view is counted, so that it stays readable if the last view
		// deletes the file.
		f, of, err := openContent(c, r, item, b.MimeType, who)
		if err != nil {
			return err
		}
		defer f.Close()
		mimeType, name, digest, content, size = b.MimeType, b.OriginalName, of.Digest, f, of.Size
		charset = CharsetOf(c, item.Bytes.Ref, b.MimeType)
	case *record.Note:
		digest, content, size = sha256.Sum256([]byte(b.Content)), strings.NewReader(b.Content), int64(len(b.Content))
	case *record.Snippet:
		digest, content, size = sha256.Sum256([]byte(b.Content)), strings.NewReader(b.Content), int64(len(b.Content))
	default: // in a collection
		return record.ErrMissing
	}
	if _, file := body.(*record.File); !file {
		c.HoldOnly(size)
	}
	return sendBytes(c, r, who, mimeType, charset, name, digest, content, size)
}

// CharsetOf is the charset of stored content of the media type, judging by its beginning; "" if it is not a text or
// cannot be read.
func CharsetOf(c *web.Request, ref blobs.Ref, mimeType string) string {
	if !strings.HasPrefix(mimeType, "text/") {
		return ""
	}
	head, err := c.Site.Blobs.Head(ref, media.MaxSurveyed) // fetches no more than this from an object store
	if err != nil {
		return ""
	}
	charset, err := media.CharsetAtStart(bytes.NewReader(head))
	if err != nil {
		return ""
	}
	return charset.Name
}

// sendBytes answers with bytes under the conditions of r. The headers that keep hostile
// content from running are those of web.SetContentHeaders in httpapi/web/content.go.
func sendBytes(
	c *web.Request, r *record.Record, who viewer, mimeType, charset, name string, digest [sha256.Size]byte, content io.ReadSeeker,
	size int64,
) error {
	h := c.W.Header()
	web.SetContentHeaders(h, mimeType, charset, name, AsDownload(c), r.OpenToAll() || c.AtContentOrigin())
	h.Set("Etag", etag(r, digest))
	h.Set("Cache-Control", caching(r))
	err := SendContent(c, content, size, func(status int) error {
		if a, ok := content.(*archive.Archive); ok && status < 300 && c.R.Method != http.MethodHead {
			if err := zipReady(a); err != nil {
				return err
			}
		}
		return countView(c, r, who, status, size)
	})
	if err == errCard { //nolint:errorlint // never wrapped
		web.ClearContentHeaders(c.W.Header())
		if c.AtContentOrigin() {
			return redirectContent(c, c.Site.Base+"/v/"+url.PathEscape(r.Slug), false)
		}
		return card(c, r)
	}
	return err
}

// SendContent answers with the content. Before that it calls pay with the status and stops if
// pay fails.
func SendContent(c *web.Request, content io.ReadSeeker, size int64, pay func(status int) error) error {
	conditions(c.R.Header, size)
	g := &countingWriter{AnswerWriter: c.W, pay: pay}
	http.ServeContent(g, c.R, "", time.Time{}, content)
	return g.err
}

// RemovedFileAt is removedFileOf for addresses that may have an extension after the slug.
func RemovedFileAt(c *web.Request, name string) (grant.RemovedFile, error) {
	p, err := removedFileOf(c, name)
	if ext := path.Ext(name); err != nil && ext != "" {
		p, err = removedFileOf(c, strings.TrimSuffix(name, ext))
	}
	return p, err
}

// sendRemovedFile answers with the bytes of a file whose record was removed, to the visitor
// whose view removed it. It is no further view.
func sendRemovedFile(c *web.Request, p grant.RemovedFile) error {
	r := &record.Record{
		ID: p.ID, Kind: record.Files, Bytes: &record.Content{Ref: p.Ref, Size: p.Size}, KeepMetadata: p.KeepMetadata,
	}
	of, err := contentOf(c, r, p.Media, false)
	if err != nil {
		return Unreadable(c, p.ID, false, err)
	}
	r.Limit = 1
	f, err := of.Open(c.R.Context(), wantsPart(c))
	if err != nil {
		return Unreadable(c, p.ID, false, err)
	}
	defer f.Close()
	h := c.W.Header()
	web.SetContentHeaders(h, p.Media, CharsetOf(c, p.Ref, p.Media), p.Name, AsDownload(c), c.AtContentOrigin())
	h.Set("Etag", etag(r, of.Digest))
	h.Set("Cache-Control", "private, no-store")
	return SendContent(c, f, of.Size, func(status int) error { return Refusal(c, status, of.Size) })
}

// AsDownload reports whether the client wants to download the content, not to show it.
func AsDownload(c *web.Request) bool {
	return c.R.URL.RawQuery != "" && c.R.URL.Query().Has(saveParam)
}

// saveParam in the address of content makes a browser download it.
const saveParam = "download"

// openContent opens the bytes of a file to send them. If a view is to be counted against a
// limit, that of r, it first checks all of the bytes.
func openContent(
	c *web.Request, r, item *record.Record, media string, who viewer,
) (f io.ReadSeekCloser, of shownContent, err error) {
	unreadable := func(err error) error { return Unreadable(c, item.ID, who.owns(item), err) }
	if r.Limit > 0 && !who.inside() {
		if err := c.Site.Blobs.Prove(item.Bytes.Ref); err != nil {
			return nil, of, unreadable(err)
		}
	}
	of, err = contentOf(c, item, media, who.owns(item))
	if err != nil {
		return nil, of, unreadable(err)
	}
	f, err = of.Open(c.R.Context(), wantsPart(c))
	if err != nil {
		return nil, of, unreadable(err)
	}
	return f, of, nil
}

// A shownContent is the bytes of a file as its owner or a visitor gets them.
type shownContent struct {
	Size   int64
	Digest [sha256.Size]byte // identifies the bytes
	Clean  bool              // they are not the uploaded bytes, but those without metadata

	site   *web.Site
	stored *record.Content
	media  string
}

// contentOf says what the owner or a visitor gets of a file of the media type. Visitors get pictures
// and films without their metadata, unless the file or the settings keep it. The errors are those of
// blobs.Store.Get, and only for files that were not examined yet.
func contentOf(c *web.Request, r *record.Record, media string, owned bool) (shownContent, error) {
	of := shownContent{Size: r.Bytes.Size, Digest: r.Bytes.Ref, site: c.Site, stored: r.Bytes, media: media}
	m := r.Bytes.Metadata
	if owned || r.KeepMetadata || m.Rules == metadata.Rules && m.State != record.MetadataRemovable {
		return of, nil
	}
	var set people.Settings
	err := c.Site.Store.View(func(tx *kv.Tx) (err error) { set, err = people.ReadSettings(tx); return err })
	if err != nil || set.KeepMetadata {
		return of, err
	}
	if m.Rules != metadata.Rules {
		now, err := c.Site.Plans.Examine(c.R.Context(), r.Bytes.Ref, media)
		m = now.Metadata
		if err != nil || m.State != record.MetadataRemovable {
			return of, err
		}
	}
	of.Size, of.Clean = m.Size, true
	of.Digest = sha256.Sum256(append(r.Bytes.Ref[:], "without metadata, rules "+strconv.Itoa(metadata.Rules)...))
	return of, nil
}

// Open opens the bytes. It may wait for others until ctx ends. part says that maybe not all of them will be read, in order.
func (of *shownContent) Open(ctx context.Context, part bool) (io.ReadSeekCloser, error) {
	send := of.site.Blobs.Send
	if part || of.Clean {
		send = of.site.Blobs.SendPart
	}
	f, err := send(of.stored.Ref, of.stored.Size)
	if err != nil || !of.Clean {
		return f, err
	}
	plan, err := of.site.Plans.Of(ctx, of.stored.Ref, of.media)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return plan.Over(f), nil
}

// Stored opens content to answer the request with all of it or a part.
func Stored(c *web.Request, ref blobs.Ref, size int64) (io.ReadSeekCloser, error) {
	of := shownContent{site: c.Site, stored: &record.Content{Ref: ref, Size: size}}
	return of.Open(c.R.Context(), wantsPart(c))
}

// wantsPart reports whether the client wants a part of content.
func wantsPart(c *web.Request) bool {
	wanted := c.R.Header.Get("Range")
	return wanted != "" && wanted != "bytes=0-" && c.R.Method == http.MethodGet
}

var (
	errDamaged = &record.Error{
		Fault: record.Busy, Code: web.CodeDamaged, Retry: time.Hour,
		Text: "The stored bytes of this file are damaged, so the server does not send them. To repair the file, upload it " +
			"again, or run kist restore --missing with a backup.",
	}
	errElsewhere = &record.Error{
		Fault: record.Busy, Code: "store_missing", Retry: time.Hour,
		Text: "The bytes of this file are in the object store, and the server was started without it. Its operator starts " +
			"it with --store.",
	}
	errDamagedVisit = &record.Error{
		Fault: record.Gone, Code: web.CodeDamaged,
		Text: "The stored bytes of this file are damaged, so the server does not send them. Its owner can repair the file.",
	}
)

// Unreadable turns the error of opening a content into the error for its owner or a visitor.
// A record without bytes, from a copy of the data directory, is Missing for everyone, unless
// they are in an object store that the server was started without.
func Unreadable(c *web.Request, id record.ID, owned bool, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.Site.Elsewhere != "":
		c.Site.Log.Error("a file's content is in the object store, and the server was started without --store",
			"requestId", c.ID, "id", id.String(), "store", c.Site.Elsewhere)
		if owned {
			return errElsewhere
		}
		return blobs.ErrAway
	case errors.Is(err, fs.ErrNotExist):
		c.Site.Log.Error("a file has no content", "requestId", c.ID, "id", id.String(), "error", err)
		return record.ErrMissing
	case errors.Is(err, blobs.ErrDamaged):
		c.Site.Log.Info("the content of a file is damaged", "requestId", c.ID, "id", id.String(), "error", err)
		if owned {
			return errDamaged
		}
		return errDamagedVisit
	}
	return err
}

// etag is the entity tag of content. If the item has a limit, the tag is not the content's
// hash: HEAD shows it without a view, and short content could be guessed from it.
func etag(r *record.Record, digest [sha256.Size]byte) string {
	if r.Limit > 0 {
		digest = sha256.Sum256(append(r.ID[:], digest[:]...))
	}
	return `"` + hex.EncodeToString(digest[:]) + `"`
}

// MaxRanges is how many ranges one request may ask for. With more, it gets the whole content.
const MaxRanges = 16

// conditions adapts the request's headers to http.ServeContent. It joins lists into one line. It
// removes Range if its unit is unknown (RFC 9110, section 14.2), if it has several lines, or if the
// content is empty.
func conditions(h http.Header, size int64) {
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if all := h[name]; len(all) > 1 {
			h.Set(name, strings.Join(all, ", "))
		}
	}
	const unit = "bytes="
	ranges := h.Get("Range")
	if ranges == "" {
		return
	}
	if size == 0 || len(h["Range"]) > 1 || len(ranges) < len(unit) || !strings.EqualFold(ranges[:len(unit)], unit) ||
		strings.Count(ranges, ",") >= MaxRanges {
		h.Del("Range")
		return
	}
	h.Set("Range", unit+ranges[len(unit):])
}

// countingWriter calls pay with the status before anything is sent. If pay fails, it sends
// nothing.
type countingWriter struct {
	*web.AnswerWriter
	pay func(status int) error
	err error
}

func (g *countingWriter) WriteHeader(status int) {
	if g.err != nil {
		return
	}
	g.err = g.pay(status)
	if g.err != nil {
		return
	}
	g.AnswerWriter.WriteHeader(status)
}

func (g *countingWriter) Write(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	return g.AnswerWriter.Write(p)
}

func (g *countingWriter) ReadFrom(r io.Reader) (int64, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.copy(r)
	if errors.Is(err, blobs.ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO) ||
		errors.Is(err, blobs.ErrAway) {
		// Some bytes were sent. The client must notice that they are not all.
		g.err = errDamaged
	}
	return n, err
}

// copy sends what r has. The kernel sends long pieces of a file without metadata.
func (g *countingWriter) copy(r io.Reader) (int64, error) {
	if part, ok := r.(*io.LimitedReader); ok {
		if clean, ok := part.R.(*metadata.Reader); ok {
			return clean.SendTo(g.AnswerWriter, part.N)
		}
	}
	return g.AnswerWriter.ReadFrom(r)
}

// countView counts the view if the answer with this status is one.
func countView(c *web.Request, r *record.Record, who viewer, status int, size int64) error {
	if err := Refusal(c, status, size); err != nil || status == http.StatusNotModified {
		return err
	}
	if status == http.StatusOK {
		c.R.Header.Del("Range") // only a part belongs to the view of a program without cookies
	}
	if counts, err := counts(c, r, who); err != nil || !counts {
		return err
	}
	if r.Limit == 0 && status == http.StatusPartialContent && !fromStart(c.R.Header.Get("Range"), size) {
		return nil
	}
	what := history.VisitFile
	if r.Kind == record.Collections && c.Arg("item") == "" {
		what = history.VisitZip
	}
	if err := see(c, r, what); err != nil {
		return err
	}
	return SetGrantCookie(c, grant.ToRead, r)
}

// Refusal is the error for a status without content, so that the answer looks like every
// other error.
func Refusal(c *web.Request, status int, size int64) error {
	h := c.W.Header()
	switch {
	case status == http.StatusPreconditionFailed:
		return web.ErrPrecondition
	case status == http.StatusRequestedRangeNotSatisfiable, status == http.StatusPartialContent &&
		h.Get("Content-Length") == "0":
		h.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
		return web.ErrRange
	case status != http.StatusOK && status != http.StatusPartialContent && status != http.StatusNotModified:
		return web.ErrInternal
	}
	return nil
}

// fromStart reports whether one of the ranges begins with the first byte. They are well
// formed, since http.ServeContent accepted them. The header of an answer with several ranges
// does not show this.
func fromStart(ranges string, size int64) bool {
	for r := range strings.SplitSeq(ranges[strings.IndexByte(ranges, '=')+1:], ",") {
		first, last, _ := strings.Cut(strings.TrimSpace(r), "-")
		text := strings.TrimSpace(first)
		if text == "" {
			text = strings.TrimSpace(last) // number of bytes from the end
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil && (first != "" && n == 0 || first == "" && n >= size) {
			return true
		}
	}
	return false
}

// PasswordForm is the optional body of a public read.
type PasswordForm struct{ password field.Secret }

func (f *PasswordForm) Fields(s *field.Set) {
	s.Secret("password", &f.password).Says("Password of the item, if it has one.", `"open sesame"`)
}

var sharePassword = web.Param{
	In: "header", Name: "x-share-password", Doc: "Password of the item, if it has one. " + PasswordHeader,
	Schema: web.Object{"type": "string", "maxLength": MaxPasswordHeader},
}

func ReadShared(k *record.Kind) web.Operation {
	name := web.Title(k.Name)
	return web.Operation{
		Tag: "public", Summary: "Reads a shared " + k.View().One + ", for visitors.",
		Args:  []web.Param{sharePassword, web.ProofArg},
		Body:  &web.Content{Media: web.JSONType, Name: "Password", Optional: true},
		Reply: web.Reply{Status: 200, Doc: "The record.", Body: web.DataOf("Shared" + name)},
		Fails: []int{401, 404, 410, 429, 503}, Slugs: true, Serve: readShared(k),
	}
}

// readShared answers with a shared record as visitors see it, even if its owner asks.
func readShared(k *record.Kind) func(*web.Request) error {
	return func(c *web.Request) error {
		form := new(PasswordForm)
		if c.R.ContentLength != 0 {
			if err := c.DecodeNew(form); err != nil {
				return err
			}
		}
		if form.password.Text != "" {
			c.R.Header.Set("X-Share-Password", form.password.Text)
		}
		r, who, err := shared(c, c.Arg("slug"), k)
		if err != nil {
			return err
		}
		// Made and held before the view is counted, because that may delete it, and because it cannot be taken back.
		body, err := c.HoldMade(func() ([]byte, error) {
			body := append(make([]byte, 0, len(r.Body)+shortText/8), `{"data":`...)
			err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
				body, err = c.Site.ShowVisitor(tx, body, r)
				return err
			})
			return append(body, '}'), err
		})
		if err != nil {
			return err
		}
		if !who.inside() {
			if err := see(c, r, history.VisitPage); err != nil {
				return err
			}
		}
		return c.RespondJSON(http.StatusOK, body)
	}
}
