package kv

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

func beginUpload(s *Store, u Upload) (made *Upload, err error) {
	err = s.Update(func(tx *Tx) error { made, err = tx.AddUpload(u); return err })
	return made, err
}

// What an upload takes is reserved from the beginning, and is free again when
// it is done, ends or is cancelled.
func TestUploadIsSetAside(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: 100}) })
	f := form(t, record.Files, `{}`)
	plain := func(ref byte, size int64) error {
		return s.Update(func(tx *Tx) error {
			_, err := tx.Add(u.ID, record.Files, f, content(record.Files, ref, size), "")
			return err
		})
	}
	one, err := beginUpload(s, Upload{Owner: u.ID, Length: 60, Slug: "mine"})
	is.NoErr(err)
	_, err = beginUpload(s, Upload{Owner: u.ID, Length: 41})
	is.Equal(code(err), "quota_exceeded")
	is.Equal(code(plain(1, 41)), "quota_exceeded") // other uploads feel it
	is.NoErr(plain(1, 10))
	quota := func(content int64) { // beside the text
		n := content + textNow(t, s, u.ID)
		update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: n}) })
	}
	quota(100)
	open, err := beginUpload(s, Upload{Owner: u.ID, Length: -1})
	is.NoErr(err)
	open.Offset = 30
	update(t, s, func(tx *Tx) error { return tx.SaveUpload(open) }) // as it grows
	open.Offset = 31
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.SaveUpload(open) })), "quota_exceeded")
	view(t, s, func(tx *Tx) error {
		use, err := tx.Usage(u)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(10))
		is.Equal(use.Begun, int64(90))
		is.Equal(tx.ReservedBytes(), int64(60))
		return audit(tx)
	})

	// The slug too.
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{}) })
	_, err = beginUpload(s, Upload{Owner: u.ID, Slug: "mine"})
	is.Equal(code(err), "slug_taken")
	is.Equal(code(s.Update(func(tx *Tx) error {
		_, err := tx.Add(u.ID, record.Notes, form(t, record.Notes, `{"content":"c","slug":"mine"}`), nil, "")
		return err
	})), "slug_taken")
	add(t, s, u.ID, record.Notes, `{"content":"c","slug":"hers"}`)
	_, err = beginUpload(s, Upload{Owner: u.ID, Slug: "hers"})
	is.Equal(code(err), "slug_taken")

	one.Offset = 60
	update(t, s, func(tx *Tx) error { return tx.SaveUpload(one) })
	var r *record.Record
	mine := form(t, record.Files, `{}`)
	mine.Slug = "mine"
	update(t, s, func(tx *Tx) (err error) {
		r, err = tx.FinishUpload(one, mine, content(record.Files, 2, 60))
		return err
	})
	is.Equal(r.Slug, "mine")
	is.Equal(code(s.Update(func(tx *Tx) error { _, err := tx.FinishUpload(one, mine, content(record.Files, 2, 60)); return err })), "not_found") // once
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.SaveUpload(one) })), "not_found")
	update(t, s, func(tx *Tx) error { return tx.RemoveUpload(u.ID, open.ID) })
	quota(100)
	is.NoErr(plain(3, 30)) // to the last byte
	view(t, s, func(tx *Tx) error {
		got, err := tx.Upload(u.ID, one.ID)
		is.NoErr(err)
		is.True(got.Done() && got.File == r.ID)
		is.Equal(tx.ReservedBytes(), int64(0))
		awaited, err := tx.OpenUploads()
		is.NoErr(err)
		is.Equal(len(awaited), 0)
		return audit(tx)
	})
}

