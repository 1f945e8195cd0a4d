package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kist/blobs/disk"
)

// BenchmarkAppend measures a commit of 1.4 KB, which is on the disk when it
// returns, with the file recent and without. Both take turns, so that they
// share what else the machine does.
func BenchmarkAppend(b *testing.B) {
	defer func(was int64) { recentSize = was }(recentSize)
	recentSize = 1 << 20
	for turn := range 5 {
		for _, recent := range []bool{true, false} {
			b.Run(fmt.Sprintf("recent=%v/%d", recent, turn), func(b *testing.B) { benchmarkAppend(b, recent) })
		}
	}
}

func benchmarkAppend(b *testing.B, recent bool) {
	j, err := Open(filepath.Join(b.TempDir(), "journal"), format)
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	if !recent {
		j.OnDisk(noRoom)
	}
	if err := j.Begin(State{}); err != nil {
		b.Fatal(err)
	}
	var r Record
	var at State
	value := make([]byte, 1350)
	b.SetBytes(1400)
	for b.Loop() {
		r.Reset(at.Digest)
		r.Add(Op{1, fmt.Appendf(nil, "key %d", at.Seq), value}, nil)
		at = State{at.Seq + 1, r.Digest()}
		if err := j.Append(&r, at); err != nil {
			b.Fatal(err)
		}
		j.Drain()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkAppendControl measures the share of the disk.
func BenchmarkAppendControl(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	value := make([]byte, 2048)
	end := int64(0)
	b.SetBytes(2048)
	for b.Loop() {
		if _, err := f.WriteAt(value, end); err != nil {
			b.Fatal(err)
		}
		if err := disk.Datasync(f); err != nil {
			b.Fatal(err)
		}
		end += int64(len(value))
	}
}

// BenchmarkReplay reads logs and a snapshot of 64 MB each, in values of 400
// bytes, from the page cache.
func BenchmarkReplay(b *testing.B) {
	const total, size, batch = 64 << 20, 400, 16
	for _, kind := range []string{"log", "snapshot"} {
		b.Run(kind, func(b *testing.B) {
			j, err := Open(filepath.Join(b.TempDir(), "journal"), format)
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			var at State
			value := make([]byte, size)
			op := func(n int) Op { return Op{1, fmt.Appendf(nil, "key %d", n), value} }
			if kind == "log" {
				j.OnDisk(noRoom)
				if err := j.Begin(at); err != nil {
					b.Fatal(err)
				}
				j.log = unsynced{j.log}
				var r Record
				for n := 0; n < total/size; n += batch {
					r.Reset(at.Digest)
					for i := range batch {
						r.Add(op(n+i), nil)
					}
					at = State{at.Seq + 1, r.Digest()}
					if err := j.Append(&r, at); err != nil {
						b.Fatal(err)
					}
				}
			} else {
				at.Seq = 1
				for n := range total / size {
					at.Digest.Add(op(n), nil)
				}
				if err := j.Begin(at); err != nil {
					b.Fatal(err)
				}
				if err := j.Snapshot(b.Context(), at, format, func(yield func(Op) bool) {
					for n := range total / size {
						if !yield(op(n)) {
							return
						}
					}
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(total)
			for b.Loop() {
				done, err := j.Replay(func() error { return nil }, nothing)
				if err != nil || done.State != at {
					b.Fatal(done, err)
				}
			}
		})
	}
}

// unsynced is a file that ignores syncs, for fast writing.
type unsynced struct{ File }

func (unsynced) Datasync() error { return nil }
