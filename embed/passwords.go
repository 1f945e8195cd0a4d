package embed

import (
	_ "embed"
	"strings"
	"sync"
)

// packedPasswords are the 10 000 most common passwords of at least eight bytes, in lower case, one per line, sorted, in
// two fifths of the size.
//
//go:embed passwords.txt.gz
var packedPasswords []byte

// passwords unpacks the common passwords on first use.
var passwords = sync.OnceValue(func() string { return string(unpacked(packedPasswords)) })

// CommonPassword reports whether the password, given in lower case, is one of the 10 000 most common ones of at least
// eight bytes, or one of their words with other digits and signs around it or in place of letters.
func CommonPassword(t string) bool {
	if t == "" || strings.Contains(t, "\n") {
		return false
	}
	if strings.HasPrefix(passwords(), t+"\n") || strings.Contains(passwords(), "\n"+t+"\n") {
		return true
	}
	word, around := wordOf(t)
	return around <= maxAround && passwordWords()[word]
}

// A word of minWord letters stays common with maxAround characters around it: summer2024!
const (
	minWord   = 5
	maxAround = 5
)

// passwordWords are the words of the common passwords.
var passwordWords = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for one := range strings.Lines(passwords()) {
		if word, _ := wordOf(strings.TrimSuffix(one, "\n")); len(word) >= minWord {
			all[word] = true
		}
	}
	return all
})

// letters are what signs in a word stand for.
var letters = strings.NewReplacer(
	"0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i",
)

// wordOf is the word in a password, and how many characters are around it.
func wordOf(t string) (word string, around int) {
	word = strings.TrimFunc(t, func(r rune) bool { return r < 'a' && r < 0x80 || '{' <= r && r <= '~' })
	return letters.Replace(word), len(t) - len(word)
}
