package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/table"
)

// rowsOf is how many bytes of text the owner has: the stored rows of records, tags
// and items of the queue, and what was said of uploads that are not done.
func rowsOf(t testing.TB, s *Store, owner record.ID) (n int64) {
	t.Helper()
	view(t, s, func(tx *Tx) error {
		for _, b := range []table.Bucket{bucket("record"), bucket("tag"), bucket("item")} {
			for _, row := range tx.Walk(b, owner[:], nil, false) {
				n += int64(len(row))
			}
		}
		for u, err := range uploads.All(tx.Tx, owner[:]) {
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

// addOtherText leaves text of every sort that is not a record's: a tag, a file that
// waits for approval, and uploads of the owner's and of a sender's.
func addOtherText(t testing.TB, s *Store, owner record.ID) {
	t.Helper()
	update(t, s, func(tx *Tx) error { _, err := tx.AddTag(owner, "a tag", ""); return err })
	q := addRequest(t, s, owner, nil)
	if _, err := leave(s, q, "there", came(1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := beginSent(s, q, "there", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := beginUpload(s, Upload{Owner: owner, Length: 1, Metadata: "filename YQ=="}); err != nil {
		t.Fatal(err)
	}
}

// Text that is no record's counts against the quota, from when it is stored until
// it is gone.
func TestQuotaOfOtherText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	u := user(t, s, "ann")
	quota := func(n int64) {
		update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: n}) })
	}
	used := func() int64 {
		t.Helper()
		n := textNow(t, s, u.ID)
		is.Equal(n, rowsOf(t, s, u.ID))
		view(t, s, audit)
		return n
	}
	long := strings.Repeat("x", 900)

	// Tags, by themselves and with a record, new or changed.
	note := add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	before := used()
	var tag *record.Tag
	addTag := func(name string) error {
		return s.Update(func(tx *Tx) error {
			made, err := tx.AddTag(u.ID, name, "")
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
		return s.Update(func(tx *Tx) error {
			t := *tag
			t.Name = name
			return tx.SaveTag(&t)
		})
	}
	quota(used())
	is.Equal(code(addTag("x")), "quota_exceeded")
	is.Equal(code(rename("a longer name")), "quota_exceeded")
	is.NoErr(rename("eleven byte"))
	is.Equal(used(), before+row-1)
	edit := func(text string) error {
		return s.Update(func(tx *Tx) error {
			r, err := tx.Record(u.ID, record.Notes, note.ID.String())
			is.NoErr(err)
			f, err := patch(r, text)
			is.NoErr(err)
			return tx.Save(r, f, "")
		})
	}
	is.Equal(code(edit(`{"tags":"made with the note"}`)), "quota_exceeded")
	is.NoErr(edit(`{"isFavorite":true}`))
	is.NoErr(edit(`{"tags":"eleven byte"}`)) // it is there
	is.NoErr(s.RemoveTag(u.ID, tag.ID, record.ID{}))
	is.Equal(used(), before)

	// What is said of an upload of the owner's, until it is done or forgotten.
	begin := func() (*Upload, error) {
		return beginUpload(s, Upload{Owner: u.ID, Length: 10, Metadata: long})
	}
	quota(before + 909)
	_, err := begin()
	is.Equal(code(err), "quota_exceeded")
	quota(before + 910)
	up, err := begin()
	is.NoErr(err)
	is.Equal(used(), before+900)
	_, err = beginUpload(s, Upload{Owner: u.ID, Length: 1})
	is.Equal(code(err), "quota_exceeded")
	update(t, s, func(tx *Tx) error { return tx.RemoveUpload(u.ID, up.ID) })
	is.Equal(used(), before)
	_, err = begin()
	is.NoErr(err)
	c.add(UploadTime)
	update(t, s, (*Tx).DropUploads)
	is.Equal(used(), before)
	up, err = begin()
	is.NoErr(err)
	quota(10) // it does not fail at its end for text
	update(t, s, func(tx *Tx) error {
		_, err := tx.FinishUpload(up, form(t, record.Files, `{}`), content(record.Files, 5, 10))
		return err
	})
	is.True(used() < before+900)
	quota(0)

	// What strangers say, and what became of that.
	q := addRequest(t, s, u.ID, nil)
	before = used()
	said := Upload{Length: 10, Name: "Bob", Message: long[:890], Metadata: "1234567"}
	send := func() (*Upload, string, error) { return s.BeginSenderUpload(t.Context(), q, said, "here") }
	quota(10 + before + 909)
	_, _, err = send()
	is.Equal(code(err), "limit_reached")
	quota(10 + before + 910)
	sent, _, err := send()
	is.NoErr(err)
	is.Equal(used(), before+900)
	_, _, err = s.BeginSenderUpload(t.Context(), q, Upload{Length: 1}, "here")
	is.Equal(code(err), "limit_reached")
	quota(20)
	item, err := receive(s, sent, 1)
	is.NoErr(err)
	is.True(used() > before+893) // the name and the message went with it
	_, err = leave(s, q, "here", came(2, 1))
	is.Equal(code(err), "limit_reached")
	quota(0)
	_, err = leave(s, q, "here", came(2, 0))
	is.NoErr(err)
	for _, d := range []string{"approve", "reject"} {
		update(t, s, func(tx *Tx) error {
			_, err := tx.Decide(u.ID, q.ID, item.ID, &record.Decision{Action: d, Tags: []string{d}})
			return err
		})
		is.True(used() > before+893) // the row stays
		all, err := leave(s, q, "here", came(3, 1))
		is.NoErr(err)
		item = all[0]
	}
	view(t, s, func(tx *Tx) error {
		use, err := tx.Usage(u)
		is.NoErr(err)
		is.Equal(use.Text, rowsOf(t, s, u.ID))
		return nil
	})
	is.NoErr(s.RemoveRequest(u.ID, q.ID))
	now := used()
	view(t, s, func(tx *Tx) error { is.Equal(tx.Count(bucket("item")), 0); return nil })

	// All of it is the same after a restart, and goes with the account.
	addOtherText(t, s, u.ID)
	is.True(used() > now)
	now = used()
	dir := s.Dir()
	is.NoErr(s.Close())
	s = openAt(t, dir, c.now)
	is.Equal(used(), now)
	user(t, s, "another")
	is.NoErr(s.RemoveUser(u.ID))
	is.Equal(used(), int64(0))
}

// The text of records of every kind counts against the quota, exactly: what does
// not fit is refused, whether it is new or an edit that grows.
func TestQuotaOfText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	user(t, s, "admin")
	u := user(t, s, "ann")
	quota := func(n int64) {
		update(t, s, func(tx *Tx) error {
			u, err := tx.User(u.ID)
			is.NoErr(err)
			u.Quota = n
			return tx.SaveUser(u)
		})
	}
	for _, k := range record.Kinds {
		long := strings.Repeat("x", 5000)
		text := map[*record.Kind]string{
			record.Files: `{"description":%q}`, record.Bookmarks: `{"url":"https://example.org/","description":%q}`, record.Notes: `{"content":%q}`, record.Snippets: `{"content":%q}`,
			record.Recipes: `{"title":"t","ingredients":%q}`, record.Games: `{"title":"t","notes":%q}`, record.Links: `{"originalUrl":"https://example.org/","description":%q}`,
		}[k]
		quota(0)
		before := textNow(t, s, u.ID)
		first := add(t, s, u.ID, k, fmt.Sprintf(text, long))
		row := textNow(t, s, u.ID) - before
		is.True(row > 5000)
		is.Equal(textNow(t, s, u.ID), rowsOf(t, s, u.ID))
		change := func(words string) error {
			return s.Update(func(tx *Tx) error {
				r, err := tx.Record(u.ID, k, first.ID.String())
				is.NoErr(err)
				parts := strings.Split(text, `"`) // the name of the last member is the last but one
				f, err := patch(r, fmt.Sprintf(`{%q:%q}`, parts[len(parts)-2], words))
				is.NoErr(err)
				return tx.Save(r, f, "")
			})
		}
		more := func() error {
			return s.Update(func(tx *Tx) error {
				_, err := tx.Add(u.ID, k, form(t, k, fmt.Sprintf(text, long)), content(k, 0, 0), "")
				return err
			})
		}
		used := textNow(t, s, u.ID)
		quota(used) // full
		is.Equal(code(change(long+"x")), "quota_exceeded")
		is.NoErr(change(strings.Repeat("y", 5000))) // as long as before
		quota(1)
		is.NoErr(change(strings.Repeat("y", 4000))) // shorter, though there is too much
		is.Equal(textNow(t, s, u.ID), used-1000)
		is.Equal(code(more()), "quota_exceeded")
		quota(used)
		if k == record.Files { // its content decides, and its text counts then
			is.NoErr(more())
			is.Equal(code(more()), "quota_exceeded")
		} else {
			is.Equal(code(more()), "quota_exceeded")
			quota(used - 1000 + row - 1)
			is.Equal(code(more()), "quota_exceeded")
			quota(used - 1000 + row)
			is.NoErr(more()) // to the last byte
		}
		view(t, s, func(tx *Tx) error {
			use, err := tx.Usage(u)
			is.NoErr(err)
			is.Equal(use.Text, used-1000+row)
			is.Equal(use.Used(), use.Text+use.Bytes)
			return audit(tx)
		})
		_, err := beginUpload(s, Upload{Owner: u.ID, Length: 1}) // files feel it
		is.Equal(code(err), "quota_exceeded")
		update(t, s, func(tx *Tx) error {
			r, err := tx.Record(u.ID, k, first.ID.String())
			is.NoErr(err)
			return tx.Remove(r)
		})
		is.Equal(textNow(t, s, u.ID), rowsOf(t, s, u.ID))
	}
	is.NoErr(s.RemoveUser(u.ID))
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.Get(bucket("meta"), textOf(u.ID)), nil)
		return audit(tx)
	})
}

