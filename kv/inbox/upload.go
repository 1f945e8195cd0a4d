package inbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// Bounds of resumable uploads.
const (
	UploadTime = 24 * time.Hour     // how long an upload waits for its next bytes, and is remembered once complete
	uploadMost = 7 * 24 * time.Hour // the longest an upload may take in all
	maxUploads = 100                // unfinished uploads of an owner

	// emptyTime is how long a sender's upload waits for its first bytes, because its client may not
	// know of it, and in which more must arrive if somebody else needs its place: movesBytes, or
	// one of movesPart parts.
	emptyTime  = 10 * time.Minute
	movesBytes = 1 << 20
	movesPart  = 100
	sharePart  = 3 // the unfinished uploads and transfers of one sender take at most one of so many places

	maxSentBy = 50  // unfinished uploads of one sender at a request
	maxSentAt = 500 // unfinished uploads of all senders at a request
)

// An Upload is a resumable upload: content that arrives in pieces, across restarts,
// and becomes a file at the end. Until it is complete, its bytes are a part of package
// blobs under its id.
type Upload struct {
	ID    record.ID `json:"ID"`
	Owner record.ID `json:"Owner"` // its reserved bytes count against this user's quota from the start

	Created time.Time `json:"Created"`
	Expires time.Time `json:"Expires"` // when it is deleted
	Length  int64     `json:"Length"`  // in bytes; -1 if not known yet
	Offset  int64     `json:"Offset"`  // bytes on stable storage
	State   []byte    `json:"State"`   // of the hash of those bytes

	Metadata string    `json:"Metadata"`          // as the client sent it, without the password
	Password string    `json:"Password"`          // hash; "" means none
	Slug     string    `json:"Slug"`              // reserved for the file; "" for a random one
	File     record.ID `json:"File"`              // the file made from it; zero until then
	FileName string    `json:"FileName,omitzero"` // the file's name when it was completed; "" until then
	By       record.ID `json:"By,omitzero"`       // the credential that started it; zero for strangers and older rows

	// A former version marked so what was a part of another upload. Nobody can continue
	// it; it expires. It is counted apart, and not at all if it was joined into another.
	Partial bool      `json:"Partial,omitzero"`
	Into    record.ID `json:"Into,omitzero"`

	// For a stranger's upload to an upload request; zero for the owner's own.
	Request record.ID `json:"Request,omitzero"`
	From    sender    `json:"From,omitzero"`
	Secret  [32]byte  `json:"Secret,omitzero"` // SHA-256 of the secret that its address ends in
	Name    string    `json:"Name,omitzero"`   // of the sender
	Message string    `json:"Message,omitzero"`
	Moved   time.Time `json:"Moved,omitzero"`   // when enough had arrived since MovedTo; zero until then: see stalled
	MovedTo int64     `json:"MovedTo,omitzero"` // the offset at that time
	Item    record.ID `json:"Item,omitzero"`    // the item made from it; zero until then
	Arrived State     `json:"Arrived,omitzero"` // the state of that item then
}

// Done reports whether the upload has become a file or an item of a queue.
func (u *Upload) Done() bool { return u.File != uuid.Nil || u.Item != uuid.Nil }

// BySender reports whether a stranger is uploading to an upload request.
func (u *Upload) BySender() bool { return u.Request != uuid.Nil }

// Sent is the item that a complete upload of a sender has become, as far as it names one.
func (u *Upload) Sent() *Item { return &Item{ID: u.Item, Owner: u.Owner, Request: u.Request} }

func (u *Upload) reserved() int64 {
	if u.Done() || u.Into != uuid.Nil {
		return 0
	}
	return max(u.Length, u.Offset)
}

// text is how many bytes of text the upload carries. Once it is done, the text counts
// with the file or the item.
func (u *Upload) text() int {
	if u.Done() {
		return 0
	}
	return len(u.Metadata) + len(u.Name) + len(u.Message)
}

// Keys of sums over uploads.
func reservedKeyOf(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'r') } // reserved bytes

func openUploadsKey(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'p') } // the owner's unfinished uploads

