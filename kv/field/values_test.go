package field

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
)

// A reading is one value that an input gives to a field, with the variable's
// content afterwards or the reason for the refusal.
type reading[T any] struct {
	name string
	in   any
	want T
	why  string
}

// testReadings gives every value to a field that holds start, by a create and
// by a patch. Accepted values must read back from their JSON.
func testReadings[T any](t *testing.T, start T, bind func(*Set, *T), readings []reading[T]) {
	t.Helper()
	for _, r := range readings {
		t.Run(r.name, func(t *testing.T) {
			is := is.New(t)
			var want error
			if r.why != "" {
				want, r.want = Problems{"it": r.why}, start
			}
			v := start
			set := new(Set)
			bind(set, &v)
			is.Equal(set.Create(Object{"it": r.in}), want)
			is.Equal(v, r.want)
			v = start
			is.Equal(set.Patch(Object{"it": r.in}), want)
			is.Equal(v, r.want)
			if want != nil || set.Fields()[0].Traits&WriteOnly != 0 {
				return
			}
			stored := set.AppendJSON(nil)
			v = start
			is.NoErr(set.Load(stored))
			is.Equal(v, r.want)
		})
	}
}

const (
	noText = "must be text"
	hasNUL = "must not contain the NUL character"
	badUTF = "must be valid UTF-8"
)

func TestText(t *testing.T) {
	const long = "must be at most 512 characters long"
	testReadings(t, "old", func(s *Set, p *string) { s.Text("it", p, 512) }, []reading[string]{
		{"empty", "", "", ""},
		{"as given", " a\tb\r\n ", " a\tb\r\n ", ""},
		{"512 letters", strings.Repeat("a", 512), strings.Repeat("a", 512), ""},
		{"513 letters", strings.Repeat("a", 513), "", long},
		{"512 characters of 4 bytes", strings.Repeat("😀", 512), strings.Repeat("😀", 512), ""},
		{"513 characters of 4 bytes", strings.Repeat("😀", 513), "", long},
		{"512 combining characters", strings.Repeat("\u0301", 512), strings.Repeat("\u0301", 512), ""},
		{"513 of one letter and marks", "e" + strings.Repeat("\u0301", 512), "", long},
		{"NUL", "a\x00b", "", hasNUL},
		{"only NUL", "\x00", "", hasNUL},
		{"other controls", "\x01\x7f\u0085", "\x01\x7f\u0085", ""},
		{"invalid UTF-8 in a form", "a\xff", "", badUTF},
		{"number", json.Number("5"), "", noText},
		{"boolean", true, "", noText},
		{"list", []any{"a"}, "", noText},
		{"object", Object{"a": "b"}, "", noText},
	})
	t.Run("8192 characters", func(t *testing.T) {
		testReadings(t, "old", func(s *Set, p *string) { s.Text("it", p, 8192) }, []reading[string]{
			{"8192", strings.Repeat("é", 8192), strings.Repeat("é", 8192), ""},
			{"8193", strings.Repeat("é", 8193), "", "must be at most 8192 characters long"},
		})
	})
}

func TestLongText(t *testing.T) {
	const long = "must be at most 1048576 bytes long"
	testReadings(t, "old", func(s *Set, p *string) { s.LongText("it", p, 1<<20) }, []reading[string]{
		{"empty", "", "", ""},
		{"as given", " # a\r\n\tb ", " # a\r\n\tb ", ""},
		{"1 MiB", strings.Repeat("a", 1<<20), strings.Repeat("a", 1<<20), ""},
		{"1 MiB and 1", strings.Repeat("a", 1<<20+1), "", long},
		{"1 MiB of 4-byte characters", strings.Repeat("😀", 1<<18), strings.Repeat("😀", 1<<18), ""},
		{"1 MiB and 1 of 4-byte characters", strings.Repeat("😀", 1<<18) + "a", "", long},
		{"NUL", "a\x00", "", hasNUL},
		{"invalid UTF-8 in a form", "\xc3", "", badUTF},
		{"number", json.Number("5"), "", noText},
		{"boolean", false, "", noText},
		{"list", []any{}, "", noText},
		{"object", Object{}, "", noText},
	})
}

