package render

import (
	"bytes"
	"html"
	"html/template"
	"regexp"

	"github.com/google/uuid"

	"kist/kv/record"
)

// Where a text shows a file, [Markdown] leaves a mark, because who sees the text decides what stands there. No text can
// make one: its own HTML is escaped.

var mark = regexp.MustCompile(`<span class="file" data-file="([0-9a-f-]{36})">([^<]*)</span>`)

// markOf is the mark for a file. words stand for it.
func markOf(id record.ID, words string) string {
	return `<span class="file" data-file="` + id.String() + `">` + escape(words) + `</span>`
}

// ownFile is the file that an address in a text names.
func ownFile(address []byte) (record.ID, bool) {
	name, own := bytes.CutPrefix(address, []byte(record.FileScheme))
	if !own || len(name) != 36 {
		return record.ID{}, false
	}
	id, err := uuid.ParseBytes(name)
	return id, err == nil
}

// Place puts what show makes in the place of each file that a rendered text shows. words stand for the file, as a text.
// They stay in the places after the first record.MaxShown.
func Place(page template.HTML, show func(id record.ID, words string) template.HTML) template.HTML {
	n := 0
	return template.HTML(mark.ReplaceAllStringFunc(string(page), func(found string) string { // #nosec G203 -- of escaped parts
		n++
		parts := mark.FindStringSubmatch(found)
		id, err := uuid.Parse(parts[1])
		if err != nil || n > record.MaxShown {
			return parts[2]
		}
		return string(show(id, html.UnescapeString(parts[2])))
	}))
}
