package kv

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

	"kist/kv/record"
)

// key makes an API key of the owner's.
func key(t testing.TB, s *Store, owner record.ID, k record.Key) (made *record.Key, secret string) {
	t.Helper()
	k.Owner = owner
	update(t, s, func(tx *Tx) (err error) {
		made, secret, err = tx.AddKey(k)
		return err
	})
	return made, secret
}

func TestKeys(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann, bob := user(t, s, "ann"), user(t, s, "bob")
	k, secret := key(t, s, ann.ID, record.Key{Name: "laptop", Scopes: []record.Scope{record.ScopeRead}})
	is.True(strings.HasPrefix(secret, KeyPrefix))
	is.Equal(len(secret), len(KeyPrefix)+43)
	c, err := s.Authenticate(secret)
	is.NoErr(err)
	is.Equal(c.User.ID, ann.ID)
	is.Equal(c.Key.ID, k.ID)
	is.Equal(c.Key.Name, "laptop")
	is.True(!c.Key.Allows(record.ScopeWrite))
	for _, bad := range []string{"", "kist_", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), strings.Repeat("x", 100_000)} {
		_, err := s.Authenticate(bad)
		is.Equal(code(err), "unknown_key")
	}
	view(t, s, func(tx *Tx) error {
		for _, v := range dump(tx) {
			is.True(!strings.Contains(v, secret) && !strings.Contains(v, strings.TrimPrefix(secret, KeyPrefix)))
		}
		_, err := tx.Key(bob.ID, k.ID)
		is.Equal(code(err), "not_found")
		mine, err := tx.Keys(ann.ID)
		is.NoErr(err)
		all, err := tx.AllKeys()
		is.NoErr(err)
		is.Equal(mine, all)
		return nil
	})
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.RemoveKey(bob.ID, k.ID) })), "not_found")
	is.Equal(code(s.Update(func(tx *Tx) error {
		_, _, err := tx.AddKey(record.Key{Owner: ann.ID, Expires: tx.Now})
		return err
	})), "invalid_fields")
	seen := map[string]bool{}
	for range 100 {
		n := newSecret()
		is.Equal(len(n), len(KeyPrefix)+43)
		is.True(!seen[n])
		seen[n] = true
	}
}

// What shuts a key out takes effect with the next Authenticate, and so does
// what lets it in again.
func TestKeysAreShutOut(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	user(t, s, "root")
	u := user(t, s, "ann")
	end := c.now().Add(24 * time.Hour)
	k, secret := key(t, s, u.ID, record.Key{Expires: end})
	try := func(want string) {
		t.Helper()
		_, err := s.Authenticate(secret)
		is.Equal(code(err), want)
		_, err = s.Recognize(u.ID, k.ID)
		is.Equal(code(err), want)
		if want == "key_expired" {
			want = "" // a request that has begun may end
		}
		is.Equal(code(s.Update(func(tx *Tx) error { return tx.CheckNotRevoked(k) })), want)
	}
	account := func(change func(*record.User)) {
		update(t, s, func(tx *Tx) error {
			u, err := tx.User(u.ID)
			if err != nil {
				return err
			}
			change(u)
			return tx.SaveUser(u)
		})
	}
	try("")
	for _, row := range []struct {
		want    string
		off, on func()
	}{
		{
			"api_tokens_disabled", func() { update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{TokensOff: true}) }) },
			func() { update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{}) }) },
		},
		{"api_tokens_disabled", func() { account(func(u *record.User) { u.TokensOff = true }) }, func() { account(func(u *record.User) { u.TokensOff = false }) }},
		{"user_disabled", func() { account(func(u *record.User) { u.Disabled = true }) }, func() { account(func(u *record.User) { u.Disabled = false }) }},
		{"key_disabled", func() {
			update(t, s, func(tx *Tx) error { off := *k; off.Disabled = true; return tx.SaveKey(&off) })
		}, func() { update(t, s, func(tx *Tx) error { return tx.SaveKey(k) }) }},
	} {
		row.off()
		try(row.want)
		row.on()
		try("")
	}
	// A change that is taken back shuts nobody out.
	_ = s.Update(func(tx *Tx) error { _ = tx.RemoveKey(u.ID, k.ID); return errPlanned })
	try("")
	c.ms.Store(end.UnixMilli() - 1)
	try("")
	c.ms.Store(end.UnixMilli())
	try("key_expired")
	c.add(-time.Hour)
	try("key_expired") // no way back
	update(t, s, func(tx *Tx) error { return tx.RemoveKey(u.ID, k.ID) })
	try("unknown_key")
	k, secret = key(t, s, u.ID, record.Key{})
	try("")
	_, err := s.Recognize(k.ID, u.ID)
	is.Equal(code(err), "unknown_key") // it is nobody else's
	is.NoErr(s.RemoveUser(u.ID))
	try("unknown_key")
}

