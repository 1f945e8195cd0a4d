// Package inbox keeps upload requests, the files that senders left through them, and
// unfinished uploads.
package inbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

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

func itemKey(owner, request record.ID, rest ...byte) []byte {
	return append(kv.OwnedKey(owner, request[:]...), rest...)
}

// ItemRows is the queue of files that came in through upload requests.
var ItemRows = func() *table.Table[Item] {
	key := func(i *Item) []byte { return itemKey(i.Owner, i.Request, i.ID[:]...) }
	t := kv.JsonTable(
		itemBucket, key,
		table.Index[Item]{Bucket: itemState, Keys: func(i *Item, file func([]byte)) {
			file(append(append(kv.OwnedKey(i.Owner, i.State[0]), i.ID[:]...), i.Request[:]...))
		}},
		table.Index[Item]{Bucket: itemBlob, Keys: func(i *Item, file func([]byte)) {
			if i.State == Pending {
				file(append(bytes.Clone(i.Ref[:]), key(i)...))
			}
		}},
	)
	t.Bytes = func(i *Item, length int) (table.Bucket, []byte, int) { return kv.TextSum(i.Owner, length) }
	t.Sums = kv.SumBucket
	t.Tally = func(i *Item, add func([]byte, int64)) {
		add(inState(i.Owner, i.State), 1)
		add(inRequest(i.Owner, i.Request, i.State), 1)
		add(receivedBytes(i.Owner, i.Request), i.Size)
		if i.State == Pending {
			add(pendingBytes(i.Owner), i.Size)
		}
	}
	return t
}()

// ItemTable keeps the files that senders left.
var ItemTable = kv.Table{
	Buckets: []table.Bucket{itemBucket, itemState, itemBlob},
	Check: kv.CheckRows(ItemRows, func(a *kv.Audit, i *Item) {
		a.Refers(kv.RequestBucket, requestKey(i.Owner, i.Request), "upload", i.ID)
	}),
	Refill: kv.RefillRows(ItemRows, kv.Mending[Item]{
		Mend: func(r *kv.Refill, i *Item) error { return standInRequest(r, i) },
	}),
	Contents: kv.IndexContents(itemBlob, ItemRows, func(i *Item) int64 { return i.Size }, func(i *Item) kv.Holder {
		return kv.Holder{ID: i.ID, Name: i.Name, Owner: i.Owner}
	}),
	Bytes: func(tx *kv.Tx, owner record.ID) (stored, _ int64) { return ItemRows.Sum(tx.Tx, pendingBytes(owner)), 0 },
	Text:  kv.RowText(itemBucket),
}

// standInRequest creates a closed upload request for an item whose request is lost.
func standInRequest(r *kv.Refill, i *Item) error {
	if r.Get(kv.RequestBucket, requestKey(i.Owner, i.Request)) == nil {
		q := NewRequest()
		q.ID, q.Owner, q.Slug, q.Title, q.Active = i.Request, i.Owner, catalog.NewSlug(r.Tx), "Recovered", false
		q.Created, q.Updated = i.Created, i.Created
		r.Lost(fmt.Errorf("upload request %s is lost; a closed one takes its place for the files sent to it", q.ID))
		if err := errors.Join(people.StandIn(r, q.Owner), RequestRows.Put(r.Tx.Tx, &q)); err != nil {
			return err
		}
	}
	return people.StandIn(r, i.Owner)
}

