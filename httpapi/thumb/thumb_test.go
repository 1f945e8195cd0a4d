package thumb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv/kvtest/needs"
)

// A desk is a Maker with files to make thumbnails of.
type desk struct {
	testing.TB
	*Maker
	dir   string
	opens atomic.Int32
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{TB: t, dir: filepath.Join(t.TempDir(), "thumbs")}
	m, err := New(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	d.Maker = m
	t.Cleanup(func() { m.Close() })
	return d
}

// get asks for the thumbnail of the bytes.
func (d *desk) get(data []byte) (*Thumb, error) {
	return d.Get(d.Context(), refOf(data), Tile, d.opener(data))
}

func refOf(data []byte) blobs.Ref { return sha256.Sum256(data) }

func (d *desk) opener(data []byte) func() (*os.File, error) {
	return func() (*os.File, error) {
		d.opens.Add(1)
		f, err := os.CreateTemp(filepath.Dir(d.dir), "picture")
		if err != nil {
			return nil, err
		}
		defer os.Remove(f.Name())
		_, err = f.Write(data)
		return f, err
	}
}

// show is the thumbnail's picture, which it must be as it says.
func show(t testing.TB, th *Thumb) image.Image {
	t.Helper()
	m, kind, err := image.Decode(bytes.NewReader(th.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	if "image/"+kind != th.Type || m.Bounds() != image.Rect(0, 0, th.Width, th.Height) ||
		max(th.Width, th.Height) > edges[Tile] {
		t.Fatalf("a %s of %v is said to be %s of %d by %d", kind, m.Bounds(), th.Type, th.Width, th.Height)
	}
	return m
}

// near reports whether the colours look the same.
func near(a, b color.Color) bool {
	ar, ag, ab, aa := a.RGBA()
	br, bg, bb, ba := b.RGBA()
	for _, d := range []int{int(ar) - int(br), int(ag) - int(bg), int(ab) - int(bb), int(aa) - int(ba)} {
		if d < -16<<8 || d > 16<<8 {
			return false
		}
	}
	return true
}

// cornersOf are the colours in the middles of the quarters, clockwise.
func cornersOf(m image.Image) [4]color.Color {
	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	return [4]color.Color{m.At(w/4, h/4), m.At(w-1-w/4, h/4), m.At(w-1-w/4, h-1-h/4), m.At(w/4, h-1-h/4)}
}

func wantCorners(t testing.TB, m image.Image, want [4]color.NRGBA) {
	t.Helper()
	for i, got := range cornersOf(m) {
		if !near(got, want[i]) {
			t.Errorf("corner %d is %v, want %v", i, got, want[i])
		}
	}
}

// holed are the corners of a picture whose third is transparent.
var holed = [4]color.NRGBA{corners[0], corners[1], {}, corners[3]}

func punch[M interface {
	image.Image
	Set(x, y int, c color.Color)
}](m M,
) M {
	b := m.Bounds()
	for y := b.Min.Y + b.Dy()/2; y < b.Max.Y; y++ {
		for x := b.Min.X + b.Dx()/2; x < b.Max.X; x++ {
			m.Set(x, y, color.NRGBA{})
		}
	}
	return m
}

// fourGrey is what the corners are without colour.
func fourGrey() (g [4]color.NRGBA) {
	for i, c := range corners {
		y := color.GrayModel.Convert(c).(color.Gray).Y
		g[i] = color.NRGBA{y, y, y, 255}
	}
	return g
}

func fourColours() color.Palette {
	p := color.Palette{color.NRGBA{}}
	for _, c := range corners {
		p = append(p, c)
	}
	return p
}

func TestFormats(t *testing.T) {
	if raceEnabled {
		t.Skip("it is one goroutine, and fifteen times as slow with the race detector")
	}
	wide, tall := image.Rect(0, 0, 1600, 400), image.Rect(0, 0, 300, 600)
	half := paint(image.NewNRGBA(wide))
	for i := 3; i < len(half.Pix); i += 4 {
		half.Pix[i] = 100
	}
	shaded := corners
	for i := range shaded {
		shaded[i].A = 100
	}
	one := image.NewPaletted(image.Rect(0, 0, 800, 200), fourColours())
	draw.Draw(one, one.Rect, image.NewUniform(corners[1]), image.Point{}, draw.Src)
	offset := &gif.GIF{
		Image:  []*image.Paletted{one, paint(image.NewPaletted(image.Rect(0, 0, 8, 8), fourColours()))},
		Delay:  []int{0, 0},
		Config: image.Config{Width: 1600, Height: 400},
	}
	many := punch(image.NewNRGBA(wide))
	draw.Draw(many, image.Rect(0, 0, 1600, 200), photo(1600, 200), image.Point{}, draw.Src)
	all := func(c color.NRGBA) [4]color.NRGBA { return [4]color.NRGBA{c, c, c, c} }
	jpegOf := func(r image.Rectangle) []byte { return encodeJPEG(t, paint(image.NewRGBA(r))) }
	for _, test := range []struct {
		name    string
		file    []byte
		kind    string
		w, h    int
		corners [4]color.NRGBA
	}{
		{"jpeg", jpegOf(wide), "image/jpeg", 480, 120, corners},
		{"jpeg, small", jpegOf(image.Rect(0, 0, 100, 80)), "image/jpeg", 100, 80, corners},
		{"jpeg, grey", encodeJPEG(t, paint(image.NewGray(tall))), "image/jpeg", 240, 480, fourGrey()},
		{"jpeg, as large as can be", jpegOf(image.Rect(0, 0, 480, 480)), "image/jpeg", 480, 480, corners},
		{"jpeg, one more", jpegOf(image.Rect(0, 0, 481, 480)), "image/jpeg", 480, 479, corners},
		{"jpeg, odd", jpegOf(image.Rect(0, 0, 1447, 1447)), "image/jpeg", 480, 480, corners},
		{"png, RGB", encodePNG(t, paint(image.NewRGBA(wide))), "image/jpeg", 480, 120, corners},
		{"png, grey", encodePNG(t, paint(image.NewGray(wide))), "image/jpeg", 480, 120, fourGrey()},
		{"png, grey with 16 bits", encodePNG(t, paint(image.NewGray16(wide))), "image/jpeg", 480, 120, fourGrey()},
		{"png, 16 bits", encodePNG(t, paint(image.NewRGBA64(wide))), "image/jpeg", 480, 120, corners},
		{"png, 16 bits and alpha", encodePNG(t, punch(paint(image.NewNRGBA64(wide)))), "image/png", 480, 120, holed},
		{"png, alpha", encodePNG(t, punch(paint(image.NewNRGBA(tall)))), "image/png", 240, 480, holed},
		{"png, half opaque", encodePNG(t, half), "image/png", 480, 120, shaded},
		{"png, palette", encodePNG(t, paint(image.NewPaletted(wide, fourColours()[1:]))), "image/jpeg", 480, 120, corners},
		{
			"png, palette and alpha", encodePNG(t, punch(paint(image.NewPaletted(wide, fourColours())))), "image/png", 480, 120,
			holed,
		},
		{
			"gif",
			encodeGIF(t, &gif.GIF{Image: []*image.Paletted{paint(image.NewPaletted(wide, fourColours()[1:]))}, Delay: []int{0}}),
			"image/jpeg", 480, 120, corners,
		},
		{"gif, a frame in a corner", encodeGIF(t, offset), "image/png", 480, 120, [4]color.NRGBA{corners[1], {}, {}, {}}},
		{"webp, lossless", readFile(t, "lossless.webp"), "image/png", 480, 360, holed},
		{"webp, lossless by hand", riff(chunk{"VP8L", vp8l(paint(image.NewNRGBA(tall)))}), "image/jpeg", 240, 480, corners},
		{"webp, alpha", readFile(t, "alpha.webp"), "image/png", 480, 360, holed},
		{"1 by 1", encodePNG(t, paint(image.NewRGBA(image.Rect(0, 0, 1, 1)))), "image/jpeg", 1, 1, all(corners[0])},
		{
			"1 by 20000", encodePNG(t, paint(image.NewRGBA(image.Rect(0, 0, 1, 20000)))), "image/jpeg", 1, 480,
			[4]color.NRGBA{corners[0], corners[0], corners[3], corners[3]},
		},
		{"20000 by 3", jpegOf(image.Rect(0, 0, 20000, 3)), "image/jpeg", 480, 1, [4]color.NRGBA{}},
		{
			"cmyk",
			flat{
				w: 900, h: 600, factors: []byte{0x11, 0x11, 0x11, 0x11}, dc: []int{1016, -1016, -1016, 1016}, segments: adobe(0),
			}.file(),
			"image/jpeg", 480, 320, all(color.NRGBA{255, 0, 0, 255}),
		},
		{
			"ycck", flat{w: 900, h: 600, factors: []byte{0x22, 0x11, 0x11, 0x22}, segments: adobe(2)}.file(), "image/jpeg", 480,
			320, all(color.NRGBA{64, 64, 64, 255}),
		},
		{
			"jpeg, RGB",
			flat{w: 900, h: 600, factors: []byte{0x11, 0x11, 0x11}, names: "RGB", dc: []int{736, -864, -864}}.file(),
			"image/jpeg", 480, 320, all(color.NRGBA{220, 20, 20, 255}),
		},
		{
			"jpeg, progressive",
			flat{w: 901, h: 601, factors: []byte{0x22, 0x11, 0x11}, progressive: true, dc: []int{512, 0, 0}}.file(),
			"image/jpeg", 480, 320, all(color.NRGBA{192, 192, 192, 255}),
		},
		{
			"jpeg, 4:1:1", flat{w: 901, h: 601, factors: []byte{0x41, 0x11, 0x11}}.file(), "image/jpeg", 480, 320,
			all(color.NRGBA{128, 128, 128, 255}),
		},
		{
			"jpeg, 4:1:0", flat{w: 901, h: 601, factors: []byte{0x42, 0x11, 0x11}}.file(), "image/jpeg", 480, 320,
			all(color.NRGBA{128, 128, 128, 255}),
		},
		{"png, many colours and alpha", encodePNG(t, many), "image/png", 480, 120, [4]color.NRGBA{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			d := newDesk(t)
			made, err := d.get(test.file)
			is.NoErr(err)
			is.Equal(made.Type, test.kind)
			is.Equal([2]int{made.Width, made.Height}, [2]int{test.w, test.h})
			m := show(t, made)
			if test.corners != [4]color.NRGBA{} {
				wantCorners(t, m, test.corners)
			}
			kept, err := d.get(test.file)
			is.NoErr(err)
			is.Equal(kept, made)
			is.Equal(d.opens.Load(), int32(1))
			is.NoErr(d.Failure())
		})
	}
}

func adobe(transform byte) []byte {
	return segment(markAPP14, append([]byte("Adobe\x00\x64\x00\x00\x00\x00"), transform)...)
}

// TestAverage: whatever the kind of picture, each cell is the mean of its
// pixels.
func TestAverage(t *testing.T) {
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		t.Run(ratio.String(), func(t *testing.T) {
			is := is.New(t)
			const w, h = 503, 497
			ycc := image.NewYCbCr(image.Rect(0, 0, w+5, h+5), ratio).SubImage(image.Rect(0, 0, w, h)).(*image.YCbCr)
			for y := range h {
				for x := range w {
					ycc.Y[ycc.YOffset(x, y)] = uint8(96 + x/8)
					ycc.Cb[ycc.COffset(x, y)], ycc.Cr[ycc.COffset(x, y)] = uint8(118+y/32), uint8(118+x/32)
				}
			}
			plain := image.NewRGBA(ycc.Rect)
			draw.Draw(plain, plain.Rect, ycc, image.Point{}, draw.Src)
			for _, cells := range [][2]int{{100, 100}, {251, 248}, {5, 5}, {w, h}} {
				a, b := average(ycc, w, h, cells[0], cells[1]), average(plain, w, h, cells[0], cells[1])
				far := 0
				for i := range a.Pix {
					far = max(far, int(max(a.Pix[i], b.Pix[i])-min(a.Pix[i], b.Pix[i])))
				}
				is.True(far <= 3)
			}
		})
	}
	t.Run("other pictures", func(t *testing.T) {
		r := image.Rect(0, 0, 64, 48)
		premultiplied := image.NewRGBA(r)
		draw.Draw(premultiplied, r, punch(paint(image.NewNRGBA(r))), image.Point{}, draw.Src)
		deep := image.NewRGBA64(r)
		draw.Draw(deep, r, premultiplied, image.Point{}, draw.Src)
		for _, m := range []image.Image{premultiplied, deep} {
			wantCorners(t, average(m, 64, 48, 8, 8), holed)
		}
		wantCorners(t, average(paint(image.NewCMYK(r)), 64, 48, 8, 8), corners)
	})
}

// TestVideoRange: black and white, and what is beyond them, are that.
func TestVideoRange(t *testing.T) {
	is := is.New(t)
	for _, c := range []struct{ from, want [3]uint8 }{
		{[3]uint8{16, 128, 128}, [3]uint8{0, 0, 0}},
		{[3]uint8{235, 128, 128}, [3]uint8{255, 255, 255}},
		{[3]uint8{0, 128, 128}, [3]uint8{0, 0, 0}},
		{[3]uint8{255, 128, 128}, [3]uint8{255, 255, 255}},
		{[3]uint8{81, 90, 240}, [3]uint8{255, 0, 0}},
		{[3]uint8{41, 240, 110}, [3]uint8{0, 0, 255}},
	} {
		r, g, b := videoToRGB(c.from[0], c.from[1], c.from[2])
		is.Equal([3]uint8{r, g, b}, c.want)
	}
}

// TestOrientation: a picture is shown as its EXIF block says, and the block
// does not get into the thumbnail.
func TestOrientation(t *testing.T) {
	plain := encodeJPEG(t, paint(image.NewRGBA(image.Rect(0, 0, 96, 64))))
	lossless := vp8l(punch(paint(image.NewNRGBA(image.Rect(0, 0, 48, 32)))))
	const a, b, c, d = 0, 1, 2, 3
	// Which stored corner is seen at the top left, and so on clockwise.
	for o, seen := range map[uint16][4]int{
		1: {a, b, c, d}, 2: {b, a, d, c}, 3: {c, d, a, b}, 4: {d, c, b, a},
		5: {a, d, c, b}, 6: {d, a, b, c}, 7: {c, b, a, d}, 8: {b, c, d, a},
		0: {a, b, c, d}, 9: {a, b, c, d}, 256: {a, b, c, d},
	} {
		for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
			t.Run(fmt.Sprint(o, order), func(t *testing.T) {
				is := is.New(t)
				block := exif(order, o)
				turned := 5 <= o && o <= 8
				check := func(file []byte, w, h int, from [4]color.NRGBA) {
					t.Helper()
					made, err := newDesk(t).get(file)
					is.NoErr(err)
					if turned {
						w, h = h, w
					}
					is.Equal([2]int{made.Width, made.Height}, [2]int{w, h})
					wantCorners(t, show(t, made), [4]color.NRGBA{from[seen[0]], from[seen[1]], from[seen[2]], from[seen[3]]})
					is.True(!bytes.Contains(made.Bytes, []byte("GPS")))
					is.True(!bytes.Contains(made.Bytes, []byte("Exif")))
				}
				marked := withSegments(plain, segment(0xe0, []byte("JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")...),
					segment(markAPP1, append([]byte("http://ns.adobe.com/xap/1.0/\x00"), "<x/>"...)...),
					segment(markAPP1, append([]byte("Exif\x00\x00"), block...)...),
					segment(markAPP1, append([]byte("Exif\x00\x00"), exif(binary.BigEndian, 3)...)...))
				check(marked, 96, 64, corners)
				check(riff(vp8x(8, 48, 32), chunk{"VP8L", lossless}, chunk{"EXIF", block}), 48, 32, holed)
				check(riff(chunk{"VP8L", lossless}, chunk{"EXIF", append([]byte("Exif\x00\x00"), block...)}), 48, 32, holed)
			})
		}
	}
}

func TestExif(t *testing.T) {
	is := is.New(t)
	whole := exif(binary.LittleEndian, 6)
	is.Equal(exifOrientation(whole), orientation(6))
	for n := range len(whole) - 4 - 2 { // what is cut off before the next directory and what fills up the value
		is.Equal(exifOrientation(whole[:n]), upright)
	}
	patch := func(at int, with ...byte) []byte {
		return append(append(bytes.Clone(whole[:at]), with...), whole[at+len(with):]...)
	}
	for _, bad := range [][]byte{
		patch(0, 'X'), patch(4, 0xff, 0xff, 0xff, 0xff), patch(4, 0, 0, 0, 0), patch(8, 0, 0),
		patch(24, 4, 0), patch(26, 2, 0, 0, 0), patch(30, 0, 1),
	} {
		is.Equal(exifOrientation(bad), upright)
	}
	is.Equal(exifOrientation(patch(8, 0xff, 0xff)), orientation(6)) // more entries than there are
}

func TestRefused(t *testing.T) {
	small := paint(image.NewNRGBA(image.Rect(0, 0, 64, 48)))
	photo := encodeJPEG(t, small)
	gif1 := encodeGIF(
		t, &gif.GIF{Image: []*image.Paletted{image.NewPaletted(image.Rect(0, 0, 64, 48), palette16)}, Delay: []int{0}},
	)
	gifWith := func(at int, with ...byte) []byte {
		return append(append(bytes.Clone(gif1[:at]), with...), gif1[at+len(with):]...)
	}
	frame := bytes.IndexByte(gif1[13:], 0x2c) + 13 // behind a palette of grey tones without that byte
	colour := []byte{0x11, 0x11, 0x11}
	lossless := vp8l(small)
	for _, test := range []struct {
		name string
		file []byte
	}{
		{"nothing", nil},
		{"one byte", []byte{0xff}},
		{"text", []byte("not a picture, but long enough to be looked at")},
		{"html", []byte("<html><script>alert(1)</script></html>")},
		{"svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)},
		{"jpeg, only magic", []byte("\xff\xd8\xff")},
		{"jpeg, cut off in its head", photo[:100]},
		{"jpeg, cut off in its data", photo[:len(photo)-40]},
		{"jpeg, no size", flat{w: 0, h: 0, factors: colour}.file()},
		{"jpeg, too many pixels", flat{w: 65535, h: 65535, factors: []byte{0x11}}.bombed()},
		{
			"jpeg, progressive and too many pixels for that",
			flat{w: 4000, h: 4000, factors: colour, progressive: true}.bombed(),
		},
		{
			"jpeg, cmyk and too many pixels for that",
			flat{w: 6000, h: 5000, factors: []byte{0x11, 0x11, 0x11, 0x11}, segments: adobe(2)}.bombed(),
		},
		{"jpeg, RGB and too many pixels for that", flat{w: 6000, h: 6000, factors: colour, segments: adobe(0)}.bombed()},
		{"jpeg, too many scans", flat{w: 64, h: 48, factors: colour, progressive: true, scans: 100}.file()},
		{"jpeg, bad sampling", flat{w: 64, h: 48, factors: []byte{0x11, 0x22, 0x11}}.bombed()},
		{
			"jpeg, a second frame header",
			withSegments(photo, segment(markSOF2, 8, 0, 1, 0, 1, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0)),
		},
		{"jpeg, a segment without length", withSegments(photo, []byte{0xff, 0xe5, 0, 0})},
		{"png, 100000 by 100000", append(pngHead(100_000, 100_000, 8, 6, 0), pngChunk("IDAT", nil)...)},
		{"png, 2000000000 by 1", append(pngHead(2_000_000_000, 1, 8, 6, 0), pngChunk("IDAT", nil)...)},
		{"png, 70000 by 1", append(pngHead(70_000, 1, 8, 6, 0), pngChunk("IDAT", nil)...)},
		{"png, 0 by 0", append(pngHead(0, 0, 8, 6, 0), pngChunk("IDAT", nil)...)},
		{"png, 16 bits and too many pixels for that", append(pngHead(6000, 6000, 16, 6, 0), pngChunk("IDAT", nil)...)},
		{"png, interlaced and too many pixels for that", append(pngHead(6000, 6000, 8, 6, 1), pngChunk("IDAT", nil)...)},
		{"png, no data", append(pngHead(8000, 5000, 8, 6, 0), pngChunk("IEND", nil)...)},
		{"png, cut off", encodePNG(t, small)[:70]},
		{"png, bad sum", append(pngHead(8, 8, 8, 6, 0)[:29], 0, 0, 0, 0)},
		{"png, only magic", []byte("\x89PNG\r\n\x1a\n")},
		{"gif, 65535 by 65535", gifWith(6, 0xff, 0xff, 0xff, 0xff)},
		{"gif, frame out of bounds", gifWith(frame+1, 1)},
		{"gif, frame too large", gifWith(frame+5, 0xff, 0xff, 0xff, 0xff)},
		{"gif, cut off", gif1[:len(gif1)-8]},
		{"gif, no frame", append(bytes.Clone(gif1[:frame]), 0x3b)},
		{"webp, 16384 by 16384", riff(chunk{"VP8L", bombHead(16384, 16384)})},
		{"webp, lossy 16383 by 16383", riff(chunk{"VP8 ", []byte{0x10, 0, 0, 0x9d, 1, 0x2a, 0xff, 0x3f, 0xff, 0x3f, 0, 0}})},
		{"webp, 16777216 by 100", riff(vp8x(0, 16777216, 100), chunk{"VP8L", lossless})},
		{"webp, lossless and too many pixels for that", riff(chunk{"VP8L", bombHead(5000, 5000)})},
		{
			"webp, alpha and too many pixels for that", riff(vp8x(16, 5000, 5000), chunk{"ALPH", []byte{1}}, chunk{"VP8 ", nil}),
		},
		{"webp, two sizes", riff(vp8x(0, 10, 10), chunk{"VP8L", lossless})},
		{"webp, many chunks", riff(append([]chunk{vp8x(0, 64, 48)}, junk()...)...)},
		{"webp, cut off", riff(chunk{"VP8L", lossless})[:60]},
		{"webp, no picture", riff(vp8x(0, 10, 10))},
		{"webp, animated", riff(vp8x(2, 64, 48), chunk{"ANIM", make([]byte, 6)}, chunk{"ANMF", make([]byte, 16)})},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			d := newDesk(t)
			_, err := d.get(test.file)
			t.Log(err)
			is.True(errors.Is(err, ErrNone))
			switch {
			case strings.HasSuffix(test.name, " for that"):
				is.True(strings.Contains(err.Error(), "pixels in this format takes up to"))
			case !strings.Contains(test.name, ","):
				is.True(strings.Contains(err.Error(), "not a picture in a known format"))
			}
			_, again := d.get(test.file)
			is.Equal(again.Error(), err.Error()) // it is remembered with its reason
			is.True(errors.Is(again, ErrNone))
			is.Equal(d.opens.Load(), int32(1))
			is.NoErr(d.Failure())
		})
	}
}

