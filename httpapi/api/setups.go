package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kist/embed"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// A setup is a program that kist can be used from, and how it is told of this
// server and of an API key of its own.
type setup struct {
	Program string // in requests
	Name    string // to people, and of the key
	does    string
	Scopes  []record.Scope // of the key, the fewest that do; none: it needs no key
	make    func(to setupTarget) (setupResult, error)
}

// A setupTarget is what a program is set up for.
type setupTarget struct {
	base, key string // the address of the server and the secret of the API key
	public    bool   // what the program sends is public
}

// setupResult is what a setup consists of.
type setupResult struct {
	files []setupFile
	steps []setupStep
}

// setupFile is a file to save.
type setupFile struct{ Name, Media, Content string }

func (f *setupFile) Fields(s *field.Set) {
	s.Text("name", &f.Name, record.MaxName).Says("What to save it as.", `"kist-files.sxcu"`)
	s.Text("mediaType", &f.Media, record.MaxMediaType).Says("Its media type.", `"application/json"`)
	s.LongText("content", &f.Content, record.MaxContent).Says("Its content.", `"{…}"`)
}

// setupStep is one thing to do, and the text to copy for it.
type setupStep struct{ Text, Copy string }

func (t *setupStep) Fields(s *field.Set) {
	s.LongText("text", &t.Text, record.MaxDescription).Says("What to do, as a sentence.", `"Open each file with a double click."`)
	s.LongText("copy", &t.Copy, record.MaxDescription).Says("What to copy for it; may be empty.", `""`)
}

// Setups lists the programs.
var Setups = []*setup{
	{"sharex", "ShareX", "Screenshots, files, text and short links from Windows.", []record.Scope{record.ScopeWrite}, sharex},
	{"flameshot", "Flameshot", "Screenshots from Linux: a script to put on a key.", []record.Scope{record.ScopeUpload}, flameshot},
	{"shell", "Shell script", "Files, or what a command prints, from a terminal.", []record.Scope{record.ScopeUpload}, shell},
	{"shortcut", "Apple Shortcut", "Photos and files from the share sheet of an iPhone, iPad or Mac.", []record.Scope{record.ScopeUpload}, shortcut},
	{"bookmarklet", "Bookmarklet", "The page that is open, from the bookmarks bar of any browser.", nil, bookmarklet},
}

type programName string

func ProgramNames() (names []programName) {
	for _, p := range Setups {
		names = append(names, programName(p.Program))
	}
	return names
}

// ShownSetup is a program as the list shows it.
type ShownSetup struct{ setup }

func (v *ShownSetup) Fields(s *field.Set) {
	s.Text("program", &v.Program, record.MaxName).Says("What a request calls it.", `"sharex"`)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"ShareX"`)
	s.Text("description", &v.does, record.MaxDescription).Says("What it sends, and from where.", `"Screenshots, files, text and short links from Windows."`)
	s.Shown("scopes", field.Schema{Type: "array", Items: &field.Schema{Type: "string", Enum: ScopeNames}}, func(dst []byte) []byte {
		return (&ShownKey{record.Key{Scopes: v.Scopes}}).appendScopes(dst)
	}).Says("The scopes of its API key; empty if it needs none.", `["write"]`)
}

// SetupForm asks for a setup.
type SetupForm struct {
	program programName
	public  bool
}

func (f *SetupForm) Fields(s *field.Set) {
	field.Choice(s, "program", &f.program, ProgramNames(), field.Required).Says("The program.", `"sharex"`)
	s.Bool("isPublic", &f.public).Says("Whether what the program sends can be seen by others.", `true`)
}

// MadeSetup is a setup as it is answered, this once.
type MadeSetup struct {
	setup
	setupResult
	key *record.Key // nil if it needs none
}

func (v *MadeSetup) Fields(s *field.Set) {
	s.Text("program", &v.Program, record.MaxName).Says("The program.", `"sharex"`)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"ShareX"`)
	key := field.ObjectOf(new(ShownKey))
	key.Nullable = true
	s.Shown("key", key, func(dst []byte) []byte {
		if v.key == nil {
			return append(dst, "null"...)
		}
		return field.AppendJSON(dst, &ShownKey{*v.key})
	}).Says("The API key that was made for it, without its secret, which is in the files or steps; null if it needs none.", `null`)
	s.Shown("files", arrayAs(new(setupFile)), func(dst []byte) []byte { return web.AppendAll(dst, pointers(v.files)) }).
		Says("Files to save. They may hold the secret of the key.", `[{"name":"kist-files.sxcu","mediaType":"application/json","content":"{…}"}]`)
	s.Shown("steps", arrayAs(new(setupStep)), func(dst []byte) []byte { return web.AppendAll(dst, pointers(v.steps)) }).
		Says("What to do, in order.", `[{"text":"Open each file with a double click.","copy":""}]`)
}

