package inbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// Request is an upload request: an address at which strangers leave files for
// its owner.
type Request struct {
	ID          record.ID `json:"ID"`
	Owner       record.ID `json:"Owner"`
	Slug        string    `json:"Slug"`
	Title       string    `json:"Title"`
	Description string    `json:"Description"`
	FolderName  string    `json:"FolderName"` // where files go; "" means none
	Active      bool      `json:"Active"`
	Approval    bool      `json:"Approval"` // files wait in the queue until the owner approves them
	Password    string    `json:"Password"` // hash; "" means none
	Captcha     bool      `json:"Captcha"`  // strangers must pass the instance's captcha
	Expires     time.Time `json:"Expires"`
	MaxUploads  int64     `json:"MaxUploads"` // files in all; 0 is no limit, as with those below
	MaxFile     int64     `json:"MaxFile"`    // bytes of one file
	MaxTotal    int64     `json:"MaxTotal"`   // bytes of all files
	Types       []string  `json:"Types"`      // media types, type/* or .ext; none is any
	PerSender   int64     `json:"PerSender"`  // files that one sender may leave in Window hours
	Window      int64     `json:"Window"`
	Color       string    `json:"Color"` // #RRGGBB; "" means none
	Created     time.Time `json:"Created"`
	Updated     time.Time `json:"Updated"`

	Collection record.ID `json:"Collection,omitzero"` // files go into it too; zero means none
	NeedsName  bool      `json:"NeedsName,omitzero"`  // senders must say their names
}

// Bounds of upload requests.
const (
	maxTypes      = 64
	defaultWindow = 24      // hours
	maxWindow     = 24 * 90 // hours
	// MaxPending is how many files of one request may wait for a decision.
	MaxPending = 10_000
	// MaxSenderName and MaxMessage bound a stranger's texts, in characters.
	MaxSenderName = 100
	MaxMessage    = 2000
)

// NewRequest is a request with the default settings.
func NewRequest() Request {
	return Request{Active: true, Approval: true, Window: defaultWindow}
}

// RequestForm is an owner's input for a request.
type RequestForm struct {
	Request
	Secret field.Secret
}

// Fields is the shape of a create and of a patch.
func (f *RequestForm) Fields(s *field.Set) {
	f.fields(s)
	s.Secret("password", &f.Secret).Says("Password that senders need; \"\" removes it.", `"open sesame"`)
}

func (q *Request) fields(s *field.Set) {
	s.Name("title", &q.Title, record.MaxName, field.Required, field.Filled).
		Says("What the owner asks for.", `"Photos of the wedding"`)
	s.Text("description", &q.Description, record.MaxDescription).Says("Free text for senders.", `"The originals, please."`)
	s.Ruled("slug", &q.Slug, record.CleanSlug, record.SlugPattern, record.MaxSlug).
		Says("Last part of the link, unique among all items; generated if absent.", `"wedding"`)
	s.Name("folderName", &q.FolderName, record.MaxName).
		Says("Folder for received files; created if it does not exist.", `"Wedding"`)
	s.ID("collectionId", &q.Collection).
		Says("Collection of picked items that files go into when they become files of the owner; null without one. "+
			"A collection has one upload request: naming it takes it from another.", `null`)
	s.Bool("isActive", &q.Active).Says("Whether the link takes files.", `true`)
	s.Bool("requiresApproval", &q.Approval).Says("Whether files wait for the owner's approval.", `true`)
	s.Bool("requiresName", &q.NeedsName).Says("Whether senders must give their names.", `false`)
	s.Bool("requiresCaptcha", &q.Captcha).Says("Whether senders must pass a captcha.", `false`)
	s.Time("expiresAt", &q.Expires).Says("When the link expires. A date alone is the end of that day in UTC.", `"2030-01-01T00:00:00.000Z"`)
	s.Limit("maxUploads", &q.MaxUploads, field.MaxCount).
		Says("Maximum number of files in all; 0 or null is no limit.", `100`)
	s.Limit("maxFileSize", &q.MaxFile, 1<<53).
		Says("Maximum size of one file in bytes; 0 or null is no limit.", `104857600`)
	s.Limit("maxTotalSize", &q.MaxTotal, 1<<53).
		Says("Maximum size of all received files in bytes; 0 or null is no limit.", `1073741824`)
	s.Texts("allowedTypes", &q.Types, CleanFileType, maxTypes, 128).
		Says("Accepted media types (image/png, image/*) or extensions (.pdf); empty accepts all.", `["image/*",".pdf"]`)
	s.Limit("perUserUploadLimit", &q.PerSender, field.MaxCount).
		Says("Maximum number of files from one sender within the window; 0 or null is no limit.", `10`)
	s.Limit("perUserWindowHours", &q.Window, maxWindow).Says("Length of the window in hours; 0 or null is 24.", `24`)
	s.Ruled("brandColor", &q.Color, record.CleanColor, `^(#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6}))?$`, 7).
		Says("Colour of the page; empty is the default colour.", `"#0F6B5C"`)
}

