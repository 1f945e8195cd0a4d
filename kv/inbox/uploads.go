package inbox

import (
	"context"
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

// Bounds of uploads that come in pieces.
const (
	UploadTime = 24 * time.Hour     // that an upload waits for its next bytes, and is remembered when it is complete
	uploadMost = 7 * 24 * time.Hour // from its beginning to its end, whatever comes
	maxUploads = 100                // that an owner may have begun

	emptyTime = 10 * time.Minute // that a sender's upload waits for its first bytes: it may have begun without its client's knowing
	maxSentBy = 50               // that one sender may have begun at a request, parts included
	maxSentAt = 500              // that all senders may have begun at a request, parts included
)

// An Upload is content that comes in pieces, over restarts, and of which a file
// is made at the end. Its bytes, as long as they are not all there, are a part
// of package blobs under its id.
type Upload struct {
	ID    record.ID `json:"ID"`
	Owner record.ID `json:"Owner"` // who pays: what it may take is counted against their quota from the beginning

	Created time.Time `json:"Created"`
	Expires time.Time `json:"Expires"` // when it is forgotten
	Length  int64     `json:"Length"`  // in bytes; -1 as long as it is not known
	Offset  int64     `json:"Offset"`  // bytes that are on stable storage
	State   []byte    `json:"State"`   // of their hash

	Metadata string    `json:"Metadata"`          // as the client sent it, without the password
	Password string    `json:"Password"`          // hash; "" means none
	Slug     string    `json:"Slug"`              // kept free for the file; "" has one made
	File     record.ID `json:"File"`              // that was made of it; zero until then
	FileName string    `json:"FileName,omitzero"` // under which it was complete; "" until then
	By       record.ID `json:"By,omitzero"`       // the credential that began it; zero of strangers and of older ones

	// Of an upload that is a part of another one (tus concatenation): Partial, and
	// Into is what it was joined into; zero until then. Parts are what an upload is
	// joined of, in order; nil if it is not.
	Partial bool        `json:"Partial,omitzero"`
	Into    record.ID   `json:"Into,omitzero"`
	Parts   []record.ID `json:"Parts,omitzero"`

	// Of what a stranger sends to an upload request; zero of the owner's own.
	Request record.ID    `json:"Request,omitzero"`
	From    sender       `json:"From,omitzero"`
	Secret  [32]byte     `json:"Secret,omitzero"` // SHA-256 of the secret that its address ends in
	Name    string       `json:"Name,omitzero"`   // of the sender
	Message string       `json:"Message,omitzero"`
	Item    record.ID    `json:"Item,omitzero"`    // that was made of it; zero until then
	Arrived record.State `json:"Arrived,omitzero"` // what that item was then
}

// Done reports whether a file, or an item of a queue, was made of it.
func (u *Upload) Done() bool { return u.File != uuid.Nil || u.Item != uuid.Nil }

// Joined reports whether it has become a part of another upload, which has its
// place in the quota.
func (u *Upload) Joined() bool { return u.Into != uuid.Nil }

// BySender reports whether it is a stranger's, at an upload request.
func (u *Upload) BySender() bool { return u.Request != uuid.Nil }

// reserved is how many bytes are reserved for it.
func (u *Upload) reserved() int64 {
	if u.Done() || u.Joined() {
		return 0
	}
	return max(u.Length, u.Offset)
}

// text is how many bytes were said of it. What is left of that when it is done is
// in the row of the file or of the item.
func (u *Upload) text() int {
	if u.Done() {
		return 0
	}
	return len(u.Metadata) + len(u.Name) + len(u.Message)
}

// Entries of the sums over uploads.
func reservedKeyOf(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'r') } // bytes that are reserved

func openUploadsKey(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'p') } // the owner's uploads that are not done

// Those of strangers that are not done: how many at a request, from a sender
// there, and the bytes that are reserved for them. Parts are counted apart, as a
// part is not a file that the request takes; their bytes are not.
func senderUploadsAt(owner, request record.ID) []byte {
	return kv.OwnedKey(owner, append([]byte{0, 't'}, request[:]...)...)
}

