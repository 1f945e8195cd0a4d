package media

import (
	"encoding/binary"
	"strings"
)

// A signature is how the bytes of a type begin. WHATWG MIME Sniffing knows few types; these are the others of
// pictures, sound and film.
type signature struct {
	at    int
	magic string
	media string
}

// signatures are tried in this order.
var signatures = []signature{
	{8, "CR", "image/x-canon-cr2"}, // in a TIFF: see signed
	{0, "II*\x00", "image/tiff"},
	{0, "MM\x00*", "image/tiff"},
	{0, "II+\x00", "image/tiff"},
	{0, "MM\x00+", "image/tiff"},
	{0, "IIRO", "image/x-olympus-orf"},
	{0, "IIRS", "image/x-olympus-orf"},
	{0, "MMOR", "image/x-olympus-orf"},
	{0, "IIU\x00", "image/x-panasonic-rw2"},
	{0, "FUJIFILMCCD-RAW", "image/x-fuji-raf"},
	{6, "HEAPCCDR", "image/x-canon-crw"},
	{0, "FOVb", "image/x-sigma-x3f"},
	{0, "II\xbc", "image/jxr"},
	{0, "8BPS", "image/vnd.adobe.photoshop"},
	{0, "gimp xcf", "image/x-xcf"},
	{0, "\xff\x4f\xff\x51", "image/j2c"},
	{0, "\x00\x00\x00\x0cJXL \r\n\x87\n", "image/jxl"},
	{0, "AT&TFORM", "image/vnd.djvu"},
	{0, "icns\x00", "image/x-icns"},
	{0, "DDS \x7c", "image/vnd.ms-dds"},
	{0, "v/1\x01", "image/aces"},
	{0, "qoif\x00", "image/qoi"},
	{0, "\xabKTX 11\xbb", "image/ktx"},
	{0, "\xabKTX 20\xbb", "image/ktx2"},
	{0, "\xd7\xcd\xc6\x9a", "image/wmf"},
	{40, " EMF\x00", "image/emf"},
	{0, "\x8bJNG\r\n\x1a\n", "image/x-jng"},
	{0, "\x8aMNG\r\n\x1a\n", "video/x-mng"},

	{0, "fLaC", "audio/flac"},
	{0, "MAC ", "audio/x-ape"},
	{0, "wvpk", "audio/x-wavpack"},
	{0, "MPCK", "audio/x-musepack"},
	{0, "MP+", "audio/x-musepack"},
	{0, "TTA1", "audio/x-tta"},
	{0, "DSD \x1c", "audio/x-dsf"},
	{0, ".snd\x00", "audio/basic"},
	{0, "caff\x00\x01", "audio/x-caf"},
	{0, "#!AMR-WB\n", "audio/amr-wb"},
	{0, "#!AMR\n", "audio/amr"},
	{8, "AIFC", "audio/aiff"}, // in a FORM
	{0, "ADIF", "audio/aac"},
	{0, "\x7f\xfe\x80\x01", "audio/vnd.dts"},
	{0, "Extended Module: ", "audio/x-xm"},
	{0, "IMPM", "audio/x-it"},
	{44, "SCRM", "audio/x-s3m"},
	{1080, "M.K.", "audio/x-mod"},
	{0, "PSID\x00", "audio/prs.sid"},
	{0, "RSID\x00", "audio/prs.sid"},

	{0, "FLV\x01", "video/x-flv"},
	{0, "\x00\x00\x01\xba", "video/mpeg"},
	{0, "\x00\x00\x01\xb3", "video/mpeg"},
	{0, "DKIF\x00\x00", "video/x-ivf"},
	{0, ".RMF\x00", "application/vnd.rn-realmedia"},
	{0, "\x06\x0e\x2b\x34\x02\x05\x01\x01", "application/mxf"},
	{0, "BIKi", "video/vnd.radgamettools.bink"},
	{0, "SMK2", "video/vnd.radgamettools.smacker"},
	{0, "SMK4", "video/vnd.radgamettools.smacker"},
}

// enclosing are the first bytes that a file must have beside a signature further behind.
var enclosing = map[string][]string{
	"image/x-canon-cr2": {"II*\x00", "MM\x00*"},
	"image/x-canon-crw": {"II", "MM"},
	"image/emf":         {"\x01\x00\x00\x00"},
	"audio/aiff":        {"FORM"},
}

