package kv

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

	"kist/kv/record"
	"kist/kv/table"
)

func requestForm(set func(*record.RequestForm)) *record.RequestForm {
	f := &record.RequestForm{Request: record.NewRequest()}
	f.Title = "Photos"
	if set != nil {
		set(f)
	}
	return f
}

func addRequest(t testing.TB, s *Store, owner record.ID, set func(*record.RequestForm)) *record.Request {
	t.Helper()
	var q *record.Request
	update(t, s, func(tx *Tx) (err error) {
		q, err = tx.AddRequest(owner, requestForm(set), "")
		return err
	})
	return q
}

func came(ref byte, size int64) Received {
	return Received{Name: fmt.Sprintf("f%d.bin", ref), MimeType: "application/octet-stream", Ref: [32]byte{ref}, Size: size}
}

// leave is one transfer of a sender's from its beginning to its end.
func leave(s *Store, q *record.Request, from string, files ...Received) ([]*record.Item, error) {
	size := int64(0)
	for _, f := range files {
		size += f.Size
	}
	r, err := s.Reserve(context.Background(), q, from, size/2, size+3) // as one knows it from the length of a body
	for i := 1; err == nil && i < len(files); i++ {
		err = r.Another()
	}
	if err == nil && r.Bytes() < size {
		err = record.ErrNoRoom
	}
	if err != nil {
		return nil, errors.Join(err, r.Release())
	}
	var got []*record.Item
	err = s.Update(func(tx *Tx) (err error) {
		got, err = tx.Receive(r, &record.SenderForm{Name: "Bob", Message: "hello"}, files)
		return err
	})
	return got, errors.Join(err, r.Release())
}

// The model of upload requests: what is to be there, in plain structs.
type (
	modelItem struct {
		id    record.ID
		state record.State
		ref   byte
		size  int64
		at    time.Time
		from  string
		file  record.ID
	}
	modelRequest struct {
		q     *record.Request
		owner int
		items []*modelItem
		views int64
	}
)

