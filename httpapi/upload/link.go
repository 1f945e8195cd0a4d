package upload

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kist/embed"
	"kist/httpapi/captcha"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

var (
	uploadPassword = web.Param{
		In: "header", Name: "x-upload-password", Doc: "Password of the link, if it has one. " + public.PasswordHeader,
		Schema: web.Object{"type": "string", "maxLength": public.MaxPasswordHeader},
	}
	captchaArgs = []web.Param{
		{
			In: "header", Name: "x-captcha-token",
			Doc:    "The token of a solved captcha, if the link asks for one. It is valid once.",
			Schema: web.Object{"type": "string"},
		},
		{
			In: "header", Name: "x-captcha-pass", Doc: "A pass of /captcha/verify instead of a token.",
			Schema: web.Object{"type": "string"},
		},
	}
)

// OpenRequest finds the upload request with the slug, if it is open.
func OpenRequest(c *web.Request, slug string) (q *inbox.Request, err error) {
	if err := c.Site.Store.View(func(tx *kv.Tx) error { q, err = inbox.RequestAt(tx, slug); return err }); err != nil {
		return nil, err
	}
	return q, q.Open(c.Site.Store.Now())
}

// Lock is the request in the form that grants need.
func Lock(q *inbox.Request) *record.Record {
	return &record.Record{ID: q.ID, Owner: q.Owner, Share: record.Share{Slug: q.Slug, Password: q.Password}}
}

var errUploadLocked = &record.Error{
	Fault: record.Unauthorized, Code: "password_required", Text: "This upload link needs a password in the header " +
		"x-upload-password.",
}

// requireOpenRequest checks that the visitor may use the upload link with the slug: by its
// password, or by the cookie that its page sets after the password.
func requireOpenRequest(c *web.Request, slug string) (*inbox.Request, error) {
	q, err := OpenRequest(c, slug)
	password := c.R.Header.Get("X-Upload-Password")
	switch {
	case kv.Missing(err) && password != "":
		_ = public.CheckItemPassword(c, "missing", "", password, false) // costs the same work
		return nil, err
	case err != nil:
		return nil, err
	case q.Password == "", public.Granted(c, grant.ToUnlock, Lock(q)):
		return q, nil
	case password == "":
		return q, errUploadLocked
	}
	// x-captcha-token is for the link's own captcha
	return q, public.CheckItemPassword(c, q.ID.String(), q.Password, password, false)
}

// countRequestView counts a visit by someone other than the owner.
func countRequestView(c *web.Request, q *inbox.Request) {
	if owned := c.Caller != nil && c.Caller.User.ID == q.Owner; !owned && c.R.Method != http.MethodHead &&
		!public.IsPrefetchOrFetcher(c) {
		inbox.RequestSeen(c.Site.Store, q)
	}
}

var ReadUploadLink = web.Operation{
	Tag: "public", Summary: "Shows an upload link to a visitor; without its password, only a little.",
	Args:  []web.Param{uploadPassword},
	Reply: web.Reply{Status: 200, Doc: "The details.", Body: web.BodyOf("UploadLink")},
	Fails: []int{401, 404, 410, 429, 503}, Slugs: true, Serve: readUploadLink,
}

