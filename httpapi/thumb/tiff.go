package thumb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"io"
	"slices"

	"golang.org/x/image/tiff"
)

// The tags of a TIFF file that say how its pixels are stored (TIFF 6.0), besides tagOrientation.
const (
	tagBits         = 258 // of each sample of a pixel
	tagRowsPerStrip = 278
	tagStripBytes   = 279
	tagTileWidth    = 322
	tagTileLength   = 323
	tagTileBytes    = 325
)

const (
	tagSize       = 12
	typeByte      = 1
	typeLong      = 4
	maxTags       = 1000
	tiffWidest    = 8        // bytes of a pixel that the decoder allows in a strip or tile
	tiffUnpacking = 48 << 10 // bytes that unpacking a strip takes besides its pixels
)

// tiffOf reads a TIFF file in any order, as its decoder does; the decoder would copy a stream into memory.
func tiffOf(r *io.SectionReader) codec {
	return codec{
		func() (image.Config, error) { return tiff.DecodeConfig(r) },
		func() (image.Image, error) { return tiff.Decode(r) },
		func(h *header) error {
			err := h.tiff(r)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return refuse("the file is cut off")
			}
			return err
		},
	}
}

// tiff counts the pixels, the largest strip or tile as the decoder bounds it, twice because it grows, and what the
// others leave for the garbage collector. Strips and tiles that overlap could be unpacked again and again, so they are
// refused.
func (h *header) tiff(r *io.SectionReader) error {
	tags, err := readTags(r)
	if err != nil {
		return err
	}
	if o := tags[tagOrientation].first; 1 <= o && o <= 8 {
		h.orientation = orientation(o)
	}

	width, height := int64(h.width), int64(h.height)
	across, down, sizes := width, height, tags[tagStripBytes]
	if rows := tags[tagRowsPerStrip].first; rows > 0 {
		down = min(rows, height)
	}
	if tags[tagTileWidth].first > 0 {
		across, down, sizes = tags[tagTileWidth].first, tags[tagTileLength].first, tags[tagTileBytes]
	}
	if across < 1 || down < 1 || across > maxEdge || down > maxEdge {
		return refuse("the picture has parts of %d by %d pixels", across, down)
	}
	parts := ((width + across - 1) / across) * ((height + down - 1) / down)
	stored, err := sizes.sum(parts)
	if err != nil {
		return err
	}
	if stored > r.Size() {
		return refuse("the parts of the picture overlap")
	}

	each := int64(1)
	if tags[tagBits].count > 1 {
		each = 4
	}
	if tags[tagBits].first > 8 {
		each *= 2
	}
	pixels := each * h.pixels()
	garbage := min(stored+parts*tiffUnpacking, pixels+32<<20) // then it is collected
	h.memory = pixels + 2*tiffWidest*across*down + garbage
	return nil
}

// A tag is an entry of a directory: a list of whole numbers. The zero tag has none.
type tag struct {
	values io.ReaderAt
	order  binary.ByteOrder
	each   int64 // bytes of a number: 1, 2 or 4
	count  int64
	first  int64 // 0 without numbers
}

// readTags reads the first directory of a TIFF file: of each tag its first number. Other types than whole numbers are
// left out.
func readTags(r *io.SectionReader) (map[uint16]tag, error) {
	var head [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[0] == 'M' {
		order = binary.BigEndian
	}
	at := int64(order.Uint32(head[4:]))
	var number [2]byte
	if _, err := r.ReadAt(number[:], at); err != nil {
		return nil, err
	}
	n := int(order.Uint16(number[:]))
	if n > maxTags {
		return nil, refuse("the file has %d tags", n)
	}
	entries := make([]byte, n*tagSize)
	if _, err := r.ReadAt(entries, at+int64(len(number))); err != nil {
		return nil, err
	}

	tags := make(map[uint16]tag, n)
	for entry := range slices.Chunk(entries, tagSize) {
		t := tag{order: order, count: int64(order.Uint32(entry[4:]))}
		switch order.Uint16(entry[2:]) {
		case typeByte:
			t.each = 1
		case typeShort:
			t.each = 2
		case typeLong:
			t.each = 4
		default:
			continue
		}
		t.values = bytes.NewReader(entry[8:])
		if t.each*t.count > 4 {
			t.values = io.NewSectionReader(r, int64(order.Uint32(entry[8:])), t.each*t.count)
		}
		first, err := t.sum(1)
		if err != nil {
			return nil, err
		}
		t.first = first
		tags[order.Uint16(entry)] = t
	}
	return tags, nil
}

// sum adds up the first n numbers, or all if there are fewer.
func (t tag) sum(n int64) (sum int64, err error) {
	n = min(n, t.count)
	if n == 0 {
		return 0, nil
	}
	var number [4]byte
	b := bufio.NewReaderSize(io.NewSectionReader(t.values, 0, n*t.each), int(min(n*t.each, 4096)))
	for range n {
		if _, err := io.ReadFull(b, number[:t.each]); err != nil {
			return 0, err
		}
		switch t.each {
		case 1:
			sum += int64(number[0])
		case 2:
			sum += int64(t.order.Uint16(number[:]))
		default:
			sum += int64(t.order.Uint32(number[:]))
		}
	}
	return sum, nil
}
