package metadata

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"kist/kv/record"
)

// ISO base media files (ISO/IEC 14496-12), QuickTime files and HEIF (ISO/IEC 23008-12) are boxes in boxes. Tables
// refer to bytes by their place in the file, so nothing may move: a box that says too much becomes free space.

// Bounds of what is read.
const (
	maxBoxes  = 250_000 // and extents of items: an hour of a film in fragments has 15,000
	maxDepth  = 6
	maxTables = 16 << 20 // bytes of the tables of one track or of all items
)

// A box is a part of a file: its header and what is in it.
type box struct {
	kind           string
	at, inner, end int64
}

// A film collects what is overwritten. Its edits may overlap only if they are zeros.
type film struct {
	*source
	*Plan
	edits []piece // from is the place in the original; literal nil is zeros
	boxes int

	picture   bool // HEIC or AVIF
	fragments bool // samples are also outside of the tables of tracks
	hidden    bool // a track was blanked
	elsewhere bool // tables that are not read here refer to the media, too

	told told      // what its texts say
	made time.Time // what its header says

	media  []box    // the boxes mdat
	tracks []tables // those that stay
}

func (p *Plan) boxes(s *source) error {
	f := &film{source: s, Plan: p}
	if err := f.each(0, s.size, f.top); err != nil {
		return err
	}
	p.learn(f.told.photo())
	p.learn(record.Photo{Taken: f.made})
	if f.fragments && f.hidden {
		return unreadable("a track of metadata is in fragments")
	}
	if err := f.ends(); err != nil {
		return err
	}
	slices.SortStableFunc(f.edits, func(a, b piece) int { return cmp.Compare(a.from, b.from) })
	at := int64(0)
	for _, e := range f.edits {
		end := e.from + e.length
		if e.from < 0 || end > s.size {
			return unreadable("it refers to what it does not have")
		}
		if end <= at {
			continue
		}
		if e.from < at {
			if e.literal != nil {
				return unreadable("its parts overlap")
			}
			e.from = at
		}
		if err := p.keep(at, e.from); err != nil {
			return err
		}
		if err := p.add(piece{from: -1, literal: e.literal, length: end - e.from}); err != nil {
			return err
		}
		at = end
	}
	return p.keep(at, s.size)
}

// each calls fn for each box between two places.
func (f *film) each(from, to int64, fn func(box) error) error {
	for at := from; at < to; {
		f.boxes++
		if f.boxes > maxBoxes {
			return unreadable("it has too many boxes")
		}
		if to-at < 8 {
			if from > 0 { // QuickTime ends some lists with four zeros
				return nil
			}
			return unreadable("it ends in a box")
		}
		h, err := f.some(at, min(16, to-at))
		if err != nil {
			return err
		}
		b := box{kind: string(h[4:8]), at: at, inner: at + 8}
		switch size := int64(binary.BigEndian.Uint32(h)); {
		case size == 0:
			b.end = to
		case size == 1 && len(h) == 16:
			b.inner, b.end = at+16, at+int64(binary.BigEndian.Uint64(h[8:])&(1<<62-1))
		default:
			b.end = at + size
		}
		if b.end < b.inner || b.end > to {
			if from == 0 && b.kind == "mdat" && at > 0 { // cut off in the middle of the film, which players show
				b.end = to
			} else {
				return unreadable("the box at %d is too long", at)
			}
		}
		if err := fn(b); err != nil {
			return err
		}
		at = b.end
	}
	return nil
}

// blank turns a box into free space.
func (f *film) blank(b box) {
	header := binary.BigEndian.AppendUint32(nil, uint32(min(b.end-b.at, 1<<32-1)))
	header = append(header, "free"...)
	if b.inner-b.at == 16 {
		header = binary.BigEndian.AppendUint64(append([]byte{0, 0, 0, 1}, "free"...), uint64(b.end-b.at))
	} else if b.end-b.at >= 1<<32 {
		header = append([]byte{0, 0, 0, 0}, "free"...) // to the end of the file, as before
	}
	f.edits = append(f.edits, piece{from: b.at, literal: header, length: int64(len(header))})
	f.zero(b.inner, b.end)
}

