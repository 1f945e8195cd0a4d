package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// ViewTable keeps the view counters of records and upload requests. A repair copies
// them together with those.
var ViewTable = kv.Table{
	Buckets: []table.Bucket{ViewBucket},
	Check: func(a *kv.Audit) {
		if n := a.Count(ViewBucket) - a.Owed[ViewBucket]; n != 0 {
			a.Say("%d counters of views belong to no item", n)
		}
		delete(a.Owed, ViewBucket)
	},
	Flush: flushViews,
}

// viewCounts counts views in memory until the next flush.
type viewCounts struct {
	sync.Mutex
	views map[[record.KeySize]byte]int64 // of upload requests
	days  map[itemDay]*history.VisitDay  // of records
	hosts int                            // in days
	log   []history.LoggedVisit
	by    map[itemNetwork]bool // who is in log
}

// itemNetwork is who is logged once in a flush: see history.LogVisits.
type itemNetwork struct {
	item    [record.KeySize]byte
	network string
}

type itemDay struct {
	item [record.KeySize]byte
	day  history.Day
}

// Bounds of what is kept in memory about visits. Beyond them, visits are only counted.
const (
	maxHosts = 20_000
	maxLog   = 2000
)

var pendingViews kv.Slot[viewCounts]

// CountLater counts n views of the upload request with the key. The count is written
// within a second.
func CountLater(s *kv.Store, key [record.KeySize]byte, n int64) {
	c := pendingViews.Of(s)
	c.Lock()
	defer c.Unlock()
	if c.views == nil {
		c.views = map[[record.KeySize]byte]int64{}
	}
	c.views[key] += n
}

// visitLater is CountLater for one visit of a record.
func visitLater(s *kv.Store, r *record.Record, v history.Visit) {
	at := itemDay{[record.KeySize]byte(r.Key()), history.DayOf(v.At)}
	c := pendingViews.Of(s)
	c.Lock()
	defer c.Unlock()
	if c.days == nil {
		c.days = map[itemDay]*history.VisitDay{}
	}
	d := c.days[at]
	if d == nil {
		d = &history.VisitDay{Item: at.item, Day: at.day}
		c.days[at] = d
	}
	if r.Logged {
		c.logOnce(history.LoggedVisit{Item: at.item, Visit: v})
	}
	if c.hosts >= maxHosts {
		v.Referrer = ""
	}
	before := len(d.Hosts)
	d.Count(v)
	c.hosts += len(d.Hosts) - before
}

// logOnce keeps a visit for the log, unless one of the network is kept already.
func (c *viewCounts) logOnce(v history.LoggedVisit) {
	by := itemNetwork{v.Item, v.Network}
	if c.by[by] || len(c.log) >= maxLog {
		return
	}
	if c.by == nil {
		c.by = map[itemNetwork]bool{}
	}
	c.by[by] = true
	c.log = append(c.log, v)
}

// flushViews takes the views counted in memory.
func flushViews(s *kv.Store) (write func(*kv.Tx) error, giveBack func()) {
	c := pendingViews.Of(s)
	c.Lock()
	defer c.Unlock()
	views, days, log := c.views, c.days, c.log
	c.views, c.days, c.log, c.by, c.hosts = nil, nil, nil, nil, 0
	if len(views) == 0 && len(days) == 0 {
		return nil, nil
	}
	return func(tx *kv.Tx) error {
			for key, n := range views {
				if err := countRequest(tx, key[:], n); err != nil {
					return err
				}
			}
			for _, d := range days {
				if err := alone(tx, func() error { return countDay(tx, d) }); err != nil {
					return err
				}
			}
			return logAll(tx, log)
		}, func() {
			for key, n := range views {
				CountLater(s, key, n)
			}
			c.Lock()
			defer c.Unlock()
			since := c.log
			c.log, c.by = nil, nil
			for _, v := range append(log, since...) {
				c.logOnce(v)
			}
			if c.days == nil {
				c.days = map[itemDay]*history.VisitDay{}
			}
			for at, d := range days {
				if since := c.days[at]; since != nil {
					c.hosts -= len(since.Hosts)
					d.Merge(since)
				}
				c.hosts += len(d.Hosts)
				c.days[at] = d
			}
		}
}

// alone runs a part of a flush. If it fails, it is undone and logged, because it must not
// hold up the others' counts.
func alone(tx *kv.Tx, part func() error) error {
	mark := tx.Mark()
	if err := part(); err != nil {
		tx.Store().Log().Error("views not counted", "error", err)
		return tx.Undo(mark)
	}
	return nil
}

