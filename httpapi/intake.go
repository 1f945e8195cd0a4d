package httpapi

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kist/blobs"
	"kist/embed"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/record"
)

var (
	uploadPassword = param{"header", "x-upload-password", "Password of the link, if it has one.", object{"type": "string", "maxLength": field.MaxSecret}, "open sesame"}
	captchaArgs    = []param{
		{"header", "x-captcha-token", "What solving the captcha gave, if the link asks for one; it works once.", object{"type": "string"}, "eyJhbGdvcml0aG0iOiJTSEEtMjU2Iiwi…"},
		{"header", "x-captcha-pass", "In place of that, a pass of /captcha/verify.", object{"type": "string"}, "AAABm4…"},
	}
)

// intakeRoutes are the public side of upload requests.
func intakeRoutes() []route {
	const at = requestsPath + "/p/{slug}"
	page := reply{200, "The page.", pageOf()}
	sent := shapeOf(new(record.SenderForm), create)
	sent["properties"].(object)["file"] = object{"type": "array", "items": object{"type": "string", "format": "binary"}, "description": "The content; several parts make several items.", "example": []string{"…"}}
	sent["required"] = []string{"file"}
	body := &content{media: "multipart/form-data", schema: sent}
	return []route{
		{
			method: "GET", path: at, id: "readUploadLink", tag: "public", summary: "What a visitor may know of an upload link; little, until the password is given.",
			access: visitors, args: []param{uploadPassword}, reply: reply{200, "The details.", named("UploadLink", jsonOf(linkSchema(), linkExample))},
			fails: []int{401, 404, 410, 429, 503}, slugs: true, serve: readLink,
		},
		{
			method: "POST", path: at + "/files", id: "leaveFiles", tag: "public", summary: "Leaves files at an upload link. All of them are kept, or none.",
			access: anyone, args: append([]param{uploadPassword}, captchaArgs...), body: body,
			reply: reply{201, "What waits for approval now, or is approved already.", named("UploadReceiptList", jsonOf(members(object{"items": allOf("UploadReceipt")}, "items"), nil))},
			fails: []int{401, 403, 404, 410, 429, 503, 507}, slugs: true, plain: &textForm{"a sentence about each file, one in a line", "IMG_0042.jpg waits for approval.\n"}, serve: leaveFiles,
		},
		{
			method: "GET", path: "/up/{slug}", id: "viewUploadLink", tag: "public", summary: "The page of an upload link.",
			access: visitors, reply: page, fails: []int{401, 404, 410, 429, 503}, slugs: true, serve: uploadPage,
		},
		{
			method: "POST", path: "/up/{slug}", id: "postFiles", tag: "public", summary: "Takes the form of that page.",
			access: anyone, body: body, reply: reply{201, "The page, with what came in.", pageOf()}, fails: []int{401, 403, 404, 410, 429, 503, 507}, slugs: true, serve: postFiles,
		},
		{
			method: "POST", path: "/up/{slug}/unlock", id: "unlockUploadLink", tag: "public", summary: "Takes the form that asks for the password of an upload link.",
			access: anyone, body: formBody, reply: reply{303, "On to the page.", nil}, fails: []int{400, 401, 404, 410, 413, 415, 429, 503}, slugs: true, serve: unlockLink,
		},
	}
}

func linkSchema() object {
	text, flag, count := object{"type": "string"}, object{"type": "boolean"}, object{"type": "integer", "nullable": true}
	return members(object{
		"title": text, "requiresPassword": flag, "authorized": flag,
		"captcha": object{
			"type": "object", "nullable": true, "required": []string{"provider"}, "description": "What has to be solved; null is nothing.",
			"properties": object{"provider": text, "siteKey": text, "challengeUrl": object{"type": "string", "format": "uri"}},
		},
		"description": text, "owner": members(object{"displayName": text}, "displayName"), "isActive": flag, "requiresApproval": flag,
		"expiresAt":  object{"type": "string", "format": "date-time", "nullable": true},
		"limits":     members(object{"maxFileSize": count, "maxUploads": count, "remainingUploads": count, "allowedTypes": object{"type": "array", "items": text}}, "maxFileSize", "maxUploads", "remainingUploads", "allowedTypes"),
		"brandColor": text,
	}, "title", "requiresPassword", "authorized", "captcha")
}

var linkExample = object{
	"title": "Photos of the wedding", "requiresPassword": false, "authorized": true, "captcha": nil, "description": "The originals, please.",
	"owner": object{"displayName": "Ann"}, "isActive": true, "requiresApproval": true, "expiresAt": "2030-01-01T00:00:00.000Z",
	"limits": object{"maxFileSize": 104857600, "maxUploads": 100, "remainingUploads": 93, "allowedTypes": []string{"image/*"}}, "brandColor": "#0F6B5C",
}

