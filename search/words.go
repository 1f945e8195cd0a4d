package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"kist/kv/record"
)

// maxTerm is how many characters of a word count. Longer words are found by their beginning.
const maxTerm = 64

// A token is a word in searchable form, with its place in the text.
type token struct {
	term       string
	start, end int // in bytes
	// open says that a search for the term also finds words that begin with it: it is the last character of a
	// run in a script without spaces.
	open bool
}

// words yields the words of a text: runs of letters, digits and marks, folded, and symbols such as emoji, each on its
// own. Runs in scripts without spaces between words (see unspaced) are cut into pairs of characters, each character
// with the next one; the last character stands alone. So any two characters in a row are one term, and three are two
// terms in a row.
func words(text string) iter.Seq[token] {
	return func(yield func(token) bool) {
		for i := 0; i < len(text); {
			c := text[i]
			if c < utf8.RuneSelf {
				if !asciiWord[c] {
					i++
					continue
				}
			}
			r, size := rune(c), 1
			if c >= utf8.RuneSelf {
				r, size = utf8.DecodeRuneInString(text[i:])
			}
			switch end := i + size; {
			case isUnspaced(r):
				var ok bool
				i, ok = pairs(text, i, yield)
				if !ok {
					return
				}
			case inWord(r):
				plain := c < utf8.RuneSelf && !(c >= 'A' && c <= 'Z')
				for end < len(text) {
					c := text[end]
					if c < utf8.RuneSelf {
						if !asciiWord[c] {
							break
						}
						plain = plain && !(c >= 'A' && c <= 'Z')
						end++
						continue
					}
					r, size := utf8.DecodeRuneInString(text[end:])
					if !inWord(r) && !unicode.IsMark(r) && !joins(r) || isUnspaced(r) {
						break
					}
					plain = false
					end += size
				}
				term := text[i:end]
				if !plain {
					term = fold(term)
				}
				term = record.Cut(term, maxTerm)
				if term != "" && !yield(token{term: term, start: i, end: end}) {
					return
				}
				i = end
			default:
				if symbol(r) && !yield(token{term: text[i:end], start: i, end: end}) {
					return
				}
				i = end
			}
		}
	}
}

// Bounds of innerParts.
const (
	maxInner   = 16 // parts of a name
	innerBytes = 64 // of a part
)

// innerParts yields the parts of a name that begin inside of a word, with their places: where letters and digits meet,
// and at a capital behind a small letter. Of "big12mp.jpg" these are "12mp.jpg" and "mp.jpg". A part ends at a space.
func innerParts(name string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n, before := 0, rune(' ')
		for i, r := range name {
			if unicode.IsMark(r) || joins(r) {
				continue
			}
			begins := inWord(before) && !isUnspaced(before) && inWord(r) && !isUnspaced(r) &&
				(unicode.IsNumber(before) != unicode.IsNumber(r) || unicode.IsLower(before) && unicode.IsUpper(r))
			before = r
			if !begins {
				continue
			}
			part := name[i:min(len(name), i+innerBytes)]
			if space := strings.IndexFunc(part, unicode.IsSpace); space >= 0 {
				part = part[:space]
			}
			n++
			if n > maxInner || !yield(i, strings.ToValidUTF8(part, "")) { // no partial character
				return
			}
		}
	}
}

// pairs yields the terms of a run in a script without spaces that begins at i. It returns the end of the run.
func pairs(text string, i int, yield func(token) bool) (int, bool) {
	before, begun := "", i
	for {
		end := i
		if r, _ := utf8.DecodeRuneInString(text[i:]); i < len(text) && isUnspaced(r) {
			end += norm.NFKC.NextBoundaryInString(text[i:], true)
			if end == i {
				end = len(text)
			}
			for end < len(text) { // vowel signs belong to their letter
				r, size := utf8.DecodeRuneInString(text[end:])
				if !unicode.IsMark(r) && !joins(r) {
					break
				}
				end += size
			}
		}
		if end == i {
			return i, before == "" || yield(token{term: before, start: begun, end: i, open: true})
		}
		char := fold(text[i:end])
		if before != "" && !yield(token{term: before + char, start: begun, end: end}) {
			return end, false
		}
		before, begun, i = char, i, end
	}
}

