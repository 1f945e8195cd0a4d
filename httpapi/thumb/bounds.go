package thumb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

// Limits for pictures. The last two are for what headers do not tell. A scan of a JPEG file needs about
// ten bytes and makes the decoder walk over the whole picture; encoders write at most about twenty scans.
const (
	maxFile   = 256 << 20
	maxPixels = 40_000_000
	maxEdge   = 1<<16 - 1
	maxMemory = 200 << 20
	maxScans  = 32
	maxChunks = 1000
)

// A refusal says why some bytes will never have a thumbnail. It is an ErrNone.
type refusal struct{ why string }

func (r *refusal) Error() string { return "thumb: no thumbnail: " + r.why }
func (r *refusal) Unwrap() error { return ErrNone }

func refuse(format string, a ...any) error { return &refusal{fmt.Sprintf(format, a...)} }

// A header is what is known about a picture before it is decoded.
type header struct {
	decode      func() (image.Image, error)
	width       int // as stored
	height      int
	orientation orientation
	memory      int64 // maximum bytes that decoding allocates, including garbage
}

// readHeader reads the header of a picture without decoding it. The result is within the limits. The
// error is a refusal, or an error of r.
func readHeader(r *io.SectionReader) (header, error) {
	if r.Size() > maxFile {
		return header{}, refuse("the file has more than %d bytes", maxFile)
	}
	f, err := codecOf(r)
	if err != nil {
		return header{}, err
	}
	c, err := f.config()
	if err != nil {
		return header{}, refuse("%v", err)
	}
	h := header{decode: f.decode, orientation: upright, width: c.Width, height: c.Height}
	switch w, t := int64(c.Width), int64(c.Height); {
	case w < 1 || t < 1:
		return header{}, refuse("the picture has no pixels")
	case w > maxEdge || t > maxEdge || w*t > maxPixels:
		return header{}, refuse("%d by %d pixels are too many", w, t)
	}
	if err := f.details(&h); err != nil {
		return header{}, err
	}
	if h.memory > maxMemory {
		return header{}, refuse("decoding %d by %d pixels in this format takes up to %d MiB", c.Width, c.Height, h.memory>>20)
	}
	return h, nil
}

// A codec reads a file in one of the formats.
type codec struct {
	config  func() (image.Config, error)
	decode  func() (image.Image, error)
	details func(*header) error // sets the memory, and the orientation if the file has one
}

// codecOf chooses the codec of a picture by its first bytes. The error is a refusal, or an error of r.
func codecOf(r *io.SectionReader) (codec, error) {
	magic := make([]byte, 32)
	n, err := r.ReadAt(magic, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return codec{}, err
	}
	magic = magic[:n]
	switch {
	case bytes.HasPrefix(magic, []byte("\xff\xd8\xff")):
		return streamed(r, jpeg.DecodeConfig, jpeg.Decode, (*header).jpeg), nil
	case bytes.HasPrefix(magic, []byte("\x89PNG\r\n\x1a\n")) && n >= 29:
		return streamed(r, png.DecodeConfig, png.Decode, (*header).png), nil
	case bytes.HasPrefix(magic, []byte("GIF87a")), bytes.HasPrefix(magic, []byte("GIF89a")):
		return streamed(r, gif.DecodeConfig, gif.Decode, (*header).gif), nil
	case n >= 16 && string(magic[:4]) == "RIFF" && string(magic[8:15]) == "WEBPVP8":
		return streamed(firstFrame(r), webp.DecodeConfig, decodeWebP, (*header).webp), nil
	case bytes.HasPrefix(magic, []byte("BM")) && n >= 30:
		return streamed(r, bmp.DecodeConfig, bmp.Decode, (*header).bmp), nil
	case bytes.HasPrefix(magic, []byte("II*\x00")), bytes.HasPrefix(magic, []byte("MM\x00*")):
		return tiffOf(r), nil
	}
	return codec{}, refuse("not a picture in a known format")
}

// streamed is a codec whose decoder reads a file from its start.
func streamed(
	r *io.SectionReader, config func(io.Reader) (image.Config, error), decode func(io.Reader) (image.Image, error),
	details func(*header, *io.SectionReader) error,
) codec {
	return codec{
		func() (image.Config, error) { return config(buffered(r)) },
		func() (image.Image, error) { return decode(buffered(r)) },
		func(h *header) error { return details(h, r) },
	}
}

