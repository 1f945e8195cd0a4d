package kv_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/table"
	"kist/kv/tables"
)

// Audit finds every missing, wrong or extra entry in each derived bucket.
func TestAuditFinds(t *testing.T) {
	dir, _ := kvtest.Inhabited(t)
	derived := []table.Bucket{kvtest.Bucket("page")}
	for _, row := range tables.All.Tables {
		derived = append(derived, row.Buckets[min(1, len(row.Buckets)):]...)
	}
	for _, b := range derived {
		if b == kvtest.Bucket("import.remarks") { // Audit knows nothing of reports
			continue
		}
		for _, harm := range []string{"missing", "wrong", "more"} {
			t.Run(b.Name+"/"+harm, func(t *testing.T) {
				is := is.New(t)
				i, err := tables.All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { t.Error(err) })
				is.NoErr(err)
				defer func() { is.NoErr(i.Close()) }()
				is.NoErr(kv.StoreBolt(kv.InspectedStore(i)).Update(func(tx *bolt.Tx) error {
					raw := tx.Bucket([]byte(b.Name))
					c := raw.Cursor()
					k, v := c.First()
					for b == kvtest.Bucket("change") && tx.Bucket([]byte(kvtest.Bucket("record").Name)).Get(v) == nil {
						k, v = c.Next()
					}
					switch harm {
					case "missing":
						return raw.Delete(k)
					case "wrong":
						v = append(bytes.Clone(v), 1)
						return raw.Put(k, v)
					}
					return raw.Put(append(bytes.Clone(k), 1), v)
				}))
				found := 0
				is.NoErr(i.View(func(tx *kv.Tx) error { tx.Audit(func(error) { found++ }); return nil }))
				is.True(found > 0)
			})
		}
	}
}

// Audit reports every reference to a missing row. It reports nothing when all is well,
// also after removals, which leave marks.
func TestAuditOfReferences(t *testing.T) {
	t.Parallel()
	dir, _ := kvtest.Inhabited(t)
	first := func(b table.Bucket) func(tx *kv.Tx) error { // removes the first row of a bucket, and nothing else
		return func(tx *kv.Tx) error {
			for k := range tx.Walk(b, nil, nil, false) {
				return tx.Delete(b, bytes.Clone(k))
			}
			return errors.New("there is none")
		}
	}
	for name, row := range map[string]struct {
		harm func(tx *kv.Tx) error
		says []string
	}{
		"nothing": {func(*kv.Tx) error { return nil }, nil},
		"user": {first(kvtest.Bucket("user")), []string{
			"key * refers to user ", "tag * refers to user ", "folder * refers to user ", "webhook * refers to user ", "upload * refers to user ",
			"remote upload * refers to user ", "note * refers to user ", "upload request * refers to user ",
		}},
		"webhook": {first(kvtest.Bucket("webhook")), []string{"delivery * refers to webhook "}},
		"bookmark": {func(tx *kv.Tx) error {
			for r, err := range catalog.RecordRows.All(tx.Tx, nil) {
				if err != nil || r.Kind == record.Bookmarks {
					return errors.Join(err, tx.Delete(kvtest.Bucket("record"), r.Key()))
				}
			}
			return errors.New("there is none")
		}, []string{"page * refers to record "}},
		"notice": {first(kvtest.Bucket("notice")), []string{"delivery * refers to notice "}},
		"tag":    {first(kvtest.Bucket("tag")), []string{"note * refers to tag "}},
		"folder": {first(kvtest.Bucket("folder")), []string{"file * refers to folder "}},
		"upload request": {
			first(kvtest.Bucket("request")), []string{"upload * refers to request ", "sender of * refers to request "},
		},
		"delivery": {func(tx *kv.Tx) error {
			for k := range tx.Walk(kvtest.Bucket("delivery"), nil, nil, true) {
				_, err := jobs.DeliveryRows.Delete(tx.Tx, bytes.Clone(k))
				return err
			}
			return nil
		}, []string{"notice * belongs to no delivery"}},
		"view": {func(tx *kv.Tx) error {
			return tx.Put(kvtest.Bucket("view"), bytes.Repeat([]byte{7}, 16), make([]byte, 16))
		}, []string{"1 counters of views belong to no item"}},
		"loose content": {func(tx *kv.Tx) error {
			for k := range tx.Walk(kvtest.Bucket("blob"), nil, nil, false) {
				if err := tx.Put(kvtest.Bucket("blob.loose"), bytes.Clone(k[:32]), tx.Instant()); err != nil {
					return err
				}
			}
			for k := range tx.Walk(kvtest.Bucket("item.blob"), nil, nil, false) {
				if err := tx.Put(kvtest.Bucket("blob.loose"), bytes.Clone(k[:32]), tx.Instant()); err != nil {
					return err
				}
			}
			return nil
		}, []string{"content 01* is in use and marked as unreferenced", "content 02* is in use and marked as unreferenced"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			i, err := tables.All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { t.Error(err) })
			is.NoErr(err)
			defer func() { is.NoErr(i.Close()) }()
			var found []string
			is.NoErr(kv.StoreBolt(kv.InspectedStore(i)).Update(func(b *bolt.Tx) error {
				tx := kv.BareTx(kv.InspectedStore(i), b)
				is.NoErr(row.harm(tx))
				is.NoErr(tx.Flush())
				tx.Audit(func(err error) { found = append(found, err.Error()) })
				return nil
			}))
			is.Equal(len(found) == 0, len(row.says) == 0)
			for _, says := range row.says {
				before, after, _ := strings.Cut(says, "*")
				if !slices.ContainsFunc(found, func(text string) bool {
					return strings.HasPrefix(text, before) && strings.Contains(text, after)
				}) {
					t.Errorf("nothing says %q: %q", says, found)
				}
			}
		})
	}
}

