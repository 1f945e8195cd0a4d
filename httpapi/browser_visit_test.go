package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/kv"
	"kist/kv/people"
)

// openStranger starts a server, whose user has the password, and opens a
// browser that is signed in nowhere.
func openStranger(t *testing.T) *tab {
	t.Helper()
	t.Parallel()
	chromium(t)
	a := apitest.Start(t, apitest.AtHome)
	a.WithPassword(a.User, "correct horse")
	return profile(a)
}

// at waits for the page of a heading.
func (b *tab) at(heading string) {
	b.Helper()
	b.until(`document.querySelector('h1')?.textContent.replaceAll('\u00a0', ' ').startsWith(` + quoted(heading) + `)`)
}

// enterAs fills in the page to sign in at, and sends it.
func (b *tab) enterAs(name, password string) {
	b.Helper()
	b.at("Sign in")
	b.fill("Username", name)
	b.fill("Password", password)
	b.keys(kb.Enter)
}

// TestBrowserClaim makes the first administrator and goes on into the app.
func TestBrowserClaim(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	chromium(t)
	b := profile(apitest.StartEmpty(t, apitest.AtHome))
	var token string
	b.NoErr(b.Server.Store.Update(func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err }))
	b.open("/")
	b.at("Sign in")
	b.until(`document.querySelector('.alert').textContent.startsWith('There is no account yet.')`)

	b.open("/claim/" + token)
	b.at("Claim this kist")
	b.until(`document.activeElement.name === 'username'`) // a browser gives the focus when it has drawn the page
	b.fill("Username", "eve")
	b.fill("Password", "correct horse")
	b.fill("Confirm password", "correct house")
	b.press("Create account")
	b.until(`document.querySelector('#repeat-error')?.textContent === 'The two passwords differ.'`)
	is.Equal(b.js(`document.querySelector('#username').value`), "eve") // what was typed is still there
	b.fill("Password", "correct horse")
	b.fill("Confirm password", "correct horse")
	b.keys(kb.Enter)
	b.at("Your account is ready")
	b.until(`!document.querySelector('pre')`) // no key that nobody asked for
	b.press("Create an API key")
	b.until(`document.title.startsWith('Keys and devices') && location.search === ''`)
	b.shows("New API key")
	b.press("Cancel")
	b.until(`!document.querySelector('dialog')`)
	b.shows("No keys yet.")
	b.press("New key")
	b.press("Full access to my items")
	b.press("Manage keys")
	b.fill("Name", "scripts")
	b.click(`dialog .main`)
	b.until(`document.querySelector('dialog pre.copy')?.textContent.startsWith('kist_')`)
	b.As(b.js(`document.querySelector('dialog pre.copy').textContent`).(string)).Get("/api/v1/admin/users").Want(200)
	b.press("Done")
	b.until(`!document.querySelector('dialog') && document.querySelector('#main .list').textContent.includes('scripts')`)

	b.click(`.rail a[href="/"]`)
	b.until(`document.title === 'Home · kist'`)
	b.fill("Add anything", "the first note")
	b.press("Add note")
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	b.open("/claim/" + token) // it is valid once
	b.until(`document.body.textContent.includes('has been used')`)
}

// TestBrowserSignIn signs in and out, and cannot try out passwords.
func TestBrowserSignIn(t *testing.T) {
	is := is.New(t)
	b := openStranger(t)
	b.open("/notes?q=milk")
	for range limit.GuessesFrom {
		b.enterAs("ann", "wrong horse")
		b.until(`document.querySelector('[role=alert]')?.textContent === 'The name or the password is wrong.'`)
		is.Equal(b.js(`document.querySelector('#username').value`), "ann")
		b.until(`document.activeElement.name === 'password'`)
		b.js(`document.querySelector('[role=alert]').remove()`)
	}
	b.enterAs("ann", "correct horse")
	b.until(`document.querySelector('[role=alert]')?.textContent.startsWith('Too many wrong passwords.')`)
	b.Clock.Advance(limit.GuessWindow)
	b.enterAs("ann", "correct horse")
	b.until(`location.pathname + location.search === '/notes?q=milk' && document.title === 'Notes · kist'`)

	b.open("/account")
	b.press("Sign out")
	b.at("Sign in")
	b.open("/files")
	b.at("Sign in")
}

