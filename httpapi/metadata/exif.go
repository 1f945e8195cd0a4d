package metadata

import "encoding/binary"

// maxExif is how many bytes of EXIF are read. A segment of a JPEG file cannot be longer.
const maxExif = 64 << 10

// The tags that matter (EXIF 3.0, TIFF 6.0).
const (
	tagOrientation = 0x0112
	tagExif        = 0x8769
	tagGPS         = 0x8825
	typeShort      = 3
)

var tagsFound = map[uint16]string{
	0x010e: Text, 0x013b: Text, 0x8298: Text, 0x9286: Text, 0x9c9b: Text, 0x9c9c: Text, 0x9c9d: Text, 0x9c9e: Text, 0x9c9f: Text,
	0x010f: Camera, 0x0110: Camera, 0x0131: Camera, 0x927c: Camera, 0xa434: Camera,
	0xa420: Serial, 0xa430: Serial, 0xa431: Serial, 0xa435: Serial, 0xc62f: Serial,
	0x0132: Time, 0x9003: Time, 0x9004: Time,
	tagGPS: GPS,
}

// readExif finds the orientation, 1 to 8, in a TIFF structure, and what else it says. It reads the first directory and
// the one for the camera, each once. What is malformed counts as upright and as something else.
func readExif(tiff []byte) (orientation byte, found []string) {
	orientation = 1
	if len(tiff) < 8 {
		return orientation, []string{Other}
	}
	var order binary.ByteOrder
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return orientation, []string{Other}
	}
	directory := func(at uint64) (camera uint64) {
		if at+2 > uint64(len(tiff)) {
			return 0
		}
		n := uint64(order.Uint16(tiff[at:]))
		for i := range n {
			entry := at + 2 + 12*i
			if entry+12 > uint64(len(tiff)) {
				return camera
			}
			e := tiff[entry:]
			tag := order.Uint16(e)
			switch {
			case tag == tagOrientation:
				if v := order.Uint16(e[8:]); order.Uint16(e[2:]) == typeShort && 1 <= v && v <= 8 {
					orientation = byte(v)
				}
			case tag == tagExif:
				camera = uint64(order.Uint32(e[8:]))
			case tagsFound[tag] != "":
				found = append(found, tagsFound[tag])
			default:
				continue
			}
		}
		if next := at + 2 + 12*n; camera != at && next+4 <= uint64(len(tiff)) && order.Uint32(tiff[next:]) != 0 {
			found = append(found, Thumbnail)
		}
		return camera
	}
	if camera := directory(uint64(order.Uint32(tiff[4:]))); camera != 0 {
		saved := orientation
		directory(camera)
		orientation = saved
		found = append(found, Other)
	}
	return orientation, found
}

// turned is a TIFF structure that has only an orientation.
func turned(orientation byte) []byte {
	return []byte{
		'M', 'M', 0, '*', 0, 0, 0, 8, // the directory is at 8
		0, 1, // and has one entry
		tagOrientation >> 8, tagOrientation & 0xff, 0, typeShort, 0, 0, 0, 1, 0, orientation, 0, 0,
		0, 0, 0, 0, // no further directory
	}
}
