package render

import (
	"strings"

	"kist/kv/record"
)

// writeFrontMatter writes front matter as a table.
func writeFrontMatter(b *strings.Builder, all []record.Property) {
	b.WriteString("<table class=\"front\">\n<tbody>\n")
	for _, p := range all {
		b.WriteString(`<tr><th scope="row">` + escape(p.Key) + "</th><td>")
		for i, value := range p.Values {
			if i > 0 {
				b.WriteString("<br>")
			}
			b.WriteString(escape(value))
		}
		b.WriteString("</td></tr>\n")
	}
	b.WriteString("</tbody>\n</table>\n")
}