// signed is the type that the first bytes name, of those that package net/http does not know or not well enough; "" if
// there is none.
func signed(head []byte) string {
	start := string(head)
	for _, s := range signatures {
		if len(start) < s.at+len(s.magic) || start[s.at:s.at+len(s.magic)] != s.magic {
			continue
		}
		if around := enclosing[s.media]; around == nil || beginsWith(start, around...) {
			return s.media
		}
	}
	switch {
	case len(start) >= 12 && start[4:8] == "ftyp":
		return ofBrands(start)
	case len(start) >= 24 && start[:12] == "\x00\x00\x00\x0cjP  \r\n\x87\n":
		return ofBrands(start[12:])
	case len(start) >= 8 && quickTimeParts[start[4:8]] && isPartSize(start):
		return "video/quicktime"
	case beginsWith(start, "OggS\x00"):
		return ofOgg(start)
	case beginsWith(start, "\x1a\x45\xdf\xa3"):
		return ofMatroska(start)
	case beginsWith(start, asfHeader):
		return ofASF(start)
	case beginsWith(start, "RF64", "BW64") && len(start) >= 12 && start[8:12] == "WAVE":
		return "audio/wave"
	case framesAt(head, mp3Frame):
		return "audio/mpeg"
	case framesAt(head, aacFrame):
		return "audio/aac"
	case packetsAt(head, 0, 188), packetsAt(head, 4, 192), packetsAt(head, 0, 204):
		return "video/mp2t"
	}
	return ""
}

