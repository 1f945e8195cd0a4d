package httpapi

import (
	"encoding/hex"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"

	"kist/blobs"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// Bounds of a multipart body.
const (
	maxParts = 100
	maxField = 64 << 10 // bytes of one text field
	maxTexts = 1 << 20  // bytes of all text fields
	sniffed  = 512      // bytes that tell a file's type
)

// part is a file of an upload whose bytes are on the disk, not yet kept.
type part struct {
	stage   *blobs.Stage
	name    string // as the client has it, cleaned
	claimed string // media type by the client's word
	head    []byte
}

// upload keeps files and answers with their records: one flat, several in a
// list.
func upload(c *call) error {
	key := c.r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return &record.Error{Fault: record.Malformed, Code: "bad_idempotency_key", Text: "The Idempotency-Key is longer than 255 bytes."}
	}
	switch body, err := c.repeated(key); {
	case err == nil:
		// Clients read the answer only when they have sent everything.
		_, _ = io.Copy(io.Discard, c.limited(math.MaxInt64))
		return c.text(http.StatusCreated, body)
	case !missing(err):
		return err
	}
	most, err := c.maxUpload()
	if err != nil {
		return err
	}
	parts, fields, err := c.receive(most)
	defer func() {
		for _, p := range parts {
			if err := p.stage.Drop(); err != nil {
				c.s.Log.Warn("an upload's temporary file is left", "error", err)
			}
		}
	}()
	if err != nil {
		return err
	}
	form := record.NewForm(record.Files)
	problems := field.Of(record.Upload{Form: form}).Create(fields)
	if err := check(problems, form.CheckNew(c.s.Store.Now()), fileProblems(form, parts)); err != nil {
		return err
	}
	hash, err := c.hash(form.Password)
	if err != nil {
		return err
	}
	kept := make([]*blobs.Kept, len(parts))
	for i := range parts {
		if kept[i], err = parts[i].stage.Keep(); err != nil {
			return err
		}
		defer kept[i].Release() // after the commit, whatever comes
	}
	var body []byte
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		if first, err := tx.Answer(c.owner(), key); key != "" && err == nil {
			body = first // the same request was faster on another connection
			return nil
		}
		body, err = c.addFiles(tx, form, parts, kept, hash)
		if err == nil && key != "" {
			err = tx.Answered(c.owner(), key, body)
		}
		return err
	}); err != nil {
		return err
	}
	return c.text(http.StatusCreated, body)
}

// repeated is the answer to an earlier request with the same key; Missing if
// there was none.
func (c *call) repeated(key string) (body []byte, err error) {
	if key == "" {
		return nil, record.NotFound("answer")
	}
	err = c.s.Store.View(func(tx *kv.Tx) error {
		body, err = tx.Answer(c.owner(), key)
		return err
	})
	return body, err
}

// maxUpload is the most that one file may have, in bytes.
func (c *call) maxUpload() (int64, error) {
	most := c.s.MaxUpload
	err := c.s.Store.View(func(tx *kv.Tx) error {
		set, err := tx.Settings()
		if set.MaxUpload > 0 {
			most = min(most, set.MaxUpload)
		}
		return err
	})
	return most, err
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
func (c *call) addFiles(tx *kv.Tx, form *record.Form, parts []part, kept []*blobs.Kept, hash string) ([]byte, error) {
	var body []byte
	given := form.Body.(*record.File).OriginalName //nolint:errcheck // the form is a file's
	description := form.Body.(*record.File).Description
	for i, p := range parts {
		name := p.name
		if given != "" && i == 0 {
			name, _ = record.CleanFileName(given) // never fails
		}
		file := &record.File{
			OriginalName: name, Description: description, Size: kept[i].Size,
			MimeType: mediaType(p.claimed, name, p.head), SHA256: hex.EncodeToString(kept[i].Ref[:]),
		}
		one := *form
		one.Body = file
		r, err := tx.Add(c.owner(), record.Files, &one, &record.Content{Ref: kept[i].Ref, Size: kept[i].Size}, hash)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = c.s.show(tx, body, r); err != nil {
			return nil, err
		}
	}
	if len(parts) > 1 {
		body = append(append([]byte(`{"files":[`), body...), "]}"...)
	}
	return body, nil
}

var errMultipart = &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The multipart body cannot be read."}

// receive reads a multipart body (RFC 7578): files are streamed to the disk,
// fields come in any order. On an error it returns the parts so far, which
// the caller drops in any case.
func (c *call) receive(most int64) (parts []part, fields field.Object, err error) {
	media, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return nil, nil, &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be multipart/form-data."}
	}
	if params["boundary"] == "" || len(params["boundary"]) > 70 {
		return nil, nil, errMultipart
	}
	whole := int64(math.MaxInt64)
	if most < whole/maxParts-maxTexts {
		whole = (most + maxTexts) * maxParts
	}
	in := multipart.NewReader(c.limited(whole), params["boundary"])
	fields = field.Object{}
	texts := 0
	for n := 0; ; n++ {
		p, err := in.NextRawPart()
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
		if name == "file" {
			one, err := c.stage(p, most)
			if one.stage != nil {
				parts = append(parts, one)
			}
			if err != nil {
				return parts, nil, err
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
		if _, twice := fields[name]; twice {
			return parts, nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The form names " + strconv.Quote(shorten(name)) + " twice."}
		}
		if name != "" {
			fields[name] = string(value)
		}
	}
}

func shorten(name string) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(name[:64], "") + "…"
	}
	return name
}

// unreadable is the error of a multipart body that breaks off or is none.
func unreadable(err error) error {
	if _, status := understood(err); status != http.StatusInternalServerError {
		return err
	}
	return errMultipart
}

// stage streams one file to the disk.
func (c *call) stage(p *multipart.Part, most int64) (part, error) {
	st, err := c.s.Blobs.Stage()
	if err != nil {
		return part{}, err
	}
	out := part{stage: st, name: fileName(p), claimed: p.Header.Get("Content-Type")}
	head := make([]byte, sniffed)
	n := 0
	for n < len(head) && err == nil {
		var k int
		k, err = p.Read(head[n:])
		n += k
	}
	out.head = head[:n]
	if _, werr := st.Write(out.head); werr != nil {
		return out, werr
	}
	if err == nil {
		from := &source{r: io.LimitReader(p, most-int64(n)+1)}
		if _, err = io.Copy(st, from); err != nil && from.err == nil {
			return out, err // the disk's fault, not the client's
		}
	}
	switch {
	case err != nil && err != io.EOF: //nolint:errorlint // readers return it bare
		return out, unreadable(err)
	case st.Size() > most:
		return out, &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The file is larger than " + strconv.FormatInt(most, 10) + " bytes."}
	}
	return out, nil
}

// source tells errors of reading from errors of writing.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		s.err = err
	}
	return n, err
}

// fileName is the name of the part's file. Browsers write a quote in it as
// %22 and line ends as %0D and %0A (HTML standard, multipart/form-data
// encoding).
func fileName(p *multipart.Part) string {
	_, params, _ := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	name := strings.NewReplacer("%22", `"`, "%0D", "", "%0A", "", "%0d", "", "%0a", "").Replace(params["filename"])
	name, _ = record.CleanFileName(name) // never fails
	return name
}
