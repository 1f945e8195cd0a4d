package blobs

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestParseRef(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"of no bytes", empty, true},
		{"all zero", strings.Repeat("0", 64), true},
		{"all ones", strings.Repeat("f", 64), true},
		{"empty", "", false},
		{"short", empty[1:], false},
		{"long", empty + "0", false},
		{"upper case", strings.ToUpper(empty), false},
		{"one upper-case digit", "E" + empty[1:], false},
		{"no hex digit", "g" + empty[1:], false},
		{"digit after the last", strings.Repeat("0", 63) + ":", false},
		{"space before", " " + empty[1:], false},
		{"newline after", empty[:63] + "\n", false},
		{"NUL", empty[:63] + "\x00", false},
		{"prefix", "0x" + empty[2:], false},
		{"path", "../" + empty[3:], false},
		{"slash", empty[:2] + "/" + empty[3:], false},
		{"backslash", empty[:2] + `\` + empty[3:], false},
		{"full-width digit", "０" + empty[3:], false},
		{"invalid UTF-8", "\xff" + empty[1:], false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			ref, err := ParseRef(tt.text)
			is.Equal(err == nil, tt.ok)
			if tt.ok {
				is.Equal(ref.String(), tt.text)
			} else {
				is.Equal(ref, Ref{}) // no half-read ref is returned
			}
		})
	}
}

func TestRefIsAMapKey(t *testing.T) {
	is := is.New(t)
	a, b := Ref(sha256.Sum256([]byte("a"))), Ref(sha256.Sum256([]byte("b")))
	seen := map[Ref]bool{a: true}
	is.True(seen[Ref(sha256.Sum256([]byte("a")))])
	is.True(!seen[b])
}

func FuzzParseRef(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		is := is.New(t)
		ref, err := ParseRef(text)
		if err != nil {
			is.Equal(ref, Ref{})
			return
		}
		is.Equal(ref.String(), text)
		is.Equal(ref.path(), text[:2]+"/"+text)
		folder, ok := parseFolder(ref.folder())
		is.True(ok)
		is.Equal(folder, ref[0])
	})
}
