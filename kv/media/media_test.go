package media

import (
	"bytes"
	"math/rand/v2"
	"mime"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// FuzzMediaType: the type is well formed and without parameters. Bytes that a
// browser would run as a page never get a type that it shows, except as plain
// text, which it does not run, and SVG, which the sandbox contains.
func FuzzMediaType(f *testing.F) {
	for _, head := range []string{
		"", "hello", "<html>", "<!-- a --><svg>", "<!-- a --><p>", "<?xml version=\"1.0\"?><svg ", "<svg", "<svgx>", "\ufeff<svg>", "GIF89a<script>", "%PDF-<html>",
		"PK\x03\x04", "\x89PNG\r\n\x1a\n", "OggS\x00", "\x1a\x45\xdf\xa3", "\x00", "\xff\xfe<\x00", "<!DOCTYPE svg><svg>", "<?xml?>", "<!--",
	} {
		for _, c := range [][2]string{
			{"", "a"},
			{"text/html", "a.html"},
			{"image/png", "a.png"},
			{"image/svg+xml", "a.svg"},
			{"application/pdf", "a.txt"},
			{"text/plain", "a.md"},
			{"a/b; c=d", "a.mp4"},
		} {
			f.Add(c[0], c[1], []byte(head))
		}
	}
	f.Fuzz(func(t *testing.T, claimed, name string, head []byte) {
		is := is.New(t)
		got := Of(claimed, name, head[:min(len(head), Sniffed)])
		parsed, params, err := mime.ParseMediaType(got)
		is.NoErr(err)
		is.Equal(parsed, got) // lower case, nothing around it
		is.Equal(len(params), 0)
		is.True(len(got) <= 127 && strings.Count(got, "/") == 1)
		lower := bytes.ToLower(bytes.TrimLeft(head, " \t\r\n\f"))
		for _, page := range []string{
			"<!doctype html ", "<!doctype html>", "<html ", "<html>", "<script>", "<script ", "<iframe ", "<body>", "<!-- ",
		} {
			if bytes.HasPrefix(lower, []byte(page)) {
				is.True(!Inline(got) || got == "text/plain" || svgDocument.Match(head) && got == "image/svg+xml")
			}
		}
		if Inline(got) && strings.HasPrefix(got, "text/") {
			is.Equal(got, "text/plain")
		}
	})
}

// TestOf: the bytes come first, then the name, then the client's type.
func TestOf(t *testing.T) {
	t.Parallel()
	const mp4 = "\x00\x00\x00\x10ftypmp42\x00\x00\x00\x00"
	longest := "text/" + strings.Repeat("x", 122)
	for _, c := range []struct{ claimed, name, head, want string }{
		{"", "a", "", "text/plain"},
		{"", "A.MD", "# a", "text/markdown"},
		{"", "a.md", "PK\x03\x04", "application/zip"},
		{"", "a.svg", "PK\x03\x04", "application/zip"},
		{"", "a.docx", "PK\x03\x04", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		{"application/atom+xml", "a", "PK\x03\x04", "application/zip"},
		{"application/ld+json", "a", "PK\x03\x04", "application/zip"},
		{"", "a.mov", mp4, "video/mp4"},
		{"", "a.md", mp4, "video/mp4"},
		{"audio/mp4", "a", mp4, "audio/mp4"},
		{"audio/x-m4a", "a", mp4, "audio/mp4"},
		{"", "a.txt", "\x00\x01", "application/octet-stream"},
		{"", "a.iso", "\x00\x01", "application/x-iso9660-image"},
		{"", "a.iso", "hello", "application/x-iso9660-image"},
		{"", "a.md", "<html>", "text/markdown"},
		{"", "a.txt", "<html>", "text/plain"},
		{"text/plain", "a", "<html>", "text/html"},
		{"application/pdf", "a", "<html>", "text/html"},
		{"application/pdf", "a", "hello", "text/plain"},
		{"image/png", "a", "hello", "text/plain"},
		{"image/png", "a", "%PDF-1.7", "application/pdf"},
		{"text/x-thing; charset=utf-8", "a", "hello", "text/x-thing"},
		{"text/x-thing", "a.md", "hello", "text/markdown"},
		{"application/octet-stream", "a", "hello", "text/plain"},
		{"text/plain", "a", "<?xml version=\"1.0\"?>", "text/xml"},
		{"thing", "a", "hello", "text/plain"},
		{longest, "a", "hello", longest},
		{longest + "x", "a", "hello", "text/plain"},
	} {
		if got := Of(c.claimed, c.name, []byte(c.head)); got != c.want {
			t.Errorf("%q, %q, %q: got %s, want %s", c.claimed, c.name, c.head, got, c.want)
		}
	}
}

// TestRecorded: a type that was determined once stays, unless the bytes cannot
// be of it.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, head, want string }{
		{"text/plain", "<html>", "text/plain"},
		{"text/markdown", "<html>", "text/markdown"},
		{"text/plain", "\x89PNG\r\n\x1a\n", "image/png"},
		{"image/png", "hello", "text/plain"},
		{"audio/mp4", "\x00\x00\x00\x10ftypmp42\x00\x00\x00\x00", "audio/mp4"},
	} {
		if got := Recorded(c.before, []byte(c.head)); got != c.want {
			t.Errorf("%s, %q: got %s, want %s", c.before, c.head, got, c.want)
		}
	}
}

