package search

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"
)

func TestWords(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{" \t\n.,;", ""},
		{"Hello, World!", "hello world"},
		{"holiday_photo-2.JPG", "holiday photo 2 jpg"},
		{"https://www.example.org/a?b=c", "https www example org a b c"},
		{"don't e-mail", "don t e mail"},
		{"mp3 v2.10", "mp3 v2 10"},
		{"Crème brûlée ÀÉÎÕÜ ñ", "creme brulee aeiou n"},
		{"cre\u0300me", "creme"}, // decomposed
		{"Straße STRASSE", "strasse strasse"},
		{"Øresund Łódź Đà æon œuvre Þór", "oresund lodz da aeon oeuvre thor"},
		{"İstanbul ısı", "istanbul isi"},
		{"Ё ёлка Й", "е елка и"},
		{"ΟΔΟΣ οδός", "οδοσ οδοσ"},
		{"ﬁnance ＡＢＣ １２３", "finance abc 123"},
		{"مُحَمَّد أحمد", "محمد احمد"},
		{"שָׁלוֹם", "שלום"},
		{"हिन्दी", "हिन्दी"}, // vowel signs are letters' own
		{"می\u200cخواهم", "میخواهم"},
		{"soft\u00adhyphen no\u2060break zero\u200dwidth", "softhyphen nobreak zerowidth"},
		{"東京都", "東京 京都 都"},
		{"東京", "東京 京"},
		{"京", "京"},
		{"私は東京、大阪", "私は は東 東京 京 大阪 阪"},
		{"iPhone手機x", "iphone 手機 機 x"},
		{"カタカナ ｶﾞｷﾞ", "カタ タカ カナ ナ ガギ ギ"},
		{"か\u3099き", "がき き"}, // decomposed
		{"한국어", "한국 국어 어"},
		{"\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국 국"}, // decomposed
		{"ภาษาไทย", "ภา าษ ษา าไ ไท ทย ย"},
		{"go 🎉🎉 x🙂y", "go 🎉 🎉 x 🙂 y"},
		{"👩‍👩‍👧 ❤️", "👩 👩 👧 ❤"},
		{"5 € £3 $x", "5 € £ 3 x"},
		{long + " " + strings.Repeat("é", 90), long[:64] + " " + strings.Repeat("e", 64)},
		{"a\x00b\xffc", "a b c"},
	} {
		t.Run(c.text, func(t *testing.T) {
			is := is.New(t)
			var got []string
			last := 0
			for w := range words(c.text) {
				got = append(got, w.term)
				is.True(w.start < w.end && w.end <= len(c.text)) // within the text
				is.True(w.end >= last)                           // in order
				last = w.end
			}
			is.Equal(strings.Join(got, " "), c.want)
		})
	}
}

func TestInnerParts(t *testing.T) {
	for name, want := range map[string]string{
		"big12mp.jpg":                   "12mp.jpg mp.jpg",
		"IMG20240101.jpg":               "20240101.jpg",
		"QuarterlyReport.pdf":           "Report.pdf",
		"iPhone 15 Pro":                 "Phone",
		"Straße12 ÜberÄpfel":            "12 Äpfel",
		"cafe\u0301Bar":                 "Bar",
		"ab٣٤":                          "٣٤",
		"holiday_photo-2.JPG":           "",
		"東京12都":                         "",
		"plain WORDS 12 3":              "",
		"NASA":                          "",
		"":                              "",
		"a1" + strings.Repeat("b2", 60): "1" + strings.Repeat("b2", 31) + "b" + " …",
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			var got []string
			for at, part := range innerParts(name) {
				is.True(strings.HasPrefix(name[at:], part))
				got = append(got, part)
			}
			if first, ok := strings.CutSuffix(want, " …"); ok {
				is.Equal(len(got), maxInner)
				is.Equal(got[0], first)
				return
			}
			is.Equal(strings.Join(got, " "), want)
		})
	}
}

func TestNear(t *testing.T) {
	is := is.New(t)
	for _, pair := range []string{
		"house house", "house hose", "house housse", "house houses", "house huose", "naïve naive", "über übre",
		"note notes", "東京都 東京", "a𐐨b ab", "𐐨ab𐐨 𐐨ab",
	} {
		a, b, _ := strings.Cut(pair, " ")
		is.True(near(a, b)) // one error
		is.True(near(b, a)) // either way
	}
	for _, pair := range []string{
		"house mouse", "house hos", "house hoses1", "house huoes", "note", "house ohuse", "abcd adcb",
	} {
		a, b, _ := strings.Cut(pair, " ")
		is.True(!near(a, b)) // more than one, or in the first letter
	}
}

// Words hold to their promises whatever the text: terms are found again by
// themselves, and stand where they say.
func FuzzWords(f *testing.F) {
	for _, t := range []string{
		"Hello, Wörld", "東京都x", "한국어 e\u0301", "👩‍👩‍👧", "ｶﾞ\u3099", "\xff\xfea", "ภาษาไทย",
		"ﷺ ½ ㎏", strings.Repeat("é", 100),
	} {
		f.Add(t)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := -1
		for w := range words(text) {
			if w.term == "" || !utf8.ValidString(w.term) || w.start >= w.end || w.end > len(text) || w.start < last {
				t.Fatalf("%q gives %+v", text, w)
			}
			last = w.start
		}
		for at, part := range innerParts(text) {
			if part == "" || len(part) > innerBytes || at == 0 || utf8.ValidString(text) && text[at:at+len(part)] != part {
				t.Fatalf("%q has %q at %d", text, part, at)
			}
		}
	})
}