func arrayAs(of field.Shaped) field.Schema {
	item := field.ObjectOf(of)
	return field.Schema{Type: "array", Items: &item}
}

func pointers[T any](all []T) []*T {
	out := make([]*T, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

var ListSetups = web.Operation{
	Tag: "account", Summary: "Lists the programs that kist can be set up in.",
	Reply: web.Reply{Status: 200, Doc: "All of them.", Body: web.ListOf("Setup")}, Serve: listSetups,
}

func listSetups(c *web.Request) error {
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		var all []*ShownSetup
		for _, p := range Setups {
			all = append(all, &ShownSetup{*p})
		}
		dst = web.AppendAll(append(dst, `{"data":`...), all)
		return web.AppendEnd(dst, len(all), ""), nil
	})
}

var CreateSetup = web.Operation{
	Tag: "account", Summary: "Sets a program up: makes its API key, whose secret is shown this once, and the files and steps that it takes.",
	Body: web.BodyOf("SetupCreate"), Reply: web.Reply{Status: 201, Doc: "The key, files and steps.", Body: web.DataOf("SetupMade")}, Serve: createSetup,
}

// createSetup makes a program's API key, and what it is set up with.
func createSetup(c *web.Request) error {
	form := new(SetupForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	p := Setups[slices.Index(ProgramNames(), form.program)]
	out := &MadeSetup{setup: *p}
	to := setupTarget{base: c.Site.Base, public: form.public}
	if p.Scopes != nil {
		if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) {
			out.key, to.key, err = people.AddKey(tx, record.Key{Owner: c.Owner(), Name: p.Name, Scopes: p.Scopes})
			return err
		}); err != nil {
			return err
		}
	}
	var err error
	if out.setupResult, err = p.make(to); err != nil {
		return err
	}
	return c.RespondData(http.StatusCreated, out)
}

// audience says who sees what a program sends.
func audience(public bool) setupStep {
	if public {
		return setupStep{Text: "Anyone who has the address of something that it sent can see it."}
	}
	return setupStep{Text: "What it sends is private: its address opens for you alone, where you are signed in, until you make it public."}
}

// CustomUploader is a custom uploader of ShareX (getsharex.com/docs/custom-uploader).
type CustomUploader struct {
	Version, Name, DestinationType, RequestMethod, RequestURL string
	Headers                                                   map[string]string
	Body                                                      string
	Arguments                                                 map[string]string `json:",omitempty"`
	FileFormName                                              string            `json:",omitempty"`
	Data                                                      string            `json:",omitempty"`
	URL                                                       string
	ThumbnailURL                                              string `json:",omitempty"`
	DeletionURL, ErrorMessage                                 string
}