// Finish sets the defaults after input was read into the form.
func (f *RequestForm) Finish() { f.Window = cmp.Or(f.Window, defaultWindow) }

// ShownRequest is a request as its owner sees it, with the store's counts.
type ShownRequest struct {
	Request
	Uploads, Views, Pending int64
	Base                    string // absolute address of the server, without a slash at the end
}

// Fields is the shape of a request in an answer.
func (v *ShownRequest) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Permanent id.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	v.fields(s)
	s.Shown("hasPassword", field.Schema{Type: "boolean"}, func(dst []byte) []byte {
		return fmt.Appendf(dst, "%t", v.Password != "")
	}).Says("Whether senders need a password.", `false`)
	s.Shown("url", field.Schema{Type: "string", Format: "uri"}, func(dst []byte) []byte {
		return field.AppendString(dst, v.Base+"/up/"+v.Slug)
	}).Says("The link.", `"https://kist.example.org/up/wedding"`)
	s.Number("uploadsCount", &v.Uploads, 0, 1<<53).Says("Number of files received, in any state.", `7`)
	s.Number("viewsCount", &v.Views, 0, 1<<53).Says("How many times others have opened the link.", `12`)
	s.Number("pendingCount", &v.Pending, 0, 1<<53).Says("Number of files that wait for a decision.", `2`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was created.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("updatedAt", &v.Updated, field.Always).Says("When its owner last changed it.", `"2026-01-02T03:04:05.678Z"`)
}

// ErrNoRequest is the answer for any link that is unknown or turned off.
var ErrNoRequest = record.NotFound("upload link")

// Open says whether others may use the link at the given instant: nil, Missing
// or Gone.
func (q *Request) Open(now time.Time) error {
	switch {
	case !q.Active:
		return ErrNoRequest
	case !q.Expires.IsZero() && !now.Before(q.Expires):
		return &record.Error{Fault: record.Gone, Code: "expired", Text: "This upload link has expired."}
	}
	return nil
}

// Intake counts the files that a request has received, and those promised to
// transfers in progress.
type Intake struct {
	Files, Pending int64
	Sender         int64 // of this sender, in the window
}

// errFull says that a request accepts no more files.
func errFull(text string) error {
	return &record.Error{Fault: record.Denied, Code: "limit_reached", Text: text}
}

// Admit says whether more files may be added to those received. It returns nil,
// Denied when a limit of the request is reached, or TooMany when the sender's
// is. again is when the sender's oldest file leaves the window.
func (q *Request) Admit(taken, more Intake, again time.Duration) error {
	switch {
	case over(taken.Files, more.Files, q.MaxUploads):
		if taken.Files < q.MaxUploads {
			return errFull(fmt.Sprintf("This link takes %d more of the files, not all.", q.MaxUploads-taken.Files))
		}
		return errFull("This link has reached its file limit.")
	case q.Approval && over(taken.Pending, more.Pending, MaxPending):
		return errFull("Too many files wait for approval here. Try again when the owner has looked at them.")
	case over(taken.Sender, more.Sender, q.PerSender):
		text := fmt.Sprintf("You have reached this link's limit per sender (%s in %s). Try again %s.",
			record.Plural(q.PerSender, "file"), record.Plural(q.Window, "hour"), record.In(again))
		return &record.Error{Fault: record.TooMany, Code: "sender_limit", Text: text, Retry: max(again, time.Second)}
	}
	return nil
}

