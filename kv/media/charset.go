package media

import (
	"errors"
	"io"
	"math"
	"mime"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	utf "golang.org/x/text/encoding/unicode"
)

// Charset says how the bytes of a text stand for characters.
type Charset struct {
	Name    string // as the WHATWG Encoding Standard writes it, such as "utf-8"
	Guessed bool   // the text does not say so, and it is not UTF-8
	Bad     int64  // bytes of UTF-8 that stand for nothing

	encoding encoding.Encoding
}

// NewReader returns the text from r as valid UTF-8 without a byte order mark.
// Bytes that stand for nothing become U+FFFD.
func (c Charset) NewReader(r io.Reader) io.Reader { return c.encoding.NewDecoder().Reader(r) }

// CharsetOf reads a text to its end and determines its charset. In this order:
// a byte order mark; what contentType or the text itself declares; UTF-8 if the
// bytes are UTF-8; the likeliest of the older charsets. Bytes of which several
// only make sense as UTF-8 overrule another declaration. It holds no more than
// maxSample bytes of the text.
func CharsetOf(r io.Reader, contentType string) (Charset, error) {
	var s survey
	if err := s.read(r, func() bool { return false }); err != nil {
		return Charset{}, err
	}
	return s.charset(contentType), nil
}

// CharsetAtStart is CharsetOf for a text of which only the first bytes, MaxSurveyed at most, are read.
func CharsetAtStart(r io.Reader) (Charset, error) {
	var s survey
	start := &io.LimitedReader{R: r, N: MaxSurveyed}
	if err := s.read(start, func() bool { return start.N <= 0 }); err != nil {
		return Charset{}, err
	}
	return s.charset(""), nil
}

const (
	// MaxSurveyed is the number of bytes at the beginning of a text that CharsetAtStart reads.
	MaxSurveyed = 64 << 10

	maxHead   = 1 << 10 // bytes in which a text declares its charset (WHATWG HTML, 13.2.3.2)
	maxSample = 2 << 10 // bytes from which a charset is guessed
	after     = 4       // bytes after one beyond ASCII that may belong to the same character
)

// survey is what a text tells about its charset.
type survey struct {
	head      []byte
	size      int64
	nul       [2]int64 // NULs at even and odd places
	good, bad int64    // characters of UTF-8 beyond ASCII, and bytes that belong to none

	sample []byte // the bytes beyond ASCII with their neighbours
	since  int    // bytes since the last one beyond ASCII
	before byte   // the last byte that is not in the sample
}

// read adds what r has. cut says at its end whether the text goes on there.
func (s *survey) read(r io.Reader, cut func() bool) error {
	buf := make([]byte, 8<<10)
	carried := 0
	for {
		n, err := r.Read(buf[carried:])
		n += carried
		done := errors.Is(err, io.EOF)
		if err != nil && !done {
			return err
		}
		carried = copy(buf, s.add(buf[:n], done && !cut()))
		if done {
			return nil
		}
	}
}

// add counts the bytes of b, and returns those at its end that may begin a
// character which goes on.
func (s *survey) add(b []byte, last bool) (rest []byte) {
	for {
		b = s.skip(b)
		if len(b) == 0 {
			return nil
		}
		if !last && !utf8.FullRune(b) {
			return b
		}
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			s.bad++
		case size > 1:
			s.good++
		case r == 0:
			s.nul[s.size&1]++
		}
		s.keep(b[:size])
		s.size += int64(size)
		b = b[size:]
	}
}

// skip counts the bytes at the beginning of b that tell nothing, and returns
// the others.
func (s *survey) skip(b []byte) []byte {
	if len(s.head) < maxHead || len(s.sample) > 0 && s.since < after {
		return b
	}
	n := 0
	for n < len(b) && b[n] < utf8.RuneSelf && b[n] != 0 {
		n++
	}
	if n > 0 {
		s.before = b[n-1]
	}
	s.size += int64(n)
	return b[n:]
}

// keep puts the bytes of one character into the head and the sample.
func (s *survey) keep(char []byte) {
	if len(s.head) < maxHead {
		s.head = append(s.head, char...)
	}
	if char[0] < utf8.RuneSelf {
		if len(s.sample) == 0 || s.since == after || len(s.sample) >= maxSample {
			s.before = char[0]
			return
		}
		s.since++
		s.sample = append(s.sample, char[0])
		return
	}
	if len(s.sample) >= maxSample {
		return
	}
	if s.since == after || len(s.sample) == 0 {
		s.sample = append(s.sample, '\n', s.before)
	}
	s.since = 0
	s.sample = append(s.sample, char...)
}

var utf8Text = Charset{Name: "utf-8", encoding: utf.UTF8BOM}

