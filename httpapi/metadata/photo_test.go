package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// photoIn is what a file says about how it was made.
func photoIn(t testing.TB, file []byte, mediaType string) record.Photo {
	t.Helper()
	p, err := Clean(bytes.NewReader(file), int64(len(file)), mediaType)
	if err != nil && !errors.Is(err, ErrKept) {
		t.Fatal(err)
	}
	return p.Photo
}

// same wants two photos to be the same.
func same(t testing.TB, got, want record.Photo) {
	t.Helper()
	if got.Location != nil && want.Location != nil && *got.Location == *want.Location {
		got.Location = want.Location
	}
	if got != want {
		t.Errorf("%+v at %+v, and not %+v at %+v", got, got.Location, want, want.Location)
	}
}

// A tagged is an entry of a directory: a text, rationals, or another directory.
type tagged struct {
	tag   uint16
	value any
}

// exifOf is a TIFF structure. Its values begin at the place from, or as early as they can.
func exifOf(order binary.AppendByteOrder, from int, first ...tagged) []byte {
	mark := map[bool]string{true: "II*\x00", false: "MM\x00*"}[order == binary.AppendByteOrder(binary.LittleEndian)]
	out := order.AppendUint32([]byte(mark), 8)
	var add func(entries []tagged)
	add = func(entries []tagged) {
		at := len(out)
		out = append(out, make([]byte, 2+12*len(entries)+4)...)
		out = append(out, make([]byte, max(0, from-len(out)))...)
		head := order.AppendUint16(nil, uint16(len(entries)))
		for _, e := range entries {
			head = order.AppendUint16(head, e.tag)
			var kind, count int
			var value []byte
			switch v := e.value.(type) {
			case string:
				kind, count, value = typeASCII, len(v)+1, append([]byte(v), 0)
			case []uint32:
				kind, count = typeRational, len(v)/2
				for _, n := range v {
					value = order.AppendUint32(value, n)
				}
			case []tagged:
				kind, count, value = 4, 1, order.AppendUint32(nil, uint32(len(out)))
				add(v)
			}
			head = order.AppendUint32(order.AppendUint16(head, uint16(kind)), uint32(count))
			if len(value) > 4 {
				place := order.AppendUint32(nil, uint32(len(out)))
				out, value = append(out, value...), place
			}
			head = append(head, append(value, 0, 0, 0, 0)[:4]...)
		}
		copy(out[at:], head)
	}
	add(first)
	return out
}

// jpegWith is a JPEG file of only EXIF.
func jpegWith(exif []byte) []byte {
	n := 2 + len(exifHead) + len(exif)
	return slices.Concat(
		[]byte{0xff, 0xd8, 0xff, markAPP1, byte(n >> 8), byte(n)}, exifHead, exif, []byte{0xff, markEOI},
	)
}

// A file with thousands of parts with EXIF costs what a few cost.
func TestPhotosOfOneFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var p Plan
	for range 1000 {
		p.readPhoto([]byte("II*\x00\x08\x00\x00\x00\x00\x00"))
	}
	is.Equal(p.photos, maxPhotos)
}

func TestPhotoOfTestdata(t *testing.T) {
	t.Parallel()
	here := time.Date(2024, 1, 2, 3, 4, 5, 0, time.Local) //nolint:gosmopolitan // the zone of the server
	for name, mediaType := range mediaTypes {
		t.Run(name, func(t *testing.T) {
			want := record.Photo{Taken: here.UTC(), Camera: "Acme Cam1", Location: &record.Location{Lat: 52.5, Lon: 13.4}}
			switch name {
			case "all.gif": // it has only XMP
				want = record.Photo{}
			case "all.mp4":
				want.Taken = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
			case "all.mov":
				want.Taken = time.Time{}
			}
			same(t, photoIn(t, readTestdata(t, name), mediaType), want)
			out, _, err := cleaned(readTestdata(t, name), mediaType)
			is.New(t).NoErr(err)
			same(t, photoIn(t, out, mediaType), record.Photo{}) // a clean file says nothing
		})
	}
}

