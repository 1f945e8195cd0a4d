package ship_test

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"kist/blobs"
	"kist/blobs/s3/s3test"
	"kist/blobs/sealed"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
)

// BenchmarkEncryptedCreates makes notes, each with a put of its own, in sync mode: over a plain store and over an
// encrypted one, in turns. It reports the processor time of this process for each.
func BenchmarkEncryptedCreates(b *testing.B) {
	gateway := s3test.New(b).Start()
	form := kvtest.Form(b, record.Notes, `{"title":"Note","content":"a note of some length, as they are"}`)
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	total, made := map[string]time.Duration{}, map[string]int{}
	for round := 0; b.Loop(); round++ {
		modes := []string{"plain", "encrypted"}
		if round%2 > 0 {
			slices.Reverse(modes)
		}
		for _, mode := range modes {
			var remote blobs.Remote
			remote, _ = sealed.Plain(s3test.Open(b, s3test.Options(mode+time.Now().Format("150405.000000"), gateway)))
			if mode == "encrypted" {
				remote = encrypted(b, s3test.Open(b, s3test.Options(mode+time.Now().Format("150405.000000"), gateway)))
			}
			s := ship.New(ship.Options{Remote: remote, Sync: true, Log: kvtest.Quiet, Address: "s3://test/kist"})
			dir := filepath.Join(b.TempDir(), "data")
			store := kvtest.Opened(b, dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Ship: s})
			s.Await()
			owner := kvtest.User(b, store, "ann").ID
			const creates = 400
			before := spent()
			for range creates {
				kvtest.Update(b, store, func(tx *kv.Tx) error {
					_, err := catalog.Add(tx, catalog.Draft{Owner: owner, Kind: record.Notes, Form: form})
					return err
				})
			}
			total[mode] += spent() - before
			made[mode] += creates
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for mode, cpu := range total {
		b.ReportMetric(float64(cpu.Microseconds())/float64(made[mode]), mode+"-µs/create")
	}
	b.ReportMetric(float64(total["encrypted"])/float64(total["plain"]), "encrypted/plain")
}
