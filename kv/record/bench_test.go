package record

import "testing"

// BenchmarkDecode reads the fields of what is shown most.
func BenchmarkDecode(b *testing.B) {
	for _, body := range []Body{&Link{URL: "https://example.org/a/long/path"}, &File{OriginalName: "a.bin", MimeType: "image/png", SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}} {
		r := &Record{Kind: Links}
		if _, file := body.(*File); file {
			r.Kind = Files
		}
		r.SetBody(body)
		b.Run(r.Kind.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
