package field

import (
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, bm := range []struct{ name, body string }{
		{"typical", full},
		{"1MiB-text", `{"content":"` + strings.Repeat("a", 1<<20) + `"}`},
		{"1MiB-numbers", `{"content":[0` + strings.Repeat(",0", 1<<19) + `]}`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			body := []byte(bm.body)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := Parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCreate binds a new value and reads a parsed body into it.
func BenchmarkCreate(b *testing.B) {
	in, err := Parse([]byte(full))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := Of(&sample{}).Create(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendJSON binds a value and writes it.
func BenchmarkAppendJSON(b *testing.B) {
	in, err := Parse([]byte(full))
	if err != nil {
		b.Fatal(err)
	}
	v := newSample()
	if err := Of(v).Create(in); err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = Of(v).AppendJSON(dst[:0])
	}
	b.SetBytes(int64(len(dst)))
}

// BenchmarkLoad binds a value and reads its stored JSON.
func BenchmarkLoad(b *testing.B) {
	in, err := Parse([]byte(full))
	if err != nil {
		b.Fatal(err)
	}
	v := newSample()
	if err := Of(v).Create(in); err != nil {
		b.Fatal(err)
	}
	stored := Of(v).AppendJSON(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(stored)))
	for b.Loop() {
		if err := Of(v).Load(stored); err != nil {
			b.Fatal(err)
		}
	}
}
