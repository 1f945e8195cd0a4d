package api

import (
	"bytes"
	"encoding/json"
	"net"
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

// A setup is a program that kist can be used from, and how to configure it with this server
// and a separate API key.
type setup struct {
	Program string // in requests
	Name    string // for people, and the name of the key
	does    string
	Scopes  []people.Scope // of the key, as few as possible; nil means no key
	make    func(to setupTarget) (setupResult, error)
}

// A setupTarget is what a program is configured with.
type setupTarget struct {
	base, key string // the address of the server and the secret of the API key
	public    bool   // what the program sends is public
}

// setupResult is what a user needs to set up a program.
type setupResult struct {
	files []setupFile
	steps []setupStep
}

type setupFile struct{ Name, Media, Content string }

func (f *setupFile) Fields(s *field.Set) {
	s.Text("name", &f.Name, record.MaxName).Says("What to save it as.", `"kist-files.sxcu"`)
	s.Text("mediaType", &f.Media, record.MaxMediaType).Says("Its media type.", `"application/json"`)
	s.LongText("content", &f.Content, record.MaxContent).Says("Its content.", `"{…}"`)
}

// setupStep is something to do, with text to copy for it.
type setupStep struct{ Text, Copy string }

func (t *setupStep) Fields(s *field.Set) {
	s.LongText("text", &t.Text, record.MaxDescription).Says(
		"What to do, as a sentence.", `"Open each file with a double click."`,
	)
	s.LongText("copy", &t.Copy, record.MaxDescription).Says("What to copy for it; may be empty.", `""`)
}

// Setups lists the programs.
var Setups = []*setup{
	{
		"sharex", "ShareX", "Screenshots, files, text and short links from Windows.",
		[]people.Scope{people.ScopeWrite},
		sharex,
	},
	{
		"flameshot", "Flameshot", "Screenshots from Linux: a script to bind to a keyboard shortcut.",
		[]people.Scope{people.ScopeUpload},
		flameshot,
	},
	{
		"shell", "Shell script", "Files, or the output of a command, from a terminal.",
		[]people.Scope{people.ScopeUpload},
		shell,
	},
	{
		"shortcut", "Apple Shortcut", "Photos and files from the share sheet of an iPhone, iPad or Mac.",
		[]people.Scope{people.ScopeUpload},
		shortcut,
	},
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
	s.Text("program", &v.Program, record.MaxName).Says("Name of the program in requests.", `"sharex"`)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"ShareX"`)
	s.Text("description", &v.does, record.MaxDescription).Says(
		"What it sends, and from where.", `"Screenshots, files, text and short links from Windows."`,
	)
	s.Shown("scopes", field.Schema{
		Type: "array", Items: &field.Schema{Type: "string", Enum: ScopeNames},
	}, func(dst []byte) []byte {
		return field.AppendStrings(dst, v.Scopes)
	}).
		Says("The scopes of its API key; empty if it needs none.", `["write"]`)
}

// SetupForm is a request for a setup.
type SetupForm struct {
	program programName
	public  bool
}

func (f *SetupForm) Fields(s *field.Set) {
	field.Choice(s, "program", &f.program, ProgramNames(), field.Required).Says("The program.", `"sharex"`)
	s.Bool("isPublic", &f.public).Says("Whether others can see what the program sends.", `true`)
}

// MadeSetup is the answer with a setup. It is shown only once.
type MadeSetup struct {
	setup
	setupResult
	key *people.Key // nil if the program needs none
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
	}).Says("The API key created for the program; null if it needs none. Its secret is in the files or steps.", `null`)
	s.Shown("files", arrayAs(new(setupFile)), func(dst []byte) []byte {
		return field.AppendList(dst, v.files, func(dst []byte, f setupFile) []byte { return field.AppendJSON(dst, &f) })
	}).
		Says(
			"Files to save. They may contain the secret of the key.",
			`[{"name":"kist-files.sxcu","mediaType":"application/json","content":"{…}"}]`,
		)
	s.Shown("steps", arrayAs(new(setupStep)), func(dst []byte) []byte {
		return field.AppendList(dst, v.steps, func(dst []byte, s setupStep) []byte { return field.AppendJSON(dst, &s) })
	}).
		Says("What to do, in order.", `[{"text":"Open each file with a double click.","copy":""}]`)
}

func arrayAs(of field.Shaped) field.Schema {
	item := field.ObjectOf(of)
	return field.Schema{Type: "array", Items: &item}
}

var ListSetups = web.Operation{
	Tag: "account", Summary: "Lists the programs that can be set up to use kist.",
	Reply: web.Reply{Status: 200, Doc: "All programs.", Body: web.ListOf("Setup")}, Serve: listSetups,
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
	Tag: "account", Summary: "Sets up a program: makes its API key and returns the files and steps. The " +
		"secret of the key is shown only once.",
	Body:  web.BodyOf("SetupCreate"),
	Reply: web.Reply{Status: 201, Doc: "The key, files and steps.", Body: web.DataOf("SetupMade")},
	Fails: []int{409},
	Once:  web.MadeKey, Serve: createSetup,
}

func createSetup(c *web.Request) error {
	form := new(SetupForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	p := Setups[slices.Index(ProgramNames(), form.program)]
	to := setupTarget{base: c.Site.Base, public: form.public}
	if p.Scopes == nil { // makes nothing, so a repeat does no harm
		result, err := p.make(to)
		if err != nil {
			return err
		}
		return c.RespondData(http.StatusCreated, &MadeSetup{setup: *p, setupResult: result})
	}
	return c.Create(func(tx *kv.Tx) (web.Created, error) {
		key, secret, err := people.AddKey(tx, people.Key{Owner: c.Owner(), Name: p.Name, Scopes: p.Scopes})
		if err != nil {
			return web.Created{}, err
		}
		to.key = secret
		result, err := p.make(to)
		return web.Created{ID: key.ID, Append: func(dst []byte) ([]byte, error) {
			v := &MadeSetup{setup: *p, setupResult: result, key: key}
			return append(field.AppendJSON(append(dst, `{"data":`...), v), '}'), nil
		}}, err
	})
}

// audience says who can see what a program sends.
func audience(public bool) setupStep {
	if public {
		return setupStep{Text: "Anyone with the link to something that it sent can see it."}
	}
	return setupStep{
		Text: "Everything that it sends is private. Only you can open the links, in a browser that is signed in, until " +
			"you make the item public.",
	}
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

// literally escapes text for ShareX's syntax of addresses.
var literally = strings.NewReplacer(`\`, `\\`, `{`, `\{`, `}`, `\}`, `|`, `\|`)

// sharex makes a custom uploader for each type of content that ShareX sends. In a JSON body
// ShareX replaces only {input}, by text that is escaped for JSON.
func sharex(to setupTarget) (setupResult, error) {
	uploader := func(what, sort, path string) CustomUploader {
		return CustomUploader{
			Version: "14.0.0", // the first version with {json:…}
			Name:    "kist: " + what, DestinationType: sort, RequestMethod: http.MethodPost,
			RequestURL: literally.Replace(to.base + web.APIPath + path), Headers: map[string]string{"x-api-key": to.key},
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
		out.files = append(out.files, setupFile{f.name, web.JSONType, b.String()})
	}
	out.steps = []setupStep{
		{Text: "Save the files: one is for screenshots and files, one for text, one for short links."},
		{Text: "Open each file with a double click. ShareX asks whether to make it the default. Answer yes."},
		{
			Text: "To delete something that it sent, open its deletion URL from the history of ShareX, and press the button there.",
		},
		audience(to.public),
	}
	return out, nil
}

const scriptMedia = "application/x-sh"

func shell(to setupTarget) (setupResult, error) {
	return setupResult{[]setupFile{
		{"kist-upload", scriptMedia, embed.ShellScript(to.base, to.key, to.public)},
	}, []setupStep{
		{
			Text: "Save the file to a folder on your PATH, such as ~/.local/bin, and make sure that only you can read and " +
				"run it, because it contains the key.",
			Copy: "chmod 700 ~/.local/bin/kist-upload",
		},
		{
			Text: "Run it with the names of files, or pipe the output of a command into it. It prints the links and copies " +
				"them to the clipboard.",
			Copy: "kist-upload photo.jpg",
		},
		audience(to.public),
	}}, nil
}

func flameshot(to setupTarget) (setupResult, error) {
	return setupResult{[]setupFile{
		{"kist-screenshot", scriptMedia, embed.FlameshotScript(to.base, to.key, to.public)},
	}, []setupStep{
		{
			Text: "Save the file to a folder on your PATH, such as ~/.local/bin, and make sure that only you can read and " +
				"run it, because it contains the key.",
			Copy: "chmod 700 ~/.local/bin/kist-screenshot",
		},
		{
			Text: "In your desktop's settings, assign the command to a key. The link to each screenshot is copied to the clipboard.",
			Copy: "kist-screenshot",
		},
		audience(to.public),
	}}, nil
}

func shortcut(to setupTarget) (setupResult, error) {
	public := strconv.FormatBool(to.public)
	var steps []setupStep
	if base, err := url.Parse(to.base); err == nil && isHere(base.Hostname()) {
		steps = append(
			steps,
			setupStep{
				Text: "A phone cannot reach this server, because this URL leads only to the machine that it runs on. Start the " +
					"server with --base-url and a URL that the phone can reach, then set this up again.",
				Copy: to.base,
			},
		)
	}
	return setupResult{nil, append(steps, []setupStep{
		{
			Text: "In Shortcuts, create a new shortcut. In its details, turn on “Show in Share Sheet” and let it receive " +
				"images, media and files.",
		},
		{Text: "Add the action “Get Contents of URL” with this URL.", Copy: to.base + web.APIPath + "upload"},
		{Text: "Expand the action and choose the method POST."},
		{Text: "Add a header x-api-key with this value.", Copy: to.key},
		{Text: "Add a header Accept with this value, so that the answer is only the link.", Copy: web.TextMedia},
		{
			Text: "Choose Form as the request body. Add a field of the type File with the key file and the value Shortcut Input.",
		},
		{Text: "Add a field of the type Text with the key isPublic and this value.", Copy: public},
		{Text: "Add the action “Copy to Clipboard” for the contents of the URL. Now share a photo and choose the shortcut."},
		audience(to.public),
	}...)}, nil
}

// bookmarklet opens the editor of a new bookmark with the open page. It contains no key,
// because any page could read that. An address has space only for part of a long selection:
// the server accepts MaxQuery, even for an address within an address.
func bookmarklet(to setupTarget) (setupResult, error) {
	at, err := json.Marshal(to.base + "/bookmarks/new?")
	if err != nil {
		return setupResult{}, err
	}
	code := `void(()=>{let d=String(getSelection()).slice(0,2000),u;` +
		`do{u=` + string(at) + `+new URLSearchParams({url:location.href,title:document.title.slice(0,200),description:d});d=d.slice(0,d.length*.8)}while(u.length>4000&&d);` +
		`open(u,'_blank','noopener')})()`
	return setupResult{[]setupFile{
		{"kist-bookmarklet.txt", web.TextMedia, "javascript:" + url.PathEscape(code) + "\n"},
	}, []setupStep{
		{
			Text: "Drag the link to the bookmarks bar, or create a bookmark with this URL.",
			Copy: "javascript:" + url.PathEscape(code),
		},
		{
			Text: "On a page that you want to save, select some text if you like, then click the bookmark. A form with a new " +
				"bookmark opens. Save it.",
		},
		{Text: "It contains no key, so it works only in a browser that is signed in here."},
	}}, nil
}

// isHere reports whether a host is the very machine on which its name is read.
func isHere(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }
