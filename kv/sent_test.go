package kv

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

func beginSent(s *Store, q *record.Request, from string, length int64) (*Upload, string, error) {
	return s.BeginSenderUpload(context.Background(), q, Upload{Length: length, Name: "Bob", Message: "hello"}, from)
}

func receive(s *Store, u *Upload, ref byte) (i *record.Item, err error) {
	err = s.Update(func(tx *Tx) error { i, err = tx.ReceiveUpload(u, came(ref, u.Length)); return err })
	return i, err
}

// What a sender's upload will take is reserved from its beginning, beside what
// others were promised and what came in, over restarts, and is free again when
// it is forgotten.
func TestSentIsSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*record.RequestForm)
		code string
	}{
		"files":  {func(f *record.RequestForm) { f.MaxUploads = 3 }, "limit_reached"},
		"bytes":  {func(f *record.RequestForm) { f.MaxTotal = 35 }, "limit_reached"},
		"sender": {func(f *record.RequestForm) { f.PerSender = 3 }, "sender_limit"},
		"quota":  {nil, "limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			clock, dir := newClock(), filepath.Join(t.TempDir(), "data")
			s := openAt(t, dir, clock.now)
			ann := user(t, s, "ann")
			settle := func(begin int64) {} // gives text its place, and that of so many more uploads, so that content alone decides
			if c.set == nil {
				settle = func(begin int64) {
					text := textNow(t, s, ann.ID) + begin*int64(len("Bob"+"hello"))
					update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: 35 + text}) })
				}
			}
			settle(2)
			q := addRequest(t, s, ann.ID, c.set)
			one, secret, err := beginSent(s, q, "here", 10)
			is.NoErr(err)
			two, other, err := beginSent(s, q, "here", 10)
			is.NoErr(err)
			_, err = leave(s, q, "here", came(1, 10))
			is.NoErr(err)
			full := func() {
				t.Helper()
				settle(0)
				_, _, err = beginSent(s, q, "here", 10)
				is.Equal(code(err), c.code)
				_, err = leave(s, q, "here", came(9, 10))
				is.Equal(code(err), c.code)
			}
			full()
			is.NoErr(s.Close())
			s = openAt(t, dir, clock.now)
			full()

			// It ends in the queue, and counts on.
			i, err := receive(s, one, 2)
			is.NoErr(err)
			is.Equal(i.State, record.Pending)
			is.Equal([]string{i.Sender, i.Message}, []string{"Bob", "hello"})
			_, err = receive(s, one, 2) // once
			is.Equal(code(err), "not_found")
			full()
			view(t, s, func(tx *Tx) error {
				got, err := tx.SenderUpload(secret)
				is.NoErr(err)
				is.True(got.Done())
				is.Equal(got.Item, i.ID)
				is.Equal(got.Name+got.Message+got.Metadata, "")
				return audit(tx)
			})
			update(t, s, func(tx *Tx) error { _, err := tx.DropSenderUpload(other); return err })
			view(t, s, func(tx *Tx) error {
				_, err := tx.SenderUpload(other)
				is.Equal(code(err), "not_found")
				is.Equal(tx.ReservedBytes(), int64(0))
				return audit(tx)
			})
			settle(1)
			_, _, err = beginSent(s, q, "here", 10)
			is.NoErr(err)
			full()
			is.Equal(code(s.Update(func(tx *Tx) error { return tx.SaveUpload(two) })), "not_found")
			is.NoErr(s.RemoveRequest(ann.ID, q.ID))
			view(t, s, func(tx *Tx) error {
				_, err := tx.SenderUpload(secret)
				is.Equal(code(err), "not_found")
				is.Equal(tx.Count(bucket("upload")), 0)
				return audit(tx)
			})
		})
	}
}

// What is kept of a sender's address is the same at one link and different at
// each other link.
func TestSenderAtEachLink(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	ann := user(t, s, "ann")
	q, other := addRequest(t, s, ann.ID, nil), addRequest(t, s, ann.ID, nil)
	view(t, s, func(tx *Tx) error {
		seen := map[sender]bool{}
		for _, at := range []*record.Request{q, other, q} {
			for _, from := range []string{"192.0.2.1", "192.0.2.2"} {
				one, err := tx.senderOf(at, from)
				is.NoErr(err)
				seen[one] = true
			}
		}
		is.Equal(len(seen), 4)
		return nil
	})
}

