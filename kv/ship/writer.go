package ship

// The writer is the server that put the newest slot. A server that finds another server's slot
// under the number that it was about to put stops writing.

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"kist/blobs"
	"kist/kv/datadir"
	"kist/kv/journal"
)

// attach makes this server the writer. Afterwards s.complete is false if the store lacks records
// before the next slot: see begin.
func (s *Shipper) attach(ctx context.Context) error {
	err := s.race(ctx)
	unfit := (*blobs.Unfit)(nil)
	if errors.As(err, &unfit) && unfit.Bare && s.wasSealed() {
		return &overError{Replaced(s.o.Address)}
	}
	if err != nil {
		return err
	}
	if err := s.meta(ctx); err != nil {
		return err
	}
	if err := s.findSnapshot(ctx); err != nil {
		return err
	}

	for {
		last, err := s.history.last(ctx, s.lineage.Slot)
		if err != nil {
			return err
		}
		complete, err := s.mayFollow(last)
		if err != nil {
			return err
		}
		if last == nil {
			last = &Slot{}
		}
		fenced, err := s.fence(ctx, last)
		if err != nil {
			return err
		}
		if !fenced {
			continue
		}

		s.lineage.Epoch, s.lineage.Slot = s.last.Epoch, s.last.Number
		if err := writeLineage(s.src.Dir, s.lineage); err != nil {
			return err
		}
		s.src.Journal.KeepFrom(last.After.Seq)
		s.setComplete(complete)
		s.writer = true
		return nil
	}
}

// race finds out, once, whether the store lets one writer win.
func (s *Shipper) race(ctx context.Context) error {
	if s.raced {
		return nil
	}
	exact, err := Race(ctx, s.o.Endpoints...)
	if err != nil {
		return err
	}
	s.raced = true
	if !exact {
		s.o.Log.Warn("the object store lets several writers win; it is used as a backup, "+
			"and no other server can take over", "store", s.o.Address)
	}
	s.with(func() { s.status.Exact = exact })
	return nil
}

// findSnapshot looks for the newest snapshot in the store.
func (s *Shipper) findSnapshot(ctx context.Context) error {
	snaps, err := s.history.snaps(ctx, time.Time{})
	if err != nil || len(snaps) == 0 {
		return err
	}
	newest := snaps[len(snaps)-1]
	o, err := s.o.Remote.Head(ctx, snapName(newest))
	if err != nil {
		return err
	}
	s.with(func() { s.snap, s.status.LastSnapshot = newest, o.ModTime })
	return nil
}

// mayFollow makes sure that this server may write after the newest slot, which is nil if there is
// none. It returns whether the local journal has all records after it.
func (s *Shipper) mayFollow(last *Slot) (complete bool, err error) {
	if err := s.claim(last); err != nil {
		return false, err
	}
	if !s.Status().Exact && last != nil && hex.EncodeToString(last.Writer[:]) != s.lineage.Writer {
		return false, &overError{fmt.Sprintf("%s lets several writers win, so this server cannot stop the one that "+
			"wrote to it last (%s); use another prefix", s.o.Address, cmp.Or(last.URL, "of an unknown address"))}
	}
	complete, err = s.continues(last)
	if err != nil {
		return false, err
	}
	if files := s.lineage.Files; !complete && files != "" && files != s.o.Address {
		return false, &overError{fmt.Sprintf("this data directory has files that are only in %s; "+
			"use that address, or restore from it with --fetch-all", files)}
	}
	return complete, nil
}

