package kv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// The first scrub starts scrubFirst after the store is opened, and the next ones every
// scrubEvery, or scrubRetry after damage that could not be healed.
const (
	scrubFirst = 5 * time.Second
	scrubEvery = 24 * time.Hour
	scrubRetry = 15 * time.Minute
	// scrubShare limits a scrub to one part in scrubShare of the time. It sleeps for
	// the rest, but no longer than allows reading the whole journal within scrubMost.
	scrubShare = 20
	scrubMost  = 30 * time.Minute
)

// metaHealed is the number of commits when a damaged journal was last replaced
// (8 bytes).
var metaHealed = []byte("healed")

// JournalHealth is what background reading of the journal has found since the store
// was opened.
type JournalHealth struct {
	Checked time.Time // when the journal was last read to its end; zero if never
	Damaged []string  // the damage found last; nil if there was none
	Healed  time.Time // when a new generation replaced the damage; zero if it has not yet
}

// A scrubber reads the journal of a store in the background.
type scrubber struct {
	s      *Store
	timer  func(time.Duration) <-chan time.Time // waits between reads
	wanted chan struct{}                        // see ScrubNow

	sync.Mutex
	health JournalHealth
}

// JournalHealth reports whether the journal is whole, as far as the store knows.
func (s *Store) JournalHealth() JournalHealth {
	s.scrubs.Lock()
	defer s.scrubs.Unlock()
	return s.scrubs.health
}

func (c *scrubber) note(change func(*JournalHealth)) {
	c.Lock()
	defer c.Unlock()
	change(&c.health)
}

// loop reads the journal regularly and replaces it when it is damaged.
func (c *scrubber) loop() {
	for wait := scrubFirst; ; {
		select {
		case <-c.s.stopping.Done():
			return
		case <-c.timer(wait):
		case <-c.wanted:
		}
		wait = scrubEvery
		if !c.scrubAndHeal() {
			wait = scrubRetry
		}
	}
}

// ScrubNow starts reading the journal in the background at once. Callers that have
// found damage use it.
func (s *Store) ScrubNow() {
	select {
	case s.scrubs.wanted <- struct{}{}:
	default: // a scrub is already about to start
	}
}

// scrubAndHeal reads the journal and begins a new generation if it is damaged. It
// reports whether the journal is whole afterwards.
func (c *scrubber) scrubAndHeal() bool {
	s := c.s
	wrong, err := c.scrub()
	if wrong != nil && err == nil {
		wrong, err = c.replace(wrong)
	}

	switch {
	case s.stopping.Err() != nil:
		return false
	case err != nil:
		s.log.Error("the journal could not be read to its end; will try again", "error", err)
		return false
	}
	c.note(func(h *JournalHealth) {
		h.Checked = s.clock.now().UTC()
		if wrong == nil && h.Damaged != nil && h.Healed.IsZero() {
			h.Healed = h.Checked // an earlier attempt failed, and a new generation has begun since
		}
	})
	return wrong == nil
}

// replace heals the journal of damage that a scrub has found, and tells about it. It returns what
// a scrub finds afterwards.
func (c *scrubber) replace(damage error) (wrong, err error) {
	s := c.s
	// The working copy holds everything, as its digest proves. A snapshot of it
	// makes the damaged part unnecessary.
	s.log.Error("the journal is damaged; starting a new generation from the working copy", "damage", damage)
	wrong, err = c.heal()
	whole := wrong == nil && err == nil
	c.note(func(h *JournalHealth) {
		h.Damaged, h.Healed = []string{damage.Error()}, time.Time{}
		if whole {
			h.Healed = s.clock.now().UTC()
		}
	})

	switch {
	case whole:
		s.log.Warn("the journal is whole again: a new generation has replaced the damaged one", "damage", damage)
	case s.stopping.Err() == nil:
		s.log.Error("the damaged journal could not be replaced: commits since the damage exist only in the "+
			"working copy; make a backup now", "damage", damage, "error", errors.Join(err, wrong))
	}
	return wrong, err
}

// scrub reads what a start would read now. It is slow on purpose.
func (c *scrubber) scrub() (wrong, err error) {
	s := c.s
	defer s.journal.Hold()()
	var to journal.Mark
	if err := s.between(func() error {
		to.State = s.state
		to.Log, to.Size = s.journal.End()
		return nil
	}); err != nil {
		return nil, err
	}
	total, err := s.journal.Size()
	if err != nil {
		return nil, err
	}
	p := pace{total: total, last: time.Now()}
	return s.journal.Scrub(to, func(n int) error {
		select {
		case <-s.stopping.Done():
			return ErrClosed
		case <-c.timer(p.wait(n, time.Now())):
		}
		p.last = time.Now()
		return nil
	})
}

