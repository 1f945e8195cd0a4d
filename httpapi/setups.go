package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kist/embed"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// A setup is a program that kist can be used from, and how it is told of this
// server and of an API key of its own.
type setup struct {
	program string // in requests
	name    string // to people, and of the key
	does    string
	scopes  []record.Scope // of the key, the fewest that do; none: it needs no key
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
	s.Text("mediaType", &f.Media, 255).Says("Its media type.", `"application/json"`)
	s.LongText("content", &f.Content, record.MaxContent).Says("Its content.", `"{…}"`)
}

// setupStep is one thing to do, and the text to copy for it.
type setupStep struct{ Text, Copy string }

func (t *setupStep) Fields(s *field.Set) {
	s.LongText("text", &t.Text, record.MaxDescription).Says("What to do, as a sentence.", `"Open each file with a double click."`)
	s.LongText("copy", &t.Copy, record.MaxDescription).Says("What to copy for it; may be empty.", `""`)
}

// setups lists the programs.
var setups = []*setup{
	{"sharex", "ShareX", "Screenshots, files, text and short links from Windows.", []record.Scope{record.ScopeWrite}, sharex},
	{"flameshot", "Flameshot", "Screenshots from Linux: a script to put on a key.", []record.Scope{record.ScopeUpload}, flameshot},
	{"shell", "Shell script", "Files, or what a command prints, from a terminal.", []record.Scope{record.ScopeUpload}, shell},
	{"shortcut", "Apple Shortcut", "Photos and files from the share sheet of an iPhone, iPad or Mac.", []record.Scope{record.ScopeUpload}, shortcut},
	{"bookmarklet", "Bookmarklet", "The page that is open, from the bookmarks bar of any browser.", nil, bookmarklet},
}

type programName string

func programNames() (names []programName) {
	for _, p := range setups {
		names = append(names, programName(p.program))
	}
	return names
}

// shownSetup is a program as the list shows it.
type shownSetup struct{ setup }

func (v *shownSetup) Fields(s *field.Set) {
	s.Text("program", &v.program, record.MaxName).Says("What a request calls it.", `"sharex"`)
	s.Text("name", &v.name, record.MaxName).Says("Its name.", `"ShareX"`)
	s.Text("description", &v.does, record.MaxDescription).Says("What it sends, and from where.", `"Screenshots, files, text and short links from Windows."`)
	s.Shown("scopes", field.Schema{Type: "array", Items: &field.Schema{Type: "string", Enum: scopeNames}}, func(dst []byte) []byte {
		return (&shownKey{record.Key{Scopes: v.scopes}}).appendScopes(dst)
	}).Says("The scopes of its API key; empty if it needs none.", `["write"]`)
}

// setupForm asks for a setup.
type setupForm struct {
	program programName
	public  bool
}

func (f *setupForm) Fields(s *field.Set) {
	field.Choice(s, "program", &f.program, programNames(), field.Required).Says("The program.", `"sharex"`)
	s.Bool("isPublic", &f.public).Says("Whether what the program sends can be seen by others.", `true`)
}

// madeSetup is a setup as it is answered, this once.
type madeSetup struct {
	setup
	setupResult
	key *record.Key // nil if it needs none
}

func (v *madeSetup) Fields(s *field.Set) {
	s.Text("program", &v.program, record.MaxName).Says("The program.", `"sharex"`)
	s.Text("name", &v.name, record.MaxName).Says("Its name.", `"ShareX"`)
	key := field.ObjectOf(new(shownKey))
	key.Nullable = true
	s.Shown("key", key, func(dst []byte) []byte {
		if v.key == nil {
			return append(dst, "null"...)
		}
		return field.AppendJSON(dst, &shownKey{*v.key})
	}).Says("The API key that was made for it, without its secret, which is in the files or steps; null if it needs none.", `null`)
	s.Shown("files", arrayAs(new(setupFile)), func(dst []byte) []byte { return appendAll(dst, pointers(v.files)) }).
		Says("Files to save. They may hold the secret of the key.", `[{"name":"kist-files.sxcu","mediaType":"application/json","content":"{…}"}]`)
	s.Shown("steps", arrayAs(new(setupStep)), func(dst []byte) []byte { return appendAll(dst, pointers(v.steps)) }).
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

func listSetups(c *request) error {
	return c.respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		var all []*shownSetup
		for _, p := range setups {
			all = append(all, &shownSetup{*p})
		}
		dst = appendAll(append(dst, `{"data":`...), all)
		return appendEnd(dst, len(all), ""), nil
	})
}

