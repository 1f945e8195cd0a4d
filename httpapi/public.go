package httpapi

import (
	"bytes"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// shared finds the item of the slug and says whether the caller may have it:
// its owner always, anyone else if it is open and the password, if it has
// one, is right. kinds narrows what the address is for.
func (c *call) shared(slug string, kinds ...*record.Kind) (r *record.Record, own bool, err error) {
	err = c.s.Store.View(func(tx *kv.Tx) (err error) {
		r, err = tx.Slug(slug)
		return err
	})
	if err == nil && len(kinds) > 0 && !contains(kinds, r.Kind) {
		err = record.ErrMissing
	}
	if err == nil && c.owns(r) {
		return r, true, nil
	}
	if err == nil {
		err = r.Open(c.s.Store.Now())
	}
	password := c.r.Header.Get("X-Share-Password")
	if err != nil {
		if password != "" && missing(err) {
			// The same work as for an item that is there.
			_ = c.unlock("missing", "", password)
		}
		return nil, false, err
	}
	return r, false, c.unlock(r.ID.String(), r.Password, password)
}

var errLocked = &record.Error{
	Fault: record.Unauthorized, Code: "password_required",
	Text: "This item needs a password, in the header x-share-password.",
}

// unlock checks a visitor's password for an item.
func (c *call) unlock(item, hash, password string) error {
	switch {
	case hash == "" && item != "missing":
		return nil
	case password == "":
		return errLocked
	}
	if wait, ok := c.s.guesses.allow(c.addr, item, c.s.Store.Now()); !ok {
		return tooMany(wait)
	}
	right, err := c.s.Passwords.Check(c.r.Context(), hash, password)
	if err != nil {
		return err
	}
	if !right {
		c.s.guesses.failed(c.addr, item, c.s.Store.Now())
		return &record.Error{Fault: record.Unauthorized, Code: "wrong_password", Text: "The password is not right."}
	}
	return nil
}

// counts reports whether the request is a view: HEAD and what a browser
// fetches ahead of the person are not.
func (c *call) counts() bool {
	ahead := strings.Contains(c.r.Header.Get("Sec-Purpose"), "prefetch") || strings.EqualFold(c.r.Header.Get("Purpose"), "prefetch")
	return c.r.Method != http.MethodHead && !ahead
}

var errAhead = &record.Error{Fault: record.Busy, Code: "no_prefetch", Text: "This item is not delivered ahead of time."}

// follow redirects a short link (RFC 9110, section 15.4.3) and counts the
// click.
func follow(c *call) error {
	r, own, err := c.shared(c.arg("slug"), record.Links)
	if err != nil {
		return err
	}
	b, err := r.Decode()
	if err != nil {
		return err
	}
	switch {
	case own:
	case c.counts():
		if err := c.s.Store.Seen(r); err != nil {
			return err
		}
	case r.Limit > 0 && c.r.Method != http.MethodHead:
		return errAhead
	}
	h := c.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Location", asciiURL(b.(*record.Link).URL)) //nolint:errcheck // the kind is checked
	c.w.WriteHeader(http.StatusFound)
	return nil
}

// asciiURL escapes what may not stand in a header.
func asciiURL(t string) string {
	var b strings.Builder
	for i := range len(t) {
		if t[i] <= ' ' || t[i] >= 0x7f {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(t[i])|0x100, 16)[1:]))
		} else {
			b.WriteByte(t[i])
		}
	}
	return b.String()
}

// raw answers with the bytes of a file, or the text of a note or snippet. The
// address may carry an extension after the slug.
func raw(c *call) error {
	slug := c.arg("slug")
	kinds := []*record.Kind{record.Files, record.Notes, record.Snippets}
	r, own, err := c.shared(slug, kinds...)
	if ext := path.Ext(slug); missing(err) && ext != "" && ext != slug {
		r, own, err = c.shared(strings.TrimSuffix(slug, ext), kinds...)
	}
	if err != nil {
		return err
	}
	body, err := r.Decode()
	if err != nil {
		return err
	}
	h := c.w.Header()
	tag := `"` + strconv.FormatUint(r.Seq, 36) + `"`
	var text string
	switch b := body.(type) {
	case *record.File:
		tag = `"` + b.SHA256 + `"`
		hostile(h, b.MimeType, b.OriginalName)
		// Opened before the view is counted: it stays readable when the last
		// view deletes the file.
		f, err := c.s.Blobs.Get(r.Bytes.Ref)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := c.deliver(r, own, tag); err != nil {
			return err
		}
		http.ServeContent(c.w, c.r, "", time.Time{}, f)
		return nil
	case *record.Note:
		text = b.Content
	case *record.Snippet:
		text = b.Content
	}
	hostile(h, "text/plain", "")
	if err := c.deliver(r, own, tag); err != nil {
		return err
	}
	http.ServeContent(c.w, c.r, "", time.Time{}, strings.NewReader(text))
	return nil
}

// deliver counts the view, if it is one, and sets what caches may do. After
// it the item's bytes may leave.
func (c *call) deliver(r *record.Record, own bool, tag string) error {
	h := c.w.Header()
	h.Set("Etag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if r.Limit > 0 || r.Password != "" || !r.Public || !r.Expires.IsZero() {
		h.Set("Cache-Control", "private, no-store")
	}
	switch {
	case own, c.r.Method == http.MethodHead, unchanged(c.r, tag):
		return nil
	case !c.counts():
		if r.Limit > 0 {
			return errAhead
		}
		return nil
	case r.Limit == 0 && !fromStart(c.r):
		return nil
	}
	return c.s.Store.Seen(r)
}

