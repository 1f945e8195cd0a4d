package media

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"kist/kv/record"
)

// Text reads the beginning of a file as a text in whatever charset it is, and returns it as UTF-8 without a byte order
// mark. Characters that control a terminal are left out. cut says that the file goes on, so that the last character may
// be incomplete; then it is left out, too. ok is false if the bytes are not a text.
func Text(b []byte, cut bool) (text string, ok bool) {
	var s survey
	rest := s.add(b, !cut)
	b = b[:len(b)-len(rest)]
	text = s.charset("").decode(b)

	strange, all := 0, 0
	for _, r := range text {
		all++
		if r == utf8.RuneError || isBinary(r) && !controls(r) {
			strange++
		}
	}
	if strange > all/mostStrange {
		return "", false
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		text = strings.Map(func(r rune) rune {
			if r != '\x00' && unicode.IsControl(r) && !unicode.IsSpace(r) {
				return -1
			}
			return r
		}, terminalCodes.ReplaceAllString(text, ""))
	}
	return text, true
}

// One of mostStrange characters of a text may be one that texts do not have.
const mostStrange = 10

// terminalCodes are those for colours and for moving the cursor (ECMA-48, 5.4).
var terminalCodes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// decode reads a text, or the beginning of one, of which an incomplete character at the end is left out.
func (c Charset) decode(b []byte) string {
	if c.Name == utf8Text.Name {
		return strings.ToValidUTF8(strings.TrimPrefix(string(b), "\ufeff"), "\ufffd")
	}
	out := make([]byte, utf8.UTFMax*(len(b)+1)) // no charset has more characters than bytes
	n, _, _ := c.encoding.NewDecoder().Transform(out, b, false)
	return string(out[:n])
}

// asText reads the beginning of a file as a text, if it has nothing that texts do not have (WHATWG MIME Sniffing,
// section 3, "binary data byte"). A text in an older charset is returned as it is, because what tells types is ASCII.
func asText(head []byte) (text []byte, ok bool) {
	if bytes.HasPrefix(head, []byte("\xff\xd8\xff")) { // a picture, even if there is not more of it
		return nil, false
	}
	var nul [2]int64
	for i, b := range head {
		if b == 0 {
			nul[i&1]++
		}
	}
	if c, ok := utf16(string(head), int64(len(head)), nul); ok {
		text := c.decode(head)
		return []byte(text), !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || isBinary(r) })
	}
	binary := slices.ContainsFunc(head, func(b byte) bool { return isBinary(rune(b)) })
	return bytes.TrimPrefix(head, []byte("\ufeff")), !binary
}

// isBinary reports a control character that texts do not have.
func isBinary(r rune) bool {
	return r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r)
}

// controls reports a control character that programs write to terminals.
func controls(r rune) bool { return strings.ContainsRune("\a\b\v", r) }

// maxNameSurveyed is the number of bytes of a name from which its charset is guessed. Names are no longer, as a rule.
const maxNameSurveyed = 512

// Name is the name of a file that came as bytes: in UTF-8, or in the likeliest of the older charsets.
func Name(raw string) string {
	if utf8.ValidString(raw) {
		return raw
	}
	var s survey
	rest := s.add([]byte(raw[:min(len(raw), maxNameSurveyed)]), false)
	if s.good > 0 && s.mostlyUTF8() {
		return raw // with a few broken bytes, or cut off
	}
	s.add(rest, true)
	return guess(s.sample).decode([]byte(raw))
}

// FileName is Name as a name that is safe to save under: see record.CleanFileName.
func FileName(raw string) string {
	name, _ := record.CleanFileName(Name(raw)) // never fails
	return name
}

// Separator determines what separates the cells of a table (RFC 4180) from its beginning: what a first line such as
// sep=; says, as spreadsheets write it, or else that of comma, semicolon, tab and vertical bar which the first line
// with one has most, outside of quotes. It returns also what follows a line that says it.
func Separator(start string) (separator rune, rest string) {
	start = strings.TrimPrefix(start, "\ufeff")
	if said := saysSeparator.FindStringSubmatch(start); said != nil {
		r, _ := utf8.DecodeRuneInString(said[1])
		return r, start[len(said[0]):]
	}

	counts, quoted := map[rune]int{}, false
	for _, r := range start {
		if r == '\n' && !quoted && len(counts) > 0 {
			break
		}
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && strings.ContainsRune(separators, r):
			counts[r]++
		}
	}
	separator = ','
	for _, r := range separators {
		if counts[r] > counts[separator] {
			separator = r
		}
	}
	return separator, start
}

const separators = ",;\t|"

var saysSeparator = regexp.MustCompile(`^(?i:"?sep=([,;|\t:])"?)[ \t]*(?:\r\n|[\r\n]|$)`)
