package kv

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

	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/table"
)

// inhabited is a store with something of everything, closed.
func inhabited(t *testing.T) (dir string, owner record.ID) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	u := user(t, s, "ann")
	update(t, s, func(tx *Tx) error {
		_, _, err := tx.AddKey(record.Key{Owner: u.ID, Name: "k"})
		if err == nil {
			_, err = tx.AddWebhook(record.Webhook{Owner: u.ID, Events: []record.Event{record.AllEvents}, Enabled: true})
		}
		if err == nil {
			_, _, err = tx.AddDevice("extension", "192.0.2.1", "192.0.2.1/32")
		}
		return err
	})
	q := addRequest(t, s, u.ID, func(f *record.RequestForm) { f.PerSender = 5 })
	if _, err := leave(s, q, "here", came(2, 3), came(3, 3)); err != nil {
		t.Fatal(err)
	}
	s.RequestSeen(q)
	sent, _ := due(t, s)
	tried(t, s, sent[0], "")
	gone := add(t, s, u.ID, record.Notes, `{"content":"gone"}`)
	for _, text := range []string{`{"content":"one","tags":["a","b"],"isPublic":true}`, `{"content":"two","tags":["b"],"isFavorite":true,"expiresAt":"2999-01-01T00:00:00Z"}`} {
		add(t, s, u.ID, record.Notes, text)
	}
	add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
	update(t, s, func(tx *Tx) error {
		f := form(t, record.Files, `{}`)
		f.FolderName = "folder"
		_, err := tx.Add(u.ID, record.Files, f, &record.Content{Ref: [32]byte{1}, Size: 5}, "")
		if err == nil {
			_, err = tx.AddUpload(Upload{Owner: u.ID, Length: 7, Slug: "to-come"})
		}
		if err == nil {
			_, _, err = tx.addSenderUpload(q, Upload{Length: 5}, "a", 1<<30)
		}
		if err == nil {
			_, err = tx.AddFetch(record.Fetch{Owner: u.ID, URL: "https://go.dev", Slug: "to-fetch"})
		}
		if err != nil {
			return err
		}
		r, err := tx.Record(u.ID, record.Notes, gone.ID.String())
		if err != nil {
			return err
		}
		return tx.Remove(r)
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, u.ID
}

// contentOf is everything in the store, what a repair may change in meta aside.
func contentOf(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	view(t, s, func(tx *Tx) error {
		for b := range All.Buckets().All() {
			for k, v := range tx.Walk(b, nil, nil, false) {
				if b != bucket("meta") || bytes.Equal(k, []byte("seq")) {
					all[b.Name+string(k)] = string(v)
				}
			}
		}
		return nil
	})
	return all
}

// Audit finds every entry that is missing, wrong or too many, in each bucket
// that is derived from others.
func TestAuditFinds(t *testing.T) {
	dir, _ := inhabited(t)
	for _, b := range []table.Bucket{bucket("page"), bucket("page.due"), bucket("user.name"), bucket("key.digest"), bucket("record.slug"), bucket("record.label"), bucket("record.order"), bucket("sum"), bucket("tag.name"), bucket("folder.name"), bucket("blob"), bucket("change"), bucket("item.state"), bucket("item.blob"), bucket("upload.slug"), bucket("upload.secret"), bucket("fetch.line"), bucket("item.state"), bucket("item.blob"), bucket("delivery.line"), bucket("delivery.due"), bucket("delivery.log"), bucket("delivery.sum"), bucket("notice"), bucket("record.end"), bucket("device.code")} {
		for _, harm := range []string{"missing", "wrong", "more"} {
			t.Run(b.Name+"/"+harm, func(t *testing.T) {
				is := is.New(t)
				i, err := All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { t.Error(err) })
				is.NoErr(err)
				defer func() { is.NoErr(i.Close()) }()
				is.NoErr(StoreBolt(InspectedStore(i)).Update(func(tx *bolt.Tx) error {
					raw := tx.Bucket([]byte(b.Name))
					c := raw.Cursor()
					k, v := c.First()
					for b == bucket("change") && tx.Bucket([]byte(bucket("record").Name)).Get(v) == nil {
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
				is.NoErr(i.View(func(tx *Tx) error { return tx.Audit(func(error) { found++ }) }))
				is.True(found > 0)
			})
		}
	}
}

// Audit names everything that a row refers to and that is not there. It reports
// nothing where all is well, also after removals, which leave their marks.
func TestAuditOfReferences(t *testing.T) {
	t.Parallel()
	dir, _ := inhabited(t)
	first := func(b table.Bucket) func(tx *Tx) error { // removes the first row of a bucket, and nothing else
		return func(tx *Tx) error {
			for k := range tx.Walk(b, nil, nil, false) {
				return tx.Delete(b, bytes.Clone(k))
			}
			return errors.New("there is none")
		}
	}
	for name, row := range map[string]struct {
		harm func(tx *Tx) error
		says []string
	}{
		"nothing": {func(*Tx) error { return nil }, nil},
		"user": {first(bucket("user")), []string{
			"key * refers to user ", "tag * refers to user ", "folder * refers to user ", "webhook * refers to user ", "upload * refers to user ",
			"remote upload * refers to user ", "note * refers to user ", "upload request * refers to user ",
		}},
		"webhook": {first(bucket("webhook")), []string{"delivery * refers to webhook "}},
		"bookmark": {func(tx *Tx) error {
			for r, err := range records.All(tx.Tx, nil) {
				if err != nil || r.Kind == record.Bookmarks {
					return errors.Join(err, tx.Delete(bucket("record"), r.Key()))
				}
			}
			return errors.New("there is none")
		}, []string{"page * refers to record "}},
		"notice":         {first(bucket("notice")), []string{"delivery * refers to notice "}},
		"tag":            {first(bucket("tag")), []string{"note * refers to tag "}},
		"folder":         {first(bucket("folder")), []string{"file * refers to folder "}},
		"upload request": {first(bucket("request")), []string{"upload * refers to request ", "sender of * refers to request "}},
		"delivery": {func(tx *Tx) error {
			for k := range tx.Walk(bucket("delivery"), nil, nil, true) {
				_, err := deliveries.Delete(tx.Tx, bytes.Clone(k))
				return err
			}
			return nil
		}, []string{"notice * is told by no delivery"}},
		"view": {func(tx *Tx) error {
			return tx.Put(bucket("view"), bytes.Repeat([]byte{7}, 16), make([]byte, 16))
		}, []string{"1 counters of views belong to no item"}},
		"loose content": {func(tx *Tx) error {
			for k := range tx.Walk(bucket("blob"), nil, nil, false) {
				if err := tx.Put(bucket("blob.loose"), bytes.Clone(k[:32]), tx.instant()); err != nil {
					return err
				}
			}
			for k := range tx.Walk(bucket("item.blob"), nil, nil, false) {
				if err := tx.Put(bucket("blob.loose"), bytes.Clone(k[:32]), tx.instant()); err != nil {
					return err
				}
			}
			return nil
		}, []string{"file * has content that is marked as nobody's", "upload * has content that is marked as nobody's"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			i, err := All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { t.Error(err) })
			is.NoErr(err)
			defer func() { is.NoErr(i.Close()) }()
			var found []string
			is.NoErr(StoreBolt(InspectedStore(i)).Update(func(b *bolt.Tx) error {
				tx := BareTx(InspectedStore(i), b)
				is.NoErr(row.harm(tx))
				is.NoErr(tx.Flush())
				return tx.Audit(func(err error) { found = append(found, err.Error()) })
			}))
			is.Equal(len(found) == 0, len(row.says) == 0)
			for _, says := range row.says {
				before, after, _ := strings.Cut(says, "*")
				if !slices.ContainsFunc(found, func(text string) bool { return strings.HasPrefix(text, before) && strings.Contains(text, after) }) {
					t.Errorf("nothing says %q: %q", says, found)
				}
			}
		})
	}
}

// Holders follows a journal: who has a content is known, and forgotten when it is
// removed or the journal is read again.
func TestHolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := All.Holders()
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
		{Bucket: bucket("blob").No, Key: key(0, "one"), Value: []byte{}},
		{Bucket: bucket("blob").No, Key: key(0, "two"), Value: []byte{}},
		{Bucket: bucket("item.blob").No, Key: key(1, "one"), Value: []byte{}},
		{Bucket: bucket("record").No, Key: key(2, "one"), Value: []byte{}},
		{Bucket: bucket("blob").No, Key: []byte("short"), Value: []byte{}},
	}))
	is.Equal(refs(), "aab")
	is.NoErr(h.Note([]journal.Op{{Bucket: bucket("blob").No, Key: key(0, "one")}, {Bucket: bucket("item.blob").No, Key: key(0, "two")}}))
	is.Equal(refs(), "ab")
	is.NoErr(h.Begin())
	is.Equal(refs(), "")
}

