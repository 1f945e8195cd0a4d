package field

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"
)

const (
	notUTF8  = "The body is not valid UTF-8."
	halfPair = "The body holds half of a UTF-16 surrogate pair, which is not text."
	noObject = "The body must be a JSON object."
	goesOn   = "The body goes on after the JSON object."
	tooDeep  = "The body is nested deeper than 32 levels."
	tooMany  = "The body holds more than 20000 values."
	tooEarly = "The body is not valid JSON: it ends too early."
)

func TestParseAccepts(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       Object
	}{
		{"no members", `{}`, Object{}},
		{"white space around", "\r\n\t {\t} \r\n", Object{}},
		{"every kind of value", `{"n":null,"t":true,"f":false,"s":"x","i":5,"l":[],"o":{}}`, Object{
			"n": nil, "t": true, "f": false, "s": "x", "i": json.Number("5"), "l": []any{}, "o": Object{},
		}},
		{"nested", `{"l":[1,[null,{"a":"b"}]]}`, Object{
			"l": []any{json.Number("1"), []any{nil, Object{"a": "b"}}},
		}},
		{"numbers as written", `{"a":3.0,"b":1e2,"c":-0,"d":9007199254740993,"e":1e999999999,"f":1E+2}`, Object{
			"a": json.Number("3.0"), "b": json.Number("1e2"), "c": json.Number("-0"),
			"d": json.Number("9007199254740993"), "e": json.Number("1e999999999"), "f": json.Number("1E+2"),
		}},
		{"names that differ in case", `{"a":1,"A":2}`, Object{"a": json.Number("1"), "A": json.Number("2")}},
		{"the same name in two objects", `{"a":{"a":[{"a":1},{"a":2}]}}`, Object{
			"a": Object{"a": []any{Object{"a": json.Number("1")}, Object{"a": json.Number("2")}}},
		}},
		{"empty name", `{"":1}`, Object{"": json.Number("1")}},
		{"a pair of surrogates", `{"s":"\ud83d\ude00\uD83D\uDE00"}`, Object{"s": "😀😀"}},
		{"escapes", `{"s":"\"\\\/\b\f\n\r\t\u0041\u0000"}`, Object{"s": "\"\\/\b\f\n\r\tA\x00"}},
		{
			"letters after an escape that are hexadecimal digits", `{"s":"\nbeef\tface\/0000\\d800"}`,
			Object{"s": "\nbeef\tface/0000\\d800"},
		},
		{"an escaped backslash before u", `{"s":"\\ud800"}`, Object{"s": `\ud800`}},
		{"escapes beside the surrogates", `{"s":"\ud7ff\ue000"}`, Object{"s": "\ud7ff\ue000"}},
		{"the replacement character", `{"s":"\ufffd` + "\ufffd" + `"}`, Object{"s": "\ufffd\ufffd"}},
		{"a byte order mark inside text", "{\"s\":\"\ufeff\"}", Object{"s": "\ufeff"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			got, err := Parse([]byte(tt.body))
			is.NoErr(err)
			is.Equal(got, tt.want)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const syntax = "" // any sentence that ends with the place of a byte
	for _, tt := range []struct{ name, body, why string }{
		{"nothing", "", tooEarly},
		{"white space", " \n", tooEarly},
		{"null", "null", noObject},
		{"number", "5", noObject},
		{"text", `"x"`, noObject},
		{"list", `[{}]`, noObject},

		{"a name twice", `{"isPublic":false,"isPublic":true}`, `The body names "isPublic" twice.`},
		{"a name twice, once escaped", `{"a":1,"\u0061":2}`, `The body names "a" twice.`},
		{"a name twice, null first", `{"a":null,"a":2}`, `The body names "a" twice.`},
		{"a name twice, deeper", `{"l":[0,{"o":{"x":1,"y":2,"x":1}}]}`, `The body names "x" twice.`},
		{"the empty name twice", `{"":1,"":1}`, `The body names "" twice.`},

		{"number and text", `5 x`, noObject},
		{"list and text", `[] x`, noObject},
		{"null and text", ` null x`, noObject},
		{"object and text, after white space", "\n{} x", goesOn},

		{"two objects", `{}{}`, goesOn},
		{"two objects on two lines", "{}\n{}", goesOn},
		{"text after", `{} x`, goesOn},
		{"comma after", `{},`, goesOn},
		{"brace after", `{}}`, goesOn},
		{"NUL after", "{}\x00", goesOn},

		{"invalid UTF-8 in text", "{\"s\":\"\xff\"}", notUTF8},
		{"invalid UTF-8 in a name", "{\"\xc3\":1}", notUTF8},
		{"invalid UTF-8 after", "{}\x80", notUTF8},
		{"overlong NUL", "{\"s\":\"\xc0\x80\"}", notUTF8},
		{"surrogate in UTF-8", "{\"s\":\"\xed\xa0\x80\"}", notUTF8},

		{"high surrogate", `{"s":"\ud800"}`, halfPair},
		{"low surrogate", `{"s":"\udc00"}`, halfPair},
		{"last low surrogate", `{"s":"\uDFFF"}`, halfPair},
		{"high surrogate, then text", `{"s":"\ud800abcdef"}`, halfPair},
		{"high surrogate, then another escape", `{"s":"\ud800\u0041"}`, halfPair},
		{"high surrogate, then a short escape", `{"s":"\ud800\n"}`, halfPair},
		{"two high surrogates", `{"s":"\ud83d\ud83d\ude00"}`, halfPair},
		{"surrogates the wrong way round", `{"s":"\ude00\ud83d"}`, halfPair},
		{"low surrogate after a pair", `{"s":"\ud83d\ude00\ude00"}`, halfPair},
		{"high surrogate, then an escaped backslash", `{"s":"\ud83d\\ude00"}`, halfPair},
		{"surrogate after an escaped backslash", `{"s":"\\\ud83d"}`, halfPair},
		{"surrogate after a broken escape", `{"s":"\u00zz\ud83d"}`, halfPair},
		{"surrogate in a name", `{"\ud800":1}`, halfPair},

		{"byte order mark", "\ufeff{}", syntax},
		{"NaN", `{"a":NaN}`, syntax},
		{"hexadecimal", `{"a":0x10}`, syntax},
		{"zero before a number", `{"a":01}`, syntax},
		{"plus before a number", `{"a":+1}`, syntax},
		{"digits set apart", `{"a":1_000}`, syntax},
		{"number without a fraction", `{"a":1.}`, syntax},
		{"comma before a brace", `{"a":1,}`, syntax},
		{"comma before a bracket", `{"a":[1,]}`, syntax},
		{"only a comma", `{,}`, syntax},
		{"no comma", `{"a":1 "b":2}`, syntax},
		{"no comma in a list", `{"a":[1 2]}`, syntax},
		{"no colon", `{"a" 1}`, syntax},
		{"two colons", `{"a"::1}`, syntax},
		{"no value", `{"a":}`, syntax},
		{"name without quotes", `{a:1}`, syntax},
		{"number for a name", `{1:1}`, syntax},
		{"null for a name", `{null:1}`, syntax},
		{"list for a name", `{[]:1}`, syntax},
		{"object for a name", `{{}:1}`, syntax},
		{"single quotes", `{'a':1}`, syntax},
		{"comment", `{/**/}`, syntax},
		{"bracket for a brace", `{"a":1]`, syntax},
		{"brace for a bracket", `{"a":[1}}`, syntax},
		{"control character in text", "{\"a\":\"\n\"}", syntax},
		{"unknown escape", `{"a":"\x41"}`, syntax},
		{"short escape", `{"a":"\u12"}`, syntax},
		{"upper-case null", `{"a":NULL}`, syntax},

		{"no end", `{`, tooEarly},
		{"no end after a name", `{"a"`, tooEarly},
		{"no end after a colon", `{"a":`, tooEarly},
		{"no end after a value", `{"a":1`, tooEarly},
		{"no end after a comma", `{"a":1,`, tooEarly},
		{"no end in text", `{"a":"`, tooEarly},
		{"no end in an escape", `{"a":"\`, tooEarly},
		{"no end in a word", `{"a":tru`, tooEarly},
		{"no end in a list", `{"a":[1,`, tooEarly},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			got, err := Parse([]byte(tt.body))
			var m Malformed
			is.True(errors.As(err, &m))
			is.Equal(got, nil)
			if tt.why == syntax {
				is.True(strings.HasPrefix(string(m), "The body is not valid JSON: "))
				is.True(strings.Contains(string(m), "(byte "))
			} else {
				is.Equal(string(m), tt.why)
			}
		})
	}
}

func TestParseDepth(t *testing.T) {
	nest := func(open, shut string, n int) string {
		return strings.Repeat(open, n) + strings.Repeat(shut, n)
	}
	for _, tt := range []struct {
		name, body string
		ok         bool
	}{
		{"32 levels of lists", `{"a":` + nest("[", "]", 31) + `}`, true},
		{"33 levels of lists", `{"a":` + nest("[", "]", 32) + `}`, false},
		{"32 levels of objects", strings.Repeat(`{"a":`, 31) + `{}` + strings.Repeat(`}`, 31), true},
		{"33 levels of objects", strings.Repeat(`{"a":`, 32) + `{}` + strings.Repeat(`}`, 32), false},
		{"many siblings", `{"a":[` + strings.Repeat(`[[]],`, 100) + `[]]}`, true},
		{"brackets in text", `{"a":"` + strings.Repeat(`[{`, 100) + `"}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			_, err := Parse([]byte(tt.body))
			if tt.ok {
				is.NoErr(err)
			} else {
				is.Equal(err, Malformed(tooDeep))
			}
		})
	}
}

// The cost of a hostile body must not grow with its length once it is refused.
func TestParseStopsAtTheDepth(t *testing.T) {
	for _, open := range []string{`[`, `{"a":`} {
		t.Run(open, func(t *testing.T) {
			is := is.New(t)
			body := []byte(`{"a":` + strings.Repeat(open, 100_000))
			var err error
			allocs := testing.AllocsPerRun(1, func() { _, err = Parse(body) })
			is.Equal(err, Malformed(tooDeep))
			is.True(allocs < 1000)
		})
	}
}

func TestParseValues(t *testing.T) {
	// Each body is one value, its list another.
	list := func(entry string, n int) string {
		return `{"a":[` + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + `]}`
	}
	for _, tt := range []struct {
		name, body string
		ok         bool
	}{
		{"most numbers", list("0", MaxValues-2), true},
		{"a number too many", list("0", MaxValues-1), false},
		{"most texts", list(`"x"`, MaxValues-2), true},
		{"a text too many", list(`"x"`, MaxValues-1), false},
		{"most lists", list("[]", MaxValues-2), true},
		{"a list too many", list("[]", MaxValues-1), false},
		{"most objects", list(`{}`, MaxValues-2), true},
		{"an object too many", list(`{}`, MaxValues-1), false},
		{"most members", list(`{"":null}`, MaxValues/2-1), true},
		{"members too many", list(`{"":null}`, MaxValues/2), false},
		{"commas in text", list(`"`+strings.Repeat(",", 2*MaxValues)+`"`, 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			_, err := Parse([]byte(tt.body))
			if tt.ok {
				is.NoErr(err)
			} else {
				is.Equal(err, Malformed(tooMany))
			}
		})
	}
}

// The memory that Parse uses for a body must not grow without end with its
// length.
func TestParseStopsAtTheValues(t *testing.T) {
	is := is.New(t)
	body := []byte(`{"a":[` + strings.Repeat(`[0],`, 1<<18) + `0]}`)
	var err error
	allocs := testing.AllocsPerRun(1, func() { _, err = Parse(body) })
	is.Equal(err, Malformed(tooMany))
	is.True(allocs < 4*MaxValues) // the whole body is half a million values
}

// The place in a refusal is that of the wrong byte, from 1.
func TestParseSaysWhere(t *testing.T) {
	is := is.New(t)
	_, err := Parse([]byte("\n{\"a\":1,}"))
	is.Equal(err, Malformed("The body is not valid JSON: the character '}' is not allowed there (byte 9)."))
	_, err = Parse([]byte("\ufeff{}"))
	is.Equal(err, Malformed("The body is not valid JSON: a byte order mark is not allowed there (byte 1)."))
	_, err = Parse([]byte("{\"a\":\"\t\"}"))
	is.Equal(err, Malformed("The body is not valid JSON: the character '\\t' is not allowed there (byte 7)."))
	_, err = Parse([]byte("{\"a\":é}"))
	is.Equal(err, Malformed("The body is not valid JSON: the character 'é' is not allowed there (byte 6)."))
}

// A refusal goes into an answer and a log, so it must not repeat a long name.
func TestParseCutsALongName(t *testing.T) {
	is := is.New(t)
	name := strings.Repeat("é", 1000)
	_, err := Parse([]byte(`{"` + name + `":1,"` + name + `":1}`))
	is.Equal(err, Malformed(`The body names "`+strings.Repeat("é", 64)+`" twice.`))
}

func TestAppendString(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", ``, `""`},
		{"plain", `plain`, `"plain"`},
		{"quotes", `a"b\c/d`, `"a\"b\\c/d"`},
		{"line ends", "a\nb\rc\td", `"a\nb\rc\td"`},
		{"controls", "\x00\x01\b\f\x1f\x7f", `"\u0000\u0001\u0008\u000c\u001f\u007f"`},
		{"markup", `</script>&<!--`, `"\u003c/script\u003e\u0026\u003c!--"`},
		{"line separators", "a\u2028b\u2029c", `"a\u2028b\u2029c"`},
		{"other scripts", "é 😀 עברית \ufeff\u0085", `"` + "é 😀 עברית \ufeff\u0085" + `"`},
		{"beside the line separators", "\u2027\u202a", `"` + "\u2027\u202a" + `"`},
		{"replacement character", "\ufffd", `"` + "\ufffd" + `"`},
		{"invalid bytes", "a\xff\xc3(\xed\xa0\x80", `"a\ufffd\ufffd(\ufffd\ufffd\ufffd"`},
		{"cut short", "a\xf0\x9f\x98", `"a\ufffd\ufffd\ufffd"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			got := AppendString([]byte("x:"), tt.text)
			is.Equal(string(got), "x:"+tt.want) // after the existing bytes
			sameText(is, got[2:], tt.text)
		})
	}
}

// sameText checks that got means the same as the output of encoding/json for
// text, and that it may be inside a page.
func sameText(is *is.I, got []byte, text string) {
	std, err := json.Marshal(text)
	is.NoErr(err)
	var a, b string
	is.NoErr(json.Unmarshal(got, &a))
	is.NoErr(json.Unmarshal(std, &b))
	is.Equal(a, b)
	if utf8.ValidString(text) {
		is.Equal(a, text)
	}
	is.True(!strings.ContainsAny(string(got), "<>&\u2028\u2029\x7f"))
}

// Members that a shape does not know are not built, however many there are.
func TestParseFor(t *testing.T) {
	is := is.New(t)
	many := strings.Repeat(`{"a":{}},`, 110_000) + "0"
	for _, body := range []string{
		`{"z":[` + many + `]}`,                              // unknown
		`{"z":{"title":[` + many + `]},"y":[` + many + `]}`, // unknown, with a known name inside
		`{"title":[` + many + `]}`,                          // known, and a text
	} {
		allocs := testing.AllocsPerRun(1, func() {
			o, err := ParseFor(newSample(), []byte(body))
			is.NoErr(err)
			is.True(len(o) <= 1)
		})
		is.True(allocs < 100)
	}
	o, err := ParseFor(
		newSample(), []byte(`{"title":[1],"kind":{"a":1},"tags":[["x"]],"views":3,"size":3,"url":{"b":2},"other":{}}`),
	)
	is.NoErr(err)
	is.Equal(o, Object{"title": []any{}, "tags": []any{[]any{"x"}}, "size": json.Number("3"), "url": Object{}})
	for _, name := range []string{"z", "title", "tags"} { // unknown, a text, a list
		for _, c := range []struct{ open, shut string }{{"[", "]"}, {`{"a":`, "}"}} {
			nested := func(n int) string {
				return `{"` + name + `":` + strings.Repeat(c.open, n-1) + c.open[:1] + c.shut + strings.Repeat(c.shut, n-1) + `}`
			}
			_, err := ParseFor(newSample(), []byte(nested(MaxDepth-1)))
			is.NoErr(err)
			_, err = ParseFor(newSample(), []byte(nested(MaxDepth)))
			is.Equal(err, errDeep)
		}
	}
	for body, want := range map[string]error{
		`{"title":"a","\u0074itle":"b"}`: Malformed(`The body names "title" twice.`),
		`{"z":1,"\u007a":2}`:             errTwice,
		`{"z":[{"a":{"b":1,"b":2}}]}`:    errTwice,
		`[]`:                             Malformed("The body must be a JSON object."),
		`{"z":"\ud800"}`:                 errHalf,
		`{"z":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`: errDeep,
		`{"tags":[` + strings.Repeat("0,", MaxValues) + `0]}`:                         errMany,
	} {
		_, err := ParseFor(newSample(), []byte(body))
		is.Equal(err, want)
	}
}
