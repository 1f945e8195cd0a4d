package kv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// duePages lists what is due.
func duePages(t testing.TB, s *Store) (all []DuePage, wait time.Duration) {
	t.Helper()
	view(t, s, func(tx *Tx) (err error) {
		wait, err = tx.DuePages(func(p DuePage) bool { all = append(all, p); return true })
		return err
	})
	return all, wait
}

// looked looks at the page of a bookmark.
func looked(t testing.TB, s *Store, r *record.Record, l record.Look) {
	t.Helper()
	update(t, s, func(tx *Tx) error {
		p, err := pages.Get(tx.Tx, ownedKey(r.Owner, r.ID[:]...))
		if err != nil {
			return err
		}
		return tx.SavePageCheck(p, l)
	})
}

func shown(t testing.TB, s *Store, r *record.Record) (v record.Shown, b *record.Bookmark) {
	t.Helper()
	view(t, s, func(tx *Tx) error {
		now, err := tx.Owned(r.Owner, r.Kind, r.ID)
		if err != nil {
			return err
		}
		if b, err = bookmark(now); err != nil {
			return err
		}
		return tx.Show(now, &v)
	})
	return v, b
}

// listed lists bookmarks by what is known of their pages.
func listed(t testing.TB, s *Store, q Query) (ids []record.ID, total int) {
	t.Helper()
	q.Kind, q.Limit = record.Bookmarks, 100
	view(t, s, func(tx *Tx) error {
		page, err := tx.List(q)
		for _, r := range page.Records {
			ids = append(ids, r.ID)
		}
		total = page.Total
		return err
	})
	return ids, total
}

func TestSamePages(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann, bob := user(t, s, "ann"), user(t, s, "bob")
	mark := func(owner record.ID, address string) *record.Record {
		return add(t, s, owner, record.Bookmarks, fmt.Sprintf(`{"url":%q}`, address))
	}
	a := mark(ann.ID, "https://example.org/a")
	b := mark(ann.ID, "https://example.org/a/?utm_source=x#top")
	mark(ann.ID, "https://example.org/b")
	mark(bob.ID, "https://example.org/a")
	same := func(owner record.ID, address string, other record.ID) (ids []record.ID) {
		view(t, s, func(tx *Tx) error {
			all, err := tx.SamePages(owner, address, other)
			for _, r := range all {
				ids = append(ids, r.ID)
			}
			return err
		})
		return ids
	}
	is.Equal(same(ann.ID, "https://EXAMPLE.org/a?fbclid=1", record.ID{}), []record.ID{a.ID, b.ID})
	is.Equal(same(ann.ID, "https://example.org/a", a.ID), []record.ID{b.ID})
	is.Equal(same(bob.ID, "https://example.org/b", record.ID{}), nil)
	key := record.PageKey("https://example.org/a")
	ids, total := listed(t, s, Query{Owner: ann.ID, Page: &key})
	is.Equal(ids, []record.ID{b.ID, a.ID})
	is.Equal(total, 2)

	edit(t, s, b, `{"url":"https://example.org/c"}`)
	is.Equal(same(ann.ID, "https://example.org/a", record.ID{}), []record.ID{a.ID})
	is.Equal(same(ann.ID, "https://example.org/c", record.ID{}), []record.ID{b.ID})
	update(t, s, func(tx *Tx) error { return tx.Remove(a) })
	is.Equal(same(ann.ID, "https://example.org/a", record.ID{}), nil)
	for range 15 {
		mark(bob.ID, "https://example.org/many")
	}
	is.Equal(len(same(bob.ID, "https://example.org/many", record.ID{})), maxSame)
	is.NoErr(s.RemoveUser(bob.ID))
	view(t, s, func(tx *Tx) error { is.Equal(leftOver(tx, bob.ID), nil); return audit(tx) })
}

