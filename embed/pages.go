package embed

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"
)

// Policies for the Content-Security-Policy header. None allows inline scripts or styles, framing, or another origin.
const (
	policyPage = "default-src 'none'; style-src 'self'; img-src 'self' data:; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	policyReference = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

// A Page is the data of one page. Its type chooses the template.
//
// Where a page has a Base, that goes before every address in it: "" at the root of a host, "/kist" below a prefix. It
// never ends in a slash.
type Page interface {
	// Policy is the Content-Security-Policy that the page must be served with and works under.
	Policy() string

	file() string
}

// ClaimPage asks for the first administrator's name and password. The form is posted to the address the page was read
// from, with the fields username, password and repeat.
type ClaimPage struct {
	Base     string
	UserName string // what was typed before; passwords are never given back
	Shortest int    // least length of a password in bytes, told before one is typed
	Errors   ClaimErrors
}

// ClaimErrors says what was wrong with a claim, by field; Form is about all of it. Empty means nothing was wrong.
type ClaimErrors struct {
	Form, UserName, Password, Repeat string
}

// Any reports whether something was wrong.
func (e ClaimErrors) Any() bool { return e != ClaimErrors{} }

// First names the field to type in first: the user name when it is missing or was refused, else the password, which has
// to be typed again after every refusal.
func (p ClaimPage) First() string {
	if p.UserName == "" || p.Errors.UserName != "" {
		return "username"
	}
	return "password"
}

// ClaimedPage tells the new administrator the API key, which is shown this once: the answer must not be stored.
type ClaimedPage struct {
	Base     string
	UserName string
	APIKey   string
	Address  string // absolute address of the server, with the prefix and without a slash at its end
}

// Curl is a command that uploads a file, ready for a POSIX shell. Nothing in the key or the address can end its quotes.
func (p ClaimedPage) Curl() string {
	return "curl -F file=@photo.jpg -F isPublic=true \\\n" +
		"-H " + quote("x-api-key: "+p.APIKey) + " \\\n" +
		quote(strings.TrimSuffix(p.Address, "/")+"/api/v1/upload")
}

// LoginPage asks for a name and a password. The form is posted to /login, with the fields username, password and next.
type LoginPage struct {
	Base     string
	Next     string // path to go on to
	UserName string // what was typed before
	Problem  Problem

	Unclaimed bool // nobody has an account yet
}

// A Problem is why a password was not taken.
type Problem struct {
	Text string // a sentence; "" if there is none
	Wait bool   // there is no use in typing it again at once

	// Challenge is a proof of work that the browser has to solve first, as JSON. What solves it goes into the field
	// captcha of the form. Without says when a browser without JavaScript may try again: "in 4 minutes".
	Challenge, Without string
}

// policyProof is policyPage for a page that solves a proof of work.
var policyProof = strings.Replace(policyPage, "default-src 'none'; ", "default-src 'none'; script-src 'self'; worker-src 'self'; ", 1)

// policy is what a page with the problem needs.
func (p Problem) policy() string {
	if p.Challenge != "" {
		return policyProof
	}
	return policyPage
}

// DevicePage asks whether a client may use the account. With a Client, its form is posted to /device with user_code and
// action, approve or deny; without one it asks for the code.
type DevicePage struct {
	Base     string
	UserName string // of the account
	Code     string
	Client   string
	Address  string // "" if it is not known
	Asked    time.Time
	Problem  string
}

// MessagePage says one thing calmly, such as that nothing is there any more.
type MessagePage struct {
	Base   string
	Status int // shown above the title unless 0
	Title  string
	Text   string // a sentence, may be empty
}

// DeletePage asks whether an item is to be deleted, of which it tells no more. Its form is posted, empty, to the address
// the page was read from.
type DeletePage struct {
	Base  string
	Title string
	Kind  string
}

// HomePage tells visitors what this is.
type HomePage struct{ Base string }

// ReferencePage is the interactive view of the schema. Its addresses are relative to two segments below the root of the
// API's version (/api/v1/reference, without a slash at the end), so that it needs no Base.
type ReferencePage struct{}

// Base leads from the page's address to the root.
func (ReferencePage) Base() string { return "../.." }

// Policy implements [Page].
func (ClaimPage) Policy() string { return policyPage }

// Policy implements [Page].
func (ClaimedPage) Policy() string { return policyPage }

// Policy implements [Page].
func (p LoginPage) Policy() string { return p.Problem.policy() }

// Policy implements [Page].
func (DevicePage) Policy() string { return policyPage }

// Policy implements [Page].
func (MessagePage) Policy() string { return policyPage }

// Policy implements [Page].
func (DeletePage) Policy() string { return policyPage }

// Policy implements [Page].
func (HomePage) Policy() string { return policyPage }

// Policy implements [Page]. Scripts may reach this server and nothing else.
func (ReferencePage) Policy() string { return policyReference }

func (ClaimPage) file() string     { return "claim.html" }
func (ClaimedPage) file() string   { return "claimed.html" }
func (LoginPage) file() string     { return "login.html" }
func (DevicePage) file() string    { return "device.html" }
func (MessagePage) file() string   { return "message.html" }
func (DeletePage) file() string    { return "delete.html" }
func (HomePage) file() string      { return "home.html" }
func (ReferencePage) file() string { return "reference.html" }

//go:embed pages
var pageFiles embed.FS

// templates parses every page once, when the first one is asked for.
var templates = sync.OnceValues(func() (map[string]*template.Template, error) {
	layout, err := template.New("layout.html").
		Funcs(template.FuncMap{"static": Name, "date": date, "instant": instant}).
		ParseFS(pageFiles, "pages/layout.html")
	if err != nil {
		return nil, err
	}
	set := make(map[string]*template.Template)
	for _, page := range []Page{
		ClaimPage{},
		ClaimedPage{},
		LoginPage{},
		DevicePage{},
		MessagePage{},
		DeletePage{},
		HomePage{},
		ReferencePage{},
		AppPage{},
		ItemPage{},
		LockedPage{},
		CardPage{},
		GamesPage{},
		HelpPage{},
		UploadPage{},
	} {
		t, err := layout.Clone()
		if err != nil {
			return nil, err
		}
		if set[page.file()], err = t.ParseFS(pageFiles, "pages/"+page.file()); err != nil {
			return nil, err
		}
	}
	return set, nil
})

// Render writes a page as UTF-8 HTML. It writes the whole page or, when it cannot be rendered, nothing.
// It is safe for concurrent use.
func Render(w io.Writer, page Page) error {
	set, err := templates()
	if err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	var body bytes.Buffer
	if err := set[page.file()].Execute(&body, page); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	_, err = w.Write(body.Bytes())
	return err
}

// quote makes one word of a POSIX shell.
func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
