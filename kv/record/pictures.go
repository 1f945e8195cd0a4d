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
		name, text = "instructions", b.Description+b.Ingredients+b.Instructions
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

// A file's address, and a picture with one and perhaps a title. The address is found wherever it stands: Shows finds it
// in code, too.
var (
	fileAddress  = regexp.MustCompile(FileScheme + `[0-9A-Fa-f-]{36}`)
	shownPicture = regexp.MustCompile(
		`!\[([^\]\n]*)\]\(<?` + FileScheme + `[0-9A-Fa-f-]{36}>?(?:[ \t]+"[^"\n]*")?[ \t]*\)`)
)

// PlaceShown returns b with what place returns instead of each address of a file in its Markdown. Where place returns
// "", gone stands instead of the address, or of the whole picture. It does not change the picture of a recipe or a
// game. Without such addresses it returns b itself.
func PlaceShown(b Body, place func(id ID) string, gone string) Body {
	switch b := b.(type) {
	case *Note:
		c := *b
		c.Content = placeIn(b.Content, place, gone)
		if c != *b {
			return &c
		}
	case *Recipe:
		c := *b
		for _, text := range []*string{&c.Description, &c.Ingredients, &c.Instructions} {
			*text = placeIn(*text, place, gone)
		}
		if c != *b {
			return &c
		}
	}
	return b
}

// placeIn is PlaceShown for one text.
func placeIn(text string, place func(id ID) string, gone string) string {
	if !strings.Contains(text, FileScheme) {
		return text
	}
	placed := func(address string) string {
		id, err := uuid.Parse(address[len(FileScheme):])
		if err != nil {
			return address
		}
		return place(id)
	}
	text = shownPicture.ReplaceAllStringFunc(text, func(picture string) string {
		if placed(fileAddress.FindString(picture)) == "" {
			return gone
		}
		return picture
	})
	return fileAddress.ReplaceAllStringFunc(text, func(address string) string {
		now := placed(address)
		if now == "" {
			return gone
		}
		return now
	})
}

// RenameShown returns b with other ids for the files that it shows. It returns b itself if nothing changes.
func RenameShown(b Body, other func(id ID) ID) Body {
	b = PlaceShown(b, func(id ID) string { return FileScheme + other(id).String() }, "")
	id := PictureOf(b)
	if id == (ID{}) || other(id) == id {
		return b
	}
	switch b := b.(type) {
	case *Recipe:
		c := *b
		c.Photo = other(id)
		return &c
	case *Game:
		c := *b
		c.Cover = other(id)
		return &c
	}
	return b
}

// maxTitled is how much of a text is read for its title.
const maxTitled = 16 << 10

// withoutPictures is the beginning of a text, with the words of its pictures in their place.
func withoutPictures(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxTitled)], "")
	if !strings.Contains(text, FileScheme) {
		return text
	}
	return shownPicture.ReplaceAllString(text, "$1")
}