// Requests and their queues are compared with a model through a long history,
// with the store closed and opened again in between.
func TestRequestsModel(t *testing.T) {
	is := is.New(t)
	clock, dir := newClock(), filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, clock.now)
	rnd := rand.New(rand.NewPCG(3, 4))
	users := []record.ID{user(t, s, "ann").ID, user(t, s, "bob").ID}
	var all []*modelRequest
	files := map[record.ID]byte{} // of owners, by id
	sizes := map[record.ID]int64{}
	seen := map[byte]bool{}

	received := func(m *modelRequest) (n, pending, size int64) {
		for _, i := range m.items {
			n, size = n+1, size+i.size
			if i.state == record.Pending {
				pending++
			}
		}
		return n, pending, size
	}
	check := func() {
		is.Helper()
		view(t, s, func(tx *Tx) error {
			is.NoErr(audit(tx))
			held := map[byte]bool{}
			for _, ref := range files {
				held[ref] = true
			}
			for owner, id := range users {
				var pending []record.ID
				kept := int64(0)
				for _, m := range all {
					if m.owner != owner {
						_, err := tx.Request(id, m.q.ID)
						is.Equal(code(err), "not_found") // another's
						continue
					}
					var v record.ShownRequest
					q, err := tx.Request(id, m.q.ID)
					is.NoErr(err)
					tx.ShowRequest(q, &v)
					n, waiting, _ := received(m)
					is.Equal([]int64{v.Uploads, v.Pending, v.Views}, []int64{n, waiting, m.views})
					at, err := tx.RequestAt(q.Slug)
					is.NoErr(err)
					is.Equal(at.ID, q.ID)
					_, err = tx.Slug(q.Slug)
					is.Equal(code(err), "not_found") // it is no record's
					for _, state := range []record.State{"", record.Pending, record.Approved, record.Rejected} {
						var want []record.ID
						for _, i := range m.items {
							if state == "" || i.state == state {
								want = append(want, i.id)
							}
						}
						got, total, err := tx.Queue(Queue{Owner: id, Request: q.ID, State: state, Limit: 1000})
						is.NoErr(err)
						is.Equal(total, int64(len(want)))
						var have []record.ID
						for _, i := range got {
							have = append(have, i.ID)
						}
						is.Equal(have, want)
						got, total, err = tx.Queue(Queue{Owner: id, Request: q.ID, State: state, Limit: 2, Offset: 1})
						is.NoErr(err)
						is.Equal(total, int64(len(want)))
						is.Equal(len(got), min(2, max(0, len(want)-1)))
						for n, i := range got {
							is.Equal(i.ID, want[1+n])
						}
					}
					for _, i := range m.items {
						if i.state == record.Pending {
							pending, kept, held[i.ref] = append(pending, i.id), kept+i.size, true
						}
					}
				}
				slices.SortFunc(pending, func(a, b record.ID) int { return slices.Compare(a[:], b[:]) })
				got, total, err := tx.Queue(Queue{Owner: id, State: record.Pending, Limit: 1000})
				is.NoErr(err)
				is.Equal(total, int64(len(pending)))
				is.Equal(tx.PendingCount(id), total)
				var have []record.ID
				for _, i := range got {
					have = append(have, i.ID)
				}
				is.Equal(have, pending)
				u, err := tx.User(id)
				is.NoErr(err)
				use, err := tx.Usage(u)
				is.NoErr(err)
				for file := range files {
					if r, err := tx.Record(id, record.Files, file.String()); err == nil {
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
				is.Equal(tx.Referenced([32]byte{ref}), held[ref])
				is.Equal(tx.Unreferenced([32]byte{ref}, tx.Now), !held[ref]) // a sweep would take it
				is.Equal(len(tx.Having([32]byte{ref})) > 0, held[ref])
			}
			return nil
		})
	}

	for i := range 500 {
		clock.add(time.Duration(rnd.IntN(int(20 * time.Minute))))
		var m *modelRequest
		if len(all) > 0 {
			m = all[rnd.IntN(len(all))]
		}
		switch n := rnd.IntN(20); {
		case m == nil || n == 0 && len(all) < 8:
			owner := rnd.IntN(2)
			q := addRequest(t, s, users[owner], func(f *record.RequestForm) {
				f.Approval = rnd.IntN(4) > 0
				f.MaxUploads = int64(rnd.IntN(2) * 12)
				f.MaxTotal = int64(rnd.IntN(2) * 200)
				f.PerSender = int64(rnd.IntN(2) * 3)
				f.FolderName = []string{"", "In"}[rnd.IntN(2)]
			})
			all = append(all, &modelRequest{q: q, owner: owner})
		case n < 10:
			one := came(byte(rnd.IntN(12)), int64(rnd.IntN(30)))
			from := fmt.Sprint("sender", rnd.IntN(3))
			got, err := leave(s, m.q, from, one)
			count, _, size := received(m)
			window := int64(0)
			for _, i := range m.items {
				if i.from == from && clock.now().Sub(i.at) < 24*time.Hour {
					window++
				}
			}
			switch {
			case m.q.MaxUploads > 0 && count >= m.q.MaxUploads:
				is.Equal(code(err), "limit_reached")
			case m.q.PerSender > 0 && window >= m.q.PerSender:
				is.Equal(code(err), "sender_limit")
			case m.q.MaxTotal > 0 && (size+one.Size > m.q.MaxTotal || size == m.q.MaxTotal):
				is.Equal(code(err), "limit_reached")
			default:
				is.NoErr(err)
				it := &modelItem{got[0].ID, got[0].State, one.Ref[0], one.Size, got[0].Created, from, got[0].File}
				m.items = append(m.items, it)
				seen[it.ref] = true
				is.Equal(it.state == record.Pending, m.q.Approval)
				if it.state == record.Approved {
					files[it.file], sizes[it.file] = it.ref, it.size
				}
			}
		case n < 15:
			if len(m.items) == 0 {
				break
			}
			it := m.items[rnd.IntN(len(m.items))]
			d := &record.Decision{Action: []string{"approve", "reject"}[rnd.IntN(2)]}
			var got *record.Item
			err := s.Update(func(tx *Tx) (err error) {
				got, err = tx.Decide(users[m.owner], m.q.ID, it.id, d)
				return err
			})
			other := s.Update(func(tx *Tx) error {
				_, err := tx.Decide(users[1-m.owner], m.q.ID, it.id, d)
				return err
			})
			is.Equal(code(other), "not_found")
			if it.state != record.Pending {
				is.Equal(code(err), "already_decided")
				break
			}
			is.NoErr(err)
			it.state = got.State
			if d.Approves() {
				it.file = got.File
				files[it.file], sizes[it.file] = it.ref, it.size
				view(t, s, func(tx *Tx) error {
					r, err := tx.Slug(got.FileSlug)
					is.NoErr(err)
					is.True(!r.Public)
					is.Equal(len(r.Slug), record.SlugLength)
					var v record.Shown
					is.NoErr(tx.Show(r, &v))
					is.Equal(v.FolderName, m.q.FolderName)
					return nil
				})
			}
		case n < 16: // an owner's own file, which may share the content
			one := came(byte(rnd.IntN(12)), int64(rnd.IntN(30)))
			f := record.NewForm(record.Files)
			f.Body = &record.File{OriginalName: "own"}
			update(t, s, func(tx *Tx) error {
				r, err := tx.Add(users[rnd.IntN(2)], record.Files, f, &record.Content{Ref: one.Ref, Size: one.Size}, "")
				if err == nil {
					files[r.ID], sizes[r.ID], seen[one.Ref[0]] = one.Ref[0], one.Size, true
				}
				return err
			})
		case n < 17:
			for id := range files {
				update(t, s, func(tx *Tx) error {
					for _, u := range users {
						if r, err := tx.Record(u, record.Files, id.String()); err == nil {
							return tx.Remove(r)
						}
					}
					return nil
				})
				delete(files, id)
				break
			}
		case n < 18:
			s.RequestSeen(m.q)
			m.views++
			is.NoErr(s.Flush())
		case n < 19 && i%3 == 0:
			is.NoErr(s.RemoveRequest(users[m.owner], m.q.ID))
			is.Equal(code(s.RemoveRequest(users[m.owner], m.q.ID)), "not_found")
			all = slices.DeleteFunc(all, func(x *modelRequest) bool { return x == m })
		default:
			update(t, s, (*Tx).DropSenders)
		}
		if i%20 == 19 {
			check()
		}
		if i%170 == 169 {
			is.NoErr(s.Close())
			s = openAt(t, dir, clock.now)
			check()
		}
	}
	is.True(len(all) > 2)
	is.Equal(PromisedRequests(s)+PromisedOwners(s), 0) // every place was given back or taken

	is.NoErr(s.RemoveUser(users[0])) // with all requests and what waits there
	view(t, s, func(tx *Tx) error {
		is.Equal(leftOver(tx, users[0]), nil)
		return audit(tx)
	})
}

// What one transfer was promised is not promised to another while it lasts.
func TestPromisedBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	q := addRequest(t, s, user(t, s, "ann").ID, func(f *record.RequestForm) { f.MaxTotal = 25 })
	one, err := s.Reserve(t.Context(), q, "192.0.2.1", 10, 10)
	is.NoErr(err)
	two, err := s.Reserve(t.Context(), q, "192.0.2.1", 10, 10)
	is.NoErr(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Reserve(ctx, q, "192.0.2.1", 10, 10)
	is.True(err != nil) // there is room once the others have ended
	is.NoErr(one.Release())
	three, err := s.Reserve(t.Context(), q, "192.0.2.1", 10, 10)
	is.NoErr(err)
	is.NoErr(errors.Join(two.Release(), three.Release()))
	view(t, s, audit)
}

// TestReserve: of a hundred senders who race, as many get a place as there are
// places, and each limit holds on its own.
func TestReserve(t *testing.T) {
	for name, set := range map[string]func(*record.RequestForm){
		"files":  func(f *record.RequestForm) { f.MaxUploads = 7 },
		"bytes":  func(f *record.RequestForm) { f.MaxTotal = 7 * 10 },
		"sender": func(f *record.RequestForm) { f.PerSender = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := open(t)
			q := addRequest(t, s, user(t, s, "ann").ID, set)
			race := func() (won int, errs []error) {
				var mu sync.Mutex
				var all sync.WaitGroup
				for i := range 100 {
					all.Go(func() {
						r, err := s.Reserve(t.Context(), q, "192.0.2.1", 10, 10)
						if err == nil && i%2 == 0 { // half of them break off
							err = r.Release()
							mu.Lock()
							defer mu.Unlock()
							errs = append(errs, err)
							return
						}
						if err == nil {
							err = s.Update(func(tx *Tx) error {
								_, err := tx.Receive(r, &record.SenderForm{}, []Received{came(byte(i), 10)})
								return err
							})
							err = errors.Join(err, r.Release())
						}
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							won++
						} else if code(err) != "limit_reached" && code(err) != "sender_limit" {
							errs = append(errs, err)
						}
					})
				}
				all.Wait()
				return won, errs
			}
			won := 0
			for won < 7 { // those that broke off have left places
				n, errs := race()
				is.NoErr(errors.Join(errs...))
				won += n
				is.True(won <= 7)
			}
			n, errs := race()
			is.NoErr(errors.Join(errs...))
			is.Equal(n, 0)
			is.Equal(PromisedRequests(s), 0)
			view(t, s, func(tx *Tx) error {
				is.Equal(tx.received(q), int64(7))
				return audit(tx)
			})
		})
	}
}

