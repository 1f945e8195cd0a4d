package people_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
)

var codeSecret = []byte("12345678901234567890")

// codesOn turns one-time codes on with codeSecret.
func codesOn(t *testing.T, s *kv.Store, owner record.ID) (recovery []string) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		recovery, err = people.SetCodes(tx, owner, codeSecret, people.OneTimeCode(codeSecret, tx.Now))
		return err
	})
	return recovery
}

// useCode reports whether a code is right, and uses it up.
func useCode(t testing.TB, s *kv.Store, owner record.ID, code string) (right bool) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { right, err = people.UseCode(tx, owner, code); return err })
	return right
}

func TestOneTimeCodes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	at := func(steps int) string {
		return people.OneTimeCode(codeSecret, c.Now().Add(time.Duration(steps)*30*time.Second))
	}
	is.True(!useCode(t, s, u.ID, at(0))) // there is no secret yet
	short, long := strings.Repeat("x", 15), strings.Repeat("x", 65)
	for _, bad := range []struct{ secret, code string }{
		{short, people.OneTimeCode([]byte(short), c.Now())},
		{long, people.OneTimeCode([]byte(long), c.Now())},
		{string(codeSecret), "000000"},
		{string(codeSecret), ""},
		{string(codeSecret), at(2)},
	} {
		is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
			_, err := people.SetCodes(tx, u.ID, []byte(bad.secret), bad.code)
			return err
		})), "invalid_fields")
	}
	is.Equal(len(codesOn(t, s, u.ID)), people.RecoveryCodes)
	is.True(!useCode(t, s, u.ID, at(0))) // the code that turned them on
	is.True(!useCode(t, s, u.ID, at(-1)))
	is.True(useCode(t, s, u.ID, at(1))) // a phone 30 seconds ahead
	is.True(!useCode(t, s, u.ID, at(1)))
	is.True(!useCode(t, s, u.ID, at(0))) // older than one that was used
	c.Add(90 * time.Second)
	for _, bad := range []string{"", "1", at(2), at(-2), at(0) + "0", at(0)[1:], "١٢٣٤٥٦"} {
		is.True(!useCode(t, s, u.ID, bad))
	}
	early := at(-1)
	is.True(useCode(t, s, u.ID, early[:3]+" "+early[3:])) // as apps show it
	is.True(useCode(t, s, u.ID, at(0)))
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.ClearCodes(tx, u.ID) })
	c.Add(time.Minute)
	is.True(!useCode(t, s, u.ID, at(0)))
	err := s.Update(func(tx *kv.Tx) error { return people.ClearCodes(tx, u.ID) })
	is.Equal(kvtest.Code(err), "not_found")
	is.Equal(err.Error(), "The user has no one-time codes.")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("login")), 0) // with the last step, the recovery codes go too
		return kvtest.Audit(tx)
	})
}

// A phone shows the true time. While the store doubts the clock, and after a clock that was ahead
// has been set back, that is the store's time or the clock's.
func TestOneTimeCodesOfDoubtedClock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	var elapsed atomic.Int64
	s := kvtest.Opened(t, t.TempDir(), kv.Options{
		Schema: tables.All, Now: c.Now, Log: kvtest.Quiet,
		Elapsed: func() time.Duration { return time.Duration(elapsed.Load()) },
	})
	pass := func(d time.Duration) { c.Add(d); elapsed.Add(int64(d)) }
	u := kvtest.User(t, s, "ann")
	codesOn(t, s, u.ID)

	pass(time.Hour) // a leap at the start would be believed
	is.Equal(s.Now(), c.Now().UTC())
	c.Add(2 * time.Hour)
	byStore, byClock := people.OneTimeCode(codeSecret, s.Now()), people.OneTimeCode(codeSecret, c.Now())
	is.True(!s.Now().After(c.Now().Add(-2 * time.Hour))) // it is doubted
	is.True(!useCode(t, s, u.ID, people.OneTimeCode(codeSecret, c.Now().Add(-time.Hour))))
	is.True(useCode(t, s, u.ID, byStore))
	is.True(!useCode(t, s, u.ID, byStore))
	is.True(useCode(t, s, u.ID, byClock))
	is.True(!useCode(t, s, u.ID, byClock))
	is.True(!useCode(t, s, u.ID, byStore)) // older than one that was used

	pass(3 * time.Hour) // now it is believed
	is.Equal(s.Now(), c.Now().UTC())
	c.Add(-2 * time.Hour)
	is.True(s.Now().After(c.Now().Add(time.Hour)))
	byClock = people.OneTimeCode(codeSecret, c.Now())
	is.True(useCode(t, s, u.ID, byClock))
	is.True(!useCode(t, s, u.ID, byClock))

	ben := kvtest.User(t, s, "ben")
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		_, err := people.SetCodes(tx, ben.ID, codeSecret, byClock)
		return err
	})
}

func TestOneTimeCodeRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	recovery := codesOn(t, s, u.ID)
	code := people.OneTimeCode(codeSecret, s.Now().Add(30*time.Second))
	for _, use := range []func(tx *kv.Tx) (bool, error){
		func(tx *kv.Tx) (bool, error) { return people.UseCode(tx, u.ID, code) },
		func(tx *kv.Tx) (bool, error) { return people.UseRecovery(tx, u.ID, recovery[0]) },
	} {
		var wg sync.WaitGroup
		var won atomic.Int64
		for range 20 {
			wg.Go(func() {
				right := false
				if err := s.Update(func(tx *kv.Tx) (err error) { right, err = use(tx); return err }); err != nil {
					t.Error(err)
				}
				if right {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		is.Equal(won.Load(), int64(1))
	}
}

func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	renew := func() (codes []string, err error) {
		return codes, s.Update(func(tx *kv.Tx) (err error) { codes, err = people.RenewRecovery(tx, u.ID); return err })
	}
	use := func(code string) (right bool) {
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) { right, err = people.UseRecovery(tx, u.ID, code); return err })
		return right
	}
	_, err := renew()
	is.Equal(kvtest.Code(err), "no_second_step")
	is.True(!use(""))
	codes := codesOn(t, s, u.ID)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for _, v := range kvtest.Dump(tx) {
			for _, code := range codes {
				is.True(!strings.Contains(v, code) && !strings.Contains(v, strings.ReplaceAll(code, "-", "")))
			}
		}
		return nil
	})
	is.True(!use("BCDF-GHJK-BCDF-GHJK"))
	for i, code := range codes {
		if i%2 == 0 {
			code = strings.ToLower(strings.ReplaceAll(code, "-", " ")) // as people type
		}
		is.True(use(code))
		is.True(!use(code))
	}
	again, err := renew()
	is.NoErr(err)
	is.Equal(len(again), people.RecoveryCodes)
	third, err := renew()
	is.NoErr(err)
	is.True(!use(again[0])) // replaced
	is.True(use(third[0]))
}

func TestPasskeyRows(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	add := func(owner record.ID, id string) (p *people.Passkey, recovery []string, err error) {
		return p, recovery, s.Update(func(tx *kv.Tx) (err error) {
			p, recovery, err = people.AddPasskey(
				tx, people.Passkey{Owner: owner, Name: "key " + id, Credential: []byte(id), Key: []byte("k")},
			)
			return err
		})
	}
	first, recovery, err := add(ann.ID, "0")
	is.NoErr(err)
	is.Equal(len(recovery), people.RecoveryCodes)
	_, _, err = add(ann.ID, "0")
	is.Equal(kvtest.Code(err), "passkey_taken")
	_, _, err = add(bob.ID, "0") // of another account
	is.Equal(kvtest.Code(err), "passkey_taken")
	_, _, err = add(uuid.New(), "0")
	is.Equal(kvtest.Code(err), "not_found")
	for i := 1; i < people.MaxPasskeys; i++ {
		_, recovery, err := add(ann.ID, string(rune('a'+i)))
		is.NoErr(err)
		is.Equal(recovery, nil) // only with the first
	}
	_, _, err = add(ann.ID, "one more")
	is.Equal(kvtest.Code(err), "too_many_passkeys")

	use := func(owner record.ID, count int64) (ok bool, err error) {
		return ok, s.Update(func(tx *kv.Tx) (err error) {
			ok, err = people.UsePasskey(tx, owner, first.ID, count, "192.0.2.1")
			return err
		})
	}
	for _, row := range []struct {
		count int64
		ok    bool
	}{{0, true}, {0, true}, {5, true}, {5, false}, {4, false}, {0, false}, {6, true}} {
		ok, err := use(ann.ID, row.count)
		is.NoErr(err)
		is.Equal(ok, row.ok)
	}
	_, err = use(bob.ID, 7)
	is.Equal(kvtest.Code(err), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		page, err := people.ActivityOf(tx, ann.ID, nil, 1)
		is.NoErr(err)
		is.Equal(page.Rows[0].Event, people.PasskeyRefused)
		is.Equal(page.Rows[0].More, int64(2))
		return kvtest.Audit(tx)
	})
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		all, err := people.Passkeys(tx, ann.ID)
		is.NoErr(err)
		for _, p := range all {
			has, err := people.HasSecondStep(tx, ann.ID)
			is.NoErr(err)
			is.True(has)
			is.NoErr(people.RemovePasskey(tx, ann.ID, p.ID))
		}
		has, err := people.HasSecondStep(tx, ann.ID)
		is.True(!has)
		is.Equal(tx.Count(kvtest.Bucket("login")), 0)
		return err
	})
}

