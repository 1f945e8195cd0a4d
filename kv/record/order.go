package record

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// maxOrder bounds Order in bytes, so that index keys stay short. Most letters take two. Titles with a longer common
// beginning sort by age.
const maxOrder = 96

// presentOrder is the first byte of a key by the present rule. Keys of former rules begin with a higher byte, so they
// come last in a list: at first with the title itself. Another rule, or other tables in the library, take a lower one.
const presentOrder = 0x1f

// orderOf makes the sort key of a title: its letters by the order of Unicode, in which no language comes first (DUCET,
// without regard to accents, case and width), and numbers by their value. Marks before the first letter or digit and
// quotes around the title do not count.
func orderOf(title string) string {
	begin := strings.IndexFunc(title, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	text := numbersByLength(Cut(strings.TrimRightFunc(title[max(0, begin):], quote), maxOrder))

	c := collators.Get().(*collator) //nolint:errcheck // the pool has nothing else
	defer collators.Put(c)
	c.buffer.Reset()
	key := c.KeyFromString(&c.buffer, text)
	if len(key) == 0 {
		return ""
	}
	return string(rune(presentOrder)) + string(key[:min(len(key), maxOrder-1)])
}

func quote(r rune) bool {
	return strings.ContainsRune(`"'*_`, r) || unicode.In(r, unicode.Pi, unicode.Pf)
}

// A collator serves one goroutine at a time. Making one takes longer than a key.
type collator struct {
	*collate.Collator
	buffer collate.Buffer
}

var collators = sync.Pool{New: func() any { return &collator{Collator: collate.New(language.Und, collate.Loose)} }}

// numbersByLength writes before each number how many digits it has, so that a longer number sorts behind a shorter one.
// The library's own option for that puts "a0.jpg" behind "a9.jpg".
func numbersByLength(text string) string {
	if !strings.ContainsFunc(text, unicode.IsDigit) {
		return text
	}
	var b strings.Builder
	for text != "" {
		at := strings.IndexFunc(text, unicode.IsDigit)
		if at < 0 {
			break
		}
		end := strings.IndexFunc(text[at:], func(r rune) bool { return !unicode.IsDigit(r) })
		if end < 0 {
			end = len(text) - at
		}
		number := strings.TrimLeft(text[at:at+end], "0")
		if number == "" {
			number = "0"
		}
		b.WriteString(text[:at])
		if n := utf8.RuneCountInString(number); n < 9 {
			fmt.Fprintf(&b, "%d%s", n, number)
		} else {
			fmt.Fprintf(&b, "9%02d%s", n, number)
		}
		text = text[at+end:]
	}
	return b.String() + text
}

// OrderedNow reports whether Order is by the present rule.
func (r *Record) OrderedNow() bool { return r.Order == "" || r.Order[0] == presentOrder }

// Reorder sets Order by the present rule.
func (r *Record) Reorder() error {
	b, err := r.Decode()
	if err != nil {
		return err
	}
	r.Order = orderOf(b.Title())
	return nil
}
