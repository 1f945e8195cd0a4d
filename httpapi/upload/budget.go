package upload

import (
	"math"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/people"
	"kist/kv/record"
)

// Budget is what an upload may use.
type Budget struct {
	File  int64 // bytes of one file
	Left  int64 // bytes until the quota is used up
	Disk  int64 // bytes that fit on the disk
	quota int64
	Look  bool // the content is only read, not staged

	// For senders.
	next  func() error                         // called before a file is read; may be nil
	takes func(name string, head []byte) error // called with the file's first bytes; may be nil
	more  func() error                         // called when Left is used up, to raise it; may be nil
	full  error                                // the error to use instead of the quota's
}

// UnlimitedBudget is the budget for a repeated upload that was already answered. It is only read,
// because clients read the answer after they have sent everything.
func UnlimitedBudget() *Budget {
	return &Budget{File: math.MaxInt64 - 1, Left: math.MaxInt64 - 1, Disk: math.MaxInt64 - 1, Look: true}
}

// ErrTooLarge is the error for a file of this size if it does not fit; otherwise nil.
func (m *Budget) ErrTooLarge(size int64) error {
	switch {
	case size > m.File:
		return &record.Error{
			Fault: record.TooLarge, Code: "too_large", Text: "The file is larger than " + record.Plural(m.File, "byte") + ".",
		}
	case size > m.Left && m.full != nil:
		return m.full
	case size > m.Disk:
		return kv.ErrFull
	case size > m.Left:
		return &record.Error{
			Fault: record.Denied, Code: "quota_exceeded",
			Text: "This does not fit your storage quota of " + record.Plural(m.quota, "byte") + ".",
		}
	}
	return nil
}

// BudgetOf returns what an upload of the owner may use now. The transaction decides about the
// quota. The budget only prevents reading an upload to the end that cannot fit.
func BudgetOf(s *web.Site, owner record.ID) (*Budget, error) {
	m := &Budget{File: s.MaxUpload, Disk: s.Store.FreeForContent()}
	return m, s.Store.View(func(tx *kv.Tx) error {
		set, err := people.ReadSettings(tx)
		if err != nil {
			return err
		}
		m.File = set.Largest(m.File)
		m.Disk = max(0, m.Disk-inbox.ReservedBytes(tx))
		left, quota, err := people.Left(tx, owner)
		m.Left, m.quota = max(0, left), quota
		return err
	})
}

// raise makes room for a file of which size bytes have come, if that is possible.
func (m *Budget) raise(size int64) error {
	if m.more == nil || size <= m.Left || size > m.File {
		return nil
	}
	return m.more()
}
