package record_test

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/record"
)

// rule is a row of a table: the output of a rule for a text. An empty want
// means that the text is refused.
type rule struct{ name, in, want string }

func checkRule(t *testing.T, clean func(string) (string, error), rows []rule) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			got, err := clean(row.in)
			is.Equal(got, row.want)
			is.Equal(err == nil, row.want != "")
			if err == nil {
				again, err := clean(got)
				is.NoErr(err)
				is.Equal(again, got) // a rule does not change its own output
			}
		})
	}
}

func TestCleanSlug(t *testing.T) {
	longest := strings.Repeat("a", record.MaxSlug)
	checkRule(t, record.CleanSlug, []rule{
		{"plain", "summer-24", "summer-24"},
		{"one character", "q", "q"},
		{"one digit", "7", "7"},
		{"case counts", "Summer", "Summer"},
		{"all signs", "a._~@-", "a._~@-"},
		{"dots inside", "a..b", "a..b"},
		{"longest", longest, longest},
		{"too long", longest + "a", ""},
		{"empty", "", ""},
		{"dot", ".", ""},
		{"two dots", "..", ""},
		{"sign first", "-a", ""},
		{"at first", "@a", ""},
		{"slash", "a/b", ""},
		{"backslash", `a\b`, ""},
		{"space", "a b", ""},
		{"space at the end", "a ", ""},
		{"percent", "a%2fb", ""},
		{"NUL", "a\x00", ""},
		{"invalid UTF-8", "a\xff\xfe", ""},
		{"accent composed", "caf\u00e9", ""},
		{"accent decomposed", "cafe\u0301", ""},
		{"Cyrillic a", "\u0430bc", ""},
		{"zero-width joiner", "a\u200db", ""},
		{"10 kB", strings.Repeat("a", 10_000), ""},
		{"reserved", "api", ""},
		{"reserved in another case", "API", ""},
		{"reserved file", "favicon.ico", ""},
		{"reserved route", "upload-requests", ""},
		{"reserved word inside", "api-docs", "api-docs"},
		{"id", "01890a5d-ac96-774b-bcce-b302099a8057", ""},
		{"id in capitals", "01890A5D-AC96-774B-BCCE-B302099A8057", ""},
		{"id without dashes", "01890a5dac96774bbcceb302099a8057", ""},
		{"nearly an id", "01890a5d-ac96-774b-bcce-b302099a805", "01890a5d-ac96-774b-bcce-b302099a805"},
	})
	for _, w := range []string{
		"queue", "p", "x", "v", "s", "t", "g", "up", "device", "healthz", "tus", "search", "robots.txt", "sw.js",
		"well-known",
	} {
		t.Run("reserved "+w, func(t *testing.T) {
			is := is.New(t)
			_, err := record.CleanSlug(w)
			is.True(err != nil)
		})
	}
}

func TestNewSlug(t *testing.T) {
	is := is.New(t)
	fill := func(b []byte) { _, _ = rand.Read(b) }
	count, seen := map[rune]int{}, map[string]bool{}
	const n = 20_000
	for range n {
		s := record.NewSlug(fill)
		clean, err := record.CleanSlug(s)
		is.NoErr(err)
		is.Equal(clean, s)
		is.Equal(len(s), record.SlugLength)
		is.True(!strings.ContainsAny(s, "0O1lI"))
		is.True(!seen[s])
		seen[s] = true
		for _, r := range s {
			count[r]++
		}
	}
	is.Equal(len(count), 57)
	for r, c := range count { // all letters are equally likely, within 7 standard deviations
		if mean := n * record.SlugLength / 57; c < mean-7*60 || c > mean+7*60 {
			t.Errorf("%q occurs %d times, want about %d", r, c, mean)
		}
	}

	next := byte(0)
	is.Equal(record.NewSlug(func(b []byte) { // bytes that would favour some letters are skipped
		for i := range b {
			b[i] = 255 - next
			next++
		}
	}), "zyxwvutsrq")
}

