package people

import (
	"bytes"
	"math"
	"sync/atomic"

	"kist/kv"
	"kist/kv/record"
)

// Usage is how much an owner stores.
type Usage struct {
	Bytes int64            // of files, including damaged ones, those in the trash and those that wait for approval
	Text  int64            // bytes of text: see kv.TextSum
	Begun int64            // bytes reserved for resumable and remote uploads
	Quota int64            // limit for the sum of all three; 0 is no limit
	Count map[string]int64 // number of records, by kind
}

// Used is how many stored bytes count against the quota. Reserved bytes count too
// but are not included.
func (u *Usage) Used() int64 { return u.Bytes + u.Text }

// UsageOf adds up how much the user stores.
func UsageOf(tx *kv.Tx, u *User) (Usage, error) {
	quota, err := Quota(tx, u)
	sum := Usage{Text: tx.Text(u.ID), Quota: quota, Count: map[string]int64{}}
	sum.Bytes, sum.Begun = bytesOf(tx, u.ID)
	for _, k := range record.Kinds {
		sum.Count[k.Name] = tx.Sum(kv.SumBucket, kv.OwnedKey(u.ID, k.Code))
	}
	return sum, err
}

// Quota is how many bytes the account may store; 0 is no limit.
func Quota(tx *kv.Tx, u *User) (int64, error) { return orDefault(tx, u.Quota) }

func orDefault(tx *kv.Tx, quota int64) (int64, error) {
	if quota >= 0 {
		return quota, nil
	}
	set, err := ReadSettings(tx)
	return set.DefaultQuota, err
}

// latestQuota is the row of an account whose quota was last needed, and the quota in it:
// decoding the row took a fourteenth of the CPU time of creating a note.
var latestQuota kv.Slot[atomic.Pointer[quotaRow]]

type quotaRow struct {
	row   []byte
	quota int64 // negative for the default
}

// quotaOf is Quota for the account with the id.
func quotaOf(tx *kv.Tx, owner record.ID) (int64, error) {
	row, latest := tx.Get(UserBucket, owner[:]), latestQuota.Of(tx.Store())
	known := latest.Load()
	if known == nil || !bytes.Equal(known.row, row) {
		u, err := ReadUser(tx, owner)
		if err != nil {
			return 0, err
		}
		known = &quotaRow{bytes.Clone(row), u.Quota}
		latest.Store(known)
	}
	return orDefault(tx, known.quota)
}

// Charge fails if size more bytes do not fit the owner's quota on top of everything
// that already counts.
func Charge(tx *kv.Tx, owner record.ID, size int64) error {
	return withinQuota(tx, owner, ChargedBytes, size)
}

// ChargeAwaited is Charge for content whose space was reserved until now. It leaves
// out text: an upload must not fail at its last byte because text was added since
// it began.
func ChargeAwaited(tx *kv.Tx, owner record.ID, size int64) error {
	return withinQuota(tx, owner, ContentBytes, size)
}

// withinQuota fails if size more bytes do not fit the owner's quota on top of those that
// count already.
func withinQuota(tx *kv.Tx, owner record.ID, count func(*kv.Tx, record.ID) int64, size int64) error {
	left, quota, err := leftOf(tx, owner, count)
	if err != nil || size <= left {
		return err
	}
	text := "This does not fit your storage quota of " + record.Plural(quota, "byte") + "."
	return &record.Error{Fault: record.Denied, Code: "quota_exceeded", Text: text}
}

// Left is how many bytes the owner's quota has left, and the quota. Whatever stores something
// for the owner is decided by it: before the bytes are read by this function, and in the
// transaction by Charge. It is negative for an owner who has stored more, and math.MaxInt64
// without a quota.
func Left(tx *kv.Tx, owner record.ID) (left, quota int64, err error) {
	return leftOf(tx, owner, ChargedBytes)
}

// leftOf is Left on top of the bytes that count counts. What was only promised to senders
// is left for the owner.
func leftOf(tx *kv.Tx, owner record.ID, count func(*kv.Tx, record.ID) int64) (left, quota int64, err error) {
	quota, err = quotaOf(tx, owner)
	if err != nil || quota == 0 {
		return math.MaxInt64, quota, err
	}
	left = quota - count(tx, owner)
	for _, t := range tx.Schema().Tables {
		if t.Promised != nil {
			left += t.Promised(tx, owner)
		}
	}
	return left, quota, nil
}

// ChargeText fails if a change that was just made left the owner with more text than
// before and the total does not fit the quota.
func ChargeText(tx *kv.Tx, owner record.ID, before int64) error {
	if tx.Text(owner) <= before {
		return nil
	}
	return Charge(tx, owner, 0)
}

// bytesOf is how many bytes of content the owner has stored, and how many are
// reserved for unfinished uploads.
func bytesOf(tx *kv.Tx, owner record.ID) (stored, reserved int64) {
	for _, t := range tx.Schema().Tables {
		if t.Bytes != nil {
			s, r := t.Bytes(tx, owner)
			stored, reserved = stored+s, reserved+r
		}
	}
	return stored, reserved
}

// ContentBytes is how many bytes of content count against the owner's quota.
func ContentBytes(tx *kv.Tx, owner record.ID) int64 {
	stored, reserved := bytesOf(tx, owner)
	return stored + reserved
}

// ChargedBytes is how many bytes count against the owner's quota: ContentBytes and text.
func ChargedBytes(tx *kv.Tx, owner record.ID) int64 {
	return ContentBytes(tx, owner) + tx.Text(owner)
}