// A reset leaves no way in but its link: the password, sessions, devices, codes, passkeys and links are gone. API keys
// stay and are counted, or go if that is asked for.
func TestResetLogin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	kvtest.User(t, s, "bob")
	codesOn(t, s, u.ID)
	enter := func() string {
		return kvtest.Code(s.Update(func(tx *kv.Tx) error {
			_, _, err := people.AddSession(tx, u.ID, "", "", time.Time{})
			return err
		}))
	}
	password := func(hash string) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, u.ID)
			is.NoErr(err)
			u.Password = hash
			return people.SaveUser(tx, u)
		})
	}
	password("hash")
	is.Equal(enter(), "")
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for _, k := range []people.Key{
			{Name: "key"}, {Name: "off", Disabled: true}, {
				Name: "ends", Expires: c.Now().Add(time.Minute),
			}, {Name: "phone", Device: "phone"},
		} {
			k.Owner, k.Scopes = u.ID, []people.Scope{people.ScopeAll}
			_, _, err := people.AddKey(tx, k)
			is.NoErr(err)
		}
		return people.AddIdentity(tx, u.ID, "https://id.example.org", "1", "ann", "")
	})
	c.Add(time.Hour)
	reset := func(keys bool) (done people.Reset) {
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			done, err = people.ResetLogin(tx, u.ID, "operator", keys)
			return err
		})
		return done
	}
	valid := func(secret string) string {
		return kvtest.Code(s.View(func(tx *kv.Tx) error { _, err := people.ResetOf(tx, secret); return err }))
	}
	first := reset(false)
	is.Equal(valid(first.Secret), "")
	is.Equal([]int{first.Devices, first.Revoked, first.Kept}, []int{1, 0, 1})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := people.ReadUser(tx, u.ID)
		is.NoErr(err)
		is.Equal(now.Password, "")
		has, err := people.HasSecondStep(tx, u.ID)
		is.NoErr(err)
		is.True(!has)
		links, err := people.Identities(tx, u.ID)
		is.NoErr(err)
		is.Equal(len(links), 0)
		sessions, err := people.Sessions(tx, u.ID)
		is.Equal(len(sessions), 0)
		return err
	})
	is.Equal(enter(), "login_reset")
	second := reset(true)
	is.Equal([]int{second.Devices, second.Revoked, second.Kept}, []int{0, 3, 0})
	for _, bad := range []string{"", "x", first.Secret, second.Secret[1:], second.Secret + "A", strings.Repeat("A", 64)} {
		is.Equal(valid(bad), "not_found")
	}
	is.Equal(valid(second.Secret), "")
	c.Add(people.ResetTime)
	is.Equal(valid(second.Secret), "not_found")
	is.Equal(enter(), "login_reset") // also after the link has ended

	// To disable the account and enable it again opens nothing. A new password does.
	third := reset(false)
	for _, off := range []bool{true, false} {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, u.ID)
			is.NoErr(err)
			u.Disabled = off
			return people.SaveUser(tx, u)
		})
	}
	is.Equal(valid(third.Secret), "not_found")
	is.Equal(enter(), "login_reset")
	password("another")
	is.Equal(enter(), "")
	is.Equal(valid(strings.Repeat("A", 64)), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(tx.Count(kvtest.Bucket("login")), 0); return kvtest.Audit(tx) })
}

func TestConfirmSession(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	var secret string
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddSession(tx, u.ID, "Firefox", "", tx.Now)
		return err
	})
	recent := func() (bool, record.ID) {
		caller, err := people.AuthenticateSession(s, secret)
		is.NoErr(err)
		return caller.Key.Recent(s.Now()), caller.Key.ID
	}
	ok, id := recent()
	is.True(ok)
	c.Add(people.RecentTime)
	ok, _ = recent()
	is.True(!ok)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.ConfirmSession(tx, u.ID, id) })
	ok, _ = recent()
	is.True(ok)
	c.Add(people.RecentTime)
	ok, _ = recent()
	is.True(!ok)
}