// A page is due as soon as it is kept, the latest first, and when it leads
// elsewhere or loses its title; an edit of anything else changes nothing.
func TestDuePages(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	u := user(t, s, "ann")
	read := record.Look{Verdict: record.Answers, Read: true, Title: "Of the page", Description: "Of the page"}
	a := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a"}`)
	c.add(time.Second)
	b := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org:8443/b","title":"Mine"}`)
	select {
	case <-s.PageCheckDue():
	default:
		t.Error("it is not told that a page is due")
	}
	all, _ := duePages(t, s)
	is.Equal(len(all), 2)
	is.Equal(all[0].ID, b.ID)
	is.Equal(all[1].ID, a.ID)
	is.True(all[0].Fill)
	is.Equal(all[0].Host, all[1].Host)

	c.add(time.Second)
	before := a.Updated
	looked(t, s, a, read)
	looked(t, s, b, read)
	v, kept := shown(t, s, a)
	is.Equal(kept.Name, "Of the page")
	is.Equal(v.Updated, before) // it was no edit
	is.Equal(v.Page.State, record.Reachable)
	is.True(!v.Page.Checked.IsZero())
	_, kept = shown(t, s, b)
	is.Equal(kept.Name, "Mine")
	is.Equal(kept.Description, "Of the page")
	all, wait := duePages(t, s)
	is.Equal(len(all), 0)
	is.True(wait > 11*24*time.Hour && wait <= 14*24*time.Hour)

	edit(t, s, a, `{"description":"Mine","isPublic":true}`)
	edit(t, s, a, `{"url":"https://example.org/a#top"}`)
	all, _ = duePages(t, s)
	is.Equal(len(all), 0)
	edit(t, s, b, `{"title":""}`)
	edit(t, s, a, `{"url":"https://other.example/"}`)
	all, _ = duePages(t, s)
	is.Equal(len(all), 2)
	v, _ = shown(t, s, a)
	is.Equal(v.Page.State, record.Reach(""))

	update(t, s, func(tx *Tx) error { return tx.PostponePage(all[0]) })
	all, _ = duePages(t, s)
	is.Equal(len(all), 1)
	update(t, s, func(tx *Tx) error {
		set, err := tx.Settings()
		is.True(set.LinkChecks) // unless it is turned off
		set.LinkChecks = false
		return firstError(err, tx.SetSettings(set))
	})
	all, wait = duePages(t, s)
	is.Equal(len(all), 0)
	is.Equal(wait, time.Duration(0))
	view(t, s, audit)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// What its owner does while a page is read is left as it is.
func TestLookedMeanwhile(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	read := record.Look{Verdict: record.Answers, Read: true, Title: "Of the page", Description: "Of the page"}
	of := func(r *record.Record) (p *record.Page) {
		view(t, s, func(tx *Tx) (err error) {
			p, _, _, err = tx.LoadDuePage(DuePage{Owner: r.Owner, ID: r.ID})
			return err
		})
		return p
	}
	late := func(p *record.Page) { update(t, s, func(tx *Tx) error { return tx.SavePageCheck(p, read) }) }

	r := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
	p := of(r)
	edit(t, s, r, `{"title":"Mine"}`)
	late(p)
	_, b := shown(t, s, r)
	is.Equal(b.Name, "Mine")
	is.Equal(b.Description, "Of the page")

	r = add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
	p = of(r)
	edit(t, s, r, `{"url":"https://other.example/"}`)
	late(p)
	v, b := shown(t, s, r)
	is.Equal(b.Name, "")
	is.True(v.Page.Fill) // of the other one

	idle := func() (is bool) {
		view(t, s, func(tx *Tx) (err error) {
			_, _, is, err = tx.LoadDuePage(DuePage{Owner: r.Owner, ID: r.ID})
			return err
		})
		return is
	}
	is.True(!idle())
	update(t, s, func(tx *Tx) error {
		_, err := tx.AddUser(record.User{Name: "bob", Role: record.Admin})
		u.Disabled = true
		return firstError(err, tx.SaveUser(u))
	})
	is.True(idle()) // nothing is asked on behalf of who cannot sign in

	p = of(r)
	update(t, s, func(tx *Tx) error { return tx.Remove(r) })
	late(p)
	view(t, s, audit)
}

// A page that is gone is told of once, found by that, and mends on its own.
func TestPageIsGone(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	u := user(t, s, "ann")
	h := hookFor(t, s, u.ID, record.PageGone)
	r := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/","title":"A","description":"B"}`)
	add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/b"}`)
	yes, no := true, false
	gone := func() int { _, n := listed(t, s, Query{Owner: u.ID, Unreachable: &yes}); return n }
	looked(t, s, r, record.Look{Verdict: record.Answers, Read: true})
	seq := r.Seq
	for range 5 {
		c.add(36 * time.Hour)
		looked(t, s, r, record.Look{Verdict: record.Fails})
	}
	is.Equal(gone(), 1)
	ids, n := listed(t, s, Query{Owner: u.ID, Unreachable: &no})
	is.Equal(n, 1)
	is.True(ids[0] != r.ID)
	view(t, s, func(tx *Tx) error {
		all := deliveriesOf(t, tx, h.ID)
		is.Equal(len(all), 1)
		_, notice, err := tx.Delivery(Place{u.ID, h.ID, all[0].ID})
		is.NoErr(err)
		v, err := notice.Shown()
		is.NoErr(err)
		is.Equal(v.Page.State, record.Unreachable)
		is.True(!v.Page.Gone.IsZero())
		now, err := tx.Owned(u.ID, record.Bookmarks, r.ID)
		is.NoErr(err)
		is.Equal(now.Seq, seq) // the index need not be told
		return audit(tx)
	})
	looked(t, s, r, record.Look{Verdict: record.Answers})
	is.Equal(gone(), 0)
	view(t, s, audit)
}

// What is known of a page's icon is no edit, moves no record in the feed, is
// told of to nobody, and is there after a restart without the working copy.
func TestPageIcons(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	s := openAt(t, dir, c.now)
	u := user(t, s, "ann")
	hookFor(t, s, u.ID, "*")
	a := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a","title":"A","description":"A"}`)
	b := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/b","title":"B","description":"B"}`)
	sites := func() []record.ID {
		all, err := s.Icons()
		is.NoErr(err)
		return all
	}
	events := func() (n int) {
		view(t, s, func(tx *Tx) error { n = tx.Count(bucket("notice")); return nil })
		return n
	}
	is.Equal(len(sites()), 0)
	v, _ := shown(t, s, a)
	before, told := v, events()
	c.add(time.Hour)
	site := record.ID{1, 2, 3}
	looked(t, s, a, record.Look{Verdict: record.Answers, Read: true, Icon: site})
	looked(t, s, b, record.Look{Verdict: record.Answers, Read: true, Icon: site})
	v, _ = shown(t, s, a)
	is.Equal(v.Page.Icon, site)
	is.Equal(v.Updated, before.Updated)
	is.Equal(v.Seq, before.Seq)
	is.Equal(events(), told)
	is.Equal(sites(), []record.ID{site})

	is.NoErr(s.Close())
	is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
	s = openAt(t, dir, c.now)
	is.Equal(sites(), []record.ID{site})
	all, _ := duePages(t, s)
	is.Equal(len(all), 0)
	update(t, s, func(tx *Tx) error { return tx.RecheckPage(a) })
	all, _ = duePages(t, s)
	is.Equal(len(all), 1)
	is.Equal(all[0].ID, a.ID)
	is.True(!all[0].Fill) // nothing of it is wanted for the bookmark
	looked(t, s, a, record.Look{Verdict: record.Fails})
	v, _ = shown(t, s, a)
	is.Equal(v.Page.Icon, site) // it stays while nobody answers
	looked(t, s, a, record.Look{Verdict: record.Answers})
	v, _ = shown(t, s, a)
	is.Equal(v.Page.Icon, record.ID{})
	is.Equal(sites(), []record.ID{site})
	edit(t, s, b, `{"url":"https://other.example/"}`)
	is.Equal(len(sites()), 0)
	update(t, s, func(tx *Tx) error {
		set, err := tx.Settings()
		set.LinkChecks = false
		return firstError(err, tx.SetSettings(set), tx.Remove(b), tx.RecheckPage(a), tx.RecheckPage(b))
	})
	view(t, s, func(tx *Tx) error {
		p, _, _, err := tx.LoadDuePage(DuePage{Owner: a.Owner, ID: a.ID})
		is.NoErr(err)
		is.True(p.Due.After(tx.s.MonotonicNow())) // nothing is looked at
		got, err := tx.PageIcon(b)
		is.Equal(got, record.ID{})
		return firstError(err, audit(tx))
	})
}

// All icons are listed, of however many pages.
func TestIconsOfMany(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	for n := range 2 {
		update(t, s, func(tx *Tx) error {
			for i := range pagesAtOnce {
				p := record.NewPage(u.ID, record.ID{byte(n), byte(i), byte(i >> 8)}, "https://example.org/", tx.Now)
				p.Icon = record.ID{byte(n), byte(i % 7), 1}
				if err := pages.Put(tx.Tx, p); err != nil {
					return err
				}
			}
			return nil
		})
		all, err := s.Icons()
		is.NoErr(err)
		is.Equal(len(all), 7*(n+1))
	}
}

// A store of format 1 has no pages yet.
func TestPagesOfFormat1(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	u := user(t, s, "ann")
	r := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a"}`)
	for i := range 20 {
		add(t, s, u.ID, record.Bookmarks, fmt.Sprintf(`{"url":"https://example.org/%d","title":"T"}`, i/2))
	}
	update(t, s, func(tx *Tx) error {
		all, err := collect(pages, tx, nil)
		for i := range all {
			err = firstError(err, func() error { _, err := pages.Delete(tx.Tx, pages.Key(&all[i])); return err }())
		}
		return err
	})
	setFormat(t, s, 1)
	s = openAt(t, dir, nil)
	view(t, s, audit)
	key := record.PageKey("https://example.org/5")
	_, total := listed(t, s, Query{Owner: u.ID, Page: &key})
	is.Equal(total, 2)
	all, _ := duePages(t, s)
	is.True(len(all) < 10) // those with a title have time
	is.Equal(all[0].ID, r.ID)
}

// What is known of pages is kept by a repair where it can be read, and looked
// for again where it cannot; a store of format 1 is brought to the present one.
func TestRepairOfPages(t *testing.T) {
	for _, format := range []uint32{1, Format} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := openAt(t, dir, nil)
			u := user(t, s, "ann")
			var all [4]*record.Record
			for i := range all {
				all[i] = add(t, s, u.ID, record.Bookmarks, fmt.Sprintf(`{"url":"https://example.org/%d","title":"T"}`, i))
				looked(t, s, all[i], record.Look{Verdict: record.Answers, Read: true, Icon: record.ID{1}})
			}
			key := func(i int) []byte { return ownedKey(u.ID, all[i].ID[:]...) }
			nobody := record.NewPage(u.ID, record.ID{9}, "https://example.org/", s.Now())
			update(t, s, func(tx *Tx) error {
				_, err := pages.Delete(tx.Tx, key(1))
				return firstError(err, pages.Put(tx.Tx, nobody), tx.Put(bucket("page"), key(2), []byte("damaged")))
			})
			setFormat(t, s, format)
			_, err := Repair(dir, RepairOptions{Schema: All})
			is.NoErr(err)
			s = openAt(t, dir, nil)
			view(t, s, audit)
			for i, r := range all {
				v, _ := shown(t, s, r)
				is.Equal(v.Page.Key, record.PageKey(fmt.Sprintf("https://example.org/%d", i)))
				known := i == 0 || i == 3
				is.Equal(v.Page.State == record.Reachable, known)
				is.Equal(v.Page.Icon == record.ID{1}, known)
			}
			turns, _ := duePages(t, s)
			is.Equal(len(turns), 2)
		})
	}
}