func (f *film) zero(from, to int64) {
	if to > from {
		f.edits = append(f.edits, piece{from: from, length: to - from})
	}
}

// says notes what a box says.
func (f *film) says(b box) error {
	text, err := f.some(b.inner, min(b.end-b.inner, 1<<20))
	if err != nil {
		return err
	}
	f.found(textual(text)...)
	switch b.kind {
	case "udta":
		f.told.user(text)
	case "meta":
		f.told.keys(text)
	}
	return nil
}

// topBoxes, filmBoxes and itemBoxes are what a file, a film and a picture need. Makers of cameras add boxes of their own.
var (
	topBoxes = map[string]bool{
		"ftyp": true, "styp": true, "mdat": true, "imda": true, "mfra": true, "sidx": true, "ssix": true, "pdin": true,
		"prft": true,
	}
	filmBoxes = map[string]bool{"mvhd": true, "mvex": true, "iods": true, "pssh": true, "ainf": true, "mfhd": true}
	itemBoxes = map[string]bool{
		"hdlr": true, "pitm": true, "iloc": true, "iinf": true, "iprp": true, "iref": true, "idat": true, "dinf": true,
		"ipro": true, "grpl": true,
	}
)

func (f *film) top(b box) error {
	switch b.kind {
	case "ftyp":
		brand, err := f.some(b.inner, min(b.end-b.inner, 4))
		f.picture = slices.Contains(
			[]string{"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1", "avif", "avis"}, string(brand),
		)
		return err
	case "mdat":
		f.media = append(f.media, b)
	case "moof":
		f.fragments = true
		fallthrough
	case "moov":
		return f.each(b.inner, b.end, f.movie)
	case "meta":
		return f.items(b)
	}
	return f.common(b, topBoxes)
}

// common blanks a box that is metadata wherever it is, and one that is not needed; needed nil keeps all others.
func (f *film) common(b box, needed map[string]bool) error {
	switch b.kind {
	case "udta", "uuid", "meta", "XMP_", "gps ", "xml ", "bxml":
		f.blank(b)
		return f.says(b)
	case "free", "skip", "wide":
		return f.unused(b)
	}
	if needed != nil && !needed[b.kind] {
		f.found(Other)
		f.blank(b)
	}
	return nil
}

// unused clears free space, which may have what was there before.
func (f *film) unused(b box) error {
	head, err := f.some(b.inner, min(b.end-b.inner, maxExif))
	if err != nil {
		return err
	}
	if !empty(head) || b.end-b.inner > maxExif {
		f.found(Other)
		f.zero(b.inner, b.end)
	}
	return nil
}

