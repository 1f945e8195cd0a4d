package embed

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// schema is what the tests need of a schema of the API.
type schema struct {
	Required   []string
	Enum       []any
	Minimum    *float64
	Maximum    *float64
	Properties map[string]schema
}

// schemas are those of the document that is served.
func schemas(t *testing.T) map[string]schema {
	t.Helper()
	var document struct {
		Components struct{ Schemas map[string]schema }
	}
	is.New(t).NoErr(json.Unmarshal(OpenAPI, &document))
	return document.Components.Schemas
}

// choices are the values of an enumeration.
func (s schema) choices() []string {
	var all []string
	for _, value := range s.Enum {
		if text, ok := value.(string); ok { // null stands for none
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// appModule is the source of a module of the app.
func appModule(t *testing.T, name string) string {
	t.Helper()
	b, err := staticFiles.ReadFile("static/app/" + name)
	is.New(t).NoErr(err)
	return string(b)
}

var keysOfObject = regexp.MustCompile(`(?:^|[{,])\s*'?([a-zA-Z_*.]*)'?:`)

// keysAfter are the names in the first object of a script after a text.
func keysAfter(t *testing.T, script, text string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(script, text)
	if !ok {
		t.Fatalf("no %q", text)
	}
	object, _, _ := strings.Cut(rest[strings.Index(rest, "{")+1:], "}")
	var names []string
	for _, found := range keysOfObject.FindAllStringSubmatch(object, -1) {
		if found[1] != "" { // a choice that stands for no value
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	return names
}

// The app has a word for every choice that the schema has, and for no other.
func TestAppNamesEveryChoice(t *testing.T) {
	all := schemas(t)
	for _, c := range []struct{ module, after, schema string }{
		{"kinds.js", "const statuses = ", "MaybeGameStatus"},
		{"kinds.js", "const fileTypes = ", "FileType"},
		{"pages.js", "filter('sort', 'Order', ", "FileSort"},
		{"editor.js", "name: 'maxViewsAction'", "MaybeLimitAction"},
		{"admin.js", "name: 'role'", "Role"},
		{"admin.js", "name: 'captchaProvider', label: 'Provider'", "MaybeCaptchaProvider"},
		{"keys.js", "const scopes = ", "Scope"},
		{"moving.js", "const formats = ", "MaybeImportFormat"},
		{"moving.js", "const states = ", "ImportState"},
		{"remote.js", "const badges = ", "RemoteUploadState"},
		{"webhooks.js", "const states = ", "DeliveryState"},
		{"webhooks.js", "name: 'format'", "WebhookFormat"},
	} {
		t.Run(c.module+" "+c.schema, func(t *testing.T) {
			is := is.New(t)
			want := all[c.schema].choices()
			is.True(len(want) > 1)
			text := strings.NewReplacer("${k.unit}", "", "...(file && { size: 'Largest' })", "size: 'Largest'").Replace(appModule(t, c.module))
			is.Equal(keysAfter(t, text, c.after), want)
		})
	}
}

// A form of the app has fields that its kind has, needs those that the server needs, and has its bounds.
func TestAppFormsMatchTheSchema(t *testing.T) {
	is := is.New(t)
	all := schemas(t)
	_, table, _ := strings.Cut(appModule(t, "kinds.js"), "export const kinds = {\n")
	table, _, _ = strings.Cut(table, "\n};")
	kinds := make(map[string]string)
	for _, found := range regexp.MustCompile(`(?ms)^  (\w+): \{\n(.*?)^  \},`).FindAllStringSubmatch(table+"\n", -1) {
		kinds[found[1]] = found[2]
	}
	is.Equal(slices.Sorted(maps.Keys(kinds)), all["ItemKind"].choices())

	field := regexp.MustCompile(`\{ name: '(\w+)'(.*)\},`)
	bound := regexp.MustCompile(`\b(min|max): (\d+)`)
	for kind, row := range kinds {
		name := strings.ToUpper(kind[:1]) + kind[1:] + "Create"
		if kind == "file" { // which is created by its upload
			name = "FileEdit"
		}
		form := all[name]
		shown := make(map[string]bool)
		for _, found := range field.FindAllStringSubmatch(row, -1) {
			property, ok := form.Properties[found[1]]
			if !ok {
				t.Errorf("%s has no %s", name, found[1])
			}
			shown[found[1]] = true
			got := map[string]string{}
			for _, b := range bound.FindAllStringSubmatch(found[2], -1) {
				got[b[1]] = b[2]
			}
			want := map[string]string{}
			if property.Minimum != nil {
				want["min"] = fmt.Sprint(*property.Minimum)
			}
			if property.Maximum != nil && *property.Maximum < 1<<31-1 { // larger ones are no help
				want["max"] = fmt.Sprint(*property.Maximum)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s.%s has the bounds %v, in the schema %v", name, found[1], got, want)
			}
		}
		is.True(len(shown) >= 2)
		for _, required := range form.Required {
			is.True(shown[required])
		}
		for _, shared := range []string{"tags", "isPublic", "isFavorite", "expiresAt", "password", "maxViewsAction"} {
			_, ok := form.Properties[shared]
			is.True(ok)
		}
	}
}