// Keys of sums over strangers' unfinished uploads: how many a request has, how many
// one sender has there, and the bytes reserved for them. Parts of a former version are
// counted under other keys, which nobody reads, but their bytes are not.
func senderUploadsAt(owner, request record.ID) []byte { return requestSum('t', owner, request) }

func senderUploadsFrom(owner, request record.ID, from sender) []byte {
	return requestSum('v', owner, request, from[:]...)
}

func partsTo(owner, request record.ID) []byte { return requestSum('w', owner, request) }

func partsBy(owner, request record.ID, from sender) []byte {
	return requestSum('x', owner, request, from[:]...)
}

func senderBytesAt(owner, request record.ID) []byte { return requestSum('u', owner, request) }

// reservedKey is the key of the sum of bytes that all uploads still expect.
var reservedKey = reservedKeyOf(uuid.Nil)

// senderReservedKey is the key of the same sum for strangers' uploads only.
var senderReservedKey = kv.OwnedKey(uuid.Nil, 0, 'u')

// UploadRows is the table of unfinished uploads and recently finished ones.
var UploadRows = func() *table.Table[Upload] {
	t := kv.JsonTable(uploadBucket, func(u *Upload) []byte { return kv.OwnedKey(u.Owner, u.ID[:]...) },
		table.Index[Upload]{Bucket: jobs.UploadSlug, Name: "slug", Unique: true, Keys: func(u *Upload, file func([]byte)) {
			if u.Slug != "" && !u.Done() {
				file([]byte(u.Slug))
			}
		}},
		table.Index[Upload]{Bucket: uploadSecret, Name: "secret", Unique: true, Keys: func(u *Upload, file func([]byte)) {
			if u.BySender() {
				file(u.Secret[:])
			}
		}})
	t.Bytes = func(u *Upload, _ int) (table.Bucket, []byte, int) { return kv.TextSum(u.Owner, u.text()) }
	t.Sums = kv.SumBucket
	t.Tally = func(u *Upload, add func([]byte, int64)) {
		if u.Done() || u.Into != uuid.Nil {
			return
		}
		add(reservedKeyOf(u.Owner), u.reserved())
		add(reservedKey, u.reserved()-u.Offset)
		if !u.BySender() {
			add(openUploadsKey(u.Owner), 1)
			return
		}
		to, by := senderUploadsAt(u.Owner, u.Request), senderUploadsFrom(u.Owner, u.Request, u.From)
		if u.Partial {
			to, by = partsTo(u.Owner, u.Request), partsBy(u.Owner, u.Request, u.From)
		}
		add(to, 1)
		add(by, 1)
		add(senderBytesAt(u.Owner, u.Request), u.reserved())
		add(senderReservedKey, u.reserved()-u.Offset)
	}
	return t
}()

// UploadTable keeps unfinished uploads and recently finished ones.
var UploadTable = kv.Table{
	Buckets: []table.Bucket{uploadBucket, jobs.UploadSlug, uploadSecret},
	Check: kv.CheckRows(UploadRows, func(a *kv.Audit, u *Upload) {
		a.Refers(people.UserBucket, u.Owner[:], "upload", u.ID)
		if u.BySender() {
			a.Refers(kv.RequestBucket, requestKey(u.Owner, u.Request), "upload", u.ID)
		}
	}),
	Refill: kv.RefillRows(UploadRows, kv.Mending[Upload]{
		Mend: func(r *kv.Refill, u *Upload) error { return people.StandIn(r, u.Owner) },
		Then: func(r *kv.Refill, u *Upload) error {
			if !u.BySender() || r.Get(kv.RequestBucket, requestKey(u.Owner, u.Request)) != nil {
				return nil
			}
			r.Lost(fmt.Errorf("upload %s: its upload request is not there", u.ID))
			_, err := UploadRows.Delete(r.Tx.Tx, UploadRows.Key(u))
			return err
		},
	}),
	Drop: kv.DropRows(UploadRows),
	Bytes: func(tx *kv.Tx, owner record.ID) (_, reserved int64) {
		return 0, UploadRows.Sum(tx.Tx, reservedKeyOf(owner))
	},
	Promised: func(tx *kv.Tx, owner record.ID) (n int64) {
		if UploadRows.Sum(tx.Tx, reservedKeyOf(owner)) == 0 {
			return 0
		}
		for key := range tx.Walk(kv.RequestBucket, owner[:], nil, false) {
			n += UploadRows.Sum(tx.Tx, senderBytesAt(owner, record.ID(key[len(key)-len(owner):])))
		}
		return n
	},
	Text: func(tx *kv.Tx, add func(record.ID, int64)) {
		for u, err := range UploadRows.All(tx.Tx, nil) {
			if err == nil { // Audit reports rows that cannot be read
				add(u.Owner, int64(u.text()))
			}
		}
	},
}

