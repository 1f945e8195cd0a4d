package kv

import (
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"kist/kv/journal"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// The names below give tests outside of the package access to its internals.

// StoreBolt returns the working copy with all commits in it.
func StoreBolt(s *Store) *bolt.DB {
	if s.jobs != nil {
		if err := s.between(s.behind.drain); err != nil && !errors.Is(err, ErrClosed) {
			panic(err)
		}
	}
	return s.bolt
}

// Bolt returns the working copy as it is.
func Bolt(s *Store) *bolt.DB { return s.bolt }

// ErrCopy is a copyError in comparisons with errors.Is.
var ErrCopy = new(copyError)

func (e *copyError) Is(target error) bool { return target == ErrCopy }

// Drain brings all commits to the working copy. Call it in Between.
func Drain(s *Store) (*bolt.DB, error) { return s.bolt, s.behind.drain() }

func StoreJournal(s *Store) **journal.Journal { return &s.journal }

func StoreState(s *Store) *journal.State { return &s.state }

func StoreRecord(s *Store) *journal.Record { return &s.record }

func StoreSeq(s *Store) *uint64 { return &s.seq }

func InspectedStore(i *Inspection) *Store { return i.s }

func BareTx(s *Store, b *bolt.Tx) *Tx {
	return &Tx{Tx: table.Write(b, 1, new(table.Mem)), s: s, Now: time.Now()}
}

func Between(s *Store, fn func() error) error { return s.between(fn) }

func CheckDiskSpace(s *Store) { s.space.check() }

func CommitFailed(s *Store, err error) error { return s.failed(err) }

func RetryWrite(s *Store) { s.retryWrite() }

func Scrub(s *Store) (wrong, err error) { return s.scrubs.scrub() }

func Upgrade(s *Store, from uint32) error { return s.upgrade(from) }

func WatchClock(s *Store, closing bool) error { return s.clock.watch(s, closing) }

func TextsHold(tx *Tx) bool { return tx.textsHold() }

func SnapshotUnderWay(s *Store) chan int64 { return s.gen.busy }

func MakeSnapshotDue(s *Store) { s.gen.due = true }

func HasBallast(s *Store) bool { return s.space.held.Load() }

func SetDiskLow(s *Store, low bool) { s.space.low.Store(low) }

func SetBounds(s *Store, each, records int64) { s.most = Bounds{Each: each, Records: records} }

// SetClosed makes the store refuse callers or accept them again.
func SetClosed(s *Store, closed bool) {
	s.closing.Lock()
	s.closed = closed
	s.closing.Unlock()
}

// Rederived returns a store on a new file with everything a repair derives from the
// rows of s.
func Rederived(s *Store, path string, lost func(error)) (*Store, error) {
	db, err := workcopy.OpenCopy(path)
	if err != nil {
		return nil, err
	}
	other := &Store{schema: s.schema}
	other.bolt = db
	other.clock.now = s.clock.now
	other.behind.start(other)
	return other, s.schema.Rederive(StoreBolt(s), db, lost)
}

const (
	BallastMost = ballastMost
	BallastName = ballastName
	ReserveMost = reserveMost
	RetryBytes  = retryBytes
	ScrubFirst  = scrubFirst
)

var TextOf = textOf

// Changed returns the latest change of the format, if one is known.
func (tx *Tx) Changed() (c FormatChange, known bool) {
	return parseChange(tx.Get(workcopy.MetaBucket, metaFormer))
}
