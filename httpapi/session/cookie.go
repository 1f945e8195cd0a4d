package session

import (
	"net/http"

	"kist/httpapi/web"
	"kist/kv/people"
)

// Cookies for the whole site. Their names are those of siteCookie.
const (
	// CookieName is that of the session cookie. Its value is the session's secret.
	CookieName = "kist_session"

	// deviceCookie marks a browser that has signed in: see setDevice.
	deviceCookie = "kist_device"

	// flowCookie has the state of a sign-in through an issuer: see flow. The issuer's redirect has to bring it.
	flowCookie = "kist_oidc"
)

// siteCookie is the name of a cookie for the whole site. Browsers accept a cookie with the prefix only over HTTPS and
// only from this host (RFC 6265bis, section 4.1.3). Another host of the domain could have set a cookie without it, so
// over HTTPS no other name is read.
func siteCookie(c *web.Request, name string) string {
	if c.Secure() {
		return "__Host-" + name
	}
	return name
}

// sessionSecret is the secret in the request's session cookie, or "".
func sessionSecret(c *web.Request) string { return readCookie(c, CookieName) }

// setSession makes the browser store a session's secret for as long as a session lasts without
// being used, or forget it if secret is "".
func setSession(c *web.Request, secret string) {
	age := int(people.SlideTime.Seconds())
	if secret == "" {
		age = -1
	}
	setCookie(c, CookieName, secret, age)
}

// RenewCookie makes the browser keep the session cookie of the request for as long as the
// session lasts now.
func RenewCookie(c *web.Request) { setSession(c, sessionSecret(c)) }

// readCookie is the value of a cookie for the whole site, or "".
func readCookie(c *web.Request, name string) string {
	cookie, err := c.R.Cookie(siteCookie(c, name))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie makes the browser store a cookie for so many seconds, or forget it if they are
// negative. Scripts cannot read it. Other sites do not send it, except with a link or redirect
// to a page here, so that such a visitor is signed in.
func setCookie(c *web.Request, name, value string, age int) {
	http.SetCookie(c.W, &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: siteCookie(c, name), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.Secure(),
	})
}