// pace says how long a scrub sleeps between two reads.
type pace struct {
	total int64     // most bytes that the scrub can read
	last  time.Time // when the last read began
}

// wait is how long to sleep before reading n bytes.
func (p *pace) wait(n int, now time.Time) time.Duration {
	busy := max(now.Sub(p.last), 0) * (scrubShare - 1)
	limit := time.Duration(float64(scrubMost) * float64(n) / float64(max(p.total, int64(n))))
	return min(busy, limit)
}

// heal replaces a damaged journal with a new generation and then reads it.
func (c *scrubber) heal() (wrong, err error) {
	s := c.s
	// Make one more commit, so that the new log does not get the name of an existing one.
	if err := s.Update(func(tx *Tx) error {
		return tx.Put(workcopy.MetaBucket, metaHealed, binary.BigEndian.AppendUint64(nil, s.state.Seq))
	}); err != nil {
		return nil, err
	}
	for begun := false; !begun; {
		var written <-chan struct{}
		if err := s.between(func() error {
			for range 2 { // the first call may only learn that the previous snapshot failed
				s.gen.due, s.gen.retry = true, time.Time{}
				s.gen.renew(s)
				if !s.gen.due || s.gen.busy != nil {
					break
				}
			}
			begun, written = !s.gen.due, s.gen.written
			if !begun && s.gen.busy == nil {
				return errors.New("cannot start a new log")
			}
			return nil
		}); err != nil {
			return nil, err
		}
		select { // wait for this snapshot, or for one that was under way
		case <-s.stopping.Done():
			return nil, ErrClosed
		case <-written:
		}
	}
	wrong, err = c.scrub()
	if err != nil {
		err = fmt.Errorf("reading the new generation: %w", err)
	}
	return wrong, err
}

// restart handles a damaged journal beside a working copy that a clean stop proved
// whole. It opens the copy and writes a new generation from it before anything else.
// It does nothing if the journal has records after the copy, because then one of the
// two is from another time. It refuses a copy of another instance: secret is the
// journal's secret, nil if unknown.
func (s *Store) restart(path string, clean datadir.Proof, secret []byte, damage error) (done bool, err error) {
	survey, err := s.journal.Survey(0, func(int64) {})
	if err != nil || survey.Last() > clean.Seq {
		return false, nil //nolint:nilerr // the caller reports the damage
	}
	db, err := workcopy.OpenCopy(path)
	if err != nil {
		return false, nil //nolint:nilerr // as above
	}
	if err := s.continues(db, secret); err != nil {
		return false, errors.Join(err, db.Close())
	}

	s.log.Error("the journal is damaged; starting a new generation from the working copy, "+
		"which the last stop proved whole", "damage", damage)
	if err := s.beginFrom(db, clean.State()); err != nil {
		failed := fmt.Errorf("the journal is damaged (%w), and a new generation cannot be written", damage)
		return false, errors.Join(failed, err, db.Close())
	}
	s.bolt = db
	s.state = clean.State()
	now := s.clock.now().UTC()
	s.scrubs.note(func(h *JournalHealth) { h.Damaged, h.Healed = []string{damage.Error()}, now })
	s.log.Warn("the journal is whole again: a new generation has replaced the damaged one", "damage", damage)
	return true, nil
}

// continues returns an error unless the data directory can go on with a working copy without
// its journal. secret is the journal's secret, nil if unknown.
func (s *Store) continues(db *bolt.DB, secret []byte) error {
	mine, err := secretOf(db)
	if err != nil {
		return err
	}
	if secret != nil && !bytes.Equal(secret, mine) {
		return fmt.Errorf("journal/ in %s belongs to instance %s, but CLEAN and cache/kist.db belong to instance %s: "+
			"two data directories were mixed. Nothing was changed. Put the right journal/ back; or, if journal/ and blobs/ "+
			"are the ones you want, remove CLEAN and %s and start again",
			s.dir, datadir.InstanceOf(secret), datadir.InstanceOf(mine), datadir.InstanceName)
	}
	return fits(s.dir, db)
}

// beginFrom begins a new generation of the journal with a snapshot of a working copy.
func (s *Store) beginFrom(db *bolt.DB, at journal.State) error {
	if err := s.journal.Begin(at); err != nil {
		return err
	}
	return db.View(func(b *bolt.Tx) error {
		tx := table.On(b, 0)
		format := (&Tx{Tx: tx}).Format()
		return s.journal.Snapshot(context.Background(), at, format, workcopy.Everything(tx, s.buckets))
	})
}
