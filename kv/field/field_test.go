package field

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"github.com/matryer/is"
)

type word string

var words = []word{"wishlist", "playing", "finished"}

// sample is a shape that uses every binding.
type sample struct {
	ID       uuid.UUID
	Title    string
	Content  string
	Label    string
	Hint     string
	Password Secret
	URL      string
	Public   bool
	Limit    int64
	Size     int64
	Rating   int64
	Expires  time.Time
	Status   word
	Mood     word
	Color    string
	Tags     []string
	TagIDs   []string
	Folder   uuid.UUID
	Views    int64
	Created  time.Time
	part     []byte
}

func (v *sample) Fields(s *Set) {
	s.ID("id", &v.ID, ReadOnly, Always)
	s.Text("title", &v.Title, 512, Required, Filled).Says("Title of the item.", `"Groceries"`)
	s.LongText("content", &v.Content, 1<<20)
	s.Name("label", &v.Label, 64)
	s.Text("hint", &v.Hint, 64, WriteOnly)
	s.Secret("password", &v.Password)
	s.URL("url", &v.URL)
	s.Bool("isPublic", &v.Public)
	s.Count("maxViews", &v.Limit)
	s.Number("size", &v.Size, 0, 1<<53)
	s.MaybeNumber("rating", &v.Rating, 0, 10)
	s.Time("expiresAt", &v.Expires)
	Choice(s, "status", &v.Status, words)
	MaybeChoice(s, "mood", &v.Mood, words)
	s.Ruled("color", &v.Color, lower, "^[a-z]+$", 16)
	s.Texts("tags", &v.Tags, lower, 8, 16)
	s.IDs("tagIds", &v.TagIDs, 8)
	s.ID("folderId", &v.Folder)
	s.Splice(&v.part, &part{})
	s.Number("views", &v.Views, 0, MaxCount, ReadOnly, Counter)
	s.Shown("kind", Schema{Type: "string"}, func(dst []byte) []byte { return AppendString(dst, "sample") })
	s.Time("createdAt", &v.Created, ReadOnly)
}

// part is the shape that a sample splices.
type part struct{ Slug, Note string }

func (v *part) Fields(s *Set) {
	s.Text("slug", &v.Slug, 64)
	s.Text("note", &v.Note, 64)
}

// lower is a rule: 1 to 16 bytes without a comma, in lower case.
func lower(t string) (string, error) {
	t = strings.ToLower(strings.TrimSpace(t))
	if t == "" || len(t) > 16 || strings.Contains(t, ",") || !utf8.ValidString(t) {
		return "", errors.New("must be a word")
	}
	return t, nil
}

func newSample() *sample {
	return &sample{Rating: -1, part: Of(&part{Slug: "s", Note: "<n>"}).AppendJSON(nil)}
}

// full is a create with every readable member.
const full = `{
	"title": "Groceries", "content": "- milk\n- <b>eggs</b>", "label": " The  label ", "hint": "h",
	"password": "open sesame", "url": "HTTPS://Example.ORG/A?b=C#D", "isPublic": true, "maxViews": 5,
	"size": 9007199254740992, "rating": 0, "expiresAt": "2030-01-01T01:00:00.1239+01:00",
	"status": "playing", "mood": "finished", "color": "RED", "tags": ["Beach", "2024"],
	"tagIds": ["01890A5D-AC96-774B-BCCE-B302099A8057"], "folderId": "01890a5d-ac96-774b-bcce-b302099a8058"
}`

func parsed(is *is.I, body string) Object {
	in, err := Parse([]byte(body))
	is.NoErr(err)
	return in
}