// unchanged reports whether the answer will be 304 (RFC 9110, section
// 13.1.2): none of the bytes leave.
func unchanged(r *http.Request, tag string) bool {
	for t := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}

// fromStart reports whether the answer holds the first byte, as far as the
// request tells.
func fromStart(r *http.Request) bool {
	ranges, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	return !ok || strings.HasPrefix(strings.TrimSpace(ranges), "0-")
}

// How stored bytes may be shown by a browser. What is not listed is saved.
var inline = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/bmp": true,
	"image/svg+xml": true, "image/x-icon": true, "image/vnd.microsoft.icon": true,
	"video/mp4": true, "video/webm": true, "video/ogg": true, "video/quicktime": true,
	"audio/mpeg": true, "audio/ogg": true, "audio/wav": true, "audio/wave": true, "audio/flac": true, "audio/mp4": true, "audio/webm": true, "audio/aac": true,
	"text/plain": true, "application/pdf": true,
}

// Every stored byte is hostile: scripts never run, not even by opening it.
// Viewers of PDF refuse the sandbox.
const (
	policyBytes = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; media-src 'self'; sandbox"
	policyPDF   = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; object-src 'self'; plugin-types application/pdf"
)

// hostile sets the headers that stored bytes are answered with, on every
// status.
func hostile(h http.Header, mimeType, name string) {
	policy := policyBytes
	if mimeType == "application/pdf" {
		policy = policyPDF
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	how := "attachment"
	if inline[mimeType] {
		how = "inline"
	}
	if strings.HasPrefix(mimeType, "text/") {
		mimeType += "; charset=utf-8"
	}
	h.Set("Content-Type", mimeType)
	if name != "" {
		h.Set("Content-Disposition", disposition(how, name))
	}
}

// disposition names a file (RFC 6266; the extended form is RFC 8187).
func disposition(how, name string) string {
	var plain, extended strings.Builder
	same := true
	for _, r := range name {
		switch {
		case r >= utf8.RuneSelf || r < ' ' || r == 0x7f:
			plain.WriteByte('_')
			same = false
		case r == '"' || r == '\\' || r == '%':
			plain.WriteByte('_') // readers disagree on escapes
			same = false
		default:
			plain.WriteRune(r)
		}
	}
	if same {
		return how + `; filename="` + plain.String() + `"`
	}
	for i := range len(name) {
		b := name[i]
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0 {
			extended.WriteByte(b)
		} else {
			extended.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(b)|0x100, 16)[1:]))
		}
	}
	return how + `; filename="` + plain.String() + `"; filename*=UTF-8''` + extended.String()
}

// passwordForm is what a public read may carry.
type passwordForm struct{ password field.Secret }

func (f *passwordForm) Fields(s *field.Set) {
	s.Secret("password", &f.password).Says("Password of the item, if it has one.", `"open sesame"`)
}

// readPublic answers a visitor with a shared record.
func readPublic(k *record.Kind) func(*call) error {
	return func(c *call) error {
		form := new(passwordForm)
		if c.r.ContentLength != 0 {
			if err := c.create(form); err != nil {
				return err
			}
		}
		if form.password.Text != "" {
			c.r.Header.Set("X-Share-Password", form.password.Text)
		}
		r, own, err := c.shared(c.arg("slug"), k)
		if err != nil {
			return err
		}
		var body bytes.Buffer
		// Read before the view is counted, which may delete it.
		if err := c.s.Store.View(func(tx *kv.Tx) error {
			b, err := c.s.show(tx, []byte(`{"data":`), r)
			body.Write(append(b, '}'))
			return err
		}); err != nil {
			return err
		}
		if !own {
			if err := c.s.Store.Seen(r); err != nil {
				return err
			}
		}
		return c.text(http.StatusOK, body.Bytes())
	}
}

func healthy(c *call) error {
	h := c.w.Header()
	h.Set("Content-Type", textType)
	h.Set("Cache-Control", "no-store")
	_, _ = c.w.Write([]byte("ok\n")) // the client may be gone
	return nil
}

// mediaType works out what a file is: from its bytes where they tell, else
// from its name, else from what the client says if that has the form of a
// media type. Nothing of it is taken over unread.
func mediaType(claimed, name string, head []byte) string {
	sniffed, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	if sniffed != "application/octet-stream" && sniffed != "text/plain" && sniffed != "text/xml" && sniffed != "application/zip" {
		return sniffed
	}
	if t := byExtension[strings.ToLower(path.Ext(name))]; t != "" && compatible(t, sniffed) {
		return t
	}
	media, _, err := mime.ParseMediaType(claimed)
	if err == nil && media != "application/octet-stream" && len(media) <= 127 && strings.Count(media, "/") == 1 && compatible(media, sniffed) {
		return media
	}
	return sniffed
}

// compatible reports whether bytes that look like sniffed can be of the type:
// what looks like text is no picture, and what does not is no text.
func compatible(media, sniffed string) bool {
	class := record.ClassOf(media)
	textual := class == record.Text || media == "image/svg+xml" || strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+json")
	switch sniffed {
	case "text/plain", "text/xml":
		return textual || class == record.Other
	}
	return !textual
}
