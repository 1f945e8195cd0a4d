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

// FetchState is the state of a remote upload.
type FetchState string

// The states of a remote upload.
const (
	FetchWaits     FetchState = "waiting" // for its turn, or for the next try
	FetchRuns      FetchState = "running"
	FetchDone      FetchState = "done"
	FetchFailed    FetchState = "failed"
	FetchCancelled FetchState = "cancelled" // by its owner
)

// FetchStates lists the states.
var FetchStates = []FetchState{FetchWaits, FetchRuns, FetchDone, FetchFailed, FetchCancelled}

// Fetch is a remote upload: a file that the server fetches from an address.
type Fetch struct {
	ID       record.ID `json:"ID"`
	Owner    record.ID `json:"Owner"`
	URL      string    `json:"URL"`
	Fields   string    `json:"Fields"`   // the file's fields as JSON, without the password
	Password string    `json:"Password"` // hash; "" means none
	Slug     string    `json:"Slug"`     // reserved for the file; "" generates one
	// By is the API key or session that requested it; zero: a session whose user has signed
	// out, or one of a time before this was kept.
	By record.ID `json:"By,omitzero"`

	State   FetchState `json:"State"`
	Created time.Time  `json:"Created"`
	Due     time.Time  `json:"Due"`     // of a waiting one: when it may be tried, on the store's monotonic clock
	Ended   time.Time  `json:"Ended"`   // zero: unfinished
	Tries   int        `json:"Tries"`   // tries so far
	Problem string     `json:"Problem"` // the error of the last try; "" if it had none

	Name  string    `json:"Name"`  // of the file, once known
	Bytes int64     `json:"Bytes"` // received bytes of the current or latest try
	Total int64     `json:"Total"` // expected bytes; -1 is unknown
	File  record.ID `json:"File"`  // the resulting file; zero until then
}

// Over reports whether nothing more happens to it automatically.
func (f *Fetch) Over() bool { return f.State != FetchWaits && f.State != FetchRuns }

// Reserved is how many bytes are reserved for it.
func (f *Fetch) Reserved() int64 {
	if f.State != FetchRuns {
		return 0
	}
	return max(f.Total, f.Bytes)
}

// fetchWaits are the waits after each try that failed for a temporary reason.
// After the last of them the upload fails for good.
var fetchWaits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute}

// Failed records that a try failed, and why. passes says that another try may
// succeed. asked is how long the other server asks to be left alone; at most an
// hour of it counts.
func (f *Fetch) Failed(why string, passes bool, asked time.Duration, now, monotonic time.Time) {
	f.Problem = why
	if !passes || f.Tries > len(fetchWaits) {
		f.end(FetchFailed, now)
		return
	}
	f.State, f.Due = FetchWaits, monotonic.Add(max(fetchWaits[max(f.Tries, 1)-1], min(asked, time.Hour)))
}

// Done records that the file was created.
func (f *Fetch) Done(file record.ID, size int64, now time.Time) {
	f.File, f.Bytes, f.Total, f.Problem = file, size, size, ""
	f.end(FetchDone, now)
}

// Cancel records that its owner does not want the file any more.
func (f *Fetch) Cancel(now time.Time) { f.end(FetchCancelled, now) }

func (f *Fetch) end(s FetchState, now time.Time) { f.State, f.Due, f.Ended = s, time.Time{}, now }

// Again restarts it with a full set of tries.
func (f *Fetch) Again(monotonic time.Time) {
	f.State, f.Due, f.Ended, f.Tries, f.Problem, f.Bytes, f.Total = FetchWaits, monotonic, time.Time{}, 0, "", 0, -1
}

// Bounds of remote uploads.
const (
	MaxFetches  = 100                // unfinished ones of an owner
	keptFetches = 100                // finished ones of an owner
	fetchTime   = 7 * 24 * time.Hour // how long a finished one is remembered
)

// The parts of the queue of remote uploads. The bytes are stored.
const (
	lineWaiting = 'w' // ordered by when they are due
	lineRunning = 'r'
	lineOver    = 'o' // ordered by when they ended
)

