package upload

import (
	"bufio"
	"encoding/base64"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"kist/httpapi/web"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// Bounds of a multipart body.
const (
	MaxFiles = 300
	maxOther = 100      // other parts
	MaxField = 64 << 10 // bytes of one text field
	maxTexts = 1 << 20  // bytes of all text fields; those of a visitor are fewer: see web.Request.FieldsLimit
	maxHead  = 8 << 10  // bytes before a part's content: its header, and text before the first part
)

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

// ReadForm reads a multipart body (RFC 7578). The intake takes its files, and fields may come in any order.
func (in *Intake) ReadForm(c *web.Request, m *Budget) (fields field.Object, err error) {
	kind, params, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, &record.Error{
			Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be multipart/form-data.",
		}
	}
	if params["boundary"] == "" || len(params["boundary"]) > 70 {
		return nil, errMultipart
	}
	whole := int64(math.MaxInt64)
	if m.File < whole/MaxFiles-maxTexts {
		whole = (m.File + maxTexts) * MaxFiles
	}
	texts, head := c.FieldsLimit(maxTexts), int64(maxHead)
	if err := c.Hold(head); err != nil { // for what the reader keeps of the heads
		return nil, err
	}
	body := &longBody{c: c, r: c.LimitBody(whole)}
	defer body.release()
	from := &endDetector{r: body}
	parts := multipart.NewReader(from, params["boundary"])
	fields = field.Object{}
	misnamed := ""
	for others := 0; ; {
		from.left = head
		raw, err := parts.NextRawPart()
		from.left = math.MaxInt64
		if err == io.EOF && len(in.Files) == 0 && misnamed != "" { //nolint:errorlint // the reader returns it bare
			return nil, errMisnamed(misnamed)
		}
		if err == io.EOF { //nolint:errorlint // as above
			return fields, nil
		}
		if err != nil {
			return nil, unreadable(err)
		}
		p, err := decode(raw)
		if err != nil {
			return nil, err
		}
		name := p.FormName()
		if name == "" && nameless(raw) { // the part may be a password or one of several files
			return nil, &record.Error{
				Fault: record.Malformed, Code: "malformed",
				Text: "The multipart body has a part whose Content-Disposition cannot be read.",
			}
		}
		if name == "file" {
			if len(in.Files) == MaxFiles {
				return nil, &record.Error{
					Fault: record.Malformed, Code: "malformed",
					Text: "The form has more than " + strconv.Itoa(MaxFiles) + " files. Send them in several forms.",
				}
			}
			if err := c.Hold(media.Sniffed); err != nil {
				return nil, err
			}
			if m.next != nil {
				if err := m.next(); err != nil {
					return nil, err
				}
			}
			one := &File{Name: FileName(p.Part), Claimed: p.Header.Get("Content-Type"), Unnamed: p.FileName() == ""}
			if err := in.Take(one, p, m); err != nil {
				return fields, err
			}
			continue
		}
		others++
		if others > maxOther {
			return nil, &record.Error{
				Fault: record.Malformed, Code: "malformed",
				Text: "The form has more than " + strconv.Itoa(maxOther) + " parts beside its files.",
			}
		}
		if p.FileName() != "" {
			misnamed = name
		}
		most := min(MaxField, texts)
		value, err := c.ReadField(io.LimitReader(p, most+1), most)
		if err != nil {
			return nil, unreadable(err)
		}
		long := int64(len(value)) > most
		if long && p.FileName() != "" {
			return nil, errMisnamed(name)
		}
		if long {
			return nil, &record.Error{
				Fault: record.TooLarge, Code: "too_large", Text: "The text fields of the form are too large.",
			}
		}
		texts -= int64(len(value))
		if _, twice := fields[name]; twice {
			return nil, &record.Error{
				Fault: record.Malformed, Code: "malformed", Text: "The form names " + strconv.Quote(shorten(name)) + " twice.",
			}
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

func (p *formPart) Read(b []byte) (int, error) {
	n, err := p.decoded.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		err = unreadable(err)
	}
	return n, err
}

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
	return record.Bad(map[string]string{
		"file": "must be in the field file; the form has one in the field " + strconv.Quote(shorten(name)),
	})
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

// nameless reports whether the part has an unreadable header that should have its name.
func nameless(p *multipart.Part) bool {
	said := p.Header.Get("Content-Disposition")
	_, _, err := mime.ParseMediaType(said)
	return said != "" && err != nil
}