// openRequest finds the upload request of the slug, if it is open.
func (c *request) openRequest(slug string) (q *record.Request, err error) {
	if err := c.s.Store.View(func(tx *kv.Tx) error { q, err = tx.RequestAt(slug); return err }); err != nil {
		return nil, err
	}
	return q, q.Open(c.s.Store.Now())
}

// lock is the request as grants know it.
func lock(q *record.Request) *record.Record {
	return &record.Record{ID: q.ID, Owner: q.Owner, Share: record.Share{Slug: q.Slug, Password: q.Password}}
}

var errUploadLocked = &record.Error{
	Fault: record.Unauthorized, Code: "password_required", Text: "This upload link needs a password, in the header x-upload-password.",
}

// requireOpenRequest says whether the visitor may know and use the link of the slug: by
// its password, or by the cookie that its page gives for that.
func (c *request) requireOpenRequest(slug string) (*record.Request, error) {
	q, err := c.openRequest(slug)
	password := c.r.Header.Get("X-Upload-Password")
	switch {
	case missing(err) && password != "":
		_ = c.checkItemPassword("missing", "", password, false) // costs the same work
		return nil, err
	case err != nil:
		return nil, err
	case q.Password == "", c.granted(toUnlock, lock(q)):
		return q, nil
	case password == "":
		return q, errUploadLocked
	}
	return q, c.checkItemPassword(q.ID.String(), q.Password, password, false) // x-captcha-token is for the link's own captcha
}

// countRequestView counts that someone else than the owner looks.
func (c *request) countRequestView(q *record.Request) {
	if owned := c.caller != nil && c.caller.User.ID == q.Owner; !owned && c.r.Method != http.MethodHead && !c.isPrefetchOrPreview() {
		c.s.Store.RequestSeen(q)
	}
}

// readLink answers with what a visitor may know.
func readLink(c *request) error {
	q, err := c.requireOpenRequest(c.arg("slug"))
	locked := err == errUploadLocked //nolint:errorlint // it is this very one
	if err != nil && !locked {
		return err
	}
	link, err := c.link(q)
	if err != nil {
		return err
	}
	if !locked {
		c.countRequestView(q)
	}
	return c.respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = field.AppendString(append(dst, `{"title":`...), q.Title)
		dst = strconv.AppendBool(append(dst, `,"requiresPassword":`...), q.Password != "")
		dst = strconv.AppendBool(append(dst, `,"authorized":`...), !locked)
		dst = append(dst, `,"captcha":`...)
		if link.captcha == record.CaptchaNone {
			dst = append(dst, "null"...)
		} else {
			dst = field.AppendString(append(dst, `{"provider":`...), string(link.captcha))
			if link.captcha == record.CaptchaPow {
				dst = field.AppendString(append(dst, `,"challengeUrl":`...), c.s.Base+apiPath+"captcha/challenge")
			} else {
				dst = field.AppendString(append(dst, `,"siteKey":`...), link.siteKey)
			}
			dst = append(dst, '}')
		}
		if locked {
			return append(dst, '}'), nil
		}
		number := func(name string, n int64) {
			if dst = append(dst, name...); n < 0 {
				dst = append(dst, "null"...)
			} else {
				dst = strconv.AppendInt(dst, n, 10)
			}
		}
		dst = field.AppendString(append(dst, `,"description":`...), q.Description)
		dst = append(field.AppendString(append(dst, `,"owner":{"displayName":`...), link.owner), '}')
		dst = append(dst, `,"isActive":true,"expiresAt":`...)
		if q.Expires.IsZero() {
			dst = append(dst, "null"...)
		} else {
			dst = field.AppendString(dst, q.Expires.UTC().Format(field.TimeLayout))
		}
		dst = strconv.AppendBool(append(dst, `,"requiresApproval":`...), q.Approval)
		number(`,"limits":{"maxFileSize":`, link.file)
		number(`,"maxUploads":`, orNone(q.MaxUploads))
		number(`,"remainingUploads":`, link.left)
		dst = append(dst, `,"allowedTypes":[`...)
		for i, t := range q.Types {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = field.AppendString(dst, t)
		}
		dst = field.AppendString(append(dst, `]},"brandColor":`...), q.Color)
		return append(dst, '}'), nil
	})
}

