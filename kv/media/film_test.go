package media

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/matryer/is"
)

// boxOf is a box of an MP4 film.
func boxOf(kind string, parts ...[]byte) []byte {
	inner := slices.Concat(parts...)
	return slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(8+len(inner))), []byte(kind), inner)
}

// longBox is a box whose length has eight bytes.
func longBox(kind string, parts ...[]byte) []byte {
	inner := slices.Concat(parts...)
	b := append([]byte{0, 0, 0, 1}, kind...)
	return append(binary.BigEndian.AppendUint64(b, uint64(16+len(inner))), inner...)
}

// trackOf is a track of a size. Version 1 has longer times. A turned one is shown with its width upright.
func trackOf(version byte, width, height uint32, turned bool) []byte {
	times := 20
	if version == 1 {
		times = 32
	}
	b := append([]byte{version, 0, 0, 3}, make([]byte, times+16)...)
	matrix := []uint32{1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30}
	if turned {
		matrix = []uint32{0, 1 << 16, 0, 0xffff << 16, 0, 0, 0, 0, 1 << 30}
	}
	for _, n := range append(matrix, width<<16, height<<16) {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return boxOf("trak", boxOf("tkhd", b))
}

// element is an element of a Matroska film.
func element(id uint32, parts ...[]byte) []byte {
	inner := slices.Concat(parts...)
	b := bytes.TrimLeft(binary.BigEndian.AppendUint32(nil, id), "\x00")
	b = binary.BigEndian.AppendUint16(append(b, 0x20|byte(len(inner)>>16)), uint16(len(inner)))
	return append(b, inner...)
}

// endless is an element without a length, as a live recording has it.
func endless(id uint32, parts ...[]byte) []byte {
	b := bytes.TrimLeft(binary.BigEndian.AppendUint32(nil, id), "\x00")
	return append(append(b, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), slices.Concat(parts...)...)
}

// films are films with what FilmSize says of them.
func films() map[string]struct {
	file          []byte
	width, height int
} {
	type film = struct {
		file          []byte
		width, height int
	}
	ftyp, mdat := boxOf("ftyp", []byte("isom")), boxOf("mdat", make([]byte, 5000))
	sound, picture := trackOf(0, 0, 0, false), trackOf(0, 320, 240, false)
	head := element(0x1a45dfa3, []byte{0x42, 0x82, 0x84, 'w', 'e', 'b', 'm'})
	video := element(idVideo, element(idWidth, []byte{5, 0}), element(idHeight, []byte{2, 208}))
	tracks := element(idTracks, element(idTrack, []byte{0xd7, 0x81, 1}), element(idTrack, video))
	return map[string]film{
		"mp4":                       {slices.Concat(ftyp, boxOf("moov", sound, picture), mdat), 320, 240},
		"film behind its data":      {slices.Concat(ftyp, mdat, boxOf("moov", picture)), 320, 240},
		"long data":                 {slices.Concat(ftyp, longBox("mdat", make([]byte, 9)), boxOf("moov", picture)), 320, 240},
		"long times":                {slices.Concat(ftyp, boxOf("moov", trackOf(1, 1920, 1080, false))), 1920, 1080},
		"phone held upright":        {slices.Concat(ftyp, boxOf("moov", trackOf(0, 1920, 1080, true))), 1080, 1920},
		"old QuickTime":             {slices.Concat(boxOf("wide"), mdat, boxOf("moov", picture)), 320, 240},
		"sound alone":               {slices.Concat(ftyp, boxOf("moov", sound)), 0, 0},
		"webm":                      {slices.Concat(head, element(idSegment, tracks)), 1280, 720},
		"live webm":                 {slices.Concat(head, endless(idSegment, tracks)), 1280, 720},
		"no length":                 {append([]byte{0, 0, 0, 0}, "moov"...), 0, 0},
		"box beyond the end":        {slices.Concat(ftyp, []byte("\x7f\xff\xff\xffmoov"), picture), 0, 0},
		"box of less than its head": {slices.Concat(ftyp, []byte("\x00\x00\x00\x04moov"), picture), 0, 0},
		"boxes without end":         {bytes.Repeat(boxOf("moov"), 2*maxParts), 0, 0},
		"text":                      {[]byte("once upon a time"), 0, 0},
		"nothing":                   {nil, 0, 0},
	}
}

func TestFilmSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for name, f := range films() {
		width, height := FilmSize(bytes.NewReader(f.file), int64(len(f.file)))
		if width != f.width || height != f.height {
			t.Errorf("%s: %d by %d", name, width, height)
		}
		for cut := range len(f.file) {
			width, height := FilmSize(bytes.NewReader(f.file[:cut]), int64(len(f.file))) // the rest is not there
			is.True(width == 0 && height == 0 || width == f.width && height == f.height)
		}
	}
}

// FuzzFilmSize: whatever the bytes are, it ends soon, and both edges are known or none.
func FuzzFilmSize(f *testing.F) {
	for _, one := range films() {
		f.Add(one.file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		is := is.New(t)
		width, height := FilmSize(bytes.NewReader(file), int64(len(file)))
		is.True(0 <= width && width <= 1<<16 && 0 <= height && height <= 1<<16)
		is.Equal(width > 0, height > 0)
	})
}