// A failed end changes nothing; what the form names and is gone meanwhile does
// not make one.
func TestFinishUpload(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	u := user(t, s, "ann")
	one, err := beginUpload(s, Upload{Owner: u.ID, Length: 60, Password: "hash"})
	is.NoErr(err)
	f := form(t, record.Files, `{}`)
	f.AddTags, f.Folder, f.Expires = []string{uuid.Max.String()}, uuid.Max, s.Now().Add(time.Minute)
	c.add(time.Hour)
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: 10}) })
	is.Equal(code(s.Update(func(tx *Tx) error { _, err := tx.FinishUpload(one, f, content(record.Files, 1, 60)); return err })), "quota_exceeded")
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{}) })
	SetDiskLow(s, true)
	is.Equal(s.Update(func(tx *Tx) error { _, err := tx.FinishUpload(one, f, content(record.Files, 1, 60)); return err }), ErrFull)
	SetDiskLow(s, false)
	update(t, s, func(tx *Tx) error {
		got, err := tx.Upload(u.ID, one.ID)
		is.NoErr(err)
		is.True(!got.Done())
		r, err := tx.FinishUpload(got, f, content(record.Files, 1, 60))
		is.NoErr(err)
		is.Equal(r.Password, "hash")
		is.True(r.Expired(tx.Now))
		is.Equal(r.Folder, uuid.Nil)
		is.Equal(len(r.Tags), 0)
		return err
	})
	view(t, s, audit)
}

// Uploads end a day after their last bytes, a week after they were begun, and
// are no more than so many.
func TestUploadsEnd(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	u := user(t, s, "ann")
	slow, err := beginUpload(s, Upload{Owner: u.ID, Length: 1 << 40})
	is.NoErr(err)
	for range maxUploads - 1 {
		_, err := beginUpload(s, Upload{Owner: u.ID, Length: 1})
		is.NoErr(err)
	}
	_, err = beginUpload(s, Upload{Owner: u.ID, Length: 1})
	is.Equal(code(err), "too_many_uploads")
	read := func() error { return s.View(func(tx *Tx) error { _, err := tx.Upload(u.ID, slow.ID); return err }) }
	days := 0
	for read() == nil {
		slow.Offset++
		update(t, s, func(tx *Tx) error { return tx.SaveUpload(slow) })
		c.add(23 * time.Hour)
		if days++; days > 10 {
			t.Fatal("it goes on for ever")
		}
	}
	is.Equal(days, 8) // 7 times 23 hours are less than a week
	is.Equal(code(read()), "upload_expired")
	update(t, s, (*Tx).DropUploads)
	is.Equal(code(read()), "not_found")
	view(t, s, func(tx *Tx) error {
		all, err := tx.Uploads(u.ID)
		is.NoErr(err)
		is.Equal(len(all), 0)
		is.Equal(tx.ReservedBytes(), int64(0))
		return audit(tx)
	})
	_, err = beginUpload(s, Upload{Owner: u.ID, Length: 1})
	is.NoErr(err)
}

// However often parts are joined, they end a week after their beginning.
func TestPartsEnd(t *testing.T) {
	is := is.New(t)
	clock := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), clock.now)
	ann := user(t, s, "ann")
	q := addRequest(t, s, ann.ID, nil)
	mine, err := beginUpload(s, Upload{Owner: ann.ID, Partial: true})
	is.NoErr(err)
	_, secret, err := s.BeginSenderUpload(t.Context(), q, Upload{Partial: true}, "here")
	is.NoErr(err)
	join := func() error {
		if err := s.Update(func(tx *Tx) error {
			made, err := tx.JoinUploads(Upload{Owner: ann.ID, Parts: []record.ID{mine.ID}})
			if err != nil {
				return err
			}
			return tx.RemoveUpload(ann.ID, made.ID)
		}); err != nil {
			return err
		}
		made, _, err := s.JoinSent(t.Context(), q, Upload{}, "here", []string{secret})
		if err != nil {
			return err
		}
		return s.Update(func(tx *Tx) error { return tx.RemoveUpload(ann.ID, made.ID) })
	}
	is.NoErr(join())
	for range 8 {
		clock.add(20 * time.Hour)
		is.NoErr(join())
	}
	clock.add(7 * time.Hour)
	is.NoErr(join())
	clock.add(time.Hour) // the week is over
	is.Equal(code(join()), "upload_expired")
	view(t, s, func(tx *Tx) error {
		_, err := tx.SenderUpload(secret)
		is.Equal(code(err), "upload_expired")
		return audit(tx)
	})
}

