package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"kist/blobs"
	"kist/embed"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

// shared finds the item of the slug and says whether the caller may have it:
// its owner always, anyone else if it is open and the password, if it has
// one, is right. kinds narrows what the address is for.
func (c *request) shared(slug string, kinds ...*record.Kind) (r *record.Record, owned bool, err error) {
	r, owned, err = c.find(slug, kinds)
	return r, owned, c.unlock(r, owned, err)
}

// sharedFile is shared for addresses that may carry an extension after the
// slug. A slug that has the extension itself comes first. Both are looked for
// before a password is tried, which costs time and counts as a guess.
func (c *request) sharedFile(name string, kinds ...*record.Kind) (r *record.Record, owned bool, err error) {
	r, owned, err = c.find(name, kinds)
	if ext := path.Ext(name); missing(err) && ext != "" && ext != name {
		r, owned, err = c.find(strings.TrimSuffix(name, ext), kinds)
	}
	return r, owned, c.unlock(r, owned, err)
}

// find is shared without the password.
func (c *request) find(slug string, kinds []*record.Kind) (r *record.Record, owned bool, err error) {
	if r, err = c.s.Store.Shared(slug); err != nil {
		return nil, false, err
	}
	now := c.s.Store.Now()
	switch {
	case !slices.Contains(kinds, r.Kind):
		return nil, false, record.ErrMissing
	case c.owns(r) || c.atContentOrigin() && c.granted(toOwn, r):
		return r, true, nil
	case r.Reached && !r.Expired(now) && c.granted(toRead, r):
		return r, false, nil // who had the last view goes on reading
	}
	return r, false, r.Open(now)
}

var errLocked = &record.Error{
	Fault: record.Unauthorized, Code: "password_required",
	Text: "This item needs a password, in the header x-share-password.",
}

// unlock checks the visitor's password for what was found, and returns the
// error of what was not. A password for what is not there costs the same work.
func (c *request) unlock(r *record.Record, owned bool, found error) error {
	password := c.r.Header.Get("X-Share-Password")
	switch {
	case missing(found) && password != "":
		_ = c.checkItemPassword("missing", "", password, false)
		return found
	case found != nil, owned, r.Password == "", c.granted(toUnlock, r), c.granted(toRead, r):
		return found
	case password == "":
		return errLocked
	}
	return c.checkItemPassword(r.ID.String(), r.Password, password, true)
}

// checkItemPassword tries a password for an item against a hash. proves is as in guess.
func (c *request) checkItemPassword(item, hash, password string, proves bool) error {
	if len(password) > field.MaxSecret { // no password is longer: nothing is tried out
		return errWrong
	}
	right, err := c.checkPassword(guess{at: item, hash: hash, password: password, proves: proves})
	if err != nil {
		return err
	}
	if !right {
		return errWrong
	}
	return nil
}

var errWrong = &record.Error{Fault: record.Unauthorized, Code: "wrong_password", Text: "The password is wrong."}

// isPrefetchOrPreview reports whether no person asks for the item, not yet: a browser
// fetches it in case it is wanted, or a messenger looks for a preview.
func (c *request) isPrefetchOrPreview() bool { return c.isPrefetch() || c.isPreview() }

// isPrefetch reports whether a browser fetches in case the item is wanted.
func (c *request) isPrefetch() bool {
	for _, name := range purposes {
		for _, v := range c.r.Header[name] {
			if v = strings.ToLower(v); strings.Contains(v, "prefetch") || strings.Contains(v, "preview") {
				return true
			}
		}
	}
	return false
}

// purposes are the headers, as http.Header has them, in which browsers say so.
var purposes = []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"}

// isPreview reports whether a messenger looks for a preview of the link.
func (c *request) isPreview() bool {
	agent := strings.ToLower(c.r.UserAgent())
	for _, name := range previewers {
		if strings.Contains(agent, name) {
			return true
		}
	}
	return false
}

// previewers are in the User-Agent of what fetches previews of links.
var previewers = []string{
	"slackbot", "slack-imgproxy", "discordbot", "telegrambot", "whatsapp", "facebookexternalhit", "facebot", "twitterbot",
	"linkedinbot", "skypeuripreview", "pinterestbot", "redditbot", "mastodon", "bluesky", "cardyb", "iframely", "embedly",
	"google-pagerenderer", "bingpreview", "viber", "vkshare", "mattermost-bot", "rocket.chat", "synapse", "zulip",
}

