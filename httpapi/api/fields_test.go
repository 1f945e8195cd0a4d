package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/field"
	"kist/kv/record"
)

// chars is n characters of two bytes each.
func chars(n int) string { return strings.Repeat("é", n) }

// address is an address of n bytes.
func address(n int) string {
	const start = "https://example.org/"
	return start + strings.Repeat("a", n-len(start))
}

func names(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = fmt.Sprintf("tag %02d", i)
	}
	return all
}

// values are what a field takes and what it refuses, both on a create and on
// a patch. A taken value is shown as it was sent, unless shows says how.
type values struct {
	takes   []any
	shows   map[any]any // by index into takes
	refuses []any
	// On create null is absence everywhere, on a patch it clears: shown is
	// what is then there, nil for null. A field that must have a value
	// refuses it.
	clears bool
	empty  any
}

// unset is shown as null.
type unset struct{}

var (
	oneLineValues = values{
		takes:   []any{"", chars(512), "<b>&\u2028\"", "a\nb", "  x  "},
		refuses: []any{chars(513), 5, 1.5, true, []any{"x"}, map[string]any{}, "a\x00b"}, clears: true, empty: "",
	}
	titleValues = values{
		takes:   []any{"a\r\nb\tc\u2028d", "a\u202etxt\u0007", chars(512), "<b>&\"", "  x  ", ""},
		shows:   map[any]any{0: "a b c d", 1: "atxt"},
		refuses: []any{chars(513), 5, 1.5, true, []any{"x"}, map[string]any{}, "a\x00b"}, clears: true, empty: "",
	}
	descriptionValues = values{
		takes: []any{"", chars(8192)}, refuses: []any{chars(8193), 5, false, []any{}, "\x00"}, clears: true, empty: "",
	}
	longValues = values{takes: []any{"x\n", ""}, refuses: []any{5, true, []any{}, "\x00"}, clears: true, empty: ""}

	targetValues = values{
		takes: []any{
			address(8192), "http://example.org", "https://example.org/a?b=c&d#e", "http://[::1]:80/", "http://127.0.0.1:8080/x",
			"HTTPS://EXAMPLE.org/Path", "https://bücher.example/ä", "https://example.org/%C3%A4?q=a%20b", "http://example.org:65535/", "http://example.org:/",
		},
		shows: map[any]any{5: "https://example.org/Path", 6: nil},
		refuses: []any{
			address(8193), "example.org", "/a", "//example.org/a", "https:example.org", "https://", "http:///a", "https://?q", "javascript:alert(1)", "JaVaScRiPt:alert(1)",
			"\tjavascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "ftp://example.org", "chrome://settings",
			"https://u:p@example.org", "https://u@example.org", "https://example.org/\u0000", "https://example.org/a\nb", `https://example.org\@evil.example`, "https://exa mple.org",
			"http://[::1", "http://example.org:port/", "http://example.org:65536", "http://[::1]:0/", 5, true,
			[]any{"https://example.org"},
			map[string]any{},
		},
	}
	maybeLinkValues = values{
		takes: append([]any{""}, targetValues.takes...),
		shows: map[any]any{0: unset{}, 6: "https://example.org/Path", 7: nil}, refuses: targetValues.refuses, clears: true,
	}
	onOffValues = values{
		takes: []any{true, false, "true", "false"}, shows: map[any]any{2: true, 3: false},
		refuses: []any{0, 1, "1", "yes", "TRUE", "", " true", []any{true}, map[string]any{}},
	}
	countValues = values{
		takes: []any{1, 2147483647, literal("3.0"), literal("1e2"), literal("2.5e1"), "5", "3.0", literal("2147483647.000")},
		shows: map[any]any{2: 3.0, 3: 100.0, 4: 25.0, 5: 5.0, 6: 3.0, 7: 2147483647.0},
		refuses: []any{
			0, -1, literal("1.5"), literal("0.9"), literal("-0"), literal("0.0"), literal("1e309"), literal("1e-1"), literal("2147483648"), literal("9007199254740993"), literal("2147483647.5"),
			"", " 5", "5 ", "1_000", "0x10", "0b1", "NaN", "Infinity", "five", "+5", "05", "-1", "1.5", "5,0", "٥", true, false,
			[]any{},
			[]any{5},
			map[string]any{},
			literal("1" + strings.Repeat("0", 5000)), literal("3." + strings.Repeat("0", 5000)),
		},
		clears: true,
	}
	atLimitValues = values{
		takes:   []any{"make_private", "delete"},
		refuses: []any{"", "Delete", "make-private", "none", 1, true, []any{"delete"}}, clears: true,
	}
	atEndValues = values{
		takes:   []any{"hide", "delete"},
		refuses: []any{"", "Delete", "make_private", "none", 1, true, []any{"delete"}},
	}
	expiryValues = values{
		takes: []any{
			"2099-12-31T23:59:59Z", "2099-12-31T23:59:59.123Z", "2099-12-31T23:59:59.123987Z", "2099-12-31T23:59:59+02:00",
			"2099-12-31T23:59:59-11:30", "2096-02-29T00:00:00Z", "9999-12-31T23:59:59.999Z",
			"2099-12-31", "2099-12-31T23:59:59+0100", "2099-12-31T23:59Z", "2099-12-31T23:59:59,5Z", "20991231T235959Z",
		},
		shows: map[any]any{
			0: "2099-12-31T23:59:59.000Z", 2: "2099-12-31T23:59:59.123Z", 3: "2099-12-31T21:59:59.000Z", 4: "2100-01-01T11:29:59.000Z", 5: "2096-02-29T00:00:00.000Z",
			7: "2099-12-31T23:59:59.999Z", 8: "2099-12-31T22:59:59.000Z", 9: "2099-12-31T23:59:00.000Z",
			10: "2099-12-31T23:59:59.500Z", 11: "2099-12-31T23:59:59.000Z",
		},
		refuses: []any{
			"", "2099-12-31T23:59:59", "2099-12-31 23:59:59Z", "2099-02-30T00:00:00Z", "2099-13-01T00:00:00Z", "2099-12-31T24:00:00Z", "2099-12-31T23:59:60Z",
			"2099-12-31T23:59:59+25:00", "2099-12-31T23:59:59+01:60", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00Z",
			"Fri, 31 Dec 2099 23:59:59 GMT", "tomorrow", 4102444799, "4102444799", true,
			[]any{},
			"2099-12-31T3:59:59Z", "2099-12-31T23:59:59Z ", strings.Repeat("9", 1<<16),
		},
		clears: true,
	}
	slugValues = values{
		takes: []any{"a", "7", "Z9._~@-", "a..b", strings.Repeat("s", 128), "0x", "apis", "notes-1", "index.htm"},
		refuses: []any{
			strings.Repeat("s", 129), ".a", "-a", "_a", "~a", "@a", "a b", "a/b", "a\\b", "a?b", "a#b", "a%20b", "a+b", "a:b", "ä", "a\u200d", "а", "a\n", "a\x00", ".", "..", "…", " a", "a ",
			"01890a5d-ac96-774b-bcce-b302099a8057", "01890A5D-AC96-774B-BCCE-B302099A8057", "01890a5dac96774bbcceb302099a8057", 5, true,
			[]any{"a"},
			"api", "API", "p", "P", "x", "v", "s", "g", "t", "up", "queue", "admin", "notes", "files", "shorten", "static", "healthz", "readyz", "metrics", "robots.txt", "favicon.ico",
			"login", "device", "claim", "tus", "upload", "search", "settings", "me", "openapi", "reference", "games", "recipes", "bookmarks", "snippets", "index.html", "sitemap.xml",
		},
	}
	passwordValues = values{
		takes: []any{
			"x", " x ", strings.Repeat("p", 1024), "pä\t\n",
		}, refuses: []any{strings.Repeat("p", 1025), chars(513), 5, true, []any{"x"}, map[string]any{}, "a\x00b"},
	}
	tagsValues = values{
		takes: []any{
			[]any{}, names(64), []any{chars(64)}, []any{"  a \t\u2028\u00a0b  "}, []any{"B", "b", "B "}, []any{"e\u0301"}, []any{"😀", "שלום", "<b>"}, "x, y,,x", `["p","q"]`, "",
		},
		shows: map[any]any{
			3: []any{"a b"}, 4: []any{"B"}, 5: []any{"é"}, 7: []any{"x", "y"}, 8: []any{"p", "q"}, 9: []any{},
		},
		refuses: []any{
			names(65),
			[]any{chars(65)},
			[]any{""},
			[]any{" "},
			[]any{"a,b"},
			[]any{"a\x00"},
			[]any{"a\u0007"},
			[]any{"a\u202eb"},
			[]any{5},
			[]any{nil},
			[]any{[]any{"a"}},
			[]any{map[string]any{"name": "a"}},
			5, true,
			map[string]any{"a": 1},
			`["a"`, `[5]`,
		},
		clears: true, empty: []any{},
	}
	sharedValues = map[string]values{
		"slug": slugValues, "isPublic": onOffValues, "isFavorite": onOffValues, "maxViewsAction": atLimitValues, "expiresAt": expiryValues, "expiryAction": atEndValues, "tags": tagsValues,
	}
)

