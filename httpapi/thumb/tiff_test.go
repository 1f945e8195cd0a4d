package thumb

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/image/tiff"
)

// scan is a TIFF file with three samples of a byte for each pixel, in strips, or in tiles if tile is not 0.
type scan struct {
	order       binary.AppendByteOrder
	rows, tile  int
	deflated    bool
	orientation uint16
	tags        map[uint16][]uint32 // replace what is right
}

// file encodes a picture. Its directory is behind the pixels, as scanners write it.
func (s scan) file(t testing.TB, m image.Image) []byte {
	t.Helper()
	width, height := m.Bounds().Dx(), m.Bounds().Dy()
	across, down := width, s.rows
	if s.tile > 0 {
		across, down = s.tile, s.tile
	}
	var sizes, offsets []uint32
	b := s.order.AppendUint32([]byte("II*\x00"), 0)
	if s.order.String() == "BigEndian" {
		b = s.order.AppendUint32([]byte("MM\x00*"), 0)
	}
	for y := 0; y < height; y += down {
		for x := 0; x < width; x += across {
			part := s.part(t, m, image.Rect(x, y, x+across, y+down))
			offsets, sizes = append(offsets, uint32(len(b))), append(sizes, uint32(len(part)))
			b = append(b, part...)
		}
	}

	tags := map[uint16][]uint32{
		256: {uint32(width)}, 257: {uint32(height)}, tagBits: {8, 8, 8}, 259: {1}, 262: {2}, 277: {3},
		273: offsets, tagRowsPerStrip: {uint32(down)}, tagStripBytes: sizes, tagOrientation: {uint32(s.orientation)},
	}
	if s.deflated {
		tags[259] = []uint32{8}
	}
	if s.tile > 0 {
		tags[tagTileWidth], tags[tagTileLength], tags[324], tags[tagTileBytes] = tags[278], tags[278], offsets, sizes
		delete(tags, 273)
		delete(tags, tagRowsPerStrip)
		delete(tags, tagStripBytes)
	}
	maps.Copy(tags, s.tags)
	return s.withDirectory(b, tags)
}

// part is a strip or tile. What is outside of the picture is black.
func (s scan) part(t testing.TB, m image.Image, r image.Rectangle) []byte {
	t.Helper()
	if s.tile == 0 {
		r = r.Intersect(m.Bounds())
	}
	var raw []byte
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
			raw = append(raw, c.R, c.G, c.B)
		}
	}
	if !s.deflated {
		return raw
	}
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, err := z.Write(raw)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withDirectory adds the directory. The numbers of a tag are of two bytes, if they fit, else of four.
func (s scan) withDirectory(b []byte, tags map[uint16][]uint32) []byte {
	values := map[uint16][]byte{}
	for tag, numbers := range tags {
		for _, n := range numbers {
			if slices.Max(numbers) < 1<<16 {
				values[tag] = s.order.AppendUint16(values[tag], uint16(n))
			} else {
				values[tag] = s.order.AppendUint32(values[tag], n)
			}
		}
	}
	at := map[uint16]uint32{}
	for _, tag := range slices.Sorted(maps.Keys(values)) {
		if len(values[tag]) > 4 {
			at[tag] = uint32(len(b))
			b = append(b, values[tag]...)
		}
	}
	if order, ok := s.order.(binary.ByteOrder); ok {
		order.PutUint32(b[4:], uint32(len(b)))
	}
	b = s.order.AppendUint16(b, uint16(len(tags)))
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		b = s.order.AppendUint16(b, tag)
		kind := uint16(typeShort)
		if len(values[tag]) > 2*len(tags[tag]) {
			kind = typeLong
		}
		b = s.order.AppendUint16(b, kind)
		b = s.order.AppendUint32(b, uint32(len(tags[tag])))
		if at[tag] > 0 {
			b = s.order.AppendUint32(b, at[tag])
		} else {
			b = append(b, append(values[tag], 0, 0, 0, 0)[:4]...)
		}
	}
	return s.order.AppendUint32(b, 0)
}