// buffered reads r from its start.
func buffered(r *io.SectionReader) *bufio.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(r, 0, r.Size()), 64<<10)
}

func (h *header) pixels() int64 { return int64(h.width) * int64(h.height) }

// png reads the first chunk, which has a fixed place and format.
func (h *header) png(r *io.SectionReader) error {
	var ihdr [29]byte
	if _, err := r.ReadAt(ihdr[:], 0); err != nil {
		return err
	}
	depth, colour, interlaced := ihdr[24], ihdr[25], ihdr[28] != 0
	each := int64(4)
	switch {
	case depth == 16:
		each = 8
	case colour == 3: // palette
		each = 1
	}
	if interlaced { // each pass is a separate picture
		each *= 2
	}
	h.memory = each * h.pixels()
	return nil
}

// gif counts the frame and a copy of it, because it may be interlaced. The decoder refuses a frame that is
// not within the picture.
func (h *header) gif(*io.SectionReader) error {
	h.memory = 2 * h.pixels()
	return nil
}

// bmp counts four bytes for each pixel. The pixels are not compressed, so a short file does not have them.
func (h *header) bmp(r *io.SectionReader) error {
	var head [30]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return err
	}
	bits := int64(binary.LittleEndian.Uint16(head[28:]))
	if r.Size() < h.pixels()*bits/8 {
		return refuse("the file is cut off")
	}
	h.memory = 4 * h.pixels()
	return nil
}

// Markers of JPEG.
const (
	markSOF0, markSOF1, markSOF2 = 0xc0, 0xc1, 0xc2
	markRST0, markRST7           = 0xd0, 0xd7
	markEOI, markSOS             = 0xd9, 0xda
	markAPP1, markAPP14          = 0xe1, 0xee
)

// jpeg reads all markers as the decoder does. The decoder stops at the first bad one, so this misses no
// marker that the decoder uses.
func (h *header) jpeg(r *io.SectionReader) error {
	b := buffered(r)
	_, _ = b.Discard(2) // SOI
	var frame, exif []byte
	var progressive, adobe bool
	for scans := 0; ; {
		marker, segment, err := nextSegment(b)
		if err != nil || marker == markEOI {
			break // this may be enough for the decoder; otherwise it fails
		}
		switch marker {
		case markSOF0, markSOF1, markSOF2:
			if frame == nil {
				frame, progressive = segment, marker == markSOF2
			}
		case markAPP1:
			if tiff, got := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); got && exif == nil {
				exif = tiff
			}
		case markAPP14:
			adobe = adobe || len(segment) >= 12 && string(segment[:5]) == "Adobe" && segment[11] == 0
		case markSOS:
			scans++
			if scans > maxScans {
				return refuse("the picture has more than %d scans", maxScans)
			}
		}
	}
	h.orientation = exifOrientation(exif)
	return h.jpegFrame(frame, progressive, adobe)
}

// nextSegment reads the next marker and its segment, which the caller may keep.
func nextSegment(b *bufio.Reader) (marker byte, segment []byte, err error) {
	for marker == 0 || markRST0 <= marker && marker <= markRST7 {
		if _, err := b.ReadSlice(0xff); errors.Is(err, bufio.ErrBufferFull) {
			continue
		} else if err != nil {
			return 0, nil, err
		}
		for marker = 0xff; marker == 0xff; {
			marker, err = b.ReadByte()
			if err != nil {
				return 0, nil, err
			}
		}
	}
	if marker == markEOI {
		return marker, nil, nil
	}
	var length [2]byte
	if _, err := io.ReadFull(b, length[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:])) - 2
	if n < 0 {
		return 0, nil, errors.New("a segment without length")
	}
	switch marker {
	case markSOF0, markSOF1, markSOF2, markAPP1, markAPP14:
		segment = make([]byte, n)
		_, err = io.ReadFull(b, segment)
	default:
		_, err = b.Discard(n)
	}
	return marker, segment, err
}

