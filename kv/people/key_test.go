package people_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
)

func TestScopes(t *testing.T) {
	all := []people.Scope{people.ScopeRead, people.ScopeWrite, people.ScopeUpload, people.ScopeAll, people.ScopeAdmin}
	for _, row := range []struct {
		has  []people.Scope
		want []bool
	}{
		{nil, []bool{false, false, false, false, false}},
		{[]people.Scope{people.ScopeRead}, []bool{true, false, false, false, false}},
		{[]people.Scope{people.ScopeWrite}, []bool{false, true, true, false, false}},
		{[]people.Scope{people.ScopeUpload}, []bool{false, false, true, false, false}},
		{[]people.Scope{people.ScopeRead, people.ScopeUpload}, []bool{true, false, true, false, false}},
		{[]people.Scope{people.ScopeAll}, []bool{true, true, true, true, false}},
		{[]people.Scope{people.ScopeAdmin}, []bool{true, true, true, true, true}},
	} {
		t.Run(fmt.Sprint(row.has), func(t *testing.T) {
			is := is.New(t)
			for i, s := range all {
				is.Equal((&people.Key{Scopes: row.has}).Allows(s), row.want[i])
			}
		})
	}
	is := is.New(t)
	for _, s := range all {
		got, err := people.CleanScope(string(s))
		is.NoErr(err)
		is.Equal(got, string(s))
	}
	for _, s := range []string{"", "ALL", "root"} {
		_, err := people.CleanScope(s)
		is.True(err != nil)
	}
}

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
	for _, bad := range []string{
		"", "kist_", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), strings.Repeat("x", 100_000),
	} {
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
		{"api_tokens_disabled", func() {
			account(func(u *people.User) { u.TokensOff = true })
		}, func() { account(func(u *people.User) { u.TokensOff = false }) }},
		{"user_disabled", func() {
			account(func(u *people.User) { u.Disabled = true })
		}, func() { account(func(u *people.User) { u.Disabled = false }) }},
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