func empty(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

func (f *film) movie(b box) error {
	switch b.kind {
	case "mvhd":
		return f.times(b)
	case "trak", "traf":
		return f.track(b)
	case "cmov":
		return unreadable("it is compressed")
	}
	return f.common(b, filmBoxes)
}

// times blanks when something was made, in the header of a film, a track or its media.
func (f *film) times(b box) error {
	v, err := f.bytes(b.inner, 1)
	if err != nil {
		return err
	}
	end := b.inner + 4 + 8
	if v[0] == 1 {
		end += 8
	}
	if end > b.end {
		return unreadable("the box at %d is too short", b.at)
	}
	when, err := f.bytes(b.inner+4, end-b.inner-4)
	if b.kind == "mvhd" && err == nil {
		f.made = made(when)
	}
	if err == nil && !empty(when) {
		f.found(Time)
		f.zero(b.inner+4, end)
	}
	return err
}

// What a track is, by its handler. Others are metadata, such as the places of a drone's flight.
var (
	mediaTracks = map[string]bool{
		"vide": true, "soun": true, "auxv": true, "pict": true, "hint": true, "tmcd": true, "subp": true, "clcp": true,
	}
	textTracks = map[string]bool{"text": true, "sbtl": true, "subt": true}
)

// telling matches the text that a drone or a dash camera writes for a picture: a place, or a sentence of a receiver.
var telling = regexp.MustCompile(`(?i)\b(?:gps|lat|latitude|lon|longitude|longtitude|home)\b\W{0,4}(?:[nsew]\W{0,3})?[-+]?\d+(?:[.,]\d|°| ?deg)|\$G[NP][A-Z]{3},`)

// plainNames are names of handlers that say nothing about a film.
var plainNames = map[string]bool{
	"": true, "VideoHandler": true, "SoundHandler": true, "SubtitleHandler": true, "TimeCodeHandler": true, "DataHandler": true, "VideoHandle": true, "SoundHandle": true,
	"Core Media Video": true, "Core Media Audio": true, "Core Media Data Handler": true, "Core Media Time Code": true, "Apple Video Media Handler": true,
	"Apple Sound Media Handler": true, "Apple Alias Data Handler": true, "ISO Media file produced by Google Inc.": true, "GPAC ISO Video Handler": true, "GPAC ISO Audio Handler": true,
}

// handler reads a box hdlr: of what kind the media is, and a name, which it removes unless it says nothing.
func (f *film) handler(b box) (kind, name string, err error) {
	h, err := f.bytes(b.inner, 12)
	if err != nil {
		return "", "", err
	}
	if at := b.inner + 24; at < b.end {
		text, err := f.some(at, min(b.end-at, maxExif))
		if err != nil {
			return "", "", err
		}
		// QuickTime puts the length before the name, others a NUL after it.
		name = strings.TrimFunc(string(text), func(r rune) bool { return r < ' ' })
		if !plainNames[name] || b.end-at > maxExif {
			f.found(textual(text)...)
			f.zero(at, b.end)
		}
	}
	return string(h[8:]), name, nil
}

// tables are where the samples of a track are.
type tables struct {
	handler, name       string
	sizes, runs, places box
	entries             box
}

// track blanks what a track says. A track that is metadata goes with its samples, and so does a text that says where
// the film was made.
func (f *film) track(b box) error {
	var t tables
	start := len(f.edits)
	if err := f.inTrack(b, &t, 0); err != nil {
		return err
	}
	if b.kind == "traf" || t.handler == "" || mediaTracks[t.handler] {
		f.tracks = append(f.tracks, t)
		return f.sampleEntries(t)
	}
	what := Other
	if textTracks[t.handler] {
		tells, err := f.tells(t)
		if err != nil {
			return err
		}
		if !tells {
			f.tracks = append(f.tracks, t)
			return f.sampleEntries(t)
		}
		what = GPS
	}
	f.found(what)
	f.hidden, f.edits = true, f.edits[:start] // the whole box follows
	if err := f.samples(t, func(at, length int64) error { f.zero(at, at+length); return nil }); err != nil {
		return err
	}
	f.blank(b)
	return nil
}

// entryBoxes are what a sample entry needs to be decoded and shown: the settings of the codec, of protection, of
// colours, shapes and loudspeakers.
var entryBoxes = map[string]bool{
	"avcC": true, "avcE": true, "hvcC": true, "hvcE": true, "lhvC": true, "vvcC": true, "evcC": true, "av1C": true, "vpcC": true, "apvC": true,
	"dvcC": true, "dvvC": true, "dvwC": true, "esds": true, "glbl": true, "jp2h": true, "jpgC": true, "d263": true, "damr": true, "bitr": true,
	"alac": true, "dOps": true, "dfLa": true, "dac3": true, "dec3": true, "dac4": true, "dmlp": true, "ddts": true, "udts": true, "mhaC": true,
	"mhaP": true, "iacb": true, "pcmC": true, "SA3D": true, "wave": true, "chan": true, "chnl": true, "srat": true, "dmix": true, "enda": true,
	"frma": true, "sinf": true, "rinf": true, "cinf": true, "SMI ": true, "strf": true, "ACLR": true, "APRG": true, "ARES": true, "AORD": true,
	"colr": true, "gama": true, "fiel": true, "pasp": true, "clap": true, "btrt": true, "mdcv": true, "clli": true, "cclv": true, "amve": true,
	"SmDm": true, "CoLL": true, "ccst": true, "auxi": true, "st3d": true, "sv3d": true, "vexu": true, "hfov": true,
	"ftab": true, "vttC": true, "vlab": true,
}

// plainCompressors are names of compressors that say nothing about a film. Decoders need the last two.
var plainCompressors = map[string]bool{
	"": true, "AVC Coding": true, "JVT/AVC Coding": true, "H.264": true, "HEVC Coding": true, "HEVC": true, "H.265": true, "AOM Coding": true,
	"VPC Coding": true, "Sorenson H263": true, "Planar Y'CbCr 8-bit 4:2:0": true,
}

// Lengths in bytes of the fields of a sample entry before its boxes, and the place of a compressor's name in them.
const (
	pictureEntry  = 78
	soundEntry    = 28
	nameAt        = 42
	nameLength    = 32
	colourTableAt = 74
)

// otherEntries are the lengths in bytes of the fields of sample entries that are neither pictures nor sound.
var otherEntries = map[string]int64{"tmcd": 26, "tx3g": 38, "wvtt": 8}

// sampleEntries blanks what the descriptions of a track's samples say: boxes that nobody needs, and the compressor.
func (f *film) sampleEntries(t tables) error {
	if t.entries.kind == "" {
		return nil
	}
	head, err := f.bytes(t.entries.inner, 8)
	if err != nil {
		return err
	}
	return f.each(t.entries.inner+8, t.entries.end, func(e box) error {
		fields := otherEntries[e.kind]
		switch t.handler {
		case "vide", "auxv", "pict":
			fields, err = f.pictureEntry(e)
		case "soun":
			fields, err = f.soundEntry(e, head[0])
		}
		if err != nil || fields == 0 {
			return err
		}
		return f.each(e.inner+fields, e.end, func(b box) error {
			if b.kind == "wave" {
				return f.each(b.inner, b.end, func(b box) error { return f.common(b, nil) })
			}
			if b.kind == "colr" {
				return f.colours(b)
			}
			return f.common(b, entryBoxes)
		})
	})
}

// pictureEntry clears the name of the compressor, and returns the length of the fields before the boxes.
func (f *film) pictureEntry(e box) (fields int64, err error) {
	if e.end-e.inner < pictureEntry {
		return 0, nil
	}
	head, err := f.bytes(e.inner, pictureEntry)
	if err != nil {
		return 0, err
	}
	name := head[nameAt : nameAt+nameLength]
	n := 1 + min(int(name[0]), nameLength-1)
	if !plainCompressors[string(name[1:n])] || !empty(name[n:]) {
		f.found(Camera)
		f.zero(e.inner+nameAt, e.inner+nameAt+nameLength)
	}
	depth, table := binary.BigEndian.Uint16(head[colourTableAt:]), binary.BigEndian.Uint16(head[colourTableAt+2:])
	if table != 0 || depth&31 == 0 || depth&31 > 8 {
		return pictureEntry, nil
	}
	colours, err := f.bytes(e.inner+pictureEntry, 8) // a QuickTime film may have its own
	if err != nil {
		return 0, err
	}
	return pictureEntry + 8 + 8*(1+int64(binary.BigEndian.Uint16(colours[6:]))), nil
}

// soundEntry returns the length of the fields before the boxes. QuickTime has longer ones in tables of version 0.
func (f *film) soundEntry(e box, version byte) (fields int64, err error) {
	if e.end-e.inner < soundEntry {
		return 0, nil
	}
	head, err := f.bytes(e.inner, soundEntry)
	if err != nil {
		return 0, err
	}
	switch v := binary.BigEndian.Uint16(head[8:]); {
	case version == 0 && v == 1:
		return soundEntry + 16, nil
	case version == 0 && v == 2:
		return soundEntry + 36, nil
	}
	return soundEntry, nil
}

// Bounds of what is read of a text track: chunks at its beginning, as many more all over it, and bytes of each.
const (
	textChunks = 64
	textBytes  = 4 << 10
)

// tells reports whether a text track says where the film was made.
func (f *film) tells(t tables) (tells bool, err error) {
	if strings.Contains(t.name, "DJI") {
		return true, nil
	}
	if t.sizes.kind == "" || t.places.kind == "" { // its samples are in fragments
		return false, nil
	}
	n, every := int64(0), max(1, (t.places.end-t.places.inner)/8/textChunks)
	err = f.samples(t, func(at, length int64) error {
		n++
		if tells || n > textChunks && n%every != 0 {
			return nil
		}
		text, err := f.some(at, min(length, textBytes))
		tells = err == nil && telling.Match(text)
		return err
	})
	return tells, err
}

func (f *film) inTrack(b box, t *tables, depth int) error {
	return f.each(b.inner, b.end, func(b box) error {
		switch b.kind {
		case "mdia", "minf", "stbl":
			if depth < maxDepth {
				return f.inTrack(b, t, depth+1)
			}
		case "tkhd", "mdhd":
			return f.times(b)
		case "hdlr":
			kind, name, err := f.handler(b)
			if err != nil {
				return err
			}
			if t.handler == "" || depth == 1 { // that of the media, not that of its storage
				t.handler, t.name = kind, name
			}
		case "stsd":
			t.entries = b
		case "stsz":
			t.sizes = b
		case "stsc":
			t.runs = b
		case "stco", "co64":
			t.places = b
		case "saio":
			f.elsewhere = true
		}
		return f.common(b, nil)
	})
}

// table reads the numbers of a table behind its header, each of so many bytes.
func (f *film) table(b box, skip, width int64) ([]byte, error) {
	if b.kind == "" || b.end-b.inner > maxTables || b.end-b.inner < skip {
		return nil, unreadable("it has a wrong table")
	}
	all, err := f.bytes(b.inner, b.end-b.inner)
	if err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(all[skip-4:]))
	if n > (int64(len(all))-skip)/width {
		return nil, unreadable("the table at %d is too short", b.at)
	}
	return all[skip : skip+n*width], nil
}