// One goroutine turns a key off and on while others authenticate all the
// time: none gets in between the end of the one Update and the beginning of
// the other.
func TestShutOutRace(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	k, secret := key(t, s, u.ID, record.Key{})
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
				_, err := s.Authenticate(secret)
				if state.Load() != before {
					continue
				}
				switch {
				case before%4 == enabled && err == nil:
					in.Add(1)
				case before%4 == disabled && code(err) == "key_disabled":
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
		update(t, s, func(tx *Tx) error { off := *k; off.Disabled = true; return tx.SaveKey(&off) })
		state.Add(disabled - disabling)
		await(&out)
		state.Add(enabling - disabled)
		update(t, s, func(tx *Tx) error { return tx.SaveKey(k) })
		state.Add(4 - enabling)
	}
	close(stop)
	wg.Wait()
	is.Equal(wrong.Load(), int64(0))
}

// The use of a key is noted once a minute, whatever the traffic.
func TestLastUsed(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	u := user(t, s, "ann")
	k, secret := key(t, s, u.ID, record.Key{})
	lastUsed := func() time.Time {
		is.NoErr(s.Flush())
		var at time.Time
		view(t, s, func(tx *Tx) error {
			k, err := tx.Key(u.ID, k.ID)
			if err == nil {
				at = k.LastUsed
			}
			return err
		})
		return at
	}
	is.True(lastUsed().IsZero())
	n := commits(t, s)
	for minute := range 3 {
		want := c.now().UTC().Truncate(time.Minute)
		for range 5 {
			for range 50 {
				_, err := s.Authenticate(secret)
				is.NoErr(err)
			}
			is.Equal(lastUsed(), want)
			_, err := s.Authenticate(secret)
			is.NoErr(err)
			s.pending.Lock()
			noted := len(s.pending.keys)
			s.pending.Unlock()
			is.Equal(noted, 0) // known already: nothing to write
			c.add(10 * time.Second)
		}
		is.Equal(commits(t, s), n+minute+1)
		c.ms.Store(want.Add(time.Minute).UnixMilli())
	}
	// A refused key has not been used.
	update(t, s, func(tx *Tx) error {
		off, err := tx.Key(u.ID, k.ID)
		if err != nil {
			return err
		}
		off.Disabled = true
		return tx.SaveKey(off)
	})
	before := lastUsed()
	_, err := s.Authenticate(secret)
	is.Equal(code(err), "key_disabled")
	is.Equal(lastUsed(), before)
	is.NoErr(s.Flush())
}