// over reports whether more exceeds the limit on top of taken; limit 0 means no
// limit.
func over(taken, more, limit int64) bool { return limit > 0 && more > 0 && more > limit-taken }

// ErrNoRoom says that a request has no space for so many bytes.
var ErrNoRoom = errFull("This is more than the link has room for. Nothing was stored.")

// ErrWait says that there will be space for a transfer once others have ended,
// because they may need less than they were promised.
var ErrWait = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: 5 * time.Second,
	Text: "Others are sending files to this link at the moment. Try again soon.",
}

// Promise says how many bytes of a limit to promise to a transfer that needs
// minimum bytes, and no more than maximum for now. It is maximum if that much is free, or
// all that is left if nobody else has a promise. The error is ErrWait if promises to others
// are in the way, and ErrNoRoom if stored bytes are. A limit of 0 means no limit.
func Promise(limit, kept, promised, minimum, maximum int64) (int64, error) {
	free := limit - kept
	switch {
	case limit > 0 && minimum > free:
		return 0, ErrNoRoom
	case limit == 0, maximum <= free-promised:
		return maximum, nil
	case free <= 0:
		return 0, ErrNoRoom
	case promised > 0:
		return 0, ErrWait
	}
	return free, nil
}

// CheckSender refuses a sender who does not give a name that the request needs.
func (q *Request) CheckSender(f *SenderForm) error {
	if q.NeedsName && !strings.ContainsFunc(f.Name, isSeen) {
		return &record.Error{
			Fault: record.Malformed, Code: "name_required",
			Text: "Please say your name: this link takes files only with the name of their sender. Nothing was stored.",
		}
	}
	return nil
}

