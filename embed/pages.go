package embed

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"
)

// Content-Security-Policy headers. None allows inline scripts or styles, framing, or another origin.
const (
	policyPage = "default-src 'none'; style-src 'self'; img-src 'self' data:; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	policyReference = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

// A Page is the data of one page. Its type chooses the template.
//
// If a page has a Base, it is the prefix of every address in the page: "" at the root of a host, "/kist" below a
// prefix. It never ends in a slash.
type Page interface {
	// Policy is the Content-Security-Policy that the page must be served with.
	Policy() string

	file() string
}

// formPage is a page without scripts.
type formPage struct{}

// Policy implements [Page].
func (formPage) Policy() string { return policyPage }

// ClaimPage asks for the first administrator's name and password, for those of somebody who is invited, or for a new
// password of an account. The form is posted to the page's own address, with the fields username, displayName, password
// and repeat.
type ClaimPage struct {
	Base     string
	Reset    bool   // a new password of the account UserName
	UserName string // as typed before; passwords are never sent back
	Shortest int    // minimum length of a password in bytes
	Errors   ClaimErrors
	Invited  *Invited // nil unless an invitation is used

	// Passkey may be made in place of a password. Its options are for navigator.credentials.create.
	Passkey PasskeyAsk
}

// Policy implements [Page].
func (p ClaimPage) Policy() string { return p.Passkey.policy(policyPage) }

// Invited is what the page of an invitation says.
type Invited struct {
	Token       string
	By          string   // who invites
	Collections []string // titles of what is shared
	DisplayName string   // as typed before
	SignedIn    string   // the user of the browser's session; "" without one
	Issuer      string   // name of the sign-in service; "" without one
	NoPassword  bool     // passwords are off
}

// Form reports whether the page has its form. It has one if passwords or passkeys can be used.
func (p ClaimPage) Form() bool { return p.Password() || p.Passkey.Options != "" }

// Password reports whether the form asks for a password.
func (p ClaimPage) Password() bool { return p.Invited == nil || !p.Invited.NoPassword }

// ClaimErrors says what was wrong with a claim, by field. Form is about the whole form. Empty means no error.
type ClaimErrors struct {
	Form, UserName, Display, Password, Repeat string
}

// Any reports whether there is an error.
func (e ClaimErrors) Any() bool { return e != ClaimErrors{} }

// First names the field that gets the focus: the user name if it is missing or was refused, otherwise the password,
// which has to be typed again after every refusal.
func (p ClaimPage) First() string {
	if !p.Reset && (p.UserName == "" || p.Errors.UserName != "") {
		return "username"
	}
	return "password"
}

// ClaimedPage tells the new administrator that they are signed in.
type ClaimedPage struct {
	formPage
	Base     string
	UserName string
}

// LoginPage asks for a name and a password. The form is posted to /login, with the fields username, password and next.
type LoginPage struct {
	Base     string
	Next     string // path to continue to
	UserName string // as typed before
	Problem  Problem
	Passkey  PasskeyAsk

	Unclaimed  bool   // nobody has an account yet
	Issuer     string // name of the sign-in service, or ""
	NoPassword bool   // passwords are not accepted
}

// StepPage asks for the code of the second step. The form is posted to /login/second-factor, with the fields ticket,
// code and next.
type StepPage struct {
	Base, Next, Ticket string
	Passkey            PasskeyAsk
	Problem            Problem
}

// A PasskeyAsk is a form that a script fills with the answer of a passkey and posts to Action, with the fields ticket,
// passkey and next. Options are for navigator.credentials.get, as JSON; "" is no form.
type PasskeyAsk struct{ Action, Next, Ticket, Options string }

// policy is the policy for a page with the form.
func (p PasskeyAsk) policy(without string) string {
	if p.Options != "" {
		return policyProof
	}
	return without
}

// A Problem says why a password was not accepted.
type Problem struct {
	Text string // a sentence, or ""
	Wait bool   // typing it again immediately does not help

	// Challenge is a proof of work that the browser has to solve first, as JSON. The solution goes into the form field
	// captcha. Without says when a browser without JavaScript may try again: "in 4 minutes".
	Challenge, Without string
}

// policyProof is policyPage for a page that solves a proof of work.
var policyProof = strings.Replace(policyPage,
	"default-src 'none'; ", "default-src 'none'; script-src 'self'; worker-src 'self'; ", 1)

// policy is the policy for a page with the problem.
func (p Problem) policy() string {
	if p.Challenge != "" {
		return policyProof
	}
	return policyPage
}

// ConfirmPage asks a user who is signed in to confirm that it is them. The form is posted to /login/confirm, with the
// fields password or code, and next. A page without any means says that there is none.
type ConfirmPage struct {
	Base, Next, UserName string
	Password, Code       bool
	Issuer               string // name of the sign-in service that can confirm it, or ""
	Passkey              PasskeyAsk
	Problem              Problem
}

// DevicePage asks whether a client may use the account. If Client is set, its form is posted to /device with user_code
// and action, approve or deny. Otherwise it asks for the code.
type DevicePage struct {
	formPage
	Base     string
	UserName string // of the account
	Code     string
	Client   string
	Address  string // "" if unknown
	Asked    time.Time
	Problem  string
}

// MessagePage shows a short message, such as that an item no longer exists.
type MessagePage struct {
	formPage
	Base  string
	Home  bool // with a link to the home page
	Title string
	Text  string // a sentence, may be empty
}

// LeavePage leads a browser that has signed out to the sign-in service, to sign out there too.
type LeavePage struct {
	formPage
	Base    string
	Issuer  string // name of the service
	Address string
}

// DeletePage asks whether to delete an item and shows nothing else about it. Its form is posted, empty, to the page's
// own address.
type DeletePage struct {
	formPage
	Base  string
	Title string
	Kind  string
}

// HomePage tells visitors what this server is.
type HomePage struct {
	formPage
	Base    string
	Version string // of the program; "" shows none
}

// ReferencePage is the interactive view of the schema. Its addresses are relative to its own, two segments below the
// root (/api/v1/reference, without a final slash), so that it needs no Base field.
type ReferencePage struct{}

// Base is the relative path from the page to the root.
func (ReferencePage) Base() string { return "../.." }

// Policy implements [Page].
func (p LoginPage) Policy() string { return p.Passkey.policy(p.Problem.policy()) }

// Policy implements [Page].
func (p StepPage) Policy() string { return p.Passkey.policy(policyPage) }

// Policy implements [Page].
func (p ConfirmPage) Policy() string { return p.Passkey.policy(policyPage) }

// Policy implements [Page]. Scripts may reach this server and nothing else.
func (ReferencePage) Policy() string { return policyReference }

func (ClaimPage) file() string     { return "claim.html" }
func (ClaimedPage) file() string   { return "claimed.html" }
func (LoginPage) file() string     { return "login.html" }
func (StepPage) file() string      { return "step.html" }
func (ConfirmPage) file() string   { return "confirm.html" }
func (DevicePage) file() string    { return "device.html" }
func (MessagePage) file() string   { return "message.html" }
func (LeavePage) file() string     { return "leave.html" }
func (DeletePage) file() string    { return "delete.html" }
func (HomePage) file() string      { return "home.html" }
func (ReferencePage) file() string { return "reference.html" }

//go:embed pages
var pageFiles embed.FS

// templates parses every page once for each language, on first use. The pages are part of the binary, so a panic means
// that the build is broken.
var templates = sync.OnceValue(func() map[Lang]map[string]*template.Template {
	all := make(map[Lang]map[string]*template.Template)
	for _, l := range Langs() {
		all[l] = l.templates()
	}
	return all
})

func (l Lang) templates() map[string]*template.Template {
	element := func(name, attributes string) func(string) template.HTML {
		return func(text string) template.HTML {
			// #nosec G203 -- the text is escaped
			return template.HTML("<" + name + attributes + ">" + template.HTMLEscapeString(text) + "</" + name + ">")
		}
	}
	layout := must(template.New("layout.html").Funcs(template.FuncMap{
		"static": Name, "texts": func(name string) (string, error) { return Name(l.scriptName(name)) },
		"moduleTexts": func(module string) string { return l.ModuleTexts()[module] }, // "" if it has none
		"lang":        func() Lang { return l }, "t": l.T, "th": l.HTML,
		"bdi": element("bdi", ""), "bold": element("b", ` dir="auto"`), "code": element("code", ""),
		"link": func(address, text string) template.HTML {
			start := `<a href="` + template.HTMLEscapeString(address) + `">`
			// #nosec G203 -- both are escaped, and the address is ours
			return template.HTML(start + template.HTMLEscapeString(text) + "</a>")
		},
		"at": func(t time.Time, text string) template.HTML {
			// #nosec G203 -- the text is escaped
			return template.HTML(`<time datetime="` + instant(t) + `">` + template.HTMLEscapeString(text) + "</time>")
		},
		"date": l.Date, "time": l.Time, "instant": instant, "size": l.Size, "number": l.Number,
		"fileTypes": l.fileTypes,
	}).ParseFS(pageFiles, "pages/layout.html"))
	set := make(map[string]*template.Template)
	for _, name := range must(fs.Glob(pageFiles, "pages/*.html")) {
		set[path.Base(name)] = must(must(layout.Clone()).ParseFS(pageFiles, name))
	}
	return set
}

// Render writes a page as UTF-8 HTML in a language. If the page cannot be rendered, it writes nothing.
// It is safe for concurrent use.
func Render(w io.Writer, l Lang, page Page) error {
	var body bytes.Buffer
	if err := templates()[l][page.file()].Execute(&body, page); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	_, err := w.Write(body.Bytes())
	return err
}
