package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"kist/blobs"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// Tx is one transaction: a consistent view of the store at one instant.
type Tx struct {
	*table.Tx
	// Now is the instant of the transaction in whole milliseconds. It never goes back.
	Now time.Time

	s     *Store
	view  view
	write bool
	drops uint64      // Store.drops before the transaction began; only in a View
	after []refresher // refreshed when the transaction is committed

	carried []*blobs.Kept // contents whose bytes are in the record of the commit
}

// Clock is what the machine's clock shows, believed or not. Only what comes from other clocks is
// judged by it, never what the store keeps.
func (tx *Tx) Clock() time.Time { return tx.s.clock.now() }

// Carry makes the commit carry the bytes of contents that KeepLater of package blobs
// left. The transaction that gives such a content its record must call it.
func (tx *Tx) Carry(all ...*blobs.Kept) {
	for _, k := range all {
		if k.Bytes != nil {
			tx.carried = append(tx.carried, k)
		}
	}
}

// View runs fn on the committed data. Nothing that fn reads directly from the embedded
// table.Tx may outlive fn; values returned by functions of other packages may. fn must
// not call Update, which may have to wait for fn.
func (s *Store) View(fn func(*Tx) error) error {
	drops := s.drops.Load() // before the view is taken: see Cache
	v, err := s.behind.pin()
	if err != nil {
		return err
	}
	defer v.release()
	return fn(&Tx{Tx: v.read(), Now: s.clock.wall(), s: s, view: v, drops: drops})
}

// Instant returns the instant of the transaction as it is stored.
func (tx *Tx) Instant() []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(tx.Now.UnixMilli()))
}

// job is one caller's transaction on its way through the committer.
type job struct {
	fn      func(*Tx) error
	between func() error // instead of fn: runs outside of any transaction
	err     error
	done    chan struct{}
}

// Update runs fn in a transaction and returns when its changes are on the disk, and with
// --store-mode sync in the object store. If fn fails, its changes are undone and its error is returned. Callers that wait at the
// same time share one commit; a lone caller does not wait for others. fn runs once, on
// a goroutine of the store. It must not do slow work or call View or Update.
func (s *Store) Update(fn func(*Tx) error) error {
	return s.submit(&job{fn: fn, done: make(chan struct{})})
}

// submit hands a job to the committer and waits for it.
func (s *Store) submit(j *job) error {
	s.closing.RLock()
	if s.closed {
		s.closing.RUnlock()
		return ErrClosed
	}
	s.jobs <- j
	s.closing.RUnlock()
	<-j.done
	return j.err
}

// Waiting returns how many callers wait for the committer.
func (s *Store) Waiting() int { return len(s.jobs) }

// These bound how many callers share a commit and how many bytes they change.
const (
	maxBatch  = 512
	MaxVolume = 8 << 20
)

// commitLoop is the only writer. It puts all waiting jobs into one commit.
func (s *Store) commitLoop() {
	batch := make([]*job, 0, maxBatch)
	s.gen.renew(s)
	for {
		var first *job
		select {
		case first = <-s.jobs:
		case <-s.behind.timer.C:
			s.behind.tick()
			continue
		}
		if first == nil { // the store is closing
			s.behind.stop()
			return
		}
		s.crowd = len(batch) > 1
		var err error
		s.after = nil
		if first.between != nil {
			batch, s.after = batch[:0], first
		} else if batch, err = s.commit(append(batch[:0], first)); err != nil {
			for _, j := range batch {
				if j.err == nil {
					j.err = err
				}
			}
		}
		for _, j := range batch {
			close(j.done)
		}
		s.behind.proceed()
		s.gen.renew(s)
		if s.after != nil {
			s.after.err = s.after.between()
			close(s.after.done)
		}
	}
}

// nextJob returns a waiting job, or nil at once if there is none.
func (s *Store) nextJob() *job {
	select {
	case j := <-s.jobs: // nil when the store is closing
		return j
	default:
		return nil
	}
}