// TestBrowserSignInProof: when strangers have tried too often, the page proves
// that it is not a bot, and the user types the password again.
func TestBrowserSignInProof(t *testing.T) {
	b := openStranger(t)
	for i := range limit.GuessesOverall {
		b.Guessed(fmt.Sprint(i), "login:ann")
	}
	b.open("/notes?q=milk")
	b.enterAs("ann", "correct horse")
	b.until(`document.querySelector('[role=alert]')?.textContent.includes('Enter the password again.')`)
	b.until(`document.activeElement.name === 'password'`)
	b.enterAs("ann", "correct horse") // before the proof is there, perhaps
	b.until(`location.pathname + location.search === '/notes?q=milk' && document.title === 'Notes · kist'`)
}

// TestBrowserSessions sees the other browsers that are signed in, and ends
// their sessions.
func TestBrowserSessions(t *testing.T) {
	is := is.New(t)
	b := openStranger(t)
	b.open("/account")
	b.enterAs("ann", "correct horse")
	b.at("Account")
	other := profile(b.App)
	other.open("/")
	other.enterAs("ann", "correct horse")
	other.at("Home")

	b.open("/account")
	b.until(`document.querySelectorAll('[aria-label="Browsers that are signed in"] .item').length === 2`)
	// this one
	is.Equal(b.js(`document.querySelectorAll('[aria-label="Browsers that are signed in"] .badge').length`), 1.0)
	b.press("Sign out Chrome")
	b.says("Browser signed out.")
	b.until(`document.querySelectorAll('[aria-label="Browsers that are signed in"] .item').length === 1`)
	other.fill("Add anything", "typed meanwhile")
	other.press("Add note")
	other.says("You are signed out.")
	other.press("Sign in")
	other.enterAs("ann", "correct horse")
	other.at("Home")
	other.until(`document.querySelector('.add textarea')?.value === 'typed meanwhile'`)

	// A new password ends all sessions but the one that set it, and revokes what
	// is marked: devices, unless the user says otherwise.
	var phone, laptop string
	b.NoErr(b.Server.Store.Update(func(tx *kv.Tx) (err error) {
		_, phone, err = people.AddKey(
			tx, people.Key{Owner: b.User.ID, Name: "phone", Device: "phone", Scopes: []people.Scope{people.ScopeRead}},
		)
		if err == nil {
			_, laptop, err = people.AddKey(
				tx, people.Key{Owner: b.User.ID, Name: "laptop", Scopes: []people.Scope{people.ScopeRead}},
			)
		}
		return err
	}))
	b.open("/account/security")
	b.until(`[...document.querySelectorAll('form[aria-label=Password] [type=checkbox]')].map((x) => x.labels[0].textContent + ' ' + x.checked).sort().join() === 'laptop (API key) false,phone (connected device) true,test (API key) false'`)
	b.fill("Current password", "wrong horse")
	b.fill("New password", "battery staple")
	b.fill("Confirm new password", "battery staple")
	b.press("Change password")
	b.until(`document.querySelector('form[aria-label=Password] .error:not([hidden])')?.textContent.startsWith('Current password')`)
	b.fill("Current password", "correct horse")
	b.press("Change password")
	b.says("Password changed. Other browsers are signed out. 1 key revoked.")
	b.As(phone).Get("/api/v1/notes").Want(401)
	b.As(laptop).Get("/api/v1/notes").Want(200)
	other.open("/files")
	other.enterAs("ann", "battery staple")
	other.at("Files")
	b.open("/files")
	b.at("Files")
}

