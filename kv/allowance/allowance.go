// Package allowance bounds how much is written for each payer in an hour.
package allowance

import (
	"sync"
	"time"

	"kist/kv/record"
)

// An Allowance counts bytes by payer: an account, or all who send files to it. The counts end with
// the process. All methods are safe for concurrent use.
type Allowance struct {
	PerHour int64 // 0 means any number

	mu sync.Mutex
	of map[record.ID]spending
}

// spending is a count of bytes that drains evenly, by PerHour in an hour.
type spending struct {
	bytes float64
	at    time.Time
}

func (a *Allowance) now(payer record.ID, now time.Time) float64 {
	got := a.of[payer]
	return max(0, got.bytes-max(0, now.Sub(got.at).Hours())*float64(a.PerHour)) // the clock can be set back
}

// Add counts bytes that were written.
func (a *Allowance) Add(payer record.ID, bytes int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[record.ID]spending{}
	}
	a.of[payer] = spending{a.now(payer, now) + float64(bytes), now}
}

// Wait is how long the payer has to wait before writing more; 0 means not at all. A change that is
// safer, such as one of a password, may go beyond the limit by an eighth.
func (a *Allowance) Wait(payer record.ID, now time.Time, safer bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes, limit := a.now(payer, now), float64(a.PerHour)
	if a.PerHour == 0 || bytes < limit || safer && bytes < limit/8*9 {
		return 0
	}
	return max(time.Second, time.Duration((bytes-limit)/limit*float64(time.Hour)))
}

// Senders is the payer for what others send to the owner. It is the id of nobody.
func Senders(owner record.ID) record.ID {
	owner[len(owner)-1] ^= 0xff
	return owner
}
