package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/kvtest/needs"
)

// firefox is a Firefox that is driven by its protocol Marionette, which, unlike
// WebDriver, reaches the browser's own windows, menus and keys as well.
type firefox struct {
	*apitest.App
	conn    net.Conn
	in      *bufio.Reader
	sent    int
	context string // that scripts run in: content, a page, or chrome, the browser
}

// The extension, the host of its pages, and how it is found in the browser.
const (
	firefoxID   = "extension@kist.invalid"
	firefoxHost = "7d1b9fd0-5c1e-4d0a-9c56-0f2c3a1be001"
	firefoxPage = "moz-extension://" + firefoxHost + "/"
	firefoxSelf = `const { extension } = WebExtensionPolicy.getByID('` + firefoxID + `'); const win = Services.wm.getMostRecentWindow('navigator:browser');`
)

const inFirefox = "the extension in Firefox"

// openFirefox starts a Firefox that reaches this machine alone. The test ends where
// there is none, or an older one than the extension is for.
func openFirefox(a *apitest.App) *firefox {
	a.Helper()
	at, err := exec.LookPath("firefox-esr")
	if err != nil {
		at, err = exec.LookPath("firefox")
	}
	if err != nil {
		needs.LeaveOut(a, inFirefox, "no Firefox")
	}
	dir := a.TempDir()
	var prefs bytes.Buffer
	for name, value := range map[string]any{
		"marionette.port": 0, "extensions.webextensions.uuids": `{"` + firefoxID + `":"` + firefoxHost + `"}`,
		"extensions.webextOptionalPermissionPrompts": false, // what is asked for is allowed
		"focusmanager.testmode":                      true,  // keys arrive though no window has the focus
		"network.proxy.type":                         1, "network.proxy.http": "127.0.0.1", "network.proxy.http_port": 9, "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9,
		"network.proxy.no_proxies_on": "localhost, 127.0.0.1", "network.captive-portal-service.enabled": false, "network.connectivity-service.enabled": false,
		"browser.aboutwelcome.enabled": false, "termsofuse.bypassNotification": true, "datareporting.policy.dataSubmissionEnabled": false, "app.update.enabled": false,
		"browser.shell.checkDefaultBrowser": false, "browser.startup.page": 0, "toolkit.telemetry.reportingpolicy.firstRun": false, "services.settings.server": "data:,",
	} {
		text, err := json.Marshal(value)
		a.NoErr(err)
		fmt.Fprintf(&prefs, "user_pref(%q, %s);\n", name, text)
	}
	a.NoErr(os.WriteFile(filepath.Join(dir, "user.js"), prefs.Bytes(), 0o600))
	browser := exec.Command(
		at, "--headless", "--no-remote", "--profile", dir, "--marionette", "--remote-allow-system-access",
	)
	browser.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	a.NoErr(browser.Start())
	ended := make(chan struct{})
	go func() {
		_ = browser.Wait() // it is told to end
		close(ended)
	}()
	f := &firefox{App: a, context: "content"}
	a.Cleanup(func() {
		if f.conn != nil {
			_, _ = f.try("Marionette:Quit", map[string]any{"flags": []string{"eForceQuit"}})
			_ = f.conn.Close()
		}
		select {
		case <-ended:
		case <-time.After(patience):
			_ = browser.Process.Kill()
			<-ended
		}
	})
	for end := time.Now().Add(patience); f.conn == nil; time.Sleep(20 * time.Millisecond) {
		if port, err := os.ReadFile(filepath.Join(dir, "MarionetteActivePort")); err == nil && len(port) > 0 {
			f.conn, err = net.Dial("tcp", "127.0.0.1:"+strings.TrimSpace(string(port)))
			if err == nil {
				break
			}
			f.conn = nil // the number is not whole yet
		}
		select {
		case <-ended:
			a.Fatal("Firefox ended before it could be driven")
		default:
		}
		if time.Now().After(end) {
			a.Fatal("Firefox cannot be driven")
		}
	}
	f.in = bufio.NewReader(f.conn)
	_, err = f.read() // it says which protocol this is
	a.NoErr(err)
	var session struct {
		Capabilities struct {
			Version string `json:"browserVersion"`
		} `json:"capabilities"`
	}
	a.NoErr(json.Unmarshal(f.send("WebDriver:NewSession", map[string]any{}), &session))
	major, _, _ := strings.Cut(session.Capabilities.Version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 142 {
		needs.LeaveOut(a, inFirefox, "Firefox "+session.Capabilities.Version+" is older than 142")
	}
	return f
}

// read reads a message: its length, a colon, and JSON.
func (f *firefox) read() ([]byte, error) {
	if err := f.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	length, err := f.in.ReadString(':')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(length, ":"))
	if err != nil {
		return nil, err
	}
	message := make([]byte, n)
	_, err = io.ReadFull(f.in, message)
	return message, err
}

