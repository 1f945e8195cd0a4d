// Package kv is the engine of the store: transactions, the committer, the clock, disk
// space and the health of the journal. It knows the records, their slugs and their feed of
// changes, and other tables only through the Schema that it is opened with. The packages
// that use it (people, jobs, catalog, history, inbox) hold the data of the program; their
// functions take a Tx.
package kv

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/blobs/disk"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// ErrClosed says that the store is closed or closing.
var ErrClosed = errors.New("the store is closed")

// Options configure a Store.
type Options struct {
	Schema *Schema          // defines what is stored; required
	Now    func() time.Time // the wall clock; time.Now if nil
	// Elapsed is a monotonic clock; leaps of Now are measured against it. If it is
	// nil and Now is nil too, it is the system's. If only Elapsed is nil, Now is
	// always believed.
	Elapsed func() time.Duration
	Log     *slog.Logger // for background work; slog.Default if nil
	// Rebuild is called before Open rebuilds the working copy, which may take long.
	// The directory is locked then. progress is called often, with the share that is
	// done, from 0 to 1. If Rebuild fails, Open returns its error. It may be nil.
	Rebuild func() (progress func(share float64), err error)

	Space     func() (disk.Room, error)            // of the disk; the system is asked if nil
	Timer     func(time.Duration) <-chan time.Time // waits for a scrub; time.After if nil
	Monotonic func() time.Duration                 // the monotonic clock of retries; the system's if nil

	Ship *ship.Shipper // copies the store elsewhere; may be nil
}

// A Store is an open data directory. It is safe for concurrent use.
type Store struct {
	// Set by Open, and not changed afterwards.
	dir        string
	schema     *Schema
	buckets    *table.Buckets // of schema
	log        *slog.Logger
	lock       *datadir.Lock
	rebuilding func() (progress func(share float64), err error) // see Options.Rebuild; may be nil
	bolt       *bolt.DB                                         // the working copy
	journal    *journal.Journal
	ship       *ship.Shipper // copies commits to an object store; nil without one
	most       Bounds
	jobs       chan *job       // to the committer
	changed    chan struct{}   // see Changed
	stopping   context.Context // done when the store is being closed
	stop       context.CancelFunc

	// Used by the committer only, once Open has read them.
	record journal.Record // of the current commit
	state  journal.State  // after the last commit
	last   record.ID      // the latest id
	seq    uint64         // the latest place in the feed of changes
	crowd  bool           // the previous commit had several callers
	after  *job           // runs when the current commit has ended
	gen    generation

	// Safe for concurrent use, each in its own way.
	behind behind
	space  diskSpace
	scrubs scrubber
	clock  timekeeper    // whether the wall clock is believed
	slots  sync.Map      // see Slot
	drops  atomic.Uint64 // how often caches were dropped; see Cache

	closing sync.RWMutex   // held for reading while a job is handed over
	closed  bool           // under closing
	once    sync.Once      // of Close
	work    sync.WaitGroup // the committer, applyLoop and a snapshot
	ticking sync.WaitGroup // flushLoop and scrubs.loop
}

