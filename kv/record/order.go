package record

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxOrder bounds Order in bytes, so that index keys stay short. Titles with a longer common beginning sort by age.
const maxOrder = 64

// presentOrder is the first byte of a key by the present rule. Keys of former rules begin with a higher byte, so they
// come last in a list: at first with the title itself. Another rule, or other tables of Unicode, take a lower one.
const presentOrder = 0x1f

// orderOf makes the sort key of a title for readers of any language: letters without regard to case, accents and width,
// scripts one after the other as in Unicode, and numbers by their value. What stands between words is one space;
// marks around the title and apostrophes do not count. A title of marks alone is before all words and numbers.
func orderOf(title string) string {
	begin := strings.IndexFunc(title, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	if begin < 0 {
		title = strings.ReplaceAll(Cut(title, maxOrder), "\x00", "")
		if title == "" {
			return ""
		}
		return cutOrder("! " + title)
	}

	var key strings.Builder
	text := baseLetters(Cut(title[begin:], 4*maxOrder))
	apart := false
	for text != "" && key.Len() < maxOrder {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case unicode.IsDigit(r):
			size = digitsOf(text)
		case unicode.IsLetter(r), unicode.IsMark(r):
		case r == '\'' || r == '’':
			text = text[size:]
			continue
		default:
			apart = true
			text = text[size:]
			continue
		}

		if apart {
			key.WriteByte(' ')
			apart = false
		}
		if unicode.IsDigit(r) {
			writeNumber(&key, text[:size])
		} else {
			writeLetter(&key, r)
		}
		text = text[size:]
	}
	return cutOrder(norm.NFC.String(key.String())) // a syllable of Hangul is shorter than its letters
}

// cutOrder makes a bounded key of a text.
func cutOrder(text string) string {
	return string(rune(presentOrder)) + text[:min(len(text), maxOrder-1)]
}

// baseLetters takes case, width and accents from a text. What Unicode counts as an accent but alphabets as a letter of
// its own stays.
func baseLetters(text string) string {
	if isASCII(text) {
		return strings.ToLower(text)
	}
	text = ownLetters.Replace(cases.Fold().String(norm.NFKD.String(text)))
	return strings.Map(func(r rune) rune {
		switch accent := norm.NFD.PropertiesString(string(r)).CCC(); {
		case accent != 0 && accent != virama:
			return -1
		case r >= 'ァ' && r <= 'ヶ':
			return r - ('ァ' - 'ぁ')
		}
		return r
	}, text)
}

// virama is the combining class of the sign that joins consonants in scripts of India. It is no accent.
const virama = 9

var ownLetters = strings.NewReplacer("и\u0306", "й", "у\u0306", "ў", "і\u0308", "ї")

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// places are letters that Unicode does not decompose or numbers far from their place in the alphabet. \u04ff comes
// after each Cyrillic letter that titles have.
var places = map[rune]string{
	'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'ħ': "h", 'ŧ': "t", 'ı': "i", 'æ': "ae", 'œ': "oe", 'ŋ': "n",
	'ґ': "г\u04ff", 'ђ': "д\u04ff", 'є': "е\u04ff", 'і': "й\u04fd", 'ї': "й\u04fe", 'ј': "й\u04ff", 'љ': "л\u04ff",
	'њ': "н\u04ff", 'ћ': "т\u04ff", 'ў': "у\u04ff", 'џ': "ц\u04ff",
}

func writeLetter(key *strings.Builder, r rune) {
	if place, ok := places[r]; ok {
		key.WriteString(place)
		return
	}
	key.WriteRune(r)
}

// digitsOf is the length in bytes of the number that a text begins with.
func digitsOf(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsDigit(r) })
	if end < 0 {
		return len(text)
	}
	return end
}

// writeNumber writes how many digits a number has and then the digits, so that a longer number sorts after a shorter
// one. Zeros in front do not count.
func writeNumber(key *strings.Builder, digits string) {
	number := strings.TrimLeft(strings.Map(latinDigit, digits), "0")
	switch n := max(1, len(number)); {
	case number == "":
		key.WriteString("10")
	case n < 9:
		fmt.Fprintf(key, "%d%s", n, number)
	default:
		fmt.Fprintf(key, "9%03d%s", n, number)
	}
}

// latinDigit is the digit from 0 to 9 with the value of a digit of any script. Each script has its ten in a row.
func latinDigit(r rune) rune {
	for _, some := range unicode.Nd.R16 {
		if uint32(some.Lo) <= uint32(r) && uint32(r) <= uint32(some.Hi) {
			return '0' + (r-rune(some.Lo))%10
		}
	}
	for _, some := range unicode.Nd.R32 {
		if some.Lo <= uint32(r) && uint32(r) <= some.Hi {
			return '0' + (r-rune(some.Lo))%10
		}
	}
	return r
}

// OrderedNow reports whether Order is by the present rule.
func (r *Record) OrderedNow() bool { return r.Order == "" || r.Order[0] == presentOrder }

// Reorder sets Order by the present rule.
func (r *Record) Reorder() error {
	b, err := r.Decode()
	if err != nil {
		return err
	}
	r.Order = orderOf(b.Title())
	return nil
}