// A join that nobody goes on with gives its place back to its parts, unless they
// end with it.
func TestJoinExpires(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	ann := user(t, s, "ann")
	q := addRequest(t, s, ann.ID, nil)
	part, secret, err := s.BeginSenderUpload(t.Context(), q, Upload{Partial: true, Length: 10}, "here")
	is.NoErr(err)
	part.Offset = 10
	update(t, s, func(tx *Tx) error { return tx.SaveUpload(part) })
	join := func() {
		t.Helper()
		_, _, err := s.JoinSent(t.Context(), q, Upload{}, "here", []string{secret})
		is.NoErr(err)
	}
	left := func(uploads int, bytes int64) {
		t.Helper()
		view(t, s, func(tx *Tx) error {
			use, err := tx.Usage(ann)
			is.NoErr(err)
			is.Equal(use.Begun, bytes)
			is.Equal(tx.Count(bucket("upload")), uploads)
			return audit(tx)
		})
	}
	join()
	left(2, 10)
	c.add(emptyTime)
	update(t, s, (*Tx).DropUploads)
	left(1, 10)
	view(t, s, func(tx *Tx) error {
		now, err := tx.SenderUpload(secret)
		is.NoErr(err)
		is.True(!now.Joined())
		return nil
	})
	join()
	left(2, 10)
	c.add(UploadTime)
	update(t, s, (*Tx).DropUploads)
	left(0, 0)
}

// Parts that were admitted can be joined to the end, though text that came since
// fills the quota. Content has its limit, and what begins again feels the text.
func TestJoinWithFullQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part func(*Store, *record.Request) (*Upload, string, error)
		join func(*Store, *record.Request, *Upload, string) error
		code string
	}{
		"owner": {
			func(s *Store, q *record.Request) (*Upload, string, error) {
				u, err := beginUpload(s, Upload{Owner: q.Owner, Length: 500, Partial: true})
				return u, "", err
			},
			func(s *Store, q *record.Request, part *Upload, _ string) error {
				f := form(t, record.Files, `{}`)
				return s.Update(func(tx *Tx) error {
					u, err := tx.JoinUploads(Upload{Owner: q.Owner, Parts: []record.ID{part.ID}})
					if err == nil {
						_, err = tx.FinishUpload(u, f, content(record.Files, 1, u.Length))
					}
					return err
				})
			},
			"quota_exceeded",
		},
		"sender": {
			func(s *Store, q *record.Request) (*Upload, string, error) {
				return s.BeginSenderUpload(t.Context(), q, Upload{Length: 500, Partial: true}, "here")
			},
			func(s *Store, q *record.Request, _ *Upload, secret string) error {
				u, _, err := s.JoinSent(t.Context(), q, Upload{Name: "Bob", Message: "hello"}, "here", []string{secret})
				if err == nil {
					_, err = receive(s, u, 1)
				}
				return err
			},
			"limit_reached",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := open(t)
			ann := user(t, s, "ann")
			q := addRequest(t, s, ann.ID, nil)
			quota := func(n int64) {
				update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: n}) })
			}
			quota(10_000)
			part, secret, err := c.part(s, q)
			is.NoErr(err)
			part.Offset = part.Length
			update(t, s, func(tx *Tx) error { return tx.SaveUpload(part) })
			add(t, s, ann.ID, record.Notes, `{"content":"meanwhile"}`)
			quota(499)
			is.Equal(code(c.join(s, q, part, secret)), c.code)
			quota(500)
			is.NoErr(c.join(s, q, part, secret))
			_, _, err = c.part(s, q)
			is.Equal(code(err), c.code)
			view(t, s, audit)
		})
	}
}