func TestName(t *testing.T) {
	const control = "must not contain control characters"
	testReadings(t, "old", func(s *Set, p *string) { s.Name("it", p, 8) }, []reading[string]{
		{"empty", "", "", ""},
		{"blank", " \t\n", "", ""},
		{"plain", "a b", "a b", ""},
		{"trimmed", "  a ", "a", ""},
		{"folded", "a \t\r\n\v\f  b", "a b", ""},
		{"folded, other scripts", "a\u00a0\u0085\u2003\u3000b", "a b", ""},
		{"8 characters when folded", " é  é\u2003é   é ééé ", "", "must be at most 8 characters long"},
		{"8 characters", "  éééé   ééé ", "éééé ééé", ""},
		{"9 characters", "ééééééééé", "", "must be at most 8 characters long"},
		{"NUL", "a\x00", "", hasNUL},
		{"bell", "a\ab", "", control},
		{"escape", "\x1b[31m", "", control},
		{"delete", "\x7f", "", control},
		{"C1 control", "a\u009bb", "", control},
		{"invalid UTF-8 in a form", "\xff", "", badUTF},
		{"number", json.Number("5"), "", noText},
		{"list", []any{}, "", noText},
	})
}

func TestSecret(t *testing.T) {
	start := Secret{false, "old"}
	testReadings(t, start, func(s *Set, p *Secret) { s.Secret("it", p) }, []reading[Secret]{
		{"removed", "", Secret{true, ""}, ""},
		{"as given", " open\tsesame ", Secret{true, " open\tsesame "}, ""},
		{"1024 bytes", strings.Repeat("a", 1024), Secret{true, strings.Repeat("a", 1024)}, ""},
		{"1025 bytes", strings.Repeat("a", 1025), start, "must be at most 1024 bytes long"},
		{"1026 bytes in 513 characters", strings.Repeat("é", 513), start, "must be at most 1024 bytes long"},
		{"NUL", "a\x00", start, hasNUL},
		{"number", json.Number("1234"), start, noText},
		{"boolean", true, start, noText},
		{"list", []any{}, start, noText},
	})
	t.Run("null", func(t *testing.T) {
		is := is.New(t)
		p := start
		set := new(Set)
		set.Secret("it", &p)
		is.NoErr(set.Create(Object{"it": nil}))
		is.NoErr(set.Patch(Object{}))
		is.Equal(p, start)
		is.NoErr(set.Patch(Object{"it": nil}))
		is.Equal(p, Secret{true, ""})
	})
}

