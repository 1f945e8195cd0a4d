package thumb

import (
	"bytes"
	"crypto/sha256"
	"image"
	"image/gif"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/image/draw"

	"kist/blobs"
)

func BenchmarkMake(b *testing.B) {
	photo12 := func() *image.RGBA { return photo(4032, 3024) }
	for _, bench := range []struct {
		name string
		make func() []byte
	}{
		{"JPEG12MP", func() []byte { return encodeJPEG(b, photo12()) }},
		{"PNG4K", func() []byte { return encodePNG(b, photo(3840, 2160)) }},
		{"PNG4KAlpha", func() []byte {
			m := image.NewNRGBA(image.Rect(0, 0, 3840, 2160))
			draw.Draw(m, m.Rect, photo(3840, 2160), image.Point{}, draw.Src)
			m.Pix[3] = 0
			return encodePNG(b, m)
		}},
		{"PNG1900", func() []byte { return encodePNG(b, photo(1900, 1900)) }},
		{"GIF1MP", func() []byte {
			p := image.NewPaletted(image.Rect(0, 0, 1024, 1024), palette16)
			draw.Draw(p, p.Rect, photo(1024, 1024), image.Point{}, draw.Src)
			return encodeGIF(b, &gif.GIF{Image: []*image.Paletted{p}, Delay: []int{0}})
		}},
		{"WebP2MP", func() []byte { return readFile(b, "lossy.webp") }},
		{"WebPLossless2MP", func() []byte {
			m := image.NewNRGBA(image.Rect(0, 0, 1920, 1080))
			draw.Draw(m, m.Rect, photo(1920, 1080), image.Point{}, draw.Src)
			return riff(chunk{"VP8L", vp8l(m)})
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			data := bench.make()
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				r := sectionOf(data)
				h, err := readHeader(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := draft(h, edges[Tile], quality(qualities[Tile])); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGetCached(b *testing.B) {
	data := encodeJPEG(b, photo(1024, 768))
	name := filepath.Join(b.TempDir(), "picture")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		b.Fatal(err)
	}
	m, err := New(filepath.Join(b.TempDir(), "thumbs"))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	ref := blobs.Ref(sha256.Sum256(data))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Get(b.Context(), ref, Tile, func() (*os.File, error) { return os.Open(name) }); err != nil {
			b.Fatal(err)
		}
	}
}

func sectionOf(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}