func beginsWith(text string, starts ...string) bool {
	for _, start := range starts {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

// brands are the types of ISO base media files (ISO/IEC 14496-12) by their brands. Other brands are films.
var brands = map[string]string{
	"avif": "image/avif", "avis": "image/avif",
	"heic": "image/heic", "heix": "image/heic", "heim": "image/heic", "heis": "image/heic",
	"hevc": "image/heic", "hevx": "image/heic", "hevm": "image/heic", "hevs": "image/heic",
	"mif1": "image/heif", "mif2": "image/heif", "msf1": "image/heif", "avci": "image/avci", "avcs": "image/avcs",
	"jp2 ": "image/jp2", "jpx ": "image/jpx", "jpm ": "image/jpm", "mjp2": "video/mj2", "crx ": "image/x-canon-cr3",
	"qt  ": "video/quicktime",
	"M4A ": "audio/mp4", "M4B ": "audio/mp4", "M4P ": "audio/mp4", "F4A ": "audio/mp4", "F4B ": "audio/mp4",
}

// ofBrands reads the brands in the first box of a file. A general brand of pictures leaves it to the next ones.
func ofBrands(start string) string {
	end := min(len(start), int(binary.BigEndian.Uint32([]byte(start))))
	major := start[8:12]
	for at := 16; brands[major] == "image/heif" && at+4 <= end; at += 4 {
		if t := brands[start[at:at+4]]; t != "" && t != "image/heif" && strings.HasPrefix(t, "image/") {
			return t
		}
	}
	switch {
	case brands[major] != "":
		return brands[major]
	case strings.HasPrefix(major, "3g2"):
		return "video/3gpp2"
	case strings.HasPrefix(major, "3g"):
		return "video/3gpp"
	}
	return "video/mp4"
}

// quickTimeParts begin films of QuickTime that are older than brands.
var quickTimeParts = map[string]bool{"moov": true, "mdat": true, "wide": true, "pnot": true, "free": true, "skip": true}

func isPartSize(start string) bool {
	n := binary.BigEndian.Uint32([]byte(start))
	return n <= 1 || n >= 8
}

// ofOgg reads what the first stream of an Ogg file is (RFC 3533, RFC 5334).
func ofOgg(start string) string {
	for _, film := range []string{"\x80theora", "BBCD\x00", "\x01video\x00\x00\x00", "\x80daala"} {
		if strings.Contains(start, film) {
			return "video/ogg"
		}
	}
	for _, sound := range []string{"\x01vorbis", "OpusHead", "\x7fFLAC", "Speex   ", "PCM     ", "CELT    "} {
		if strings.Contains(start, sound) {
			return "audio/ogg"
		}
	}
	return "application/ogg"
}

// ofMatroska reads the DocType of an EBML file (RFC 8794), which is in its first element.
func ofMatroska(start string) string {
	_, after, _ := strings.Cut(start[:min(len(start), 128)], "\x42\x82")
	docType := after[min(len(after), 1):] // behind its length
	switch {
	case strings.HasPrefix(docType, "matroska"):
		return "video/x-matroska"
	case strings.HasPrefix(docType, "webm"):
		return "video/webm"
	}
	return "application/x-matroska"
}

// The ids of an Advanced Systems Format file, and of the kinds of streams in it.
const (
	asfHeader = "\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c"
	asfFilm   = "\xc0\xef\x19\xbc\x4d\x5b\xcf\x11\xa8\xfd\x00\x80\x5f\x5c\x44\x2b"
	asfSound  = "\x40\x9e\x69\xf8\x4d\x5b\xcf\x11\xa8\xfd\x00\x80\x5f\x5c\x44\x2b"
)

func ofASF(start string) string {
	switch {
	case strings.Contains(start, asfFilm):
		return "video/x-ms-wmv"
	case strings.Contains(start, asfSound):
		return "audio/x-ms-wma"
	}
	return "video/x-ms-asf"
}

// framesAt reports whether the bytes begin with two frames. length is that of the frame with which bytes begin; 0 if
// they begin with none.
func framesAt(b []byte, length func([]byte) int) bool {
	n := length(b)
	return n > 0 && n < len(b) && length(b[n:]) > 0
}

// anyFrames is framesAt at any place, for files that begin with something else.
func anyFrames(b []byte, length func([]byte) int) bool {
	for i := range b {
		if b[i] == 0xff && framesAt(b[i:], length) {
			return true
		}
	}
	return false
}

// mp3Frame reads the header of a frame of MPEG audio (ISO/IEC 11172-3, 2.4.1.3).
func mp3Frame(b []byte) int {
	if len(b) < 4 || b[0] != 0xff || b[1]&0xe0 != 0xe0 {
		return 0
	}
	version, layer, rate, frequency := b[1]>>3&3, b[1]>>1&3, int(b[2]>>4), b[2]>>2&3
	if version == 1 || layer == 0 || rate == 0 || rate == 15 || frequency == 3 {
		return 0
	}
	row := 3 - int(layer) // layer I is written as 3
	samples := []int{384, 1152, 1152}[row]
	hertz := []int{44100, 48000, 32000}[frequency]
	if version != 3 { // versions 2 and 2.5
		row = min(row+3, 4)
		hertz /= 2
	}
	if version == 0 {
		hertz /= 2
	}
	if version != 3 && layer == 1 {
		samples = 576
	}
	bits := mp3Rates[row][rate-1] * 1000
	padding := int(b[2] >> 1 & 1)
	if layer == 3 {
		return (samples/32*bits/hertz + padding) * 4
	}
	return samples/8*bits/hertz + padding
}

// mp3Rates are kilobits a second: of layers I, II and III of version 1, and of layer I and the others of version 2.
var mp3Rates = [5][14]int{
	{32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
	{32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
	{32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
	{32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
	{8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
}

// aacFrame reads the header of a frame of AAC (ISO/IEC 13818-7, ADTS).
func aacFrame(b []byte) int {
	if len(b) < 7 || b[0] != 0xff || b[1]&0xf6 != 0xf0 || b[2]>>2&15 > 12 {
		return 0
	}
	n := int(b[3]&3)<<11 | int(b[4])<<3 | int(b[5])>>5
	if n < 7 {
		return 0
	}
	return n
}

// packetsAt reports whether the bytes are packets of an MPEG transport stream from at on, each of the given length.
func packetsAt(b []byte, at, length int) bool {
	n := 0
	for ; at < len(b); at += length {
		if b[at] != 0x47 {
			return false
		}
		n++
	}
	return n >= 3
}

// hasWeakSign reports whether bytes that tell no type have what the type needs at least. Alone, it would be found in
// too many other files.
func hasWeakSign(media string, head []byte) bool {
	switch Canonical(media) {
	case "image/jxl":
		return beginsWith(string(head), "\xff\x0a")
	case "audio/ac3":
		return beginsWith(string(head), "\x0bw")
	case "audio/mpeg":
		return anyFrames(head, mp3Frame)
	case "audio/aac":
		return anyFrames(head, aacFrame)
	case "video/mp2t":
		for at := range min(len(head), 204) {
			if packetsAt(head, at, 188) || packetsAt(head, at, 192) {
				return true
			}
		}
	}
	return false
}

// within are the types that a file may have beside the one that its bytes tell, because that leaves it open. They are
// named as in Canonical.
var within = map[string][]string{
	"image/tiff": {
		"image/x-adobe-dng", "image/x-nikon-nef", "image/x-sony-arw", "image/x-sony-sr2", "image/x-pentax-pef",
		"image/x-epson-erf", "image/x-kodak-dcr", "image/x-kodak-k25", "image/x-samsung-srw", "image/x-hasselblad-3fr",
		"image/x-leica-rwl", "image/x-phaseone-iiq", "image/tiff-fx", "image/vnd.ms-modi",
	},
	"image/heif":             {"image/heic"},
	"video/mp4":              {"audio/mp4", "application/mp4"},
	"video/3gpp":             {"audio/3gpp"},
	"video/3gpp2":            {"audio/3gpp2"},
	"video/webm":             {"audio/webm"},
	"video/x-matroska":       {"audio/x-matroska"},
	"video/x-ms-asf":         {"video/x-ms-wmv", "audio/x-ms-wma"},
	"application/ogg":        {"audio/ogg", "video/ogg"},
	"application/x-matroska": {"video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska"},
	// The first stream may be the sound of a film.
	"audio/ogg": {"video/ogg"},
	// These may be behind the tags of ID3.
	"audio/mpeg": {"audio/aac", "audio/flac", "audio/x-tta", "audio/x-musepack", "audio/x-ape"},
}

// recognised are the types of sound and film that bytes are known to tell.
var recognised = func() map[string]bool {
	known := map[string]bool{}
	for _, s := range signatures {
		known[s.media] = true
	}
	for _, t := range brands {
		known[t] = true
	}
	for t, others := range within {
		known[t] = true
		for _, other := range others {
			known[other] = true
		}
	}
	for _, t := range []string{"audio/wave", "audio/midi", "audio/ac3", "video/avi", "video/mp2t"} {
		known[t] = true
	}
	return known
}()
