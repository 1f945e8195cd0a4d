package upload

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/kv/field"
	"kist/kv/record"
)

// TestSharedRecord reads shares as apps send them.
func TestSharedRecord(t *testing.T) {
	t.Parallel()
	const a, b = "https://x.example/a", "https://y.example/b"
	long := strings.Repeat("word ", record.MaxDescription/5)
	type want struct{ url, title, rest string } // rest is the description, or the content of a note
	for name, row := range map[string]struct {
		title, text, url string
		want             want
	}{
		"in its field":             {"T", "", a, want{a, "T", ""}},
		"in its field and text":    {"T", "Look " + a, a, want{a, "T", "Look"}},
		"text alone":               {"", a, "", want{a, "", ""}},
		"text and title":           {"T", a, "", want{a, "T", ""}},
		"title alone":              {a, "", "", want{a, "", ""}},
		"title and text":           {a, a, "", want{a, "", ""}},
		"words in the title":       {"Look at " + a + ", please", "", "", want{a, "Look at please", ""}},
		"behind words":             {"", "Watch this " + a, "", want{a, "Watch this", ""}},
		"behind words, titled":     {"T", "Watch this " + a, "", want{a, "T", "Watch this"}},
		"before words":             {"", a + " via @app", "", want{a, "", "via @app"}},
		"in the middle":            {"", "Look\n" + a + "\n\nShared from App", "", want{a, "Look", "Shared from App"}},
		"behind lines":             {"", "Place\n1 Street\n" + a, "", want{a, "", "Place\n1 Street"}},
		"before a signature":       {"P", a + "\n\nSent from my phone", "", want{a, "P", "Sent from my phone"}},
		"full stop":                {"", "Look: " + a + ".", "", want{a, "Look", ""}},
		"questions":                {"", "Seen " + a + "?!", "", want{a, "Seen", ""}},
		"round brackets":           {"", "(" + a + ")", "", want{a, "", ""}},
		"angle brackets":           {"", "Look <" + a + "> now", "", want{a, "Look", "now"}},
		"quotes":                   {"", `He sent "` + a + `" "again"`, "", want{a, "He sent", `"again"`}},
		"German quotes":            {"", "Sieh „" + a + "“.", "", want{a, "Sieh", ""}},
		"selection":                {"", "“A sentence.”\n" + a + "#:~:text=A", "", want{a + "#:~:text=A", "“A sentence.”", ""}},
		"emphasis":                 {"", "*" + a + "*", "", want{a, "", ""}},
		"brackets of the address":  {"", "See (https://x.example/a_(b))", "", want{"https://x.example/a_(b)", "See", ""}},
		"no blanks":                {"", "看这个：" + a + "，很好", "", want{a, "看这个", "很好"}},
		"capitals":                 {"", "HTTPS://X.example/a", "", want{a, "", ""}},
		"address in the query":     {"", a + "?u=" + b, "", want{a + "?u=" + b, "", ""}},
		"two, the second last":     {"", b + " " + a, "", want{a, b, ""}},
		"two, words last":          {"", a + " App: " + b + " now", "", want{a, "", "App: " + b + " now"}},
		"two fields":               {b, "", a, want{a, b, ""}},
		"words in the url field":   {"", "", "Look " + a, want{a, "Look", ""}},
		"not an address":           {"", "", "javascript:alert(1)", want{"", "", "javascript:alert(1)"}},
		"no host":                  {"", "http:// and https://", "", want{"", "", "http:// and https://"}},
		"a password":               {"", "https://ann:pw@x.example/a", "", want{"", "", "https://ann:pw@x.example/a"}},
		"no address":               {"T", "milk\nand bread", "", want{"", "T", "milk\nand bread"}},
		"too long for a bookmark":  {"T", long + "\n" + a + " end", "", want{"", "T", long + "\n" + a + " end"}},
		"too long for a bookmark2": {"", a + "\n" + long + "end", "", want{"", "", a + "\n" + long + "end"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			k, in := sharedRecord(row.title, row.text, row.url)
			got := want{"", in["title"].(string), ""}
			if k == record.Bookmarks {
				got.url, got.rest = in["url"].(string), in["description"].(string)
			} else {
				got.rest = in["content"].(string)
			}
			is.Equal(got, row.want)
			is.NoErr(field.Create(record.NewForm(k), in))
		})
	}
	k, _ := sharedRecord("", "", "")
	if k != nil {
		t.Error("nothing makes a record")
	}
}

// FuzzSharedRecord: whatever is shared makes a record without mistakes.
func FuzzSharedRecord(f *testing.F) {
	f.Add("T", "Look (https://x.example/a).", "")
	f.Add("https://x.example/ a", "", "https://x.example/")
	f.Add("", "http://[::1]:99999/ https://ann@x.example \x00", "javascript:")
	f.Add("“", "https://x.example/a_(b))))…\u202e", "https://x.example/%zz")
	f.Fuzz(func(t *testing.T, title, text, link string) {
		if !utf8.ValidString(title + text + link) {
			t.Skip() // the form refuses it
		}
		k, in := sharedRecord(strings.TrimSpace(title), strings.TrimSpace(text), strings.TrimSpace(link))
		if in == nil {
			return
		}
		if k == record.Bookmarks {
			if clean, err := field.CleanURL(in["url"].(string)); err != nil || clean != in["url"] {
				t.Fatalf("the address %q: %v", in["url"], err)
			}
		}
	})
}
