package record

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/field"
)

// The head of a record, for lists, is what its whole body says, however long its texts are.
func TestHead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`<"\&`+"\n", MaxContent/5)
	name := strings.Repeat("<", MaxName)
	address := func(host string) string { return "https://" + host + "/?" + strings.Repeat("&", field.MaxURL-100) }
	for about, b := range map[string]Body{
		"file":              &File{OriginalName: "a.png", MimeType: "image/png", Size: 5, Description: long[:MaxDescription]},
		"bookmark":          &Bookmark{URL: address("u"), Name: name, Description: "d", ImageURL: address("i")},
		"note":              &Note{Name: name, Content: long},
		"note, no title":    &Note{Content: "\n\n# First line\n" + long},
		"note, no line":     &Note{Content: strings.Repeat("x", MaxContent)},
		"note, empty":       &Note{},
		"snippet":           &Snippet{Name: "s", Content: long, Language: "go"},
		"snippet, no title": &Snippet{Content: "é" + long},
		"recipe":            &Recipe{Name: name, Ingredients: long, Instructions: long, ImageURL: address("i"), Photo: ID{7}},
		"recipe, no photo":  &Recipe{Name: name, Ingredients: long + `,"imageUrl":"https://x"`},
		"game": &Game{
			Name: name, Platform: name, CoverURL: address("c"), StoreURL: address("s"), Cover: ID{8}, Notes: long[:MaxDescription],
		},
		"link": &Link{URL: address("u"), Description: "d"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			name, _, _ := strings.Cut(about, ",")
			r := &Record{Kind: Links}
			for _, k := range Kinds {
				if k.Name == name {
					r.Kind = k
				}
			}
			r.SetBody(b)
			got, err := r.Head()
			is.NoErr(err)
			is.Equal(got.Title(), b.Title())
			switch b := b.(type) {
			case *File:
				is.Equal(got.(*File).MimeType, b.MimeType)
			case *Bookmark:
				is.Equal(got.(*Bookmark).ImageURL, b.ImageURL)
			case *Recipe:
				is.Equal(got.(*Recipe).ImageURL, b.ImageURL)
				is.Equal(got.(*Recipe).Photo, b.Photo)
			case *Game:
				is.Equal(got.(*Game).CoverURL, b.CoverURL)
				is.Equal(got.(*Game).Cover, b.Cover)
			}
		})
	}
}
