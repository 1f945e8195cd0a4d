package record

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// Share is an item's address and the conditions under which visitors may see it.
type Share struct {
	Slug     string
	Public   bool
	Favorite bool
	Password string // PHC string; "" means none
	Limit    int64  // views by others; 0 is no limit
	AtLimit  Action
	Reached  bool      // made private by the limit, not by its owner
	Expires  time.Time // zero: never
	Ended    bool      // its expiry was reported
	// EndDeletes says that the item is deleted for good when it expires.
	EndDeletes bool
	Logged     bool // each visit is logged for its owner
}

// ErrMissing is the answer for all items that are unknown, private, or another
// owner's.
var ErrMissing = NotFound("item")

// Open says whether a visitor may have the item at the given instant, ignoring
// the password: nil, Missing or Gone. The password and the grants that replace it
// are checked by shared in httpapi/public/access.go.
func (s *Share) Open(now time.Time) error {
	switch {
	case s.Reached:
		return &Error{Fault: Gone, Code: "limit_reached", Text: "This link has reached its view limit."}
	case !s.Public:
		return ErrMissing
	case s.Expired(now):
		return &Error{Fault: Gone, Code: "expired", Text: "This item has expired."}
	}
	return nil
}

// OpenToAll reports whether everyone with the address may see the item at any time before it expires.
func (s *Share) OpenToAll() bool { return s.Public && s.Password == "" && s.Limit == 0 }

// Expired reports whether the item has expired. It expires at the instant
// Expires.
func (s *Share) Expired(now time.Time) bool {
	return !s.Expires.IsZero() && !now.Before(s.Expires)
}

// Terms is a digest of the owner's conditions for visitors: the password, the
// limit and the expiry. Access that was granted on other terms does not count.
func (s *Share) Terms() (digest [16]byte) {
	text := fmt.Appendf(nil, "%d %d %s", s.Limit, s.Expires.UnixMilli(), s.Password)
	sum := sha256.Sum256(text)
	return [16]byte(sum[:])
}

// Publish sets the visibility that the owner wants and clears Reached. It reports
// whether the count against the limit starts again: it does when the item becomes
// public.
func (s *Share) Publish(public bool) (restart bool) {
	restart = public && !s.Public
	s.Public, s.Reached = public, false
	return restart
}

// Spend counts one view by a visitor against the limit. used is how many were
// counted before. It returns the new count, and whether the action is due: this was
// the last view that the limit allows, or there was none left. Then the error is Gone.
func (s *Share) Spend(used int64) (after int64, due bool, err error) {
	if s.Limit == 0 {
		return used + 1, false, nil
	}
	if used >= s.Limit {
		return used, true, &Error{Fault: Gone, Code: "limit_reached", Text: "This link has reached its view limit."}
	}
	return used + 1, used+1 == s.Limit, nil
}

// Close makes the item private because its limit is used up. It changes nothing
// else.
func (s *Share) Close() { s.Public, s.Reached = false, true }

// Exclusion is why visitors of a collection do not see an item in it; "" if they do.
type Exclusion string

// The reasons: conditions of the item's own, which a collection must not get around.
const (
	OwnPassword Exclusion = "password"
	OwnLimit    Exclusion = "limit"
	OwnEnd      Exclusion = "end"
)

// Exclusions lists the reasons.
var Exclusions = []Exclusion{OwnPassword, OwnLimit, OwnEnd}
