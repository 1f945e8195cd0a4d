package people_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

func TestKeys(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	k, secret := kvtest.Key(t, s, ann.ID, people.Key{Name: "laptop", Scopes: []people.Scope{people.ScopeRead}})
	is.True(strings.HasPrefix(secret, people.KeyPrefix))
	is.Equal(len(secret), len(people.KeyPrefix)+43)
	c, err := people.Authenticate(s, secret)
	is.NoErr(err)
	is.Equal(c.User.ID, ann.ID)
	is.Equal(c.Key.ID, k.ID)
	is.Equal(c.Key.Name, "laptop")
	is.True(!c.Key.Allows(people.ScopeWrite))
	for _, bad := range []string{"", "kist_", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), strings.Repeat("x", 100_000)} {
		_, err := people.Authenticate(s, bad)
		is.Equal(kvtest.Code(err), "unknown_key")
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for _, v := range kvtest.Dump(tx) {
			is.True(!strings.Contains(v, secret) && !strings.Contains(v, strings.TrimPrefix(secret, people.KeyPrefix)))
		}
		_, err := people.ReadKey(tx, bob.ID, k.ID)
		is.Equal(kvtest.Code(err), "not_found")
		mine, err := people.Keys(tx, ann.ID)
		is.NoErr(err)
		all, err := people.AllKeys(tx)
		is.NoErr(err)
		is.Equal(mine, all)
		return nil
	})
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return people.RemoveKey(tx, bob.ID, k.ID) })), "not_found")
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, _, err := people.AddKey(tx, people.Key{Owner: ann.ID, Expires: tx.Now})
		return err
	})), "invalid_fields")
	seen := map[string]bool{}
	for range 100 {
		n := people.NewSecret()
		is.Equal(len(n), len(people.KeyPrefix)+43)
		is.True(!seen[n])
		seen[n] = true
	}
}

// Every change that locks a key out or lets it in again takes effect with the next
// Authenticate.
func TestKeysAreShutOut(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	kvtest.User(t, s, "root")
	u := kvtest.User(t, s, "ann")
	end := c.Now().Add(24 * time.Hour)
	k, secret := kvtest.Key(t, s, u.ID, people.Key{Expires: end})
	try := func(want string) {
		t.Helper()
		_, err := people.Authenticate(s, secret)
		is.Equal(kvtest.Code(err), want)
		_, err = people.Recognize(s, u.ID, k.ID)
		is.Equal(kvtest.Code(err), want)
		if want == "key_expired" {
			want = "" // a request that has started may finish
		}
		is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return people.CheckNotRevoked(tx, k) })), want)
	}
	account := func(change func(*people.User)) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, u.ID)
			if err != nil {
				return err
			}
			change(u)
			return people.SaveUser(tx, u)
		})
	}
	try("")
	for _, row := range []struct {
		want    string
		off, on func()
	}{
		{
			"api_tokens_disabled", func() {
				kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{TokensOff: true}) })
			},
			func() {
				kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{}) })
			},
		},
		{"api_tokens_disabled", func() { account(func(u *people.User) { u.TokensOff = true }) }, func() { account(func(u *people.User) { u.TokensOff = false }) }},
		{"user_disabled", func() { account(func(u *people.User) { u.Disabled = true }) }, func() { account(func(u *people.User) { u.Disabled = false }) }},
		{"key_disabled", func() {
			kvtest.Update(t, s, func(tx *kv.Tx) error { off := *k; off.Disabled = true; return people.SaveKey(tx, &off) })
		}, func() { kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SaveKey(tx, k) }) }},
	} {
		row.off()
		try(row.want)
		row.on()
		try("")
	}
	// A change that is rolled back locks nobody out.
	_ = s.Update(func(tx *kv.Tx) error { _ = people.RemoveKey(tx, u.ID, k.ID); return kvtest.ErrPlanned })
	try("")
	c.Ms.Store(end.UnixMilli() - 1)
	try("")
	c.Ms.Store(end.UnixMilli())
	try("key_expired")
	c.Add(-time.Hour)
	try("key_expired") // no way back
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.RemoveKey(tx, u.ID, k.ID) })
	try("unknown_key")
	k, secret = kvtest.Key(t, s, u.ID, people.Key{})
	try("")
	_, err := people.Recognize(s, k.ID, u.ID)
	is.Equal(kvtest.Code(err), "unknown_key") // nobody else owns it
	is.NoErr(people.RemoveUser(s, u.ID, "root"))
	try("unknown_key")
}

