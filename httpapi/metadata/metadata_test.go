package metadata

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"image"
	"image/color/palette"
	"image/gif"
	_ "image/jpeg"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"
	_ "golang.org/x/image/webp"

	"kist/kv/kvtest/needs"
)

// mediaTypes are those of the files in testdata, which exiftool and ffmpeg have filled with secrets.
var mediaTypes = map[string]string{
	"all.jpg": "image/jpeg", "progressive.jpg": "image/jpeg", "all.png": "image/png", "all.webp": "image/webp", "all.gif": "image/gif",
	"all.heic": "image/heic", "all.avif": "image/avif", "all.mp4": "video/mp4", "all.mov": "video/quicktime",
}

// secrets must not be in a clean file.
var secrets = []string{
	"secret", "SN12345678", "LS99887766", "Acme", "Cam1", "2024:01:02", "2024-01-02", "+52.5", "GPSLatitude", "http://ns.adobe.com/xap", "photoshop", "x:xmpmeta",
}

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cleaned is a file without its metadata, and what it said.
func cleaned(file []byte, mediaType string) ([]byte, *Plan, error) {
	p, err := Clean(bytes.NewReader(file), int64(len(file)), mediaType)
	if err != nil {
		return nil, nil, err
	}
	out, err := io.ReadAll(p.Over(bytes.NewReader(file)))
	return out, p, err
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	for name, mediaType := range mediaTypes {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			file := readTestdata(t, name)
			out, p, err := cleaned(file, mediaType)
			is.NoErr(err)
			is.Equal(p.Size(), int64(len(out)))
			is.True(slices.Contains(p.Found, GPS))
			had := 0
			for _, secret := range secrets {
				if bytes.Contains(file, []byte(secret)) {
					had++
				}
				if bytes.Contains(out, []byte(secret)) {
					t.Errorf("%s is still there", secret)
				}
			}
			is.True(had > 2) // the file has secrets
			if strings.HasPrefix(mediaType, "video/") || mediaType == "image/heic" || mediaType == "image/avif" {
				is.Equal(len(out), len(file)) // nothing moves
			} else {
				before, _, err := image.Decode(bytes.NewReader(file))
				is.NoErr(err)
				after, _, err := image.Decode(bytes.NewReader(out))
				is.NoErr(err)
				is.Equal(after, before) // every pixel
			}
			is.NoErr(iotest.TestReader(p.Over(bytes.NewReader(file)), out)) // any read at any place

			again, q, err := cleaned(out, mediaType)
			is.NoErr(err)
			is.True(bytes.Equal(again, out)) // cleaning is done once
			is.Equal(q.Found, nil)
		})
	}
}

// TestJudge asks exiftool about what is left, and ffmpeg for every picture of a film.
func TestJudge(t *testing.T) {
	t.Parallel()
	const tool = "exiftool"
	needs.Programs(t, "what is left of metadata", tool)
	// What describes the picture itself and the file.
	allowed := map[string]bool{
		"Orientation": true, "ExifByteOrder": true, "JFIFVersion": true, "ResolutionUnit": true, "XResolution": true, "YResolution": true, "Warning": true,
		"MediaDataOffset": true, "MediaDataSize": true, "Comment": false,
	}
	for name, mediaType := range mediaTypes {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			out, _, err := cleaned(readTestdata(t, name), mediaType)
			is.NoErr(err)
			at := filepath.Join(t.TempDir(), name)
			is.NoErr(os.WriteFile(at, out, 0o600))
			tags := func(args ...string) string {
				said, err := exec.CommandContext(t.Context(), tool, append(args, at)...).Output() // #nosec G204 -- a test
				is.NoErr(err)
				return string(said)
			}
			for line := range strings.Lines(tags(
				"-s", "-ee", "-a", "-G1", "-EXIF:all", "-GPS:all", "-XMP:all", "-IPTC:all", "-MakerNotes:all", "-UserData:all",
				"-Keys:all", "-ItemList:all", "-Comment",
			)) {
				if _, rest, ok := strings.Cut(line, "]"); ok && !allowed[strings.Fields(rest)[0]] {
					t.Error("still there: " + strings.TrimSpace(line))
				}
			}
			if want := map[string]string{"all.jpg": "6", "all.png": "8", "all.webp": "3"}[name]; want != "" {
				is.Equal(strings.TrimSpace(tags("-s3", "-n", "-Orientation")), want)
			}
			if name == "all.jpg" || name == "all.png" {
				is.True(tags("-ICC_Profile:all") != "") // the colours
			}
			if strings.Contains(tags("-Warning"), "orrupt") {
				t.Error(tags("-Warning"))
			}
		})
	}
}

