package thumb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// inICO is a picture in an ICO file.
type inICO struct {
	edge, depth byte // as the list says
	data        []byte
}

func encodeICO(pictures ...inICO) []byte {
	le := binary.LittleEndian
	list := le.AppendUint16([]byte{0, 0, 1, 0}, uint16(len(pictures)))
	var content []byte
	for _, p := range pictures {
		list = append(list, p.edge, p.edge, 0, 0, 1, 0, p.depth, 0)
		list = le.AppendUint32(list, uint32(len(p.data)))
		list = le.AppendUint32(list, uint32(6+16*len(pictures)+len(content)))
		content = append(content, p.data...)
	}
	return append(list, content...)
}

// dib is a bitmap of so many bits a pixel, as ICO files have them, whose
// pixels are made by at: for up to 8 bits the place in the palette, otherwise
// a colour. Those for which blank says so are transparent by the mask.
func dib(w, h, depth int, palette []color.NRGBA, at func(x, y int) uint32, blank func(x, y int) bool) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, bmpHead)
	b = le.AppendUint32(b, uint32(w))
	b = le.AppendUint32(b, uint32(2*h))
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, uint16(depth))
	b = append(b, make([]byte, 16)...)
	b = le.AppendUint32(b, uint32(len(palette)))
	b = le.AppendUint32(b, 0)
	for _, c := range palette {
		b = append(b, c.B, c.G, c.R, 0)
	}
	for y := h - 1; y >= 0; y-- {
		line := make([]byte, (w*depth+31)/32*4)
		for x := range w {
			v := at(x, y)
			switch depth {
			case 32, 24:
				for i := range depth / 8 {
					line[x*depth/8+i] = byte(v >> (8 * i))
				}
			default:
				line[x*depth/8] |= byte(v) << (8 - depth - x*depth%8)
			}
		}
		b = append(b, line...)
	}
	if blank == nil {
		return b
	}
	for y := h - 1; y >= 0; y-- {
		line := make([]byte, (w+31)/32*4)
		for x := range w {
			if blank(x, y) {
				line[x/8] |= 0x80 >> (x % 8)
			}
		}
		b = append(b, line...)
	}
	return b
}

var (
	red   = color.NRGBA{0xd0, 0x10, 0x20, 0xff}
	green = color.NRGBA{0x10, 0xb0, 0x40, 0xff}
	blue  = color.NRGBA{0x20, 0x30, 0xe0, 0xff}
	none  = color.NRGBA{}
)

func packed(c color.NRGBA) uint32 {
	return uint32(c.A)<<24 | uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B)
}

// filled is a PNG of one colour.
func filled(t testing.TB, w, h int, c color.Color) []byte {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.Set(x, y, c)
		}
	}
	return encodePNG(t, m)
}

// quarters is what the bitmaps of the tests show: red, green, blue, and nothing.
func quarters(w, h int) (index func(x, y int) uint32, colour func(x, y int) uint32, blank func(x, y int) bool) {
	all := []color.NRGBA{red, green, blue, none}
	index = func(x, y int) uint32 {
		n := uint32(0)
		if x >= w/2 {
			n++
		}
		if y >= h/2 {
			n += 2
		}
		return n
	}
	return index, func(x, y int) uint32 {
		return packed(all[index(x, y)])
	}, func(x, y int) bool { return index(x, y) == 3 }
}

