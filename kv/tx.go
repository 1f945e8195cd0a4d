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
// --store-mode sync in the object store. If fn fails, its changes are undone and its
// error is returned. Callers that wait at the same time share one commit; a lone caller
// does not wait for others. fn runs once, on a goroutine of the store. It must not do
// slow work or call View or Update.
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
		s.after = nil
		if first.between != nil {
			batch, s.after = batch[:0], first
		} else {
			var err error
			batch, err = s.commit(append(batch[:0], first))
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

	g := groupCommit{s: s, view: v, tx: s.behind.write(v), batch: batch, last: s.last, seq: s.seq}
	defer func() { s.behind.spare = g.tx.Spare() }()

	if err := g.run(); err != nil {
		return g.batch, g.rollback(err)
	}
	if g.tx.Mark() == 0 {
		return g.batch, g.rollback(nil)
	}
	if err := s.ship.Refuse(); err != nil {
		return g.batch, g.rollback(err)
	}
	if err := g.seal(); err != nil {
		return g.batch, g.rollback(err)
	}
	to, err := g.write()
	if err != nil {
		return g.batch, g.rollback(s.failed(err))
	}

	g.show(to)
	return g.batch, s.ship.Committed(to, g.tx.Volume())
}

// A groupCommit is a commit that several callers share. Only the committer uses it.
type groupCommit struct {
	s    *Store
	view view
	tx   *table.Tx // what all jobs write to

	last record.ID // Store.last and Store.seq before the commit, for rollback
	seq  uint64

	batch    []*job        // the jobs so far
	now      time.Time     // the instant of the latest job, which becomes the store's
	after    []refresher   // of the jobs that succeeded
	contents []*blobs.Kept // whose bytes the record carries
	volume   int           // of contents, in bytes

	changed [table.MaxBucket + 1]bool // the buckets that the commit changes, by number
}

// run runs the first job and those that wait behind it. The error is for all of them.
func (g *groupCommit) run() error {
	for j := g.batch[0]; j != nil; j = g.next() {
		if err := g.runJob(j); err != nil {
			return err
		}
	}
	return nil
}

// runJob runs a job and undoes what it changed if it fails. The returned error is of the undoing.
func (g *groupCommit) runJob(j *job) error {
	g.now = g.s.clock.wall()
	tx := &Tx{Tx: g.tx, Now: g.now, s: g.s, view: g.view, write: true}
	mark := g.tx.Mark()
	j.err = run(j.fn, tx)
	if j.err != nil {
		if err := g.tx.Undo(mark); err != nil {
			return fmt.Errorf("undo: %w", err)
		}
		return nil
	}

	g.after = append(g.after, tx.after...)
	for _, c := range tx.carried {
		g.volume += len(c.Bytes)
	}
	g.contents = append(g.contents, tx.carried...)
	return nil
}

// next takes a waiting job into the commit, nil if none waits or the commit is large enough. A
// job that runs between commits ends this one.
func (g *groupCommit) next() *job {
	s := g.s
	if len(g.batch) >= maxBatch || g.tx.Volume()+g.volume >= MaxVolume {
		return nil
	}
	j := s.nextJob()
	if j == nil && (s.crowd || len(g.batch) > 1) {
		runtime.Gosched() // lets other callers hand over their jobs
		j = s.nextJob()
	}
	if j == nil {
		return nil
	}
	if j.between != nil {
		s.after = j
		return nil
	}
	g.batch = append(g.batch, j)
	return j
}

// rollback undoes everything and returns err.
func (g *groupCommit) rollback(err error) error {
	g.s.last, g.s.seq = g.last, g.seq
	return errors.Join(err, g.tx.Undo(0))
}

// seal writes the rows of a commit that no job writes: its instant, the latest id and place, and
// the tallies.
func (g *groupCommit) seal() error {
	s, t := g.s, g.tx
	instant, number := (&Tx{Now: g.now}).Instant(), binary.BigEndian.AppendUint64(nil, s.seq)
	if err := t.Put(workcopy.MetaBucket, MetaInstant, instant); err != nil {
		return err
	}
	if err := s.clock.saveMonotonic(t, g.now); err != nil {
		return err
	}
	if err := t.Put(workcopy.MetaBucket, metaLast, bytes.Clone(s.last[:])); err != nil {
		return err
	}
	if err := t.Put(workcopy.MetaBucket, MetaSeq, number); err != nil {
		return err
	}
	if err := t.Put(workcopy.MetaBucket, MetaTexts, TextsMark(number, instant)); err != nil {
		return err
	}
	return t.Flush()
}

// write appends the record of the commit to the journal and returns the state that it leads to.
// From then on the commit is durable.
func (g *groupCommit) write() (to journal.State, err error) {
	s := g.s
	s.record.Reset(s.state.Digest)
	for _, c := range g.contents {
		workcopy.Carry(&s.record, c.Ref, c.Bytes)
	}
	for got, before := range g.tx.Changes() {
		s.record.Add(journal.Op(got), before)
		g.changed[got.Bucket] = true
	}
	to = journal.State{Seq: s.state.Seq + 1, Digest: s.record.Digest()}

	err = g.append(to)
	if workcopy.NoRoom(err) && s.space.removeBallast() {
		err = g.append(to)
	}
	return to, err
}

func (g *groupCommit) append(to journal.State) error {
	if len(g.contents) > 0 {
		if err := g.s.journal.Carry(g.contents[0].Settle); err != nil {
			return err
		}
	}
	return g.s.journal.Append(&g.s.record, to)
}

// show lets readers see the commit and tells those who wait for changes.
func (g *groupCommit) show(to journal.State) {
	s := g.s
	s.behind.show()
	s.state = to
	s.space.commitSucceeded()
	if s.seq != g.seq {
		select {
		case s.changed <- struct{}{}:
		default: // the previous one was not received yet
		}
	}

	for _, r := range g.after {
		if _, signals := r.(*signal); !signals {
			s.drops.Add(1) // first: see Cache.In
		}
		r.refresh()
	}
	for _, t := range s.schema.Tables {
		if slices.ContainsFunc(t.Watched, func(b table.Bucket) bool { return g.changed[b.No] }) {
			t.Changed(s)
		}
	}
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
		text := "This " + takenWords[taken.Index] + " is in use already."
		return &record.Error{Fault: record.Taken, Code: taken.Index + "_taken", Text: text}
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

// Collect reads all rows with a key prefix.
func Collect[T any](t *table.Table[T], tx *Tx, prefix []byte) ([]T, error) {
	all := []T{}
	for v, err := range t.All(tx.Tx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Rows.Name, err)
		}
		all = append(all, *v)
	}
	return all, nil
}
