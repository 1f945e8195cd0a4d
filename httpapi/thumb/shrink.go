package thumb

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
)

// Edge is the longest edge of a thumbnail in pixels. A picture that is
// smaller keeps its size.
const Edge = 480

const jpegQuality = 82

// fit is the size of a picture of w by h pixels when neither edge may be longer
// than edge.
func fit(w, h, edge int) (int, int) {
	longest := max(w, h)
	if longest <= edge {
		return w, h
	}
	scale := func(n int) int { return max(1, (n*edge+longest/2)/longest) }
	return scale(w), scale(h)
}

// shrink makes the small picture, no edge of it longer than edge, of one whose
// pixels outside of what img has are transparent. Averages over blocks come first, which cost a look at
// each pixel; then a Catmull-Rom filter goes from between one and a half and
// three times the size, or less, to the size that is asked for. That looks
// nearly as good as the filter alone, which costs many times as much.
func shrink(img image.Image, h header, edge int) *image.RGBA {
	block := max(1, 2*max(h.width, h.height)/(3*edge))
	small := average(img, h.width, h.height, max(1, h.width/block), max(1, h.height/block), h.toRGB)
	if w, t := fit(h.width, h.height, edge); small.Rect.Dx() != w || small.Rect.Dy() != t {
		scaled := image.NewRGBA(image.Rect(0, 0, w, t))
		draw.CatmullRom.Scale(scaled, scaled.Rect, small, small.Rect, draw.Src, nil)
		small = scaled
	}
	return turn(small, h.orientation)
}

// turn shows the picture as the camera was held.
func turn(m *image.RGBA, o orientation) *image.RGBA {
	if o == upright {
		return m
	}
	w, h := m.Rect.Dx(), m.Rect.Dy()
	size := image.Rect(0, 0, w, h)
	if o.turns() {
		size = image.Rect(0, 0, h, w)
	}
	turned := image.NewRGBA(size)
	for y := range size.Dy() {
		for x := range size.Dx() {
			sx, sy := o.source(x, y, w, h)
			copy(turned.Pix[turned.PixOffset(x, y):], m.Pix[m.PixOffset(sx, sy):][:4])
		}
	}
	return turned
}

// colours makes red, green and blue of luma and two colour differences.
type colours func(luma, blue, red uint8) (r, g, b uint8)

// videoToRGB is for samples as WebP has them and video: black is 16 and white
// 235.
func videoToRGB(luma, blue, red uint8) (r, g, b uint8) {
	l, u, v := 298*(int(luma)-16)+128, int(blue)-128, int(red)-128
	part := func(n int) uint8 { return uint8(min(max(n>>8, 0), 255)) }
	return part(l + 409*v), part(l - 100*u - 208*v), part(l + 516*u)
}

// average divides w by h pixels into across by down cells, as even as can be,
// and makes one pixel of each. A cell has at most 1<<16 pixels.
func average(img image.Image, w, h, across, down int, toRGB colours) *image.RGBA {
	cells := image.NewRGBA(image.Rect(0, 0, across, down))
	edges := make([]int, across+1)
	for i := range edges {
		edges[i] = i * w / across
	}
	var add func(y int)
	var finish func(row []byte, lines int)
	if ycc, got := img.(*image.YCbCr); got && ycc.Rect == image.Rect(0, 0, w, h) {
		add, finish = averageYCbCr(ycc, edges, toRGB)
	} else {
		add, finish = averageAny(img, w, edges, toRGB)
	}
	for cy := range down {
		from, to := cy*h/down, (cy+1)*h/down
		for y := from; y < to; y++ {
			add(y)
		}
		finish(cells.Pix[cy*cells.Stride:][:4*across], to-from)
	}
	return cells
}

