// Package upload receives files: forms, resumable uploads of owners and senders, upload links
// and their queue, and remote uploads.
package upload

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"kist/blobs"
	"kist/httpapi/public"
	"kist/httpapi/thumb"
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

// pictured reports whether an uploaded file can have a thumbnail, judging by its header. It is
// decoded only when someone asks for the thumbnail.
func pictured(c *web.Request, p Part, ref blobs.Ref) (bool, error) {
	if !public.Shrinks(media.Of(p.claimed, p.Name, p.Head)) {
		return false, nil
	}
	f, err := c.Site.Blobs.Get(ref)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return thumb.Likely(f)
}

// examine finds out about the metadata of content that was kept. If that fails, it is tried again
// later.
func examine(ctx context.Context, s *web.Site, kept *blobs.Kept, mediaType string) record.Metadata {
	m, err := s.Plans.Examine(ctx, kept.Ref, mediaType)
	if err != nil {
		s.Log.Warn("cannot examine the metadata of an upload", "error", err)
	}
	return m
}

// Bounds of a multipart body.
const (
	MaxParts = 100
	MaxField = 64 << 10 // bytes of one text field
	maxTexts = 1 << 20  // bytes of all text fields; those of a visitor are fewer: see web.Request.FieldsLimit
	maxHead  = 8 << 10  // bytes before a part's content: its header, and text before the first part
)

// Part is a file of an upload, staged on the disk but not kept yet. For a repeated upload that was
// already answered, it has only the checksum.
type Part struct {
	Stage   *blobs.Stage // nil if the content was only read
	Sum     [sha256.Size]byte
	Name    string // as given by the client, cleaned
	unnamed bool   // the client gave no name
	claimed string // media type according to the client
	Head    []byte

	pictured bool // it can have a thumbnail
	metadata record.Metadata
}

func discardParts(c *web.Request, parts []Part) {
	for _, p := range parts {
		if p.Stage == nil {
			continue
		}
		if err := p.Stage.Drop(); err != nil {
			c.Site.Log.Warn("cannot remove the temporary file of an upload", "error", err)
		}
	}
}

var UploadFiles = web.Operation{
	Tag: "files", Summary: "Uploads one or more files.",
	Args: []web.Param{web.IdempotencyArg}, Body: web.MultipartForm,
	Reply: web.Reply{Status: 201, Doc: "The record of the file. For several files, a list in files.", Body: web.BodyOf("Uploaded")}, Fails: []int{409},
	Plain: web.BareAddress, Serve: uploadFiles,
}

// uploadFiles stores files and answers with their records: a single one flat, several in a list.
func uploadFiles(c *web.Request) error {
	key, err := web.IdempotencyKey(c.R)
	if err != nil {
		return err
	}
	earlier, err := LoadIdempotentAnswer(c, key)
	if err != nil && !kv.Missing(err) {
		return err
	}
	budget := UnlimitedBudget()
	if earlier == nil {
		if budget, err = BudgetOf(c.Site, c.Owner()); err != nil {
			return err
		}
	}
	parts, fields, err := ReadMultipart(c, budget)
	defer func() { discardParts(c, parts) }() // files that were kept stay
	if err != nil {
		return err
	}
	if earlier != nil {
		body, err := earlier.For(Fingerprint(c, key, parts, fields))
		if err != nil {
			return err
		}
		return c.AnswerUploaded(body)
	}
	form := record.NewForm(record.Files)
	problems := field.Create(record.Upload{Form: form}, fields)
	if err := web.JoinProblems(problems, form.CheckNew(c.Site.Store.Now()), fileProblems(form, parts)); err != nil {
		return err
	}
	hash, err := c.Hash(form.Password)
	if err != nil {
		return err
	}
	kept := make([]*blobs.Kept, 0, len(parts))
	recorded := false
	defer func() { ReleasePins(c.Site, kept, recorded) }() // after the commit, even if it fails
	for i := range parts {
		one, err := parts[i].Stage.KeepLater()
		if err != nil {
			return err
		}
		kept, parts[i].Sum = append(kept, one), one.Ref
		parts[i].metadata = examine(c.R.Context(), c.Site, one, media.Of(parts[i].claimed, parts[i].Name, parts[i].Head))
		if parts[i].pictured, err = pictured(c, parts[i], one.Ref); err != nil {
			return err
		}
	}
	request := Fingerprint(c, key, parts, fields)
	var body []byte
	err = c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		add := func() ([]byte, error) {
			recorded = true // not if another request with the key was faster
			return AddFiles(c, tx, form, parts, kept, hash)
		}
		if key == "" {
			body, err = add()
		} else {
			body, err = jobs.AnswerOnce(tx, c.Owner(), key, request, add)
		}
		return err
	})
	if recorded = recorded && err == nil; err != nil {
		return err
	}
	return c.AnswerUploaded(body)
}