// One goroutine turns a key off and on while others authenticate all the
// time: none gets in between the end of one Update and the start of the next.
func TestShutOutRace(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	k, secret := kvtest.Key(t, s, u.ID, people.Key{})
	const enabled, disabling, disabled, enabling = 0, 1, 2, 3
	var state atomic.Int64
	stop := make(chan bool)
	var in, out, wrong atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				before := state.Load()
				_, err := people.Authenticate(s, secret)
				if state.Load() != before {
					continue
				}
				switch {
				case before%4 == enabled && err == nil:
					in.Add(1)
				case before%4 == disabled && kvtest.Code(err) == "key_disabled":
					out.Add(1)
				case before%4 == enabled || before%4 == disabled:
					wrong.Add(1)
				}
			}
		})
	}
	await := func(count *atomic.Int64) {
		for n := count.Load(); count.Load() == n && wrong.Load() == 0; {
			runtime.Gosched()
		}
	}
	for range 40 {
		await(&in)
		state.Add(disabling - enabled)
		kvtest.Update(t, s, func(tx *kv.Tx) error { off := *k; off.Disabled = true; return people.SaveKey(tx, &off) })
		state.Add(disabled - disabling)
		await(&out)
		state.Add(enabling - disabled)
		kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SaveKey(tx, k) })
		state.Add(4 - enabling)
	}
	close(stop)
	wg.Wait()
	is.Equal(wrong.Load(), int64(0))
}

// The use of a key is recorded once a minute, whatever the traffic.
func TestLastUsed(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	k, secret := kvtest.Key(t, s, u.ID, people.Key{})
	lastUsed := func() time.Time {
		is.NoErr(s.Flush())
		var at time.Time
		kvtest.View(t, s, func(tx *kv.Tx) error {
			k, err := people.ReadKey(tx, u.ID, k.ID)
			if err == nil {
				at = k.LastUsed
			}
			return err
		})
		return at
	}
	is.True(lastUsed().IsZero())
	n := kvtest.Commits(t, s)
	for minute := range 3 {
		want := c.Now().UTC().Truncate(time.Minute)
		for range 5 {
			for range 50 {
				_, err := people.Authenticate(s, secret)
				is.NoErr(err)
			}
			is.Equal(lastUsed(), want)
			_, err := people.Authenticate(s, secret)
			is.NoErr(err)
			noted := people.NotedUses(s)
			is.Equal(noted, 0) // already recorded: nothing to write
			c.Add(10 * time.Second)
		}
		is.Equal(kvtest.Commits(t, s), n+minute+1)
		c.Ms.Store(want.Add(time.Minute).UnixMilli())
	}
	// Refusing a key is not a use of it.
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		off, err := people.ReadKey(tx, u.ID, k.ID)
		if err != nil {
			return err
		}
		off.Disabled = true
		return people.SaveKey(tx, off)
	})
	before := lastUsed()
	_, err := people.Authenticate(s, secret)
	is.Equal(kvtest.Code(err), "key_disabled")
	is.Equal(lastUsed(), before)
	is.NoErr(s.Flush())
}

