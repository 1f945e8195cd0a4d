package httpapi

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kist/blobs"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// Bounds of a multipart body.
const (
	maxParts = 100
	maxField = 64 << 10 // bytes of one text field
	maxTexts = 1 << 20  // bytes of all text fields
	maxHead  = 64 << 10 // bytes before a part's content: its header, and what precedes the first part
)

// part is a file of an upload whose bytes are on the disk, not yet kept; or, of an
// upload that was answered before, their sum alone.
type part struct {
	stage   *blobs.Stage // nil if the content was only looked at
	sum     [sha256.Size]byte
	name    string // as the client has it, cleaned
	unnamed bool   // the client says no name
	claimed string // media type by the client's word
	head    []byte

	pictured bool // a thumbnail can be made of it
}

// discardParts removes what was staged of parts and not kept.
func (c *request) discardParts(parts []part) {
	for _, p := range parts {
		if p.stage == nil {
			continue
		}
		if err := p.stage.Drop(); err != nil {
			c.s.Log.Warn("an upload's temporary file is left", "error", err)
		}
	}
}

// upload keeps files and answers with their records: one flat, several in a
// list.
func upload(c *request) error {
	key, err := c.idempotencyKey()
	if err != nil {
		return err
	}
	earlier, err := c.answered(key)
	if err != nil && !missing(err) {
		return err
	}
	room := unlimitedBudget()
	if earlier == nil {
		if room, err = c.s.uploadBudget(c.owner()); err != nil {
			return err
		}
	}
	parts, fields, err := c.readMultipart(room)
	defer func() { c.discardParts(parts) }() // what is kept by then stays
	if err != nil {
		return err
	}
	if earlier != nil {
		body, err := earlier.For(c.fingerprint(key, parts, fields))
		if err != nil {
			return err
		}
		return c.answerUploaded(body)
	}
	form := record.NewForm(record.Files)
	problems := field.Create(record.Upload{Form: form}, fields)
	if err := joinProblems(problems, form.CheckNew(c.s.Store.Now()), fileProblems(form, parts)); err != nil {
		return err
	}
	hash, err := c.hash(form.Password)
	if err != nil {
		return err
	}
	kept := make([]*blobs.Kept, 0, len(parts))
	recorded := false
	defer func() { c.s.releasePins(kept, recorded) }() // after the commit, whatever comes
	for i := range parts {
		one, err := parts[i].stage.Keep()
		if err != nil {
			return err
		}
		kept, parts[i].sum = append(kept, one), one.Ref
		if parts[i].pictured, err = c.pictured(parts[i], one.Ref); err != nil {
			return err
		}
	}
	request := c.fingerprint(key, parts, fields)
	var body []byte
	err = c.updateAsCaller(func(tx *kv.Tx) (err error) {
		if key != "" {
			// Another request with the key may have been faster.
			earlier, err := tx.IdempotentAnswer(c.owner(), key)
			if err == nil {
				body, err = earlier.For(request)
			}
			if !missing(err) {
				return err
			}
		}
		if body, err = c.addFiles(tx, form, parts, kept, hash); err != nil {
			return err
		}
		recorded = true
		if key != "" {
			return tx.SaveIdempotentAnswer(c.owner(), key, kv.IdempotentAnswer{Request: request, Body: body})
		}
		return nil
	})
	if recorded = recorded && err == nil; err != nil {
		return err
	}
	return c.answerUploaded(body)
}

// releasePins ends the pins. Content that got no record is unlinked at once: otherwise
// refused uploads would fill the disk until the next sweep; but not what a
// record had that was removed lately, which has its time.
func (s *site) releasePins(kept []*blobs.Kept, recorded bool) {
	for _, k := range kept {
		k.Release()
		if recorded {
			continue
		}
		if _, err := s.Blobs.Unlink(k.Ref, func() (bool, error) { return s.Store.NeverReferenced(k.Ref) }); err != nil {
			s.Log.Warn("content without a record is left to the sweep", "error", err)
		}
	}
}

// answered is the answer to an earlier request with the same key; Missing if
// there was none.
func (c *request) answered(key string) (a *kv.IdempotentAnswer, err error) {
	if key == "" {
		return nil, record.NotFound("answer")
	}
	err = c.s.Store.View(func(tx *kv.Tx) error {
		a, err = tx.IdempotentAnswer(c.owner(), key)
		return err
	})
	return a, err
}

