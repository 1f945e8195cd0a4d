package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// duePages lists the pages that are due.
func duePages(t testing.TB, s *kv.Store) (all []catalog.DuePage, wait time.Duration) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) (err error) {
		wait, err = catalog.DuePages(tx, func(p catalog.DuePage) bool { all = append(all, p); return true })
		return err
	})
	return all, wait
}

// looked saves a check of a bookmark's page.
func looked(t testing.TB, s *kv.Store, r *record.Record, l record.Look) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		p, err := catalog.PageRows.Get(tx.Tx, kv.OwnedKey(r.Owner, r.ID[:]...))
		if err != nil {
			return err
		}
		return catalog.SavePageCheck(tx, p, l)
	})
}

func shown(t testing.TB, s *kv.Store, r *record.Record) (v record.Shown, b *record.Bookmark) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, r.Owner, r.Kind, r.ID)
		if err != nil {
			return err
		}
		b, err = catalog.Bookmark(now)
		if err != nil {
			return err
		}
		return catalog.Show(tx, now, &v)
	})
	return v, b
}

// listed lists bookmarks by the state of their pages.
func listed(t testing.TB, s *kv.Store, q catalog.Query) (ids []record.ID, total int) {
	t.Helper()
	q.Kind, q.Limit = record.Bookmarks, 100
	kvtest.View(t, s, func(tx *kv.Tx) error {
		page, err := catalog.List(tx, q)
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
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	mark := func(owner record.ID, address string) *record.Record {
		return kvtest.Add(t, s, owner, record.Bookmarks, fmt.Sprintf(`{"url":%q}`, address))
	}
	a := mark(ann.ID, "https://example.org/a")
	b := mark(ann.ID, "https://example.org/a/?utm_source=x#top")
	mark(ann.ID, "https://example.org/b")
	mark(bob.ID, "https://example.org/a")
	same := func(owner record.ID, address string, other record.ID) (ids []record.ID) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			all, err := catalog.SamePages(tx, owner, address, other)
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
	ids, total := listed(t, s, catalog.Query{Owner: ann.ID, Page: &key})
	is.Equal(ids, []record.ID{b.ID, a.ID})
	is.Equal(total, 2)

	kvtest.Edit(t, s, b, `{"url":"https://example.org/c"}`)
	is.Equal(same(ann.ID, "https://example.org/a", record.ID{}), []record.ID{a.ID})
	is.Equal(same(ann.ID, "https://example.org/c", record.ID{}), []record.ID{b.ID})
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, a) })
	is.Equal(same(ann.ID, "https://example.org/a", record.ID{}), nil)
	for range 15 {
		mark(bob.ID, "https://example.org/many")
	}
	is.Equal(len(same(bob.ID, "https://example.org/many", record.ID{})), catalog.MaxSame)
	is.NoErr(people.RemoveUser(s, bob.ID, "root"))
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(kvtest.LeftOver(tx, bob.ID), nil); return kvtest.Audit(tx) })
}

// A page is due as soon as its bookmark is saved, the latest first, and when the
// bookmark leads elsewhere or loses its title. Other edits change nothing.
func TestDuePages(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	read := record.Look{Verdict: record.Answers, Read: true, Title: "Of the page", Description: "Of the page"}
	a := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a"}`)
	c.Add(time.Second)
	b := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org:8443/b","title":"Mine"}`)
	select {
	case <-catalog.PageCheckDue(s):
	default:
		t.Error("it is not told that a page is due")
	}
	all, _ := duePages(t, s)
	is.Equal(len(all), 2)
	is.Equal(all[0].ID, b.ID)
	is.Equal(all[1].ID, a.ID)
	is.True(all[0].Fill)
	is.Equal(all[0].Host, all[1].Host)

	c.Add(time.Second)
	before := a.Updated
	looked(t, s, a, read)
	looked(t, s, b, read)
	v, kept := shown(t, s, a)
	is.Equal(kept.Name, "Of the page")
	is.Equal(v.Updated, before) // not an edit
	is.Equal(v.Page.State, record.Reachable)
	is.True(!v.Page.Checked.IsZero())
	_, kept = shown(t, s, b)
	is.Equal(kept.Name, "Mine")
	is.Equal(kept.Description, "Of the page")
	all, wait := duePages(t, s)
	is.Equal(len(all), 0)
	is.True(wait > 11*24*time.Hour && wait <= 14*24*time.Hour)

	kvtest.Edit(t, s, a, `{"description":"Mine","isPublic":true}`)
	kvtest.Edit(t, s, a, `{"url":"https://example.org/a#top"}`)
	all, _ = duePages(t, s)
	is.Equal(len(all), 0)
	kvtest.Edit(t, s, b, `{"title":""}`)
	kvtest.Edit(t, s, a, `{"url":"https://other.example/"}`)
	all, _ = duePages(t, s)
	is.Equal(len(all), 2)
	v, _ = shown(t, s, a)
	is.Equal(v.Page.State, record.Reach(""))

	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.PostponePage(tx, all[0]) })
	all, _ = duePages(t, s)
	is.Equal(len(all), 1)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		set, err := people.ReadSettings(tx)
		is.True(set.LinkChecks) // unless it is turned off
		set.LinkChecks = false
		return kvtest.FirstError(err, people.SetSettings(tx, set))
	})
	all, wait = duePages(t, s)
	is.Equal(len(all), 0)
	is.Equal(wait, time.Duration(0))
	kvtest.View(t, s, kvtest.Audit)
}