func TestWhatWasFound(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, p, err := cleaned(readTestdata(t, "all.jpg"), "image/jpeg")
	is.NoErr(err)
	for _, what := range []string{Camera, GPS, Serial, Text, Thumbnail, Time} {
		is.True(slices.Contains(p.Found, what))
	}
	_, p, err = cleaned(readTestdata(t, "progressive.jpg"), "image/jpeg")
	is.NoErr(err)
	is.True(slices.Contains(p.Found, Other)) // a second picture after the end
}

func TestKept(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct {
		file, mediaType string
		err             error
	}{
		{"II*\x00\x08\x00\x00\x00\x00\x00", "image/tiff", ErrKept},
		{"<svg/>", "image/svg+xml", ErrKept},
		{"\x1aE\xdf\xa3", "video/webm", ErrKept},
		{"\x00\x00\x00\x10ftypM4A \x00\x00\x00\x00", "audio/mp4", ErrKept},
		{"%PDF-1.7", "application/pdf", ErrKept},
		{"I'm free", "text/plain", ErrNone},
		{"", "text/plain", ErrNone},
		{"PK\x03\x04", "application/zip", ErrNone},
	} {
		_, _, err := cleaned([]byte(c.file), c.mediaType)
		is.True(errors.Is(err, c.err)) // c.file
	}
}

// TestFormatByBytes: a wrong or missing media type hides nothing.
func TestFormatByBytes(t *testing.T) {
	t.Parallel()
	for name := range mediaTypes {
		is := is.New(t)
		file := readTestdata(t, name)
		out, p, err := cleaned(file, "application/octet-stream")
		is.NoErr(err)
		is.True(slices.Contains(p.Found, GPS))
		is.True(!bytes.Contains(out, []byte("Acme")))
	}
}

// pngOf is a picture of one pixel, with these chunks before the pixel.
func pngOf(t testing.TB, chunks ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	const head = 8 + 12 + 13
	return slices.Concat(b.Bytes()[:head], []byte(strings.Join(chunks, "")), b.Bytes()[head:])
}

func TestPNGChunks(t *testing.T) {
	t.Parallel()
	deflated := func(text string) string {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	chunk := func(kind, data string) string { return string(pngChunk(kind, []byte(data))) }
	plain := profileOf(emptyTexts["text"] + "\x00")
	packed := chunk("iCCP", pngProfileName+"\x00\x00"+deflated(plain))
	for name, c := range map[string]struct {
		chunk, want string // the chunk, and what it becomes
		found       []string
	}{
		"a suggested palette":        {chunk("sPLT", "secret\x00\x08"), "", []string{Other}},
		"a histogram":                {chunk("hIST", "secret"), "", []string{Other}},
		"an unknown chunk":           {chunk("seCr", "secret"), "", []string{Other}},
		"an unknown critical chunk":  {chunk("SECR", "secret"), "", []string{Other}},
		"a gamma":                    {chunk("gAMA", "\x00\x00\xb1\x8f"), chunk("gAMA", "\x00\x00\xb1\x8f"), nil},
		"a gamma with more":          {chunk("gAMA", "\x00\x00\xb1\x8fsecret"), "", []string{Other}},
		"a size with more":           {chunk("pHYs", "\x00\x00\x0b\x13\x00\x00\x0b\x13\x01secret"), "", []string{Other}},
		"a profile with a name":      {chunk("iCCP", "secret\x00\x00"+deflated(plain)), packed, []string{Text}},
		"a profile with no name":     {chunk("iCCP", "\x00\x00"+deflated(plain)), packed, []string{Text}},
		"a profile with a plain one": {packed, packed, nil},
		"a profile with a text": {
			chunk("iCCP", pngProfileName+"\x00\x00"+deflated(profileOf("text\x00\x00\x00\x00x"))), packed, []string{Text},
		},
		"a profile with more behind": {
			chunk("iCCP", pngProfileName+"\x00\x00"+deflated(plain)+"secret"), packed, []string{Text},
		},
		"a profile that is only one": {
			chunk("iCCP", "secret"), chunk("iCCP", pngProfileName+"\x00\x00"+deflated("")), []string{Text},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			file := pngOf(t, c.chunk)
			out, p, err := cleaned(file, "image/png")
			is.NoErr(err)
			is.Equal(p.Found, c.found)
			is.Equal(string(out), string(pngOf(t, c.want)))
			again, q, err := cleaned(out, "image/png")
			is.NoErr(err)
			is.True(bytes.Equal(again, out))
			is.Equal(q.Found, nil)
		})
	}
}

