package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/matryer/is"
	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// Titles in the order in which people look for them. Those in one row have the same place.
func TestOrder(t *testing.T) {
	titles := [][]string{
		{""},
		{"0"},
		{"1 000"},
		{"2", "002", "２", "٢"},
		{"10"},
		{"99 Luftballons", "„99 Luftballons“"},
		{"100"},
		{"123456789"},
		{"123456790"},
		{"1234567890123"},
		{"Äpfel", "apfel", "# Apfel", "A\u0308pfel", "ÄPFEL"},
		{"apple", "“Apple”", "*apple*", "🍎 Apple", "ａｐｐｌｅ"},
		{"Apple pie"},
		{"applepie"},
		{"Chapter 0.txt"},
		{"chapter 1"},
		{"Chapter 2", "chapter 02"},
		{"Chapter 2 b"},
		{"Chapter 10"},
		{"Édouard", "edouard"},
		{"egg"},
		{"IMG_9.jpg"},
		{"IMG_10.jpg"},
		{"IMG_20240101_000000.jpg"},
		{"Łódź", "lodz"},
		{"Straße", "STRASSE"},
		{"Über", "uber"},
		{"Uhr"},
		{"v1.9"},
		{"v1.10"},
		{"Zoo"},
		{"Ωmega"},
		{"Ёж", "еж"},
		{"жук"},
		{"かき", "カキ"},
		{"くり"},
		{"中"},
		{"文"},
	}
	for i, row := range titles {
		for _, title := range row {
			if got, want := orderOf(title), orderOf(row[0]); got != want {
				t.Errorf("%q has another place than %q: %x, %x", title, row[0], got, want)
			}
			if i > 0 && orderOf(titles[i-1][0]) >= orderOf(title) {
				t.Errorf("%q is not behind %q: %x, %x", title, titles[i-1][0], orderOf(title), orderOf(titles[i-1][0]))
			}
		}
	}
}

// The keys are on the disk. If they change, with the library's tables or otherwise, presentOrder must change, too.
func TestOrderIsStored(t *testing.T) {
	for title, want := range map[string]string{
		"Äpfel 12": "1f15ef17961684164c1711010914e814e714e8", "中あ한я": "1f814e2d32bb316831d432351b62",
	} {
		if got := fmt.Sprintf("%x", orderOf(title)); got != want {
			t.Errorf("%q: %s, not %s", title, got, want)
		}
	}
}

// A key has no part that begins with a zero byte, so that a title is before those that it begins.
func TestOrderHasNoZero(t *testing.T) {
	is := is.New(t)
	c, b := collate.New(language.Und, collate.Loose), new(collate.Buffer)
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || !unicode.IsPrint(r) { // titles have none
			continue
		}
		b.Reset()
		key := c.KeyFromString(b, string(r))
		for len(key) > 0 {
			if key[0] == 0 {
				t.Fatalf("%U: % x", r, key)
			}
			key = key[2+key[0]>>7:]
		}
	}
	is.Equal(orderOf("\u0301"), "") // no letter at all
}

func TestOrderIsBounded(t *testing.T) {
	for _, title := range []string{"ab", "日", "ß", "한", "1", "1 ", "😀", "\u0301", "a1"} {
		is := is.New(t)
		is.True(len(orderOf(strings.Repeat(title, 512))) <= maxOrder)
	}
}

func TestNumbersByLength(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "0": "10", "00": "10", "7": "17", "007 b": "17 b", "12.3": "212.13", "a12345678b": "a812345678b",
		"123456789": "909123456789", "1234567890": "9101234567890", "٣": "1٣",
	} {
		if got := numbersByLength(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

// A key is always the same, begins with its version and is no longer than an index takes.
func FuzzOrder(f *testing.F) {
	f.Add("Äpfel 12", "apfel 9")
	f.Add("\xff", "\u0301")
	f.Add("日本", "ﷺ")
	f.Fuzz(func(t *testing.T, a, b string) {
		keys := []string{orderOf(a), orderOf(b)}
		for _, key := range keys {
			if len(key) > maxOrder || key != "" && key[0] != presentOrder {
				t.Fatalf("%q, %q: %x", a, b, keys)
			}
		}
		if again := []string{orderOf(a), orderOf(b)}; !slices.Equal(keys, again) {
			t.Fatalf("%q, %q: %x, then %x", a, b, keys, again)
		}
	})
}

func BenchmarkOrder(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		orderOf("The Lord of the Rings: The Two Towers, part 1")
	}
}