// frames are two frames with the header, each as long as it says.
func frames(header string, length int) string {
	return strings.Repeat(header+strings.Repeat("\x00", length-len(header)), 2)
}

// ofType are the beginnings of files of sound, film and pictures, as their
// formats and common programs write them, with the type of each.
func ofType() map[string][]string {
	const asf = "\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c\x00\x00"
	ftyp := func(brands ...string) string {
		box := brands[0] + "\x00\x00\x02\x00" + strings.Join(brands[1:], "")
		return string([]byte{0, 0, 0, byte(len(box) + 8)}) + "ftyp" + box + "\x00\x00\x00\x08free"
	}
	const asfFilm = "\xc0\xef\x19\xbc\x4d\x5b\xcf\x11\xa8\xfd\x00\x80\x5f\x5c\x44\x2b"
	const asfSound = "\x40\x9e\x69\xf8\x4d\x5b\xcf\x11\xa8\xfd\x00\x80\x5f\x5c\x44\x2b"
	ogg := func(packet string) string {
		return "OggS\x00\x02" + strings.Repeat("\x00", 20) + "\x01\x1e" + packet + "\x00\x00"
	}
	return map[string][]string{
		"image/jpeg": {"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "\xff\xd8\xff\xe1"},
		"image/png":  {"\x89PNG\r\n\x1a\n\x00"},
		"image/gif":  {"GIF89a\x01\x00\x01\x00\x00", "GIF87a\x01\x00\x01\x00\x00"},
		"image/webp": {"RIFF\x10\x00\x00\x00WEBPVP8 "},
		"image/bmp":  {"BM\x3a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00"},
		"image/tiff": {
			"II*\x00\x08\x00\x00\x00", "MM\x00*\x00\x00\x00\x08", "II+\x00\x08\x00\x00\x00", "MM\x00+\x00\x08\x00\x00",
		},
		"image/heic": {
			ftyp("heic", "mif1", "heic"), ftyp("heix", "mif1"), ftyp("hevc", "msf1"), ftyp("mif1", "mif1", "heic"),
			ftyp("msf1", "msf1", "hevc"),
		},
		"image/heif":                {ftyp("mif1", "mif1"), ftyp("mif1", "mif1", "miaf")},
		"image/avif":                {ftyp("avif", "mif1"), ftyp("avis", "msf1"), ftyp("mif1", "mif1", "avif")},
		"image/jxl":                 {"\x00\x00\x00\x0cJXL \r\n\x87\n\x00"},
		"image/jp2":                 {"\x00\x00\x00\x0cjP  \r\n\x87\n\x00\x00\x00\x14ftypjp2 \x00\x00\x00\x00jp2 "},
		"image/jpx":                 {"\x00\x00\x00\x0cjP  \r\n\x87\n\x00\x00\x00\x14ftypjpx \x00\x00\x00\x00jpx "},
		"image/x-icon":              {"\x00\x00\x01\x00\x01\x00"},
		"image/vnd.adobe.photoshop": {"8BPS\x00\x01\x00\x00"},
		"image/x-xcf":               {"gimp xcf v011\x00"},
		"image/x-canon-cr2":         {"II*\x00\x10\x00\x00\x00CR\x02\x00"},
		"image/x-canon-cr3":         {ftyp("crx ", "crx ", "isom")},
		"image/x-olympus-orf":       {"IIRO\x08\x00\x00\x00"},
		"image/x-fuji-raf":          {"FUJIFILMCCD-RAW 0201\x00"},
		"image/emf":                 {"\x01\x00\x00\x00\x6c" + strings.Repeat("\x00", 35) + " EMF\x00\x00\x01\x00"},

		"video/mp4": {
			ftyp("isom", "isom", "iso2", "avc1", "mp41"), ftyp("mp42", "mp42"), ftyp("M4V ", "mp42"), ftyp("dash"),
			ftyp("MSNV", "isom"),
		},
		"video/quicktime": {
			ftyp("qt  ", "qt  "), "\x00\x00\x00\x08wide\x00\x00", "\x00\x00\x04\xd2moov\x00", "\x00\x00\x00\x01mdat\x00",
		},
		"video/3gpp":       {ftyp("3gp4", "3gp4", "isom"), ftyp("3gp6"), ftyp("3ge6")},
		"video/3gpp2":      {ftyp("3g2a", "3g2a")},
		"video/webm":       {"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm\x42\x87\x81\x02"},
		"video/x-matroska": {"\x1a\x45\xdf\xa3\xa3\x42\x86\x81\x01\x42\x82\x88matroska\x42\x87\x81\x04"},
		"video/ogg":        {ogg("\x80theora"), ogg("fishead\x00") + ogg("\x80theora"), ogg("\x01video\x00\x00\x00")},
		"video/avi":        {"RIFF\x10\x00\x00\x00AVI LIST"},
		"video/x-ms-wmv":   {asf + asfSound + asfFilm},
		"video/x-ms-asf":   {asf},
		"video/mpeg":       {"\x00\x00\x01\xba\x44\x00", "\x00\x00\x01\xb3\x14\x00"},
		"video/mp2t": {
			strings.Repeat("\x47"+strings.Repeat("\x00", 187), 3),
			strings.Repeat("\x00\x00\x00\x01\x47"+strings.Repeat("\x00", 187), 3),
		},
		"video/x-flv": {"FLV\x01\x05\x00\x00\x00\x09"},

		"audio/mpeg": {
			"ID3\x04\x00\x00\x00\x00\x00\x23", frames("\xff\xfb\x90\x64", 417), frames("\xff\xf3\x40\xc4", 104),
			frames("\xff\xfd\x80\x04", 417), frames("\xff\xe3\x18\xc4", 72), frames("\xff\xff\x42\x00", 140),
		},
		"audio/aac":      {frames("\xff\xf1\x50\x80\x03\x9f\xfc", 28), frames("\xff\xf9\x50\x80\x03\x9f\xfc", 28), "ADIF\x00"},
		"audio/mp4":      {ftyp("M4A ", "M4A ", "mp42", "isom"), ftyp("M4B ", "M4A ")},
		"audio/flac":     {"fLaC\x00\x00\x00\x22"},
		"audio/ogg":      {ogg("\x01vorbis"), ogg("OpusHead"), ogg("\x7fFLAC"), ogg("Speex   ")},
		"audio/wave":     {"RIFF\x10\x00\x00\x00WAVEfmt ", "RF64\xff\xff\xff\xffWAVEds64\x1c\x00"},
		"audio/aiff":     {"FORM\x00\x00\x10\x00AIFFCOMM", "FORM\x00\x00\x10\x00AIFCFVER"},
		"audio/midi":     {"MThd\x00\x00\x00\x06\x00\x01"},
		"audio/x-ms-wma": {asf + asfSound},
		"audio/amr":      {"#!AMR\n\x3c\x00"},
		"audio/basic":    {".snd\x00\x00\x00\x18"},
		"audio/x-caf":    {"caff\x00\x01\x00\x00"},

		"application/pdf": {
			"%PDF-1.4\n", "\r\n%PDF-1.4\n", "\ufeff%PDF-1.4\n", "\n\n %PDF-1.4\n%\xe2\xe3\xcf\xd3\n\x00", "%PDF-1.7\n\x00",
		},
	}
}

// TestBytes: what the bytes tell needs no name, and no name or claim overrules it.
func TestBytes(t *testing.T) {
	t.Parallel()
	others := []struct{ claimed, name string }{
		{"", "image"},
		{"application/octet-stream", "IMG_1"},
		{"image/jpeg", "IMG_1.jpg"},
		{"image/png", "a.png"},
		{"video/mp4", "a.gif"},
		{"text/plain", "a.txt"},
		{"text/html", "a.html"},
		{"application/pdf", "a.pdf"},
	}
	for want, heads := range ofType() {
		for _, head := range heads {
			for _, c := range others {
				if got := Of(c.claimed, c.name, []byte(head)); got != want {
					t.Errorf("%q as %s, %q: got %s, want %s", c.name, c.claimed, head[:min(len(head), 40)], got, want)
				}
			}
		}
	}
}

// TestContainers: where several types have the same bytes, the name tells.
func TestContainers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ like, name, want string }{
		{"image/tiff", "a.dng", "image/x-adobe-dng"},
		{"image/tiff", "a.NEF", "image/x-nikon-nef"},
		{"image/tiff", "a.png", "image/tiff"},
		{"image/heif", "a.heic", "image/heic"},
		{"video/mp4", "a.m4a", "audio/mp4"},
		{"video/mp4", "a.m4v", "video/mp4"},
		{"video/mp4", "a.mov", "video/mp4"},
		{"video/quicktime", "a.mp4", "video/quicktime"},
		{"video/webm", "a.weba", "audio/webm"},
		{"video/webm", "a.mkv", "video/webm"},
		{"video/x-matroska", "a.mka", "audio/x-matroska"},
		{"video/x-ms-asf", "a.wma", "audio/x-ms-wma"},
		{"video/x-ms-asf", "a.wmv", "video/x-ms-wmv"},
		{"audio/ogg", "a.opus", "audio/ogg"},
		{"audio/ogg", "a.ogv", "video/ogg"},
		{"video/ogg", "a.ogg", "video/ogg"},
		{"audio/mpeg", "a.aac", "audio/aac"},
		{"video/mpeg", "a.vob", "video/mpeg"},
		{"video/mp2t", "a.ts", "video/mp2t"},
	} {
		if got := Of("", c.name, []byte(ofType()[c.like][0])); got != c.want {
			t.Errorf("%s like %s: got %s, want %s", c.name, c.like, got, c.want)
		}
	}
	for name, want := range map[string]string{
		"a.ogg": "audio/ogg", "a.ogv": "video/ogg", "a.mp3": "application/ogg", "a": "application/ogg",
	} {
		if got := Of("", name, []byte("OggS\x00")); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestNoPictureByName: bytes that are no picture become none by their name, and
// so it is with sound and film that bytes would tell.
func TestNoPictureByName(t *testing.T) {
	t.Parallel()
	random := make([]byte, Sniffed)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(random)
	for ext, mediaType := range byExtension {
		for _, head := range []string{string(random), "\x00\x01\x02\x03", "hello", "<script>alert(1)</script>", "PK\x03\x04"} {
			got := Of(mediaType, "a."+ext, []byte(head))
			if strings.HasPrefix(got, "image/") || Inline(got) && got != "text/plain" {
				t.Errorf("a.%s, %q: %s", ext, head[:min(len(head), 10)], got)
			}
		}
	}
	for name, want := range map[string]string{
		"a.dv": "video/dv", "a.gsm": "audio/x-gsm", "a.bin": "application/octet-stream", "a.jxl": "application/octet-stream",
		"a.mp4": "application/octet-stream", "a.mts": "application/octet-stream", "a.wma": "application/octet-stream",
	} {
		if got := Of("", name, random); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	// Some begin with what only a name can explain.
	for name, head := range map[string]string{
		"a.jxl": "\xff\x0a\x00", "a.ac3": "\x0bw\x00", "a.mp3": strings.Repeat("\x00", 100) + frames("\xff\xfb\x90\x64", 417),
		"a.mts": strings.Repeat("\x00", 50) + strings.Repeat("\x47"+strings.Repeat("\x00", 187), 5),
		"a.pdf": "\x1b%-12345X@PJL\r\n\x00%PDF-1.4\n",
	} {
		if got := Of("", name, []byte(head)); got != OfName(name) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestMisleading: texts whose first letters, and files whose first bytes, are
// like those of something else.
func TestMisleading(t *testing.T) {
	t.Parallel()
	const svg = `<svg xmlns="http://www.w3.org/2000/svg"/>`
	licence := "<!--\n" + strings.Repeat("This file is free, whatever comes. ", 60) + "\n-->\n"
	doctype := "<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd\" [\n" +
		"\t<!ENTITY ns_extend \"http://ns.adobe.com/Extensibility/1.0/\">\n]>\n"
	for _, c := range []struct{ name, head, want string }{
		{"a", "<svg/>", "image/svg+xml"},
		{"a", "\ufeff <?xml version=\"1.0\"?>\n<!-- a -->\t<!DOCTYPE svg>\r\n<svg ", "image/svg+xml"},
		{"a", "<?xml version=\"1.0\"?>\n<!-- a -->\n" + doctype + svg, "image/svg+xml"},
		{"a", "<!-- a -->" + doctype + svg, "image/svg+xml"},
		{"a", licence + svg, "image/svg+xml"},
		{"a", `<s:svg xmlns:s="http://www.w3.org/2000/svg"/>`, "image/svg+xml"},
		{"a", utf16le("\ufeff<?xml version=\"1.0\" encoding=\"utf-16\"?>" + svg), "image/svg+xml"},
		{"a.xml", "<!-- a --><svg>", "text/xml"},
		{"a", "<svgx>", "text/plain"},
		{"a", "<svg", "text/plain"},
		{"a", "see <svg>", "text/plain"},
		{"a.svg", "hello", "text/plain"},
		{"a", "<!-- a", "text/html"},
		{"a", "<!-- a --><p>", "text/html"},
		{"a", "<!-- a --><html><svg>", "text/html"},
		{"a", utf16le("\ufeff<html>"), "text/html"},
		{"a", "<html>\x00", "text/html"},

		{"log.txt", "<html was found in line 3>\nx\n", "text/plain"},
		{"a.log", "<script> at 12:00\n", "text/plain"},
		{"readme.md", "<p align=\"center\"><img src=\"logo.png\"></p>\n\n# Title\n", "text/markdown"},
		{"readme.md", "<!-- badges -->\n# Title\n", "text/markdown"},
		{"a.csv", "<html>;b\n", "text/csv"},
		{"cars.txt", "BMW, Audi", "text/plain"},
		{"cars.csv", "BM;Gr\xfc\xdfe", "text/csv"},
		{"a", "ID3 tags, explained", "text/plain"},
		{"a", "OTTO is a name", "text/plain"},
		{"a", "GIF89a is a format", "text/plain"},
		{"a.py", "#!/usr/bin/env python3\nprint(1)\n", "text/plain"},
		{"a.ts", "const a = 1\n", "text/plain"},
		{"a.m3u", "#EXTM3U\n", "text/plain"},

		{"sys.log", strings.Repeat("line 1\nline\x00 2\n", 30), "text/plain"},
		{"sys.csv", "a;b\n1;\x00\n2;3\n4;5\n", "text/csv"},
		{"build.log", strings.Repeat("\x1b[31merror\x1b[0m: x\n", 9), "text/plain"},
		{"typescript.txt", "N\bNA\bAM\bME\bE\a\n", "text/plain"},
		{"a.txt", "a\x00b\x01c\x02", "application/octet-stream"},
		{"a.html", "<html>\x00\x01\x02\x03", "text/html"},
	} {
		head := []byte(c.head)
		if got := Of("", c.name, head[:min(len(head), Sniffed)]); got != c.want {
			t.Errorf("%s, %q: got %s, want %s", c.name, c.head[:min(len(c.head), 60)], got, c.want)
		}
	}
}

// TestTextOfAnyCharset: a text is one in every charset, and its name still tells which.
func TestTextOfAnyCharset(t *testing.T) {
	t.Parallel()
	for name, head := range textsInCharsets(t) {
		for file, want := range map[string]string{
			"a": "text/plain", "a.txt": "text/plain", "a.csv": "text/csv", "a.md": "text/markdown", "a.png": "text/plain",
			"a.py": "text/plain",
		} {
			if got := Of("application/octet-stream", file, []byte(head)); got != want {
				t.Errorf("%s in %s: got %s, want %s", file, name, got, want)
			}
		}
	}
}

// TestAliases: types with several names are the same, and bytes have one of them.
func TestAliases(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave", "AUDIO/WAV; codecs=1"},
		{"audio/ogg", "audio/opus", "audio/vorbis"},
		{"audio/mpeg", "audio/mp3", "audio/x-mp3"},
		{"audio/mp4", "audio/x-m4a", "audio/m4a"},
		{"audio/flac", "audio/x-flac"},
		{"audio/aiff", "audio/x-aiff"},
		{"audio/midi", "audio/x-midi"},
		{"video/x-msvideo", "video/avi", "video/vnd.avi"},
		{"video/mp4", "video/x-m4v"},
		{"video/matroska", "video/x-matroska"},
		{"image/jpeg", "image/jpg", "image/pjpeg"},
		{"image/x-icon", "image/vnd.microsoft.icon"},
		{"image/vnd.adobe.photoshop", "image/x-photoshop"},
		{"application/gzip", "application/x-gzip"},
		{"application/xml", "text/xml"},
		{"text/javascript", "application/javascript"},
	} {
		for _, other := range same {
			if Canonical(other) != Canonical(same[0]) {
				t.Errorf("%s is %s, and %s is %s", same[0], Canonical(same[0]), other, Canonical(other))
			}
		}
	}
	for other, name := range aliases {
		if aliases[name] != "" || Canonical(other) != name {
			t.Errorf("%s means %s, which means %s", other, name, aliases[name])
		}
	}
	for ext, name := range byExtension {
		if Canonical(name) != name {
			t.Errorf(".%s is %s, which means %s", ext, name, Canonical(name))
		}
	}
	if got := Of("audio/x-wav", "a", []byte("RIFF\x10\x00\x00\x00WAVEfmt ")); got != "audio/wave" {
		t.Errorf("WAV as audio/x-wav: %s", got)
	}
}

// TestExtension: the usual extension of a type leads back to it.
func TestExtension(t *testing.T) {
	t.Parallel()
	for mediaType, want := range map[string]string{
		"image/jpeg": ".jpg", "image/png": ".png", "image/heic": ".heic", "video/quicktime": ".mov", "audio/mpeg": ".mp3",
		"audio/x-m4a": ".m4a", "application/pdf": ".pdf", "application/octet-stream": "", "image/x-unheard-of": "",
	} {
		if got := Extension(mediaType); got != want {
			t.Errorf("%s: got %q, want %q", mediaType, got, want)
		}
	}
	for mediaType, ext := range usualExtension {
		if got := byExtension[ext[1:]]; got != mediaType {
			t.Errorf("%s is usually %s, which is %s", mediaType, ext, got)
		}
	}
}
