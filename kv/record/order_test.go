package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// Titles in the order in which people look for them. Those in one row have the same place.
func TestOrder(t *testing.T) {
	titles := [][]string{
		{""},
		{"\u0301"},
		{"★★"},
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
		{"O'Brien", "O’Brien", "OBrien"},
		{"Œuvre", "oeuvre"},
		{"Spider-Man", "Spider Man", "spider – man"},
		{"Straße", "STRASSE"},
		{"Über", "uber"},
		{"Uhr"},
		{"v1.9"},
		{"v1.10"},
		{"Zoo"},
		{"Ωmega"},
		{"Ґанок"},
		{"Ёж", "еж"},
		{"Єва"},
		{"жук"},
		{"Ия"},
		{"Йод", "и\u0306од"},
		{"Ірис"},
		{"Їжак", "і\u0308жак"},
		{"кот"},
		{"का"},
		{"की"},
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
		"Äpfel 12": "1f617066656c20323132", "中あ한я": "1fe4b8ade38182ed959cd18f", "Ґ-7": "1fd0b3d3bf203137", "!": "1f212021",
	} {
		if got := fmt.Sprintf("%x", orderOf(title)); got != want {
			t.Errorf("%q: %s, not %s", title, got, want)
		}
	}
}

func TestOrderIsBounded(t *testing.T) {
	for _, title := range []string{"ab", "日", "ß", "한", "1", "1 ", "😀", "\u0301", "a1"} {
		is := is.New(t)
		is.True(len(orderOf(strings.Repeat(title, 512))) <= maxOrder)
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