// samples calls fn for each chunk of the samples of a track.
func (f *film) samples(t tables, fn func(at, length int64) error) error {
	head, err := f.bytes(t.sizes.inner, 12)
	if t.sizes.kind == "" || err != nil {
		return cmp.Or(err, unreadable("a track has no sizes"))
	}
	one, count := int64(binary.BigEndian.Uint32(head[4:])), int64(binary.BigEndian.Uint32(head[8:]))
	var sizes []byte
	if one == 0 {
		sizes, err = f.table(t.sizes, 12, 4)
		if err != nil {
			return err
		}
	}
	runs, err := f.table(t.runs, 8, 12)
	if err != nil {
		return err
	}
	width := map[string]int64{"stco": 4, "co64": 8}[t.places.kind]
	places, err := f.table(t.places, 8, max(width, 4))
	if err != nil {
		return err
	}
	run, each, sample := 0, int64(0), int64(0)
	for chunk := int64(0); chunk < int64(len(places))/width; chunk++ {
		for run < len(runs)/12 && int64(binary.BigEndian.Uint32(runs[12*run:])) <= chunk+1 {
			each = int64(binary.BigEndian.Uint32(runs[12*run+4:]))
			run++
		}
		at := int64(0)
		if p := places[chunk*width:]; width == 4 {
			at = int64(binary.BigEndian.Uint32(p))
		} else {
			at = int64(binary.BigEndian.Uint64(p) & (1<<62 - 1))
		}
		length := int64(0)
		if one > 0 {
			n := min(each, count-sample)
			length, sample = n*one, sample+n
		} else {
			for range min(each, count-sample) {
				length += int64(binary.BigEndian.Uint32(sizes[4*sample:]))
				sample++
			}
		}
		if at > f.source.size || length > f.source.size-at {
			return unreadable("a track refers to what the file does not have")
		}
		if err := fn(at, length); err != nil {
			return err
		}
		if len(f.edits) > maxPieces {
			return unreadable("it has more than %d parts", maxPieces)
		}
	}
	return nil
}

