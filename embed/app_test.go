package embed

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// schema has the members of an API schema that the tests need.
type schema struct {
	Enum []any
}

// schemas returns the schemas of the served document.
func schemas(t *testing.T) map[string]schema {
	t.Helper()
	var document struct {
		Components struct{ Schemas map[string]schema }
	}
	is.New(t).NoErr(json.Unmarshal(OpenAPI(), &document))
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

// appModule is the source of a module of the app, or of a script that is beside them.
func appModule(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("static/app/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile("static/" + name)
	}
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
		{"kinds.js", "const fileTypes = ", "FileType"},
		{"kind.js", "filter('sort', ", "FileSort"},
		{"share.js", "name: 'maxViewsAction'", "MaybeLimitAction"},
		{"share.js", "name: 'expiryAction'", "EndAction"},
		{"admin.js", "name: 'role'", "Role"},
		{"settings.js", "name: 'captchaProvider'", "MaybeCaptchaProvider"},
		{"keys.js", "const scopes = ", "Scope"},
		{"moving.js", "const formats = ", "ImportFormat"},
		{"moving.js", "const states = ", "ImportState"},
		{"remote.js", "const badges = ", "RemoteUploadState"},
		{"webhooks.js", "const states = ", "DeliveryState"},
		{"webhooks.js", "name: 'format'", "WebhookFormat"},
	} {
		t.Run(c.module+" "+c.schema, func(t *testing.T) {
			is := is.New(t)
			want := all[c.schema].choices()
			is.True(len(want) > 1)
			text := strings.ReplaceAll(appModule(t, c.module), "${k.unit}", "")
			is.Equal(keysAfter(t, text, c.after), want)
		})
	}
}
