package httpapi

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kist/embed"
	"kist/httpapi/render"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/people"
	"kist/kv/record"
)

// appPage is a page of the owner's app, with the data that comes with it.
type appPage struct {
	path, id, title string // title is the key of a text
	// asks are paths below the API's prefix, without the parameters of the page's address. What is
	// known under another name than its path has that and | before it.
	asks   []string
	filter bool         // the query of the page's address filters the lists
	kind   *record.Kind // whose list it is; nil for others
	module string       // the extra script that this page needs
	admin  bool         // only for administrators
}

// The first page of a list; on the home page, of each kind.
const (
	firstOfList = "?brief=true&limit=50"
	firstOfHome = "?brief=true&limit=12"
)

// maxAlong is the largest answer, in bytes, that comes with every page. Thousands of tags,
// which no page shows at once, would slow down all pages.
const maxAlong = 48 << 10

// settingsPages are the sections of the settings.
var settingsPages = []string{
	"/account", "/account/security", "/keys", "/webhooks", "/import", "/remote-upload", "/admin",
}

// appPages lists the addresses of the app.
func appPages() []appPage {
	var all []string
	var pages []appPage
	for _, k := range record.Kinds {
		if k != record.Collections { // they have tiles
			all = append(all, k.Path+firstOfHome)
		}
	}
	pages = append(pages,
		appPage{
			path: "/", id: "showHome", title: "home.title", module: "home",
			asks: append(all,
				"tiles|collections?limit=7&sort=updated", "shared|collections?limit=7&sort=updated&from=others",
				"favourites|search?limit=12&q=is:favorite",
			),
		},
		appPage{
			path: "/search", id: "showSearch", title: "search.title", module: "search", filter: true,
			asks: []string{"search?limit=40&from=all"},
		},
		appPage{
			path: "/upload-requests", id: "showUploadRequests", title: "requests.title", module: "requests",
			asks: []string{"upload-requests?limit=500", "upload-requests/queue?limit=50"},
		},
		appPage{path: "/tags", id: "showTags", title: "tags.title", module: "tags"},
		appPage{
			path: "/trash", id: "showTrash", title: "trash.title", module: "trash", filter: true,
			asks: []string{"trash?limit=50"},
		},
		appPage{
			path: "/keys", id: "showKeys", title: "keys.pageTitle", module: "keys",
			asks: []string{"keys?limit=500", "me/sessions?limit=500"},
		},
		appPage{
			path: "/webhooks", id: "showWebhooks", title: "webhooks.title", module: "webhooks",
			asks: []string{"integrations/webhooks"},
		},
		appPage{
			path: "/import", id: "showImport", title: "import.pageTitle", module: "moving",
			asks: []string{"import"},
		},
		appPage{
			path: "/remote-upload", id: "showRemoteUpload", title: "remote.title", module: "remote",
			asks: []string{"remote-upload"},
		},
		appPage{
			path: "/account", id: "showAccount", title: "account.title", module: "account",
			asks: []string{"me/sessions?limit=500"},
		},
		appPage{
			path: "/account/security", id: "showSecurity", title: "security.title", module: "security",
			asks: []string{
				"me/security", "me/passkeys?limit=500", "me/identities?limit=500", "keys?limit=500",
				"me/sessions?limit=500", "activity?limit=10",
			},
		},
		appPage{
			path: "/admin", id: "showAdmin", title: "admin.title", module: "admin", admin: true,
			asks: []string{
				"admin/users?limit=500&sort=title", "admin/settings", "admin/stats", "admin/health", "admin/backups",
				"admin/invitations?limit=500",
			},
		},
	)
	for _, k := range record.Kinds {
		name, arg := k.View().Page, "{id}"
		if k == record.Files {
			arg = "{slug}"
		}
		asks, module, only := []string{k.Path + firstOfList}, "reader", []string{k.Path + "/" + arg}
		switch k {
		case record.Collections:
			asks, module = append(asks, "shared|collections?limit=100&sort=updated&from=others"), "board"
		default:
			only = append(only, asks...)
		}
		pages = append(pages,
			appPage{path: "/" + name, id: "show" + web.Title(name), kind: k, asks: asks, filter: true},
			appPage{
				path: "/" + name + "/" + arg, id: "showOneOf" + web.Title(name), kind: k, filter: true, module: module,
				asks: only,
			},
		)
	}
	return pages
}

