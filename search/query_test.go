package search

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// String shows a query for tests: * is a prefix, ~ a word that may have an
// error, + joins what is in a row.
func (q *Query) String() string {
	var out []string
	show := func(c clause) string {
		var parts []string
		for _, p := range c.parts {
			t := p.term
			if p.prefix {
				t += "*"
			}
			parts = append(parts, t)
		}
		t := strings.Join(parts, "+")
		if c.fuzzy {
			t += "~"
		}
		return t
	}
	for _, c := range q.must {
		out = append(out, show(c))
	}
	for _, c := range q.not {
		out = append(out, "-"+show(c))
	}
	for _, f := range q.filters {
		t := "tag=" + f.tag
		if f.kind != nil {
			t = "kind=" + f.kind.Name
		} else if f.flag != 0 {
			t = "is=" + string(f.flag)
		}
		if f.not {
			t = "-" + t
		}
		out = append(out, "["+t+"]")
	}
	if q.nothing {
		out = append(out, "nothing")
	}
	return strings.Join(out, " ")
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"  ", ""},
		{"a", "a"},
		{"go", "go*"},
		{"House MUSIC", "house*~ music*~"},
		{"2024 12345", "2024* 12345*"}, // numbers are not misspelt
		{"Crème", "creme*~"},
		{`"to be" or`, "to+be or*"},
		{`"House"`, "house"},
		{`“to be” „so sein“ «ainsi»`, "to+be so+sein ainsi"},
		{`"to be or`, "to+be+or*"}, // being typed
		{`x"to be"y`, "x to+be y"},
		{"main.go", "main+go*"},
		{"don't", "don+t"},
		{"-draft note", "note*~ -draft"},
		{`-"to be" -東 x`, "x -to+be -東*"},
		{"- x", "x"},
		{"a - b", "a b"},
		{"--x", "x"},
		{"2-3", "2+3"},
		{"東", "東*"},
		{"東京", "東京"},
		{"東京都", "東京+京都"},
		{`"京 abc"`, "京+abc"},
		{"iPhone手", "iphone+手*"},
		{"東京x", "東京+京+x"},
		{"tag:home", "[tag=home]"},
		{"TAG:Home tag:tea-time", "[tag=home] [tag=tea-time]"},
		{`tag:"two  Words" x`, "x [tag=two words]"},
		{`-tag:"two words"`, "[-tag=two words]"},
		{"tag:straße", "[tag=strasse]"},
		{"tag:a,b", "[tag=\x00]"}, // no tag has a comma
		{"tag: x", "tag* x"},
		{"tag:", "tag*"},
		{"kind:note kind:Notes", "[kind=note] [kind=note]"},
		{
			"kind:shorten kind:link kind:links -kind:shortlinks",
			"[kind=shortlink] [kind=shortlink] [kind=shortlink] [-kind=shortlink]",
		},
		{"kind:cat", "kind+cat*"},
		{"is:public is:favourite is:Favorite -is:public", "[is=p] [is=f] [is=f] [-is=p]"},
		{"is:private -is:private", "[-is=p] [is=p]"},
		{"is:odd -is:odd", "is+odd* -is+odd"},
		{`kind:"note"`, "[kind=note]"},
		{`is:"odd one"`, "is+odd+one"},
		// Operators of web search engines are text here.
		{"owner:ann", "owner+ann*"},
		{"_id:7 t:x b:y", "id+7 t+x b+y"},
		{"+a -b^2 c~2", "a c+2 -b+2"},
		{"a* *b (c OR d) [x TO y]", "a b c or* d x to* y"},
		{`/re.*/ a\:b`, "re* a+b"},
		{"+* ? ( ) :", "nothing"},
		{"🎉", "🎉"},
		{"\xff\xfe", "nothing"},
		{"a\x00b", "a+b"},
	} {
		t.Run(c.text, func(t *testing.T) {
			is := is.New(t)
			q, err := Parse(c.text)
			is.NoErr(err)
			is.Equal(q.String(), c.want)
		})
	}
}

func TestParseBounds(t *testing.T) {
	is := is.New(t)
	_, err := Parse(strings.Repeat("a ", maxTerms))
	is.NoErr(err)
	for _, text := range []string{
		strings.Repeat("a ", maxTerms+1), strings.Repeat("a.", maxTerms+1), strings.Repeat("tag:a ", maxTerms+1),
		strings.Repeat("a", MaxText+1),
	} {
		_, err := Parse(text)
		e, ok := err.(*record.Error)
		is.True(ok) // something to tell
		is.Equal(e.Fault, record.Malformed)
	}
}

func FuzzParse(f *testing.F) {
	for _, t := range []string{
		`a "b c" -d`, `tag:"x`, "-", `-"`, "tag:", "kind:note is:public", "東京 -東", `"""`,
		"\xff:\"", "--tag:x", `-tag:"x y"z`, "«»«", "is:", "owner:+*",
	} {
		f.Add(t)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			return
		}
		n := len(q.filters)
		for _, c := range append(append([]clause{}, q.must...), q.not...) {
			n += len(c.parts)
			if len(c.parts) == 0 {
				t.Fatalf("%q has an empty clause", text)
			}
			for i, p := range c.parts {
				if p.term == "" || p.prefix && i < len(c.parts)-1 || c.fuzzy && len(c.parts) > 1 {
					t.Fatalf("%q gives %v", text, c)
				}
			}
		}
		if n > maxTerms || q.nothing != (n == 0 && strings.TrimSpace(text) != "") {
			t.Fatalf("%q gives %s, %d terms", text, q, n)
		}
		_ = fmt.Sprint(q)
	})
}