func TestURL(t *testing.T) {
	const (
		notWeb  = "must be an absolute http or https address"
		hasUser = "must not carry a user name or a password"
		control = "must not contain control characters or backslashes"
		long    = "must be at most 8192 bytes long"
		badPort = "must have a port from 1 to 65535, or none"
	)
	fill := func(before string, n int) string { return before + strings.Repeat("a", n-len(before)) }
	testReadings(t, "old", func(s *Set, p *string) { s.URL("it", p) }, []reading[string]{
		{"empty", "", "", ""},
		{"plain", "https://example.org/a/b?c=d#e", "https://example.org/a/b?c=d#e", ""},
		{"no path", "http://example.org", "http://example.org", ""},
		{"upper case", "HTTPS://EXAMPLE.Org/Path?Query#Part", "https://example.org/Path?Query#Part", ""},
		{"port", "http://example.org:8080/", "http://example.org:8080/", ""},
		{"IPv4", "http://127.0.0.1/", "http://127.0.0.1/", ""},
		{"IPv6", "http://[::1]:80/", "http://[::1]:80/", ""},
		{"IPv6, upper case", "http://[FE80::A]/", "http://[fe80::a]/", ""},
		{"at sign in the path", "http://a/@b", "http://a/@b", ""},
		{"at sign in the query", "http://a?x@b", "http://a?x@b", ""},
		{"escapes kept", "http://a/%2F%c3%A9", "http://a/%2F%c3%A9", ""},
		{"another script in the path", "http://a/é?é#é", "http://a/é?é#é", ""},
		{"another script in the host", "http://É.Example/", "http://É.example/", ""},
		{"a letter whose lower case is k", "http://\u212aist.example/", "http://\u212aist.example/", ""},
		{"a letter whose lower case is i", "http://\u0130.example/", "http://\u0130.example/", ""},
		{"empty query", "http://a/?", "http://a/?", ""},
		{"dots kept", "http://a/../b/./c", "http://a/../b/./c", ""},
		{"backslash in the query", `http://a/?x=\b`, `http://a/?x=\b`, ""},
		{"backslash in the fragment", `http://a/#\b`, `http://a/#\b`, ""},
		{"8192 bytes", fill("http://a/", 8192), fill("http://a/", 8192), ""},
		{"8193 bytes", fill("http://a/", 8193), "", long},
		{"longer when escaped", "http://a/" + strings.Repeat("\u202e", 2000), "", long},
		{"second #", "https://matrix.to/#/#room:x", "https://matrix.to/#/#room:x", ""},
		{"marks in the fragment", "http://a/#a#b?c[d]{e}", "http://a/#a#b?c[d]{e}", ""},
		{"marks in the path", "http://a/b|c{d}^[e]", "http://a/b|c{d}^[e]", ""},
		{"stray percent", "http://a/50%-off", "http://a/50%-off", ""},
		{"stray percent at the end", "http://a/#100%", "http://a/#100%", ""},
		{"stray percent in the query", "http://a/?q=100%", "http://a/?q=100%", ""},
		{"stray percent in the host", "http://a%-b/", "", notWeb},
		{"punycode", "https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/", ""},
		{"escaped letters of another script in the host", "https://b%C3%BCcher.example/", "https://bücher.example/", ""},
		{"direction in the path", "http://a/\u202eb", "http://a/%E2%80%AEb", ""},
		{"direction in the host", "http://\u202eb/", "", control},
		{"spaces around", " http://a/ ", "http://a/", ""},

		{"javascript", "javascript:alert(1)", "", notWeb},
		{"javascript, mixed case", "JaVaScRiPt:alert(1)", "", notWeb},
		{"javascript after a tab", "\tjavascript:alert(1)", "", notWeb},
		{"javascript with a tab", "java\tscript:alert(1)", "", notWeb},
		{"javascript with a host", "javascript://example.org/%0aalert(1)", "", notWeb},
		{"vbscript", "vbscript:x", "", notWeb},
		{"data", "data:text/html,x", "", notWeb},
		{"file", "file:///etc/passwd", "", notWeb},
		{"ftp", "ftp://example.org/", "", notWeb},
		{"chrome", "chrome://newtab", "", notWeb},
		{"blob", "blob:https://example.org/x", "", notWeb},
		{"no scheme", "//evil.example/", "", notWeb},
		{"only a host", "example.org", "", notWeb},
		{"host and port", "example.org:80", "", notWeb},
		{"path", "/a", "", notWeb},
		{"one slash", "https:/evil.example", "", notWeb},
		{"no slash", "https:evil.example", "", notWeb},
		{"three slashes", "https:///evil.example", "", notWeb},
		{"backslashes for slashes", `https:\\evil.example`, "", notWeb},
		{"only a scheme", "http://", "", notWeb},
		{"only a port", "http://:80/", "", notWeb},
		{"bad port", "http://a:b/", "", notWeb},
		{"port 0", "http://a:0/", "", badPort},
		{"first port", "http://a:1/", "http://a:1/", ""},
		{"last port", "http://a:65535/", "http://a:65535/", ""},
		{"port 65536", "http://a:65536/", "", badPort},
		{"IPv6 without an end", "http://[::1/", "", notWeb},
		{"byte order mark before", "\ufeffhttp://a/", "", notWeb},
		{"space in the host", "http://a b/", "", notWeb},
		{"escaped space in the host", "http://a%20b/", "", notWeb},
		{"escaped letter in the host", "http://%61/", "", notWeb},
		{"backslash in the host", `http://evil.example\.good.example/`, "", notWeb},
		{"backslash before a user name", `http://evil.example\@good.example/?x`, "", notWeb},
		{"bad escape", "http://a/%zz", "http://a/%zz", ""},
		{"line end", "http://a/\r\nSet-Cookie: x", "", notWeb},
		{"line end after", "http://a/\n", "", notWeb},
		{"delete", "http://a/\x7f", "", notWeb},
		{"user name", "http://a@b", "", hasUser},
		{"empty user name", "http://@b", "", hasUser},
		{"password", "http://a:b@c/", "", hasUser},
		{"host for a user name", "https://good.example:443@evil.example/", "", hasUser},
		{"C1 control in the path", "http://a/\u0085", "", control},
		{"C1 control in the query", "http://a/?\u009b", "", control},
		{"C1 control in the host", "http://a\u0085/", "", control},
		{"backslash in the path", `http://a/b\c`, "", control},
		{"backslash at the start of the path", `http://a/\evil.example`, "", control},
		{"backslash in the path, with a query", `http://a/\evil.example?x`, "", control},
		{"backslash in the path, with a fragment", `http://a/\evil.example#x`, "", control},
		{"NUL", "http://a/\x00", "", hasNUL},
		{"invalid UTF-8 in a form", "http://a/\xff", "", badUTF},
		{"number", json.Number("5"), "", noText},
		{"boolean", true, "", noText},
		{"list", []any{"http://a/"}, "", noText},
	})
}