// readAbout tells visitors what this server is.
func readAbout(c *web.Request) error {
	return c.RespondPage(http.StatusOK, embed.HomePage{Base: c.Site.Prefix(), Version: c.Site.Version})
}

func (s *Server) showApp(p appPage) web.Operation {
	return web.PageOp(func(c *web.Request) error { return s.respondApp(c, p) }, 303, 503)
}

// appCaller is the user of the app. It is nil for visitors and for keys that may not read,
// which have to sign in.
func appCaller(c *web.Request) *people.Caller {
	if c.Caller == nil || !c.Caller.Key.Allows(people.ScopeRead) {
		return nil
	}
	return c.Caller
}

// redirectToSignIn sends a browser to the sign-in page, and then back to the path.
func redirectToSignIn(c *web.Request, path string) error {
	return session.Redirect(c, "/login?next="+url.QueryEscape(path))
}

// modules are the scripts that the app loads when it needs them.
var modules = []string{
	"account", "activity", "admin", "awake", "backups", "board", "bookmarks", "bulk", "cards", "collections",
	"conflict", "deleting", "drops", "editor", "forms", "help", "home", "house", "keys", "kind", "live", "menu",
	"moving", "news", "offline", "own", "picker", "pictures", "poster", "reader", "remote", "replace", "requests",
	"search", "security", "selection", "share", "tags", "ticks", "tiles", "trash", "tus", "uploads", "versions",
	"viewer", "waiting", "webhooks", "welcome", "zoom",
}

// respondApp answers with a page of the app and the API answers that it shows first, so
// that showing it takes one round of requests.
func (s *Server) respondApp(c *web.Request, p appPage) error {
	if appCaller(c) == nil {
		return redirectToSignIn(c, c.R.URL.RequestURI())
	}
	data := appData{}
	data.json.WriteByte('{')
	if err := data.writeFacts(c); err != nil {
		return err
	}
	data.json.WriteByte(',')
	if err := data.writeNames(c); err != nil {
		return err
	}
	data.json.WriteByte(',')
	if err := s.writeAnswers(c, &data, p); err != nil {
		return err
	}
	data.json.WriteByte('}')
	page := embed.AppPage{
		Base: c.Site.Prefix(), Title: c.Lang().T(p.title), Module: p.module, Admin: c.Caller.User.Role == people.Admin,
		Look: lookOf(c), Content: c.Site.Content, Kinds: appKinds(c.Lang()), Data: data.json.Bytes(),
	}
	page.Settings = slices.Contains(settingsPages, p.path)
	if p.kind != nil && p.module != "board" {
		page.List = "kind"
	}
	switch {
	case p.path == "/":
		page.Prompt = c.Lang().T("add.dropAny")
	case p.kind != nil:
		view := web.ViewOf(p.kind, c.Lang())
		page.Title = view.Many
		if p.module == "" && !c.R.URL.Query().Has("folder") { // a folder has its own heading
			page.Heading = view.Many
		}
	}
	return c.RespondPage(http.StatusOK, page)
}

// appData is the JSON object that a page of the app reads when it starts.
type appData struct{ json bytes.Buffer }

func (d *appData) text(t string) { d.json.Write(field.AppendString(nil, t)) }

func (d *appData) number(n int64) { d.json.WriteString(strconv.FormatInt(n, 10)) }

// writeFacts writes what the server allows and how many things wait for the owner.
func (d *appData) writeFacts(c *web.Request) error {
	limit := c.Site.MaxUpload
	var pending, trashed, trashDays int64
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		pending = inbox.PendingCount(tx, c.Owner())
		set, err := people.ReadSettings(tx)
		limit, trashed, trashDays = set.Largest(limit), catalog.TrashCount(tx, c.Owner(), nil), set.TrashDays
		return err
	}); err != nil {
		return err
	}
	d.json.WriteString(`"base":`)
	d.text(c.Site.Prefix())
	d.json.WriteString(`,"url":`)
	d.text(c.Site.Base)
	if c.Site.OIDC != nil {
		d.json.WriteString(`,"issuer":`)
		d.text(c.Site.OIDC.Name)
	}
	d.json.WriteString(`,"maxUpload":`)
	d.number(limit)
	d.json.WriteString(`,"pending":`)
	d.number(pending)
	d.json.WriteString(`,"trashed":`)
	d.number(trashed)
	d.json.WriteString(`,"trashDays":`)
	d.number(trashDays)
	d.writeNews(c)
	return nil
}