// Every kind of bitmap comes out as it went in.
func TestICOBitmaps(t *testing.T) {
	palette := []color.NRGBA{red, green, blue, blue}
	for _, size := range []image.Point{{16, 16}, {31, 17}, {48, 48}, {5, 3}} {
		w, h := size.X, size.Y
		index, colour, blank := quarters(w, h)
		solid := func(x, y int) uint32 { return colour(x, y) | 0xff<<24 }
		for name, data := range map[string][]byte{
			"4":                   dib(w, h, 4, palette, index, blank),
			"8":                   dib(w, h, 8, palette, index, blank),
			"24":                  dib(w, h, 24, nil, colour, blank),
			"32":                  dib(w, h, 32, nil, colour, nil),
			"32 and another mask": dib(w, h, 32, nil, colour, func(x, y int) bool { return !blank(x, y) }),
			"32 without alpha":    dib(w, h, 32, nil, func(x, y int) uint32 { return colour(x, y) &^ (0xff << 24) }, blank),
			"32 opaque, a mask":   dib(w, h, 32, nil, solid, nil),
			"24 without a mask":   dib(w, h, 24, nil, colour, nil),
			"1, of the first half": dib(w, h, 1, palette[:2], func(x, y int) uint32 {
				return index(x, y) & 1
			}, func(_, y int) bool { return y >= h/2 }),
		} {
			t.Run(fmt.Sprint(w, "x", h, " ", name), func(t *testing.T) {
				is := is.New(t)
				made, err := icon(encodeICO(inICO{byte(w), 32, data}))
				is.NoErr(err)
				m := show(t, made)
				is.Equal(m.Bounds(), image.Rect(0, 0, w, h))
				wants := []color.NRGBA{red, green, blue, none}
				if name == "1, of the first half" {
					wants = []color.NRGBA{red, green, none, none}
				}
				if name == "24 without a mask" || name == "32 opaque, a mask" {
					wants[3] = color.NRGBA{A: 0xff}
				}
				for i, want := range wants {
					x, y := i%2*(w-1), i/2*(h-1)
					is.Equal(color.NRGBAModel.Convert(m.At(x, y)), want)
				}
			})
		}
	}
}

// Of several pictures the one that suits is taken, and what the list says of it
// is not believed.
func TestICOChoice(t *testing.T) {
	of := func(edge int, c color.Color) inICO { return inICO{byte(edge), 32, filled(t, edge, edge, c)} }
	bad := func(edge int) inICO { return inICO{byte(edge), 32, []byte(strings.Repeat("not a picture", 9))} }
	poor := of(64, red)
	poor.depth = 4
	for name, row := range map[string]struct {
		file []byte
		want color.NRGBA
		edge int
	}{
		"one":                     {encodeICO(of(32, red)), red, 32},
		"the smallest that fills": {encodeICO(of(16, red), of(64, green), of(128, blue), of(48, red)), green, 64},
		"the largest of small":    {encodeICO(of(16, red), of(48, green), of(32, blue)), green, 48},
		"256 is written as 0":     {encodeICO(of(16, red), of(256, green)), green, 64},
		"more colours":            {encodeICO(poor, of(64, green)), green, 64},
		"what can be read":        {encodeICO(of(16, red), bad(64), of(32, green), bad(48)), green, 32},
		"a lie":                   {encodeICO(inICO{16, 32, filled(t, 128, 128, red)}), red, 64},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			made, err := icon(row.file)
			is.NoErr(err)
			is.Equal(made.Width, row.edge)
			is.True(near(show(t, made).At(row.edge/2, row.edge/2), row.want))
		})
	}
}

