package jobs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// Bounds of remote uploads.
const (
	MaxFetches  = 100                // of an owner that are not over
	keptFetches = 100                // of an owner that are over
	fetchTime   = 7 * 24 * time.Hour // that one is remembered when it is over
)

// The parts of the line of remote uploads. The bytes are stored.
const (
	lineWaiting = 'w' // by when they are due
	lineRunning = 'r'
	lineOver    = 'o' // by when they ended
)

// FetchRows are the remote uploads.
var FetchRows = func() *table.Table[record.Fetch] {
	t := kv.JsonTable(fetchBucket, func(f *record.Fetch) []byte { return kv.OwnedKey(f.Owner, f.ID[:]...) },
		table.Index[record.Fetch]{Bucket: UploadSlug, Name: "slug", Unique: true, Keys: func(f *record.Fetch, file func([]byte)) {
			if f.Slug != "" && !f.Over() {
				file([]byte(f.Slug))
			}
		}},
		table.Index[record.Fetch]{Bucket: fetchLine, Keys: func(f *record.Fetch, file func([]byte)) {
			part, at := byte(lineOver), f.Ended
			switch f.State {
			case record.FetchWaits:
				part, at = lineWaiting, f.Due
			case record.FetchRuns:
				part, at = lineRunning, f.Created
			}
			file(append(binary.BigEndian.AppendUint64(fetchLineKey(part, f.Owner), kv.Signed(at)), f.ID[:]...))
		}})
	t.Sums = kv.SumBucket
	t.Tally = func(f *record.Fetch, add func([]byte, int64)) {
		add(fetchReservedKey(f.Owner), f.Reserved())
		add(StillToFetch, max(f.Reserved()-f.Bytes, 0))
	}
	return t
}()

// FetchTable keeps remote uploads.
var FetchTable = kv.Table{
	Buckets: []table.Bucket{fetchBucket, fetchLine}, Check: people.CheckOwned(FetchRows, "remote upload"), Refill: people.RefillOwned(FetchRows),
	Paid: []table.Bucket{fetchBucket},
	Drop: kv.DropRows(FetchRows),
	Bytes: func(tx *kv.Tx, owner record.ID) (_, reserved int64) {
		return 0, FetchRows.Sum(tx.Tx, fetchReservedKey(owner))
	},
	Redate: kv.RedateRows(FetchRows, func(r *kv.Redate, v *record.Fetch) bool {
		changed := r.Past(&v.Created, &v.Ended)
		return r.Due(&v.Due, record.MaxRetry) || changed
	}),
}

// fetchReservedKey is where the bytes are summed up that are reserved for remote
// uploads.
func fetchReservedKey(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'g') }

// StillToFetch is where the bytes that all of them wait for are summed up.
var StillToFetch = fetchReservedKey(record.ID{})

// fetchLineKey is what the entries of an owner in a part of the line begin with.
func fetchLineKey(part byte, owner record.ID) []byte {
	return append(append(make([]byte, 0, 1+16+8+16), part), owner[:]...)
}

// Where an entry of the line has what.
const (
	lineOwner = 1
	lineTime  = lineOwner + 16
	lineID    = lineTime + 8
)

// countFetches counts the owner's remote uploads in a part of the line.
func countFetches(tx *kv.Tx, part byte, owner record.ID) int {
	n := 0
	for range tx.Walk(fetchLine, fetchLineKey(part, owner), nil, false) {
		n++
	}
	return n
}

// AddFetch queues a remote upload and keeps its slug free. It fails with Taken
// if the slug is in use, with Denied if MaxFetches wait already, and with
// ErrFull while the disk has no room.
func AddFetch(tx *kv.Tx, f record.Fetch) (*record.Fetch, error) {
	if tx.DiskFull() {
		return nil, kv.ErrFull
	}
	if err := people.RequireOwner(tx, f.Owner); err != nil {
		return nil, err
	}
	f.ID, f.Created = tx.NewID(), tx.Now
	f.Again(tx.Store().MonotonicNow())
	return &f, enqueueFetch(tx, &f)
}

// enqueueFetch puts a remote upload in line.
func enqueueFetch(tx *kv.Tx, f *record.Fetch) error {
	if countFetches(tx, lineWaiting, f.Owner)+countFetches(tx, lineRunning, f.Owner) >= MaxFetches {
		return &record.Error{Fault: record.Denied, Code: "too_many_remote_uploads", Text: fmt.Sprintf("%d remote uploads wait already, and more are not possible. Wait until some are done, or cancel them.", MaxFetches)}
	}
	if f.Slug != "" && tx.Get(kv.RecordSlug, []byte(f.Slug)) != nil {
		return kv.UserError(&table.Taken{Index: "slug"}, "item")
	}
	return kv.UserError(FetchRows.Put(tx.Tx, f), "remote upload")
}