// ends clears what is in the media of a film after its last sample. It does nothing if not all samples are known.
func (f *film) ends() error {
	if f.fragments || f.elsewhere || len(f.tracks) == 0 {
		return nil
	}
	known := false
	ends, guesses := make([]int64, len(f.media)), make([]int64, len(f.media))
	for _, t := range f.tracks {
		sizes, err := f.some(t.sizes.inner, 8)
		if err != nil {
			return err
		}
		// QuickTime counts sound in units of its own, so where a chunk ends is not known.
		guess := t.handler == "soun" && !empty(sizes[4:])
		err = f.samples(t, func(at, length int64) error {
			i, _ := slices.BinarySearchFunc(f.media, at+1, func(b box, end int64) int { return cmp.Compare(b.end, end) })
			switch {
			case i == len(f.media) || at < f.media[i].inner || length == 0:
				return nil
			case guess:
				guesses[i] = max(guesses[i], at)
			default:
				ends[i] = max(ends[i], at+length)
			}
			known = true
			return nil
		})
		if errors.Is(err, ErrUnreadable) {
			return nil // such as a film that is cut off
		}
		if err != nil {
			return err
		}
	}
	for i, b := range f.media {
		end := max(ends[i], b.inner)
		if !known || guesses[i] >= end || end >= b.end {
			continue
		}
		if err := f.unused(box{inner: end, end: b.end}); err != nil {
			return err
		}
	}
	return nil
}