// A job that fails leaves the sum as it was, though others of the same commit
// change it.
func TestTextOfFailedJob(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	was := textNow(t, s, u.ID)
	err := s.Update(func(tx *Tx) error {
		_, err := tx.Add(u.ID, record.Notes, form(t, record.Notes, `{"content":"lost"}`), nil, "")
		is.NoErr(err)
		is.True(tx.text(u.ID) > was)
		return fmt.Errorf("no")
	})
	is.True(err != nil)
	is.Equal(textNow(t, s, u.ID), was)
	view(t, s, audit)
}

// asOlder commits changes of meta as a program that does not know the sums of
// text would.
func asOlder(t *testing.T, s *Store, change func(tx *table.Tx) error) {
	t.Helper()
	if err := Between(s, func() error {
		b, err := StoreBolt(s).Begin(true)
		if err != nil {
			return err
		}
		tx := table.On(b)
		if err := change(tx); err != nil {
			return err
		}
		StoreRecord(s).Reset(StoreState(s).Digest)
		for is, was := range tx.Changes() {
			StoreRecord(s).Add(journal.Op(is), was)
		}
		to := journal.State{Seq: StoreState(s).Seq + 1, Digest: StoreRecord(s).Digest()}
		if err := (*StoreJournal(s)).Append(StoreRecord(s), to); err != nil {
			return err
		}
		*StoreState(s) = to
		return b.Commit()
	}); err != nil {
		t.Fatal(err)
	}
}