// TestTIFF: scans have thumbnails the right way up, however they are stored.
func TestTIFF(t *testing.T) {
	t.Parallel()
	m := paint(image.NewNRGBA(image.Rect(0, 0, 96, 64)))
	for name, file := range map[string][]byte{
		"strips":           scan{order: binary.LittleEndian, rows: 5}.file(t, m),
		"one strip":        scan{order: binary.BigEndian, rows: 64, deflated: true}.file(t, m),
		"lines":            scan{order: binary.BigEndian, rows: 1, deflated: true}.file(t, m),
		"tiles":            scan{order: binary.LittleEndian, tile: 16}.file(t, m),
		"tiles, deflated":  scan{order: binary.BigEndian, tile: 48, deflated: true}.file(t, m),
		"by the library":   encodeTIFF(t, m),
		"16 bits":          encodeTIFF(t, paint(image.NewNRGBA64(m.Rect))),
		"with a palette":   encodeTIFF(t, paint(image.NewPaletted(m.Rect, fourColours()))),
		"upside down once": turned(t, m),
	} {
		is := is.New(t)
		got, err := small(file, Row)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		shown := show(t, got)
		for i, want := range corners {
			x, y := 10, 10
			if i == 1 || i == 2 {
				x = shown.Bounds().Dx() - 10
			}
			if i >= 2 {
				y = shown.Bounds().Dy() - 10
			}
			if !near(shown.At(x, y), want) {
				t.Errorf("%s: corner %d is %v", name, i, shown.At(x, y))
			}
		}
		for cut := 0; cut < len(file); cut += len(file)/97 + 1 {
			_, err := readHeader(inMemory(file[:cut]))
			is.True(errors.Is(err, ErrNone) || err == nil && cut > len(file)-200) // values may come last
		}
	}
}

// turned is stored upside down and says so.
func turned(t testing.TB, m *image.NRGBA) []byte {
	t.Helper()
	stored := image.NewNRGBA(m.Rect)
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			stored.Set(x, y, m.At(m.Rect.Dx()-1-x, m.Rect.Dy()-1-y))
		}
	}
	return scan{order: binary.LittleEndian, rows: 7, orientation: 3}.file(t, stored)
}

func encodeTIFF(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tiff.Encode(&b, m, &tiff.Options{Compression: tiff.Deflate, Predictor: true}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostileTIFF: no file makes the decoder take more than it may, in memory or in time.
func TestHostileTIFF(t *testing.T) {
	t.Parallel()
	m := paint(image.NewNRGBA(image.Rect(0, 0, 96, 64)))
	all := func(n int, v uint32) []uint32 { return slices.Repeat([]uint32{v}, n) }
	of := func(tags map[uint16][]uint32) []byte {
		return scan{order: binary.LittleEndian, rows: 1, deflated: true, tags: tags}.file(t, m)
	}
	for name, file := range map[string][]byte{
		"no pixels":           of(map[uint16][]uint32{256: {0}}),
		"too many pixels":     of(map[uint16][]uint32{256: {60_000}, 257: {60_000}}),
		"one large strip":     of(map[uint16][]uint32{256: {6000}, 257: {6000}, tagRowsPerStrip: {6000}}),
		"large tiles":         of(map[uint16][]uint32{tagTileWidth: {1 << 31}, tagTileLength: {1 << 31}}),
		"no length":           of(map[uint16][]uint32{tagTileWidth: {16}}),
		"parts that overlap":  of(map[uint16][]uint32{273: all(64, 8), tagStripBytes: all(64, 2000)}),
		"a directory outside": append([]byte("II*\x00\xff\xff\xff\x7f"), make([]byte, 100)...),
		"many tags":           append([]byte("II*\x00\x08\x00\x00\x00\xff\xff"), make([]byte, 1<<20)...),
		"large file format":   []byte("II+\x00\x08\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"),
	} {
		_, err := readHeader(inMemory(file))
		if !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// Flipped bytes of a good one.
	r := rand.New(rand.NewPCG(1, 2))
	good := scan{order: binary.BigEndian, rows: 8, deflated: true, orientation: 6}.file(t, m)
	for range 3000 {
		file := slices.Clone(good)
		for range 1 + r.IntN(3) {
			file[r.IntN(len(file))] = byte(r.Uint32())
		}
		_, err := small(file, Row)
		if err != nil && !errors.Is(err, ErrNone) {
			t.Fatal(err)
		}
	}
}
