package embed

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestExtensionZip(t *testing.T) {
	is := is.New(t)
	first, err := ExtensionZip("https://kist.example.org/base", []byte("[]"))
	is.NoErr(err)
	again, err := ExtensionZip("https://kist.example.org/base", []byte("[]"))
	is.NoErr(err)
	is.True(bytes.Equal(first.Bytes, again.Bytes))
	is.Equal(first.ETag, again.ETag)
	other, err := ExtensionZip("https://other.example.org", []byte("[]"))
	is.NoErr(err)
	is.True(first.ETag != other.ETag)
	is.True(len(first.Bytes) < 64<<10)

	files := Extension("https://kist.example.org/base", []byte("[]"))
	archive, err := zip.NewReader(bytes.NewReader(first.Bytes), int64(len(first.Bytes)))
	is.NoErr(err)
	var names []string
	for _, f := range archive.File {
		names = append(names, f.Name)
		r, err := f.Open()
		is.NoErr(err)
		content, err := io.ReadAll(r)
		is.NoErr(err)
		is.True(bytes.Equal(content, files[f.Name]))
	}
	is.Equal(names, slices.Sorted(maps.Keys(files)))
	is.Equal(string(files["server.json"]), `{"url":"https://kist.example.org/base"}`)
	is.Equal(string(files["kinds.json"]), "[]")
}

// TestExtensionIsWhole looks whether everything that a file of the extension
// names is there, and that nothing comes from elsewhere.
func TestExtensionIsWhole(t *testing.T) {
	is := is.New(t)
	files := Extension("", nil)
	var manifest struct {
		Icons      map[string]string `json:"icons"`
		Background struct {
			Worker  string   `json:"service_worker"`
			Scripts []string `json:"scripts"`
		} `json:"background"`
		Action struct {
			Popup string `json:"default_popup"`
		} `json:"action"`
		Options struct {
			Page string `json:"page"`
		} `json:"options_ui"`
		Permissions []string `json:"permissions"`
		Hosts       []string `json:"host_permissions"`
		Optional    []string `json:"optional_host_permissions"`
	}
	is.NoErr(json.Unmarshal(files["manifest.json"], &manifest))
	named := append(manifest.Background.Scripts, manifest.Background.Worker, manifest.Action.Popup, manifest.Options.Page)
	is.Equal(manifest.Background.Scripts, []string{manifest.Background.Worker}) // one for each browser
	named = slices.AppendSeq(named, maps.Values(manifest.Icons))
	is.Equal(len(manifest.Icons), 4)
	is.Equal(len(manifest.Hosts), 0) // it asks for its server alone, when it is connected
	is.Equal(manifest.Optional, []string{"http://*/*", "https://*/*"})
	is.Equal(
		manifest.Permissions,
		[]string{"activeTab", "clipboardWrite", "contextMenus", "notifications", "scripting", "storage"},
	)

	names := regexp.MustCompile(`(?:\bfrom |\bsrc=|<link[^>]* href=)['"]([^'"]+)['"]`)
	for name, content := range files {
		switch path.Ext(name) {
		case ".js", ".html":
			for _, found := range names.FindAllStringSubmatch(string(content), -1) {
				named = append(named, strings.TrimPrefix(found[1], "./"))
			}
			for _, wrong := range []string{"innerHTML", "eval(", " style=", " onclick=\"", "<script>"} {
				if strings.Contains(string(content), wrong) {
					t.Errorf("%s has %q", name, wrong)
				}
			}
		}
	}
	is.True(len(named) > 20)
	for _, name := range named {
		if files[name] == nil {
			t.Errorf("%s is named and not there", name)
		}
	}
}

// TestExtensionKeys: Firefox opens a menu of its own where Alt and Shift come
// with a letter that is underlined in the menu bar, and the extension is not
// asked. These are the letters in English, German, French, Spanish, Italian,
// Dutch, Polish and Portuguese.
func TestExtensionKeys(t *testing.T) {
	is := is.New(t)
	files := Extension("", nil)
	var manifest struct {
		Commands map[string]struct {
			Key map[string]string `json:"suggested_key"`
		} `json:"commands"`
	}
	is.NoErr(json.Unmarshal(files["manifest.json"], &manifest))
	is.Equal(len(manifest.Commands), 4)
	letters := make(map[string]bool)
	for name, c := range manifest.Commands {
		letter, found := strings.CutPrefix(c.Key["default"], "Alt+Shift+")
		is.True(found && len(letter) == 1 && !letters[letter])
		letters[letter] = true
		if strings.Contains("ABCDEFGHLMNOPSTUVWXZ", letter) {
			t.Errorf("%s: a menu of Firefox has the letter %s", name, letter)
		}
	}
}
