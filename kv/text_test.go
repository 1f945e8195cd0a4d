package kv_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/tables"
)

// rowsOf returns how many bytes of text the owner has: the stored rows of records, tags
// and items of the queue, and the metadata of unfinished uploads.
func rowsOf(t testing.TB, s *kv.Store, owner record.ID) (n int64) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for _, b := range []table.Bucket{
			kvtest.Bucket("record"), kvtest.Bucket("tag"), kvtest.Bucket("item"), kvtest.Bucket("folder"),
			kvtest.Bucket("request"), kvtest.Bucket("fetch"),
		} {
			for _, row := range tx.Walk(b, owner[:], nil, false) {
				n += int64(len(row))
			}
		}
		for u, err := range inbox.UploadRows.All(tx.Tx, owner[:]) {
			if err != nil {
				return err
			}
			if !u.Done() {
				n += int64(len(u.Metadata) + len(u.Name) + len(u.Message))
			}
		}
		return nil
	})
	return n
}

// addOtherText adds text of every sort outside of records: a tag, a file waiting for
// approval, and uploads by the owner and by a sender.
func addOtherText(t testing.TB, s *kv.Store, owner record.ID) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error { _, err := catalog.AddTag(tx, owner, "a tag", ""); return err })
	q := kvtest.AddRequest(t, s, owner, nil)
	if _, err := kvtest.Leave(s, q, "there", kvtest.Came(1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := kvtest.BeginSent(s, q, "there", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := kvtest.BeginUpload(s, inbox.Upload{Owner: owner, Length: 1, Metadata: "filename YQ=="}); err != nil {
		t.Fatal(err)
	}
}

// Text outside of records counts against the quota from when it is stored until it is
// removed.
func TestQuotaOfOtherText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	quota := func(n int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: n}) })
	}
	used := func() int64 {
		t.Helper()
		n := kvtest.TextNow(t, s, u.ID)
		is.Equal(n, rowsOf(t, s, u.ID))
		kvtest.View(t, s, kvtest.Audit)
		return n
	}
	long := strings.Repeat("x", 900)

	// Tags, alone and with a record, new or changed.
	note := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	before := used()
	var tag *record.Tag
	addTag := func(name string) error {
		return s.Update(func(tx *kv.Tx) error {
			made, err := catalog.AddTag(tx, u.ID, name, "")
			if err == nil {
				tag = made
			}
			return err
		})
	}
	is.NoErr(addTag("twelve bytes"))
	row := used() - before
	is.True(row > 12)
	rename := func(name string) error {
		return s.Update(func(tx *kv.Tx) error {
			t := *tag
			t.Name = name
			return catalog.SaveTag(tx, &t)
		})
	}
	quota(used())
	is.Equal(kvtest.Code(addTag("x")), "quota_exceeded")
	is.Equal(kvtest.Code(rename("a longer name")), "quota_exceeded")
	is.NoErr(rename("eleven byte"))
	is.Equal(used(), before+row-1)
	edit := func(text string) error {
		return s.Update(func(tx *kv.Tx) error {
			r, err := catalog.Record(tx, u.ID, record.Notes, note.ID.String())
			is.NoErr(err)
			f, err := kvtest.Patch(r, text)
			is.NoErr(err)
			return catalog.Save(tx, r, f, "")
		})
	}
	is.Equal(kvtest.Code(edit(`{"tags":"made with the note"}`)), "quota_exceeded")
	is.NoErr(edit(`{"isFavorite":true}`))
	is.NoErr(edit(`{"tags":"eleven byte"}`)) // it is there
	is.NoErr(catalog.RemoveTag(s, u.ID, tag.ID, record.ID{}))
	is.Equal(used(), before)

	// Folders, upload requests and remote uploads, new or longer.
	var folder *record.Folder
	var request *inbox.Request
	var fetch *jobs.Fetch
	form := func() *inbox.RequestForm {
		f := &inbox.RequestForm{Request: inbox.NewRequest()}
		f.Title, f.Description = "Photos", long
		return f
	}
	for _, add := range []func(tx *kv.Tx) error{
		func(tx *kv.Tx) (err error) { folder, err = catalog.AddFolder(tx, u.ID, "travel", ""); return err },
		func(tx *kv.Tx) (err error) { request, err = inbox.AddRequest(tx, u.ID, form(), ""); return err },
		func(tx *kv.Tx) (err error) {
			fetch, err = jobs.AddFetch(tx, jobs.Fetch{Owner: u.ID, URL: "https://example.org/" + long})
			return err
		},
	} {
		quota(used())
		is.Equal(kvtest.Code(s.Update(add)), "quota_exceeded")
		quota(0)
		is.NoErr(s.Update(add))
	}
	quota(used())
	for _, change := range []func(tx *kv.Tx) error{
		func(tx *kv.Tx) error { f := *folder; f.Name += "s"; return catalog.SaveFolder(tx, &f) },
		func(tx *kv.Tx) error { q := *request; q.Title += "s"; return inbox.SaveRequest(tx, &q) },
	} {
		is.Equal(kvtest.Code(s.Update(change)), "quota_exceeded")
	}
	quota(0)
	is.True(used() > before+1800)
	is.NoErr(catalog.RemoveFolder(s, u.ID, folder.ID))
	is.NoErr(inbox.RemoveRequest(s, u.ID, request.ID))
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.RemoveFetch(tx, u.ID, fetch.ID) })
	is.Equal(used(), before)

	// The metadata of an upload by the owner, until it is done or forgotten.
	begin := func() (*inbox.Upload, error) {
		return kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 10, Metadata: long})
	}
	quota(before + 909)
	_, err := begin()
	is.Equal(kvtest.Code(err), "quota_exceeded")
	quota(before + 910)
	up, err := begin()
	is.NoErr(err)
	is.Equal(used(), before+900)
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 1})
	is.Equal(kvtest.Code(err), "quota_exceeded")
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.RemoveUpload(tx, u.ID, up.ID) })
	is.Equal(used(), before)
	_, err = begin()
	is.NoErr(err)
	c.Add(inbox.UploadTime)
	kvtest.Update(t, s, inbox.DropUploads)
	is.Equal(used(), before)
	up, err = begin()
	is.NoErr(err)
	quota(10) // it does not fail at its end for text
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		return inbox.FinishUpload(tx, up, kvtest.Form(t, record.Files, `{}`), kvtest.Content(record.Files, 5, 10))
	})
	is.True(used() < before+900)
	quota(0)

	// The text of strangers, and the later states of their uploads.
	q := kvtest.AddRequest(t, s, u.ID, nil)
	before = used()
	said := inbox.Upload{Length: 10, Name: "Bob", Message: long[:890], Metadata: "1234567"}
	send := func() (*inbox.Upload, string, error) {
		return inbox.BeginSenderUpload(s, t.Context(), q, said, "here", "")
	}
	quota(10 + before + 909)
	_, _, err = send()
	is.Equal(kvtest.Code(err), "limit_reached")
	quota(10 + before + 910)
	sent, _, err := send()
	is.NoErr(err)
	is.Equal(used(), before+900)
	_, _, err = inbox.BeginSenderUpload(s, t.Context(), q, inbox.Upload{Length: 1}, "here", "")
	is.Equal(kvtest.Code(err), "limit_reached")
	quota(20)
	is.NoErr(kvtest.Receive(s, sent, 1))
	item := sent.Item
	is.True(used() > before+893) // the name and the message went with it
	_, err = kvtest.Leave(s, q, "here", kvtest.Came(2, 1))
	is.Equal(kvtest.Code(err), "limit_reached")
	quota(0)
	_, err = kvtest.Leave(s, q, "here", kvtest.Came(2, 0))
	is.NoErr(err)
	for _, d := range []string{"approve", "reject"} {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			_, err := inbox.Decide(tx, u.ID, q.ID, item, &inbox.Decision{Action: d, Tags: []string{d}})
			return err
		})
		is.True(used() > before+893) // the row stays
		all, err := kvtest.Leave(s, q, "here", kvtest.Came(3, 1))
		is.NoErr(err)
		item = all[0].ID
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		use, err := people.UsageOf(tx, u)
		is.NoErr(err)
		is.Equal(use.Text, rowsOf(t, s, u.ID))
		return nil
	})
	is.NoErr(inbox.RemoveRequest(s, u.ID, q.ID))
	now := used()
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(tx.Count(kvtest.Bucket("item")), 0); return nil })

	// All of it is the same after a restart, and goes with the account.
	addOtherText(t, s, u.ID)
	is.True(used() > now)
	now = used()
	dir := s.Dir()
	is.NoErr(s.Close())
	s = kvtest.OpenAt(t, dir, c.Now)
	is.Equal(used(), now)
	kvtest.User(t, s, "another")
	is.NoErr(people.RemoveUser(s, u.ID, "root"))
	is.Equal(used(), int64(0))
}