func senderUploadsFrom(owner, request record.ID, from sender) []byte {
	return append(append(kv.OwnedKey(owner, 0, 'v'), request[:]...), from[:]...)
}

func partsTo(owner, request record.ID) []byte {
	return kv.OwnedKey(owner, append([]byte{0, 'w'}, request[:]...)...)
}

func partsBy(owner, request record.ID, from sender) []byte {
	return append(append(kv.OwnedKey(owner, 0, 'x'), request[:]...), from[:]...)
}

func senderBytesAt(owner, request record.ID) []byte {
	return kv.OwnedKey(owner, append([]byte{0, 'u'}, request[:]...)...)
}

// reservedKey is where the bytes that all uploads wait for are summed up.
var reservedKey = reservedKeyOf(uuid.Nil)

// senderReservedKey is the part of that which strangers have announced.
var senderReservedKey = kv.OwnedKey(uuid.Nil, 0, 'u')

// UploadRows are the uploads that are not finished.
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
		if u.Done() || u.Joined() {
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

// UploadTable keeps uploads that are not finished.
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
	Paid: []table.Bucket{uploadBucket},
	Drop: kv.DropRows(UploadRows),
	Bytes: func(tx *kv.Tx, owner record.ID) (_, reserved int64) {
		return 0, UploadRows.Sum(tx.Tx, reservedKeyOf(owner))
	},
	Text: func(tx *kv.Tx, add func(record.ID, int64)) {
		for u, err := range UploadRows.All(tx.Tx, nil) {
			if err == nil { // Audit tells of rows that cannot be read
				add(u.Owner, int64(u.text()))
			}
		}
	},
	Redate: kv.RedateRows(UploadRows, func(r *kv.Redate, v *Upload) bool {
		changed := r.Past(&v.Created)
		return r.Limit(&v.Expires, UploadTime) || changed
	}),
}

// AddUpload begins an upload and reserves what it takes of the owner's quota,
// and its slug. It fails with Taken if the slug is in use, with Denied if it
// does not fit the quota or too many have been begun, and with ErrFull while the
// disk has no room. The text of what is joined of parts cannot make it fail: the
// parts were admitted when they began.
func AddUpload(tx *kv.Tx, u Upload) (*Upload, error) {
	if tx.DiskFull() {
		return nil, kv.ErrFull
	}
	if err := people.RequireOwner(tx, u.Owner); err != nil {
		return nil, err
	}
	if UploadRows.Sum(tx.Tx, openUploadsKey(u.Owner)) >= maxUploads {
		return nil, &record.Error{Fault: record.Denied, Code: "too_many_uploads", Text: "Too many uploads have been begun and not finished. Finish or cancel some; those that nobody goes on with end after 24 hours."}
	}
	if u.Slug != "" && tx.Get(kv.RecordSlug, []byte(u.Slug)) != nil {
		return nil, kv.UserError(&table.Taken{Index: "slug"}, "item")
	}
	var err error
	if u.Parts != nil {
		err = people.ChargeAwaited(tx, u.Owner, u.Length)
	} else {
		err = people.Charge(tx, u.Owner, max(u.Length, 0)+int64(u.text()))
	}
	if err != nil {
		return nil, err
	}
	u.ID, u.Created, u.Expires = tx.NewID(), tx.Now, tx.Now.Add(UploadTime)
	return &u, kv.UserError(UploadRows.Put(tx.Tx, &u), "upload")
}

// JoinUploads begins an upload, as AddUpload does, of the owner's complete parts
// that u.Parts names, in order; their place in the quota becomes its own. If they
// were joined before, and a file was made of that, it returns that upload. One
// that came to nothing is forgotten. It fails with Missing or Gone if a part is
// not there, and with Taken if one is not complete.
func JoinUploads(tx *kv.Tx, u Upload) (*Upload, error) {
	parts := make([]*Upload, len(u.Parts))
	for i, id := range u.Parts {
		var err error
		if parts[i], err = FindUpload(tx, u.Owner, id); err != nil {
			return nil, err
		}
	}
	return join(tx, &u, parts, func() (*Upload, error) { return AddUpload(tx, u) })
}