// try has the browser do something.
func (f *firefox) try(command string, parameters any) (json.RawMessage, error) {
	f.sent++
	message, err := json.Marshal([]any{0, f.sent, command, parameters})
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f.conn, "%d:%s", len(message), message); err != nil {
		return nil, err
	}
	message, err = f.read()
	if err != nil {
		return nil, err
	}
	var answer [4]json.RawMessage // 1, the number, what is wrong, the result
	if err := json.Unmarshal(message, &answer); err != nil {
		return nil, err
	}
	var wrong *struct{ Error, Message string }
	if err := json.Unmarshal(answer[2], &wrong); err != nil {
		return nil, err
	}
	if wrong != nil {
		return nil, fmt.Errorf("%s: %s: %s", command, wrong.Error, wrong.Message)
	}
	return answer[3], nil
}

func (f *firefox) send(command string, parameters any) json.RawMessage {
	f.Helper()
	result, err := f.try(command, parameters)
	f.NoErr(err)
	return result
}

func (f *firefox) within(context string) {
	f.Helper()
	if f.context != context {
		f.send("Marionette:SetContext", map[string]any{"value": context})
		f.context = context
	}
}

// run is what the body of an asynchronous function returns, in the page or in
// the browser.
func (f *firefox) run(context, body string) (any, error) {
	f.Helper()
	f.within(context)
	script := `const done = arguments[arguments.length - 1]; (async () => { ` + body + ` })().then((v) => done([v ?? null, '']), (e) => done([null, String(e)]));`
	result, err := f.try(
		"WebDriver:ExecuteAsyncScript",
		map[string]any{
			"script": script, "args": []any{}, "newSandbox": true, "sandbox": map[string]any{"chrome": "system"}[context],
		},
	)
	if err != nil {
		return nil, err
	}
	var got struct{ Value [2]any }
	f.NoErr(json.Unmarshal(result, &got))
	if got.Value[1] != "" {
		return nil, fmt.Errorf("%v, of %s", got.Value[1], body)
	}
	return got.Value[0], nil
}

func (f *firefox) js(expression string) any {
	f.Helper()
	v, err := f.run("content", "return await ("+expression+")")
	f.NoErr(err)
	return v
}

func (f *firefox) inside(body string) any {
	f.Helper()
	v, err := f.run("chrome", firefoxSelf+body)
	f.NoErr(err)
	return v
}

// until waits for an expression of the page to be true.
func (f *firefox) until(expression string) {
	f.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var v any
		v, err = f.run("content", "return !!("+expression+")")
		if err == nil && v == true { // a page that is being left does not answer
			return
		}
	}
	f.Fatalf("never true: %s (%v)\nthe page: %v", expression, err, f.js(`document.body.innerText.slice(0, 1500)`))
}

// other waits for a tab whose address begins so, and goes there.
func (f *firefox) other(address string) {
	f.Helper()
	f.within("content")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var handles []string
		f.NoErr(json.Unmarshal(f.send("WebDriver:GetWindowHandles", map[string]any{}), &handles))
		for _, handle := range handles {
			if _, err := f.try("WebDriver:SwitchToWindow", map[string]any{"handle": handle, "focus": true}); err != nil {
				continue // it was closed
			}
			var at struct{ Value string }
			if result, err := f.try(
				"WebDriver:GetCurrentURL", map[string]any{},
			); err == nil && json.Unmarshal(result, &at) == nil && strings.HasPrefix(at.Value, address) {
				return
			}
		}
	}
	f.Fatalf("nothing is opened at %s", address)
}

