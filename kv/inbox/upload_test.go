package inbox_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// The space of an upload is reserved from the start and is free again when it is
// done, expires or is cancelled.
func TestUploadIsSetAside(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: 100}) })
	f := kvtest.Form(t, record.Files, `{}`)
	plain := func(ref byte, size int64) error {
		return s.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Files, Form: f, Content: kvtest.Content(record.Files, ref, size),
			})
			return err
		})
	}
	one, err := kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 60, Slug: "mine"})
	is.NoErr(err)
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 41})
	is.Equal(kvtest.Code(err), "quota_exceeded")
	is.Equal(kvtest.Code(plain(1, 41)), "quota_exceeded") // it counts for other uploads
	is.NoErr(plain(1, 10))
	quota := func(content int64) { // in addition to the text
		n := content + kvtest.TextNow(t, s, u.ID)
		kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: n}) })
	}
	quota(100)
	open, err := kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: -1})
	is.NoErr(err)
	open.Offset = 30
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, open) }) // as it grows
	open.Offset = 31
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, open) })), "quota_exceeded")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		use, err := people.UsageOf(tx, u)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(10))
		is.Equal(use.Begun, int64(90))
		is.Equal(inbox.ReservedBytes(tx), int64(60))
		return kvtest.Audit(tx)
	})

	// The slug too.
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{}) })
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Slug: "mine"})
	is.Equal(kvtest.Code(err), "slug_taken")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"c","slug":"mine"}`),
		})
		return err
	})), "slug_taken")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c","slug":"hers"}`)
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Slug: "hers"})
	is.Equal(kvtest.Code(err), "slug_taken")

	one.Offset = 60
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, one) })
	var r *record.Record
	mine := kvtest.Form(t, record.Files, `{}`)
	mine.Slug = "mine"
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		is.NoErr(inbox.FinishUpload(tx, one, mine, kvtest.Content(record.Files, 2, 60)))
		r, err = catalog.Record(tx, u.ID, record.Files, one.File.String())
		return err
	})
	is.Equal(r.Slug, "mine")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return inbox.FinishUpload(tx, one, mine, kvtest.Content(record.Files, 2, 60))
	})), "not_found") // once
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, one) })), "not_found")
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.RemoveUpload(tx, u.ID, open.ID) })
	quota(100)
	is.NoErr(plain(3, 30)) // to the last byte
	kvtest.View(t, s, func(tx *kv.Tx) error {
		got, err := inbox.FindUpload(tx, u.ID, one.ID)
		is.NoErr(err)
		is.True(got.Done() && got.File == r.ID)
		is.Equal(inbox.ReservedBytes(tx), int64(0))
		awaited, err := inbox.OpenUploads(tx)
		is.NoErr(err)
		is.Equal(len(awaited), 0)
		return kvtest.Audit(tx)
	})
}

// Uploads expire a day after their last bytes and a week after they were started. Their
// number is bounded.
func TestUploadsEnd(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	slow, err := kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 1 << 40})
	is.NoErr(err)
	for range inbox.MaxUploads - 1 {
		_, err := kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 1})
		is.NoErr(err)
	}
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 1})
	is.Equal(kvtest.Code(err), "too_many_uploads")
	read := func() error {
		return s.View(func(tx *kv.Tx) error { _, err := inbox.FindUpload(tx, u.ID, slow.ID); return err })
	}
	days := 0
	for read() == nil {
		slow.Offset++
		kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, slow) })
		c.Add(23 * time.Hour)
		days++
		if days > 10 {
			t.Fatal("it goes on for ever")
		}
	}
	is.Equal(days, 8) // 7 times 23 hours are less than a week
	is.Equal(kvtest.Code(read()), "upload_expired")
	kvtest.Update(t, s, inbox.DropUploads)
	is.Equal(kvtest.Code(read()), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		all, err := inbox.Uploads(tx, u.ID)
		is.NoErr(err)
		is.Equal(len(all), 0)
		is.Equal(inbox.ReservedBytes(tx), int64(0))
		return kvtest.Audit(tx)
	})
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 1})
	is.NoErr(err)
}

// Parts of a file that a former version took expire. Until then nobody can continue them, and what they count stays
// exact.
func TestFormerParts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	own, err := kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Length: 10, Partial: true})
	is.NoErr(err)
	sent, secret, err := inbox.BeginSenderUpload(s, t.Context(), q, inbox.Upload{Length: 10, Partial: true}, "here", "")
	is.NoErr(err)
	join, err := kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Length: 10})
	is.NoErr(err)
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Length: 10, Offset: 10, Partial: true, Into: join.ID})
	is.NoErr(err)

	row := fmt.Sprintf(`{"ID":%q,"Length":10,"Parts":[%q,%q]}`, join.ID, own.ID, join.ID)
	read, err := inbox.UploadRows.Decode(nil, []byte(row))
	is.NoErr(err)
	is.Equal(read.Length, int64(10))

	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, err := inbox.FindUpload(tx, ann.ID, own.ID)
		is.Equal(kvtest.Code(err), "not_found")
		_, err = inbox.SenderUpload(tx, secret)
		is.Equal(kvtest.Code(err), "not_found")
		listed, err := inbox.Uploads(tx, ann.ID)
		is.NoErr(err)
		is.Equal(len(listed), 1) // what the parts were joined into
		use, err := people.UsageOf(tx, ann)
		is.NoErr(err)
		is.Equal(use.Begun, int64(30)) // a part that was joined has its place there
		return kvtest.Audit(tx)
	})
	for _, part := range []*inbox.Upload{own, sent} {
		part.Offset = 10
		is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return inbox.SaveUpload(tx, part) })), "not_found")
	}

	c.Add(inbox.UploadTime)
	kvtest.Update(t, s, inbox.DropUploads)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		use, err := people.UsageOf(tx, ann)
		is.NoErr(err)
		is.Equal(use.Begun, int64(0))
		is.Equal(tx.Count(kvtest.Bucket("upload")), 0)
		return kvtest.Audit(tx)
	})
}