// isSeen reports whether a character leaves a trace on a page. U+2800 is a pattern of Braille without dots.
func isSeen(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && r != '\u2800' &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// Remaining is how many files the request still accepts; -1 is any number.
func (q *Request) Remaining(files int64) int64 {
	if q.MaxUploads == 0 {
		return -1
	}
	return max(0, q.MaxUploads-files)
}

// fileType is compiled on first use: that takes 1.4 MB and a tenth of the time
// that the program takes to start.
var fileType = sync.OnceValue(func() *regexp.Regexp {
	const subtype = `[a-z0-9][a-z0-9!#$&^_.+-]{0,62}`
	return regexp.MustCompile(`^(\.[\pL\pN][\pL\pN._+-]{0,31}|` + subtype + `/(\*|` + subtype + `))$`)
})

// CleanFileType is the rule for allowed types: a media type, one with * for its
// second half, or an extension with its dot; in lower case.
func CleanFileType(t string) (string, error) {
	t = record.Fold(strings.TrimSpace(t))
	if !fileType().MatchString(t) {
		return "", errors.New("must be a media type such as image/png or image/*, or an extension such as .pdf")
	}
	return t, nil
}

// Takes reports whether the request accepts a file with the name and the media
// type, by whatever of its names. The type must come from the bytes: the sender's claim does not count, and an
// extension counts only if the bytes can be what it says.
func (q *Request) Takes(name, mimeType string) bool {
	mimeType = media.Canonical(mimeType)
	top, _, _ := strings.Cut(mimeType, "/")
	return len(q.Types) == 0 || slices.ContainsFunc(q.Types, func(t string) bool {
		if strings.HasPrefix(t, ".") {
			return hasExtension(name, t) && media.Matches(name, mimeType)
		}
		return media.Canonical(t) == mimeType || t == top+"/*"
	})
}

// MayTake reports whether the request may accept a file with the name,
// depending on the type of its bytes.
func (q *Request) MayTake(name string) bool {
	return len(q.Types) == 0 || slices.ContainsFunc(q.Types, func(t string) bool {
		return !strings.HasPrefix(t, ".") || hasExtension(name, t)
	})
}

// hasExtension reports whether a name has the extension, which may have several dots, such as .tar.gz.
func hasExtension(name, extension string) bool {
	name = record.Fold(name)
	return path.Ext(name) == extension || strings.HasSuffix(name, extension) && len(name) > len(extension)
}

// requestKey is the primary key of an upload request. It has the form of a record's
// key with kind 0, which no record has. Requests and records share the index of
// slugs, so a slug is unique across both.
func requestKey(owner, id record.ID) []byte { return append(kv.OwnedKey(owner, 0), id[:]...) }

// RequestRows is the table of upload requests.
var RequestRows = func() *table.Table[Request] {
	t := kv.JsonTable(kv.RequestBucket, func(q *Request) []byte { return requestKey(q.Owner, q.ID) },
		table.Index[Request]{Bucket: kv.RecordSlug, Name: "slug", Unique: true, Keys: func(q *Request, file func([]byte)) {
			file([]byte(q.Slug))
		}})
	t.Bytes = func(q *Request, length int) (table.Bucket, []byte, int) { return kv.TextSum(q.Owner, length) }
	return t
}()

// RequestTable keeps upload requests.
var RequestTable = kv.Table{
	Buckets: []table.Bucket{kv.RequestBucket},
	Check: kv.CheckRows(RequestRows, func(a *kv.Audit, q *Request) {
		a.Refers(people.UserBucket, q.Owner[:], "upload request", q.ID)
		if a.Get(catalog.ViewBucket, q.ID[:]) != nil {
			a.Owe(catalog.ViewBucket, 1)
		}
	}),
	Refill: kv.RefillRows(RequestRows, kv.Mending[Request]{
		Mend: func(r *kv.Refill, q *Request) error { return people.StandIn(r, q.Owner) },
		Rename: func(r *kv.Refill, q *Request) error {
			before := q.Slug
			q.Slug = catalog.NewSlug(r.Tx)
			r.Lost(fmt.Errorf("upload request %s: another has its slug %s; it has %s now", q.ID, before, q.Slug))
			return nil
		},
		Then: func(r *kv.Refill, q *Request) error { return catalog.RefillViews(r, q.ID) },
	}),
	Text: kv.RowText(kv.RequestBucket),
	Drop: dropRequests,
}

// Keys of sums over items. Kind 0 is not a kind of record.
func inState(owner record.ID, s State) []byte { return kv.OwnedKey(owner, 0, 'i', s[0]) }

func inRequest(owner, request record.ID, s State) []byte {
	return requestSum('n', owner, request, s[0])
}

func receivedBytes(owner, request record.ID) []byte { return requestSum('s', owner, request) }

func requestSum(of byte, owner, request record.ID, rest ...byte) []byte {
	return append(append(kv.OwnedKey(owner, 0, of), request[:]...), rest...)
}

func pendingBytes(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'q') }

// ReadRequest reads one of the owner's upload requests.
func ReadRequest(tx *kv.Tx, owner, id record.ID) (*Request, error) {
	q, err := RequestRows.Get(tx.Tx, requestKey(owner, id))
	return q, kv.UserError(err, "upload request")
}

// RequestAt reads the upload request with the slug, no matter who owns it. It fails
// with Missing if the owner's account is disabled.
func RequestAt(tx *kv.Tx, slug string) (*Request, error) {
	if slug == "" {
		return nil, ErrNoRequest
	}
	q, err := RequestRows.Find(tx.Tx, kv.RecordSlug, []byte(slug))
	if errors.Is(err, table.ErrMissing) {
		return nil, ErrNoRequest
	}
	if err != nil {
		return nil, err
	}
	disabled, err := people.Disabled(tx, q.Owner)
	if disabled {
		return nil, ErrNoRequest
	}
	return q, err
}

// Requests lists the owner's upload requests, oldest first.
func Requests(tx *kv.Tx, owner record.ID) ([]Request, error) {
	return kv.Collect(RequestRows, tx, owner[:])
}

