package people_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// device requests access for a client.
func device(t *testing.T, s *kv.Store, client string) (d *people.Device, secret string) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		d, secret, err = people.AddDevice(tx, client, "192.0.2.1", "192.0.2.1/32")
		return err
	})
	return d, secret
}

// poll polls once and returns the key or the code of the answer.
func poll(t *testing.T, s *kv.Store, secret string) (key, code string) {
	t.Helper()
	key, wait, err := people.PollDevice(s, secret)
	if err != nil {
		t.Fatal(err)
	}
	if wait != nil {
		code = wait.Code
	}
	return key, code
}

func TestDeviceFlow(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	d, secret := device(t, s, "extension")
	is.Equal(len(d.Code), 9)
	decide := func(code string, approve bool) error {
		return s.Update(func(tx *kv.Tx) error { _, err := people.DecideDevice(tx, code, u.ID, approve); return err })
	}
	for range 3 { // at exactly the interval, and a little early by jitter
		_, code := poll(t, s, secret)
		is.Equal(code, "authorization_pending")
		c.Add(people.DeviceInterval - 500*time.Millisecond)
	}
	_, code := poll(t, s, secret)
	is.Equal(code, "authorization_pending")
	c.Add(time.Second)
	_, code = poll(t, s, secret)
	is.Equal(code, "slow_down")
	c.Add(people.DeviceInterval)
	_, code = poll(t, s, secret)
	is.Equal(code, "slow_down") // the interval has grown
	c.Add(3 * people.DeviceInterval)
	_, code = poll(t, s, secret)
	is.Equal(code, "authorization_pending")

	is.True(decide("XXXX-XXXX", true) != nil)
	is.NoErr(decide(strings.ToLower(strings.ReplaceAll(d.Code, "-", " ")), true)) // as people type
	is.True(decide(d.Code, true) != nil)                                          // it no longer waits
	// Many polls at once yield one key.
	var wg sync.WaitGroup
	var mu sync.Mutex
	var got []string
	for range 20 {
		wg.Go(func() {
			key, code := poll(t, s, secret)
			mu.Lock()
			defer mu.Unlock()
			if key != "" {
				got = append(got, key)
			} else if code != "invalid_grant" {
				t.Error(code)
			}
		})
	}
	wg.Wait()
	is.Equal(len(got), 1)
	caller, err := people.Authenticate(s, got[0])
	is.NoErr(err)
	is.Equal(caller.Key.Device, "extension")
	is.Equal(caller.User.ID, u.ID)

	_, secret = device(t, s, "denied")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		all, err := kv.Collect(people.DeviceRows, tx, nil)
		is.NoErr(err)
		d = &all[0]
		return kvtest.Audit(tx)
	})
	is.NoErr(decide(d.Code, false))
	_, code = poll(t, s, secret)
	is.Equal(code, "access_denied")

	d, secret = device(t, s, "late")
	c.Add(people.DeviceTime)
	is.True(decide(d.Code, true) != nil)
	_, code = poll(t, s, secret)
	is.Equal(code, "expired_token")
	_, code = poll(t, s, "never")
	is.Equal(code, "invalid_grant")

	d, secret = device(t, s, "off")
	is.NoErr(decide(d.Code, true))
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{TokensOff: true}) })
	_, code = poll(t, s, secret)
	is.Equal(code, "access_denied")
}

// A decided request no longer counts against its network.
func TestDecidedDevicesMakeRoom(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.OpenAt(t, t.TempDir(), kvtest.NewClock().Now)
	u := kvtest.User(t, s, "ann")
	for range 2 * people.MaxDevicesFrom {
		d, secret := device(t, s, "client")
		kvtest.Update(t, s, func(tx *kv.Tx) error { _, err := people.DecideDevice(tx, d.Code, u.ID, false); return err })
		_, code := poll(t, s, secret)
		is.Equal(code, "access_denied")
	}
}

// A new password, or disabling the account, ends earlier approvals: the client gets
// no key afterwards.
func TestDeviceApprovedBeforePassword(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*people.User){
		"password": func(u *people.User) { u.Password = "another hash" },
		"disabled": func(u *people.User) { u.Disabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := kvtest.OpenAt(t, t.TempDir(), kvtest.NewClock().Now)
			kvtest.User(t, s, "admin")
			ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
			mine, secret := device(t, s, "extension")
			other, otherSecret := device(t, s, "extension")
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				_, err := people.DecideDevice(tx, mine.Code, ann.ID, true)
				_, otherErr := people.DecideDevice(tx, other.Code, bob.ID, true)
				return errors.Join(err, otherErr)
			})
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				u, err := people.ReadUser(tx, ann.ID)
				is.NoErr(err)
				change(u)
				return people.SaveUser(tx, u)
			})
			kvtest.Update(t, s, func(tx *kv.Tx) error { // it is enabled again
				u, err := people.ReadUser(tx, ann.ID)
				is.NoErr(err)
				u.Disabled = false
				return people.SaveUser(tx, u)
			})
			key, code := poll(t, s, secret)
			is.Equal(key, "")
			is.Equal(code, "invalid_grant")
			key, _ = poll(t, s, otherSecret)
			is.True(key != "")
		})
	}
}