// TestSentURL: programs get addresses in ASCII that they can read.
func TestSentURL(t *testing.T) {
	is := is.New(t)
	for kept, sent := range map[string]string{
		"https://bücher.example/ä?ö#ü":  "https://xn--bcher-kva.example/%C3%A4?%C3%B6#%C3%BC",
		"https://🦊💻.ws:8443/get":        "https://xn--3s8h30f.ws:8443/get",
		"https://matrix.to/#/#room:x":   "https://matrix.to/#/#room:x",
		"http://a/50%-off?q=100%#100%":  "http://a/50%25-off?q=100%#100%25",
		"http://a/%2F%c3":               "http://a/%2F%c3",
		`http://a/b c"<d>`:              "http://a/b%20c%22%3Cd%3E",
		"http://[::1]:80/":              "http://[::1]:80/",
		"http://a":                      "http://a",
		"http://under_score.example/?x": "http://under_score.example/?x",
	} {
		is.Equal(SentURL(kept), sent)
	}
}

func TestBool(t *testing.T) {
	const why = "must be true or false"
	for _, start := range []bool{false, true} {
		testReadings(t, start, func(s *Set, p *bool) { s.Bool("it", p) }, []reading[bool]{
			{"true", true, true, ""},
			{"false", false, false, ""},
			{"the text true", "true", true, ""},
			{"the text false", "false", false, ""},
			{"empty", "", false, why},
			{"upper case", "TRUE", false, why},
			{"space around", " true", false, why},
			{"on", "on", false, why},
			{"text 1", "1", false, why},
			{"number 1", json.Number("1"), false, why},
			{"number 0", json.Number("0"), false, why},
			{"list", []any{true}, false, why},
			{"object", Object{}, false, why},
		})
	}
}

// number is text that can be a number in JSON and in a form.
type number struct {
	text string
	want int64
	ok   bool
}

func testNumbers(t *testing.T, start int64, why string, bind func(*Set, *int64), numbers []number) {
	t.Helper()
	var readings []reading[int64]
	for _, n := range numbers {
		say := why
		if n.ok {
			say = ""
		}
		readings = append(readings,
			reading[int64]{"number " + n.text, json.Number(n.text), n.want, say},
			reading[int64]{"text " + n.text, n.text, n.want, say})
	}
	for name, v := range map[string]any{
		"true": true, "false": false, "list": []any{json.Number("5")}, "object": Object{},
	} {
		readings = append(readings, reading[int64]{name, v, 0, why})
	}
	testReadings(t, start, bind, readings)
}

// noNumbers are refused by every field that holds a number.
var noNumbers = []number{
	{text: ""},
	{text: "1.5"},
	{text: "1_000"},
	{text: "1,000"},
	{text: "0x10"},
	{text: "010"},
	{text: "+5"},
	{text: " 5"},
	{text: "5 "},
	{text: "5\n"},
	{text: "5e0 "},
	{text: "5\x00"},
	{text: "5."},
	{text: ".5"},
	{text: "5e"},
	{text: "e5"},
	{text: "-"},
	{text: "--5"},
	{text: "5 6"},
	{text: "five"},
	{text: "５"},
	{text: "NaN"},
	{text: "Infinity"},
	{text: "-inf"},
	{text: "null"},
	{text: "true"},
	{text: `"5"`},
	{text: "[5]"},
	{text: "1e309"},
	{text: "1e999999999"},
	{text: "1e99999999999999999999"},
	{text: "1e-999999999"},
	{text: "5e-99999999999999999999"},
	{text: "9007199254740993"},    // one more than a float64 holds
	{text: "9007199254740992.5"},  // and rounds to
	{text: "9223372036854775807"}, // int64
	{text: "9223372036854775808"},
	{text: "18446744073709551617"},     // 1 after the wrap
	{text: "0.99999999999999999999"},   // a float64 reads 1
	{text: "1.00000000000000000001"},   // too
	{text: "5.0000000000000000000001"}, // and 5
	{text: "2147483646.9999999999999"},
	{text: "123e-2"},
	{text: "0." + strings.Repeat("0", 39)}, // too long
	{text: "1" + strings.Repeat("0", 100_000)},
}

