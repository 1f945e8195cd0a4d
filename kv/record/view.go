package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"kist/kv/field"
)

// A View is how people see a kind: its names, and the form that the app, the
// extension and the page of an item draw. Kind.View fills in the parts that a row of
// Kinds leaves out.
type View struct {
	Name    string  `json:"name"` // the kind's
	API     string  `json:"api"`  // its collection
	Page    string  `json:"path"` // its list, in the app
	One     string  `json:"one"`
	Many    string  `json:"many"`
	Count   Count   `json:"count"`          // a number of items; {n} stands for the number
	Icon    string  `json:"icon"`           // a symbol of the app
	Counter string  `json:"counter"`        // the kind's
	Limit   string  `json:"limit"`          // the kind's
	Quick   string  `json:"quick"`          // the field that the box above its list fills
	Prompt  string  `json:"prompt"`         // shown in that box
	Full    bool    `json:"full,omitempty"` // that box leads on to the whole form
	None    string  `json:"none"`           // shown in place of an empty list
	Inputs  []Input `json:"fields"`         // in the order of the form

	Versioned bool `json:"versioned,omitempty"` // the kind's
}

// An Input is a control of a form. A row of Kinds sets what the field does not say.
type Input struct {
	Name  string   `json:"name"`
	Label string   `json:"label"`
	Hint  string   `json:"hint,omitempty"`
	Lines int      `json:"-"`              // of text; 0 derives them from the field's maximum length
	Half  bool     `json:"half,omitempty"` // half as wide as the form
	Code  bool     `json:"mono,omitempty"` // text of a program, not Markdown
	List  []string `json:"list,omitempty"` // suggestions

	// These follow from the field.
	Type       string  `json:"type,omitempty"` // url, text (of lines), number, choice, check, time, folder; "" is a line
	Choices    Choices `json:"choices,omitempty"`
	Required   bool    `json:"required,omitempty"`   // must not be empty
	KeepSpaces bool    `json:"keepSpaces,omitempty"` // is sent as it was typed, even if empty
	Tall       bool    `json:"tall,omitempty"`
	Min        *int64  `json:"min,omitempty"`
	Max        *int64  `json:"max,omitempty"`
	MaxLength  int     `json:"maxLength,omitempty"`
}

// A Count is a text with a number, for the plural categories of English and German.
type Count struct {
	One   string `json:"one"`
	Other string `json:"other"`
}

// Choices are the values of a choice. In JSON they become an object that maps each
// value to its words for people.
type Choices []Choice

// A Choice is a value and its words for people.
type Choice struct{ Value, Words string }

// MarshalJSON implements json.Marshaler. It keeps the order.
func (c Choices) MarshalJSON() ([]byte, error) {
	values := make([]string, len(c))
	for i, choice := range c {
		values[i] = choice.Value
	}
	return field.AppendMembers(nil, values, func(dst []byte, value string) []byte {
		return field.AppendString(dst, c.Words(value))
	}), nil
}

// Words are the words for a value.
func (c Choices) Words(value string) string {
	for _, choice := range c {
		if choice.Value == value {
			return choice.Words
		}
	}
	return value
}

// Input returns the control of a field.
func (v *View) Input(name string) Input {
	return v.Inputs[slices.IndexFunc(v.Inputs, func(in Input) bool { return in.Name == name })]
}

// Translated is the view in another language. word returns the text for a key, or the
// English that it is given. The keys are one, many, count.one, count.other, prompt, none,
// and FIELD, FIELD.hint and FIELD.CHOICE.
func (v View) Translated(word func(key, english string) string) View {
	for key, text := range map[string]*string{
		"one": &v.One, "many": &v.Many, "count.one": &v.Count.One, "count.other": &v.Count.Other,
		"prompt": &v.Prompt, "none": &v.None,
	} {
		*text = word(key, *text)
	}
	v.Inputs = slices.Clone(v.Inputs)
	for i := range v.Inputs {
		in := &v.Inputs[i]
		in.Label = word(in.Name, in.Label)
		if in.Hint != "" {
			in.Hint = word(in.Name+".hint", in.Hint)
		}
		in.Choices = slices.Clone(in.Choices)
		for j := range in.Choices {
			in.Choices[j].Words = word(in.Name+"."+in.Choices[j].Value, in.Choices[j].Words)
		}
	}
	return v
}