func TestCleanTag(t *testing.T) {
	longest := strings.Repeat("é", record.MaxTag)
	checkRule(t, record.CleanTag, []rule{
		{"plain", "travel", "travel"},
		{"case is kept", "Travel", "Travel"},
		{"trimmed", "\t travel\n", "travel"},
		{"folded inside", "road \u00a0\u2003 trip", "road trip"},
		{"line break", "road\r\ntrip", "road trip"},
		{"composed", "cafe\u0301", "caf\u00e9"},
		{"emoji", "👩\u200d🚀", "👩\u200d🚀"},
		{"right to left", "שלום", "שלום"},
		{"longest", longest, longest},
		{"too long", longest + "e", ""},
		{"empty", "", ""},
		{"blank", " \u3000\t", ""},
		{"joiner inside", "می\u200cخواهم", "می\u200cخواهم"},
		{"mark above a letter", "x\u0301", "x\u0301"},
		{"zero width space", "\u200b", ""},
		{"word joiner", "\u2060", ""},
		{"byte order mark", "\ufeff", ""},
		{"soft hyphen", "\u00ad\u00ad", ""},
		{"fillers of Hangul", "\u3164\u115f\u1160\uffa0", ""},
		{"blank of Braille", "\u2800", ""},
		{"mark alone", "\u0301", ""},
		{"selector alone", "\ufe0f", ""},
		{"comma", "a,b", ""},
		{"NUL", "a\x00b", ""},
		{"escape", "a\x1b[31m", ""},
		{"bidi override", "a\u202eb", ""},
		{"bidi isolate", "a\u2066b", ""},
		{"invalid UTF-8", "a\xff", ""},
	})
}

func TestCleanColor(t *testing.T) {
	checkRule(t, record.CleanColor, []rule{
		{"full", "#3B82F6", "#3B82F6"},
		{"lower case", "#3b82f6", "#3B82F6"},
		{"without the sign", "3b82f6", "#3B82F6"},
		{"three digits", "#abc", "#AABBCC"},
		{"three without the sign", "abc", "#AABBCC"},
		{"no digit", "#12345g", ""},
		{"other inside", "#12x456", ""},
		{"two signs", "##abc", ""},
		{"four digits", "#abcd", ""},
		{"eight digits", "#aabbccdd", ""},
		{"name", "red", ""},
		{"empty", "", ""},
		{"sign alone", "#", ""},
		{"space", " #abc", ""},
		{"wide digits", "#\uff11\uff12\uff13", ""},
		{"script", `"><img src=x>`, ""},
	})
}

func TestCleanUserName(t *testing.T) {
	longest := strings.Repeat("a", 64)
	checkRule(t, record.CleanUserName, []rule{
		{"plain", "ann", "ann"},
		{"case is kept", "Ann", "Ann"},
		{"digit first", "7ann", "7ann"},
		{"signs", "a.b_c-d", "a.b_c-d"},
		{"longest", longest, longest},
		{"too long", longest + "a", ""},
		{"empty", "", ""},
		{"dot first", ".ann", ""},
		{"space", "ann lee", ""},
		{"at", "ann@example.org", ""},
		{"slash", "a/b", ""},
		{"accent", "Zo\u00eb", ""},
		{"NUL", "a\x00", ""},
		{"invalid UTF-8", "\xff", ""},
	})
}

func TestCleanFileName(t *testing.T) {
	long := strings.Repeat("x", 5000)
	checkRule(t, record.CleanFileName, []rule{
		{"plain", "holiday.jpg", "holiday.jpg"},
		{"Unicode", "Ünïcødé 日本.png", "Ünïcødé 日本.png"},
		{"composed", "cafe\u0301.txt", "caf\u00e9.txt"},
		{"composed once nothing is in between", "e\u200e\u0301.txt", "\u00e9.txt"},
		{"quote", `a"b.txt`, `a"b.txt`},
		{"header injection", "a\r\nSet-Cookie: x=1", "aSet-Cookie: x=1"},
		{"NUL", "a\x00b.txt", "ab.txt"},
		{"upwards", "../../x", "x"},
		{"upwards with backslashes", `..\..\a`, "a"},
		{"absolute", "/etc/passwd", "passwd"},
		{"drive", `C:\Users\ann\b.txt`, "b.txt"},
		{"mixed slashes", `a/b\c/d.txt`, "d.txt"},
		{"slash at the end", "a/", "file"},
		{"empty", "", "file"},
		{"dot", ".", "file"},
		{"two dots", "..", "file"},
		{"blank", " \u00a0 ", "file"},
		{"controls alone", "\x01\x02", "file"},
		{"hidden", ".bashrc", ".bashrc"},
		{"dots at the end", "a.txt. . .", "a.txt"},
		{"wide space before the dots", "a\u00a0.", "a"},
		{"bidi", "\u202egnp.exe", "gnp.exe"},
		{"line separator", "a\u2028b.txt", "ab.txt"},
		{"escape", "\x1b[31mred\x1b[0m.txt", "[31mred[0m.txt"},
		{"device", "CON", "_CON"},
		{"device with extension", "CON.txt", "_CON.txt"},
		{"device in small letters", "nul.tar.gz", "_nul.tar.gz"},
		{"device and space", "con .txt", "_con .txt"},
		{"port", "lpt1.doc", "_lpt1.doc"},
		{"port with a small digit", "COM¹.doc", "_COM¹.doc"},
		{"console", "CONIN$", "_CONIN$"},
		{"no device", "CONSOLE.txt", "CONSOLE.txt"},
		{"no port", "COM10", "COM10"},
		{"no port, with digits in order", "COM12.txt", "COM12.txt"},
		{"no port, without a digit", "lpt.doc", "lpt.doc"},
		{"device once it is cut", "CON" + strings.Repeat(" ", 300) + "x.txt", "_CON.txt"},
		{"long", long, long[:record.MaxFileName]},
		{"long with extension", long + ".jpeg", long[:record.MaxFileName-5] + ".jpeg"},
		{"long extension", "a." + long, "a." + long[:record.MaxFileName-2]},
		{"long in wide characters", strings.Repeat("日", 200), strings.Repeat("日", 85)},
		{"long device", "aux" + strings.Repeat(" ", 247) + ".abcd", "_aux.abcd"},
		{"invalid UTF-8", "a\xffb.txt", "a\uFFFDb.txt"},
	})
}