var SetPoster = web.Operation{
	Tag: "files", Summary: "Gives a film a picture for its thumbnail: a JPEG, PNG, GIF or WebP of at most 512 KiB. The server cannot decode films, so clients send one. It is kept with the other thumbnails and may get lost.",
	Body: &web.Content{Media: "application/octet-stream"}, Reply: web.DoneReply, Fails: []int{404}, Serve: setPoster,
}

func setPoster(c *web.Request) error {
	picture, err := c.ReadBody(thumb.MaxPoster)
	if err != nil {
		return err
	}
	var r *record.Record
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		r, err = catalog.Record(tx, c.Owner(), record.Files, c.Arg("slug"))
		return err
	}); err != nil {
		return err
	}
	b, err := r.Decode()
	if err != nil {
		return err
	}
	if record.ClassOf(b.(*record.File).MimeType) != record.Video { // the kind is asked for
		return record.Bad(map[string]string{"slug": "must be that of a film"})
	}
	err = c.Site.Thumbs.SetPoster(c.R.Context(), c.Owner(), r.ID, picture)
	if errors.Is(err, thumb.ErrNone) {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be a picture: JPEG, PNG, GIF or WebP."}
	}
	if err != nil {
		return err
	}
	return c.RespondOK()
}

// ReleasePins releases the pins. It immediately unlinks content that got no record, because
// refused uploads would otherwise fill the disk until the next sweep. Content of a recently
// removed record stays for its usual time.
func ReleasePins(s *web.Site, kept []*blobs.Kept, recorded bool) {
	for _, k := range kept {
		k.Release()
		if recorded {
			continue
		}
		if _, err := s.Blobs.Unlink(k.Ref, func() (bool, error) { return catalog.ContentUnknown(s.Store, k.Ref) }); err != nil {
			s.Log.Warn("cannot remove content without a record; the sweep will remove it", "error", err)
		}
	}
}

// LoadIdempotentAnswer is the answer to an earlier request with the same key; Missing if there is
// none.
func LoadIdempotentAnswer(c *web.Request, key string) (a *jobs.IdempotentAnswer, err error) {
	if key == "" {
		return nil, record.NotFound("answer")
	}
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		a, err = jobs.FindAnswer(tx, c.Owner(), key)
		return err
	})
	return a, err
}

// Fingerprint identifies an upload by its method and path, by the names, types and contents of its
// files in order, and by the fields in any order. It includes the Idempotency-Key, so that a
// password among the fields cannot be found by trying passwords against the stored fingerprint.
func Fingerprint(c *web.Request, key string, parts []Part, fields field.Object) []byte {
	h := hmac.New(sha256.New, []byte(key))
	add := func(text string) { // different lists of texts give different bytes
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text)))) // cannot fail
		_, _ = io.WriteString(h, text)
	}
	add(c.R.Method)
	add(c.R.URL.Path)
	add(strconv.Itoa(len(parts)))
	for _, p := range parts {
		add(p.Name)
		add(p.claimed)
		add(string(p.Sum[:]))
	}
	for _, name := range web.SortedKeys(fields) {
		add(name)
		text, _ := fields[name].(string) // ReadMultipart reads only strings
		add(text)
	}
	return h.Sum(nil)
}

// UploadBudget is what an upload may use.
type UploadBudget struct {
	File  int64 // bytes of one file
	Left  int64 // bytes until the quota is used up
	Disk  int64 // bytes that fit on the disk
	quota int64
	Look  bool // the content is only read, not staged

	// For senders.
	next  func() error                         // called before a file is read; may be nil
	takes func(name string, head []byte) error // called with the file's first bytes; may be nil
	more  func() error                         // called when Left is used up, to raise it; may be nil
	full  error                                // the error to use instead of the quota's
}

// UnlimitedBudget is the budget for a repeated upload that was already answered. It is only read,
// because clients read the answer after they have sent everything.
func UnlimitedBudget() *UploadBudget {
	return &UploadBudget{File: math.MaxInt64 - 1, Left: math.MaxInt64 - 1, Disk: math.MaxInt64 - 1, Look: true}
}

