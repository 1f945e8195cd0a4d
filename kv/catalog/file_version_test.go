package catalog_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// replace gives a file content that consists of the byte ref in the sense of kvtest.Content.
func replace(s *kv.Store, r *record.Record, name string, ref byte, size int64) error {
	return s.Update(func(tx *kv.Tx) error {
		now, err := catalog.Record(tx, r.Owner, record.Files, r.ID.String())
		if err != nil {
			return err
		}
		b := &record.File{OriginalName: name, MimeType: "text/plain", Size: size, SHA256: fmt.Sprint(ref)}
		return catalog.Replace(tx, now, b, kvtest.Content(record.Files, ref, size), "laptop")
	})
}

// earlier lists the versions of a file, latest first: the name, the size, and who replaced it.
func earlier(t *testing.T, s *kv.Store, r *record.Record) (all []string, ids []record.ID) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		list, err := catalog.FileVersions(tx, r)
		if err != nil {
			return err
		}
		for _, v := range list {
			one, err := catalog.FileVersion(tx, r, v.ID)
			if err != nil {
				return err
			}
			then := record.Record{Kind: record.Files, Body: one.Body}
			b, err := then.Decode()
			if err != nil {
				return err
			}
			all = append(all, fmt.Sprint(b.Title(), " ", v.Size, " ", v.By))
			ids = append(ids, v.ID)
		}
		return kvtest.Audit(tx)
	})
	return all, ids
}

// loose lists the first bytes of the contents that nothing uses.
func loose(t *testing.T, s *kv.Store) (refs []byte) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for _, ref := range catalog.UnreferencedRefs(tx, s.Now(), 100) {
			refs = append(refs, ref[0])
		}
		return nil
	})
	return refs
}

func addFile(t *testing.T, s *kv.Store, owner record.ID, name string, ref byte, size int64) (r *record.Record) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		f := kvtest.Form(
			t, record.Files, `{"slug":"`+name+`","description":"words","tags":["x"],"isPublic":true,"maxViews":9}`,
		)
		f.Body.(*record.File).OriginalName = name
		r, err = catalog.Add(tx, catalog.Draft{
			Owner: owner, Kind: record.Files, Form: f, Content: kvtest.Content(record.Files, ref, size),
		})
		return err
	})
	return r
}

func now(t *testing.T, s *kv.Store, r *record.Record) (got *record.Record) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) (err error) {
		got, err = catalog.Record(tx, r.Owner, r.Kind, r.ID.String())
		return err
	})
	return got
}

func trashDays(t *testing.T, s *kv.Store, n int64) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		set, err := people.ReadSettings(tx)
		if err != nil {
			return err
		}
		set.TrashDays = n
		return people.SetSettings(tx, set)
	})
}

func quota(t *testing.T, s *kv.Store, u *people.User, n int64) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		now, err := people.ReadUser(tx, u.ID)
		if err != nil {
			return err
		}
		now.Quota = n
		return people.SaveUser(tx, now)
	})
}

