package kv

import (
	"fmt"

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

// Usage sums up what the user keeps.
func (tx *Tx) Usage(u *record.User) (Usage, error) {
	quota, err := tx.quota(u)
	sum := Usage{Text: tx.text(u.ID), Quota: quota, Count: map[string]int64{}}
	sum.Bytes, sum.Begun = tx.bytes(u.ID)
	for _, k := range record.Kinds {
		sum.Count[k.Name] = tx.Sum(sumBucket, ownedKey(u.ID, k.Code))
	}
	return sum, err
}

func (tx *Tx) quota(u *record.User) (int64, error) {
	if u.Quota >= 0 {
		return u.Quota, nil
	}
	set, err := tx.Settings()
	return set.DefaultQuota, err
}

// charge refuses size more bytes if they do not fit the owner's quota beside
// everything that counts already.
func (tx *Tx) charge(owner record.ID, size int64) error {
	return tx.withinQuota(owner, tx.chargedBytes(owner)+size)
}

// chargeAwaited is charge for content that had its place reserved until now.
// Text that came since then counts, but an upload must not fail at its last
// byte because of it.
func (tx *Tx) chargeAwaited(owner record.ID, size int64) error {
	return tx.withinQuota(owner, tx.contentBytes(owner)+size)
}

func (tx *Tx) withinQuota(owner record.ID, bytes int64) error {
	u, err := tx.User(owner)
	if err != nil {
		return err
	}
	quota, err := tx.quota(u)
	if err != nil || quota == 0 || bytes <= quota {
		return err
	}
	return &record.Error{Fault: record.Denied, Code: "quota_exceeded", Text: fmt.Sprintf("This does not fit your storage quota of %d bytes.", quota)}
}

// chargeText refuses a change that was made and has left the owner with more text
// than before, if that does not fit the quota.
func (tx *Tx) chargeText(owner record.ID, before int64) error {
	if tx.text(owner) <= before {
		return nil
	}
	return tx.charge(owner, 0)
}

// bytes is how many bytes of content the owner has stored, and how many are
// reserved for content that is on its way.
func (tx *Tx) bytes(owner record.ID) (stored, reserved int64) {
	for _, t := range tx.s.schema.Tables {
		if t.Bytes != nil {
			s, r := t.Bytes(tx, owner)
			stored, reserved = stored+s, reserved+r
		}
	}
	return stored, reserved
}

// contentBytes is how many bytes of content count against the owner's quota.
func (tx *Tx) contentBytes(owner record.ID) int64 {
	stored, reserved := tx.bytes(owner)
	return stored + reserved
}

// chargedBytes is how many bytes count against the owner's quota: contentBytes and text.
func (tx *Tx) chargedBytes(owner record.ID) int64 {
	return tx.contentBytes(owner) + tx.text(owner)
}
