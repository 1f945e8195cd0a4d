package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
)

// Waits for an event end with the event. These bounds only end a test whose event
// never comes, so they are far above what a loaded machine takes.
const (
	patience = 3 * time.Minute  // for one event
	tabTime  = 15 * time.Minute // for all that a test does in a tab
)

// tab is a tab of a browser.
type tab struct {
	*apitest.App
	ctx  context.Context
	acts int // clicks and keys so far

	mu       sync.Mutex
	bad      []string // errors in the page
	expected []string // what may, by how its message begins
}

// process is a browser that tests share, started by the first that needs it. Each tab of
// a test has a profile of its own in it.
type process struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

// pagesOnly draws pages; where it is not installed, the whole browser stands in.
// wholeBrowser also has the browser's own viewers, and takes twice the CPU time.
var pagesOnly, wholeBrowser process

func TestMain(m *testing.M) {
	code := apitest.Run(m)
	for _, p := range []*process{&pagesOnly, &wholeBrowser} {
		if p.end != nil {
			p.end()
		}
	}
	os.Exit(code)
}

// browserPath is where Chromium is. A test of the app ends where there is none, and
// unless all tests are to run.
func browserPath(t testing.TB) string {
	t.Helper()
	const what = "the app in Chromium"
	needs.Time(t)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
	}
	needs.Lacks(t, what, "no Chromium")
	return ""
}

// shellPath is where a Chromium without windows is, or the whole one.
func shellPath(t testing.TB) string {
	t.Helper()
	at := browserPath(t)
	for _, name := range []string{"chromium-headless-shell", "chrome-headless-shell"} {
		if light, err := exec.LookPath(name); err == nil {
			return light
		}
	}
	return at
}

// chromeOptions are those of every browser: it reaches this machine alone.
func chromeOptions(at string) []chromedp.ExecAllocatorOption {
	return append(
		chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(at), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag(
			"host-resolver-rules", "MAP content.test 127.0.0.1, MAP localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		), chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(patience), // for the browser to start
	)
}

// chromium starts the browser that draws pages only. A test of the app ends where there
// is none.
func chromium(t testing.TB) context.Context {
	t.Helper()
	return pagesOnly.start(t, shellPath(t))
}

// wholeChromium starts the browser that people have, with its viewer of PDF.
func wholeChromium(t testing.TB) context.Context {
	t.Helper()
	return wholeBrowser.start(t, browserPath(t))
}

func (p *process) start(t testing.TB, at string) context.Context {
	t.Helper()
	p.once.Do(func() {
		ctx, stop := chromedp.NewExecAllocator(context.Background(), chromeOptions(at)...)
		ctx, leave := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
		p.ctx, p.err = ctx, chromedp.Run(ctx)
		p.end = func() {
			_ = chromedp.Cancel(ctx)
			leave()
			stop()
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.ctx
}

// openBrowser starts a server, and opens a browser that reaches nothing else
// and is signed in as its user.
func openBrowser(t *testing.T, with ...func(*web.Config)) *tab {
	t.Helper()
	t.Parallel()
	return openIn(t, chromium(t), with...)
}

// openIn is openBrowser with a browser of the caller's choice.
func openIn(t *testing.T, in context.Context, with ...func(*web.Config)) *tab {
	t.Helper()
	b := profileIn(apitest.Start(t, append([]func(*web.Config){apitest.AtHome, func(c *web.Config) {
		c.MaxUpload = 8 << 20
	}}, with...)...), in)
	b.signIn()
	return b
}

// profile opens a tab with a fresh profile, which is signed in nowhere.
func profile(a *apitest.App) *tab {
	a.Helper()
	return profileIn(a, chromium(a))
}

func profileIn(a *apitest.App, all context.Context) *tab {
	a.Helper()
	whole := cdp.WithExecutor(all, chromedp.FromContext(all).Browser)
	profile, err := target.CreateBrowserContext().Do(whole)
	a.NoErr(err)
	// A profile begins with a window: Chromium refuses it a tab alone.
	at, err := target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).WithWidth(1280).WithHeight(900).Do(whole)
	a.NoErr(err)
	ctx, leave := chromedp.NewContext(all, chromedp.WithTargetID(at))
	ctx, cancel := context.WithTimeout(ctx, tabTime)
	b := &tab{App: a, ctx: ctx}
	a.Cleanup(func() {
		cancel()
		leave()
		if err := target.DisposeBrowserContext(profile).Do(whole); err != nil {
			a.Error(err)
		}
	})
	b.NoErr(b.watch())
	return b
}

// watch has the test fail where something goes wrong in the page.
func (b *tab) watch() error {
	b.Helper()
	b.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, text := range b.bad {
			b.Error("in the page: " + text)
		}
	})
	chromedp.ListenTarget(b.ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.note(e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *cdplog.EventEntryAdded:
			// Answers that are errors are part of some tests; a broken policy is of none.
			if e.Entry.Level == cdplog.LevelError && e.Entry.Source != cdplog.SourceNetwork {
				b.note(e.Entry.Text, nil)
			}
		}
	})
	// Copies for a time without the server would hide what the server does. The test of them turns them on.
	const online = `try { if (!localStorage['kist.offline']) localStorage['kist.offline'] = 'false' } catch {}`
	return chromedp.Run(b.ctx, cdplog.Enable(), cdpnet.Enable(), emulation.SetFocusEmulationEnabled(true),
		sent("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": online}))
}

