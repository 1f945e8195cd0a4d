package inbox_test

import (
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
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, record.Settings{DefaultQuota: 100}) })
	f := kvtest.Form(t, record.Files, `{}`)
	plain := func(ref byte, size int64) error {
		return s.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, u.ID, record.Files, f, kvtest.Content(record.Files, ref, size), "")
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
		kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, record.Settings{DefaultQuota: n}) })
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
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, record.Settings{}) })
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Slug: "mine"})
	is.Equal(kvtest.Code(err), "slug_taken")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, u.ID, record.Notes, kvtest.Form(t, record.Notes, `{"content":"c","slug":"mine"}`), nil, "")
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
		r, err = inbox.FinishUpload(tx, one, mine, kvtest.Content(record.Files, 2, 60))
		return err
	})
	is.Equal(r.Slug, "mine")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := inbox.FinishUpload(tx, one, mine, kvtest.Content(record.Files, 2, 60))
		return err
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
		if days++; days > 10 {
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

// However often parts are joined, they expire a week after they were started.
func TestPartsEnd(t *testing.T) {
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), clock.Now)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	mine, err := kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Partial: true})
	is.NoErr(err)
	_, secret, err := inbox.BeginSenderUpload(s, t.Context(), q, inbox.Upload{Partial: true}, "here", "")
	is.NoErr(err)
	join := func() error {
		if err := s.Update(func(tx *kv.Tx) error {
			made, err := inbox.JoinUploads(tx, inbox.Upload{Owner: ann.ID, Parts: []record.ID{mine.ID}})
			if err != nil {
				return err
			}
			return inbox.RemoveUpload(tx, ann.ID, made.ID)
		}); err != nil {
			return err
		}
		made, _, err := inbox.JoinSent(s, t.Context(), q, inbox.Upload{}, "here", []string{secret})
		if err != nil {
			return err
		}
		return s.Update(func(tx *kv.Tx) error { return inbox.RemoveUpload(tx, ann.ID, made.ID) })
	}
	is.NoErr(join())
	for range 8 {
		clock.Add(20 * time.Hour)
		is.NoErr(join())
	}
	clock.Add(7 * time.Hour)
	is.NoErr(join())
	clock.Add(time.Hour) // the week is over
	is.Equal(kvtest.Code(join()), "upload_expired")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, err := inbox.SenderUpload(tx, secret)
		is.Equal(kvtest.Code(err), "upload_expired")
		return kvtest.Audit(tx)
	})
}

// A join that expires gives its space back to its parts, unless they expire with it.
func TestJoinExpires(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	ann := kvtest.User(t, s, "ann")
	q := kvtest.AddRequest(t, s, ann.ID, nil)
	part, secret, err := inbox.BeginSenderUpload(s, t.Context(), q, inbox.Upload{Partial: true, Length: 10}, "here", "")
	is.NoErr(err)
	part.Offset = 10
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, part) })
	join := func() {
		t.Helper()
		_, _, err := inbox.JoinSent(s, t.Context(), q, inbox.Upload{}, "here", []string{secret})
		is.NoErr(err)
	}
	left := func(uploads int, bytes int64) {
		t.Helper()
		kvtest.View(t, s, func(tx *kv.Tx) error {
			use, err := people.UsageOf(tx, ann)
			is.NoErr(err)
			is.Equal(use.Begun, bytes)
			is.Equal(tx.Count(kvtest.Bucket("upload")), uploads)
			return kvtest.Audit(tx)
		})
	}
	join()
	left(2, 10)
	c.Add(inbox.EmptyTime)
	kvtest.Update(t, s, inbox.DropUploads)
	left(1, 10)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := inbox.SenderUpload(tx, secret)
		is.NoErr(err)
		is.True(!now.Joined())
		return nil
	})
	join()
	left(2, 10)
	c.Add(inbox.UploadTime)
	kvtest.Update(t, s, inbox.DropUploads)
	left(0, 0)
}