// The text of records of every kind counts exactly against the quota. A new record or a
// growing edit that does not fit is refused.
func TestQuotaOfText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "admin")
	u := kvtest.User(t, s, "ann")
	quota := func(n int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, u.ID)
			is.NoErr(err)
			u.Quota = n
			return people.SaveUser(tx, u)
		})
	}
	for _, k := range record.Kinds {
		long := strings.Repeat("x", 5000)
		text := map[*record.Kind]string{
			record.Files: `{"description":%q}`, record.Bookmarks: `{"url":"https://example.org/","description":%q}`, record.Notes: `{"content":%q}`, record.Snippets: `{"content":%q}`,
			record.Recipes: `{"title":"t","ingredients":%q}`, record.Games: `{"title":"t","notes":%q}`, record.Links: `{"originalUrl":"https://example.org/","description":%q}`,
			record.Collections: `{"title":"t","description":%q}`,
		}[k]
		quota(0)
		before := kvtest.TextNow(t, s, u.ID)
		first := kvtest.Add(t, s, u.ID, k, fmt.Sprintf(text, long))
		row := kvtest.TextNow(t, s, u.ID) - before
		is.True(row > 5000)
		is.Equal(kvtest.TextNow(t, s, u.ID), rowsOf(t, s, u.ID))
		change := func(words string) error {
			return s.Update(func(tx *kv.Tx) error {
				r, err := catalog.Record(tx, u.ID, k, first.ID.String())
				is.NoErr(err)
				parts := strings.Split(text, `"`) // the name of the last member is the last but one
				f, err := kvtest.Patch(r, fmt.Sprintf(`{%q:%q}`, parts[len(parts)-2], words))
				is.NoErr(err)
				f.Seen = true // so that both changes are one version
				return catalog.Save(tx, r, f, "")
			})
		}
		more := func() error {
			return s.Update(func(tx *kv.Tx) error {
				_, err := catalog.Add(tx, catalog.Draft{
					Owner: u.ID, Kind: k, Form: kvtest.Form(t, k, fmt.Sprintf(text, long)), Content: kvtest.Content(k, 0, 0),
				})
				return err
			})
		}
		used := kvtest.TextNow(t, s, u.ID)
		quota(used) // full
		is.Equal(kvtest.Code(change(long+"x")), "quota_exceeded")
		is.NoErr(change(strings.Repeat("y", 5000))) // as long as before
		kept := kvtest.TextNow(t, s, u.ID) - used   // the text before, beyond the quota
		is.Equal(kept > 5000, k.Versioned())
		used += kept
		quota(1)
		is.NoErr(change(strings.Repeat("y", 4000))) // shorter, though there is too much
		is.Equal(kvtest.TextNow(t, s, u.ID), used-1000)
		is.Equal(kvtest.Code(more()), "quota_exceeded")
		quota(used)
		if k == record.Files { // its content decides, and its text counts then
			is.NoErr(more())
			is.Equal(kvtest.Code(more()), "quota_exceeded")
		} else {
			is.Equal(kvtest.Code(more()), "quota_exceeded")
			quota(used - 1000 + row - 1)
			is.Equal(kvtest.Code(more()), "quota_exceeded")
			quota(used - 1000 + row)
			is.NoErr(more()) // to the last byte
		}
		kvtest.View(t, s, func(tx *kv.Tx) error {
			use, err := people.UsageOf(tx, u)
			is.NoErr(err)
			is.Equal(use.Text, used-1000+row)
			is.Equal(use.Used(), use.Text+use.Bytes)
			return kvtest.Audit(tx)
		})
		_, err := kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 1}) // files feel it
		is.Equal(kvtest.Code(err), "quota_exceeded")
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			r, err := catalog.Record(tx, u.ID, k, first.ID.String())
			is.NoErr(err)
			return catalog.Remove(tx, r)
		})
		is.Equal(kvtest.TextNow(t, s, u.ID), rowsOf(t, s, u.ID))
	}
	is.NoErr(people.RemoveUser(s, u.ID, "root"))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Get(kvtest.Bucket("meta"), kv.TextOf(u.ID)), nil)
		return kvtest.Audit(tx)
	})
}

