package inbox_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// The space of a sender's upload is reserved from its start, across restarts, in
// addition to other promises and received files. It is free again when the upload is
// deleted.
func TestSentIsSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*inbox.RequestForm)
		code string
	}{
		"files":  {func(f *inbox.RequestForm) { f.MaxUploads = 3 }, "limit_reached"},
		"bytes":  {func(f *inbox.RequestForm) { f.MaxTotal = 35 }, "limit_reached"},
		"sender": {func(f *inbox.RequestForm) { f.PerSender = 3 }, "sender_limit"},
		"quota":  {nil, "limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			clock, dir := kvtest.NewClock(), filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, clock.Now)
			ann := kvtest.User(t, s, "ann")
			settle := func(begin int64) {} // leaves room for text, also that of begin more uploads, so that only content counts
			if c.set == nil {
				settle = func(begin int64) {
					text := kvtest.TextNow(t, s, ann.ID) + begin*int64(len("Bob"+"hello"))
					kvtest.Update(t, s, func(tx *kv.Tx) error {
						return people.SetSettings(tx, people.Settings{DefaultQuota: 35 + text})
					})
				}
			}
			q := kvtest.AddRequest(t, s, ann.ID, c.set)
			settle(2)
			one, secret, err := kvtest.BeginSent(s, q, "here", 10)
			is.NoErr(err)
			second, third := "here", "here"
			if name == "files" { // one sender may have a third of them unfinished
				second, third = "there", "elsewhere"
			}
			two, other, err := kvtest.BeginSent(s, q, second, 10)
			is.NoErr(err)
			_, err = kvtest.Leave(s, q, third, kvtest.Came(1, 10))
			is.NoErr(err)
			full := func() {
				t.Helper()
				settle(0)
				_, _, err = kvtest.BeginSent(s, q, "here", 10)
				is.Equal(kvtest.Code(err), c.code)
				_, err = kvtest.Leave(s, q, "here", kvtest.Came(9, 10))
				is.Equal(kvtest.Code(err), c.code)
			}
			full()
			is.NoErr(s.Close())
			s = kvtest.OpenAt(t, dir, clock.Now)
			full()

			// It ends in the queue and still counts.
			is.NoErr(kvtest.Receive(s, one, 2))
			var i *inbox.Item
			kvtest.View(t, s, func(tx *kv.Tx) (err error) { i, err = inbox.ReadItem(tx, ann.ID, q.ID, one.Item); return err })
			is.Equal(i.State, inbox.Pending)
			is.Equal([]string{i.Sender, i.Message}, []string{"Bob", "hello"})
			err = kvtest.Receive(s, one, 2) // once
			is.Equal(kvtest.Code(err), "not_found")
			full()
			kvtest.View(t, s, func(tx *kv.Tx) error {
				got, err := inbox.SenderUpload(tx, secret)
				is.NoErr(err)
				is.True(got.Done())
				is.Equal(got.Item, i.ID)
				is.Equal(got.Name+got.Message+got.Metadata, "")
				return kvtest.Audit(tx)
			})
			kvtest.Update(t, s, func(tx *kv.Tx) error { _, err := inbox.DropSenderUpload(tx, other); return err })
			kvtest.View(t, s, func(tx *kv.Tx) error {
				_, err := inbox.SenderUpload(tx, other)
				is.Equal(kvtest.Code(err), "not_found")
				is.Equal(inbox.ReservedBytes(tx), int64(0))
				return kvtest.Audit(tx)
			})
			settle(1)
			_, _, err = kvtest.BeginSent(s, q, "here", 10)
			is.NoErr(err)
			full()
			is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, two) })), "not_found")
			is.NoErr(inbox.RemoveRequest(s, ann.ID, q.ID))
			kvtest.View(t, s, func(tx *kv.Tx) error {
				_, err := inbox.SenderUpload(tx, secret)
				is.Equal(kvtest.Code(err), "not_found")
				is.Equal(tx.Count(kvtest.Bucket("upload")), 0)
				return kvtest.Audit(tx)
			})
		})
	}
}

// The stored form of a sender's address is the same at one link and different at
// every other link.
func TestSenderAtEachLink(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	q, other := kvtest.AddRequest(t, s, ann.ID, nil), kvtest.AddRequest(t, s, ann.ID, nil)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		seen := map[inbox.Sender]bool{}
		for _, at := range []*inbox.Request{q, other, q} {
			for _, from := range []string{"192.0.2.1", "192.0.2.2"} {
				one, err := inbox.SenderOf(tx, at, from)
				is.NoErr(err)
				seen[one] = true
			}
		}
		is.Equal(len(seen), 4)
		return nil
	})
}

