package field

import (
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, bm := range []struct {
		name, body string
		err        error
	}{
		{"small", `{"title":"Groceries","isPublic":true}`, nil},
		{"typical", full, nil},
		{"1MiB-text", `{"content":"` + strings.Repeat("a", 1<<20) + `"}`, nil},
		{
			"1MiB-lines", `{"content":"` + strings.Repeat(`func main() {\n\tfmt.Println(\"\u003c\")\n}\n`, 1<<20/45) + `"}`, nil,
		},
		{"1MiB-escapes", `{"content":"` + strings.Repeat(`\u0041`, 1<<20/6) + `"}`, nil},
		{"1MiB-numbers", `{"content":[0` + strings.Repeat(",0", 1<<19) + `]}`, errMany},
		{"most-numbers", `{"content":[0` + strings.Repeat(",0", MaxValues-3) + `]}`, nil},
		{"most-objects", `{"content":[{"":0}` + strings.Repeat(`,{"":0}`, (MaxValues-3)/2-1) + `]}`, nil},
		{"cut", `{"content":[0` + strings.Repeat(",0", 1<<19), Malformed("The body is not valid JSON: it ends too early.")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			body := []byte(bm.body)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := Parse(body); err != bm.err { //nolint:errorlint // Parse returns it bare
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
	for _, bm := range []struct {
		name string
		more int
	}{
		{"typical", 0},
		{"1MiB-text", 1<<20 - 32},
	} {
		b.Run(bm.name, func(b *testing.B) {
			v := newSample()
			if err := Of(v).Create(in); err != nil {
				b.Fatal(err)
			}
			v.Content += strings.Repeat("a", bm.more)
			stored := Of(v).AppendJSON(nil)
			b.ReportAllocs()
			b.SetBytes(int64(len(stored)))
			for b.Loop() {
				if err := Load(v, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