// Spoken is the name of a field or a choice in words: "Cover url" for coverUrl, and
// "Make private" for make_private.
func Spoken(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case r == '_':
			b.WriteByte(' ')
		case i == 0:
			b.WriteRune(unicode.ToUpper(r))
		case unicode.IsUpper(r):
			b.WriteByte(' ')
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

var views = sync.OnceValue(func() map[*Kind]View {
	all := make(map[*Kind]View, len(Kinds))
	for _, k := range Kinds {
		all[k] = k.filledView()
	}
	return all
})

// View returns the kind's view, completed from its fields. Callers must not change the
// data that it refers to. It panics if the view names a field that the kind does not
// have.
func (k *Kind) View() View {
	if v, ok := views()[k]; ok {
		return v
	}
	return k.filledView() // a kind that is not in Kinds, used in tests
}

func (k *Kind) filledView() View {
	v := k.view
	word := func(p *string, otherwise string) { *p = cmp.Or(*p, otherwise) }
	v.Name, v.API, v.Counter, v.Limit, v.Versioned = k.Name, k.Path, k.Counter, k.Limit, k.Versioned()
	word(&v.Page, k.Path)
	word(&v.One, k.Name)
	word(&v.Many, Spoken(k.Path))
	word(&v.Icon, "list")
	word(&v.Count.One, "{n} "+v.One)
	word(&v.Count.Other, "{n} "+v.One+"s")
	word(&v.None, "Add the first one.")

	form := NewForm(k)
	var shape field.Shaped = form
	if k == Files {
		shape = Edit{form}
	}
	all := field.Of(shape).Fields()
	v.Inputs = make([]Input, 0, len(all))
	for _, in := range k.view.Inputs {
		i := slices.IndexFunc(all, func(f field.Field) bool { return f.Name == in.Name })
		if i < 0 {
			panic(fmt.Sprintf("record: the view of %s names the field %s, which it does not have", k.Name, in.Name))
		}
		v.Inputs = append(v.Inputs, in.filled(all[i]))
	}
	for _, f := range field.Of(form.Body).Fields() {
		listed := slices.ContainsFunc(v.Inputs, func(in Input) bool { return in.Name == f.Name })
		if f.Traits&field.ReadOnly == 0 && f.Schema().Format != "uuid" && !listed {
			v.Inputs = append(v.Inputs, Input{Name: f.Name}.filled(f))
		}
	}
	word(&v.Quick, v.Inputs[0].Name)
	for _, in := range v.Inputs {
		if in.Name == v.Quick {
			word(&v.Prompt, in.Label)
		}
	}
	return v
}

// filled returns the control with the properties that its field determines.
func (in Input) filled(f field.Field) Input {
	s := f.Schema()
	in.Label = cmp.Or(in.Label, Spoken(in.Name))
	in.Required = f.Traits&field.Filled != 0
	in.KeepSpaces = f.Traits&(field.Required|field.Filled) == field.Required
	switch {
	case in.Name == "folderName":
		in.Type, in.MaxLength = "folder", s.MaxLength
	case len(s.Enum) > 0:
		in.Type = "choice"
		for _, value := range s.Enum {
			in.Choices = append(in.Choices, Choice{value, Spoken(value)})
		}
	case s.Type == "integer":
		in.Type, in.Min = "number", s.Min
		if s.Max != nil && *s.Max < field.MaxCount { // larger bounds do not help people
			in.Max = s.Max
		}
	case s.Type == "boolean":
		in.Type = "check"
	case s.Format == "date-time":
		in.Type = "time"
	case s.Format == "uri":
		in.Type, in.MaxLength = "url", s.MaxLength
	default:
		in.MaxLength = s.MaxLength
		if in.Lines == 0 {
			switch {
			case s.MaxLength > MaxDescription:
				in.Lines = 8
			case s.MaxLength > MaxName:
				in.Lines = 2
			}
		}
		if in.Lines > 1 {
			in.Type, in.Tall = "text", in.Lines > 2
		}
	}
	return in
}

// Views is the list of all views as JSON. Callers must not change it.
var Views = sync.OnceValue(func() []byte {
	all := make([]View, 0, len(Kinds))
	for _, k := range Kinds {
		all = append(all, k.View())
	}
	out, err := json.Marshal(all)
	if err != nil { // texts and numbers cannot fail
		panic(err)
	}
	return out
})

// The views of the kinds.
var (
	fileView = View{
		Icon: "file",
		Inputs: []Input{
			{Name: "originalName", Label: "Name"},
			{Name: "folderName", Label: "Folder"},
			{Name: "description"},
		},
		None: "Drop a file here, paste a picture, or choose some. They stay private until you share them.",
	}
	bookmarkView = View{
		Icon: "bookmark", Quick: "url", Prompt: "Paste a URL to save",
		Inputs: []Input{
			{Name: "url", Label: "URL"},
			{Name: "title"},
			{Name: "description"},
			{Name: "imageUrl", Label: "Image URL"},
		},
		None: "Add a URL, or use the browser extension. Kist fills in the title.",
	}
	noteView = View{
		Icon: "note", Quick: "content", Prompt: "Write a note …",
		Inputs: []Input{
			{Name: "title"},
			{Name: "content", Label: "Text", Hint: "Markdown: # heading, **bold**, - list, - [ ] task, [link](URL)."},
			{Name: "sourceUrl", Label: "Source", Lines: 1},
		},
		None: "Notes are Markdown. “- [ ] Milk” makes a box to tick. A note without a title shows its first line.",
	}
	snippetView = View{
		Icon: "snippet", Quick: "content", Prompt: "Paste some code or a command",
		Inputs: []Input{
			{Name: "title"},
			{Name: "language", List: []string{
				"bash", "c", "cpp", "csharp", "css", "diff", "docker", "go", "html", "ini", "java", "javascript",
				"json", "kotlin", "lua", "make", "markdown", "nginx", "php", "powershell", "python", "ruby", "rust",
				"sql", "swift", "toml", "typescript", "xml", "yaml",
			}},
			{Name: "content", Label: "Code", Code: true},
		},
		None: "Keep a command or some code here to have it on every device.",
	}
	recipeView = View{
		Icon: "recipe", Quick: "title", Prompt: "Name of the dish", Full: true,
		Inputs: []Input{
			{Name: "title", Label: "Dish"},
			{Name: "description"},
			{Name: "ingredients", Lines: 2, Hint: "One per line, as a list: - 2 eggs"},
			{Name: "instructions", Hint: "One step per line: 1. Whisk"},
			{Name: "imageUrl", Label: "Photo URL"},
		},
		None: "Add the name of a dish, then its ingredients.",
	}
	gameView = View{
		Icon: "game", Quick: "title", Prompt: "Title of a game",
		Inputs: []Input{
			{Name: "title"},
			{Name: "platform", Half: true, List: []string{"PC", "Steam Deck", "Switch", "PlayStation", "Xbox", "Board"}},
			{Name: "status", Half: true},
			{Name: "rating", Label: "Rating, 0 to 10", Half: true},
			{Name: "playtimeMinutes", Label: "Playtime in minutes", Half: true},
			{Name: "notes"},
			{Name: "coverUrl", Label: "Cover image URL"},
			{Name: "storeUrl", Label: "Store page URL"},
		},
		None: "Wishlist, backlog, finished: the list can be shared.",
	}
	linkView = View{
		Page: "links", One: "short link", Many: "Links", Icon: "shortlink",
		Quick: "originalUrl", Prompt: "Paste a long URL to shorten",
		Inputs: []Input{{Name: "originalUrl", Label: "Target URL"}, {Name: "description", Lines: 1}},
		None:   "Make a long URL short, and see how often it is used.",
	}
	collectionView = View{
		Icon: "collection", Quick: "title", Prompt: "Name of a collection",
		Inputs: []Input{
			{Name: "title"},
			{Name: "description"},
			{Name: "sort", Label: "Order", Half: true},
			{Name: "allowDownload", Label: "Visitors may download"},
			{Name: "showNames", Label: "Names of guests stand below what they sent"},
		},
		None: "Share many things at once, with people of this house or behind one link.",
	}
)
