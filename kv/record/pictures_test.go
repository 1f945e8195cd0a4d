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
			id := uuid.NewSHA1(uuid.Nil, []byte{byte(i >> 8), byte(i)})
			all.WriteString(strings.Repeat(fmt.Sprintf("![a](kist:%s)\n", id), each))
		}
		return all.String()
	}
	others := func(n int) string { return strings.TrimPrefix(named(n+1, 1), named(1, 1)) }
	for name, c := range map[string]struct {
		kind *record.Kind
		body record.Body
		at   string // the refused field
	}{
		"none":          {record.Notes, &record.Note{Content: "milk"}, ""},
		"as many":       {record.Notes, &record.Note{Content: named(record.MaxShown, 1)}, ""},
		"twice each":    {record.Notes, &record.Note{Content: named(record.MaxShown, 2)}, ""},
		"one more":      {record.Notes, &record.Note{Content: named(record.MaxShown+1, 1)}, "content"},
		"far too often": {record.Notes, &record.Note{Content: named(1, 10*record.MaxShown+1)}, "content"},
		"no addresses":  {record.Notes, &record.Note{Content: strings.Repeat("kist: ", 300)}, ""},
		"recipe":        {record.Recipes, &record.Recipe{Name: "a", Ingredients: named(record.MaxShown, 1)}, ""},
		"of description and steps": {
			record.Recipes, &record.Recipe{Description: named(1, 1), Instructions: others(record.MaxShown)}, "instructions",
		},
		"with its picture": {
			record.Recipes, &record.Recipe{Instructions: named(record.MaxShown, 1), Photo: uuid.New()}, "instructions",
		},
		"snippet": {record.Snippets, &record.Snippet{Content: named(record.MaxShown+1, 1)}, ""},
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

const shownFile = "kist:01890a5d-ac96-774b-bcce-b302099a8057"

// A file has another name wherever a text has its address; without a name, nothing is left of it.
func TestPlaceShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"x ![a](K) y":               {"x ![a](b%20c.png) y", "x *gone* y"},
		"![](K)![b](<K> \"t (1)\")": {"![](b%20c.png)![b](<b%20c.png> \"t (1)\")", "*gone**gone*"},
		"[![a](K)](https://x.org)":  {"[![a](b%20c.png)](https://x.org)", "[*gone*](https://x.org)"},
		"![a\nb](K)":                {"![a\nb](b%20c.png)", "![a\nb](*gone*)"},
		"![x]\n\n[x]: K\n":          {"![x]\n\n[x]: b%20c.png\n", "![x]\n\n[x]: *gone*\n"},
		"`K`":                       {"`b%20c.png`", "`*gone*`"},
		"![a](kist:abc)":            {"![a](kist:abc)", "![a](kist:abc)"},
		"no pictures":               {"no pictures", "no pictures"},
	} {
		for i, name := range []string{"b%20c.png", ""} {
			b := record.PlaceShown(&record.Note{Content: strings.ReplaceAll(text, "K", shownFile)}, func(id record.ID) string {
				if id != uuid.MustParse(shownFile[5:]) {
					t.Errorf("%s is asked for", id)
				}
				return name
			}, "*gone*")
			if got := b.(*record.Note).Content; got != want[i] {
				t.Errorf("%q became %q, want %q", text, got, want[i])
			}
		}
	}
}

func TestRenameShown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	one, two := uuid.New(), uuid.New()
	other := func(id record.ID) record.ID {
		if id == one {
			return two
		}
		return id
	}
	of := func(id record.ID) []record.Body {
		text := fmt.Sprintf("![](kist:%s)", id)
		return []record.Body{
			&record.Note{Content: text}, &record.Game{Cover: id},
			&record.Recipe{Description: text, Ingredients: text, Instructions: text, Photo: id},
		}
	}
	for i, b := range of(one) {
		is.Equal(record.RenameShown(b, other), of(two)[i])
		is.Equal(b, of(one)[i]) // it was not changed
	}
	same := &record.Note{Content: "![](" + shownFile + ")"}
	is.True(record.RenameShown(same, other) == record.Body(same))
}