// ---- Items of HEIC and AVIF ----

// emptyExif is EXIF that says nothing, after the four bytes that say where it begins. The orientation of an item is a
// property of the item, not part of EXIF.
var emptyExif = append([]byte{0, 0, 0, 0}, "MM\x00*\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00"...)

// items blanks the items of a picture file that are metadata. In a film the same box is only metadata.
func (f *film) items(b box) error {
	inner := b.inner + 4 // version and flags; a QuickTime film has none, but also no picture
	var info, places, data, handler box
	start := len(f.edits)
	if err := f.each(inner, b.end, func(in box) error {
		switch in.kind {
		case "iinf":
			info = in
		case "iloc":
			places = in
		case "idat":
			data = in
		case "hdlr":
			handler = in
		case "iprp":
			return f.properties(in)
		}
		return f.common(in, itemBoxes)
	}); err != nil {
		if f.picture || !errors.Is(err, ErrUnreadable) {
			return err
		}
		handler = box{}
	}
	what := ""
	if handler.kind != "" {
		var err error
		what, _, err = f.handler(handler)
		if err != nil {
			return err
		}
	}
	if what != "pict" && (what != "" || !f.picture) {
		f.edits = f.edits[:start]
		f.blank(b)
		return f.says(b)
	}
	if info.kind == "" || places.kind == "" {
		return nil
	}
	f.elsewhere = true
	kinds, err := f.itemKinds(info)
	if err != nil {
		return err
	}
	return f.itemPlaces(places, data, kinds)
}

// properties blanks the properties of items that are metadata.
func (f *film) properties(b box) error {
	return f.each(b.inner, b.end, func(b box) error {
		switch b.kind {
		case "ipco":
			return f.properties(b)
		case "colr":
			return f.colours(b)
		case "crtt", "mdft":
			f.found(Time)
			f.blank(b)
		case "udes", "altt":
			f.blank(b)
			return f.says(b)
		}
		return nil
	})
}

// colours takes the texts out of a colour profile.
func (f *film) colours(b box) error {
	kind, err := f.some(b.inner, min(b.end-b.inner, 4))
	if err != nil || string(kind) != "prof" && string(kind) != "rICC" {
		return err
	}
	at := b.inner + 4
	if b.end-at > maxProfile {
		return unreadable("its colour profile is too long")
	}
	profile, err := f.bytes(at, b.end-at)
	if err != nil {
		return err
	}
	plain, err := f.profile(profile)
	if err != nil || bytes.Equal(plain, profile) {
		return err
	}
	f.edits = append(f.edits, piece{from: at, literal: plain, length: b.end - at})
	return nil
}

// metadataItems are the kinds of items that are metadata.
var metadataItems = map[string]bool{"Exif": true, "mime": true, "uri ": true, "xml ": true, "XMP ": true}