// TestReserveAll: senders who all go on to the end take every place.
func TestReserveAll(t *testing.T) {
	is := is.New(t)
	s := open(t)
	q := addRequest(t, s, user(t, s, "ann").ID, func(f *record.RequestForm) { f.MaxUploads, f.MaxTotal = 40, 10*10 })
	var all sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 100 {
		all.Go(func() {
			_, err := leave(s, q, fmt.Sprint(i), came(byte(i), 10))
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
			is.Equal(code(err), "limit_reached")
		}
	}
	is.Equal(won, 10)
	view(t, s, func(tx *Tx) error { is.Equal(tx.received(q), int64(10)); return audit(tx) })
}

// TestRestartForgetsReservations: a place that nobody came for is free again
// after a restart, and what came is still counted.
func TestRestartForgetsReservations(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, time.Now)
	q := addRequest(t, s, user(t, s, "ann").ID, func(f *record.RequestForm) { f.MaxUploads = 2 })
	_, err := leave(s, q, "a", came(1, 1))
	is.NoErr(err)
	r, err := s.Reserve(t.Context(), q, "b", 1, 1)
	is.NoErr(err)
	_, err = s.Reserve(t.Context(), q, "c", 1, 1)
	is.Equal(code(err), "limit_reached")
	is.NoErr(s.Close())
	is.NoErr(r.Release()) // late, of a store that is closed
	s = openAt(t, dir, time.Now)
	_, err = leave(s, q, "c", came(2, 1))
	is.NoErr(err)
	_, err = leave(s, q, "d", came(3, 1))
	is.Equal(code(err), "limit_reached")
}