var errAhead = &record.Error{Fault: record.Busy, Code: "no_prefetch", Text: "This item is not delivered ahead of time."}

// follow leads on to where a short link leads.
func follow(c *request) error {
	r, owned, err := c.shared(c.arg("slug"), record.Links)
	return c.follow(r, owned, err)
}

// follow redirects the short link that was found, if it was (RFC 9110, section
// 15.4.3), and counts the click. Of a link with a limit, where it leads is told
// only with a click.
func (c *request) follow(r *record.Record, owned bool, found error) error {
	if found == errLocked && takesPage(c.w, c.r) { //nolint:errorlint // it is this very one
		return c.respondPage(http.StatusUnauthorized, c.locked(r.Slug, thenLink, embed.Problem{}))
	}
	if found != nil {
		return found
	}
	b, err := r.Decode()
	if err != nil {
		return err
	}
	target := b.(*record.Link).URL // the kind is checked
	if c.s.linkAt(target) != "" {
		var back bool
		if err := c.s.Store.View(func(tx *kv.Tx) (err error) { back, err = c.s.leadsBack(tx, r.Slug, target); return err }); err != nil {
			return err
		}
		if back { // there is nowhere to go: the server's address may have changed
			return c.view(r, owned, nil)
		}
	}
	head := c.r.Method == http.MethodHead
	h := c.w.Header()
	h["Cache-Control"] = headNoStore
	switch {
	case owned:
	case r.Limit > 0 && head:
		c.w.WriteHeader(http.StatusOK)
		return nil
	case r.Limit > 0 && c.isPreview():
		return c.card(r)
	case r.Limit > 0 && c.isPrefetchOrPreview():
		return errAhead
	case !head && !c.isPrefetchOrPreview():
		if err := c.s.Store.Seen(r); err != nil {
			return err
		}
	}
	h["Location"] = []string{asciiURL(target)}
	c.w.WriteHeader(http.StatusFound)
	return nil
}

