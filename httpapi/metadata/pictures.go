package metadata

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
)

// ---- JPEG (ITU-T T.81) ----

// The markers that matter.
const (
	markEOI  = 0xd9
	markSOS  = 0xda
	markAPP0 = 0xe0
	markAPP1 = 0xe1
	markAPP2 = 0xe2
	markAPPD = 0xed
	markAPPE = 0xee
	markAPPF = 0xef
	markCOM  = 0xfe
)

var (
	exifHead = []byte("Exif\x00\x00")
	iccHead  = []byte("ICC_PROFILE\x00")
	jfifHead = []byte("JFIF\x00")
)

func (p *Plan) jpeg(s *source) error {
	head, err := s.bytes(0, 2)
	if err != nil {
		return err
	}
	if head[0] != 0xff || head[1] != 0xd8 {
		return unreadable("it does not begin like a JPEG file")
	}
	if err := p.keep(0, 2); err != nil {
		return err
	}
	at, turnedOnce := int64(2), false
	var colours splitProfile
	for at < s.size {
		b, err := s.bytes(at, min(4, s.size-at))
		if err != nil {
			return err
		}
		switch {
		case b[0] != 0xff || len(b) < 2:
			return unreadable("there is no marker at %d", at)
		case b[1] == 0xff: // fill
			at++
			continue
		case b[1] == markEOI:
			if at+2 < s.size {
				p.found(Other)
			}
			return p.keep(at, at+2)
		case b[1] == 0x01, 0xd0 <= b[1] && b[1] <= 0xd8:
			if err := p.keep(at, at+2); err != nil {
				return err
			}
			at += 2
			continue
		case len(b) < 4:
			return unreadable("it ends in a marker")
		}
		length := int64(binary.BigEndian.Uint16(b[2:]))
		end := at + 2 + length
		if length < 2 || end > s.size {
			return unreadable("the segment at %d is too long", at)
		}
		switch marker := b[1]; {
		case marker == markSOS:
			end, err = s.endOfScan(end)
			if err != nil {
				return err
			}
			err = p.keep(at, end)
		case marker >= markAPP0 && marker <= markAPPF || marker == markCOM:
			var data []byte
			data, err = s.bytes(at+4, length-2)
			switch {
			case err != nil:
			case marker == markAPP2 && bytes.HasPrefix(data, iccHead):
				err = colours.part(p, s, at, end, data)
			default:
				err = p.application(marker, at, end, data, &turnedOnce)
			}
		default:
			err = p.keep(at, end)
		}
		if err != nil {
			return err
		}
		at = end
	}
	return nil // cut off in the middle of the picture, which browsers show
}

// application decides about an APPn or COM segment, which holds what programs add to a picture.
// It keeps a bare JFIF header, the orientation and Adobe's colour marker.
func (p *Plan) application(marker byte, at, end int64, data []byte, turnedOnce *bool) error {
	switch {
	case marker == markAPP0 && bytes.HasPrefix(data, jfifHead) && len(data) >= 14:
		if len(data) == 14 {
			return p.keep(at, end)
		}
		p.found(Thumbnail)
		return p.put(slices.Concat([]byte{0xff, markAPP0, 0, 16}, data[:12], []byte{0, 0}))
	case marker == markAPP0:
		p.found(Thumbnail) // of the extension JFXX
	case marker == markAPP1 && bytes.HasPrefix(data, exifHead):
		exif := data[len(exifHead):]
		p.readPhoto(exif)
		orientation, found := readExif(exif)
		plain := bytes.Equal(exif, turned(orientation)) && orientation != 1 && !*turnedOnce
		if !plain {
			p.found(append(found, Other)...)
		}
		switch {
		case orientation == 1 || *turnedOnce:
			return nil
		case plain:
			*turnedOnce = true
			return p.keep(at, end)
		}
		*turnedOnce = true
		exif = slices.Concat(exifHead, turned(orientation))
		return p.put(append([]byte{0xff, markAPP1, 0, byte(2 + len(exif))}, exif...))
	// says how the colours are stored
	case marker == markAPPE && bytes.HasPrefix(data, []byte("Adobe")) && len(data) >= 12:
		if len(data) == 12 {
			return p.keep(at, end)
		}
		p.found(Other)
		return p.put(append([]byte{0xff, markAPPE, 0, 14}, data[:12]...))
	case marker == markAPP1:
		p.found(textual(data)...)
	case marker == markAPPD, marker == markCOM:
		p.found(Text)
	default:
		p.found(Other)
	}
	return nil
}