// SenderTable keeps when a sender's files came in, by upload request.
var SenderTable = kv.Table{
	Buckets: []table.Bucket{senderBucket},
	Check: func(a *kv.Audit) {
		for k := range a.Walk(senderBucket, nil, nil, false) {
			a.Refers(kv.RequestBucket, requestKey(record.ID(k[:16]), record.ID(k[16:32])), "sender of", record.ID(k[16:32]))
		}
	},
	Refill: func(r *kv.Refill) error {
		return r.Copy(senderBucket, func(k []byte) bool {
			return len(k) >= 32 && r.Get(kv.RequestBucket, requestKey(record.ID(k[:16]), record.ID(k[16:32]))) != nil
		})
	},
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

// Request reads one of the owner's upload requests.
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
	return &q, putRequest(tx, &q, true)
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
	return putRequest(tx, q, q.Active) // a link can be closed whatever the quota
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
	for done := false; err == nil && !done; {
		err = s.Update(func(tx *kv.Tx) error {
			q, err := ReadRequest(tx, owner, id)
			if err == nil {
				done, err = dropRequest(tx, q)
			}
			return err
		})
	}
	return err
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
		err = errors.Join(err, tx.Delete(senderBucket, k))
	}
	err = errors.Join(err, dropSenderUploads(tx, q, func(*Upload) bool { return true }))
	_, failed := RequestRows.Delete(tx.Tx, requestKey(q.Owner, q.ID))
	return true, errors.Join(err, kv.UserError(failed, "upload request"), tx.Delete(catalog.ViewBucket, bytes.Clone(q.ID[:])))
}

// dropRequests deletes requests of an account, with up to kv.RemoveBatch items of each,
// and says whether none is left.
func dropRequests(tx *kv.Tx, owner record.ID) (done bool, err error) {
	all, err := Requests(tx, owner)
	for i := range all {
		if done, err := dropRequest(tx, &all[i]); err != nil || !done || len(all) > kv.RemoveBatch && i == kv.RemoveBatch {
			return false, err
		}
	}
	return err == nil, err
}

// RequestSeen counts a view of the link by someone other than the owner. The count is
// written within a second.
func RequestSeen(s *kv.Store, q *Request) {
	catalog.CountLater(s, [record.KeySize]byte(requestKey(q.Owner, q.ID)), 1)
}

// reservations is the space promised to running transfers. Only the committer uses
// it: one goroutine reads and changes the promises and the stored counts, one job
// after another, and turns a promise into a row within one job. So no two transfers
// are promised the same space, and each is counted exactly once. A restart forgets
// all promises; nothing of those transfers was stored.
type reservations struct {
	requests map[record.ID]*reserved
	owners   map[record.ID]int64 // bytes
	given    chan struct{}       // closed when space is given back; nil if nobody waits
}

var promises kv.Slot[reservations]

type reserved struct {
	files, bytes int64
	senders      map[sender]int64 // files
}

// sender is the stored form of a sender's address: hashed with the store's secret,
// differently for each request.
type sender [16]byte

// A Reservation is the space reserved for a transfer: files and bytes that already
// count against the limits of the request, the sender and the owner. It must be
// released, however the transfer ends.
type Reservation struct {
	s              *kv.Store
	owner, request record.ID
	from           string // "" if sender is already set
	sender         sender
	files, bytes   int64 // used by the committer only
}

// waitTime is how long a transfer waits for others to finish.
const waitTime = 10 * time.Second

// Reserve reserves space for a file from the sender with the given address. The whole
// transfer will have at least minimum bytes. The reservation is for limit bytes, or
// for as many as are left: Bytes returns the number, and More adds to it. If the space it needs is promised
// to others, Reserve waits for them for up to waitTime and then fails with Busy. It
// fails with Missing or Gone if the request is not open, with Denied when a limit of
// the request or the owner's quota is reached, with TooMany when the sender's limit
// is, and with ErrFull while the disk is full.
func Reserve(s *kv.Store, ctx context.Context, q *Request, from string, minimum, limit int64) (*Reservation, error) {
	r := &Reservation{s: s, owner: q.Owner, request: q.ID, from: from}
	err := retryWhenFreed(s, ctx, func(tx *kv.Tx) error {
		q, size, err := checkReservation(tx, r, people.ChargedBytes, 1, minimum, limit)
		if err != nil {
			return err
		}
		check := func() error { return checkShare(tx, q, r.sender, 0) }
		if err := makeRoom(tx, q, r.sender, check(), check); err != nil {
			return err
		}
		promises.Of(tx.Store()).add(r, q, 1, size)
		return nil
	})
	if err != nil && r.files > 0 { // promised, but another job made the commit fail
		return nil, errors.Join(err, r.Release())
	}
	return r, err
}