// TestReserveChanges: what a request has become while a transfer was under way
// decides, and the owner's quota counts what waits.
func TestReserveChanges(t *testing.T) {
	is := is.New(t)
	clock := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), clock.now)
	ann := user(t, s, "ann")
	q := addRequest(t, s, ann.ID, func(f *record.RequestForm) { f.PerSender = 1 })
	r, err := s.Reserve(t.Context(), q, "a", 1, 1)
	is.NoErr(err)
	update(t, s, func(tx *Tx) error {
		now, err := tx.Request(ann.ID, q.ID)
		is.NoErr(err)
		now.Active = false
		return tx.SaveRequest(now)
	})
	receive := func(r *Reservation, c Received) error {
		return s.Update(func(tx *Tx) error {
			_, err := tx.Receive(r, &record.SenderForm{}, []Received{c})
			return err
		})
	}
	is.Equal(code(receive(r, came(1, 1))), "not_found")
	is.Equal(PromisedRequests(s), 0)
	quota := func(n int64) {
		update(t, s, func(tx *Tx) error {
			u, err := tx.User(ann.ID)
			is.NoErr(err)
			u.Quota = n
			return tx.SaveUser(u)
		})
	}
	quota(10)
	update(t, s, func(tx *Tx) error {
		now, err := tx.Request(ann.ID, q.ID)
		is.NoErr(err)
		now.Active = true
		return tx.SaveRequest(now)
	})
	_, err = s.Reserve(t.Context(), q, "a", 11, 11)
	is.Equal(code(err), "limit_reached") // and not a word of a quota
	r, err = s.Reserve(t.Context(), q, "a", 6, 6)
	is.NoErr(err)
	gone, leave2 := context.WithCancel(t.Context())
	leave2()
	_, err = s.Reserve(gone, q, "b", 6, 6)
	is.Equal(code(err), "busy")
	is.NoErr(receive(r, came(1, 6)))
	quota(10 + textNow(t, s, ann.ID)) // its row has its place
	_, err = s.Reserve(t.Context(), q, "b", 6, 6)
	is.Equal(code(err), "limit_reached")
	f := record.NewForm(record.Files)
	f.Body = &record.File{OriginalName: "own"}
	err = s.Update(func(tx *Tx) error {
		_, err := tx.Add(ann.ID, record.Files, f, content(record.Files, 9, 5), "")
		return err
	})
	is.Equal(code(err), "quota_exceeded")

	// The window of a sender moves on, and old rows go.
	_, err = leave(s, q, "a", came(2, 1))
	is.Equal(code(err), "sender_limit")
	clock.add(25 * time.Hour)
	_, err = leave(s, q, "a", came(2, 1))
	is.NoErr(err)
	rows := func() (n int) {
		view(t, s, func(tx *Tx) error { n = tx.Count(bucket("sender")); return nil })
		return n
	}
	is.Equal(rows(), 2)
	update(t, s, (*Tx).DropSenders)
	is.Equal(rows(), 1)
	is.Equal(code(s.Update(func(tx *Tx) error {
		_, err := tx.AddRequest(ann.ID, requestForm(func(f *record.RequestForm) { f.Slug = q.Slug }), "")
		return err
	})), "slug_taken")
}