// createSetup makes a program's API key, and what it is set up with.
func createSetup(c *request) error {
	form := new(setupForm)
	if err := c.decodeNew(form); err != nil {
		return err
	}
	p := setups[slices.Index(programNames(), form.program)]
	out := &madeSetup{setup: *p}
	to := setupTarget{base: c.s.Base, public: form.public}
	if p.scopes != nil {
		if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
			out.key, to.key, err = tx.AddKey(record.Key{Owner: c.owner(), Name: p.name, Scopes: p.scopes})
			return err
		}); err != nil {
			return err
		}
	}
	var err error
	if out.setupResult, err = p.make(to); err != nil {
		return err
	}
	return c.respondData(http.StatusCreated, out)
}

// audience says who sees what a program sends.
func audience(public bool) setupStep {
	if public {
		return setupStep{Text: "Anyone who has the address of something that it sent can see it."}
	}
	return setupStep{Text: "What it sends is private: its address opens for you alone, where you are signed in, until you make it public."}
}

// customUploader is a custom uploader of ShareX (getsharex.com/docs/custom-uploader).
type customUploader struct {
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
	uploader := func(what, sort, path string) customUploader {
		return customUploader{
			Version: "14.0.0", // the first with {json:…}
			Name:    "kist: " + what, DestinationType: sort, RequestMethod: http.MethodPost,
			RequestURL: literally.Replace(to.base + apiPath + path), Headers: map[string]string{"x-api-key": to.key},
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
		customUploader
	}{{"kist-files.sxcu", files}, {"kist-text.sxcu", text}, {"kist-links.sxcu", links}} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(f.customUploader); err != nil {
			return setupResult{}, err
		}
		out.files = append(out.files, setupFile{f.name, jsonType, b.String()})
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
		{Text: "Add the action “Get Contents of URL” with this address.", Copy: to.base + apiPath + "upload"},
		{Text: "Unfold the action and choose the method POST."},
		{Text: "Add a header x-api-key with this value.", Copy: to.key},
		{Text: "Add a header Accept with this value, so that the answer is the address alone.", Copy: textMedia},
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
	return setupResult{[]setupFile{{"kist-bookmarklet.txt", textMedia, "javascript:" + url.PathEscape(code) + "\n"}}, []setupStep{
		{Text: "Drag the link to the bookmarks bar, or make a bookmark with this as its address.", Copy: "javascript:" + url.PathEscape(code)},
		{Text: "On a page that you want to keep, select a part of the text if you like, and press the bookmark. A new bookmark opens, filled in, for you to save."},
		{Text: "It holds no key: it works in a browser that is signed in here."},
	}}, nil
}

func setupRoutes() []route {
	const at = apiPath + "setups"
	return []route{
		{
			method: "GET", path: at, id: "listSetups", tag: "account", summary: "Lists the programs that kist can be set up in.",
			access: ownAccount, reply: reply{200, "All of them.", listOf("Setup")}, serve: listSetups,
		},
		{
			method: "POST", path: at, id: "createSetup", tag: "account", summary: "Sets a program up: makes its API key, whose secret is shown this once, and the files and steps that it takes.",
			access: ownAccount, body: bodyOf("SetupCreate"), reply: reply{201, "The key, files and steps.", dataOf("SetupMade")}, serve: createSetup,
		},
	}
}