// Holders follows a journal. It knows the holders of a content, and forgets them when
// they are removed or the journal is read again.
func TestHolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := tables.All.Holders()
	key := func(ref byte, of string) []byte { return append(append([]byte{ref}, make([]byte, 31)...), of...) }
	refs := func() (all string) {
		for ref := range h.Refs() {
			all += string('a' + rune(ref[0]))
		}
		b := []byte(all)
		slices.Sort(b)
		return string(b)
	}
	is.NoErr(h.Note([]journal.Op{
		{Bucket: kvtest.Bucket("blob").No, Key: key(0, "one"), Value: []byte{}},
		{Bucket: kvtest.Bucket("blob").No, Key: key(0, "two"), Value: []byte{}},
		{Bucket: kvtest.Bucket("item.blob").No, Key: key(1, "one"), Value: []byte{}},
		{Bucket: kvtest.Bucket("record").No, Key: key(2, "one"), Value: []byte{}},
		{Bucket: kvtest.Bucket("blob").No, Key: []byte("short"), Value: []byte{}},
	}))
	is.Equal(refs(), "aab")
	is.NoErr(h.Note([]journal.Op{
		{Bucket: kvtest.Bucket("blob").No, Key: key(0, "one")}, {Bucket: kvtest.Bucket("item.blob").No, Key: key(0, "two")},
	}))
	is.Equal(refs(), "ab")
	is.NoErr(h.Begin())
	is.Equal(refs(), "")
}

// A repair drops deliveries whose webhook cannot be read, reports that, and leaves
// nothing of them.
func TestRepairOfOrphans(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]table.Bucket{"webhook": kvtest.Bucket("webhook"), "notice": kvtest.Bucket("notice")} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			u := kvtest.User(t, s, "ann")
			kept, gone := kvtest.HookFor(t, s, u.ID, jobs.Created(record.Notes)), kvtest.HookFor(
				t, s, u.ID, jobs.Created(record.Bookmarks),
			)
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
			kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
			var lost jobs.Delivery
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				lost = kvtest.DeliveriesOf(t, tx, gone.ID)[0]
				if b == kvtest.Bucket("webhook") {
					return tx.Delete(kvtest.Bucket("webhook"), kv.OwnedKey(u.ID, gone.ID[:]...))
				}
				return tx.Delete(kvtest.Bucket("notice"), kv.OwnedKey(lost.Owner, lost.ID[:]...))
			})
			is.NoErr(s.Close())
			repaired, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			is.Equal(len(repaired.Lost), 1)
			is.True(strings.Contains(repaired.Lost[0], "delivery "+lost.ID.String()))
			s = kvtest.OpenAt(t, dir, nil)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				is.Equal(len(kvtest.DeliveriesOf(t, tx, gone.ID)), 0)
				is.Equal(len(kvtest.DeliveriesOf(t, tx, kept.ID)), 1)
				is.Equal(tx.Count(kvtest.Bucket("notice")), 1)
				return kvtest.Audit(tx)
			})
		})
	}
}

