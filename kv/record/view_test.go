package record

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/field"
)

func TestViewsAreWhole(t *testing.T) {
	var all []struct {
		Name, API, Path, One, Many, Icon, Counter, Limit, Quick, Prompt, None string
		Fields                                                                []Input
	}
	is := is.New(t)
	is.NoErr(json.Unmarshal([]byte(strings.ReplaceAll(string(Views()), `"choices":{`, `"words":{`)), &all))
	is.Equal(len(all), len(Kinds))
	for i, k := range Kinds {
		v := all[i]
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			is.Equal([]string{v.Name, v.API, v.Counter, v.Limit}, []string{k.Name, k.Path, k.Counter, k.Limit})
			for _, text := range []string{v.Path, v.One, v.Many, v.Icon, v.Quick, v.None} {
				is.True(text != "")
			}
			is.True(k == Files || v.Prompt != "")
			seen := make(map[string]int)
			for _, in := range v.Fields {
				seen[in.Name]++
				is.True(in.Label != "")
				is.True(in.Type != "" && in.Type != "url" && in.Type != "text" || in.MaxLength > 0) // each text has its bound
			}
			is.Equal(seen[v.Quick], 1)
			for _, f := range field.Of(k.New()).Fields() {
				want := 1
				if f.Traits&field.ReadOnly != 0 || f.Schema().Format == "uuid" {
					want = 0
				}
				is.Equal(seen[f.Name], want)
			}
		})
	}
}

// A cellar is a kind that specifies only its fields.
type cellar struct {
	Name, Region, Remarks, Text, Shop string
	Colour                            string
	Bottles, Price                    int64
	Open                              bool
}

func (b *cellar) Fields(f *field.Set) {
	f.Ruled("title", &b.Name, CleanTitle, "", MaxName, field.Required, field.Filled)
	f.Text("homeRegion", &b.Region, 64)
	f.Text("remarks", &b.Remarks, MaxDescription)
	f.LongText("text", &b.Text, MaxContent, field.Required)
	f.URL("shopUrl", &b.Shop)
	field.MaybeChoice(f, "colour", &b.Colour, []string{"red", "off_white"})
	f.MaybeNumber("bottles", &b.Bottles, 0, 99)
	f.MaybeNumber("price", &b.Price, 1, field.MaxCount)
	f.Bool("open", &b.Open)
	f.Text("maker", &b.Name, 64, field.ReadOnly)
}

func (b *cellar) Title() string { return b.Name }
func (b *cellar) Named() string { return b.Name }

func TestViewFollowsFromTheFields(t *testing.T) {
	is := is.New(t)
	k := &Kind{200, "wine", "wines", 1, "views", "maxViews", 1 << 20, func() Body { return new(cellar) }, View{}}
	got, err := json.MarshalIndent(k.View(), "", " ")
	is.NoErr(err)
	var lines []string
	for line := range strings.Lines(string(got)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	is.Equal(strings.Join(lines, ""), `{"name": "wine","api": "wines","path": "wines","one": "wine","many": "Wines","count": {"one": "{n} wine","other": "{n} wines"},"icon": "list",`+
		`"counter": "views","limit": "maxViews","quick": "title","prompt": "Title","none": "Add the first one.","fields": [`+
		`{"name": "title","label": "Title","required": true,"maxLength": 512},`+
		`{"name": "homeRegion","label": "Home region","maxLength": 64},`+
		`{"name": "remarks","label": "Remarks","type": "text","maxLength": 8192},`+
		`{"name": "text","label": "Text","type": "text","keepSpaces": true,"tall": true,"maxLength": 1048576},`+
		`{"name": "shopUrl","label": "Shop url","type": "url","maxLength": 8192},`+
		`{"name": "colour","label": "Colour","type": "choice","choices": {"red": "Red","off_white": "Off white"}},`+
		`{"name": "bottles","label": "Bottles","type": "number","min": 0,"max": 99},`+
		`{"name": "price","label": "Price","type": "number","min": 1},`+
		`{"name": "open","label": "Open","type": "check"}]}`)
}

func TestViewNamesOnlyFields(t *testing.T) {
	is := is.New(t)
	defer func() {
		is.Equal(recover(), "record: the view of wine names the field vintage, which it does not have")
	}()
	(&Kind{200, "wine", "wines", 1, "views", "maxViews", 1 << 20, func() Body {
		return new(cellar)
	}, View{Inputs: []Input{{Name: "vintage"}}}}).View()
}
