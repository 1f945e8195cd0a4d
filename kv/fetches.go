package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

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

var fetches = func() *table.Table[record.Fetch] {
	t := jsonTable(fetchBucket, func(f *record.Fetch) []byte { return ownedKey(f.Owner, f.ID[:]...) },
		table.Index[record.Fetch]{Bucket: uploadSlug, Name: "slug", Unique: true, Keys: func(f *record.Fetch, file func([]byte)) {
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
			file(append(binary.BigEndian.AppendUint64(fetchLineKey(part, f.Owner), signed(at)), f.ID[:]...))
		}})
	t.Sums = sumBucket
	t.Tally = func(f *record.Fetch, add func([]byte, int64)) {
		add(fetchReservedKey(f.Owner), f.Reserved())
		add(stillToFetch, max(f.Reserved()-f.Bytes, 0))
	}
	return t
}()

var fetchTable = Table{
	Buckets: []table.Bucket{fetchBucket, fetchLine}, Check: checkOwned(fetches, "remote upload"), Refill: refillOwned(fetches),
	Paid: []table.Bucket{fetchBucket},
	Drop: dropRows(fetches),
	Bytes: func(tx *Tx, owner record.ID) (_, reserved int64) {
		return 0, fetches.Sum(tx.Tx, fetchReservedKey(owner))
	},
	Redate: redateRows(fetches, func(r *Redate, v *record.Fetch) bool {
		changed := r.Past(&v.Created, &v.Ended)
		return r.Due(&v.Due, record.MaxRetry) || changed
	}),
}

// fetchReservedKey is where the bytes are summed up that are reserved for remote
// uploads.
func fetchReservedKey(owner record.ID) []byte { return ownedKey(owner, 0, 'g') }

// stillToFetch is where the bytes that all of them wait for are summed up.
var stillToFetch = fetchReservedKey(record.ID{})

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
func (tx *Tx) countFetches(part byte, owner record.ID) int {
	n := 0
	for range tx.Walk(fetchLine, fetchLineKey(part, owner), nil, false) {
		n++
	}
	return n
}

// AddFetch queues a remote upload and keeps its slug free. It fails with Taken
// if the slug is in use, with Denied if MaxFetches wait already, and with
// ErrFull while the disk has no room.
func (tx *Tx) AddFetch(f record.Fetch) (*record.Fetch, error) {
	if tx.s.space.none() {
		return nil, ErrFull
	}
	if err := tx.requireOwner(f.Owner); err != nil {
		return nil, err
	}
	f.ID, f.Created = tx.NewID(), tx.Now
	f.Again(tx.s.MonotonicNow())
	return &f, tx.enqueueFetch(&f)
}

// enqueueFetch puts a remote upload in line.
func (tx *Tx) enqueueFetch(f *record.Fetch) error {
	if tx.countFetches(lineWaiting, f.Owner)+tx.countFetches(lineRunning, f.Owner) >= MaxFetches {
		return &record.Error{Fault: record.Denied, Code: "too_many_remote_uploads", Text: fmt.Sprintf("%d remote uploads wait already, and more are not possible. Wait until some are done, or cancel them.", MaxFetches)}
	}
	if f.Slug != "" && tx.Get(recordSlug, []byte(f.Slug)) != nil {
		return userError(&table.Taken{Index: "slug"}, "item")
	}
	return userError(fetches.Put(tx.Tx, f), "remote upload")
}

// Fetch reads one of the owner's remote uploads.
func (tx *Tx) Fetch(owner, id record.ID) (*record.Fetch, error) {
	f, err := fetches.Get(tx.Tx, ownedKey(owner, id[:]...))
	return f, userError(err, "remote upload")
}

// Fetches lists the owner's remote uploads, oldest first.
func (tx *Tx) Fetches(owner record.ID) ([]record.Fetch, error) { return collect(fetches, tx, owner[:]) }

// A DueFetch names a remote upload whose turn it may be.
type DueFetch struct{ Owner, ID record.ID }