// AddUpload starts an upload and reserves its space in the owner's quota and its slug.
// It fails with Taken if the slug is in use, with Denied if it does not fit the quota
// or too many are unfinished, and with ErrFull while the disk is full.
func AddUpload(tx *kv.Tx, u Upload) (*Upload, error) {
	if tx.DiskFull() {
		return nil, kv.ErrFull
	}
	if err := people.RequireOwner(tx, u.Owner); err != nil {
		return nil, err
	}
	if UploadRows.Sum(tx.Tx, openUploadsKey(u.Owner)) >= maxUploads {
		return nil, &record.Error{
			Fault: record.Denied, Code: "too_many_uploads",
			Text: "Too many uploads were started and not finished. Finish or cancel some; " +
				"those that are not continued end after 24 hours.",
		}
	}
	if u.Slug != "" && (tx.Get(kv.RecordSlug, []byte(u.Slug)) != nil || catalog.ZipTaken(tx, record.Files, u.Slug)) {
		return nil, kv.UserError(&table.Taken{Index: "slug"}, "item")
	}
	if err := people.Charge(tx, u.Owner, max(u.Length, 0)+int64(u.text())); err != nil {
		return nil, err
	}
	u.ID, u.Created, u.Expires = tx.NewID(), tx.Now, tx.Now.Add(UploadTime)
	return &u, kv.UserError(UploadRows.Put(tx.Tx, &u), "upload")
}

// FindUpload reads one of the owner's uploads: Missing if there is none, Gone if it
// has expired. It doesn't find strangers' uploads, nor parts of a former version.
func FindUpload(tx *kv.Tx, owner, id record.ID) (*Upload, error) {
	u, err := UploadRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	if err != nil {
		return nil, kv.UserError(err, "upload")
	}
	if u.BySender() || u.Partial {
		return nil, record.NotFound("upload")
	}
	return u, checkNotExpired(tx, u)
}

// CodeExpired is the error code for an upload that has expired.
const CodeExpired = "upload_expired"

// checkNotExpired fails with Gone if the upload has expired.
func checkNotExpired(tx *kv.Tx, u *Upload) error {
	if tx.Now.Before(u.Expires) {
		return nil
	}
	text := "This upload was not continued in time; start it again."
	return &record.Error{Fault: record.Gone, Code: CodeExpired, Text: text}
}

// Uploads lists the owner's unfinished uploads, oldest first. It leaves out
// strangers' uploads.
func Uploads(tx *kv.Tx, owner record.ID) ([]Upload, error) {
	var all []Upload
	for u, err := range UploadRows.All(tx.Tx, owner[:]) {
		if err != nil {
			return nil, err
		}
		if !u.Done() && !u.Partial && !u.BySender() && tx.Now.Before(u.Expires) {
			all = append(all, *u)
		}
	}
	return all, nil
}

// SaveUpload records the progress of an unfinished upload and restarts its time. It
// fails with Missing if the upload is gone and with Denied if its size has grown over
// the owner's quota. A stranger's upload also fails with Missing or Gone once the link
// is closed.
func SaveUpload(tx *kv.Tx, u *Upload) error {
	before, err := UploadRows.Get(tx.Tx, kv.OwnedKey(u.Owner, u.ID[:]...))
	if err != nil {
		return kv.UserError(err, "upload")
	}
	if before.Done() || before.Partial {
		return record.NotFound("upload")
	}
	if before.BySender() {
		if _, _, err := requireOpenRequest(tx, before.Owner, before.Request); err != nil {
			return err
		}
	}
	if more := u.reserved() - before.reserved(); more > 0 {
		if err := people.Charge(tx, u.Owner, more); err != nil {
			return err
		}
	}
	prolong(tx, u)
	u.Move(u.Offset, tx.Now)
	return UploadRows.Put(tx.Tx, u)
}