func TestCount(t *testing.T) {
	testNumbers(t, 7, "must be a whole number from 1 to 2147483647", func(s *Set, p *int64) { s.Count("it", p) },
		append([]number{
			{"1", 1, true},
			{"5", 5, true},
			{"2147483647", 2147483647, true},
			{"3.0", 3, true},
			{"3.000000000000000000", 3, true},
			{"1e2", 100, true},
			{"1E+2", 100, true},
			{"1.5e1", 15, true},
			{"120e-1", 12, true},
			{"0.00000000000000000001e20", 1, true},
			{"2.147483647e9", 2147483647, true},
			{"0", 0, false},
			{"-0", 0, false},
			{"0.0", 0, false},
			{"0e5", 0, false},
			{"-1", 0, false},
			{"-1e0", 0, false},
			{"2147483648", 0, false},
			{"2147483647.5", 0, false},
			{"4294967297", 0, false}, // 1 in 32 bits
		}, noNumbers...))
}

func TestNumber(t *testing.T) {
	testNumbers(t, 7, "must be a whole number from -9007199254740992 to 9007199254740992",
		func(s *Set, p *int64) { s.Number("it", p, -1<<53, 1<<53) },
		append([]number{
			{"0", 0, true},
			{"-0", 0, true},
			{"0.000", 0, true},
			{"0." + strings.Repeat("0", 38), 0, true},
			{"0e-5", 0, true},
			{"-0.0e-99999999999999999999", 0, true},
			{"0e999999999", 0, true},
			{"-1", -1, true},
			{"-12.0", -12, true},
			{"-1.2e1", -12, true},
			{"9007199254740991", 1<<53 - 1, true},
			{"9007199254740992", 1 << 53, true},
			{"9007199254740992.00", 1 << 53, true},
			{"-9007199254740992", -1 << 53, true},
			{"-9007199254740993", 0, false},
			{"-9223372036854775808", 0, false},
		}, noNumbers...))
}

// No field takes a number that some reader of JSON rounds.
func TestNumberOfAnySize(t *testing.T) {
	testNumbers(t, 7, "must be a whole number from 0 to 9223372036854775807",
		func(s *Set, p *int64) { s.Number("it", p, 0, math.MaxInt64) },
		append([]number{{"9007199254740992", 1 << 53, true}}, noNumbers...))
}

func TestMaybeNumber(t *testing.T) {
	testNumbers(t, -1, "must be a whole number from 0 to 10", func(s *Set, p *int64) { s.MaybeNumber("it", p, 0, 10) },
		append([]number{
			{"0", 0, true},
			{"-0", 0, true},
			{"10", 10, true},
			{"1e1", 10, true},
			{"-1", 0, false}, // the stored form of null is not valid input
			{"11", 0, false},
		}, noNumbers...))
}

