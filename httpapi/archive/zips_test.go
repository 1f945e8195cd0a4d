package archive_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/archive"
	"kist/kv/record"
)

// Few contents are read at once. The others wait: one who has sent nothing not for long, and one who has a part of the
// answer until it leaves.
func TestSums(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		z := archive.NewZips()
		first, err := z.Sum(t.Context(), false, nil)
		is.NoErr(err)
		second, err := z.Sum(t.Context(), true, nil)
		is.NoErr(err)
		_, err = z.Sum(t.Context(), false, nil)
		refused(t, err)
		ctx, leave := context.WithCancel(t.Context())
		told := 0
		patient := make(chan error, 1)
		go func() { _, err := z.Sum(ctx, true, func() { told++ }); patient <- err }()
		<-time.After(2*time.Minute + time.Second) // of the bubble
		synctest.Wait()
		is.Equal(told, 12) // within the minute that a write may take
		leave()
		is.Equal(<-patient, context.Canceled)
		first()
		second()
		third, err := z.Sum(t.Context(), false, nil)
		is.NoErr(err)
		third()
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	is := is.New(t)
	var busy *record.Error
	is.True(errors.As(err, &busy) && busy.Fault == record.Busy && busy.Retry > 0)
}

// Layouts take turns, and the one that waits too long is told when to come again. Of one network, and of all, only so
// many wait.
func TestLayouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		z := archive.NewZips()
		network := func(n byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 32) }
		first, err := z.Layout(t.Context(), network(1))
		is.NoErr(err)
		second, err := z.Layout(t.Context(), network(1))
		is.NoErr(err)
		waited := make(chan error, 100)
		ask := func(n byte) {
			go func() { _, err := z.Layout(t.Context(), network(n)); waited <- err }()
			synctest.Wait()
		}
		for range 6 {
			ask(1)
		}
		is.Equal(len(waited), 0)
		ask(1)
		refused(t, <-waited)
		for n := range byte(56) {
			ask(2 + n)
		}
		is.Equal(len(waited), 0)
		ask(200)
		refused(t, <-waited)
		for range 62 {
			refused(t, <-waited) // after the time of the bubble
		}
		first()
		second()
		third, err := z.Layout(t.Context(), network(1))
		is.NoErr(err)
		third()
	})
}

// Zips that are being sent have a share of the memory for each network, and are refused at once beyond it.
func TestSending(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	type sending struct {
		network byte
		n       int
		got     bool
	}
	for name, all := range map[string][]sending{
		"one largest collection": {{1, record.MaxLive<<10 + 3*mib, true}},
		"one network":            {{1, 20 * mib, true}, {1, 4 * mib, true}, {1, 1, false}, {2, 1, true}},
		"too much for one":       {{1, 24*mib + 1, false}, {1, 24 * mib, true}},
		"all networks":           {{1, 24 * mib, true}, {2, 24 * mib, true}, {3, 16 * mib, true}, {4, 1, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			z := archive.NewZips()
			for range 2 { // all of it is given back
				var held []func()
				for _, one := range all {
					done, err := z.Send(netip.PrefixFrom(netip.AddrFrom4([4]byte{one.network}), 32), one.n)
					is.Equal(err == nil, one.got)
					if err == nil {
						held = append(held, done)
					}
				}
				for _, done := range held {
					done()
				}
			}
		})
	}
}

// What is remembered is bounded, and belongs to one state of an item.
func TestFacts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	z := archive.NewZips()
	one := archive.Item{Seq: 1}
	z.Remember(one, archive.Fact{Name: "a"})
	f, known := z.Fact(one)
	is.True(known && f.Name == "a")
	_, known = z.Fact(archive.Item{Seq: 2})
	is.True(!known)
	const many = 30_000
	for i := range many {
		z.Remember(archive.Item{Seq: uint64(i)}, archive.Fact{Name: strings.Repeat("n", 1000)})
	}
	n := 0
	for i := range many {
		if _, known := z.Fact(archive.Item{Seq: uint64(i)}); known {
			n++
		}
	}
	is.True(n > 5000 && n < 7000)
	_, known = z.Fact(archive.Item{Seq: many - 1})
	is.True(known)
}
