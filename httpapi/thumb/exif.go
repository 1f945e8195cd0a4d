package thumb

import "encoding/binary"

// An orientation says how the camera was held, 1 to 8 as in EXIF. From 5 on, width and height are
// swapped.
type orientation uint8

const upright orientation = 1

// The maximum length of an EXIF block that is read, in bytes. A segment of a JPEG file cannot be longer.
const maxExif = 64 << 10

const (
	tagOrientation = 0x0112
	typeShort      = 3
)

// exifOrientation finds the orientation in a TIFF structure, the format of EXIF. It reads only the first
// directory, which is that of the picture, once and forwards. Anything malformed counts as upright.
func exifOrientation(tiff []byte) orientation {
	if len(tiff) < 8 {
		return upright
	}
	var order binary.ByteOrder
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return upright
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return upright
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return upright
		}
		tag, kind, count, value := order.Uint16(entries), order.Uint16(entries[2:]), order.Uint32(entries[4:]), order.Uint16(entries[8:])
		if tag == tagOrientation {
			if kind == typeShort && count == 1 && 1 <= value && value <= 8 {
				return orientation(value)
			}
			return upright
		}
		entries = entries[12:]
	}
	return upright
}

// swapsEdges reports whether width and height are swapped.
func (o orientation) swapsEdges() bool { return o >= 5 }

// source is the position in a stored picture of w by h pixels of the pixel shown at x, y.
func (o orientation) source(x, y, w, h int) (int, int) {
	if o.swapsEdges() {
		x, y = y, x
	}
	mirrorX := o == 2 || o == 3 || o == 7 || o == 8
	mirrorY := o == 3 || o == 4 || o == 6 || o == 7
	if mirrorX {
		x = w - 1 - x
	}
	if mirrorY {
		y = h - 1 - y
	}
	return x, y
}