func TestTime(t *testing.T) {
	const why = "must be a date-time with a zone, such as 2026-12-31T18:00:00Z, or a date such as 2026-12-31"
	var none time.Time
	at := func(y int, m time.Month, d, h, min, s, ms int) time.Time {
		return time.Date(y, m, d, h, min, s, ms*1e6, time.UTC)
	}
	testReadings(t, at(2000, 1, 1, 0, 0, 0, 0), func(s *Set, p *time.Time) { s.Time("it", p) }, []reading[time.Time]{
		{"UTC", "2026-12-31T18:00:00Z", at(2026, 12, 31, 18, 0, 0, 0), ""},
		{"milliseconds", "2026-12-31T18:00:00.123Z", at(2026, 12, 31, 18, 0, 0, 123), ""},
		{"nanoseconds are cut", "2026-12-31T18:00:00.999999999Z", at(2026, 12, 31, 18, 0, 0, 999), ""},
		{"many digits are cut", "2026-12-31T18:00:00.1239999999999999999999Z", at(2026, 12, 31, 18, 0, 0, 123), ""},
		{"east", "2026-12-31T18:00:00+05:30", at(2026, 12, 31, 12, 30, 0, 0), ""},
		{"west, into the next year", "2026-12-31T18:00:00-08:00", at(2027, 1, 1, 2, 0, 0, 0), ""},
		{"zero zone", "2026-12-31T18:00:00-00:00", at(2026, 12, 31, 18, 0, 0, 0), ""},
		{"widest zone", "2026-12-31T23:59:00+23:59", at(2026, 12, 31, 0, 0, 0, 0), ""},
		{"no seconds", "2026-12-31T18:00Z", at(2026, 12, 31, 18, 0, 0, 0), ""},
		{"no seconds, east", "2026-12-31T18:00+05:30", at(2026, 12, 31, 12, 30, 0, 0), ""},
		{"basic", "20261231T180000Z", at(2026, 12, 31, 18, 0, 0, 0), ""},
		{"basic, minutes alone", "20261231T1800Z", at(2026, 12, 31, 18, 0, 0, 0), ""},
		{"basic, with a fraction and a zone", "20261231T180000.123+0100", at(2026, 12, 31, 17, 0, 0, 123), ""},
		{"zone without a colon", "2026-12-31T18:00:00+0100", at(2026, 12, 31, 17, 0, 0, 0), ""},
		{"zone of hours alone", "2026-12-31T18:00:00-08", at(2027, 1, 1, 2, 0, 0, 0), ""},
		{"comma before the fraction", "2026-12-31T18:00:00,5Z", at(2026, 12, 31, 18, 0, 0, 500), ""},
		{"only a date", "2026-12-31", at(2026, 12, 31, 23, 59, 59, 999), ""},
		{"only a date, basic", "20280229", at(2028, 2, 29, 23, 59, 59, 999), ""},
		{"the last day", "9999-12-31", at(9999, 12, 31, 23, 59, 59, 999), ""},
		{"leap day", "2028-02-29T00:00:00Z", at(2028, 2, 29, 0, 0, 0, 0), ""},
		{"before 1970", "1900-01-01T00:00:00.001Z", at(1900, 1, 1, 0, 0, 0, 1), ""},
		{"first", "0001-01-01T00:00:00.001Z", at(1, 1, 1, 0, 0, 0, 1), ""},
		{"last", "9999-12-31T23:59:59.999Z", at(9999, 12, 31, 23, 59, 59, 999), ""},

		{"empty", "", none, why},
		{"no zone", "2026-12-31T18:00:00", none, why},
		{"half a day", "2026-12-3", none, why},
		{"a day that is not there", "2026-02-30", none, why},
		{"hours alone", "2026-12-31T18Z", none, why},
		{"no zone, basic", "20261231T180000", none, why},
		{"no zone after minutes", "2026-12-31T18:00", none, why},
		{"one digit of an hour, minutes alone", "2026-12-31T8:00Z", none, why},
		{"odd digits, basic", "20261231T18000Z", none, why},
		{"lower case", "2026-12-31t18:00:00z", none, why},
		{"fraction of a minute", "2026-12-31T18:00.5Z", none, why},
		{"two zones", "2026-12-31T18:00:00+01:00Z", none, why},
		{"space for T", "2026-12-31 18:00:00Z", none, why},
		{"space before", " 2026-12-31T18:00:00Z", none, why},
		{"text after", "2026-12-31T18:00:00Zx", none, why},
		{"30 February", "2026-02-30T00:00:00Z", none, why},
		{"29 February of a common year", "2026-02-29T00:00:00Z", none, why},
		{"month 13", "2026-13-01T00:00:00Z", none, why},
		{"day 0", "2026-01-00T00:00:00Z", none, why},
		{"hour 24", "2026-12-31T24:00:00Z", none, why},
		{"one digit of an hour", "2026-12-31T8:00:00Z", none, why},
		{"minute 60", "2026-12-31T18:60:00Z", none, why},
		{"leap second", "2016-12-31T23:59:60Z", none, why},
		{"zone of 24 hours", "2026-12-31T18:00:00+24:00", none, why},
		{"zone of 25 hours", "2026-12-31T18:00:00+25:00", none, why},
		{"zone of 60 minutes", "2026-12-31T18:00:00+01:60", none, why},
		{"zone of 24 hours, basic", "20261231T180000+2400", none, why},
		{"name of a zone", "2026-12-31T18:00:00 UTC", none, why},
		{"year 0", "0000-12-31T18:00:00Z", none, why},
		{"year 0 in UTC", "0001-01-01T00:00:00+01:00", none, why},
		{"the zero time", "0001-01-01T00:00:00Z", none, why},
		{"the zero time when cut", "0001-01-01T00:00:00.0009Z", none, why},
		{"year 10000", "10000-01-01T00:00:00Z", none, why},
		{"year 10000 in UTC", "9999-12-31T23:59:59-01:00", none, why},
		{"negative year", "-2026-12-31T18:00:00Z", none, why},
		{"week", "2026-W53-4", none, why},
		{"seconds as text", "1798740000", none, why},
		{"seconds", json.Number("1798740000"), none, why},
		{"boolean", true, none, why},
		{"list", []any{}, none, why},
		{"64 bytes", "2026-12-31T18:00:00." + strings.Repeat("0", 43) + "Z", at(2026, 12, 31, 18, 0, 0, 0), ""},
		{"65 bytes", "2026-12-31T18:00:00." + strings.Repeat("0", 44) + "Z", none, why},
		{"1 MiB", "2026-12-31T18:00:00." + strings.Repeat("0", 1<<20) + "Z", none, why},
		{"NUL", "2026-12-31T18:00:00Z\x00", none, why},
	})
}

