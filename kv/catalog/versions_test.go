package catalog_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// versions lists the earlier contents of a note, latest first, with who replaced them.
func versions(t *testing.T, s *kv.Store, r *record.Record) (all []string) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		list, err := history.Versions(tx, r)
		if err != nil {
			return err
		}
		for _, v := range list {
			one, err := history.Version(tx, r, v.ID)
			if err != nil {
				return err
			}
			b := *r
			b.Body = one.Body
			body, err := b.Decode()
			if err != nil {
				return err
			}
			if one.Size != v.Size || v.Size != int64(len(one.Body)) {
				t.Errorf("%d and %d bytes", v.Size, one.Size)
			}
			all = append(all, body.(*record.Note).Content+" "+one.By)
		}
		return kvtest.Audit(tx)
	})
	return all
}

// A change of the text keeps what was before, one for each writer in five minutes. The
// versions survive the trash and a repair, and go with the record.
func TestVersions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"a"}`)
	kvtest.EditBy(t, s, r, "phone", `{"isPublic":true}`)
	is.Equal(versions(t, s, r), nil) // not a change of the text
	for i, step := range []struct{ by, text string }{
		{"phone", "b"}, {"phone", "c"}, {"laptop", "d"}, {"phone", "e"}, {"phone", "f"},
	} {
		c.Add(2 * time.Minute)
		kvtest.EditBy(t, s, r, step.by, fmt.Sprintf(`{"content":%q}`, step.text))
		is.Equal(len(versions(t, s, r)), []int{1, 1, 2, 3, 3}[i])
	}
	want := []string{"d phone", "c laptop", "a phone"}
	is.Equal(versions(t, s, r), want)
	c.Add(history.VersionEvery)
	kvtest.EditBy(t, s, r, "phone", `{"content":"g"}`)
	want = append([]string{"f phone"}, want...)
	is.Equal(versions(t, s, r), want)
	trash(t, s, r)
	kvtest.View(t, s, kvtest.Audit)
	s = repaired(t, s, dir, c.Now)
	untrash(t, s, r)
	is.Equal(versions(t, s, r), want)
	c.Add(25 * time.Hour)
	is.Equal(versions(t, s, r), want[:1]) // the last of its day
	kvtest.EditBy(t, s, r, "phone", `{"content":"h"}`)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("version")), 2) // the others are deleted
		return nil
	})
	link := kvtest.Add(t, s, u.ID, record.Links, `{"originalUrl":"https://example.org"}`)
	kvtest.EditBy(t, s, link, "phone", `{"originalUrl":"https://example.com"}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, r) })
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("version")), 0)
		return kvtest.Audit(tx)
	})
}

// Versions count against the quota, but a change always keeps one: a full quota must not
// let a key replace a text for good. A longer text must fit; a shorter one always does.
func TestVersionsWithinQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":%q}`, strings.Repeat("a", 1000)))
	room := func(n int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			now, err := people.ReadUser(tx, u.ID)
			is.NoErr(err)
			now.Quota = people.ChargedBytes(tx, u.ID) + n
			return people.SaveUser(tx, now)
		})
	}
	room(500)
	kvtest.EditBy(t, s, r, "a", fmt.Sprintf(`{"content":%q}`, strings.Repeat("b", 1100)))
	is.Equal(len(versions(t, s, r)), 1)
	kvtest.EditBy(t, s, r, "b", `{"content":"c"}`) // the quota is exceeded
	kvtest.EditBy(t, s, r, "d", `{"content":""}`)
	is.Equal(len(versions(t, s, r)), 3)
	err := s.Update(func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, u.ID, record.Notes, r.ID)
		is.NoErr(err)
		f, err := kvtest.Patch(now, `{"content":"longer"}`)
		is.NoErr(err)
		f.By = "e"
		return catalog.Save(tx, now, f, "")
	})
	var full *record.Error
	is.True(errors.As(err, &full))
	is.Equal(full.Code, "quota_exceeded")
	is.Equal(len(versions(t, s, r)), 3)
}
