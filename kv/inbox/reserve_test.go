package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// The model of upload requests: the expected state, in plain structs.
type (
	modelItem struct {
		id    record.ID
		state inbox.State
		ref   byte
		size  int64
		at    time.Time
		from  string
		file  record.ID
	}
	modelRequest struct {
		q     *inbox.Request
		owner int
		items []*modelItem
		views int64
	}
)

// Requests and their queues agree with a model through a long history, with the
// store closed and reopened in between.
func TestRequestsModel(t *testing.T) {
	is := is.New(t)
	clock, dir := kvtest.NewClock(), filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, clock.Now)
	rnd := rand.New(rand.NewPCG(3, 4))
	users := []record.ID{kvtest.User(t, s, "ann").ID, kvtest.User(t, s, "bob").ID}
	var all []*modelRequest
	files := map[record.ID]byte{} // of owners, by id
	sizes := map[record.ID]int64{}
	seen := map[byte]bool{}

	received := func(m *modelRequest) (n, pending, size int64) {
		for _, i := range m.items {
			n, size = n+1, size+i.size
			if i.state == inbox.Pending {
				pending++
			}
		}
		return n, pending, size
	}
	check := func() {
		is.Helper()
		kvtest.View(t, s, func(tx *kv.Tx) error {
			is.NoErr(kvtest.Audit(tx))
			held := map[byte]bool{}
			for _, ref := range files {
				held[ref] = true
			}
			for owner, id := range users {
				var pending []record.ID
				kept := int64(0)
				for _, m := range all {
					if m.owner != owner {
						_, err := inbox.ReadRequest(tx, id, m.q.ID)
						is.Equal(kvtest.Code(err), "not_found") // another's
						continue
					}
					var v inbox.ShownRequest
					q, err := inbox.ReadRequest(tx, id, m.q.ID)
					is.NoErr(err)
					inbox.ShowRequest(tx, q, &v)
					n, waiting, _ := received(m)
					is.Equal([]int64{v.Uploads, v.Pending, v.Views}, []int64{n, waiting, m.views})
					at, err := inbox.RequestAt(tx, q.Slug)
					is.NoErr(err)
					is.Equal(at.ID, q.ID)
					_, err = catalog.Slug(tx, q.Slug)
					is.Equal(kvtest.Code(err), "not_found") // the slug is not a record's
					for _, state := range []inbox.State{"", inbox.Pending, inbox.Approved, inbox.Rejected} {
						var want []record.ID
						for _, i := range m.items {
							if state == "" || i.state == state {
								want = append(want, i.id)
							}
						}
						got, total, err := inbox.ListQueue(tx, inbox.Queue{Owner: id, Request: q.ID, State: state, Limit: 1000})
						is.NoErr(err)
						is.Equal(total, int64(len(want)))
						var have []record.ID
						for _, i := range got {
							have = append(have, i.ID)
						}
						is.Equal(have, want)
						got, total, err = inbox.ListQueue(tx, inbox.Queue{Owner: id, Request: q.ID, State: state, Limit: 2, Offset: 1})
						is.NoErr(err)
						is.Equal(total, int64(len(want)))
						is.Equal(len(got), min(2, max(0, len(want)-1)))
						for n, i := range got {
							is.Equal(i.ID, want[1+n])
						}
					}
					for _, i := range m.items {
						if i.state == inbox.Pending {
							pending, kept, held[i.ref] = append(pending, i.id), kept+i.size, true
						}
					}
				}
				slices.SortFunc(pending, func(a, b record.ID) int { return slices.Compare(a[:], b[:]) })
				got, total, err := inbox.ListQueue(tx, inbox.Queue{Owner: id, State: inbox.Pending, Limit: 1000})
				is.NoErr(err)
				is.Equal(total, int64(len(pending)))
				is.Equal(inbox.PendingCount(tx, id), total)
				var have []record.ID
				for _, i := range got {
					have = append(have, i.ID)
				}
				is.Equal(have, pending)
				u, err := people.ReadUser(tx, id)
				is.NoErr(err)
				use, err := people.UsageOf(tx, u)
				is.NoErr(err)
				for file := range files {
					if r, err := catalog.Record(tx, id, record.Files, file.String()); err == nil {
						kept += sizes[file]
						is.True(!r.Public || r.Slug != "")
					}
				}
				is.Equal(use.Bytes, kept)
			}
			contents := map[byte]bool{}
			for ref := range tx.Contents() {
				is.True(!contents[ref[0]])
				contents[ref[0]] = true
			}
			is.Equal(contents, held)
			for ref := range seen {
				is.Equal(catalog.Referenced(tx, [32]byte{ref}), held[ref])
				is.Equal(catalog.Unreferenced(tx, [32]byte{ref}, tx.Now), !held[ref]) // a sweep would take it
				is.Equal(len(tx.Having([32]byte{ref})) > 0, held[ref])
			}
			return nil
		})
	}

	for i := range 500 {
		clock.Add(time.Duration(rnd.IntN(int(20 * time.Minute))))
		var m *modelRequest
		if len(all) > 0 {
			m = all[rnd.IntN(len(all))]
		}
		switch n := rnd.IntN(20); {
		case m == nil || n == 0 && len(all) < 8:
			owner := rnd.IntN(2)
			q := kvtest.AddRequest(t, s, users[owner], func(f *inbox.RequestForm) {
				f.Approval = rnd.IntN(4) > 0
				f.MaxUploads = int64(rnd.IntN(2) * 12)
				f.MaxTotal = int64(rnd.IntN(2) * 200)
				f.PerSender = int64(rnd.IntN(2) * 3)
				f.FolderName = []string{"", "In"}[rnd.IntN(2)]
			})
			all = append(all, &modelRequest{q: q, owner: owner})
		case n < 10:
			one := kvtest.Came(byte(rnd.IntN(12)), int64(rnd.IntN(30)))
			from := fmt.Sprint("sender", rnd.IntN(3))
			got, err := kvtest.Leave(s, m.q, from, one)
			count, _, size := received(m)
			window := int64(0)
			for _, i := range m.items {
				if i.from == from && clock.Now().Sub(i.at) < 24*time.Hour {
					window++
				}
			}
			switch {
			case m.q.MaxUploads > 0 && count >= m.q.MaxUploads:
				is.Equal(kvtest.Code(err), "limit_reached")
			case m.q.PerSender > 0 && window >= m.q.PerSender:
				is.Equal(kvtest.Code(err), "sender_limit")
			case m.q.MaxTotal > 0 && (size+one.Size > m.q.MaxTotal || size == m.q.MaxTotal):
				is.Equal(kvtest.Code(err), "limit_reached")
			default:
				is.NoErr(err)
				it := &modelItem{got[0].ID, got[0].State, one.Ref[0], one.Size, got[0].Created, from, got[0].File}
				m.items = append(m.items, it)
				seen[it.ref] = true
				is.Equal(it.state == inbox.Pending, m.q.Approval)
				if it.state == inbox.Approved {
					files[it.file], sizes[it.file] = it.ref, it.size
				}
			}
		case n < 15:
			if len(m.items) == 0 {
				break
			}
			it := m.items[rnd.IntN(len(m.items))]
			d := &inbox.Decision{Action: []string{"approve", "reject"}[rnd.IntN(2)]}
			var got *inbox.Item
			err := s.Update(func(tx *kv.Tx) (err error) {
				got, err = inbox.Decide(tx, users[m.owner], m.q.ID, it.id, d)
				return err
			})
			other := s.Update(func(tx *kv.Tx) error {
				_, err := inbox.Decide(tx, users[1-m.owner], m.q.ID, it.id, d)
				return err
			})
			is.Equal(kvtest.Code(other), "not_found")
			if it.state != inbox.Pending {
				is.Equal(kvtest.Code(err), "already_decided")
				break
			}
			is.NoErr(err)
			it.state = got.State
			if d.Approves() {
				it.file = got.File
				files[it.file], sizes[it.file] = it.ref, it.size
				kvtest.View(t, s, func(tx *kv.Tx) error {
					r, err := catalog.Slug(tx, got.FileSlug)
					is.NoErr(err)
					is.True(!r.Public)
					is.Equal(len(r.Slug), record.SlugLength)
					var v record.Shown
					is.NoErr(catalog.Show(tx, r, &v))
					is.Equal(v.FolderName, m.q.FolderName)
					return nil
				})
			}
		case n < 16: // an owner's own file, which may share the content
			one := kvtest.Came(byte(rnd.IntN(12)), int64(rnd.IntN(30)))
			f := record.NewForm(record.Files)
			f.Body = &record.File{OriginalName: "own"}
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				r, err := catalog.Add(tx, catalog.Draft{
					Owner: users[rnd.IntN(2)], Kind: record.Files, Form: f, Content: &record.Content{Ref: one.Ref, Size: one.Size},
				})
				if err == nil {
					files[r.ID], sizes[r.ID], seen[one.Ref[0]] = one.Ref[0], one.Size, true
				}
				return err
			})
		case n < 17:
			for id := range files {
				kvtest.Update(t, s, func(tx *kv.Tx) error {
					for _, u := range users {
						if r, err := catalog.Record(tx, u, record.Files, id.String()); err == nil {
							return catalog.Remove(tx, r)
						}
					}
					return nil
				})
				delete(files, id)
				break
			}
		case n < 18:
			inbox.RequestSeen(s, m.q)
			m.views++
			is.NoErr(s.Flush())
		case n < 19 && i%3 == 0:
			is.NoErr(inbox.RemoveRequest(s, users[m.owner], m.q.ID))
			is.Equal(kvtest.Code(inbox.RemoveRequest(s, users[m.owner], m.q.ID)), "not_found")
			all = slices.DeleteFunc(all, func(x *modelRequest) bool { return x == m })
		default:
			kvtest.Update(t, s, inbox.DropSenders)
		}
		if i%20 == 19 {
			check()
		}
		if i%170 == 169 {
			is.NoErr(s.Close())
			s = kvtest.OpenAt(t, dir, clock.Now)
			check()
		}
	}
	is.True(len(all) > 2)
	is.Equal(inbox.PromisedRequests(s)+inbox.PromisedOwners(s), 0) // every reservation was released or used

	is.NoErr(people.RemoveUser(s, users[0], "root")) // with all requests and their queues
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, users[0]), nil)
		return kvtest.Audit(tx)
	})
}