func TestChoice(t *testing.T) {
	const why = "must be one of: wishlist, playing, finished"
	for _, bind := range []func(*Set, *word){
		func(s *Set, p *word) { Choice(s, "it", p, words) },
		func(s *Set, p *word) { MaybeChoice(s, "it", p, words) },
	} {
		testReadings(t, "playing", bind, []reading[word]{
			{"first", "wishlist", "wishlist", ""},
			{"last", "finished", "finished", ""},
			{"empty", "", "", why},
			{"upper case", "Wishlist", "", why},
			{"space around", "wishlist ", "", why},
			{"two", "wishlist, playing", "", why},
			{"another", "dropped", "", why},
			{"invalid UTF-8", "\xff", "", why},
			{"number", json.Number("1"), "", why},
			{"boolean", true, "", why},
			{"list", []any{"wishlist"}, "", why},
		})
	}
}

func TestRuled(t *testing.T) {
	const why = "must be a word"
	testReadings(t, "old", func(s *Set, p *string) { s.Ruled("it", p, lower, "", 16) }, []reading[string]{
		{"empty, unseen by the rule", "", "", ""},
		{"as the rule says", " Red ", "red", ""},
		{"refused by the rule", "a,b", "", why},
		{"blank", " ", "", why},
		{"NUL", "\x00", "", hasNUL},
		{"invalid UTF-8 in a form", "\xff", "", badUTF},
		{"number", json.Number("1"), "", noText},
		{"list", []any{}, "", noText},
	})
}

func TestTexts(t *testing.T) {
	const (
		noList = "must be a list of texts"
		many   = "must have at most 3 entries"
	)
	testReadings(t, []string{"old"}, func(s *Set, p *[]string) { s.Texts("it", p, lower, 3, 16) }, []reading[[]string]{
		{"none", []any{}, []string{}, ""},
		{"some", []any{"A", " b "}, []string{"a", "b"}, ""},
		{"most", []any{"a", "b", "c"}, []string{"a", "b", "c"}, ""},
		{"one too many", []any{"a", "b", "c", "d"}, nil, many},
		{"twice the same", []any{"a", "A"}, []string{"a", "a"}, ""}, // the caller decides what that means
		{"number", json.Number("1"), nil, noList},
		{"boolean", true, nil, noList},
		{"object", Object{}, nil, noList},
		{"number in it", []any{"a", json.Number("1")}, nil, "has a bad entry: number 2 must be text"},
		{"null in it", []any{nil}, nil, "has a bad entry: number 1 must be text"},
		{"list in it", []any{[]any{"a"}}, nil, "has a bad entry: number 1 must be text"},
		{"NUL in it", []any{"a", "\x00"}, nil, "has a bad entry: number 2 " + hasNUL},
		{"empty text in it", []any{""}, nil, "has a bad entry: number 1 must be a word"},
		{"refused by the rule", []any{"a", "b", "c,d"}, nil, "has a bad entry: number 3 must be a word"},

		{"form, none", "", []string{}, ""},
		{"form, one", "a", []string{"a"}, ""},
		{"form, some", "A, b ,c", []string{"a", "b", "c"}, ""},
		{"form, empty parts", " , a,,b,", []string{"a", "b"}, ""},
		{"form, too many", "a,b,c,d", nil, many},
		{"form, 50000 commas", strings.Repeat(",", 50_000), []string{}, ""},
		{"form, 50000 names", strings.Repeat("a,", 50_000), nil, many},
		{"form, NUL", "a,\x00", nil, hasNUL},
		{"form, invalid UTF-8", "a,\xff", nil, badUTF},
		{"form, JSON", ` ["A","b"] `, []string{"a", "b"}, ""},
		{"form, JSON, none", `[]`, []string{}, ""},
		{"form, JSON with a comma in a text", `["a,b"]`, nil, "has a bad entry: number 1 must be a word"},
		{"form, JSON with a number", `[1]`, nil, "has a bad entry: number 1 must be text"},
		{"form, JSON with null", `[null]`, nil, "has a bad entry: number 1 must be text"},
		{"form, JSON with NUL", `["\u0000"]`, nil, "has a bad entry: number 1 " + hasNUL},
		{"form, half of a surrogate pair", `["\ud800"]`, nil, noList},
		{"form, invalid UTF-8 in JSON", "[\"\xff\"]", nil, badUTF},
		{"form, JSON too long", `["a","b","c","d"]`, nil, many},
		{"form, JSON without an end", `["a"`, nil, noList},
		{"form, JSON and more", `["a"],["b"]`, nil, noList},
		{"form, nested", strings.Repeat("[", 100_000), nil, noList},
	})
}