// A store that has no sums of text, or those of an earlier state because an older
// program has written to it meanwhile, has the right ones once it is opened;
// before, it is not damaged.
func TestTextOfOlderStore(t *testing.T) {
	for name, change := range map[string]func(s *Store, tx *table.Tx) error{
		"none": func(_ *Store, tx *table.Tx) error {
			var all [][]byte
			for k := range tx.Walk(bucket("meta"), []byte("text"), nil, false) {
				all = append(all, bytes.Clone(k))
			}
			for _, k := range all {
				if err := tx.Delete(bucket("meta"), k); err != nil {
					return err
				}
			}
			return nil
		},
		"outdated": func(s *Store, tx *table.Tx) error {
			for k := range tx.Walk(bucket("meta"), []byte("text "), nil, false) {
				if err := tx.Put(bucket("meta"), bytes.Clone(k), binary.BigEndian.AppendUint64(nil, 7)); err != nil {
					return err
				}
				break
			}
			if err := tx.Put(bucket("meta"), textOf(record.ID{1}), binary.BigEndian.AppendUint64(nil, 7)); err != nil {
				return err
			}
			*StoreSeq(s)++
			return tx.Put(bucket("meta"), []byte("seq"), binary.BigEndian.AppendUint64(nil, *StoreSeq(s)))
		},
		// Such a program has changed nothing but rows that take no number of the feed.
		"outdated by other rows": func(_ *Store, tx *table.Tx) error {
			later := binary.BigEndian.Uint64(tx.Get(bucket("meta"), []byte("instant"))) + 1
			return errors.Join(
				tx.Put(bucket("meta"), textOf(record.ID{1}), binary.BigEndian.AppendUint64(nil, 7)),
				tx.Put(bucket("meta"), []byte("instant"), binary.BigEndian.AppendUint64(nil, later)),
			)
		},
		// A program that sums up records alone.
		"of records alone": func(s *Store, tx *table.Tx) error {
			only := map[record.ID]int64{}
			for k, row := range tx.Walk(bucket("record"), nil, nil, false) {
				only[record.ID(k[:16])] += int64(len(row))
			}
			for owner, n := range only {
				if err := tx.Put(bucket("meta"), textOf(owner), binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
					return err
				}
			}
			return tx.Put(bucket("meta"), []byte("texts"), binary.BigEndian.AppendUint64(nil, *StoreSeq(s)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := openAt(t, dir, nil)
			ann, bob := user(t, s, "ann"), user(t, s, "bob")
			add(t, s, ann.ID, record.Notes, `{"content":"hers"}`)
			add(t, s, ann.ID, record.Files, `{"description":"d"}`)
			add(t, s, bob.ID, record.Links, `{"originalUrl":"https://example.org/"}`)
			addOtherText(t, s, ann.ID)
			asOlder(t, s, func(tx *table.Tx) error { return change(s, tx) })
			dir = leftOf(t, s) // a stop would commit something as this program does
			i, err := All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { t.Error(err) })
			is.NoErr(err)
			is.NoErr(i.View(func(tx *Tx) error { return tx.Audit(func(err error) { t.Error(err) }) }))
			is.NoErr(i.Close())
			for range 2 {
				s = openAt(t, dir, nil)
				for _, u := range []*record.User{ann, bob} {
					is.Equal(textNow(t, s, u.ID), rowsOf(t, s, u.ID))
				}
				view(t, s, func(tx *Tx) error {
					is.Equal(tx.Get(bucket("meta"), textOf(record.ID{1})), nil)
					is.True(TextsHold(tx))
					return audit(tx)
				})
				is.NoErr(s.Close())
			}
		})
	}
}