// ShowRequest fills v with the request and its counts.
func ShowRequest(tx *kv.Tx, q *Request, v *ShownRequest) {
	v.Request = *q
	v.Uploads = countReceived(tx, q)
	v.Pending = ItemRows.Sum(tx.Tx, inRequest(q.Owner, q.ID, Pending))
	v.Views = catalog.ViewCount(tx, q.ID)
}

// countReceived is how many files came in, in any state.
func countReceived(tx *kv.Tx, q *Request) (n int64) {
	for _, s := range States {
		n += ItemRows.Sum(tx.Tx, inRequest(q.Owner, q.ID, s))
	}
	return n
}

// Remaining is how many more files the request takes; -1 is any number.
func Remaining(tx *kv.Tx, q *Request) int64 { return q.Remaining(countReceived(tx, q)) }

// AddRequest creates an upload request; password is the hash of the form's password.
// It fails with Taken if the slug is in use and with Invalid if it would have ended
// already.
func AddRequest(tx *kv.Tx, owner record.ID, f *RequestForm, password string) (*Request, error) {
	if tx.DiskFull() {
		return nil, kv.ErrFull
	}
	if err := people.RequireOwner(tx, owner); err != nil {
		return nil, err
	}
	if err := tx.CheckBound(kv.RequestBucket, owner, "upload requests", "too_many_requests"); err != nil {
		return nil, err
	}
	if err := record.CheckEnd(f.Expires, tx.Now); err != nil {
		return nil, record.Bad(map[string]string{"expiresAt": err.Error()})
	}
	q := f.Request
	q.ID, q.Owner, q.Password, q.Created, q.Updated = tx.NewID(), owner, password, tx.Now, tx.Now
	if q.Slug == "" {
		q.Slug = catalog.NewSlug(tx)
	}
	if err := putRequest(tx, &q, true); err != nil {
		return nil, err
	}
	return &q, linkCollection(tx, &q)
}

// linkCollection makes a request that of its collection. Another one that names the collection does so no more.
func linkCollection(tx *kv.Tx, q *Request) error {
	if q.Collection == uuid.Nil {
		return nil
	}
	former, err := catalog.SetRequest(tx, q.Owner, q.Collection, q.ID)
	if err != nil || former == uuid.Nil || former == q.ID {
		return err
	}
	other, err := ReadRequest(tx, q.Owner, former)
	if kv.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if other.Collection != q.Collection {
		return nil
	}
	other.Collection, other.Updated = uuid.Nil, tx.Now
	return RequestRows.Put(tx.Tx, other)
}

// RequestOf finds the upload request whose files go into a collection; nil if none do.
func RequestOf(tx *kv.Tx, c *record.Record, b *record.Collection) (*Request, error) {
	if b.Request == uuid.Nil || b.Live() {
		return nil, nil
	}
	q, err := ReadRequest(tx, c.Owner, b.Request)
	if kv.Missing(err) {
		return nil, nil
	}
	if err != nil || q.Collection != c.ID {
		return nil, err
	}
	return q, nil
}

// putRequest writes a request. It charges its text if charged is set.
func putRequest(tx *kv.Tx, q *Request, charged bool) error {
	if err := catalog.SlugFree(tx, q.Slug); err != nil {
		return err
	}
	before := tx.Text(q.Owner)
	if err := RequestRows.Put(tx.Tx, q); err != nil {
		return kv.UserError(err, "upload request")
	}
	if !charged {
		return nil
	}
	return people.ChargeText(tx, q.Owner, before)
}

// SaveRequest changes an upload request, which must have been read in the same
// transaction. An empty slug keeps the old one. If the request is closed now, its
// unfinished uploads are deleted.
func SaveRequest(tx *kv.Tx, q *Request) error {
	before, err := ReadRequest(tx, q.Owner, q.ID)
	if err != nil {
		return err
	}
	q.Slug = cmp.Or(q.Slug, before.Slug)
	if q.Open(tx.Now) != nil {
		if err := dropSenderUploads(tx, q, func(u *Upload) bool { return !u.Done() }); err != nil {
			return err
		}
	}
	q.Updated = tx.Now
	if err := putRequest(tx, q, q.Active); err != nil { // a link can be closed whatever the quota
		return err
	}
	if q.Collection == before.Collection {
		return nil
	}
	if err := unlinkCollection(tx, before); err != nil {
		return err
	}
	return linkCollection(tx, q)
}