// Strangers' uploads are not the owner's uploads and do not count as such.
func TestSentIsNotTheOwners(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	u, secret, err := kvtest.BeginSent(s, q, "here", 10)
	is.NoErr(err)
	is.True(len(secret) >= 22) // 128 bits
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, err := inbox.FindUpload(tx, ann.ID, u.ID)
		is.Equal(kvtest.Code(err), "not_found")
		all, err := inbox.Uploads(tx, ann.ID)
		is.NoErr(err)
		is.Equal(len(all), 0)
		for _, bad := range []string{"", u.ID.String(), secret[1:], secret + "x"} {
			_, err := inbox.SenderUpload(tx, bad)
			is.Equal(kvtest.Code(err), "not_found")
		}
		use, err := people.UsageOf(tx, ann)
		is.Equal(use.Begun, int64(10))
		return err
	})
	for range inbox.MaxUploads {
		_, err := kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Length: 1})
		is.NoErr(err)
	}
}

// The number of senders' uploads is bounded, and they are promised at most half of the
// disk.
func TestSentIsBounded(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	try := func(from string, length, disk int64) error {
		return s.Update(func(tx *kv.Tx) error {
			_, _, err := inbox.AddSenderUpload(tx, q, inbox.Upload{Length: length}, from, disk)
			return err
		})
	}
	is.Equal(kvtest.Code(try("a", 51, 100)), "disk_full")
	is.NoErr(try("a", 30, 100))
	is.Equal(kvtest.Code(try("b", 21, 100)), "disk_full")
	is.NoErr(try("b", 20, 100))
	is.Equal(kvtest.Code(try("c", 1, 100)), "disk_full")
	_, err := kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Length: 20}) // the owner has the other half
	is.NoErr(err)
	is.Equal(kvtest.Code(try("c", 1, 120)), "disk_full")
	is.NoErr(try("c", 1, 122))

	for range inbox.MaxSentBy - 1 {
		is.NoErr(try("a", 0, 1<<40))
	}
	is.Equal(kvtest.Code(try("a", 0, 1<<40)), "too_many_uploads")
	for i := range inbox.MaxSentAt - inbox.MaxSentBy - 2 {
		is.NoErr(try(fmt.Sprint(i), 0, 1<<40))
	}
	is.Equal(kvtest.Code(try("d", 0, 1<<40)), "too_many_uploads")
	kvtest.View(t, s, kvtest.Audit)
}

// What senders announce does not keep the owner from storing something, and is refused at its end
// if it does not fit then.
func TestSentIsNotInTheWay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	var ann *people.User
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		ann, err = people.AddUser(tx, people.User{Name: "ann", Role: people.Admin, Quota: 20_000})
		return err
	})
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	begin := func(length int64) (u *inbox.Upload, err error) {
		err = s.Update(func(tx *kv.Tx) (err error) {
			u, _, err = inbox.AddSenderUpload(tx, q, inbox.Upload{Length: length}, "a", 1<<40)
			return err
		})
		return u, err
	}
	u, err := begin(15_000)
	is.NoErr(err)
	_, err = begin(10_000)
	is.True(err != nil) // senders are not promised more than there is
	add := func(ref byte) error {
		return s.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: ann.ID, Kind: record.Files, Form: kvtest.Form(t, record.Files, `{}`), Content: &record.Content{Ref: [32]byte{ref}, Size: 9000},
			})
			return err
		})
	}
	is.NoErr(add(2))
	is.NoErr(add(3))
	is.Equal(kvtest.Code(add(4)), "quota_exceeded")
	u.Offset = u.Length
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return inbox.ReceiveUpload(tx, u, kvtest.Came(1, u.Length))
	})), kvtest.Code(inbox.ErrNoRoom))
	kvtest.View(t, s, kvtest.Audit)
}

