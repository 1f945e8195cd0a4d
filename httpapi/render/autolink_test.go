package render

import (
	"html"
	"net/url"
	"regexp"
	"testing"

	"github.com/matryer/is"
)

var href = regexp.MustCompile(`href="([^"]*)"`)

// Where a bare address ends, and what is one. The link is between braces.
func TestBareLinks(t *testing.T) {
	for _, text := range []string{
		// any script
		"see {https://de.wikipedia.example/wiki/Köln} there",
		"{https://x.example/路径/文件}",
		"{https://x.example/?q=ö}",
		"{https://x.example/#Übersicht}",
		"{https://x.example/a/Привет_мир}",
		"{https://x.example/wiki/Michelson–Morley}",
		"{https://x.example/l’été}",
		"{https://bücher.example/}",
		"{https://例え.example/パス}",
		"{https://x.example/😀}",
		// hosts of one's own network
		"{http://192.168.1.5:8080/}",
		"{http://192.168.1.5}",
		"{http://localhost:8080/x}",
		"{http://localhost}",
		"{http://nas:5000}",
		"{http://nas:5000/photos?album=1}",
		"{http://my_nas.local/}",
		"{https://[2001:db8::1]/x}",
		"{http://[::1]:8080}",
		"{https://user:pass@x.example/}",
		// schemes
		"{HTTPS://X.EXAMPLE/}",
		"{Http://x.example}",
		"xhttp://x.example/",
		"https:/x.example/",
		"https://",
		"https:// x.example",
		"https://!",
		"http://[nonsense]/",
		"http://[fe80::1%25eth0]/",
		`http\://x.example/`,
		"`http://x.example/`",
		"[label http://x.example/ goes on",
		// what stands around it
		`"{https://x.example/}"`,
		"'{https://x.example/}'",
		"（{https://x.example/}）",
		"「{https://x.example/a}」と",
		"“{https://x.example/a}”",
		"„{https://x.example/}“",
		"«{https://x.example/a}»",
		"({https://x.example/a}).",
		"[1]: see {https://x.example/a}",
		"{https://x.example/2+2_(TV)}",
		"({https://x.example/2+2_(TV)})",
		"{https://x.example/a[1]}",
		"<b>{https://x.example/}</b>",
		"见{https://x.example/a}，谢谢",
		"詳細は{https://x.example}をご覧ください",
		"{https://x.example}를 보세요",
		"siehe:{https://x.example/}",
		"{https://x.example/}, {http://y.example/b}; {http://z.example/c}…",
		"Is it {https://x.example/a?b=c}?",
		"{https://x.example}.",
		"{https://x.example}:",
		"{https://x.example:443}:",
		"{https://x.example/a&b}&quot;",
		"{https://x.example/~ann/a_b_c}",
		"_{https://x.example/a}_",
		"**{https://x.example/a}**",
		"~~{https://x.example/a}~~",
		"| a |\n|---|\n| {https://x.example/} b |",
		"- [ ] {https://x.example/}",
		"> {https://x.example/}",
		// without a scheme
		"{www.x.example/wiki/Köln}",
		"({www.x.example/a}).",
	} {
		t.Run(text, func(t *testing.T) {
			is := is.New(t)
			in := regexp.MustCompile(`[{}]`).ReplaceAllString(text, "")
			out, err := Markdown([]byte(in))
			is.NoErr(err)
			is.Equal(check(string(out)), "")
			var got, want []string
			for _, found := range href.FindAllStringSubmatch(string(out), -1) {
				address, err := url.PathUnescape(html.UnescapeString(found[1]))
				is.NoErr(err)
				got = append(got, address)
			}
			for _, found := range regexp.MustCompile(`\{(.*?)\}`).FindAllStringSubmatch(text, -1) {
				address := found[1]
				if address[0] == 'w' {
					address = "http://" + address
				}
				want = append(want, address)
			}
			is.Equal(got, want)
		})
	}
}

func FuzzAddressEnd(f *testing.F) {
	f.Add([]byte("://x.example/2+2_(TV)), then"))
	f.Add([]byte("://[2001:db8::1]:80/&quot;"))
	f.Add([]byte("://u:p@例え.example。"))
	f.Add([]byte("://a.\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		end := addressEnd(text)
		if end < 0 || end > len(text) || end > 0 && end < len("://x") {
			t.Errorf("%q: %d", text, end)
		}
	})
}
