package field

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how many levels of arrays and objects Parse accepts.
const MaxDepth = 32

// An Object holds the members of one JSON object or one form, by name.
// A member is nil (null), a bool, a string, a json.Number, a []any or an
// Object. Form text is always a string.
type Object map[string]any

// Malformed says why bytes are not a JSON object that kist accepts.
type Malformed string

func (m Malformed) Error() string { return string(m) }

// Parse reads exactly one JSON object (RFC 8259). Beyond the grammar it
// refuses what two readers could understand differently: a name that
// occurs twice in one object, text after the object, invalid UTF-8 and half
// of a surrogate pair. Nesting is bounded by MaxDepth. Every error is a
// Malformed.
func Parse(data []byte) (Object, error) {
	if !utf8.Valid(data) {
		return nil, Malformed("The body is not valid UTF-8.")
	}
	if halfSurrogate(data) {
		return nil, Malformed("The body holds half of a UTF-16 surrogate pair, which is not text.")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, malformed(err)
	}
	o, ok := v.(Object)
	if !ok {
		return nil, Malformed("The body must be a JSON object.")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, Malformed("The body goes on after the JSON object.")
	}
	return o, nil
}

func malformed(err error) error {
	var m Malformed
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &m):
		return m
	case errors.As(err, &syntax):
		return Malformed("The body is not valid JSON: " + syntax.Error() + " (byte " + strconv.FormatInt(syntax.Offset, 10) + ").")
	default: // the input ended early
		return Malformed("The body is not valid JSON: it ends too early.")
	}
}

func value(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth == MaxDepth {
		return nil, Malformed("The body is nested deeper than " + strconv.Itoa(MaxDepth) + " levels.")
	}
	if open == '[' {
		list := []any{}
		for d.More() {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	o := Object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, Malformed("The body is not valid JSON: a member's name must be a string.")
		}
		if _, twice := o[name]; twice {
			return nil, Malformed(fmt.Sprintf("The body names %.64q twice.", name)) // a long name is cut: it goes into the answer
		}
		if o[name], err = value(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return o, err
}

// halfSurrogate reports whether an escape in data names a lone surrogate,
// which encoding/json would quietly replace by U+FFFD.
func halfSurrogate(data []byte) bool {
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 || i+1 >= len(data) {
			return false
		}
		unit, ok := codeUnit(data[i:])
		if !ok {
			data = data[i+2:]
			continue
		}
		data = data[i+6:]
		switch {
		case unit >= 0xdc00 && unit < 0xe000:
			return true
		case unit >= 0xd800 && unit < 0xdc00:
			low, ok := codeUnit(data)
			if !ok || low < 0xdc00 || low >= 0xe000 {
				return true
			}
			data = data[6:]
		}
	}
}

func codeUnit(esc []byte) (uint16, bool) {
	if len(esc) < 6 || esc[0] != '\\' || esc[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(esc[2:6]), 16, 16)
	return uint16(n), err == nil
}

// AppendString appends s to dst as a JSON string. Characters that end a
// script or a line in HTML and JavaScript are escaped too, so that the text
// can stand inside a page; bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' && c != 0x7f {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[from:i]...), `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[from:i]...), `\u202`...)
			dst = append(dst, hex[r&15])
		default:
			i += n
			continue
		}
		i += n
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