func TestUsers(t *testing.T) {
	is := is.New(t)
	s := open(t)
	var token string
	update(t, s, func(tx *Tx) (err error) { token, err = tx.Claim(); return err })
	is.Equal(len(token), 43)
	claimable := func(token string) string {
		var err error
		view(t, s, func(tx *Tx) error { err = tx.Claimable(token); return nil })
		return code(err)
	}
	is.Equal(claimable(token), "")
	is.Equal(claimable(token+"x"), "not_found")
	is.Equal(claimable(""), "not_found")

	// A member who was there first can be changed, and made the first
	// administrator, which ends the claim.
	var eve *record.User
	update(t, s, func(tx *Tx) (err error) {
		eve, err = tx.AddUser(record.User{Name: "Eve", Role: record.Member})
		return err
	})
	save := func(u *record.User) string {
		return code(s.Update(func(tx *Tx) error { return tx.SaveUser(u) }))
	}
	is.Equal(save(eve), "")
	is.Equal(claimable(token), "")
	eve.Role = record.Admin
	is.Equal(save(eve), "")
	is.Equal(claimable(token), "not_found")
	update(t, s, func(tx *Tx) (err error) { token, err = tx.Claim(); return err })
	is.Equal(token, "")

	// The last administrator stays one.
	off := *eve
	off.Disabled = true
	is.Equal(save(&off), "last_admin")
	off = *eve
	off.Role = record.Member
	is.Equal(save(&off), "last_admin")
	is.Equal(code(s.RemoveUser(eve.ID)), "last_admin")
	ann := user(t, s, "ann")
	is.Equal(save(&off), "")

	is.Equal(code(s.Update(func(tx *Tx) error { _, err := tx.AddUser(record.User{Name: "ANN"}); return err })), "username_taken")
	ann.Name = "EVE"
	is.Equal(save(ann), "username_taken")
	is.Equal(save(&record.User{ID: uuid.New(), Name: "nobody"}), "not_found")
	view(t, s, func(tx *Tx) error {
		u, err := tx.UserNamed("eVE")
		is.NoErr(err)
		is.Equal(u.ID, eve.ID)
		_, err = tx.UserNamed("nobody")
		is.Equal(code(err), "not_found")
		all, err := tx.Users()
		is.NoErr(err)
		is.Equal(len(all), 2)
		return audit(tx)
	})

	// One variable for several accounts: what was put does not change with it.
	update(t, s, func(tx *Tx) error {
		all, err := tx.Users()
		var u record.User
		for i := range all {
			u = all[i]
			u.Name = fmt.Sprint("new", i)
			if err == nil {
				err = tx.SaveUser(&u)
			}
		}
		return err
	})
	view(t, s, audit)
}

// Nothing comes into being for an account that is gone.
func TestNoOwner(t *testing.T) {
	is := is.New(t)
	s := open(t)
	user(t, s, "root")
	gone := user(t, s, "ann").ID
	is.NoErr(s.RemoveUser(gone))
	f := form(t, record.Notes, `{"content":"c"}`)
	for _, fn := range []func(*Tx) error{
		func(tx *Tx) error { _, err := tx.Add(gone, record.Notes, f, nil, ""); return err },
		func(tx *Tx) error { _, err := tx.AddTag(gone, "t", ""); return err },
		func(tx *Tx) error { _, err := tx.AddFolder(gone, "f", ""); return err },
		func(tx *Tx) error { _, _, err := tx.AddKey(record.Key{Owner: gone}); return err },
		func(tx *Tx) error { _, err := tx.AddWebhook(record.Webhook{Owner: gone}); return err },
		func(tx *Tx) error { return tx.SaveIdempotentAnswer(gone, "k", IdempotentAnswer{}) },
		func(tx *Tx) error { _, err := tx.AddUpload(Upload{Owner: gone}); return err },
	} {
		is.Equal(code(s.Update(fn)), "not_found")
	}
}

