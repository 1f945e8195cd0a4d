package render

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

var (
	tag       = regexp.MustCompile(`^</?([a-z][a-z0-9]*)((?: [a-z-]+(?:="[^"<>]*")?)*)>`)
	attribute = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)
)

// What the package writes, and nothing else.
var allowed = map[string]string{
	"a": "href rel title id tabindex aria-hidden class role", "sup": "id", "div": "class role", "p": "", "br": "", "hr": "", "em": "", "strong": "", "del": "", "pre": "class dir tabindex", "code": "",
	"blockquote": "dir", "ul": "dir", "ol": "dir start", "li": "id", "input": "type disabled checked aria-label data-line data-task", "img": "src alt loading", "span": "class data-file",
	"h1": "id", "h2": "id", "h3": "id", "h4": "id", "h5": "id", "h6": "id",
	"table": "class", "thead": "", "tbody": "", "tr": "", "th": "align scope", "td": "align",
}

// check reports the first thing in what was written that must not be there.
func check(out string) string {
	for rest := out; ; {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			return ""
		}
		found := tag.FindStringSubmatch(rest[i:])
		if found == nil {
			return "no tag: " + rest[i:min(len(rest), i+60)]
		}
		names, ok := allowed[found[1]]
		if !ok {
			return "element: " + found[0]
		}
		for _, a := range attribute.FindAllStringSubmatch(strings.TrimSpace(found[2]), -1) {
			key, value := a[1], strings.ToLower(html.UnescapeString(a[2]))
			if !strings.Contains(" "+names+" ", " "+key+" ") {
				return "attribute: " + found[0]
			}
			switch key {
			case "id":
				if !strings.HasPrefix(value, headingPrefix) && !strings.HasPrefix(value, "l") {
					return "id: " + found[0]
				}
			case "src":
				if !strings.HasPrefix(value, "/") || strings.HasPrefix(value, "//") || strings.Contains(value, `\`) {
					return "another origin: " + found[0]
				}
			case "href":
				scheme, _, ok := strings.Cut(value, ":")
				if ok && !strings.ContainsAny(scheme, "/?#") && !schemes[scheme] {
					return "scheme: " + found[0]
				}
				if ok && schemes[scheme] && !strings.Contains(found[0], rel) {
					return "no rel: " + found[0]
				}
			}
		}
		rest = rest[i+len(found[0]):]
	}
}

// textOf is the text of HTML, which is what a selection of it copies.
func textOf(out string) string {
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(
		strings.TrimSuffix(out, "</code></pre>\n"), "",
	))
}

func TestMarkdown(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"emphasis": {"a *b* **c** ~~d~~", "<p>a <em>b</em> <strong>c</strong> <del>d</del></p>\n"},
		"lines":    {"a\nb", "<p>a<br>\nb</p>\n"},
		"table": {
			"|a|b|\n|:-|-:|\n|1|2|",
			"<table>\n<thead>\n<tr>\n<th align=\"left\">a</th>\n<th " +
				"align=\"right\">b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td align=\"left\">1</td>\n<td " +
				"align=\"right\">2</td>\n</tr>\n</tbody>\n</table>\n",
		},
		"tasks": {
			"- [x] a\n- [ ] b",
			"<ul dir=\"auto\">\n<li><input type=\"checkbox\" disabled checked aria-label=\"done\" data-line=\"1\" " +
				"data-task=\"a\"> a</li>\n<li><input type=\"checkbox\" disabled aria-label=\"open\" data-line=\"2\" " +
				"data-task=\"b\"> b</li>\n</ul>\n",
		},
		"link": {
			`[a](https://b.c/?d&e "f")`, `<p><a href="https://b.c/?d&amp;e"` + rel + ` title="f">a</a></p>` + "\n",
		},
		"bare address":      {"see www.a.org", `<p>see <a href="http://www.a.org"` + rel + ">www.a.org</a></p>\n"},
		"mail":              {"<a@b.org>", `<p><a href="mailto:a@b.org"` + rel + ">a@b.org</a></p>\n"},
		"own page":          {"[a](/v/b)", "<p><a href=\"/v/b\">a</a></p>\n"},
		"own picture":       {"![a *b*](/x/c)", "<p><img src=\"/x/c\" alt=\"a b\" loading=\"lazy\"></p>\n"},
		"picture elsewhere": {"![a](https://b.c/d.png)", `<p><a href="https://b.c/d.png"` + rel + ">a</a></p>\n"},
		"picture at a host": {"![a](//b.c/d.png)", `<p><a href="//b.c/d.png"` + rel + ">a</a></p>\n"},
		"backslashes":       {`![a](/\\b.c)`, "<p><img src=\"/%5Cb.c\" alt=\"a\" loading=\"lazy\"></p>\n"},
		"picture in a link": {"[![a](https://b.c/d.png)](https://e.f)", `<p><a href="https://e.f"` + rel + ">a</a></p>\n"},
		"heading": {
			"# A  *b*!\n# A b\n[c](#a-b)",
			"<h1 id=\"h-a-b\">A  <em>b</em>!</h1>\n<h1 id=\"h-a-b-1\">A b</h1>\n<p><a href=\"#h-a-b\">c</a></p>\n",
		},
		"html": {"a <b onclick=c>d</b>", "<p>a &lt;b onclick=c&gt;d&lt;/b&gt;</p>\n"},
		"html block": {
			"<script>\nalert(1)\n</script>", "<p>&lt;script&gt;<br>\nalert(1)<br>\n&lt;/script&gt;</p>\n",
		},
		"comment":           {"a <!-- b --> c", "<p>a  c</p>\n"},
		"comment block":     {"a\n\n<!--\nb\n\nc\n-->\n\nd", "<p>a</p>\n<p>d</p>\n"},
		"after a comment":   {"<!-- a --> b\n\nc", "<p>b</p>\n<p>c</p>\n"},
		"comment in html":   {"<div>\n<!-- a -->\nb", "<p>&lt;div&gt;<br>\n<br>\nb</p>\n"},
		"comment of no end": {"<!-- a\n\nb", "<p>&lt;!-- a<br>\n<br>\nb</p>\n"},
		"break in a table": {
			"|a|\n|-|\n|x<br>y<BR/>z<br />|",
			"<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>x<br>y<br>z<br></td>\n</tr>\n</tbody>\n</table>\n",
		},
		"break as a block":   {"a\n\n<br>\n\nb", "<p>a</p>\n<p><br></p>\n<p>b</p>\n"},
		"break with a style": {"a <br style=b> c", "<p>a &lt;br style=b&gt; c</p>\n"},
		"IPv6":               {"[a](http://[::1]:80/b)", `<p><a href="http://[::1]:80/b"` + rel + ">a</a></p>\n"},
		"javascript":         {"[a](javascript:alert(1))", "<p>a</p>\n"},
		"case":               {"[a](JaVaScRiPt:alert(1))", "<p>a</p>\n"},
		"entity":             {"[a](javascript&colon;alert(1))", "<p>a</p>\n"},
		"numeric entity":     {"[a](&#x6a;avascript:alert(1))", "<p>a</p>\n"},
		"line in a scheme":   {"[a](java&#10;script:alert(1))", "<p>a</p>\n"},
		"data":               {"[a](data:text/html,b) ![c](data:image/png;base64,x)", "<p>a c</p>\n"},
		"file":               {"<file:///etc/passwd>", "<p>file:///etc/passwd</p>\n"},
		"code": {
			"```go\nvar a\n```", "<pre dir=\"ltr\" tabindex=\"0\"><code><span class=\"k\">var</span> a\n</code></pre>\n",
		},
		"code of no language": {"    <b>\n", "<pre dir=\"ltr\" tabindex=\"0\"><code>&lt;b&gt;\n</code></pre>\n"},
		"nothing":             {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			out, err := Markdown([]byte(c.in))
			is.NoErr(err)
			is.Equal(string(out), c.want)
			is.Equal(check(string(out)), "")
		})
	}
}

func TestMarkdownThatIsTooLong(t *testing.T) {
	is := is.New(t)
	out, err := Markdown([]byte(strings.Repeat("*a*<b>\n", maxMarkdown/7+1)))
	is.NoErr(err)
	is.True(strings.HasPrefix(string(out), `<pre class="plain" dir="auto">*a*&lt;b&gt;`))
}

func TestMarkdownNestsNoDeeperThanItMay(t *testing.T) {
	is := is.New(t)
	out, err := Markdown([]byte(strings.Repeat("> ", 1000) + "a"))
	is.NoErr(err)
	is.True(strings.Count(string(out), "<blockquote") <= maxNested)
	is.True(strings.Count(string(out), "<blockquote") > 20)
	is.True(strings.Contains(string(out), "a</p>"))
}

func TestCode(t *testing.T) {
	t.Run("every line has a link", func(t *testing.T) {
		is := is.New(t)
		code, err := Code("/* a\nb */ \"<c>\"\r\n\r\nx", "go", "")
		is.NoErr(err)
		is.Equal(code.Language, "Go")
		is.Equal(code.Lines, 4)
		is.Equal(textOf(string(code.HTML)), "/* a\nb */ \"<c>\"\n\nx")
		is.Equal(check(string(code.HTML)), "")
		for _, part := range []string{
			`<a id="L1" href="#L1" tabindex="-1" aria-hidden="true"></a><span class="c">/* a</span>` + "\n", `<span class="c">b */</span> <span class="s">&#34;&lt;c&gt;&#34;</span>`, `id="L4"`,
		} {
			is.True(strings.Contains(string(code.HTML), part))
		}
	})
	t.Run("a last line without an end", func(t *testing.T) {
		is := is.New(t)
		code, err := Code("var", "go", "")
		is.NoErr(err)
		is.True(strings.HasSuffix(string(code.HTML), `<span class="k">var</span></code></pre>`+"\n"))
	})
	t.Run("plain text", func(t *testing.T) {
		is := is.New(t)
		code, err := Code("a\n", "", "a.txt")
		is.NoErr(err)
		is.Equal(code.Language, "") // pages say "Text" in the reader's language
		is.Equal(code.Lines, 1)
	})
	t.Run("nothing", func(t *testing.T) {
		is := is.New(t)
		code, err := Code("", "go", "")
		is.NoErr(err)
		is.Equal(code.Lines, 0)
	})
	t.Run("long", func(t *testing.T) {
		is := is.New(t)
		text := strings.Repeat("func\n", maxCode/5+1)
		code, err := Code(text, "go", "")
		is.NoErr(err)
		is.Equal(code.Language, "")
		is.True(!strings.Contains(string(code.HTML), "<span"))
		is.True(!strings.Contains(string(code.HTML), "<a ")) // more lines than are numbered
		is.Equal(textOf(string(code.HTML)), text)
	})
	t.Run("out of time", func(t *testing.T) {
		is := is.New(t)
		tokens, name, err := highlight("package a\n", "go", "", time.Now().Add(-time.Second))
		is.NoErr(err)
		is.Equal(name, "")
		is.Equal(len(tokens), 1)
	})
}

func TestQR(t *testing.T) {
	is := is.New(t)
	out, err := QR("https://kist.example.org/v/abc")
	is.NoErr(err)
	text := string(out)
	is.True(strings.HasPrefix(text, "<svg ") && strings.HasSuffix(text, "</svg>"))
	is.True(!strings.Contains(text, "style"))
	is.True(strings.Contains(text, `role="img"`))
	_, err = QR(strings.Repeat("a", 5000))
	is.True(err != nil)
}

func FuzzMarkdown(f *testing.F) {
	f.Fuzz(func(t *testing.T, src []byte) {
		start := time.Now()
		out, err := Markdown(src)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > most {
			t.Fatal(took)
		}
		if bad := check(string(out)); bad != "" {
			t.Fatal(bad)
		}
	})
}

func FuzzCode(f *testing.F) {
	f.Fuzz(func(t *testing.T, src, language, filename string) {
		start := time.Now()
		code, err := Code(src, language, filename)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > most {
			t.Fatal(took)
		}
		if bad := check(string(code.HTML)); bad != "" {
			t.Fatal(bad)
		}
		if got := textOf(string(code.HTML)); got != clean(src) {
			t.Fatalf("%q became %q", src, got)
		}
	})
}
