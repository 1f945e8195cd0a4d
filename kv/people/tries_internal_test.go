package people

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"kist/kv/kvtest/needs"

	"github.com/matryer/is"
)

var triedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func passwordLimit(of string) Limit { return Limit{Kind: 'p', Of: of, Most: 5} }

func TestTriesCount(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	tell := func(is *is.I, c *Tries, right bool, now time.Time, limits ...Limit) bool {
		wait := c.Wait(now, limits...)
		which, left := c.Settle(now, right, limits...)
		is.Equal(wait, left)
		is.Equal(which < 0, wait == 0)
		return which < 0
	}
	t.Run("five wrong ones", func(t *testing.T) {
		is := is.New(t)
		c := newTries([32]byte{1})
		for range 5 {
			is.True(tell(is, c, false, triedAt, passwordLimit("a")))
		}
		is.True(!tell(is, c, true, triedAt, passwordLimit("a"))) // even the right one reveals nothing now
		is.True(tell(is, c, true, triedAt, passwordLimit("b")))
		is.True(tell(is, c, true, triedAt, Limit{Kind: 'q', Of: "a", Most: 5}))
		is.Equal(c.Wait(triedAt.Add(time.Minute), passwordLimit("b"), passwordLimit("a")), 4*time.Minute)
		is.True(!tell(is, c, true, triedAt.Add(TryWindow-1), passwordLimit("a")))
		is.True(tell(is, c, false, triedAt.Add(TryWindow), passwordLimit("a")))
		is.True(tell(is, c, true, triedAt.Add(TryWindow), passwordLimit("a")))
	})
	t.Run("right ones are not counted", func(t *testing.T) {
		is := is.New(t)
		c := newTries([32]byte{1})
		for range 100 {
			is.True(tell(is, c, true, triedAt, passwordLimit("a")))
		}
	})
	t.Run("the limit that holds longest", func(t *testing.T) {
		is := is.New(t)
		c := newTries([32]byte{1})
		for i := range 5 {
			c.Settle(triedAt, false, passwordLimit("a"))
			c.Settle(triedAt.Add(time.Duration(i+1)*time.Second), false, passwordLimit("b"))
		}
		which, wait := c.Settle(triedAt.Add(time.Minute), false, passwordLimit("c"), passwordLimit("a"), passwordLimit("b"))
		is.Equal(which, 2)
		is.Equal(wait, 4*time.Minute+time.Second)
	})
	t.Run("counted without a limit", func(t *testing.T) {
		is := is.New(t)
		c := newTries([32]byte{1})
		for range 100 {
			is.True(tell(is, c, false, triedAt, Limit{Kind: 'p', Of: "a"}))
		}
		is.True(!tell(is, c, true, triedAt, passwordLimit("a")))
	})
	t.Run("outcomes that are late", func(t *testing.T) {
		is := is.New(t)
		c := newTries([32]byte{1})
		for range 5 {
			which, _ := c.Settle(triedAt, false, passwordLimit("a"))
			is.Equal(which, -1)
		}
		for _, right := range []bool{true, false} { // started before the fifth was counted
			which, _ := c.Settle(triedAt, right, passwordLimit("a"))
			is.Equal(which, 0)
		}
	})
	t.Run("memory is bounded", func(t *testing.T) {
		is := is.New(t)
		c := newTries([32]byte{1})
		for i := range 5 { // before the crowd comes
			c.Settle(triedAt.Add(time.Duration(i)), false, passwordLimit("a"))
		}
		for i := range maxTries + 50_000 { // each under a name of its own
			c.Settle(triedAt, false, passwordLimit(fmt.Sprint("crowd ", i)))
		}
		is.True(len(c.counts) <= maxTries+sharedTries)
		is.True(!tell(is, c, true, triedAt, passwordLimit("a"))) // not pushed out
		told := 0
		for range 10 {
			if tell(is, c, false, triedAt, passwordLimit("b")) { // no room for a count of its own
				told++
			}
		}
		is.True(told <= 5)
		late := triedAt.Add(TryWindow + 5)
		is.True(tell(is, c, false, late, passwordLimit("c")))
		is.Equal(len(c.counts), 1) // expired counts are dropped
	})
	t.Run("networks", func(t *testing.T) {
		is := is.New(t)
		c := newTries([32]byte{1})
		is.True(!c.Familiar("192.0.2.7/32", triedAt))
		c.SignedIn("192.0.2.7/32", triedAt)
		is.True(c.Familiar("192.0.2.7/32", triedAt))
		is.True(!c.Familiar("192.0.2.8/32", triedAt))
		is.True(!c.Familiar("192.0.2.7/32", triedAt.Add(networkTime)))
		for i := range maxNetworks {
			c.SignedIn(fmt.Sprint(i), triedAt.Add(time.Second))
		}
		is.Equal(len(c.networks), maxNetworks)
		is.True(!c.Familiar("192.0.2.7/32", triedAt)) // the oldest has gone
		is.True(c.Familiar("0", triedAt))
	})
}

// TestStoredTries pins the bytes of the rows on the disk. They never change.
func TestStoredTries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	at := time.UnixMilli(0x0123456789ab).UTC()
	is.Equal(hex.EncodeToString(triesRow(tries{n: 7, since: at})), "0000000700000123456789ab")
	is.Equal(hex.EncodeToString(networkRow(at)), "00000123456789ab")
}

func TestTriesRows(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newTries([32]byte{1, 2, 3})
	key := tryRowKey(c.key('p', "192.0.2.7/32 login:ann"))
	is.Equal(hex.EncodeToString(key), "747279207077027031d63a070ffca7f4fcb9876c1d")
	row := triesRow(tries{7, triedAt})
	is.Equal(hex.EncodeToString(row), "000000070000019b7ca98c88")
	is.Equal(hex.EncodeToString(networkRow(triedAt)), "0000019b7ca98c88")
	k, got, ok := readTryRow(key, row, triedAt.Add(time.Hour))
	is.True(ok)
	is.Equal(k, c.key('p', "192.0.2.7/32 login:ann"))
	is.Equal(got, tries{7, triedAt})
	_, got, ok = readTryRow(key, row, triedAt.Add(-time.Hour)) // the clock was ahead
	is.True(ok)
	is.Equal(got.since, triedAt.Add(-time.Hour))
	for _, bad := range [][2][]byte{
		{key[1:], row},
		{append(key, 0), row},
		{key, row[1:]},
		{key, append(row, 0)},
		{key, nil},
		{tryRowKey(c.key(networkKind, "x")), row},
	} {
		_, _, ok := readTryRow(bad[0], bad[1], triedAt)
		is.True(!ok)
	}
}
