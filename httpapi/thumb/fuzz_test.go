package thumb

import (
	"encoding/binary"
	"errors"
	"flag"
	"image"
	"image/gif"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

var seeds = flag.Bool("seeds", false, "write the seeds of the fuzz tests")

// FuzzExif: whatever the bytes are, there is one of the eight orientations.
func FuzzExif(f *testing.F) {
	for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
		for o := range uint16(10) {
			f.Add(exif(order, o))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		is := is.New(t)
		o := exifOrientation(data)
		is.True(1 <= o && o <= 8)
		seen := make(map[[2]int]bool)
		w, h := 3, 5
		if o.swapsEdges() {
			w, h = h, w
		}
		for y := range h {
			for x := range w {
				sx, sy := o.source(x, y, 3, 5)
				is.True(0 <= sx && sx < 3 && 0 <= sy && sy < 5)
				seen[[2]int{sx, sy}] = true
			}
		}
		is.Equal(len(seen), 15) // every pixel once
	})
}

// FuzzGet: of whatever bytes there is a thumbnail that holds what it says, or
// none. Nothing panics, and no header leads to more than a picture may take.
func FuzzGet(f *testing.F) {
	for name, data := range seedPictures(f) {
		if *seeds {
			text := "go test fuzz v1\n[]byte(" + quote(data) + ")\n"
			if err := os.WriteFile(filepath.Join("testdata/fuzz/FuzzGet", name), []byte(text), 0o600); err != nil {
				f.Fatal(err)
			}
		}
	}
	m, err := New(filepath.Join(f.TempDir(), "thumbs"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { m.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		is := is.New(t)
		d := &desk{TB: t, Maker: m, dir: m.caches[Tile].dir}
		made, err := d.get(data)
		again, same := d.get(data)
		is.Equal(again, made)
		is.Equal(d.opens.Load() <= 1, true)
		if err != nil {
			is.True(errors.Is(err, ErrNone))
			is.Equal(same.Error(), err.Error())
			return
		}
		show(t, made)
	})
}

// quote writes bytes as the files of seeds have them.
func quote(data []byte) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range data {
		const hex = "0123456789abcdef"
		b.WriteString(`\x` + string(hex[c>>4]) + string(hex[c&15]))
	}
	b.WriteByte('"')
	return b.String()
}

// seedPictures are small pictures of all kinds, and bombs.
func seedPictures(t testing.TB) map[string][]byte {
	r := image.Rect(0, 0, 24, 16)
	small := paint(image.NewNRGBA(r))
	colour := []byte{0x22, 0x11, 0x11}
	return map[string][]byte{
		"jpeg": encodeJPEG(t, small),
		"jpeg-exif": withSegments(
			encodeJPEG(t, small), segment(markAPP1, append([]byte("Exif\x00\x00"), exif(binary.BigEndian, 6)...)...),
		),
		"jpeg-progressive": flat{w: 24, h: 16, factors: colour, progressive: true, scans: 3}.file(),
		"jpeg-cmyk":        flat{w: 24, h: 16, factors: []byte{0x22, 0x11, 0x11, 0x22}, segments: adobe(2)}.file(),
		"jpeg-rgb":         flat{w: 24, h: 16, factors: []byte{0x11, 0x11, 0x11}, names: "RGB"}.file(),
		"jpeg-bomb":        flat{w: 65535, h: 65535, factors: colour, progressive: true}.bombed(),
		"png":              encodePNG(t, punch(small)),
		"png-16":           encodePNG(t, paint(image.NewNRGBA64(r))),
		"png-palette":      encodePNG(t, paint(image.NewPaletted(r, fourColours()))),
		"png-bomb":         append(pngHead(100_000, 100_000, 8, 6, 1), pngChunk("IDAT", nil)...),
		"gif": encodeGIF(
			t, &gif.GIF{Image: []*image.Paletted{paint(image.NewPaletted(r, fourColours()))}, Delay: []int{0}},
		),
		"webp-lossless": readFile(t, "lossless.webp"),
		"webp-alpha":    readFile(t, "alpha.webp"),
		"webp-exif": riff(
			vp8x(8, 8, 8), chunk{"VP8L", vp8l(paint(image.NewNRGBA(image.Rect(0, 0, 8, 8))))},
			chunk{"EXIF", exif(binary.LittleEndian, 5)},
		),
		"webp-bomb": riff(
			vp8x(16, 16384, 16384), chunk{"ALPH", []byte{1, 2}},
			chunk{"VP8 ", []byte{0x10, 0, 0, 0x9d, 1, 0x2a, 0xff, 0x3f, 0xff, 0x3f, 0, 0}},
		),
		"tiff":       scan{order: binary.BigEndian, rows: 5, deflated: true, orientation: 6}.file(t, small),
		"tiff-tiles": scan{order: binary.LittleEndian, tile: 16}.file(t, small),
		"text":       []byte("not a picture"),
	}
}
