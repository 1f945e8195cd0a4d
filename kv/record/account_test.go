package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

func TestCheckPassword(t *testing.T) {
	for _, c := range []struct {
		name, password string
		ok             bool
	}{
		{"shortest", "12345678", true},
		{"too short", "1234567", false},
		{"bytes count, not characters", "éééé", true},
		{"longest", strings.Repeat("a", 1024), true},
		{"too long", strings.Repeat("a", 1025), false},
		{"spaces", " a b c d ", true},
		{"tab", "abc\tdefgh", false},
		{"two lines", "abcd\nefgh", false},
		{"NUL", "abcd\x00efgh", false},
		{"C1 control character", "abcd\u0085efgh", false},
		{"invalid UTF-8", "abcdefgh\xff", false},
		{"none", "", false},
		{"common", "PassWord", false},
		{"longer than a common one", "password!", true},
		{"with the name", "i am Ann.", false},
		{"with a part of the name", "an apple a day", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(record.CheckPassword(c.password, "ann", func(t string) bool { return t == "password" }) == nil, c.ok)
		})
	}
}

// A password that is too short or too long is told what is wrong with it.
func TestCheckPasswordLength(t *testing.T) {
	is := is.New(t)
	never := func(string) bool { return false }
	is.Equal(record.CheckPassword("1234567", "ann", never).Error(), "must be at least 8 characters long")
	is.Equal(record.CheckPassword(strings.Repeat("a", 1025), "ann", never).Error(), "must be at most 1024 bytes long")
}

func TestCheckEnd(t *testing.T) {
	is := is.New(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	is.NoErr(record.CheckEnd(time.Time{}, now))
	is.NoErr(record.CheckEnd(now.Add(time.Millisecond), now))
	is.True(record.CheckEnd(now, now) != nil)
	is.True(record.CheckEnd(now.Add(-time.Hour), now) != nil)
}

// A name so short that many words contain it is ignored.
func TestCheckPasswordShortName(t *testing.T) {
	is := is.New(t)
	never := func(string) bool { return false }
	is.NoErr(record.CheckPassword("an apple a day", "an", never))
	is.NoErr(record.CheckPassword("an apple a day", "", never))
}

// A code has only letters of its alphabet, all of them equally often.
func TestNewUserCode(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	next, count := 0, map[rune]int{}
	for range 30 { // 240 letters: each accepted byte once
		code := record.NewUserCode(func(b []byte) { b[0] = byte(next); next++ })
		is.Equal(len(code), 9)
		is.Equal(code[4], byte('-'))
		is.Equal(record.CleanUserCode(code), code)
		for _, letter := range strings.ReplaceAll(code, "-", "") {
			count[letter]++
		}
	}
	is.Equal(len(count), 20)
	for _, n := range count {
		is.Equal(n, 12)
	}
	code := record.NewUserCode(func(b []byte) { b[0] = byte(next); next++ })
	is.Equal(code, "BCDF-GHJK") // 240 to 255 are skipped
}

func TestCleanUserCode(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"":                    "",
		"BCDF-GHJK":           "BCDF-GHJK",
		"bcdf ghjk":           "BCDF-GHJK",
		"bcdfghjk":            "BCDF-GHJK",
		" b.c.d.f_g-h-j-k\n":  "BCDF-GHJK",
		"ABCDEF-GHIJK":        "BCDF-GHJK", // no vowels
		"B0C1D2F3-4Y5G6H7J8K": "BCDF-GHJK", // no digits, no Y
		"BÇCDÉF-GHJßK":        "BCDF-GHJK",
		"BCDF":                "BCDF",
		"BCDF-GHJ":            "BCDF-GHJ",
		"BCDF-GHJK-L":         "",
	} {
		is.New(t).Equal(record.CleanUserCode(typed), want)
	}
}

// Use moves the expiry of a key by at least an hour, and that of a session no further
// than its maximum life.
func TestSlide(t *testing.T) {
	t.Parallel()
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		key  record.Key
		used time.Duration // after it was made
		want time.Duration // the expiry, after it was created
	}{
		"a fixed end":             {record.Key{Expires: born.Add(time.Hour)}, time.Minute, time.Hour},
		"less than an hour later": {record.Key{Expires: born.Add(24 * time.Hour), Slides: 24 * time.Hour}, time.Hour - 1, 24 * time.Hour},
		"an hour later":           {record.Key{Expires: born.Add(24 * time.Hour), Slides: 24 * time.Hour}, time.Hour, 25 * time.Hour},
		"much later":              {record.Key{Expires: born.Add(24 * time.Hour), Slides: 24 * time.Hour}, 20 * time.Hour, 44 * time.Hour},
		"a key after a year":      {record.Key{Expires: born.Add(record.SessionTime), Slides: record.SlideTime}, record.SessionTime, record.SessionTime + record.SlideTime},
		"a session in its last days": {
			record.Key{Session: true, Expires: born.Add(record.SessionTime - 2*time.Hour), Slides: record.SlideTime}, record.SessionTime - 24*time.Hour, record.SessionTime,
		},
		"a session at its longest": {
			record.Key{Session: true, Expires: born.Add(record.SessionTime), Slides: record.SlideTime}, record.SessionTime - time.Hour, record.SessionTime,
		},
	} {
		c.key.Created = born
		before := c.key.Expires
		moved := c.key.Slide(born.Add(c.used))
		if got := c.key.Expires.Sub(born); got != c.want || moved != !c.key.Expires.Equal(before) {
			t.Errorf("%s: %v, %v", name, got, moved)
		}
	}
}