// Data that is not a picture, or too large a picture, makes no icon.
func TestNoIcon(t *testing.T) {
	square := func(int, int) uint32 { return 0 }
	whole := dib(16, 16, 32, nil, square, nil)
	changed := func(at int, b ...byte) []byte {
		c := bytes.Clone(whole)
		copy(c[at:], b)
		return encodeICO(inICO{16, 32, c})
	}
	many := encodeICO(make([]inICO, 3000)...)
	outside := encodeICO(inICO{16, 32, whole})
	binary.LittleEndian.PutUint32(outside[6+12:], 0xffffffff)
	long := encodeICO(inICO{16, 32, whole})
	binary.LittleEndian.PutUint32(long[6+8:], 0xffffffff)
	for name, data := range map[string][]byte{
		"nothing":              {},
		"HTML":                 []byte("<!doctype html><title>Not found</title>"),
		"SVG":                  []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
		"PNG that is HTML":     append([]byte("\x89PNG\r\n\x1a\n"), strings.Repeat("<script>", 20)...),
		"PNG bomb":             append(pngHead(30_000, 30_000, 8, 6, 0), pngChunk("IDAT", nil)...),
		"PNG of many pixels":   append(pngHead(1025, 1024, 8, 6, 0), pngChunk("IDAT", nil)...),
		"PNG that is cut":      filled(t, 32, 32, red)[:60],
		"large":                append(filled(t, 8, 8, red), make([]byte, MaxIcon)...),
		"cursor":               append([]byte{0, 0, 2, 0}, encodeICO(inICO{16, 32, whole})[4:]...),
		"ICO without pictures": append([]byte{0, 0, 1, 0, 0, 0}, make([]byte, 64)...),
		"ICO, list alone":      encodeICO(inICO{16, 32, whole})[:22],
		"ICO, list cut":        encodeICO(inICO{16, 32, whole}, inICO{16, 32, whole})[:30],
		"ICO of many":          many,
		"ICO, outside":         outside,
		"ICO, too long":        long,
		"ICO with a PNG bomb": encodeICO(inICO{
			16, 32, append(pngHead(30_000, 30_000, 8, 6, 0), pngChunk("IDAT", nil)...),
		}),
		"ICO in an ICO":          encodeICO(inICO{16, 32, encodeICO(inICO{16, 32, whole})}),
		"bitmap cut":             encodeICO(inICO{16, 32, whole[:len(whole)-1]}),
		"bitmap, head of 12":     changed(0, 12),
		"bitmap, endless head":   changed(0, 0xff, 0xff, 0xff, 0xff),
		"bitmap of no width":     changed(4, 0),
		"bitmap of 257":          changed(4, 1, 1),
		"bitmap of -16":          changed(4, 0xf0, 0xff, 0xff, 0xff),
		"bitmap, top down":       changed(8, 0xe0, 0xff, 0xff, 0xff),
		"bitmap of 1":            changed(8, 1),
		"bitmap of 16 bits":      changed(14, 16),
		"bitmap of 0 bits":       changed(14, 0),
		"bitmap, packed":         changed(16, 1),
		"bitmap without palette": encodeICO(inICO{16, 8, dib(1, 1, 8, nil, square, nil)}),
		"colour out of palette": encodeICO(inICO{16, 8, dib(16, 16, 8, []color.NRGBA{red}, func(int, int) uint32 {
			return 1
		}, nil)}),
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			_, err := icon(data)
			is.True(errors.Is(err, ErrNone))
		})
	}
}

// Pictures of every kind become small PNGs.
func TestIconKinds(t *testing.T) {
	r := image.Rect(0, 0, 180, 90)
	picture := paint(image.NewNRGBA(r))
	for name, data := range map[string][]byte{
		"png":  encodePNG(t, picture),
		"jpeg": encodeJPEG(t, picture),
		"gif":  encodeGIF(t, &gif.GIF{Image: []*image.Paletted{paint(image.NewPaletted(r, fourColours()))}, Delay: []int{0}}),
		"webp": riff(vp8x(0, 180, 90), chunk{"VP8L", vp8l(picture)}),
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			made, err := icon(data)
			is.NoErr(err)
			is.Equal(made.Type, "image/png")
			is.Equal(show(t, made).Bounds(), image.Rect(0, 0, 64, 32))
			is.True(len(made.Bytes) < 20<<10)
		})
	}
}

