package thumb

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// The four corners of a test picture, clockwise from the top left.
var corners = [4]color.NRGBA{{220, 20, 20, 255}, {20, 200, 20, 255}, {20, 20, 220, 255}, {230, 230, 30, 255}}

// paint gives every pixel of m the colour of its corner.
func paint[M interface {
	image.Image
	Set(x, y int, c color.Color)
}](m M,
) M {
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			m.Set(x, y, cornerAt(x-b.Min.X, y-b.Min.Y, b.Dx(), b.Dy()))
		}
	}
	return m
}

func cornerAt(x, y, w, h int) color.NRGBA {
	switch right, low := 2*x >= w, 2*y >= h; {
	case !right && !low:
		return corners[0]
	case right && !low:
		return corners[1]
	case right:
		return corners[2]
	}
	return corners[3]
}

// photo is something like a photograph: shapes of all sizes, and noise.
func photo(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for y := range h {
		for x := range w {
			fx, fy := float64(x), float64(y)
			v := 128 + 60*math.Sin(fx/97)*math.Cos(fy/71) + 30*math.Sin((fx+fy)/13)
			n := float64(r.IntN(16))
			p := m.Pix[m.PixOffset(x, y):]
			p[0], p[1], p[2], p[3] = uint8(v+n), uint8(v*0.8+n+fx*20/float64(w)), uint8(255-v*0.7-n), 255
		}
	}
	return m
}

func encodeJPEG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encodePNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encodeGIF(t testing.TB, frames *gif.GIF) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, frames); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// exif is an EXIF block that says how the camera was held, and where it was.
func exif(order binary.AppendByteOrder, o uint16) []byte {
	b := []byte("II*\x00")
	if order.String() == "BigEndian" {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 0x010f) // make
	b = order.AppendUint16(b, 2)
	b = order.AppendUint32(b, 4)
	b = append(b, "GPS\x00"...)
	b = order.AppendUint16(b, tagOrientation)
	b = order.AppendUint16(b, typeShort)
	b = order.AppendUint32(b, 1)
	b = order.AppendUint16(b, o)
	return append(b, 0, 0, 0, 0, 0, 0)
}

// segment is one of a JPEG file.
func segment(marker byte, data ...byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(len(data)+2))
	return append(b, data...)
}

// withSegments puts segments behind the beginning of a JPEG file.
func withSegments(file []byte, segments ...[]byte) []byte {
	return bytes.Join([][]byte{file[:2], bytes.Join(segments, nil), file[2:]}, nil)
}

// A flat is a JPEG file of one colour, made by hand.
type flat struct {
	w, h        int
	factors     []byte // of each component
	names       string // of the components; 1, 2, 3, 4 if it is empty
	progressive bool   // with DC scans, and none else
	scans       int    // 1 if it is 0
	segments    []byte
	dc          []int // of each component: 8 times the distance from 128, with ten bits
}

func (f flat) file() []byte {
	n := len(f.factors)
	names := f.names
	if names == "" {
		names = "\x01\x02\x03\x04"[:n]
	}
	b := append([]byte{0xff, 0xd8}, f.segments...)
	b = append(b, segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)...)
	frame := binary.BigEndian.AppendUint16([]byte{8}, uint16(f.h))
	frame = binary.BigEndian.AppendUint16(frame, uint16(f.w))
	frame = append(frame, byte(n))
	scan := []byte{byte(n)}
	most := [2]int{1, 1}
	blocks := 0
	for i := range n {
		frame = append(frame, names[i], f.factors[i], 0)
		scan = append(scan, names[i], 0)
		x, y := int(f.factors[i]>>4), int(f.factors[i]&15)
		most = [2]int{max(most[0], x), max(most[1], y)}
		blocks += x * y
	}
	b = append(b, segment(map[bool]byte{false: markSOF0, true: markSOF2}[f.progressive], frame...)...)
	// One code of one bit for "no difference", one of two for ten bits of
	// it; and one of one bit for the end of a block.
	b = append(b, segment(0xc4, append([]byte{0, 1, 1}, append(make([]byte, 14), 0, 10)...)...)...)
	b = append(b, segment(0xc4, append([]byte{0x10, 1}, append(make([]byte, 15), 0)...)...)...)
	scan = append(scan, 0, map[bool]byte{false: 63, true: 0}[f.progressive], 0)
	var w msbWriter
	units := ((f.w + 8*most[0] - 1) / (8 * most[0])) * ((f.h + 8*most[1] - 1) / (8 * most[1]))
	for u := range units {
		for i := range n {
			for block := range int(f.factors[i]>>4) * int(f.factors[i]&15) {
				if dc := f.level(i); u == 0 && block == 0 && dc != 0 {
					w.write(0b10, 2)
					if dc < 0 {
						dc += 1023
					}
					w.write(uint32(dc), 10)
				} else {
					w.write(0, 1)
				}
				if !f.progressive {
					w.write(0, 1)
				}
			}
		}
	}
	data := w.flush()
	for range max(1, f.scans) {
		b = append(b, segment(markSOS, scan...)...)
		b = append(b, data...)
	}
	return append(b, 0xff, markEOI)
}

// level is the DC coefficient of a component.
func (f flat) level(i int) int {
	if i >= len(f.dc) {
		return 0
	}
	return f.dc[i]
}

// msbWriter writes bits as JPEG has them, with stuffing.
type msbWriter struct {
	out  []byte
	bits uint64
	n    int
}