// The number of waiting requests is bounded; expired ones make room.
func TestDeviceBounds(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	add := func(from string) error {
		return s.Update(func(tx *kv.Tx) error { _, _, err := people.AddDevice(tx, "client", "192.0.2.9", from); return err })
	}
	for range people.MaxDevicesFrom {
		is.NoErr(add("192.0.2.1"))
	}
	var e *record.Error
	is.True(errors.As(add("192.0.2.1"), &e))
	is.Equal(e.Fault, record.TooMany)
	is.Equal(e.Retry, people.DeviceTime) // when the first of them expires
	c.Add(time.Minute)
	is.True(errors.As(add("192.0.2.1"), &e))
	is.Equal(e.Retry, people.DeviceTime-time.Minute)
	is.NoErr(add("192.0.2.2"))
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i := range people.MaxDevices - people.MaxDevicesFrom - 1 {
			if _, _, err := people.AddDevice(tx, "client", "192.0.2.1", fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	})
	is.NoErr(add("192.0.2.3")) // the oldest of the network that has most is dropped
	is.NoErr(add("192.0.2.1"))
	c.Add(people.DeviceTime)
	is.NoErr(add("192.0.2.1"))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("device")), 1)
		return kvtest.Audit(tx)
	})
}

// Strangers do not keep the owner from connecting a device, whether the owner's network has
// signed in or not.
func TestDevicesOfStrangers(t *testing.T) {
	t.Parallel()
	for network, signedIn := range map[string]bool{"home": true, "new": false} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := kvtest.NewClock()
			s := kvtest.OpenAt(t, t.TempDir(), c.Now)
			if signedIn {
				people.TriesOf(s).SignedIn(network, c.Now())
			}
			add := func(from string) (secret string) {
				kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
					_, secret, err = people.AddDevice(tx, "client", "192.0.2.9", from)
					return err
				})
				return secret
			}
			strangers := func(networks, each int, name string) {
				for i := range networks {
					for range each {
						c.Add(time.Millisecond)
						add(fmt.Sprint(name, i))
					}
				}
			}
			strangers(40, people.MaxDevicesFrom, "stranger")
			secret := add(network)
			strangers(30, people.MaxDevicesFrom, "more")
			if signedIn { // then nobody can, with any number of networks
				strangers(2*people.MaxDevices, 1, "crowd")
			}
			_, code := poll(t, s, secret)
			is.Equal(code, "authorization_pending")
			kvtest.View(t, s, func(tx *kv.Tx) error {
				is.Equal(tx.Count(kvtest.Bucket("device")), people.MaxDevices)
				return kvtest.Audit(tx)
			})
		})
	}
}

// A poll is not written to the disk, unless it gets the key.
func TestPollsWriteNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.OpenAt(t, t.TempDir(), kvtest.NewClock().Now)
	_, secret := device(t, s, "client")
	seq := func() (n uint64) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			n = binary.BigEndian.Uint64(tx.Get(kvtest.Bucket("meta"), kv.MetaInstant))
			return nil
		})
		return n
	}
	before := seq()
	for _, want := range []string{"authorization_pending", "slow_down", "slow_down"} {
		_, code := poll(t, s, secret)
		is.Equal(code, want)
	}
	_, code := poll(t, s, "unknown")
	is.Equal(code, "invalid_grant")
	is.Equal(seq(), before)
}

// A network that has its share of requests waits for its own, not for those of others.
func TestDeviceRetry(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	add := func(from string) error {
		return s.Update(func(tx *kv.Tx) error { _, _, err := people.AddDevice(tx, "client", "192.0.2.9", from); return err })
	}
	is.NoErr(add("192.0.2.2"))
	for range people.MaxDevicesFrom {
		c.Add(time.Second)
		is.NoErr(add("192.0.2.1"))
	}
	c.Add(time.Minute)
	var e *record.Error
	is.True(errors.As(add("192.0.2.1"), &e))
	is.Equal(e.Retry, people.DeviceTime-time.Minute-(people.MaxDevicesFrom-1)*time.Second)
	is.NoErr(add("192.0.2.2"))
}

// A session lasts while it is used, for a year at most. Its secret doesn't work as an
// API key. Turning keys off leaves it alone. A new password and disabling the account
// end it.
func TestSessions(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	var k *people.Key
	var secret string
	enter := func() {
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			k, secret, err = people.AddSession(tx, u.ID, "browser", "192.0.2.1", tx.Now)
			return err
		})
	}
	enter()
	_, err := people.Authenticate(s, secret)
	is.True(err != nil)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{TokensOff: true}) })
	for c.Now().Before(k.Created.Add(people.SessionTime)) {
		caller, err := people.AuthenticateSession(s, secret)
		is.NoErr(err)
		is.Equal(caller.Key.ID, k.ID)
		is.NoErr(s.Flush())
		c.Add(29 * 24 * time.Hour)
	}
	_, err = people.AuthenticateSession(s, secret)
	is.True(err != nil)
	enter()
	c.Add(people.SlideTime)
	_, err = people.AuthenticateSession(s, secret)
	is.True(err != nil)

	enter()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		all, err := people.Sessions(tx, u.ID)
		is.NoErr(err)
		is.Equal(len(all), 1) // expired ones are not listed
		keys, err := people.Keys(tx, u.ID)
		is.NoErr(err)
		is.Equal(len(keys), 0)
		_, err = people.ReadKey(tx, u.ID, k.ID)
		is.True(err != nil)
		return nil
	})
	kvtest.Update(t, s, people.DropSessions)
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(tx.Count(kvtest.Bucket("key")), 1); return kvtest.Audit(tx) })
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, u.ID)
		if err != nil {
			return err
		}
		u.Password = "another hash"
		return people.SaveUser(tx, u)
	})
	_, err = people.AuthenticateSession(s, secret)
	is.True(err != nil)
	other := kvtest.User(t, s, "bob")
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddSession(tx, other.ID, "", "", tx.Now)
		return err
	})
	_, err = people.AuthenticateSession(s, secret)
	is.NoErr(err)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, other.ID)
		if err != nil {
			return err
		}
		u.Disabled = true
		return people.SaveUser(tx, u)
	})
	_, err = people.AuthenticateSession(s, secret)
	is.True(err != nil)
}
