package people

import (
	"fmt"

	"kist/kv"
	"kist/kv/record"
)

// Usage is what an owner keeps.
type Usage struct {
	Bytes int64            // of files, damaged ones included, and of what waits for approval
	Text  int64            // bytes of text: see text.go
	Begun int64            // reserved for files that are being uploaded in pieces, or fetched
	Quota int64            // of all three; 0 is no limit
	Count map[string]int64 // of records, by kind
}

// Used is how many bytes are kept and count against the quota. What is reserved
// counts too, and is not in it.
func (u *Usage) Used() int64 { return u.Bytes + u.Text }

// UsageOf sums up what the user keeps.
func UsageOf(tx *kv.Tx, u *record.User) (Usage, error) {
	quota, err := Quota(tx, u)
	sum := Usage{Text: tx.Text(u.ID), Quota: quota, Count: map[string]int64{}}
	sum.Bytes, sum.Begun = bytesOf(tx, u.ID)
	for _, k := range record.Kinds {
		sum.Count[k.Name] = tx.Sum(kv.SumBucket, kv.OwnedKey(u.ID, k.Code))
	}
	return sum, err
}

// Quota is how many bytes the account may store; 0 is no bound.
func Quota(tx *kv.Tx, u *record.User) (int64, error) {
	if u.Quota >= 0 {
		return u.Quota, nil
	}
	set, err := Settings(tx)
	return set.DefaultQuota, err
}

// Charge refuses size more bytes if they do not fit the owner's quota beside
// everything that counts already.
func Charge(tx *kv.Tx, owner record.ID, size int64) error {
	return withinQuota(tx, owner, ChargedBytes(tx, owner)+size)
}

// ChargeAwaited is charge for content that had its place reserved until now.
// Text that came since then counts, but an upload must not fail at its last
// byte because of it.
func ChargeAwaited(tx *kv.Tx, owner record.ID, size int64) error {
	return withinQuota(tx, owner, ContentBytes(tx, owner)+size)
}

func withinQuota(tx *kv.Tx, owner record.ID, bytes int64) error {
	u, err := User(tx, owner)
	if err != nil {
		return err
	}
	quota, err := Quota(tx, u)
	if err != nil || quota == 0 || bytes <= quota {
		return err
	}
	return &record.Error{Fault: record.Denied, Code: "quota_exceeded", Text: fmt.Sprintf("This does not fit your storage quota of %d bytes.", quota)}
}

// ChargeText refuses a change that was made and has left the owner with more text
// than before, if that does not fit the quota.
func ChargeText(tx *kv.Tx, owner record.ID, before int64) error {
	if tx.Text(owner) <= before {
		return nil
	}
	return Charge(tx, owner, 0)
}

// bytesOf is how many bytes of content the owner has stored, and how many are
// reserved for content that is on its way.
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

// ChargedBytes is how many bytes count against the owner's quota: contentBytes and text.
func ChargedBytes(tx *kv.Tx, owner record.ID) int64 {
	return ContentBytes(tx, owner) + tx.Text(owner)
}
