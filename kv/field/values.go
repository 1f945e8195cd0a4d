package field

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/net/idna"
)

var (
	errText   = errors.New("must be text")
	errNUL    = errors.New("must not contain the NUL character")
	errUTF8   = errors.New("must be valid UTF-8")
	errNumber = errors.New("must be a whole number")
	errList   = errors.New("must be a list of texts")
)

// asText reads text. Text of a form may be invalid UTF-8, unlike text from
// Parse.
func asText(v any) (string, error) {
	s, ok := v.(string)
	switch {
	case !ok:
		return "", errText
	case strings.IndexByte(s, 0) >= 0:
		return "", errNUL
	case !utf8.ValidString(s):
		return "", errUTF8
	}
	return s, nil
}

func tooManyBytes(s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("must be at most %d bytes long", limit)
	}
	return nil
}

func tooLong(s string, limit int) error {
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		return fmt.Errorf("must be at most %d characters long", limit)
	}
	return nil
}

// Text binds text of at most limit characters (Unicode code points). Null and
// "" empty it.
func (s *Set) Text(name string, p *string, limit int, traits ...Traits) *Field {
	return s.add(name, &text{p, limit}, traits)
}

type text struct {
	p    *string
	most int
}

// keep reads text, applies the rule and stores the result. Empty text needs no rule.
func (b *text) keep(v any, rule Rule) error {
	t, err := asText(v)
	if err != nil {
		return err
	}
	if t != "" {
		t, err = rule(t)
		if err != nil {
			return err
		}
	}
	*b.p = t
	return nil
}

func (b *text) set(v any) error {
	return b.keep(v, func(t string) (string, error) { return t, tooLong(t, b.most) })
}
func (b *text) words() string            { return *b.p }
func (b *text) clear() bool              { *b.p = ""; return true }
func (b *text) append(dst []byte) []byte { return AppendString(dst, *b.p) }
func (b *text) schema() Schema           { return Schema{Type: "string", MaxLength: b.most} }

// LongText binds text of at most limit bytes of UTF-8. Null and "" empty it.
func (s *Set) LongText(name string, p *string, limit int, traits ...Traits) *Field {
	return s.add(name, &longText{text{p, limit}}, traits)
}

type longText struct{ text }

func (b *longText) set(v any) error {
	return b.keep(v, func(t string) (string, error) { return t, tooManyBytes(t, b.most) })
}

// Name binds a label for people: one line of at most limit characters without
// control characters, white space trimmed and folded. It removes characters
// that change the direction of text.
func (s *Set) Name(name string, p *string, limit int, traits ...Traits) *Field {
	return s.add(name, &label{text{p, limit}}, traits)
}

type label struct{ text }

func (b *label) set(v any) error  { return b.keep(v, CleanName(b.most)) }
func (b *label) load(v any) error { return b.text.set(v) }

// CleanName is the rule of Name fields.
func CleanName(limit int) Rule {
	return func(t string) (string, error) {
		if strings.ContainsFunc(t, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
			return "", errors.New("must not contain control characters")
		}
		t = strings.Map(func(r rune) rune {
			if Bidi(r) {
				return -1
			}
			return r
		}, t)
		t = strings.Join(strings.Fields(t), " ")
		return t, tooLong(t, limit)
	}
}

// Bidi reports whether a character changes the direction of text and is
// invisible.
func Bidi(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' ||
		r == '\u200e' || r == '\u200f' || r == '\u061c'
}

// A Secret is the input for a password.
type Secret struct {
	Said bool   // the input names the field
	Text string // "" removes the password
}

// MaxSecret is the longest password in bytes.
const MaxSecret = 1024

// Secret binds a password: 1 to MaxSecret bytes, kept as given. Null and ""
// mean no password. It is never shown.
func (s *Set) Secret(name string, p *Secret, traits ...Traits) *Field {
	return s.add(name, &secret{p}, append(traits, WriteOnly))
}

type secret struct{ p *Secret }

func (b *secret) set(v any) error {
	t, err := asText(v)
	if err != nil {
		return err
	}
	if err := tooManyBytes(t, MaxSecret); err != nil {
		return err
	}
	*b.p = Secret{true, t}
	return nil
}
func (b *secret) clear() bool              { *b.p = Secret{Said: true}; return true }
func (b *secret) append(dst []byte) []byte { return append(dst, "null"...) }