// Audit finds a sum of text that is missing, wrong or nobody's, and a repair
// makes it right.
func TestTextDamaged(t *testing.T) {
	for name, change := range map[string]func(tx *table.Tx, owner record.ID) error{
		"missing": func(tx *table.Tx, owner record.ID) error { return tx.Delete(bucket("meta"), textOf(owner)) },
		"wrong": func(tx *table.Tx, owner record.ID) error {
			return tx.Put(bucket("meta"), textOf(owner), binary.BigEndian.AppendUint64(nil, 7))
		},
		"nobody's": func(tx *table.Tx, _ record.ID) error {
			return tx.Put(bucket("meta"), textOf(record.ID{1}), binary.BigEndian.AppendUint64(nil, 7))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := openAt(t, dir, nil)
			u := user(t, s, "ann")
			add(t, s, u.ID, record.Notes, `{"content":"hers"}`)
			addOtherText(t, s, u.ID)
			asOlder(t, s, func(tx *table.Tx) error { return change(tx, u.ID) })
			found := 0
			view(t, s, func(tx *Tx) error { return tx.Audit(func(error) { found++ }) })
			is.Equal(found, 1)
			other, err := Rederived(s, filepath.Join(t.TempDir(), "new.db"), func(err error) { t.Error(err) })
			is.NoErr(err)
			view(t, other, func(tx *Tx) error {
				is.True(TextsHold(tx))
				return tx.Audit(func(err error) { t.Error(err) })
			})
			is.Equal(textNow(t, other, u.ID), rowsOf(t, other, u.ID))
			is.NoErr(StoreBolt(other).Close())
		})
	}
}