// Space promised to one transfer is not promised to another while the first runs.
func TestPromisedBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	q := kvtest.AddRequest(t, s, kvtest.User(t, s, "ann").ID, func(f *inbox.RequestForm) { f.MaxTotal = 25 })
	one, err := inbox.Reserve(s, t.Context(), q, "192.0.2.1", 10, 10)
	is.NoErr(err)
	two, err := inbox.Reserve(s, t.Context(), q, "192.0.2.1", 10, 10)
	is.NoErr(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = inbox.Reserve(s, ctx, q, "192.0.2.1", 10, 10)
	is.True(err != nil) // there is space once the others have ended
	is.NoErr(one.Release())
	three, err := inbox.Reserve(s, t.Context(), q, "192.0.2.1", 10, 10)
	is.NoErr(err)
	is.NoErr(errors.Join(two.Release(), three.Release()))
	kvtest.View(t, s, kvtest.Audit)
}

// TestReserve: a hundred senders race. As many get a place as there are places, and
// each limit holds on its own.
func TestReserve(t *testing.T) {
	for name, set := range map[string]func(*inbox.RequestForm){
		"files":  func(f *inbox.RequestForm) { f.MaxUploads = 7 },
		"bytes":  func(f *inbox.RequestForm) { f.MaxTotal = 7 * 10 },
		"sender": func(f *inbox.RequestForm) { f.PerSender = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := kvtest.Open(t)
			q := kvtest.AddRequest(t, s, kvtest.User(t, s, "ann").ID, set)
			race := func() (won int, errs []error) {
				var mu sync.Mutex
				var all sync.WaitGroup
				for i := range 100 {
					all.Go(func() {
						r, err := inbox.Reserve(s, t.Context(), q, "192.0.2.1", 10, 10)
						if err == nil && i%2 == 0 { // half of them abort
							err = r.Release()
							mu.Lock()
							defer mu.Unlock()
							errs = append(errs, err)
							return
						}
						if err == nil {
							err = s.Update(func(tx *kv.Tx) error {
								_, err := inbox.Receive(tx, r, &inbox.SenderForm{}, []inbox.Received{kvtest.Came(byte(i), 10)})
								return err
							})
							err = errors.Join(err, r.Release())
						}
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							won++
						} else if !slices.Contains([]string{"limit_reached", "sender_limit", "busy"}, kvtest.Code(err)) {
							errs = append(errs, err)
						}
					})
				}
				all.Wait()
				return won, errs
			}
			won := 0
			for won < 7 { // aborted transfers have freed their places
				n, errs := race()
				is.NoErr(errors.Join(errs...))
				won += n
				is.True(won <= 7)
			}
			n, errs := race()
			is.NoErr(errors.Join(errs...))
			is.Equal(n, 0)
			is.Equal(inbox.PromisedRequests(s), 0)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				is.Equal(inbox.CountReceived(tx, q), int64(7))
				return kvtest.Audit(tx)
			})
		})
	}
}