// A failing job leaves the sum as it was, although others in the same commit change it.
func TestTextOfFailedJob(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	was := kvtest.TextNow(t, s, u.ID)
	err := s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"lost"}`),
		})
		is.NoErr(err)
		is.True(tx.Text(u.ID) > was)
		return fmt.Errorf("no")
	})
	is.True(err != nil)
	is.Equal(kvtest.TextNow(t, s, u.ID), was)
	kvtest.View(t, s, kvtest.Audit)
}

// asOlder commits changes of meta like a program that does not know the sums of text.
func asOlder(t *testing.T, s *kv.Store, change func(tx *table.Tx) error) {
	t.Helper()
	if err := kv.Between(s, func() error {
		db, err := kv.Drain(s)
		if err != nil {
			return err
		}
		b, err := db.Begin(true)
		if err != nil {
			return err
		}
		changes := new(table.Mem)
		tx := table.Write(b, 1, changes)
		if err := change(tx); err != nil {
			return err
		}
		kv.StoreRecord(s).Reset(kv.StoreState(s).Digest)
		for is, was := range tx.Changes() {
			kv.StoreRecord(s).Add(journal.Op(is), was)
		}
		to := journal.State{Seq: kv.StoreState(s).Seq + 1, Digest: kv.StoreRecord(s).Digest()}
		if err := (*kv.StoreJournal(s)).Append(kv.StoreRecord(s), to); err != nil {
			return err
		}
		*kv.StoreState(s) = to
		return errors.Join(changes.Apply(b, tables.All.Buckets()), b.Commit())
	}); err != nil {
		t.Fatal(err)
	}
}

// A store without sums of text, or with outdated ones because an older program has
// written to it, has the right ones once it is opened. Before that it does not count
// as damaged.
func TestTextOfOlderStore(t *testing.T) {
	for name, change := range map[string]func(s *kv.Store, tx *table.Tx) error{
		"none": func(_ *kv.Store, tx *table.Tx) error {
			var all [][]byte
			for k := range tx.Walk(kvtest.Bucket("meta"), []byte("text"), nil, false) {
				all = append(all, bytes.Clone(k))
			}
			for _, k := range all {
				if err := tx.Delete(kvtest.Bucket("meta"), k); err != nil {
					return err
				}
			}
			return nil
		},
		"outdated": func(s *kv.Store, tx *table.Tx) error {
			for k := range tx.Walk(kvtest.Bucket("meta"), []byte("text "), nil, false) {
				if err := tx.Put(kvtest.Bucket("meta"), bytes.Clone(k), binary.BigEndian.AppendUint64(nil, 7)); err != nil {
					return err
				}
				break
			}
			if err := tx.Put(kvtest.Bucket("meta"), kv.TextOf(record.ID{1}), binary.BigEndian.AppendUint64(nil, 7)); err != nil {
				return err
			}
			*kv.StoreSeq(s)++
			return tx.Put(kvtest.Bucket("meta"), []byte("seq"), binary.BigEndian.AppendUint64(nil, *kv.StoreSeq(s)))
		},
		// Such a program has changed only rows without a number in the feed.
		"outdated by other rows": func(_ *kv.Store, tx *table.Tx) error {
			later := binary.BigEndian.Uint64(tx.Get(kvtest.Bucket("meta"), []byte("instant"))) + 1
			return errors.Join(
				tx.Put(kvtest.Bucket("meta"), kv.TextOf(record.ID{1}), binary.BigEndian.AppendUint64(nil, 7)),
				tx.Put(kvtest.Bucket("meta"), []byte("instant"), binary.BigEndian.AppendUint64(nil, later)),
			)
		},
		// A program that counts only records.
		"of records alone": func(s *kv.Store, tx *table.Tx) error {
			only := map[record.ID]int64{}
			for k, row := range tx.Walk(kvtest.Bucket("record"), nil, nil, false) {
				only[record.ID(k[:16])] += int64(len(row))
			}
			for owner, n := range only {
				if err := tx.Put(
					kvtest.Bucket("meta"), kv.TextOf(owner), binary.BigEndian.AppendUint64(nil, uint64(n)),
				); err != nil {
					return err
				}
			}
			return tx.Put(kvtest.Bucket("meta"), []byte("texts"), binary.BigEndian.AppendUint64(nil, *kv.StoreSeq(s)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
			kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"hers"}`)
			kvtest.Add(t, s, ann.ID, record.Files, `{"description":"d"}`)
			kvtest.Add(t, s, bob.ID, record.Links, `{"originalUrl":"https://example.org/"}`)
			addOtherText(t, s, ann.ID)
			asOlder(t, s, func(tx *table.Tx) error { return change(s, tx) })
			dir = kvtest.LeftOf(t, s) // a stop would commit something as this program does
			i, err := tables.All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { t.Error(err) })
			is.NoErr(err)
			is.NoErr(i.View(func(tx *kv.Tx) error { tx.Audit(func(err error) { t.Error(err) }); return nil }))
			is.NoErr(i.Close())
			for range 2 {
				s = kvtest.OpenAt(t, dir, nil)
				for _, u := range []*people.User{ann, bob} {
					is.Equal(kvtest.TextNow(t, s, u.ID), rowsOf(t, s, u.ID))
				}
				kvtest.View(t, s, func(tx *kv.Tx) error {
					is.Equal(tx.Get(kvtest.Bucket("meta"), kv.TextOf(record.ID{1})), nil)
					is.True(kv.TextsHold(tx))
					return kvtest.Audit(tx)
				})
				is.NoErr(s.Close())
			}
		})
	}
}

