package archive_test

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/archive"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// sums is a Sums whose kept sums the test sees.
func sums(t *testing.T) (s *archive.Sums, kept map[catalog.CRCKey]uint32) {
	t.Helper()
	kept = map[catalog.CRCKey]uint32{}
	s = archive.NewSums(func(more map[catalog.CRCKey]uint32) error {
		for k, v := range more {
			kept[k] = v
		}
		return nil
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(s.End)
	return s, kept
}

// gated is a content that can be read when the gate is open.
type gated struct {
	*bytes.Reader
	gate chan struct{}
}

func (g gated) Read(p []byte) (int, error) { <-g.gate; return g.Reader.Read(p) }
func (gated) Close() error                 { return nil }

func source(name byte, content string, gate chan struct{}, opened *atomic.Int64) archive.Source {
	return archive.Source{Key: catalog.CRCKey{Ref: [32]byte{name}}, Size: int64(len(content)), Open: func(context.Context) (io.ReadSeekCloser, error) {
		opened.Add(1)
		return gated{bytes.NewReader([]byte(content)), gate}, nil
	}}
}

// A sum is computed once for all who wait, their deadlines move on meanwhile, and it is computed to its end after all
// of them have left.
func TestSums(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s, kept := sums(t)
		gate := make(chan struct{})
		var opened, told atomic.Int64
		of := source(1, "content", gate, &opened)
		ctx, leave := context.WithCancel(t.Context())
		results := make(chan error)
		for range 3 {
			go func() { _, err := s.Sum(ctx, of, false, func() { told.Add(1) }); results <- err }()
			synctest.Wait()
		}
		<-time.After(2 * time.Minute) // of the bubble
		synctest.Wait()
		is.True(told.Load() >= 3*4) // within the minute that a write may take
		leave()
		for range 3 {
			is.True(errors.Is(<-results, context.Canceled))
		}
		close(gate)
		synctest.Wait()
		want := crc32.ChecksumIEEE([]byte("content"))
		is.Equal(kept[of.Key], want)
		is.Equal(opened.Load(), int64(1))
		sum, err := s.Sum(t.Context(), of, false, nil)
		is.NoErr(err)
		is.Equal(sum, want)
	})
}

// A sum that is computed although all have left serves the next caller.
func TestSumsJoinedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s, _ := sums(t)
		gate := make(chan struct{})
		var opened atomic.Int64
		of := source(1, "content", gate, &opened)
		ctx, leave := context.WithCancel(t.Context())
		results := make(chan error)
		go func() { _, err := s.Sum(ctx, of, false, nil); results <- err }()
		synctest.Wait()
		leave()
		is.True(errors.Is(<-results, context.Canceled))
		go func() { _, err := s.Sum(t.Context(), of, false, nil); results <- err }()
		synctest.Wait()
		close(gate)
		is.NoErr(<-results)
		is.Equal(opened.Load(), int64(1))
	})
}

// Few sums are computed at once and not many wait. One that nobody waits for any more is not begun.
func TestSumsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s, kept := sums(t)
		gate := make(chan struct{})
		var opened atomic.Int64
		ctx, leave := context.WithCancel(t.Context())
		results := make(chan error, 100)
		for i := range 100 {
			go func() { _, err := s.Sum(ctx, source(byte(i), "x", gate, &opened), false, nil); results <- err }()
			synctest.Wait()
		}
		is.Equal(opened.Load(), int64(2))
		is.Equal(len(results), 100-2-64)
		for range 100 - 2 - 64 {
			var busy *record.Error
			is.True(errors.As(<-results, &busy) && busy.Fault == record.Busy && busy.Retry > 0)
		}
		patient, told := make(chan error, 1), 0
		go func() {
			_, err := s.Sum(t.Context(), source(150, "x", gate, &opened), true, func() { told++ })
			patient <- err
		}()
		synctest.Wait()
		is.Equal(len(patient), 0)
		leave()
		synctest.Wait()
		close(gate)
		is.NoErr(<-patient)
		is.Equal(told, 1)
		synctest.Wait()
		is.Equal(opened.Load(), int64(3))
		s.Keep()
		is.Equal(len(kept), 3)
		s.End()
		_, err := s.Sum(t.Context(), source(200, "x", gate, &opened), false, nil)
		is.True(errors.Is(err, kv.ErrClosed))
	})
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// The server does not wait until a large file is proven before it stops.
func TestSumsEndWhileProving(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, _ := sums(t)
	proving := make(chan struct{})
	of := source(1, "x", nil, nil)
	of.Prove = func(through func(io.Reader) io.Reader) error {
		close(proving)
		_, err := io.Copy(io.Discard, through(endless{}))
		return err
	}
	result := make(chan error, 1)
	go func() { _, err := s.Sum(t.Context(), of, false, nil); result <- err }()
	<-proving
	s.End()
	is.True(errors.Is(<-result, context.Canceled))
}