// TestReserveAll: senders who all finish take every place.
func TestReserveAll(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	q := kvtest.AddRequest(t, s, kvtest.User(t, s, "ann").ID, func(f *inbox.RequestForm) {
		f.MaxUploads, f.MaxTotal = 40, 10*10
	})
	var all sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 100 {
		all.Go(func() {
			_, err := kvtest.Leave(s, q, fmt.Sprint(i), kvtest.Came(byte(i), 10))
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	won := 0
	for err := range errs {
		if err == nil {
			won++
		} else {
			is.Equal(kvtest.Code(err), "limit_reached")
		}
	}
	is.Equal(won, 10)
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(inbox.CountReceived(tx, q), int64(10)); return kvtest.Audit(tx) })
}

// TestRestartForgetsReservations: a restart frees unused reservations, and received
// files are still counted.
func TestRestartForgetsReservations(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, time.Now)
	q := kvtest.AddRequest(t, s, kvtest.User(t, s, "ann").ID, func(f *inbox.RequestForm) { f.MaxUploads = 2 })
	_, err := kvtest.Leave(s, q, "a", kvtest.Came(1, 1))
	is.NoErr(err)
	r, err := inbox.Reserve(s, t.Context(), q, "b", 1, 1)
	is.NoErr(err)
	_, err = inbox.Reserve(s, t.Context(), q, "c", 1, 1)
	is.Equal(kvtest.Code(err), "limit_reached")
	is.NoErr(s.Close())
	is.NoErr(r.Release()) // late: the store is closed
	s = kvtest.OpenAt(t, dir, time.Now)
	_, err = kvtest.Leave(s, q, "c", kvtest.Came(2, 1))
	is.NoErr(err)
	_, err = kvtest.Leave(s, q, "d", kvtest.Came(3, 1))
	is.Equal(kvtest.Code(err), "limit_reached")
}

