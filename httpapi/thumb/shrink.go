package thumb

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
)

// qualities are those of JPEG. Pages have dozens of small pictures.
var qualities = [sizes]int{Tile: 82, Small: 70, Row: 55, Screen: 82, Card: 75}

// fit scales a size of w by h pixels down so that neither edge is longer than edge.
func fit(w, h, edge int) (int, int) {
	longest := max(w, h)
	if longest <= edge {
		return w, h
	}
	scale := func(n int) int { return max(1, (n*edge+longest/2)/longest) }
	return scale(w), scale(h)
}

// shrink scales a picture down so that neither edge is longer than edge. Pixels outside of img's bounds are
// transparent. It first averages over blocks, which is cheap, down to one and a half to three times the final
// size. A Catmull-Rom filter does the rest. This looks nearly as good as only the filter, which takes many times
// as long and 32 bytes for each pixel of a picture as wide as the result and as high as the original.
func shrink(img image.Image, h header, edge int) *image.RGBA {
	block := max(1, 2*max(h.width, h.height)/(3*edge))
	small := average(img, h.width, h.height, max(1, h.width/block), max(1, h.height/block))
	if w, t := fit(h.width, h.height, edge); small.Rect.Dx() != w || small.Rect.Dy() != t {
		scaled := image.NewRGBA(image.Rect(0, 0, w, t))
		draw.CatmullRom.Scale(scaled, scaled.Rect, small, small.Rect, draw.Src, nil)
		small = scaled
	}
	return rotate(small, h.orientation)
}

func rotate(m *image.RGBA, o orientation) *image.RGBA {
	if o == upright {
		return m
	}
	w, h := m.Rect.Dx(), m.Rect.Dy()
	size := image.Rect(0, 0, w, h)
	if o.swapsEdges() {
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

// average divides w by h pixels into across by down cells, as evenly as possible, and turns each into one pixel.
// A cell has at most 1<<16 pixels.
func average(img image.Image, w, h, across, down int) *image.RGBA {
	cells := image.NewRGBA(image.Rect(0, 0, across, down))
	edges := make([]int, across+1)
	for i := range edges {
		edges[i] = i * w / across
	}
	line := image.NewRGBA(image.Rect(0, 0, w, 1)) // stays transparent where img has no pixels
	sums := make([][4]uint32, across)             // red, green, blue and alpha, premultiplied
	for cy := range down {
		from, to := cy*h/down, (cy+1)*h/down
		for y := max(from, img.Bounds().Min.Y); y < min(to, img.Bounds().Max.Y); y++ {
			draw.Draw(line, line.Rect, img, image.Pt(0, y), draw.Src)
			for i := range sums {
				s := &sums[i]
				for p := line.Pix[4*edges[i] : 4*edges[i+1]]; len(p) >= 4; p = p[4:] {
					s[0] += uint32(p[0])
					s[1] += uint32(p[1])
					s[2] += uint32(p[2])
					s[3] += uint32(p[3])
				}
			}
		}
		row := cells.Pix[cy*cells.Stride:]
		for i, s := range sums {
			n := uint32((edges[i+1] - edges[i]) * (to - from))
			for c := range s {
				row[4*i+c] = uint8((s[c] + n/2) / n)
			}
		}
		clear(sums)
	}
	return cells
}

// An encoder writes the pixels of a picture, and no metadata.
type encoder func(*image.RGBA) (data []byte, mediaType string, err error)

// quality writes opaque pictures as JPEG, in grey if they have no colours, and others as PNG.
func quality(of int) encoder {
	return func(m *image.RGBA) ([]byte, string, error) {
		if !m.Opaque() {
			return lossless(m)
		}
		var b bytes.Buffer
		var picture image.Image = m
		if g := colourless(m); g != nil {
			picture = g
		}
		err := jpeg.Encode(&b, picture, &jpeg.Options{Quality: of})
		return b.Bytes(), "image/jpeg", err
	}
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

// colourless is the picture in grey, or nil if it has colours.
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

// palette is the picture with a palette, or nil if it has too many colours.
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