func TestIDs(t *testing.T) {
	const a, b = "01890a5d-ac96-774b-bcce-b302099a8057", "00000000-0000-0000-0000-000000000000"
	testReadings(t, []string{"old"}, func(s *Set, p *[]string) { s.IDs("it", p, 2) }, []reading[[]string]{
		{"none", []any{}, []string{}, ""},
		{"some", []any{strings.ToUpper(a), b}, []string{a, b}, ""},
		{"too many", []any{a, a, a}, nil, "must have at most 2 entries"},
		{"no id", []any{a, "x"}, nil, "has a bad entry: number 2 must be a UUID"},
		{"empty", []any{""}, nil, "has a bad entry: number 1 must be a UUID"},
		{"number", json.Number("1"), nil, "must be a list of texts"},
		{"form", a + "," + b, []string{a, b}, ""},
		{"form, JSON", `["` + a + `"]`, []string{a}, ""},
	})
}

func TestID(t *testing.T) {
	const a, why = "01890a5d-ac96-774b-bcce-b302099a8057", "must be a UUID"
	id := uuid.MustParse(a)
	testReadings(t, uuid.Max, func(s *Set, p *uuid.UUID) { s.ID("it", p) }, []reading[uuid.UUID]{
		{"plain", a, id, ""},
		{"upper case", strings.ToUpper(a), id, ""},
		{"empty", "", uuid.Nil, ""},
		{"zero", uuid.Nil.String(), uuid.Nil, ""},
		{
			"any version", "ffffffff-ffff-ffff-ffff-fffffffffffe", uuid.UUID(append(append([]byte{}, uuid.Max[:15]...), 0xfe)),
			"",
		},
		{"no hyphens", strings.ReplaceAll(a, "-", ""), id, why},
		{"braces", "{" + a + "}", id, why},
		{"URN", "urn:uuid:" + a, id, why},
		{"short", a[1:], id, why},
		{"long", a + "0", id, why},
		{"space before", " " + a, id, why},
		{"no hex digit", "g" + a[1:], id, why},
		{"hyphen moved", "0189-0a5dac96-774b-bcce-b302099a8057", id, why},
		{"NUL", a + "\x00", id, hasNUL},
		{"number", json.Number("1"), id, noText},
		{"list", []any{a}, id, noText},
	})
}

func TestShown(t *testing.T) {
	is := is.New(t)
	set := new(Set)
	set.Shown("it", Schema{Type: "object", Free: true}, func(dst []byte) []byte { return append(dst, `{"a":1}`...) })
	for _, v := range []any{nil, "x", true} {
		is.NoErr(set.Create(Object{"it": v}))
		is.NoErr(set.Patch(Object{"it": v}))
	}
	is.NoErr(set.Load([]byte(`{"it":5}`)))
	is.Equal(string(set.AppendJSON(nil)), `{"it":{"a":1}}`)
	is.Equal(set.Fields()[0].Schema(), Schema{Type: "object", Free: true})
	is.Equal(set.Fields()[0].Traits, ReadOnly)
}

// TestAppendTime compares it with the library for all years.
func TestAppendTime(t *testing.T) {
	is := is.New(t)
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(
		9999, 12, 31, 23, 59, 59, 999e6, time.UTC,
	).UnixMilli()
	for ms := first; ms < last; ms += (last - first) / 9973 {
		at := time.UnixMilli(ms).UTC()
		is.Equal(string(appendTime(nil, at)), at.Format(TimeLayout))
	}
	is.Equal(string(appendTime(nil, time.UnixMilli(last).UTC())), "9999-12-31T23:59:59.999Z")
}
