package render

import (
	"testing"

	"github.com/matryer/is"
)

// Emphasis beside marks of East Asia, where nobody writes spaces. Everywhere else it is as in CommonMark.
func TestEmphasis(t *testing.T) {
	for in, want := range map[string]string{
		"**历经10年发展，**年":          "<strong>历经10年发展，</strong>年",
		"**「刻舟求剑」**是":            "<strong>「刻舟求剑」</strong>是",
		"是**「刻舟求剑」**":            "是<strong>「刻舟求剑」</strong>",
		"**마크다운(Markdown)**의":    "<strong>마크다운(Markdown)</strong>의",
		"*これは強調です。*続き":           "<em>これは強調です。</em>続き",
		"~~删除（旧）。~~新":            "<del>删除（旧）。</del>新",
		"税込**¥10,000**でした":       "税込<strong>¥10,000</strong>でした",
		"は**[リンク](/a)**です":       `は<strong><a href="/a">リンク</a></strong>です`,
		"中文**`code`**中文":         "中文<strong><code>code</code></strong>中文",
		"***「強い」***と":            "<em><strong>「強い」</strong></em>と",
		"中_文_字":                  "中_文_字",
		"中 _文。_ 字":               "中 <em>文。</em> 字",
		"5*3*2":                  "5<em>3</em>2",
		"a**\"b\"**c":            "a**&quot;b&quot;**c",
		"snake_case_name":        "snake_case_name",
		"**bold**, *it*. ~~no~~": "<strong>bold</strong>, <em>it</em>. <del>no</del>",
		"** no **":               "** no **",
		"**中 **":                 "**中 **",
	} {
		t.Run(in, func(t *testing.T) {
			is := is.New(t)
			out, err := Markdown([]byte(in))
			is.NoErr(err)
			is.Equal(string(out), "<p>"+want+"</p>\n")
		})
	}
}
