package media

import (
	"encoding/binary"
	"io"
	"math/bits"
)

// maxParts bounds how many parts of a film FilmSize looks at.
const maxParts = 1000

// FilmSize is how wide and high the picture of an MP4, QuickTime, Matroska or WebM film is shown, in pixels. It reads
// the heads of at most maxParts parts, and no samples. Both are 0 if the film does not say it there.
func FilmSize(r io.ReaderAt, size int64) (width, height int) {
	f := &film{r: r, left: maxParts}
	if head := f.read(0, 4); string(head) == "\x1a\x45\xdf\xa3" {
		f.elements(0, size)
	} else {
		f.boxes(0, size)
	}
	return f.width, f.height
}

// A film is one that is looked through until its size is known.
type film struct {
	r             io.ReaderAt
	left          int // parts that may still be looked at
	width, height int
}

// read reads n bytes, or what there is of them.
func (f *film) read(at int64, n int) []byte {
	b := make([]byte, n)
	got, _ := f.r.ReadAt(b, at) // what cannot be read is not there
	return b[:got]
}

// next counts a part. It reports whether the size is still wanted and the part may be looked at.
func (f *film) next() bool {
	f.left--
	return f.left >= 0 && f.width == 0
}

// boxes looks through the boxes of an MP4 or QuickTime film (ISO/IEC 14496-12) from a byte to another.
func (f *film) boxes(at, end int64) {
	for at < end && f.next() {
		head := f.read(at, 16)
		if len(head) < 8 {
			return
		}
		inner, stop := at+8, at+int64(binary.BigEndian.Uint32(head))
		switch binary.BigEndian.Uint32(head) {
		case 0: // the last one
			stop = end
		case 1:
			if len(head) < 16 {
				return
			}
			inner, stop = at+16, at+int64(min(binary.BigEndian.Uint64(head[8:]), 1<<60))
		}
		if stop < inner || stop > end {
			return
		}
		switch string(head[4:8]) {
		case "moov", "trak":
			f.boxes(inner, stop)
		case "tkhd":
			f.track(f.read(inner, int(min(stop-inner, 96))))
		}
		at = stop
	}
}

// track reads the head of a track: its size, and whether it is shown turned by a quarter. That of sound has no size.
func (f *film) track(b []byte) {
	at := 40 // of the matrix
	if len(b) > 0 && b[0] == 1 {
		at = 52 // its times are longer
	}
	if len(b) < at+44 {
		return
	}
	number := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	width, height := int(number(at+36)>>16), int(number(at+40)>>16)
	if number(at) == 0 && number(at+16) == 0 {
		width, height = height, width
	}
	if width > 0 && height > 0 {
		f.width, f.height = width, height
	}
}

// The elements of Matroska (RFC 9559) that lead to the size.
const (
	idSegment, idTracks, idTrack, idVideo = 0x18538067, 0x1654ae6b, 0xae, 0xe0
	idWidth, idHeight                     = 0xb0, 0xba
)

// elements looks through the elements of a Matroska or WebM film from a byte to another.
func (f *film) elements(at, end int64) {
	width, height := 0, 0
	for at < end && f.next() {
		head := f.read(at, 12)
		id, n := variable(head, true)
		length, m := variable(head[n:], false)
		if n == 0 || m == 0 {
			return
		}
		inner := at + int64(n+m)
		stop := end // where its length is not known
		if length < 1<<(7*m)-1 {
			stop = inner + int64(length)
		}
		if stop < inner || stop > end {
			return
		}
		switch id {
		case idSegment, idTracks, idTrack, idVideo:
			f.elements(inner, stop)
		case idWidth:
			width = f.number(inner, stop)
		case idHeight:
			height = f.number(inner, stop)
		}
		if width > 0 && height > 0 {
			f.width, f.height = width, height
		}
		at = stop
	}
}

// number reads a whole number of an element; 0 if it is no size of a picture.
func (f *film) number(at, end int64) int {
	length := int(end - at)
	if length > 8 {
		return 0
	}
	b := f.read(at, length)
	if len(b) < length {
		return 0
	}
	n := uint64(0)
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	if n > 1<<16 {
		return 0
	}
	return int(n)
}

// variable reads a number of one to eight bytes, whose first byte says how many. The mark of the length stays in an id.
// Without one, n is 0.
func variable(b []byte, keepMark bool) (v uint64, n int) {
	if len(b) == 0 || b[0] == 0 {
		return 0, 0
	}
	n = bits.LeadingZeros8(b[0]) + 1
	if n > len(b) {
		return 0, 0
	}
	for _, c := range b[:n] {
		v = v<<8 | uint64(c)
	}
	if !keepMark {
		v &^= 1 << (7 * n)
	}
	return v, n
}