func junk() []chunk {
	all := make([]chunk, 2*maxChunks)
	for i := range all {
		all[i].name = "JUNK"
	}
	return all
}

// bombed is the file with only the beginning of its data.
func (f flat) bombed() []byte {
	whole := flat{w: 8, h: 8, factors: f.factors, names: f.names, progressive: f.progressive, segments: f.segments}.file()
	at := bytes.LastIndex(whole, []byte{0xff, markSOF0})
	if f.progressive {
		at = bytes.LastIndex(whole, []byte{0xff, markSOF2})
	}
	binary.BigEndian.PutUint16(whole[at+5:], uint16(f.h))
	binary.BigEndian.PutUint16(whole[at+7:], uint16(f.w))
	return whole
}

func bombHead(w, h int) []byte {
	var b lsbWriter
	b.head(w, h)
	b.write(0, 24)
	return b.out
}

func TestTooLargeFile(t *testing.T) {
	is := is.New(t)
	d := newDesk(t)
	opens := 0
	open := func() (*os.File, error) {
		opens++
		f, err := os.Create(filepath.Join(t.TempDir(), "large"))
		is.NoErr(err)
		_, err = f.WriteString("\xff\xd8\xff")
		is.NoErr(err)
		return f, f.Truncate(maxFile + 1)
	}
	for range 2 {
		_, err := d.Get(t.Context(), blobs.Ref{1}, Tile, open)
		is.True(errors.Is(err, ErrNone))
	}
	is.Equal(opens, 1)
}