func (b *secret) schema() Schema {
	return Schema{Type: "string", Format: "password", MaxLength: MaxSecret}
}

// MaxURL is the longest address in bytes.
const MaxURL = 8192

// URL binds an absolute http or https address of at most MaxURL bytes without
// user name and password. It is kept as it was given, but for the case of scheme
// and host (RFC 3986, section 6.2.2.1). Null and "" empty it; an empty one is shown
// as null.
func (s *Set) URL(name string, p *string, traits ...Traits) *Field {
	return s.add(name, &address{text{p, MaxURL}}, traits)
}

type address struct{ text }

func (b *address) set(v any) error  { return b.keep(v, CleanURL) }
func (b *address) load(v any) error { return b.text.set(v) }

func (b *address) append(dst []byte) []byte {
	if *b.p == "" {
		return append(dst, "null"...)
	}
	return b.text.append(dst)
}

func (b *address) schema() Schema {
	return Schema{Type: "string", Format: "uri", MaxLength: MaxURL, Nullable: true}
}

// CleanURL is the rule of URL fields for one text; the error completes the
// sentence "<name> …". The parser judges the address, and its text is kept: a page
// may read a second # or brackets in its fragment. So it may have characters that
// only browsers take; SentURL is for programs.
func CleanURL(t string) (string, error) {
	t = strings.Trim(t, " ")
	if err := tooManyBytes(t, MaxURL); err != nil {
		return "", err
	}
	before := t // browsers read a backslash before the query as a slash
	if i := strings.IndexAny(t, "?#"); i >= 0 {
		before = t[:i]
	}
	u, err := ParseURL(t)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return "", errors.New("must be an absolute http or https address")
	case u.User != nil:
		return "", errors.New("must not carry a user name or a password")
	case !hasPort(u):
		return "", errors.New("must have a port from 1 to 65535, or none")
	case strings.ContainsFunc(t, unicode.IsControl) || strings.ContainsFunc(u.Host, Bidi) || strings.Contains(before, `\`):
		return "", errors.New("must not contain control characters or backslashes")
	}
	_, host, path, query, fragment := cutURL(t)
	if !strings.ContainsFunc(u.Host, func(r rune) bool { return r < utf8.RuneSelf && !inHost(r) }) {
		host = u.Host // the parser has read the escapes of other scripts
	}
	t = u.Scheme + "://" + lowerASCII(host) + escapeUnseen(path+query+fragment)
	return t, tooManyBytes(t, MaxURL)
}

// inHost reports whether a host of letters may have the character of ASCII.
func inHost(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~:", r)
}

// cutURL cuts an address into parts that make it up with "://" after the scheme.
func cutURL(t string) (scheme, host, path, query, fragment string) {
	scheme, rest, _ := strings.Cut(t, "://")
	cut := func(at string) (part string) {
		if i := strings.IndexAny(rest, at); i >= 0 {
			rest, part = rest[:i], rest[i:]
		}
		return part
	}
	fragment = cut("#")
	query = cut("?")
	path = cut("/")
	return scheme, rest, path, query, fragment
}

// ParseURL is url.Parse for addresses as browsers take them: a percent sign after
// the host that begins no escape stands for itself.
func ParseURL(t string) (*url.URL, error) {
	if !strings.Contains(t, "://") {
		return url.Parse(t)
	}
	scheme, host, path, query, fragment := cutURL(t)
	return url.Parse(scheme + "://" + host + escapePercent(path) + query + escapePercent(fragment))
}

// escapePercent escapes each percent sign that begins no escape.
func escapePercent(t string) string {
	var b strings.Builder
	for i := range len(t) {
		b.WriteByte(t[i])
		if t[i] == '%' && (i+2 >= len(t) || !isHex(t[i+1]) || !isHex(t[i+2])) {
			b.WriteString("25")
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// escapeUnseen escapes characters that nobody sees, or that change the direction of
// the text around them.
func escapeUnseen(t string) string {
	var b strings.Builder
	for _, r := range t {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(url.PathEscape(string(r)))
		}
	}
	return b.String()
}

// SentURL is the address of a URL field as programs take it, in ASCII: the host in
// punycode (RFC 5891), characters of other scripts and percent signs that stand
// for themselves escaped. All else stays.
func SentURL(t string) string {
	if !strings.ContainsFunc(t, func(c rune) bool { return mustEscape(c) || c == '%' }) {
		return t
	}
	u, err := ParseURL(t)
	if err != nil {
		return t
	}
	scheme, host, path, query, fragment := cutURL(t)
	if ascii, err := idna.Lookup.ToASCII(u.Hostname()); err == nil {
		host = strings.Replace(u.Host, u.Hostname(), ascii, 1)
	}
	return scheme + "://" + escapeBytes(host+escapePercent(path)+query+escapePercent(fragment))
}

// mustEscape reports whether a header of an address may not have the character.
func mustEscape(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' }

// escapeBytes escapes bytes that a header may not have.
func escapeBytes(t string) string {
	var b strings.Builder
	for i := range len(t) {
		if mustEscape(rune(t[i])) {
			fmt.Fprintf(&b, "%%%02X", t[i])
		} else {
			b.WriteByte(t[i])
		}
	}
	return b.String()
}

// hasPort reports whether the port of u is valid or left to the scheme.
func hasPort(u *url.URL) bool {
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && n > 0
}

// lowerASCII changes only ASCII letters. The lower case of some other letters
// is an ASCII letter, which would name another host.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Bool binds a boolean; it also accepts the texts "true" and "false".
func (s *Set) Bool(name string, p *bool, traits ...Traits) *Field {
	return s.add(name, &boolean{p}, traits)
}

type boolean struct{ p *bool }

func (b *boolean) set(v any) error {
	switch v {
	case true, "true":
		*b.p = true
	case false, "false":
		*b.p = false
	default:
		return errors.New("must be true or false")
	}
	return nil
}
func (b *boolean) clear() bool              { return false }
func (b *boolean) append(dst []byte) []byte { return strconv.AppendBool(dst, *b.p) }
func (b *boolean) schema() Schema           { return Schema{Type: "boolean"} }

// Not is Bool for the opposite of *p.
func (s *Set) Not(name string, p *bool, traits ...Traits) *Field {
	return s.add(name, &opposite{boolean{p}}, traits)
}

type opposite struct{ boolean }

func (b *opposite) set(v any) error {
	if err := b.boolean.set(v); err != nil {
		return err
	}
	*b.p = !*b.p
	return nil
}
func (b *opposite) append(dst []byte) []byte { return strconv.AppendBool(dst, !*b.p) }

// whole reads a JSON number, or text that is one, if its value is a whole
// number of at most 2^53, which every reader of JSON represents exactly. 3, 3.0
// and 1e2 are accepted; 1.5, 0x10, "1_000" and " 5" are not. It parses
// decimals, because a float64 would round a fraction or a large number to a
// value nobody sent.
func whole(v any) (int64, error) {
	var t string
	switch x := v.(type) {
	case json.Number:
		t = string(x)
	case string:
		t = x
	}
	if t == "" || len(t) > 40 || !json.Valid([]byte(t)) || t[len(t)-1] <= ' ' {
		return 0, errNumber
	}
	t, negative := strings.CutPrefix(strings.ToLower(t), "-")
	t, power, _ := strings.Cut(t, "e")
	before, after, _ := strings.Cut(t, ".")
	shift, _ := strconv.Atoi(power) // stops at the ends of int
	// Among 40 digits, a shift by 100 has the effect of any longer one.
	point := len(before) + min(max(shift, -100), 100)
	digits := before + after + strings.Repeat("0", max(0, point-len(before)-len(after)))
	point = max(0, point)
	n, err := strconv.ParseInt("0"+digits[:point], 10, 64)
	if err != nil || n > 1<<53 || strings.Trim(digits[point:], "0") != "" {
		return 0, errNumber
	}
	if negative {
		n = -n
	}
	return n, nil
}

type integer struct {
	p          *int64
	least, top int64
	none       bool // null is a value, kept as -1 or 0, which is below least
}

func (b *integer) set(v any) error {
	n, err := whole(v)
	if err != nil || n < b.least || n > b.top {
		return fmt.Errorf("must be a whole number from %d to %d", b.least, b.top)
	}
	*b.p = n
	return nil
}

func (b *integer) clear() bool {
	if b.none {
		*b.p = b.least - 1
	}
	return b.none
}

func (b *integer) append(dst []byte) []byte {
	if b.none && *b.p < b.least {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, *b.p, 10)
}

func (b *integer) schema() Schema {
	top := min(b.top, MaxSafe)
	return Schema{Type: "integer", Format: "int64", Min: &b.least, Max: &top, Nullable: b.none}
}

// MaxSafe is the largest whole number that JavaScript tells from its neighbours. Schemas promise
// no larger one.
const MaxSafe = 1<<53 - 1

// MaxCount is the largest number that a Count can hold.
const MaxCount = math.MaxInt32

// Count binds a limit: a whole number from 1 to MaxCount, or null for no limit,
// which is kept as 0.
func (s *Set) Count(name string, p *int64, traits ...Traits) *Field {
	return s.add(name, &integer{p, 1, MaxCount, true}, traits)
}

// Number binds a whole number from least to top.
func (s *Set) Number(name string, p *int64, minimum, top int64, traits ...Traits) *Field {
	return s.add(name, &integer{p, minimum, top, false}, traits)
}

// MaybeNumber binds a whole number from least to top, or null, which is kept as
// least-1. The variable must have that value before anything is read.
func (s *Set) MaybeNumber(name string, p *int64, minimum, top int64, traits ...Traits) *Field {
	return s.add(name, &integer{p, minimum, top, true}, traits)
}

// Limit binds a limit: a whole number from 1 to top, or 0 or null for no limit,
// which is kept as 0 and shown as null.
func (s *Set) Limit(name string, p *int64, top int64, traits ...Traits) *Field {
	return s.add(name, &limit{integer{p, 0, top, true}}, traits)
}

type limit struct{ integer }

func (b *limit) clear() bool { *b.p = 0; return true }

func (b *limit) append(dst []byte) []byte {
	if *b.p == 0 {
		return append(dst, "null"...)
	}
	return b.integer.append(dst)
}

// TimeLayout is how times are written: RFC 3339, UTC, milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// appendTime is AppendFormat with TimeLayout in a sixth of the time.
func appendTime(dst []byte, t time.Time) []byte {
	b := [...]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 23: 'Z'}
	pair := func(at, n int) { b[at], b[at+1] = byte('0'+n/10%10), byte('0'+n%10) }
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	pair(0, year/100)
	pair(2, year)
	pair(5, int(month))
	pair(8, day)
	pair(11, hour)
	pair(14, minute)
	pair(17, second)
	ms := t.Nanosecond() / 1e6
	b[20] = byte('0' + ms/100)
	pair(21, ms)
	return append(dst, b[:]...)
}

// Choice binds one of a fixed list of words.
func Choice[T ~string](s *Set, name string, p *T, of []T, traits ...Traits) *Field {
	return s.add(name, &choice[T]{p, of, false}, traits)
}

// MaybeChoice binds one of a fixed list of words, or null for no word, which is
// kept as "".
func MaybeChoice[T ~string](s *Set, name string, p *T, of []T, traits ...Traits) *Field {
	return s.add(name, &choice[T]{p, of, true}, traits)
}

type choice[T ~string] struct {
	p    *T
	of   []T
	none bool
}

// Words are the texts of a list of named constants.
func Words[T ~string](of []T) []string {
	words := make([]string, len(of))
	for i, w := range of {
		words[i] = string(w)
	}
	return words
}

func (b *choice[T]) set(v any) error {
	t, ok := v.(string)
	if !ok || !slices.Contains(b.of, T(t)) {
		return fmt.Errorf("must be one of: %s", strings.Join(Words(b.of), ", "))
	}
	*b.p = T(t)
	return nil
}

func (b *choice[T]) clear() bool {
	if b.none {
		*b.p = ""
	}
	return b.none
}

func (b *choice[T]) append(dst []byte) []byte {
	if *b.p == "" {
		return append(dst, "null"...)
	}
	return AppendString(dst, string(*b.p))
}

func (b *choice[T]) schema() Schema {
	return Schema{Type: "string", Enum: Words(b.of), Nullable: b.none}
}

// Rule checks and normalises one text; its error completes the sentence
// "<name> …".
type Rule func(string) (string, error)

// Ruled binds text with its own form, such as a slug or a colour. pattern
// describes the form to readers of the schema.
func (s *Set) Ruled(name string, p *string, rule Rule, pattern string, limit int, traits ...Traits) *Field {
	return s.add(name, &ruled{text{p, limit}, rule, pattern}, traits)
}

type ruled struct {
	text
	rule    Rule
	pattern string
}

func (b *ruled) set(v any) error  { return b.keep(v, b.rule) }
func (b *ruled) load(v any) error { return b.text.set(v) }

func (b *ruled) schema() Schema {
	return Schema{Type: "string", Pattern: b.pattern, MaxLength: b.most}
}

// Texts binds a list of at most limit texts, each checked by rule. Null is the
// empty list; a variable that no input named stays nil. Form text is a JSON
// array, or names separated by commas.
func (s *Set) Texts(name string, p *[]string, rule Rule, limit, length int, traits ...Traits) *Field {
	return s.add(name, &texts{p, rule, limit, Schema{Type: "string", MaxLength: length}}, traits)
}

// IDs binds a list of at most limit UUIDs, kept in lower case.
func (s *Set) IDs(name string, p *[]string, limit int, traits ...Traits) *Field {
	return s.add(name, &texts{p, cleanID, limit, Schema{Type: "string", Format: "uuid"}}, traits)
}

type texts struct {
	p    *[]string
	rule Rule
	most int
	item Schema
}

func (b *texts) set(v any) error {
	if _, ok := v.(string); ok { // form text
		t, err := asText(v)
		if err != nil {
			return err
		}
		v = split(t)
	}
	in, ok := v.([]any)
	if !ok {
		return errList
	}
	if len(in) > b.most {
		return fmt.Errorf("must have at most %d entries", b.most)
	}
	out := make([]string, 0, len(in))
	for i, v := range in {
		t, err := b.entry(v)
		if err != nil {
			return fmt.Errorf("has a bad entry: number %d %w", i+1, err)
		}
		out = append(out, t)
	}
	*b.p = out
	return nil
}

func (b *texts) entry(v any) (string, error) {
	t, err := asText(v)
	if err != nil {
		return "", err
	}
	return b.rule(t)
}

// split splits the text of a list in a form.
func split(t string) any {
	if strings.HasPrefix(strings.TrimSpace(t), "[") {
		var list []any
		if halfSurrogate([]byte(t)) || json.Unmarshal([]byte(t), &list) != nil {
			return nil
		}
		return list
	}
	list := []any{}
	for part := range strings.SplitSeq(t, ",") {
		part = strings.TrimSpace(part)
		if part != "" {
			list = append(list, part)
		}
	}
	return list
}

func (b *texts) clear() bool { *b.p = []string{}; return true }

func (b *texts) append(dst []byte) []byte { return AppendStrings(dst, *b.p) }

func (b *texts) schema() Schema {
	return Schema{Type: "array", Items: &b.item, MaxItems: b.most}
}

// Among says, only for the reference, which words the last bound list of texts
// takes. Its rule refuses others.
func (f *Field) Among(words []string) *Field {
	f.binding.(*texts).item.Enum = words
	return f
}

// cleanID is the rule of UUIDs: any case in, lower case out.
func cleanID(t string) (string, error) {
	id, err := uuid.Parse(t)
	if err != nil || len(t) != 36 {
		return "", errors.New("must be a UUID")
	}
	return id.String(), nil
}

// ID binds a UUID; null is the zero UUID.
func (s *Set) ID(name string, p *uuid.UUID, traits ...Traits) *Field {
	return s.add(name, &identity{p}, traits)
}

type identity struct{ p *uuid.UUID }

func (b *identity) set(v any) error {
	t, err := asText(v)
	if err != nil {
		return err
	}
	if t == "" {
		b.clear()
		return nil
	}
	t, err = cleanID(t)
	if err != nil {
		return err
	}
	*b.p = uuid.MustParse(t)
	return nil
}
func (b *identity) clear() bool { *b.p = uuid.Nil; return true }

func (b *identity) append(dst []byte) []byte {
	if *b.p == uuid.Nil {
		return append(dst, "null"...)
	}
	dst = hex.AppendEncode(append(dst, '"'), b.p[:4])
	for at := 4; at < 10; at += 2 {
		dst = hex.AppendEncode(append(dst, '-'), b.p[at:at+2])
	}
	return append(hex.AppendEncode(append(dst, '-'), b.p[10:]), '"')
}

func (b *identity) schema() Schema {
	return Schema{Type: "string", Format: "uuid", Nullable: true}
}

// Nested binds an object of the shape of v. said is set when an input names it. check
// says what is wrong with the object as a whole. It is for input only.
func (s *Set) Nested(name string, v Shaped, said *bool, check func() error, traits ...Traits) *Field {
	return s.add(name, &nested{v, said, check}, append(traits, WriteOnly))
}

type nested struct {
	v     Shaped
	said  *bool
	check func() error
}

func (b *nested) set(v any) error {
	in, ok := v.(Object)
	if !ok {
		return errors.New("must be an object")
	}
	*b.said = true
	if err := Create(b.v, in); err != nil {
		return fmt.Errorf("is not right: %w", err)
	}
	return b.check()
}

func (b *nested) clear() bool              { return false }
func (b *nested) append(dst []byte) []byte { return AppendJSON(dst, b.v) }

func (b *nested) schema() Schema {
	s := ObjectOf(b.v)
	s.Input = true
	return s
}

// Rows binds a list of at most limit objects. row returns the shape of the next one; before the first, clear is called.
// It is for input only.
func (s *Set) Rows(name string, limit int, row func() Shaped, clear func(), traits ...Traits) *Field {
	return s.add(name, &rows{limit, row, clear}, append(traits, WriteOnly))
}

type rows struct {
	most  int
	row   func() Shaped
	empty func()
}

func (b *rows) set(v any) error {
	in, ok := v.([]any)
	if !ok {
		return errList
	}
	if len(in) > b.most {
		return fmt.Errorf("must have at most %d entries", b.most)
	}
	b.empty()
	for i, v := range in {
		o, ok := v.(Object)
		if !ok {
			return fmt.Errorf("has a bad entry: number %d must be an object", i+1)
		}
		err := Create(b.row(), o)
		if err != nil {
			return fmt.Errorf("has a bad entry: number %d is not right: %w", i+1, err)
		}
	}
	return nil
}

func (b *rows) clear() bool              { b.empty(); return true }
func (b *rows) append(dst []byte) []byte { return append(dst, "[]"...) }

func (b *rows) schema() Schema {
	item := ObjectOf(b.row())
	item.Input = true
	return Schema{Type: "array", Items: &item, MaxItems: b.most}
}

// Refused binds a member that must be null or absent. why completes the sentence about it.
func (s *Set) Refused(name, why string) *Field {
	return s.add(name, &refused{why}, []Traits{WriteOnly}).Says("Must be null or absent: it "+why+".", "null")
}

type refused struct{ why string }

func (b *refused) set(any) error            { return errors.New(b.why) }
func (b *refused) clear() bool              { return true }
func (b *refused) append(dst []byte) []byte { return dst }
func (b *refused) schema() Schema           { return Schema{Type: "integer", Nullable: true} }

// Shown binds a member that the server computes; show appends its JSON.
func (s *Set) Shown(name string, schema Schema, show func(dst []byte) []byte) *Field {
	return s.add(name, &shown{schema, show}, []Traits{ReadOnly})
}

type shown struct {
	as   Schema
	show func([]byte) []byte
}

func (b *shown) set(any) error            { return nil }
func (b *shown) clear() bool              { return false }
func (b *shown) append(dst []byte) []byte { return b.show(dst) }
func (b *shown) schema() Schema           { return b.as }

// ObjectOf is the schema of an object of the given shape.
func ObjectOf(v Shaped) Schema { return Schema{Type: "object", Members: Of(v).Members()} }

// Clears reports whether null is a value on a patch. It tests by clearing the
// variable, so it is for shapes bound to temporary values.
func (f Field) Clears() bool { return f.Traits&Filled == 0 && f.binding.clear() }