// linkAt is the slug of the short link that an address follows, if it is one
// of this server that does; "" if not. Readers of addresses differ: HTTP may
// lead on to HTTPS, and a proxy may fold slashes.
func (s *site) linkAt(address string) string {
	base := s.base
	if !strings.Contains(strings.ToLower(address), strings.ToLower(base.Hostname())) { // almost none
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || strings.TrimSuffix(canonicalHost(u.Scheme, u.Host), ".") != canonicalHost(base.Scheme, base.Host) || strings.HasSuffix(u.Path, "/") {
		return ""
	}
	name, ok := strings.CutPrefix(path.Clean(u.Path), strings.TrimSuffix(base.Path, "/")+"/")
	name = strings.TrimPrefix(name, "s/")
	if !ok || strings.Contains(name, "/") {
		return ""
	}
	return name
}

// maxHops is how far short links that lead to others are followed, as far as
// browsers do.
const maxHops = 20

// leadsBack reports whether the target of the slug's short link is that link,
// or leads to it by others that anyone may follow any time. What leads on by a
// password or a click that is counted is its own business.
func (s *site) leadsBack(tx *kv.Tx, slug, target string) (bool, error) {
	for range maxHops {
		next := s.linkAt(target)
		if next == slug || next == "" {
			return next != "", nil
		}
		r, err := tx.Slug(next)
		if missing(err) || err == nil && (r.Kind != record.Links || !openToAll(r) || r.Open(tx.Now) != nil) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if shut, err := tx.Disabled(r.Owner); shut || err != nil {
			return false, err
		}
		b, err := r.Decode()
		if err != nil {
			return false, err
		}
		target = b.(*record.Link).URL // the kind is checked
	}
	return false, nil
}

// linkTarget is the slug and the target of a short link's form; of others the target
// is "".
func linkTarget(f *record.Form) (a [2]string) {
	if link, ok := f.Body.(*record.Link); ok {
		a = [2]string{f.Slug, link.URL}
	}
	return a
}

// checkTarget refuses the form of a short link that would lead back to itself,
// unless that is nothing new. was is the aim before; a slug that is made up is
// not known to anyone yet.
func (s *site) checkTarget(tx *kv.Tx, f *record.Form, before [2]string) error {
	now := linkTarget(f)
	if now[0] == "" {
		now[0] = before[0]
	}
	if now == before || now[0] == "" || now[1] == "" {
		return nil
	}
	back, err := s.leadsBack(tx, now[0], now[1])
	if back {
		err = field.Problems{"originalUrl": "must not lead back to this short link"}
	}
	return err
}

// asciiURL escapes what may not stand in a header.
func asciiURL(t string) string {
	if !strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return t
	}
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
func raw(c *request) error {
	r, owned, err := c.sharedFile(c.arg("slug"), record.Files, record.Notes, record.Snippets)
	if missing(err) {
		if p, gone := c.removedFileAt(c.arg("slug")); gone == nil {
			if c.s.Content != "" && !c.atContentOrigin() {
				return c.redirectToRemovedFile(p, "/x/")
			}
			return c.sendRemovedFile(p)
		}
	}
	if err == errLocked && takesPage(c.w, c.r) { //nolint:errorlint // it is this very one
		return c.respondPage(http.StatusUnauthorized, c.locked(r.Slug, thenContent, embed.Problem{}))
	}
	if err != nil {
		return err
	}
	if c.s.Content != "" && !c.atContentOrigin() {
		return c.redirectToContent(r, owned, "/x/")
	}
	body, err := r.Decode()
	if err != nil {
		return err
	}
	media, name := "text/plain", ""
	var digest [sha256.Size]byte
	var content io.ReadSeeker
	var size int64
	switch b := body.(type) {
	case *record.File:
		// Opened before the view is counted: it stays readable when the last
		// view deletes the file.
		f, err := c.openContent(r, owned)
		if err != nil {
			return err
		}
		defer f.Close()
		media, name, digest, content, size = b.MimeType, b.OriginalName, r.Bytes.Ref, f, r.Bytes.Size
	case *record.Note:
		digest, content, size = sha256.Sum256([]byte(b.Content)), strings.NewReader(b.Content), int64(len(b.Content))
	case *record.Snippet:
		digest, content, size = sha256.Sum256([]byte(b.Content)), strings.NewReader(b.Content), int64(len(b.Content))
	}
	h := c.w.Header()
	hostile(h, media, name, c.asDownload(), openToAll(r) || c.atContentOrigin())
	h.Set("Etag", etag(r, digest))
	h.Set("Cache-Control", caching(r))
	err = c.sendContent(content, size, func(status int) error { return c.countView(r, owned, status, size) })
	if err == errCard { //nolint:errorlint // it is this very one
		clearContentHeaders(c.w.Header())
		if c.atContentOrigin() {
			return c.redirectContent(c.s.Base+"/v/"+url.PathEscape(r.Slug), false)
		}
		return c.card(r)
	}
	return err
}

// sendContent answers with content of the size once pay, which is given the
// status, lets it.
func (c *request) sendContent(content io.ReadSeeker, size int64, pay func(status int) error) error {
	conditions(c.r.Header, size)
	g := &countingWriter{answerWriter: c.w, pay: pay}
	http.ServeContent(g, c.r, "", time.Time{}, content)
	return g.err
}

// errCard says that the item's title is all that is told.
var errCard = errors.New("a card in place of the item")

// removedFileAt is passed for addresses that may carry an extension.
func (c *request) removedFileAt(name string) (removedFile, error) {
	p, err := c.removedFileOf(name)
	if ext := path.Ext(name); err != nil && ext != "" {
		p, err = c.removedFileOf(strings.TrimSuffix(name, ext))
	}
	return p, err
}

// sendRemovedFile answers with the bytes of a file whose record is removed, to the
// visitor whose view removed it.
func (c *request) sendRemovedFile(p removedFile) error {
	r := &record.Record{ID: p.ID, Kind: record.Files, Bytes: &record.Content{Ref: p.Ref, Size: p.Size}}
	r.Limit = 1
	f, err := c.stored(p.Ref, p.Size)
	if err != nil {
		return c.unreadable(p.ID, false, err)
	}
	defer f.Close()
	h := c.w.Header()
	hostile(h, p.Media, p.Name, c.asDownload(), c.atContentOrigin())
	h.Set("Etag", etag(r, p.Ref))
	h.Set("Cache-Control", "private, no-store")
	return c.sendContent(f, p.Size, func(status int) error { return c.countView(r, true, status, p.Size) })
}

// asDownload reports whether the content is wanted as a file, not to be shown.
func (c *request) asDownload() bool {
	return c.r.URL.RawQuery != "" && c.r.URL.Query().Has(saveParam)
}

// saveParam in the address of content has a browser save it.
const saveParam = "download"

// openContent opens the bytes of a file to send them. Before a view is counted
// against a limit, all of the bytes are known to be right.
func (c *request) openContent(r *record.Record, owned bool) (f io.ReadSeekCloser, err error) {
	if r.Limit > 0 && !owned {
		err = c.s.Blobs.Prove(r.Bytes.Ref)
	}
	if err == nil {
		f, err = c.stored(r.Bytes.Ref, r.Bytes.Size)
	}
	return f, c.unreadable(r.ID, owned, err)
}

// stored opens content to answer the request with all of it or with a part.
func (c *request) stored(ref blobs.Ref, size int64) (io.ReadSeekCloser, error) {
	if wanted := c.r.Header.Get("Range"); wanted != "" && wanted != "bytes=0-" && c.r.Method == http.MethodGet {
		return c.s.Blobs.SendPart(ref, size)
	}
	return c.s.Blobs.Send(ref, size)
}

// codeDamaged is the code of errors that say that stored bytes are damaged.
const codeDamaged = "content_damaged"

var (
	errDamaged = &record.Error{
		Fault: record.Busy, Code: codeDamaged,
		Text: "The stored bytes of this file are damaged, so they are not delivered. To repair it, upload the same file again, or run kist restore --missing with a backup.",
	}
	errDamagedVisit = &record.Error{Fault: record.Gone, Code: codeDamaged, Text: "The stored bytes of this file are damaged, so they are not delivered. Its owner can repair it."}
)

// unreadable turns the error of opening a content into the one that its owner
// or a visitor gets. Bytes of a record that came without them, out of a copy of
// the data directory, are not there for anyone.
func (c *request) unreadable(id record.ID, owned bool, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.s.Log.Error("a file has no content", "requestId", c.id, "id", id.String(), "error", err)
		return record.ErrMissing
	case errors.Is(err, blobs.ErrDamaged):
		c.s.Log.Info("the content of a file is damaged", "requestId", c.id, "id", id.String(), "error", err)
		if owned {
			return errDamaged
		}
		return errDamagedVisit
	}
	return err
}