// Audit finds a sum of text that is missing, wrong or without an owner, and a repair
// corrects it.
func TestTextDamaged(t *testing.T) {
	for name, change := range map[string]func(tx *table.Tx, owner record.ID) error{
		"missing": func(tx *table.Tx, owner record.ID) error { return tx.Delete(kvtest.Bucket("meta"), kv.TextOf(owner)) },
		"wrong": func(tx *table.Tx, owner record.ID) error {
			return tx.Put(kvtest.Bucket("meta"), kv.TextOf(owner), binary.BigEndian.AppendUint64(nil, 7))
		},
		"nobody's": func(tx *table.Tx, _ record.ID) error {
			return tx.Put(kvtest.Bucket("meta"), kv.TextOf(record.ID{1}), binary.BigEndian.AppendUint64(nil, 7))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			u := kvtest.User(t, s, "ann")
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"hers"}`)
			addOtherText(t, s, u.ID)
			asOlder(t, s, func(tx *table.Tx) error { return change(tx, u.ID) })
			found := 0
			kvtest.View(t, s, func(tx *kv.Tx) error { tx.Audit(func(error) { found++ }); return nil })
			is.Equal(found, 1)
			other, err := kv.Rederived(s, filepath.Join(t.TempDir(), "new.db"), func(err error) { t.Error(err) })
			is.NoErr(err)
			kvtest.View(t, other, func(tx *kv.Tx) error {
				is.True(kv.TextsHold(tx))
				tx.Audit(func(err error) { t.Error(err) })
				return nil
			})
			is.Equal(kvtest.TextNow(t, other, u.ID), rowsOf(t, other, u.ID))
			is.NoErr(kv.StoreBolt(other).Close())
		})
	}
}
