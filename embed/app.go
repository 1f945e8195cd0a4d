package embed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"
)

// AppPage is the HTML shell of the owner's app. One page serves all its addresses. The script draws the page for the
// address from data in the HTML, so that it can show something without waiting for requests.
type AppPage struct {
	Base    string
	Title   string // of the tab until the script sets another
	Module  string // an extra script that the page needs, without .js; "" means none
	List    string // the script of the list, likewise
	Heading string // shown until the script draws the page; "" means none
	Prompt  string // shown until then in a box for new items below it; "" means no box
	Admin   bool   // shows the link to the admin page
	// Settings shows the sections of the settings, of which the page is one.
	Settings bool
	Content  string // absolute address of the origin for stored bytes; "" means the page's own
	Kinds    []AppKind
	Data     []byte // JSON, for the script
	Look
}

// Look is how a user wants pages to look.
type Look struct {
	Theme  string // light or dark; "" follows the system
	Accent string // "" is the usual one
}

// An AppKind is a kind of records in the navigation.
type AppKind struct{ Name, Page, Many, Icon string }

// Start is Data escaped for a script element: no text in it can end the element or open a comment.
func (p AppPage) Start() template.JS {
	var safe bytes.Buffer
	json.HTMLEscape(&safe, p.Data)
	return template.JS(safe.String()) // #nosec G203 -- it is JSON, with <, > and & escaped
}

// Policy implements [Page]. It allows data and blob URLs for pictures and films, to show files that are being sent.
// Stored bytes are shown as on item pages.
func (p AppPage) Policy() string {
	content := ""
	if p.Content != "" {
		content = " " + p.Content
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; manifest-src 'self'; " +
		"img-src 'self' data: blob:" + content + "; media-src 'self' blob:" + content + "; frame-src 'self'" + content +
		"; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}

func (AppPage) file() string { return "app.html" }

// Modules are the names of the scripts that the page needs besides app.js. The page lists them all, so that a browser
// fetches them at the same time.
func (p AppPage) Modules() ([]string, error) {
	app := catalogue().byLogical["app.js"]
	names := slices.Clone(app.modules)
	for _, logical := range []string{p.Module, p.List} {
		if logical == "" {
			continue
		}
		module, ok := catalogue().byLogical[logical+".js"]
		if !ok {
			return nil, fmt.Errorf("no script %q", logical)
		}
		names = append(append(names, module.modules...), module.Name)
	}
	return slices.DeleteFunc(unique(names), func(name string) bool { return name == app.Name }), nil
}

// Worker is the script of the app's service worker. base is the prefix of all addresses, kinds are the paths of the
// kinds in the API and pages their paths in the app. Its bytes change when a script or a style of the app does.
func Worker(base string, kinds, pages []string) ([]byte, error) {
	files := []string{"app.css", "board.css", "kist.css", "kist.svg", "page.js", "tus.js"}
	for _, entry := range must(fs.ReadDir(staticFiles(), "app")) {
		files = append(files, entry.Name())
	}
	for _, l := range Langs() {
		for _, name := range pageScripts() {
			if name != "up-text" {
				files = append(files, l.scriptName(name))
			}
		}
	}

	var assets []string
	for _, file := range files {
		assets = append(assets, base+"/static/"+must(Name(file)))
	}
	slices.Sort(assets)
	sum := sha256.Sum256([]byte(strings.Join(assets, "\n")))
	settings, err := json.Marshal(map[string]any{
		"base": base, "version": hex.EncodeToString(sum[:5]), "assets": assets, "kinds": kinds, "pages": pages,
	})
	if err != nil {
		return nil, err
	}
	asset, ok := catalogue().byLogical["sw.js"]
	if !ok {
		return nil, errors.New("no script sw.js")
	}
	return slices.Concat([]byte("const settings = "), settings, []byte(";\n"), asset.Bytes()), nil
}

// Manifest describes the app to a browser that installs it, in a language. base is the prefix of all addresses. The
// result is JSON of the type application/manifest+json.
func Manifest(base string, l Lang) ([]byte, error) {
	type object = map[string]any
	icon := func(logical, size, media string) object {
		return object{"src": base + "/static/" + must(Name(logical)), "sizes": size, "type": media, "purpose": "any"}
	}
	maskable := icon("app-512.png", "512x512", "image/png")
	maskable["purpose"] = "maskable"
	at := func(name, path string) object { return object{"name": name, "url": base + path} }

	return json.Marshal(object{
		"id": base + "/", "name": "kist", "short_name": "kist", "lang": l, "dir": l.T("format.dir"),
		"description": l.T("manifest.description"),
		"start_url":   base + "/", "scope": base + "/", "display": "standalone",
		"background_color": "#fbfaf8", "theme_color": "#0f6b5c",
		"icons": []object{
			icon("app-192.png", "192x192", "image/png"), icon("app-512.png", "512x512", "image/png"), maskable,
		},
		"shortcuts": []object{
			at(l.T("manifest.newNote"), "/notes/new"),
			at(l.T("manifest.newBookmark"), "/bookmarks/new"),
			at(l.T("manifest.files"), "/files"),
		},
		"share_target": object{
			"action": base + "/share", "method": "POST", "enctype": "multipart/form-data",
			"params": object{
				"title": "title", "text": "text", "url": "url",
				"files": []object{{"name": "file", "accept": []string{"*/*"}}},
			},
		},
	})
}
