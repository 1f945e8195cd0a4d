package field

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxDepth is how many levels of arrays and objects Parse accepts.
	MaxDepth = 32

	// MaxValues is how many values Parse accepts in one body: members and
	// elements at every level, and the body itself. Each costs many times its
	// length in memory.
	MaxValues = 20_000
)

// An Object holds the members of one JSON object or one form, by name.
// A member is nil (null), a bool, a string, a json.Number, a []any or an
// Object. Form text is always a string.
type Object map[string]any

// Malformed says why bytes are not a JSON object that kist accepts.
type Malformed string

func (m Malformed) Error() string { return string(m) }

var (
	errDeep   = Malformed("The body is nested deeper than " + strconv.Itoa(MaxDepth) + " levels.")
	errMany   = Malformed("The body holds more than " + strconv.Itoa(MaxValues) + " values.")
	errHalf   = Malformed("The body holds half of a UTF-16 surrogate pair, which is not text.")
	errTwice  = Malformed("The body has an object in which a name occurs twice.")
	errBroken = Malformed("The body is not valid JSON.")
)

// Parse reads exactly one JSON object (RFC 8259). Beyond the grammar it refuses
// text that two readers could understand differently: a repeated name in one
// object, text after the object, invalid UTF-8, and half of a surrogate pair.
// MaxDepth bounds the nesting, and MaxValues the number of values. Every error
// is a Malformed. The result does not keep data in memory.
func Parse(data []byte) (Object, error) {
	return parse(data, func(w *walker) (Object, error) { return w.object(0) })
}

// parse calls read to read an object, if data is one.
func parse(data []byte, read func(*walker) (Object, error)) (Object, error) {
	if !utf8.Valid(data) {
		return nil, Malformed("The body is not valid UTF-8.")
	}
	if halfSurrogate(data) {
		return nil, errHalf
	}
	if !json.Valid(data) {
		return nil, refusal(data)
	}
	w := walker{data: data}
	if w.next() != '{' {
		return nil, Malformed("The body must be a JSON object.")
	}
	return read(&w)
}

// ParseFor is Parse for input to v. It skips members that v does not know or
// only shows. An array or object where v takes neither is built empty. It costs
// no more memory than v can take, plus eight bytes for each name. Only members
// that v knows count as values.
func ParseFor(v Shaped, data []byte) (o Object, err error) {
	err = with(v, func(s *Set) error {
		o, err = parse(data, func(w *walker) (Object, error) { return w.members(s) })
		return err
	})
	return o, err
}

// refusal says why data, which is not valid JSON, is refused.
func refusal(data []byte) Malformed {
	var first json.RawMessage
	err := json.NewDecoder(bytes.NewReader(data)).Decode(&first)
	if err == nil {
		if bytes.HasPrefix(first, []byte("{")) {
			return "The body goes on after the JSON object."
		}
		return "The body must be a JSON object."
	}
	var syntax *json.SyntaxError
	invalid := errors.As(err, &syntax)
	w := walker{data: data}
	if invalid {
		w.data = data[:min(int(syntax.Offset), len(data))]
	}
	switch {
	case w.skip(0) == errDeep: //nolint:errorlint // skip returns it unwrapped
		return errDeep
	case invalid:
		return Malformed("The body is not valid JSON: " + unexpected(data, syntax.Offset) + ".")
	default:
		return "The body is not valid JSON: it ends too early."
	}
}

// unexpected names the character at an offset, counted from 1, that makes JSON invalid.
func unexpected(data []byte, offset int64) string {
	what := "a byte order mark"
	if rest := data[max(int(offset), 1)-1:]; !bytes.HasPrefix(rest, []byte("\ufeff")) {
		r, _ := utf8.DecodeRune(rest)
		what = "the character " + strconv.QuoteRune(r)
	}
	return what + " is not allowed there (byte " + strconv.FormatInt(offset, 10) + ")"
}