func TestUsers(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	var token string
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err })
	is.Equal(len(token), 43)
	claimable := func(token string) string {
		var err error
		kvtest.View(t, s, func(tx *kv.Tx) error { err = people.Claimable(tx, token); return nil })
		return kvtest.Code(err)
	}
	is.Equal(claimable(token), "")
	is.Equal(claimable(token+"x"), "not_found")
	is.Equal(claimable(""), "not_found")

	// A member who was there first can be changed, and made the first
	// administrator, which ends the claim.
	var eve *people.User
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		eve, err = people.AddUser(tx, people.User{Name: "Eve", Role: people.Member})
		return err
	})
	save := func(u *people.User) string {
		return kvtest.Code(s.Update(func(tx *kv.Tx) error { return people.SaveUser(tx, u) }))
	}
	is.Equal(save(eve), "")
	is.Equal(claimable(token), "")
	eve.Role = people.Admin
	is.Equal(save(eve), "")
	is.Equal(claimable(token), "not_found")
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err })
	is.Equal(token, "")

	// The last administrator cannot be demoted.
	off := *eve
	off.Disabled = true
	is.Equal(save(&off), "last_admin")
	off = *eve
	off.Role = people.Member
	is.Equal(save(&off), "last_admin")
	is.Equal(kvtest.Code(people.RemoveUser(s, eve.ID, "root")), "last_admin")
	ann := kvtest.User(t, s, "ann")
	is.Equal(save(&off), "")

	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { _, err := people.AddUser(tx, people.User{Name: "ANN"}); return err })), "username_taken")
	ann.Name = "EVE"
	is.Equal(save(ann), "username_taken")
	is.Equal(save(&people.User{ID: uuid.New(), Name: "nobody"}), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		u, err := people.UserNamed(tx, "eVE")
		is.NoErr(err)
		is.Equal(u.ID, eve.ID)
		_, err = people.UserNamed(tx, "nobody")
		is.Equal(kvtest.Code(err), "not_found")
		all, err := people.Users(tx)
		is.NoErr(err)
		is.Equal(len(all), 2)
		return kvtest.Audit(tx)
	})

	// One variable for several accounts: changing it must not change stored rows.
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		var u people.User
		for i := range all {
			u = all[i]
			u.Name = fmt.Sprint("new", i)
			if err == nil {
				err = people.SaveUser(tx, &u)
			}
		}
		return err
	})
	kvtest.View(t, s, kvtest.Audit)
}

// Nothing can be created for an account that is gone.
func TestNoOwner(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "root")
	gone := kvtest.User(t, s, "ann").ID
	is.NoErr(people.RemoveUser(s, gone, "root"))
	f := kvtest.Form(t, record.Notes, `{"content":"c"}`)
	for _, fn := range []func(*kv.Tx) error{
		func(tx *kv.Tx) error { _, err := catalog.Add(tx, gone, record.Notes, f, nil, ""); return err },
		func(tx *kv.Tx) error { _, err := catalog.AddTag(tx, gone, "t", ""); return err },
		func(tx *kv.Tx) error { _, err := catalog.AddFolder(tx, gone, "f", ""); return err },
		func(tx *kv.Tx) error { _, _, err := people.AddKey(tx, people.Key{Owner: gone}); return err },
		func(tx *kv.Tx) error { _, err := jobs.AddWebhook(tx, jobs.Webhook{Owner: gone}); return err },
		func(tx *kv.Tx) error { return jobs.SaveIdempotentAnswer(tx, gone, "k", jobs.IdempotentAnswer{}) },
		func(tx *kv.Tx) error { _, err := inbox.AddUpload(tx, inbox.Upload{Owner: gone}); return err },
	} {
		is.Equal(kvtest.Code(s.Update(fn)), "not_found")
	}
}