// isLeaving reports whether a page did not answer because it was being left for
// another.
func isLeaving(err error) bool {
	if err == nil {
		return false
	}
	said := err.Error() // the protocol has one number for all of them
	return strings.Contains(said, "navigated") || strings.Contains(said, "execution context") ||
		strings.Contains(said, "Cannot find context")
}

// addNamed gives the app's user an API key, or a connected device, that may read.
func addNamed(a *apitest.App, name, device string) (secret string) {
	a.Helper()
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddKey(
			tx, people.Key{Owner: a.User.ID, Name: name, Device: device, Scopes: []people.Scope{people.ScopeRead}},
		)
		return err
	}))
	return secret
}

// addPasskeyNamed gives the app's user a passkey that no authenticator has.
func addPasskeyNamed(a *apitest.App, name string) {
	a.Helper()
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		_, _, err := people.AddPasskey(
			tx, people.Passkey{Owner: a.User.ID, Name: name, Credential: []byte(name), Key: []byte("key")},
		)
		return err
	}))
}

// signIn gives the browser a session of the app's user.
func (b *tab) signIn() {
	b.Helper()
	b.do(cdpnet.SetCookie(b.SessionCookie(), b.Session()).WithURL(b.URL))
}

func (b *tab) note(text string, what *runtime.RemoteObject) {
	if what != nil {
		text += " " + what.Description
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.expected, func(start string) bool { return strings.HasPrefix(text, start) }) {
		b.bad = append(b.bad, text)
	}
}

// expects has the test not fail for messages of the page that begin so.
func (b *tab) expects(start string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, start)
}

func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	b.NoErr(chromedp.Run(b.ctx, actions...))
}

// open goes to an address and waits until a page of the app is drawn.
func (b *tab) open(path string) {
	b.Helper()
	b.do(chromedp.Navigate(b.URL + path))
	b.until(`(() => { const main = document.querySelector('#main'); return !main || main.querySelector(':scope > :not(noscript, [inert])') && !main.querySelector('[aria-busy=true]') && !main.querySelector('.state')?.textContent.includes('Loading') })()`)
}

// js is the value of an expression in the page.
func (b *tab) js(expression string) any {
	b.Helper()
	v, err := b.ask(expression)
	b.NoErr(err)
	return v
}

func (b *tab) ask(expression string, as ...chromedp.EvaluateOption) (v any, err error) {
	as = append(as, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) })
	err = chromedp.Run(
		b.ctx, chromedp.Evaluate(`Promise.resolve(`+expression+`).then((v) => v === undefined ? null : v)`, &v, as...),
	)
	return v, err
}

// until waits for an expression, or the result of its promise, to be true.
func (b *tab) until(expression string, as ...chromedp.EvaluateOption) {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		v, err := b.ask("(async () => !!(await ("+expression+")))()", as...)
		if !isLeaving(err) {
			b.NoErr(err)
		}
		if v == true {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("never true: %s\nthe page: %s", expression, b.js(`document.body.innerText.slice(0, 1500)`))
		}
	}
}

// hasten has the timers that the page sets from now on end so many times as
// early, while it stays open.
func (b *tab) hasten(times int) {
	b.Helper()
	b.js(fmt.Sprintf(
		`void ((wait) => { window.setTimeout = (f, ms, ...rest) => wait(f, ms / %d, ...rest); })(setTimeout)`, times,
	))
}

// says waits for a message of the page.
func (b *tab) says(text string) {
	b.Helper()
	b.until(`[...document.querySelectorAll('.toast, [role=alert], #uploads [aria-live]')]
		.some((t) => t.textContent.replaceAll('\u00a0', ' ').includes(` + quoted(text) + `))`)
}

// shows waits for a text of the page, or of the dialog above it.
func (b *tab) shows(text string) {
	b.Helper()
	b.until(`([...document.querySelectorAll('dialog[open]')].pop() ?? document.querySelector('#main')).innerText.includes(` + quoted(text) + `)`)
}

func quoted(text string) string {
	q, _ := json.Marshal(text) // a string can be
	return string(q)
}