// What a page says of itself counts as text: it is left out if it does not fit
// the quota, and filled in later if it does then. The look counts all the same.
func TestFillWithinQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	read := record.Look{Verdict: record.Answers, Read: true, Title: "Of the page", Description: "It says this of itself."}
	before := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a"}`)
	was := textNow(t, s, u.ID)
	looked(t, s, before, read)
	growth := textNow(t, s, u.ID) - was
	is.True(growth > 0)

	r := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/b"}`)
	was = textNow(t, s, u.ID)
	quota := func(n int64) {
		update(t, s, func(tx *Tx) error {
			set, err := tx.Settings()
			set.DefaultQuota = n
			return firstError(err, tx.SetSettings(set))
		})
	}
	quota(was + growth - 1)
	looked(t, s, r, read)
	v, b := shown(t, s, r)
	is.Equal(b.Name+b.Description, "")
	is.Equal(textNow(t, s, u.ID), was)
	is.Equal(v.Seq, r.Seq) // no change
	is.Equal(v.Page.State, record.Reachable)
	is.True(!v.Page.Checked.IsZero())
	is.True(v.Page.Fill)

	quota(was + growth)
	looked(t, s, r, read)
	v, b = shown(t, s, r)
	is.Equal(b.Name, read.Title)
	is.Equal(b.Description, read.Description)
	is.Equal(textNow(t, s, u.ID), was+growth)
	is.True(!v.Page.Fill)
	view(t, s, audit)
}