func newIcons(t testing.TB) *Icons {
	t.Helper()
	s, err := newDesk(t).Icons(filepath.Join(t.TempDir(), "icons"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// aged makes the icon of a site older.
func (s *Icons) aged(t testing.TB, site record.ID, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(s.cache.dir, pathOf(iconRef(site))), at, at); err != nil {
		t.Fatal(err)
	}
}

// A site is asked once a day as long as it has no icon, once a month if it has
// one, and at once if that is lost.
func TestIconsWanted(t *testing.T) {
	is := is.New(t)
	s := newIcons(t)
	a, b := record.ID{1}, record.ID{2}
	_, has := s.Get(a)
	is.True(!has)
	is.True(s.Wants(a))
	is.True(!s.Wants(a))
	is.True(s.Wants(b))
	is.NoErr(s.Put(t.Context(), a, filled(t, 100, 100, red)))
	made, has := s.Get(a)
	is.True(has)
	is.Equal(show(t, made).Bounds().Dx(), IconEdge)
	again := func(site record.ID) bool { // a day later
		s.mu.Lock()
		was := s.asked[site]
		s.asked[site] = asking{was.at.Add(-iconRetryTime), was.missed}
		s.mu.Unlock()
		return s.Wants(site)
	}
	is.True(!again(a))
	is.True(again(b))
	s.aged(t, a, iconAge+time.Hour)
	is.True(s.Wants(a))
	is.True(!s.Wants(a))
	s.aged(t, a, -time.Hour) // of a clock that was ahead
	is.True(again(a))

	// Data that is not a picture does not replace the icon.
	is.True(errors.Is(s.Put(t.Context(), a, []byte("<html>")), ErrNone))
	_, has = s.Get(a)
	is.True(has)
	is.NoErr(os.RemoveAll(s.cache.dir))
	_, has = s.Get(a)
	is.True(!has)
	is.True(s.Missed(a))
	is.True(!s.Missed(a)) // it is known
	is.True(s.Wants(a))
	is.NoErr(s.Put(t.Context(), a, filled(t, 10, 10, green)))
	_, has = s.Get(a)
	is.True(has)

	// Of many sites, only so much is remembered.
	for i := range maxAsked + 100 {
		s.Wants(record.ID{3, byte(i), byte(i >> 8), byte(i >> 16)})
	}
	is.True(len(s.asked) <= maxAsked)
}

// A partial icon after a crash is not used, and is removed.
func TestIconsTorn(t *testing.T) {
	is := is.New(t)
	d := newDesk(t)
	dir := filepath.Join(t.TempDir(), "icons")
	s, err := d.Icons(dir)
	is.NoErr(err)
	site := record.ID{7}
	is.NoErr(s.Put(t.Context(), site, filled(t, 32, 32, blue)))
	name := filepath.Join(dir, pathOf(iconRef(site)))
	whole, err := os.ReadFile(name)
	is.NoErr(err)
	is.NoErr(os.WriteFile(filepath.Join(dir, unfinished+"x"), whole[:9], 0o600))
	s, err = d.Icons(dir)
	is.NoErr(err)
	_, err = os.Stat(filepath.Join(dir, unfinished+"x"))
	is.True(errors.Is(err, os.ErrNotExist))
	_, has := s.Get(site) // over a restart
	is.True(has)
	for n := range whole {
		is.NoErr(os.WriteFile(name, whole[:n], 0o600))
		if _, has := s.Get(site); has {
			t.Fatalf("%d bytes of %d are taken for an icon", n, len(whole))
		}
	}
	is.True(s.Wants(site))
	is.NoErr(s.Put(t.Context(), site, filled(t, 32, 32, blue)))
	_, has = s.Get(site)
	is.True(has)
}

// Icons that nothing refers to are removed, after a while.
func TestIconsSweep(t *testing.T) {
	is := is.New(t)
	s := newIcons(t)
	asked := 0
	sweep := func(sites ...record.ID) int {
		n, err := s.Sweep(func() ([]record.ID, error) { asked++; return sites, nil })
		is.NoErr(err)
		return n
	}
	is.Equal(sweep(), 0)
	is.Equal(asked, 0) // there is nothing to ask about
	a, b, c := record.ID{1}, record.ID{2}, record.ID{3}
	for _, site := range []record.ID{a, b, c} {
		is.NoErr(s.Put(t.Context(), site, filled(t, 32, 32, red)))
	}
	s.aged(t, a, 2*iconYoung)
	s.aged(t, b, 2*iconYoung)
	is.Equal(sweep(a), 1)
	is.Equal(asked, 1)
	_, has := s.Get(a)
	is.True(has)
	_, has = s.Get(b)
	is.True(!has)
	_, has = s.Get(c) // what refers to it is on its way
	is.True(has)
}

// FuzzIcon: of whatever bytes there is a small PNG, or none. Nothing panics.
func FuzzIcon(f *testing.F) {
	for name, data := range seedIcons(f) {
		if *seeds {
			text := "go test fuzz v1\n[]byte(" + quote(data) + ")\n"
			if err := os.WriteFile(filepath.Join("testdata/fuzz/FuzzIcon", name), []byte(text), 0o600); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		is := is.New(t)
		made, err := icon(data)
		if err != nil {
			is.True(errors.Is(err, ErrNone))
			return
		}
		c, err := png.DecodeConfig(bytes.NewReader(made.Bytes))
		is.NoErr(err)
		is.True(c.Width == made.Width && c.Height == made.Height && max(c.Width, c.Height) <= IconEdge)
		show(t, made)
	})
}

func seedIcons(t testing.TB) map[string][]byte {
	index, colour, blank := quarters(8, 6)
	palette := []color.NRGBA{red, green, blue, blue}
	return map[string][]byte{
		"png":     filled(t, 8, 8, red),
		"ico-png": encodeICO(inICO{8, 32, filled(t, 8, 8, red)}),
		"ico-1": encodeICO(inICO{8, 1, dib(8, 6, 1, palette[:2], func(x, y int) uint32 {
			return index(x, y) & 1
		}, blank)}),
		"ico-4":    encodeICO(inICO{8, 4, dib(8, 6, 4, palette, index, blank)}),
		"ico-8":    encodeICO(inICO{8, 8, dib(8, 6, 8, palette, index, blank)}),
		"ico-24":   encodeICO(inICO{8, 24, dib(8, 6, 24, nil, colour, blank)}),
		"ico-32":   encodeICO(inICO{8, 32, dib(8, 6, 32, nil, colour, nil)}),
		"ico-two":  encodeICO(inICO{8, 32, []byte(strings.Repeat("x", 50))}, inICO{8, 4, dib(8, 6, 4, palette, index, nil)}),
		"ico-bomb": encodeICO(inICO{0, 32, append(pngHead(30_000, 30_000, 8, 6, 1), pngChunk("IDAT", nil)...)}),
		"svg":      []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"),
	}
}

// TestTrimPictures: pictures may be larger than icons, and those stored longest ago go first.
func TestTrimPictures(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	m, err := New(filepath.Join(t.TempDir(), "thumbs"))
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(m.Close()) })
	s, err := m.Pictures(filepath.Join(t.TempDir(), "pictures"))
	is.NoErr(err)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 2000, 1000))))
	for i := range byte(5) {
		is.NoErr(s.Put(t.Context(), record.ID{i}, b.Bytes()))
		at := time.Now().Add(time.Duration(int(i)-100) * time.Minute)
		is.NoErr(os.Chtimes(filepath.Join(s.cache.dir, pathOf(iconRef(record.ID{i}))), at, at))
	}
	is.NoErr(s.Trim(5))
	is.NoErr(s.Trim(2))
	for i := range byte(5) {
		p, got := s.Get(record.ID{i})
		is.Equal(got, i >= 3)
		is.True(!got || p.Width == 480 && p.Height == 240)
	}
	is.True(errors.Is(s.Put(t.Context(), record.ID{9}, []byte("no picture")), ErrNone))
}