func readUploadLink(c *web.Request) error {
	q, err := requireOpenRequest(c, c.Arg("slug"))
	locked := err == errUploadLocked //nolint:errorlint // never wrapped
	if err != nil && !locked {
		return err
	}
	link, err := findLink(c, q)
	if err != nil {
		return err
	}
	if !locked {
		countRequestView(c, q)
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = field.AppendString(append(dst, `{"title":`...), q.Title)
		dst = strconv.AppendBool(append(dst, `,"requiresPassword":`...), q.Password != "")
		dst = strconv.AppendBool(append(dst, `,"authorized":`...), !locked)
		dst = append(dst, `,"captcha":`...)
		if link.captcha == people.CaptchaNone {
			dst = append(dst, "null"...)
		} else {
			dst = field.AppendString(append(dst, `{"provider":`...), string(link.captcha))
			if link.captcha == people.CaptchaPow {
				dst = field.AppendString(append(dst, `,"challengeUrl":`...), c.Site.Base+web.APIPath+"captcha/challenge")
			} else {
				dst = field.AppendString(append(dst, `,"siteKey":`...), link.siteKey)
			}
			dst = append(dst, '}')
		}
		if locked {
			return append(dst, '}'), nil
		}
		number := func(name string, n int64) {
			dst = append(dst, name...)
			if n < 0 {
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
		dst = strconv.AppendBool(append(dst, `,"requiresName":`...), q.NeedsName)
		number(`,"limits":{"maxFileSize":`, link.file)
		number(`,"maxUploads":`, orNone(q.MaxUploads))
		number(`,"remainingUploads":`, link.left)
		dst = field.AppendStrings(append(dst, `,"allowedTypes":`...), q.Types)
		dst = field.AppendString(append(dst, `},"brandColor":`...), q.Color)
		return append(dst, '}'), nil
	})
}

// orNone turns a limit of 0, which means no limit, into -1.
func orNone(limit int64) int64 {
	if limit == 0 {
		return -1
	}
	return limit
}

// link is what an upload link shows besides its own fields.
type link struct {
	owner   string
	file    int64 // bytes of one file
	left    int64 // files; -1 means any number
	captcha people.CaptchaProvider
	siteKey string
}

func findLink(c *web.Request, q *inbox.Request) (l link, err error) {
	return l, c.Site.Store.View(func(tx *kv.Tx) error {
		set, err := session.Settings(c.Site, tx)
		if err != nil {
			return err
		}
		u, err := people.ReadUser(tx, q.Owner)
		if kv.Missing(err) {
			return inbox.ErrNoRequest
		}
		if err != nil {
			return err
		}
		l = link{
			owner: public.DisplayName(*u), file: largest(c, q, &set), left: inbox.Remaining(tx, q), captcha: people.CaptchaNone,
			siteKey: set.CaptchaSiteKey,
		}
		if q.Captcha {
			l.captcha = set.Provider()
		}
		return nil
	})
}

// largest is the maximum size of a file at the link, in bytes.
func largest(c *web.Request, q *inbox.Request, set *people.Settings) int64 {
	maximum := set.Largest(c.Site.MaxUpload)
	if q.MaxFile > 0 {
		return min(maximum, q.MaxFile)
	}
	return maximum
}

// formOverhead is the maximum part of a multipart body that is not files, in bytes: texts, headers
// and boundaries.
const formOverhead = 64 << 10

// reserved is how many bytes a transfer reserves at its beginning, and again when these have come.
// So a sender who stalls keeps little from the others.
const reserved = 1 << 20

// uploadBudgetAt is the budget for one file at a link. The store checks the link's other limits.
func uploadBudgetAt(c *web.Request, q *inbox.Request) (*Budget, error) {
	m := &Budget{Disk: c.Site.Store.FreeForContent(), Left: math.MaxInt64, full: inbox.ErrNoRoom}
	return m, c.Site.Store.View(func(tx *kv.Tx) error {
		m.Disk = max(0, m.Disk-inbox.ReservedBytes(tx))
		set, err := people.ReadSettings(tx)
		m.File = largest(c, q, &set)
		return err
	})
}

// codeType is the error code for a type that a link does not accept.
const codeType = "type_not_allowed"

func typeRefused(q *inbox.Request) error {
	return &record.Error{
		Fault: record.WrongType, Code: codeType,
		Text: "This link accepts only " + strings.Join(q.Types, ", ") + ". Nothing was stored.",
	}
}

// receiveFiles receives the files of a sender's form. A repetition with the same Idempotency-Key gets
// the items of the first request.
func receiveFiles(c *web.Request, q *inbox.Request) ([]*inbox.Item, error) {
	from := limit.Network(c.Addr).String()
	key, err := senderKey(c, q, from)
	if err != nil {
		return nil, err
	}
	m, err := uploadBudgetAt(c, q)
	if err != nil {
		return nil, err
	}
	if key != "" {
		leave, err := c.Site.Repeats.Enter(c, key)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	earlier, err := earlierReceipts(c, q, key)
	if err != nil && !kv.Missing(err) {
		return nil, err
	}
	if earlier != nil {
		return repeatFiles(c, q, m, key, earlier)
	}
	if err := session.RequireCaptcha(c, q); err != nil { // a repetition has used it up
		return nil, err
	}

	place, err := reserveForm(c, q, from, m)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := place.Release(); err != nil {
			c.Site.Log.Error("cannot release the reservation of an upload", "requestId", c.ID, "error", err)
		}
	}()
	m.within(c, q, place)

	in := NewIntake(c.Site)
	in.Strangers = true
	defer in.Close()
	form, fields, err := in.readSenderForm(c, m)
	if err != nil {
		return nil, err
	}
	if err := q.CheckSender(form); err != nil {
		return nil, err
	}
	if err := in.Keep(c.R.Context()); err != nil {
		return nil, err
	}
	return in.receive(c, q, place, form, key, Fingerprint(c, key, in.Files, fields))
}

// senderKey is the key under which the answer to this request is kept, or "" if the sender gave none.
func senderKey(c *web.Request, q *inbox.Request, from string) (string, error) {
	key, err := web.IdempotencyKey(c.R)
	if err != nil || key == "" {
		return "", err
	}
	return inbox.SenderKey(c.Site.Store, q, from, "files "+key)
}

// earlierReceipts is the answer to an earlier request with the same key; Missing if there is none.
func earlierReceipts(c *web.Request, q *inbox.Request, key string) (a *jobs.IdempotentAnswer, err error) {
	if key == "" {
		return nil, record.NotFound("answer")
	}
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		a, err = jobs.FindSenderAnswer(tx, q.Owner, key)
		return err
	})
	return a, err
}

