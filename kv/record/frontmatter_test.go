package record_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

func TestFrontMatter(t *testing.T) {
	for _, row := range []struct {
		source, rest string
		all          []record.Property
	}{
		{"---\ntitle: The trip\ntags: [a, b]\n---\nx", "x", []record.Property{
			{Key: "title", Values: []string{"The trip"}}, {Key: "tags", Values: []string{"[a, b]"}},
		}},
		{"---\r\ntags:\r\n- a\r\n- 'b'\r\n---\r\nx", "x", []record.Property{{Key: "tags", Values: []string{"a", "b"}}}},
		{"---\nno end", "---\nno end", nil},
		{" ---\na: b\n---\n", " ---\na: b\n---\n", nil},
		{"----\na: b\n---\n", "----\na: b\n---\n", nil},
		{"", "", nil},
	} {
		is := is.New(t)
		all, rest := record.FrontMatter(row.source)
		is.Equal(all, row.all)
		is.Equal(rest, row.rest)
	}
}

func TestFrontMatterHasAnEnd(t *testing.T) {
	is := is.New(t)
	all, rest := record.FrontMatter("---\n" + strings.Repeat("a: b\n", 200) + "---\n")
	is.Equal(len(all), 0)
	is.True(strings.HasPrefix(rest, "---\n"))
}

// Nothing of a text is lost, whatever it begins with.
func FuzzFrontMatter(f *testing.F) {
	f.Add("---\na: b\n- c\n---\nd")
	f.Add("---\n\"\": |\n  a\n...\n")
	f.Fuzz(func(t *testing.T, source string) {
		all, rest := record.FrontMatter(source)
		if !strings.HasSuffix(source, rest) || len(all) == 0 && rest != source {
			t.Errorf("%q: %q", source, rest)
		}
	})
}