// averageYCbCr averages the samples and converts what comes out. A colour
// sample that two cells share counts in full for both.
func averageYCbCr(m *image.YCbCr, edges []int, toRGB colours) (add func(y int), finish func(row []byte, lines int)) {
	shift := 0
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		shift = 1
	case image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410:
		shift = 2
	}
	type cell struct{ luma, blue, red, colours uint32 }
	cells := make([]cell, len(edges)-1)
	last := -1 // the place of the colours of the line before, in the same cells
	add = func(y int) {
		luma := m.Y[m.YOffset(0, y):]
		at := m.COffset(0, y)
		blue, red, fresh := m.Cb[at:], m.Cr[at:], at != last
		last = at
		for i := range cells {
			c, from, to := &cells[i], edges[i], edges[i+1]
			for _, l := range luma[from:to] {
				c.luma += uint32(l)
			}
			if !fresh {
				continue
			}
			from, to = from>>shift, (to-1)>>shift+1
			for _, b := range blue[from:to] {
				c.blue += uint32(b)
			}
			for _, r := range red[from:to] {
				c.red += uint32(r)
			}
			c.colours += uint32(to - from)
		}
	}
	finish = func(row []byte, lines int) {
		for i, c := range cells {
			n := uint32((edges[i+1] - edges[i]) * lines)
			mean := func(sum, n uint32) uint8 { return uint8((sum + n/2) / n) }
			r, g, b := toRGB(mean(c.luma, n), mean(c.blue, c.colours), mean(c.red, c.colours))
			copy(row[4*i:], []byte{r, g, b, 255})
		}
		clear(cells)
		last = -1
	}
	return add, finish
}

// averageAny averages colours in the measure in which they are opaque.
func averageAny(img image.Image, width int, edges []int, toRGB colours) (add func(y int), finish func(row []byte, lines int)) {
	b := img.Bounds()
	line := make([]byte, 4*width) // straight alpha
	part := line[4*min(max(b.Min.X, 0), width) : 4*min(max(b.Max.X, 0), width)]
	read := lineReader(img, toRGB)
	sums := make([][4]uint32, len(edges)-1)
	add = func(y int) {
		if y < b.Min.Y || b.Max.Y <= y || len(part) == 0 {
			return
		}
		read(y, part)
		for i := range sums {
			s := &sums[i]
			for p := line[4*edges[i] : 4*edges[i+1]]; len(p) >= 4; p = p[4:] {
				a := uint32(p[3])
				s[0] += uint32(p[0]) * a
				s[1] += uint32(p[1]) * a
				s[2] += uint32(p[2]) * a
				s[3] += a
			}
		}
	}
	finish = func(row []byte, lines int) {
		for i, s := range sums {
			n := uint32((edges[i+1] - edges[i]) * lines)
			whole := 255 * n
			for c := range 3 { // premultiplied
				row[4*i+c] = uint8((s[c] + whole/2) / whole)
			}
			row[4*i+3] = uint8((s[3] + n/2) / n)
		}
		clear(sums)
	}
	return add, finish
}