// commit runs the job of the batch and those that arrive meanwhile, one after another
// in one transaction, and returns them all. A failed job is undone and keeps its own
// error; the returned error is for all others. An error of the object store comes after the
// changes are on the disk: they stay there, but the callers get the error.
func (s *Store) commit(batch []*job) ([]*job, error) {
	if err := s.behind.refuse(); err != nil {
		return batch, s.failed(err)
	}
	v, err := s.behind.pin()
	if err != nil {
		return batch, err
	}
	defer v.release()
	last, seq := s.last, s.seq
	var after []refresher
	var contents []*blobs.Kept
	volume := 0 // of contents, in bytes
	t := s.behind.write(v)
	defer func() { s.behind.spare = t.Spare() }()
	rollback := func(err error) ([]*job, error) {
		s.last, s.seq = last, seq
		return batch, errors.Join(err, t.Undo(0))
	}
	var now time.Time
	for n := 0; n < len(batch); n++ {
		now = s.clock.wall()
		tx := &Tx{Tx: t, Now: now, s: s, view: v, write: true}
		mark := t.Mark()
		j := batch[n]
		j.err = run(j.fn, tx)
		if j.err == nil {
			after = append(after, tx.after...)
			for _, c := range tx.carried {
				volume += len(c.Bytes)
			}
			contents = append(contents, tx.carried...)
		} else if err := t.Undo(mark); err != nil {
			return rollback(fmt.Errorf("undo: %w", err))
		}
		if len(batch) < maxBatch && t.Volume()+volume < MaxVolume && s.after == nil {
			next := s.nextJob()
			if next == nil && (s.crowd || n > 0) {
				runtime.Gosched() // lets other callers hand over their jobs
				next = s.nextJob()
			}
			switch {
			case next == nil:
			case next.between != nil:
				s.after = next
			default:
				batch = append(batch, next)
			}
		}
	}
	if t.Mark() == 0 {
		return rollback(nil)
	}
	if err := s.ship.Refuse(); err != nil {
		return rollback(err)
	}
	instant, number := (&Tx{Now: now}).Instant(), binary.BigEndian.AppendUint64(nil, s.seq)
	if err := errors.Join(
		t.Put(workcopy.MetaBucket, MetaInstant, instant),
		s.clock.saveMonotonic(t, now),
		t.Put(workcopy.MetaBucket, metaLast, bytes.Clone(s.last[:])),
		t.Put(workcopy.MetaBucket, MetaSeq, number),
		t.Put(workcopy.MetaBucket, MetaTexts, TextsMark(number, instant)),
		t.Flush(),
	); err != nil {
		return rollback(err)
	}
	s.record.Reset(s.state.Digest)
	var changed [table.MaxBucket + 1]bool
	for _, c := range contents {
		workcopy.Carry(&s.record, c.Ref, c.Bytes)
	}
	for got, before := range t.Changes() {
		s.record.Add(journal.Op(got), before)
		changed[got.Bucket] = true
	}
	to := journal.State{Seq: s.state.Seq + 1, Digest: s.record.Digest()}
	write := func() error {
		if len(contents) > 0 {
			if err := s.journal.Carry(contents[0].Settle); err != nil {
				return err
			}
		}
		return s.journal.Append(&s.record, to)
	}
	err = write()
	if workcopy.NoRoom(err) && s.space.removeBallast() {
		err = write()
	}
	if err != nil {
		return rollback(s.failed(err))
	}
	s.behind.show()
	s.state = to
	s.space.commitSucceeded()
	if s.seq != seq {
		select {
		case s.changed <- struct{}{}:
		default: // the previous one was not received yet
		}
	}
	for _, r := range after {
		if _, signals := r.(*signal); !signals {
			s.drops.Add(1) // first: see Cache.In
		}
		r.refresh()
	}
	for _, t := range s.schema.Tables {
		if slices.ContainsFunc(t.Watched, func(b table.Bucket) bool { return changed[b.No] }) {
			t.Changed(s)
		}
	}
	return batch, s.ship.Committed(to, t.Volume())
}