// Edits that the owner makes while a page is read are kept.
func TestLookedMeanwhile(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	read := record.Look{Verdict: record.Answers, Read: true, Title: "Of the page", Description: "Of the page"}
	of := func(r *record.Record) (p *record.Page) {
		kvtest.View(t, s, func(tx *kv.Tx) (err error) {
			p, _, _, err = catalog.LoadDuePage(tx, catalog.DuePage{Owner: r.Owner, ID: r.ID})
			return err
		})
		return p
	}
	late := func(p *record.Page) {
		kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.SavePageCheck(tx, p, read) })
	}

	r := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
	p := of(r)
	kvtest.Edit(t, s, r, `{"title":"Mine"}`)
	late(p)
	_, b := shown(t, s, r)
	is.Equal(b.Name, "Mine")
	is.Equal(b.Description, "Of the page")

	r = kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
	p = of(r)
	kvtest.Edit(t, s, r, `{"url":"https://other.example/"}`)
	late(p)
	v, b := shown(t, s, r)
	is.Equal(b.Name, "")
	is.True(v.Page.Fill) // of the other one

	idle := func() (is bool) {
		kvtest.View(t, s, func(tx *kv.Tx) (err error) {
			_, _, is, err = catalog.LoadDuePage(tx, catalog.DuePage{Owner: r.Owner, ID: r.ID})
			return err
		})
		return is
	}
	is.True(!idle())
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		_, err := people.AddUser(tx, people.User{Name: "bob", Role: people.Admin})
		u.Disabled = true
		return kvtest.FirstError(err, people.SaveUser(tx, u))
	})
	is.True(idle()) // nothing is fetched for a user who cannot sign in

	p = of(r)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, r) })
	late(p)
	kvtest.View(t, s, kvtest.Audit)
}

// A page that is gone is reported once and listed as unreachable. It recovers on its
// own.
func TestPageIsGone(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, jobs.PageGone)
	r := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/","title":"A","description":"B"}`)
	kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/b"}`)
	yes, no := true, false
	gone := func() int { _, n := listed(t, s, catalog.Query{Owner: u.ID, Unreachable: &yes}); return n }
	looked(t, s, r, record.Look{Verdict: record.Answers, Read: true})
	seq := r.Seq
	for range 5 {
		c.Add(36 * time.Hour)
		looked(t, s, r, record.Look{Verdict: record.Fails})
	}
	is.Equal(gone(), 1)
	ids, n := listed(t, s, catalog.Query{Owner: u.ID, Unreachable: &no})
	is.Equal(n, 1)
	is.True(ids[0] != r.ID)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		all := kvtest.DeliveriesOf(t, tx, h.ID)
		is.Equal(len(all), 1)
		_, notice, err := jobs.ReadDelivery(tx, jobs.Place{Owner: u.ID, Hook: h.ID, ID: all[0].ID})
		is.NoErr(err)
		v, err := notice.Shown()
		is.NoErr(err)
		is.Equal(v.Page.State, record.Unreachable)
		is.True(!v.Page.Gone.IsZero())
		now, err := catalog.Owned(tx, u.ID, record.Bookmarks, r.ID)
		is.NoErr(err)
		is.Equal(now.Seq, seq) // the index need not change
		return kvtest.Audit(tx)
	})
	looked(t, s, r, record.Look{Verdict: record.Answers})
	is.Equal(gone(), 0)
	kvtest.View(t, s, kvtest.Audit)
}

