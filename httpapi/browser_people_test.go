package httpapi_test

import (
	"strings"
	"testing"

	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// TestBrowserPeople: a user hides with a switch, and an administrator closes the list.
func TestBrowserPeople(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	const find = `[...document.querySelectorAll('label.check')].find((e) => e.textContent === 'Others on this server can find me')`
	b.open("/account")
	b.until(find + `?.querySelector('[role=switch]').checked`)
	b.js(find + `.click()`)
	b.says("Saved")
	is.Equal(b.Get("/api/v1/me").At("data.hidden"), true)
	b.open("/account")
	b.until(find + `?.querySelector('[role=switch]').checked === false`)
	b.js(find + `.click()`)
	b.says("Saved")
	is.Equal(b.Get("/api/v1/me").At("data.hidden"), false)

	b.open("/admin")
	b.until(`!!document.querySelector('[name=listPeople]')`)
	b.click("[name=listPeople]")
	b.says("Saved.")
	is.Equal(b.Get("/api/v1/admin/settings").At("data.listPeople"), false)
}

// TestBrowserInvitation: an administrator invites, the person joins without a script and sees what is shared.
func TestBrowserInvitation(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	note := b.Note("Bring sun cream", "")
	b.Post("/api/v1/collections", `{"title":"Holidays","source":{"items":["`+note+`"]}}`).Want(201)
	b.open("/admin")
	b.press("Invite")
	b.until(`!!document.querySelector('dialog select')`)
	b.js(`[...document.querySelectorAll('dialog .field')].find((f) => f.textContent.startsWith('Holidays')).
		querySelector('select').value = 'edit'`)
	// It ends in a week, and at the latest in 90 days.
	is.Equal(b.js(`document.querySelector('dialog [name=expiresAt]').value`), "week")
	is.Equal(b.js(`[...document.querySelector('dialog [name=expiresAt]').options].map((o) => o.value).join()`), "hour,day,week,month,other")
	b.pick("expiresAt", "day")
	b.press("Make the link")
	b.until(`document.querySelector('dialog img.qr')?.naturalWidth > 0`)
	link, _ := b.js(`document.querySelector('dialog input.mono').value`).(string)
	is.True(strings.Contains(link, "/join/"))
	b.press("Close")
	b.until(`document.querySelector('[aria-label="Open invitations"]')?.textContent.includes('Holidays')`)

	b.do(cdpnet.ClearBrowserCookies(), chromedp.Navigate(link))
	b.until(`document.body.textContent.includes('Holidays')`)
	b.fill("Username", "bob")
	b.fill("Password", "correct horse")
	b.fill("Confirm password", "correct hearse")
	b.press("Create account")
	b.until(`document.querySelector('#repeat-error')`)
	is.Equal(b.js(`document.querySelector('#username').value`), "bob")
	b.fill("Password", "correct horse")
	b.fill("Confirm password", "correct horse")
	b.press("Create account")
	b.until(`location.pathname.startsWith('/collections/') && document.body?.textContent.includes('Bring sun cream')`)
	b.do(chromedp.Navigate(link))
	b.until(`document.body?.textContent.includes('This invitation does not work')`)
}

// TestBrowserJoinByPasskey: the browser makes a passkey in place of a password, and signs in with it again.
func TestBrowserJoinByPasskey(t *testing.T) {
	is := is.New(t)
	b := openLocalhost(t)
	link := b.Post("/api/v1/admin/invitations", `{}`).Want(201).Text("url")
	b.authenticator()
	b.do(cdpnet.ClearBrowserCookies(), chromedp.Navigate(link))
	b.press("Use a passkey instead")
	is.Equal(b.js(`location.href`), link) // the name is missing
	b.fill("Username", "bob")
	b.press("Use a passkey instead")
	b.until(`location.pathname === '/' && document.querySelector('#main')`)
	b.do(cdpnet.ClearBrowserCookies(), chromedp.Navigate(b.URL+"/login?next=/account"))
	b.press("Use a passkey")
	b.until(`location.pathname === '/account' && document.querySelector('#main')?.textContent.includes('bob')`)
}

// TestBrowserSeesOnly: who may no longer change a note is told so, and does not come into its editor by a draft.
func TestBrowserSeesOnly(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	note := b.Note("Bring sun cream", "")
	at := "/api/v1/collections/" + b.Collect("trip", "", note)
	bob := b.AddUser("bob", people.Member)
	role := func(role string) {
		t.Helper()
		b.Do(apitest.Request{Method: "PUT", Path: at + "/members/" + bob.ID.String(), JSON: `{"role":"` + role + `"}`}).Want(200)
	}
	role("edit")
	b.do(cdpnet.SetCookie(b.SessionCookie(), b.SessionOf(bob)).WithURL(b.URL))
	page := "/notes/" + note
	b.open(page)
	b.press("Edit")
	b.until(`document.querySelector('dialog[open] [name=content]')`)
	b.js(`document.querySelector('dialog[open] [name=content]').focus()`)
	b.write("And ")
	role("see")
	b.press("Save")
	b.shows("can be changed only by the owner")
	b.press("Cancel")
	b.until(`document.querySelector('dialog.reader')`)
	b.press("Edit")
	b.says("You may only see this now")
	b.open(page)
	b.until(`document.querySelector('dialog.reader')?.textContent.includes('Bring sun cream')`)
	is.Equal(b.js(`document.querySelector('dialog [aria-label=Edit]')`), nil)
}
