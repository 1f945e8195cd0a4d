package people

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"kist/kv/field"
	"kist/kv/record"
)

// MinPassword is how many characters of an account's password must remain: see Remains. maxPassword is its limit in bytes.
const (
	MinPassword = 8
	maxPassword = field.MaxSecret
)

// CheckPassword is the rule for a new password of an account: one line of at most maxPassword bytes of UTF-8, of which
// MinPassword characters remain. It must not be common. The password is kept as given, so it must be something that a
// person can type into one line again. names are what strangers know: the user's name and that of the server. common
// reports whether many people use a password in lower case.
func CheckPassword(t string, names []string, common func(string) bool) error {
	switch {
	case utf8.RuneCountInString(t) < MinPassword:
		return fmt.Errorf("must be at least %d characters long", MinPassword)
	case len(t) > maxPassword:
		return fmt.Errorf("must be at most %d bytes long", maxPassword)
	case !utf8.ValidString(t):
		return errors.New("must be valid UTF-8")
	case strings.ContainsFunc(t, unicode.IsControl):
		return errors.New("must be one line without control characters")
	case common(strings.ToLower(t)):
		return errors.New("is one of the most common passwords. Choose another")
	case Remains(t, names) < MinPassword:
		return errors.New("is easy to guess: repeats, rows such as 1234 or qwerty, and the names of user and server count as one character. Choose another")
	}
	return nil
}

// keyRows are characters that follow one another on a keyboard. Alphabets and digits follow by their numbers.
var keyboardRows = [][]rune{
	[]rune("1234567890"), []rune("qwertyuiop"), []rune("asdfghjkl"), []rune("zxcvbnm"),
	[]rune("qwertzuiopü"), []rune("asdfghjklöä"), []rune("yxcvbnm"), []rune("azertyuiop"), []rune("qsdfghjklm"), []rune("wxcvbn"),
	[]rune("1qaz2wsx3edc4rfv5tgb6yhn7ujm"), []rune("1q2w3e4r5t6y7u8i9o0p"), []rune("!@#$%^&*()"), []rune("!\"§$%&/()="),
}

// minRun is the shortest run that counts as one character, and the shortest name that does.
const minRun = 3

// Remains is how many characters of a password are left to guess, ignoring case: a run of one character, of neighbours in
// an alphabet or on a keyboard in either direction, a repetition of what stands before it, and each of the names count as
// one character.
func Remains(t string, names []string) (n int) {
	left := []rune(record.Fold(t))
	var known [][]rune
	for _, name := range names {
		if name := []rune(record.Fold(name)); len(name) >= minRun {
			known = append(known, name)
		}
	}

	for i := 0; i < len(left); n++ {
		length := 1
		for _, name := range known {
			if len(name) <= len(left)-i && slices.Equal(name, left[i:i+len(name)]) {
				length = max(length, len(name))
			}
		}
		if run := runAt(left[i:]); run >= minRun {
			length = max(length, run)
		}
		i += max(length, repeatAt(left, i))
	}
	return n
}

// runAt is the length of the run with which a text begins.
func runAt(t []rune) (longest int) {
	for _, step := range []rune{-1, 0, 1} {
		longest = max(longest, following(t, func(a, b rune) bool { return b-a == step && (step == 0 || letterOrDigit(a) && letterOrDigit(b)) }))
	}
	for _, row := range keyboardRows {
		place := func(r rune) int { return slices.Index(row, r) }
		for _, step := range []int{-1, 1} {
			longest = max(longest, following(t, func(a, b rune) bool { return place(a) >= 0 && place(b) >= 0 && place(b)-place(a) == step }))
		}
	}
	return longest
}

func letterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// following is the length of the longest beginning of which each character follows the one before.
func following(t []rune, follows func(a, b rune) bool) int {
	n := 1
	for n < len(t) && follows(t[n-1], t[n]) {
		n++
	}
	return n
}

// repeatAt is how long the text from i on repeats what stands directly before it, at least once in full; 0 if it does not.
func repeatAt(t []rune, i int) (longest int) {
	for period := 2; period <= i && i+period <= len(t); period++ {
		n := 0
		for i+n < len(t) && t[i+n] == t[i+n-period] {
			n++
		}
		if n >= period {
			longest = max(longest, n)
		}
	}
	return longest
}