// The uploads of strangers are none of the owner's, and do not count as such.
func TestSentIsNotTheOwners(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann := user(t, s, "ann")
	q := addRequest(t, s, ann.ID, nil)
	u, secret, err := beginSent(s, q, "here", 10)
	is.NoErr(err)
	is.True(len(secret) >= 22) // 128 bits
	view(t, s, func(tx *Tx) error {
		_, err := tx.Upload(ann.ID, u.ID)
		is.Equal(code(err), "not_found")
		all, err := tx.Uploads(ann.ID)
		is.NoErr(err)
		is.Equal(len(all), 0)
		for _, bad := range []string{"", u.ID.String(), secret[1:], secret + "x"} {
			_, err := tx.SenderUpload(bad)
			is.Equal(code(err), "not_found")
		}
		use, err := tx.Usage(ann)
		is.Equal(use.Begun, int64(10))
		return err
	})
	for range maxUploads {
		_, err := beginUpload(s, Upload{Owner: ann.ID, Length: 1})
		is.NoErr(err)
	}
}

// Senders can begin so many and have no more than half of the disk promised.
func TestSentIsBounded(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann := user(t, s, "ann")
	q := addRequest(t, s, ann.ID, nil)
	try := func(from string, length, disk int64) error {
		return s.Update(func(tx *Tx) error { _, _, err := tx.addSenderUpload(q, Upload{Length: length}, from, disk); return err })
	}
	is.Equal(code(try("a", 51, 100)), "disk_full")
	is.NoErr(try("a", 30, 100))
	is.Equal(code(try("b", 21, 100)), "disk_full")
	is.NoErr(try("b", 20, 100))
	is.Equal(code(try("c", 1, 100)), "disk_full")
	_, err := beginUpload(s, Upload{Owner: ann.ID, Length: 20}) // the owner has the other half
	is.NoErr(err)
	is.Equal(code(try("c", 1, 120)), "disk_full")
	is.NoErr(try("c", 1, 122))

	for range maxSentBy - 1 {
		is.NoErr(try("a", 0, 1<<40))
	}
	is.Equal(code(try("a", 0, 1<<40)), "too_many_uploads")
	for i := range maxSentAt - maxSentBy - 2 {
		is.NoErr(try(fmt.Sprint(i), 0, 1<<40))
	}
	is.Equal(code(try("d", 0, 1<<40)), "too_many_uploads")
	view(t, s, audit)
}

// When a link is closed, what came in by it is remembered, and the uploads at
// other links go on.
func TestSentOfClosedLink(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	ann := user(t, s, "ann")
	q, other := addRequest(t, s, ann.ID, nil), addRequest(t, s, ann.ID, nil)
	u, done, err := beginSent(s, q, "here", 10)
	is.NoErr(err)
	_, err = receive(s, u, 1)
	is.NoErr(err)
	_, begun, err := beginSent(s, q, "here", 10)
	is.NoErr(err)
	_, elsewhere, err := beginSent(s, other, "here", 10)
	is.NoErr(err)
	update(t, s, func(tx *Tx) error {
		now, err := tx.Request(ann.ID, q.ID)
		if err != nil {
			return err
		}
		now.Active = false
		return tx.SaveRequest(now)
	})
	view(t, s, func(tx *Tx) error {
		for secret, want := range map[string]string{done: "", begun: "not_found", elsewhere: ""} {
			_, err := tx.SenderUpload(secret)
			is.Equal(code(err), want)
		}
		is.Equal(tx.Count(bucket("upload")), 2)
		return audit(tx)
	})
}

