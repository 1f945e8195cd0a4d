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

// The journal is read through scrubFirst after the store was opened and every
// scrubEvery after that; scrubRetry after damage that could not be healed.
const (
	scrubFirst = 5 * time.Second
	scrubEvery = 24 * time.Hour
	scrubRetry = 15 * time.Minute
	// scrubShare is the part of the time that a scrub may be at work: one in
	// scrubShare. The rest it sleeps, but no longer than that the whole journal
	// is read within scrubMost.
	scrubShare = 20
	scrubMost  = 30 * time.Minute
)

// metaHealed holds the number of commits there were when a damaged journal was
// last replaced (8 bytes).
var metaHealed = []byte("healed")

// JournalHealth is what reading the journal in the background has shown since
// the store was opened.
type JournalHealth struct {
	Checked time.Time // when it was last read to its end; zero if it was not yet
	Damaged []string  // what was wrong when damage was last found; nil if there was none
	Healed  time.Time // when a new generation had replaced that; zero if that has not succeeded
}

// A scrubber reads the journal of a store in the background.
type scrubber struct {
	s      *Store
	timer  func(time.Duration) <-chan time.Time // how it waits
	wanted chan struct{}                        // see ScrubNow

	sync.Mutex
	health JournalHealth
}

// JournalHealth says whether the journal is whole, as far as that is known.
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

// loop reads the journal now and then, and replaces it when it is damaged.
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

// ScrubNow has the journal read through in the background at once. It is for
// when somebody else has found damage.
func (s *Store) ScrubNow() {
	select {
	case s.scrubs.wanted <- struct{}{}:
	default: // it is about to be
	}
}

// scrubAndHeal reads the journal and begins a new generation if it is damaged.
// It reports whether the journal is whole in the end.
func (c *scrubber) scrubAndHeal() bool {
	s := c.s
	wrong, err := c.scrub()
	if err == nil && wrong != nil {
		// The working copy holds everything, and the digest proves it: a snapshot
		// of it makes the damaged part superfluous.
		s.log.Error("the journal is damaged; a new generation is begun from the working copy", "damage", wrong)
		damage := wrong
		wrong, err = c.heal()
		c.note(func(h *JournalHealth) {
			h.Damaged, h.Healed = []string{damage.Error()}, time.Time{}
			if err == nil && wrong == nil {
				h.Healed = s.clock.now().UTC()
			}
		})
		if err == nil && wrong == nil {
			s.log.Warn("the journal is whole again: a new generation has replaced what was damaged", "damage", damage)
		} else if s.stopping.Err() == nil {
			s.log.Error("the damaged journal could not be replaced: what was committed since the damage would be lost with the working copy; make a backup now",
				"damage", damage, "error", errors.Join(err, wrong))
		}
	}
	switch {
	case s.stopping.Err() != nil:
		return false
	case err != nil:
		s.log.Error("the journal could not be read through; it is tried again", "error", err)
		return false
	}
	c.note(func(h *JournalHealth) {
		h.Checked = s.clock.now().UTC()
		if wrong == nil && h.Damaged != nil && h.Healed.IsZero() { // an earlier try failed, and a generation has begun since
			h.Healed = h.Checked
		}
	})
	return wrong == nil
}

// scrub reads what a start would read, as of now. It is slow on purpose.
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
	total int64     // bytes there are to read, at most
	last  time.Time // when the last read began
}

// wait is how long to sleep before n bytes are read.
func (p *pace) wait(n int, now time.Time) time.Duration {
	busy := max(now.Sub(p.last), 0) * (scrubShare - 1)
	limit := time.Duration(float64(scrubMost) * float64(n) / float64(max(p.total, int64(n))))
	return min(busy, limit)
}

// heal replaces a damaged journal by a new generation, and reads that.
func (c *scrubber) heal() (wrong, err error) {
	s := c.s
	// One commit more: the new log must not have the name of one that is there.
	if err := s.Update(func(tx *Tx) error {
		return tx.Put(workcopy.MetaBucket, metaHealed, binary.BigEndian.AppendUint64(nil, s.state.Seq))
	}); err != nil {
		return nil, err
	}
	for begun := false; !begun; {
		var written <-chan struct{}
		if err := s.between(func() error {
			for range 2 { // the first may but learn that the snapshot before has failed
				s.gen.due, s.gen.retry = true, time.Time{}
				if s.gen.renew(s); !s.gen.due || s.gen.busy != nil {
					break
				}
			}
			begun, written = !s.gen.due, s.gen.written
			if !begun && s.gen.busy == nil {
				return errors.New("no new log could be begun")
			}
			return nil
		}); err != nil {
			return nil, err
		}
		select { // for this snapshot, or for one that was under way
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

// restart opens the working copy that a clean stop has proven whole, beside a
// journal that is damaged, and writes a new generation from it before anything
// else. It does nothing if the journal has records that the copy has not: then
// one of the two is of another time. Nor does it if they are of two instances:
// secret is what the journal says, nil if that is not known.
func (s *Store) restart(path string, clean datadir.Proof, secret []byte, damage error) (done bool, err error) {
	survey, err := s.journal.Survey(0, func(int64) {})
	if err != nil || survey.Last() > clean.Seq {
		return false, nil //nolint:nilerr // the damage is what is told
	}
	db, err := workcopy.OpenCopy(path)
	if err != nil {
		return false, nil //nolint:nilerr // as above
	}
	mine, err := secretOf(db)
	if err == nil && secret != nil && !bytes.Equal(secret, mine) {
		err = fmt.Errorf("journal/ in %s is of instance %s, but CLEAN and cache/kist.db are of instance %s: two data directories were mixed. Nothing was changed. Put the right journal/ back; or, if journal/ and blobs/ are the ones you want, remove CLEAN and %s and start again", s.dir, datadir.InstanceOf(secret), datadir.InstanceOf(mine), datadir.InstanceName)
	}
	if err = errors.Join(err, workcopy.Current(db), belongs(s.dir, db)); err != nil {
		return false, errors.Join(err, db.Close())
	}
	s.log.Error("the journal is damaged; the working copy is whole, as the last stop has proven, and a new generation is begun from it", "damage", damage)
	err = s.journal.Begin(clean.State())
	if err == nil {
		err = db.View(func(tx *bolt.Tx) error {
			format := (&Tx{Tx: table.On(tx)}).Format()
			return s.journal.Snapshot(context.Background(), clean.State(), format, workcopy.Everything(tx, s.buckets))
		})
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("the journal is damaged (%w), and a new generation cannot be written", damage), err, db.Close())
	}
	s.bolt, s.state = db, clean.State()
	now := s.clock.now().UTC()
	s.scrubs.note(func(h *JournalHealth) { h.Damaged, h.Healed = []string{damage.Error()}, now })
	s.log.Warn("the journal is whole again: a new generation has replaced what was damaged", "damage", damage)
	return true, nil
}