// endOfScan finds the marker that ends the compressed data from at on.
func (s *source) endOfScan(at int64) (int64, error) {
	for at < s.size-1 {
		b, err := s.peek(at, 2, windowAll)
		if err != nil {
			return 0, err
		}
		i := 0
		for i < len(b)-1 {
			n := bytes.IndexByte(b[i:len(b)-1], 0xff)
			if n < 0 {
				i = len(b) - 1
				break
			}
			i += n
			if next := b[i+1]; next != 0 && (next < 0xd0 || next > 0xd7) {
				return at + int64(i), nil
			}
			i += 2
		}
		at += int64(i)
	}
	return s.size, nil
}

// keepProfile keeps the colours of a part of the file that has a profile from inner on.
func (p *Plan) keepProfile(s *source, at, inner, end int64) error {
	if end-inner > maxProfile {
		return unreadable("its colour profile is too long")
	}
	profile, err := s.bytes(inner, max(end-inner, 0))
	if err != nil {
		return err
	}
	plain, err := p.profile(profile)
	if err != nil {
		return err
	}
	if bytes.Equal(plain, profile) {
		return p.keep(at, end)
	}
	if err := p.keep(at, inner); err != nil {
		return err
	}
	return p.put(plain)
}

// A splitProfile is the colour profile of a JPEG file, which is in one segment or in several, one after the other.
type splitProfile struct {
	left      []byte // for the segments that follow
	next, all byte   // the segment that follows, and how many there are
}

// splitHead is the length in bytes of what comes before a part of a profile: a name, its number, and how many there are.
const splitHead = 14

// part plans a segment that has a part of a profile. The first one reads the others.
func (c *splitProfile) part(p *Plan, s *source, at, end int64, data []byte) error {
	if len(data) < splitHead {
		p.found(Other)
		return nil
	}
	number, all := data[splitHead-2], data[splitHead-1]
	if number == 1 && c.next == 0 {
		c.next, c.all = 1, all
		whole := bytes.Clone(data[splitHead:])
		for i, from := 2, end; i <= int(all); i++ {
			more, err := s.bytes(from, 4)
			if err != nil {
				return err
			}
			length := int64(binary.BigEndian.Uint16(more[2:]))
			if more[0] != 0xff || more[1] != markAPP2 || length < 2+splitHead {
				return unreadable("a part of its colour profile is missing")
			}
			part, err := s.bytes(from+4, length-2)
			if err != nil {
				return err
			}
			if !bytes.HasPrefix(part, iccHead) || part[splitHead-2] != byte(i) || part[splitHead-1] != all {
				return unreadable("a part of its colour profile is missing")
			}
			whole, from = append(whole, part[splitHead:]...), from+2+length
		}
		plain, err := p.profile(whole)
		if err != nil {
			return err
		}
		c.left = plain
	}
	part := data[splitHead:]
	if number != c.next || all != c.all || len(part) > len(c.left) {
		p.found(Other) // a second profile
		return nil
	}
	c.next++
	plain := c.left[:len(part)]
	c.left = c.left[len(part):]
	if bytes.Equal(plain, part) {
		return p.keep(at, end)
	}
	if err := p.keep(at, end-int64(len(part))); err != nil {
		return err
	}
	return p.put(plain)
}

// ---- PNG (W3C, third edition) ----

// pngKept are the chunks that decide what the picture looks like, and how many bytes each may have.
var pngKept = map[string]int64{
	"IHDR": 13, "PLTE": 768, "IDAT": 1<<31 - 1, "IEND": 0,
	"acTL": 8, "fcTL": 26, "fdAT": 1<<31 - 1,
	"tRNS": 256, "sBIT": 4, "bKGD": 6, "pHYs": 9,
	"cHRM": 32, "gAMA": 4, "sRGB": 1, "cICP": 4, "mDCV": 24, "cLLI": 8,
	"CgBI": 4,
}