// FetchRows is the table of remote uploads.
var FetchRows = func() *table.Table[Fetch] {
	t := kv.JsonTable(fetchBucket, func(f *Fetch) []byte { return kv.OwnedKey(f.Owner, f.ID[:]...) },
		table.Index[Fetch]{Bucket: UploadSlug, Name: "slug", Unique: true, Keys: func(f *Fetch, file func([]byte)) {
			if f.Slug != "" && !f.Over() {
				file([]byte(f.Slug))
			}
		}},
		table.Index[Fetch]{Bucket: fetchLine, Keys: func(f *Fetch, file func([]byte)) {
			part, at := byte(lineOver), f.Ended
			switch f.State {
			case FetchWaits:
				part, at = lineWaiting, f.Due
			case FetchRuns:
				part, at = lineRunning, f.Created
			}
			file(append(binary.BigEndian.AppendUint64(fetchLineKey(part, f.Owner), kv.Signed(at)), f.ID[:]...))
		}})
	t.Bytes = func(f *Fetch, length int) (table.Bucket, []byte, int) { return kv.TextSum(f.Owner, length) }
	t.Sums = kv.SumBucket
	t.Tally = func(f *Fetch, add func([]byte, int64)) {
		add(fetchReservedKey(f.Owner), f.Reserved())
		add(StillToFetch, max(f.Reserved()-f.Bytes, 0))
	}
	return t
}()

// FetchTable keeps remote uploads.
var FetchTable = kv.Table{
	Buckets: []table.Bucket{fetchBucket, fetchLine},
	Check:   people.CheckOwned(FetchRows, "remote upload"), Refill: people.RefillOwned(FetchRows),
	Text: kv.RowText(fetchBucket),
	Drop: kv.DropRows(FetchRows),
	Bytes: func(tx *kv.Tx, owner record.ID) (_, reserved int64) {
		return 0, FetchRows.Sum(tx.Tx, fetchReservedKey(owner))
	},
}

// fetchReservedKey is the key of the sum of bytes reserved for an owner's remote
// uploads.
func fetchReservedKey(owner record.ID) []byte { return kv.OwnedKey(owner, 0, 'g') }

// StillToFetch is the key of the sum of bytes that all remote uploads still expect.
var StillToFetch = fetchReservedKey(record.ID{})

// fetchLineKey is the prefix of an owner's entries in a part of the queue.
func fetchLineKey(part byte, owner record.ID) []byte {
	return append(append(make([]byte, 0, 1+16+8+16), part), owner[:]...)
}

// Offsets in the key of a queue entry.
const (
	lineOwner = 1
	lineTime  = lineOwner + 16
	lineID    = lineTime + 8
)

func countFetches(tx *kv.Tx, part byte, owner record.ID) int {
	n := 0
	for range tx.Walk(fetchLine, fetchLineKey(part, owner), nil, false) {
		n++
	}
	return n
}