// A join that is removed gives its space back to its parts.
func TestJoinRemoved(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	part, err := kvtest.BeginUpload(s, inbox.Upload{Owner: ann.ID, Partial: true, Length: 10})
	is.NoErr(err)
	part.Offset = 10
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, part) })
	var joined *inbox.Upload
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		joined, err = inbox.JoinUploads(tx, inbox.Upload{Owner: ann.ID, Parts: []record.ID{part.ID}})
		return err
	})
	remove := func() error {
		return s.Update(func(tx *kv.Tx) error { return inbox.RemoveUpload(tx, ann.ID, joined.ID) })
	}
	is.NoErr(remove())
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := inbox.FindUpload(tx, ann.ID, part.ID)
		is.NoErr(err)
		is.True(!now.Joined())
		use, err := people.UsageOf(tx, ann)
		is.NoErr(err)
		is.Equal(use.Begun, int64(10))
		return kvtest.Audit(tx)
	})
	is.Equal(remove(), record.NotFound("upload"))
}

// A sender joins only parts that came from the same place, for the same link.
func TestJoinOnlyOwnParts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann")
	q, other := kvtest.AddRequest(t, s, ann.ID, nil), kvtest.AddRequest(t, s, ann.ID, nil)
	part, secret, err := inbox.BeginSenderUpload(s, t.Context(), q, inbox.Upload{Partial: true, Length: 10}, "here", "")
	is.NoErr(err)
	part.Offset = 10
	kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, part) })
	for name, c := range map[string]struct {
		q            *record.Request
		from, secret string
		want         string
	}{
		"another sender": {q, "there", secret, "not_found"},
		"another link":   {other, "here", secret, "not_found"},
		"no part":        {q, "here", secret + "x", "not_found"},
	} {
		_, _, err := inbox.JoinSent(s, t.Context(), c.q, inbox.Upload{}, c.from, []string{c.secret})
		if kvtest.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err = inbox.JoinSent(s, t.Context(), q, inbox.Upload{}, "here", []string{secret})
	is.NoErr(err)
}

// Admitted parts can be joined and finished even if text added since fills the quota.
// Content is still limited, and the text counts for new uploads.
func TestJoinWithFullQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part func(*kv.Store, *record.Request) (*inbox.Upload, string, error)
		join func(*kv.Store, *record.Request, *inbox.Upload, string) error
		code string
	}{
		"owner": {
			func(s *kv.Store, q *record.Request) (*inbox.Upload, string, error) {
				u, err := kvtest.BeginUpload(s, inbox.Upload{Owner: q.Owner, Length: 500, Partial: true})
				return u, "", err
			},
			func(s *kv.Store, q *record.Request, part *inbox.Upload, _ string) error {
				f := kvtest.Form(t, record.Files, `{}`)
				return s.Update(func(tx *kv.Tx) error {
					u, err := inbox.JoinUploads(tx, inbox.Upload{Owner: q.Owner, Parts: []record.ID{part.ID}})
					if err == nil {
						_, err = inbox.FinishUpload(tx, u, f, kvtest.Content(record.Files, 1, u.Length))
					}
					return err
				})
			},
			"quota_exceeded",
		},
		"sender": {
			func(s *kv.Store, q *record.Request) (*inbox.Upload, string, error) {
				return inbox.BeginSenderUpload(s, t.Context(), q, inbox.Upload{Length: 500, Partial: true}, "here", "")
			},
			func(s *kv.Store, q *record.Request, _ *inbox.Upload, secret string) error {
				u, _, err := inbox.JoinSent(s, t.Context(), q, inbox.Upload{Name: "Bob", Message: "hello"}, "here", []string{secret})
				if err == nil {
					_, err = kvtest.Receive(s, u, 1)
				}
				return err
			},
			"limit_reached",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := kvtest.Open(t)
			ann := kvtest.User(t, s, "ann")
			q := kvtest.AddRequest(t, s, ann.ID, nil)
			quota := func(n int64) {
				kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, record.Settings{DefaultQuota: n}) })
			}
			quota(10_000)
			part, secret, err := c.part(s, q)
			is.NoErr(err)
			part.Offset = part.Length
			kvtest.Update(t, s, func(tx *kv.Tx) error { return inbox.SaveUpload(tx, part) })
			kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"meanwhile"}`)
			quota(499)
			is.Equal(kvtest.Code(c.join(s, q, part, secret)), c.code)
			quota(500)
			is.NoErr(c.join(s, q, part, secret))
			_, _, err = c.part(s, q)
			is.Equal(kvtest.Code(err), c.code)
			kvtest.View(t, s, kvtest.Audit)
		})
	}
}