// fingerprint tells an upload from every other: by its method and path, what
// is said of its files and their content, in order, and the fields, in any
// order. The Idempotency-Key goes into it, so that a password among the fields
// cannot be found by trying out which makes the stored fingerprint.
func (c *request) fingerprint(key string, parts []part, fields field.Object) []byte {
	h := hmac.New(sha256.New, []byte(key))
	add := func(text string) { // no two lists of texts are written alike
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text)))) // cannot fail
		_, _ = io.WriteString(h, text)
	}
	add(c.r.Method)
	add(c.r.URL.Path)
	add(strconv.Itoa(len(parts)))
	for _, p := range parts {
		add(p.name)
		add(p.claimed)
		add(string(p.sum[:]))
	}
	for _, name := range sortedKeys(fields) {
		add(name)
		text, _ := fields[name].(string) // receive reads nothing else
		add(text)
	}
	return h.Sum(nil)
}

// uploadBudget is what an upload may take.
type uploadBudget struct {
	file  int64 // bytes of one file
	left  int64 // bytes until the quota is used up
	disk  int64 // bytes that the disk takes
	quota int64
	look  bool // the content is looked at and not staged

	// Of what strangers send.
	names []string                             // of the fields that are read; all if nil
	next  func() error                         // is asked before a file is read, unless it is nil
	takes func(name string, head []byte) error // is asked once the file's first bytes are there, unless it is nil
	full  error                                // in place of the quota's
}

// unlimitedBudget is the room of an upload that was answered before, which is only
// looked at: clients read the answer when they have sent everything.
func unlimitedBudget() *uploadBudget {
	return &uploadBudget{file: math.MaxInt64 - 1, left: math.MaxInt64 - 1, disk: math.MaxInt64 - 1, look: true}
}

// errTooLarge is the error of a file of the given size that does not fit.
func (m *uploadBudget) errTooLarge(size int64) error {
	switch {
	case size > m.file:
		return &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The file is larger than " + strconv.FormatInt(m.file, 10) + " bytes."}
	case size > m.left && m.full != nil:
		return m.full
	case size > m.disk:
		return kv.ErrFull
	case size > m.left:
		return &record.Error{Fault: record.Denied, Code: "quota_exceeded", Text: "This does not fit your storage quota of " + strconv.FormatInt(m.quota, 10) + " bytes."}
	}
	return nil
}

// uploadBudget finds out what an upload of the owner may take now. The quota is decided in the
// transaction; here it keeps what cannot fit from being read to the end.
func (s *site) uploadBudget(owner record.ID) (*uploadBudget, error) {
	m := &uploadBudget{file: s.MaxUpload, left: math.MaxInt64, disk: s.Store.FreeForContent()}
	return m, s.Store.View(func(tx *kv.Tx) error {
		set, err := tx.Settings()
		if err != nil {
			return err
		}
		if set.MaxUpload > 0 {
			m.file = min(m.file, set.MaxUpload)
		}
		u, err := tx.User(owner)
		if err != nil {
			return err
		}
		m.disk = max(0, m.disk-tx.ReservedBytes())
		use, err := tx.Usage(u)
		if use.Quota > 0 {
			m.quota, m.left = use.Quota, max(0, use.Quota-use.Used()-use.Begun)
		}
		return err
	})
}

func fileProblems(form *record.Form, parts []part) error {
	switch {
	case len(parts) == 0:
		return field.Problems{"file": "is required"}
	case len(parts) > 1 && form.Slug != "":
		return field.Problems{"slug": "can be given to one file only"}
	}
	return nil
}

// addFiles makes the records and the answer.
func (c *request) addFiles(tx *kv.Tx, form *record.Form, parts []part, kept []*blobs.Kept, hash string) ([]byte, error) {
	var body []byte
	for i, p := range parts {
		r, err := tx.Add(c.owner(), record.Files, fileForm(form, p, kept[i], i == 0), &record.Content{Ref: kept[i].Ref, Size: kept[i].Size}, hash)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = c.s.show(tx, body, r); err != nil {
			return nil, err
		}
		body = c.s.appendLinks(body[:len(body)-1], r, p.pictured) // the record's object goes on
		body = append(body, '}')
	}
	if len(parts) > 1 {
		body = append(append([]byte(`{"files":[`), body...), "]}"...)
	}
	return body, nil
}

// fileForm is the form of one file of an upload. The name that the form gives
// is for the first.
func fileForm(form *record.Form, p part, kept *blobs.Kept, first bool) *record.Form {
	said := form.Body.(*record.File) // the form is a file's
	name := p.name
	if said.OriginalName != "" && first {
		name, _ = record.CleanFileName(said.OriginalName) // never fails
	}
	one := *form
	one.Body = &record.File{
		OriginalName: name, Description: said.Description, Size: kept.Size,
		MimeType: media.Of(p.claimed, name, p.head), SHA256: hex.EncodeToString(kept.Ref[:]),
	}
	return &one
}

var errMultipart = &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The multipart body cannot be read."}