// gifOf is a picture of one pixel, with these extensions before the pixel.
func gifOf(t testing.TB, extensions ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.Encode(&b, image.NewPaletted(image.Rect(0, 0, 1, 1), palette.Plan9), nil); err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndexByte(b.Bytes(), ',')
	return slices.Concat(b.Bytes()[:at], []byte(strings.Join(extensions, "")), b.Bytes()[at:])
}

func TestGIFExtensions(t *testing.T) {
	t.Parallel()
	const (
		loop    = "!\xff\x0bNETSCAPE2.0\x03\x01\x05\x00\x00"
		loop2   = "!\xff\x0bANIMEXTS1.0\x03\x01\x05\x00\x00"
		control = "!\xf9\x04\x00\x0a\x00\x00\x00"
	)
	for name, c := range map[string]struct {
		file, want string // the extensions, and what they become
		found      []string
	}{
		"a loop and a delay":          {loop + control, loop + control, nil},
		"another loop":                {loop2, loop2, nil},
		"a second loop":               {loop + "!\xff\x0bNETSCAPE2.0\x06secret\x00", loop, []string{Other}},
		"a second loop that is plain": {loop + loop2, loop, []string{Other}},
		"a loop with more":            {loop[:18] + "\x06secret\x00", loop, []string{Other}},
		"a loop with no number":       {"!\xff\x0bNETSCAPE2.0\x06secret\x00" + loop, loop, []string{Other}},
		"a delay with more":           {control[:7] + "\x06secret\x00", control, []string{Other}},
		"a longer delay":              {"!\xf9\x0a\x00\x0a\x00\x00secret\x00", control, []string{Other}},
		"a delay that is too short":   {"!\xf9\x03abc\x00", "", []string{Other}},
		"a text in the picture": {
			"!\x01\x0c\x00\x00\x00\x00\x01\x00\x01\x00\x08\x08\x01\x00\x06secret\x00", "", []string{Text},
		},
		"a comment":            {"!\xfe\x06secret\x00", "", []string{Text}},
		"an unknown extension": {"!\x42\x06secret\x00", "", []string{Text}},
		"a program":            {"!\xff\x0bSECRETS 1.0\x06secret\x00", "", []string{Other}},
		"a place":              {"!\xff\x0bXMP DataXMP\x06<GPS/>\x00", "", []string{GPS, Other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			file := gifOf(t, c.file)
			out, p, err := cleaned(file, "image/gif")
			is.NoErr(err)
			is.Equal(p.Found, c.found)
			is.Equal(string(out), string(gifOf(t, c.want)))
			_, err = gif.Decode(bytes.NewReader(out))
			is.NoErr(err)
			again, q, err := cleaned(out, "image/gif")
			is.NoErr(err)
			is.True(bytes.Equal(again, out))
			is.Equal(q.Found, nil)
		})
	}
}

// boxed is a box of an MP4 or HEIC file.
func boxed(kind string, parts ...string) string {
	inner := strings.Join(parts, "")
	return string(binary.BigEndian.AppendUint32(nil, uint32(8+len(inner)))) + kind + inner
}