// Everything an account owns is deleted, in as many transactions as it takes. An
// account whose id begins alike keeps everything.
func TestRemoveUser(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	root, ann := kvtest.User(t, s, "root"), kvtest.User(t, s, "ann")
	tagged := kvtest.Form(t, record.Notes, `{"content":"c","tags":["a","b"]}`)
	file := kvtest.Form(t, record.Files, `{"folderName":"F","newTags":["c"]}`)
	for range 2 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for i := range 120 {
				if _, err := catalog.Add(tx, ann.ID, record.Notes, tagged, nil, ""); err != nil {
					return err
				}
				if _, err := catalog.Add(tx, ann.ID, record.Files, file, kvtest.Content(record.Files, byte(i), 3), ""); err != nil {
					return err
				}
			}
			if _, err := catalog.Add(tx, root.ID, record.Files, file, kvtest.Content(record.Files, 1, 3), ""); err != nil {
				return err
			}
			if _, err := jobs.AddWebhook(tx, jobs.Webhook{Owner: ann.ID, Events: []jobs.Event{"*"}, Enabled: true}); err != nil {
				return err
			}
			if _, err := inbox.AddUpload(tx, inbox.Upload{Owner: ann.ID, Length: 9}); err != nil {
				return err
			}
			return jobs.SaveIdempotentAnswer(tx, ann.ID, "k", jobs.IdempotentAnswer{Body: []byte("x")})
		})
	}
	_, secret := kvtest.Key(t, s, ann.ID, people.Key{})
	_, err := people.Authenticate(s, secret)
	is.NoErr(err)
	is.NoErr(people.RemoveUser(s, ann.ID, "root"))
	is.NoErr(s.Flush()) // the key whose use is recorded is gone
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, ann.ID), nil)
		use, err := people.UsageOf(tx, root)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(6))
		is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now, 1000)), 119)
		is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now, 10)), 10)
		is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now.Add(-time.Hour), 1000)), 0)
		is.True(catalog.Referenced(tx, [32]byte{1}) && !catalog.Unreferenced(tx, [32]byte{1}, tx.Now))
		is.True(catalog.Unreferenced(tx, [32]byte{2}, tx.Now) && !catalog.Unreferenced(tx, [32]byte{2}, tx.Now.Add(-time.Hour)))
		is.True(!catalog.Unreferenced(tx, [32]byte{200}, tx.Now) && catalog.NeverReferenced(tx, [32]byte{200})) // as if it had never been known
		return kvtest.Audit(tx)
	})
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Unlinked(tx, [32]byte{2}) })
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now, 1000)), 118); return nil })
}