// Move notes that a sender's upload has reached size, if it moved enough to keep its place.
// It reports whether it did. size may be ahead of Offset. SaveUpload stores the note.
func (u *Upload) Move(size int64, now time.Time) bool {
	if !u.BySender() || size-u.MovedTo < min(movesBytes, max(1, u.Length/movesPart)) {
		return false
	}
	u.Moved, u.MovedTo = now, size
	return true
}

// stalled reports whether a sender's unfinished upload has lost its place: a hundredth of
// it, or 1 MiB, did not arrive in the last ten minutes. It can be continued until somebody
// else needs the place. One that is complete waits for no bytes and keeps its place.
func (u *Upload) stalled(now time.Time) bool {
	since := u.Moved
	if since.IsZero() {
		since = u.Created
	}
	return u.BySender() && !u.Done() && u.Into == uuid.Nil && u.Offset != u.Length && now.Sub(since) >= emptyTime
}

// prolong restarts an upload's time, within uploadMost.
func prolong(tx *kv.Tx, u *Upload) {
	u.Expires = tx.Now.Add(UploadTime)
	if last := u.Created.Add(uploadMost); u.Expires.After(last) {
		u.Expires = last
	}
}

// FinishUpload creates the file of an upload whose content is complete, from the form
// that was checked when it began: see catalog.Draft.Begun. The upload is remembered
// for a while, so that a client that missed the answer can ask again.
func FinishUpload(tx *kv.Tx, u *Upload, f *record.Form, content *record.Content) error {
	if tx.DiskFull() {
		return kv.ErrFull
	}
	before, err := UploadRows.Delete(tx.Tx, kv.OwnedKey(u.Owner, u.ID[:]...)) // frees the reservation
	if err != nil {
		return kv.UserError(err, "upload")
	}
	if before.Done() {
		return record.NotFound("upload")
	}
	r, err := catalog.Add(tx, catalog.Draft{
		Owner: u.Owner, Kind: record.Files, Form: f, Content: content, Password: before.Password, Begun: true,
	})
	if err != nil {
		return err
	}
	u.File, u.FileName, u.Expires = r.ID, f.Body.Title(), tx.Now.Add(UploadTime)
	u.Metadata, u.Password, u.State, u.Slug = "", "", nil, ""
	return UploadRows.Put(tx.Tx, u)
}

// RemoveUpload deletes the row of an upload. The caller must remove its bytes.
func RemoveUpload(tx *kv.Tx, owner, id record.ID) error {
	_, err := UploadRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return kv.UserError(err, "upload")
}

// DropUploads deletes expired uploads, and strangers' unfinished uploads whose link is
// closed.
func DropUploads(tx *kv.Tx) error {
	_, err := dropUploads(tx, nil, func(u *Upload) (bool, error) { return expiredUpload(tx, u) })
	return err
}

// expiredUpload reports whether the upload can no longer be continued.
func expiredUpload(tx *kv.Tx, u *Upload) (bool, error) {
	if !tx.Now.Before(u.Expires) {
		return true, nil
	}
	if !u.BySender() || u.Done() {
		return false, nil
	}
	_, _, err := requireOpenRequest(tx, u.Owner, u.Request)
	if _, ok := errors.AsType[*record.Error](err); ok {
		return true, nil
	}
	return false, err
}

// dropUploads deletes the uploads with a prefix that which selects. The sweep removes
// their bytes.
func dropUploads(tx *kv.Tx, prefix []byte, which func(*Upload) (bool, error)) (n int, err error) {
	var over [][]byte
	for u, err := range UploadRows.All(tx.Tx, prefix) {
		if err != nil {
			return 0, err
		}
		got, err := which(u)
		if err != nil {
			return 0, err
		}
		if got {
			over = append(over, UploadRows.Key(u))
		}
	}
	for _, key := range over {
		if _, err := UploadRows.Delete(tx.Tx, key); err != nil {
			return 0, err
		}
	}
	return len(over), nil
}