// literal is JSON text that encoding/json would write differently.
type literal string

func (r literal) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// fieldsOf are the fields that a kind takes.
func fieldsOf(k *record.Kind) map[string]values {
	must := func(v values, refuses ...any) values {
		v.takes = slices.DeleteFunc(slices.Clone(v.takes), func(x any) bool { return x == "" })
		v.refuses, v.clears = append(slices.Clone(v.refuses), append(refuses, "", " \t\n")...), false
		return v
	}
	choice := func(words ...any) values {
		return values{
			takes: words, refuses: []any{"", "other", strings.ToUpper(words[0].(string)), 1, true, []any{}}, clears: true,
		}
	}
	number := func(most int) values {
		return values{
			takes: []any{0, most, literal("7.0"), "7"}, shows: map[any]any{2: 7.0, 3: 7.0}, clears: true,
			refuses: []any{-1, most + 1, literal("7.5"), literal("1e300"), "x", "", true, []any{}},
		}
	}
	all := map[*record.Kind]map[string]values{
		record.Bookmarks: {
			"url": must(targetValues), "title": titleValues, "description": descriptionValues, "imageUrl": maybeLinkValues,
		},
		record.Notes: {
			"title": titleValues, "content": longValues,
			"sourceUrl": {
				takes: []any{
					"", "chrome://newtab/", "about:blank", "javascript:alert(1)", "not an address", " x ", "file:///etc/passwd",
					chars(8192),
				}, refuses: []any{chars(8193), 5, true, []any{}, "\x00"},
				clears: true, empty: "",
			},
		},
		record.Snippets: {
			"title": titleValues, "content": longValues,
			"language": {
				takes: []any{"", "go", "c++", chars(64)}, refuses: []any{chars(65), 5, true, []any{}, "\x00"}, clears: true,
				empty: "",
			},
		},
		record.Recipes: {
			"title": must(titleValues), "description": descriptionValues, "ingredients": longValues, "instructions": longValues,
			"imageUrl": maybeLinkValues,
		},
		record.Games: {
			"title": must(titleValues), "platform": oneLineValues, "status": choice(
				"wishlist", "backlog", "playing", "finished", "dropped",
			),
			"rating": number(10), "playtimeMinutes": number(2147483647), "coverUrl": maybeLinkValues, "storeUrl": maybeLinkValues, "notes": descriptionValues,
		},
		record.Links: {"originalUrl": must(targetValues), "description": descriptionValues},
	}[k]
	if all == nil { // a kind without a row takes the examples of its fields
		all = make(map[string]values)
		for _, f := range field.Of(k.New()).Fields() {
			if f.Traits&field.ReadOnly != 0 {
				continue
			}
			var example, empty any
			if err := json.Unmarshal([]byte(f.Example), &example); err != nil {
				panic(err)
			}
			s := f.Schema()
			if s.Type == "string" && !s.Nullable {
				empty = ""
			}
			all[f.Name] = values{
				takes: []any{example}, refuses: []any{[]any{}}, clears: f.Traits&field.Filled == 0 && f.Clears(), empty: empty,
			}
		}
	}
	maps.Copy(all, sharedValues)
	all[k.Limit] = countValues
	return all
}