// Tags and folders of many records are removed in several transactions.
func TestRelabel(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	f := kvtest.Form(t, record.Files, `{"folderName":"F","tags":["a","b"]}`)
	only := kvtest.Form(t, record.Links, `{"originalUrl":"https://example.org/","tags":["a"]}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for range kv.RemoveBatch + 10 {
			if _, err := catalog.Add(tx, u.ID, record.Files, f, kvtest.Content(record.Files, 1, 1), ""); err != nil {
				return err
			}
			if _, err := catalog.Add(tx, u.ID, record.Links, only, nil, ""); err != nil {
				return err
			}
		}
		return nil
	})
	var a, b *record.Tag
	var folder *record.Folder
	kvtest.View(t, s, func(tx *kv.Tx) (err error) {
		if a, err = catalog.TagNamed(tx, u.ID, "a"); err != nil {
			return err
		}
		if b, err = catalog.TagNamed(tx, u.ID, "b"); err != nil {
			return err
		}
		folder, err = catalog.FolderNamed(tx, u.ID, "f")
		return err
	})
	is.Equal(kvtest.Code(catalog.RemoveTag(s, u.ID, a.ID, a.ID)), "invalid_fields")
	is.Equal(kvtest.Code(catalog.RemoveTag(s, u.ID, a.ID, uuid.New())), "invalid_fields")
	is.NoErr(catalog.RemoveTag(s, u.ID, a.ID, b.ID))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(catalog.TagCounts(tx, b)["file"], int64(kv.RemoveBatch+10))
		is.Equal(catalog.TagCounts(tx, b)["shortlink"], int64(kv.RemoveBatch+10))
		is.Equal(kvtest.LeftOver(tx, a.ID), nil)
		is.Equal(catalog.FolderCount(tx, folder), int64(kv.RemoveBatch+10))
		return kvtest.Audit(tx)
	})
	is.NoErr(catalog.RemoveTag(s, u.ID, b.ID, uuid.Nil))
	is.NoErr(catalog.RemoveFolder(s, u.ID, folder.ID))
	is.Equal(kvtest.Code(catalog.RemoveFolder(s, u.ID, folder.ID)), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, b.ID), nil)
		is.Equal(kvtest.LeftOver(tx, folder.ID), nil)
		return kvtest.Audit(tx)
	})
}

func TestQuota(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann") // has the default quota
	f := kvtest.Form(t, record.Files, `{}`)
	upload := func(ref byte, size int64) (r *record.Record, err error) {
		err = s.Update(func(tx *kv.Tx) error {
			r, err = catalog.Add(tx, u.ID, record.Files, f, kvtest.Content(record.Files, ref, size), "")
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

// Key does not find sessions, and Session does not find keys.
func TestKeysAndSessions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	var key, session *people.Key
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		if key, _, err = people.AddKey(tx, people.Key{Owner: u.ID, Name: "k"}); err == nil {
			session, _, err = people.AddSession(tx, u.ID, "browser", "192.0.2.1", tx.Now)
		}
		return err
	})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, err := people.ReadKey(tx, u.ID, key.ID)
		is.NoErr(err)
		_, err = people.ReadSession(tx, u.ID, session.ID)
		is.NoErr(err)
		_, err = people.ReadKey(tx, u.ID, session.ID)
		is.Equal(err, record.NotFound("key"))
		_, err = people.ReadSession(tx, u.ID, key.ID)
		is.Equal(err, record.NotFound("session"))
		return nil
	})
}

// Deliveries are part of the transaction that they report.
func TestDeliveries(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	hook := func(owner record.ID, enabled bool, events ...jobs.Event) (h jobs.Webhook) {
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			h, err = jobs.AddWebhook(tx, jobs.Webhook{Owner: owner, URL: "https://example.org/", Events: events, Enabled: enabled})
			return err
		})
		return h
	}
	all, some, off, other := hook(ann.ID, true, "*"), hook(ann.ID, true, "note.updated"), hook(ann.ID, false, "*"), hook(bob.ID, true, "*")
	waiting := func(h jobs.Webhook) (events []jobs.Event) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for _, d := range kvtest.DeliveriesOf(t, tx, h.ID) {
				events = append(events, d.Event)
				_, n, err := jobs.ReadDelivery(tx, jobs.Place{Owner: ann.ID, Hook: h.ID, ID: d.ID})
				is.NoErr(err)
				v, err := n.Shown()
				is.NoErr(err)
				is.Equal(v.Owner, ann.ID)
				is.Equal(d.Subject, v.ID)
			}
			return nil
		})
		return events
	}
	f := kvtest.Form(t, record.Notes, `{"content":"c","slug":"the-slug","tags":["t"],"isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`)
	n := kvtest.Commits(t, s)
	failed := s.Update(func(tx *kv.Tx) error {
		if _, err := catalog.Add(tx, ann.ID, record.Notes, f, nil, ""); err != nil {
			return err
		}
		return kvtest.ErrPlanned
	})
	is.Equal(failed.Error(), kvtest.ErrPlanned.Error())
	is.Equal(kvtest.Commits(t, s), n)
	is.Equal(len(waiting(all)), 0)

	var r *record.Record
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { r, err = catalog.Add(tx, ann.ID, record.Notes, f, nil, ""); return err })
	is.Equal(kvtest.Commits(t, s), n+1) // with the record
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { _, err := catalog.Add(tx, ann.ID, record.Notes, f, nil, ""); return err })), "slug_taken")
	is.Equal(waiting(all), []jobs.Event{"note.created"})
	r = kvtest.Edit(t, s, r, `{"title":"x"}`)
	is.NoErr(catalog.Seen(s, r, history.Visit{}))
	is.Equal(waiting(all), []jobs.Event{"note.created", "note.updated", "limit.reached", "note.deleted"})
	is.Equal(waiting(some), []jobs.Event{"note.updated"})
	is.Equal(len(waiting(off)), 0)
	is.Equal(len(waiting(other)), 0)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		d := kvtest.DeliveriesOf(t, tx, all.ID)[3]
		_, n, err := jobs.ReadDelivery(tx, jobs.Place{Owner: ann.ID, Hook: all.ID, ID: d.ID})
		is.NoErr(err)
		is.Equal(n.Views, int64(1))
		is.Equal(n.Tags[0].Name, "t")
		_, _, err = jobs.ReadDelivery(tx, jobs.Place{Owner: bob.ID, Hook: all.ID, ID: d.ID})
		is.Equal(kvtest.Code(err), "not_found")
		return kvtest.Audit(tx)
	})

	is.Equal(kvtest.Code(jobs.RemoveWebhook(s, bob.ID, all.ID)), "not_found")
	is.NoErr(jobs.RemoveWebhook(s, ann.ID, all.ID))
	is.Equal(len(waiting(all)), 0)
	kvtest.View(t, s, kvtest.Audit)
}