// OpenUploads returns the ids of all uploads that have bytes: the unfinished ones.
func OpenUploads(tx *kv.Tx) (map[string]bool, error) {
	all := map[string]bool{}
	for u, err := range UploadRows.All(tx.Tx, nil) {
		if err != nil {
			return nil, err
		}
		if !u.Done() {
			all[u.ID.String()] = true
		}
	}
	return all, nil
}

// ReservedBytes is how many bytes all owners' unfinished uploads, including remote
// ones, still expect. Their space on the disk is promised.
func ReservedBytes(tx *kv.Tx) int64 {
	return UploadRows.Sum(tx.Tx, reservedKey) + jobs.FetchRows.Sum(tx.Tx, jobs.StillToFetch)
}

// BeginSenderUpload starts an upload to an upload request by the sender with the
// address from. u has its length, its metadata and the sender's name and message. The
// secret, which the upload's address ends in, is returned only here. From now on,
// across restarts, the file counts against the limits of the request and the sender
// and against the owner's quota, until the upload is received, deleted or expired.
// It waits and fails as Reserve does. It also fails with Denied if too many uploads
// are unfinished, and with ErrFull if strangers would be promised more than half of
// the disk space left for them and for owners.
//
// secret is "" or that of an upload that a repetition of the request must find: see
// SenderKey. If that upload has begun, the error is ErrBegun.
func BeginSenderUpload(
	s *kv.Store, ctx context.Context, q *Request, u Upload, from, secret string,
) (made *Upload, at string, err error) {
	disk := s.FreeForContent()
	err = retryWhenFreed(s, ctx, func(tx *kv.Tx) (err error) {
		if secret == "" {
			made, at, err = AddSenderUpload(tx, q, u, from, disk)
			return err
		}
		there, err := senderUpload(tx, secret)
		switch {
		case kv.Missing(err):
		case err != nil:
			return err
		case checkNotExpired(tx, there) == nil:
			return ErrBegun
		default:
			if err := RemoveUpload(tx, there.Owner, there.ID); err != nil {
				return err
			}
		}
		at = secret
		made, err = addSentAt(tx, secret, q, u, from, disk)
		return err
	})
	return made, at, err
}

// ErrBegun says that the upload which repetitions of a request must find has begun already.
var ErrBegun = errors.New("the upload has begun")

// SenderKey returns the same text whenever the same sender says the same to a request. It
// cannot be guessed.
func SenderKey(s *kv.Store, q *Request, from, said string) (string, error) {
	secret, err := s.Secret()
	h := hmac.New(sha256.New, secret[:])
	h.Write(fmt.Appendf(nil, "kist repeated %s %q %q", q.ID, from, said))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)), err
}

// AddSenderUpload starts an upload through a link and returns it with the secret
// needed to continue it. from is the sender's address, disk how many bytes fit on the
// disk.
func AddSenderUpload(tx *kv.Tx, q *Request, u Upload, from string, disk int64) (*Upload, string, error) {
	secret := strings.TrimPrefix(people.NewSecret(), people.KeyPrefix)
	made, err := addSentAt(tx, secret, q, u, from, disk)
	return made, secret, err
}

func addSentAt(tx *kv.Tx, secret string, q *Request, u Upload, from string, disk int64) (*Upload, error) {
	r := &Reservation{owner: q.Owner, request: q.ID, from: from}
	charged := func(tx *kv.Tx, owner record.ID) int64 { return people.ChargedBytes(tx, owner) + int64(u.text()) }
	q, room, err := checkReservation(tx, r, charged, 1, u.Length, u.Length)
	if err != nil {
		return nil, err
	}
	if err := mayBegin(tx, q, r.sender, u.Length); err != nil {
		return nil, err
	}

	strangers := UploadRows.Sum(tx.Tx, senderReservedKey)
	switch {
	case room < u.Length:
		return nil, ErrNoRoom
	case strangers+u.Length > (disk-ReservedBytes(tx)+strangers)/2:
		return nil, kv.ErrFull
	}
	u.ID, u.Owner, u.Request, u.From, u.Secret = tx.NewID(), q.Owner, q.ID, r.sender, sha256.Sum256([]byte(secret))
	u.Created, u.Expires = tx.Now, tx.Now.Add(emptyTime)
	return &u, UploadRows.Put(tx.Tx, &u)
}