// press clicks what has a name that begins with label as soon as it is enabled: a
// button, a link or a field.
func (b *tab) press(label string) {
	b.Helper()
	b.acts++
	b.until(`(() => {
		const top = [...document.querySelectorAll('dialog[open]')].pop();
		const named = (root) => [...root.querySelectorAll('button, a, input, summary')].find((e) =>
			(e.getAttribute('aria-label') || e.textContent || e.labels?.[0]?.textContent || '').trim().startsWith(` + quoted(label) + `) && e.getClientRects().length);
		const e = (top && named(top)) || named(document.querySelector('#toasts') ?? document.createElement('p')) || (top ? null : named(document));
		if (!e || e.disabled) return false;
		e.click();
		return true;
	})()`)
}

// click clicks the first element of a selector as soon as a pointer at its middle
// would hit it. It looks and clicks in one turn of the page, which a press at a
// place that was measured before does not: the page may have moved since. Browsers
// take it for a person's wish.
func (b *tab) click(selector string) {
	b.Helper()
	b.acts++
	b.until(`(() => {
		const e = document.querySelector(`+quoted(selector)+`);
		if (!e || e.disabled) return false;
		e.scrollIntoView({ block: 'nearest', behavior: 'instant' });
		const at = e.getBoundingClientRect(), hit = document.elementFromPoint(at.x + at.width / 2, at.y + at.height / 2);
		if (!hit || !e.contains(hit) && hit.closest('label')?.control !== e) return false;
		e.click();
		return true;
	})()`, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithUserGesture(true) })
}

// fill types into the field of a label, in place of what was there.
func (b *tab) fill(label, text string) {
	b.Helper()
	b.until(`(() => {
		const top = [...document.querySelectorAll('dialog[open]')].pop() ?? document;
		const e = [...top.querySelectorAll('input, textarea')].find((e) => ((e.labels?.[0]?.textContent || e.getAttribute('aria-label')) ?? '').trim().startsWith(` + quoted(label) + `));
		e?.focus();
		e?.select?.();
		return e && document.activeElement === e;
	})()`)
	if text == "" {
		b.do(chromedp.KeyEvent(kb.Delete))
		return
	}
	b.write(text)
}

// write types text into what has the focus.
func (b *tab) write(text string) {
	b.Helper()
	b.do(input.InsertText(text))
}

// pick chooses a value in the field of a name.
func (b *tab) pick(field, value string) {
	b.Helper()
	b.until(`(() => {
		const e = document.querySelector(` + quoted("select[name="+field+"]") + `);
		if (!e) return false;
		e.value = ` + quoted(value) + `;
		e.dispatchEvent(new Event('change', { bubbles: true }));
		return e.value === ` + quoted(value) + `;
	})()`)
}

func (b *tab) keys(keys ...string) {
	b.Helper()
	b.acts += len(keys)
	for _, k := range keys {
		if k >= " " && len(k) == 1 { // as a keyboard sends it: a page that takes the key leaves no letter
			b.do(input.DispatchKeyEvent(input.KeyDown).WithKey(k).WithText(k), input.DispatchKeyEvent(input.KeyUp).WithKey(k))
			continue
		}
		b.do(chromedp.KeyEvent(k))
	}
}

// one is a member of the newest record of a collection.
func one(a *apitest.App, path, member string) any {
	a.Helper()
	return a.Get("/api/v1/" + path).Want(200).At("data.0." + member)
}

// becomes waits until the first of the list has the member.
func becomes(a *apitest.App, path, member string, want any) {
	a.Helper()
	for deadline := time.Now().Add(patience); one(a, path, member) != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.Fatalf("%s of %s is %v and not %v", member, path, one(a, path, member), want)
		}
	}
}

// gone waits until a list is empty.
func (b *tab) gone(path string) {
	b.Helper()
	for end := time.Now().Add(patience); b.Get(path).Want(200).At("total") != 0.0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%s is never empty", path)
		}
	}
}

// slow bounds what the browser sends to so many bytes in a second; -1 lets it
// go as fast as it can.
func (b *tab) slow(rate float64) {
	b.Helper()
	b.do(network(false, rate))
}

// offline takes the network away from the page; slow gives it back.
func (b *tab) offline() {
	b.Helper()
	b.do(network(true, -1))
}

// network has no function in cdproto any more: what the protocol has in its place
// is not in older browsers.
func network(offline bool, up float64) chromedp.Action {
	return sent(
		"Network.emulateNetworkConditions",
		map[string]any{"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": up},
	)
}

// block has the page not reach addresses that match the patterns; no patterns
// block nothing.
func (b *tab) block(patterns ...string) {
	b.Helper()
	b.do(sent("Network.setBlockedURLs", map[string]any{"urls": append([]string{}, patterns...)}))
}

// sent is a command of the protocol by its name.
func sent(method string, params map[string]any) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error { return cdp.Execute(ctx, method, params, nil) })
}