// When a link is closed, finished uploads are remembered, and the uploads at other
// links continue.
func TestSentOfClosedLink(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	q, other := kvtest.AddRequest(t, s, ann.ID, nil), kvtest.AddRequest(t, s, ann.ID, nil)
	u, done, err := kvtest.BeginSent(s, q, "here", 10)
	is.NoErr(err)
	err = kvtest.Receive(s, u, 1)
	is.NoErr(err)
	_, begun, err := kvtest.BeginSent(s, q, "here", 10)
	is.NoErr(err)
	_, elsewhere, err := kvtest.BeginSent(s, other, "here", 10)
	is.NoErr(err)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		now, err := inbox.ReadRequest(tx, ann.ID, q.ID)
		if err != nil {
			return err
		}
		now.Active = false
		return inbox.SaveRequest(tx, now)
	})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for secret, want := range map[string]string{done: "", begun: "not_found", elsewhere: ""} {
			_, err := inbox.SenderUpload(tx, secret)
			is.Equal(kvtest.Code(err), want)
		}
		is.Equal(tx.Count(kvtest.Bucket("upload")), 2)
		return kvtest.Audit(tx)
	})
}

// An upload that expires frees its space at once, and so does closing the link.
func TestSentEnds(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	ann := kvtest.User(t, s, "ann")
	kvtest.User(t, s, "root") // the last administrator cannot be disabled
	q := kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.MaxUploads = 1 })
	at := func(secret string) error {
		return s.View(func(tx *kv.Tx) error { _, err := inbox.SenderUpload(tx, secret); return err })
	}
	_, empty, err := kvtest.BeginSent(s, q, "here", 10)
	is.NoErr(err)
	c.Add(inbox.EmptyTime)
	is.Equal(kvtest.Code(at(empty)), "upload_expired")
	u, begun, err := kvtest.BeginSent(s, q, "here", 10) // its client never knew of the first upload
	is.NoErr(err)
	is.Equal(kvtest.Code(at(empty)), "not_found")
	u.Offset = 1
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })
	c.Add(inbox.EmptyTime - time.Second)
	_, err = kvtest.Leave(s, q, "here", kvtest.Came(1, 1))
	is.Equal(kvtest.Code(err), "limit_reached")
	c.Add(inbox.UploadTime - inbox.EmptyTime)
	is.NoErr(at(begun))
	c.Add(time.Second)
	is.Equal(kvtest.Code(at(begun)), "upload_expired")
	kvtest.Update(t, s, inbox.DropUploads)
	is.Equal(kvtest.Code(at(begun)), "not_found")
	kvtest.View(t, s, kvtest.Audit)

	// Turning the link off deletes its uploads. If it expires or its owner is disabled,
	// they cannot be continued.
	save := func(set func(*inbox.Request)) {
		t.Helper()
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			now, err := inbox.ReadRequest(tx, ann.ID, q.ID)
			is.NoErr(err)
			set(now)
			return inbox.SaveRequest(tx, now)
		})
	}
	_, off, err := kvtest.BeginSent(s, q, "here", 10)
	is.NoErr(err)
	save(func(q *inbox.Request) { q.Active = false })
	is.Equal(kvtest.Code(at(off)), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(inbox.ReservedBytes(tx), int64(0)); return kvtest.Audit(tx) })
	save(func(q *inbox.Request) { q.Active, q.Expires = true, c.Now().Add(time.Minute) })
	u, over, err := kvtest.BeginSent(s, q, "here", 10)
	is.NoErr(err)
	c.Add(time.Minute)
	is.Equal(kvtest.Code(at(over)), "expired")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })), "expired")
	err = kvtest.Receive(s, u, 1)
	is.Equal(kvtest.Code(err), "expired")
	save(func(q *inbox.Request) { q.Expires = time.Time{} })
	is.NoErr(at(over)) // it was kept
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		me, err := people.ReadUser(tx, ann.ID)
		is.NoErr(err)
		me.Disabled = true
		return people.SaveUser(tx, me)
	})
	is.Equal(kvtest.Code(at(over)), "not_found")
	kvtest.Update(t, s, inbox.DropUploads)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("upload")), 0)
		return kvtest.Audit(tx)
	})
}

// A hundred senders begin and send at the same time. As many get a place as the limit
// allows.
func TestSentRaces(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.MaxUploads, f.MaxTotal = 40, 75 })
	var all sync.WaitGroup
	errs := make([]error, 100)
	for i := range errs {
		all.Go(func() {
			from := fmt.Sprint(i % 50) // two of one sender are less than its third
			if i%3 == 0 {
				_, errs[i] = kvtest.Leave(s, q, from, kvtest.Came(byte(i+1), 10))
				return
			}
			var u *inbox.Upload
			u, _, errs[i] = kvtest.BeginSent(s, q, from, 10)
			if errs[i] == nil && i%2 == 0 {
				errs[i] = kvtest.Receive(s, u, byte(i+1))
			}
		})
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if c := kvtest.Code(err); c != "limit_reached" {
			t.Error(err)
		}
	}
	is.Equal(won, 7)
	kvtest.View(t, s, kvtest.Audit)
}

