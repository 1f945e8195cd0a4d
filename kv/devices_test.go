package kv

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// device asks for a client to be let in.
func device(t *testing.T, s *Store, client string) (d *record.Device, secret string) {
	t.Helper()
	update(t, s, func(tx *Tx) (err error) {
		d, secret, err = tx.AddDevice(client, "192.0.2.1", "192.0.2.1/32")
		return err
	})
	return d, secret
}

// poll asks once; it returns the key or the code of the answer.
func poll(t *testing.T, s *Store, secret string) (key, code string) {
	t.Helper()
	update(t, s, func(tx *Tx) error {
		k, wait, err := tx.PollDevice(secret)
		if key = k; wait != nil {
			code = wait.Code
		}
		return err
	})
	return key, code
}

func TestDeviceFlow(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, t.TempDir(), c.now)
	u := user(t, s, "ann")
	d, secret := device(t, s, "extension")
	is.Equal(len(d.Code), 9)
	decide := func(code string, approve bool) error {
		return s.Update(func(tx *Tx) error { _, err := tx.DecideDevice(code, u.ID, approve); return err })
	}
	for range 3 { // at exactly the interval, and a little early by jitter
		_, code := poll(t, s, secret)
		is.Equal(code, "authorization_pending")
		c.add(DeviceInterval - 500*time.Millisecond)
	}
	_, code := poll(t, s, secret)
	is.Equal(code, "authorization_pending")
	c.add(time.Second)
	_, code = poll(t, s, secret)
	is.Equal(code, "slow_down")
	c.add(DeviceInterval)
	_, code = poll(t, s, secret)
	is.Equal(code, "slow_down") // the interval has grown
	c.add(3 * DeviceInterval)
	_, code = poll(t, s, secret)
	is.Equal(code, "authorization_pending")

	is.True(decide("XXXX-XXXX", true) != nil)
	is.NoErr(decide(strings.ToLower(strings.ReplaceAll(d.Code, "-", " ")), true)) // as people type
	is.True(decide(d.Code, true) != nil)                                          // it waits no more
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
	caller, err := s.Authenticate(got[0])
	is.NoErr(err)
	is.Equal(caller.Key.Device, "extension")
	is.Equal(caller.User.ID, u.ID)

	_, secret = device(t, s, "denied")
	view(t, s, func(tx *Tx) error {
		all, err := collect(devices, tx, nil)
		is.NoErr(err)
		d = &all[0]
		return audit(tx)
	})
	is.NoErr(decide(d.Code, false))
	_, code = poll(t, s, secret)
	is.Equal(code, "access_denied")

	d, secret = device(t, s, "late")
	c.add(DeviceTime)
	is.True(decide(d.Code, true) != nil)
	_, code = poll(t, s, secret)
	is.Equal(code, "expired_token")
	_, code = poll(t, s, "never")
	is.Equal(code, "invalid_grant")

	d, secret = device(t, s, "off")
	is.NoErr(decide(d.Code, true))
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{TokensOff: true}) })
	_, code = poll(t, s, secret)
	is.Equal(code, "access_denied")
}

// What was decided no longer counts against its network.
func TestDecidedDevicesMakeRoom(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := openAt(t, t.TempDir(), newClock().now)
	u := user(t, s, "ann")
	for range 2 * maxDevicesFrom {
		d, secret := device(t, s, "client")
		update(t, s, func(tx *Tx) error { _, err := tx.DecideDevice(d.Code, u.ID, false); return err })
		_, code := poll(t, s, secret)
		is.Equal(code, "access_denied")
	}
}

// Requests that wait are bounded; those that are over make room.
// A new password, or an account that is disabled, ends what was approved before:
// the client gets no key afterwards.
func TestDeviceApprovedBeforePassword(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*record.User){
		"password": func(u *record.User) { u.Password = "another hash" },
		"disabled": func(u *record.User) { u.Disabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := openAt(t, t.TempDir(), newClock().now)
			user(t, s, "admin")
			ann, bob := user(t, s, "ann"), user(t, s, "bob")
			mine, secret := device(t, s, "extension")
			other, otherSecret := device(t, s, "extension")
			update(t, s, func(tx *Tx) error {
				_, err := tx.DecideDevice(mine.Code, ann.ID, true)
				_, otherErr := tx.DecideDevice(other.Code, bob.ID, true)
				return errors.Join(err, otherErr)
			})
			update(t, s, func(tx *Tx) error {
				u, err := tx.User(ann.ID)
				is.NoErr(err)
				change(u)
				return tx.SaveUser(u)
			})
			update(t, s, func(tx *Tx) error { // it is enabled again
				u, err := tx.User(ann.ID)
				is.NoErr(err)
				u.Disabled = false
				return tx.SaveUser(u)
			})
			key, code := poll(t, s, secret)
			is.Equal(key, "")
			is.Equal(code, "invalid_grant")
			key, _ = poll(t, s, otherSecret)
			is.True(key != "")
		})
	}
}