func TestPhotoOfEXIF(t *testing.T) {
	t.Parallel()
	berlin := []tagged{
		{gpsLatRef, "N"},
		{gpsLat, []uint32{52, 1, 31, 1, 1200, 100}},
		{gpsLonRef, "E"},
		{gpsLon, []uint32{13, 1, 24, 1, 18, 1}},
	}
	place := &record.Location{Lat: 52.52, Lon: 13.405}
	turned := func(i int, v any) []tagged {
		all := slices.Clone(berlin)
		all[i].value = v
		return all
	}
	here := func(year int) time.Time {
		return time.Date(year, 6, 1, 12, 0, 0, 0, time.Local).UTC() //nolint:gosmopolitan // the zone of the server
	}
	own := func(all ...tagged) []tagged { return []tagged{{tagExif, all}} }
	long := strings.Repeat("ö", 100)
	for name, c := range map[string]struct {
		first []tagged
		want  record.Photo
	}{
		"nothing": {nil, record.Photo{}},
		"everything": {
			append(own(
				tagged{tagOriginal, "2023:06:01 12:00:00"}, tagged{tagOffset + 1, "+02:00"}, tagged{tagSubSec + 1, "0789"},
				tagged{tagLens, "Acme 50mm f/1.4"},
			), tagged{tagMake, "Acme"}, tagged{tagModel, "Cam1"}, tagged{tagGPS, berlin}),
			record.Photo{
				Taken: time.Date(2023, 6, 1, 10, 0, 0, 78e6, time.UTC), Camera: "Acme Cam1", Lens: "Acme 50mm f/1.4",
				Location: place,
			},
		},
		"the original first": {
			append(
				own(tagged{tagDigital, "2021:06:01 12:00:00"}, tagged{tagOriginal, "2022:06:01 12:00:00"}),
				tagged{tagDateTime, "2020:06:01 12:00:00"},
			),
			record.Photo{Taken: here(2022)},
		},
		"digitized, as the original is empty": {
			own(
				tagged{tagDigital, "2021:06:01 12:00:00"}, tagged{tagOriginal, "    :  :     :  :  "},
				tagged{tagOffset + 1, "+09:00"}, tagged{tagOffset + 2, "-03:30"}, tagged{tagSubSec + 2, "5"},
			),
			record.Photo{Taken: time.Date(2021, 6, 1, 15, 30, 0, 500e6, time.UTC)},
		},
		"the last change": {
			append(own(tagged{tagOffset, "Z"}), tagged{tagDateTime, "2020:06:01 12:00:00"}),
			record.Photo{Taken: time.Date(2020, 6, 1, 12, 0, 0, 0, time.UTC)},
		},
		"a wrong offset": {
			own(tagged{tagOriginal, "2022:06:01 12:00:00"}, tagged{tagOffset + 1, "summer"}, tagged{tagSubSec + 1, "-1"}),
			record.Photo{Taken: here(2022)},
		},
		"no month":     {own(tagged{tagOriginal, "2022:00:01 12:00:00"}), record.Photo{}},
		"no date":      {own(tagged{tagOriginal, "0000:00:00 00:00:00"}), record.Photo{}},
		"before 1900":  {own(tagged{tagOriginal, "1899:12:31 12:00:00"}), record.Photo{}},
		"after 1900":   {own(tagged{tagOriginal, "1900:06:01 12:00:00"}), record.Photo{Taken: here(1900)}},
		"with dashes":  {own(tagged{tagOriginal, "2022-06-01 12:00:00"}), record.Photo{Taken: here(2022)}},
		"more than it": {own(tagged{tagOriginal, "2022:06:01 12:00:00 or so"}), record.Photo{}},

		"a maker in its model": {
			[]tagged{{tagMake, "Canon"}, {tagModel, "Canon EOS R5"}}, record.Photo{Camera: "Canon EOS R5"},
		},
		"a maker with more": {
			[]tagged{{tagMake, "NIKON CORPORATION"}, {tagModel, "Nikon Z 6"}}, record.Photo{Camera: "Nikon Z 6"},
		},
		"only a maker":           {[]tagged{{tagMake, "Acme  "}}, record.Photo{Camera: "Acme"}},
		"only a model":           {[]tagged{{tagModel, "Cam1"}}, record.Photo{Camera: "Cam1"}},
		"control characters":     {[]tagged{{tagModel, "\x1b[1mC\u202ea\xff\nm\t1\r"}}, record.Photo{Camera: "[1mCa m 1"}},
		"a long model":           {[]tagged{{tagModel, long}}, record.Photo{Camera: long[:2*maxWord]}},
		"a lens that is not one": {own(tagged{tagLens, "----"}), record.Photo{}},

		"south and west": {
			[]tagged{{tagGPS, []tagged{
				{gpsLatRef, "S"}, {gpsLat, []uint32{33, 1, 0, 0, 0, 0}}, {gpsLonRef, "W"}, {gpsLon, []uint32{70, 1, 30, 1, 0, 1}},
			}}},
			record.Photo{Location: &record.Location{Lat: -33, Lon: -70.5}},
		},
		"only degrees":       {[]tagged{{tagGPS, turned(1, []uint32{5252, 100})}}, record.Photo{Location: place}},
		"no latitude":        {[]tagged{{tagGPS, berlin[2:]}}, record.Photo{}},
		"no direction":       {[]tagged{{tagGPS, turned(0, "")}}, record.Photo{}},
		"beyond the pole":    {[]tagged{{tagGPS, turned(1, []uint32{91, 1})}}, record.Photo{}},
		"around the world":   {[]tagged{{tagGPS, turned(3, []uint32{181, 1})}}, record.Photo{}},
		"nothing by nothing": {[]tagged{{tagGPS, turned(1, []uint32{0, 0, 0, 0, 0, 0})}}, record.Photo{}},
		"a part by nothing":  {[]tagged{{tagGPS, turned(1, []uint32{52, 1, 7, 0, 0, 1})}}, record.Photo{}},
		"a text for a place": {[]tagged{{tagGPS, turned(1, "52.5")}}, record.Photo{}},
		"zero and zero": {
			[]tagged{{tagGPS, []tagged{
				{gpsLatRef, "N"}, {gpsLat, []uint32{0, 1}}, {gpsLonRef, "E"}, {gpsLon, []uint32{0, 1}},
			}}},
			record.Photo{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
				exif := exifOf(order, 0, c.first...)
				same(t, photoIn(t, jpegWith(exif), "image/jpeg"), c.want)
				same(t, photoIn(t, pngOf(t, string(pngChunk("eXIf", exif))), "image/png"), c.want)
				same(t, photoIn(t, exif, "image/tiff"), c.want)
				// directories at the end, as many programs write them
				same(t, photoIn(t, exifOf(order, 3*maxExif, c.first...), "image/tiff"), c.want)
			}
		})
	}
}