// A page's icon is not an edit: it moves no record in the feed and sends no event. It
// survives a restart without the working copy.
func TestPageIcons(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	kvtest.HookFor(t, s, u.ID, "*")
	a := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a","title":"A","description":"A"}`)
	b := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/b","title":"B","description":"B"}`)
	sites := func() []record.ID {
		all, err := catalog.Icons(s)
		is.NoErr(err)
		return all
	}
	events := func() (n int) {
		kvtest.View(t, s, func(tx *kv.Tx) error { n = tx.Count(kvtest.Bucket("notice")); return nil })
		return n
	}
	is.Equal(len(sites()), 0)
	v, _ := shown(t, s, a)
	before, told := v, events()
	c.Add(time.Hour)
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
	s = kvtest.OpenAt(t, dir, c.Now)
	is.Equal(sites(), []record.ID{site})
	all, _ := duePages(t, s)
	is.Equal(len(all), 0)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.RecheckPage(tx, a) })
	all, _ = duePages(t, s)
	is.Equal(len(all), 1)
	is.Equal(all[0].ID, a.ID)
	is.True(!all[0].Fill) // the bookmark lacks nothing
	looked(t, s, a, record.Look{Verdict: record.Fails})
	v, _ = shown(t, s, a)
	is.Equal(v.Page.Icon, site) // it stays while nobody answers
	looked(t, s, a, record.Look{Verdict: record.Answers})
	v, _ = shown(t, s, a)
	is.Equal(v.Page.Icon, record.ID{})
	is.Equal(sites(), []record.ID{site})
	kvtest.Edit(t, s, b, `{"url":"https://other.example/"}`)
	is.Equal(len(sites()), 0)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		set, err := people.ReadSettings(tx)
		set.LinkChecks = false
		return kvtest.FirstError(
			err, people.SetSettings(tx, set), catalog.Remove(tx, b), catalog.RecheckPage(tx, a), catalog.RecheckPage(tx, b),
		)
	})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		p, _, _, err := catalog.LoadDuePage(tx, catalog.DuePage{Owner: a.Owner, ID: a.ID})
		is.NoErr(err)
		is.True(p.Due.After(tx.Store().MonotonicNow())) // nothing is checked
		got, err := catalog.PageIcon(tx, b)
		is.Equal(got, record.ID{})
		return kvtest.FirstError(err, kvtest.Audit(tx))
	})
}

// Icons lists all icons, however many pages there are.
func TestIconsOfMany(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	for n := range 2 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for i := range catalog.PagesAtOnce {
				p := record.NewPage(u.ID, record.ID{byte(n), byte(i), byte(i >> 8)}, "https://example.org/", tx.Now)
				p.Icon = record.ID{byte(n), byte(i % 7), 1}
				if err := catalog.PageRows.Put(tx.Tx, p); err != nil {
					return err
				}
			}
			return nil
		})
		all, err := catalog.Icons(s)
		is.NoErr(err)
		is.Equal(len(all), 7*(n+1))
	}
}

// A store of format 1 has no pages yet.
func TestPagesOfFormat1(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a"}`)
	for i := range 20 {
		kvtest.Add(t, s, u.ID, record.Bookmarks, fmt.Sprintf(`{"url":"https://example.org/%d","title":"T"}`, i/2))
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		all, err := kv.Collect(catalog.PageRows, tx, nil)
		for i := range all {
			err = kvtest.FirstError(err, func() error {
				_, err := catalog.PageRows.Delete(tx.Tx, catalog.PageRows.Key(&all[i]))
				return err
			}())
		}
		return err
	})
	kvtest.SetFormat(t, s, 1)
	s = kvtest.OpenAt(t, dir, nil)
	kvtest.View(t, s, kvtest.Audit)
	key := record.PageKey("https://example.org/5")
	_, total := listed(t, s, catalog.Query{Owner: u.ID, Page: &key})
	is.Equal(total, 2)
	all, _ := duePages(t, s)
	is.True(len(all) < 10) // those with a title have time
	is.Equal(all[0].ID, r.ID)
}