// failed turns the error of a commit that could not be written into one for the client.
func (s *Store) failed(err error) error {
	err = s.space.commitFailed(err)
	if errors.Is(err, ErrUnwritable) && !errors.As(err, new(*copyError)) {
		s.gen.due = true // write a snapshot when the disk works again: its part of the log may be bad too
	}
	return err
}

// run turns a panic of fn into an error, so that one caller's mistake does not abort
// the others' transaction.
func run(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(tx)
}

// NewID makes an id from the transaction's instant (UUID version 7, RFC 9562,
// section 6.2, method 2). Ids of one store sort in the order in which they were made.
func (tx *Tx) NewID() record.ID {
	var id record.ID
	Random(id[6:])
	binary.BigEndian.PutUint64(id[:8], uint64(tx.Now.UnixMilli())<<16|uint64(id[6]&0x07)<<8|uint64(id[7]))
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	if last := tx.s.last; string(id[:8]) <= string(last[:8]) {
		// In the same millisecond, count up in the 12 bits after the version, and
		// carry into the next millisecond when they are full.
		n := binary.BigEndian.Uint64(last[:8])
		ms, seq := n>>16, n&0x0fff+1
		ms, seq = ms+seq>>12, seq&0x0fff
		binary.BigEndian.PutUint64(id[:8], ms<<16|0x7000|seq)
	}
	tx.s.last = id
	return id
}

// IdAt makes an id for an earlier instant, to the millisecond, independent of the
// store's other ids. It sorts after the id after if both are of the same millisecond
// (RFC 9562, section 6.2, method 2: the rest is a random number that grows by a random
// step).
func IdAt(at time.Time, after record.ID) record.ID {
	ms := uint64(max(at.UnixMilli(), 0)) & (1<<48 - 1)
	var hi, lo uint64 // 12 and 62 bits
	var step [16]byte
	Random(step[:])
	if binary.BigEndian.Uint64(after[:8])>>16 == ms {
		const bits = 62
		lo = binary.BigEndian.Uint64(after[8:])&(1<<bits-1) + 1 + binary.BigEndian.Uint64(step[8:])>>(64-40)
		hi = binary.BigEndian.Uint64(after[:8])&0x0fff + lo>>bits
		lo &= 1<<bits - 1
		ms, hi = ms+hi>>12, hi&0x0fff
	} else {
		hi, lo = binary.BigEndian.Uint64(step[:])&0x07ff, binary.BigEndian.Uint64(step[8:])>>2
	}
	var id record.ID
	binary.BigEndian.PutUint64(id[:8], ms<<16|0x7000|hi)
	binary.BigEndian.PutUint64(id[8:], 1<<63|lo)
	return id
}

// UserError turns a table's error into one for users. what names the thing.
func UserError(err error, what string) error {
	var taken *table.Taken
	switch {
	case errors.Is(err, table.ErrMissing):
		return record.NotFound(what)
	case errors.As(err, &taken):
		return &record.Error{Fault: record.Taken, Code: taken.Index + "_taken", Text: "This " + takenWords[taken.Index] + " is in use already."}
	}
	return err
}

var takenWords = map[string]string{"slug": "slug", "tag": "tag name", "folder": "folder name", "username": "user name"}

// Missing reports whether an error says that something does not exist.
func Missing(err error) bool {
	var e *record.Error
	return errors.As(err, &e) && e.Fault == record.Missing
}

// NextSeq takes the next place in the feed. The commit saves the latest place. A place
// that a failed job took stays empty.
func (tx *Tx) NextSeq() uint64 {
	tx.s.seq++
	return tx.s.seq
}

// Store returns the transaction's store.
func (tx *Tx) Store() *Store { return tx.s }

// Schema returns the store's schema.
func (tx *Tx) Schema() *Schema { return tx.s.schema }

// DiskFull reports whether there is no room for new records.
func (tx *Tx) DiskFull() bool { return tx.s.space.None() }

// Bounds returns how much an owner may have.
func (tx *Tx) Bounds() Bounds { return tx.s.most }