// literally is text in an address of ShareX, which has a syntax of its own.
var literally = strings.NewReplacer(`\`, `\\`, `{`, `\{`, `}`, `\}`, `|`, `\|`)

// sharex makes a custom uploader for each sort of thing that ShareX sends. Of a
// body of JSON it replaces {input} alone, by text that is escaped for JSON.
func sharex(to setupTarget) (setupResult, error) {
	uploader := func(what, sort, path string) CustomUploader {
		return CustomUploader{
			Version: "14.0.0", // the first with {json:…}
			Name:    "kist: " + what, DestinationType: sort, RequestMethod: http.MethodPost,
			RequestURL: literally.Replace(to.base + web.ApiPath + path), Headers: map[string]string{"x-api-key": to.key},
			URL: "{json:url}", DeletionURL: "{json:deletionUrl}", ErrorMessage: "{json:error}",
		}
	}
	public := strconv.FormatBool(to.public)
	files := uploader("files", "ImageUploader, FileUploader", "upload")
	files.Body, files.FileFormName, files.Arguments, files.ThumbnailURL = "MultipartFormData", "file", map[string]string{"isPublic": public}, "{json:thumbnailUrl}"
	text := uploader("text", "TextUploader", "snippets")
	text.Body, text.Data = "JSON", `{"content":"{input}","isPublic":`+public+`}`
	links := uploader("short links", "URLShortener", record.Links.Path)
	links.Body, links.Data = "JSON", `{"originalUrl":"{input}","isPublic":`+public+`}`
	var out setupResult
	for _, f := range []struct {
		name string
		CustomUploader
	}{{"kist-files.sxcu", files}, {"kist-text.sxcu", text}, {"kist-links.sxcu", links}} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(f.CustomUploader); err != nil {
			return setupResult{}, err
		}
		out.files = append(out.files, setupFile{f.name, web.JsonType, b.String()})
	}
	out.steps = []setupStep{
		{Text: "Save the files: one is for screenshots and files, one for text, one for short links."},
		{Text: "Open each with a double click. ShareX asks whether to use it from now on; say yes."},
		{Text: "To delete something that it sent, open its deletion URL from the history of ShareX, and press the button there."},
		audience(to.public),
	}
	return out, nil
}

const scriptMedia = "application/x-sh"

func shell(to setupTarget) (setupResult, error) {
	return setupResult{[]setupFile{{"kist-upload", scriptMedia, embed.ShellScript(to.base, to.key, to.public)}}, []setupStep{
		{Text: "Save the file to a folder on your PATH, such as ~/.local/bin, and let you alone read and run it: it holds the key.", Copy: "chmod 700 ~/.local/bin/kist-upload"},
		{Text: "Name files, or send it what a command prints. It prints the addresses and copies them to the clipboard.", Copy: "kist-upload photo.jpg"},
		audience(to.public),
	}}, nil
}

func flameshot(to setupTarget) (setupResult, error) {
	return setupResult{[]setupFile{{"kist-screenshot", scriptMedia, embed.FlameshotScript(to.base, to.key, to.public)}}, []setupStep{
		{Text: "Save the file to a folder on your PATH, such as ~/.local/bin, and let you alone read and run it: it holds the key.", Copy: "chmod 700 ~/.local/bin/kist-screenshot"},
		{Text: "In the settings of your desktop, put the command on a key. The address of each screenshot is copied to the clipboard.", Copy: "kist-screenshot"},
		audience(to.public),
	}}, nil
}

func shortcut(to setupTarget) (setupResult, error) {
	public := strconv.FormatBool(to.public)
	return setupResult{nil, []setupStep{
		{Text: "In Shortcuts make a new shortcut. In its details, turn on “Show in Share Sheet”; it receives images, media and files."},
		{Text: "Add the action “Get Contents of URL” with this address.", Copy: to.base + web.ApiPath + "upload"},
		{Text: "Unfold the action and choose the method POST."},
		{Text: "Add a header x-api-key with this value.", Copy: to.key},
		{Text: "Add a header Accept with this value, so that the answer is the address alone.", Copy: web.TextMedia},
		{Text: "As the request body choose Form. Add a field of the type File with the key file, and as its value Shortcut Input."},
		{Text: "Add a field of the type Text with the key isPublic and this value.", Copy: public},
		{Text: "Add the action “Copy to Clipboard” for the contents of the URL. Now share a photo and choose the shortcut."},
		audience(to.public),
	}}, nil
}

// bookmarklet opens the editor of a new bookmark with the page that is open. It
// has no key, which any page could read. An address has room for part of a long
// selection: the server takes maxQuery, also of an address in an address.
func bookmarklet(to setupTarget) (setupResult, error) {
	at, err := json.Marshal(to.base + "/bookmarks/new?")
	if err != nil {
		return setupResult{}, err
	}
	code := `void(()=>{let d=String(getSelection()).slice(0,2000),u;` +
		`do{u=` + string(at) + `+new URLSearchParams({url:location.href,title:document.title.slice(0,200),description:d});d=d.slice(0,d.length*.8)}while(u.length>4000&&d);` +
		`open(u,'_blank','noopener')})()`
	return setupResult{[]setupFile{{"kist-bookmarklet.txt", web.TextMedia, "javascript:" + url.PathEscape(code) + "\n"}}, []setupStep{
		{Text: "Drag the link to the bookmarks bar, or make a bookmark with this as its address.", Copy: "javascript:" + url.PathEscape(code)},
		{Text: "On a page that you want to keep, select a part of the text if you like, and press the bookmark. A new bookmark opens, filled in, for you to save."},
		{Text: "It holds no key: it works in a browser that is signed in here."},
	}}, nil
}