// open opens an address in a new tab.
func (f *firefox) open(address string) {
	f.Helper()
	f.within("content")
	var made struct{ Handle string }
	f.NoErr(json.Unmarshal(f.send("WebDriver:NewWindow", map[string]any{"type": "tab", "focus": true}), &made))
	f.send("WebDriver:SwitchToWindow", map[string]any{"handle": made.Handle, "focus": true})
	f.send("WebDriver:Navigate", map[string]any{"url": address})
}

func (f *firefox) element(selector string) map[string]string {
	f.Helper()
	f.within("content")
	var found struct{ Value map[string]string }
	f.NoErr(json.Unmarshal(
		f.send("WebDriver:FindElement", map[string]any{"using": "css selector", "value": selector}), &found,
	))
	return found.Value
}

// click does it as a mouse does, which browsers take for a person's wish.
func (f *firefox) click(selector string) {
	f.Helper()
	for _, id := range f.element(selector) {
		f.send("WebDriver:ElementClick", map[string]any{"id": id})
	}
}

// keys presses Alt, Shift and a letter.
func (f *firefox) keys(letter string) {
	f.Helper()
	var down, up []map[string]string
	for _, key := range []string{"\uE00A", "\uE008", letter} {
		down = append(down, map[string]string{"type": "keyDown", "value": key})
		up = append(up, map[string]string{"type": "keyUp", "value": key})
	}
	f.within("chrome")
	f.send(
		"WebDriver:PerformActions",
		map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keys", "actions": append(down, up...)}}},
	)
}

// menu clicks with the right mouse button, and chooses an entry.
func (f *firefox) menu(selector, entry string) {
	f.Helper()
	f.send("WebDriver:PerformActions", map[string]any{"actions": []any{map[string]any{
		"type": "pointer", "id": "mouse", "parameters": map[string]string{"pointerType": "mouse"}, "actions": []any{
			map[string]any{"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": f.element(selector)},
			map[string]any{"type": "pointerDown", "button": 2},
			map[string]any{"type": "pointerUp", "button": 2},
		},
	}}})
	f.inside(`
		const menu = win.document.getElementById('contentAreaContextMenu');
		if (menu.state !== 'open') await new Promise((shown) => menu.addEventListener('popupshown', shown, { once: true }));
		const item = [...menu.querySelectorAll('menuitem')].find((e) => e.id.endsWith(` + quoted("-menuitem-_"+entry) + `));
		if (!item) throw new Error('no such entry');
		const own = item.closest('menupopup'); // that of the extension
		if (own.state !== 'open') {
			const shown = new Promise((shown) => own.addEventListener('popupshown', shown, { once: true }));
			own.parentNode.open = true;
			await shown;
		}
		own.activateItem(item);
		if (menu.state !== 'closed') await new Promise((hidden) => menu.addEventListener('popuphidden', hidden, { once: true }));`)
	f.within("content")
	f.send("WebDriver:ReleaseActions", map[string]any{})
}