// A walker reads JSON once, from left to right. It expects valid JSON. On other
// text it never reads past the end or recurses deeper than MaxDepth, but it may
// accept the text.
type walker struct {
	data   []byte
	cut    bool // data is only the beginning of the JSON
	at     int
	values int // built so far
	seed   maphash.Seed
	names  []uint64 // hashes of the names in each object that is being skipped
}

// next skips white space and returns the next byte, 0 at the end.
func (w *walker) next() byte {
	for ; w.at < len(w.data); w.at++ {
		if c := w.data[w.at]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// more reports whether a container of which n members or elements were read has
// another. It skips the comma before it, or the end.
func (w *walker) more(n int, end byte) (bool, error) {
	switch c := w.next(); {
	case c == end:
		w.at++
		return false, nil
	case n == 0:
		return true, nil
	case c == ',':
		w.at++
		return true, nil
	}
	return false, errBroken
}

// quoted skips a string and returns the bytes between its quotes.
func (w *walker) quoted() ([]byte, error) {
	if w.next() != '"' {
		return nil, errBroken
	}
	from := w.at + 1
	for end := from; ; end++ {
		n := bytes.IndexByte(w.data[end:], '"')
		if n < 0 && w.cut {
			w.at = len(w.data)
			return uncut(w.data[from:]), nil
		}
		if n < 0 {
			return nil, errBroken
		}
		end += n
		slashes := end
		for slashes > from && w.data[slashes-1] == '\\' {
			slashes--
		}
		if (end-slashes)%2 == 0 { // the quote itself is not escaped
			w.at = end + 1
			return w.data[from:end], nil
		}
	}
}

// uncut is the beginning of a string without the escape or character that was cut at its end.
func uncut(raw []byte) []byte {
	at := bytes.LastIndexByte(raw, '\\')
	begin := at
	for begin > 0 && raw[begin-1] == '\\' {
		begin--
	}
	if at >= 0 && (at-begin)%2 == 0 { // it begins an escape
		size := 2
		if at+1 < len(raw) && raw[at+1] == 'u' {
			size = 6
		}
		if at+size > len(raw) {
			return raw[:at]
		}
	}
	for n := 1; n <= min(utf8.UTFMax, len(raw)); n++ {
		if end := raw[len(raw)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return raw[:len(raw)-n]
			}
			break
		}
	}
	return raw
}

// text skips a string and returns its meaning.
func (w *walker) text() (string, error) {
	raw, err := w.quoted()
	if err != nil {
		return "", err
	}
	return unescape(raw)
}

// colon skips the bytes between a name and its value.
func (w *walker) colon() error {
	if w.next() != ':' {
		return errBroken
	}
	w.at++
	return nil
}

// word skips a number, true, false or null.
func (w *walker) word() []byte {
	w.next()
	from := w.at
	for w.at < len(w.data) {
		c := w.data[w.at]
		if c-'0' > 9 && c|0x20-'a' > 'z'-'a' && c != '-' && c != '+' && c != '.' {
			break
		}
		w.at++
	}
	return w.data[from:w.at]
}

// value builds a value that is inside depth containers.
func (w *walker) value(depth int) (any, error) {
	switch w.next() {
	case '{':
		return w.object(depth)
	case '[':
		return w.list(depth)
	}
	if err := w.count(); err != nil {
		return nil, err
	}
	if w.next() == '"' {
		return w.text()
	}
	switch word := w.word(); {
	case string(word) == "null":
		return nil, nil
	case string(word) == "true":
		return true, nil
	case string(word) == "false":
		return false, nil
	case len(word) > 0 && (word[0] == '-' || word[0]-'0' <= 9):
		return json.Number(word), nil
	}
	return nil, errBroken
}

func (w *walker) count() error {
	w.values++
	if w.values > MaxValues {
		return errMany
	}
	return nil
}

// enter skips the bracket or brace of a container inside depth others.
func (w *walker) enter(depth int) error {
	if depth == MaxDepth {
		return errDeep
	}
	w.at++
	return w.count()
}

func (w *walker) list(depth int) (any, error) {
	if err := w.enter(depth); err != nil {
		return nil, err
	}
	list := []any{}
	for {
		another, err := w.more(len(list), ']')
		if err != nil {
			return nil, err
		}
		if !another {
			return list, nil
		}
		v, err := w.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if len(list) == cap(list) { // append alone would grow a long list by a quarter, many times
			list = slices.Grow(list, max(4, len(list)))
		}
		list = append(list, v)
	}
}

func (w *walker) object(depth int) (Object, error) {
	if err := w.enter(depth); err != nil {
		return nil, err
	}
	o := Object{}
	for {
		another, err := w.more(len(o), '}')
		if err != nil {
			return nil, err
		}
		if !another {
			return o, nil
		}
		name, err := w.text()
		if err != nil {
			return nil, err
		}
		if err := w.colon(); err != nil {
			return nil, err
		}
		v, err := w.value(depth + 1)
		if err != nil {
			return nil, err
		}
		known := len(o)
		o[name] = v
		if len(o) == known {
			// A long name is cut, because it goes into the answer.
			return nil, Malformed(fmt.Sprintf("The body names %.64q twice.", name))
		}
	}
}

// members builds the outermost object with the members that the set knows.
func (w *walker) members(s *Set) (Object, error) {
	if err := w.enter(0); err != nil {
		return nil, err
	}
	w.seed = maphash.MakeSeed()
	o := Object{}
	for n := 0; ; n++ {
		another, err := w.more(n, '}')
		if err != nil {
			return nil, err
		}
		if !another {
			if err := w.distinct(0); err != nil {
				return nil, err
			}
			return o, nil
		}
		name, err := w.name()
		if err != nil {
			return nil, err
		}
		f := s.named(name)
		if f == nil {
			if err := w.pass(1); err != nil {
				return nil, err
			}
			continue
		}
		v, err := w.valueFor(f)
		if err != nil {
			return nil, err
		}
		known := len(o)
		o[f.Name] = v
		if len(o) == known {
			return nil, Malformed(fmt.Sprintf("The body names %q twice.", f.Name))
		}
	}
}

// valueFor builds the value of a field, or an empty one of its kind if the
// field takes nothing of that kind.
func (w *walker) valueFor(f *Field) (any, error) {
	c := w.next()
	if c != '{' && c != '[' {
		return w.value(1)
	}
	if kind := f.Schema().Type; kind == "array" || kind == "object" || kind == "" {
		return w.value(1)
	}
	if err := w.count(); err != nil {
		return nil, err
	}
	if c == '{' {
		return Object{}, w.pass(1)
	}
	return []any{}, w.pass(1)
}

// pass skips a value that is inside depth containers. It refuses repeated names
// in one object, and keeps only hashes of the names.
func (w *walker) pass(depth int) error {
	end, from := byte(']'), len(w.names)
	switch w.next() {
	case '"':
		_, err := w.quoted()
		return err
	case '{':
		end = '}'
	case '[':
	default:
		if len(w.word()) == 0 {
			return errBroken
		}
		return nil
	}
	if depth == MaxDepth {
		return errDeep
	}
	w.at++
	for n := 0; ; n++ {
		another, err := w.more(n, end)
		if err != nil {
			return err
		}
		if !another {
			return w.distinct(from)
		}
		if end == '}' {
			if _, err := w.name(); err != nil {
				return err
			}
		}
		if err := w.pass(depth + 1); err != nil {
			return err
		}
	}
}

// name skips the name of a member and the colon, and records the name.
func (w *walker) name() ([]byte, error) {
	name, err := w.quoted()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(name, '\\') >= 0 {
		text, err := unescape(name)
		if err != nil {
			return nil, err
		}
		name = []byte(text)
	}
	if err := w.colon(); err != nil {
		return nil, err
	}
	w.names = append(w.names, maphash.Bytes(w.seed, name))
	return name, nil
}

// distinct forgets the recorded names from the given index on, which belong to
// one object, and refuses duplicates among them.
func (w *walker) distinct(from int) error {
	all := w.names[from:]
	w.names = w.names[:from]
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			return errTwice
		}
	}
	return nil
}