func TestPhotoOfFilm(t *testing.T) {
	t.Parallel()
	const full = "\x00\x00\x00\x00"
	number := func(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	header := func(made int) string { return boxed("mvhd", full, number(made), number(made)) }
	long := func(made string) string { return boxed("mvhd", "\x01\x00\x00\x00", full, made, full, full) }
	text := func(kind, s string) string { return boxed(kind, "\x00", string(rune(len(s))), "\x15\xc7", s) }
	keys := func(pairs ...string) string {
		names, values, n := "", "", 0
		for i := 0; i < len(pairs); i += 2 {
			n++
			names += boxed("mdta", "com.apple.quicktime."+pairs[i])
			values += boxed(number(n), boxed("data", "\x00\x00\x00\x01", full, pairs[i+1]))
		}
		return boxed("hdlr", full, full, "mdta", full, full, full) + boxed("keys", full, number(n), names) +
			boxed("ilst", values)
	}
	const when = since1904 + 1_700_000_000
	at := time.Unix(1_700_000_000, 0).UTC()
	apple := time.Date(2023, 5, 1, 8, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		moov string
		want record.Photo
	}{
		"a header":            {header(when), record.Photo{Taken: at}},
		"a long header":       {long(number(when)), record.Photo{Taken: at}},
		"nothing":             {header(0), record.Photo{}},
		"before 1970":         {header(since1904 - 1), record.Photo{}},
		"a header of nothing": {long("\xff\xff\xff\xff"), record.Photo{Taken: time.Unix(1<<32-1-since1904, 0).UTC()}},
		"of Apple": {
			header(when) + boxed("meta", keys(
				"creationdate", "2023-05-01T10:00:00+0200", "location.ISO6709", "+52.5200+013.4050+034.000/",
				"make", "Apple", "model", "iPhone 15", "camera.lens_model", "iPhone 15 back camera",
			)),
			record.Photo{
				Taken: apple, Camera: "Apple iPhone 15", Lens: "iPhone 15 back camera",
				Location: &record.Location{Lat: 52.52, Lon: 13.405},
			},
		},
		"with a version":    {boxed("meta", full, keys("creationdate", "2023-05-01T08:00:00Z")), record.Photo{Taken: apple}},
		"an offset with :":  {boxed("meta", keys("creationdate", "2023-05-01T09:30:00+01:30")), record.Photo{Taken: apple}},
		"a date of nothing": {header(when) + boxed("meta", keys("creationdate", "yesterday")), record.Photo{Taken: at}},
		"a film of Android": {
			header(when) + boxed(
				"udta", text("\xa9xyz", "-33.8688+151.2093/"), text("\xa9mak", "Acme"), text("\xa9mod", "Cam1"),
			),
			record.Photo{Taken: at, Camera: "Acme Cam1", Location: &record.Location{Lat: -33.8688, Lon: 151.2093}},
		},
		"minutes and seconds": {
			boxed("udta", text("\xa9xyz", "+5231.2+0132418/")),
			record.Photo{Location: &record.Location{Lat: 52.52, Lon: 13.405}},
		},
		"no place":       {boxed("udta", text("\xa9xyz", "+91.0+013.4/")), record.Photo{}},
		"zero and zero":  {boxed("udta", text("\xa9xyz", "+00.0000+000.0000/")), record.Photo{}},
		"words":          {boxed("udta", text("\xa9xyz", "at home")), record.Photo{}},
		"a box too long": {boxed("udta", "\x00\x00\xff\xff\xa9xyz"), record.Photo{}},
		"a key of nothing": {
			boxed("meta", boxed("ilst", boxed(number(9), boxed("data", full, full, "x")))), record.Photo{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := boxed("ftyp", "qt  ", full) + boxed("moov", c.moov)
			same(t, photoIn(t, []byte(file), "video/quicktime"), c.want)
		})
	}
}

// TestPhotoAsOthersWriteIt: what exiftool writes is read.
func TestPhotoAsOthersWriteIt(t *testing.T) {
	t.Parallel()
	const tool = "exiftool"
	needs.Programs(t, "how a photo was made", tool)
	taken := time.Date(2019, 8, 9, 8, 11, 12, 340e6, time.UTC)
	place := &record.Location{Lat: -12.345678, Lon: -98.765432}
	picture := []string{
		"-DateTimeOriginal=2019:08:09 10:11:12", "-OffsetTimeOriginal=+02:00", "-SubSecTimeOriginal=34", "-Make=Acme",
		"-Model=Acme Two", "-LensModel=Long one", "-GPSLatitude=12.345678", "-GPSLatitudeRef=S",
		"-GPSLongitude=98.765432", "-GPSLongitudeRef=W",
	}
	film := []string{
		"-Keys:CreationDate=2019:08:09 10:11:12+02:00", "-Keys:GPSCoordinates=-12.345678, -98.765432, 0",
		"-Keys:Make=Acme", "-Keys:Model=Acme Two", "-UserData:all=",
	}
	for name, args := range map[string][]string{
		"all.jpg": picture, "all.png": picture, "all.webp": picture, "all.heic": picture, "all.avif": picture,
		"all.mov": film, "all.mp4": film,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			at := filepath.Join(t.TempDir(), name)
			is.NoErr(os.WriteFile(at, readTestdata(t, name), 0o600))
			said, err := exec.CommandContext(t.Context(), tool, append(args, at)...).CombinedOutput() // #nosec G204 -- a test
			if err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			file, err := os.ReadFile(at)
			is.NoErr(err)
			want := record.Photo{Taken: taken, Camera: "Acme Two", Lens: "Long one", Location: place}
			if len(args) == len(film) {
				want.Taken, want.Lens = taken.Truncate(time.Second), ""
			}
			same(t, photoIn(t, file, mediaTypes[name]), want)
		})
	}
}