// All of an account goes, in as many transactions as it takes, and nothing of
// another's, whose id begins alike.
func TestRemoveUser(t *testing.T) {
	is := is.New(t)
	s := open(t)
	root, ann := user(t, s, "root"), user(t, s, "ann")
	tagged := form(t, record.Notes, `{"content":"c","tags":["a","b"]}`)
	file := form(t, record.Files, `{"folderName":"F","newTags":["c"]}`)
	for range 2 {
		update(t, s, func(tx *Tx) error {
			for i := range 120 {
				if _, err := tx.Add(ann.ID, record.Notes, tagged, nil, ""); err != nil {
					return err
				}
				if _, err := tx.Add(ann.ID, record.Files, file, content(record.Files, byte(i), 3), ""); err != nil {
					return err
				}
			}
			if _, err := tx.Add(root.ID, record.Files, file, content(record.Files, 1, 3), ""); err != nil {
				return err
			}
			if _, err := tx.AddWebhook(record.Webhook{Owner: ann.ID, Events: []record.Event{"*"}, Enabled: true}); err != nil {
				return err
			}
			if _, err := tx.AddUpload(Upload{Owner: ann.ID, Length: 9}); err != nil {
				return err
			}
			return tx.SaveIdempotentAnswer(ann.ID, "k", IdempotentAnswer{Body: []byte("x")})
		})
	}
	_, secret := key(t, s, ann.ID, record.Key{})
	_, err := s.Authenticate(secret)
	is.NoErr(err)
	is.NoErr(s.RemoveUser(ann.ID))
	is.NoErr(s.Flush()) // the note of the key's use has nowhere to go
	view(t, s, func(tx *Tx) error {
		is.Equal(leftOver(tx, ann.ID), nil)
		use, err := tx.Usage(root)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(6))
		is.Equal(len(tx.UnreferencedRefs(tx.Now, 1000)), 119)
		is.Equal(len(tx.UnreferencedRefs(tx.Now, 10)), 10)
		is.Equal(len(tx.UnreferencedRefs(tx.Now.Add(-time.Hour), 1000)), 0)
		is.True(tx.Referenced([32]byte{1}) && !tx.Unreferenced([32]byte{1}, tx.Now))
		is.True(tx.Unreferenced([32]byte{2}, tx.Now) && !tx.Unreferenced([32]byte{2}, tx.Now.Add(-time.Hour)))
		is.True(!tx.Unreferenced([32]byte{200}, tx.Now) && tx.NeverReferenced([32]byte{200})) // never known
		return audit(tx)
	})
	update(t, s, func(tx *Tx) error { return tx.Unlinked([32]byte{2}) })
	view(t, s, func(tx *Tx) error { is.Equal(len(tx.UnreferencedRefs(tx.Now, 1000)), 118); return nil })
}

// Tags and folders of many records go in several transactions.
func TestRelabel(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	f := form(t, record.Files, `{"folderName":"F","tags":["a","b"]}`)
	only := form(t, record.Links, `{"originalUrl":"https://example.org/","tags":["a"]}`)
	update(t, s, func(tx *Tx) error {
		for range removeBatch + 10 {
			if _, err := tx.Add(u.ID, record.Files, f, content(record.Files, 1, 1), ""); err != nil {
				return err
			}
			if _, err := tx.Add(u.ID, record.Links, only, nil, ""); err != nil {
				return err
			}
		}
		return nil
	})
	var a, b *record.Tag
	var folder *record.Folder
	view(t, s, func(tx *Tx) (err error) {
		if a, err = tx.TagNamed(u.ID, "a"); err != nil {
			return err
		}
		if b, err = tx.TagNamed(u.ID, "b"); err != nil {
			return err
		}
		folder, err = tx.FolderNamed(u.ID, "f")
		return err
	})
	is.Equal(code(s.RemoveTag(u.ID, a.ID, a.ID)), "invalid_fields")
	is.Equal(code(s.RemoveTag(u.ID, a.ID, uuid.New())), "invalid_fields")
	is.NoErr(s.RemoveTag(u.ID, a.ID, b.ID))
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.TagCounts(b)["file"], int64(removeBatch+10))
		is.Equal(tx.TagCounts(b)["shortlink"], int64(removeBatch+10))
		is.Equal(leftOver(tx, a.ID), nil)
		is.Equal(tx.FolderCount(folder), int64(removeBatch+10))
		return audit(tx)
	})
	is.NoErr(s.RemoveTag(u.ID, b.ID, uuid.Nil))
	is.NoErr(s.RemoveFolder(u.ID, folder.ID))
	is.Equal(code(s.RemoveFolder(u.ID, folder.ID)), "not_found")
	view(t, s, func(tx *Tx) error {
		is.Equal(leftOver(tx, b.ID), nil)
		is.Equal(leftOver(tx, folder.ID), nil)
		return audit(tx)
	})
}