// reserveForm reserves what the body needs at least, and a little for its beginning.
func reserveForm(c *web.Request, q *inbox.Request, from string, m *Budget) (*inbox.Reservation, error) {
	told := c.R.ContentLength // -1 if the client does not say
	minimum, first := max(0, told-formOverhead), int64(reserved)
	if m.File < first/MaxFiles { // the maximum for a body at this link
		first = m.File * MaxFiles
	}
	if told >= 0 {
		first = min(first, told)
	}
	switch {
	case minimum > m.Disk:
		return nil, kv.ErrFull
	case minimum/MaxFiles > m.File:
		return nil, m.ErrTooLarge(m.File + 1)
	}
	return inbox.Reserve(c.Site.Store, c.R.Context(), q, from, minimum, first)
}

// within makes the budget that of a reservation, which grows as files and bytes come. It takes only
// files that the link accepts.
func (m *Budget) within(c *web.Request, q *inbox.Request, place *inbox.Reservation) {
	m.Left = place.Bytes()
	files := 0
	m.next = func() error {
		files++
		if files == 1 {
			return nil // its place is already reserved
		}
		return place.Another()
	}
	m.more = func() error {
		before := place.Bytes()
		err := place.More(c.R.Context(), reserved)
		m.Left += place.Bytes() - before
		return err
	}
	m.takes = func(name string, head []byte) error {
		if !q.Takes(name, media.Of("", name, head)) {
			return typeRefused(q)
		}
		return nil
	}
}

// readSenderForm reads the form of a sender, and checks its fields.
func (in *Intake) readSenderForm(c *web.Request, m *Budget) (*inbox.SenderForm, field.Object, error) {
	fields, err := in.ReadForm(c, m)
	if err != nil {
		return nil, nil, err
	}
	in.leaveOutUnchosen()
	form := new(inbox.SenderForm)
	var none error
	if len(in.Files) == 0 {
		none = field.Problems{"file": "is required"}
	}
	return form, fields, web.JoinProblems(c.RefuseUnknown(form, fields), field.Create(form, fields), none)
}