// A repair keeps rows that have the name of another row, gives them new names, and
// reports that.
func TestRepairOfNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	ann := kvtest.User(t, s, "ann")
	bob := kvtest.User(t, s, "bob")
	one := kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"one","tags":["one","two"]}`)
	two := kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"two"}`)
	asked, other := kvtest.AddRequest(t, s, ann.ID, nil), kvtest.AddRequest(t, s, ann.ID, nil)
	var want []string
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		var filed []*record.Folder
		for _, name := range []string{"first", "second"} {
			f, err := catalog.AddFolder(tx, ann.ID, name, "")
			if err != nil {
				return err
			}
			filed = append(filed, f)
		}
		all, err := kv.Collect(catalog.TagRows, tx, ann.ID[:])
		if err != nil {
			return err
		}
		tag := &all[1]
		tag.Name, filed[1].Name, bob.Name, other.Slug = all[0].Name, "first", "ann", asked.Slug
		row, err := catalog.RecordRows.Get(tx.Tx, one.Key())
		if err != nil {
			return err
		}
		row.Slug = two.Slug
		want = []string{
			"account " + bob.ID.String() + ": another has its name", "tag " + tag.ID.String() + ": another has its name",
			"folder " + filed[1].ID.String() + ": another has its name", "upload request " + other.ID.String() + ": another has its slug " + asked.Slug,
			"note " + one.ID.String() + ": another has its slug " + two.Slug, // the one that was changed last keeps it
		}
		return errors.Join(
			rewrite(tx, people.UserRows, bob), rewrite(tx, catalog.TagRows, tag), rewrite(tx, catalog.FolderRows, filed[1]),
			rewrite(tx, inbox.RequestRows, other), rewrite(tx, catalog.RecordRows, row),
		)
	})
	is.NoErr(s.Close())
	r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	is.Equal(len(r.Lost), len(want))
	for _, text := range want {
		if !slices.ContainsFunc(r.Lost, func(lost string) bool { return strings.HasPrefix(lost, text) }) {
			t.Errorf("nothing says %q: %q", text, r.Lost)
		}
	}
	s = kvtest.OpenAt(t, dir, nil)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for b, n := range map[table.Bucket]int{
			kvtest.Bucket("user"): 2, kvtest.Bucket("tag"): 2, kvtest.Bucket("folder"): 2, kvtest.Bucket("request"): 2,
			kvtest.Bucket("record"): 2,
		} {
			is.Equal(tx.Count(b), n)
		}
		kept, err := catalog.Slug(tx, two.Slug)
		is.NoErr(err)
		is.Equal(kept.ID, two.ID)
		return kvtest.Audit(tx)
	})
}

// rewrite writes a row and leaves its indexes as they are.
func rewrite[T any](tx *kv.Tx, t *table.Table[T], v *T) error {
	row, err := t.Encode(v)
	return errors.Join(err, tx.Put(t.Rows, t.Key(v), row))
}

// A repair keeps all readable rows of a damaged store, and everything derived from them
// is right again.
func TestRepair(t *testing.T) {
	log := "journal/log-0000000000000000"
	for name, row := range map[string]struct {
		harm func(t *testing.T, dir string)
		same bool // nothing was lost
	}{
		"nothing": {func(*testing.T, string) {}, true},
		"journal gone": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "journal")); err != nil {
				t.Fatal(err)
			}
		}, true},
		"copy gone": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil {
				t.Fatal(err)
			}
		}, true},
		"log torn": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, log)
			b, err := os.ReadFile(path)
			if err == nil {
				b[len(b)-300] ^= 1
				err = os.WriteFile(path, b, 0o600)
			}
			if err == nil {
				err = os.RemoveAll(filepath.Join(dir, "cache"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir, owner := kvtest.Inhabited(t)
			s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
			is.NoErr(err)
			before := kvtest.ContentOf(t, s)
			is.NoErr(s.Close())
			if _, err := datadir.Identify(filepath.Join(dir, "cache", "kist.db")); err != nil && name == "journal gone" {
				t.Skip("this system cannot prove that a working copy is whole")
			}
			row.harm(t, dir)
			r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			is.Equal(r.Whole(), row.same)
			_, err = os.Stat(filepath.Join(dir, r.Aside, "journal"))
			is.Equal(err == nil, name != "journal gone")
			s = kvtest.OpenAt(t, dir, nil)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				_, err := people.ReadUser(tx, owner)
				is.NoErr(err)
				return kvtest.Audit(tx)
			})
			if row.same {
				is.True(maps.Equal(kvtest.ContentOf(t, s), before))
			}
			kvtest.Add(t, s, owner, record.Notes, `{"content":"after"}`)
			entries, err := os.ReadDir(dir)
			is.NoErr(err)
			for _, e := range entries {
				is.True(!strings.HasPrefix(e.Name(), "repair-"))
			}
		})
	}
}

