package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kist/kv/field"
	"kist/kv/record"
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
	s.Name("title", &q.Title, record.MaxName, field.Required, field.Filled).Says("What the owner asks for.", `"Photos of the wedding"`)
	s.Text("description", &q.Description, record.MaxDescription).Says("Free text for senders.", `"The originals, please."`)
	s.Ruled("slug", &q.Slug, record.CleanSlug, record.SlugPattern, record.MaxSlug).
		Says("Last part of the link, unique among all items; generated if absent.", `"wedding"`)
	s.Name("folderName", &q.FolderName, record.MaxName).Says("Folder for received files; created if it does not exist.", `"Wedding"`)
	s.Bool("isActive", &q.Active).Says("Whether the link takes files.", `true`)
	s.Bool("requiresApproval", &q.Approval).Says("Whether files wait for the owner's approval.", `true`)
	s.Bool("requiresCaptcha", &q.Captcha).Says("Whether senders must pass a captcha.", `false`)
	s.Time("expiresAt", &q.Expires).Says("When the link expires.", `"2030-01-01T00:00:00.000Z"`)
	s.Limit("maxUploads", &q.MaxUploads, field.MaxCount).Says("Maximum number of files in all; 0 or null is no limit.", `100`)
	s.Limit("maxFileSize", &q.MaxFile, 1<<53).Says("Maximum size of one file in bytes; 0 or null is no limit.", `104857600`)
	s.Limit("maxTotalSize", &q.MaxTotal, 1<<53).Says("Maximum size of all received files in bytes; 0 or null is no limit.", `1073741824`)
	s.Texts("allowedTypes", &q.Types, CleanFileType, maxTypes, 128).
		Says("Accepted media types (image/png, image/*) or extensions (.pdf); empty accepts all.", `["image/*",".pdf"]`)
	s.Limit("perUserUploadLimit", &q.PerSender, field.MaxCount).Says("Maximum number of files from one sender within the window; 0 or null is no limit.", `10`)
	s.Limit("perUserWindowHours", &q.Window, maxWindow).Says("Length of the window in hours; 0 or null is 24.", `24`)
	s.Ruled("brandColor", &q.Color, record.CleanColor, `^(#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6}))?$`, 7).Says("Colour of the page; empty is the default colour.", `"#0F6B5C"`)
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
		return &record.Error{Fault: record.TooMany, Code: "sender_limit", Text: fmt.Sprintf("You have reached this link's limit per sender (%s in %s). Try again %s.", record.Plural(q.PerSender, "file"), record.Plural(q.Window, "hour"), record.In(again)), Retry: max(again, time.Second)}
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
var ErrWait = &record.Error{Fault: record.Busy, Code: "busy", Text: "Others are sending files to this link at the moment. Try again soon.", Retry: 5 * time.Second}

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
	return regexp.MustCompile(`^(\.[\pL\pN][\pL\pN._+-]{0,31}|[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/(\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,62}))$`)
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
// type. The type must come from the bytes: the sender's claim does not count.
func (q *Request) Takes(name, mimeType string) bool {
	name, mimeType = record.Fold(name), strings.ToLower(mimeType)
	top, _, _ := strings.Cut(mimeType, "/")
	return len(q.Types) == 0 || slices.ContainsFunc(q.Types, func(t string) bool {
		if strings.HasPrefix(t, ".") {
			return path.Ext(name) == t || strings.HasSuffix(name, t) && len(name) > len(t)
		}
		return t == mimeType || t == top+"/*"
	})
}

// MayTake reports whether the request may accept a file with the name,
// depending on the type of its bytes.
func (q *Request) MayTake(name string) bool {
	return q.Takes(name, "") || slices.ContainsFunc(q.Types, func(t string) bool { return !strings.HasPrefix(t, ".") })
}