// Fetch reads one of the owner's remote uploads.
func Fetch(tx *kv.Tx, owner, id record.ID) (*record.Fetch, error) {
	f, err := FetchRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return f, kv.UserError(err, "remote upload")
}

// Fetches lists the owner's remote uploads, oldest first.
func Fetches(tx *kv.Tx, owner record.ID) ([]record.Fetch, error) {
	return kv.Collect(FetchRows, tx, owner[:])
}

// A DueFetch names a remote upload whose turn it may be.
type DueFetch struct{ Owner, ID record.ID }

// DueFetches finds remote uploads whose time has come, of each owner at most
// limit, those that are due for longest. busy says which to skip. wait is as in
// findDue.
func DueFetches(tx *kv.Tx, limit int, busy func(record.ID) bool) (found []DueFetch, wait time.Duration, err error) {
	return kv.FindDue(tx, fetchLine, []byte{lineWaiting}, 16, func(owner []byte) (int, error) {
		if shut, err := people.Disabled(tx, record.ID(owner)); err != nil || shut { // it waits until the account is open again
			return -1, err
		}
		return limit, nil
	}, func(owner, id []byte) (DueFetch, bool) {
		f := DueFetch{record.ID(owner), record.ID(id)}
		return f, busy(f.ID)
	})
}

// ErrNotRunning says of a try that nobody waits for it any more: it was
// cancelled.
var ErrNotRunning = &record.Error{Fault: record.Taken, Code: "not_running", Text: "This remote upload does not run any more."}

// ErrDisabled says of a try that its owner's account was shut meanwhile: it waits
// until that is open again.
var ErrDisabled = errors.New("the account is shut")

// BeginFetch begins a try. It fails with Taken if the remote upload does not
// wait any more.
func BeginFetch(tx *kv.Tx, owner, id record.ID) (*record.Fetch, error) {
	f, err := Fetch(tx, owner, id)
	if err != nil {
		return nil, err
	}
	if f.State != record.FetchWaits {
		return nil, ErrNotRunning
	}
	f.State, f.Due, f.Bytes, f.Total = record.FetchRuns, time.Time{}, 0, -1
	f.Tries++
	return f, FetchRows.Put(tx.Tx, f)
}

// runningFetch reads the row of a try that is under way.
func runningFetch(tx *kv.Tx, f *record.Fetch) (*record.Fetch, error) {
	before, err := Fetch(tx, f.Owner, f.ID)
	if err == nil && (before.State != record.FetchRuns || before.Tries != f.Tries) {
		err = ErrNotRunning
	}
	return before, err
}

// errAskerRevoked says of a remote upload that the API key that asked for it is gone.
var errAskerRevoked = &record.Error{
	Fault: record.Denied, Code: "key_revoked",
	Text: "The API key that asked for this was revoked or turned off. Try again to fetch it in your own name.",
}

// CheckAsker refuses a remote upload if the API key that asked for it was revoked
// or turned off.
func CheckAsker(tx *kv.Tx, f *record.Fetch) error {
	if f.By == uuid.Nil {
		return nil
	}
	err := people.CheckNotRevoked(tx, &record.Key{Owner: f.Owner, ID: f.By})
	var revoked *record.Error
	if errors.As(err, &revoked) {
		return errAskerRevoked
	}
	return err
}

// RunningOfEnabled is runningFetch for an owner whose account is open, ErrDisabled
// if it is not, and for an API key that was not revoked.
func RunningOfEnabled(tx *kv.Tx, f *record.Fetch) (*record.Fetch, error) {
	before, err := runningFetch(tx, f)
	if err != nil {
		return nil, err
	}
	shut, err := people.Disabled(tx, f.Owner)
	if shut {
		err = ErrDisabled
	}
	if err == nil {
		err = CheckAsker(tx, before)
	}
	return before, err
}

// NoteFetch notes how far the try is that is under way. It fails with Denied if
// what it takes has grown over the owner's quota, with Missing or Taken if
// nobody waits for it any more, with ErrDisabled while the owner's account is shut,
// and with Denied if the API key that asked for it was revoked.
func NoteFetch(tx *kv.Tx, f *record.Fetch) error {
	before, err := RunningOfEnabled(tx, f)
	if err != nil {
		return err
	}
	if more := f.Reserved() - before.Reserved(); more > 0 {
		if err := people.Charge(tx, f.Owner, more); err != nil {
			return err
		}
	}
	return FetchRows.Put(tx.Tx, f)
}