// AddFetch queues a remote upload and reserves its slug. It fails with Taken if the
// slug is in use, with Denied if MaxFetches are already unfinished or its text does not
// fit the quota, and with ErrFull while the disk is full.
func AddFetch(tx *kv.Tx, f Fetch) (*Fetch, error) {
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

func enqueueFetch(tx *kv.Tx, f *Fetch) error {
	if countFetches(tx, lineWaiting, f.Owner)+countFetches(tx, lineRunning, f.Owner) >= MaxFetches {
		text := fmt.Sprintf("%d remote uploads wait already, and more are not possible. "+
			"Wait until some are done, or cancel them.", MaxFetches)
		return &record.Error{Fault: record.Denied, Code: "too_many_remote_uploads", Text: text}
	}
	if f.Slug != "" && tx.Get(kv.RecordSlug, []byte(f.Slug)) != nil {
		return kv.UserError(&table.Taken{Index: "slug"}, "item")
	}
	before := tx.Text(f.Owner)
	if err := FetchRows.Put(tx.Tx, f); err != nil {
		return kv.UserError(err, "remote upload")
	}
	return people.ChargeText(tx, f.Owner, before)
}

// Fetch reads one of the owner's remote uploads.
func ReadFetch(tx *kv.Tx, owner, id record.ID) (*Fetch, error) {
	f, err := FetchRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return f, kv.UserError(err, "remote upload")
}

// Fetches lists the owner's remote uploads, oldest first.
func Fetches(tx *kv.Tx, owner record.ID) ([]Fetch, error) {
	return kv.Collect(FetchRows, tx, owner[:])
}

// A DueFetch names a remote upload that may be due.
type DueFetch struct{ Owner, ID record.ID }

// DueFetches finds remote uploads that are due: for each owner at most limit, the
// longest due first. busy says which to skip. wait is as in findDue.
func DueFetches(tx *kv.Tx, limit int, busy func(record.ID) bool) (found []DueFetch, wait time.Duration, err error) {
	return findDue(tx, fetchLine, []byte{lineWaiting}, 16, func(owner []byte) (int, error) {
		disabled, err := people.Disabled(tx, record.ID(owner))
		if err != nil || disabled { // it waits until the account is enabled again
			return -1, err
		}
		return limit, nil
	}, func(owner, id []byte) (DueFetch, bool) {
		f := DueFetch{record.ID(owner), record.ID(id)}
		return f, busy(f.ID)
	})
}

// ErrNotRunning means that a try is no longer wanted, because the remote upload was
// cancelled or started again.
var ErrNotRunning = &record.Error{
	Fault: record.Taken, Code: "not_running", Text: "This remote upload is no longer running.",
}

// ErrDisabled means that the owner's account was disabled during a try. The remote
// upload waits until the account is enabled again.
var ErrDisabled = errors.New("the account is disabled")

// BeginFetch starts a try. It fails with Taken if the remote upload is no longer
// waiting.
func BeginFetch(tx *kv.Tx, owner, id record.ID) (*Fetch, error) {
	f, err := ReadFetch(tx, owner, id)
	if err != nil {
		return nil, err
	}
	if f.State != FetchWaits {
		return nil, ErrNotRunning
	}
	f.State, f.Due, f.Bytes, f.Total = FetchRuns, time.Time{}, 0, -1
	f.Tries++
	return f, FetchRows.Put(tx.Tx, f)
}

// runningFetch reads the stored row of a try. It fails with ErrNotRunning if that try
// is no longer running.
func runningFetch(tx *kv.Tx, f *Fetch) (*Fetch, error) {
	before, err := ReadFetch(tx, f.Owner, f.ID)
	if err != nil {
		return nil, err
	}
	if before.State != FetchRuns || before.Tries != f.Tries {
		return nil, ErrNotRunning
	}
	return before, nil
}

// errAskerRevoked means that the API key or session that requested a remote upload is gone.
var errAskerRevoked = &record.Error{
	Fault: record.Denied, Code: "key_revoked",
	Text: "The API key or browser that asked for this was revoked, turned off or signed out. " +
		"Try again to fetch it in your own name.",
}

// checkAsker fails if the API key or session that requested a remote upload was revoked
// or turned off.
func checkAsker(tx *kv.Tx, f *Fetch) error {
	if f.By == uuid.Nil {
		return nil
	}
	err := people.CheckNotRevoked(tx, &people.Key{Owner: f.Owner, ID: f.By})
	if _, ok := errors.AsType[*record.Error](err); ok {
		return errAskerRevoked
	}
	return err
}

// RunningOfEnabled is runningFetch that also fails with ErrDisabled if the owner's
// account is disabled, and with Denied if the requesting API key or session was revoked.
func RunningOfEnabled(tx *kv.Tx, f *Fetch) (*Fetch, error) {
	before, err := runningFetch(tx, f)
	if err != nil {
		return nil, err
	}
	disabled, err := people.Disabled(tx, f.Owner)
	if err != nil {
		return nil, err
	}
	if disabled {
		return nil, ErrDisabled
	}
	if err := checkAsker(tx, before); err != nil {
		return nil, err
	}
	return before, nil
}

// NoteFetch records the progress of a running try. It fails with Denied if its size
// has grown over the owner's quota or the requesting API key or session was revoked, with
// Missing or Taken if the try is no longer wanted, and with ErrDisabled while the
// owner's account is disabled.
func NoteFetch(tx *kv.Tx, f *Fetch) error {
	before, err := RunningOfEnabled(tx, f)
	if err != nil {
		return err
	}
	if more := f.Reserved() - before.Reserved(); more > 0 {
		if err := people.Charge(tx, f.Owner, more); err != nil {
			return err
		}
	}
	f.By = before.By // MoveFetches may have changed it
	return FetchRows.Put(tx.Tx, f)
}

// MoveFetches gives the unfinished remote uploads that a session has requested to another
// requester, to. They go on when the session ends; without a requester (Nil), in the owner's name.
func MoveFetches(tx *kv.Tx, owner, session, to record.ID) error {
	all, err := Fetches(tx, owner)
	if err != nil {
		return err
	}
	for i := range all {
		f := &all[i]
		if f.By != session || f.Over() {
			continue
		}
		f.By = to
		if err := FetchRows.Put(tx.Tx, f); err != nil {
			return err
		}
	}
	return nil
}

// FailFetch records that a try failed, as Fetch.Failed does.
func FailFetch(tx *kv.Tx, f *Fetch, why string, passes bool, asked time.Duration) error {
	before, err := runningFetch(tx, f)
	if err != nil {
		return err
	}
	before.Failed(why, passes, asked, tx.Now, tx.Store().MonotonicNow())
	return EndFetch(tx, before)
}

// RequeueFetch puts a remote upload back in the queue when a try was interrupted
// through no fault of the other server. The try doesn't count.
func RequeueFetch(tx *kv.Tx, f *Fetch) error {
	before, err := runningFetch(tx, f)
	if err != nil {
		return err
	}
	before.State, before.Due = FetchWaits, tx.Store().MonotonicNow()
	before.Tries--
	return FetchRows.Put(tx.Tx, before)
}

// CancelFetch cancels an unfinished remote upload; Taken if it is over.
func CancelFetch(tx *kv.Tx, owner, id record.ID) error {
	f, err := ReadFetch(tx, owner, id)
	if err != nil {
		return err
	}
	if f.Over() {
		return &record.Error{Fault: record.Taken, Code: "remote_upload_over", Text: "This remote upload is over already."}
	}
	f.Cancel(tx.Now)
	return EndFetch(tx, f)
}

// RetryFetch queues a failed or cancelled remote upload again. It fails with Taken if
// it is in another state or its slug has been taken since. by becomes the requester.
func RetryFetch(tx *kv.Tx, owner, id, by record.ID) error {
	f, err := ReadFetch(tx, owner, id)
	if err != nil {
		return err
	}
	if f.State != FetchFailed && f.State != FetchCancelled {
		text := "Only a remote upload that failed or was cancelled can be tried again."
		return &record.Error{Fault: record.Taken, Code: "remote_upload_not_failed", Text: text}
	}
	f.By = by
	f.Again(tx.Store().MonotonicNow())
	return enqueueFetch(tx, f)
}

// RemoveFetch deletes a remote upload, and cancels it if it is not over.
func RemoveFetch(tx *kv.Tx, owner, id record.ID) error {
	_, err := FetchRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return kv.UserError(err, "remote upload")
}

// EndFetch stores a remote upload after a try, and deletes the owner's oldest
// finished ones if there are too many.
func EndFetch(tx *kv.Tx, f *Fetch) error {
	if err := FetchRows.Put(tx.Tx, f); err != nil {
		return kv.UserError(err, "remote upload")
	}
	return dropFetches(tx, f.Owner, keptFetches)
}

// ClearFetches deletes the owner's finished remote uploads.
func ClearFetches(tx *kv.Tx, owner record.ID) error { return dropFetches(tx, owner, 0) }

// dropFetches deletes the owner's oldest finished remote uploads, down to keep.
func dropFetches(tx *kv.Tx, owner record.ID, keep int) error {
	var over [][]byte
	for k := range tx.Walk(fetchLine, fetchLineKey(lineOver, owner), nil, false) {
		over = append(over, kv.OwnedKey(owner, k[lineID:]...))
	}
	return forgetFetches(tx, over[:max(0, len(over)-keep)])
}

// DropFetches deletes the remote uploads that ended at least a week ago.
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

// ResumeFetches puts remote uploads that were running when the last process ended
// back in the queue. Call it at start, before any is running.
func ResumeFetches(tx *kv.Tx) error {
	var ran [][]byte
	for k := range tx.Walk(fetchLine, []byte{lineRunning}, nil, false) {
		ran = append(ran, kv.OwnedKey(record.ID(k[lineOwner:lineTime]), k[lineID:]...))
	}
	for _, key := range ran {
		f, err := FetchRows.Get(tx.Tx, key)
		if err != nil {
			return err
		}
		f.Failed("The server was stopped during the transfer.", true, 0, tx.Now, tx.Store().MonotonicNow())
		if !f.Over() {
			f.Due = tx.Store().MonotonicNow()
		}
		if err := EndFetch(tx, f); err != nil {
			return err
		}
	}
	return nil
}