func TestDeviceBounds(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, t.TempDir(), c.now)
	add := func(from string) error {
		return s.Update(func(tx *Tx) error { _, _, err := tx.AddDevice("client", "192.0.2.9", from); return err })
	}
	for range maxDevicesFrom {
		is.NoErr(add("192.0.2.1"))
	}
	var e *record.Error
	is.True(errors.As(add("192.0.2.1"), &e))
	is.Equal(e.Fault, record.TooMany)
	is.Equal(e.Retry, DeviceTime) // when the first of them is over
	c.add(time.Minute)
	is.True(errors.As(add("192.0.2.1"), &e))
	is.Equal(e.Retry, DeviceTime-time.Minute)
	is.NoErr(add("192.0.2.2"))
	update(t, s, func(tx *Tx) error {
		for i := range maxDevices - maxDevicesFrom - 1 {
			if _, _, err := tx.AddDevice("client", "192.0.2.1", fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	})
	is.True(add("192.0.2.3") != nil)
	c.add(DeviceTime)
	is.NoErr(add("192.0.2.1"))
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.Count(bucket("device")), 1)
		return audit(tx)
	})
}

// A session holds while it is used, for a year at most; its secret is no API
// key; turning keys off leaves it; a new password, and shutting the account, end
// it.
func TestSessions(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, t.TempDir(), c.now)
	u := user(t, s, "ann")
	var k *record.Key
	var secret string
	enter := func() {
		update(t, s, func(tx *Tx) (err error) { k, secret, err = tx.AddSession(u.ID, "browser", "192.0.2.1"); return err })
	}
	enter()
	_, err := s.Authenticate(secret)
	is.True(err != nil)
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{TokensOff: true}) })
	for c.now().Before(k.Created.Add(record.SessionTime)) {
		caller, err := s.AuthenticateSession(secret)
		is.NoErr(err)
		is.Equal(caller.Key.ID, k.ID)
		is.NoErr(s.Flush())
		c.add(29 * 24 * time.Hour)
	}
	_, err = s.AuthenticateSession(secret)
	is.True(err != nil)
	enter()
	c.add(record.SlideTime)
	_, err = s.AuthenticateSession(secret)
	is.True(err != nil)

	enter()
	view(t, s, func(tx *Tx) error {
		all, err := tx.Sessions(u.ID)
		is.NoErr(err)
		is.Equal(len(all), 1) // those that are over are not listed
		keys, err := tx.Keys(u.ID)
		is.NoErr(err)
		is.Equal(len(keys), 0)
		_, err = tx.Key(u.ID, k.ID)
		is.True(err != nil)
		return nil
	})
	update(t, s, (*Tx).DropSessions)
	view(t, s, func(tx *Tx) error { is.Equal(tx.Count(bucket("key")), 1); return audit(tx) })
	update(t, s, func(tx *Tx) error {
		u, err := tx.User(u.ID)
		if err != nil {
			return err
		}
		u.Password = "another hash"
		return tx.SaveUser(u)
	})
	_, err = s.AuthenticateSession(secret)
	is.True(err != nil)
	other := user(t, s, "bob")
	update(t, s, func(tx *Tx) (err error) { _, secret, err = tx.AddSession(other.ID, "", ""); return err })
	_, err = s.AuthenticateSession(secret)
	is.NoErr(err)
	update(t, s, func(tx *Tx) error {
		u, err := tx.User(other.ID)
		if err != nil {
			return err
		}
		u.Disabled = true
		return tx.SaveUser(u)
	})
	_, err = s.AuthenticateSession(secret)
	is.True(err != nil)
}