// writeNews writes which modules the page loads after its first rows: what takes dropped files, the editor, so that
// dialogs open at once, the copies on the device, and what tells an administrator of failed backups, and users of a
// version that they have not seen yet.
func (d *appData) writeNews(c *web.Request) {
	d.json.WriteString(`,"begin":["drops","editor","live","offline"`)
	if backup := backupHealthOf(c.Site.Backups); backup != nil && !backup.ok && c.Caller.User.Role == people.Admin {
		d.json.WriteString(`,"backups"`)
	}
	version, seen := c.Site.Version, c.Caller.User.SeenVersion
	anchor, told := embed.Changes(version)
	if !told || version == seen || seen != "" && !newer(version, seen) {
		d.json.WriteByte(']')
		return
	}
	d.json.WriteString(`,"news"],"news":{"version":`)
	d.text(version)
	d.json.WriteString(`,"anchor":`)
	d.text(anchor)
	d.json.WriteString(`,"first":` + strconv.FormatBool(seen == "") + `}`)
}

// newer reports whether a version comes after another one. It compares their numbers.
func newer(version, than string) bool { return slices.Compare(numbers(version), numbers(than)) > 0 }

// numbers are the numbers at the beginning of a version: 1, 2 and 0 of 1.2.0-rc.1.
func numbers(version string) []int {
	release, _, _ := strings.Cut(version, "-")
	var all []int
	for part := range strings.SplitSeq(release, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return all
		}
		all = append(all, n)
	}
	return all
}

// writeNames writes the addresses of the app's modules and of their texts, and the kinds.
func (d *appData) writeNames(c *web.Request) error {
	d.json.WriteString(`"modules":{`)
	for i, module := range modules {
		name, err := embed.Name(module + ".js")
		if err != nil {
			return err
		}
		if i > 0 {
			d.json.WriteByte(',')
		}
		d.text(module)
		d.json.WriteByte(':')
		d.text(c.Site.Prefix() + "/static/" + name)
	}
	texts := c.Lang().ModuleTexts()
	d.json.WriteString(`},"texts":`)
	d.json.Write(field.AppendMembers(nil, slices.Sorted(maps.Keys(texts)), func(dst []byte, module string) []byte {
		return field.AppendString(dst, c.Site.Prefix()+"/static/"+texts[module])
	}))
	d.json.WriteString(`,"kinds":`)
	d.json.Write(web.Views(c.Lang()))
	return nil
}

// writeAnswers writes the answers of the API that the page shows first. A failed one, or a large one that the page
// does not ask for itself, is null: the script asks for it and shows the problem.
func (s *Server) writeAnswers(c *web.Request, d *appData, p appPage) error {
	d.json.WriteString(`"answers":{`)
	owned := p.asks
	asks := append([]string{"me", "tags", "folders?limit=500&sort=title"}, owned...)
	for i, ask := range asks {
		name, rest, named := strings.Cut(ask, "|")
		if !named {
			name, rest = "", ask
		}
		path, query, _ := strings.Cut(rest, "?")
		if p.filter && query != "" && slices.Contains(owned, ask) {
			query += "&" + c.R.URL.RawQuery // the first value of a parameter counts
		}
		if i > 0 {
			d.json.WriteByte(',')
		}
		d.text(cmp.Or(name, path))
		d.json.WriteByte(':')
		body := s.callAPI(c, path, query)
		if body == nil || len(body) > maxAlong && !slices.Contains(owned, ask) {
			d.json.WriteString("null")
			continue
		}
		if err := c.Hold(int64(len(body))); err != nil {
			return err
		}
		d.json.Write(body)
	}
	d.json.WriteByte('}')
	return nil
}

// appKinds are the kinds as the navigation of the app names them.
func appKinds(l embed.Lang) []embed.AppKind {
	var all []embed.AppKind
	for _, k := range record.Kinds {
		v := web.ViewOf(k, l)
		all = append(all, embed.AppKind{Name: v.Name, Page: v.Page, Many: v.Many, Icon: v.Icon})
	}
	return all
}

