package kv

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

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
			_, _, err = tx.addSent(q, Upload{Length: 5}, "a", 1<<30)
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
		for _, b := range buckets {
			for k, v := range tx.Walk(b, nil, nil, false) {
				if b != metaBucket || bytes.Equal(k, metaSeq) {
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
	for _, b := range []table.Bucket{pageBucket, pageDue, userName, keyDigest, recordSlug, recordLabel, recordOrder, sumBucket, tagName, folderName, blobBucket, changeBucket, itemState, itemBlob, uploadSlug, uploadSecret, fetchLine, itemState, itemBlob, deliveryLine, deliveryDue, deliveryLog, deliverySum, noticeBucket, recordEnd, deviceCode} {
		for _, harm := range []string{"missing", "wrong", "more"} {
			t.Run(b.Name+"/"+harm, func(t *testing.T) {
				is := is.New(t)
				i, err := Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { t.Error(err) })
				is.NoErr(err)
				defer func() { is.NoErr(i.Close()) }()
				is.NoErr(i.s.bolt.Update(func(tx *bolt.Tx) error {
					bucket := tx.Bucket([]byte(b.Name))
					c := bucket.Cursor()
					k, v := c.First()
					for b == changeBucket && tx.Bucket([]byte(recordBucket.Name)).Get(v) == nil {
						k, v = c.Next()
					}
					switch harm {
					case "missing":
						return bucket.Delete(k)
					case "wrong":
						v = append(bytes.Clone(v), 1)
						return bucket.Put(k, v)
					}
					return bucket.Put(append(bytes.Clone(k), 1), v)
				}))
				found := 0
				is.NoErr(i.View(func(tx *Tx) error { return tx.Audit(func(error) { found++ }) }))
				is.True(found > 0)
			})
		}
	}
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
		return tx.drop(deliveries.Key(&first))
	})
	found := 0
	view(t, s, func(tx *Tx) error { return tx.Audit(func(error) { found++ }) })
	is.Equal(found, 1)
	is.NoErr(s.Close())
	repaired, err := Repair(dir, RepairOptions{})
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
			s, err := Open(dir, Options{Log: quiet})
			is.NoErr(err)
			before := contentOf(t, s)
			is.NoErr(s.Close())
			if _, err := identify(filepath.Join(dir, "cache", "kist.db")); err != nil && name == "journal gone" {
				t.Skip("this system cannot prove that a working copy is whole")
			}
			row.harm(t, dir)
			r, err := Repair(dir, RepairOptions{})
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
	_, err := Repair(s.Dir(), RepairOptions{})
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
	is.NoErr(s.bolt.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(looseBucket.Name)).Put([]byte("k"), []byte("v")) }))
	is.NoErr(s.CheckCopy(func(error) { found++ }))
	is.Equal(found, 1)
	is.NoErr(s.bolt.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(looseBucket.Name)).Delete([]byte("k")) }))
}
