package record

import (
	"regexp"
	"strings"
)

// maxFrontMatter is the maximum number of lines of front matter.
const maxFrontMatter = 200

// A Property is a key of front matter, with its values as they are written but without quotes.
type Property struct {
	Key    string
	Values []string
}

// A frontMatterKey is at the beginning of a line, with its value or the sign of a longer one behind it.
var frontMatterKey = regexp.MustCompile(`^([\p{L}_"'][^:]{0,63}):(?:[ \t]+(.*))?$`)

// FrontMatter splits off the YAML that programs write at the beginning of a Markdown text, between lines of three
// hyphens: at most 200 lines. Text that looks otherwise is no front matter, and rest is the whole source. Values of
// more than one line, and lists with one entry on each line, have one value for each line.
func FrontMatter(source string) (all []Property, rest string) {
	if !strings.HasPrefix(source, "---") {
		return nil, source
	}
	number, at := 0, 0
	for line := range strings.Lines(source) {
		at += len(line)
		number++
		line = strings.TrimRight(line, " \t\r\n")
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
			p := Property{Key: unquoted(key[1])}
			if value := unquoted(key[2]); value != "" && strings.Trim(value, "|>-+") != "" {
				p.Values = append(p.Values, value)
			}
			all = append(all, p)
		case len(all) > 0 && strings.IndexByte(" \t-", line[0]) >= 0:
			last := &all[len(all)-1]
			last.Values = append(last.Values, unquoted(strings.TrimPrefix(strings.TrimSpace(line), "- ")))
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