// Space promised to a sender stays promised when the owner's text grows. The text
// counts for uploads that begin later.
func TestTextGrowsWhileSending(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(s *kv.Store, q *inbox.Request) error{
		"upload": func(s *kv.Store, q *inbox.Request) error {
			one, _, err := kvtest.BeginSent(s, q, "here", 500)
			if err != nil {
				return err
			}
			two, _, err := kvtest.BeginSent(s, q, "here", 500)
			if err != nil {
				return err
			}
			if err := kvtest.Receive(s, one, 1); err != nil { // its row is text
				return err
			}
			err = kvtest.Receive(s, two, 2)
			return err
		},
		"form": func(s *kv.Store, q *inbox.Request) error {
			r, err := inbox.Reserve(s, t.Context(), q, "here", 1000, 1000)
			if err != nil {
				return err
			}
			kvtest.Add(t, s, q.Owner, record.Notes, `{"content":"c"}`)
			err = r.Another()
			if err == nil {
				err = s.Update(func(tx *kv.Tx) error {
					_, err := inbox.Receive(tx, r, &inbox.SenderForm{}, []inbox.Received{kvtest.Came(1, 500), kvtest.Came(2, 500)})
					return err
				})
			}
			return kvtest.FirstError(err, r.Release())
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := kvtest.Open(t)
			ann := kvtest.User(t, s, "ann")
			quota := func(n int64) {
				kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: n}) })
			}
			q := kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.Approval = false })
			quota(1000 + 2*int64(len("Bob"+"hello")) + kvtest.TextNow(t, s, ann.ID))
			is.NoErr(finish(s, q))
			text := kvtest.TextNow(t, s, ann.ID)
			is.True(text > 0)

			quota(1000 + text) // full
			_, _, err := kvtest.BeginSent(s, q, "here", 1)
			is.Equal(kvtest.Code(err), "limit_reached")
			_, err = kvtest.Leave(s, q, "here", kvtest.Came(3, 1))
			is.Equal(kvtest.Code(err), "limit_reached")
			quota(1001 + text + int64(len("Bob"+"hello")))
			u, _, err := kvtest.BeginSent(s, q, "here", 1)
			is.NoErr(err)
			quota(1000) // content is limited to the end
			err = kvtest.Receive(s, u, 3)
			is.Equal(kvtest.Code(err), "limit_reached")
			kvtest.View(t, s, kvtest.Audit)
		})
	}
}

// An unfinished upload keeps its place while it moves. When it stalls, it loses the place as soon
// as somebody else needs it, and goes on if nobody does.
func TestStalledUploadsLosePlaces(t *testing.T) {
	t.Parallel()
	const large = 1 << 30
	for name, row := range map[string]struct {
		length int64
		pieces []int64 // each arrives within inbox.EmptyTime
		keeps  bool
	}{
		"a byte, then nothing":          {1000, []int64{1, 0}, false},
		"a hundredth each time":         {1000, []int64{10, 10, 10, 10}, true},
		"less than a hundredth":         {1000, []int64{10, 9, 0}, false},
		"a mebibyte of a large one":     {large, []int64{1 << 20, 1 << 20, 1 << 20}, true},
		"less than that":                {large, []int64{1 << 20, 1<<20 - 1, 0}, false},
		"a byte each time":              {1000, []int64{1, 1, 1}, false},
		"a short one needs a byte":      {50, []int64{1, 1, 1}, true},
		"what came together is counted": {1000, []int64{5, 5}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := kvtest.NewClock()
			s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
			ann := kvtest.User(t, s, "ann")
			q := kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.MaxUploads = 1 })
			u, secret, err := kvtest.BeginSent(s, q, "here", row.length)
			is.NoErr(err)
			for _, n := range row.pieces {
				c.Add(inbox.EmptyTime * 3 / 5)
				if n > 0 {
					u.Offset += n
					kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })
				}
			}

			kvtest.View(t, s, func(tx *kv.Tx) error { _, err := inbox.SenderUpload(tx, secret); return err }) // it can go on
			_, err = kvtest.Leave(s, q, "there", kvtest.Came(1, 1))
			if row.keeps {
				is.Equal(kvtest.Code(err), "limit_reached")
				return
			}
			is.NoErr(err)
			err = s.View(func(tx *kv.Tx) error { _, err := inbox.SenderUpload(tx, secret); return err })
			is.Equal(kvtest.Code(err), "not_found")
			kvtest.View(t, s, kvtest.Audit)
		})
	}
}