// Bytes that are not there, not proven or too few have no sum, and the next caller tries again.
func TestSumsFail(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, kept := sums(t)
	gate := make(chan struct{})
	var opened atomic.Int64
	close(gate)
	of := source(1, "content", gate, &opened)
	of.Prove = func(func(io.Reader) io.Reader) error { return io.ErrNoProgress }
	_, err := s.Sum(t.Context(), of, false, nil)
	is.True(errors.Is(err, io.ErrNoProgress))
	is.Equal(opened.Load(), int64(0))
	of.Prove, of.Size = nil, 8
	_, err = s.Sum(t.Context(), of, false, nil)
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	of.Size = 7
	_, err = s.Sum(t.Context(), of, false, nil)
	is.NoErr(err)
	is.Equal(len(kept), 0)
	s.Keep()
	is.Equal(len(kept), 1)
}

// Layouts take turns, and the one that waits too long is told when to come again. Of one network, and of all, only so
// many wait.
func TestLayouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s, _ := sums(t)
		network := func(n byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 32) }
		refused := func(err error) {
			t.Helper()
			var busy *record.Error
			is.True(errors.As(err, &busy) && busy.Fault == record.Busy && busy.Retry > 0)
		}
		first, err := s.Layout(t.Context(), network(1))
		is.NoErr(err)
		second, err := s.Layout(t.Context(), network(1))
		is.NoErr(err)
		waited := make(chan error, 100)
		ask := func(n byte) {
			go func() { _, err := s.Layout(t.Context(), network(n)); waited <- err }()
			synctest.Wait()
		}
		for range 6 {
			ask(1)
		}
		is.Equal(len(waited), 0)
		ask(1)
		refused(<-waited)
		for n := range byte(56) {
			ask(2 + n)
		}
		is.Equal(len(waited), 0)
		ask(200)
		refused(<-waited)
		for range 62 {
			refused(<-waited) // after the time of the bubble
		}
		first()
		second()
		third, err := s.Layout(t.Context(), network(1))
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
			s, _ := sums(t)
			for range 2 { // all of it is given back
				var held []func()
				for _, one := range all {
					done, err := s.Send(netip.PrefixFrom(netip.AddrFrom4([4]byte{one.network}), 32), one.n)
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
	s, _ := sums(t)
	one := archive.Item{Seq: 1}
	s.Remember(one, archive.Fact{Name: "a"})
	f, known := s.Fact(one)
	is.True(known && f.Name == "a")
	_, known = s.Fact(archive.Item{Seq: 2})
	is.True(!known)
	const many = 30_000
	for i := range many {
		s.Remember(archive.Item{Seq: uint64(i)}, archive.Fact{Name: strings.Repeat("n", 1000)})
	}
	n := 0
	for i := range many {
		if _, known := s.Fact(archive.Item{Seq: uint64(i)}); known {
			n++
		}
	}
	is.True(n > 5000 && n < 7000)
	_, known = s.Fact(archive.Item{Seq: many - 1})
	is.True(known)
}