// itemKinds are the kinds of the items that are metadata, by the items' numbers.
func (f *film) itemKinds(info box) (map[uint32]string, error) {
	head, err := f.bytes(info.inner, 8)
	if err != nil {
		return nil, err
	}
	from := info.inner + 6
	if head[0] > 0 {
		from += 2
	}
	kinds := make(map[uint32]string)
	return kinds, f.each(from, info.end, func(b box) error {
		e, err := f.some(b.inner, min(b.end-b.inner, 64))
		if err != nil {
			return err
		}
		if b.kind != "infe" || len(e) < 12 || e[0] < 2 || e[0] > 2 && len(e) < 14 {
			return nil
		}
		id, rest := uint32(binary.BigEndian.Uint16(e[4:])), e[8:]
		if e[0] > 2 {
			id, rest = binary.BigEndian.Uint32(e[4:]), e[10:]
		}
		if kind := string(rest[:4]); metadataItems[kind] {
			kinds[id] = kind
		}
		return nil
	})
}

// itemPlaces blanks the bytes of the items in kinds.
func (f *film) itemPlaces(places, data box, kinds map[uint32]string) error {
	if places.end-places.inner > maxTables {
		return unreadable("it has too many items")
	}
	all, err := f.bytes(places.inner, places.end-places.inner)
	if err != nil {
		return err
	}
	short := false
	number := func(bytes byte) (v uint64) {
		if int(bytes) > len(all) {
			short, all = true, nil
			return 0
		}
		for _, b := range all[:bytes] {
			v = v<<8 | uint64(b)
		}
		all = all[bytes:]
		return v
	}
	version := byte(number(1))
	number(3)
	widths, more := byte(number(1)), byte(number(1))
	wide := func(two, four byte, from byte) byte {
		if version < from {
			return two
		}
		return four
	}
	for range number(wide(2, 4, 2)) {
		f.boxes++
		if short || f.boxes > maxBoxes {
			return unreadable("it has a wrong list of items")
		}
		id := uint32(number(wide(2, 4, 2)))
		how := uint64(0)
		if version > 0 {
			how = number(2) & 15
		}
		number(2) // the file that has it; others than this one are refused below
		base := number(more >> 4)
		for i := range number(2) {
			if version > 0 {
				number(more & 15)
			}
			at, length := base+number(widths>>4), number(widths&15)
			f.boxes++
			if short || f.boxes > maxBoxes {
				return unreadable("it has a wrong list of items")
			}
			kind := kinds[id]
			if kind == "" {
				continue
			}
			end := uint64(f.source.size)
			switch {
			case how == 1 && data.kind != "":
				at, end = at+uint64(data.inner), uint64(data.end)
			case how != 0:
				return unreadable("an item is made of others")
			}
			if length == 0 && at <= end {
				length = end - at
			}
			if at > end || length > end-at {
				return unreadable("an item refers to what the file does not have")
			}
			if err := f.blankItem(kind, int64(at), int64(at+length), i == 0); err != nil {
				return err
			}
		}
	}
	if short {
		return unreadable("it has a wrong list of items")
	}
	return nil
}

func (f *film) blankItem(kind string, from, to int64, first bool) error {
	b, err := f.some(from, min(to-from, maxExif))
	if err != nil {
		return err
	}
	exif := kind == "Exif" && first
	clean := exif && bytes.HasPrefix(b, emptyExif)
	if clean {
		from, b = from+int64(len(emptyExif)), b[len(emptyExif):]
	}
	if empty(b) && to-from <= maxExif {
		return nil
	}
	f.found(Other)
	if exif && len(b) > 4 {
		if skip := uint64(binary.BigEndian.Uint32(b)) + 4; skip < uint64(len(b)) {
			f.readPhoto(b[skip:])
			_, found := readExif(b[skip:])
			f.found(found...)
		}
	} else {
		f.found(textual(b)...)
	}
	if exif && !clean && to-from >= int64(len(emptyExif)) {
		f.edits = append(f.edits, piece{from: from, literal: emptyExif, length: int64(len(emptyExif))})
		from += int64(len(emptyExif))
	}
	f.zero(from, to)
	return nil
}