// One sender cannot hold more than a third of the places with unfinished uploads.
func TestOneSenderHoldsAThird(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64]int{1: 1, 2: 1, 5: 1, 6: 2, 20: 6} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := kvtest.NewClock()
			s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
			ann := kvtest.User(t, s, "ann")
			q := kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.MaxUploads = most })
			var last *inbox.Upload
			for range want {
				u, _, err := kvtest.BeginSent(s, q, "here", 10)
				is.NoErr(err)
				last = u
			}
			if most > 2 {
				_, _, err := kvtest.BeginSent(s, q, "here", 10)
				is.Equal(kvtest.Code(err), "busy")
				_, _, err = kvtest.BeginSent(s, q, "there", 10)
				is.NoErr(err)
				err = kvtest.Receive(s, last, 10) // one that is finished makes room
				is.NoErr(err)
				_, _, err = kvtest.BeginSent(s, q, "here", 10)
				is.NoErr(err)
			}
		})
	}
}

// While others send, one sender announces at most a third of the bytes that the link takes, by its own limit and by
// the owner's quota, unless a third stays free. Alone it announces everything.
func TestOneSenderAnnouncesAThird(t *testing.T) {
	t.Parallel()
	type sent struct {
		from   string
		length int64
		want   string
	}
	for name, row := range map[string]struct {
		total, quota int64
		came         int64 // has been received
		sent         []sent
	}{
		"alone": {total: 1000, sent: []sent{{"me", 500, ""}, {"me", 500, ""}}},
		"a third stays": {
			total: 1000, sent: []sent{{"b", 100, ""}, {"me", 568, "busy"}, {"me", 567, ""}, {"me", 1, "busy"}},
		},
		"a tiny one": {total: 9000, sent: []sent{{"b", 1, ""}, {"me", 4000, ""}}},
		"in parts": {
			total: 1000, sent: []sent{{"b", 100, ""}, {"me", 400, ""}, {"me", 200, "busy"}, {"me", 100, ""}},
		},
		"near the end": {total: 1000, came: 700, sent: []sent{{"b", 30, ""}, {"me", 270, ""}}},
		"each has its own": {
			total: 1000, sent: []sent{{"a", 100, ""}, {"b", 300, ""}, {"c", 334, "busy"}, {"c", 333, ""}},
		},
		"of the quota": {quota: 1000, sent: []sent{{"b", 100, ""}, {"me", 600, "busy"}, {"me", 500, ""}}},
		"of the smaller": {
			total: 400, quota: 100_000, sent: []sent{{"b", 100, ""}, {"me", 168, "busy"}, {"me", 167, ""}},
		},
		"of what has no end":  {sent: []sent{{"b", 100, ""}, {"me", 1 << 30, ""}}},
		"no room for anybody": {total: 1000, sent: []sent{{"me", 1000, ""}, {"b", 1, "limit_reached"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := kvtest.Open(t)
			ann := kvtest.User(t, s, "ann")
			q := kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.MaxTotal = row.total })
			if row.quota > 0 {
				quota := row.quota + kvtest.TextNow(t, s, ann.ID)
				kvtest.Update(t, s, func(tx *kv.Tx) error {
					return people.SetSettings(tx, people.Settings{DefaultQuota: quota})
				})
			}
			if row.came > 0 {
				_, err := kvtest.Leave(s, q, "earlier", kvtest.Came(1, row.came))
				is.NoErr(err)
			}
			for _, one := range row.sent {
				_, _, err := kvtest.BeginSent(s, q, one.from, one.length)
				is.Equal(kvtest.Code(err), one.want)
			}
			kvtest.View(t, s, kvtest.Audit)
		})
	}
}