// FuzzPhoto: whatever EXIF and the texts of a film say, what is known can be.
func FuzzPhoto(f *testing.F) {
	f.Add(exifOf(
		binary.BigEndian, 0, tagged{tagModel, "Cam1"}, tagged{tagExif, []tagged{{tagOriginal, "2022:06:01 12:00:00"}}},
	))
	f.Add(exifOf(binary.LittleEndian, 0, tagged{tagGPS, []tagged{
		{gpsLatRef, "N"}, {gpsLat, []uint32{52, 1, 31, 1, 12, 1}}, {gpsLonRef, "E"}, {gpsLon, []uint32{13, 1}},
	}}))
	f.Add([]byte(boxed("\xa9xyz", "\x00\x09\x00\x00+52.5+13.4/")))
	zeros := strings.Repeat("\x00", 8)
	f.Add([]byte(boxed(
		"meta", boxed("keys", zeros, boxed("mdta", "creationdate")),
		boxed("ilst", boxed("\x00\x00\x00\x01", boxed("data", zeros, "2023-05-01T09:30:00+01:30"))),
	)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var told told
		told.user(b)
		told.keys(b)
		for _, p := range []record.Photo{tiffIn(b).photo(), told.photo()} {
			if !p.Taken.IsZero() && p.Taken.Year() < oldest-1 {
				t.Fatal(p.Taken)
			}
			if l := p.Location; l != nil && !(-90 <= l.Lat && l.Lat <= 90 && -180 <= l.Lon && l.Lon <= 180) {
				t.Fatal(l)
			}
			for _, s := range []string{p.Camera, p.Lens} {
				if word(s) != s {
					t.Fatalf("%q", s)
				}
			}
		}
	})
}