// filmOf is a film whose only track has these samples, each a chunk of its own.
func filmOf(handler, name string, samples ...string) string {
	number := func(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	full := number(0)
	build := func(first int) string {
		sizes, places, at := "", "", first
		for _, s := range samples {
			sizes, places, at = sizes+number(len(s)), places+number(at), at+len(s)
		}
		n := number(len(samples))
		return boxed("ftyp", "isom", full) + boxed("moov", boxed("trak", boxed("mdia", boxed(
			"hdlr", full, full, handler, full, full, full, name,
		), boxed("minf", boxed("stbl",
			boxed("stsz", full, full, n, sizes), boxed(
				"stsc", full, number(1), number(1), number(1), number(1),
			), boxed("stco", full, n, places)))))) +
			boxed("mdat", strings.Join(samples, ""))
	}
	return build(strings.Index(build(0), "mdat") + 4)
}

// TestTracks: a track that says where a film was made goes with its samples; subtitles stay.
func TestTracks(t *testing.T) {
	t.Parallel()
	late := slices.Concat(
		slices.Repeat([]string{"[iso : 100] "}, 500), slices.Repeat([]string{"GPS(13.4050,52.5200,18) "}, 500),
	)
	for name, c := range map[string]struct {
		handler, name string
		samples       []string
		gone          bool
		found         []string
	}{
		"a drone": {"text", "DJI.Subtitle", []string{"F/2.8, SS 206"}, true, []string{GPS}},
		"a drone, by its text": {
			"sbtl", "",
			[]string{"F/2.8", "F/2.8, SS 206, ISO 100, EV 0, GPS (13.4050, 52.5200, 18), D 5.53m"},
			true,
			[]string{GPS},
		},
		"a drone, in brackets": {
			"text", "", []string{"[iso : 100] [latitude: 52.5200] [longtitude: 13.4050]"}, true, []string{GPS},
		},
		"a drone, in degrees": {"text", "", []string{"HOME(E: 149° 1' 2\", N: 35° 3' 4\")"}, true, []string{GPS}},
		"a drone that fixes":  {"text", "", late, true, []string{GPS}},
		"a dash camera": {
			"subt", "", []string{"\x00\x2f$GPRMC,123519,A,4807.038,N,01131.000,E"}, true, []string{GPS},
		},
		"a maker's own track": {"fdsc", "", []string{"secret"}, true, []string{Other}},
		"subtitles": {
			"sbtl", "SubtitleHandler", []string{"Turn the GPS on.", "What latitude do I have? 1.5 hours."}, false, nil,
		},
		"a film":                 {"vide", "\x0cVideoHandler", []string{"GPS (13.4050, 52.5200, 18)"}, false, nil},
		"a name":                 {"vide", "made in 52.52, 13.40", []string{"picture"}, false, []string{Text}},
		"a name of subtitles":    {"sbtl", "secret", []string{"Hello"}, false, []string{Text}},
		"a name with an address": {"soun", "location +52.5200+013.4050/", []string{"sound"}, false, []string{GPS}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			file := filmOf(c.handler, c.name, c.samples...)
			out, p, err := cleaned([]byte(file), "video/mp4")
			is.NoErr(err)
			is.Equal(len(p.Found) > 0, len(c.found) > 0)
			for _, what := range c.found {
				is.True(slices.Contains(p.Found, what))
			}
			is.Equal(len(out), len(file))
			is.Equal(!bytes.Contains(out, []byte(strings.Join(c.samples, ""))), c.gone)
			is.Equal(!bytes.Contains(out, []byte("trak")), c.gone)
			if c.gone {
				is.True(!bytes.ContainsAny(out[bytes.Index(out, []byte("mdat"))+4:], "123456789S"))
			}
			is.Equal(!bytes.Contains(out, []byte(c.name)), c.found != nil && c.name != "")
			again, q, err := cleaned(out, "video/mp4")
			is.NoErr(err)
			is.True(bytes.Equal(again, out))
			is.Equal(q.Found, nil)
		})
	}
}