func TestQuota(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann") // the default quota is theirs
	f := form(t, record.Files, `{}`)
	upload := func(ref byte, size int64) (r *record.Record, err error) {
		err = s.Update(func(tx *Tx) error {
			r, err = tx.Add(u.ID, record.Files, f, content(record.Files, ref, size), "")
			return err
		})
		return r, err
	}
	small, err := upload(98, 10) // no limit yet
	is.NoErr(err)
	row := textNow(t, s, u.ID) // of each file
	update(t, s, func(tx *Tx) error { return tx.Remove(small) })
	_, err = upload(0, 1<<40)
	is.NoErr(err)
	quota := 1<<40 + 35 + textNow(t, s, u.ID) + 3*row
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: quota}) })
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
			is.Equal(code(err), "quota_exceeded")
		}
	}
	is.Equal(fit, 3)
	_, err = upload(99, 5) // to the last byte
	is.NoErr(err)
	_, err = upload(99, 1)
	is.Equal(code(err), "quota_exceeded")
	i := slices.IndexFunc(errs, func(err error) bool { return err == nil })
	update(t, s, func(tx *Tx) error { return tx.Remove(made[i]) })
	_, err = upload(99, 10)
	is.NoErr(err)
	update(t, s, func(tx *Tx) error { // their own, which is no limit
		u, err := tx.User(u.ID)
		if err != nil {
			return err
		}
		u.Quota = 0
		return tx.SaveUser(u)
	})
	_, err = upload(99, 1<<40)
	is.NoErr(err)
	view(t, s, func(tx *Tx) error {
		use, err := tx.Usage(u)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(2<<40+35))
		is.Equal(use.Quota, quota) // as the account was read
		return audit(tx)
	})
}