// etag is the entity tag of content. That of an item with a limit does not
// tell what the content is: it is given out without a view (with HEAD), and
// short content could be found by trying.
func etag(r *record.Record, digest [sha256.Size]byte) string {
	if r.Limit > 0 {
		digest = sha256.Sum256(append(r.ID[:], digest[:]...))
	}
	return `"` + hex.EncodeToString(digest[:]) + `"`
}

// maxRanges is how many ranges one request may ask for; one for more gets all
// of the content.
const maxRanges = 16

// conditions makes the request's headers as http.ServeContent understands
// them: lists in one line, no ranges in other units (RFC 9110, section 14.2:
// they are ignored) or in several lines, which may not be, and none of empty
// content, which has no bytes to choose.
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
	if size == 0 || len(h["Range"]) > 1 || len(ranges) < len(unit) || !strings.EqualFold(ranges[:len(unit)], unit) || strings.Count(ranges, ",") >= maxRanges {
		h.Del("Range")
		return
	}
	h.Set("Range", unit+ranges[len(unit):])
}

// countingWriter is passed by an answer once it is paid for: pay is called with the
// status, before anything leaves, and if it fails nothing does.
type countingWriter struct {
	*answerWriter
	pay func(status int) error
	err error
}

func (g *countingWriter) WriteHeader(status int) {
	if g.err == nil {
		g.err = g.pay(status)
	}
	if g.err == nil {
		g.answerWriter.WriteHeader(status)
	}
}

func (g *countingWriter) Write(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	return g.answerWriter.Write(p)
}

func (g *countingWriter) ReadFrom(r io.Reader) (int64, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.answerWriter.ReadFrom(r)
	if errors.Is(err, blobs.ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO) {
		// Part of the bytes is sent; the client must see that it is not all.
		g.err = errDamaged
	}
	return n, err
}

