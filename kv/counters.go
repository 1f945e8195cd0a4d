package kv

import (
	"sync"
	"time"

	"kist/kv/record"
)

// flushEvery is how late the views of unlimited items, the last use of keys
// and wrong tries may be written; a killed process loses no more of them than
// that.
const flushEvery = time.Second

// counters is what is counted in memory until the next flush.
type counters struct {
	sync.Mutex
	Views map[[record.KeySize]byte]int64
	Keys  map[[32]byte]time.Time // by owner and id
	Noted map[[32]byte]time.Time // what of keys was on its way to the disk last
}

func (s *Store) flushLoop() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-tick.C:
			s.checkDiskSpace()
			s.retryWrite()
			if err := s.watchClock(false); err != nil {
				s.Log.Error("the doubt of the clock is not written down; it is tried again", "error", err)
			}
			for _, t := range s.Schema.Tables {
				if t.Tick != nil {
					t.Tick(s)
				}
			}
			if err := s.Flush(); err != nil {
				s.Log.Error("counts not written; they are kept for the next try", "error", err)
			}
		}
	}
}

// Flush writes what is counted in memory. What cannot be written stays.
func (s *Store) Flush() error {
	var writes []func(*Tx) error
	var back []func()
	for _, t := range s.Schema.Tables {
		if t.Flush == nil {
			continue
		}
		if write, giveBack := t.Flush(s); write != nil {
			writes, back = append(writes, write), append(back, giveBack)
		}
	}
	if len(writes) == 0 {
		return nil
	}
	err := s.Update(func(tx *Tx) error {
		for _, write := range writes {
			if err := write(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, giveBack := range back {
			giveBack()
		}
	}
	return err
}

func (u *counters) View(key [record.KeySize]byte, n int64) {
	if u.Views == nil {
		u.Views = map[[record.KeySize]byte]int64{}
	}
	u.Views[key] += n
}

func (u *counters) Note(key [32]byte, at time.Time) {
	if u.Noted == nil {
		u.Noted = map[[32]byte]time.Time{}
	}
	u.Noted[key] = at
}

func (u *counters) Use(key [32]byte, at time.Time) {
	if u.Keys == nil {
		u.Keys = map[[32]byte]time.Time{}
	}
	u.Keys[key] = at
}
