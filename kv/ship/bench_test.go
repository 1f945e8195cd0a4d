package ship_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kist/blobs/s3/s3test"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// BenchmarkShip makes notes for a second and a half at a time without an object store, in
// async and in sync mode, in turns. It also restores 100 000 notes.
func BenchmarkShip(b *testing.B) {
	gateway := s3test.New(b).Start()
	form := kvtest.Form(
		b, record.Notes, `{"title":"Note","content":"a note of some length, as they are","tags":["often"]}`,
	)
	open := func(b *testing.B, prefix, mode string) (*kv.Store, *ship.Shipper, *people.User) {
		var s *ship.Shipper
		if mode != "without" {
			s = ship.New(ship.Options{
				Remote: s3test.Open(b, s3test.Options(prefix, gateway)), Sync: mode == "sync", Log: kvtest.Quiet,
				Address: "s3://test/kist",
			})
		}
		store := kvtest.Opened(
			b, filepath.Join(b.TempDir(), "data"), kv.Options{Schema: tables.All, Log: kvtest.Quiet, Ship: s},
		)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for s != nil && !s.Status().Complete {
			<-tick.C
		}
		return store, s, kvtest.User(b, store, "ann")
	}
	create := func(b *testing.B, store *kv.Store, owner record.ID, n int) {
		if err := store.Update(func(tx *kv.Tx) error {
			for range n {
				if _, err := catalog.Add(tx, catalog.Draft{Owner: owner, Kind: record.Notes, Form: form}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Error(err)
		}
	}
	for _, writers := range []int{1, 16} {
		for round := range 3 {
			for _, mode := range []string{"without", "async", "sync"} {
				b.Run(fmt.Sprintf("%d/%s/%d", writers, mode, round), func(b *testing.B) {
					store, _, u := open(b, fmt.Sprint(writers, mode, round, b.N), mode)
					defer store.Close()
					ctx, cancel := context.WithTimeout(b.Context(), 1500*time.Millisecond)
					defer cancel()
					var made atomic.Int64
					var work sync.WaitGroup
					b.ResetTimer()
					for range writers {
						work.Go(func() {
							for ctx.Err() == nil {
								create(b, store, u.ID, 1)
								made.Add(1)
							}
						})
					}
					work.Wait()
					b.ReportMetric(float64(made.Load())/b.Elapsed().Seconds(), "creates/s")
				})
			}
		}
	}
	b.Run("restore", func(b *testing.B) {
		store, s, u := open(b, fmt.Sprint("restore", b.N), "async")
		for range 200 {
			create(b, store, u.ID, 500)
		}
		if err := store.Close(); err != nil { // which ships the rest
			b.Fatal(err)
		}
		remote := s.Remote()
		b.ResetTimer()
		dir := filepath.Join(b.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		got, err := ship.Fetch(b.Context(), remote, time.Time{}, workcopy.Format, dir)
		if err == nil {
			b.ReportMetric(b.Elapsed().Seconds(), "fetched-s")
			err = datadir.WriteInstance(dir, got.Instance)
		}
		if err != nil {
			b.Fatal(err)
		}
		kvtest.OpenAt(b, dir, nil)
		b.ReportMetric(b.Elapsed().Seconds(), "open-s")
	})
}