// TestBrowserDevice lets programs in: they poll as the clients do that exist,
// while a user approves in a browser that is signed out at first.
func TestBrowserDevice(t *testing.T) {
	is := is.New(t)
	b := openStranger(t)
	begin := func(client string) (code, secret, at string) {
		got := b.App.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: map[string]string{"extension_id": client},
		}).Want(200)
		return got.Text("user_code"), got.Text("device_code"), strings.TrimPrefix(
			got.Text("verification_uri_complete"), b.URL,
		)
	}
	impatient, patient := apitest.Extension{A: b.App}, &apitest.Script{A: b.App, Every: 1}

	code, secret, at := begin("kist <b>extension")
	_, done := impatient.Poll(secret)
	is.True(!done)
	b.open(at)
	b.enterAs("ann", "correct horse")
	b.at("Connect a device")
	is.Equal(b.js(`document.querySelector('.compare').textContent`), code) // still filled in
	is.Equal(b.js(`document.querySelector('.sheet b').textContent`), "kist <b>extension")
	is.True(strings.Contains(
		b.js(`document.querySelector('.sheet').textContent`).(string), "The request came from 127.0.0.1",
	))
	_, done = impatient.Poll(secret)
	is.True(!done) // looking approves nothing
	b.press("Allow")
	b.at("Connected")
	key, _ := impatient.Poll(secret)
	b.As(key).Get("/api/v1/notes").Want(200)
	b.As(key).Get("/api/v1/keys").Want(403)

	// The other client is told to slow down, and does; its code is typed.
	code, secret, _ = begin("script")
	for range 3 {
		_, done = patient.Poll(secret)
		is.True(!done)
	}
	is.Equal(patient.Every, 10.0)
	b.open("/keys")
	b.press("Enter code")
	b.at("Connect a device")
	b.fill("Code", "bcdf-ghjk")
	b.keys(kb.Enter)
	b.until(`document.querySelector('[role=alert]')?.textContent.startsWith('This code is unknown')`)
	b.fill("Code", strings.ToLower(strings.ReplaceAll(code, "-", "")))
	b.keys(kb.Enter)
	b.press("Allow")
	b.at("Connected")
	key, _ = patient.Poll(secret)
	b.As(key).Get("/api/v1/notes").Want(200)

	b.open("/keys")
	b.until(`document.querySelectorAll('[aria-label="Connected devices"] .item').length === 2`)
	b.press("Revoke script")
	b.click(`dialog .danger`)
	b.says("Revoked “script”.")
	b.As(key).Get("/api/v1/me").Want(401)

	_, secret, at = begin("a stranger's")
	b.open(at)
	b.press("Deny")
	b.at("Not connected")
	is.Equal(
		b.App.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true, JSON: map[string]string{"device_code": secret},
		}).Want(400).Text("error"),
		"access_denied",
	)
}

// TestBrowserSharedWithPassword shares a note with a password, which another
// browser then needs.
func TestBrowserSharedWithPassword(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	slug := b.Post(
		"/api/v1/notes", map[string]any{"title": "Wifi", "content": "the **guests'** one"},
	).Want(201).Text("data.slug")
	visitor := profile(b.App)
	visitor.open("/v/" + slug)
	visitor.at("Nothing here")

	b.open("/notes")
	b.press("Share Wifi")
	b.press("Anyone with the link")
	b.until(`document.querySelector('dialog input[readonly]')`)
	b.press("Password: none")
	b.fill("Password", "open sesame")
	b.click(`.part .main`)
	b.until(`document.querySelector('[data-part=password]').textContent === 'Password: set'`)
	b.keys(kb.Escape)

	visitor.open("/v/" + slug)
	visitor.at("This is protected by a password")
	is.True(!strings.Contains(visitor.js(`document.documentElement.outerHTML`).(string), "guests"))
	visitor.fill("Password", "open barley")
	visitor.keys(kb.Enter)
	visitor.until(`document.querySelector('[role=alert]')`)
	visitor.fill("Password", "open sesame")
	visitor.keys(kb.Enter)
	visitor.at("Wifi")
	is.Equal(visitor.js(`document.querySelector('.prose strong').textContent`), "guests'")
	visitor.open("/v/" + slug) // it is remembered
	visitor.at("Wifi")
	visitor.open("/notes")
	visitor.at("Sign in")
	becomes(b.App, "notes", "views", 1.0) // counts may be a second late
}

// shareSheet posts from the page what a phone's share sheet does.
func (b *tab) shareSheet(fields map[string]string, files ...apitest.Part) {
	b.Helper()
	var script strings.Builder
	for name, value := range fields {
		script.WriteString(`field('input', ` + quoted(name) + `).value = ` + quoted(value) + `;`)
	}
	for _, f := range files {
		script.WriteString(`data.items.add(new File([` + quoted(f.Content) + `], ` + quoted(f.Name) + `, { type: ` + quoted(f.Media) + ` }));`)
	}
	b.js(`(() => {
		const form = document.createElement('form'), data = new DataTransfer();
		Object.assign(form, { method: 'post', action: '/share', enctype: 'multipart/form-data' });
		const field = (tag, name) => form.appendChild(Object.assign(document.createElement(tag), { name }));
		` + script.String() + `
		if (data.files.length) Object.assign(field('input', 'file'), { type: 'file' }).files = data.files;
		document.body.append(form);
		setTimeout(() => form.submit());
	})()`)
}