// Open opens the data directory. It makes the directory with mode 0700 if it does not
// exist. It refuses a directory that others may write to, that another process has
// open, or that has a newer format. It changes nothing then, not even the file LOCK.
func Open(dir string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
		if o.Elapsed == nil {
			o.Elapsed = monotonic()
		}
	}
	if err := secure(dir); err != nil {
		return nil, err
	}
	if err := workcopy.Readable(dir); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, datadir.StandbyName)); err == nil {
		return nil, fmt.Errorf("%s is the data of a standby, which this version of kist does not have: "+
			"to get a server, run kist restore from the object store into an empty data directory, "+
			"and start that one with kist serve --store ADDRESS --take-over", dir)
	}
	l, err := datadir.Acquire(filepath.Join(dir, "LOCK"))
	if err != nil {
		return nil, err
	}

	s := &Store{
		dir: dir, schema: o.Schema, buckets: o.Schema.Buckets(), log: cmp.Or(o.Log, slog.Default()),
		lock: l, rebuilding: o.Rebuild, jobs: make(chan *job, 256), changed: make(chan struct{}, 1),
	}
	s.clock.log, s.clock.now, s.clock.elapsed = s.log, o.Now, o.Elapsed
	s.clock.uptime = o.Monotonic
	if o.Monotonic == nil {
		start := time.Now()
		s.clock.uptime = func() time.Duration { return time.Since(start) }
	}
	s.most = Bounds{Each: maxEach, Records: maxRecords}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.gen.begun = time.Now()
	s.scrubs.s, s.scrubs.wanted = s, make(chan struct{}, 1)
	s.scrubs.timer = o.Timer
	if o.Timer == nil {
		s.scrubs.timer = time.After
	}
	s.space.log, s.space.prune = s.log, s.prune
	s.space.space = o.Space
	if o.Space == nil {
		s.space.space = func() (disk.Room, error) { return disk.Space(dir) }
	}
	s.behind.start(s)

	if err := s.open(o.Ship); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	s.work.Go(s.commitLoop)
	s.work.Go(s.behind.applyLoop)
	s.ticking.Go(s.flushLoop)
	s.ticking.Go(s.scrubs.loop)
	s.ship.Await()
	return s, nil
}

// secure makes the data directory or refuses one that is open to others.
func secure(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("cannot open the data directory: %w", err)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0: // Windows has no such bits
		return fmt.Errorf("the data directory %s can be written by others (mode %04o); run: chmod 700 %s",
			dir, info.Mode().Perm(), dir)
	}
	return nil
}

// open opens the contents of the directory and brings them to the current format.
func (s *Store) open(shipper *ship.Shipper) error {
	j, err := journal.Open(filepath.Join(s.dir, "journal"), workcopy.Format)
	if err != nil {
		return err
	}
	s.journal = j
	j.Aside(filepath.Join(s.dir, "cache"))
	j.OnDisk(s.space.forJournal)

	if err := s.openOn(shipper); err != nil {
		err = errors.Join(err, j.Close())
		if s.bolt != nil {
			err = errors.Join(err, s.bolt.Close())
		}
		return err
	}
	return nil
}

// openOn is open once there is a journal, which open closes after an error.
func (s *Store) openOn(shipper *ship.Shipper) (err error) {
	if err := s.load(); err != nil {
		return err
	}
	if err := datadir.DropProof(s.dir); err != nil {
		return err
	}
	if err := s.space.open(s.dir); err != nil {
		return err
	}
	s.gen.ended, err = s.journal.Ended()
	if err != nil {
		return err
	}

	if err := s.prepare(); err != nil {
		return err
	}
	// Before anything is acknowledged.
	if err := s.keepInstance(); err != nil {
		return err
	}

	if shipper != nil {
		s.ship = shipper
		if err := s.startShipping(); err != nil {
			return err
		}
	}
	if err := datadir.DropUnfinished(s.dir); err != nil {
		s.log.Warn("cannot remove the remains of an unfinished repair", "error", err)
	}
	return nil
}

