package sealed

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordList is the English list of BIP-39: 2048 words, in order, whose first four letters differ.
//
//go:embed words.txt
var wordList string

// Words is how many words a recovery sheet has. Each has 11 bits: the secret has 256 of them, and 30 are a
// checksum. So one wrong word can be found.
const (
	Words     = 26
	wordBits  = 11
	checkBits = Words*wordBits - 256
	prefix    = 4 // letters that are enough
)

// Words are the words of the recovery sheet.
func (s Secret) Words() []string {
	list := strings.Fields(wordList)
	var words []string
	for _, n := range s.numbers() {
		words = append(words, list[n])
	}
	return words
}

// numbers are the places of the words in the list.
func (s Secret) numbers() []int {
	check := s.checksum()
	bits := append(s[:len(s):len(s)], byte(check>>24), byte(check>>16), byte(check>>8), byte(check))
	var numbers []int
	for at := 0; at < Words*wordBits; at += wordBits {
		n := 0
		for i := at; i < at+wordBits; i++ {
			n = n<<1 | int(bits[i/8]>>(7-i%8)&1)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// checksum returns the bits of the checksum, at the left.
func (s Secret) checksum() uint32 {
	sum := sha256.Sum256(append([]byte("kist store words"), s[:]...))
	all := uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3])
	return all &^ (1<<(32-checkBits) - 1)
}

// fromNumbers is the inverse of numbers. ok is false if the checksum is wrong.
func fromNumbers(numbers []int) (s Secret, ok bool) {
	var bits [len(s) + 4]byte
	for i, n := range numbers {
		for b := range wordBits {
			at := i*wordBits + b
			bits[at/8] |= byte(n>>(wordBits-1-b)&1) << (7 - at%8)
		}
	}
	copy(s[:], bits[:])
	check := uint32(bits[32])<<24 | uint32(bits[33])<<16 | uint32(bits[34])<<8 | uint32(bits[35])
	return s, check == s.checksum()
}

// FromWords returns the secret of a recovery sheet, or of the line that is in its QR code. Case, white
// space and signs do not matter, and the first four letters of a word are enough. If each word has its number, the
// numbers give the order. The error says what is wrong.
func FromWords(text string) (Secret, error) {
	if at := strings.Index(text, secretMark); at >= 0 {
		line, _, _ := strings.Cut(text[at:], "\n")
		return ParseSecret(line)
	}

	words := wordsOf(text)
	list := strings.Fields(wordList)
	var numbers []int
	for i, word := range words {
		if i == Words {
			break
		}
		n := find(list, word)
		if n < 0 {
			return Secret{}, fmt.Errorf("word %d, %q, is not one of the words of a recovery sheet%s",
				i+1, word[:min(len(word), maxShown)], meant(list, word))
		}
		numbers = append(numbers, n)
	}
	if len(words) != Words {
		return Secret{}, fmt.Errorf("a recovery sheet has %d words, and these are %d; "+
			"type them all, in the order of their numbers", Words, len(words))
	}

	s, ok := fromNumbers(numbers)
	if ok {
		return s, nil
	}
	return Secret{}, wrong(list, numbers)
}

// wordsOf returns the words of a text in their order: that of their numbers if these are 1 to Words, and else that of
// the text. A sheet may have been written down in columns.
func wordsOf(text string) []string {
	isLetter := func(r rune) bool { return unicode.IsLetter(r) }
	var words []string
	numbered := map[int]string{}
	number := 0
	for rest := strings.ToLower(text); rest != ""; {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		letters := rest[:len(rest)-len(strings.TrimLeftFunc(rest, isLetter))]
		switch {
		case digits != "":
			number, _ = strconv.Atoi(digits) // one that is too large is no number of a word
			rest = rest[len(digits):]
		case letters != "":
			words, numbered[number], number = append(words, letters), letters, 0
			rest = rest[len(letters):]
		default:
			_, size := utf8.DecodeRuneInString(rest)
			rest = rest[size:]
		}
	}

	inOrder := make([]string, 0, Words)
	for n := range Words {
		word, has := numbered[n+1]
		if !has || len(words) != Words {
			return words
		}
		inOrder = append(inOrder, word)
	}
	return inOrder
}

const maxShown = 40 // bytes of a word

// find returns the place of a word, or of the one that begins like it; -1 without one.
func find(list []string, word string) int {
	n, found := slices.BinarySearch(list, word)
	if found {
		return n
	}
	if len(word) < prefix {
		return -1
	}
	n, _ = slices.BinarySearch(list, word[:prefix])
	if n < len(list) && strings.HasPrefix(list[n], word) {
		return n
	}
	return -1
}

// meant names the words of the list that differ in one letter from a word.
func meant(list []string, word string) string {
	var near []string
	for _, w := range list {
		if oneApart(w, word) {
			near = append(near, w)
		}
	}
	const most = 5
	if len(near) == 0 || len(near) > most {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// oneApart reports whether one letter more, less or other makes a word of the other, or two that were swapped.
func oneApart(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch len(a) - len(b) {
	case 1:
		return a[1:] == b
	case -1:
		return a == b[1:]
	case 0:
		swapped := len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
		return len(a) > 0 && a[1:] == b[1:] || swapped
	}
	return false
}

// wrong says which word of the sheet is wrong, if one is, or if two neighbours were swapped.
func wrong(list []string, numbers []int) error {
	for i := range numbers[:len(numbers)-1] {
		swapped := slices.Clone(numbers)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		if _, ok := fromNumbers(swapped); ok {
			return fmt.Errorf("words %d and %d are in the wrong order: it should be %s, then %s",
				i+1, i+2, list[swapped[i]], list[swapped[i+1]])
		}
	}
	for i := range numbers {
		other := slices.Clone(numbers)
		for n := range list {
			other[i] = n
			if _, ok := fromNumbers(other); ok {
				return fmt.Errorf("word %d is wrong: it is %s, and should be %s", i+1, list[numbers[i]], list[n])
			}
		}
	}
	return fmt.Errorf("at least two of the words are wrong, since their checksum does not fit; " +
		"compare them with the sheet")
}
