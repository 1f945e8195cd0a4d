package metadata

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kist/kv/record"
)

// What a picture or a film says about how it was made is for its owner. Nothing of it has to be right: what cannot be
// read or cannot be is not known, and never an error.

// Bounds of what is read.
const (
	maxWord    = 64   // characters of a camera or a lens
	maxValue   = 256  // bytes of a value
	maxEntries = 1000 // of a directory of EXIF
)

// oldest is the first year in which a picture can have been taken.
const oldest = 1900

// A tiff reads EXIF, which is a TIFF structure. at returns so many bytes from a place on, or nil.
type tiff struct {
	at    func(place, length uint64) []byte
	order binary.ByteOrder
}

// tiffIn is a TIFF structure in memory.
func tiffIn(b []byte) *tiff {
	return newTIFF(func(place, length uint64) []byte {
		if place > uint64(len(b)) || length > uint64(len(b))-place {
			return nil
		}
		return b[place : place+length]
	})
}

// newTIFF returns nil for bytes that are no TIFF structure.
func newTIFF(at func(place, length uint64) []byte) *tiff {
	t := &tiff{at: at}
	switch string(at(0, 4)) {
	case "II*\x00":
		t.order = binary.LittleEndian
	case "MM\x00*":
		t.order = binary.BigEndian
	default:
		return nil
	}
	return t
}

// The types of values that matter.
const (
	typeASCII    = 2
	typeRational = 5
	typeUTF8     = 129
)

// Tags of how a picture was made.
const (
	tagMake     = 0x010f
	tagModel    = 0x0110
	tagDateTime = 0x0132
	tagOriginal = 0x9003
	tagDigital  = 0x9004
	tagOffset   = 0x9010 // of DateTime; then those of the other two
	tagSubSec   = 0x9290 // likewise
	tagLens     = 0xa434

	gpsLatRef = 1
	gpsLat    = 2
	gpsLonRef = 3
	gpsLon    = 4
)

// A directory has the entries of a directory by their tags, each as 12 bytes.
type directory map[uint16][]byte

func (t *tiff) directory(at uint64) directory {
	head := t.at(at, 2)
	if head == nil {
		return nil
	}
	all := directory{}
	for i := range min(uint64(t.order.Uint16(head)), maxEntries) {
		e := t.at(at+2+12*i, 12)
		if e == nil {
			return all
		}
		all[t.order.Uint16(e)] = bytes.Clone(e)
	}
	return all
}

// place is the number that an entry has, as the place of a directory; 0 without an entry.
func (t *tiff) place(e []byte) uint64 {
	if e == nil {
		return 0
	}
	return uint64(t.order.Uint32(e[8:]))
}

// value is the beginning of the value of an entry, whose units have so many bytes.
func (t *tiff) value(e []byte, unit uint64) []byte {
	length := min(uint64(t.order.Uint32(e[4:]))*unit, maxValue)
	if length <= 4 {
		return e[8 : 8+length]
	}
	return t.at(uint64(t.order.Uint32(e[8:])), length)
}

// text is the text of an entry; "" without one.
func (t *tiff) text(e []byte) string {
	if e == nil {
		return ""
	}
	if kind := t.order.Uint16(e[2:]); kind != typeASCII && kind != typeUTF8 {
		return ""
	}
	b, _, _ := bytes.Cut(t.value(e, 1), []byte{0})
	return strings.TrimSpace(string(b))
}

// degrees is a place in degrees, minutes and seconds, and the letter that says in which direction.
func (t *tiff) degrees(ref, e []byte, positive, negative string) (float64, bool) {
	if e == nil || t.order.Uint16(e[2:]) != typeRational {
		return 0, false
	}
	b := t.value(e, 8)
	if len(b) < 8 {
		return 0, false
	}
	sum := 0.0
	for i := range min(len(b)/8, 3) {
		over, under := t.order.Uint32(b[8*i:]), t.order.Uint32(b[8*i+4:])
		if under == 0 && (i == 0 || over != 0) {
			return 0, false
		}
		if under != 0 {
			sum += float64(over) / float64(under) / []float64{1, 60, 3600}[i]
		}
	}
	switch strings.ToUpper(t.text(ref)) {
	case positive:
		return sum, true
	case negative:
		return -sum, true
	}
	return 0, false
}

