package inbox_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// itemsIn are the ids of what is in a collection, in its order.
func itemsIn(t *testing.T, s *kv.Store, c *record.Record) (ids []record.ID) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, c.Owner, record.Collections, c.ID.String())
		if err != nil {
			return err
		}
		all, err := catalog.ItemsOf(tx, r)
		for _, m := range all.All {
			ids = append(ids, m.ID)
		}
		return err
	})
	return ids
}

// requestOf is the request of a collection; zero for none.
func requestOf(t *testing.T, s *kv.Store, c *record.Record) (id record.ID) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, c.Owner, record.Collections, c.ID.String())
		if err != nil {
			return err
		}
		b, err := r.Decode()
		if err != nil {
			return err
		}
		q, err := inbox.RequestOf(tx, r, b.(*record.Collection))
		if q != nil {
			id = q.ID
		}
		return err
	})
	return id
}

func collectInto(c *record.Record, more func(*inbox.RequestForm)) func(*inbox.RequestForm) {
	return func(f *inbox.RequestForm) {
		f.Collection = c.ID
		if more != nil {
			more(f)
		}
	}
}

func decideAll(t *testing.T, s *kv.Store, q *inbox.Request, items []*inbox.Item, action string) (all []*inbox.Item) {
	t.Helper()
	var ids []record.ID
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		all, err = inbox.DecideAll(tx, q.Owner, q.ID, ids, &inbox.Decision{Action: action})
		return err
	})
	return all
}

