package people_test

import (
	"strings"
	"testing"

	"kist/kv/people"

	"github.com/matryer/is"
)

func TestCheckPassword(t *testing.T) {
	for _, c := range []struct {
		name, password string
		ok             bool
	}{
		{"shortest", "correcth", true},
		{"too short", "correct", false},
		{"characters count, not bytes", "éàéâ", false},
		{"eight characters", "éàôâüöäß", true},
		{"longest", strings.Repeat("correct horse ba", 64), true},
		{"too long", strings.Repeat("correct horse ba", 64) + "x", false},
		{"spaces", " a q c p ", true},
		{"tab", "axc\tdrfgh", false},
		{"two lines", "axcd\nerfgh", false},
		{"NUL", "axcd\x00efrgh", false},
		{"C1 control character", "axcd\u0085erfgh", false},
		{"invalid UTF-8", "axcderfgh\xff", false},
		{"none", "", false},
		{"common", "PassWord", false},
		{"longer than a common one", "password!", true},
		{"with the name", "i am Ann.", false},
		{"with the name and enough else", "i am Ann, the cook", true},
		{"with a part of the name", "an apple a day", true},
		{"one character", "aaaaaaaa", false},
		{"one sign", "!!!!!!!!", false},
		{"spaces alone", "        ", false},
		{"the alphabet", "abcdefgh", false},
		{"digits backwards", "87654321", false},
		{"a row of keys", "asdfghjkl", false},
		{"another row", "Qwertz1234", false},
		{"columns of keys", "1qaz2wsx", false},
		{"the name twice", "annannann", false},
		{"the server twice", "KistKist!", false},
		{"a word twice", "horsehorse", false},
		{"a word thrice", "blueblueblue", false},
		{"a row beside words", "horse 1234 lake", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(people.CheckPassword(c.password, []string{"ann", "kist"}, func(t string) bool { return t == "password" }) == nil, c.ok)
		})
	}
}

func TestRemains(t *testing.T) {
	for password, want := range map[string]int{
		"": 0, "a": 1, "aa": 2, "aaa": 1, "1234": 1, "4321x": 2, "qwerty": 1, "ytrewq": 1, "trustno1": 8, "abab": 3, "abcxabcxabc": 3,
		"horsehorse!": 7, "ann": 1, "ANNann": 2, "an": 2, "kist4711": 5, "αβγδ": 1, "!@#$": 1,
	} {
		if got := people.Remains(password, []string{"ann", "kist", "an", ""}); got != want {
			t.Errorf("%q: %d, want %d", password, got, want)
		}
	}
}

func FuzzRemains(f *testing.F) {
	f.Add("qwerty 1234 ann", "ann")
	f.Add("\xffabab", "")
	f.Fuzz(func(t *testing.T, password, name string) {
		if n := people.Remains(password, []string{name}); n < 0 || n > 4*len(password) { // folding may lengthen a text
			t.Errorf("%q: %d", password, n)
		}
	})
}

// A password that is too short or too long is told what is wrong with it.
func TestCheckPasswordLength(t *testing.T) {
	is := is.New(t)
	never := func(string) bool { return false }
	is.Equal(people.CheckPassword("1234567", nil, never).Error(), "must be at least 8 characters long")
	is.Equal(people.CheckPassword(strings.Repeat("a", 1025), nil, never).Error(), "must be at most 1024 bytes long")
}