func TestCreateReadsEverything(t *testing.T) {
	is := is.New(t)
	v := newSample()
	is.NoErr(Of(v).Create(parsed(is, full)))
	is.Equal(*v, sample{
		Title: "Groceries", Content: "- milk\n- <b>eggs</b>", Label: "The label", Hint: "h",
		Password: Secret{true, "open sesame"}, URL: "https://example.org/A?b=C#D", Public: true, Limit: 5,
		Size: 1 << 53, Rating: 0, Expires: time.Date(2030, 1, 1, 0, 0, 0, 123e6, time.UTC),
		Status: "playing", Mood: "finished", Color: "red", Tags: []string{"beach", "2024"},
		TagIDs: []string{"01890a5d-ac96-774b-bcce-b302099a8057"},
		Folder: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058"), part: v.part,
	})
}

func TestAppendJSON(t *testing.T) {
	is := is.New(t)
	v := newSample()
	set := Of(v)
	is.Equal(string(set.AppendJSON([]byte("x:"))), `x:{"id":null,"title":"","content":"","label":"","url":null,`+
		`"isPublic":false,"maxViews":null,"size":0,"rating":null,"expiresAt":null,"status":null,"mood":null,"color":"",`+
		`"tags":[],"tagIds":[],"folderId":null,"slug":"s","note":"\u003cn\u003e","views":0,"kind":"sample","createdAt":null}`)

	is.NoErr(set.Create(parsed(is, full)))
	v.ID = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	v.Created = time.Date(2026, 12, 31, 18, 0, 0, 999_999_999, time.FixedZone("", -3600))
	is.Equal(string(set.AppendJSON(nil)), `{"id":"01890a5d-ac96-774b-bcce-b302099a8057","title":"Groceries",`+
		`"content":"- milk\n- \u003cb\u003eeggs\u003c/b\u003e","label":"The label","url":"https://example.org/A?b=C#D",`+
		`"isPublic":true,"maxViews":5,"size":9007199254740992,"rating":0,"expiresAt":"2030-01-01T00:00:00.123Z",`+
		`"status":"playing","mood":"finished","color":"red","tags":["beach","2024"],`+
		`"tagIds":["01890a5d-ac96-774b-bcce-b302099a8057"],"folderId":"01890a5d-ac96-774b-bcce-b302099a8058",`+
		`"slug":"s","note":"\u003cn\u003e","views":0,"kind":"sample","createdAt":"2026-12-31T19:00:00.999Z"}`)
}

// A digest tells apart values that differ in anything that is shown, but counters.
func TestAppendDigested(t *testing.T) {
	is := is.New(t)
	v := newSample()
	set := Of(v)
	digest := func() uint64 {
		d := xxhash.New()
		_, _ = d.WriteString("before")
		is.Equal(string(set.AppendDigested([]byte("x:"), d)), string(set.AppendJSON([]byte("x:"))))
		return d.Sum64()
	}
	before := digest()
	is.Equal(digest(), before)
	v.Views++
	is.Equal(digest(), before)
	seen := map[uint64]bool{before: true}
	for _, change := range []func(){
		func() { v.Public = true },
		func() { v.Size = 1 },
		func() { v.part = Of(&part{Slug: "t"}).AppendJSON(nil) },
		func() { v.Title = "a" },
		func() { v.Title, v.Content = "", "a" },
		func() { v.Created = time.Unix(1, 0) },
	} {
		change()
		is.True(!seen[digest()])
		seen[digest()] = true
	}
}

func TestUnknown(t *testing.T) {
	is := is.New(t)
	in := parsed(is, `{"title":"a","titel":"b","id":null,"views":1,"Title":"c","url":{"x":1}}`)
	is.Equal(Unknown(newSample(), in), []string{"Title", "id", "titel", "views"})
	is.Equal(Unknown(newSample(), Object{}), nil)
}