// A collection has one request: the last that names it, as long as it does.
func TestRequestOfCollection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	c := kvtest.Add(t, s, ann.ID, record.Collections, `{"title":"Album"}`)
	others := kvtest.Add(t, s, bob.ID, record.Collections, `{"title":"His"}`)
	tagged := kvtest.Add(t, s, ann.ID, record.Collections, `{"title":"Live"}`)
	kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"x","tags":["sea"]}`)
	kvtest.Edit(t, s, tagged, `{"source":{"tag":"sea"}}`)
	for _, bad := range []record.ID{others.ID, tagged.ID, uuid.Max} {
		err := s.Update(func(tx *kv.Tx) error {
			_, err := inbox.AddRequest(tx, ann.ID, kvtest.RequestForm(func(f *inbox.RequestForm) { f.Collection = bad }), "")
			return err
		})
		is.Equal(kvtest.Code(err), "invalid_fields")
	}

	first := kvtest.AddRequest(t, s, ann.ID, collectInto(c, nil))
	is.Equal(requestOf(t, s, c), first.ID)
	second := kvtest.AddRequest(t, s, ann.ID, collectInto(c, nil))
	is.Equal(requestOf(t, s, c), second.ID)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		q, err := inbox.ReadRequest(tx, ann.ID, first.ID)
		is.NoErr(err)
		is.Equal(q.Collection, uuid.Nil) // it was taken over
		return nil
	})
	save := func(q *inbox.Request, to record.ID) {
		t.Helper()
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			now, err := inbox.ReadRequest(tx, q.Owner, q.ID)
			if err != nil {
				return err
			}
			now.Collection = to
			return inbox.SaveRequest(tx, now)
		})
	}
	save(second, uuid.Nil)
	is.Equal(requestOf(t, s, c), uuid.Nil)
	save(first, c.ID)
	is.Equal(requestOf(t, s, c), first.ID)

	// In the trash and back; and with a folder or a tag it takes nothing.
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, ann.ID, record.Collections, c.ID.String())
		if err != nil {
			return err
		}
		return catalog.Trash(tx, r, "")
	})
	save(first, c.ID) // what stays as it is is not checked
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Trashed(tx, ann.ID, c.ID)
		if err != nil {
			return err
		}
		_, err = catalog.Untrash(tx, r)
		return err
	})
	is.Equal(requestOf(t, s, c), first.ID)
	c = kvtest.Edit(t, s, c, `{"source":{"tag":"sea"}}`)
	is.Equal(requestOf(t, s, c), uuid.Nil)
	kvtest.Edit(t, s, c, `{"source":{"items":[]}}`)
	is.Equal(requestOf(t, s, c), first.ID)

	is.NoErr(inbox.RemoveRequest(s, ann.ID, first.ID))
	is.Equal(requestOf(t, s, c), uuid.Nil)
	kvtest.View(t, s, kvtest.Audit)
}

// What arrives without review, or is approved, is in the collection in the order of its arrival or of the decision,
// and its file has the sender's name. A full or missing collection refuses nothing.
func TestReceivedIntoCollection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	c := kvtest.Add(t, s, ann.ID, record.Collections, `{"title":"Album"}`)
	direct := kvtest.AddRequest(t, s, ann.ID, collectInto(c, func(f *inbox.RequestForm) { f.Approval = false }))
	came, err := kvtest.Leave(s, direct, "a", kvtest.Came(1, 1), kvtest.Came(2, 1))
	is.NoErr(err)
	is.Equal(itemsIn(t, s, c), []record.ID{came[0].File, came[1].File})

	q := kvtest.AddRequest(t, s, ann.ID, collectInto(c, nil))
	var waiting []*inbox.Item
	for n := range 20 {
		got, err := kvtest.Leave(s, q, "a", kvtest.Came(byte(3+n), 1))
		is.NoErr(err)
		waiting = append(waiting, got...)
	}
	is.Equal(len(itemsIn(t, s, c)), 2) // until they are approved
	commits := kvtest.Commits(t, s)
	decided := decideAll(t, s, q, waiting[:15], "approve")
	is.Equal(kvtest.Commits(t, s), commits+1)
	in := itemsIn(t, s, c)
	is.Equal(len(in), 17)
	for n, i := range decided {
		is.Equal(in[2+n], i.File)
		is.Equal(i.Uncollected, catalog.Uncollected(""))
	}
	err = s.Update(func(tx *kv.Tx) error {
		twice := []record.ID{waiting[15].ID, waiting[15].ID}
		_, err := inbox.DecideAll(tx, ann.ID, q.ID, twice, &inbox.Decision{Action: "approve"})
		return err
	})
	is.Equal(kvtest.Code(err), "already_decided")
	decideAll(t, s, q, waiting[15:16], "reject")
	is.Equal(len(itemsIn(t, s, c)), 17)

	// Full: some fit.
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for range record.MaxPicked - 18 {
			at := catalog.PickedItem{
				Owner: ann.ID, Item: tx.NewID(), Collection: c.ID, Kind: record.Notes, Rank: 1 << 40, Of: ann.ID,
			}
			if err := catalog.PickRows.Put(tx.Tx, &at); err != nil {
				return err
			}
		}
		return nil
	})
	decided = decideAll(t, s, q, waiting[16:18], "approve")
	is.Equal(decided[0].Uncollected, catalog.Uncollected(""))
	is.Equal(decided[1].Uncollected, catalog.CollectionFull)
	is.Equal(decided[1].State, inbox.Approved) // the file is there
	is.Equal(len(itemsIn(t, s, c)), 18)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		i, err := inbox.ReadItem(tx, ann.ID, q.ID, decided[1].ID)
		is.NoErr(err)
		is.Equal(i.Uncollected, catalog.CollectionFull)
		return kvtest.Audit(tx)
	})

	kvtest.Update(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, ann.ID, record.Collections, c.ID.String())
		if err != nil {
			return err
		}
		return catalog.Trash(tx, r, "")
	})
	decided = decideAll(t, s, q, waiting[18:], "approve")
	is.Equal(decided[0].Uncollected, catalog.CollectionGone)
	kvtest.View(t, s, kvtest.Audit)
}

// A sender takes a file back within the hour, whatever became of it, and it counts no more.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), clock.Now)
	ann := kvtest.User(t, s, "ann")
	c := kvtest.Add(t, s, ann.ID, record.Collections, `{"title":"Album"}`)
	q := kvtest.AddRequest(t, s, ann.ID, collectInto(c, func(f *inbox.RequestForm) {
		f.MaxUploads, f.MaxTotal, f.PerSender = 4, 10, 3
	}))
	leave := func(from string, ref byte) *inbox.Item {
		t.Helper()
		got, err := kvtest.Leave(s, q, from, kvtest.Came(ref, 2))
		is.NoErr(err)
		return got[0]
	}
	back := func(i *inbox.Item) error {
		return s.Update(func(tx *kv.Tx) error {
			return inbox.TakeBack(tx, inbox.Sent{Owner: i.Owner, Request: i.Request, Item: i.ID})
		})
	}
	one, two, three := leave("a", 1), leave("a", 2), leave("a", 3)
	_, err := kvtest.Leave(s, q, "a", kvtest.Came(4, 2))
	is.Equal(kvtest.Code(err), "sender_limit")

	is.NoErr(back(one)) // waits
	is.Equal(kvtest.Code(back(one)), "not_found")
	four := leave("a", 4) // its place is free
	_, err = kvtest.Leave(s, q, "a", kvtest.Came(5, 2))
	is.Equal(kvtest.Code(err), "sender_limit")
	five := leave("b", 5)
	_, err = kvtest.Leave(s, q, "b", kvtest.Came(6, 2))
	is.Equal(kvtest.Code(err), "limit_reached")

	decided := decideAll(t, s, q, []*inbox.Item{two, three}, "approve")
	is.Equal(len(itemsIn(t, s, c)), 2)
	is.NoErr(back(two)) // a file now
	is.Equal(itemsIn(t, s, c), []record.ID{decided[1].File})
	by := ""
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Trashed(tx, ann.ID, decided[0].File)
		if err != nil {
			return err
		}
		by = r.By
		_, err = catalog.Untrash(tx, r)
		return err
	})
	is.Equal(by, "sender: Bob")
	is.Equal(len(itemsIn(t, s, c)), 1) // it does not come back into the collection
	leave("b", 6)

	decideAll(t, s, q, []*inbox.Item{four}, "reject")
	is.Equal(kvtest.Code(back(four)), "already_decided")
	kvtest.Update(t, s, func(tx *kv.Tx) error { // the owner was faster
		r, err := catalog.Record(tx, ann.ID, record.Files, decided[1].File.String())
		if err != nil {
			return err
		}
		return catalog.Trash(tx, r, "")
	})
	is.Equal(kvtest.Code(back(three)), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		p, err := people.ActivityOf(tx, ann.ID, nil, 100)
		is.NoErr(err)
		told := int64(0)
		for _, a := range p.Rows {
			if a.Event == people.FileTakenBack {
				told += 1 + a.More
			}
		}
		is.Equal(told, int64(2))
		return nil
	})

	clock.Add(inbox.TakeBackTime - time.Minute)
	seven := func() *inbox.Item { is.NoErr(back(five)); return leave("b", 7) }()
	clock.Add(time.Minute)
	is.Equal(kvtest.Code(back(four)), "too_late")
	is.NoErr(back(seven))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		var v inbox.ShownRequest
		now, err := inbox.ReadRequest(tx, ann.ID, q.ID)
		is.NoErr(err)
		inbox.ShowRequest(tx, now, &v)
		is.Equal(v.Uploads, int64(3)) // three, four and six
		return kvtest.Audit(tx)
	})
}