// Deliveries are part of the transaction that they tell of.
func TestDeliveries(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann, bob := user(t, s, "ann"), user(t, s, "bob")
	hook := func(owner record.ID, enabled bool, events ...record.Event) (h record.Webhook) {
		update(t, s, func(tx *Tx) (err error) {
			h, err = tx.AddWebhook(record.Webhook{Owner: owner, URL: "https://example.org/", Events: events, Enabled: enabled})
			return err
		})
		return h
	}
	all, some, off, other := hook(ann.ID, true, "*"), hook(ann.ID, true, "note.updated"), hook(ann.ID, false, "*"), hook(bob.ID, true, "*")
	waiting := func(h record.Webhook) (events []record.Event) {
		view(t, s, func(tx *Tx) error {
			for _, d := range deliveriesOf(t, tx, h.ID) {
				events = append(events, d.Event)
				_, n, err := tx.Delivery(Place{ann.ID, h.ID, d.ID})
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
	f := form(t, record.Notes, `{"content":"c","slug":"the-slug","tags":["t"],"isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`)
	n := commits(t, s)
	failed := s.Update(func(tx *Tx) error {
		if _, err := tx.Add(ann.ID, record.Notes, f, nil, ""); err != nil {
			return err
		}
		return errPlanned
	})
	is.Equal(failed.Error(), errPlanned.Error())
	is.Equal(commits(t, s), n)
	is.Equal(len(waiting(all)), 0)

	var r *record.Record
	update(t, s, func(tx *Tx) (err error) { r, err = tx.Add(ann.ID, record.Notes, f, nil, ""); return err })
	is.Equal(commits(t, s), n+1) // with the record
	is.Equal(code(s.Update(func(tx *Tx) error { _, err := tx.Add(ann.ID, record.Notes, f, nil, ""); return err })), "slug_taken")
	is.Equal(waiting(all), []record.Event{"note.created"})
	r = edit(t, s, r, `{"title":"x"}`)
	is.NoErr(s.Seen(r))
	is.Equal(waiting(all), []record.Event{"note.created", "note.updated", "limit.reached", "note.deleted"})
	is.Equal(waiting(some), []record.Event{"note.updated"})
	is.Equal(len(waiting(off)), 0)
	is.Equal(len(waiting(other)), 0)
	view(t, s, func(tx *Tx) error {
		d := deliveriesOf(t, tx, all.ID)[3]
		_, n, err := tx.Delivery(Place{ann.ID, all.ID, d.ID})
		is.NoErr(err)
		is.Equal(n.Views, int64(1))
		is.Equal(n.Tags[0].Name, "t")
		_, _, err = tx.Delivery(Place{bob.ID, all.ID, d.ID})
		is.Equal(code(err), "not_found")
		return audit(tx)
	})

	is.Equal(code(s.RemoveWebhook(bob.ID, all.ID)), "not_found")
	is.NoErr(s.RemoveWebhook(ann.ID, all.ID))
	is.Equal(len(waiting(all)), 0)
	view(t, s, audit)
}

// Unknown, another's and of another kind look the same.
func TestOneAnswerForMissing(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann, bob := user(t, s, "ann"), user(t, s, "bob")
	r := add(t, s, ann.ID, record.Notes, `{"content":"c","slug":"hers"}`)
	view(t, s, func(tx *Tx) error {
		_, want := tx.Record(bob.ID, record.Notes, "unknown")
		is.Equal(code(want), "not_found")
		for _, arg := range []string{"", "hers", "HERS", r.ID.String(), uuid.New().String(), "\x00", "a/b", "\xff", strings.Repeat("x", 10_000)} {
			_, err := tx.Record(bob.ID, record.Notes, arg)
			is.Equal(err, want)
		}
		_, err := tx.Record(ann.ID, record.Links, "hers")
		is.Equal(code(err), "not_found")
		_, err = tx.Slug("")
		is.Equal(err, record.ErrMissing)
		for _, arg := range []string{"hers", r.ID.String(), strings.ToUpper(r.ID.String())} {
			got, err := tx.Record(ann.ID, record.Notes, arg)
			is.NoErr(err)
			is.Equal(got.ID, r.ID)
		}
		return nil
	})
}

// A form names tags and folders of its owner's, or the record is not made.
func TestFileUnder(t *testing.T) {
	is := is.New(t)
	s := open(t)
	ann, bob := user(t, s, "ann"), user(t, s, "bob")
	var mine, theirs *record.Tag
	var folder *record.Folder
	update(t, s, func(tx *Tx) (err error) {
		if mine, err = tx.AddTag(ann.ID, "Mine", "#123456"); err != nil {
			return err
		}
		if theirs, err = tx.AddTag(bob.ID, "theirs", ""); err != nil {
			return err
		}
		folder, err = tx.AddFolder(bob.ID, "theirs", "")
		return err
	})
	fields := func(text string) map[string]string {
		f := form(t, record.Files, text)
		err := s.Update(func(tx *Tx) error {
			_, err := tx.Add(ann.ID, record.Files, f, content(record.Files, 1, 1), "")
			return err
		})
		var e *record.Error
		if !asError(err, &e) {
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
	is.Equal(fields(fmt.Sprintf(`{"tagIds":[%q],"newTags":%q}`, mine.ID, strings.Join(many, ","))), map[string]string{"tags": "must be at most 64"})

	r := add(t, s, ann.ID, record.Files, fmt.Sprintf(`{"tags":["MINE","new"],"tagIds":[%q],"newTags":"new, newer"}`, mine.ID))
	names := func() (names []string) {
		view(t, s, func(tx *Tx) error {
			now, err := tx.Record(ann.ID, record.Files, r.ID.String())
			if err != nil {
				return err
			}
			var v record.Shown
			err = tx.Show(now, &v)
			for _, t := range v.TagList {
				names = append(names, t.Name)
			}
			return err
		})
		return names
	}
	is.Equal(names(), []string{"Mine", "new", "newer"}) // as first written
	edit(t, s, r, fmt.Sprintf(`{"removeTagIds":[%q]}`, mine.ID))
	is.Equal(names(), []string{"new", "newer"})
	edit(t, s, r, fmt.Sprintf(`{"tags":["x"],"addTagIds":[%q]}`, mine.ID))
	is.Equal(names(), []string{"x", "Mine"})
	edit(t, s, r, `{"tags":[]}`)
	is.Equal(names(), nil)
	view(t, s, audit)
}