// countDay adds visits that were counted in memory to a record's views and days.
func countDay(tx *kv.Tx, d *history.VisitDay) error {
	r, err := RecordRows.Get(tx.Tx, d.Item[:])
	if errors.Is(err, table.ErrMissing) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	if err := count(tx, r, d.Views()); err != nil {
		return err
	}
	return history.AddDay(tx, d)
}

// logAll adds the visits to the logs of their items.
func logAll(tx *kv.Tx, log []history.LoggedVisit) error {
	of := map[[record.KeySize]byte][]history.Visit{}
	for i := range log {
		of[log[i].Item] = append(of[log[i].Item], log[i].Visit)
	}
	for item, all := range of {
		if err := alone(tx, func() error {
			r, err := RecordRows.Get(tx.Tx, item[:])
			if errors.Is(err, table.ErrMissing) {
				return nil
			}
			if err != nil {
				return err
			}
			return logVisits(tx, r, all)
		}); err != nil {
			return err
		}
	}
	return nil
}

// logVisits adds visits, in order, to the log of the record, and the event if it is due.
func logVisits(tx *kv.Tx, r *record.Record, all []history.Visit) error {
	if tell, err := history.LogVisits(tx, r, all); err != nil || !tell {
		return err
	}
	return emit(tx, jobs.ShareOpened, r)
}

// RefillViews copies the counter of a record or an upload request.
func RefillViews(r *kv.Refill, id record.ID) error {
	if n := r.Before.Get(ViewBucket, id[:]); n != nil {
		return r.Put(ViewBucket, bytes.Clone(id[:]), bytes.Clone(n))
	}
	return nil
}

// views is a record's counter: all views, and those that count against its limit.
type views struct{ total, used int64 }

func (v views) row() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(v.total)), uint64(v.used))
}

func recordViews(tx *kv.Tx, r *record.Record) views { return viewsOf(tx, r.ID) }

