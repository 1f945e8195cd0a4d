package render

import (
	"testing"

	"github.com/matryer/is"
)

func TestCallouts(t *testing.T) {
	const quote, end = "<blockquote dir=\"auto\">", "</blockquote>\n"
	for in, want := range map[string]string{
		"> [!NOTE]\n> Mind the gap.":    quote + "<p><strong>Note</strong></p>\n<p>Mind the gap.</p>\n" + end,
		"> [!WARNING] Careful\n> x":     quote + "<p><strong>Warning: Careful</strong></p>\n<p>x</p>\n" + end,
		"> [!tip]- A *folded* one\n> x": quote + "<p><strong>Tip: A <em>folded</em> one</strong></p>\n<p>x</p>\n" + end,
		"> [!info]+\n> - a":             quote + "<p><strong>Info</strong></p>\n<ul dir=\"auto\">\n<li>a</li>\n</ul>\n" + end,
		"> [!Übung]\n>\n> x":            quote + "<p><strong>Übung</strong></p>\n<p>x</p>\n" + end,
		"> [!NOTE]":                     quote + "<p><strong>Note</strong></p>\n" + end,
		"> [!NOTE]\n> a\n> b":           quote + "<p><strong>Note</strong></p>\n<p>a<br>\nb</p>\n" + end,
		"> > [!NOTE]\n> > a":            quote + quote + "<p><strong>Note</strong></p>\n<p>a</p>\n" + end + end,
		"> [!bug] <b>\n> a":             quote + "<p><strong>Bug: &lt;b&gt;</strong></p>\n<p>a</p>\n" + end,
		"[!NOTE]\nno quote":             "<p>[!NOTE]<br>\nno quote</p>\n",
		"> a\n> [!NOTE]":                quote + "<p>a<br>\n[!NOTE]</p>\n" + end,
		"> a\n>\n> [!NOTE]":             quote + "<p>a</p>\n<p>[!NOTE]</p>\n" + end,
		"> [!]\n> a":                    quote + "<p>[!]<br>\na</p>\n" + end,
		"> [!NOTE](/a)\n> b":            quote + "<p><a href=\"/a\">!NOTE</a><br>\nb</p>\n" + end,
		"> [NOTE]\n> a":                 quote + "<p>[NOTE]<br>\na</p>\n" + end,
	} {
		t.Run(in, func(t *testing.T) {
			is := is.New(t)
			out, err := Markdown([]byte(in))
			is.NoErr(err)
			is.Equal(string(out), want)
			is.Equal(check(string(out)), "")
		})
	}
}