// charset decides.
func (s *survey) charset(contentType string) Charset {
	utf8Text := utf8Text
	utf8Text.Bad = s.bad
	head := string(s.head)
	if strings.HasPrefix(head, "\ufeff") {
		return utf8Text
	}
	if c, ok := utf16(head, s.size, s.nul); ok {
		return c
	}

	isUTF8 := s.mostlyUTF8()
	if c, ok := declared(head, contentType); ok && c.Name != "utf-8" {
		_, single := c.encoding.(*charmap.Charmap)
		byChance := !single && s.good < 4 // bytes that are two characters in it, and also one of UTF-8
		if !isUTF8 || byChance {
			return c
		}
		return utf8Text
	}
	if isUTF8 {
		return utf8Text
	}
	return guess(s.sample)
}

// mostlyUTF8 reports whether the text is UTF-8, perhaps with broken bytes.
func (s *survey) mostlyUTF8() bool { return s.bad == 0 || s.good > 3*s.bad }

// utf16 is the charset of a text in UTF-16 with the head, the length, and so many NULs at even and odd places.
func utf16(head string, size int64, nul [2]int64) (c Charset, ok bool) {
	little, big := utf.UTF16(utf.LittleEndian, utf.UseBOM), utf.UTF16(utf.BigEndian, utf.UseBOM)
	switch {
	case strings.HasPrefix(head, "\xff\xfe"):
		return Charset{Name: "utf-16le", encoding: little}, true
	case strings.HasPrefix(head, "\xfe\xff"):
		return Charset{Name: "utf-16be", encoding: big}, true
	case halves(size, nul[1], nul[0]):
		return Charset{Name: "utf-16le", Guessed: true, encoding: little}, true
	case halves(size, nul[0], nul[1]):
		return Charset{Name: "utf-16be", Guessed: true, encoding: big}, true
	}
	return c, false
}

// halves reports whether a text has the NULs of UTF-16 at every other place: those of the characters of ASCII, which
// every format has.
func halves(size, there, elsewhere int64) bool {
	return there >= 4 && there > size/20 && elsewhere <= size/200
}

var declarations = regexp.MustCompile(
	`(?i)<meta\s[^>]*charset\s*=\s*["']?\s*([\w.:-]+)|^\s*<\?xml\s[^>]*encoding\s*=\s*["']([\w.:-]+)`)

// declared is the charset that the type or the beginning of a text names.
func declared(head, contentType string) (c Charset, ok bool) {
	_, params, _ := mime.ParseMediaType(contentType) // without a type there are no parameters
	label := params["charset"]
	if _, err := htmlindex.Get(label); err != nil {
		found := declarations.FindStringSubmatch(head)
		if found == nil {
			return c, false
		}
		label = found[1] + found[2]
	}
	e, err := htmlindex.Get(label)
	if err != nil {
		return c, false
	}
	name, err := htmlindex.Name(e)
	if err != nil {
		return c, false
	}
	switch name {
	case "replacement", "x-user-defined": // not charsets of texts
		return c, false
	case "utf-16le", "utf-16be": // it would have a byte order mark or NULs
		return c, false
	case "utf-8":
		return utf8Text, true
	}
	return Charset{Name: name, encoding: e}, true
}

// script is the writing that a charset is for.
type script struct {
	common  string              // the characters that its texts have most, in lower case
	letters *unicode.RangeTable // nil: its characters stand for syllables or words
	among   [3]float64          // how usual a letter is with no, one, two foreign neighbours
}

// Punctuation stands next to letters, and joins alone between two. Symbols stand after a letter seldom.
const (
	punctuation = "–—…“”„‘’‚«»‹›·•"
	joins       = "–—’·"
	pauses      = "–—…"
	symbols     = "€£°©®™№§½¼¾²³µ×÷±"
)

var (
	mixes = [3]float64{1, 0.75, 0.3} // as in Größe
	stays = [3]float64{1, 0.2, 0.04} // in a word of its own

	western  = script{common: "äöüßéèêëàâáíóúñçåøæôîûïãõœìòùþð¿¡ºª", letters: unicode.Latin, among: mixes}
	central  = script{common: "ąćęłńóśźżáčďéěíňřšťúůýžőűöüäăâîşţđ", letters: unicode.Latin, among: mixes}
	turkish  = script{common: "çğıöşüâîi", letters: unicode.Latin, among: mixes}
	cyrillic = script{common: "оеаинтсрвл", letters: unicode.Cyrillic, among: stays}
	greek    = script{common: "αοιετσνηυρςάέήίόύώ", letters: unicode.Greek, among: stays}
	hebrew   = script{common: "יוהלארמתבש", letters: unicode.Hebrew, among: stays}
	arabic   = script{common: "اليمنرتبةدهو،؟", letters: unicode.Arabic, among: stays}
	thai     = script{common: "านรอกเงมยลวดท่้ัิี", letters: unicode.Thai, among: stays}
	kanji    = script{common: "、。「」・ー（）！？　", among: [3]float64{1, 0.5, 0.25}}
	hanzi    = script{common: "，。、：；！？《》（）　—", among: [3]float64{1, 0.5, 0.25}}
	hangul   = script{common: "，。、：；！？（）", among: [3]float64{1, 0.5, 0.25}}
)

