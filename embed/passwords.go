package embed

import (
	_ "embed"
	"strings"
)

// passwords are the 10 000 most common passwords of at least eight bytes, in lower case, one per line, sorted.
//
//go:embed passwords.txt
var passwords string

// CommonPassword reports whether the password, given in lower case, is one of the 10 000 most common ones of at least
// eight bytes. The answer is exact.
func CommonPassword(t string) bool {
	if t == "" || strings.Contains(t, "\n") {
		return false
	}
	return strings.HasPrefix(passwords, t+"\n") || strings.Contains(passwords, "\n"+t+"\n")
}