// photo is what EXIF says.
func (t *tiff) photo() (p record.Photo) {
	if t == nil {
		return p
	}
	head := t.at(4, 4)
	if head == nil {
		return p
	}
	first := t.directory(uint64(t.order.Uint32(head)))
	var own, gps directory
	if at := t.place(first[tagExif]); at != 0 {
		own = t.directory(at)
	}
	if at := t.place(first[tagGPS]); at != 0 {
		gps = t.directory(at)
	}
	p.Camera = camera(t.text(first[tagMake]), t.text(first[tagModel]))
	p.Lens = word(t.text(own[tagLens]))
	for i, e := range [][]byte{own[tagOriginal], own[tagDigital], first[tagDateTime]} {
		of := uint16(i+1) % 3 // the offset and the part of a second that belong to it
		p.Taken = takenAt(t.text(e), t.text(own[tagOffset+of]), t.text(own[tagSubSec+of]))
		if !p.Taken.IsZero() {
			break
		}
	}
	lat, north := t.degrees(gps[gpsLatRef], gps[gpsLat], "N", "S")
	lon, east := t.degrees(gps[gpsLonRef], gps[gpsLon], "E", "W")
	if north && east {
		p.Location = location(lat, lon)
	}
	return p
}

// takenAt reads a time of EXIF. Without an offset it is in the zone of the server.
func takenAt(at, offset, part string) time.Time {
	day, clock, _ := strings.Cut(at, " ")
	const layout = "2006-01-02 15:04:05"
	at = strings.ReplaceAll(day, ":", "-") + " " + clock
	t, err := time.Parse(layout+"Z07:00", at+offset)
	if offset == "" || err != nil {
		t, err = time.ParseInLocation(layout, at, time.Local) //nolint:gosmopolitan // the zone of the server
	}
	if err != nil || t.Year() < oldest {
		return time.Time{}
	}
	n, err := strconv.ParseUint((part + "000")[:3], 10, 16)
	if err != nil {
		n = 0
	}
	return t.UTC().Truncate(time.Second).Add(time.Duration(n) * time.Millisecond)
}

// location is a place, or nil if there is no such place, or it is the one that stands for none.
func location(lat, lon float64) *record.Location {
	if lat == 0 && lon == 0 || !(math.Abs(lat) <= 90 && math.Abs(lon) <= 180) {
		return nil
	}
	const exact = 1e6 // a tenth of a metre
	return &record.Location{Lat: math.Round(lat*exact) / exact, Lon: math.Round(lon*exact) / exact}
}

// word is a name of a camera or a lens on one line; "" if it says nothing.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		return ""
	}
	if r := []rune(s); len(r) > maxWord {
		s = strings.TrimSpace(string(r[:maxWord]))
	}
	return s
}

// camera is the maker and the model. Many models begin with their maker.
func camera(maker, model string) string {
	maker, model = word(maker), word(model)
	first, _, _ := strings.Cut(maker, " ")
	if model != "" && len(model) >= len(first) && strings.EqualFold(model[:len(first)], first) {
		return model
	}
	return word(maker + " " + model)
}

// maxPhotos is how many parts with EXIF of one file are read. Files have one or two; a hostile one has thousands.
const maxPhotos = 4

// readPhoto adds what a part with EXIF says.
func (p *Plan) readPhoto(exif []byte) {
	if p.photos == maxPhotos {
		return
	}
	p.photos++
	p.learn(tiffIn(exif).photo())
}

// learn adds what a part of a file says to what others have said.
func (p *Plan) learn(q record.Photo) { p.Photo.FillIn(q) }

// whole reads the EXIF of a file that is a TIFF structure from its beginning to its end.
func (p *Plan) whole(s *source) error {
	var failed error
	p.learn(newTIFF(func(place, length uint64) []byte {
		if place > uint64(s.size) || length > uint64(s.size)-place {
			return nil
		}
		b, err := s.bytes(int64(place), int64(length))
		if err != nil {
			failed = cmp.Or(failed, err)
			return nil
		}
		return b
	}).photo())
	return failed
}

// ---- Films ----

// since1904 is how many seconds the time of films begins before that of Unix.
const since1904 = 2_082_844_800