func TestLoadReadsBack(t *testing.T) {
	for _, tt := range []struct{ name, body string }{
		{"the least", `{"title":"t"}`},
		{"everything", full},
		{"text of all kinds", `{"title":"<&>\u2028\ufffd😀\u007f","content":"\b\f\\\"","tags":["a\tb"]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			v := newSample()
			is.NoErr(Of(v).Create(parsed(is, tt.body)))
			v.ID, v.Views, v.Created = uuid.New(), 7, time.Now()
			once := Of(v).AppendJSON(nil)

			back := newSample()
			is.NoErr(Of(back).Load(once))
			is.Equal(string(Of(back).AppendJSON(nil)), string(once))
			is.Equal(back.ID, v.ID) // read-only members too
			is.Equal(back.Views, v.Views)
			is.Equal(back.Password, Secret{}) // was not written
			is.Equal(back.Hint, "")
		})
	}
}

func TestLoad(t *testing.T) {
	is := is.New(t)
	v := newSample()
	v.Title, v.Limit, v.Public, v.Label = "old", 5, true, "kept"
	set := Of(v)
	is.NoErr(set.Load([]byte(`{"title":"","maxViews":null,"isPublic":null,"views":3,"other":[1],"kind":"else","slug":"else"}`)))
	is.Equal(v.Title, "")       // stored data is not subject to the rules of input
	is.Equal(v.Limit, int64(0)) // null
	is.Equal(v.Public, true)    // null is not a value of it
	is.Equal(v.Label, "kept")   // absent
	is.Equal(v.Views, int64(3))
	is.Equal(string(v.part), string(newSample().part))

	is.Equal(set.Load([]byte(`{"views":1,"title":"","views":1}`)).Error(), "views is stored twice")
	is.Equal(set.Load([]byte(`{"rating":11}`)).Error(), "rating must be a whole number from 0 to 10")
	is.Equal(set.Load([]byte(`{"url":1}`)).Error(), "url must be text")
	is.Equal(set.Load([]byte(`{"views":"x"}`)).Error(), "views must be a whole number from 0 to 2147483647")
}

// Load uses the order to be fast, but does not depend on it.
func TestLoadInAnyOrder(t *testing.T) {
	is := is.New(t)
	v := newSample()
	is.NoErr(Of(v).Load([]byte(` { "views" : 3 , "maxViews":2,"x":{"views":[{}]},"title":"t","tags":["b","a"],"note":"]}\"" } `)))
	want := newSample()
	want.Views, want.Limit, want.Title, want.Tags = 3, 2, "t", []string{"b", "a"}
	is.Equal(v, want)
}

func TestLoadRefuses(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	for _, tt := range []struct{ name, stored string }{
		{"nothing", ``},
		{"null", `null`},
		{"list", `[]`},
		{"NUL", "\x00"},
		{"no colon", `{"title" "t"}`},
		{"no comma", `{"title":"t" "views":1}`},
		{"comma before a brace", `{"title":"t",}`},
		{"only a comma", `{,}`},
		{"no name", `{:1}`},
		{"number for a name", `{1:1}`},
		{"no value", `{"title":}`},
		{"no value that is passed over", `{"other":}`},
		{"bracket for a value that is passed over", `{"other":]`},
		{"comma for a value that is passed over", `{"other":,"views":1}`},
		{"no such word", `{"title":nil}`},
		{"no such escape", `{"title":"\x41"}`},
		{"half of a surrogate pair", `{"title":"\ud800"}`},
		{"half of a surrogate pair, then text", `{"title":"\ud800\u0041"}`},
		{"the wrong half of a surrogate pair", `{"title":"\udc00\ud800"}`},
		{"invalid UTF-8", "{\"title\":\"\xff\"}"},
		{"text after", `{} x`},
		{"NUL after", "{}\x00"},
		{"brace after", `{}}`},
		{"nested without end", `{"tags":` + deep},
		{"nested without end where it is passed over", `{"other":` + deep},
		{"number that is none", `{"views":1-2}`},
		{"text for a list", `{"tags":["a"`},
		{"brace for a bracket", `{"tags":["a"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			err := Of(newSample()).Load([]byte(tt.stored))
			is.True(err != nil)
			var m Malformed
			is.True(!errors.As(err, &m)) // the client sent nothing wrong
		})
	}
}

func TestLoadDamaged(t *testing.T) {
	is := is.New(t)
	v := newSample()
	is.NoErr(Of(v).Create(parsed(is, full)))
	is.Equal(Of(newSample()).Load([]byte(`{"title":nil}`)).Error(), "stored JSON is damaged near byte 12")
	stored := Of(v).AppendJSON(nil)
	for i := range stored {
		is.True(Of(newSample()).Load(stored[:i]) != nil) // cut short
		for _, c := range []byte("\x00\"\\{}[],:0x\xff") {
			bad := slices.Clone(stored)
			bad[i] = c
			_ = Of(newSample()).Load(bad) // it may be other text, but Load must not panic
		}
	}
}

// Skipping members must not build values that nobody reads.
func TestLoadPassesOver(t *testing.T) {
	is := is.New(t)
	v := newSample()
	set := Of(v)
	stored := []byte(`{"other":[{"a":1,"b":["text","\n"]}` + strings.Repeat(`,[{"c":"d"}]`, 1000) + `],"kind":{"a":"b"},"views":3}`)
	var err error
	allocs := testing.AllocsPerRun(10, func() { err = set.Load(stored) })
	is.NoErr(err)
	is.Equal(v.Views, int64(3))
	is.True(allocs < 10)
}

func TestCreateNamesEveryProblem(t *testing.T) {
	is := is.New(t)
	v := newSample()
	err := Of(v).Create(parsed(is, `{
		"content": 5, "label": "a\u0007b", "hint": "\u0000", "password": [], "url": "javascript:alert(1)", "isPublic": 1,
		"maxViews": 0, "size": -1, "rating": 10.5, "expiresAt": "2026-02-30T00:00:00Z", "status": "", "mood": true,
		"color": "a,b", "tags": [1], "tagIds": ["x"], "folderId": {}, "views": "x", "kind": 1, "slug": 1, "unknown": 1
	}`))
	is.Equal(err, Problems{
		"title":     "is required",
		"content":   "must be text",
		"label":     "must not contain control characters",
		"hint":      "must not contain the NUL character",
		"password":  "must be text",
		"url":       "must be an absolute http or https address",
		"isPublic":  "must be true or false",
		"maxViews":  "must be a whole number from 1 to 2147483647",
		"size":      "must be a whole number from 0 to 9007199254740992",
		"rating":    "must be a whole number from 0 to 10",
		"expiresAt": "must be a date-time with a zone, such as 2026-12-31T18:00:00Z, or a date such as 2026-12-31",
		"status":    "must be one of: wishlist, playing, finished",
		"mood":      "must be one of: wishlist, playing, finished",
		"color":     "must be a word",
		"tags":      "has a bad entry: number 1 must be text",
		"tagIds":    "has a bad entry: number 1 must be a UUID",
		"folderId":  "must be text",
	})
}

func TestPatchNamesEveryProblem(t *testing.T) {
	is := is.New(t)
	err := Of(newSample()).Patch(parsed(is, `{"title":" ","isPublic":null,"size":null,"status":null,"rating":"eleven"}`))
	is.Equal(err, Problems{
		"title":    "must not be empty",
		"isPublic": "cannot be null",
		"size":     "cannot be null",
		"status":   "cannot be null",
		"rating":   "must be a whole number from 0 to 10",
	})
}

func TestProblemsError(t *testing.T) {
	is := is.New(t)
	is.Equal(Problems{"b": "is required", "a": "must be text", "c": "cannot be null"}.Error(),
		"a must be text; b is required; c cannot be null")
}

func TestReadOnlyMembersAreIgnored(t *testing.T) {
	const body = `{"title":"t","id":"01890a5d-ac96-774b-bcce-b302099a8057","views":9,"createdAt":"2020-01-01T00:00:00Z",` +
		`"kind":"x","slug":"mine","note":"mine","":1,"userId":"other"}`
	for _, tt := range []struct {
		name string
		read func(*Set, Object) error
	}{
		{"create", (*Set).Create},
		{"patch", (*Set).Patch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			v := newSample()
			is.NoErr(tt.read(Of(v), parsed(is, body)))
			want := newSample()
			want.Title = "t"
			is.Equal(v, want)
		})
	}
}

// A name must match exactly: encoding/json would fold its case.
func TestNamesKeepTheirCase(t *testing.T) {
	is := is.New(t)
	v := newSample()
	is.NoErr(Of(v).Patch(parsed(is, `{"ISPUBLIC":true,"Title":"x","isPublıc":true}`)))
	is.Equal(v, newSample())
}

func TestWriteOnlyIsNeverShown(t *testing.T) {
	is := is.New(t)
	v := newSample()
	v.Hint, v.Password = "hunter1", Secret{true, "hunter2"}
	set := Of(v)
	is.True(!strings.Contains(string(set.AppendJSON(nil)), "hunter"))
	for text := range set.Strings() {
		is.True(text != "hunter2")
	}
	for _, f := range set.Fields() {
		if f.Name == "password" {
			is.Equal(f.Traits, WriteOnly) // whatever the traits it was bound with
		}
	}
}

func TestCreateAndPatchDiffer(t *testing.T) {
	for _, tt := range []struct {
		name, body    string
		create, patch error
	}{
		{"nothing", `{}`, Problems{"it": "is required"}, nil},
		{"null", `{"it":null}`, Problems{"it": "is required"}, Problems{"it": "cannot be null"}},
		{"empty", `{"it":""}`, Problems{"it": "must not be empty"}, Problems{"it": "must not be empty"}},
		{"blank", `{"it":" \t\u00a0\u2003"}`, Problems{"it": "must not be empty"}, Problems{"it": "must not be empty"}},
		{"text", `{"it":" x "}`, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			it := "old"
			set := new(Set)
			set.Text("it", &it, 10, Required, Filled)
			in := parsed(is, tt.body)
			is.Equal(set.Create(in), tt.create)
			is.Equal(set.Patch(in), tt.patch)
			if tt.patch == nil && len(in) > 0 {
				is.Equal(it, " x ") // as given
			} else {
				is.Equal(it, "old")
			}
		})
	}
}

// Filled applies to every binding that can be empty.
func TestFilled(t *testing.T) {
	var (
		text   string
		list   []string
		id     uuid.UUID
		secret Secret
		at     time.Time
	)
	for _, tt := range []struct {
		name  string
		bind  func(*Set)
		empty []any // nil is empty only on a patch
	}{
		{"text", func(s *Set) { s.Text("it", &text, 9, Filled) }, []any{nil, "", " "}},
		{"long text", func(s *Set) { s.LongText("it", &text, 9, Filled) }, []any{nil, "", "\n"}},
		{"name", func(s *Set) { s.Name("it", &text, 9, Filled) }, []any{nil, "", "\t \n", "\u202e", " \u200e "}},
		{"address", func(s *Set) { s.URL("it", &text, Filled) }, []any{nil, "", " "}},
		{"ruled", func(s *Set) { s.Ruled("it", &text, lower, "", 9, Filled) }, []any{nil, "", " "}},
		{"texts", func(s *Set) { s.Texts("it", &list, lower, 9, 9, Filled) }, []any{nil, "", " ", []any{}, "[]", " , ,"}},
		{"ids", func(s *Set) { s.IDs("it", &list, 9, Filled) }, []any{nil, "", []any{}, "[ ]", ","}},
		{"id", func(s *Set) { s.ID("it", &id, Filled) }, []any{nil, "", " "}},
		{"secret", func(s *Set) { s.Secret("it", &secret, Filled) }, []any{nil, "", " "}},
		{"time", func(s *Set) { s.Time("it", &at, Filled) }, []any{nil, ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			set := new(Set)
			tt.bind(set)
			is.NoErr(set.Create(Object{}))
			is.NoErr(set.Create(Object{"it": nil})) // like an absent member
			for _, v := range tt.empty {
				in, want := Object{"it": v}, Problems{"it": "must not be empty"}
				if v != nil {
					is.Equal(set.Create(in), want)
				} else {
					want["it"] = "cannot be null"
				}
				is.Equal(set.Patch(in), want)
			}
		})
	}
}

func TestNull(t *testing.T) {
	v := sample{
		Title: "x", Content: "x", Label: "x", Password: Secret{false, "x"}, URL: "x", Public: true, Limit: 1, Size: 1,
		Rating: 1, Expires: time.Unix(1, 0), Status: "playing", Mood: "playing", Color: "x", Tags: []string{"x"},
		TagIDs: []string{"x"}, Folder: uuid.Max,
	}
	for _, tt := range []struct {
		name  string
		shown string // JSON before and after a create
		clear string // JSON after a patch; "" if it is refused
		bind  func(*Set, *sample)
	}{
		{"text", `"x"`, `""`, func(s *Set, v *sample) { s.Text("it", &v.Title, 9) }},
		{"long text", `"x"`, `""`, func(s *Set, v *sample) { s.LongText("it", &v.Content, 9) }},
		{"name", `"x"`, `""`, func(s *Set, v *sample) { s.Name("it", &v.Label, 9) }},
		{"address", `"x"`, `null`, func(s *Set, v *sample) { s.URL("it", &v.URL) }},
		{"ruled", `"x"`, `""`, func(s *Set, v *sample) { s.Ruled("it", &v.Color, lower, "", 9) }},
		{"boolean", `true`, ``, func(s *Set, v *sample) { s.Bool("it", &v.Public) }},
		{"count", `1`, `null`, func(s *Set, v *sample) { s.Count("it", &v.Limit) }},
		{"number", `1`, ``, func(s *Set, v *sample) { s.Number("it", &v.Size, 1, 2) }},
		{"number or none", `1`, `null`, func(s *Set, v *sample) { s.MaybeNumber("it", &v.Rating, 0, 2) }},
		{"time", `"1970-01-01T00:00:01.000Z"`, `null`, func(s *Set, v *sample) { s.Time("it", &v.Expires) }},
		{"choice", `"playing"`, ``, func(s *Set, v *sample) { Choice(s, "it", &v.Status, words) }},
		{"choice or none", `"playing"`, `null`, func(s *Set, v *sample) { MaybeChoice(s, "it", &v.Mood, words) }},
		{"texts", `["x"]`, `[]`, func(s *Set, v *sample) { s.Texts("it", &v.Tags, lower, 9, 9) }},
		{"ids", `["x"]`, `[]`, func(s *Set, v *sample) { s.IDs("it", &v.TagIDs, 9) }},
		{"id", `"` + uuid.Max.String() + `"`, `null`, func(s *Set, v *sample) { s.ID("it", &v.Folder) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			v := v
			set := new(Set)
			tt.bind(set, &v)
			show := func() string { return string(set.AppendJSON(nil)) }
			is.NoErr(set.Create(Object{"it": nil}))
			is.Equal(show(), `{"it":`+tt.shown+`}`)
			is.NoErr(set.Patch(Object{}))
			is.Equal(show(), `{"it":`+tt.shown+`}`)
			err := set.Patch(Object{"it": nil})
			if tt.clear == "" {
				is.Equal(err, Problems{"it": "cannot be null"})
				is.Equal(show(), `{"it":`+tt.shown+`}`)
			} else {
				is.NoErr(err)
				is.Equal(show(), `{"it":`+tt.clear+`}`)
			}
		})
	}
}

func TestSplice(t *testing.T) {
	for _, tt := range []struct {
		name, raw, want string
		first, last     bool
	}{
		{"between", `{"slug":"s"}`, `{"a":false,"slug":"s","b":false}`, true, true},
		{"first", `{"slug":"s"}`, `{"slug":"s","b":false}`, false, true},
		{"last", `{"slug":"s"}`, `{"a":false,"slug":"s"}`, true, false},
		{"alone", `{"slug":"s"}`, `{"slug":"s"}`, false, false},
		{"no members", `{}`, `{"a":false,"b":false}`, true, true},
		{"no members, first", `{}`, `{"b":false}`, false, true},
		{"nothing yet", ``, `{"a":false,"b":false}`, true, true},
		{"nothing at all", ``, `{}`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			var a, b bool
			raw := []byte(tt.raw)
			set := new(Set)
			if tt.first {
				set.Bool("a", &a)
			}
			set.Splice(&raw, &part{})
			if tt.last {
				set.Bool("b", &b)
			}
			is.Equal(string(set.AppendJSON(nil)), tt.want)
			is.NoErr(set.Create(Object{"": "x", "slug": "x"}))
			is.NoErr(set.Load([]byte(`{"":"x","slug":"x"}`)))
			is.Equal(string(raw), tt.raw) // cannot be read into
		})
	}
}

func names(fields []Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

func TestMembers(t *testing.T) {
	is := is.New(t)
	set := Of(newSample())
	bound := names(set.Fields())
	i := slices.Index(bound, "")
	is.Equal(names(set.Members()), slices.Replace(bound, i, i+1, "slug", "note"))

	as := ObjectOf(newSample())
	is.Equal(as.Type, "object")
	is.Equal(names(as.Members), names(set.Members()))

	// The JSON of a value has exactly these members.
	shown := parsed(is, string(set.AppendJSON(nil)))
	for _, f := range set.Members() {
		_, there := shown[f.Name]
		is.Equal(there, f.Traits&WriteOnly == 0) // f.Name
		delete(shown, f.Name)
	}
	is.Equal(shown, Object{})
}

func TestSays(t *testing.T) {
	is := is.New(t)
	var a, b string
	set := new(Set)
	set.Text("a", &a, 9).Says("First.", `"x"`)
	set.Text("b", &b, 9, Required, Filled).Says("Second.", `"y"`)
	f := set.Fields()
	is.Equal([]string{f[0].Doc, f[0].Example, f[1].Doc, f[1].Example}, []string{"First.", `"x"`, "Second.", `"y"`})
	is.Equal(f[1].Traits, Required|Filled)
}

func TestStrings(t *testing.T) {
	is := is.New(t)
	v := newSample()
	v.Title, v.Content, v.Label, v.Hint, v.URL, v.Color = "t", "c", "l", "h", "u", "o"
	set := Of(v)
	is.Equal(slices.Collect(set.Strings()), []string{"t", "c", "l", "h", "u", "o"})
	for text := range set.Strings() {
		is.Equal(text, "t")
		break // a reader may stop early
	}
}

// A set can read into its variables again and again.
func TestSetIsUsedAgain(t *testing.T) {
	is := is.New(t)
	v := newSample()
	set := Of(v)
	for _, title := range []string{"a", "b"} {
		*v = *newSample()
		is.NoErr(set.Create(Object{"title": title, "maxViews": json.Number("5")}))
		is.Equal(v.Title, title)
		is.NoErr(set.Patch(Object{"maxViews": nil}))
		is.Equal(v.Limit, int64(0))
	}
}

func TestSchema(t *testing.T) {
	least, top, one, count, zero, ten := int64(0), int64(MaxSafe), int64(1), int64(MaxCount), int64(0), int64(10)
	all := []string{"wishlist", "playing", "finished"}
	id := Schema{Type: "string", Format: "uuid", Nullable: true}
	at := Schema{Type: "string", Format: "date-time", Nullable: true}
	want := map[string]Schema{
		"id":        {Type: "string", Format: "uuid"}, // Always
		"title":     {Type: "string", MaxLength: 512},
		"content":   {Type: "string", MaxLength: 1 << 20},
		"label":     {Type: "string", MaxLength: 64},
		"hint":      {Type: "string", MaxLength: 64},
		"password":  {Type: "string", Format: "password", MaxLength: MaxSecret},
		"url":       {Type: "string", Format: "uri", MaxLength: MaxURL, Nullable: true},
		"isPublic":  {Type: "boolean"},
		"maxViews":  {Type: "integer", Format: "int64", Min: &one, Max: &count, Nullable: true},
		"size":      {Type: "integer", Format: "int64", Min: &least, Max: &top},
		"rating":    {Type: "integer", Format: "int64", Min: &zero, Max: &ten, Nullable: true},
		"expiresAt": at,
		"status":    {Type: "string", Enum: all},
		"mood":      {Type: "string", Enum: all, Nullable: true},
		"color":     {Type: "string", Pattern: "^[a-z]+$", MaxLength: 16},
		"tags":      {Type: "array", Items: &Schema{Type: "string", MaxLength: 16}, MaxItems: 8},
		"tagIds":    {Type: "array", Items: &Schema{Type: "string", Format: "uuid"}, MaxItems: 8},
		"folderId":  id,
		"slug":      {Type: "string", MaxLength: 64},
		"note":      {Type: "string", MaxLength: 64},
		"views":     {Type: "integer", Format: "int64", Min: &zero, Max: &count},
		"kind":      {Type: "string"},
		"createdAt": at,
	}
	for _, f := range Of(newSample()).Members() {
		t.Run(f.Name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(f.Schema(), want[f.Name])
		})
	}
}

// The start of stored JSON is read up to the named member, and a text that is cut keeps only whole characters.
func TestLoadStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	type texts struct{ a, b, c string }
	shape := func(v *texts) Shaped {
		return shaped(func(s *Set) {
			s.Text("a", &v.a, 1000)
			s.Text("b", &v.b, 1000)
			s.Text("c", &v.c, 1000)
		})
	}
	want := texts{"x", "a\"\\\n<é\u2028😀" + "\\\\", "z"}
	stored := AppendJSON(nil, shape(&want))
	for limit := len(`{"a":"x","b":"`); limit <= len(stored); limit++ {
		var got texts
		is.NoErr(LoadStart(shape(&got), stored, "b", limit))
		is.Equal(got.a, "x")
		is.True(strings.HasPrefix(want.b, got.b))
		is.Equal(got.c, "")
		if limit >= len(stored)-len(`,"c":"z"}`) {
			is.Equal(got.b, want.b)
		}
	}
	var got texts
	is.NoErr(LoadStart(shape(&got), stored, "a", len(stored)))
	is.Equal(got, texts{a: "x"})
	is.True(LoadStart(shape(&got), []byte(`{"a"`), "b", 100) != nil)
}

// The last member is found, whatever the texts before it say.
func TestLastText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, text := range []string{"", "x", `","last":"no"}`, `\`, `,"last":`, strings.Repeat(`"`, 100)} {
		for _, last := range []string{"", "https://example.org/?a&b", `"}`} {
			stored := AppendJSON(nil, shaped(func(s *Set) {
				s.Text("first", &text, 1000)
				s.Text("last", &last, 1000)
			}))
			is.Equal(LastText(stored, "last", len(stored)), last)
			is.Equal(LastText(stored, "last", 64), last)
			is.Equal(LastText(stored, "first", 1000), "")
		}
	}
	for _, stored := range []string{
		``, `{"last":"x"}`, `{"a":1,"last":null}`, `{"a":1,"last":"x`, `{"a":1,"last":"x","b":1}`,
	} {
		is.Equal(LastText([]byte(stored), "last", 100), "")
	}
}

type shaped func(*Set)

func (f shaped) Fields(s *Set) { f(s) }