// lineReader reads a line of a picture, from its left edge on, as bytes red,
// green, blue, alpha.
func lineReader(img image.Image, toRGB colours) func(y int, to []byte) {
	left := img.Bounds().Min.X
	switch m := img.(type) {
	case *image.NRGBA:
		return func(y int, to []byte) { copy(to, m.Pix[m.PixOffset(left, y):]) }
	case *image.RGBA:
		if m.Opaque() {
			return func(y int, to []byte) { copy(to, m.Pix[m.PixOffset(left, y):]) }
		}
	case *image.Gray:
		return func(y int, to []byte) {
			grey(to, m.Pix[m.PixOffset(left, y):], 1)
		}
	case *image.Gray16:
		return func(y int, to []byte) {
			grey(to, m.Pix[m.PixOffset(left, y):], 2)
		}
	case *image.NRGBA64:
		return func(y int, to []byte) { high(to, m.Pix[m.PixOffset(left, y):]) }
	case *image.RGBA64:
		if m.Opaque() {
			return func(y int, to []byte) { high(to, m.Pix[m.PixOffset(left, y):]) }
		}
	case *image.Paletted:
		var table [256][4]byte
		for i, c := range m.Palette[:min(len(m.Palette), 256)] {
			n := color.NRGBAModel.Convert(c).(color.NRGBA)
			table[i] = [4]byte{n.R, n.G, n.B, n.A}
		}
		return func(y int, to []byte) {
			from := m.Pix[m.PixOffset(left, y):]
			for i := 0; 4*i < len(to); i++ {
				copy(to[4*i:], table[from[i]][:])
			}
		}
	case *image.CMYK:
		return func(y int, to []byte) {
			from := m.Pix[m.PixOffset(left, y):]
			for i := 0; i < len(to); i += 4 {
				r, g, b := color.CMYKToRGB(from[i], from[i+1], from[i+2], from[i+3])
				copy(to[i:], []byte{r, g, b, 255})
			}
		}
	case *image.NYCbCrA:
		return func(y int, to []byte) {
			for i := 0; 4*i < len(to); i++ {
				l, c := m.YOffset(left+i, y), m.COffset(left+i, y)
				r, g, b := toRGB(m.Y[l], m.Cb[c], m.Cr[c])
				copy(to[4*i:], []byte{r, g, b, m.A[m.AOffset(left+i, y)]})
			}
		}
	}
	return func(y int, to []byte) {
		for i := 0; 4*i < len(to); i++ {
			n := color.NRGBAModel.Convert(img.At(left+i, y)).(color.NRGBA)
			copy(to[4*i:], []byte{n.R, n.G, n.B, n.A})
		}
	}
}

// grey spreads samples, of which the first of each step bytes counts.
func grey(to, from []byte, step int) {
	for i := 0; 4*i < len(to); i++ {
		v := from[step*i]
		copy(to[4*i:], []byte{v, v, v, 255})
	}
}

// high takes the upper halves of 16-bit samples.
func high(to, from []byte) {
	for i := range to {
		to[i] = from[2*i]
	}
}

// encode writes what is opaque as JPEG, without colour if there is none, and
// what is not as PNG. Nothing but pixels goes in.
func encode(m *image.RGBA) (data []byte, mediaType string, err error) {
	if m.Opaque() {
		var b bytes.Buffer
		var picture image.Image = m
		if g := colourless(m); g != nil {
			picture = g
		}
		err = jpeg.Encode(&b, picture, &jpeg.Options{Quality: jpegQuality})
		return b.Bytes(), "image/jpeg", err
	}
	return lossless(m)
}

// lossless writes PNG, with a palette if the colours fit into one.
func lossless(m *image.RGBA) (data []byte, mediaType string, err error) {
	straight := image.NewNRGBA(m.Rect)
	draw.Draw(straight, m.Rect, m, m.Rect.Min, draw.Src)
	var picture image.Image = straight
	if p := palette(straight); p != nil {
		picture = p
	}
	var b bytes.Buffer
	err = png.Encode(&b, picture)
	return b.Bytes(), "image/png", err
}

// colourless is the picture without colours, or nil if it has some.
func colourless(m *image.RGBA) *image.Gray {
	g := image.NewGray(m.Rect)
	for i := range g.Pix {
		p := m.Pix[4*i:][:3]
		if p[0] != p[1] || p[1] != p[2] {
			return nil
		}
		g.Pix[i] = p[0]
	}
	return g
}

// palette is the picture with its colours in a palette, or nil if there are
// too many of them.
func palette(m *image.NRGBA) *image.Paletted {
	p := image.NewPaletted(m.Rect, nil)
	index := make(map[color.NRGBA]uint8)
	for i := range p.Pix {
		c := color.NRGBA{m.Pix[4*i], m.Pix[4*i+1], m.Pix[4*i+2], m.Pix[4*i+3]}
		n, known := index[c]
		if !known {
			if len(p.Palette) == 256 {
				return nil
			}
			n = uint8(len(p.Palette))
			index[c] = n
			p.Palette = append(p.Palette, c)
		}
		p.Pix[i] = n
	}
	return p
}