// unlinkCollection takes a request away from its collection.
func unlinkCollection(tx *kv.Tx, q *Request) error {
	if q.Collection == uuid.Nil {
		return nil
	}
	return catalog.ClearRequest(tx, q.Owner, q.Collection, q.ID)
}

// dropSenderUploads deletes the uploads at a request that which selects.
func dropSenderUploads(tx *kv.Tx, q *Request, which func(*Upload) bool) error {
	_, err := dropUploads(tx, q.Owner[:], func(u *Upload) (bool, error) { return u.Request == q.ID && which(u), nil })
	return err
}

// RemoveRequest deletes an upload request and its queue. Approved files stay. It
// takes several transactions, the first of which turns the request off. If it is
// interrupted, calling it again continues.
func RemoveRequest(s *kv.Store, owner, id record.ID) error {
	err := s.Update(func(tx *kv.Tx) error {
		q, err := ReadRequest(tx, owner, id)
		if err != nil || !q.Active {
			return err
		}
		q.Active = false
		return SaveRequest(tx, q)
	})
	if err != nil {
		return err
	}

	for {
		done := false
		err := s.Update(func(tx *kv.Tx) error {
			q, err := ReadRequest(tx, owner, id)
			if err != nil {
				return err
			}
			done, err = dropRequest(tx, q)
			return err
		})
		if err != nil || done {
			return err
		}
	}
}

// dropRequest deletes up to kv.RemoveBatch items of a request, and the request itself once
// none is left.
func dropRequest(tx *kv.Tx, q *Request) (done bool, err error) {
	var some []*Item
	for i, err := range ItemRows.All(tx.Tx, itemKey(q.Owner, q.ID)) {
		if err != nil {
			return false, err
		}
		if len(some) == kv.RemoveBatch {
			break
		}
		some = append(some, i)
	}
	for _, i := range some {
		if _, err := ItemRows.Delete(tx.Tx, ItemRows.Key(i)); err != nil {
			return false, err
		}
		if i.State == Pending {
			if err := catalog.MarkUnreferenced(tx, i.Ref); err != nil {
				return false, err
			}
		}
	}
	if len(some) == kv.RemoveBatch {
		return false, nil
	}

	var senders [][]byte
	for k := range tx.Walk(senderBucket, itemKey(q.Owner, q.ID), nil, false) {
		senders = append(senders, bytes.Clone(k))
	}
	for _, k := range senders {
		if err := tx.Delete(senderBucket, k); err != nil {
			return false, err
		}
	}
	if err := dropSenderUploads(tx, q, func(*Upload) bool { return true }); err != nil {
		return false, err
	}
	if _, err := RequestRows.Delete(tx.Tx, requestKey(q.Owner, q.ID)); err != nil {
		return false, kv.UserError(err, "upload request")
	}
	if err := unlinkCollection(tx, q); err != nil {
		return false, err
	}
	return true, tx.Delete(catalog.ViewBucket, bytes.Clone(q.ID[:]))
}

// dropRequests deletes requests of an account, with up to kv.RemoveBatch items of each,
// and says whether none is left.
func dropRequests(tx *kv.Tx, owner record.ID) (done bool, err error) {
	all, err := Requests(tx, owner)
	if err != nil {
		return false, err
	}
	for i := range all {
		if done, err := dropRequest(tx, &all[i]); err != nil || !done || len(all) > kv.RemoveBatch && i == kv.RemoveBatch {
			return false, err
		}
	}
	return true, nil
}

// RequestSeen counts a view of the link by someone other than the owner. The count is
// written within a second.
func RequestSeen(s *kv.Store, q *Request) {
	catalog.CountLater(s, [record.KeySize]byte(requestKey(q.Owner, q.ID)), 1)
}