// retryWhenFreed runs fn in a transaction. While fn fails with ErrWait, it runs fn
// again each time space is given back, for up to waitTime.
func retryWhenFreed(s *kv.Store, ctx context.Context, fn func(*kv.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		var given chan struct{}
		err := s.Update(func(tx *kv.Tx) error {
			err := fn(tx)
			if err == ErrWait { //nolint:errorlint // exactly this value
				in := promises.Of(tx.Store())
				if in.given == nil {
					in.given = make(chan struct{})
				}
				given = in.given
			}
			return err
		})
		if err != ErrWait { //nolint:errorlint // exactly this value
			return err
		}
		select {
		case <-given:
		case <-ctx.Done():
			return err
		}
	}
}

// Bytes is how many bytes the transfer may have.
func (r *Reservation) Bytes() int64 { return r.bytes }

// Another reserves space for another file of the same transfer. It fails as Reserve
// does, but not because the owner's text has grown since. Earlier reservations stay.
func (r *Reservation) Another() error {
	return r.s.Update(func(tx *kv.Tx) error {
		q, _, err := checkReservation(tx, r, people.ContentBytes, 1, 0, 0)
		if err == nil {
			promises.Of(tx.Store()).add(r, q, 1, 0)
		}
		return err
	})
}

// More reserves space for up to limit more bytes of the same transfer. It waits and fails
// as Reserve does.
func (r *Reservation) More(ctx context.Context, limit int64) error {
	return retryWhenFreed(r.s, ctx, func(tx *kv.Tx) error {
		q, size, err := checkReservation(tx, r, people.ChargedBytes, 0, 1, limit)
		if err == nil {
			promises.Of(tx.Store()).add(r, q, 0, size)
		}
		return err
	})
}

// Release gives the space back. It does nothing when called again or once the files
// have been received.
func (r *Reservation) Release() error {
	err := r.s.Update(func(tx *kv.Tx) error { promises.Of(tx.Store()).drop(r); return nil })
	if errors.Is(err, kv.ErrClosed) {
		return nil // all reservations are forgotten
	}
	return err
}

func (in *reservations) add(r *Reservation, q *Request, files, bytes int64) {
	if in.requests == nil {
		in.requests, in.owners = map[record.ID]*reserved{}, map[record.ID]int64{}
	}
	p := in.requests[q.ID]
	if p == nil {
		p = &reserved{senders: map[sender]int64{}}
		in.requests[q.ID] = p
	}
	p.files += files
	p.bytes += bytes
	p.senders[r.sender] += files
	in.owners[q.Owner] += bytes
	r.files += files
	r.bytes += bytes
}

func (in *reservations) drop(r *Reservation) {
	p := in.requests[r.request]
	if p == nil || r.files == 0 && r.bytes == 0 {
		return
	}
	p.files -= r.files
	p.bytes -= r.bytes
	if p.senders[r.sender] -= r.files; p.senders[r.sender] == 0 {
		delete(p.senders, r.sender)
	}
	if in.owners[r.owner] -= r.bytes; in.owners[r.owner] == 0 {
		delete(in.owners, r.owner)
	}
	if len(p.senders) == 0 {
		delete(in.requests, r.request)
	}
	r.files, r.bytes = 0, 0
	if in.given != nil {
		close(in.given)
		in.given = nil
	}
}

// requireOpenRequest reads a request and its owner. It fails with Missing or Gone if
// the request takes no files now.
func requireOpenRequest(tx *kv.Tx, owner, request record.ID) (*Request, *people.User, error) {
	q, err := ReadRequest(tx, owner, request)
	if err == nil {
		err = q.Open(tx.Now)
	}
	if err != nil {
		if kv.Missing(err) {
			err = ErrNoRequest
		}
		return nil, nil, err
	}
	u, err := people.ReadUser(tx, owner)
	if kv.Missing(err) || err == nil && u.Disabled {
		err = ErrNoRequest
	}
	return q, u, err
}

