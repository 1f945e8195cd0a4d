package people_test

import (
	"slices"
	"sync"
	"testing"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"

	"github.com/matryer/is"
)

func TestQuota(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann") // has the default quota
	f := kvtest.Form(t, record.Files, `{}`)
	upload := func(ref byte, size int64) (r *record.Record, err error) {
		err = s.Update(func(tx *kv.Tx) error {
			r, err = catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Files, Form: f, Content: kvtest.Content(record.Files, ref, size),
			})
			return err
		})
		return r, err
	}
	small, err := upload(98, 10) // no limit yet
	is.NoErr(err)
	row := kvtest.TextNow(t, s, u.ID) // text of each file
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, small) })
	_, err = upload(0, 1<<40)
	is.NoErr(err)
	quota := 1<<40 + 35 + kvtest.TextNow(t, s, u.ID) + 3*row
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: quota}) })
	errs, made := make([]error, 8), make([]*record.Record, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { made[i], errs[i] = upload(byte(1+i), 10) })
	}
	wg.Wait()
	fit := 0
	for _, err := range errs {
		if err == nil {
			fit++
		} else {
			is.Equal(kvtest.Code(err), "quota_exceeded")
		}
	}
	is.Equal(fit, 3)
	_, err = upload(99, 5) // to the last byte
	is.NoErr(err)
	_, err = upload(99, 1)
	is.Equal(kvtest.Code(err), "quota_exceeded")
	i := slices.IndexFunc(errs, func(err error) bool { return err == nil })
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, made[i]) })
	_, err = upload(99, 10)
	is.NoErr(err)
	kvtest.Update(t, s, func(tx *kv.Tx) error { // a quota of the account's own: no limit
		u, err := people.ReadUser(tx, u.ID)
		if err != nil {
			return err
		}
		u.Quota = 0
		return people.SaveUser(tx, u)
	})
	_, err = upload(99, 1<<40)
	is.NoErr(err)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		use, err := people.UsageOf(tx, u)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(2<<40+35))
		is.Equal(use.Quota, quota) // as the account was read
		return kvtest.Audit(tx)
	})
}

// Text may be replaced by as much or less while an account has more than its quota.
func TestChargeText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"content"}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: 1}) })
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now := tx.Text(u.ID)
		is.True(now > 1)
		is.NoErr(people.ChargeText(tx, u.ID, now+1))
		is.NoErr(people.ChargeText(tx, u.ID, now))
		is.Equal(kvtest.Code(people.ChargeText(tx, u.ID, now-1)), "quota_exceeded")
		return nil
	})
}