// named returns the field with the name; nil if no such field can be set.
func (s *Set) named(name []byte) *Field {
	for i := range s.fields {
		if f := &s.fields[i]; f.Name == string(name) && f.Traits&ReadOnly == 0 {
			return f
		}
	}
	return nil
}

// skip skips a value that is inside depth containers. It only searches for its
// end.
func (w *walker) skip(depth int) error {
	for outside := depth; ; {
		switch w.next() {
		case '"':
			if _, err := w.quoted(); err != nil {
				return err
			}
		case '{', '[':
			if depth == MaxDepth {
				return errDeep
			}
			depth++
			w.at++
		case '}', ']', ',', ':':
			if depth == outside {
				return errBroken
			}
			if w.data[w.at]|0x20 == '}' {
				depth--
			}
			w.at++
		default:
			if len(w.word()) == 0 {
				return errBroken
			}
		}
		if depth == outside {
			return nil
		}
	}
}

// unescape returns the text of a string from the bytes between its quotes.
func unescape(raw []byte) (string, error) {
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return string(raw), nil
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; i >= 0; i = bytes.IndexByte(raw, '\\') {
		b.Write(raw[:i])
		raw = raw[i:]
		if unit, ok := codeUnit(raw); ok {
			raw = raw[6:]
			r := rune(unit)
			if utf16.IsSurrogate(r) {
				low, ok := codeUnit(raw)
				r = utf16.DecodeRune(r, rune(low))
				if !ok || r == utf8.RuneError {
					return "", errHalf
				}
				raw = raw[6:]
			}
			b.WriteRune(r)
			continue
		}
		if len(raw) < 2 {
			return "", errBroken
		}
		c := raw[1]
		switch c {
		case '"', '\\', '/':
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		default:
			return "", errBroken
		}
		b.WriteByte(c)
		raw = raw[2:]
	}
	b.Write(raw)
	return b.String(), nil
}