func (p *Plan) png(s *source) error {
	head, err := s.bytes(0, 8)
	if err != nil {
		return err
	}
	if string(head) != "\x89PNG\r\n\x1a\n" {
		return unreadable("it does not begin like a PNG file")
	}
	if err := p.keep(0, 8); err != nil {
		return err
	}
	for at := int64(8); at < s.size; {
		b, err := s.bytes(at, 8)
		if err != nil {
			return err
		}
		length, kind := int64(binary.BigEndian.Uint32(b)), string(b[4:])
		end := at + 8 + length + 4
		if kind == "IDAT" && end > s.size {
			return p.keep(at, s.size) // cut off in the middle of the picture, which browsers show
		}
		if length > 1<<31-1 || end > s.size {
			return unreadable("the chunk at %d is too long", at)
		}
		most, kept := pngKept[kind]
		switch {
		case kind == "eXIf":
			err = p.pngExif(s, at+8, length)
		case kind == "iCCP":
			err = p.pngProfile(s, at, end)
		case kept && length <= most:
			err = p.keep(at, end)
		case kind == "tIME":
			p.found(Time)
		case kind == "tEXt", kind == "zTXt", kind == "iTXt":
			var text []byte
			text, err = s.some(at+8, min(length, maxExif))
			if err != nil {
				return err
			}
			p.found(textual(text)...)
		default:
			p.found(Other)
		}
		if err != nil {
			return err
		}
		at = end
		if kind == "IEND" {
			if at < s.size {
				p.found(Other)
			}
			return nil
		}
	}
	return unreadable("it has no end")
}

func (p *Plan) pngExif(s *source, at, length int64) error {
	exif, err := s.some(at, min(length, maxExif))
	if err != nil {
		return err
	}
	p.readPhoto(exif)
	orientation, found := readExif(exif)
	if !bytes.Equal(exif, turned(orientation)) {
		p.found(append(found, Other)...)
	}
	if orientation == 1 {
		return nil
	}
	return p.put(pngChunk("eXIf", turned(orientation)))
}

// pngChunk is a chunk with its length and its check sum.
func pngChunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// pngProfileName is the name that every colour profile of a clean picture has.
const pngProfileName = "ICC Profile"

// pngProfile keeps the colours of a chunk iCCP, and replaces its name.
func (p *Plan) pngProfile(s *source, at, end int64) error {
	if end-at > maxProfile {
		return unreadable("its colour profile is too long")
	}
	data, err := s.bytes(at+8, end-4-at-8)
	if err != nil {
		return err
	}
	name, packed, _ := bytes.Cut(data, []byte{0})
	profile, rest := unpacked(packed)
	plain, err := p.profile(profile)
	if err != nil {
		return err
	}
	if string(name) == pngProfileName && rest == 0 && bytes.Equal(plain, profile) {
		return p.keep(at, end)
	}
	p.found(Text)
	var b bytes.Buffer
	b.WriteString(pngProfileName + "\x00\x00")
	w := zlib.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return p.put(pngChunk("iCCP", b.Bytes()))
}

// unpacked is a compressed profile, after the byte that names the method, and how many bytes follow it. One that cannot
// be read is empty and has one byte left.
func unpacked(b []byte) (profile []byte, rest int) {
	if len(b) == 0 {
		return nil, 1
	}
	in := bytes.NewReader(b[1:])
	r, err := zlib.NewReader(in)
	if err != nil {
		return nil, 1
	}
	profile, err = io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return nil, 1
	}
	return profile, in.Len()
}

// ---- WebP (RFC 9649) ----

// The flags of a file's features, which say what chunks it has.
const (
	webpExif = 0x08
	webpXMP  = 0x04
)

func (p *Plan) webp(s *source) error {
	head, err := s.bytes(0, 12)
	if err != nil {
		return err
	}
	if string(head[:4]) != "RIFF" || string(head[8:]) != "WEBP" {
		return unreadable("it does not begin like a WebP file")
	}
	size := 8 + int64(binary.LittleEndian.Uint32(head[4:]))
	if size > s.size {
		return unreadable("it ends early")
	}
	if size < s.size {
		p.found(Other)
	}
	if err := p.put(bytes.Clone(head)); err != nil {
		return err
	}
	features, orientation := []byte(nil), byte(1)
	for at := int64(12); at < size; {
		b, err := s.bytes(at, min(8, size-at))
		if err != nil {
			return err
		}
		if len(b) < 8 {
			return unreadable("it ends in a chunk")
		}
		length, kind := int64(binary.LittleEndian.Uint32(b[4:])), string(b[:4])
		end := at + 8 + length + length&1
		if end > size+1 || end > s.size+1 {
			return unreadable("the chunk at %d is too long", at)
		}
		end = min(end, size)
		switch kind {
		case "VP8X":
			if length < 10 || length > windowFew || features != nil {
				return unreadable("it has wrong features")
			}
			features, err = s.bytes(at, end-at)
			if err != nil {
				return err
			}
			err = p.put(features)
		case "VP8 ", "VP8L", "ALPH", "ANIM", "ANMF":
			err = p.keep(at, end)
		case "ICCP":
			err = p.keepProfile(s, at, at+8, end)
		case "EXIF", "XMP ":
			var data []byte
			data, err = s.some(at+8, min(length, maxExif))
			if err != nil {
				break
			}
			if kind == "XMP " {
				p.found(textual(data)...)
				break
			}
			exif := bytes.TrimPrefix(data, exifHead)
			p.readPhoto(exif)
			turn, found := readExif(exif)
			orientation = max(orientation, turn)
			if !bytes.Equal(data, turned(turn)) {
				p.found(append(found, Other)...)
			}
		default:
			p.found(Other)
		}
		if err != nil {
			return err
		}
		at = end
	}
	if features != nil {
		features[8] &^= webpExif | webpXMP
		if orientation != 1 {
			features[8] |= webpExif
			exif := turned(orientation)
			if err := p.put(append(binary.LittleEndian.AppendUint32([]byte("EXIF"), uint32(len(exif))), exif...)); err != nil {
				return err
			}
		}
	}
	binary.LittleEndian.PutUint32(p.pieces[0].literal[4:], uint32(p.size-8))
	return nil
}