// TestFieldBounds sends every field of every kind at the edge of what it
// takes and past it, in a create and in a patch.
func TestFieldBounds(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	is.Equal(len(apitest.Whole), len(record.Kinds)-1)
	for k := range apitest.Whole {
		t.Run(k.Name, func(t *testing.T) {
			is := is.New(t)
			t.Parallel()
			a := apitest.Start(t)
			fieldBounds(t, a, k)
			is.True(a.Sound())
		})
	}
}

func fieldBounds(t *testing.T, a *apitest.App, k *record.Kind) {
	body := apitest.Whole[k]
	for name, v := range fieldsOf(k) {
		// What all kinds share in one code is sent in full once.
		shared := sharedValues[name].takes != nil || name == k.Limit || strings.HasSuffix(name, "Url")
		if shared && k != record.Notes {
			v.takes, v.refuses = v.takes[:min(2, len(v.takes))], v.refuses[:min(2, len(v.refuses))]
		}
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			path := "/api/v1/" + k.Path
			post, patch := apitest.Request{Method: "POST", Path: path}, apitest.Request{
				Method: "PATCH", Path: path + "/" + a.Made(path, body),
			}
			for i, value := range v.takes {
				want, given := v.shows[i]
				_, lenient := value.(string)
				lenient = lenient && given
				if !given {
					want = value
				}
				patch.JSON = map[string]any{name: value}
				patch.Raw = lenient
				is.Equal(member(t, a.Do(patch).Want(200), name, want), want)
				if name == "slug" { // is taken now
					patch.JSON = map[string]any{name: "free"}
					a.Do(patch).Want(200)
				}
				create := apitest.Parse(t, body)
				create[name] = value
				post.JSON, post.Raw = create, lenient
				got := a.Do(post).Want(201)
				is.Equal(member(t, got, name, want), want)
				a.Delete(path + "/" + got.Text("data.id")).Want(200)
			}
			before := a.State()
			for i, value := range v.refuses {
				patch.JSON, patch.Raw = map[string]any{name: value}, true
				is.Equal(a.Do(patch).Want(422).Fields(), []string{name})
				if i > 2 {
					continue // a create reads as a patch does
				}
				create := apitest.Parse(t, body)
				create[name] = value
				post.JSON, post.Raw = create, true
				is.Equal(a.Do(post).Want(422).Fields(), []string{name})
			}
			is.Equal(a.State(), before) // what was refused changed nothing
			patch.JSON, patch.Raw = map[string]any{name: nil}, false
			switch {
			case name == "slug": // an item always has one
				before := a.Get(patch.Path).Text("data.slug")
				is.Equal(a.Do(patch).Want(200).Text("data.slug"), before)
				patch.JSON, patch.Raw = map[string]any{name: ""}, true
				is.Equal(a.Do(patch).Want(200).Text("data.slug"), before)
			case v.clears:
				is.Equal(a.Do(patch).Want(200).At("data."+name), v.empty)
			default:
				is.Equal(a.Refused(patch, 422).Fields(), []string{name})
			}
			create := apitest.Parse(t, body)
			_, required := create[name]
			create[name] = nil
			if required {
				post.JSON, post.Raw = create, true
				is.Equal(a.Refused(post, 422).Fields(), []string{name})
				delete(create, name)
				is.Equal(a.Refused(post, 422).Fields(), []string{name})
			} else {
				post.JSON, post.Raw = create, false
				a.Delete(path + "/" + a.Do(post).Want(201).Text("data.id")).Want(200)
			}
			a.Delete(patch.Path).Want(200)
		})
	}
}