// checkReservation reads the request of the reservation and checks whether it may take
// files more files. size is how many more bytes it may take, from minimum to maximum.
// charged returns which of the owner's bytes count against the quota: people.ChargedBytes
// for a new transfer, people.ContentBytes for one that already has its space. Before
// refusing, it frees the space reserved for uploads that are over or lost their places.
func checkReservation(tx *kv.Tx, r *Reservation, charged func(*kv.Tx, record.ID) int64, files, minimum, maximum int64) (q *Request, size int64, err error) {
	if tx.DiskFull() {
		return nil, 0, kv.ErrFull
	}
	q, u, err := requireOpenRequest(tx, r.owner, r.request)
	if err != nil {
		return nil, 0, err
	}
	if r.from != "" {
		if r.sender, err = senderOf(tx, q, r.from); err != nil {
			return nil, 0, err
		}
	}
	check := func() (err error) {
		size, err = checkLimits(tx, q, u, charged, r, files, minimum, maximum)
		return err
	}
	err = check()
	if err != nil && UploadRows.Sum(tx.Tx, reservedKeyOf(q.Owner)) > 0 {
		err = makeRoom(tx, q, r.sender, err, check)
	}
	return q, size, err
}

func checkLimits(tx *kv.Tx, q *Request, u *people.User, charged func(*kv.Tx, record.ID) int64, r *Reservation, files, minimum, limit int64) (size int64, err error) {
	from := r.sender
	begun := UploadRows.Sum(tx.Tx, senderUploadsAt(q.Owner, q.ID))
	taken := Intake{
		Files: countReceived(tx, q) + begun, Pending: ItemRows.Sum(tx.Tx, inRequest(q.Owner, q.ID, Pending)) + begun,
		Sender: UploadRows.Sum(tx.Tx, senderUploadsFrom(q.Owner, q.ID, from)),
	}
	var again time.Duration
	if q.PerSender > 0 {
		since, oldest := tx.Now.Add(-time.Duration(q.Window)*time.Hour).UnixMilli(), tx.Now
		for _, at := range tx.Walk(senderBucket, itemKey(q.Owner, q.ID, from[:]...), nil, false) {
			if ms := int64(binary.BigEndian.Uint64(at)); ms > since {
				if taken.Sender++; time.UnixMilli(ms).Before(oldest) {
					oldest = time.UnixMilli(ms)
				}
			}
		}
		again = oldest.Add(time.Duration(q.Window) * time.Hour).Sub(tx.Now)
	}
	promised := int64(0)
	if p := promises.Of(tx.Store()).requests[q.ID]; p != nil {
		promised = p.bytes - r.bytes
		taken.Files += p.files
		taken.Pending += p.files
		taken.Sender += p.senders[from]
	}
	if err := q.Admit(taken, Intake{Files: files, Pending: files, Sender: files}, again); err != nil {
		return 0, err
	}
	came := r.bytes + ItemRows.Sum(tx.Tx, receivedBytes(q.Owner, q.ID)) + UploadRows.Sum(tx.Tx, senderBytesAt(q.Owner, q.ID))
	if limit, err = Promise(q.MaxTotal, came, promised, minimum, limit); err != nil {
		return 0, err
	}
	quota, err := people.Quota(tx, u)
	if err == nil { // no error of its own: the owner's quota is not a stranger's business
		limit, err = Promise(quota, r.bytes+charged(tx, q.Owner), promises.Of(tx.Store()).owners[q.Owner]-r.bytes, minimum, limit)
	}
	return limit, err
}