// prepare brings the store to the current format in one commit and reads what the
// committer needs to know.
func (s *Store) prepare() error {
	if err := s.bolt.Update(func(b *bolt.Tx) error { return table.Create(b, s.buckets) }); err != nil {
		return err
	}

	from := uint32(workcopy.Format)
	err := s.View(func(tx *Tx) error {
		s.clock.start(tx.Tx)
		if v := tx.Get(workcopy.MetaBucket, metaLast); len(v) == 16 {
			s.last = record.ID(v)
		}
		if v := tx.Get(workcopy.MetaBucket, MetaSeq); len(v) == 8 {
			s.seq = binary.BigEndian.Uint64(v)
		}
		if v := tx.Get(workcopy.MetaBucket, workcopy.MetaFormat); len(v) == 4 {
			from = binary.BigEndian.Uint32(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.journal.SetClock(s.Now) // a clock that jumped must not age the generations
	if from < workcopy.Format {
		if err := s.upgrade(from); err != nil {
			return err
		}
	}

	was := from
	j := &job{fn: func(tx *Tx) error {
		if !tx.textsHold() {
			if err := tx.sumTexts(); err != nil {
				return err
			}
		}
		if from < workcopy.Format {
			if err := tx.noteFormer(from, s.state.Seq); err != nil {
				return err
			}
		}
		for ; from < workcopy.Format; from++ {
			for _, step := range s.schema.Migrations[from] {
				if err := step(tx); err != nil {
					return fmt.Errorf("cannot bring the data from format %d to %d: %w", from, from+1, err)
				}
			}
		}
		if tx.Get(workcopy.MetaBucket, MetaSecret) == nil {
			secret := make([]byte, 32)
			Random(secret)
			if err := tx.Put(workcopy.MetaBucket, MetaSecret, secret); err != nil {
				return err
			}
		}
		return tx.Put(workcopy.MetaBucket, workcopy.MetaFormat, binary.BigEndian.AppendUint32(nil, workcopy.Format))
	}}
	_, err = s.commit([]*job{j})
	if j.err != nil {
		return j.err
	}
	if err != nil {
		return err
	}
	if was < workcopy.Format {
		s.tellChanged()
	}

	return s.View(func(tx *Tx) error {
		for _, t := range s.schema.Tables {
			if t.Load != nil {
				t.Load(s, tx.Tx)
			}
		}
		return nil
	})
}

// Log returns the logger for background work.
func (s *Store) Log() *slog.Logger { return s.log }

// Dir returns the data directory.
func (s *Store) Dir() string { return s.dir }

// Secret returns 32 random bytes that are unique to this store and never change.
func (s *Store) Secret() ([32]byte, error) {
	var secret [32]byte
	return secret, s.View(func(tx *Tx) error {
		if copy(secret[:], tx.Get(workcopy.MetaBucket, MetaSecret)) != len(secret) {
			return errors.New("the store has no secret")
		}
		return nil
	})
}

// Now returns the instant that a transaction would have if it began now.
func (s *Store) Now() time.Time { return s.clock.wall() }

// flushEvery is how long views of unlimited items, the last use of keys and wrong
// tries may stay in memory. A killed process loses at most that much of them.
const flushEvery = time.Second

func (s *Store) flushLoop() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-tick.C:
			s.space.check()
			s.behind.retry()
			if s.ship.Refuse() == ship.ErrOver { // nothing can be written
				continue
			}
			s.retryWrite()
			if err := s.clock.watch(s, false); err != nil {
				s.log.Error("cannot save the doubt about the clock; will try again", "error", err)
			}
			for _, t := range s.schema.Tables {
				if t.Tick != nil {
					t.Tick(s)
				}
			}
			if err := s.Flush(); err != nil {
				s.log.Error("cannot write counts; they are kept for the next attempt", "error", err)
			}
		}
	}
}

// Flush writes the counts in memory. Counts that cannot be written stay in memory.
func (s *Store) Flush() error {
	var writes []func(*Tx) error
	var back []func()
	for _, t := range s.schema.Tables {
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

// Close waits for running transactions, writes the counts in memory, writes the proof
// that the working copy is whole, and unlocks the data directory. A second call does
// nothing.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.stop()
		s.ticking.Wait() // flushLoop may be writing counts
		if refused := s.ship.Refuse(); refused != nil {
			s.log.Warn("the counts of the last second cannot be written", "error", refused)
		} else {
			err = errors.Join(s.Flush(), s.clock.stop(s))
		}
		err = errors.Join(err, s.ship.Close())

		s.closing.Lock()
		s.closed = true
		close(s.jobs)
		s.closing.Unlock()
		s.work.Wait()
		err = errors.Join(err, s.behind.left)

		log, size := s.journal.End()
		db := s.bolt
		err = errors.Join(err, db.Sync(), db.Close(), s.journal.Close(), s.space.folder.Close())
		if err == nil { // otherwise there is no proof
			err = datadir.Certify(s.dir, s.state, log, size)
		}
		err = errors.Join(err, s.lock.Release())
	})
	return err
}

// Random fills b from the system's cryptographic source, which cannot fail.
func Random(b []byte) { _, _ = rand.Read(b) }