// ErrTooLarge is the error for a file of this size if it does not fit; otherwise nil.
func (m *UploadBudget) ErrTooLarge(size int64) error {
	switch {
	case size > m.File:
		return &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The file is larger than " + record.Plural(m.File, "byte") + "."}
	case size > m.Left && m.full != nil:
		return m.full
	case size > m.Disk:
		return kv.ErrFull
	case size > m.Left:
		return &record.Error{Fault: record.Denied, Code: "quota_exceeded", Text: "This does not fit your storage quota of " + record.Plural(m.quota, "byte") + "."}
	}
	return nil
}

// BudgetOf returns what an upload of the owner may use now. The transaction decides about the
// quota. The budget only prevents reading an upload to the end that cannot fit.
func BudgetOf(s *web.Site, owner record.ID) (*UploadBudget, error) {
	m := &UploadBudget{File: s.MaxUpload, Disk: s.Store.FreeForContent()}
	return m, s.Store.View(func(tx *kv.Tx) error {
		set, err := people.ReadSettings(tx)
		if err != nil {
			return err
		}
		m.File = set.Largest(m.File)
		m.Disk = max(0, m.Disk-inbox.ReservedBytes(tx))
		left, quota, err := people.Left(tx, owner)
		m.Left, m.quota = max(0, left), quota
		return err
	})
}

func fileProblems(form *record.Form, parts []Part) error {
	switch {
	case len(parts) == 0:
		return field.Problems{"file": "is required"}
	case len(parts) > 1 && form.Slug != "":
		return field.Problems{"slug": "can be given to one file only"}
	}
	return nil
}

// AddFiles adds the records and makes the answer.
func AddFiles(c *web.Request, tx *kv.Tx, form *record.Form, parts []Part, kept []*blobs.Kept, hash string) ([]byte, error) {
	var body []byte
	tx.Carry(kept...)
	for i, p := range parts {
		if err := catalog.KeepCRCOf(tx, kept[i]); err != nil {
			return nil, err
		}
		r, err := catalog.Add(tx, catalog.Draft{
			Owner: c.Owner(), Kind: record.Files, Form: fileForm(form, p, kept[i], i == 0), Password: hash,
			Content: &record.Content{Ref: kept[i].Ref, Size: kept[i].Size, Metadata: p.metadata},
		})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		v, err := c.Site.Read(tx, r)
		if err != nil {
			return nil, err
		}
		if len(parts) == 1 && strings.HasPrefix(c.R.URL.Path, web.APIPath) {
			body = c.AppendOne(body, v)
		} else {
			body = v.AppendJSON(body)
		}
		v.Release()
		body = c.Site.AppendLinks(body[:len(body)-1], r, p.pictured) // more members of the record's object follow
		body = append(body, '}')
	}
	if len(parts) > 1 {
		body = append(append([]byte(`{"files":[`), body...), "]}"...)
	}
	return body, nil
}

// fileForm is the form for one file of an upload. The name in the upload's form applies only to
// the first file.
func fileForm(form *record.Form, p Part, kept *blobs.Kept, first bool) *record.Form {
	said := form.Body.(*record.File) // the form is a file's
	name := p.Name
	if said.OriginalName != "" && first {
		name, _ = record.CleanFileName(said.OriginalName) // never fails
	}
	one := *form
	one.Body = &record.File{
		OriginalName: name, Description: said.Description, Size: kept.Size,
		MimeType: media.Of(p.claimed, name, p.Head), SHA256: hex.EncodeToString(kept.Ref[:]),
	}
	return &one
}

// longBody reads a body in large pieces once it turns out to be long: multipart.Reader reads 4 KiB at
// a time, and a system call for each of those would take longer than everything else about a large
// upload. Many small uploads at a time take no large buffers.
type longBody struct {
	c      *web.Request
	r      io.Reader
	n      int64         // bytes read so far
	buffer *bufio.Reader // around r, once the body is long and there is memory for it
}

const (
	longFrom   = 1 << 20   // bytes
	longBuffer = 256 << 10 // bytes
)

var bodyBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, longBuffer) }}

