package record

import (
	"testing"

	"kist/kv/field"
)

// BenchmarkDecode reads the fields of the kinds that are shown most.
func BenchmarkDecode(b *testing.B) {
	for _, body := range []Body{
		&Link{URL: "https://example.org/a/long/path"},
		&File{
			OriginalName: "a.bin", MimeType: "image/png",
			SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
	} {
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

// BenchmarkShow appends the JSON of a file with two tags for its owner, as a list does
// for each item.
func BenchmarkShow(b *testing.B) {
	r := Record{Kind: Files, Share: Share{Slug: "holiday"}, Bytes: new(Content)}
	r.SetBody(&File{OriginalName: "a.png", MimeType: "image/png"})
	v := Shown{Record: r, TagList: []Tag{{Name: "sea", Color: "#6B7280"}, {Name: "travel", Color: "#6B7280"}}}
	set := field.Of(&v)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = set.AppendJSON(dst[:0])
	}
}

// BenchmarkSetBody writes the fields of a note.
func BenchmarkSetBody(b *testing.B) {
	r := &Record{Kind: Notes}
	note := &Note{Name: "A note", Content: "With some text."}
	b.ReportAllocs()
	for b.Loop() {
		r.SetBody(note)
	}
}