func senderOf(tx *kv.Tx, q *Request, from string) (sender, error) {
	secret := tx.Get(workcopy.MetaBucket, kv.MetaSecret)
	if secret == nil {
		return sender{}, errors.New("the store has no secret")
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("kist sender "))
	h.Write(q.ID[:])
	h.Write([]byte(from))
	return sender(h.Sum(nil)[:len(sender{})]), nil
}

// A Queue says which items to list.
type Queue struct {
	Owner         record.ID
	Request       record.ID // zero: all requests; State must be set then
	State         State     // "": any
	Limit, Offset int
	After         record.ID // start after this item; zero: at the oldest
}

// ListQueue lists items, oldest first, and says how many there are in all. For one
// request in one state it walks the items of the request or the owner's items in that
// state, whichever are fewer.
func ListQueue(tx *kv.Tx, q Queue) (page []*Item, total int64, err error) {
	byState := q.Request == uuid.Nil
	if byState {
		total = ItemRows.Sum(tx.Tx, inState(q.Owner, q.State))
	} else {
		received := int64(0)
		for _, s := range States {
			n := ItemRows.Sum(tx.Tx, inRequest(q.Owner, q.Request, s))
			if received += n; q.State == "" || q.State == s {
				total += n
			}
		}
		byState = q.State != "" && ItemRows.Sum(tx.Tx, inState(q.Owner, q.State)) < received
	}
	wanted := int(min(int64(q.Limit), max(0, total-int64(q.Offset))))
	var after []byte
	if q.After != uuid.Nil {
		after = q.After[:]
	}
	read := func(key []byte) error {
		if q.Offset > 0 {
			q.Offset--
			return nil
		}
		i, err := ItemRows.Get(tx.Tx, key)
		if err != nil {
			return fmt.Errorf("item %x: %w", key, err)
		}
		page = append(page, i)
		return nil
	}
	if byState {
		prefix := kv.OwnedKey(q.Owner, q.State[0])
		if after != nil { // past the request, which follows the id in this index
			after = append(bytes.Clone(after), uuid.Max[:]...)
		}
		for k := range tx.Walk(itemState, prefix, after, false) {
			if len(page) == wanted {
				break
			}
			id, request := k[len(prefix):len(prefix)+16], record.ID(k[len(prefix)+16:])
			if q.Request != uuid.Nil && request != q.Request {
				continue
			}
			if err := read(itemKey(q.Owner, request, id...)); err != nil {
				return nil, 0, err
			}
		}
		return page, total, nil
	}
	for k, row := range tx.Walk(itemBucket, itemKey(q.Owner, q.Request), after, false) {
		if len(page) == wanted {
			break
		}
		if q.State != "" {
			i, err := ItemRows.Decode(k, row)
			if err != nil {
				return nil, 0, err
			}
			if i.State != q.State {
				continue
			}
		}
		if err := read(k); err != nil {
			return nil, 0, err
		}
	}
	return page, total, nil
}

// PendingCount is how many items wait for the owner's decision.
func PendingCount(tx *kv.Tx, owner record.ID) int64 {
	return ItemRows.Sum(tx.Tx, inState(owner, Pending))
}

// DropSenders deletes rows of SenderTable that are older than the window of their
// request, or whose request no longer limits senders.
func DropSenders(tx *kv.Tx) error {
	windows := map[record.ID]int64{} // in milliseconds, by request
	var over [][]byte
	for k, at := range tx.Walk(senderBucket, nil, nil, false) {
		owner, id := record.ID(k[:16]), record.ID(k[16:32])
		window, known := windows[id]
		if !known {
			q, err := ReadRequest(tx, owner, id)
			if err != nil && !kv.Missing(err) {
				return err
			}
			if err == nil && q.PerSender > 0 {
				window = q.Window * time.Hour.Milliseconds()
			}
			windows[id] = window
		}
		if int64(binary.BigEndian.Uint64(at)) <= tx.Now.UnixMilli()-window {
			over = append(over, bytes.Clone(k))
		}
	}
	for _, k := range over {
		if err := tx.Delete(senderBucket, k); err != nil {
			return err
		}
	}
	return nil
}