// TestLongTexts is apart from the other fields because a megabyte takes its
// time: bounds are in bytes.
func TestLongTexts(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	edge := chars(1 << 19)
	for path, names := range map[string][]string{
		"notes": {"content"}, "snippets": {"content"}, "recipes": {"ingredients", "instructions"},
	} {
		for _, name := range names {
			is.Equal(a.Post("/api/v1/"+path, `{"title":"t","`+name+`":"`+edge+`x"}`).Want(422).Fields(), []string{name})
		}
		is.Equal(a.Get("/api/v1/"+path).At("total"), 0.0)
	}
	made := a.Post("/api/v1/notes", `{"content":"`+edge+`"}`).Want(201)
	is.True(made.Text("data.content") == edge)
	is.Equal(
		a.Patch("/api/v1/notes/"+made.Text("data.id"), `{"content":"`+edge+`x"}`).Want(422).Fields(), []string{"content"},
	)
}

// member is how the answer shows a field, in the form that want has. What is
// wanted to be nil may be shown in any way.
func member(t *testing.T, got *apitest.Answer, name string, want any) any {
	t.Helper()
	v := got.At("data." + name)
	switch w := want.(type) {
	case int:
		return int(v.(float64))
	case literal:
		return literal(fmt.Sprint(v))
	case unset:
		if v == nil {
			return w
		}
	case nil:
		return nil
	case string:
		if name == "slug" && w == "" {
			return w
		}
	case []any:
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var list []any
		if err := json.Unmarshal(b, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	return v
}

// TestPasswordBounds is apart from the other fields because hashing takes its
// time.
func TestPasswordBounds(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	id := a.Made("/api/v1/notes", `{"content":"x"}`)
	patch := apitest.Request{Method: "PATCH", Path: "/api/v1/notes/" + id}
	for _, value := range passwordValues.takes {
		patch.JSON = map[string]any{"password": value}
		is.Equal(a.Do(patch).Want(200).At("data.hasPassword"), true)
		got := a.Post("/api/v1/notes", map[string]any{"content": "x", "password": value}).Want(201)
		is.Equal(got.At("data.hasPassword"), true)
		is.True(!strings.Contains(string(got.Body), `"password"`))
		a.Delete("/api/v1/notes/" + got.Text("data.id")).Want(200)
	}
	for _, value := range passwordValues.refuses {
		patch.JSON = map[string]any{"password": value}
		is.Equal(a.Refused(patch, 422).Fields(), []string{"password"})
		is.Equal(
			a.Refused(
				apitest.Request{Method: "POST", Path: "/api/v1/notes", JSON: map[string]any{"content": "x", "password": value}},
				422,
			).Fields(),
			[]string{"password"},
		)
	}
	is.Equal(a.Patch("/api/v1/notes/"+id, `{"title":"t"}`).Want(200).At("data.hasPassword"), true) // absent keeps
	is.Equal(a.Patch("/api/v1/notes/"+id, `{"password":""}`).Want(200).At("data.hasPassword"), false)
	is.Equal(a.Patch("/api/v1/notes/"+id, `{"password":"x"}`).Want(200).At("data.hasPassword"), true)
	is.Equal(a.Patch("/api/v1/notes/"+id, `{"password":null}`).Want(200).At("data.hasPassword"), false)
	is.Equal(a.Post("/api/v1/notes", `{"content":"x","password":""}`).Want(201).At("data.hasPassword"), false)
}

func TestExpiryInThePast(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for k, body := range apitest.Whole {
		create := apitest.Parse(t, body)
		for _, past := range []string{"2001-01-01T00:00:00Z", "0001-01-01T00:00:00.001Z", "1969-12-31T23:59:59Z"} {
			create["expiresAt"] = past
			is.Equal(
				a.Refused(apitest.Request{Method: "POST", Path: "/api/v1/" + k.Path, JSON: create}, 422).Fields(),
				[]string{"expiresAt"},
			)
		}
		// An owner may end an item at once, and keep what has ended.
		id := a.Made("/api/v1/"+k.Path, body)
		is.Equal(
			a.Patch("/api/v1/"+k.Path+"/"+id, `{"expiresAt":"2001-01-01T00:00:00Z"}`).Want(200).Text("data.expiresAt"),
			"2001-01-01T00:00:00.000Z",
		)
		a.Patch("/api/v1/"+k.Path+"/"+id, `{"isFavorite":true}`).Want(200)
	}
}

// TestFileBounds sends the fields of an upload and of a file's patch.
func TestFileBounds(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	made := a.Upload(nil, apitest.File("a.txt", "", "hello")).Want(201)
	path := "/api/v1/files/" + made.Text("id")
	all := map[string]values{
		"description": descriptionValues, "newSlug": slugValues, "isPublic": onOffValues, "isFavorite": onOffValues, "maxViews": countValues, "maxViewsAction": atLimitValues, "expiresAt": expiryValues, "expiryAction": atEndValues,
		"originalName": {
			takes: []any{
				"b.txt", "../../b.txt", `C:\b.txt`, "a\u202eb", chars(200),
			}, shows: map[any]any{1: "b.txt", 2: "b.txt", 3: "ab", 4: chars(127)},
			refuses: []any{"", "  ", "a\x00", 5, true, []any{"x"}},
		},
		"folderId": {
			takes: []any{""}, shows: map[any]any{0: nil},
			refuses: []any{
				"x", "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5dac96774bbcceb302099a8057", 5, true, []any{},
			}, clears: true,
		},
		"folderName": {
			takes: []any{chars(512), "a  b "}, shows: map[any]any{0: nil, 1: nil},
			refuses: []any{chars(513), 5, true, []any{}, "a\x00", "a\u0007"}, clears: true,
		},
		"addTagIds": {
			takes: []any{[]any{}}, shows: map[any]any{0: nil},
			refuses: []any{"x", []any{"x"}, []any{5}, []any{"01890a5d-ac96-774b-bcce-b302099a8057"}, 5, true}, clears: true,
		},
		"removeTagIds": {
			takes: []any{[]any{}, []any{"01890a5d-ac96-774b-bcce-b302099a8057"}}, shows: map[any]any{0: nil, 1: nil},
			refuses: []any{"x", []any{"x"}, []any{5}, 5, true}, clears: true,
		},
	}
	for name, v := range all {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			at := name
			if name == "newSlug" {
				at = "slug"
			}
			for i, value := range v.takes {
				want, given := v.shows[i]
				if !given {
					want = value
				}
				got := a.Do(apitest.Request{Method: "PATCH", Path: path, JSON: map[string]any{name: value}, Raw: given}).Want(200)
				is.Equal(member(t, got, at, want), want)
			}
			before := a.State()
			for _, value := range v.refuses {
				is.Equal(
					a.Do(apitest.Request{Method: "PATCH", Path: path, JSON: map[string]any{name: value}}).Want(422).Fields(),
					[]string{name},
				)
			}
			is.Equal(a.State(), before) // what was refused changed nothing
			if v.clears {
				a.Patch(path, map[string]any{name: nil}).Want(200)
			} else if name != "newSlug" && name != "description" {
				a.Refused(apitest.Request{Method: "PATCH", Path: path, JSON: map[string]any{name: nil}}, 422)
			}
		})
	}
	// The same rules hold for the text of a form.
	for name, bad := range map[string][]string{
		"isPublic": {"yes", "1", ""}, "isFavorite": {"on"}, "maxViews": {
			"0", "-1", "1.5", "", "x", "2147483648", "true",
		}, "maxViewsAction": {"burn"},
		"expiresAt": {
			"tomorrow", "2099-02-30", "2001-01-01T00:00:00Z",
		}, "slug": {"a b", "api", "-"}, "description": {chars(8193)}, "password": {strings.Repeat("p", 1025)},
		"folderId": {
			"x", "01890a5d-ac96-774b-bcce-b302099a8057",
		}, "folderName": {chars(513)}, "newTags": {
			chars(65), strings.Join(strings.Split(strings.Repeat("x", 65), ""), "1,") + "1",
		},
		"tagIds": {"x", `["x"]`, `["01890a5d-ac96-774b-bcce-b302099a8057"]`, `[`, `{}`},
	} {
		t.Run("upload "+name, func(t *testing.T) {
			is := is.New(t)
			a := a.With(t)
			for _, value := range bad {
				if name == "newTags" && strings.Contains(value, ",") {
					continue
				}
				got := a.Refused(a.UploadRequest(map[string]string{name: value}, apitest.File("b.txt", "", "x")), 422)
				is.Equal(got.Fields(), []string{name})
			}
		})
	}
	t.Run("several at once", func(t *testing.T) {
		is := is.New(t)
		got := a.With(t).Refused(
			a.UploadRequest(map[string]string{"isPublic": "x", "maxViews": "0", "slug": "-", "newTags": "a,b\x07"}), 422,
		)
		is.Equal(got.Fields(), []string{"file", "isPublic", "maxViews", "newTags", "slug"})
	})
	t.Run("too many tags", func(t *testing.T) {
		is := is.New(t)
		a := a.With(t)
		var many []string
		for i := range 65 {
			many = append(many, fmt.Sprint("n", i))
		}
		is.Equal(
			a.Refused(
				a.UploadRequest(map[string]string{"newTags": strings.Join(many, ",")}, apitest.File("b.txt", "", "x")), 422,
			).Fields(),
			[]string{"newTags"},
		)
		is.Equal(
			len(a.Upload(
				map[string]string{"newTags": strings.Join(many[1:], ",")}, apitest.File("b.txt", "", "x"),
			).Want(201).At("tags").([]any)),
			64,
		)
		got := a.Refused(
			a.UploadRequest(
				map[string]string{"newTags": strings.Join(many[1:], ","), "tags": "other"}, apitest.File("b.txt", "", "x"),
			),
			422,
		)
		is.Equal(got.Fields(), []string{"tags"}) // together they are too many, and none of them stays
	})
	is.True(a.Sound())
}