// jpegFrame computes the memory for decoding: a byte for each sample, four more for its coefficient in a
// progressive file, and four for each pixel if the result is converted. Samples come in whole units of
// blocks.
func (h *header) jpegFrame(frame []byte, progressive, adobe bool) error {
	if len(frame) < 9 || len(frame) != 6+3*int(frame[5]) {
		return refuse("the frame header is malformed")
	}
	if int(binary.BigEndian.Uint16(frame[1:])) != h.height || int(binary.BigEndian.Uint16(frame[3:])) != h.width {
		return refuse("the picture has two sizes")
	}
	var names string
	var blocks int64 // in a unit
	across, down := int64(1), int64(1)
	for c := frame[6:]; len(c) > 0; c = c[3:] {
		names += string(c[0])
		x, y := int64(c[1]>>4), int64(c[1]&15)
		if frame[5] == 1 {
			x, y = 1, 1 // a single component has no subsampling
		}
		blocks += x * y
		across, down = max(across, x), max(down, y)
	}
	units := ((int64(h.width) + 8*across - 1) / (8 * across)) * ((int64(h.height) + 8*down - 1) / (8 * down))
	h.memory = units * blocks * 64
	if progressive {
		h.memory *= 5
	}
	if frame[5] == 4 || frame[5] == 3 && (adobe || names == "RGB") {
		h.memory += 4 * units * across * down * 64
	}
	return nil
}

// vp8lTrees is the maximum memory for the Huffman trees of a lossless picture: 2600 groups with up to 3136
// symbols. A few bytes can require each group.
const vp8lTrees = 2600 * 52_000

// webp finds the chunks that say how the picture is stored. The decoder checks that their sizes agree before
// it allocates memory.
func (h *header) webp(r *io.SectionReader) error {
	lossless, alpha, found := false, false, false
	at := int64(12)
	for chunks := 0; ; chunks++ {
		var head [8]byte
		if _, err := r.ReadAt(head[:], at); err != nil {
			break // this may be enough for the decoder; otherwise it fails
		}
		if chunks == maxChunks {
			return refuse("the file has more than %d chunks", maxChunks)
		}
		size := int64(binary.LittleEndian.Uint32(head[4:]))
		at += 8
		switch string(head[:4]) {
		case "ALPH":
			alpha = alpha || !found
		case "VP8L":
			lossless = lossless || !found
			found = true
		case "VP8 ":
			if !found { // the decoder reads all of it
				h.memory += min(size, r.Size())
			}
			found = true
		case "EXIF":
			exif := make([]byte, min(size, maxExif))
			n, _ := r.ReadAt(exif, at)
			exif, _ = bytes.CutPrefix(exif[:n], []byte("Exif\x00\x00")) // some encoders write this
			h.orientation = exifOrientation(exif)
		}
		at += size + size&1
	}
	if lossless || alpha { // the pixels, their copy before palette and tiles are applied, and the trees
		h.memory += 6*h.pixels() + vp8lTrees
	}
	if !lossless { // whole blocks of 16 pixels, 4:2:0, and the alpha channel
		h.memory += int64(h.width+15) * int64(h.height+15) * 3 / 2
		if alpha {
			h.memory += h.pixels()
		}
	}
	return nil
}

// decodeWebP is webp.Decode with the right colours.
func decodeWebP(r io.Reader) (image.Image, error) {
	img, err := webp.Decode(r)
	switch m := img.(type) {
	case *image.YCbCr:
		return video{YCbCr: m}, err
	case *image.NYCbCrA:
		return video{&m.YCbCr, m}, err
	}
	return img, err
}

// video is a picture with video samples: black is 16 and white 235.
type video struct {
	*image.YCbCr
	alpha *image.NYCbCrA // nil if opaque
}

// RGBA64At is the colour of a pixel. [draw.Draw] needs only this method.
func (m video) RGBA64At(x, y int) color.RGBA64 {
	c := m.COffset(x, y)
	p := color.NRGBA{A: 0xff}
	if m.alpha != nil {
		p.A = m.alpha.A[m.alpha.AOffset(x, y)]
	}
	p.R, p.G, p.B = videoToRGB(m.Y[m.YOffset(x, y)], m.Cb[c], m.Cr[c])
	r, g, b, a := p.RGBA()
	return color.RGBA64{R: uint16(r), G: uint16(g), B: uint16(b), A: uint16(a)}
}

func videoToRGB(luma, blue, red uint8) (r, g, b uint8) {
	l, u, v := 298*(int(luma)-16)+128, int(blue)-128, int(red)-128
	part := func(n int) uint8 { return uint8(min(max(n>>8, 0), 255)) }
	return part(l + 409*v), part(l - 100*u - 208*v), part(l + 516*u)
}
