package inbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

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
		if err := makeRoom(tx, q, r.sender, check); err != nil {
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
		if err != nil {
			return err
		}
		promises.Of(tx.Store()).add(r, q, 1, 0)
		return nil
	})
}

// More reserves space for up to limit more bytes of the same transfer. It waits and fails
// as Reserve does.
func (r *Reservation) More(ctx context.Context, limit int64) error {
	return retryWhenFreed(r.s, ctx, func(tx *kv.Tx) error {
		q, size, err := checkReservation(tx, r, people.ChargedBytes, 0, 1, limit)
		if err != nil {
			return err
		}
		promises.Of(tx.Store()).add(r, q, 0, size)
		return nil
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
	p.senders[r.sender] -= r.files
	if p.senders[r.sender] == 0 {
		delete(p.senders, r.sender)
	}
	in.owners[r.owner] -= r.bytes
	if in.owners[r.owner] == 0 {
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
	q, u, err := openRequest(tx, owner, request)
	if kv.Missing(err) {
		return nil, nil, ErrNoRequest
	}
	return q, u, err
}

func openRequest(tx *kv.Tx, owner, request record.ID) (*Request, *people.User, error) {
	q, err := ReadRequest(tx, owner, request)
	if err != nil {
		return nil, nil, err
	}
	if err := q.Open(tx.Now); err != nil {
		return nil, nil, err
	}
	u, err := people.ReadUser(tx, owner)
	if err != nil {
		return nil, nil, err
	}
	if u.Disabled {
		return nil, nil, ErrNoRequest
	}
	return q, u, nil
}

// checkReservation reads the request of the reservation and checks whether it may take
// files more files. size is how many more bytes it may take, from minimum to maximum.
// charged returns which of the owner's bytes count against the quota: people.ChargedBytes
// for a new transfer, people.ContentBytes for one that already has its space. Before
// refusing, it frees the space reserved for uploads that are over or lost their places.
func checkReservation(
	tx *kv.Tx, r *Reservation, charged func(*kv.Tx, record.ID) int64, files, minimum, maximum int64,
) (q *Request, size int64, err error) {
	if tx.DiskFull() {
		return nil, 0, kv.ErrFull
	}
	q, u, err := requireOpenRequest(tx, r.owner, r.request)
	if err != nil {
		return nil, 0, err
	}
	if r.from != "" {
		r.sender, err = senderOf(tx, q, r.from)
		if err != nil {
			return nil, 0, err
		}
	}

	check := func() (err error) {
		size, err = checkLimits(tx, q, u, charged, r, files, minimum, maximum)
		return err
	}
	if UploadRows.Sum(tx.Tx, reservedKeyOf(q.Owner)) > 0 {
		err = makeRoom(tx, q, r.sender, check)
	} else {
		err = check()
	}
	return q, size, err
}

func checkLimits(
	tx *kv.Tx, q *Request, u *people.User, charged func(*kv.Tx, record.ID) int64,
	r *Reservation, files, minimum, limit int64,
) (size int64, err error) {
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
				taken.Sender++
				if time.UnixMilli(ms).Before(oldest) {
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

	came := r.bytes + ItemRows.Sum(tx.Tx, receivedBytes(q.Owner, q.ID)) +
		UploadRows.Sum(tx.Tx, senderBytesAt(q.Owner, q.ID))
	limit, err = Promise(q.MaxTotal, came, promised, minimum, limit)
	if err != nil {
		return 0, err
	}
	quota, err := people.Quota(tx, u)
	if err != nil {
		return 0, err
	}
	// No error of its own: the owner's quota is not a stranger's business.
	others := promises.Of(tx.Store()).owners[q.Owner] - r.bytes
	return Promise(quota, r.bytes+charged(tx, q.Owner), others, minimum, limit)
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
			switch {
			case kv.Missing(err):
			case err != nil:
				return err
			case q.PerSender > 0:
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