// routeFor is the route that answers GET at a path as the table writes it.
func (s *Server) routeFor(path string) *Route {
	i := slices.IndexFunc(s.routes, func(r Route) bool { return r.Method == http.MethodGet && r.Path == path })
	if i < 0 {
		return nil
	}
	return &s.routes[i]
}

// callAPI is the API's answer to a GET of the caller; nil if it fails. The caller is
// authorized as for a separate request.
func (s *Server) callAPI(c *web.Request, path, query string) []byte {
	row := s.routeFor(web.APIPath + path)
	if row == nil {
		return nil
	}
	r := c.R.Clone(c.R.Context())
	r.Header.Del("Accept-Encoding") // the whole page is compressed instead
	r.Header.Del("If-None-Match")   // it is about the page
	r.URL = &url.URL{Path: web.APIPath + path, RawQuery: query}
	answer := &recorder{header: http.Header{}}
	one := &web.Request{
		Site: c.Site, R: r, Args: c.Args, ID: c.ID, Addr: c.Addr,
		W: &web.AnswerWriter{ResponseWriter: answer, Ctl: http.NewResponseController(answer), Addr: c.Addr},
	}
	defer one.ReleaseMemory()
	if err := authorize(one, row.Access); err != nil {
		return nil
	}
	if err := row.Serve(one); err != nil || one.W.Status != http.StatusOK {
		return nil
	}

	body := answer.body.Bytes()
	if tag := answer.header.Get("Etag"); tag != "" { // the script gets no headers
		body = slices.Concat([]byte(`{"etag":`), field.AppendString(nil, tag), []byte(","), body[1:])
	}
	return body
}

// recorder keeps an answer in memory.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (k *recorder) Header() http.Header { return k.header }

func (k *recorder) WriteHeader(int) {}

func (k *recorder) Write(p []byte) (int, error) { return k.body.Write(p) }

// readServiceWorker answers with the service worker of the app. Browsers compare its bytes to find a new version.
func readServiceWorker(c *web.Request) error {
	var kinds, pages []string
	for _, k := range record.Kinds {
		kinds, pages = append(kinds, k.Path), append(pages, k.View().Page)
	}
	b, err := embed.Worker(c.Site.Prefix(), kinds, pages)
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Content-Security-Policy", web.PolicyWorker(c.Site.Content))
	h.Set("Cache-Control", "no-cache")
	_, _ = c.W.Write(b) // the client may be gone
	return nil
}

const manifestType = "application/manifest+json"

// readManifest describes the app to a browser that installs it.
func readManifest(c *web.Request) error {
	b, err := embed.Manifest(c.Site.Prefix(), c.Lang())
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", manifestType)
	h.Set("Vary", "Accept-Language, Cookie")
	h.Set("Cache-Control", "no-cache")
	_, _ = c.W.Write(b) // the client may be gone
	return nil
}

const maxQRText = 1024

var readQROp = web.Operation{
	Tag: "app", Summary: "Draws a QR code.",
	Args: []web.Param{{
		In: "query", Name: "text", Doc: "The text of the code; at most 1024 bytes.",
		Schema: web.Object{"type": "string", "maxLength": maxQRText},
	}},
	Reply: web.Reply{Status: 200, Doc: "The picture.", Body: &web.Content{Media: "image/svg+xml"}},
	Serve: readQR,
}

// readQR draws a QR code for the share dialog.
func readQR(c *web.Request) error {
	q, err := c.Query()
	if err != nil {
		return err
	}
	t := q.Get("text")
	if t == "" || len(t) > maxQRText {
		return &record.Error{
			Fault: record.Malformed, Code: "bad_query",
			Text: "The parameter text must be 1 to " + strconv.Itoa(maxQRText) + " bytes long.",
		}
	}
	code, err := render.QR(t)
	if err != nil {
		return err
	}
	// In an HTML page SVG needs no namespace, but as a file it does.
	b := []byte(strings.Replace(string(code), "<svg", `<svg xmlns="http://www.w3.org/2000/svg"`, 1))
	h := c.W.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Content-Security-Policy", web.PolicyDrawing)
	h.Set("Cache-Control", "private, max-age=86400")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	c.W.WriteHeader(http.StatusOK)
	_, _ = c.W.Write(b) // the client may be gone
	return nil
}