func (b *longBody) Read(p []byte) (int, error) {
	if b.buffer == nil && b.n >= longFrom && b.c.TryHold(longBuffer) {
		b.buffer = bodyBuffers.Get().(*bufio.Reader)
		b.buffer.Reset(b.r)
		b.r = b.buffer
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	return n, err
}

// release gives the buffer back. Nothing may be read any more.
func (b *longBody) release() {
	if b.buffer != nil {
		b.buffer.Reset(nil) // the pool must not keep the request
		bodyBuffers.Put(b.buffer)
	}
}

var errMultipart = &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The multipart body cannot be read."}

// ReadMultipart reads a multipart body (RFC 7578). Files are streamed to the disk, and fields may
// come in any order. The caller must discard the parts, which are also returned with an error.
func ReadMultipart(c *web.Request, m *UploadBudget) (parts []Part, fields field.Object, err error) {
	media, params, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return nil, nil, &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be multipart/form-data."}
	}
	if params["boundary"] == "" || len(params["boundary"]) > 70 {
		return nil, nil, errMultipart
	}
	whole := int64(math.MaxInt64)
	if m.File < whole/MaxParts-maxTexts {
		whole = (m.File + maxTexts) * MaxParts
	}
	texts, head := c.FieldsLimit(maxTexts), int64(maxHead)
	if err := c.Hold(head); err != nil { // for what the reader keeps of the heads
		return nil, nil, err
	}
	body := &longBody{c: c, r: c.LimitBody(whole)}
	defer body.release()
	from := &endDetector{r: body}
	in := multipart.NewReader(from, params["boundary"])
	fields = field.Object{}
	misnamed := ""
	for n := 0; ; n++ {
		from.left = head
		raw, err := in.NextRawPart()
		from.left = math.MaxInt64
		if err == io.EOF && len(parts) == 0 && misnamed != "" { //nolint:errorlint // the reader returns it bare
			return parts, nil, errMisnamed(misnamed)
		}
		if err == io.EOF { //nolint:errorlint // as above
			return parts, fields, nil
		}
		if err != nil {
			return parts, nil, unreadable(err)
		}
		if n == MaxParts {
			return parts, nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The multipart body has more than " + strconv.Itoa(MaxParts) + " parts."}
		}
		p, err := decode(raw)
		if err != nil {
			return parts, nil, err
		}
		name := p.FormName()
		if name == "" && nameless(raw) { // the part may be a password or one of several files
			return parts, nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The multipart body has a part whose Content-Disposition cannot be read."}
		}
		if name == "file" {
			if m.next != nil {
				if err := m.next(); err != nil {
					return parts, nil, err
				}
			}
			one, err := stagePart(c, p, m)
			parts = append(parts, one)
			if err != nil {
				return parts, fields, err
			}
			continue
		}
		if p.FileName() != "" {
			misnamed = name
		}
		most := min(MaxField, texts)
		value, err := c.ReadField(io.LimitReader(p, most+1), most)
		if err != nil {
			return parts, nil, unreadable(err)
		}
		long := int64(len(value)) > most
		if long && p.FileName() != "" {
			return parts, nil, errMisnamed(name)
		}
		if long {
			return parts, nil, &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The text fields of the form are too large."}
		}
		texts -= int64(len(value))
		if _, twice := fields[name]; twice {
			return parts, nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The form names " + strconv.Quote(shorten(name)) + " twice."}
		}
		if name != "" {
			fields[name] = value
		}
	}
}

// formPart is a part of a form. Reading it decodes its bytes.
type formPart struct {
	*multipart.Part
	decoded io.Reader
}

func (p *formPart) Read(b []byte) (int, error) { return p.decoded.Read(b) }

// decode decodes the part as its Content-Transfer-Encoding says (RFC 2045, section 6). Forms should not have
// one (RFC 7578, section 4.7), but some programs send it, and the encoded text is not the file.
func decode(raw *multipart.Part) (*formPart, error) {
	encoding := strings.ToLower(strings.TrimSpace(raw.Header.Get("Content-Transfer-Encoding")))
	switch encoding {
	case "", "7bit", "8bit", "binary":
		return &formPart{raw, raw}, nil
	case "base64":
		return &formPart{raw, base64.NewDecoder(base64.StdEncoding, raw)}, nil
	case "quoted-printable":
		return &formPart{raw, quotedprintable.NewReader(raw)}, nil
	}
	return nil, &record.Error{
		Fault: record.Malformed, Code: "malformed",
		Text: "A part of the form has the Content-Transfer-Encoding " + strconv.Quote(shorten(encoding)) +
			", which is unknown. Send the bytes as they are.",
	}
}

// errMisnamed is the error for a file in a field with another name.
func errMisnamed(name string) error {
	return record.Bad(map[string]string{"file": "must be in the field file; the form has one in the field " + strconv.Quote(shorten(name))})
}