var asciiWord = func() (got [utf8.RuneSelf]bool) {
	for c := range got {
		got[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return got
}()

// symbol reports whether a character is a word on its own.
func symbol(r rune) bool {
	return r >= utf8.RuneSelf && r != utf8.RuneError && (unicode.Is(unicode.So, r) || unicode.Is(unicode.Sc, r))
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// joins reports whether a character is invisible and does not separate words.
func joins(r rune) bool { return r == '\u200c' || r == '\u200d' || r == '\u00ad' || r == '\u2060' }

// unspaced are the scripts without spaces between words, and Hangul, whose words have attached endings.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

func isUnspaced(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	// U+30FC and its half-width form lengthen the vowel before them.
	return r == 'ー' || r == 'ｰ' || r == 'ﾞ' || r == 'ﾟ' || unicode.IsLetter(r) && unicode.In(r, unspaced...)
}

// fold converts a word to the form for comparisons: ignoring case, compatibility forms such as full width and
// ligatures, and accents and other marks that people leave out when they type.
func fold(t string) string {
	plain := true
	for i := range len(t) {
		plain = plain && t[i] < utf8.RuneSelf
	}
	if plain {
		return strings.ToLower(t)
	}
	t = norm.NFKD.String(cases.Fold().String(norm.NFKD.String(t)))
	var b strings.Builder
	b.Grow(len(t))
	for _, r := range t {
		switch plain, special := latin[r]; {
		case special:
			b.WriteString(plain)
		case joins(r), leftOut(r):
		default:
			b.WriteRune(r)
		}
	}
	return norm.NFC.String(b.String())
}

// latin has letters that do not decompose but are typed as other letters.
var latin = map[rune]string{
	'ø': "o", 'đ': "d", 'ð': "d", 'ħ': "h", 'ı': "i", 'ł': "l", 'ŧ': "t", 'þ': "th", 'æ': "ae", 'œ': "oe",
}

// leftOut reports whether a mark does not distinguish words in a search: accents, the points of Hebrew and Arabic,
// variation selectors. Marks of other scripts, such as vowels of Indic ones and the voicing of kana, do distinguish
// words.
func leftOut(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r <= 0x36f, r >= 0x483 && r <= 0x489, r >= 0x591 && r <= 0x5c7, r >= 0x610 && r <= 0x61a, r == 0x640,
		r >= 0x64b && r <= 0x65f, r == 0x670, r >= 0x6d6 && r <= 0x6ed,
		r >= 0x1ab0 && r <= 0x1aff, r >= 0x1dc0 && r <= 0x1dff,
		r >= 0x20d0 && r <= 0x20ff, r >= 0xfe00 && r <= 0xfe0f, r >= 0xfe20 && r <= 0xfe2f:
		return unicode.IsMark(r) || r == 0x640
	}
	return false
}

// near reports whether at most one typing error turns a into b: a character left out, added or changed, or two adjacent
// ones exchanged. The first character must be right.
func near(a, b string) bool {
	if d := len(a) - len(b); d > utf8.UTFMax || d < -utf8.UTFMax || a == "" || b == "" || a[0] != b[0] {
		return false
	}
	x, y := []rune(a), []rune(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	if x[0] != y[0] || len(y)-len(x) > 1 {
		return false
	}
	i := 0
	for i < len(x) && x[i] == y[i] {
		i++
	}
	same := func(a, b []rune) bool { return string(a) == string(b) }
	if len(x) < len(y) {
		return same(x[i:], y[i+1:])
	}
	return i == len(x) || same(x[i+1:], y[i+1:]) ||
		i+1 < len(x) && x[i] == y[i+1] && x[i+1] == y[i] && same(x[i+2:], y[i+2:])
}
