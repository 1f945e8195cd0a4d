package kv_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// fill makes n notes, gives a hundredth of them a separate tag, and returns that
// tag.
func fill(b *testing.B, s *kv.Store, owner record.ID, n int) *record.Tag {
	b.Helper()
	body := strings.Repeat("x", 200)
	forms := make([]*record.Form, 100)
	for i := range forms {
		tags := `"often","other"`
		if i == 50 {
			tags += `,"seldom"`
		}
		forms[i] = kvtest.Form(
			b, record.Notes,
			fmt.Sprintf(`{"title":"Note %02d","content":%q,"tags":[%s],"isPublic":%t}`, i, body, tags, i%2 == 0),
		)
	}
	for done := 0; done < n; done += 500 {
		kvtest.Update(b, s, func(tx *kv.Tx) error {
			for i := range 500 {
				if _, err := catalog.Add(tx, catalog.Draft{
					Owner: owner, Kind: record.Notes, Form: forms[i%100],
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var tag *record.Tag
	kvtest.View(b, s, func(tx *kv.Tx) (err error) { tag, err = catalog.TagNamed(tx, owner, "seldom"); return err })
	return tag
}

// BenchmarkPage50 reads and shows pages of 50. The cost must not depend on the number
// of records.
func BenchmarkPage50(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		s := kvtest.Open(b)
		u := kvtest.User(b, s, "ann")
		seldom := fill(b, s, u.ID, n)
		yes := true
		deep := func(q catalog.Query) catalog.Query {
			kvtest.View(b, s, func(tx *kv.Tx) error {
				q.Offset = n - 200
				page, err := catalog.List(tx, q)
				q.Offset, q.After = 0, page.Next
				return err
			})
			return q
		}
		base := catalog.Query{Owner: u.ID, Kind: record.Notes, Limit: 50}
		by := func(sort catalog.Sort) catalog.Query { q := base; q.Sort = sort; return q }
		since := func(sort catalog.Sort) catalog.Query {
			q := by(sort)
			kvtest.View(b, s, func(tx *kv.Tx) error {
				newest := q
				newest.Limit = 100
				page, err := catalog.List(tx, newest)
				q.Since = page.Records[99].Updated
				return err
			})
			return q
		}
		tagged, public, both := base, base, base
		tagged.Tags = []record.ID{seldom.ID}
		tagged.Limit = 10
		public.Public = &yes
		both.Tags, both.Public = tagged.Tags, &yes
		for _, row := range []struct {
			name string
			q    catalog.Query
		}{
			{"first", base},
			{"deep", deep(base)},
			{"title", by(catalog.Title)},
			{"title-deep", deep(by(catalog.Title))},
			{"updated", by(catalog.Updated)},
			{"since-100", since(catalog.Newest)},
			{"since-100-updated", since(catalog.Updated)},
			{"public", public},
			{"tag-10", tagged},
			{"tag+public", both},
		} {
			b.Run(fmt.Sprintf("records=%d/%s", n, row.name), func(b *testing.B) {
				var v record.Shown
				b.ReportAllocs()
				for b.Loop() {
					if err := s.View(func(tx *kv.Tx) error {
						page, err := catalog.List(tx, row.q)
						for _, r := range page.Records {
							err = errors.Join(err, catalog.Show(tx, r, &v))
						}
						return err
					}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCreate makes notes with two tags, each durable before the next of
// the same writer.
func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := kvtest.Open(b)
			u := kvtest.User(b, s, "ann")
			f := kvtest.Form(b, record.Notes, `{"title":"A note","content":"With some text.","tags":["one","two"]}`)
			create := func() {
				if err := s.Update(func(tx *kv.Tx) error {
					_, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f})
					return err
				}); err != nil {
					b.Error(err)
				}
			}
			before := kvtest.Commits(b, s)
			b.ReportAllocs()
			if writers == 1 {
				for b.Loop() {
					create()
				}
			} else {
				b.SetParallelism(writers / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						create()
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			b.ReportMetric(float64(b.N)/float64(kvtest.Commits(b, s)-before), "creates/commit")
		})
	}
}

func BenchmarkReadOne(b *testing.B) {
	s := kvtest.Open(b)
	u := kvtest.User(b, s, "ann")
	fill(b, s, u.ID, 1000)
	r := kvtest.Add(b, s, u.ID, record.Notes, `{"content":"c","slug":"the-one","tags":["often"]}`)
	for name, arg := range map[string]string{"id": r.ID.String(), "slug": r.Slug} {
		b.Run(name, func(b *testing.B) {
			var v record.Shown
			b.ReportAllocs()
			for b.Loop() {
				if err := s.View(func(tx *kv.Tx) error {
					r, err := catalog.Record(tx, u.ID, record.Notes, arg)
					return errors.Join(err, catalog.Show(tx, r, &v))
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	s := kvtest.Open(b)
	u := kvtest.User(b, s, "ann")
	var secret string
	for range 100 {
		_, secret = kvtest.Key(b, s, u.ID, people.Key{Name: "k", Scopes: []people.Scope{people.ScopeAll}})
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := people.Authenticate(s, secret); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := people.Authenticate(s, secret); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("unknown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := people.Authenticate(s, "kist_unknown"); err == nil {
				b.Fatal("let in")
			}
		}
	})
}

func BenchmarkSeenUnlimited(b *testing.B) {
	s := kvtest.Open(b)
	u := kvtest.User(b, s, "ann")
	r := kvtest.Add(b, s, u.ID, record.Notes, `{"content":"c","isPublic":true}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := catalog.Seen(s, r, history.Visit{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRebuild rebuilds the working copy of 100 000 notes with two tags:
// from a snapshot, and from logs alone.
func BenchmarkRebuild(b *testing.B) {
	s := kvtest.Open(b)
	u := kvtest.User(b, s, "ann")
	fill(b, s, u.ID, 100_000)
	for _, from := range []string{"logs", "snapshot"} {
		if from == "snapshot" {
			if err := kv.Upgrade(s, workcopy.Format); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(from, func(b *testing.B) {
			for b.Loop() {
				done, entries, err := workcopy.Rebuild(
					*kv.StoreJournal(s), filepath.Join(b.TempDir(), "kist.db"), tables.All.Buckets(), false, nil,
				)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(entries), "entries")
				b.ReportMetric(float64(done.Records), "commits")
			}
		})
	}
}