// TestEndOfMedia: what follows the last sample of a film goes, if its samples are known.
func TestEndOfMedia(t *testing.T) {
	t.Parallel()
	film, more := filmOf("vide", "", "picture", "another"), boxed("mdat", "secret")
	longer := func(film string) string {
		at := strings.LastIndex(film, "mdat") - 4
		return film[:at] + boxed("mdat", film[at+8:], "secret")
	}
	// Sound whose samples have the size of 1, which QuickTime counts in units of its own.
	sound := strings.Replace(filmOf("soun", "", "soundsound"), boxed(
		"stsz", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0a",
	),
		boxed("stsz", "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00"), 1)
	fragment := boxed("moof", boxed("mfhd"))
	for name, c := range map[string]struct {
		file string
		gone bool
	}{
		"after the last sample":     {longer(film), true},
		"of subtitles":              {longer(filmOf("sbtl", "", "Hello")), true},
		"of sound":                  {longer(filmOf("soun", "", "sound")), true},
		"of sound of QuickTime":     {longer(sound), false},
		"in media without a sample": {film + more, true},
		"in fragments":              {film + fragment + more, false},
		"in a film that is cut off": {film[:len(film)-1], false},
		"without tracks":            {boxed("ftyp", "isom\x00\x00\x00\x00") + boxed("moov") + more, false},
		"without samples":           {filmOf("vide", "") + more, false},
		"with other references":     {strings.Replace(longer(film), "hdlr", "saio", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			out, p, err := cleaned([]byte(c.file), "video/mp4")
			is.NoErr(err)
			want, found := c.file, []string(nil)
			if c.gone {
				want, found = strings.Replace(c.file, "secret", "\x00\x00\x00\x00\x00\x00", 1), []string{Other}
			}
			is.Equal(string(out), want)
			is.Equal(p.Found, found)
			_, q, err := cleaned(out, "video/mp4")
			is.NoErr(err)
			is.Equal(q.Found, nil)
		})
	}
}

// describedAs is a film whose only track has these sample entries.
func describedAs(handler string, entries ...string) string {
	full := "\x00\x00\x00\x00"
	return boxed("ftyp", "isom", full) + boxed("moov", boxed("trak", boxed("mdia", boxed(
		"hdlr", full, full, handler, full, full, full, "\x00",
	),
		boxed("minf", boxed("stbl", boxed("stsd", full, "\x00\x00\x00\x01", strings.Join(entries, "")))))))
}

// TestSampleEntries: the descriptions of samples keep what a player needs.
func TestSampleEntries(t *testing.T) {
	t.Parallel()
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	picture := func(compressor, rest string, boxes ...string) string {
		name := string(rune(len(compressor))) + compressor + rest
		return boxed("avc1", zeros(42), name, zeros(32-len(name)), "\x00\x18\xff\xff", strings.Join(boxes, ""))
	}
	sound := func(version string, more int, boxes ...string) string {
		return boxed("mp4a", zeros(8), version, zeros(18+more), strings.Join(boxes, ""))
	}
	secret, free := boxed("uuid", zeros(16), "secret"), boxed("free", zeros(16+6))
	settings := boxed("avcC", "settings")
	colours := boxed("rle ", zeros(74), "\x00\x08\x00\x00", zeros(4), "\x80\x00\x00\x01", "colours!colours!")
	for name, c := range map[string]struct {
		handler, entry, want string
		found                []string
	}{
		"a plain one": {"vide", picture("AVC Coding", "", settings), picture("AVC Coding", "", settings), nil},
		"a box of a maker": {
			"vide", picture("", "", settings, boxed("acme", "secret")), picture("", "", settings, boxed("free", zeros(6))),
			[]string{Other},
		},
		"a box with a number": {
			"vide", picture("", "", settings, secret), picture("", "", settings, free), []string{Text},
		},
		"free space": {
			"vide", picture("", "", boxed("free", "secret")), picture("", "", boxed("free", zeros(6))), []string{Other},
		},
		"a compressor":          {"vide", picture("Acme Cam1", ""), picture("", ""), []string{Camera}},
		"bytes behind the name": {"vide", picture("H.264", "secret"), picture("", ""), []string{Camera}},
		"colours of its own":    {"vide", colours, colours, nil},
		"a second picture":      {"auxv", picture("", "", secret), picture("", "", free), []string{Text}},
		"sound": {
			"soun", sound("\x00\x00", 0, secret, settings), sound("\x00\x00", 0, free, settings), []string{Text},
		},
		"sound of QuickTime":       {"soun", sound("\x00\x01", 16, secret), sound("\x00\x01", 16, free), []string{Text}},
		"newer sound of QuickTime": {"soun", sound("\x00\x02", 36, secret), sound("\x00\x02", 36, free), []string{Text}},
		"within sound": {
			"soun", sound("\x00\x01", 16, boxed("wave", secret)), sound("\x00\x01", 16, boxed("wave", free)), []string{Text},
		},
		"the name of a reel": {
			"tmcd", boxed("tmcd", zeros(26), boxed("name", "secret")), boxed("tmcd", zeros(26), boxed("free", zeros(6))),
			[]string{Other},
		},
		"an unknown format": {"hint", boxed("rtp ", "settings"), boxed("rtp ", "settings"), nil},
		"a short one":       {"vide", boxed("avc1", zeros(8)), boxed("avc1", zeros(8)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			out, p, err := cleaned([]byte(describedAs(c.handler, c.entry)), "video/mp4")
			is.NoErr(err)
			is.Equal(string(out), describedAs(c.handler, c.want))
			is.Equal(p.Found, c.found)
			_, q, err := cleaned(out, "video/mp4")
			is.NoErr(err)
			is.Equal(q.Found, nil)
		})
	}
}