// DueFetches finds remote uploads whose time has come, of each owner at most
// limit, those that are due for longest. busy says which to skip. wait is as in
// findDue.
func (tx *Tx) DueFetches(limit int, busy func(record.ID) bool) (found []DueFetch, wait time.Duration, err error) {
	return findDue(tx, fetchLine, []byte{lineWaiting}, 16, func(owner []byte) (int, error) {
		if shut, err := tx.Disabled(record.ID(owner)); err != nil || shut { // it waits until the account is open again
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
func (tx *Tx) BeginFetch(owner, id record.ID) (*record.Fetch, error) {
	f, err := tx.Fetch(owner, id)
	if err != nil {
		return nil, err
	}
	if f.State != record.FetchWaits {
		return nil, ErrNotRunning
	}
	f.State, f.Due, f.Bytes, f.Total = record.FetchRuns, time.Time{}, 0, -1
	f.Tries++
	return f, fetches.Put(tx.Tx, f)
}

// runningFetch reads the row of a try that is under way.
func (tx *Tx) runningFetch(f *record.Fetch) (*record.Fetch, error) {
	before, err := tx.Fetch(f.Owner, f.ID)
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
func (tx *Tx) CheckAsker(f *record.Fetch) error {
	if f.By == uuid.Nil {
		return nil
	}
	err := tx.CheckNotRevoked(&record.Key{Owner: f.Owner, ID: f.By})
	var revoked *record.Error
	if errors.As(err, &revoked) {
		return errAskerRevoked
	}
	return err
}

// runningOfEnabled is runningFetch for an owner whose account is open, ErrDisabled
// if it is not, and for an API key that was not revoked.
func (tx *Tx) runningOfEnabled(f *record.Fetch) (*record.Fetch, error) {
	before, err := tx.runningFetch(f)
	if err != nil {
		return nil, err
	}
	shut, err := tx.Disabled(f.Owner)
	if shut {
		err = ErrDisabled
	}
	if err == nil {
		err = tx.CheckAsker(before)
	}
	return before, err
}

// NoteFetch notes how far the try is that is under way. It fails with Denied if
// what it takes has grown over the owner's quota, with Missing or Taken if
// nobody waits for it any more, with ErrDisabled while the owner's account is shut,
// and with Denied if the API key that asked for it was revoked.
func (tx *Tx) NoteFetch(f *record.Fetch) error {
	before, err := tx.runningOfEnabled(f)
	if err != nil {
		return err
	}
	if more := f.Reserved() - before.Reserved(); more > 0 {
		if err := tx.charge(f.Owner, more); err != nil {
			return err
		}
	}
	return fetches.Put(tx.Tx, f)
}

// FailFetch notes that a try failed, as record.Fetch.Failed does.
func (tx *Tx) FailFetch(f *record.Fetch, why string, passes bool, asked time.Duration) error {
	before, err := tx.runningFetch(f)
	if err != nil {
		return err
	}
	before.Failed(why, passes, asked, tx.Now, tx.s.MonotonicNow())
	return tx.endFetch(before)
}

// RequeueFetch puts a try back in line that was cut short by no fault of the
// other server; it counts for none.
func (tx *Tx) RequeueFetch(f *record.Fetch) error {
	before, err := tx.runningFetch(f)
	if err != nil {
		return err
	}
	before.State, before.Due = record.FetchWaits, tx.s.MonotonicNow()
	before.Tries--
	return fetches.Put(tx.Tx, before)
}

// CancelFetch ends a remote upload that is not over; Taken if it is.
func (tx *Tx) CancelFetch(owner, id record.ID) error {
	f, err := tx.Fetch(owner, id)
	if err != nil {
		return err
	}
	if f.Over() {
		return &record.Error{Fault: record.Taken, Code: "remote_upload_over", Text: "This remote upload is over already."}
	}
	f.Cancel(tx.Now)
	return tx.endFetch(f)
}

// RetryFetch queues a remote upload again that failed or was cancelled; Taken if
// it is another, or its slug is in use by now. From now on by is who asked for it.
func (tx *Tx) RetryFetch(owner, id, by record.ID) error {
	f, err := tx.Fetch(owner, id)
	if err != nil {
		return err
	}
	if f.State != record.FetchFailed && f.State != record.FetchCancelled {
		return &record.Error{Fault: record.Taken, Code: "remote_upload_not_failed", Text: "Only a remote upload that failed or was cancelled can be tried again."}
	}
	f.By = by
	f.Again(tx.s.MonotonicNow())
	return tx.enqueueFetch(f)
}

// RemoveFetch forgets a remote upload, and cancels it if it is not over.
func (tx *Tx) RemoveFetch(owner, id record.ID) error {
	_, err := fetches.Delete(tx.Tx, ownedKey(owner, id[:]...))
	return userError(err, "remote upload")
}

// endFetch writes a remote upload that a try of is over, and forgets the oldest of the
// owner's that are over if they are too many.
func (tx *Tx) endFetch(f *record.Fetch) error {
	if err := fetches.Put(tx.Tx, f); err != nil {
		return userError(err, "remote upload")
	}
	return tx.dropFetches(f.Owner, keptFetches)
}

// ClearFetches forgets those of the owner's remote uploads that are over.
func (tx *Tx) ClearFetches(owner record.ID) error { return tx.dropFetches(owner, 0) }

// dropFetches forgets the oldest of the owner's that are over, down to keep.
func (tx *Tx) dropFetches(owner record.ID, keep int) error {
	var over [][]byte
	for k := range tx.Walk(fetchLine, fetchLineKey(lineOver, owner), nil, false) {
		over = append(over, ownedKey(owner, k[lineID:]...))
	}
	return tx.forgetFetches(over[:max(0, len(over)-keep)])
}

// DropFetches forgets the remote uploads that were over a week ago.
func (tx *Tx) DropFetches() error {
	var over [][]byte
	last := signed(tx.Now.Add(-fetchTime))
	for k := range tx.Walk(fetchLine, []byte{lineOver}, nil, false) {
		if binary.BigEndian.Uint64(k[lineTime:]) <= last {
			over = append(over, ownedKey(record.ID(k[lineOwner:lineTime]), k[lineID:]...))
		}
	}
	return tx.forgetFetches(over)
}

func (tx *Tx) forgetFetches(all [][]byte) error {
	for _, key := range all {
		if _, err := fetches.Delete(tx.Tx, key); err != nil {
			return err
		}
	}
	return nil
}

// ResumeFetches puts back in line what ran when the process ended. It is for
// one that has just begun: nothing runs yet.
func (tx *Tx) ResumeFetches() error {
	var ran [][]byte
	for k := range tx.Walk(fetchLine, []byte{lineRunning}, nil, false) {
		ran = append(ran, ownedKey(record.ID(k[lineOwner:lineTime]), k[lineID:]...))
	}
	for _, key := range ran {
		f, err := fetches.Get(tx.Tx, key)
		if err == nil {
			f.Failed("The server was stopped meanwhile.", true, 0, tx.Now, tx.s.MonotonicNow())
			if !f.Over() {
				f.Due = tx.s.MonotonicNow()
			}
			err = tx.endFetch(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