// orNone is -1 for a limit of 0, which is none.
func orNone(limit int64) int64 {
	if limit == 0 {
		return -1
	}
	return limit
}

// link is what is told of a request beside its own fields.
type link struct {
	owner   string
	file    int64 // bytes of one file
	left    int64 // files; -1 is any number
	captcha record.CaptchaProvider
	siteKey string
}

func (c *request) link(q *record.Request) (l link, err error) {
	return l, c.s.Store.View(func(tx *kv.Tx) error {
		set, err := c.s.settings(tx)
		if err != nil {
			return err
		}
		u, err := tx.User(q.Owner)
		if missing(err) {
			return record.ErrNoRequest
		}
		if err != nil {
			return err
		}
		l = link{owner: displayName(*u), file: c.largest(q, &set), left: tx.Remaining(q), captcha: record.CaptchaNone, siteKey: set.CaptchaSiteKey}
		if q.Captcha {
			l.captcha = set.Provider()
		}
		return nil
	})
}

// largest is the largest file that the link takes, in bytes.
func (c *request) largest(q *record.Request, set *record.Settings) int64 {
	maximum := c.s.MaxUpload
	for _, limit := range []int64{set.MaxUpload, q.MaxFile} {
		if limit > 0 {
			maximum = min(maximum, limit)
		}
	}
	return maximum
}

// aroundFiles is how much of a multipart body may be other than files: texts,
// headers and boundaries.
const aroundFiles = 64 << 10

// mostPromised bounds what one transfer can reserve where nothing else does.
const mostPromised = 1 << 50

// uploadBudgetAt is what one file may take that is left at a link; the link's other
// limits are the store's.
func (c *request) uploadBudgetAt(q *record.Request) (*uploadBudget, error) {
	m := &uploadBudget{disk: c.s.Store.FreeForContent(), left: math.MaxInt64, full: record.ErrNoRoom}
	return m, c.s.Store.View(func(tx *kv.Tx) error {
		m.disk = max(0, m.disk-tx.ReservedBytes())
		set, err := tx.Settings()
		m.file = c.largest(q, &set)
		return err
	})
}

// codeType is the code of a file of a type that a link does not take.
const codeType = "type_not_allowed"

func typeRefused(q *record.Request) error {
	return &record.Error{Fault: record.WrongType, Code: codeType, Text: "This link takes only " + strings.Join(q.Types, ", ") + ". Nothing was stored."}
}

// receiveFiles receives what a visitor who was admitted leaves at a link.
func (c *request) receiveFiles(q *record.Request) (items []*record.Item, err error) {
	if err := c.requireCaptcha(q); err != nil {
		return nil, err
	}
	m, err := c.uploadBudgetAt(q)
	if err != nil {
		return nil, err
	}
	m.names = []string{"name", "message"}
	minimum, limit := max(0, c.r.ContentLength-aroundFiles), int64(mostPromised)
	if m.file < limit/maxParts { // no body of the link's can have more
		limit = m.file * maxParts
	}
	if told := c.r.ContentLength; told >= 0 {
		limit = min(limit, told)
	}
	switch {
	case minimum > m.disk:
		return nil, kv.ErrFull
	case minimum/maxParts > m.file:
		return nil, m.errTooLarge(m.file + 1)
	}
	place, err := c.s.Store.Reserve(c.r.Context(), q, network(c.addr).String(), minimum, limit)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := place.Release(); err != nil {
			c.s.Log.Error("a place for an upload was not given back", "requestId", c.id, "error", err)
		}
	}()
	m.left = place.Bytes()
	files := 0
	m.next = func() error {
		if files++; files == 1 {
			return nil // it has its place
		}
		return place.Another()
	}
	m.takes = func(name string, head []byte) error {
		if !q.Takes(name, media.Of("", name, head)) {
			return typeRefused(q)
		}
		return nil
	}
	parts, fields, err := c.readMultipart(m)
	defer func() { c.discardParts(parts) }() // what is kept by then stays
	if err != nil {
		return nil, err
	}
	// A form without JavaScript sends a part for a file that nobody chose.
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.unnamed && p.stage.Size() == 0 })
	form := new(record.SenderForm)
	var none error
	if len(parts) == 0 {
		none = field.Problems{"file": "is required"}
	}
	if err := joinProblems(field.Create(form, fields), none); err != nil {
		return nil, err
	}
	kept := make([]*blobs.Kept, 0, len(parts))
	recorded := false
	defer func() { c.s.releasePins(kept, recorded) }() // after the commit, whatever comes
	var came []kv.Received
	for _, p := range parts {
		one, err := p.stage.Keep()
		if err != nil {
			return nil, err
		}
		kept = append(kept, one)
		came = append(came, kv.Received{Name: p.name, MimeType: media.Of("", p.name, p.head), Ref: one.Ref, Size: one.Size})
	}
	err = c.s.Store.Update(func(tx *kv.Tx) (err error) {
		items, err = tx.Receive(place, form, came)
		return err
	})
	recorded = err == nil
	return items, err
}

