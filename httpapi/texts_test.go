package httpapi_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kist/embed"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/people"
)

// sources are the files below some folders that use texts or that texts translate, by path.
func sources(t *testing.T, roots ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, root := range roots {
		if err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(at, "_test.go") || !slices.Contains(
				[]string{".js", ".html", ".go"}, filepath.Ext(at),
			) && d.Name() != "manifest.json" {
				return err
			}
			b, err := os.ReadFile(at)
			all[filepath.ToSlash(at)] = string(b)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// catalogueOf is the catalogue of texts in a language, by group and name.
func catalogueOf(t *testing.T, lang string) map[string]map[string]any {
	t.Helper()
	b, err := os.ReadFile("../embed/text/" + lang + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	quotedKey   = regexp.MustCompile(`['"\x60]([a-z]+\.[a-zA-Z0-9]+)['"\x60]|data-t[a-z-]*="([^"]+)"`)
	askedKey    = regexp.MustCompile(`\.(?:T|HTML)\("([a-zA-Z]+)\.([a-zA-Z0-9]+)"`)
	brokenText  = regexp.MustCompile(`" ?\+\n\s*"`) // where a text goes on in the next line
	manifestKey = regexp.MustCompile(`__MSG_([a-zA-Z]+)__`)
)

// Every text that a handler asks for is there, and every text that is there is used by a handler, a page or a script.
func TestTextsAreUsed(t *testing.T) {
	t.Parallel()
	english, used := catalogueOf(t, "en"), make(map[string]bool)
	for at, source := range sources(t, ".", "../embed") {
		for _, found := range quotedKey.FindAllStringSubmatch(source, -1) {
			used[found[1]+found[2]] = true
		}
		for _, found := range manifestKey.FindAllStringSubmatch(source, -1) {
			used["manifest."+found[1]] = true
		}
		for _, found := range askedKey.FindAllStringSubmatch(source, -1) {
			if english[found[1]][found[2]] == nil {
				t.Errorf("%s: there is no text %s.%s", at, found[1], found[2])
			}
		}
	}
	for _, e := range people.ActivityEvents {
		if english["events"][string(e)] == nil {
			t.Errorf("there is no text events.%s", e)
		}
		used["events."+string(e)] = true
	}
	for group, messages := range english {
		for name := range messages {
			if !used[group+"."+name] {
				t.Errorf("nothing uses %s.%s", group, name)
			}
		}
	}
}

// What other languages translate of the code is in the code.
func TestTranslationsOfCode(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, source := range sources(t, "../kv", ".") {
		code.WriteString(brokenText.ReplaceAllString(source, ""))
	}
	german, differs := catalogueOf(t, "de"), regexp.MustCompile(`\d+|\\\{[a-z]+\\\}`)
	if len(german["errors"]) == 0 || len(german["problems"]) == 0 {
		t.Fatal("nothing is translated")
	}
	for name := range german["errors"] {
		if !slices.ContainsFunc(web.ErrorCodes, func(e web.ErrorCode) bool { return e.Code == name }) {
			t.Errorf("no error has the code %s", name)
		}
	}
	for english := range german["setups"] {
		if !strings.Contains(code.String(), `"`+english+`"`) {
			t.Errorf("no setup says %q", english)
		}
	}
	for english := range german["remarks"] {
		made := regexp.MustCompile(regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(english), "%[dsq]"))
		if !strings.Contains(code.String(), english) && !made.MatchString(code.String()) {
			t.Errorf("no import says %q", english)
		}
	}
	for english := range german["problems"] {
		made := regexp.MustCompile(differs.ReplaceAllString(regexp.QuoteMeta(english), "%[ds]"))
		if !strings.Contains(code.String(), english) && !made.MatchString(code.String()) {
			t.Errorf("no field has the problem %q", english)
		}
	}
}

// forPrograms are the codes of errors that people do not see in the app.
var forPrograms = []string{
	"answered_before", "authorization_pending", "bad_cursor", "bad_idempotency_key", "bad_query", "bad_range",
	"checksum_mismatch", "conflicting_credentials", "expired_token", "idempotency_mismatch", "invalid_fields",
	"invalid_grant", "invalid_request", "key_disabled", "key_expired", "key_revoked", "malformed", "misdirected",
	"no_device", "not_ready", "offset_mismatch", "too_many_answers", "tus_version", "unknown_key",
	"unsupported_encoding", "unsupported_grant_type", "unsupported_media_type",
}

// Every error that the app can show is translated.
func TestErrorsAreTranslated(t *testing.T) {
	t.Parallel()
	for _, e := range web.ErrorCodes {
		if translated := embed.Lang("de").Has("errors." + e.Code); translated == slices.Contains(forPrograms, e.Code) {
			t.Errorf("errors.%s: translated: %t", e.Code, translated)
		}
	}
}

// Everything that a setup says is translated.
func TestSetupsAreTranslated(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	german := func(english any) {
		if !embed.Lang("de").Has("setups." + english.(string)) {
			t.Errorf("no German for %q", english)
		}
	}
	for _, p := range a.Get("/api/v1/setups").Want(200).At("data").([]any) {
		program := p.(map[string]any)
		german(program["description"])
		for _, public := range []bool{false, true} {
			made := a.Post("/api/v1/setups", map[string]any{"program": program["program"], "isPublic": public}).Want(201)
			for _, step := range made.At("data.steps").([]any) {
				german(step.(map[string]any)["text"])
			}
		}
	}
}