// checkFileName checks the output of CleanFileName for any input.
func checkFileName(t testing.TB, in string) {
	t.Helper()
	name, err := record.CleanFileName(in)
	again, err2 := record.CleanFileName(name)
	switch {
	case err != nil || err2 != nil:
		t.Errorf("%q: %v, %v", in, err, err2)
	case again != name:
		t.Errorf("%q -> %q -> %q", in, name, again)
	case name == "" || len(name) > record.MaxFileName || !utf8.ValidString(name):
		t.Errorf("%q -> %q: %d bytes", in, name, len(name))
	case strings.ContainsAny(name, `/\`) || strings.Trim(name, ". ") == "":
		t.Errorf("%q -> %q: leads elsewhere", in, name)
	case strings.ContainsFunc(name, unicode.IsControl) || strings.ContainsAny(
		name, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
	):
		t.Errorf("%q -> %q: controls left", in, name)
	}
}

func FuzzCleanFileName(f *testing.F) { f.Fuzz(func(t *testing.T, in string) { checkFileName(t, in) }) }

// fuzzRule checks that a rule does not change its own output, and that holds is
// true for it.
func fuzzRule(f *testing.F, clean func(string) (string, error), holds func(string) bool) {
	f.Fuzz(func(t *testing.T, in string) {
		out, err := clean(in)
		if err != nil {
			if out != "" {
				t.Errorf("%q: refused, and %q", in, out)
			}
			return
		}
		if again, err := clean(out); err != nil || again != out {
			t.Errorf("%q -> %q -> %q, %v", in, out, again, err)
		}
		if !holds(out) {
			t.Errorf("%q -> %q", in, out)
		}
	})
}

func FuzzCleanSlug(f *testing.F) {
	fuzzRule(f, record.CleanSlug, func(s string) bool {
		return s != "" && len(s) <= record.MaxSlug && s[0] != '.' && strings.Trim(
			s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._~@-",
		) == ""
	})
}

func FuzzCleanColor(f *testing.F) {
	fuzzRule(f, record.CleanColor, func(s string) bool {
		return len(s) == 7 && s[0] == '#' && strings.Trim(s[1:], "0123456789ABCDEF") == ""
	})
}

func FuzzCleanTag(f *testing.F) {
	fuzzRule(f, record.CleanTag, func(s string) bool {
		return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= record.MaxTag && !strings.Contains(s, ",") &&
			!strings.ContainsFunc(s, unicode.IsControl) && s == strings.TrimSpace(s)
	})
}

func TestFold(t *testing.T) {
	for _, row := range []struct{ name, a, b string }{
		{"case", "Travel", "tRAVEL"},
		{"accents", "CAFÉ", "cafe\u0301"},
		{"sharp s", "Straße", "STRASSE"},
		{"final sigma", "ΟΔΟΣ", "οδος"},
		{"Kelvin", "\u212a", "k"},
		{"Cyrillic", "МОСКВА", "москва"},
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(record.Fold(row.a), record.Fold(row.b))
			is.Equal(record.Fold(record.Fold(row.a)), record.Fold(row.a))
		})
	}
	is := is.New(t)
	is.True(record.Fold("\u0430") != record.Fold("a")) // similar is not equal
	is.Equal(record.Fold("ASCII 123"), "ascii 123")
}

func TestCleanName(t *testing.T) {
	checkRule(t, record.CleanName, []rule{
		{"plain", "Ann", "Ann"},
		{"white space", "  my\tother \n laptop ", "my other laptop"},
		{"any script", "日本 😀", "日本 😀"},
		{"longest", strings.Repeat("é", record.MaxName), strings.Repeat("é", record.MaxName)},
		{"too long", strings.Repeat("é", record.MaxName+1), ""},
		{"control character", "a\x1b[31m", ""},
		{"NUL", "a\x00b", ""},
		{"invalid UTF-8", "a\xffb", ""},
	})
}

func TestSamePage(t *testing.T) {
	is := is.New(t)
	const page = "https://example.org/a?b=1"
	for _, same := range []string{
		"https://EXAMPLE.org/a?b=1", "https://example.org:443/a/?b=1", "https://example.org/a//?b=1#", "https://example.org/a?b=1#part",
		"https://example.org/a?utm_source=x&b=1&UTM_Campaign=y", "https://example.org/a?b=1&fbclid=1&gclid", "https://example.org/a?&b=1&",
		"https://example.org/%61?b=1", "https://example.org/a?%62=%31", "https://example.org/a?si=x&b=1",
	} {
		is.Equal(record.SamePage(same), page)
		is.Equal(record.PageKey(same), record.PageKey(page))
	}
	for _, other := range []string{
		"http://example.org/a?b=1", "https://example.org/A?b=1", "https://example.org/a?b=2", "https://example.org:80/a?b=1", "nothing",
		"https://www.example.org/a?b=1", "https://example.org/a?b=1#/part", "https://example.org/a?b=1#!part", "https://example.org/a?b=1&autm_source=x", "https://example.org/a?b=1&ref=x",
	} {
		is.True(record.SamePage(other) != page)
	}
	is.Equal(record.SamePage("https://example.org/"), record.SamePage("https://example.org?"))
	is.Equal(record.SamePage("https://example.org/?utm_source=x"), "https://example.org")
	is.Equal(record.SamePage("https://example.org/#/a%2Fb"), "https://example.org#/a%2Fb")
	is.True(record.SamePage("https://example.org/a%2Fb") != record.SamePage("https://example.org/a/b"))
	is.True(record.SamePage("https://example.org/?a=b%26c") != record.SamePage("https://example.org/?a=b&c"))
	is.True(record.SamePage("https://example.org/%2541") != record.SamePage("https://example.org/%41"))
	is.True(record.SamePage("https://example.org/?si=1") != record.SamePage("https://example.org/?si=2"))
	is.True(record.SamePage("https://example.org/?a=1&a=2") != record.SamePage("https://example.org/?a=2&a=1"))
	for _, same := range [][2]string{
		{"https://example.org/a?b=2&a=1", "https://example.org/a?a=1&b=2"},
		{"https://example.org/a?b=2&a=1&b=1", "https://example.org/a?a=1&b=2&b=1"},
		{"https://example.org/%7Euser", "https://example.org/~user"},
		{"https://example.org/caf%c3%a9", "https://example.org/caf%C3%A9"},
		{"https://example.org/caf%c3%a9", "https://example.org/café"},
		{"https://example.org/?q=caf%c3%a9", "https://example.org/?q=café"},
		{"https://example.org/?q=%e4", "https://example.org/?q=%E4"},
		{"https://example.org/?q=%", "https://example.org/?q=%"},
	} {
		is.Equal(record.SamePage(same[0]), record.SamePage(same[1]))
	}
}

func TestCut(t *testing.T) {
	is := is.New(t)
	text := "añ東𐐀"
	for limit, want := range []string{"", "a", "añ", "añ東", text, text} {
		is.Equal(record.Cut(text, limit), want)
	}
	is.Equal(record.Cut("", 0), "")
}

func TestCleanTitle(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"":                          "",
		"as it is":                  "as it is",
		" two  spaces ":             " two  spaces ",
		"a\tb\nc\r\nd\re\vf\fg":     "a b c d e f g",
		"a\u2028b\u2029c\u0085d":    "a b c d",
		"non\u00a0breaking":         "non\u00a0breaking",
		"\x00bell\a\x7f":            "bell",
		"exe\u202efdp\u2066\u200f.": "exefdp.",
		"wide\u3000space":           "wide\u3000space",
	} {
		got, err := record.CleanTitle(title)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", title, got, err)
		}
	}
	is := is.New(t)
	_, err := record.CleanTitle(strings.Repeat("é", record.MaxName))
	is.NoErr(err)
	_, err = record.CleanTitle(strings.Repeat("é", record.MaxName+1))
	is.True(err != nil)
}

// A title is one line without characters that change its direction, for every
// kind and every source of a title.
func TestTitlesAreOneLine(t *testing.T) {
	const hostile, clean = `a\r\nb\tc\u202ed\u2066e\u200ef\u061cg\u2028h`, "a b cdefg h"
	bodies := map[*record.Kind]map[string]string{ // the input and its title
		record.Files:     {`{"originalName":"` + hostile + `"}`: "abcdefgh"},
		record.Bookmarks: {`{"url":"https://go.dev/","title":"` + hostile + `"}`: clean},
		record.Notes: {
			`{"content":"","title":"` + hostile + `"}`: clean, `{"content":"\u202e\n\n a\u202eb\tc\nd"}`: "ab c",
		},
		record.Snippets: {
			`{"content":"","title":"` + hostile + `"}`: clean, `{"content":"\u202e\n\n a\u202eb\tc\nd"}`: "ab c",
		},
		record.Recipes: {`{"title":"` + hostile + `"}`: clean},
		record.Games:   {`{"title":"` + hostile + `"}`: clean},
		record.Links: {
			`{"originalUrl":"https://go.dev/","description":"` + hostile + `"}`: clean,
			`{"originalUrl":"https://go.dev/x","description":"\u202e\n"}`:       "https://go.dev/x",
		},
	}
	for _, k := range record.Kinds {
		if len(bodies[k]) == 0 {
			fields := make(map[string]json.RawMessage)
			if err := json.Unmarshal([]byte(samples[k]), &fields); err != nil || fields["title"] == nil {
				t.Errorf("%s is not tested", k.Name)
			}
			fields["title"] = json.RawMessage(`"` + hostile + `"`)
			text, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			bodies[k] = map[string]string{string(text): clean}
		}
		for text, want := range bodies[k] {
			b := k.New()
			in, err := field.Parse([]byte(text))
			if err == nil {
				err = field.Create(b, in)
			}
			if err != nil || b.Title() != want {
				t.Errorf("%s %s: %q %v, want %q", k.Name, text, b.Title(), err, want)
			}
		}
	}
	in, err := field.Parse([]byte(`{"title":"` + hostile + `","folderName":"` + hostile + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	q := &inbox.RequestForm{Request: inbox.NewRequest()}
	if err := field.Create(q, in); err != nil || q.Title != clean || q.FolderName != clean {
		t.Errorf("upload request: %q %q %v", q.Title, q.FolderName, err)
	}
	folder := record.FolderForm(record.Folder{})
	in, err = field.Parse([]byte(`{"name":"` + hostile + `"}`))
	if err == nil {
		err = field.Create(folder, in)
	}
	if err != nil || folder.Name != clean {
		t.Errorf("folder: %q %v", folder.Name, err)
	}
	from := &inbox.SenderForm{}
	if err := field.Create(from, in); err != nil || from.Name != clean {
		t.Errorf("sender: %q %v", from.Name, err)
	}
}

// A host in its own script and in punycode is one host.
func TestSpellings(t *testing.T) {
	is := is.New(t)
	for address, others := range map[string][]string{
		"https://example.org/":                nil,
		"https://bücher.example:8443/ä":       {"https://xn--bcher-kva.example:8443/%C3%A4"},
		"https://xn--bcher-kva.example/":      {"https://b%C3%BCcher.example/"},
		"https://xn--zzz--broken-9.example/a": nil,
		"not an address":                      nil,
	} {
		is.Equal(record.Spellings(address)[0], address)
		is.Equal(append([]string(nil), record.Spellings(address)[1:]...), others)
	}
	is.Equal(
		record.PageKey(record.Spellings("https://bücher.example/")[1]), record.PageKey("https://xn--bcher-kva.example/"),
	)
	is.Equal(
		record.PageKey(record.Spellings("https://xn--bcher-kva.example/")[1]), record.PageKey("https://bücher.example/"),
	)
}