// halfSurrogate reports whether an escape in data names a lone surrogate, which
// encoding/json would quietly replace by U+FFFD.
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

// codeUnit reads the escape of one UTF-16 code unit at the start of esc.
func codeUnit(esc []byte) (uint16, bool) {
	if len(esc) < 6 || esc[0] != '\\' || esc[1] != 'u' {
		return 0, false
	}
	var unit uint16
	for _, c := range esc[2:6] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20-'a' <= 'f'-'a':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		unit = unit<<4 | uint16(c)
	}
	return unit, true
}

// AppendList appends an array of values, each as one appends it.
func AppendList[T any](dst []byte, all []T, one func(dst []byte, v T) []byte) []byte {
	dst = append(dst, '[')
	for i, v := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, v)
	}
	return append(dst, ']')
}

// AppendStrings appends an array of texts.
func AppendStrings[T ~string](dst []byte, all []T) []byte {
	return AppendList(dst, all, func(dst []byte, t T) []byte { return AppendString(dst, string(t)) })
}

// AppendMembers appends an object with these names, each with the value that one appends.
func AppendMembers(dst []byte, names []string, value func(dst []byte, name string) []byte) []byte {
	from := len(dst)
	dst = AppendList(dst, names, func(dst []byte, name string) []byte {
		return value(append(AppendString(dst, name), ':'), name)
	})
	dst[from], dst[len(dst)-1] = '{', '}'
	return dst
}

// AppendString appends s to dst as a JSON string. It also escapes characters
// that end a script or a line in HTML and JavaScript, so that the text may be
// in a page. Bytes that are not UTF-8 become U+FFFD.
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