// TestPictureBoxes: what a picture file says beside its items is removed, too.
func TestPictureBoxes(t *testing.T) {
	t.Parallel()
	full := "\x00\x00\x00\x00"
	handler := func(name string) string { return boxed("hdlr", full, full, "pict", full, full, full, name) }
	item := func(kind string) string {
		return boxed("iinf", full, "\x00\x01", boxed("infe", "\x02\x00\x00\x00\x00\x01\x00\x00", kind, "\x00"))
	}
	for name, c := range map[string]struct{ meta, found string }{
		"XML":           {handler("\x00") + boxed("xml ", full, "<x:xmpmeta exif:GPSLatitude='secret'/>"), GPS},
		"binary XML":    {handler("\x00") + boxed("bxml", full, "secret"), Text},
		"a maker's box": {handler("\x00") + boxed("acme", "secret"), Other},
		"a description": {
			handler("\x00") + boxed(
				"iprp", boxed("ipco", boxed("ispe", full, full, full), boxed("udes", full, "en\x00secret\x00")),
			),
			Text,
		},
		"a time": {handler("\x00") + boxed("iprp", boxed("ipco", boxed("crtt", full, "secret12"))), Time},
		"a name": {handler("secret\x00"), Text},
		"an XML item": {handler("\x00") + item("xml ") + boxed(
			"iloc", "\x01\x00\x00\x00\x44\x00\x00\x01", "\x00\x01\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x06",
		) +
			boxed("idat", "secret"), Text},
		"an XML item with a long number": {handler("\x00") + boxed(
			"iinf", full, "\x00\x01", boxed("infe", "\x03\x00\x00\x00\x00\x00\x00\x01\x00\x00", "xml \x00"),
		) +
			boxed(
				"iloc", "\x01\x00\x00\x00\x44\x00\x00\x01", "\x00\x01\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x06",
			) + boxed("idat", "secret"), Text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			file := boxed("ftyp", "heic", full) + boxed("meta", full, c.meta)
			out, p, err := cleaned([]byte(file), "image/heic")
			is.NoErr(err)
			is.True(slices.Contains(p.Found, c.found))
			is.Equal(len(out), len(file))
			is.True(!bytes.Contains(out, []byte("secret")))
			is.Equal(bytes.Contains(out, []byte("ispe")), strings.Contains(file, "ispe"))
			again, q, err := cleaned(out, "image/heic")
			is.NoErr(err)
			is.True(bytes.Equal(again, out))
			is.Equal(q.Found, nil)
		})
	}
}