// TestRequestEvents: each of the three is written in the transaction of its
// change.
func TestRequestEvents(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann := user(t, s, "ann")
	var hook record.Webhook
	update(t, s, func(tx *Tx) (err error) {
		hook, err = tx.AddWebhook(record.Webhook{Owner: ann.ID, URL: "https://example.org", Events: []record.Event{"*"}, Enabled: true})
		return err
	})
	q := addRequest(t, s, ann.ID, nil)
	got, err := leave(s, q, "a", came(1, 1), came(2, 1))
	is.NoErr(err)
	for i, action := range []string{"approve", "reject"} {
		update(t, s, func(tx *Tx) error {
			_, err := tx.Decide(ann.ID, q.ID, got[i].ID, &record.Decision{Action: action})
			return err
		})
	}
	var events []record.Event
	view(t, s, func(tx *Tx) error {
		for _, d := range deliveriesOf(t, tx, hook.ID) {
			events = append(events, d.Event)
		}
		return nil
	})
	is.Equal(events, []record.Event{record.UploadReceived, record.UploadReceived, "file.uploaded", record.UploadApproved, record.UploadRejected})
}

// TestReserveInAFailedCommit: a place that was kept in a commit which others
// made fail is free again.
func TestReserveInAFailedCommit(t *testing.T) {
	is := is.New(t)
	s := open(t)
	q := addRequest(t, s, user(t, s, "ann").ID, func(f *record.RequestForm) { f.MaxUploads, f.MaxTotal = 3, 100 })
	held, err := s.Reserve(t.Context(), q, "a", 10, 10)
	is.NoErr(err)
	broken := &table.Table[int]{ // no bucket takes so long a key, which shows at the end
		Rows: bucket("answer"), Key: func(*int) []byte { return []byte("k") }, Encode: func(*int) ([]byte, error) { return []byte("v"), nil },
		Decode: func([]byte, []byte) (*int, error) { return new(int), nil },
		Sums:   bucket("sum"), Tally: func(_ *int, add func([]byte, int64)) { add(make([]byte, 40_000), 1) },
	}
	begun, gate := make(chan bool), make(chan bool)
	failed := make(chan error, 3)
	go func() {
		failed <- s.Update(func(tx *Tx) error { close(begun); <-gate; return broken.Put(tx.Tx, new(int)) })
	}()
	<-begun
	go func() { _, err := s.Reserve(context.Background(), q, "b", 10, 10); failed <- err }()
	go func() { failed <- held.Another() }()
	for s.Waiting() < 2 {
		runtime.Gosched()
	}
	close(gate)
	for range 3 {
		err := <-failed
		is.True(err != nil && code(err) == "") // nobody's own fault
	}
	is.NoErr(held.Release())
	is.Equal(PromisedRequests(s)+PromisedOwners(s), 0)
	_, err = leave(s, q, "c", came(1, 50), came(2, 50))
	is.NoErr(err)
}

// TestReserveBesideUploads: what is reserved for an owner's own uploads that
// are under way is not for strangers: their bytes, and their slugs.
func TestReserveBesideUploads(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann := user(t, s, "ann")
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: 100}) })
	q := addRequest(t, s, ann.ID, nil)
	own, err := beginUpload(s, Upload{Owner: ann.ID, Length: 60, Slug: "mine"})
	is.NoErr(err)
	_, err = leave(s, q, "a", came(1, 41))
	is.Equal(code(err), "limit_reached")
	_, err = leave(s, q, "a", came(1, 40))
	is.NoErr(err)
	is.Equal(code(s.Update(func(tx *Tx) error {
		_, err := tx.AddRequest(ann.ID, requestForm(func(f *record.RequestForm) { f.Slug = "mine" }), "")
		return err
	})), "slug_taken")
	is.Equal(code(s.Update(func(tx *Tx) error {
		now, err := tx.Request(ann.ID, q.ID)
		is.NoErr(err)
		now.Slug = "mine"
		return tx.SaveRequest(now)
	})), "slug_taken")
	f := form(t, record.Files, `{"slug":"mine"}`)
	update(t, s, func(tx *Tx) error {
		r, err := tx.FinishUpload(own, f, content(record.Files, 9, 60))
		is.NoErr(err)
		is.Equal(r.Slug, "mine")
		return nil
	})
}