// TestPanic: a decoder that panics has no thumbnail.
func TestPanic(t *testing.T) {
	is := is.New(t)
	_, err := draft(header{decode: func() (image.Image, error) {
		panic("at the disco")
	}}, edges[Tile], quality(qualities[Tile]))
	is.True(errors.Is(err, ErrNone))
}

func TestOneMaking(t *testing.T) {
	is := is.New(t)
	d := newDesk(t)
	file := encodeJPEG(t, paint(image.NewRGBA(image.Rect(0, 0, 96, 64))))
	results := make([]*Thumb, 64)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i], _ = d.get(file) })
	}
	all.Wait()
	is.Equal(d.opens.Load(), int32(1))
	for _, r := range results {
		is.True(r != nil)
		is.Equal(r, results[0])
	}
}

// TestCacheHeals: a damaged thumbnail in the cache is made again.
func TestCacheHeals(t *testing.T) {
	file := encodeJPEG(t, paint(image.NewRGBA(image.Rect(0, 0, 96, 64))))
	other := encodeJPEG(t, photo(50, 50))
	ref := refOf(file)
	for name, harm := range map[string]func(is *is.I, d *desk, path string){
		"removed":        func(is *is.I, _ *desk, path string) { is.NoErr(os.Remove(path)) },
		"folder removed": func(is *is.I, d *desk, _ string) { is.NoErr(os.RemoveAll(d.dir)) },
		"folder a file": func(is *is.I, _ *desk, path string) {
			is.NoErr(os.RemoveAll(filepath.Dir(path)))
			is.NoErr(os.WriteFile(filepath.Dir(path), nil, 0o600))
		},
		"a folder": func(is *is.I, _ *desk, path string) {
			is.NoErr(os.Remove(path))
			is.NoErr(os.MkdirAll(filepath.Join(path, "x"), 0o700))
		},
		"a link": func(is *is.I, _ *desk, path string) {
			is.NoErr(os.Rename(path, path+"x"))
			is.NoErr(os.Symlink(path+"x", path))
		},
		"empty": func(is *is.I, _ *desk, path string) { is.NoErr(os.Truncate(path, 0)) },
		"cut":   func(is *is.I, _ *desk, path string) { is.NoErr(os.Truncate(path, 100)) },
		"zeros": func(is *is.I, _ *desk, path string) {
			is.NoErr(os.Truncate(path, 0))
			is.NoErr(os.Truncate(path, 4096))
		},
		"longer": func(is *is.I, _ *desk, path string) {
			data, err := os.ReadFile(path)
			is.NoErr(err)
			is.NoErr(os.WriteFile(path, append(data, 0), 0o600))
		},
		"huge": func(is *is.I, _ *desk, path string) { is.NoErr(os.Truncate(path, 1<<40)) },
		"one bit": func(is *is.I, _ *desk, path string) {
			data, err := os.ReadFile(path)
			is.NoErr(err)
			data[len(data)/2] ^= 1
			is.NoErr(os.WriteFile(path, data, 0o600))
		},
		"another's": func(is *is.I, d *desk, path string) {
			_, err := d.get(other)
			is.NoErr(err)
			is.NoErr(os.Rename(filepath.Join(d.dir, pathOf(refOf(other))), path))
		},
		"another kind": func(is *is.I, _ *desk, path string) {
			data := format(ref, entry{err: refuse("no")})
			data[8] = 9
			binary.LittleEndian.PutUint32(data[20:], sum(ref, data))
			is.NoErr(os.WriteFile(path, data, 0o600))
		},
		"foreign": func(is *is.I, _ *desk, path string) {
			is.NoErr(os.WriteFile(path, []byte("hello, I am no thumbnail"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			d := newDesk(t)
			first, err := d.get(file)
			is.NoErr(err)
			harm(is, d, filepath.Join(d.dir, pathOf(ref)))
			before := d.opens.Load()
			for range 2 {
				again, err := d.get(file)
				is.NoErr(err)
				is.Equal(again, first)
			}
			is.Equal(d.opens.Load(), before+1)
			is.NoErr(d.Failure())
		})
	}
}

// TestCacheFails: a cache that cannot be written to costs only work.
func TestCacheFails(t *testing.T) {
	is := is.New(t)
	d := newDesk(t)
	file := encodeJPEG(t, photo(50, 50))
	is.NoErr(os.RemoveAll(d.dir))
	is.NoErr(os.WriteFile(d.dir, nil, 0o600))
	for range 2 {
		_, err := d.get(file)
		is.NoErr(err)
		is.True(d.Failure() != nil)
	}
	_, err := d.Sweep(nil)
	is.True(err != nil)
	_, err = New(d.dir)
	is.True(err != nil)
	is.NoErr(os.Remove(d.dir))
	_, err = d.get(file)
	is.NoErr(err)
	is.NoErr(d.Failure())
	_, err = New(filepath.Join(t.TempDir(), "no", "parent"))
	is.True(errors.Is(err, os.ErrNotExist))
}

// TestNotRemembered: after an error that may be temporary, the next call tries again.
func TestNotRemembered(t *testing.T) {
	is := is.New(t)
	d := newDesk(t)
	file := encodeJPEG(t, photo(50, 50))
	ref := refOf(file)
	fails := errors.New("no disk")
	_, err := d.Get(t.Context(), ref, Tile, func() (*os.File, error) { return nil, fails })
	is.Equal(err, fails)
	_, err = d.Get(t.Context(), ref, Tile, func() (*os.File, error) { // cannot be read
		f, err := d.opener(file)()
		is.NoErr(err)
		name := filepath.Join(t.TempDir(), "x")
		is.NoErr(os.WriteFile(name, file, 0o600))
		is.NoErr(f.Close())
		return os.OpenFile(name, os.O_WRONLY, 0)
	})
	is.True(err != nil)
	is.True(!errors.Is(err, ErrNone))
	for _, damaged := range [][]byte{
		file[:60], append(bytes.Clone(file), 0), nil, encodeJPEG(t, photo(40, 40)), []byte("text"),
	} {
		_, err = d.Get(t.Context(), ref, Tile, d.opener(damaged))
		is.True(errors.Is(err, blobs.ErrDamaged))
		is.True(!errors.Is(err, ErrNone))
	}
	_, err = d.Get(t.Context(), ref, Tile, func() (*os.File, error) { return os.Open(t.TempDir()) })
	is.True(!errors.Is(err, ErrNone))
	_, err = d.get(file)
	is.NoErr(err)
}

// busy holds the Maker at a picture until it is let go.
func (d *desk) busy() (letGo func()) {
	begun, gate, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		_, _ = d.Get(context.Background(), blobs.Ref{}, Tile, func() (*os.File, error) {
			close(begun)
			<-gate
			return nil, errors.New("never mind")
		})
	}()
	<-begun
	return sync.OnceFunc(func() { close(gate); <-over })
}

// TestBusy: only a few pictures wait for their turn.
func TestBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		d := newDesk(t)
		letGo := d.busy()
		defer letGo()
		results := make(chan error, queueLength)
		for i := range queueLength {
			go func() {
				_, err := d.Get(t.Context(), blobs.Ref{1, byte(i)}, Tile, func() (*os.File, error) { return nil, io.EOF })
				results <- err
			}()
			synctest.Wait()
		}
		_, err := d.Get(t.Context(), blobs.Ref{2}, Tile, nil)
		is.Equal(err, ErrBusy)
		letGo()
		for range queueLength {
			is.Equal(<-results, io.EOF)
		}
		_, err = d.get(encodeJPEG(t, photo(50, 50)))
		is.NoErr(err)
	})
}