// mayBegin checks how many uploads of the sender, and of all, are unfinished at the request, and whether the sender
// may announce so many bytes more.
func mayBegin(tx *kv.Tx, q *Request, by sender, announced int64) error {
	check := func() error { return checkBegun(tx, q, by, announced) }
	return makeRoom(tx, q, by, check)
}

func checkBegun(tx *kv.Tx, q *Request, by sender, announced int64) error {
	own := UploadRows.Sum(tx.Tx, senderUploadsFrom(q.Owner, q.ID, by))
	all := UploadRows.Sum(tx.Tx, senderUploadsAt(q.Owner, q.ID))
	switch {
	case own >= maxSentBy, all >= maxSentAt:
		return &record.Error{
			Fault: record.Denied, Code: "too_many_uploads",
			Text: "Too many uploads were started here and not finished. Finish or cancel some; " +
				"those that are not continued end after 24 hours.",
		}
	}
	return checkShare(tx, q, by, announced)
}

// errShare refuses a sender that holds its share of the places with files in progress.
var errShare = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: waitTime,
	Text: "Too many of your uploads to this link are not finished. Finish or cancel some first.",
}

// errShareOfBytes refuses a sender that would hold more than its share of the bytes that are left.
var errShareOfBytes = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: waitTime,
	Text: "Others are sending files to this link, and your unfinished uploads would take too much of its room. " +
		"Try again soon.",
}

// checkShare checks whether the sender may begin another file of so many bytes, besides its unfinished uploads
// and the files of its transfers in progress. It has a third of the places. While others send, it also announces
// at most a third of the bytes that the link takes, unless a third stays free for the others. Transfers take bytes as
// they arrive, so they announce none.
func checkShare(tx *kv.Tx, q *Request, by sender, announced int64) error {
	own, others := UploadRows.Sum(tx.Tx, senderUploadsFrom(q.Owner, q.ID, by)), false
	if p := promises.Of(tx.Store()).requests[q.ID]; p != nil {
		own += p.senders[by]
		for from := range p.senders {
			others = others || from != by
		}
	}
	if q.MaxUploads > 0 && own >= max(1, q.MaxUploads/sharePart) {
		return errShare
	}
	if announced == 0 {
		return nil
	}

	held := int64(0) // bytes of the sender's unfinished uploads
	for u, err := range UploadRows.All(tx.Tx, q.Owner[:]) {
		switch {
		case err != nil:
			return err
		case u.Request != q.ID, u.Done(), u.Into != uuid.Nil:
		case u.From == by:
			held += u.reserved()
		default:
			others = true
		}
	}
	if !others {
		return nil
	}
	room, free, err := roomAt(tx, q)
	if err != nil {
		return err
	}
	if share := room / sharePart; held+announced > share && free-announced < share {
		return errShareOfBytes
	}
	return nil
}

// roomAt is how many bytes a request takes in all, by its own limit and by what the owner's quota leaves for it, and
// how many of them have neither come nor been announced.
func roomAt(tx *kv.Tx, q *Request) (room, free int64, err error) {
	u, err := people.ReadUser(tx, q.Owner)
	if err != nil {
		return 0, 0, err
	}
	quota, err := people.Quota(tx, u)
	if err != nil {
		return 0, 0, err
	}
	taken := ItemRows.Sum(tx.Tx, receivedBytes(q.Owner, q.ID)) + UploadRows.Sum(tx.Tx, senderBytesAt(q.Owner, q.ID))
	room = math.MaxInt64
	if q.MaxTotal > 0 {
		room = q.MaxTotal
	}
	if quota > 0 {
		room = min(room, taken+quota-people.ChargedBytes(tx, q.Owner))
	}
	return room, room - taken, nil
}