// Only as many stalled uploads as are needed lose their places: first the sender's own, then the
// oldest at the link. Those at other links only give space.
func TestOnlyNeededPlacesAreLost(t *testing.T) {
	t.Parallel()
	type sent struct {
		link   int
		from   string
		offset int64
	}
	for name, row := range map[string]struct {
		sent  []sent // each has 1000 bytes
		quota int64
		need  int64
		gone  []int
		want  string
	}{
		"the oldest at the link": {
			sent: []sent{{1, "a", 1}, {0, "b", 1}, {0, "c", 1}, {0, "d", 1}}, need: 1, gone: []int{1},
		},
		"first the sender's own": {sent: []sent{{0, "a", 1}, {0, "b", 1}, {0, "me", 1}}, need: 1, gone: []int{2}},
		"a complete one stays":   {sent: []sent{{0, "a", 1000}, {0, "b", 1}, {0, "c", 1}}, need: 1, gone: []int{1}},
		"all complete": {
			sent: []sent{{1, "x", 1}, {0, "a", 1000}, {0, "b", 1000}, {0, "c", 1000}}, need: 1, want: "limit_reached",
		},
		"space at other links": {
			sent: []sent{{1, "a", 1}, {1, "b", 1}, {0, "c", 1}}, quota: 3500, need: 2000, gone: []int{0, 2},
		},
		"never enough": {sent: []sent{{1, "a", 1}, {0, "b", 1}}, quota: 3500, need: 4000, want: "limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := kvtest.NewClock()
			s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
			ann := kvtest.User(t, s, "ann")
			links := make([]*inbox.Request, 2)
			for i := range links {
				links[i] = kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.MaxUploads = 3 })
			}
			if row.quota > 0 {
				quota := row.quota + kvtest.TextNow(t, s, ann.ID)
				kvtest.Update(t, s, func(tx *kv.Tx) error {
					return people.SetSettings(tx, people.Settings{DefaultQuota: quota})
				})
			}
			secrets := make([]string, len(row.sent))
			for i, of := range row.sent {
				u, secret, err := kvtest.BeginSent(s, links[of.link], of.from, 1000)
				is.NoErr(err)
				secrets[i], u.Offset = secret, of.offset
				kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, u) })
				c.Add(time.Second)
			}
			c.Add(inbox.EmptyTime)

			place, err := inbox.Reserve(s, t.Context(), links[0], "me", row.need, row.need)
			is.Equal(kvtest.Code(err), row.want)
			if err == nil {
				is.NoErr(place.Release())
			}
			for i, secret := range secrets {
				err := s.View(func(tx *kv.Tx) error { _, err := inbox.SenderUpload(tx, secret); return err })
				is.Equal(err != nil, slices.Contains(row.gone, i))
			}
			kvtest.View(t, s, kvtest.Audit)
		})
	}
}

// Bytes that a request has read but not stored yet count as movement.
func TestUnstoredBytesMove(t *testing.T) {
	is := is.New(t)
	now := time.Now()
	u := &inbox.Upload{Request: record.ID{1}, Length: 1000, Offset: 100, MovedTo: 100}
	is.True(!u.Move(109, now))
	is.True(u.Move(110, now))
	is.Equal(u.Moved, now)
	is.Equal(u.Offset, int64(100))
	is.True(!u.Move(110, now))
	u.Request = record.ID{}
	is.True(!u.Move(1000, now)) // the owner's own uploads have no places
}

// Transfers in progress and unfinished uploads of one sender share its third. Another file of a
// transfer that has begun is not refused.
func TestOneSenderTransfersAThird(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	q := kvtest.AddRequest(t, s, kvtest.User(t, s, "ann").ID, func(f *inbox.RequestForm) { f.MaxUploads = 10 })
	begin := func(from string) (*inbox.Reservation, error) { return inbox.Reserve(s, t.Context(), q, from, 1, 1) }
	_, _, err := kvtest.BeginSent(s, q, "here", 10)
	is.NoErr(err)
	first, err := begin("here")
	is.NoErr(err)
	is.NoErr(first.Another())
	_, err = begin("here")
	is.Equal(kvtest.Code(err), "busy")
	_, _, err = kvtest.BeginSent(s, q, "here", 10)
	is.Equal(kvtest.Code(err), "busy")
	is.NoErr(first.Another())

	there, err := begin("there")
	is.NoErr(err)
	is.NoErr(there.Release())
	kvtest.Update(t, s, func(tx *kv.Tx) error { // what was begun can end
		_, err := inbox.Receive(tx, first, &inbox.SenderForm{}, []inbox.Received{kvtest.Came(1, 1)})
		return err
	})
	is.NoErr(first.Release())
	again, err := begin("here")
	is.NoErr(err)
	is.NoErr(again.Release())
}