// Deliveries whose webhook cannot be read are lost in a repair, which says so,
// and nothing is left of them.
func TestRepairOfOrphans(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]table.Bucket{"webhook": bucket("webhook"), "notice": bucket("notice")} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := openAt(t, dir, nil)
			u := user(t, s, "ann")
			kept, gone := hookFor(t, s, u.ID, record.Notes.Created()), hookFor(t, s, u.ID, record.Bookmarks.Created())
			add(t, s, u.ID, record.Notes, `{"content":"c"}`)
			add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
			var lost record.Delivery
			update(t, s, func(tx *Tx) error {
				lost = deliveriesOf(t, tx, gone.ID)[0]
				if b == bucket("webhook") {
					return tx.Delete(bucket("webhook"), ownedKey(u.ID, gone.ID[:]...))
				}
				return tx.Delete(bucket("notice"), ownedKey(lost.Owner, lost.ID[:]...))
			})
			is.NoErr(s.Close())
			repaired, err := Repair(dir, RepairOptions{Schema: All})
			is.NoErr(err)
			is.Equal(len(repaired.Lost), 1)
			is.True(strings.Contains(repaired.Lost[0], "delivery "+lost.ID.String()))
			s = openAt(t, dir, nil)
			view(t, s, func(tx *Tx) error {
				is.Equal(len(deliveriesOf(t, tx, gone.ID)), 0)
				is.Equal(len(deliveriesOf(t, tx, kept.ID)), 1)
				is.Equal(tx.Count(bucket("notice")), 1)
				return audit(tx)
			})
		})
	}
}