// readMultipart reads a multipart body (RFC 7578): files are streamed to the disk,
// fields come in any order. On an error it returns the parts so far, which
// the caller drops in any case.
func (c *request) readMultipart(m *uploadBudget) (parts []part, fields field.Object, err error) {
	media, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return nil, nil, &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be multipart/form-data."}
	}
	if params["boundary"] == "" || len(params["boundary"]) > 70 {
		return nil, nil, errMultipart
	}
	whole := int64(math.MaxInt64)
	if m.file < whole/maxParts-maxTexts {
		whole = (m.file + maxTexts) * maxParts
	}
	from := &endDetector{r: c.limitBody(whole)}
	in := multipart.NewReader(from, params["boundary"])
	fields = field.Object{}
	texts := 0
	for n := 0; ; n++ {
		from.left = maxHead
		p, err := in.NextRawPart()
		from.left = math.MaxInt64
		if err == io.EOF { //nolint:errorlint // the reader returns it bare
			return parts, fields, nil
		}
		if err != nil {
			return parts, nil, unreadable(err)
		}
		if n == maxParts {
			return parts, nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The multipart body has more than " + strconv.Itoa(maxParts) + " parts."}
		}
		name := p.FormName()
		if name == "" && nameless(p) { // it may be a password, or a file of several
			return parts, nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The multipart body has a part whose Content-Disposition cannot be read."}
		}
		if name == "file" {
			if m.next != nil {
				if err := m.next(); err != nil {
					return parts, nil, err
				}
			}
			one, err := c.stagePart(p, m)
			parts = append(parts, one)
			if err != nil {
				return parts, fields, err
			}
			continue
		}
		value, err := io.ReadAll(io.LimitReader(p, maxField+1))
		if err != nil {
			return parts, nil, unreadable(err)
		}
		if texts += len(value); len(value) > maxField || texts > maxTexts {
			return parts, nil, &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The text fields of the form are too large."}
		}
		if m.names != nil && !slices.Contains(m.names, name) {
			continue
		}
		if _, twice := fields[name]; twice {
			return parts, nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The form names " + strconv.Quote(shorten(name)) + " twice."}
		}
		if name != "" {
			fields[name] = string(value)
		}
	}
}

// endDetector reads no more than left. The end of what it reads is an error, for
// multipart.Reader takes an end within a part's header for the end of the form;
// a line end comes before it, which the last boundary may lack.
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

// unreadable is the error of a multipart body that breaks off or is none.
func unreadable(err error) error {
	if _, status := clientError(err); status != http.StatusInternalServerError {
		return err
	}
	return errMultipart
}

// stagePart streams one file to the disk, or past it if it is only looked at, and
// takes its size off the room that is left.
func (c *request) stagePart(p *multipart.Part, m *uploadBudget) (out part, err error) {
	sum := sha256.New()
	to := io.Writer(sum)
	if !m.look {
		if out.stage, err = c.s.Blobs.Stage(); err != nil {
			return out, err
		}
		to = out.stage // which sums on its own
	}
	out.name, out.claimed = fileName(p), p.Header.Get("Content-Type")
	head := make([]byte, media.Sniffed)
	n := 0
	for n < len(head) && err == nil {
		var k int
		k, err = p.Read(head[n:])
		n += k
	}
	out.head = head[:n]
	out.unnamed = p.FileName() == ""
	if m.takes != nil && (n > 0 || !out.unnamed) && (err == nil || err == io.EOF) { //nolint:errorlint // readers return it bare
		if err := m.takes(out.name, out.head); err != nil {
			return out, err
		}
	}
	from := &readErrors{r: bytes.NewReader(out.head)}
	if err == nil { // with the head, so that little content is one write
		from.r = io.MultiReader(from.r, io.LimitReader(p, min(m.file, m.left)-int64(n)+1))
	}
	size, cerr := io.Copy(to, from)
	if cerr != nil && from.err == nil {
		return out, cerr // the disk's fault, not the client's
	}
	if err = cmp.Or(from.err, err); err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		return out, unreadable(err)
	}
	if err := m.errTooLarge(size); err != nil {
		return out, err
	}
	m.left -= size
	sum.Sum(out.sum[:0])
	return out, nil
}

// readErrors tells errors of reading from errors of writing.
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

// nameless reports whether the part has a header that should name it and cannot
// be read.
func nameless(p *multipart.Part) bool {
	said := p.Header.Get("Content-Disposition")
	_, _, err := mime.ParseMediaType(said)
	return said != "" && err != nil
}

// fileName is the name of the part's file. Browsers write a quote in it as
// %22 and line ends as %0D and %0A (HTML standard, multipart/form-data
// encoding).
func fileName(p *multipart.Part) string {
	_, params, _ := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	name := formEscapes.Replace(params["filename"])
	name, _ = record.CleanFileName(name) // never fails
	return name
}

var formEscapes = strings.NewReplacer("%22", `"`, "%0D", "", "%0A", "", "%0d", "", "%0a", "")