// TestReserveChanges: changes of a request during a transfer apply to it, and waiting
// files count against the owner's quota.
func TestReserveChanges(t *testing.T) {
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), clock.Now)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, func(f *inbox.RequestForm) { f.PerSender = 1 })
	r, err := inbox.Reserve(s, t.Context(), q, "a", 1, 1)
	is.NoErr(err)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		now, err := inbox.ReadRequest(tx, ann.ID, q.ID)
		is.NoErr(err)
		now.Active = false
		return inbox.SaveRequest(tx, now)
	})
	receive := func(r *inbox.Reservation, c inbox.Received) error {
		return s.Update(func(tx *kv.Tx) error {
			_, err := inbox.Receive(tx, r, &inbox.SenderForm{}, []inbox.Received{c})
			return err
		})
	}
	is.Equal(kvtest.Code(receive(r, kvtest.Came(1, 1))), "not_found")
	is.Equal(inbox.PromisedRequests(s), 0)
	quota := func(n int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, ann.ID)
			is.NoErr(err)
			u.Quota = n
			return people.SaveUser(tx, u)
		})
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		now, err := inbox.ReadRequest(tx, ann.ID, q.ID)
		is.NoErr(err)
		now.Active = true
		return inbox.SaveRequest(tx, now)
	})
	quota(10 + kvtest.TextNow(t, s, ann.ID))
	_, err = inbox.Reserve(s, t.Context(), q, "a", 11, 11)
	is.Equal(kvtest.Code(err), "limit_reached") // without mentioning a quota
	r, err = inbox.Reserve(s, t.Context(), q, "a", 6, 6)
	is.NoErr(err)
	gone, leave2 := context.WithCancel(t.Context())
	leave2()
	_, err = inbox.Reserve(s, gone, q, "b", 6, 6)
	is.Equal(kvtest.Code(err), "busy")
	is.NoErr(receive(r, kvtest.Came(1, 6)))
	quota(10 + kvtest.TextNow(t, s, ann.ID)) // its row counts as text
	_, err = inbox.Reserve(s, t.Context(), q, "b", 6, 6)
	is.Equal(kvtest.Code(err), "limit_reached")
	f := record.NewForm(record.Files)
	f.Body = &record.File{OriginalName: "own"}
	err = s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: ann.ID, Kind: record.Files, Form: f, Content: kvtest.Content(record.Files, 9, 5),
		})
		return err
	})
	is.Equal(kvtest.Code(err), "quota_exceeded")

	// The window of a sender moves on, and old rows are deleted.
	_, err = kvtest.Leave(s, q, "a", kvtest.Came(2, 1))
	is.Equal(kvtest.Code(err), "sender_limit")
	clock.Add(25 * time.Hour)
	_, err = kvtest.Leave(s, q, "a", kvtest.Came(2, 1))
	is.NoErr(err)
	rows := func() (n int) {
		kvtest.View(t, s, func(tx *kv.Tx) error { n = tx.Count(kvtest.Bucket("sender")); return nil })
		return n
	}
	is.Equal(rows(), 2)
	kvtest.Update(t, s, inbox.DropSenders)
	is.Equal(rows(), 1)
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := inbox.AddRequest(tx, ann.ID, kvtest.RequestForm(func(f *inbox.RequestForm) { f.Slug = q.Slug }), "")
		return err
	})), "slug_taken")
}

