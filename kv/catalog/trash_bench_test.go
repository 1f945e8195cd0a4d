package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// BenchmarkTrashDelays measures how long creates of another client take while 10 000
// notes are deleted, restored, deleted again and purged.
func BenchmarkTrashDelays(b *testing.B) {
	s := kvtest.Open(b)
	u, other := kvtest.User(b, s, "ann"), kvtest.User(b, s, "bob")
	var all []*record.Record
	const n = 10_000
	for len(all) < n {
		kvtest.Update(b, s, func(tx *kv.Tx) error {
			for range 100 {
				r, err := catalog.Add(tx, catalog.Draft{
					Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(
						b, record.Notes, fmt.Sprintf(`{"content":%q,"tags":["a","b"]}`, strings.Repeat("text ", 200)),
					),
				})
				if err != nil {
					return err
				}
				all = append(all, r)
			}
			return nil
		})
	}
	ids := make([]record.ID, n)
	for i, r := range all {
		ids[i] = r.ID
	}
	remove := func() {
		for _, r := range all {
			kvtest.Update(b, s, func(tx *kv.Tx) error { return catalog.Trash(tx, r, "bench") })
		}
	}
	measure := func(what string, work func()) {
		done := make(chan struct{})
		begun := time.Now()
		go func() { work(); close(done) }()
		var took []time.Duration
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
				at := time.Now()
				kvtest.Add(b, s, other.ID, record.Notes, `{"content":"c"}`)
				took = append(took, time.Since(at))
			}
		}
		slices.Sort(took)
		b.Logf(
			"%s: %v for all; %d creates, median %v, p99 %v, longest %v", what, time.Since(begun).Round(time.Millisecond),
			len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1],
		)
	}
	for range b.N {
		measure("nothing", func() { time.Sleep(time.Second) })
		measure("delete", remove)
		measure("restore", func() {
			if _, err := catalog.UntrashAll(s, u.ID, ids); err != nil {
				b.Error(err)
			}
		})
		measure("delete", remove)
		measure("empty", func() {
			if err := catalog.EmptyTrash(s, u.ID); err != nil {
				b.Error(err)
			}
		})
	}
}