// TestLeftWhileMade: a thumbnail that was begun is finished and kept.
func TestLeftWhileMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		d := newDesk(t)
		file := encodeJPEG(t, photo(50, 50))
		ctx, cancel := context.WithCancel(t.Context())
		gate, errs := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := d.Get(ctx, refOf(file), Tile, func() (*os.File, error) {
				<-gate
				return d.opener(file)()
			})
			errs <- err
		}()
		synctest.Wait()
		cancel()
		is.Equal(<-errs, context.Canceled)
		close(gate)
		synctest.Wait()
		_, err := d.get(file)
		is.NoErr(err)
		is.Equal(d.opens.Load(), int32(1))
	})
}

// TestClose: the picture that is being decoded ends at its next read, and no other begins.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		d := newDesk(t)
		file := encodeJPEG(t, photo(50, 50))
		gate, errs := make(chan struct{}), make(chan error, 2)
		for _, ref := range []blobs.Ref{refOf(file), {1}} {
			go func() {
				_, err := d.Get(t.Context(), ref, Tile, func() (*os.File, error) {
					<-gate
					return d.opener(file)()
				})
				errs <- err
			}()
			synctest.Wait()
		}
		closed := make(chan error, 1)
		go func() { closed <- d.Close() }()
		is.Equal(<-errs, ErrClosed)
		synctest.Wait()
		is.Equal(len(closed), 0)
		close(gate)
		is.Equal(<-errs, ErrClosed)
		is.NoErr(<-closed)
		is.Equal(d.opens.Load(), int32(1))
		_, err := d.get(file)
		is.Equal(err, ErrClosed)
		is.NoErr(d.Close())
	})
}