// In a store of format 5 fewer addresses were of one page. What is known about a page stays, also in the trash.
func TestPagesOfFormat5(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	var all [3]*record.Record
	for i := range all {
		all[i] = kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/?b=2&a=%7e","title":"T"}`)
		looked(t, s, all[i], record.Look{Verdict: record.Answers, Read: true, Icon: record.ID{1}})
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for _, r := range all[:2] {
			p, err := catalog.PageRows.Get(tx.Tx, kv.OwnedKey(u.ID, r.ID[:]...))
			is.NoErr(err)
			p.Key = record.ID{7} // by the former rule
			is.NoErr(catalog.PageRows.Put(tx.Tx, p))
		}
		return catalog.Trash(tx, all[1], "")
	})
	kvtest.SetFormat(t, s, 5)
	s = kvtest.OpenAt(t, dir, nil)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		trashed, err := catalog.Trashed(tx, u.ID, all[1].ID)
		is.NoErr(err)
		_, err = catalog.Untrash(tx, trashed)
		return err
	})
	kvtest.View(t, s, kvtest.Audit)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		same, err := catalog.SamePages(tx, u.ID, "https://example.org/?a=~&b=2", record.ID{})
		is.Equal(len(same), len(all))
		return err
	})
	for _, r := range all {
		v, _ := shown(t, s, r)
		is.Equal(v.Page.State, record.Reachable)
		is.Equal(v.Page.Icon, record.ID{1})
	}
}

// A repair keeps the pages that it can read and has the others checked again. It
// converts a store of format 1 to the current format.
func TestRepairOfPages(t *testing.T) {
	for _, format := range []uint32{1, workcopy.Format} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			u := kvtest.User(t, s, "ann")
			var all [4]*record.Record
			for i := range all {
				all[i] = kvtest.Add(t, s, u.ID, record.Bookmarks, fmt.Sprintf(`{"url":"https://example.org/%d","title":"T"}`, i))
				looked(t, s, all[i], record.Look{Verdict: record.Answers, Read: true, Icon: record.ID{1}})
			}
			key := func(i int) []byte { return kv.OwnedKey(u.ID, all[i].ID[:]...) }
			nobody := record.NewPage(u.ID, record.ID{9}, "https://example.org/", s.Now())
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				_, err := catalog.PageRows.Delete(tx.Tx, key(1))
				return kvtest.FirstError(
					err, catalog.PageRows.Put(tx.Tx, nobody), tx.Put(kvtest.Bucket("page"), key(2), []byte("damaged")),
				)
			})
			kvtest.SetFormat(t, s, format)
			_, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			s = kvtest.OpenAt(t, dir, nil)
			kvtest.View(t, s, kvtest.Audit)
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

// Text from a page counts against the quota. If it does not fit, it is left out and
// filled in later. The check counts in any case.
func TestFillWithinQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	read := record.Look{Verdict: record.Answers, Read: true, Title: "Of the page", Description: "It says this of itself."}
	before := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/a"}`)
	text := kvtest.TextNow(t, s, u.ID)
	looked(t, s, before, read)
	growth := kvtest.TextNow(t, s, u.ID) - text
	is.True(growth > 0)

	r := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/b"}`)
	text = kvtest.TextNow(t, s, u.ID)
	quota := func(n int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			set, err := people.ReadSettings(tx)
			set.DefaultQuota = n
			return kvtest.FirstError(err, people.SetSettings(tx, set))
		})
	}
	quota(text + growth - 1)
	looked(t, s, r, read)
	v, b := shown(t, s, r)
	is.Equal(b.Name+b.Description, "")
	is.Equal(kvtest.TextNow(t, s, u.ID), text)
	is.Equal(v.Seq, r.Seq) // no change
	is.Equal(v.Page.State, record.Reachable)
	is.True(!v.Page.Checked.IsZero())
	is.True(v.Page.Fill)

	quota(text + growth)
	looked(t, s, r, read)
	v, b = shown(t, s, r)
	is.Equal(b.Name, read.Title)
	is.Equal(b.Description, read.Description)
	is.Equal(kvtest.TextNow(t, s, u.ID), text+growth)
	is.True(!v.Page.Fill)
	kvtest.View(t, s, kvtest.Audit)
}