// join begins the upload that add adds, of parts.
func join(tx *kv.Tx, u *Upload, parts []*Upload, add func() (*Upload, error)) (*Upload, error) {
	u.Parts, u.Length = make([]record.ID, len(parts)), 0
	for i, part := range parts {
		if !part.Partial {
			return nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "Only partial uploads can be joined."}
		}
		if part.Offset != part.Length {
			return nil, &record.Error{Fault: record.Taken, Code: "upload_incomplete", Text: "A partial upload is not complete yet."}
		}
		if u.Length > math.MaxInt64-part.Length {
			return nil, &record.Error{Fault: record.TooLarge, Code: "too_large", Text: "The parts are too long together."}
		}
		u.Length += part.Length
		u.Parts[i] = part.ID
	}
	for _, part := range parts {
		if !part.Joined() {
			continue
		}
		before, err := UploadRows.Get(tx.Tx, kv.OwnedKey(u.Owner, part.Into[:]...))
		switch {
		case errors.Is(err, table.ErrMissing):
		case err != nil:
			return nil, err
		case before.Done() && slices.Equal(before.Parts, u.Parts):
			return before, nil
		case before.Done():
			return nil, &record.Error{Fault: record.Taken, Code: "upload_complete", Text: "A partial upload is a part of another file already."}
		default:
			if err := RemoveUpload(tx, u.Owner, before.ID); err != nil {
				return nil, err
			}
		}
	}
	set := func(into record.ID) error {
		for _, part := range parts {
			part.Into = into
			prolong(tx, part)
			if err := UploadRows.Put(tx.Tx, part); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set(tx.NewID()); err != nil { // some id, which frees their place
		return nil, err
	}
	made, err := add()
	if err != nil {
		return nil, err
	}
	return made, set(made.ID)
}

// PartsOfUpload reads the parts that an upload is joined of, in order.
func PartsOfUpload(tx *kv.Tx, u *Upload) ([]*Upload, error) {
	parts := make([]*Upload, len(u.Parts))
	for i, id := range u.Parts {
		part, err := UploadRows.Get(tx.Tx, kv.OwnedKey(u.Owner, id[:]...))
		if err != nil {
			return nil, kv.UserError(err, "upload")
		}
		if err := checkNotExpired(tx, part); err != nil {
			return nil, err
		}
		parts[i] = part
	}
	return parts, nil
}

// FindUpload reads one of the owner's uploads: Missing if there is none, Gone if it
// waited too long. What strangers send is none of them.
func FindUpload(tx *kv.Tx, owner, id record.ID) (*Upload, error) {
	u, err := UploadRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	if err == nil && u.BySender() {
		err = table.ErrMissing
	}
	if err != nil {
		return nil, kv.UserError(err, "upload")
	}
	return u, checkNotExpired(tx, u)
}

// checkNotExpired fails with Gone once the upload is over.
func checkNotExpired(tx *kv.Tx, u *Upload) error {
	if tx.Now.Before(u.Expires) {
		return nil
	}
	return &record.Error{Fault: record.Gone, Code: "upload_expired", Text: "This upload was not gone on with in time; begin it again."}
}

// Uploads lists the owner's uploads that are not done, oldest first. What
// strangers send is none of them.
func Uploads(tx *kv.Tx, owner record.ID) ([]Upload, error) {
	var all []Upload
	for u, err := range UploadRows.All(tx.Tx, owner[:]) {
		if err != nil {
			return nil, err
		}
		if !u.Done() && !u.Joined() && !u.BySender() && tx.Now.Before(u.Expires) {
			all = append(all, *u)
		}
	}
	return all, nil
}

// SaveUpload notes how far an upload is that is not done; its time starts again.
// It fails with Missing if there is no such upload any more and with Denied if
// what it takes has grown over the owner's quota; for a stranger's with Missing
// or Gone once the link is closed.
func SaveUpload(tx *kv.Tx, u *Upload) error {
	before, err := UploadRows.Get(tx.Tx, kv.OwnedKey(u.Owner, u.ID[:]...))
	if err != nil {
		return kv.UserError(err, "upload")
	}
	if before.Done() || before.Joined() {
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
	return UploadRows.Put(tx.Tx, u)
}

// prolong gives an upload its time again.
func prolong(tx *kv.Tx, u *Upload) {
	u.Expires = tx.Now.Add(UploadTime)
	if last := u.Created.Add(uploadMost); u.Expires.After(last) {
		u.Expires = last
	}
}

// FinishUpload makes the file of an upload whose content is complete, as Add
// does, out of the form that was good when it began: a folder and tags that are
// gone meanwhile are left out, and an end that has passed is kept. The upload
// is remembered for a while, so that a client that missed the answer finds out.
func FinishUpload(tx *kv.Tx, u *Upload, f *record.Form, content *record.Content) (*record.Record, error) {
	if tx.DiskFull() {
		return nil, kv.ErrFull
	}
	before, err := UploadRows.Delete(tx.Tx, kv.OwnedKey(u.Owner, u.ID[:]...)) // frees what was reserved
	if err != nil {
		return nil, kv.UserError(err, "upload")
	}
	if before.Done() {
		return nil, record.NotFound("upload")
	}
	r, err := catalog.AddFromUpload(tx, u.Owner, f, content, before.Password)
	if err != nil {
		return nil, err
	}
	u.File, u.FileName, u.Expires = r.ID, f.Body.Title(), tx.Now.Add(UploadTime)
	u.Metadata, u.Password, u.State, u.Slug = "", "", nil, ""
	return r, UploadRows.Put(tx.Tx, u)
}

// RemoveUpload forgets an upload. Its bytes are for the caller to remove. What it
// is joined of is as it was before.
func RemoveUpload(tx *kv.Tx, owner, id record.ID) error {
	before, err := UploadRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
	if err != nil {
		return kv.UserError(err, "upload")
	}
	return releaseParts(tx, before)
}

// releaseParts gives the parts of a join that was deleted their place in the quota
// back. Those that were deleted too are skipped.
func releaseParts(tx *kv.Tx, join *Upload) error {
	for _, id := range join.Parts {
		part, err := UploadRows.Get(tx.Tx, kv.OwnedKey(join.Owner, id[:]...))
		if errors.Is(err, table.ErrMissing) || err == nil && part.Into != join.ID {
			continue
		}
		if err == nil {
			part.Into = uuid.Nil
			err = UploadRows.Put(tx.Tx, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DropUploads forgets the uploads whose time is over, and those of strangers
// whose link is closed.
func DropUploads(tx *kv.Tx) error {
	_, err := dropUploads(tx, nil, func(u *Upload) (bool, error) { return expiredUpload(tx, u) })
	return err
}

// expiredUpload reports whether nobody can go on with the upload any more.
func expiredUpload(tx *kv.Tx, u *Upload) (bool, error) {
	if !tx.Now.Before(u.Expires) {
		return true, nil
	}
	if !u.BySender() || u.Done() {
		return false, nil
	}
	_, _, err := requireOpenRequest(tx, u.Owner, u.Request)
	var closed *record.Error
	if errors.As(err, &closed) {
		return true, nil
	}
	return false, err
}

// dropUploads forgets those uploads below a prefix that which says. Their bytes
// are left to the sweep. What they are joined of is as it was before.
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
	var joins []*Upload
	for _, key := range over {
		u, err := UploadRows.Delete(tx.Tx, key)
		if err != nil {
			return 0, err
		}
		if u.Parts != nil {
			joins = append(joins, u)
		}
	}
	for _, u := range joins { // now that the parts that end in this run are deleted
		if err := releaseParts(tx, u); err != nil {
			return 0, err
		}
	}
	return len(over), nil
}

// OpenUploads are the ids of all uploads that are not done: they have bytes.
// So have parts until a file was made of what they were joined into.
func OpenUploads(tx *kv.Tx) (map[string]bool, error) {
	all := map[string]bool{}
	for u, err := range UploadRows.All(tx.Tx, nil) {
		if err != nil {
			return nil, err
		}
		if u.Joined() {
			into, err := UploadRows.Get(tx.Tx, kv.OwnedKey(u.Owner, u.Into[:]...))
			if err != nil && !errors.Is(err, table.ErrMissing) {
				return nil, err
			}
			if err == nil && into.Done() {
				continue
			}
		}
		if !u.Done() {
			all[u.ID.String()] = true
		}
	}
	return all, nil
}

// ReservedBytes is how many bytes the uploads that have been begun wait for,
// remote ones too, of all owners; their place on the disk is promised.
func ReservedBytes(tx *kv.Tx) int64 {
	return UploadRows.Sum(tx.Tx, reservedKey) + jobs.FetchRows.Sum(tx.Tx, jobs.StillToFetch)
}

// BeginSenderUpload begins an upload that a sender, who is known by an address, makes at
// an upload request; u says its length, its metadata and what the sender says.
// It returns the secret that the upload's address ends in, this once. All that
// the file will take of the limits of the request and of the sender, and of the
// owner's quota, is reserved from here on, over restarts, until the upload is
// received, forgotten or over. It waits and fails as Reserve does, with Denied if
// too many have been begun, and with ErrFull if strangers were promised more than
// half of what the disk has left for them and for owners.
func BeginSenderUpload(s *kv.Store, ctx context.Context, q *record.Request, u Upload, from string) (made *Upload, secret string, err error) {
	disk := s.FreeForContent()
	err = retryWhenFreed(s, ctx, func(tx *kv.Tx) (err error) {
		made, secret, err = AddSenderUpload(tx, q, u, from, disk)
		return err
	})
	return made, secret, err
}

// AddSenderUpload begins an upload through a link and returns it with the secret that
// goes on with it. from is the sender, disk how many bytes the disk takes.
func AddSenderUpload(tx *kv.Tx, q *record.Request, u Upload, from string, disk int64) (*Upload, string, error) {
	secret := strings.TrimPrefix(people.NewSecret(), people.KeyPrefix)
	made, err := addSentAt(tx, secret, q, u, from, disk)
	return made, secret, err
}

func addSentAt(tx *kv.Tx, secret string, q *record.Request, u Upload, from string, disk int64) (*Upload, error) {
	r := &Reservation{owner: q.Owner, request: q.ID, from: from}
	kept := func(tx *kv.Tx, owner record.ID) int64 { return people.ChargedBytes(tx, owner) + int64(u.text()) }
	if u.Parts != nil { // see AddUpload
		kept = people.ContentBytes
	}
	q, room, err := checkReservation(tx, r, kept, 1, u.Length, u.Length)
	strangers := UploadRows.Sum(tx.Tx, senderReservedKey)
	switch {
	case err != nil:
		return nil, err
	case room < u.Length:
		return nil, record.ErrNoRoom
	case UploadRows.Sum(tx.Tx, senderUploadsFrom(q.Owner, q.ID, r.sender))+UploadRows.Sum(tx.Tx, partsBy(q.Owner, q.ID, r.sender)) >= maxSentBy,
		UploadRows.Sum(tx.Tx, senderUploadsAt(q.Owner, q.ID))+UploadRows.Sum(tx.Tx, partsTo(q.Owner, q.ID)) >= maxSentAt:
		return nil, &record.Error{Fault: record.Denied, Code: "too_many_uploads", Text: "Too many files have been begun here and not finished. Finish or cancel some; those that nobody goes on with end after 24 hours."}
	case strangers+u.Length > (disk-ReservedBytes(tx)+strangers)/2:
		return nil, kv.ErrFull
	}
	u.ID, u.Owner, u.Request, u.From, u.Secret = tx.NewID(), q.Owner, q.ID, r.sender, sha256.Sum256([]byte(secret))
	u.Created, u.Expires = tx.Now, tx.Now.Add(emptyTime)
	return &u, UploadRows.Put(tx.Tx, &u)
}

// JoinSent begins a sender's upload, as BeginSenderUpload does, of complete parts that the
// same sender has begun there; secrets are those of their addresses, in order. It
// is to JoinUploads what BeginSenderUpload is to AddUpload. The secret of the new address
// follows from those of the parts: who asks again gets the same.
func JoinSent(s *kv.Store, ctx context.Context, q *record.Request, u Upload, from string, secrets []string) (made *Upload, secret string, err error) {
	disk := s.FreeForContent()
	secret = joinedSecret(secrets)
	err = retryWhenFreed(s, ctx, func(tx *kv.Tx) error {
		by, err := senderOf(tx, q, from)
		if err != nil {
			return err
		}
		parts := make([]*Upload, len(secrets))
		for i, of := range secrets {
			part, err := SenderUpload(tx, of)
			if err == nil && (part.Request != q.ID || part.From != by) {
				err = errNoSent
			}
			if err != nil {
				return err
			}
			parts[i] = part
		}
		u.Owner = q.Owner
		made, err = join(tx, &u, parts, func() (*Upload, error) { return addSentAt(tx, secret, q, u, from, disk) })
		return err
	})
	return made, secret, err
}

// joinedSecret is the secret of what is joined of parts with these.
func joinedSecret(secrets []string) string {
	digest := sha256.Sum256([]byte("kist joined " + strings.Join(secrets, " ")))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// errNoSent is the one answer for a sender's upload that is not there.
var errNoSent = &record.Error{
	Fault: record.Missing, Code: "not_found",
	Text: "There is no such upload: it was cancelled or not gone on with in time, or the link takes no files any more.",
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

// SenderUpload reads a sender's upload by the secret that its address ends in:
// Missing if there is none, Gone if it waited too long, and either if it is not
// done and its link is closed.
func SenderUpload(tx *kv.Tx, secret string) (*Upload, error) {
	u, err := senderUpload(tx, secret)
	if err == nil {
		err = checkNotExpired(tx, u)
	}
	if err == nil && !u.Done() {
		_, _, err = requireOpenRequest(tx, u.Owner, u.Request)
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

// DropSenderUpload forgets a sender's upload that is not done, and the parts that it is
// joined of, whatever became of its link. It returns all of them: their bytes are
// for the caller to remove.
func DropSenderUpload(tx *kv.Tx, secret string) ([]*Upload, error) {
	u, err := senderUpload(tx, secret)
	if err == nil && u.Done() {
		err = errNoSent
	}
	if err != nil {
		return nil, err
	}
	all := []*Upload{u}
	for _, id := range u.Parts {
		part, err := UploadRows.Get(tx.Tx, kv.OwnedKey(u.Owner, id[:]...))
		if errors.Is(err, table.ErrMissing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	for _, one := range all {
		if _, err := UploadRows.Delete(tx.Tx, UploadRows.Key(one)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ReceiveUpload makes an item of the queue of a sender's upload whose content is
// complete, as Receive does, and a file at once if the request needs no approval.
// It turns what was reserved into what is counted. The upload is remembered for
// a while, with the file's name, what the item was when it came in, and nothing
// else that the sender said.
func ReceiveUpload(tx *kv.Tx, u *Upload, one Received) (*record.Item, error) {
	before, err := UploadRows.Delete(tx.Tx, UploadRows.Key(u)) // frees what was reserved
	if errors.Is(err, table.ErrMissing) || err == nil && before.Done() {
		return nil, errNoSent
	}
	if err != nil {
		return nil, err
	}
	all, err := Receive(tx, &Reservation{owner: before.Owner, request: before.Request, sender: before.From}, &record.SenderForm{Name: before.Name, Message: before.Message}, []Received{one})
	if err != nil {
		return nil, err
	}
	u.Item, u.Arrived, u.FileName, u.Expires = all[0].ID, all[0].State, all[0].Name, tx.Now.Add(UploadTime)
	u.Metadata, u.State, u.Name, u.Message, u.From = "", nil, "", "", sender{}
	return all[0], UploadRows.Put(tx.Tx, u)
}
