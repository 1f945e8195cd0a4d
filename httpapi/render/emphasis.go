package render

import (
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// flank says whether delimiters of emphasis beside Chinese, Japanese or Korean may open or close it. before
// is the character before them, and block is at what follows them. CommonMark wants a space or a mark at the other
// side of delimiters that are beside a mark. East Asia writes no space there, so a letter does as well, and its own
// marks count as letters.
func flank(d *parser.Delimiter, before rune, block text.Reader) {
	after := ' '
	if line, _ := block.PeekLine(); len(line) > 0 {
		after, _ = utf8.DecodeRune(line)
	}
	if !eastAsian(before) && !eastAsian(after) {
		return
	}

	mark := func(r rune) bool { return util.IsPunctRune(r) && !eastAsian(r) }
	free := func(r rune) bool { return util.IsSpaceRune(r) || mark(r) || eastAsian(r) }
	opens := !util.IsSpaceRune(after) && (!mark(after) || free(before))
	closes := !util.IsSpaceRune(before) && (!mark(before) || free(after))
	d.CanOpen, d.CanClose = opens, closes
	if d.Char == '_' { // not inside of words
		d.CanOpen = opens && (!closes || util.IsPunctRune(before))
		d.CanClose = closes && (!opens || util.IsPunctRune(after))
	}
}

// eastAsian reports whether a character is a letter or a mark of Chinese, Japanese or Korean.
func eastAsian(r rune) bool {
	return r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}