func TestColours(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, path := range []string{"/api/v1/tags", "/api/v1/folders"} {
		id := a.Made(path, `{"name":"n"}`)
		is.Equal(a.Patch(path+"/"+id, `{}`).Want(200).Text("data.color"), record.ColorOf("n"))
		for sent, shows := range map[string]string{
			"#3b82f6": "#3B82F6", "3B82F6": "#3B82F6", "#abc": "#AABBCC", "0Af": "#00AAFF", "": "",
		} {
			is.Equal(
				a.Do(apitest.Request{
					Method: "PATCH", Path: path + "/" + id, JSON: map[string]any{"color": sent}, Raw: sent == "",
				}).Want(200).Text("data.color"),
				cmp.Or(shows, record.ColorOf("n")),
			)
			got := a.Do(apitest.Request{
				Method: "POST", Path: path, JSON: map[string]any{"name": "c" + sent, "color": sent}, Raw: sent == "",
			}).Want(201)
			is.Equal(got.Text("data.color"), cmp.Or(shows, record.ColorOf("c")))
		}
		for _, bad := range []any{
			"#12345g", "#12", "#1234", "#12345", "#1234567", "##123456", "#", "red", " #123456", "#123456 ", "#12345\u0660",
			123456, true,
			[]any{},
		} {
			is.Equal(
				a.Refused(
					apitest.Request{Method: "PATCH", Path: path + "/" + id, JSON: map[string]any{"color": bad}}, 422,
				).Fields(),
				[]string{"color"},
			)
			is.Equal(
				a.Refused(
					apitest.Request{Method: "POST", Path: path, JSON: map[string]any{"name": "d", "color": bad}}, 422,
				).Fields(),
				[]string{"color"},
			)
		}
		is.Equal(a.Patch(path+"/"+id, `{"color":null}`).Want(200).Text("data.color"), record.ColorOf("n"))
	}
}

