package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

// A text may name a file more than once, but no more files than it can show, and it is not refused for other words.
func TestCheckShows(t *testing.T) {
	t.Parallel()
	named := func(n, each int) string {
		var all strings.Builder
		for i := range n {
			all.WriteString(strings.Repeat(fmt.Sprintf("![a](kist:%s)\n", uuid.NewSHA1(uuid.Nil, []byte{byte(i >> 8), byte(i)})), each))
		}
		return all.String()
	}
	for name, c := range map[string]struct {
		kind *record.Kind
		body record.Body
		at   string // the refused field
	}{
		"none":             {record.Notes, &record.Note{Content: "milk"}, ""},
		"as many":          {record.Notes, &record.Note{Content: named(record.MaxShown, 1)}, ""},
		"twice each":       {record.Notes, &record.Note{Content: named(record.MaxShown, 2)}, ""},
		"one more":         {record.Notes, &record.Note{Content: named(record.MaxShown+1, 1)}, "content"},
		"far too often":    {record.Notes, &record.Note{Content: named(1, 10*record.MaxShown+1)}, "content"},
		"no addresses":     {record.Notes, &record.Note{Content: strings.Repeat("kist: ", 300)}, ""},
		"recipe":           {record.Recipes, &record.Recipe{Name: "a", Ingredients: named(record.MaxShown, 1)}, ""},
		"with its picture": {record.Recipes, &record.Recipe{Name: "a", Instructions: named(record.MaxShown, 1), Photo: uuid.New()}, "instructions"},
		"snippet":          {record.Snippets, &record.Snippet{Content: named(record.MaxShown+1, 1)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			f := record.NewForm(c.kind)
			f.Body = c.body
			err := f.CheckShows()
			is.Equal(err != nil, c.at != "")
			if c.at != "" {
				is.True(strings.Contains(err.Error(), c.at))
			}
		})
	}
}