// older are the charsets that are guessed. The first wins of those that are as
// likely. Of a script without letters, the usual characters begin with a byte of
// rows, pairs of first and last, and end with one from end on.
var older = []struct {
	name     string
	encoding encoding.Encoding
	script   script
	rows     string
	end      byte
}{
	{"windows-1252", charmap.Windows1252, western, "", 0},
	{"windows-1251", charmap.Windows1251, cyrillic, "", 0},
	{"windows-1254", charmap.Windows1254, turkish, "", 0},
	{"windows-1250", charmap.Windows1250, central, "", 0},
	{"windows-1253", charmap.Windows1253, greek, "", 0},
	{"windows-1255", charmap.Windows1255, hebrew, "", 0},
	{"windows-1256", charmap.Windows1256, arabic, "", 0},
	{"windows-874", charmap.Windows874, thai, "", 0},
	{"shift_jis", japanese.ShiftJIS, kanji, "\x82\x83\x88\x98", 0},
	{"euc-kr", korean.EUCKR, hangul, "\xb0\xc8", 0xa1},
	{"gb18030", simplifiedchinese.GB18030, hanzi, "\xb0\xd7", 0xa1},
	{"big5", traditionalchinese.Big5, hanzi, "\xa4\xc6", 0},
	{"euc-jp", japanese.EUCJP, kanji, "\xa4\xa5\xb0\xcf", 0xa1},
	{"koi8-r", charmap.KOI8R, cyrillic, "", 0},
	{"macintosh", charmap.Macintosh, western, "", 0},
	{"ibm866", charmap.CodePage866, cyrillic, "", 0},
}

// guess is the charset in which the bytes look most like a text.
func guess(sample []byte) Charset {
	best, most := Charset{}, math.Inf(-1)
	for _, c := range older {
		text, _ := c.encoding.NewDecoder().Bytes(sample) // what it cannot read becomes U+FFFD
		encoder := c.encoding.NewEncoder()
		var in, char [utf8.UTFMax]byte
		likely := c.script.likeness(string(text), func(r rune) bool {
			encoder.Reset()
			n, _, err := encoder.Transform(char[:], in[:utf8.EncodeRune(in[:], r)], true)
			return err == nil && n == 2 && inRows(c.rows, char[0]) && char[1] >= c.end
		})
		if likely > most {
			best, most = Charset{Name: c.name, Guessed: true, encoding: c.encoding}, likely
		}
	}
	return best
}

func inRows(rows string, b byte) bool {
	for i := 0; i < len(rows); i += 2 {
		if rows[i] <= b && b <= rows[i+1] {
			return true
		}
	}
	return false
}

// likeness is how much the characters beyond ASCII look like a text: 1 if all
// are usual where they stand. usual tells it of characters that are no letters.
func (s script) likeness(text string, usual func(rune) bool) float64 {
	sum, n := 0.0, 0
	before := ' '
	for i, r := range text {
		if r >= utf8.RuneSelf {
			next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
			sum += s.fits(before, r, next, usual)
			n++
		}
		before = r
	}
	return sum / float64(max(n, 1))
}

// fits is how much a character looks right between two others.
func (s script) fits(before, r, next rune, usual func(rune) bool) float64 {
	likely := 0.0
	switch {
	case r == utf8.RuneError:
		return -2
	case strings.ContainsRune(punctuation, r):
		if unicode.IsLetter(before) && unicode.IsLetter(next) && !strings.ContainsRune(joins, r) {
			return 0.3
		}
		if unicode.IsUpper(before) && strings.ContainsRune(pauses, r) {
			return 0.7 // rather a letter of a word in capitals, in another charset
		}
		return 1
	case strings.ContainsRune(symbols, r):
		if unicode.IsLetter(before) {
			return 0.2
		}
		return 1
	case unicode.IsUpper(r) && unicode.IsLower(before):
		return 0
	case strings.ContainsRune(s.common, unicode.ToLower(r)), s.letters == nil && usual(r):
		likely = 1
	case s.letters != nil && unicode.Is(s.letters, r):
		likely = 0.6
	}
	if unicode.IsUpper(r) && unicode.IsUpper(before) {
		likely *= 0.75
	}
	return likely * s.among[s.foreign(before)+s.foreign(next)]
}

// foreign is 1 if the letters of the script seldom stand next to this one.
func (s script) foreign(c rune) int {
	if unicode.IsLetter(c) && (c < utf8.RuneSelf) != (s.letters == unicode.Latin) {
		return 1
	}
	return 0
}