// An unknown record, another owner's and one of another kind get the same answer.
func TestOneAnswerForMissing(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	r := kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"c","slug":"hers"}`)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, want := catalog.Record(tx, bob.ID, record.Notes, "unknown")
		is.Equal(kvtest.Code(want), "not_found")
		for _, arg := range []string{"", "hers", "HERS", r.ID.String(), uuid.New().String(), "\x00", "a/b", "\xff", strings.Repeat("x", 10_000)} {
			_, err := catalog.Record(tx, bob.ID, record.Notes, arg)
			is.Equal(err, want)
		}
		_, err := catalog.Record(tx, ann.ID, record.Links, "hers")
		is.Equal(kvtest.Code(err), "not_found")
		_, err = catalog.Slug(tx, "")
		is.Equal(err, record.ErrMissing)
		for _, arg := range []string{"hers", r.ID.String(), strings.ToUpper(r.ID.String())} {
			got, err := catalog.Record(tx, ann.ID, record.Notes, arg)
			is.NoErr(err)
			is.Equal(got.ID, r.ID)
		}
		return nil
	})
}

// A form may only name tags and folders of its owner, or the record is not created.
func TestFileUnder(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	var mine, theirs *record.Tag
	var folder *record.Folder
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		if mine, err = catalog.AddTag(tx, ann.ID, "Mine", "#123456"); err != nil {
			return err
		}
		if theirs, err = catalog.AddTag(tx, bob.ID, "theirs", ""); err != nil {
			return err
		}
		folder, err = catalog.AddFolder(tx, bob.ID, "theirs", "")
		return err
	})
	fields := func(text string) map[string]string {
		f := kvtest.Form(t, record.Files, text)
		err := s.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, ann.ID, record.Files, f, kvtest.Content(record.Files, 1, 1), "")
			return err
		})
		var e *record.Error
		if !kvtest.AsError(err, &e) {
			t.Fatal(err)
		}
		return e.Fields
	}
	is.Equal(fields(fmt.Sprintf(`{"tagIds":[%q],"folderId":%q}`, theirs.ID, folder.ID)),
		map[string]string{"tagIds": "names a tag that you do not have", "folderId": "names a folder that you do not have"})
	many := make([]string, record.MaxTags)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	is.Equal(fields(fmt.Sprintf(`{"tagIds":[%q],"newTags":%q}`, mine.ID, strings.Join(many, ","))), map[string]string{"tags": "must have at most 64 entries"})

	r := kvtest.Add(t, s, ann.ID, record.Files, fmt.Sprintf(`{"tags":["MINE","new"],"tagIds":[%q],"newTags":"new, newer"}`, mine.ID))
	names := func() (names []string) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			now, err := catalog.Record(tx, ann.ID, record.Files, r.ID.String())
			if err != nil {
				return err
			}
			var v record.Shown
			err = catalog.Show(tx, now, &v)
			for _, t := range v.TagList {
				names = append(names, t.Name)
			}
			return err
		})
		return names
	}
	is.Equal(names(), []string{"Mine", "new", "newer"}) // as first written
	kvtest.Edit(t, s, r, fmt.Sprintf(`{"removeTagIds":[%q]}`, mine.ID))
	is.Equal(names(), []string{"new", "newer"})
	kvtest.Edit(t, s, r, fmt.Sprintf(`{"tags":["x"],"addTagIds":[%q]}`, mine.ID))
	is.Equal(names(), []string{"x", "Mine"})
	kvtest.Edit(t, s, r, `{"tags":[]}`)
	is.Equal(names(), nil)
	kvtest.View(t, s, kvtest.Audit)
}
