package blobs

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

func BenchmarkKeep4KiB(b *testing.B) { benchmarkWays(b, 4<<10) }

func BenchmarkKeep64MiB(b *testing.B) { benchmarkWays(b, 64<<20) }

func benchmarkWays(b *testing.B, size int) {
	b.Run("named", func(b *testing.B) {
		s, _ := open(b)
		s.unnamed = false
		benchmarkKeep(b, s, size)
	})
	if s, _ := open(b); s.unnamed {
		b.Run("unnamed", func(b *testing.B) { benchmarkKeep(b, s, size) })
	}
}

// benchmarkKeep keeps new content each time.
func benchmarkKeep(b *testing.B, s *Store, size int) {
	content := make([]byte, size)
	var n uint64
	b.SetBytes(int64(size))
	for b.Loop() {
		n++
		binary.BigEndian.PutUint64(content, n)
		kept := copyIn(b, s, bytes.NewReader(content))
		b.StopTimer()
		kept.Release()
		if _, err := s.Unlink(kept.Ref, always); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkKeepAgain keeps content that exists already.
func BenchmarkKeepAgain(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"4KiB", 4 << 10}, {"64MiB", 64 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			s, _ := open(b)
			content := make([]byte, size.bytes)
			keep(b, s, content).Release()
			b.SetBytes(int64(size.bytes))
			for b.Loop() {
				copyIn(b, s, bytes.NewReader(content)).Release()
			}
		})
	}
}

// BenchmarkKeepSmallReads keeps content that arrives 4 KiB at a time, like the
// parts of a multipart form.
func BenchmarkKeepSmallReads(b *testing.B) {
	const size = 16 << 20
	for _, way := range []struct {
		name string
		wrap func(*Stage) io.Writer
	}{
		{"ReadFrom", func(stage *Stage) io.Writer { return stage }},
		{"Write", func(stage *Stage) io.Writer { return struct{ io.Writer }{stage} }},
	} {
		b.Run(way.name, func(b *testing.B) {
			s, _ := open(b)
			content := make([]byte, size)
			b.SetBytes(size)
			for b.Loop() {
				stage, err := s.Stage()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(way.wrap(stage), &smallReads{content}); err != nil {
					b.Fatal(err)
				}
				if err := stage.Drop(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type smallReads struct{ rest []byte }

func (r *smallReads) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(len(r.rest), 4<<10)])
	r.rest = r.rest[n:]
	return n, nil
}

func BenchmarkGet(b *testing.B) {
	s, _ := open(b)
	kept := keep(b, s, make([]byte, 4<<10))
	defer kept.Release()
	for b.Loop() {
		f, err := s.Get(kept.Ref)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func copyIn(b *testing.B, s *Store, content io.Reader) *Kept {
	stage, err := s.Stage()
	if err != nil {
		b.Fatal(err)
	}
	defer stage.Drop()
	// Hide WriteTo, which a request's body does not have.
	if _, err := io.Copy(stage, struct{ io.Reader }{content}); err != nil {
		b.Fatal(err)
	}
	kept, err := stage.Keep()
	if err != nil {
		b.Fatal(err)
	}
	return kept
}