// endDetector reads at most left bytes. At the end of the input it returns an error, because
// multipart.Reader takes an end within a part's header for the end of the form. Before that it adds
// a line end, which may be missing after the last boundary.
type endDetector struct {
	r              io.Reader
	left           int64
	closing, ended bool // at the line end, and after it
}

func (g *endDetector) Read(b []byte) (int, error) {
	if g.ended {
		return 0, io.ErrUnexpectedEOF
	}
	if g.left <= 0 {
		return 0, errMultipart
	}
	n, err := g.r.Read(b[:min(int64(len(b)), g.left)])
	g.left -= int64(n)
	if err == io.EOF { // readers return it bare
		g.r, err = strings.NewReader("\r\n"), nil
		g.ended, g.closing = g.closing, true
	}
	return n, err
}

func shorten(name string) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(name[:64], "") + "…"
	}
	return name
}

// unreadable is the error for a multipart body that is cut off or malformed.
func unreadable(err error) error {
	if _, status := web.ClientError(err); status != http.StatusInternalServerError {
		return err
	}
	return errMultipart
}

// stagePart stages one file of a form.
func stagePart(c *web.Request, p *formPart, m *UploadBudget) (out Part, err error) {
	out.Name, out.claimed, out.unnamed = FileName(p.Part), p.Header.Get("Content-Type"), p.FileName() == ""
	err = stage(c, &out, p, m)
	return out, err
}

// stage streams one file to the disk, or only reads it if the budget says so, and subtracts its
// size from the budget.
func stage(c *web.Request, out *Part, p io.Reader, m *UploadBudget) (err error) {
	sum := sha256.New()
	to := io.Writer(sum)
	if !m.Look {
		if out.Stage, err = c.Site.Blobs.StageSmall(); err != nil {
			return err
		}
		to = out.Stage // it computes the sum itself
	}
	head := make([]byte, media.Sniffed)
	n := 0
	for n < len(head) && err == nil {
		var k int
		k, err = p.Read(head[n:])
		n += k
	}
	out.Head = head[:n]
	if m.takes != nil && (n > 0 || !out.unnamed) && (err == nil || err == io.EOF) { //nolint:errorlint // readers return it bare
		if err := m.takes(out.Name, out.Head); err != nil {
			return err
		}
	}
	if more := m.raise(int64(n)); more != nil {
		return more
	}
	from := &readErrors{r: bytes.NewReader(out.Head)}
	if err == nil { // together with the head, so that a small file is one write
		from.r = io.MultiReader(from.r, &within{p, m, int64(n)})
	}
	size, cerr := io.Copy(to, from)
	if cerr != nil && from.err == nil {
		return cerr // an error of the disk, not of the client
	}
	if err = cmp.Or(from.err, err); err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		return unreadable(err)
	}
	if err := m.ErrTooLarge(size); err != nil {
		return err
	}
	m.Left -= size
	sum.Sum(out.Sum[:0])
	return nil
}

// within reads a file, of which n bytes were read, until it is a byte too long for the budget.
type within struct {
	r io.Reader
	m *UploadBudget
	n int64
}

func (w *within) Read(b []byte) (int, error) {
	room := min(w.m.File, w.m.Left) + 1 - w.n
	if room <= 0 {
		return 0, io.EOF
	}
	n, err := w.r.Read(b[:min(int64(len(b)), room)])
	w.n += int64(n)
	if more := w.m.raise(w.n); more != nil {
		return n, more
	}
	return n, err
}

// raise makes room for a file of which size bytes have come, if that is possible.
func (m *UploadBudget) raise(size int64) error {
	if m.more == nil || size <= m.Left || size > m.File {
		return nil
	}
	return m.more()
}

// readErrors distinguishes read errors from write errors.
type readErrors struct {
	r   io.Reader
	err error
}

func (s *readErrors) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF { // readers return it bare
		s.err = err
	}
	return n, err
}

// nameless reports whether the part has an unreadable header that should have its name.
func nameless(p *multipart.Part) bool {
	said := p.Header.Get("Content-Disposition")
	_, _, err := mime.ParseMediaType(said)
	return said != "" && err != nil
}

// FileName is the name of the part's file. Browsers write a quote in it as %22 and line ends as
// %0D and %0A (HTML standard, multipart/form-data encoding).
func FileName(p *multipart.Part) string {
	_, params, _ := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	name := formEscapes.Replace(params["filename"])
	name, _ = record.CleanFileName(name) // never fails
	return name
}

var formEscapes = strings.NewReplacer("%22", `"`, "%0D", "", "%0A", "", "%0d", "", "%0a", "")
