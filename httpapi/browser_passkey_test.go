package httpapi_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// openLocalhost is openBrowser at the name localhost, where browsers have passkeys.
func openLocalhost(t *testing.T) *tab {
	t.Helper()
	t.Parallel()
	chromium(t)
	a := apitest.Start(t, apitest.AtHome)
	a.URL = strings.Replace(a.URL, "127.0.0.1", "localhost", 1)
	u, err := url.Parse(a.URL)
	a.NoErr(err)
	a.Server.Base, a.Server.BaseURL, a.Server.BaseName = a.URL, u, "localhost"
	b := profile(a)
	b.do(webauthn.Enable())
	return b
}

// authenticator plugs an authenticator into the tab, with credentials.
func (b *tab) authenticator(keys ...*webauthn.Credential) (id webauthn.AuthenticatorID) {
	b.Helper()
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		id, err = webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}).Do(ctx)
		for _, k := range keys {
			if err == nil {
				err = webauthn.AddCredential(id, k).Do(ctx)
			}
		}
		return err
	}))
	return id
}

// unplug takes the authenticator away and returns its credential.
func (b *tab) unplug(id webauthn.AuthenticatorID) *webauthn.Credential {
	b.Helper()
	var all []*webauthn.Credential
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		all, err = webauthn.GetCredentials(id).Do(ctx)
		if err != nil {
			return err
		}
		return webauthn.RemoveVirtualAuthenticator(id).Do(ctx)
	}))
	return all[0]
}

// A passkey is added in the app, signs in without a name, and confirms a session.
func TestBrowserPasskeys(t *testing.T) {
	b := openLocalhost(t)
	is := is.New(t)
	b.WithPassword(b.User, "correct horse")
	b.signIn()
	sees := func(text string) {
		t.Helper()
		b.until(`(document.body?.innerText ?? '').replaceAll('\u00a0', ' ').includes(` + quoted(text) + `)`)
	}
	add := func(name string) {
		t.Helper()
		b.press("New passkey")
		b.fill("Name", name)
		b.press("Add")
	}
	phone := b.authenticator()
	b.open("/account/security")
	add("phone")
	sees("shown only once")
	b.press("Done")
	sees("added just now")
	first := b.unplug(phone)
	is.Equal(first.RpID, "localhost")
	is.True(first.IsResidentCredential)
	stick := b.authenticator()
	add("stick")
	b.until(`document.querySelectorAll('ul[aria-label=Passkeys] .name').length === 2`)
	second := b.unplug(stick)

	signIn := func(says string, prepare func(id webauthn.AuthenticatorID) chromedp.Action, keys ...*webauthn.Credential) {
		t.Helper()
		id := b.authenticator(keys...)
		b.do(cdpnet.ClearBrowserCookies(), chromedp.Navigate(b.URL+"/login?next=/account/security"))
		if prepare != nil {
			b.do(prepare(id))
		}
		b.press("Use a passkey")
		sees(says)
		b.do(webauthn.RemoveVirtualAuthenticator(id))
	}
	nothing := "The passkey was not used."
	for _, key := range []*webauthn.Credential{first, second} {
		used := *key
		used.SignCount = 10
		signIn("Recovery codes", nil, &used)
		copied := *key
		copied.SignCount = 2
		signIn("there may be a copy of it", nil, &copied)
	}
	other := *first
	other.RpID, other.SignCount = "other.localhost", 20
	signIn(nothing, nil, &other) // the browser does not offer it here
	good := *first
	good.SignCount = 20
	signIn(nothing, func(id webauthn.AuthenticatorID) chromedp.Action {
		return webauthn.SetUserVerified(id, false)
	}, &good)
	good.SignCount = 30
	signIn("does not sign in here", func(id webauthn.AuthenticatorID) chromedp.Action {
		return webauthn.SetResponseOverrideBits(id).WithIsBadUV(true)
	}, &good)
	good.SignCount = 40
	signIn("Recovery codes", nil, &good)

	// Ten minutes later the app asks who it is, and then goes on.
	b.Clock.Advance(people.RecentTime)
	good.SignCount = 50
	b.authenticator(&good)
	b.press("New recovery codes")
	sees("The old ones stop working.")
	b.click("dialog button.main")
	sees("Confirm it’s you")
	b.press("Use a passkey")
	sees("shown only once")
}