func TestSweep(t *testing.T) {
	is := is.New(t)
	d := newDesk(t)
	var files [][]byte
	for i := range 6 {
		files = append(files, encodeJPEG(t, photo(50+i, 50)))
	}
	files = append(files, []byte("not a picture"))
	for _, f := range files {
		_, _ = d.get(f)
	}
	foreign := filepath.Join(d.dir, "CACHEDIR.TAG")
	is.NoErr(os.WriteFile(foreign, nil, 0o600))
	astray := filepath.Join(d.dir, folderOf(refOf(files[0])), "astray")
	is.NoErr(os.WriteFile(astray, nil, 0o600))
	is.NoErr(os.WriteFile(filepath.Join(d.dir, unfinished+"x"), nil, 0o600))
	fails := errors.New("cannot say")
	_, err := d.Sweep(func(blobs.Ref) (bool, error) { return false, fails })
	is.Equal(err, fails)
	gone := map[blobs.Ref]bool{refOf(files[1]): true, refOf(files[6]): true}
	for _, want := range []int{2, 0} {
		removed, err := d.Sweep(func(ref blobs.Ref) (bool, error) { return !gone[ref], nil })
		is.NoErr(err)
		is.Equal(removed, want)
	}
	before := d.opens.Load()
	for i, f := range files {
		_, _ = d.get(f)
		if gone[refOf(files[i])] {
			before++
		}
		is.Equal(d.opens.Load(), before)
	}
	for _, name := range []string{foreign, astray} {
		_, err = os.Stat(name)
		is.NoErr(err)
	}
	_, err = os.Stat(filepath.Join(d.dir, unfinished+"x"))
	is.True(errors.Is(err, os.ErrNotExist))
}