// TestRequestEvents: each of the three events is written in the transaction of its
// change.
func TestRequestEvents(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	var hook jobs.Webhook
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		hook, err = jobs.AddWebhook(
			tx, jobs.Webhook{Owner: ann.ID, URL: "https://example.org", Events: []jobs.Event{"*"}, Enabled: true},
		)
		return err
	})
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	got, err := kvtest.Leave(s, q, "a", kvtest.Came(1, 1), kvtest.Came(2, 1))
	is.NoErr(err)
	for i, action := range []string{"approve", "reject"} {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			_, err := inbox.Decide(tx, ann.ID, q.ID, got[i].ID, &inbox.Decision{Action: action})
			return err
		})
	}
	var events []jobs.Event
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for _, d := range kvtest.DeliveriesOf(t, tx, hook.ID) {
			events = append(events, d.Event)
		}
		return nil
	})
	is.Equal(
		events,
		[]jobs.Event{jobs.UploadReceived, jobs.UploadReceived, "file.uploaded", jobs.UploadApproved, jobs.UploadRejected},
	)
}

// TestReserveInAFailedCommit: a reservation is released if another job makes its
// commit fail.
func TestReserveInAFailedCommit(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	q := kvtest.AddRequest(t, s, kvtest.User(t, s, "ann").ID, func(f *inbox.RequestForm) {
		f.MaxUploads, f.MaxTotal = 3, 100
	})
	held, err := inbox.Reserve(s, t.Context(), q, "a", 10, 10)
	is.NoErr(err)
	broken := &table.Table[int]{ // no bucket takes such a long key; the error comes at the commit
		Rows: kvtest.Bucket("answer"), Key: func(*int) []byte {
			return []byte("k")
		}, Encode: func(*int) ([]byte, error) { return []byte("v"), nil },
		Decode: func([]byte, []byte) (*int, error) { return new(int), nil },
		Sums:   kvtest.Bucket("sum"), Tally: func(_ *int, add func([]byte, int64)) { add(make([]byte, 40_000), 1) },
	}
	begun, gate := make(chan bool), make(chan bool)
	failed := make(chan error, 3)
	go func() {
		failed <- s.Update(func(tx *kv.Tx) error { close(begun); <-gate; return broken.Put(tx.Tx, new(int)) })
	}()
	<-begun
	go func() { _, err := inbox.Reserve(s, context.Background(), q, "b", 10, 10); failed <- err }()
	go func() { failed <- held.Another() }()
	for s.Waiting() < 2 {
		runtime.Gosched()
	}
	close(gate)
	for range 3 {
		err := <-failed
		is.True(err != nil && kvtest.Code(err) == "") // not a client error
	}
	is.NoErr(held.Release())
	is.Equal(inbox.PromisedRequests(s)+inbox.PromisedOwners(s), 0)
	_, err = kvtest.Leave(s, q, "c", kvtest.Came(1, 50), kvtest.Came(2, 50))
	is.NoErr(err)
}

// TestReserveBesideUploads: strangers cannot use the bytes and slugs reserved for an
// owner's own unfinished uploads.
func TestReserveBesideUploads(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	text := kvtest.TextNow(t, s, ann.ID)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: 100 + text}) })
	upload, err := kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Length: 60, Slug: "mine"})
	is.NoErr(err)
	_, err = kvtest.Leave(s, q, "a", kvtest.Came(1, 41))
	is.Equal(kvtest.Code(err), "limit_reached")
	_, err = kvtest.Leave(s, q, "a", kvtest.Came(1, 40))
	is.NoErr(err)
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := inbox.AddRequest(tx, ann.ID, kvtest.RequestForm(func(f *inbox.RequestForm) { f.Slug = "mine" }), "")
		return err
	})), "slug_taken")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		now, err := inbox.ReadRequest(tx, ann.ID, q.ID)
		is.NoErr(err)
		now.Slug = "mine"
		return inbox.SaveRequest(tx, now)
	})), "slug_taken")
	f := kvtest.Form(t, record.Files, `{"slug":"mine"}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		is.NoErr(inbox.FinishUpload(tx, upload, f, kvtest.Content(record.Files, 9, 60)))
		r, err := catalog.Record(tx, upload.Owner, record.Files, upload.File.String())
		is.NoErr(err)
		is.Equal(r.Slug, "mine")
		return nil
	})
}
