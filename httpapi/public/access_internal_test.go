package public

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/field"
)

// TestMeanings: a password is among what its header may mean, however a program sends it, and a typed one comes first.
func TestMeanings(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, password := range []string{
		"open sesame", "passé é über", "@dmin$p@ss'\"<>&", " blanks  inside ", "Пароль дня 7", "パスワード八文字", "emoji 🔑 key",
		"a+b%20c;d=e&f", "100%", "%", "%C3%A9", "Gro\u0308ße", strings.Repeat("é", field.MaxSecret/2),
	} {
		is.Equal(meanings(password)[0], password) // as curl sends it
		is.True(slices.Contains(meanings(url.PathEscape(password)), password))
		latin1 := []byte{}
		for _, r := range password {
			if r > 0xff {
				latin1 = nil
				break
			}
			latin1 = append(latin1, byte(r))
		}
		if latin1 != nil {
			is.Equal(meanings(string(latin1))[0], password) // as browsers send it
		}
	}
	is.Equal(meanings("a%zz"), []string{"a%zz"})
	is.Equal(meanings("%ff"), []string{"%ff"})
	is.Equal(len(meanings(strings.Repeat("x", field.MaxSecret+1))), 0)
	is.Equal(len(meanings(strings.Repeat("%41", field.MaxSecret+1))), 0)
	is.Equal(meanings(strings.Repeat("%41", field.MaxSecret)), []string{strings.Repeat("A", field.MaxSecret)})
}
