package journal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"kist/blobs/disk"
)

// BenchmarkPack compresses a log of 100 MB of records like those of notes. It
// reports how much smaller the log gets and what that costs concurrent appends.
func BenchmarkPack(b *testing.B) {
	const total = 100 << 20
	rnd := rand.New(rand.NewPCG(1, 80))
	words := make([]string, 3000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", rnd.Uint64N(1<<(8+rnd.IntN(24))))
	}
	text := func(n int) []byte {
		var t []byte
		for len(t) < n {
			t = append(append(t, words[int(float64(len(words))*rnd.Float64()*rnd.Float64())]...), ' ')
		}
		row, _ := json.Marshal(map[string]any{"title": string(t[:20]), "content": string(t), "isPublic": false, "tags": []string{"a", "b"}})
		return row
	}
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "journal")
		f, err := disk.OpenFolder(dir)
		if err != nil {
			b.Fatal(err)
		}
		j, err := New(folder{f}, format)
		if err == nil {
			err = j.Begin(State{})
		}
		if err != nil {
			b.Fatal(err)
		}
		fast := j.log
		j.log = unsynced{fast}
		var r Record
		var at State
		add := func() {
			r.Reset(at.Digest)
			r.Add(Op{6, fmt.Appendf(nil, "owner and id %08d", at.Seq), text(300)}, nil)
			for i := range 8 { // indexes
				r.Add(Op{byte(7 + i), fmt.Appendf(nil, "owner and label %d %08d", i, at.Seq), nil}, nil)
			}
			at = State{at.Seq + 1, r.Digest()}
			if err := j.Append(&r, at); err != nil {
				b.Fatal(err)
			}
		}
		for j.end < total {
			add()
		}
		j.log = fast
		if err := j.Begin(at); err != nil {
			b.Fatal(err)
		}
		from := at
		rate := func(stop func() bool) float64 {
			n, begun := 0, time.Now()
			for !stop() {
				add()
				n++
			}
			return float64(n) / time.Since(begun).Seconds()
		}
		begun := time.Now()
		alone := rate(func() bool { return time.Since(begun) > 3*time.Second })
		var over atomic.Bool
		var took time.Duration
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		go func() {
			begun := time.Now()
			if err := j.Pack(b.Context(), from); err != nil {
				b.Error(err)
			}
			took = time.Since(begun)
			over.Store(true)
		}()
		during := rate(over.Load)
		runtime.ReadMemStats(&after)
		info, err := os.Stat(filepath.Join(dir, fileName(logName, 0)))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/total, "of-its-size")
		b.ReportMetric(took.Seconds(), "s-to-pack")
		b.ReportMetric(alone, "appends/s-alone")
		b.ReportMetric(during, "appends/s-during")
		b.ReportMetric(float64(after.HeapSys-before.HeapSys)/(1<<20), "MiB-more-heap")
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