// TestBrowserExtensionFirefox: as in Chromium, where it differs.
func TestBrowserExtensionFirefox(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t, apitest.AtHome)
	f := openFirefox(a)
	a.Post("/api/v1/bookmarks", map[string]any{"url": "https://example.org/older"}).Want(201)
	a.Post("/api/v1/notes", map[string]any{"content": "an older one"}).Want(201)
	a.Upload(nil, apitest.File("older.txt", "text/plain", "older")).Want(201)
	site, _, picture, _ := elsewhere(t)
	site = strings.Replace(site, "127.0.0.1", "localhost", 1) // permissions know no ports
	archive := filepath.Join(t.TempDir(), "kist.zip")
	a.NoErr(os.WriteFile(archive, a.Visit("/extension.zip").Want(200).Body, 0o600))

	// It opens the page to connect on its own, and is let in.
	f.send("WebDriver:Navigate", map[string]any{"url": a.URL + "/healthz"})
	f.send(
		"WebDriver:AddCookie", map[string]any{"cookie": map[string]any{"name": a.SessionCookie(), "value": a.Session()}},
	)
	f.within("chrome")
	f.send("Addon:Install", map[string]any{"path": archive, "temporary": true})
	f.other(firefoxPage + "options.html")
	f.until(`document.querySelector('#server').value === ` + quoted(a.URL))
	is.Equal(f.js(`document.querySelectorAll('#keys kbd').length`), 4.0)
	f.click("#server-form button")
	f.other(a.URL + "/device?user_code=")
	f.until(`[...document.querySelectorAll('button')].find((b) => b.textContent === 'Allow')`)
	is.True(strings.HasPrefix(f.js(`document.querySelector('.sheet b').textContent`).(string), "kist extension (Firefox"))
	f.js(`[...document.querySelectorAll('button')].find((b) => b.textContent === 'Allow').click()`)
	f.other(firefoxPage + "options.html")
	f.until(`document.querySelector('#connected').innerText.includes(' as ann')`)
	is.Equal(f.js(`browser.permissions.getAll().then((p) => p.origins.join())`), "http://127.0.0.1/*")

	// Its keys and its menu wake it: Firefox ends what runs without a page when
	// it is idle.
	f.open(site + "/tides")
	id := f.inside(`return ChromeUtils.importESModule('resource://gre/modules/ExtensionParent.sys.mjs').ExtensionParent.apiManager.global.tabTracker.getId(win.gBrowser.selectedTab)`)
	f.inside(`await extension.terminateBackground()`)
	f.keys("y")
	becomes(a, "bookmarks", "url", site+"/tides")
	is.Equal(one(a, "bookmarks", "title"), "Tide tables")
	f.js(`getSelection().selectAllChildren(document.body)`)
	f.keys("j")
	becomes(a, "notes", "content", "Tides\n\nHigh at six.\n\nLow at noon.")
	is.Equal(one(a, "notes", "sourceUrl"), site+"/tides")
	f.keys("q")
	becomes(a, "files", "description", site+"/tides")
	_, err := png.Decode(bytes.NewReader(a.Get("/x/" + one(a, "files", "slug").(string)).Want(200).Body))
	is.NoErr(err)
	f.js(`getSelection().removeAllRanges()`)
	f.inside(`await extension.terminateBackground()`)
	f.js(`(() => { document.cookie = 'member=1'; document.images[0].src = '/own.png'; return document.images[0].decode(); })()`)
	f.menu("img", "media:file") // with the page's cookies, as it is seen
	becomes(a, "files", "originalName", "own.png")
	is.Equal(a.Get("/x/"+one(a, "files", "slug").(string)).Want(200).Body, picture)

	// The pop-up, opened as a page, knows the page, and copies.
	f.open(fmt.Sprintf("%spopup.html?tab=%.0f", firefoxPage, id))
	f.until(`!document.querySelector('#already').hidden && document.querySelector('#recent').textContent.includes('own.png')`)
	f.click(`[value=link]`)
	f.js(`(() => { const e = document.querySelector('#isPublic'); e.value = '1'; e.dispatchEvent(new Event('input', { bubbles: true })); })()`)
	f.click("#save")
	f.until(`document.querySelector('#saved-text').textContent.startsWith('Short link created. Link copied')`)
	is.Equal(one(a, "shorten", "originalUrl"), site+"/tides")
	is.Equal(f.inside(`return win.navigator.clipboard.readText()`), one(a, "shorten", "url"))

	// Disconnecting takes the key away, and gives the permission back.
	f.other(firefoxPage + "options.html")
	key := f.js(`browser.storage.local.get('connection').then((s) => s.connection.key)`).(string)
	f.click("#disconnect")
	f.until(`!document.querySelector('#connect').hidden`)
	a.As(key).Get("/api/v1/notes").Want(401)
	is.Equal(f.js(`browser.permissions.getAll().then((p) => p.origins.join())`), "")
	is.Equal(
		f.inside(`return Services.console.getMessageArray().filter((m) => m.sourceName?.startsWith('moz-extension:')).map(String).join()`),
		"",
	)
}