// TestGameLists: games can be listed by status, and best or longest played first.
func TestGameLists(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, in := range []string{
		`{"title":"a","status":"playing","rating":7,"playtimeMinutes":30}`, `{"title":"b","status":"finished","rating":10}`,
		`{"title":"c"}`, `{"title":"d","status":"playing","rating":0,"playtimeMinutes":600,"tags":["t"]}`,
	} {
		a.Post("/api/v1/games", in).Want(201)
	}
	titles := func(query string) string {
		t.Helper()
		var all string
		for next := ""; ; {
			got := a.Get("/api/v1/games?limit=2&" + query + next).Want(200)
			for i := range got.At("data").([]any) {
				all += got.Text(fmt.Sprintf("data.%d.title", i))
			}
			if got.At("nextCursor") == nil {
				is.Equal(got.At("total"), float64(len(all)))
				return all
			}
			next = "&cursor=" + got.Text("nextCursor")
		}
	}
	for query, want := range map[string]string{
		"sort=rating": "badc", "sort=playtime": "dacb", "status=playing": "da", "status=playing&sort=rating": "ad", "status=dropped": "",
		"sort=rating&tag=t": "d", "sort=playtime&q=b": "b", "sort=rating&offset=2": "",
	} {
		if strings.Contains(query, "offset") {
			is.Equal(a.Get("/api/v1/games?"+query).Want(200).Text("data.0.title"), "d")
			continue
		}
		is.Equal(titles(query), want)
	}
	a.Get("/api/v1/games?status=none").Want(400)
	a.Get("/api/v1/notes?sort=rating").Want(400)
}