// receive makes the kept files items of the owner's queue, or files if they need no approval.
func (in *Intake) receive(
	c *web.Request, q *inbox.Request, place *inbox.Reservation, form *inbox.SenderForm, key string, request []byte,
) (items []*inbox.Item, err error) {
	var came []inbox.Received
	for _, f := range in.Files {
		came = append(came, f.Received())
	}
	err = c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		if err := in.Carry(tx); err != nil {
			return err
		}
		items, err = inbox.Receive(tx, place, form, came)
		if err != nil || key == "" {
			return err
		}
		body, err := json.Marshal(receiptsOf(items))
		if err != nil {
			return fmt.Errorf("receipts: %w", err)
		}
		return jobs.SaveIdempotentAnswer(tx, q.Owner, key, jobs.IdempotentAnswer{Request: request, Body: body})
	})
	if err != nil {
		return nil, err
	}
	in.Recorded()
	return items, nil
}

// repeatFiles reads a repeated form and returns the items of the first one.
func repeatFiles(
	c *web.Request, q *inbox.Request, m *Budget, key string, earlier *jobs.IdempotentAnswer,
) ([]*inbox.Item, error) {
	m.Look, m.Disk = true, math.MaxInt64-1
	in := NewIntake(c.Site)
	defer in.Close()
	fields, err := in.ReadForm(c, m)
	if err != nil {
		return nil, err
	}
	in.leaveOutUnchosen()
	return itemsOf(q, earlier, Fingerprint(c, key, in.Files, fields))
}

// A receipt is what an answer keeps of an item.
type receipt struct {
	ID    record.ID   `json:"ID"`
	State inbox.State `json:"State"`
	Name  string      `json:"Name"`
	Size  int64       `json:"Size"`
}

func receiptsOf(items []*inbox.Item) (all []receipt) {
	for _, i := range items {
		all = append(all, receipt{i.ID, i.State, i.Name, i.Size})
	}
	return all
}

// itemsOf are the items in an earlier answer, if it was to the same request.
func itemsOf(
	q *inbox.Request, earlier *jobs.IdempotentAnswer, request []byte,
) (items []*inbox.Item, err error) {
	body, err := earlier.For(request)
	if err != nil {
		return nil, err
	}
	var all []receipt
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	for _, r := range all {
		items = append(items, &inbox.Item{
			ID: r.ID, Owner: q.Owner, Request: q.ID, State: r.State, Name: r.Name, Size: r.Size,
		})
	}
	return items, nil
}

// leaveOutUnchosen leaves out the empty file that a form without JavaScript sends if none was chosen.
func (in *Intake) leaveOutUnchosen() {
	in.Files = slices.DeleteFunc(in.Files, func(f *File) bool {
		unchosen := f.Unnamed && len(f.Head) == 0
		if unchosen {
			in.drop(f)
		}
		return unchosen
	})
}

var LeaveFiles = web.Operation{
	Tag: "public", Summary: "Sends files to an upload link. Either all of them are stored, or none.",
	Args: append([]web.Param{uploadPassword, web.IdempotencyArg}, captchaArgs...), Body: web.MultipartForm,
	Reply: web.Reply{
		Status: 201, Doc: "The received files, which are waiting for approval or already approved.",
		Body: web.ListOf("UploadReceipt"),
	},
	Fails: []int{401, 403, 404, 410, 429, 503, 507}, Slugs: true,
	Plain: "a sentence about each file, one per line", Serve: leaveFiles,
}

func leaveFiles(c *web.Request) error {
	q, err := requireOpenRequest(c, c.Arg("slug"))
	if err != nil {
		return err
	}
	items, err := receiveFiles(c, q)
	if err != nil {
		return err
	}
	if c.W.Plain {
		var lines []string
		for _, i := range items {
			became := " was received."
			if i.State == inbox.Pending {
				became = " is waiting for approval."
			}
			lines = append(lines, i.Name+became)
		}
		return c.RespondText(lines...)
	}
	var all []inbox.Receipt
	for _, i := range items {
		all = append(all, inbox.Receipt{Item: i, Secret: sentSecret(c, i)})
	}
	return c.Respond(http.StatusCreated, func(dst []byte) ([]byte, error) {
		return append(web.AppendAll(append(dst, `{"items":`...), all), '}'), nil
	})
}

var ViewUploadLink = web.PageOp(viewUploadLink, 401, 404, 410, 429, 503).ForVisitors().Found(findsLink)