// fence puts a slot without records and with a higher epoch after the last one, which stops a
// former writer. It reports false if there are later slots by now.
func (s *Shipper) fence(ctx context.Context, last *Slot) (bool, error) {
	last.Frames, last.Times = nil, nil
	s.last = *last
	s.with(func() { s.shipped = last.After })
	s.last.Epoch++
	err := s.put(ctx, Slot{Before: last.After, After: last.After})
	if errors.As(err, new(*takenError)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	// If slots up to this number were merged meanwhile, nobody would read this fence.
	newest, err := s.history.last(ctx, s.last.Number)
	if err != nil {
		return false, err
	}
	return newest.Process == s.process, nil
}

// claim makes sure that the data directory may write after the newest slot, which is nil if
// there is none, and notes it as the writer before the store knows that. Without
// Options.TakeOver it must be the directory that wrote that slot, and no copy of it.
func (s *Shipper) claim(last *Slot) error {
	here, err := datadir.Place(s.src.Dir)
	if err != nil {
		return err
	}
	l := s.lineage
	copied := l.Writer != "" && l.Place != "" && here != "" && l.Place != here
	if last != nil && !s.o.TakeOver {
		url := cmp.Or(last.URL, "of an unknown address")
		switch {
		case hex.EncodeToString(last.Writer[:]) == l.Writer && copied:
			return &overError{fmt.Sprintf("this data directory is a copy of the one that writes to %s. "+
				"If the server of that one does not run any more, start this one once with --take-over; "+
				"if it does, start this one without --store", s.o.Address)}
		case hex.EncodeToString(last.Writer[:]) == l.Writer:
		case l.Writer == "":
			return &overError{fmt.Sprintf("another server (%s) writes to %s. "+
				"If it does not run any more, start this one once with --take-over; "+
				"if it does, use another prefix", url, s.o.Address)}
		default:
			return &overError{fmt.Sprintf("another server (%s) has taken over %s, "+
				"or wrote there after the moment that was restored here. Use that server. "+
				"If it does not run any more, start this one once with --take-over; "+
				"if changes are there that this one lacks, "+
				"restore from there into an empty data directory first", url, s.o.Address)}
		}
	}

	if l.Writer == "" || copied && s.o.TakeOver { // the other directory must notice
		writer := randomID()
		l.Writer = hex.EncodeToString(writer[:])
	}
	if s.o.Evicts && l.Files == "" {
		l.Files = s.o.Address
	}
	if s.o.Sealed {
		l.Sealed = s.o.Address
	}
	l.Place = here
	s.lineage = l
	return writeLineage(s.src.Dir, l)
}

func randomID() (id [8]byte) {
	_, _ = rand.Read(id[:]) // it cannot fail
	return id
}

// meta is what the object of that name has, as JSON.
type meta struct {
	Instance string `json:"instance"`
	Format   uint32 `json:"format"` // of the data when the history began
}

// meta makes sure that the store is the one of this instance. It puts the object again if it
// is missing, or damaged beside slots of this instance.
func (s *Shipper) meta(ctx context.Context) error {
	b, err := s.history.read(ctx, metaName, -1)
	if absent(err) {
		return s.putMeta(ctx)
	}
	if err != nil && !isFlaw(err) {
		return err
	}
	var got meta
	bad := json.Unmarshal(b, &got)
	if bad == nil && got.Instance == s.src.Instance {
		return nil
	}

	last, err := s.history.last(ctx, 0)
	if err != nil {
		return err
	}
	switch {
	case last != nil && last.Instance == s.instance:
	case bad != nil:
		return &overError{fmt.Sprintf("%s has an object %s that is not kist's; use another prefix",
			s.o.Address, metaName)}
	default:
		return &overError{fmt.Sprintf("%s has the data of instance %s, and this data directory belongs to "+
			"instance %s; use another prefix", s.o.Address, got.Instance, s.src.Instance)}
	}
	if err := s.o.Remote.Delete(ctx, metaName); err != nil {
		return err
	}
	return s.putMeta(ctx)
}

func (s *Shipper) putMeta(ctx context.Context) error {
	b, err := json.Marshal(meta{s.src.Instance, s.src.Format})
	if err != nil {
		return err
	}
	return s.o.Remote.Put(ctx, metaName, bytes.NewReader(b), int64(len(b)))
}

// continues reports whether the records after a slot are in the local journal. The
// error says that this data directory must not write after it.
func (s *Shipper) continues(last *Slot) (complete bool, err error) {
	if last == nil {
		return false, nil
	}
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	switch {
	case last.Instance != s.instance:
		return false, &overError{fmt.Sprintf("%s in %s belongs to instance %x; use another prefix",
			slotName(last.Number), s.o.Address, last.Instance)}
	case last.After.Seq > at.Seq:
		return false, &overError{fmt.Sprintf("%s has %d commits that this data directory lacks; "+
			"restore from it into an empty data directory, or use another prefix", s.o.Address, last.After.Seq-at.Seq)}
	}
	if last.After.Seq == 0 { // there are only fences
		return false, nil
	}

	tail, err := s.src.Journal.Tail(last.After)
	switch {
	case errors.As(err, new(*journal.Missing)):
		return false, nil
	case errors.Is(err, journal.ErrOther):
		return false, &overError{fmt.Sprintf("%s and this data directory have different commits "+
			"with the same numbers, up to %d; restore from it into an empty data directory, or use another prefix",
			s.o.Address, last.After.Seq)}
	case err != nil:
		return false, err
	}
	return true, tail.Close()
}

// takenError says that another writer has put a slot with the number.
type takenError struct{ url string }

func (e *takenError) Error() string {
	if e.url == encrypting {
		return "kist store encrypt is encrypting it; when that has ended, start this server with --store-key-file"
	}
	return fmt.Sprintf("another server (%s) has taken over; use that one. "+
		"To make this one the writer again, restore from the object store into an empty data directory, "+
		"and start it with --take-over", cmp.Or(e.url, "of an unknown address"))
}

// follow puts a slot after the last one. Another writer's slot there means that this
// one is not the writer any more.
func (s *Shipper) follow(ctx context.Context, slot Slot) error {
	err := s.put(ctx, slot)
	if errors.As(err, new(*takenError)) {
		return &overError{fmt.Sprintf("%s: %v", s.o.Address, err)}
	}
	return err
}

// put puts a slot after the last one. If the answer to an earlier attempt was lost, it
// takes what that attempt has put, which may be another slot than the given one.
func (s *Shipper) put(ctx context.Context, slot Slot) error {
	writer, err := hex.DecodeString(s.lineage.Writer)
	if err != nil || len(writer) != 8 {
		return fmt.Errorf("the file %s in the data directory is damaged; remove it", lineageName)
	}
	slot.Number, slot.Epoch, slot.Format = s.last.Number+1, s.last.Epoch, s.src.Format
	slot.Instance, slot.Writer, slot.Process, slot.URL = s.instance, [8]byte(writer), s.process, s.o.URL

	b := slot.encode()
	began := time.Now()
	err = s.request(ctx, func() error {
		return s.o.Remote.Put(ctx, slotName(slot.Number), bytes.NewReader(b), int64(len(b)))
	})
	if errors.Is(err, fs.ErrExist) {
		there, err := s.history.slots(ctx, span{slotName(slot.Number), slot.Number, slot.Number, 0})
		if err != nil {
			return err
		}
		if there[0].Process != s.process { // a copy of the data directory has the same writer
			return &takenError{there[0].URL}
		}
		slot = *there[0]
		began = s.good // nothing shows how old that slot is
	} else if err != nil {
		return err
	}

	since := time.Now()
	if n := len(slot.Times); n > 0 {
		since = since.Add(time.UnixMilli(slot.Times[n-1]).Sub(s.src.Now()))
	}
	slot.Frames, slot.Times = nil, nil
	s.last = slot
	further := slot.After != s.shipped
	if further {
		s.src.Journal.KeepFrom(slot.After.Seq)
	}

	s.mu.Lock()
	s.shipped, s.good = slot.After, began
	s.status.Slots++
	s.status.Bytes += int64(len(b))
	s.status.LastPut = time.Now()
	if further {
		s.bytes = 0
	}
	switch {
	case s.shipped.Seq >= s.at.Seq:
		s.waits(time.Time{})
	case further && since.After(s.since): // what waits was committed later than what the slot has
		s.waits(since)
	}
	s.mu.Unlock()
	raise(s.progress)
	return nil
}

// An ask asks whether this is still the writer.
type ask struct {
	at     time.Time
	answer chan<- confirmed
}

// A confirmed says that this is the writer.
type confirmed struct {
	slot uint64    // the newest one
	at   time.Time // when its put began
	err  error
}

// confirm returns a slot that this writer has put after the call began. All that was
// committed before the call is in the store.
func (s *Shipper) confirm(ctx context.Context) (c confirmed, err error) {
	answer := make(chan confirmed, 1)
	select {
	case s.asks <- ask{time.Now(), answer}:
		select {
		case c = <-answer:
			return c, c.err
		case <-ctx.Done():
		}
	case <-s.ended:
		return c, errClosed
	case <-ctx.Done():
	}
	return c, ctx.Err()
}

// lineageName is the file that identifies a data directory as a writer in the object
// store's history.
const lineageName = "STORE"

// A lineage says who a data directory is to the object store, and up to which epoch it
// knows the history. A later epoch means that another data directory has
// taken over.
type lineage struct {
	Format int    `json:"format"`
	Writer string `json:"writer"`
	Place  string `json:"place,omitempty"` // of the data directory: a copy has another one
	Epoch  uint64 `json:"epoch"`
	Slot   uint64 `json:"slot,omitempty"` // a late one: a start lists the slots from there
	// Files is the address of the store that may have contents that the directory lacks.
	Files string `json:"files,omitempty"`
	// Sealed is the address of the store in which everything of this directory was encrypted.
	Sealed string `json:"sealed,omitempty"`
}

// wasSealed reports whether this data directory has an encrypted store at the address.
func (s *Shipper) wasSealed() bool { return s.lineage.Sealed != "" && s.lineage.Sealed == s.o.Address }

// SealedIn returns the address of the store in which everything of the data directory was encrypted; "" if
// there is none.
func SealedIn(dir string) (string, error) {
	l, err := readLineage(dir)
	return l.Sealed, err
}

// Replaced says that an encrypted store was replaced.
func Replaced(address string) string {
	return "This store was encrypted and has been replaced by a plain one. Do not encrypt it: this server has not " +
		"written what is in " + address + ". Ask the operator of the object store who did. Let the operator put back " +
		"what was there, or use another prefix, to which everything is copied again"
}

// FilesIn returns the address of the store that may have contents that the data
// directory lacks; "" if there is no such store.
func FilesIn(dir string) string {
	l, err := readLineage(dir)
	if err != nil {
		return ""
	}
	return l.Files
}

func readLineage(dir string) (l lineage, err error) {
	b, err := os.ReadFile(filepath.Join(dir, lineageName))
	if absent(err) {
		return lineage{Format: 1}, nil
	}
	if err != nil {
		return l, unreadable(err)
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, unreadable(err)
	}
	if l.Format != 1 {
		return l, unreadable(errors.ErrUnsupported)
	}
	return l, nil
}

// unreadable is the error for a lineage that cannot be read.
func unreadable(err error) error {
	return fmt.Errorf("the file %s in the data directory cannot be read (%w); "+
		"remove it if no other server writes to the object store", lineageName, err)
}

func writeLineage(dir string, l lineage) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return datadir.WriteFile(dir, lineageName, append(b, '\n'))
}