// repeated is a large file that begins with head and repeats a byte after it.
type repeated struct {
	head string
	b    byte
	read int64
}

func (r *repeated) ReadAt(b []byte, at int64) (int, error) {
	r.read += int64(len(b))
	for i := range b {
		b[i] = r.b
		if at+int64(i) < int64(len(r.head)) {
			b[i] = r.head[at+int64(i)]
		}
	}
	return len(b), nil
}

// TestHostile: a file that costs much work is refused soon.
func TestHostile(t *testing.T) {
	t.Parallel()
	full, handler := "\x00\x00\x00\x00", boxed("hdlr", "\x00\x00\x00\x00\x00\x00\x00\x00pict")
	heic := boxed("ftyp", "heic\x00\x00\x00\x00")
	exif := boxed("iinf", full, "\x00\x01", boxed("infe", "\x02\x00\x00\x00\x00\x01\x00\x00Exif\x00"))
	for name, file := range map[string]string{
		"items without bytes": heic + boxed(
			"meta", full, handler, exif, boxed("iloc", "\x02\x00\x00\x00\x00\x00\xff\xff\xff\xff"),
		),
		"extents without bytes": heic + boxed(
			"meta", full, handler, exif,
			boxed("iloc", full, "\x00\x00\xff\xff", strings.Repeat("\x00\x01\x00\x00\xff\xff", 0xffff)),
		),
		"a property too long": heic + boxed("meta", full, handler, boxed("iprp", boxed("ipco", "\x00\x00\xff\xffudes"))),
		"many boxes":          heic + strings.Repeat(boxed("free"), maxBoxes),
		"a compressed film":   boxed("ftyp", "qt  ") + boxed("moov", boxed("cmov")),
		"metadata in fragments": boxed("ftyp", "isom") + boxed("moov", boxed("trak", boxed("mdia", boxed("hdlr", full, full, "meta"), boxed("minf", boxed("stbl",
			boxed("stsz", full, full, full), boxed("stsc", full, full), boxed("stco", full, full)))))) + boxed("moof"),
		"many segments": "\xff\xd8" + strings.Repeat("\xff\xe1\x00\x02", maxReads),
		"many chunks":   "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x00\x00\x00tEXtcrc!", maxReads),
		"many frames":   "GIF89a\x01\x00\x01\x00\x00\x00\x00" + strings.Repeat("!\xfe\x00", maxReads),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			_, _, err := cleaned([]byte(file), "")
			is.True(errors.Is(err, ErrUnreadable))
		})
	}
	is := is.New(t)
	fill := &repeated{head: "\xff\xd8", b: 0xff}
	_, err := Clean(fill, 500<<20, "image/jpeg")
	is.True(errors.Is(err, ErrUnreadable))
	is.True(fill.read < 2<<20) // not all of it
	_, err = Clean(&repeated{head: "\xff\xd8\xff\xda\x00\x02"}, 80<<20, "image/jpeg")
	is.NoErr(err) // it is read from end to end
	_, err = Clean(&repeated{head: "\xff\xd8\xff\xda\x00\x02"}, maxScanned+1, "image/jpeg")
	is.True(errors.Is(err, ErrUnreadable))
}

// TestSendTo: long parts of the original go through ReadFrom, and any part of the result is right.
func TestSendTo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	file := slices.Concat(
		readTestdata(t, "all.heic"), binary.BigEndian.AppendUint32(nil, 8+100_000), []byte("mdat"),
		bytes.Repeat([]byte("film"), 25_000),
	)
	want, p, err := cleaned(file, "image/heic")
	is.NoErr(err)
	for _, from := range []int64{0, 1, 5000, p.Size() - 70_000, p.Size() - 5, p.Size()} {
		for _, most := range []int64{0, 1, 40_000, p.Size()} {
			r, out := p.Over(bytes.NewReader(file)), new(sink)
			_, err := r.Seek(from, io.SeekStart)
			is.NoErr(err)
			n, err := r.SendTo(out, most)
			is.NoErr(err)
			end := min(from+most, p.Size())
			is.Equal(n, end-from)
			is.True(bytes.Equal(out.Bytes(), want[from:end]))
			if from <= 5000 && most == p.Size() {
				is.True(out.direct > 60_000)
			}
		}
	}
	short := p.Over(bytes.NewReader(file[:len(file)-1000]))
	_, err = short.SendTo(new(sink), p.Size())
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
}

