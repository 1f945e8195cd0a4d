package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/oidc"
)

// TestBrowserOIDC links an account, signs out here and at the provider, and in again.
func TestBrowserOIDC(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	p := apitest.NewProvider(t)
	b.Server.OIDC = p.Client(t, b.URL)
	atProvider := func() {
		t.Helper()
		b.until(`location.pathname === '/in' && !!document.querySelector('[name=username]')`)
		b.js(`document.querySelector('[name=username]').value = 'ann', document.querySelector('form').submit()`)
	}
	b.open("/account/security")
	b.press("Link Example ID")
	atProvider()
	b.until(`location.pathname === '/account/security' && document.querySelector('#identities .name')?.textContent === 'ann'`)

	b.open("/account")
	b.press("Sign out")
	b.until(`location.pathname === '/login' && !!document.querySelector('h1')`)
	b.press("Sign in with Example ID")
	atProvider()
	b.until(`location.pathname === '/' && !!document.querySelector('#main')`)
	is.True(b.Sound())
}

// TestBrowserOIDCRefused: in a browser, too, only an answer of the provider to this browser's own question signs in.
func TestBrowserOIDCRefused(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	p := apitest.NewProvider(t)
	b.Server.OIDC = p.Client(t, b.URL, func(o *oidc.Options) { o.AllowGroup, o.Create = "family", true })
	var mu sync.Mutex
	var back string // where the provider sent the browser last
	chromedp.ListenTarget(b.ctx, func(event any) {
		if e, ok := event.(*cdpnet.EventRequestWillBeSent); ok && strings.HasPrefix(
			e.Request.URL, b.URL+"/login/oidc/callback?",
		) {
			mu.Lock()
			defer mu.Unlock()
			back = e.Request.URL
		}
	})
	callback := func() string {
		mu.Lock()
		defer mu.Unlock()
		return back
	}
	// begin comes as a stranger and goes to the provider; finish signs in there.
	begin := func() {
		t.Helper()
		b.do(cdpnet.ClearBrowserCookies())
		b.open("/login?next=/notes")
		b.press("Sign in with Example ID")
		b.until(`location.pathname === '/in' && !!document.querySelector('[name=username]')`)
	}
	finish := func(name string) {
		t.Helper()
		b.js(`void (document.querySelector('[name=username]').value = ` + quoted(name) + `, document.querySelector('form').submit())`)
	}
	signIn := func(name string) {
		t.Helper()
		begin()
		finish(name)
	}
	cookie := func(name string) string {
		t.Helper()
		var value string
		b.do(chromedp.ActionFunc(func(ctx context.Context) error {
			all, err := cdpnet.GetCookies().WithURLs([]string{b.URL + "/login"}).Do(ctx)
			for _, c := range all {
				if c.Name == name {
					value = c.Value
				}
			}
			return err
		}))
		return value
	}
	who := func() string { // is signed in
		t.Helper()
		got := b.App.Do(apitest.As(b.SessionCookie()+"="+cookie(b.SessionCookie()), "GET", "/api/v1/me", nil))
		if got.Status == 401 {
			return ""
		}
		return got.Want(200).Text("data.username")
	}
	enters := func(name string) {
		t.Helper()
		b.until(`location.pathname === '/notes' && !!document.querySelector('#main')`)
		is.Equal(who(), name)
	}
	refused := func(text string) {
		t.Helper()
		b.until(`location.pathname === '/login/oidc/callback' && document.body?.innerText.includes(` + quoted(text) + `)`)
		is.Equal(who(), "")
	}
	signIn("eve")
	enters("eve") // an account that did not exist

	// An answer comes twice: without the question, and with the cookie of it.
	begin()
	kept := cookie("kist_oidc")
	finish("eve")
	enters("eve")
	used := callback()
	b.do(cdpnet.ClearBrowserCookies(), chromedp.Navigate(used))
	refused("started in another browser")
	b.do(cdpnet.SetCookie("kist_oidc", kept).WithURL(b.URL), chromedp.Navigate(used))
	refused("did not confirm")

	// The question of another browser, and a nonce that was not sent.
	begin()
	b.js(`void (location.href = ` + quoted(b.URL+"/login/oidc/callback?code=x&state="+strings.Repeat("x", 43)) + `)`)
	refused("does not belong to a sign-in")
	p.Set(func() {
		p.Forge = func(claims map[string]any) string {
			claims["nonce"] = "another"
			return p.Key.Sign(`{"alg":"RS256","kid":"first"}`, claims)
		}
	})
	signIn("eve")
	refused("did not confirm")
	p.Set(func() { p.Forge = nil })

	p.Set(func() { p.Key = apitest.NewSigningKey("second") })
	signIn("eve")
	enters("eve")
	p.Set(func() { p.Skew = 5*time.Minute + 30*time.Second })
	signIn("eve")
	enters("eve")
	p.Set(func() { p.Skew = 10 * time.Minute })
	signIn("eve")
	refused("did not confirm")
	p.Set(func() { p.Skew = 0 })

	// Without the group, the session that the browser still has ends too.
	signIn("eve")
	enters("eve")
	p.Set(func() { p.Groups = []string{"friends"} })
	b.js(`void (location.href = '/login/oidc')`)
	b.until(`location.pathname === '/in' && !!document.querySelector('[name=username]')`)
	finish("eve")
	refused("may not use this server")
	p.Set(func() { p.Groups = []string{"family"} })

	b.Disable(b.UserNamed("eve"))
	signIn("eve")
	refused("This account is disabled.")
	is.True(b.Sound())

	// The issuer goes away before the server can ask it for the token.
	p.Set(func() { p.Forge = func(map[string]any) string { panic(http.ErrAbortHandler) } })
	signIn("eve")
	refused("cannot be reached")
	is.True(b.js(`!!document.querySelector('[name=password]')`).(bool))
}