// TestKept: a restart finds finished thumbnails and removes unfinished ones.
func TestKept(t *testing.T) {
	is := is.New(t)
	d := newDesk(t)
	file := encodeJPEG(t, photo(50, 50))
	first, err := d.get(file)
	is.NoErr(err)
	is.NoErr(d.Close())
	left := filepath.Join(d.dir, unfinished+"x")
	is.NoErr(os.WriteFile(left, nil, 0o600))
	m, err := New(d.dir)
	is.NoErr(err)
	defer m.Close()
	again, err := m.Get(t.Context(), refOf(file), Tile, nil)
	is.NoErr(err)
	is.Equal(again, first)
	_, err = os.Stat(left)
	is.True(errors.Is(err, os.ErrNotExist))
	info, err := os.Stat(filepath.Join(d.dir, pathOf(refOf(file))))
	is.NoErr(err)
	is.Equal(info.Mode().Perm(), os.FileMode(0o600))
}

// Every size is made of the same picture, and only once. The smaller ones are made of the tile.
func TestSizes(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	data := encodeJPEG(t, photo(2000, 1000))
	opened := 0
	open := func() (*os.File, error) { opened++; return d.opener(data)() }
	for range 2 {
		for size, want := range map[Size][2]int{Row: {128, 64}, Small: {256, 128}, Tile: {480, 240}, Card: {1200, 600}, Screen: {1600, 800}} {
			got, err := d.Get(t.Context(), refOf(data), size, open)
			is.NoErr(err)
			is.Equal([2]int{got.Width, got.Height}, want)
		}
	}
	is.Equal(opened, 3) // for Tile, Card and Screen
	removed, err := d.Sweep(func(blobs.Ref) (bool, error) { return false, nil })
	is.NoErr(err)
	is.Equal(removed, 5)

	// What has no thumbnail has none of any size.
	for _, size := range []Size{Small, Row, Screen, Card} {
		_, err := d.Get(t.Context(), refOf([]byte("text")), size, d.opener([]byte("text")))
		is.True(errors.Is(err, ErrNone))
	}
}