// ---- GIF (version 89a) ----

func (p *Plan) gif(s *source) error {
	head, err := s.bytes(0, 13)
	if err != nil {
		return err
	}
	if string(head[:3]) != "GIF" {
		return unreadable("it does not begin like a GIF file")
	}
	palette := func(flags byte) int64 {
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (flags&7 + 1)
	}
	at := 13 + palette(head[10])
	if at > s.size {
		return unreadable("it ends early")
	}
	if err := p.keep(0, at); err != nil {
		return err
	}
	loops := false
	for at < s.size {
		b, err := s.some(at, gifLoopLength)
		if err != nil {
			return err
		}
		begin := at
		switch {
		case b[0] == ';':
			if at+1 < s.size {
				p.found(Other)
			}
			return p.keep(at, at+1)
		case b[0] == ',' && len(b) >= 10:
			at += 10 + palette(b[9]) + 1
		case b[0] == '!' && len(b) >= 3:
			at += 2
		default:
			return unreadable("there is no block at %d", at)
		}
		at, err = s.endOfBlocks(at)
		if err != nil {
			return err
		}

		plain := gifPlain(b, loops)
		loops = loops || len(plain) == gifLoopLength
		switch {
		case b[0] == ',', plain != nil && at-begin == int64(len(plain)) && bytes.Equal(b[:len(plain)], plain):
			err = p.keep(begin, at)
		case plain != nil:
			p.found(Other)
			err = p.put(plain)
		default:
			err = p.gifSays(s, begin, b)
		}
		if err != nil {
			return err
		}
	}
	return nil // cut off, which browsers show
}

// Extensions of a GIF file, and the length in bytes of one that says how often the picture repeats.
const (
	gifControl     = 0xf9
	gifApplication = 0xff
	gifLoopLength  = 19
)

// gifPlain is an extension that decides how the picture is shown, with nothing else in it: how the next frame follows,
// or the first one that says how often all of them repeat. It is nil for other extensions. b is the beginning of it.
func gifPlain(b []byte, loops bool) []byte {
	switch {
	case b[0] != '!':
		return nil
	case len(b) >= 8 && b[1] == gifControl && b[2] >= 4:
		return []byte{'!', gifControl, 4, b[3], b[4], b[5], b[6], 0}
	case !loops && len(b) == gifLoopLength && b[1] == gifApplication && b[2] == 11 && b[14] == 3 && b[15] == 1:
		if name := string(b[3:14]); name == "NETSCAPE2.0" || name == "ANIMEXTS1.0" {
			return append(bytes.Clone(b[:gifLoopLength-1]), 0)
		}
	}
	return nil
}

// gifSays notes what an extension says.
func (p *Plan) gifSays(s *source, at int64, b []byte) error {
	switch {
	case b[1] == gifApplication && bytes.HasPrefix(b[3:], []byte("XMP DataXMP")):
		text, err := s.some(at, maxExif)
		if err != nil {
			return err
		}
		p.found(append(textual(text), Other)...)
	case b[1] == gifApplication, b[1] == gifControl:
		p.found(Other)
	default:
		p.found(Text)
	}
	return nil
}

// endOfBlocks returns the offset after a chain of blocks. Each begins with its length; an empty one ends the chain. A
// chain that is cut off ends with the file.
func (s *source) endOfBlocks(at int64) (int64, error) {
	for at < s.size {
		b, err := s.peek(at, 1, windowAll)
		if err != nil {
			return 0, err
		}
		i := 0
		for i < len(b) && b[i] != 0 {
			i += 1 + int(b[i])
		}
		at += int64(i)
		if i < len(b) {
			return at + 1, nil
		}
	}
	return s.size, nil
}