// A sink counts the bytes that came by ReadFrom.
type sink struct {
	bytes.Buffer
	direct int64
}

func (s *sink) ReadFrom(r io.Reader) (int64, error) {
	n, err := s.Buffer.ReadFrom(r)
	s.direct += n
	return n, err
}

// Every beginning of a file, and every file with a wrong byte, is cleaned or refused, and never panics.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, mediaType := range mediaTypes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := readTestdata(t, name)
			for n := range len(file) {
				judge(t, file[:n], mediaType)
				damaged := bytes.Clone(file)
				damaged[n] ^= 0x41
				judge(t, damaged, mediaType)
			}
		})
	}
}

func judge(t testing.TB, file []byte, mediaType string) {
	t.Helper()
	out, p, err := cleaned(file, mediaType)
	if err != nil {
		if !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrKept) && !errors.Is(err, ErrNone) {
			t.Fatal(err)
		}
		return
	}
	if len(p.Found) == 0 && !bytes.Equal(out, file) {
		t.Fatal("it changes and nothing was found")
	}
	if int64(len(out)) != p.Size() || len(p.pieces) > maxPieces {
		t.Fatalf("%d bytes and not %d, in %d pieces", len(out), p.Size(), len(p.pieces))
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	file := readTestdata(t, "all.jpg")
	p, err := Clean(bytes.NewReader(file), int64(len(file)), "image/jpeg")
	is.NoErr(err)
	_, err = io.ReadAll(p.Over(bytes.NewReader(file[:len(file)/2])))
	is.True(errors.Is(err, io.ErrUnexpectedEOF)) // the original has become shorter
	_, err = Clean(bytes.NewReader(file[:100]), int64(len(file)), "image/jpeg")
	is.True(err != nil && !errors.Is(err, ErrUnreadable))
}

func FuzzClean(f *testing.F) {
	for name, mediaType := range mediaTypes {
		f.Add(readTestdata(f, name), mediaType)
	}
	f.Add(pngOf(f, string(pngChunk("iCCP", []byte("name\x00\x00profile")))), "image/png")
	f.Add(gifOf(f, "!\xff\x0bNETSCAPE2.0\x03\x01\x05\x00\x00!\x01\x00!\xf9\x04\x00\x0a\x00\x00\x00"), "image/gif")
	f.Add([]byte(describedAs("vide", boxed("avc1", strings.Repeat("\x00", 78), boxed("uuid", "name")))), "video/mp4")
	f.Add([]byte(filmOf("vide", "", "picture")+boxed("mdat", "more")), "video/mp4")
	f.Fuzz(func(t *testing.T, file []byte, mediaType string) { judge(t, file, mediaType) })
}

// TestRules: a change of what a clean file has needs another version of the rules, so that visitors get another entity
// tag, and files are examined again.
func TestRules(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(Rules, 4)
	want := map[string]string{
		"all.avif":        "4b06458c3689e2b4",
		"all.gif":         "6c63308e86ccb91f",
		"all.heic":        "d2283349baa17c46",
		"all.jpg":         "bf2d62ddf175d527",
		"all.mov":         "e18903e2bb8d6dee",
		"all.mp4":         "3f21e9c5a0eb07b9",
		"all.png":         "cd3c1931defa0a96",
		"all.webp":        "6688e828b3958388",
		"progressive.jpg": "11e833a71afba3ae",
	}
	for name, mediaType := range mediaTypes {
		out, _, err := cleaned(readTestdata(t, name), mediaType)
		is.NoErr(err)
		sum := sha256.Sum256(out)
		if got := hex.EncodeToString(sum[:8]); got != want[name] {
			t.Errorf("%q: %q,", name, got)
		}
	}
}