// Rows that have the name of another are there after a repair, under names of
// their own, and the repair says so.
func TestRepairOfNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	ann := user(t, s, "ann")
	bob := user(t, s, "bob")
	one := add(t, s, ann.ID, record.Notes, `{"content":"one","tags":["one","two"]}`)
	two := add(t, s, ann.ID, record.Notes, `{"content":"two"}`)
	asked, other := addRequest(t, s, ann.ID, nil), addRequest(t, s, ann.ID, nil)
	var want []string
	update(t, s, func(tx *Tx) error {
		var filed []*record.Folder
		for _, name := range []string{"first", "second"} {
			f, err := tx.AddFolder(ann.ID, name, "")
			if err != nil {
				return err
			}
			filed = append(filed, f)
		}
		all, err := collect(tags, tx, ann.ID[:])
		if err != nil {
			return err
		}
		tag := &all[1]
		tag.Name, filed[1].Name, bob.Name, other.Slug = all[0].Name, "first", "ann", asked.Slug
		row, err := records.Get(tx.Tx, one.Key())
		if err != nil {
			return err
		}
		row.Slug = two.Slug
		want = []string{
			"account " + bob.ID.String() + ": another has its name", "tag " + tag.ID.String() + ": another has its name",
			"folder " + filed[1].ID.String() + ": another has its name", "upload request " + other.ID.String() + ": another has its slug " + asked.Slug,
			"note " + one.ID.String() + ": another has its slug " + two.Slug, // the one that was changed last keeps it
		}
		return errors.Join(rewrite(tx, users, bob), rewrite(tx, tags, tag), rewrite(tx, folders, filed[1]), rewrite(tx, requests, other), rewrite(tx, records, row))
	})
	is.NoErr(s.Close())
	r, err := Repair(dir, RepairOptions{Schema: All})
	is.NoErr(err)
	is.Equal(len(r.Lost), len(want))
	for _, text := range want {
		if !slices.ContainsFunc(r.Lost, func(lost string) bool { return strings.HasPrefix(lost, text) }) {
			t.Errorf("nothing says %q: %q", text, r.Lost)
		}
	}
	s = openAt(t, dir, nil)
	view(t, s, func(tx *Tx) error {
		for b, n := range map[table.Bucket]int{bucket("user"): 2, bucket("tag"): 2, bucket("folder"): 2, bucket("request"): 2, bucket("record"): 2} {
			is.Equal(tx.Count(b), n)
		}
		kept, err := tx.Slug(two.Slug)
		is.NoErr(err)
		is.Equal(kept.ID, two.ID)
		return audit(tx)
	})
}

// rewrite writes a row and leaves its indexes as they are.
func rewrite[T any](tx *Tx, t *table.Table[T], v *T) error {
	row, err := t.Encode(v)
	return errors.Join(err, tx.Put(t.Rows, t.Key(v), row))
}