func viewsOf(tx *kv.Tx, id record.ID) views {
	if b := tx.Get(ViewBucket, id[:]); len(b) == 16 {
		return views{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
	}
	return views{}
}

// ViewCount is how many times the record or upload request with the id was opened.
func ViewCount(tx *kv.Tx, id record.ID) int64 { return viewsOf(tx, id).total }

// Used is how many views have counted against the record's limit.
func Used(tx *kv.Tx, r *record.Record) int64 { return recordViews(tx, r).used }

func setViews(tx *kv.Tx, r *record.Record, before, got views) error {
	if err := tx.Delete(recordOrder, ViewOrder(r, before.total)); err != nil {
		return err
	}
	if err := tx.Put(recordOrder, ViewOrder(r, got.total), nil); err != nil {
		return err
	}
	return tx.Put(ViewBucket, r.ID[:], got.row())
}

// count adds n views that were counted in memory. Only items without a limit are
// counted there, so if the item has a limit now, the views came before it.
func count(tx *kv.Tx, r *record.Record, n int64) error {
	before := recordViews(tx, r)
	return setViews(tx, r, before, views{before.total + n, before.used})
}

// countRequest adds n views that were counted in memory to the request with the key.
func countRequest(tx *kv.Tx, key []byte, n int64) error {
	if tx.Get(kv.RequestBucket, key) == nil {
		return nil // removed meanwhile
	}
	id := key[len(key)-len(record.ID{}):]
	before := viewsOf(tx, record.ID(id))
	return tx.Put(ViewBucket, bytes.Clone(id), views{before.total + n, before.used}.row())
}

// Seen counts one view of an item by someone other than its owner and returns nil,
// Missing or Gone: whether the item may be delivered. For an item with a limit the
// count, and the action after the last view, are on the disk when Seen returns.
// Otherwise the count is written within a second. r is the record as the caller read
// it, but the current record decides. v is the visit; Seen sets its time.
func Seen(s *kv.Store, r *record.Record, v history.Visit) error {
	if r.Limit == 0 {
		v.At = s.Now()
		visitLater(s, r, v)
		return nil
	}
	return seenLimited(s, r, v)
}

// seenLimited is Seen for an item with a limit. A function of its own keeps v of Seen off
// the heap.
func seenLimited(s *kv.Store, r *record.Record, v history.Visit) error {
	var verdict error
	err := s.Update(func(tx *kv.Tx) error {
		now, err := RecordRows.Get(tx.Tx, r.Key())
		if err != nil {
			return kv.UserError(err, "item")
		}
		if err := now.Open(tx.Now); err != nil {
			return err
		}
		before := recordViews(tx, now)
		used, due, refused := now.Spend(before.used)
		verdict = refused
		if refused == nil {
			v.At = tx.Now
			if err := setViews(tx, now, before, views{before.total + 1, used}); err != nil {
				return err
			}
			if err := noteVisit(tx, now, v); err != nil {
				return err
			}
		}
		if due {
			return limitReached(tx, now)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return verdict
}

// noteVisit adds a visit to the day of the record and to its log.
func noteVisit(tx *kv.Tx, r *record.Record, v history.Visit) error {
	d := &history.VisitDay{Item: [record.KeySize]byte(r.Key()), Day: history.DayOf(v.At)}
	d.Count(v)
	if err := history.AddDay(tx, d); err != nil {
		return err
	}
	return logVisits(tx, r, []history.Visit{v})
}

// limitReached takes the action that the owner chose for when the limit is used up.
func limitReached(tx *kv.Tx, r *record.Record) error {
	if err := emit(tx, jobs.LimitReached, r); err != nil {
		return err
	}
	if err := note(tx, people.ItemSpent, r); err != nil {
		return err
	}
	if r.AtLimit == record.Delete {
		terms := r.Terms()
		row := append(tx.Instant(), terms[:]...)
		if r.Kind != record.Collections && len(r.Shows()) == 0 {
			if err := Remove(tx, r); err != nil {
				return err
			}
			return tx.Put(spentBucket, bytes.Clone(r.ID[:]), row)
		}
		// The last visitor goes on reading the items of a collection and the pictures of a text: see DropSpent.
		if err := tx.Put(spentBucket, bytes.Clone(r.ID[:]), append(row, r.Owner[:]...)); err != nil {
			return err
		}
	}
	r.Close()
	return save(tx, r)
}

// SpentTable remembers records that were deleted on reaching their limit, and collections and texts with pictures that
// DropSpent will delete.
var SpentTable = kv.Table{
	Buckets: []table.Bucket{spentBucket},
	Refill:  func(r *kv.Refill) error { return r.Copy(spentBucket, nil) },
}

// spentTime is how long such a record is remembered. The grant of its last visitor expires before that.
const spentTime = time.Hour

const (
	spentSize  = 8 + 16         // when, and the record's terms
	spentWaits = spentSize + 16 // and the owner of one that waits
)

// Spent reports whether the owner's record was deleted recently on reaching its limit,
// had these terms then, and the account is enabled.
func Spent(tx *kv.Tx, owner, id record.ID, terms [16]byte) (bool, error) {
	if v := tx.Get(spentBucket, id[:]); len(v) != spentSize || [16]byte(v[8:]) != terms {
		return false, nil
	}
	disabled, err := people.Disabled(tx, owner)
	return !disabled, err
}

// DropSpent deletes old rows of SpentTable, and what waits there when its last visitor has had spentTime to read it. If
// these are many, some stay for the next call.
func DropSpent(tx *kv.Tx) error {
	over := map[record.ID]record.ID{} // owners of those that wait
	for k, v := range tx.Walk(spentBucket, nil, nil, false) {
		waits := len(v) == spentWaits
		if (waits || len(v) == spentSize) && int64(binary.BigEndian.Uint64(v)) >= tx.Now.Add(-spentTime).UnixMilli() {
			continue
		}
		var owner record.ID
		if waits {
			owner = record.ID(v[spentSize:])
		}
		over[record.ID(k)] = owner
	}

	for id, owner := range over {
		if tx.Volume() > kv.MaxVolume {
			break
		}
		err := removeSpent(tx, owner, id)
		if err != nil {
			return err
		}
		if err := tx.Delete(spentBucket, bytes.Clone(id[:])); err != nil {
			return err
		}
	}
	return nil
}

// removeSpent deletes a record that waits, unless its owner has opened it again.
func removeSpent(tx *kv.Tx, owner, id record.ID) error {
	for _, k := range []*record.Kind{record.Collections, record.Notes, record.Recipes, record.Games} {
		r, err := RecordRows.Get(tx.Tx, record.RowKey(owner, k, id))
		if errors.Is(err, table.ErrMissing) {
			continue
		}
		if err != nil {
			return err
		}
		if !r.Reached || r.AtLimit != record.Delete {
			return nil
		}
		return Remove(tx, r)
	}
	return nil
}
