package people_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

// activity lists the events of an account, latest first, with how often each happened.
func activity(t *testing.T, s *kv.Store, owner record.ID) (all []string) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		p, err := people.ActivityOf(tx, owner, nil, 1000)
		for _, a := range p.Rows {
			all = append(all, fmt.Sprintf("%s %s%s %d", a.Event, a.Name, a.Address, a.More+1))
		}
		return err
	})
	return all
}

func note(t *testing.T, s *kv.Store, a people.Activity) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.Note(tx, a) })
}

func TestActivityOfKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	var k *people.Key
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		k, _, err = people.AddKey(tx, people.Key{Owner: u.ID, Name: "laptop"})
		if err != nil {
			return err
		}
		_, _, err = people.AddSession(tx, u.ID, "Firefox ", "192.0.2.1", tx.Now)
		return err
	})
	use := func(address string) {
		a := netip.MustParseAddr(address)
		network, err := a.Prefix(map[bool]int{true: 64, false: 32}[a.Is6()])
		is.NoErr(err)
		people.UsedFrom(s, k, a, network)
	}
	for range 3 {
		for _, address := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"} {
			use(address)
			is.NoErr(s.Flush()) // in the order of the uses
		}
		c.Add(24 * time.Hour)
		people.ForgetPlaces(s) // as after a restart
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		all, err := people.Sessions(tx, u.ID)
		if err == nil {
			err = people.RevokeOne(tx, &all[0], "")
		}
		if err == nil {
			_, err = people.Revoke(tx, u.ID, "root", func(*people.Key) bool { return true })
		}
		return err
	})
	use("192.0.2.9") // a request that was under way
	is.NoErr(s.Flush())
	is.Equal(activity(t, s, u.ID), []string{
		"key_revoked laptop 1", "session_revoked Firefox 192.0.2.1 1", "key_used laptop2001:db8::1 1", "key_used laptop192.0.2.2 1",
		"key_used laptop192.0.2.1 1", "signed_in Firefox 192.0.2.1 1", "key_created laptop 1",
	})
	kvtest.View(t, s, kvtest.Audit)
}

func TestActivityRepeats(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	one := people.Activity{Owner: u.ID, Event: people.FileReceived, Name: "photos "}
	for range 61 {
		note(t, s, one)
		c.Add(time.Minute)
	}
	note(t, s, people.Activity{Owner: u.ID, Event: people.FileReceived, Name: "others "})
	note(t, s, one)
	note(t, s, people.Activity{Owner: uuid.Max, Event: people.FileReceived}) // of nobody
	is.Equal(
		activity(t, s, u.ID),
		[]string{
			"request_received photos  1", "request_received others  1", "request_received photos  1",
			"request_received photos  60",
		},
	)
}

// An account keeps the latest rows, for 400 days, also through a repair of the clock.
func TestActivityBounds(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u, other := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	start := c.Now()
	note(t, s, people.Activity{Owner: other.ID, Event: people.SignedIn})
	const more = 5
	for n := 0; n < people.MaxActivity+more; n += 501 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for i := n; i < min(n+501, people.MaxActivity+more); i++ {
				if err := people.Note(tx, people.Activity{Owner: u.ID, Event: people.ItemShared, Name: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	page := func(after []byte, limit int) (p people.ActivityPage) {
		kvtest.View(t, s, func(tx *kv.Tx) (err error) { p, err = people.ActivityOf(tx, u.ID, after, limit); return err })
		return p
	}
	want, p := people.MaxActivity+more-1, people.ActivityPage{}
	for first := true; first || p.Next != nil; first = false {
		p = page(p.Next, 999)
		is.Equal(p.Total, int64(people.MaxActivity))
		for _, a := range p.Rows {
			is.Equal(a.Name, fmt.Sprint(want))
			want--
		}
	}
	is.Equal(want, more-1)

	c.Ms.Store(start.Add(people.ActivityTime).UnixMilli())
	kvtest.Tick(s)
	is.Equal(len(activity(t, s, other.ID)), 1)
	c.Add(time.Millisecond)
	for range people.MaxActivity/kv.RemoveBatch + 1 {
		kvtest.Tick(s)
	}
	is.Equal(len(activity(t, s, other.ID)), 0)
	is.Equal(page(nil, 10).Total, int64(0))
	kvtest.View(t, s, kvtest.Audit)
}

// Administrators see who signs in and what changes, and not what accounts share.
func TestAdminActivity(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	note(t, s, people.Activity{Owner: ann.ID, Event: people.SignedIn})
	note(t, s, people.Activity{Event: people.SettingsChanged, By: "ann"})
	note(t, s, people.Activity{Owner: bob.ID, Event: people.ItemShared})
	note(t, s, people.Activity{Owner: bob.ID, Event: people.KeyUsed})
	list := func() (all []people.ActivityEvent, total int64) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for after := []byte(nil); ; {
				p, err := people.AdminActivity(tx, after, 1)
				if err != nil || len(p.Rows) == 0 {
					return err
				}
				all, total = append(all, p.Rows[0].Event), p.Total
				after = p.Next
				if after == nil {
					return nil
				}
			}
		})
		return all, total
	}
	all, total := list()
	is.Equal(all, []people.ActivityEvent{people.KeyUsed, people.SettingsChanged, people.SignedIn})
	is.Equal(total, int64(3))
	is.NoErr(people.RemoveUser(s, bob.ID, "ann"))
	all, total = list()
	is.Equal(all, []people.ActivityEvent{people.AccountRemoved, people.SettingsChanged, people.SignedIn})
	is.Equal(total, int64(3))
	kvtest.View(t, s, kvtest.Audit)
}

// However many networks a key is used from, few are in memory.
func TestPlacesInMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	k := &people.Key{Owner: u.ID, ID: record.ID{1}} // not in the store
	for i := range 3 * people.MaxPlaces {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		people.UsedFrom(s, k, a, netip.PrefixFrom(a, 32))
		known, waiting := people.Places(s)
		is.True(known <= people.MaxPlaces && waiting <= people.MaxNewPlaces)
	}
}