func leaveFiles(c *request) error {
	q, err := c.requireOpenRequest(c.arg("slug"))
	if err != nil {
		return err
	}
	items, err := c.receiveFiles(q)
	if err != nil {
		return err
	}
	if c.w.plain {
		var lines []string
		for _, i := range items {
			became := " came in."
			if i.State == record.Pending {
				became = " waits for approval."
			}
			lines = append(lines, i.Name+became)
		}
		return c.respondText(lines...)
	}
	var all []record.Receipt
	for _, i := range items {
		all = append(all, record.Receipt{Item: i})
	}
	return c.respond(http.StatusCreated, func(dst []byte) ([]byte, error) {
		return append(appendAll(append(dst, `{"items":`...), all), '}'), nil
	})
}

// uploadPage shows the page of a link, or asks for its password.
func uploadPage(c *request) error {
	q, err := c.requireOpenRequest(c.arg("slug"))
	if err == errUploadLocked { //nolint:errorlint // it is this very one
		return c.respondPage(http.StatusUnauthorized, c.lockedLink(embed.Problem{Text: ""}))
	}
	if err != nil {
		return err
	}
	c.countRequestView(q)
	return c.showLink(http.StatusOK, q, nil, "")
}

func (c *request) showLink(status int, q *record.Request, came []*record.Item, problem string) error {
	l, err := c.link(q)
	if err != nil {
		return err
	}
	page := embed.UploadPage{
		Base: c.s.prefix(), Slug: q.Slug, Title: q.Title, Description: q.Description, Owner: l.owner, Expires: q.Expires,
		Approval: q.Approval, Color: q.Color, MaxFile: l.file, FileSize: sizeText(l.file), Left: l.left, Types: q.Types,
		SiteKey: l.siteKey, Problem: problem,
	}
	if l.captcha != record.CaptchaNone {
		page.Captcha = string(l.captcha)
	}
	for _, i := range came {
		page.Came = append(page.Came, embed.CameView{Name: i.Name, Size: sizeText(i.Size)})
	}
	return c.respondPage(status, page)
}

// postFiles takes the plain form of the page.
func postFiles(c *request) error {
	q, err := c.requireOpenRequest(c.arg("slug"))
	if err == errUploadLocked { //nolint:errorlint // it is this very one
		return c.respondPage(http.StatusUnauthorized, c.lockedLink(embed.Problem{Text: ""}))
	}
	if err != nil {
		return err
	}
	items, err := c.receiveFiles(q)
	if err == nil {
		return c.showLink(http.StatusCreated, q, items, "")
	}
	e, status := clientError(err)
	if e.Code == errNoCaptcha.Code {
		return c.showLink(status, q, nil, "Nothing was sent: this link needs JavaScript in your browser, which shows that you are no program.")
	}
	switch e.Fault {
	case record.Malformed, record.Denied, record.TooLarge, record.WrongType, record.Invalid, record.TooMany, record.Full:
		return c.showLink(status, q, nil, e.Text)
	}
	return err
}

func (c *request) lockedLink(p embed.Problem) embed.Page {
	return embed.LockedPage{
		Base: c.s.prefix(), Action: "/up/" + url.PathEscape(c.arg("slug")) + "/unlock", Button: "Go on", Problem: p,
	}
}

// unlockLink takes the form that asks for the password of a link. A right one
// is kept in a cookie, for that link alone.
func unlockLink(c *request) error {
	values, err := c.readForm()
	if err != nil {
		return err
	}
	c.r.Header.Set("X-Upload-Password", values.Get("password"))
	q, err := c.requireOpenRequest(c.arg("slug"))
	if err == errUploadLocked { //nolint:errorlint // it is this very one
		return c.respondPage(http.StatusUnauthorized, c.lockedLink(embed.Problem{Text: "Type the password."}))
	}
	if err != nil {
		return c.problem(err, func(p embed.Problem) embed.Page { return c.lockedLink(p) })
	}
	if q.Password != "" {
		if err := c.setGrantCookie(toUnlock, lock(q)); err != nil {
			return err
		}
	}
	return c.redirect("/up/" + url.PathEscape(q.Slug))
}