// made reads the time in the header of a film. What is before 1970 was not written as the standard says.
func made(when []byte) time.Time {
	n := uint64(0)
	for _, b := range when[:len(when)/2] {
		n = n<<8 | uint64(b)
	}
	if n < since1904 || n > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(n-since1904), 0).UTC()
}

// inside calls fn for each box in memory, as far as they are whole.
func inside(b []byte, fn func(kind string, inner []byte)) {
	for len(b) >= 8 {
		size := binary.BigEndian.Uint32(b)
		if size < 8 || uint64(size) > uint64(len(b)) {
			return
		}
		fn(string(b[4:8]), b[8:size])
		b = b[size:]
	}
}

// A told is what the texts of a film say.
type told struct{ made, place, maker, model, lens string }

// user reads a box udta, as QuickTime writes its texts: their length, their language, and the text.
func (t *told) user(b []byte) {
	inside(b, func(kind string, inner []byte) {
		text := ""
		if len(inner) >= 4 {
			n := int(binary.BigEndian.Uint16(inner))
			text = string(inner[4:min(4+n, len(inner))])
		}
		switch kind {
		case "\xa9xyz":
			t.place = text
		case "\xa9mak":
			t.maker = text
		case "\xa9mod":
			t.model = text
		case "meta":
			t.keys(inner)
		}
	})
}

// keys reads a box meta that has names of keys and a value for each, as Apple writes them.
func (t *told) keys(b []byte) {
	if len(b) >= 8 && string(b[4:8]) != "hdlr" { // version and flags, which QuickTime does not have
		b = b[4:]
	}
	var names []string
	inside(b, func(kind string, inner []byte) {
		switch {
		case kind == "keys" && len(inner) >= 8:
			inside(inner[8:], func(_ string, name []byte) { names = append(names, string(name[:min(len(name), maxValue)])) })
		case kind == "ilst":
			inside(inner, func(kind string, item []byte) {
				if n := binary.BigEndian.Uint32([]byte(kind)); 1 <= n && uint64(n) <= uint64(len(names)) {
					t.key(names[n-1], item)
				}
			})
		}
	})
}

func (t *told) key(name string, item []byte) {
	inside(item, func(kind string, inner []byte) {
		if kind != "data" || len(inner) < 8 {
			return
		}
		text := strings.Trim(string(inner[8:min(8+maxValue, len(inner))]), " \x00")
		switch strings.TrimPrefix(name, "com.apple.quicktime.") {
		case "creationdate":
			t.made = text
		case "location.ISO6709", "location":
			t.place = text
		case "make":
			t.maker = text
		case "model":
			t.model = text
		case "camera.lens_model":
			t.lens = text
		}
	})
}

// photo is what the texts say.
func (t *told) photo() record.Photo {
	p := record.Photo{Camera: camera(t.maker, t.model), Lens: word(t.lens), Location: location6709(t.place)}
	for _, layout := range []string{"2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05"} {
		at, err := time.ParseInLocation(layout, t.made, time.Local) //nolint:gosmopolitan // the zone of the server
		if err != nil || at.Year() < oldest {
			continue
		}
		p.Taken = at.UTC().Truncate(time.Millisecond)
	}
	return p
}

// place6709 is a place of ISO 6709: degrees, with minutes and seconds if there are more digits.
var place6709 = regexp.MustCompile(`^\s*([+-])(\d{1,7})(\.\d{1,20})?([+-])(\d{1,7})(\.\d{1,20})?(?:[+-/]|$)`)

func location6709(s string) *record.Location {
	m := place6709.FindStringSubmatch(s)
	if m == nil {
		return nil
	}
	lat, okLat := degrees6709(m[1], m[2], m[3], 2)
	lon, okLon := degrees6709(m[4], m[5], m[6], 3)
	if !okLat || !okLon {
		return nil
	}
	return location(lat, lon)
}

// degrees6709 reads a number whose degrees have so many digits.
func degrees6709(sign, digits, fraction string, width int) (float64, bool) {
	sum, unit := 0.0, 1.0
	for digits != "" {
		n := min(width, len(digits))
		text := digits[:n]
		digits = digits[n:]
		if digits == "" {
			text += fraction
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, false
		}
		sum += v / unit
		unit, width = unit*60, 2
	}
	if sign == "-" {
		sum = -sum
	}
	return sum, true
}