// FailFetch notes that a try failed, as record.Fetch.Failed does.
func FailFetch(tx *kv.Tx, f *record.Fetch, why string, passes bool, asked time.Duration) error {
	before, err := runningFetch(tx, f)
	if err != nil {
		return err
	}
	before.Failed(why, passes, asked, tx.Now, tx.Store().MonotonicNow())
	return EndFetch(tx, before)
}

// RequeueFetch puts a try back in line that was cut short by no fault of the
// other server; it counts for none.
func RequeueFetch(tx *kv.Tx, f *record.Fetch) error {
	before, err := runningFetch(tx, f)
	if err != nil {
		return err
	}
	before.State, before.Due = record.FetchWaits, tx.Store().MonotonicNow()
	before.Tries--
	return FetchRows.Put(tx.Tx, before)
}

// CancelFetch ends a remote upload that is not over; Taken if it is.
func CancelFetch(tx *kv.Tx, owner, id record.ID) error {
	f, err := Fetch(tx, owner, id)
	if err != nil {
		return err
	}
	if f.Over() {
		return &record.Error{Fault: record.Taken, Code: "remote_upload_over", Text: "This remote upload is over already."}
	}
	f.Cancel(tx.Now)
	return EndFetch(tx, f)
}

// RetryFetch queues a remote upload again that failed or was cancelled; Taken if
// it is another, or its slug is in use by now. From now on by is who asked for it.
func RetryFetch(tx *kv.Tx, owner, id, by record.ID) error {
	f, err := Fetch(tx, owner, id)
	if err != nil {
		return err
	}
	if f.State != record.FetchFailed && f.State != record.FetchCancelled {
		return &record.Error{Fault: record.Taken, Code: "remote_upload_not_failed", Text: "Only a remote upload that failed or was cancelled can be tried again."}
	}
	f.By = by
	f.Again(tx.Store().MonotonicNow())
	return enqueueFetch(tx, f)
}

// RemoveFetch forgets a remote upload, and cancels it if it is not over.
func RemoveFetch(tx *kv.Tx, owner, id record.ID) error {
	_, err := FetchRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return kv.UserError(err, "remote upload")
}

// EndFetch writes a remote upload that a try of is over, and forgets the oldest of the
// owner's that are over if they are too many.
func EndFetch(tx *kv.Tx, f *record.Fetch) error {
	if err := FetchRows.Put(tx.Tx, f); err != nil {
		return kv.UserError(err, "remote upload")
	}
	return dropFetches(tx, f.Owner, keptFetches)
}

// ClearFetches forgets those of the owner's remote uploads that are over.
func ClearFetches(tx *kv.Tx, owner record.ID) error { return dropFetches(tx, owner, 0) }

// dropFetches forgets the oldest of the owner's that are over, down to keep.
func dropFetches(tx *kv.Tx, owner record.ID, keep int) error {
	var over [][]byte
	for k := range tx.Walk(fetchLine, fetchLineKey(lineOver, owner), nil, false) {
		over = append(over, kv.OwnedKey(owner, k[lineID:]...))
	}
	return forgetFetches(tx, over[:max(0, len(over)-keep)])
}

// DropFetches forgets the remote uploads that were over a week ago.
func DropFetches(tx *kv.Tx) error {
	var over [][]byte
	last := kv.Signed(tx.Now.Add(-fetchTime))
	for k := range tx.Walk(fetchLine, []byte{lineOver}, nil, false) {
		if binary.BigEndian.Uint64(k[lineTime:]) <= last {
			over = append(over, kv.OwnedKey(record.ID(k[lineOwner:lineTime]), k[lineID:]...))
		}
	}
	return forgetFetches(tx, over)
}

func forgetFetches(tx *kv.Tx, all [][]byte) error {
	for _, key := range all {
		if _, err := FetchRows.Delete(tx.Tx, key); err != nil {
			return err
		}
	}
	return nil
}

// ResumeFetches puts back in line what ran when the process ended. It is for
// one that has just begun: nothing runs yet.
func ResumeFetches(tx *kv.Tx) error {
	var ran [][]byte
	for k := range tx.Walk(fetchLine, []byte{lineRunning}, nil, false) {
		ran = append(ran, kv.OwnedKey(record.ID(k[lineOwner:lineTime]), k[lineID:]...))
	}
	for _, key := range ran {
		f, err := FetchRows.Get(tx.Tx, key)
		if err == nil {
			f.Failed("The server was stopped meanwhile.", true, 0, tx.Now, tx.Store().MonotonicNow())
			if !f.Over() {
				f.Due = tx.Store().MonotonicNow()
			}
			err = EndFetch(tx, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