// Of what nobody goes on with the place is free at once, and so it is when the
// link is closed.
func TestSentEnds(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	ann := user(t, s, "ann")
	user(t, s, "root") // the last administrator cannot be shut
	q := addRequest(t, s, ann.ID, func(f *record.RequestForm) { f.MaxUploads = 1 })
	at := func(secret string) error {
		return s.View(func(tx *Tx) error { _, err := tx.SenderUpload(secret); return err })
	}
	_, empty, err := beginSent(s, q, "here", 10)
	is.NoErr(err)
	c.add(emptyTime)
	is.Equal(code(at(empty)), "upload_expired")
	u, begun, err := beginSent(s, q, "here", 10) // whose client never knew of the first
	is.NoErr(err)
	is.Equal(code(at(empty)), "not_found")
	u.Offset = 1
	update(t, s, func(tx *Tx) error { return tx.SaveUpload(u) })
	c.add(UploadTime - time.Second)
	is.NoErr(at(begun))
	_, err = leave(s, q, "here", came(1, 1))
	is.Equal(code(err), "limit_reached")
	c.add(time.Second)
	is.Equal(code(at(begun)), "upload_expired")
	update(t, s, (*Tx).DropUploads)
	is.Equal(code(at(begun)), "not_found")
	view(t, s, audit)

	// Switched off, the link has none any more; over, or with its owner shut, none goes on.
	save := func(set func(*record.Request)) {
		t.Helper()
		update(t, s, func(tx *Tx) error {
			now, err := tx.Request(ann.ID, q.ID)
			is.NoErr(err)
			set(now)
			return tx.SaveRequest(now)
		})
	}
	_, off, err := beginSent(s, q, "here", 10)
	is.NoErr(err)
	save(func(q *record.Request) { q.Active = false })
	is.Equal(code(at(off)), "not_found")
	view(t, s, func(tx *Tx) error { is.Equal(tx.ReservedBytes(), int64(0)); return audit(tx) })
	save(func(q *record.Request) { q.Active, q.Expires = true, c.now().Add(time.Minute) })
	u, over, err := beginSent(s, q, "here", 10)
	is.NoErr(err)
	c.add(time.Minute)
	is.Equal(code(at(over)), "expired")
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.SaveUpload(u) })), "expired")
	_, err = receive(s, u, 1)
	is.Equal(code(err), "expired")
	save(func(q *record.Request) { q.Expires = time.Time{} })
	is.NoErr(at(over)) // it was there all the time
	update(t, s, func(tx *Tx) error {
		me, err := tx.User(ann.ID)
		is.NoErr(err)
		me.Disabled = true
		return tx.SaveUser(me)
	})
	is.Equal(code(at(over)), "not_found")
	update(t, s, (*Tx).DropUploads)
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.Count(bucket("upload")), 0)
		return audit(tx)
	})
}

// Of a hundred who begin and send at the same time as many get a place as the
// limit says.
func TestSentRaces(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann := user(t, s, "ann")
	q := addRequest(t, s, ann.ID, func(f *record.RequestForm) { f.MaxUploads, f.MaxTotal = 40, 75 })
	var all sync.WaitGroup
	errs := make([]error, 100)
	for i := range errs {
		all.Go(func() {
			from := fmt.Sprint(i % 7)
			if i%3 == 0 {
				_, errs[i] = leave(s, q, from, came(byte(i+1), 10))
				return
			}
			var u *Upload
			if u, _, errs[i] = beginSent(s, q, from, 10); errs[i] == nil && i%2 == 0 {
				_, errs[i] = receive(s, u, byte(i+1))
			}
		})
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if c := code(err); c != "limit_reached" {
			t.Error(err)
		}
	}
	is.Equal(won, 7)
	view(t, s, audit)
}

// What a sender was promised stays promised though the owner's text grows
// meanwhile. The text counts again for what begins after that.
func TestTextGrowsWhileSending(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(s *Store, q *record.Request) error{
		"upload": func(s *Store, q *record.Request) error {
			one, _, err := beginSent(s, q, "here", 500)
			if err != nil {
				return err
			}
			two, _, err := beginSent(s, q, "here", 500)
			if err != nil {
				return err
			}
			if _, err := receive(s, one, 1); err != nil { // its row is text
				return err
			}
			_, err = receive(s, two, 2)
			return err
		},
		"form": func(s *Store, q *record.Request) error {
			r, err := s.Reserve(t.Context(), q, "here", 1000, 1000)
			if err != nil {
				return err
			}
			add(t, s, q.Owner, record.Notes, `{"content":"c"}`)
			err = r.Another()
			if err == nil {
				err = s.Update(func(tx *Tx) error {
					_, err := tx.Receive(r, &record.SenderForm{}, []Received{came(1, 500), came(2, 500)})
					return err
				})
			}
			return firstError(err, r.Release())
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := open(t)
			ann := user(t, s, "ann")
			quota := func(n int64) {
				update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: n}) })
			}
			q := addRequest(t, s, ann.ID, func(f *record.RequestForm) { f.Approval = false })
			quota(1000 + 2*int64(len("Bob"+"hello")))
			is.NoErr(finish(s, q))
			text := textNow(t, s, ann.ID)
			is.True(text > 0)

			quota(1000 + text) // full
			_, _, err := beginSent(s, q, "here", 1)
			is.Equal(code(err), "limit_reached")
			_, err = leave(s, q, "here", came(3, 1))
			is.Equal(code(err), "limit_reached")
			quota(1001 + text + int64(len("Bob"+"hello")))
			u, _, err := beginSent(s, q, "here", 1)
			is.NoErr(err)
			quota(1000) // content has limits to the end
			_, err = receive(s, u, 3)
			is.Equal(code(err), "limit_reached")
			view(t, s, audit)
		})
	}
}