func (w *msbWriter) write(v uint32, n int) {
	w.bits, w.n = w.bits<<n|uint64(v), w.n+n
	for ; w.n >= 8; w.n -= 8 {
		b := byte(w.bits >> (w.n - 8))
		w.out = append(w.out, b)
		if b == 0xff {
			w.out = append(w.out, 0)
		}
	}
}

func (w *msbWriter) flush() []byte {
	w.write(0x7f, 7)
	return w.out
}

// lsbWriter writes bits as VP8L has them.
type lsbWriter struct {
	out  []byte
	bits uint64
	n    int
}

func (w *lsbWriter) write(v uint32, n int) {
	w.bits |= uint64(v) << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
	}
}

// code writes a Huffman code, whose first bit comes first.
func (w *lsbWriter) code(v uint32, n int) {
	for i := n - 1; i >= 0; i-- {
		w.write(v>>i&1, 1)
	}
}

// lengths8 writes a tree in which the first 256 symbols have eight bits each.
func (w *lsbWriter) lengths8(all bool) {
	w.write(0, 1)
	w.write(12-4, 4)
	for range 11 {
		w.write(0, 3)
	}
	w.write(1, 3) // only the length 8 comes, for no bits
	if all {
		w.write(0, 1)
		return
	}
	w.write(1, 1)
	w.write(3, 3)
	w.write(254, 8)
}

func (w *lsbWriter) noDistances() { w.write(0b0001, 4) }

func (w *lsbWriter) trees() {
	w.lengths8(false)
	for range 3 {
		w.lengths8(true)
	}
	w.noDistances()
}

func (w *lsbWriter) pixel(c color.NRGBA) {
	for _, v := range []uint8{c.G, c.R, c.B, c.A} {
		w.code(uint32(v), 8)
	}
}

func (w *lsbWriter) head(width, height int) {
	w.write(0x2f, 8)
	w.write(uint32(width-1), 14)
	w.write(uint32(height-1), 14)
	w.write(0, 4)
}

// vp8l is the chunk of a lossless picture.
func vp8l(m *image.NRGBA) []byte {
	var w lsbWriter
	w.head(m.Rect.Dx(), m.Rect.Dy())
	w.write(0, 3) // no transform, no colour cache, one group of trees
	w.trees()
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			w.pixel(m.NRGBAAt(x, y))
		}
	}
	w.write(0, 7)
	return w.out
}

// vp8lBomb is the chunk of a picture with as many and as large trees as a
// decoder takes, and no pixels.
func vp8lBomb(width, height int) []byte {
	const groups = 2600
	var w lsbWriter
	w.head(width, height)
	w.write(0, 1)
	w.write(1, 1)
	w.write(11, 4) // 2048 colours kept
	w.write(1, 1)
	w.write(0, 3) // tiles of four by four
	w.write(0, 1)
	w.trees()
	for i := range ((width + 3) / 4) * ((height + 3) / 4) {
		w.pixel(color.NRGBA{R: uint8(i % groups >> 8), G: uint8(i % groups), A: 255})
	}
	for range groups {
		w.write(0, 1)
		w.write(16-4, 4)
		for _, n := range []uint32{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 2} { // 16: 0, 11: 10, 12: 11
			w.write(n, 3)
		}
		w.write(0, 1)
		w.run(0b10, 1768)
		w.run(0b11, 560)
		for range 3 {
			w.lengths8(true)
		}
		w.noDistances()
	}
	w.write(0, 32)
	return w.out
}

// run writes n code lengths of a code of two bits.
func (w *lsbWriter) run(code uint32, n int) {
	w.code(code, 2)
	for n--; n >= 3; {
		r := min(n, 6)
		if n-r == 1 || n-r == 2 {
			r = 3
		}
		w.code(0, 1)
		w.write(uint32(r-3), 2)
		n -= r
	}
	for ; n > 0; n-- {
		w.code(code, 2)
	}
}

// A chunk is one of a RIFF file.
type chunk struct {
	name string
	data []byte
}

func riff(chunks ...chunk) []byte {
	var b []byte
	for _, c := range chunks {
		b = append(b, c.name...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(c.data)))
		b = append(b, c.data...)
		b = append(b, make([]byte, len(c.data)%2)...)
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(b)+4)), append([]byte("WEBP"), b...)...)
}

// vp8x is the head of an extended WebP file.
func vp8x(flags byte, w, h int) chunk {
	w, h = w-1, h-1
	return chunk{
		"VP8X", []byte{flags, 0, 0, 0, byte(w), byte(w >> 8), byte(w >> 16), byte(h), byte(h >> 8), byte(h >> 16)},
	}
}

// pngChunk is one of a PNG file.
func pngChunk(name string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(b, name...)
	b = append(b, data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// pngHead is the beginning of a PNG file.
func pngHead(w, h uint32, depth, colour, interlace byte) []byte {
	ihdr := binary.BigEndian.AppendUint32(nil, w)
	ihdr = binary.BigEndian.AppendUint32(ihdr, h)
	return append([]byte("\x89PNG\r\n\x1a\n"), pngChunk("IHDR", append(ihdr, depth, colour, 0, 0, interlace))...)
}

var palette16 = func() (p color.Palette) {
	for i := range 16 {
		p = append(p, color.NRGBA{uint8(i * 17), uint8(i * 15), uint8(255 - i*12), 255})
	}
	return p
}()