// makeRoom runs check. If that refuses, it deletes the owner's uploads that have expired, and
// then, one by one until check admits, those that have stalled: first the sender's own, then
// others at the link, each oldest first. Uploads at other links follow only if space lacks. If
// all of this does not help, the caller's transaction fails and nothing is deleted.
func makeRoom(tx *kv.Tx, q *Request, by sender, check func() error) error {
	refused := check()
	if _, ok := errors.AsType[*record.Error](refused); !ok {
		return refused
	}
	n, err := dropUploads(tx, q.Owner[:], func(u *Upload) (bool, error) { return expiredUpload(tx, u) })
	if err != nil {
		return err
	}
	if n > 0 {
		refused = check()
	}

	var own, here, elsewhere []*Upload // the keys have the order of their ages
	for u, err := range UploadRows.All(tx.Tx, q.Owner[:]) {
		switch {
		case err != nil:
			return err
		case !u.stalled(tx.Now):
		case u.Request != q.ID:
			elsewhere = append(elsewhere, u)
		case u.From == by:
			own = append(own, u)
		default:
			here = append(here, u)
		}
	}
	for _, u := range slices.Concat(own, here, elsewhere) {
		space := refused == ErrNoRoom || refused == ErrWait //nolint:errorlint // exactly these values
		if refused == nil || u.Request != q.ID && !space {
			return refused
		}
		if err := RemoveUpload(tx, u.Owner, u.ID); err != nil {
			return err
		}
		refused = check()
	}
	return refused
}

// errNoSent is the answer whenever a sender's upload is not there.
var errNoSent = &record.Error{
	Fault: record.Missing, Code: "not_found",
	Text: "There is no such upload: it was cancelled or not continued in time, or the link no longer takes files.",
}

func senderUpload(tx *kv.Tx, secret string) (*Upload, error) {
	digest := sha256.Sum256([]byte(secret))
	u, err := UploadRows.Find(tx.Tx, uploadSecret, digest[:])
	if errors.Is(err, table.ErrMissing) {
		return nil, errNoSent
	}
	return u, err
}

// HasSenderUpload reports whether there is a sender's upload with the secret, in
// any state.
func HasSenderUpload(tx *kv.Tx, secret string) (bool, error) {
	_, err := senderUpload(tx, secret)
	if errors.Is(err, errNoSent) {
		return false, nil
	}
	return err == nil, err
}

// SenderUpload reads a sender's upload by the secret that its address ends in. It
// fails with Missing if there is none or a former version began it as a part, and with Gone if it has expired. If it is
// unfinished and its link is closed, it fails with either.
func SenderUpload(tx *kv.Tx, secret string) (*Upload, error) {
	u, err := senderUpload(tx, secret)
	if err != nil {
		return nil, err
	}
	if u.Partial {
		return nil, errNoSent
	}
	if err := checkNotExpired(tx, u); err != nil {
		return nil, err
	}
	if u.Done() {
		return u, nil
	}
	if _, _, err := requireOpenRequest(tx, u.Owner, u.Request); err != nil {
		return nil, err
	}
	return u, nil
}

// DropSenderUpload deletes a sender's unfinished upload, even if its link is closed.
// It returns the upload: the caller must remove its bytes.
func DropSenderUpload(tx *kv.Tx, secret string) (*Upload, error) {
	u, err := senderUpload(tx, secret)
	if err != nil {
		return nil, err
	}
	if u.Done() {
		return nil, errNoSent
	}
	return UploadRows.Delete(tx.Tx, UploadRows.Key(u))
}

// ReceiveUpload is Receive for a sender's upload whose content is complete. It replaces
// the upload's reservation with the actual counts. The upload is remembered for a
// while, with the file's name and the item's first state, but nothing else from the
// sender.
func ReceiveUpload(tx *kv.Tx, u *Upload, one Received) error {
	before, err := UploadRows.Delete(tx.Tx, UploadRows.Key(u)) // frees the reservation
	if errors.Is(err, table.ErrMissing) {
		return errNoSent
	}
	if err != nil {
		return err
	}
	if before.Done() {
		return errNoSent
	}

	from := &Reservation{owner: before.Owner, request: before.Request, sender: before.From}
	all, err := Receive(tx, from, &SenderForm{Name: before.Name, Message: before.Message}, []Received{one})
	if err != nil {
		return err
	}
	u.Item, u.Arrived, u.FileName, u.Expires = all[0].ID, all[0].State, all[0].Name, tx.Now.Add(UploadTime)
	u.Metadata, u.State, u.Name, u.Message, u.From = "", nil, "", "", sender{}
	return UploadRows.Put(tx.Tx, u)
}