// countView counts the view, if the answer with the status is one.
func (c *request) countView(r *record.Record, owned bool, status int, size int64) error {
	if err := c.refusal(status, size); err != nil || status == http.StatusNotModified {
		return err
	}
	switch {
	case owned, c.r.Method == http.MethodHead, c.granted(toRead, r):
		return nil
	case c.isPrefetchOrPreview():
		if r.Limit > 0 && c.isPreview() {
			return errCard
		}
		if r.Limit > 0 {
			return errAhead
		}
		return nil
	case r.Limit == 0 && status == http.StatusPartialContent && !fromStart(c.r.Header.Get("Range"), size):
		return nil
	}
	if err := c.s.Store.Seen(r); err != nil {
		return err
	}
	return c.setGrantCookie(toRead, r)
}

// refusal is the error of an answer with a status that is no delivery, so that
// it looks like every other error.
func (c *request) refusal(status int, size int64) error {
	h := c.w.Header()
	switch {
	case status == http.StatusPreconditionFailed:
		return errPrecondition
	case status == http.StatusRequestedRangeNotSatisfiable, status == http.StatusPartialContent && h.Get("Content-Length") == "0":
		h.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
		return errRange
	case status != http.StatusOK && status != http.StatusPartialContent && status != http.StatusNotModified:
		return errInternal
	}
	return nil
}

// fromStart reports whether one of the ranges, which http.ServeContent found
// to be well formed, begins with the first byte. An answer with several does
// not say so in its header.
func fromStart(ranges string, size int64) bool {
	for r := range strings.SplitSeq(ranges[strings.IndexByte(ranges, '=')+1:], ",") {
		first, last, _ := strings.Cut(strings.TrimSpace(r), "-")
		text := strings.TrimSpace(first)
		if text == "" {
			text = strings.TrimSpace(last) // how many bytes from the end
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil && (first != "" && n == 0 || first == "" && n >= size) {
			return true
		}
	}
	return false
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

// Every stored byte is hostile: scripts never run, not even by opening it.
// Viewers of PDF refuse the sandbox.
const (
	policyBytes = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; media-src 'self'; sandbox"
	policyPDF   = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; object-src 'self'; plugin-types application/pdf"
)

// openToAll reports whether anyone may have the item at any time.
func openToAll(r *record.Record) bool { return r.Public && r.Password == "" && r.Limit == 0 }

// hostile sets the headers that stored bytes are answered with, on every
// status. Pages of other origins may embed what is open: to everyone, or at
// the origin for content, where the address itself says who may have it.
func hostile(h http.Header, mimeType, name string, save, open bool) {
	policy := policyBytes
	if mimeType == "application/pdf" {
		policy = policyPDF
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if open {
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	how := "attachment"
	if media.Inline(mimeType) && !save {
		how = "inline"
	}
	if partOfPage(mimeType) {
		mimeType = "text/plain" // the policies of pages let them have scripts and styles of this origin
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
		case r == '"' || r == '\\' || r == '%' || r == '/':
			plain.WriteByte('_') // readers disagree on escapes, and some take a path
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

// readPublic answers with a shared record as visitors see it, no matter who asks.
func readPublic(k *record.Kind) func(*request) error {
	return func(c *request) error {
		form := new(passwordForm)
		if c.r.ContentLength != 0 {
			if err := c.decodeNew(form); err != nil {
				return err
			}
		}
		if form.password.Text != "" {
			c.r.Header.Set("X-Share-Password", form.password.Text)
		}
		return c.respondLarge(http.StatusOK, longRecord(k), func(dst []byte) ([]byte, error) {
			r, owned, err := c.shared(c.arg("slug"), k)
			if err != nil {
				return dst, err
			}
			// Read before the view is counted, which may delete it.
			err = c.s.Store.View(func(tx *kv.Tx) (err error) {
				dst, err = c.s.showVisitor(tx, append(dst, `{"data":`...), r)
				return err
			})
			if err == nil && !owned {
				err = c.s.Store.Seen(r)
			}
			return append(dst, '}'), err
		})
	}
}

func healthy(c *request) error {
	h := c.w.Header()
	h.Set("Content-Type", textType)
	h.Set("Cache-Control", "no-store")
	_, _ = c.w.Write([]byte("ok\n")) // the client may be gone
	return nil
}
