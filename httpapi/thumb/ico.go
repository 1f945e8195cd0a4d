package thumb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"image"
	"slices"
)

// Bounds of ICO files.
const (
	maxICOEntries = 64 // entries of the list of pictures that are read
	maxICOTried   = 4  // pictures that are decoded
	maxICOEdge    = 256
	bmpHead       = 40 // bytes of a BITMAPINFOHEADER
)

// isICO reports whether the bytes are an ICO file: a list of pictures, each a PNG file or a Windows bitmap
// without its file header.
func isICO(data []byte) bool {
	return len(data) >= 6+16 && string(data[:4]) == "\x00\x00\x01\x00"
}

// icoEntry is an entry in the list. It may contain anything, so it serves only to choose a picture.
type icoEntry struct {
	edge, depth int
	data        []byte
}

// icoIcon makes an icon of the most suitable readable picture in an ICO file.
func icoIcon(data []byte) (t *Thumb, err error) {
	err = refuse("the list of pictures is empty")
	for i, e := range icoEntries(data) {
		if i == maxICOTried {
			break
		}
		t, err = e.icon()
		if err == nil {
			return t, nil
		}
	}
	return nil, err
}

// icoEntries lists the pictures, best first: the smallest that fill an icon, then the largest of the others.
// Among equals, the one with more colours comes first.
func icoEntries(data []byte) (all []icoEntry) {
	count := min(int(binary.LittleEndian.Uint16(data[4:])), maxICOEntries)
	for list := data[6:]; count > 0 && len(list) >= 16; count, list = count-1, list[16:] {
		size, at := int64(binary.LittleEndian.Uint32(list[8:])), int64(binary.LittleEndian.Uint32(list[12:]))
		if at+size > int64(len(data)) || size < bmpHead {
			continue
		}
		edge := func(b byte) int { return cmp.Or(int(b), maxICOEdge) }
		all = append(
			all, icoEntry{max(edge(list[0]), edge(list[1])), int(binary.LittleEndian.Uint16(list[6:])), data[at : at+size]},
		)
	}
	rank := func(e icoEntry) int {
		if e.edge < IconEdge {
			return 2*maxICOEdge - e.edge // after all that fill an icon
		}
		return e.edge
	}
	slices.SortStableFunc(all, func(a, b icoEntry) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.depth, a.depth))
	})
	return all
}

func (e icoEntry) icon() (*Thumb, error) {
	if bytes.HasPrefix(e.data, []byte("\x89PNG")) {
		return fileIcon(e.data)
	}
	h, err := bmpHeader(e.data)
	if err != nil {
		return nil, err
	}
	return iconOf(h)
}

// bmpHeader reads the header of a bitmap in an ICO file. The bitmap has its lines of colours, from bottom to
// top, and then as many lines of a mask with one bit per pixel, set if it is transparent.
func bmpHeader(data []byte) (header, error) {
	if len(data) < bmpHead {
		return header{}, refuse("the bitmap is cut off")
	}
	le := binary.LittleEndian
	head := int64(le.Uint32(data))
	b := bitmap{
		width: int(int32(le.Uint32(data[4:]))), height: int(int32(le.Uint32(data[8:]))) / 2,
		depth: int(le.Uint16(data[14:])),
	}
	colours := int64(le.Uint32(data[32:]))
	switch {
	case head < bmpHead || head > int64(len(data)):
		return header{}, refuse("the header of the bitmap is unknown")
	case b.width < 1 || b.height < 1 || b.width > maxICOEdge || b.height > maxICOEdge:
		return header{}, refuse("the bitmap has %d by %d pixels", b.width, b.height)
	case le.Uint32(data[16:]) != 0:
		return header{}, refuse("the bitmap is compressed")
	case !slices.Contains([]int{1, 4, 8, 24, 32}, b.depth):
		return header{}, refuse("the bitmap has %d bits per pixel", b.depth)
	}
	data = data[head:]
	if b.depth <= 8 {
		if limit := int64(1) << b.depth; colours == 0 || colours > limit {
			colours = limit
		}
		if 4*colours > int64(len(data)) {
			return header{}, refuse("the palette of the bitmap is cut off")
		}
		b.palette, data = data[:4*colours], data[4*colours:]
	}
	// Lines are padded to multiples of 32 bits.
	b.stride, b.maskStride = (b.width*b.depth+31)/32*4, (b.width+31)/32*4
	if len(data) < b.stride*b.height {
		return header{}, refuse("the bitmap is cut off")
	}
	b.pixels, b.mask = data[:b.stride*b.height], data[b.stride*b.height:]
	if len(b.mask) < b.maskStride*b.height {
		b.mask = nil // some files leave it out
	}
	return header{
		decode: b.decode, // the bytes are in memory already
		width:  b.width, height: b.height, orientation: upright,
		memory: 4 * int64(b.width) * int64(b.height),
	}, nil
}

// A bitmap has a checked size and depth.
type bitmap struct {
	width, height, depth int
	palette              []byte // blue, green, red, unused
	pixels, mask         []byte // mask may be nil
	stride, maskStride   int
}

var errPalette = errors.New("a colour is not in the palette of the bitmap")

func (b *bitmap) decode() (image.Image, error) {
	m := image.NewNRGBA(image.Rect(0, 0, b.width, b.height))
	blank := b.depth == 32 // its alpha channel is 0 so far
	for y := range b.height {
		line, to := b.pixels[(b.height-1-y)*b.stride:], m.Pix[y*m.Stride:]
		for x := range b.width {
			p := to[4*x:][:4]
			var from []byte
			switch b.depth {
			case 24, 32:
				from = line[x*b.depth/8:]
			default:
				each := 8 / b.depth // pixels in a byte, the first in its highest bits
				n := 4 * (int(line[x/each]) >> (8 - b.depth*(x%each+1)) & (1<<b.depth - 1))
				if n >= len(b.palette) {
					return nil, errPalette
				}
				from = b.palette[n:]
			}
			p[0], p[1], p[2], p[3] = from[2], from[1], from[0], 0xff
			if b.depth == 32 {
				p[3] = from[3]
				blank = blank && from[3] == 0
			}
		}
	}
	if blank { // an old file without alpha channel: only the mask counts
		for i := 3; i < len(m.Pix); i += 4 {
			m.Pix[i] = 0xff
		}
	}
	if b.mask != nil && (blank || b.depth < 32) {
		for y := range b.height {
			line, to := b.mask[(b.height-1-y)*b.maskStride:], m.Pix[y*m.Stride:]
			for x := range b.width {
				if line[x/8]>>(7-x%8)&1 != 0 {
					copy(to[4*x:], []byte{0, 0, 0, 0})
				}
			}
		}
	}
	return m, nil
}
