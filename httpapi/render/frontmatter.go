package render

import (
	"regexp"
	"strings"
)

// maxFrontMatter is the maximum number of lines of front matter.
const maxFrontMatter = 200

// A property is a key of front matter, with its values as they are written.
type property struct {
	key    string
	values []string
}

// A frontMatterKey is at the beginning of a line, with its value or the sign of a longer one behind it.
var frontMatterKey = regexp.MustCompile(`^([\p{L}_"'][^:]{0,63}):(?:[ \t]+(.*))?$`)

// frontMatter splits off the YAML that programs write at the beginning of a text, between lines of three
// hyphens. Text that looks otherwise is no front matter.
func frontMatter(source string) (all []property, rest string) {
	number, at := 0, 0
	for line := range strings.Lines(source) {
		at += len(line)
		number++
		line = strings.TrimRight(line, " \t\n")
		if number == 1 && line == "---" {
			continue
		}
		if number == 1 || number > maxFrontMatter {
			break
		}

		key := frontMatterKey.FindStringSubmatch(line)
		switch {
		case line == "---" || line == "...":
			if len(all) == 0 {
				return nil, source
			}
			return all, source[at:]
		case line == "", line[0] == '#':
		case key != nil:
			p := property{key: unquoted(key[1])}
			if value := unquoted(key[2]); value != "" && strings.Trim(value, "|>-+") != "" {
				p.values = append(p.values, value)
			}
			all = append(all, p)
		case len(all) > 0 && strings.IndexByte(" \t-", line[0]) >= 0:
			last := &all[len(all)-1]
			last.values = append(last.values, unquoted(strings.TrimPrefix(strings.TrimSpace(line), "- ")))
		default:
			return nil, source
		}
	}
	return nil, source
}

// unquoted is a value without the quotes around it.
func unquoted(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}

// writeFrontMatter writes front matter as a table.
func writeFrontMatter(b *strings.Builder, all []property) {
	b.WriteString("<table class=\"front\">\n<tbody>\n")
	for _, p := range all {
		b.WriteString(`<tr><th scope="row">` + escape(p.key) + "</th><td>")
		for i, value := range p.values {
			if i > 0 {
				b.WriteString("<br>")
			}
			b.WriteString(escape(value))
		}
		b.WriteString("</td></tr>\n")
	}
	b.WriteString("</tbody>\n</table>\n")
}