// findsLink fails with Missing if no upload link has the slug.
func findsLink(c *web.Request) error {
	_, err := OpenRequest(c, c.Arg("slug"))
	return err
}

// viewUploadLink shows the page of an upload link, or asks for its password.
func viewUploadLink(c *web.Request) error {
	q, err := requireOpenRequest(c, c.Arg("slug"))
	if err == errUploadLocked { //nolint:errorlint // never wrapped
		return c.RespondPage(http.StatusUnauthorized, lockedLink(c, embed.Problem{Text: ""}))
	}
	if err != nil {
		return err
	}
	countRequestView(c, q)
	return showLink(c, http.StatusOK, q, nil, "")
}

func showLink(c *web.Request, status int, q *inbox.Request, came []*inbox.Item, problem string) error {
	l, err := findLink(c, q)
	if err != nil {
		return err
	}
	page := embed.UploadPage{
		Base: c.Site.Prefix(), Slug: q.Slug, Title: q.Title, Description: q.Description, Owner: l.owner, Expires: q.Expires,
		Approval: q.Approval, Color: q.Color, MaxFile: l.file, FileSize: c.Lang().Size(l.file), Left: l.left, Types: q.Types,
		NeedsName: q.NeedsName, SiteKey: l.siteKey, AtOnce: MaxFiles, Problem: problem,
	}
	if l.captcha != people.CaptchaNone {
		page.Captcha = string(l.captcha)
	}
	for _, i := range came {
		page.Came = append(page.Came, embed.CameView{Name: i.Name, Size: c.Lang().Size(i.Size)})
	}
	return c.RespondPage(status, page)
}

var PostFiles = web.FormOp(201, postFiles, 401, 403, 404, 410, 429, 503, 507).ForVisitors()

// postFiles receives the form of the page without JavaScript.
func postFiles(c *web.Request) error {
	q, err := requireOpenRequest(c, c.Arg("slug"))
	if err == errUploadLocked { //nolint:errorlint // never wrapped
		return c.RespondPage(http.StatusUnauthorized, lockedLink(c, embed.Problem{Text: ""}))
	}
	if err != nil {
		return err
	}
	items, err := receiveFiles(c, q)
	if err == nil {
		return showLink(c, http.StatusCreated, q, items, "")
	}
	e, status := web.ClientError(err)
	if e.Code == captcha.ErrNoCaptcha.Code {
		return showLink(c, status, q, nil, c.Lang().T("receive.captchaNeedsScript"))
	}
	switch e.Fault {
	case record.Malformed, record.Denied, record.TooLarge, record.WrongType, record.Invalid, record.TooMany, record.Full:
		return showLink(c, status, q, nil, web.ErrorText(e, c.Lang()))
	}
	return err
}

func lockedLink(c *web.Request, p embed.Problem) embed.Page {
	return embed.LockedPage{
		Base: c.Site.Prefix(), Action: "/up/" + url.PathEscape(c.Arg("slug")) + "/unlock", Button: c.Lang().T("locked.continue"), Problem: p,
	}
}

var UnlockUploadLink = web.FormOp(303, unlockUploadLink, 400, 401, 404, 410, 413, 415, 429, 503).ForVisitors()

// unlockUploadLink receives the password form of an upload link. After the right password it sets
// a cookie, only for that link.
func unlockUploadLink(c *web.Request) error {
	values, err := session.ReadForm(c)
	if err != nil {
		return err
	}
	c.R.Header.Set("X-Upload-Password", values.Get("password"))
	q, err := requireOpenRequest(c, c.Arg("slug"))
	if err == errUploadLocked { //nolint:errorlint // never wrapped
		return c.RespondPage(http.StatusUnauthorized, lockedLink(c, embed.Problem{Text: c.Lang().T("locked.type")}))
	}
	if err != nil {
		return session.Problem(c, err, func(p embed.Problem) embed.Page { return lockedLink(c, p) })
	}
	if q.Password != "" {
		if err := public.SetGrantCookie(c, grant.ToUnlock, Lock(q)); err != nil {
			return err
		}
	}
	return session.Redirect(c, "/up/"+url.PathEscape(q.Slug))
}