// A delivery whose forerunner cannot be read is due after a repair, and Audit
// tells of one that is not.
func TestRepairOfQueue(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	u := user(t, s, "ann")
	h := hookFor(t, s, u.ID, "*")
	r := add(t, s, u.ID, record.Notes, `{"content":"one"}`)
	edit(t, s, r, `{"content":"two"}`)
	edit(t, s, r, `{"content":"three"}`)
	update(t, s, func(tx *Tx) error {
		first := deliveriesOf(t, tx, h.ID)[0]
		return tx.dropDelivery(deliveries.Key(&first))
	})
	found := 0
	view(t, s, func(tx *Tx) error { return tx.Audit(func(error) { found++ }) })
	is.Equal(found, 1)
	is.NoErr(s.Close())
	repaired, err := Repair(dir, RepairOptions{Schema: All})
	is.NoErr(err)
	is.Equal(len(repaired.Lost), 0)
	s = openAt(t, dir, nil)
	view(t, s, audit)
	all, _ := due(t, s)
	is.Equal(len(all), 1)
}

// What can be read of a damaged store is all there after a repair, and what is
// derived is right again.
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
			dir, owner := inhabited(t)
			s, err := Open(dir, Options{Schema: All, Log: quiet})
			is.NoErr(err)
			before := contentOf(t, s)
			is.NoErr(s.Close())
			if _, err := identify(filepath.Join(dir, "cache", "kist.db")); err != nil && name == "journal gone" {
				t.Skip("this system cannot prove that a working copy is whole")
			}
			row.harm(t, dir)
			r, err := Repair(dir, RepairOptions{Schema: All})
			is.NoErr(err)
			is.Equal(r.Whole(), row.same)
			_, err = os.Stat(filepath.Join(dir, r.Aside, "journal"))
			is.Equal(err == nil, name != "journal gone")
			s = openAt(t, dir, nil)
			view(t, s, func(tx *Tx) error {
				_, err := tx.User(owner)
				is.NoErr(err)
				return audit(tx)
			})
			if row.same {
				is.True(maps.Equal(contentOf(t, s), before))
			}
			add(t, s, owner, record.Notes, `{"content":"after"}`)
			entries, err := os.ReadDir(dir)
			is.NoErr(err)
			for _, e := range entries {
				is.True(!strings.HasPrefix(e.Name(), "repair-"))
			}
		})
	}
}

// A store that is open is not repaired under its feet.
func TestRepairInUse(t *testing.T) {
	is := is.New(t)
	s := open(t)
	user(t, s, "ann")
	_, err := Repair(s.Dir(), RepairOptions{Schema: All})
	var used *InUse
	is.True(errors.As(err, &used))
}

// The working copy of a store that runs is looked at between two commits.
func TestCheckCopy(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	found := 0
	is.NoErr(s.CheckCopy(func(error) { found++ }))
	is.Equal(found, 0)
	is.NoErr(StoreBolt(s).Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(bucket("blob.loose").Name)).Put([]byte("k"), []byte("v"))
	}))
	is.NoErr(s.CheckCopy(func(error) { found++ }))
	is.Equal(found, 1)
	is.NoErr(StoreBolt(s).Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket("blob.loose").Name)).Delete([]byte("k")) }))
	found = 0
	is.NoErr(s.CheckCopy(func(error) { found++ }))
	is.Equal(found, 0)
}

// A working copy whose pages are damaged is named as such, and nothing more is
// concluded from it.
func TestCheckCopyOfDamagedPages(t *testing.T) {
	is := is.New(t)
	s := open(t)
	change := func(fn func(b *bolt.Bucket) error) {
		is.NoErr(StoreBolt(s).Update(func(tx *bolt.Tx) error { return fn(tx.Bucket([]byte(bucket("blob.loose").Name))) }))
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

// Each content comes once and in order, no matter who has it, and a listing goes on
// after any ref.
func TestContents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	q := addRequest(t, s, u.ID, func(f *record.RequestForm) { f.PerSender = 100 })
	want := map[[32]byte]int64{}
	file := func(ref [32]byte, size int64) {
		update(t, s, func(tx *Tx) error {
			_, err := tx.Add(u.ID, record.Files, form(t, record.Files, `{}`), &record.Content{Ref: ref, Size: size}, "")
			return err
		})
		want[ref] = size
	}
	sent := func(mark byte, size int64) {
		c := came(mark, size)
		if _, err := leave(s, q, "here", c); err != nil {
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
	view(t, s, func(tx *Tx) error {
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