// An open store is not repaired.
func TestRepairInUse(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "ann")
	_, err := repair.Repair(s.Dir(), repair.RepairOptions{Schema: tables.All})
	var used *datadir.InUse
	is.True(errors.As(err, &used))
}

// The working copy of a running store is checked between two commits.
func TestCheckCopy(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	found := 0
	is.NoErr(s.CheckCopy(func(error) { found++ }))
	is.Equal(found, 0)
	is.NoErr(kv.StoreBolt(s).Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(kvtest.Bucket("blob.loose").Name)).Put([]byte("k"), []byte("v"))
	}))
	is.NoErr(s.CheckCopy(func(error) { found++ }))
	is.Equal(found, 1)
	is.NoErr(kv.StoreBolt(s).Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(kvtest.Bucket("blob.loose").Name)).Delete([]byte("k"))
	}))
	found = 0
	is.NoErr(s.CheckCopy(func(error) { found++ }))
	is.Equal(found, 0)
}

// A working copy with damaged pages is reported as such, and nothing else is concluded
// from it.
func TestCheckCopyOfDamagedPages(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	change := func(fn func(b *bolt.Bucket) error) {
		is.NoErr(kv.StoreBolt(s).Update(func(tx *bolt.Tx) error {
			return fn(tx.Bucket([]byte(kvtest.Bucket("blob.loose").Name)))
		}))
	}
	large := make([]byte, 2000) // so that the bucket has pages of its own
	change(func(b *bolt.Bucket) error {
		return errors.Join(b.Put([]byte("first key"), large), b.Put([]byte("second key"), large))
	})
	path := filepath.Join(s.Dir(), "cache", "kist.db")
	rewrite := func(from, to string) { // in the file, which the store has mapped
		text, err := os.ReadFile(path)
		is.NoErr(err)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		is.NoErr(err)
		defer f.Close()
		n := 0
		for at := 0; ; n++ {
			next := bytes.Index(text[at:], []byte(from))
			if next < 0 {
				break
			}
			_, err := f.WriteAt([]byte(to), int64(at+next))
			is.NoErr(err)
			at += next + 1
		}
		is.True(n > 0)
	}
	rewrite("first key", "wrong key")
	var found []string
	is.NoErr(s.CheckCopy(func(err error) { found = append(found, err.Error()) }))
	is.True(len(found) > 0)
	for _, text := range found {
		is.True(strings.HasPrefix(text, "cache/kist.db: "))
	}
	rewrite("wrong key", "first key")
	change(func(b *bolt.Bucket) error {
		return errors.Join(b.Delete([]byte("first key")), b.Delete([]byte("second key")))
	})
}

// Each content comes once and in order, no matter who has it, and a listing can
// continue after any ref.
func TestContents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, u.ID, func(f *inbox.RequestForm) { f.PerSender = 100 })
	want := map[[32]byte]int64{}
	file := func(ref [32]byte, size int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Files, Form: kvtest.Form(t, record.Files, `{}`), Content: &record.Content{Ref: ref, Size: size},
			})
			return err
		})
		want[ref] = size
	}
	sent := func(mark byte, size int64) {
		c := kvtest.Came(mark, size)
		if _, err := kvtest.Leave(s, q, "here", c); err != nil {
			t.Fatal(err)
		}
		want[c.Ref] = size
	}
	last := [32]byte(bytes.Repeat([]byte{0xff}, 32))
	file([32]byte{5}, 7)
	file([32]byte{5}, 7) // twice
	file([32]byte{}, 1)
	file(last, 2)
	file([32]byte{3, 0xff}, 3)
	file([32]byte{3}, 4)
	for _, mark := range []byte{2, 5, 8, 4} {
		sent(mark, 7)
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		refs := slices.SortedFunc(maps.Keys(want), func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
		is.True(len(refs) >= 8)
		for from := -1; from < len(refs); from++ {
			var after []byte
			if from >= 0 {
				after = refs[from][:]
			}
			var got [][32]byte
			for ref, size := range tx.ContentsAfter(after) {
				got = append(got, ref)
				is.Equal(size, want[ref])
			}
			is.True(slices.Equal(got, refs[from+1:]))
		}
		return nil
	})
}
