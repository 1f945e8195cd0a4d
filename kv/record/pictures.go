package record

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kist/kv/field"
)

// FileScheme begins the address of a picture in a Markdown text: kist:, and the id of a file of the same owner. The same
// address stands for a film or a sound.
const FileScheme = "kist:"

// MaxShown is how many files a record can show.
const MaxShown = 200

// maxNamed is how many places of a text are read for the files that it shows.
const maxNamed = 10 * MaxShown

// Shows are the ids of the files that a note, a recipe or a game shows, in the order of the text, each once. The store
// knows nothing about them here: they may be of another owner, or gone. Files after the first MaxShown are not shown.
func (r *Record) Shows() (ids []ID) { return r.shows(MaxShown) }

func (r *Record) shows(most int) (ids []ID) {
	switch r.Kind {
	case Notes:
	case Recipes:
		ids = named(r.Body, `"photoId":"`, nil, most)
	case Games:
		return named(r.Body, `"coverId":"`, nil, most)
	default:
		return nil
	}
	return named(r.Body, FileScheme, ids, most)
}

// CheckShows refuses a form whose texts name more files than a record shows: the others would be lost.
func (f *Form) CheckShows() error {
	name, text := "", ""
	switch b := f.Body.(type) {
	case *Note:
		name, text = "content", b.Content
	case *Recipe:
		name, text = "instructions", b.Ingredients+b.Instructions
	}
	places := strings.Count(text, FileScheme)
	if places < MaxShown {
		return nil
	}
	r := Record{Kind: f.kind}
	r.SetBody(f.Body)
	if places <= maxNamed && len(r.shows(MaxShown+1)) <= MaxShown {
		return nil
	}
	return field.Problems{name: fmt.Sprintf("can show at most %d files", MaxShown)}
}

// PictureOf is the file that is the picture of a recipe or a game; zero if none is.
func PictureOf(b Body) ID {
	switch b := b.(type) {
	case *Recipe:
		return b.Photo
	case *Game:
		return b.Cover
	}
	return ID{}
}

// named adds the ids that follow a word in a kind's own fields, up to a number of all ids.
func named(body []byte, word string, ids []ID, most int) []ID {
	const size = 36
	for n := 0; n < maxNamed && len(ids) < most; n++ {
		at := bytes.Index(body, []byte(word))
		if at < 0 {
			return ids
		}
		body = body[at+len(word):]
		if len(body) < size {
			return ids
		}
		id, err := uuid.ParseBytes(body[:size])
		if err != nil || slices.Contains(ids, id) {
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

var shownPicture = regexp.MustCompile(`!\[([^\]\n]*)\]\(` + FileScheme + `[0-9A-Fa-f-]{36}\)`)

// maxTitled is how much of a text is read for its title.
const maxTitled = 16 << 10

// withoutPictures is the beginning of a text, with the words of its pictures in their place.
func withoutPictures(text string) string {
	text = text[:min(len(text), maxTitled)]
	if !strings.Contains(text, FileScheme) {
		return text
	}
	return shownPicture.ReplaceAllString(text, "$1")
}