// Other bytes come under the same link, with everything else as it was. The former ones are versions in the trash,
// survive a repair, come back, and go with the file.
func TestReplace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	hook := kvtest.HookFor(t, s, u.ID, jobs.Edited(record.Files))
	r := addFile(t, s, u.ID, "a.txt", 1, 100)
	c.Add(time.Minute)
	is.NoErr(replace(s, r, "b.txt", 2, 200))
	got := now(t, s, r)
	is.Equal(got.Bytes.Ref, [32]byte{2})
	is.Equal(got.Bytes.Size, int64(200))
	is.True(got.Updated.After(r.Updated))
	is.True(got.Seq > r.Seq)
	is.Equal(got.Slug, "a.txt")
	is.True(got.Public && got.Limit == 9 && len(got.Tags) == 1)
	b, err := got.Decode()
	is.NoErr(err)
	is.Equal(
		*b.(*record.File),
		record.File{OriginalName: "b.txt", MimeType: "text/plain", SHA256: "2", Size: 200, Description: "words"},
	)
	is.Equal(len(loose(t, s)), 0)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(len(kvtest.DeliveriesOf(t, tx, hook.ID)), 1)
		is.Equal(people.ContentBytes(tx, u.ID), int64(300))
		return nil
	})

	is.NoErr(replace(s, r, "c.txt", 2, 200)) // the bytes that it has
	all, ids := earlier(t, s, r)
	is.Equal(all, []string{"a.txt 100 laptop"})
	is.Equal(inTrash(t, s, u.ID, nil, ""), []string{"a.txt"})

	s = repaired(t, s, dir, c.Now)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.RestoreFileVersion(tx, now(t, s, r), ids[0], "phone") })
	is.Equal(now(t, s, r).Bytes.Ref, [32]byte{1})
	all, ids = earlier(t, s, r)
	is.Equal(all, []string{"c.txt 200 phone"})

	var other *record.Record // of its own, from the trash
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		version, err := catalog.Trashed(tx, u.ID, ids[0])
		if err == nil {
			other, err = catalog.Untrash(tx, version)
		}
		return err
	})
	is.True(!other.Public && other.ID != r.ID && other.Bytes.Ref == [32]byte{2})
	all, _ = earlier(t, s, r)
	is.Equal(len(all), 0)

	is.NoErr(replace(s, r, "d.txt", 3, 300))
	trash(t, s, now(t, s, r))
	all, _ = earlier(t, s, r)
	is.Equal(all, []string{"a.txt 100 laptop"})
	untrash(t, s, r)
	c.Add(time.Minute)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, now(t, s, r)) })
	all, _ = earlier(t, s, r)
	is.Equal(len(all), 0)
	is.Equal(len(inTrash(t, s, u.ID, nil, "")), 0)
	is.Equal(loose(t, s), []byte{1, 3})
}

// Without the trash, the former bytes are gone at once, unless another file has them.
func TestReplaceWithoutTrash(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	trashDays(t, s, 0)
	r := addFile(t, s, u.ID, "a.txt", 1, 100)
	twin := addFile(t, s, u.ID, "twin.txt", 1, 100)
	is.NoErr(replace(s, r, "b.txt", 2, 200))
	all, _ := earlier(t, s, r)
	is.Equal(len(all), 0)
	is.Equal(len(loose(t, s)), 0)
	is.NoErr(replace(s, twin, "b.txt", 2, 200))
	is.Equal(loose(t, s), []byte{1})
	is.NoErr(replace(s, twin, "a.txt", 1, 100)) // back, before the sweep
	is.Equal(len(loose(t, s)), 0)
}

// Both the new bytes and the former ones count, and replacing them needs room for both.
func TestReplaceWithinQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := addFile(t, s, u.ID, "a.txt", 1, 100_000)
	quota(t, s, u, 250_000)
	is.NoErr(replace(s, r, "b.txt", 2, 100_000))
	is.Equal(kvtest.Code(replace(s, r, "c.txt", 3, 100_000)), "quota_exceeded")
	is.Equal(now(t, s, r).Bytes.Ref, [32]byte{2})
	is.NoErr(replace(s, r, "c.txt", 2, 100_000)) // no more bytes
	_, ids := earlier(t, s, r)
	quota(t, s, u, 1000)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.RestoreFileVersion(tx, now(t, s, r), ids[0], "") })
	is.Equal(now(t, s, r).Bytes.Ref, [32]byte{1})
}

// A file has at most so many versions. The oldest makes room, and emptying the trash takes versions and their file in
// any order.
func TestManyReplacements(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := addFile(t, s, u.ID, "0", 0, 1)
	for i := range history.MaxVersions + 5 {
		is.NoErr(replace(s, r, fmt.Sprint(i+1), byte(i+1), 1))
	}
	all, _ := earlier(t, s, r)
	is.Equal(len(all), history.MaxVersions)
	is.Equal(all[len(all)-1], "5 1 laptop")
	is.True(slices.Contains(loose(t, s), 4))

	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Trash(tx, now(t, s, r), "") })
	is.NoErr(catalog.EmptyTrash(s, u.ID))
	is.Equal(len(inTrash(t, s, u.ID, nil, "")), 0)
}