// TestBrowserShareTarget takes what a phone shares, and nothing while it is signed
// out.
func TestBrowserShareTarget(t *testing.T) {
	is := is.New(t)
	b := openStranger(t)
	b.signIn()
	b.open("/account")
	b.until(`document.querySelector('link[rel=manifest]')`)
	is.Equal(
		b.js(`fetch(document.querySelector('link[rel=manifest]').href).then((r) => r.json()).then((m) => m.share_target.action)`),
		"/share",
	)
	b.shareSheet(map[string]string{"title": "Go", "url": "https://go.dev/"})
	b.until(`document.querySelector('dialog.panel [name=url]')?.value === 'https://go.dev/'`) // open, to add a tag
	b.open("/account")
	b.shareSheet(map[string]string{"text": "milk & bread"})
	b.until(`document.querySelector('dialog.panel [name=content]')?.value === 'milk & bread'`)
	b.open("/account")
	b.shareSheet(nil, apitest.File("a.txt", "text/plain", "aaa"), apitest.File("b.txt", "text/plain", "bbb"))
	b.until(`location.pathname === '/files' && document.querySelectorAll('#main .item').length === 2`)

	b.open("/account")
	b.do(cdpnet.ClearBrowserCookies())
	b.shareSheet(map[string]string{"text": "read this https://example.org/"}, apitest.File("c.txt", "text/plain", "ccc"))
	b.enterAs("ann", "correct horse")
	b.says("Share it again")
	is.Equal(b.js(`location.search`), "")
	is.Equal(b.Get("/api/v1/files").At("total"), 2.0)
}

// TestBrowserLockedLink: a person with the password gets where a short link
// leads, at another site too.
func TestBrowserLockedLink(t *testing.T) {
	is := is.New(t)
	b := openStranger(t)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<h1>Far away</h1>"))
	}))
	t.Cleanup(far.Close)
	for i, path := range []string{"/s/", "/"} {
		slug := fmt.Sprintf("far-%d", i)
		b.Post(
			"/api/v1/shorten",
			map[string]any{"originalUrl": far.URL, "slug": slug, "isPublic": true, "password": "open sesame", "maxClicks": 1},
		).Want(201)
		b.open(path + slug)
		b.fill("Password", "open barley")
		b.keys(kb.Enter)
		b.until(`document.querySelector('[role=alert]')`)
		b.fill("Password", "open sesame")
		b.keys(kb.Enter)
		b.at("Far away")
		is.Equal(b.Counted("shorten", slug, "clicks"), 1)
	}
}

// TestBrowserWithoutScripts: what visitors see, and signing in, works without
// JavaScript.
func TestBrowserWithoutScripts(t *testing.T) {
	is := is.New(t)
	b := openStranger(t)
	b.do(emulation.SetScriptExecutionDisabled(true))
	share := func(path string, body map[string]any) string {
		body["isPublic"] = true
		return b.Post("/api/v1/"+path, body).Want(201).Text("data.slug")
	}
	note := share("notes", map[string]any{"title": "Plan", "content": "# One\n\n- two", "password": "open sesame"})
	snippet := share("snippets", map[string]any{"title": "Loop", "language": "go", "content": "for range 3 {}"})
	game := share("games", map[string]any{"title": "Chess", "status": "playing"})
	link := share("shorten", map[string]any{"originalUrl": b.URL + "/about"})
	up := b.Upload(
		map[string]string{"isPublic": "true"}, apitest.File("hello.txt", "text/plain", "hello there"),
	).Want(201).Text("slug")

	b.open("/v/" + note)
	b.fill("Password", "open sesame")
	b.keys(kb.Enter)
	b.at("Plan")
	is.Equal(b.js(`document.querySelector('.prose li').textContent`), "two")
	b.open("/v/" + snippet)
	is.True(b.js(`document.querySelector('pre.code').textContent.includes('for range 3 {}')`) == true)
	b.open("/v/" + up)
	b.at("hello.txt")
	is.True(strings.HasSuffix(
		b.js(`document.querySelector('a[download]').getAttribute('href').split('?')[0]`).(string), "/x/"+up,
	))
	b.press("Details")
	is.True(b.js(`document.querySelector('.details svg').getBoundingClientRect().width > 100`) == true)
	b.open("/v/" + game)
	b.at("Chess")
	b.open("/g/ann")
	b.at("ann’s games")
	b.open("/s/" + link)
	b.until(`location.pathname === '/about'`)
	b.press("Sign in")
	b.enterAs("ann", "correct horse")
	b.until(`document.querySelector('noscript, main')?.textContent.includes('This page needs JavaScript.')`)
	code := b.App.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"script"}`,
	}).Want(200).Text("user_code")
	b.open("/device?user_code=" + code)
	b.press("Allow")
	b.at("Connected")
}
